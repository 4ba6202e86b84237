# SPDX-License-Identifier: Apache-2.0
"""Ids by UUID: in paths and parameters of the API, and wherever profctl takes s7, t12 or r3."""

import json
import sqlite3
import subprocess

import pytest

from daemon import BUILD, Daemon

PROFCTL = BUILD / "client/profctl"
# Two that begin alike, one whose first characters are digits, and one of a run.
SESSION, TRACE = "6b1f0000-0000-4000-8000-000000000001", "6b1f0000-0000-4000-8000-000000000002"
DIGITS, RUN = "12345678-0000-4000-8000-000000000003", "abcdef00-0000-4000-8000-000000000004"


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    daemon = Daemon(tmp_path_factory.mktemp("refs") / "profd")
    with daemon:
        for name, words in (("rank0.json", ["--session", "night"]), ("rank1.json", [])):
            path = daemon.directory.parent / name
            path.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": name, "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}))
            run(daemon, "ingest", path, *words)
    with sqlite3.connect(daemon.catalog) as catalog:
        catalog.execute("insert into run_row (run_id, state, workload, targets, requested_at, requested_by, uuid) "
                        "values (3, 'complete', '{}', '[]', 1, 'uid 0', ?)", (RUN,))
        for sql, uuid in (("session_row", SESSION), ("trace_row", TRACE)):
            catalog.execute(f"update {sql} set uuid = ? where {sql.split('_')[0]}_id = 1", (uuid,))
        catalog.execute("update trace_row set uuid = ? where trace_id = 2", (DIGITS,))
    with daemon:
        yield daemon


def run(profd, *words, status=0):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *words], text=True, capture_output=True, cwd=profd.directory)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def test_rows_have_uuids(profd):
    """New ones of version 4, which stay with the row."""
    assert profd.get("/v1/sessions/s1")["uuid"] == SESSION
    assert profd.rows("select count(distinct uuid) as n from (select uuid from sessions union select uuid from traces)") == [{"n": 3}]


def test_api(profd):
    assert profd.get("/v1/refs", ref=SESSION) == {"ref": "s1", "uuid": SESSION}
    assert profd.get("/v1/refs", ref="abcdef00")["ref"] == "r3"
    assert profd.get(f"/v1/sessions/{SESSION}")["session"] == "s1"
    assert profd.get(f"/v1/traces/{DIGITS[:9]}")["trace"] == "t2"
    assert profd.get(f"/v1/runs/{RUN[:8]}")["run"] == 3
    # Of one kind it is enough.
    assert profd.get("/v1/sessions/6b1f0000-0")["session"] == "s1" and profd.get("/v1/traces/6b1f0000-0")["trace"] == "t1"
    assert [t["trace"] for t in profd.get("/v1/traces", session=SESSION)["traces"]] == ["t1"]
    assert profd.get("/v1/traces", session=SESSION[:8], before=TRACE)["traces"] == []


def test_api_refuses(profd):
    both = profd.request("GET", "/v1/refs?ref=6b1f0000")
    assert both.status == 409 and both.json()["candidates"] == [{"ref": "s1", "uuid": SESSION}, {"ref": "t1", "uuid": TRACE}]
    assert f"s1 ({SESSION}), t1 ({TRACE})" in both.json()["detail"]
    for path in ("/v1/refs?ref=ffffffff-0", "/v1/sessions/ffffffff-0", "/v1/traces?session=ffffffff-0", f"/v1/sessions/{RUN}"):
        assert "no session" in profd.problem("GET", path, status=404)["detail"], path
    for path in ("/v1/refs", "/v1/refs?ref=s1", "/v1/refs?ref=12345678", "/v1/refs?ref=6b1f", "/v1/refs?ref=6B1F0000-", "/v1/runs/6b1f",
                 "/v1/traces?session=xyz", "/v1/refs?ref=6b1f0000%27%20or%201"):
        profd.problem("GET", path, status=400)
    # A text of digits is a number.
    profd.problem("GET", "/v1/traces/12345678", status=404)


def test_profctl(profd):
    def session(*words):
        return json.loads(run(profd, *words, "--json"))

    assert session("show", SESSION)["session"] == "s1" and session("status", "--once", SESSION)["session"] == "s1"
    assert session("show", RUN[:8])["run"] == 3 and session("show", TRACE)["uuid"] == TRACE
    assert [t["trace"] for t in session("list-traces", "--session", SESSION[:8])["traces"]] == ["t1"]
    for words in (("analyze", SESSION), ("analyze", DIGITS[:9], "--report", "summary"), ("query", TRACE, "select 1 as n"),
                  ("export", TRACE, "-o", "out.json"), ("pin", DIGITS), ("merge", "--session", SESSION, "-o", "m.json")):
        run(profd, *words)
    run(profd, "get", DIGITS, "-o", "copy.json")
    assert json.loads((profd.directory / "copy.json").read_text())["traceEvents"][0]["name"] == "rank1.json"
    shown = run(profd, "list-traces", "--csv", "--columns", "trace,uuid").splitlines()
    assert shown[0] == "trace,uuid" and sorted(shown[1:]) == [f"t1,{TRACE}", f"t2,{DIGITS}"]
    assert DIGITS not in run(profd, "list-traces", "--format", "wide")


def test_profctl_refuses(profd):
    several = " ".join(run(profd, "show", "6b1f0000", status=1).split())
    assert f"s1 ({SESSION}), t1 ({TRACE})" in several and "more characters" in several
    assert "begins with ffffffff" in run(profd, "get", "ffffffff", status=4)
    assert "not a session" in run(profd, "status", TRACE, status=2)
    # A file of that name comes first.
    (profd.directory / "6b1f0000").write_text("{}")
    assert "is not" in run(profd, "show", "6b1f0000", status=2)


def test_removal(profd):
    run(profd, "rm", DIGITS, "--yes")
    assert profd.get("/v1/traces")["traces"][0]["trace"] == "t1"
    profd.problem("GET", f"/v1/traces/{DIGITS}", status=404)
