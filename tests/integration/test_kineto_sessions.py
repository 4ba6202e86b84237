# SPDX-License-Identifier: Apache-2.0
"""Sessions of processes that registered for Kineto's on-demand recording, alone and together with workers over HTTP: who
is listed, what is recorded, and who may ask for it."""

import json
import os
import re
import subprocess
import time

import pytest
from daemon import FAULT_WORKER, Daemon, FaultFleet, free_port, quick_config, token_line, wait_for, write_tokens
from kineto_profd import PROFCTL, SECOND, kineto_config, only_target, process, processes, profctl, registered, remarks, start
from kineto_profd import make_place, start_profd  # noqa: F401 (fixtures)
from patience import patience


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
        assert session["state"] == "complete", [t.get("failure") for t in session["targets"]]
        assert len(session["targets"]) == 8
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
    ({"steps": 5}, "--steps"), ({"start_step": 5}, "--start-step"), ({"by_stage": True}, "--by-stage"),
    ({"steps": 5, "by_stage": True}, "--steps"),
    ({"activities": ["cuda-profiler"]}, "--activities"), ({"when_running": 1}, "--when-running"), ({"prompt": "Hello"}, "--prompt")])
def test_what_cannot_be_honoured_is_said_before_the_start(place, profd, request_, option):
    with process(place):
        registered(profd)
        problem = profd.problem("POST", "/v1/sessions", {"kineto": {}, **request_}, 422)
        assert option in problem["title"] + problem.get("detail", ""), problem
        assert "load" not in json.dumps(problem), problem  # nobody asked for one


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


# -- Who may -------------------------------------------------------------------------------------------------------------


def test_tokens(place):
    port, tokens = free_port(), write_tokens(place / "tokens", token_line("op", "operate", "o" * 40) + token_line("root", "admin", "a" * 40))
    text = kineto_config(place, more=f"[http]\ntokens_file={tokens}\n").replace("[timeouts]", f"[profd]\nlisten=127.0.0.1:{port}\n[timeouts]")
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
        assert refused.returncode == 1 and "the user who sent the request is not known" in refused.stderr, refused
        started = over_tcp("a", "start", "--kineto", "--duration", "500ms", "--wait")
        assert started.returncode == 0, started
