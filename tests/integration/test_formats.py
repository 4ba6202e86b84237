# SPDX-License-Identifier: Apache-2.0
"""Traces of every writer, packed in every way, read by `profctl query` and held against what Python's json says."""
import gzip
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from real_traces import TRACES

PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"


ONNX_RUNTIME = """[
{"cat" : "Session","pid" :417,"tid" :417,"dur" :1893,"ts" :5,"ph" : "X","name" :"model_loading_uri","args" : {}},
{"cat" : "Session","pid" :417,"tid" :417,"dur" :2210,"ts" :1990,"ph" : "X","name" :"session_initialization","args" : {}},
{"cat" : "Node","pid" :417,"tid" :417,"dur" :0,"ts" :5000,"ph" : "X","name" :"conv1_fence_before","args" : {"op_name" : "Conv"}},
{"cat" : "Node","pid" :417,"tid" :417,"dur" :310,"ts" :5003,"ph" : "X","name" :"conv1_kernel_time","args" : {"op_name" : "Conv",\
"output_size" : "3211264","input_type_shape" : [{"float":[1,3,224,224]},{"float":[64,3,7,7]}],"provider" : "CPUExecutionProvider"}},
{"cat" : "Session","pid" :417,"tid" :417,"dur" :420,"ts" :4990,"ph" : "X","name" :"model_run","args" : {}}
]
"""


@pytest.fixture
def query(tmp_path):
    def run(path, sql, status=0):
        r = subprocess.run([PROFCTL, "query", path, sql, "--json"], capture_output=True, text=True, timeout=120,
                           stdin=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
        assert r.returncode == 0 if status == 0 else r.returncode != 0, r.stderr
        return json.loads(r.stdout) if status == 0 else r.stderr

    return run


def complete_events(trace):
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    return [e for e in events if e.get("ph") == "X"]


TOTALS = "select count(*) as n, sum(dur) as dur, min(ts) as first from slice"


def totals_of(events):
    return [{"n": len(events), "dur": sum(round(float(e["dur"]) * 1000) for e in events),
             "first": min(round(float(e["ts"]) * 1000) for e in events)}]


def test_onnx_runtime(tmp_path, query):
    path = tmp_path / "onnxruntime_profile__2026.json"
    path.write_text(ONNX_RUNTIME)
    assert query(path, TOTALS) == totals_of(complete_events(json.loads(ONNX_RUNTIME)))
    rows = query(path, "select name, depth, extract_arg(arg_set_id, 'args.provider') as provider from slice"
                       " where category = 'Node' order by ts")
    assert rows == [{"name": "conv1_fence_before", "depth": 1, "provider": None},
                    {"name": "conv1_kernel_time", "depth": 1, "provider": "CPUExecutionProvider"}]


def test_torch_before_kineto(tmp_path, query):
    path = tmp_path / "legacy.json"
    program = ("import sys, torch\n"
               "x = torch.randn(32, 32, requires_grad=True)\n"
               "with torch.autograd.profiler.profile(record_shapes=True) as p:\n"
               "    for _ in range(3): (x @ x).relu().sum().backward()\n"
               "p.export_chrome_trace(sys.argv[1])\n")
    subprocess.run(["/usr/bin/python3", "-c", program, path], check=True, timeout=120, capture_output=True)
    events = complete_events(json.loads(path.read_text()))
    assert len(events) > 20
    assert query(path, TOTALS) == totals_of(events)
    assert query(path, "select distinct p.name from slice join thread_track t on track_id = t.id join thread using (utid)"
                       " join process p using (upid)") == [{"name": "CPU functions"}]


@pytest.mark.parametrize("name", ["kineto/resnet50_2021_workers0.json.gz", "tracelens/b200_eager_rank0.json.gz",
                                  "hta/nccl_data_rank0.json.gz", "tracelens/mi210_gpu_only.json.gz"])
def test_kineto_of_every_age(query, name):
    with gzip.open(TRACES / name) as f:
        events = complete_events(json.load(f))
    rows = query(TRACES / name, "select category, count(*) as n, sum(dur) as dur from slice group by category")
    found = {r["category"]: (r["n"], r["dur"]) for r in rows}
    for category in {e["cat"] for e in events}:
        of = [e for e in events if e["cat"] == category]
        assert found[category] == (len(of), sum(round(float(e["dur"]) * 1000) for e in of)), category


@pytest.mark.parametrize("name, words", [("hta/memory_timeline.raw.json.gz", "memory timeline"),
                                         ("ao/memory_timeline.json.gz", "memory timeline"),
                                         ("tracelens/rocprofv3_908_results.json.gz", "rocprof")])
def test_what_is_no_trace_of_events_is_refused_by_its_name(query, name, words):
    error = query(TRACES / name, "select 1", status=1)
    assert words in error.lower()
    assert len(error.strip().splitlines()) == 2, "an error and its remedy"


PACKINGS = {
    "plain": lambda text: text,
    "gzip": gzip.compress,
    "gzip of several members": lambda text: b"".join(gzip.compress(text[i:i + 300_000]) for i in range(0, len(text), 300_000)),
    "gzip with garbage behind": lambda text: gzip.compress(text) + b"\0" * 700 + b"garbage",
    "zstd": lambda text: subprocess.run(["zstd", "-q", "-c"], input=text, stdout=subprocess.PIPE, check=True).stdout,
}


@pytest.mark.parametrize("packing", PACKINGS)
def test_every_packing_gives_the_same(tmp_path, query, packing):
    if packing == "zstd" and not shutil.which("zstd"):
        pytest.fail("zstd is not installed: ./dev deps")
    text = gzip.decompress((TRACES / "hta/nccl_data_rank0.json.gz").read_bytes())
    path = tmp_path / "a name that says nothing"
    path.write_bytes(PACKINGS[packing](text))
    sql = "select count(*) as n, sum(dur) as dur, sum(depth) as depth, count(distinct name) as names from slice"
    assert query(path, sql) == query(TRACES / "hta/nccl_data_rank0.json.gz", sql)
    one = query(path, "select s.id, a.display_value as ranks from slice s join args a using (arg_set_id)"
                      " where a.key = 'args.Process Group Name' limit 3")
    assert len(one) == 3


def test_a_trace_that_was_cut_off_keeps_what_it_has(query):
    for name in ("truncated.json.gz", "truncated_gz.json.gz", "truncated_before_gzip.json.gz"):
        rows = query(TRACES / "malformed" / name, "select name, value from stats where value > 0")
        assert any(r["name"] in ("truncated", "corrupt_stream") for r in rows), (name, rows)
        assert query(TRACES / "malformed" / name, "select count(*) as n from slice")[0]["n"] > 100, name
