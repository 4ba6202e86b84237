# SPDX-License-Identifier: Apache-2.0
"""`profctl export` and `profctl merge`: what other programs get of a trace, and several ranks on one clock."""
import collections
import csv
import gzip
import io
import json
import os
import pathlib
import subprocess

import pytest

from real_traces import TRACES

NCCL = TRACES / "hta/nccl_data_rank0.json.gz"
PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"
US = 1000


@pytest.fixture
def profctl(tmp_path):
    def run(*words, status=0):
        r = subprocess.run([PROFCTL, *words], capture_output=True, timeout=120, stdin=subprocess.DEVNULL, cwd=tmp_path,
                           env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
        assert r.returncode == status, r.stderr.decode()
        return r

    return run


def events_of(data):
    return json.loads(data)["traceEvents"]


def complete(events):
    return [e for e in events if e["ph"] == "X"]


def ns(microseconds):
    return round(float(microseconds) * US)


@pytest.mark.smoke
def test_chrome_keeps_every_event(profctl):
    with gzip.open(NCCL) as f:
        before = json.load(f)
    after = json.loads(profctl("export", NCCL, "-o", "-").stdout)
    assert after["baseTimeNanoseconds"] == before["baseTimeNanoseconds"]
    assert after["deviceProperties"] == before["deviceProperties"]
    one, other = [sorted(json.dumps(e, sort_keys=True) for e in complete(t["traceEvents"])) for t in (before, after)]
    assert one == other
    # An arrow that begins or ends nowhere is not drawn by anybody.
    arrows = json.loads(profctl("query", NCCL, "select count(*) as n from flow", "--json").stdout)[0]["n"]
    assert collections.Counter(e["ph"] for e in after["traceEvents"] if e["ph"] in "sf") == {"s": arrows, "f": arrows}


def test_a_part_of_a_trace(profctl):
    with gzip.open(NCCL) as f:
        events = complete(json.load(f)["traceEvents"])
    first = min(ns(e["ts"]) for e in events)
    start, end = first + 200_000_000, first + 300_000_000
    kernels = [e for e in events if e["cat"] == "kernel" and ns(e["ts"]) < end and ns(e["ts"]) + ns(e["dur"]) > start]
    assert len(kernels) > 50
    got = complete(events_of(profctl("export", NCCL, "--from", "200ms", "--to", "300ms", "--only", "kernel").stdout))
    assert sorted(e["args"]["correlation"] for e in got) == sorted(e["args"]["correlation"] for e in kernels)


def test_csv_has_every_slice(profctl):
    rows = list(csv.DictReader(io.StringIO(profctl("export", NCCL, "--format", "csv").stdout.decode())))
    with gzip.open(NCCL) as f:
        events = complete(json.load(f)["traceEvents"])
    kernels = [e for e in events if e["cat"] == "kernel"]
    assert sum(int(r["dur"]) for r in rows if r["category"] == "kernel") == sum(ns(e["dur"]) for e in kernels)


def test_stacks_add_up_to_the_same_time(profctl):
    collapsed = profctl("export", NCCL, "--format", "collapsed").stdout.decode().splitlines()
    rows = csv.DictReader(io.StringIO(profctl("export", NCCL, "--format", "csv").stdout.decode()))
    own = sum(int(r["self"]) for r in rows)
    assert sum(int(line.rsplit(" ", 1)[1]) for line in collapsed) == own


@pytest.mark.parametrize("name", ["chrome", "perfetto", "speedscope", "collapsed", "pprof", "csv", "parquet"])
def test_every_format_appears_complete_under_its_name(profctl, tmp_path, name):
    profctl("export", NCCL, "--format", name, "-o", f"made.{name}.gz")
    data = gzip.decompress((tmp_path / f"made.{name}.gz").read_bytes())
    assert len(data) > 10_000
    assert [p.name for p in tmp_path.iterdir() if "profctl-" in p.name] == []


def test_unknown_format_and_times_are_refused(profctl, tmp_path):
    path = tmp_path / "t.json"
    path.write_text('[{"ph":"X","name":"a","cat":"c","pid":1,"tid":1,"ts":1,"dur":2,"args":{}}]')
    assert b"Did you mean perfetto?" in profctl("export", path, "--format", "perfeto", status=2).stderr
    assert b"--from must be before --to" in profctl("export", path, "--from", "2s", "--to", "1s", status=2).stderr
    assert b"No such file or directory" in profctl("export", "nothere.json", status=4).stderr


def test_what_holds_nothing_is_not_written(profctl, tmp_path):
    for words in (["--only", "kernal"], ["--from", "100s"]):
        r = profctl("export", NCCL, *words, "-o", "nothing.json", status=4)
        assert b"no slice" in r.stderr and b"kernel" in r.stderr
    assert not (tmp_path / "nothing.json").exists()


def test_merge_takes_directories_and_no_trace_twice(profctl):
    ranks = TRACES / "lightllm_decode_8rank"
    assert len({e["pid"] for e in complete(events_of(profctl("merge", ranks).stdout))}) >= 16
    one = ranks / "rank0.pt.trace.json.gz"
    assert b"named twice" in profctl("merge", one, one, status=2).stderr
    other = TRACES / "sglang_decode_8rank/rank0.pt.trace.json.gz"
    assert b"--align start" in profctl("merge", one, other).stderr


def rank_trace(rank, base_ns, offset_us, collectives=20):
    """A rank whose clock is offset_us ahead; every collective ends at the same moment everywhere."""
    events = []
    for i in range(collectives):
        end = 10_000 + 1000 * i + offset_us
        entered = end - 50 - 10 * rank
        events.append({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 7, "ts": entered,
                       "dur": end - entered, "args": {"stream": 7, "device": 0, "correlation": i, "Collective name": "allreduce",
                                                      "Process Group Name": "0", "Group size": 2}})
    return json.dumps({"baseTimeNanoseconds": base_ns, "distributedInfo": {"rank": rank, "world_size": 2},
                       "traceEvents": events})


BASE = 1767189312000000000


def ends(events):
    found = collections.defaultdict(list)
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    for e in complete(events):
        found[names[e["pid"]].split(" ·")[0]].append(ns(e["ts"]) + ns(e["dur"]))
    return {rank: sorted(times) for rank, times in found.items()}


@pytest.mark.parametrize("offset_us, how, apart_us", [(0, "auto", 0), (300, "auto", 300), (70_000, "auto", 0),
                                                      (70_000, "wall", 70_000), (300, "collectives", 0)])
def test_merged_ranks_share_a_clock(profctl, tmp_path, offset_us, how, apart_us):
    (tmp_path / "a.json").write_text(rank_trace(0, BASE, 0))
    # Another base for the same moments: stamps alone would be a second apart.
    (tmp_path / "b.json").write_text(rank_trace(1, BASE - 10**9, 1_000_000 + offset_us))
    r = profctl("merge", "b.json", "a.json", "--align", how)
    found = ends(events_of(r.stdout))
    assert list(found) == ["rank 0", "rank 1"]
    assert {b - a for a, b in zip(found["rank 0"], found["rank 1"])} == {apart_us * US}
    assert (b"rank 1: clock moved by -70" in r.stderr) == (offset_us == 70_000 and how == "auto")


def test_clocks_that_nothing_joins(profctl, tmp_path):
    for name, ts in (("a", 5), ("b", 9_000_000)):
        (tmp_path / f"{name}.json").write_text(
            json.dumps([{"ph": "X", "name": "x", "cat": "c", "pid": 1, "tid": 1, "ts": ts, "dur": 2, "args": {}}]))
    assert b"no wall clock in common" in profctl("merge", "a.json", "b.json", "--align", "wall", status=1).stderr
    r = profctl("merge", "a.json", "b.json")
    assert b"aligned by their first events" in r.stderr
    assert len({e["ts"] for e in complete(events_of(r.stdout))}) == 1


def test_eight_real_ranks(profctl, tmp_path):
    ranks = sorted((TRACES / "lightllm_decode_8rank").glob("*.gz"))
    profctl("merge", *ranks, "-o", "all.json.gz")
    events = events_of(gzip.decompress((tmp_path / "all.json.gz").read_bytes()))
    each = collections.Counter()
    for path in ranks:
        with gzip.open(path) as f:
            each.update(e["cat"] for e in complete(json.load(f)["traceEvents"]))
    assert collections.Counter(e["cat"] for e in complete(events)) == each
    flows = collections.defaultdict(set)
    for e in events:
        if e["ph"] in "sf":
            flows[e["id"]].add(e["ph"])
    assert all(kinds == {"s", "f"} for kinds in flows.values()), "an arrow lost its other end"


def test_categories_by_their_older_names(profctl, tmp_path):
    """As torch wrote them until 1.9: they are asked for by the names that they have had since."""
    names = ["Kernel", "Memcpy", "Memset", "Operator", "Runtime"]
    trace = tmp_path / "old.json"
    trace.write_text(json.dumps({"traceEvents": [
        {"ph": "X", "cat": name, "name": name, "pid": 0, "tid": 7, "ts": 10 * i, "dur": 5, "args": {}}
        for i, name in enumerate(names)]}))
    for only, kept in (("kernel", names[:1]), ("gpu_memcpy,gpu_memset", names[1:3]), ("cpu_op,cuda_runtime", names[3:]),
                       ("Kernel,kernel", names[:1])):
        got = complete(events_of(profctl("export", trace, "--only", only).stdout))
        assert [e["cat"] for e in got] == kept
    assert profctl("query", trace, "select count(*), sum(diff) from gap", "--csv", "--no-legend").stdout.split() == [b"2,5000"]
    assert profctl("query", trace, "--named", "kernels", "--csv", "--no-legend").stdout.count(b",50.0,1,") == 2
