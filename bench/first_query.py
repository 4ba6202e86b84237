# SPDX-License-Identifier: Apache-2.0
"""The first question to a big trace: a process of profctl on its columns, next to SQLite over ordinary rows that were filled
before, with and without an index, and trace_processor, which has to load the trace for it."""
import math
import shutil
import subprocess

from common import BUILD
from contest import Contestant, in_turns, ratio, row
from grown import fits, grow, read

SLICES = 2_000_000
SLICES_LONG = 10_000_000
# Text of B for a slice, columns of it, and its row in SQLite with its index.
TEXT_BYTES, DISK_BYTES = 292, 400

GPU_WORK = "(category = 'kernel' OR category = 'gpu_memcpy')"
# The kernel statistics of RTP-LLM's profiling page.
KERNELS = f"""SELECT ROUND(AVG(dur) / 1000, 2) AS avg_us, MAX(dur) / 1000 AS max_us, MIN(dur) / 1000 AS min_us,
  ROUND(SUM(dur) / 1000.0 / 1000, 2) AS sum_ms, ROUND(SUM(dur) * 100.0 / (SELECT SUM(dur) FROM slice WHERE {GPU_WORK}), 1)
  AS percent, COUNT(name) AS count, name FROM (SELECT * FROM slice) WHERE {GPU_WORK} GROUP BY name ORDER BY SUM(dur) DESC, name"""
GAPS = "SELECT ts, diff FROM gap ORDER BY diff DESC, ts LIMIT 20"
# The same in linear time without the table.
GAPS_OF_ROWS = f"""SELECT ts, ts - COALESCE(LAG(ts) OVER w, 0) - LAG(dur) OVER w AS diff FROM slice WHERE {GPU_WORK}
  WINDOW w AS (ORDER BY ts, id) ORDER BY diff DESC, ts LIMIT 20"""
QUESTIONS = {"kernel statistics": (KERNELS, KERNELS), "gaps": (GAPS, GAPS_OF_ROWS)}
ROWS = "CREATE TABLE slice (id INTEGER PRIMARY KEY, ts INTEGER, dur INTEGER, name TEXT, category TEXT)"
# The coarsest rounding of the questions.
ROUNDED = 0.11
INDEX = "CREATE INDEX by_category ON slice (category, ts)"


def profctl(columns, sql):
    return [BUILD / "client/profctl", "query", columns, sql, "--tsv", "--time-limit", "1h"]


def sqlite(database, sql):
    return ["sqlite3", "-readonly", "-header", "-tabs", database, sql]


def trace_processor(options, trace, sql):
    query = trace.parent / "query.sql"
    query.write_text(sql + ";\n")
    return [options.trace_processor, "-q", query, trace]


def fill(columns, database):
    """The slices as rows of SQLite, through text."""
    subprocess.run(["sqlite3", database, ROWS], check=True)
    with subprocess.Popen(profctl(columns, "SELECT id, ts, dur, name, category FROM slice"), stdout=subprocess.PIPE) as rows:
        subprocess.run(["sqlite3", database, "-cmd", ".mode tabs", ".import --skip 1 /dev/stdin slice"], stdin=rows.stdout, check=True)


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


def ask(what, contestants, directory, **facts):
    costs = in_turns(contestants, directory)
    ours = next(iter(costs.values()))
    for name, runs in costs.items():
        yield {"question": what, "asked": name, **row(runs), "times profctl": ratio(runs, ours), "same answer": same(costs), **facts}


def run(directory, options):
    slices = SLICES_LONG if options.long else SLICES
    if not fits(directory, slices * DISK_BYTES):
        yield {"slices": slices, "skipped": "the disk is too full"}
        return
    trace, columns = directory / "trace.json.gz", directory / "trace.columns"
    rows, indexed = directory / "rows.db", directory / "indexed.db"
    facts = read(grow("B", slices * TEXT_BYTES, trace), columns)
    fill(columns, rows)
    shutil.copyfile(rows, indexed)
    subprocess.run(["sqlite3", indexed, INDEX], check=True)

    for what, (ours, theirs) in QUESTIONS.items():
        for cache in ("warm", "cold"):
            contestants = [Contestant("profctl", [profctl(columns, ours)]), Contestant("sqlite3", [sqlite(rows, theirs)]),
                           Contestant("sqlite3, indexed", [sqlite(indexed, theirs)])]
            if cache == "cold":
                for contestant, file in zip(contestants, (columns, rows, indexed)):
                    contestant.cold = (file,)
            yield from ask(what, contestants, directory, **{"page cache": cache, "slices": facts["slices"]})
    if options.trace_processor:
        # It loads the trace first: what a question takes is what is over the time of none.
        for what, sql in (("none", "SELECT 1"), *((what, theirs) for what, (_, theirs) in QUESTIONS.items())):
            peer = Contestant("trace_processor, with loading", [trace_processor(options, trace, sql)])
            for runs in in_turns([peer], directory).values():
                yield {"question": what, "asked": peer.name, **row(runs)}
