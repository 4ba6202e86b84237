# SPDX-License-Identifier: Apache-2.0
"""What a timeline costs: processor time of the viewer for a tile at several levels of a big trace, for search, selection and a slice,
and how late profd's loop is meanwhile."""
import os
import pathlib
import random
import statistics
import time

from common import Daemon, figure, percentile
from grown import fits, grow

SIZE = 2_856_000_000
PLACES = 100
ROUNDS = 5
PIXELS = 1024
# Parts of the trace that 1024 pixels show.
SPANS = (1, 0.3, 0.1, 0.01, 0.001, 0.0001)
NS_PER_MS = 1e6


def viewer_pid(profd):
    """Of the children the one that answers on a socket: another computes sums of the trace meanwhile."""
    children = pathlib.Path(f"/proc/{profd.process.pid}/task/{profd.process.pid}/children").read_text().split()
    return next(int(pid) for pid in children if os.readlink(f"/proc/{pid}/fd/4").startswith("socket:"))


def cpu_ns(pid):
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])


class Asker:
    def __init__(self, profd, pid):
        self.profd, self.pid = profd, pid

    def ask(self, path):
        """(CPU of the viewer, wall, bytes)"""
        cpu, begun = cpu_ns(self.pid), time.monotonic_ns()
        reply = self.profd.request("GET", path, headers={"Accept-Encoding": "gzip"})
        assert reply.status == 200, reply
        return cpu_ns(self.pid) - cpu, time.monotonic_ns() - begun, len(reply.body)


def describe(what, asked):
    cpu, wall, size = (sorted(values) for values in zip(*asked))
    return {"answer": what, "times": len(asked), "CPU p50, ms": figure(statistics.median(cpu) / NS_PER_MS), "CPU p95, ms": figure(percentile(cpu, 95) / NS_PER_MS),
            "wall p50, ms": figure(statistics.median(wall) / NS_PER_MS), "wall p95, ms": figure(percentile(wall, 95) / NS_PER_MS),
            "bytes p50": int(statistics.median(size)), "most bytes": size[-1]}


def loop_lag_s(profd):
    """Since it was asked last."""
    text = profd.request("GET", "/metrics").body.decode()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("profd_event_loop_lag_seconds"))


def tiles(asker, trace, timeline, span):
    rng = random.Random(5)
    level = max(int(timeline["length_ns"] * span / PIXELS) - 1, 0).bit_length()
    count = timeline["length_ns"] // (PIXELS << level) + 1
    lanes = f"lanes=0-{min(timeline['lanes'], 1024) - 1}&v={timeline['sum']}"
    return level, [asker.ask(f"/v1/traces/{trace}/tiles/{level}/{rng.randrange(count)}?{lanes}") for _ in range(PLACES)]


def questions(asker, trace, timeline):
    """(what, what was asked)"""
    rng, length, path = random.Random(7), timeline["length_ns"], f"/v1/traces/{trace}"
    tenth = f"from={length // 2}&to={length // 2 + length // 10}"
    for span in SPANS:
        level, asked = tiles(asker, trace, timeline, span)
        yield f"tile: {span:g} of the trace, 2^{level} ns a pixel", asked
    for what, query in (("search", "search?name=gemm"), ("search in a tenth", f"search?name=gemm&{tenth}"), ("selection of all", "selection?"),
                        ("selection of a tenth", f"selection?{tenth}")):
        yield what, [asker.ask(f"{path}/{query}") for _ in range(ROUNDS)]
    yield "a slice", [asker.ask(f"{path}/slice?slice={rng.randrange(timeline['slices'])}") for _ in range(PLACES)]


def run(directory, _options):
    if not fits(directory, 2 * SIZE):
        return
    path = grow("B", SIZE, directory / "big.json")
    with Daemon(directory / "profd") as profd:
        trace = profd.request("POST", "/v1/traces", {"path": str(path)}, timeout=1800).json()["trace"]
        begun = time.monotonic()
        timeline = profd.get(f"/v1/traces/{trace}/timeline")
        first_s = time.monotonic() - begun
        asker = Asker(profd, viewer_pid(profd))
        loop_lag_s(profd)
        for what, asked in questions(asker, trace, timeline):
            yield {"slices": timeline["slices"], "lanes": timeline["lanes"], **describe(what, asked), "loop lag, ms": figure(loop_lag_s(profd) * 1e3)}
        yield {"slices": timeline["slices"], "lanes": timeline["lanes"], "answer": "the first timeline, with a new viewer", "times": 1,
               "wall p50, ms": figure(first_s * 1e3)}
