# SPDX-License-Identifier: Apache-2.0
"""The mirror in PostgreSQL (fsync off, on loopback), in parts (--part):

- sending: how fast one profd fills an empty one, next to COPY of the same rows into copies of the same tables without the sums, by turns.
- many: 400,000 rows, each of which is counted afterwards.
- stop: from the end of a recording of 8 workers to the session's end in the catalog, and to the last row in PostgreSQL.
- asking: how long a question over the kernels of many traces takes. The sums of a million traces over a year are made by SQL, 20 kernels
  each of 5,000 names, from 1,000 hosts. `x 10` is the time for ten times as many traces, calculated: rows in the window and figures of
  each grow alike, and none of them is in memory twice."""
import contextlib
import pathlib
import sqlite3
import subprocess
import sys
import time

from common import BUILD, ROOT, figure, summary

sys.path.insert(0, str(ROOT / "tests/fleet"))
sys.path.insert(0, str(ROOT / "tests/integration"))
from daemon import Daemon, FaultFleet, quick_config, wait_for  # noqa: E402
from postgres import Postgres  # noqa: E402

PROFCTL = BUILD / "client/profctl"
TRACES, EVENTS = 10_000, 60_000
MANY_TRACES, MANY_EVENTS = 20_000, 380_000
ROUNDS = 5
STOPS, WORKERS = 11, 8
KERNELS, NAMES, HOSTS = 20, 5_000, 1_000
SUMS = 1_000_000
WINDOWS = (("7 days", "interval '7 days'"), ("30 days", "interval '30 days'"), ("a year", "interval '366 days'"))
QUERY = ("select host, name, sum(sum_ns) from kernel_sums where recorded_at > now() - {} group by 1, 2 order by 3 desc limit 20",
         "select name, sum(sum_ns) from kernel_sums where recorded_at > now() - {} group by 1 order by 2 desc limit 20")


def fill(catalog, traces, events):
    """Traces with 20 kernels each, and events."""
    now = time.time_ns()
    with contextlib.closing(sqlite3.connect(catalog, timeout=30)) as db, db:
        db.executemany("insert into name_row (name_id, name) values (?, ?)", [(k + 1, f"kernel_{k}") for k in range(KERNELS)])
        db.executemany("insert into event_row (at, kind, actor, text) values (?, 'bench', 'bench', 'an event')", [(now + i,) for i in range(events)])
        for i in range(traces):
            path = f"/nowhere/{i}.json.gz"
            trace = db.execute("insert into trace_row (uuid, kind, state, name, path, origin, stored, size, disk_size, sha256, format, rank, world_size, "
                               "events, recorded_at, collected_at, labels) values (lower(hex(randomblob(4))) || '-0000-4000-8000-' || "
                               "lower(hex(randomblob(6))), 'trace', 'missing', ?, ?, ?, 0, 12345678, 0, lower(hex(randomblob(32))), 'kineto', ?, 8, 100000, "
                               "?, ?, '{}')", (f"rank-{i % 8}.json.gz", path, path, i % 8, now + i * 1000, now + i * 1000)).lastrowid
            db.executemany("insert into trace_name_row values (?, 'kernel', ?, 100, ?, 1, 1000)", [(trace, k + 1, 10**6 + k) for k in range(KERNELS)])
            db.executemany("insert into trace_category_row values (?, ?, 5, 7)", [(trace, "kernel"), (trace, "cpu_op")])


def mirrored(pg):
    return quick_config(more=f"[mirror]\nurl={pg.local_url('fleet_writer')}\n")


def wait_current(profd):
    return wait_for(lambda: (lambda s: s["state"] == "current" and s.get("lag") == 0 and s)(profd.get("/v1/mirror")), 300, 0.05)


def send_all(pg, directory):
    """Rows and seconds, with the start of profd."""
    pg.sql("truncate fleet.catalog, fleet.trace, fleet.trace_sum, fleet.event, fleet.name")
    begin = time.monotonic()
    with Daemon(directory, mirrored(pg)) as profd:
        rows = wait_current(profd)["rows"]
        wall = time.monotonic() - begin
        lag = next(line.split()[1] for line in profd.request("GET", "/metrics").body.decode().split("\n") if line.startswith("profd_event_loop_lag"))
    return rows, wall, float(lag) * 1000


def copy_all(pg):
    """Rows and seconds of COPY, of the same traces and events."""
    texts = {table: pg.psql("-c", f"copy (select * from fleet.{table}) to stdout").stdout for table in ("trace", "event")}
    begin = time.monotonic()
    for table, text in texts.items():
        pg.psql("-c", f"copy copied_{table} from stdin", stdin=text)
    wall = time.monotonic() - begin
    pg.sql("truncate copied_trace, copied_event")
    return sum(text.count("\n") for text in texts.values()), wall


def sending(pg, directory):
    with Daemon(directory / "sending", quick_config()) as profd:
        fill(profd.catalog, TRACES, EVENTS)
    for table in ("trace", "event"):
        pg.sql(f"create table copied_{table} (like fleet.{table} including all)")
    mine, theirs, lags = [], [], []
    for _ in range(ROUNDS):
        rows, wall, lag = send_all(pg, directory / "sending")
        mine.append(rows / wall)
        lags.append(lag)
        rows, wall = copy_all(pg)
        theirs.append(rows / wall)
    yield {"part": "sending", "what": f"{TRACES} traces with {KERNELS} kernels, {EVENTS} events", "profd rows/s": summary(mine), "COPY rows/s": summary(theirs),
           "ratio": summary([m / t for m, t in zip(mine, theirs)]), "loop lag ms": summary(lags)}


def many(pg, directory):
    with Daemon(directory / "many", quick_config()) as profd:
        fill(profd.catalog, MANY_TRACES, MANY_EVENTS)
    rows, wall, lag = send_all(pg, directory / "many")
    for table, n in (("trace", MANY_TRACES), ("event", MANY_EVENTS)):
        found = pg.sql(f"select count(*), count(distinct {table}_id) from fleet.{table}")[0]
        assert int(found[0]) == int(found[1]) >= n, (table, found)
    yield {"part": "many", "rows": rows, "seconds": figure(wall), "rows/s": figure(rows / wall), "loop lag ms": figure(lag)}


def stop(pg, directory):
    ends, last = [], []
    with FaultFleet(directory / "fleet", "vllm", WORKERS) as fleet, Daemon(directory / "stop", mirrored(pg)) as profd:
        for _ in range(STOPS):
            wait_current(profd)
            session = profd.start_session(router=fleet.router)["session"]
            profd.wait_state(session, "recording")
            begin = time.monotonic()
            profd.post(f"/v1/sessions/{session}/stop", {})
            profd.wait_session(session)
            ends.append((time.monotonic() - begin) * 1e3)
            wait_current(profd)
            last.append((time.monotonic() - begin) * 1e3)
        traces = int(pg.sql("select count(*) from fleet.trace where session_id is not null")[0][0])
        assert traces == STOPS * WORKERS, traces
    yield {"part": "stop", "workers": WORKERS, "to the session's end ms": summary(ends), "to the last row ms": summary(last),
           "between ms": summary([b - a for a, b in zip(ends, last)])}


def make_sums(pg):
    """Through no profd: what one would have sent in a year."""
    pg.sql(f"insert into fleet.name (name) select 'void kernel_' || g || repeat('x', 60) from generate_series(1, {NAMES}) g")
    first = int(pg.sql("select min(name_id) from fleet.name where name like 'void kernel%'")[0][0]) - 1
    pg.sql(f"insert into fleet.catalog (uuid, host) select gen_random_uuid(), 'gpu' || g from generate_series(1, {HOSTS}) g")
    pg.sql("select fleet.make_partitions('trace_sum', array(select generate_series(now() - interval '366 days', now(), interval '1 day')))")
    base = int(pg.sql("select max(catalog_id) from fleet.catalog")[0][0]) - HOSTS
    ids = ", ".join(f"((g * 7 + {k * 13}) % {NAMES} + 1 + {first})::int" for k in range(KERNELS))
    sums = ", ".join(f"(g % 1000) * 1000 + {k}" for k in range(KERNELS))
    pg.sql(f"insert into fleet.trace_sum (catalog_id, trace_id, collected_at, recorded_at, trace_uuid, session_uuid, worker, rank, kernel_ids, "
           f"kernel_counts, kernel_sums, kernel_mins, kernel_maxs) select {base} + 1 + g % {HOSTS}, g, t, t, gen_random_uuid(), gen_random_uuid(), "
           f"'http://10.0.0.1:8000', g % 8, array[{ids}], array[{sums}]::bigint[], array[{sums}]::bigint[], array[{sums}]::bigint[], array[{sums}]::bigint[] "
           f"from (select g::bigint, now() - interval '365 days' + g * interval '365 days' / {SUMS} as t from generate_series(1, {SUMS}) g) x")
    pg.sql("vacuum analyze fleet.trace_sum")


def asking(pg):
    make_sums(pg)
    size = int(pg.sql("select sum(pg_total_relation_size(c.oid)) from pg_inherits i join pg_class c on c.oid = i.inhrelid "
                      "where i.inhparent = 'fleet.trace_sum'::regclass")[0][0])
    yield {"part": "asking", "what": "size of the sums", "rows": SUMS, "MB": figure(size / 1e6), "bytes a trace": figure(size / SUMS)}
    for title, window in WINDOWS:
        for name, query in zip(("by host and kernel", "by kernel"), QUERY):
            best = []
            for _ in range(2):
                begin = time.monotonic()
                done = subprocess.run([PROFCTL, "query", f"--mirror={pg.local_url('fleet_reader')}", "--time-limit=10min", "--json", query.format(window)],
                                      capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
                best.append(time.monotonic() - begin)
            yield {"part": "asking", "what": f"{title}, {name}", "seconds": figure(min(best)), "x 10": figure(10 * min(best))}


PARTS = {"sending": sending, "many": many, "stop": stop, "asking": lambda pg, _: asking(pg)}


def run(directory, options):
    directory = pathlib.Path(directory)
    for name in options.part or PARTS:
        with Postgres(["max_wal_size=4GB"]) as pg:
            subprocess.run([PROFCTL, "mirror", "init", pg.local_url()], check=True, capture_output=True)
            yield from PARTS[name](pg, directory)
