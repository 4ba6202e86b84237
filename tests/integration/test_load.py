# SPDX-License-Identifier: Apache-2.0
"""More clients than profd serves, and bad ones: those beyond the limit are told so, and nobody else is harmed. How quick it
is under load is bench/load.py's."""

import contextlib
import select
import socket

from daemon import SANITIZED, Daemon, FaultFleet, quick_config, wait_for

CONNECTIONS = 40
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
