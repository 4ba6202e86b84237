# SPDX-License-Identifier: Apache-2.0
"""NeMo Gym: real servers that count their functions with yappi, of every generation of /stats, behind a real head server;
what sessions keep of them, and what profctl makes of it."""
import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fleet"))

from daemon import BUILD, Daemon, free_port, quick_config, wait_for  # noqa: E402
from fleet import Fleet  # noqa: E402

PROFCTL = BUILD / "client/profctl"
LONG = 60_000_000_000  # ended by the test
ANSWERS = 5  # of each verify(): so many calls of score()


def verify(worker, times=1):
    for _ in range(times):
        body = json.dumps({"answers": list(range(ANSWERS))}).encode()
        with urllib.request.urlopen(urllib.request.Request(worker.url + "/verify", body), timeout=30) as answer:
            assert answer.status == 200


class Testbed:
    def __init__(self, fleet, profd, directory):
        self.fleet, self.profd, self.directory = fleet, profd, directory
        self.table, self.files, self.log, self.off = fleet.workers[:4]
        self.router = fleet.routers[0].url

    def profctl(self, *words, status=0):
        done = subprocess.run([PROFCTL, "--socket", self.profd.socket, *words], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, env={**os.environ, "XDG_STATE_HOME": str(self.directory / "xdg")})
        assert done.returncode == status, done
        return done

    def record(self, workers, during, **request):
        """A session over `workers` in which `during` is done; what the catalog then has of it."""
        id_ = self.begin(workers, **request)
        during()
        return self.end(id_)

    def begin(self, workers, **request):
        started = self.profd.start_session(workers=[worker.url for worker in workers], duration_ns=LONG, **request)
        self.profd.wait_state(started["session"], "recording")
        return started["session"]

    def end(self, id_):
        self.profd.post(f"/v1/sessions/{id_}/stop")
        return self.profd.wait_session(id_)

    def calls(self, session, worker, name="score"):
        """How often a function ran in the session, by the public view."""
        rows = self.profd.rows("select calls from functions where session_id = ? and worker = ? and name = ?",
                               int(session["session"][1:]), worker.url, name)
        return rows[0]["calls"] if rows else 0


@pytest.fixture(scope="module")
def testbed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("functions")
    with Fleet(directory / "fleet") as fleet:
        for generation in ("table", "files", "log"):
            fleet.add_nemo_gym("--generation", generation, name=generation)
        fleet.add_nemo_gym(profiling=False, name="off")
        fleet.add_head_server()
        # Servers in Python may need seconds for an answer on a busy machine; no test here is about the time of a start.
        with Daemon(directory / "profd", quick_config(start="30s")) as profd:
            yield Testbed(fleet, profd, directory)


def remarks(session):
    return " | ".join(remark["text"] for remark in session.get("remarks", []))


def test_the_head_server_lists_its_servers(testbed):
    fleet = testbed.profd.get("/v1/workers", router=testbed.router)
    assert fleet["dialect"] == "nemo-gym"
    assert [(w["engine"], w["model"], w["profilable"]) for w in fleet["workers"]] == [
        ("nemo-gym", "table", True), ("nemo-gym", "files", True), ("nemo-gym", "log", True), ("nemo-gym", "off", False)]
    assert fleet["workers"][1]["traces"]["local_dir"] == str(testbed.files.trace_dir)
    assert any("has no \"url\"" in note for note in fleet["notes"])


def test_doctor_reports_how_profiling_is_enabled(testbed):
    said = testbed.profctl("doctor", "--router", testbed.router, status=1).stdout
    assert testbed.off.url in said and "+profiling_enabled=true" in said


@pytest.mark.parametrize("generation", ["table", "files", "log"])
def test_a_session_keeps_the_difference(testbed, generation):
    worker = getattr(testbed, generation)
    verify(worker, 2)  # before it: not counted
    session = testbed.record([worker], lambda: verify(worker, 3))
    assert session["state"] == "complete", session
    assert testbed.calls(session, worker) == 3 * ANSWERS
    assert testbed.calls(session, worker, "verify") == 3
    assert "counts CPU time" in remarks(session)
    row = testbed.profd.rows("select * from functions where session_id = ? and name = 'score'", int(session["session"][1:]))[0]
    assert row["moment"] == "difference" and row["file"].endswith("nemo_gym.py") and row["line"] > 1
    assert 0 < row["tsub_ns"] <= row["ttot_ns"] and row["tavg_ns"] == row["ttot_ns"] // row["calls"]


def test_a_complete_fleet_is_one_session(testbed):
    started = testbed.profd.start_session(router=testbed.router, duration_ns=LONG)
    testbed.profd.wait_state(started["session"], "recording")
    verify(testbed.table, 1)
    verify(testbed.log, 2)
    session = testbed.end(started["session"])
    assert session["state"] == "complete"
    assert [testbed.calls(session, worker) for worker in (testbed.table, testbed.files, testbed.log)] == [ANSWERS, 0, 2 * ANSWERS]
    answer = testbed.profd.get(f"/v1/sessions/{session['session']}/functions", worker=testbed.log.url)
    assert {f["worker"] for f in answer["functions"]} == {testbed.log.url}
    totals = [f["ttot_ns"] for f in answer["functions"]]
    assert totals == sorted(totals, reverse=True)


def test_what_runs_is_shown_since_the_launch(testbed):
    def count():
        answer = testbed.profd.get("/v1/functions", worker=[testbed.files.url, testbed.table.url])
        return {f["worker"]: f["calls"] for f in answer["functions"] if f["name"] == "score"}, answer["servers"]

    verify(testbed.files)
    verify(testbed.table)
    before, servers = count()
    verify(testbed.files, 2)
    after, _ = count()
    assert after == {testbed.files.url: before[testbed.files.url] + 2 * ANSWERS, testbed.table.url: before[testbed.table.url]}
    assert {s["worker"]: s["source"].rpartition("/")[2] for s in servers} == {
        testbed.files.url: "files.callgrind", testbed.table.url: "stats"}
    assert {s["worker"]: s.get("clock") for s in servers} == {testbed.files.url: None, testbed.table.url: "cpu"}


def test_a_server_without_profiling_is_explained(testbed):
    problem = testbed.profd.problem("GET", f"/v1/functions?worker={testbed.off.url}", status=422)
    assert "has no /stats" in problem["detail"] and "+profiling_enabled=true" in problem["remedy"]


def test_what_is_no_directory_of_profiles_is_explained(testbed, tmp_path):
    problem = testbed.profd.problem("GET", f"/v1/functions?worker={testbed.files.url}&trace_dir={tmp_path}")
    assert "there is no profile of files" in problem["detail"] and "+profiling_results_dirpath=" in problem["remedy"]


def test_findings_name_the_readings(testbed):
    session = testbed.record([testbed.table], lambda: verify(testbed.table, 10))["session"]
    told = json.loads(testbed.profctl("functions", "--session", session, "--json").stdout)["findings"]
    found = {(f["reading"], f["name"]) for f in told}
    assert {("high-ttot", "score"), ("high-tsub", "score"), ("high-ttot-low-tsub", "verify_all")} <= found
    assert all(0 < f["share"] <= 1 for f in told) and not any("profiling.py" in f["file"] for f in told)
    text = testbed.profctl("functions", "--session", session).stdout
    assert "High tsub" in text and "sets and dicts" in text and "Times are CPU times" in text


def test_sorted_cut_and_comma_separated(testbed):
    verify(testbed.table)
    said = testbed.profctl("functions", "--worker", testbed.table.url, "--sort", "ncall", "--top", "3", "--csv").stdout
    calls = [int(row["calls"]) for row in csv.DictReader(io.StringIO(said))]
    assert len(calls) == 3 and calls == sorted(calls, reverse=True)
    assert "no such key" in testbed.profctl("functions", "--worker", testbed.table.url, "--sort", "cost", status=2).stderr


def test_two_profiles_side_by_side(testbed):
    before = testbed.record([testbed.table], lambda: verify(testbed.table, 4))["session"]
    after = testbed.record([testbed.table], lambda: verify(testbed.table, 1))["session"]
    testbed.profctl("functions", "--session", before, "--save", "baseline")
    for first in ("baseline", before):
        told = json.loads(testbed.profctl("functions", "--diff", first, after, "--json").stdout)
        change = next(f for f in told["functions"] if f["name"] == "score")
        assert (change["before"]["calls"], change["after"]["calls"]) == (4 * ANSWERS, ANSWERS)
        assert change["change_ns"] == change["after"]["ttot_ns"] - change["before"]["ttot_ns"] < 0
    assert "baseline -> " in testbed.profctl("functions", "--diff", "baseline", after).stdout
    assert "no profile saved as 'other'" in testbed.profctl("functions", "--diff", "baseline", "other", status=4).stderr
    assert "not a name" in testbed.profctl("functions", "--session", before, "--save", "../x", status=2).stderr


def test_rollouts_run_while_a_session_records(testbed, tmp_path):
    rollouts, results = tmp_path / "rollouts.jsonl", tmp_path / "results.jsonl"
    named = {"answers": [1, 2], "agent_ref": {"name": "files"}}
    rollouts.write_text("".join(json.dumps(row) + "\n" for row in ({"answers": [7]}, named, {}, {"answers": []})))
    words = ["functions", "--router", testbed.router, "--workload", rollouts, "--agent", "table", "--output", results,
             "--duration", "30s", "--json"]
    done = testbed.profctl(*words, "--limit", "2")
    told = json.loads(done.stdout)
    assert "2 of 2 rollouts done, 0 failed" in done.stderr
    calls = {f["worker"]: f["calls"] for f in told["functions"] if f["name"] == "score"}
    assert calls == {testbed.table.url: 1, testbed.files.url: 2}
    lines = sorted(map(json.loads, results.read_text().splitlines()), key=lambda line: line["_ng_task_index"])
    assert [(line["echo"], line["agent_ref"]["name"]) for line in lines] == [([7], "table"), ([1, 2], "files")]
    done = testbed.profctl(*words, status=3)  # one has nothing to be run
    assert "3 of 4 rollouts done, 1 failed: 422" in done.stderr and len(results.read_text().splitlines()) == 3


@pytest.mark.parametrize("line, said", [("{", ":1: "), ("[1]", "not a JSON object"), ("{}", "names no agent"),
                                        ("", "contains no rollouts")])
def test_rollouts_that_are_none(testbed, tmp_path, line, said):
    file = tmp_path / "rollouts.jsonl"
    file.write_text(line)
    assert said in testbed.profctl("functions", "--router", testbed.router, "--workload", file, status=2).stderr


def test_live_gives_a_block_a_look_until_it_is_ended(testbed):
    with subprocess.Popen([PROFCTL, "--socket", testbed.profd.socket, "functions", "--worker", testbed.table.url, "--live",
                           "--interval", "100ms", "--top", "2"], stdout=subprocess.PIPE, text=True) as live:
        headings = 0
        while headings < 2:
            line = live.stdout.readline()
            assert line, live.wait()
            headings += line.startswith("FUNCTION")
        live.send_signal(signal.SIGINT)
        live.stdout.read()
        assert live.wait(10) == 0


def test_servers_that_begin_anew_or_end(testbed):
    """What a server wrote when it ended is collected; what counts anew is the whole difference."""
    port = free_port()
    ends = [testbed.fleet.add_nemo_gym("--generation", g, name=f"ends-{g}") for g in ("table", "files")]
    again = testbed.fleet.add_nemo_gym("--generation", "table", "--port", port, name="again")
    testbed.fleet.wait_ready()
    verify(again, 2)
    ended, anew = testbed.begin(ends), testbed.begin([again])
    for worker in (*ends, again):
        verify(worker, 2)
        worker.child.terminate()
    assert [worker.child.wait(30) for worker in (*ends, again)] == [0, 0, 0]
    testbed.profd.post(f"/v1/sessions/{ended}/stop")  # tries for a while whether they come back
    testbed.fleet.workers.remove(again)
    young = testbed.fleet.add_nemo_gym("--generation", "table", "--port", port, name="again")
    young.wait_ready()
    verify(young)
    session = testbed.end(anew)
    assert session["state"] == "complete" and testbed.calls(session, young) == ANSWERS, session
    assert "began anew" in remarks(session)
    session = testbed.profd.wait_session(ended)
    assert session["state"] == "complete", session
    assert [testbed.calls(session, worker) for worker in ends] == [2 * ANSWERS, 2 * ANSWERS]


def test_a_restart_of_profd_is_reported(testbed):
    id_ = testbed.begin([testbed.table])
    testbed.profd.restart(crash=True)
    session = wait_for(lambda: (s := testbed.profd.session(id_))["state"] == "recording" and s)
    session = testbed.end(session["session"])
    assert session["state"] == "complete" and testbed.calls(session, testbed.table) > 0
    assert "profd was restarted during the recording" in remarks(session)


class Strange(BaseHTTPRequestHandler):
    """A server whose /stats is whatever the test says; each answer is used up, but for the last."""

    stats = []

    def do_GET(self):
        body = {"/openapi.json": b'{"paths": {"/stats": {}, "/seed_session": {}}}'}.get(self.path)
        status = 200
        if self.path == "/stats":
            status, body = self.stats.pop(0) if len(self.stats) > 1 else self.stats[0]
        self.send_response(status if body is not None else 404)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


TABLE = b"Clock type: CPU\n\nname  ncall  tsub  ttot  tavg\n/a.py:1 f  %d  0.5  1.0  0.1\n"


@pytest.mark.parametrize("stats, failure", [
    ([(200, b"<html>proxy</html>")], "no table of yappi's"),
    ([(500, b"dot is missing")], "GET /stats: 500"),
    ([(200, b"")], "writes its statistics into files of its own host"),
    ([(200, TABLE % 1), (500, b"")], "GET /stats: 500"),
    ([(200, TABLE % 1), (200, b"\0\xff" * 5000)], "no table of yappi's"),
])
def test_what_is_no_answer_fails_with_its_reason(testbed, stats, failure):
    strange = HTTPServer(("127.0.0.1", 0), type("Now", (Strange,), {"stats": list(stats)}))
    threading.Thread(target=strange.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{strange.server_port}"
    try:
        started = testbed.profd.start_session(workers=[url], duration_ns=50_000_000)
        session = testbed.profd.wait_session(started["session"])
    finally:
        strange.shutdown()
        strange.server_close()
    assert session["state"] == "failed", session
    assert failure in session["targets"][0]["failure"] and session["targets"][0]["remedy"]
    assert not testbed.profd.rows("select 1 from functions where worker = ?", url)
