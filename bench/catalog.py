# SPDX-License-Identifier: Apache-2.0
"""Catalog with a million traces: how long `profctl list-traces` takes, as a complete process, next to sqlite3 reading the same
rows."""
import os
import subprocess
import time

from common import BUILD, Daemon, summary

TRACES = 1_000_000
ROUNDS = 11
EPOCH_S = 1_760_000_000

# The rows have no files behind them, and say so: else profd would mark them when it starts.
FILL = f"""
insert into worker_row (worker_id, url, engine, role, health, profilable, last_seen_at)
  with recursive n (i) as (select 1 union all select i + 1 from n where i < 100)
  select i, 'http://10.0.0.' || i || ':8000', 'vllm', 'regular', 'healthy', 1, 1 from n;
insert into session_row (session_id, state, options, requested_at, requested_by)
  with recursive n (i) as (select 1 union all select i + 1 from n where i < 10000)
  select i, 'complete', '{{}}', i * 1000000000, 'uid 0' from n;
insert into trace_row (session_id, worker_id, kind, state, name, path, origin, stored, size, disk_size, recorded_at, collected_at, rank)
  with recursive n (i) as (select 1 union all select i + 1 from n where i < {TRACES})
  select 1 + i / 101, 1 + i % 100, 'trace', 'missing', 'rank0.' || i || '.pt.trace.json.gz',
         '/store/s' || (1 + i / 101) || '/' || i, '/traces/' || i, 1, 1000000 + i % 1000, 1000000 + i % 1000, ({EPOCH_S} + i) * 1000000000, 1, i % 8
  from n;
"""

QUERIES = (("newest 50", [], "1"),
           ("--session s5000", ["--session", "s5000"], "session_id = 5000"),
           ("--since, the newest 20", ["--since", f"@{EPOCH_S + TRACES - 19}"],
            f"recorded_at >= {EPOCH_S + TRACES - 19}000000000"))


def timed_ms(command, environment=None):
    times = []
    for _ in range(ROUNDS + 1):
        began = time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
        times.append((time.monotonic() - began) * 1e3)
    return times[1:]


def run(directory, _options):
    profd = Daemon(directory / "profd")
    profd.start().stop()  # makes the catalog
    subprocess.run(["sqlite3", profd.catalog], input=FILL, text=True, check=True)
    with profd:
        environment = {**os.environ, "PROFD_SOCKET": str(profd.socket)}
        for what, arguments, where in QUERIES:
            ours = timed_ms([BUILD / "client/profctl", "list-traces", *arguments], environment)
            peer = timed_ms(["sqlite3", "-readonly", profd.catalog,
                             f"select * from traces where {where} order by recorded_at desc limit 50"])
            yield {"traces": TRACES, "what": what, "profctl ms": summary(ours), "sqlite3 ms": summary(peer),
                   "profctl / sqlite3": summary([a / b for a, b in zip(ours, peer)])}
