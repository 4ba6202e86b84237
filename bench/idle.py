# SPDX-License-Identifier: Apache-2.0
"""Idle: what profd costs a host while nobody asks for anything. Memory of the process, and every system call in ten seconds.

The limit beside it is `sleep`: a process that does nothing at all.
"""
import json
import subprocess
import time

from common import Profd

SECONDS = 10


def memory_kib(pid):
    fields = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        for line in rollup:
            name, _, rest = line.partition(":")
            if rest.strip().endswith("kB"):
                fields[name] = int(rest.split()[0])
    return {"resident": fields["Rss"], "private dirty": fields["Private_Dirty"]}


def run(directory):
    sleeper = subprocess.Popen(["sleep", "60"])
    with Profd(directory / "profd-idle") as profd:
        time.sleep(1)
        trace = directory / "idle.strace"
        subprocess.run(["timeout", str(SECONDS), "strace", "-f", "-o", trace, "-p", str(profd.pid)], stderr=subprocess.DEVNULL,
                       check=False)
        # What strace itself interrupts on attaching is shown as resumed calls, once for each thread.
        calls = [line for line in trace.read_text().splitlines()
                 if "strace: " not in line and "<detached" not in line and "unfinished" not in line and "restart" not in line]
        row = {"profd KiB": memory_kib(profd.pid), "sleep KiB": memory_kib(sleeper.pid), "seconds watched": SECONDS,
               "system calls": len([c for c in calls if "epoll_wait" not in c and "futex" not in c]), "wake-ups": len(calls)}
    sleeper.terminate()
    sleeper.wait()
    print(json.dumps(row), flush=True)
    return [row]
