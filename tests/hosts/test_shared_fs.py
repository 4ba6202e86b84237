# SPDX-License-Identifier: Apache-2.0
"""Traces on a file system that several hosts mount: who reads them, and that nobody reads them twice. The file system is one in user
space that mirrors a directory of this machine, with the mount table's type and source of a network file system."""

import gzip
import os
import re
import shutil
import subprocess

import pytest
from hosts import HostFleet, Hosts, wait_for
from network import address, why_not
from test_hosts_ranks import MEET, second_node, sglang_launch

S = 1_000_000_000
SERVER = "filer:"


def why_no_mounts():
    if why_not():
        return why_not()
    if not shutil.which("bindfs"):
        return "bindfs is not installed"
    return None if os.access("/dev/fuse", os.R_OK | os.W_OK) else "no /dev/fuse"


pytestmark = pytest.mark.skipif(why_no_mounts() is not None, reason=str(why_no_mounts()))


class SharedFleet(HostFleet):
    """Workers that write to a directory of the shared file system, which is mounted for as long as they live; with `--shared-dir`, those
    of all hosts into the same one."""

    def __init__(self, machine, source, *options, environment=None):
        super().__init__(machine, *options, environment=environment)
        self.source, self.shared = source, machine.disk / "shared"
        self.command[self.command.index("--dir") + 1] = self.shared / "traces"

    def __enter__(self):
        with self.machine.inside():
            # The same process ids on two hosts would prove nothing.
            for _ in range(3 * self.machine.number):
                subprocess.run(["true"], check=True)
            subprocess.run([*self.machine.enter, "mkdir", self.shared], check=True)
            self.mount = subprocess.Popen([*self.machine.enter, "bindfs", "-f", "-o", "subtype=sshfs", self.source, self.shared],
                                          stdin=subprocess.DEVNULL)
        try:
            wait_for(lambda: "fuse.sshfs" in (self.machine.root.parent / "mountinfo").read_text())
            return super().__enter__()
        except BaseException:
            self.unmount()
            raise

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.unmount()

    def unmount(self):
        self.mount.terminate()
        self.mount.wait()


class SharingHosts(Hosts):
    def make_fleet(self, machine, environment):
        # As SSHFS and NFS name their mounts: SERVER:/path.
        source = self.directory / SERVER / "export"
        source.joinpath("traces").mkdir(parents=True, exist_ok=True)
        return SharedFleet(machine, source, *self.workers, environment=environment)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Two hosts with a profd and one without; one worker on each, all of which write to the same directory."""
    with SharingHosts(tmp_path_factory.mktemp("shared"), 3, workers=1, options=("--shared-dir",), profd_on=(1, 2)) as running:
        yield running


def files_of(host):
    return sorted((trace["name"], trace.get("session")) for trace in host.get("/v1/traces")["traces"] if not trace.get("peer"))


def test_the_file_system_is_recognized(hosts):
    one, two = hosts
    found = {worker["url"]: worker for worker in one.get("/v1/workers", router=hosts.router)["workers"]}
    mine, theirs, unowned = (found[hosts[number].fleet.workers[0]] for number in (1, 2, 3))
    for worker in (mine, theirs, unowned):
        assert worker["shared"]["source"].endswith(SERVER) and worker["shared"]["fstype"] == "SSHFS", worker
        assert worker["shared"] == mine["shared"]
    assert theirs["host"] == "gpu2"
    assert unowned["traces"]["found_by"].endswith("on a shared file system (SSHFS)"), unowned
    assert "host" not in unowned and "note" not in unowned["traces"]


def test_a_host_without_profd_is_read_directly(hosts):
    one = hosts[1]
    answer = one.start_session(workers=[hosts[3].fleet.workers[0]], duration_ns=S // 2)
    assert not any("not on this host" in remark["text"] for remark in answer.get("remarks", [])), answer
    session = one.wait_session(answer["session"])
    (target,) = session["targets"]
    assert session["state"] == "complete" and len(target["traces"]) == 1, session


def test_each_file_of_two_profds_is_collected_once(hosts):
    one, two = hosts
    before = [len(host.get("/v1/traces")["traces"]) for host in (one, two)]
    urls = [hosts[number].fleet.workers[0] for number in (1, 2)]
    session = one.wait_session(one.start_session(workers=urls, duration_ns=S)["session"])
    assert session["state"] == "complete", session
    traces = one.get("/v1/traces", session=session["session"])["traces"]
    assert {trace["worker"] for trace in traces} == set(urls) and len(traces) == 2
    assert len({trace["sha256"] for trace in traces}) == 2
    # Nor is one left without a session on either host.
    assert len(two.get("/v1/traces")["traces"]) == before[1] + 1
    assert len(one.get("/v1/traces")["traces"]) == before[0] + 2


def remarks_of(session, worker):
    return [remark for remark in session.get("remarks", []) if remark.get("worker") == worker]


def test_a_file_of_neither_host_is_named(hosts):
    """Each host leaves it to the other one, as no process of its own has the process id in it."""
    one = hosts[1]
    traces = hosts.directory / SERVER / "export/traces"
    written = gzip.decompress(max(traces.rglob("*.json.gz"), key=lambda path: path.stat().st_mtime).read_bytes())
    urls = [hosts[number].fleet.workers[0] for number in (1, 2)]
    for number in (1, 2):
        hosts[number].fleet.set_fault("no-trace")
    session = one.start_session(workers=urls, duration_ns=S)["session"]
    wait_for(lambda: one.session(session)["state"] == "recording")
    name = "dp0_pp0_tp0_dcp0_ep0_rank0.77.pt.trace.json.gz"
    (traces / name).write_bytes(gzip.compress(re.sub(rb'"pid": [1-9]\d*', b'"pid": 999999', written)))
    ended = one.wait_session(session)
    for number in (1, 2):
        hosts[number].fleet.set_fault("none")
    for target in ended["targets"]:
        assert target["state"] == "failed" and f"{name} in " in target["failure"] and "does not run on this host" in target["failure"], target
        assert "a directory of its own" in target["remedy"]
        assert any("reports as the same directory" in remark["text"] for remark in remarks_of(ended, target["worker"])), ended["remarks"]


class MisleadingFleet(SharedFleet):
    """With `is_other`, what is mounted under the name of the shared file system is another one."""

    is_other = False

    def __enter__(self):
        if self.is_other:
            other = self.machine.disk / "other"
            with self.machine.inside():
                subprocess.run([*self.machine.enter, "mkdir", "-p", other / "traces"], check=True)
                subprocess.run([*self.machine.enter, "mount", "--bind", other, self.source], check=True)
        return super().__enter__()


class MisleadingHosts(SharingHosts):
    def make_fleet(self, machine, environment):
        source = self.directory / SERVER / "export"
        source.joinpath("traces").mkdir(parents=True, exist_ok=True)
        engine, count, *options = self.workers
        if engine == "sglang":
            environment = {**environment, "SGLANG_TORCH_PROFILER_DIR": str(machine.disk / "shared/traces")}
            options += ["--meet", f"{address(machine.number)}:{MEET}"]
        fleet = MisleadingFleet(machine, source, engine, count, *options, environment=environment)
        fleet.is_other = machine.number == max(self.numbers)
        return fleet


def test_a_directory_that_is_another_one_than_it_seems(tmp_path):
    """The host without a profd mounts another file system by the same name: where its files should be, they are not."""
    with MisleadingHosts(tmp_path, 3, workers=1, options=("--shared-dir",), profd_on=(1, 2)) as hosts:
        one, worker = hosts[1], hosts[3].fleet.workers[0]
        session = one.wait_session(one.start_session(workers=[worker], duration_ns=S // 2)["session"])
        (target,) = session["targets"]
        assert session["state"] == "failed" and "no trace appeared" in target["failure"], session
        (remark,) = remarks_of(session, worker)
        assert "/shared/traces of this host (SSHFS " in remark["text"] and "findmnt" in remark["remedy"], remark
        assert "findmnt" in one.profctl("show", session["session"])


def test_ranks_whose_directory_is_another_one_than_their_host_reports(tmp_path):
    """Its host says that its ranks write to the directory of their server, which therefore has to have their files."""
    options = ("--ranks", "2", "--nodes", "2")
    with MisleadingHosts(tmp_path, 2, workers=1, engine="sglang", options=options) as hosts:
        one, server = hosts[1], hosts[1].fleet.workers[0]

        def launch(machine, of):
            (environment, _, python), *rest = sglang_launch(machine, of)
            return [environment, f"SGLANG_TORCH_PROFILER_DIR={machine.disk / 'shared/traces'}", python], *rest

        with second_node(hosts, 1, 2, launch=launch):
            session = one.wait_session(one.start_session(workers=[server], duration_ns=S)["session"])
        (target,) = session["targets"]
        assert target["state"] == "partial" and target["failure"].startswith("2 of 4 ranks; missing or damaged: 2, 3"), session
        (remark,) = remarks_of(session, server)
        assert remark["text"].startswith("files of gpu2 were expected in ") and "(SSHFS " in remark["text"] and "findmnt" in remark["remedy"], remark
