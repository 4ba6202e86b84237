# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster on one machine: slurmctld and several slurmd of Debian's packages, without systemd.

    with Slurm(directory, nodes=2) as cluster:
        job = cluster.submit("srun --ntasks-per-node=1 sleep 60", nodes=2)
        ... cluster.run("squeue"), cluster.environment, cluster.addresses ...

Node nI has a loopback address of its own (NodeAddr), so that what runs "on" it can listen there on a port that others use
on theirs, as on a real cluster. Slurm's daemons listen on all addresses: a munged with a key of its own keeps others out. It ends only what it started:
the jobs first, then the daemons.
"""
import contextlib
import ctypes
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from patience import patience  # noqa: E402

READY_S = 60
END_S = 20
COMMAND_S = 60
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
# Debian has the daemons in /usr/sbin, which is not in every PATH.
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

CONFIG = """\
ClusterName=test
SlurmctldHost={host}({control})
SlurmctldPort={control_port}
AuthType=auth/munge
AuthInfo=socket={directory}/munge/socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/%n.log
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
{nodes}PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def user_name():
    return pwd.getpwuid(os.geteuid()).pw_name


def missing():
    """The programs of Slurm that are not installed."""
    return [name for name in ("munged", "slurmctld", "slurmd", "sbatch", "scontrol") if not shutil.which(name, path=PATH)]


def _free_ports(count):
    """Below those that the kernel gives to connections, on all addresses: slurmd listens on all."""
    ports = []
    while len(ports) < count:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            ports.append(port)
    return ports


class Slurm:
    """A subclass may put nodes elsewhere: `control` (name, address), `addresses`, `names`, `_place()`."""

    def __init__(self, directory, nodes=2):
        self.directory = pathlib.Path(directory).resolve()
        self.directory.mkdir(parents=True)
        self.directory.chmod(0o755)
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        # Of 127/8 beyond what other tests use.
        network = f"127.{random.randrange(16, 255)}.{random.randrange(255)}"
        self.addresses = {name: f"{network}.{number}" for number, name in enumerate(self.nodes, 1)}
        self.network = network
        host = socket.gethostname().partition(".")[0]
        self.control, self.names = (host, "127.0.0.1"), dict.fromkeys(self.nodes, host)
        self.config = self.directory / "slurm.conf"
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.config)}
        self.children = []

    def __enter__(self):
        try:
            self._configure()
            munge = self.directory / "munge"
            subprocess.run(["mungekey", "--create", f"--keyfile={munge}/key"], check=True, env=self.environment)
            self._spawn("munged", "munged", "--foreground", "--force", f"--key-file={munge}/key", f"--socket={munge}/socket",
                        f"--pid-file={munge}/pid", f"--seed-file={munge}/seed", f"--log-file={munge}/log")
            self._wait((munge / "socket").exists, "munged")
            self._spawn("slurmctld", "slurmctld", "-D")
            for node in self.nodes:
                self._spawn(node, "slurmd", "-D", "-N", node)
            self._wait(self._are_nodes_idle, "its nodes")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    def run(self, *command, check=True):
        """What a command of Slurm prints."""
        inside, enter = self._place("")
        with inside:
            done = subprocess.run([*enter, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_S,
                                  env=self.environment, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr}{self._logs()}")
        return done.stdout

    def submit(self, script, nodes=1, *options):
        """Submits a job, and gives its id. The script runs on the first of its nodes."""
        text = script if script.startswith("#!") else f"#!/bin/sh\n{script}\n"
        inside, enter = self._place("")
        with inside:
            done = subprocess.run([*enter, "sbatch", "--parsable", f"--nodes={nodes}", "--ntasks-per-node=1",
                                   f"--output={self.directory}/job-%j.log", f"--chdir={self.directory}", *options],
                                  input=text, capture_output=True, text=True, timeout=COMMAND_S, env=self.environment,
                                  check=False)
        if done.returncode != 0:
            raise RuntimeError(f"sbatch ended with {done.returncode}: {done.stderr}{self._logs()}")
        return done.stdout.strip().partition(";")[0]

    def wait_running(self, job):
        self._wait(lambda: self.run("squeue", "-h", "-j", job, "-o", "%T", check=False).strip() == "RUNNING", f"job {job}")

    def job_log(self, job):
        log = self.directory / f"job-{job}.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def _are_nodes_idle(self):
        lines = self.run("sinfo", "-h", "-N", "-o", "%N %t").splitlines()
        return len(lines) == len(self.nodes) and all(line.endswith(" idle") for line in lines)

    def _configure(self):
        (self.directory / "state").mkdir()
        (self.directory / "munge").mkdir(mode=0o755)
        for node in self.nodes:
            (self.directory / f"spool-{node}").mkdir()
        ports = _free_ports(1 + len(self.nodes))
        nodes = "".join(f"NodeName={node} NodeHostname={self.names[node]} NodeAddr={self.addresses[node]} Port={port} CPUs=4 RealMemory=1\n"
                        for node, port in zip(self.nodes, ports[1:]))
        self.config.write_text(CONFIG.format(host=self.control[0], control=self.control[1], control_port=ports[0], user=user_name(),
                                             directory=self.directory, nodes=nodes))
        # No cgroup is mounted for this plugin, and none is needed; without one slurmd ends.
        (self.directory / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

    def _place(self, name):
        """Where a daemon or a command ("") runs: a context for its start, and the words before it."""
        return contextlib.nullcontext(), []

    def _spawn(self, name, *command):
        inside, enter = self._place(name)
        with open(self.directory / f"{name}.out", "ab") as log, inside:
            self.children.append(subprocess.Popen(
                [*enter, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment, cwd="/",
                preexec_fn=lambda: _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)))

    def _wait(self, condition, what):
        deadline = time.monotonic() + patience(READY_S)
        while True:
            try:
                if condition():
                    return
            except (RuntimeError, subprocess.TimeoutExpired):
                pass  # slurmctld does not answer yet
            if time.monotonic() > deadline or any(child.poll() is not None for child in self.children):
                raise RuntimeError(f"Slurm is not ready: {what}{self._logs()}")
            time.sleep(0.1)

    def _logs(self):
        return "".join(f"\n== {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in sorted(self.directory.glob("*.out")))

    def _end(self):
        try:
            if self.children and all(child.poll() is None for child in self.children):
                self.run("scancel", "--user", user_name(), check=False)
                deadline = time.monotonic() + patience(END_S)
                while self.run("squeue", "-h", check=False).strip() and time.monotonic() < deadline:
                    time.sleep(0.1)
        finally:
            for child in reversed(self.children):
                if child.poll() is None:
                    child.terminate()
            for child in self.children:
                try:
                    child.wait(END_S)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
