# SPDX-License-Identifier: Apache-2.0
"""What becomes of a session over three hosts where a host refuses, is held by somebody else, is stopped by its own user, or is killed."""

import os
import re
import subprocess
import time

import pytest
from hosts import PROFCTL, Hosts, quick_config, wait_for
from network import why_not
from patience import patience

S = 1_000_000_000

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with Hosts(tmp_path_factory.mktemp("hosts"), 3, config=quick_config(more="[hosts]\nlease=10s\n")) as running:
        yield running


@pytest.fixture(autouse=True)
def no_faults(hosts):
    yield
    for host in hosts:
        host.fleet.set_fault("none")


def newest(host):
    return host.get("/v1/sessions")["sessions"][0]


def recording(hosts, number=1, **options):
    host = hosts[number]
    session = host.start_session(router=hosts.router, **options)["session"]
    wait_for(lambda: host.session(session)["state"] == "recording")
    return session


def of_host(session, name):
    return [target for target in session["targets"] if target.get("host") == name]


def test_a_user_of_a_host_stops_its_part(hosts):
    one, two, _ = hosts
    session = recording(hosts, duration_ns=30 * S)
    two.profctl("stop", newest(two)["session"])
    wait_for(lambda: [target["state"] for target in one.session(session)["targets"]].count("recording") == 4)
    one.profctl("stop", session)
    assert one.wait_session(session)["state"] == "complete"
    assert any("stopped by" in remark["text"] for remark in two.session(newest(two)["session"])["remarks"])


def test_a_start_that_fails_on_a_host(hosts):
    one, two, _ = hosts
    two.fleet.set_fault("start-500", workers="0")
    session = one.wait_session(one.start_session(router=hosts.router, duration_ns=S)["session"])
    assert session["state"] == "partial" and session["counts"]["complete"] == 5
    (failed,) = [target for target in session["targets"] if target["state"] == "failed"]
    assert failed["host"] == "gpu2" and "500" in failed["failure"] and failed["remedy"]
    # With all required, no host keeps anything.
    session = one.wait_session(one.start_session(router=hosts.router, duration_ns=S, require_all=True)["session"])
    assert session["state"] == "failed" and session["counts"]["traces"] == 0
    assert sorted(target["state"] for target in session["targets"]) == ["cancelled"] * 5 + ["failed"]
    for host in hosts:
        wait_for(lambda host=host: newest(host)["state"] in ("cancelled", "failed"))
        assert not host.fleet.profiling()["workers"]


def test_who_holds_a_worker_is_waited_for(hosts):
    one, two, _ = hosts
    held = two.start_session(workers=two.fleet.workers, duration_ns=5 * S)["session"]
    wait_for(lambda: two.session(held)["state"] == "recording")
    problem = one.problem("POST", "/v1/sessions", {"router": hosts.router, "duration_ns": S}, status=409)
    assert "is held by session" in problem["detail"] and "of gpu2" in problem["detail"] and problem["remedy"]
    session = one.start_session(router=hosts.router, duration_ns=2 * S, queue=True)["session"]
    wait_for(lambda: "held by" in one.session(session).get("waiting_for", ""))
    # Asked again after pauses, not at once.
    assert two.log().count("lease ") < 20
    wait_for(lambda: one.session(session)["state"] == "recording")
    problem = two.problem("POST", "/v1/sessions", {"workers": two.fleet.workers, "duration_ns": S}, status=409)
    assert "gpu1" in problem["detail"] or newest(two)["session"] in problem["detail"]
    assert one.wait_session(session)["state"] == "complete" and two.wait_session(held)["state"] == "complete"


def test_two_coordinators_that_wait_for_each_other(hosts):
    """Both have workers of their own that the other one needs."""
    one, two, _ = hosts
    asked = [(host, host.start_session(router=hosts.router, duration_ns=S, queue=True)["session"]) for host in (one, two)]
    for host, session in asked:
        assert host.wait_session(session)["state"] == "complete"
        assert "File exists" not in host.log()


def test_what_is_done_to_a_session_is_done_on_this_host(hosts):
    one, two, _ = hosts
    session = one.wait_session(one.start_session(router=hosts.router, duration_ns=S)["session"])["session"]
    assert one.profctl("show", session).count("  gpu1  ") == 2
    assert "4 of those shown are on other hosts" in one.profctl("list-traces", "--session", session)
    done = one.profctl("rm", "--yes", session, errors=True)
    assert f"deleted {session}\n4 traces of it on other hosts stay" in done
    assert [trace["host"] for trace in two.traces(session=newest(two)["session"])].count("gpu2") == 2


def test_all_are_killed_while_they_record(hosts):
    session = recording(hosts, duration_ns=4 * S)
    for host in hosts:
        host.kill()
    for host in hosts:
        host.start()
    assert hosts[1].wait_session(session)["state"] == "complete"


def test_a_host_that_does_not_answer_is_named_while_the_session_goes_on(hosts):
    """Without it, a coordinator that waits for a dead host shows what a coordinator shows that records."""
    one, two, _ = hosts
    session = recording(hosts, duration_ns=40 * S)
    two.kill()
    try:
        wait_for(lambda: all(target.get("silence") and target["silent_since"] > 0 for target in of_host(one.session(session), "gpu2")))
        assert "gpu2" in of_host(one.session(session), "gpu2")[0]["silence"]
        assert not any("silence" in target for target in of_host(one.session(session), "gpu1") + of_host(one.session(session), "gpu3"))
        assert "· gpu2 has not answered for " in one.profctl("status", session)
    finally:
        two.start()
    wait_for(lambda: not any("silence" in target for target in one.session(session)["targets"]))
    one.profctl("stop", session)
    assert one.wait_session(session)["counts"]["targets"] == 6


def test_who_waits_for_a_silent_host_sees_which_one_and_until_when(hosts, tmp_path):
    """What profctl start --wait prints where it is no terminal: the link of a host is cut, so that nothing refuses a connection."""
    one, two, _ = hosts
    before = one.get("/v1/sessions")["sessions"]
    with open(tmp_path / "printed", "w") as file, one.machine.inside():
        waiting = subprocess.Popen([*one.machine.enter, PROFCTL, "start", "--router", hosts.router, "--duration", "4s", "--wait"],
                                   stdin=subprocess.DEVNULL, stdout=file, stderr=file, env={**os.environ, "PROFD_SOCKET": str(one.socket)})

    def prints(pattern):
        return re.search(rf"^\S+ \S+  s\d+  {pattern}$", (tmp_path / "printed").read_text(), re.M)

    try:
        session = wait_for(lambda: len(one.get("/v1/sessions")["sessions"]) > len(before) and newest(one)["session"])
        wait_for(lambda: one.session(session)["state"] == "recording")
        hosts.network.cut(two.number)
        wait_for(lambda: prints(r"waiting for gpu2: no answer for [\d.]+ ?m?s, until \d\d:\d\d:\d\d"), why=(tmp_path / "printed").read_text)
        for target in of_host(one.session(session), "gpu2"):
            assert target["silent_since"] < time.time_ns() < target["silent_until"], target
    finally:
        hosts.network.join(two.number)
    wait_for(lambda: prints("gpu2 answers again") or waiting.poll() is not None, why=(tmp_path / "printed").read_text)
    assert waiting.wait(patience(100)) == 0 and "gpu3" not in (tmp_path / "printed").read_text()


def test_nobody_records_for_a_dead_coordinator(hosts):
    one, two, three = hosts
    # With stops one after the other, no host knows the end.
    session = recording(hosts, duration_ns=15 * S, stagger=True)
    one.kill()
    killed_at = time.monotonic()
    for host in (two, three):
        wait_for(lambda host=host: newest(host)["state"] in ("complete", "partial"), 60)
        assert "its lease to gpu1 ended" in newest(host)["reason"]
        assert not host.fleet.profiling()["workers"]
    assert time.monotonic() - killed_at < patience(60)
    # It may stay away for ever: the workers are free for others.
    others = two.start_session(workers=two.fleet.workers + three.fleet.workers, duration_ns=S)["session"]
    assert two.wait_session(others)["state"] == "complete"
    one.start()
    ended = one.wait_session(session)
    assert {target["state"] for target in of_host(ended, "gpu2") + of_host(ended, "gpu3")} == {"complete"}
