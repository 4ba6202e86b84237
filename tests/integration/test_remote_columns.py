# SPDX-License-Identifier: Apache-2.0
"""Traces of a profd on another host: profctl reads the pages of columns that it needs, with the results of a complete file."""
import contextlib
import json
import os
import random
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from daemon import BUILD, Daemon, free_port, quick_config, token_line, write_tokens
from patience import patience

PROFCTL = BUILD / "client/profctl"
SLICES = 400_000


class Wire:
    """Between profctl and profd: counts the bytes of responses, and can be cut."""

    def __init__(self, port):
        self.to, self.bytes, self.is_cut = port, 0, False
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.server.accept()
                if self.is_cut:
                    client.close()
                    continue
                up = socket.create_connection(("127.0.0.1", self.to))
                threading.Thread(target=self.copy, args=(client, up, False), daemon=True).start()
                threading.Thread(target=self.copy, args=(up, client, True), daemon=True).start()

    def copy(self, source, target, counts):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if counts and self.is_cut:
                    break
                self.bytes += len(data) if counts else 0
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
                end.close()


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    """A profd with one trace of some MB, whose columns profctl cannot open by their path."""
    place = tmp_path_factory.mktemp("far")
    port, tokens = free_port(), write_tokens(place / "tokens", token_line("reader", "read", "t" * 40))
    (place / "token").write_text("t" * 40 + "\n")
    (place / "token").chmod(0o600)
    with Daemon(place / "profd", f"{quick_config()}\n[http]\ntokens_file={tokens}\n", ["--listen", f"127.0.0.1:{port}"]) as profd:
        rng = random.Random(1)
        events = [{"ph": "X", "cat": "kernel" if i % 2 else "cpu_op", "name": f"op {rng.randrange(300)}", "pid": i % 2, "tid": 2 + i % 3,
                   "ts": 1000 + i * 3, "dur": rng.randrange(1, 2000) / 1000, "args": {"stream": 7, "correlation": rng.randrange(2**31)}} for i in range(SLICES)]
        trace = place / "trace.json"
        trace.write_text(json.dumps({"baseTimeNanoseconds": 1767189312000000000, "traceEvents": events}))
        name = profd.post("/v1/traces", {"path": str(trace)}, 201)["trace"]
        yield profd, Wire(port), name


def profctl(profd, wire, cache, *words, status=0):
    where = {"PROFD_SOCKET": str(profd.socket)} if wire is None else {}
    environment = {k: v for k, v in os.environ.items() if k != "PROFD_SOCKET"}
    if wire:
        words = [words[0], "--host", f"http://127.0.0.1:{wire.port}", "--token-file", profd.directory.parent / "token", *words[1:]]
    done = subprocess.run([PROFCTL, *words], capture_output=True, timeout=patience(120), stdin=subprocess.DEVNULL,
                          env={**environment, **where, "XDG_CACHE_HOME": str(cache)})
    assert done.returncode == status, done.stderr.decode()
    return done


WORDS = [("analyze", "--json"), ("query", "select name, count(*), sum(dur) from slice group by name order by name", "--json"),
         ("query", "select * from slice where id between 70000 and 70010", "--json"), ("flame", "-o", "-"), ("export", "--format", "csv", "-o", "-")]


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
def test_results_are_those_of_the_complete_file(far, tmp_path, words):
    profd, wire, trace = far
    words = [words[0], trace, *words[1:]]
    local = profctl(profd, None, tmp_path / "local", *words)
    remote = profctl(profd, wire, tmp_path / "remote", *words)
    assert remote.stdout == local.stdout and remote.stdout
    # Again, from the cache.
    before = wire.bytes
    assert profctl(profd, wire, tmp_path / "remote", *words).stdout == local.stdout
    assert wire.bytes - before < 200_000


def test_only_pages_that_are_needed_are_read(far, tmp_path):
    profd, wire, trace = far
    size = profd.get(f"/v1/traces/{trace}")["columns_size"]
    assert size > 3 << 20
    before = wire.bytes
    profctl(profd, wire, tmp_path, "query", trace, "select ts, dur from slice where id = 1000")
    moved = wire.bytes - before
    assert moved < size / 3, (moved, size)


def test_a_cache_that_is_damaged_is_read_again(far, tmp_path):
    profd, wire, trace = far
    sql = ("query", trace, "select sum(dur), count(*), max(ts) from slice", "--json")
    expected = profctl(profd, None, tmp_path / "local", *sql).stdout
    assert profctl(profd, wire, tmp_path, *sql).stdout == expected
    [part] = (tmp_path / "profd/columns").glob("*.partial*")
    data = bytearray(part.read_bytes())
    for at in range(0, len(data), 50_000):
        data[at] ^= 0x20
    part.write_bytes(data)
    assert profctl(profd, wire, tmp_path, *sql).stdout == expected
    part.write_bytes(data[:100])
    assert profctl(profd, wire, tmp_path, *sql).stdout == expected
    part.write_bytes(data * 2)
    assert profctl(profd, wire, tmp_path, *sql).stdout == expected


def test_a_link_that_is_cut_is_an_error(far, tmp_path):
    profd, wire, trace = far
    profctl(profd, wire, tmp_path, "query", trace, "select ts from slice limit 1")
    wire_to = wire.to
    try:
        wire.to = free_port()  # new connections are refused
        failed = profctl(profd, wire, tmp_path, "analyze", trace, "--report", "kernels", status=1)
    finally:
        wire.to = wire_to
    assert b"response" in failed.stderr or b"cannot" in failed.stderr, failed.stderr
    assert not failed.stdout


def test_a_server_without_ranges_or_with_other_bytes(far, tmp_path):
    profd, _, trace = far
    record = profd.get(f"/v1/traces/{trace}")
    columns = Path(record["columns"]).read_bytes()
    for answer in ("complete", "short", "other"):
        server = socket.create_server(("127.0.0.1", 0))

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    client, _ = server.accept()
                    with client, contextlib.suppress(OSError):
                        head = client.recv(65536).decode()
                        body, status = json.dumps(record).encode(), "200 OK"
                        if "/columns" in head:
                            body = columns
                            if answer != "complete" and "Range: bytes=" in head:
                                first, last = map(int, head.split("Range: bytes=")[1].split("\r")[0].split("-"))
                                body, status = columns[first:last + 1], "206 Partial Content"
                                body = body[:-1] if answer == "short" else bytes(len(body))
                        client.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)

        threading.Thread(target=serve, daemon=True).start()
        wire = type("Server", (), {"port": server.getsockname()[1]})
        sql = ("query", trace, "select count(*), sum(dur) from slice", "--json")
        # Then the complete file is read.
        assert profctl(profd, wire, tmp_path / answer, *sql).stdout == profctl(profd, None, tmp_path / "local", *sql).stdout
        server.close()
