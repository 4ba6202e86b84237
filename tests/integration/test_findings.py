# SPDX-License-Identifier: Apache-2.0
"""The report `findings` on real traces: what an engineer who knows them would say, and silence where they would."""
import json
import os
import pathlib
import random as numbers
import subprocess

import pytest

import raw_trace as raw
from real_traces import TRACES

PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"
MS = 1000 * 1000


@pytest.fixture(scope="module")
def profctl(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")

    def profctl(path, *words):
        r = subprocess.run([PROFCTL, "analyze", path, *words], capture_output=True, timeout=120,
                           stdin=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": str(cache), "LC_ALL": "C.UTF-8"})
        assert r.returncode == 0, r.stderr.decode()
        return r.stdout.decode()

    return profctl


@pytest.fixture(scope="module")
def run(profctl):
    return lambda trace, *words: profctl(TRACES / trace, *words)


@pytest.fixture
def findings(run):
    def findings(trace, *words):
        return json.loads(run(trace, "--report", "findings", "--json", *words))["rows"]

    return findings


# Rule and share of the time, by hand from other reports or from the trace: what dominates is named, and first.
SICK = [
    ("sglang_decode_8rank", "exposed_expert_parallel", 0.443),
    ("sglang_decode_8rank", "uneven_ranks", 0.121),
    ("lightllm_decode_8rank", "exposed_expert_parallel", 0.415),
    ("torchrec_sst4_4rank", "step_outlier", 0.414),
    ("torchrec_sst5_4rank", "step_outlier", 0.412),
    ("torchrec_sst5_4rank", "straggler", 0.088),
    ("hta/sampled_2rank", "unexplained_idle", 0.317),
    ("torchrec_resnet18_2rank", "host_bound", 0.80),
    ("hta/df_index_resolver.json.gz", "launch_bound", 0.38),
    ("hta/df_index_resolver.json.gz", "exposed_all_reduce", 0.206),
    ("hta/nccl_data_rank0.json.gz", "launch_bound", 0.53),
    ("hta/trace_diff_control.json.gz", "exposed_communication", 0.18),
    ("kineto/resnet50_2021_workers0.json.gz", "starved_by_data", 0.285),  # num_workers=0
    ("kineto/resnet50_2021_workers0.json.gz", "pageable_copy", 0.012),
    ("param/linear_kineto.json.gz", "launch_bound", 0.585),
    ("tracelens/b200_eager_rank0.json.gz", "launch_bound", 0.68),
    ("tracelens/b200_eager_rank0.json.gz", "profiler_overhead", 0.08),
    ("tracelens/h100_qwen15.json.gz", "unfused_elementwise", 0.25),
]
# Nothing to say: graphs keep the GPU at work, or it is one kernel.
HEALTHY = ["tracelens/vllm_decode_full_graph.json.gz", "tracelens/vllm_piecewise_graph.json.gz",
           "tracelens/torch_compile_triton.json.gz", "hta/ns_resolution_rank0.json.gz", "hta/triton_example.json.gz",
           "tracelens/sglang_qwen3_8b_decode.json.gz"]


@pytest.mark.parametrize("trace, rule, share", SICK, ids=[f"{t}-{r}" for t, r, _ in SICK])
def test_sick_trace(findings, trace, rule, share):
    rows = findings(trace)
    [row] = [row for row in rows if row["rule"] == rule]
    assert row["share"] == pytest.approx(share, abs=0.015)
    costs = [row["cost_ns"] or 0 for row in rows]  # statements cost nothing, and come last
    assert costs == sorted(costs, reverse=True)
    for row in rows:
        assert row["severity"] in ("high", "medium", "low", "info") and row["confidence"] in ("certain", "inferred")
        assert all(row[text] for text in ("what", "where", "evidence", "advice", "report", "ground"))


@pytest.mark.parametrize("trace", HEALTHY)
def test_healthy_trace(findings, trace):
    assert [row for row in findings(trace) if row["cost_ns"] is not None] == []


def test_dispatch_and_combine_are_exposed(findings):
    """As overlap says, no nanosecond of them is hidden on any rank; 12.4 ms of it are waiting, which has its own finding."""
    row = findings("sglang_decode_8rank")[0]
    assert row["rule"] == "exposed_expert_parallel" and row["severity"] == "high" and row["confidence"] == "certain"
    assert 45 * MS < row["cost_ns"] < 46 * MS and row["communication_ns"] == row["cost_ns"]
    assert "on every rank, not overlapped by computation" in row["what"]
    assert "combine" in row["where"] and "dispatch" in row["where"] and "58 calls per rank" in row["where"]
    assert "--enable-two-batch-overlap" in row["advice"] and "--enable-dbo" in row["advice"]


def test_advice_is_for_the_engine_that_wrote_the_trace(findings):
    [advice] = [row["advice"] for row in findings("tracelens/b200_eager_rank0.json.gz") if row["rule"] == "launch_bound"]
    assert "vLLM" in advice and "SGLang" not in advice


def test_offset_can_be_looked_at(findings):
    """What `where` names is what --from and --to take; the stall is in it."""
    trace = "kineto/resnet50_2021_workers0.json.gz"
    [row] = [row for row in findings(trace) if row["rule"] == "starved_by_data"]
    begin, end = row["at_start_ns"] / MS, row["at_end_ns"] / MS
    assert "starved_by_data" in [r["rule"] for r in findings(trace, "--from", f"{begin - 30}ms", "--to", f"{end + 10}ms")]
    assert "starved_by_data" not in [r["rule"] for r in findings(trace, "--from", f"{end}ms", "--to", f"{end + 50}ms")]


@pytest.mark.parametrize("trace", ["kineto/resnet50_2021_workers0.json.gz", "sglang_decode_8rank", "torchrec_sst5_4rank"])
def test_places_are_columns(findings, trace):
    """Programs need not read sentences: rank, time and slice are those that `where` names."""
    rows = findings(trace)
    for row in rows:
        where = f"{row['at_start_ns'] / 1e6:.3f} ms to {row['at_end_ns'] / 1e6:.3f} ms" if row["at_start_ns"] is not None else None
        assert (where in row["where"]) if where else " ms to " not in row["where"], row["where"]
        assert f"rank {row['at_rank']}, {where}" in row["where"] or not where or trace.endswith(".gz")
        assert not any("--step" in row[text] or "--from" in row[text] or "profctl analyze" in row[text]
                       for text in ("what", "where", "evidence", "advice", "ground") if row[text])
    assert any(row["at_slice"] is not None for row in rows) or trace.startswith("torchrec")


def test_slice_of_a_finding_is_the_event_of_its_time(findings):
    trace = "kineto/resnet50_2021_workers0.json.gz"
    rows = {row["rule"]: row for row in findings(trace)}
    copy, gap = rows["pageable_copy"], rows["starved_by_data"]
    sql = f"select s.ts - f.first, s.ts + s.dur - f.first, s.name from slice s, (select min(ts) as first from slice) f " \
          f"where id in ({copy['at_slice']}, {gap['at_slice']}) order by id = {gap['at_slice']}"
    r = subprocess.run([PROFCTL, "query", "--json", TRACES / trace, sql], capture_output=True, timeout=120, check=True)
    of_copy, of_gap = (list(row.values()) for row in json.loads(r.stdout))
    assert of_copy[:2] == [copy["at_start_ns"], copy["at_end_ns"]] and of_copy[2] in copy["where"]
    assert of_gap[0] == gap["at_end_ns"] and of_gap[2].startswith("Memcpy HtoD")  # the GPU waits for it


def test_gap_is_divided_by_the_calls_in_it(findings):
    """Rank 0's gap of 156.4 ms lies in aten::cat, which itself does next to nothing: it is the allocator's, counted from the
    trace. It is in the first step, which takes three times as long as the others and has to be asked for."""
    trace = "torchrec_sst5_4rank/rank0.pt.trace.json.gz"
    events = raw.events(TRACES / trace)
    (begin, end), thread = raw.longest_gap(events)
    calls = [(e["name"], min(e["ts"] + e["dur"], end) - max(e["ts"], begin)) for e in events
             if e.get("cat") == "cuda_runtime" and e["tid"] == thread and e["ts"] < end and e["ts"] + e["dur"] > begin]
    free = [dur for name, dur in calls if name == "cudaFree"]
    allocated = [dur for name, dur in calls if name == "cudaMalloc"]
    assert len(free) == 25 and sum(free) == pytest.approx(150.6e3, abs=100) and sum(allocated) == pytest.approx(5.7e3, abs=100)
    rows = findings(trace, "--step", "4")
    assert rows[0]["rule"] == "allocation_in_step" and "cudaFree" in rows[0]["evidence"] and "cudaMalloc" in rows[0]["evidence"]
    assert f"longest gap {round((sum(free) + sum(allocated)) / 1e3)} ms" in rows[0]["what"]
    assert not any("aten::cat" in row["evidence"] for row in rows)


def test_statements_about_all_ranks_need_all_ranks(run, findings):
    """Two ranks of 128: whoever is last of the two may be waiting for one of the others."""
    assert "sampled_2rank 2 of 128 ranks ·" in " ".join(run("hta/sampled_2rank").split()).replace("sampled_2rank ·", "sampled_2rank")
    rows = {row["rule"]: row for row in findings("hta/sampled_2rank")}
    for rule in ("straggler", "exposed_communication"):
        assert rows[rule]["confidence"] == "inferred" and "126 of 128 ranks of the job have no trace" in rows[rule]["ground"]
    assert "on every recorded rank, " in rows["exposed_communication"]["what"]
    assert rows["unexplained_idle"]["confidence"] == "certain"
    assert " 4 ranks ·" in run("torchrec_sst5_4rank").replace("\n", " ")
    assert [row["confidence"] for row in findings("torchrec_sst5_4rank") if row["rule"] == "straggler"] == ["certain"]


def test_profiler_overhead_names_the_profiler(findings):
    """nsys records no Python frames, and has other options than Kineto and the engines."""
    row, = (row for row in findings("nsys/mock.sqlite.gz") if row["rule"] == "profiler_overhead")
    assert row["evidence"].startswith("CUPTI reports 15 ms of the idle time as overhead; cost")
    text = json.dumps(row)
    assert "nsys profile" in row["advice"] and "Python frame" not in text and "Kineto" not in text and "torch_profiler" not in text
    row, = (row for row in findings("tracelens/b200_eager_rank0.json.gz") if row["rule"] == "profiler_overhead")
    assert "Python frames begin while the GPU is idle, and Kineto reports" in row["evidence"] and "without Python stacks" in row["advice"]


@pytest.mark.parametrize("trace, longest, others", [("torchrec_sst4_4rank", 457, 145), ("torchrec_sst5_4rank", 497, 160)])
def test_outlier_leads(run, findings, trace, longest, others):
    """The first step is warm-up: the first line says so and names the option that looks without it, and no finding is of it."""
    line = " ".join(run(trace).split("\n\n")[0].split())
    assert line.startswith(f"Outlier: step 4 took {longest} ms") and f"the median of {others} ms" in line
    assert "findings cover the other 2 steps; analyze it with --step 4, a steady step with --step 5 " in line
    rows = findings(trace)
    assert rows[0]["rule"] == "step_outlier" and "memory allocation" in rows[0]["evidence"]
    assert "allocation_in_step" not in [row["rule"] for row in rows]
    durations = raw.steps(TRACES / trace)
    assert max(durations["ProfilerStep#4"]) > 2 * max(durations["ProfilerStep#5"] + durations["ProfilerStep#6"])


def test_edge_of_the_recording_is_nobodys(run, findings):
    """463 ms of 474 the GPU does nothing that was recorded, in a copy that waits for it: no finding has them as its cost."""
    trace = "tracelens/sglang_qwen3_8b_decode.json.gz"
    (begin, end), _ = raw.longest_gap(raw.events(TRACES / trace))
    [edge] = [row for row in findings(trace) if row["rule"] == "recording_edge"]
    assert edge["cost_ns"] is None and edge["confidence"] == "inferred" and "hipMemcpyWithStream" in edge["evidence"]
    assert f": {round((end - begin) / 1e3)} ms at its start" in edge["what"] and f"{begin / 1e3:.3f} ms to {end / 1e3:.3f} ms" == edge["where"]
    [rank] = json.loads(run(trace, "--report", "evaluated", "--json"))["rows"]
    assert rank["edge_ns"] == pytest.approx((end - begin) * 1e3, abs=1000)
    assert not any(row["cost_ns"] for row in findings(trace))


@pytest.mark.parametrize("trace", raw.GPU_TRACES)
def test_evaluated_time_is_the_raw_traces(run, trace):
    """What findings are of is divided into what the GPU does, as the trace's own events say."""
    rows = json.loads(run(trace, "--report", "evaluated", "--json"))["rows"]
    for path, row in zip(raw.ranks(TRACES / trace), sorted(rows, key=lambda row: row["rank"])):
        if row["outliers_ns"] or row["edge_ns"]:
            continue  # in several pieces
        assert sum(row[f"{kind}_ns"] for kind in raw.KINDS) == row["evaluated_ns"]
        times = raw.times(raw.events(path), row["start_ns"] / 1e3, row["end_ns"] / 1e3)
        assert {kind: row[f"{kind}_ns"] for kind in raw.KINDS} == pytest.approx(times, rel=1e-4, abs=2000)


@pytest.mark.parametrize("trace", raw.GPU_TRACES)
def test_silence_is_no_answer(run, findings, trace):
    """What idles for more than a tenth has findings that leave less than that unexplained; what computes has a figure of it."""
    rows = findings(trace)
    ranks = json.loads(run(trace, "--report", "evaluated", "--json"))["rows"]
    whole = sum(rank["evaluated_ns"] for rank in ranks)
    units = sum(rank["steps"] or 1 for rank in ranks)
    idle = sum(rank["idle_ns"] for rank in ranks) - units * sum(row["idle_ns"] or 0 for row in rows)
    if "idle_worker" not in [row["rule"] for row in rows]:
        assert idle < 0.1 * whole + units
    computing, recorded = sum(rank["compute_ns"] for rank in ranks), sum(rank["recorded_ns"] - rank["edge_ns"] for rank in ranks)
    assert ("gpu_bound" in [row["rule"] for row in rows]) == (computing >= 0.8 * whole and computing >= 0.1 * recorded)


# Costs of steps and of the recording: other times than the GPU's, which they do not divide.
OF_OTHER_TIME = ("idle_worker", "prefill_steals_decode", "step_outlier")


@pytest.mark.parametrize("trace", raw.GPU_TRACES)
def test_findings_partition_the_time(run, findings, trace):
    """No nanosecond is the cost of two findings: those of a kind of time never add up to more of it than the trace has, and
    what a cost consists of adds up to it."""
    rows = [row for row in findings(trace) if row["cost_ns"] is not None and row["rule"] not in OF_OTHER_TIME]
    if not rows:
        return
    for row in rows:
        assert sum(row[f"{kind}_ns"] for kind in raw.KINDS) == pytest.approx(row["cost_ns"], abs=4), row["rule"]
    ranks = json.loads(run(trace, "--report", "evaluated", "--json"))["rows"]
    units = sum(rank["steps"] or 1 for rank in ranks)
    for kind in raw.KINDS:
        claimed = {row["rule"]: row[f"{kind}_ns"] for row in rows if row[f"{kind}_ns"]}
        assert sum(claimed.values()) <= sum(rank[f"{kind}_ns"] for rank in ranks) / units + 10, (kind, claimed)
    assert sum(row["share"] for row in rows) <= 1.0001


def composed(seed):
    """A trace of everything at once: streams that overlap, copies, communication, host calls of all classes, with and without
    steps, launches that are known or not."""
    random = numbers.Random(seed)
    events, at, correlation = [], 100.0, 0
    has_steps = seed % 2 == 0
    hosts = [("cuda_runtime", "cudaMalloc"), ("cuda_runtime", "cudaFree"), ("cuda_runtime", "cudaStreamSynchronize"),
             ("cuda_runtime", "cudaMemcpyAsync"), ("cpu_op", "aten::cat"), ("python_function", "x/core/sched/scheduler.py(1): schedule"),
             ("python_function", "model.py(7): forward"), ("user_annotation", "work"), ("cuda_driver", "cuModuleLoadData"),
             ("python_function", "<built-in function collect>"), ("overhead", "Buffer Flush")]
    kernels = [("kernel", "gemm", 7), ("kernel", "void at::native::vectorized_elementwise_kernel<4>()", 7), ("kernel", "tiny", 7),
               ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 20), ("kernel", "ncclDevKernel_SendRecv()", 21),
               ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 9), ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 10)]

    def add(cat, name, tid, ts, dur, **args):
        events.append({"ph": "X", "cat": cat, "name": name, "pid": 0 if cat in raw.KERNEL + raw.COPY else 10, "tid": tid,
                       "ts": round(ts, 3), "dur": round(dur, 3), "args": args})

    for step in range(8):
        begin = at
        for _ in range(random.randrange(20, 60)):
            for _ in range(random.randrange(4)):
                cat, name = random.choice(hosts)
                dur = random.expovariate(1 / random.choice([3, 50, 1500]))
                add(cat, name, 1, at, dur)
                if random.random() < 0.4:  # within it
                    add(*random.choice(hosts), 1, at + dur / 4, dur / 2)
                at += dur + random.random()
            correlation += 1
            add("cuda_runtime", random.choice(["cudaLaunchKernel", "cudaGraphLaunch"]), 1, at, 3, correlation=correlation)
            for _ in range(random.choice([1, 1, 1, 40])):
                cat, name, stream = random.choice(kernels)
                known = {} if random.random() < 0.05 else {"correlation": correlation}
                ts = at + random.expovariate(1 / 20)
                add(cat, name, stream, ts, random.expovariate(1 / random.choice([2, 30, 400])), device=0, stream=stream, **known)
            at += 4
        if has_steps:
            add("user_annotation", f"ProfilerStep#{step}", 1, begin, at - begin)
        at += random.choice([1, 3000])
    return {"traceEvents": events}


@pytest.mark.parametrize("seed", range(12))
def test_findings_of_composed_traces_partition_the_time(profctl, tmp_path, seed):
    """As of real ones: costs of a kind of time never exceed it, and it is what the raw events say."""
    (tmp_path / "trace.json").write_text(json.dumps(composed(seed)))
    rows = json.loads(profctl(tmp_path / "trace.json", "--report", "findings", "--json"))["rows"]
    [rank] = json.loads(profctl(tmp_path / "trace.json", "--report", "evaluated", "--json"))["rows"]
    for kind in raw.KINDS:
        claimed = {row["rule"]: row[f"{kind}_ns"] for row in rows if row[f"{kind}_ns"] and row["rule"] not in OF_OTHER_TIME}
        assert sum(claimed.values()) <= rank[f"{kind}_ns"] / (rank["steps"] or 1) + 10, (kind, claimed)
    assert sum(rank[f"{kind}_ns"] for kind in raw.KINDS) == rank["evaluated_ns"]
    if not rank["outliers_ns"] and not rank["edge_ns"]:
        times = raw.times(raw.events(tmp_path / "trace.json"), rank["start_ns"] / 1e3, rank["end_ns"] / 1e3)
        assert {kind: rank[f"{kind}_ns"] for kind in raw.KINDS} == pytest.approx(times, rel=1e-4, abs=2000)
    assert rows, "silence"


def test_overview_shows_findings_first(run):
    text = run("sglang_decode_8rank")
    assert text.index("Expert-parallel dispatch/combine is exposed") < text.index("kernels")
