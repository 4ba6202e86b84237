# SPDX-License-Identifier: Apache-2.0
"""Parquet files of slices: size and time of `profctl export --format parquet`, next to DuckDB's writer with the same rows and columns.

profctl is the entire process, which reads columns of a trace. DuckDB's time is that of its COPY from a table in memory, with one
thread; it needs --duckdb."""
import dataclasses
import pathlib
import statistics
import sys

from common import BUILD, figure
from contest import Contestant, in_turns, ratio, row
from grown import fits, grow, read

SLICES = 1_000_000
SLICES_LONG = 10_000_000
# Text of a slice of A and B.
TEXT_BYTES = {"A": 466, "B": 292}
PEER = pathlib.Path(__file__).with_name("parquet-peer.py")


# Encodings of DuckDB: its default, and those with differences, which not every reader knows.
VERSIONS = {"DuckDB": "V1", "DuckDB, V2": "V2"}


def export(columns, target):
    return [BUILD / "client/profctl", "export", columns, "--format", "parquet", "-o", target, "--quiet"]


def write(contestants, directory):
    """{name: costs}; of DuckDB only the time of writing."""
    costs = in_turns(contestants, directory)
    for name in VERSIONS.keys() & costs.keys():
        # The first turn was discarded.
        times = (directory / f"{name}.times").read_text().split()[1:]
        costs[name] = [dataclasses.replace(cost, wall_s=float(line), cpu_s=float(line))
                       for cost, line in zip(costs[name], times, strict=True)]
        (directory / f"{name}.times").unlink()
    return costs


def run(directory, options):
    slices = SLICES_LONG if options.long else SLICES
    for name, text_bytes in TEXT_BYTES.items():
        if not fits(directory, slices * text_bytes * 2):
            yield {"trace": name, "skipped": "the disk is too full"}
            continue
        trace, columns, ours = directory / f"{name}.json", directory / f"{name}.columns", directory / "profctl.parquet"
        facts = read(grow(name, slices * text_bytes, trace), columns)
        trace.unlink()
        contestants = [Contestant("profctl", [export(columns, ours)])]
        if options.duckdb:
            contestants += [Contestant(peer, [[sys.executable, PEER, options.duckdb, ours, directory / f"{peer}.parquet",
                                               directory / f"{peer}.times", version]]) for peer, version in VERSIONS.items()]
        costs = write(contestants, directory)
        sizes = {writer: (directory / f"{writer}.parquet").stat().st_size for writer in costs}
        for writer, runs in costs.items():
            peers = {"size / DuckDB": figure(sizes[writer] / sizes["DuckDB"]), "time / DuckDB": ratio(runs, costs["DuckDB"])}
            yield {"trace": name, "slices": facts["slices"], "writer": writer, **row(runs),
                   "million rows/s": figure(facts["slices"] / statistics.median(cost.wall_s for cost in runs) / 1e6),
                   "bytes/row": figure(sizes[writer] / facts["slices"]), **(peers if options.duckdb else {})}
