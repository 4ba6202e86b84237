# SPDX-License-Identifier: Apache-2.0
"""The HTTP API over TLS: what records do to it that segments do not."""

import contextlib
import socket
import ssl
import time

import pytest
from certificates import Authority
from test_http_api import REQUESTS, SANITIZED, Client, Server, get, request, small_file  # noqa: F401 (a fixture)

MIB = 1 << 20


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


class TlsServer(Server):
    def __init__(self, authority, client_ca=None, **options):
        certificate, key = authority.issue("server")
        super().__init__(tls=",".join(map(str, filter(None, (certificate, key, client_ca)))), **options)
        self.context = ssl.create_default_context(cafile=authority.file)

    def connect(self, receive_buffer=None):
        plain = self.connect_plain(receive_buffer)
        return Client(self.context.wrap_socket(plain, server_hostname="localhost"))

    def connect_plain(self, receive_buffer=None):
        plain = super().connect(receive_buffer).sock
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain


@pytest.fixture(scope="module")
def server(authority):
    with TlsServer(authority) as running:
        yield running


@pytest.mark.parametrize("data", REQUESTS)
def test_split_at_every_offset(server, data):
    """Each part is a record of its own."""
    whole = server.once(data).json()
    with server.connect() as client:
        for offset in range(1, len(data)):
            client.send(data[:offset])
            if offset % 4 == 0:
                time.sleep(0.002)
            client.send(data[offset:])
            assert {**client.reply().json(), "address": ""} == {**whole, "address": ""}, offset


def test_byte_by_byte(server):
    with server.connect() as client:
        for byte in REQUESTS[1]:
            client.send(bytes([byte]))
        assert client.reply().json()["path"] == "/path/to/thing"


@pytest.mark.parametrize("size", [1, 4095, 16384, 20000, 100_000, MIB])
def test_bodies_in_large_records(server, size):
    """Head and body share records, whose rest waits inside OpenSSL when the gate has read enough for now."""
    with server.connect() as client:
        for _ in range(3):
            client.send(request("PUT", "/x", body=b"b" * size))
            assert client.reply().json()["body_size"] == size


def test_largest_head(server):
    assert server.once(get("/" + "p" * 7990, "X-Test: " + "v" * 7900)).json()["path"] == "/" + "p" * 7990
    assert server.once(get("/x", *(f"X-{i}: {'v' * 7900}" for i in range(3)))).status == 431


def test_pipelined_beyond_every_limit(server):
    """50 requests with bodies of 4 KiB in one go are ten times what may wait."""
    with server.connect() as client:
        client.send(b"".join(request("POST", f"/{i}", body=b"b" * 4096) for i in range(50)))
        for i in range(50):
            assert client.reply().json()["path"] == f"/{i}"


def test_pipelined_while_a_reply_is_pending(server):
    with server.connect() as client:
        client.send(get("/later?ms=100") + b"".join(request("POST", f"/{i}", body=b"b" * 9000) for i in range(10)))
        assert client.reply().json()["path"] == "/later"
        for i in range(10):
            assert client.reply().json()["path"] == f"/{i}"


def test_refused_and_closed(server):
    with server.connect() as client:
        client.send(b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n")
        reply = client.reply()
        assert reply.status == 501 and reply.headers["connection"] == "close"
        assert client.is_closed()  # by TLS's own end of data, or this would raise


def test_download(server, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * (4 * MIB // 256) + b"tail")
    with server.connect() as client:
        for _ in range(2):
            client.send(get(f"/file?path={path}"))
            assert client.reply().body == path.read_bytes()
        client.send(get(f"/file?path={path}", "Range: bytes=256-300"))
        reply = client.reply()
        assert reply.status == 206 and reply.body == bytes(range(45))


def test_stalled_download_costs_no_memory_and_is_dropped(authority, tmp_path):
    path = tmp_path / "file"
    with open(path, "wb") as f:
        f.truncate(1 << 30)
    with TlsServer(authority, stall_ms=1000) as server:
        before = server.usage("VmRSS")
        with server.connect(receive_buffer=4096) as client:
            client.send(get(f"/file?path={path}"))
            client.head()
            server.wait_for(connections=1)  # that one of the question: the download was dropped
            assert server.usage("VmHWM") - before < (64000 if SANITIZED else 8000)


def test_file_that_shrinks_ends_the_download_and_nothing_else(server, tmp_path):
    path = tmp_path / "file"
    with open(path, "wb") as f:
        f.truncate(256 * MIB)
    with server.connect(receive_buffer=4096) as client:
        client.send(get(f"/file?path={path}"))
        client.head()
        with open(path, "wb") as f:
            f.truncate(1)
        with pytest.raises((AssertionError, OSError)):
            client.take(256 * MIB)
    assert server.once(get("/x")).status == 200


def test_stream(server):
    with server.connect() as client:
        client.send(get("/stream?ms=5&n=20&bytes=100"))
        assert client.head().headers["transfer-encoding"] == "chunked"
        assert [len(client.chunk()) for _ in range(20)] == [100] * 20
        assert client.chunk() == b"" and client.is_closed()


def test_client_that_leaves_a_stream_is_noticed(server):
    closed = server.state()["closed"]
    with server.connect() as client:
        client.send(get("/stream?ms=20"))
        client.head()
    server.wait_for(closed=closed + 1)


def test_lagging_stream_is_dropped(authority):
    with TlsServer(authority, stream_lag_max=100_000) as server, server.connect(receive_buffer=4096) as client:
        client.send(get("/stream?ms=1&bytes=60000"))
        client.head()
        server.wait_for(dropped=1)


def test_handshake_has_a_deadline_and_counts(authority):
    with TlsServer(authority, head_ms=500, connections_max=2, noisy=True) as server:
        begun = server.connect_plain()
        begun.sendall(b"\x16\x03\x01\x02\x00\x01")
        silent = server.connect_plain()
        third = server.connect_plain()  # begun has waited longest
        for client in (begun, silent, third):
            client.settimeout(30)
            with contextlib.suppress(ConnectionResetError):  # of begun, whose bytes nobody read
                assert client.recv(1) == b""
            client.close()
        server.wait_for(connections=1)


def test_what_is_no_tls_is_hung_up_on(server):
    with server.connect_plain() as client:
        client.sendall(get("/x"))
        try:
            assert b"HTTP" not in client.recv(100)
        except ConnectionResetError:
            pass
    assert server.once(get("/x")).status == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(server, authority, version):
    context = ssl.create_default_context(cafile=authority.file)
    context.minimum_version = context.maximum_version = version
    with Client(context.wrap_socket(server.connect_plain(), server_hostname="localhost")) as client:
        client.send(get("/x"))
        assert client.reply().status == 200


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_version_is_refused(server, authority):
    context = ssl.create_default_context(cafile=authority.file)
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with server.connect_plain() as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="localhost")


def test_client_certificates(authority, tmp_path):
    stranger = Authority(tmp_path, "stranger")
    with TlsServer(authority, client_ca=authority.file) as server:
        for certificate in (None, stranger.issue("client")):
            context = ssl.create_default_context(cafile=authority.file)
            if certificate:
                context.load_cert_chain(*certificate)
            with pytest.raises(OSError):  # TLS 1.3 tells the client with what it reads first
                with Client(context.wrap_socket(server.connect_plain(), server_hostname="localhost")) as client:
                    client.send(get("/x"))
                    client.sock.recv(1)
        server.context.load_cert_chain(*authority.issue("client"))
        assert server.once(get("/x")).status == 200


def test_abuse_leaves_nothing_behind(authority):
    """The server frees everything; under AddressSanitizer that is checked to the last byte."""
    with TlsServer(authority) as server:
        open_ends = [server.connect_plain() for _ in range(5)] + [server.connect().sock for _ in range(5)]
        for target in ("/stream?ms=1", "/later?ms=10000", "/file?path=/dev/zero", "/x"):
            client = server.connect()
            client.send(get(target) * 2)
            open_ends.append(client.sock)
        assert server.once(get("/x")).status == 200
    for end in open_ends:
        end.close()
