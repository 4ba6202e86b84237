# SPDX-License-Identifier: Apache-2.0
"""Hosts that lie: another catalog than before, the catalog of a host that is away, workers of others, texts and paths that do
harm; and what a stolen token of role peer can do."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import uuid

import pytest
from certificates import Authority
from daemon import BUILD, ROOT, wait_for
from test_peers import TOKEN, Peer, profctl

sys.path.insert(0, str(ROOT / "tests/fleet"))
from answer_server import AnswerServer  # noqa: E402  # pylint: disable=wrong-import-position

BOOT = "11111111-2222-4333-8444-555555555555"
ALIEN = "http://192.0.2.7:8000"  # documentation addresses: no route leads there


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


class Liar(AnswerServer):
    """A peer whose answers a test sets."""

    def __init__(self, authority, address, catalog=None, claims=(), **hello):
        super().__init__(certificate=authority.issue(f"liar-{address}", f"IP:{address}"), address=address)
        self.address = address
        self.hello = {"protocol": 1, "catalog": catalog or str(uuid.uuid4()), "host": f"liar-{address}", "version": "9", "boot_id": BOOT,
                      "addresses": [], "workers": 1, "sessions": 0, "store": {}, **hello}
        self.answers["/v1/host"] = lambda *_: (200, self.hello)
        self.answers["/v1/host/workers"] = lambda *_: (200, {"workers": [
            {"url": url, "engine": "vllm", "role": "unknown", "health": "healthy", "local": True, **more} for url, more in claims]})

    def asked(self):
        """The workers that it was asked about."""
        return [url for path, body in self.bodies if path == "/v1/host/workers" for url in json.loads(body)["workers"]]


def until(profd, peer, state):
    """What profd lists of the peer, as soon as it is in the state."""
    listed = wait_for(lambda: profd.host(peer)["state"] == state and profd.host(peer), why=lambda: profd.host(peer))
    assert listed["state"] == state
    return listed


def confirm(profd, uuid_text):
    """As its remedy says: the operator names the new catalog."""
    lines = [line for line in profd.config.read_text().splitlines() if not line.startswith("host_uuid=")]
    at = next(i for i, line in enumerate(lines) if line.startswith("[peer at-"))
    profd.config.write_text("\n".join(lines[:at + 1] + [f"host_uuid={uuid_text}"] + lines[at + 1:]) + "\n")
    profd.process.send_signal(signal.SIGHUP)


def test_another_catalog_is_refused_until_it_is_confirmed(tmp_path, authority):
    with Peer(tmp_path / "two", authority, "127.0.0.2") as two, Peer(tmp_path / "one", authority, "127.0.0.3", [two]) as one:
        before = until(one, two, "ok")["catalog"]
        two.stop()
        shutil.rmtree(two.state)
        two.start()
        after = two.get("/v1/host")["catalog"]
        refused = until(one, two, "refused")
        assert before in refused["problem"] and after in refused["problem"], refused
        assert f"host_uuid={after} in [peer at-127.0.0.2]" in refused["remedy"], refused
        # It is not only the memory of a process that knows.
        one.restart()
        assert until(one, two, "refused")["remedy"] == refused["remedy"]
        assert f"host_uuid={after}" in profctl(one, "list-hosts")
        confirm(one, after)
        assert until(one, two, "ok")["catalog"] == after
        # What was confirmed stays without the line.
        one.config.write_text(one.config.read_text().replace(f"host_uuid={after}\n", ""))
        one.restart()
        assert until(one, two, "ok")["catalog"] == after
        confirm(one, before)
        assert until(one, two, "refused")["problem"].endswith(f"expected {before}")
        confirm(one, "any")
        assert until(one, two, "ok")["catalog"] == after


def test_the_catalog_of_a_host_that_is_away_is_not_taken(tmp_path, authority):
    with Peer(tmp_path / "two", authority, "127.0.0.2") as two, Liar(authority, "127.0.0.12") as liar, \
            Peer(tmp_path / "one", authority, "127.0.0.3", [two]) as one:
        mine = until(one, two, "ok")["catalog"]
        boot = two.get("/v1/host")["boot_id"]
        two.stop()
        until(one, two, "unreachable")
        liar.hello.update(catalog=mine, boot_id=boot, system=True)
        one.config.write_text(one.config.read_text() + f"[peer at-{liar.address}]\nurl={liar.url}\ntoken_file={one.directory / 'token'}\n"
                              f"ca_file={authority.file}\n")
        one.process.send_signal(signal.SIGHUP)
        listed = until(one, liar, "refused")
        assert "reports the catalog of at-127.0.0.2" in listed["problem"] and "does not answer" in listed["problem"], listed
        two.start()
        assert until(one, two, "ok")["catalog"] == mine


def test_a_worker_that_two_hosts_claim_is_of_neither(tmp_path, authority):
    """The second copies the boot id of the first, and calls itself the service of that machine."""
    claims = [(ALIEN, {"traces": {"dir": "/etc", "local_dir": "/etc"}})]
    with Liar(authority, "127.0.0.12", claims=claims) as first, Liar(authority, "127.0.0.13", claims=claims, system=True) as second, \
            Peer(tmp_path, authority, "127.0.0.3", [first, second]) as profd:
        fleet = profd.get("/v1/workers", worker=ALIEN)
        assert ALIEN in first.asked() and ALIEN in second.asked()
        [worker] = fleet["workers"]
        assert "host_uuid" not in worker and "local_dir" not in worker["traces"], worker
        assert any("both report it as theirs" in note for note in fleet["notes"]), fleet["notes"]


def test_a_host_gets_only_questions_about_addresses_that_are_its_own(tmp_path, authority):
    claims = [(ALIEN, {}), ("http://192.0.2.8:8000", {})]
    with Liar(authority, "127.0.0.12", claims=claims, addresses=["192.0.2.7"]) as liar, Liar(authority, "127.0.0.13") as owner, \
            Peer(tmp_path, authority, "127.0.0.3", [liar, owner]) as profd:
        profd.config.write_text(profd.config.read_text().replace(f"url={owner.url}\n", f"url={owner.url}\naddresses=192.0.2.7\n"))
        profd.restart()
        fleet = profd.get("/v1/workers", worker=ALIEN)
        assert ALIEN not in liar.asked() and ALIEN in owner.asked()
        assert all("host_uuid" not in worker for worker in fleet["workers"]), fleet


def test_a_path_of_a_host_is_never_opened_here(tmp_path, authority):
    """Of a worker that it owns it names any directory: that is text for people."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "trace.json").write_text('{"traceEvents":[]}')
    claims = [(ALIEN, {"traces": {"dir": str(secret), "local_dir": str(secret)}, "pid": os.getpid()})]
    with Liar(authority, "127.0.0.12", claims=claims) as liar, Peer(tmp_path / "profd", authority, "127.0.0.3", [liar]) as profd:
        [worker] = profd.get("/v1/workers", worker=ALIEN)["workers"]
        assert worker["peer"] == "at-127.0.0.12" and not worker["local"], worker
        assert str(secret) not in profd.log() and profd.get("/v1/traces")["traces"] == []
        checks = profd.get("/v1/doctor", worker=ALIEN)["checks"]
        assert not any(str(secret) in check["text"] for check in checks), checks


def test_a_worker_that_is_held_shows_by_whom(tmp_path, authority):
    """By an id that its host knows, not by 36 characters of a catalog that nobody has seen."""
    session = str(uuid.uuid4())
    claims = [(ALIEN, {"holder": {"session": session, "host": "gpu9"}})]
    with Liar(authority, "127.0.0.12", claims=claims) as liar, Peer(tmp_path, authority, "127.0.0.3", [liar]) as profd:
        shown = profctl(profd, "list-workers", "--worker", ALIEN)
        assert "HELD BY" in shown and f"session {session[:8]} of gpu9" in shown and session not in shown, shown


def test_workers_of_a_host_that_does_not_answer_name_its_remedy(tmp_path, authority):
    """Connected it is already: another "peer join" would not help."""
    with Liar(authority, "127.0.0.12") as liar, Peer(tmp_path, authority, "127.0.0.3", [liar]) as profd:
        profd.config.write_text(profd.config.read_text().replace(f"url={liar.url}\n", f"url={liar.url}\naddresses=192.0.2.7\n"))
        profd.restart()
        liar.answers["/v1/host"] = (401, {"code": "unauthorized", "detail": "unknown token"})
        [worker] = profd.get("/v1/workers", worker=ALIEN)["workers"]
        assert worker["traces"]["note"] == "traces are on at-127.0.0.12, whose profd cannot be asked (state refused)", worker
        assert worker["traces"]["remedy"].startswith("Its tokens file must have the token"), worker


def test_texts_of_a_host_do_not_reach_a_terminal_or_the_log(tmp_path, authority):
    evil = "gpu\u202e9\u009b31m\u2066x"
    with Liar(authority, "127.0.0.12", host=evil, version="1\u202e2") as liar, Peer(tmp_path, authority, "127.0.0.3", [liar]) as profd:
        listed = until(profd, liar, "ok")
        assert listed["host"] == "gpu?9?31m?x" and listed["version"] == "1?2", listed
        liar.answers["/v1/host"] = (403, {"code": "forbidden", "detail": f"not\u202e for \u009byou {evil}", "remedy": "\u2067run this"})
        refused = until(profd, liar, "refused")
        shown = profctl(profd, "list-hosts")
        for text in (json.dumps(refused, ensure_ascii=False), shown, profd.log()):
            assert not set(text) & set("\u202e\u009b\u2066\u2067"), text


def test_what_a_stolen_token_can_do(tmp_path, authority):
    """Each route of the API, by the role that it requires: a token of role peer reads and leases, and does nothing else."""
    routes = [line.split() for line in subprocess.run([BUILD / "daemon/profd", "--list-routes"], check=True, capture_output=True, text=True).stdout.splitlines()]
    assert {role for _, _, role, *_ in routes} == {"none", "read", "operate", "admin", "peer"}
    with Peer(tmp_path, authority, "127.0.0.2") as profd:
        names = {"{session}": "s1", "{trace}": "t1", "{run}": "r1", "{lease}": "1", "{report}": "kernels"}
        for method, path, role, *_ in routes:
            for name, value in names.items():
                path = path.replace(name, value)
            if path == "/v1/events":
                continue  # a stream without an end
            status = profd.as_peer(method, path, {} if method == "POST" else None, TOKEN).status
            if role in ("operate", "admin"):
                assert status == 403, (method, path, status)
            else:
                assert status not in (401, 403, 500), (method, path, status)


# What peers answer about traces of a session that another host coordinates (daemon/hosts/peer_traces.h).

PART, COORDINATOR = "6b1f0000-0000-4000-8000-0000000000aa", "6b1f0000-0000-4000-8000-0000000000bb"


def listed_trace(liar, number, **more):
    return {"trace": f"t{number}", "uuid": f"6b1f0000-0000-4000-9000-{number:012x}", "catalog": liar.hello["catalog"], "session": "s3", "kind": "trace",
            "state": "complete", "name": f"rank{number}.json", "recorded_at": 1767189312000000000 + number, "size": 5, **more}


def with_part(profd):
    """A session that is over and was coordinated by another host."""
    profd.start()
    profd.stop()
    with contextlib.closing(sqlite3.connect(profd.catalog)) as catalog, catalog:
        catalog.execute("insert into session_row (session_id, state, options, requested_at, requested_by, finished_at, uuid, coordinator, coordinator_name) "
                        "values (1, 'complete', '{}', 1, 'uid 0', 2, ?, ?, 'gpu9')", (PART, COORDINATOR))
    return profd


def lists(liar, *traces, **more):
    liar.answers["/v1/traces"] = lambda *_: (200, {"traces": list(traces), **more})


def test_traces_that_peers_list_of_a_session(tmp_path, authority):
    with Liar(authority, "127.0.0.12") as good, Liar(authority, "127.0.0.13") as liar, Liar(authority, "127.0.0.14") as other, \
            with_part(Peer(tmp_path, authority, "127.0.0.3", [good, liar, other])) as profd:
        lists(good, listed_trace(good, 1, path="/etc/shadow", columns="/etc/passwd", evil=1, labels={"a\u202e": "b\u009b"}))
        # Of the host that it is of; and those of a third one, which speaks for itself.
        lists(liar, listed_trace(liar, 2), listed_trace(liar, 3, host_uuid=good.hello["catalog"], host="gpu9"))
        answer = profd.get("/v1/traces", session="s1")
        assert answer["missing_hosts"] == [] and sorted(t["name"] for t in answer["traces"]) == ["rank1.json", "rank2.json"], answer
        first = next(t for t in answer["traces"] if t["name"] == "rank1.json")
        assert "evil" not in first and first["host_uuid"] == good.hello["catalog"] and not set(json.dumps(first, ensure_ascii=False)) & set("\u202e\u009b")
        assert "liar-127.0.0.12" in profd.problem("GET", f"/v1/traces/{first['trace']}/file")["detail"]  # it was asked for the file
        # Once in some seconds, and a search finds the same.
        assert len(profd.get("/v1/traces", session="s1", search="rank")["traces"]) == 2
        assert sum(path.startswith("/v1/traces?") for path, _ in good.requests) == 1
        # Another profd gets what is here, and asks nobody by asking.
        assert profd.as_peer("GET", "/v1/traces?session=s1").json()["traces"] == []
        # A row is changed by its host only.
        lists(liar, listed_trace(liar, 1, name="forged"))
        lists(good, listed_trace(good, 1, name="renamed"))
        found = wait_for(lambda: [t for t in profd.get("/v1/traces", session="s1")["traces"] if t["name"] == "renamed"])
        assert found[0]["host_uuid"] == good.hello["catalog"] and len(profd.get("/v1/traces", session="s1")["traces"]) == 2


@pytest.mark.parametrize(("what", "reason"), [
    ("catalog", "another catalog"), ("session", "another session"), ("no session", "another session"), ("facts", "without its facts"), ("uuid", "without its facts"),
    ("many", "no list of traces"), ("no list", "no list of traces"), ("endless", "has no end"), ("text", "not JSON"), ("denied", "403"), ("silent", "")])
def test_lists_that_are_refused(tmp_path, authority, what, reason):
    """Nothing of such a page is taken, the host is named, and the others' traces are there."""
    with Liar(authority, "127.0.0.12") as liar, Liar(authority, "127.0.0.13") as good, \
            with_part(Peer(tmp_path, authority, "127.0.0.3", [liar, good])) as profd:
        until(profd, liar, "ok")
        lists(good, listed_trace(good, 99))
        first, second = listed_trace(liar, 1), listed_trace(liar, 2)
        held = threading.Event()
        answers = {
            "catalog": (200, {"traces": [first, {**second, "catalog": COORDINATOR}]}), "session": (200, {"traces": [first, {**second, "session": "s4"}]}),
            "no session": (200, {"traces": [first, {k: v for k, v in second.items() if k != "session"}]}),
            "facts": (200, {"traces": [first, {k: v for k, v in second.items() if k != "state"}]}), "uuid": (200, {"traces": [first, {**second, "uuid": "x"}]}),
            "many": (200, {"traces": [listed_trace(liar, n) for n in range(1, 258)]}), "no list": (200, {"traces": {"a": first}}),
            "endless": (200, {"traces": [first], "next": "t1"}), "text": (200, b"[" * 5000), "denied": (403, {"detail": "no"}),
            "silent": (200, {"traces": [first]}),
        }
        liar.answers["/v1/traces"] = lambda *_: (held.wait(30) if what == "silent" else None, answers[what])[1]
        answer = profd.get("/v1/traces", session=PART)
        held.set()
        expected = ["rank1.json", "rank99.json"] if what == "endless" else ["rank99.json"]
        assert sorted(t["name"] for t in answer["traces"]) == expected, answer
        [missing] = answer["missing_hosts"]
        assert missing["host"] == "liar-127.0.0.12" and (reason in missing["reason"] or what in ("text", "denied")), missing
        noted = profctl(profd, "list-traces", "--session", PART, status=3)
        assert noted.count("traces of liar-127.0.0.12 may be missing: ") == 1, noted


def test_a_uuid_that_only_peers_know(tmp_path, authority):
    with Liar(authority, "127.0.0.12") as good, Liar(authority, "127.0.0.13") as liar, \
            Peer(tmp_path, authority, "127.0.0.3", [good, liar]) as profd:
        until(profd, good, "ok")
        until(profd, liar, "ok")
        trace, stray = listed_trace(good, 1), listed_trace(liar, 2)
        good.answers["/v1/refs"] = lambda *_: (200, {"ref": "t1", "uuid": trace["uuid"]})
        good.answers[f"/v1/traces/{trace['uuid']}"] = lambda *_: (200, trace)
        # One that names a trace of another host, and one that does not begin so.
        liar.answers["/v1/refs"] = lambda *_: (409, {"code": "conflict", "candidates": [{"ref": "t1", "uuid": trace["uuid"]}, {"ref": "t7", "uuid": str(uuid.uuid4())},
                                                                                       {"ref": "t../../etc", "uuid": stray["uuid"]}]})
        liar.answers[f"/v1/traces/{trace['uuid']}"] = lambda *_: (200, {**trace, "host_uuid": good.hello["catalog"]})
        assert profd.get("/v1/refs", ref=trace["uuid"]) == {"ref": "t1", "uuid": trace["uuid"]}
        found = profd.get(f"/v1/traces/{trace['uuid'][:20]}")
        assert found["host_uuid"] == good.hello["catalog"] and found["name"] == "rank1.json" and "session" not in found
        # A session there is named, and a peer's question is not passed on.
        good.answers["/v1/refs"] = lambda *_: (200, {"ref": "s1", "uuid": PART})
        assert f"session {PART} is on liar-127.0.0.12" in profd.problem("GET", f"/v1/refs?ref={PART}", status=404)["detail"]
        asked = len(good.requests)
        assert profd.as_peer("GET", f"/v1/refs?ref={COORDINATOR}").status == 404 and profd.as_peer("GET", f"/v1/traces/{COORDINATOR}").status == 404
        assert not any(COORDINATOR in path for path, _ in good.requests[asked:])
