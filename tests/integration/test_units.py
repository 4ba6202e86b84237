# SPDX-License-Identifier: Apache-2.0
"""Workers as units of systemd: profctl finds those that run, and runs one under nsys."""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

import pytest

from daemon import BUILD, Daemon, FaultFleet, quick_config
from fake_systemd import PYTHON, FakeSystemd

PROFCTL = BUILD / "client/profctl"
HERE = pathlib.Path(__file__).resolve().parent

pytestmark = pytest.mark.skipif(
    not shutil.which("dbus-daemon") or subprocess.run([PYTHON, "-c", "import dbus, gi"], capture_output=True).returncode != 0,
    reason="dbus-daemon, python3-dbus or python3-gi is missing")


def profctl(systemd, profd, *words, env=None, **more):
    at = ["--socket", profd.socket] if profd else []
    return subprocess.run([PROFCTL, *words[:1], *at, *words[1:]], capture_output=True, text=True, timeout=100,
                          stdin=subprocess.DEVNULL, env={**os.environ, **systemd.environment, **(env or {})}, **more)


@contextlib.contextmanager
def listener(n):
    """A process with n ports that say nothing: its id and the ports."""
    script = ("import socket, time\ns = [socket.create_server(('127.0.0.1', 0)) for _ in range(%d)]\n"
              "print(*[x.getsockname()[1] for x in s], flush=True)\ntime.sleep(100)" % n)
    process = subprocess.Popen([PYTHON, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        yield process.pid, process.stdout.readline().split()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# Finding


def test_workers_of_units(tmp_path):
    """Of all ports of a unit's processes those of engines are workers: not the router's, which the same process has."""
    with FaultFleet(tmp_path / "a", "vllm", 2) as a, FaultFleet(tmp_path / "b", "sglang", 1) as b, \
            Daemon(tmp_path / "profd", quick_config()) as profd, \
            FakeSystemd(tmp_path, {"vllm@0.service": {"pids": [a.process.pid]}, "vllm@1.service": {"active": "failed"},
                                   "sgl.service": {"pids": [b.process.pid]}}) as systemd:
        r = profctl(systemd, profd, "list-workers", "--unit", "vllm@*", "--unit", "sgl", "--no-legend")
        assert r.returncode == 0, r
        assert {line.split()[0] for line in r.stdout.splitlines()} == {*a.workers, *b.workers}
        assert "vllm@1.service is failed" in r.stderr

        r = profctl(systemd, profd, "doctor", "--unit", "sgl.service")
        assert b.workers[0] in r.stdout and a.workers[0] not in r.stdout

        r = profctl(systemd, profd, "start", "--unit", "vllm@0.service", "--duration", "100ms", "--wait")
        assert r.returncode == 0, r
        assert [call["path"] for n in (0, 1) for call in a.calls(n, "/start_profile")] == ["/start_profile"] * 2
        assert not b.calls(0)


def test_user_units_are_asked_of_the_users_manager(tmp_path):
    with FaultFleet(tmp_path / "a", "vllm", 1) as a, Daemon(tmp_path / "profd", quick_config()) as profd, \
            FakeSystemd(tmp_path, {"my.service": {"pids": [a.process.pid]}}) as systemd:
        nowhere = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"}
        r = profctl(systemd, profd, "list-workers", "--user-unit", "my", "--no-legend", env=nowhere)
        assert r.stdout.split()[0] == a.workers[0], r


def test_one_port_needs_no_question(tmp_path):
    """What a unit's only port is, the verb's own answer says."""
    with listener(1) as (pid, (port,)), Daemon(tmp_path / "profd", quick_config()) as profd, \
            FakeSystemd(tmp_path, {"x.service": {"pids": [pid]}}) as systemd:
        r = profctl(systemd, profd, "list-workers", "--unit", "x")
        assert f"http://127.0.0.1:{port}" in r.stdout, r


def test_what_is_wrong_with_a_unit(tmp_path):
    units = {"dead.service": {"active": "inactive"}, "many@1.service": {"active": "failed"},
             "many@2.service": {"active": "inactive"}}
    with listener(0) as (idle, _), listener(2) as (web, ports), Daemon(tmp_path / "profd", quick_config()) as profd, \
            FakeSystemd(tmp_path, {**units, "idle.service": {"pids": [idle]}, "web.service": {"pids": [web]}}) as systemd:
        def refused(unit, status, *words):
            r = profctl(systemd, profd, "start", "--unit", unit)
            assert r.returncode == status and r.stdout == "", r
            for word in words:
                assert word in r.stderr, r

        refused("nothing", 4, "unknown unit nothing", "systemctl list-units")
        refused("no*thing", 4, "unknown unit no*thing")
        refused("dead", 1, "dead.service is not running: it is inactive", "systemctl start dead.service")
        refused("many@*", 1, "none of the 2 units matching many@* is running")
        refused("idle", 1, "idle.service is running (1 process), but listens on no TCP port", "journalctl -u idle.service")
        refused("web", 1, "web.service listens on", *ports, "none of these ports answers as an engine")
        assert profd.get("/v1/sessions")["sessions"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs another user")
def test_processes_of_somebody_else():
    """Their sockets are not to be seen, but the port that their command line names."""
    with tempfile.TemporaryDirectory() as directory, socket.create_server(("127.0.0.1", 0)) as unused:
        os.chmod(directory, 0o755)
        port = unused.getsockname()[1]
        unused.close()
        script = f"import socket, time\ns = socket.create_server(('127.0.0.1', {port}))\nprint(flush=True)\ntime.sleep(100)"
        with contextlib.ExitStack() as stack:
            named, unnamed = (stack.enter_context(subprocess.Popen([PYTHON, "-c", *words], stdout=subprocess.PIPE))
                              for words in ([script, "--port", str(port)], ["import time; print(flush=True); time.sleep(100)"]))
            stack.callback(unnamed.kill)
            stack.callback(named.kill)
            assert named.stdout.readline() and unnamed.stdout.readline()
            units = {"named.service": {"pids": [named.pid]}, "unnamed.service": {"pids": [unnamed.pid]}}
            systemd = stack.enter_context(FakeSystemd(directory, units))
            ask = [PROFCTL, "list-workers", "--socket", "/nonexistent", "--unit"]
            more = {"capture_output": True, "text": True, "user": 65534, "env": {**os.environ, **systemd.environment}}
            r = subprocess.run([*ask, "unnamed"], **more)
            assert r.returncode == 1 and "cannot see on which port unnamed.service listens" in r.stderr, r
            r = subprocess.run([*ask, "named"], **more)
            assert r.returncode == 1 and "/nonexistent" in r.stderr and "unnamed" not in r.stderr, r


def test_no_systemd(tmp_path):
    with FakeSystemd(tmp_path, manager=False) as bus:
        r = profctl(bus, None, "list-workers", "--unit", "x", "--socket", tmp_path / "none")
        assert r.returncode == 1 and "systemd is not on the bus" in r.stderr and "--worker URL" in r.stderr
        r = profctl(bus, None, "list-workers", "--unit", "x", "--host", "http://127.0.0.1:1")
        assert r.returncode == 2 and "profd at http://127.0.0.1:1 is not on it" in r.stderr
    r = profctl(bus, None, "list-workers", "--unit", "x", "--socket", tmp_path / "none")
    assert r.returncode == 1 and "cannot reach systemd on the system bus" in r.stderr


# Running


@pytest.fixture
def nsys(tmp_path):
    """A directory with nsys for PATH, and the place where it notes how it was called."""
    home = tmp_path / "nsys"
    home.mkdir()
    shutil.copy(HERE / "fake-nsys", home / "nsys")
    db = sqlite3.connect(home / "database")
    db.executescript("""
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        INSERT INTO StringIds VALUES (1, 'void gemm<float>()'), (2, 'gemm');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid,
            demangledName, shortName, registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory,
            dynamicSharedMemory, graphNodeId);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 1500, 0, 1, 7, 33, 281474976710656 + (7 << 24), 1, 2, 40, 5, 6, 7,
            128, 2, 1, 100, 200, NULL);""")
    db.close()
    return home


def run_environment(systemd, nsys, **more):
    return {**os.environ, **(systemd.environment if systemd else {}), "PATH": f"{nsys}:{os.environ['PATH']}",
            "FAKE_NSYS_NOTES": str(nsys), **more}


def run(systemd, nsys, profd, *words, cwd, **more):
    return subprocess.run([PROFCTL, "--socket", profd.socket, "launch", "--setenv", "FAKE_NSYS_NOTES", *words], text=True,
                          capture_output=True, timeout=100, stdin=subprocess.DEVNULL, cwd=cwd,
                          env=run_environment(systemd, nsys, **more))


def test_run_as_a_unit(tmp_path, nsys):
    """The command runs under nsys with the mode's options, and its report becomes a trace with the run's labels."""
    work = tmp_path / "work"
    work.mkdir()
    with FakeSystemd(tmp_path) as systemd, Daemon(tmp_path / "profd", quick_config()) as profd:
        r = run(systemd, nsys, profd, "--mode", "decode", "--unit", "worker-7", "--label", "job=grpo",
                "--nsys-option=--gpu-metrics-devices=all", "--", "sh", "-c", "echo $CUDA_X $HF_TOKEN $OTHER; pwd", cwd=work,
                CUDA_X="cuda", HF_TOKEN="secret", OTHER="o")
        assert r.returncode == 0, r
        assert r.stdout.splitlines()[:2] == ["cuda", str(work)]
        assert "profctl start --unit worker-7.service --activities cuda-profiler" in r.stderr
        words = (nsys / "profile.words").read_text().split("\n")
        assert words[:8] == ["profile", "-t", "cuda,nvtx", "--cuda-graph-trace=node", "-c", "cudaProfilerApi",
                             "--capture-range-end", "stop"]
        assert "--gpu-metrics-devices=all" in words and words[-4].endswith("/sh")
        report, = work.glob("*.nsys-rep")
        assert report.name.startswith("worker-7-decode-")
        trace, = profd.traces()
        assert trace["state"] == "complete" and trace["name"] == report.stem + ".sqlite"
        assert trace["labels"] == {"job": "grpo", "run.unit": "worker-7.service", "run.mode": "decode", "run.status": "0"}
        (_, unit, mode, properties), = systemd.calls("StartTransientUnit")
        assert (unit, mode) == ("worker-7.service", "fail")
        assert properties["CollectMode"] == "inactive-or-failed" and properties["KillMode"] == "mixed"


@pytest.mark.parametrize("mode, options", [
    ("rtp-llm", ["-c", "cudaProfilerApi", "-b", "none", "--wait=primary", "--cpuctxsw=none", "--sample=none",
                 "--trace=cuda,nvtx", "--trace-fork-before-exec=true"]),
    ("complete", ["-t", "cuda,nvtx", "--cuda-graph-trace=node"]),
])
def test_options_of_modes(tmp_path, nsys, mode, options):
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        assert run(None, nsys, profd, "--plain", "--mode", mode, "--", "true", cwd=tmp_path).returncode == 0
        assert (nsys / "profile.words").read_text().split("\n")[1:len(options) + 2] == [*options, "-o"]


def test_a_report_is_exported_where_it_is_ingested(tmp_path, nsys):
    """Of srtctl's names the catalog knows the phase and the rank; without nsys the error says whose program is missing."""
    (tmp_path / "decode_3.nsys-rep").write_text("report")
    ingest = [PROFCTL, "--socket", "", "ingest", tmp_path / "decode_3.nsys-rep"]
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        ingest[2] = profd.socket
        r = subprocess.run(ingest, capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": "/usr/bin:/bin"})
        assert r.returncode == 4 and "there is no nsys in PATH" in r.stderr and "nsight-systems-cli" in r.stderr, r
        r = subprocess.run(ingest, capture_output=True, text=True, timeout=60, env=run_environment(None, nsys))
        assert r.returncode == 0, r
        trace, = profd.traces()
        assert (trace["name"], trace["kind"], trace["state"]) == ("decode_3.sqlite", "trace", "complete")
        assert (trace["ranks"]["rank"], trace["stage"]) == (3, "decode"), trace


def test_status_of_the_command(tmp_path, nsys):
    with FakeSystemd(tmp_path) as systemd, Daemon(tmp_path / "profd", quick_config()) as profd:
        r = run(systemd, nsys, profd, "--", "sh", "-c", "exit 42", cwd=tmp_path)
        assert r.returncode == 42 and len(profd.traces()) == 1, r
        r = run(systemd, nsys, profd, "--profiler", "none", "--", "sh", "-c", "kill -9 $$", cwd=tmp_path)
        assert r.returncode == 128 + 9, r
        (nsys / "no-export").touch()
        r = run(systemd, nsys, profd, "--", "true", cwd=tmp_path)
        assert r.returncode == 3 and "nsys export failed" in r.stderr and "profctl ingest" in r.stderr, r
        (nsys / "no-report").touch()
        r = run(systemd, nsys, profd, "--unit", "b", "--", "true", cwd=tmp_path)
        assert r.returncode == 3 and "nsys wrote no report" in r.stderr and "cudaProfilerStart" in r.stderr, r


def interrupted(systemd, nsys, profd, *words, times, cwd):
    process = subprocess.Popen([PROFCTL, "--socket", profd.socket, "launch", "--setenv", "FAKE_NSYS_NOTES", *words], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=cwd,
                               env=run_environment(systemd, nsys))
    assert process.stdout.readline() == "begun\n"
    for n in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    out, err = process.communicate(timeout=100)
    return process.returncode, err


@pytest.mark.parametrize("plain", [False, True])
def test_interrupt(tmp_path, nsys, plain):
    """Ctrl-C lets nsys write its report, which is collected."""
    with FakeSystemd(tmp_path) as systemd, Daemon(tmp_path / "profd", quick_config()) as profd:
        status, err = interrupted(systemd, nsys, profd, *(["--plain"] if plain else []), "--", "sh", "-c",
                                  "echo begun; exec sleep 100", times=1, cwd=tmp_path)
        assert status == 128 + signal.SIGTERM, err
        assert "has time for its report" in err
        assert len(profd.traces()) == 1
        assert len(systemd.calls("StopUnit")) == (0 if plain else 1)


@pytest.mark.parametrize("plain", [False, True])
def test_second_interrupt_kills(tmp_path, nsys, plain):
    stubborn = "trap '' INT TERM; echo begun; while :; do sleep 0.1; done"
    with FakeSystemd(tmp_path) as systemd, Daemon(tmp_path / "profd", quick_config()) as profd:
        status, err = interrupted(systemd, nsys, profd, *(["--plain"] if plain else []), "--profiler", "none", "--", "sh",
                                  "-c", stubborn, times=2, cwd=tmp_path)
        assert status == 128 + signal.SIGKILL, err


def test_run_without_systemd(tmp_path, nsys):
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        nowhere = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
        r = run(None, nsys, profd, "--", "echo", "hello", cwd=tmp_path, **nowhere)
        assert r.returncode == 0 and r.stdout.startswith("hello\n"), r
        assert "runs as a child of profctl" in r.stderr
        assert len(profd.traces()) == 1
        r = run(None, nsys, profd, "--unit", "x", "--", "echo", "hello", cwd=tmp_path, **nowhere)
        assert r.returncode == 1 and "cannot reach systemd" in r.stderr and r.stdout == "", r


def test_run_refuses(tmp_path, nsys):
    with FakeSystemd(tmp_path) as systemd, Daemon(tmp_path / "profd", quick_config()) as profd:
        def refused(status, text, *words, **more):
            r = run(systemd, nsys, profd, *words, cwd=tmp_path, **more)
            assert r.returncode == status and text in r.stderr, r

        refused(2, "there is no mode 'x'", "--mode", "x", "--", "true")
        refused(2, "neither nsys nor none", "--profiler", "ncu", "--", "true")
        refused(4, "there is no command no-such-thing", "--", "no-such-thing")
        refused(1, "cannot write to /nonexistent", "-d", "/nonexistent", "--", "true")
        refused(4, "there is no nsys", "--", "/bin/true", PATH="/nonexistent")
        refused(2, "missing argument: launch -- COMMAND...")
        assert systemd.calls("StartTransientUnit") == []
