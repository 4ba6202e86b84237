# SPDX-License-Identifier: Apache-2.0
"""What a hostile host can do to the others: it sends paths and names as it likes, claims the traces of another host, and meddles with
another coordinator's session. tests/integration/test_peers.py and test_leases.py have what a stolen token may ask for."""

import contextlib
import http.client
import json
import ssl
import subprocess
import time
import uuid
from collections import Counter

import pytest
from hosts import PORT, PROFCTL, Hosts, Reply, quick_config, wait_for
from meddler import Meddler
from network import why_not

import host_invariants  # isort: skip  (hosts.py made it importable)
from host_invariants import rows  # isort: skip

S = 1_000_000_000

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    config = quick_config(settle="300ms", more="[hosts]\nlease=10s\nunreachable=10s\ncall=1s\n")
    with Hosts(tmp_path_factory.mktemp("hosts"), 3, workers=1, config=config) as running:
        yield running


def traces_of(host, session, name):
    return [trace for trace in host.traces(session=session) if trace.get("host") == name]


def as_peer(source, target, token, method, path, body=None):
    """A request that leaves the host `source`."""
    context = ssl.create_default_context(cafile=target.hosts.authority.file)
    with target.hosts.network.inside(source.number):
        connection = http.client.HTTPSConnection(target.address, PORT, timeout=30, context=context)
        connection.connect()
    with contextlib.closing(connection):
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Authorization": f"Bearer {token}"})
        return Reply(connection.getresponse())


def test_a_third_host_drives_no_lease_of_others(hosts):
    one, two, three = hosts
    session = one.start_session(router=hosts.router, duration_ns=2 * S)["session"]
    wait_for(lambda: one.session(session)["state"] == "recording")
    (lease,) = rows(two, "select * from lease_row order by lease_id desc limit 1")
    body = {"session": lease["session_uuid"]}
    for step, more in (("stop", {}), ("release", {}), ("renew", {"deadline_ns": S}), ("stop", {"rolled_back": True})):
        reply = as_peer(three, two, three.token(two), "POST", f"/v1/leases/{lease['lease_id']}/{step}", {**body, **more})
        assert reply.status == 410, (step, reply)
    # A token that no host has, and one of another direction.
    for token in ("profd_" + "0" * 64, two.token(three)):
        assert as_peer(three, two, token, "POST", f"/v1/leases/{lease['lease_id']}/stop", body).status == 401
    ended = one.wait_session(session)
    assert ended["state"] == "complete" and ended["stopped_at"] - ended["recording_at"] >= 2 * S - S // 10, ended
    assert host_invariants.complaints(hosts, 30) == []


def test_a_peer_reads_no_third_host_through_its_peer(hosts):
    """The token that two gave to three opens what two keeps, and not what one keeps."""
    one, two, three = hosts
    session = two.wait_session(two.start_session(router=hosts.router, duration_ns=S // 5)["session"])["session"]
    traces = {trace.get("host", "gpu2"): trace["trace"] for trace in two.traces(session=session)}
    wait_for(lambda: two.get(f"/v1/traces/{traces['gpu2']}").get("columns"))
    asked = [("GET", "/v1/traces/{}/file", None), ("HEAD", "/v1/traces/{}/file", None), ("GET", "/v1/traces/{}/columns", None),
             ("GET", "/v1/traces/{}/reports/kernels", None), ("POST", "/v1/traces/{}/query", {"sql": "select 1"}),
             ("GET", "/v1/traces/{}/flame", None), ("GET", "/v1/traces/{}/export", None), ("POST", "/v1/flame", {"traces": ["{}"]}),
             ("POST", "/v1/reports", {"reports": ["kernels"], "traces": ["{}"]}),
             ("POST", "/v1/reports", {"reports": ["kernels"], "traces": ["{}"], "together": True})]
    for method, path, body in asked:
        def ask(name, method=method, path=path, body=body):
            filled = json.loads(json.dumps(body).replace("{}", traces[name])) if body else body
            return as_peer(three, two, three.token(two), method, path.format(traces[name]), filled)

        refused, own = ask("gpu1"), ask("gpu2")
        assert refused.status == 403 and (method == "HEAD" or "gets traces of this host only" in refused.json()["detail"]), (path, refused)
        assert own.status == 200, (path, own)
    # For a comparison, columns would be copied.
    sides = {side: {"traces": [traces["gpu1"]]} for side in ("a", "b")}
    refused = as_peer(three, two, three.token(two), "POST", "/v1/compare", sides)
    assert refused.status == 404 and "has no trace with columns" in refused.json()["detail"], refused
    # Its own users may; a HEAD is answered from the facts, for which no other host is asked.
    name = f"/v1/traces/{traces['gpu1']}"
    hosts.network.cut(1)
    try:
        reply = two.request("HEAD", f"{name}/file")
        assert reply.status == 200 and int(reply.headers["Content-Length"]) == two.get(name)["size"] > 0, reply
    finally:
        hosts.network.join(1)
    assert two.request("GET", f"{name}/file").status == 200


def test_a_host_that_sends_paths(hosts, tmp_path):
    """What it names is never opened at the coordinator, and a download stays in its directory."""
    one = hosts[1]
    secret = tmp_path / "secret"
    secret.write_text("of the coordinator")

    def paths(method, path, answer):
        for trace in answer.get("traces", []) if "&after=" in path else []:
            trace.update(name="../../../../evil.json", path=str(secret), origin=str(secret), columns=str(secret), local_dir=str(secret.parent), stored=False)
        return answer

    with Meddler(hosts, liar=2, coordinator=1) as meddler:
        meddler.lie = paths
        session = one.wait_session(one.start_session(router=hosts.router, duration_ns=S // 5)["session"])["session"]
        (trace,) = traces_of(one, session, "gpu2")
        reply = one.request("GET", f"/v1/traces/{trace['trace']}/file")
        assert reply.status == 200 and secret.read_bytes() not in reply.body
        downloads = tmp_path / "a/b/downloads"
        downloads.mkdir(parents=True)
        with one.machine.inside():
            done = subprocess.run([*one.machine.enter, "env", "-C", downloads, f"PROFD_SOCKET={one.socket}", PROFCTL, "get", trace["trace"]],
                                  capture_output=True, text=True, check=False, timeout=60)
        outside = [path for path in tmp_path.rglob("*") if path.is_file() and downloads not in path.parents and path != secret]
        assert not outside and not (tmp_path.parent / "evil.json").exists(), (outside, done)
        # Nor when it does not answer any more.
        hosts.network.cut(2)
        try:
            reply = one.request("GET", f"/v1/traces/{trace['trace']}/columns")
            assert reply.status >= 500 and secret.read_bytes() not in reply.body, reply
        finally:
            hosts.network.join(2)


def test_a_host_that_rewrites_its_facts_without_an_end(hosts):
    """The rows are the same ones; what is written counts."""
    one = hosts[1]
    known, two = [str(uuid.uuid4()) for _ in range(200)], hosts[2]
    polls = []

    def rewrite(method, path, answer):
        if "&after=" not in path or not answer.get("session"):
            return answer
        polls.append(path)
        text = f"{len(polls)} " + "x" * 4000
        fact = {"kind": "trace", "state": "complete", "name": "x.json", "recorded_at": time.time_ns(), "candidates": [text] * 15, "size": 2**63 - 1}
        return {**answer, "traces": [{**fact, "trace": f"t{i + 1000}", "uuid": known[i]} for i in range(200)]}

    with Meddler(hosts, liar=2, coordinator=1) as meddler:
        meddler.lie, meddler.hurry = rewrite, True
        session = one.start_session(router=hosts.router, duration_ns=50 * S)["session"]
        (failed,) = wait_for(lambda: [target for target in one.session(session)["targets"] if target.get("failure")])
        one.post(f"/v1/sessions/{session}/stop")
        one.wait_session(session)
        # The liar is not asked any more; a user there ends what it records, if it began.
        (there,) = rows(two, "select session_id from session_row where uuid = ?", one.session(session)["uuid"])
        assert two.request("POST", f"/v1/sessions/s{there['session_id']}/stop").status in (200, 409)
        two.wait_session(f"s{there['session_id']}")
        assert "more than 64 MiB about the traces of one session" in failed["failure"], failed
        stored = rows(one, "select sum(length(facts)) as bytes, sum(facts like '%\"size\"%') as sizes from remote_trace_row where facts like '%x.json%'")[0]
        assert 0 < stored["bytes"] < 16 << 20 and stored["sizes"] == 0 and len(polls) < 30, (stored, len(polls))


def test_a_host_that_claims_the_trace_of_another(hosts):
    """The first one keeps it: a request for it never reaches the liar."""
    one, _, three = hosts
    first = one.wait_session(one.start_session(router=hosts.router, duration_ns=S // 5)["session"])["session"]
    (victim,) = traces_of(one, first, "gpu3")

    def claim(method, path, answer):
        for trace in answer.get("traces", []) if "&after=" in path else []:
            trace["uuid"] = victim["uuid"]
        return answer

    with Meddler(hosts, liar=2, coordinator=1) as meddler:
        meddler.lie = claim
        session = one.wait_session(one.start_session(router=hosts.router, duration_ns=S // 5)["session"])["session"]
        assert len(traces_of(one, session, "gpu3")) == 1
        (now,) = [trace for trace in one.traces() if trace.get("uuid") == victim["uuid"]]
        assert (now["trace"], now["host"], now["session"]) == (victim["trace"], "gpu3", victim["session"])
        meddler.asked = []
        assert one.request("GET", f"/v1/traces/{victim['trace']}/file").status == 200
        assert not any(path.endswith("/file") for _, path in meddler.asked)
    uuids = Counter(row["uuid"] for row in rows(one, "select uuid from remote_trace_row"))
    assert uuids[victim["uuid"]] == 1
