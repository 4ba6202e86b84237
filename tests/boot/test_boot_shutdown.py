# SPDX-License-Identifier: Apache-2.0
"""The machine is shut down while a session records: profilers are stopped, or it is written down that they were not."""

import contextlib
import json
import sqlite3

import pytest
from fleets import FaultFleet
from profd_unit import CATALOG, SERVICE, STOP_OWED, enable, install, start, wait_state

TARGETS = "select w.url, t.* from target_row t join worker_row w using (worker_id) order by t.target_id"


@pytest.fixture(scope="module")
def after(bare, package, tmp_path_factory):
    """The targets of a session over two workers that the shutdown ended, by worker. The second never answers a stop."""
    install(bare, package)
    enable(bare)
    fleet = FaultFleet(bare, "sglang", 2, "--fault", "hang-stop@1").__enter__()
    name = start(bare, fleet, duration="5min")
    wait_state(bare, name, "recording")
    bare.power_off()
    copy = tmp_path_factory.mktemp("catalog")
    for file in bare.disk(CATALOG).parent.glob("catalog.db*"):
        (copy / file.name).write_bytes(file.read_bytes())
    with contextlib.closing(sqlite3.connect(copy / "catalog.db")) as catalog:
        catalog.row_factory = sqlite3.Row
        targets = {row["url"]: dict(row) for row in catalog.execute(TARGETS)}
    bare.boot()
    return bare, name, [targets[worker] for worker in fleet.workers], fleet


def test_the_answered_stop_is_no_longer_pending(after):
    _, _, targets, _ = after
    assert targets[0]["stop_answered_at"] and not targets[0]["stop_pending"]


def test_the_other_is_recorded_as_pending(after):
    machine, name, targets, fleet = after
    assert targets[1]["stop_pending"] and not targets[1]["stop_answered_at"]
    said = machine.journal("-b", "-1", "-u", SERVICE, STOP_OWED, f"PROFD_SESSION={name}", check=False)
    assert fleet.workers[1] in said and fleet.workers[0] not in said


def test_it_was_within_the_units_time(after):
    machine, *_ = after
    said = machine.journal("-b", "-1", "-u", SERVICE)
    assert "Deactivated successfully" in said or "Succeeded" in said, said
    assert "timed out" not in said and "SIGKILL" not in said, said


def test_the_fleet_outlived_profd(after):
    """Else the test would have shown nothing."""
    machine, _, _, fleet = after
    lines = machine("journalctl", "-b", "-1", "-o", "json", "--no-pager", f"UNIT={SERVICE}", "+", f"UNIT={fleet.name}.service")
    entries = [json.loads(line) for line in lines.splitlines()]
    stopped = [entry["UNIT"] for entry in entries if entry["MESSAGE"].startswith("Stopped ")]
    assert stopped == [SERVICE, f"{fleet.name}.service"]
