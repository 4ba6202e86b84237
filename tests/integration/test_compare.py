# SPDX-License-Identifier: Apache-2.0
"""`profctl compare`: recorded identical runs are not called different, a real change of 10 % is found, and intervals are
those of an independent computation and cover what they claim to."""
import gzip
import itertools
import json
import math
import re
import statistics

import numpy
import pytest

from fake_profd import FakeProfd
from terminal import SOURCE, run

BLOCKS = 10
RUN_VARIANCE = 2
LATENCIES = ("ttft_ms", "itl_ms", "tpot_ms", "e2e_ms")
# Student's t at 0.975 by degrees of freedom, from a table.
T975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 8: 2.306, 9: 2.262, 18: 2.101}


@pytest.fixture(scope="module")
def recorded():
    """r1 to r10 are identical; the worker of r11 to r20 took 10 % longer for each step."""
    runs = json.loads(gzip.decompress((SOURCE / "tests/data/identical-runs.json.gz").read_bytes()))
    found = {}
    for n, one in enumerate(runs["identical"] + runs["slower"], 1):
        found[n] = {"run": one["run"] | {"run": n, "labels": {"build": "old" if n <= 10 else "new"}}, "requests": one["requests"]}
    return found


def answers_of(runs):
    answers = {"GET /v1/runs": {"runs": [runs[n]["run"] for n in sorted(runs, reverse=True)]}}
    for n, one in runs.items():
        answers[f"GET /v1/runs/r{n}"] = one["run"]
        answers[f"GET /v1/runs/r{n}/requests"] = lambda query, body, rows=one["requests"]: {"requests": [] if "after" in query else rows}
    return answers


@pytest.fixture
def serve(tmp_path):
    fakes = []

    def start(runs):
        fakes.append(FakeProfd(tmp_path / f"fake{len(fakes)}.sock", answers_of(runs)).__enter__())
        return fakes[-1]

    yield start
    for fake in fakes:
        fake.__exit__(None, None, None)


def compare(fake, *words, status=0):
    r = run("compare", *words, fake=fake)
    assert r.returncode == status, r.stderr or r.stdout
    return r


def compared(fake, *words):
    return {one["metric"]: one for one in json.loads(compare(fake, *words, "--json").stdout)["latency"]}


def figure(metric, name):
    return next(one for one in metric["figures"] if one["figure"] == name)


def refs(*numbers):
    return ",".join(f"r{n}" for n in numbers)


# Recorded runs


@pytest.mark.plain
def test_identical_runs_are_not_called_different(serve, recorded):
    fake = serve(recorded)
    different = [(a, b) for a, b in itertools.combinations(range(1, 11), 2)
                 if any(compared(fake, f"r{a}", f"r{b}")[metric]["result"] in ("slower", "faster") for metric in LATENCIES)]
    assert len(different) <= 2, different  # of 45, 5 %


@pytest.mark.plain
def test_identical_repeated_runs_are_not_called_different(serve, recorded):
    fake = serve(recorded)
    numbers = set(range(1, 11))
    splits = [half for half in itertools.combinations(sorted(numbers), 5) if 1 in half][::9]
    different = [half for half in splits
                 if compared(fake, refs(*half), refs(*sorted(numbers - set(half))))["e2e_ms"]["result"] in ("slower", "faster")]
    assert len(splits) == 14 and len(different) <= 1, different


@pytest.mark.plain
def test_a_change_of_10_percent_is_found(serve, recorded):
    fake = serve(recorded)
    for group in ((1, 2, 3), (4, 5, 6), (8, 9, 10), (1, 4, 7, 10), range(1, 11)):
        found = compared(fake, refs(*group), refs(*(n + 10 for n in group)))
        assert found["e2e_ms"]["result"] == "slower", group
        low, high = figure(found["e2e_ms"], "mean")["percent_ci95"]
        assert low <= 10 <= high and compared(fake, refs(*(n + 10 for n in group)), refs(*group))["e2e_ms"]["result"] == "faster"
    single = [any(compared(fake, f"r{n}", f"r{n + 10}")[metric]["result"] == "slower" for metric in LATENCIES) for n in range(1, 11)]
    assert sum(single) >= 7, single


def jackknife(rows, of):
    values = numpy.array([row[of] for row in rows if row["outcome"] == "success" and not row["cold"] and row[of] is not None]) / 1e6
    blocks = numpy.arange(len(values)) * BLOCKS // len(values)

    def spread(what):
        without = numpy.array([what(values[blocks != b]) for b in range(BLOCKS)])
        return math.sqrt((BLOCKS - 1) * ((without - without.mean()) ** 2).sum() * RUN_VARIANCE)

    return values, spread


@pytest.mark.parametrize("a, b", [(1, 11), (2, 9), (7, 18)])
def test_the_interval_is_what_numpy_computes(serve, recorded, a, b):
    found = compared(serve(recorded), f"r{a}", f"r{b}")
    for metric, member in (("ttft_ms", "ttft_ns"), ("tpot_ms", "tpot_ns"), ("e2e_ms", "e2e_ns")):
        for name, what in (("mean", numpy.mean), ("p50", lambda v: numpy.percentile(v, 50)), ("p90", lambda v: numpy.percentile(v, 90))):
            (x, spread_x), (y, spread_y) = (jackknife(recorded[n]["requests"], member) for n in (a, b))
            one, sx, sy = figure(found[metric], name), spread_x(what), spread_y(what)
            assert one["difference"] == pytest.approx(what(y) - what(x), rel=1e-6, abs=1e-5)
            error, df = math.hypot(sx, sy), (sx**2 + sy**2) ** 2 / ((sx**4 + sy**4) / (BLOCKS - 1))
            low, high = one["ci95"]
            assert (low + high) / 2 == pytest.approx(one["difference"])
            # Between the quantiles of the nearest degrees of freedom in the table.
            assert T975[18] * error * 0.999 <= (high - low) / 2 <= T975[9] * error * 1.001 and 9 <= df <= 18.001


def test_repeated_runs_are_welchs_test(serve, recorded):
    found = figure(compared(serve(recorded), "r1,r2,r3", "r11,r12,r13")["e2e_ms"], "mean")
    a, b = ([recorded[n]["run"]["metrics"]["e2e_ms"]["mean"] for n in group] for group in ((1, 2, 3), (11, 12, 13)))
    va, vb = statistics.variance(a) / 3, statistics.variance(b) / 3
    df = (va + vb) ** 2 / ((va**2 + vb**2) / 2)
    half = (found["ci95"][1] - found["ci95"][0]) / 2 / math.sqrt(va + vb)
    assert found["difference"] == pytest.approx(statistics.mean(b) - statistics.mean(a))
    assert T975[math.ceil(df)] * 0.999 <= half <= T975[math.floor(df)] * 1.001


# Synthetic runs, whose truth is known


def rows_of(generator, n, level, rho=0.0, noise=0.1):
    """Requests whose latencies depend on those of their neighbours."""
    shocks = generator.normal(0, noise * math.sqrt(1 - rho * rho), n)
    drift = numpy.empty(n)
    drift[0] = generator.normal(0, noise)
    for i in range(1, n):
        drift[i] = rho * drift[i - 1] + shocks[i]
    values = level * numpy.exp(drift)
    return [{"index": i, "outcome": "success", "cold": 0, "intended_ns": i * 10**7, "lateness_ns": 0, "ttft_ns": int(v * 1e6),
             "e2e_ns": int(v * 1e6)} for i, v in enumerate(values)]


def run_of(n, rows, **more):
    metrics = {}
    for metric, member in (("ttft_ms", "ttft_ns"), ("e2e_ms", "e2e_ns")):
        values = numpy.array([row[member] for row in rows]) / 1e6
        metrics[metric] = {"mean": values.mean(), "max": values.max(), "count": len(values),
                           **{f"p{p}": numpy.percentile(values, p) for p in (50, 90, 95, 99)}}
    return {"run": {"run": n, "state": "complete", "workload": {"isl": 8}, "labels": {}, "metrics": metrics,
                    "requests": {"success": len(rows), "incomplete": 0, "error": 0}, **more}, "requests": rows}


@pytest.mark.parametrize("rho", [0, 0.9])
def test_neighbours_that_are_alike_are_not_evidence(serve, rho):
    generator = numpy.random.default_rng(7)
    runs = {n: run_of(n, rows_of(generator, 200, 100, rho)) for n in range(1, 81)}
    fake = serve(runs)
    called = sum(compared(fake, f"r{n}", f"r{n + 1}")["e2e_ms"]["result"] in ("slower", "faster") for n in range(1, 81, 2))
    assert called <= 4  # of 40: 5 %, and what chance adds to it in one of twenty such tests


def test_runs_that_differ_by_themselves(serve):
    """Runs have a level of their own: 3 % from run to run. Four against four cover the truth, and find 10 %."""
    generator = numpy.random.default_rng(11)
    groups, covered, found, false = 60, 0, 0, 0
    runs = {}
    for n in range(1, 8 * groups + 1):
        truth = 110 if (n - 1) // 4 % 2 and (n - 1) // 8 % 2 else 100
        runs[n] = run_of(n, rows_of(generator, 40, truth * math.exp(generator.normal(0, 0.03)), noise=0.02))
    fake = serve(runs)
    for group in range(groups):
        first = 8 * group + 1
        one = compared(fake, refs(*range(first, first + 4)), refs(*range(first + 4, first + 8)))["e2e_ms"]
        truth = 10 if group % 2 else 0
        low, high = figure(one, "mean")["ci95"]
        covered += low <= truth <= high
        found += group % 2 and one["result"] == "slower"
        false += not group % 2 and one["result"] in ("slower", "faster")
    assert covered >= 0.9 * groups  # 95 % is 57 of 60, less three standard deviations of that
    assert false <= 4 and found >= 24  # of 30 each


def test_the_number_of_runs_that_would_tell(serve):
    """What is advised has, as it claims, a power of 80 %: computed here by simulation."""
    generator = numpy.random.default_rng(5)
    runs = {n: run_of(n, rows_of(generator, 400, 100 if n == 1 else 104)) for n in (1, 2)}
    one = figure(compared(serve(runs), "r1", "r2")["e2e_ms"], "mean")
    spreads = [jackknife(runs[n]["requests"], "e2e_ns")[1](numpy.mean) for n in (1, 2)]
    n, sd = one["runs_needed"], math.sqrt(sum(s * s for s in spreads) / 2)
    assert one["result"] == "not distinguishable" and 3 <= n <= 100

    def power(n):
        a, b = (generator.normal(at, sd, (4000, n)) for at in (0, one["difference"]))
        error = numpy.sqrt((a.var(axis=1, ddof=1) + b.var(axis=1, ddof=1)) / n)
        quantile = numpy.percentile(numpy.abs(generator.standard_t(2 * n - 2, 400000)), 95)
        return (numpy.abs(b.mean(axis=1) - a.mean(axis=1)) > quantile * error).mean()

    assert power(n) >= 0.75 and power(max(n - 2, 2)) < 0.85


# What is said, and the exit status


def test_too_few_to_tell(serve):
    """Three against three requests whose ranges do not overlap: the effect and its interval, and no claim."""
    generator = numpy.random.default_rng(3)
    fake = serve({n: run_of(n, rows_of(generator, 3, level, noise=0.01)) for n, level in ((1, 100), (2, 200))})
    one = compared(fake, "r1", "r2")["e2e_ms"]
    assert one["result"] == "too few samples" and figure(one, "mean")["ci95"][0] > 0 and 90 < figure(one, "mean")["percent"] < 110
    assert {f["figure"] for f in one["figures"]} == {"mean", "p50", "max"}
    text = compare(fake, "r1", "r2").stdout
    assert re.search(r"^e2e.mean ms +[\d.]+ +[\d.]+ +\+\d+.\d % .* too few samples", text, re.M), text
    assert "Too few requests: 3 against 3; each run needs at least 20" in text and "p99" not in text
    r = compare(fake, "r1", "r2", "--fail-if", "e2e.mean > +5%", status=6)
    assert "undecided: e2e.mean > +5%" in r.stderr and "3 against 3 requests" in r.stderr
    compare(fake, "r1", "r2", "--fail-if", "e2e.mean > +5%", "--fail-if-estimate", status=5)
    # A percentile that so few requests do not have is not a name that does not exist.
    for percentile, needed in (("p99", 100), ("p90", 10)):
        r = compare(fake, "r1", "r2", "--fail-if", f"e2e.{percentile} > +5%", status=6)
        assert f"undecided: e2e.{percentile} > +5%: the runs have too few requests for {percentile}" in r.stderr
        assert f"at least {needed}: profctl bench --requests" in r.stderr
    compare(fake, "r1", "r2", "--fail-if", "e2e.p99x > +5%", status=4)
    compare(fake, "r1", "r2", "--fail-if", "nonsense.p99 > +5%", status=4)


@pytest.mark.parametrize("condition, status", [
    ("e2e.mean > +5%", 5), ("e2e.mean > +20%", 0), ("e2e.mean < -5%", 0), ("e2e.mean > +10%", 6), ("e2e.mean > 850ms", 5),
    ("e2e.mean > 950ms", 0), ("e2e.mean > 888ms", 6), ("e2e.mean > +30ms", 5), ("success < -1%", 0), ("output_tokens_per_s < -1%", 5),
])
def test_conditions_are_met_by_the_interval(serve, recorded, condition, status):
    r = compare(serve(recorded), "r1,r2,r3", "r11,r12,r13", "--fail-if", condition, status=status)
    if status == 5:
        assert f"failed: {condition}: " in r.stderr and "95 % interval" in r.stderr
    if status == 6:
        assert f"undecided: {condition}: " in r.stderr and re.search(r"about \d+ runs of each side would decide|more than 1000", r.stderr)


def test_single_runs_and_conditions(serve, recorded):
    fake = serve(recorded)
    assert compare(fake, "r2", "r12", "--fail-if", "e2e.mean > +5%", status=5).stderr.startswith("failed: e2e.mean > +5%: +")
    assert "would decide" in compare(fake, "r2", "r10", "--fail-if", "ttft.mean > +10%", status=6).stderr
    compare(fake, "r2", "r10", "--fail-if", "ttft.mean > +10%", "--fail-if-estimate", status=5)
    compare(fake, "r2", "r10", "--fail-if", "ttft.mean > +10%", "--fail-if", "e2e.mean > -50%", status=5)
    compare(fake, "r2", "r12", "--fail-if", "e2e.p99 > +1%", status=6 if len(recorded[2]["requests"]) < 100 else 5)
    # The load of one run shows how its throughput varies; its peak is one value.
    compare(fake, "r2", "r12", "--fail-if", "output_tokens_per_s < -1%", status=5)
    compare(fake, "r2", "r12", "--fail-if", "peak_concurrency > +0%", status=6)


def test_groups(serve, recorded):
    fake = serve(recorded)
    by_label = json.loads(compare(fake, "build=old", "build=new,concurrency=8", "--json").stdout)
    assert by_label["a"] == list(range(1, 11)) and by_label["b"] == list(range(11, 21))
    text = compare(fake, "r1,r2,3", "build=new").stdout
    assert "Before: r1, r2, r3\n" in text and "After:  r11, r12, " in text
    # Next to several runs, a single one is taken to vary as they do.
    one = figure(compared(fake, refs(*range(1, 10)), "r12")["e2e_ms"], "mean")
    means = [recorded[n]["run"]["metrics"]["e2e_ms"]["mean"] for n in range(1, 10)]
    assert one["ci95"][1] - one["difference"] == pytest.approx(T975[8] * statistics.stdev(means) * math.sqrt(1 + 1 / 9), rel=1e-3)
    assert "no run with figures has build=none" in compare(fake, "build=none", "r1", status=4).stderr
    assert "r1 is listed twice" in compare(fake, "r1,1", "r2", status=2).stderr
    recorded[5]["run"]["workload"] |= {"concurrency": 16}
    try:
        r = compare(serve(recorded), "build=old", "build=new", status=1)
        assert "different workloads: concurrency of r1 and r5" in r.stderr and "job=nightly,concurrency=8" in r.stderr
    finally:
        recorded[5]["run"]["workload"] |= {"concurrency": 8}


def test_what_would_tell_is_printed(serve, recorded):
    text = compare(serve(recorded), "r2", "r10").stdout
    assert re.search(r"^ttft.mean ms .* not distinguishable", text, re.M) and re.search(r"change of this size: TTFT \d+", text), text
    assert "profctl bench --repeat-runs" in text
