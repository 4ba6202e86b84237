# SPDX-License-Identifier: Apache-2.0
"""`profctl diff`: two composed traces whose differences are known, its exit status, and a trace beside itself."""
import contextlib
import fcntl
import gzip
import json
import math
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios

import numpy
import pytest

from real_traces import TRACES

PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"
US = 1000
STEPS = 12


@pytest.fixture
def diff(tmp_path):
    def run(*words, status=0):
        r = subprocess.run([PROFCTL, "diff", *words], capture_output=True, timeout=120, text=True, cwd=tmp_path,
                           env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "LC_ALL": "C.UTF-8"})
        assert r.returncode == status, r.stderr
        return r

    return run


@pytest.fixture
def steps(tmp_path):
    """Steps of 1000 us; in each the kernels, one after the other. more: kernels of single steps, after these."""

    def write(name, kernels, more={}):
        events = []
        for i in range(STEPS):
            begin = at = 1000 * i
            # A few nanoseconds of noise, the same in every trace.
            events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1, "tid": 1, "ts": begin,
                           "dur": 999 + i / 1000, "args": {"External id": i}})
            for k, (kernel, dur) in enumerate(kernels + more.get(i, [])):
                correlation = 100 * i + k + 1
                events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 0.5, "dur": 0.4,
                               "args": {"correlation": correlation}})
                events.append({"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": at + 1, "dur": dur + i / 1000,
                               "args": {"stream": 7, "device": 0, "correlation": correlation}})
                at += dur + 2
        path = tmp_path / name
        path.write_text(json.dumps({"traceEvents": events}))
        return path

    return write


def rows(done, table):
    return json.loads(done.stdout)[table]["rows"]


def test_what_changed(diff, steps):
    before = steps("before.json", [("gemm<float, 64>(float*)", 100), ("norm_kernel", 50), ("add_kernel", 10), ("copy_kernel", 10), ("tail", 5)])
    after = steps("after.json", [("gemm<float, 128>(float*)", 130), ("norm_kernel", 50), ("fused_kernel", 10), ("copy_kernel", 10), ("copy_kernel", 10)])
    found = {row["name"]: row for row in rows(diff(before, after, "--json"), "kernels")}
    gemm = found["gemm<float, 128>(float*)"]
    assert (gemm["result"], gemm["before_name"], gemm["change_ns"]) == ("slower", "gemm<float, 64>(float*)", 30 * US)
    assert 29 * US < gemm["low_mean_ns"] <= gemm["high_mean_ns"] < 31 * US and (gemm["before_count"], gemm["after_count"]) == (1, 1)
    assert (found["norm_kernel"]["result"], found["norm_kernel"]["change_ns"]) == ("same", 0)
    assert found["copy_kernel"]["result"] == "more" and found["copy_kernel"]["after_count"] == 2
    assert found["tail"]["result"] == "gone"
    # It runs where another ran, and as often.
    assert (found["fused_kernel"]["result"], found["fused_kernel"]["before_name"]) == ("replaced", "add_kernel")
    # The largest change first.
    changes = [abs(row["change_ns"]) for row in rows(diff(before, after, "--json"), "kernels")]
    assert changes == sorted(changes, reverse=True)


def test_changes_of_outlier_steps_are_marked(diff, steps):
    """A first step that compiles is in all figures; what of a change is its own has a column, and a line names how many there are."""
    usual = [("gemm", 100), ("norm", 50)]
    before = steps("before.json", usual, {0: [("compile", 500), ("gemm", 100)]})
    after = steps("after.json", [("gemm", 120), ("norm", 50)])
    found = {row["name"]: row for row in rows(diff(before, after, "--json"), "kernels")}
    assert found["compile"]["result"] == "gone" and found["compile"]["outliers_ns"] == found["compile"]["change_ns"] < -500 * US / STEPS + 10
    assert found["gemm"]["change_ns"] == pytest.approx((20 - 100 / STEPS) * US, abs=50)
    assert found["gemm"]["outliers_ns"] == pytest.approx(-100 * US / STEPS, abs=50)
    assert abs(found["norm"]["outliers_ns"]) < 10
    measures = {row["measure"]: row for row in rows(diff(before, after, "--json"), "measures")}
    assert measures["step.p50"]["outliers_ns"] is None
    assert measures["gpu.busy"]["outliers_ns"] == pytest.approx(-600 * US / STEPS, abs=50)
    assert "Outlier steps are included: 1 of 12 before, 0 of 12 after" in diff(before, after).stdout


def test_steps_that_are_alike_have_no_outliers(diff, steps):
    """Nor has a recording in which every second step is of another kind of step, or one that is longer by half."""
    one = steps("one.json", [("gemm", 100)], {step: [("other", 300)] for step in range(0, STEPS, 2)})
    two = steps("two.json", [("gemm", 100)], {3: [("gemm", 50)]})
    for before, after in ((one, two), (two, one)):
        for table in ("measures", "kernels", "ops"):
            assert all(row["outliers_ns"] is None for row in rows(diff(before, after, "--json"), table))
        assert "Outlier" not in diff(before, after).stdout


def test_conditions_decide_the_exit_status(diff, steps):
    before = steps("before.json", [("gemm", 100)])
    after = steps("after.json", [("gemm", 130)])
    assert "failed: gpu.busy > +5%" in diff(before, after, "--fail-if", "gpu.busy > +5%", status=5).stderr
    diff(before, after, "--fail-if", "gpu.busy > +50%")
    diff(before, after, "--fail-if", "gpu.busy > +1ms", "--fail-if", "gpu.busy>25us", status=5)
    diff(after, before, "--fail-if", "gpu.busy < -10%", status=5)
    assert "is not a condition" in diff(before, after, "--fail-if", "gpu.busy is bad", status=2).stderr
    # What both lack is no success, and is told before anything is shown.
    failed = diff(before, after, "--fail-if", "comm.exposed > 1ms", status=4)
    assert "comm.exposed is not measured on both sides" in failed.stderr and failed.stdout == ""


def at_width(columns, *words, **environment):
    """What a terminal of so many columns shows."""
    pid, fd = pty.fork()
    if pid == 0:
        # Nothing is shown before the terminal is as wide as it is to be.
        os.read(0, 1)
        os.execve(PROFCTL, [str(PROFCTL), *map(str, words)], {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment})
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.write(fd, b"\n")
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while piece := os.read(fd, 65536):
            shown += piece
    os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()


def test_what_gives_way_on_a_narrow_terminal(steps, tmp_path):
    """What is asked for first stays: the share of a kernel, the times of both."""
    long = "a_kernel_with_a_long_name_" * 3
    before, after = steps("before.json", [(long, 100), ("norm", 50)]), steps("after.json", [(long, 200), ("norm", 50)])
    kernels = at_width(80, "analyze", before, "--report", "kernels", XDG_CACHE_HOME=str(tmp_path / "cache"))
    changes = at_width(80, "diff", before, after, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert all(len(line) <= 80 for line in kernels + changes)
    assert any(line.split()[:2] == ["NAME", "CATEGORY"] and line.split()[-1] == "SHARE" for line in kernels)
    heading = next(line for line in changes if line.startswith("NAME"))
    assert "CHANGE" in heading and "BEFORE MEAN" in heading and "AFTER MEAN" in heading


def test_both_sides_have_one_unit(diff, steps):
    """A mean that grew from microseconds to milliseconds is read across the line."""
    before, after = steps("before.json", [("slow_kernel", 5), ("norm", 5)]), steps("after.json", [("slow_kernel", 700), ("norm", 5)])
    [heading] = [line for line in diff(before, after).stdout.splitlines() if line.startswith("NAME")]
    units = re.findall(r"(BEFORE|AFTER) MEAN (\w+)", heading)
    assert [side for side, _ in units] == ["BEFORE", "AFTER"] and len({unit for _, unit in units}) == 1


def test_a_measure_that_is_misspelt(diff):
    """Before anything is read: the traces are not even there."""
    failed = diff("before.json", "after.json", "--fail-if", "gpu.bussy > 1ms", status=2)
    assert "unknown measure 'gpu.bussy'" in failed.stderr and "Did you mean gpu.busy?" in failed.stderr
    assert "step.p50, step.mean" in diff("before.json", "after.json", "--fail-if", "everything > 1ms", status=2).stderr


def test_a_sample_proves_it_or_not(diff, steps):
    before = steps("before.json", [("gemm", 100)])
    measures = {row["measure"]: row for row in rows(diff(before, steps("after.json", [("gemm", 200)]), "--json"), "measures")}
    assert measures["step.p50"]["change_ns"] == pytest.approx(100 * US, abs=2 * US) and measures["step.p50"]["result"] == "slower"
    measures = {row["measure"]: row for row in rows(diff(before, steps("same.json", [("gemm", 100)]), "--json"), "measures")}
    assert measures["step.p50"]["result"] == "unclear" and measures["step.p50"]["low_share"] < 0 < measures["step.p50"]["high_share"]


def test_nothing_is_measured_of_a_gpu_that_did_nothing(diff, steps):
    """Steps of traces without GPU activity: no span, no idle time of a GPU."""
    host = steps("host.json", [])
    assert {row["measure"] for row in rows(diff(host, host, "--json"), "measures")} == {"step.p50", "step.mean"}
    assert "gpu." not in diff(host, host).stdout


@pytest.mark.parametrize("name", ["sglang_decode_8rank", "hta/trace_diff_test.json.gz"])
def test_nothing_differs_from_itself(diff, name):
    done = diff(TRACES / name, TRACES / name, "--json")
    for row in rows(done, "measures"):
        assert row["change_ns"] == 0
    for table in ("kernels", "ops"):
        assert {row["result"] for row in rows(done, table)} == {"same"}


def launched_in_steps(path):
    """Kernels and copies of a trace whose launch lies within a step of torch's profiler: by the raw file."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    steps = [e for e in events if e.get("name", "").startswith("ProfilerStep#") and e["ph"] == "X" and e["cat"] != "gpu_user_annotation"]
    launches = {e["args"]["correlation"]: e["ts"] for e in events if "correlation" in e.get("args", {}) and "cuda_runtime" in e["cat"].lower()
                or e.get("cat") == "Runtime" and "correlation" in e.get("args", {})}
    work = [e for e in events if e.get("cat", "").lower() in ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset") and e["ph"] == "X"]
    within = [e for e in work if any(s["ts"] <= launches.get(e["args"]["correlation"], -1) < s["ts"] + s["dur"] for s in steps)]
    return len(steps), len(within), len(work)


def test_sums_agree_with_the_traces(diff):
    """Calls by name, of both sides, are those that the traces' steps launched; the others are told apart."""
    pair = [TRACES / f"hta/trace_diff_{side}.json.gz" for side in ("control", "test")]
    found = rows(diff(*pair, "--json"), "kernels")
    for side, path in zip(("before", "after"), pair):
        steps, within, everything = launched_in_steps(path)
        assert steps == 6 and 0.9 * everything < within
        assert sum(row[f"{side}_count"] for row in found) * steps == pytest.approx(within)
    assert "Not compared: GPU work that belongs to no step" in diff(*pair).stdout


# Samples


def write_ranks(directory, durations, n_ranks=1, kernels=None):
    """Steps of so many microseconds, run by all ranks together. kernels(i): names and durations within step i."""
    directory.mkdir()
    for rank in range(n_ranks):
        events, at, correlation = [], 0, 0
        for i, duration in enumerate(durations):
            events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1, "tid": 1, "ts": at, "dur": duration - 0.5})
            begin = at + 1
            for name, dur in kernels(i) if kernels else [("gemm", duration - 3)]:
                correlation += 1
                events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 0.1 + correlation % 50 / 200,
                               "dur": 0.001, "args": {"correlation": correlation}})
                events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": begin, "dur": dur,
                               "args": {"stream": 7, "device": 0, "correlation": correlation}})
                begin += dur + 0.1
            at += duration
        (directory / f"rank{rank}.json").write_text(json.dumps({
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": n_ranks, "pg_count": 1}, "traceEvents": events}))
    return directory


def measure(done, name):
    return next(row for row in rows(done, "measures") if row["measure"] == name)


def test_ranks_of_one_step_are_one_sample(diff, tmp_path):
    """Eight ranks in lock-step know no more of how steps vary than one."""
    generator = numpy.random.default_rng(1)
    before, after = (1000 + generator.normal(0, 60, 30) for _ in range(2))
    found = {}
    for n in (1, 8):
        pair = [write_ranks(tmp_path / f"{name}{n}", durations, n) for name, durations in (("before", before), ("after", after))]
        found[n] = measure(diff(*pair, "--json"), "step.mean")
        assert "30 against 30 steps" in diff(*pair).stdout
    for name in ("change_share", "low_share", "high_share"):
        assert found[8][name] == pytest.approx(found[1][name], abs=1e-4)
    # What numpy makes of blocks of six neighbours, five on each side.
    means = [side.reshape(5, 6).mean(axis=1) for side in (before, after)]
    error = math.sqrt(sum(m.var(ddof=1) / 5 for m in means))
    half = (found[1]["high_share"] - found[1]["low_share"]) / 2 * before.mean()
    assert 2.306 * error * 0.99 <= half <= 2.776 * error * 1.01  # Student's t of 8 to 4 degrees of freedom


def test_one_step_decides_nothing(diff, tmp_path):
    pair = [write_ranks(tmp_path / name, durations, 8) for name, durations in (("before", [1000]), ("after", [1500]))]
    done = diff(*pair, "--json")
    assert {row["result"] for row in rows(done, "measures")} == {"too few samples"}
    assert {row["result"] for row in rows(done, "kernels")} == {"too few samples"}
    r = diff(*pair, "--fail-if", "step.mean > +5%", status=6)
    assert "undecided: step.mean > +5%: +50." in r.stderr and "about 5 steps of each side would decide" in r.stderr
    diff(*pair, "--fail-if", "step.mean > +5%", "--fail-if-estimate", status=5)
    for estimate in ([], ["--fail-if-estimate"]):
        r = diff(*pair, "--fail-if", "step.p50 > +5%", *estimate, status=6)
        assert "undecided: step.p50 > +5%: step.p50 needs 2 steps on each side; there are 1 and 1\n  Record more" in r.stderr


def autocorrelated(generator, n, level, rho=0.8, noise=0.05):
    values = [generator.normal(0, noise)]
    for _ in range(n - 1):
        values.append(rho * values[-1] + generator.normal(0, noise * math.sqrt(1 - rho * rho)))
    return level * numpy.exp(values)


def test_steps_that_follow_each_other_are_alike(diff, tmp_path):
    """Recordings of one engine differ in few of twenty comparisons, and a change of 10 % is found in most."""
    generator = numpy.random.default_rng(2)
    called = {1000: 0, 1100: 0}
    for level in called:
        for i in range(20):
            pair = [write_ranks(tmp_path / f"{level}-{i}-{side}", autocorrelated(generator, 200, at)) for side, at in enumerate((1000, level))]
            called[level] += measure(diff(*pair, "--json"), "step.mean")["result"] in ("slower", "faster")
    assert called[1000] <= 3 and called[1100] >= 16, called


def test_conditions_that_steps_cannot_decide(diff, tmp_path):
    generator = numpy.random.default_rng(3)
    pair = [write_ranks(tmp_path / f"{side}", generator.normal(at, 100, 20)) for side, at in enumerate((1000, 1060))]
    r = diff(*pair, "--fail-if", "step.mean > +5%", status=6)
    assert re.search(r"undecided: step.mean > \+5%: \+\d.\d %, 95 % interval -?\+?\d+.\d % to \+\d+.\d %\n  (about \d+ steps|more than 1000)", r.stderr), r.stderr
    diff(*pair, "--fail-if", "step.mean > +50%")
    diff(*pair, "--fail-if", "step.mean > +50%", "--fail-if", "step.mean > 500us", status=5)
    for condition in ("step.p99 > +5%", "step.p99 > 1ms", "step.p99 < 1ms"):
        for estimate in ([], ["--fail-if-estimate"]):
            r = diff(*pair, "--fail-if", condition, *estimate, status=6)
            assert f"undecided: {condition}: step.p99 needs 100 steps on each side; there are 20 and 20\n  Record" in r.stderr


@pytest.mark.parametrize("after, result", [
    (lambda i: 4.9, "slower"), (lambda i: 0.4, "faster"), (lambda i: 1.0, "unclear")])
def test_time_per_call_decides_between_slower_and_more(diff, tmp_path, after, result):
    """Five calls become 5.17, as two of twelve steps have one more."""
    generator = numpy.random.default_rng(4)

    def calls(n, mean):
        return [("AllReduce", mean * generator.uniform(0.95, 1.05) * 100) for _ in range(n)] + [("gemm", 200)]

    pair = [write_ranks(tmp_path / "before", [3000] * 12, kernels=lambda i: calls(5, 1.0)),
            write_ranks(tmp_path / "after", [3000] * 12, kernels=lambda i: calls(6 if i in (3, 8) else 5, after(i)))]
    row = next(row for row in rows(diff(*pair, "--json"), "kernels") if row["name"] == "AllReduce")
    heading = next(line for line in diff(*pair).stdout.splitlines() if line.startswith("NAME"))
    [(_, low), (_, high)] = re.findall(r"(LOW|HIGH) MEAN (\w+)", heading)
    assert low == high
    assert (row["result"], row["before_count"]) == (result, 5) and row["after_count"] == pytest.approx(5 + 2 / 12)


def test_more_calls_of_the_same_time(diff, tmp_path):
    pair = [write_ranks(tmp_path / str(n), [3000] * 12, kernels=lambda i, n=n: [("AllReduce", 100 + i % 3)] * n) for n in (5, 6)]
    row = next(row for row in rows(diff(*pair, "--json"), "kernels") if row["name"] == "AllReduce")
    assert row["result"] == "more"
