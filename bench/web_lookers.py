# SPDX-License-Identifier: Apache-2.0
"""Ten people look at a trace at the same time: each zooms, clicks and searches as the page does it, and opens the list of traces.
How late profd's loop is meanwhile (the longest delay of each tenth of a second), and how long each kind of answer takes."""
import random
import statistics
import threading
import time

import catalog
from common import Daemon, figure, percentile, summary
from grown import of_slices
from web_tiles import loop_lag_s

LOOKERS = 10
SECONDS = 20
ROUNDS = 3
SAMPLE_S = 0.1
# Of a looker: a step of the wheel, and how many of them are between two clicks, searches and lists.
STEP_S = 0.1
CLICK, SEARCH, LIST = 10, 30, 50
TILES = 2
PIXELS = 1024
GROUP_LANES = 64
WORDS = ("gemm", "attention", "nccl", "aten::", "layer")
TRACES = 100_000


class Looker(threading.Thread):
    def __init__(self, profd, trace, number, until):
        super().__init__()
        self.profd, self.path, self.until = profd, f"/v1/traces/{trace}", until
        self.rng, self.walls, self.refused = random.Random(number), {}, 0
        self.connection = profd.connection()

    def ask(self, what, path):
        begun = time.monotonic()
        self.connection.request("GET", path, headers={"Accept-Encoding": "gzip", "Host": "localhost"})
        reply = self.connection.getresponse()
        body = reply.read()
        self.walls.setdefault(what, []).append(time.monotonic() - begun)
        self.refused += reply.status != 200
        return reply, body

    def run(self):
        head = self.profd.get(f"{self.path}/timeline")
        self.ask("timeline", f"{self.path}/timeline")
        self.ask("steps", f"{self.path}/timeline/steps?v={head['sum']}")
        root = max(head["length_ns"] // PIXELS - 1, 0).bit_length()
        level, at, step = root, 0.5, 0
        while time.monotonic() < self.until:
            begun = time.monotonic()
            # In to the bottom and out again, a level a step, at another place each time.
            down = step // root % 2 == 0
            level = root - step % root if down else step % root
            if step % root == 0:
                at = self.rng.random()
            index = int(at * head["length_ns"]) // (PIXELS << level)
            for i in range(TILES):
                for first in range(0, head["lanes"], GROUP_LANES):
                    last = min(first + GROUP_LANES, head["lanes"]) - 1
                    self.ask("tile", f"{self.path}/tiles/{level}/{index + i}?lanes={first}-{last}&v={head['sum']}")
            if step % CLICK == 0:
                self.ask("slice", f"{self.path}/slice?slice={self.rng.randrange(head['slices'])}")
            if step % SEARCH == 1:
                self.ask("search", f"{self.path}/search?name={self.rng.choice(WORDS)}&limit=200")
            if step % LIST == 2:
                self.ask("list", "/v1/traces?limit=100&total=yes")
            step += 1
            time.sleep(max(0, begun + STEP_S - time.monotonic()))


def look(profd, trace, round_number):
    """(lags, {what: wall of each answer}, refused)"""
    until = time.monotonic() + SECONDS
    lookers = [Looker(profd, trace, round_number * LOOKERS + i, until) for i in range(LOOKERS)]
    lags, walls = [], {}
    loop_lag_s(profd)
    for looker in lookers:
        looker.start()
    while time.monotonic() < until:
        time.sleep(SAMPLE_S)
        lags.append(loop_lag_s(profd) * 1e3)
    for looker in lookers:
        looker.join()
        for what, found in looker.walls.items():
            walls.setdefault(what, []).extend(each * 1e3 for each in found)
    return sorted(lags), walls, sum(looker.refused for looker in lookers)


def run(directory, options):
    path = of_slices(options.slices or "10M", directory, options)
    if not path:
        yield {"skipped": "the disk is too full"}
        return
    profd = Daemon(directory / "profd")
    profd.start().stop()  # makes the catalog
    catalog.fill(profd.catalog, TRACES)
    with profd:
        catalog.wait_at_rest(profd)
        trace = profd.request("POST", "/v1/traces", {"path": str(path)}, timeout=3600).json()["trace"]
        slices = profd.get(f"/v1/traces/{trace}/timeline")["slices"]
        rounds = [look(profd, trace, number) for number in range(ROUNDS)]
        yield {"slices": slices, "lookers": LOOKERS, "what": "loop lag", "count": sum(len(lags) for lags, _, _ in rounds),
               "refused": sum(refused for _, _, refused in rounds),
               "p50 ms": summary([statistics.median(lags) for lags, _, _ in rounds]),
               "p95 ms": summary([percentile(lags, 95) for lags, _, _ in rounds]),
               "p99 ms": summary([percentile(lags, 99) for lags, _, _ in rounds]),
               "most ms": figure(max(lags[-1] for lags, _, _ in rounds))}
        for what in rounds[0][1]:
            found = [sorted(walls[what]) for _, walls, _ in rounds]
            yield {"slices": slices, "lookers": LOOKERS, "what": what, "count": sum(map(len, found)),
                   "p50 ms": summary([statistics.median(each) for each in found]), "p95 ms": summary([percentile(each, 95) for each in found]),
                   "p99 ms": summary([percentile(each, 99) for each in found]), "most ms": figure(max(each[-1] for each in found))}
