# SPDX-License-Identifier: Apache-2.0
"""What TensorRT-LLM, ATOM and TokenSpeed have in common: identified, recorded, their traces collected with the right ranks,
benchmarked; what they cannot do is refused before the start; all of them in one session."""

import json

import pytest
from recorded_engines import ADD, STEP, listed, profctl, ranks, record, serving
from recorded_engines import make_fleet, start_profd  # noqa: F401 (fixtures)


@pytest.mark.parametrize("engine", sorted(ADD))
def test_is_identified(profd, fleet, engine):
    add, sizes = ADD[engine]
    add(fleet, *STEP, *sizes)
    fleet.wait_ready()
    (worker,) = listed(profd, fleet.workers[0])
    assert worker["engine"] == engine and worker["profilable"] and worker["model"] == "tiny-random", worker
    assert worker["sizes"]["tp"] == 2
    assert worker["traces"]["local_dir"] == str(fleet.workers[0].trace_dir), worker["traces"]


@pytest.mark.parametrize("engine", sorted(ADD))
def test_recording_by_duration(profd, fleet, engine):
    add, sizes = ADD[engine]
    worker = add(fleet, *STEP, *sizes)
    fleet.wait_ready()
    status, session, traces, err = record(profd, worker, "--duration", "500ms")
    assert status == 0 and session["state"] == "complete", (session, err)
    assert [rank for rank, _, _ in ranks(traces)] == [0, 1]
    assert len({trace["name"] for trace in traces}) == 2
    status, out, err = profctl(profd, "query", traces[0]["trace"], "SELECT COUNT(*) AS n FROM slice", "--json")
    assert status == 0 and json.loads(out)[0]["n"] > 10


@pytest.mark.parametrize("engine", ["tensorrt-llm", "tokenspeed"])
def test_recording_by_steps_ends_by_itself(profd, fleet, engine):
    """The engine counts, ends and writes; profd's stop afterwards is no failure."""
    add, sizes = ADD[engine]
    worker = add(fleet, *STEP, *sizes)
    fleet.wait_ready()
    status, session, traces, err = record(profd, worker, "--steps", "6")
    assert status == 0 and session["state"] == "complete", (session, err)
    assert [rank for rank, _, _ in ranks(traces)] == [0, 1]
    mark = "%_forward_step%" if engine == "tensorrt-llm" else "forward[%"
    status, out, err = profctl(profd, "query", traces[0]["trace"],
                               f"SELECT COUNT(*) AS n FROM slice WHERE name LIKE '{mark}'", "--json")
    assert status == 0 and json.loads(out)[0]["n"] == 6, (out, err)


@pytest.mark.parametrize("engine, options, what, remedy", [
    ("tensorrt-llm", ["--with-stack"], "no Python stacks", "Leave it out"),
    ("tensorrt-llm", ["--by-stage", "--steps", "3"], "does not separate prefill and decode", "Leave it out"),
    ("tensorrt-llm", ["--activities", "cpu,mem"], "no memory snapshots", "Leave it out"),
    ("atom", ["--start-step", "3"], "starts at once", "--start-at"),
    ("atom", ["--with-stack"], "started without stacks", "ATOM_PROFILER_MORE=1"),
    ("atom", ["--record-shapes"], "started without shapes", "ATOM_PROFILER_MORE=1"),
    ("tokenspeed", ["--by-stage"], "by_stage needs steps", "Add --steps N"),
    ("tokenspeed", ["--start-step", "9"], "cannot be taken back", "Add --steps N"),
])
def test_what_cannot_be_honoured_is_refused(profd, fleet, engine, options, what, remedy):
    add, _ = ADD[engine]
    worker = add(fleet, *STEP)
    fleet.wait_ready()
    duration = [] if "--steps" in options else ["--duration", "300ms"]
    status, out, err = profctl(profd, "start", "--worker", worker.url, *options, *duration)
    assert status != 0 and what in err and remedy in err, (out, err)
    assert not [path for path in worker.trace_dir.glob("**/*") if path.is_file()]


def test_one_session_over_a_mixed_fleet(profd, fleet):
    quiet = {"ignore_frontend": True, "torch_profiler_with_stack": False}
    workers = [fleet.add_vllm(*STEP, profiler_config=quiet), fleet.add_sglang(*STEP), fleet.add_trtllm(*STEP),
               fleet.add_atom(*STEP), fleet.add_tokenspeed(*STEP)]
    fleet.wait_ready()
    named = [word for worker in workers for word in ("--worker", worker.url)]
    with serving(*workers):
        status, _, err = profctl(profd, "start", *named, "--duration", "500ms", "--wait")
    assert status == 0, err
    session = profd.session("s1")
    assert session["state"] == "complete", session
    assert {target["engine"] for target in session["targets"]} == \
        {"vllm", "sglang", "tensorrt-llm", "atom", "tokenspeed"}
    assert len({trace["worker"] for trace in profd.traces(session="s1") if trace["kind"] == "trace"}) == 5


@pytest.mark.parametrize("engine", sorted(ADD))
def test_benchmark(profd, fleet, engine):
    """The right API with members that the server takes, and the server's own figures."""
    add, _ = ADD[engine]
    worker = add(fleet, *STEP)
    fleet.wait_ready()
    status, out, err = profctl(profd, "bench", "--worker", worker.url, "-n", "8", "-c", "2", "--isl", "20", "--osl", "6",
                               "--json")
    assert status == 0, err
    run = json.loads(out)
    assert run["requests"] == {"success": 8, "incomplete": 0, "error": 0}, run
    assert run["tokens"]["output_source"] == "usage" and run["tokens"]["output"] == 48, run["tokens"]
    server = run["server"]
    if engine == "tokenspeed":
        assert server is None  # its control server has no metrics
    else:
        (figures,) = server["workers"]
        assert figures["source"] == engine and figures["generation_tokens"] == 48
        assert (figures["ttft_ms"] is None) == (engine == "atom")
