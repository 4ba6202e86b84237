# SPDX-License-Identifier: Apache-2.0
"""profd-load: what it sends, when, and what it says of answers that are as they should be and of all others. A figure is compared
with what the server itself noted; what is no success is counted as what it was."""
import collections
import json
import os
import signal
import ssl
import sys
import time
import urllib.request
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest

from certificates import Authority
from load_generator import DONE, END, HEAD, SANITIZED, USAGE, ByteServer, Generator, chunk, event, order_of, reset, run

FLEET = Path(__file__).resolve().parent.parent / "fleet"
sys.path.insert(0, str(FLEET))
from fleet import Fleet  # noqa: E402
from patience import patience  # noqa: E402

GOOD = HEAD + chunk(event("a")) + chunk(event("b")) + chunk(event("c", "length")) + chunk(USAGE + DONE) + END


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet.add_vllm("--step-ms", "2").wait_ready()


def outcomes(generator):
    counted = generator.summary["requests"]
    assert collections.Counter(line["outcome"] for line in generator.requests) == {k: n for k, n in counted.items() if n}
    return counted["success"], counted["incomplete"], counted["error"]


# A real worker

def metric(worker, name):
    with urllib.request.urlopen(worker.url + "/metrics") as answer:
        return sum(float(line.split()[-1]) for line in answer.read().decode().splitlines() if line.startswith(name + "{"))


def test_figures_are_the_workers(worker):
    names = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:time_to_first_token_seconds_sum",
             "vllm:e2e_request_latency_seconds_sum", "vllm:request_success_total")
    order = order_of(worker.url, isl=50, osl=12, requests=20, concurrency=4)
    order["targets"][0]["pid"] = worker.pid
    del order["workload"]["model"]
    before = [metric(worker, name) for name in names]
    generator = run(order)
    prompt_tokens, generated, ttft_s, e2e_s, succeeded = (metric(worker, name) - old for name, old in zip(names, before))

    assert generator.of("ready")[0]["model"] == "tiny-random"
    assert outcomes(generator) == (20, 0, 0) and succeeded == 20
    assert all(line["input_tokens"] == 50 and line["output_tokens"] == 12 for line in generator.requests)
    assert {line["output_source"] for line in generator.requests} == {"usage"}
    assert generated == 240 and 1000 <= prompt_tokens <= 1020  # this worker's prompts end with their first token
    # What the client sees contains what the server sees, and little besides.
    for mine, server in ((sum(line["ttft_ns"] for line in generator.requests) / 1e9, ttft_s),
                         (sum(line["e2e_ns"] for line in generator.requests) / 1e9, e2e_s)):
        assert server * 0.98 < mine < server + 20 * 0.25
    server = generator.summary["server"]["workers"][0]
    assert server["source"] == "vllm" and server["generation_tokens"] == 240 and server["e2e_ms"]["count"] == 20
    assert generator.summary["memory"]["workers"][0]["pid"] == worker.pid
    assert generator.summary["peak_concurrency"] == 4


def test_warm_up_is_separate(worker):
    generator = run(order_of(worker.url, isl=20, osl=3, requests=4, warmup=3))
    assert [line["t"] for line in generator.lines[:2]] == ["warmed", "ready"]
    warmed = generator.of("warmed")[0]
    assert warmed["sent"] == 3 and warmed["failed"] == 0 and warmed["mean_ms"] > 0
    assert outcomes(generator) == (4, 0, 0)
    assert [line["cold"] for line in generator.requests] == [True, False, False, False]


def test_open_loop_keeps_its_schedule(worker):
    order = order_of(worker.url, isl=20, osl=2, requests=15, rate=60, arrival="gamma", burstiness=0.5, seed=9)
    first, second = run(order), run(order)
    intended = [line["intended_ns"] for line in first.requests]
    assert intended == [line["intended_ns"] for line in second.requests] and intended[0] == 0 and sorted(intended) == intended
    assert all(0 <= line["lateness_ns"] < 2e9 for line in first.requests)


def test_tokens_are_counted_by_the_worker_where_it_sends_no_usage(worker):
    order = order_of(worker.url, api="template", requests=2, osl=4, path="/v1/completions",
                     template={"prompt": "{prompt}", "max_tokens": "{max_tokens}", "ignore_eos": True})
    assert outcomes(run(order)) == (2, 0, 0)
    order = order_of(worker.url, prompts=["twelve bytes"], osl=6, stream=False)
    generator = run(order)
    request = generator.requests[0]
    assert request["input_tokens"] == 12 and request["output_tokens"] == 6 and request["gaps_us"] == []


def test_an_answer_that_comes_in_one_piece_shows_no_time_of_a_token(worker):
    generator = run(order_of(worker.url, prompts=["twelve bytes"], repeat=3, osl=6, stream=False, goodput={"ttft": "1h", "tpot": "1h"}))
    assert outcomes(generator) == (3, 0, 0)
    for request in generator.requests:
        assert request["ttft_ns"] is request["first_ns"] is request["tpot_ns"] is None and request["e2e_ns"] > 0
    metrics = generator.summary["metrics"]
    assert metrics["ttft_ms"]["count"] == metrics["tpot_ms"]["count"] == 0 and metrics["e2e_ms"]["count"] == 2
    assert metrics["tpot_ms"]["mean"] is None and generator.summary["goodput"]["good"] == 0


# Prompts as data sets have them

def test_messages_are_sent_as_they_are(worker):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"},
                {"role": "assistant", "content": "1"}, {"role": "user", "content": [{"type": "text", "text": "two"}]}]
    with ByteServer(lambda _connection, _number: GOOD) as server:
        generator = run(order_of(server.url, prompts=[{"messages": messages}, "three"], requests=2))
    assert outcomes(generator) == (2, 0, 0)
    assert [body["messages"] for _, _, body in server.received] == [messages, [{"role": "user", "content": "three"}]]
    generator = run(order_of(worker.url, prompts=[{"messages": messages[:2]}], osl=4))
    assert outcomes(generator) == (1, 0, 0), generator.requests[0]["error"]
    assert generator.requests[0]["output_tokens"] == 4


def test_an_answer_is_as_long_as_the_one_that_comes_with_the_prompt(worker):
    """This worker's tokenizer counts bytes."""
    prompts = [{"prompt": "q", "answer": "nine byte"}, {"prompt": "r", "osl": 3}, {"prompt": "s", "answer": "five!"}]
    generator = run(order_of(worker.url, prompts=prompts))
    assert [line["output_tokens"] for line in generator.requests] == [9, 3, 5] and not generator.of("note")


def test_answers_that_nobody_can_count_are_refused():
    with ByteServer(lambda _connection, _number: GOOD) as server:
        generator = run(order_of(server.url, prompts=[{"prompt": "q", "answer": "a"}]))
    assert generator.lines[-1]["t"] == "failed" and "--osl" in generator.lines[-1]["remedy"] and not server.received


def test_timestamps_are_replayed(worker):
    at_ms = [500, 500, 620, 700.5, 701]
    prompts = [{"prompt": str(at), "at_ms": at} for at in at_ms]
    generator = run(order_of(worker.url, prompts=prompts, arrival="timestamps", osl=2))
    assert [line["intended_ns"] for line in generator.requests] == [round((at - at_ms[0]) * 1e6) for at in at_ms]
    assert outcomes(generator) == (5, 0, 0)


def tool_call(**function):
    delta = {"tool_calls": [{"index": 0, "function": function}]}
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}).encode() + b"\n\n"


def test_tokens_of_an_answer_that_only_calls_a_tool_count():
    last = b'data: {"choices":[{"index":0,"delta":{"content":null},"finish_reason":"tool_calls"}]}\n\n'
    answer = HEAD + b"".join(chunk(e) for e in (tool_call(name="weather", arguments=""), tool_call(arguments='{"city'),
                                                tool_call(arguments='": 1}'), last, DONE)) + END
    with ByteServer(lambda _connection, _number: answer) as server:
        generator = run(order_of(server.url, api="chat", requests=1))
    [request] = generator.requests
    assert outcomes(generator) == (1, 0, 0) and request["ttft_ns"] > 0
    assert request["output_tokens"] == 3 and len(request["gaps_us"]) == 2, request


def test_answers_shorter_than_asked_for_are_noted():
    with ByteServer(lambda _connection, _number: GOOD) as server:
        generator = run(order_of(server.url, requests=3, osl=4))
        as_asked = run(order_of(server.url, requests=3, osl=3))
    assert outcomes(generator) == (3, 0, 0) and not any("shorter" in line["text"] for line in as_asked.of("note"))
    [note] = [line for line in generator.of("note") if "shorter" in line["text"]]
    assert note["text"].startswith("3 of 3 responses")


# Timing

def test_latency_counts_from_the_intended_moment():
    """Two places of a server that takes 50 ms; four requests are due at once: no coordinated omission."""
    def slow(_connection, _number):
        time.sleep(0.05)
        return GOOD
    with ByteServer(slow) as server:
        generator = run(order_of(server.url, requests=4, rate=1000, arrival="constant", concurrency=2))
    late = [line["lateness_ns"] / 1e6 for line in generator.requests]
    assert late[2] > 45 and late[3] > 45  # they could not leave before the first two were answered
    for line in generator.requests:
        assert line["ttft_ns"] == line["first_ns"] - line["intended_ns"] >= line["lateness_ns"] + 45e6


def test_gaps_are_those_of_the_server():
    """To 5 ms, at least once: on a busy machine either side may be kept waiting."""
    sent = []

    def paced(connection, _number):
        connection.sendall(HEAD)
        sent.clear()
        for _ in range(5):
            time.sleep(0.02)
            sent.append(time.monotonic_ns())
            connection.sendall(chunk(event("t")))
        return chunk(DONE) + END
    off = []
    with ByteServer(paced) as server:
        while len(off) < 20 and (not off or off[-1] > 5e6):
            request = run(order_of(server.url, requests=1)).requests[0]
            assert len(request["gaps_us"]) == 4
            assert request["last_ns"] - request["first_ns"] == pytest.approx(sum(request["gaps_us"]) * 1000, abs=4000)
            off.append(max(abs(gap * 1000 - later + earlier)
                           for gap, earlier, later in zip(request["gaps_us"], sent, sent[1:])))
    assert off[-1] < 5e6, off


# Answers that are not what they should be: (what the server sends, outcomes, output tokens, part of the error)

BAD = {
    "no tokens": (HEAD + chunk(DONE) + END, (0, 0, 1), "no tokens"),
    "nothing": (b"", (0, 0, 1), "Empty reply"),
    "no HTTP": (b"hello\r\n", (0, 0, 1), "HTTP/0.9"),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-Ty", (0, 0, 1), None),
    "half UTF-8": (HEAD + chunk(b'data: {"choices":[{"text":"\xc3"}]}\n\n') + chunk(event("b", "stop")) + END, (1, 0, 0), None),
    "split in a string": (HEAD + chunk(event("abc")[:30]) + chunk(event("abc")[30:]) + chunk(event("d", "stop") + DONE) + END, (1, 0, 0), None),
    "no [DONE]": (HEAD + chunk(event("a")) + chunk(event("b", "length")) + END, (1, 0, 0), None),
    "neither [DONE] nor reason": (HEAD + chunk(event("a")) + END, (0, 1, 0), "the stream ended before the generation did"),
    "cut between chunks": (HEAD + chunk(event("a")), (0, 1, 0), None),
    "error within": (HEAD + chunk(event("a")) + chunk(b'data: {"error":{"message":"engine died"}}\n\n') + chunk(DONE) + END, (0, 1, 0), "engine died"),
    "404": (b"HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\nno such it", (0, 0, 1), "404 Not Found: no such it"),
    "500 as events": (b"HTTP/1.1 500 Oh\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n", (0, 0, 1), "500 Internal"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_answer(what):
    answer, expected, error = BAD[what]
    with ByteServer(lambda _connection, _number: answer or None) as server:
        generator = run(order_of(server.url, requests=1))
    assert outcomes(generator) == expected, generator.requests
    request = generator.requests[0]
    assert (request["error"] is None) == (expected == (1, 0, 0))
    assert error is None or error in request["error"], request["error"]
    metrics = generator.summary["metrics"]
    assert (metrics["e2e_ms"] is None or metrics["e2e_ms"]["count"] in (0, None)) or expected == (1, 0, 0)


# Framing: (what the server sends, connections of three requests one after another)

EVENTS = event("a") + event("b") + event("c", "length") + USAGE + DONE
TYPE = b"Content-Type: text/event-stream\r\n"
FRAMES = {
    "chunks": (GOOD, 1),
    "an interim response": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + GOOD, 1),
    "a length": (b"HTTP/1.1 200 OK\r\n" + TYPE + b"Content-Length: %d\r\n\r\n" % len(EVENTS) + EVENTS, 1),
    "until it is closed": (b"HTTP/1.0 200 OK\r\n" + TYPE + b"\r\n" + EVENTS, 3),
    "chunks, closed": (GOOD.replace(b"\r\n", b"\r\nConnection: close\r\n", 1), 3),
    "more than its length": (b"HTTP/1.1 200 OK\r\n" + TYPE + b"Content-Length: %d\r\n\r\n" % len(EVENTS) + EVENTS + b"HTTP/1.1 200", 3),
}


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("what", FRAMES)
def test_framing(what, host):
    answer, connections = FRAMES[what]
    with ByteServer(lambda _connection, _number: answer, host=host) as server:
        generator = run(order_of(server.url, requests=3))
    assert outcomes(generator) == (3, 0, 0), generator.requests
    assert [line["output_tokens"] for line in generator.requests] == [3] * 3
    assert len(server.connections) == connections


def test_lengths_that_contradict_each_other_are_refused():
    answer = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n") + chunk(event("a", "stop")) + END
    with ByteServer(lambda _connection, _number: answer) as server:
        generator = run(order_of(server.url, requests=1))
    assert outcomes(generator) == (0, 0, 1) and "Content-Length and Transfer-Encoding" in generator.requests[0]["error"]


def test_a_connection_that_was_closed_while_idle_is_replaced():
    def close_after(connection, _number):
        connection.sendall(GOOD)
    with ByteServer(close_after) as server:
        generator = run(order_of(server.url, requests=5, rate=20))
    assert outcomes(generator) == (5, 0, 0) and len(server.connections) == 5


def test_connections_are_open_before_the_load():
    """Of two workers, one of which takes none."""
    with ByteServer(lambda _connection, _number: GOOD) as server, ByteServer(lambda _connection, _number: GOOD) as closed:
        closed.close()
        order = order_of(server.url, requests=8, concurrency=8)
        order["targets"].append({"url": closed.url, "engine": "vllm"})
        generator = Generator(order)
        generator.read_until("ready")
        deadline = time.monotonic() + patience(20)
        while server.accepted < 4:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        generator.say("go")
        assert generator.end() == 0
    assert outcomes(generator) == (4, 0, 4)
    assert len(server.connections) <= 4
    assert {"connect" in line["error"] for line in generator.requests if line["error"]} == {True}


def test_a_request_that_is_sent_in_pieces():
    """It is longer than the buffers of the sockets."""
    prompts = [{"prompt": letter * (3 << 20)} for letter in "ab"]
    with ByteServer(lambda _connection, _number: GOOD) as server:
        generator = run(order_of(server.url, prompts=prompts))
    assert outcomes(generator) == (2, 0, 0) and len(server.connections) == 1
    assert [received[2]["prompt"] == each["prompt"] for received, each in zip(server.received, prompts)] == [True, True]


def test_endless_stream_is_bounded_by_time():
    def endless(connection, _number):
        connection.sendall(HEAD)
        while True:
            connection.sendall(chunk(event("t")))
            time.sleep(0.01)
    with ByteServer(endless) as server:
        generator = run(order_of(server.url, requests=1, timeout="300ms"))
    assert outcomes(generator) == (0, 1, 0) and generator.requests[0]["output_tokens"] > 3
    assert "timed out" in generator.requests[0]["error"].lower()


@pytest.mark.parametrize("size, taken", [(1024, True), (1025, False)])
def test_a_models_name_is_no_megabyte(size, taken):
    """Each request repeats it."""
    with ByteServer(lambda _connection, _number: GOOD, model="m" * size) as server:
        order = order_of(server.url, requests=1)
        del order["workload"]["model"]
        generator = run(order)
    assert outcomes(generator) == (1, 0, 0)
    assert server.received[0][2].get("model") == ("m" * size if taken else None)


def test_endless_trailers_are_bounded():
    """No body grows by them, and no time need pass until they are too many."""
    def endless(connection, _number):
        connection.sendall(HEAD + chunk(event("t", "stop")) + b"0\r\n")
        while True:
            connection.sendall(b"X: " + b"x" * 1000 + b"\r\n")
    with ByteServer(endless) as server:
        generator = run(order_of(server.url, requests=1, timeout="20s"))
    assert outcomes(generator) == (0, 1, 0) and "longer than 64 KiB" in generator.requests[0]["error"]


def test_retry_after_is_honoured():
    refusal = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
    with ByteServer(lambda _connection, number: refusal if number == 0 else GOOD) as server:
        generator = run(order_of(server.url, requests=3))
    assert outcomes(generator) == (2, 0, 1)
    assert generator.requests[0]["status"] == 429
    first, second = server.received[0][0], server.received[1][0]
    assert 0.95e9 < second - first < 3e9


def test_resets_at_a_thousand():
    def some_reset(connection, number):
        if number % 2:
            reset(connection)
            return None
        return GOOD
    with ByteServer(some_reset) as server:
        generator = run(order_of(server.url, requests=1000, concurrency=1000))
    success, incomplete, error = outcomes(generator)
    assert (success + error, incomplete) == (1000, 0) and 300 < error < 700
    assert len(generator.requests) == 1000


def test_open_files_run_out():
    """A note names the limit, and all requests are sent over fewer connections."""
    with ByteServer(lambda _connection, _number: GOOD) as server:
        generator = run(order_of(server.url, requests=200, concurrency=100), files_max=100)
    note = next(line for line in generator.of("note") if "limit of open files" in line["text"])
    assert "at most 34 requests" in note["text"] and "LimitNOFILE" in note["remedy"]
    assert outcomes(generator) == (200, 0, 0) and generator.summary["peak_concurrency"] <= 34


def test_a_worker_that_dies():
    with ByteServer(lambda connection, number: server.close() if number == 2 else GOOD) as server:
        generator = run(order_of(server.url, requests=6))
    success, _, error = outcomes(generator)
    assert success == 2 and error == 4
    assert all("connect" in line["error"] for line in generator.requests[2:])


def test_a_warm_up_that_fails_reports_why():
    with ByteServer(lambda _connection, _number: BAD["404"][0]) as server:
        generator = run(order_of(server.url, requests=6, warmup=2))
    failed = generator.lines[-1]
    assert failed["t"] == "failed" and "404 Not Found: no such it" in failed["text"] and failed["remedy"]


# Orders and commands

@pytest.mark.parametrize("order, word", [
    (b"", "not a JSON object"), (b"[]", "not a JSON object"), (order_of("http://127.0.0.1:1", requests=1, osl=0), "osl"),
    (order_of("http://127.0.0.1:1", prompts=[]), "empty list"), (order_of("ftp://h", requests=1), "url of a target")])
def test_bad_order(order, word):
    generator = Generator(order)
    assert generator.end() == 1
    assert [line["t"] for line in generator.lines] == ["failed"] and word in generator.lines[0]["text"]


def test_network_policy():
    order = order_of("http://127.0.0.1:1", requests=1)
    order["network"] = {"allow": "10.0.0.0/8"}
    generator = run(order)
    assert outcomes(generator) == (0, 0, 1) and "not" in generator.requests[0]["error"]


@pytest.mark.parametrize("how", ["stop", "SIGTERM", "end of file"])
def test_stop_drains_until_the_deadline(how):
    def slow(connection, number):
        connection.sendall(HEAD + chunk(event("a")))
        time.sleep(0.15 if number == 0 else 5)
        return chunk(event("b", "length") + DONE) + END
    with ByteServer(slow) as server:
        generator = Generator(order_of(server.url, requests=100, concurrency=2, drain="600ms"))
        assert generator.read_until("ready")["t"] == "ready"
        generator.say("go")
        deadline = time.monotonic() + patience(20)
        while len(server.received) < 2 and time.monotonic() < deadline:
            time.sleep(0.005)
        begun = time.monotonic()
        if how == "SIGTERM":
            generator.process.send_signal(signal.SIGTERM)
        elif how == "stop":
            generator.say("stop")
        else:
            generator.hang_up()
        assert generator.end() == 0
    assert time.monotonic() - begun < patience(4)
    assert outcomes(generator) == (1, 1, 0)
    cut = next(line for line in generator.requests if line["outcome"] == "incomplete")
    assert cut["error"] == "cut by the end of the run" and cut["output_tokens"] == 1


def test_stop_before_go():
    with ByteServer(lambda _connection, _number: GOOD) as server:
        generator = Generator(order_of(server.url, requests=1))
        generator.read_until("ready")
        generator.say("stop")
        assert generator.end() == 1
    assert generator.lines[-1]["text"] == "the run was stopped before it began" and server.received == []


def status_of(pid):
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


@pytest.mark.skipif(SANITIZED, reason="sanitized builds have no filter")
def test_what_it_gave_up(worker):
    order = order_of(worker.url, requests=1)
    order["targets"][0]["pid"] = worker.pid
    generator = Generator(order)
    generator.read_until("ready")
    pid = generator.process.pid
    status = status_of(pid)
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and status["Threads"] == "1"
    assert [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0] * 4
    assert "0" not in status["Uid"].split()
    if os.geteuid() == 0:  # it is not dumpable: nobody else may look
        opened = {int(fd.name): os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
        assert opened[0] == opened[2] == "/dev/null"
        assert not any(to.startswith("/") and to != "/dev/null" or "memfd" in to for to in opened.values()), opened
    generator.say("stop")
    generator.end()


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("end", ["it is killed", "it ends"])
def test_what_samples_memory_ends_with_it(worker, end):
    order = order_of(worker.url, requests=1)
    order["targets"][0]["pid"] = worker.pid
    generator = Generator(order)
    generator.read_until("ready")
    sampler, = children_of(generator.process.pid)
    if end == "it is killed":
        generator.process.kill()
        generator.process.wait()
        generator.process.stdout.close()
        generator.process.stderr.close()
    else:
        generator.say("go")
        assert generator.end() == 0 and generator.summary["memory"]["workers"][0]["rss_bytes"]["baseline"] > 1 << 20
    deadline = time.monotonic() + patience(20)
    while Path(f"/proc/{sampler}").exists() and "Z" not in status_of(sampler)["State"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_names_are_looked_up_before():
    with ByteServer(lambda _connection, _number: GOOD) as server:
        port = server.url.rsplit(":", 1)[1]
        assert outcomes(run(order_of(f"http://localhost:{port}", requests=2))) == (2, 0, 0)
        order = order_of(f"http://nowhere.invalid:{port}", requests=2)
        order["warm"] = [{"url": server.url, "engine": "vllm"}]
        generator = run(order)
        assert outcomes(generator) == (0, 0, 2)
        assert {"resolve" in line["error"] and "nowhere.invalid" in line["error"] for line in generator.requests} == {True}


def test_tls(tmp_path):
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    with ByteServer(lambda _connection, _number: GOOD, context) as server:
        order = order_of(server.url, requests=3)
        generator = run(order)
        assert outcomes(generator) == (0, 0, 3) and "certificate" in generator.requests[0]["error"]
        order["credentials"] = {"ca_file": str(authority.file)}
        assert outcomes(run(order)) == (3, 0, 0)


class Http2Server(ByteServer):
    """Answers over HTTP/2, by Debian's h2, and over nothing else: what is asked beside the load goes by HTTP/1.1, and may fail."""

    def __init__(self, context):
        context.set_alpn_protocols(["h2", "http/1.1"])
        self.n_answers = 0
        super().__init__(None, context)

    def _serve(self, connection):
        connection = self.tls.wrap_socket(connection, server_side=True)
        if connection.selected_alpn_protocol() != "h2":
            connection.close()
            return
        peer = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        peer.initiate_connection()
        with connection:
            connection.sendall(peer.data_to_send())
            while data := connection.recv(65536):
                for happened in peer.receive_data(data):
                    if isinstance(happened, h2.events.StreamEnded):
                        self.answer_stream(peer, happened.stream_id)
                connection.sendall(peer.data_to_send())

    def answer_stream(self, peer, stream):
        peer.send_headers(stream, [(":status", "200"), ("content-type", "text/event-stream")])
        for text in (event("a"), event("b"), event("c", "length"), USAGE + DONE):
            peer.send_data(stream, text, end_stream=text.endswith(DONE))
        self.n_answers += 1


def test_files_are_read_before(tmp_path):
    """What proves who it is from, and whom it trusts, is gone when it begins to send; each request has a connection of its own."""
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    context.load_verify_locations(other.file)
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = other.issue("client")
    (tmp_path / "token").write_text("sesame\n")
    files = {"ca_file": authority.file, "cert_file": certificate, "key_file": key, "token_file": tmp_path / "token"}
    with ByteServer(lambda _connection, _number: GOOD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1), context) as server:
        order = order_of(server.url, requests=4, concurrency=2)
        order["credentials"] = {name: str(path) for name, path in files.items()}
        generator = Generator(order)
        generator.read_until("ready")
        for path in files.values():
            path.unlink()
        generator.say("go")
        assert generator.end() == 0
        assert outcomes(generator) == (4, 0, 0)
        assert {headers[b"authorization"] for _, headers, _ in server.received} == {b"Bearer sesame"}
        assert "cannot use token_file" in run(order).lines[-1]["text"]


def test_http_2_where_it_is_offered(tmp_path):
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    with Http2Server(context) as server:
        order = order_of(server.url, requests=12, concurrency=4)
        order["credentials"] = {"ca_file": str(authority.file)}
        generator = run(order)
        assert outcomes(generator) == (12, 0, 0)
        assert server.n_answers == 12
        assert all(line["output_tokens"] == 3 and len(line["gaps_us"]) == 2 for line in generator.requests)


@pytest.mark.parametrize("token", ["sesame", "sesame:"])
def test_token_file(tmp_path, token):
    (tmp_path / "token").write_text(token + "\n")
    with ByteServer(lambda _connection, _number: GOOD) as server:
        order = order_of(server.url, requests=1)
        order["credentials"] = {"token_file": str(tmp_path / "token")}
        assert outcomes(run(order)) == (1, 0, 0)
        assert server.received[0][1][b"authorization"] == b"Bearer " + token.encode()
        order["credentials"] = {"token_file": str(tmp_path / "absent")}
        assert "token_file" in run(order).lines[-1]["text"]
