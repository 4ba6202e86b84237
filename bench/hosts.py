# SPDX-License-Identifier: Apache-2.0
"""One session over many hosts: how long until the last worker of the last host records, how far apart the recordings begin, and how
long after the stop the coordinator knows the last trace.

The hosts are network namespaces of this machine, each with a profd and fault workers of its own (tests/hosts). As they share one
clock, the skew is measured twice: as profd reports it, with its uncertainty, and by the workers, which note when a start arrived.
What is compared is one profd that records as many workers without peers, as bench/fanout.py does. All hosts share the cores of this
machine: figures of many hosts are upper bounds of what separate machines take."""
import sys
import time

from common import ROOT, Daemon, FaultFleet, summary

sys.path.insert(0, str(ROOT / "tests/hosts"))
from fanout import Lag, peak_mib  # noqa: E402
from hosts import Hosts  # noqa: E402

COUNTS = (1, 8, 64)  # hosts
WORKERS = 16  # of each
ROUNDS = 5
DURATION_NS = 2 * 10**9
TIMEOUT_S = 180
CONFIG = "[timeouts]\nidentify=20s\nstart=30s\nclean=30s\n"


def arrivals(fleets):
    """When each worker of the fleets got its last start, in wall time."""
    return [fleet.calls(i, "/start_profile")[-1]["at_ns"] for fleet in fleets for i in range(len(fleet.workers))]


def session(profd, fleets, router):
    """Milliseconds of one session: until the first start left, until the last arrived, skew at the workers, skew and its
    uncertainty as profd reports them, from the stop to the last trace."""
    began = time.time_ns()
    asked = profd.start_session(router=router, duration_ns=DURATION_NS)
    done = profd.wait_session(asked["session"], timeout_s=TIMEOUT_S)
    assert done["state"] == "complete", done.get("reason")
    arrived = arrivals(fleets)
    stopped = max(target["stop_answered_at"] for target in done["targets"])
    return [ns / 1e6 for ns in (min(arrived) - began, max(arrived) - began, max(arrived) - min(arrived), done["skew_ns"],
                                done.get("skew_error_ns") or 0, done["finished_at"] - stopped)]


NAMES = ("until the first start ms", "all started ms", "skew at workers ms", "reported skew ms", "its uncertainty ms", "stop to last trace ms")


def rounds(profd, fleets, router):
    session(profd, fleets, router)
    with Lag(profd) as lag:
        found = [session(profd, fleets, router) for _ in range(ROUNDS)]
    row = {name: summary([values[i] for values in found]) for i, name in enumerate(NAMES)}
    return {**row, "/healthz at most ms": lag.longest, "profd at most MiB": peak_mib(profd.pid)}


def over_hosts(directory, count):
    with Hosts(directory, count, workers=WORKERS, config=CONFIG) as hosts:
        coordinator = next(iter(hosts))
        return rounds(coordinator, [host.fleet for host in hosts], hosts.router)


def alone(directory, count):
    with FaultFleet(directory / "fleet", "vllm", count * WORKERS) as fleet, Daemon(directory / "profd", CONFIG) as profd:
        return rounds(profd, [fleet], fleet.router)


def run(directory, _options):
    for count in COUNTS:
        yield {"hosts": count, "workers": count * WORKERS, **over_hosts(directory / f"hosts-{count}", count)}
        yield {"hosts": "one profd", "workers": count * WORKERS, **alone(directory / f"alone-{count}", count)}
