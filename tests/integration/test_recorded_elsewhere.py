# SPDX-License-Identifier: Apache-2.0
"""Somebody records a worker by curl, and profd's start is refused: it reports who may record and how to end that, and the
other recording goes on and writes its traces. Where the answer does not prove that somebody records, a stop follows."""

import json
import subprocess
import sys

import pytest

from daemon import BUILD, ROOT, Daemon, FaultFleet, quick_config

sys.path.insert(0, str(ROOT / "tests/fleet"))
from fleet import Fleet  # noqa: E402  # pylint: disable=wrong-import-position
from patience import patience  # noqa: E402

PROFCTL = BUILD / "client/profctl"
MS = 1_000_000
CONTROL = {None: "/", "newer": "/engine/control/", "older": "/engine/"}


@pytest.fixture(name="profd")
def start_profd(tmp_path):
    times = quick_config(start="20s", stop="1min", session="3min", settle="3s").replace("identify=1s", "identify=20s")
    with Daemon(tmp_path / "profd", times) as daemon:
        yield daemon


def curl(url, body=None):
    """Of somebody else: the answer's status."""
    done = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Content-Type: application/json",
                           "-d", json.dumps(body or {}), url], capture_output=True, text=True, check=True,
                          timeout=patience(60))
    return int(done.stdout)


def start(profd, *words):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, "start", *map(str, words), "--wait"], capture_output=True,
                          text=True, check=False, timeout=patience(120))
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("generation", [None, "newer", "older"])
@pytest.mark.parametrize("options", [("--start-step", "1", "--steps", "3"), ("--by-stage", "--steps", "3")])
def test_other_recording_goes_on(tmp_path, profd, generation, options):
    """SGLang, and Dynamo with SGLang: a start that waits for a step or separates stages is refused while one runs."""
    with Fleet(tmp_path / "fleet") as fleet:
        dynamo = ("--dynamo", generation) if generation else ()
        worker = fleet.add_sglang(*dynamo, "--step-ms", "5")
        worker.wait_ready()
        control, other = worker.url + CONTROL[generation], tmp_path / "other"
        assert curl(control + "start_profile", {"output_dir": str(other)}) == 200
        status, text = start(profd, "--worker", worker.url, *options)
        session = profd.session("s1")
        (target,) = session["targets"]
        assert status == 1 and session["state"] == "failed", (text, session)
        assert target["start_status"] == 500 and "stop_sent_at" not in target and not target["stop_pending"]
        assert "Another user or tool records it" in target["remedy"] and f"POST {control}stop_profile" in target["remedy"]
        assert f"POST {control}stop_profile" in " ".join(text.split())
        assert curl(control + "stop_profile") == 200
        assert len(list(other.iterdir())) == 1
        # Its recording over, profd's is taken.
        assert start(profd, "--worker", worker.url, "--duration", "200ms")[0] == 0


def test_start_at_once_proves_nothing(tmp_path, profd):
    """SGLang's 500 to it can have other causes: what may have begun is stopped."""
    with Fleet(tmp_path / "fleet") as fleet:
        worker = fleet.add_sglang("--step-ms", "5")
        worker.wait_ready()
        assert curl(worker.url + "/start_profile", {"output_dir": str(tmp_path / "other")}) == 200
        assert start(profd, "--worker", worker.url, "--duration", "200ms")[0] == 1
        (target,) = profd.session("s1")["targets"]
        assert target["start_status"] == 500 and target["stop_status"] == 200 and "may be profiling" in target["remedy"]


def test_dynamo_says_why(tmp_path, profd):
    """Dynamo passes on what its engine refused, whatever start it was. Any other 500 proves nothing."""
    with FaultFleet(tmp_path / "f", "dynamo", 2, "--shared-dir", "--fault", "start-500@1") as fleet:
        assert curl(fleet.workers[0] + "/engine/control/start_profile", {"output_dir": str(tmp_path / "other")}) == 200
        asked = profd.start_session(workers=fleet.workers, trace_dir=str(fleet.directory), duration_ns=100 * MS)
        busy, failed = profd.wait_session(asked["session"])["targets"]
        assert "already in progress" in busy["failure"] and "Another user or tool" in busy["remedy"]
        assert "stop_sent_at" not in busy and fleet.journal()["profiling"] == 1
        assert failed["start_status"] == 500 and failed["stop_sent_at"] and "Another user" not in failed["remedy"]
        assert curl(fleet.workers[0] + "/engine/control/stop_profile") == 200
        assert list((tmp_path / "other").iterdir())
