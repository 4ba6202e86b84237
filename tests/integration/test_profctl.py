# SPDX-License-Identifier: Apache-2.0
"""profctl as its users see it, against a fake profd that answers what each test needs."""
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import pytest

from fake_profd import FAILURE, MIB, SECOND, T0, USAGE, FakeProfd, problem, session, steps, target, trace
from terminal import PROFCTL, environment, on_terminal, plain, run
from patience import patience

PERFETTO = "https://ui.perfetto.dev"


def verbs():
    return re.findall(r"^  ([a-z-]+)", run("help").stdout, re.M)


def long_options(text):
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", text, re.M))


@pytest.fixture
def fake(tmp_path):
    with FakeProfd(tmp_path / "fake.sock") as d:
        yield d


# Help, usage, completion, manual


def test_help_fits_and_is_data():
    for words in [[], *[[v] for v in verbs()]]:
        r = run(*words, "--help")
        assert r.returncode == 0 and r.stderr == "", words
        assert r.stdout.startswith("profctl")
        assert max(map(len, r.stdout.splitlines())) <= 80, words
        private = re.search(r"\b(so many|so much|so long|by chance|beside|behind|what there is)\b|(?<!or )\bwhole\b", " ".join(r.stdout.split()))
        assert not private, (words, private)


def test_help_has_a_summary_groups_and_examples():
    overview = run("help").stdout
    assert re.findall(r"^([A-Z][a-z ]+):$", overview, re.M) == [
        "Fleet", "Record", "Measure load", "Traces", "Analyze", "Storage", "Administration"]
    for verb in verbs():
        text = run("help", verb).stdout
        usage, empty, summary, *rest = text.splitlines()
        assert usage.startswith(f"profctl {verb} [OPTION...]") and empty == "", verb
        assert len(summary) <= 60 and re.fullmatch(r"[A-Z].*\.", summary), summary
        assert f"  {verb}" in overview and summary[:-1] in overview, verb
        assert rest[-1] == "Global options: profctl help options", verb
        for option in re.findall(r"^ {2,6}-.*?(?:\S {2,}|\n {20,})(\S.*)$", text, re.M):
            assert re.match(r"[A-Z]", option) and not option.endswith("."), (verb, option)
        for name in re.findall(r"^ {2,6}(?:-\w, )?--([^\s\[]+)", text, re.M):
            assert re.fullmatch(r"[a-z0-9-]+", name), (verb, name)


def examples():
    for verb in verbs():
        text = run("help", verb).stdout
        lines = text.split("\nExamples:\n")[1].split("\n\n")[0].splitlines()
        assert 2 <= len(lines) <= 3, verb
        for line in lines:
            yield verb, line.strip()


def test_examples_parse():
    for verb, line in examples():
        program, *words = shlex.split(re.sub(r"^source <\((.*)\)$", r"\1", line))
        for end in ("--", ">"):
            words = words[:words.index(end)] if end in words else words
        r = run(*words, "--help")
        assert program == "profctl" and (r.returncode, r.stderr) == (0, ""), (verb, line, r.stderr)
        assert r.stdout.startswith("profctl "), line


def test_global_options_have_a_page():
    page = run("help", "options").stdout
    assert re.findall(r"^([A-Z][a-z]+):$", page, re.M) == ["Connection", "Output", "Help"]
    assert {"--host", "--context", "--socket", "--token-file", "--json", "--quiet", "--help"} <= long_options(page)


@pytest.mark.parametrize("words", [
    ["--bogus"], ["no-such-verb"], [], ["start", "--bogus"], ["list-traces", "--since", "whenever"], ["show", "x7"],
    ["du", "word"], ["vacuum"], ["status", "t1"], ["open", "r1"], ["get", "s1", "-o", "a"], ["get", "t1", "-o", "a", "-d", "b"],
    ["start", "--label", "novalue"], ["start", "--wait", "--detach"], ["start", "--timeout", "1s"],
    ["start", "--router", "http://a", "--fleet", "b"], ["--host", "ftp://x", "du"],
])
def test_usage_errors(words, fake):
    r = run(*words, fake=None if "--host" in words else fake)
    assert r.returncode == 2, r.stderr
    assert r.stdout == ""
    assert re.match(r"profctl: \S", r.stderr)
    assert fake.requests == []


@pytest.mark.smoke
def test_every_verb_refuses_an_unknown_option():
    for verb in verbs():
        r = run(verb, "--no-such-option")
        assert (r.returncode, r.stdout) == (2, "")
        assert "--no-such-option" in r.stderr


def test_manual_has_every_verb_and_option():
    manual = (PROFCTL.parents[1] / "docs" / "profctl.1.scd").read_text()
    bold = set(re.findall(r"\*([^*\n]+)\*", manual))
    for verb in verbs():
        assert verb in bold, verb
        assert long_options(run(verb, "--help").stdout) <= bold, verb


def test_version():
    for words in (["--version"], ["analyze", "--version"], ["list-traces", "t1", "--version"]):
        assert re.fullmatch(r"profctl \d+\.\d+\.\d+\n", run(*words).stdout)


# Where profd is


def test_no_profd(tmp_path):
    path = str(tmp_path / "none.sock")
    r = run("du", env={"PROFD_SOCKET": path})
    assert r.returncode == 1 and r.stdout == ""
    first, *remedy = r.stderr.splitlines()
    assert first == f"profctl: cannot reach profd at {path}: No such file or directory"
    assert remedy == ["  Check --socket or $PROFD_SOCKET, or unset it."]


def test_no_token_file(tmp_path):
    r = run("list-traces", "--host", "http://127.0.0.1:1", "--token-file", str(tmp_path / "none"))
    assert r.returncode == 2 and r.stderr.endswith("\n  Check the path of the token file.\n"), r.stderr


def test_socket_path_too_long(tmp_path):
    r = run("du", "--socket", "/" + 200 * "x")
    assert r.returncode == 2 and "the path of the socket is too long" in r.stderr


def test_environment_and_option(fake, tmp_path):
    assert run("du", env={"PROFD_SOCKET": fake.path}).returncode == 0
    r = run("du", "--socket", fake.path, env={"PROFD_SOCKET": str(tmp_path / "other")})
    assert r.returncode == 0, r.stderr


def test_own_socket_of_a_user():
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    if os.path.exists("/run/profd/profd.sock"):
        pytest.skip("a system profd has its socket here")
    # The checkout and pytest's directories may be closed to others.
    with tempfile.TemporaryDirectory() as open_dir:
        os.chmod(open_dir, 0o755)
        program = shutil.copy(PROFCTL, open_dir)
        for env, path in [({"XDG_RUNTIME_DIR": "/nonexistent/run"}, "/nonexistent/run/profd/profd.sock"),
                          ({"XDG_STATE_HOME": "/nonexistent/state"}, "/nonexistent/state/profd/profd.sock"),
                          ({"HOME": "/home/nobody"}, "/home/nobody/.local/state/profd/profd.sock")]:
            r = subprocess.run([program, "du"], capture_output=True, text=True, timeout=30, env={**environment(), **env}, user=65534,
                               cwd="/")
            assert r.returncode == 1 and f"cannot reach profd at {path}" in r.stderr


@pytest.mark.parametrize("reply, why", [
    (b"", "Empty reply from server"),
    (b"SSH-2.0-OpenSSH\r\n", "Received HTTP/0.9 when not allowed"),
    (b"HTTP/1.1 200 OK\r\nContent-Le", "the connection was closed within the head of the response"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "transfer closed with bytes remaining to read"),
])
def test_incomplete_response_over_the_socket(tmp_path, reply, why):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()

        def answer():
            client, _ = server.accept()
            with client:
                client.recv(4096)
                client.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        r = run("du", "--socket", str(tmp_path / "s"))
        thread.join()
    assert r.returncode == 1
    assert r.stderr == (f"profctl: incomplete response from profd at {tmp_path}/s: {why}\n"
                        "  Retry; journalctl -u profd shows whether profd ended.\n")


def test_host(fake):
    r = run("du", "--host", "http://127.0.0.1:1")
    assert r.returncode == 1 and "cannot reach profd at http://127.0.0.1:1" in r.stderr


def test_proxies_are_ignored(fake):
    r = run("du", "--host", "127.0.0.1:1", env={"http_proxy": "http://127.0.0.1:2", "ALL_PROXY": "http://127.0.0.1:2"})
    assert "cannot reach profd at http://127.0.0.1:1" in r.stderr


# Problems and statuses


@pytest.mark.parametrize("status,code,exit_status", [
    (404, "not-found", 4), (410, "gone", 4), (400, "bad-request", 2), (409, "busy", 1), (422, "unsupported", 1), (500, "internal", 1),
    (507, "storage", 1),
])
def test_problem_is_two_lines(fake, status, code, exit_status):
    fake.answers["GET /v1/traces/t1"] = problem(status, code, "cannot do it: \033[2Jwhy", "do that\nand this")
    r = run("show", "t1", fake=fake)
    assert (r.returncode, r.stdout) == (exit_status, "")
    assert r.stderr == "profctl: cannot do it: ?[2Jwhy\n  do that\n  and this\n"


@pytest.mark.parametrize("body", [b"<html>nginx</html>", b"", b"[]", b"\xff\xfe"])
def test_something_else_answers(fake, body):
    fake.answers["GET /v1/usage"] = (502, body)
    r = run("du", fake=fake)
    assert r.returncode == 1 and "unexpected response 502 from profd" in r.stderr


def test_answer_that_is_not_json(fake):
    fake.answers["GET /v1/usage"] = (200, b"{")
    r = run("du", fake=fake)
    assert r.returncode == 1 and "invalid JSON" in r.stderr


# Of each kind that terminals obey, hide, or let change the direction of what stands around it.
STEERING = "a\x1b]0;x\x07\x7f\x85\x9b\u00ad\u061c\u200b\u200e\u2028\u202e\u2066\u2069\ufeff\U000e0041z"
HARMLESS = set("a]0;xz")
WORDS = ("state", "engine", "role", "level", "status", "session", "trace", "run", "kind", "format")  # that profctl decides by
OUTPUTS = [["list-traces", "--format", f] for f in ("table", "wide", "csv", "tsv", "json")] + [
    ["show", "t41"], ["show", "t41", "--json"], ["status", "s7"], ["status", "s7", "--json"], ["du"], ["pin", "t41"], ["stop"],
    ["start", "--router", "http://r"], ["list-sessions"], ["list-sessions", "--csv"], ["list-workers", "--router", "http://r"],
    ["doctor", "--router", "http://r"]]


def poisoned(value, kept=()):
    """An answer in which each text steers, but for those of the kept members."""
    if isinstance(value, dict):
        return {k: v if k in kept else poisoned(v, kept) for k, v in value.items()}
    if isinstance(value, list):
        return [poisoned(v, kept) for v in value]
    return value + STEERING if isinstance(value, str) else value


@pytest.mark.parametrize("kept", [WORDS, ()], ids=["texts", "all"])
@pytest.mark.parametrize("words", OUTPUTS, ids=" ".join)
def test_nothing_steers_a_terminal(fake, words, kept):
    s = session("partial", [target(1, "failed", **FAILURE), target(2)])
    worker = {"url": "http://w", "engine": "vllm", "version": "1", "role": "decode", "model": "m", "note": "n", "remedy": "r", "error": "e"}
    check = {"level": "fail", "status": "fail", "text": "t", "remedy": "r", "worker": "http://w"}
    t = trace(41, note="n", reason="r", labels={"a": "b"})
    answers = {"GET /v1/traces": {"traces": [t]}, "GET /v1/traces/t41": t, "GET /v1/sessions/s7": s, "GET /v1/sessions": {"sessions": [s, s]},
               "GET /v1/usage": USAGE, "GET /v1/workers": {"dialect": "static", "workers": [worker]}, "POST /v1/sessions": s,
               "GET /v1/doctor": {"checks": [check], "problems": 1, "warnings": 0}}
    fake.answers |= {k: poisoned(v, kept) for k, v in answers.items()}
    fake.answers["PUT /v1/traces/t41/pin"] = problem(409, "busy", STEERING, STEERING)
    if words[0] == "status" and not kept:  # it would follow a session that never ends
        words = [*words, "--once"]
    out, _ = on_terminal(fake, *words, columns=400)
    assert out and not (set(STEERING) - HARMLESS) & set(plain(out))


@pytest.mark.parametrize("term", ["dumb", ""])
@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_nothing_steers_a_dumb_terminal(fake, form, term):
    fake.answers["GET /v1/traces"] = {"traces": [trace(41, name=STEERING, note=STEERING)]}
    out, _ = on_terminal(fake, "list-traces", "--format", form, columns=400, env={"TERM": term})
    assert "t41" in out and not (set(STEERING) - HARMLESS) & set(plain(out))


def test_json_is_the_answer_of_profd(fake):
    t = trace(41, note="ä\x1b")
    fake.answers |= {"GET /v1/traces/t41": t, "GET /v1/workers": {"dialect": "static", "workers": []},
                     "GET /v1/doctor": {"checks": [], "problems": 0, "warnings": 0}, "GET /v1/sessions/s7": session(),
                     "GET /v1/sessions": {"sessions": [session()]}, "POST /v1/vacuum": {"removed": 0, "freed": 0},
                     "DELETE /v1/traces/t41": {"removed": 1}, "PUT /v1/traces/t41/pin": {"pinned": True}}
    for words, expected in [
        (["show", "t41"], t), (["list-workers"], {"dialect": "static", "workers": []}), (["du"], USAGE), (["status", "s7"], session()),
        (["doctor"], {"checks": [], "problems": 0, "warnings": 0}), (["list-sessions"], {"sessions": [session()]}),
        (["vacuum", "--keep", "0", "--yes"], {"removed": 0, "freed": 0}), (["rm", "t41"], {"removed": 1}), (["pin", "t41"], {"pinned": True}),
    ]:
        r = run("--json", *words, fake=fake)
        assert r.returncode == 0, r.stderr
        assert json.loads(r.stdout) == expected
        assert r.stdout.count("\n") == 1


def test_closed_pipe_is_not_a_crash(fake):
    fake.answers["GET /v1/traces"] = {"traces": [trace(n) for n in range(1, 2000)], "usage": USAGE}
    r = subprocess.run(f"{PROFCTL} --socket {fake.path} list-traces --all | head -1; exit ${{PIPESTATUS[0]}}", shell=True,
                       executable="/bin/bash", capture_output=True, text=True, env=environment(), timeout=30)
    assert r.stdout.startswith("TRACE") and r.returncode in (0, 1)


def test_full_disk_is_reported(fake):
    r = subprocess.run(f"{PROFCTL} --socket {fake.path} du > /dev/full", shell=True, capture_output=True, text=True,
                       env=environment(), timeout=30)
    assert r.returncode == 1 and "No space left" in r.stderr


# Workers


def worker(n, **more):
    return {"url": f"http://10.0.0.{n}:15000", "engine": "vllm", "version": "0.19.1", "role": "decode", "health": "healthy",
            "model": "/models/Llama-3", "load": 3, "profilable": True, "local": True,
            "traces": {"dir": "/traces", "local_dir": "/var/tmp/traces"}} | more


def test_list_workers(fake):
    dead = [worker(n, profilable=False, reason="has no /start_profile", remedy="Start vLLM with\n  --profiler-config '{}'")
            for n in range(12, 18)]
    fake.answers["GET /v1/workers"] = {"router": "http://r:1", "dialect": "smg", "workers": [worker(11), *dead], "notes": ["1 merged"]}
    r = run("list-workers", "--router", "http://r:1", "--worker", "http://a", "--worker", "http://b", "--dialect", "smg", fake=fake)
    assert r.returncode == 0
    lines = r.stdout.splitlines()
    assert lines[0].split() == ["WORKER", "ENGINE", "ROLE", "HEALTH", "MODEL", "LOAD", "PROFILE", "TRACES"]
    assert re.split("  +", lines[1]) == ["http://10.0.0.11:15000", "vllm 0.19.1", "decode", "healthy", "/models/Llama-3", "3", "yes", "/var/tmp/traces"]
    assert "http://r:1: smg, 7 workers, 1 can be profiled" in lines
    # Six workers with one reason are one reason.
    assert r.stdout.count("has no /start_profile") == 1 and "and 4 more: has no /start_profile" in r.stdout
    assert "    --profiler-config '{}'" in lines
    assert r.stderr == "1 merged\n"
    assert fake.requests[0][1] == "/v1/workers?router=http%3A%2F%2Fr%3A1&dialect=smg&worker=http%3A%2F%2Fa&worker=http%3A%2F%2Fb"
    bare = run("list-workers", "--no-legend", "-q", fake=fake)
    assert len(bare.stdout.splitlines()) == 7 and bare.stderr == ""


def test_router_log_is_read_here(fake, tmp_path):
    log = tmp_path / "train.log"
    log.write_text("noise\nRouter launched at 10.0.0.9:1111\nmore\nRouter launched at 10.0.0.9:2222\n")
    fake.answers["GET /v1/workers"] = {"dialect": "smg", "workers": []}
    assert run("list-workers", "--router-log", "train.log", fake=fake, cwd=tmp_path).returncode == 0
    assert fake.requests[0][1] == "/v1/workers?router=http%3A%2F%2F10.0.0.9%3A2222"
    r = run("list-workers", "--router-log", str(tmp_path / "none.log"), fake=fake)
    assert r.returncode != 0 and "none.log" in r.stderr and len(fake.requests) == 1


def test_doctor(fake):
    fake.answers["GET /v1/doctor"] = {"problems": 1, "warnings": 1, "checks": [
        {"result": "ok", "text": "router answers"}, {"result": "fail", "worker": "http://a", "text": "has none", "remedy": "add\n  this 'one'"},
        {"result": "warn", "text": 40 * "word "}]}
    r = run("doctor", fake=fake)
    assert r.returncode == 1
    lines = r.stdout.splitlines()
    assert lines[:4] == ["ok    router answers", "FAIL  http://a: has none", "      add", "        this 'one'"]
    assert lines[-1] == "1 problem, 1 warning"
    assert max(map(len, lines)) <= 100
    fake.answers["GET /v1/doctor"] = {"problems": 0, "warnings": 0, "checks": []}
    assert run("doctor", fake=fake).returncode == 0


# Sessions


def live(state, *targets, **more):
    """A session whose times are about now."""
    shift = time.time_ns() - T0

    def moved(o):
        return {k: v + shift if k.endswith("_at") else v for k, v in o.items()}

    return moved(session(state, [moved(t) for t in targets], **more))


def test_start_asks_for_what_was_given(fake, tmp_path):
    fake.answers["POST /v1/sessions"] = (201, session("starting", remarks=[
        {"refuses": False, "option": "with_stack", "worker": "http://a", "text": "set at launch"}],
        skipped=[{"worker": "http://b", "reason": "is unhealthy"}]))
    before = time.time_ns()
    r = run("start", "--router", "http://r:1", "--worker", "http://a", "--steps", "5", "--duration", "1min", "--start-at", "+10s",
            "--start-step", "9", "--activities", "cpu,cuda", "--with-stack", "--record-shapes", "--by-stage", "--role", "decode",
            "--count", "3", "--one-per-role", "--include-unhealthy", "--stagger", "--when-running", "16", "--timeout", "30s",
            "--require-all", "--queue", "--label", "job=grpo", "--label", "a=b=c", "--trace-dir", "traces", fake=fake, cwd=tmp_path)
    assert (r.returncode, r.stdout) == (0, "s7\n"), r.stderr
    body = fake.requests[0][2]
    assert before + 9 * SECOND < body.pop("start_at") < time.time_ns() + 10 * SECOND
    assert body == {
        "router": "http://r:1", "workers": ["http://a"], "steps": 5, "duration_ns": 60 * SECOND, "start_step": 9,
        "activities": ["cpu", "cuda"], "with_stack": True, "record_shapes": True, "by_stage": True, "role": "decode", "count": 3,
        "one_per_role": True, "include_unhealthy": True, "stagger": True, "when_running": 16, "when_timeout_ns": 30 * SECOND,
        "require_all": True, "queue": True, "labels": {"job": "grpo", "a": "b=c"}, "trace_dir": f"{tmp_path}/traces"}
    assert "with_stack: set at launch" in r.stderr and "left out: is unhealthy" in r.stderr
    assert "profctl status s7" in r.stderr


def test_start_with_no_options(fake):
    fake.answers["POST /v1/sessions"] = (201, session("starting"))
    r = run("start", fake=fake)
    assert fake.requests[0][2] == {}
    assert "2 engines will not serve requests" in r.stderr
    assert run("start", "-q", fake=fake).stderr == ""


def test_start_refused(fake):
    fake.answers["POST /v1/sessions"] = problem(409, "busy", "http://a is held by s3 until 14:02:11", "--queue waits for it")
    r = run("start", "--wait", fake=fake)
    assert (r.returncode, r.stdout) == (1, "")
    assert r.stderr == "profctl: http://a is held by s3 until 14:02:11\n  --queue waits for it\n"


@pytest.mark.parametrize("state,exit_status", [("complete", 0), ("partial", 3), ("failed", 1), ("cancelled", 1)])
def test_start_and_wait(fake, state, exit_status):
    begun, end = live("recording", target(1, "recording")), live(state, target(1), target(2, "failed", **FAILURE))
    fake.answers["POST /v1/sessions"] = (201, begun)
    fake.answers["GET /v1/sessions/s7"] = steps(begun, end)
    r = run("start", "--wait", fake=fake)
    assert r.returncode == exit_status
    assert r.stdout.splitlines()[0] == f"Session s7 is {state}: 1 of 2 workers, 1 trace, 61.0 MiB" + (
        " in 14.0s" if state != "cancelled" else "")
    assert "http://10.0.0.12:15000: POST /start_profile answered 404 Not Found" in r.stdout
    assert "      --profiler-config" in r.stdout
    assert re.search(r"s7  recording \d+\.\ds of 5\.0s", r.stderr)
    assert re.search(rf"s7  {state}", r.stderr)


def test_wait_asks_at_most_four_times_a_second(fake):
    begun = live("recording", target(1, "recording"))
    fake.events = [b"event: target-state\ndata: {}\n\n"] * 2000
    fake.answers["POST /v1/sessions"] = (201, begun)
    fake.answers["GET /v1/sessions/s7"] = steps(begun, live("complete", target(1)), every=1.5)
    assert run("start", "--wait", fake=fake).returncode == 0
    assert 2 <= len(fake.asked("GET", "/v1/sessions/s7")) <= 9


def interrupt(process, fake, wanted):
    """Sends SIGINT when the fake profd has received the expected request."""
    deadline = time.monotonic() + patience(10)
    while time.monotonic() < deadline and not wanted():
        time.sleep(0.02)
    assert wanted()
    process.send_signal(signal.SIGINT)


def start_waiting(fake):
    return subprocess.Popen([PROFCTL, "--socket", fake.path, "start", "--wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=environment())


def test_interrupt_stops_the_session(fake):
    stopped = []

    def stop(query, body):
        stopped.append(True)
        return live("stopping", target(1, "stopping"))

    def look(query, body):
        return live("complete", target(1)) if stopped else live("recording", target(1, "recording"))

    fake.answers |= {"POST /v1/sessions": (201, look(None, None)), "GET /v1/sessions/s7": look, "POST /v1/sessions/s7/stop": stop}
    process = start_waiting(fake)
    interrupt(process, fake, lambda: fake.asked("GET", "/v1/sessions/s7"))
    out, err = process.communicate(timeout=60)
    assert stopped == [True] and process.returncode == 0
    assert out.startswith("Session s7 is complete") and "stopping s7" in err


def test_interrupt_while_workers_are_looked_for(fake):
    fake.answers["POST /v1/sessions"] = lambda query, body: fake.closing.wait(10) and None
    process = start_waiting(fake)
    interrupt(process, fake, lambda: fake.asked("POST", "/v1/sessions"))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and out == "" and "interrupted" in err


def test_second_interrupt_leaves_it_to_profd(fake):
    busy = live("stopping", target(1, "stopping"))
    fake.answers |= {"POST /v1/sessions": (201, busy), "GET /v1/sessions/s7": busy, "POST /v1/sessions/s7/stop": busy}
    process = start_waiting(fake)
    interrupt(process, fake, lambda: fake.asked("GET", "/v1/sessions/s7"))
    interrupt(process, fake, lambda: fake.asked("POST", "/v1/sessions/s7/stop"))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and out == ""
    assert "s7 is stopping; profctl status s7" in err and len(fake.asked("POST", "/v1/sessions/s7/stop")) == 1


def test_restart_of_profd_is_waited_for(fake):
    begun = live("recording", target(1, "recording"))
    fake.answers |= {"POST /v1/sessions": (201, begun), "GET /v1/sessions/s7": begun}
    process = start_waiting(fake)
    deadline = time.monotonic() + patience(10)
    while not fake.asked("GET", "/v1/events") and time.monotonic() < deadline:
        time.sleep(0.02)
    fake.end()
    time.sleep(0.6)
    assert process.poll() is None
    fake.answers["GET /v1/sessions/s7"] = live("complete", target(1))
    fake.begin()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "profd does not answer" in err and out.startswith("Session s7 is complete")


def test_long_call_reports_what_it_does(fake):
    def slow(query, body):
        time.sleep(2.2)
        return {"dialect": "static", "workers": []}

    fake.answers["GET /v1/workers"] = slow
    out, status = on_terminal(fake, "list-workers", "--router", "http://r:1")
    assert status == 0 and "asking http://r:1 for its workers (1 s)" in out
    assert "asking" not in run("list-workers", fake=fake).stderr


def test_live_block_is_drawn_over(fake):
    begun = live("recording", target(1, "recording", bytes_seen=38 * MIB))
    fake.answers |= {"POST /v1/sessions": (201, begun), "GET /v1/sessions/s7": steps(begun, live("complete", target(1)), every=0.8)}
    out, status = on_terminal(fake, "start", "--wait")
    assert status == 0
    assert "\x1b[3A" in out  # heading, one worker, progress
    assert "38.0 MiB so far" in out
    assert plain(out).splitlines()[-2].startswith("Session s7 is complete")
    assert max(map(len, plain(out).splitlines())) <= 100


def test_live_block_fits_the_terminal(fake):
    many = live("recording", *[target(n, "recording") for n in range(1, 60)], target(60, "failed", failure=200 * "x"))
    end = live("partial", *[target(n) for n in range(1, 60)], target(60, "failed", failure=200 * "x"))
    fake.answers |= {"GET /v1/sessions/s7": steps(many, end, every=0.8)}
    out, status = on_terminal(fake, "status", "s7", columns=60, rows=20)
    assert status == 0
    block = plain(out).split("WORKER")[1].split("WORKER")[0].splitlines()
    assert len(block) <= 20
    assert "10.0.0.70" in block[1] and "failed" in block[1]
    assert any("... and " in line for line in block)
    assert all(len(line) <= 60 for line in block)


def test_no_colour_where_not_wanted(fake):
    fake.answers["GET /v1/sessions/s7"] = session("partial", [target(1), target(2, "failed", **FAILURE)])
    coloured, _ = on_terminal(fake, "status", "s7")
    assert "\x1b[3" in coloured
    bare, _ = on_terminal(fake, "status", "s7", "--no-color")
    assert "\x1b" not in bare
    assert "\x1b" not in run("status", "s7", fake=fake).stdout


def test_status_once(fake):
    fake.answers["GET /v1/sessions/s7"] = live("stopping", target(1, "stopping", bytes_seen=5 * MIB))
    for words in (["status", "s7"], ["status", "7"]):
        r = run(*words, fake=fake)
        assert r.returncode == 0 and "5.0 MiB so far" in r.stdout and "stopping" in r.stdout
    fake.answers["GET /v1/sessions/s7"] = live("recording", target(1, "recording"), remarks=[
        {"refuses": False, "worker": "http://a", "text": "runs no request", "remedy": "Wait for one."}])
    for verb in ("status", "show"):
        assert "runs no request" in (said := run(verb, "s7", fake=fake).stdout) and "Wait for one." in said
    out, status = on_terminal(fake, "status", "--once", "s7")
    assert status == 0 and "\x1b[3A" not in out
    assert run("status", "s9", fake=fake).returncode == 4


def test_status_without_id(fake):
    fake.answers["GET /v1/sessions"] = lambda query, body: {"sessions": [] if query.get("state") == ["active"] else [session()]}
    fake.answers["GET /v1/sessions/s7"] = session()
    r = run("status", fake=fake)
    assert r.stdout.splitlines()[0] == f"profd 0.2.0 at {fake.path}: 48 traces, 3.0 GiB of 200 GiB"
    assert "Session s7 is complete" in r.stdout
    fake.answers["GET /v1/sessions"] = {"sessions": []}
    r = run("status", fake=fake)
    assert r.returncode == 0 and "Nothing is recorded yet" in r.stderr


def test_stop(fake):
    fake.answers |= {"GET /v1/sessions": {"sessions": []}, "POST /v1/sessions/s7/stop": live("stopping", target(1, "stopping"))}
    r = run("stop", fake=fake)
    assert r.returncode == 4 and "no session is running" in r.stderr
    fake.answers["GET /v1/sessions"] = {"sessions": [session("recording")]}
    r = run("stop", fake=fake)
    assert r.returncode == 0 and "s7 is stopping" in r.stderr
    assert len(fake.asked("POST", "/v1/sessions/s7/stop")) == 1
    fake.answers["GET /v1/sessions"] = {"sessions": [session("recording"), session("stopping", session="s8")]}
    r = run("stop", fake=fake)
    assert r.returncode == 2 and "profctl stop s7" in r.stderr and "profctl stop s8" in r.stderr
    assert len(fake.asked("POST", "/v1/sessions/s7/stop")) == 1
    assert run("stop", "7", fake=fake).returncode == 0
    fake.answers["GET /v1/sessions/s7"] = live("partial", target(1), target(2, "failed", **FAILURE))
    r = run("stop", "s7", "--wait", fake=fake)
    assert r.returncode == 3 and r.stdout.startswith("Session s7 is partial: 1 of 2 workers")
    # One that waited in the queue has no traces to wait for.
    fake.answers["POST /v1/sessions/s7/stop"] = session("cancelled")
    r = run("stop", "s7", fake=fake)
    assert "s7 is cancelled: it had not started" in r.stderr and "traces" not in r.stderr


def test_list_sessions(fake):
    fake.answers["GET /v1/sessions"] = {"sessions": [session(counts={"targets": 2, "complete": 1, "traces": 2, "bytes": 122 * MIB})]}
    r = run("list-sessions", "--limit", "3", "--state", "complete", fake=fake)
    assert r.stdout.splitlines()[1].split("  ")[0] == "s7" and "job=grpo" in r.stdout and "  anna  " in r.stdout and "uid" not in r.stdout
    assert re.split("  +", r.stdout.splitlines()[1])[5:8] == ["1 of 2", "2", "122 MiB"]
    assert fake.requests[0][1] == "/v1/sessions?limit=3&state=complete"


def test_events(fake):
    fake.events = [b'id: 1\nevent: session-state\ndata: {"at": %d, "session": "s7", "text": "recording\\u001b"}\n\n' % T0]
    for options, expected in ([], "2026-11-20 14:02:11  session-state      s7    -     recording?\n"), (["--json"], None):
        process = subprocess.Popen([PROFCTL, "--socket", fake.path, "events", "--session", "7", "--after", "5", *options],
                                   stdout=subprocess.PIPE, text=True, env=environment())
        line = process.stdout.readline()
        process.terminate()
        process.wait(timeout=60)
        assert line == expected if expected else json.loads(line)["session"] == "s7"
    assert fake.asked("GET", "/v1/events")[0][1] == "/v1/events?session=s7&after=5"


# Traces


def test_list_traces(fake):
    fake.answers["GET /v1/traces"] = {"usage": USAGE, "traces": [
        trace(48, ranks={"dp": 1, "pp": 0, "tp": 3, "ep": 0, "rank": 7}), trace(47, state="truncated", reason="gzip ends\033[1m early"),
        trace(46, session=None, worker=None, candidates=["http://a", "http://b"], kind="frontend", ranks={"rank": 5}, stage="decode"),
        trace(45, session=None, worker=None, ranks={}, span_ns=None)]}
    r = run("list-traces", fake=fake)
    lines = r.stdout.splitlines()
    assert lines[0].split() == ["TRACE", "SESSION", "RECORDED", "WORKER", "RANK", "SIZE", "SPAN", "STATE"]
    assert re.split("  +", lines[1]) == ["t48", "s7", "2026-11-20 14:02:11", "http://10.0.0.11:15000", "dp1 tp3", "61.0 MiB", "5.0s", "complete"]
    assert lines[2].endswith("truncated: gzip ends?[1m early")
    assert re.split("  +", lines[3])[3:5] == ["ambiguous", "decode"] and lines[3].endswith("complete, frontend, unclaimed")
    assert re.split("  +", lines[4])[3:] == ["rank0.1763647331.pt.trace.json.gz", "-", "61.0 MiB", "-", "complete, unclaimed"]
    assert lines[5] == "48 traces, 3.0 GiB of 200 GiB"
    assert len(run("list-traces", "--no-legend", fake=fake).stdout.splitlines()) == 4


def test_list_traces_filters(fake):
    fake.answers["GET /v1/traces"] = {"usage": USAGE, "traces": []}
    now = time.time_ns()
    run("list-traces", "--session", "7", "--worker", "http://a", "--since", "1h", "--until", "@1700000000", "--unclaimed", "--limit", "9", fake=fake)
    path = fake.requests[0][1]
    since = int(re.search(r"since=(\d+)", path)[1])
    assert abs(now - 3600 * SECOND - since) < 10 * SECOND
    assert path == f"/v1/traces?session=s7&worker=http%3A%2F%2Fa&since={since}&until=1700000000000000000&unclaimed=true&limit=9"


def test_list_traces_pages(fake):
    def page(query, body):
        first = int(query.get("before", ["t2501"])[0][1:]) - 1
        n = min(int(query["limit"][0]), first)
        more = {"next": f"t{first - n + 1}"} if first > n else {}
        return {"traces": [trace(k) for k in range(first, first - n, -1)], "usage": USAGE, **more}

    fake.answers["GET /v1/traces"] = page
    every = json.loads(run("list-traces", "--all", "--json", fake=fake).stdout)
    assert [t["trace"] for t in every["traces"]] == [f"t{n}" for n in range(2500, 0, -1)] and "next" not in every
    some = json.loads(run("list-traces", "--limit", "1200", "--json", fake=fake).stdout)
    assert len(some["traces"]) == 1200 and some["next"] == "t1301"
    assert "newest 50 shown, --all shows more; in total 48 traces" in run("list-traces", fake=fake).stdout


def test_show(fake):
    fake.answers |= {"GET /v1/traces/t41": trace(41, state="truncated", reason="ends early", pinned=True, ranks={"dp": 0, "tp": 1}),
                     "GET /v1/sessions/s7": session("partial", [target(1), target(2, "failed", **FAILURE)])}
    r = run("show", "41", fake=fake)
    fields = {k.strip(): v.strip() for k, v in (line.split(":", 1) for line in r.stdout.splitlines())}
    assert fields["State"] == "truncated: ends early" and fields["Rank"] == "dp0 tp1" and fields["Size"] == "61.0 MiB (63,963,136 bytes)"
    assert fields["Events"] == "1,234,567" and fields["Kept in"].endswith("(pinned)")
    r = run("show", "s7", fake=fake)
    assert "Skew:  3.1 ms between the first and the last start" in r.stdout
    assert "http://10.0.0.12:15000: POST /start_profile answered 404" in r.stdout


CONTENT = os.urandom(1 << 20)


def with_file(fake, n=41, content=CONTENT, **more):
    fake.answers[f"GET /v1/traces/t{n}"] = trace(n, content, **more)
    fake.answers[f"GET /v1/traces/t{n}/file"] = content
    return fake.answers[f"GET /v1/traces/t{n}"]


def test_get(fake, tmp_path):
    name = with_file(fake)["name"]
    out = tmp_path / "out"
    out.mkdir()
    assert run("get", "t41", "-o", "rank0.json.gz", fake=fake, cwd=out).returncode == 0
    assert (out / "rank0.json.gz").read_bytes() == CONTENT
    assert run("get", "t41", fake=fake, cwd=out).returncode == 0
    assert (out / name).read_bytes() == CONTENT
    again = run("get", "t41", fake=fake, cwd=out)
    assert again.returncode == 1 and "exists" in again.stderr
    piped = subprocess.run([PROFCTL, "--socket", fake.path, "get", "t41", "-o", "-"], capture_output=True, env=environment())
    assert piped.stdout == CONTENT
    assert sorted(p.name for p in out.iterdir()) == sorted(["rank0.json.gz", name])
    assert out.joinpath(name).stat().st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("more", [{"sha256": hashlib.sha256(b"other").hexdigest()}, {"size": 5}])
def test_get_leaves_nothing_that_is_wrong(fake, tmp_path, more):
    with_file(fake, **more)
    out = tmp_path / "out"
    out.mkdir()
    r = run("get", "t41", "-o", str(out / "x"), fake=fake)
    assert r.returncode == 1 and "differs from the catalog" in r.stderr
    fake.answers["GET /v1/traces/t41/file"] = problem(410, "gone", "the file of t41 is gone")
    assert run("get", "t41", "-o", str(out / "x"), fake=fake).returncode == 4
    assert list(out.iterdir()) == []
    assert run("get", "t41", "-o", str(out / "none" / "x"), fake=fake).returncode == 1


def test_get_of_a_name_that_leads_elsewhere(fake, tmp_path):
    with_file(fake, name="../../evil")
    out = tmp_path / "out"
    out.mkdir()
    r = run("get", "t41", fake=fake, cwd=out)
    assert r.returncode == 1 and "-o FILE" in r.stderr and list(out.iterdir()) == []


def test_get_session(fake, tmp_path):
    traces = [with_file(fake, 41, b"one", name="same"), with_file(fake, 42, b"two", name="same", worker="http://10.0.0.12:15000"),
              with_file(fake, 43, b"three", name="own"), with_file(fake, 44, b"four", name="dp", worker=None),
              with_file(fake, 45, b"five", name="dp", worker=None)]
    fake.answers["GET /v1/traces"] = {"traces": traces, "usage": USAGE}
    out = tmp_path / "deep" / "out"
    r = run("get", "s7", "-d", str(out), fake=fake)
    assert r.returncode == 0, r.stderr
    assert {p.name: p.read_bytes() for p in out.iterdir()} == {
        "10.0.0.11_15000-same": b"one", "10.0.0.12_15000-same": b"two", "own": b"three", "t44-dp": b"four", "t45-dp": b"five"}
    fetched = len(fake.asked("GET", "/v1/traces/t"))
    (out / "own").unlink()
    assert run("get", "s7", "-d", str(out), fake=fake).returncode == 0
    assert len(fake.asked("GET", "/v1/traces/t")) == fetched + 1
    (out / "own").unlink()
    fake.answers["GET /v1/traces/t43/file"] = problem(410, "gone", "the file of t43 is gone")
    assert run("get", "s7", "-d", str(out), fake=fake).returncode == 3
    fake.answers["GET /v1/traces"] = {"traces": [], "usage": USAGE}
    assert run("get", "s7", "-d", str(out), fake=fake).returncode == 4


def test_rm(fake):
    fake.answers |= {"DELETE /v1/traces/t41": {}, "DELETE /v1/sessions/s7": {}, "GET /v1/sessions/s7": session()}
    r = run("rm", "41", "t99", "s7", fake=fake)
    assert r.returncode == 4 and "deleted t41" in r.stderr and "deleted s7" in r.stderr
    fake.requests.clear()
    out, status = on_terminal(fake, "rm", "s7", keys=b"n\n")
    assert "Delete session s7 and its 2 traces? [y/N]" in out and status == 0 and not fake.asked("DELETE", "/")
    on_terminal(fake, "rm", "s7", keys=b"y\n")
    assert len(fake.asked("DELETE", "/v1/sessions/s7")) == 1
    out, _ = on_terminal(fake, "rm", "--yes", "s7")
    assert "[y/N]" not in out and len(fake.asked("DELETE", "/v1/sessions/s7")) == 2
    fake.answers["DELETE /v1/sessions/s7"] = {"objects_deleted": 0, "objects_left": 2, "object_reason": "no credential"}
    assert "2 objects remain in the archive: no credential" in run("rm", "--yes", "s7", fake=fake).stderr


def test_pin(fake):
    fake.answers |= {"PUT /v1/traces/t41/pin": {}, "DELETE /v1/sessions/s7/pin": {}}
    assert run("pin", "41", fake=fake).returncode == 0 and run("unpin", "s7", fake=fake).returncode == 0
    # How many of its traces are on other hosts is asked before.
    assert [r[0:2] for r in fake.requests] == [("PUT", "/v1/traces/t41/pin"), ("GET", "/v1/sessions/s7"), ("DELETE", "/v1/sessions/s7/pin")]


def test_du(fake):
    fake.answers["GET /v1/sessions"] = {"sessions": [session(session=f"s{n}", counts={"targets": 1, "traces": 1, "disk_bytes": n * MIB})
                                                     for n in range(15)]}
    r = run("du", fake=fake)
    assert "48 traces, 3.0 GiB" in r.stdout and "200 GiB (max_use)" in r.stdout
    rows = r.stdout.split("SESSION")[1].splitlines()[1:]
    assert [row.split()[0] for row in rows] == [f"s{n}" for n in range(14, 4, -1)]


def test_vacuum(fake):
    fake.answers["POST /v1/vacuum"] = {"removed": 12, "freed": 5 << 30, "usage": USAGE}
    r = run("vacuum", "--keep", "20G", "--dry-run", fake=fake)
    assert r.stdout == "would delete 12 traces, 5.0 GiB\n"
    assert fake.requests[0][2] == {"keep": 20 << 30, "dry_run": True}
    assert run("vacuum", "--keep", "0", "--yes", fake=fake).stdout == "deleted 12 traces, 5.0 GiB\n"
    assert fake.requests[1][2] == {"keep": 0}
    fake.answers["POST /v1/vacuum"]["archived"] = 2
    r = run("vacuum", "--keep", "0", "--yes", fake=fake)
    assert r.stdout == "deleted the files of 12 traces, 5.0 GiB\n2 traces remain in the archive and stay listed\n"
    del fake.answers["POST /v1/vacuum"]["archived"], fake.requests[2]
    # Nobody can be asked.
    r = run("vacuum", "--keep", "0", fake=fake)
    assert r.returncode == 1 and "not a terminal" in r.stderr and "--yes" in r.stderr and len(fake.requests) == 2
    before = time.time_ns()
    assert run("vacuum", "--older-than", "2d", "--yes", fake=fake).returncode == 0
    until = fake.requests[2][2]["collected_until"]
    assert fake.requests[2][2] == {"collected_until": until} and 0 <= until - before + 2 * 86400 * SECOND < 60 * SECOND


def test_vacuum_asks(fake):
    kept = [{"trace": f"t{i}", "session": "s9", "name": "n", "size": 1 << 20, "collected_at": T0, "reason": "pinned"} for i in range(1, 31)]
    going = [{"trace": f"t{i}", "session": "s1", "name": f"rank{i}.json", "size": 1 << 20, "collected_at": T0 + i} for i in range(41, 101)]
    fake.answers["POST /v1/vacuum"] = {"removed": 60, "freed": 60 << 20, "traces": going, "kept": kept, "collected_until": T0 + 100, "usage": USAGE}
    shown, status = on_terminal(fake, "vacuum", "--keep", "1G", rows=90, keys=b"n\n")
    shown = plain(shown)
    assert status == 0 and "Delete 60 traces (60.0 MiB)? [y/N]" in shown and "nothing was deleted" in shown, shown
    assert "t41" in shown and "rank41.json" in shown and "t80" in shown and "t81" not in shown and "and 20 more" in shown
    assert "kept (pinned, 30.0 MiB): t1 of s9, t2 of s9" in " ".join(shown.split()) and "and 18 more" in shown
    assert [request[2] for request in fake.requests if request[1] == "/v1/vacuum"] == [{"keep": 1 << 30, "dry_run": True}]
    shown, status = on_terminal(fake, "vacuum", "--keep", "1G", rows=90, keys=b"y\n")
    assert status == 0 and "deleted 60 traces, 60.0 MiB" in plain(shown)
    # What arrives after the list is not removed.
    assert fake.requests[-1][2] == {"keep": 1 << 30, "collected_until": T0 + 100}


# Perfetto


def serve(fake, *args, **env):
    process = subprocess.Popen([PROFCTL, "--socket", fake.path, "open", "t41", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=environment(**env))
    return process, process.stdout.readline().strip()


def fetch(url, method="GET", **headers):
    request = urllib.request.Request(url, method=method, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5) as r:
            return r.status, r.headers, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


@pytest.fixture
def port_9001():
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", 9001))
        except OSError:
            pytest.skip("something else on this machine has port 9001")


def test_open_serves_once_and_only_that_page(fake, port_9001):
    with_file(fake, content=CONTENT * 8)
    process, link = serve(fake, "--no-browser", "--timeout", "20s")
    page, url = link.split("#!/?url=")
    assert page == PERFETTO + "/" and re.fullmatch(r"http://127\.0\.0\.1:9001/[0-9a-f]{32}/rank0\.1763647331\.pt\.trace\.json\.gz", url)
    assert fetch(url, Host="evil.example:9001")[0] == 403
    assert fetch(url, Origin="https://evil.example")[0] == 403
    assert fetch("http://127.0.0.1:9001/", Origin=PERFETTO)[0] == 404
    assert fetch(url.rsplit("/", 2)[0] + "/" + 32 * "0" + "/x")[0] == 404
    status, headers, _ = fetch(url, "OPTIONS", Origin=PERFETTO)
    assert status == 204 and headers["Access-Control-Allow-Private-Network"] == "true"
    status, headers, body = fetch(url, "HEAD", Origin=PERFETTO)
    assert status == 200 and headers["Content-Length"] == str(8 << 20) and body == b""
    assert process.poll() is None
    status, headers, body = fetch(url, Origin=PERFETTO)
    assert status == 200 and body == CONTENT * 8 and headers["Access-Control-Allow-Origin"] == PERFETTO
    assert process.wait(timeout=60) == 0


def test_open_ends_when_nobody_comes(fake, port_9001):
    with_file(fake)
    process, _ = serve(fake, "--no-browser", "--timeout", "300ms", SSH_CONNECTION="10.0.0.5 1 10.0.0.6 22")
    assert process.wait(timeout=60) == 1
    err = process.stderr.read()
    assert "ssh -L 9001:127.0.0.1:9001" in err and "the page has not loaded the trace within" in err
    process, _ = serve(fake, "--no-browser")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 1


def test_open_when_the_port_is_taken(fake, port_9001):
    with_file(fake)
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", 9001))
        s.listen()
        r = run("open", "t41", fake=fake)
    assert r.returncode == 1 and "Address already in use" in r.stderr and "ss -ltnp" in r.stderr
    assert not fake.asked("GET", "/v1/traces/t41/file")
