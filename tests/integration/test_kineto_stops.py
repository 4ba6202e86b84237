# SPDX-License-Identifier: Apache-2.0
"""Stops of recordings that cannot be called back, and restarts of profd in the middle of them."""

import pytest
from daemon import Daemon, FaultFleet, wait_for
from kineto_profd import SECOND, SLOW, kineto_config, only_target, process, profctl, registered, start
from kineto_profd import make_place, start_profd  # noqa: F401 (fixtures)


# -- Stops ---------------------------------------------------------------------------------------------------------------


def test_a_stop_before_the_fetch_cancels(place):
    with Daemon(place / "profd", kineto_config(place, poll="4s")) as profd, process(place, quick=SLOW) as client:
        registered(profd)
        client.wait_line("polled")
        started = start(profd)
        profd.wait_state(started["session"], "starting")
        profd.post(f"/v1/sessions/{started['session']}/stop")
        session = profd.wait_session(started["session"])
        assert session["state"] == "cancelled"
        client.wait_line("polled")
        client.wait_line("polled")
        assert "Received config" not in "\n".join(client.text())


@pytest.mark.parametrize("when", ["scheduled", "recording"])
def test_a_stop_after_the_fetch_says_when_it_ends(place, profd, when):
    with process(place) as client, FaultFleet(place / "fleet", "vllm", 1) as fleet:
        registered(profd)
        started = start(profd, 3, router=fleet.router)
        client.wait_line(f"^{when}")
        profd.wait_state(started["session"], "recording" if when == "recording" else "starting")
        done = profctl(profd, "stop", started["session"])
        assert "cannot be stopped: Kineto has no stop" in " ".join(done.stderr.split()), done.stderr
        session = profd.wait_session(started["session"])
        targets = {t["engine"]: t for t in session["targets"]}
        assert targets["pytorch"]["state"] == "complete"
        assert targets["vllm"]["state"] == ("complete" if when == "recording" else "cancelled")
        trace = next(t for t in profd.traces(session=started["session"]) if t["worker"].startswith("kineto:"))
        assert trace["span_ns"] > 2 * SECOND


# -- Restarts of profd ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", [True, False], ids=["crash", "restart"])
@pytest.mark.parametrize("when", ["scheduled", "recording", "Tracing complete"])
def test_a_restart_of_profd(place, profd, when, crash):
    with process(place, "--flush", 1000, "--tick", 500) as client:
        registered(profd)
        started = start(profd, 2)
        client.wait_line(f"^{when}")
        if when == "scheduled":
            wait_for(lambda: only_target(profd.session(started["session"])).get("start_sent_at"))
        profd.restart(crash=crash)
        session = profd.wait_session(started["session"])
        assert session["state"] == "complete", session
        assert len(profd.traces(session=started["session"])) == 1
        assert client.process.poll() is None
