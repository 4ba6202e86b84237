# SPDX-License-Identifier: Apache-2.0
"""TokenSpeed as users record it: by stage, and while somebody else records it."""

import json

from recorded_engines import STEP, post, record
from recorded_engines import make_fleet, start_profd  # noqa: F401 (fixtures)


def test_tokenspeed_is_recorded_by_somebody_else(profd, fleet):
    """206 with the reason: a failure in spite of its status, and the other recording is not stopped."""
    worker = fleet.add_tokenspeed(*STEP)
    fleet.wait_ready()
    assert post(worker.url + "/start_profile", {"output_dir": str(worker.trace_dir / "other")})[0] == 200
    status, session, traces, err = record(profd, worker, "--duration", "300ms")
    (target,) = session["targets"]
    assert status != 0 and session["state"] == "failed" and not traces
    assert target["start_status"] == 206 and "stop_sent_at" not in target
    assert "already in progress" in target["failure"] and f"POST {worker.url}/stop_profile" in target["remedy"]
    assert post(worker.url + "/stop_profile")[0] == 200
    assert len(list((worker.trace_dir / "other").iterdir())) == 1


def test_tokenspeed_by_stage(profd, fleet):
    """An idle worker gets its first request while it is recorded: its prompt, then its tokens."""
    worker = fleet.add_tokenspeed(*STEP)
    fleet.wait_ready()
    asked = profd.start_session(workers=[worker.url], steps=1, by_stage=True)
    assert "second profiler" in json.dumps(profd.session(asked["session"]))
    profd.wait_state(asked["session"], "recording")
    assert post(worker.url + "/v1/completions", {"prompt": "Hello, ", "max_tokens": 12, "ignore_eos": True})[0] == 200
    assert profd.wait_session(asked["session"])["state"] == "complete"
    assert {trace.get("stage") for trace in profd.traces(session=asked["session"])} == {"prefill", "decode"}
