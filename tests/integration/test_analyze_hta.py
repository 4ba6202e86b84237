# SPDX-License-Identifier: Apache-2.0
"""`profctl analyze --hta` against what Holistic Trace Analysis said of the same traces, and the default's times against
TraceLens. Where the two differ, docs/analysis.md says why, and the test says by how much."""
import functools
import gzip
import json
import math
import os
import pathlib
import subprocess

import pytest

from real_traces import ORACLE, TRACES

pytestmark = pytest.mark.plain

PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"

SETS = {
    "hta_alexnet_cp": "hta/critical_path_alexnet.json.gz",
    "hta_df_index_resolver": "hta/df_index_resolver.json.gz",
    "hta_nccl_data": "hta/nccl_data_rank0.json.gz",
    "hta_ns_resolution": "hta/ns_resolution_rank0.json.gz",
    "hta_sampled_rank0_1": "hta/sampled_2rank",
    "hta_trace_diff_control": "hta/trace_diff_control.json.gz",
    "hta_trace_diff_test": "hta/trace_diff_test.json.gz",
    "kineto_resnet50_w0": "kineto/resnet50_2021_workers0.json.gz",
    "lightllm_decode_8rank": "lightllm_decode_8rank",
    "sglang_decode_8rank": "sglang_decode_8rank",
    "tl_b200_eager": "tracelens/b200_eager_rank0.json.gz",
    "tl_h100_qwen": "tracelens/h100_qwen15.json.gz",
    "tl_mi300_qwen": "tracelens/mi300_qwen15.json.gz",
    "tl_sglang_decode": "tracelens/sglang_qwen3_8b_decode.json.gz",
    "tl_vllm_decode_full": "tracelens/vllm_decode_full_graph.json.gz",
    "tl_vllm_piecewise": "tracelens/vllm_piecewise_graph.json.gz",
    "tl_xdit_flux": "tracelens/xdit_flux_aiter_sage_rank0.json.gz",
    "torchrec_resnet18_2rank": "torchrec_resnet18_2rank",
    "torchrec_sst4_4rank": "torchrec_sst4_4rank",
    "torchrec_sst5_4rank": "torchrec_sst5_4rank",
}
FRACTIONAL = [name for name in SETS if (ORACLE / f"hta/{name}.nons.json").exists()]
SCALARS = ("idle_ns", "compute_ns", "non_compute_ns", "span_ns")  # in the order of HTA's table

# HTA reckons in microseconds as doubles: of a stamp that counts since the epoch they hold quarters.
DOUBLES_NS = {"hta_ns_resolution": 250}
# A host operator of Triton's has an argument "stream", so that HTA takes it for work of stream 0.
TRITON_OPERATOR = "tl_b200_eager"
# Work without a call in the trace: HTA takes the trace's first event for it.
FIRST_EVENT_AS_CALL = {"tl_h100_qwen", "tl_mi300_qwen"}


@pytest.fixture(scope="module")
def analyze(tmp_path_factory):
    home = tmp_path_factory.mktemp("cache")

    @functools.lru_cache(maxsize=None)
    def run(path, report, hta=True):
        words = [PROFCTL, "analyze", path, "--report", report, "--json", *(["--hta"] if hta else [])]
        r = subprocess.run(words, capture_output=True, timeout=300, stdin=subprocess.DEVNULL,
                           env={**os.environ, "XDG_CACHE_HOME": str(home), "HOME": str(home)})
        assert r.returncode == 0, r.stderr.decode()
        return json.loads(r.stdout)["rows"]

    return run


@functools.lru_cache(maxsize=None)
def oracle(name, mode):
    return json.loads((ORACLE / f"hta/{name}.{mode}.json").read_text())


def unrounded(name):
    """HTA's figures without its rounding, which is none where all stamps are whole microseconds."""
    return oracle(name, "nons" if name in FRACTIONAL else "default")


def files_of(name):
    """Rank -> its trace; of a set of one the rank is whatever it says."""
    path = TRACES / SETS[name]
    return sorted(path.iterdir()) if path.is_dir() else [path]


def file_of_rank(name, rank):
    files = files_of(name)
    return files[int(rank)] if len(files) > 1 else files[0]


def near(name):
    return 2 + DOUBLES_NS.get(name, 0)


def events_of(path):
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as f:
        return json.load(f)["traceEvents"]


def columns_of(result, *names):
    index = [result["columns"].index(name) for name in names]
    return [[row[i] for i in index] for row in result["rows"]]


def triton_operators():
    """[from, to) in ns, counted from whatever the trace counts from."""
    return [(round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000), e["name"])
            for e in events_of(files_of(TRITON_OPERATOR)[0]) if e.get("cat") == "cpu_op" and "stream" in e["args"]]


# -- temporal ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", [name for name in SETS if name != TRITON_OPERATOR])
def test_temporal(analyze, name):
    theirs = columns_of(unrounded(name)["temporal_breakdown"]["result"], "rank", "idle_time(us)", "compute_time(us)",
                        "non_compute_time(us)", "kernel_time(us)")
    assert len(theirs) == len(files_of(name))
    for rank, *times in theirs:
        [row] = analyze(file_of_rank(name, rank), "temporal")
        assert row["busy_ns"] + row["idle_ns"] == row["span_ns"]
        assert row["compute_ns"] + row["non_compute_ns"] == row["busy_ns"]
        for column, time in zip(SCALARS, times):
            assert abs(row[column] - time * 1000) <= near(name), (rank, column)


def test_temporal_of_all_ranks_at_once(analyze):
    for name in ("torchrec_sst4_4rank", "lightllm_decode_8rank"):
        together = {row["rank"]: row for row in analyze(TRACES / SETS[name], "temporal")}
        assert len(together) == len(files_of(name))
        for rank, row in together.items():
            assert [row] == analyze(file_of_rank(name, rank), "temporal")


def test_temporal_with_an_operator_taken_for_work(analyze):
    """HTA's figures are ours and the operator's time, which lies where the GPU was idle but for one kernel."""
    name = TRITON_OPERATOR
    [theirs] = columns_of(unrounded(name)["temporal_breakdown"]["result"], *(
        "idle_time(us)", "compute_time(us)", "non_compute_time(us)", "kernel_time(us)"))
    [row] = analyze(files_of(name)[0], "temporal")
    [(start, end, _)] = triton_operators()
    work = [(round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)) for e in events_of(files_of(name)[0])
            if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    hidden = union_length([(max(a, start), min(b, end)) for a, b in work if a < end and b > start])
    extra = end - start - hidden
    idle, compute, non_compute, span = (time * 1000 for time in theirs)
    assert extra > 70_000
    assert abs(row["span_ns"] - span) <= 2 and abs(row["non_compute_ns"] - non_compute) <= 2
    assert abs(row["idle_ns"] - extra - idle) <= 4 and abs(row["compute_ns"] + extra - compute) <= 4


def union_length(intervals):
    total, until = 0, -math.inf
    for start, end in sorted(intervals):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


# -- overlap -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", SETS)
def test_overlap(analyze, name):
    for rank, percent in columns_of(unrounded(name)["comm_comp_overlap"]["result"], "rank", "comp_comm_overlap_pctg"):
        [row] = analyze(file_of_rank(name, rank), "overlap")
        assert row["comm_ns"] - row["overlapped_ns"] == row["exposed_ns"]
        if percent is None:
            assert row["comm_ns"] == 0 and row["overlapped_share"] is None
        else:
            assert round(100 * row["overlapped_share"], 2) == percent


# -- kernels -----------------------------------------------------------------------------------------------------------

def demangled(names):
    """Holistic Trace Analysis shows symbols as they are recorded."""
    symbols = [n for n in names if n.startswith("_Z")]
    if not symbols:
        return {}
    shown = subprocess.run(["c++filt", "--no-recurse-limit", *symbols], capture_output=True, text=True, check=True, timeout=60)
    return dict(zip(symbols, shown.stdout.splitlines()))


@pytest.mark.parametrize("name", SETS)
def test_kernels(analyze, name):
    result = unrounded(name)["kernel_breakdown_all"]["result"]["kernels"]
    columns = "rank", "name", "kernel_type", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)"
    operators = {n for _, _, n in triton_operators()} if name == TRITON_OPERATOR else set()
    ranks = {}
    shown = demangled(kernel for [kernel] in columns_of(result, "name"))
    for rank, kernel, *row in columns_of(result, *columns):
        ranks.setdefault(rank, []).append([shown.get(kernel, kernel), *row])
    for rank, theirs in ranks.items():
        ours = {row["name"]: row for row in analyze(file_of_rank(name, rank), "kernels")}
        assert ours.keys() == {row[0] for row in theirs}
        assert abs(sum(row["share"] for row in ours.values()) - 1) < 1e-9
        for kernel, kind, *times in theirs:
            if kernel in operators:
                continue
            row = ours[kernel]
            assert row["category"] == kind
            for column, time in zip(("sum_ns", "max_ns", "min_ns", "std_ns", "mean_ns"), times):
                assert abs(row[column] - time * 1000) <= 1, (kernel, column)


# -- gaps --------------------------------------------------------------------------------------------------------------

def has_report(name):
    r = subprocess.run([PROFCTL, "reports", "--json"], capture_output=True, timeout=60)
    return any(one["report"] == name for one in json.loads(r.stdout))


gaps = pytest.mark.skipif(not has_report("gaps"), reason="there is no report gaps")


@gaps
@pytest.mark.parametrize("name", [name for name in SETS if name not in FIRST_EVENT_AS_CALL | DOUBLES_NS.keys()])
def test_gaps(analyze, name):
    for rank, theirs in gaps_of_hta(name).items():
        assert_same_gaps(our_gaps(analyze, name, rank), theirs)


@gaps
@pytest.mark.parametrize("name", sorted(FIRST_EVENT_AS_CALL))
def test_gaps_of_work_whose_call_is_unknown(analyze, name):
    """What HTA then takes for a wait for the host ends before the trace's first event began."""
    events = events_of(files_of(name)[0])
    [(rank, theirs)] = gaps_of_hta(name).items()
    ours = our_gaps(analyze, name, rank)
    work = sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"])
    called = {e["args"]["correlation"] for e in events
              if e.get("ph") == "X" and e["cat"] in ("cuda_runtime", "cuda_driver")
              and "correlation" in e["args"]}
    for before, one in zip(work, work[1:]):
        end = before["ts"] + before["dur"]
        if one["args"]["correlation"] not in called and events[0]["ts"] > end:
            stream, gap = one["args"]["stream"], round((one["ts"] - end) * 1000)
            for cause, sign in (("host_wait", 1), ("kernel_wait", -1)):
                count, total = ours[stream, cause]
                ours[stream, cause] = count + sign, total + sign * gap
    assert_same_gaps(ours, theirs)


@gaps
@pytest.mark.parametrize("name", sorted(DOUBLES_NS))
def test_gaps_where_doubles_cannot_tell(analyze, name):
    """Which of two stamps is first: HTA's quarters of a microsecond make some of them the same. The sum of all gaps is
    what it is."""
    [(rank, theirs)] = gaps_of_hta(name).items()
    ours = our_gaps(analyze, name, rank)
    assert ours.keys() == theirs.keys()
    assert sum(count for count, _ in ours.values()) == sum(count for count, _ in theirs.values())
    sums = [sum(total for _, total in one.values()) for one in (ours, theirs)]
    assert abs(sums[0] - sums[1]) <= DOUBLES_NS[name]
    count = {cause: ours[7, cause][0] - theirs[7, cause][0] for cause in ("host_wait", "kernel_wait", "other")}
    assert count == {"host_wait": 6, "kernel_wait": -6, "other": 0}


def gaps_of_hta(name):
    """rank -> (stream, cause) -> (count, ns)"""
    result, ranks = unrounded(name)["idle_time_breakdown"]["result"], {}
    for (rank, stream, cause, time), (_, _, count) in zip(
            columns_of(result["idle"], "rank", "stream", "idle_category", "idle_time"),
            columns_of(result["stats"], "rank", "stream", "count"), strict=True):
        ranks.setdefault(rank, {})[stream, cause] = int(count), time * 1000
    return ranks


def our_gaps(analyze, name, rank):
    return {(row["stream"], row["cause"]): (row["count"], row["sum_ns"])
            for row in analyze(file_of_rank(name, rank), "gaps")}


def assert_same_gaps(ours, theirs):
    assert ours.keys() == theirs.keys()
    for key, (count, total) in theirs.items():
        # HTA prints 2 decimals of a microsecond, and its doubles hold quarters of a nanosecond.
        assert ours[key][0] == count and abs(ours[key][1] - total) <= 10 + count / 4, key


# -- launches ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", SETS)
def test_launches(analyze, name):
    for rank, theirs in unrounded(name)["cuda_kernel_launch_stats"]["result"].items():
        rows = analyze(file_of_rank(name, rank), "launches")
        assert sum(row["count"] for row in rows) == theirs["n"]
        if theirs["n"] == 0:
            continue
        assert sum(row["short_kernels"] for row in rows) == theirs["short_kernels"]
        assert abs(sum(row["call_ns"] for row in rows) - theirs["sum_cpu"] * 1000) <= 2
        assert abs(sum(row["work_ns"] for row in rows) - theirs["sum_gpu"] * 1000) <= 2
        assert abs(max(row["max_delay_ns"] for row in rows) - theirs["max_delay"] * 1000) <= near(name)
        delays = sum(row["mean_delay_ns"] * row["count"] for row in rows)
        assert abs(delays - theirs["sum_delay"] * 1000) <= theirs["n"] * (0.5 + DOUBLES_NS.get(name, 0)) + 2


@pytest.mark.parametrize("name", SETS)
def test_queue(analyze, name):
    for rank, theirs in unrounded(name)["queue_length_series_stats"]["result"].items():
        lengths = [row["length"] for row in analyze(file_of_rank(name, rank), "queue")]
        assert len(lengths) == theirs["n"]
        assert (min(lengths), max(lengths)) == (theirs["min"], theirs["max"])


# -- HTA as it ships ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", [name for name in FRACTIONAL if name not in (TRITON_OPERATOR, "tl_xdit_flux")])
def test_as_shipped(analyze, tmp_path, name):
    """HTA makes whole microseconds of stamps, inwards. Of a trace in which that is done, --hta says what HTA as shipped
    says of the trace, but for events of less than a microsecond: HTA gives some of them a duration of -1."""
    theirs = {rank: times for rank, *times in temporal_as_shipped(name)}
    for rank, path in enumerate(files_of(name)):
        events = events_of(path)
        negative = round_inwards(events)
        rounded = tmp_path / f"{rank}.json"
        rounded.write_text(json.dumps({"traceEvents": events}))
        [row] = analyze(rounded, "temporal")
        if not theirs:
            assert negative > 0  # HTA ends with an AssertionError
            continue
        for column, time in zip(SCALARS, theirs[rank]):
            assert abs(row[column] - time * 1000) <= negative * 1000, (rank, column, negative)


def temporal_as_shipped(name):
    result = oracle(name, "default")["temporal_breakdown"]["result"]
    if "error" in result:
        return []
    return columns_of(result, "rank", "idle_time(us)", "compute_time(us)", "non_compute_time(us)", "kernel_time(us)")


def round_inwards(events):
    """As HTA does; how many of the GPU's have no length any more, or less."""
    negative = 0
    for e in events:
        if e.get("ph") == "X":
            start, end = math.ceil(e["ts"]), math.floor(e["ts"] + e["dur"])
            negative += end < start and e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
            e["ts"], e["dur"] = start, max(end - start, 0)
    return negative


# -- TraceLens ---------------------------------------------------------------------------------------------------------

def tracelens_sets():
    return json.loads((ORACLE / "tracelens/gpu_timeline.json").read_text())["result"]


@pytest.mark.parametrize("key", sorted(tracelens_sets()))
def test_tracelens(analyze, key):
    """Busy and idle agree with TraceLens'; where no kernel communicates but NCCL's, so does what is exposed."""
    name, entry = key.split("/")[0], tracelens_sets()[key]
    if name not in SETS:
        pytest.skip(f"{name} is not among the sets of traces")
    if "metrics_us" not in entry:
        pytest.skip(f"TraceLens failed on {key}")
    path, theirs = file_of_rank(name, entry["rank"] or 0), entry["metrics_us"]
    [temporal], [overlap] = analyze(path, "temporal", hta=False), analyze(path, "overlap", hta=False)
    events = sum(row["count"] for row in analyze(path, "streams", hta=False))
    bound = 2 + events * DOUBLES_NS.get(name, 0.25)  # a double holds quarters of a nanosecond of stamps as there are

    def same(ours, us):
        assert abs(ours - us * 1000) <= bound

    same(temporal["busy_ns"], theirs["busy_time"])
    same(temporal["idle_ns"], theirs["idle_time"])
    same(temporal["span_ns"], theirs["total_time"])
    assert (overlap["compute_ns"] + overlap["exposed_ns"] + overlap["exposed_memory_ns"] == temporal["busy_ns"])
    by_hta = analyze(path, "overlap")[0]
    if by_hta["comm_ns"] == overlap["comm_ns"]:
        same(overlap["comm_ns"], theirs["total_comm_time"])
