# SPDX-License-Identifier: Apache-2.0
"""RTP-LLM: recordings that nobody can stop, answers that are 200 and a failure, one request that is recorded, and traces
that nobody asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import BUILD, ROOT, Daemon, FaultFleet, quick_config, wait_for

sys.path.insert(0, str(ROOT / "tests/fleet"))
from fleet import Fleet  # noqa: E402  # pylint: disable=wrong-import-position
from patience import patience  # noqa: E402

MS, S = 1_000_000, 1_000_000_000
PROFCTL = BUILD / "client/profctl"


@pytest.fixture(name="testbed")
def make_testbed(tmp_path):
    """One profd for fleets that are begun within a test."""

    class Testbed:
        def __init__(self):
            self.n = 0

        def fleet(self, engine, count, *options):
            self.n += 1
            return FaultFleet(tmp_path / f"fleet{self.n}", engine, count, "--shared-dir", *options)

        def record(self, fleet, workers=None, **request):
            asked = self.profd.start_session(workers=workers or fleet.workers, trace_dir=str(fleet.directory), **request)
            return asked, self.profd.wait_session(asked["session"])

    testbed = Testbed()
    more = "unclaimed_per_minute=2\n" f"watch={tmp_path / 'unasked'}\n"
    (tmp_path / "unasked").mkdir()
    with Daemon(tmp_path / "profd", quick_config(more=more)) as testbed.profd:
        yield testbed


def profctl(profd, *words):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


# RTP-LLM


def test_rtp_llm_ends_by_its_steps(testbed):
    with testbed.fleet("rtp-llm", 3, "--ranks", "2") as fleet:
        asked, session = testbed.record(fleet, steps=5)
        assert session["state"] == "complete", session
        assert asked["session"] and not session.get("remarks")
        for target in session["targets"]:
            assert target["engine"] == "rtp-llm" and not target["stop_pending"] and "stop_sent_at" not in target
            assert len(target["traces"]) == 2
            # In one directory each worker's are told apart by the name that its start gave.
            names = sorted(trace["name"] for trace in testbed.profd.traces(worker=target["worker"]))
            assert names == [f"{target['profile_id']}_wr{rank}_1.json" for rank in range(2)]
        paths = {call["path"] for worker in range(3) for call in fleet.calls(worker)}
        assert paths == {"/start_profile"}


def test_rtp_llm_takes_a_duration_as_patience(testbed):
    """Three steps are over long before it."""
    with testbed.fleet("rtp-llm", 1) as fleet:
        asked, session = testbed.record(fleet, duration_ns=30 * S)
        assert session["state"] == "complete"
        assert session["stopped_at"] - session["recording_at"] < patience(20 * S)
        (remark,) = asked["remarks"]
        assert remark["option"] == "--duration" and "cannot be stopped" in remark["text"]
        (call,) = fleet.calls(0)
        assert json.loads(call["body"])["num_steps"] == 3


def test_rtp_llm_that_fails(testbed):
    """Draining, an error in a good answer, idle: each with its reason, none with a stop."""
    faults = ("--fault", "draining@0", "--fault", "error-in-body@1", "--fault", "idle@2")
    with testbed.fleet("rtp-llm", 4, *faults) as fleet:
        _, session = testbed.record(fleet, duration_ns=300 * MS)
        draining, refused, idle, good = session["targets"]
        assert session["state"] == "partial" and good["state"] == "complete"
        assert draining["state"] == "failed" and "503" in draining["failure"] and "draining" in draining["remedy"]
        assert refused["state"] == "failed" and "the backend does not answer" in refused["failure"]
        assert refused["start_status"] == 200
        assert idle["state"] == "failed" and "recorded nothing: its time is over" in idle["failure"]
        assert "send requests" in idle["remedy"]
        assert not any(target["stop_pending"] for target in session["targets"])
        assert [remark["worker"] for remark in session["remarks"] if "goes on until" in remark["text"]] == [fleet.workers[2]]
        assert all(call["path"] == "/start_profile" for worker in range(4) for call in fleet.calls(worker))


@pytest.mark.parametrize("killed", [False, True])
def test_rtp_llm_that_does_not_answer_its_start(testbed, killed):
    """It may record all the same, and ends by its steps: what it writes is its session's, also after a restart of profd."""
    with testbed.fleet("rtp-llm", 2, "--fault", "hang-start") as fleet:
        asked = testbed.profd.start_session(workers=fleet.workers, trace_dir=str(fleet.directory), steps=5)["session"]
        if killed:
            wait_for(lambda: fleet.journal()["starts"] == 2, interval_s=0.005)
            testbed.profd.restart(crash=True)
        session = testbed.profd.wait_session(asked)
        assert [target["state"] for target in session["targets"]] == ["partial", "partial"], session
        why = "restarted while it was being started" if killed else "POST /start_profile: timed out"
        assert all(why in target["failure"] and len(target["traces"]) == 1 for target in session["targets"])
        assert [len(fleet.calls(worker)) for worker in range(2)] == [1, 1]


def test_rtp_llm_is_stopped_by_hand(testbed):
    with testbed.fleet("rtp-llm", 1, "--fault", "idle") as fleet:
        session = testbed.profd.start_session(workers=fleet.workers, trace_dir=str(fleet.directory), steps=5)["session"]
        testbed.profd.wait_state(session, "recording")
        testbed.profd.post(f"/v1/sessions/{session}/stop")
        end = testbed.profd.wait_session(session)
        assert end["state"] == "failed" and len(fleet.calls(0)) == 1


def test_what_rtp_llm_cannot_do_is_refused(testbed):
    with testbed.fleet("rtp-llm", 1) as fleet:
        for option in ({"with_stack": True}, {"steps": 1001}, {"steps": 3, "by_stage": True}):
            problem = testbed.profd.problem("POST", "/v1/sessions", {"workers": fleet.workers, **option}, 422)
            assert "RTP-LLM" in problem["detail"] and problem["remedy"]
        assert fleet.calls(0) == []


# One request, and traces that nobody asked for


def test_a_request_is_for_who_can_record_it(testbed):
    with testbed.fleet("vllm", 1) as fleet:
        problem = testbed.profd.problem("POST", "/v1/sessions", {"workers": fleet.workers, "prompt": "Hello, "}, 422)
        assert "cannot record a single request" in problem["detail"] and problem["remedy"]
        problem = testbed.profd.problem("POST", "/v1/sessions", {"workers": fleet.workers, "model": "m"}, 400)
        assert "model is for a prompt" in problem["detail"]
        assert fleet.calls(0) == []


def test_a_limit_for_what_nobody_asked_for(testbed, tmp_path):
    """Traces with names of another kind are not counted, and come in."""
    trace = b'{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":%d}]}'
    unasked = tmp_path / "unasked"
    for i in range(6):
        (unasked / f"profiler_ts{1763647331123456 + i}_wr0_{i + 1}.json").write_bytes(trace % (i + 1))
    for i in range(3):
        (unasked / f"mine{i}.trace.json").write_bytes(trace % (i + 100))
    for path in unasked.iterdir():
        os.utime(path, (0, 0))  # quiet for long
    names = wait_for(lambda: [n for n in [{t["name"] for t in testbed.profd.traces(unclaimed="true")}] if len(n) >= 5])[0]
    assert len({name for name in names if name.startswith("mine")}) == 3
    assert len(names) == 5

    def skipped():
        text = testbed.profd.request("GET", "/metrics").body.decode()
        return [line for line in text.splitlines() if line == "profd_traces_skipped_total 4"]

    wait_for(skipped)
    testbed.profd.stop()
    said = testbed.profd.log()
    assert "4 traces that an engine wrote without a request were not collected" in said and "unclaimed_per_minute=" in said
    assert testbed.profd.rows("select text from events where kind = 'traces-skipped'")
    assert len(list(Path(unasked).iterdir())) == 9  # they stay where they are
    testbed.profd.start()


def test_timeline(testbed, tmp_path):
    """A real worker's real profiler; of its two ranks the first records the request."""
    with Fleet(tmp_path / "fleet") as fleet:
        worker = fleet.add_rtp_llm("--step-ms", "5", "--tp-size", "2")
        fleet.wait_ready()
        status, out, err = profctl(testbed.profd, "timeline", "--worker", worker.url, "--prompt", "Hello, ", "-o",
                                   str(tmp_path / "out.json"))
        assert status == 0, err
        (trace,) = testbed.profd.traces(session="s1")
        assert out.startswith(f"{trace['trace']}  {trace['name']}") and "engine.normal.step_work" in out
        assert f"Next: profctl analyze {trace['trace']}" in err
        assert worker.trace_dir / trace["name"] in worker.trace_dir.iterdir()
        assert (tmp_path / "out.json").read_bytes() == (worker.trace_dir / trace["name"]).read_bytes()
        # A step for each of the tokens that the request was given.
        status, out, _ = profctl(testbed.profd, "query", trace["trace"],
                                 "SELECT COUNT(*) AS n FROM slice WHERE name = 'engine.normal.step_work'", "--json")
        assert status == 0 and json.loads(out) == [{"n": 3}]
        for name in ("kernels", "gaps", "gaps-total"):
            status, named, _ = profctl(testbed.profd, "analyze", trace["trace"], "--named", name, "--json")
            assert status == 0 and isinstance(json.loads(named), list)


def test_timeline_needs_its_words(testbed):
    status, _, err = profctl(testbed.profd, "timeline", "--worker", "http://127.0.0.1:1")
    assert status == 2 and "--prompt" in err
