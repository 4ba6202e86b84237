# SPDX-License-Identifier: Apache-2.0
"""Sessions of processes that registered for Kineto's on-demand recording: processes and directories with which something is
wrong."""

import os
import re
import time
from pathlib import Path

import pytest
from daemon import Daemon, wait_for
from kineto_profd import (AS_NOBODY, SECOND, SLOW, kineto_config, needs_root, only_target, process, profctl, registered, remarks,
                          start)
from kineto_profd import make_place, start_profd  # noqa: F401 (fixtures)


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
    with Daemon(place / "profd", kineto_config(place, poll="4s")) as profd, process(place, quick=SLOW) as client:
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
        assert "the process ended" in target["failure"] and "log" in target["remedy"], target
        assert session["finished_at"] - session["stop_at"] < 10 * SECOND  # what has ended is not waited for
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
def test_a_job_that_processes_of_two_users_claim(place, profd):
    """SLURM_JOB_ID is a word of the process."""
    environment = {"SLURM_JOB_ID": 4711}
    with process(place, environment=environment), process(place, environment=environment, prefix=AS_NOBODY):
        registered(profd, 2)
        claimed = start(profd, kineto={"slurm_jobs": [4711]})
        assert "claims Slurm job 4711, and belongs to uid " in remarks(claimed), claimed
        profd.wait_session(claimed["session"])
        chosen = start(profd, kineto={"slurm_jobs": [4711], "uids": [65534]})
        assert "says that it is" not in remarks(chosen) and len(profd.session(chosen["session"])["targets"]) == 1
        profd.wait_session(chosen["session"])


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
