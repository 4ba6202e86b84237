# SPDX-License-Identifier: Apache-2.0
"""Catalogs of a million traces, and with --long of ten million: how long `profctl list-traces` takes, as a complete process, next
to sqlite3 reading the same rows. The slope is the time at ten million by that at one million."""
import os
import subprocess
import time

from common import BUILD, Daemon, figure, summary

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
    """(what, options of profctl, condition in SQL)"""
    since = EPOCH_S + traces - 19
    return (("newest 50", [], "1"),
            ("--session s5000", ["--session", "s5000"], "session_id = 5000"),
            ("--since, the newest 20", ["--since", f"@{since}"], f"recorded_at >= {since}000000000"))


def timed_ms(command, environment=None):
    began = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
    return (time.monotonic() - began) * 1e3


def in_turns(profd, options, where):
    """Milliseconds of each round, of profctl and of sqlite3."""
    environment = {**os.environ, "PROFD_SOCKET": str(profd.socket)}
    ours = [BUILD / "client/profctl", "list-traces", *options]
    peer = ["sqlite3", "-readonly", profd.catalog, f"select * from traces where {where} order by recorded_at desc limit 50"]
    rounds = [(timed_ms(ours, environment), timed_ms(peer)) for _ in range(ROUNDS + 1)]
    return zip(*rounds[1:])


def run(directory, options):
    first = {}  # medians at the smallest size
    for traces in SIZES if options.long else SIZES[:1]:
        profd = Daemon(directory / str(traces))
        profd.start().stop()  # makes the catalog
        fill(profd.catalog, traces)
        with profd:
            for what, words, where in queries(traces):
                ours, peer = in_turns(profd, words, where)
                figures = {"profctl": summary(ours), "sqlite3": summary(peer)}
                medians = {who: s["median"] for who, s in figures.items()}
                slope = {who: figure(ms / first.setdefault((what, who), ms)) for who, ms in medians.items()}
                yield {"traces": traces, "what": what, "profctl ms": figures["profctl"], "sqlite3 ms": figures["sqlite3"],
                       "profctl / sqlite3": summary([a / b for a, b in zip(ours, peer)]), "slope": slope["profctl"],
                       "sqlite3's slope": slope["sqlite3"]}
        profd.catalog.unlink()
