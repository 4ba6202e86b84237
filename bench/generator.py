# SPDX-License-Identifier: Apache-2.0
"""The workload generator next to a Python client written like `vllm bench serve`, against a server that computes nothing.

speed: what one core sustains, from a server that never waits; next to it what the server and the kernel allow
(`stream-reader`, which receives and looks at nothing). With eight tokens a write less of that is the kernel's cost of a
write. error: what is measured, against when the server sent, with tokens at steady gaps. memory: of ten thousand
streams that are open at the same time."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from common import BUILD, figure, percentile, summary

LOAD = BUILD / "daemon/load/profd-load"
SERVER = BUILD / "bench/stream-server"
READER = BUILD / "bench/stream-reader"
PEER = pathlib.Path(__file__).with_name("generator-peer.py")
ROUNDS = 3
OPEN_STREAMS = 10000
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, CLIENT_CORE = str(CORES[0]), str(CORES[-1])

# (concurrency, requests, tokens an answer, tokens a write)
SPEED = [(64, 4000, 1, 1), (64, 1000, 128, 1), (1024, 2048, 128, 1), (64, 2000, 128, 8), (1024, 4096, 128, 8), (OPEN_STREAMS, OPEN_STREAMS, 32, 1)]
# (concurrency, requests, tokens an answer, gap in us)
ERROR = [(1, 10, 50, 10_000), (64, 128, 50, 10_000), (1024, 1024, 50, 25_000)]


@contextlib.contextmanager
def server(directory, gap_us, events=1):
    """Its URL, and where it writes when it sent."""
    log = directory / "sent.jsonl"
    with subprocess.Popen(["taskset", "-c", SERVER_CORE, SERVER, str(gap_us), log, str(events)], stdout=subprocess.PIPE, text=True) as process:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}", log
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def profd_load(url, requests, concurrency, osl, on_ready=lambda process: None):
    """What generator-peer.py prints, for profd-load."""
    order = {"targets": [{"url": url, "engine": "vllm"}],
             "workload": {"model": "nothing", "prompts": [f"request {i}" for i in range(requests)], "osl": osl,
                          "concurrency": concurrency, "warmup": 0}}
    commands, tell = os.pipe()
    process = subprocess.Popen(["taskset", "-c", CLIENT_CORE, LOAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               pass_fds=[3], preexec_fn=lambda: os.dup2(commands, 3))
    os.close(commands)
    process.stdin.write(json.dumps(order).encode())
    process.stdin.close()
    lines_read = []
    for line in process.stdout:
        lines_read.append(line)
        if line.startswith(b'{"t":"ready"'):
            begun_s = cpu_s(process.pid)
            os.write(tell, b"go\n")
            on_ready(process)
        elif line.startswith(b'{"t":"live"'):
            ended_s = cpu_s(process.pid)
    os.close(tell)
    assert process.wait() == 0, lines_read[-1]
    lines = [json.loads(line) for line in lines_read]
    found = [line for line in lines if line["t"] == "request"]
    assert all(line["outcome"] == "success" for line in found), [line for line in found if line["outcome"] != "success"][0]
    return {"duration_s": max(line["end_ns"] for line in found) / 1e9, "cpu_s": ended_s - begun_s,
            "requests": [{"id": line["prompt"], "ttft_ns": line["ttft_ns"], "gaps_ns": [gap * 1000 for gap in line["gaps_us"]],
                          "tokens": line["output_tokens"]} for line in found]}


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peer(url, requests, concurrency, osl):
    done = subprocess.run(["taskset", "-c", CLIENT_CORE, sys.executable, PEER, url, str(requests), str(concurrency), str(osl)],
                          capture_output=True, check=True)
    return json.loads(done.stdout)


def reader(url, requests, concurrency, osl):
    """The limit: what arrives is not looked at."""
    done = subprocess.run(["taskset", "-c", CLIENT_CORE, READER, url.rpartition(":")[2], str(requests), str(concurrency), str(osl)],
                          capture_output=True, check=True)
    return {**json.loads(done.stdout), "requests": [{"tokens": osl}] * requests}


CLIENTS = {"profd-load": profd_load, "aiohttp": peer}
CLIENTS_AND_LIMIT = {**CLIENTS, "stream-reader": reader}


def speed(directory, client, concurrency, requests, osl, events):
    with server(directory, 0, events) as (url, _):
        found = client(url, requests, concurrency, osl)
    tokens = sum(request["tokens"] for request in found["requests"])
    assert tokens == requests * osl
    return {"requests_per_s": requests / found["duration_s"], "tokens_per_s": tokens / found["duration_s"],
            "tokens_per_cpu_s": tokens / max(found["cpu_s"], 0.01), "requests_per_cpu_s": requests / max(found["cpu_s"], 0.01)}


def error(directory, client, concurrency, requests, osl, gap_us):
    with server(directory, gap_us) as (url, log):
        found = client(url, requests, concurrency, osl)
    with open(log, encoding="ascii") as lines:
        sent = {request["id"]: request for request in map(json.loads, lines)}
    ttft, itl = [], []
    for request in found["requests"]:
        times = sent[request["id"]]["sent_ns"]
        gaps = [later - earlier for earlier, later in zip(times, times[1:])]
        assert len(gaps) == len(request["gaps_ns"]) == osl - 1
        ttft.append(abs(request["ttft_ns"] - (times[0] - sent[request["id"]]["received_ns"])) / 1000)
        itl += [abs(mine - true) / 1000 for mine, true in zip(request["gaps_ns"], gaps)]
    ttft.sort()
    itl.sort()
    return {"ttft_p50_us": percentile(ttft, 50), "ttft_p99_us": percentile(ttft, 99),
            "itl_p50_us": percentile(itl, 50), "itl_p99_us": percentile(itl, 99),
            "cpu_us_per_token": found["cpu_s"] * 1e6 / (requests * osl)}


def memory(directory):
    """Resident while all streams are open: none has ended when the last has begun."""
    peak = []

    def watch(process):
        time.sleep(8)  # tokens come every two seconds, twenty of them: the middle of the run
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        sockets = sum(os.readlink(f"/proc/{process.pid}/fd/{name}").startswith("socket") for name in os.listdir(f"/proc/{process.pid}/fd"))
        peak.append((int(status.partition("VmHWM:")[2].split()[0]) / 1024, sockets))
    with server(directory, 2_000_000) as (url, _):
        profd_load(url, OPEN_STREAMS, OPEN_STREAMS, 10, watch)
    assert peak[0][1] >= OPEN_STREAMS
    return {"part": "memory", "streams": OPEN_STREAMS, "resident_mib": figure(peak[0][0])}


def rounds(clients, measure, *setting):
    """Each client's figures, alternately, a first round discarded; and how often profd-load's they are."""
    found = {name: [] for name in clients}
    for number in range(ROUNDS + 1):
        for name, client in clients.items():
            figures = measure(client, *setting)
            if number > 0:
                found[name].append(figures)
    for name, ratio, key in (("aiohttp", "tokens_ratio", "tokens_per_s"), ("stream-reader", "tokens_ratio", "tokens_per_s"),
                             ("aiohttp", "ttft_p50_ratio", "ttft_p50_us")):
        for mine, other in zip(found["profd-load"], found.get(name, [])):
            if key in other:
                other[ratio] = mine[key] / other[key] if ratio == "tokens_ratio" else other[key] / mine[key]
    return {name: {key: summary([each[key] for each in rounds]) for key in rounds[0]} for name, rounds in found.items()}


def run(directory, _options):
    for part, clients, measure, settings in (("speed", CLIENTS_AND_LIMIT, speed, SPEED), ("error", CLIENTS, error, ERROR)):
        for setting in settings:
            for name, figures in rounds(clients, lambda client, *s: measure(directory, client, *s), *setting).items():
                a_write = {"tokens_a_write": setting[3]} if part == "speed" else {}
                yield {"part": part, "who": name, "concurrency": setting[0], "tokens": setting[2], **a_write, **figures}
    yield memory(directory)
