# SPDX-License-Identifier: Apache-2.0
"""One session over many hosts: how long until the last worker of the last host records, how far apart the recordings begin, how long
after the stop the coordinator knows the last trace and PostgreSQL has its row, and what that costs.

The hosts are network namespaces of this machine, each with a profd and fault workers of its own (tests/hosts). As they share one
clock, the skew is measured twice: as profd reports it, with its uncertainty, and by the workers, which note when a start arrived.
What is compared is one profd that records as many workers without peers. All hosts, the program that carries their packets, and
PostgreSQL share the cores of this machine, so times of many hosts are upper bounds of what separate machines take; seconds of
processor and bytes are not. `busy` is the share of all cores that was in use from the start to the last row."""
import os
import pathlib
import re
import subprocess
import sys
import time

from common import BUILD, ROOT, Daemon, FaultFleet, figure, summary

sys.path[:0] = [str(ROOT / "tests/hosts"), str(ROOT / "tests/fleet")]
from fanout import peak_mib  # noqa: E402
from hosts import Hosts, wait_for  # noqa: E402
from network import address  # noqa: E402
from postgres import Postgres  # noqa: E402

COUNTS = (8, 64)  # hosts
WORKERS = 16  # of each
ROUNDS = 5
DURATION_NS = 2 * 10**9
TIMEOUT_S = 180
CONFIG = "[timeouts]\nidentify=20s\nstart=30s\nclean=30s\n"
PROFCTL = BUILD / "client/profctl"
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class MirroredHosts(Hosts):
    def start_services(self):
        """PostgreSQL on a host of its own, as each profd's mirror."""
        number = self.service_number()
        with self.network.inside(number):
            self.pg = self.stack.enter_context(Postgres(["max_connections=300"], address=address(number)))
        subprocess.run([PROFCTL, "mirror", "init", self.pg.local_url()], check=True, stdout=subprocess.DEVNULL)
        self.pg.set_passwords("fleet_writer")
        self.config += f"[mirror]\nurl={self.pg.url('fleet_writer')}\n"

    def mirrored(self, session):
        """Traces of one session over all hosts that PostgreSQL has."""
        return int(self.pg.sql(f"select count(*) from fleet.traces join fleet.sessions using (catalog, session_id) where sessions.uuid = '{session}'")[0][0])


def processor_s(pid):
    """Of the process, and of its children that ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * TICK_S


def machine_s():
    """Seconds of all cores together: in use, and all."""
    fields = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) * TICK_S, sum(fields) * TICK_S


def wire_mib(pid):
    """What the host of that process has received and sent, loopback apart."""
    text = pathlib.Path(f"/proc/{pid}/net/dev").read_text()
    return sum(sum(map(int, (line.split()[1], line.split()[9]))) for line in text.replace(":", " ").split("\n")[2:] if line and "lo " not in line[:8]) / 2**20


def loop_lag_ms(profd):
    """The longest delay of the loop since this was asked last."""
    return float(re.search(r"^profd_event_loop_lag_seconds (\S+)", profd.request("GET", "/metrics").body.decode(), re.M)[1]) * 1e3


def arrivals(fleets):
    """When each worker of the fleets got its last start, in wall time."""
    return [fleet.calls(i, "/start_profile")[-1]["at_ns"] for fleet in fleets for i in range(len(fleet.workers))]


def session(profd, fleets, router, hosts=None):
    """Figures of one session by their names."""
    others = [host for host in hosts or () if host is not profd]
    spent = [processor_s(host.pid) for host in others]
    own, moved, (used, cores), _ = processor_s(profd.pid), wire_mib(profd.pid), machine_s(), loop_lag_ms(profd)
    began = time.time_ns()
    asked = profd.start_session(router=router, duration_ns=DURATION_NS)
    done = profd.wait_session(asked["session"], timeout_s=TIMEOUT_S)
    assert done["state"] == "complete", done.get("reason")
    stopped = max(target["stop_answered_at"] for target in done["targets"])
    row = {"reported skew ms": done["skew_ns"] / 1e6, "its uncertainty ms": (done.get("skew_error_ns") or 0) / 1e6,
           "stop to last trace ms": (done["finished_at"] - stopped) / 1e6}
    if hosts:
        wait_for(lambda: hosts.mirrored(done["uuid"]) == len(done["targets"]), TIMEOUT_S, 0.05)
        row["stop to last row ms"] = (time.time_ns() - stopped) / 1e6
        row["MiB to and from the coordinator"] = wire_mib(profd.pid) - moved
        row["processor of another host ms"] = sum(processor_s(host.pid) - before for host, before in zip(others, spent)) / len(others) * 1e3 if others else 0
    row["processor of the coordinator ms"], row["its loop lag ms"] = (processor_s(profd.pid) - own) * 1e3, loop_lag_ms(profd)
    used_now, cores_now = machine_s()
    row["busy"] = (used_now - used) / (cores_now - cores)
    arrived = arrivals(fleets)
    return {"until the first start ms": (min(arrived) - began) / 1e6, "all started ms": (max(arrived) - began) / 1e6,
            "skew at workers ms": (max(arrived) - min(arrived)) / 1e6, **row}


def rounds(profd, *fleet):
    session(profd, *fleet)
    found = [session(profd, *fleet) for _ in range(ROUNDS)]
    return {**{name: summary([row[name] for row in found]) for name in found[0]}, "coordinator at most MiB": figure(peak_mib(profd.pid))}


def over_hosts(directory, count):
    with MirroredHosts(directory, count, workers=WORKERS, config=CONFIG, services=1) as hosts:
        return rounds(next(iter(hosts)), [host.fleet for host in hosts], hosts.router, hosts)


def alone(directory, count):
    with FaultFleet(directory / "fleet", "vllm", count * WORKERS) as fleet, Daemon(directory / "profd", CONFIG) as profd:
        return rounds(profd, [fleet], fleet.router)


def run(directory, options):
    for count in options.hosts or COUNTS:
        yield {"hosts": count, "workers": count * WORKERS, **over_hosts(directory / f"hosts-{count}", count)}
        yield {"hosts": "one profd", "workers": count * WORKERS, **alone(directory / f"alone-{count}", count)}
