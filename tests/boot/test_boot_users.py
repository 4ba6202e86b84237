# SPDX-License-Identifier: Apache-2.0
"""profd as its users meet it on a booted Debian: recording, looking at what came out, and who may not."""

import gzip
import json
import re

import pytest
from fleets import RealFleet
from machine import wait_for
from profd_unit import CATALOG, SERVICE, SOCKET_PATH, profctl, start, traces_of, wait_complete, wait_state


@pytest.fixture(scope="module")
def recorded(host, fleet):
    name = start(host, fleet)
    wait_complete(host, name)
    return name



def test_a_member_records_and_lists(host, fleet, recorded):
    traces = traces_of(host, recorded)
    assert {trace["worker"] for trace in traces} == set(fleet.workers)
    printed = profctl(host, "list-traces", "--session", recorded)
    assert all(f"{trace['trace']} " in printed for trace in traces)


def test_a_member_gets_the_files(host, recorded):
    host("install", "-d", "-o", "alice", "/home/alice/traces")
    profctl(host, "get", recorded, "-d", "/home/alice/traces")
    files = host.as_user("alice", "ls", "/home/alice/traces").split()
    assert len(files) == 3
    for file in files:
        assert "traceEvents" in json.loads(gzip.decompress(host.disk(f"/home/alice/traces/{file}").read_bytes()))


def test_a_member_asks_the_catalog(host, recorded):
    sql = f"select count(*), sum(size) > 0 from traces where session_id = {recorded[1:]}"
    assert host.as_user("alice", "sqlite3", CATALOG, sql).strip() == "3|1"


def test_a_member_reads_the_store(host, recorded):
    for trace in traces_of(host, recorded):
        assert host.as_user("alice", "sha256sum", trace["path"]).split()[0] == trace["sha256"]


def test_status_reports_what_profd_does(host, recorded, fleet):
    def status():
        return host.show(SERVICE, "StatusText")["StatusText"]

    wait_for(lambda: re.match(r"[1-9]\d* fleets?, [1-9]\d* workers, 0 sessions running, .* of .*", status()), why=status)
    assert status() in host("systemctl", "status", "profd")
    name = start(host, fleet, duration="30s")
    wait_for(lambda: "1 session" in status(), why=status)
    profctl(host, "stop", name)
    wait_complete(host, name)
    wait_for(lambda: "1 session" not in status(), why=status)


def test_the_journal_knows_sessions(host, recorded):
    entries = [json.loads(line) for line in host("journalctl", "-u", "profd", f"PROFD_SESSION={recorded}", "-o", "json",
                                                 "--no-pager").splitlines()]
    messages = [entry["MESSAGE"] for entry in entries]
    assert any("recording" in message for message in messages), messages
    assert all(recorded in message for message in messages), messages
    assert all(entry["_SYSTEMD_UNIT"] == SERVICE for entry in entries)


def test_the_journal_explains_events(host, recorded):
    """What an operator looks up has a text in the message catalog: journalctl -x prints it."""
    plain, explained = (host("journalctl", "-u", "profd", f"PROFD_SESSION={recorded}", "--no-pager", *more)
                        for more in ((), ("-x",)))
    assert "░░" in explained and "░░" not in plain


def test_real_workers(host):
    """They serve while they are recorded."""
    prompt = json.dumps({"model": "any", "prompt": "a b c", "max_tokens": 8})
    with RealFleet(host, vllm=1, sglang=1) as real:
        name = start(host, real, duration="2s")
        wait_state(host, name, "recording")
        for worker in real.workers:
            host("curl", "-sS", "--fail", "-o", "/dev/null", "-H", "Content-Type: application/json", "-d", prompt,
                 worker["url"] + "/v1/completions")
        wait_complete(host, name)
        traces = traces_of(host, name)
        assert {trace["worker"] for trace in traces if trace.get("slices")} == \
            {worker["url"] for worker in real.workers}, profctl(host, "show", name)


# Nobody else


def test_an_outsider_has_no_socket(host, fleet):
    for words in (["list-sessions"], ["start", "--router", fleet.router]):
        said = host.refused("mallory", "profctl", "--socket", SOCKET_PATH, *words)
        assert "profd" in said and ("permission" in said.lower() or "group" in said), said
    host.refused("mallory", "curl", "-sS", "--unix-socket", SOCKET_PATH, "http://localhost/v1/sessions")


def test_an_outsider_has_no_catalog_and_no_store(host, recorded):
    for path in (CATALOG, traces_of(host, recorded)[0]["path"]):
        assert "Permission denied" in host.refused("mallory", "cat", path)
    assert host.refused("mallory", "sqlite3", CATALOG, "select * from traces")
    assert "Permission denied" in host.refused("mallory", "ls", "/var/lib/profd")


def test_a_member_changes_nothing_bypassing_profd(host, recorded):
    for trace in traces_of(host, recorded):
        host.refused("alice", "rm", "-f", trace["path"])
        host.refused("alice", "sh", "-c", f"echo >> {trace['path']}")
    host.refused("alice", "sqlite3", CATALOG, "delete from trace_row")
