# SPDX-License-Identifier: Apache-2.0
"""Answers about what profd recorded: a real profd, a fleet with several ranks, and profctl asked for sessions and traces by name."""
import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from daemon import BUILD, Daemon, FaultFleet, quick_config

PROFCTL = BUILD / "client" / "profctl"
RANKS, STEPS = 3, 4  # of a worker, of a trace that it writes
WORKERS = 2
SHORT_NS = 100_000_000
KERNEL = "fault_gemm_kernel"


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    """Two sessions of two workers, and one in which a worker's traces are empty."""
    home = tmp_path_factory.mktemp("answers")
    with FaultFleet(home / "fleet", "vllm", WORKERS, "--ranks", str(RANKS)) as fleet, Daemon(home / "profd", quick_config()) as profd:
        for fault in (None, None, "zero-byte"):
            if fault:
                fleet.set_fault(fault, workers="1")
            profd.wait_session(profd.start_session(router=fleet.router, duration_ns=SHORT_NS)["session"])
        yield profd


@pytest.fixture
def profctl(profd, tmp_path):
    def run(*words, status=0):
        done = subprocess.run([PROFCTL, *map(str, words)], capture_output=True, timeout=60, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PROFD_SOCKET": str(profd.socket), "XDG_CACHE_HOME": str(tmp_path / "cache"),
                                   "LC_ALL": "C.UTF-8"})
        assert done.returncode == status, done.stderr
        return done

    return run


def rows(done):
    return json.loads(done.stdout)["rows"]


def traces_of(profd, session):
    return [trace["trace"] for trace in profd.traces(session=session)]


def test_a_session_is_all_its_ranks(profctl, profd):
    screen = profctl("analyze", "s1").stdout
    assert screen.startswith(f"s1 · {WORKERS * RANKS} ranks in {WORKERS} engine instances · Fault GPU")
    assert len(rows(profctl("analyze", "s1", "--report", "temporal", "--json"))) == WORKERS * RANKS
    assert len(rows(profctl("analyze", "s1", "--report", "steps", "--json"))) == WORKERS * RANKS * STEPS
    kernels = rows(profctl("analyze", "s1", "--report", "kernels", "--json"))
    assert [(kernel["name"], kernel["count"]) for kernel in kernels] == [(KERNEL, RANKS * STEPS)] * WORKERS
    # What is asked of one of them with all others is the same.
    [trace, *_] = traces_of(profd, "s1")
    assert rows(profctl("analyze", trace, "--all-ranks", "--report", "kernels", "--json")) == kernels


def test_workers_are_instances(profctl, profd):
    """Replicas share no collective, although each has a rank 0: no rank of one is a straggler of the other."""
    instances = rows(profctl("analyze", "s1", "--report", "instances", "--json"))
    workers = sorted({trace["worker"].removeprefix("http://") for trace in profd.traces(session="s1")})
    assert sorted(row["instance"] for row in instances) == workers and [row["ranks"] for row in instances] == [RANKS] * WORKERS
    for report in ("temporal", "overlap", "ranks"):
        found = rows(profctl("analyze", "s1", "--report", report, "--json"))
        of_ranks = sorted((row["instance"], row["rank"]) for row in found if row["rank"] is not None)
        assert of_ranks == [(worker, rank) for worker in workers for rank in range(RANKS)]
    [one] = rows(profctl("analyze", "s1", "--instance", workers[1], "--rank", "2", "--report", "temporal", "--json"))
    assert "instance" not in one and one["rank"] == 2
    assert "there is no engine instance nobody" in profctl("analyze", "s1", "--instance", "nobody", status=4).stderr


def test_the_catalog_has_the_instance(profctl, profd):
    for trace in profd.traces(session="s1"):
        assert trace["instance"] == trace["worker"].removeprefix("http://")
    found = profd.rows("select worker, instance, count(*) from traces where session_id = 1 group by 1, 2 order by 1")
    assert [tuple(row.values()) for row in found] == [(row["worker"], row["worker"].removeprefix("http://"), RANKS) for row in found]
    assert len(found) == WORKERS


def test_a_merged_session_keeps_its_workers(profctl, tmp_path):
    profctl("merge", "--session", "s1", "-o", tmp_path / "all.json.gz")
    for report in ("instances", "ranks", "steps"):
        of_file, of_session = (rows(profctl("analyze", source, "--report", report, "--json")) for source in (tmp_path / "all.json.gz", "s1"))
        for row in of_file + of_session:
            row.pop("clock_shift_ns", None)
        assert of_file == of_session


def test_one_trace_of_it(profctl, profd):
    [trace, *_] = traces_of(profd, "s1")
    [kernel] = rows(profctl("analyze", trace, "--report", "kernels", "--json"))
    assert kernel["count"] == STEPS
    found = rows(profctl("analyze", "s1", "--rank", "0", "--report", "temporal", "--json"))
    assert len(found) == WORKERS and all(one["span_ns"] > 0 for one in found)


def test_two_sessions_at_the_same_time(profctl):
    tables = json.loads(profctl("diff", "s1", "s2", "--json").stdout)
    [kernel] = tables["kernels"]["rows"]
    assert (kernel["name"], kernel["before_count"], kernel["after_count"]) == (KERNEL, 1, 1)
    assert {"step.p50", "gpu.busy"} <= {row["measure"] for row in tables["measures"]["rows"]}
    assert json.loads(profctl("diff", "s1", "s1", "--json", "--fail-if", "step.p50 > +1%").stdout)
    assert "failed: gpu.busy > 1ns" in profctl("diff", "s1", "s2", "--fail-if", "gpu.busy > 1ns", status=5).stderr


def test_a_flame_graph_of_a_trace(profctl, profd, tmp_path):
    [trace, *_] = traces_of(profd, "s1")
    profctl("flame", trace, "-o", tmp_path / "f.svg")
    names = {g.get("data-n") for g in ElementTree.parse(tmp_path / "f.svg").iter("{http://www.w3.org/2000/svg}g")}
    assert {"aten::mm", KERNEL} <= names


def test_what_was_not_read_is_left_out(profctl):
    done = profctl("analyze", "s3", "--report", "temporal", "--json", status=3)
    assert len(rows(done)) == RANKS
    assert f"{RANKS} of {WORKERS * RANKS} traces could not be read, and are left out" in done.stderr


def test_what_is_not_there(profctl):
    assert "s99" in profctl("analyze", "s99", status=4).stderr
    assert "t9999" in profctl("flame", "t9999", status=4).stderr
    assert f"Available ranks: 0 to {RANKS - 1}." in profctl("analyze", "s1", "--rank", "17", status=4).stderr
    assert f"Available steps: 0 to {STEPS - 1}." in profctl("analyze", "s1", "--step", "17", status=4).stderr
