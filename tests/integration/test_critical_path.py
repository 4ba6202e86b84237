# SPDX-License-Identifier: Apache-2.0
"""The critical path: composed traces whose path is known, and Holistic Trace Analysis' own figures."""
import json
import os
import pathlib
import subprocess

import pytest

from real_traces import ORACLE, TRACES

PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"
US = 1000


@pytest.fixture
def profctl(tmp_path):
    def run(*words, status=0):
        r = subprocess.run([PROFCTL, *words], capture_output=True, timeout=120, text=True, cwd=tmp_path,
                           env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
        assert r.returncode == status, r.stderr
        return r

    return run


@pytest.fixture
def path_of(profctl, tmp_path):
    def run(events, *words):
        (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
        rows = json.loads(profctl("analyze", "trace.json", "--report", "critical_path", "--json", *words).stdout)["rows"]
        return {(row["bound"], row["name"]): row["sum_ns"] // US for row in rows}

    return run


def op(name, ts, dur, tid=1):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": {"External id": 1}}


def call(name, ts, dur, correlation, tid=1):
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": {"correlation": correlation}}


def kernel(name, ts, dur, correlation, stream=7):
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur,
            "args": {"stream": stream, "device": 0, "correlation": correlation}}


def sync(name, ts, dur, correlation, stream=7, **args):
    return {"ph": "X", "cat": "cuda_sync", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur,
            "args": {"stream": stream, "device": 0, "correlation": correlation, "cuda_sync_kind": name, **args}}


def test_a_gpu_that_is_waited_for(path_of):
    """10 us of the host, 20 until the kernel begins, 300 of it, and the rest of the operator that waited for it."""
    found = path_of([op("outer", 0, 400), call("cudaLaunchKernel", 10, 5, 1), kernel("gemm", 30, 300, 1),
                     call("cudaDeviceSynchronize", 20, 320, 2), sync("Context Sync", 25, 305, 2, stream=-1)])
    assert found[("gpu_compute_bound", None)] == 300 and found[("gpu_kernel_launch_overhead", None)] == 20
    # What the synchronisation itself took is the kernel's.
    assert found[("cpu_bound", None)] == found[("cpu_bound", "outer")] == 10 + 60


def test_a_host_that_is_too_slow(path_of):
    found = path_of([op("slow", 0, 1000), call("cudaLaunchKernel", 900, 10, 1), kernel("tiny", 915, 5, 1)])
    assert found[("cpu_bound", None)] == 1000 and ("gpu_compute_bound", None) not in found


def test_streams_wait_for_each_other(path_of):
    """Kernel b on stream 8 waits for a on stream 7 by an event, and was launched long before."""
    found = path_of([op("outer", 0, 60),
                     call("cudaLaunchKernel", 5, 5, 1), kernel("a", 20, 500, 1),
                     call("cudaEventRecord", 11, 1, 2),
                     call("cudaStreamWaitEvent", 13, 1, 3), sync("Stream Wait Event", 14, 506, 3, stream=8, wait_on_stream=7,
                                                                  wait_on_cuda_event_record_corr_id=2),
                     call("cudaLaunchKernel", 15, 5, 4), kernel("ncclDevKernel_AllReduce", 522, 300, 4, stream=8)])
    assert found[("gpu_compute_bound", "a")] == 500 and found[("gpu_communication_bound", "ncclDevKernel_AllReduce")] == 300
    assert found[("gpu_kernel_launch_overhead", None)] == 15 and found[("cpu_bound", None)] == 5


def test_one_kernel_after_the_other(path_of):
    found = path_of([op("outer", 0, 30), call("cudaLaunchKernel", 5, 5, 1), call("cudaLaunchKernel", 11, 5, 2),
                     kernel("a", 20, 100, 1), kernel("b", 123, 50, 2)])
    assert found[("gpu_compute_bound", None)] == 150 and found[("gpu_kernel_kernel_overhead", "a")] == 3


def test_its_parts_are_counted_from_the_first_slice(profctl, tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [
        op("outer", 5000, 60), call("cudaLaunchKernel", 5010, 5, 1), kernel("gemm", 5030, 300, 1)]}))
    rows = json.loads(profctl("analyze", "trace.json", "--report", "critical_path_list", "--json").stdout)["rows"]
    assert rows[0]["start_ns"] == 0
    assert [(row["start_ns"], row["dur_ns"]) for row in rows if row["bound"] == "gpu_compute_bound"] == [(30 * US, 300 * US)]


def test_no_path_without_a_host(profctl, tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [kernel("a", 0, 5, 1)]}))
    assert "contains no events for this report" in profctl("analyze", "trace.json", "--report", "critical_path", status=4).stderr
    assert "no critical path" in profctl("export", "trace.json", "--critical-path", "-o", "out.json", status=4).stderr
    assert "Chrome's format alone" in profctl("export", "trace.json", "--critical-path", "--format", "csv", status=2).stderr


def test_it_is_that_of_holistic_trace_analysis(profctl):
    expected = json.loads((ORACLE / "hta/hta_alexnet_cp.default.json").read_text())["critical_path"]["result"]
    path = TRACES / "hta/critical_path_alexnet.json.gz"
    rows = json.loads(profctl("query", path, "--json", "select ts - (select min(ts) from slice) as ts, dur from slice where name = "
                              f"'{expected['annotation']}' order by ts").stdout)
    window = rows[expected["instance"]]
    found = json.loads(profctl("analyze", path, "--report", "critical_path", "--json", "--from", f"{window['ts']}ns",
                               "--to", f"{window['ts'] + window['dur'] + 1}ns").stdout)["rows"]
    shares = {row["bound"]: 100 * row["share"] for row in found if row["name"] is None}
    assert shares == pytest.approx({bound: share for bound, share in expected["summary"].items() if share})


@pytest.mark.parametrize("name", ["hta/trace_diff_test.json.gz", "tracelens/h100_qwen15.json.gz", "hta/event_sync_multi_stream.json.gz"])
def test_the_path_is_marked_and_never_in_two_places(profctl, tmp_path, name):
    profctl("export", TRACES / name, "--critical-path", "-o", "out.json")
    marks = [e for e in json.loads((tmp_path / "out.json").read_text())["traceEvents"] if e.get("cat") == "mark"]
    rows = json.loads(profctl("analyze", TRACES / name, "--report", "critical_path_list", "--json").stdout)["rows"]
    assert [m["name"] for m in marks] == [row["name"] for row in rows]
    # Counted as --from counts, not as the trace's clock does.
    assert 0 <= rows[0]["start_ns"] < 3600 * 10**9
    for before, after in zip(rows, rows[1:]):
        assert before["start_ns"] + before["dur_ns"] <= after["start_ns"]
