# SPDX-License-Identifier: Apache-2.0
"""Job files of srtctl carried out: each phase is recorded under its own load, and its traces are found where srtctl puts them."""
import json
import os
import re
import subprocess
import sys
import urllib.request

import pytest

from daemon import BUILD, ROOT, Daemon, quick_config, wait_for

sys.path.insert(0, str(ROOT / "tests" / "fleet"))
from fleet import Fleet  # noqa: E402

SAMPLES = {path.name: path.read_text() for path in (ROOT / "tests/data/srt-slurm").iterdir()}
# Of December 2025: the load stands in the phases. As many at a time as there are requests: a few steps serve them all.
RECIPE = """name: profiling
resources: {prefill_nodes: 1, decode_nodes: 1, prefill_workers: 1, decode_workers: 1}
profiling:
  type: torch
  prefill: {isl: 8, osl: 3, concurrency: 16, start_step: 0, stop_step: 2}
  decode: {isl: 8, osl: 4, concurrency: 16, start_step: 0, stop_step: 3}
"""
# Of February 2026 and later: one load for all workers.
ONE_LOAD = """name: profiling
model: {path: m, container: c, precision: bf16}
resources: {gpu_type: h100, prefill_nodes: 1, decode_nodes: 1, prefill_workers: 1, decode_workers: 1}
profiling:
  type: torch
  prefill: {start_step: 2, stop_step: 4}
  decode: {start_step: 200, stop_step: 205}
benchmark: {type: sa-bench, isl: 8, osl: 64, concurrencies: "4x8"}
"""


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    directory = tmp_path_factory.mktemp("recipe")
    with Fleet(directory / "fleet") as fleet:
        for name in ("p", "d"):
            fleet.add_sglang("--step-ms", "1", name=name)
        router = fleet.add_router("sglang", roles={"p": "prefill", "d": "decode"})
        with Daemon(directory / "profd", quick_config()) as profd:
            fleet.wait_ready()
            yield profd, router, directory, {worker.name: worker for worker in fleet.workers}


def start(scene, text, *words):
    profd, router, directory, _ = scene
    (directory / "job.yaml").write_text(text)
    return subprocess.run([BUILD / "client/profctl", "--socket", profd.socket, "start", "--router", router.url, "--recipe",
                           directory / "job.yaml", *words], text=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
                          env={**os.environ, "SLURM_JOB_ID": "17"})


def folder_of(done):
    return re.search(r"^(17_1P_1D_\d{8}_\d{6})/profiles/prefill$", done.stderr, re.M)[1]


def forward_passes(worker):
    """As SGLang counts them since its launch."""
    with urllib.request.urlopen(worker.url + "/metrics", timeout=30) as answer:
        return sum(float(line.split()[-1]) for line in answer.read().decode().splitlines()
                   if line.startswith("sglang:cuda_graph_passes_total{"))


def recorded_forwards(worker, since):
    """First and last forward of each recording, as the engine's own log has them."""
    text = worker.log_text()[since:]
    return [(int(first), int(end) - 1) for first, end in zip(
        re.findall(r"Profiling starts at forward (\d+)", text), re.findall(r"Profiling ends before forward (\d+)", text))]


def test_steps_count_from_the_load_that_all_workers_share(scene):
    profd, _, _, workers = scene
    for worker in workers.values():
        body = json.dumps({"model": "m", "prompt": "a", "max_tokens": 500, "ignore_eos": True}).encode()
        for _ in range(5):
            urllib.request.urlopen(urllib.request.Request(
                worker.url + "/v1/completions", body, {"Content-Type": "application/json"}), timeout=60).read()
    before = {name: forward_passes(worker) for name, worker in workers.items()}
    logged = {name: len(worker.log_text()) for name, worker in workers.items()}
    assert min(before.values()) >= 2000

    done = start(scene, ONE_LOAD, "--label", "a=b", "--json")
    assert done.returncode == 0, done.stderr
    session = json.loads(done.stdout)
    assert sorted(target["role"] for target in session["targets"]) == ["decode", "prefill"]
    assert session["measured"]["state"] == "complete" and session["measured"]["workload"]["concurrency"] == 4
    folder = profd.state / "traces" / folder_of(done)
    for name, phase, first, n in (("p", "prefill", 2, 2), ("d", "decode", 200, 5)):
        (begin, end), = recorded_forwards(workers[name], logged[name])
        assert end - begin + 1 == n
        assert 0 <= begin - first - before[name] < 200, "only the warm-up comes between"
        out = (folder / f"profile_{phase}.out").read_text()
        assert f"engine steps {begin} to {end} requested: steps {first} to {first + n - 1} of the load" in out
        other = "d" if name == "p" else "p"
        assert workers[name].url in out and workers[other].url not in out
        traces = {trace["name"] for trace in profd.traces(session=session["session"]) if trace["worker"] == workers[name].url}
        assert {path.name for path in (folder / "profiles" / phase).iterdir() if path.stat().st_size} == traces != set()

    shown = subprocess.run([BUILD / "client/profctl", "--socket", profd.socket, "show", session["session"]], text=True,
                           capture_output=True, timeout=60)
    assert re.search(r"steps\s+200\s+to\s+204\s+of\s+the\s+load", shown.stdout), shown.stdout
    profd.request("DELETE", f"/v1/sessions/{session['session']}")
    wait_for(lambda: not folder.exists())


def test_the_load_ends_when_the_traces_are_complete(scene):
    """Without that it would last ten minutes."""
    profd, _, _, _ = scene
    done = start(scene, ONE_LOAD, "--json")
    assert done.returncode == 0, done.stderr
    session = json.loads(done.stdout)
    run = session["measured"]
    assert run["workload"]["duration"] == "10min" and run["state"] == "complete" and run["requests"]["error"] == 0
    assert run["ended_at"] >= session["stopped_at"] and run["duration_s"] < 300


def test_phases_with_loads_of_their_own_are_recorded_one_after_another(scene):
    profd, _, _, _ = scene
    done = start(scene, RECIPE, "--label", "a=b")
    assert done.returncode == 0, done
    assert "prefill: 2 steps; 30 to 100 are usual" in done.stderr
    folder = folder_of(done)
    prefill, decode = sorted(profd.get("/v1/sessions")["sessions"], key=lambda session: int(session["session"][1:]))[-2:]
    for session, role, osl in ((prefill, "prefill", 3), (decode, "decode", 4)):
        session.update(profd.session(session["session"]))
        assert [target["role"] for target in session["targets"]] == [role] and session["labels"] == {"a": "b"}
        run = profd.get(f"/v1/runs/{session['run']}")
        assert run["workload"]["osl"] == osl and run["workload"]["concurrency"] == 16 and run["state"] == "complete"
    store = profd.state / "traces" / folder
    for session, phase in ((prefill, "prefill"), (decode, "decode")):
        names = sorted(path.name for path in (store / "profiles" / phase).iterdir())
        assert names == sorted(trace["name"] for trace in profd.traces(session=session["session"])) and names
        text = (store / f"profile_{phase}.out").read_text()
        assert f"{phase}: session {session['session']} is complete" in text and "(200)" in text

    profd.request("DELETE", f"/v1/sessions/{prefill['session']}")
    wait_for(lambda: not (store / "profile_prefill.out").exists())
    assert not (store / "profiles/prefill").is_symlink() and (store / "profiles/decode").is_dir()
    profd.request("DELETE", f"/v1/sessions/{decode['session']}")
    wait_for(lambda: not store.exists())


@pytest.mark.parametrize("text, words, says", [
    (RECIPE.replace("decode_workers: 1", "decode_workers: 2"), [],
     "job.yaml:2:68: Profiling mode requires single worker only. Got decode_workers=2"),
    (RECIPE + "benchmark:\n  type: sa-bench\n", [], "job.yaml:8:3: Cannot enable profiling with benchmark type 'sa-bench'."),
    (ONE_LOAD.replace("sa-bench", "gpqa"), [], "job.yaml:8:13: benchmark.type is gpqa, an accuracy evaluation that srtctl runs"),
    (ONE_LOAD.replace("stop_step: 4", "stop_stpe: 4"), [], "Did you mean stop_step?"),
    (SAMPLES["example-override.yaml"], [], "Choose one by --variant: base, small, tp64, tp_sweep_0, tp_sweep_1, tp_sweep_2."),
    (RECIPE, ["--steps", "3"], "--recipe already defines what is recorded"),
])
def test_refused_before_anything_starts(scene, text, words, says):
    done = start(scene, text, *words)
    assert done.returncode == 2 and says in done.stderr, done


def profctl(*words):
    return subprocess.run([BUILD / "client/profctl", *map(str, words)], text=True, capture_output=True, timeout=60,
                          stdin=subprocess.DEVNULL)


def test_samples_are_checked_and_their_variants_listed():
    files = [ROOT / "tests/data/srt-slurm" / name for name in sorted(SAMPLES)]
    done = profctl("check-recipe", "--json", *files)
    assert done.returncode == 0, done.stderr
    jobs = {job["name"]: job for job in json.loads(done.stdout)}
    assert len(jobs) == 10
    assert {name for name in jobs if name.startswith("disagg")} == {
        "disagg-fp8-benchmark_small", "disagg-fp8-benchmark_tp64", "disagg-fp8-benchmark-tp16", "disagg-fp8-benchmark-tp32",
        "disagg-fp8-benchmark-tp64"}
    swept = jobs["example-sweep_chunked_prefill_size8192_max_total_tokens16384"]["recipe"]
    assert swept["backend"]["sglang_config"]["prefill"]["max-total-tokens"] == 16384 and "{" not in json.dumps(
        list(swept["backend"]["sglang_config"]["decode"].values()))
    assert jobs["disagg-fp8-benchmark-tp64"]["recipe"]["benchmark"]["concurrencies"] == [8192, 10240, 12288]


@pytest.mark.parametrize("mode, port", [("prefill", 17500), ("decode", 17501)])
def test_a_worker_is_started_as_srtctl_does(mode, port):
    """Held against srtctl's own code in test_srtctl.py."""
    done = profctl("torch-command", "--recipe", ROOT / "tests/data/srt-slurm/1p1d-tp4-profile.yaml", "--mode", mode, "--json")
    assert done.returncode == 0, done.stderr
    words = json.loads(done.stdout)["command"]
    assert words[:3] == ["python3", "-m", "dynamo.sglang"]
    assert words[words.index("--disaggregation-mode") + 1] == mode and words[words.index("--nccl-port") + 1] == str(port)


def test_a_job_that_records_nothing_sends_its_load_at_each_concurrency(scene):
    profd, _, _, _ = scene
    text = ONE_LOAD[:ONE_LOAD.index("profiling:\n")] + """benchmark: {type: sa-bench, isl: 8, osl: 2, concurrencies: [1, 3], num_prompts_mult: 4}
"""
    done = start(scene, text)
    assert done.returncode == 0, done.stderr
    runs = sorted(profd.get("/v1/runs")["runs"], key=lambda run: run["run"])[-2:]
    assert [(run["workload"]["concurrency"], run["requests"]["success"]) for run in runs] == [(1, 4), (3, 12)]
    assert not any(run.get("session") for run in runs)
