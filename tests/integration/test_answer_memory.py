# SPDX-License-Identifier: Apache-2.0
"""Memory of answers: one server that poses as many workers answers all starts, stops and questions at the same time, each
with as much as profd accepts. Their sum stays within a budget; starts leave at the same time all the same, small answers are
never kept waiting, and memory is given back afterwards."""

import collections
import concurrent.futures
import contextlib
import http.server
import json
import re
import socket
import socketserver
import threading
import time
from pathlib import Path

import pytest

from daemon import SANITIZED, Daemon, FaultFleet, in_brief, quick_config, wait_for
from patience import patience

MIB = 1 << 20
LONG = 60_000_000_000  # ended by the test
HEADING = b"Clock type: CPU\nOrdered by: totaltime, desc\n\nname  ncall  tsub  ttot  tavg\n"
ROW = b"/app/" + b"d" * 400 + b"%07d.py:12 verify  12/3  0.000123  0.000456  0.000010\n"


def table(rows, size=0):
    """What yappi prints of so many functions, and after it what is none, up to that size."""
    text = HEADING + b"".join(ROW % i for i in range(rows))
    return text + b"x" * (size - len(text))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_any(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        _, worker, path = self.path.split("/", 2)
        status, body = self.server.answer(worker, "/" + path)
        self.send_response_only(status)
        with contextlib.suppress(OSError):
            if isinstance(body, bytes):
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            else:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for piece in body:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_any


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024


class Gathering:
    """Lets its guests go on when all have come; those who come later need not wait."""

    def __init__(self, n):
        self.n, self.lock, self.complete = n, threading.Lock(), threading.Event()

    def wait(self):
        with self.lock:
            self.n -= 1
            if self.n == 0:
                self.complete.set()
        assert self.complete.wait(patience(60)), f"{self.n} have not come"


@contextlib.contextmanager
def server(answer):
    """answer(worker, path) gives status and body (bytes, or pieces of it); yields url(worker)."""
    with Server(("127.0.0.1", 0), Handler) as s:
        s.answer = answer
        thread = threading.Thread(target=s.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield lambda worker: f"http://127.0.0.1:{s.server_address[1]}/{worker}"
        finally:
            s.shutdown()
            thread.join()


VLLM = {"/version": {"version": "0.11.0"}, "/v1/models": {"data": [{"id": "model", "owned_by": "vllm"}]},
        "/openapi.json": {"paths": {"/start_profile": {}, "/stop_profile": {}}}}
NEMO_GYM = {"/openapi.json": {"paths": {"/stats": {}, "/seed_session": {}, "/aggregate_metrics": {}}}}


def identity(engine, path):
    return (200, json.dumps(engine[path]).encode()) if path in engine else (404, b"")


def peak(profd):
    status = Path(f"/proc/{profd.pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1]) << 10


class Watch:
    """Asks for figures while the block lasts: the most that each was, and the longest that an answer took."""

    FIGURES = ("profd_response_memory_bytes", "profd_responses_waiting")

    def __init__(self, profd):
        self.profd, self.most, self.longest, self.over = profd, dict.fromkeys(self.FIGURES, 0), 0, threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.wait(0.02):
            begin = time.monotonic()
            text = self.profd.request("GET", "/metrics").body.decode()
            self.longest = max(self.longest, time.monotonic() - begin)
            for name in self.FIGURES:
                self.most[name] = max(self.most[name], float(re.search(rf"^{name} (.*)$", text, re.MULTILINE)[1]))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.over.set()
        self.thread.join()


def record(profd, urls):
    """A session that is stopped when it records."""
    session = profd.start_session(workers=urls, duration_ns=LONG, allow_uncollected=True)["session"]
    profd.wait_state(session, "recording")
    profd.post(f"/v1/sessions/{session}/stop")
    return profd.wait_session(session)


def starts_within(session):
    return session["skew_ns"] / 1e9


SERVERS = 20


@pytest.mark.parametrize("in_pieces", [False, True], ids=["of a known length", "in pieces"])
def test_statistics_of_the_greatest_length(tmp_path, in_pieces):
    """No server answers before all were asked; what they answer is read one or two at a time, and nobody waits for profd."""
    gatherings = {"start": Gathering(SERVERS), "stop": Gathering(SERVERS)}
    text, asked = table(20, 32 * MIB - 1), collections.Counter()

    def answer(worker, path):
        if path != "/stats":
            return identity(NEMO_GYM, path)
        asked[worker] += 1
        gatherings["start" if asked[worker] == 1 else "stop"].wait()
        return 200, [text] if in_pieces else text

    with server(answer) as url, Daemon(tmp_path / "profd", quick_config(start="2min", stop="2min", session="10min")) as profd:
        before = profd.memory("Rss")
        with Watch(profd) as watch:
            session = record(profd, [url(f"w{i}") for i in range(SERVERS)])
        assert session["state"] == "complete" and starts_within(session) < patience(1), in_brief(session)
        assert 32 * MIB - 1 <= watch.most["profd_response_memory_bytes"] <= 64 * MIB and watch.most["profd_responses_waiting"] > 0, watch.most
        assert watch.longest < patience(2), watch.longest
        if not SANITIZED:
            assert peak(profd) - before < 96 * MIB
            wait_for(lambda: profd.memory("Rss") - before < 12 * MIB, why=lambda: f"{profd.memory('Rss') - before} bytes are kept")


def test_lists_of_functions_that_are_too_long_to_keep(tmp_path):
    """What a server has counted until the start is kept until the stop: not beyond a share, and said of the server alone."""
    long, honest = table(65536, 32 * MIB - 1), table(1000)

    def answer(worker, path):
        return (200, honest if worker == "honest" else long) if path == "/stats" else identity(NEMO_GYM, path)

    with server(answer) as url, Daemon(tmp_path / "profd", quick_config(start="2min", stop="2min", session="10min")) as profd:
        before = profd.memory("Rss")
        session = record(profd, [url(f"w{i}") for i in range(6)] + [url("honest")])
        states = {t["worker"].rpartition("/")[2]: t["state"] for t in session["targets"]}
        assert states == {f"w{i}": "failed" for i in range(6)} | {"honest": "complete"}
        assert all("too long" in t["failure"] for t in session["targets"] if t["state"] == "failed")
        assert SANITIZED or peak(profd) - before < 192 * MIB  # of texts and lists, two of each


def test_answers_to_starts_and_stops(tmp_path):
    """Of these an excerpt is enough, and none waits: no start leaves later, and no stop."""
    n, junk = 100, b"x" * MIB
    gatherings = {"/start_profile": Gathering(n), "/stop_profile": Gathering(2 * n)}  # vLLM is stopped before a start, too

    def answer(worker, path):
        if path == "/start_profile":
            gatherings[path].wait()
        return (200, junk) if path in gatherings else identity(VLLM, path)

    config = quick_config(start="2min", clean="2min", stop="2min", session="10min", more="[limits]\nresponse_memory=1M\n")
    with server(answer) as url, Daemon(tmp_path / "profd", config) as profd:
        before = profd.memory("Rss")
        session = record(profd, [url(f"w{i}") for i in range(n)])
        assert {t["start_status"] for t in session["targets"]} == {t["stop_status"] for t in session["targets"]} == {200}
        assert starts_within(session) < patience(1)
        assert SANITIZED or peak(profd) - before < 24 * MIB


def test_who_answers_slowly_does_not_keep_the_others_waiting(tmp_path):
    """A server that begins its answer and never ends it holds the memory of a complete one, for a turn."""
    over, held = threading.Event(), threading.Event()

    def slowly():
        yield table(1000)
        held.set()
        over.wait(patience(120))

    def answer(worker, path):
        if path != "/stats":
            return identity(NEMO_GYM, path)
        if worker == "slow" and not held.is_set():
            return 200, slowly()
        assert held.wait(patience(60))
        return 200, [table(1000)]

    config = quick_config(start="2min", stop="2min", session="10min", more="[limits]\nresponse_memory=1M\n")
    with server(answer) as url, Daemon(tmp_path / "profd", config) as profd:
        session = record(profd, [url("slow"), url("quick")])
        over.set()
        slow, quick = session["targets"]
        assert "while others waited" in slow["failure"] and quick["state"] == "complete", in_brief(session)


def ask_all(profd, paths):
    """Their replies, asked for at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(paths)) as pool:
        return list(pool.map(lambda path: profd.request("GET", path), paths))


def test_lists_of_many_routers(tmp_path):
    listing = json.dumps({"workers": [], "junk": "x" * (15 * MIB)}).encode()
    n, gathering = 16, Gathering(16)

    def answer(worker, path):
        if path != "/workers":
            return 404, b""
        gathering.wait()
        return 200, listing

    with server(answer) as url, Daemon(tmp_path / "profd", "[timeouts]\nidentify=2min\n") as profd:
        before = profd.memory("Rss")
        replies = ask_all(profd, [f"/v1/workers?dialect=vllm-router&router={url(f'r{i}')}" for i in range(n)])
        assert {reply.status for reply in replies} == {422} and b"lists no workers" in replies[0].body, replies[0]
        assert SANITIZED or peak(profd) - before < 128 * MIB  # and one of them as values


def test_what_workers_say_of_themselves(tmp_path):
    """Answers that are small as text and large as values are bounded by what they become."""
    values = json.dumps([["x"]] * 14_000).encode()
    n, gathering = 60, Gathering(60)

    def answer(worker, path):
        if path == "/version":
            gathering.wait()
        return 200, values

    with server(answer) as url, Daemon(tmp_path / "profd", "[timeouts]\nidentify=2min\n") as profd:
        before = profd.memory("Rss")
        fleet = profd.get("/v1/workers", worker=[url(f"w{i}") for i in range(n)])
        assert not any(worker["profilable"] for worker in fleet["workers"])
        assert SANITIZED or peak(profd) - before < 256 * MIB
        wait_for(lambda: SANITIZED or profd.memory("Rss") - before < 12 * MIB)


def test_memory_is_given_back_after_listeners(tmp_path):
    """Each listener has a page of the past in profd's memory; when they have left, nothing is."""
    with FaultFleet(tmp_path / "fleet", "vllm", 50) as fleet, \
            Daemon(tmp_path / "profd", quick_config(more="[limits]\nconnections=400\n")) as profd:
        for _ in range(3):
            profd.wait_session(profd.start_session(router=fleet.router, duration_ns=10_000_000)["session"])
        before = profd.memory("Rss")
        with contextlib.ExitStack() as stack:
            for _ in range(250):
                client = stack.enter_context(socket.socket(socket.AF_UNIX))
                client.connect(str(profd.socket))
                client.sendall(b"GET /v1/events?after=0 HTTP/1.1\r\nHost: x\r\n\r\n")
                client.recv(1)
            wait_for(lambda: SANITIZED or profd.memory("Rss") - before > 10 * MIB)
        wait_for(lambda: profd.get("/v1/version")["connections"] == 1)
        wait_for(lambda: SANITIZED or profd.memory("Rss") - before < 9 * MIB,
                 why=lambda: f"{(profd.memory('Rss') - before) >> 20} MiB are kept")
