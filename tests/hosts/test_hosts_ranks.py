# SPDX-License-Identifier: Apache-2.0
"""Engines over several nodes: the ranks of further nodes have no server, and write their traces on their own hosts."""

import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hosts import TESTS, HostFleet, Hosts, wait_for
from network import address, why_not
from patience import patience

S = 1_000_000_000
MEET = 5000

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


class FirstNode(HostFleet):
    """Traces are written below SGLANG_TORCH_PROFILER_DIR, on the disk of each host."""

    def __init__(self, machine, engine, count, *options, environment=None):
        options = (*options, "--meet", f"{address(machine.number)}:{MEET}")
        environment = {**(environment or {}), "SGLANG_TORCH_PROFILER_DIR": str(machine.disk / "traces")}
        super().__init__(machine, engine, count, *options, environment=environment)


class SeveralNodes(Hosts):
    def make_fleet(self, machine, environment):
        return FirstNode(machine, *self.workers, environment=environment)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """On each of three hosts, the server of an engine over two nodes with two ranks each."""
    with SeveralNodes(tmp_path_factory.mktemp("ranks"), 3, workers=1, engine="sglang", options=("--ranks", "2", "--nodes", "2")) as running:
        yield running


def sglang_launch(machine, of):
    return ["env", f"SGLANG_TORCH_PROFILER_DIR={machine.disk / 'traces'}", "/usr/bin/python3"], "sglang.launch_server", [
        "--tp-size", "4", "--dist-init-addr", f"{address(of)}:{MEET}"]


def vllm_launch(machine, of):
    profiler = json.dumps({"profiler": "torch", "torch_profiler_dir": str(machine.disk / "traces")})
    return ["/usr/bin/python3"], "vllm", ["serve", "model", "--headless", "--tensor-parallel-size", "4", "--master-addr", address(of),
                                          "--master-port", str(MEET), "--profiler-config", profiler]


@contextlib.contextmanager
def second_node(hosts, of, on, *options, launch=sglang_launch):
    """The second node of the engine whose server is on that host, on another one."""
    machine = hosts[on].machine
    before, name, after = launch(machine, of)
    program = hosts.directory / name
    shutil.copy(TESTS / "fleet/rank_launch.py", program)
    with machine.inside():
        process = subprocess.Popen([*machine.enter, *before, program, *after, "--nnodes", "2", "--node-rank", "1", "--control",
                                    hosts[of].fleet.control, *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield f"ranks://{address(of)}:{MEET}/1"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def launch_of_nobody(hosts, of, on, program="/bin/cat"):
    """A process of nobody with the command line of that second node, which waits."""
    machine = hosts[on].machine
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    words = ["-", "--", "sglang.launch_server", "--tp-size", "4", "--nnodes", "2", "--node-rank", "1", "--dist-init-addr", f"{address(of)}:{MEET}"]
    file = os.open(program, os.O_PATH)  # which only a process with this mount namespace gets rights from
    with machine.inside():
        process = subprocess.Popen(["env", f"SGLANG_TORCH_PROFILER_DIR={machine.disk / 'secret'}", *nobody, f"/proc/self/fd/{file}", *words],
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   pass_fds=[file])
    try:
        wait_for(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"/proc/self/fd"))
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()
        os.close(file)


def listed_ranks(host, url, ranks):
    """The ranks among the workers that the host lists, and the fleet's notes."""
    answer = host.get("/v1/workers", worker=url)
    return next((worker for worker in answer["workers"] if worker["url"] == ranks), None), "; ".join(answer.get("notes", []))


def record(host, url, **options):
    session = host.wait_session(host.start_session(workers=[url], duration_ns=S, **options)["session"])
    return session, {target["worker"]: target for target in session["targets"]}


@pytest.mark.parametrize(("of", "on"), [(1, 2), (2, 3), (2, 1)], ids=["own-server", "server-elsewhere", "own-ranks"])
def test_ranks_of_another_host_are_collected_there(hosts, of, on):
    """Coordinated by the first host, which has the server, the ranks, or neither."""
    url = hosts[of].fleet.workers[0]
    with second_node(hosts, of, on) as ranks:
        listed = {worker["url"]: worker for worker in hosts[1].get("/v1/workers", worker=url)["workers"]}
        assert listed[ranks]["ranks_of"] == url and listed[ranks]["host"] == hosts[on].name, listed
        session, targets = record(hosts[1], url)
    assert session["state"] == "complete", json.dumps(session, indent=1)
    assert targets.keys() == {url, ranks}
    assert targets[url]["ranks_expected"] == 2 and targets[ranks]["ranks_expected"] == 2
    traces = hosts[1].get("/v1/traces", session=session["session"])["traces"]
    assert sorted(trace["ranks"]["rank"] for trace in traces) == [0, 1, 2, 3]
    assert {trace["ranks"]["rank"] for trace in traces if trace["worker"] == ranks} == {2, 3}
    assert ranks in hosts[1].profctl("show", session["session"])


def test_missing_ranks_are_named_with_their_host(hosts):
    url = hosts[1].fleet.workers[0]
    with second_node(hosts, 1, 2, "--lost-ranks", "1") as ranks:
        session, targets = record(hosts[1], url)
    assert session["state"] == "partial" and targets[url]["state"] == "complete", json.dumps(session, indent=1)
    assert targets[ranks]["host"] == "gpu2" and targets[ranks]["failure"] == "1 of 2 ranks; missing or damaged: 3", targets[ranks]


def test_ranks_are_waited_for_until_their_server_has_stopped(hosts):
    """As long as the server has not answered its stop, its ranks write: much longer than files are waited for."""
    url = hosts[1].fleet.workers[0]
    hosts[1].fleet.set_fault("slow-stop", 3.5)
    try:
        with second_node(hosts, 1, 2, "--late-s", "3") as ranks:
            session, targets = record(hosts[1], url)
    finally:
        hosts[1].fleet.set_fault("none")
    assert session["state"] == "complete" and len(targets[ranks]["traces"]) == 2, json.dumps(session, indent=1)


def test_ranks_end_with_a_server_that_fails(hosts):
    url = hosts[1].fleet.workers[0]
    hosts[1].fleet.set_fault("start-500")
    try:
        with second_node(hosts, 1, 2, "--lost-ranks", "2") as ranks:  # which records nothing, as it was not told to
            began = time.monotonic()
            session = hosts[1].wait_session(hosts[1].start_session(workers=[url], duration_ns=50 * S)["session"])
    finally:
        hosts[1].fleet.set_fault("none")
    assert time.monotonic() - began < patience(40)
    (failed,) = [target for target in session["targets"] if target["worker"] == ranks]
    assert session["state"] == "failed" and f"{url}, which starts it, does not record" in failed["failure"], session


def test_ranks_that_no_host_has_are_expected_of_their_server(hosts):
    url = hosts[1].fleet.workers[0]
    session, targets = record(hosts[1], url)
    assert session["state"] == "partial" and targets.keys() == {url}
    assert targets[url]["failure"] == "2 of 4 ranks; missing or damaged: 2, 3"
    assert "a profd there collects them" in targets[url]["remedy"]


def test_ranks_of_vllm(tmp_path):
    with SeveralNodes(tmp_path, 2, workers=1, engine="vllm", options=("--ranks", "2", "--nodes", "2")) as hosts:
        url = hosts[1].fleet.workers[0]
        with second_node(hosts, 1, 2, launch=vllm_launch) as ranks:
            session, targets = record(hosts[1], url)
        assert session["state"] == "complete", json.dumps(session, indent=1)
        assert {worker: len(target["traces"]) for worker, target in targets.items()} == {url: 2, ranks: 2}


def test_a_set_uid_program_is_no_launch_of_root(hosts, tmp_path):
    """Who starts one chooses its command line and environment, and so what is read as root."""
    url, ranks = hosts[1].fleet.workers[0], f"ranks://{address(1)}:{MEET}/1"
    program = tmp_path / "set-uid"  # below a directory of root's, where nobody else starts it
    shutil.copy("/bin/cat", program)
    program.chmod(0o4755)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip("the directory of tests is mounted nosuid")
    with launch_of_nobody(hosts, of=1, on=2, program=program) as pid:
        status = Path(f"/proc/{pid}/status").read_text().split("Uid:\t")[1].split("\n")[0]
        assert status.split() == ["65534", "0", "0", "0"]
        assert listed_ranks(hosts[1], url, ranks)[0] is None
        found, notes = listed_ranks(hosts[2], url, ranks)
        assert found is None and f"{ranks}: process " in notes and "set-uid program" in notes, notes
        with second_node(hosts, 1, 2):  # which is not kept out by it
            found, notes = listed_ranks(hosts[2], url, ranks)
            assert found["profilable"] and "set-uid" not in notes, (found, notes)


def test_ranks_of_two_users_are_of_neither(hosts):
    url = hosts[1].fleet.workers[0]
    with second_node(hosts, 1, 2) as ranks:
        with launch_of_nobody(hosts, of=1, on=2):
            found, notes = listed_ranks(hosts[2], url, ranks)
            assert found is None and "of root and process" in notes and "of nobody" in notes, notes
            assert listed_ranks(hosts[1], url, ranks)[0] is None
        assert listed_ranks(hosts[2], url, ranks)[0]["profilable"]


def test_ranks_that_two_hosts_report_are_of_neither(hosts):
    """Whoever answers first."""
    url = hosts[1].fleet.workers[0]
    with second_node(hosts, 1, 2) as ranks, second_node(hosts, 1, 3):
        for asked in hosts:
            found, notes = listed_ranks(asked, url, ranks)
            assert not found["profilable"] and "host" not in found and "pid" not in found, found
            assert all(name in found["reason"] and name in notes for name in ("gpu2", "gpu3")), (found, notes)
        session, targets = record(hosts[1], url)
    assert session["state"] == "partial" and targets.keys() == {url}, json.dumps(session, indent=1)
