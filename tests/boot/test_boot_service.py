# SPDX-License-Identifier: Apache-2.0
"""profd.service and profd.socket under systemd: activation, ends of every kind, the watchdog, reload."""

import contextlib

import pytest
from machine import wait_for
from profd_unit import (CONFIG, CONFIG_REFUSED, OWED_STOP_SENT, RELOADED, SERVICE, SOCKET, SOCKET_PATH, drop_in, is_active,
                        main_pid, profctl, start, traces_of, wait_back, wait_complete, wait_journal, wait_state)

START, STOP = "/start_profile", "/stop_profile"


def profile_calls(fleet, worker):
    return [call["path"] for call in fleet.journal(worker)["requests"] if call["path"] in (START, STOP)]


def check_stopped(fleet):
    """No worker's profiler was left running: the last that each was asked is a stop."""
    for worker in range(len(fleet.workers)):
        assert profile_calls(fleet, worker)[-2:] == [START, STOP]


def signal_main(host, name):
    host("systemctl", "kill", "--kill-who=main", f"--signal=SIG{name}", SERVICE)


@pytest.fixture(autouse=True)
def limits(host):
    """Tests end it more often in a minute than a unit may."""
    host("systemctl", "reset-failed", SERVICE, check=False)


def test_the_socket_starts_profd(host):
    host("systemctl", "stop", SERVICE)
    assert not is_active(host) and is_active(host, SOCKET)
    profctl(host, "list-sessions")
    assert is_active(host)


def test_the_socket_is_the_groups(host):
    assert host("stat", "-c", "%U:%G %a %F", SOCKET_PATH).strip() == "profd:profd 660 socket"


def test_clients_wait_over_a_restart(host):
    old, inode = main_pid(host), host("stat", "-c", "%i", SOCKET_PATH)
    host("systemctl", "restart", "--no-block", SERVICE)
    for _ in range(10):
        profctl(host, "list-sessions")
    wait_back(host, old)
    profctl(host, "list-sessions")
    assert host("stat", "-c", "%i", SOCKET_PATH) == inode


def test_a_session_survives_sigkill(host, fleet):
    """It goes on, and ends when it was meant to."""
    with drop_in(host, "[Service]\nRestartSec=200ms\n"):
        name, old = start(host, fleet, duration="6s"), main_pid(host)
        wait_state(host, name, "recording")
        signal_main(host, "KILL")
        wait_back(host, old)
        wait_state(host, name, "recording")
        done = wait_complete(host, name)
    assert done["stopped_at"] - done["recording_at"] >= 5_900_000_000
    assert len(traces_of(host, name)) == len(fleet.workers)
    check_stopped(fleet)


def test_a_pending_stop_is_sent_after_sigkill(host, fleet):
    """profd is away when the recording should end: that is what the next one makes up for first."""
    with drop_in(host, "[Service]\nRestartSec=3s\n"):
        name, old = start(host, fleet, duration="1500ms"), main_pid(host)
        wait_state(host, name, "recording")
        signal_main(host, "KILL")
        wait_back(host, old)
        wait_complete(host, name)
        said = wait_journal(host, OWED_STOP_SENT, f"PROFD_SESSION={name}")
    assert any(worker in said for worker in fleet.workers)
    check_stopped(fleet)


def test_the_watchdog_brings_it_back(host, fleet):
    with drop_in(host, "[Service]\nWatchdogSec=2s\nTimeoutAbortSec=2s\nRestartSec=200ms\n"):
        name, old = start(host, fleet, duration="6s"), main_pid(host)
        wait_state(host, name, "recording")
        signal_main(host, "STOP")
        wait_back(host, old)
        wait_complete(host, name)
        assert host.show(SERVICE, "NRestarts")["NRestarts"] == "1"
    assert "Watchdog timeout" in host.journal("-u", SERVICE)
    check_stopped(fleet)


def test_an_idle_profd_feeds_its_watchdog(host):
    with drop_in(host, "[Service]\nWatchdogSec=1s\n"):
        old = main_pid(host)
        with pytest.raises(AssertionError):
            wait_for(lambda: main_pid(host) != old, timeout_s=3)


@contextlib.contextmanager
def configuration(host, text):
    """Another profd.conf for a block."""
    before = host("cat", CONFIG)
    host.write(CONFIG, text)
    try:
        yield
    finally:
        host.write(CONFIG, before)


def count(host, *matches):
    return len(host.journal("-u", SERVICE, *matches, check=False).splitlines())


def reload(host, event):
    """Reloads, and waits for the event in the journal."""
    before = count(host, event)
    host("systemctl", "reload", SERVICE, check=False)
    wait_for(lambda: count(host, event) > before, why=lambda: host.journal("-u", SERVICE))


def test_reload_keeps_sessions(host, fleet):
    name, old = start(host, fleet, duration="60s"), main_pid(host)
    wait_state(host, name, "recording")
    with configuration(host, "[timeouts]\nsession=45s\n"):
        reload(host, RELOADED)
        wait_state(host, name, "recording")
        said = host.refused("alice", "profctl", "start", "--router", fleet.router, "--duration", "50s")
        assert "45" in said, said
    with configuration(host, "[limits]\nsessions=many\n[nonsense]\nx=1\n"):
        reload(host, CONFIG_REFUSED)
        wait_state(host, name, "recording")
    reload(host, RELOADED)
    assert main_pid(host) == old and is_active(host)
    profctl(host, "stop", name)
    wait_complete(host, name)
    check_stopped(fleet)


def test_a_wrong_configuration_is_not_tried_for_ever(host):
    """Restarted with it, profd says what is wrong, once."""
    with configuration(host, "[nonsense]\nx=1\n"):
        host.run("systemctl", "restart", SERVICE, check=False)
        unit = wait_for(lambda: (u := host.show(SERVICE, "ActiveState", "ExecMainStatus", "NRestarts"))
                        and u["ActiveState"] == "failed" and u)
        assert unit["ExecMainStatus"] == "2" and unit["NRestarts"] == "0"
        assert "nonsense" in host.journal("-u", SERVICE, "-n", "20")
    host("systemctl", "reset-failed", SERVICE, SOCKET)
    host("systemctl", "start", SOCKET, SERVICE)


def test_its_sandbox_holds(host):
    """What the running process may, whatever the unit's file says."""
    host("systemctl", "restart", SERVICE)
    status = dict(line.split(":\t", 1) for line in host("cat", f"/proc/{main_pid(host)}/status").splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    capabilities = {"CapBnd": 1 << 19 | 1 << 2, "CapPrm": 1 << 19 | 1 << 2}  # CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH
    assert {name: int(status[name], 16) for name in capabilities} == capabilities
    assert status["Uid"].split()[0] == host("id", "-u", "profd").strip()
