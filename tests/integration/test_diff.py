# SPDX-License-Identifier: Apache-2.0
"""`profctl diff`: two composed traces whose differences are known, its exit status, and a trace beside itself."""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TRACES = SOURCE / "../shared/traces"
PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"
US = 1000
STEPS = 12

real = pytest.mark.skipif(not TRACES.is_dir(), reason="no real traces at ../shared/traces")


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
    """Steps of 1000 us; in each the kernels, one after the other."""

    def write(name, kernels):
        events = []
        for i in range(STEPS):
            begin = at = 1000 * i
            # A few nanoseconds of noise, the same in every trace.
            events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1, "tid": 1, "ts": begin,
                           "dur": 999 + i / 1000, "args": {"External id": i}})
            for k, (kernel, dur) in enumerate(kernels):
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
    assert (gemm["verdict"], gemm["before_name"], gemm["change_ns"]) == ("slower", "gemm<float, 64>(float*)", 30 * US)
    assert gemm["p"] < 0.001 and (gemm["before_count"], gemm["after_count"]) == (1, 1)
    assert (found["norm_kernel"]["verdict"], found["norm_kernel"]["change_ns"]) == ("same", 0)
    assert found["copy_kernel"]["verdict"] == "more" and found["copy_kernel"]["after_count"] == 2
    assert found["tail"]["verdict"] == "gone"
    # It runs where another ran, and as often.
    assert (found["fused_kernel"]["verdict"], found["fused_kernel"]["before_name"]) == ("replaced", "add_kernel")
    # The largest change first.
    changes = [abs(row["change_ns"]) for row in rows(diff(before, after, "--json"), "kernels")]
    assert changes == sorted(changes, reverse=True)


def test_conditions_decide_the_exit_status(diff, steps):
    before = steps("before.json", [("gemm", 100)])
    after = steps("after.json", [("gemm", 130)])
    assert "failed: gpu.busy > +5%" in diff(before, after, "--fail-if", "gpu.busy > +5%", status=5).stderr
    diff(before, after, "--fail-if", "gpu.busy > +50%")
    diff(before, after, "--fail-if", "gpu.busy > +1ms", "--fail-if", "gpu.busy>25us", status=5)
    diff(after, before, "--fail-if", "gpu.busy < -10%", status=5)
    assert "is no condition" in diff(before, after, "--fail-if", "gpu.busy is bad", status=2).stderr
    # What both lack is no success, and is told before anything is shown.
    failed = diff(before, after, "--fail-if", "comm.exposed > 1ms", status=4)
    assert "both have no comm.exposed" in failed.stderr and failed.stdout == ""


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
    assert "there is no measure gpu.bussy" in failed.stderr and "Is it gpu.busy?" in failed.stderr
    assert "step.p50, step.mean" in diff("before.json", "after.json", "--fail-if", "everything > 1ms", status=2).stderr


def test_a_sample_proves_it_or_not(diff, steps):
    before = steps("before.json", [("gemm", 100)])
    measures = {row["measure"]: row for row in rows(diff(before, steps("after.json", [("gemm", 200)]), "--json"), "measures")}
    assert measures["step.p50"]["change_ns"] == pytest.approx(100 * US, abs=2 * US) and measures["step.p50"]["p"] < 0.001
    measures = {row["measure"]: row for row in rows(diff(before, steps("same.json", [("gemm", 100)]), "--json"), "measures")}
    assert measures["step.p50"]["p"] == 1


@real
@pytest.mark.parametrize("name", ["sglang_decode_8rank", "hta/trace_diff_test.json.gz"])
def test_nothing_differs_from_itself(diff, name):
    done = diff(TRACES / name, TRACES / name, "--json")
    for row in rows(done, "measures"):
        assert row["change_ns"] == 0
    for table in ("kernels", "ops"):
        assert {row["verdict"] for row in rows(done, table)} == {"same"}


@real
def test_sums_agree_with_the_traces(diff):
    """Counts of kernels by name, of both sides, are those of the traces themselves."""
    pair = [TRACES / f"hta/trace_diff_{side}.json.gz" for side in ("control", "test")]
    found = rows(diff(*pair, "--json"), "kernels")
    for side, path in zip(("before", "after"), pair):
        asked = subprocess.run([PROFCTL, "query", "--json", path, "select count(*) as n, sum(dur) as ns from kernel"], capture_output=True)
        kernels = json.loads(asked.stdout)[0]
        copies = json.loads(subprocess.run([PROFCTL, "query", "--json", path, "select count(*) as n from slice where category in "
                                            "('gpu_memcpy', 'gpu_memset', 'Memcpy', 'Memset')"], capture_output=True).stdout)[0]
        steps = 6
        assert sum(row[f"{side}_count"] for row in found) * steps == pytest.approx(kernels["n"] + copies["n"])
