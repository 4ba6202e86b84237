# SPDX-License-Identifier: Apache-2.0
"""The files of the catalog are deleted, replaced or cut short under a running profd: it says so, stops every profiler, writes
nothing more, and ends with status 1, so that its service manager starts it again. With a restored copy things go on."""

import contextlib
import hashlib
import os
import shutil
import sqlite3
import subprocess
import time

import pytest

from daemon import Daemon, FaultFleet, quick_config, wait_for
from patience import patience

MS = 1_000_000
S = 1_000_000_000


def replace(profd):
    copy = profd.directory / "other.db"
    shutil.copy(profd.catalog, copy)
    copy.rename(profd.catalog)


def file(profd, suffix):
    return profd.catalog.with_name("catalog.db" + suffix)


# What is done to the files: (the deed, what the log says of it).
DEEDS = {
    "deleted": (lambda profd: profd.catalog.unlink(), "catalog.db was deleted"),
    "replaced": (replace, "catalog.db was replaced by another file"),
    "cut": (lambda profd: os.truncate(profd.catalog, 8192), "catalog.db was cut to 8192 bytes"),
    "emptied": (lambda profd: os.truncate(profd.catalog, 0), "catalog.db was cut to 0 bytes"),
    "log-deleted": (lambda profd: file(profd, "-wal").unlink(), "catalog.db-wal was deleted"),
    "log-emptied": (lambda profd: os.truncate(file(profd, "-wal"), 0), "catalog.db-wal was cut to 0 bytes"),
    "shm-deleted": (lambda profd: file(profd, "-shm").unlink(), "catalog.db-shm was deleted"),
    "shm-emptied": (lambda profd: os.truncate(file(profd, "-shm"), 0), "catalog.db-shm was cut to 0 bytes"),
    "moved": (lambda profd: profd.state.rename(profd.directory / "elsewhere"), "catalog.db was deleted"),
    "directory-deleted": (lambda profd: shutil.rmtree(profd.state), " was deleted"),
}


@pytest.fixture
def fleet(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as some:
        yield some


@pytest.fixture
def profd(tmp_path, fleet):
    with Daemon(tmp_path / "profd", quick_config(more=f"[fleet test]\nrouter={fleet.router}\n")) as some:
        yield some


def backup(profd):
    copy = profd.directory / "backup.db"
    with contextlib.closing(sqlite3.connect(profd.catalog, timeout=60)) as db:
        db.execute("vacuum into ?", (str(copy),))
    return copy


def write_back(profd):
    """So that the database has all its pages: in a new one they are in the log."""
    with contextlib.closing(sqlite3.connect(profd.catalog, isolation_level=None, timeout=60)) as db:
        db.execute("pragma wal_checkpoint(passive)")


def restore(profd, copy):
    """As operations.md has it."""
    profd.state.mkdir(exist_ok=True)
    for suffix in ("", "-wal", "-shm"):
        file(profd, suffix).unlink(missing_ok=True)
    shutil.copy(copy, profd.catalog)


def ended(profd):
    """Its exit status."""
    process, profd.process = profd.process, None
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(20)
    process.kill()
    raise AssertionError(f"it goes on:\n{profd.log()}")


@pytest.mark.parametrize("deed", DEEDS)
def test_it_stops_all_profilers_and_ends(profd, fleet, deed):
    do, why = DEEDS[deed]
    session = profd.start_session(duration_ns=60 * S)["session"]
    profd.wait_state(session, "recording")
    copy = backup(profd)
    write_back(profd)
    begin = time.monotonic()
    do(profd)
    assert ended(profd) == 1, profd.log()
    assert time.monotonic() - begin < patience(5)
    assert fleet.journal()["profiling"] == 0
    log = profd.log()
    assert why in log and "Restore" in log, log
    restore(profd, copy)
    profd.start()
    # The copy says that it still records.
    profd.post(f"/v1/sessions/{session}/stop")
    assert profd.wait_session(session)["state"] in ("complete", "partial", "failed")
    assert profd.wait_session(profd.start_session(duration_ns=50 * MS)["session"])["state"] == "complete"


@pytest.mark.parametrize("size", [0, 8192])
def test_what_was_cut_is_not_taken_for_complete(profd, size):
    """Writing back the log lengthens the file again, with pages of zeros."""
    write_back(profd)
    profd.wait_session(profd.start_session(duration_ns=50 * MS)["session"])
    os.truncate(profd.catalog, size)
    assert ended(profd) == 1
    status, said = profd.refuses()
    assert status == 1 and "the file is damaged" in said and "Restore a copy" in said, said


def test_an_idle_one_notices(profd):
    profd.catalog.unlink()
    assert ended(profd) == 1
    assert "catalog.db was deleted" in profd.log()
    # What is left of it is no catalog; the remedy, to move that away, has one begun.
    status, said = profd.refuses()
    assert status == 1 and "its files were deleted" in said and "move away what is left of it with -wal and -shm" in said, said
    assert not profd.catalog.exists()
    for suffix in ("", "-wal", "-shm"):
        file(profd, suffix).unlink(missing_ok=True)
    profd.start()
    assert profd.traces() == []


def test_nothing_is_written_into_the_other_file(profd, fleet):
    session = profd.start_session(duration_ns=60 * S)["session"]
    profd.wait_state(session, "recording")
    copy = backup(profd)
    before = hashlib.sha256(copy.read_bytes()).digest()
    copy.rename(profd.catalog)
    assert ended(profd) == 1, profd.log()
    assert hashlib.sha256(profd.catalog.read_bytes()).digest() == before
    # Nor is the log of the old one taken for its own.
    profd.start()
    assert profd.rows("pragma integrity_check") == [{"integrity_check": "ok"}]
    assert profd.session(session)["state"] == "recording"


def test_while_stops_are_sent_it_is_not_ready(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "slow-stop=1.5") as fleet, \
            Daemon(tmp_path / "profd", quick_config(more=f"[fleet test]\nrouter={fleet.router}\n")) as profd:
        profd.wait_state(profd.start_session(duration_ns=60 * S)["session"], "recording")
        profd.catalog.unlink()
        wait_for(lambda: "catalog.db was deleted" in profd.log(), interval_s=0.01)
        reason = profd.problem("GET", "/readyz", status=503)["reasons"][0]
        assert reason["check"] == "catalog" and "was deleted" in reason["detail"] and "Restore" in reason["remedy"]
        assert profd.request("POST", "/v1/sessions", {"duration_ns": 50 * MS}).status in (409, 507)
        assert ended(profd) == 1
        assert fleet.journal()["profiling"] == 0


def test_a_worker_that_does_not_answer_delays_the_end_by_its_deadline_only(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "slow-stop=600@0") as fleet, \
            Daemon(tmp_path / "profd", quick_config(stop="1min", more=f"[fleet test]\nrouter={fleet.router}\n")) as profd:
        profd.wait_state(profd.start_session(duration_ns=60 * S)["session"], "recording")
        begin = time.monotonic()
        profd.catalog.unlink()
        assert ended(profd) == 1
        assert time.monotonic() - begin < patience(20)
        assert len(fleet.calls(0, "/stop_profile")) >= 1 and "has not answered its stop" in profd.log()


def test_what_operators_may_do_is_no_loss(profd):
    """Checkpoints and a vacuum of another program, and a log that is cut by them."""
    for n in range(3):
        profd.wait_session(profd.start_session(duration_ns=20 * MS)["session"])
        with contextlib.closing(sqlite3.connect(profd.catalog, isolation_level=None, timeout=60)) as db:
            db.execute("create table bulk (t)")
            db.execute("insert into bulk with recursive n (i) as (select 1 union all select i + 1 from n where i < 2000) "
                       "select randomblob(1000) from n")
            db.execute("drop table bulk")
            if n > 0:
                db.execute("vacuum")
            db.execute(f"pragma wal_checkpoint({['passive', 'restart', 'truncate'][n]})")
        assert os.stat(file(profd, "-wal")).st_size == 0 or n < 2
        profd.wait_session(profd.start_session(duration_ns=20 * MS)["session"])
    assert profd.request("GET", "/readyz").status == 200
