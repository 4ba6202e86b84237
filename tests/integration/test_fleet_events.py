# SPDX-License-Identifier: Apache-2.0
"""GET /v1/fleet/events: what is shown of workers, what is odd about them, and that nobody is asked without a looker."""
import http.server
import threading
import time
from urllib.parse import urlencode

import pytest

from daemon import Daemon, FaultFleet, quick_config, wait_for

INTERVAL_S = 2
PATIENCE_S = 120


def look(profd, **query):
    return profd.events(f"/v1/fleet/events?{urlencode(query)}" if query else "/v1/fleet/events", timeout=PATIENCE_S)


def state(stream, found, events=30):
    """The first event that found() likes."""
    seen = []
    for _, event in zip(range(events), stream):
        assert event["event"] == "fleet" and "id" not in event
        seen.append(event["data"])
        if found(event["data"]):
            return event["data"]
    raise AssertionError(f"none of {seen}")


def worker(data, url):
    return next(row for row in data["workers"] if row["worker"] == url)


def kinds(data, url):
    return {fact["kind"] for fact in data["odd"] if fact["worker"] == url}


@pytest.fixture
def fleet(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 3) as fleet:
        yield fleet


@pytest.fixture
def profd(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        yield profd


def test_figures(profd, fleet):
    with look(profd, router=fleet.router) as stream:
        data = state(stream, lambda data: all("tokens_per_s" in row for row in data["workers"]))
    assert data["fleets"] == [{"router": fleet.router, "dialect": "vllm-router", "state": "ok"}]
    assert [row["worker"] for row in data["workers"]] == fleet.workers
    assert data["odd"] == [] and "left_out" not in data
    for row in data["workers"]:
        # As fault-worker shows them: 100 steps a second with 4 tokens each, first tokens between 0.1 and 0.2 s.
        assert (row["state"], row["engine"], row["running"], row["waiting"], row["kv_use"]) == ("ok", "vllm", 4, 0, 0.5)
        assert row["ttft_p50_ns"] == 150_000_000
        assert row["tokens_per_s"] == pytest.approx(400, rel=0.2)


def test_a_worker_dies_and_comes_back(profd, fleet):
    one, two = fleet.workers[1:3]
    with look(profd, router=fleet.router) as stream:
        state(stream, lambda data: len(data["workers"]) == 3)
        fleet.set_fault("die", workers="1")
        data = state(stream, lambda data: worker(data, one)["state"] == "down")
        assert worker(data, one)["detail"] == "connection refused" and "running" not in worker(data, one)
        assert kinds(data, one) == {"down"} and kinds(data, two) == set()
        since = data["odd"][0]["since_at"]
        again = state(stream, lambda data: True)
        assert again["odd"][0]["since_at"] == since
        fleet.set_fault("relaunch", workers="1")
        data = state(stream, lambda data: "tokens_per_s" in worker(data, one))
        assert worker(data, one)["state"] == "ok" and data["odd"] == []


def test_a_dead_worker_is_identified_when_it_lives(profd, fleet):
    fleet.set_fault("die", workers="1")
    with look(profd, router=fleet.router) as stream:
        data = state(stream, lambda data: worker(data, fleet.workers[1])["state"] == "down")
        assert worker(data, fleet.workers[1])["engine"] == "unknown"
        fleet.set_fault("relaunch", workers="1")
        state(stream, lambda data: worker(data, fleet.workers[1])["engine"] == "vllm")


def test_a_slow_worker_does_not_delay_the_others(profd, fleet):
    with look(profd, router=fleet.router) as stream:
        state(stream, lambda data: all("tokens_per_s" in row for row in data["workers"]))
        fleet.set_fault("slow-health", arg=6, workers="2")
        begin = time.monotonic()
        before = len(fleet.calls(0, "/metrics"))
        for _ in range(3):
            data = state(stream, lambda data: True)
            assert worker(data, fleet.workers[2])["state"] == "ok"  # with the last figures
        assert time.monotonic() - begin < 6 * INTERVAL_S
        assert len(fleet.calls(0, "/metrics")) - before >= 2


def test_unhealthy_and_unprofilable(profd, fleet):
    fleet.set_fault("unhealthy", workers="0")
    fleet.set_fault("no-profiler", workers="1")
    with look(profd, router=fleet.router) as stream:
        data = state(stream, lambda data: worker(data, fleet.workers[0])["state"] == "down")
    assert worker(data, fleet.workers[0])["detail"].startswith("503")
    row = worker(data, fleet.workers[1])
    assert row["state"] == "unprofilable" and row["remedy"] and row["running"] == 4
    fact = next(fact for fact in data["odd"] if fact["worker"] == row["worker"])
    assert fact["kind"] == "unprofilable" and fact["what"].startswith("cannot be profiled: ") and fact["remedy"] == row["remedy"]


def test_polled_once_for_all_and_only_while_somebody_looks(profd, fleet):
    def count():
        return len(fleet.calls(0, "/metrics"))

    with look(profd, router=fleet.router) as first, look(profd, router=fleet.router) as second:
        state(first, lambda data: True)
        state(second, lambda data: True)
        before, begin = count(), time.monotonic()
        for _ in range(3):
            state(first, lambda data: True)
        # One poller: a question for each interval, though two look.
        assert count() - before <= (time.monotonic() - begin) / INTERVAL_S + 1
        first.__exit__()
        before = count()
        state(second, lambda data: count() > before)
    # No question for longer than an interval: that nothing comes takes a while to be seen.
    rest = wait_for(lambda: (n := count()) and (time.sleep(1.5 * INTERVAL_S), count() == n)[1] and n)
    with look(profd, router=fleet.router) as stream:
        state(stream, lambda data: count() > rest)


def test_busy_session(profd, fleet):
    with look(profd, router=fleet.router) as stream:
        state(stream, lambda data: True)
        session = profd.start_session(router=fleet.router, duration_ns=20_000_000_000, count=1)["session"]
        data = state(stream, lambda data: any("busy_session" in row for row in data["workers"]))
        assert [row.get("busy_session") for row in data["workers"]].count(session) == 1
        profd.post(f"/v1/sessions/{session}/stop", status=200)
        state(stream, lambda data: not any("busy_session" in row for row in data["workers"]))


def test_configured_fleets(tmp_path, fleet):
    config = f"[fleet prod]\nrouter={fleet.router}\n[fleet gone]\nrouter=http://127.0.0.1:9\n"
    with Daemon(tmp_path / "profd", quick_config(more=config)) as profd:
        with look(profd) as stream:
            data = state(stream, lambda data: len(data["fleets"]) == 2)
        by_name = {row["fleet"]: row for row in data["fleets"]}
        assert by_name["prod"]["state"] == "ok" and by_name["gone"]["state"] == "unreachable"
        assert "connection refused" in by_name["gone"]["detail"]
        assert {row["fleet"] for row in data["workers"]} == {"prod"} and len(data["workers"]) == 3
        with look(profd, fleet="prod") as stream:
            assert [row["fleet"] for row in state(stream, lambda data: True)["fleets"]] == ["prod"]
        assert profd.problem("GET", "/v1/fleet/events?fleet=none", status=404)["code"] == "not-found"


def test_too_many_fleets_and_workers(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 520) as fleet:
        config = "".join(f"[fleet f{i}]\nrouter={fleet.router}\n" for i in range(9))
        with Daemon(tmp_path / "profd", quick_config(more=config)) as profd:
            with look(profd) as stream:
                data = state(stream, lambda data: len(data["fleets"]) == 8)
            # As many workers as an event has room for.
            assert data["left_out"] == {"fleets": 1, "workers": 8 * 520 - len(data["workers"])}
            assert 300 < len(data["workers"]) < 1000


def test_no_fleet(profd):
    problem = profd.problem("GET", "/v1/fleet/events", status=400)
    assert "no router named" in problem["detail"]


class Metrics(http.server.BaseHTTPRequestHandler):
    """SGLang's page, and a cache that is full."""
    page = ("sglang:num_running_reqs{tp=\"0\"} 7\nsglang:num_queue_reqs{tp=\"0\"} 3\nsglang:token_usage{tp=\"0\"} 0.98\n"
            "sglang:generation_tokens_total 1e400\n")
    asked = []

    def do_GET(self):
        self.asked.append(self.path)
        known = {"/metrics": self.page, "/server_info": '{"internal_states": [], "version": "0.5.1"}'}
        body = known.get(self.path.partition("?")[0], "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_sglang_is_not_asked_for_health(profd):
    """Its /health generates a token."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metrics) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        with look(profd, worker=url) as stream:
            data = state(stream, lambda data: "running" in worker(data, url))
        row = worker(data, url)
        assert (row["engine"], row["running"], row["waiting"], row["kv_use"]) == ("sglang", 7, 3, 0.98)
        assert "kv-full" in kinds(data, url)
        assert not any(path.startswith("/health") for path in Metrics.asked)
        server.shutdown()
