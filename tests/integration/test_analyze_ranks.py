# SPDX-License-Identifier: Apache-2.0
"""What is said of several ranks: composed ones with known answers, and real ones."""
import json
import os
import pathlib
import subprocess

import pytest

from real_traces import TRACES

PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"
US = 1000


@pytest.fixture
def analyze(tmp_path):
    def run(*words):
        r = subprocess.run([PROFCTL, "analyze", "--json", *words], capture_output=True, timeout=120, cwd=tmp_path,
                           env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
        assert r.returncode == 0, r.stderr.decode()
        return json.loads(r.stdout)["rows"]

    return run


def kernel(name, ts, dur, **args):
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur,
            "args": {"stream": 7, "device": 0, **args}}


def make_rank(directory, number, steps, late=0, skip=0, world=3, shift=0):
    """Each step of 1000 us: a product of 100 us (and what makes this rank late), then an all-reduce that everybody leaves at 500."""
    events = []
    for i in range(skip, steps):
        begin = 1000 * i + shift
        events += [kernel("gemm_kernel", begin, 100 + late),
                   kernel("ncclDevKernel_AllReduce", begin + 100 + late, 400 - late, **{
                       "Collective name": "allreduce", "Process Group Name": "0", "In msg nelems": 64, "dtype": "Float"})]
    info = {"backend": "nccl", "rank": number, "world_size": world}
    (directory / f"rank{number}.json").write_text(json.dumps({"distributedInfo": info, "baseTimeNanoseconds": 0, "traceEvents": events}))


def by_rank(rows):
    return {row["rank"]: row for row in rows if row["rank"] is not None}


def test_who_is_late(analyze, tmp_path):
    for number, late in enumerate((0, 30, 10)):
        make_rank(tmp_path, number, 5, late)
    found = by_rank(analyze(tmp_path, "--report", "stragglers"))
    assert [found[i]["last_count"] for i in range(3)] == [0, 5, 0]
    # The others wait 30 and 20 us each time; without it the last would be 10 us late.
    assert found[1]["wait_caused_ns"] == 5 * 50 * US and found[1]["delay_ns"] == 5 * 20 * US
    assert found[0]["waited_ns"] == 5 * 30 * US and found[1]["waited_ns"] == 0
    # Before the first nothing is known. The median rank is 20 us faster in its product.
    assert (found[1]["meanwhile"], found[1]["meanwhile_ns"]) == ("gemm", 4 * 20 * US)


@pytest.mark.parametrize("skip", [1, 3])
def test_recordings_that_begin_later(analyze, tmp_path, skip):
    make_rank(tmp_path, 0, 12)
    make_rank(tmp_path, 1, 12, 30)
    make_rank(tmp_path, 2, 12, 10, skip=skip)
    found = by_rank(analyze(tmp_path, "--report", "stragglers"))
    assert found[1]["last_count"] == 12 - skip and found[1]["delay_ns"] == (12 - skip) * 20 * US


def test_a_clock_that_is_off(analyze, tmp_path):
    for number in range(3):
        make_rank(tmp_path, number, 12, 10 * number, shift=5000 if number == 2 else 0)
    ranks = by_rank(analyze(tmp_path, "--report", "ranks"))
    assert ranks[2]["clock_shift_ns"] == -5000 * US and ranks[2]["clock_error_ns"] == 0
    assert by_rank(analyze(tmp_path, "--report", "stragglers"))[2]["last_count"] == 12


def test_side_by_side(analyze, tmp_path):
    for number in range(6):
        make_rank(tmp_path, number, 5, 200 if number == 4 else 0, world=8)
    rows = analyze(tmp_path, "--report", "ranks")
    found = by_rank(rows)
    assert found[4]["comm_ns"] == 5 * 200 * US and found[4]["outlier"] == "comm low"
    assert {found[i]["outlier"] for i in (0, 1, 2, 3, 5)} == {None}
    assert [found[i]["outlier"] for i in (6, 7)] == ["missing"] * 2 and found[6]["busy_ns"] is None
    usual = {row["who"]: row for row in rows if row["rank"] is None}
    assert [usual[who]["comm_ns"] for who in ("min", "median", "max")] == [5 * 200 * US, 5 * 400 * US, 5 * 400 * US]


def test_an_uneven_share(analyze, tmp_path):
    for number in range(4):
        make_rank(tmp_path, number, 5, 100 if number == 3 else 0, world=4)
    share = {row["category"]: row for row in analyze(tmp_path, "--report", "imbalance")}
    assert share["gemm"]["max_rank"] == 3 and share["gemm"]["max_ns"] == 5 * 200 * US
    assert share["gemm"]["mean_ns"] == 5 * 125 * US and share["gemm"]["factor"] == pytest.approx(1.6)
    assert share["gemm"]["cost_ns"] == 5 * 75 * US


def test_a_file_brings_its_directory(analyze, tmp_path):
    for number in range(3):
        make_rank(tmp_path, number, 5)
    assert len(analyze(tmp_path / "rank1.json", "--all-ranks", "--report", "temporal")) == 3
    assert [row["rank"] for row in analyze(tmp_path / "rank1.json", "--all-ranks", "--rank", "0", "--report", "temporal")] == [0]


def test_what_cannot_be_read_is_left_out(tmp_path):
    """Of a directory; what somebody named himself has to be there."""
    def run(*words):
        return subprocess.run([PROFCTL, "analyze", "--report", "temporal", "--json", *words], capture_output=True, timeout=120, text=True,
                              env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})

    traces = tmp_path / "traces"
    traces.mkdir()
    for number in range(3):
        make_rank(traces, number, 5)
    (traces / "rank3.json").write_text("no trace")
    for _ in ("afresh", "from columns"):
        done = run(traces)
        assert done.returncode == 3 and [row["rank"] for row in json.loads(done.stdout)["rows"]] == [0, 1, 2]
        assert "rank3.json" in done.stderr and "1 of 4 traces could not be read, and is left out" in done.stderr
    assert run(*sorted(traces.iterdir())).returncode == 1
    for path in traces.glob("rank[012].json"):
        path.unlink()
    done = run(traces)
    assert done.returncode == 1 and done.stdout == "" and "left out" not in done.stderr


def test_a_rank_that_is_not_there(tmp_path):
    for number in range(3):
        make_rank(tmp_path, number, 2)
    r = subprocess.run([PROFCTL, "analyze", tmp_path, "--rank", "7"], capture_output=True, timeout=120, text=True,
                       env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert r.returncode == 4 and "there is no rank 7" in r.stderr and "Available ranks: 0 to 2." in r.stderr


def test_how_many_events_each_has(tmp_path):
    for number in range(3):
        make_rank(tmp_path, number, 5 + number)
    r = subprocess.run([PROFCTL, "analyze", tmp_path], capture_output=True, timeout=120, text=True,
                       env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "LC_ALL": "C.UTF-8"})
    assert "10 to 14 GPU events each" in r.stdout.splitlines()[0] + r.stdout.splitlines()[1]


def test_a_single_trace_has_no_ranks(tmp_path):
    make_rank(tmp_path, 0, 2)
    r = subprocess.run([PROFCTL, "analyze", tmp_path / "rank0.json", "--report", "stragglers"], capture_output=True, timeout=120,
                       env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert r.returncode == 4 and b"contains no events for this report" in r.stderr


@pytest.mark.parametrize("name", ["sglang_decode_8rank", "lightllm_decode_8rank", "torchrec_sst4_4rank"])
def test_real_ranks(analyze, name):
    rows = analyze(TRACES / name, "--report", "stragglers")
    ranks = len(list((TRACES / name).iterdir()))
    assert len(rows) == ranks and sum(row["last_share"] for row in rows) == pytest.approx(1)
    # Whoever waits, waits for somebody.
    assert sum(row["wait_caused_ns"] for row in rows) == sum(row["waited_ns"] for row in rows)
    for row in analyze(TRACES / name, "--report", "ranks"):
        if row["rank"] is not None:
            assert row["busy_ns"] + row["idle_ns"] == row["span_ns"] and row["exposed_ns"] <= row["comm_ns"]
