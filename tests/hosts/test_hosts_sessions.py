# SPDX-License-Identifier: Apache-2.0
"""Sessions over three hosts: recorded together, shown in one table, their traces listed and fetched from the host that was asked."""
import hashlib
import json
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent)]

from hosts import Hosts  # noqa: E402
from network import why_not  # noqa: E402

from daemon import wait_for  # noqa: E402

NS_PER_S = 1_000_000_000

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
FINAL = ("complete", "partial", "failed", "cancelled")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Hosts(tmp_path_factory.mktemp("hosts"), 3, offsets_s=(0, 0, -70)) as hosts:
        yield hosts


def session_of(host, ref):
    return host.get(f"/v1/sessions/{ref}")


def ended(host, ref, timeout_s=60):
    wait_for(lambda: session_of(host, ref)["state"] in FINAL, timeout_s, why=lambda: json.dumps(session_of(host, ref), indent=1))
    return session_of(host, ref)


def test_one_table_and_traces_of_all_hosts(fleet):
    one, _, three = fleet.all
    shown = one.profctl("start", "--router", fleet.router, "--duration", "1s", "--wait")
    assert "6 of 6 workers, 6 traces" in shown
    sessions = one.get("/v1/sessions")["sessions"]
    session = session_of(one, sessions[0]["session"])
    assert session["state"] == "complete", json.dumps(session, indent=1)
    assert len(session["targets"]) == 6
    hosts = {target.get("host") for target in session["targets"]}
    assert {"gpu2", "gpu3"} <= hosts
    assert session["skew_ns"] < NS_PER_S
    # None, where starts of this host are the first and the last one by more than the clocks are uncertain.
    assert session["skew_error_ns"] >= 0
    assert all(target["clock_error_ns"] > 0 for target in session["targets"] if target.get("host") != "gpu1")
    for target in session["targets"]:
        assert target["state"] == "complete" and len(target["traces"]) == 1
    if three.clock:
        assert all(abs(t["clock_offset_ns"] + 70 * NS_PER_S) < NS_PER_S for t in session["targets"] if t.get("host") == "gpu3")
    table = one.profctl("status", session["session"])
    assert "HOST" in table and "gpu2" in table and "gpu3" in table
    # A host knows whose session it is, and the roles that only the router lists.
    theirs = three.get("/v1/sessions")["sessions"][0]["session"]
    assert f"Session {theirs} of coordinator gpu1 (there {session['uuid'][:8]}) on 2 workers" in three.profctl("status", theirs)
    # And a host lists the traces of all hosts, which it asks for.
    two = fleet[2]
    listed = two.profctl("list-traces", "--session", session["uuid"])
    assert "4 of those shown are on other hosts" in listed, listed
    two.profctl("get", session["uuid"], "-d", two.place / "all")
    assert len(list((two.place / "all").iterdir())) == 6
    roles = {target["worker"]: target["role"] for target in session["targets"]}
    assert all(target["role"] == roles[target["worker"]] for target in three.session(theirs)["targets"])
    table = one.profctl("list-traces", "--session", session["session"])
    assert "HOST" in table and "gpu2" in table and "gpu3" in table
    remote = [t for t in one.get("/v1/traces", session=session["session"])["traces"] if t.get("host") != "gpu1"]
    assert len(remote) == 4 and all(t["host_uuid"] and t["uuid"] for t in remote)
    # Their files come through the host that was asked, complete and in ranges.
    for trace in remote:
        copy = one.place / trace["trace"]
        one.profctl("get", trace["trace"], "-o", copy)
        assert hashlib.sha256(copy.read_bytes()).hexdigest() == trace["sha256"]
        shown = one.profctl("show", trace["trace"])
        assert trace["host"] in shown


def test_stop_by_a_user_ends_it_on_all_hosts(fleet):
    one, two, three = fleet.all
    ref = one.start_session(router=fleet.router, duration_ns=60 * NS_PER_S)["session"]
    wait_for(lambda: session_of(one, ref)["state"] == "recording", 30)
    for host in (two, three):
        assert any(s["state"] == "recording" and s["coordinator_name"] == "gpu1" for s in host.get("/v1/sessions")["sessions"])
    one.post(f"/v1/sessions/{ref}/stop")
    session = ended(one, ref)
    assert session["state"] == "complete", json.dumps(session, indent=1)
    for host in (two, three):
        wait_for(lambda host=host: all(s["state"] in FINAL for s in host.get("/v1/sessions")["sessions"]), 30)


def test_two_coordinators_do_not_share_workers(fleet):
    one, two, _ = fleet.all
    first = one.start_session(router=fleet.router, duration_ns=2 * NS_PER_S)["session"]
    wait_for(lambda: session_of(one, first)["state"] in ("starting", "recording"), 30)
    second = two.start_session(router=fleet.router, duration_ns=NS_PER_S, queue=True)["session"]
    assert ended(one, first)["state"] == "complete"
    assert ended(two, second)["state"] == "complete", [(t.get("host"), t["state"], t.get("failure")) for t in session_of(two, second)["targets"]]
