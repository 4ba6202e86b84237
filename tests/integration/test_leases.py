# SPDX-License-Identifier: Apache-2.0
"""Leases at the host that grants them. The coordinator is this test: it asks, starts, renews, goes silent, comes back and asks
twice, over the Unix socket or with a token of role peer. Whatever it does, no profiler runs longer than its lease."""

import contextlib
import http.client
import json
import os
import signal
import sqlite3
import threading
import time
import uuid

import pytest

from daemon import SANITIZED, Daemon, FaultFleet, Reply, free_port, quick_config, token_line, wait_for, write_tokens
from patience import patience

MS = 1_000_000
S = 1_000_000_000
START, STOP = "/start_profile", "/stop_profile"
CATALOG = "0190b0a8-7f00-4abc-8def-ba9876543210"
FINAL = ("over", "released", "expired")


def boot_id():
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


class Coordinator:
    """One session of a coordinator: what it asks of a host, and what it was told."""

    def __init__(self, profd, workers, session=None, host="login1"):
        self.profd, self.workers, self.host = profd, workers, host
        self.session = session or str(uuid.uuid4())
        self.lease, self.after, self.targets, self.traces, self.last = None, 0, {}, {}, None

    def ask(self, step, more=None, session=None):
        path = f"/v1/leases/{self.lease}/{step}" if step else "/v1/leases"
        return self.profd.request("POST", path, {"session": session or self.session, **(more or {})})

    def grant(self, lease_ns=20 * S, **more):
        reply = self.ask(None, {"coordinator": {"catalog": CATALOG, "host": self.host}, "actor": "anna",
                                "workers": self.workers, "lease_ns": lease_ns, **more})
        if reply.status in (200, 201):
            self.lease = reply.json()["lease"]
        return reply

    def prepare(self, workers=None, **request):
        return self.ask("prepare", {"request": request, "workers": [
            {"url": url, "profile_id": f"{self.session[:8]}-w{i}"} for i, url in enumerate(workers or self.workers)]})

    def start(self, at, lasts_ns=30 * S, workers=None, boot=None, **more):
        """At most for so long, unless it is renewed."""
        deadline_ns = max(at - time.monotonic_ns(), 0) + lasts_ns
        return self.ask("start", {"at_mono_ns": at, "boot_id": boot or boot_id(), "deadline_ns": deadline_ns,
                                  "workers": [{"url": url} for url in workers or self.workers], **more})

    def renew(self, deadline_ns):
        return self.ask("renew", {"deadline_ns": deadline_ns})

    def poll(self, wait=0):
        reply = self.profd.request("GET", f"/v1/leases/{self.lease}?session={self.session}&after={self.after}&wait={wait}")
        if reply.status == 200:
            self.last = reply.json()
            assert self.last["next"] >= self.after
            self.after = self.last["next"]
            self.targets.update({target["worker"]: target for target in self.last.get("targets", [])})
            self.traces.update({trace["uuid"]: trace for trace in self.last["traces"]})
        return reply

    def until(self, what, timeout_s=60):
        """Polls until what(answer) holds."""
        def look():
            reply = self.poll(wait=5)
            assert reply.status == 200, reply
            found = what(self.last)
            assert found or not self.last["over"], f"{self.last}\n{self.profd.log()}"
            return found and self.last

        return wait_for(look, timeout_s, interval_s=0, why=lambda: f"{self.last}\n{self.profd.log()}")

    def until_armed(self):
        return self.until(lambda answer: answer["armed"])

    def until_over(self, timeout_s=60):
        return self.until(lambda answer: answer["over"], timeout_s)

    def ready(self, lease_ns=20 * S, **request):
        """To the point where only the start time is missing."""
        assert self.grant(lease_ns).status == 201
        reply = self.prepare(**request)
        assert reply.status == 202, reply
        self.until_armed()
        return self

    def states(self):
        return sorted(target["state"] for target in self.targets.values())


@contextlib.contextmanager
def host(tmp_path, count=2, *options, engine="vllm", more="", listen=(), **quick):
    with FaultFleet(tmp_path / "fleet", engine, count, *options) as fleet:
        config = quick_config(more=f"[fleet test]\nrouter={fleet.router}\noutput_dir={tmp_path / 'out'}\n{more}", **quick)
        with Daemon(tmp_path / "profd", config, listen) as profd:
            yield fleet, profd


def in_ns(ns):
    return time.monotonic_ns() + int(patience(ns))


def is_idle(fleet):
    return fleet.journal()["profiling"] == 0


def starts(fleet):
    return [len(fleet.calls(worker, START)) for worker in range(len(fleet.workers))]


def lease_rows(profd):
    return profd.rows("select lease_id, state, session_id from lease_row order by lease_id")


# -- One life


def test_a_session_over_a_lease(tmp_path):
    with host(tmp_path) as (fleet, profd):
        c = Coordinator(profd, fleet.workers)
        granted = c.grant().json()
        assert granted["state"] == "granted" and granted["boot_id"] == boot_id()
        assert granted["catalog"] == profd.rows("select uuid from catalog_row")[0]["uuid"]
        assert 19 * S < granted["deadline_ns"] <= 20 * S
        assert 0 <= time.monotonic_ns() - granted["mono_ns"] < patience(5 * S)
        again = c.grant()
        assert again.status == 200 and again.json()["lease"] == granted["lease"]
        # A coordinator that died before it stored the number asks for it.
        assert profd.get("/v1/leases", session=c.session) == {"lease": c.lease, "state": "granted", "catalog": granted["catalog"]}
        assert profd.get("/v1/leases", session=CATALOG)["state"] == "none"
        assert profd.rows("select * from sessions") == []

        prepared = c.prepare(duration_ns=int(patience(300 * MS)), labels={"job": "7"})
        assert prepared.status == 202 and prepared.json()["session"] == "s1", prepared
        assert c.prepare(duration_ns=300 * MS).status == 200  # nothing is created twice
        armed = c.until_armed()
        assert armed["state"] == "prepared" and not armed["over"]
        assert all(target["trace_dir"].startswith(str(tmp_path / "fleet")) for target in armed["targets"])
        assert starts(fleet) == [0, 0]

        at = in_ns(500 * MS)
        clock = {"offset_ns": -7 * S, "error_ns": 2 * MS}
        started = c.start(at, clock=clock)
        assert started.status == 200 and started.json()["state"] == "waiting", started
        assert c.start(at, clock=clock).status == 200
        assert c.start(at + 1).status == 409

        c.until_over()
        assert c.states() == ["complete", "complete"]
        for worker, url in enumerate(fleet.workers):
            target = c.targets[url]
            assert target["start_status"] == 200 and 0 <= target["start_sent_mono_ns"] - at < patience(200 * MS)
            assert target["stop_answered_mono_ns"] >= target["stop_sent_mono_ns"] > target["start_answered_mono_ns"]
            assert target["profile_id"] == f"{c.session[:8]}-w{worker}"
        assert starts(fleet) == [1, 1] and is_idle(fleet)
        assert len(c.traces) == 2 and {trace["worker"] for trace in c.traces.values()} == set(fleet.workers)
        (session,) = profd.rows("select uuid, coordinator, state, json_extract(labels, '$.job') as job from sessions")
        assert session == {"uuid": c.session, "coordinator": CATALOG, "state": "complete", "job": "7"}
        assert profd.rows("select distinct clock_offset_ns as o, clock_error_ns as e from targets") == [{"o": -7 * S, "e": 2 * MS}]
        assert lease_rows(profd) == [{"lease_id": c.lease, "state": "over", "session_id": 1}]

        # Repeated: the same rows, and everything else is over.
        told, c.after, c.traces = c.traces, 0, {}
        assert c.until_over()["next"] > 0 and c.traces == told
        assert c.ask("stop").json() == {"state": "over"} and c.ask("release").status == 200
        for reply in (c.grant(), c.prepare(), c.start(in_ns(S)), c.renew(5 * S)):
            assert reply.status == 410 and reply.json()["code"] == "gone", reply
        # The workers are free again.
        other = Coordinator(profd, fleet.workers)
        assert other.grant().status == 201 and other.lease > c.lease


def test_a_poll_waits_for_a_change(tmp_path):
    with host(tmp_path, 1) as (fleet, profd):
        c = Coordinator(profd, fleet.workers).ready(duration_ns=200 * MS)
        begun = time.monotonic()
        while c.poll(wait=1).json()["targets"] and time.monotonic() - begun < 1:
            pass  # what was on its way when it was armed
        assert time.monotonic() - begun >= 1
        answers = []
        poll = threading.Thread(target=lambda: answers.append((time.monotonic_ns(), c.poll(wait=20), time.monotonic_ns())))
        poll.start()
        assert c.start(in_ns(300 * MS)).status == 200
        poll.join()
        (began, reply, ended), = answers
        assert reply.json()["targets"] and ended - began < patience(10 * S)
        # One whose client leaves costs nothing, and disturbs nobody.
        connection = profd.connection()
        connection.request("GET", f"/v1/leases/{c.lease}?session={c.session}&after={10**9}&wait=25")
        connection.close()
        c.until_over()
        assert c.states() == ["complete"]


# -- Deadlines


def test_leases_expire_in_each_state_without_a_start(tmp_path):
    with host(tmp_path, 3, session="30min") as (fleet, profd):
        granted, prepared, waiting = (Coordinator(profd, [url]) for url in fleet.workers)
        assert granted.grant(lease_ns=S).status == 201
        prepared.ready(lease_ns=4 * S, duration_ns=S)
        waiting.ready(duration_ns=S)
        # Its start time is after everything that this test waits for.
        assert waiting.start(in_ns(60 * S)).status == 200
        assert waiting.renew(S).status == 200
        for c in (granted, prepared, waiting):
            assert c.until_over()["state"] == "expired", c.last
        assert granted.last.get("targets") is None and prepared.states() == waiting.states() == ["cancelled"]
        assert starts(fleet) == [0, 0, 0]
        assert [row["state"] for row in lease_rows(profd)] == ["expired"] * 3
        assert "3 of 3 leases to other hosts expired before a start" in json.dumps(profd.get("/v1/doctor", worker=fleet.workers))
        session = profd.start_session(duration_ns=100 * MS)["session"]
        assert profd.wait_session(session)["state"] == "complete"


def test_a_silent_coordinator_keeps_no_profiler_running(tmp_path):
    with host(tmp_path) as (fleet, profd):
        c = Coordinator(profd, fleet.workers).ready(stagger=True)
        assert c.start(in_ns(300 * MS)).status == 200
        c.until(lambda answer: answer["session"]["state"] == "recording")
        renewed = time.time_ns()
        assert c.renew(2 * S).status == 200
        wait_for(lambda: is_idle(fleet))
        for worker in range(2):
            (stop,) = fleet.calls(worker, STOP)[-1:]
            assert stop["at_ns"] - renewed < 2 * S + patience(S), "the profiler ran longer than the lease"
        end = c.until_over()
        assert c.states() == ["complete", "complete"] and len(c.traces) == 2
        assert "its lease to login1 ended" in end["session"]["reason"]


def test_a_renewal_does_not_exceed_the_limit_of_a_session(tmp_path):
    with host(tmp_path, 1, session="2s", start="20s") as (fleet, profd):
        c = Coordinator(profd, fleet.workers).ready(duration_ns=S, stagger=True)
        assert c.start(in_ns(500 * MS)).status == 200
        c.until(lambda answer: answer["session"]["state"] == "recording")
        assert c.renew(60 * S).json()["deadline_ns"] <= 2 * S
        wait_for(lambda: is_idle(fleet))
        c.until_over()
        assert c.states() == ["complete"] and "limit of a session's length" in c.last["session"]["reason"]


def test_a_lease_does_not_hold_workers_for_a_day(tmp_path):
    """Whoever has a peer's token asks for a day, renews without an end, or starts tomorrow: the workers are free again soon."""
    day = 86_400 * S
    with host(tmp_path, 3, session="10min") as (fleet, profd):
        asked, prepared, started = (Coordinator(profd, [url]) for url in fleet.workers)
        for c in (asked, prepared, started):
            assert c.grant(day).json()["deadline_ns"] <= 300 * S
        prepared.prepare(duration_ns=S)
        prepared.until_armed()
        for c in (asked, prepared):
            assert 290 * S < c.renew(day).json()["deadline_ns"] <= 300 * S
        started.prepare(stagger=True)
        started.until_armed()
        tomorrow = started.start(time.monotonic_ns() + 3600 * S, lasts_ns=day - 7200 * S)
        assert tomorrow.status == 400 and "later than a lease of this host may wait" in tomorrow.json()["detail"], tomorrow
        assert started.start(in_ns(300 * MS), lasts_ns=day - 60 * S).json()["deadline_ns"] <= 602 * S
        started.until(lambda answer: answer["session"]["state"] == "recording")
        assert started.renew(day).json()["deadline_ns"] <= 600 * S
        for c in (asked, prepared, started):
            assert c.ask("stop").status == 202
        started.until_over()


def test_renewals_without_a_start_have_an_end(tmp_path):
    """With one second of [timeouts] for each of start, clean and session."""
    with host(tmp_path, 2, start="1s", clean="1s", session="1s") as (fleet, profd):
        asked, prepared = (Coordinator(profd, [url]) for url in fleet.workers)
        begun = time.monotonic()
        for c in (asked, prepared):
            assert c.grant(60 * S).json()["deadline_ns"] <= 3 * S
        assert prepared.prepare(duration_ns=500 * MS).status == 202
        for c in (asked, prepared):
            while (renewal := c.renew(60 * S)).status == 200:
                assert renewal.json()["deadline_ns"] <= 3 * S and time.monotonic() - begun < patience(30)
                time.sleep(0.1)
            assert renewal.status == 410, renewal
        assert asked.until_over()["state"] == "expired" and starts(fleet) == [0, 0]
        assert Coordinator(profd, fleet.workers).grant().status == 201


def test_start_times_that_are_refused(tmp_path):
    with host(tmp_path, 1) as (fleet, profd):
        c = Coordinator(profd, fleet.workers)
        c.grant()
        early = c.start(in_ns(S))
        assert early.status == 409 and "not prepared" in early.json()["detail"], early
        c.prepare(duration_ns=S)
        c.until_armed()
        late = c.start(time.monotonic_ns() - 1)
        assert late.status == 409 and late.json()["late"] is True and "nothing was started" in late.json()["detail"], late
        assert c.start(in_ns(S), lasts_ns=-in_ns(S)).status == 400  # no deadline
        assert c.start(time.monotonic_ns() + 60 * S, lasts_ns=-30 * S).status == 400  # after its deadline
        moved = c.start(in_ns(S), boot=str(uuid.uuid4()))
        assert moved.status == 410 and "restarted" in moved.json()["detail"], moved
        assert c.start(in_ns(S), workers=["http://127.0.0.1:1"]).status == 400
        assert starts(fleet) == [0] and c.poll().json()["state"] == "prepared"
        assert c.ask("release").json() == {"state": "released"}
        assert c.until_over()["state"] == "released" and starts(fleet) == [0]


# -- Stops


def test_stops_of_the_coordinator(tmp_path):
    with host(tmp_path, 3) as (fleet, profd):
        c = Coordinator(profd, fleet.workers).ready(stagger=True)
        assert c.start(in_ns(300 * MS)).status == 200
        wait_for(lambda: starts(fleet) == [1, 1, 1])
        c.until(lambda answer: answer["state"] == "recording")
        assert c.ask("stop", {"workers": [fleet.workers[0]]}).status == 202
        wait_for(lambda: fleet.journal()["profiling"] == 2)
        for _ in range(2):
            assert c.ask("stop").status == 202
        c.until_over()
        assert c.states() == ["complete"] * 3 and is_idle(fleet)
        assert "remarks" not in c.last["session"] or not any("stopped by" in remark["text"] for remark in c.last["session"]["remarks"])

        rolled = Coordinator(profd, fleet.workers).ready(stagger=True)
        assert rolled.start(in_ns(300 * MS)).status == 200
        wait_for(lambda: starts(fleet) == [2, 2, 2])
        assert rolled.ask("stop", {"rolled_back": True}).status == 202
        rolled.until_over()
        assert rolled.states() == ["cancelled"] * 3 and is_idle(fleet) and rolled.traces == {}


def test_a_stop_by_somebody_on_the_host(tmp_path):
    with host(tmp_path, session="10min") as (fleet, profd):
        waiting = Coordinator(profd, fleet.workers).ready(duration_ns=S)
        assert waiting.start(in_ns(20 * S)).status == 200
        profd.post("/v1/sessions/s1/stop", status=200)
        assert waiting.until_over()["state"] == "over" and waiting.states() == ["cancelled"] * 2 and starts(fleet) == [0, 0]

        c = Coordinator(profd, fleet.workers).ready(stagger=True)
        assert c.start(in_ns(300 * MS)).status == 200
        wait_for(lambda: starts(fleet) == [1, 1])
        profd.post("/v1/sessions/s2/stop", status=200)
        end = c.until_over()
        (remark,) = [remark["text"] for remark in end["session"]["remarks"] if "stopped by" in remark["text"]]
        assert f"uid {os.geteuid()}" in remark and "on the host of its workers" in remark
        assert is_idle(fleet) and len(c.traces) == 2


# -- Who may have a worker


def test_two_coordinators_and_local_sessions(tmp_path):
    with host(tmp_path) as (fleet, profd):
        first, second = Coordinator(profd, fleet.workers), Coordinator(profd, fleet.workers[1:], host="login2")
        replies = []
        threads = [threading.Thread(target=lambda c=c: replies.append((c, c.grant()))) for c in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,), (loser,) = ([c for c, reply in replies if reply.status == status] for status in (201, 409))
        busy = loser.grant()
        assert busy.status == 409 and busy.json()["code"] == "busy", busy
        holder = busy.json()["holder"]
        assert (holder["session"], holder["host"]) == (winner.session, winner.host)
        assert 0 < holder["until_at"] - time.time_ns() <= 20 * S

        # Local ones are told as well; who waits begins when the lease is given back.
        problem = profd.problem("POST", "/v1/sessions", {"workers": fleet.workers, "duration_ns": S}, 409)
        assert f"anna on {winner.host}" in problem["detail"]
        queued = profd.start_session(workers=fleet.workers, duration_ns=100 * MS, queue=True)["session"]
        assert profd.session(queued)["state"] == "requested"
        assert winner.ask("release").json() == {"state": "released"}
        assert profd.wait_session(queued)["state"] == "complete"
        # What was given back before it was prepared may be asked for again, with another number.
        lease = winner.lease
        assert winner.grant().status == 201 and winner.lease > lease
        winner.ask("release")

        local = profd.start_session(workers=fleet.workers[1:], duration_ns=30 * S)["session"]
        profd.wait_state(local, "recording")
        held = second.grant()
        assert held.status == 409 and held.json()["holder"]["session"] == profd.session(local)["uuid"]
        profd.post(f"/v1/sessions/{local}/stop")
        profd.wait_session(local)
        numbers = [row["lease_id"] for row in lease_rows(profd)]
        assert numbers == sorted(set(numbers))


def test_workers_of_others_are_not_leased(tmp_path):
    """What profd can merely reach is no worker of its host: nothing listens there, or it is none."""
    with host(tmp_path, 1) as (fleet, profd):
        for url in (f"http://127.0.0.1:{free_port()}", "http://192.0.2.1:8000"):
            reply = Coordinator(profd, [fleet.workers[0], url]).grant()
            assert reply.status == 422 and f"{url} is not a worker of this host" in reply.json()["detail"], reply
        assert lease_rows(profd) == []


def test_an_engine_that_refuses(tmp_path):
    with host(tmp_path, 2, "--fault", "start-500@1") as (fleet, profd):
        c = Coordinator(profd, fleet.workers)
        c.grant()
        refused = c.prepare(steps=5, by_stage=True)
        assert refused.status == 422, refused
        assert c.poll().json()["state"] == "granted"  # it may be prepared otherwise
        assert c.prepare(duration_ns=300 * MS).status == 202
        c.until_armed()
        assert c.start(in_ns(300 * MS)).status == 200
        c.until_over()
        assert c.states() == ["complete", "failed"] and "500" in c.targets[fleet.workers[1]]["failure"]
        assert is_idle(fleet)


def test_a_worker_that_is_left_out_of_the_start(tmp_path):
    with host(tmp_path) as (fleet, profd):
        c = Coordinator(profd, fleet.workers).ready(duration_ns=200 * MS)
        assert c.start(in_ns(300 * MS), workers=fleet.workers[:1]).status == 200
        c.until_over()
        assert starts(fleet) == [1, 0] and c.states() == ["complete", "failed"]
        assert "left it out" in c.targets[fleet.workers[1]]["failure"]


# -- Restarts


@pytest.mark.parametrize("crash", [True, False])
def test_a_restart_before_the_start(tmp_path, crash):
    with host(tmp_path, 3, session="10min") as (fleet, profd):
        granted, prepared, waiting = (Coordinator(profd, [url]) for url in fleet.workers)
        granted.grant()
        prepared.ready(duration_ns=S)
        waiting.ready(duration_ns=S)
        assert waiting.start(in_ns(15 * S)).status == 200
        profd.restart(crash=crash)
        for c in (granted, prepared, waiting):
            assert c.until_over()["state"] in ("expired", "over"), c.last
            assert c.start(in_ns(S)).status == 410 and c.renew(S).status == 410
        assert starts(fleet) == [0, 0, 0] and is_idle(fleet)
        assert granted.grant().status == 201  # nothing was recorded for it
        assert prepared.grant().status == 410


def test_a_restart_while_it_records(tmp_path):
    with host(tmp_path) as (fleet, profd):
        c = Coordinator(profd, fleet.workers).ready(duration_ns=int(patience(2 * S if SANITIZED else S)))
        at = in_ns(300 * MS)
        assert c.start(at).status == 200
        wait_for(lambda: starts(fleet) == [1, 1])
        c.until(lambda answer: answer["session"]["state"] == "recording")
        profd.restart(crash=True)
        assert c.start(at).status == 409 and c.renew(60 * S).status == 200
        c.until_over()
        assert c.states() == ["complete", "complete"] and len(c.traces) == 2 and starts(fleet) == [1, 1]
        assert all(0 <= target["start_sent_mono_ns"] - at < patience(200 * MS) for target in c.targets.values())


def test_a_deadline_that_passes_while_profd_is_away(tmp_path):
    with host(tmp_path) as (fleet, profd):
        c = Coordinator(profd, fleet.workers).ready(duration_ns=30 * S)
        assert c.start(in_ns(300 * MS)).status == 200
        c.until(lambda answer: answer["session"]["state"] == "recording")
        assert c.renew(S).status == 200
        profd.kill()
        time.sleep(1)
        assert not is_idle(fleet)
        profd.start()
        wait_for(lambda: is_idle(fleet), 5)
        c.until_over()
        assert c.states() == ["complete", "complete"]


def test_an_emptied_catalog(tmp_path):
    """Another catalog begins with number 1 again: what the old one granted is of no use there."""
    with host(tmp_path, 1) as (fleet, profd):
        old = Coordinator(profd, fleet.workers).ready(duration_ns=S)
        profd.stop()
        for file in profd.state.glob("catalog.db*"):
            file.unlink()
        profd.start()
        new = Coordinator(profd, fleet.workers).ready(duration_ns=200 * MS)
        assert new.lease == old.lease
        for reply in (old.poll(), old.prepare(), old.start(in_ns(S)), old.renew(S), old.ask("stop"), old.ask("release")):
            assert reply.status == 410 and "has no lease 1 of session" in reply.json()["detail"], reply
        assert new.poll().json()["state"] == "prepared" and starts(fleet) == [0]
        assert new.start(in_ns(300 * MS)).status == 200
        new.until_over()
        assert new.states() == ["complete"]


# -- A catalog that takes nothing, and attacks


def test_a_catalog_that_cannot_be_written(tmp_path):
    """Somebody holds its lock: no lease, no start; and a stop is sent all the same."""
    with host(tmp_path) as (fleet, profd):
        running = Coordinator(profd, fleet.workers[:1]).ready(stagger=True)
        assert running.start(in_ns(300 * MS)).status == 200
        running.until(lambda answer: answer["state"] == "recording" and answer["targets"][0]["state"] == "recording")
        ready = Coordinator(profd, fleet.workers[1:]).ready(duration_ns=S)
        with contextlib.closing(sqlite3.connect(profd.catalog)) as db:
            db.execute("begin immediate")
            for reply in (Coordinator(profd, fleet.workers).grant(), ready.start(in_ns(300 * MS))):
                assert reply.status in (409, 507), reply
            assert running.ask("stop").status == 202
            wait_for(lambda: is_idle(fleet))
        assert starts(fleet) == [1, 0]
        running.until_over()
        assert len(running.traces) == 1
        assert ready.start(in_ns(300 * MS)).status == 200  # nothing was promised before
        ready.until_over()
        assert ready.states() == ["complete"]


def test_a_stolen_token_names_nothing_but_workers_and_moments(tmp_path):
    tokens = {"peer": "profd_" + "1" * 64, "read": "profd_" + "2" * 64, "admin": "profd_" + "3" * 64, "thief": "profd_" + "4" * 64}
    roles = {"thief": "peer"}
    file = write_tokens(tmp_path / "tokens", "".join(token_line(name, roles.get(name, name), token) for name, token in tokens.items()))
    port = free_port()
    listen = ("--listen", f"127.0.0.1:{port}")
    with host(tmp_path, 1, more=f"[http]\ntokens_file={file}\n", listen=listen) as (fleet, profd):
        def call(role, method, path, body=None):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            with contextlib.closing(connection):
                connection.request(method, path, json.dumps(body) if body is not None else None,
                                   {"Authorization": f"Bearer {tokens[role]}"})
                return Reply(connection.getresponse())

        grant = {"session": str(uuid.uuid4()), "coordinator": {"catalog": CATALOG, "host": "evil"}, "actor": "eve",
                 "workers": fleet.workers, "lease_ns": 20 * S}
        for role in ("read", "admin"):
            assert call(role, "POST", "/v1/leases", grant).status == 403
        victim = tmp_path / "victim"
        for more in ({"trace_dir": str(victim)}, {"output_dir": str(victim)}, {"router": "http://127.0.0.1:1"}, {"path": str(victim)}):
            reply = call("peer", "POST", "/v1/leases", {**grant, **more})
            assert reply.status == 400 and "is not a member of this request" in reply.json()["detail"], reply
        for workers in (["file:///etc/passwd"], ["kineto://1.2"], []):
            assert call("peer", "POST", "/v1/leases", {**grant, "workers": workers}).status == 400
        lease = call("peer", "POST", "/v1/leases", grant).json()["lease"]
        worker = {"url": fleet.workers[0], "profile_id": "a"}
        body = {"session": grant["session"], "request": {}, "workers": [worker]}
        for wrong in ({"request": {"trace_dir": str(victim)}}, {"request": {"workers": ["http://127.0.0.1:1"]}},
                      {"request": {"workload": {}}}, {"request": {"kineto": True}}, {"request": {"start_at": 1}},
                      {"workers": [{**worker, "output_dir": str(victim)}]}, {"workers": [{**worker, "profile_id": "../../victim"}]},
                      {"workers": [{**worker, "profile_id": "a/b"}]}, {"workers": [{**worker, "profile_id": ".a"}]},
                      {"workers": [{"url": "http://127.0.0.1:1", "profile_id": "a"}]}, {"output_dir": str(victim)}):
            reply = call("peer", "POST", f"/v1/leases/{lease}/prepare", {**body, **wrong})
            assert reply.status == 400, (wrong, reply)
        for method, path in (("DELETE", "/v1/sessions/s1"), ("POST", "/v1/sessions"), ("POST", "/v1/vacuum"), ("DELETE", "/v1/traces/t1")):
            assert call("peer", method, path, {} if method == "POST" else None).status == 403
        # Another peer that has read the session's UUID and the lease's number has no such lease.
        session = grant["session"]
        for step, more in (("prepare", {"request": {}, "workers": [worker]}), ("renew", {"deadline_ns": S}), ("stop", {}), ("release", {}),
                           ("start", {"at_mono_ns": in_ns(S), "boot_id": boot_id(), "deadline_ns": 9 * S, "workers": [{"url": worker["url"]}]})):
            assert call("thief", "POST", f"/v1/leases/{lease}/{step}", {"session": session, **more}).status == 410, step
        assert call("thief", "GET", f"/v1/leases/{lease}?session={session}&after=0&wait=0").status == 410
        assert call("thief", "GET", f"/v1/leases?session={session}").json()["state"] == "none"
        assert call("thief", "POST", "/v1/leases", grant).status == 409
        assert call("peer", "GET", f"/v1/leases?session={session}").json() == {
            "lease": lease, "state": "granted", "catalog": profd.rows("select uuid from catalog_row")[0]["uuid"]}
        assert call("peer", "POST", f"/v1/leases/{lease}/release", {"session": str(uuid.uuid4())}).status == 410
        assert call("peer", "POST", f"/v1/leases/{lease}/release", {"session": grant["session"]}).status == 200
        assert not victim.exists() and starts(fleet) == [0]
        # Whose token is removed has no lease any more, and the workers are free.
        held = call("peer", "POST", "/v1/leases", {**grant, "session": str(uuid.uuid4())}).json()["lease"]
        write_tokens(file, "".join(token_line(name, roles.get(name, name), token) for name, token in tokens.items() if name != "peer"))
        profd.process.send_signal(signal.SIGHUP)
        wait_for(lambda: lease_rows(profd)[-1] == {"lease_id": held, "state": "released", "session_id": None})
        assert call("thief", "POST", "/v1/leases", {**grant, "session": str(uuid.uuid4())}).status == 201
