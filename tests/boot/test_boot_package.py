# SPDX-License-Identifier: Apache-2.0
"""The life of the package on one machine: an older version, the upgrade, removal, purge."""

import hashlib
import subprocess

import pytest
from machine import ROOT, wait_for
from profd_unit import (CATALOG, CONFIG, MIGRATED, SERVICE, SOCKET, SOCKET_PATH, STATE, enable, install, is_active, main_pid,
                        profctl_json, wait_journal)

OLD_VERSION = "0.0.1"
TRACE = b'{"traceEvents":[{"ph":"X","name":"step","cat":"cpu_op","pid":1,"tid":1,"ts":1000,"dur":50}]}'
TRACE_PATH = f"{STATE}/traces/old/rank0.trace.json"


@pytest.fixture(scope="module")
def previous(package, tmp_path_factory):
    """The package as an earlier one: its profd does nothing, and least of all touch the catalog."""
    tree = tmp_path_factory.mktemp("previous") / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN/control"
    version = next(line for line in control.read_text().splitlines() if line.startswith("Version: "))
    control.write_text(control.read_text().replace(version, f"Version: {OLD_VERSION}"))
    unit = next(tree.glob("**/system/profd.service"))
    lines = [line for line in unit.read_text().splitlines() if not line.startswith(("Type=", "ExecStart=", "WatchdogSec="))]
    unit.write_text("\n".join(lines).replace("[Service]", "[Service]\nType=exec\nExecStart=/bin/sleep infinity") + "\n")
    built = tree.with_name(f"profd_{OLD_VERSION}.deb")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, built], check=True)
    return built


@pytest.fixture(scope="module")
def old(bare, previous):
    """In use, with a catalog of version 1 and a trace in the store, and the administrator's own configuration."""
    install(bare, previous)
    enable(bare)
    schema = (ROOT / "tests/data/catalog-v1.sql").read_text()
    rows = (f"insert into session_row (session_id, state, options, labels, requested_at, requested_by) values "
            f"(7, 'complete', '{{}}', '{{}}', 1, 'uid 0');"
            f"insert into trace_row (trace_id, session_id, kind, state, stored, name, path, origin, size, sha256, recorded_at,"
            f" collected_at) values (12, 7, 'trace', 'complete', 1, 'rank0.trace.json', '{TRACE_PATH}',"
            f" '/gone/rank0.trace.json', {len(TRACE)}, '{hashlib.sha256(TRACE).hexdigest()}', 1, 1);")
    script = f"umask 027 && mkdir -p {STATE}/traces/old && cat >{TRACE_PATH}"
    bare.as_user("profd", "sh", "-c", script, stdin=TRACE.decode())
    bare.as_user("profd", "sh", "-c", f"umask 027 && sqlite3 {CATALOG}", stdin="pragma journal_mode = wal;" + schema + rows +
                 "pragma application_id = 0x50524f46; pragma user_version = 1;")
    bare.write(CONFIG, bare("cat", CONFIG) + "[limits]\nsessions=7\n")
    return bare


def wait_settled(machine):
    """Until the trace that came with the upgrade has been read into columns."""
    def look():
        found = profctl_json(machine, "show", "t12")
        return found.get("columns") and found
    return wait_for(look, why=lambda: machine.journal("-u", SERVICE))


@pytest.fixture(scope="module")
def upgraded(old, package):
    before = main_pid(old)
    inode = old("stat", "-c", "%i", SOCKET_PATH)
    install(old, package)
    assert main_pid(old) not in (0, before), "the upgrade did not restart profd"
    assert old("stat", "-c", "%i", SOCKET_PATH) == inode, "a client's connection was refused during the upgrade"
    return old


def test_the_upgrade_restarts_profd(upgraded):
    assert upgraded("dpkg-query", "-W", "-f", "${Version}", "profd") != OLD_VERSION
    assert is_active(upgraded) and is_active(upgraded, SOCKET)
    assert "profd" in upgraded("readlink", f"/proc/{main_pid(upgraded)}/exe")


def test_the_upgrade_keeps_the_configuration(upgraded):
    assert "sessions=7" in upgraded("cat", CONFIG)


def test_the_upgrade_migrates_the_catalog(upgraded):
    wait_journal(upgraded, MIGRATED)
    trace, = profctl_json(upgraded, "list-traces")["traces"]
    assert (trace["trace"], trace["session"], trace["state"]) == ("t12", "s7", "complete")
    assert wait_settled(upgraded)["slices"] == 1
    assert upgraded.as_user("alice", "sqlite3", CATALOG, "pragma user_version").strip() != "1"
    backup = f"{CATALOG}.v1.bak"
    assert upgraded.as_user("alice", "sqlite3", f"file:{backup}?immutable=1",
                            "pragma user_version; select name from trace_row").split() == ["1", "rank0.trace.json"]
    assert upgraded("stat", "-c", "%U:%G %a", backup, CATALOG).split("\n")[:2] == ["profd:profd 640"] * 2


def test_removal_keeps_what_was_recorded(upgraded):
    upgraded("apt-get", "remove", "-y", "profd")
    assert upgraded.show(SERVICE, "ActiveState", "MainPID") == {"ActiveState": "inactive", "MainPID": "0"}
    assert not is_active(upgraded, SOCKET)
    assert upgraded.run("pgrep", "-x", "profd", check=False).stdout == ""
    assert upgraded("sqlite3", CATALOG, "select name from trace_row").strip() == "rank0.trace.json"
    assert upgraded("cat", TRACE_PATH, CONFIG).startswith(TRACE.decode())
    assert upgraded.run("test", "-e", "/usr/bin/profctl", check=False).returncode != 0


def test_installed_again_it_goes_on(upgraded, package):
    install(upgraded, package)
    upgraded("systemctl", "start", SOCKET, SERVICE)
    assert wait_settled(upgraded)["session"] == "s7"


def test_purging_leaves_nothing_but_the_user(upgraded):
    upgraded("apt-get", "purge", "-y", "profd")
    left = upgraded("find", "/", "-xdev", "(", "-path", "/proc", "-o", "-path", "/sys", "-o", "-path", "/opt", "-o", "-path",
                    "/host", "-o", "-path", "/var/log/journal", ")", "-prune", "-o", "-name", "*profd*", "-print").split()
    # What systemctl edit and its like wrote is the administrator's; the package files are this test's.
    assert [path for path in left if not path.startswith(("/etc/systemd/system/profd.service.d", "/root/"))] == []
    assert upgraded.run("test", "-e", "/run/profd", check=False).returncode != 0
    # As is Debian's custom: files of the user may be elsewhere, and its number must not become another's.
    assert upgraded("getent", "passwd", "profd") and upgraded("getent", "group", "profd")
    assert upgraded.show(SERVICE, "LoadState") == {"LoadState": "not-found"}
