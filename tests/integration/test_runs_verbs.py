# SPDX-License-Identifier: Apache-2.0
"""bench and the other verbs of runs, against a fake profd that answers what each test needs: what is sent, what is shown."""
import csv
import io
import json
import re
import signal
import subprocess
import time

import pytest

from fake_profd import SECOND, T0, FakeProfd, problem, session, steps, target
from terminal import PROFCTL, SOURCE, environment, on_terminal, plain, run
from patience import patience


def metric(p50, **more):
    values = {"mean": p50 * 1.1, "std": p50 / 10, "min": p50 / 2, "max": p50 * 3, "count": 100,
              "ci95": {"mean": [p50 * 1.05, p50 * 1.15], "p50": [p50, p50], "p99": [p50, p50]}}
    return values | {f"p{p}": p50 for p in (1, 5, 10, 25, 50)} | {f"p{p}": p50 * 2 for p in (75, 90, 95, 99, 99.9)} | more


def a_run(n=3, state="complete", concurrency=24, throughput=2070.0, e2e=1000.0, **more):
    r = {
        "run": n, "state": state, "model": "Qwen3-8B", "router": "http://10.0.0.1:3000",
        "targets": [{"url": "http://10.0.0.1:3000", "engine": "vllm"}], "labels": {"job": "nightly"},
        "workload": {"isl": 1024, "osl": 128, "concurrency": concurrency, "requests": 200},
        "requested_at": T0, "requested_by": "uid 1000 (anna)", "started_at": T0 + SECOND,
    }
    if state in ("complete", "partial"):
        r |= {
            "ended_at": T0 + 13 * SECOND, "requests": {"success": 198, "incomplete": 1, "error": 1},
            "metrics": {"ttft_ms": metric(31.2), "tpot_ms": metric(9.5), "itl_ms": metric(9.4), "e2e_ms": metric(e2e, mean=e2e),
                        "send_lateness_ms": metric(0.02)},
            "throughput": {"requests_per_s": 16.2, "input_tokens_per_s": 16589, "output_tokens_per_s": throughput,
                           "total_tokens_per_s": 18659.0, "output_tokens_per_s_per_user": 86.25},
            "goodput": {"requests_per_s": 14.1, "share": 0.87, "good": 174, "goals": {"ttft_ms": {"goal": 200.0, "share": 0.87}}},
            "cold": {"requests": 1, "ttft_ms": {"mean": 512.0}, "e2e_ms": {"mean": 1700.0}}, "peak_concurrency": concurrency,
            "errors": [{"text": "HTTP 503 Service Unavailable", "count": 1, "status": 503}],
            "tokens": {"input": 203000, "output": 25344, "input_source": "usage", "output_source": "usage"},
            "drift": {"level": 0.01, "ttft_ms": {"tau": 0.7, "p": 0.0004, "significant": True, "first": 29, "last": 44}, "e2e_ms": None},
            "outliers": [{"index": 17, "target": 0, "figure": "e2e_ms", "value": 4000.0, "median": 1000.0, "reason": "one gap of 3 s"}],
            "correlation": {"input_tokens_ttft": 0.91, "input_tokens_e2e": 0.02},
            "server": {"workers": [{"url": "http://10.0.0.1:3000", "ttft_ms": {"p50": 30.0, "p99": 80.0}, "tpot_ms": None,
                                    "kv_cache_use": {"before": 0.0, "after": 0.0, "peak": 0.087}}]},
            "warmed": [{"url": "http://10.0.0.1:3000", "sent": 2, "failed": 0, "mean_ms": 410.0}],
        }
    return r | more


def live(n, **more):
    values = {"sent": 120, "in_flight": 24, "done": 95, "errors": 1, "output_tokens_per_s": 3210.4, "ttft_p50_ms": 31.2,
              "ttft_p99_ms": 88.0, "e2e_p50_ms": 1210.0, "e2e_p99_ms": 1430.0, "elapsed_ns": 5 * SECOND, "planned": 200}
    return f"event: run\ndata: {json.dumps({'kind': 'run', 'run': n, 'state': 'loading', **values, **more})}\n\n".encode()


@pytest.fixture
def fake(tmp_path):
    answers = {"POST /v1/runs": (202, {"run": 3}), "GET /v1/runs/r3": a_run()}
    with FakeProfd(tmp_path / "fake.sock", answers) as d:
        yield d


def workload_of(fake):
    (request,) = fake.asked("POST", "/v1/runs")
    return request[2]["workload"]


# What is sent


def test_options_make_a_workload(fake):
    r = run("bench", "--router", "http://r:1", "--model", "m", "--isl", "1024", "--osl", "128", "-c", "24", "-n", "200", "--warmup", "0",
            "--seed", "7", "--timeout", "2min", "--goodput", "ttft:200ms,e2e:2s", "--shared-prefix", "100", "--label", "a=b",
            "--through", "workers", "--role", "decode", "--count", "2", fake=fake)
    assert r.returncode == 0, r.stderr
    ((_, _, body, _),) = fake.asked("POST", "/v1/runs")
    assert body == {
        "router": "http://r:1", "load_through": "workers", "role": "decode", "count": 2, "labels": {"a": "b"},
        "workload": {"model": "m", "isl": 1024, "osl": 128, "concurrency": 24, "requests": 200, "warmup": 0, "seed": 7,
                     "timeout": "2min", "goodput": {"ttft": "200ms", "e2e": "2s"}, "shared_prefix": 100},
    }


def test_open_loop(fake):
    assert run("bench", "--worker", "http://w:1", "--isl", "8", "--rate", "0.5", "--ramp", "20", "--arrival", "gamma", "--burstiness", ".5",
               "--duration", "60s", fake=fake).returncode == 0
    assert workload_of(fake) == {"isl": 8, "rate": 0.5, "rate_to": 20.0, "arrival": "gamma", "burstiness": 0.5, "duration": "1min"}


def test_prompts_are_read_here(fake, tmp_path):
    (tmp_path / "p.txt").write_text("one\n\ntwo\n")
    assert run("bench", "--worker", "http://w:1", "--prompts", str(tmp_path / "p.txt"), "--repeat", "5", fake=fake).returncode == 0
    assert workload_of(fake) == {"prompts": ["one", "two"], "repeat": 5}


def test_a_workload_file_and_options_over_it(fake, tmp_path):
    (tmp_path / "sharegpt.json").write_text(json.dumps([
        {"conversations": [{"from": "human", "value": f"question {i}"}, {"from": "gpt", "value": "answer"}]} for i in range(5)]))
    (tmp_path / "w.yaml").write_text("# ours\nprompts_file: sharegpt.json\nrequests: 2\nosl: 16\nconcurrency: 4\ngoodput: {ttft: 200ms}\n")
    assert run("bench", "--worker", "http://w:1", "--workload", str(tmp_path / "w.yaml"), "-c", "8", fake=fake).returncode == 0
    assert workload_of(fake) == {"prompts": [{"prompt": f"question {i}"} for i in range(2)], "requests": 2, "osl": 16, "concurrency": 8,
                                 "goodput": {"ttft": "200ms"}}


def test_options_drop_what_they_contradict(fake, tmp_path):
    (tmp_path / "w.yaml").write_text("isl: 8\nshared_prefix: 4\n")
    (tmp_path / "p.txt").write_text("one\n")
    assert run("bench", "--worker", "http://w:1", "--workload", str(tmp_path / "w.yaml"), "--prompts", str(tmp_path / "p.txt"),
               fake=fake).returncode == 0
    (tmp_path / "w.yaml").write_text("prompts: [a]\n")
    assert run("bench", "--worker", "http://w:1", "--workload", str(tmp_path / "w.yaml"), "--isl", "16", fake=fake).returncode == 0
    assert [r[2]["workload"] for r in fake.asked("POST", "/v1/runs")] == [{"prompts": ["one"]}, {"isl": 16}]


def test_template(fake, tmp_path):
    (tmp_path / "t.json").write_text('{"inputs": "{prompt}", "parameters": {"max_new_tokens": "{max_tokens}"}}')
    assert run("bench", "--worker", "http://w:1", "--isl", "8", "-n", "1", "--path", "/infer", "--template", str(tmp_path / "t.json"),
               "--template-text", "/text", fake=fake).returncode == 0
    w = workload_of(fake)
    assert w["template"]["parameters"] == {"max_new_tokens": "{max_tokens}"}
    assert w["path"] == "/infer" and w["template_text"] == "/text"


@pytest.mark.parametrize("options, said, advised", [
    (["--isl", "8", "--osl", "0"], "--osl 0", "--osl 1"),
    (["--isl", "0"], "--isl 0", "--isl 1"),
    (["--prompts", "EMPTY"], "contains no prompt", "--isl"),
    (["--prompts", "/nonexistent"], "cannot read prompts from /nonexistent: No such file", None),
    (["--goodput", "ttft:200"], "unit", "ttft:200ms"),
    (["--sweep", "conc=1,2"], "--sweep", "concurrency=1,2"),
    (["--sweep", "concurrency=1,2", "-c", "3"], "--sweep sets concurrency", None),
    (["--sweep", "concurrency=1,2", "--detach"], "excludes --detach", None),
    (["--rate", "fast"], "--rate: 'fast' is not a number above 0", None),
    (["--ramp", "3"], "--ramp", None),
    (["--isl", "3", "--prompts", "EMPTY"], "exclude each other", None),
    (["--save-as", "jmeter"], "unknown format jmeter", "vllm-bench"),
    (["--output", "x"], "--output requires --save-as", None),
    (["--through", "wall"], "--through must be router or workers", None),
])
def test_what_is_wrong_is_reported_before_anything_is_sent(fake, tmp_path, options, said, advised):
    (tmp_path / "empty.txt").write_text("\n\n")
    r = run("bench", "--worker", "http://w:1", *[str(tmp_path / "empty.txt") if o == "EMPTY" else o for o in options], fake=fake)
    assert r.returncode == 2 and said in r.stderr and (advised or "") in r.stderr, r.stderr
    assert r.stdout == "" and fake.requests == []


@pytest.mark.parametrize("text, said", [
    ("isl: 8\nconcurency: 3\n", "w.yaml, line 2: a workload has no member concurency\n  Did you mean concurrency?"),
    ("isl: 8\n\nosl: 0\n", "w.yaml, line 3: osl must be a whole number of at least 1"),
    ("isl: 8\nisl: 9\n", "duplicate key isl (line 2)"),
    ("isl: [8\n", "(line 2)"),
    ("isl: 8\narrival: normal\n", "line 2: arrival must be one of closed"),
    ("isl: 8\ngoodput:\n  ttft: 1s\n  itl: 3ms\n", "line 4: goodput has ttft, tpot and e2e, not itl"),
    ("goodput: {ttft: soon}\n", "line 1: ttft of goodput must be a duration"),
    ("prompts: [a]\nprompts_file: b\n", "line 2: prompts and prompts_file exclude"),
    ("- isl\n", "is not a workload"),
    ("prompts_file: gone.txt\n", "gone.txt: No such file"),
])
def test_a_workload_file_is_checked_with_its_lines(fake, tmp_path, text, said):
    (tmp_path / "w.yaml").write_text(text)
    for verb in ("bench", "start"):
        r = run(verb, "--worker", "http://w:1", "--workload", str(tmp_path / "w.yaml"), fake=fake)
        assert r.returncode == 2 and said in r.stderr, r.stderr
    assert fake.requests == []


def test_the_schema_reports_what_a_file_may_have(fake, tmp_path):
    properties = json.loads((SOURCE / "proto" / "workload.schema.json").read_text())["properties"]
    (tmp_path / "prompts.jsonl").write_text('"a"\n')
    for name, schema in properties.items():
        for example in schema["examples"]:
            (tmp_path / "w.yaml").write_text(json.dumps({name: example}))
            assert run("bench", "--worker", "http://w:1", "--workload", str(tmp_path / "w.yaml"), "--detach", fake=fake).returncode == 0, name
            sent = fake.asked("POST", "/v1/runs")[-1][2]["workload"]
            assert sent == ({"prompts": ["a"]} if name == "prompts_file" else {name: example})
        (tmp_path / "w.yaml").write_text(json.dumps({name: [[]]}) if name != "prompts" else "prompts: x")
        assert run("bench", "--worker", "http://w:1", "--workload", str(tmp_path / "w.yaml"), fake=fake).returncode == 2, name


# What is shown


def test_the_table_of_a_run(fake):
    r = run("bench", "--worker", "http://w:1", "--isl", "1024", "-n", "200", fake=fake)
    assert r.returncode == 0
    assert "Run r3 is complete: 198 of 200 requests succeeded, 1 did not end, 1 failed, in 12.0s" in r.stdout
    assert re.search(r"^  ms +MEAN +95% CI +STD +MIN +P50 +P90 +P95 +P99 +MAX$", r.stdout, re.M)
    assert re.search(r"^  TTFT +34.3 +32.8..35.9 +3.12 +15.6 +31.2 +62.4 +62.4 +62.4 +93.6$", r.stdout, re.M)
    for line in ("16.2 requests/s · 2,070 output tokens/s, 86.2 for one user", "14.1 requests/s, 87.0 % of all", "24 requests at a time",
                 "counted by the server", "TTFT 512 ms", "TTFT rises over the run, from 29.0 ms to 44.0 ms (p = 0.0004)",
                 "request 17: E2E 4,000 ms against 1,000 ms: one gap of 3 s", "TTFT with the prompt's length, r = 0.91",
                 "1 x HTTP 503 Service Unavailable", "2 sent, none failed, mean 410 ms; not counted",
                 "http://10.0.0.1:3000: TTFT p50 30.0 p99 80.0 ms; KV cache at most 8.7 % full"):
        assert line in r.stdout, line
    assert max(map(len, r.stdout.splitlines())) <= 100
    assert "Run r3 on 1 worker: 200 requests, 1,024 tokens in" in r.stderr


def test_partial_and_failed_have_their_status(fake):
    fake.answers["GET /v1/runs/r3"] = a_run(state="partial")
    assert run("bench", "--worker", "http://w:1", "--isl", "8", fake=fake).returncode == 3
    fake.answers["GET /v1/runs/r3"] = a_run(state="failed", reason="no model: /v1/models answered 404", remedy="--model names one")
    fake.answers["GET /v1/runs/r3"] |= {"warmed": [{"url": "http://w:1", "sent": 2, "failed": 2, "mean_ms": None}],
                                        "requests": {"success": 0, "incomplete": 0, "error": 0}}
    r = run("bench", "--worker", "http://w:1", "--isl", "8", fake=fake)
    assert "Run r3 is failed\n" in r.stdout and "2 sent, 2 failed; not counted" in r.stdout and "Throughput" not in r.stdout
    assert r.returncode == 1 and "no model: /v1/models answered 404" in r.stdout and "--model names one" in r.stdout
    fake.answers["POST /v1/runs"] = problem(400, "bad-request", "the workload has no end", "give requests or duration")
    r = run("bench", "--worker", "http://w:1", "--isl", "8", fake=fake)
    assert r.returncode == 2 and "has no end" in r.stderr and "give requests" in r.stderr


def test_json_is_the_run(fake):
    r = run("bench", "--worker", "http://w:1", "--isl", "8", "--json", fake=fake)
    assert json.loads(r.stdout) == a_run()
    assert json.loads(run("bench", "--worker", "http://w:1", "--isl", "8", "--json", "--detach", fake=fake).stdout) == {"run": 3}
    assert run("bench", "--worker", "http://w:1", "--isl", "8", "--detach", fake=fake).stdout == "r3\n"


def test_live_line(fake):
    fake.events = [live(3)]
    fake.answers["GET /v1/runs/r3"] = steps(a_run(state="loading"), a_run(), every=0.8)
    out, status = on_terminal(fake, "bench", "--worker", "http://w:1", "--isl", "8", columns=140)
    assert status == 0
    assert ("loading · 120 of 200 sent · 24 in flight · 95 done · 1 failed · 3,210 tokens/s · TTFT p50 31.2 p99 88.0 ms · E2E p50 1,210 "
            "p99 1,430 ms") in plain(out)
    assert "Run r3 is complete" in plain(out)


def test_live_line_without_events(fake):
    said = json.loads(live(3).split(b"data: ")[1])
    fake.answers["GET /v1/runs/r3"] = steps(a_run(state="loading", live=said), a_run(), every=0.8)
    out, _ = on_terminal(fake, "bench", "--worker", "http://w:1", "--isl", "8", columns=140)
    assert "120 of 200 sent" in plain(out)


def test_events_tell_of_runs_but_not_each_second(fake):
    fake.events = [live(3), b'id: 1\nevent: run\ndata: {"event_id": 1, "kind": "run", "at": 1, "run": 3, "session": "s7", "text": "loading"}\n\n']
    process = subprocess.Popen([PROFCTL, "--socket", fake.path, "events"], text=True, stdout=subprocess.PIPE, env=environment())
    line = process.stdout.readline()
    process.kill()
    process.communicate()
    assert re.search(r"  run +s7 +r3 +loading$", line)


def test_live_line_on_a_narrow_terminal(fake):
    fake.events = [live(3)]
    fake.answers["GET /v1/runs/r3"] = steps(a_run(state="loading"), a_run(), every=0.8)
    out, status = on_terminal(fake, "bench", "--worker", "http://w:1", "--isl", "8", columns=60)
    lines = [line for line in plain(out).splitlines() if "in flight" in line or "E2E p50" in line]
    assert status == 0 and len(lines) >= 2 and "1,430" in plain(out) and max(map(len, lines)) <= 60


def test_a_live_line_of_another_shape_is_no_harm(fake):
    fake.events = [b"event: run\ndata: {\"sent\": []}\n\n", b"event: run\ndata: {{\n\n", b"event: run\ndata: {\"sent\": \"x\"}\n\n"]
    fake.answers["GET /v1/runs/r3"] = steps(a_run(state="loading"), a_run(), every=0.3)
    assert run("bench", "--worker", "http://w:1", "--isl", "8", fake=fake).returncode == 0


def test_interrupted_it_ends_with_what_it_has(fake):
    stopped = []
    fake.answers["POST /v1/runs/r3/stop"] = lambda query, body: (stopped.append(1), (202, {"run": 3}))[1]
    fake.answers["GET /v1/runs/r3"] = lambda query, body: a_run(state="partial" if stopped else "loading")
    process = subprocess.Popen([PROFCTL, "--socket", fake.path, "bench", "--worker", "http://w:1", "--isl", "8"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + patience(20)
    while not fake.asked("GET", "/v1/runs/r3"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 3 and "198 of 200 requests succeeded" in out and "stopping r3" in err


SWEEP = {1: (100, 100), 2: (198, 101), 4: (380, 105), 8: (420, 190), 16: (425, 376)}


def sweeping(fake):
    def begin(query, body):
        n = body["workload"]["concurrency"]
        throughput, e2e = SWEEP[n]
        fake.answers[f"GET /v1/runs/r{n}"] = a_run(n, concurrency=n, throughput=float(throughput), e2e=float(e2e))
        return 202, {"run": n}

    fake.answers["POST /v1/runs"] = begin


def test_sweep(fake):
    sweeping(fake)
    r = run("bench", "--worker", "http://w:1", "--isl", "8", "-n", "9", "--sweep", "concurrency=1,2,4,8,16", fake=fake)
    assert r.returncode == 0, r.stderr
    rows = [line.split() for line in r.stdout.splitlines()]
    assert rows[0][:3] == ["RUN", "CONCURRENCY", "STATE"]
    assert [row[:5] for row in rows[1:6]] == [[f"r{n}", str(n), "complete", "16.2", f"{SWEEP[n][0]}"] for n in SWEEP]
    assert "Knee at concurrency 4" in r.stdout
    j = json.loads(run("bench", "--worker", "http://w:1", "--isl", "8", "-n", "9", "--sweep", "concurrency=1,2,4,8,16", "--json",
                       fake=fake).stdout)
    assert [x["run"] for x in j["runs"]] == [1, 2, 4, 8, 16] and j["knee"] == 4 and j["sweep"] == "concurrency"


def test_a_sweep_begins_with_its_plan(fake):
    sweeping(fake)
    r = run("bench", "--worker", "http://w:1", "--isl", "8", "-n", "40", "--sweep", "concurrency=1,2,4", fake=fake)
    assert "Plan: 3 runs, 120 requests; the first run shows how long the others take" in r.stderr
    # Each of these took 13 s for 200 requests.
    steps_said = [line for line in r.stderr.splitlines() if line.startswith("Step ")]
    assert steps_said == ["Step 1 of 3", "Step 2 of 3, 2s to 5s left", "Step 3 of 3, 1s to 3s left"]


def test_a_dry_run_sends_nothing(fake):
    sweeping(fake)
    words = ("bench", "--router", "http://10.0.0.1:3000", "--isl", "1024", "--osl", "128", "-n", "400", "--sweep", "concurrency=12,24")
    r = run(*words, "--dry-run", fake=fake)
    assert r.returncode == 0 and [line.split()[:3] for line in r.stdout.splitlines()[:3]] == [
        ["RUN", "REQUESTS", "TIME"], ["1", "400", "unknown"], ["2", "400", "unknown"]]
    assert "Plan: 2 runs, 800 requests; the first run shows" in r.stdout
    # An earlier run through the same router: 200 requests at concurrency 24 in 13 s.
    fake.answers["GET /v1/runs"] = {"runs": [a_run(9, state="failed"), a_run(8), a_run(7, concurrency=256)]}
    plan = json.loads(run(*words, "--dry-run", "--json", fake=fake).stdout)
    assert [one["estimated_s"] for one in plan["runs"]] == [[26, 52], [26, 26]] and {one["based_on"] for one in plan["runs"]} == {"r8"}
    assert plan["estimated_s"] == [52, 78] and plan["requests"] == 800
    shown = run(*words, "--dry-run", fake=fake).stdout
    assert "52s to 1min 18s, estimated from earlier runs" in shown
    assert re.search(r"^RUN +REQUESTS +TIME +ESTIMATED FROM +LOAD$\n +1 +400 +26s to 52s +r8 +concurrency 12, ", shown, re.M), shown
    assert not fake.asked("POST", "/v1/runs")


def repeating(fake, throughputs):
    """Each run that is begun is the next of these."""
    begun = []

    def begin(query, body):
        begun.append(body["workload"].get("concurrency"))
        n = len(begun)
        fake.answers[f"GET /v1/runs/r{n}"] = a_run(n, throughput=throughputs[n - 1], e2e=1000.0 + n)
        return 202, {"run": n}

    fake.answers["POST /v1/runs"] = begin
    return begun


def test_repeated_runs(fake):
    begun = repeating(fake, [100.0, 104.0, 108.0])
    r = run("bench", "--worker", "http://w:1", "--isl", "8", "-n", "9", "--repeat-runs", "3", fake=fake)
    assert r.returncode == 0 and len(begun) == 3, r.stderr
    rows = [line.split() for line in r.stdout.splitlines()]
    assert [row[0] for row in rows[:5]] == ["RUN", "r1", "r2", "r3", "mean"] and rows[5][:2] == ["95%", "CI"]
    # Student's t of two degrees of freedom: 4.303 * 4 / sqrt(3)
    assert "104" in rows[4] and "±9.94" in rows[5], r.stdout
    assert "profctl compare r1,r2,r3 OTHER" in r.stderr
    repeating(fake, [100.0, 104.0, 108.0])
    j = json.loads(run("bench", "--worker", "http://w:1", "--isl", "8", "-n", "9", "--repeat-runs", "3", "--json", fake=fake).stdout)
    assert [x["run"] for x in j["runs"]] == [1, 2, 3] and j["knee"] is None
    (summary,) = j["summary"]
    (tokens,) = [f for f in summary["figures"] if f["figure"] == "throughput/output_tokens_per_s"]
    assert (tokens["runs"], tokens["mean"], tokens["sd"]) == (3, 104, 4) and tokens["ci95"] == pytest.approx([94.063, 113.937], abs=0.01)


def test_a_repeated_sweep_goes_in_rounds(fake):
    begun = repeating(fake, [100.0, 200.0, 102.0, 198.0])
    r = run("bench", "--worker", "http://w:1", "--isl", "8", "-n", "9", "--repeat-runs", "2", "--sweep", "concurrency=1,2", fake=fake)
    assert r.returncode == 0 and begun == [1, 2, 1, 2], r.stderr
    rows = [line.split() for line in r.stdout.splitlines()]
    assert [row[:2] for row in rows[1:9]] == [["r1", "1"], ["r3", "1"], ["mean", "1"], ["95%", "CI"], ["r2", "2"], ["r4", "2"], ["mean", "2"],
                                              ["95%", "CI"]]
    assert "Step 4 of 4" in r.stderr


@pytest.mark.parametrize("options, said", [
    (["--repeat-runs", "2", "--detach"], "--repeat-runs waits for each run before the next"),
    (["--repeat-runs", "2", "--save-as", "aiperf"], "--save-as requires a single run"),
    (["--repeat-runs", "101"], "--repeat-runs is at most 100"),
    (["--repeat-runs", "0"], "--repeat-runs: '0'"),
])
def test_what_repeated_runs_exclude(fake, options, said):
    r = run("bench", "--worker", "http://w:1", "--isl", "8", *options, fake=fake)
    assert r.returncode == 2 and said in r.stderr and fake.requests == [], r.stderr


def test_percentiles_that_few_requests_do_not_support(fake):
    """p99 of 15 values is their maximum."""
    few = {name: metric(31.2, count=15) for name in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms", "send_lateness_ms")}
    fake.answers["GET /v1/runs/r3"] = a_run() | {"metrics": few}
    for words in (["show", "r3"], ["bench", "--worker", "http://w:1", "--isl", "8"]):
        r = run(*words, fake=fake)
        assert re.search(r"^  TTFT +34.3 +32.8..35.9 +3.12 +15.6 +31.2 +62.4 +- +- +93.6$", r.stdout, re.M), r.stdout
    begun = repeating(fake, [100.0, 104.0])
    fake.answers["POST /v1/runs"] = lambda query, body: (begun.append(0), fake.answers.update(
        {f"GET /v1/runs/r{len(begun)}": a_run(len(begun)) | {"metrics": few}}), (202, {"run": len(begun)}))[2]
    rows = run("bench", "--worker", "http://w:1", "--isl", "8", "--repeat-runs", "2", fake=fake).stdout.splitlines()
    assert [word for word in rows[1].split() if word == "-"] == ["-"] * 3, rows


def test_a_sweep_that_only_rises_has_no_knee(fake):
    sweeping(fake)
    r = run("bench", "--worker", "http://w:1", "--isl", "8", "--sweep", "concurrency=1,2,4", fake=fake)
    assert r.returncode == 0 and "No knee in this range" in r.stdout


# What was measured before


def test_list_runs(fake):
    fake.answers["GET /v1/runs"] = {"runs": [a_run(4, concurrency=32), a_run(3), a_run(2, "loading", requests={"success": 5})]}
    r = run("list-runs", "--limit", "3", "--session", "s7", fake=fake)
    assert [line.split()[:2] for line in r.stdout.splitlines()] == [["RUN", "STATE"], ["r4", "complete"], ["r3", "complete"], ["r2", "loading"]]
    assert "concurrency 32, 200 requests, 1,024 tokens in, 128 out" in r.stdout and "198/200" in r.stdout and "job=nightly" in r.stdout
    assert fake.asked("GET", "/v1/runs?limit=3&session=s7")


def test_show_and_its_requests(fake):
    requests = [{"run": 3, "index": i, "target": "http://w:1", "intended_ns": i * 1000000, "ttft_ns": 31200000, "e2e_ns": 1000000000,
                 "output_tokens": 128, "outcome": "success" if i else "error"} for i in range(3)]
    text = io.StringIO()
    writer = csv.DictWriter(text, requests[0])
    writer.writeheader()
    writer.writerows(requests)
    formats = {"json": {"requests": requests}, "csv": text.getvalue().encode()}
    fake.answers["GET /v1/runs/r3/requests"] = lambda query, body: (200, formats[query["format"][0]])
    r = run("show", "r3", fake=fake)
    assert r.returncode == 0 and "Run r3 on 1 target, Qwen3-8B" in r.stdout and "Throughput:" in r.stdout and "uid 1000 (anna)" in r.stdout
    table = run("show", "r3", "--requests", fake=fake).stdout.splitlines()
    assert table[0].split() == ["REQUEST", "AT", "ms", "LATE", "TTFT", "TPOT", "E2E", "IN", "OUT", "OUTCOME", "TARGET", "ERROR"]
    assert table[2].split() == ["1", "1.00", "-", "31.2", "-", "1,000", "-", "128", "success", "http://w:1", "-"]
    assert run("show", "3", "--requests", "--csv", fake=fake).stdout == text.getvalue().replace("\r\n", "\n")
    assert [json.loads(line) for line in run("show", "r3", "--requests", "--jsonl", fake=fake).stdout.splitlines()] == requests
    assert json.loads(run("show", "r3", "--requests", "--json", fake=fake).stdout) == {"requests": requests}
    for wrong in (["r3", "--csv"], ["r3", "--requests", "--csv", "--json"], ["t1", "--requests"]):
        assert run("show", *wrong, fake=fake).returncode == 2


def test_requests_come_in_pages(fake):
    pages = {"-1": {"requests": [{"index": 0}, {"index": 5}], "next": 5}, "5": {"requests": [{"index": 7}], "next": 7}, "7": {"requests": []}}
    fake.answers["GET /v1/runs/r3/requests"] = lambda query, body: pages[query.get("after", ["-1"])[0]]
    assert [r["index"] for r in json.loads(run("show", "r3", "--requests", "--json", fake=fake).stdout)["requests"]] == [0, 5, 7]
    assert [line.split()[0] for line in run("show", "r3", "--requests", "--no-legend", fake=fake).stdout.splitlines()] == ["0", "5", "7"]
    pages["7"]["next"] = 5  # one that goes in circles is left
    assert run("show", "r3", "--requests", "--json", fake=fake).returncode == 0
    pages["-1"] = {"requests": []}
    assert json.loads(run("show", "r3", "--requests", "--json", fake=fake).stdout) == {"requests": []}
    assert run("show", "r3", "--requests", "--jsonl", fake=fake).stdout == ""


def test_csv_comes_in_pages(fake):
    def page(query, body):
        if "after" in query:
            return 200, b"1\n"
        return 200, b"index\n0\n", [("Link", '</v1/runs/r3/requests?format=csv&after=0&limit=10000>; rel="next"')]

    fake.answers["GET /v1/runs/r3/requests"] = page
    assert run("show", "r3", "--requests", "--csv", fake=fake).stdout == "index\n0\n1\n"
    fake.answers["GET /v1/runs/r3/requests"] = lambda query, body: (200, b"index\n", [("Link", "<http://elsewhere/>; rel=\"next\"")])
    assert run("show", "r3", "--requests", "--csv", fake=fake).stdout == "index\n"


def test_save_as(fake, tmp_path):
    fake.answers["GET /v1/runs/r3/requests"] = {"requests": []}
    r = run("show", "r3", "--save-as", "vllm-bench", "--output", str(tmp_path / "v.json"), fake=fake)
    assert r.returncode == 0, r.stderr
    assert json.loads((tmp_path / "v.json").read_text())["completed"] == 198
    r = run("bench", "--worker", "http://w:1", "--isl", "8", "--save-as", "aiperf", "-o", str(tmp_path / "a.json"), fake=fake)
    assert r.returncode == 0 and json.loads((tmp_path / "a.json").read_text())
    r = run("bench", "--worker", "http://w:1", "--isl", "8", "--save-as", "vllm-bench", "-o", "-", fake=fake)
    assert json.loads(r.stdout)["completed"] == 198  # and nothing but that


def test_compare(fake):
    fake.answers |= {
        "GET /v1/runs/r4": a_run(4, concurrency=32, throughput=2400.0, e2e=1100.0),
        "GET /v1/runs/r3/requests": {"requests": [{"index": i, "outcome": "success", "e2e_ns": 1000000000 + i} for i in range(60)]},
        "GET /v1/runs/r4/requests": {"requests": [{"index": i, "outcome": "success", "e2e_ns": 1100000000 + i} for i in range(60)]},
    }
    r = run("compare", "r3", "4", fake=fake)
    assert r.returncode == 0, r.stderr
    assert "concurrency differs: 24 -> 32" in r.stdout
    assert re.search(r"^error +1 +1 +\+0.0 % +0$", r.stdout, re.M)
    assert re.search(r"^output_tokens_per_s +2,070 +2,400 +\+15.9 % +\+330$", r.stdout, re.M), r.stdout
    assert re.search(r"^e2e.mean ms +1,000 +1,100 +\+10.0 % +\+10.0 .. \+10.0 % +slower +\+100$", r.stdout, re.M), r.stdout
    j = json.loads(run("compare", "r3", "r4", "--json", fake=fake).stdout)
    assert {"workload", "requests", "throughput", "latency"} <= set(j) and (j["a"], j["b"], j["unit"]) == ([3], [4], "request")
    # The rows of these requests do not show how the throughput varies.
    for condition, status, by_estimate in [
            ("e2e.p50 > +5%", 5, 5), ("e2e.p50 > +20%", 0, 0), ("e2e.p50 > 1050ms", 5, 5), ("output_tokens_per_s < -5%", 6, 0),
            ("output_tokens_per_s > +5%", 6, 5), ("nonsense.p50 > +1%", 4, 4), ("e2e", 2, 2), ("output_tokens_per_s > 3ms", 2, 2)]:
        assert run("compare", "r3", "r4", "--fail-if", condition, fake=fake).returncode == status, condition
        assert run("compare", "r3", "r4", "--fail-if", condition, "--fail-if-estimate", fake=fake).returncode == by_estimate, condition
    fake.answers["GET /v1/runs/r4"] = a_run(4, "failed")
    assert run("compare", "r3", "r4", fake=fake).returncode == 1


def test_stop_and_rm(fake):
    fake.answers |= {"POST /v1/runs/r3/stop": (202, {"run": 3}), "DELETE /v1/runs/r3": {}}
    assert run("stop", "r3", fake=fake).returncode == 0 and fake.asked("POST", "/v1/runs/r3/stop")
    r = run("stop", "r3", "--wait", fake=fake)
    assert r.returncode == 0 and "Run r3 is complete" in r.stdout
    assert run("rm", "r3", fake=fake).returncode == 0 and fake.asked("DELETE", "/v1/runs/r3")
    assert "'x3' is not a session or a benchmark run" in run("stop", "x3", fake=fake).stderr


def test_start_shows_session_and_run_as_one(fake, tmp_path):
    (tmp_path / "w.yaml").write_text("isl: 4096\nosl: 16\nconcurrency: 8\nrequests: 64\n")
    recorded = session("complete", [target(1)], run=3)
    fake.answers |= {"POST /v1/sessions": (201, session("requested", [target(1, "requested")], run=3)), "GET /v1/sessions/s7": recorded}
    start = ["start", "--router", "http://r:1", "--workload", str(tmp_path / "w.yaml"), "--through", "router"]
    r = run(*start, "--wait", fake=fake)
    assert r.returncode == 0, r.stderr
    ((_, _, body, _),) = fake.asked("POST", "/v1/sessions")
    assert body["workload"] == {"isl": 4096, "osl": 16, "concurrency": 8, "requests": 64} and body["load"] == {"through": "router"}
    assert "Session s7 is complete" in r.stdout and "Run r3 is complete" in r.stdout and "TTFT" in r.stdout
    j = json.loads(run(*start, "--wait", "--json", fake=fake).stdout)
    assert j["session"] == "s7" and j["run"] == 3 and j["measured"] == a_run()
    fake.answers["GET /v1/runs/r3"] = steps(a_run(state="loading"), a_run(), every=0.5)  # it outlasts the recording
    r = run(*start, "--wait", fake=fake)
    assert r.returncode == 0 and "r3 goes on" in r.stderr and "Run r3 is complete" in r.stdout
    fake.answers["GET /v1/runs/r3"] = a_run(state="partial")
    assert run(*start, "--wait", fake=fake).returncode == 3
    assert "r3" in run("show", "s7", fake=fake).stdout
    assert run("start", "--router", "http://r:1", "--through", "router", fake=fake).returncode == 2


def test_hostile_text_reaches_no_terminal(fake):
    evil = "\x1b]0;x\x07\x1b[31m\u202e"
    fake.answers["GET /v1/runs/r3"] = a_run(state="partial", model=evil, reason=evil, errors=[{"text": evil, "count": 1}], notes=[{"text": evil}],
                                            labels={"k": evil})
    fake.answers["GET /v1/runs"] = {"runs": [fake.answers["GET /v1/runs/r3"]]}
    for words in (["show", "r3"], ["list-runs"], ["bench", "--worker", "http://w:1", "--isl", "8"]):
        out = run(*words, fake=fake).stdout
        assert "\x1b" not in out and "\u202e" not in out, words
