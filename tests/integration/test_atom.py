# SPDX-License-Identifier: Apache-2.0
"""ATOM as users record it: what it cannot do is refused before the start; its traces, in a directory for each rank."""

import json

from recorded_engines import STEP, listed, post, profctl, ranks, record, serving
from recorded_engines import make_fleet, start_profd  # noqa: F401 (fixtures)


def test_atom_refuses_steps(profd, fleet):
    """Nothing would end such a recording."""
    worker = fleet.add_atom(*STEP)
    fleet.wait_ready()
    status, _, err = profctl(profd, "start", "--worker", worker.url, "--steps", "5")
    assert status != 0 and "do not count steps" in err and "Use --duration" in err
    assert not list(worker.trace_dir.glob("**/*.gz"))


def test_atom_with_details_takes_them(profd, fleet):
    worker = fleet.add_atom(*STEP, env={"ATOM_PROFILER_MORE": "1"})
    fleet.wait_ready()
    status, session, traces, err = record(profd, worker, "--duration", "300ms", "--with-stack", "--record-shapes")
    assert status == 0 and len(traces) == 1 and "started without" not in json.dumps(session), (session, err)


def test_atom_without_a_directory(profd, fleet):
    """A start would succeed and record nothing; the variable that its documentation names has no effect."""
    worker = fleet.add_atom(*STEP, trace_dir=False, env={"ATOM_TORCH_PROFILER_DIR": str(fleet.directory / "env")})
    fleet.wait_ready()
    status, _, err = profctl(profd, "start", "--worker", worker.url, "--duration", "300ms")
    assert status != 0 and "without --torch-profiler-dir" in err and "ATOM_TORCH_PROFILER_DIR has no effect" in err, err


def test_atom_of_several_data_parallel_ranks(profd, fleet):
    worker = fleet.add_atom(*STEP, "-tp", "2", "--data-parallel-size", "2", "--compress-s", "0.3")
    fleet.wait_ready()
    status, session, traces, err = record(profd, worker, "--duration", "300ms")
    assert status == 0 and session["state"] == "complete", (session, err)
    assert [(dp, tp) for _, tp, dp in ranks(traces)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(trace["name"].endswith(".gz") for trace in traces), traces  # not the file that it compresses
    assert len(profd.traces()) == 4


def test_atom_links_are_not_followed(profd, fleet, tmp_path):
    """The directory of a rank is the worker's own word: a link is not followed."""
    worker = fleet.add_atom(*STEP, "-tp", "2")
    fleet.wait_ready()
    elsewhere = tmp_path / "elsewhere"
    (worker.trace_dir / "rank_1").rename(elsewhere)
    (worker.trace_dir / "rank_1").symlink_to(elsewhere)
    _, session, traces, _ = record(profd, worker, "--duration", "300ms")
    assert [rank for rank, _, _ in ranks(traces)] == [0] and session["state"] == "partial", session
    assert list(elsewhere.glob("*.gz"))


def test_atom_files_are_imported_with_their_ranks(profd, fleet):
    """What ATOM wrote without profd: the rank is in the name of the directory."""
    worker = fleet.add_atom(*STEP, "--data-parallel-size", "2")
    fleet.wait_ready()
    with serving(worker):
        assert post(worker.url + "/start_profile")[0] == 200
        assert post(worker.url + "/stop_profile")[0] == 200
    status, _, err = profctl(profd, "ingest", *worker.trace_dir.glob("*/*.gz"))
    assert status == 0 and [(dp, tp) for _, tp, dp in ranks(profd.traces())] == [(0, 0), (1, 0)], err


def test_atom_roles(profd, fleet):
    prefill, decode = (fleet.add_atom(*STEP, "--kv-role", role) for role in ("kv_producer", "kv_consumer"))
    fleet.wait_ready()
    assert [worker["role"] for worker in listed(profd, prefill, decode)] == ["prefill", "decode"]
