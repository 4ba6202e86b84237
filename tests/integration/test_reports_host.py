# SPDX-License-Identifier: Apache-2.0
"""gaps, collectives, memcpy, graphs, ops and what belongs to them, through profctl on real traces: beside what Holistic Trace
Analysis and torch say, and beside plain sums over the trace's JSON."""
import bisect
import collections
import decimal
import gzip
import json
import os
import pathlib
import subprocess

import pytest

from real_traces import ORACLE, TRACES

PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"
SYSTEM_PYTHON = "/usr/bin/python3"  # Debian's, which python3-torch belongs to
GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
RUNTIME = ("cuda_runtime", "cuda_driver")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def report(cache):
    def run(name, path, *words):
        r = subprocess.run([PROFCTL, "analyze", path, "--report", name, "--json", *words], capture_output=True, timeout=120,
                           stdin=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": str(cache)})
        assert r.returncode == 0, r.stderr.decode()
        return json.loads(r.stdout)["rows"]

    return run


def ns(us):
    return int((decimal.Decimal(us) * 1000).to_integral_value())


def events(name):
    """All slices of a trace, times as exact nanoseconds."""
    with gzip.open(TRACES / f"{name}.json.gz") as file:
        trace = json.load(file, parse_float=str, parse_int=str)
    found = []
    for e in trace["traceEvents"]:
        if e.get("ph") == "X" and "dur" in e:
            args = e.get("args", {})
            found.append({"name": e["name"], "cat": e.get("cat"), "thread": (e["pid"], e["tid"]), "args": args,
                          "ts": ns(e["ts"]), "end": ns(e["ts"]) + ns(e["dur"])})
    return found


def launches(all_events):
    return {e["args"]["correlation"]: e for e in sorted(all_events, key=lambda e: e["ts"])
            if e["cat"] in RUNTIME and "correlation" in e["args"]}


# -- Gaps ---------------------------------------------------------------------------------------------------------------------

def oracle(name):
    path = ORACLE / f"hta/{name}.nons.json"
    return json.loads(path.read_text())["idle_time_breakdown"]["result"]["idle"]["rows"]


@pytest.mark.parametrize("name, path", [
    ("tl_vllm_decode_full", "tracelens/vllm_decode_full_graph.json.gz"),
    ("tl_xdit_flux", "tracelens/xdit_flux_aiter_sage_rank0.json.gz"),
    ("tl_sglang_decode", "tracelens/sglang_qwen3_8b_decode.json.gz"),
    ("tl_mi300_qwen", "tracelens/mi300_qwen15.json.gz"),
])
def test_gaps_are_those_of_hta(report, name, path):
    """Where no work overlaps on a stream and HTA leaves no step out, to the hundredth of a microsecond that it rounds to."""
    ours = {(r["rank"], r["stream"], r["cause"]): r["sum_ns"] for r in report("gaps", TRACES / path)}
    for rank, stream, cause, us, _ in oracle(name):
        assert abs(ours.get((rank, stream, cause), 0) - us * 1000) <= 20, (rank, stream, cause)


@pytest.mark.parametrize("name", ["lightllm_decode_8rank", "sglang_decode_8rank"])
def test_gaps_of_eight_ranks_are_those_of_hta(report, name):
    """HTA subtracts where kernels overlap (less than a microsecond here): ours are never less."""
    ours = {(r["rank"], r["stream"], r["cause"]): r["sum_ns"] for r in report("gaps", TRACES / name)}
    rows = oracle(name)
    assert len(rows) == 32
    for rank, stream, cause, us, _ in rows:
        assert -20 <= ours.get((rank, stream, cause), 0) - us * 1000 < 1000, (rank, stream, cause)


def self_times(slices, begin, end):
    """Nanoseconds by name: each is the innermost slice's, of the runtime's calls first; None where there is none."""
    shares, waiting, around = collections.Counter(), sorted(slices, key=lambda e: -e["ts"]), []
    moments = sorted({begin, end, *(t for e in slices for t in (e["ts"], e["end"]) if begin < t < end)})
    for at, until in zip(moments, moments[1:]):
        while waiting and waiting[-1]["ts"] <= at:
            around.append(waiting.pop())
        around = [e for e in around if e["end"] > at]
        inner = max(around, key=lambda e: (e["cat"] in RUNTIME, e["ts"], -e["end"]), default=None)
        shares[inner and inner["name"]] += until - at
    return shares


@pytest.mark.parametrize("name", ["tracelens/h100_qwen15", "tracelens/b200_eager_rank0", "hta/nccl_data_rank0",
                                  "tracelens/xdit_flux_aiter_sage_rank0"])
def test_the_host_in_the_longest_gaps(report, name):
    found = events(name)
    launch_of = launches(found)
    first = min(e["ts"] for e in found)
    threads = collections.defaultdict(list)
    for e in found:
        if e["cat"] not in GPU_WORK:
            threads[e["thread"]].append(e)
    work = {(e["ts"], e["args"].get("stream")): e for e in found if e["cat"] in GPU_WORK}
    rows = report("gap_list", TRACES / f"{name}.json.gz", "--top", "30")
    assert rows == sorted(rows, key=lambda r: -r["dur_ns"]) and len(rows) == 30
    n_inside = 0
    for r in rows:
        begin, end = first + r["start_ns"], first + r["start_ns"] + r["dur_ns"]
        launch = launch_of.get(work[end, str(r["stream"])]["args"].get("correlation"))
        assert (r["cause"] == "host_wait") == (launch is not None and launch["ts"] > begin)
        shares = self_times([e for e in threads[launch["thread"]] if e["ts"] < end and e["end"] > begin], begin, end) if launch else {}
        most_ns = max(shares.values(), default=0)
        assert r["call_ns"] == (None if r["call"] is None else most_ns) and (not shares or shares[r["call"]] == most_ns), r
        covering = [(min(e["end"], end) - max(e["ts"], begin), e) for e in threads[launch["thread"]]] if launch else []
        most = [(covered, e) for covered, e in covering if covered * 2 > r["dur_ns"]]
        if most:
            shortest = min(e["end"] - e["ts"] for _, e in most)
            assert (r["inside_ns"], r["inside"]) in [(covered, e["name"]) for covered, e in most
                                                      if e["end"] - e["ts"] == shortest]
            n_inside += 1
        elif r["inside"] is not None:
            assert r["inside_ns"] == max(covered for covered, _ in covering)
    assert n_inside > 10


@pytest.mark.smoke
def test_gap_list_sums_to_gaps(report):
    path = TRACES / "tracelens/b200_eager_rank0.json.gz"
    sums = collections.Counter()
    for r in report("gap_list", path):
        assert r["dur_ns"] > 0 and 0 <= r["idle_ns"] <= r["dur_ns"]
        sums[r["stream"], r["cause"]] += r["dur_ns"]
    assert sums == {(r["stream"], r["cause"]): r["sum_ns"] for r in report("gaps", path)}


# -- Operators ----------------------------------------------------------------------------------------------------------------

RECORDING = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile, record_function
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.LayerNorm(128), torch.nn.Linear(128, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.randn(32, 64)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
    for _ in range(5):
        with record_function("train"):
            loss = model(batch).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
p.export_chrome_trace(sys.argv[1])
own = {}
for e in p.events():
    own[e.key] = own.get(e.key, 0) + max(e.self_cpu_time_total, 0)
print(json.dumps([{"name": a.key, "calls": a.count, "total": a.cpu_time_total, "self": own[a.key],
                   "is_whole": a.self_cpu_time_total == own[a.key]} for a in p.key_averages()]))
"""


def test_operators_are_those_of_torch(report, tmp_path):
    """A recording made here, beside prof.key_averages(). Calls of whole microseconds may end before what is within them: torch's
    self time of such a call is below zero, ours is zero."""
    if subprocess.run([SYSTEM_PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        pytest.skip(f"{SYSTEM_PYTHON} has no torch (python3-torch)")
    path = tmp_path / "cpu.json"
    r = subprocess.run([SYSTEM_PYTHON, "-c", RECORDING, path], capture_output=True, text=True, timeout=300,
                       env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert r.returncode == 0, r.stderr
    trace = json.loads(path.read_text())
    # A torch that was built without Kineto writes a list, and no categories.
    if isinstance(trace, list):
        path.write_text(json.dumps({"traceEvents": [{"cat": "cpu_op", **e} for e in trace]}))
    ours = {r["name"]: r for r in report("ops", path)}
    averages = json.loads(r.stdout)
    assert len(averages) > 30
    for a in averages:
        row = ours.pop(a["name"])
        assert (row["calls"], row["host_ns"], row["self_host_ns"]) == (a["calls"], ns(a["total"]), ns(a["self"])), a["name"]
    assert not ours
    assert sum(a["is_whole"] for a in averages) > len(averages) / 2


@pytest.mark.parametrize("name", ["tracelens/h100_qwen15", "hta/nccl_data_rank0", "tracelens/xdit_flux_aiter_sage_rank0",
                                  "kineto/resnet50_2021_workers0", "lightllm_decode_8rank/rank0.pt.trace"])
def test_all_work_is_somebodys_once(report, name):
    path = TRACES / f"{name}.json.gz"
    total = sum(r["sum_ns"] for r in report("kernels", path))
    of_ops = report("op_kernels", path)
    assert sum(r["sum_ns"] for r in of_ops) == total
    known = sum(r["sum_ns"] for r in of_ops if r["op"] is not None)
    ops = report("ops", path)
    assert sum(r["self_device_ns"] for r in ops) == known > 0
    assert all(r["self_device_ns"] <= r["device_ns"] and 0 <= r["self_host_ns"] <= r["host_ns"] for r in ops)
    shapes = report("op_shapes", path)
    assert sum(r["calls"] for r in shapes) == sum(r["calls"] for r in ops if r["kind"] == "operator")
    tree = report("op_tree", path)
    assert sum(r["self_device_ns"] for r in tree) == known
    assert sum(r["device_ns"] for r in tree if r["depth"] == 0) == known
    assert sum(r["self_host_ns"] for r in tree) == sum(r["self_host_ns"] for r in ops)


def test_operators_equal_a_plain_sum(report):
    """hta/nccl_data: of each kernel, the innermost operator on the launching thread around the launch."""
    found = events("hta/nccl_data_rank0")
    launch_of = launches(found)
    calls = collections.defaultdict(list)
    for e in found:
        if e["cat"] in ("cpu_op", "user_annotation"):
            calls[e["thread"]].append(e)
    expected = collections.Counter()
    begins = {}
    for thread, of_thread in calls.items():
        of_thread.sort(key=lambda e: (e["ts"], -e["end"]))
        begins[thread] = [e["ts"] for e in of_thread]
    for e in found:
        if e["cat"] not in GPU_WORK:
            continue
        launch = launch_of[e["args"]["correlation"]]
        of_thread = calls[launch["thread"]]
        at = bisect.bisect_right(begins.get(launch["thread"], []), launch["ts"]) - 1
        while at >= 0 and of_thread[at]["end"] <= launch["ts"]:
            at -= 1
        if at >= 0:
            name = of_thread[at]["name"]
            expected["ProfilerStep*" if name.startswith("ProfilerStep#") else name] += e["end"] - e["ts"]
    ours = {r["name"]: r["self_device_ns"] for r in report("ops", TRACES / "hta/nccl_data_rank0.json.gz")}
    assert {name: value for name, value in ours.items() if value} == dict(expected)


def test_sequences_equal_a_plain_sum(report):
    rows = report("sequences", TRACES / "hta/nccl_data_rank0.json.gz")
    assert rows
    for r in rows:
        assert r["count"] >= 2 and r["length"] >= 2 and r["saved_launches"] == r["count"] * (r["length"] - 1)
        assert r["kernels"].count(" -> ") == r["length"] - 1
    assert [r["saved_launches"] for r in rows] == sorted((r["saved_launches"] for r in rows), reverse=True)


def test_stacks_hold_all_work_of_python(report):
    path = TRACES / "tracelens/h100_qwen15.json.gz"
    rows = report("stacks", path)
    found = events("tracelens/h100_qwen15")
    launch_of = launches(found)
    frames = [e for e in found if e["cat"] == "python_function"]
    expected = 0
    for e in found:
        launch = launch_of.get(e["args"].get("correlation")) if e["cat"] in GPU_WORK else None
        if launch and any(f["thread"] == launch["thread"] and f["ts"] <= launch["ts"] < f["end"] for f in frames):
            expected += e["end"] - e["ts"]
    assert sum(r["device_ns"] for r in rows if r["depth"] == 0) == sum(r["self_device_ns"] for r in rows) == expected > 0


def test_frames_equal_a_plain_sum(report):
    rows = report("frames", TRACES / "tracelens/h100_qwen15.json.gz")
    by_thread = collections.defaultdict(list)
    for e in events("tracelens/h100_qwen15"):
        if e["cat"] == "python_function":
            by_thread[e["thread"]].append(e)
    calls, self_time, inclusive = collections.Counter(), collections.Counter(), collections.Counter()
    for frames in by_thread.values():
        around = []
        for e in sorted(frames, key=lambda e: (e["ts"], -e["end"])):
            while around and around[-1]["end"] <= e["ts"]:
                around.pop()
            dur = e["end"] - e["ts"]
            calls[e["name"]] += 1
            self_time[e["name"]] += dur
            if around:
                self_time[around[-1]["name"]] -= min(dur, around[-1]["end"] - e["ts"])
            if all(outer["name"] != e["name"] for outer in around):
                inclusive[e["name"]] += dur
            around.append(e)
    assert {r["name"]: r["calls"] for r in rows} == dict(calls)
    assert {r["name"]: r["self_host_ns"] for r in rows} == {name: self_time[name] for name in calls}
    assert {r["name"]: r["host_ns"] for r in rows} == {name: inclusive[name] for name in calls}
    assert rows == sorted(rows, key=lambda r: -r["self_host_ns"]) and sum(r["self_share"] for r in rows) == pytest.approx(1)
    # The outermost frames of a recording last as long as it, and do nothing themselves.
    assert all("_bootstrap" not in r["name"] for r in rows[:10])


@pytest.mark.parametrize("name", ["tracelens/vllm_decode_full_graph", "tracelens/sglang_qwen3_8b_decode", "hta/nccl_data_rank0",
                                  "tracelens/xdit_flux_aiter_sage_rank0"])
def test_kernels_are_named_as_by_cppfilt(report, name):
    symbols = sorted({e["name"] for e in events(name) if e["cat"] == "kernel" and e["name"].startswith("_Z")})
    shown = subprocess.run(["c++filt", "--no-recurse-limit", *symbols], capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    assert symbols != shown
    assert set(shown) <= {r["name"] for r in report("kernels", TRACES / f"{name}.json.gz")}


# -- Collectives, copies, graphs ----------------------------------------------------------------------------------------------

def test_collectives_equal_a_plain_sum(report):
    found = events("hta/nccl_data_rank0")
    computing = sorted((e["ts"], e["end"]) for e in found if e["cat"] == "kernel" and not e["name"].startswith("nccl"))
    expected = collections.defaultdict(lambda: [0, 0, 0])
    for e in found:
        if e["cat"] != "kernel" or "Collective name" not in e["args"]:
            continue
        exposed, at = 0, e["ts"]
        for begin, end in computing:
            if end > at and begin < e["end"]:
                exposed += max(begin - at, 0)
                at = max(at, end)
        exposed += max(e["end"] - at, 0)
        size = {"Float": 4, "Long": 8}[e["args"]["dtype"]] * int(e["args"]["In msg nelems"])
        sums = expected[e["args"]["Collective name"], size]
        sums[0] += 1
        sums[1] += e["end"] - e["ts"]
        sums[2] += exposed
    rows = report("collectives", TRACES / "hta/nccl_data_rank0.json.gz")
    assert {(r["name"], r["bytes"]): [r["count"], r["sum_ns"], r["exposed_ns"]] for r in rows} == expected
    for r in rows:
        assert r["algbw"] == pytest.approx(r["bytes"] * r["count"] * 1e9 / r["sum_ns"])
        assert r["busbw"] == pytest.approx(r["algbw"])  # two ranks: 2 (n - 1) / n is 1
        assert (r["group"], r["group_size"], r["ranks"]) == ("default_pg", 2, "[0, 1]")


def test_custom_collectives_of_eight_ranks(report):
    rows = report("collectives", TRACES / "sglang_decode_8rank")
    assert {r["kind"] for r in rows} >= {"dispatch", "combine"}
    assert all(r["bytes"] is None and r["exposed_ns"] <= r["sum_ns"] for r in rows if r["kind"] in ("dispatch", "combine"))
    combine = [r for r in rows if r["kind"] == "combine"]
    assert sum(r["count"] for r in combine) == 8 * 58


@pytest.mark.parametrize("name", ["hta/trace_diff_control", "hta/sampled_2rank/rank-0", "lightllm_decode_8rank/rank0.pt.trace"])
def test_copies_equal_a_plain_sum(report, name):
    expected = collections.defaultdict(lambda: [0, 0, 0])
    for e in events(name):
        if e["cat"] in ("gpu_memcpy", "gpu_memset"):
            sums = expected[e["name"]]
            sums[0] += 1
            sums[1] += e["end"] - e["ts"]
            sums[2] += int(e["args"]["bytes"])
    rows = report("memcpy", TRACES / f"{name}.json.gz")
    assert {r["name"]: [r["count"], r["sum_ns"], r["bytes"]] for r in rows} == expected
    assert all(r["pageable"] == (r["count"] if "Pageable" in r["name"] else 0) for r in rows)
    # torch copies from the GPU to pageable memory and waits, in this order and on one thread.
    to_host = [r for r in rows if r["name"] == "Memcpy DtoH (Device -> Pageable)"]
    assert to_host and all(r["sync_calls"] == r["count"] for r in to_host) or name.startswith("hta/sampled")


def test_waits_equal_a_plain_sum(report):
    name = "lightllm_decode_8rank/rank0.pt.trace"
    expected = collections.Counter()
    for e in events(name):
        if e["cat"] in RUNTIME and "Synchronize" in e["name"]:
            expected[e["name"]] += e["end"] - e["ts"]
    ours = collections.Counter()
    for r in report("syncs", TRACES / f"{name}.json.gz"):
        ours[r["name"]] += r["sum_ns"]
    assert ours == expected


def test_graphs_equal_a_plain_sum(report):
    name = "tracelens/vllm_piecewise_graph"
    found = events(name)
    graphs = {e["args"]["correlation"]: [] for e in found if e["name"] == "hipGraphLaunch"}
    for e in found:
        if e["cat"] in GPU_WORK and e["args"].get("correlation") in graphs:
            graphs[e["args"]["correlation"]].append(e)
    expected = sorted((min(e["ts"] for e in work), max(e["end"] for e in work), len(work)) for work in graphs.values() if work)
    first = min(e["ts"] for e in found)
    path = TRACES / f"{name}.json.gz"
    rows = report("graph_list", path)
    assert [(first + r["start_ns"], first + r["start_ns"] + r["dur_ns"], r["kernels"]) for r in rows] == expected
    sums = report("graphs", path)
    assert sum(r["launches"] for r in sums) == len(expected)
    assert sum(r["sum_ns"] for r in sums) == sum(end - begin for begin, end, _ in expected)
    assert all(r["min_ns"] <= r["p50_ns"] <= r["p99_ns"] <= r["max_ns"] for r in sums)


def test_a_graph_of_a_thousand_kernels(report):
    """Four runs of one graph, which the trace gives no id."""
    row, = report("graphs", TRACES / "tracelens/xdit_flux_aiter_sage_rank0.json.gz")
    assert (row["launches"], row["kernels"], row["graph"]) == (4, 1566, None)
