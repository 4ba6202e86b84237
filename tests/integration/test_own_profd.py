# SPDX-License-Identifier: Apache-2.0
"""The profd of one's own: profctl starts it where none runs, one for all that ask."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from daemon import BUILD, END_S, SANITIZED, FaultFleet, wait_for
from home import SYSTEM_SOCKET, Home, clean_environment
from kineto_client import KinetoClient

FAKE_STATFS = BUILD / "tests/integration/libfake-statfs.so"
STARTED = re.compile(r"started your own profd: process (\d+), socket (\S+); it ends (?:with (job \d+|step \d+\.\d+), )?after 30min without work, "
                     r"or by kill (\d+)\n")


def end(pid):
    """Whose parent is gone: /proc tells when it is."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), END_S)


def started(r):
    """The process and the socket of the one profd that a profctl says that it started."""
    (pid, path, job, to_kill), = STARTED.findall(r.stderr)
    assert pid == to_kill
    return int(pid), Path(path), job


def status_of(pid, key):
    return re.search(rf"^{key}:\s+(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]


@pytest.fixture
def home():
    if SYSTEM_SOCKET.exists():
        pytest.skip("a system profd has its socket here")
    # pytest's directories may be closed to other users.
    with tempfile.TemporaryDirectory(prefix="home-") as path:
        home = Home(Path(path))
        yield home
        for pid in home.daemons():
            end(pid)


@pytest.fixture
def fleet(home):
    with FaultFleet(home.directory("fleet"), "vllm", 2, run_as=home.user) as fleet:
        yield fleet


def record(home, fleet, *words, env=None):
    r = home.run("start", "--router", fleet.router, "--duration", "200ms", "--wait", *words, env=env)
    assert r.returncode == 0, r.stderr
    return r


# It begins


def test_the_first_start_starts_it_and_the_next_uses_it(home, fleet):
    first = record(home, fleet)
    pid, path, _ = started(first)
    state = home.home / ".local/state/profd"
    assert path == state / "profd.sock" and home.daemons() == [pid]
    assert "Session s1 is complete: 2 of 2 workers, 2 traces" in first.stdout
    second = record(home, fleet)
    assert "Session s2 is complete" in second.stdout and not STARTED.search(second.stderr)
    assert home.daemons() == [pid]
    assert "profd 0." in home.run("status").stdout
    # Nothing of profctl's holds it, and nobody else may look.
    assert os.getsid(pid) == pid
    if os.geteuid() == 0:
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert {os.readlink(f"/proc/{pid}/fd/{n}") for n in (1, 2)} == {str(state / "profd.log")}
        assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert state.stat().st_mode & 0o027 == 0
    if home.user:
        assert status_of(pid, "Uid").split() == [str(home.user)] * 4
    log = (state / "profd.log").read_text()
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d profd: .* is ready: ", log, re.MULTILINE)
    assert "session s2 is complete" in log


LOOK_INTO = """
import os, sys
for name in ("mem", "environ", "fd", "maps", "cwd"):
    path = f"/proc/{sys.argv[1]}/{name}"
    try:
        os.readlink(path) if name == "cwd" else os.close(os.open(path, os.O_RDONLY))
        print(name)
    except PermissionError:
        pass
"""


def test_other_processes_of_its_user_do_not_look_into_it(home, fleet):
    """Its memory has tokens, its descriptors the catalog; a child of it that is taken over has the same user."""
    pid, _, _ = started(record(home, fleet))
    done = subprocess.run([sys.executable, "-c", LOOK_INTO, str(pid)], capture_output=True, text=True, timeout=60, user=home.user,
                          cwd="/")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_is_in_the_cgroup_of_who_started_it(home, fleet):
    pid, _, _ = started(record(home, fleet))
    assert Path(f"/proc/{pid}/cgroup").read_text() == Path("/proc/self/cgroup").read_text()


def test_quiet_is_quiet(home, fleet):
    assert home.run("start", "--router", fleet.router, "--duration", "100ms", "--quiet").stderr == ""
    assert len(home.daemons()) == 1


def test_many_at_once_end_with_one(home, fleet):
    calls = [home.spawn("start", "--router", fleet.router, "--duration", "100ms", "--queue", "--wait") for _ in range(4)]
    answers = [call.communicate(timeout=120) for call in calls]
    assert [call.returncode for call in calls] == [0] * 4, answers
    pids = [pid for _, said in answers for pid, *_ in STARTED.findall(said)]
    assert len(pids) == 1 and home.daemons() == [int(pids[0])]
    assert sorted(re.search(r"Session (s\d)", out)[1] for out, _ in answers) == ["s1", "s2", "s3", "s4"]


def test_a_start_waits_its_turn_after_an_ingest(home, fleet):
    events = ",".join('{"ph":"X","cat":"kernel","name":"k%d","pid":0,"tid":7,"ts":%d,"dur":1}' % (i, i) for i in range(100000))
    (home.path / "big.json").write_text('{"traceEvents":[' + events + "]}")
    (home.path / "big.json").chmod(0o644)
    ingest = home.spawn("ingest", home.path / "big.json")
    wait_for(lambda: len(home.daemons()) >= 2)
    started(record(home, fleet))
    out, said = ingest.communicate(timeout=120)
    assert ingest.returncode == 0, said
    assert len(json.loads(home.run("list-traces", "--json").stdout)["traces"]) == 3


def test_a_stale_socket_is_taken_over(home, fleet):
    pid, path, _ = started(record(home, fleet))
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: home.daemons() == [])
    assert path.is_socket()
    other, same, _ = started(record(home, fleet))
    assert other != pid and same == path and home.daemons() == [other]


def test_one_that_ends_is_waited_for(home, fleet):
    with FaultFleet(home.directory("slow"), "vllm", 1, "--fault", "slow-stop=2", run_as=home.user) as slow:
        r = home.run("start", "--router", slow.router, "--duration", "1min")
        pid, _, _ = started(r)
        wait_for(lambda: '"recording"' in home.run("list-sessions", "--json").stdout)
        os.kill(pid, signal.SIGTERM)
        other, _, _ = started(record(home, fleet))
        assert home.daemons() == [other] != [pid]


def test_the_runtime_directory_is_its_place(home, fleet):
    runtime = home.directory("run")
    _, path, _ = started(record(home, fleet, env={"XDG_RUNTIME_DIR": str(runtime)}))
    assert path == runtime / "profd/profd.sock"


# PyTorch processes, which register with it


def test_a_user_outside_the_group_records_his_own_processes_on_demand(home):
    """Neither the service nor its group: profctl starts a profd that has a directory for the processes' sockets."""
    env = {"XDG_RUNTIME_DIR": str(home.directory("run"))}
    traces = home.directory("traces")
    (home.home / ".config/profd").mkdir(parents=True)
    (home.home / ".config/profd/profd.conf").write_text("[kineto]\npoll=500ms\nwarmup=0s\n[collect]\nsettle=1s\n")
    first = home.run("start", "--kineto", "--duration", "200ms", "--wait", env=env)
    pid, _, _ = started(first)
    assert first.returncode == 1 and "no process has registered" in first.stderr, first.stderr
    variables = dict(re.findall(r"(KINETO_\w+)=(\S+)", first.stderr.split("when they are started with")[1].split("in their")[0]))
    directory = Path(variables["KINETO_IPC_SOCKET_DIR"])
    assert variables["KINETO_USE_DAEMON"] == "1" and directory == home.path / "run/profd/kineto"
    assert directory.stat().st_mode & 0o077 == 0 and directory.stat().st_uid == (home.user or os.geteuid())
    as_user = ["setpriv", f"--reuid={home.user}"] if home.user else []
    with KinetoClient(home.path, directory, traces, ["--interval", 500, "--tick", 100], {"RANK": 2}, prefix=as_user) as client:
        listed = wait_for(lambda: json.loads(home.run("list-workers", "--kineto", "--json", env=env).stdout)["workers"], END_S)
        assert [(w["pid"], w["profilable"]) for w in listed] == [(client.pid, True)]
        done = home.run("start", "--kineto", "--duration", "200ms", "--wait", env=env)
        assert done.returncode == 0 and "is complete: 1 of 1 worker, 1 trace," in done.stdout, (done, client.text())
        assert not STARTED.search(done.stderr) and home.daemons() == [pid]
    trace, = json.loads(home.run("list-traces", "--json", env=env).stdout)["traces"]
    assert trace["ranks"]["rank"] == 2 and trace["name"].startswith("s")


# Or does not


def test_no_instance_is_started_where_an_address_was_named(home, fleet):
    none = str(home.path / "none.sock")
    for words, env in ((["--socket", none], {}), (["--host", "http://127.0.0.1:1"], {}), ([], {"PROFD_SOCKET": none}), (["--bus"], {})):
        r = home.run("start", "--router", fleet.router, *words, env=env)
        assert r.returncode == 1 and not STARTED.search(r.stderr), words
    assert home.daemons() == []


def test_a_wrong_command_line_starts_none(home):
    assert home.run("start", "--wait", "--detach").returncode == 2
    assert home.daemons() == [] and not (home.home / ".local").exists()


@pytest.mark.parametrize("name, shown", [("nfs", "NFS"), ("lustre", "Lustre")])
def test_a_home_on_the_network_is_refused_with_what_to_do(home, fleet, name, shown):
    if SANITIZED:
        pytest.skip("the sanitizer's runtime must be loaded before the shim")
    shim = shutil.copy(FAKE_STATFS, home.path)
    remote = home.directory(name)
    r = home.run("start", "--router", fleet.router, env={"LD_PRELOAD": str(shim), "XDG_STATE_HOME": str(remote)})
    assert r.returncode == 1 and "your own one ended immediately" in r.stderr
    assert f"{remote}/profd is on {shown}" in r.stderr and "XDG_STATE_HOME=/var/tmp" in r.stderr
    assert home.daemons() == [] and not (remote / "profd/catalog.db").exists()


def test_what_keeps_it_from_starting_is_reported(home, fleet):
    (home.home / ".config/profd").mkdir(parents=True)
    (home.home / ".config/profd/profd.conf").write_text("[profd]\nlog_levle=debug\n")
    r = home.run("start", "--router", fleet.router)
    assert r.returncode == 1 and "log_levle: no such key; did you mean log_level?" in r.stderr
    assert home.daemons() == []


@pytest.mark.parametrize("env, path", [({"XDG_RUNTIME_DIR": "/proc/1"}, "/proc/1/profd"), ({"HOME": "/proc"}, "/proc/.local/state/profd")])
def test_a_directory_that_cannot_be_used_is_reported(home, fleet, env, path):
    for words in (["start", "--router", fleet.router], ["list-sessions"]):
        r = home.run(*words, env=env)
        assert r.returncode == 1 and f"cannot use directory {path}: " in r.stderr and "$XDG_RUNTIME_DIR" in r.stderr, words


# What follows a start


def test_verbs_that_only_look_start_none(home, fleet):
    pid, _, _ = started(record(home, fleet))
    end(pid)
    r = home.run("status")
    assert r.returncode == 1 and r.stdout.startswith(f"No profd is running, state in {home.home}/.local/state/profd: 2 traces, ")
    assert "Session s1 is complete" in r.stdout
    assert home.run("status", "s1").returncode == 0
    assert home.run("stop").returncode == 4  # no session is running
    assert home.run("list-sessions", "--no-legend").stdout.split()[:2] == ["s1", "complete"]
    assert home.run("list-workers", "--router", fleet.router, "--json").returncode == 0
    assert home.run("doctor", "--router", fleet.router).returncode == 0
    assert home.daemons() == []


def test_a_session_whose_profd_was_killed_is_stopped_by_the_next(home, fleet):
    r = home.run("start", "--router", fleet.router, "--duration", "10min")
    pid, _, _ = started(r)
    wait_for(lambda: fleet.journal()["profiling"] == 2)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: home.daemons() == [])
    r = home.run("status", "s1")
    assert r.returncode == 0 and "No profd is running to continue it; profctl stop s1" in r.stderr
    assert home.daemons() == [] and fleet.journal()["profiling"] == 2
    r = home.run("stop", "--wait")
    assert started(r) and "Session s1 is " in r.stdout, r
    assert fleet.journal()["profiling"] == 0


# A Slurm job


def test_each_job_has_its_own(home, fleet):
    runtime = home.directory("run")
    jobs = [{"SLURM_JOB_ID": n, "XDG_RUNTIME_DIR": str(runtime)} for n in ("41", "42")]
    found = []
    for env in jobs:
        pid, path, job = started(record(home, fleet, env=env))
        state = home.home / f".local/state/profd/job-{env['SLURM_JOB_ID']}"
        assert path == state / "profd.sock" and job == "job " + env["SLURM_JOB_ID"] and (state / "catalog.db").exists()
        found.append(pid)
    assert sorted(home.daemons()) == sorted(found)
    assert list(runtime.iterdir()) == []
    # Nor do they meet that of no job; what a job recorded is there when it is over.
    assert home.run("list-sessions", "--no-legend").stdout == ""
    end(found[0])
    assert "s1" in home.run("list-sessions", "--no-legend", env=jobs[0]).stdout
    assert home.daemons() == [found[1]]


def test_what_old_jobs_left_goes(home, fleet):
    """Only what nobody uses, and of which it is certain whose it is."""
    parent = home.home / ".local/state/profd"
    own = {"SLURM_JOB_ID": "41"}
    pid, _, _ = started(record(home, fleet, env=own))
    end(pid)

    def make(name, days, of=parent):
        shutil.copytree(parent / "job-41", of / name)
        for path in (*(of / name).rglob("*"), of / name):
            if home.user:
                os.chown(path, home.user, home.user)
            os.utime(path, (time.time() - days * 86400,) * 2)
        return of / name

    old, recent, held, runs, current = (make(f"job-{n}", days) for n, days in
                                        ((50, 31), (51, 29), (52, 31), (53, 31), (54, 31)))
    others = [make("job-5x", 31), make("jobs", 31), make("elsewhere", 31, home.directory("other"))]
    (parent / "job-55").symlink_to(others[-1])
    half = make("job-56.removing", 0)
    (half / "catalog.db").unlink()
    process = subprocess.Popen(["sleep", "60"], env={"SLURM_JOB_ID": "53"}, user=home.user)
    try:
        with open(held / "catalog.db.lock", "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            r = record(home, fleet, env={"SLURM_JOB_ID": "54"})
    finally:
        process.kill()
        process.wait()
    assert re.findall(r"deleted the unused state of your profd of job (\d+): (\S+) \(not used for 30 days\)", r.stderr) == [
        ("50", str(old))]
    assert not old.exists() and not half.exists()
    kept = (recent, held, runs, current, *others, parent / "job-41", parent / "job-55")
    assert all((path / "catalog.db").exists() for path in kept)


def test_a_step_of_a_job_is_reported_to_end_sooner(home, fleet):
    env = {"SLURM_JOB_ID": "41", "SLURM_STEP_ID": "3"}
    assert started(record(home, fleet, env=env))[2] == "step 41.3"
    (pid,) = home.daemons()
    end(pid)
    shell = {**env, "SLURM_STEP_ID": "4294967290"}
    assert started(record(home, fleet, env=shell))[2] == "job 41"


def test_what_is_no_job_is_no_part_of_a_path(home, fleet):
    _, path, job = started(record(home, fleet, env={"SLURM_JOB_ID": "../../x"}))
    assert path == home.home / ".local/state/profd/profd.sock" and not job


# Root, and a host that has profd as a service

IN_A_HOST = ("mount -t tmpfs tmpfs /run && mkdir -p /run/systemd && mount -t tmpfs tmpfs /var/lib && "
             "mount -t tmpfs tmpfs /etc/systemd && cd / && ")


def in_a_host(script, *args):
    """A shell of root's whose /run, /var/lib and /etc/systemd are its own."""
    return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", IN_A_HOST + script, "sh", *map(str, args)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, env=clean_environment(), check=False)


@pytest.fixture
def host():
    if os.geteuid() != 0:
        pytest.skip("needs root for a /run of its own")
    if in_a_host("true").returncode != 0:
        pytest.skip("may not mount here")
    return in_a_host


def test_root_without_a_service_gets_one_too(host, home, fleet):
    r = host('"$1" start --router "$2" --duration 200ms --wait && "$1" status && cat /var/lib/profd/profd.log', home.profctl, fleet.router)
    assert r.returncode == 0, r.stderr
    _, path, _ = started(r)
    assert path == SYSTEM_SOCKET and "state in /var/lib/profd" in r.stdout


def test_root_removes_nothing_of_others(host, home, fleet):
    """The directory of root's profd is the service's user's, who may give anything there the name of an old job."""
    make = "for n in 5 6; do mkdir -p job-$n.removing/traces/s1 && echo x > job-$n.removing/traces/s1/file; done; "
    links = "mkdir kept && touch kept/file && ln -s ../kept job-6.removing/link && ln -s kept job-7.removing; "
    r = host(f'mkdir /var/lib/profd && cd /var/lib/profd && {make}{links}chown -R {home.user} job-5.removing; '
             'SLURM_JOB_ID=9 "$1" start --router "$2" --duration 200ms --wait && ls -d job-*.removing/* kept/*',
             home.profctl, fleet.router)
    assert r.returncode == 0, r.stderr
    assert r.stdout.split()[-3:] == ["job-5.removing/traces", "job-7.removing/file", "kept/file"]


@pytest.mark.parametrize("wants", ["sockets.target.wants/profd.socket", "multi-user.target.wants/profd.service"])
@pytest.mark.parametrize("who", ["root", "user"])
def test_never_in_place_of_the_service(host, home, fleet, wants, who):
    as_who = "" if who == "root" else f"setpriv --reuid={home.user} --regid={home.user} --clear-groups "
    r = host('mkdir -p /run/systemd/system "/etc/systemd/system/${3%/*}"; ln -s /nonexistent "/etc/systemd/system/$3"; '
             f'HOME=$4 {as_who}"$1" start --router "$2"', home.profctl, fleet.router, wants, home.home)
    assert r.returncode == 1 and "profd is a service of this host, and is not running" in r.stderr, r.stderr
    assert "systemctl start profd" in r.stderr and ("usermod -aG profd" in r.stderr) == (who == "user")
    assert home.daemons() == []


def test_who_may_not_use_the_service_gets_no_other(host, home, fleet):
    """Its socket is there and answers, but to others."""
    r = host('mkdir /run/profd; python3 -c "import socket, sys, os, subprocess; s = socket.socket(socket.AF_UNIX); '
             "s.bind('/run/profd/profd.sock'); os.chmod('/run/profd/profd.sock', 0o660); s.listen(); "
             'sys.exit(subprocess.call(sys.argv[1:]))" '
             f'setpriv --reuid={home.user} --regid={home.user} --clear-groups env HOME="$3" "$1" start --router "$2"',
             home.profctl, fleet.router, home.home)
    assert r.returncode == 1 and "cannot reach profd at /run/profd/profd.sock: Permission denied" in r.stderr
    assert "usermod -aG profd" in r.stderr and home.daemons() == []
