# SPDX-License-Identifier: Apache-2.0
"""A worker of root's in a mount namespace of its own, and a profd of another user: what the drop-in collect-foreign.conf
gives is enough to record it, and where it is missing the doctor names it."""

import ctypes
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from daemon import PROFD, ROOT, Daemon, FaultFleet, quick_config, wait_for

DROP_IN = ROOT / "systemd/drop-ins/collect-foreign.conf"
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]


def capabilities():
    """As setpriv writes what the drop-in allows: sys_ptrace, ..."""
    lines = DROP_IN.read_text().splitlines()
    return [line.split("=")[1].removeprefix("CAP_").lower() for line in lines if line.startswith("AmbientCapabilities=")]


class ServiceDaemon(Daemon):
    """profd as the unit runs it: as a user of its own, with the capabilities of the drop-in or none."""

    def __init__(self, directory, given, config=quick_config()):
        super().__init__(directory, config)
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
def directory():
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


def test_doctor_names_the_drop_in_that_is_missing(directory):
    with ContainedFleet(directory / "fleet") as fleet, ServiceDaemon(directory / "profd", []) as profd:
        checks = profd.get("/v1/doctor", router=fleet.router)["checks"]
        named = [check for check in checks if DROP_IN.name in (check.get("remedy") or "")]
        assert named and named[0]["result"] != "ok", checks
        assert "belongs to root" in named[0]["text"], named


def test_drop_in_is_enough_to_record(directory):
    assert sorted(capabilities()) == ["dac_read_search", "sys_ptrace"]
    with ContainedFleet(directory / "fleet") as fleet, ServiceDaemon(directory / "profd", capabilities()) as profd:
        checks = profd.get("/v1/doctor", router=fleet.router)["checks"]
        assert not [check for check in checks if DROP_IN.name in (check.get("remedy") or "")], checks
        started = profd.start_session(router=fleet.router, duration_ns=200_000_000)
        session = profd.wait_session(started["session"])
        assert session["state"] == "complete", (session, profd.log())
        (trace,) = profd.traces()
        assert trace["owner_uid"] == 0
        assert not any((directory / "fleet").iterdir())  # they were never here
        assert Path(trace["path"]).stat().st_uid == 65534


SYS_CLONE3 = 435


def run_as_process(pid, command):
    """Starts a command as the process with that number, which must be free."""
    class CloneArgs(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in ("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack",
                                                         "stack_size", "tls", "set_tid", "set_tid_size", "cgroup")]

    wanted = (ctypes.c_int * 1)(pid)
    args = CloneArgs(exit_signal=signal.SIGCHLD, set_tid=ctypes.addressof(wanted), set_tid_size=1)
    libc = ctypes.CDLL(None, use_errno=True)
    got = libc.syscall(SYS_CLONE3, ctypes.byref(args), ctypes.sizeof(args))
    if got == 0:
        try:
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    if got < 0:
        pytest.skip(f"a process with a number of one's choice cannot be made here: {os.strerror(ctypes.get_errno())}")
    return got


def test_a_reference_through_a_process_that_ended(directory):
    """Its number is another one's by now, in whose directory another file has that name, size and time."""
    reference = quick_config(more="mode=reference\n")
    profd = ServiceDaemon(directory / "profd", capabilities(), reference)
    fleet = ContainedFleet(directory / "fleet")
    with profd:
        with fleet:
            pid = fleet.process.pid
            session = profd.wait_session(profd.start_session(router=fleet.router, duration_ns=200_000_000)["session"])
            assert session["state"] == "complete", (session, profd.log())
            (trace,) = profd.traces()
            assert trace["path"].startswith(f"/proc/{pid}/root/"), trace
            content = profd.request("GET", f"/v1/traces/{trace['trace']}/file").body
            assert len(content) == trace["size"]
            seconds, ns = divmod(os.stat(trace["path"]).st_mtime_ns, 10**9)
        inside = trace["path"].removeprefix(f"/proc/{pid}/root")
        forged = (f'mount -t tmpfs -o mode=700 profd-test "{directory}/fleet" && mkdir -p "{Path(inside).parent}" && '
                  f'head -c {trace["size"]} /dev/zero > "{inside}" && touch -d @{seconds}.{ns:09d} "{inside}" && '
                  f'touch "{inside}.ready" && exec sleep 1000')
        other = run_as_process(pid, ["unshare", "--mount", "sh", "-c", forged])
        try:
            assert other == pid
            wait_for(lambda: os.path.exists(f"/proc/{pid}/root{inside}.ready"))
            stat = os.stat(trace["path"])
            assert (stat.st_size, stat.st_mtime_ns) == (trace["size"], trace["recorded_at"])
            problem = profd.problem("GET", f"/v1/traces/{trace['trace']}/file", status=403)
            assert "is not the one of t1, or belongs to another user" in problem["detail"]
            profd.restart()
            assert profd.problem("GET", f"/v1/traces/{trace['trace']}/file", status=403)
        finally:
            os.kill(other, signal.SIGKILL)
            os.waitpid(other, 0)
