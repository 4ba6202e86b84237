# SPDX-License-Identifier: Apache-2.0
"""Whose traces go when the store is full: what one user writes displaces nothing of another who is below his share, and what
counts is what lies on the disk."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from daemon import BUILD, Daemon, FaultFleet, wait_for
from test_collect import MIB, config, dense_trace, record, sha256
from test_store import check_agreement, disk_size, names

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root: gives files to other users")
GREEDY, VICTIM, THIRD = 54321, 54322, 54323


class UserDirectory:
    """A directory of one user, which profd watches."""

    def __init__(self, path, uid):
        self.path, self.uid, self.n = path, uid, 0
        path.mkdir()
        os.chown(path, uid, uid)

    def write(self, content, extended_to=None):
        """Under its name when it is complete, dated such that it may displace all that was collected before."""
        self.n += 1
        path = self.path / f"user{self.uid}_rank{self.n}.1700000000000000000.pt.trace.json.gz"
        incoming = path.with_suffix(".part")
        incoming.write_bytes(content)
        if extended_to:
            os.truncate(incoming, extended_to)
        os.chown(incoming, self.uid, self.uid)
        os.utime(incoming, (time.time() + 600,) * 2)
        incoming.rename(path)
        return path


@pytest.fixture
def directories(tmp_path):
    return [UserDirectory(tmp_path / str(uid), uid) for uid in (GREEDY, VICTIM, THIRD)]


def watching(tmp_path, directories, store):
    watches = "\n".join(f"watch={directory.path}" for directory in directories)
    return Daemon(tmp_path / "profd", config(settle="300ms", collect=watches, more=f"[store]\nkeep_free=1M\n{store}"))


def bring_in(profd, directory, content, **more):
    """The trace that became of it, once its row is there."""
    origin = str(directory.write(content, **more))
    return wait_for(lambda: [trace for trace in profd.traces(limit=1000) if trace["origin"] == origin], why=profd.log)[0]


def stored_of(profd, directory):
    return [trace for trace in profd.traces(limit=1000) if trace["owner_uid"] == directory.uid and trace["stored"]]


@needs_root
def test_a_sparse_file_displaces_nothing(tmp_path, directories):
    greedy, victim, _ = directories
    with watching(tmp_path, directories, "max_use=64M") as profd:
        for _ in range(5):
            assert bring_in(profd, victim, dense_trace(MIB))["stored"]
        trace = bring_in(profd, greedy, dense_trace(8000), extended_to=63 * MIB)
        assert trace["state"] == "corrupt" and trace["size"] == 63 * MIB
        assert "zero bytes follow the end of the last gzip member at byte " in trace["reason"]
        assert len(stored_of(profd, victim)) == 5
        # The copy has the same holes, and only what is on the disk counts.
        assert trace["stored"] and sha256(trace["path"]) == trace["sha256"] == sha256(trace["origin"])
        assert trace["disk_size"] == disk_size(trace["path"]) < 64 << 10
        assert profd.get("/v1/usage")["bytes"] < 7 * MIB
        check_agreement(profd)


@needs_root
def test_holes_within_a_file_stay_holes(tmp_path, directories):
    content = dense_trace(100_000)
    with watching(tmp_path, directories, "max_use=8M") as profd:
        path = directories[0].path / "rank1.1700000000000000000.pt.trace.json.gz"
        with open(path, "wb") as file:
            file.write(content)
            file.seek(40 * MIB + 77)
            file.write(content)
            file.truncate(90 * MIB + 5)
        trace = wait_for(lambda: profd.traces(), why=profd.log)[0]
        assert trace["stored"] and sha256(trace["path"]) == sha256(path) and trace["size"] == 90 * MIB + 5
        assert trace["disk_size"] == disk_size(trace["path"]) < MIB


@needs_root
def test_a_flood_displaces_its_own(tmp_path, directories):
    """Whoever is above his share loses what he wrote first; whoever is below it loses nothing."""
    greedy, victim, _ = directories
    with watching(tmp_path, directories, "max_use=12M") as profd:
        kept = [bring_in(profd, victim, dense_trace(MIB))["trace"] for _ in range(5)]
        for _ in range(15):
            bring_in(profd, greedy, dense_trace(MIB))
        assert sorted(trace["trace"] for trace in stored_of(profd, victim)) == sorted(kept)
        usage = profd.get("/v1/usage")
        assert usage["bytes"] <= 12 * MIB and 5 <= len(stored_of(profd, greedy)) <= 6
        # The next of the victim takes what the other has above his share.
        bring_in(profd, victim, dense_trace(500_000))
        assert len(stored_of(profd, victim)) == 6 and profd.get("/v1/usage")["bytes"] <= 12 * MIB
        assert {user["user"] for user in usage["users"]} == {f"uid {GREEDY}", f"uid {VICTIM}"}
        assert usage["share"] == 6 * MIB and sum(user["bytes"] for user in usage["users"]) == usage["bytes"]
        check_agreement(profd)


@needs_root
def test_what_exceeds_a_share_is_left_in_place(tmp_path, directories):
    greedy, victim, _ = directories
    with watching(tmp_path, directories, "max_use=12M") as profd:
        for _ in range(5):
            bring_in(profd, victim, dense_trace(MIB))
        mine = bring_in(profd, greedy, dense_trace(MIB))
        assert profd.request("PUT", f"/v1/traces/{mine['trace']}/pin").status == 200
        trace = bring_in(profd, greedy, dense_trace(7 * MIB))
        assert trace["state"] == "complete" and not trace["stored"] and trace["path"] == trace["origin"]
        assert trace["reason"] == (f"left in place: no room in the store for uid {GREEDY} beyond a share of 6.0 MiB"
                                   " ([store] per_user=; see profctl du)")
        assert len(stored_of(profd, victim)) == 5 and len(stored_of(profd, greedy)) == 1
        # It is one event of the log, and the file is not read again and again.
        assert profd.log().count("is left in place: no room in the store for uid") == 1


@needs_root
@pytest.mark.parametrize("per_user", ["2M", "20%"])
def test_a_share_that_is_set(tmp_path, directories, per_user):
    """Less is protected of each, and the one who holds most gives way."""
    greedy, victim, _ = directories
    with watching(tmp_path, directories, f"max_use=10M\nper_user={per_user}") as profd:
        for _ in range(8):
            bring_in(profd, victim, dense_trace(MIB))
        assert profd.get("/v1/usage")["share"] == 2 * MIB
        said = subprocess.run([BUILD / "client/profctl", "--socket", profd.socket, "du"], capture_output=True, text=True,
                              timeout=60, check=True).stdout
        assert "Share:  2.0 MiB for each user (per_user)" in said and f"Users:  uid {VICTIM}: " in said, said
        for _ in range(8):
            bring_in(profd, greedy, dense_trace(MIB))
        assert 4 <= len(stored_of(profd, victim)) <= 5 and 4 <= len(stored_of(profd, greedy)) <= 5


def test_workers_of_one_owner_are_distinguished(tmp_path):
    """Where all is root's, owners say nothing: a worker displaces nothing of another that is below its share."""
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "huge=1") as fleet, \
            Daemon(tmp_path / "profd", config(more="[store]\nmax_use=7M\nkeep_free=1M")) as profd:
        for _ in range(2):
            record(profd, fleet, workers=[fleet.workers[1]])
        for _ in range(6):
            assert record(profd, fleet, workers=[fleet.workers[0]])["state"] == "complete"
        if os.getuid() == 0:
            assert names(profd)[:2] == ["t1", "t2"]
            users = {user["user"] for user in profd.get("/v1/usage")["users"]}
            assert users == set(fleet.workers)
        else:  # one user, who has all of it
            assert "t1" not in names(profd)
        check_agreement(profd)


@needs_root
def test_du_shows_who_holds_what(tmp_path, directories):
    greedy, victim, _ = directories
    with watching(tmp_path, directories, "max_use=12M") as profd:
        bring_in(profd, victim, dense_trace(MIB))
        bring_in(profd, greedy, dense_trace(2 * MIB))

        def profctl(*words):
            return subprocess.run([BUILD / "client/profctl", "--socket", profd.socket, *words], capture_output=True, text=True,
                                  timeout=60, check=True).stdout

        said = profctl("du")
        assert "Share:  6.0 MiB for each of 2 users (per_user)" in said, said
        assert any(f"uid {GREEDY}" in line and "2.0" in line for line in said.splitlines()), said
        assert json.loads(profctl("du", "--json"))["users"][0]["user"] == f"uid {GREEDY}"
