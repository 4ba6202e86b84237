# SPDX-License-Identifier: Apache-2.0
"""What raw bytes do to the HTTP API. One test, at least, for each defect of libevhtp that it must close."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from daemon import wait_for
from patience import patience

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("PROFD_BUILD", ROOT / "build")).resolve() / "tests/integration/http-echo"
SANITIZED = b"__asan_init" in PROGRAM.read_bytes()  # and so of a size of its own
GIB = 1 << 30


class Server:
    """A running http-echo: `with Server(head_ms=300) as server`. On exit it must free everything and be silent."""

    def __init__(self, unix=None, noisy=False, address="127.0.0.1", **limits):
        self.unix, self.noisy, self.address = unix, noisy, address
        where = f"unix:{unix}" if unix else f"tcp:{address}"
        self.command = [PROGRAM, where, *(f"{k}={v}" for k, v in limits.items())]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[1])
        return self

    def __exit__(self, *exception):
        out, err = self.process.communicate(timeout=20)
        self.stderr = err.decode()
        assert self.process.returncode == 0, self.stderr
        assert out == b"freed\n"
        if not self.noisy:
            assert self.stderr == ""

    def connect(self, receive_buffer=None):
        s = socket.socket(socket.AF_UNIX if self.unix else socket.AF_INET)
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(10)
        s.connect(str(self.unix) if self.unix else (self.address, self.port))
        return Client(s)

    def once(self, data):
        """Sends bytes on a connection of their own; gives the reply."""
        with self.connect() as client:
            client.send(data)
            return client.reply(head_only=data.startswith(b"HEAD"))

    def state(self):
        return self.once(get("/state")).json()

    def wait_for(self, **expected):
        deadline = time.monotonic() + patience(5)  # a 503 has none of these keys
        while any(self.state().get(k) != v for k, v in expected.items()):
            assert time.monotonic() < deadline, self.state()
            time.sleep(0.02)

    def usage(self, key):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{key}:\s+(\d+)", status)[1])

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    """A connection whose replies are parsed strictly, so that a stray byte between two is seen."""

    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def fill(self):
        data = self.sock.recv(1 << 20)
        self.buffer += data
        return data

    def take(self, size):
        while len(self.buffer) < size:
            assert self.fill(), f"closed after {self.buffer!r}"
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def head(self):
        while b"\r\n\r\n" not in self.buffer:
            assert self.fill(), f"closed after {self.buffer!r}"
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        line, *fields = head.decode().split("\r\n")
        match = re.fullmatch(r"HTTP/1\.1 (\d{3}) [A-Z][A-Za-z -]+", line)
        assert match, line
        headers = {}
        for name, value in (field.split(": ", 1) for field in fields):
            assert name.lower() not in headers, head
            headers[name.lower()] = value
        return Reply(int(match[1]), headers)

    def reply(self, head_only=False):
        reply = self.head()
        if reply.status >= 200 and reply.status not in (204, 304) and not head_only:
            reply.body = self.take(int(reply.headers["content-length"]))
        return reply

    def chunk(self):
        while b"\r\n" not in self.buffer:
            assert self.fill()
        size, self.buffer = self.buffer.split(b"\r\n", 1)
        data = self.take(int(size, 16) + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    def rest(self):
        """All bytes up to the end of the connection."""
        while self.fill():
            pass
        data, self.buffer = self.buffer, b""
        return data

    def is_closed(self):
        return self.buffer == b"" and self.sock.recv(1) == b""


class Reply:
    def __init__(self, status, headers):
        self.status, self.headers, self.body = status, headers, b""

    def json(self):
        return json.loads(self.body)


def get(target, *headers, method="GET"):
    return request(method, target, *headers)


def request(method, target, *headers, body=None, version="1.1"):
    lines = [f"{method} {target} HTTP/{version}", "Host: x", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


@pytest.fixture(scope="module")
def server():
    """One server for all tests that need no limits of their own: each also meets what the others left behind."""
    with Server() as running:
        yield running


@pytest.fixture(scope="module")
def big_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "big"
    with open(path, "wb") as f:
        f.truncate(2 * GIB)
    return path


@pytest.fixture
def small_file(tmp_path):
    path = tmp_path / "small"
    path.write_bytes(bytes(range(256)) * 40)
    return path


# Whole requests.


@pytest.mark.smoke
def test_echo(server):
    r = server.once(request("POST", "/a%20b/c?k=v+1&k=%C3%A9&e=&f", "X-Test:  t \t", body=b"hello"))
    assert r.status == 200 and r.headers["content-type"] == "application/json"
    assert r.body.endswith(b"}\n")
    o = r.json()
    assert (o["method"], o["path"], o["body"], o["x_test"]) == ("POST", "/a b/c", "hello", "t")
    assert o["query"] == {"k": ["v 1", "é"], "e": [""], "f": [""]}
    assert not o["local"] and o["address"].startswith("127.0.0.1:")
    assert "Injected" not in r.headers and r.headers["x-echo"] == "a  Injected: b"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_methods(server, method):
    assert server.once(request(method, "/x", body=b"b")).json()["method"] == method
    assert server.once(request(method, "/x")).json()["body_size"] == 0


def test_unix_socket_knows_its_peer(tmp_path):
    with Server(unix=tmp_path / "s") as server:
        o = server.once(get("/")).json()
        assert o["local"] and o["uid"] == os.getuid() and o["pid"] == os.getpid() and o["address"] == "unix"


REQUESTS = [
    get("/abcdef/ghij?key=value&other=1%202", "X-Test: v"),
    request("POST", "/path/to/thing?q=1", "Content-Type: application/json", body=b'{"key": [1, 2, 3]}'),
    request("POST", "/form", "Content-Type: application/x-www-form-urlencoded", body=b"a=%zz&&;b"),
]


@pytest.mark.parametrize("data", REQUESTS)
def test_split_at_every_offset(server, data):
    whole = server.once(data).json()
    with server.connect() as client:  # keep-alive, so that bytes of an earlier reply could be seen
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for offset in range(1, len(data)):
            client.send(data[:offset])
            time.sleep(0.002)
            client.send(data[offset:])
            reply = client.reply().json()
            assert {**reply, "address": ""} == {**whole, "address": ""}, offset


def test_byte_by_byte(server):
    with server.connect() as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in REQUESTS[1]:
            client.send(bytes([byte]))
            time.sleep(0.0005)
        assert client.reply().json()["path"] == "/path/to/thing"


@pytest.mark.parametrize("place", ["path", "query", "name", "value", "method", "version", "host"])
def test_every_byte_everywhere_is_answered(server, place):
    """The gate is never laxer than libevhtp's parser, which would hang up without a word."""
    for byte in range(256):
        b = bytes([byte])
        at = {p: b if p == place else b"" for p in ("path", "query", "name", "value", "method", "version", "host")}
        data = b"GET%(method)s /p%(path)sq?k=v%(query)sw HTTP/1%(version)s.1\r\nHo%(name)sst: h%(host)sx\r\n" % {
            k.encode(): v for k, v in at.items()
        } + b"X: a%(value)sb\r\n%(host_line)s\r\n" % {
            b"value": at["value"],
            b"host_line": b"Host: h\r\n" if place == "name" else b"",
        }
        reply = server.once(data)
        assert reply.status in (200, 400, 501, 505), (place, b)
        if reply.status == 200:
            assert place not in ("method", "version")
            if place == "path" and b not in b"?%":
                assert reply.json()["path"] == f"/p{b.decode()}q"
        else:
            assert reply.headers["content-type"] == "application/problem+json"
            assert reply.headers["connection"] == "close"


def test_largest_head(server):
    value = "v" * 7900
    path = "/" + "p" * 7990
    assert server.once(get(path)).json()["path"] == path
    assert server.once(get("/x", f"X-Test: {value}")).json()["x_test"] == value
    assert server.once(get("/x", *(f"X-{i}: {i}" for i in range(63)))).status == 200
    assert server.once(request("PUT", "/x", body=b"b" * (1 << 20))).json()["body_size"] == 1 << 20


def test_blank_lines_before_a_request(server):
    with server.connect() as client:
        client.send(b"\r")
        time.sleep(0.02)
        client.send(b"\n\r\n" + get("/x"))
        assert client.reply().status == 200


# Requests that are refused.

HOST = b"Host: x\r\n"
REFUSED = {
    "no version": (b"GET /\r\n\r\n", 400),
    "http 0.9 with headers": (b"GET /\r\nHost: x\r\n\r\n", 400),
    "version 1.9": (b"GET / HTTP/1.9\r\n" + HOST + b"\r\n", 505),
    "version 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "lower-case version": (b"GET / http/1.1\r\n" + HOST + b"\r\n", 400),
    "two spaces": (b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "unknown method": (b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    "lower-case method": (b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    "options": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "trace": (b"TRACE / HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "connect": (b"CONNECT x:1 HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "absolute target": (b"GET http://host HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "fragment": (b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "parent": (b"GET /a/../../etc HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "encoded parent": (b"GET /a/%2e%2E/etc HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "encoded slash": (b"GET /a%2f..%2Fetc HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "this directory": (b"GET /./a HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "empty segment": (b"GET //a HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "slash at the end": (b"GET /a/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "encoded NUL": (b"GET /a%00b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "encoded newline": (b"GET /a%0Ab HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "bad escape": (b"GET /a%zz HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "cut escape": (b"GET /a%4 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "not UTF-8": (b"GET /%ff HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "query NUL": (b"GET /?a=%00 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "query bomb": (b"GET /?" + b"&" * 300 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    "host with a space": (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    "host with a path": (b"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", 400),
    "no colon": (b"GET / HTTP/1.1\r\n" + HOST + b"X\r\n\r\n", 400),
    "no name": (b"GET / HTTP/1.1\r\n" + HOST + b": x\r\n\r\n", 400),
    "NUL in a value": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n", 400),
    "folded": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", 400),
    "folded by tab": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n\tb\r\n\r\n", 400),
    "folded at first": (b"GET / HTTP/1.1\r\n X: a\r\n" + HOST + b"\r\n", 400),
    "bare LF": (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    "bare LF later": (b"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n", 400),
    "bare CR": (b"GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "length twice": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400),
    "lengths differ": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\ncontent-length: 2\r\n\r\na", 400),
    "length list": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1, 1\r\n\r\na", 400),
    "length -1": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\na", 400),
    "length +1": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +1\r\n\r\na", 400),
    "length 0x1": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 0x1\r\n\r\na", 400),
    "length empty": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length:\r\n\r\na", 400),
    "length overflow": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 18446744073709551617\r\n\r\na", 413),
    "length over": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1048577\r\n\r\n", 413),
    "chunked": (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
    "chunked trailers": (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-T: 1\r\n\r\n", 501),
    "gzip, chunked": (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
    "huge chunk": (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", 501),
    "length and chunked": (
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunked and length": (
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    "expect": (b"POST / HTTP/1.1\r\n" + HOST + b"Expect: 200-maybe\r\nContent-Length: 1\r\n\r\n", 417),
    "long target": (b"GET /" + b"a" * 8000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    "endless target": (b"GET /" + b"a" * 12000, 414),
    "long value": (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 8100 + b"\r\n\r\n", 431),
    "65 headers": (b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 64 + b"\r\n", 431),
    "20,000 headers": (b"GET / HTTP/1.1\r\n" + HOST + b"X-Header: y\r\n" * 20000 + b"\r\n", 431),
    "endless head": (b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 4000, 431),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(server, name):
    data, status = REFUSED[name]
    with server.connect() as client:
        client.send(data)
        reply = client.reply()
        assert reply.status == status, reply.body
        assert reply.headers["connection"] == "close"
        assert reply.headers["content-type"] == "application/problem+json"
        problem = reply.json()
        assert problem["status"] == status and problem["detail"] and problem["code"]
        assert client.is_closed()
    if status == 405:
        assert "GET" in reply.headers["allow"]


def test_refused_body_is_answered_while_it_is_sent(server):
    """The reply must not be lost in the reset that unread bytes cause."""
    with server.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n")
        for _ in range(50):
            client.send(b"x" * 100_000)
        assert client.reply().status == 413


def test_memory_of_refused_heads(server):
    for _ in range(20):
        assert server.once(REFUSED["20,000 headers"][0]).status == 431
    if not SANITIZED:
        assert server.usage("VmHWM") < 24 * 1024


# Bodies and expectations.


def test_expect_continue(server):
    with server.connect() as client:
        head, body = request("POST", "/x", "Expect: 100-continue", body=b"body").split(b"\r\n\r\n")
        client.send(head + b"\r\n\r\n")
        assert client.head().status == 100
        client.send(body)
        assert client.reply().json()["body"] == "body"
        client.send(head + b"\r\n\r\n" + body)  # who does not wait gets no interim reply
        assert client.reply().json()["body"] == "body"
        client.send(head.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n\r\n")
        time.sleep(0.05)
        client.send(body)
        assert client.reply().status == 200


def test_expect_continue_of_too_much(server):
    with server.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2000000\r\n\r\n")
        assert client.reply().status == 413


# Who is turned away by his head.


def test_who_is_not_admitted_is_answered_by_the_head_alone(server):
    with server.connect() as client:
        client.send(b"POST /denied HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1048576\r\n\r\n")
        reply = client.reply()
        assert (reply.status, reply.headers["connection"], reply.json()["detail"]) == (403, "close", "not here")
        client.send(b"x" * 100_000)
        client.sock.shutdown(socket.SHUT_WR)
        assert client.is_closed()
    for data in (get("/denied"), get("/denied", method="HEAD"), request("PUT", "/denied/x", body=b"body")):
        with server.connect() as client:
            client.send(data + get("/x"))
            assert client.reply(head_only=data.startswith(b"HEAD")).status == 403
            assert client.is_closed()
    with server.connect() as client:  # the first is answered, the second ends the connection
        client.send(get("/x") + get("/denied") + get("/x"))
        assert [client.reply().status for _ in range(2)] == [200, 403]
        assert client.is_closed()


def test_bodies_of_the_turned_away_cost_no_memory():
    with Server(connections_max=300) as server:
        server.once(get("/denied"))
        before = server.usage("VmHWM")
        clients = [server.connect() for _ in range(200)]
        for client in clients:
            client.sock.setblocking(False)
            try:
                client.send(b"POST /denied HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n" + b"x" * 1_000_000)
            except (BlockingIOError, ConnectionResetError, BrokenPipeError):
                pass  # what the kernel takes is enough
        for client in clients:
            client.sock.settimeout(60)
            assert client.reply().status == 403
            client.sock.close()
        assert SANITIZED or server.usage("VmHWM") - before < 16 * 1024


# HEAD, HTTP/1.0, keep-alive.


def test_head_has_the_length_and_no_body(server, small_file):
    with server.connect() as client:
        client.send(get("/problem"))
        size = len(client.reply().body)
        for _ in range(3):
            client.send(get("/problem", method="HEAD"))
            assert client.reply(head_only=True).headers["content-length"] == str(size)
        client.send(get(f"/file?path={small_file}", "Range: bytes=1-2", method="HEAD"))
        reply = client.reply(head_only=True)
        assert reply.status == 200 and reply.headers["content-length"] == "10240"
        client.send(get("/x"))
        assert client.reply().status == 200


def test_head_of_a_stream_ends(server):
    closed = server.state()["closed"]
    with server.connect() as client:
        client.send(get("/stream?ms=10", method="HEAD"))
        reply = client.head()
        assert reply.status == 200 and "transfer-encoding" not in reply.headers
        assert client.rest() == b""
    server.wait_for(closed=closed + 1)


@pytest.mark.parametrize("code", [204, 304])
def test_replies_without_body(server, code):
    with server.connect() as client:
        client.send(get(f"/status?code={code}"))
        reply = client.reply()
        assert reply.status == code and "content-length" not in reply.headers
        client.send(get("/x"))
        assert client.reply().status == 200


def test_http_1_0(server):
    with server.connect() as client:
        client.send(b"GET /x HTTP/1.0\r\n\r\n")
        assert client.reply().headers["connection"] == "close"
        assert client.is_closed()
    with server.connect() as client:
        for _ in range(2):
            client.send(b"GET /x HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
            assert client.reply().headers["connection"] == "keep-alive"
    with server.connect() as client:
        client.send(b"GET /stream?ms=1&n=3&bytes=10 HTTP/1.0\r\n\r\n")
        assert "transfer-encoding" not in client.head().headers
        assert client.rest() == b"\0" * 30


def test_connection_close(server):
    with server.connect() as client:
        client.send(get("/x", "Connection: foo, Close") + get("/never"))
        assert client.reply().headers["connection"] == "close"
        assert client.is_closed()


def test_problem(server):
    assert server.once(get("/problem")).json() == {
        "type": "about:blank", "title": "Conflict", "status": 409, "detail": "worker w\N{REPLACEMENT CHARACTER} is busy",
        "code": "busy", "remedy": "wait"}


# Pipelining.


def test_pipelining_with_late_replies(server):
    targets = [f"/p/{i}" for i in range(100)]
    targets[40] = "/later?ms=80&i=40"
    targets[41] = "/later?ms=5&i=41"
    with server.connect() as client:
        client.send(b"".join(get(t) for t in targets))
        for target in targets:
            o = client.reply().json()
            assert o["path"] == target.split("?")[0]
            if "i=" in target:
                assert o["query"]["i"] == [target.split("i=")[1]]


def test_pipelined_bodies_cut_anywhere(server):
    requests = b"".join(request("POST", f"/p/{i}", body=b"x" * (i * 997 % 5000)) for i in range(60))
    with server.connect() as client:
        for i in range(0, len(requests), 1777):
            client.send(requests[i : i + 1777])
            time.sleep(0.0005)
        for i in range(60):
            o = client.reply().json()
            assert (o["path"], o["body_size"]) == (f"/p/{i}", i * 997 % 5000)


def test_pipelined_while_a_reply_is_pending(server):
    """libevhtp alone closes the connection when a second packet meets an unanswered request."""
    with server.connect() as client:
        client.send(get("/later?ms=150"))
        for i in range(300):  # more than may wait in the server
            client.send(get(f"/p/{i}", "X: " + "y" * 200))
        assert client.reply().json()["path"] == "/later"
        for i in range(300):
            assert client.reply().json()["path"] == f"/p/{i}"


def test_error_after_good_requests(server):
    with server.connect() as client:
        client.send(get("/1") + get("/2") + b"BREW / HTTP/1.1\r\n\r\n" + get("/3"))
        assert [client.reply().status for _ in range(3)] == [200, 200, 501]
        assert client.is_closed()


def test_half_closed_client_gets_what_is_there(server):
    with server.connect() as client:
        client.send(get("/1") + get("/2") + b"GET /unfinished")
        client.sock.shutdown(socket.SHUT_WR)
        assert [client.reply().status for _ in range(2)] == [200, 200]
        assert client.is_closed()


# Deadlines.


def drip(client, byte):
    """Sends a byte at a time until the server has something to say; gives the seconds that took."""
    started = time.monotonic()
    while not select.select([client.sock], [], [], 0.03)[0]:
        client.send(byte)
        assert time.monotonic() - started < patience(3)
    return time.monotonic() - started


@pytest.mark.parametrize("beginning", [
    b"GET / HTT", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", get("/first") + b"GET /secon",
])
def test_slow_head_and_body(beginning):
    """A byte now and then keeps nothing alive."""
    with Server(head_ms=300, body_ms=300) as server, server.connect() as client:
        client.send(beginning)
        if beginning.startswith(get("/first")):
            assert client.reply().status == 200
        assert drip(client, b"b") > 0.2
        assert client.reply().status == 408
        assert client.is_closed()


def test_client_that_sends_nothing():
    with Server(head_ms=200) as server, server.connect() as client:
        started = time.monotonic()
        assert client.is_closed()
        assert 0.1 < time.monotonic() - started < patience(1)


def test_slow_blank_lines():
    with Server(head_ms=200) as server, server.connect() as client:
        with pytest.raises((AssertionError, ConnectionError)):
            for _ in range(20):
                client.send(b"\r\n")
                time.sleep(0.03)
            client.reply()


def test_idle_connection_is_closed_and_a_pending_reply_is_not():
    with Server(idle_ms=150, head_ms=150, body_ms=150, stall_ms=150) as server, server.connect() as client:
        client.send(get("/later?ms=400"))
        assert client.reply().status == 200
        started = time.monotonic()
        assert client.is_closed()
        assert 0.1 < time.monotonic() - started < patience(5)


def test_no_wake_ups_without_clients():
    with Server() as server:
        server.once(get("/x"))
        time.sleep(0.1)
        before = server.usage("voluntary_ctxt_switches")
        time.sleep(1)
        assert server.usage("voluntary_ctxt_switches") == before


# Downloads.


@pytest.mark.parametrize("value, part", [
    ("bytes=0-0", (0, 1)), ("bytes=10-19", (10, 20)), ("bytes=10000-", (10000, 10240)), ("bytes=-5", (10235, 10240)),
    ("bytes=-99999", (0, 10240)), ("bytes=10-99999999999999999999", (10, 10240)), ("Bytes=1-2", (1, 3)),
])
def test_range(server, small_file, value, part):
    r = server.once(get(f"/file?path={small_file}", f"Range: {value}"))
    assert r.status == 206
    assert r.headers["content-range"] == f"bytes {part[0]}-{part[1] - 1}/10240"
    assert r.body == small_file.read_bytes()[part[0] : part[1]]


@pytest.mark.parametrize("value", ["bytes=10240-", "bytes=99999-100000", "bytes=-0"])
def test_range_after_the_end(server, small_file, value):
    r = server.once(get(f"/file?path={small_file}", f"Range: {value}"))
    assert r.status == 416 and r.headers["content-range"] == "bytes */10240"


@pytest.mark.parametrize("value", ["bytes=5-4", "bytes=", "bytes=-", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b", "bytes=1 -2"])
def test_range_that_is_none(server, small_file, value):
    r = server.once(get(f"/file?path={small_file}", f"Range: {value}"))
    assert r.status == 200 and r.body == small_file.read_bytes()


def test_if_range(server, small_file):
    target = f"/file?path={small_file}"
    etag = server.once(get(target)).headers["etag"]
    assert server.once(get(target, "Range: bytes=1-2", f"If-Range: {etag}")).status == 206
    assert server.once(get(target, "Range: bytes=1-2", 'If-Range: "other"')).status == 200
    os.utime(small_file, ns=(1, 1))
    assert server.once(get(target, "Range: bytes=1-2", f"If-Range: {etag}")).status == 200


def test_file_name_and_missing_bytes(server, small_file, tmp_path):
    r = server.once(get(f"/file?path={small_file}&name=a%22b%C3%A9%0D%0AX:y.gz"))
    assert r.headers["content-disposition"] == (
        "attachment; filename=\"a_b____X:y.gz\"; filename*=UTF-8''a%22b%C3%A9%0D%0AX%3Ay.gz")
    assert r.headers["accept-ranges"] == "bytes"
    assert server.once(get(f"/file?path={small_file}&size=10241")).status == 410
    assert server.once(get(f"/file?path={tmp_path}")).status == 410
    (tmp_path / "empty").touch()
    assert server.once(get(f"/file?path={tmp_path / 'empty'}")).body == b""
    assert server.once(get(f"/file?path={tmp_path / 'empty'}", "Range: bytes=0-")).status == 416


@pytest.mark.parametrize("local", [False, True])
def test_download_in_order_and_keep_alive(tmp_path, local):
    path = tmp_path / "f"
    path.write_bytes(b"".join(i.to_bytes(8, "big") for i in range(1_000_000)))
    with Server(unix=tmp_path / "s" if local else None) as server, server.connect() as client:
        for _ in range(2):
            client.send(get(f"/file?path={path}") + get("/after"))
            assert client.reply().body == path.read_bytes()
            assert client.reply().json()["path"] == "/after"


@pytest.mark.parametrize("local", [False, True])
def test_download_of_what_is_read_elsewhere(tmp_path, small_file, local):
    path = tmp_path / "f"
    path.write_bytes(b"".join(i.to_bytes(8, "big") for i in range(200_000)))
    with Server(unix=tmp_path / "s" if local else None) as server, server.connect() as client:
        for _ in range(2):
            client.send(get(f"/file?path={path}&elsewhere=1") + get("/after"))
            assert client.reply().body == path.read_bytes()
            assert client.reply().json()["path"] == "/after"
        client.send(get(f"/file?path={path}&elsewhere=1", "Range: bytes=300000-900000"))
        assert client.reply().body == path.read_bytes()[300_000:900_001]
        client.send(get(f"/file?path={path}&elsewhere=1&size=0") + get("/after"))
        assert client.reply().body == b"" and client.reply().json()["path"] == "/after"


def test_dead_mount_holds_up_its_own_downloads(tmp_path, small_file):
    """Theirs end as those of a client that stands still; everybody else is answered meanwhile."""
    with Server(stall_ms=700) as server, server.connect() as waits, server.connect() as leaves:
        for client in (waits, leaves):
            client.send(get(f"/file?path={small_file}&elsewhere=dead"))
            assert client.head().status == 200
        leaves.sock.close()
        assert server.once(get("/x")).status == 200
        assert server.once(get(f"/file?path={small_file}")).body == small_file.read_bytes()
        assert waits.rest() == b""
        server.wait_for(connections=1)
        assert server.once(get("/revive")).status == 200
        assert server.once(get(f"/file?path={small_file}&elsewhere=1")).body == small_file.read_bytes()


@pytest.mark.parametrize("local", [False, True])
def test_stalled_download_costs_no_memory_and_is_dropped(tmp_path, big_file, local):
    with Server(unix=tmp_path / "s" if local else None, stall_ms=700) as server:
        server.once(get("/x"))
        before = server.usage("VmRSS")
        with server.connect(receive_buffer=4096) as client:
            client.send(get(f"/file?path={big_file}"))
            assert client.head().headers["content-length"] == str(2 * GIB)
            received = 0
            for _ in range(6):  # slower than the stall timeout as a whole, and never still for so long
                time.sleep(0.2)
                received += len(client.take(1 << 20))
            assert server.state()["connections"] == 2
            assert server.usage("VmRSS") - before < 8 * 1024
            server.wait_for(connections=1)
            with pytest.raises((AssertionError, ConnectionError)):
                client.take(GIB)


def test_complete_2_gib(big_file):
    with Server() as server, server.connect() as client:
        client.send(get(f"/file?path={big_file}", "Connection: close"))
        client.head()
        received = len(client.buffer)
        chunk = bytearray(1 << 20)
        while n := client.sock.recv_into(chunk):
            received += n
        assert received == 2 * GIB
        if not SANITIZED:
            assert server.usage("VmHWM") < 16 * 1024


def test_file_that_shrinks_is_cut_off_not_padded(tmp_path):
    path = tmp_path / "shrinks"
    with open(path, "wb") as f:
        f.truncate(GIB)
    with Server() as server, server.connect(receive_buffer=4096) as client:
        client.send(get(f"/file?path={path}"))
        client.head()
        os.truncate(path, 0)
        assert len(client.rest()) < GIB
        server.wait_for(connections=1)


def test_client_that_leaves_a_download(big_file):
    with Server() as server:
        for _ in range(5):
            with server.connect() as client:
                client.send(get(f"/file?path={big_file}"))
                client.head()
        server.wait_for(connections=1)


# Streams.


def test_stream(server):
    with server.connect() as client:
        client.send(get("/stream?ms=5&n=3&bytes=10"))
        reply = client.head()
        assert reply.headers["content-type"] == "text/event-stream"
        assert reply.headers["transfer-encoding"] == "chunked" and "content-length" not in reply.headers
        assert [client.chunk() for _ in range(4)] == [b"\0" * 10] * 3 + [b""]
        assert client.is_closed()


def test_client_that_leaves_a_stream_is_noticed(server):
    """Nothing is written for an hour; only reading on tells that the client went, pipelined bytes or not."""
    closed = server.state()["closed"]
    for more in (b"", get("/x") * 1000):
        with server.connect() as client:
            client.send(get("/stream?ms=3600000") + more)
            client.head()
        closed += 1
        server.wait_for(closed=closed)


def test_client_that_leaves_a_pending_reply_is_noticed(server):
    closed = server.state()["closed"]
    with server.connect() as client:
        client.send(get("/later?ms=3600000"))
        time.sleep(0.05)
    server.wait_for(closed=closed + 1)


def test_reset_by_the_client(server):
    closed = server.state()["closed"]
    for target in ("/stream?ms=3600000", "/stream?ms=1", "/later?ms=3600000"):
        client = server.connect()
        client.send(get(target))
        time.sleep(0.03)
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.sock.close()
    server.wait_for(closed=closed + 3)


def test_lagging_stream_is_dropped():
    with Server(stream_lag_max=256 << 10) as server:
        before = server.usage("VmRSS")
        with server.connect(receive_buffer=4096) as client:
            client.send(get("/stream?ms=1&bytes=65536"))
            server.wait_for(dropped=1, closed=1, connections=1)
            if not SANITIZED:
                assert server.usage("VmRSS") - before < 2 * 1024
            client.rest()


def test_flooded_stream_is_dropped_in_its_turn():
    with Server() as server, server.connect() as client:
        client.send(get("/stream?ms=0&bytes=65536"))
        server.wait_for(dropped=1, closed=1)


def test_still_stream_is_dropped():
    """Within its lag, but not reading at all."""
    with Server(stall_ms=300, stream_lag_max=64 << 20) as server, server.connect(receive_buffer=4096) as client:
        client.send(get("/stream?ms=1&bytes=65536&n=300"))
        server.wait_for(closed=1, connections=1)


def test_quiet_stream_is_kept():
    with Server(stall_ms=100, idle_ms=100, head_ms=100) as server, server.connect() as client:
        client.send(get("/stream?ms=500&n=2&bytes=3"))
        client.head()
        assert [client.chunk() for _ in range(3)] == [b"\0" * 3] * 2 + [b""]


# Many connections.


TOKEN = "Authorization: Bearer x"


def known(server):
    """A client that has shown a token: no other one displaces it."""
    client = server.connect()
    client.send(get("/x", TOKEN))
    assert client.reply().status == 200
    return client


def test_connection_cap():
    with Server(connections_max=10, noisy=True) as server:
        clients = [known(server) for _ in range(10)]
        for _ in range(60):
            started = time.monotonic()
            with server.connect() as refused:
                reply = refused.reply()
                assert reply.status == 503 and reply.headers["retry-after"] == "1"
                assert refused.is_closed()
            assert time.monotonic() - started < patience(1)
        clients.pop().sock.close()
        server.wait_for(connections=10)
        for client in clients:
            client.send(get("/x", TOKEN))
            assert client.reply().status == 200
            client.sock.close()
    assert server.stderr.count("\n") == 1 and "limit" in server.stderr


def test_oldest_without_a_token_makes_room():
    with Server(connections_max=4, noisy=True) as server:
        holder, silent, idle = known(server), server.connect(), server.connect()
        idle.send(get("/x"))
        idle.reply()
        handled = server.connect()
        handled.send(get("/later?ms=3600000"))
        more = []
        for oldest in (silent, idle):
            more.append(known(server))
            assert oldest.is_closed()
        with server.connect() as refused:  # what is being answered stays, and who showed a token
            assert refused.reply().status == 503
        for client in (holder, *more):
            client.send(get("/x", TOKEN))
            assert client.reply().status == 200


# In a network of its own, whose loopback device has another address, too.
SHARE = """
import fcntl, socket, struct
from test_http_api import TOKEN, Server, get, known

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS: up
    fcntl.ioctl(s, 0x8916, struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton("10.123.45.67")))  # SIOCSIFADDR
with Server(address="10.123.45.67", anonymous_share=4) as server:
    holder = known(server)
    clients = [server.connect() for _ in range(10)]
    for client in clients[:6]:
        assert client.is_closed()
    for client in clients[6:]:
        client.send(get("/x"))
        assert client.reply().status == 200
    holder.send(get("/x", TOKEN))
    assert holder.reply().status == 200
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")
def test_share_of_an_address_beyond_loopback():
    r = subprocess.run(["unshare", "-n", sys.executable, "-c", SHARE], capture_output=True, text=True, timeout=60,
                       env={**os.environ, "PYTHONPATH": f"{ROOT}/tests/integration:{ROOT}/tests"})
    assert r.returncode == 0, r.stderr


def test_burst_is_accepted_in_portions():
    """A client that sends its request at once is served, however many come after it before profd looks."""
    with Server(connections_max=64, noisy=True) as server:
        os.kill(server.process.pid, signal.SIGSTOP)
        clients = [server.connect() for _ in range(60)]
        for i, client in enumerate(clients):
            client.send(get(f"/{i}", TOKEN if i == 0 else "X: y"))
        crowd = [server.connect() for _ in range(60)]
        os.kill(server.process.pid, signal.SIGCONT)
        assert clients[0].reply().json()["path"] == "/0"
        for client in clients + crowd:
            client.sock.close()


def test_refused_clients_that_stay_do_not_add_up():
    with Server(connections_max=2, noisy=True) as server:
        stay = [known(server) for _ in range(2)] + [server.connect() for _ in range(100)]
        time.sleep(0.3)
        assert len(os.listdir(f"/proc/{server.process.pid}/fd")) < 2 + 32 + 16
        for client in stay:
            client.sock.close()
        server.wait_for(connections=1)


def test_out_of_descriptors():
    with Server(nofile=40, noisy=True) as server:
        clients = [server.connect() for _ in range(60)]
        time.sleep(0.3)
        before = server.cpu_seconds()
        time.sleep(1.5)
        assert server.cpu_seconds() - before < 1
        for client in clients:
            client.send(get("/x"))
        assert clients[0].reply().status == 200
        for client in clients[:30]:
            client.sock.close()
        assert clients[59].reply().status == 200  # it waited in the queue
        for client in clients[30:]:
            client.sock.close()
        server.wait_for(connections=1)
    assert server.stderr.count("\n") == 1 and "open files" in server.stderr


def test_stop_accepting():
    with Server() as server:
        idle, owed = server.connect(), server.connect()
        idle.send(get("/x"))
        idle.reply()
        owed.send(get("/later?ms=200") + get("/never"))
        time.sleep(0.05)
        server.process.stdin.write(b"s")
        server.process.stdin.flush()
        assert idle.is_closed()
        with pytest.raises(ConnectionRefusedError):
            server.connect()
        assert owed.reply().headers["connection"] == "close"
        assert owed.is_closed()


def test_free_with_everything_open(big_file):
    with Server() as server:
        clients = [server.connect() for _ in range(8)]
        for client, data in zip(clients, [
            b"", b"GET /", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", get("/later?ms=3600000"),
            get("/stream?ms=3600000"), get(f"/file?path={big_file}"), get("/x"), b"BREW / HTTP/1.1\r\n\r\n",
        ]):
            client.send(data)
        time.sleep(0.1)
    for client in clients:
        client.sock.close()


def test_abuse_leaves_nothing_behind():
    """Requests cut anywhere, with and without a reset, hundreds of times: in groups, as more connections than the limit
    would be open at once where the server gets to run less often than its clients."""
    with Server() as server:
        def descriptors():
            return len(os.listdir(f"/proc/{server.process.pid}/fd"))

        server.once(get("/x"))
        n_fds = descriptors()
        for i in range(400):
            data = REQUESTS[i % 3] + get("/stream?ms=1") + b"\0"
            client = server.connect()
            client.send(data[: i * 7 % len(data)])
            if i % 2:
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sock.close()
            if i % 100 == 99:
                server.wait_for(connections=1)
        wait_for(lambda: descriptors() <= n_fds)
