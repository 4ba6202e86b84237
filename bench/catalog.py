# SPDX-License-Identifier: Apache-2.0
"""Catalog with a million traces: how long `profctl list-traces` takes, from the shell, beside sqlite3 reading the same rows."""
import json
import subprocess
import time

from common import BUILD, Profd, summary

TRACES = 1_000_000
ROUNDS = 11

# The rows have no files behind them, and say so: else profd would mark them when it starts.
FILL = f"""
insert into worker_row (worker_id, url, engine, role, health, profilable, last_seen_at)
  with recursive n (i) as (select 1 union all select i + 1 from n where i < 100)
  select i, 'http://10.0.0.' || i || ':8000', 'vllm', 'regular', 'healthy', 1, 1 from n;
insert into session_row (session_id, state, options, requested_at, requested_by)
  with recursive n (i) as (select 1 union all select i + 1 from n where i < 10000)
  select i, 'complete', '{{}}', i * 1000000000, 'uid 0' from n;
insert into trace_row (session_id, worker_id, kind, state, name, path, origin, stored, size, recorded_at, collected_at, rank)
  with recursive n (i) as (select 1 union all select i + 1 from n where i < {TRACES})
  select 1 + i / 101, 1 + i % 100, 'trace', 'missing', 'rank0.' || i || '.pt.trace.json.gz', '/store/s' || (1 + i / 101) || '/' || i,
         '/traces/' || i, 1, 1000000 + i % 1000, 1760000000000000000 + i * 1000000000, 1, i % 8 from n;
"""


def timed(command, **more):
    times = []
    for _ in range(ROUNDS + 1):
        began = time.monotonic()
        result = subprocess.run(command, stdout=subprocess.DEVNULL, check=True, **more)
        times.append((time.monotonic() - began) * 1e3)
        assert result.returncode == 0
    return times[1:]


def run(directory):
    state = directory / "profd-catalog"
    with Profd(state):
        pass  # makes the catalog
    database = state / "catalog.db"
    subprocess.run(["sqlite3", database], input=FILL, text=True, check=True)
    profctl = [BUILD / "client/profctl"]
    since = f"@{(1760000000000000000 + (TRACES - 20) * 1000000000) // 1000000000}"
    rows = []
    with Profd(state, ready_timeout_s=120) as profd:
        env = {"PROFD_SOCKET": str(profd.socket), "PATH": "/usr/bin:/bin"}
        for name, arguments, where in (
                ("newest 50", [], "1"),
                ("--session s5000", ["--session", "s5000"], "session_id = 5000"),
                ("--since (20 of them)", ["--since", since], f"recorded_at >= {since[1:]}000000000")):
            ours = timed([*profctl, "list-traces", *arguments], env=env)
            peer = timed(["sqlite3", "-readonly", database,
                          f"select * from traces where {where} order by recorded_at desc limit 50"])
            rows.append({"traces": TRACES, "what": name, "profctl ms": summary(ours), "sqlite3 ms": summary(peer),
                         "ratio": summary([a / b for a, b in zip(ours, peer)])})
            print(json.dumps(rows[-1]), flush=True)
    return rows
