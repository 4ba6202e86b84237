#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does to a real profd and thousands of fault workers what production does in years, and checks after each round what must
hold whatever happened. README.md says how to read what it prints, and how to replay it."""

import argparse
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import host_chaos
import invariants
import soak
from faults import FAULTS
from testbed import MS, Daemon, FaultFleet, Testbed, files_below, wait_for
from patience import patience
import api_requests  # of the folder that testbed.py added

CALM, STORM = 20, 600  # faults of a round
A_SECOND = 200  # of them, of a storm
PIECE = 10_000  # faults of one testbed of a long run
LEAD_S = 0.15  # of the sessions
SPREAD_S = 1.0  # in which a calm round's faults happen
PATIENCE_S = 0.3  # for a victim, when everything else happened
LOOK_S = 0.02  # between looks for one
SESSIONS_OF_A_ROUND = 6
WORKERS_OF_A_ROUND = 16  # of each fleet, and one more for two faults: in a storm, too, some are well
QUIET_S = 300  # until all sessions of a round are over
SHOWN_MAX = 20


class Failure(Exception):
    pass


class Run:
    """What rounds of one testbed share."""

    def __init__(self):
        self.verified = set()  # traces whose file was compared
        self.n_faults, self.phases, self.faults = 0, Counter(), Counter()  # seconds

    def where_the_time_went(self):
        """Phases, then the dearest faults."""
        for times, most in ((self.phases, None), (self.faults, 5)):
            yield ", ".join(f"{what} {seconds:.0f} s" for what, seconds in times.most_common(most))


class Round:
    """What one number of a seed makes: sessions, and faults at their times."""

    def __init__(self, seed, number, testbed, run):
        self.name, self.number, self.random, self.shared = f"{seed}/{number}", number, random.Random(f"{seed}/{number}"), run
        self.verified, self.thorough = run.verified, False
        self.n = round(CALM * (STORM / CALM) ** self.random.random())
        self.connections, self.steps, self.asked = [], [], set()
        n_workers = WORKERS_OF_A_ROUND + self.n // 2
        self.workers = [(fleet, index) for fleet in testbed.fleets
                        for index in self.random.sample(range(len(fleet.workers)), min(n_workers, len(fleet.workers)))]
        self.began, self.lap_began, self.laps, self.faults_s = time.time(), time.monotonic(), [], 0.0
        self.fresh, self.looked = [], 0.0
        self.sessions_before = max([row["n"] or 0 for row in testbed.profd.rows("select max(session_id) as n from sessions")])

    def some_workers(self, most):
        return self.random.sample(self.workers, self.random.randint(1, most))

    def take_fresh_file(self, testbed):
        """One that a worker of this round wrote, and that nobody else takes; None where there is none."""
        if time.monotonic() > self.looked + LOOK_S:
            self.fresh = sorted(path for directory in self.asked for path in files_below(directory)
                                if str(path) not in testbed.disturbed and self.is_fresh(path))
            self.looked = time.monotonic()
        if not self.fresh:
            return None
        path = self.fresh.pop(self.random.randrange(len(self.fresh)))
        testbed.disturbed.add(str(path))
        return path

    def is_fresh(self, path):
        """A file: a pipe, to which nobody listens, would hold us for ever."""
        try:
            status = path.lstat()
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_mtime >= self.began

    def request(self, testbed, most):
        """A session, as somebody may ask for it."""
        r = self.random
        request = {"duration_ns": r.randint(20, 700) * MS, "queue": r.random() < 0.5, "stagger": r.random() < 0.2,
                   "require_all": r.random() < 0.15}
        if r.random() < 0.2:
            request["router"] = testbed.fleets[2].router
            self.asked.update(map(testbed.directory_of, testbed.fleets[2].workers))
        else:
            fleet = r.choice(testbed.fleets[:2])
            here = [index for other, index in self.workers if other is fleet]
            chosen = r.sample(here, min(len(here), r.randint(1, most)))
            request["workers"] = [fleet.workers[index] for index in chosen]
            self.asked.update(fleet.directory / f"w{index}" for index in chosen)
        if r.random() < 0.2:
            del request["duration_ns"]
            request["steps"] = r.randint(1, 40)
        return request

    def plan(self, testbed):
        """(time, fault, what it draws from) in order."""
        able = {"disk": testbed.disk.mounted, "shim": testbed.shimmed, "bus": testbed.bus, None: True}
        table = [fault for fault in FAULTS if able[fault.needs]]
        chosen = self.random.choices(table, [fault.weight for fault in table], k=self.n)
        spread = SPREAD_S + self.n / A_SECOND
        return sorted(((self.random.uniform(0, spread), fault, random.Random(f"{self.name}/{i}"))
                       for i, fault in enumerate(chosen)), key=lambda step: step[0])

    def run(self, testbed):
        testbed.outage_s, testbed.clock_moved, testbed.power_cut = 0.0, False, False
        plan = self.plan(testbed)
        for _ in range(SESSIONS_OF_A_ROUND):
            testbed.start_session(**self.request(testbed, 8))
        time.sleep(LEAD_S)
        self.happen(testbed, plan)
        self.end(testbed, {fault.undo for _, fault, _ in plan if fault.undo})

    def happen(self, testbed, plan):
        """Everything at its time; what has no victim then, when there is one."""
        began, waiting = time.monotonic(), []

        def apply(fault, own):
            begin, self.random = time.monotonic(), own
            told = fault.apply(testbed, self)
            self.shared.faults[fault.name] += time.monotonic() - begin
            if told is not None:
                self.steps.append(f"{begin - began:6.2f} s  {fault.name}: {told}")
            return told is not None

        def look_until(end):
            while True:
                waiting[:] = [step for step in waiting if not apply(*step)]
                left = end - time.monotonic()
                if left <= 0:
                    break
                time.sleep(min(left, LOOK_S) if waiting else left)

        for at, fault, own in plan:
            look_until(began + at)
            if not apply(fault, own) and fault.waits:
                waiting.append((fault, own))
        end = time.monotonic() + PATIENCE_S
        while waiting and time.monotonic() < end:
            look_until(time.monotonic() + LOOK_S)
        self.shared.n_faults += len(self.steps)

    def end(self, testbed, undos):
        self.faults_s = self.lap("faults")
        testbed.heal()
        for undo in undos:
            undo(testbed)
        for connection in self.connections:
            connection.close()
        testbed.join()
        for client in testbed.clients:
            client.wait(QUIET_S)
        testbed.clients.clear()
        self.lap("clients")
        self.wait_quiet(testbed)
        self.lap("sessions")

    def lap(self, what):
        seconds, self.lap_began = time.monotonic() - self.lap_began, time.monotonic()
        self.laps.append(f"{what} {seconds:.1f}")
        self.shared.phases[what] += seconds
        return seconds

    def wait_quiet(self, testbed):
        deadline = time.monotonic() + patience(QUIET_S)
        while unfinished := testbed.profd.rows("select session_id, state, reason from sessions where finished_at is null"):
            if time.monotonic() > deadline:
                raise Failure(f"not over within {QUIET_S} s: {unfinished}")
            time.sleep(0.02)

    def clean(self, testbed):
        """What workers wrote is theirs to remove, once profd has it."""
        kept = {row["origin"] for row in testbed.profd.rows("select origin from traces where not stored and state != 'missing'")}
        for fleet, index in self.workers:
            for path in files_below(fleet.directory / f"w{index}"):
                if str(path) not in kept:
                    path.unlink(missing_ok=True)


def report(seed, round_, testbed, complaints):
    print(f"\nseed {seed}, round {round_.number}: what must hold does not:", file=sys.stderr)
    for text in complaints[:SHOWN_MAX]:
        print(f"  {text}", file=sys.stderr)
    print("what was done:", *round_.steps, sep="\n  ", file=sys.stderr)
    print(f"replay: tests/chaos/chaos.py --seed {seed} --round {round_.number}\nkept: {testbed.directory}", file=sys.stderr)


def check(seed, round_, testbed):
    found = invariants.complaints(testbed, round_)
    round_.lap("checks")
    if found:
        report(seed, round_, testbed, found)
        raise Failure(found)


def run_round(seed, number, testbed, shared, sabotage):
    round_ = Round(seed, number, testbed, shared)
    try:
        round_.run(testbed)
        if sabotage:
            sabotage(testbed)
    except Failure as failure:
        report(seed, round_, testbed, [str(failure)])
        raise
    except (Exception, KeyboardInterrupt):
        report(seed, round_, testbed, ["the test itself failed"])
        raise
    check(seed, round_, testbed)
    return round_


def settle(testbed):
    """What a profd holds that has nothing to do, and what one holds that met everything once."""
    wait_for(lambda: not testbed.bus or testbed.answers_on_bus())
    testbed.usual_descriptors = testbed.descriptors()
    sessions = [{"workers": fleet.workers[:4]} for fleet in testbed.fleets] + [{"router": testbed.fleets[2].router}]
    testbed.fleets[2].set_router_fault("ten-thousand")
    for session in sessions:
        reply = testbed.profd.request("POST", "/v1/sessions", {"duration_ns": 50 * MS, **session}, timeout=QUIET_S)
        testbed.profd.wait_session(reply.json()["session"], QUIET_S)
    testbed.heal()
    testbed.usual_memory = testbed.profd.memory("Private_Dirty")


def run(directory, seed, n_faults, workers=1000, only=None, sabotage=None):
    """Gives the numbers of faults and sessions. sabotage(testbed) is called before the checks of each round."""
    shared, before, number, began = Run(), None, only or 0, time.monotonic()
    with Testbed(directory, workers) as testbed:
        settle(testbed)
        shared.phases["building"] = time.monotonic() - began
        while True:
            round_ = run_round(seed, number, testbed, shared, sabotage)
            if before:
                before.clean(testbed)
            before, number = round_, number + 1
            print(f"seed {seed} round {round_.number}: {shared.n_faults} faults, {len(shared.verified)} traces, "
                  f"{time.monotonic() - began:.0f} s ({len(round_.steps)} of {round_.n}: {', '.join(round_.laps)})", flush=True)
            if only is not None or shared.n_faults >= n_faults:
                break
        round_.thorough = True
        check(seed, round_, testbed)
        print(*shared.where_the_time_went(), sep="\n", flush=True)
        return shared.n_faults, testbed.profd.rows("select max(session_id) as n from sessions")[0]["n"]


def run_long(seed, n_faults, workers):
    """In pieces, each in a testbed and a process of its own, so that a failure ends its piece alone. Whether all held."""
    seeds = range(seed, seed + -(-n_faults // PIECE))

    def piece(own):
        command = [sys.executable, __file__, "--seed", str(own), "--faults", str(PIECE), "--workers", str(workers)]
        return subprocess.run(command, check=False).returncode

    with ThreadPoolExecutor(os.cpu_count()) as together:
        failed = [own for own, status in zip(seeds, together.map(piece, seeds)) if status]
    print(f"{len(seeds)} runs of {PIECE} faults: " + (f"of these, failed: {failed}" if failed else "everything holds"))
    return not failed


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="default: a new one")
    parse.add_argument("--faults", type=int, default=1000)
    parse.add_argument("--round", type=int, help="only this one")
    parse.add_argument("--workers", type=int, default=1000, help="of each of two fleets")
    parse.add_argument("--soak", type=int, metavar="N", help="no faults: the memory after N sessions")
    parse.add_argument("--requests", type=float, metavar="SECONDS", help="no faults: requests drawn from proto/openapi.yaml")
    parse.add_argument("--hosts", type=int, metavar="N", help="faults of N hosts with a profd each, and of the network between them")
    parse.add_argument("--long", action="store_true", help="100,000 faults")
    options = parse.parse_args()
    if options.long:
        sys.exit(not run_long(options.seed, 100_000, options.workers))
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    directory.chmod(0o755)
    if options.soak:
        soak.soak(directory, options.soak)
        shutil.rmtree(directory, ignore_errors=True)
        return
    print(f"seed {options.seed}, in {directory}", flush=True)
    if options.hosts:
        try:
            rounds = host_chaos.run(directory, options.seed, options.hosts, options.faults, options.round)
        except host_chaos.ChaosFailure:
            sys.exit(1)
        print(f"seed {options.seed}: {rounds} rounds on {options.hosts} hosts: everything holds")
        shutil.rmtree(directory, ignore_errors=True)
        return
    if options.requests:
        with FaultFleet(directory / "fleet", "vllm", 3, life_s=int(options.requests) + 60) as fleet, Daemon(directory / "profd") as profd:
            counts = api_requests.run(profd, fleet, options.seed, seconds=options.requests)
        print(f"seed {options.seed}: {counts.total()} requests, all answered as documented: "
              + ", ".join(f"{n} with {status}" for status, n in sorted(counts.items())))
        shutil.rmtree(directory, ignore_errors=True)
        return
    began = time.monotonic()
    try:
        faults, sessions = run(directory, options.seed, options.faults, options.workers, options.round)
    except Failure:
        sys.exit(1)
    print(f"seed {options.seed}: {faults} faults, {sessions} sessions, {time.monotonic() - began:.0f} s: everything holds")
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
