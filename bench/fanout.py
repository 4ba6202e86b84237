# SPDX-License-Identifier: Apache-2.0
"""Fan-out: how long until the last of N workers was told to record and had answered, and how far apart the starts left.

Beside a script that does what slime's tools/profile_rollout.py does (GET /workers, then one POST after another with
`requests`), against the same workers in the same run. The workers are the fault worker's: one process, as fast as loopback
allows, so that the sender is what is measured.
"""
import json
import subprocess
import time

import requests

from common import BUILD, Profd, percentile, summary

COUNTS = (1, 100, 1000)
ROUNDS = 5


class FaultFleet:
    def __init__(self, directory, engine, count):
        port_file = directory / f"{engine}-{count}.json"
        self.child = subprocess.Popen([BUILD / "tests/fleet/fault-worker", "--engine", engine, "--count", str(count), "--dir",
                                       directory / f"{engine}-{count}", "--port-file", port_file, "--life", "300"],
                                      stdout=subprocess.DEVNULL)
        while not port_file.exists():
            time.sleep(0.01)
        self.router = json.loads(port_file.read_text())["router"]

    def end(self):
        self.child.terminate()
        self.child.wait()


def script(router):
    """Returns the seconds until the last start was answered. As profile_rollout.py: no connection is kept."""
    began = time.monotonic()
    workers = requests.get(f"{router}/workers", timeout=30).json()["workers"]
    body = {"output_dir": None, "num_steps": 3, "activities": ["GPU"], "profile_by_stage": False, "with_stack": False,
            "record_shapes": False}
    for worker in workers:
        requests.post(f"{worker['url']}/start_profile", json=body, timeout=30).raise_for_status()
    took = time.monotonic() - began
    for worker in workers:
        requests.post(f"{worker['url']}/stop_profile", json={}, timeout=30)
    return took


def session(profd, router):
    """One session; returns (request to last answer, first start sent to last answer, skew p99, skew max), in seconds."""
    began = time.time_ns()
    status, answer = profd.call("POST", "/v1/sessions", {"router": router, "duration_ns": 1})
    assert status == 201, answer
    done = profd.wait_session(answer["session"])
    targets = done["targets"]
    assert done["counts"]["failed"] == 0, done
    sent = sorted(t["start_sent_at"] for t in targets)
    answered = max(t["start_answered_at"] for t in targets)
    spread = [s - sent[0] for s in sent]
    return (answered - began) / 1e9, (answered - sent[0]) / 1e9, percentile(spread, 99) / 1e9, spread[-1] / 1e9


def run(directory):
    rows = []
    for engine in ("vllm", "sglang"):
        for count in COUNTS:
            fleet = FaultFleet(directory, engine, count)
            try:
                with Profd(directory / f"profd-{engine}-{count}") as profd:
                    session(profd, fleet.router)
                    pairs = [(session(profd, fleet.router), script(fleet.router)) for _ in range(ROUNDS)]
            finally:
                fleet.end()
            whole, starts, p99, skew = ([p[0][i] for p in pairs] for i in range(4))
            peer = [p[1] for p in pairs]
            rows.append({"engine": engine, "workers": count, "request to last answer": summary(whole),
                         "first start to last answer": summary(starts), "skew p99": summary(p99), "skew": summary(skew),
                         "script": summary(peer), "times faster, whole": summary([b / a for a, b in zip(whole, peer)]),
                         "times faster, starts": summary([b / a for a, b in zip(starts, peer)])})
            print(json.dumps(rows[-1]), flush=True)
    return rows
