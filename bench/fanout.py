# SPDX-License-Identifier: Apache-2.0
"""Fan-out: how long until the last of N workers had answered its start, and how far apart the starts left.

Beside a script that does what slime's tools/profile_rollout.py does (GET /workers, then one POST after another with
`requests`), against the same workers in the same run. The workers are the fault worker's: one process, as fast as loopback
allows, so that the sender is what is measured. The session's total time contains what the script does not do: identifying
every worker, finding its directory, the stop that vLLM needs before a start, and the catalog.

`identifying` is from the request to the first start. Its limit is `http-calls`: a client in C that sends the same requests to
the same workers, one after another on one connection each, and reads their answers without looking at them.
"""
import re
import subprocess
import threading
import time

import requests

from common import BUILD, Daemon, FaultFleet, figure, percentile, slope, summary

COUNTS = (1, 100, 1000)
# Sessions of that many.
SCALE = (1000, 3000, 10000)
# How long a worker takes to answer its start: at once, which measures the senders, and as an engine that passes it on to its
# ranks, which is what the fan-out is for.
ANSWERS_S = (0, 0.01)
ROUNDS = 5
SCALE_ROUNDS = 3
TIMEOUT_S = 60
# What profd asks each of them until its first start.
FIRST = ("GET /server_info?config_format=json", "GET /version", "GET /openapi.json", "GET /v1/models")
CALLS = {"vllm": (*FIRST, "GET /is_sleeping", "POST /stop_profile"), "sglang": FIRST}


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


def limit(workers, engine):
    """Milliseconds of the client in C."""
    urls = "".join(f"{url.removeprefix('http://')}\n" for url in workers)
    done = subprocess.run([BUILD / "bench/http-calls", *CALLS[engine]], input=urls, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def session(profd, timeout_s=TIMEOUT_S, **whom):
    """One session's milliseconds: request to last answer, request to first start, first start to last answer, skew p99, skew."""
    began = time.time_ns()
    answer = profd.start_session(duration_ns=1, **whom)
    done = profd.wait_session(answer["session"], timeout_s=timeout_s)
    assert done["state"] == "complete", done.get("reason")
    sent = sorted(target["start_sent_at"] for target in done["targets"])
    answered = max(target["start_answered_at"] for target in done["targets"])
    spread = [at - sent[0] for at in sent]
    return [ns / 1e6 for ns in (answered - began, sent[0] - began, answered - sent[0], percentile(spread, 99), spread[-1])]


def measure(directory, engine, count, answer_s):
    faults = ["--fault", f"slow-start={answer_s}"] if answer_s else []
    with FaultFleet(directory / "fleet", engine, count, *faults, life_s=300) as fleet, Daemon(directory / "profd") as profd:
        session(profd, router=fleet.router)
        rounds = [(session(profd, router=fleet.router), script(fleet.router), limit(fleet.workers, engine)) for _ in range(ROUNDS)]
    total, identifying, starts, p99, skew = ([r[0][i] for r in rounds] for i in range(5))
    peer, least = ([r[i] for r in rounds] for i in (1, 2))
    return {"engine": engine, "workers": count, "a start takes ms": answer_s * 1e3, "total ms": summary(total),
            "identifying ms": summary(identifying), "http-calls ms": summary(least),
            "identifying / http-calls": summary([a / b for a, b in zip(identifying, least)]),
            "starts ms": summary(starts), "skew p99 ms": summary(p99), "skew ms": summary(skew), "script ms": summary(peer),
            "script / starts": summary([b / a for a, b in zip(starts, peer)]),
            "script / total": summary([b / a for a, b in zip(total, peer)])}


class Lag(threading.Thread):
    """The longest that profd took to answer /healthz meanwhile, in milliseconds: how late its event loop is."""

    def __init__(self, profd):
        super().__init__(daemon=True)
        self.profd, self.over, self.longest = profd, threading.Event(), 0.0

    def run(self):
        while not self.over.wait(0.005):
            began = time.monotonic()
            self.profd.request("GET", "/healthz")
            self.longest = max(self.longest, (time.monotonic() - began) * 1e3)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        self.over.set()
        self.join()


def peak_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s*(\d+)", file.read())[1]) / 1024


def all_started(directory, engine, count):
    """Milliseconds from the request to the first and the last start of a profd that knows nobody, its peak memory in MiB, the longest
    answer to /healthz, and the client in C. Two fleets, because each worker takes two descriptors of its process, and hard limits of
    20,000 exist."""
    config = f"[limits]\nworkers={count}\n"
    with FaultFleet(directory / "one", engine, count // 2) as one, FaultFleet(directory / "other", engine, count - count // 2) as other, \
            Daemon(directory / "profd", config) as profd:
        workers = one.workers + other.workers
        least = limit(workers, engine)
        with Lag(profd) as lag:
            began = time.time_ns()
            asked = profd.start_session(duration_ns=300 * 10**9, workers=workers)
            targets = profd.wait_state(asked["session"], "recording")["targets"]
        assert all(target["state"] == "recording" for target in targets)
        peak = peak_mib(profd.pid)
        profd.kill()  # nobody waits for ten thousand traces
    return [(min(target["start_sent_at"] for target in targets) - began) / 1e6,
            (max(target["start_answered_at"] for target in targets) - began) / 1e6, peak, lag.longest, least]


def scale(directory, engine, count, before):
    """Slope: from the row before."""
    rounds = [all_started(directory / str(i), engine, count) for i in range(SCALE_ROUNDS)]
    identifying, total, peak, longest, least = zip(*rounds)
    started = summary(total)
    return {"part": "scale", "engine": engine, "workers": count, "all started ms": started,
            "slope": slope(count, started["median"], before["workers"], before["all started ms"]["median"]) if before else None,
            "us a worker": summary([ms * 1e3 / count for ms in total]), "identifying ms": summary(identifying),
            "http-calls ms": summary(least), "/healthz at most ms": summary(longest), "profd at most MiB": summary(peak)}


def run(directory, _options):
    for engine in ("vllm", "sglang"):
        for answer_s in ANSWERS_S:
            for count in COUNTS:
                yield measure(directory / f"{engine}-{count}-{answer_s}", engine, count, answer_s)
    row = None
    for count in SCALE:
        row = scale(directory / f"scale-{count}", "vllm", count, row)
        yield row
