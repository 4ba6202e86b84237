# SPDX-License-Identifier: Apache-2.0
"""Real Slurm on this machine: a job whose steps are workers is found by its id and recorded, with its traces."""

import contextlib
import json
import random
import socket
import subprocess
import sys

import pytest

from daemon import BUILD, ROOT, Daemon, FaultFleet, quick_config, wait_for

sys.path.insert(0, str(ROOT / "tests/fleet"))
import slurm  # noqa: E402  # pylint: disable=wrong-import-position

PROFCTL = BUILD / "client/profctl"
HOST_LISTER = BUILD / "tests/integration/host-lister"
WORKER = ROOT / "tests/fleet/worker.py"
PYTHON = "/usr/bin/python3"
PORT = 8000


@pytest.fixture(name="cluster", scope="module")
def make_cluster(tmp_path_factory):
    """`./dev` installs Slurm: without it these tests fail."""
    assert not slurm.missing(), f"Slurm is not installed: apt-get install slurmctld slurmd slurm-client ({slurm.missing()})"
    with slurm.Slurm(tmp_path_factory.mktemp("slurm") / "cluster", nodes=3) as cluster:
        yield cluster


@pytest.fixture(name="profd")
def make_profd(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        yield profd


def profctl(cluster, profd, *words, **more):
    """As a user of the cluster types it; None takes a variable away."""
    environment = {key: value for key, value in {**cluster.environment, **more}.items() if value is not None}
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *map(str, words)], capture_output=True, text=True, check=False,
                          env=environment)
    return done.returncode, done.stdout, done.stderr


def urls(cluster, *names, port=PORT):
    return [f"http://{cluster.addresses[name]}:{port}" for name in names]


@contextlib.contextmanager
def job_of(cluster, script, nodes, *options):
    job = cluster.submit(script, nodes, *options)
    try:
        cluster.wait_running(job)
        yield job
    finally:
        cluster.run("scancel", job, check=False)
        wait_for(lambda: not cluster.run("squeue", "-h", "-j", job, check=False).strip(), 30)


@pytest.fixture(name="job", scope="module")
def make_job(cluster):
    """A job on two nodes: its step starts a worker on each, which listens on the address of its node, and records into a
    directory of its own."""
    traces = cluster.directory / "traces"
    worker = (f"exec {PYTHON} {WORKER} --engine vllm --host {cluster.network}.${{SLURMD_NODENAME#n}} --port {PORT} "
              f"--port-file {cluster.directory}/$SLURMD_NODENAME.url --profiler-config "
              f"'\\''{{\"profiler\":\"torch\",\"torch_profiler_dir\":\"{traces}/'\\''$SLURMD_NODENAME'\\''\"}}'\\''")
    with job_of(cluster, f"srun sh -c '{worker}'", 2) as job:
        wait_for(lambda: all((cluster.directory / f"{node}.url").exists() for node in ("n1", "n2")), 90,
                 why=lambda: cluster.job_log(job))
        yield job
    wait_for(lambda: not any(map(listens, urls(cluster, "n1", "n2"))), 60)


def listens(url):
    address, _, port = url.removeprefix("http://").partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((address, int(port))) == 0


@pytest.mark.smoke
def test_a_job_is_found_and_recorded(cluster, profd, job):
    """By its id, on the client; profd asks no Slurm. The nodes have addresses other than their names."""
    status, out, err = profctl(cluster, profd, "list-workers", "--slurm", f"{job}:{PORT}", "--json")
    assert status == 0, err
    answer = json.loads(out)
    assert answer["dialect"] == "slurm" and "router" not in answer
    assert [(worker["url"], worker["engine"], worker["profilable"]) for worker in answer["workers"]] == [
        (url, "vllm", True) for url in urls(cluster, "n1", "n2")]
    with load(urls(cluster, "n1", "n2")):
        status, out, err = profctl(cluster, profd, "start", "--slurm", job, "--port", PORT, "--duration", "1s", "--wait")
    assert status == 0, out + err
    (session,) = profd.get("/v1/sessions")["sessions"]
    assert session["state"] == "complete" and session["counts"]["complete"] == 2 and session["dialect"] == "slurm"
    traces = profd.traces(session=session["session"])
    assert {trace["worker"] for trace in traces} == set(urls(cluster, "n1", "n2"))
    status, out, err = profctl(cluster, profd, "analyze", session["session"])
    assert status == 0, err


@contextlib.contextmanager
def load(workers):
    """A recording without a step has no trace."""
    senders = [subprocess.Popen([PYTHON, ROOT / "tests/fleet/load.py", "--url", url, "--duration", "60", "--concurrency", "2"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for url in workers]
    try:
        yield
    finally:
        for sender in senders:
            sender.terminate()
        for sender in senders:
            sender.wait(10)


def test_inside_a_job_it_is_that_job(cluster, profd, job):
    """By its id; the list of nodes is for where Slurm's commands are not, as in a container."""
    nodes = f"{cluster.network}.[1-2]"
    for variables in ({"SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": "n1"}, {"SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": None},
                      {"SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": nodes, "PATH": "/nonexistent"}):
        status, out, err = profctl(cluster, profd, "list-workers", "--slurm", f":{PORT}", "--json", **variables)
        assert status == 0, err
        assert [worker["url"] for worker in json.loads(out)["workers"]] == urls(cluster, "n1", "n2")
    status, _, err = profctl(cluster, profd, "list-workers", "--slurm", f":{PORT}", SLURM_JOB_ID=None, SLURM_JOB_NODELIST=None)
    assert status == 2 and "runs in none" in err and "--slurm 4711:8000" in err, err


def test_a_step_of_the_job_records_it(cluster, profd, job):
    """profctl within the allocation, beside the workers' own step."""
    out = cluster.run("srun", "--jobid", job, "--overlap", "-N1", "-n1", str(PROFCTL), "--socket", str(profd.socket), "list-workers",
                      "--slurm", f":{PORT}", "--json")
    assert [worker["url"] for worker in json.loads(out)["workers"]] == urls(cluster, "n1", "n2")


def test_lists_of_nodes_and_ports(cluster, profd, tmp_path):
    """Names that Slurm knows become addresses, others stay; each node has each port."""
    status, out, err = profctl(cluster, profd, "list-workers", "--slurm", "n[2-3]:8100-8101", "--json")
    assert status == 0, err
    assert [worker["url"] for worker in json.loads(out)["workers"]] == [
        f"http://{cluster.addresses[node]}:{port}" for node in ("n2", "n3") for port in (8100, 8101)]
    status, out, err = profctl(cluster, profd, "list-workers", "--slurm", "n1,unknown.invalid:8100", "--json")
    workers = json.loads(out)["workers"]
    assert [worker["url"] for worker in workers] == ["http://n1:8100", "http://unknown.invalid:8100"], err
    assert workers[1]["remedy"] == "profd's host must know this name: getent hosts NAME."
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet:
        port = fleet.workers[0].rpartition(":")[2]
        status, out, err = profctl(cluster, profd, "list-workers", "--slurm", "127.0.0.[1-1]", "--port", port, "--json")
        assert status == 0 and [worker["engine"] for worker in json.loads(out)["workers"]] == ["vllm"], err


def test_jobs_that_have_no_nodes(cluster, profd):
    waiting = cluster.submit("sleep 60", 1, "--hold")
    try:
        status, _, err = profctl(cluster, profd, "list-workers", "--slurm", f"{waiting}:{PORT}")
        assert status != 0 and f"nothing of Slurm's job {waiting} is running: it is pending" in err and "--start" in err, err
    finally:
        cluster.run("scancel", waiting)
    status, _, err = profctl(cluster, profd, "list-workers", "--slurm", f"999999:{PORT}")
    assert status != 0 and "cannot find Slurm's job 999999: slurm_load_jobs error: Invalid job id specified" in err, err
    assert "squeue --me" in err


def test_an_array_is_all_its_running_elements(cluster, profd):
    with job_of(cluster, "sleep 120", 1, "--array=7", "--exclusive") as job:
        nodes = set(cluster.run("squeue", "-h", "-j", job, "-o", "%N").split())
        for name in (job, f"{job}_7"):
            status, out, err = profctl(cluster, profd, "list-workers", "--slurm", f"{name}:{PORT + 1}", "--json")
            assert status == 0, err
            assert {worker["url"] for worker in json.loads(out)["workers"]} == set(urls(cluster, *nodes, port=PORT + 1))


def test_settings_of_the_user_change_nothing(cluster, profd, job):
    """Filters and formats of squeue and sinfo, which many have in their profiles."""
    status, out, err = profctl(cluster, profd, "list-workers", "--slurm", f"{job}:{PORT}", "--json", SQUEUE_FORMAT="%A",
                               SQUEUE_STATES="PENDING", SQUEUE_USERS="nobody", SINFO_FORMAT="%P", SINFO_PARTITION="none")
    assert status == 0, err
    assert [worker["url"] for worker in json.loads(out)["workers"]] == urls(cluster, "n1", "n2")


def test_without_slurm(cluster, profd, tmp_path):
    """A node list works everywhere; a job's id needs Slurm's commands, and the error names the way without."""
    status, _, err = profctl(cluster, profd, "list-workers", "--slurm", f"4711:{PORT}", PATH=tmp_path)
    assert status != 0 and "squeue is not installed here" in err and "--slurm 'node[1-4]:8000'" in err, err
    status, out, err = profctl(cluster, profd, "list-workers", "--slurm", f"127.0.0.1:{PORT}", "--json", PATH=tmp_path)
    assert status == 0 and json.loads(out)["workers"][0]["url"] == f"http://127.0.0.1:{PORT}", err
    # A controller that is away: squeue's own words.
    (tmp_path / "slurm.conf").write_text(cluster.config.read_text().replace("SlurmctldPort=", "MessageTimeout=2\nSlurmctldPort=1\n#"))
    status, _, err = profctl(cluster, profd, "list-workers", "--slurm", f"4711:{PORT}", SLURM_CONF=tmp_path / "slurm.conf")
    assert status != 0 and "cannot ask Slurm for job 4711: slurm_load_jobs error" in err, err
    assert "squeue --me" not in err and "--slurm 'node[1-4]:8000'" in err, err


def test_tools_that_print_too_much(profd, tmp_path):
    """Warnings may be long; a list of nodes has an end."""

    def ask(squeue):
        for name, script in (("squeue", squeue), ("sinfo", "exit 1")):
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        done = subprocess.run([PROFCTL, "--socket", profd.socket, "list-workers", "--slurm", f"4711:{PORT}", "--json"],
                              capture_output=True, text=True, check=False, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
        return done.returncode, done.stdout, done.stderr

    status, out, err = ask("yes warning | head -n 20000 >&2; echo 'RUNNING|4711|127.0.0.1'")
    assert status == 0 and json.loads(out)["workers"][0]["url"] == f"http://127.0.0.1:{PORT}", err
    status, _, err = ask("yes 'RUNNING|4711|n1'")
    assert status != 0 and "squeue prints more than 16 MiB" in err, err


def test_a_configured_fleet_of_nodes(tmp_path, cluster, job):
    """profd expands the list; the names are those of the resolver."""
    addresses = f"{cluster.network}.[1-2]"
    with Daemon(tmp_path / "profd", quick_config(more=f"[fleet cluster]\nslurm={addresses}\nport={PORT}\n")) as profd:
        answer = profd.get("/v1/workers")
        assert answer["name"] == "cluster" and [worker["url"] for worker in answer["workers"]] == urls(cluster, "n1", "n2")
    code, errors = Daemon(tmp_path / "wrong", "[fleet a]\nslurm=n[1-2\nport=1\n").refuses()
    assert code != 0 and "slurm=n[1-2 has a [ without a ]" in errors, errors
    code, errors = Daemon(tmp_path / "worse", "[fleet a]\nslurm=n[1-2]\n").refuses()
    assert code != 0 and "has no port: append :PORT, or set port" in errors, errors


def test_lists_expand_as_slurm_expands_them(cluster):
    """Against scontrol itself. Text after brackets is newer than Debian's Slurm, and of three brackets the order differs."""
    draw = random.Random(7)
    lists = ["n[1-3,07-12],gpu[01-04]", "a[1-2]b[3-4]", "n[9-11]", "n[098-101]", "n[01-2]", "[1-3]", "a,,b", "a,a", "n[1-65536]"]
    for _ in range(40):
        entries = []
        for _ in range(draw.randrange(1, 4)):
            entry = draw.choice(("n", "node-", "gpu", "a.b", "x_", ""))
            for _ in range(draw.randrange(0, 3)):
                ranges = []
                for _ in range(draw.randrange(1, 4)):
                    low, width = draw.randrange(0, 120), draw.randrange(1, 5)
                    ranges.append(f"{low:0{width}}" + (f"-{low + draw.randrange(0, 30)}" if draw.random() < 0.6 else ""))
                entry += f"[{','.join(ranges)}]" + draw.choice(("", "r", "-"))
            entries.append(entry.rstrip("r-") or "z")
        lists.append(",".join(entries))
    compared = 0
    for text in lists:
        theirs = cluster.run("scontrol", "show", "hostnames", text, check=False).split("\n")[:-1]
        done = subprocess.run([HOST_LISTER, text], capture_output=True, text=True, check=False)
        if not theirs:
            assert done.returncode != 0, text
            continue
        assert done.stdout.split("\n")[:-1] == theirs, text
        compared += 1
    assert compared > 30
    for text in ("n[a,b]", "n[3-1]", "n[]", "n[1-65537]", "n[1,,2]"):
        assert cluster.run("scontrol", "show", "hostnames", text, check=False) == ""
        assert subprocess.run([HOST_LISTER, text], capture_output=True, check=False).returncode == 1
