# SPDX-License-Identifier: Apache-2.0
"""The fault worker misbehaves as it says. Other tests lean on it, so its own behaviour is tested first."""

import asyncio
import email.utils
import gzip
import http.client
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import time
import zlib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from patience import patience

pytestmark = pytest.mark.plain

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("PROFD_BUILD", ROOT / "build")) / "tests/fleet/fault-worker"
SANITIZED = b"__asan_init" in PROGRAM.read_bytes()  # and so of a size of its own
HANG_S = 0.3  # without an answer for so long, it hangs


class Fleet:
    """A running fault worker: `with Fleet(tmp_path, "vllm", 3, "--fault", "stop-500@0") as fleet`."""

    def __init__(self, directory, engine, count, *options):
        self.directory = Path(directory)
        self.command = [PROGRAM, "--engine", engine, "--count", str(count), "--dir", directory, "--life", "60", *options]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline()
        assert ready, f"the fault worker ended with {self.process.wait()}"
        ready = json.loads(ready)
        assert ready["pid"] == self.process.pid
        self.router, self.workers = ready["router"], ready["workers"]
        return self

    def __exit__(self, *exception):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 0
        self.process.stdout.close()

    def set_fault(self, name, arg=None, worker=0):
        assert post(self.workers[worker] + "/fault", {"fault": name, "arg": arg}).status == 200

    def journal(self, worker=0):
        return get(f"{self.router}/journal?worker={worker}").json()

    def files(self, worker=0):
        directory = self.directory / f"w{worker}"
        return sorted(directory.iterdir()) if directory.exists() else []

    def record(self, worker=0):
        """A session of one worker; gives the answer to its stop."""
        assert post(self.workers[worker] + "/start_profile").status == 200
        return post(self.workers[worker] + "/stop_profile")


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self):
        return json.loads(self.body)


def call(method, url, body=None, timeout=60, headers={}):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    try:
        path = parts.path + ("?" + parts.query if parts.query else "")
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def get(url, **keywords):
    return call("GET", url, **keywords)


def post(url, body=None, **keywords):
    return call("POST", url, body, **keywords)


def wait_for(condition, timeout=60):
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < patience(timeout), "it did not happen"
        time.sleep(0.01)


def load(path):
    return json.loads(gzip.decompress(path.read_bytes()))


def complete(path):
    try:
        return bool(load(path))
    except EOFError:
        return False


def raw(url):
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=5)


# ---- a fleet without faults ----


def test_two_thousand_workers_start_in_three_seconds_and_answer(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    began = time.monotonic()
    with Fleet(tmp_path, "vllm", 2000) as fleet:
        assert time.monotonic() - began < patience(3)

        async def ask(url):
            parts = urlsplit(url)
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            statuses = []
            for method, path in ("GET", "/health"), ("POST", "/start_profile"), ("POST", "/stop_profile"):
                writer.write(f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n".encode())
                statuses.append((await reader.readuntil(b"\r\n\r\n")).split()[1])
            writer.close()
            return statuses

        async def ask_all():
            return await asyncio.gather(*map(ask, fleet.workers))

        assert set(map(tuple, asyncio.run(ask_all()))) == {(b"200", b"200", b"200")}
        assert get(fleet.router + "/journal").json() == {"profiling": 0, "starts": 2000, "stops": 2000, "redirected": 0}
        assert len(get(fleet.router + "/workers").json()["workers"]) == 2000
        contents = {path.read_bytes() for path in tmp_path.glob("w*/*.gz")}
        assert len(contents) == 2000, "no two traces are the same"


def test_vllm_session(tmp_path):
    with Fleet(tmp_path, "vllm", 1, "--ranks", "2") as fleet:
        worker = fleet.workers[0]
        info = get(worker + "/server_info?config_format=json").json()["vllm_config"]
        assert info["profiler_config"]["torch_profiler_dir"] == str(tmp_path / "w0")
        assert info["parallel_config"]["tensor_parallel_size"] == 2
        assert "/start_profile" in get(worker + "/openapi.json").json()["paths"]
        assert get(worker + "/start_profile").status == 405

        assert post(worker + "/stop_profile").status == 200
        start = post(worker + "/start_profile", {"ignored": True})
        assert (start.status, start.body) == (200, b"")
        assert fleet.journal()["profiling"]
        assert post(worker + "/start_profile").status == 200
        assert post(worker + "/stop_profile").body == b""
        journal = fleet.journal()
        assert (journal["profiling"], journal["starts"], journal["stops"]) == (False, 2, 2)
        assert json.loads(journal["requests"][-3]["body"]) == {"ignored": True}
        assert abs(journal["requests"][-1]["at_ns"] - time.time_ns()) < 5e9

        traces = [load(path) for path in fleet.files()]
        assert [t["distributedInfo"]["rank"] for t in traces] == [0, 1]
        assert traces[0]["distributedInfo"]["world_size"] == 2
        assert {e["cat"] for e in traces[0]["traceEvents"] if e["ph"] == "X"} >= {"kernel", "cpu_op"}
        assert "_rank1." in fleet.files()[1].name and fleet.files()[1].name.endswith(".pt.trace.json.gz")


def test_sglang_session(tmp_path):
    with Fleet(tmp_path, "sglang", 2, "--ranks", "2", "--role", "prefill=1,decode=1") as fleet:
        worker = fleet.workers[0]
        info = get(worker + "/server_info").json()
        assert (info["tp_size"], info["disaggregation_mode"]) == (2, "prefill")

        body = {"output_dir": str(tmp_path / "out/deep"), "profile_id": "s7-w0"}
        assert post(worker + "/stop_profile").status == 500
        assert post(worker + "/start_profile", body).body == b"Start profiling.\n"
        assert post(worker + "/start_profile", body).status == 500
        assert post(worker + "/stop_profile").body == b"Stop profiling. This will take some time.\n"
        names = sorted(path.name for path in (tmp_path / "out/deep").iterdir())
        assert names == ["s7-w0-TP-0.trace.json.gz", "s7-w0-TP-1.trace.json.gz"]

        by_stage = body | {"num_steps": 2, "profile_by_stage": True, "profile_id": "b"}
        assert post(worker + "/start_profile", by_stage).status == 200
        wait_for(lambda: len(list((tmp_path / "out/deep").glob("b-TP-*-*"))) == 4)
        assert post(worker + "/stop_profile").status == 500
        assert not fleet.journal()["profiling"]
        assert post(worker + "/start_profile", "no object").status == 400


def test_template_and_shared_directory(tmp_path):
    template = tmp_path / "given.json"
    template.write_text('{"traceEvents":[]}')
    with Fleet(tmp_path / ".", "vllm", 2, "--trace", template, "--shared-dir") as fleet:
        fleet.record(0)
        fleet.record(1)
        traces = list(tmp_path.glob("*.pt.trace.json"))
        assert len(traces) == 2
        assert all(path.read_text() == template.read_text() for path in traces)


@pytest.mark.parametrize("dialect, key", [("vllm-router", None), ("sglang", "runtime_type")])
def test_router_dialects(tmp_path, dialect, key):
    options = ["--router-dialect", dialect, "--role", "prefill=1,decode=2", "--fault", "unhealthy@3"]
    with Fleet(tmp_path, "sglang", 4, *options) as fleet:
        answer = get(fleet.router + "/workers").json()
        assert [w["url"] for w in answer["workers"]] == fleet.workers
        assert [w["worker_type"] for w in answer["workers"]] == ["prefill", "decode", "decode", "regular"]
        assert [w["is_healthy"] for w in answer["workers"]] == [True, True, True, False]
        assert answer["stats"] == {"prefill_count": 1, "decode_count": 2, "regular_count": 1}
        assert key is None or answer["workers"][0][key] == "sglang"
        assert get(fleet.router + "/list_workers").json() == {"urls": fleet.workers}


def test_a_request_may_be_split_anywhere_and_pipelined(tmp_path):
    request = b"POST /start_profile?x=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
    with Fleet(tmp_path, "vllm", 1) as fleet, raw(fleet.workers[0]) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(1, len(request)):
            client.sendall(request[:at])
            time.sleep(0.001)
            client.sendall(request[at:])
            assert client.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n")
        client.sendall(request * 3)
        received = b""
        while received.count(b"HTTP/1.1 200 OK") < 3:
            received += client.recv(4096)
        assert fleet.journal()["starts"] == len(request) - 1 + 3


# ---- starts and stops ----


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(
    "fault, outcome, profiling",
    [
        ("start-404", 404, False),
        ("start-500", 500, False),
        ("no-profiler", 404, False),
        ("hang-start", TimeoutError, True),
        ("reset-start", ConnectionResetError, True),
    ],
)
def test_start_faults(tmp_path, engine, fault, outcome, profiling):
    with Fleet(tmp_path, engine, 1, "--fault", fault) as fleet:
        url = fleet.workers[0] + "/start_profile"
        if isinstance(outcome, int):
            assert post(url).status == outcome
        else:
            with pytest.raises(outcome):
                post(url, timeout=HANG_S)
        journal = fleet.journal()
        assert (journal["profiling"], journal["starts"]) == (profiling, 1)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(
    "fault, outcome, n_traces",
    [
        ("stop-500", 500, 1),
        ("stop-500-no-trace", 500, 0),
        ("hang-stop", TimeoutError, 1),
        ("reset-stop", ConnectionResetError, 1),
        ("crash-flush", ConnectionResetError, 1),
        ("no-trace", 200, 0),
    ],
)
def test_stop_faults(tmp_path, engine, fault, outcome, n_traces):
    with Fleet(tmp_path, engine, 1, "--fault", fault) as fleet:
        assert post(fleet.workers[0] + "/start_profile").status == 200
        url = fleet.workers[0] + "/stop_profile"
        if isinstance(outcome, int):
            assert post(url).status == outcome
        else:
            with pytest.raises(outcome):
                post(url, timeout=HANG_S)
        assert len(fleet.files()) == n_traces
        journal = fleet.journal()
        assert (journal["profiling"], journal["stops"]) == (False, 1)


def test_a_crashed_worker_stays_away_and_leaves_half_a_file(tmp_path):
    with Fleet(tmp_path, "vllm", 2, "--fault", "crash-flush@0") as fleet:
        with pytest.raises(ConnectionResetError):
            fleet.record()
        assert zlib.decompressobj(wbits=31).decompress(fleet.files()[0].read_bytes())
        with pytest.raises(EOFError):
            load(fleet.files()[0])
        assert post(fleet.router + "/fault", {"fault": "none", "workers": "0"}).status == 200
        with pytest.raises(ConnectionRefusedError):
            get(fleet.workers[0] + "/health")
        assert fleet.journal()["dead"]
        assert fleet.record(1).status == 200


def test_refused_start(tmp_path):
    with Fleet(tmp_path, "vllm", 1, "--fault", "start-refused") as fleet:
        assert get(fleet.workers[0] + "/health").status == 200
        assert post(fleet.workers[0] + "/stop_profile").status == 200
        with pytest.raises(ConnectionRefusedError):
            post(fleet.workers[0] + "/start_profile")
        assert post(fleet.router + "/fault", {"fault": "none", "workers": "0"}).status == 200
        assert fleet.record().status == 200


def test_slow_start_takes_effect_at_once(tmp_path):
    with Fleet(tmp_path, "vllm", 1, "--fault", "slow-start=0.3") as fleet, raw(fleet.workers[0]) as client:
        began = time.monotonic()
        client.sendall(b"POST /start_profile HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        wait_for(lambda: fleet.journal()["profiling"], timeout=0.25)
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        assert time.monotonic() - began >= 0.3


def test_slow_stop_goes_on_without_its_client(tmp_path):
    def iterations():
        lines = get(fleet.workers[0] + "/metrics").body.decode().splitlines()
        return [float(line.split()[-1]) for line in lines if line.startswith("vllm:iteration_tokens_total_count")][0]

    with Fleet(tmp_path, "vllm", 1, "--fault", "slow-stop=0.6") as fleet:
        post(fleet.workers[0] + "/start_profile")
        before = iterations()
        time.sleep(0.1)
        assert iterations() > before
        with pytest.raises(TimeoutError):
            post(fleet.workers[0] + "/stop_profile", timeout=0.1)
        assert get(fleet.workers[0] + "/health").status == 200
        frozen = iterations()
        time.sleep(0.1)
        assert iterations() == frozen
        assert fleet.files() == []
        wait_for(fleet.files)
        load(fleet.files()[0])
        assert iterations() - frozen < 30, "what passed while it was busy is not made up for"


def test_sglang_is_not_healthy_while_it_writes(tmp_path):
    with Fleet(tmp_path, "sglang", 1, "--fault", "slow-stop=0.6") as fleet:
        post(fleet.workers[0] + "/start_profile")
        with pytest.raises(TimeoutError):
            post(fleet.workers[0] + "/stop_profile", timeout=0.05)
        began = time.monotonic()
        get(fleet.workers[0] + "/health")
        assert time.monotonic() - began > 0.3


# ---- traces ----


def truncated(path):
    with pytest.raises(EOFError):
        load(path)


def truncated_json(path):
    with pytest.raises(json.JSONDecodeError):
        load(path)


def corrupt(path):
    with pytest.raises(gzip.BadGzipFile):
        load(path)


@pytest.mark.parametrize(
    "fault, n_files, check",
    [
        ("zero-byte", 2, lambda path: path.stat().st_size == 0),
        ("truncated", 2, truncated),
        ("truncated-json", 2, truncated_json),
        ("corrupt-crc", 2, corrupt),
        ("symlink-trace", 2, lambda path: os.readlink(path) == "/etc/os-release"),
        ("fifo-trace", 2, lambda path: stat.S_ISFIFO(path.stat().st_mode)),
        ("missing-rank", 1, lambda path: load(path)["distributedInfo"]["rank"] == 0),
        ("duplicate", 4, load),
        ("many-files=9", 11, load),
    ],
)
def test_trace_faults(tmp_path, fault, n_files, check):
    with Fleet(tmp_path, "vllm", 1, "--ranks", "2", "--fault", fault) as fleet:
        assert fleet.record().status == 200
        assert len(fleet.files()) == n_files
        for path in fleet.files():
            assert check(path) is not False
        if fault == "duplicate":
            assert len({path.read_bytes() for path in fleet.files()}) == 2


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_links_and_pipes_of_an_earlier_session_do_no_harm(tmp_path, engine):
    body = {"output_dir": str(tmp_path / "w0"), "profile_id": "again"}
    with Fleet(tmp_path, engine, 1) as fleet:
        for fault in "symlink-trace", "fifo-trace", "none":
            fleet.set_fault("none")
            fleet.set_fault(fault)
            assert post(fleet.workers[0] + "/start_profile", body).status == 200
            post(fleet.workers[0] + "/stop_profile")
    assert Path("/etc/os-release").stat().st_size > 0


def test_late_and_growing_traces(tmp_path):
    with Fleet(tmp_path, "vllm", 2, "--fault", "late=0.3@0", "--fault", "growing=0.6@1") as fleet:
        assert fleet.record(0).status == 200
        assert fleet.files(0) == []
        assert fleet.record(1).status == 200
        wait_for(lambda: fleet.files(1))
        truncated(fleet.files(1)[0])
        wait_for(lambda: fleet.files(0))
        load(fleet.files(0)[0])
        size = fleet.files(1)[0].stat().st_size
        wait_for(lambda: fleet.files(1)[0].stat().st_size > size)
        wait_for(lambda: complete(fleet.files(1)[0]))


def test_huge_trace_is_valid_and_does_not_stop_the_others(tmp_path):
    with Fleet(tmp_path, "vllm", 2, "--fault", "huge=48@0") as fleet:
        post(fleet.workers[0] + "/start_profile")
        with raw(fleet.workers[0]) as client:
            client.sendall(b"POST /stop_profile HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            assert get(fleet.workers[1] + "/health").status == 200
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        assert 48 << 20 <= fleet.files()[0].stat().st_size < 50 << 20
        assert len(load(fleet.files()[0])["traceEvents"]) > 40000
        memory = Path(f"/proc/{fleet.process.pid}/status").read_text()
        peak_kib = int(memory.split("VmHWM:")[1].split()[0])
        assert peak_kib < 32 * 1024 or SANITIZED


# ---- answers ----


def test_faults_of_every_answer(tmp_path):
    with Fleet(tmp_path, "vllm", 1) as fleet:
        url = fleet.workers[0] + "/version"

        def answer(fault, arg=None, **keywords):
            fleet.set_fault("none")
            fleet.set_fault(fault, arg)
            return get(url, timeout=2, **keywords)

        assert answer("html").body.startswith(b"<!DOCTYPE html>")
        assert not isinstance(answer("wrong-json").json()["version"], str)
        assert answer("auth", "sesame").status == 401
        assert answer("auth", "sesame", headers={"Authorization": "Bearer sesame"}).status == 200
        redirect = answer("redirect")
        assert redirect.status == 302
        get(redirect.headers["location"])
        assert get(fleet.router + "/journal").json()["redirected"] == 1
        date = email.utils.parsedate_to_datetime(answer("clock", 7200).headers["date"]).timestamp()
        assert abs(date - time.time() - 7200) < 5
        fleet.set_fault("none")
        assert get(url).json() == {"version": "0.19.1"}


@pytest.mark.parametrize("fault", ["endless-body", "endless-header"])
def test_endless_answers(tmp_path, fault):
    with Fleet(tmp_path, "vllm", 1, "--fault", fault) as fleet, raw(fleet.workers[0]) as client:
        client.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        received = bytearray()
        while len(received) < 4 << 20:
            chunk = client.recv(1 << 20)
            assert chunk
            received += chunk
        assert (b"\r\n\r\n" in received) == (fault == "endless-body")
        assert post(fleet.workers[0] + "/start_profile").status == 200


def test_slow_body(tmp_path):
    with Fleet(tmp_path, "vllm", 1, "--fault", "slow-body") as fleet, raw(fleet.workers[0]) as client:
        client.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(4096).endswith(b"\r\n\r\n")
        assert client.recv(4096) == b"{"


def test_health_faults(tmp_path):
    faults = ["--fault", "unhealthy@0", "--fault", "slow-health=0.3@1", "--fault", "sleeping@2", "--fault", "idle@3"]
    with Fleet(tmp_path, "vllm", 4, *faults) as fleet:
        assert get(fleet.workers[0] + "/health").status == 503
        began = time.monotonic()
        assert get(fleet.workers[1] + "/health").status == 200
        assert time.monotonic() - began >= 0.3
        assert get(fleet.workers[2] + "/is_sleeping").json() == {"is_sleeping": True}
        assert b"num_requests_running{engine=\"0\",model_name=\"fault-model\"} 0.0" in get(fleet.workers[3] + "/metrics").body


@pytest.mark.parametrize(
    "fault, seen",
    [
        ("html", lambda url: b"<html>" in get(url).body),
        ("wrong-json", lambda url: not isinstance(get(url).json()["workers"], list)),
        ("redirect", lambda url: get(url).status == 302),
        ("ten-thousand", lambda url: len({w["url"] for w in get(url).json()["workers"]}) == 10000),
    ],
)
def test_router_faults(tmp_path, fault, seen):
    with Fleet(tmp_path, "vllm", 2, "--router-fault", fault) as fleet:
        assert seen(fleet.router + "/workers")
        assert post(fleet.router + "/fault", {"router_fault": "none"}).status == 200
        assert len(get(fleet.router + "/workers").json()["workers"]) == 2


def test_router_hangs_streams_and_refuses(tmp_path):
    with Fleet(tmp_path, "vllm", 1) as fleet:
        post(fleet.router + "/fault", {"router_fault": "hang"})
        with pytest.raises(TimeoutError):
            get(fleet.router + "/workers", timeout=HANG_S)
        post(fleet.router + "/fault", {"router_fault": "endless-body"})
        with raw(fleet.router) as client:
            client.sendall(b"GET /workers HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sum(len(client.recv(1 << 16)) for _ in range(64)) > 64 << 10
    with Fleet(tmp_path, "vllm", 1, "--router-fault", "refused") as fleet:
        with pytest.raises(ConnectionRefusedError):
            get(fleet.router + "/workers")
        assert get(fleet.workers[0] + "/journal").status == 200


# ---- how faults are named ----


def test_indexes(tmp_path):
    with Fleet(tmp_path, "vllm", 20, "--fault", "unhealthy@0,3-5", "--fault", "start-500@10%") as fleet:
        ill = [i for i, w in enumerate(get(fleet.router + "/workers").json()["workers"]) if not w["is_healthy"]]
        assert ill == [0, 3, 4, 5]
        assert [i for i, url in enumerate(fleet.workers) if post(url + "/start_profile").status == 500] == [0, 10]


@pytest.mark.parametrize(
    "fault", ["nonsense", "slow-stop=x", "slow-stop=-1", "no-trace=1", "auth", "no-trace@2", "no-trace@", "no-trace@1-0"]
)
def test_bad_faults_are_refused(tmp_path, fault):
    command = [PROGRAM, "--engine", "vllm", "--count", "2", "--dir", tmp_path, "--fault", fault]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "--list-faults" in done.stderr and done.stdout == ""


def test_life_ends(tmp_path):
    command = [PROGRAM, "--engine", "vllm", "--count", "1", "--dir", tmp_path, "--life", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "--life" in done.stderr
