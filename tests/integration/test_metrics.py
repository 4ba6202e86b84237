# SPDX-License-Identifier: Apache-2.0
"""What an operator watches: /metrics, /readyz, and the alerts and the dashboard that are made of them."""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from daemon import BUILD, PROFD, ROOT, Daemon, FaultFleet, free_port, quick_config, token_line, wait_for, write_tokens
from patience import patience

GOLDEN = ROOT / "tests/data/metrics.golden"
RULES = ROOT / "docs/prometheus/profd.rules.yml"
DASHBOARD = ROOT / "docs/grafana/profd.json"
# As ./dev unpacks Debian's package, which would start a service if it were installed.
TOOLS = ROOT / ".cache/prometheus/usr/bin"


def tool(name):
    path = shutil.which(name, path=f"{TOOLS}:{os.environ['PATH']}")
    if not path:
        pytest.skip(f"{name} of Debian's package prometheus is missing")
    return path


def scrape(profd):
    reply = profd.request("GET", "/metrics")
    assert reply.status == 200 and reply.headers["Content-Type"].startswith("text/plain; version=0.0.4"), reply
    return reply.body.decode()


def values(text):
    """{'name{labels}': number}"""
    return {key: float(value) for key, value in re.findall(r"^([a-z][^#]*?) (\S+)$", text, re.M)}


def masked(text):
    """Without values, and with one line for all routes."""
    text = re.sub(r'(version|method|route)="[^"]*"', r'\1="*"', text)
    lines = [line if line.startswith("#") else line.rsplit(" ", 1)[0] for line in text.splitlines()]
    return "".join(line + "\n" for line in dict.fromkeys(lines))


def golden_names():
    """Of series, as they are written in an expression."""
    return {re.split(r"[{ ]", line)[0] for line in GOLDEN.read_text().splitlines() if not line.startswith("#")}


# What is there


@pytest.mark.smoke
def test_golden(tmp_path):
    """Names, types, help and labels are an interface: dashboards and alerts are made of them."""
    with Daemon(tmp_path / "profd") as profd:
        text = scrape(profd)
    assert masked(text) == GOLDEN.read_text()
    routes = subprocess.run([PROFD, "--list-routes"], capture_output=True, text=True, check=True).stdout.splitlines()
    shown = set(re.findall(r'method="([A-Z]+)",route="([^"]+)"', text))
    assert shown == {tuple(line.split()[:2]) for line in routes}


def test_promtool_likes_it(tmp_path):
    with Daemon(tmp_path / "profd") as profd:
        r = subprocess.run([tool("promtool"), "check", "metrics"], input=scrape(profd), capture_output=True, text=True)
    assert r.returncode == 0 and r.stdout + r.stderr == "", r


def test_rules_and_dashboard_name_what_there_is():
    names = golden_names()
    text = re.sub(r'"[^"]*"', "", "\n".join(re.findall(r"^ +expr: (.*(?:\n {10,}.*)*)", RULES.read_text(), re.M)))
    used = set(re.findall(r"\b(?:profd|process)_[a-z_]+", text))
    assert used and used <= names, used - names

    expressions = [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"]
                   for target in panel.get("targets", [])]
    assert len(expressions) > 30
    for expression in expressions:
        used = set(re.findall(r"\b(?:profd|process)_[a-z_]+", re.sub(r'"[^"]*"', "", expression)))
        assert used and used <= names, expression
    shown = set(re.findall(r"\b(?:profd|process)_[a-z_]+", " ".join(expressions)))
    families = set(re.findall(r"^# TYPE (\S+)", GOLDEN.read_text(), re.M))
    assert {re.sub(r"_bucket$", "", name) for name in shown} == families, "each is on the dashboard"


def test_promtool_likes_the_rules():
    r = subprocess.run([tool("promtool"), "check", "rules", RULES], capture_output=True, text=True)
    assert r.returncode == 0, r


# What it says


def test_a_session_is_counted(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet, Daemon(tmp_path / "profd", quick_config()) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=int(patience(300_000_000)))["session"]
        profd.wait_state(session, "recording")
        v = values(scrape(profd))
        assert v['profd_sessions{state="recording"}'] == 1 and v['profd_targets{state="recording"}'] == 2
        assert v["profd_stops_pending"] == 0
        profd.wait_session(session)
        v = values(scrape(profd))
    assert v['profd_sessions{state="recording"}'] == 0
    assert v['profd_sessions_ended_total{state="complete"}'] == 1
    assert v['profd_worker_calls_total{call="start",engine="vllm",result="ok"}'] == 2
    assert v['profd_worker_calls_total{call="stop",engine="vllm",result="ok"}'] == 2
    assert v['profd_worker_call_duration_seconds_count{call="stop"}'] == 2
    assert v['profd_worker_call_duration_seconds_bucket{call="stop",le="+Inf"}'] == 2
    assert 0.3 <= v["profd_session_duration_seconds_sum"] < 60
    assert v["profd_traces"] == 2 == v['profd_traces_added_total{state="complete"}']
    assert v['profd_ingest_files_total{result="read"}'] == 2 and v["profd_ingest_bytes_total"] > 0
    assert 0 < v["profd_store_bytes"] < v["profd_store_limit_bytes"]
    assert v['profd_catalog_commits_total{result="ok"}'] > 0 and v["profd_catalog_wal_bytes"] > 0
    assert v['profd_http_requests_total{method="POST",route="/v1/sessions",code="2xx"}'] == 1
    assert v['profd_http_requests_total{method="GET",route="/metrics",code="2xx"}'] == 1
    assert abs(v["process_start_time_seconds"] - time.time()) < 300 and v["process_resident_memory_bytes"] > 1e6


def test_a_stop_that_hangs_is_pending(tmp_path):
    config = quick_config(stop="5s")
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "stop-500@0", "--fault", "hang-stop@1") as fleet, \
            Daemon(tmp_path / "profd", config) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=100_000_000)["session"]
        v = wait_for(lambda: (v := values(scrape(profd)))["profd_stop_pending_oldest_seconds"] > 0.2 and v)
        assert v["profd_stops_pending"] == 1
        assert v['profd_worker_calls_total{call="stop",engine="vllm",result="refused"}'] >= 1
        profd.wait_session(session)
        v = values(scrape(profd))
    assert v["profd_stops_pending"] == 0 == v["profd_stop_pending_oldest_seconds"]
    assert v['profd_worker_calls_total{call="stop",engine="vllm",result="unanswered"}'] >= 1


def test_clients_are_counted(tmp_path):
    with Daemon(tmp_path / "profd", "[limits]\nconnections=4\n") as profd:
        profd.request("GET", "/nothing")
        profd.request("GET", "/v1/sessions/s9")
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(profd.socket))
            s.sendall(b"BREW / HTTP/1.1\r\n\r\n")
            assert b" 501 " in s.recv(1000)
        held = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for s in held:
            s.connect(str(profd.socket))
        wait_for(lambda: b" 503 " in one_answer(profd))
        for s in held:
            s.close()
        v = values(wait_for(lambda: (r := profd.request("GET", "/metrics")).status == 200 and r.body.decode()))
    assert v['profd_http_requests_total{method="",route="",code="4xx"}'] == 1
    assert v['profd_http_requests_total{method="GET",route="/v1/sessions/{session}",code="4xx"}'] == 1
    assert v['profd_http_refused_total{code="501"}'] == 1 and v['profd_http_refused_total{code="503"}'] >= 1
    assert v["profd_http_connections"] >= 1 and v["profd_http_connections_limit"] == 4


def test_answers_are_timed(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet, Daemon(tmp_path / "profd", quick_config()) as profd:
        profd.request("GET", "/nothing")
        for _ in range(3):
            profd.get("/v1/sessions")
        profd.get("/v1/workers", router=fleet.router)
        for path in ("/v1/workers", "/v1/doctor"):  # with a body, because their parameters name a fleet too
            assert profd.request("POST", path, {"workers": fleet.workers}).status == 200
        profd.problem("POST", "/v1/sessions", {"router": 7}, 400)
        v = values(scrape(profd))
    count = "profd_http_request_duration_seconds_count"
    assert v[count + '{class="none",code="4xx"}'] == 1 == v[count + '{class="change",code="4xx"}']
    assert v[count + '{class="read",code="2xx"}'] == 3 and v[count + '{class="fleet",code="2xx"}'] == 3
    assert v['profd_http_request_duration_seconds_bucket{class="read",code="2xx",le="+Inf"}'] == 3
    assert v['profd_http_request_duration_seconds_bucket{class="read",code="2xx",le="60"}'] == 3
    assert 0 < v['profd_http_request_duration_seconds_sum{class="fleet",code="2xx"}'] < 60
    assert v[count + '{class="change",code="2xx"}'] == 0  # asking a fleet changes nothing


def test_who_is_refused_is_counted(tmp_path):
    """By why; and whom profd would not call."""
    token, port = "profd_" + 64 * "7", free_port()
    tokens = write_tokens(tmp_path / "tokens", token_line("reader", "read", token))
    with Daemon(tmp_path / "profd", f"[http]\ntokens_file={tokens}\n", options=["--listen", f"127.0.0.1:{port}"]) as profd:
        def status(method="GET", headers=None):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            with contextlib.closing(connection):
                connection.request(method, "/v1/sessions", headers=headers or {})
                return connection.getresponse().status

        wrong = {"Authorization": "Bearer profd_" + 64 * "0"}
        assert status() == 401 and status(headers={"Origin": "null"}) == 403 and status(headers={"Host": "evil"}) == 403
        assert status("POST", {"Authorization": f"Bearer {token}"}) == 403
        while status(headers=wrong) != 429:
            pass
        assert "203.0.113.7" in str(profd.get("/v1/workers", worker="http://203.0.113.7:1"))
        v = values(scrape(profd))
    reasons = {why: v[f'profd_http_denied_total{{reason="{why}"}}']
               for why in ("no-token", "web-page", "name", "role", "wrong-token", "throttled")}
    assert reasons.pop("wrong-token") >= 10 and set(reasons.values()) == {1}, reasons
    assert v["profd_network_refused_total"] >= 1


def test_a_loop_that_was_held_up_is_late(tmp_path):
    """Also between two answers; each tells what happened since the one before."""
    with Daemon(tmp_path / "profd") as profd:
        def lag():
            return values(scrape(profd))["profd_event_loop_lag_seconds"]

        def lag_of_a_stop():
            profd.get("/v1/version")
            profd.process.send_signal(signal.SIGSTOP)
            time.sleep(1)
            profd.process.send_signal(signal.SIGCONT)
            return wait_for(lag) > 0.5

        assert wait_for(lag_of_a_stop)
        wait_for(lambda: lag() < 0.5)


def one_answer(profd):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(str(profd.socket))
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return s.recv(1000)


def test_a_client_that_does_not_wait(tmp_path):
    with Daemon(tmp_path / "profd") as profd:
        for _ in range(20):
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(str(profd.socket))
                s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert profd.request("GET", "/metrics").status == 200


# Ready


def test_ready(tmp_path):
    with Daemon(tmp_path / "profd") as profd:
        reply = profd.request("GET", "/readyz")
        assert (reply.status, reply.body) == (200, b"ready\n")
        assert profd.request("GET", "/healthz").status == 200


def test_a_full_store_is_not_ready(tmp_path):
    """What is pinned may not go, and nothing else is there to go."""
    trace = tmp_path / "x.pt.trace.json"
    trace.write_text('{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{}}],"x":"'
                     + "y" * 600_000 + '"}')
    with Daemon(tmp_path / "profd", "[store]\nmax_use=1500K\nkeep_free=1M\n") as profd:
        assert profd.request("GET", "/readyz").status == 200
        first = profd.post("/v1/traces", {"path": str(trace)}, 201)["trace"]
        assert profd.request("GET", "/readyz").status == 200, "it would go for a new one"
        assert profd.request("PUT", f"/v1/traces/{first}/pin").status in (200, 204)
        problem = profd.problem("GET", "/readyz", status=503)
        reason, = problem["reasons"]
        assert reason["check"] == "store" and "is full" in reason["detail"] and "profctl" in reason["remedy"]
        assert "profd is not ready" in problem["detail"]
        checks = profd.get("/v1/doctor", router="http://127.0.0.1:1")["checks"]
        assert [check["remedy"] for check in checks if check["text"] == reason["detail"]] == [reason["remedy"]], checks
        v = values(scrape(profd))
        assert v['profd_ready{check="store"}'] == 0 and v['profd_ready{check="catalog"}'] == 1
        assert profd.request("GET", "/healthz").status == 200, "it lives all the same"


# A real Prometheus


def ask(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())["data"]
    except (OSError, ValueError):
        return None
    finally:
        connection.close()


def test_a_real_prometheus_scrapes_it(tmp_path):
    prometheus, port, own = tool("prometheus"), free_port(), free_port()
    (tmp_path / "prometheus.yml").write_text(
        f"global: {{scrape_interval: 1s}}\nrule_files: [{RULES}]\n"
        f"scrape_configs: [{{job_name: profd, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n")
    with Daemon(tmp_path / "profd", "[http]\nopen_to=127.0.0.1\n", options=["--listen", f"127.0.0.1:{port}"]):
        server = subprocess.Popen(
            [prometheus, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
             f"--web.listen-address=127.0.0.1:{own}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            def found():
                answer = ask(own, "/api/v1/query?query=profd_ready")
                return answer and answer["result"]

            assert {r["value"][1] for r in wait_for(found, interval_s=0.2)} == {"1"}
            target, = ask(own, "/api/v1/targets")["activeTargets"]
            assert target["health"] == "up" and target["lastError"] == "", target
            group, = ask(own, "/api/v1/rules")["groups"]
            wait_for(lambda: all(r["health"] in ("ok", "unknown") for r in ask(own, "/api/v1/rules")["groups"][0]["rules"]))
            assert not any(r["lastError"] for r in group["rules"] if "lastError" in r)
        finally:
            server.terminate()
            server.wait(30)
