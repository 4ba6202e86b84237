# SPDX-License-Identifier: Apache-2.0
"""Clients without a token press at profd's TCP port: whoever has one is served all the same."""

import contextlib
import http.client
import itertools
import selectors
import socket
import threading
import time

import pytest
from daemon import UnixConnection
from patience import patience
from test_access import TOKENS, TcpDaemon

LIMIT = 256  # [limits] connections=
SERVED_S = 1
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LOOPBACK = ["127.0.0.1"]
MANY = [f"127.0.1.{i}" for i in range(1, 251)]


class Crowd:
    """Clients without a token, each from one address after the other: what they are cut off from they open again."""

    REOPENED_MAX = 50  # at once: many, and bounded in traffic
    TICK_S = 0.02

    def __init__(self, port, n, first, then=b"", sources=LOOPBACK):
        self.port, self.n, self.first, self.then = port, n, first, then
        self.sources = itertools.cycle(sources)
        self.selector, self.ended = selectors.DefaultSelector(), threading.Event()
        self.n_opened = 0
        self.thread = threading.Thread(target=self.press)

    def __enter__(self):
        self.thread.start()
        deadline = time.monotonic() + patience(60)
        while self.n_opened < self.n:
            assert time.monotonic() < deadline and self.thread.is_alive()
            time.sleep(self.TICK_S)
        return self

    def __exit__(self, *exception):
        self.ended.set()
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()

    def open(self):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=(next(self.sources), 0))
        client.setblocking(False)
        self.selector.register(client, selectors.EVENT_READ)
        with contextlib.suppress(OSError):
            client.send(self.first)
        self.n_opened += 1

    def is_open(self, client):
        try:
            return client.recv(65536) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def press(self):
        while not self.ended.is_set():
            for key, _ in self.selector.select(0):
                if not self.is_open(key.fileobj):
                    self.selector.unregister(key.fileobj)
                    key.fileobj.close()
            clients = [key.fileobj for key in self.selector.get_map().values()]
            for client in clients if self.then else []:
                with contextlib.suppress(OSError):
                    client.send(self.then)
            for _ in range(min(self.n - len(clients), self.REOPENED_MAX)):
                self.open()
            self.ended.wait(self.TICK_S)


CROWDS = {
    "idle after a reply": (400, HEALTH, b""),
    "first byte of a head": (300, b"G", b""),
    "one byte after the other": (1000, b"GET /healthz HTTP/1.1\r\nX: ", b"x"),
    "one body byte after the other": (300, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n", b"x"),
}


def ask(connection, path="/v1/usage", token=TOKENS["read"]):
    begin = time.monotonic()
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    reply = connection.getresponse()
    reply.read()
    return reply.status, time.monotonic() - begin


def connect(profd, source="127.0.0.1"):
    return contextlib.closing(http.client.HTTPConnection("127.0.0.1", profd.port, timeout=60, source_address=(source, 0)))


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    with TcpDaemon(tmp_path_factory.mktemp("profd")) as running:
        yield running


@pytest.mark.parametrize("sources", [LOOPBACK, ["127.0.0.2"], MANY], ids=["same address", "another address", "many addresses"])
@pytest.mark.parametrize("crowd", CROWDS.values(), ids=CROWDS.keys())
def test_token_holders_are_served_in_a_crowd(profd, crowd, sources):
    n, first, then = crowd
    with connect(profd) as kept:
        assert ask(kept)[0] == 200
        first_socket = kept.sock
        with Crowd(profd.port, n, first, then, sources):
            for _ in range(5):
                with connect(profd) as new:
                    status, took = ask(new)
                    assert status == 200 and took < patience(SERVED_S)
            status, took = ask(kept)
            assert status == 200 and took < patience(SERVED_S) and kept.sock is first_socket
            with contextlib.closing(UnixConnection(profd.socket)) as local:
                assert ask(local, token=None)[0] == 200


def metric(profd, name):
    return next(int(line.split()[1]) for line in profd.request("GET", "/metrics").body.decode().splitlines() if line.startswith(name + " "))


def test_crowd_is_counted_and_logged_in_brief(profd):
    before = metric(profd, "profd_http_displaced_total")
    with Crowd(profd.port, 400, HEALTH):
        assert metric(profd, "profd_http_displaced_total") > before
        assert metric(profd, "profd_http_connections") <= LIMIT
    assert 1 <= profd.log().count("the limit is reached") <= 5


def test_who_shows_no_token_any_more_goes_like_others(profd):
    """The last request decides: a token that was taken away does not hold a connection for good."""
    with connect(profd) as kept:
        assert ask(kept)[0] == 200
        assert ask(kept, "/healthz", token=None)[0] == 200
        with Crowd(profd.port, 400, HEALTH):
            kept.sock.settimeout(60)
            assert kept.sock.recv(1) == b""
