# SPDX-License-Identifier: Apache-2.0
"""profctl web: the address that it prints, and its relay, through which a browser uses a profd that it cannot reach itself."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from certificates import Authority
from daemon import BUILD, SANITIZED, Daemon, FaultFleet, Reply, free_port, quick_config, token_line, wait_for, write_tokens
from test_access import TOKENS, TcpDaemon, profctl, tls_config

PROFCTL = BUILD / "client/profctl"
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("PROFD_", "XDG_", "SSH_")) and k not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
BIG = (256 if SANITIZED else 1100) << 20


class Relay:
    """profctl web, until the end of the block, and a client of its port."""

    def __init__(self, *options, env=None):
        self.options, self.env = options, env or {}

    def __enter__(self):
        self.process = subprocess.Popen([PROFCTL, "web", "--no-browser", "--json", *map(str, self.options)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=CLEAN | {"HOME": "/nonexistent"} | self.env)
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.printed = json.loads(line)
        self.origin, self.fragment = self.printed["url"].split("/#")
        self.port = int(self.origin.rsplit(":", 1)[1])
        self.code = self.fragment.removeprefix("code=").partition("&")[0]
        self.token = None
        return self

    def __exit__(self, *exception):
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(60)
        self.process.stdout.close()
        self.process.stderr.close()
        assert exception[0] or status == 0

    def connection(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def call(self, method, path, body=None, headers=None, connection=None, as_page=True):
        """As the page sends it."""
        more = {"Origin": self.origin, "Sec-Fetch-Site": "same-origin"} if as_page else {}
        more |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        more |= {"Content-Type": "application/json"} if body is not None else {}
        with contextlib.nullcontext(connection) if connection else contextlib.closing(self.connection()) as used:
            used.request(method, path, None if body is None else json.dumps(body), more | (headers or {}))
            return Reply(used.getresponse())

    def log_in(self):
        reply = self.call("POST", "/v1/web/login", {"code": self.code})
        assert reply.status == 201, reply
        self.token = reply.json()["token"]
        return self

    def raw(self, data, timeout=60):
        """All that comes back for these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as client:
            client.sendall(data)
            received = b""
            while block := client.recv(65536):
                received += block
            return received


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("profd"), quick_config()) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def page(profd):
    if profd.request("GET", "/").status == 404:
        pytest.skip("this build has no web page")


@pytest.fixture(scope="module")
def relay(profd):
    with Relay("--socket", profd.socket) as running:
        yield running.log_in()


@pytest.fixture(scope="module")
def trace(profd):
    path = profd.directory / "trace.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": "k", "pid": 1, "tid": 1, "ts": i, "dur": 1} for i in range(1000)]}))
    return profd.post("/v1/traces", {"path": str(path)}, 201)["trace"]


# The address


def test_where_profd_listens_there_is_no_relay(tmp_path):
    with TcpDaemon(tmp_path) as profd:
        done = profctl("web", "--socket", profd.socket, "--no-browser", "--role", "read", "s7", env={"SSH_CONNECTION": "1 2 3 4"})
        url = done.stdout.strip()
        assert done.returncode == 0 and url.startswith(f"http://127.0.0.1:{profd.port}/#code=") and url.endswith("&to=/sessions/s7")
        assert f"ssh -L {profd.port}:127.0.0.1:{profd.port} " in done.stderr and "role read" in done.stderr
        token_file = tmp_path / "token"
        token_file.write_text(TOKENS["read"])
        token_file.chmod(0o600)
        named = ["--host", f"http://localhost:{profd.port}", "--token-file", token_file]
        done = profctl("web", "--no-browser", *named)
        assert done.stdout.startswith(f"http://localhost:{profd.port}/#code=") and "role read" in done.stderr
        refused = profctl("web", "--no-browser", "--role", "admin", *named)
        assert refused.returncode == 1 and "has role read" in refused.stderr


@pytest.mark.parametrize("args, text", [(["--role", "root"], "is not read, operate or admin"), (["--port", "70000"], "is not a port"),
                                        (["x9"], "x9"), (["t1", "t2"], "")])
def test_wrong_usage(profd, args, text):
    done = profctl("web", "--socket", profd.socket, *args)
    assert done.returncode == 2 and text in done.stderr and done.stdout == ""


@pytest.mark.parametrize("word, path", [("t12", "/traces/t12"), ("s7", "/sessions/s7"), ("r3", "/runs/r3"), ("12", "/traces/t12"), (None, None)])
def test_an_address_names_a_view(profd, word, path):
    with Relay("--socket", profd.socket, *([word] if word else [])) as relay:
        assert relay.printed["relay"] is True and relay.printed["role"] == "operate"
        assert relay.fragment == f"code={relay.code}" + (f"&to={path}" if path else "")


def test_a_port_of_ones_own(profd):
    port = free_port()
    with Relay("--socket", profd.socket, "--port", port) as relay:
        assert relay.port == port
        busy = profctl("web", "--socket", profd.socket, "--port", port)
        assert busy.returncode == 1 and "Address already in use" in busy.stderr and "--port" in busy.stderr


def test_a_browser_is_started(profd, tmp_path):
    program, seen = tmp_path / "browser", tmp_path / "seen"
    program.write_text(f'#!/bin/sh\necho "$@" > {seen}.new; mv {seen}.new {seen}\n')
    program.chmod(0o755)
    process = subprocess.Popen([PROFCTL, "web", "--socket", profd.socket], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env=CLEAN | {"BROWSER": f"{program}:other", "DISPLAY": ":9"})
    with process:
        url = process.stdout.readline().strip()
        wait_for(seen.exists)
        process.terminate()
    assert seen.read_text().strip() == url and process.returncode == 0


def test_open_shows_a_trace_on_the_page(profd, trace):
    process = subprocess.Popen([PROFCTL, "open", "--socket", profd.socket, "--no-browser", trace], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, env=CLEAN)
    with process:
        url = process.stdout.readline().strip()
        process.terminate()
    assert url.endswith(f"&to=/traces/{trace}?perfetto=1") and "/#code=" in url


# What passes


def test_a_page_works_through_the_relay(profd, relay, trace):
    assert relay.call("GET", "/").status == 200
    me = relay.call("GET", "/v1/web/me").json()
    assert me["role"] == "operate" and me["user"].startswith("uid ")
    assert relay.call("GET", "/v1/traces").json()["traces"][0]["trace"] == trace
    assert relay.call("PUT", f"/v1/traces/{trace}/pin").status in (200, 204)
    assert profd.get(f"/v1/traces/{trace}")["pinned"] is True
    assert relay.call("DELETE", f"/v1/traces/{trace}").status == 403  # operate
    assert relay.call("POST", "/v1/traces", {"path": "/etc/passwd"}).status == 403  # none of the rights of the socket
    again = relay.call("POST", "/v1/web/login", {"code": relay.code})
    assert again.status == 401
    for reply in (me, again):
        names = {name.lower() for name in getattr(reply, "headers", {})}
        assert not any(name.startswith("access-control") for name in names) and "set-cookie" not in names


def test_without_a_token_nothing_passes(profd, trace):
    with Relay("--socket", profd.socket) as relay:
        for method, path in (("GET", "/v1/usage"), ("GET", f"/v1/traces/{trace}/file"), ("POST", "/v1/vacuum"), ("GET", "/v1/events"), ("GET", "/metrics")):
            assert relay.call(method, path).status == 401
        assert relay.call("GET", "/v1/usage", headers={"Profd-Relay": "", "Authorization": "Bearer x"}).status == 401
        assert relay.raw(f"GET /v1/usage HTTP/1.1\r\nHost: 127.0.0.1:{relay.port}\r\nConnection: close, Profd-Relay\r\n"
                         "Profd-Relay: 0\r\n\r\n".encode(), 5).startswith(b"HTTP/1.1 401")


def test_a_connection_is_kept(relay):
    with contextlib.closing(relay.connection()) as connection:
        for _ in range(50):
            assert relay.call("GET", "/v1/usage", connection=connection).status == 200
            assert relay.call("POST", "/v1/web/login", {"code": 7}, connection=connection).status == 400


def test_pipelined_requests_are_each_checked(relay):
    head = f"GET /v1/usage HTTP/1.1\r\nHost: {{}}:{relay.port}\r\nAuthorization: Bearer {relay.token}\r\n\r\n"
    received = relay.raw((head.format("127.0.0.1") + head.format("evil.example")).encode())
    assert received.count(b"HTTP/1.1 ") in (1, 2) and received.count(b"HTTP/1.1 200") <= 1 and b"HTTP/1.1 403" in received


def test_a_body_that_waits(relay):
    body = json.dumps({"path": "/v1/runs/r1/requests"}).encode()
    with socket.create_connection(("127.0.0.1", relay.port), timeout=60) as client:
        client.sendall(f"POST /v1/tickets HTTP/1.1\r\nHost: localhost:{relay.port}\r\nAuthorization: Bearer {relay.token}\r\n"
                       f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100 Continue")
        for byte in body:
            client.sendall(bytes([byte]))
        assert client.recv(100).startswith(b"HTTP/1.1 201")


def test_events_pass_as_they_come(profd, relay, tmp_path):
    with contextlib.closing(relay.connection()) as connection:
        connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {relay.token}"})
        stream = connection.getresponse()
        assert stream.headers["Content-Type"] == "text/event-stream"
        for number in range(3):
            path = tmp_path / f"{number}.json"
            path.write_text(f'{{"traceEvents": [{{"ph": "X", "name": "k{number}", "pid": 1, "tid": 1, "ts": 1, "dur": 1}}]}}')
            imported = profd.post("/v1/traces", {"path": str(path)}, 201)["trace"]
            while imported not in (line := stream.readline().decode()):
                assert line
    assert profd.get("/v1/usage")


def test_a_reader_that_leaves_ends_the_work(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as profd, Relay("--socket", profd.socket) as relay:
        relay.log_in()

        def connections():
            return profd.get("/v1/version")["connections"] - 1  # less this one

        with contextlib.closing(relay.connection()) as connection:
            connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {relay.token}"})
            stream = connection.getresponse()
            wait_for(lambda: connections() == 1, why=connections)
            stream.close()
        wait_for(lambda: connections() == 0, why=connections)


def test_downloads_of_gigabytes_pass(profd, relay, tmp_path):
    """Without being kept: neither by a fast reader nor by one that waits."""
    path = tmp_path / "big.json"
    with open(path, "wb") as file:
        file.write(b'{"traceEvents": [{"ph": "X", "name": "k", "pid": 1, "tid": 1, "ts": 1, "dur": 1}')
        for _ in range(BIG >> 20):
            file.write(b" " * (1 << 20))
        file.write(b"]}")
    trace = profd.post("/v1/traces", {"path": str(path), "reference": True}, 201)["trace"]
    url = relay.call("POST", "/v1/tickets", {"path": f"/v1/traces/{trace}/file"}).json()["url"]

    def resident():
        with open(f"/proc/{relay.process.pid}/statm") as file:
            return int(file.read().split()[1]) * 4096

    before, most, size = resident(), 0, 0
    with contextlib.closing(relay.connection()) as connection:
        connection.request("GET", url, headers={"Sec-Fetch-Site": "same-origin"})
        reply = connection.getresponse()
        assert reply.status == 200 and reply.headers["Content-Disposition"].startswith("attachment")
        time.sleep(0.5)
        while block := reply.read(1 << 20):
            size += len(block)
            most = max(most, resident()) if size % (64 << 20) < 1 << 20 else most
    assert size == path.stat().st_size and most - before < 32 << 20
    profd.request("DELETE", f"/v1/traces/{trace}")


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as file:
        return sum(map(int, file.read().rsplit(") ", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def test_a_slow_reader_costs_nothing(profd, relay, tmp_path):
    """Also where profd has sent all, and closed."""
    path = tmp_path / "some.json"
    path.write_text('{"traceEvents": [{"ph": "X", "name": "slow", "pid": 1, "tid": 1, "ts": 1, "dur": 1}' + " " * (12 << 20) + "]}")
    trace = profd.post("/v1/traces", {"path": str(path)}, 201)["trace"]
    with contextlib.closing(relay.connection()) as connection:
        connection.request("GET", f"/v1/traces/{trace}/file", headers={"Authorization": f"Bearer {relay.token}", "Connection": "close"})
        reply = connection.getresponse()
        before, begin = cpu_s(relay.process.pid), time.monotonic()
        while time.monotonic() - begin < 3:
            reply.read(1000)
            time.sleep(0.05)
        assert cpu_s(relay.process.pid) - before < 0.5
        assert len(reply.read()) > 11 << 20


def test_it_ends_with_streams_open(profd):
    with Relay("--socket", profd.socket) as relay, contextlib.closing(relay.log_in().connection()) as connection:
        connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {relay.token}"})
        assert connection.getresponse().status == 200
        begin = time.monotonic()
        relay.process.send_signal(signal.SIGINT)
        assert relay.process.wait(60) == 0 and time.monotonic() - begin < 30


def test_many_pages_at_once(relay):
    def ask():
        for _ in range(10):
            statuses.append(relay.call("GET", "/v1/usage").status)

    statuses = []
    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 120


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_others_cannot_occupy_it(profd):
    """The port is open to all users of the machine; those of another user have some of its connections, not all."""
    hog = """if True:
        import socket, sys
        held = []
        for _ in range(100):
            held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
            held[-1].sendall(b"G")
        print("held", flush=True)
        sys.stdin.read()"""
    with Relay("--socket", profd.socket) as relay, \
            subprocess.Popen([sys.executable, "-c", hog, str(relay.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=65534) as other:
        assert other.stdout.readline() == "held\n"
        relay.log_in()
        streams = [relay.connection() for _ in range(40)]
        for stream in streams:
            assert relay.call("GET", "/v1/version", connection=stream).status == 200
        for stream in streams:
            stream.close()
        other.communicate("")


# What does not


@pytest.mark.parametrize("headers, status", [
    ({}, 200),
    ({"Host": "localhost:{port}"}, 200),
    ({"Host": "[::1]:{port}"}, 200),
    ({"Host": "127.0.0.1"}, 403),
    ({"Host": "127.0.0.1:1"}, 403),
    ({"Host": "evil.example:{port}"}, 403),  # rebinding
    ({"Host": "127.0.0.1.evil.example:{port}"}, 403),
    ({"Host": "127.0.0.1:{port}", "Origin": "http://127.0.0.1:{port}"}, 200),
    ({"Host": "127.0.0.1:{port}", "Origin": "http://127.0.0.1:1"}, 403),  # another page of this machine
    ({"Host": "127.0.0.1:{port}", "Origin": "http://localhost:{port}"}, 403),
    ({"Host": "127.0.0.1:{port}", "Origin": "null"}, 403),
    ({"Sec-Fetch-Site": "none"}, 200),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403),
])
def test_only_its_own_page_passes(relay, headers, status):
    headers = {name: value.format(port=relay.port) for name, value in headers.items()}
    reply = relay.call("GET", "/v1/usage", headers=headers, as_page=False)
    assert reply.status == status
    if status == 403:
        assert reply.json()["code"] == "denied"
    page = relay.call("GET", "/", headers=headers, as_page=False)
    assert page.status == (200 if "Sec-Fetch-Mode" in headers else status)


def test_a_page_sends_json_through_the_relay(relay):
    reply = relay.call("POST", "/v1/tickets", {"path": "/v1/runs/r1/requests"}, {"Content-Type": "text/plain"})
    assert reply.status == 403 and "application/json" in reply.json()["detail"]


@pytest.mark.parametrize("request_, status", [
    ("nonsense\r\n\r\n", 400), ("GET / HTTP/1.0\r\n{host}\r\n", 400), ("GET http://127.0.0.1/ HTTP/1.1\r\n{host}\r\n", 400), ("GET / HTTP/1.1\r\n\r\n", 403),
    ("GET / HTTP/1.1\r\n{host}{host}\r\n", 400), ("GET / HTTP/1.1\r\n{host} folded: x\r\n\r\n", 400), ("GET / HTTP/1.1\r\n{host}a b: x\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n{host}x: a\nb: c\r\n\r\n", 400), ("GET / HTTP/1.1\r\n{host}x\r\n\r\n", 400), ("GET /\x01 HTTP/1.1\r\n{host}\r\n", 400),
    ("POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n", 501), ("POST / HTTP/1.1\r\n{host}Content-Length: -1\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400), ("POST / HTTP/1.1\r\n{host}Content-Length: 1" + "0" * 30 + "\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n{host}x: " + "y" * 40000 + "\r\n\r\n", 431), ("GET / HTTP/1.1\r\n{host}" + "x: y\r\n" * 200 + "\r\n", 431),
])
def test_heads_that_do_not_pass(relay, request_, status):
    received = relay.raw(request_.format(host=f"Host: 127.0.0.1:{relay.port}\r\n").encode("latin-1"))
    assert received.startswith(f"HTTP/1.1 {status} ".encode()), received


# A profd of another host


def test_through_tls_with_a_client_certificate(tmp_path):
    authority = Authority(tmp_path)
    with TcpDaemon(tmp_path / "profd", tls_config(*authority.issue("server"), authority.file)) as profd:
        token_file = tmp_path / "token"
        token_file.write_text(TOKENS["operate"])
        token_file.chmod(0o600)
        certificate, key = authority.issue("client")
        options = ["--host", f"https://localhost:{profd.port}", "--cacert", authority.file, "--cert", certificate, "--key", key, "--token-file", token_file]
        with Relay(*options) as relay:
            assert relay.call("GET", "/v1/usage").status == 401  # not with the user's own token
            relay.log_in()
            assert relay.call("GET", "/v1/web/me").json()["user"] == "operateer"
            with contextlib.closing(relay.connection()) as connection:
                for _ in range(20):
                    assert relay.call("GET", "/", connection=connection).status == 200
            path = tmp_path / "trace.json"
            path.write_text('{"traceEvents": [' + ",".join(f'{{"ph": "X", "name": "k{i}", "pid": 1, "tid": 1, "ts": {i}, "dur": 1}}' for i in range(200_000)) + "]}")
            trace = profd.post("/v1/traces", {"path": str(path)}, 201)["trace"]
            url = relay.call("POST", "/v1/tickets", {"path": f"/v1/traces/{trace}/file"}).json()["url"]
            assert relay.call("GET", url).body == path.read_bytes()
            with contextlib.closing(relay.connection()) as connection:
                connection.request("GET", "/v1/events?after=0", headers={"Authorization": f"Bearer {relay.token}"})
                assert connection.getresponse().readline().startswith(b"id: ")
            write_tokens(profd.tokens, token_line("other", "read", TOKENS["read"]))
            profd.reload("reloaded: ")
            assert relay.call("GET", "/v1/usage").status == 401
            assert TOKENS["operate"] not in profd.log()


def test_a_profd_that_is_gone(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as profd, Relay("--socket", profd.socket) as relay:
        relay.log_in()
        profd.stop()
        reply = relay.call("GET", "/v1/usage")
        assert (reply.status, reply.json()["code"]) == (502, "upstream") and "profctl status" in reply.json()["remedy"]
        profd.start()
        assert relay.call("GET", "/v1/usage").status == 401  # its memory is gone, and so is the log-in


def test_a_session_from_the_page(tmp_path):
    with FaultFleet(tmp_path / "fleet") as fleet, Daemon(tmp_path / "profd", quick_config()) as profd, Relay("--socket", profd.socket) as relay:
        reply = relay.log_in().call("POST", "/v1/sessions", {"router": fleet.router, "duration_ns": 50_000_000})
        assert reply.status == 201, reply
        assert profd.wait_session(reply.json()["session"])["requested_by"].startswith("web:uid ")
