# SPDX-License-Identifier: Apache-2.0
"""The launch of a node without a server, of an engine over several nodes whose first node is fault-worker (--nodes, --meet): it learns
from the first node when to record, which it asks for its journal as the ranks of a real one listen to its broadcasts, and writes the
traces of its ranks on its own host, under the names and in the directory that the engine gives them:

    python3 .../sglang.launch_server --tp-size 4 --dist-init-addr 10.0.0.1:5000 --nnodes 2 --node-rank 1 --control URL

SGLang: the directory and id of the start's body. vLLM (--headless): the directory of --profiler-config, names with a time.
What runs is a copy of this file under the engine's name, because profd knows a launch by its command line.
"""
import argparse
import gzip
import http.client
import json
import os
import signal
import sys
import time
from pathlib import Path

PAUSE_S = 0.05


def journal(control):
    connection = http.client.HTTPConnection(control.removeprefix("http://"), timeout=10)
    try:
        connection.request("GET", "/journal?worker=0")
        return json.load(connection.getresponse())["requests"]
    finally:
        connection.close()


def write(path, rank, world_size, began_ns, ended_ns):
    base = 1_700_000_000_000_000_000
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": os.getpid(), "tid": os.getpid(), "ts": (began_ns - base) / 1000,
             "dur": (ended_ns - began_ns) / 1000, "args": {}}
    trace = {"schemaVersion": 1, "deviceProperties": [], "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world_size},
             "traceEvents": [event], "baseTimeNanoseconds": base, "displayTimeUnit": "ms"}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".tmp").write_bytes(gzip.compress(json.dumps(trace).encode()))
    path.with_suffix(".tmp").rename(path)


def main():
    parser = argparse.ArgumentParser()
    for name in ("--tp-size", "--nnodes", "--node-rank", "--tensor-parallel-size", "--master-port", "--lost-ranks"):
        parser.add_argument(name, type=int, default=0)
    parser.add_argument("--late-s", type=float, default=0)
    for name in ("--dist-init-addr", "--control", "--master-addr", "--profiler-config"):
        parser.add_argument(name)
    parser.add_argument("--headless", action="store_true")
    options, _ = parser.parse_known_args()
    world_size = options.tp_size or options.tensor_parallel_size
    each = world_size // options.nnodes
    first = each * options.node_rank
    known = len(journal(options.control))
    start = None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("ready", flush=True)
    while True:
        calls = journal(options.control)
        for call in calls[known:]:
            if call["path"].endswith("/start_profile"):
                start = call
            elif call["path"].endswith("/stop_profile") and start:
                body = json.loads(start["body"] or "{}")
                time.sleep(options.late_s)
                for rank in range(first, first + each - options.lost_ranks):
                    if options.headless:
                        directory = json.loads(options.profiler_config)["torch_profiler_dir"]
                        name = f"dp0_pp0_tp{rank}_dcp0_ep0_rank{rank}.{time.time_ns()}.pt.trace.json.gz"
                    else:
                        directory, name = body["output_dir"], f"{body['profile_id']}-TP-{rank}.trace.json.gz"
                    write(Path(directory) / name, rank, world_size, start["at_ns"], call["at_ns"])
                start = None
        known = len(calls)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
