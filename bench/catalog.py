# SPDX-License-Identifier: Apache-2.0
"""Catalogs of a million traces, and with --long of ten million: how long `profctl list-traces` takes, as a complete process, next
to sqlite3 reading the same rows, and to its limits: a process that does nothing, one that also links what profctl links, and the
response of profd alone. Slope: from the row with a tenth of the traces.

Before that, what numbering changes for a mirror or a coordinator costs imports: in processor time of the catalog alone, next to the
same without it (catalog-imports.c)."""
import json
import os
import pathlib
import socket
import subprocess
import time

import contest
from common import BUILD, Daemon, slope, summary

SIZES = (1_000_000, 10_000_000)
ROUNDS = 11
EPOCH_S = 1_760_000_000
TRACES_OF_SESSION = 101

# The rows have no files behind them, and say so: else profd would mark them when it starts. Nothing is lost where a crash spoils
# the file, and names in order fill their index from its end: so ten million rows take about two minutes.
FILL = """
pragma synchronous = off;
pragma cache_size = -1000000;
begin;
insert into worker_row (worker_id, url, engine, role, health, profilable, last_seen_at)
  with recursive n (i) as (select 1 union all select i + 1 from n where i < 100)
  select i, 'http://10.0.0.' || i || ':8000', 'vllm', 'regular', 'healthy', 1, 1 from n;
insert into session_row (session_id, state, options, requested_at, requested_by)
  with recursive n (i) as (select 1 union all select i + 1 from n where i < {sessions})
  select i, 'complete', '{{}}', i * 1000000000, 'uid 0' from n;
insert into trace_row (session_id, worker_id, kind, state, name, path, origin, stored, size, disk_size, recorded_at, collected_at, rank)
  with recursive n (i) as (select 1 union all select i + 1 from n where i < {traces})
  select 1 + i / {of_session}, 1 + i % 100, 'trace', 'missing', 'rank0.' || i || '.pt.trace.json.gz',
         format('/store/s%06d/%08d', 1 + i / {of_session}, i), format('/traces/%08d', i), 1, 1000000 + i % 1000, 1000000 + i % 1000,
         ({epoch} + i) * 1000000000, 1, i % 8
  from n;
commit;
"""


def fill(catalog, traces):
    sql = FILL.format(traces=traces, sessions=1 + traces // TRACES_OF_SESSION, of_session=TRACES_OF_SESSION, epoch=EPOCH_S)
    subprocess.run(["sqlite3", catalog], input=sql, text=True, check=True)
    os.sync()


def queries(traces):
    """(what, options of profctl, parameters of the request, condition in SQL)"""
    since = EPOCH_S + traces - 19
    return (("newest 50", [], "", "1"),
            ("--session s5000", ["--session", "s5000"], "&session=s5000", "session_id = 5000"),
            ("--since, the newest 20", ["--since", f"@{since}"], f"&since={since}000000000", f"recorded_at >= {since}000000000"))


def wait_at_rest(profd):
    """profd compares the catalog with its store when it starts: until that takes no processor time any more."""
    used = None
    while (now := pathlib.Path(f"/proc/{profd.pid}/stat").read_text().split()[13:15]) != used:
        used = now
        time.sleep(1)


def response_ms(profd, path):
    """From connecting to the last byte of the response: what profd takes, and no process."""
    began = time.monotonic()
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(profd.socket))
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        while s.recv(1 << 16):
            pass
    return (time.monotonic() - began) * 1e3


def in_turns(profd, options, parameters, where, directory):
    """{who: milliseconds of each round}"""
    statement = f"select * from traces where {where} order by recorded_at desc limit 50"
    contestants = [contest.Contestant(name, [command]) for name, command in (
        ("profctl", [BUILD / "client/profctl", "--socket", profd.socket, "list-traces", *options]),
        ("sqlite3", ["sqlite3", "-readonly", profd.catalog, statement]),
        ("empty", [BUILD / "bench/empty"]),
        ("empty, linked", [BUILD / "bench/empty-linked"]))]
    rounds = []
    for _ in range(ROUNDS + 1):
        costs = {c.name: contest.run(c, directory) for c in contestants}
        rounds.append({**{name: cost.wall_s * 1e3 for name, cost in costs.items()}, "user+sys": costs["profctl"].cpu_s * 1e3,
                       "response": response_ms(profd, f"/v1/traces?limit=50{parameters}")})
    return {who: [found[who] for found in rounds[1:]] for who in rounds[0]}


def numbering(directory):
    place = directory / "imports"
    place.mkdir()
    us = json.loads(subprocess.run([BUILD / "bench/catalog-imports", place], check=True, capture_output=True, text=True).stdout)
    for name, what in (("plain", "imports without a reader of changes"), ("mirrored", "imports with a mirror")):
        yield {"part": "imports", "what": what, "us": summary(us[name]), "without numbers, us": summary(us["bare"]),
               "ratio": summary([a / b for a, b in zip(us[name], us["bare"])])}


def run(directory, options):
    yield from numbering(directory)
    before = {}
    for traces in SIZES if options.long else SIZES[:1]:
        profd = Daemon(directory / str(traces))
        profd.start().stop()  # makes the catalog
        fill(profd.catalog, traces)
        with profd:
            wait_at_rest(profd)
            for what, words, parameters, where in queries(traces):
                found = in_turns(profd, words, parameters, where, directory)
                figures = {who: summary(ms) for who, ms in found.items()}
                slopes = {who: slope(traces, figures[who]["median"], *before[what, who]) if (what, who) in before else None
                          for who in ("profctl", "sqlite3")}
                ratio = summary([a / b for a, b in zip(found["profctl"], found["sqlite3"])])
                yield {"traces": traces, "what": what, "profctl ms": figures["profctl"], "user+sys ms": figures["user+sys"],
                       "response alone ms": figures["response"], "empty process ms": figures["empty"],
                       "the same, linked ms": figures["empty, linked"], "sqlite3 ms": figures["sqlite3"],
                       "profctl / sqlite3": ratio, "slope": slopes["profctl"], "sqlite3's slope": slopes["sqlite3"]}
                before.update({(what, who): (traces, figures[who]["median"]) for who in slopes})
        profd.catalog.unlink()
