# SPDX-License-Identifier: Apache-2.0
"""profd is killed, or ended, in each phase of a session. The next one sends every stop that is owed, finishes the
session, and starts nothing a second time."""

import contextlib
import os
import re
import signal
import sqlite3
import time

import pytest

from daemon import SANITIZED, Daemon, FaultFleet, quick_config, wait_for
from patience import patience
from test_collect import NAME, made_trace
from wall_clock import WallClock, why_not

MS = 1_000_000
S = 1_000_000_000
RESTART_NS = 2 * S if SANITIZED else S  # more than profd is away for
SHORT = 100 * MS
START, STOP = "/start_profile", "/stop_profile"
ENGINES = pytest.mark.parametrize("engine", ["vllm", "sglang"])


@contextlib.contextmanager
def running_fleet(tmp_path, engine, count, *options, **quick):
    with FaultFleet(tmp_path / "fleet", engine, count, *options) as fleet:
        more = f"[fleet test]\nrouter={fleet.router}\noutput_dir={tmp_path / 'out'}\n"
        with Daemon(tmp_path / "profd", quick_config(more=more, **quick)) as profd:
            yield fleet, profd


def settled(profd, fleet, starts):
    """Nobody profiles, nobody owes a stop, and so many starts were sent to each worker."""
    assert fleet.journal()["profiling"] == 0
    assert profd.rows("select count(*) as n from targets where stop_pending") == [{"n": 0}]
    for worker in range(len(fleet.workers)):
        calls = [call["path"] for call in fleet.calls(worker)]
        assert calls.count(START) == starts
        assert START not in calls or calls[-1] == STOP


@ENGINES
def test_requested_for_later(tmp_path, engine):
    with running_fleet(tmp_path, engine, 2) as (fleet, profd):
        at = time.time_ns() + int(patience(RESTART_NS))
        session = profd.start_session(duration_ns=SHORT, start_at=at)["session"]
        profd.restart(crash=True)
        assert profd.session(session)["state"] == "requested"
        end = profd.wait_session(session)
        assert end["state"] == "complete"
        assert all(-5 * MS < target["start_sent_at"] - at < patience(500 * MS) for target in end["targets"])
        settled(profd, fleet, 1)


def test_waiting_in_the_queue(tmp_path):
    with running_fleet(tmp_path, "vllm", 1) as (fleet, profd):
        first = profd.start_session(duration_ns=1500 * MS)["session"]
        profd.wait_state(first, "recording")
        second = profd.start_session(duration_ns=SHORT, queue=True)["session"]
        profd.restart(crash=True)
        assert first in profd.session(second)["waiting_for"]
        ends = [profd.wait_session(session) for session in (first, second)]
        assert [end["state"] for end in ends] == ["complete", "complete"]
        settled(profd, fleet, 2)


def test_waiting_for_load(tmp_path):
    """Whoever waited for it is gone."""
    with running_fleet(tmp_path, "vllm", 1, "--fault", "idle") as (fleet, profd):
        session = profd.start_session(when_running=1)["session"]
        profd.restart(crash=True)
        end = profd.wait_session(session)
        assert end["state"] == "cancelled" and "restarted" in end["reason"] and "--queue" in end["remedy"]
        settled(profd, fleet, 0)


def test_cleaning(tmp_path):
    """Before any start has left: none is sent later."""
    with running_fleet(tmp_path, "vllm", 2, "--fault", "slow-stop=1@0") as (fleet, profd):
        profd.wait_session(profd.start_session(duration_ns=SHORT)["session"])
        fleet.start_elsewhere(0)
        session = profd.start_session(duration_ns=SHORT)["session"]
        profd.wait_state(session, "starting")
        profd.restart(crash=True)
        end = profd.wait_session(session)
        assert end["state"] == "failed" and "restarted while it was being started" in end["reason"]
        assert "Start it again" in end["remedy"]
        assert [len(fleet.calls(worker, START)) for worker in range(2)] == [2, 1]
        wait_for(lambda: fleet.journal()["profiling"] == 0)


@ENGINES
def test_starting(tmp_path, engine):
    """The starts have left, and one is not answered: all get a stop, and what they wrote is collected."""
    with running_fleet(tmp_path, engine, 3, "--fault", "slow-start=1@1", start="5s") as (fleet, profd):
        session = profd.start_session(duration_ns=30 * S)["session"]
        wait_for(lambda: fleet.journal()["starts"] == 3)
        assert profd.session(session)["state"] == "starting"
        profd.restart(crash=True)
        end = profd.wait_session(session)
        assert end["state"] == "partial" and end["counts"]["traces"] == 3
        late = end["targets"][1]
        assert late["state"] == "partial" and "restarted while it was being started" in late["failure"]
        assert "Start it again" in late["remedy"] and "Start it again" in end["remedy"]
        assert [len(target["traces"]) for target in end["targets"]] == [1, 1, 1]
        assert all(trace["session"] == session for trace in profd.traces())
        settled(profd, fleet, 1)


@ENGINES
def test_recording_goes_on(tmp_path, engine):
    with running_fleet(tmp_path, engine, 3) as (fleet, profd):
        session = profd.start_session(duration_ns=2 * S)["session"]
        planned = profd.wait_state(session, "recording")["stop_at"]
        profd.restart(crash=True)
        assert profd.session(session)["state"] == "recording"
        end = profd.wait_session(session)
        assert end["state"] == "complete"
        for target in end["targets"]:
            assert 0 <= target["stop_sent_at"] - planned + 50 * MS < S
        settled(profd, fleet, 1)


@pytest.mark.smoke
def test_recording_that_should_have_ended(tmp_path):
    with running_fleet(tmp_path, "vllm", 3) as (fleet, profd):
        session = profd.start_session(duration_ns=int(patience(500 * MS)))["session"]
        planned = profd.wait_state(session, "recording")["stop_at"]
        profd.kill()
        wait_for(lambda: time.time_ns() > planned + 300 * MS)
        assert fleet.journal()["profiling"] == 3
        profd.start()
        wait_for(lambda: fleet.journal()["profiling"] == 0, 2)
        end = profd.wait_session(session)
        assert end["state"] == "complete"
        (remark,) = end["remarks"]
        assert re.search("profd was away when its time was over: it recorded for .* longer than the .* asked for", remark["text"])
        settled(profd, fleet, 1)


def test_recording_of_a_session_with_every_column(tmp_path):
    """What the catalog has of a session is there once: each text has one owner, and its next state can be saved."""
    with running_fleet(tmp_path, "vllm", 3, "--fault", "unhealthy@2") as (fleet, profd):
        session = profd.start_session(duration_ns=2 * S)["session"]
        assert [left["worker"] for left in profd.wait_state(session, "recording")["skipped"]] == [fleet.workers[2]]
        profd.kill()
        with contextlib.closing(sqlite3.connect(profd.catalog)) as db, db:
            db.execute("update session_row set name = 'night'")
        profd.start()
        end = profd.wait_session(session)
        assert (end["state"], end["name"], end["counts"]["skipped"]) == ("complete", "night", 1)
        assert "the catalog cannot take its state" not in profd.log()
        assert profd.rows("select state, name from sessions") == [{"state": "complete", "name": "night"}]
        profd.stop()  # with status 0
        profd.start()


@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
@pytest.mark.parametrize("offset_s", [-3600, 3600])
def test_recording_goes_on_after_the_clock_was_set(tmp_path, offset_s):
    """Its end is a moment by a clock that nobody sets."""
    clock = WallClock(tmp_path / "clock")
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet:
        config = quick_config(more=f"[fleet test]\nrouter={fleet.router}\n")
        with Daemon(tmp_path / "profd", config, environment=clock.environment) as profd:
            session = profd.start_session(duration_ns=3 * S)["session"]
            profd.wait_state(session, "recording")
            profd.kill()
            clock.offset_s = offset_s
            profd.start()
            end = profd.wait_session(session)
            assert end["state"] == "complete" and end["counts"]["traces"] == 2, end
            assert "remarks" not in end
            for worker in range(2):
                (start,), (*_, stop) = fleet.calls(worker, START), fleet.calls(worker, STOP)
                assert 2.5 * S < stop["at_ns"] - start["at_ns"] < patience(6 * S)
            settled(profd, fleet, 1)


def test_recording_while_the_host_was_started_anew_and_its_clock_set_back(tmp_path):
    """Its end is an hour away by the clock. For how long it has recorded nobody knows, so that it ends."""
    with running_fleet(tmp_path, "vllm", 2) as (fleet, profd):
        session = profd.start_session(duration_ns=30 * S)["session"]
        profd.wait_state(session, "recording")
        profd.kill()
        with contextlib.closing(sqlite3.connect(profd.catalog)) as db, db:
            db.execute("update session_row set recording_at = recording_at + :hour, stop_at = stop_at + :hour, "
                       "hard_stop_at = hard_stop_at + :hour, boot_id = 'another'", {"hour": 3600 * S})
        profd.start()
        assert profd.wait_session(session)["state"] == "complete"
        settled(profd, fleet, 1)


@ENGINES
def test_recording_steps(tmp_path, engine):
    """How many were done before cannot be known: it is stopped at once."""
    with running_fleet(tmp_path, engine, 2, "--fault", "idle") as (fleet, profd):
        session = profd.start_session(steps=100000)["session"]
        profd.wait_state(session, "recording")
        profd.restart(crash=True)
        end = profd.wait_session(session)
        assert end["state"] == "complete"
        (remark,) = [remark for remark in end["remarks"] if "restarted" in remark["text"]]
        assert "some of its 100000 steps" in remark["text"] and "Start it again" in remark["remedy"]
        settled(profd, fleet, 1)


def test_recording_during_a_start_that_is_not_answered(tmp_path):
    with running_fleet(tmp_path, "vllm", 2, "--fault", "hang-start@1", start="20s") as (fleet, profd):
        session = profd.start_session(duration_ns=4 * S)["session"]
        profd.wait_state(session, "recording")  # after the grace of a straggler
        profd.restart(crash=True)
        wait_for(lambda: fleet.journal()["profiling"] == 1, 2)  # the straggler is stopped at once
        assert profd.session(session)["state"] == "recording"
        end = profd.wait_session(session)
        assert [target["state"] for target in end["targets"]] == ["complete", "partial"]
        settled(profd, fleet, 1)


def test_recording_during_a_stop_that_is_not_answered(tmp_path):
    """A target can be stopping while its session records: that stop is owed as well."""
    with running_fleet(tmp_path, "vllm", 2, "--fault", "hang-start@1", "--fault", "hang-stop@1", stop="20s") as (fleet, profd):
        session = profd.start_session(duration_ns=3 * S)["session"]
        profd.wait_state(session, "recording")
        wait_for(lambda: fleet.journal()["profiling"] == 1)  # the straggler's stop took effect, and hangs
        profd.restart(crash=True)
        assert profd.session(session)["state"] == "recording"
        end = profd.wait_session(session)
        assert [target["state"] for target in end["targets"]] == ["complete", "partial"]
        assert len(fleet.calls(1, STOP)) == 3
        settled(profd, fleet, 1)


@ENGINES
def test_stopping(tmp_path, engine):
    with running_fleet(tmp_path, engine, 3, "--fault", "slow-stop=1@1") as (fleet, profd):
        session = profd.start_session(duration_ns=SHORT)["session"]
        wait_for(lambda: (fleet.journal()["starts"], fleet.journal()["profiling"]) == (3, 0))
        assert profd.session(session)["state"] == "stopping"
        profd.restart(crash=True)
        end = profd.wait_session(session)
        assert end["state"] == "complete", end
        # SGLang has nothing to stop the second time, and says so with a 500.
        assert len(fleet.calls(1, STOP)) == (3 if engine == "vllm" else 2)
        assert end["targets"][1]["stop_status"] == (200 if engine == "vllm" else 500)
        settled(profd, fleet, 1)


def test_staggered_stops(tmp_path):
    with running_fleet(tmp_path, "vllm", 4, "--fault", "slow-stop=0.4") as (fleet, profd):
        session = profd.start_session(duration_ns=SHORT, stagger=True)["session"]
        wait_for(lambda: fleet.journal()["profiling"] == 2)
        profd.restart(crash=True)
        assert profd.wait_session(session)["state"] == "complete"
        settled(profd, fleet, 1)


def test_collecting(tmp_path):
    with running_fleet(tmp_path, "vllm", 2, "--fault", "late=1.5@1", settle="3s") as (fleet, profd):
        session = profd.start_session(duration_ns=SHORT)["session"]
        profd.wait_state(session, "collecting")
        stops = fleet.journal()["stops"]
        profd.restart(crash=True)
        end = profd.wait_session(session)
        assert end["state"] == "complete" and end["counts"]["traces"] == 2
        assert fleet.journal()["stops"] == stops
        settled(profd, fleet, 1)


@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
def test_collecting_after_the_clock_was_set_back(tmp_path):
    """The trace is older than its recording by the times of both, and is collected all the same; one that was there is not."""
    clock, place = WallClock(tmp_path / "clock"), tmp_path / "fleet/w0"
    place.mkdir(parents=True)

    def write(rank, age_s):
        path = tmp_path / NAME.replace("rank0", f"rank{rank}")
        path.write_bytes(made_trace(rank=rank))
        os.utime(path, (time.time() - age_s, time.time() - age_s))
        path.rename(place / path.name)

    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "no-trace") as fleet:
        config = quick_config(settle=f"{patience(10):.0f}s", more=f"[fleet test]\nrouter={fleet.router}\n")
        with Daemon(tmp_path / "profd", config, environment=clock.environment) as profd:
            write(1, 2 * 3600)
            session = profd.start_session(duration_ns=SHORT)["session"]
            profd.wait_state(session, "collecting")
            profd.kill()
            clock.offset_s = -3600
            write(0, 3600)
            profd.start()
            end = profd.wait_session(session)
            assert end["state"] == "complete" and end["counts"]["traces"] == 1, end
            assert [trace["ranks"]["rank"] for trace in profd.traces()] == [0]
            settled(profd, fleet, 1)


def test_killed_again_and_again(tmp_path):
    with running_fleet(tmp_path, "vllm", 20, "--fault", "slow-stop=0.3@10%", settle="3s") as (fleet, profd):
        session = profd.start_session(duration_ns=int(patience(500 * MS)))["session"]
        profd.wait_state(session, "recording")
        for _ in range(8):
            time.sleep(0.1)
            profd.restart(crash=True)
        end = profd.wait_session(session)
        assert end["state"] == "complete", end.get("reason")
        settled(profd, fleet, 1)


@pytest.mark.parametrize("delay_ms", range(0, 60, 4))
def test_killed_at_any_moment(tmp_path, delay_ms):
    """From the request on, every few milliseconds."""
    with running_fleet(tmp_path, "sglang" if delay_ms % 8 else "vllm", 5) as (fleet, profd):
        with contextlib.closing(profd.connection()) as connection:
            connection.request("POST", "/v1/sessions", b'{"duration_ns":20000000}')
            time.sleep(delay_ms / 1000)
            profd.kill()
        profd.start()
        wait_for(lambda: profd.rows("select * from sessions where finished_at is null") == [], why=profd.log)
        assert fleet.journal()["profiling"] == 0
        for worker in range(5):
            assert len(fleet.calls(worker, START)) <= 1


# Ended, not killed


@ENGINES
def test_profd_stops_the_profilers_before_it_ends(tmp_path, engine):
    with running_fleet(tmp_path, engine, 3, "--fault", "slow-stop=0.5@1") as (fleet, profd):
        session = profd.start_session(duration_ns=30 * S)["session"]
        profd.wait_state(session, "recording")
        profd.stop(signal.SIGTERM)
        assert fleet.journal()["profiling"] == 0
        stops = fleet.journal()["stops"]
        profd.start()
        end = profd.wait_session(session)
        assert end["state"] == "complete" and end["counts"]["traces"] == 3
        assert fleet.journal()["stops"] == stops  # all had been answered
        settled(profd, fleet, 1)


def test_ended_while_it_starts(tmp_path):
    with running_fleet(tmp_path, "vllm", 3, "--fault", "slow-start=1@1", start="5s") as (fleet, profd):
        session = profd.start_session(duration_ns=30 * S)["session"]
        wait_for(lambda: fleet.journal()["starts"] == 3)
        profd.stop(signal.SIGINT)
        assert fleet.journal()["profiling"] == 0
        profd.start()
        assert profd.wait_session(session)["state"] in ("complete", "partial")
        settled(profd, fleet, 1)


def test_ended_while_one_waits(tmp_path):
    """A session that waits for load must not begin behind the back of a profd that ends."""
    with running_fleet(tmp_path, "vllm", 2, "--fault", "slow-stop=1.5@0", "--fault", "idle@1") as (fleet, profd):
        first = profd.start_session(duration_ns=30 * S, workers=[fleet.workers[0]], fleet="test")["session"]
        profd.wait_state(first, "recording")
        waiting = profd.start_session(when_running=1, workers=[fleet.workers[1]], fleet="test")["session"]
        wait_for(lambda: profd.session(waiting).get("waiting_for"))
        profd.process.send_signal(signal.SIGTERM)
        fleet.set_fault("none", workers="1")
        profd.process.wait(10)
        profd.process = None
        assert len(fleet.calls(1, START)) == 0
        profd.start()
        assert profd.wait_session(waiting)["state"] == "cancelled"
        assert profd.wait_session(first)["state"] == "complete"


def test_a_second_signal_ends_it_at_once(tmp_path):
    with running_fleet(tmp_path, "vllm", 2, "--fault", "slow-stop=3@1", stop="10s") as (fleet, profd):
        session = profd.start_session(duration_ns=30 * S)["session"]
        profd.wait_state(session, "recording")
        profd.process.send_signal(signal.SIGTERM)
        wait_for(lambda: fleet.journal()["profiling"] == 0)
        began = time.monotonic()
        profd.stop(signal.SIGTERM)
        assert time.monotonic() - began < patience(1.5)
        profd.start()
        assert profd.wait_session(session)["state"] == "complete"
        settled(profd, fleet, 1)


@pytest.mark.parametrize("delay_ms", range(0, 60, 6))
def test_ended_at_any_moment(tmp_path, delay_ms):
    """And by two signals, the second of which leaves no time to wait for anything."""
    with running_fleet(tmp_path, "sglang" if delay_ms % 4 else "vllm", 5) as (fleet, profd):
        with contextlib.closing(profd.connection()) as connection:
            connection.request("POST", "/v1/sessions", b'{"duration_ns":20000000}')
            time.sleep(delay_ms / 1000)
            profd.process.send_signal(signal.SIGTERM)
            time.sleep(0.001)
            profd.stop(signal.SIGTERM)
        profd.start()
        wait_for(lambda: profd.rows("select * from sessions where finished_at is null") == [], why=profd.log)
        assert fleet.journal()["profiling"] == 0
        for worker in range(5):
            assert len(fleet.calls(worker, START)) <= 1


def test_a_queued_session_is_rolled_back_after_a_restart(tmp_path):
    """One start fails while another is not answered yet: that one is stopped when it is, as without the restart."""
    with running_fleet(tmp_path, "vllm", 2, start="10s") as (fleet, profd):
        first = profd.start_session(duration_ns=2 * S)["session"]
        profd.wait_state(first, "recording")
        second = profd.start_session(duration_ns=S, queue=True, require_all=True)["session"]
        profd.restart(crash=True)
        fleet.set_fault("start-500", workers="0")
        fleet.set_fault("slow-start", 1, workers="1")
        assert profd.wait_session(first)["state"] == "complete"
        end = profd.wait_session(second)
        assert [target["state"] for target in end["targets"]] == ["failed", "cancelled"]
        assert end["targets"][1]["start_status"] == 200  # before its stop was sent
        settled(profd, fleet, 2)
