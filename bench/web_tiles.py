# SPDX-License-Identifier: Apache-2.0
"""What a timeline costs: processor time of the viewer for a tile at several levels of a big trace, for search, selection and a slice,
and how late profd's loop is meanwhile. The first timeline of a new viewer is the first row, and what the import took the last."""
import os
import pathlib
import random
import statistics
import time

from common import Daemon, figure, percentile
from grown import of_slices

PLACES = 100
ROUNDS = 5
FIRSTS = 5
PIXELS = 1024
ENDS = 10
# Parts of the trace that 1024 pixels show.
SPANS = (1, 0.3, 0.1, 0.01, 0.001, 0.0001)
NS_PER_MS = 1e6


def children(profd):
    return [int(pid) for pid in pathlib.Path(f"/proc/{profd.pid}/task/{profd.pid}/children").read_text().split()]


def viewer_pid(profd):
    """Of the children the one that answers on a socket: another computes sums of the trace meanwhile."""
    return next(pid for pid in children(profd) if os.readlink(f"/proc/{pid}/fd/4").startswith("socket:"))


def cpu_ns(pid):
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def anonymous_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) / 1024


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
            "CPU most, ms": figure(cpu[-1] / NS_PER_MS),
            "wall p50, ms": figure(statistics.median(wall) / NS_PER_MS), "wall p95, ms": figure(percentile(wall, 95) / NS_PER_MS),
            "bytes p50": int(statistics.median(size)), "most bytes": size[-1]}


def loop_lag_s(profd):
    """Since it was asked last."""
    text = profd.request("GET", "/metrics").body.decode()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("profd_event_loop_lag_seconds"))


def tiles(asker, trace, timeline, span, is_kept=False):
    """Of all lanes, but for a few at the ends: profd keeps tiles that show much of the trace, and each is to be computed."""
    rng, lanes = random.Random(5), min(timeline["lanes"], 1024)
    level = max(int(timeline["length_ns"] * span / PIXELS) - 1, 0).bit_length()
    count = timeline["length_ns"] // (PIXELS << level) + 1
    asked = []
    for i in range(PLACES):
        left_out = (0, 0) if is_kept or lanes < 4 * ENDS else (i % ENDS, i // ENDS % ENDS)
        path = f"/v1/traces/{trace}/tiles/{level}/{rng.randrange(count)}?lanes={left_out[0]}-{lanes - 1 - left_out[1]}&v={timeline['sum']}"
        asked.append(asker.ask(path))
    return level, asked


def questions(asker, trace, timeline):
    """(what, what was asked)"""
    rng, length, path = random.Random(7), timeline["length_ns"], f"/v1/traces/{trace}"
    tenth = f"from={length // 2}&to={length // 2 + length // 10}"
    for span in SPANS:
        level, asked = tiles(asker, trace, timeline, span)
        yield f"tile: {span:g} of the trace, 2^{level} ns a pixel", asked
    yield "tile: all of the trace, again", tiles(asker, trace, timeline, 1, is_kept=True)[1]
    for what, query in (("search", "search?name=gemm"), ("search in a tenth", f"search?name=gemm&{tenth}"), ("selection of all", "selection?"),
                        ("selection of a tenth", f"selection?{tenth}")):
        yield what, [asker.ask(f"{path}/{query}") for _ in range(ROUNDS)]
    yield "a slice", [asker.ask(f"{path}/slice?slice={rng.randrange(timeline['slices'])}") for _ in range(PLACES)]


def first_timelines(profd, trace):
    """Each with a new viewer: profd is started again. The steps are asked for at once, as the page does after its first picture."""
    asked, steps = [], []
    for _ in range(FIRSTS):
        profd.restart()
        begun = time.monotonic_ns()
        timeline = profd.get(f"/v1/traces/{trace}/timeline")
        wall = time.monotonic_ns() - begun
        asked.append((cpu_ns(viewer_pid(profd)), wall, 0))
        steps.append(Asker(profd, viewer_pid(profd)).ask(f"/v1/traces/{trace}/timeline/steps"))
    return timeline, [describe("the first timeline, with a new viewer", asked), describe("the steps, with a new viewer", steps)]


def run(directory, options):
    path = of_slices(options.slices or "10M", directory, options)
    if not path:
        yield {"skipped": "the disk is too full"}
        return
    with Daemon(directory / "profd") as profd:
        begun = time.monotonic()
        trace = profd.request("POST", "/v1/traces", {"path": str(path)}, timeout=3600).json()["trace"]
        import_s = time.monotonic() - begun
        timeline, firsts = first_timelines(profd, trace)
        size = {"slices": timeline["slices"], "lanes": timeline["lanes"]}
        for first in firsts:
            yield {**size, **first}
        asker = Asker(profd, viewer_pid(profd))
        loop_lag_s(profd)
        for what, asked in questions(asker, trace, timeline):
            yield {**size, **describe(what, asked), "loop lag, ms": figure(loop_lag_s(profd) * 1e3)}
        yield {**size, "answer": "import", "times": 1, "wall p50, ms": figure(import_s * 1e3), "JSON GB": figure(path.stat().st_size / 1e9),
               "memory of the viewer, MiB": figure(anonymous_mib(asker.pid))}
