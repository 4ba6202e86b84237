#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks that are named, or all of them; one line of JSON a row. bench/README.md says what was measured."""
import argparse
import importlib
import itertools
import json
import pathlib
import tempfile

from grown import SLICES

BENCHMARKS = ("fanout", "idle", "catalog", "load", "generator", "trace", "columns", "parquet", "analyze", "web_tiles", "remote", "archive", "mirror", "many_hosts",
              "web", "web_lookers", "web_list")
ROUNDS = 5
MIRROR_PARTS = ("sending", "many", "stop", "asking")
TRACE_PARTS = ("reading", "scanning", "distinct", "query", "growth")


def cell(value):
    """Median (least - most) of what was measured several times, and how often where that is not the usual."""
    if isinstance(value, dict) and "median" in value:
        runs = "" if value["runs"] == ROUNDS else f", {value['runs']} runs"
        return f"{value['median']:g} ({value['least']:g} - {value['most']:g}{runs})"
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def print_tables(found):
    """Rows of one benchmark, or of one part of it, become a table."""
    for title, group in itertools.groupby(found, lambda row: row["benchmark"] + " " + row.get("part", "")):
        group = list(group)
        columns = list(dict.fromkeys(key for row in group for key in row if key not in ("benchmark", "part")))
        print(f"\n### {title}\n\n|", " | ".join(columns), "|\n|", " | ".join("---" for _ in columns), "|")
        for row in group:
            print("|", " | ".join(cell(row.get(column)) for column in columns), "|", flush=True)


def rows(names, options):
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"bench-{name}-", dir=options.directory) as directory:
            for row in importlib.import_module(name).run(pathlib.Path(directory), options):
                yield {"benchmark": name, **row}


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("benchmark", nargs="*", metavar="BENCHMARK", choices=[*BENCHMARKS, []], default=[],
                       help=f"to run: {', '.join(BENCHMARKS)} (default: all)")
    parse.add_argument("--table", action="store_true", help="tables in Markdown instead of JSON")
    parse.add_argument("--directory", help="where the files are made (default: $TMPDIR)")
    parse.add_argument("--long", action="store_true", help="trace: also 4 and 16 GB and ten million slices; parquet: ten million slices; catalog: ten million traces")
    parse.add_argument("--slices", choices=tuple(SLICES), help="web, web_tiles, web_lookers: of a trace with that many (default: 10M)")
    parse.add_argument("--keep", metavar="DIRECTORY", help="web, web_tiles, web_lookers: the grown traces stay there, and are made once")
    parse.add_argument("--hosts", type=int, action="append", metavar="N", help="many_hosts: with N hosts (repeatable)")
    parse.add_argument("--part", action="append", choices=TRACE_PARTS + MIRROR_PARTS, help="trace, mirror: only this part (repeatable)")
    parse.add_argument("--trace-processor", metavar="PATH", help="trace: Perfetto's trace_processor_shell as a peer")
    parse.add_argument("--duckdb", metavar="PATH", help="trace, parquet: DuckDB's libduckdb.so as a peer (npm install "
                       "@duckdb/node-bindings-linux-x64 has one, so does a release of DuckDB)")
    parse.add_argument("--hta", metavar="PYTHON", help="trace, analyze: an interpreter that has HolisticTraceAnalysis, as a peer")
    parse.add_argument("--slime", metavar="SCRIPT", help="trace, analyze: slime's tools/analyze_profile.py, as a peer")
    options = parse.parse_args()
    found = rows(options.benchmark or BENCHMARKS, options)
    if options.table:
        print_tables(found)
        return
    for row in found:
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
