# SPDX-License-Identifier: Apache-2.0
"""Workers that Ray's dashboard or Consul knows, with tokens of their own, recorded with their traces."""

import json
import subprocess
import sys

import pytest

from daemon import BUILD, ROOT, Daemon, FaultFleet, free_port, quick_config

sys.path.insert(0, str(ROOT / "tests/fleet"))
from consul import Consul  # noqa: E402  # pylint: disable=wrong-import-position
from ray import RayDashboard  # noqa: E402  # pylint: disable=wrong-import-position

PROFCTL = BUILD / "client/profctl"


def profctl(profd, *words):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *map(str, words)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def host(url):
    return url.removeprefix("http://")


def port(url):
    return int(url.rpartition(":")[2])


def secret(path, text):
    path.write_text(text + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture(name="fleet", scope="module")
def make_fleet(tmp_path_factory):
    with FaultFleet(tmp_path_factory.mktemp("fleet"), "vllm", 3) as fleet:
        yield fleet


@pytest.fixture(name="profd")
def make_profd(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        yield profd


# consul=


@pytest.mark.smoke
def test_consul_services_are_recorded(profd, fleet):
    with Consul() as consul:
        consul.add("vllm", host(fleet.workers[0]), role="prefill").add("vllm", host(fleet.workers[1]), tags=["gpu", "decode"])
        consul.add("vllm", host(fleet.workers[2]), status="critical").add("vllm", "127.0.0.1:")
        status, out, err = profctl(profd, "list-workers", "--consul", consul.service_url("vllm"), "--json")
        assert status == 0, err
        answer = json.loads(out)
        assert answer["dialect"] == "consul" and "router" not in answer
        assert [(worker["url"], worker["engine"], worker["role"], worker["health"]) for worker in answer["workers"]] == [
            (fleet.workers[0], "vllm", "prefill", "healthy"), (fleet.workers[1], "vllm", "decode", "healthy")]
        assert answer["notes"] == ["1 of 3 instances of the service have no port or no address and are ignored"]
        status, out, err = profctl(profd, "start", "--consul", consul.service_url("vllm"), "--role", "decode", "--duration",
                                   "200ms", "--wait")
        assert status == 0, out + err
    (session,) = profd.get("/v1/sessions")["sessions"]
    assert session["counts"]["complete"] == 1 and session["dialect"] == "consul"
    assert len(profd.traces(session=session["session"])) == 1


def test_what_does_not_pass_is_shown_if_asked_for(profd, fleet):
    with Consul() as consul:
        consul.add("vllm", host(fleet.workers[0]), on_node=True).add("vllm", host(fleet.workers[1]), status="warning")
        answer = profd.get("/v1/workers", consul=consul.service_url("vllm", "?dc=dc1"))
        assert [(worker["url"], worker["health"]) for worker in answer["workers"]] == [
            (fleet.workers[0], "healthy"), (fleet.workers[1], "unhealthy")]


def test_the_token_of_consul_goes_only_there(tmp_path, fleet):
    """And neither to workers nor to a Consul that a request names."""
    token = secret(tmp_path / "consul.token", "consul-secret")
    workers = secret(tmp_path / "workers.token", "workers-secret")
    with Consul(token="consul-secret") as consul, Consul(token="consul-secret") as other:
        consul.add("vllm", host(fleet.workers[0]))
        other.add("vllm", host(fleet.workers[1]))
        config = f"[fleet a]\nconsul={consul.service_url('vllm')}\nconsul_token_file={token}\ntoken_file={workers}\n"
        with Daemon(tmp_path / "profd", quick_config(more=config)) as profd:
            assert [worker["url"] for worker in profd.get("/v1/workers")["workers"]] == [fleet.workers[0]]
            assert consul.headers("x-consul-token") == {"consul-secret"} and consul.headers("authorization") == {None}
            # Consul leaves out what a request without a token may not read.
            problem = profd.problem("GET", f"/v1/workers?consul={other.service_url('vllm', '')}", status=422)
            assert "has no workers" in problem["detail"] and "service:read" in problem["remedy"]
            assert other.headers("x-consul-token") == {None} and other.headers("authorization") == {None}
            # Read anew for each call.
            secret(token, "other-secret")
            problem = profd.problem("GET", "/v1/workers", status=502)
            assert "403" in problem["detail"] and "consul_token_file" in problem["remedy"], problem
            token.unlink()
            problem = profd.problem("GET", "/v1/workers", status=502)
            assert "consul_token_file" in problem["detail"], problem


def test_errors_of_consul_name_the_remedy(profd):
    with Consul() as consul:
        status, _, err = profctl(profd, "list-workers", "--consul", consul.service_url("absent"))
        assert status != 0 and "has no workers" in err and "unknown service" in err, err
        status, _, err = profctl(profd, "list-workers", "--consul", consul.url)
        assert status == 2 and "must be the name of a service, or URL/v1/health/service/NAME" in err, err
        status, _, err = profctl(profd, "list-workers", "--consul", f"{consul.url}/v1/health/service/absent/more")
        assert status != 0 and "404" in err, err
    status, _, err = profctl(profd, "list-workers", "--consul", f"http://127.0.0.1:{free_port()}/v1/health/service/vllm")
    assert status != 0 and "connection refused" in err and "127.0.0.1:8500" not in err, err


# ray=


@pytest.mark.smoke
def test_replicas_without_a_port_are_listed_and_not_recorded(profd):
    with RayDashboard() as ray:
        ids = [ray.add("llm", "LLMServer:qwen", "127.0.0.1", pid=4711), ray.add("llm", "Prefill:qwen", "10.77.0.2", pid=12)]
        ray.add("llm", "OpenAiIngress", "127.0.0.1", gpus=0)
        ray.add("llm", "LLMServer:qwen", "10.77.0.3", state="STARTING")
        status, out, err = profctl(profd, "list-workers", "--ray", ray.url, "--json")
        assert status == 0, err
        answer = json.loads(out)
        assert answer["dialect"] == "ray"
        assert [(worker["url"], worker["role"], worker["profilable"]) for worker in answer["workers"]] == [
            (f"ray://127.0.0.1/{ids[0]}", "unknown", False), (f"ray://10.77.0.2/{ids[1]}", "prefill", False)]
        for worker in answer["workers"]:
            assert worker["reason"] == "Ray Serve LLM has no HTTP route for its profiler"
            assert "profctl start --kineto" in worker["remedy"] and "--port PORT" in worker["remedy"]
        assert "process 4711 of its host" in answer["workers"][0]["note"]
        assert answer["notes"] == ["1 replica is not running, or its address is unknown",
                                   "1 replica without an accelerator is left out: OpenAiIngress"]
        status, out, err = profctl(profd, "start", "--ray", ray.url, "--duration", "200ms")
        assert status != 0 and "has no HTTP route for its profiler" in err, err
        assert not profd.get("/v1/sessions")["sessions"]
        status, out, err = profctl(profd, "bench", "--ray", ray.url, "-n", "1", "--isl", "8")
        assert status != 0 and "takes no requests over HTTP" in err and "--worker http://HOST:PORT" in err, out + err
        assert not profd.get("/v1/runs")["runs"]
        status, out, err = profctl(profd, "list-workers", "--ray", ray.url)
        assert status == 0 and "ray://127.0.0.1/" in out and "--kineto" in out + err, out + err


def test_replicas_with_ports_are_recorded(profd, fleet):
    """Direct ingress names the port of each; port= that of the others."""
    with RayDashboard() as ray:
        ids = [ray.add("llm", "LLMServer:qwen", "127.0.0.1", port=port(fleet.workers[0])), ray.add("llm", "Decode:qwen", "127.0.0.1")]
        answer = profd.get("/v1/workers", ray=ray.url, port=port(fleet.workers[1]))
        assert [(worker["url"], worker["engine"], worker["role"], worker["identity"]) for worker in answer["workers"]] == [
            (fleet.workers[0], "vllm", "unknown", ids[0]), (fleet.workers[1], "vllm", "decode", ids[1])]
        status, out, err = profctl(profd, "start", "--ray", ray.url, "--port", port(fleet.workers[1]), "--duration", "200ms",
                                   "--wait")
        assert status == 0, out + err
    (session,) = profd.get("/v1/sessions")["sessions"]
    assert session["counts"]["complete"] == 2 and session["dialect"] == "ray"
    assert len(profd.traces(session=session["session"])) == 2


def test_the_token_of_ray_goes_only_there(tmp_path, fleet):
    token = secret(tmp_path / "ray.token", "ray-secret")
    workers = secret(tmp_path / "workers.token", "workers-secret")
    with RayDashboard(token="ray-secret") as ray, RayDashboard(token="ray-secret") as other:
        ray.add("llm", "LLMServer:qwen", "127.0.0.1", port=port(fleet.workers[0]))
        config = f"[fleet a]\nray={ray.url}\nray_token_file={token}\ntoken_file={workers}\n"
        with Daemon(tmp_path / "profd", quick_config(more=config)) as profd:
            assert [worker["url"] for worker in profd.get("/v1/workers")["workers"]] == [fleet.workers[0]]
            assert ray.headers("authorization") == {"Bearer ray-secret"}
            problem = profd.problem("GET", f"/v1/workers?ray={other.url}", status=502)
            assert "401" in problem["detail"] and "ray get-auth-token" in problem["remedy"], problem
            assert other.headers("authorization") == {None}
            secret(token, "workers-secret")
            problem = profd.problem("GET", "/v1/workers", status=502)
            assert "403" in problem["detail"] and "not this cluster's" in problem["remedy"], problem


def test_errors_of_ray_name_the_remedy(profd):
    with RayDashboard() as ray:
        status, _, err = profctl(profd, "list-workers", "--ray", ray.url)
        assert status != 0 and "has no workers" in err and "outside of Ray Serve" in err, err
        ray.answers["/api/serve/applications/"] = (501, b"Serve dependencies are not installed.")
        status, _, err = profctl(profd, "list-workers", "--ray", ray.url)
        assert status != 0 and "501" in err and "ray[serve]" in err, err
        ray.answers["/api/serve/applications/"] = (200, b"<!doctype html><html></html>")
        status, _, err = profctl(profd, "list-workers", "--ray", ray.url)
        assert status != 0 and "HTML instead of JSON" in err, err
    status, _, err = profctl(profd, "list-workers", "--ray", f"http://127.0.0.1:{free_port()}")
    assert status != 0 and "connection refused" in err and "8265" in err, err
    status, _, err = profctl(profd, "list-workers", "--ray", "ray://127.0.0.1:10001")
    assert status == 2 and "must be the URL of a Ray dashboard" in err, err


