# SPDX-License-Identifier: Apache-2.0
"""A catalog that was lost is restored from the manifests in the archive: in a bucket and in a directory, again and again, and whatever
somebody wrote there."""
import hashlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from daemon import BUILD, Daemon, FaultFleet, quick_config, wait_for
from patience import patience

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "fleet")]
from radosgw import Radosgw, missing  # noqa: E402

S = 1_000_000_000
KEPT = ("name", "kind", "state", "worker", "size", "sha256", "archive_key", "archived_at", "recorded_at", "collected_at", "ranks", "span_ns",
        "events", "instance", "pid", "labels")


@pytest.fixture(params=["directory", "bucket"])
def archive(request, tmp_path):
    """The lines of profd.conf for an archive that is empty."""
    if request.param == "directory":
        (tmp_path / "shared").mkdir()
        yield f"[archive]\nurl=file://{tmp_path / 'shared'}\n"
        return
    assert not missing(), f"apt-get install radosgw ceph-mon ceph-osd ceph-common ({missing()})"
    with Radosgw(tmp_path / "ceph") as ceph:
        ceph.create_bucket("traces")
        yield f"[archive]\nurl=s3://traces/lost\nendpoint={ceph.endpoint}\ncredentials_file={ceph.credentials}\n"


def config(archive, host):
    return quick_config(more=f"{archive}[hosts]\nname={host}\n")


def profctl(profd, *words, status=0):
    done = subprocess.run([BUILD / "client/profctl", *map(str, words)], capture_output=True, text=True, timeout=patience(120), stdin=subprocess.DEVNULL,
                          env={**os.environ, "PROFD_SOCKET": str(profd.socket), "XDG_CACHE_HOME": str(profd.directory / "cache")}, check=False)
    assert done.returncode == status, done
    return done


def restore(profd, status=0):
    return json.loads(profctl(profd, "ingest", "--archive", "--json", status=status).stdout)


def by_uuid(profd):
    return {row["uuid"]: row for row in profd.traces(limit=1000)}


@pytest.fixture
def lost(archive, tmp_path):
    """What two sessions of a host had in its catalog, which is gone: (rows of traces by UUID, sessions by UUID)."""
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet, Daemon(tmp_path / "lost", config(archive, "gpu1")) as profd:
        ids = []
        for number in "12":
            ids.append(profd.start_session(router=fleet.router, duration_ns=S // 5, labels={"job": number})["session"])
            assert profd.wait_session(ids[-1])["state"] == "complete"
        wait_for(lambda: all("archived_at" in row for row in profd.traces(limit=1000)))
        state = profd.get("/v1/archive")
        assert state["waiting_files"] == 0, state
        sessions = {(session := profd.session(name))["uuid"]: session for name in ids}
        rows = {row["uuid"]: row | {"session_uuid": profd.session(row["session"])["uuid"]} for row in profd.traces(limit=1000)}
        # Manifests are written after the traces.
        with Daemon(tmp_path / "probe", config(archive, "probe")) as probe:
            wait_for(lambda: (restore(probe), len(by_uuid(probe)) == len(rows))[1], interval_s=0.5)
    shutil.rmtree(tmp_path / "lost")
    return rows, sessions


def test_a_lost_catalog_is_restored(archive, lost, tmp_path):
    rows, sessions = lost
    with Daemon(tmp_path / "new", config(archive, "gpu1")) as profd:
        answer = restore(profd)
        assert (answer["sessions"], answer["traces"], answer["known"], answer["left_out"], answer["failed"]) == (2, len(rows), 0, 0, []), answer
        restored = by_uuid(profd)
        for was in rows.values():
            now = restored[was["uuid"]]
            assert {name: now.get(name) for name in KEPT} == {name: was.get(name) for name in KEPT}
            assert profd.session(now["session"])["uuid"] == was["session_uuid"]
            assert not now["stored"] and now["path"].startswith("archive:") and "host_uuid" not in now
        for session in profd.get("/v1/sessions")["sessions"]:
            now, was = profd.session(session["session"]), sessions[session["uuid"]]
            assert [now[key] for key in ("state", "labels", "requested_at", "finished_at", "requested_by")] == [
                was[key] for key in ("state", "labels", "requested_at", "finished_at", "requested_by")]
            assert [[target[key] for key in ("worker", "state", "engine", "ranks_expected", "start_sent_at")] for target in now["targets"]] == [
                [target[key] for key in ("worker", "state", "engine", "ranks_expected", "start_sent_at")] for target in was["targets"]]
            assert all(target["traces"] for target in now["targets"])
        # Again: nothing changes. What the catalog has is known, also after a restart.
        profd.restart()
        again = restore(profd)
        assert (again["sessions"], again["traces"], again["known"]) == (0, 0, len(rows)) and by_uuid(profd).keys() == rows.keys()
        assert "0 sessions and 0 traces from 2 manifests, 4 already known" in profctl(profd, "ingest", "--archive").stdout
        # Files come when they are asked for.
        [trace, other, *_] = sorted(restored.values(), key=lambda row: row["recorded_at"])
        profctl(profd, "get", trace["trace"], "-o", tmp_path / "copy")
        assert hashlib.sha256((tmp_path / "copy").read_bytes()).hexdigest() == trace["sha256"]
        assert json.loads(profctl(profd, "analyze", other["trace"], "--report", "kernels", "--json").stdout)["rows"]
        assert profd.get(f"/v1/traces/{other['trace']}")["stored"]
        profctl(profd, "analyze", trace["session"])
        # A new session goes on as ever.
        with FaultFleet(tmp_path / "next", "vllm", 1) as fleet:
            assert profd.wait_session(profd.start_session(router=fleet.router, duration_ns=S // 5)["session"])["state"] == "complete"


def test_files_that_the_store_still_has_get_their_sessions(archive, tmp_path):
    """Only the catalog was lost: profd finds the files, and not what they are of."""
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet, Daemon(tmp_path / "profd", config(archive, "gpu1")) as profd:
        session = profd.wait_session(profd.start_session(router=fleet.router, duration_ns=S // 5)["session"])
        wait_for(lambda: all("archived_at" in row for row in profd.traces()))
        rows = {row["sha256"]: row for row in profd.traces()}
        with Daemon(tmp_path / "probe", config(archive, "probe")) as probe:
            wait_for(lambda: restore(probe)["manifests"] == 1, interval_s=0.5)
        profd.stop()
        for path in profd.catalog.parent.glob(profd.catalog.name + "*"):
            path.unlink()
        profd.start()
        wait_for(lambda: {row["sha256"] for row in profd.traces() if row["state"] == "complete"} == rows.keys())
        answer = restore(profd)
        assert (answer["sessions"], answer["traces"]) == (1, 2) and len(profd.traces()) == 2, answer
        for row in profd.traces():
            was = rows[row["sha256"]]
            assert row["stored"] and row["columns"] and profd.session(row["session"])["uuid"] == session["uuid"]
            assert [row[key] for key in ("worker", "name", "recorded_at", "ranks")] == [was[key] for key in ("worker", "name", "recorded_at", "ranks")]
        assert all(target["traces"] for target in profd.session(profd.traces()[0]["session"])["targets"])
        assert restore(profd)["known"] == 2 and len(profd.traces()) == 2


def test_another_host_lists_it_under_its_name(archive, lost, tmp_path):
    """Its traces are not this host's to delete."""
    rows, _ = lost
    with Daemon(tmp_path / "new", config(archive, "gpu9")) as profd:
        assert restore(profd)["traces"] == len(rows)
        restored = by_uuid(profd)
        assert {(row["host"], row["worker"]) for row in restored.values()} == {("gpu1", row["worker"]) for row in rows.values()}
        [trace, *_] = restored.values()
        assert trace["host_uuid"] != profd.get("/v1/hosts")["hosts"][0]["catalog"]
        done = profctl(profd, "get", trace["trace"], "-o", tmp_path / "copy")
        assert "comes from the archive" in done.stderr
        assert hashlib.sha256((tmp_path / "copy").read_bytes()).hexdigest() == trace["sha256"]
        assert json.loads(profctl(profd, "analyze", trace["trace"], "--report", "kernels", "--json").stdout)["rows"]
        assert {target.get("host") for target in profd.session(trace["session"])["targets"]} == {"gpu1"}
        assert restore(profd)["known"] == len(rows)


def manifest_of(catalog, host, **changes):
    sha256 = hashlib.sha256(uuid.uuid4().bytes).hexdigest()
    trace = {"trace": "t7", "uuid": str(uuid.uuid4()), "kind": "trace", "state": "complete", "name": "a.json.gz", "path": "/etc/passwd", "origin": "/etc/shadow",
             "stored": True, "size": 100, "sha256": sha256, "archive_key": f"traces/sha256/{sha256[:2]}/{sha256}.json.gz", "archived_at": 7,
             "recorded_at": 8, "collected_at": 9, "columns": "/etc/passwd", "columns_size": 8, "worker": "http://10.0.0.1:8000",
             "ranks": {"rank": 3}} | changes.pop("trace", {})
    session, change = {"session": "s7", "uuid": str(uuid.uuid4()), "state": "complete", "options": {}, "labels": {}, "requested_at": 5, "requested_by": "uid 0",
                       "router": "http://169.254.169.254", "targets": [{"worker": "http://10.0.0.1:8000", "state": "complete", "engine": "vllm"}]}, changes.pop("session", {})
    session = session | change if isinstance(change, dict) else change
    return {"manifest": 1, "catalog": catalog, "host": host, "session": session, "traces": [trace], **changes}


def write_manifest(root, number, content):
    path = root / "v1/session/date=2026-11-20" / f"{number:04}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_what_somebody_wrote_to_the_archive(tmp_path):
    """Whoever may write objects may write manifests: nothing of them is believed, and those that are wrong cost themselves only."""
    root, catalog = tmp_path / "shared", str(uuid.uuid4())
    root.mkdir()
    big = (1 << 63) - 1
    sound = [manifest_of(catalog, host) for host in ("gpu1", "gpu2")]
    wrong = ["", "[", "[]", "7", "{}", {"manifest": 2}, manifest_of("no uuid", "gpu1"), manifest_of(catalog, "x" * 300), manifest_of(catalog, 7),
             manifest_of(catalog, "gpu1", session=[]), manifest_of(catalog, "gpu1", session={"uuid": "x"}),
             manifest_of(catalog, "gpu1", session={"state": "recording"}), manifest_of(catalog, "gpu1", session={"state": "done"}),
             manifest_of(catalog, "gpu1", session={"requested_at": "now"}), "[" * 100_000]
    left_out = [manifest_of(catalog, "gpu1", trace=trace) for trace in (
        {"archive_key": "traces/sha256/../../etc"}, {"archive_key": None}, {"sha256": "x"}, {"size": -1}, {"size": big}, {"name": "../x"}, {"uuid": "x"},
        {"state": "great"}, {"kind": 7}, {"recorded_at": None})]
    strange = [manifest_of(catalog, host, trace={"recorded_at": big, "collected_at": -big, "pid": -big, "owner_uid": big, "ranks": {"rank": big}, "columns_version": big,
                                                 "labels": [], "candidates": {}, "worker": "\x1b[31m", "defects": 7, "name": "a\x1b[31m"},
                           session={"labels": 7, "remarks": {}, "name": "gone\u202e", "targets": [7, {}, {"worker": "x" * 5000, "state": "complete"}]})
               for host in ("gpu1", "gpu2")]
    for number, content in enumerate([*sound, *wrong, *left_out, *strange]):
        write_manifest(root, number, content)
    with Daemon(tmp_path / "profd", config(f"[archive]\nurl=file://{root}\n", "gpu1")) as profd:
        answer = restore(profd, status=3)
        assert {one["key"].rsplit("/")[-1] for one in answer["failed"]} == {f"{number:04}.json" for number in range(2, 2 + len(wrong))}, answer
        assert answer["left_out"] == len(left_out) and answer["manifests"] == len(sound) + len(wrong) + len(left_out) + len(strange)
        rows = by_uuid(profd)
        assert rows.keys() >= {manifest["traces"][0]["uuid"] for manifest in sound}
        for row in rows.values():
            assert "etc/passwd" not in json.dumps(row) and not row["stored"] and "columns" not in row and "\x1b" not in json.dumps(row, ensure_ascii=False), row
        assert {row["ranks"]["rank"] for row in rows.values() if row["recorded_at"] == 8} == {3}
        # Nothing that was named is called.
        assert profd.get("/v1/routers")["routers"] == []
        own = next(row for row in rows.values() if row["recorded_at"] == 8 and "host_uuid" not in row)
        assert profd.problem("GET", f"/v1/traces/{own['trace']}/file")["code"] in ("not-found", "storage", "gone")
        profctl(profd, "list-traces")
        profctl(profd, "list-sessions")
        profd.restart()
        assert restore(profd, status=3)["traces"] == 0


def test_many_manifests_go_on_where_they_stopped(tmp_path):
    root, catalog = tmp_path / "shared", str(uuid.uuid4())
    for number in range(130):
        write_manifest(root, number, manifest_of(catalog, "gpu1"))
    with Daemon(tmp_path / "profd", config(f"[archive]\nurl=file://{root}\n", "gpu1")) as profd:
        first = profd.post("/v1/archive/restore", {})
        assert 0 < first["manifests"] < 130 and first["traces"] == first["manifests"]
        second = profd.post("/v1/archive/restore", {"after": first["next"]})
        assert second["known"] == 0 and second["traces"] == second["manifests"]
        answer = restore(profd)
        assert answer["known"] == first["traces"] + second["traces"] and answer["manifests"] == 130
        assert len(by_uuid(profd)) == 130
        assert profd.problem("POST", "/v1/archive/restore", {"path": "/etc"}, status=400)
        assert "no other option" in profctl(profd, "ingest", "--archive", "x", status=2).stderr
        assert "no path" in profctl(profd, "ingest", status=2).stderr
    with Daemon(tmp_path / "none") as profd:
        assert "no archive is configured" in profctl(profd, "ingest", "--archive", status=1).stderr


def test_a_deep_manifest_breaks_no_list(tmp_path):
    """SQLite reads JSON less deep than profd does, and one row that it cannot read would end each search: it takes no such row."""
    root, catalog = tmp_path / "shared", str(uuid.uuid4())
    labels = {"a": 1}
    for _ in range(1010):
        labels = {"a": [labels]}
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))
    for number, (host, part) in enumerate((host, part) for host in ("gpu1", "gpu2") for part in ("trace", "session")):
        write_manifest(root, number, manifest_of(catalog, host, **{part: {"labels": labels, "skipped": labels, "workload": labels}}))
    write_manifest(root, 9, manifest_of(catalog, "gpu2"))
    with Daemon(tmp_path / "profd", config(f"[archive]\nurl=file://{root}\n", "gpu1")) as profd:
        answer = profd.post("/v1/archive/restore", {})
        # A session that is refused takes its traces with it, a trace nothing.
        assert answer["manifests"] == 5 and len(answer["failed"]) == 2 and answer["traces"] == 1, answer
        assert answer["refused"] == 2 and answer["sessions"] == 3, answer
        assert all("one row is refused: the catalog cannot take it" in one["reason"] for one in answer["remarks"]) and len(answer["remarks"]) == 2, answer
        for listed in ("traces", "sessions"):
            for search in ("search=a.json", "label=a=1", "sort=name", "search=x"):
                assert listed in profd.get(f"/v1/{listed}?{search}")


def test_a_manifest_of_many_targets_holds_nobody_up(tmp_path):
    """Each trace is found its target: with a search through all targets for each, one manifest stops profd for minutes. Its rows are
    added some at a time, and one that the catalog refuses is the only one that is left out."""
    root, catalog, n = tmp_path / "shared", str(uuid.uuid4()), 5000
    urls = [f"http://10.0.{number // 250}.{number % 250}:8000" for number in range(n)]
    whole = manifest_of(catalog, "gpu2", session={"targets": [{"worker": url, "state": "complete"} for url in urls + urls[:10]]})
    whole["traces"] = [manifest_of(catalog, "gpu2", trace={"worker": url})["traces"][0] for url in urls]
    whole["traces"][n // 2]["trace"] = "x7"
    write_manifest(root, 0, whole)
    with Daemon(tmp_path / "profd", config(f"[archive]\nurl=file://{root}\n", "gpu1")) as profd:
        begun, connection = time.monotonic(), profd.connection()
        connection.request("POST", "/v1/archive/restore", "{}", {"Content-Type": "application/json"})
        answered, most = 0, 0.0
        while not select.select([connection.sock], [], [], 0.02)[0]:
            asked = time.monotonic()
            assert profd.request("GET", "/healthz").status == 200
            answered, most = answered + 1, max(most, time.monotonic() - asked)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        assert time.monotonic() - begun < patience(10)
        assert (answer["traces"], answer["refused"], len(answer["remarks"]), answer["failed"]) == (n - 1, 1, 1, []), answer
        # Of some hundred batches each lets others through.
        assert answered > 20 and most < (time.monotonic() - begun) / 4, (answered, most)
        assert len(profd.get("/v1/sessions/s1")["targets"]) == n
