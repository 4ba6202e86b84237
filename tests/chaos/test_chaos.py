# SPDX-License-Identifier: Apache-2.0
"""The ordinary run of chaos, and that each thing it looks for is found where it is the case."""

import contextlib
import os
import random
import sqlite3

import pytest

import chaos
import faults
import invariants
from testbed import MS, SANITIZED, Testbed

FAULTS = 120 if SANITIZED else 1000
WORKERS = 100 if SANITIZED else 1000
SEED = 11  # the same for everybody; ./dev chaos draws another each time


def test_what_must_hold_holds(tmp_path):
    chaos.run(tmp_path, SEED, FAULTS, WORKERS)


@pytest.mark.parametrize("damage", [faults.truncate, faults.corrupt, faults.grow])
def test_no_fault_reaches_through_a_link(tmp_path, damage):
    """A worker may have made its trace a link to anything of this machine."""
    precious, link, pipe = tmp_path / "precious", tmp_path / "link", tmp_path / "pipe"
    precious.write_bytes(b"x" * 1000)
    link.symlink_to(precious)
    os.mkfifo(pipe)
    for path in (link, pipe):
        with pytest.raises(OSError):
            damage(path, random.Random(1))
    assert precious.read_bytes() == b"x" * 1000
    damage(precious, random.Random(1))
    assert precious.read_bytes() != b"x" * 1000


def change(testbed, sql):
    with contextlib.closing(sqlite3.connect(testbed.profd.catalog)) as db, db:
        db.execute(sql)


def stored(testbed):
    return next(path for path in (testbed.profd.state / "traces").rglob("*") if path.is_file())


def overwrite(testbed):
    path = stored(testbed)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


SABOTAGE = {
    "no_profiler_runs": lambda testbed: testbed.fleets[0].start_elsewhere(0),
    "no_stop_is_owed": lambda testbed: change(testbed, "update target_row set stop_pending = 1"),
    "catalog_is_sound": lambda testbed: change(testbed, "update target_row set state = 'recording'"),
    "what_is_stored_is_cataloged": lambda testbed: (stored(testbed).parent / "extra").write_text("x"),
    "what_is_cataloged_is_there": overwrite,
    "what_was_written_is_cataloged": lambda testbed: change(testbed, "delete from trace_row"),
    "traces_have_their_worker": lambda testbed: change(
        testbed, f"update trace_row set worker_id = (select worker_id from worker_row where url = '{testbed.fleets[1].workers[0]}')"),
    "complete_is_complete": lambda testbed: change(testbed, "update trace_row set state = 'corrupt'"),
    "it_is_on_the_bus": lambda testbed: testbed.bus.kill(),
    "memory_is_back": lambda testbed: None,
}


@pytest.fixture(scope="module")
def testbed(tmp_path_factory):
    with Testbed(tmp_path_factory.mktemp("testbed"), 4) as running:
        chaos.settle(running)
        yield running


@pytest.mark.parametrize("check", SABOTAGE)
def test_what_does_not_hold_is_found(testbed, check, monkeypatch):
    if check == "it_is_on_the_bus" and not testbed.bus:
        pytest.skip("no dbus-daemon, or no python3-gi")
    if check == "memory_is_back" and SANITIZED:
        pytest.skip("a sanitizer keeps freed memory")
    round_ = chaos.Round(1, 0, testbed, chaos.Run())
    workers = testbed.fleets[0].workers[1:3]
    asked = testbed.profd.start_session(workers=workers, duration_ns=50 * MS)
    assert testbed.profd.wait_session(asked["session"])["state"] == "complete"
    assert invariants.complaints(testbed, round_) == []
    if check == "memory_is_back":
        monkeypatch.setattr(invariants, "MEMORY_GROWTH", -(1 << 40))
    before = sqlite3.connect(testbed.profd.catalog)
    with contextlib.closing(sqlite3.connect(":memory:")) as copy:
        before.backup(copy)
        round_.verified.clear()
        SABOTAGE[check](testbed)
        found = invariants.complaints(testbed, round_, patience_s=0)
        copy.backup(before)
    before.close()
    testbed.heal()
    for fleet in testbed.fleets:
        for url in fleet.profiling()["workers"]:
            fleet.set_fault("die", workers=str(fleet.workers.index(url)))
    (stored(testbed).parent / "extra").unlink(missing_ok=True)
    assert check in {text.split(":")[0] for text in found}, found
    if check == "what_is_cataloged_is_there":
        overwrite(testbed)  # the same bit again
