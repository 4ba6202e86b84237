# SPDX-License-Identifier: Apache-2.0
"""profd-ingest: what it gave up before it looks at a file, and that a trace that breaks or blows up costs only itself."""

import contextlib
import gzip
import json
import os
import re
import signal
import struct
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

import pytest

from daemon import PROFD, SANITIZED, Daemon, wait_for
from test_collect import EVENT, children, config, made_trace
from patience import patience

MIB = 1 << 20
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"] if os.getuid() == 0 else []


def rank(n, end="json.gz"):
    return f"rank{n}.1700000000000000000.pt.trace.{end}"


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "directory").mkdir()
    return tmp_path / "directory"


@pytest.fixture
def profd(tmp_path, directory):
    with Daemon(tmp_path / "profd", config(settle="300ms", collect=f"watch={directory}")) as running:
        yield running


def large_trace(n=400_000):
    event = json.dumps(EVENT).encode()
    return b'{"schemaVersion": 1, "traceEvents": [' + b",".join([event] * n) + b"]}"


def appear(path, content):
    """At once as a whole: writing it may take longer than profd waits for more on a busy machine."""
    beside = path.parent.parent / "unfinished"
    beside.write_bytes(content)
    beside.rename(path)


def a_child(profd):
    for child in children(profd.pid):
        try:
            if "profd-ingest" in Path(f"/proc/{child}/comm").read_text():
                return child
        except OSError:
            pass
    return None


def in_sandbox(child):
    return re.search(r"^Seccomp:\t2$", Path(f"/proc/{child}/status").read_text(), re.MULTILINE) and child


def hold_child(profd):
    """Stops the next child as soon as it is in its sandbox."""
    deadline = time.monotonic() + patience(60)
    while time.monotonic() < deadline:
        child = a_child(profd)
        try:
            if child and in_sandbox(child):
                os.kill(child, signal.SIGSTOP)
                return child
        except OSError:
            pass
        time.sleep(0.0005)
    raise AssertionError("no child")


def hold_children(profd, n):
    """Stops so many children, wherever they are in their work."""
    held = set()

    def stop_more():
        for child in children(profd.pid):
            with contextlib.suppress(OSError):
                if child not in held and "profd-ingest" in Path(f"/proc/{child}/comm").read_text():
                    os.kill(child, signal.SIGSTOP)
                    held.add(child)
        return len(held) >= n

    wait_for(stop_more, interval_s=0.0005)
    return held


def trace_named(profd, name):
    return next((t for t in profd.traces(limit=100) if t["name"] == name), None)


@pytest.mark.skipif(SANITIZED, reason="sanitized builds have no filter")
def test_what_the_child_gave_up(profd, directory):
    (directory / rank(1, "json")).write_bytes(large_trace())
    child = hold_child(profd)
    try:
        proc = Path(f"/proc/{child}")
        status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and int(status["Seccomp_filters"]) >= 1
        limits = {line[:26].strip(): line[26:].split()[:2] for line in (proc / "limits").read_text().splitlines()[1:]}
        assert limits["Max core file size"][0] == "0" and int(limits["Max open files"][0]) <= 8
        assert int(limits["Max cpu time"][0]) < 3600
        for name in ("Max data size", "Max address space", "Max file size"):
            assert limits[name][0] != "unlimited", name
        assert (proc / "environ").read_bytes() in (b"LC_ALL=C\0", b"")
        if os.getuid() == 0:  # it is not dumpable: nobody else may look
            fds = {int(fd.name): os.readlink(fd) for fd in (proc / "fd").iterdir()}
            assert set(fds) <= set(range(8)) and not any("socket" in to or "catalog" in to for to in fds.values()), fds
            assert fds[0] == "/dev/null"
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.skipif(SANITIZED, reason="sanitized builds have no filter, by which the moment is told")
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGSYS, signal.SIGXCPU])
def test_a_trace_that_takes_the_child_with_it(profd, directory, number):
    """It costs that trace its state, and nothing else: the next one is read, the file lies where it was."""
    content = large_trace()
    (directory / rank(1, "json")).write_bytes(content)
    for _ in range(2):  # into columns, and without
        child = hold_child(profd)
        os.kill(child, number)
        os.kill(child, signal.SIGCONT)
        wait_for(lambda: a_child(profd) != child)
    trace = wait_for(lambda: trace_named(profd, rank(1, "json")), why=profd.log)
    word = "used up its processor time" if number == signal.SIGXCPU else f"was killed by {number.name}"
    assert trace["state"] == "unreadable" and trace["reason"].startswith(f"profd-ingest {word}"), trace
    assert not trace["stored"] and (directory / rank(1, "json")).read_bytes() == content
    (directory / rank(2)).write_bytes(made_trace())
    assert wait_for(lambda: trace_named(profd, rank(2)))["state"] == "complete"
    wait_for(lambda: not list((profd.state / "traces").glob(".*")))


@pytest.mark.skipif(SANITIZED, reason="sanitized builds have no filter, by which the moment is told")
def test_what_is_tried_again_is_the_file_that_was_opened(profd, directory, tmp_path):
    """Without columns, where reading into them took the child with it; whatever lies under its name by then."""
    content = large_trace()
    appear(directory / rank(1, "json"), content)
    child = hold_child(profd)
    (directory / rank(1, "json")).rename(tmp_path / "aside")
    (directory / rank(1, "json")).symlink_to("/etc/passwd")
    os.kill(child, signal.SIGSEGV)
    os.kill(child, signal.SIGCONT)
    trace = wait_for(lambda: trace_named(profd, rank(1, "json")), why=profd.log)
    assert trace["state"] == "complete" and trace["columns_reason"] == "profd-ingest was killed by SIGSEGV", trace
    assert profd.request("GET", f"/v1/traces/{trace['trace']}/file").body == content


@pytest.mark.skipif(SANITIZED, reason="sanitized builds have no filter, by which the moment is told")
def test_a_file_that_is_completed_while_it_is_read(profd, directory):
    """It is cataloged as the file that it is by then: after a restart it is no news, whoever records there."""
    content = gzip.compress(large_trace())
    appear(directory / rank(1), content[:-1000])
    child = hold_child(profd)
    with open(directory / rank(1), "ab") as f:
        f.write(content[-1000:])
    os.kill(child, signal.SIGCONT)
    trace = wait_for(lambda: trace_named(profd, rank(1)), why=profd.log)
    found = (directory / rank(1)).stat()
    assert trace["state"] == "complete" and trace["size"] == len(content), trace
    assert profd.rows("select recorded_at from traces") == [{"recorded_at": found.st_mtime_ns}]
    profd.restart()
    (directory / rank(2)).write_bytes(made_trace())
    wait_for(lambda: trace_named(profd, rank(2)), why=profd.log)
    assert [t["name"] for t in profd.traces(limit=10)] == [rank(2), rank(1)]


@pytest.mark.skipif(SANITIZED, reason="sanitized builds have no filter, by which the moment is told")
def test_a_file_that_is_written_anew_while_it_is_read(profd, directory):
    """Of what was read no row is made: nobody knows what it was. It is read again when it is quiet."""
    before, after = (json.dumps({"traceEvents": [EVENT] * 50000, "which": which}).encode() for which in "ab")
    appear(directory / rank(1, "json"), before)
    child = hold_child(profd)
    (directory / rank(1, "json")).write_bytes(after)
    os.kill(child, signal.SIGCONT)
    wait_for(lambda: a_child(profd) not in (None, child), interval_s=0.001, why=profd.log)
    trace = wait_for(lambda: trace_named(profd, rank(1, "json")), why=profd.log)
    assert profd.request("GET", f"/v1/traces/{trace['trace']}/file").body == after
    assert profd.rows("select recorded_at from traces") == [{"recorded_at": (directory / rank(1, "json")).stat().st_mtime_ns}]


class UserDaemon(Daemon):
    """Of a user who is not root."""

    def command(self):
        return [*NOBODY, *super().command()]


@pytest.mark.skipif(SANITIZED, reason="sanitized builds have no filter, by which the moment is told")
def test_threads_of_the_child():
    """Their number is its own limit, wherever user namespaces are allowed; the trace is read all the same."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        watched = Path(directory, "directory")
        watched.mkdir(mode=0o755)
        if subprocess.run([*NOBODY, "test", "-x", PROFD], check=False).returncode != 0:
            pytest.skip("user nobody cannot reach the build")
        allowed = subprocess.run([*NOBODY, "unshare", "--user", "true"], check=False, capture_output=True).returncode == 0
        Path(directory, "profd").mkdir()
        os.chmod(f"{directory}/profd", 0o777)
        with UserDaemon(f"{directory}/profd", config(settle="300ms", collect=f"watch={watched}")) as profd:
            appear(watched / rank(1, "json"), large_trace())
            child = hold_child(profd)
            limits = {line[:26].strip(): line[26:].split()[:2] for line in Path(f"/proc/{child}/limits").read_text().splitlines()}
            os.kill(child, signal.SIGCONT)
            if allowed:
                assert limits["Max processes"] == ["33", "33"]
            trace = wait_for(lambda: trace_named(profd, rank(1, "json")), why=profd.log)
            assert trace["state"] == "complete" and trace["columns"], trace


CGROUPS = Path("/sys/fs/cgroup")


def why_no_group():
    """Why profd cannot be given a cgroup of its own here."""
    if os.getuid() != 0:
        return "needs root, to make a cgroup"
    try:
        missing = {"memory", "pids"} - set((CGROUPS / "cgroup.subtree_control").read_text().split())
    except OSError:
        return f"{CGROUPS} is no cgroup v2"
    return f"groups below {CGROUPS} have no controller {' or '.join(sorted(missing))}" if missing else None


class GroupDaemon(Daemon):
    """Alone in a cgroup, as the unit gives it."""

    def __init__(self, directory, group, text):
        super().__init__(directory, text)
        self.group = group

    def command(self):
        return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', self.group, *super().command()]


@pytest.fixture
def group():
    if why := why_no_group():
        pytest.skip(why)
    made = CGROUPS / f"profd-test-{os.getpid()}"
    made.mkdir()
    yield made
    for path in (made / "ingest", made / "main", made):
        if path.exists():
            path.rmdir()


def test_a_child_beyond_the_limit_of_its_cgroup(tmp_path, directory, group):
    """The kernel takes that child, and neither profd nor what comes next."""
    with GroupDaemon(tmp_path / "profd", group, config(settle="300ms", collect=f"children=2\nwatch={directory}")) as profd:
        assert (group / "main/cgroup.procs").read_text().split() == [str(profd.pid)]
        limit = (group / "ingest/memory.max").read_text()
        assert int(limit) == 2 * (512 + 1536) * MIB and (group / "ingest/pids.max").read_text() == "66\n"
        (group / "ingest/memory.max").write_text("1M")
        appear(directory / rank(1, "json"), large_trace())
        trace = wait_for(lambda: trace_named(profd, rank(1, "json")), why=profd.log)
        assert trace["state"] == "unreadable" and trace["reason"].startswith("profd-ingest was killed by SIGKILL"), trace
        assert "oom_kill 0" not in (group / "ingest/memory.events").read_text()
        assert profd.request("GET", "/healthz").status == 200
        (group / "ingest/memory.max").write_text(limit)
        (directory / rank(2)).write_bytes(made_trace())
        assert wait_for(lambda: trace_named(profd, rank(2)), why=profd.log)["state"] == "complete"


def test_threads_beyond_the_limit_of_the_cgroup(tmp_path, directory, group):
    """A child that may begin none reads the trace by itself, or without columns."""
    with GroupDaemon(tmp_path / "profd", group, config(settle="300ms", collect=f"watch={directory}")) as profd:
        (group / "ingest/pids.max").write_text("1")
        appear(directory / rank(1, "json"), large_trace())
        trace = wait_for(lambda: trace_named(profd, rank(1, "json")), why=profd.log)
        assert "max 0" not in (group / "ingest/pids.events").read_text()
        assert trace["state"] == "complete", trace


@pytest.fixture
def directories(tmp_path):
    """Two directories that are watched, as two workers have them."""
    made = tmp_path / "theirs", tmp_path / "ours"
    for path in made:
        path.mkdir()
    return made


@pytest.fixture
def watching(tmp_path, directories):
    with Daemon(tmp_path / "profd", config(settle="300ms", collect="\n".join(f"watch={path}" for path in directories))) as running:
        yield running


def test_files_of_one_worker_do_not_hold_up_those_of_others(watching, directories):
    """However long they take, one slot is for others; what gave up its slot for them is read later, from its beginning."""
    theirs, ours = directories
    names = [rank(n, "json") for n in range(3)]
    content = large_trace()
    for name in names:
        appear(theirs / name, content)
    held = hold_children(watching, 2)
    (ours / rank(9)).write_bytes(made_trace())
    assert wait_for(lambda: trace_named(watching, rank(9)), why=watching.log)["state"] == "complete"
    assert re.search(r"^profd_ingest_requeued_total [1-9]", watching.request("GET", "/metrics").body.decode(), re.MULTILINE)
    for child in held:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGCONT)
    for name in names:
        trace = wait_for(lambda name=name: trace_named(watching, name), why=watching.log)
        assert trace["state"] == "complete" and trace["columns"] and trace["size"] == len(content), trace
    wait_for(lambda: not [*(watching.state / "traces").glob(".*"), *(watching.state / "columns").glob(".*")])


def test_a_file_of_holes_is_not_read(watching, directories):
    """Four of 60 GiB that take no room on the disk: nobody waits for them, and each says what is wrong with it."""
    theirs, ours = directories
    for n in range(4):
        with open(theirs / rank(n), "wb") as f:
            f.write(made_trace(n=n))
            f.truncate(60 << 30)
    wait_for(lambda: a_child(watching) or watching.traces(limit=10), interval_s=0.001)
    (ours / rank(9)).write_bytes(made_trace())
    assert wait_for(lambda: trace_named(watching, rank(9)), why=watching.log)["state"] == "complete"
    for n in range(4):
        trace = wait_for(lambda n=n: trace_named(watching, rank(n)), why=watching.log)
        assert trace["state"] == "corrupt" and not trace["stored"], trace
        assert trace["reason"].startswith("more than 256 MiB of it were never written (holes)"), trace


def bomb_gz():
    """10 GB of zeros in 10 MB."""
    return gzip.compress(bytes(20 * 10**6), 6) * 500


def bomb_within():
    """It begins as a trace does."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    head = packer.compress(b'{"schemaVersion": 1, "traceEvents": [' + json.dumps(EVENT).encode() + b', {"name": "')
    head += packer.flush(zlib.Z_FULL_FLUSH)
    return head + (packer.compress(b"a" * 10**7) + packer.flush(zlib.Z_FULL_FLUSH)) * 100


def zstd_window(log):
    """A frame that says it needs a window of so much, and holds one block of repeated bytes."""
    block = (1 << 17 << 3) | (1 << 1) | 1
    return struct.pack("<IBB", 0xFD2FB528, 0, (log - 10) << 3) + struct.pack("<I", block)[:3] + b"["


def test_bombs(profd, directory):
    bombs = {rank(1): (bomb_gz(), "unpacks to more than 500 times its size"),
             rank(2): (bomb_within(), "unpacks to more than 500 times its size"),
             rank(3, "json.zst"): (zstd_window(31), "Frame requires too much memory")}
    for name, (content, _) in bombs.items():
        (directory / name).write_bytes(content)
    largest = 0
    for name, (content, reason) in bombs.items():
        trace = None
        while not trace:
            child = a_child(profd)
            try:
                rss = re.search(r"^VmHWM:\s+(\d+)", Path(f"/proc/{child}/status").read_text(), re.MULTILINE) if child else None
                largest = max(largest, int(rss[1]) * 1024 if rss else 0)
            except OSError:
                pass
            trace = trace_named(profd, name)
            time.sleep(0.01)
        assert trace["state"] in ("corrupt", "unreadable", "truncated") and reason in trace["reason"], trace
        assert trace.get("uncompressed", 0) < 600 * MIB
    assert SANITIZED or largest < 2600 * MIB
    (directory / rank(9)).write_bytes(made_trace())
    assert wait_for(lambda: trace_named(profd, rank(9)))["state"] == "complete"
