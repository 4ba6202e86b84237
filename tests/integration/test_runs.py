# SPDX-License-Identifier: Apache-2.0
"""Runs of workloads: what a run and its requests become in the catalog, what is refused, what happens when profd-load does what
it should not, and sessions that are recorded under a load. profd is the real one; its child is fake-profd-load, beside a copy of
profd, but for the last test."""
import contextlib
import csv
import io
import json
import os
import shutil
import signal
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from daemon import BUILD, FINAL, PROFD, ROOT, Daemon, FaultFleet, quick_config, wait_for

sys.path.insert(0, str(ROOT / "tests/fleet"))
from fleet import Fleet  # noqa: E402


class FakeLoad(Daemon):
    """profd with the fake beside it."""

    def __init__(self, directory, bin_directory, **more):
        super().__init__(directory, **more)
        self.program = bin_directory / "profd"

    def command(self):
        return [self.program, *super().command()[1:]]

    def start_run(self, **request):
        return self.post("/v1/runs", request, 202)["run"]

    def run(self, run):
        return self.get(f"/v1/runs/{run}")

    def wait_run(self, run, *states):
        wanted = states or FINAL

        def look():
            now = self.run(run)
            assert now["state"] in wanted or now["state"] not in FINAL, now
            return now["state"] in wanted and now

        return wait_for(look, 30, why=lambda: f"{self.run(run)}\n{self.log()}")

    def ordered(self, run):
        """Who was to be sent what: {"targets", "warm", "workers"} of URLs."""
        return json.loads(self.run(run)["notes"][0]["text"])


@pytest.fixture(scope="module")
def bin_directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bin")
    shutil.copy(PROFD, directory / "profd")
    (directory / "profd-ingest").symlink_to(BUILD / "daemon/ingest/profd-ingest")
    (directory / "profd-load").symlink_to(ROOT / "tests/integration/fake-profd-load")
    return directory


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with FaultFleet(tmp_path_factory.mktemp("fleet"), "vllm", 2) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def profd(tmp_path_factory, bin_directory):
    with FakeLoad(tmp_path_factory.mktemp("profd"), bin_directory, config=quick_config(more="[load]\nruns=3\nrequests_max=100\n")) as profd:
        yield profd


@pytest.fixture
def own_profd(tmp_path, bin_directory):
    """For what ends profd."""
    with FakeLoad(tmp_path / "profd", bin_directory, config=quick_config()) as profd:
        yield profd


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.smoke
def test_a_run_and_what_is_known_of_it(profd, fleet):
    run = profd.start_run(router=fleet.router, workload={"isl": 8, "requests": 5, "osl": 3}, labels={"team": "rl"})
    with profd.events(f"/v1/events?run=r{run}&after=0") as stream:
        events = stream.until(lambda e: e["data"]["text"].startswith("complete"))
    assert [e["data"]["text"].split(":")[0] for e in events] == ["requested", "warming", "loading", "complete"]
    assert {e["event"] for e in events} == {"run"} and {e["data"]["run"] for e in events} == {run}

    now = profd.wait_run(run)
    assert (now["state"], now["model"], now["labels"]) == ("complete", "tiny", {"team": "rl"})
    assert now["requests"] == {"success": 5, "incomplete": 0, "error": 0}
    assert now["workload"] == {"isl": 8, "requests": 5, "osl": 3} and now["metrics"]["ttft_ms"]["p99"] == 2.0
    assert now["outliers"] == [1, 2] and now["goodput"] is None
    assert [w["sent"] for w in now["warmed"]] == [2, 2]
    assert now["requested_at"] < now["started_at"] < now["ended_at"]
    assert now["requested_by"].startswith(f"uid {os.getuid()}")
    # Through the router, while each worker is warmed up by itself.
    assert profd.ordered(run) == {"targets": [fleet.router], "warm": fleet.workers, "workers": fleet.workers}
    assert [t["url"] for t in now["targets"]] == [fleet.router]

    listed = profd.get("/v1/runs", limit=1)["runs"]
    assert listed[0]["run"] == run and listed[0]["throughput"]["requests_per_s"] == 10.5 and "outliers" not in listed[0]
    (row,) = profd.rows("select * from runs where run_id = ?", run)
    assert (row["success"], row["ttft_p99_ms"], row["requests_per_s"]) == (5, 2.0, 10.5)
    rows = profd.rows("select * from requests where run_id = ? order by number", run)
    assert [(r["number"], r["cold"], r["outcome"], r["gaps_us"]) for r in rows] == [(i, i == 0, "success", "[100,100]") for i in range(5)]
    assert rows[3]["intended_at"] == now["started_at"] + 3000000 and rows[3]["target"] == fleet.router


def test_requests_are_kept_while_the_catalog_is_locked(own_profd, fleet):
    """They wait in memory, and so does what became of the run."""
    run = own_profd.start_run(router=fleet.router, workload={"isl": 8, "duration": "1h"})
    rows = "select count(*) as n from requests"
    wait_for(lambda: own_profd.rows(rows)[0]["n"] > 2)
    with contextlib.closing(sqlite3.connect(own_profd.catalog, isolation_level=None, timeout=60)) as db:
        db.execute("begin immediate")
        before = own_profd.rows(rows)[0]["n"]
        wait_for(lambda: own_profd.run(run)["live"]["done"] > before + 10)
        own_profd.post(f"/v1/runs/r{run}/stop")
        wait_for(lambda: f"run r{run} is partial" in own_profd.log(), why=own_profd.log)
        assert own_profd.rows(rows)[0]["n"] == before
        db.execute("rollback")
    end = own_profd.wait_run(run)
    assert end["requests"]["success"] > before + 10
    wait_for(lambda: own_profd.rows(rows) == [{"n": end["requests"]["success"]}])
    assert not any("could not" in note["text"] or "cannot" in note["text"] for note in end["notes"] or [])


def test_requests_in_three_formats(profd, fleet):
    run = profd.start_run(workers=[fleet.workers[0]], workload={"isl": 8, "model": "some-errors", "requests": 5})
    assert profd.wait_run(run)["requests"] == {"success": 3, "incomplete": 0, "error": 2}
    assert profd.ordered(run)["targets"] == [fleet.workers[0]]
    path = f"/v1/runs/r{run}/requests"

    first = profd.get(path, limit=3)
    assert [r["index"] for r in first["requests"]] == [0, 1, 2] and first["next"] == 2
    assert first["requests"][0]["gaps_us"] == [100, 100] and "ttft_ns" not in first["requests"][1]
    rest = profd.get(path, after=first["next"], limit=3)
    assert [r["index"] for r in rest["requests"]] == [3, 4] and "next" not in rest

    lines, address = [], path + "?format=jsonl&limit=2"
    while address:
        page = profd.request("GET", address)
        lines += page.body.decode().splitlines()
        link = page.headers["Link"]
        address = link and link[1:link.index(">")]
    assert [json.loads(line)["index"] for line in lines] == list(range(5))

    pages = [profd.request("GET", f"{path}?format=csv&limit=3").body, profd.request("GET", f"{path}?format=csv&after=2").body]
    table = list(csv.DictReader(io.StringIO(b"".join(pages).decode())))
    assert [(r["index"], r["outcome"], r["error"], r["ttft_ns"]) for r in table[2:]] == [
        ("2", "success", "", "100"), ("3", "error", "HTTP 500", ""), ("4", "success", "", "100")]
    assert json.loads(table[0]["gaps_us"]) == [100, 100]
    assert "json, jsonl or csv" in profd.problem("GET", path + "?format=xml", status=400)["detail"]


@pytest.mark.parametrize("request_, status, said", [
    ({}, 400, "a run needs a workload"),
    ({"workload": 3}, 400, "workload must be an object"),
    ({"workload": {"isl": 8, "osl": 0}}, 400, "osl"),
    ({"workload": {"prompts_file": "/etc/passwd"}}, 400, "prompts_file"),
    ({"workload": {"isl": 8, "requests": 5}, "steps": 5}, 400, '"steps" is not an option of a run'),
    ({"workload": {"isl": 8, "requests": 5}, "load_through": "fog"}, 400, "router or workers"),
    ({"workload": {"isl": 8, "requests": 5}, "load": {}}, 400, '"load" is not an option of a run'),
    ({"workload": {"isl": 8, "requests": 5}, "role": "decode"}, 422, "asked for"),
])
def test_what_is_refused(profd, fleet, request_, status, said):
    problem = profd.problem("POST", "/v1/runs", {"router": fleet.router, **request_}, status)
    assert said in problem["detail"]


def test_bodies_may_be_large_where_prompts_come(profd, fleet):
    prompts = ["word " * 500] * 600
    assert len(json.dumps(prompts)) > 1 << 20
    run = profd.start_run(router=fleet.router, workload={"prompts": prompts, "requests": 1})
    assert profd.wait_run(run)["workload"] == {"n_prompts": 600, "requests": 1}
    assert "too large" in profd.problem("POST", "/v1/traces", {"path": "x" * (1 << 20)}, 413)["detail"]


def test_stopped_where_it_is(profd, fleet):
    run = profd.start_run(router=fleet.router, workload={"isl": 8, "duration": "1h"})
    with profd.events(f"/v1/events?run={run}") as stream:
        live = stream.until(lambda e: e["data"].get("sent"))[-1]
    assert "id" not in live and live["data"]["state"] == "loading" and live["data"]["output_tokens_per_s"] == 12.5
    assert live["data"]["ttft_p99_ms"] is None and "secret" not in live["data"] and "session" not in live["data"]
    assert profd.run(run)["live"]["sent"] > 0
    assert profd.problem("DELETE", f"/v1/runs/{run}", status=409)["remedy"] == f"Stop it with profctl stop r{run}."
    profd.post(f"/v1/runs/r{run}/stop")
    now = profd.wait_run(run)
    assert (now["state"], now["reason"]) == ("partial", f"stopped by {now['requested_by']}")
    assert now["requests"]["success"] > 0 and now["metrics"] and "live" not in now
    assert "is over: it is partial" in profd.problem("POST", f"/v1/runs/{run}/stop", status=409)["detail"]

    profd.request("DELETE", f"/v1/runs/{run}")
    assert "there is no run" in profd.problem("GET", f"/v1/runs/{run}", status=404)["detail"]
    assert profd.rows("select 1 from requests where run_id = ?", run) == []


def test_cancelled_before_it_began_and_one_too_many(profd, fleet):
    runs = [profd.start_run(router=fleet.router, workload={"isl": 8, "model": "never-ready", "requests": 1}) for _ in range(3)]
    problem = profd.problem("POST", "/v1/runs", {"router": fleet.router, "workload": {"isl": 8, "requests": 1}}, 429)
    assert "3 benchmark runs are in progress" in problem["detail"] and "[load] runs=" in problem["remedy"]
    for run in runs:
        profd.post(f"/v1/runs/{run}/stop")
        now = profd.wait_run(run)
        assert now["state"] == "cancelled" and now["reason"].startswith("stopped before it began")


@pytest.mark.parametrize("fault, said", [
    ("garbage", "profd-load sent an invalid line: no JSON object"),
    ("endless", "profd-load sent a line of more than 16777216 bytes"),
    ("twice", "profd-load sent request 0 twice"),
    ("wrong-outcome", 'profd-load sent an invalid line: "outcome" of a line "request"'),
    ("early", "profd-load sent an unexpected line"),
    ("dies", "profd-load was killed by SIGSEGV"),
    ("leaves", "profd-load ended before the run did"),
    ("fails", "no model answers"),
    ("fails-late", "every worker is gone"),
    ("errors", "of 4 requests 4 failed and 0 are incomplete"),
])
def test_a_child_that_fails(profd, fleet, fault, said):
    run = profd.start_run(router=fleet.router, workload={"isl": 8, "model": fault, "requests": 4})
    now = profd.wait_run(run)
    assert now["state"] == "failed" and now["reason"].startswith(said) and now["remedy"]
    # What it came to before is there.
    kept = [r["outcome"] for r in profd.rows("select outcome from requests where run_id = ?", run)]
    assert kept[:2] == {"early": [], "fails": [], "errors": ["error", "error"]}.get(fault, ["success", "success"])
    wait_for(lambda: not children(profd.pid), 10)


def test_more_requests_than_are_kept(profd, fleet):
    run = profd.start_run(router=fleet.router, workload={"isl": 8, "requests": 103})
    now = profd.wait_run(run)
    assert now["requests"]["success"] == 103 and now["state"] == "complete"
    assert len(profd.rows("select 1 from requests where run_id = ?", run)) == 100
    assert now["notes"][1]["text"].startswith("3 further requests have no rows")


def test_counted(profd, fleet):
    profd.wait_run(profd.start_run(router=fleet.router, workload={"isl": 8, "requests": 2}))
    text = profd.request("GET", "/metrics").body.decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("profd_run"))
    assert values["profd_runs"] == "0" and int(values['profd_runs_ended_total{state="complete"}']) >= 1
    assert int(values['profd_run_requests_total{outcome="success"}']) >= 2


def test_a_catalog_that_cannot_take_its_end(own_profd, fleet):
    """What the log says is what is shown, and the catalog has it later."""
    run = own_profd.start_run(router=fleet.router, workload={"isl": 8, "duration": "1h"})
    wait_for(lambda: own_profd.run(run).get("live"))
    with contextlib.closing(sqlite3.connect(own_profd.catalog, isolation_level=None)) as db:
        db.execute("begin immediate")
        own_profd.post(f"/v1/runs/{run}/stop")
        wait_for(lambda: f"run r{run} is partial" in own_profd.log())
        assert own_profd.run(run)["state"] == own_profd.get("/v1/runs")["runs"][0]["state"] == "partial"
        assert "is over: it is partial" in own_profd.problem("POST", f"/v1/runs/{run}/stop", status=409)["detail"]
        assert own_profd.rows("select state from runs") == [{"state": "loading"}]
        with own_profd.events(f"/v1/events?run={run}&after=0") as stream:
            db.execute("rollback")
            stream.until(lambda event: event["data"]["text"].startswith("partial"))
    wait_for(lambda: own_profd.rows("select state from runs") == [{"state": "partial"}])
    assert own_profd.run(run)["metrics"]


def test_profd_dies(own_profd, fleet):
    run = own_profd.start_run(router=fleet.router, workload={"isl": 8, "duration": "1h"})
    wait_for(lambda: own_profd.run(run).get("live"))
    (child,) = children(own_profd.pid)
    own_profd.kill()
    wait_for(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text(), 10)
    own_profd.start()
    now = own_profd.run(run)
    assert (now["state"], now["reason"]) == ("failed", "profd ended while it ran") and now["requests"]["success"] > 0


def test_profd_is_asked_to_end(own_profd, fleet):
    run = own_profd.start_run(router=fleet.router, workload={"isl": 8, "duration": "1h"})
    own_profd.wait_run(run, "loading")
    own_profd.stop()  # which waits for less than the hour
    own_profd.start()
    now = own_profd.run(run)
    assert now["state"] == "partial" and now["reason"] == "stopped by profd, which is stopping" and now["metrics"]


def test_no_rest_while_it_runs(tmp_path, bin_directory, fleet):
    with FakeLoad(tmp_path, bin_directory, options=["--exit-when-idle", "300ms"]) as profd:
        run = profd.start_run(router=fleet.router, workload={"isl": 8, "duration": "1h"})
        begun, process = time.monotonic(), profd.process
        wait_for(lambda: time.monotonic() - begun > 1 or process.poll() is not None)
        assert process.poll() is None
        profd.post(f"/v1/runs/{run}/stop")
        assert process.wait(20) == 0
        profd.process = None


# -- With a session ------------------------------------------------------------------------------------------------------


def story(profd, session):
    """What happened in order, without the workers' own."""
    events = profd.rows("select kind, text from events where session_id = ? order by event_id", int(session[1:]))
    return [f"{e['kind'].split('-')[0]} {e['text'].split(':')[0]}" for e in events if e["kind"] in ("run", "session-state")]


def test_a_session_under_its_load(profd, fleet):
    begun = {worker: len(fleet.calls(i, "/start_profile")) for i, worker in enumerate(fleet.workers)}
    session = profd.start_session(router=fleet.router, workload={"isl": 8, "requests": 3})["session"]
    now = profd.wait_session(session)
    assert now["state"] == "complete", now
    run = profd.run(now["run"])
    assert run["state"] == "complete" and run["session"] == int(session[1:])
    assert story(profd, session) == ["run requested", "run warming", "session starting", "session recording", "run loading",
                                     "run complete", "session stopping", "session collecting", "session complete"]
    assert [len(fleet.calls(i, "/start_profile")) - begun[w] for i, w in enumerate(fleet.workers)] == [1, 1]
    # The load came when all of them recorded, and they were stopped when it was over.
    assert now["recording_at"] <= run["started_at"] and all(t["stop_sent_at"] >= run["ended_at"] for t in now["targets"])
    assert now["options"]["workload"] == {"isl": 8, "requests": 3} and profd.get("/v1/runs", session=session)["runs"][0]["run"] == now["run"]
    assert not any("runs no request" in r["text"] for r in now.get("remarks", []))


def test_the_recording_may_be_shorter_than_the_load(profd, fleet):
    session = profd.start_session(router=fleet.router, workload={"isl": 8, "duration": "1h"}, duration_ns=200_000_000)["session"]
    now = profd.wait_session(session)
    assert now["state"] == "complete"
    assert profd.run(now["run"])["state"] == "loading"
    profd.post(f"/v1/runs/{now['run']}/stop")
    assert profd.wait_run(now["run"])["state"] == "partial"


def test_a_load_that_fails_ends_the_recording(profd, fleet):
    session = profd.start_session(router=fleet.router, workload={"isl": 8, "model": "dies", "requests": 4})["session"]
    now = profd.wait_session(session)
    run = profd.run(now["run"])
    assert run["state"] == "failed"
    assert now["reason"] == f"its load r{now['run']} failed: {run['reason']}" and now["counts"]["traces"] == 2


def test_a_load_that_cannot_begin(profd, fleet):
    before = [len(fleet.calls(i)) for i in range(2)]
    session = profd.start_session(router=fleet.router, workload={"isl": 8, "model": "fails", "requests": 4})["session"]
    now = profd.wait_session(session)
    assert now["state"] == "failed" and "no model answers" in now["reason"] and now["remedy"] == "Start one."
    assert [len(fleet.calls(i)) for i in range(2)] == before


def test_starts_that_fail_give_up_the_load(tmp_path, profd):
    with FaultFleet(tmp_path, "vllm", 1, "--fault", "start-500") as fleet:
        session = profd.start_session(router=fleet.router, workload={"isl": 8, "requests": 3})["session"]
        now = profd.wait_session(session)
        assert now["state"] == "failed" and "start_profile" in now["reason"]
        run = profd.wait_run(now["run"])
        assert run["state"] == "cancelled" and run["requests"]["success"] == 0 and "started_at" not in run


@pytest.mark.parametrize("model, state, run_state", [("tiny", "complete", "partial"), ("never-ready", "cancelled", "cancelled")])
def test_a_stop_ends_both(profd, fleet, model, state, run_state):
    session = profd.start_session(router=fleet.router, workload={"isl": 8, "model": model, "duration": "1h"})["session"]
    run = profd.session(session)["run"]
    profd.wait_run(run, "warming" if model == "never-ready" else "loading")
    if model == "never-ready":
        assert profd.session(session)["waiting_for"] == f"the warm-up of r{run}"
        problem = profd.problem("POST", "/v1/sessions", {"router": fleet.router}, 409)
        assert f"held by {session}" in problem["detail"]
    else:  # A run without any answer is failed.
        wait_for(lambda: profd.run(run).get("live", {}).get("done"))
    profd.post(f"/v1/sessions/{session}/stop")
    assert profd.wait_session(session)["state"] == state
    assert profd.wait_run(run)["state"] == run_state


def test_workers_with_parts_are_loaded_through_their_router(tmp_path, profd):
    with FaultFleet(tmp_path, "sglang", 2, "--role", "prefill=1,decode=1", "--router-dialect", "sglang") as fleet:
        request = {"router": fleet.router, "role": "decode", "workload": {"isl": 8, "requests": 2}}
        problem = profd.problem("POST", "/v1/runs", {**request, "load_through": "workers"}, 422)
        assert "decode worker, which answers no request by itself" in problem["detail"]
        again = profd.problem("POST", "/v1/sessions", {**request, "load": {"through": "workers"}}, 422)
        assert again["detail"] == problem["detail"]
        session = profd.start_session(**request, load={"through": "router"})["session"]
        now = profd.wait_session(session)
        assert [t["role"] for t in now["targets"]] == ["decode"] and now["state"] == "complete"
        ordered = profd.ordered(now["run"])
        assert ordered["targets"] == ordered["warm"] == [fleet.router] and len(ordered["workers"]) == 1


def test_a_recording_without_work_is_remarked(tmp_path, profd):
    empty = tmp_path / "empty.json"
    empty.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": "waits", "pid": 1, "tid": 1, "ts": 5, "dur": 9}]}))
    for template, said in (["--trace", empty], True), ([], False):
        with FaultFleet(tmp_path / f"fleet-{said}", "vllm", 1, *template) as fleet:
            now = profd.wait_session(profd.start_session(router=fleet.router, workload={"isl": 8, "requests": 2})["session"])
            texts = [r["text"] for r in now.get("remarks", [])]
            assert (f"recorded no work of its model, although r{now['run']} was sent" in texts) is said and now["state"] == "complete"


def test_restarted_under_a_load(own_profd, fleet):
    session = own_profd.start_session(router=fleet.router, workload={"isl": 8, "duration": "1h"})["session"]
    own_profd.wait_state(session, "recording")
    own_profd.restart(crash=True)
    now = own_profd.wait_session(session)
    assert now["state"] == "complete" and own_profd.run(now["run"])["state"] == "failed"
    assert any("ended then, with its load" in r["text"] for r in now["remarks"])


# -- All of it is real ---------------------------------------------------------------------------------------------------


def test_real(tmp_path):
    with Fleet(tmp_path / "fleet") as fleet, Daemon(tmp_path / "profd", quick_config(stop="60s")) as profd:
        worker = fleet.add_vllm(profiler_config={"torch_profiler_with_stack": False})
        fleet.wait_ready()
        session = profd.start_session(workers=[worker.url], workload={"isl": 8, "requests": 6, "concurrency": 3, "osl": 4,
                                                                      "warmup": 1})["session"]
        now = profd.wait_session(session)
        run = profd.get(f"/v1/runs/{now['run']}")
        assert (now["state"], run["state"]) == ("complete", "complete"), (now, run, profd.log())
        assert run["requests"]["success"] == 6 and run["metrics"]["ttft_ms"]["p50"] > 0
        requests = profd.get(f"/v1/runs/{now['run']}/requests")["requests"]
        assert [r["output_tokens"] for r in requests] == [4] * 6 and all(r["lateness_ns"] >= 0 for r in requests)
        (trace,) = [t for t in profd.traces(session=session) if t["kind"] == "trace"]
        assert trace["events"] > 0
