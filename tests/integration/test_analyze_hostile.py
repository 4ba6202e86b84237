# SPDX-License-Identifier: Apache-2.0
"""Analyses of traces that were made to hurt: what grows with the square of a trace, what overflows, what steers a terminal or a
spreadsheet. What ends at all here ends in seconds; the limits are for what would not."""
import csv
import io
import json
import os
import pathlib
import resource
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

pytestmark = pytest.mark.plain

PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"
IS_SANITIZED = b"__asan_init" in PROFCTL.read_bytes()
SECONDS = 240
MEMORY = 6 << 30
# What goes through all pairs of so many does not end in time; a sanitized build is slower by itself.
MANY = 20_000 if IS_SANITIZED else 100_000
STREAMS = 50_000
NS_LARGEST = 2**63 - 1
US_LARGEST = NS_LARGEST // 1000


def limit():  # what profd-ingest sets for itself is its own
    if not IS_SANITIZED:  # which maps terabytes
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, resource.RLIM_INFINITY))


@pytest.fixture
def profctl(tmp_path):
    def run(*words, status=0):
        r = subprocess.run([PROFCTL, *words], capture_output=True, timeout=2 * SECONDS, stdin=subprocess.DEVNULL, cwd=tmp_path,
                           preexec_fn=limit,
                           env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "LC_ALL": "C.UTF-8"})
        assert r.returncode == status, r.stderr.decode()
        return r.stdout.decode() if status == 0 else r.stderr.decode()

    return run


@pytest.fixture
def trace(tmp_path):
    """Events are texts: of so many, a tree of objects takes longer than their analysis."""
    def write(name, events, head=""):
        path = tmp_path / name
        path.write_text('{"schemaVersion":1,' + head + '"traceEvents":[' + ",\n".join(events) + "]}")
        return path

    return write


def host(name, category, ts, dur, tid=1, correlation=0):
    return (f'{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":{tid},"ts":{ts},"dur":{dur},'
            f'"args":{{"correlation":{correlation},"External id":{correlation + 1}}}}}')


def kernel(name, ts, dur, stream=7, correlation=0):
    return (f'{{"ph":"X","cat":"kernel","name":{json.dumps(name)},"pid":0,"tid":{stream},"ts":{ts},"dur":{dur},'
            f'"args":{{"stream":{stream},"device":0,"correlation":{correlation}}}}}')


def launched(i, name, stream=7):
    """An operator with the call that launches one kernel, 10 us each."""
    ts = 10 * i
    return [host("aten::mm", "cpu_op", ts, 5), host("cudaLaunchKernel", "cuda_runtime", ts + 1, 2, correlation=i + 1),
            kernel(name, ts + 4, 5, stream, i + 1)]


def all_of(trace_events):
    return [text for events in trace_events for text in events]


def reports(profctl):
    return profctl("reports", "--json")


def names_of_reports(profctl):
    listed = json.loads(reports(profctl))
    return [r["report"] for r in listed]


def rows(text):
    return json.loads(text)["rows"]


# -- What is large -------------------------------------------------------------------------------------------------------------


def test_names_that_are_all_different(profctl, trace):
    path = trace("names.json", all_of(launched(i, f"kernel_{i}_{i * 7919}_void") for i in range(MANY)))

    assert len(rows(profctl("analyze", path, "--report", "kernels", "--json"))) == MANY
    assert "kernels" in profctl("analyze", path)


def test_comparison_of_names_that_are_all_different(profctl, trace):
    before = trace("before.json", (kernel(f"a{'x' * (i % 13)}_q{i}w", 10 * i, 5) for i in range(MANY)))
    after = trace("after.json", (kernel(f"b{'y' * (i % 11)}_z{i}v", 10 * i, 6) for i in range(MANY)))

    measures = json.loads(profctl("diff", before, after, "--json"))["measures"]["rows"]
    assert {r["measure"]: r["change_ns"] for r in measures}["gpu.busy"] == MANY * 1000


def test_collectives_that_are_all_different(profctl, trace):
    paths = [trace(f"rank{rank}.json", (kernel(f"ncclDevKernel_{i}", 10 * i + rank, 5) for i in range(MANY)),
                   f'"distributedInfo":{{"rank":{rank},"world_size":2}},') for rank in range(2)]

    by_rank = {r["rank"]: r for r in rows(profctl("analyze", *paths, "--report", "stragglers", "--json"))}
    assert by_rank[0]["last_count"] + by_rank[1]["last_count"] == MANY


def test_one_call_that_launches_everything(profctl, trace):
    events = [host("aten::mm", "cpu_op", 0, 50), host("cudaLaunchKernel", "cuda_runtime", 1, 10, correlation=7)]
    path = trace("one-call.json", events + [kernel("gemm", 20 + 10 * i, 5, correlation=7) for i in range(MANY)])

    assert rows(profctl("analyze", path, "--report", "critical_path", "--json"))
    profctl("analyze", path)


def test_launches_at_one_moment(profctl, trace):
    events = (e for i in range(MANY) for e in (host("cudaLaunchKernel", "cuda_runtime", 5, 1, correlation=i + 1),
                                               kernel("gemm", 20 + i, 1, i % 100, i + 1)))
    path = trace("one-moment.json", [host("aten::mm", "cpu_op", 0, 50), *events])

    assert rows(profctl("analyze", path, "--report", "critical_path", "--json"))


def test_synchronisations_far_from_their_launches(profctl, trace):
    """Each waits for a stream on which nothing was launched for long."""
    events = [host("aten::mm", "cpu_op", 0, 20 * MANY)]
    for i in range(MANY // 2):
        events += [host("cudaLaunchKernel", "cuda_runtime", 20 * i, 1, correlation=i + 1), kernel("gemm", 20 * i + 5, 5, 7, i + 1)]
    for i in range(MANY // 2, MANY):
        events += [host("cudaEventRecord", "cuda_runtime", 20 * i, 1, correlation=i + 1),
                   f'{{"ph":"X","cat":"cuda_sync","name":"Event Sync","pid":0,"tid":9,"ts":{20 * i + 3},"dur":1,"args":'
                   f'{{"stream":9,"wait_on_stream":9,"wait_on_cuda_event_record_corr_id":{i + 1},"correlation":{i + 1}}}}}']
    path = trace("syncs.json", events)

    assert rows(profctl("analyze", path, "--report", "critical_path", "--json"))


def test_streams_by_the_thousand(profctl, trace):
    path = trace("streams.json", all_of(launched(i, "gemm", i) for i in range(STREAMS)))

    assert rows(profctl("analyze", path, "--report", "temporal", "--json"))[0]["busy_ns"] > 0
    profctl("analyze", path)
    assert "too many events" in profctl("analyze", path, "--report", "critical_path", status=1)


@pytest.mark.parametrize("by", ["op", "stack"])
def test_calls_that_lie_in_each_other_without_end(profctl, trace, tmp_path, by):
    deep = [host(f"f{i % 7}", "cpu_op", i, 4 * MANY - 2 * i) for i in range(MANY)]
    calls = [e for i in range(MANY) for e in (host("cudaLaunchKernel", "cuda_runtime", MANY + i, 1, correlation=i + 1),
                                              kernel("gemm", 10 * MANY + i, 1, 7, i + 1))]
    path = trace("deep.json", deep + calls)

    profctl("flame", path, "--by", by, "-o", tmp_path / "deep.svg")
    assert ElementTree.parse(tmp_path / "deep.svg").getroot().tag.endswith("svg")
    profctl("analyze", path)


def test_correlations_that_are_all_one(profctl, trace):
    events = [e for i in range(MANY) for e in (host("cudaLaunchKernel", "cuda_runtime", 10 * i, 1, correlation=1),
                                               kernel("gemm", 10 * i + 4, 5, 7, 1))]
    path = trace("one-correlation.json", [host("aten::mm", "cpu_op", 0, 5), *events])

    profctl("analyze", path)
    profctl("analyze", path, "--hta", "--report", "kernels")


def test_steps_by_the_thousand_among_as_many_names(profctl, trace):
    n = MANY // 5
    events = all_of([host(f"ProfilerStep#{i}", "user_annotation", 100 * i, 99),
                     *(e for k in range(3) for e in (host("cudaLaunchKernel", "cuda_runtime", 100 * i + k, 1, correlation=3 * i + k + 1),
                                                     kernel(f"k{k}", 100 * i + 10 + 5 * k, 4, 7, 3 * i + k + 1)))] for i in range(n))
    path = trace("steps.json", [*events, *(host(f"frame_{i}", "python_function", 100 * n + i, 0.5) for i in range(MANY))])

    assert len(rows(profctl("analyze", path, "--report", "steps", "--json"))) == n
    profctl("analyze", path, "--report", "layers")


@pytest.mark.parametrize("report", ["sequences", "gap_list", "kernels"])
def test_a_name_as_long_as_a_trace(profctl, trace, report):
    """Not once for each row."""
    n, long = 2000, "x" * (1 << 20)
    events = [e for i in range(n) for e in (
        host(f"op{i // 2}", "cpu_op", 1000 * i, 900, correlation=0),
        *(e for k in range(8) for e in (host("cudaLaunchKernel", "cuda_runtime", 1000 * i + 20 * k + 1, 1, correlation=8 * i + k + 1),
                                        kernel("gemm", 1000 * i + 20 * k + 10, 4, 7, 8 * i + k + 1))))]
    path = trace("long.json", [host(long, "cpu_op", 0, 1000 * n), *events])

    profctl("analyze", path, "--report", report, "--top", "5")


def test_calls_across_each_other_while_the_gpu_waits(profctl, trace):
    n = MANY // 4
    events = [host("aten::mm", "cpu_op", i, n) for i in range(n)]
    path = trace("across.json", [*events, *all_of(launched(i, "gemm") for i in range(n))])

    profctl("analyze", path)
    profctl("analyze", path, "--report", "gap_list", "--top", "5")


def test_more_ranks_than_are_looked_at(profctl, trace, tmp_path):
    path = trace("rank.json", [kernel("gemm", 1, 1)])
    for i in range(400):
        (tmp_path / f"rank-{i}.json").write_bytes(path.read_bytes())

    assert "more than 256 traces" in profctl("analyze", *sorted(tmp_path.glob("rank-*.json")), status=1)


# -- What is out of range ------------------------------------------------------------------------------------------------------

TIMES = [0, -1, US_LARGEST, -US_LARGEST, US_LARGEST // 2, US_LARGEST // 2 + 1, -(US_LARGEST // 2) - 1, "1e300", 10**15]


def strange_times(durations=(0, 1, US_LARGEST)):
    events = []
    for i, ts in enumerate(TIMES):
        for k, dur in enumerate(durations):
            n = i * len(durations) + k + 1
            events += [host("aten::mm", "cpu_op", ts, dur), host("ProfilerStep#%d" % n, "user_annotation", ts, dur),
                       host("cudaLaunchKernel", "cuda_runtime", ts, dur, correlation=n),
                       kernel("gemm" if n % 2 else "ncclDevKernel_x", ts, dur, n % 3, n)]
    return events


def test_times_at_the_ends_of_the_range(profctl, trace, tmp_path):
    path = trace("times.json", strange_times())
    other = trace("others.json", [*strange_times(), kernel("gemm", 5, 5)])

    for name in names_of_reports(profctl):
        r = subprocess.run([PROFCTL, "analyze", path, other, "--report", name, "--json"], capture_output=True, timeout=SECONDS,
                           check=False, cwd=tmp_path, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
        assert r.returncode in (0, 1, 4) and b"runtime error" not in r.stderr, (name, r.stderr.decode())
        assert r.returncode or rows(r.stdout.decode()) is not None
    profctl("diff", path, other)
    profctl("analyze", path, "--html", tmp_path / "times.html")
    profctl("flame", path, "-o", tmp_path / "times.svg")


@pytest.mark.parametrize("bounds", [("--from", "-9223372036s"), ("--to", "9223372036s"), ("--step", str(NS_LARGEST))])
def test_views_at_the_ends_of_the_range(profctl, trace, tmp_path, bounds):
    path = trace("times.json", strange_times())

    r = subprocess.run([PROFCTL, "analyze", path, *bounds], capture_output=True, timeout=SECONDS, check=False, cwd=tmp_path)
    assert r.returncode in (0, 1, 2) and b"runtime error" not in r.stderr


# -- What names say ------------------------------------------------------------------------------------------------------------

FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)"]
STEERING = "\x1b]0;owned\x07\x1b[2J\u202e<script>alert(1)</script>]]>\"'--"


def test_csv_has_no_formula(profctl, trace):
    """A ' before it makes it a text to a spreadsheet. JSON and TSV are for programs, and have names as they are."""
    guarded = ["'" + name for name in FORMULAS]
    path = trace("formulas.json", [kernel(name, 10 * i, 5) for i, name in enumerate([*FORMULAS, "gemm", 'a"b,c'])])
    named = [r["name"] for r in csv.DictReader(io.StringIO(profctl("analyze", path, "--report", "kernels", "--csv")))]

    assert sorted(named) == sorted([*guarded, "gemm", 'a"b,c'])
    exported = csv.DictReader(io.StringIO(profctl("export", path, "--format", "csv")))
    assert {r["name"] for r in exported} >= {*guarded, "gemm", 'a"b,c'}
    select = "select distinct name as \"=name\", -5 as n, -0.5 as r from slice where name <> ''"
    queried = list(csv.DictReader(io.StringIO(profctl("query", path, select, "--csv"))))
    assert {r["'=name"] for r in queried} >= set(guarded) and {(r["n"], r["r"]) for r in queried} == {("-5", "-0.5")}
    assert {line.split("\t")[0] for line in profctl("query", path, select, "--tsv").splitlines()} >= set(FORMULAS)
    assert {r["=name"] for r in json.loads(profctl("query", path, select, "--json"))} >= set(FORMULAS)
    assert {r["name"] for r in rows(profctl("analyze", path, "--report", "kernels", "--json"))} >= set(FORMULAS)


@pytest.mark.parametrize("words", [(), ("--report", "kernels"), ("--report", "kernels", "--csv"), ("--html", "-")])
def test_names_steer_nothing(profctl, trace, tmp_path, words):
    name = "trace\x1b[31m.json"
    trace(name, [kernel(STEERING, 0, 5), kernel("gemm", 10, 5)])
    text = profctl("analyze", name, *words)

    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "--html" not in words or "<script>alert" not in text


def test_names_stay_within_a_picture(profctl, trace, tmp_path):
    trace("trace\x1b[31m<a>.json", [kernel(STEERING, 0, 5)])
    profctl("flame", "trace\x1b[31m<a>.json", "--diff", "trace\x1b[31m<a>.json", "--by", "kernel", "-o", "picture.svg")

    scripts = [e for e in ElementTree.parse(tmp_path / "picture.svg").iter() if e.tag.endswith("script")]
    assert len(scripts) == 1 and "alert" not in scripts[0].text


@pytest.mark.parametrize("words", [("analyze", "t.json", "--html", "link"), ("flame", "t.json", "-o", "link")])
def test_a_link_is_replaced_not_followed(profctl, trace, tmp_path, words):
    trace("t.json", [kernel("gemm", 0, 5)])
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "link").symlink_to("precious")
    profctl(*words)

    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "link").is_symlink()


# -- What is given beside ------------------------------------------------------------------------------------------------------


CLASSES = {"no-pattern": "attention", "no-class": "nothing *x*", "zero": "gemm *\n\x00", "stars": "gemm " + "*a" * 2000,
           "bracket": "gemm [", "backslash": "gemm \\", "long": "#" * 2_000_000, "many": "gemm *\n" * 5000}


@pytest.mark.parametrize("text", CLASSES.values(), ids=CLASSES)
def test_classes_end_with_an_answer(profctl, trace, tmp_path, text):
    path = trace("t.json", [kernel("a" * 5000, 0, 5)])
    (tmp_path / "classes").write_text(text)

    r = subprocess.run([PROFCTL, "analyze", path, "--classes", "classes"], capture_output=True, timeout=SECONDS, check=False,
                       preexec_fn=limit, cwd=tmp_path)
    assert r.returncode in (0, 1, 2) and b"runtime error" not in r.stderr


@pytest.mark.parametrize("condition", ["", "gpu.busy", "gpu.busy >", "> 5%", "gpu.busy > 5%", "gpu.busy > +nan%", "gpu.busy > +inf%",
                                       "gpu.busy > +1e999%", "gpu.busy > +99999999999999s", "x" * 65 + " > 1s", "gpu.busy > 1 s x",
                                       "gpu.busy > +%s%n%", "\x1b[2J > 1s"])
def test_no_conditions(profctl, trace, condition):
    path = trace("t.json", [kernel("gemm", 0, 5)])

    assert "\x1b" not in profctl("diff", path, path, "--fail-if", condition, status=2)
