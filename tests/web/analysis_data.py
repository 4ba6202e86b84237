# SPDX-License-Identifier: Apache-2.0
"""Traces and benchmark runs for the views that explain and compare: real ones, and one whose names would do harm as HTML."""

import gzip
import json
import shutil

from real_traces import CORPUS

HOSTILE = ("<img src=x onerror=alert(1)>", "<script>alert(2)</script>", "</td><svg onload=alert(3)>", "javascript:alert(4)",
           "a" * 3000, "\u202eknihtar\u202c", "name\nwith\tcontrols\u0007")
LOADS = (1, 2, 4)


def hostile_trace(path):
    """Kernels, operators and steps with hostile names, launched one after the other."""
    events = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": 1000 * step, "dur": 900} for step in (1, 2, 3)]
    for step in (1, 2, 3):
        for number, name in enumerate(HOSTILE):
            correlation, begin = 100 * step + number, 1000 * step + 100 * number
            events += [
                {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": begin, "dur": 80},
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": begin + 5, "dur": 10,
                 "args": {"correlation": correlation}},
                {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": begin + 20, "dur": 50,
                 "args": {"correlation": correlation, "device": 0, "stream": 7}},
            ]
    with gzip.open(path, "wt") as file:
        json.dump({"traceEvents": events}, file)
    return path


def imported(profd, path):
    reply = profd.request("POST", "/v1/traces", {"path": str(path)})
    assert reply.status in (200, 201), reply
    return reply.json()["trace"]


def fill_analysis(profd, fleet, directory, wait):
    """Members of WEB_DATA. `wait(run)` waits until a run is over."""
    traces = {name: imported(profd, CORPUS / path) for name, path in {
        "training": "kineto/resnet50_2021_workers0.json.gz", "steps": "param/linear_kineto.json.gz", "memory": "tracelens/h100_qwen15.json.gz",
        "before": "torchrec_sst4_4rank/rank0.pt.trace.json.gz", "after": "torchrec_sst5_4rank/rank0.pt.trace.json.gz"}.items()}
    cpu = directory / "no_gpu.json.gz"  # under a name that no test of lists searches for
    shutil.copy(CORPUS / "hta/cpu_only_rank34.json.gz", cpu)
    runs = []
    for concurrency in LOADS:
        workload = {"isl": 16, "osl": 8, "requests": 60, "concurrency": concurrency}
        runs.append(profd.post("/v1/runs", {"workers": fleet.workers[:1], "workload": workload}, 202)["run"])
        wait(runs[-1])
    repeated = []
    for _ in range(4):
        workload = {"isl": 16, "osl": 4, "requests": 40, "concurrency": 2}
        repeated.append(profd.post("/v1/runs", {"workers": fleet.workers[:1], "workload": workload, "labels": {"kind": "repeated"}}, 202)["run"])
        wait(repeated[-1])
    hostile = imported(profd, hostile_trace(directory / "hostile_names.json.gz"))
    return {**traces, "cpu": imported(profd, cpu), "hostileNames": hostile, "names": HOSTILE, "sweep": [f"r{run}" for run in runs],
            "repeated": [f"r{run}" for run in repeated]}
