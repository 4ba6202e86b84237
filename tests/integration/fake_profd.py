# SPDX-License-Identifier: Apache-2.0
"""A fake profd that answers what a test tells it to, on a Unix socket: for screens of profctl that need exact contents.

It knows nothing of profiling. Answers are looked up by "METHOD /path" (without the query); a callable gets the query and the
body. Every request is kept in `requests`.
"""
import hashlib
import http.server
import json
import os
import socketserver
import threading
import time
import urllib.parse

MIB = 1 << 20
T0 = 1_795_183_331_000_000_000  # an evening in November 2026
SECOND = 1_000_000_000


def problem(status, code, detail, remedy=None, **more):
    body = {"type": f"urn:profd:problem:{code}", "title": code, "status": status, "code": code, "detail": detail}
    if remedy:
        body["remedy"] = remedy
    return status, {**body, **more}


def target(n, state="complete", **more):
    host = f"http://10.0.0.{10 + n}:15000"
    t = {
        "target": n, "worker": host, "engine": "vllm", "version": "0.19.1", "role": "prefill" if n == 1 else "decode",
        "state": state, "ranks_expected": 1, "stop_pending": False, "start_sent_at": T0, "start_answered_at": T0 + SECOND // 100,
    }
    if state in ("stopping", "collecting", "complete"):
        t["stop_sent_at"] = T0 + 5 * SECOND
    if state in ("collecting", "complete"):
        t |= {"stop_answered_at": T0 + 8 * SECOND, "stop_status": 200, "start_status": 200}
    if state == "complete":
        t |= {"traces": [f"t{40 + n}"], "bytes": 61 * MIB}
    return t | more


FAILURE = {
    "failure": "POST /start_profile answered 404 Not Found", "start_status": 404,
    "remedy": "The server runs without a profiler. Start vLLM with\n"
    "  --profiler-config '{\"profiler\":\"torch\",\"torch_profiler_dir\":\"/var/tmp/traces\"}'",
}


def session(state="complete", targets=None, **more):
    targets = [target(1), target(2)] if targets is None else targets
    s = {
        "session": "s7", "state": state, "router": "http://10.0.0.1:3521", "dialect": "vllm-router",
        "options": {"duration_ns": 5 * SECOND}, "labels": {"job": "grpo"}, "requested_at": T0, "requested_by": "uid 1000 (anna)",
        "counts": {"targets": len(targets), "traces": 2, "bytes": 122 * MIB, "disk_bytes": 122 * MIB, "remote_bytes": 0}, "targets": targets, "skew_ns": 3_100_000,
        "starts_sent_at": T0, "recording_at": T0, "stop_at": T0 + 5 * SECOND,
    }
    if state in ("complete", "partial", "failed"):
        s["finished_at"] = T0 + 14 * SECOND
    return s | more


def trace(n=41, content=b"", **more):
    t = {
        "trace": f"t{n}", "session": "s7", "worker": "http://10.0.0.11:15000", "kind": "trace", "state": "complete",
        "name": "rank0.1763647331.pt.trace.json.gz", "path": "/var/lib/profd/traces/s7/x", "origin": "/var/tmp/traces/x",
        "stored": True, "size": len(content) or 61 * MIB, "format": "kineto", "ranks": {"rank": 0, "tp": 0},
        "span_ns": 5_020_000_000, "events": 1234567, "recorded_at": T0, "collected_at": T0 + SECOND, "pinned": False,
    }
    if content:
        t["sha256"] = hashlib.sha256(content).hexdigest()
    return t | more


USAGE = {"traces": 48, "bytes": 3 << 30, "max_use": 200 << 30, "keep_free": 10 << 30, "free": 500 << 30, "store": "/var/lib/profd/traces"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, *args):
        pass

    def do_any(self):
        fake = self.server.fake
        url = urllib.parse.urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        fake.requests.append((self.command, self.path, body, dict(self.headers)))
        if url.path == "/v1/events":
            return self.stream(fake)
        answer = fake.answers.get(f"{self.command} {url.path}")
        if callable(answer):
            answer = answer(urllib.parse.parse_qs(url.query), body)
        if answer is None:
            answer = problem(404, "not-found", f"there is no {url.path}")
        self.reply(*answer if isinstance(answer, tuple) else (200, answer))

    do_GET = do_POST = do_PUT = do_DELETE = do_any

    def reply(self, status, content, headers=()):
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        self.send_response(status)
        self.send_header("Content-Type", kind if status < 400 else "application/problem+json")
        self.send_header("Content-Length", str(len(raw)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def stream(self, fake):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in fake.events:
            self.wfile.write(event)
            self.wfile.flush()
        while not fake.closing.wait(0.05):
            self.wfile.write(b": here\n\n")
            self.wfile.flush()


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # clients that leave a stream are no error


class FakeProfd:
    def __init__(self, path, answers=None, events=()):
        self.path = str(path)
        self.answers = {"GET /v1/version": {"version": "0.2.0", "pid": 1}, "GET /v1/usage": USAGE,
                        "GET /v1/sessions": {"sessions": []}, **(answers or {})}
        self.events = list(events)
        self.requests = []
        self.begin()

    def begin(self):
        self.closing = threading.Event()
        self.server = Server(self.path, Handler)
        self.server.fake = self
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def end(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        os.unlink(self.path)

    def asked(self, method, prefix):
        return [r for r in self.requests if r[0] == method and r[1].startswith(prefix)]

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.end()


def steps(*answers, every=0.3):
    """An answer that changes with time from the first question on; the last one stays."""
    began = []

    def answer(query, body):
        began.append(time.monotonic())
        return answers[min(int((time.monotonic() - began[0]) / every), len(answers) - 1)]

    return answer
