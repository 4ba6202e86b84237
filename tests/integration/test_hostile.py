# SPDX-License-Identifier: Apache-2.0
"""Peers that mean harm: a router and workers that answer whatever hurts, and for profctl a profd that does. What they say
must reach neither a terminal nor a log line as more than text, cost no more memory than its bounds, and lead nowhere."""

import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import re
import socketserver
import subprocess
import threading

import pytest

from daemon import BUILD, Daemon, quick_config
from fake_profd import USAGE, FakeProfd, trace

PROFCTL = BUILD / "client/profctl"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NASTY = "a\x1b[2J\x1b]0;pwn\x07\r\nfake: line\u009b31m\u202e\x7f"
SECRET = "sk-THIS-IS-A-SECRET"
MIB = 1 << 20


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_any(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, body = self.server.answer(self.command, self.path.split("?")[0], self.headers)
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response_only(status)
        self.send_header("Date", self.server.date)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    do_GET = do_POST = do_any


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256


@contextlib.contextmanager
def server(answer, date="Sat, 21 Nov 2026 00:00:00 GMT"):
    """answer(method, path, headers) gives status and body; yields the port."""
    with Server(("0.0.0.0", 0), Handler) as s:
        s.answer, s.date = answer, date
        thread = threading.Thread(target=s.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield s.server_address[1]
        finally:
            s.shutdown()
            thread.join()


def profctl(profd, *args):
    return subprocess.run([PROFCTL, "--socket", str(profd.socket), *args], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)


def assert_clean(text):
    assert not CONTROL.search(text), ascii(text)


def test_urls_of_a_router(tmp_path):
    called = []

    def answer(method, path, headers):
        called.append(path)
        here = f"127.0.0.1:{port}"
        urls = ["file:///etc/passwd", "gopher://127.0.0.1:1/x", "unix:///run/x.sock", f"ftp://{here}", f"http://u:p@{here}/user",
                f"http://{here}/a\r\nX-Evil: 1", f"http://{here}/frag#x", f"http://{here}/query?x=1", "http://[fe80::1%25lo]:80",
                "http://", f"http://{here}/" + "a" * 9000, f"http://{here}\\@evil", NASTY, "", None, 7,
                {"url": ["x"]}, [], f"http://{here}/real"]
        return (200, {"urls": urls}) if path == "/list_workers" else (404, {})

    with server(answer) as port, Daemon(tmp_path / "profd", quick_config()) as profd:
        fleet = profd.get("/v1/workers", router=f"http://127.0.0.1:{port}", dialect="list-workers")
        assert [w["url"] for w in fleet["workers"]] == [f"http://127.0.0.1:{port}/real"]
        assert {p for p in called if p != "/list_workers"} <= {f"/real{p}" for p in (
            "/server_info", "/version", "/openapi.json", "/v1/models", "/get_server_info", "/is_sleeping", "/worker_status", "/workers",
            "/metrics", "/engine/profd")}
        out = profctl(profd, "list-workers", "--router", f"http://127.0.0.1:{port}", "--dialect", "list-workers")
        assert out.returncode == 0
        assert_clean(out.stdout + out.stderr + profd.log())


def vllm(path, **more):
    """What identifies a vLLM that can be profiled."""
    if path in more:
        return more[path]
    return {
        "/version": (200, {"version": "0.11.0" + NASTY}),
        "/v1/models": (200, {"data": [{"id": "model" + NASTY, "owned_by": "vllm"}]}),
        "/openapi.json": (200, {"paths": {"/start_profile": {}, "/stop_profile": {}}}),
        "/metrics": (200, b'vllm:num_requests_running{a="\x1b"} 1e308\n' * 3 + b"vllm:num_requests_running NaN\n"),
    }.get(path, (404, {}))


LARGEST = (1 << 63) - 1
NUMBERS = [LARGEST, -LARGEST - 1, -1, 0, 1e308, -1e308, True, "x", None, [], {}]


@pytest.mark.parametrize("n", NUMBERS, ids=str)
def test_numbers_that_are_none(tmp_path, n):
    sizes = {f"{k}_parallel_size": n for k in ("tensor", "pipeline", "data", "expert")}
    profiler = {"profiler": "torch", "torch_profiler_dir": str(tmp_path / "traces")}
    profiler |= {f"{k}_iterations": n for k in ("delay", "max", "wait", "warmup", "active")}
    info = {"vllm_config": {"parallel_config": sizes, "profiler_config": profiler}, "tp_size": n, "dp_size": n, "nnodes": n}

    def answer(method, path, headers):
        if path == "/workers":
            worker = {"url": f"http://127.0.0.1:{port}", "load": n, "is_healthy": True}
            return 200, {"workers": [worker, worker | {"url": worker["url"] + "@1"}, worker]}
        if path == "/metrics":
            return 200, f"vllm:num_requests_running {n}\nvllm:num_requests_running 1\n".encode()
        return (200, b"") if method == "POST" else vllm(path, **{"/server_info": (200, info), "/is_sleeping": (200, {"is_sleeping": n})})

    for date in ("Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 1970 00:00:01 GMT", "Sat, 21 Nov 99999999 00:00:00 GMT", "x" * 3000):
        with server(answer, date) as port, Daemon(tmp_path / "profd", quick_config(settle="200ms")) as profd:
            router = f"http://127.0.0.1:{port}"
            (worker,) = profd.get("/v1/workers", router=router)["workers"]
            assert abs(worker.get("clock_offset_ns", 0)) < 1 << 62 and worker.get("load", 0) >= 0
            assert profd.request("GET", f"/v1/doctor?router={router}").status == 200
            if date[0] == "F":
                profd.request("POST", "/v1/sessions", {"router": router, "duration_ns": 1_000_000, "when_running": 1, "timeout_ns": 1})
            assert "runtime error" not in profd.log()


def everything_said(profd):
    """The catalog with its log, what profd logged, and its answers."""
    said = profd.log()
    for name in profd.state.glob("catalog.db*"):
        said += name.read_bytes().decode(errors="replace")
    for path in ("/v1/sessions", "/v1/sessions/s1", "/v1/traces", "/v1/routers"):
        said += profd.request("GET", path).body.decode()
    return said


def test_escapes_reach_no_terminal_and_no_log(tmp_path):
    def answer(method, path, headers):
        if path == "/start_profile":
            return 500, {"error": {"message": "no" + NASTY}}
        return vllm(path)

    with server(answer) as port, Daemon(tmp_path / "profd", quick_config()) as profd:
        worker = f"http://127.0.0.1:{port}"
        shown = ""
        for words in (["list-workers", "--worker", worker], ["doctor", "--worker", worker],
                      ["start", "--worker", worker, "--duration", "100ms", "--wait", "--label", "a=b", "--allow-uncollected"],
                      ["status", "s1"], ["list-sessions"], ["show", "s1"]):
            done = profctl(profd, *words)
            shown += done.stdout + done.stderr
        assert "model" in shown and "0.11.0" in shown and "500" in shown
        assert_clean(shown + profd.log())


def test_secrets_are_kept_nowhere(tmp_path):
    """SGLang's server_info has its keys, and a server may quote the token that it was sent."""
    (tmp_path / "token").write_text(SECRET + "\n")
    info = {"tp_size": 1, "version": "0.5", "model_path": "m", "api_key": SECRET, "admin_api_key": SECRET, "hf_token": SECRET,
            "internal_states": [{"api_key": SECRET, "nested": {"API_KEY": SECRET}}], "ssl_keyfile_password": SECRET}

    def answer(method, path, headers):
        assert headers["Authorization"] == f"Bearer {SECRET}"
        if path == "/server_info":
            return 200, info
        if method == "POST":
            return 500, {"error": {"message": f"bad header: {headers['Authorization']}"}}
        if path == "/v1/models":
            return 200, {"data": [{"id": "m", "owned_by": "sglang"}]}
        return vllm(path)

    with server(answer) as port:
        worker = f"http://127.0.0.1:{port}"
        config = quick_config(more=f"[worker {worker}]\ntoken_file={tmp_path}/token\nadmin_token_file={tmp_path}/token\n"
                                   f"output_dir={tmp_path}/out\n[profd]\nlog_level=debug\n")
        with Daemon(tmp_path / "profd", config) as profd:
            fleet = profd.request("GET", f"/v1/workers?worker={worker}")
            assert fleet.json()["workers"][0]["engine"] == "sglang", fleet
            reply = profd.request("POST", "/v1/sessions", {"workers": [worker], "duration_ns": 50_000_000})
            if reply.status == 201:
                profd.wait_session("s1")
            assert "bad header: Bearer" in everything_said(profd) + reply.body.decode()
            assert SECRET not in fleet.body.decode() + reply.body.decode() + everything_said(profd)


def test_json_that_is_larger_than_it_looks(tmp_path):
    """Three bytes of it cost a parser a hundred and fifty."""
    lists = b"[" + b"[]," * (MIB // 2) + b"[]]"
    n = 6

    def answer(method, path, headers):
        if path == "/workers":
            return 200, {"workers": [{"url": f"http://127.0.1.{i}:{port}"} for i in range(1, n + 1)]}
        return 200, lists

    with server(answer) as port, Daemon(tmp_path / "profd", "[timeouts]\nidentify=20s\n") as profd:
        before = profd.memory("Rss")
        fleet = profd.get("/v1/workers", router=f"http://127.0.0.1:{port}")
        assert [w["profilable"] for w in fleet["workers"]] == [False] * n
        assert profd.memory("Rss") - before < 300 * MIB  # their texts, and what a sanitizer adds; their values are 1.3 GiB


# profctl, of a profd that means harm


@pytest.fixture
def fake(tmp_path):
    with FakeProfd(tmp_path / "fake.sock") as d:
        yield d


def ask(fake, *args, **more):
    return subprocess.run([PROFCTL, "--socket", fake.path, *args], capture_output=True, text=True, timeout=30,
                          stdin=subprocess.DEVNULL, **more)


@pytest.mark.parametrize("evil", ["../evil", "/tmp/evil", "x/../../evil"])
def test_get_of_ids_that_lead_elsewhere(fake, tmp_path, evil):
    """Traces of one name are told apart by their ids, which profd gives too."""
    content = b"evil"
    traces = [trace(n, content, name="same.json", worker=None) | {"trace": evil} for n in (1, 2)]
    fake.answers["GET /v1/traces"] = {"traces": traces, "usage": USAGE}
    fake.answers[f"GET /v1/traces/{evil}/file"] = content
    out = tmp_path / "deep" / "out"
    done = ask(fake, "get", "s7", "-d", str(out))
    assert done.returncode == 1 and "has a name that is not a plain file name" in done.stderr
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
    assert not list(pathlib.Path("/tmp").glob("evil*same.json"))


def test_download_that_does_not_end(fake, tmp_path):
    """Not a byte more is written than the trace has."""
    content = b"x" * (8 * MIB)
    one = trace(41, content) | {"size": 1000, "sha256": hashlib.sha256(content[:1000]).hexdigest()}
    fake.answers["GET /v1/traces/t41"] = one
    fake.answers["GET /v1/traces/t41/file"] = content
    done = ask(fake, "get", "t41", "-o", str(tmp_path / "x"))
    assert done.returncode == 1 and "its size differs" in done.stderr
    assert not (tmp_path / "x").exists()
    piped = subprocess.run([PROFCTL, "--socket", fake.path, "get", "t41", "-o", "-"], capture_output=True, timeout=30)
    assert piped.returncode == 1 and len(piped.stdout) <= 1000


WRONG = [None, 1, [], "x", {}, [1], {"traces": 1}, {"traces": [1, None, {}]}, {"sessions": [[], {"targets": 1}]},
         {"workers": [{"url": 1, "traces": "x"}, []], "notes": {}}, {"checks": [[1]]}, {"targets": {"a": 1}, "session": 5},
         {"trace": {}, "name": [], "size": "x", "sha256": 1, "ranks": [], "candidates": 1}]


def test_answers_of_the_wrong_kind(fake, tmp_path):
    verbs = [["list-workers", "--router", "http://x"], ["list-sessions"], ["list-traces"], ["show", "s7"], ["show", "t7"],
             ["status"], ["status", "s7"], ["du"], ["doctor", "--router", "http://x"], ["stop", "s7"], ["rm", "t7"], ["rm", "s7"],
             ["vacuum", "--keep", "1G", "--yes"], ["get", "t7", "-d", str(tmp_path)], ["get", "s7", "-d", str(tmp_path)],
             ["start", "--router", "http://x", "--detach"], ["pin", "t7"]]
    for wrong in WRONG:
        for path in ("workers", "sessions", "sessions/s7", "sessions/s7/stop", "traces", "traces/t7", "usage", "vacuum", "doctor",
                     "routers", "version", "traces/t7/pin"):
            for method in ("GET", "POST", "DELETE", "PUT"):
                fake.answers[f"{method} /v1/{path}"] = wrong
        for words in verbs:
            done = ask(fake, *words)
            assert done.returncode in (0, 1, 2, 3, 4), (wrong, words, done.stderr)
            assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, (wrong, words, done.stderr)
