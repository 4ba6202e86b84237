# SPDX-License-Identifier: Apache-2.0
"""profd under test: a Daemon with a state directory and a socket of its own, and a FaultFleet for it to profile.

    with FaultFleet(tmp_path / "fleet", "vllm", 3) as fleet, Daemon(tmp_path / "profd") as profd:
        session = profd.start_session(router=fleet.router, duration_ns=100_000_000)
        profd.wait_session(session["session"])

PROFD_BUILD names the build directory, ./build where it is not set. Both end their process with the block; a Daemon must
then have ended by itself when it was asked to, and with status 0, unless the test killed it.
"""

import contextlib
import hashlib
import http.client
import json
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from patience import patience  # noqa: E402

BUILD = Path(os.environ.get("PROFD_BUILD", ROOT / "build")).resolve()
PROFD = BUILD / "daemon/profd"
FAULT_WORKER = BUILD / "tests/fleet/fault-worker"
SANITIZED = b"__asan_init" in PROFD.read_bytes()  # and so of a size and a speed of its own

READY_S = 60  # of a start on a busy machine
END_S = 60  # of a stop, which waits up to 10 s for the stops of workers
FINAL = {"complete", "partial", "failed", "cancelled"}


def quick_config(start="1s", clean="2s", stop="4s", session="1min", settle="1s", more=""):
    """A profd.conf whose patience fits a test."""
    return (f"[timeouts]\nidentify=1s\nstart={start}\nclean={clean}\nstop={stop}\nsession={session}\n"
            f"[collect]\nsettle={settle}\n{more}")


def wait_for(what, timeout_s=60, interval_s=None, why=None):
    """Calls what() until it gives something true, which is returned. Without an interval looking takes at most a fifth of the
    time, so that many lookers do not slow down what they wait for."""
    begin = looked = time.monotonic()
    while not (found := what()):
        now = time.monotonic()
        assert now - begin < patience(timeout_s), why() if callable(why) else why or f"not within {now - begin:.0f} s"
        time.sleep(max(0.02, 4 * (now - looked)) if interval_s is None else interval_s)
        looked = time.monotonic()
    return found


def in_brief(session):
    """What is said of a session where a test fails: without its options and workers, and at most three that failed."""
    failed = [f"{target.get('worker')}: {target['failure']}" for target in session.get("targets", []) if target.get("failure")]
    parts = [f"{key}={session[key]}" for key in ("session", "state", "reason", "counts") if key in session]
    return "\n".join([" ".join(parts), *failed[:3], *([f"and {len(failed) - 3} more"] if len(failed) > 3 else [])])


def free_port():
    """Below those that the kernel gives to connections: nobody takes it before its owner listens."""
    while True:
        port = random.randrange(15000, 20000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def token_line(name, role, token):
    """The line of [http] tokens_file= that lets the token in."""
    return f"{name} {role} {hashlib.sha256(token.encode()).hexdigest()}\n"


def write_tokens(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Reply:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:2000]!r}>"


class Daemon:
    """profd. `config` is the text of its profd.conf; `options` go to its command line, `environment` on top of ours."""

    def __init__(self, directory, config="", options=(), environment=None):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.state, self.socket = self.directory / "state", self.directory / "profd.sock"
        self.config, self.log_file = self.directory / "profd.conf", self.directory / "profd.log"
        self.config.write_text(config)
        self.options, self.environment = list(options), environment or {}
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *rest):
        if kind:
            print(self.log())
        if self.process:
            self.stop()

    @property
    def pid(self):
        return self.process.pid

    @property
    def catalog(self):
        return self.state / "catalog.db"

    def command(self):
        return [PROFD, "--config", self.config, "--state-dir", self.state, "--socket", self.socket, *self.options]

    def spawn(self):
        """Starts it and waits for nothing."""
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, **self.environment})
        return self

    def start(self):
        begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        self.spawn()

        def is_ready():
            assert self.process.poll() is None, f"profd ended with {self.process.returncode}:\n{self.log()}"
            return " is ready: " in self.log(begin)

        wait_for(is_ready, READY_S, why=self.log)
        return self

    def stop(self, number=signal.SIGTERM):
        """Asks it to end, and gives its exit status, which must be 0."""
        process, self.process = self.process, None
        process.send_signal(number)
        try:
            status = process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"profd did not end within {END_S} s:\n{self.log()}") from None
        assert status == 0, f"profd ended with {status}:\n{self.log()}"
        return status

    def kill(self):
        """As a crash: nothing is asked and nothing is cleaned up."""
        process, self.process = self.process, None
        process.kill()
        process.wait()

    def restart(self, crash=False):
        if crash:
            self.kill()
        else:
            self.stop()
        return self.start()

    def refuses(self):
        """For a profd that must not start: gives its exit status and what it said."""
        done = subprocess.run(self.command(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=END_S,
                              env={**os.environ, **self.environment})
        assert done.stdout == ""
        return done.returncode, done.stderr

    def log(self, begin=0):
        """What it said, from that byte on."""
        if not self.log_file.exists():
            return ""
        with open(self.log_file, "rb") as file:
            file.seek(begin)
            return file.read().decode(errors="replace")

    def memory(self, key):
        """Bytes: "Rss", "Private_Dirty", ... of smaps_rollup."""
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return int(re.search(rf"^{key}:\s+(\d+) kB", text, re.MULTILINE)[1]) * 1024

    # Requests

    def connection(self, timeout=60):
        return UnixConnection(self.socket, timeout)

    def request(self, method, path, body=None, headers=None, timeout=120):
        """One request on a connection of its own. A body that is no bytes is sent as JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection = self.connection(timeout)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            return Reply(connection.getresponse())

    def get(self, path, **query):
        """The JSON of a GET that must succeed. A query's list is a repeated parameter."""
        reply = self.request("GET", path + ("?" + urlencode(query, doseq=True) if query else ""))
        assert reply.status == 200, reply
        return reply.json()

    def post(self, path, body=None, status=200):
        reply = self.request("POST", path, body)
        assert reply.status == status, reply
        return reply.json()

    def problem(self, method, path, body=None, status=None):
        """The problem that a request must be answered with."""
        reply = self.request(method, path, body)
        assert reply.headers["Content-Type"] == "application/problem+json", reply
        problem = reply.json()
        assert problem["status"] == reply.status
        assert status is None or reply.status == status, reply
        return problem

    # Sessions

    def start_session(self, **request):
        return self.post("/v1/sessions", request, 201)

    def session(self, session):
        return self.get(f"/v1/sessions/{session}")

    def wait_state(self, session, *states, timeout_s=120):
        """Waits until the session is in one of the states."""

        def look():
            now = self.session(session)
            assert now["state"] in states or now["state"] not in FINAL, in_brief(now)
            return now["state"] in states and now

        return wait_for(look, timeout_s, why=lambda: f"{in_brief(self.session(session))}\n{self.log()}")

    def wait_session(self, session, timeout_s=120):
        """Waits until it is over."""
        return self.wait_state(session, *FINAL, timeout_s=timeout_s)

    def rows(self, sql, *values):
        """What the catalog's public views say, as anybody may ask them."""
        with contextlib.closing(sqlite3.connect(f"file:{self.catalog}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(sql, values)]

    def traces(self, **query):
        return self.get("/v1/traces", **query)["traces"]

    def events(self, path="/v1/events", headers=None, timeout=60):
        return EventStream(self, path, headers, timeout)


class EventStream:
    """Server-sent events: iterating gives dicts of id, event and data (parsed); comments are counted."""

    def __init__(self, daemon, path, headers, timeout):
        self.connection = daemon.connection(timeout)
        self.connection.request("GET", path, headers=headers or {})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.headers["Content-Type"] == "text/event-stream"
        self.comments = 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.response.close()
        self.connection.close()

    def __iter__(self):
        event = {}
        while line := self.response.readline():
            line = line.decode().rstrip("\n")
            if line.startswith(":"):
                self.comments += 1
            elif line:
                key, _, value = line.partition(": ")
                event[key] = value
            elif event:
                event["data"] = json.loads(event["data"])
                if "id" in event:  # what is not kept has none
                    event["id"] = int(event["id"])
                yield event
                event = {}

    def until(self, found):
        """All events up to the first that found() likes."""
        events = []
        for event in self:
            events.append(event)
            if found(event):
                return events
        raise AssertionError(f"the stream ended after {events}")


class FaultFleet:
    """A running fault worker: `FaultFleet(directory, "vllm", 3, "--fault", "stop-500@0")`. It ends by itself after
    --life seconds, should the test not get to it."""

    def __init__(self, directory, engine="vllm", count=1, *options, life_s=1200, run_as=None):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.command = [FAULT_WORKER, "--engine", engine, "--count", str(count), "--dir", self.directory, "--life",
                        str(life_s), *options]
        self.run_as = run_as  # a user id

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                        user=self.run_as)
        line = self.process.stdout.readline()
        assert line, f"the fault worker ended with {self.process.wait()}"
        ready = json.loads(line)
        self.router, self.control, self.workers = ready["router"], ready["control"], ready["workers"]
        return self

    def __exit__(self, *exception):
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()

    def _request(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.control.removeprefix("http://"), timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body) if body is not None else None)
            reply = Reply(connection.getresponse())
        assert reply.status == 200, reply
        return reply

    def set_fault(self, fault, arg=None, workers="100%"):
        """Adds a fault to those workers ("0,3-5", "10%"); "none" takes all away."""
        self._request("POST", "/fault", {"fault": fault, "arg": arg, "workers": workers})

    def set_router_fault(self, fault):
        """One at a time; "none" takes it away."""
        self._request("POST", "/fault", {"router_fault": fault})

    def profiling(self):
        """{"workers": {URL: for how many seconds}, "longest": of the recordings that ended since this was asked}"""
        return self._request("GET", "/journal?profiling").json()

    def journal(self, worker=None):
        """What the workers were asked: summed up, or one worker's calls."""
        return self._request("GET", "/journal" + (f"?worker={worker}" if worker is not None else "")).json()

    def calls(self, worker, path=None):
        """One worker's profile calls, or those of one path, in order: dicts of path, at_ns and body."""
        wanted = path or ("/start_profile", "/stop_profile")
        return [call for call in self.journal(worker)["requests"] if call["path"].endswith(wanted)]

    def start_elsewhere(self, worker):
        """Somebody other than profd starts that worker's profiler, and leaves it running."""
        connection = http.client.HTTPConnection(self.workers[worker].removeprefix("http://"), timeout=10)
        with contextlib.closing(connection):
            connection.request("POST", "/start_profile")
            assert connection.getresponse().status == 200
