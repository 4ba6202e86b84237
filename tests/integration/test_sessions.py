# SPDX-License-Identifier: Apache-2.0
"""Sessions over workers that behave: their life, and every option that a session can be asked for."""

import concurrent.futures
import contextlib
import http.server
import json
import os
import threading
import time
from pathlib import Path

import pytest

from daemon import Daemon, FaultFleet, quick_config, wait_for
from patience import patience
from wall_clock import WallClock, why_not

MS = 1_000_000
S = 1_000_000_000
SHORT = 100 * MS
START, STOP = "/start_profile", "/stop_profile"


def owns_nothing(profd, fleet):
    """Nobody profiles, and nobody owes a stop."""
    assert fleet.journal()["profiling"] == 0
    assert profd.rows("select count(*) as n from targets where stop_pending") == [{"n": 0}]


@pytest.fixture
def testbed(tmp_path):
    """Starts fleets and profd, and takes them down in order."""
    with contextlib.ExitStack() as stack:

        class Testbed:
            @staticmethod
            def fleet(engine="vllm", count=1, *options, name="fleet"):
                return stack.enter_context(FaultFleet(tmp_path / name, engine, count, *options))

            @staticmethod
            def profd(fleet=None, config=None, more="", environment=None, **quick):
                known = f"[fleet test]\nrouter={fleet.router}\noutput_dir={tmp_path / 'out'}\n" if fleet else ""
                return stack.enter_context(Daemon(tmp_path / "profd", config or quick_config(more=known + more, **quick),
                                                  environment=environment))

        yield Testbed


# The life of a session


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.smoke
def test_a_session_is_complete(testbed, engine):
    fleet = testbed.fleet(engine, 3, "--ranks", "2")
    profd = testbed.profd(fleet)
    before = time.time_ns()
    asked = profd.start_session(duration_ns=200 * MS, labels={"job": "7"})
    assert asked["state"] == "requested"
    session = profd.wait_session(asked["session"])

    assert session["state"] == "complete" and "reason" not in session
    assert session["labels"] == {"job": "7"}
    times = [before] + [session[key] for key in ("requested_at", "starts_sent_at", "recording_at", "stop_at",
                                                 "stopped_at", "finished_at")] + [time.time_ns()]
    assert times == sorted(times)
    assert session["stop_at"] == session["recording_at"] + 200 * MS
    assert 0 <= session["skew_ns"] < patience(500 * MS)
    assert session["counts"] == {"targets": 3, "active": 0, "complete": 3, "partial": 0, "failed": 0, "cancelled": 0, "skipped": 0,
                                 "traces": 6, "bytes": session["counts"]["bytes"], "remote_bytes": 0,
                                 "disk_bytes": session["counts"]["disk_bytes"]}
    assert session["counts"]["disk_bytes"] >= session["counts"]["bytes"] > 0
    for target in session["targets"]:
        assert target["state"] == "complete" and not target["stop_pending"] and "failure" not in target
        moments = [target[key] for key in ("start_sent_at", "start_answered_at", "stop_sent_at", "stop_answered_at")]
        assert moments == sorted(moments)
        assert target["start_status"] == target["stop_status"] == 200
        assert len(target["traces"]) == 2
    sent = [target["start_sent_at"] for target in session["targets"]]
    assert session["skew_ns"] == max(sent) - min(sent) and session["starts_sent_at"] == max(sent)

    traces = profd.traces(session=session["session"])
    assert len(traces) == 6 and all(trace["state"] == "complete" for trace in traces)
    assert sorted(trace["ranks"]["rank"] for trace in traces) == [0, 0, 0, 1, 1, 1]
    owns_nothing(profd, fleet)
    clean = [STOP] if engine == "vllm" else []
    for worker in range(3):
        assert [call["path"] for call in fleet.calls(worker)] == clean + [START, STOP]


def test_each_edge_is_an_event(testbed):
    fleet = testbed.fleet(count=2)
    profd = testbed.profd(fleet)
    session = profd.start_session(duration_ns=SHORT)["session"]
    profd.wait_session(session)
    edges = profd.rows("select text from events where kind = 'session-state' order by event_id")
    assert [edge["text"] for edge in edges] == ["starting", "recording", "stopping", "collecting", "complete"]
    edges = profd.rows("select t.worker, e.text from events e join targets t using (target_id) "
                       "where e.kind = 'target-state' order by event_id")
    for url in fleet.workers:
        states = [edge["text"].split()[1] for edge in edges if edge["worker"] == url]
        assert states == ["starting", "recording", "stopping", "collecting", "complete"]


def test_cleaning_stops_end_before_the_first_start(testbed):
    fleet = testbed.fleet("vllm", 4, "--fault", "slow-stop=0.4@2")
    profd = testbed.profd(fleet)
    # Somebody else's recording, which its worker takes a while to write out.
    assert profd.wait_session(profd.start_session(duration_ns=SHORT)["session"])["state"] == "complete"
    fleet.start_elsewhere(2)

    session = profd.wait_session(profd.start_session(duration_ns=SHORT)["session"])
    assert session["state"] == "complete"
    starts = [fleet.calls(worker, START)[-1]["at_ns"] for worker in range(4)]
    stops = [fleet.calls(worker, STOP)[-2]["at_ns"] for worker in range(4)]
    assert min(starts) >= stops[2] + 400 * MS
    assert max(starts) - min(starts) < patience(500 * MS)


def test_sglang_is_started_once_and_given_the_path_to_write(testbed, tmp_path):
    fleet = testbed.fleet("sglang", 2)
    profd = testbed.profd(fleet)
    session = profd.start_session(duration_ns=SHORT, with_stack=True, record_shapes=True, activities=["cpu", "cuda"])
    session = profd.wait_session(session["session"])
    bodies = []
    for worker in range(2):
        (start,) = fleet.calls(worker, START)
        bodies.append(json.loads(start["body"]))
    for body, target in zip(bodies, session["targets"]):
        assert body["output_dir"] == target["output_dir"] and body["output_dir"].startswith(str(tmp_path / "out"))
        assert body["profile_id"] == target["profile_id"]
        assert body["with_stack"] and body["record_shapes"] and body["activities"] == ["CPU", "GPU"]
        assert "num_steps" not in body
    assert bodies[0]["profile_id"] != bodies[1]["profile_id"]
    assert bodies[0]["output_dir"] != bodies[1]["output_dir"]


def test_vllm_gets_an_empty_start(testbed):
    fleet = testbed.fleet()
    profd = testbed.profd(fleet)
    profd.wait_session(profd.start_session(duration_ns=SHORT)["session"])
    assert [call["body"] for call in fleet.calls(0)] == ["", "", ""]


def test_both_engines_in_one_session(testbed, tmp_path):
    vllm, sglang = testbed.fleet("vllm", 2, name="a"), testbed.fleet("sglang", 2, name="b")
    profd = testbed.profd(config=quick_config(more="".join(
        f"[worker {url}]\noutput_dir={tmp_path / 'out'}\n" for url in sglang.workers)))
    session = profd.start_session(workers=vllm.workers + sglang.workers, duration_ns=SHORT)
    session = profd.wait_session(session["session"])
    assert session["state"] == "complete" and session["counts"]["traces"] == 4
    assert "router" not in session
    owns_nothing(profd, vllm)
    owns_nothing(profd, sglang)


# Busy workers


def test_a_busy_worker_is_refused_with_its_holder(testbed):
    fleet = testbed.fleet(count=2)
    profd = testbed.profd(fleet)
    first = profd.start_session(duration_ns=20 * S, workers=[fleet.workers[1]], fleet="test")["session"]
    holder = profd.wait_state(first, "recording")
    problem = profd.problem("POST", "/v1/sessions", {"duration_ns": SHORT}, 409)
    assert f"{fleet.workers[1]} is held by {first} of {holder['requested_by']}" in problem["title"] + problem["detail"]
    assert "recording until 20" in problem["title"] + problem["detail"]
    assert f"profctl stop {first}" in problem["remedy"] and "--queue" in problem["remedy"]
    # Its neighbour is free.
    other = profd.start_session(duration_ns=SHORT, workers=[fleet.workers[0]], fleet="test")["session"]
    assert profd.wait_session(other)["state"] == "complete"
    profd.post(f"/v1/sessions/{first}/stop")
    assert profd.wait_session(first)["state"] == "complete"
    assert len(fleet.calls(0, START)) == len(fleet.calls(1, START)) == 1


def test_the_list_of_workers_names_the_session_that_holds_one(testbed):
    fleet = testbed.fleet("vllm", 2)
    profd = testbed.profd(fleet)
    session = profd.start_session(workers=[fleet.workers[0]], duration_ns=60 * S)["session"]
    profd.wait_state(session, "recording")
    assert {row["url"]: row.get("held_by") for row in profd.get("/v1/workers", fleet="test")["workers"]} == {
        fleet.workers[0]: session, fleet.workers[1]: None}
    profd.post(f"/v1/sessions/{session}/stop")
    profd.wait_session(session)
    assert not any("held_by" in row for row in profd.get("/v1/workers", fleet="test")["workers"])


def test_two_requests_at_once_get_one_session(testbed):
    fleet = testbed.fleet(count=3)
    profd = testbed.profd(fleet)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: profd.request("POST", "/v1/sessions", {"duration_ns": 300 * MS}), range(8)))
    assert sorted(reply.status for reply in replies) == [201] + [409] * 7
    (reply,) = [reply for reply in replies if reply.status == 201]
    assert profd.wait_session(reply.json()["session"])["state"] == "complete"
    assert [len(fleet.calls(worker, START)) for worker in range(3)] == [1, 1, 1]


def test_the_queue_keeps_its_order(testbed):
    fleet = testbed.fleet(count=2)
    profd = testbed.profd(fleet)
    first = profd.start_session(duration_ns=3 * S, workers=[fleet.workers[0]], fleet="test")["session"]
    profd.wait_state(first, "recording")
    # The second needs both; the third, which needs what is free, does not overtake it.
    second = profd.start_session(duration_ns=SHORT, queue=True)["session"]
    third = profd.start_session(duration_ns=SHORT, queue=True, workers=[fleet.workers[1]], fleet="test")["session"]
    assert profd.session(second)["waiting_for"] == f"{fleet.workers[0]}, held by {first}"
    assert profd.session(third)["waiting_for"] == f"{fleet.workers[1]}, wanted before by {second}"
    problem = profd.problem("POST", "/v1/sessions", {"duration_ns": SHORT, "workers": [fleet.workers[1]],
                                                     "fleet": "test"}, 409)
    assert second in problem["title"] + problem["detail"]
    ends = [profd.wait_session(session) for session in (first, second, third)]
    assert [end["state"] for end in ends] == ["complete"] * 3
    assert ends[0]["stopped_at"] <= ends[1]["starts_sent_at"]
    assert ends[1]["stopped_at"] <= ends[2]["starts_sent_at"]
    owns_nothing(profd, fleet)


def test_a_cancelled_session_leaves_the_queue(testbed):
    fleet = testbed.fleet()
    profd = testbed.profd(fleet)
    first = profd.start_session(duration_ns=20 * S)["session"]
    profd.wait_state(first, "recording")
    second = profd.start_session(duration_ns=SHORT, queue=True)["session"]
    third = profd.start_session(duration_ns=SHORT, queue=True)["session"]
    profd.post(f"/v1/sessions/{second}/stop")
    assert profd.wait_session(second)["state"] == "cancelled"
    profd.post(f"/v1/sessions/{first}/stop")
    assert profd.wait_session(third)["state"] == "complete"
    assert len(fleet.calls(0, START)) == 2


def test_too_many_sessions_are_refused(testbed):
    fleet = testbed.fleet(count=3)
    profd = testbed.profd(config=quick_config(more="[limits]\nsessions=2\n"))
    for worker in fleet.workers[:2]:
        profd.start_session(workers=[worker], duration_ns=20 * S)
    problem = profd.problem("POST", "/v1/sessions", {"workers": [fleet.workers[2]]}, 429)
    assert "sessions=" in problem["remedy"]
    for session in ("s1", "s2"):
        profd.post(f"/v1/sessions/{session}/stop")
        profd.wait_session(session)


# All or nothing


@pytest.mark.parametrize("engine, fault", [("vllm", "start-404"), ("sglang", "start-500"), ("vllm", "hang-start")])
def test_require_all_rolls_the_others_back(testbed, engine, fault):
    fleet = testbed.fleet(engine, 3, "--fault", f"{fault}@1")
    profd = testbed.profd(fleet)
    session = profd.wait_session(profd.start_session(duration_ns=20 * S, require_all=True)["session"])
    assert session["state"] == "failed"
    assert fleet.workers[1] in session["reason"] and "rolled back" in session["reason"]
    assert [target["state"] for target in session["targets"]] == ["cancelled", "failed", "cancelled"]
    owns_nothing(profd, fleet)
    for worker in (0, 2):
        assert [call["path"] for call in fleet.calls(worker)][-2:] == [START, STOP]


def test_require_all_starts_none_where_one_is_not_fit(testbed):
    fleet = testbed.fleet("vllm", 3, "--fault", "no-profiler@2")
    profd = testbed.profd(fleet)
    problem = profd.problem("POST", "/v1/sessions", {"require_all": True}, 422)
    assert fleet.workers[2] in problem["title"] + problem["detail"] and "--profiler-config" in problem["remedy"]
    assert fleet.journal()["starts"] == fleet.journal()["stops"] == 0


def test_cuda_profiler_implies_require_all(testbed):
    fleet = testbed.fleet("sglang", 3, "--fault", "start-404@0")
    profd = testbed.profd(fleet)
    session = profd.start_session(duration_ns=20 * S, activities=["cuda-profiler"])
    session = profd.wait_session(session["session"])
    assert [target["state"] for target in session["targets"]] == ["failed", "cancelled", "cancelled"]
    owns_nothing(profd, fleet)


def test_cuda_profiler_is_complete_at_its_stop(testbed):
    fleet = testbed.fleet("sglang", 2, "--fault", "no-trace")
    profd = testbed.profd(fleet)
    session = profd.start_session(duration_ns=SHORT, activities=["cuda-profiler"])
    assert any("nsys profile" in remark.get("remedy", "") for remark in session["remarks"])
    session = profd.wait_session(session["session"])
    assert session["state"] == "complete" and session["counts"]["traces"] == 0
    assert session["finished_at"] - session["stopped_at"] < patience(500 * MS)  # no file was waited for


# Which workers


@pytest.mark.parametrize("options, chosen", [
    ({"count": 2}, [0, 1]),
    ({"one_per_role": True}, [0, 2, 5]),
    ({"role": "decode"}, [2, 3, 4]),
    ({"role": "decode", "count": 1}, [2]),
    ({"role": "prefill", "one_per_role": True}, [0]),
])
def test_workers_are_chosen(testbed, options, chosen):
    fleet = testbed.fleet("sglang", 6, "--role", "prefill=2,decode=3")
    profd = testbed.profd(fleet)
    session = profd.wait_session(profd.start_session(duration_ns=SHORT, **options)["session"])
    assert session["state"] == "complete"
    assert [target["worker"] for target in session["targets"]] == [fleet.workers[i] for i in chosen]
    assert [len(fleet.calls(worker, START)) for worker in range(6)] == [int(i in chosen) for i in range(6)]


def test_named_workers_of_a_router(testbed):
    fleet = testbed.fleet(count=3)
    profd = testbed.profd(fleet)
    named = [fleet.workers[2], fleet.workers[0] + "/", "http://127.0.0.1:9"]
    session = profd.start_session(duration_ns=SHORT, workers=named, router=fleet.router)
    (skipped,) = session["skipped"]
    assert skipped["worker"] == "http://127.0.0.1:9" and "not listed" in skipped["reason"]
    session = profd.wait_session(session["session"])
    assert [target["worker"] for target in session["targets"]] == [fleet.workers[0], fleet.workers[2]]


@pytest.mark.parametrize("options, text", [
    ({"role": "encode"}, "none of the 2 workers"),
    ({"workers": ["http://127.0.0.1:9"]}, "http://127.0.0.1:9"),
])
def test_nobody_is_left(testbed, options, text):
    fleet = testbed.fleet(count=2)
    profd = testbed.profd(fleet)
    problem = profd.problem("POST", "/v1/sessions", {"router": fleet.router, **options}, 422)
    assert text in problem["title"] + problem["detail"] and problem["remedy"]
    assert profd.rows("select * from sessions") == []


def test_unhealthy_workers_are_skipped_or_included(testbed):
    fleet = testbed.fleet("vllm", 2, "--fault", "unhealthy@1")
    profd = testbed.profd(fleet)
    session = profd.start_session(duration_ns=SHORT)
    (skipped,) = session["skipped"]
    assert skipped["worker"] == fleet.workers[1] and "--include-unhealthy" in skipped["remedy"]
    assert len(profd.wait_session(session["session"])["targets"]) == 1
    session = profd.start_session(duration_ns=SHORT, include_unhealthy=True)
    assert profd.wait_session(session["session"])["counts"]["complete"] == 2


# When


def test_stagger_stops_one_after_another(testbed):
    fleet = testbed.fleet("vllm", 4, "--fault", "slow-stop=0.2")
    profd = testbed.profd(fleet)
    session = profd.wait_session(profd.start_session(duration_ns=SHORT, stagger=True)["session"])
    assert session["state"] == "complete"
    stops = sorted(fleet.calls(worker, STOP)[-1]["at_ns"] for worker in range(4))
    assert all(later - earlier >= 200 * MS for earlier, later in zip(stops, stops[1:]))
    assert max(fleet.calls(worker, START)[-1]["at_ns"] for worker in range(4)) < stops[0]


def test_without_stagger_stops_leave_together(testbed):
    fleet = testbed.fleet("vllm", 4, "--fault", "slow-stop=0.3")
    profd = testbed.profd(fleet)
    profd.wait_session(profd.start_session(duration_ns=SHORT)["session"])
    stops = [fleet.calls(worker, STOP)[-1]["at_ns"] for worker in range(4)]
    assert max(stops) - min(stops) < patience(100 * MS)


def test_starts_leave_at_the_planned_time(testbed):
    fleet = testbed.fleet(count=5)
    profd = testbed.profd(fleet)
    at = time.time_ns() + 6000 * MS  # beyond the lead of the cleaning stops
    session = profd.start_session(duration_ns=SHORT, start_at=at)["session"]
    now = profd.session(session)
    assert now["state"] == "requested" and now["waiting_for"]
    session = profd.wait_session(session)
    for target in session["targets"]:
        assert -5 * MS < target["start_sent_at"] - at < patience(500 * MS)
    assert max(fleet.calls(worker, STOP)[0]["at_ns"] for worker in range(5)) < at
    assert session["start_at"] == at


def test_a_planned_session_can_be_cancelled(testbed):
    fleet = testbed.fleet(count=2)
    profd = testbed.profd(fleet)
    far = profd.start_session(start_at=time.time_ns() + 3600 * S)["session"]
    profd.post(f"/v1/sessions/{far}/stop")
    assert profd.wait_session(far)["state"] == "cancelled"
    # One whose preparations have begun waits for the same moment.
    near = profd.start_session(start_at=time.time_ns() + 1500 * MS)["session"]
    profd.wait_state(near, "starting")
    profd.post(f"/v1/sessions/{near}/stop")
    end = profd.wait_session(near)
    assert end["state"] == "cancelled" and end["finished_at"] < end["start_at"]
    time.sleep(max(0, (end["start_at"] - time.time_ns()) / S) + 0.1)
    assert fleet.journal()["starts"] == 0


def test_when_running_waits_for_load(testbed):
    fleet = testbed.fleet("vllm", 2, "--fault", "idle@1")
    profd = testbed.profd(fleet)
    session = profd.start_session(duration_ns=SHORT, when_running=3)["session"]
    text = f"3 running requests; {fleet.workers[1]} has 0"
    wait_for(lambda: profd.session(session).get("waiting_for") == text)
    assert fleet.journal()["starts"] == 0
    fleet.set_fault("none")
    assert profd.wait_session(session)["state"] == "complete"


def test_when_running_gives_up(testbed):
    fleet = testbed.fleet("sglang", 1, "--fault", "idle")
    profd = testbed.profd(fleet)
    session = profd.start_session(when_running=3, when_timeout_ns=SHORT)["session"]
    end = profd.wait_session(session)
    assert end["state"] == "cancelled"
    assert "gave up waiting for 3 running requests" in end["reason"] and "--when-running" in end["remedy"]
    assert fleet.journal()["starts"] == 0


def test_load_comes_while_another_session_holds_the_worker(testbed):
    fleet = testbed.fleet("vllm", 1, "--fault", "idle")
    profd = testbed.profd(fleet)
    patient = profd.start_session(duration_ns=SHORT, when_running=1)["session"]
    wait_for(lambda: profd.session(patient).get("waiting_for"))
    first = profd.start_session(duration_ns=1500 * MS)["session"]
    profd.wait_state(first, "recording")
    fleet.set_fault("none")
    ends = [profd.wait_session(session) for session in (first, patient)]
    assert [end["state"] for end in ends] == ["complete", "complete"]
    assert ends[0]["stopped_at"] <= ends[1]["starts_sent_at"]


# How long


def test_steps_of_vllm_are_watched(testbed):
    fleet = testbed.fleet(count=2)  # 100 steps a second
    profd = testbed.profd(fleet)
    session = profd.start_session(steps=50)
    assert any("approximate" in remark["text"] for remark in session["remarks"])
    session = profd.wait_session(session["session"])
    assert session["state"] == "complete"
    assert 450 * MS < session["stopped_at"] - session["recording_at"] < patience(3 * S)
    owns_nothing(profd, fleet)


class VllmWithoutMetrics(http.server.BaseHTTPRequestHandler):
    answers = {"/version": {"version": "0.19.1"}, "/v1/models": {"data": [{"id": "m", "owned_by": "vllm"}]},
               "/openapi.json": {"paths": {START: {"post": {}}, STOP: {"post": {}}}}}
    asked = []

    def answer(self):
        self.asked.append((self.command, self.path))
        known = self.command == "GET" and self.answers.get(self.path)
        body = json.dumps(known or {}).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


def test_steps_of_vllm_need_its_count(testbed):
    profd = testbed.profd()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), VllmWithoutMetrics) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        problem = profd.problem("POST", "/v1/sessions", {"workers": [url], "steps": 5, "allow_uncollected": True}, 422)
        server.shutdown()
    assert f"--steps on {url}" in problem["title"] + problem["detail"] and "--duration" in problem["remedy"]
    assert ("GET", "/metrics") in VllmWithoutMetrics.asked
    assert all(method == "GET" for method, _ in VllmWithoutMetrics.asked)


def test_steps_of_sglang_end_by_themselves(testbed):
    fleet = testbed.fleet("sglang", 2)  # 100 steps a second
    profd = testbed.profd(fleet)
    session = profd.wait_session(profd.start_session(steps=20)["session"])
    assert session["state"] == "complete" and session["counts"]["complete"] == 2
    assert session["stopped_at"] - session["recording_at"] < patience(5 * S)
    for worker, target in enumerate(session["targets"]):
        assert json.loads(fleet.calls(worker, START)[0]["body"])["num_steps"] == 20
        assert target["stop_status"] == 500 and "failure" not in target  # it had stopped before it was asked to
    owns_nothing(profd, fleet)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_steps_or_time_whatever_is_over_first(testbed, engine):
    fleet = testbed.fleet(engine, 2)
    profd = testbed.profd(fleet)
    session = profd.wait_session(profd.start_session(steps=100000, duration_ns=300 * MS)["session"])
    assert session["state"] == "complete"
    assert 290 * MS <= session["stopped_at"] - session["recording_at"] < patience(2 * S)
    owns_nothing(profd, fleet)


@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
def test_a_clock_that_is_set_back_lengthens_nothing(testbed, tmp_path):
    """Not a recording that ends by its steps or its time, and not the time that its starts took."""
    clock = WallClock(tmp_path / "clock")
    fleet = testbed.fleet("vllm", 2, "--fault", "idle", "--fault", "slow-start=0.5@1")
    profd = testbed.profd(fleet, session="1h", environment=clock.environment)
    session = profd.start_session(steps=100000, duration_ns=S)["session"]
    wait_for(lambda: fleet.journal()["starts"] == 2, interval_s=0.005)
    clock.offset_s = -3600
    profd.wait_state(session, "recording")
    clock.offset_s = -7200
    end = profd.wait_session(session)
    assert end["state"] == "complete" and 0 <= end["skew_ns"] < patience(500 * MS)
    owns_nothing(profd, fleet)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_steps_that_never_come_end_at_the_limit(testbed, engine):
    fleet = testbed.fleet(engine, 2, "--fault", "idle")
    profd = testbed.profd(fleet, session="1s")
    session = profd.wait_session(profd.start_session(steps=100000)["session"])
    assert session["hard_stop_at"] == session["recording_at"] + S
    assert 900 * MS <= session["stopped_at"] - session["recording_at"] < patience(3 * S)
    assert "limit" in profd.rows("select reason from sessions")[0]["reason"]
    owns_nothing(profd, fleet)


def test_a_longer_duration_than_the_limit_is_refused(testbed):
    fleet = testbed.fleet()
    profd = testbed.profd(fleet, session="1s")
    problem = profd.problem("POST", "/v1/sessions", {"duration_ns": 2 * S}, 400)
    assert "limit of 1" in problem["title"] + problem["detail"] and "session=" in problem["remedy"]
    assert fleet.journal()["stops"] == 0


def test_a_slow_start_does_not_hold_the_others_up(testbed):
    fleet = testbed.fleet("vllm", 3, "--fault", "slow-start=3@1")
    profd = testbed.profd(fleet, start="10s")
    session = profd.wait_session(profd.start_session(duration_ns=SHORT)["session"])
    assert session["state"] == "complete" or session["counts"]["complete"] >= 2
    assert session["recording_at"] - session["starts_sent_at"] < patience(2500 * MS)
    owns_nothing(profd, fleet)


# What cannot be honoured


@pytest.mark.parametrize("engine, roles, options, status, text", [
    ("vllm", None, {"steps": 5, "by_stage": True}, 422, "--by-stage"),
    ("vllm", None, {"with_stack": True}, 422, "--with-stack"),
    ("vllm", None, {"start_step": 5}, 422, "--start-step"),
    ("vllm", None, {"activities": ["mem"]}, 422, "--activities"),
    ("vllm", None, {"activities": ["cuda-profiler"]}, 422, "--activities"),
    ("sglang", None, {"by_stage": True}, 400, "by_stage needs steps"),
    ("sglang", "decode=1", {"by_stage": True, "steps": 5}, 422, "--by-stage"),
    ("vllm", None, {"steps": 10**6}, 400, "steps"),
    ("vllm", None, {"nonsense": 1}, 400, "nonsense"),
])
def test_refused_before_anything_is_started(testbed, engine, roles, options, status, text):
    fleet = testbed.fleet(engine, 2, *(["--role", roles] if roles else []))
    profd = testbed.profd(fleet)
    problem = profd.problem("POST", "/v1/sessions", options, status)
    assert text in problem["title"] + problem["detail"]
    journal = fleet.journal()
    assert journal["starts"] == journal["stops"] == 0
    assert profd.rows("select * from sessions") == []


def test_by_stage_of_sglang(testbed):
    fleet = testbed.fleet("sglang", 2)
    profd = testbed.profd(fleet)
    session = profd.wait_session(profd.start_session(steps=5, by_stage=True)["session"])
    assert session["state"] == "complete"
    traces = profd.traces(session=session["session"])
    assert sorted(trace["stage"] for trace in traces) == ["decode", "decode", "prefill", "prefill"]


# What is said


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_idle_worker_is_named_soon(testbed, engine):
    fleet = testbed.fleet(engine, 2, "--fault", "idle@1")
    profd = testbed.profd(fleet)
    session = profd.start_session(duration_ns=20 * S)["session"]
    remark, = wait_for(lambda: profd.rows("select at, text from events where kind = 'remark'"))
    began = profd.wait_state(session, "recording")["starts_sent_at"]
    assert fleet.workers[1] in remark["text"] and remark["at"] - began < patience(2 * S)
    (late,) = profd.session(session)["remarks"]
    assert late["worker"] == fleet.workers[1] and late["text"].startswith("runs no request") and "--when-running" in late["remedy"]
    assert "remarks" not in profd.get("/v1/sessions")["sessions"][0]
    profd.post(f"/v1/sessions/{session}/stop")
    assert profd.wait_session(session)["remarks"] == [late]


@pytest.mark.parametrize("fault, text", [("sleeping", "sleeps"), ("one-session", "only one session")])
def test_what_will_record_nothing_is_remarked(testbed, fault, text):
    fleet = testbed.fleet("vllm", 2, "--fault", f"{fault}@1")
    profd = testbed.profd(fleet)
    session = profd.start_session(duration_ns=SHORT)
    remark, *more = [remark for remark in session["remarks"] if remark["worker"] == fleet.workers[1]]
    assert len(more) == (fault == "one-session") and all("active_iterations" in other["text"] for other in more)
    assert text in remark["text"] and remark["remedy"] and not remark["refuses"]
    profd.wait_session(session["session"])


# Stopping


def test_a_session_is_stopped_early(testbed):
    fleet = testbed.fleet(count=3)
    profd = testbed.profd(fleet)
    session = profd.start_session(duration_ns=30 * S)["session"]
    profd.wait_state(session, "recording")
    profd.post(f"/v1/sessions/{session}/stop")
    end = profd.wait_session(session)
    assert end["state"] == "complete" and end["stopped_at"] - end["recording_at"] < patience(5 * S)
    owns_nothing(profd, fleet)


def test_a_second_stop_changes_nothing(testbed):
    fleet = testbed.fleet("vllm", 2, "--fault", "slow-stop=0.5")
    profd = testbed.profd(fleet)
    session = profd.start_session(duration_ns=30 * S)["session"]
    profd.wait_state(session, "recording")
    for _ in range(3):
        profd.post(f"/v1/sessions/{session}/stop")
    assert profd.wait_session(session)["state"] == "complete"
    assert [len(fleet.calls(worker, STOP)) for worker in range(2)] == [2, 2]
    problem = profd.problem("POST", f"/v1/sessions/{session}/stop")
    assert problem["status"] in (404, 409) and session in problem["title"] + problem["detail"]
    profd.problem("POST", "/v1/sessions/s99/stop", status=404)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_stop_while_it_starts(testbed, engine):
    fleet = testbed.fleet(engine, 3, "--fault", "slow-start=0.8@1")
    profd = testbed.profd(fleet, start="5s")
    session = profd.start_session(duration_ns=30 * S)["session"]
    wait_for(lambda: fleet.journal()["starts"] == 3)
    profd.post(f"/v1/sessions/{session}/stop")
    end = profd.wait_session(session)
    assert end["state"] == "complete"
    for worker in range(3):
        assert [call["path"] for call in fleet.calls(worker)][-2:] == [START, STOP]
    # Neither was the late start's stop sent before it was answered.
    late = end["targets"][1]
    assert late["start_answered_at"] <= late["stop_sent_at"]
    owns_nothing(profd, fleet)


def test_a_stop_before_the_starts_have_left(testbed):
    fleet = testbed.fleet("vllm", 2, "--fault", "slow-stop=0.6@0")
    fleet.start_elsewhere(0)  # so that the cleaning stop takes its time
    profd = testbed.profd(fleet)
    session = profd.start_session(duration_ns=30 * S)["session"]
    profd.wait_state(session, "starting")
    profd.post(f"/v1/sessions/{session}/stop")
    assert profd.wait_session(session)["state"] == "cancelled"
    assert fleet.journal()["starts"] == 1  # of whoever was there before
    owns_nothing(profd, fleet)


# Many


def test_a_thousand_workers(testbed, capsys):
    fleet = testbed.fleet("vllm", 1000)
    profd = testbed.profd(fleet, start="2min", clean="2min", stop="2min", settle="1min", more="[timeouts]\nidentify=2min\n")
    began = time.monotonic()
    session = profd.start_session(duration_ns=S)
    answered = time.monotonic()
    # profd has better to do than to describe a thousand targets all the time.
    wait_for(lambda: profd.rows("select 1 from sessions where finished_at > 0"), 120, why=profd.log)
    ended = time.monotonic()
    end = profd.session(session["session"])
    assert end["state"] == "complete", end.get("reason")
    assert end["counts"]["complete"] == 1000 and end["counts"]["traces"] == 1000
    answers = [target["start_answered_at"] for target in end["targets"]]
    with capsys.disabled():
        print(f"\n1000 workers: asked {answered - began:.2f} s, first to last start sent {end['skew_ns'] / MS:.1f} ms, "
              f"all starts answered {(max(answers) - end['starts_sent_at']) / MS:.1f} ms after, "
              f"stops {(end['stopped_at'] - end['stop_at']) / MS:.0f} ms, complete after {ended - began:.2f} s")
    owns_nothing(profd, fleet)


@pytest.mark.skipif(os.geteuid() != 0, reason="profd is not dumpable: only root sees its descriptors")
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_connections_are_closed_at_rest(tmp_path):
    """Also those that a worker closed, which nobody would notice before the next call."""
    clock = WallClock(tmp_path / "clock")
    with FaultFleet(tmp_path / "fleet", "vllm", 5) as fleet, Daemon(tmp_path / "profd", quick_config(), environment=clock.environment) as profd:

        def sockets():
            links = [os.readlink(link) for link in Path(f"/proc/{profd.pid}/fd").iterdir() if link.is_symlink()]
            return sum(link.startswith("socket:") for link in links)

        before = sockets()
        profd.wait_session(profd.start_session(router=fleet.router, duration_ns=50_000_000)["session"])
        fleet.set_fault("hang-up")
        clock.let_pass(20)
        assert profd.request("GET", "/healthz").status == 200  # which wakes it up
        wait_for(lambda: sockets() == before, why=lambda: f"{sockets()} sockets and not {before}")
