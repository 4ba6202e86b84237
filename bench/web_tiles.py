# SPDX-License-Identifier: Apache-2.0
"""What a timeline costs: processor time of the viewer for a tile at several levels of a big trace, for search, selection and a slice,
and how late profd's loop is meanwhile.

    web_tiles.py [TRACE]        without a trace, B of grown.py is grown to ten million slices
"""
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

from common import Daemon, figure, percentile
from grown import fits, grow

SIZE = 3_800_000_000
PLACES = 100
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


def describe(asked):
    cpu, wall, size = (sorted(values) for values in zip(*asked))
    return {"cpu_ms": {"p50": figure(statistics.median(cpu) / NS_PER_MS), "p95": figure(percentile(cpu, 95) / NS_PER_MS)},
            "wall_ms": {"p50": figure(statistics.median(wall) / NS_PER_MS), "p95": figure(percentile(wall, 95) / NS_PER_MS)},
            "bytes": {"p50": statistics.median(size), "most": size[-1]}}


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


def measure(profd, path):
    begun = time.monotonic()
    trace = profd.request("POST", "/v1/traces", {"path": str(path)}, timeout=1800).json()["trace"]
    figures = {"import_s": figure(time.monotonic() - begun)}
    begun = time.monotonic()
    timeline = profd.get(f"/v1/traces/{trace}/timeline")
    figures["first_timeline_s"] = figure(time.monotonic() - begun)
    figures |= {name: timeline[name] for name in ("slices", "lanes", "length_ns", "names")}
    asker = Asker(profd, viewer_pid(profd))
    loop_lag_s(profd)
    for span in SPANS:
        level, asked = tiles(asker, trace, timeline, span)
        figures[f"tile of {span:g} of the trace, 2^{level} ns a pixel"] = describe(asked)
    figures["loop_lag_ms"] = figure(loop_lag_s(profd) * 1e3)
    name, length = "gemm", timeline["length_ns"]
    figures["search"] = describe([asker.ask(f"/v1/traces/{trace}/search?name={name}")])
    figures["search in a tenth"] = describe([asker.ask(f"/v1/traces/{trace}/search?name={name}&from={length // 2}&to={length // 2 + length // 10}")])
    figures["selection of all"] = describe([asker.ask(f"/v1/traces/{trace}/selection")])
    figures["selection of a tenth"] = describe([asker.ask(f"/v1/traces/{trace}/selection?from={length // 2}&to={length // 2 + length // 10}")])
    rng = random.Random(7)
    figures["slice"] = describe([asker.ask(f"/v1/traces/{trace}/slice?slice={rng.randrange(timeline['slices'])}") for _ in range(PLACES)])
    figures["loop_lag_ms of these"] = figure(loop_lag_s(profd) * 1e3)
    return figures


def main():
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        if len(sys.argv) > 1:
            path = pathlib.Path(sys.argv[1])
        elif fits(directory, 3 * SIZE):
            path = grow("B", SIZE, directory / "big.json")
        else:
            sys.exit("web_tiles: not enough free disk")
        with Daemon(directory / "profd", "") as profd:
            print(json.dumps(measure(profd, path.resolve()), indent=1))


main()
