# SPDX-License-Identifier: Apache-2.0
"""A worker of root's in a mount namespace of its own, and a profd of another user: what the drop-in collect-foreign.conf
gives is enough to record it, and where it is missing the doctor names it."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from daemon import PROFD, ROOT, Daemon, FaultFleet, quick_config

DROP_IN = ROOT / "systemd/drop-ins/collect-foreign.conf"
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]


def capabilities():
    """As setpriv writes what the drop-in allows: sys_ptrace, ..."""
    lines = DROP_IN.read_text().splitlines()
    return [line.split("=")[1].removeprefix("CAP_").lower() for line in lines if line.startswith("AmbientCapabilities=")]


class ServiceDaemon(Daemon):
    """profd as the unit runs it: as a user of its own, with the capabilities of the drop-in or none."""

    def __init__(self, directory, given):
        super().__init__(directory, quick_config())
        os.chown(self.directory, 65534, 65534)
        self.given = given

    def command(self):
        words = ",".join(["-all", *(f"+{name}" for name in self.given)])
        return [*NOBODY, f"--inh-caps={words}", f"--ambient-caps={words}", f"--bounding-set={words}", *super().command()]


class ContainedFleet(FaultFleet):
    """Its directory is a file system that only it sees."""

    def __init__(self, directory):
        super().__init__(directory, "vllm", 1)
        mount = 'mount -t tmpfs -o mode=700 profd-test "$0" && exec "$@"'
        self.command = ["unshare", "--mount", "sh", "-c", mount, self.directory, *self.command]


@pytest.fixture
def place():
    """A directory that every user can get at, unlike pytest's."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to run profd as another user")
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        if subprocess.run([*NOBODY, "test", "-x", PROFD], check=False).returncode != 0:
            pytest.skip("user nobody cannot reach the build")
        if subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", path], check=False,
                          capture_output=True).returncode != 0:
            pytest.skip("mount namespaces are not allowed here")
        yield Path(path)


def test_doctor_names_the_drop_in_that_is_missing(place):
    with ContainedFleet(place / "fleet") as fleet, ServiceDaemon(place / "profd", []) as profd:
        checks = profd.get("/v1/doctor", router=fleet.router)["checks"]
        named = [check for check in checks if DROP_IN.name in (check.get("remedy") or "")]
        assert named and named[0]["result"] != "ok", checks
        assert "belongs to root" in named[0]["text"], named


def test_drop_in_is_enough_to_record(place):
    assert sorted(capabilities()) == ["dac_read_search", "sys_ptrace"]
    with ContainedFleet(place / "fleet") as fleet, ServiceDaemon(place / "profd", capabilities()) as profd:
        checks = profd.get("/v1/doctor", router=fleet.router)["checks"]
        assert not [check for check in checks if DROP_IN.name in (check.get("remedy") or "")], checks
        started = profd.start_session(router=fleet.router, duration_ns=200_000_000)
        session = profd.wait_session(started["session"])
        assert session["state"] == "complete", (session, profd.log())
        (trace,) = profd.traces()
        assert trace["owner_uid"] == 0
        assert not any((place / "fleet").iterdir())  # they were never here
        assert Path(trace["path"]).stat().st_uid == 65534
