# SPDX-License-Identifier: Apache-2.0
"""NVIDIA Dynamo: the two lists of its frontend, workers at their system status servers with three engines, paths of two
generations, answers that are 200 and a failure of a start or a stop, and an engine that is older than its Dynamo."""

import contextlib
import http.server
import json
import re
import subprocess
import sys
import threading
import urllib.parse

import pytest

from daemon import BUILD, ROOT, Daemon, FaultFleet, quick_config, wait_for

sys.path.insert(0, str(ROOT / "tests/fleet"))
from fleet import Fleet  # noqa: E402  # pylint: disable=wrong-import-position

MS, S = 1_000_000, 1_000_000_000
PROFCTL = BUILD / "client/profctl"
NEWER, OLDER = "/engine/control/", "/engine/"


@pytest.fixture(name="profd")
def start_profd(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        yield profd


def profctl(profd, *words):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def port_of(url):
    return urllib.parse.urlsplit(url).port


def record(profd, fleet, **request):
    source = {} if "router" in request else {"workers": fleet.workers}
    asked = profd.start_session(trace_dir=str(fleet.directory), **source, **request)
    return asked, profd.wait_session(asked["session"])


def paths(fleet, worker=0):
    return [call["path"] for call in fleet.calls(worker)]


# Lists


def test_frontend_lists_urls(tmp_path, profd):
    """/v1/rl/workers is asked before /health, and found by `auto`."""
    with FaultFleet(tmp_path / "f", "dynamo", 3, "--shared-dir", "--router-dialect", "dynamo-rl", "--role",
                    "prefill=1") as fleet:
        status, out, err = profctl(profd, "list-workers", "--router", fleet.router)
        assert status == 0, err
        assert f"{fleet.router}: dynamo-rl, 3 workers" in out and "--enable-rl" in out + err
        for url in fleet.workers:
            assert re.search(rf"{url} .*dynamo", out), out
        listed = profd.get("/v1/workers", router=fleet.router)
        assert [worker["url"] for worker in listed["workers"]] == fleet.workers
        assert [worker["role"] for worker in listed["workers"]][0] == "prefill"
        assert {worker["backend"] for worker in listed["workers"]} == {"sglang"}
        assert {worker["model"] for worker in listed["workers"]} == {"fault-model"}
        _, session = record(profd, fleet, router=fleet.router, duration_ns=100 * MS)
        assert session["state"] == "complete" and session["dialect"] == "dynamo-rl", session
        assert all(paths(fleet, index)[-2:] == [NEWER + "start_profile", NEWER + "stop_profile"] for index in range(3))


def test_frontend_lists_a_worker_that_does_not_answer(tmp_path, profd):
    with FaultFleet(tmp_path / "f", "dynamo", 2, "--router-dialect", "dynamo-rl", "--fault", "die@0") as fleet:
        listed = profd.get("/v1/workers", router=fleet.router)
        assert [worker["url"] for worker in listed["workers"]] == fleet.workers[1:]
        (note,) = [note for note in listed["notes"] if "ignored" in note]
        assert "dynamo.backend instance" in note and "timed out after 30s" in note


def test_frontend_lists_hosts(tmp_path, profd):
    """The port is the user's to say, by an option or in profd.conf."""
    with FaultFleet(tmp_path / "f", "dynamo", 1, "--shared-dir", "--router-dialect", "dynamo") as fleet:
        port = port_of(fleet.workers[0])
        problem = profd.problem("GET", f"/v1/workers?router={fleet.router}", None, 400)
        assert "not the port of their system status servers" in problem["detail"]
        assert "--system-port PORT" in problem["remedy"] and "system_port = PORT" in problem["remedy"]
        status, out, err = profctl(profd, "list-workers", "--router", fleet.router, "--system-port", str(port))
        assert status == 0 and fleet.workers[0] in out and "1 worker" in out, out + err
        _, session = record(profd, fleet, router=fleet.router, system_port=port, duration_ns=100 * MS)
        assert session["state"] == "complete" and session["dialect"] == "dynamo", session
        assert session["targets"][0]["role"] == "regular"  # as SGLang's own metrics have it
        problem = profd.problem("GET", f"/v1/workers?worker={fleet.workers[0]}&system_port={port}", None, 400)
        assert "system_port is for a router" in problem["detail"]
        for wrong in (0, 65536, "x", -1):
            profd.problem("GET", f"/v1/workers?router={fleet.router}&system_port={wrong}", None, 400)
            profd.problem("POST", "/v1/sessions", {"router": fleet.router, "system_port": wrong}, 400)
    # A section of profd.conf.
    with FaultFleet(tmp_path / "g", "dynamo", 1, "--router-dialect", "dynamo") as fleet:
        config = quick_config() + f"[fleet d]\nrouter={fleet.router}\nsystem_port={port_of(fleet.workers[0])}\n"
        with Daemon(tmp_path / "second", config) as second:
            assert [worker["url"] for worker in second.get("/v1/workers")["workers"]] == fleet.workers


def test_frontend_lists_several_workers_of_a_host(tmp_path, profd):
    with FaultFleet(tmp_path / "f", "dynamo", 3, "--router-dialect", "dynamo") as fleet:
        listed = profd.get("/v1/workers", router=fleet.router, system_port=port_of(fleet.workers[1]))
        assert [worker["url"] for worker in listed["workers"]] == [fleet.workers[1]]
        (note,) = listed["notes"]
        assert "3 Dynamo workers run on 1 host (127.0.0.1)" in note and "--worker http://HOST:PORT" in note


def test_frontend_over_nats(tmp_path, profd):
    with FaultFleet(tmp_path / "f", "dynamo", 1, "--router-dialect", "dynamo-nats") as fleet:
        status, _, err = profctl(profd, "list-workers", "--router", fleet.router, "--system-port", "9090")
        assert status != 0 and "NATS" in err and "--worker http://HOST:PORT" in err


def test_worker_is_no_router(tmp_path, profd):
    with FaultFleet(tmp_path / "f", "dynamo", 1) as fleet:
        status, _, err = profctl(profd, "list-workers", "--router", fleet.workers[0])
        assert status != 0 and f"--worker {fleet.workers[0]}" in err


@contextlib.contextmanager
def frontend_of(worker, slow_s):
    """A frontend that asks its workers for that long before it lists their URLs."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            instance = {"component": "backend", "endpoint": "generate", "namespace": "dynamo", "instance_id": 1,
                        "transport": {"tcp": "127.0.0.1:40001/1/generate"}}
            answers = {"/health": {"status": "healthy", "endpoints": [], "instances": [instance]},
                       "/v1/rl/workers": {"protocol_version": 1, "namespace": "dynamo",
                                          "workers": [{**instance, "routes": [], "system_url": worker}]}}
            if self.path == "/v1/rl/workers":
                ended.wait(slow_s)
            body = json.dumps(answers.get(self.path, {})).encode()
            self.send_response(200 if self.path in answers else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_):  # pylint: disable=arguments-differ
            pass

    ended = threading.Event()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            ended.set()
            server.shutdown()


def test_frontend_that_waits_for_its_workers(tmp_path, profd):
    """It may take 30 s for its list of URLs, longer than profd waits: the other list is quick."""
    with FaultFleet(tmp_path / "f", "dynamo", 1) as fleet:
        port = port_of(fleet.workers[0])
        with frontend_of(fleet.workers[0], 0) as frontend:
            assert profd.get("/v1/workers", router=frontend)["dialect"] == "dynamo-rl"
        with frontend_of(fleet.workers[0], 60) as frontend:
            listed = profd.get("/v1/workers", router=frontend, system_port=port)
            assert listed["dialect"] == "dynamo" and [worker["url"] for worker in listed["workers"]] == fleet.workers
            problem = profd.problem("GET", f"/v1/workers?router={frontend}", None, 400)
            assert "--system-port" in problem["remedy"]


# Control


@pytest.mark.parametrize("engine, backend", [("dynamo", "sglang"), ("dynamo-vllm", "vllm")])
@pytest.mark.parametrize("fault, path", [("none", NEWER), ("older-paths", OLDER)])
def test_record(tmp_path, profd, engine, backend, fault, path):
    """The paths of the other generation are used only where the newer ones are not known."""
    with FaultFleet(tmp_path / "f", engine, 2 if backend == "sglang" else 1, "--shared-dir", "--fault", fault) as fleet:
        _, session = record(profd, fleet, duration_ns=100 * MS)
        assert session["state"] == "complete", session
        for index, target in enumerate(session["targets"]):
            assert target["engine"] == "dynamo" and target["worker"] == fleet.workers[index]
            assert paths(fleet, index)[-2:] == [path + "start_profile", path + "stop_profile"]
        assert fleet.journal()["profiling"] == 0
        workers = profd.get("/v1/workers", worker=fleet.workers[0])["workers"]
        assert {worker["backend"] for worker in workers} == {backend}


def test_steps(tmp_path, profd):
    """SGLang counts them; of vLLM profd reads the metrics."""
    with FaultFleet(tmp_path / "f", "dynamo", 1, "--shared-dir") as fleet:
        _, session = record(profd, fleet, steps=4)
        assert session["state"] == "complete", session
        assert json.loads(fleet.calls(0)[0]["body"])["num_steps"] == 4
    with FaultFleet(tmp_path / "g", "dynamo-vllm", 1, "--shared-dir") as fleet:
        _, session = record(profd, fleet, steps=4)
        assert session["state"] == "complete", session


def test_start_that_fails_in_its_body(tmp_path, profd):
    """200 {"status":"error"} is no start. It may have begun on some ranks, so it is stopped."""
    with FaultFleet(tmp_path / "f", "dynamo-vllm", 2, "--shared-dir", "--fault", "error-in-body@0") as fleet:
        _, session = record(profd, fleet, duration_ns=100 * MS)
        failed, good = session["targets"]
        assert session["state"] == "partial" and good["state"] == "complete", session
        assert failed["state"] == "failed" and failed["start_status"] == 200 and not failed["stop_pending"]
        assert failed["failure"] == f"POST {NEWER}start_profile: Call to profile method failed: profiler error"
        assert "log of the Dynamo worker" in failed["remedy"]
        assert paths(fleet)[-1] == NEWER + "stop_profile"
        metrics = profd.request("GET", "/metrics").body.decode()
        assert 'profd_worker_calls_total{call="start",engine="dynamo",result="refused"} 1' in metrics


def test_vllm_without_a_profiler(tmp_path, profd):
    with FaultFleet(tmp_path / "f", "dynamo-vllm", 1, "--shared-dir", "--fault", "no-profiler") as fleet:
        _, session = record(profd, fleet, duration_ns=100 * MS)
        (target,) = session["targets"]
        assert target["state"] == "failed" and "Profiling is not enabled" in target["failure"]
        assert "--profiler-config" in target["remedy"]


def test_stop_that_fails_in_its_body_is_repeated(tmp_path, profd):
    with FaultFleet(tmp_path / "f", "dynamo-vllm", 1, "--shared-dir", "--fault", "stop-error-in-body=1") as fleet:
        asked = profd.start_session(workers=fleet.workers, trace_dir=str(fleet.directory), duration_ns=100 * MS)["session"]
        wait_for(lambda: len(paths(fleet)) == 3 and paths(fleet)[-1] == NEWER + "stop_profile")
        assert profd.session(asked)["targets"][0]["stop_pending"]
        assert "0 of 1 stopped" in profctl(profd, "status", asked)[1]
        session = profd.wait_session(asked)
        assert "1 of 1 stopped" in profctl(profd, "status", asked)[1] and session["targets"][0]["stop_answered_at"]
        assert session["state"] == "complete" and not session["targets"][0].get("failure"), session
        assert paths(fleet) == [NEWER + verb for verb in ("stop_profile", "start_profile", "stop_profile", "stop_profile")]
        assert fleet.journal()["profiling"] == 0
        assert "RPC call to profile timed out.; it is sent again" in profd.log()


def test_stop_that_fails_in_its_body(tmp_path, profd):
    """It is not taken for a stop, however often it is answered with 200; and whoever reads it knows what goes on."""
    with FaultFleet(tmp_path / "f", "dynamo-vllm", 1, "--shared-dir", "--fault", "stop-error-in-body") as fleet:
        _, session = record(profd, fleet, duration_ns=100 * MS)
        (target,) = session["targets"]
        assert session["state"] == "failed" and target["state"] == "failed", session
        assert target["failure"] == f"POST {NEWER}stop_profile: Call to profile method failed: RPC call to profile timed out."
        assert target["remedy"].startswith("Its profiler may still be recording.") and "curl -X POST" in target["remedy"]
        assert paths(fleet).count(NEWER + "stop_profile") == 4 and fleet.journal()["profiling"] == 1
        metrics = profd.request("GET", "/metrics").body.decode()
        assert 'profd_worker_calls_total{call="stop",engine="dynamo",result="refused"} 3' in metrics
        status, out, err = profctl(profd, "status", "s1")
        assert status == 0 and "may still be recording" in out + err and "0 of 1 stopped" in out
        assert target["stop_status"] == 200 and "stop_answered_at" not in target


def test_crash_between_stops_that_fail(tmp_path, profd):
    """The stop stays pending over a restart of profd."""
    with FaultFleet(tmp_path / "f", "dynamo-vllm", 1, "--shared-dir", "--fault", "stop-error-in-body=1") as fleet:
        asked = profd.start_session(workers=fleet.workers, trace_dir=str(fleet.directory), duration_ns=100 * MS)["session"]
        wait_for(lambda: paths(fleet).count(NEWER + "stop_profile") == 2, interval_s=0.005)
        profd.restart(crash=True)
        session = profd.wait_session(asked)
        assert session["state"] in ("complete", "partial"), session
        assert fleet.journal()["profiling"] == 0


@pytest.mark.parametrize("shared", [(), ("--shared-dir",)])
def test_older_engine(tmp_path, profd, shared):
    """Without the key that it refuses; its traces have names of its own, and still find their targets."""
    with FaultFleet(tmp_path / "f", "dynamo", 2, "--fault", "older-keys", *shared) as fleet:
        _, session = record(profd, fleet, duration_ns=100 * MS)
        assert session["state"] == "complete", session
        for index, target in enumerate(session["targets"]):
            bodies = [json.loads(call["body"]) for call in fleet.calls(index, NEWER + "start_profile")]
            assert [body.get("profile_id") for body in bodies] == [target["profile_id"], None]
            assert bodies[0].keys() - bodies[1].keys() == {"profile_id"}
            (trace,) = profd.traces(worker=target["worker"])
            assert target["profile_id"] not in trace["name"] and trace["session"] == session["session"]
        assert {remark["worker"] for remark in session["remarks"] if "too old to name" in remark["text"]} == set(fleet.workers)


def test_newer_engine_keeps_its_keys(tmp_path, profd):
    """Any other 500 is a failure, and nothing is sent again."""
    with FaultFleet(tmp_path / "f", "dynamo", 1, "--shared-dir", "--fault", "start-500") as fleet:
        _, session = record(profd, fleet, duration_ns=100 * MS)
        assert session["state"] == "failed" and not session.get("remarks"), session
        assert len(fleet.calls(0, NEWER + "start_profile")) == 1


def test_engine_without_profile_routes(tmp_path, profd):
    with FaultFleet(tmp_path / "f", "dynamo", 1, "--fault", "start-404") as fleet:
        _, session = record(profd, fleet, duration_ns=100 * MS)
        (target,) = session["targets"]
        assert target["state"] == "failed" and "404" in target["failure"] and "profile routes" in target["remedy"]
        assert paths(fleet) == [NEWER + "start_profile", OLDER + "start_profile"]


def test_tensorrt_llm(tmp_path, profd):
    """In Dynamo it has no profile routes; the remedy says what it has."""
    with FaultFleet(tmp_path / "f", "dynamo-trtllm", 1) as fleet:
        (worker,) = profd.get("/v1/workers", worker=fleet.workers[0])["workers"]
        assert worker["engine"] == "dynamo" and worker["backend"] == "tensorrt-llm"
        _, session = record(profd, fleet, duration_ns=100 * MS)
        (target,) = session["targets"]
        assert target["state"] == "failed" and "404" in target["failure"]
        assert "TensorRT-LLM" in target["remedy"] and "TLLM_PROFILE_START_STOP" in target["remedy"]


# Real profilers


@pytest.mark.parametrize("generation", ["newer", "older"])
def test_a_fleet_as_users_have_it(tmp_path, generation):
    """A frontend in front of a prefill worker with SGLang and a worker with vLLM, under load; one command."""
    patient = quick_config(start="20s", clean="20s", stop="2min", session="10min")
    with Daemon(tmp_path / "profd", patient) as profd, Fleet(tmp_path / "fleet") as fleet:
        fleet.add_sglang("--dynamo", generation, "--step-ms", "20", name="prefill")
        fleet.add_vllm("--dynamo", generation, "--step-ms", "20", name="decode",
                       profiler_config={"torch_profiler_with_stack": False})
        frontend = fleet.add_router("dynamo-rl", "--model-id", "tiny-random", roles={"prefill": "prefill"})
        # Requests go to the frontend, whose workers take none at the URLs by which profd knows them.
        status, out, err = profctl(profd, "bench", "--router", frontend.url, "-n", "4", "--isl", "8", "--osl", "4")
        assert status == 0, out + err
        status, out, err = profctl(profd, "bench", "--worker", fleet.workers[1].url, "-n", "1", "--isl", "8")
        assert status != 0 and "takes no requests" in err and "--router URL" in err
        fleet.start_load(frontend.url, 30, 4)
        status, out, err = profctl(profd, "start", "--router", frontend.url, "--duration", "500ms", "--wait")
        assert status == 0, out + err
        session = profd.session("s1")
        assert session["state"] == "complete" and session["dialect"] == "dynamo-rl", session
        assert [target["role"] for target in session["targets"]] == ["prefill", "unknown"]
        for worker in fleet.workers:
            # vLLM writes a table for people next to it.
            (trace,) = [trace for trace in profd.traces(worker=worker.url) if trace["name"].endswith(".json.gz")]
            assert trace["session"] == "s1"
            status, out, err = profctl(profd, "analyze", trace["trace"])
            assert status == 0, out + err
