# SPDX-License-Identifier: Apache-2.0
"""Figures in the sentences of findings, recomputed in whole nanoseconds from the JSON of real traces."""
import collections
import decimal
import functools
import gzip
import itertools
import json
import re

import pytest

import raw_trace as raw
from test_findings import TRACES, findings, profctl, run  # noqa: F401 (fixtures)

pytestmark = pytest.mark.plain

US, MS = 1000, 1000 * 1000


class Rank:
    """Complete events of one trace, by the time at which they begin; `offset` makes wall-clock time of their times."""

    def __init__(self, path):
        with (gzip.open if path.suffix == ".gz" else open)(path) as file:
            trace = json.load(file, parse_float=decimal.Decimal)
        self.offset = int(trace.get("baseTimeNanoseconds", 0))
        self.events = [e for e in trace["traceEvents"] if e.get("ph") == "X" and "ts" in e and "dur" in e]
        for e in self.events:
            e["from"] = int(decimal.Decimal(e["ts"]) * 1000)
            e["to"] = e["from"] + int(decimal.Decimal(e["dur"]) * 1000)
        self.events.sort(key=lambda e: e["from"])
        self.first = self.events[0]["from"]
        self.gpu = raw.gpu_work(self.events)
        self.kernels = [e for e in self.gpu if e["cat"] in raw.KERNEL]
        self.computing = [e for e in self.kernels if not raw.COMMUNICATES.search(e["name"])]
        self.communicating = [e for e in self.kernels if raw.COMMUNICATES.search(e["name"])]
        self.span = min(e["from"] for e in self.gpu), max(e["to"] for e in self.gpu)

    def place(self, begin, end):
        return f"{(begin - self.first) / MS:.3f} ms to {(end - self.first) / MS:.3f} ms"


@functools.lru_cache(maxsize=8)
def read(trace):
    return [Rank(path) for path in raw.ranks(TRACES / trace)]


def times(events):
    return [(e["from"], e["to"]) for e in events]


def subtract(intervals, others):
    """Parts of the first that lie in none of the second."""
    ret, others, at = [], raw.union(others), 0
    for begin, end in raw.union(intervals):
        while at < len(others) and others[at][1] <= begin:
            at += 1
        for low, high in itertools.takewhile(lambda other: other[0] < end, itertools.islice(others, at, None)):
            if low > begin:
                ret.append((begin, low))
            begin = max(begin, high)
        if begin < end:
            ret.append((begin, end))
    return ret


def within(intervals, scope):
    return [(max(begin, scope[0]), min(end, scope[1])) for begin, end in intervals if begin < scope[1] and end > scope[0]]


def shown(ns):
    """As a sentence writes it."""
    for unit, limit, factor in (("us", MS - 500, 1e3), ("ms", 1000 * MS - MS // 2, 1e6)):
        if ns < limit:
            value = ns / factor
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    return f"{ns / 1e9:.1f}s"


def only(rows, rule):
    [row] = [row for row in rows if row["rule"] == rule]
    return row


# -- Chains of elementwise kernels --------------------------------------------------------------------------


def chains(rank):
    """Three and more of PyTorch's elementwise kernels that follow each other on a stream."""
    streams = collections.defaultdict(list)
    for e in rank.gpu:
        streams[e["args"].get("device"), e["args"].get("stream")].append(e)
    runs = [list(group) for events in streams.values()
            for is_elementwise, group in itertools.groupby(events, lambda e: "elementwise_kernel" in e["name"]) if is_elementwise]
    return [chain for chain in runs if len(chain) >= 3]


def saved(chain):
    durations = [e["to"] - e["from"] for e in chain]
    return sum(durations) - max(durations)


@pytest.mark.parametrize("trace", ["tracelens/h100_qwen15.json.gz", "tracelens/mi300_qwen15.json.gz"])
def test_unfused_chains(findings, trace):
    [rank] = read(trace)
    found, row = chains(rank), only(findings(trace), "unfused_elementwise")
    saving, whole = sum(saved(chain) for chain in found), rank.span[1] - rank.span[0]
    assert (row["cost_ns"], row["compute_ns"]) == (saving, saving) and row["share"] == pytest.approx(saving / whole)
    assert row["what"].endswith(f"save about {shown(saving)} of {shown(whole)} ({100 * saving / whole:.0f} %)")
    worst = max(found, key=saved)
    assert row["where"] == f"most expensive chain: {len(worst)} kernels, {rank.place(worst[0]['from'], worst[-1]['to'])}"
    assert row["evidence"].startswith(f"{len(found)} chains of 3 or more ")
    assert f", {sum(len(chain) for chain in found)} kernels;" in row["evidence"]


def test_chains_that_save_little_are_no_finding(findings):
    trace = "tracelens/mi210_gpu_only.json.gz"
    [rank] = read(trace)
    assert chains(rank) and sum(saved(chain) for chain in chains(rank)) < 0.03 * (rank.span[1] - rank.span[0])
    assert "unfused_elementwise" not in [row["rule"] for row in findings(trace)]


# -- Tiny kernels -------------------------------------------------------------------------------------------


def tiny(events):
    return [e for e in events if e["to"] - e["from"] <= 4 * US]


def test_tiny_kernels(findings):
    """In half of this recording the kernels are small. The cost has also short gaps before kernels that were launched already, of
    which there are no more than all short gaps before tiny kernels."""
    trace = "tracelens/mi210_gpu_only.json.gz"
    [rank] = read(trace)
    begin, end = rank.first + 3165 * US, rank.first + 4724 * US
    computing = [e for e in rank.computing if begin <= e["from"] < end]
    small, work = tiny(computing), [e for e in rank.gpu if begin <= e["from"] < end]
    assert len(small) >= 100 and 2 * len(small) >= len(computing)
    row = only(findings(trace, "--from", "3.165ms", "--to", "4.724ms"), "tiny_kernels")
    busy = raw.union(times(work))
    starts = {e["from"] for e in small}
    gaps = sum(b[0] - a[1] for a, b in zip(busy, busy[1:]) if b[0] in starts and b[0] - a[1] <= 10 * US)
    assert row["compute_ns"] == raw.length(raw.union(times(small))) and row["idle_ns"] <= gaps
    assert row["cost_ns"] == row["compute_ns"] + row["idle_ns"]
    whole = max(e["to"] for e in work) - min(e["from"] for e in work)
    assert row["what"] == (f"Many tiny kernels: {100 * len(small) / len(computing):.0f} % of the kernels take 4 us or less; they and "
                           f"the gaps before them take {shown(row['cost_ns'])} of {shown(whole)} ({100 * row['cost_ns'] / whole:.0f} %)")
    mean = sum(e["to"] - e["from"] for e in small) // len(small)
    assert row["evidence"].startswith(f"{len(small)} of {len(computing)} kernels, {shown(mean)} on average;")
    runs = [list(group) for is_tiny, group in itertools.groupby(computing, lambda e: e["to"] - e["from"] <= 4 * US) if is_tiny]
    longest = max(runs, key=len)
    assert row["where"] == f"longest run: {len(longest)} kernels, {rank.place(longest[0]['from'], longest[-1]['to'])}"


def test_tiny_kernels_that_are_fewer_than_half_are_no_finding(findings):
    trace = "tracelens/mi210_gpu_only.json.gz"
    [rank] = read(trace)
    assert 100 < len(tiny(rank.computing)) < len(rank.computing) / 2
    assert "tiny_kernels" not in [row["rule"] for row in findings(trace)]


# -- Communication and waiting ------------------------------------------------------------------------------


def meetings(ranks):
    """The same collective on all ranks: these recordings begin at different ones and end after the same one, so that kernels of
    one name are counted from the last. Wall-clock times, [[(from, to) of each rank]]. Their ends lie within 1 ms, but for
    three at most: a rank may leave an all-to-all as soon as it has its own data."""
    names = [collections.defaultdict(list) for _ in ranks]
    for of_rank, rank in zip(names, ranks):
        for e in reversed(rank.communicating):
            of_rank[e["name"]].append((e["from"] + rank.offset, e["to"] + rank.offset))
    ret = [met for name in names[0] for met in zip(*(of_rank[name] for of_rank in names))]
    assert sum(max(e[1] for e in met) - min(e[1] for e in met) > MS for met in ret) <= 3
    return ret


def waiting(ranks, scopes):
    """Exposed waiting of each rank for one rank alone and for any other, as intervals by its own clock; who that is; and how
    often each rank is last by more than the clock errors of it and of the second to last rank, of the collectives that begin in
    scope on all ranks. A clock error is the median distance between the ends of the same collectives, from rank 0."""
    met = meetings(ranks)
    errors = [sorted(abs(m[k][1] - m[0][1]) for m in met)[(len(met) + 1) // 2 - 1] for k in range(len(ranks))]
    found = [m for m in met if all(s[0] <= e[0] - rank.offset < s[1] for e, rank, s in zip(m, ranks, scopes))]
    lasts, delays = collections.Counter(), collections.Counter()
    order = [sorted(range(len(ranks)), key=lambda k: m[k][0]) for m in found]
    for m, by_arrival in zip(found, order):
        last, second = by_arrival[-1], by_arrival[-2]
        lasts[last] += m[last][0] - m[second][0] > errors[last] + errors[second]
        delays[last] += max(0, min(m[last][0], m[second][1]) - m[second][0])
    straggler = max(range(len(ranks)), key=lambda k: delays[k])
    for_straggler, for_others = [], []
    for k, (rank, scope) in enumerate(zip(ranks, scopes)):
        exposed = within(subtract(times(rank.communicating), times(rank.computing)), scope)
        hidden = subtract([scope], exposed)
        one, others = [], []
        for m, by_arrival in zip(found, order):
            begin, end = m[k][0], max(m[k][0], min(m[by_arrival[-1]][0], m[k][1]))
            alone = min(max(m[by_arrival[-2]][0], begin), end) if by_arrival[-1] == straggler else end
            one.append((alone - rank.offset, end - rank.offset))
            others.append((begin - rank.offset, alone - rank.offset))
        for_straggler.append(subtract(one, hidden))
        for_others.append(subtract(others, hidden + for_straggler[-1]))
    return straggler, for_straggler, for_others, lasts, delays, len(found)


def exposed(rank, pattern, scope):
    """Communication with such a name, of which no computing kernel runs at the same time."""
    return within(subtract(times(e for e in rank.communicating if re.search(pattern, e["name"])), times(rank.computing)), scope)


@pytest.mark.parametrize("trace", ["sglang_decode_8rank", "lightllm_decode_8rank"])
def test_uneven_ranks_and_communication_without_their_waiting(findings, trace):
    ranks, rows = read(trace), findings(trace)
    straggler, alone, others, lasts, _, n = waiting(ranks, [rank.span for rank in ranks])
    whole = sum(rank.span[1] - rank.span[0] for rank in ranks)
    uneven, row = sum(map(raw.length, others)), only(rows, "uneven_ranks")
    assert row["cost_ns"] == uneven // len(ranks) == row["communication_ns"] and row["share"] == pytest.approx(uneven / whole)
    most = max(range(len(ranks)), key=lambda k: lasts[k])
    assert 0 < lasts[most] < n / len(ranks)
    assert row["where"] == f"{n} collectives; most often last by more than the clock errors: rank {most}, at {lasts[most]} of them"
    # Waiting for one rank alone is too little for a finding, so that it stays communication.
    assert sum(map(raw.length, alone)) < 0.03 * whole and "straggler" not in [row["rule"] for row in rows]
    of_all = [exposed(rank, "dispatch|combine", rank.span) for rank in ranks]
    net = sum(raw.length(subtract(one, wait)) for one, wait in zip(of_all, others))
    row = only(rows, "exposed_expert_parallel")
    assert row["cost_ns"] == net // len(ranks) == row["communication_ns"] and row["share"] == pytest.approx(net / whole)
    total = sum(raw.length(raw.union(times(rank.communicating))) for rank in ranks)
    assert row["evidence"].startswith(f"this communication takes {shown(total // len(ranks))} per rank: no kernel computes for "
                                      f"{shown(net // len(ranks))} of it ({100 * net / total:.0f} %)")
    assert f"; another {shown(uneven // len(ranks))} are waits for the last rank to arrive, which another finding" in row["evidence"]
    calls = sum("dispatch" in e["name"] for rank in ranks for e in rank.communicating) // len(ranks)
    assert f"dispatch<> ({calls} calls per rank)" in row["where"]


def test_straggler(run, findings):
    """The first step is an outlier that is left out: the report `evaluated` has the bounds of the others."""
    trace = "torchrec_sst5_4rank"
    ranks, rows = read(trace), findings(trace)
    bounds = json.loads(run(trace, "--report", "evaluated", "--json"))["rows"]
    scopes = [(rank.first + row["start_ns"], rank.first + row["end_ns"]) for rank, row in zip(ranks, bounds)]
    units = sum(row["steps"] for row in bounds)
    straggler, alone, others, lasts, delays, n = waiting(ranks, scopes)
    cost, whole = sum(map(raw.length, alone)), sum(end - begin for begin, end in scopes)
    row = only(rows, "straggler")
    assert row["cost_ns"] == cost // units == row["communication_ns"] and row["share"] == pytest.approx(cost / whole)
    assert row["what"].startswith(f"Straggler: ranks wait for rank {straggler} alone for {shown(cost // units)} of ")
    assert row["evidence"].startswith(f"last by more than the clock errors at {lasts[straggler]} of {n} collectives "
                                      f"({100 * lasts[straggler] / n:.0f} %), {shown(delays[straggler] * len(ranks) // units)} per "
                                      "step in total after the second to last rank")
    # Ranks that take turns wait for too little else.
    assert sum(map(raw.length, others)) < 0.08 * whole and "uneven_ranks" not in [row["rule"] for row in rows]
    net = sum(raw.length(subtract(exposed(rank, "SendRecv", scope), wait + exposed(rank, "AllReduce", scope)))
              for rank, scope, wait in zip(ranks, scopes, alone))
    row = only(rows, "exposed_communication")
    assert row["cost_ns"] == net // units
    # Of the calls, too, those of the step that is left out are no part.
    calls = sum("SendRecv" in e["name"] and begin <= e["from"] < end for rank, (begin, end) in zip(ranks, scopes)
                for e in rank.communicating) // len(ranks)
    assert f"ncclDevKernel_SendRecv ({calls} calls per rank)" in row["where"]
    # All-reduce overlaps with computation, but for less than is reported.
    hidden = sum(raw.length(subtract(exposed(rank, "AllReduce", scope), wait)) for rank, scope, wait in zip(ranks, scopes, alone))
    assert 0 < hidden < 0.05 * whole and "exposed_all_reduce" not in [row["rule"] for row in rows]


# -- Launches and copies ------------------------------------------------------------------------------------


def late_launches(rank):
    """Idle times of up to 1 ms that end with work whose launching call returned only after the GPU had fallen idle."""
    calls = {e["args"]["correlation"]: e for e in rank.events
             if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})}
    ret, end = [], rank.gpu[0]["to"]
    for e in rank.gpu[1:]:
        call = calls.get(e["args"].get("correlation"))
        if 0 < e["from"] - end <= MS and call and call["to"] > end:
            ret.append((end, e["from"]))
        end = max(end, e["to"])
    return ret


def test_launch_bound(findings):
    """Without operators, Python and waits on the host all of these idle times are waits for launches."""
    trace = "tracelens/mi210_gpu_only.json.gz"
    [rank] = read(trace)
    waits, whole, row = late_launches(rank), rank.span[1] - rank.span[0], only(findings(trace), "launch_bound")
    cost = raw.length(waits)
    assert row["cost_ns"] == row["idle_ns"] == cost
    assert row["what"].endswith(f"the GPU was idle {shown(cost)} of {shown(whole)} ({100 * cost / whole:.0f} %) waiting for kernel launches, {len(waits)} times")
    assert row["where"] == f"worst window: {rank.place(*max(waits, key=lambda w: w[1] - w[0]))}"


def test_few_late_launches_are_no_finding(findings):
    trace = "tracelens/h100_qwen15.json.gz"
    [rank] = read(trace)
    assert 0 < raw.length(late_launches(rank)) < 0.1 * (rank.span[1] - rank.span[0])
    assert "launch_bound" not in [row["rule"] for row in findings(trace)]


@pytest.mark.parametrize("trace", ["sglang_decode_8rank", "lightllm_decode_8rank"])
def test_pageable_copies(findings, trace):
    ranks, row = read(trace), only(findings(trace), "pageable_copy")
    copies = [[e for e in rank.gpu if "Pageable" in e["name"]] for rank in ranks]
    alone = sum(raw.length(subtract(times(found), times(rank.kernels))) for rank, found in zip(ranks, copies))
    idle = 0
    for rank, found in zip(ranks, copies):
        known = {e["args"].get("correlation") for e in found}
        calls = [e for e in rank.events if e.get("cat") == "cuda_runtime" and e["args"].get("correlation") in known]
        idle += raw.length(within(subtract(times(calls), times(rank.gpu)), rank.span))
    assert row["copy_ns"] == alone // len(ranks) and row["idle_ns"] <= idle // len(ranks)
    assert row["cost_ns"] == pytest.approx(row["copy_ns"] + row["idle_ns"], abs=1)
    size = sum(e["args"]["bytes"] for found in copies for e in found)
    # All figures are means of the ranks, and all kinds of copies are named.
    assert row["what"].endswith(f", {sum(map(len, copies)) / len(ranks):.3g} copies per rank")
    assert row["evidence"].startswith(f"{size / len(ranks) / 1024**2:.1f} MiB per rank: ")
    kinds = collections.Counter(e["name"] for found in copies for e in found)
    assert all(f" {n / len(ranks):.3g} {name}" in row["evidence"] for name, n in kinds.items())
    assert f"during the copies for {shown(alone // len(ranks))}, and the GPU is idle in their calls for {shown(row['idle_ns'])};" in row["evidence"]
    which, longest = max(((k, e) for k, found in enumerate(copies) for e in found), key=lambda x: x[1]["to"] - x[1]["from"])
    assert row["where"] == f"longest: rank {which}, {ranks[which].place(longest['from'], longest['to'])}, {longest['name']}"


def test_exposed_copies(run, findings):
    """Copies of pinned memory, of six steps; the report `evaluated` has their bounds."""
    trace = "hta/trace_diff_test.json.gz"
    [rank], row = read(trace), only(findings(trace), "exposed_copy")
    [bounds] = json.loads(run(trace, "--report", "evaluated", "--json"))["rows"]
    scope = rank.first + bounds["start_ns"], rank.first + bounds["end_ns"]
    copies = [e for e in rank.gpu if "emcpy" in e["name"] and "Pageable" not in e["name"]]
    pageable = [e for e in rank.gpu if "Pageable" in e["name"]]
    cost = raw.length(within(subtract(times(copies), times(rank.kernels + pageable)), scope))
    assert row["cost_ns"] == cost // 6 == row["copy_ns"] and row["share"] == pytest.approx(cost / (scope[1] - scope[0]))
    copies = [e for e in copies if scope[0] <= e["from"] < scope[1]]
    share = 100 * cost / raw.length(within(raw.union(times(copies)), scope))
    assert row["evidence"].startswith(f"{len(copies)} copies; {share:.0f} % of their time overlaps with no kernel")
    longest = max(copies, key=lambda e: e["to"] - e["from"])
    assert row["where"] == f"{longest['name']}; longest: {rank.place(longest['from'], longest['to'])}"


def test_short_pageable_copies_are_no_finding(findings):
    trace = "tracelens/mi300_qwen15.json.gz"
    [rank] = read(trace)
    copies = [e for e in rank.gpu if e["cat"] in raw.COPY]
    assert raw.length(subtract(times(copies), times(rank.kernels))) < 0.01 * (rank.span[1] - rank.span[0])
    assert not any(row["rule"] in ("pageable_copy", "exposed_copy") for row in findings(trace))


# -- A GPU that computes ------------------------------------------------------------------------------------

# Tokens of its only step, by the step's name.
COMPUTING = [("tracelens/vllm_decode_full_graph.json.gz", r"execute_\d+_context_0\(.*\)_generation_\d+\(sq(\d+)sk.*\)"),
             ("tracelens/torch_compile_triton.json.gz", None), ("tracelens/mi300_qwen15.json.gz", None)]


@pytest.mark.parametrize("trace, step", COMPUTING)
def test_gpu_bound(findings, trace, step):
    [rank] = read(trace)
    row, whole = only(findings(trace), "gpu_bound"), rank.span[1] - rank.span[0]
    compute = raw.length(raw.union(times(rank.computing)))
    assert row["cost_ns"] is None
    assert row["what"] == f"GPU-bound: kernels compute for {shown(compute)} of {shown(whole)} ({100 * compute / whole:.0f} %)"
    total = sum(e["to"] - e["from"] for e in rank.computing)
    named = row["evidence"].split("kernel time: ")[1].split(";")[0]
    parts = re.findall(r"(\S+) (\d+) %", named)
    assert len(parts) == 3
    for name, percent in parts:
        assert len(name.encode()) <= 64
        pattern = re.escape(name.removesuffix("...")).replace("<>", "<.*").replace(r"\#", r"\d+")
        match = re.match if name.endswith("...") else re.fullmatch
        time = sum(e["to"] - e["from"] for e in rank.computing if match(f"(void )?{pattern}", e["name"]))
        assert f"{100 * time / total:.0f}" == percent, name
    if step:
        tokens = {int(m[1]) for m in (re.fullmatch(step, e["name"]) for e in rank.events) if m}
        [tokens] = tokens
        assert f"; step p50 {shown(whole)} (1 step), {tokens / (whole / 1e9):.0f} tokens per second of step time" in row["evidence"]


def test_gpu_that_waits_is_not_gpu_bound(findings):
    trace = "tracelens/b200_eager_rank0.json.gz"
    [rank] = read(trace)
    assert raw.length(raw.union(times(rank.computing))) < 0.8 * (rank.span[1] - rank.span[0])
    assert "gpu_bound" not in [row["rule"] for row in findings(trace)]
