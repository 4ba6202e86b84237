# SPDX-License-Identifier: Apache-2.0
"""Fan-out: how long until the last of N workers had answered its start, and how far apart the starts left.

Beside a script that does what slime's tools/profile_rollout.py does (GET /workers, then one POST after another with
`requests`), against the same workers in the same run. The workers are the fault worker's: one process, as fast as loopback
allows, so that the sender is what is measured. The session's total time contains what the script does not do: identifying
every worker, finding its directory, the stop that vLLM needs before a start, and the catalog.
"""
import time

import requests

from common import Daemon, FaultFleet, percentile, summary

COUNTS = (1, 100, 1000)
# How long a worker takes to answer its start: at once, which measures the senders, and as an engine that passes it on to its
# ranks, which is what the fan-out is for.
ANSWERS_S = (0, 0.01)
ROUNDS = 5
TIMEOUT_S = 60


def script(router):
    """Milliseconds until the last start was answered. As profile_rollout.py: no connection is kept."""
    began = time.monotonic()
    workers = requests.get(f"{router}/workers", timeout=TIMEOUT_S).json()["workers"]
    body = {"output_dir": None, "num_steps": 1000, "activities": ["GPU"], "profile_by_stage": False, "with_stack": False,
            "record_shapes": False}
    for worker in workers:
        requests.post(f"{worker['url']}/start_profile", json=body, timeout=TIMEOUT_S).raise_for_status()
    took = time.monotonic() - began
    for worker in workers:
        requests.post(f"{worker['url']}/stop_profile", json={}, timeout=TIMEOUT_S)
    return took * 1e3


def session(profd, router):
    """One session's milliseconds: request to last answer, first start to last answer, skew p99, skew."""
    began = time.time_ns()
    answer = profd.start_session(router=router, duration_ns=1)
    done = profd.wait_session(answer["session"], timeout_s=TIMEOUT_S)
    assert done["state"] == "complete", done.get("reason")
    sent = sorted(target["start_sent_at"] for target in done["targets"])
    answered = max(target["start_answered_at"] for target in done["targets"])
    spread = [at - sent[0] for at in sent]
    return [ns / 1e6 for ns in (answered - began, answered - sent[0], percentile(spread, 99), spread[-1])]


def measure(directory, engine, count, answer_s):
    faults = ["--fault", f"slow-start={answer_s}"] if answer_s else []
    with FaultFleet(directory / "fleet", engine, count, *faults, life_s=300) as fleet, Daemon(directory / "profd") as profd:
        session(profd, fleet.router)
        pairs = [(session(profd, fleet.router), script(fleet.router)) for _ in range(ROUNDS)]
    total, starts, p99, skew = ([pair[0][i] for pair in pairs] for i in range(4))
    peer = [pair[1] for pair in pairs]
    return {"engine": engine, "workers": count, "a start takes ms": answer_s * 1e3, "total ms": summary(total),
            "starts ms": summary(starts), "skew p99 ms": summary(p99), "skew ms": summary(skew), "script ms": summary(peer),
            "script / starts": summary([b / a for a, b in zip(starts, peer)]),
            "script / total": summary([b / a for a, b in zip(total, peer)])}


def run(directory, _options):
    for engine in ("vllm", "sglang"):
        for answer_s in ANSWERS_S:
            for count in COUNTS:
                yield measure(directory / f"{engine}-{count}-{answer_s}", engine, count, answer_s)
