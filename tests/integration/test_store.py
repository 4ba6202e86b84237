# SPDX-License-Identifier: Apache-2.0
"""The store: its budget, what is removed and what is not, and how it and the catalog agree again after somebody else had
his hands in it."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import pytest

from daemon import Daemon, FaultFleet, wait_for
from test_collect import MIB, NAME, SHORT, config, dense_trace, made_trace, record, sha256, unclaimed
from patience import patience

MS = 1_000_000
BLOCK = 4096  # what the smallest file takes on the disk


def vacuum(profd, keep, **more):
    return profd.post("/v1/vacuum", {"keep": keep, **more})


def names(profd):
    return sorted(trace["trace"] for trace in profd.traces(limit=1000))


def files(profd):
    return sorted(str(path) for path in (profd.state / "traces").rglob("*") if path.is_file())


def column_files(profd):
    return sorted(str(path) for path in (profd.state / "columns").iterdir())


def disk_size(path):
    return Path(path).stat().st_blocks * 512


def room_of(trace):
    return trace["disk_size"] + trace.get("columns_size", 0)


def check_agreement(profd):
    """Every file of the store has a row, every stored row its file, columns likewise, and the sum is right."""
    traces = profd.traces(limit=1000)
    assert files(profd) == sorted(trace["path"] for trace in traces if trace["stored"])
    assert column_files(profd) == sorted(trace["columns"] for trace in traces if "columns" in trace)
    assert all(Path(trace["columns"]).stat().st_size == trace["columns_size"] for trace in traces if "columns" in trace)
    assert all(trace["disk_size"] == (disk_size(trace["path"]) if trace["stored"] else 0) for trace in traces)
    assert profd.get("/v1/usage")["bytes"] == sum(map(room_of, traces))


@pytest.fixture
def fleet(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "huge=1") as running:
        yield running


# Removing

@pytest.mark.smoke
def test_remove_a_trace_and_a_session(tmp_path, fleet):
    with Daemon(tmp_path / "profd", config()) as profd:
        for _ in range(3):
            assert record(profd, fleet)["state"] == "complete"
        path = Path(profd.get("/v1/traces/t1")["path"])
        assert profd.request("DELETE", "/v1/traces/t1").json() == {"removed": "t1", "file": True}
        assert not path.exists() and names(profd) == ["t2", "t3"]
        assert profd.problem("DELETE", "/v1/traces/t1", status=404)
        directory = profd.state / "traces/s2"
        assert directory.exists()
        assert profd.request("DELETE", "/v1/sessions/s2").json()["removed"] == "s2"
        assert not directory.exists() and names(profd) == ["t3"]
        assert profd.problem("GET", "/v1/sessions/s2", status=404)
        assert profd.problem("DELETE", "/v1/sessions/s2", status=404)
        check_agreement(profd)
        said = [(event["kind"], event["actor"].split(" ")[0]) for event in log_of(profd)]
        assert ("trace-removed", "uid") in said and ("session-removed", "uid") in said
        # The worker's own files are not profd's to remove.
        assert len(list((tmp_path / "fleet/w0").iterdir())) == 3


def log_of(profd):
    with sqlite3.connect(f"file:{profd.catalog}?mode=ro", uri=True) as catalog:
        rows = catalog.execute("select kind, actor, text from events order by event_id").fetchall()
    return [dict(zip(("kind", "actor", "text"), row)) for row in rows]


def test_what_is_under_way_is_not_removed(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "slow-stop=3@1") as fleet, \
            Daemon(tmp_path / "profd", config()) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=SHORT)["session"]
        trace = wait_for(profd.traces)[0]
        for path in (f"/v1/traces/{trace['trace']}", f"/v1/sessions/{session}"):
            problem = profd.problem("DELETE", path, status=409)
            assert "not over" in problem["detail"] and "profctl stop s1" in problem["remedy"]
        assert vacuum(profd, 0)["removed"] == 0
        assert profd.wait_session(session)["state"] == "complete"
        check_agreement(profd)


def ask_meanwhile(profd, work):
    """How long the API did not answer at most while work() ran."""
    slowest, done = [0.0], threading.Event()

    def ask():
        while not done.wait(0.005):
            begin = time.monotonic()
            profd.get("/v1/version")
            slowest.append(time.monotonic() - begin)

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        result = work()
    finally:
        done.set()
        asker.join()
    assert len(slowest) > 2
    return result, max(slowest)


API_STALL_S = 2


def fill(profd, n, session=None, size=BLOCK, first=1):
    """Rows and files as if n traces had been collected; profd is not running."""
    place = profd.state / "traces" / (f"s{session}" if session else "unclaimed")
    place.mkdir(parents=True, exist_ok=True)
    rows = []
    for i in range(first, first + n):
        path = place / f"rank{i}.1700000000000000000.pt.trace.json"
        path.write_bytes(b" " * size)
        rows.append((session, "trace", "complete", path.name, str(path), f"/nowhere/{session}/{path.name}", 1, size,
                     disk_size(path), i, i))
    with sqlite3.connect(profd.catalog) as catalog:
        catalog.executemany("insert into trace_row (session_id, kind, state, name, path, origin, stored, size, disk_size,"
                            " recorded_at, collected_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def test_nobody_sees_a_session_without_its_traces(tmp_path, fleet):
    """Whatever moment profd is killed in: the catalog shows it, with all that a commit leaves."""
    profd = Daemon(tmp_path / "profd", config()).start()
    try:
        record(profd, fleet)
        profd.stop()
        fill(profd, 90, session=1)
        profd.start()
        seen, done = set(), threading.Event()

        def look():
            with contextlib.closing(sqlite3.connect(f"file:{profd.catalog}?mode=ro", uri=True)) as catalog:
                while not done.is_set():
                    seen.add(catalog.execute("select (select count(*) from session_row), count(*) from trace_row").fetchone())

        looker = threading.Thread(target=look)
        looker.start()
        wait_for(lambda: seen)
        assert profd.request("DELETE", "/v1/sessions/s1").status == 200
        wait_for(lambda: (0, 0) in seen)
        done.set()
        looker.join()
        assert seen == {(1, 91), (0, 0)}
    finally:
        profd.stop()


def test_removal_that_was_cut_short(tmp_path, fleet):
    """It is resumed at the next start; a file of the store without a row is recovered all the same."""
    profd = Daemon(tmp_path / "profd", config()).start()
    try:
        for _ in range(2):
            record(profd, fleet)
        profd.stop()
        fill(profd, 1500, session=1)
        with sqlite3.connect(profd.catalog) as catalog:
            catalog.execute("insert into event_row (at, kind, actor, session_id, text) values (1, 'session-removing', 'x', 1, 'x')")
        stray = profd.state / "traces/unclaimed" / NAME
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(made_trace())
        profd.start()
        wait_for(lambda: [trace["path"] for trace in profd.traces() if "session" not in trace] == [str(stray)])
        wait_for(lambda: len(names(profd)) == 2)
        assert profd.problem("GET", "/v1/sessions/s1", status=404) and profd.get("/v1/sessions/s2")
        wait_for(lambda: not (profd.state / "traces/s1").exists())
        check_agreement(profd)
    finally:
        profd.stop()


def test_kill_within_a_large_removal(tmp_path, fleet):
    profd = Daemon(tmp_path / "profd", config()).start()
    try:
        record(profd, fleet)
        profd.stop()
        fill(profd, 4000, session=1)
        profd.start()

        def remove():
            with contextlib.suppress(Exception):  # it is killed meanwhile
                profd.request("DELETE", "/v1/sessions/s1")

        with contextlib.closing(sqlite3.connect(f"file:{profd.catalog}?mode=ro", uri=True)) as catalog:
            remover = threading.Thread(target=remove)
            remover.start()
            wait_for(lambda: catalog.execute("select count(*) from trace_row").fetchone()[0] <= 4000, interval_s=0.0002)
        profd.kill()
        remover.join()
        with contextlib.closing(sqlite3.connect(profd.catalog)) as catalog:
            assert catalog.execute("select count(*) from session_row").fetchone()[0] == 1, "the kill came too late"
        profd.start()
        wait_for(lambda: profd.request("GET", "/v1/sessions/s1").status == 404)
    finally:
        profd.stop()


def test_the_api_answers_during_large_removals(tmp_path, fleet):
    n = 8000
    profd = Daemon(tmp_path / "profd", config()).start()
    try:
        record(profd, fleet)
        profd.stop()
        fill(profd, n, session=1)
        fill(profd, n)
        profd.start()
        assert profd.get("/v1/usage")["traces"] == 2 * n + 1
        counted, stall_s = ask_meanwhile(profd, lambda: vacuum(profd, 0, dry_run=True))
        assert counted["removed"] == 2 * n + 1 and counted["usage"]["traces"] == 2 * n + 1
        assert stall_s < patience(API_STALL_S), f"the API did not answer for {stall_s} s"
        removed, stall_s = ask_meanwhile(profd, lambda: profd.request("DELETE", "/v1/sessions/s1"))
        assert removed.status == 200 and stall_s < patience(API_STALL_S), f"the API did not answer for {stall_s} s"
        assert profd.get("/v1/usage")["traces"] == n and not (profd.state / "traces/s1").exists()
        removed, stall_s = ask_meanwhile(profd, lambda: vacuum(profd, 1000 * BLOCK))
        assert stall_s < patience(API_STALL_S), f"the API did not answer for {stall_s} s"
        assert removed["removed"] == n - 1000 and removed["freed"] == (n - 1000) * BLOCK
        assert removed["usage"]["bytes"] == 1000 * BLOCK and len(files(profd)) == 1000
    finally:
        profd.stop()


def test_a_stop_does_not_wait_for_a_large_removal(tmp_path):
    profd = Daemon(tmp_path / "profd", config()).start()
    profd.stop()
    fill(profd, 8000)
    profd.start()
    client = threading.Thread(target=lambda: pytest.raises(Exception, vacuum, profd, 0))
    client.start()
    wait_for(lambda: profd.get("/v1/usage")["traces"] < 8000, interval_s=0.001)
    begin = time.monotonic()
    profd.stop()
    assert time.monotonic() - begin < patience(5)
    client.join()
    profd.start()
    try:
        assert 0 < profd.get("/v1/usage")["traces"] < 8000
        assert len(files(profd)) == profd.get("/v1/usage")["traces"]
    finally:
        profd.stop()


# The budget

def test_the_oldest_go_first(tmp_path, fleet):
    with Daemon(tmp_path / "profd", config(more="[store]\nmax_use=5M\nkeep_free=1M")) as profd:
        for _ in range(2):
            record(profd, fleet)
        assert profd.request("PUT", "/v1/traces/t1/pin").status == 200
        assert profd.request("PUT", "/v1/sessions/s2/pin").status == 200
        for _ in range(4):
            assert record(profd, fleet)["state"] == "complete"
        # Each is somewhat above 1 MiB, so four fit. What is pinned stays, of the others the two latest.
        assert names(profd) == ["t1", "t2", "t5", "t6"]
        assert profd.get("/v1/usage")["bytes"] <= 5 * MIB
        check_agreement(profd)
        evictions = [event for event in log_of(profd) if event["kind"] == "trace-removed"]
        assert [event["actor"] for event in evictions] == ["profd, for the store's budget"] * 2
        # Freed by hand, it goes like the others.
        assert profd.request("DELETE", "/v1/traces/t1/pin").status == 200
        record(profd, fleet)
        assert names(profd) == ["t2", "t5", "t6", "t7"]


def test_a_trace_that_does_not_fit_stays_where_it_is(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "huge=3@1", "--fault", "huge=1@0") as fleet, \
            Daemon(tmp_path / "profd", config(more="[store]\nmax_use=2M\nkeep_free=1M")) as profd:
        first = record(profd, fleet, workers=[fleet.workers[0]])
        second = record(profd, fleet, workers=[fleet.workers[1]])
        assert first["state"] == second["state"] == "complete"
        small, large = profd.get("/v1/traces/t1"), profd.get("/v1/traces/t2")
        assert large["state"] == "complete" and not large["stored"] and large["path"] == large["origin"]
        assert large["reason"] == "left in place: no room in the store (see profctl du)"
        assert sha256(large["path"]) == large["sha256"]
        # It could not have fitted, so nothing was removed for it.
        assert small["stored"] and Path(small["path"]).exists()
        check_agreement(profd)


def test_old_files_do_not_drive_out_newer_traces(tmp_path, fleet):
    watched = tmp_path / "watched"
    watched.mkdir()
    old = watched / NAME
    old.write_bytes(dense_trace(MIB))
    os.utime(old, (time.time() - 86400, time.time() - 86400))
    profd = Daemon(tmp_path / "profd", config(more="[store]\nmax_use=1500K\nkeep_free=1M")).start()
    record(profd, fleet)
    profd.stop()
    profd.config.write_text(config(collect=f"watch={watched}", more="[store]\nmax_use=1500K\nkeep_free=1M"))
    profd.start()
    try:
        trace = wait_for(lambda: unclaimed(profd))[0]
        assert not trace["stored"] and "no room in the store" in trace["reason"]
        assert profd.get("/v1/traces/t1")["stored"]
        # In its own place it is known as well: it does not come again.
        profd.restart()
        time.sleep(0.5)
        assert names(profd) == ["t1", "t2"]
    finally:
        profd.stop()


def test_what_is_incomplete_drives_out_nothing(tmp_path, fleet):
    watched = tmp_path / "watched"
    watched.mkdir()
    with Daemon(tmp_path / "profd", config(collect=f"watch={watched}", more="[store]\nmax_use=5M\nkeep_free=1M")) as profd:
        assert record(profd, fleet)["state"] == "complete"
        (watched / NAME).write_bytes(os.urandom(4500 << 10))
        trace = wait_for(lambda: unclaimed(profd))[0]
        assert trace["state"] == "corrupt" and not trace["stored"] and "no room in the store" in trace["reason"]
        assert profd.get("/v1/traces/t1")["stored"]


def test_nothing_is_removed_in_vain(tmp_path, fleet):
    free = shutil.disk_usage(tmp_path).free
    profd = Daemon(tmp_path / "profd", config()).start()
    record(profd, fleet)
    profd.stop()
    # More is to be left free than all traces together could yield.
    profd.config.write_text(config(more=f"[store]\nmax_use=100M\nkeep_free={free + 1000 * MIB}"))
    profd.start()
    try:
        assert record(profd, fleet)["state"] == "complete"
        assert profd.get("/v1/traces/t1")["stored"]
        assert profd.get("/v1/traces/t2")["reason"] == "left in place: no room in the store (see profctl du)"
    finally:
        profd.stop()


def test_files_that_come_in_together_share_the_budget(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 6, "--fault", "huge=4") as fleet, \
            Daemon(tmp_path / "profd", config(collect="children=6", more="[store]\nmax_use=10M\nkeep_free=1M")) as profd:
        session = record(profd, fleet)
        assert session["state"] == "complete" and session["counts"]["traces"] == 6
        stored = [trace for trace in profd.traces() if trace["stored"]]
        assert len(stored) == 2 and profd.get("/v1/usage")["bytes"] <= 10 * MIB
        assert sum("no room in the store" in trace.get("reason", "") for trace in profd.traces()) == 4
        check_agreement(profd)


def test_vacuum_and_usage(tmp_path, fleet):
    with Daemon(tmp_path / "profd", config()) as profd:
        for _ in range(4):
            record(profd, fleet)
        sizes = [room_of(trace) for trace in profd.traces()]
        usage = profd.get("/v1/usage")
        assert usage["traces"] == 4 and usage["bytes"] == sum(sizes) and usage["store"] == str(profd.state / "traces")
        assert abs(usage["free"] - shutil.disk_usage(tmp_path).free) < 200 * MIB and usage["max_use"] > 0
        before = files(profd)
        tried = vacuum(profd, 2 * max(sizes) + 1000, dry_run=True)
        assert tried["removed"] == 2 and tried["freed"] == sum(sizes[2:])
        assert files(profd) == before and names(profd) == ["t1", "t2", "t3", "t4"]
        done = vacuum(profd, 2 * max(sizes) + 1000)
        assert (done["removed"], done["freed"]) == (tried["removed"], tried["freed"])
        assert names(profd) == ["t3", "t4"] and done["usage"]["bytes"] == sum(sizes) - done["freed"]
        check_agreement(profd)
        assert vacuum(profd, 1 << 40)["removed"] == 0
        for body in ({}, {"keep": -1}, {"keep": "all"}, {"keep": 1, "now": True}):
            assert profd.problem("POST", "/v1/vacuum", body, status=400)
        profd.request("PUT", "/v1/traces/t3/pin")
        assert vacuum(profd, 0)["removed"] == 1 and names(profd) == ["t3"]


def test_age_is_that_of_the_collection(tmp_path):
    """When a file says that it was written is its writer's: of files dated by their writers the first collected go first."""
    profd = Daemon(tmp_path / "profd", config()).start()
    profd.stop()
    fill(profd, 6)
    now, day = time.time_ns(), 86400 * 10**9
    with sqlite3.connect(profd.catalog) as catalog:
        # Who changes it after all does so knowingly.
        (immutable,) = catalog.execute("select sql from sqlite_schema where name = 'trace_collected'").fetchone()
        catalog.execute("drop trigger trace_collected")
        for trace, collected in ((1, now), (2, now - 9 * day), (3, now - 1 * day), (4, now - 8 * day), (5, now - 7 * day), (6, now)):
            catalog.execute("update trace_row set collected_at = ?, recorded_at = ? where trace_id = ?",
                            (collected, 2**62 if trace == 2 else now - trace * 100 * day, trace))
        catalog.execute(immutable)
        catalog.execute("update trace_row set pinned = 1 where trace_id = 4")
    profd.start()
    try:
        dry = vacuum(profd, 3 * BLOCK, dry_run=True)
        assert [trace["trace"] for trace in dry["traces"]] == ["t2", "t5", "t3"] and dry["removed"] == 3 and dry["freed"] == 3 * BLOCK
        assert [(trace["trace"], trace["reason"]) for trace in dry["kept"]] == [("t4", "pinned")]
        assert dry["collected_until"] == now - 1 * day and len(names(profd)) == 6
        old = profd.post("/v1/vacuum", {"collected_until": now - 6 * day, "dry_run": True})
        assert [trace["trace"] for trace in old["traces"]] == ["t2", "t5"] and [trace["trace"] for trace in old["kept"]] == ["t4"]
        # Both limits hold.
        assert [t["trace"] for t in profd.post("/v1/vacuum", {"keep": 0, "collected_until": now - 8 * day})["traces"]] == ["t2"]
        assert vacuum(profd, 3 * BLOCK)["removed"] == 2 and names(profd) == ["t1", "t4", "t6"]
        assert files(profd) == sorted(trace["path"] for trace in profd.traces())
    finally:
        profd.stop()


def test_a_file_dated_in_the_future_is_not_kept_for_that(tmp_path):
    """An import with any date displaces what was collected before, and goes when its turn has come."""
    with Daemon(tmp_path / "profd", config(more="[store]\nmax_use=3500K\nkeep_free=1M")) as profd:
        for i, written_at in enumerate((time.time() + 10 * 86400, *(time.time(),) * 3, 1)):
            file = tmp_path / f"{i}-{NAME}"
            file.write_bytes(dense_trace(MIB))
            os.utime(file, (written_at,) * 2)
            trace = profd.post("/v1/traces", {"path": str(file)}, 201)
            assert trace["stored"], trace
        assert names(profd) == ["t3", "t4", "t5"], profd.traces()


# After somebody else was there

def test_store_and_catalog_agree_again_after_a_start(tmp_path, fleet):
    profd = Daemon(tmp_path / "profd", config()).start()
    try:
        for _ in range(3):
            record(profd, fleet)
        lost, moved, kept = (profd.get(f"/v1/traces/t{i}") for i in (1, 2, 3))
        profd.stop()
        Path(lost["path"]).unlink()
        Path(moved["path"]).rename(tmp_path / "moved")
        foreign = profd.state / "traces/s1" / NAME
        foreign.write_bytes(made_trace())
        stray = profd.state / "traces/unclaimed"
        stray.mkdir(exist_ok=True)
        (stray / NAME).write_bytes(made_trace(stray=True)[:-4])
        (profd.state / "traces/s3/link.trace.json").symlink_to("/etc/passwd")
        leftover = profd.state / "traces/.incoming-77-0"
        leftover.write_bytes(b"half")
        profd.start()
        wait_for(lambda: len(profd.traces()) == 5 and
                 all(profd.get(f"/v1/traces/{t}")["state"] == "missing" for t in ("t1", "t2")))
        assert not leftover.exists()
        for name in ("t1", "t2"):
            trace = profd.get(f"/v1/traces/{name}")
            assert trace["reason"] == "its file is gone" and trace["worker"] == fleet.workers[0]
            problem = profd.problem("GET", f"/v1/traces/{name}/file", status=410)
            assert "is gone" in problem["detail"] and problem["remedy"] == "Remove its row with profctl rm."
        assert profd.get("/v1/traces/t3") == kept
        adopted = {trace["path"]: trace for trace in profd.traces() if trace["trace"] in ("t4", "t5")}
        ours, nobodys = adopted[str(foreign)], adopted[str(stray / NAME)]
        assert ours["session"] == "s1" and ours["state"] == "complete" and "worker" not in ours
        assert ours["sha256"] == sha256(foreign) and ours["ranks"]["rank"] == 0
        assert "session" not in nobodys and nobodys["state"] == "truncated"
        # What is gone takes no room, but what was read out of it does.
        assert profd.get("/v1/usage")["bytes"] == sum(map(room_of, profd.traces()))
        assert not profd.get("/v1/traces/t2")["stored"] and column_files(profd)
        # Put back, it is what it was; and a further start changes nothing.
        (tmp_path / "moved").rename(moved["path"])
        profd.restart()
        wait_for(lambda: profd.get("/v1/traces/t2")["state"] == "complete")
        again = profd.get("/v1/traces/t2")
        assert again == moved
        before = profd.traces()
        profd.restart()
        time.sleep(0.5)
        assert profd.traces() == before
    finally:
        profd.stop()


def test_a_session_that_goes_on_brings_in_its_own_files(tmp_path):
    """A crash between the copy's appearing and its row leaves a file that the session is about to collect again."""
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "late=2") as fleet:
        profd = Daemon(tmp_path / "profd", config(settle="4s")).start()
        try:
            profd.start_session(router=fleet.router, duration_ns=SHORT)
            profd.wait_state("s1", "collecting")
            profd.kill()
            left = profd.state / "traces/s1" / NAME
            left.parent.mkdir()
            left.write_bytes(made_trace())
            profd.start()
            assert profd.wait_session("s1")["state"] == "complete"
            wait_for(lambda: len(profd.traces()) == 2)  # nobody is at it any more
            (trace,) = (trace for trace in profd.traces() if "worker" in trace)
            assert trace["worker"] == fleet.workers[0] and trace["path"] != str(left)
            assert [t["path"] for t in profd.traces() if "worker" not in t] == [str(left)]
            check_agreement(profd)
        finally:
            profd.stop()


def test_a_large_store_is_compared_during_the_work(tmp_path, fleet):
    n, strangers = 10_000, 300
    profd = Daemon(tmp_path / "profd", config()).start()
    profd.stop()
    fill(profd, n)
    place = profd.state / "traces/unclaimed"
    for i in range(1, n + 1, 100):
        (place / f"rank{i}.1700000000000000000.pt.trace.json").unlink()
    for i in range(strangers):
        (place / f"stranger_rank{i}.1700000000000000000.pt.trace.json.gz").write_bytes(made_trace(i=i))
    begin = time.monotonic()
    profd.start()
    try:
        assert time.monotonic() - begin < patience(5)
        # A session goes through while it lasts.
        session, stall_s = ask_meanwhile(profd, lambda: record(profd, fleet))
        assert session["state"] == "complete" and stall_s < patience(API_STALL_S), f"the API did not answer for {stall_s} s"

        def is_done():
            with sqlite3.connect(f"file:{profd.catalog}?mode=ro", uri=True) as catalog:
                return catalog.execute("select count(*) filter (where state = 'missing'), count(*) filter "
                                       "(where name like 'stranger%') from traces").fetchone() == (n // 100, strangers)

        _, stall_s = ask_meanwhile(profd, lambda: wait_for(is_done, timeout_s=60, interval_s=0.1))
        assert stall_s < patience(API_STALL_S), f"the API did not answer for {stall_s} s"
    finally:
        profd.stop()


# A store that cannot be written

@pytest.fixture
def small_disk(tmp_path):
    """A tmpfs of 8 MiB where the store will be."""
    place = tmp_path / "profd/state/traces"
    place.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", place], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def check_left_in_place(trace, why):
    assert trace["state"] == "complete" and not trace["stored"] and trace["path"] == trace["origin"], trace
    assert why in trace["reason"], trace
    assert sha256(trace["path"]) == trace["sha256"]


def test_a_full_store(tmp_path, small_disk):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "huge=5") as fleet, \
            Daemon(tmp_path / "profd", config(more="[store]\nmax_use=1G\nkeep_free=1M")) as profd:
        (small_disk / "s77").mkdir()
        (small_disk / "s77/.ballast").write_bytes(bytes(5 * MIB))
        assert record(profd, fleet)["state"] == "complete"
        check_left_in_place(profd.get("/v1/traces/t1"), "left in place: no room in the store")
        (small_disk / "s77/.ballast").unlink()
        assert record(profd, fleet)["state"] == "complete"
        assert profd.get("/v1/traces/t2")["stored"]
        # For a third one, the first that is in the store goes.
        assert record(profd, fleet)["state"] == "complete"
        assert names(profd) == ["t1", "t3"] and profd.get("/v1/traces/t3")["stored"]


def test_a_file_that_is_completed_takes_the_place_of_its_incomplete_copy(tmp_path, small_disk):
    watched = tmp_path / "watched"
    watched.mkdir()
    file, trace = watched / NAME, dense_trace(5 * MIB)
    more = f"[store]\nmax_use=1G\nkeep_free=1M\n[collect]\nwatch={watched}"
    with Daemon(tmp_path / "profd", config(more=more)) as profd:
        file.write_bytes(trace[:3 * MIB])
        wait_for(lambda: [(t["state"], t["stored"]) for t in profd.traces()] == [("truncated", True)])
        with open(file, "ab") as out:
            out.write(trace[3 * MIB:])
        wait_for(lambda: [t["state"] for t in profd.traces()] == ["complete"])
        complete = profd.get("/v1/traces/t1")
        assert complete["stored"] and sha256(complete["path"]) == sha256(file), complete
        assert files(profd) == [complete["path"]]


def test_a_store_that_fills_up_while_it_is_written_to(tmp_path, small_disk):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "huge=6") as fleet, \
            Daemon(tmp_path / "profd", config(more="[store]\nmax_use=1G\nkeep_free=1M")) as profd:
        stop = threading.Event()

        def fill_up():
            """As soon as the copy begins, so that it is too late to look how much is free."""
            while not stop.is_set():
                if any(path.stat().st_size for path in small_disk.glob(".incoming-*")):
                    (small_disk / ".ballast").write_bytes(bytes(3 * MIB))
                    return

        filler = threading.Thread(target=fill_up)
        filler.start()
        session = record(profd, fleet)
        stop.set()
        filler.join()
        trace = profd.get("/v1/traces/t1")
        assert session["state"] == "complete"
        if not trace["stored"]:  # else the copy was faster
            check_left_in_place(trace, "left in place")
        assert not list(small_disk.glob(".incoming-*"))


def test_a_store_that_becomes_read_only(tmp_path, fleet, small_disk):
    with Daemon(tmp_path / "profd", config(more="[store]\nmax_use=1G\nkeep_free=1M")) as profd:
        assert record(profd, fleet)["state"] == "complete"
        subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
        assert record(profd, fleet)["state"] == "complete"
        check_left_in_place(profd.get("/v1/traces/t2"), "left in place: Read-only file system")
        assert profd.request("GET", "/v1/traces/t1/file").status == 200
        profd.stop()
        status, said = profd.refuses()
        assert status == 1 and f"cannot use the store {small_disk}: Read-only file system" in said
        assert "Make it writable for profd" in said
        subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
        profd.start()
        assert record(profd, fleet)["state"] == "complete" and profd.get("/v1/traces/t3")["stored"]


@pytest.fixture
def small_state_disk(tmp_path):
    """A file system that a test can fill."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "small", disk], capture_output=True).returncode != 0:
        pytest.skip("this machine does not let us mount a tmpfs")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_trace_that_the_catalog_cannot_take_is_not_forgotten(tmp_path, small_state_disk):
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet, \
            Daemon(tmp_path / "profd", config(), ("--state-dir", small_state_disk / "state")) as profd:
        profd.state = small_state_disk / "state"
        session = profd.start_session(router=fleet.router, duration_ns=1500 * MS)["session"]
        profd.wait_state(session, "recording")
        with open(small_state_disk / "balloon", "wb", buffering=0) as balloon:
            with pytest.raises(OSError):
                while balloon.write(bytes(4096)) == 4096:
                    pass
                raise OSError
        wait_for(lambda: "the catalog cannot save the row of" in profd.log(), why=profd.log)
        (small_state_disk / "balloon").unlink()
        assert profd.wait_session(session)["state"] == "complete"
        traces = profd.traces(session=session)
        assert [trace["state"] for trace in traces] == ["complete", "complete"]
        assert all(sha256(Path(trace["path"])) == trace["sha256"] for trace in traces)
