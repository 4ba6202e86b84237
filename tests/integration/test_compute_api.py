# SPDX-License-Identifier: Apache-2.0
"""GET .../flame, GET .../export and POST /v1/compare: what profctl computes of the same traces and runs."""
import gzip
import json
import os
import sqlite3
import subprocess

import pytest

from daemon import BUILD, ROOT, Daemon, quick_config

PROFCTL = BUILD / "client" / "profctl"
STEPS = 12
MANY_REQUESTS = 60_000


def write_trace(path, kernels):
    """Steps of 1000 us; in each an operator for each kernel, which it launches, and a Python frame around all."""
    events = [{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}},
              {"ph": "X", "cat": "cpu_op", "name": "aten::rest", "pid": 1, "tid": 2, "ts": 10, "dur": 5}]
    for i in range(STEPS):
        at = 1000 * i
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1, "tid": 1, "ts": at,
                       "dur": 999 + i / 1000, "args": {"External id": i}})
        for k, (kernel, dur) in enumerate(kernels):
            correlation = 100 * i + k + 1
            events += [{"ph": "X", "cat": "cpu_op", "name": f"aten::{kernel}", "pid": 1, "tid": 1, "ts": at + 0.2, "dur": 1.2},
                       {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 0.5, "dur": 0.4,
                        "args": {"correlation": correlation}},
                       {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": at + 2, "dur": dur + i / 1000,
                        "args": {"stream": 7, "device": 0, "correlation": correlation}}]
            at += dur + 3
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    """t1 and t2; r1 and r2 are as recorded, the second slower."""
    home = tmp_path_factory.mktemp("compute")
    with Daemon(home / "profd", quick_config()) as profd:
        for name, kernels in (("a", [("gemm", 100), ("rope_naive", 30)]), ("b", [("gemm", 110), ("rope_fused", 10)])):
            path = write_trace(home / f"{name}.json", kernels)
            profd.post("/v1/traces", {"path": str(path)}, status=201)
    recorded = json.loads(gzip.decompress((ROOT / "tests/data/identical-runs.json.gz").read_bytes()))
    db = sqlite3.connect(home / "profd/state/catalog.db")
    for n, one in enumerate([recorded["identical"][0], recorded["identical"][1], recorded["slower"][0], recorded["slower"][1]], 1):
        run, summary = one["run"], {key: one["run"].get(key) for key in ("metrics", "throughput", "goodput", "peak_concurrency")}
        db.execute("insert into run_row (run_id, state, model, workload, targets, requested_at, requested_by, started_at, success, incomplete, "
                   "error, summary) values (?, 'complete', ?, ?, '[]', 1, 'anna', 1, ?, ?, ?, ?)",
                   (n, run.get("model"), json.dumps(run.get("workload", {})), run["requests"]["success"], run["requests"]["incomplete"],
                    run["requests"]["error"], json.dumps(summary)))
        names = {row[1] for row in db.execute("pragma table_info(request_row)")} - {"request_id", "run_id", "number"}
        for i, row in enumerate(one["requests"]):
            values = {"prompt": 0, "target": "http://w", "cold": 0, "intended_ns": 0} | {
                key: json.dumps(value) if isinstance(value, list) else value for key, value in row.items() if key in names}
            db.execute(f"insert into request_row (run_id, number, {', '.join(values)}) values (?, ?, {', '.join('?' * len(values))})",
                       (n, i, *values.values()))
    # r5 has more requests than profd reads into memory.
    db.execute("insert into run_row select 5, session_id, state, router_id, dialect, fleet, model, workload, targets, labels, requested_at, "
               "requested_by, started_at, ended_at, success, incomplete, error, reason, remedy, notes, warmed, summary, removed, null "
               "from run_row where run_id = 1")
    db.execute(f"""insert into request_row (run_id, number, prompt, target, cold, intended_ns, ttft_ns, e2e_ns, outcome)
                   with recursive n (i) as (select 0 union all select i + 1 from n where i < {MANY_REQUESTS})
                   select 5, i, 0, 'http://w', 0, i, 1000000 + i, 2000000 + i, 'success' from n""")
    db.commit()
    db.close()
    with Daemon(home / "profd", quick_config()) as profd:
        yield profd


def profctl(profd, *words, status=0):
    environment = {"PATH": os.environ["PATH"], "HOME": str(profd.directory), "XDG_CACHE_HOME": str(profd.directory / "cache"),
                   "PROFD_SOCKET": str(profd.socket), "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([PROFCTL, *map(str, words)], capture_output=True, timeout=120, env=environment, stdin=subprocess.DEVNULL)
    assert done.returncode == status, done.stderr
    return done.stdout


def tree(answer):
    """{path of names: (total, self, count)}; a parent comes before its nodes."""
    paths, found = [], {}
    for parent, name, total, own, count in answer["nodes"]:
        assert parent < len(paths)
        paths.append((paths[parent] if parent >= 0 else ()) + (answer["names"][name],))
        assert paths[-1] not in found
        found[paths[-1]] = (total, own, count)
    return found


def test_flame_of_the_gpu(profd):
    nodes = tree(profd.get("/v1/traces/t1/flame"))
    noise = sum(range(STEPS))
    assert nodes["ProfilerStep", "aten::gemm", "gemm"] == (STEPS * 100_000 + noise, STEPS * 100_000 + noise, STEPS)
    assert nodes["ProfilerStep",][0] == STEPS * 130_000 + 2 * noise and nodes["ProfilerStep",][1] == 0
    assert tree(profd.get("/v1/traces/t1/flame", by="op")) == nodes
    kernels = tree(profd.get("/v1/traces/t1/flame", by="kernel"))
    assert kernels["gemm", "gemm"] == nodes["ProfilerStep", "aten::gemm", "gemm"]


def test_flame_of_a_window(profd):
    nodes = tree(profd.get("/v1/traces/t1/flame", **{"from": 0, "to": 1_000_000}))
    assert nodes["ProfilerStep", "aten::gemm", "gemm"][2] == 1


def test_flame_of_the_host(profd):
    nodes = tree(profd.get("/v1/traces/t1/flame", by="host"))
    assert nodes["ProfilerStep", "aten::gemm"][2] == STEPS and ("aten::rest",) in nodes
    assert sum(value[1] for value in nodes.values()) == sum(value[0] for path, value in nodes.items() if len(path) == 1)
    of_thread = tree(profd.get("/v1/traces/t1/flame", by="host", thread="main"))
    assert ("aten::rest",) not in of_thread and of_thread["ProfilerStep", "aten::gemm"] == nodes["ProfilerStep", "aten::gemm"]
    assert list(tree(profd.get("/v1/traces/t1/flame", by="host", thread="2"))) == [("aten::rest",)]
    assert tree(profd.get("/v1/traces/t1/flame", by="gpu", thread="2")) == {}


def test_flame_joins_small_frames(profd, tmp_path):
    """A frame for each of 30,000 kernels with a name of its own, besides a large one."""
    events = [{"ph": "X", "cat": "kernel", "name": "large", "pid": 0, "tid": 7, "ts": 0, "dur": 1e6, "args": {"stream": 7, "device": 0}}]
    events += [{"ph": "X", "cat": "kernel", "name": f"small{i}", "pid": 0, "tid": 7, "ts": 1e6 + i, "dur": 0.5, "args": {"stream": 7, "device": 0}}
               for i in range(30_000)]
    path = tmp_path / "many.json"
    path.write_text(json.dumps({"traceEvents": events}))
    trace = profd.post("/v1/traces", {"path": str(path)}, status=201)["trace"]
    answer = profd.get(f"/v1/traces/{trace}/flame", by="kernel")
    assert len(answer["nodes"]) <= 20_000
    nodes = tree(answer)
    joined = [value for path, value in nodes.items() if path[-1] == "(small frames)"]
    assert sum(value[0] for value in joined) == 30_000 * 500 and sum(value[2] for value in joined) == 30_000
    assert sum(value[0] for path, value in nodes.items() if len(path) == 1) == 10**9 + 30_000 * 500


@pytest.mark.parametrize("query, status", [("by=wall", 400), ("from=5&to=3", 400), ("from=1e9", 400), ("from=99000000000", 404)])
def test_flame_refused(profd, query, status):
    assert profd.problem("GET", f"/v1/traces/t1/flame?{query}", status=status)["detail"]


def test_flame_of_several(profd):
    answer = profd.post("/v1/flame", {"traces": ["t1", "t2", "t98"], "by": "kernel"})
    assert answer["traces"] == ["t1", "t2"] and answer["left"] == [] and answer["missing"] == [{"trace": "t98", "reason": "it was removed"}]
    each = [tree(profd.get(f"/v1/traces/{trace}/flame", by="kernel")) for trace in ("t1", "t2")]
    assert tree(answer) == {path: tuple(map(sum, zip(*(one.get(path, (0, 0, 0)) for one in each)))) for path in {*each[0], *each[1]}}
    part = {"traces": ["t1"], "view": {"from": 0, "to": 1_000_000}}
    assert tree(profd.post("/v1/flame", part)) == tree(profd.get("/v1/traces/t1/flame", **part["view"]))
    assert profd.post("/v1/flame", {"traces": []})["nodes"] == []


@pytest.mark.parametrize("body, status, detail", [
    ({}, 400, 'either "traces" or "session" must be given'),
    ({"traces": ["t1"], "session": "s1"}, 400, 'either "traces" or "session" must be given'),
    ({"traces": ["t1"], "reports": ["kernels"]}, 400, '"reports": a flame graph takes'),
    ({"traces": ["t1"], "by": "wall"}, 400, "not wall"),
    ({"traces": ["t98"]}, 404, "there is no trace t98"),
    ({"session": "s98"}, 404, "there is no session s98"),
])
def test_flame_of_several_refused(profd, body, status, detail):
    assert detail in profd.problem("POST", "/v1/flame", body, status=status)["detail"]


@pytest.mark.parametrize("name, suffix", [("chrome", "json"), ("perfetto", "pftrace")])
def test_export(profd, name, suffix):
    for query, words in (("", ()), ("&from=2000000&to=4000000", ("--from", "2ms", "--to", "4ms"))):
        reply = profd.request("GET", f"/v1/traces/t1/export?format={name}{query}")
        assert reply.status == 200 and f'filename="t1.{suffix}"' in reply.headers["Content-Disposition"]
        assert reply.headers["Content-Disposition"].startswith("attachment")
        assert reply.body == profctl(profd, "export", "t1", "--format", name, "-o", "-", *words)


def test_export_refused(profd):
    assert profd.problem("GET", "/v1/traces/t1/export?format=pprof", status=400)["detail"] == "format=pprof must be chrome or perfetto"
    detail = profd.problem("GET", "/v1/traces/t1/export?from=11999900000&to=11999990000", status=404)["detail"]
    assert "after the end of the trace" in detail
    assert profd.problem("GET", "/v1/traces/t99/export", status=404)["code"] == "not-found"


def without_names(tables):
    return {name: {key: value for key, value in table.items() if key != "trace"} for name, table in tables.items()}


def test_compare_traces(profd):
    answer = profd.post("/v1/compare", {"a": {"traces": ["t1"]}, "b": {"traces": ["t2"]}})
    assert answer.pop("kind") == "traces" and answer.pop("left") == answer.pop("missing") == answer.pop("notes") == []
    step = answer.pop("step")
    assert step["a"]["steps"] == STEPS and step["change"] == pytest.approx(step["b"]["p50"] / step["a"]["p50"] - 1)
    assert answer == without_names(json.loads(profctl(profd, "diff", "t1", "t2", "--json")))
    results = {row["name"]: row["result"] for row in answer["kernels"]["rows"]}
    assert results == {"gemm": "slower", "rope_fused": "faster"}
    top = profd.post("/v1/compare", {"a": {"traces": ["t1"]}, "b": {"traces": ["t2"]}, "top": 1})
    assert [len(top[name]["rows"]) for name in ("kernels", "ops")] == [1, 1]


@pytest.mark.parametrize("a, b", [(["r1"], ["r3"]), (["r1"], ["r2"]), (["r1", "r2"], ["r3", "r4"])])
def test_compare_runs(profd, a, b):
    answer = profd.post("/v1/compare", {"a": {"runs": a}, "b": {"runs": b}})
    assert answer.pop("kind") == "runs"
    assert answer == json.loads(profctl(profd, "compare", ",".join(a), ",".join(b), "--json"))
    assert answer["latency"] and answer["unit"] == ("run" if len(a) > 1 else "request")


def test_compare_runs_of_many_requests(profd):
    answer = profd.post("/v1/compare", {"a": {"runs": ["r5"]}, "b": {"runs": ["r5"]}})
    assert answer["note"] == "too many requests to estimate from them how much a single run varies"
    ttft = next(metric for metric in answer["latency"] if metric["metric"] == "ttft_ms")
    assert ttft["figures"][0]["a"] == ttft["figures"][0]["b"] and ttft["figures"][0]["ci95"] is None


@pytest.mark.parametrize("body, status, detail", [
    ({}, 400, '"a" must be an object with one of "traces", "session" and "runs"'),
    ({"a": {"runs": ["r1"]}, "b": {"traces": ["t1"]}}, 400, "benchmark runs are compared with benchmark runs only"),
    ({"a": {"traces": ["t1"], "session": "s1"}, "b": {"traces": ["t1"]}}, 400, '"a" must be an object'),
    ({"a": {"traces": ["t1"]}, "b": {"traces": ["t98"]}}, 404, "there is no trace t98"),
    ({"a": {"traces": ["t1"]}, "b": {"session": "s98"}}, 404, "there is no session s98"),
    ({"a": {"traces": "t1"}, "b": {"traces": ["t1"]}}, 400, '"traces" must be a list of traces'),
    ({"a": {"traces": []}, "b": {"traces": ["t1"]}}, 404, 'side "a" has no trace with columns'),
    ({"a": {"runs": ["r1"]}, "b": {"runs": ["r77"]}}, 404, "there is no run r77"),
    ({"a": {"runs": []}, "b": {"runs": ["r1"]}}, 400, '"runs" must be a list of 1 to 100 runs'),
    ({"a": {"traces": ["t1"]}, "b": {"traces": ["t2"]}, "c": 1}, 400, '"c": a comparison takes "a", "b" and "top"'),
])
def test_compare_refused(profd, body, status, detail):
    assert detail in profd.problem("POST", "/v1/compare", body, status=status)["detail"]
