# SPDX-License-Identifier: Apache-2.0
"""Traces that another host keeps: reports are computed there, only results travel, and they are those of the same traces here."""
import contextlib
import json
import os
import random
import socket
import sqlite3
import subprocess
import threading
import time

import pytest

from certificates import Authority
from daemon import BUILD, wait_for
from patience import patience
from real_traces import CORPUS
from test_peers import Peer

PROFCTL = BUILD / "client/profctl"
SLICES = 300_000
RANKS = 2


class Wire:
    """Between two hosts: counts what the far one sends."""

    def __init__(self, address, port):
        self.to, self.bytes, self.open = (address, port), 0, []
        self.server = socket.create_server((address, 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.server.accept()
                try:
                    far = socket.create_connection(self.to)
                except ConnectionRefusedError:
                    near.close()
                    continue
                for source, target, counts in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self.copy, args=(source, target, counts), daemon=True).start()

    def copy(self, source, target, counts):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.bytes += len(data) if counts else 0
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def made_trace(path, rank):
    rng = random.Random(rank)
    events = [{"ph": "X", "cat": "kernel" if i % 2 else "cpu_op", "name": f"op {rng.randrange(40)}", "pid": i % 2, "tid": 2 + i % 2,
               "ts": 1000 + i * 3, "dur": rng.randrange(1, 2000) / 1000, "args": {"stream": 7, "device": 0, "correlation": i // 2}} for i in range(SLICES)]
    path.write_text(json.dumps({"baseTimeNanoseconds": 1767189312000000000, "distributedInfo": {"rank": rank, "world_size": RANKS, "backend": "nccl"},
                                "traceEvents": events}))
    return path


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """A coordinator with a session whose traces are on another host: its catalog has the rows that the host delivers."""
    place = tmp_path_factory.mktemp("hosts")
    (place / "ca").mkdir()
    authority = Authority(place / "ca")
    with Peer(place / "far", authority, "127.0.0.2") as far:
        names = [far.post("/v1/traces", {"path": str(made_trace(place / f"rank{rank}.json", rank)), "session": "fleet" if rank == 0 else "s1"}, 201)["trace"]
                 for rank in range(RANKS)]
        wire = Wire("127.0.0.2", far.port)
        near = Peer(place / "near", authority, "127.0.0.3")
        token = place / "near/shown"
        token.write_text("profd_" + 64 * "a" + "\n")
        token.chmod(0o600)
        near.config.write_text(near.config.read_text() + f"[peer far]\nurl=https://127.0.0.2:{wire.port}\ntoken_file={token}\nca_file={authority.file}\n")
        with near:
            near.post("/v1/traces", {"path": str(CORPUS / "hta/nccl_data_rank0.json.gz"), "session": "fleet"}, 201)
            near.stop()
            uuid = far.get("/v1/host")["catalog"]
            with contextlib.closing(sqlite3.connect(near.catalog)) as catalog, catalog:
                catalog.execute("update trace_row set instance = '10.0.0.1:8000'")
                for name in names:
                    facts = {**far.get(f"/v1/traces/{name}"), "worker": "http://10.0.0.2:8000", "instance": "10.0.0.2:8000"}
                    catalog.execute("update sqlite_sequence set seq = seq + 1 where name = 'trace_row'")
                    catalog.execute("insert into remote_trace_row (trace_id, uuid, session_id, host_uuid, remote_id, recorded_at, facts) "
                                    "values ((select seq from sqlite_sequence where name = 'trace_row'), ?, null, ?, ?, ?, ?)",
                                    (facts["uuid"], uuid, int(name[1:]), facts["recorded_at"], json.dumps(facts)))
            near.start()
            yield near, far, wire, [f"t{2 + i}" for i in range(RANKS)], names


def profctl(profd, *words, status=0):
    done = subprocess.run([PROFCTL, *words], capture_output=True, timeout=patience(120), stdin=subprocess.DEVNULL,
                          env={**os.environ, "PROFD_SOCKET": str(profd.socket), "XDG_CACHE_HOME": str(profd.directory / "cache"), "COLUMNS": "120"})
    assert done.returncode == status, done.stderr.decode()
    return done


def test_a_report_and_a_statement_of_one_trace(hosts):
    near, far, wire, ours, theirs = hosts
    for our, their in zip(ours, theirs):
        before = wire.bytes
        assert near.get(f"/v1/traces/{our}/reports/kernels", top=5) == far.get(f"/v1/traces/{their}/reports/kernels", top=5)
        sql = {"sql": "select name, count(*), sum(dur) from slice group by name order by name"}
        assert near.post(f"/v1/traces/{our}/query", sql) == far.post(f"/v1/traces/{their}/query", sql)
        assert wire.bytes - before < 60_000
        assert "no events" in near.problem("GET", f"/v1/traces/{our}/reports/memory", status=404)["detail"]
        assert "syntax" in near.problem("POST", f"/v1/traces/{our}/query", {"sql": "selec"}, 422)["detail"]


def test_a_timeline(hosts):
    """As its host shows it: each request is passed on, and only answers travel."""
    near, far, wire, ours, theirs = hosts
    our, their = f"/v1/traces/{ours[1]}", f"/v1/traces/{theirs[1]}"
    before, timeline = wire.bytes, far.get(f"{their}/timeline")
    assert near.get(f"{our}/timeline") == {**timeline, "trace": ours[1]}
    length, v = timeline["length_ns"], f"v={timeline['sum']}"
    for what in (f"names/0?{v}", "timeline/steps", f"timeline/steps?{v}", "slice?slice=4711", "slice?lane=0&at=500000&within=90000", "search?name=OP%201&limit=3&after=100", "selection?from=1000&to=900000&lanes=0-1",
                 f"selection?to={length // 3}"):
        assert near.request("GET", f"{our}/{what}").json() == far.request("GET", f"{their}/{what}").json(), what
    for tile in (f"tiles/20/0?{v}", f"tiles/12/7?lanes=0-1&{v}", f"tiles/3/{length >> 14}?{v}"):
        passed = near.request("GET", f"{our}/{tile}")
        assert passed.status == 200 and passed.body == far.request("GET", f"{their}/{tile}").body
        assert passed.headers["Cache-Control"] == "private, max-age=31536000, immutable" and "Authorization" in passed.headers["Vary"]
    assert near.request("GET", f"{our}/timeline/steps?{v}").headers["Cache-Control"] == "private, max-age=31536000, immutable"
    assert wire.bytes - before < 200_000
    assert near.problem("GET", f"{our}/tiles/20/0?v=0", status=409) and near.problem("GET", f"{our}/timeline/steps?v=0", status=409) and near.problem("GET", f"{our}/tiles/63/0", status=400)
    assert near.problem("GET", f"{our}/slice?slice=99999999", status=404)["detail"]


def test_requests_for_several_name_what_is_left(hosts):
    near, far, _, ours, theirs = hosts
    answer = near.post("/v1/reports", {"traces": ["t1", *ours], "reports": ["kernels"]})
    assert answer["left"] == ours and {name for part in answer["parts"] for name in part["traces"]} == {"t1"}
    answer = near.post("/v1/reports", {"traces": ours, "reports": ["kernels"]})
    expected = far.post("/v1/reports", {"traces": theirs, "reports": ["kernels"]})
    assert answer["left"] == [] and answer["parts"][0]["traces"] == ours
    assert answer["parts"][0]["rows"] == expected["parts"][0]["rows"] and answer["parts"][0]["host"] == "host-127.0.0.2"


@pytest.mark.parametrize("words", [("--report", "kernels", "--json"), ("--report", "kernels,gaps,ranks,instances,streams"), (), ("--report", "ops", "--csv"),
                                   ("--report", "kernels", "--from", "1ms", "--to", "400ms", "--json")], ids=["json", "tables", "overview", "csv", "part"])
def test_analyze_prints_what_it_prints_there(hosts, words):
    near, far, wire, ours, theirs = hosts
    before = wire.bytes
    there, here = profctl(far, "analyze", *theirs, *words).stdout, profctl(near, "analyze", *ours, *words).stdout
    assert here.replace(b"t2 t3", b"t1 t2") == there
    # Less than a hundredth of the traces has moved.
    traces = sum(far.get(f"/v1/traces/{name}")["size"] for name in theirs)
    assert wire.bytes - before < traces / 100, (wire.bytes - before, traces)


def test_what_there_is_on_two_hosts_is_one_analysis(hosts):
    near, _, _, ours, _ = hosts
    both = json.loads(profctl(near, "analyze", "t1", *ours, "--report", "kernels", "--json", status=0).stdout)
    one = json.loads(profctl(near, "analyze", "t1", "--report", "kernels", "--json").stdout)
    other = json.loads(profctl(near, "analyze", *ours, "--report", "kernels", "--json").stdout)
    instances = {row["instance"] for row in both["rows"]}
    assert len(instances) == 2
    plain = [{k: v for k, v in row.items() if k != "instance"} for row in both["rows"]]
    assert sorted(map(json.dumps, plain)) == sorted(map(json.dumps, one["rows"] + other["rows"]))


def test_when_a_host_answered_last(hosts):
    """Whatever it was asked: not only when it was asked how it is."""
    near, far, _, ours, _ = hosts
    greeted = near.get("/v1/hosts")["hosts"][1]
    assert greeted["state"] == "ok" and greeted["seen_at"] >= greeted["hello_at"]
    before = time.time_ns()
    assert near.get(f"/v1/traces/{ours[0]}/reports/kernels", top=1)["rows"]
    far.stop()
    try:
        gone = wait_for(lambda: (host := near.get("/v1/hosts")["hosts"][1])["state"] == "unreachable" and host)
        assert gone["hello_at"] == greeted["hello_at"] < before < gone["seen_at"], (greeted, gone)
    finally:
        far.start()
        wait_for(lambda: near.get("/v1/hosts")["hosts"][1]["state"] == "ok", interval_s=1)


def test_a_host_that_is_gone(hosts):
    near, far, wire, ours, _ = hosts
    far.stop()
    try:
        failed = profctl(near, "analyze", *ours, "--report", "kernels", status=1)
        assert b"127.0.0.2" in failed.stderr or b"host" in failed.stderr, failed.stderr
        assert near.get("/v1/version")
    finally:
        far.start()
