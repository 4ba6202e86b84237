# SPDX-License-Identifier: Apache-2.0
"""Another program holds the catalog's write lock: requests are answered and stops are sent on time, what would need the
catalog is refused with the reason, and what happened meanwhile is saved once the lock is free."""

import contextlib
import os
import sqlite3
import threading
import time

import pytest

from daemon import Daemon, FaultFleet, quick_config, wait_for
from patience import patience

MS = 1_000_000
S = 1_000_000_000
STOP = "/stop_profile"
HOLDER = f"locked by another program: process {os.getpid()} ("


@contextlib.contextmanager
def locked(profd):
    """As `sqlite3 catalog.db "begin immediate"` would hold it; this process is the holder."""
    with contextlib.closing(sqlite3.connect(profd.catalog, isolation_level=None, timeout=60)) as db:
        db.execute("begin immediate")
        yield
        db.execute("rollback")


class Prober:
    """Asks /healthz again and again in a thread; `worst` is the longest time that an answer took, in seconds."""

    def __init__(self, profd):
        self.profd, self.worst, self.ended = profd, 0, threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()
        return self

    def ask(self):
        while not self.ended.wait(0.01):
            begin = time.monotonic()
            assert self.profd.request("GET", "/healthz").status == 200
            self.worst = max(self.worst, time.monotonic() - begin)

    def __exit__(self, *exception):
        self.ended.set()
        self.thread.join()


@pytest.fixture
def fleet(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 3, "--fault", "no-trace") as some:
        yield some


@pytest.fixture
def profd(tmp_path, fleet):
    with Daemon(tmp_path / "profd", quick_config(more=f"[fleet test]\nrouter={fleet.router}\n")) as some:
        yield some


def check_is_locked(problem):
    assert HOLDER in problem["detail"], problem
    assert "space" not in problem["detail"] + problem["remedy"]
    assert f"process {os.getpid()}" in problem["remedy"]


def test_stops_are_sent_on_time(profd, fleet):
    session = profd.start_session(duration_ns=60 * S)["session"]
    profd.wait_state(session, "recording")
    with locked(profd), Prober(profd) as prober:
        begin = time.monotonic()
        assert profd.request("POST", f"/v1/sessions/{session}/stop").status == 200
        wait_for(lambda: fleet.journal()["profiling"] == 0, interval_s=0.01)
        assert time.monotonic() - begin < patience(0.5)
        # Longer than the catalog is waited for anywhere, and the session goes on to its end.
        time.sleep(2.5)
    assert prober.worst < patience(0.1)
    assert profd.wait_session(session)["state"] == "failed"  # it left no trace
    wait_for(lambda: profd.rows("select * from sessions where finished_at is null") == [], why=profd.log)
    # The log of events misses nothing and is in order.
    wait_for(lambda: "can be written again" in profd.log())
    states = [row["text"].split(":")[0] for row in
              profd.rows("select text from events where kind = 'session-state' order by event_id")]
    assert states == ["starting", "recording", "stopping", "collecting", "failed"]
    assert len(profd.rows("select * from events where kind = 'session-stop'")) == 1


def test_a_planned_end_is_kept(profd, fleet):
    session = profd.start_session(duration_ns=int(patience(S)))["session"]
    profd.wait_state(session, "recording")
    with locked(profd):
        wait_for(lambda: fleet.journal()["profiling"] == 0)
    target = profd.wait_session(session)["targets"][0]
    assert target["stop_sent_at"] - target["start_answered_at"] < patience(2 * S)


def test_events_reach_who_listens_once_it_is_free(profd):
    session = profd.start_session(duration_ns=60 * S)["session"]
    profd.wait_state(session, "recording")
    with profd.events() as stream:
        with locked(profd):
            profd.request("POST", f"/v1/sessions/{session}/stop")
            wait_for(lambda: "cannot be written" in profd.log())
        kinds = [(e["data"]["kind"], e["data"].get("text")) for e in
                 stream.until(lambda e: e["data"].get("text", "").startswith("collecting"))]
    assert ("session-state", "stopping") in kinds


def test_refusals_name_who_holds_it(profd, fleet):
    done = profd.start_session(duration_ns=50 * MS)["session"]
    profd.wait_session(done)
    with locked(profd):
        for _ in range(2):
            check_is_locked(profd.problem("POST", "/v1/sessions", {"duration_ns": 50 * MS}, 507))
        check_is_locked(profd.problem("PUT", f"/v1/sessions/{done}/pin", status=507))
        check_is_locked(profd.problem("DELETE", f"/v1/sessions/{done}", status=507))
        reason, = profd.problem("GET", "/readyz", status=503)["reasons"]
        check_is_locked(reason)
        # What only reads is answered.
        assert profd.session(done)["state"] == "failed"
    starts = fleet.journal()["starts"]
    wait_for(lambda: profd.request("GET", "/readyz").status == 200)
    session = profd.start_session(duration_ns=50 * MS)["session"]
    profd.wait_session(session)
    assert fleet.journal()["starts"] == starts + 3


def test_nothing_is_started_while_the_start_cannot_be_saved(tmp_path):
    """Locked between the request, which was still taken, and the start."""
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "slow-stop=1@0") as fleet, \
            Daemon(tmp_path / "profd", quick_config(more=f"[fleet test]\nrouter={fleet.router}\n")) as profd:
        fleet.start_elsewhere(0)  # so that the cleaning stop takes its time
        session = profd.start_session(duration_ns=50 * MS)["session"]
        profd.wait_state(session, "starting")
        with locked(profd):
            wait_for(lambda: "nothing was started" in profd.log(), why=profd.log)
            assert fleet.journal()["starts"] == 1
        end = profd.wait_session(session)
        assert end["state"] == "failed" and HOLDER in end["reason"]
        assert "space" not in end["remedy"]
        assert fleet.journal()["profiling"] == 0


def test_a_start_waits_for_a_short_lock(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "slow-stop=1@0") as fleet, \
            Daemon(tmp_path / "profd", quick_config(more=f"[fleet test]\nrouter={fleet.router}\n")) as profd:
        fleet.start_elsewhere(0)
        session = profd.start_session(duration_ns=50 * MS)["session"]
        profd.wait_state(session, "starting")
        with locked(profd):
            wait_for(lambda: "cannot be written" in profd.log(), interval_s=0.01, why=profd.log)
        assert profd.wait_session(session)["state"] == "complete"
