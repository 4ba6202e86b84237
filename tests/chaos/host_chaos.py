# SPDX-License-Identifier: Apache-2.0
"""Chaos over hosts: a profd on each of several hosts, sessions from all of them at once, and hosts that crash, freeze, are cut off or
have a wrong clock meanwhile. After each round everything is well again, all sessions end, and what must hold is checked.

    chaos.py --hosts 8 [--seed N] [--faults N] [--round N]

A fault is a line of FAULTS; what must hold is tests/hosts/host_invariants.py. A seed gives the same faults again. Where PostgreSQL and
Ceph are installed, the hosts mirror and archive meanwhile, and these services fail as well."""

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections import namedtuple
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hosts"))

from hosts import Hosts  # noqa: E402
from services import FAULTS as SERVICE_FAULTS, ServiceHosts, missing  # noqa: E402
from daemon import wait_for  # noqa: E402
from host_invariants import SLACK_S, complaints, rows, sessions_are_over  # noqa: E402
from patience import patience  # noqa: E402

MS = 1_000_000
WORKERS = 3  # of each host
SESSIONS_OF_A_ROUND = 5
FAULTS_OF_A_ROUND = 8
SPREAD_S = 3.0  # in which they happen
QUIET_S = 120  # until all sessions of a round are over
EVENTUALLY_S = 120  # until all is delivered, archived and mirrored: a service is asked again after pauses that grow
SESSION_LIMIT_S, LEASE_S, START_S = 6, 10, 2
CONFIG = f"""[hosts]
lease={LEASE_S}s
unreachable=20s
[timeouts]
connect=500ms
identify=2s
start={START_S}s
clean=1s
stop=20s
session={SESSION_LIMIT_S}s
[collect]
settle=300ms
"""

Fault = namedtuple("Fault", "name weight apply")


# What can go wrong

def crash(hosts, host, own):
    """Comes back after a moment, as a service manager would start it."""
    with host.lock:
        if not host.process:
            return None
        host.kill()
        rest = own.uniform(0, 2)
        time.sleep(rest)
        host.start()
        host.away_s += rest
    return f"{host.name} for {rest:.1f} s"


def restart(hosts, host, own):
    with host.lock:
        if not host.process:
            return None
        host.stop()
        host.start()
    return host.name


def freeze(hosts, host, own):
    rest = own.uniform(0.1, 2)
    with host.lock:
        if not host.process:
            return None
        os.kill(host.pid, signal.SIGSTOP)
        time.sleep(rest)
        os.kill(host.pid, signal.SIGCONT)
        host.away_s += rest
        host.frozen_s += rest
    return f"{host.name} for {rest:.1f} s"


def cut(hosts, host, own):
    """From everybody, or from one other host."""
    others = [other.number for other in hosts if other is not host]
    chosen = own.choice([[], [own.choice(others)]]) if others else []
    hosts.network.cut(host.number, *chosen)
    rest = own.uniform(0.1, 3)
    time.sleep(rest)
    hosts.network.join(host.number, *chosen)
    return f"{host.name} from {chosen or 'all'} for {rest:.1f} s"


def cut_long(hosts, host, own):
    """For longer than a lease."""
    hosts.network.cut(host.number)
    rest = own.uniform(LEASE_S, LEASE_S + 5)
    time.sleep(rest)
    hosts.network.join(host.number)
    return f"{host.name} for {rest:.1f} s"


def service(kind):
    """One at a time of each service."""
    def apply(hosts, _host, own):
        name = own.choice(("mirror", "bucket"))
        if not getattr(hosts, name):
            return None
        rest = own.uniform(0.5, 4)
        with hosts.locks[name], hosts.fault(name, kind):
            time.sleep(rest)
        return f"{name} for {rest:.1f} s"

    return apply


def delay(hosts, host, own):
    ms = own.choice((1, 20, 200))
    hosts.network.delay(host.number, ms)
    return f"{host.name}: {ms} ms"


def loss(hosts, host, own):
    share = own.choice((0.01, 0.1))
    hosts.network.loss(host.number, share)
    return f"{host.name}: {share:.0%}"


def move_clock(hosts, host, own):
    if not host.clock:
        return None
    host.clock_moved = True
    host.clock.offset_s = own.choice((-90, -1.5, 0.2, 30, 3600))
    return f"{host.name}: {host.clock.offset_s:g} s"


def worker(fault, arg=None):
    def apply(hosts, host, own):
        index = own.randrange(WORKERS)
        host.fleet.set_fault(fault, arg(own) if arg else None, str(index))
        return f"{fault} @ {host.name} w{index}"

    return apply


FAULTS = [
    Fault("crash", 4, crash),
    Fault("restart", 2, restart),
    Fault("freeze", 3, freeze),
    Fault("cut", 6, cut),
    Fault("cut-long", 1, cut_long),
    Fault("delay", 2, delay),
    Fault("loss", 2, loss),
    Fault("clock", 2, move_clock),
    Fault("start-500", 1, worker("start-500")),
    Fault("stop-500", 1, worker("stop-500")),
    Fault("slow-start", 1, worker("slow-start", lambda own: round(own.uniform(0.1, 1), 2))),
    Fault("slow-stop", 1, worker("slow-stop", lambda own: round(own.uniform(0.1, 3), 2))),
    Fault("hang-up", 1, worker("hang-up")),
    *(Fault(f"service-{kind}", 1, service(kind)) for kind in SERVICE_FAULTS),
]


# Rounds

class Round:
    def __init__(self, seed, number, hosts):
        self.name, self.number, self.random, self.hosts = f"{seed}/{number}", number, random.Random(f"{seed}/{number}"), hosts
        self.steps, self.began = [], time.monotonic()

    def request(self):
        """A session over some hosts, or over the router's whole list."""
        r = self.random
        request = {"duration_ns": r.randint(50, 2000) * MS, "queue": r.random() < 0.5, "stagger": r.random() < 0.2,
                   "require_all": r.random() < 0.2}
        if r.random() < 0.4:
            return {**request, "router": self.hosts.router}
        chosen = r.sample(list(self.hosts), r.randint(1, min(4, len(list(self.hosts)))))
        return {**request, "workers": [url for host in chosen for url in r.sample(host.fleet.workers, r.randint(1, WORKERS))]}

    def note(self, text):
        self.steps.append(f"{time.monotonic() - self.began:6.2f} s  {text}")

    def start(self, host, request):
        """A client's request: profd may be gone, and others may hold the workers."""
        with contextlib.suppress(Exception):
            reply = host.request("POST", "/v1/sessions", request, timeout=30)
            self.note(f"session at {host.name}: {reply.status} {reply.json().get('session') or reply.json().get('detail')}")

    def inflict(self, fault, host, own):
        told = fault.apply(self.hosts, host, own)
        if told is not None:
            self.note(f"{fault.name}: {told}")

    def run(self):
        all_hosts, threads = list(self.hosts), []
        for host in all_hosts:
            host.away_s, host.clock_moved = 0.0, False
            host.sessions_before = rows(host, "select coalesce(max(session_id), 0) as n from session_row")[0]["n"]
            host.leases_before = rows(host, "select coalesce(max(lease_id), 0) as n from lease_row")[0]["n"]
        for _ in range(SESSIONS_OF_A_ROUND):
            threads.append((self.random.uniform(0, SPREAD_S / 2), self.start, (self.random.choice(all_hosts), self.request())))
        for i, fault in enumerate(self.random.choices(FAULTS, [fault.weight for fault in FAULTS], k=FAULTS_OF_A_ROUND)):
            threads.append((self.random.uniform(0, SPREAD_S), self.inflict,
                            (fault, self.random.choice(all_hosts), random.Random(f"{self.name}/{i}"))))
        started = []
        for at, what, arguments in sorted(threads, key=lambda step: step[0]):
            time.sleep(max(0, self.began + at - time.monotonic()))
            thread = threading.Thread(target=what, args=arguments, daemon=True)
            thread.start()
            started.append(thread)
        for thread in started:
            thread.join(QUIET_S)
        self.heal()
        wait_for(lambda: not sessions_are_over(self.hosts), QUIET_S, 0.2, why=lambda: "\n".join(sessions_are_over(self.hosts)))

    def heal(self):
        for host in self.hosts:
            self.hosts.network.join(host.number)
            self.hosts.network.delay(host.number, 0)
            self.hosts.network.loss(host.number, 0)
            host.fleet.set_fault("none")
            if host.clock:
                host.clock.offset_s = 0
            if not host.process:
                host.start()


class ChaosFailure(Exception):
    pass


def recordings_are_short(hosts):
    """No longer than a session may last, a lost coordinator's lease, and the calls at both ends."""
    limit_s, found = SESSION_LIMIT_S + LEASE_S + START_S + patience(SLACK_S), []
    for host in hosts:
        longest_s = host.fleet.profiling()["longest"]
        if longest_s > limit_s + host.away_s:
            found.append(f"recordings_are_short: {host.name}: a profiler ran for {longest_s:.1f} s, more than {limit_s:.1f} s")
    return found


def run(directory, seed, count, n_faults, only=None):
    """Gives the number of rounds. A failure is printed with its steps."""
    number, done, began = only or 0, 0, time.monotonic()
    reason = missing()
    if reason:
        print(f"without archive and mirror: {reason}", flush=True)
    with (Hosts if reason else ServiceHosts)(directory, count, workers=WORKERS, config=CONFIG, clocks_move=True) as hosts:
        hosts.locks = {"mirror": threading.Lock(), "bucket": threading.Lock()}
        for host in hosts:
            host.lock = threading.Lock()
        while True:
            round_ = Round(seed, number, hosts)
            try:
                round_.run()
                found = recordings_are_short(hosts) + complaints(hosts, EVENTUALLY_S)
            except AssertionError as failure:
                found = [str(failure)]
            if found:
                print(f"\nseed {seed}, round {number}: what must hold does not:", *found[:20], "what was done:", *round_.steps,
                      f"replay: tests/chaos/chaos.py --hosts {count} --seed {seed} --round {number}", f"kept: {directory}", sep="\n  ",
                      file=sys.stderr, flush=True)
                raise ChaosFailure
            done, number = done + FAULTS_OF_A_ROUND, number + 1
            print(f"seed {seed} round {round_.number}: {done} faults, {time.monotonic() - began:.0f} s", flush=True)
            if only is not None or done >= n_faults:
                return number
