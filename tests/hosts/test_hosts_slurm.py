# SPDX-License-Identifier: Apache-2.0
"""The script of docs/hosts.md in a job of real Slurm on two hosts: a user without rights on the hosts runs a profd on each node of the
job, and has the traces of all nodes in a directory of theirs."""

import re
import subprocess

import pytest

from hosts import Machine
from network import Network, address, why_not

import slurm
from daemon import BUILD, ROOT, wait_for

WORKER = ROOT / "tests/fleet/worker.py"
CONTROL = 3  # the host of slurmctld
SERVE = """#!/bin/bash
exec /usr/bin/python3 {worker} --engine vllm --host $(getent hosts $SLURMD_NODENAME | cut -d' ' -f1) --port 8000 --port-file {directory}/$SLURMD_NODENAME.url \\
  --profiler-config '{{"profiler":"torch","torch_profiler_dir":"/tmp/profd-'$SLURM_JOB_ID'-traces"}}'
"""


@pytest.fixture(autouse=True)
def need_hosts():
    if reason := why_not():
        pytest.skip(reason)
    assert not slurm.missing(), f"Slurm is not installed: apt-get install slurmctld slurmd slurm-client ({slurm.missing()})"


class HostsSlurm(slurm.Slurm):
    """Each node is a host with network, processes and a /tmp of its own; all know each other by name, and share the directory."""

    def __init__(self, directory, network, shared):
        super().__init__(directory, nodes=2)
        machines = {number: Machine(network, number, name, self.directory / "disk")
                    for number, name in ((1, "n1"), (2, "n2"), (CONTROL, "control"))}
        self.machines = {"n1": machines[1], "n2": machines[2]}
        self.machine = machines[CONTROL]
        self.addresses = {"n1": address(1), "n2": address(2)}
        self.names = {name: name for name in self.nodes}
        self.control = "control", address(CONTROL)
        known = self.directory / "hosts"
        known.write_text(f"127.0.0.1 localhost\n{address(1)} n1\n{address(2)} n2\n{address(CONTROL)} control\n")
        # A node's own /tmp, with the shared directory in it where tests are made there.
        mounts = ('mount --bind "$1" /etc/hosts && mount --rbind "$2" /mnt && mount -t tmpfs tmp /tmp && mkdir -p "$2" && mount --move /mnt "$2"')
        for machine in machines.values():
            subprocess.run([*machine.enter, "sh", "-c", mounts, "sh", known, shared], check=True)

    def _place(self, name):
        machine = self.machines.get(name, self.machine)
        return machine.inside(), machine.enter

    def _end(self):
        try:
            super()._end()
        finally:
            for machine in (*self.machines.values(), self.machine):
                machine.close()


def script_of_the_page():
    """For two nodes, as a user would change it."""
    page = (ROOT / "docs/hosts.md").read_text()
    (script,) = re.findall(r"```sh\n(#!/bin/bash\n#SBATCH.*?)```", page, re.S)
    assert "--nodes=4" in script
    return script.replace("--nodes=4", "--nodes=2")


def test_the_script_of_the_page_records_all_nodes_of_a_job(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    with Network(CONTROL) as network, HostsSlurm(tmp_path / "cluster", network, tmp_path) as cluster:
        directory = cluster.directory
        (directory / "serve.sh").write_text(SERVE.format(worker=WORKER, directory=directory))
        (directory / "serve.sh").chmod(0o755)
        cluster.environment |= {"HOME": str(home), "PATH": f"{BUILD}/client:{BUILD}/daemon:{cluster.environment['PATH']}"}
        job = cluster.submit(script_of_the_page(), 2)
        wait_for(lambda: (directory / f"job-{job}.log").exists() and not cluster.run("squeue", "-h", "-j", job, check=False).strip(),
                 90, why=lambda: cluster.job_log(job))
        log = cluster.job_log(job)
    assert re.search(r"^n1 +self .*\nn2 +ok ", log, re.M), log
    assert "Session s1 is complete: 2 of 2 workers" in log, log
    assert {path.name for path in home.iterdir()} == {"traces"}, "keys of the job's peers are left behind"
    assert len([path for path in (home / "traces").rglob("*.json.gz") if path.is_file()]) >= 2, log
