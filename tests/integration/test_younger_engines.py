# SPDX-License-Identifier: Apache-2.0
"""TensorRT-LLM, ATOM and TokenSpeed: real profd and profctl with workers that serve what these engines serve
(tests/fleet/trtllm_api.py, atom_api.py, tokenspeed_api.py): identified, recorded, their traces collected with the
right ranks; what they cannot do is refused before the start; somebody else's recording stays."""

import contextlib
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

from daemon import BUILD, ROOT, Daemon, quick_config

sys.path.insert(0, str(ROOT / "tests/fleet"))
from fleet import Fleet  # noqa: E402  # pylint: disable=wrong-import-position
from patience import patience  # noqa: E402

PROFCTL = BUILD / "client/profctl"
STEP = ("--step-ms", "5")


@pytest.fixture(name="profd")
def start_profd(tmp_path):
    times = quick_config(start="20s", stop=f"{patience(60):.0f}s", session="30min", settle="3s")
    times = times.replace("identify=1s", "identify=20s")
    with Daemon(tmp_path / "profd", times) as daemon:
        yield daemon


@pytest.fixture(name="fleet")
def make_fleet(tmp_path):
    with Fleet(tmp_path / "fleet") as fleet:
        yield fleet


def profctl(profd, *words):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=patience(120))
    return done.returncode, done.stdout, done.stderr


def post(url, body=None):
    """Of somebody else who knows the worker: status and JSON."""
    request = urllib.request.Request(url, data=json.dumps(body or {}).encode(), method="POST",
                                     headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=patience(30)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def listed(profd, *workers):
    status, out, err = profctl(profd, "list-workers", *(word for worker in workers for word in ("--worker", worker.url)),
                               "--json")
    assert status == 0, err
    return json.loads(out)["workers"]


@contextlib.contextmanager
def serving(*workers):
    """Each worker serves two clients, from before the first statement until after the last."""
    served, over = threading.Semaphore(0), threading.Event()

    def ask(worker):
        while not over.is_set():
            status, answer = post(worker.url + "/v1/completions", {"prompt": "Hello, ", "max_tokens": 12, "ignore_eos": True})
            assert status == 200, answer
            served.release()

    threads = [threading.Thread(target=ask, args=(worker,)) for worker in workers for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            assert served.acquire(timeout=patience(30))
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def record(profd, worker, *options):
    """A session while the worker serves, as a user asks for it: the session, and its traces."""
    with serving(worker):
        status, out, err = profctl(profd, "start", "--worker", worker.url, *options, "--wait", "--json")
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert lines, (status, out, err)
    session = profd.session(lines[-1].get("session") or lines[0]["session"])
    return status, session, profd.traces(session=session["session"]), err


def ranks(traces):
    assert {trace["state"] for trace in traces} == {"complete"}, traces
    return sorted((trace["ranks"]["rank"], trace["ranks"].get("tp"), trace["ranks"].get("dp")) for trace in traces)


ADD = {"tensorrt-llm": (Fleet.add_trtllm, ("--tp_size", "2")), "atom": (Fleet.add_atom, ("-tp", "2")),
       "tokenspeed": (Fleet.add_tokenspeed, ("--tensor-parallel-size", "2", "--tp-size", "2"))}


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


def test_atom_refuses_steps(profd, fleet):
    """Nothing would end such a recording."""
    worker = fleet.add_atom(*STEP)
    fleet.wait_ready()
    status, _, err = profctl(profd, "start", "--worker", worker.url, "--steps", "5")
    assert status != 0 and "do not count steps" in err and "Use --duration" in err
    assert not list(worker.trace_dir.glob("**/*.gz"))


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


def test_atom_with_details_takes_them(profd, fleet):
    worker = fleet.add_atom(*STEP, env={"ATOM_PROFILER_MORE": "1"})
    fleet.wait_ready()
    status, session, traces, err = record(profd, worker, "--duration", "300ms", "--with-stack", "--record-shapes")
    assert status == 0 and len(traces) == 1 and "started without" not in json.dumps(session), (session, err)


def test_tensorrt_llm_is_recorded_by_somebody_else(profd, fleet):
    """409: the start fails with the remedy, and the other recording is not stopped."""
    worker = fleet.add_trtllm(*STEP)
    fleet.wait_ready()
    assert post(worker.url + "/start_profile", {"output_dir": str(worker.trace_dir / "other")})[0] == 200
    status, session, traces, err = record(profd, worker, "--duration", "300ms")
    (target,) = session["targets"]
    assert status != 0 and session["state"] == "failed" and not traces
    assert target["start_status"] == 409 and "stop_sent_at" not in target
    assert "already in progress" in target["failure"] and f"POST {worker.url}/stop_profile" in target["remedy"]
    assert post(worker.url + "/stop_profile")[0] == 200
    assert len(list((worker.trace_dir / "other").iterdir())) == 1


def test_tokenspeed_is_recorded_by_somebody_else(profd, fleet):
    """206 with the reason: a failure in spite of its status, and the other recording is not stopped."""
    worker = fleet.add_tokenspeed(*STEP)
    fleet.wait_ready()
    assert post(worker.url + "/start_profile", {"output_dir": str(worker.trace_dir / "other")})[0] == 200
    status, session, traces, err = record(profd, worker, "--duration", "300ms")
    (target,) = session["targets"]
    assert status != 0 and session["state"] == "failed" and not traces
    assert target["start_status"] == 206 and "stop_sent_at" not in target
    assert "already in progress" in target["failure"] and f"POST {worker.url}/stop_profile" in target["remedy"]
    assert post(worker.url + "/stop_profile")[0] == 200
    assert len(list((worker.trace_dir / "other").iterdir())) == 1


def test_tensorrt_llm_before_its_profile_endpoints(profd, fleet):
    worker = fleet.add_trtllm("--no-profile-routes", *STEP)
    fleet.wait_ready()
    (found,) = listed(profd, worker)
    assert found["engine"] == "tensorrt-llm" and not found["profilable"] and found["reason"] == "has no /start_profile"
    assert "TLLM_PROFILE_START_STOP" in found["remedy"] and "TLLM_TORCH_PROFILE_TRACE" in found["remedy"]


def test_tensorrt_llm_with_another_backend(profd, fleet):
    """Where its command line cannot tell, the missing trace has the remedy."""
    worker = fleet.add_trtllm(*STEP, "--backend", "tensorrt")
    fleet.wait_ready()
    status, _, err = profctl(profd, "start", "--worker", worker.url, "--duration", "300ms")
    assert status != 0 and "only the PyTorch backend" in err and "--backend pytorch" in err


def test_tensorrt_llm_with_windows_of_its_own(profd, fleet):
    worker = fleet.add_trtllm(*STEP, env={"TLLM_PROFILE_START_STOP": "100000-100010"})
    plain = fleet.add_trtllm(*STEP)
    fleet.wait_ready()
    for one, warned in ((worker, True), (plain, False)):
        _, session, _, err = record(profd, one, "--steps", "3")
        assert session["state"] == "complete" and ("TLLM_PROFILE_START_STOP" in json.dumps(session)) == warned, err


def test_atom_without_a_directory(profd, fleet):
    """A start would succeed and record nothing; the variable that its documentation names has no effect."""
    worker = fleet.add_atom(*STEP, trace_dir=False, env={"ATOM_TORCH_PROFILER_DIR": str(fleet.directory / "env")})
    fleet.wait_ready()
    status, _, err = profctl(profd, "start", "--worker", worker.url, "--duration", "300ms")
    assert status != 0 and "without --torch-profiler-dir" in err and "ATOM_TORCH_PROFILER_DIR has no effect" in err, err


def test_atom_of_several_data_parallel_ranks(profd, fleet):
    worker = fleet.add_atom(*STEP, "-tp", "2", "--data-parallel-size", "2", "--compress-s", "0.3")
    fleet.wait_ready()
    status, session, traces, err = record(profd, worker, "--duration", "300ms")
    assert status == 0 and session["state"] == "complete", (session, err)
    assert [(dp, tp) for _, tp, dp in ranks(traces)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(trace["name"].endswith(".gz") for trace in traces), traces  # not the file that it compresses
    assert len(profd.traces()) == 4


def test_atom_links_are_not_followed(profd, fleet, tmp_path):
    """The directory of a rank is the worker's own word: a link is not followed."""
    worker = fleet.add_atom(*STEP, "-tp", "2")
    fleet.wait_ready()
    elsewhere = tmp_path / "elsewhere"
    (worker.trace_dir / "rank_1").rename(elsewhere)
    (worker.trace_dir / "rank_1").symlink_to(elsewhere)
    _, session, traces, _ = record(profd, worker, "--duration", "300ms")
    assert [rank for rank, _, _ in ranks(traces)] == [0] and session["state"] == "partial", session
    assert list(elsewhere.glob("*.gz"))


def test_atom_files_are_imported_with_their_ranks(profd, fleet):
    """What ATOM wrote without profd: the rank is in the name of the directory."""
    worker = fleet.add_atom(*STEP, "--data-parallel-size", "2")
    fleet.wait_ready()
    with serving(worker):
        assert post(worker.url + "/start_profile")[0] == 200
        assert post(worker.url + "/stop_profile")[0] == 200
    status, _, err = profctl(profd, "ingest", *worker.trace_dir.glob("*/*.gz"))
    assert status == 0 and [(dp, tp) for _, tp, dp in ranks(profd.traces())] == [(0, 0), (1, 0)], err


def test_atom_roles(profd, fleet):
    prefill, decode = (fleet.add_atom(*STEP, "--kv-role", role) for role in ("kv_producer", "kv_consumer"))
    fleet.wait_ready()
    assert [worker["role"] for worker in listed(profd, prefill, decode)] == ["prefill", "decode"]


def test_tokenspeed_by_stage(profd, fleet):
    """An idle worker gets its first request while it is recorded: its prompt, then its tokens."""
    worker = fleet.add_tokenspeed(*STEP)
    fleet.wait_ready()
    asked = profd.start_session(workers=[worker.url], steps=1, by_stage=True)
    assert "second profiler" in json.dumps(profd.session(asked["session"]))
    profd.wait_state(asked["session"], "recording")
    assert post(worker.url + "/v1/completions", {"prompt": "Hello, ", "max_tokens": 12, "ignore_eos": True})[0] == 200
    assert profd.wait_session(asked["session"])["state"] == "complete"
    assert {trace.get("stage") for trace in profd.traces(session=asked["session"])} == {"prefill", "decode"}


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
