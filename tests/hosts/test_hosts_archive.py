# SPDX-License-Identifier: Apache-2.0
"""Traces of a host that does not answer come from the archive, through the host that was asked: checked, and kept
for further ranges only."""
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from hosts import Hosts, wait_for
from network import address, why_not
from patience import patience

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "fleet")]
from archive_client import ArchiveClient  # noqa: E402
from radosgw import Radosgw, missing  # noqa: E402

S = 1_000_000_000

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


class HostsWithArchive(Hosts):
    """A bucket on a host of its own."""

    def start_services(self):
        with self.network.inside(self.service_number()):
            self.s3 = Radosgw(self.directory / "ceph", address(self.service_number()))
            self.stack.enter_context(self.s3)
            self.s3.create_bucket("traces")
        self.archive = f"[archive]\nurl=s3://traces/fleet\nendpoint={self.s3.endpoint}\ncredentials_file={self.s3.credentials}\n"
        self.config += self.archive


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    assert not missing(), f"apt-get install radosgw ceph-mon ceph-osd ceph-common ({missing()})"
    with HostsWithArchive(tmp_path_factory.mktemp("hosts"), 2, services=1) as running:
        yield running


@pytest.fixture(scope="module")
def traces(hosts):
    """Those of the second host, as the first one lists them."""
    one, two = hosts
    session = one.wait_session(one.start_session(router=hosts.router, duration_ns=S)["session"])
    assert session["state"] == "complete", json.dumps(session, indent=1)
    wait_for(lambda: all("archived_at" in row for row in two.traces()) and two.traces())
    return [row for row in one.traces(session=session["session"]) if row.get("host") == "gpu2"]


def reload(host, old, new):
    log = host.log_file.stat().st_size
    host.config.write_text(host.config.read_text().replace(old, new))
    os.kill(host.pid, signal.SIGHUP)
    wait_for(lambda: "reloaded: " in host.log(log))


def get(one, trace, path, status=0):
    began = time.monotonic()
    said = one.profctl("get", trace["trace"], "-o", path, status=status, errors=True)
    if status == 0:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == trace["sha256"]
        path.unlink()
    return said, time.monotonic() - began


def test_a_host_that_does_not_answer(hosts, traces, tmp_path):
    one, two = hosts
    copy = tmp_path / "copy"
    assert len(traces) == 2
    # The archive has it after the session: the host that was asked learns of it.
    wait_for(lambda: all(row.get("archived_at") for row in one.traces() if row.get("host") == "gpu2"))
    assert one.profctl("list-traces").count(" yes ") == 4
    # Alive, it is asked itself.
    assert "archive" not in get(one, traces[0], copy)[0]
    alive = one.profctl("analyze", traces[0]["trace"], "--report", "kernels", "--json")
    # Its link is cut, which no connection notices.
    hosts.network.cut(two.number)
    said, took = get(one, traces[0], copy)
    assert "comes from the archive: gpu2 did not deliver it" in said and took < patience(20)
    said, took = get(one, traces[1], copy)
    assert "from the archive" in said and took < patience(4), "a host that is silent is asked again for each trace"
    problem = one.problem("GET", f"/v1/traces/{traces[0]['trace']}/columns", status=503)
    assert problem["code"] == "unreachable" and problem["remote"] == {"host": "gpu2", "archived": True}, problem
    assert "gpu2" in problem["detail"] and "profctl get" in problem["remedy"]
    began = time.monotonic()
    problem = one.problem("POST", f"/v1/traces/{traces[0]['trace']}/query", {"sql": "select 1"}, status=503)
    assert problem["remote"]["host"] == "gpu2" and time.monotonic() - began < patience(9)
    # Nothing of it stays here.
    assert not [row for row in one.traces() if row.get("host") != "gpu2" and row["trace"] in (traces[0]["trace"], traces[1]["trace"])]
    assert one.get("/v1/archive")["fetched_files"] >= 2
    # Its columns are made here, from the trace.
    assert one.profctl("analyze", traces[0]["trace"], "--report", "kernels", "--json") == alive
    assert one.profctl("query", traces[1]["trace"], "select count(*) > 0 as any from slice", "--json") == [{"any": 1}]
    hosts.network.join(two.number)
    wait_for(lambda: "archive" not in get(one, traces[0], copy)[0], 60, interval_s=1)
    assert alive == one.profctl("analyze", traces[0]["trace"], "--report", "kernels", "--json")
    # Its profd is dead: known at once.
    two.kill()
    said, took = get(one, traces[0], copy)
    assert "from the archive" in said and took < patience(10)
    # Ranges of it are those of one copy, which is fetched once and kept for a while.
    one.restart()
    begun = one.get("/v1/archive")["fetched_files"]
    whole = one.request("GET", f"/v1/traces/{traces[1]['trace']}/file").body
    assert hashlib.sha256(whole).hexdigest() == traces[1]["sha256"] and len(whole) > 300
    for offset in (0, 100, 299):
        reply = one.request("GET", f"/v1/traces/{traces[1]['trace']}/file", headers={"Range": f"bytes={offset}-{offset + 99}"})
        assert reply.status == 206 and reply.body == whole[offset:offset + 100] and "/v1/archive" in reply.headers["Link"]
    assert one.get("/v1/archive")["fetched_files"] == begun + 1
    one.restart()
    # Somebody wrote to the bucket.
    key = f"traces/sha256/{traces[1]['sha256'][:2]}/{traces[1]['sha256']}.json.gz"
    bucket = ArchiveClient("s3://traces/fleet", "--endpoint", hosts.s3.endpoint, "--credentials", hosts.s3.credentials)
    other = tmp_path / "other"
    other.write_bytes(b"x" * traces[1]["size"])
    with hosts.network.inside(hosts.service_number()):
        bucket.works("put", key, other)
    said, _ = get(one, traces[1], copy, status=1)
    assert "gpu2" in said and "SHA-256" in said and not copy.exists()
    with hosts.network.inside(hosts.service_number()):
        bucket.works("delete", key)
    problem = one.problem("GET", f"/v1/traces/{traces[1]['trace']}/file", status=503)
    assert "does not have" in problem["detail"] and problem["remote"] == {"host": "gpu2", "archived": False}
    # Without an archive, what is missing is named.
    reload(one, hosts.archive, "")
    said, _ = get(one, traces[0], copy, status=1)
    assert "gpu2" in said and "reader_credentials_file=" in said and "gpu1" in said, said
    reload(one, "[hosts]", hosts.archive + "[hosts]")
    two.start()



def of_gpu2(one, session):
    return [row for row in one.traces(session=session) if row.get("host") == "gpu2"]


def archived_column(one, session):
    """By trace, what list-traces shows."""
    _, *lines = one.profctl("list-traces", "--session", session, "--columns", "TRACE,ARCHIVED", "--csv").splitlines()
    return dict(line.split(",") for line in lines)


@pytest.mark.parametrize("told", ["before", "after"])
def test_a_trace_that_left_the_store_of_its_host(hosts, tmp_path, told):
    """Whether the host that was asked learned of the trace before it left its store, or after: the archive has it."""
    one, two = hosts
    session = one.start_session(router=hosts.router, duration_ns=S)["session"]
    if told == "after":
        wait_for(lambda: one.session(session)["state"] == "recording")
        one.kill()
    else:
        one.wait_session(session)
        wait_for(lambda: len(of_gpu2(one, session)) == 2 and all("archived_at" in row for row in of_gpu2(one, session)))
        reported = one.profctl("analyze", of_gpu2(one, session)[0]["trace"], "--report", "kernels", "--json")
    wait_for(lambda: not [row for row in two.get("/v1/sessions")["sessions"] if row["state"] not in ("complete", "partial", "failed", "cancelled")])
    wait_for(lambda: all("archived_at" in row for row in two.traces()))
    two.post("/v1/vacuum", {"keep": 0})
    assert not any(row["stored"] for row in two.traces())
    if told == "after":
        one.start()
        one.wait_session(session)
        wait_for(lambda: len(of_gpu2(one, session)) == 2)
    traces = of_gpu2(one, session)
    assert {archived_column(one, session)[row["trace"]] for row in traces} == {"yes"}
    for row in traces:
        shown = one.profctl("show", row["trace"])
        assert f"Archived:  {row['archive_key']}" in shown, shown
    assert "archive" not in get(one, traces[0], tmp_path / "copy")[0], "its host fetches it"
    two.post("/v1/vacuum", {"keep": 0})
    analyzed = one.profctl("analyze", traces[0]["trace"], "--report", "kernels", "--json")
    if told == "before":
        assert analyzed == reported
    assert one.profctl("query", traces[1]["trace"], "select count(*) > 0 as any from slice", "--json") == [{"any": 1}]
    for host in hosts:
        host.post("/v1/vacuum", {"keep": 0})
    instances = {row["instance"] for row in one.profctl("analyze", session, "--report", "kernels", "--json")["rows"]}
    assert len(instances) == 4, "those of traces that left the store of either host"


def test_a_trace_that_was_removed_at_its_host(hosts, tmp_path):
    """Its object remains: what needs the trace reads it from there."""
    one, two = hosts
    session = one.wait_session(one.start_session(router=hosts.router, duration_ns=S)["session"])["session"]
    wait_for(lambda: len(of_gpu2(one, session)) == 2 and all("archived_at" in row for row in of_gpu2(one, session)))
    removed, _ = of_gpu2(one, session)
    reported = two.profctl("analyze", removed["uuid"], "--report", "kernels", "--json")["rows"]
    assert two.request("DELETE", f"/v1/traces/{removed['uuid']}").json()["object"] == "remains"
    assert "archive" in get(one, removed, tmp_path / "copy")[0]
    assert one.profctl("analyze", removed["trace"], "--report", "kernels", "--json")["rows"] == reported
    assert len({row["instance"] for row in one.profctl("analyze", session, "--report", "kernels", "--json")["rows"]}) == 4
