# SPDX-License-Identifier: Apache-2.0
"""Sessions over workers that misbehave: every fault of the fault worker, and what becomes of its target. Whatever one
worker does, the others are complete and no profiler is left running."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from daemon import BUILD, FAULT_WORKER, Daemon, FaultFleet, UnixConnection, quick_config, wait_for
from patience import patience

MS = 1_000_000
S = 1_000_000_000
SHORT = 100 * MS
START, STOP = "/start_profile", "/stop_profile"
BAD = 1  # the worker that has the fault


@contextlib.contextmanager
def running_fleet(tmp_path, engine, count, *options, **quick):
    with FaultFleet(tmp_path / "fleet", engine, count, *options) as fleet:
        more = f"[fleet test]\nrouter={fleet.router}\noutput_dir={tmp_path / 'out'}\n"
        with Daemon(tmp_path / "profd", quick_config(more=more, **quick)) as profd:
            yield fleet, profd


# What becomes of the worker: (state, its failure has this text), or skipped (never started, for this reason).
def ends(state, failure=None):
    return {"state": state, "failure": failure}


def skipped(reason):
    return {"reason": reason}


COMPLETE = ends("complete")
INCOMPLETE = ends("partial", "none of its 2 traces is complete")
UNKNOWN = skipped("not an engine that profd knows")

# Fault: what it comes to on both engines, or on each.
FAULTS = {
    "die": skipped("connection refused"),
    "relaunch": COMPLETE,
    "hang-up": COMPLETE,
    "status=502": skipped("502"),
    "garbage": skipped("HTTP"),
    "cut-answer": skipped("closed before the answer was complete"),
    "auth=secret": skipped("credentials needed: token_file"),
    "redirect": skipped("redirect"),
    "html": UNKNOWN,
    "wrong-json": UNKNOWN,
    "endless-body": UNKNOWN,
    "endless-header": skipped("of the response are longer than 64 KiB"),
    "slow-body": skipped("does not answer: timed out"),
    "clock": COMPLETE,
    "slow-health": COMPLETE,
    "unhealthy": skipped("unhealthy"),
    "sleeping": COMPLETE,
    "idle": COMPLETE,
    "no-profiler": {"vllm": skipped("started without a profiler"),
                    "sglang": ends("failed", "POST /start_profile: 404")},
    "no-server-info": {"vllm": ends("partial", "its traces cannot be collected from here"), "sglang": COMPLETE},
    "one-session": COMPLETE,
    "slow-start=0.5": COMPLETE,
    "hang-start": ends("partial", "POST /start_profile: timed out"),
    "reset-start": ends("partial", "POST /start_profile: the connection was closed"),
    "start-refused": {"vllm": ends("failed", "POST /start_profile: connection refused"),
                      "sglang": ends("failed", "POST /start_profile: the connection was closed")},
    "start-404": ends("failed", "POST /start_profile: 404"),
    "start-409": {"vllm": ends("failed", "POST /start_profile: 409"), "sglang": ends("failed", "POST /start_profile: 409")},
    "start-500": ends("failed", "POST /start_profile: 500"),
    "slow-stop=1.5": COMPLETE,
    "hang-stop": COMPLETE,
    "reset-stop": COMPLETE,
    "stop-500": COMPLETE,
    "stop-500-no-trace": ends("failed", "POST /stop_profile: 500"),
    "idle-stop-500": COMPLETE,
    "crash-flush": ends("partial", "the worker is gone"),
    "zero-byte": INCOMPLETE,
    "truncated": INCOMPLETE,
    "truncated-json": INCOMPLETE,
    "corrupt-crc": INCOMPLETE,
    "huge=8": COMPLETE,
    "late=0.5": COMPLETE,
    "growing=0.5": COMPLETE,
    "duplicate": COMPLETE,
    "no-trace": ends("failed", "recorded nothing"),
    "missing-rank": ends("partial", "1 of 2 ranks"),
    "symlink-trace": ends("failed", "is a symbolic link: not collected"),
    "fifo-trace": ends("failed", "is a named pipe: not collected"),
    "many-files=20": COMPLETE,
}
OF_OTHER_ENGINES = {"draining", "error-in-body", "stop-error-in-body", "older-paths", "older-keys"}  # test_dialects.py and test_dynamo.py
HELD = {"hold-clean", "hold-start", "hold-stop", "hold-trace"}  # tests/hosts/test_hosts_phases.py
GONE = {"crash-flush", "start-refused"}  # whether it still profiles cannot be asked any more


def test_no_fault_is_forgotten():
    listed = subprocess.run([FAULT_WORKER, "--list-faults"], capture_output=True, text=True, check=True).stdout
    of_workers = listed.partition("faults of the router")[0].splitlines()[1:]
    known = {line.split()[0].partition("=")[0] for line in of_workers}
    assert known - {"none"} - OF_OTHER_ENGINES - HELD == {fault.partition("=")[0] for fault in FAULTS}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("fault", FAULTS)
def test_fault(tmp_path, engine, fault):
    expected = FAULTS[fault].get(engine, FAULTS[fault])
    settle = "1s" if fault.startswith(("late", "growing")) else "300ms"  # more than they pause
    with running_fleet(tmp_path, engine, 3, "--ranks", "2", "--fault", f"{fault}@{BAD}", settle=settle) as (fleet, profd):
        asked = profd.start_session(duration_ns=SHORT)
        session = profd.wait_session(asked["session"])
        targets = {target["worker"]: target for target in session["targets"]}
        bad, good = targets.pop(fleet.workers[BAD], None), list(targets.values())

        assert [target["state"] for target in good] == ["complete", "complete"]
        assert all(len(target["traces"]) == 2 for target in good)
        if "reason" in expected:
            assert bad is None
            (skip,) = asked["skipped"]
            assert skip["worker"] == fleet.workers[BAD]
            assert expected["reason"] in skip["reason"] and skip["remedy"]
            assert session["state"] == "complete"
            assert fleet.calls(BAD) == []
        else:
            assert asked.get("skipped", []) == []
            assert bad["state"] == expected["state"]
            whole = bad["state"] == "complete"
            assert session["state"] == ("complete" if whole else "partial")
            assert ("failure" in bad) == ("remedy" in bad) == ("reason" in session) == (not whole)
            if not whole:
                assert expected["failure"] in bad["failure"] and bad["remedy"]
                assert fleet.workers[BAD] in session["reason"] and bad["failure"] in session["reason"]
        assert not any(target["stop_pending"] for target in session["targets"])
        assert fleet.journal()["redirected"] == 0
        if fault.partition("=")[0] not in GONE:
            assert fleet.journal()["profiling"] == 0
            started = False
            for call in fleet.calls(BAD):
                started = call["path"] == START
            # Only a start that certainly had no effect is left without a stop behind it.
            assert not started or bad["start_status"] in (404, 409)


def test_who_else_records_is_left_alone(tmp_path):
    """A vLLM that knows 409 answers it to a second start: what records is somebody else's, and no stop follows."""
    with running_fleet(tmp_path, "vllm", 1, "--fault", "start-409") as (fleet, profd):
        session = profd.wait_session(profd.start_session(duration_ns=SHORT)["session"])
        (target,) = session["targets"]
        assert (session["state"], target["state"], target["stop_pending"]) == ("failed", "failed", False)
        assert "Somebody else records it" in target["remedy"] and "does not stop" in target["remedy"]
        paths = [call["path"] for call in fleet.calls(0)]
        assert paths[-1] == START, paths


# Stops

@pytest.mark.parametrize("status", [302, 403, 502])
def test_a_proxy_that_lets_no_stop_through(tmp_path, status):
    """The profiler runs on behind it, so the stop is sent until it gets there."""
    with running_fleet(tmp_path, "vllm", 1, stop="60s") as (fleet, profd):
        session = profd.start_session(duration_ns=int(patience(300_000_000)))["session"]
        profd.wait_state(session, "recording")
        fleet.set_fault("status", status)
        wait_for(lambda: len(fleet.calls(0, STOP)) >= 2)
        assert fleet.journal()["profiling"] == 1
        fleet.set_fault("none")
        assert profd.wait_session(session)["state"] == "complete"
        assert fleet.journal()["profiling"] == 0



def test_nothing_but_its_answer_ends_a_stop(tmp_path):
    """SGLang fails its health check while it writes traces, so its router drops it; its stop goes on."""
    with running_fleet(tmp_path, "sglang", 2, "--fault", "slow-stop=1.5@1") as (fleet, profd):
        session = profd.start_session(duration_ns=SHORT)["session"]
        profd.wait_state(session, "stopping")
        wait_for(lambda: fleet.calls(1, STOP))
        fleet.set_fault("unhealthy", workers="1")
        assert profd.get("/v1/workers", router=fleet.router)
        end = profd.wait_session(session)
        assert end["state"] == "complete"
        assert end["targets"][1]["stop_answered_at"] - end["targets"][1]["stop_sent_at"] >= 1400 * MS
        assert len(fleet.calls(1, STOP)) == 1


def test_a_stop_outlives_who_asked_for_it(tmp_path):
    with running_fleet(tmp_path, "vllm", 2, "--fault", "slow-stop=1") as (fleet, profd):
        session = profd.start_session(duration_ns=30 * S)["session"]
        profd.wait_state(session, "recording")
        connection = UnixConnection(profd.socket)
        connection.request("POST", f"/v1/sessions/{session}/stop")
        connection.close()  # without waiting for the answer
        end = profd.wait_session(session)
        assert end["state"] == "complete"
        assert [len(fleet.calls(worker, STOP)) for worker in range(2)] == [2, 2]
        assert fleet.journal()["profiling"] == 0


def test_who_leaves_before_the_answer_starts_nothing(tmp_path):
    with running_fleet(tmp_path, "vllm", 2, "--fault", "slow-body@1") as (fleet, profd):
        connection = UnixConnection(profd.socket)
        connection.request("POST", "/v1/sessions", b'{"duration_ns":100000000}')
        time.sleep(0.3)  # the slow worker is still being asked who it is
        connection.close()
        time.sleep(1.2)
        assert profd.rows("select * from sessions where state not in ('cancelled')") == []
        assert fleet.journal()["starts"] == 0


def test_a_start_that_timed_out_is_stopped_at_once(tmp_path):
    with running_fleet(tmp_path, "vllm", 2, "--fault", "hang-start@1") as (fleet, profd):
        session = profd.start_session(duration_ns=3 * S)["session"]
        profd.wait_state(session, "recording")
        wait_for(lambda: fleet.journal()["profiling"] == 1, 3)  # long before the session's end
        assert profd.session(session)["state"] == "recording"
        end = profd.wait_session(session)
        assert [target["state"] for target in end["targets"]] == ["complete", "partial"]
        assert end["targets"][1]["stop_status"] == 200 and len(end["targets"][1]["traces"]) == 1


def test_all_starts_hang(tmp_path):
    with running_fleet(tmp_path, "sglang", 3, "--fault", "hang-start") as (fleet, profd):
        end = profd.wait_session(profd.start_session(duration_ns=SHORT)["session"])
        assert end["state"] == "partial" and "timed out" in end["reason"] and end["remedy"]
        assert fleet.journal()["profiling"] == 0


def test_a_stop_that_failed_is_classified_by_the_files(tmp_path):
    with running_fleet(tmp_path, "vllm", 2, "--fault", "stop-500@1") as (fleet, profd):
        end = profd.wait_session(profd.start_session(duration_ns=SHORT)["session"])
        assert end["state"] == "complete" and end["targets"][1]["stop_status"] == 500
        (remark,) = profd.rows("select text from events where kind = 'remark'")
        assert fleet.workers[1] in remark["text"] and "500" in remark["text"]
        assert [(r["worker"], "500" in r["text"]) for r in end["remarks"]] == [(fleet.workers[1], True)]


def test_summary_counts_what_was_stopped(tmp_path):
    """Not a worker whose stop failed, nor one that was never started, which needs no stop."""
    with running_fleet(tmp_path, "vllm", 3, "--fault", "stop-500-no-trace@1", "--fault", "start-404@2") as (_fleet, profd):
        end = profd.wait_session(profd.start_session(duration_ns=SHORT)["session"])
        stopped, failed, refused = end["targets"]
        assert stopped["stop_answered_at"] and failed["stop_status"] == 500 and "stop_answered_at" not in failed
        assert "stop_sent_at" not in refused
        out = subprocess.run([BUILD / "client/profctl", "--socket", profd.socket, "status", end["session"]], check=True,
                             capture_output=True, text=True).stdout
        assert "1 of 2 stopped" in out and "2 failed" in out, out


def test_a_stop_that_was_cut_off_is_repeated(tmp_path):
    with running_fleet(tmp_path, "sglang", 2, "--fault", "reset-stop@1") as (fleet, profd):
        end = profd.wait_session(profd.start_session(duration_ns=SHORT)["session"])
        assert end["state"] == "complete"
        assert [len(fleet.calls(worker, STOP)) for worker in range(2)] == [1, 2]
        assert end["targets"][1]["stop_status"] == 500  # nothing was left to stop


def test_a_stop_that_is_never_answered_is_given_up(tmp_path):
    with running_fleet(tmp_path, "vllm", 2, "--fault", "hang-stop@1", "--fault", "no-trace@1", stop="1s") as (fleet, profd):
        end = profd.wait_session(profd.start_session(duration_ns=SHORT)["session"])
        bad = end["targets"][1]
        assert bad["state"] == "failed" and "its stop was given up" in bad["failure"] and "stop=" in bad["remedy"]


def test_a_stop_that_is_not_let_through_is_repeated(tmp_path):
    """A worker whose token changed while it records: its profiler runs until the stop gets through."""
    token = tmp_path / "token"
    token.write_text("before\n")
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "auth=before") as fleet:
        more = f"[fleet test]\nrouter={fleet.router}\ntoken_file={token}\n"
        with Daemon(tmp_path / "profd", quick_config(stop="20s", more=more)) as profd:
            session = profd.start_session(duration_ns=int(patience(500 * MS)))["session"]
            profd.wait_state(session, "recording")
            fleet.set_fault("auth", "after")
            wait_for(lambda: len(fleet.calls(0, STOP)) >= 3)
            assert fleet.journal()["profiling"] == 1
            token.write_text("after\n")
            assert profd.wait_session(session)["state"] == "complete"
            assert fleet.journal()["profiling"] == 0


def test_workers_that_stand_still_for_a_while_are_stopped(tmp_path):
    with running_fleet(tmp_path, "vllm", 2, stop="10s") as (fleet, profd):
        session = profd.start_session(duration_ns=int(patience(700 * MS)))["session"]
        planned = profd.wait_state(session, "recording")["stop_at"]
        fleet.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: time.time_ns() > planned + 300 * MS)
        fleet.process.send_signal(signal.SIGCONT)
        assert profd.wait_session(session)["state"] == "complete"
        assert fleet.journal()["profiling"] == 0


def test_all_workers_go(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet:
        with Daemon(tmp_path / "profd", quick_config(stop="10s", more=f"[fleet t]\nrouter={fleet.router}\n")) as profd:
            session = profd.start_session(duration_ns=int(patience(500 * MS)))["session"]
            profd.wait_state(session, "recording")
            fleet.process.kill()
            end = profd.wait_session(session)
            assert end["state"] == "failed"
            for target in end["targets"]:
                assert "refused; the worker is gone" in target["failure"] and target["remedy"]
                assert not target["stop_pending"]


# A catalog that cannot take it


def can_mount():
    return os.geteuid() == 0 and Path("/proc/self/ns/mnt").exists()


@contextlib.contextmanager
def tiny_disk(path, size):
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", path],
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def fill(directory):
    """Takes all space there is."""
    with open(directory / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    filler.write(b"x" * size)


@pytest.mark.skipif(not can_mount(), reason="mounting a full disk needs root")
def test_a_full_disk_stops_no_stop(tmp_path):
    with tiny_disk(tmp_path / "disk", "4m") as disk, FaultFleet(tmp_path / "fleet", "vllm", 40) as fleet:
        more = f"keep_free=1M\nmax_use=2M\n[fleet test]\nrouter={fleet.router}\n"
        config = quick_config(more="mode=reference\ncolumns=no\n[store]\n" + more)
        with Daemon(tmp_path / "profd", config, ["--state-dir", disk]) as profd:
            profd.state = disk
            session = profd.start_session(duration_ns=1500 * MS)["session"]
            profd.wait_state(session, "recording")
            fill(disk)
            # While it cannot write: the profilers are stopped on time.
            wait_for(lambda: fleet.journal()["profiling"] == 0, why=profd.log)
            assert fleet.journal()["starts"] == 40
            wait_for(lambda: "the catalog cannot take its state" in profd.log(), why=profd.log)
            assert profd.rows("select state from sessions")[0]["state"] != "complete"
            # Nothing is begun that could not be remembered.
            problem = profd.problem("POST", "/v1/sessions", {"duration_ns": SHORT}, 507)
            assert str(profd.catalog) in problem["remedy"]
            assert "full" in problem["title"] + problem["detail"] or "space" in problem["title"] + problem["detail"]
            assert fleet.journal()["starts"] == 40

            (disk / "filler").unlink()
            wait_for(lambda: profd.rows("select state from sessions")[0]["state"] in
                     ("complete", "partial", "failed"), why=profd.log)
            row, = profd.rows("select state, finished_at from sessions")
            assert row["finished_at"]
            # Those that a busy machine answered too late are asked again.
            wait_for(lambda: profd.rows("select count(*) as n from targets where stop_pending or stop_answered_at is null")
                     == [{"n": 0}], why=profd.log)
            # And sessions are taken again.
            assert profd.wait_session(profd.start_session(duration_ns=SHORT, count=2)["session"])["state"] == "complete"


@pytest.mark.skipif(not can_mount(), reason="mounting a full disk needs root")
def test_what_a_full_disk_missed_is_saved_before_the_end(tmp_path):
    """A state is not only saved with the next one: a stop can take half an hour."""
    with tiny_disk(tmp_path / "disk", "4m") as disk, \
            FaultFleet(tmp_path / "fleet", "vllm", 40, "--fault", "slow-stop=6") as fleet:
        config = quick_config(stop="20s", more=f"mode=reference\ncolumns=no\n[store]\nkeep_free=1M\nmax_use=2M\n"
                                               f"[fleet t]\nrouter={fleet.router}\n")
        with Daemon(tmp_path / "profd", config, ["--state-dir", disk]) as profd:
            profd.state = disk
            session = profd.start_session(duration_ns=int(patience(700 * MS)))["session"]
            profd.wait_state(session, "recording")
            fill(disk)
            wait_for(lambda: "the catalog cannot take its state" in profd.log(), why=profd.log)
            states = "select distinct state from targets"
            assert profd.rows(states) == [{"state": "recording"}]
            (disk / "filler").unlink()
            wait_for(lambda: profd.rows(states) == [{"state": "stopping"}], why=profd.log)
            wait_for(lambda: "the catalog has its state again" in profd.log(), why=profd.log)
            assert profd.wait_session(session)["counts"]["complete"] == 40


def test_what_the_catalog_missed_of_a_target_is_there_when_its_session_is_over(tmp_path):
    """Killed right behind its end, before the next save of everything."""
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "no-trace", "--fault", "slow-stop=1.3@1") as fleet, \
            Daemon(tmp_path / "profd", quick_config()) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=SHORT)["session"]
        wait_for(lambda: profd.rows("select state from targets order by target_id") ==
                 [{"state": "collecting"}, {"state": "stopping"}], interval_s=0.005, why=profd.log)
        with contextlib.closing(sqlite3.connect(profd.catalog, isolation_level=None)) as db:
            db.execute("begin immediate")
            wait_for(lambda: "the catalog cannot take its state" in profd.log(), interval_s=0.005, why=profd.log)
            db.execute("rollback")
        wait_for(lambda: profd.rows("select 1 from sessions where finished_at is not null"), interval_s=0.005, why=profd.log)
        profd.kill()
        assert profd.rows("select distinct state from targets") == [{"state": "failed"}]


@pytest.mark.skipif(not can_mount(), reason="mounting a full disk needs root")
def test_a_full_disk_lets_nothing_be_started(tmp_path):
    """The space ends between the request, which is still taken, and the start."""
    with tiny_disk(tmp_path / "disk", "4m") as disk, \
            FaultFleet(tmp_path / "fleet", "vllm", 40, "--fault", "slow-stop=0.8@0") as fleet:
        fleet.start_elsewhere(0)  # so that the cleaning stop takes its time
        config = quick_config(more=f"mode=reference\ncolumns=no\n[store]\nkeep_free=1M\nmax_use=2M\n[fleet t]\nrouter={fleet.router}\n")
        with Daemon(tmp_path / "profd", config, ["--state-dir", disk]) as profd:
            profd.state = disk
            session = profd.start_session(duration_ns=SHORT)["session"]
            profd.wait_state(session, "starting")
            fill(disk)
            wait_for(lambda: f"session {session} is failed" in profd.log(), why=profd.log)
            assert fleet.journal()["starts"] == 1

            # What the log says is what everybody is shown.
            def ids(**query):
                return [item["session"] for item in profd.get("/v1/sessions", **query)["sessions"]]

            shown = profd.session(session)
            assert shown["state"] == "failed" and "nothing was started" in shown["reason"], shown
            assert {target["state"] for target in shown["targets"]} == {"failed"}
            assert (shown["counts"]["failed"], shown["counts"]["active"], shown["counts"]["targets"]) == (40, 0, 40)
            assert profd.get("/v1/sessions")["sessions"][0]["state"] == "failed"
            assert (ids(), ids(state="active"), ids(state="starting"), ids(state="failed")) == ([session], [], [], [session])
            assert ids(state="failed", before=session) == []
            assert "is over: it is failed" in profd.problem("POST", f"/v1/sessions/{session}/stop", status=409)["detail"]
            assert "is not in the catalog yet" in profd.problem("DELETE", f"/v1/sessions/{session}", status=409)["detail"]
            assert profd.rows("select state from sessions") == [{"state": "starting"}]

            with profd.events(f"/v1/events?session={session}&after=0") as events:
                (disk / "filler").unlink()
                events.until(lambda event: event["data"]["text"].startswith("failed: "))
            assert profd.rows("select state from sessions") == [{"state": "failed"}]
            assert profd.session(session)["counts"] == shown["counts"]
            assert fleet.journal()["profiling"] == 0
