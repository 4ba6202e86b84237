# SPDX-License-Identifier: Apache-2.0
"""Idle: what profd costs a host while nobody asks for anything: its memory, and every system call in ten seconds, first as
started, then after a session. Next to it `sleep`, a process that does nothing at all. The proportional size counts a page that
several processes share for its part: pages of libraries that others use too cost the host nothing more."""
import subprocess
import time

from common import Daemon, FaultFleet

SECONDS = 10
SETTLE_S = 2


def memory_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        fields = dict(line.split(":", 1) for line in rollup if ":" in line and line.rstrip().endswith("kB"))
    names = {"resident": "Rss", "proportional": "Pss", "private dirty": "Private_Dirty"}
    return {name: int(fields[field].split()[0]) for name, field in names.items()}


def calls_while_idle(pid, file):
    """System calls that began while it was watched, but for the first second: attaching interrupts whatever waits."""
    began = time.time()
    subprocess.run(["timeout", str(SECONDS + 1), "strace", "-f", "-ttt", "-o", file, "-p", str(pid)], stderr=subprocess.DEVNULL,
                   check=False)
    return sum(float(line.split()[1]) > began + 1 and "(" in line and "<... " not in line
               for line in file.read_text().splitlines())


def run(directory, _options):
    sleeper = subprocess.Popen(["sleep", "120"])
    try:
        with FaultFleet(directory / "fleet", "vllm", 8) as fleet, Daemon(directory / "profd") as profd:
            for when in ("as started", "after a session of 8 workers"):
                time.sleep(SETTLE_S)
                calls = calls_while_idle(profd.pid, directory / "strace.txt")
                yield {"when": when, "profd KiB": memory_kib(profd.pid), "sleep KiB": memory_kib(sleeper.pid),
                       "system calls in 10 s": calls}
                if when == "as started":
                    session = profd.start_session(router=fleet.router, duration_ns=100_000_000)
                    profd.wait_session(session["session"])
                    time.sleep(15)  # kept connections to workers go away
    finally:
        sleeper.terminate()
        sleeper.wait()
