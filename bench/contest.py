# SPDX-License-Identifier: Apache-2.0
"""Commands side by side: run alternately, the first round discarded, wall time, user and system time and peak memory of each."""
import dataclasses
import os
import pathlib
import statistics
import subprocess
import time

from common import BUILD, figure, summary

COST = BUILD / "bench/cost"
ROUNDS = 5
# A contestant that takes its time is run less often: the number of runs is printed next to the figures.
PATIENCE_S = 90


@dataclasses.dataclass
class Cost:
    wall_s: float
    cpu_s: float
    peak_mib: float
    output: str = ""


@dataclasses.dataclass
class Contestant:
    """A pipe of commands. cold: files whose pages are dropped from the page cache before each run."""
    name: str
    commands: list
    stdin: pathlib.Path | None = None
    stdout: pathlib.Path | None = None
    cold: tuple = ()


def forget(path):
    """Drops the clean pages of a file."""
    with open(path, "rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(contestant, directory):
    """The cost of a pipe: wall time of all, user and system time and peaks added up."""
    for path in contestant.cold:
        forget(path)
    results = [directory / f"cost-{i}" for i in range(len(contestant.commands))]
    output = directory / "output"
    began = time.monotonic()
    with open(contestant.stdin or os.devnull, "rb") as source, open(contestant.stdout or output, "wb") as sink:
        processes = []
        for i, command in enumerate(contestant.commands):
            last = i + 1 == len(contestant.commands)
            process = subprocess.Popen([COST, results[i], *command], stdin=processes[-1].stdout if processes else source,
                                       stdout=sink if last else subprocess.PIPE)
            if processes:
                processes[-1].stdout.close()
            processes.append(process)
        failed = [process.args[2:] for process in processes if process.wait() != 0]
    wall_s = time.monotonic() - began
    if failed:
        raise RuntimeError(f"{contestant.name}: {failed[0]} failed")
    costs = [[int(word) for word in result.read_text().split()] for result in results]
    return Cost(wall_s=costs[0][0] / 1e9 if len(costs) == 1 else wall_s, cpu_s=sum(cost[1] for cost in costs) / 1e9,
                peak_mib=sum(cost[2] for cost in costs) / 2**20,
                output="" if contestant.stdout else output.read_text(errors="replace"))


def in_turns(contestants, directory):
    """{name: [Cost, ...]}: each once and discarded, then ROUNDS times alternately."""
    costs = {contestant.name: [] for contestant in contestants}
    spent = dict.fromkeys(costs, 0.0)
    for number in range(ROUNDS + 1):
        for contestant in contestants:
            if number > 1 and spent[contestant.name] > PATIENCE_S:
                continue
            cost = run(contestant, directory)
            spent[contestant.name] += cost.wall_s
            if number > 0:
                costs[contestant.name].append(cost)
    return costs


def row(costs):
    return {"wall s": summary([cost.wall_s for cost in costs]), "user+sys s": summary([cost.cpu_s for cost in costs]),
            "peak MiB": summary([cost.peak_mib for cost in costs])}


def ratio(costs, others):
    """How many times the wall time of the others, round by round; of the medians where one was run less often."""
    if len(costs) == len(others):
        return summary([a.wall_s / b.wall_s for a, b in zip(costs, others)])
    return figure(statistics.median(cost.wall_s for cost in costs) / statistics.median(cost.wall_s for cost in others))
