# SPDX-License-Identifier: Apache-2.0
"""profctl bench against a worker that computes, by way of profd and profd-load; what they measure is held against what the worker
itself counted. What is sent and how it is shown is looked at in test_runs_verbs.py."""
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from daemon import BUILD, ROOT, Daemon, quick_config, wait_for

sys.path.insert(0, str(ROOT / "tests" / "fleet"))
from fleet import Fleet  # noqa: E402

# How much later than the worker a client may see an answer end, beside its share of a busy machine.
LATER_MS, LATER_SHARE = 60, 0.25


class Scene:
    def __init__(self, profd, worker):
        self.profd, self.worker = profd, worker

    def command(self, *args):
        return [BUILD / "client" / "profctl", "--socket", self.profd.socket, *map(str, args)]

    def run(self, *args, status=0):
        done = subprocess.run(self.command(*args), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                              env={**os.environ, "TZ": "UTC"})
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def bench(self, *args, **more):
        return json.loads(self.run("bench", "--worker", self.worker.url, "--json", *args, **more).stdout)

    def counted(self, name):
        """Of the worker's own /metrics, the sum over what has that name."""
        with urllib.request.urlopen(f"{self.worker.url}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.M))


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bench")
    with Fleet(directory / "fleet") as fleet:
        worker = fleet.add_vllm()
        with Daemon(directory / "profd", quick_config()) as profd:
            worker.wait_ready()
            yield Scene(profd, worker)


@pytest.fixture(scope="module")
def measured(scene):
    """A run, and what the worker counted meanwhile."""
    names = {"e2e": "vllm:e2e_request_latency_seconds_sum", "ttft": "vllm:time_to_first_token_seconds_sum",
             "requests": "vllm:e2e_request_latency_seconds_count", "output": "vllm:generation_tokens_total"}
    before = {key: scene.counted(name) for key, name in names.items()}
    run = scene.bench("--isl", 16, "--osl", 4, "-c", 3, "-n", 12, "--warmup", 0, "--goodput", "ttft:1h,e2e:1ns", "--label", "a=b")
    return run, {key: scene.counted(name) - before[key] for key, name in names.items()}


def requests_of(scene, run):
    return json.loads(scene.run("show", f"r{run['run']}", "--requests", "--json").stdout)["requests"]


def test_figures_are_those_of_the_worker(scene, measured):
    run, worker = measured
    assert run["state"] == "complete" and run["requests"] == {"success": 12, "incomplete": 0, "error": 0}
    assert worker["requests"] == 12
    assert run["tokens"]["output"] == worker["output"] == 48
    assert run["tokens"]["output_source"] == run["tokens"]["input_source"] == "usage"
    rows = requests_of(scene, run)
    for key in ("ttft", "e2e"):
        theirs = worker[key] / 12 * 1000
        ours = sum(row[f"{key}_ns"] for row in rows) / 12 / 1e6
        assert theirs * 0.9 < ours < theirs * (1 + LATER_SHARE) + LATER_MS, key
    assert run["metrics"]["e2e_ms"]["count"] + run["cold"]["requests"] == 12
    assert run["peak_concurrency"] == 3 and run["goodput"]["share"] == 0 and run["labels"] == {"a": "b"}
    for row in rows:
        assert row["outcome"] == "success" and row["output_tokens"] == 4 and row["sent_ns"] >= row["intended_ns"]
        assert row["tpot_ns"] == pytest.approx((row["e2e_ns"] - row["ttft_ns"]) / 3, abs=1)


def test_requests_in_each_format(scene, measured):
    rows, ref = requests_of(scene, measured[0]), f"r{measured[0]['run']}"
    table = list(csv.DictReader(io.StringIO(scene.run("show", ref, "--requests", "--csv").stdout)))
    lines = [json.loads(line) for line in scene.run("show", ref, "--requests", "--jsonl").stdout.splitlines()]
    assert lines == rows and [row["index"] for row in rows] == list(range(12))
    assert [int(row["e2e_ns"]) for row in table] == [row["e2e_ns"] for row in rows]
    assert len(scene.run("show", ref, "--requests", "--no-legend").stdout.splitlines()) == 12


def test_prompts_twice_and_compared(scene, measured, tmp_path):
    (tmp_path / "prompts.txt").write_text("one\ntwo words\n")
    run = scene.bench("--prompts", tmp_path / "prompts.txt", "--repeat", 2, "--osl", 2, "-c", 4, "--warmup", 0)
    assert run["requests"]["success"] == 4 and run["tokens"]["output"] == 8
    assert run["workload"]["n_prompts"] == 2 and "2 prompts" in scene.run("show", f"r{run['run']}").stdout
    before, after = f"r{measured[0]['run']}", f"r{run['run']}"
    text = scene.run("compare", before, after).stdout
    assert re.search(r"^concurrency differs: 3 -> 4$", text, re.M) and re.search(r"^e2e.p50 ms ", text, re.M)
    # Four requests decide nothing, whatever they look like.
    conditions = "--fail-if", "requests_per_s > +0.0001%", "--fail-if", "e2e.p50 > 1ms"
    scene.run("compare", before, after, *conditions, status=6)
    scene.run("compare", before, after, *conditions, "--fail-if-estimate", status=5)
    scene.run("show", after, "--save-as", "vllm-bench", "-o", tmp_path / "saved.json")
    assert json.loads((tmp_path / "saved.json").read_text())["completed"] == 4
    listed = scene.run("list-runs", "--no-legend").stdout
    assert [line.split()[0] for line in listed.splitlines()][:2] == [after, before]
    scene.run("rm", after)
    scene.run("show", after, status=4)


def test_an_interrupted_run_has_what_it_has(scene):
    process = subprocess.Popen(scene.command("bench", "--worker", scene.worker.url, "--isl", 16, "--osl", 2, "-c", 2, "--duration", "50s",
                                             "--warmup", 0), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL)
    newest = lambda: json.loads(scene.run("list-runs", "--json", "-n", 1).stdout)["runs"][0]  # noqa: E731
    wait_for(lambda: newest()["state"] == "loading" and newest()["requests"]["success"] > 0, why=lambda: str(newest()))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 3, out + err
    assert re.search(r"Run r\d+ is partial: (\d+) of \1 requests succeeded", out) and "TTFT" in out


def test_a_session_and_its_load_are_one(scene, tmp_path):
    (tmp_path / "w.yaml").write_text("isl: 16\nosl: 4\nconcurrency: 2\nrequests: 4\nwarmup: 1\n")
    done = scene.run("start", "--worker", scene.worker.url, "--workload", tmp_path / "w.yaml", "--wait", "--json")
    session = json.loads(done.stdout)
    assert session["state"] == "complete" and session["counts"]["traces"] >= 1
    assert session["measured"]["run"] == session["run"] and session["measured"]["requests"]["success"] == 4
    assert [w["sent"] for w in session["measured"]["warmed"]] == [1]
    # The load lies within what was recorded.
    assert session["starts_sent_at"] <= session["measured"]["started_at"]
    assert f"r{session['run']}" in scene.run("show", session["session"]).stdout


def test_what_profd_refuses_reports_why(scene):
    refused = scene.run("bench", "--worker", scene.worker.url, "--isl", 16, status=2)
    assert "has no end" in refused.stderr and refused.stdout == ""
    dead = scene.run("bench", "--worker", "http://127.0.0.1:1", "--isl", 16, "-n", 2, "--warmup", 0, status=1)
    assert "profctl" in dead.stderr or "Run r" in dead.stdout


def test_chats_with_lengths_and_moments(scene, tmp_path):
    """A data set as others write them: system prompts, output lengths and timestamps reach the worker."""
    lines = [{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Question {i}"},
                           {"role": "assistant", "content": "The answer of the data set"}],
              "output_tokens": 2 + i, "timestamp": 1000 - 200 * i} for i in range(3)]
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = scene.bench("--prompts", path, "--warmup", 0)
    assert run["workload"]["api"] == "chat" and run["workload"]["arrival"] == "timestamps"
    rows = requests_of(scene, run)
    # The last line has the first moment.
    assert [(row["intended_ns"], row["output_tokens"]) for row in rows] == [(0, 4), (200_000_000, 3), (400_000_000, 2)]
    # "system: Be brief.\nuser: Question 0\n", and no answer.
    assert {row["input_tokens"] for row in rows} == {len("system: Be brief.\nuser: Question 0\n")}
    refused = scene.run("bench", "--worker", scene.worker.url, "--prompts", path, "--rate", 5, status=2)
    assert "timestamps" in refused.stderr and "--arrival" in refused.stderr
    closed = scene.bench("--prompts", path, "--warmup", 0, "--arrival", "closed", "-c", 3, "--osl", 2)
    assert closed["workload"]["arrival"] == "closed" and {row["output_tokens"] for row in requests_of(scene, closed)} == {2}


def test_a_run_as_aiperfs_plotter_reads_it(scene, measured, tmp_path):
    """The names of its directory, and a record for each request with what its models require."""
    run, _ = measured
    scene.run("show", f"r{run['run']}", "--save-as", "aiperf", "-o", tmp_path / "artifacts")
    summary = json.loads((tmp_path / "artifacts/profile_export_aiperf.json").read_text())
    records = [json.loads(line) for line in (tmp_path / "artifacts/profile_export.jsonl").read_text().splitlines()]
    rows = requests_of(scene, run)
    assert len(records) == len(rows) == 12 and summary["request_count"]["avg"] == 12
    for record, row in zip(records, rows):
        metadata, metrics = record["metadata"], record["metrics"]
        assert {"session_num", "request_start_ns", "request_end_ns", "worker_id", "record_processor_id"} <= metadata.keys()
        assert metadata["benchmark_phase"] == "profiling" and record["error"] is None
        assert metadata["request_end_ns"] - metadata["request_start_ns"] == row["e2e_ns"]
        assert abs(metrics["request_latency"]["value"] - row["e2e_ns"] / 1e6) < 1e-6
        assert abs(metrics["time_to_first_token"]["value"] - row["ttft_ns"] / 1e6) < 1e-6
        assert len(metrics["inter_chunk_latency"]["value"]) == row["output_tokens"] - 1 == 3
