# SPDX-License-Identifier: Apache-2.0
"""Bytes that an analysis of a trace on another host moves: reports computed there, pages of columns, complete columns, the trace.

One profd behind a port that counts; both are on this machine, so the times have no network in them."""
import contextlib
import json
import os
import socket
import subprocess
import threading
import time

from common import BUILD, Daemon, figure, summary
from daemon import free_port, token_line, write_tokens
from grown import fits, grow

BYTES = 500_000_000
RUNS = 3
TOKEN = "profd_" + 64 * "a"


class Wire:
    """Between profctl and profd: counts what profd sends."""

    def __init__(self, port):
        self.to, self.bytes = port, 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.server.accept()
            far = socket.create_connection(("127.0.0.1", self.to))
            for source, target, counts in ((near, far, False), (far, near, True)):
                threading.Thread(target=self.copy, args=(source, target, counts), daemon=True).start()

    def copy(self, source, target, counts):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 18):
                self.bytes += len(data) if counts else 0
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)


def measured(wire, command, environment):
    """Times and bytes of runs, each with an empty cache."""
    times, moved = [], []
    for run in range(RUNS):
        before, begin = wire.bytes, time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**environment, "XDG_CACHE_HOME": environment["XDG_CACHE_HOME"] + f"/{run}"})
        times.append(time.monotonic() - begin)
        moved.append(wire.bytes - before)
    return times, moved[0]


def run(directory, options):
    for name in ("A", "B"):
        if not fits(directory, BYTES * 3):
            yield {"trace": name, "skipped": "the disk is too full"}
            continue
        trace, port = grow(name, BYTES, directory / f"{name}.json.gz"), free_port()
        tokens, token = write_tokens(directory / name / "tokens", token_line("bench", "read", TOKEN)), directory / name / "token"
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        with Daemon(directory / name / "profd", f"[http]\ntokens_file={tokens}\n", ["--listen", f"127.0.0.1:{port}"]) as profd:
            trace_id, wire = profd.post("/v1/traces", {"path": str(trace)}, 201)["trace"], Wire(port)
            record = profd.get(f"/v1/traces/{trace_id}")
            there = ["--host", f"http://127.0.0.1:{wire.port}", "--token-file", str(token)]
            profctl = str(BUILD / "client/profctl")
            body = directory / name / "body"
            body.write_text(json.dumps({"sql": "select name, count(*), sum(dur) from slice group by name order by 3 desc limit 20"}))
            curl = ["curl", "-sSf", "-H", f"Authorization: Bearer {TOKEN}"]
            url = f"http://127.0.0.1:{wire.port}/v1/traces/{trace_id}"
            ways = {"kernels there": [*curl, f"{url}/reports/kernels"],
                    "findings there": [*curl, f"{url}/reports/findings"],
                    "SQL there": [*curl, "-d", f"@{body}", f"{url}/query"],
                    "kernels by pages": [profctl, "analyze", *there, trace_id, "--report", "kernels", "--json"],
                    "SQL by pages": [profctl, "query", *there, trace_id, json.loads(body.read_text())["sql"], "--json"],
                    "complete columns": [*curl, f"{url}/columns"],
                    "complete trace": [*curl, f"{url}/file"]}
            for way, command in ways.items():
                environment = {**{k: v for k, v in os.environ.items() if k != "PROFD_SOCKET"}, "XDG_CACHE_HOME": str(directory / name / way)}
                times, moved = measured(wire, command, environment)
                yield {"trace": name, "slices": record["slices"], "way": way, "s": summary(times), "MB moved": figure(moved / 1e6),
                       "% of the trace": figure(100 * moved / record["size"])}
        trace.unlink()
