# SPDX-License-Identifier: Apache-2.0
"""Whose is a trace? Real workers that share a directory, workers that cannot be told apart, and what nobody asked for."""

import concurrent.futures
import gzip
import json
import os
import sys
import time
import urllib.request
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fleet"))
from daemon import Daemon, FaultFleet, wait_for  # noqa: E402
from fleet import Fleet  # noqa: E402
from test_collect import NAME, config, made_trace, record, sha256, unclaimed  # noqa: E402
from patience import patience
from wall_clock import WallClock, why_not

MS = 1_000_000


def process_tree(pid):
    tree, todo = set(), [pid]
    while todo:
        parent = todo.pop()
        tree.add(parent)
        for task in Path(f"/proc/{parent}/task").iterdir():
            todo += map(int, (task / "children").read_text().split())
    return tree


def pid_of_events(trace):
    with gzip.open(trace["path"], "rt", encoding="utf-8") as source:
        events = json.load(source)["traceEvents"]
    pids = {event["pid"] for event in events if isinstance(event["pid"], int) and event["pid"] > 0}
    assert len(pids) == 1, pids
    return pids.pop()


def post(url, body=None):
    request = urllib.request.Request(url, method="POST", data=json.dumps(body or {}).encode(),
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert reply.status == 200


def generate(worker):
    post(worker.url + "/v1/completions", {"prompt": "Whose is this?", "max_tokens": 4, "ignore_eos": True})


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Four real workers that write into one directory, as vime's do."""
    directory = tmp_path_factory.mktemp("fleet")
    with Fleet(directory) as fleet:
        for i in range(4):
            fleet.add_vllm(trace_dir=directory / "traces",
                           profiler_config={"torch_profiler_with_stack": False, "ignore_frontend": i % 2 == 1})
        fleet.add_router("vllm-router")
        yield fleet


def record_real(profd, fleet, **request):
    """All workers but the last have something to do."""
    session = profd.start_session(router=fleet.routers[0].url, duration_ns=1500 * MS, **request)["session"]
    profd.wait_state(session, "recording", timeout_s=60)
    with concurrent.futures.ThreadPoolExecutor() as at_once:
        list(at_once.map(generate, fleet.workers[:-1]))
    return profd.wait_session(session, timeout_s=90)


def of_kind(traces, kind):
    return [trace for trace in traces if trace["kind"] == kind]


def check_whose(profd, fleet, session):
    """Each worker has one trace of its rank, and it is its own."""
    traces = profd.traces(session=session["session"], limit=100)
    for worker in fleet.workers:
        own = [trace for trace in traces if trace.get("worker") == worker.url]
        assert len(of_kind(own, "trace")) == 1, traces
        for trace in of_kind(own, "trace") + of_kind(own, "frontend"):
            assert trace["state"] == "complete"
            assert pid_of_events(trace) in process_tree(worker.pid), trace
    return traces


def test_four_workers_in_one_directory(tmp_path, shared):
    with Daemon(tmp_path / "profd", config(settle="2s")) as profd:
        session = record_real(profd, shared)
        assert session["state"] == "complete", (session, profd.traces())
        assert [target["state"] for target in session["targets"]] == ["complete"] * 4
        traces = check_whose(profd, shared, session)
        assert len(of_kind(traces, "trace")) == 4
        # What AsyncLLM recorded is of its worker, and is no rank.
        frontends = of_kind(traces, "frontend")
        assert {trace["worker"] for trace in frontends} == {shared.workers[0].url, shared.workers[2].url}
        assert all("async_llm" in trace["name"] for trace in frontends)
        # One file that all of them wrote over: nobody can say whose the last version is, but it is there.
        tables = of_kind(traces, "attachment")
        assert tables and {trace["name"] for trace in tables} == {"profiler_out_0.txt"}

        # A second session sees its own files only.
        second = record_real(profd, shared)
        assert second["state"] == "complete", second
        again = check_whose(profd, shared, second)
        assert {trace["origin"] for trace in of_kind(traces, "trace")}.isdisjoint(
            trace["origin"] for trace in of_kind(again, "trace"))
        assert of_kind(again, "attachment")
        # The table of the first session is kept as it was, though the worker wrote over it.
        assert all(sha256(trace["path"]) == trace["sha256"] for trace in tables)


def test_one_of_four(tmp_path, shared):
    with Daemon(tmp_path / "profd", config(settle="2s")) as profd:
        chosen = shared.workers[1]
        session = record_real(profd, shared, workers=[chosen.url])
        assert session["state"] == "complete" and session["counts"]["targets"] == 1
        traces = of_kind(profd.traces(limit=100), "trace")
        assert [trace["worker"] for trace in traces] == [chosen.url]
        assert pid_of_events(traces[0]) in process_tree(chosen.pid)

        # Told to record by somebody else: profd finds the trace where it has looked before, and makes up no owner.
        other = shared.workers[3]
        post(other.url + "/start_profile")
        generate(other)
        post(other.url + "/stop_profile")
        found = wait_for(lambda: of_kind(unclaimed(profd), "trace"))
        assert len(found) == 1 and "worker" not in found[0] and "candidates" not in found[0]
        assert found[0]["state"] == "complete" and pid_of_events(found[0]) in process_tree(other.pid)
        assert Path(found[0]["path"]).parent == profd.state / "traces/unclaimed"


def test_workers_that_cannot_be_distinguished(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--shared-dir") as fleet, \
            Daemon(tmp_path / "profd", config()) as profd:
        session = record(profd, fleet)
        assert session["state"] == "partial"
        for target in session["targets"]:
            assert target["state"] == "partial"
            assert target["failure"] == (f"2 traces in {tmp_path / 'fleet'} may belong to this or another worker")
            assert target["remedy"] == "Give each worker a directory of its own."
        traces = profd.traces(session=session["session"])
        assert [trace["state"] for trace in traces] == ["complete"] * 2  # and nobody's duplicate
        for trace in traces:
            assert "worker" not in trace and sorted(trace["candidates"]) == sorted(fleet.workers)
        with_one = record(profd, fleet, workers=[fleet.workers[1]])
        assert with_one["state"] == "complete"
        assert [trace["worker"] for trace in profd.traces(session=with_one["session"])] == [fleet.workers[1]]


def test_engines_that_share_a_directory(tmp_path):
    """The names tell vLLM's files from SGLang's, and SGLang's carry the id that profd gave."""
    place = tmp_path / "traces"
    with FaultFleet(place, "vllm", 1, "--shared-dir") as vllm, FaultFleet(tmp_path / "sg", "sglang", 3) as sglang:
        more = "".join(f"[worker {url}]\noutput_dir={place}\n" for url in sglang.workers)
        more += "[fleet both]\n" + "".join(f"worker={url}\n" for url in vllm.workers + sglang.workers)
        with Daemon(tmp_path / "profd", config(more=more)) as profd:
            session = profd.wait_session(profd.start_session(fleet="both", duration_ns=100 * MS)["session"])
            assert session["state"] == "complete", (session, profd.traces())
            for target in session["targets"]:
                (trace,) = profd.traces(worker=target["worker"])
                assert ("TP-" in trace["name"]) == (target["engine"] == "sglang")
                assert target["engine"] == "vllm" or target["profile_id"] in trace["name"]


def test_files_that_were_there_before(tmp_path):
    place = tmp_path / "fleet/w0"
    place.mkdir(parents=True)
    old = place / NAME
    old.write_bytes(made_trace())
    fresh = place / NAME.replace("rank0", "rank1")
    fresh.write_bytes(made_trace(rank=1))
    os.utime(old, (time.time() - 3600, time.time() - 3600))
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, Daemon(tmp_path / "profd", config()) as profd:
        session = record(profd, fleet)
        assert session["state"] == "complete" and session["counts"]["traces"] == 1
        time.sleep(2.5)
        assert [Path(trace["origin"]) for trace in profd.traces()] == [
            path for path in place.iterdir() if path not in (old, fresh)]
        # One that is written over meanwhile is news.
        old.write_bytes(made_trace(rank=2))
        found = wait_for(lambda: unclaimed(profd))
        assert [trace["origin"] for trace in found] == [str(old)]


@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
def test_files_while_the_clock_is_set_back(tmp_path):
    """Between two recordings of one worker, of which the first is still being collected. What the worker wrote before has the
    time of the old clock, what it writes from then on that of the new one: each is of the recording during which it came."""
    hour, place, clock = 3600, tmp_path / "fleet/w0", WallClock(tmp_path / "clock")

    def write(rank, age_s):
        path = tmp_path / NAME.replace("rank0", f"rank{rank}")
        path.write_bytes(made_trace(rank=rank))
        os.utime(path, (time.time() - age_s, time.time() - age_s))
        place.mkdir(exist_ok=True)
        path.rename(place / path.name)

    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--ranks", "2", "--fault", "no-trace") as fleet, \
            Daemon(tmp_path / "profd", config(settle=f"{patience(10):.0f}s"), environment=clock.environment) as profd:
        request = {"router": fleet.router, "duration_ns": int(patience(500 * MS))}
        first = profd.start_session(**request)["session"]
        profd.wait_state(first, "collecting")
        write(0, 0)
        wait_for(lambda: profd.traces(session=first))
        clock.offset_s = -hour
        write(1, hour)
        assert profd.wait_session(first)["state"] == "complete"

        second = profd.start_session(**request)["session"]
        profd.wait_state(second, "recording")
        clock.offset_s = -2 * hour
        profd.wait_state(second, "collecting")
        write(2, 2 * hour)
        write(3, 2 * hour)
        assert profd.wait_session(second)["state"] == "complete"
        assert sorted((trace["session"], trace["ranks"]["rank"]) for trace in profd.traces()) == [
            (first, 0), (first, 1), (second, 2), (second, 3)]


def test_a_table_that_is_written_over_belongs_to_each_session(tmp_path):
    place = tmp_path / "fleet/w0"
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, Daemon(tmp_path / "profd", config()) as profd:
        texts = ["", "\n", "the third, longer\n"]  # vLLM leaves it empty where there is nothing to tell
        for text in texts:
            session = profd.start_session(router=fleet.router, duration_ns=int(patience(500 * MS)))["session"]
            profd.wait_state(session, "recording")
            place.mkdir(exist_ok=True)
            (place / "profiler_out_0.txt").write_text(text)
            assert profd.wait_session(session)["state"] == "complete"
        tables = of_kind(profd.traces(), "attachment")
        assert sorted((table["session"], Path(table["path"]).read_text()) for table in tables) == [
            (f"s{n}", text) for n, text in enumerate(texts, 1)]
        assert {table["worker"] for table in tables} == {fleet.workers[0]}


def test_a_watched_directory(tmp_path):
    watched = tmp_path / "watched"
    with Daemon(tmp_path / "profd", config(collect=f"watch={watched}\nwatch={tmp_path / 'second'}")) as profd:
        (tmp_path / "second").mkdir()
        watched.mkdir()
        time.sleep(0.1)
        profd.restart()  # directories that were not there are looked for again each half minute, or at once like this
        (watched / NAME).write_bytes(made_trace())
        trace = wait_for(lambda: unclaimed(profd))[0]
        assert trace["origin"] == str(watched / NAME) and trace["state"] == "complete"
        # Known after a restart, and after a crash; what came while profd was away is found.
        for crash in (False, True):
            profd.restart(crash=crash)
            late = watched / f"profd_was_away_{crash}_rank0.1700000000000000001.pt.trace.json.gz"
            profd.kill()
            late.write_bytes(made_trace(crash=crash))
            profd.start()
            wait_for(lambda late=late: [t for t in unclaimed(profd) if t["origin"] == str(late)])
        time.sleep(1.5)
        assert len(profd.traces()) == 3 == len({trace["origin"] for trace in profd.traces()})


def test_a_real_worker_that_nobody_profiles_by_profd(tmp_path):
    with Fleet(tmp_path / "fleet") as fleet:
        worker = fleet.add_vllm(profiler_config={"ignore_frontend": True, "torch_profiler_with_stack": False})
        fleet.wait_ready()
        worker.trace_dir.mkdir(parents=True, exist_ok=True)
        with Daemon(tmp_path / "profd", config(collect=f"watch={worker.trace_dir}")) as profd:
            post(worker.url + "/start_profile")
            generate(worker)
            post(worker.url + "/stop_profile")
            found = wait_for(lambda: of_kind(unclaimed(profd), "trace") and of_kind(unclaimed(profd), "attachment") and
                             unclaimed(profd), timeout_s=20)
            assert all("worker" not in trace and "session" not in trace for trace in found)
            assert profd.get("/v1/traces", unclaimed="true")["traces"] == found
