# SPDX-License-Identifier: Apache-2.0
"""Who may read the catalog, with nothing but the stock sqlite3 program: while it is held open, after a clean stop, and
after kill -9. What the holder syncs, and that two cannot hold one.

PROFD_BUILD names the build directory (build/ where it is not set)."""

import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD", ROOT / "build"))
HOLDER = BUILD / "tests/integration/catalog-holder"
# Any two ids that nobody's process runs under.
GROUP = 64321
READER = 64322

needs_sqlite3 = pytest.mark.skipif(not shutil.which("sqlite3"), reason="the sqlite3 program is not installed")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


class Holder:
    def __init__(self, path, *, prefix=(), umask=0o027):
        self.path = str(path)
        self.process = subprocess.Popen([*prefix, HOLDER, self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, umask=umask)

    def answer(self):
        return self.process.stdout.readline().strip()

    def do(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        assert self.answer() == "ok"

    def stop(self):
        self.process.communicate("quit\n", timeout=30)
        assert self.process.returncode == 0

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


@pytest.fixture
def directory():
    """As systemd makes it: the group may enter and read, and new files belong to the group."""
    path = tempfile.mkdtemp(prefix="profd-readers-")
    if os.geteuid() == 0:
        os.chown(path, 0, GROUP)
    os.chmod(path, 0o2750)
    yield pathlib.Path(path)
    shutil.rmtree(path)


@pytest.fixture
def holder(directory):
    h = Holder(directory / "catalog.db")
    assert h.answer() == "ok"
    yield h
    if h.process.poll() is None:
        h.kill()


def ask(path, sql, *, options=(), uid=READER, gid=GROUP):
    """The stock program, as a user who has nothing but the group."""
    who = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"] if os.geteuid() == 0 else []
    return subprocess.run([*who, "sqlite3", *options, str(path), sql], capture_output=True, text=True, timeout=30)


def count(path, **kwargs):
    answer = ask(path, "select count(*) from traces", **kwargs)
    assert answer.returncode == 0, answer.stderr
    return int(answer.stdout)


@needs_root
@needs_sqlite3
@pytest.mark.parametrize("options", [(), ("-readonly",)])
def test_group_reads_while_it_runs(holder, options):
    assert count(holder.path, options=options) == 0
    holder.do("add")
    assert count(holder.path, options=options) == 1
    holder.do("many 3000")
    assert count(holder.path, options=options) == 3001
    holder.stop()


@needs_root
@needs_sqlite3
@pytest.mark.parametrize("options", [(), ("-readonly",)])
def test_group_reads_after_a_clean_stop(holder, options):
    holder.do("many 10")
    holder.stop()
    assert count(holder.path, options=options) == 10
    # Reading left nothing behind that would keep the daemon out.
    again = Holder(holder.path)
    assert again.answer() == "ok"
    again.do("add")
    assert count(holder.path, options=options) == 11
    again.stop()


@needs_root
@needs_sqlite3
@pytest.mark.parametrize("options", [(), ("-readonly",)])
def test_group_reads_after_a_crash(holder, options):
    holder.do("many 10")
    holder.kill()
    assert count(holder.path, options=options) == 10
    again = Holder(holder.path)
    assert again.answer() == "ok"
    again.do("add")
    assert count(holder.path, options=options) == 11
    again.kill()


@needs_root
@needs_sqlite3
def test_group_cannot_write_and_others_cannot_read(holder):
    holder.do("add")
    answer = ask(holder.path, "delete from trace_row")
    assert answer.returncode != 0 and "readonly" in answer.stderr
    answer = ask(holder.path, "select * from traces", gid=READER)
    assert answer.returncode != 0 and "unable to open" in answer.stderr
    holder.stop()
    for suffix in ("", "-wal", "-shm", ".lock"):
        st = os.stat(holder.path + suffix)
        assert stat.S_IMODE(st.st_mode) == 0o640, suffix
        assert st.st_gid == GROUP, suffix
    assert sorted(os.listdir(os.path.dirname(holder.path))) == ["catalog.db" + s for s in ("", "-shm", "-wal", ".lock")]


def test_second_holder_learns_who_has_it(holder):
    second = Holder(holder.path)
    out, err = second.process.communicate(timeout=30)
    assert second.process.returncode == 1
    assert f"is in use by process {holder.process.pid}" in err
    assert f"kill {holder.process.pid}" in err
    # A dead one holds nothing, whatever its file says.
    holder.kill()
    third = Holder(holder.path)
    assert third.answer() == "ok"
    third.stop()


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_only_the_commit_that_asks_for_it_is_synced(directory):
    log = directory / "syncs"
    h = Holder(directory / "catalog.db", prefix=("strace", "-f", "-o", str(log), "-e", "trace=fsync,fdatasync,write"))
    assert h.answer() == "ok"
    for command in ("add", "add", "sync", "add"):
        h.do(command)
    h.kill()
    # What lies between two answers is what one command cost.
    costs, syncs = [], 0
    for line in log.read_text().splitlines():
        if 'write(1, "ok' in line:
            costs.append(syncs)
            syncs = 0
        elif "sync(" in line:
            syncs += 1
    # Behind the opening and the first write, which begins a log.
    assert costs[2:] == [0, 1, 0]


@needs_sqlite3
def test_copy_by_vacuum_into(holder, directory):
    holder.do("many 5")
    copy = directory / "copy.db"
    subprocess.run(["sqlite3", holder.path, f"vacuum into '{copy}'"], check=True, timeout=30)
    holder.do("add")
    out = subprocess.run(["sqlite3", copy, "select count(*) from traces; pragma application_id; pragma user_version"],
                         check=True, capture_output=True, text=True, timeout=30).stdout.split()
    assert out == ["5", str(0x50524F46), "9"]
