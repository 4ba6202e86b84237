# SPDX-License-Identifier: Apache-2.0
"""A fleet none of whose traces can be collected: the doctor fails, and a start is refused before an engine is called."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from daemon import BUILD, Daemon, FaultFleet, quick_config

PROFCTL = BUILD / "client/profctl"
WORKERS = 60


def profctl(profd, *words):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *words], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}, check=False)
    return done.returncode, done.stdout, done.stderr


def blocked(fleet, directory, urls):
    """A configuration in which each of these workers has a trace directory of its own that is none."""
    lines = []
    for i, url in enumerate(urls):
        (directory / f"file{i}").touch()
        lines.append(f"[worker {url}]\ntrace_dir={directory}/file{i}\n")
    return quick_config(more="".join(lines))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with FaultFleet(tmp_path_factory.mktemp("fleet"), "vllm", WORKERS) as running:
        yield running


@pytest.fixture
def profd(tmp_path, fleet):
    with Daemon(tmp_path / "profd", blocked(fleet, tmp_path, fleet.workers)) as daemon:
        yield daemon


def calls_of(fleet):
    return [len(fleet.calls(i)) for i in range(WORKERS)]


def test_doctor_fails_with_one_block(profd, fleet):
    status, out, _ = profctl(profd, "doctor", "--router", fleet.router)
    assert status == 1
    lines = out.splitlines()
    assert f"FAIL  no traces can be collected: 0 of {WORKERS} workers" in lines, out
    (block,) = [line for line in lines if "traces cannot be collected: " in line]
    assert block.startswith(f"FAIL  each of {WORKERS} workers: traces cannot be collected: "), out
    text = " ".join(out.split())
    assert f"on {fleet.workers[0]}, {fleet.workers[1]}, " in text and f"and {WORKERS - 8} more (--json lists all)" in text, out
    assert "2 problems" in text and len(lines) < 25, out
    status, out, _ = profctl(profd, "doctor", "--router", fleet.router, "--json")
    (check,) = [check for check in json.loads(out)["checks"] if check.get("workers") == WORKERS]
    assert status == 1 and check["result"] == "fail" and check["urls"] == fleet.workers


def test_start_is_refused_before_an_engine_is_called(profd, fleet):
    before = calls_of(fleet)
    status, out, said = profctl(profd, "start", "--router", fleet.router, "--duration", "100ms")
    assert status == 1 and out == ""
    assert f"no traces could be collected: each of {WORKERS} workers: trace directory DIR cannot be read: Not a directory" in said, said
    remedy = said.splitlines()[1]
    assert "--trace-dir DIR" in remedy and "--allow-uncollected" in said, said
    assert calls_of(fleet) == before and profd.get("/v1/sessions")["sessions"] == []
    problem = profd.problem("POST", "/v1/sessions", {"router": fleet.router, "duration_ns": 1_000_000}, status=422)
    assert problem["code"] == "uncollected"
    # The same, asked for.
    status, out, said = profctl(profd, "start", "--router", fleet.router, "--duration", "100ms", "--allow-uncollected", "--wait")
    assert status == 3, said
    assert "cannot be collected" in said, said
    assert all(now > then for now, then in zip(calls_of(fleet), before))


def test_trace_dir_is_what_helps(profd, fleet):
    """It is named first, and wins over the configuration."""
    one = fleet.workers[7]
    status, out, said = profctl(profd, "start", "--router", fleet.router, "--worker", one, "--duration", "100ms",
                                "--trace-dir", str(fleet.directory / "w7"), "--wait")
    assert status == 0, (out, said)


def test_a_part_is_a_warning(tmp_path, fleet):
    with Daemon(tmp_path / "profd", blocked(fleet, tmp_path, fleet.workers[1:])) as profd:
        status, out, _ = profctl(profd, "doctor", "--router", fleet.router)
        assert status == 0 and f"warn  each of {WORKERS - 1} workers: traces cannot be collected" in out, out
        status, out, said = profctl(profd, "start", "--router", fleet.router, "--count", "2", "--duration", "100ms", "--wait")
        assert status == 3 and "cannot be collected" in said, (out, said)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run a worker as another user")
def test_an_engine_that_cannot_write_is_not_started(tmp_path):
    """It could die when it is stopped: what it is told to write to must be its user's."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        own, roots = Path(place, "own"), Path(place, "roots")
        for path in (own, roots):
            path.mkdir(mode=0o755)
        os.chown(own, 65534, 65534)
        with FaultFleet(own, "sglang", 1, run_as=65534) as fleet, \
                Daemon(tmp_path / "profd", quick_config(more=f"[fleet t]\nrouter={fleet.router}\noutput_dir={roots}\n")) as profd:
            status, out, _ = profctl(profd, "doctor")
            assert status == 1 and f"cannot write to {roots}" in " ".join(out.split()), out
            status, _, said = profctl(profd, "start", "--duration", "100ms")
            assert status == 1 and "--trace-dir DIR: a directory that" in said, said
            assert fleet.calls(0) == []
            # Not even where it is allowed: nothing would be written.
            assert profctl(profd, "start", "--duration", "100ms", "--allow-uncollected", "--wait")[0] == 1
            assert fleet.calls(0) == []
            status, _, said = profctl(profd, "start", "--duration", "100ms", "--trace-dir", str(own), "--wait")
            assert status == 0, said
