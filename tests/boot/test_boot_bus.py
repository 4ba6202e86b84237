# SPDX-License-Identifier: Apache-2.0
"""org.profd1 on the system bus of a booted machine, with its dbus-daemon, its polkitd and what the package gives them."""

import contextlib
import json

import pytest
from machine import wait_for
from profd_unit import SERVICE, is_active, profctl, session, start, wait_complete, wait_state

MANAGER = ("org.profd1", "/org/profd1", "org.profd1.Manager")
RULES = "/etc/polkit-1/rules.d"


def call(method, *arguments):
    return ["busctl", "--system", "--json=short", "call", *MANAGER, method, *arguments]


def start_call(fleet, duration_ns=300_000_000):
    return call("StartSession", "a{sv}", "2", "router", "s", fleet.router, "duration_ns", "x", str(duration_ns))


@pytest.fixture(scope="module")
def recorded(host, fleet):
    name = start(host, fleet)
    wait_complete(host, name)
    return name


def test_the_bus_starts_profd(host):
    host("systemctl", "stop", SERVICE)
    assert not is_active(host)
    host.as_user("alice", *call("GetVersion"))
    assert is_active(host)


def test_introspection(host):
    said = host.as_user("alice", "busctl", "--system", "introspect", *MANAGER[:2])
    for method in ("StartSession", "StopSession", "GetSession", "ListTraces"):
        assert f".{method} " in said


def test_a_member_asks(host, recorded):
    found = json.loads(host.as_user("alice", *call("GetSession", "s", recorded)))
    assert found["data"][0]["state"]["data"] == "complete"
    assert recorded in profctl(host, "--bus", "list-sessions")


def test_a_member_starts_and_stops(host, fleet):
    """polkit lets members, by the package's rule, and asks nobody."""
    path, found = json.loads(host.as_user("alice", *start_call(fleet, 60_000_000_000)))["data"]
    name = found["session"]["data"]
    assert path.startswith("/org/profd1/session/")
    wait_state(host, name, "recording")
    host.as_user("alice", *call("StopSession", "s", name))
    wait_complete(host, name)
    assert "alice" in session(host, name)["requested_by"]


def test_an_outsider_is_refused(host, fleet, recorded):
    """What reads is refused by the bus, what starts and stops by polkit."""
    before = profctl(host, "list-sessions")
    for words in (call("GetSession", "s", recorded), call("ListTraces", "a{sv}", "0"), call("RemoveSession", "s", recorded)):
        assert "Access denied" in host.refused("mallory", *words)
    for words in (start_call(fleet), call("StopSession", "s", recorded)):
        said = host.refused("mallory", *words)
        assert "not allowed" in said and "polkit requires a password" in said, said
    assert profctl(host, "list-sessions") == before


@contextlib.contextmanager
def polkit_rule(host, text):
    path = f"{RULES}/10-test.rules"
    host.write(path, text)
    try:
        yield
    finally:
        host("rm", path)


def test_polkit_decides_who_manages(host, fleet, recorded):
    """An administrator's rule comes before the package's; asking needs no permission of polkit's."""
    condition = 'action.id == "org.profd1.manage" && subject.user == "alice"'
    with polkit_rule(host, f"polkit.addRule(function (action, subject) {{ if ({condition}) return polkit.Result.NO; }});\n"):
        wait_for(lambda: host.run(*start_call(fleet), user="alice", check=False).returncode != 0)
        said = host.refused("alice", *start_call(fleet))
        assert "polkit refused" in said, said
        host.as_user("alice", *call("GetSession", "s", recorded))
    wait_for(lambda: host.run(*start_call(fleet), user="alice", check=False).returncode == 0)
