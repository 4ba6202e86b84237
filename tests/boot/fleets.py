# SPDX-License-Identifier: Apache-2.0
"""Fleets that run inside a machine, as transient units of its systemd.

What they run comes from the host, read-only (BINDS): the fault worker, and the real fleet with the host's Python and torch.
"""

import contextlib
import json

from machine import BUILD, ROOT, wait_for

FAULT, TESTS, HOST = "/opt/fault", "/opt/tests", "/host/usr"
REAL = f"{TESTS}/fleet"
BINDS = {FAULT: BUILD / "tests/fleet", TESTS: ROOT / "tests", HOST: "/usr"}
TRACES = "/srv/traces"

# fleet.py starts its workers with /usr/bin/python3, which the machine does not have; BLAS stands behind alternatives.
PYTHON = f"""#!/bin/sh
libraries={HOST}/lib/$(uname -m)-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack:{HOST}/lib
export PYTHONHOME={HOST} PYTHONPATH={HOST}/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1
exec {HOST}/bin/python3 "$@"
"""


class Unit:
    """A transient unit that is there for a block. It is stopped after profd at a shutdown, as a fleet that profd serves."""

    def __init__(self, machine, name, command, user="worker", properties=()):
        self.machine, self.name, self.command, self.user = machine, name, command, user
        self.properties = ["Before=profd.service", *properties]

    def __enter__(self):
        self.machine("systemd-run", "--quiet", "--collect", f"--unit={self.name}", f"--uid={self.user}",
                     *(f"--property={p}" for p in self.properties), *self.command)
        return self

    def __exit__(self, *exception):
        if self.machine.leader:
            self.machine("systemctl", "stop", self.name, check=False)

    @property
    def pid(self):
        return int(self.machine.show(self.name, "MainPID")["MainPID"])

    def log(self):
        return self.machine.journal("-u", self.name)

    def wait_ready(self, path):
        """The JSON that the fleet writes once it serves."""
        def look():
            with contextlib.suppress(json.JSONDecodeError):  # not there, or not yet all of it
                return json.loads(self.machine.run("cat", path, check=False).stdout)

        return wait_for(look, why=self.log)


class FaultFleet(Unit):
    """The fault worker: `FaultFleet(machine, "vllm", 3, "--fault", "hang-stop@0")`. `prefix` is a command that runs it."""

    def __init__(self, machine, engine="vllm", count=1, *options, user="worker", name="fault", prefix=(), life_s=300):
        self.directory, self.port_file = f"{TRACES}/{name}", f"/run/{name}/ports"
        command = [*prefix, f"{FAULT}/fault-worker", "--engine", engine, "--count", count, "--dir", self.directory,
                   "--port-file", self.port_file, "--life", life_s, *options]
        super().__init__(machine, name, command, user, [f"RuntimeDirectory={name}"])

    def __enter__(self):
        self.machine("install", "-d", "-o", self.user, "-m", "755", self.directory)
        super().__enter__()
        ready = self.wait_ready(self.port_file)
        self.router, self.workers = ready["router"], ready["workers"]
        return self

    def journal(self, worker):
        """What a worker was asked."""
        return json.loads(self.machine("curl", "-sS", "--fail", f"{self.router}/journal?worker={worker}"))


class RealFleet(Unit):
    """Workers that run torch, and their router."""

    def __init__(self, machine, vllm=1, sglang=1, user="worker", name="real"):
        self.directory, self.ready_file = f"{TRACES}/{name}", f"/run/{name}/ready"
        self.python = "/usr/bin/python3"
        command = ["/bin/sh", "-c", f"exec {self.python} {REAL}/fleet.py --vllm {vllm} --sglang {sglang} "
                                    f"--dir {self.directory} >{self.ready_file}"]
        super().__init__(machine, name, command, user, [f"RuntimeDirectory={name}"])

    def __enter__(self):
        self.machine.write(self.python, PYTHON, 0o755)
        self.machine("install", "-d", "-o", self.user, "-m", "755", self.directory)
        super().__enter__()
        ready = self.wait_ready(self.ready_file)
        self.router, self.workers = ready["router"], ready["workers"]
        return self
