# SPDX-License-Identifier: Apache-2.0
"""Real profd and profctl with workers that serve what TensorRT-LLM, ATOM and TokenSpeed serve (tests/fleet/trtllm_api.py,
atom_api.py, tokenspeed_api.py)."""

import contextlib
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest
from daemon import BUILD, ROOT, Daemon, quick_config

sys.path.insert(0, str(ROOT / "tests/fleet"))
from fleet import Fleet  # noqa: E402  # pylint: disable=wrong-import-position
from patience import patience  # noqa: E402

PROFCTL = BUILD / "client/profctl"
STEP = ("--step-ms", "5")


@pytest.fixture(name="profd")
def start_profd(tmp_path):
    times = quick_config(start="20s", stop=f"{patience(60):.0f}s", session="30min", settle="3s")
    times = times.replace("identify=1s", "identify=20s")
    with Daemon(tmp_path / "profd", times) as daemon:
        yield daemon


@pytest.fixture(name="fleet")
def make_fleet(tmp_path):
    with Fleet(tmp_path / "fleet") as fleet:
        yield fleet


def profctl(profd, *words):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=patience(120))
    return done.returncode, done.stdout, done.stderr


def post(url, body=None):
    """Of somebody else who knows the worker: status and JSON."""
    request = urllib.request.Request(url, data=json.dumps(body or {}).encode(), method="POST",
                                     headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=patience(30)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def listed(profd, *workers):
    status, out, err = profctl(profd, "list-workers", *(word for worker in workers for word in ("--worker", worker.url)),
                               "--json")
    assert status == 0, err
    return json.loads(out)["workers"]


@contextlib.contextmanager
def serving(*workers):
    """Each worker serves two clients, from before the first statement until after the last."""
    served, over = threading.Semaphore(0), threading.Event()

    def ask(worker):
        while not over.is_set():
            status, answer = post(worker.url + "/v1/completions", {"prompt": "Hello, ", "max_tokens": 12, "ignore_eos": True})
            assert status == 200, answer
            served.release()

    threads = [threading.Thread(target=ask, args=(worker,)) for worker in workers for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            assert served.acquire(timeout=patience(30))
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def record(profd, worker, *options):
    """A session while the worker serves, as a user asks for it: the session, and its traces."""
    with serving(worker):
        status, out, err = profctl(profd, "start", "--worker", worker.url, *options, "--wait", "--json")
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert lines, (status, out, err)
    session = profd.session(lines[-1].get("session") or lines[0]["session"])
    return status, session, profd.traces(session=session["session"]), err


def ranks(traces):
    assert {trace["state"] for trace in traces} == {"complete"}, traces
    return sorted((trace["ranks"]["rank"], trace["ranks"].get("tp"), trace["ranks"].get("dp")) for trace in traces)


ADD = {"tensorrt-llm": (Fleet.add_trtllm, ("--tp_size", "2")), "atom": (Fleet.add_atom, ("-tp", "2")),
       "tokenspeed": (Fleet.add_tokenspeed, ("--tensor-parallel-size", "2", "--tp-size", "2"))}
