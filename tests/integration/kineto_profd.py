# SPDX-License-Identifier: Apache-2.0
"""A profd that listens for Kineto, and processes that register with it: doubles (tests/fleet/kineto-client.c) that poll
quickly, for which profd is configured."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from daemon import BUILD, Daemon, quick_config, wait_for
from kineto_client import KinetoClient
from patience import patience

PROFCTL = BUILD / "client/profctl"
QUICK = ("--interval", 200, "--tick", 100)
SLOW = ("--interval", 4000, "--tick", 100)
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
SECOND = 1_000_000_000
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="another user's processes need root")


@pytest.fixture(name="place")
def make_place():
    """Directories whose names are short enough for sockets: sock, traces, and room for profd."""
    root = Path(tempfile.mkdtemp(prefix="kineto-", dir="/tmp"))
    root.chmod(0o755)
    for name in ("sock", "traces"):
        (root / name).mkdir()
        (root / name).chmod(0o1777)
    yield root
    shutil.rmtree(root)


def kineto_config(place, poll="500ms", more=""):
    return quick_config(settle="1s", more=f"[kineto]\nlisten={place}/sock\npoll={poll}\nwarmup=0s\n{more}")


@pytest.fixture(name="profd")
def start_profd(place):
    with Daemon(place / "profd", kineto_config(place)) as daemon:
        yield daemon


def process(place, *options, quick=QUICK, environment=None, command=(), prefix=(), traces=None):
    return KinetoClient(place, place / "sock", traces or place / "traces", [*quick, *options], environment, command, prefix)


def registered(profd, n=1, **query):
    """The processes, when there are so many."""

    def look():
        found = [w for w in profd.get("/v1/workers", kineto="true", **query)["workers"] if "process" in w]
        return len(found) == n and found

    return wait_for(look, 30, why=profd.log)


@contextlib.contextmanager
def processes(place, n, *options, environment=None):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(process(place, *options, environment={
            "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": n, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500,
            "CUDA_VISIBLE_DEVICES": rank, **(environment or {})})) for rank in range(n)]


def profctl(profd, *words, status=0):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *map(str, words)], capture_output=True, text=True,
                          timeout=patience(120), stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert done.returncode == status, done.stdout + done.stderr
    return done


def start(profd, duration_s=0.5, kineto=None, **request):
    return profd.start_session(kineto=kineto or {}, duration_ns=int(duration_s * SECOND), **request)


def remarks(session):
    return " | ".join(item["text"] for item in session.get("remarks", []))


def only_target(session):
    assert len(session["targets"]) == 1
    return session["targets"][0]
