# SPDX-License-Identifier: Apache-2.0
"""The real fleet behaves as the engines and routers that it stands for: the quirks that profd has to live with."""
import contextlib
import gzip
import http.client
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import time
import urllib.parse

import pytest

FLEET = pathlib.Path(__file__).resolve().parent.parent / "fleet"
sys.path.insert(0, str(FLEET))
from fleet import Fleet, PYTHON  # noqa: E402
from patience import patience  # noqa: E402

pytestmark = pytest.mark.plain

QUIET = {"ignore_frontend": True, "torch_profiler_with_stack": False}


def call(method, url, body=None, headers=None, timeout=60):
    """(status, body)"""
    parts = urllib.parse.urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=timeout)) as connection:
        data = json.dumps(body) if body is not None else None
        connection.request(method, parts.path + ("?" + parts.query if parts.query else ""), data, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()


def get_json(url):
    status, body = call("GET", url)
    assert status == 200, body
    return json.loads(body)


def generate(worker, tokens=8, **more):
    status, body = call("POST", worker.url + "/v1/completions",
                        {"prompt": "Why is this slow?", "max_tokens": tokens, "ignore_eos": True, **more})
    assert status == 200, body
    return json.loads(body)


def read_trace(path):
    with gzip.open(path, "rt", encoding="utf-8") as source:
        return json.load(source)


def steps(trace):
    return [event["name"] for event in trace["traceEvents"] if event.get("cat") == "user_annotation"]


def metric(url, name):
    text = call("GET", url + "/metrics")[1].decode()
    return sum(float(value) for value in re.findall(rf"^{re.escape(name)}{{[^}}]*}} (\S+)$", text, re.MULTILINE))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet")) as started:
        started.add_vllm(profiler_config=QUIET, name="plain")
        started.add_vllm(profiler_config=False, name="off", env={"VLLM_TORCH_PROFILER_DIR": "/nonexistent"})
        started.add_sglang(name="sglang")
        started.wait_ready()
        yield started


@pytest.fixture
def alone(tmp_path):
    with Fleet(tmp_path) as started:
        yield started


def named(fleet, name):
    return next(worker for worker in fleet.workers if worker.name == name)


# vLLM


def test_vllm_without_a_profiler_has_no_profile_routes(fleet):
    worker = named(fleet, "off")
    for verb in ("start", "stop"):
        status, body = call("POST", f"{worker.url}/{verb}_profile")
        assert status == 404
        assert json.loads(body) == {"error": {"message": "Not Found", "type": "Not Found", "param": None, "code": 404}}
    assert "/start_profile" not in get_json(worker.url + "/openapi.json")["paths"]
    assert call("GET", worker.url + "/server_info")[0] == 404


def test_vllm_records_between_start_and_stop(fleet):
    worker = named(fleet, "plain")
    assert "post" in get_json(worker.url + "/openapi.json")["paths"]["/start_profile"]
    assert call("GET", worker.url + "/start_profile")[0] == 405
    before = metric(worker.url, "vllm:iteration_tokens_total_count")
    assert call("POST", worker.url + "/start_profile", {"ignored": [1]}) == (200, b"")
    assert call("POST", worker.url + "/start_profile") == (200, b"")
    generate(worker)
    assert worker.traces() == []
    assert call("POST", worker.url + "/stop_profile") == (200, b"")

    assert metric(worker.url, "vllm:iteration_tokens_total_count") == before + 8
    (path,) = worker.traces()
    assert re.fullmatch(r"dp0_pp0_tp0_dcp0_ep0_rank0\.\d{19}\.pt\.trace\.json\.gz", path.name)
    assert path.stat().st_size < 1 << 20
    trace = read_trace(path)
    assert steps(trace) == ["execute_context_1(17)_generation_0(0)"] + ["execute_context_0(0)_generation_1(1)"] * 7
    assert trace["distributedInfo"]["rank"] == 0 and trace["schemaVersion"] == 1
    operators = [event for event in trace["traceEvents"] if event.get("cat") == "cpu_op"]
    assert len(operators) > 300
    assert list(operators[0]) == ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"]
    parent = pathlib.Path(f"/proc/{operators[0]['pid']}/stat").read_text(encoding="ascii").split()[3]
    assert int(parent) == worker.pid
    age_s = time.time() - (trace["baseTimeNanoseconds"] / 1e9 + operators[0]["ts"] / 1e6)
    assert 0 < age_s < 60
    assert "aten::linear" in (path.parent / "profiler_out_0.txt").read_text(encoding="utf-8")

    assert call("POST", worker.url + "/stop_profile") == (200, b"")
    assert worker.traces() == [path]


def test_vllm_serves_nothing_but_health_while_it_flushes(alone):
    """The load lasts longer than the test, and the recording is long enough to be written for a while."""
    worker = alone.add_vllm("--step-ms", 10, profiler_config={**QUIET, "torch_profiler_with_stack": True}).wait_ready()
    alone.start_load(worker.url, patience(60), 4)

    def steps_done():
        return metric(worker.url, "vllm:iteration_tokens_total_count")

    wait_for(lambda: metric(worker.url, "vllm:num_requests_running") == 4)
    call("POST", worker.url + "/start_profile")
    begun = steps_done()
    wait_for(lambda: steps_done() - begun >= 100)
    with contextlib.closing(http.client.HTTPConnection(worker.url[7:])) as stopping:
        stopping.request("POST", "/stop_profile")

        def look_for_standstill():
            assert not select.select([stopping.sock], [], [], 0)[0], "the stop was answered before a standstill was seen"
            before = steps_done()
            time.sleep(0.3)
            return steps_done() == before

        wait_for(look_for_standstill)
        assert call("GET", worker.url + "/health")[0] == 200
        assert metric(worker.url, "vllm:num_requests_running") > 0
        assert stopping.getresponse().status == 200
        flushed = steps_done()
    wait_for(lambda: steps_done() > flushed)


def test_vllm_max_iterations_makes_later_starts_do_nothing(alone):
    worker = alone.add_vllm(profiler_config={**QUIET, "max_iterations": 3}).wait_ready()
    call("POST", worker.url + "/start_profile")
    generate(worker)
    (first,) = worker.traces()
    assert len(steps(read_trace(first))) == 3
    assert call("POST", worker.url + "/start_profile") == (200, b"")
    generate(worker)
    assert worker.traces() == [first]
    call("POST", worker.url + "/stop_profile")
    assert worker.traces() == [first]
    call("POST", worker.url + "/start_profile")
    generate(worker)
    assert len(worker.traces()) == 2


def test_vllm_with_a_schedule_records_only_once(alone):
    worker = alone.add_vllm(profiler_config={**QUIET, "warmup_iterations": 1, "active_iterations": 2}).wait_ready()
    for _ in range(2):
        assert call("POST", worker.url + "/start_profile") == (200, b"")
        generate(worker)
        assert call("POST", worker.url + "/stop_profile") == (200, b"")
        assert len(worker.traces()) == 1


def test_vllm_delay_on_an_idle_engine_never_starts(alone):
    config = {**QUIET, "delay_iterations": 4, "torch_profiler_with_memory": True, "torch_profiler_use_gzip": False,
              "torch_profiler_record_shapes": True}
    worker = alone.add_vllm(profiler_config=config).wait_ready()
    call("POST", worker.url + "/start_profile")
    assert call("POST", worker.url + "/stop_profile") == (200, b"")
    assert worker.traces() == []
    call("POST", worker.url + "/start_profile")
    generate(worker, 6)
    call("POST", worker.url + "/stop_profile")
    (path,) = worker.traces()
    trace = json.loads(path.read_text(encoding="utf-8"))
    assert 0 < len(steps(trace)) < 6
    assert {event.get("cat") for event in trace["traceEvents"] if event["ph"] == "X"} == {
        "cpu_op", "user_annotation", "Trace"}


def test_vllm_frontend_trace_and_its_assertion(alone):
    worker = alone.add_vllm().wait_ready()
    status, body = call("POST", worker.url + "/stop_profile")
    assert status == 500
    assert json.loads(body)["error"]["type"] == "InternalServerError"
    call("POST", worker.url + "/start_profile")
    generate(worker, 2)
    assert call("POST", worker.url + "/stop_profile") == (200, b"")
    rank, frontend = worker.traces()
    process = re.escape(f"{os.uname().nodename}_{worker.pid}")
    assert re.fullmatch(process + r"\.async_llm\.\d+\.pt\.trace\.json\.gz", frontend.name)
    assert "tokenize" in steps(read_trace(frontend))
    frames = [event for event in read_trace(rank)["traceEvents"] if event.get("cat") == "python_function"]
    assert any(frame["name"].endswith(": forward") for frame in frames)


def test_vllm_failure_to_write_is_only_logged(alone):
    blocked = alone.directory / "file"
    blocked.write_text("no directory", encoding="ascii")
    worker = alone.add_vllm(profiler_config=QUIET, trace_dir=blocked / "traces").wait_ready()
    call("POST", worker.url + "/start_profile")
    assert call("POST", worker.url + "/stop_profile") == (200, b"")
    assert "Failed to stop profiler" in worker.log_text()
    generate(worker)


def test_vllm_writes_a_file_for_each_rank(alone):
    worker = alone.add_vllm("--tensor-parallel-size", 2, "--profiler-config.torch_profiler_with_stack=false",
                            "--profiler-config.ignore_frontend", "true", env={"VLLM_SERVER_DEV_MODE": "1"}).wait_ready()
    config = get_json(worker.url + "/server_info?config_format=json")["vllm_config"]
    assert config["parallel_config"]["tensor_parallel_size"] == 2
    assert config["profiler_config"]["torch_profiler_dir"] == str(worker.trace_dir)
    call("POST", worker.url + "/start_profile")
    generate(worker, 2)
    call("POST", worker.url + "/stop_profile")
    assert [path.name.split(".")[0] for path in worker.traces()] == [
        "dp0_pp0_tp0_dcp0_ep0_rank0", "dp0_pp0_tp1_dcp0_ep0_rank1"]
    assert [read_trace(path)["distributedInfo"]["rank"] for path in worker.traces()] == [0, 1]
    assert {path.name for path in worker.trace_dir.glob("*.txt")} == {"profiler_out_0.txt", "profiler_out_1.txt"}

    assert get_json(worker.url + "/is_sleeping") == {"is_sleeping": False}
    assert call("POST", worker.url + "/sleep")[0] == 200
    assert get_json(worker.url + "/is_sleeping") == {"is_sleeping": True}
    assert call("POST", worker.url + "/wake_up")[0] == 200
    generate(worker, 2)


def test_vllm_launched_by_variable_or_by_file(alone):
    old_dir, file_dir = alone.directory / "old", alone.directory / "file"
    config = alone.directory / "vllm.yaml"
    config.write_text(f"model: from-file\nprofiler-config:\n  profiler: torch\n  torch_profiler_dir: {file_dir}\n"
                      "  ignore_frontend: true\n", encoding="ascii")
    old = alone.add_vllm("--vllm-version", "0.15.0", profiler_config=False, trace_dir=old_dir,
                         env={"VLLM_TORCH_PROFILER_DIR": str(old_dir), "VLLM_TORCH_PROFILER_WITH_STACK": "0"})
    by_file = alone.add_vllm("--config", config, profiler_config=False, trace_dir=file_dir)
    alone.wait_ready()
    assert get_json(old.url + "/version") == {"version": "0.15.0"}
    assert get_json(by_file.url + "/v1/models")["data"][0]["id"] == "from-file"
    for worker in (old, by_file):
        call("POST", worker.url + "/start_profile")
        generate(worker, 2)
        assert call("POST", worker.url + "/stop_profile") == (200, b"")
    assert any(re.fullmatch(r"\w+-rank-0\.\d+\.pt\.trace\.json\.gz", path.name) for path in old.traces())
    assert len(by_file.traces()) == 1


def test_vllm_refuses_a_configuration_as_the_engine_does(alone):
    for config, words in (({"torch_profiler_dir": ""}, "torch_profiler_dir must be set when profiler is 'torch'"),
                          ({"profiler": None}, "torch_profiler_dir is only applicable when profiler is set to 'torch'"),
                          ({"surprise": 1}, "profiler_config.surprise")):
        with Fleet(alone.directory / words.split()[0]) as fleet:
            with pytest.raises(RuntimeError, match=re.escape(words)):
                fleet.add_vllm(profiler_config=config).wait_ready()


def test_api_key_of_vllm_guards_v1_only(alone):
    worker = alone.add_vllm("--api-key", "secret", profiler_config=QUIET).wait_ready()
    assert call("GET", worker.url + "/v1/models")[0] == 401
    assert call("GET", worker.url + "/v1/models", headers={"Authorization": "Bearer secret"})[0] == 200
    assert call("GET", worker.url + "/health")[0] == 200
    assert call("POST", worker.url + "/stop_profile")[0] == 200


def test_engine_core_and_server_end_together(alone):
    for victim in ("server", "engine core"):
        worker = alone.add_vllm(profiler_config=False, name=victim).wait_ready()
        core = int(pathlib.Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text(encoding="ascii"))
        os.kill(worker.pid if victim == "server" else core, signal.SIGKILL)
        assert worker.child.wait(10) == (-signal.SIGKILL if victim == "server" else 1)
        wait_for(lambda: not pathlib.Path(f"/proc/{core}").exists())


# SGLang


def test_sglang_records_with_its_own_names_and_texts(fleet):
    worker = named(fleet, "sglang")
    target = fleet.directory / "manual"
    body = {"output_dir": str(target), "profile_id": "run7", "with_stack": False, "profile_prefix": "p"}
    assert call("POST", worker.url + "/start_profile", body) == (200, b"Start profiling.\n")
    assert not target.exists()
    generate(worker, 3)
    assert call("GET", worker.url + "/stop_profile") == (200, b"Stop profiling. This will take some time.\n")
    trace = read_trace(target / "p-run7-TP-0.trace.json.gz")
    names = steps(trace)
    assert names[0].startswith("step[EXTEND bs=1") and names[-1] == "step[DECODE bs=1]"
    assert any("Input Dims" in event.get("args", {}) for event in trace["traceEvents"])
    assert call("POST", worker.url + "/stop_profile") == (500, b"Internal Server Error")


def test_sglang_stops_by_itself_and_then_the_stop_fails(fleet):
    worker = named(fleet, "sglang")
    body = {"num_steps": 3, "profile_id": "auto", "with_stack": False}
    assert call("POST", worker.url + "/start_profile", body)[0] == 200
    generate(worker, 8)
    path = worker.trace_dir / "auto-TP-0.trace.json.gz"
    assert len(steps(read_trace(path))) == 3
    assert call("POST", worker.url + "/stop_profile") == (500, b"Internal Server Error")


def test_sglang_by_stage_writes_two_files(fleet):
    worker = named(fleet, "sglang")
    body = {"num_steps": 2, "profile_id": "stages", "profile_by_stage": True, "with_stack": False}
    assert call("POST", worker.url + "/start_profile", body)[0] == 200
    generate(worker, 6)
    extend = read_trace(worker.trace_dir / "stages-TP-0-EXTEND.trace.json.gz")
    decode = read_trace(worker.trace_dir / "stages-TP-0-DECODE.trace.json.gz")
    assert [name.split()[0] for name in steps(extend)] == ["step[EXTEND"]
    assert [name.split()[0] for name in steps(decode)] == ["step[DECODE"] * 2


def test_sglang_start_step_waits_for_the_forward_count(fleet):
    worker = named(fleet, "sglang")
    body = {"start_step": 1, "num_steps": 2, "profile_id": "later", "with_stack": False}
    assert call("POST", worker.url + "/start_profile", body)[0] == 200
    assert call("POST", worker.url + "/stop_profile")[0] == 500  # the next forward has not come
    generate(worker, 5)
    assert len(steps(read_trace(worker.trace_dir / "later-TP-0.trace.json.gz"))) == 2


def test_sglang_second_start_loses_the_trace(fleet):
    worker = named(fleet, "sglang")
    body = {"profile_id": "twice", "with_stack": False}
    assert call("POST", worker.url + "/start_profile", body)[0] == 200
    assert call("GET", worker.url + "/start_profile") == (500, b"Internal Server Error")
    assert call("POST", worker.url + "/stop_profile")[0] == 200
    assert not list(worker.trace_dir.glob("twice*"))
    assert call("POST", worker.url + "/start_profile", {"num_steps": "many"})[0] == 400


def test_sglang_unwritable_output_dir_kills_the_server(alone):
    worker = alone.add_sglang().wait_ready()
    blocked = alone.directory / "file"
    blocked.write_text("no directory", encoding="ascii")
    assert call("POST", worker.url + "/start_profile", {"output_dir": str(blocked / "x")})[0] == 200
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        assert call("POST", worker.url + "/stop_profile")[0] == 500
    assert worker.child.wait(10) == 1


def test_sglang_reports_its_arguments_and_guards_the_profiler(alone):
    worker = alone.add_sglang("--admin-api-key", "admin", "--api-key", "user", "--tp-size", 2, "--disaggregation-mode",
                              "decode").wait_ready()
    user, admin = ({"Authorization": f"Bearer {key}"} for key in ("user", "admin"))
    assert call("GET", worker.url + "/server_info")[0] == 401
    info = json.loads(call("GET", worker.url + "/server_info", headers=user)[1])
    assert (info["tp_size"], info["api_key"], info["disaggregation_mode"]) == (2, "user", "decode")
    assert info["port"] == urllib.parse.urlsplit(worker.url).port and info["speculative_algorithm"] is None
    assert call("GET", worker.url + "/health")[0] == 200
    assert call("POST", worker.url + "/stop_profile", headers=user)[0] == 401
    assert call("POST", worker.url + "/stop_profile", headers=admin)[0] == 500
    assert metric(worker.url, "sglang:num_running_reqs") == 0


# Routers


def test_streamed_completion_through_a_router(fleet):
    router = fleet.add_router(workers=[named(fleet, "plain"), named(fleet, "sglang")])
    for _ in range(2):
        status, body = call("POST", router.url + "/v1/completions", {
            "prompt": "hello", "max_tokens": 3, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}})
        events = [line[6:] for line in body.decode().splitlines() if line.startswith("data: ")]
        assert status == 200 and len(events) == 5 and events[-1] == "[DONE]"
        assert json.loads(events[2])["choices"][0]["finish_reason"] == "length"
        assert json.loads(events[3])["usage"] == {"prompt_tokens": 5, "total_tokens": 8, "completion_tokens": 3}
    log = fleet.training_log(router.name).read_text(encoding="ascii")
    host, prometheus = re.search(r"Router launched at (\S+), Prometheus port: (\d+)$", log, re.MULTILINE).groups()
    assert "http://" + host == router.url
    assert "router_requests_total 2\n" in call("GET", f"http://127.0.0.1:{prometheus}/metrics")[1].decode()


def test_vllm_router_lists_workers(fleet):
    router = fleet.add_router("vllm-router", "--at-rank", "--health-interval", "0.1", roles={"plain": "prefill"})
    listed = get_json(router.url + "/workers")
    plain = named(fleet, "plain")
    assert listed["workers"][0] == {
        "url": plain.url + "@0", "model_id": "unknown", "worker_type": "prefill", "is_healthy": True, "load": 0,
        "connection_mode": "Http", "priority": 50, "cost": 1.0, "bootstrap_port": 8998}
    assert listed["total"] == 6
    assert listed["stats"] == {"prefill_count": 2, "decode_count": 0, "regular_count": 4}
    assert get_json(router.url + "/list_workers")["urls"][1] == plain.url + "@1"
    status, body = call("GET", router.url + "/workers/http%3A%2F%2Fnobody")
    assert status == 404 and json.loads(body)["code"] == "WORKER_NOT_FOUND"
    assert call("POST", router.url + "/start_profile")[0] == 404


def test_other_routers_list_workers(fleet):
    plain = named(fleet, "plain").url
    gateway = get_json(fleet.add_router("sglang").url + "/workers")["workers"][0]
    assert (gateway["url"], gateway["connection_mode"]) == (plain, "http") and gateway["id"]
    smg = get_json(fleet.add_router("smg").url + "/workers")["workers"][0]
    assert (smg["url"], smg["status"], smg["labels"]) == (plain, "ready", {})
    slime = fleet.add_router("slime")
    assert get_json(slime.url + "/workers") == {"workers": [
        {"url": worker.url, "worker_type": "regular", "active_requests": 0, "is_healthy": True}
        for worker in fleet.workers]}
    miles = fleet.add_router("list-workers", workers=[named(fleet, "plain")])
    assert get_json(miles.url + "/list_workers") == {"urls": [plain]}
    assert "version" in get_json(miles.url + "/version")
    frontend = fleet.add_router("dynamo-rl")
    dynamo = get_json(frontend.url + "/health")["instances"]
    assert dynamo[0]["transport"]["tcp"].startswith("127.0.0.1:") and len(dynamo) == 2 * len(fleet.workers)
    assert get_json(frontend.url + "/v1/rl/workers")["workers"][0]["system_url"] == plain


def test_router_sees_load_and_loss_of_a_worker(alone):
    workers = [alone.add_vllm(profiler_config=False) for _ in range(2)]
    router = alone.add_router("vllm-router", "--health-interval", "0.1")
    sending = alone.start_load(router.url, 1, 4, "--max-tokens", 8)
    wait_for(lambda: [entry["load"] for entry in get_json(router.url + "/workers")["workers"]] == [2, 2])
    sending.child.wait(20)
    result = json.loads(sending.log_text())
    assert set(result["answers"]) == {"200"} and result["completion_tokens"] == 8 * result["requests"] > 0
    workers[0].child.kill()
    wait_for(lambda: [entry["is_healthy"] for entry in get_json(router.url + "/workers")["workers"]] == [False, True])
    assert call("POST", router.url + "/v1/completions", {"prompt": "x", "max_tokens": 1})[0] == 200


def test_program_runs_until_asked_to_end(tmp_path):
    child = subprocess.Popen([PYTHON, str(FLEET / "fleet.py"), "--vllm", "1", "--sglang", "1", "--dir", str(tmp_path)],
                             stdout=subprocess.PIPE)
    try:
        told = json.loads(child.stdout.readline())
        assert len(get_json(told["router"] + "/workers")["workers"]) == 2
        assert told["router"][7:] in pathlib.Path(told["router_log"]).read_text(encoding="ascii")
    finally:
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0
        child.stdout.close()
    assert not any(pathlib.Path(f"/proc/{worker['pid']}").exists() for worker in told["workers"])


def wait_for(condition, timeout_s=60):
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < patience(timeout_s), f"not within {timeout_s} s"
        time.sleep(0.05)
