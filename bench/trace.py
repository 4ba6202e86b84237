# SPDX-License-Identifier: Apache-2.0
"""The trace engine next to its limit and its peers: reading, scanning, first queries, growth. Two processors for everyone."""
import os
import re
import statistics
import subprocess

import first_query
from analyze import slime
from common import BUILD, slope, summary
from contest import Contestant, in_turns, ratio, row
from grown import PACKED, PROGRAMS, SOURCES, fits, grow, read

PROCESSORS = 2
SIZE = 500_000_000
SIZE_LONG = 4_000_000_000
GROWTH = (100_000_000, 500_000_000, 1_000_000_000)
GROWTH_LONG = (100_000_000, 1_000_000_000, 4_000_000_000, 16_000_000_000)
DISTINCT = 1_000_000
PYTHON = "/usr/bin/python3"
PYTHON_JSON = "import gzip, json, sys\nwith (gzip.open if sys.argv[1].endswith('.gz') else open)(sys.argv[1]) as f: json.load(f)"
HTA_LOAD = "import sys\nfrom hta.trace_analysis import TraceAnalysis\nTraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir='')"
# SIZE_MAX and CPU_SECONDS of profd-ingest.
INGEST_LIMITS = (str(1 << 40), "3600")


def reader(path, columns, name="read-trace"):
    return Contestant(name, [[PROGRAMS / "read-trace", path, columns]])


def ingest(path, columns):
    """The columns alone: no copy of the trace."""
    return Contestant("profd-ingest", [["sh", "-c", ': >"$5"; exec "$1" "$2" "$3" 3<"$4" 4>&- 5<>"$5" 6>&- 7>&-', "sh",
                                        BUILD / "daemon/ingest/profd-ingest", *INGEST_LIMITS, path, columns]])


def peers(path, options):
    """Those that are installed or named. What cannot inflate by itself reads from a pipe."""
    for name in ("peer-simdjson", "peer-yajl"):
        program = PROGRAMS / name
        if program.exists():
            yield Contestant(name, [["igzip", "-dc", path], [program, "-"]] if path.suffix == ".gz" else [[program, path]])
    yield Contestant("python json", [[PYTHON, "-c", PYTHON_JSON, path]])
    if options.trace_processor:
        yield Contestant("trace_processor", [first_query.trace_processor(options, path, "SELECT COUNT(*), SUM(dur) FROM slice")])
    if options.hta:
        yield Contestant("HTA", [[options.hta, "-c", HTA_LOAD, path]])
    if options.slime and path.suffix == ".gz":
        yield slime(options.slime, path, path.parent)


def compare(what, path, contestants, directory):
    """A row for each contestant next to igzip, where it takes part, and profd-ingest."""
    facts = read(path, directory / "facts.columns")
    costs = in_turns(contestants, directory)
    for name, runs in costs.items():
        answer = {"what": what, "reader": name, **row(runs),
                  "JSON GB/s": summary([facts["text_bytes"] / 1e9 / run.wall_s for run in runs]),
                  "times igzip": ratio(runs, costs["igzip"]) if "igzip" in costs else None,
                  "times profd-ingest": ratio(runs, costs["profd-ingest"])}
        if name == "read-trace":
            answer |= facts | {"columns bytes a slice": round(facts["columns_bytes"] / facts["slices"], 1)}
        yield answer


def igzip(path):
    return Contestant("igzip", [["igzip", "-dc", path]], stdout=os.devnull)


def reading(directory, options):
    """Both traces, compressed and plain, page cache warm; the peers on the smaller size only."""
    for size in (SIZE, SIZE_LONG) if options.long else (SIZE,):
        for name in SOURCES if size == SIZE else ("B",):
            for suffix in (".json.gz", ".json"):
                what = f"{name}, {size / 1e9:g} GB, {suffix}"
                if not fits(directory, 2 * size):
                    yield {"what": what, "skipped": "the disk is too full"}
                    continue
                path, columns = grow(name, size, directory / f"trace{suffix}"), directory / "columns"
                field = [igzip(path)] if suffix == ".json.gz" else []
                field += [reader(path, columns), ingest(path, columns)]
                yield from compare(what, path, field + list(peers(path, options) if size == SIZE else ()), directory)
                path.unlink()


def scanning(directory, _options):
    """One core, from memory; the program runs all in turns, five times."""
    for name in SOURCES:
        path = grow(name, SIZE, directory / f"{name}.json")
        answer = subprocess.run([PROGRAMS / "scan-speed", path], check=True, capture_output=True, text=True).stdout
        speeds = {who: [float(speed) for speed in speeds.split()] for who, speeds in re.findall(r"^(.+) GB/s: (.+)$", answer, re.M)}
        yield {"what": f"scan {name}, {SIZE / 1e9:g} GB", **{f"{who} GB/s": summary(values) for who, values in speeds.items()},
               "times memchr": summary([limit / own for own, limit in zip(speeds["scan"], speeds["memchr"])])}
        path.unlink()


def distinct(directory, _options):
    """A million different names, next to the same trace without them."""
    for suffix in (".json.gz", ".json"):
        few, many = grow("B", SIZE, directory / f"few{suffix}"), grow("B", SIZE, directory / f"many{suffix}", DISTINCT)
        facts = read(many, directory / "facts.columns")
        costs = in_turns([reader(few, directory / "columns", "few"), reader(many, directory / "columns", "many")], directory)
        yield {"what": f"B with a million names, {suffix}", **row(costs["many"]),
               "JSON GB/s": summary([facts["text_bytes"] / 1e9 / run.wall_s for run in costs["many"]]),
               "times B without them": ratio(costs["many"], costs["few"]), "strings": facts["strings"]}
        few.unlink()
        many.unlink()


def growth(directory, options):
    """Cost and memory by size, compressed. Slope: from the row before."""
    before = None
    for size in GROWTH_LONG if options.long else GROWTH:
        if not fits(directory, 2 * size // PACKED):
            yield {"size GB": size / 1e9, "skipped": "the disk is too full"}
            continue
        path = grow("B", size, directory / "trace.json.gz")
        facts = read(path, directory / "facts.columns")
        costs = in_turns([igzip(path), reader(path, directory / "columns")], directory)
        runs = costs["read-trace"]
        now = facts["text_bytes"] / 1e9, statistics.median(run.wall_s for run in runs)
        yield {"size GB": size / 1e9, **row(runs), "seconds a GB": summary([run.wall_s / now[0] for run in runs]),
               "slope": slope(*now, *before) if before else None,
               "times igzip": ratio(runs, costs["igzip"]), "slices": facts["slices"],
               "columns bytes a slice": round(facts["columns_bytes"] / facts["slices"], 1)}
        before = now
        path.unlink()


PARTS = {"reading": reading, "scanning": scanning, "distinct": distinct, "query": first_query.run, "growth": growth}


def run(directory, options):
    if not all(source.exists() for source in SOURCES.values()):
        yield {"skipped": "the real traces are not next to the checkout"}
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])
    for name in options.part or PARTS:
        for answer in PARTS[name](directory, options):
            yield {"part": name, **answer}
