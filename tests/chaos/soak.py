# SPDX-License-Identifier: Apache-2.0
"""Soak: thousands of sessions, one profd. What it holds when it rests must not depend on how many there were.

The catalog grows with sessions and is no memory; what SQLite keeps of it is bounded. So the first look comes when that is
full: after FIRST sessions, as the rest of the testbed has then met everything once. Sessions record for a millisecond, many at
a time."""

import time
from pathlib import Path

from testbed import Daemon, FaultFleet, wait_for

FIRST = 100
LOOKS = (FIRST, 1000)  # and in the end
TOGETHER = 20  # sessions at a time, each with workers of its own
WORKERS_EACH = 2
GROWTH_MAX = 1 << 20
REST_S = 18  # after which connections to workers are closed
CONFIG = "[timeouts]\nidentify=10s\n[collect]\nsettle=400ms\n[store]\nmax_use=16M\nkeep_free=1M\n"


def one_group(profd, fleet, group):
    workers = fleet.workers[group * WORKERS_EACH:(group + 1) * WORKERS_EACH]
    return profd.start_session(workers=workers, duration_ns=1_000_000)["session"]


def record(profd, fleet, n):
    for done in range(0, n, TOGETHER):
        sessions = [one_group(profd, fleet, group) for group in range(min(TOGETHER, n - done))]
        for session in sessions:
            assert profd.wait_session(session)["state"] == "complete"
        for path in fleet.directory.rglob("*.gz"):
            path.unlink()


def descriptors(profd):
    return len(list(Path(f"/proc/{profd.pid}/fd").iterdir()))


def at_rest(profd, files=None):
    """Private memory, and descriptors, when nothing is left to do; those are not more than `files`, once sums are computed."""
    time.sleep(REST_S)
    if files:
        wait_for(lambda: descriptors(profd) <= files, why="descriptors are left open")
    return profd.memory("Private_Dirty"), descriptors(profd)


def soak(directory, n, say=print):
    with FaultFleet(directory / "fleet", "vllm", TOGETHER * WORKERS_EACH, life_s=86400) as fleet, \
            Daemon(directory / "profd", CONFIG) as profd:
        done, seen = 0, []
        for look in [*(look for look in LOOKS if look < n), n]:
            record(profd, fleet, look - done)
            done = look
            seen.append(at_rest(profd, seen[0][1] if seen else None))
            say(f"after {done} sessions: {seen[-1][0] >> 10} KiB private and dirty, {seen[-1][1]} descriptors", flush=True)
        first, last = seen[0][0], seen[-1][0]
        assert last <= first + GROWTH_MAX, f"{(last - first) >> 10} KiB more"
