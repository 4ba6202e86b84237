# SPDX-License-Identifier: Apache-2.0
"""TensorRT-LLM as users record it: other backends, windows of its own, somebody else's recording."""

import json

from recorded_engines import STEP, listed, post, profctl, record
from recorded_engines import make_fleet, start_profd  # noqa: F401 (fixtures)


def test_tensorrt_llm_is_recorded_by_somebody_else(profd, fleet):
    """409: the start fails with the remedy, and the other recording is not stopped."""
    worker = fleet.add_trtllm(*STEP)
    fleet.wait_ready()
    assert post(worker.url + "/start_profile", {"output_dir": str(worker.trace_dir / "other")})[0] == 200
    status, session, traces, err = record(profd, worker, "--duration", "300ms")
    (target,) = session["targets"]
    assert status != 0 and session["state"] == "failed" and not traces
    assert target["start_status"] == 409 and "stop_sent_at" not in target
    assert "already in progress" in target["failure"] and f"POST {worker.url}/stop_profile" in target["remedy"]
    assert post(worker.url + "/stop_profile")[0] == 200
    assert len(list((worker.trace_dir / "other").iterdir())) == 1


def test_tensorrt_llm_before_its_profile_endpoints(profd, fleet):
    worker = fleet.add_trtllm("--no-profile-routes", *STEP)
    fleet.wait_ready()
    (found,) = listed(profd, worker)
    assert found["engine"] == "tensorrt-llm" and not found["profilable"] and found["reason"] == "has no /start_profile"
    assert "TLLM_PROFILE_START_STOP" in found["remedy"] and "TLLM_TORCH_PROFILE_TRACE" in found["remedy"]


def test_tensorrt_llm_with_another_backend(profd, fleet):
    """Where its command line cannot tell, the missing trace has the remedy."""
    worker = fleet.add_trtllm(*STEP, "--backend", "tensorrt")
    fleet.wait_ready()
    status, _, err = profctl(profd, "start", "--worker", worker.url, "--duration", "300ms")
    assert status != 0 and "only the PyTorch backend" in err and "--backend pytorch" in err


def test_tensorrt_llm_with_windows_of_its_own(profd, fleet):
    worker = fleet.add_trtllm(*STEP, env={"TLLM_PROFILE_START_STOP": "100000-100010"})
    plain = fleet.add_trtllm(*STEP)
    fleet.wait_ready()
    for one, warned in ((worker, True), (plain, False)):
        _, session, _, err = record(profd, one, "--steps", "3")
        assert session["state"] == "complete" and ("TLLM_PROFILE_START_STOP" in json.dumps(session)) == warned, err
