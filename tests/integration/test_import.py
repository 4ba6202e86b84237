# SPDX-License-Identifier: Apache-2.0
"""Files that a client names (POST /v1/traces), and the profd that profctl starts for that: `profd --transient`."""

import contextlib
import gzip
import http.client
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import pytest

from daemon import END_S, PROFD, READY_S, Daemon, FaultFleet, free_port, token_line, wait_for, write_tokens
from real_traces import TRACES
from test_collect import NAME, config, made_trace, record, sha256
from test_store import check_agreement, column_files, files

MALFORMED = TRACES / "malformed"


def named(profd, path, status=201, **more):
    return profd.post("/v1/traces", {"path": str(path), **more}, status)


@pytest.fixture
def profd(tmp_path):
    with Daemon(tmp_path / "profd", config()) as running:
        yield running


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "some trace.json.gz"
    path.write_bytes(made_trace(distributedInfo={"rank": 3, "world_size": 8}))
    return path


@pytest.mark.smoke
def test_a_file_is_taken(profd, file):
    trace = named(profd, file, labels={"run": "a"})
    assert trace["trace"] == "t1" and trace["kind"] == "trace" and trace["state"] == "complete"
    assert trace["origin"] == str(file) and trace["stored"] and "session" not in trace and "worker" not in trace
    assert Path(trace["path"]) == profd.state / "traces/unclaimed" / file.name
    assert Path(trace["path"]).read_bytes() == file.read_bytes() and trace["sha256"] == sha256(file)
    assert trace["labels"] == {"run": "a"} and trace["ranks"]["rank"] == 3 and trace["world_size"] == 8
    assert trace["slices"] == 1 and trace["names"][0]["name"] == "aten::mm"
    assert profd.get("/v1/traces/t1") == trace
    assert profd.rows("select labels ->> '$.run' as run from traces") == [{"run": "a"}]
    (event,) = profd.rows("select actor, kind from events")
    assert event["kind"] == "trace-added" and event["actor"].startswith(f"uid {os.getuid()}")
    check_agreement(profd)


def test_the_same_bytes_are_the_same_trace(profd, file, tmp_path):
    first = named(profd, file)
    other = tmp_path / "other name.json.gz"
    shutil.copyfile(file, other)
    assert named(profd, other, 200) == first == named(profd, file, 200)
    assert named(profd, first["path"], 200) == first
    assert len(files(profd)) == len(column_files(profd)) == 1
    # What is missing is no answer: the file takes its place.
    profd.stop()
    Path(first["path"]).unlink()
    profd.start()
    wait_for(lambda: profd.get("/v1/traces/t1")["state"] == "missing")
    again = named(profd, file)
    assert again["state"] == "complete" and again["stored"] and "reason" not in again
    check_agreement(profd)


def test_the_same_bytes_at_the_same_time_are_one_trace(profd, tmp_path):
    content = made_trace(at="once")
    paths = [tmp_path / f"of client {n}.json.gz" for n in range(8)]
    for path in paths:
        path.write_bytes(content)
    answers = []

    def ask(path):
        reply = profd.request("POST", "/v1/traces", {"path": str(path)})
        answers.append((reply.status, reply.json()["trace"]))

    threads = [threading.Thread(target=ask, args=[path]) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [(200, "t1")] * 7 + [(201, "t1")]
    assert len(files(profd)) == len(column_files(profd)) == 1
    check_agreement(profd)


def test_columns_of_a_known_trace_are_made_again(profd, file):
    first = named(profd, file)
    columns = Path(first["columns"])
    sound = columns.read_bytes()
    damaged = sound[:-1] + bytes([sound[-1] ^ 0x55])
    columns.write_bytes(damaged)
    assert named(profd, file, 200) == first and columns.read_bytes() == damaged
    assert named(profd, file, 200, again=True) == first and columns.read_bytes() == sound
    columns.unlink()
    assert named(profd, file, 200) == first and columns.read_bytes() == sound
    profd.stop()
    with contextlib.closing(sqlite3.connect(profd.catalog)) as catalog, catalog:
        catalog.execute("update trace_row set columns_version = 0, slices = null")
    columns.write_bytes(damaged)
    profd.start()
    assert named(profd, file, 200) == first and columns.read_bytes() == sound
    # profd itself reads what is outdated as well.
    wait_for(lambda: len(files(profd)) == len(column_files(profd)) == 1)
    profd.problem("POST", "/v1/traces", {"path": str(file), "again": 1}, 400)
    check_agreement(profd)


def test_a_reference_is_left_where_it_is(profd, file):
    trace = named(profd, file, reference=True)
    assert not trace["stored"] and trace["path"] == trace["origin"] == str(file) and "reason" not in trace
    assert Path(trace["columns"]).parent == profd.state / "columns"
    assert not files(profd)
    # Written anew, the file is another trace in the same place.
    file.write_bytes(made_trace(again=True))
    again = named(profd, file, reference=True)
    assert again["trace"] == "t1" and again["sha256"] != trace["sha256"] and again["names"]
    check_agreement(profd)


def test_damage_is_reported(profd, tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_bytes(gzip.decompress(made_trace())[:-2])
    trace = named(profd, cut)
    assert trace["state"] == "truncated" and trace["reason"] == "truncated after 1 events" and trace["slices"] == 1


def test_every_malformed_trace_is_taken(profd):
    for file in sorted(MALFORMED.iterdir()):
        trace = named(profd, file)
        assert trace["slices"] > 1000 and trace["columns"], trace
        assert trace["state"] == ("truncated" if file.name.startswith("truncated") else "complete")
        assert trace["defects"], trace
    check_agreement(profd)


REFUSED = [  # content, words of the detail
    (b"\x80\x04\x95" + bytes(100), "pickle"),
    (b"#!/bin/sh\necho no trace\n", "text"),
    (b'{"some": "JSON"}', "JSON"),
    (b"", ""),
    (os.urandom(4096), "binary"),
]


@pytest.mark.parametrize("content, words", REFUSED, ids=["pickle", "text", "json", "empty", "binary"])
def test_what_is_no_trace_is_refused(profd, tmp_path, content, words):
    file = tmp_path / "rank0.1700000000000000000.pt.trace.json"
    file.write_bytes(content)
    problem = profd.problem("POST", "/v1/traces", {"path": str(file)}, 422)
    assert problem["code"] == "unsupported" and words in problem["detail"] and problem["remedy"]
    assert not profd.traces() and not files(profd) and not column_files(profd)
    assert not list((profd.state / "traces").glob(".*"))


def test_wrong_requests(profd, tmp_path, file):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    link = tmp_path / "link"
    link.symlink_to(file)
    for path, status in ((tmp_path / "nowhere", 404), (file / "below", 404), (tmp_path, 400), (fifo, 400), (link, 400),
                         ("/", 400)):
        assert profd.problem("POST", "/v1/traces", {"path": str(path)}, status)["detail"]
    for body in ({}, {"path": "some/where"}, {"path": 7}, {"path": str(file), "rank": 7}, [],
                 {"path": str(file), "reference": "yes"}, {"path": str(file), "labels": {"a": 1}},
                 {"path": str(file), "labels": {str(i): "x" for i in range(40)}}):
        profd.problem("POST", "/v1/traces", body, 400)
    assert not profd.traces()


def test_too_large(tmp_path, file):
    with Daemon(tmp_path / "profd", config(collect="file_max=1M")) as profd:
        with open(file, "ab") as f:
            f.truncate(2 << 20)
        problem = profd.problem("POST", "/v1/traces", {"path": str(file)}, 413)
        assert "file_max" in problem["remedy"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_only_its_own_user_may_name_files(tmp_path, profd, file):
    """Group and others may use the socket; what profd can read is not theirs to have read for them."""
    for directory in [tmp_path, *tmp_path.parents][:4]:
        directory.chmod(0o755)
    (tmp_path / "profd").chmod(0o755)
    profd.socket.chmod(0o666)
    asked = subprocess.run(["curl", "-s", "--unix-socket", profd.socket, "-d", json.dumps({"path": str(file)}),
                            "http://localhost/v1/traces"], capture_output=True, text=True, user=65534, check=False)
    problem = json.loads(asked.stdout)
    assert problem["status"] == 403 and problem["code"] == "denied" and "watch=" in problem["remedy"]
    assert not profd.traces()


def test_not_by_tcp(tmp_path, file):
    port, token = free_port(), "profd_" + 64 * "7"
    tokens = write_tokens(tmp_path / "tokens", token_line("tester", "admin", token))
    with Daemon(tmp_path / "profd", f"{config()}[http]\ntokens_file={tokens}\n", ["--listen", f"127.0.0.1:{port}"]) as profd:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/traces", json.dumps({"path": str(file)}), {"Authorization": f"Bearer {token}"})
            reply = connection.getresponse()
            assert reply.status == 403 and b"needs the role" not in reply.read()
        assert not profd.traces()


def test_many_at_once_during_a_session(tmp_path):
    """The API keeps answering, and everybody gets an answer of his own."""
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, Daemon(tmp_path / "profd", config()) as profd:
        answers, threads = {}, []
        for i in range(24):
            path = tmp_path / f"file{i}.json.gz"
            path.write_bytes(made_trace(i=i // 2))  # each twice
            threads.append(threading.Thread(target=lambda i=i, path=path: answers.update(
                {i: profd.request("POST", "/v1/traces", {"path": str(path)})})))
        for thread in threads:
            thread.start()
        assert record(profd, fleet)["state"] == "complete"
        for thread in threads:
            thread.join()
        assert {answer.status for answer in answers.values()} <= {200, 201} and len(answers) == 24
        for i in range(0, 24, 2):
            assert answers[i].json()["sha256"] == answers[i + 1].json()["sha256"]
        check_agreement(profd)


def test_a_client_that_leaves(tmp_path, profd, file):
    connection = profd.connection()
    connection.request("POST", "/v1/traces", json.dumps({"path": str(file)}))
    connection.close()
    wait_for(profd.traces)
    check_agreement(profd)


def test_profd_ends_meanwhile(tmp_path):
    event = '{"ph": "X", "cat": "cpu_op", "name": "%d", "pid": 1, "tid": 1, "ts": %d, "dur": 1}'
    file = tmp_path / "large.json"
    file.write_text('{"traceEvents": [' + ",\n".join(event % (i, i) for i in range(1_000_000)) + "]}")
    profd = Daemon(tmp_path / "profd", config()).start()
    failed = []

    def ask():
        try:
            failed.append(profd.request("POST", "/v1/traces", {"path": str(file)}).status >= 400)
        except (OSError, http.client.HTTPException):
            failed.append(True)

    asker = threading.Thread(target=ask)
    asker.start()
    wait_for(lambda: list((profd.state / "columns").glob(".incoming-*")), interval_s=0.001)
    profd.stop()
    asker.join()
    assert failed == [True]
    profd.start()
    try:
        assert not profd.traces() and not files(profd) and not column_files(profd)
        assert named(profd, file)["slices"] == 1_000_000
    finally:
        profd.stop()


# For the time of a call

class Transient(Daemon):
    """profd --transient: ready when it says so on stdout, and gone when its stdin is."""

    def command(self):
        return [*super().command(), "--transient"]

    def start(self):
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                            env={**os.environ, **self.environment})
        assert self.process.stdout.readline() == b"ready\n", self.log()
        return self

    def stop(self, number=None):
        process, self.process = self.process, None
        process.stdin.close()
        status = process.wait(END_S)
        assert process.stdout.read() == b""
        process.stdout.close()
        assert status == 0, self.log()
        return status


def test_transient(tmp_path, file):
    watched = tmp_path / "watched"
    watched.mkdir()
    (watched / NAME).write_bytes(made_trace(watched=True))
    port = free_port()
    with Transient(tmp_path / "profd", f"[profd]\nlisten=127.0.0.1:{port}\n" +
                   config(collect=f"watch={watched}", settle="200ms")) as profd:
        trace = named(profd, file)
        assert trace["names"] and Path(trace["path"]).exists()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 1)
        profd.process.stdin.write(b"this is ignored")
        profd.process.stdin.flush()
        time.sleep(1)
        assert len(profd.traces()) == 1  # directories are for others to watch
    assert not profd.socket.exists()
    # What it took is there for the next one, and what it left alone is seen to.
    with Daemon(tmp_path / "profd", config(collect=f"watch={watched}")) as profd:
        assert profd.get("/v1/traces/t1") == trace
        wait_for(lambda: len(profd.traces()) == 2)


def test_transient_leaves_sessions_and_columns_alone(tmp_path, file):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "slow-stop=60") as fleet:
        profd = Daemon(tmp_path / "profd", config()).start()
        trace = named(profd, file)
        profd.start_session(router=fleet.router, duration_ns=60_000_000_000)
        profd.wait_state("s1", "recording")
        profd.kill()
        Path(trace["columns"]).unlink()
        with Transient(tmp_path / "profd", config()) as profd:
            time.sleep(0.5)
            assert profd.session("s1")["state"] == "recording"
            assert not column_files(profd)
        assert fleet.calls(0, "/stop_profile")[1:] == []  # one goes before a start of vLLM


def test_transient_during_a_running_one(tmp_path, profd):
    other = Transient(tmp_path / "profd", config())
    other.socket = tmp_path / "other.sock"
    done = subprocess.run(other.command(), stdin=subprocess.PIPE, capture_output=True, text=True, timeout=READY_S, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert f"is in use by process {profd.pid}" in done.stderr


@pytest.mark.parametrize("arguments, words", [(["--transient"], "needs --socket"),
                                              (["--transient", "--socket", "s", "--state-dir", "d"], "stdin is not a pipe")])
def test_transient_needs_its_starter(tmp_path, arguments, words):
    done = subprocess.run([PROFD, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=READY_S,
                          cwd=tmp_path, check=False)
    assert done.returncode in (1, 2) and words in done.stderr and done.stdout == ""
