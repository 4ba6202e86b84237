# SPDX-License-Identifier: Apache-2.0
"""What comes out of a recording: every kind of bad trace, files that come late or grow, directories that come and go, and
whatever happens to profd-ingest or to profd meanwhile. A trace is never half visible, and nothing is lost in silence."""

import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import threading
import tempfile
import time
from pathlib import Path

import pytest

from daemon import BUILD, PROFD, Daemon, FaultFleet, wait_for
from patience import patience

MS = 1_000_000
SHORT = 100 * MS
MIB = 1024 * 1024
INGEST = BUILD / "daemon/ingest/profd-ingest"
NAME = "dp0_pp0_tp0_dcp0_ep0_rank0.1700000000000000000.pt.trace.json.gz"
EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 1.5, "dur": 2.5, "args": {}}


def config(settle="1s", collect="", more=""):
    return f"[timeouts]\nidentify=2s\n[collect]\nsettle={settle}\n{collect}\n{more}\n"


def record(profd, fleet, **request):
    """A session from its start to its end."""
    session = profd.start_session(router=fleet.router, **{"duration_ns": SHORT, **request})
    return profd.wait_session(session["session"])


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def made_trace(**more):
    return gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": [EVENT], **more}).encode())


def dense_trace(size, **more):
    """A trace whose file is that large, give or take a kilobyte, and like no other: it is stored, not compressed."""
    events = {"schemaVersion": 1, "traceEvents": [EVENT], "id": os.urandom(8).hex(), "filling": "x" * size, **more}
    return gzip.compress(json.dumps(events).encode(), 0)


def unclaimed(profd):
    return [trace for trace in profd.traces(limit=1000) if "session" not in trace]


def check_copies(profd, traces):
    """What the catalog says of each is so on the disk."""
    for trace in traces:
        path = Path(trace["path"])
        assert trace["stored"] and path.parent.parent == profd.state / "traces", trace
        assert path.read_bytes() == Path(trace["origin"]).read_bytes(), trace
        assert path.stat().st_size == trace["size"] and sha256(path) == trace["sha256"], trace
        assert stat.S_IMODE(path.stat().st_mode) == 0o640 and path.stat().st_nlink == 1
        assert profd.request("GET", f"/v1/traces/{trace['trace']}/file").body == path.read_bytes()
    assert not list((profd.state / "traces").glob(".*"))


# Bad traces

FAULTS = [  # fault, states of its two traces, their reason, words of the target
    ("zero-byte", "empty", "^0 bytes$", "none of its 2 traces is complete; t[12] is empty: 0 bytes"),
    ("truncated", "truncated", r"^truncated after \d+ events: gzip ends after \d+ bytes", r"t[12] is truncated after \d+ events"),
    ("truncated-json", "truncated", r"^truncated after \d+ events$", r"t[12] is truncated after \d+ events$"),
    ("corrupt-crc", "corrupt", "checksum", r"t[12] is corrupt: damaged after \d+ events: gzip checksum"),
]


@pytest.mark.parametrize("fault, state, reason, failure", FAULTS, ids=[row[0] for row in FAULTS])
def test_a_damaged_trace_is_kept_and_named(tmp_path, fault, state, reason, failure):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--ranks", "2", "--fault", fault) as fleet, \
            Daemon(tmp_path / "profd", config()) as profd:
        session = record(profd, fleet)
        target, traces = session["targets"][0], profd.traces(session=session["session"])
        assert session["state"] == target["state"] == "partial"
        assert re.search(failure, target["failure"]), target
        assert target["remedy"] == "profctl list-traces prints the state of each."
        assert [trace["state"] for trace in traces] == [state, state]
        assert all(re.search(reason, trace["reason"]) for trace in traces), traces
        assert {trace["worker"] for trace in traces} == {fleet.workers[0]}
        check_copies(profd, traces)


@pytest.mark.smoke
def test_a_missing_rank_is_named(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--ranks", "4", "--fault", "missing-rank") as fleet, \
            Daemon(tmp_path / "profd", config()) as profd:
        session = record(profd, fleet)
        traces = profd.traces()
        assert session["state"] == "partial"
        assert session["targets"][0]["failure"] == "3 of 4 ranks; missing or damaged: 3"
        assert sorted(trace["ranks"]["rank"] for trace in traces) == [0, 1, 2]
        assert {trace["state"] for trace in traces} == {"complete"}
        check_copies(profd, traces)


FOLLOWED = {  # what the content of a file is, and the reason of its trace
    "rank1.1700000000000000000.pt.trace.json.gz": (made_trace() + b"more", "4 bytes follow the end of the last gzip member"),
    "rank2.1700000000000000000.pt.trace.json.gz": (made_trace() + bytes(1 << 20), "1048576 zero bytes follow the end of the last gzip"),
    "rank3.1700000000000000000.pt.trace.json": (gzip.decompress(made_trace()) + bytes(5000), "text follows the end of the trace"),
    "rank4.1700000000000000000.pt.trace.json.gz": (made_trace() + bytes(512), None),
}


def test_files_that_go_on_after_their_trace(tmp_path):
    watched = tmp_path / "watched"
    watched.mkdir()
    for name, (content, _) in FOLLOWED.items():
        (watched / name).write_bytes(content)
    with Daemon(tmp_path / "profd", config(settle="300ms", collect=f"watch={watched}")) as profd:
        wait_for(lambda: len(profd.traces()) == len(FOLLOWED), why=profd.log)
        for trace in profd.traces():
            why = FOLLOWED[trace["name"]][1]
            assert trace["state"] == ("corrupt" if why else "complete"), trace
            assert (why or "512 zero bytes follow") in trace["reason"] and "at byte " in trace["reason"], trace
            assert trace["slices"] == 1, trace


def test_the_same_trace_under_two_names(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "duplicate@0") as fleet, \
            Daemon(tmp_path / "profd", config()) as profd:
        session = record(profd, fleet)
        assert session["state"] == "complete"
        first, second = sorted(profd.traces(worker=fleet.workers[0]), key=lambda trace: int(trace["trace"][1:]))
        assert (first["state"], second["state"]) == ("complete", "duplicate")
        assert second["reason"] == f"same bytes as {first['trace']}"
        assert [trace["state"] for trace in profd.traces(worker=fleet.workers[1])] == ["complete"]
        check_copies(profd, [first, second])


def test_nothing_recorded(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "no-trace") as fleet, \
            Daemon(tmp_path / "profd", config()) as profd:
        session = record(profd, fleet)
        target = session["targets"][0]
        assert session["state"] == target["state"] == "failed"
        assert target["failure"].startswith("recorded nothing: it was stopped, and no trace appeared in "
                                            f"{tmp_path / 'fleet/w0'} within 1.0s")
        assert "The worker's log has the reason" in target["remedy"]
        assert profd.traces() == []


@pytest.mark.parametrize("fault, what", [("symlink-trace", "a symbolic link"), ("fifo-trace", "a named pipe")])
def test_what_is_no_file_is_not_read(tmp_path, fault, what):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", fault) as fleet, \
            Daemon(tmp_path / "profd", config()) as profd:
        session = record(profd, fleet)
        assert session["state"] == "failed"
        assert session["targets"][0]["failure"].endswith(f"is {what}: not collected")
        assert profd.traces() == [] and not list((profd.state / "traces").iterdir())


def test_a_late_trace_is_waited_for_and_then_not(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "late=1@0", "--fault", "late=4.5@1") as fleet, \
            Daemon(tmp_path / "profd", config(settle="2s")) as profd:
        session = record(profd, fleet)
        late, too_late = session["targets"]
        assert late["state"] == "complete" and too_late["state"] == "failed"
        assert "recorded nothing" in too_late["failure"]
        # Nobody waits for it any more, and still it is found, with no worker made up for it.
        trace = wait_for(lambda: unclaimed(profd))[0]
        assert trace["state"] == "complete" and "worker" not in trace and "candidates" not in trace
        check_copies(profd, profd.traces())


def test_a_growing_trace_is_read_once_at_its_end(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "growing=3") as fleet, \
            Daemon(tmp_path / "profd", config()) as profd:
        session = record(profd, fleet)
        assert session["state"] == "complete"
        check_copies(profd, profd.traces())
        assert len(profd.traces()) == 1


def test_a_trace_that_pauses_is_replaced_when_it_is_complete(tmp_path):
    # Each piece comes 0.5 s after the one before, which is longer than profd waits.
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "growing=10") as fleet, \
            Daemon(tmp_path / "profd", config(settle="200ms")) as profd:
        session = record(profd, fleet)
        assert session["state"] == "partial" and "truncated" in session["targets"][0]["failure"]
        first = profd.traces()[0]
        assert first["state"] == "truncated"
        whole = wait_for(lambda: [t for t in profd.traces() if t["state"] == "complete"], timeout_s=60)
        # The same trace, of the same worker: not a second one, nor nobody's.
        assert [t["trace"] for t in whole] == [first["trace"]] and whole[0]["worker"] == fleet.workers[0]
        assert len(profd.traces()) == 1
        check_copies(profd, whole)
        assert len(list((profd.state / "traces").glob("*/*"))) == 1


def test_many_files(tmp_path):
    n = 800
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", f"many-files={n}") as fleet, \
            Daemon(tmp_path / "profd", config()) as profd:
        slowest, done = 0, threading.Event()

        def ask():
            nonlocal slowest
            while not done.wait(0.02):
                begin = time.monotonic()
                profd.get("/v1/version")
                slowest = max(slowest, time.monotonic() - begin)

        asker = threading.Thread(target=ask)
        asker.start()
        session = record(profd, fleet)
        done.set()
        asker.join()
        assert session["state"] == "complete" and session["counts"]["traces"] == n + 1
        assert slowest < patience(2), f"the API did not answer for {slowest} s"
        check_copies(profd, profd.traces(limit=100))


def test_a_page_under_a_traces_name_is_no_trace(tmp_path):
    watched = tmp_path / "watched"
    watched.mkdir()
    (watched / NAME).write_bytes(gzip.compress(b"<!doctype html><html>Login</html>"))
    (watched / "host_7.async_llm.1700000000000000000.pt.trace.json").write_text("no JSON at all\n")
    (watched / "profiler_out_0.txt").write_text("a table\n")
    (watched / "list_rank0.1700000000000000001.pt.trace.json").write_text('{"a": 1}')
    (watched / "notes.md").write_text("not a name of a trace\n")
    with Daemon(tmp_path / "profd", config(collect=f"watch={watched}")) as profd:
        wait_for(lambda: len(profd.traces()) == 4)
        found = {trace["name"]: (trace["kind"], trace["state"], trace.get("reason")) for trace in profd.traces()}
        assert found == {
            NAME: ("trace", "corrupt", "not a JSON trace (html)"),
            "host_7.async_llm.1700000000000000000.pt.trace.json": ("frontend", "corrupt", "not a JSON trace (text)"),
            "list_rank0.1700000000000000001.pt.trace.json": ("trace", "corrupt", "not a JSON trace (json)"),
            "profiler_out_0.txt": ("attachment", "complete", None),
        }


# Never half visible

def test_a_huge_trace_appears_at_once_and_complete(tmp_path):
    store = tmp_path / "profd/state/traces"
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "huge=64") as fleet, \
            Daemon(tmp_path / "profd", config(settle="3s")) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=SHORT)
        incoming = False
        while profd.session(session["session"])["state"] not in ("complete", "partial", "failed"):
            incoming = incoming or bool(list(store.glob(".incoming-*")))
            for path in store.glob("*/*"):
                assert path.stat().st_size > 64 * MIB
        trace = profd.traces()[0]
        assert incoming and trace["state"] == "complete" and profd.session("s1")["state"] == "complete"
        assert trace["size"] > 64 * MIB and trace["events"] > 50_000
        assert sha256(trace["path"]) == sha256(trace["origin"]) == trace["sha256"]


def first_incoming(profd, of_size=1):
    return next((path for path in (profd.state / "traces").glob(".incoming-*") if path.stat().st_size >= of_size), None)


def test_killed_while_copying(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "huge=200") as fleet:
        profd = Daemon(tmp_path / "profd", config(settle="3s")).start()
        try:
            profd.start_session(router=fleet.router, duration_ns=SHORT)
            wait_for(lambda: first_incoming(profd, MIB), timeout_s=30, interval_s=0.001)
            profd.kill()
            assert first_incoming(profd)
            profd.start()
            session = profd.wait_session("s1", timeout_s=60)
            assert session["state"] == "complete", session
            traces = profd.traces()
            assert [trace["state"] for trace in traces] == ["complete"]
            assert sha256(traces[0]["path"]) == sha256(traces[0]["origin"]) == traces[0]["sha256"]
            assert [p for p in (profd.state / "traces").rglob("*") if p.is_file()] == [Path(traces[0]["path"])]
        finally:
            profd.stop()


# profd-ingest

def children(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def kill_ingest(profd, times):
    """Kills the first profd-ingest that is seen, so many times."""
    killed = set()
    deadline = time.monotonic() + patience(30)
    while len(killed) < times and time.monotonic() < deadline:
        for child in children(profd.pid):
            if child not in killed and "profd-ingest" in Path(f"/proc/{child}/comm").read_text():
                os.kill(child, signal.SIGKILL)
                killed.add(child)
        time.sleep(0.001)
    return len(killed)


@pytest.mark.parametrize("times", [1, 4])  # each look is one reading into columns, and one without
def test_the_child_is_killed(tmp_path, times):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "huge=100") as fleet, \
            Daemon(tmp_path / "profd", config()) as profd:
        profd.start_session(router=fleet.router, duration_ns=SHORT)
        assert kill_ingest(profd, times) == times
        session = profd.wait_session("s1", timeout_s=60)
        trace = profd.traces()[0]
        assert len(profd.traces()) == 1
        if times == 1:
            assert session["state"] == "complete" and trace["state"] == "complete" and trace["stored"]
            assert sha256(trace["path"]) == trace["sha256"]
            assert "columns" not in trace and trace["columns_reason"] == "profd-ingest was killed by SIGKILL"
        else:  # the half copy is no copy: the worker's file stays the trace
            assert session["state"] == "partial" and trace["state"] == "unreadable"
            assert trace["reason"] == "profd-ingest was killed by SIGKILL"
            assert not trace["stored"] and trace["path"] == trace["origin"]
            assert "is unreadable: profd-ingest was killed by SIGKILL" in session["targets"][0]["failure"]
        assert not list((profd.state / "traces").glob(".*")) and not list((profd.state / "columns").iterdir())
        # One that was killed may have used up what it was allowed: no start of profd lets another one try.
        profd.restart()
        if times == 1:
            time.sleep(1)
            assert "columns" not in profd.get("/v1/traces/t1")


@pytest.fixture
def own_build(tmp_path):
    """profd and profd-ingest of their own, to be damaged."""
    place = tmp_path / "bin"
    (place / "ingest").mkdir(parents=True)
    shutil.copy2(PROFD, place / "profd")
    shutil.copy2(INGEST, place / "ingest/profd-ingest")
    return place


class OwnDaemon(Daemon):
    def __init__(self, place, *args, **named):
        super().__init__(*args, **named)
        self.place = place

    def command(self):
        return [self.place / "profd", *super().command()[1:]]


def test_without_a_child_at_the_start(tmp_path, own_build):
    for damage in (lambda path: path.unlink(), lambda path: (path.touch(), path.chmod(0o644))):
        damage(own_build / "ingest/profd-ingest")
        if Path("/usr/libexec/profd/profd-ingest").exists() or Path("/usr/local/libexec/profd/profd-ingest").exists():
            pytest.skip("profd is installed here, and its profd-ingest with it")
        status, said = OwnDaemon(own_build, tmp_path / "profd").refuses()
        assert status == 1 and "cannot run " in said and "/profd-ingest, which reads trace files: " in said
        assert "Reinstall profd, which includes it." in said


def test_the_child_goes_missing(tmp_path, own_build):
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, \
            OwnDaemon(own_build, tmp_path / "profd", config()) as profd:
        program = own_build / "ingest/profd-ingest"
        program.unlink()
        session = record(profd, fleet)
        trace = profd.traces()[0]
        assert trace["state"] == "unreadable" and not trace["stored"]
        assert trace["reason"] == f"cannot start {program}: No such file or directory"
        assert session["state"] == "partial" and f"cannot start {program}" in session["targets"][0]["failure"]
        # Mended without a restart.
        shutil.copy2(INGEST, program)
        assert record(profd, fleet)["state"] == "complete"


# Directories

def test_directories_that_come_and_go(tmp_path):
    place = tmp_path / "fleet/w0"
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, Daemon(tmp_path / "profd", config()) as profd:
        shutil.rmtree(place, ignore_errors=True)
        assert record(profd, fleet)["state"] == "complete"  # was not there when it began
        assert place.exists()
        shutil.rmtree(place)
        assert record(profd, fleet)["state"] == "complete"  # was replaced while it was watched
        place.rename(tmp_path / "elsewhere")
        assert record(profd, fleet)["state"] == "complete"
        # And is watched still, by its name: what comes without a session is seen soon.
        (place / NAME).write_bytes(made_trace())
        trace = wait_for(lambda: unclaimed(profd))[0]
        assert trace["origin"] == str(place / NAME)
        assert len(profd.traces()) == 4


def test_a_directory_that_vanishes_with_its_files(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "growing=20") as fleet, \
            Daemon(tmp_path / "profd", config()) as profd:
        profd.start_session(router=fleet.router, duration_ns=SHORT)
        wait_for(lambda: list((tmp_path / "fleet/w0").glob("*.gz")))
        profd.wait_state("s1", "collecting")
        time.sleep(0.5)
        shutil.rmtree(tmp_path / "fleet/w0")
        session = profd.wait_session("s1")
        assert session["state"] == "failed" and "No such file or directory" in session["targets"][0]["failure"]


def test_sglang_writes_to_a_directory_of_the_session(tmp_path):
    fleet_config = "[fleet test]\nrouter={router}\noutput_dir={out}\n"
    with FaultFleet(tmp_path / "fleet", "sglang", 2, "--ranks", "2") as fleet:
        more = fleet_config.format(router=fleet.router, out=tmp_path / "out")
        with Daemon(tmp_path / "profd", config(more=more)) as profd:
            session = record(profd, fleet)
            assert session["state"] == "complete", session
            for target in session["targets"]:
                traces = profd.traces(worker=target["worker"])
                assert len(traces) == 2 == len(target["traces"])
                assert all(target["profile_id"] in trace["name"] for trace in traces)
            check_copies(profd, profd.traces())


def prlimited(**limits):
    """A Daemon whose profd runs under resource limits of its own."""
    class Limited(Daemon):
        def command(self):
            return ["prlimit", *[f"--{name}={value}" for name, value in limits.items()], *super().command()]
    return Limited


def places(fleet):
    """For a profd that may not look into the workers' processes."""
    return "".join(f"[worker {url}]\ntrace_dir={fleet.directory / f'w{i}'}\n" for i, url in enumerate(fleet.workers))


@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_without_inotify(tmp_path, limit):
    """A user namespace has limits of its own."""
    class Unwatched(Daemon):
        def command(self):
            return ["unshare", "-Ur", "sh", "-c", f'echo 0 >/proc/sys/user/{limit} && exec "$@"', "sh", *super().command()]

    if subprocess.run(["unshare", "-Ur", "sh", "-c", f"echo 0 >/proc/sys/user/{limit}"], check=False,
                      capture_output=True).returncode != 0:
        pytest.skip("no user namespace can be made here")
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "growing=2@1") as fleet, \
            Unwatched(tmp_path / "profd", config(more=places(fleet))) as profd:
        for _ in range(2):
            session = record(profd, fleet)
            assert session["state"] == "complete", (session, profd.log())
        assert profd.log().count("directories are polled") == 1
        check_copies(profd, profd.traces())


def test_few_descriptors(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--ranks", "40") as fleet, \
            prlimited(nofile="80:80")(tmp_path / "profd", config()) as profd:
        session = record(profd, fleet)
        assert session["state"] == "complete" and session["counts"]["traces"] == 40, session


@pytest.mark.plain
def test_idle_when_nothing_is_expected(tmp_path):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    watched = tmp_path / "watched"
    watched.mkdir()
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "truncated@1") as fleet, \
            Daemon(tmp_path / "profd", config(collect=f"watch={watched}")) as profd:
        record(profd, fleet)
        # Nothing is left over either by a file that came and went.
        (watched / NAME).write_bytes(made_trace())
        wait_for(lambda: unclaimed(profd))
        shutil.rmtree(tmp_path / "fleet/w1")
        time.sleep(2)
        began = time.time()
        trace = subprocess.Popen(["strace", "-f", "-qq", "-ttt", "-o", tmp_path / "strace", "-p", str(profd.pid)],
                                 stderr=subprocess.PIPE, text=True)
        time.sleep(10)
        trace.send_signal(signal.SIGINT)
        said = trace.communicate(timeout=60)[1]
        if "Operation not permitted" in said:
            pytest.skip("strace may not trace here: " + said)
        # Attaching interrupts what waits, which then begins to wait again: that is not profd's doing.
        calls = [line for line in (tmp_path / "strace").read_text().splitlines()
                 if float(line.split()[1]) > began + 1 and "detached" not in line and "resumed" not in line]
        assert calls == []


# Limits and users

def test_a_file_beyond_the_limit_is_refused(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "huge=3@1") as fleet, \
            Daemon(tmp_path / "profd", config(collect="file_max=1M")) as profd:
        session = record(profd, fleet)
        good, bad = session["targets"]
        assert good["state"] == "complete" and bad["state"] == "failed"
        assert bad["failure"].endswith("exceeds the size limit of a trace")
        assert bad["remedy"] == "[collect] file_max= in profd.conf sets the limit."
        assert len(profd.traces()) == 1


def test_a_reference_stays_where_it_is(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, \
            Daemon(tmp_path / "profd", config(collect="mode=reference")) as profd:
        assert record(profd, fleet)["state"] == "complete"
        trace = profd.traces()[0]
        assert not trace["stored"] and trace["path"] == trace["origin"] and trace["state"] == "complete"
        assert sha256(trace["path"]) == trace["sha256"] and "reason" not in trace
        assert not list((profd.state / "traces").iterdir())
        assert profd.request("GET", "/v1/traces/t1/file").body == Path(trace["origin"]).read_bytes()
        # Its columns are profd's own.
        assert Path(trace["columns"]).parent == profd.state / "columns"
        assert profd.get("/v1/usage")["bytes"] == trace["columns_size"]
        # Removing it is about the catalog alone.
        assert profd.request("DELETE", "/v1/traces/t1").json() == {"removed": "t1", "file": False}
        assert Path(trace["origin"]).exists() and profd.traces() == []


def test_the_original_is_removed_where_that_is_asked_for(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "truncated@1") as fleet, \
            Daemon(tmp_path / "profd", config(collect="remove_original=yes")) as profd:
        record(profd, fleet)
        whole, cut = (profd.traces(worker=worker)[0] for worker in fleet.workers)
        wait_for(lambda: not Path(whole["origin"]).exists())
        assert sha256(whole["path"]) == whole["sha256"]
        assert Path(cut["origin"]).exists() and cut["state"] == "truncated"  # only what came whole


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to run profd as another user")


class NobodysDaemon(Daemon):
    """profd as an ordinary user, whose state lies below a directory of his."""

    def __init__(self, directory, *args, **named):
        super().__init__(directory, *args, **named)
        os.chown(self.directory, 65534, 65534)

    def command(self):
        return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *super().command()]


@pytest.fixture
def open_path():
    """A directory that every user can get at, unlike pytest's."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        yield Path(place)


def passable(path):
    return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x", path],
                          check=False).returncode == 0


@needs_root
def test_profd_may_not_read_the_directory(open_path):
    if not passable(PROFD) or not passable(open_path):
        pytest.skip("user nobody cannot reach the build or the test's directory")
    shut = open_path / "fleet/w0"
    with FaultFleet(open_path / "fleet", "vllm", 1) as fleet, \
            NobodysDaemon(open_path / "profd", config(more=f"[worker {fleet.workers[0]}]\ntrace_dir={shut}\n")) as profd:
        shut.mkdir(exist_ok=True)
        shut.chmod(0o700)
        problem = profd.problem("POST", "/v1/sessions", {"router": fleet.router, "duration_ns": SHORT}, status=422)
        assert problem["code"] == "uncollected" and str(shut) in problem["detail"] and fleet.calls(0) == []
        session = record(profd, fleet, allow_uncollected=True)
        target = session["targets"][0]
        assert session["state"] == "partial"
        assert target["failure"].startswith("recorded, but its traces cannot be collected from here: ")
        assert str(shut) in target["failure"] and target["remedy"], target
        # A directory that may be read, with a file that may not.
        shut.chmod(0o755)
        session = profd.start_session(router=fleet.router, duration_ns=1_500 * MS)["session"]
        wait_for(lambda: profd.session(session)["state"] == "recording")
        secret = shut / "dp0_pp0_tp0_dcp0_ep0_rank1.1700000000000000000.pt.trace.json.gz"
        secret.touch(mode=0o600)
        profd.wait_session(session)
        assert f"cannot read {secret} (its owner is uid 0): Permission denied" in profd.log()


@needs_root
def test_an_ordinary_users_own_profd(open_path):
    if not passable(PROFD) or not passable(open_path):
        pytest.skip("user nobody cannot reach the build or the test's directory")
    home = open_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    as_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    fleet = FaultFleet(home, "vllm", 2, "--ranks", "2")
    fleet.command = [*as_user, *fleet.command]
    with fleet, NobodysDaemon(open_path / "profd", config()) as profd:
        session = record(profd, fleet)
        assert session["state"] == "complete", session
        assert session["requested_by"].startswith("uid 0")
        traces = profd.traces()
        assert len(traces) == 4 and {trace["owner_uid"] for trace in traces} == {65534}
        check_copies(profd, traces)


def test_two_profds_on_one_state(tmp_path):
    with Daemon(tmp_path / "profd") as profd:
        incoming = profd.state / "traces/.incoming-1-0"
        incoming.touch()
        second = Daemon(tmp_path / "second")
        second.state = profd.state
        status, said = second.refuses()
        assert status == 1 and "is in use by process" in said, said
        assert incoming.exists()  # what the first one is writing is not the second one's to remove
        assert profd.get("/v1/version")


# What is not profd's to read, or to store


def test_the_store_does_not_collect_itself(tmp_path):
    place = tmp_path / "profd/state/traces"
    with FaultFleet(tmp_path / "fleet") as fleet, \
            Daemon(tmp_path / "profd", config(collect=f"watch={place / 's1'}")) as profd:
        assert record(profd, fleet)["state"] == "complete"
        time.sleep(3)  # settle, and what a look takes
        assert len(profd.traces(limit=10)) == 1 and len(list((place / "s1").iterdir())) == 1


def test_a_hard_link_lends_no_rights(tmp_path):
    watched, secret = tmp_path / "watched", tmp_path / "secret.json.gz"
    watched.mkdir()
    secret.write_bytes(made_trace())
    with Daemon(tmp_path / "profd", config(collect=f"watch={watched}")) as profd:
        os.link(secret, watched / NAME)
        wait_for(lambda: "is a hard link to a file that has other names" in profd.log())
        assert profd.traces() == []


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: the worker and the victim are two other users")
def test_a_swapped_directory_lends_no_rights(tmp_path, open_path):
    """A worker puts a link to another user's directory in the place of its own, once profd knows it."""
    worker, victim = 54321, 54322
    fleet_place, victims = open_path / "fleet", open_path / "victims"
    for place, uid in ((fleet_place, worker), (victims, victim)):
        place.mkdir(mode=0o700)
        os.chown(place, uid, uid)
    with FaultFleet(fleet_place, "vllm", 1, run_as=worker) as fleet, \
            Daemon(tmp_path / "profd", config(collect="remove_original=yes")) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=1_500_000_000)["session"]
        profd.wait_state(session, "recording")
        secret = victims / NAME
        secret.write_bytes(made_trace())
        os.chown(secret, victim, victim)
        (fleet_place / "w0").symlink_to(victims)
        profd.wait_session(session)
        assert all(trace["owner_uid"] != victim for trace in profd.traces())
        assert secret.exists()
        assert "was swapped: by a symbolic link it leads to" in profd.log()


@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_what_was_removed_does_not_come_back(tmp_path, mode):
    """Its original still lies in a directory that is watched; the next file under its name is another one."""
    place = tmp_path / "place"
    place.mkdir()
    (place / NAME).write_bytes(made_trace())
    with Daemon(tmp_path / "profd", config(settle="300ms", collect=f"mode={mode}\nwatch={place}")) as profd:
        wait_for(profd.traces, why=profd.log)
        assert profd.request("DELETE", "/v1/traces/t1").status == 200
        profd.restart()
        (place / f"rank1.{NAME}").write_bytes(made_trace(another=1))
        wait_for(profd.traces, why=profd.log)
        assert [trace["name"] for trace in profd.traces()] == [f"rank1.{NAME}"]
        (place / NAME).write_bytes(made_trace(again=1))
        wait_for(lambda: len(profd.traces()) == 2, why=profd.log)


def test_what_was_removed_with_its_session_does_not_come_back(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--ranks", "2") as fleet, \
            Daemon(tmp_path / "profd", config(settle="300ms", collect=f"watch={tmp_path / 'fleet' / 'w0'}")) as profd:
        session = record(profd, fleet)
        assert session["state"] == "complete", session
        assert len(list((tmp_path / "fleet/w0").iterdir())) == 2
        assert profd.request("DELETE", f"/v1/sessions/{session['session']}").status == 200
        profd.restart()
        (tmp_path / "fleet/w0" / NAME).write_bytes(made_trace(another=1))
        wait_for(profd.traces, why=profd.log)
        assert [trace["name"] for trace in profd.traces()] == [NAME]
