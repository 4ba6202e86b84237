# SPDX-License-Identifier: Apache-2.0
"""Load: 5,000 list requests a second over 1,000 kept connections to the Unix socket, while 1,000 workers are being recorded.

Latency is counted from when a request was due. Next to it, alternately and in the same run: /healthz of the same API, which
needs no catalog, and a plain evhttp of libevent that answers with as many bytes as the list has. In the last row, 50 clients that
do not read and 50 incomplete requests are connected all the time."""
import contextlib
import json
import socket
import subprocess

from common import BUILD, Daemon, FaultFleet, summary

CONNECTIONS, RATE, SECONDS, ROUNDS = 1000, 5000, 4, 5
WORKERS = 1000
BAD_CLIENTS = 100
LIST = "/v1/sessions?limit=10"
HTTP_LOAD = BUILD / "bench/http-load"
CONFIG = "[limits]\nconnections=4000\n[timeouts]\nsession=1h\n"


def load(path, target):
    done = subprocess.run([HTTP_LOAD, path, target, str(CONNECTIONS), str(RATE), str(SECONDS)], capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout)


@contextlib.contextmanager
def evhttp(path, size):
    with subprocess.Popen([HTTP_LOAD, "--serve", path, str(size)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline() == "ready\n"
        yield
        server.kill()


def bad_clients(profd, n):
    """Half a request each, or one whose answer nobody reads."""
    clients = []
    for i in range(n):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(profd.socket))
        client.sendall(b"GET /v1/sessions HTTP/1.1\r\nhost: x\r\n" if i % 2 else
                       b"GET /v1/traces?limit=1000 HTTP/1.1\r\nhost: x\r\n\r\n" * 20)
        clients.append(client)
    return clients


def row(what, rounds):
    return {"what": what, **{key: summary([one[key] for one in rounds]) for key in ("p50_ms", "p99_ms", "max_ms", "rate")},
            "lost": sum(one["failed"] + one["unsent"] + one["not_200"] for one in rounds)}


def run(directory, _options):
    peer = str(directory / "peer.sock")
    with FaultFleet(directory / "fleet", "vllm", WORKERS, life_s=600) as fleet, Daemon(directory / "profd", CONFIG) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=3_000_000_000_000)["session"]
        profd.wait_state(session, "recording")
        size = len(profd.request("GET", LIST).body)
        contestants = {"list": (str(profd.socket), LIST), "/healthz": (str(profd.socket), "/healthz"), "evhttp": (peer, "/")}
        rounds = {name: [] for name in contestants}
        with evhttp(peer, size):
            for number in range(ROUNDS + 1):
                for name, where in contestants.items():
                    took = load(*where)
                    if number > 0:
                        rounds[name].append(took)
        for name, taken in rounds.items():
            yield {**row(name, taken), "p99 / evhttp": summary([a["p99_ms"] / b["p99_ms"]
                                                                for a, b in zip(taken, rounds["evhttp"])])}
        with_bad = []
        for _ in range(ROUNDS):
            clients = bad_clients(profd, BAD_CLIENTS)
            with_bad.append(load(str(profd.socket), LIST))
            for client in clients:
                client.close()
        yield row("list, next to 100 bad clients", with_bad)
        profd.post(f"/v1/sessions/{session}/stop")
