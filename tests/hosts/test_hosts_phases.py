# SPDX-License-Identifier: Apache-2.0
"""In each phase of a session over three hosts: the coordinator is killed, a host's profd is killed, a host is cut off. What holds a phase
is a worker that keeps its answer, or another host; nothing is waited for by the clock."""

import contextlib
import os
import signal
import time
from collections import namedtuple

import pytest
from hosts import Hosts, quick_config, wait_for
from network import why_not

import host_invariants  # isort: skip  (hosts.py made it importable)
from host_invariants import rows  # isort: skip

S = 1_000_000_000
FINAL = ("complete", "partial", "failed", "cancelled")
DURATION_NS = S // 2

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    # Calls to workers wait for as long as a test holds their answers.
    config = quick_config(start="20s", clean="20s", stop="20s", settle="5s", more="[hosts]\nlease=10s\n")
    with Hosts(tmp_path_factory.mktemp("hosts"), 3, config=config) as running:
        yield running


@pytest.fixture(autouse=True)
def what_must_hold(hosts):
    yield
    for host in hosts:
        host.fleet.set_fault("none")
        hosts.network.join(host.number)
    assert host_invariants.complaints(hosts, 20) == []


# Phases


def lease_of(host, uuid):
    """Its row at a host, which is a dict without members before it is granted."""
    return next(iter(rows(host, "select * from lease_row where session_uuid = ? order by lease_id desc limit 1", uuid)), {})


def session_of(host, uuid):
    """The host's own session."""
    return next(iter(rows(host, "select * from session_row where uuid = ?", uuid)), {})


def is_leased(host, uuid):
    return lease_of(host, uuid).get("state") == "granted"


def is_preparing(host, uuid):
    return lease_of(host, uuid).get("state") == "prepared" and not is_armed(host, uuid)


def is_armed(host, uuid):
    """Its stops are owed from then on."""
    pending = rows(host, "select stop_pending from target_row join session_row using (session_id) where uuid = ?", uuid)
    return bool(pending) and all(row["stop_pending"] for row in pending)


def is_known_armed(host, uuid):
    """Also at the coordinator: it waits for a host that is cut off before it could say so."""
    parts = rows(host.hosts[1], "select part_row.state from part_row join session_row using (session_id) where uuid = ?", uuid)
    return is_armed(host, uuid) and all(row["state"] == "armed" for row in parts)


def is_waiting(host, uuid):
    return lease_of(host, uuid).get("state") == "started" and not host.fleet.profiling()["workers"]


def is_starting(host, uuid):
    return session_of(host, uuid).get("state") == "starting" and len(host.fleet.profiling()["workers"]) == 2


def in_state(state):
    return lambda host, uuid: session_of(host, uuid).get("state") == state


def is_final(host, uuid):
    return session_of(host, uuid).get("state") in FINAL


# `held`: the fault that workers of the other hosts have, "own:" of the coordinator's; `reached`: whether a host is in it.
Phase = namedtuple("Phase", "name held reached")
PHASES = {phase.name: phase for phase in (
    Phase("lease", None, is_leased),
    Phase("prepare", "hold-clean", is_preparing),
    Phase("armed", "own:hold-clean", is_known_armed),
    Phase("waiting", None, is_waiting),
    Phase("starting", "hold-start", is_starting),
    Phase("recording", None, in_state("recording")),
    Phase("stopping", "hold-stop", in_state("stopping")),
    Phase("collecting", "hold-trace", in_state("collecting")),
)}


def freeze(host):
    os.kill(host.pid, signal.SIGSTOP)
    host.frozen_since = time.monotonic()


def thaw(host):
    host.frozen_s += time.monotonic() - host.frozen_since
    os.kill(host.pid, signal.SIGCONT)


def start(hosts, phase):
    """A session over all hosts that is in the phase at the second host: its id and UUID. For a lease, the third host is frozen."""
    one, two, three = hosts
    request = {"router": hosts.router, "duration_ns": DURATION_NS}
    if phase.held:
        own = phase.held.startswith("own:")
        for host in [one] if own else [two, three]:
            host.fleet.set_fault(phase.held.removeprefix("own:"))
    if phase.name == "lease":
        # It asks for leases when another session leaves the coordinator's own worker.
        holder = one.start_session(workers=one.fleet.workers[:1], duration_ns=60 * S)["session"]
        one.wait_state(holder, "recording")
        session = one.start_session(**request, queue=True)["session"]
        freeze(three)
        one.post(f"/v1/sessions/{holder}/stop")
    else:
        session = one.start_session(**request, **({"start_at": time.time_ns() + 2 * S} if phase.name == "waiting" else {}))["session"]
    (uuid,) = [row["uuid"] for row in rows(one, "select uuid from session_row where session_id = ?", int(session[1:]))]
    for host in (two,) if phase.name == "lease" else (two, three):
        wait_for(lambda host=host: phase.reached(host, uuid), 20, 0.01, why=lambda host=host: f"{host.name} {lease_of(host, uuid)} {session_of(host, uuid)}")
    return session, uuid


def release(hosts, phase):
    for host in hosts:
        host.fleet.set_fault("none")
    if phase.name == "lease":
        thaw(hosts[3])


def outcome(hosts, session):
    """State and reason of the session, and of the targets of each host, when all is over."""
    ended = hosts[1].wait_session(session)
    for host in hosts:
        wait_for(lambda host=host: not rows(host, "select 1 from session_row where finished_at is null"))
        assert not host.fleet.profiling()["workers"]
    found = {"session": (ended["state"], ended.get("reason"))}
    for target in ended["targets"]:
        states = found.setdefault(target.get("host", "gpu1"), set())
        states.add((target["state"], target.get("failure")))
        assert len(target["traces"]) == 1 if target["state"] == "complete" else target.get("remedy"), target
    return found


def check(found, expected):
    """`expected`: a state of each, with a text of its reason where it is not complete."""
    print(found)
    for name, (state, text) in expected.items():
        for is_state, reason in [found[name]] if name == "session" else found[name]:
            assert is_state == state and (text is None or text in reason), found


DONE = ("complete", None)


def all_hosts(session=DONE, gpu1=DONE, gpu2=DONE, gpu3=DONE):
    return {"session": session, "gpu1": gpu1, "gpu2": gpu2, "gpu3": gpu3}


RESTARTED = "profd was restarted while it was being started"

# What is not complete where profd of the second host is killed and comes back: its lease is over, unless its starts have left.
HOST_KILLED = {
    "lease": all_hosts(("partial", "gpu2"), gpu2=("failed", "it has no such lease any more")),
    "prepare": all_hosts(("partial", "gpu2"), gpu2=("failed", "gpu2: ")),
    "armed": all_hosts(("partial", "gpu2"), gpu2=("failed", "gpu2: ")),
    "waiting": all_hosts(("partial", RESTARTED), gpu2=("failed", RESTARTED)),
    "starting": all_hosts(("partial", RESTARTED), gpu2=("partial", RESTARTED)),  # its workers had begun
}
# The same of the coordinator: nothing is started for a session that it had begun, and one in its queue goes on.
COORDINATOR_KILLED = {
    "prepare": all_hosts(*[("failed", RESTARTED)] * 4),
    "armed": all_hosts(*[("failed", RESTARTED)] * 4),
    "waiting": all_hosts(*[("failed", RESTARTED)] * 2, *[("cancelled", RESTARTED)] * 2),
}
# The others do not wait for one that cannot learn the moment of the start.
CUT = {
    "armed": all_hosts(("partial", "gpu3"), gpu3=("cancelled", "has not confirmed the start time")),
}


@pytest.mark.parametrize("name", PHASES)
def test_a_host_is_killed(hosts, name):
    phase, two = PHASES[name], hosts[2]
    session, _ = start(hosts, phase)
    begin = time.monotonic()
    two.kill()
    two.start()
    two.away_s += time.monotonic() - begin
    release(hosts, phase)
    found = outcome(hosts, session)
    # A coordinator that asked again, because the third host was silent, has the new lease of a host that is back.
    is_leased_again = name == "lease" and found["session"][0] == "complete"
    check(found, all_hosts() if is_leased_again else HOST_KILLED.get(name, all_hosts()))


@pytest.mark.parametrize("name", PHASES)
def test_the_coordinator_is_killed(hosts, name):
    phase, one = PHASES[name], hosts[1]
    session, _ = start(hosts, phase)
    begin = time.monotonic()
    one.kill()
    one.start()
    one.away_s += time.monotonic() - begin
    release(hosts, phase)
    check(outcome(hosts, session), COORDINATOR_KILLED.get(name, all_hosts()))


# What the host that is cut off does meanwhile.
JOINED = {
    "lease": is_leased,
    "prepare": is_armed,
    "armed": lambda host, uuid: rows(host.hosts[1], "select 1 from session_row where uuid = ? and state != 'starting'", uuid),
    "waiting": in_state("recording"),
    "starting": in_state("recording"),
    "recording": is_final,
    "stopping": is_final,
    "collecting": is_final,
}


@pytest.mark.parametrize("name", PHASES)
def test_a_host_is_cut_off(hosts, name):
    phase, three = PHASES[name], hosts[3]
    session, uuid = start(hosts, phase)
    hosts.network.cut(three.number)
    with contextlib.ExitStack() as stack:
        stack.callback(hosts.network.join, three.number)
        release(hosts, phase)
        wait_for(lambda: JOINED[name](three, uuid), 20, 0.01, why=lambda: f"{lease_of(three, uuid)} {session_of(three, uuid)}")
    check(outcome(hosts, session), CUT.get(name, all_hosts()))
