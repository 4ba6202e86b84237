# SPDX-License-Identifier: Apache-2.0
"""profd as a process: its life, its configuration, and its API from the outside, against fault workers."""

import contextlib
import gzip
import http.client
import os
import re
import select
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import yaml

from daemon import BUILD, PROFD, ROOT, SANITIZED, Daemon, FaultFleet, Reply, free_port, token_line, wait_for, write_tokens
from patience import patience
from wall_clock import WallClock, why_not

MS = 1_000_000
QUICK = "[collect]\nsettle=300ms\n"


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("profd"), QUICK) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with FaultFleet(tmp_path_factory.mktemp("fleet"), "vllm", 3) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def finished(profd, fleet):
    """A session that is over, for tests that only look."""
    started = profd.start_session(router=fleet.router, duration_ns=100 * MS, labels={"for": "looking"})
    session = profd.wait_session(started["session"])
    assert session["state"] == "complete", profd.log()
    return session


# The API


@pytest.mark.smoke
def test_health_and_version(profd):
    health = profd.request("GET", "/healthz")
    assert (health.status, health.body) == (200, b"ok\n")
    head = profd.request("HEAD", "/healthz")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", "3")
    version = profd.get("/v1/version")
    assert version["pid"] == profd.pid
    assert version["catalog"] == str(profd.catalog)
    assert version["socket"] == str(profd.socket)
    assert version["limits"]["workers"] == 10000


@pytest.mark.parametrize(
    "method, path, body, status, code, text",
    [
        ("GET", "/v2", None, 404, "not-found", "no such path: /v2"),
        ("GET", "/v1/sessions/s7/files", None, 404, "not-found", "no such path:"),
        ("DELETE", "/v1/sessions", None, 405, "bad-request", "allows GET, HEAD, POST"),
        ("GET", "/v1/sessions/t7", None, 400, "bad-request", '"t7" is not the id of a session'),
        ("GET", "/v1/traces/seven", None, 400, "bad-request", 'is not the id of a trace'),
        ("GET", "/v1/sessions/s999", None, 404, "not-found", "there is no session s999"),
        ("GET", "/v1/traces/t999/file", None, 404, "not-found", "there is no trace t999"),
        ("POST", "/v1/sessions/s999/stop", None, 404, "not-found", "there is no session s999"),
        ("DELETE", "/v1/sessions/s999", None, 404, "not-found", "there is no session s999"),
        ("PUT", "/v1/sessions/s999/pin", None, 404, "not-found", "there is no session s999"),
        ("DELETE", "/v1/traces/t999/pin", None, 404, "not-found", "there is no trace t999"),
        ("GET", "/v1/traces?session=s999", None, 404, "not-found", "there is no session s999"),
        ("GET", "/v1/traces?before=t999", None, 404, "not-found", "there is no trace t999"),
        ("GET", "/v1/events?session=s999", None, 404, "not-found", "there is no session s999"),
        ("GET", "/v1/traces?sess=s1", None, 400, "bad-request", 'takes no parameter "sess"'),
        ("GET", "/v1/usage?verbose=1", None, 400, "bad-request", 'takes no parameter "verbose"'),
        ("GET", "/v1/traces?limit=0", None, 400, "bad-request", "limit=0 must be a whole number from 1 to 1000"),
        ("GET", "/v1/traces?since=yesterday", None, 400, "bad-request", "since=yesterday must be a whole number"),
        ("GET", "/v1/traces?unclaimed=maybe", None, 400, "bad-request", "unclaimed=maybe must be true or false"),
        ("GET", "/v1/sessions?state=ready", None, 400, "bad-request", "unknown session state 'ready'"),
        ("GET", "/v1/events?after=-1", None, 400, "bad-request", "after=-1 must be a whole number"),
        ("POST", "/v1/sessions", b"{", 400, "bad-request", "the request's body is not JSON"),
        ("POST", "/v1/sessions", [], 400, "bad-request", "the request's body must be a JSON object"),
        ("POST", "/v1/sessions", {"durations": 1}, 400, "bad-request", '"durations" is not an option'),
        ("POST", "/v1/sessions", {"router": "a", "fleet": "b"}, 400, "bad-request", "exclude each other"),
        ("POST", "/v1/vacuum", {}, 400, "bad-request", '"keep" or "collected_until" is missing'),
        ("POST", "/v1/vacuum", {"keep": 1, "dry": True}, 400, "bad-request", '"dry"'),
        ("GET", "/v1/workers?trace_dir=x&worker=http://127.0.0.1:1", None, 400, "bad-request", "trace_dir must be an absolute"),
        ("GET", "/v1/workers?fleet=nope", None, 404, "not-found", "nope"),
        ("GET", "/v1/workers?router=ftp://x", None, 400, "bad-request", "ftp://x"),
        ("GET", "/v1/workers?router=http://127.0.0.1:1", None, 502, "upstream", "http://127.0.0.1:1"),
    ],
)
def test_problems(profd, method, path, body, status, code, text):
    problem = profd.problem(method, path, body, status)
    assert problem["code"] == code
    assert text in problem["detail"]


def test_method_not_allowed_names_which_are(profd):
    reply = profd.request("PUT", "/v1/traces/t1")
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD, DELETE")


@pytest.mark.smoke
def test_workers(profd, fleet):
    answer = profd.get("/v1/workers", router=fleet.router)
    assert answer["dialect"] == "vllm-router"
    assert [w["url"] for w in answer["workers"]] == fleet.workers
    for worker in answer["workers"]:
        assert (worker["engine"], worker["health"], worker["profilable"]) == ("vllm", "healthy", True)
    listed = profd.get("/v1/workers", worker=fleet.workers[1:])
    assert (listed["dialect"], [w["url"] for w in listed["workers"]]) == ("static", fleet.workers[1:])


def test_doctor(profd, fleet):
    healthy = profd.get("/v1/doctor", router=fleet.router)
    assert (healthy["problems"], healthy["warnings"]) == (0, 0), healthy
    assert any("answers as vllm-router" in c["text"] for c in healthy["checks"])
    assert any("the store" in c["text"] for c in healthy["checks"])
    try:
        fleet.set_fault("no-profiler", workers="1")
        ill = profd.get("/v1/doctor", router=fleet.router)
        found = [c for c in ill["checks"] if c["result"] == "fail"]
        assert len(found) == ill["problems"] == 1
        assert found[0]["worker"] == fleet.workers[1]
        assert "--profiler-config" in found[0]["remedy"]
    finally:
        fleet.set_fault("none")
    unreachable = profd.get("/v1/doctor", router="http://127.0.0.1:1")
    assert unreachable["problems"] == 1
    assert "http://127.0.0.1:1" in unreachable["checks"][0]["text"]


# Sessions and traces


def test_session(profd, fleet, finished):
    assert finished["counts"]["complete"] == 3
    assert finished["labels"] == {"for": "looking"}
    assert re.fullmatch(r"uid \d+( \(\S+\))?", finished["requested_by"])
    assert [t["worker"] for t in finished["targets"]] == fleet.workers
    assert finished["session"] in [s["session"] for s in profd.get("/v1/sessions")["sessions"]]
    assert profd.get("/v1/sessions", state="active")["sessions"] == []
    assert fleet.router in [r["url"] for r in profd.get("/v1/routers")["routers"]]


def test_router_that_was_used_last_is_the_default(profd, fleet, finished):
    assert [w["url"] for w in profd.get("/v1/workers")["workers"]] == fleet.workers


def test_traces(profd, fleet, finished):
    answer = profd.get("/v1/traces", session=finished["session"])
    assert {t["worker"] for t in answer["traces"]} == set(fleet.workers)
    assert all(t["state"] == "complete" and t["session"] == finished["session"] for t in answer["traces"])
    assert answer["usage"]["traces"] >= 3
    one = answer["traces"][0]
    assert profd.get(f"/v1/traces/{one['trace']}").items() >= one.items()
    assert profd.traces(worker=fleet.workers[0], session=finished["session"])[0]["worker"] == fleet.workers[0]
    assert profd.traces(since=time.time_ns()) == []
    assert profd.traces(unclaimed="true") == []


def test_pages_of_traces(profd, finished):
    everything = [t["trace"] for t in profd.traces(limit=1000)]
    pages, more = [], {}
    while True:
        page = profd.get("/v1/traces", limit=2, **more)
        assert len(page["traces"]) <= 2
        pages += [t["trace"] for t in page["traces"]]
        if "next" not in page:
            break
        more = {"before": page["next"]}
    assert pages == everything


def test_download(profd, finished):
    trace = profd.traces(session=finished["session"])[0]
    path = f"/v1/traces/{trace['trace']}/file"
    whole = profd.request("GET", path)
    assert (whole.status, len(whole.body)) == (200, trace["size"])
    assert whole.body == Path(trace["origin"]).read_bytes()
    assert b"traceEvents" in gzip.decompress(whole.body)
    assert trace["name"] in whole.headers["Content-Disposition"]
    part = profd.request("GET", path, headers={"Range": "bytes=10-19"})
    assert (part.status, part.body) == (206, whole.body[10:20])
    assert part.headers["Content-Range"] == f"bytes 10-19/{trace['size']}"
    rest = profd.request("GET", path, headers={"Range": "bytes=10-", "If-Range": whole.headers["ETag"]})
    assert (rest.status, rest.body) == (206, whole.body[10:])
    stale = profd.request("GET", path, headers={"Range": "bytes=10-", "If-Range": '"other"'})
    assert (stale.status, stale.body) == (200, whole.body)
    beyond = profd.request("GET", path, headers={"Range": f"bytes={trace['size']}-"})
    assert beyond.status == 416
    head = profd.request("HEAD", path)
    assert (head.status, head.body, int(head.headers["Content-Length"])) == (200, b"", trace["size"])


def test_file_that_is_gone(profd, fleet):
    started = profd.start_session(router=fleet.router, count=1, duration_ns=50 * MS)
    session = profd.wait_session(started["session"])
    trace = profd.traces(session=session["session"])[0]
    os.unlink(trace["path"])
    problem = profd.problem("GET", f"/v1/traces/{trace['trace']}/file", status=410)
    assert problem["code"] == "gone" and trace["path"] in problem["detail"]
    assert profd.request("DELETE", f"/v1/traces/{trace['trace']}").status == 200
    profd.problem("GET", f"/v1/traces/{trace['trace']}", status=404)


def test_stop_remove_and_busy(profd, fleet):
    session = profd.start_session(router=fleet.router, duration_ns=60_000 * MS)["session"]
    profd.wait_state(session, "recording")
    busy = profd.problem("POST", "/v1/sessions", {"router": fleet.router}, 409)
    assert busy["code"] == "busy" and session in busy["detail"] and f"profctl stop {session}" in busy["remedy"]
    early = profd.problem("DELETE", f"/v1/sessions/{session}", status=409)
    assert early["code"] == "conflict" and f"profctl stop {session}" in early["remedy"]
    assert profd.post(f"/v1/sessions/{session}/stop")["state"] in ("recording", "stopping")
    assert profd.wait_session(session)["state"] == "complete"
    assert fleet.journal()["profiling"] == 0
    over = profd.problem("POST", f"/v1/sessions/{session}/stop", status=409)
    assert f"session {session} is over: it is complete" == over["detail"]
    paths = [Path(t["path"]) for t in profd.traces(session=session)]
    assert len(paths) == 3 and all(p.exists() for p in paths)
    removed = profd.request("DELETE", f"/v1/sessions/{session}").json()
    assert removed["removed"] == session and removed["freed"] > 0
    assert not any(p.exists() for p in paths)
    profd.problem("GET", f"/v1/sessions/{session}", status=404)


def test_refusal_has_remarks(profd, tmp_path):
    with FaultFleet(tmp_path, "sglang", 1, "--role", "decode=1", "--router-dialect", "sglang") as sglang:
        problem = profd.problem("POST", "/v1/sessions", {"router": sglang.router, "steps": 3, "by_stage": True}, 422)
    assert problem["code"] == "unsupported"
    assert [r["option"] for r in problem["remarks"] if r["refuses"]] == ["--by-stage"]


def test_client_that_leaves_starts_nothing(profd, tmp_path):
    with FaultFleet(tmp_path, "vllm", 1, "--fault", "slow-body") as slow:
        before = profd.get("/v1/sessions")["sessions"]
        with pytest.raises(TimeoutError):
            profd.request("POST", "/v1/sessions", {"router": slow.router}, timeout=0.3)
        slow.set_fault("none")
        wait_for(lambda: profd.get("/v1/version")["connections"] == 1)
        time.sleep(0.5)  # that nothing comes of it takes a while to be seen
        assert profd.get("/v1/sessions")["sessions"] == before
        assert slow.journal()["starts"] == 0


def test_pins_and_vacuum(profd, fleet):
    def record():
        started = profd.start_session(router=fleet.router, count=1, duration_ns=50 * MS)
        return profd.wait_session(started["session"])["session"]

    kept, other = record(), record()
    assert profd.request("PUT", f"/v1/sessions/{kept}/pin").json()["pinned"] is True
    trace = profd.traces(session=other)[0]["trace"]
    assert profd.request("PUT", f"/v1/traces/{trace}/pin").json()["pinned"] is True
    assert profd.request("DELETE", f"/v1/traces/{trace}/pin").json()["pinned"] is False
    usage = profd.get("/v1/usage")
    dry = profd.post("/v1/vacuum", {"keep": 0, "dry_run": True})
    assert dry["removed"] >= 1 and dry["usage"]["bytes"] == usage["bytes"]
    wet = profd.post("/v1/vacuum", {"keep": 0})
    assert wet["removed"] == dry["removed"]
    assert profd.traces(session=other) == []
    assert len(profd.traces(session=kept)) == 1
    assert profd.request("DELETE", f"/v1/sessions/{kept}/pin").json()["pinned"] is False


# Events


def is_state(session, state):
    return lambda e: e["event"] == "session-state" and e["data"]["session"] == session and e["data"]["text"].startswith(state)


def test_events(profd, fleet):
    with profd.events() as stream:
        session = profd.start_session(router=fleet.router, duration_ns=50 * MS)["session"]
        events = stream.until(is_state(session, "complete"))
    assert events[0]["event"] == "session-requested"
    states = [e["data"]["text"].split()[0] for e in events if e["event"] == "session-state"]
    assert states == ["starting", "recording", "stopping", "collecting", "complete"]
    ids = [e["id"] for e in events]
    assert ids == sorted(set(ids)) and ids == [e["data"]["event_id"] for e in events]

    with profd.events(f"/v1/events?after={ids[2]}") as replay:
        assert replay.until(is_state(session, "complete")) == events[3:]
    with profd.events("/v1/events?after=0", headers={"Last-Event-ID": str(ids[-2])}) as replay:
        assert next(iter(replay)) == events[-1]
    with profd.events(f"/v1/events?after=0&session={session}") as replay:
        assert replay.until(is_state(session, "complete")) == [e for e in events if e["data"].get("session") == session]


@pytest.fixture(scope="module")
def many(profd, tmp_path_factory):
    """A session of 400 workers, and its events as a client had them that read on."""
    with FaultFleet(tmp_path_factory.mktemp("many"), "vllm", 400) as fleet, profd.events() as stream:
        session = profd.start_session(router=fleet.router, duration_ns=50 * MS)["session"]
        return session, stream.until(is_state(session, "complete"))


def test_events_of_many_workers_all_arrive(profd, many):
    """They come as a burst of more than may wait for a client, who reads on."""
    session, events = many
    first = events[0]["id"]
    with profd.events(f"/v1/events?after={first - 1}") as replay:
        assert replay.until(is_state(session, "complete")) == events
    assert sum(len(str(e["data"])) for e in events) > 256 << 10
    complete = {e["data"].get("target") for e in events if e["data"]["text"].endswith(" complete")}
    assert len(complete - {None}) == 400
    assert [e["id"] for e in events] == list(range(first, first + len(events)))


def test_client_that_reads_late_misses_nothing(profd, many):
    """There is more than profd keeps for a client that does not read yet: the rest comes from the catalog as it reads on. One
    that connects anew with Last-Event-ID goes on there."""
    session, _ = many
    with profd.events(f"/v1/events?session={session}&after=0") as late:
        time.sleep(0.5)  # in which many pages could be written
        events = late.until(is_state(session, "complete"))
    ids = [row["event_id"] for row in profd.rows("select event_id from events where session_id = ?", int(session[1:]))]
    assert [e["id"] for e in events] == ids[:len(events)]
    middle = len(events) // 2
    with profd.events(f"/v1/events?session={session}", {"Last-Event-ID": str(events[middle]["id"])}) as again:
        assert again.until(is_state(session, "complete")) == events[middle + 1:]


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_silent_stream_is_kept_alive(tmp_path):
    clock = WallClock(tmp_path / "clock")
    with Daemon(tmp_path / "profd", environment=clock.environment) as silent, silent.events() as stream:
        for is_due in (False, True):
            clock.let_pass(8)
            assert silent.request("GET", "/healthz").status == 200  # which wakes it up
            assert is_due or not select.select([stream.response], [], [], 0.1)[0]
        assert stream.response.readline().startswith(b":")


# Fleets of profd.conf


def test_configured_fleets(tmp_path, fleet):
    one = f"[fleet east]\nrouter={fleet.router}\n"
    with Daemon(tmp_path / "one", one) as profd:
        answer = profd.get("/v1/workers")
        assert (answer["name"], len(answer["workers"])) == ("east", 3)
    two = one + f"[fleet west]\nworker={fleet.workers[2]}\n"
    with Daemon(tmp_path / "two", two) as profd:
        which = profd.problem("GET", "/v1/workers", status=400)
        assert "east, west" in which["detail"] and "--fleet" in which["remedy"]
        assert [w["url"] for w in profd.get("/v1/workers", fleet="west")["workers"]] == [fleet.workers[2]]
    with Daemon(tmp_path / "none") as profd:
        nothing = profd.problem("GET", "/v1/workers", status=400)
        assert "no router named" in nothing["detail"] and "--router" in nothing["remedy"]


# Life


def test_recording_outlives_a_crash(tmp_path, fleet):
    with Daemon(tmp_path, QUICK) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=int(patience(600 * MS)))["session"]
        profd.wait_state(session, "recording")
        profd.kill()
        assert stat.S_ISSOCK(profd.socket.stat().st_mode)  # it is stale, and replaced
        profd.start()
        assert profd.wait_session(session)["state"] == "complete"
        assert fleet.journal()["profiling"] == 0


def test_end_stops_the_profilers(tmp_path, fleet):
    with Daemon(tmp_path, QUICK) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=60_000 * MS)["session"]
        profd.wait_state(session, "recording")
        profd.stop()
        assert fleet.journal()["profiling"] == 0
        assert not profd.socket.exists()
        profd.start()
        assert profd.wait_session(session)["state"] in ("complete", "partial")


def test_second_signal_ends_at_once(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "slow-stop=60") as slow, Daemon(tmp_path / "d") as profd:
        session = profd.start_session(router=slow.router, duration_ns=60_000 * MS)["session"]
        profd.wait_state(session, "recording")
        process = profd.process
        process.send_signal(signal.SIGINT)
        wait_for(lambda: "stopping" in profd.log())
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        begin = time.monotonic()
        profd.stop(signal.SIGINT)
        assert time.monotonic() - begin < patience(2)
        # What was owed still is.
        with contextlib.closing(sqlite3.connect(f"file:{profd.catalog}?mode=ro", uri=True)) as catalog:
            assert catalog.execute("select stop_pending from targets").fetchall() == [(1,)]


def test_reload_signal_does_no_harm(profd):
    profd.process.send_signal(signal.SIGHUP)
    wait_for(lambda: f"reloaded: {profd.config}" in profd.log())
    assert profd.request("GET", "/healthz").status == 200


def test_system_manager_is_notified(tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(10)
        with Daemon(tmp_path / "d", environment={"NOTIFY_SOCKET": str(path)}):
            assert b"READY=1" in manager.recv(4096)
        assert b"STOPPING=1" in manager.recv(4096)


@pytest.mark.plain
def test_idle(tmp_path):
    """No wake-ups, and small, also after it had work."""
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as some, Daemon(tmp_path / "d", QUICK) as profd:
        if not SANITIZED:
            assert profd.memory("Rss") < 20 << 20
            assert profd.memory("Private_Dirty") < 4 << 20
        session = profd.start_session(router=some.router, duration_ns=50 * MS)["session"]
        profd.wait_session(session)

        def switches():
            status = [t.read_text() for t in Path(f"/proc/{profd.pid}/task").glob("*/status")]
            return sum(int(n) for s in status for n in re.findall(r"ctxt_switches:\s+(\d+)", s))

        time.sleep(3)  # what the session leaves to be done
        before = switches()
        time.sleep(4)
        assert switches() == before


# Who is in the way


def test_two_on_one_catalog(profd, tmp_path):
    status, said = Daemon(tmp_path, options=["--state-dir", profd.state]).refuses()
    assert status == 1
    assert str(profd.catalog) in said and str(profd.pid) in said
    assert profd.request("GET", "/healthz").status == 200


def test_two_on_one_socket(profd, tmp_path):
    status, said = Daemon(tmp_path, options=["--socket", profd.socket]).refuses()
    assert status == 1
    assert f"cannot listen on {profd.socket}: address already in use" in said and "--socket" in said
    assert profd.request("GET", "/healthz").status == 200


def test_something_else_is_where_the_socket_belongs(tmp_path):
    other = Daemon(tmp_path)
    other.socket.write_text("precious")
    status, said = other.refuses()
    assert status == 1 and "not a socket" in said
    assert other.socket.read_text() == "precious"


def test_newer_catalog(tmp_path):
    with Daemon(tmp_path) as profd:
        profd.stop()
        with contextlib.closing(sqlite3.connect(profd.catalog)) as catalog:
            catalog.execute("pragma user_version = 99")
        status, said = profd.refuses()
        assert status == 1
        assert str(profd.catalog) in said and "99" in said


def test_state_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    status, said = Daemon(tmp_path, options=["--state-dir", tmp_path / "file" / "below"]).refuses()
    assert status == 1
    assert str(tmp_path / "file" / "below") in said


# Configuration and command line


def test_bad_configuration(tmp_path):
    bad = Daemon(tmp_path, "[timeouts]\nstop=fast\n[limits]\nworker=3\n")
    status, said = bad.refuses()
    assert status == 2
    assert said.splitlines() == [
        f"profd: {bad.config}:2: [timeouts] stop=fast: must be a duration such as 30min, from 100ms to 7d",
        f"profd: {bad.config}:4: [limits] worker: no such key; did you mean workers?",
    ]
    assert not bad.state.exists()


@pytest.mark.parametrize(
    "options, text",
    [
        (["--listen", "node7:9460"], "must be an address and a port"),
        (["--log-level", "loud"], "must be error, warning, notice, info or debug"),
        (["--config", "/nonexistent"], "cannot read /nonexistent: No such file or directory"),
        (["--bogus"], "unrecognized option"),
        (["start"], "profctl has the verbs"),
    ],
)
def test_bad_command_line(tmp_path, options, text):
    status, said = Daemon(tmp_path, options=options).refuses()
    assert status == 2 and text in said


def run(*options, **more):
    return subprocess.run([PROFD, *options], capture_output=True, text=True, timeout=20, **more)


def test_help_and_version():
    help_text = run("--help")
    assert (help_text.returncode, help_text.stderr) == (0, "")
    assert max(len(line) for line in help_text.stdout.splitlines()) <= 80
    assert re.fullmatch(r"profd \d+\.\d+\.\d+\n", run("--version").stdout)


def test_check_config(tmp_path):
    shipped = run("--config", ROOT / "etc/profd.conf", "--check-config")
    assert (shipped.returncode, shipped.stdout, shipped.stderr) == (0, "", "")


def test_places_of_a_user(request, tmp_path):
    """Where nothing is said, by XDG; root has its own places, which a test leaves alone."""
    if os.geteuid() == 0:
        tmp_path = Path(tempfile.mkdtemp(prefix="profd-test-", dir="/tmp"))
        request.addfinalizer(lambda: shutil.rmtree(tmp_path))
        os.chmod(tmp_path, 0o777)
        drop = {"user": 65534, "group": 65534, "extra_groups": []}
    else:
        drop = {}
    # The build may lie where another user cannot go, such as /root.
    for program in (PROFD, PROFD.parent / "ingest" / "profd-ingest"):
        shutil.copy(program, tmp_path)
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    process = subprocess.Popen([tmp_path / "profd"], stderr=subprocess.PIPE, text=True, env=environment, **drop)
    try:
        line = process.stderr.readline()
        assert f"socket {tmp_path}/run/profd/profd.sock, state in {tmp_path}/.local/state/profd, no profd.conf" in line
        assert stat.S_IMODE((tmp_path / "run/profd").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "run/profd/profd.sock").stat().st_mode) == 0o660
    finally:
        process.terminate()
        assert process.wait(20) == 0
        process.stderr.close()


# TCP, beyond what test_access.py says of it

TOKEN = "profd_" + 64 * "7"


@pytest.fixture
def tcp(tmp_path):
    port = free_port()
    tokens = write_tokens(tmp_path / "tokens", token_line("tester", "operate", TOKEN))
    with Daemon(tmp_path, f"{QUICK}[http]\ntokens_file={tokens}\n", ["--listen", f"127.0.0.1:{port}"]) as daemon:
        daemon.port = port
        yield daemon


def over_tcp(daemon, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=20)
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}", **(headers or {})})
        return Reply(connection.getresponse())


def test_tcp(tcp, fleet):
    assert over_tcp(tcp, "GET", "/healthz").status == 200
    body = f'{{"router": "{fleet.router}", "duration_ns": 50000000, "count": 1}}'
    started = over_tcp(tcp, "POST", "/v1/sessions", body)
    assert started.status == 201
    assert tcp.wait_session(started.json()["session"])["requested_by"] == "tester"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Host": "evil.example:9460"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "[::1]evil.example"},
        {"Host": "localhost:80.evil.example"},
    ],
)
def test_web_pages_are_refused(tcp, headers):
    for method in ("GET", "POST"):
        reply = over_tcp(tcp, method, "/v1/sessions", headers=headers)
        assert (reply.status, reply.json()["code"]) == (403, "denied")
    assert over_tcp(tcp, "GET", "/healthz", headers={"Host": "localhost:1"}).status == 200


# What is written about it


def test_routes_are_those_of_the_document():
    document = yaml.safe_load((ROOT / "proto/openapi.yaml").read_text())
    documented = {}
    for path, item in document["paths"].items():
        for method in {"get", "put", "post", "delete"} & item.keys():
            parameters = item[method].get("parameters", []) + item.get("parameters", [])
            documented[method.upper(), path] = {p["name"] for p in parameters if p["in"] == "query"}
            in_path = {p["name"] for p in parameters if p["in"] == "path"}
            assert in_path == set(re.findall(r"\{(\w+)\}", path))
    routes = {}
    for line in run("--list-routes").stdout.splitlines():
        method, path, _, *query = line.split()
        routes[method, path] = set(query)
    assert routes == documented


def test_keys_are_those_of_the_documents():
    keys = re.findall(r"^\[(\w+)\] (\w+) = ([^\t]*)\t(.+)$", run("--list-keys").stdout, re.MULTILINE)
    assert len(keys) > 30
    shipped, section = {}, None
    for line in (ROOT / "etc/profd.conf").read_text().splitlines():
        if heading := re.fullmatch(r"#?\[(\w+)( \S+)?\]", line):
            section = heading[1]
        elif key := re.fullmatch(r"#(\w+)=(\S.*)", line):
            shipped[section, key[1]] = key[2]
        else:
            assert not line or line == "#" or line.startswith("# "), f"neither a comment nor a key: {line}"
    assert shipped.keys() == {(section, name) for section, name, *_ in keys}
    manual = (ROOT / "docs/profd.conf.5.scd").read_text()
    for section, name, default, _ in keys:
        assert f"*{name}=*" in manual, f"{name} is not in profd.conf(5)"
        assert not default or shipped[section, name] == default


def test_unit_file(tmp_path):
    unit = (BUILD / "systemd/profd.service").read_text()
    text, n = re.subn(r"ExecStart=\S+/profd ", f"ExecStart={PROFD} ", unit)
    assert n == 1
    (tmp_path / "profd.service").write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / "profd.service"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


SIZES = {"M": 1 << 20, "G": 1 << 30}


def in_bytes(text):
    return int(text[:-1]) * SIZES[text[-1]]


def test_memory_of_the_unit_is_enough_for_what_profd_may_start():
    """The limits hold all that the defaults of profd.conf allow, and a GiB of profd's own."""
    unit = (BUILD / "systemd/profd.service").read_text()
    limits = {name: in_bytes(value) for name, value in re.findall(r"^(Memory\w+)=(\d+[MG])$", unit, re.MULTILINE)}
    keys = {(section, name): default for section, name, default in
            re.findall(r"^\[(\w+)\] (\w+) = ([^\t]*)\t", run("--list-keys").stdout, re.MULTILINE)}
    reading = int(keys["collect", "children"]) * (in_bytes(keys["collect", "columns_memory"]) + (512 << 20))
    sending = int(keys["load", "runs"]) * in_bytes(keys["load", "memory"])
    # Reports that clients wait for, one in the background, and processes of timelines.
    computing = (int(keys["limits", "reports"]) + 1 + 8) * in_bytes(keys["limits", "report_memory"])
    assert (1 << 30) + reading + computing + sending <= limits["MemoryHigh"] < limits["MemoryMax"]
    assert limits["MemoryMax"] < 2 * limits["MemoryHigh"]


def test_idle_clients_on_tcp_do_not_shut_the_unix_socket(tcp):
    idle = [socket.create_connection(("127.0.0.1", tcp.port), 10) for _ in range(260)]
    assert idle[0].recv(100) == b"", "the limit was not reached"
    assert tcp.request("GET", "/healthz").status == 200
    for client in idle:
        client.close()
