# SPDX-License-Identifier: Apache-2.0
"""Engine instances: replicas are compared with each other, ranks only within an instance."""
import concurrent.futures
import gzip
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import urllib.request

import pytest

from daemon import Daemon, quick_config, wait_for
from real_traces import TRACES

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"
WALL_US = 1_700_000_000_000_000  # a wall clock in microseconds
US = 1000


@pytest.fixture
def profctl(tmp_path):
    def run(*words, status=0, socket=None):
        done = subprocess.run([PROFCTL, *map(str, words)], capture_output=True, timeout=120, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL,
                              env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "LC_ALL": "C.UTF-8",
                                   **({"PROFD_SOCKET": str(socket)} if socket else {})})
        assert done.returncode == status, done.stderr[-2000:]
        return done

    return run


@pytest.fixture
def rows(profctl):
    return lambda *words, **options: json.loads(profctl("analyze", "--json", *words, **options).stdout)["rows"]


# -- Composed traces with known answers -----------------------------------------------------------------------------------


def write_rank(path, rank, world, step_us, steps=12, begin=0, late=0, phase="generation_8(8)", numbered=True):
    """Steps named as vLLM does it: a product, then an all-reduce that every rank leaves 50 us before the step ends."""
    events = []
    for i in range(steps):
        at = WALL_US + begin + i * step_us
        launch = {"correlation": 2 * i + 1}
        prefill = "context_8(8)_generation_0(0)" if phase == "context" else f"context_0(0)_{phase}"
        events += [
            {"ph": "X", "cat": "user_annotation", "name": f"execute_{prefill}", "pid": 10, "tid": 1, "ts": at, "dur": step_us - 20, "args": {}},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 10, "tid": 1, "ts": at + 1, "dur": 2, "args": launch},
            {"ph": "X", "cat": "kernel", "name": "gemm_kernel", "pid": 0, "tid": 7, "ts": at + 5, "dur": 100 + late,
             "args": {"stream": 7, "device": 0, **launch}},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 10, "tid": 1, "ts": at + 4, "dur": 2, "args": {"correlation": 2 * i + 2}},
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 7, "ts": at + 105 + late,
             "dur": step_us - 155 - late,
             "args": {"stream": 7, "device": 0, "correlation": 2 * i + 2, "Collective name": "allreduce", "Process Group Name": "2",
                      "In msg nelems": 64, "dtype": "Float", **({"Seq": 100 + i} if numbered else {})}}]
    info = {"backend": "nccl", "rank": rank, "world_size": world}
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))


def test_a_slow_replica_is_named_with_its_factor(rows, profctl, tmp_path):
    for job, step_us, begin in (("east", 1000, 0), ("north", 1010, 333), ("west", 1400, 777)):
        for rank in range(2):
            write_rank(tmp_path / f"{job}-rank{rank}.json", rank, 2, step_us, begin=begin, late=30 * rank)
    found = {row["instance"]: row for row in rows(tmp_path, "--report", "instances")}
    assert list(found) == ["east", "north", "west"] and [row["ranks"] for row in found.values()] == [2, 2, 2]
    assert [row["steps"] for row in found.values()] == [12] * 3 and {row["phase"] for row in found.values()} == {"decode"}
    assert found["east"]["outlier"] is None and found["north"]["outlier"] is None
    # From the first kernel of a step to the end of its all-reduce.
    assert found["west"]["step_p50_ns"] == pytest.approx(1345 * US, rel=0.05)
    factor = found["west"]["step_p50_ns"] / statistics.median([found["east"]["step_p50_ns"], found["north"]["step_p50_ns"]])
    assert f"steps of west take {factor:.1f} times as long as those of the other instances" in found["west"]["outlier"]
    assert "with a similar number of tokens per step" in found["west"]["outlier"]
    screen = profctl("analyze", tmp_path).stdout
    assert screen.index("INSTANCE") < screen.index("FINDINGS") and "steps of west take 1.4 times" in screen


def test_phases_are_not_compared(rows, tmp_path):
    """Prefill takes longer than decode everywhere: that is no outlier."""
    write_rank(tmp_path / "a-rank0.json", 0, 1, 1000)
    write_rank(tmp_path / "b-rank0.json", 0, 1, 5000, phase="context")
    found = rows(tmp_path, "--report", "instances")
    assert [row["phase"] for row in found] == ["decode", "prefill"]
    assert not [row for row in found if row["outlier"] and "times those" in row["outlier"]]


def test_few_steps_are_no_outlier(rows, tmp_path):
    for job, step_us in (("a", 1000), ("b", 1400)):
        write_rank(tmp_path / f"{job}.json", 0, 1, step_us, steps=3)
    assert not [row for row in rows(tmp_path, "--report", "instances") if row["outlier"] and "times those" in row["outlier"]]


@pytest.mark.parametrize("numbered", [True, False], ids=["by their sequence", "by their ends"])
def test_collectives_tell_which_ranks_belong_together(rows, tmp_path, numbered):
    """Two jobs at the same time, under names that say nothing: a with d, b with c."""
    write_rank(tmp_path / "a.json", 0, 2, 1000, numbered=numbered)
    write_rank(tmp_path / "b.json", 0, 2, 1037, begin=450, numbered=numbered)
    write_rank(tmp_path / "c.json", 1, 2, 1037, begin=450, late=40, numbered=numbered)
    write_rank(tmp_path / "d.json", 1, 2, 1000, late=60, numbered=numbered)
    assert len({row["instance"] for row in rows(tmp_path, "--report", "summary")}) == 2
    late = {(row["instance"], row["rank"]): row for row in rows(tmp_path, "--report", "stragglers")}
    assert len(late) == 4
    # Of the partners, rank 1 is late by 60 us and by 40: no other pairing gives that.
    assert sorted(row["delay_ns"] for (_, rank), row in late.items() if rank == 1) == [12 * 40 * US, 12 * 60 * US]
    assert all(row["delay_ns"] == 0 for (_, rank), row in late.items() if rank == 0)


def test_single_gpus_are_replicas(rows, profctl, tmp_path):
    for i, name in enumerate("abc"):
        write_rank(tmp_path / f"{name}.json", 0, 1, 1000, begin=300 * i)
    assert [row["instance"] for row in rows(tmp_path, "--report", "temporal")] == ["a", "b", "c"]
    assert not [row for row in rows(tmp_path, "--report", "findings") if row["rule"] in ("straggler", "uneven_ranks")]
    assert "contains no events for this report" in profctl("analyze", tmp_path, "--report", "stragglers", status=4).stderr
    [kernel, *_] = rows(tmp_path, "--instance", "b", "--report", "kernels")
    assert "instance" not in kernel


# -- Real traces ----------------------------------------------------------------------------------------------------------


def union_length(spans):
    total, until = 0, None
    for begin, end in sorted(spans):
        if until is None or begin > until:
            total, until = total + end - begin, end
        elif end > until:
            total, until = total + end - until, end
    return total


def to_ns(us):
    """Decimal microseconds, without a double in between."""
    whole, _, part = str(us).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def busy_and_exposed(path):
    """Of one rank, from the raw trace: span, busy, communication with nothing computing."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file, parse_float=str)["traceEvents"]
    everything, comm, compute = [], [], []
    for event in events:
        if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        begin = to_ns(event["ts"])
        span = (begin, begin + to_ns(event["dur"]))
        everything.append(span)
        if event["cat"] == "kernel":
            (comm if event["name"].startswith("nccl") else compute).append(span)
    length = max(end for _, end in everything) - min(begin for begin, _ in everything)
    return length, union_length(everything), union_length(comm + compute) - union_length(compute)


@pytest.fixture
def two_jobs(tmp_path):
    directory = tmp_path / "jobs"
    directory.mkdir()
    for job in ("sst4", "sst5"):
        for path in (TRACES / f"torchrec_{job}_4rank").iterdir():
            shutil.copy(path, directory / f"{job}-{path.name}")
    return directory


def test_a_directory_with_two_jobs(rows, profctl, two_jobs):
    found = {row["instance"]: row for row in rows(two_jobs, "--report", "instances")}
    assert sorted(found) == ["sst4", "sst5"]
    for job, row in found.items():
        measured = [busy_and_exposed(path) for path in sorted(two_jobs.glob(f"{job}-*"))]
        span, busy, exposed = (sum(column) for column in zip(*measured))
        assert row["ranks"] == 4 and row["busy_share"] == pytest.approx(busy / span, abs=1e-9)
        assert row["exposed_share"] == pytest.approx(exposed / span, abs=1e-9)
        steps = rows(two_jobs, "--instance", job, "--report", "steps")
        slowest = sorted(max(s["dur_ns"] for s in steps if s["index"] == index) for index in {s["index"] for s in steps})
        assert (row["steps"], row["step_p50_ns"], row["step_p99_ns"]) == (len(slowest), slowest[(len(slowest) - 1) // 2], slowest[-1])
    # Within each, everything is as if it were analysed alone.
    for report in ("stragglers", "collectives", "imbalance", "ranks", "findings"):
        both = rows(two_jobs, "--report", report)
        for job in found:
            alone = rows(TRACES / f"torchrec_{job}_4rank", "--report", report)
            own = [{key: value for key, value in row.items() if key != "instance"} for row in both if row["instance"] == job]
            key = lambda row: json.dumps(row, sort_keys=True)
            assert sorted(own, key=key) == sorted(alone, key=key), report
    screen = profctl("analyze", two_jobs).stdout
    assert "8 ranks in 2 engine instances" in screen and "Instance: sst5" in screen
    # Statements, too, name the instance that they are about.
    for job in found:
        assert re.search(rf"^ -  Not evaluated: (?:.*\n)+?    Instance: {job}$", screen, re.M), screen


@pytest.mark.parametrize("name", ["lightllm_decode_8rank", "sglang_decode_8rank", "torchrec_sst4_4rank", "torchrec_resnet18_2rank"])
def test_ranks_of_one_job_stay_one_instance(rows, name):
    n = len(list((TRACES / name).iterdir()))
    [row] = rows(TRACES / name, "--report", "instances")
    assert row["ranks"] == n and row["outlier"] is None
    assert len(rows(TRACES / name, "--report", "stragglers")) == n
    assert "instance" not in rows(TRACES / name, "--report", "temporal")[0]


def test_two_engines_of_one_world_size(rows, tmp_path):
    """Eight ranks each, rank numbers and world the same; the names tell nothing."""
    for engine in ("lightllm", "sglang"):
        for i in range(8):
            shutil.copy(TRACES / f"{engine}_decode_8rank/rank{i}.pt.trace.json.gz", tmp_path / f"{hash((engine, i)) & 0xffffffff}.json.gz")
    found = rows(tmp_path, "--report", "instances")
    assert sorted(row["ranks"] for row in found) == [8, 8]
    assert len(rows(tmp_path, "--report", "stragglers")) == 16


def test_single_rank_traces_of_strangers(rows, tmp_path):
    for name in ("vllm_decode_full_graph", "vllm_piecewise_graph", "sglang_qwen3_8b_decode"):
        shutil.copy(TRACES / f"tracelens/{name}.json.gz", tmp_path)
    assert [(row["instance"], row["ranks"]) for row in rows(tmp_path, "--report", "instances")] == [
        ("sglang_qwen3_8b_decode", 1), ("vllm_decode_full_graph", 1), ("vllm_piecewise_graph", 1)]
    assert not [row for row in rows(tmp_path, "--report", "findings") if row["rule"] in ("straggler", "uneven_ranks")]


# -- Merged traces ---------------------------------------------------------------------------------------------------------


def same(rows):
    """Without what is of the files: rows of slices, what was added to a clock to make all one, and how long the recording is:
    the profiler's own frame around it is not merged."""
    return [{key: value for key, value in row.items() if key not in ("clock_shift_ns", "min_slice", "max_slice", "at_slice")} for row in rows
            if row.get("rule") != "not_evaluated"]


@pytest.mark.parametrize("suffix", [".json.gz", ".json"])
def test_a_merged_trace_has_the_same_ranks(rows, profctl, tmp_path, suffix):
    traces, merged = TRACES / "lightllm_decode_8rank", tmp_path / f"all{suffix}"
    profctl("merge", traces, "-o", merged)
    for report in ("ranks", "stragglers", "collectives", "instances", "temporal", "kernels", "findings"):
        assert same(rows(merged, "--report", report)) == same(rows(traces, "--report", report)), report
    assert same(rows(merged, "--rank", "5", "--report", "overlap")) == same(rows(traces, "--rank", "5", "--report", "overlap"))
    # Merged once more, also with another.
    profctl("merge", merged, "-o", tmp_path / f"again{suffix}")
    assert same(rows(tmp_path / f"again{suffix}", "--report", "ranks")) == same(rows(traces, "--report", "ranks"))
    assert str(TRACES.path.parent) not in (gzip.open if suffix.endswith("gz") else open)(merged, "rt").read(10000)


def test_a_merged_trace_has_the_same_instances(rows, profctl, two_jobs, tmp_path):
    profctl("merge", two_jobs, "-o", tmp_path / "both.json.gz")
    for report in ("instances", "stragglers", "collectives"):
        assert same(rows(tmp_path / "both.json.gz", "--report", report)) == same(rows(two_jobs, "--report", report))


@pytest.mark.parametrize("parts", [
    "7", "[]", "[1, 2]", "[{}, {}]", '[{"firstPid": 1}, {"lastPid": 2}]', '[{"firstPid": 9, "lastPid": 1}, {"firstPid": -1, "lastPid": 5}]',
    '[{"firstPid": 0, "lastPid": 0, "label": 3}, {"firstPid": 10, "lastPid": 10, "trace": []}]',
    "[" + ",".join('{"firstPid": 1, "lastPid": 10}' for _ in range(300)) + "]", '[{"firstPid": 1, "lastPid": '])
def test_a_head_that_lies_about_its_parts(tmp_path, parts):
    write_rank(tmp_path / "plain.json", 0, 1, 1000)
    text = (tmp_path / "plain.json").read_text()
    (tmp_path / "lying.json").write_text('{"profdMerged": ' + parts + ', "profdMergedHeads": [[], 1, {"distributedInfo": 5}], ' + text[1:])
    done = subprocess.run([PROFCTL, "analyze", tmp_path / "lying.json", "--json"], capture_output=True, timeout=120, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert done.returncode in (0, 1, 3, 4) and (done.returncode == 0 or done.stderr.startswith("profctl: ")), done.stderr[-500:]


# -- Replicas behind a router ---------------------------------------------------------------------------------------------


def generate(worker):
    body = {"prompt": "Whose is this?", "max_tokens": 8, "ignore_eos": True}
    request = urllib.request.Request(worker.url + "/v1/completions", method="POST", data=json.dumps(body).encode(),
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert reply.status == 200


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_replicas_that_profd_recorded(profctl, rows, tmp_path, engine):
    sys.path.insert(0, str(SOURCE / "tests/fleet"))
    from fleet import Fleet

    with Fleet(tmp_path / "fleet") as fleet, Daemon(tmp_path / "profd", quick_config(stop="1min", session="3min")) as profd:
        for _ in range(2):
            if engine == "vllm":
                fleet.add_vllm(profiler_config={"torch_profiler_with_stack": False})
            else:
                fleet.add_sglang()
        router = fleet.add_router("vllm-router" if engine == "vllm" else "sglang")
        started = profd.start_session(router=router.url, duration_ns=3_000_000_000, with_stack=False)["session"]
        profd.wait_state(started, "recording", timeout_s=60)
        with concurrent.futures.ThreadPoolExecutor() as at_once:
            list(at_once.map(generate, fleet.workers))
        session = profd.wait_session(started)
        assert session["state"] == "complete", session.get("reason")
        workers = sorted(worker.url.removeprefix("http://") for worker in fleet.workers)
        found = rows("s1", "--report", "instances", socket=profd.socket)
        assert sorted(row["instance"] for row in found) == workers
        assert {row["rank"] for row in rows("s1", "--report", "steps", socket=profd.socket)} == {0}
        rules = {row["rule"] for row in rows("s1", "--report", "findings", socket=profd.socket)}
        assert not rules & {"straggler", "uneven_ranks"}
        screen = profctl("analyze", "s1", socket=profd.socket).stdout
        assert screen.index("instances  ") < screen.index("FINDINGS" if "FINDINGS" in screen else "no findings")


def test_prefill_and_decode_are_not_compared(profctl, rows, tmp_path):
    """Roles and the use of KV caches come from the session: of its workers, and of the load that was sent meanwhile."""
    sys.path.insert(0, str(SOURCE / "tests/fleet"))
    from fleet import Fleet

    with Fleet(tmp_path / "fleet") as fleet, Daemon(tmp_path / "profd", quick_config(stop="1min", session="3min")) as profd:
        for _ in range(2):
            fleet.add_vllm(profiler_config={"torch_profiler_with_stack": False})
        first, second = fleet.workers
        router = fleet.add_router("vllm-router", roles={first.name: "prefill", second.name: "decode"})
        started = profd.start_session(router=router.url, duration_ns=3_000_000_000, workload={"isl": 8, "osl": 8, "requests": 8, "concurrency": 2})
        session = profd.wait_session(started["session"])
        assert session["state"] == "complete", session.get("reason")
        path = f"/v1/runs/r{session['run']}"
        wait_for(lambda: profd.get(path)["state"] in ("complete", "partial", "failed"), timeout_s=120)
        found = {row["instance"]: row for row in rows("s1", "--report", "instances", socket=profd.socket)}
        traces = [(trace["trace"], trace.get("worker"), trace["name"], trace["state"], trace.get("pid")) for trace in profd.traces(session="s1")]
        assert {name: row["role"] for name, row in found.items()} == {
            first.url.removeprefix("http://"): "prefill", second.url.removeprefix("http://"): "decode"}, traces
        assert not [row for row in found.values() if row["outlier"] and "times those" in row["outlier"]]
        peaks = {worker["url"].removeprefix("http://"): worker["kv_cache_use"]["peak"] for worker in profd.get(path)["server"]["workers"]}
        assert {name: row["kv_use"] for name, row in found.items()} == pytest.approx(peaks)
