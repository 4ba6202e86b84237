# SPDX-License-Identifier: Apache-2.0
"""Which host has a worker, as discovery on another host finds out; and hosts without a profd, or that do not answer."""

import subprocess

import pytest
from hosts import PORT, Hosts, quick_config, token_line, wait_for, write_tokens
from network import why_not

from dns_server import DnsServer  # isort: skip  (hosts.py made it importable)

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with Hosts(tmp_path_factory.mktemp("hosts"), 3, workers=2, offsets_s=(0, 2.5, -40), profd_on=(1, 2)) as running:
        yield running


def by_host(fleet):
    found = {}
    for worker in fleet["workers"]:
        found.setdefault(worker.get("host"), []).append(worker)
    return found


def test_each_worker_has_its_host_and_directory(hosts):
    one, two = hosts
    found = by_host(one.get("/v1/workers", router=hosts.router))
    assert {name: len(workers) for name, workers in found.items()} == {"gpu1": 2, "gpu2": 2, None: 2}
    catalogs = {host.name: host.get("/v1/host")["catalog"] for host in hosts}
    assert {(worker["host_uuid"], worker["local"], worker.get("peer")) for worker in found["gpu1"]} == {(catalogs["gpu1"], True, None)}
    assert {(worker["host_uuid"], worker["local"], worker["peer"]) for worker in found["gpu2"]} == {(catalogs["gpu2"], False, "gpu2")}
    # The directory is one of the other host, where its own profd finds the same.
    there = {worker["url"]: worker["traces"]["local_dir"] for worker in by_host(two.get("/v1/workers", router=hosts.router))["gpu2"]}
    assert {worker["url"]: worker["traces"]["local_dir"] for worker in found["gpu2"]} == there and all(there.values())
    for worker in found[None]:
        assert "local_dir" not in worker["traces"] and "not on this host" in worker["traces"]["note"], worker
        assert "profctl peer join" in worker["traces"]["remedy"]


def test_a_worker_that_its_host_records_is_held(hosts):
    one, two = hosts
    [mine, *_] = [worker["url"] for worker in by_host(two.get("/v1/workers", router=hosts.router))["gpu2"]]
    session = two.start_session(workers=[mine], duration_ns=30_000_000_000)["session"]
    two.wait_state(session, "recording")
    held = {worker["url"]: worker.get("held_by") for worker in by_host(one.get("/v1/workers", router=hosts.router))["gpu2"]}
    assert held.pop(mine).endswith(" of gpu2") and set(held.values()) == {None}
    two.post(f"/v1/sessions/{session}/stop")
    two.wait_session(session)
    assert all("held_by" not in worker for worker in one.get("/v1/workers", router=hosts.router)["workers"])


def test_hosts_are_listed_with_their_clocks(hosts):
    one, two = hosts
    hosts.network.delay(two.number, 20)
    try:
        # A hello of the last two seconds is not repeated: that one was answered without the delay.
        own, other = wait_for(lambda: (listed := one.get("/v1/hosts")["hosts"])[1].get("clock_rtt_ns", 0) >= 20_000_000 / 2 and listed)
    finally:
        hosts.network.delay(two.number, 0)
    assert (own["host"], own["state"], other["host"], other["state"]) == ("gpu1", "self", "gpu2", "ok")
    two.get("/v1/workers", router=hosts.router)
    wait_for(lambda: one.get("/v1/hosts")["hosts"][1].get("workers") == 2)
    if one.clock:
        assert abs(other["clock_offset_ns"] - 2.5e9) <= other["clock_error_ns"] + 5e6


def test_a_host_that_is_cut_off_is_named(hosts):
    one, two = hosts
    hosts.network.cut(two.number)
    try:
        cut = wait_for(lambda: [host for host in one.get("/v1/hosts")["hosts"] if host["state"] == "unreachable"])
        assert cut[0]["host"] == "gpu2" and cut[0]["remedy"], cut
        fleet = one.get("/v1/workers", router=hosts.router)
        assert any("gpu2" in note and "does not answer" in note for note in fleet["notes"]), fleet["notes"]
        assert {name: len(workers) for name, workers in by_host(fleet).items()} == {"gpu1": 2, None: 4}
    finally:
        hosts.network.join(two.number)
    wait_for(lambda: one.get("/v1/hosts")["hosts"][1]["state"] == "ok")


def target_dir(session):
    return session["targets"][0]["failure"].split(":", 1)[1].split(",")[0]


def test_a_trace_stays_on_a_host_without_profd(hosts):
    one, _ = hosts
    url = hosts[3].fleet.workers[0]
    answer = one.start_session(workers=[url], duration_ns=200_000_000)
    assert any("not on this host" in remark["text"] for remark in answer["remarks"]), answer
    session = one.wait_session(answer["session"])
    (target,) = session["targets"]
    assert session["state"] == "partial" and target["state"] == "partial"
    assert target["failure"].startswith(f"recorded; its trace is on {hosts[3].address}:/") and "not collected" in target["failure"]
    assert "profctl peer join" in target["remedy"]
    # As a user reads it: before the start, and afterwards.
    started = one.profctl("start", "--worker", url, "--duration", "200ms", status=None, errors=True)
    assert f"traces are on {hosts[3].address}, not on this host" in started and f"profctl peer join {hosts[3].address}" in started, started
    newest = one.wait_session(one.get("/v1/sessions")["sessions"][0]["session"])
    shown = one.profctl("show", newest["session"], status=None)
    assert f"its trace is on {hosts[3].address}:{target_dir(newest)}, not collected" in " ".join(shown.split()), shown
    assert f"profctl peer join {hosts[3].address}" in shown, shown


TOKEN = "profd_" + 64 * "7"
FLEET = "fleet.test"


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Three hosts that know nobody but a token of all; the first is configured anew by each test."""
    with Hosts(tmp_path_factory.mktemp("sources"), 3, workers=1) as running:
        for host in running:
            certificate, key = running.authority.issue(f"{host.name}-of-fleet", f"IP:{host.address},DNS:{FLEET}")
            tokens = write_tokens(host.place / "tokens-of-fleet", token_line("fleet", "peer", TOKEN))
            host.common = (f"[profd]\nlisten={host.address}:{PORT}\n[http]\ncert_file={certificate}\nkey_file={key}\ntokens_file={tokens}\n"
                           f"host={FLEET}\n{quick_config()}[hosts]\nname={host.name}\n")
            host.config.write_text(host.common)
            host.restart()
        yield running


@pytest.mark.parametrize("source", [f"workers:{PORT}", "slurm", f"dns:{FLEET}:{PORT}"])
def test_peers_of_sources(sources, source):
    one = sources[1]
    token = write_tokens(one.place / "token-of-fleet", TOKEN + "\n")
    one.config.write_text(one.common + f"peers={source}\ntoken_file={token}\nca_file={sources.authority.file}\n")
    one.environment["SLURM_JOB_NODELIST"] = sources[1].address[:-1] + "[1-3]"
    resolver = one.place / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\n")
    subprocess.run([*one.machine.enter, "mount", "--bind", resolver, "/etc/resolv.conf"], check=True)
    with one.machine.inside():
        server = DnsServer(port=53)
    with server as dns:
        # The addresses of a name, as a headless Service of Kubernetes has them: this host is one of them.
        dns.records[FLEET, "A"] = [host.address for host in sources]
        one.restart()
        fleet = one.get("/v1/workers", router=sources.router)
        assert {name: len(workers) for name, workers in by_host(fleet).items()} == {"gpu1": 1, "gpu2": 1, "gpu3": 1}, fleet["notes"]
        assert [host["state"] for host in one.get("/v1/hosts")["hosts"]] == ["self", "ok", "ok"]


def test_the_session_that_holds_a_worker_is_named_on_both_hosts(hosts):
    """By its own name on the host that coordinates it, by its UUID on the host that was leased."""
    one, two = hosts
    [mine, *_] = [worker["url"] for worker in by_host(two.get("/v1/workers", router=hosts.router))["gpu2"]]
    session = one.start_session(workers=[mine], duration_ns=30_000_000_000)
    one.wait_state(session["session"], "recording")
    held_at = {host.name: {worker["url"]: worker.get("held_by") for worker in by_host(host.get("/v1/workers", router=hosts.router))["gpu2"]}
               for host in hosts}
    assert held_at["gpu1"].pop(mine) == session["session"] and held_at["gpu2"].pop(mine) == f"session {session['uuid'][:8]} of gpu1"
    assert {value for others in held_at.values() for value in others.values()} == {None}
    assert f" {session['session']} " in one.profctl("list-workers", "--router", hosts.router)
    one.post(f"/v1/sessions/{session['session']}/stop")
    one.wait_session(session["session"])
