#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Records identical benchmark runs, with the rows of their requests, for the tests of `profctl compare`.

    PROFD_BUILD=build tests/fleet/record_runs.py tests/data/identical-runs.json.gz

A real profd sends the same workload to a real worker again and again. Every second run goes to a worker whose steps are
10 % longer. Written is {"identical": [...], "slower": [...]}, lists of {"run": as GET /v1/runs/ID, "requests": rows}.
"""
import argparse
import gzip
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from daemon import Daemon, quick_config, wait_for  # noqa: E402
from fleet import Fleet  # noqa: E402

STEP_MS = 100
RUN_MEMBERS = ("run", "state", "model", "labels", "workload", "targets", "duration_s", "requests", "metrics", "throughput", "goodput",
               "peak_concurrency", "requested_at", "started_at", "ended_at")
ROW_MEMBERS = ("index", "outcome", "cold", "intended_ns", "sent_ns", "lateness_ns", "ttft_ns", "tpot_ns", "e2e_ns", "input_tokens",
               "output_tokens", "gaps_us")


def record(profd, worker, workload):
    ref = f"r{profd.post('/v1/runs', {'workers': [worker.url], 'workload': workload}, 202)['run']}"
    run = wait_for(lambda: (now := profd.get(f"/v1/runs/{ref}"))["state"] in ("complete", "partial", "failed") and now, 600, 0.5)
    assert run["state"] == "complete", run
    rows, after = [], -1
    while page := profd.get(f"/v1/runs/{ref}/requests?limit=1000" + (f"&after={after}" if after >= 0 else ""))["requests"]:
        rows += page
        after = page[-1]["index"]
    print(ref, {metric: round(run["metrics"][metric]["mean"], 2) for metric in ("ttft_ms", "itl_ms", "tpot_ms", "e2e_ms")}, flush=True)
    return {"run": {k: run[k] for k in RUN_MEMBERS if k in run}, "requests": [{k: row[k] for k in ROW_MEMBERS if k in row} for row in rows]}


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("output", type=pathlib.Path)
    parse.add_argument("--runs", type=int, default=10)
    parse.add_argument("--requests", type=int, default=150)
    options = parse.parse_args()
    workload = {"isl": 32, "osl": 8, "concurrency": 8, "requests": options.requests, "warmup": 4}
    recorded = {"identical": [], "slower": []}
    with tempfile.TemporaryDirectory() as directory, Fleet(pathlib.Path(directory) / "fleet") as fleet, \
            Daemon(pathlib.Path(directory) / "profd", quick_config()) as profd:
        workers = {kind: fleet.add_vllm("--step-ms", str(step)) for kind, step in (("identical", STEP_MS), ("slower", 1.1 * STEP_MS))}
        fleet.wait_ready()
        for _ in range(options.runs):
            for kind, worker in workers.items():
                recorded[kind].append(record(profd, worker, workload))
    options.output.write_bytes(gzip.compress(json.dumps(recorded, separators=(",", ":")).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
