# SPDX-License-Identifier: Apache-2.0
"""A session does not wait for ever for another host: one that is cut off, one that never gets ready, one that never ends, one that never
stops answering. What such a host has is taken when it comes, as long as [hosts] delivery= lasts."""
import contextlib
import sqlite3
import time

import pytest
from hosts import Hosts, quick_config, wait_for
from meddler import Meddler
from network import why_not

S = 1_000_000_000

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    config = quick_config(start="3s", stop="2s", more="[hosts]\nunreachable=3s\ncall=1s\n")
    with Hosts(tmp_path_factory.mktemp("hosts"), 2, workers=1, config=config) as running:
        yield running


def target_of(session, name):
    (target,) = [target for target in session["targets"] if target.get("host", "gpu1") == name]
    return target


def metric(host, name):
    (line,) = [line for line in host.request("GET", "/metrics").body.decode().splitlines() if line.startswith(name + " ")]
    return float(line.split()[1])


def newest(host):
    return host.get("/v1/sessions")["sessions"][0]


def recording(host, **options):
    session = host.start_session(router=host.hosts.router, **options)["session"]
    wait_for(lambda: host.session(session)["state"] == "recording")
    return session


def test_traces_that_come_after_the_session(hosts):
    """The coordinator's own worker is recorded with one of a host that is cut off for longer than the session waits."""
    one, two = hosts
    session = recording(one, duration_ns=S)
    hosts.network.cut(two.number)
    try:
        ended = one.wait_session(session)
        assert ended["state"] == "partial"
        own, cut = target_of(ended, "gpu1"), target_of(ended, "gpu2")
        assert own["state"] == "complete" and len(own["traces"]) == 1
        assert cut["state"] == "partial" and "had not answered since" in cut["failure"] and not cut["traces"]
        # It waited for the host after it had stopped.
        assert ended["stopped_at"] == own["stop_answered_at"] < ended["finished_at"] - S
        assert metric(one, "profd_host_parts_late") == 1
    finally:
        hosts.network.join(two.number)
    wait_for(lambda: target_of(one.session(session), "gpu2")["traces"])
    assert one.session(session)["state"] == "partial"
    late = target_of(one.session(session), "gpu2")["traces"][0]
    assert late in one.profctl("show", session)
    wait_for(lambda: metric(one, "profd_host_parts_late") == 0)
    events = one.rows("select text from event_row where kind = 'session-delivered'")
    assert [event["text"] for event in events] == ["gpu2 delivered 1 traces after the end of the session"]


def test_what_the_host_tells_of_its_part(hosts):
    """Times by its own clock, a stop by its user, and that its profd was away."""
    one, two = hosts
    session = recording(one, duration_ns=60 * S)
    two.profctl("stop", newest(two)["session"])
    one.profctl("stop", session)
    ended = one.wait_session(session)
    assert any("stopped by" in remark["text"] for remark in ended["remarks"])
    stopped = target_of(ended, "gpu2")
    assert stopped["start_sent_at"] < stopped["stop_sent_at"] <= stopped["stop_answered_at"]

    session = recording(one, duration_ns=S)
    two.kill()
    time.sleep(1.5)
    two.start()
    ended = one.wait_session(session)
    assert any("longer than" in remark["text"] for remark in ended["remarks"]), ended
    stopped = target_of(ended, "gpu2")
    assert stopped["stop_sent_at"] <= stopped["stop_answered_at"]


def test_a_cancelled_session_leaves_no_lease(hosts):
    """Stopped while its lease is being granted, of which it does not know the number yet."""
    one, two = hosts
    hosts.network.delay(two.number, 600)
    try:
        session = one.start_session(router=hosts.router, duration_ns=60 * S)["session"]
        wait_for(lambda: "leases" in one.session(session).get("waiting_for", ""))
        one.post(f"/v1/sessions/{session}/stop")
        assert one.wait_session(session)["state"] == "cancelled"
        wait_for(lambda: two.rows("select count(*) as n from lease_row where state = 'granted'")[0]["n"] == 0, timeout_s=10)
    finally:
        hosts.network.delay(two.number, 0)


def test_a_host_that_lies(hosts):
    one, two = hosts
    with Meddler(hosts, liar=2, coordinator=1) as meddler:
        # It never gets ready: the others record without it.
        def never_armed(method, path, answer):
            return {**answer, "armed": False} if "armed" in answer else answer

        meddler.lie = never_armed
        ended = one.wait_session(one.start_session(router=hosts.router, duration_ns=S)["session"])
        assert target_of(ended, "gpu1")["state"] == "complete"
        assert "has not prepared its workers within" in target_of(ended, "gpu2")["failure"]

        # It records for ever, and answers without waiting.
        def for_ever(method, path, answer):
            for target in answer.get("targets", []) if "/v1/leases/" in path else []:
                if target["state"] not in ("requested", "starting"):
                    target["state"] = "recording"
            return {**answer, "over": False} if "over" in answer else answer

        wait_for(lambda: newest(two)["state"] not in ("starting", "recording", "stopping", "collecting"))
        meddler.lie, meddler.hurry, meddler.asked = for_ever, True, []
        began = time.monotonic()
        session = one.start_session(router=hosts.router, duration_ns=S)["session"]
        ended = one.wait_session(session)
        assert target_of(ended, "gpu1")["state"] == "complete"
        assert target_of(ended, "gpu2")["state"] == "partial" and "had not reported its end in time" in target_of(ended, "gpu2")["failure"]
        assert meddler.polls() < 40 + 5 * (time.monotonic() - began)
        # It is asked until delivery= is over.
        assert metric(one, "profd_host_parts_late") >= 1
        one.stop()
        with contextlib.closing(sqlite3.connect(one.catalog)) as catalog, catalog:
            catalog.execute("update part_row set deadline_at = ?", (time.time_ns(),))
        one.start()
        wait_for(lambda: metric(one, "profd_host_parts_late") == 0)
        assert metric(one, "profd_host_parts_lost_total") >= 1
