#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does to a real profd and thousands of fault workers what production does in years, and checks after each round what must
hold whatever happened. README.md says how to read what it prints, and how to replay it."""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import invariants
import soak
from faults import FAULTS
from house import MS, House, files_below

FAULTS_OF_A_ROUND = 60
LEAD_S = 0.15  # of the sessions
SPREAD_S = 1.0  # in which they happen
SESSIONS_OF_A_ROUND = 6
QUIET_S = 90  # until all sessions of a round are over
SHOWN_MAX = 20


class Failure(Exception):
    pass


class Memory:
    """What a check knows from earlier rounds."""

    def __init__(self):
        self.verified, self.memory = set(), {}


class Round:
    """What one number of a seed makes: sessions, and faults at their times."""

    def __init__(self, seed, number, house, memory):
        self.number, self.random = number, random.Random(f"{seed}/{number}")
        self.verified, self.memory = memory.verified, memory.memory
        self.connections, self.steps, self.thorough = [], [], False
        self.workers = [(fleet, index) for fleet in house.fleets
                        for index in self.random.sample(range(len(fleet.workers)), min(16, len(fleet.workers)))]
        self.urls = {fleet.workers[index] for fleet, index in self.workers}
        self.began, self.laps, self.spent = time.time(), [], []
        self.sessions_before = max([row["n"] or 0 for row in house.profd.rows("select max(session_id) as n from sessions")])

    def some_workers(self, most):
        return self.random.sample(self.workers, self.random.randint(1, most))

    def shuffled_workers(self):
        return self.random.sample(self.workers, len(self.workers))

    def request(self, house, most):
        """A session, as somebody may ask for it."""
        r = self.random
        request = {"duration_ns": r.randint(20, 700) * MS, "queue": r.random() < 0.5, "stagger": r.random() < 0.2,
                   "require_all": r.random() < 0.15}
        if r.random() < 0.2:
            request["router"] = house.fleets[2].router
        else:
            fleet = r.choice(house.fleets[:2])
            here = [index for other, index in self.workers if other is fleet]
            request["workers"] = [fleet.workers[index] for index in r.sample(here, min(len(here), r.randint(1, most)))]
        if r.random() < 0.2:
            del request["duration_ns"]
            request["steps"] = r.randint(1, 40)
        return request

    def plan(self, house, n):
        able = {"disk": house.disk.mounted, "shim": house.shimmed, None: True}
        table = [fault for fault in FAULTS if able[fault.needs]]
        chosen = self.random.choices(table, [fault.weight for fault in table], k=n)
        return sorted(((self.random.uniform(0, SPREAD_S), fault) for fault in chosen), key=lambda step: step[0])

    def run(self, house, n):
        house.outage_s, house.clock_moved, house.power_cut = 0.0, False, False
        plan = self.plan(house, n)
        for _ in range(SESSIONS_OF_A_ROUND):
            house.start_session(**self.request(house, 8))
        time.sleep(LEAD_S)
        began = time.monotonic()
        for at, fault in plan:
            time.sleep(max(0.0, began + at - time.monotonic()))
            happened = time.monotonic() - began
            self.steps.append(f"{happened:6.2f} s  {fault.name}: {fault.apply(house, self)}")
        self.end(house, {fault.undo for _, fault in plan if fault.undo})

    def end(self, house, undos):
        self.lap("faults")
        house.heal()
        for undo in undos:
            undo(house)
        for connection in self.connections:
            connection.close()
        house.join()
        self.lap("clients")
        for client in house.clients:
            client.wait(60)
        house.clients.clear()
        self.wait_quiet(house)
        self.lap("sessions")

    def lap(self, what):
        self.laps.append(f"{what} {time.time() - self.began - sum(self.spent):.1f}")
        self.spent.append(time.time() - self.began - sum(self.spent))

    def wait_quiet(self, house):
        deadline = time.monotonic() + QUIET_S
        while unfinished := house.profd.rows("select session_id, state, reason from sessions where finished_at is null"):
            if time.monotonic() > deadline:
                raise Failure(f"not over within {QUIET_S} s: {unfinished}")
            time.sleep(0.02)

    def clean(self, house):
        """What workers wrote is theirs to remove, once profd has it."""
        kept = {row["origin"] for row in house.profd.rows("select origin from traces where not stored and state != 'missing'")}
        for fleet, index in self.workers:
            for path in files_below(fleet.directory / f"w{index}"):
                if str(path) not in kept:
                    path.unlink(missing_ok=True)


def report(seed, round_, house, complaints):
    print(f"\nseed {seed}, round {round_.number}: what must hold does not:", file=sys.stderr)
    for text in complaints[:SHOWN_MAX]:
        print(f"  {text}", file=sys.stderr)
    print("what was done:", *round_.steps, sep="\n  ", file=sys.stderr)
    print(f"replay: tests/chaos/chaos.py --seed {seed} --round {round_.number}\nkept: {house.directory}", file=sys.stderr)


def run_round(seed, number, house, memory, n, sabotage):
    round_ = Round(seed, number, house, memory)
    try:
        round_.run(house, n)
        if sabotage:
            sabotage(house)
        found = invariants.complaints(house, round_)
        round_.lap("checks")
    except Failure as failure:
        found = [str(failure)]
    except (Exception, KeyboardInterrupt):
        report(seed, round_, house, ["the test itself failed"])
        raise
    if found:
        report(seed, round_, house, found)
        raise Failure(found)
    return round_


def settle(house):
    """Descriptors of a profd that has nothing to do."""
    house.usual_descriptors = house.descriptors()


def run(directory, seed, n_faults, workers=1000, first=0, sabotage=None, quiet=False):
    """Gives the number of sessions. sabotage(house) is called before the checks of the first round."""
    memory, before, done, number = Memory(), None, 0, first
    with House(directory, workers) as house:
        settle(house)
        began = time.monotonic()
        while done < n_faults:
            n = min(FAULTS_OF_A_ROUND, n_faults - done)
            round_ = run_round(seed, number, house, memory, n, sabotage)
            if before:
                before.clean(house)
            before, done, number = round_, done + n, number + 1
            if not quiet:
                print(f"round {round_.number}: {done} faults, {len(memory.verified)} traces, "
                      f"{time.monotonic() - began:.0f} s (of this: {', '.join(round_.laps)})", flush=True)
        round_.thorough = True
        found = invariants.complaints(house, round_)
        if found:
            report(seed, round_, house, found)
            raise Failure(found)
        return house.profd.rows("select max(session_id) as n from sessions")[0]["n"]


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="default: a new one")
    parse.add_argument("--faults", type=int, default=1000)
    parse.add_argument("--round", type=int, help="only this one")
    parse.add_argument("--workers", type=int, default=1000, help="of each of two fleets")
    parse.add_argument("--soak", type=int, metavar="N", help="no faults: the memory after N sessions")
    parse.add_argument("--long", action="store_true", help="100,000 faults")
    options = parse.parse_args()
    n = FAULTS_OF_A_ROUND if options.round is not None else 100_000 if options.long else options.faults
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    directory.chmod(0o755)
    if options.soak:
        soak.soak(directory, options.soak)
        shutil.rmtree(directory, ignore_errors=True)
        return
    print(f"seed {options.seed}, {n} faults, in {directory}", flush=True)
    began = time.monotonic()
    try:
        sessions = run(directory, options.seed, n, options.workers, options.round or 0)
    except Failure:
        sys.exit(1)
    print(f"{n} faults, {sessions} sessions, {time.monotonic() - began:.0f} s: everything holds")
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
