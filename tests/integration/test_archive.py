# SPDX-License-Identifier: Apache-2.0
"""profd with an archive: Ceph's radosgw, a service that misbehaves, a directory. Object first, row after; nothing leaves the
store that the archive does not have; what only the archive has comes back."""
import contextlib
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.parse

import pytest

from archive_client import ArchiveClient
from daemon import BUILD, ROOT, Daemon, FaultFleet, wait_for
from test_mirror import Mirror
from test_collect import MIB, config, made_trace, record
from test_store import files

sys.path.insert(0, str(ROOT / "tests/fleet"))
from postgres import Postgres  # noqa: E402
from radosgw import Radosgw, missing  # noqa: E402
from s3_hostile import HostileS3, error, http_date, raw, refuse_after_half  # noqa: E402

PROFCTL = BUILD / "client/profctl"


@pytest.fixture(scope="module", name="ceph")
def make_ceph(tmp_path_factory):
    assert not missing(), f"apt-get install radosgw ceph-mon ceph-osd ceph-common ({missing()})"
    with Radosgw(tmp_path_factory.mktemp("ceph") / "cluster") as ceph:
        ceph.create_bucket("traces")
        yield ceph


def archive(ceph, prefix, *lines, credentials=None):
    return "\n".join(["[archive]", f"url=s3://traces/{prefix}", f"endpoint={ceph.endpoint}",
                      f"credentials_file={credentials or ceph.credentials}", *lines, ""])


def write_trace(path, seed=0, size=0):
    """A trace of its own content; with a size, one that is not compressed and at least so large."""
    noise = random.Random(seed).randbytes(size // 2).hex()
    if size:
        event = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
        path.write_text(json.dumps({"schemaVersion": 1, "noise": noise, "traceEvents": [event]}))
    else:
        path.write_bytes(made_trace(seed=seed))
    return path


def ingest(profd, path, **more):
    return profd.post("/v1/traces", {"path": str(path), **more}, 201)["trace"]


def is_archived(profd, trace, timeout_s=60):
    def look():
        row = profd.get(f"/v1/traces/{trace}")
        return row if "archived_at" in row else None
    return wait_for(look, timeout_s, why=lambda: f"{profd.get('/v1/archive')}")


def head(ceph, key):
    text = ceph.curl("HEAD", f"traces/{urllib.parse.quote(key)}", "-I")
    return {line.split(":")[0].lower(): line.split(":", 1)[1].strip() for line in text.splitlines() if ":" in line}


def keys(ceph, prefix):
    text = ceph.curl("GET", f"traces?list-type=2&prefix={urllib.parse.quote(prefix, safe='')}%2F")
    return sorted(part.split("</Key>")[0].removeprefix(prefix + "/") for part in text.split("<Key>")[1:])


def check_archived(ceph, prefix, profd):
    """Invariant: what is said to be archived is there, with that size and that content."""
    for row in profd.traces(limit=1000):
        if "archived_at" in row:
            there = head(ceph, f"{prefix}/{row['archive_key']}")
            assert (int(there["content-length"]), there["x-amz-meta-sha256"]) == (row["size"], row["sha256"]), (row, there)


def profctl(profd, *words, status=0):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done
    return done


def evict(profd, *traces):
    answer = profd.post("/v1/vacuum", {"keep": 0})
    rows = [profd.get(f"/v1/traces/{trace}") for trace in traces]
    assert not any(row["stored"] or "columns" in row for row in rows), (answer, rows)
    assert all(row["state"] == "complete" and row["path"].startswith("archive:") for row in rows)
    assert answer["archived"] == answer["removed"] == len(answer["traces"]), answer
    for row in rows:
        shown = " ".join(profctl(profd, "show", row["trace"]).stdout.split())
        assert re.search(rf"Kept in: \S*{row['archive_key']} \(in the archive only\)", shown), shown
    return answer


@pytest.mark.smoke
def test_upload_evict_and_fetch(ceph, tmp_path):
    """The way of a trace to the bucket and back; reports, downloads and queries work as if it had never left."""
    source = write_trace(tmp_path / "a.json.gz")
    with Daemon(tmp_path / "profd", config() + archive(ceph, "way")) as profd:
        trace = ingest(profd, source)
        row = is_archived(profd, trace)
        assert row["archive_key"] == f"traces/sha256/{row['sha256'][:2]}/{row['sha256']}.json.gz"
        check_archived(ceph, "way", profd)
        state = wait_for(lambda: (now := profd.get("/v1/archive"))["uploaded_files"] == 1 and now)
        assert (state["state"], state["waiting_files"], state["lag_ns"], state["failed"]) == ("ok", 0, 0, [])
        assert "profd_archive_uploads_total{result=\"ok\"} 1" in profd.request("GET", "/metrics").body.decode()
        assert "yes" in profctl(profd, "list-traces").stdout
        before = profctl(profd, "analyze", trace, "--json").stdout

        answer = evict(profd, trace)
        assert answer["traces"][0]["archived"] and files(profd) == []
        assert "only" in profctl(profd, "list-traces").stdout
        # analyze: the columns are made again.
        done = profctl(profd, "analyze", trace, "--json")
        assert "from the archive" in done.stderr and json.loads(done.stdout) == json.loads(before)
        back = profd.get(f"/v1/traces/{trace}")
        assert back["stored"] and back["columns"] and back["collected_at"] == row["collected_at"]

        evict(profd, trace)
        profctl(profd, "get", trace, "-o", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == source.read_bytes()
        evict(profd, trace)
        assert profd.request("GET", f"/v1/traces/{trace}/file").body == source.read_bytes()
        assert [row["kind"] for row in profd.rows("select kind from event_row where trace_id = 1 order by event_id")] == [
            "trace-added", "trace-archived", *3 * ["trace-evicted", "trace-fetched"]]
        # Reports of the server and a client that shows progress wait for it as well.
        evict(profd, trace)
        report = profd.request("POST", f"/v1/traces/{trace}/query", {"sql": "select count(*) from slices"})
        assert report.status == 200, report
        evict(profd, trace)
        state = wait_for(lambda: (now := profd.request("POST", f"/v1/traces/{trace}/fetch?columns=true")).status != 202 and now.json())
        assert state == {"state": "stored", "bytes": row["size"], "size": row["size"]} and profd.get(f"/v1/traces/{trace}")["columns"]
        # A restart knows where it is, and does not take it for missing.
        evict(profd, trace)
        profd.restart(crash=True)
        assert profd.request("GET", f"/v1/traces/{trace}/columns").status == 200
        assert len(profd.traces(limit=1000)) == 1
        assert profd.rows("select 1 from event_row where kind = 'trace-missing'") == []


def test_nothing_unarchived_is_lost(ceph, tmp_path):
    """The service is down: the store keeps everything, and when it is full no session begins; then all catches up."""
    small = "[store]\nmax_use=6M\n"
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, Daemon(tmp_path / "profd", config() + small + archive(ceph, "down")) as profd:
        first = ingest(profd, write_trace(tmp_path / "0.json", 0, 2 * MIB))
        is_archived(profd, first)
        ceph.kill_gateway()
        try:
            kept = [ingest(profd, write_trace(tmp_path / f"{i}.json", i, 2 * MIB)) for i in (1, 2)]
            wait_for(lambda: profd.get("/v1/archive")["state"] == "failing", 60)
            # The archived one went for the others; they stay.
            assert not profd.get(f"/v1/traces/{first}")["stored"]
            vacuum = profd.post("/v1/vacuum", {"keep": 0})
            assert vacuum["traces"] == [] and {item["reason"] for item in vacuum["kept"]} == {"not-archived"}
            assert "kept (not archived yet, " in profctl(profd, "vacuum", "--keep", "0", "-y").stderr
            left = profd.post("/v1/traces", {"path": str(write_trace(tmp_path / "x.json", 9, 3 * MIB))}, 201)
            assert not left["stored"] and "left in place" in left["reason"]
            fill = ingest(profd, write_trace(tmp_path / "fill.json", 10, 1536 * 1024))
            refused = profd.problem("POST", "/v1/sessions", {"router": fleet.router, "duration_ns": 10**8}, status=507)
            assert "wait for the archive" in refused["detail"] and "3 traces" in refused["detail"], refused
            assert "connect" in refused["detail"].lower(), refused
            doctor = profctl(profd, "doctor", "--router", fleet.router, status=1).stdout
            assert "s3://traces/down" in doctor
        finally:
            ceph.start_gateway()
        for trace in (*kept, fill):
            is_archived(profd, trace)
        assert record(profd, fleet)["state"] == "complete"
        check_archived(ceph, "down", profd)
        assert wait_for(lambda: profd.get("/v1/archive")["state"] == "ok")


def test_crash_in_each_phase(ceph, tmp_path):
    """Killed again and again while 70 MiB go up slowly: parts that arrived are not sent again, and the end is complete."""
    with Daemon(tmp_path / "profd", config(collect="columns=no") + archive(ceph, "crash", "rate=20M")) as profd:
        trace = ingest(profd, write_trace(tmp_path / "large.json", 1, 70 * MIB))
        small = ingest(profd, write_trace(tmp_path / "small.json.gz", 2))
        profd.restart(crash=True)  # before anything, or while it hashes

        def progress():
            rows = profd.rows("select s3_upload_id, parts from upload_row where kind = 'trace' and s3_upload_id is not null")
            return (rows[0]["s3_upload_id"], sum(map(bool, json.loads(rows[0]["parts"])))) if rows else None
        wait_for(lambda: (progress() or ("", 0))[1] >= 2, interval_s=0.02)
        upload, sent = progress()
        profd.restart(crash=True)
        wait_for(lambda: (progress() or ("", 0))[1] > sent, interval_s=0.02)
        assert progress()[0] == upload, "it began anew"
        for _ in range(3):
            profd.restart(crash=True)
            time.sleep(random.Random(1).random() / 2)
        is_archived(profd, trace, 120)
        is_archived(profd, small)
        check_archived(ceph, "crash", profd)
        assert profd.rows("select 1 from upload_row") == []


def test_gateway_killed(ceph, tmp_path):
    with Daemon(tmp_path / "profd", config(collect="columns=no") + archive(ceph, "killed", "rate=20M")) as profd:
        trace = ingest(profd, write_trace(tmp_path / "large.json", 3, 70 * MIB))
        wait_for(lambda: profd.rows("select 1 from upload_row where parts like '%\"_%'"), interval_s=0.02)
        ceph.kill_gateway()
        ceph.start_gateway()
        is_archived(profd, trace, 120)
        evict(profd, trace)
        assert hashlib.sha256(profd.request("GET", f"/v1/traces/{trace}/file").body).hexdigest() == profd.get(f"/v1/traces/{trace}")["sha256"]


def test_credentials_are_replaced(ceph, tmp_path):
    """Wrong ones: named in the state and by the doctor; the file is replaced, and no restart is needed."""
    file = tmp_path / "credentials"
    ceph.write_credentials(file, ceph.access_key, "an-old-secret")
    with Daemon(tmp_path / "profd", config() + archive(ceph, "renewed", credentials=file)) as profd:
        trace = ingest(profd, write_trace(tmp_path / "a.json.gz", 4))
        state = wait_for(lambda: (now := profd.get("/v1/archive"))["state"] == "failing" and now)
        assert "403" in state["error"] or "denied" in state["error"].lower(), state
        assert str(file) in state["remedy"] and "an-old-secret" not in json.dumps(state) + profd.log()
        ceph.write_credentials(file, ceph.access_key, ceph.secret_key)
        is_archived(profd, trace)


def test_equal_content_is_stored_once(ceph, tmp_path):
    """Of two hosts; and an object of another content under that name is never replaced."""
    source = write_trace(tmp_path / "a.json.gz", 5)
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(Daemon(tmp_path / f"profd{i}", config() + archive(ceph, "equal"))) for i in range(2)]
        rows = [is_archived(profd, ingest(profd, source)) for profd in hosts]
        assert rows[0]["archive_key"] == rows[1]["archive_key"] and keys(ceph, "equal") == [rows[0]["archive_key"]]
        other = write_trace(tmp_path / "b.json.gz", 6)
        name = hashlib.sha256(other.read_bytes()).hexdigest()
        client = ArchiveClient("s3://traces/equal", "--endpoint", ceph.endpoint, "--credentials", ceph.credentials)
        client.works("put", f"traces/sha256/{name[:2]}/{name}.json.gz", source)
        trace = ingest(hosts[0], other)
        state = wait_for(lambda: (now := hosts[0].get("/v1/archive"))["failed"] and now)
        assert state["failed"][0]["trace"] == trace and "another content" in state["failed"][0]["error"]
        # Others are not held up.
        is_archived(hosts[0], ingest(hosts[0], write_trace(tmp_path / "c.json.gz", 7)))
        assert "archived_at" not in hosts[0].get(f"/v1/traces/{trace}")


def test_rm(ceph, tmp_path):
    """An object goes with its trace only with a credential for it, and not while another trace has the same content."""
    with Daemon(tmp_path / "profd", config() + archive(ceph, "rm")) as profd:
        trace = ingest(profd, write_trace(tmp_path / "a.json.gz", 8))
        key = is_archived(profd, trace)["archive_key"]
        assert f"{key} remains" in profctl(profd, "rm", trace).stderr
        assert keys(ceph, "rm") == [key]
    with Daemon(tmp_path / "other", config() + archive(ceph, "rm", f"delete_credentials_file={ceph.credentials}")) as profd:
        trace = ingest(profd, write_trace(tmp_path / "b.json.gz", 9), session="kept")
        other = is_archived(profd, trace)["archive_key"]
        assert key != other and other in keys(ceph, "rm")
        answer = profd.request("DELETE", f"/v1/traces/{trace}").json()
        assert answer["object"] == "deleted" and other not in keys(ceph, "rm")
        ingest(profd, write_trace(tmp_path / "c.json.gz", 10), session="gone")
        session = profd.get("/v1/sessions")["sessions"][0]["session"]
        third = is_archived(profd, profd.traces(session=session)[0]["trace"])["archive_key"]
        assert profd.request("DELETE", f"/v1/sessions/{session}").json()["objects_deleted"] == 1
        wait_for(lambda: third not in keys(ceph, "rm"))


def test_rm_asks_the_mirror(ceph, tmp_path):
    """An object that a trace of another host needs stays, and so does one of which that cannot be known."""
    with Postgres() as pg:
        mirror = Mirror(pg)
        more = archive(ceph, "fleet", f"delete_credentials_file={ceph.credentials}")
        source, other = write_trace(tmp_path / "a.json.gz", 21), write_trace(tmp_path / "b.json.gz", 22)
        with Daemon(tmp_path / "one", mirror.config(more=more + "[hosts]\nname=gpu1\n")) as one, \
                Daemon(tmp_path / "two", mirror.config(more=more + "[hosts]\nname=gpu2\n")) as two:
            traces = {host: ingest(host, source) for host in (one, two)}
            key = is_archived(one, traces[one])["archive_key"]
            assert is_archived(two, traces[two])["archive_key"] == key
            wait_for(lambda: len(mirror.sql("select trace_id from fleet.traces")) == 2)
            done = profctl(one, "rm", "--yes", traces[one])
            assert f"the object {key} remains in the archive: gpu2 has a trace with the same content" in done.stderr
            wait_for(lambda: len(mirror.sql("select trace_id from fleet.traces")) == 1)
            assert two.request("DELETE", f"/v1/traces/{traces[two]}").json()["object"] == "deleted"
            assert key not in keys(ceph, "fleet")
            last = ingest(two, other)
            key = is_archived(two, last)["archive_key"]
            pg.stop()
            answer = two.request("DELETE", f"/v1/traces/{last}").json()
            assert answer["object"] == "remains" and "mirror" in answer["object_reason"] and key in keys(ceph, "fleet"), answer


def catalog_of_bucket(ceph, prefix):
    """As docs/archive.md describes it: {uuid of a trace: its row}, of all manifests."""
    rows = {}
    for key in keys(ceph, prefix):
        if key.startswith("v1/session/"):
            found = json.loads(ceph.curl("GET", f"traces/{prefix}/{urllib.parse.quote(key)}"))
            rows |= {trace["uuid"]: trace | {"session": found["session"]["uuid"]} for trace in found["traces"]}
    return rows


def test_the_bucket_alone_has_the_catalog(ceph, tmp_path):
    """The state directory is lost: rows of the manifests are those that the catalog had, and their objects have what they say."""
    kept = ("name", "kind", "state", "worker", "size", "sha256", "archive_key", "archived_at", "recorded_at", "collected_at", "ranks")
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet, Daemon(tmp_path / "profd", config() + archive(ceph, "lost")) as profd:
        sessions = {(session := record(profd, fleet))["session"]: session["uuid"] for _ in range(2)}
        for row in profd.traces(limit=1000):
            is_archived(profd, row["trace"])
        rows = {row["uuid"]: row for row in profd.traces(limit=1000)}
        found = wait_for(lambda: len(now := catalog_of_bucket(ceph, "lost")) == len(rows) and now)
        for uuid, row in rows.items():
            assert {name: found[uuid].get(name) for name in kept} == {name: row.get(name) for name in kept}
            assert found[uuid]["session"] == sessions[row["session"]]
            content = subprocess.run(["curl", "-sSf", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{ceph.access_key}:{ceph.secret_key}",
                                      "-H", f"x-amz-content-sha256: {hashlib.sha256().hexdigest()}",
                                      f"{ceph.endpoint}/traces/lost/{row['archive_key']}"], capture_output=True, timeout=60, check=True).stdout
            assert hashlib.sha256(content).hexdigest() == row["sha256"]


def test_manifest(ceph, tmp_path):
    """The bucket alone tells what was recorded."""
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet, Daemon(tmp_path / "profd", config() + archive(ceph, "manifest")) as profd:
        session = record(profd, fleet)
        manifest = wait_for(lambda: [key for key in keys(ceph, "manifest") if key.startswith("v1/session/date=")])
        assert len(manifest) == 1
        found = json.loads(ceph.curl("GET", f"traces/manifest/{urllib.parse.quote(manifest[0])}"))
        assert found["manifest"] == 1 and found["catalog"] in manifest[0] and found["session"]["uuid"] in manifest[0]
        assert len(found["session"]["targets"]) == 2 and found["session"]["state"] == session["state"]
        assert sorted(t["archive_key"] for t in found["traces"]) == [key for key in keys(ceph, "manifest") if key.startswith("traces/")]


def test_directory(tmp_path):
    """file:///: two hosts that share a directory, which is away for a while."""
    shared = tmp_path / "shared"
    shared.mkdir()
    with Daemon(tmp_path / "profd", config() + f"[archive]\nurl=file://{shared}\n") as profd:
        source = write_trace(tmp_path / "a.json.gz", 11)
        trace = ingest(profd, source)
        row = is_archived(profd, trace)
        assert (shared / row["archive_key"]).read_bytes() == source.read_bytes()
        shared.rename(tmp_path / "away")
        second = ingest(profd, write_trace(tmp_path / "b.json.gz", 12))
        wait_for(lambda: profd.get("/v1/archive")["state"] == "failing")
        assert profd.post("/v1/vacuum", {"keep": 0})["removed"] == 1 and profd.get(f"/v1/traces/{second}")["stored"]
        assert profd.problem("GET", f"/v1/traces/{trace}/file")["detail"].startswith(f"cannot fetch {trace} from the archive")
        (tmp_path / "away").rename(shared)
        is_archived(profd, second)
        profctl(profd, "get", trace, "-o", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == source.read_bytes()
        # Somebody wrote there: noticed, and nothing of it is taken.
        evict(profd, trace)
        (shared / row["archive_key"]).chmod(0o600)
        (shared / row["archive_key"]).write_bytes(source.read_bytes()[:-1] + b"x")
        assert profd.request("GET", f"/v1/traces/{trace}/file").status in (409, 502, 507)
        assert not profd.get(f"/v1/traces/{trace}")["stored"] and not list((profd.state / "traces").glob(".incoming*"))


def test_reload(tmp_path, ceph):
    """An archive is switched on, replaced while it is busy, and switched off: nothing is lost, and rows stay as they were."""
    with Daemon(tmp_path / "profd", config(collect="columns=no")) as profd:
        def reload(text):
            log = profd.log_file.stat().st_size
            profd.config.write_text(config(collect="columns=no") + text)
            os.kill(profd.pid, signal.SIGHUP)
            wait_for(lambda: "reloaded: " in profd.log(log))

        trace = ingest(profd, write_trace(tmp_path / "a.json.gz", 16))
        assert profd.get("/v1/archive") == {"state": "off"}
        reload(archive(ceph, "reload"))
        is_archived(profd, trace)
        large = ingest(profd, write_trace(tmp_path / "large.json", 17, 70 * MIB))
        reload(archive(ceph, "reload", "rate=30M"))
        wait_for(lambda: profd.rows("select 1 from upload_row where parts like '%\"_%'"), interval_s=0.02)
        reload(archive(ceph, "reload", "transfers=3"))
        is_archived(profd, large)
        check_archived(ceph, "reload", profd)
        evict(profd, trace)
        reload("")
        assert profd.problem("GET", f"/v1/traces/{trace}/file", status=410)["detail"].endswith("none is configured")
        assert [row["archived_at"] is not None for row in profd.traces()] == [True, True]


@pytest.fixture(name="s3")
def make_s3(tmp_path):
    with HostileS3() as server:
        server.credentials = tmp_path / "credentials"
        server.write_credentials(server.credentials)
        yield server
        assert server.forged == 0


@pytest.mark.parametrize("fault, words", [
    (error(503, "SlowDown"), None),
    (error(403, "RequestTimeTooSkewed", headers=[("Date", http_date(7200))]), "clock"),
    (error(507, "QuotaExceeded"), None),
    (error(403, "QuotaExceeded"), None),
    (refuse_after_half, "denied"),
])
def test_faults_of_the_service(s3, tmp_path, fault, words):
    """Each is named while it lasts, loses nothing, and passes."""
    s3.fault("PUT", fault, times=3 if words else 1)
    with Daemon(tmp_path / "profd", config() + archive(s3, "x")) as profd:
        traces = [ingest(profd, write_trace(tmp_path / f"{seed}.json.gz", seed)) for seed in (13, 18)]
        if words:
            state = wait_for(lambda: (now := profd.get("/v1/archive"))["state"] == "failing" and now, interval_s=0.01)
            assert words in (state["error"] + state.get("remedy", "")).lower(), state
        for trace in traces:
            is_archived(profd, trace)
        assert profd.log().count("wait in the store") <= 1, "logged once, not for each file and each try"


def test_object_that_lies(s3, tmp_path):
    """An upload counts when a HEAD shows the content; a download when its bytes have the catalog's hash."""
    with Daemon(tmp_path / "profd", config() + archive(s3, "x")) as profd:
        s3.fault("HEAD", raw(b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 3\r\n\r\n"))
        trace = ingest(profd, write_trace(tmp_path / "a.json.gz", 14))
        is_archived(profd, trace)
        heads = [path for method, path, _ in s3.requests if method == "HEAD"]
        assert len(heads) >= 2, "the first answer was believed"
        evict(profd, trace)
        (path, (content, etag, stored)), = [item for item in s3.objects.items() if "/traces/sha256/" in item[0]]
        for bad in (content[:-5], content[:-1] + b"x", b""):
            s3.objects[path] = (bad, etag, stored)
            assert profd.request("GET", f"/v1/traces/{trace}/file").status >= 400
            assert not profd.get(f"/v1/traces/{trace}")["stored"]
        s3.objects[path] = (content, etag, stored)
        assert profd.request("GET", f"/v1/traces/{trace}/file").body == content


def test_metadata_address(tmp_path, s3):
    """No endpoint is where a cloud hands out credentials; neither is one that a reload names."""
    bad = archive(s3, "x").replace(s3.endpoint, "http://169.254.169.254")
    with Daemon(tmp_path / "profd", config() + archive(s3, "x")) as profd:
        profd.config.write_text(profd.config.read_text().replace(s3.endpoint, "http://169.254.169.254"))
        os.kill(profd.pid, signal.SIGHUP)
        wait_for(lambda: "169.254.169.254 is refused" in profd.log())
        assert profd.get("/v1/archive")["endpoint"] == s3.endpoint
        trace = ingest(profd, write_trace(tmp_path / "a.json.gz", 15))
        is_archived(profd, trace)
    assert "is refused" in Daemon(tmp_path / "refused", config() + bad).refuses()[1]
