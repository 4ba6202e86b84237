# SPDX-License-Identifier: Apache-2.0
"""More clients than profd serves, and bad ones: those beyond the limit are told so, and nobody else is harmed. How quick it
is under load is bench/load.py's."""

import contextlib
import http.client
import re
import resource
import select
import socket
import time

import pytest
from daemon import SANITIZED, Daemon, FaultFleet, free_port, quick_config, token_line, wait_for, write_tokens
from patience import patience

CONNECTIONS = 40
REMOTE = 30  # of them, where there is a Unix socket, too
REFUSED_AT_A_TIME = 32
CROWD = 10_000
IDLE = 1000
MORE = f"[limits]\nconnections={CONNECTIONS}\n"
REQUEST = b"GET /v1/sessions?limit=10 HTTP/1.1\r\nhost: x\r\n\r\n"


def connect(profd):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(60)
    client.connect(str(profd.socket))
    return client


def test_idle_connections_beyond_the_limit_are_refused_politely(tmp_path):
    """Each is answered with 503 and closed; those that were there first go on, and a session records meanwhile."""
    with FaultFleet(tmp_path / "fleet", "vllm", 50) as fleet, \
            Daemon(tmp_path / "profd", quick_config(more=MORE)) as profd, contextlib.ExitStack() as stack:
        session = profd.start_session(router=fleet.router, duration_ns=3_000_000_000)["session"]
        first = stack.enter_context(contextlib.closing(connect(profd)))
        first.sendall(REQUEST)
        assert first.recv(65536).startswith(b"HTTP/1.1 200")

        refused, idle = 0, []
        for _ in range(IDLE):
            client = connect(profd)
            readable, _, _ = select.select([client], [], [], 60 if len(idle) >= CONNECTIONS - 1 else 0)
            if not readable:
                idle.append(stack.enter_context(contextlib.closing(client)))
                continue
            answer = client.recv(65536)
            assert answer.startswith(b"HTTP/1.1 503") and b"Retry-After: 1" in answer, answer
            client.close()
            refused += 1
            if refused % 100 == 0:
                first.sendall(REQUEST)
                assert first.recv(65536).startswith(b"HTTP/1.1 200")
        assert refused == IDLE - len(idle) and len(idle) < CONNECTIONS
        stack.close()
        assert profd.wait_session(session)["state"] == "complete"


@pytest.fixture
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CROWD + 1000:
        pytest.skip(f"RLIMIT_NOFILE ends at {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect_crowd(port, waiting, stack):
    for i in range(CROWD):
        client = stack.enter_context(socket.socket())
        client.setblocking(False)
        client.bind((f"127.0.0.{2 + i % 4}", 0))
        client.connect_ex(("127.0.0.1", port))
        waiting.register(client, select.EPOLLIN)
        yield client.fileno(), client


def answer_of(client):
    try:
        return client.recv(4096)
    except ConnectionError:
        return b""


def is_healthy(port):
    try:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
    except ConnectionError:
        return False


def test_ten_thousand_idle_connections_by_tcp(tmp_path, many_descriptors):
    """Each makes room for the next one or is closed as one that says nothing; the Unix socket answers meanwhile, and memory stays."""
    port = free_port()
    with Daemon(tmp_path, f"[profd]\nlisten=127.0.0.1:{port}\n") as profd, contextlib.ExitStack() as stack:
        assert profd.request("GET", "/healthz").status == 200
        before = profd.memory("Private_Dirty")
        waiting = stack.enter_context(select.epoll())
        clients = dict(connect_crowd(port, waiting, stack))
        deadline, looked_at = time.monotonic() + patience(300), 0.0
        while clients:
            assert time.monotonic() < deadline, f"{len(clients)} have no answer"
            for number, _ in waiting.poll(0.1):
                with clients.pop(number) as client:
                    answer = answer_of(client)
                    assert answer == b"" or answer.startswith(b"HTTP/1.1 503"), answer
            if time.monotonic() - looked_at > 0.1:
                looked_at = time.monotonic()
                assert profd.request("GET", "/healthz").status == 200
                assert SANITIZED or profd.memory("Private_Dirty") - before < 16 << 20
        displaced = re.search(r"^profd_http_displaced_total (\d+)$", profd.request("GET", "/metrics").body.decode(), re.M)
        assert int(displaced[1]) > CROWD - 1000
        wait_for(lambda: is_healthy(port))


def test_who_fills_the_tcp_port_does_not_shut_the_unix_socket(tmp_path):
    """Not even for the moment that refused clients take who do not leave: profd's count of connections has them all."""
    port, tokens = free_port(), write_tokens(tmp_path / "tokens", token_line("ci", "read", "T" * 40))
    with Daemon(tmp_path, f"[profd]\nlisten=127.0.0.1:{port}\n[http]\ntokens_file={tokens}\n{MORE}") as profd:
        def open_meanwhile():
            with contextlib.ExitStack() as stack:
                for i in range(REMOTE + REFUSED_AT_A_TIME):
                    client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
                    if i < REMOTE:  # with a token, so that none makes room for another
                        client.sendall(b"GET /v1/version HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer " + b"T" * 40 + b"\r\n\r\n")
                    assert client.recv(12) == (b"HTTP/1.1 200" if i < REMOTE else b"HTTP/1.1 503")
                return profd.get("/v1/version")["connections"]

        wait_for(lambda: open_meanwhile() == REMOTE + REFUSED_AT_A_TIME + 1)


def test_slow_readers_and_half_requests_harm_nobody(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 20) as fleet, \
            Daemon(tmp_path / "profd", quick_config(more=MORE)) as profd, contextlib.ExitStack() as stack:
        before = profd.memory("Private_Dirty")
        for i in range(CONNECTIONS // 2):
            client = stack.enter_context(contextlib.closing(connect(profd)))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.sendall(REQUEST[:30] if i % 2 else REQUEST * 2000)
        for _ in range(5):
            session = profd.start_session(router=fleet.router, duration_ns=50_000_000)["session"]
            assert profd.wait_session(session)["state"] == "complete"
        # A sanitizer keeps freed memory.
        assert SANITIZED or profd.memory("Private_Dirty") - before < 16 << 20
        stack.close()
        wait_for(lambda: profd.get("/v1/version")["connections"] <= 1)
