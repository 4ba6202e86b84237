# SPDX-License-Identifier: Apache-2.0
"""Three hosts that archive and mirror while the bucket and PostgreSQL fail: all arrives once, and nothing is lost."""

import contextlib
import sqlite3

import pytest
from hosts import wait_for
from network import why_not
from services import ServiceHosts, missing

import host_invariants  # isort: skip

REASON = why_not() or missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with ServiceHosts(tmp_path_factory.mktemp("hosts"), 3) as running:
        yield running


def notices(host, name):
    """Whether the host has met the fault."""
    state = host.get(f"/v1/{'archive' if name == 'bucket' else name}")
    return "error" in state or state["state"] in ("failing", "denied")


def record(hosts):
    one = hosts[1]
    session = one.wait_session(one.start_session(router=hosts.router, duration_ns=200_000_000)["session"])
    assert session["state"] == "complete", session


@pytest.mark.parametrize(("mirror", "bucket"), [("full", "refuse"), ("refuse", "full")])
def test_services_fail(hosts, mirror, bucket):
    """Both at once, during a session. Chaos has all faults of them, at any moment."""
    kinds = {"mirror": mirror, "bucket": bucket}
    with contextlib.ExitStack() as stack:
        for name, kind in kinds.items():
            stack.enter_context(hosts.fault(name, kind))
        record(hosts)
        for name in kinds:
            for host in hosts:
                wait_for(lambda host=host, name=name: notices(host, name), why=lambda host=host: f"{host.get('/v1/archive')} {host.get('/v1/mirror')}")
    wait_for(lambda: all(host.get("/v1/archive")["waiting_files"] == 0 for host in hosts), why=lambda: [host.get("/v1/archive") for host in hosts])
    assert host_invariants.complaints(hosts) == []
    assert all(len(host_invariants.rows(host, "select 1 from trace_row where archived_at is not null")) >= 2 for host in hosts)


def test_a_session_is_deleted_before_its_traces_are_archived(hosts):
    """Its hosts go on to archive them, and its coordinator asks no more."""
    one = hosts[1]
    log = one.log_file.stat().st_size
    with hosts.fault("bucket", "refuse"):
        record(hosts)
        ref = one.get("/v1/sessions")["sessions"][0]["session"]
        one.profctl("rm", ref, "-y")
    wait_for(lambda: all(host.get("/v1/archive")["waiting_files"] == 0 for host in hosts), why=lambda: [host.get("/v1/archive") for host in hosts])
    wait_for(lambda: "profd_host_parts 0" in one.request("GET", "/metrics").body.decode(), why=lambda: one.log(log))
    assert "cannot take" not in one.log(log)


def change(host, sql):
    with contextlib.closing(sqlite3.connect(host.catalog)) as db, db:
        db.execute(sql)


def in_mirror(hosts):
    hosts.mirror.sql("delete from fleet.session")


SABOTAGE = {
    "all_is_delivered": lambda hosts: change(hosts[1], "delete from remote_trace_row where trace_id = (select max(trace_id) from remote_trace_row)"),
    "recordings_end_in_time": lambda hosts: hosts[2].fleet.start_elsewhere(0),
    "workers_are_recorded_once": lambda hosts: change(hosts[2], "update target_row set stop_sent_at = stop_sent_at + 3600000000000 where target_id = 1"),
    "lease_numbers_grow": lambda hosts: change(hosts[2], "update lease_row set session_uuid = 'other'"),
    "traces_are_unique": lambda hosts: change(hosts[2], "delete from trace_row"),
    "mirror_is_equal": in_mirror,
    "what_is_archived_is_there": lambda hosts: change(hosts[3], "update trace_row set archive_key = 'traces/other'"),
    "nothing_unarchived_was_evicted": lambda hosts: change(hosts[3], "update trace_row set path = 'archive:x#' || trace_id, archived_at = null"),
}


def test_what_does_not_hold_is_found(hosts):
    """Last, because it leaves the catalogs as they may not be."""
    assert set(SABOTAGE) == {check.__name__ for check in host_invariants.INVARIANTS}
    record(hosts)
    wait_for(lambda: all(host.get("/v1/archive")["waiting_files"] == 0 for host in hosts))
    assert host_invariants.complaints(hosts) == []
    for host in hosts:
        host.stop()
    for check in host_invariants.INVARIANTS:
        SABOTAGE[check.__name__](hosts)
        found = check(hosts)
        assert found and not any("\n" in text for text in found), (check.__name__, found)
