# SPDX-License-Identifier: Apache-2.0
"""profd as a service of a machine: what its administrator and its users do with it."""

import contextlib
import json

from machine import wait_for

SERVICE, SOCKET = "profd.service", "profd.socket"
SOCKET_PATH = "/run/profd/profd.sock"
STATE = "/var/lib/profd"
CATALOG = f"{STATE}/catalog.db"
CONFIG = "/etc/profd/profd.conf"
DROP_INS = f"/etc/systemd/system/{SERVICE}.d"
COLLECT_FOREIGN = "collect-foreign.conf"
FINAL = ("complete", "partial", "failed", "cancelled")

# base/log.h
MESSAGE = "MESSAGE_ID=1ba1d1a2c1f04e0f9c1f6f0e1f6d"
RELOADED, CONFIG_REFUSED, STOP_OWED, OWED_STOP_SENT, MIGRATED = (MESSAGE + event for event in
                                                                 ("0a03", "0a04", "0a08", "0a09", "0a0c"))


# Its administrator


def install(machine, package):
    return machine("apt-get", "install", "-y", machine.put(package, "/root"))


def enable(machine):
    """Workers run as users of their own here, hence the drop-in that the package ships for that."""
    machine("usermod", "--append", "--groups", "profd", "alice")
    machine("install", "-D", "-m", "644", "-t", DROP_INS, f"/usr/share/doc/profd/drop-ins/{COLLECT_FOREIGN}")
    machine("systemctl", "daemon-reload")
    machine("systemctl", "enable", "--now", SOCKET, SERVICE)


def restart(machine):
    machine("systemctl", "daemon-reload")
    machine("systemctl", "reset-failed", SERVICE, check=False)  # tests restart it more often than anybody should
    machine("systemctl", "restart", SERVICE)


@contextlib.contextmanager
def drop_in(machine, text):
    """profd runs with more in its unit for a block."""
    path = f"{DROP_INS}/test.conf"
    machine.write(path, text)
    restart(machine)
    try:
        yield
    finally:
        machine("rm", path)
        restart(machine)


def main_pid(machine):
    return int(machine.show(SERVICE, "MainPID")["MainPID"])


def is_active(machine, unit=SERVICE):
    return machine.show(unit, "ActiveState")["ActiveState"] == "active"


def wait_back(machine, old):
    """Waits until profd is up as another process than it was."""
    wait_for(lambda: is_active(machine) and main_pid(machine) not in (0, old), why=lambda: machine.journal("-u", SERVICE))


def wait_journal(machine, *matches):
    """Waits until profd has logged such a line, and gives all of them."""
    def look():
        return machine.journal("-u", SERVICE, *matches, check=False)
    return wait_for(look, why=lambda: machine.journal("-u", SERVICE))


# Its users


def profctl(machine, *words, user="alice"):
    return machine.as_user(user, "profctl", *words)


def profctl_json(machine, *words, user="alice"):
    return json.loads(profctl(machine, *words, "--json", user=user))


def start(machine, fleet, *words, duration="300ms"):
    """Starts a session and gives its id, as s7."""
    return profctl(machine, "start", "--router", fleet.router, "--duration", duration, "--quiet", *words).split()[0]


def session(machine, name):
    return profctl_json(machine, "status", name)


def traces_of(machine, name):
    return profctl_json(machine, "list-traces", "--session", name)["traces"]


def wait_state(machine, name, *states):
    """Waits until the session is in one of the states."""
    def look():
        found = session(machine, name)
        assert found["state"] in states or found["state"] not in FINAL, found
        return found["state"] in states and found
    return wait_for(look, why=lambda: str(session(machine, name)))


def wait_complete(machine, name):
    found = wait_state(machine, name, *FINAL)
    assert found["state"] == "complete", profctl(machine, "show", name)
    return found
