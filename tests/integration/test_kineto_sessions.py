# SPDX-License-Identifier: Apache-2.0
"""Sessions of processes that registered for Kineto's on-demand recording, alone and together with workers over HTTP.

The processes are doubles (tests/fleet/kineto-client.c) that poll quickly, and profd is configured for that.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from daemon import BUILD, FAULT_WORKER, Daemon, FaultFleet, free_port, quick_config, token_line, wait_for, write_tokens
from kineto_client import KinetoClient
from patience import patience

PROFCTL = BUILD / "client/profctl"
QUICK = ("--interval", 200, "--tick", 100)
SLOW = ("--interval", 4000, "--tick", 100)
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
SECOND = 1_000_000_000
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="another user's processes need root")


@pytest.fixture
def place():
    """Directories whose names are short enough for sockets: sock, traces, and room for profd."""
    root = Path(tempfile.mkdtemp(prefix="kineto-", dir="/tmp"))
    root.chmod(0o755)
    for name in ("sock", "traces"):
        (root / name).mkdir()
        (root / name).chmod(0o1777)
    yield root
    shutil.rmtree(root)


def config(place, poll="500ms", more=""):
    return quick_config(settle="1s", more=f"[kineto]\nlisten={place}/sock\npoll={poll}\nwarmup=0s\n{more}")


@pytest.fixture
def profd(place):
    with Daemon(place / "profd", config(place)) as daemon:
        yield daemon


def process(place, *options, quick=QUICK, environment=None, command=(), prefix=(), traces=None):
    return KinetoClient(place, place / "sock", traces or place / "traces", [*quick, *options], environment, command, prefix)


def registered(profd, n=1, **query):
    """The processes, when there are so many."""

    def look():
        found = [w for w in profd.get("/v1/workers", kineto="true", **query)["workers"] if "process" in w]
        return len(found) == n and found

    return wait_for(look, 30, why=profd.log)


@contextlib.contextmanager
def processes(place, n, *options, environment=None):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(process(place, *options, environment={
            "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": n, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500,
            "CUDA_VISIBLE_DEVICES": rank, **(environment or {})})) for rank in range(n)]


def profctl(profd, *words, status=0):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *map(str, words)], capture_output=True, text=True,
                          timeout=patience(120), stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert done.returncode == status, done.stdout + done.stderr
    return done


def start(profd, duration_s=0.5, kineto=None, **request):
    return profd.start_session(kineto=kineto or {}, duration_ns=int(duration_s * SECOND), **request)


def remarks(session):
    return " | ".join(item["text"] for item in session.get("remarks", []))


def only_target(session):
    assert len(session["targets"]) == 1
    return session["targets"][0]


# -- Lists ---------------------------------------------------------------------------------------------------------------


def test_processes_are_listed_with_what_is_known(place, profd):
    environment = {"RANK": 3, "LOCAL_RANK": 1, "WORLD_SIZE": 8, "CUDA_VISIBLE_DEVICES": "1", "SLURM_JOB_ID": 4711,
                   "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": 29500}
    with process(place, environment=environment) as client:
        worker = registered(profd)[0]
        facts = worker["process"]
        assert worker["engine"] == "pytorch" and worker["profilable"] and worker["local"]
        assert worker["pid"] == client.pid and worker["uid"] == os.geteuid()
        assert worker["url"] == f"kineto://{client.pid}.{facts['start_ticks']}"
        assert (facts["rank"], facts["local_rank"], facts["world_size"]) == (3, 1, 8)
        assert (facts["gpus"], facts["slurm_job"], facts["recording"]) == ("1", 4711, False)
        assert "kineto-client" in facts["command"] and facts["transport"] == f"{place}/sock"
        assert facts["trace_root"] == worker["traces"]["local_dir"] == f"{place}/traces"
        assert "temp_dir" not in worker["traces"]  # Kineto has no use for $TMPDIR
        assert worker["traces"]["found_by"].startswith("KINETO_ONDEMAND_TRACE_DIR of process")
        assert abs(facts["registered_at"] / SECOND - time.time()) < 60
        assert worker["group"] == "10.0.0.1:29500"
        text = profctl(profd, "list-workers", "--kineto").stdout
        assert re.search(rf"{client.pid} +\S+ +3 +4711 +1 .* idle .*kineto-client", text), text
        client.start_profiler()
        wait_for(lambda: registered(profd)[0]["process"]["recording"])
        assert " recording " in profctl(profd, "list-workers", "--kineto").stdout


def test_selection(place, profd):
    with process(place, environment={"SLURM_JOB_ID": 1}) as one, process(place, environment={"SLURM_JOB_ID": 2}) as two:
        registered(profd, 2)
        pids = {name: client.pid for name, client in (("one", one), ("two", two))}

        def chosen(*options):
            fleet = json.loads(profctl(profd, "list-workers", "--json", *options).stdout)
            return {w["pid"] for w in fleet["workers"]}

        both = set(pids.values())
        assert chosen("--kineto") == chosen("--uid", os.geteuid()) == chosen("--pid", one.pid, "--pid", two.pid) == both
        assert chosen("--pid", one.pid) == chosen("--slurm-job", 1) == {one.pid}
        assert chosen("--slurm-job", 2, "--uid", os.geteuid()) == {two.pid}
        assert chosen("--slurm-job", 1, "--pid", two.pid) == set()
        assert chosen("--uid", os.geteuid() + 1) == set()
        assert chosen("--kineto", "--unit", "no-such-unit") == set()
        done = profctl(profd, "list-workers", "--slurm-job", 3)
        assert "2 processes registered, but the selection includes none of them" in done.stderr


@pytest.mark.parametrize("kineto,text", [
    ([], "kineto must be an object"), ({"pids": "1"}, "kineto.pids must be a list"), ({"pids": [-1]}, "list of numbers"),
    ({"units": [""]}, "kineto.units must be a list of names"), ({"gpu": []}, 'no member "gpu"')])
def test_what_a_request_may_not_say(profd, kineto, text):
    problem = profd.problem("POST", "/v1/sessions", {"kineto": kineto}, 400)
    assert text in problem["title"] + problem.get("detail", ""), problem


def test_nothing_registered(place, profd):
    done = profctl(profd, "start", "--kineto", status=1)
    assert f"no process has registered; start it with KINETO_USE_DAEMON=1 KINETO_IPC_SOCKET_DIR={place}/sock" in done.stderr
    done = profctl(profd, "doctor", "--kineto", status=1)
    assert "FAIL  no process has registered; start it with KINETO_USE_DAEMON=1" in done.stdout, done.stdout
    assert "profctl list-workers --kineto" in done.stdout and "router" not in done.stdout, done.stdout


def test_without_listen(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        done = profctl(profd, "list-workers", "--kineto", status=1)
        assert "profd does not listen for processes" in done.stderr and "[kineto] listen=" in done.stderr
        assert "restart profd" in done.stderr


# -- Recordings ----------------------------------------------------------------------------------------------------------


def test_one_process(place, profd):
    with process(place) as client:
        registered(profd)
        before = time.time()
        started = start(profd)
        assert "all recordings start at" in remarks(started) and ", 2.5s after the request" in remarks(started)
        session = profd.wait_session(started["session"])
        target = only_target(session)
        assert session["state"] == target["state"] == "complete"
        shown = profctl(profd, "show", started["session"]).stdout
        assert re.search(r"pytorch +unknown +complete +- +t", shown), shown  # no stop, and so no time of one
        assert session["start_at"] / SECOND >= before + 2.5
        assert target["start_sent_at"] == session["start_at"] and session["skew_ns"] == 0
        trace = profd.traces(session=session["session"])[0]
        assert re.fullmatch(rf"s1-w0-\d+-[0-9a-f]{{16}}_{client.pid}\.pt\.trace\.json", trace["name"])
        text = client.text()
        assert any(line.startswith("REQUEST_TRACE_ID=s1-w0-") for line in text)
        assert "ACTIVITIES_WARMUP_PERIOD_SECS=0" in text and "recording" in text
        assert "2 of 2" not in remarks(session)


def test_eight_ranks_are_one_instance(place, profd):
    with processes(place, 8):
        listed = registered(profd, 8)
        assert len({w["group"] for w in listed}) == 1 and [w["process"]["rank"] for w in listed] == list(range(8))
        session = profd.wait_session(start(profd)["session"])
        assert session["state"] == "complete" and len(session["targets"]) == 8
        traces = profd.traces(session=session["session"])
        assert sorted(trace["ranks"]["rank"] for trace in traces) == list(range(8))
        assert len({trace["instance"] for trace in traces}) == 1
        text = profctl(profd, "analyze", session["session"]).stdout
        assert "8 ranks · " in text and "engine instances" not in text, text


def test_ranks_of_traces_without_process_groups(place, profd):
    """The trace has no distributedInfo; the process's environment has its rank."""
    with process(place, environment={"RANK": 5}):
        registered(profd)
        session = profd.wait_session(start(profd)["session"])
        assert [trace["ranks"]["rank"] for trace in profd.traces(session=session["session"])] == [5]


def test_together_with_a_router(place, profd):
    with FaultFleet(place / "fleet", "vllm", 2) as fleet, process(place) as client:
        registered(profd)
        session = profd.wait_session(start(profd, router=fleet.router)["session"])
        assert session["state"] == "complete" and len(session["targets"]) == 3
        starts = {t["engine"]: t["start_sent_at"] for t in session["targets"]}
        assert starts["pytorch"] == session["start_at"]
        assert 0 <= starts["vllm"] - session["start_at"] < 2 * SECOND  # they leave then, not before
        assert "belongs to" not in remarks(session)
        assert "recording" in client.text()
        text = profctl(profd, "list-workers", "--kineto", "--router", fleet.router).stdout
        assert text.index("http://") < text.index("COMMAND") < text.index(str(client.pid)), text


def test_a_process_of_a_worker_is_recorded_over_http(place, profd):
    port_file = place / "ports"
    (place / "fleet").mkdir()
    with process(place, command=[FAULT_WORKER, "--engine", "vllm", "--count", 1, "--dir", place / "fleet", "--port-file", port_file,
                                 "--life", 120]) as client:
        url = wait_for(lambda: port_file.exists() and json.loads(port_file.read_text() or "{}").get("workers"))[0]
        assert registered(profd, 1, worker=url)[0]["same_as"] == url
        started = start(profd, workers=[url])
        assert f"belongs to {url}, which is recorded over HTTP" in remarks(started)
        session = profd.wait_session(started["session"])
        assert only_target(session)["worker"] == url and session["state"] == "complete"
        assert "Received config" not in "\n".join(client.text())


def test_one_session_for_a_process(place, profd):
    with process(place):
        url = registered(profd)[0]["url"]
        first = start(profd, 2)
        problem = profd.problem("POST", "/v1/sessions", {"kineto": {}}, 409)
        assert f"{url} is held by {first['session']}" in problem["title"] + problem.get("detail", "")
        queued = start(profd, queue=True)
        assert "starts 2.5s after its workers are free" in remarks(queued)
        assert profd.wait_session(first["session"])["state"] == "complete"
        assert profd.wait_session(queued["session"])["state"] == "complete"


def test_a_start_time_that_is_too_soon_is_moved(place, profd):
    with process(place):
        registered(profd)
        now = int(time.time() * SECOND)
        session = start(profd, start_at=now + SECOND)
        assert "all recordings start at" in remarks(session) and ", 2.5s after the request" in remarks(session)
        session = profd.wait_session(session["session"])
        assert session["state"] == "complete" and session["start_at"] >= now + 2.5 * SECOND


def test_a_start_time_that_is_far_enough_ahead_is_kept(place, profd):
    with process(place):
        registered(profd)
        at = (int(time.time()) + 5) * SECOND
        session = profd.wait_session(start(profd, start_at=at)["session"])
        assert session["state"] == "complete" and session["start_at"] == at


@pytest.mark.parametrize("request_,option", [
    ({"steps": 5}, "--steps"), ({"start_step": 5}, "--start-step"), ({"steps": 5, "by_stage": True}, "--steps"),
    ({"activities": ["cuda-profiler"]}, "--activities"), ({"when_running": 1}, "--when-running"), ({"prompt": "Hello"}, "--prompt")])
def test_what_cannot_be_honoured_is_said_before_the_start(place, profd, request_, option):
    with process(place):
        registered(profd)
        problem = profd.problem("POST", "/v1/sessions", {"kineto": {}, **request_}, 422)
        assert option in problem["title"] + problem.get("detail", ""), problem


def test_options_reach_the_process(place, profd):
    with process(place) as client:
        registered(profd)
        session = start(profd, with_stack=True, record_shapes=True, activities=["cpu", "mem"])
        assert "may crash when stacks are recorded" in remarks(session)
        profd.wait_session(session["session"])
        text = client.text()
        for line in ("PROFILE_WITH_STACK=true", "PROFILE_REPORT_INPUT_SHAPES=true", "PROFILE_PROFILE_MEMORY=true"):
            assert line in text
        assert any(line.startswith("ACTIVITY_TYPES=cpu_op,") and "kernel" not in line for line in text)


# -- What goes wrong -----------------------------------------------------------------------------------------------------


def test_a_busy_profiler(place, profd):
    with process(place) as busy, process(place) as idle:
        workers = {w["pid"]: w["url"] for w in registered(profd, 2)}
        busy.start_profiler()
        wait_for(lambda: any(w["process"]["recording"] for w in registered(profd, 2)))
        session = profd.wait_session(start(profd)["session"])
        targets = {t["worker"]: t for t in session["targets"]}
        assert session["state"] == "partial" and targets[workers[idle.pid]]["state"] == "complete"
        failed = targets[workers[busy.pid]]
        assert failed["state"] == "failed" and "its profiler is active" in failed["failure"]


def test_all_or_none(place, profd):
    with process(place) as busy, process(place) as idle:
        registered(profd, 2)
        busy.start_profiler()
        wait_for(lambda: any(w["process"]["recording"] for w in registered(profd, 2)))
        session = profd.wait_session(start(profd, require_all=True)["session"])
        assert session["state"] in ("failed", "cancelled") and "all workers are required" in session["reason"]
        time.sleep(1)
        assert "recording" not in idle.text()


def test_a_process_that_ends_before_it_fetches(place):
    with Daemon(place / "profd", config(place, poll="4s")) as profd, process(place, quick=SLOW) as client:
        registered(profd)
        started = start(profd)
        profd.wait_state(started["session"], "starting")
        client.kill()
        session = profd.wait_session(started["session"])
        target = only_target(session)
        assert session["state"] == "failed"
        assert re.search("ended before it fetched|did not fetch", target["failure"]), target


@pytest.mark.parametrize("when", ["fetched", "recording", "writing"])
def test_a_process_that_ends_later(place, profd, when):
    with process(place, "--end", when):
        registered(profd)
        session = profd.wait_session(start(profd)["session"])
        target = only_target(session)
        assert session["state"] == "failed" and target["state"] == "failed"
        assert re.search("the process ended|recorded nothing", target["failure"]), target
        assert not profd.traces(session=session["session"])


def test_a_recording_without_a_file(place, profd):
    with process(place, "--no-file"):
        registered(profd)
        session = profd.wait_session(start(profd)["session"])
        target = only_target(session)
        assert session["state"] == "failed" and target["failure"].startswith("recorded nothing: its time is over, and no trace")
        for reason in ("too late for its warm-up", "another profiler was active", "KINETO_ONDEMAND_TRACE_DIR"):
            assert reason in target["remedy"]


def test_a_local_profiler_cancels_the_recording(place, profd):
    with process(place) as client:
        registered(profd)
        started = start(profd, 3)
        client.wait_line("^recording")
        client.start_profiler()
        client.stop_profiler()
        session = profd.wait_session(started["session"])
        assert only_target(session)["failure"].startswith("recorded nothing")


def test_a_directory_that_is_missing_is_refused_before_the_start(place, profd):
    with process(place, traces=place / "missing"):
        worker = registered(profd)[0]
        assert "Kineto does not make it" in worker["traces"]["note"]
        text = profctl(profd, "list-workers", "--kineto").stdout
        assert "is not a directory, and Kineto does not" in text and f"mkdir {place}/missing" in text, text
        problem = profd.problem("POST", "/v1/sessions", {"kineto": {}})
        assert "is not a directory" in problem["detail"] and f"mkdir {place}/missing" in problem["remedy"], problem


@needs_root
def test_a_directory_that_its_user_may_not_write_to(place, profd):
    (place / "closed").mkdir(mode=0o755)
    with process(place, traces=place / "closed", prefix=AS_NOBODY):
        registered(profd)
        problem = profd.problem("POST", "/v1/sessions", {"kineto": {}})
        assert "may not write there" in problem["detail"] and "KINETO_ONDEMAND_TRACE_DIR=DIR" in problem["remedy"], problem


@needs_root
def test_the_process_of_another_user(place, profd):
    with process(place, prefix=AS_NOBODY) as client:
        worker = registered(profd)[0]
        assert worker["uid"] == 65534
        session = profd.wait_session(start(profd, kineto={"uids": [65534]})["session"])
        assert session["state"] == "complete", session
        assert "recording" in client.text()


@needs_root
def test_a_file_of_another_user_is_not_collected(place, profd):
    """Who may write to the directory cannot put a trace of his own in the place of the process's."""
    with process(place, "--no-file", prefix=AS_NOBODY) as client:
        registered(profd)
        started = start(profd)
        path = next(line for line in iter(lambda: client.wait_line("ACTIVITIES_LOG_FILE=(.*)")[1], None))
        client.wait_line("Tracing complete")
        forged = Path(path.replace(".pt.trace.json", f"_{client.pid}.pt.trace.json"))
        forged.write_text('{"traceEvents": []}')
        os.chown(forged, 65533, 65533)
        session = profd.wait_session(started["session"])
        assert session["state"] == "failed" and not profd.traces(session=session["session"])


def take_over(client, write):
    """write(path, id) makes the files, since the process makes none."""
    path = next(line for line in iter(lambda: client.wait_line("ACTIVITIES_LOG_FILE=(.*)")[1], None))
    identity = client.wait_line("REQUEST_TRACE_ID=(.*)")[1]
    client.wait_line("Tracing complete")
    path = Path(path.replace(".pt.trace.json", f"_{client.pid}.pt.trace.json"))
    write(path, identity)


def trace_text(identity=None):
    member = f'"trace_id": "{identity}",' if identity else ""
    return ('{"schemaVersion": 1,%s "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, '
            '"dur": 2}]}' % member)


@pytest.mark.parametrize("columns", [True, False], ids=["columns", "no-columns"])
def test_the_id_in_a_trace_counts_whatever_its_name(place, columns):
    with Daemon(place / "profd", config(place, more="" if columns else "[collect]\ncolumns=no\n")) as profd, process(place, "--no-file") as client:
        registered(profd)
        started = start(profd)
        take_over(client, lambda path, identity: (path.parent / "renamed.pt.trace.json").write_text(trace_text(identity)))
        session = profd.wait_session(started["session"])
        assert session["state"] == "complete", session
        assert [t["name"] for t in profd.traces(session=session["session"])] == ["renamed.pt.trace.json"]


def test_a_trace_without_an_id_is_taken_by_its_name(place, profd):
    """As older releases of Kineto write it."""
    with process(place, "--no-file") as client:
        registered(profd)
        started = start(profd)
        take_over(client, lambda path, identity: path.write_text(trace_text()))
        session = profd.wait_session(started["session"])
        assert session["state"] == "complete", session


@pytest.mark.parametrize("other", ["s9-w9-17-0123456789abcdef", "{}x", "{}{}"], ids=["another", "longer", "twice"])
def test_another_recordings_id_outweighs_the_name(place, profd, other):
    with process(place, "--no-file") as client:
        registered(profd)
        started = start(profd)
        take_over(client, lambda path, identity: path.write_text(trace_text(other.format(identity, identity))))
        session = profd.wait_session(started["session"])
        target = only_target(session)
        assert session["state"] == "failed" and not profd.traces(session=session["session"]), session
        assert "is another recording's, by its trace_id" in target["failure"], target


@needs_root
def test_the_id_in_a_file_of_another_user_counts_nothing(place, profd):
    """The directory is anybody's, and the id of another user's recording is in the names of its files."""

    def forge(path, identity):
        for name in (path.name, "other.pt.trace.json", f"libkineto_activities_{client.pid}.json"):
            forged = path.parent / name
            forged.write_text(trace_text(identity))
            os.chown(forged, 65533, 65533)

    with process(place, "--no-file", prefix=AS_NOBODY) as client:
        registered(profd)
        started = start(profd)
        take_over(client, forge)
        session = profd.wait_session(started["session"])
        assert session["state"] == "failed" and not profd.traces(session=session["session"])


@needs_root
def test_the_id_in_a_file_of_another_user_counts_nothing_for_root(place, profd):
    def forge(path, identity):
        path.write_text(trace_text(identity))
        os.chown(path, 65533, 65533)

    with process(place, "--no-file") as client:
        registered(profd)
        started = start(profd)
        take_over(client, forge)
        session = profd.wait_session(started["session"])
        assert session["state"] == "failed" and not profd.traces(session=session["session"])


@pytest.fixture
def default_file():
    """Kineto's default, which is in /tmp whatever the environment says."""
    files = []
    yield lambda client: files.append(Path(f"/tmp/libkineto_activities_{client.pid}.json")) or files[-1]
    for file in files:
        file.unlink(missing_ok=True)


def test_kinetos_default_file_is_found_in_a_watched_directory(place, profd, default_file):
    with process(place, "--allow", "/nowhere", traces="/tmp") as client:
        file = default_file(client)
        registered(profd)
        session = profd.wait_session(start(profd)["session"])
        assert session["state"] == "complete", session
        assert [t["origin"] for t in profd.traces(session=session["session"])] == [str(file)]


def test_kinetos_default_files_of_several_processes_are_told_apart(place, profd, default_file):
    with process(place, "--allow", "/nowhere", traces="/tmp") as one, process(place, "--allow", "/nowhere", traces="/tmp") as two:
        for client in (one, two):
            default_file(client)
        registered(profd, 2)
        session = profd.wait_session(start(profd)["session"])
        assert session["state"] == "complete", session
        found = {t["worker"]: t["origin"] for t in profd.traces(session=session["session"])}
        assert {url.split("//")[1].split(".")[0]: path for url, path in found.items()} == {
            str(client.pid): str(default_file(client)) for client in (one, two)}


def test_kinetos_default_file_elsewhere_is_named(place, profd, default_file):
    with process(place, "--allow", "/nowhere") as client:
        file = default_file(client)
        registered(profd)
        session = profd.wait_session(start(profd)["session"])
        target = only_target(session)
        assert target["failure"].startswith("recorded nothing") and str(file) in target["remedy"], target
        assert f"{place}/traces" in target["remedy"] and file.exists()
        profctl(profd, "ingest", file)
        assert [t["origin"] for t in profd.traces()] == [str(file)]


# -- Stops ---------------------------------------------------------------------------------------------------------------


def test_a_stop_before_the_fetch_cancels(place):
    with Daemon(place / "profd", config(place, poll="4s")) as profd, process(place, quick=SLOW) as client:
        registered(profd)
        client.wait_line("polled")
        started = start(profd)
        profd.wait_state(started["session"], "starting")
        profd.post(f"/v1/sessions/{started['session']}/stop")
        session = profd.wait_session(started["session"])
        assert session["state"] == "cancelled"
        client.wait_line("polled")
        client.wait_line("polled")
        assert "Received config" not in "\n".join(client.text())


@pytest.mark.parametrize("when", ["scheduled", "recording"])
def test_a_stop_after_the_fetch_says_when_it_ends(place, profd, when):
    with process(place) as client, FaultFleet(place / "fleet", "vllm", 1) as fleet:
        registered(profd)
        started = start(profd, 3, router=fleet.router)
        client.wait_line(f"^{when}")
        profd.wait_state(started["session"], "recording" if when == "recording" else "starting")
        done = profctl(profd, "stop", started["session"])
        assert "cannot be stopped: Kineto has no stop" in " ".join(done.stderr.split()), done.stderr
        session = profd.wait_session(started["session"])
        targets = {t["engine"]: t for t in session["targets"]}
        assert targets["pytorch"]["state"] == "complete"
        assert targets["vllm"]["state"] == ("complete" if when == "recording" else "cancelled")
        trace = next(t for t in profd.traces(session=started["session"]) if t["worker"].startswith("kineto:"))
        assert trace["span_ns"] > 2 * SECOND


# -- Restarts of profd ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", [True, False], ids=["crash", "restart"])
@pytest.mark.parametrize("when", ["scheduled", "recording", "Tracing complete"])
def test_a_restart_of_profd(place, profd, when, crash):
    with process(place, "--flush", 1000) as client:
        registered(profd)
        started = start(profd, 2)
        client.wait_line(f"^{when}")
        if when == "scheduled":
            wait_for(lambda: only_target(profd.session(started["session"])).get("start_sent_at"))
        profd.restart(crash=crash)
        session = profd.wait_session(started["session"])
        assert session["state"] == "complete", session
        assert len(profd.traces(session=started["session"])) == 1
        assert client.process.poll() is None


# -- Who may -------------------------------------------------------------------------------------------------------------


def test_tokens(place):
    port, tokens = free_port(), write_tokens(place / "tokens", token_line("op", "operate", "o" * 40) + token_line("root", "admin", "a" * 40))
    text = config(place, more=f"[http]\ntokens_file={tokens}\n").replace("[timeouts]", f"[profd]\nlisten=127.0.0.1:{port}\n[timeouts]")
    with Daemon(place / "profd", text) as profd, process(place) as client:
        registered(profd)

        def over_tcp(token, *words):
            file = write_tokens(place / "token", token * 40)
            return subprocess.run([PROFCTL, "--host", f"http://127.0.0.1:{port}", "--token-file", file, *map(str, words)], text=True,
                                  capture_output=True, timeout=patience(60), env={**os.environ, "LC_ALL": "C.UTF-8"})

        assert str(client.pid) not in over_tcp("o", "list-workers", "--kineto").stdout
        shown = over_tcp("o", "list-workers", "--kineto", "--pid", client.pid, "--json")
        assert "command" not in json.loads(shown.stdout)["workers"][0]["process"], shown
        refused = over_tcp("o", "start", "--kineto", "--pid", client.pid)
        assert refused.returncode == 1 and "you may record your own processes" in refused.stderr, refused
        started = over_tcp("a", "start", "--kineto", "--duration", "500ms", "--wait")
        assert started.returncode == 0, started
