# SPDX-License-Identifier: Apache-2.0
"""A session over three hosts that records its own load: the coordinator sends the requests and decides the end of the recording, which is
open at all hosts until then."""

import pytest
from hosts import Hosts, quick_config, wait_for
from network import why_not

import host_invariants  # isort: skip  (hosts.py made it importable)
from host_invariants import rows  # isort: skip

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
ENDLESS = {"isl": 16, "osl": 4, "rate": 50, "duration": "1h", "warmup": 1}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with Hosts(tmp_path_factory.mktemp("hosts"), 3, config=quick_config(settle="300ms", more="[hosts]\nlease=10s\n")) as running:
        yield running


@pytest.fixture(autouse=True)
def what_must_hold(hosts):
    yield
    assert host_invariants.complaints(hosts, 30) == []


def test_a_load_is_recorded_on_all_hosts(hosts, tmp_path):
    one = hosts[1]
    (tmp_path / "w.yaml").write_text("isl: 16\nosl: 4\nconcurrency: 4\nrequests: 40\nwarmup: 1\n")
    session = one.profctl("start", "--router", hosts.router, "--workload", tmp_path / "w.yaml", "--wait", "--json")
    run = one.get(f"/v1/runs/{session['run']}")
    assert session["state"] == run["state"] == "complete" and session["counts"]["traces"] == 6
    assert run["requests"]["success"] == 40 and [warmed["sent"] for warmed in run["warmed"]] == [1] * 6
    # The load came when all hosts recorded, and they were stopped when it was over.
    stories = rows(one, "select kind, text from event_row where session_id = ? order by event_id", int(session["session"][1:]))
    words = [f"{event['kind'].split('-')[0]} {event['text'].split(':')[0]}" for event in stories if event["kind"] in ("run", "run-state", "session-state")]
    assert [word for word in words if word != "run draining"] == [
        "run requested", "run warming", "session starting", "session recording", "run loading", "run complete", "session stopping",
        "session collecting", "session complete"], words
    assert session["recording_at"] <= run["started_at"]
    assert f"r{session['run']}" in one.profctl("show", session["session"])


def loading(hosts):
    one = hosts[1]
    session = one.start_session(router=hosts.router, workload=ENDLESS)["session"]
    run = wait_for(lambda: one.session(session).get("run"))
    wait_for(lambda: one.get(f"/v1/runs/{run}")["state"] == "loading")
    for host in hosts:
        wait_for(lambda host=host: len(host.fleet.profiling()["workers"]) == 2)
    return session, run


def test_a_user_ends_the_load(hosts):
    one = hosts[1]
    session, run = loading(hosts)
    one.post(f"/v1/runs/{run}/stop")
    ended = one.wait_session(session)
    assert ended["state"] == "complete" and ended["counts"]["traces"] == 6, ended


def test_the_coordinator_is_killed_under_load(hosts):
    """Nobody sends requests any more: what was recorded is collected."""
    one = hosts[1]
    session, _ = loading(hosts)
    one.kill()
    one.start()
    ended = one.wait_session(session)
    assert ended["counts"]["traces"] == 6 and {target["state"] for target in ended["targets"]} == {"complete"}, ended
    assert any("with its load" in remark["text"] for remark in ended["remarks"])


def test_a_host_is_killed_under_load(hosts):
    """The others record on."""
    one, two, three = hosts
    session, run = loading(hosts)
    two.kill()
    two.start()
    wait_for(lambda: rows(two, "select 1 from session_row where state in ('recording', 'stopping', 'collecting', 'complete') order by session_id desc limit 1"))
    assert len(three.fleet.profiling()["workers"]) == 2
    one.post(f"/v1/runs/{run}/stop")
    ended = one.wait_session(session)
    assert ended["counts"]["traces"] == 6, ended
