# SPDX-License-Identifier: Apache-2.0
"""`profctl analyze` of real traces: steps and layers, and what else is said of a trace as a whole."""
import gzip
import json
import os
import pathlib
import re
import subprocess

import pytest

from real_traces import TRACES

PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")

    def run(*words, status=0):
        r = subprocess.run([PROFCTL, *words], capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
                           env={**os.environ, "XDG_CACHE_HOME": str(cache)})
        assert r.returncode == status, r.stderr.decode()
        return r

    return run


@pytest.fixture
def report(run):
    def report(name, *words):
        answer = json.loads(run("analyze", *words, "--report", name, "--json").stdout)
        assert answer["report"] == name
        return answer["rows"]

    return report


def ns(microseconds):
    whole, _, part = str(microseconds).partition(".")
    return int(whole) * 1000 + int(part.ljust(3, "0")[:3])


def gpu_work_by_step(path, is_step):
    """Of each annotation, by an independent walk: how much was launched in it, and from when to when that ran."""
    with gzip.open(path) as f:
        events = json.load(f, parse_float=str)["traceEvents"]
    first = min(ns(e["ts"]) for e in events if e.get("ph") == "X")
    launches = {}
    for e in events:
        if e.get("cat") in ("cuda_runtime", "cuda_driver", "Runtime"):
            launches.setdefault(e["args"].get("correlation", e["args"].get("Correlation")), ns(e["ts"]))
    work = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")]
    steps = []
    for e in sorted((e for e in events if e.get("ph") == "X" and e.get("cat") in ("user_annotation", "Operator")
                     and is_step(e["name"])), key=lambda e: ns(e["ts"])):
        begin, end = ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])
        own = [w for w in work if begin <= launches.get(w["args"]["correlation"], -1) < end]
        steps.append({"name": e["name"], "host_start_ns": begin - first, "host_dur_ns": end - begin, "kernels": len(own),
                      "from": min(ns(w["ts"]) for w in own) - first, "to": max(ns(w["ts"]) + ns(w["dur"]) for w in own) - first})
    return steps


@pytest.mark.parametrize("path, pattern", [
    ("hta/nccl_data_rank0.json.gz", r"ProfilerStep#\d+$"),
    ("hta/ns_resolution_rank0.json.gz", r"ProfilerStep#\d+$"),
    ("tracelens/b200_eager_rank0.json.gz", "execute_context_"),
    ("tracelens/vllm_decode_full_graph.json.gz", "execute_32_context_"),
    ("tracelens/vllm_piecewise_graph.json.gz", "execute_8192_context_"),
    ("tracelens/sglang_qwen3_8b_decode.json.gz", r"step\["),
])
def test_steps_have_the_work_that_they_launched(report, path, pattern):
    found = report("steps", TRACES / path)
    expected = gpu_work_by_step(TRACES / path, lambda name: re.match(pattern, name))
    assert [{k: row[k] for k in ("name", "host_start_ns", "host_dur_ns", "kernels")} for row in found] == \
        [{k: step[k] for k in ("name", "host_start_ns", "host_dur_ns", "kernels")} for step in expected]
    for row, step in zip(found, expected):
        assert step["from"] <= row["start_ns"] and row["start_ns"] + row["dur_ns"] <= step["to"]
        assert row["busy_ns"] + row["idle_ns"] == row["dur_ns"]
    for row, after in zip(found, found[1:]):
        assert row["start_ns"] + row["dur_ns"] <= after["start_ns"]


@pytest.mark.parametrize("path, phase, tokens, requests, found_by", [
    ("tracelens/b200_eager_rank0.json.gz", "prefill", 888, 1, "vllm"),
    ("tracelens/vllm_decode_full_graph.json.gz", "decode", 32, 32, "vllm"),
    ("tracelens/vllm_piecewise_graph.json.gz", "mixed", 8192, 46, "vllm"),
    ("tracelens/sglang_qwen3_8b_decode.json.gz", "decode", 32, 32, "sglang"),
    ("tracelens/xdit_flux_aiter_sage_rank0.json.gz", "", None, 1, "xdit"),
])
def test_names_tell_phase_and_tokens(report, path, phase, tokens, requests, found_by):
    row, = report("steps", TRACES / path)
    assert (row["phase"], row["tokens"], row["requests"], row["found_by"]) == (phase, tokens, requests, found_by)


def test_training_steps_keep_their_numbers(report):
    rows = report("steps", TRACES / "hta/trace_diff_control.json.gz")
    assert [row["index"] for row in rows] == [1009, 1010, 1011, 1012, 1013, 1014]
    assert {row["phase"] for row in rows} == {"training"}
    assert {row["kernels"] for row in rows} == {1575}


@pytest.mark.parametrize("path, layers", [
    ("lightllm_decode_8rank", 61),  # DeepSeek-V3
    ("sglang_decode_8rank", 61),
])
def test_one_graph_is_one_step_of_many_layers(report, path, layers):
    steps = report("steps", TRACES / path)
    assert [(row["rank"], row["found_by"]) for row in steps] == [(rank, "graph") for rank in range(8)]
    rows = report("layers", TRACES / path, "--rank", "3")
    assert [row["layer"] for row in rows] == list(range(layers))
    # The first three have no experts.
    assert {row["kernels"] for row in rows[:3]} != {row["kernels"] for row in rows[3:layers - 1]}
    assert len({row["kernels"] for row in rows[3:layers - 1]}) == 1
    step = steps[3]
    assert all(step["start_ns"] <= row["start_ns"] and
               row["start_ns"] + row["dur_ns"] <= step["start_ns"] + step["dur_ns"] for row in rows)


@pytest.mark.parametrize("path, layers", [
    ("tracelens/sglang_qwen3_8b_decode.json.gz", 36),
    ("tracelens/h100_qwen15.json.gz", 24),
    ("tracelens/mi300_qwen15.json.gz", 24),
])
def test_layers_of_known_models(report, path, layers):
    assert len(report("layers", TRACES / path)) == layers


def test_iterations_that_nobody_named(report):
    rows = report("steps", TRACES / "param/linear_kineto.json.gz")
    assert len(rows) == 40  # as many as Optimizer.step#SGD.step
    assert {row["found_by"] for row in rows} == {"period"}
    assert {row["kernels"] for row in rows[1:-1]} == {261}


def test_one_step_is_looked_at_alone(report, run):
    path = TRACES / "hta/nccl_data_rank0.json.gz"
    step = [row for row in report("steps", path) if row["index"] == 5][0]
    assert [row["index"] for row in report("steps", path, "--step", "5")] == [5]
    alone, = report("temporal", path, "--step", "5")
    assert 0 < alone["busy_ns"] <= step["dur_ns"]
    assert sum(row["count"] for row in report("kernels", path, "--step", "5")) == step["kernels"]
    run("analyze", path, "--report", "steps", "--phase", "decode", "--json", status=4)
    assert [row["index"] for row in report("steps", path, "--phase", "training")] == [4, 5, 6]
    begin = f"{step['start_ns']}ns"
    assert [row["index"] for row in report("steps", path, "--from", begin)] == [5, 6]
    assert [row["index"] for row in report("steps", path, "--to", begin)] == [4]


def test_summary_of_the_head(report):
    row, = report("summary", TRACES / "tracelens/b200_eager_rank0.json.gz")
    assert {key: row[key] for key in ("gpu", "gpus", "gpu_memory_bytes", "sm_count", "runtime", "driver", "nccl",
                                      "world_size", "engine", "steps")} == \
        {"gpu": "NVIDIA B200", "gpus": 8, "gpu_memory_bytes": 191503138816, "sm_count": 148, "runtime": "CUDA 12.9",
         "driver": "CUDA 13.0", "nccl": "2.27.5", "world_size": 8, "engine": "vllm", "steps": 1}
    times, = report("temporal", TRACES / "tracelens/b200_eager_rank0.json.gz")
    assert [row[key] for key in ("span_ns", "busy_ns", "idle_ns")] == [times[key] for key in ("span_ns", "busy_ns", "idle_ns")]


@pytest.mark.parametrize("path", ["hta/df_index_resolver.json.gz", "tracelens/h100_qwen15.json.gz",
                                  "tracelens/mi300_qwen15.json.gz"])
def test_memory_adds_up(report, path):
    """The allocator's own totals, the walk through the allocations, and their holders tell the same."""
    with gzip.open(TRACES / path) as f:
        events = [e["args"] for e in json.load(f)["traceEvents"] if e.get("name") == "[memory]"]
    holders = report("memory_holders", TRACES / path)
    rows = report("memory", TRACES / path)
    assert len(rows) == len({(e["Device Type"], e["Device Id"]) for e in events})
    for row in rows:
        own = [e for e in events if (e["Device Type"] == 0) == (row["device"] == "cpu")]
        assert row["peak_bytes"] == max(e["Total Allocated"] for e in own)
        assert row["peak_reserved_bytes"] == max(e["Total Reserved"] for e in own)
        assert (row["allocations"], row["frees"]) == (sum(e["Bytes"] > 0 for e in own), sum(e["Bytes"] < 0 for e in own))
        assert sum(h["peak_bytes"] for h in holders if h["device"] == row["device"]) == row["peak_bytes"]
    assert len(report("memory_timeline", TRACES / path)) == len(events)


def test_roofline_of_matrix_products(report):
    """By an independent walk: the kernels that were launched within each aten::mm of a shape."""
    path = TRACES / "tracelens/h100_qwen15.json.gz"
    with gzip.open(path) as f:
        events = json.load(f, parse_float=str)["traceEvents"]
    calls = [e for e in events if e.get("name") == "aten::mm" and e["cat"] == "cpu_op"]
    launches = {e["args"]["correlation"]: (e["tid"], ns(e["ts"])) for e in events if e.get("cat") == "cuda_runtime"}
    times = {}
    for e in events:
        is_work = e.get("cat") in ("kernel", "gpu_memset", "gpu_memcpy")
        tid, at = launches.get(e["args"]["correlation"], (None, 0)) if is_work else (None, 0)
        for call in calls if tid else ():
            if call["tid"] == tid and ns(call["ts"]) <= at < ns(call["ts"]) + ns(call["dur"]):
                dims = json.dumps(call["args"]["Input Dims"])
                times[dims] = times.get(dims, 0) + ns(e["dur"])
    rows = {row["dims"]: row for row in report("roofline", path) if row["operator"] == "aten::mm"}
    assert {dims: row["device_ns"] for dims, row in rows.items()} == times
    row = rows["[[8944, 1024], [1024, 2816]]"]
    assert (row["calls"], row["precision"], row["flops"]) == (48, "bf16", 2 * 8944 * 1024 * 2816)
    assert row["bytes"] == 2 * (8944 * 1024 + 1024 * 2816 + 8944 * 2816)
    assert row["bound"] == "compute" and 0 < row["roof_share"] < 1
    for row in rows.values():
        assert row["tflops"] == pytest.approx(row["flops"] * row["calls"] / row["device_ns"] / 1000)


def test_nothing_beats_the_roof(report):
    for path in ("b200_eager_rank0", "mi300_qwen15", "xdit_flux_aiter_sage_rank0"):
        shares = [row["roof_share"] for row in report("roofline", TRACES / f"tracelens/{path}.json.gz")]
        assert shares and all(share is None or 0 < share < 1 for share in shares)


ONNX_RUNTIME = """[
{"cat" : "Session","pid" :417,"tid" :417,"dur" :2210,"ts" :1990,"ph" : "X","name" :"session_initialization","args" : {}},
{"cat" : "Node","pid" :417,"tid" :417,"dur" :1,"ts" :5000,"ph" : "X","name" :"conv1_fence_before","args" : {"op_name" : "Conv"}},
{"cat" : "Node","pid" :417,"tid" :417,"dur" :310,"ts" :5003,"ph" : "X","name" :"conv1_kernel_time","args" : {"op_name" : "Conv",\
"output_size" : "3211264","input_type_shape" : [{"float":[1,3,224,224]}],"provider" : "CPUExecutionProvider"}},
{"cat" : "Node","pid" :417,"tid" :417,"dur" :90,"ts" :5403,"ph" : "X","name" :"relu1_kernel_time","args" : {"op_name" : "Relu",\
"provider" : "CPUExecutionProvider"}}
]
"""


def test_nodes_of_onnx_runtime(report, tmp_path):
    path = tmp_path / "onnxruntime_profile.json"
    path.write_text(ONNX_RUNTIME)
    rows = report("ort", path)
    assert [(row["operator"], row["provider"], row["nodes"], row["count"], row["sum_ns"]) for row in rows] == \
        [("Conv", "CPUExecutionProvider", 1, 1, 310000), ("Relu", "CPUExecutionProvider", 1, 1, 90000)]
    assert rows[0]["share"] == pytest.approx(310 / 400)


def nsys_sums(path, statement):
    import sqlite3
    with gzip.open(path) as f, sqlite3.connect(":memory:") as db:
        db.deserialize(f.read())
        return db.execute(statement).fetchall()


def test_nsys_statistics_agree_with_the_database(report):
    """What the statements of `nsys stats` compute: over the durations of each name."""
    path = TRACES / "nsys/h100_2gpu_1s.sqlite.gz"
    sums = nsys_sums(path, """SELECT s.value, count(*), sum(end - start), min(end - start), max(end - start)
        FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName GROUP BY 1""")
    rows = report("cuda_gpu_kern_sum", path)
    assert {(row["name"], row["count"], row["sum_ns"], row["min_ns"], row["max_ns"]) for row in rows} == set(sums)
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    sizes = nsys_sums(path, """SELECT copyKind, count(*), sum(bytes), max(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY 1""")
    names = {1: "[CUDA memcpy Host-to-Device]", 2: "[CUDA memcpy Device-to-Host]", 8: "[CUDA memcpy Device-to-Device]"}
    assert {(row["name"], row["count"], row["sum_bytes"], row["max_bytes"])
            for row in report("cuda_gpu_mem_size_sum", path) if "memcpy" in row["name"]} == \
        {(names[kind], *rest) for kind, *rest in sizes}
    calls = nsys_sums(path, """SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME""")
    rows = report("cuda_api_sum", path)
    assert [(sum(row["count"] for row in rows), sum(row["sum_ns"] for row in rows))] == calls
    assert sum(row["count"] for row in report("nvtx", path)) == sum(row["count"] for row in report("nvtx_sum", path))
