# SPDX-License-Identifier: Apache-2.0
"""What must hold of hosts in the end, whatever failed meanwhile: each is a function of the hosts that gives complaints of one line.

Catalogs are read as files, so that a profd that is down is checked, too. A test says what it did: `host.away_s` adds to what a
recording may take (a profd that is down or frozen sends no stop), `host.clock_moved` leaves out what compares times; both are of sessions
and leases after `host.sessions_before` and `host.leases_before`."""

import contextlib
import hashlib
import json
import re
import sqlite3
import time
from collections import Counter
from pathlib import Path

from mirror_rows import MIRRORED, in_postgres, in_sqlite
from patience import patience
from written_traces import is_whole, written_while

NS_PER_S = 1_000_000_000
SLACK_S = 5  # of a stop after its deadline: the calls at both ends
LAG_S = 1  # of an event loop that blocks; what an idle machine has, bench/many_hosts.py measures
EVENTUALLY_S = 60
OPEN_LEASES = ("granted", "prepared", "started")


def rows(host, sql, *values):
    with contextlib.closing(sqlite3.connect(f"file:{host.catalog}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(sql, values)]


def catalog_of(host):
    return rows(host, "select uuid from catalog_row")[0]["uuid"]


def placeholders(values):
    return ", ".join("?" * len(values))


# I1


def recordings_end_in_time(hosts):
    """No profiler runs, and the stop of each was sent before the deadline of its lease."""
    found = []
    for host in hosts:
        found += [f"{host.name}: {url} records since {seconds:.1f} s" for url, seconds in host.fleet.profiling()["workers"].items()]
        if host.clock_moved:
            continue
        slack_ns = int((patience(SLACK_S) + host.away_s) * NS_PER_S)
        found += [f"{host.name} s{row['session_id']}: the stop of {row['url']} was sent {row['late_ns'] / NS_PER_S:.1f} s after its deadline"
                  for row in rows(host, "select s.session_id, t.target_id, json_extract(t.worker, '$.url') as url, "
                                        "t.stop_sent_at - s.hard_stop_at as late_ns from target_row t join session_row s using (session_id) "
                                        "where s.lease_id is not null and t.start_sent_at is not null and s.session_id > ? and late_ns > ?", host.sessions_before,
                              slack_ns)]
    return found


# I2


def workers_are_recorded_once(hosts):
    """At any time one session records a worker, and one lease holds it."""
    found = []
    for host in hosts:
        held = Counter(url for row in rows(host, f"select workers from lease_row where state in ({placeholders(OPEN_LEASES)})", *OPEN_LEASES)
                       for url in json.loads(row["workers"]))
        found += [f"{host.name}: {count} leases hold {url}" for url, count in held.items() if count > 1]
        if host.clock_moved:
            continue
        latest = {}
        for row in rows(host, "select session_id, worker_id, start_sent_at, stop_sent_at from target_row where host_uuid is null and "
                              "start_status = 200 and start_sent_at is not null and stop_sent_at is not null and session_id > ? "
                              "order by start_sent_at", host.sessions_before):
            before = latest.get(row["worker_id"])
            if before and before["stop_sent_at"] > row["start_sent_at"]:
                found.append(f"{host.name}: s{before['session_id']} and s{row['session_id']} recorded worker {row['worker_id']} at once")
            latest[row["worker_id"]] = row
    return found


# I3


def lease_numbers_grow(hosts):
    """And what a coordinator noted is a lease of that session at that host."""
    found, leases = [], {}
    for host in hosts:
        granted = rows(host, "select * from lease_row order by lease_id")
        leases[catalog_of(host)] = {row["lease_id"]: row for row in granted}
        if not host.clock_moved:
            found += [f"{host.name}: lease {b['lease_id']} was granted before lease {a['lease_id']}" for a, b in zip(granted, granted[1:])
                      if b["granted_at"] < a["granted_at"] and a["lease_id"] > host.leases_before]
        newest = host.__dict__.setdefault("newest_lease", 0)
        host.newest_lease = granted[-1]["lease_id"] if granted else 0
        if host.newest_lease < newest:
            found.append(f"{host.name}: its newest lease is {host.newest_lease}, and was {newest}")
    for host in hosts:
        for row in rows(host, "select p.session_id, p.host_uuid, p.lease_id, s.uuid from part_row p join session_row s using (session_id) "
                              "where p.lease_id is not null"):
            lease = leases.get(row["host_uuid"], {}).get(row["lease_id"])
            if not lease or lease["session_uuid"] != row["uuid"]:
                found.append(f"{host.name} s{row['session_id']}: lease {row['lease_id']} is not one of that session at its host")
    return found


# I4


def traces_are_unique(hosts):
    """No trace is lost, none is stored twice: a file of a worker has one trace in the fleet."""
    uuids = Counter(row["uuid"] for host in hosts for row in rows(host, "select uuid from trace_row"))
    found = [f"trace {uuid} is {count} times in the fleet" for uuid, count in uuids.items() if count > 1]
    for host in hosts:
        found += [f"{host.name}: {row['origin']} has {row['n']} rows" for row in
                  rows(host, "select origin, count(*) as n from trace_row where origin is not null group by origin, sha256 having n > 1")]
        if not host.clock_moved:
            found += what_was_written_is_cataloged(host)
    return found


def what_was_written_is_cataloged(host):
    """Every complete trace that a worker wrote between the answers to its start and to its stop."""
    found = []
    known = {row["origin"] for row in rows(host, "select origin from trace_row where origin is not null")}
    for target in rows(host, "select * from target_row where start_status = 200 and stop_status = 200 and stop_answered_at is not null "
                             "and trace_dir is not null and state in ('complete', 'partial', 'failed') and session_id > ?", host.sessions_before):
        directory = host.machine.root.joinpath(Path(target["trace_dir"]).relative_to("/"))
        for path in written_while(directory, target["start_answered_at"], target["stop_answered_at"]):
            origin = str(Path(target["trace_dir"]) / path.name)
            if origin not in known and is_whole(path):
                found.append(f"{host.name}: {origin} of target {target['target_id']} is in no catalog")
    return found


# I5


def mirror_is_equal(hosts):
    """Every row of every host's public views is in PostgreSQL, once and equal."""
    if not hosts.mirror:
        return []
    found = []
    for host in hosts:
        catalog = catalog_of(host)
        for view in MIRRORED:
            here, there = in_sqlite(host.catalog, view), in_postgres(hosts.mirror, view, catalog)
            if here != there:
                missing, extra = Counter(here) - Counter(there), Counter(there) - Counter(here)
                first = next(iter([*missing, *extra]))
                found.append(f"{host.name}: {view} has {len(here)} rows and its mirror {len(there)}, {missing.total()} missing, "
                             f"{extra.total()} others: {first[:200]}")
    return found


# I6


def what_is_archived_is_there(hosts):
    """With its size and its content, which its name states."""
    if not hosts.bucket:
        return []
    found, objects = [], hosts.bucket.objects()
    for host in hosts:
        for row in rows(host, "select trace_id, archive_key, size, sha256 from trace_row where archived_at is not null"):
            name, size = f"{host.name} t{row['trace_id']}", objects.get(row["archive_key"])
            if size != row["size"]:
                found.append(f"{name}: its object {row['archive_key']} has {size} bytes, and it has {row['size']}")
            elif row["archive_key"] not in hosts.bucket.verified:
                if hashlib.sha256(hosts.bucket.read(row["archive_key"])).hexdigest() != row["sha256"]:
                    found.append(f"{name}: its object {row['archive_key']} has other content")
                else:
                    hosts.bucket.verified.add(row["archive_key"])
    return found


# I7


def nothing_unarchived_was_evicted(hosts):
    found = []
    for host in hosts:
        for row in rows(host, "select trace_id, path, size, stored, archived_at from trace_row where state != 'missing'"):
            if row["path"].startswith("archive:") and row["archived_at"] is None:
                found.append(f"{host.name} t{row['trace_id']} was evicted and is not archived")
            elif row["stored"] and not Path(row["path"]).exists():
                found.append(f"{host.name} t{row['trace_id']}: {row['path']} is gone")
    return found


# I8


def sessions_are_over(hosts):
    """And leases, and what hosts have of a session was delivered to its coordinator."""
    found = [f"{host.name} s{row['session_id']} is {row['state']}: {row['reason']}" for host in hosts for row in
             rows(host, "select session_id, state, reason from session_row where finished_at is null")]
    found += [f"{host.name}: lease {row['lease_id']} is {row['state']}" for host in hosts for row in
              rows(host, f"select lease_id, state from lease_row where state in ({placeholders(OPEN_LEASES)})", *OPEN_LEASES)]
    for host in hosts:
        for check in ("pragma integrity_check", "pragma foreign_key_check"):
            found += [f"{host.name}: {tuple(row.values())}" for row in rows(host, check) if tuple(row.values()) != ("ok",)]
    return found


def coordinators_know_all_traces(hosts):
    found = []
    there = {}  # (session, host): UUIDs of traces
    for host in hosts:
        for row in rows(host, "select s.uuid as session, t.uuid from trace_row t join session_row s using (session_id)"):
            there.setdefault(row["session"], {})[row["uuid"]] = host
    for coordinator in hosts:
        for session in rows(coordinator, "select session_id, uuid from session_row where coordinator is null"):
            delivered = {row["uuid"] for row in
                         rows(coordinator, "select uuid from remote_trace_row where session_id = ?", session["session_id"])}
            others = {uuid for uuid, host in there.get(session["uuid"], {}).items() if host is not coordinator}
            if others - delivered:
                found.append(f"{coordinator.name} s{session['session_id']}: {len(others - delivered)} of {len(others)} traces not delivered")
            if delivered - others:
                found.append(f"{coordinator.name} s{session['session_id']}: {len(delivered - others)} delivered traces exist nowhere")
    return found


def all_is_delivered(hosts):
    return sessions_are_over(hosts) or coordinators_know_all_traces(hosts)


# I9


def loops_are_not_late(hosts):
    """Since this was asked last. A process that was frozen was late."""
    found, limit_s = [], patience(LAG_S)
    for host in hosts:
        if not host.process:
            continue
        text = host.request("GET", "/metrics").body.decode()
        lag_s = float(re.search(r"^profd_event_loop_lag_seconds (\S+)", text, re.MULTILINE)[1])
        if lag_s > limit_s + host.frozen_s:
            found.append(f"{host.name}: its event loop was late by {lag_s * 1000:.0f} ms, more than {limit_s * 1000:.0f}")
        host.frozen_s = 0.0
    return found


INVARIANTS = (all_is_delivered, recordings_end_in_time, workers_are_recorded_once, lease_numbers_grow, traces_are_unique, mirror_is_equal,
              what_is_archived_is_there, nothing_unarchived_was_evicted)
ONCE = (loops_are_not_late,)


def complaints(hosts, eventually_s=EVENTUALLY_S):
    """Each is repeated for a while: a host that was away delivers later."""
    found = [f"{check.__name__}: {text}" for check in ONCE for text in check(hosts)]
    deadline = time.monotonic() + patience(eventually_s)
    for check in INVARIANTS:
        while (told := check(hosts)) and time.monotonic() < deadline:
            time.sleep(0.1)
        found += [f"{check.__name__}: {text}" for text in told]
    return found
