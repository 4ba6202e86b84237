#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Many hosts on one machine, for real: network namespaces with a profd and a worker that computes on each, PostgreSQL and a bucket on
another, one session over all, and one question to the mirror. `./dev demo --hosts 3` runs it.

With --stay it only starts them and requests, prints how to enter each host from another terminal, and waits for Ctrl-C, for an hour
at most.

Everything it makes lies in DIR (build/demo-hosts by default), which it empties first. It ends only what it started."""
import argparse
import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

import hosts as testbed
from fleet import Fleet
from network import address, why_not
from postgres import PASSWORD, Postgres
from radosgw import Radosgw

from daemon import quick_config, wait_for
from demo import STAY_S, heading

BUILD = testbed.BUILD
READY_S = 120  # until all rows are mirrored, all traces archived
BUCKET = "traces"
QUESTION = """select host, category, round(sum(sum_ns) / 1000000, 1) as ms from category_sums
where recorded_at > now() - interval '7 days' group by 1, 2 order by 3 desc limit 8"""


class RealFleet:
    """One worker of vLLM on a host, which records into its own disk."""

    def __init__(self, machine, directory):
        self.machine, self.fleet, self.workers = machine, Fleet(directory, enter=machine.enter), []

    def __enter__(self):
        with self.machine.inside():
            self.process = self.fleet.add_vllm("--host", address(self.machine.number), profiler_config={"torch_profiler_with_stack": False},
                                               trace_dir=self.machine.disk / "traces")
        return self

    def wait_ready(self):
        self.workers.append(self.process.wait_ready().url)

    def start_load(self, seconds):
        with self.machine.inside():
            return self.fleet.start_load(self.process.url, seconds, 2)

    def __exit__(self, *_):
        self.fleet.end()


class DemoHosts(testbed.Hosts):
    def start_services(self):
        """PostgreSQL with the schema of the mirror, and a bucket."""
        number = self.service_number()
        with self.network.inside(number):
            self.pg = pg = self.stack.enter_context(Postgres(address=address(number)))
            s3 = self.stack.enter_context(Radosgw(self.directory / "s3", address(number)))
            s3.create_bucket(BUCKET)
        subprocess.run([testbed.PROFCTL, "mirror", "init", pg.local_url()], check=True, stdout=subprocess.DEVNULL)
        pg.set_passwords("fleet_writer", "fleet_reader")
        self.config += (f"[archive]\nurl=s3://{BUCKET}\nendpoint={s3.endpoint}\ncredentials_file={s3.credentials}\n"
                        f"[mirror]\nurl={pg.url('fleet_writer')}\nreader={pg.url('fleet_reader', password=False)}\n")

    def make_fleet(self, machine, environment):
        return RealFleet(machine, self.directory / f"gpu{machine.number}/fleet")

    def start_router(self, urls):
        for host in self.all:  # they load side by side
            host.fleet.wait_ready()
        return super().start_router([url for host in self.all for url in host.fleet.workers])


class Screen:
    """Shows a command as a user of the host would type it, and runs it there."""

    def __init__(self, host):
        self.host, self.failed = host, False

    def type(self, *command):
        print(f"\n{self.host.name}$ {shlex.join(command)}", flush=True)
        program = {"profctl": str(testbed.PROFCTL)}.get(command[0], command[0])
        with self.host.machine.inside():
            status = subprocess.run([*self.host.machine.enter, program, *command[1:]], check=False,
                                    env={**os.environ, "PROFD_SOCKET": str(self.host.socket), "PGPASSWORD": PASSWORD}).returncode
        if status != 0:
            print(f"(exit status {status})", flush=True)
            self.failed = True


def arrived(hosts):
    """Whether the trace of every host is in the bucket, and its sums in the mirror."""
    rows = [row for host in hosts for row in host.rows("select archived_at from traces where kind = 'trace'")]
    mirrored = hosts.pg.sql("select count(distinct host) from fleet.category_sums")[0][0]
    return len(rows) >= len(hosts.all) == int(mirrored) and all(row["archived_at"] for row in rows)


def run(hosts, screen, seconds):
    heading("Hosts and workers, as one of the hosts sees them")
    screen.type("profctl", "list-hosts")
    screen.type("profctl", "list-workers", "--router", hosts.router)

    heading("One session over all hosts, while requests run")
    loads = [host.fleet.start_load(seconds + 12) for host in hosts]
    screen.type("profctl", "start", "--router", hosts.router, "--duration", f"{seconds}s", "--label", "purpose=demo", "--wait")
    for load in loads:
        load.end()

    heading("The traces are on their hosts, and in the bucket")
    wait_for(lambda: arrived(hosts), READY_S)
    screen.type("profctl", "list-traces")
    screen.type("profctl", "analyze", "s1", "--report", "summary")

    heading("One catalog of all hosts, in PostgreSQL")
    screen.type("profctl", "mirror", "status")
    screen.type("profctl", "query", "--mirror", QUESTION)


def write_entrance(host, router):
    """A script that starts a shell, or the given command, on the host."""
    path = host.place / "enter"
    environment = {"PATH": f"{testbed.PROFCTL.parent}:{os.environ['PATH']}", "PROFD_SOCKET": host.socket, "PROFD_ROUTER": router,
                   "PGPASSWORD": PASSWORD, "PS1": f"{host.name}# "}
    words = shlex.join(["nsenter", f"--target={host.process.pid}", "--net", "--mount", "--uts", "--pid", "--", "env",
                        *(f"{name}={value}" for name, value in environment.items())])
    path.write_text(f'#!/bin/bash\nif [ $# = 0 ]; then set -- bash --norc; fi\nexec {words} "$@"\n')
    path.chmod(0o700)
    return path


def stay(hosts):
    """For whoever types the commands: until Ctrl-C, or for STAY_S."""
    loads = [host.fleet.start_load(STAY_S) for host in hosts]
    entrances = [write_entrance(host, hosts.router) for host in hosts]
    heading("Running. In another terminal, a shell on each host:")
    for entrance in entrances:
        print(f"  {entrance}")
    print("There, or after the name of the script:")
    for command in ("list-hosts", "start --duration 3s --wait", "analyze", "mirror status"):
        print(f"  profctl {command}")
    print("Ctrl-C here ends everything.", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(STAY_S)
    for load in loads:
        load.end()


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--dir", type=pathlib.Path, default=BUILD / "demo-hosts")
    parse.add_argument("--hosts", type=int, default=3, metavar="N")
    parse.add_argument("--duration", type=int, default=3, metavar="SECONDS")
    parse.add_argument("--stay", action="store_true", help="start the hosts and wait, for commands from another terminal")
    options = parse.parse_args()
    if reason := why_not():
        sys.exit(f"demo: {reason}")
    directory = options.dir.resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started this in the background

    heading(f"Starting {options.hosts} hosts with a vLLM worker each, PostgreSQL and a bucket ...")
    with DemoHosts(directory, options.hosts, config=quick_config(session="10min", stop="5min"), services=1) as hosts:
        if options.stay:
            stay(hosts)
            return 0
        screen = Screen(hosts[1])
        run(hosts, screen, options.duration)
    return 1 if screen.failed else 0


if __name__ == "__main__":
    sys.exit(main())
