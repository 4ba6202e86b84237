# SPDX-License-Identifier: Apache-2.0
"""The first question to a big trace: a process of profctl on its columns, next to SQLite over ordinary rows that were filled
before, with and without indexes, DuckDB over the same rows as Parquet, and trace_processor, which has to load the trace for it."""
import dataclasses
import math
import pathlib
import shutil
import statistics
import subprocess
import sys

from common import BUILD, figure
from contest import Contestant, in_turns, ratio, row
from grown import fits, grow, read

SLICES = 2_000_000
SLICES_LONG = 10_000_000
# Text of B for a slice, columns of it, its row in SQLite with its indexes, and in Parquet.
TEXT_BYTES, DISK_BYTES = 292, 450

GPU_WORK = "(category = 'kernel' OR category = 'gpu_memcpy')"
# The kernel statistics of RTP-LLM's profiling page.
KERNELS = f"""SELECT ROUND(AVG(dur) / 1000, 2) AS avg_us, MAX(dur) / 1000 AS max_us, MIN(dur) / 1000 AS min_us,
  ROUND(SUM(dur) / 1000.0 / 1000, 2) AS sum_ms, ROUND(SUM(dur) * 100.0 / (SELECT SUM(dur) FROM slice WHERE {GPU_WORK}), 1)
  AS percent, COUNT(name) AS count, name FROM (SELECT * FROM slice) WHERE {GPU_WORK} GROUP BY name ORDER BY SUM(dur) DESC, name"""
GAPS = "SELECT ts, diff FROM gap ORDER BY diff DESC, ts LIMIT 20"
# The same in linear time without the table.
GAPS_OF_ROWS = f"""SELECT ts, ts - COALESCE(LAG(ts) OVER w, 0) - LAG(dur) OVER w AS diff FROM slice WHERE {GPU_WORK}
  WINDOW w AS (ORDER BY ts, id) ORDER BY diff DESC, ts LIMIT 20"""
# Sums, and the first page of a list, as they are typed. {time}: a second in the middle of the trace.
NAMES = "SELECT name, count(*) AS n, sum(dur) AS total FROM slice GROUP BY name ORDER BY name"
TOTALS = "SELECT count(*) AS n, sum(dur) AS total FROM slice"
PAGE = "SELECT id, ts, dur, name FROM slice WHERE {time} ORDER BY id LIMIT 100"
SECOND = TOTALS + " WHERE {time}"
# For profctl, and for the others.
QUESTIONS = {"kernel statistics": (KERNELS, KERNELS), "gaps": (GAPS, GAPS_OF_ROWS), "sums by name": (NAMES, NAMES),
             "totals": (TOTALS, TOTALS), "a second, 100 rows": (PAGE, PAGE), "a second, totals": (SECOND, SECOND)}
# Integer division is written in another way there, and a window over all rows is no question of one core.
WITHOUT_DUCKDB = ("kernel statistics", "gaps")
# What a process takes to start, a part of all others.
NONE = "SELECT 1 AS one"
SLICES_OF = "SELECT id, ts, dur, name, category FROM slice"
ROWS = "CREATE TABLE slice (id INTEGER PRIMARY KEY, ts INTEGER, dur INTEGER, name TEXT, category TEXT)"
# The coarsest rounding of the questions.
ROUNDED = 0.11
INDEXES = "CREATE INDEX by_category ON slice (category, ts); CREATE INDEX by_ts ON slice (ts)"
PARQUET = """COPY (FROM read_csv('/dev/stdin', header = true, delim = ',', quote = '"', escape = '"', parallel = false,
  auto_detect = false, columns = {id: 'BIGINT', ts: 'BIGINT', dur: 'BIGINT', name: 'VARCHAR', category: 'VARCHAR'}))
  TO 'FILE' (FORMAT parquet)"""
DUCKDB_PEER = pathlib.Path(__file__).with_name("duckdb-peer.py")


def profctl(columns, sql, form="--tsv"):
    return [BUILD / "client/profctl", "query", columns, sql, form, "--time-limit", "1h"]


def sqlite(database, sql):
    return ["sqlite3", "-readonly", "-header", "-tabs", database, sql]


def trace_processor(options, trace, sql):
    query = trace.parent / "query.sql"
    query.write_text(sql + ";\n")
    return [options.trace_processor, "-q", query, trace]


def duckdb(options, file, times, sql):
    """On one core, as profctl."""
    return [sys.executable, DUCKDB_PEER, options.duckdb, times, "SET threads = 1", f"CREATE VIEW slice AS FROM '{file}'", sql]


def fill(columns, database):
    """The slices as rows of SQLite, through text."""
    subprocess.run(["sqlite3", database, ROWS], check=True)
    with subprocess.Popen(profctl(columns, SLICES_OF), stdout=subprocess.PIPE) as rows:
        subprocess.run(["sqlite3", database, "-cmd", ".mode tabs", ".import --skip 1 /dev/stdin slice"], stdin=rows.stdout, check=True)


def fill_parquet(options, columns, file):
    with subprocess.Popen(profctl(columns, SLICES_OF, "--csv"), stdout=subprocess.PIPE) as rows:
        subprocess.run([sys.executable, DUCKDB_PEER, options.duckdb, "/dev/null", PARQUET.replace("FILE", str(file)), NONE],
                       stdin=rows.stdout, stdout=subprocess.DEVNULL, check=True)


def second_of(columns):
    """A condition: the second in the middle of a trace."""
    done = subprocess.run(profctl(columns, "SELECT (min(ts) + max(ts)) / 2 FROM slice"), check=True, capture_output=True, text=True)
    middle = int(done.stdout.split()[-1])
    return f"ts >= {middle} AND ts < {middle + 10**9}"


def alike(a, b):
    """Two cells: rounding is done differently by SQLite's versions."""
    try:
        return math.isclose(float(a), float(b), abs_tol=ROUNDED)
    except ValueError:
        return a == b


def same(costs):
    """Every one has given the same answer."""
    tables = [[line.split("\t") for line in runs[0].output.splitlines()] for runs in costs.values()]
    return all(len(tables[0]) == len(table) and all(alike(a, b) for ours, theirs in zip(tables[0], table)
                                                    for a, b in zip(ours, theirs, strict=True)) for table in tables)


def ask(what, contestants, directory, times, starts, **facts):
    """starts: the median of question none, for each who was asked."""
    costs = in_turns(contestants, directory)
    if times.exists():
        # The first turn was discarded.
        costs["DuckDB"] = [dataclasses.replace(cost, wall_s=float(line))
                           for cost, line in zip(costs["DuckDB"], times.read_text().split()[1:], strict=True)]
        times.unlink()
    ours = next(iter(costs.values()))
    for name, runs in costs.items():
        wall_s = statistics.median(cost.wall_s for cost in runs)
        if what == "none":
            starts[name] = wall_s
        yield {"question": what, "asked": name, **row(runs), "without start s": figure(max(wall_s - starts[name], 0)),
               "times profctl": ratio(runs, ours), "same answer": same(costs), **facts}


def run(directory, options):
    slices = SLICES_LONG if options.long else SLICES
    if not fits(directory, slices * DISK_BYTES):
        yield {"slices": slices, "skipped": "the disk is too full"}
        return
    trace, columns, times = directory / "trace.json.gz", directory / "trace.columns", directory / "times"
    rows, indexed, parquet = directory / "rows.db", directory / "indexed.db", directory / "rows.parquet"
    facts = read(grow("B", slices * TEXT_BYTES, trace), columns)
    fill(columns, rows)
    shutil.copyfile(rows, indexed)
    subprocess.run(["sqlite3", indexed, INDEXES], check=True)
    if options.duckdb:
        fill_parquet(options, columns, parquet)
    second, starts = second_of(columns), {}

    for what, questions in {"none": (NONE, NONE), **QUESTIONS}.items():
        ours, theirs = (sql.replace("{time}", second) for sql in questions)
        for cache in ("warm",) if what == "none" else ("warm", "cold"):
            contestants = [Contestant("profctl", [profctl(columns, ours)]), Contestant("sqlite3", [sqlite(rows, theirs)]),
                           Contestant("sqlite3, indexed", [sqlite(indexed, theirs)])]
            if cache == "cold":
                for contestant, file in zip(contestants, (columns, rows, indexed)):
                    contestant.cold = (file,)
            elif options.duckdb and what not in WITHOUT_DUCKDB:
                contestants.append(Contestant("DuckDB", [duckdb(options, parquet, times, theirs)]))
            yield from ask(what, contestants, directory, times, starts, **{"page cache": cache, "slices": facts["slices"]})
    if options.trace_processor:
        # It loads the trace first: what a question takes is what is over the time of none.
        for what, (_, theirs) in {"none": (NONE, NONE), **QUESTIONS}.items():
            peer = Contestant("trace_processor, with loading",
                              [trace_processor(options, trace, theirs.replace("{time}", second))])
            for runs in in_turns([peer], directory).values():
                yield {"question": what, "asked": peer.name, **row(runs)}
