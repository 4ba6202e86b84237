# SPDX-License-Identifier: Apache-2.0
"""Labels of sessions, traces and runs are changed at any time, also of a session that records."""
import json
import os
import subprocess

import pytest

from daemon import BUILD, Daemon, FaultFleet, quick_config

PROFCTL = BUILD / "client" / "profctl"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    home = tmp_path_factory.mktemp("labels")
    with FaultFleet(home / "fleet", "vllm", 1) as fleet, Daemon(home / "profd", quick_config()) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=100_000_000, labels={"team": "rl", "draft": "1"})["session"]
        profd.wait_session(session)
        yield profd, fleet


def put(profd, path, changes):
    reply = profd.request("PUT", f"/v1/{path}/labels", changes)
    assert reply.status == 200, reply
    return reply.json()["labels"]


def profctl(profd, *words):
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PROFD_SOCKET": str(profd.socket), "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    return subprocess.run([PROFCTL, *words], capture_output=True, text=True, timeout=60, env=environment, stdin=subprocess.DEVNULL)


def test_a_session(recorded):
    profd, _ = recorded
    assert put(profd, "sessions/s1", {"draft": None, "step": "12", "none": None}) == {"team": "rl", "step": "12"}
    assert profd.get("/v1/sessions/s1")["labels"] == {"team": "rl", "step": "12"}
    assert [row["session"] for row in profd.get("/v1/sessions", label="step=12")["sessions"]] == ["s1"]
    assert profd.get("/v1/sessions", label="draft=1")["sessions"] == []
    assert {"kind": "session-labels", "text": '{"step":"12","team":"rl"}'} in profd.rows("select kind, text from events")


def test_a_trace(recorded):
    profd, _ = recorded
    changes = profd.rows("select count(*) from change_row where kind = 's'")
    assert put(profd, "traces/t1", {"über": "ü=1"}) == {"über": "ü=1"}
    assert profd.rows("select labels ->> '$.über' as label from traces where trace_id = 1") == [{"label": "ü=1"}]
    assert [row["trace"] for row in profd.get("/v1/traces", label="über=ü=1")["traces"]] == ["t1"]
    assert profd.rows("select count(*) from change_row where kind = 's'") == changes


def test_a_session_that_records_keeps_them(recorded):
    profd, fleet = recorded
    session = profd.start_session(router=fleet.router, duration_ns=30_000_000_000, labels={"a": "1"})["session"]
    profd.wait_state(session, "recording")
    assert put(profd, f"sessions/{session}", {"b": "2"}) == {"a": "1", "b": "2"}
    profd.post(f"/v1/sessions/{session}/stop")
    assert profd.wait_session(session)["labels"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize("changes, detail", [
    ({"a": 1}, "label a must be a text of at most 256 bytes, or null or false, which remove it"),
    ({"": "x"}, "\"\" cannot be the key of a label: it must have 1 to 256 bytes and no '='"),
    ({"a=b": "x"}, "\"a=b\" cannot be the key of a label: it must have 1 to 256 bytes and no '='"),
    ({"a": "x" * 257}, "label a must be a text of at most 256 bytes, or null or false, which remove it"),
    ({f"k{i}": "x" for i in range(40)}, "4"),
    ([], "the request's body must be a JSON object"),
])
def test_refused(recorded, changes, detail):
    profd, _ = recorded
    before = profd.get("/v1/traces/t1")["labels"]
    problem = profd.problem("PUT", "/v1/traces/t1/labels", changes, status=400)
    assert detail in problem["detail"]
    assert profd.get("/v1/traces/t1")["labels"] == before
    assert profd.problem("PUT", "/v1/traces/t99/labels", {"a": "1"}, status=404)["code"] == "not-found"


def test_profctl(recorded):
    profd, _ = recorded
    done = profctl(profd, "label", "s1", "t1", "owner=anna", "step-")
    assert done.returncode == 0, done.stderr
    assert "s1: owner=anna team=rl" in done.stderr or "s1: team=rl owner=anna" in done.stderr
    assert json.loads(profctl(profd, "show", "s1", "--json").stdout)["labels"] == {"owner": "anna", "team": "rl"}
    assert [row["trace"] for row in json.loads(profctl(profd, "list-traces", "--label", "owner=anna", "--json").stdout)["traces"]] == ["t1"]
    nothing = profctl(profd, "label", "t1", "s1")
    assert nothing.returncode == 2 and "name the labels to change" in nothing.stderr
    assert profctl(profd, "label", "t99", "a=b").returncode == 4
