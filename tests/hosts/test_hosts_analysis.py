# SPDX-License-Identifier: Apache-2.0
"""Traces of a session over three hosts, analyzed from one of them: each verb prints what it prints for the same files here; and what it
prints where a trace was removed, or a host is dead or cut off."""
import contextlib
import gzip
import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent)]

from hosts import PROFCTL, Hosts  # noqa: E402
from network import why_not  # noqa: E402
from wall_clock import why_not as why_no_clock  # noqa: E402

from daemon import wait_for  # noqa: E402
from real_traces import CORPUS  # noqa: E402

NS_PER_S = 1_000_000_000
RANKS = CORPUS / "sglang_decode_8rank"
SHARED = CORPUS / "hta/nccl_data_rank0.json.gz"
RANKS_PER_HOST = 2
CLOCK_ERROR_S = -70  # of gpu3

pytestmark = pytest.mark.skipif(why_not() is not None or not RANKS.exists(), reason=str(why_not() or "no real traces"))


class RealTraces(Hosts):
    """Its workers leave real traces in place of made ones: on each host a rank of a job of eight, and one whose collectives
    are those of the other hosts, at the same time."""

    def record(self, coordinator, world=RANKS_PER_HOST):
        """A session of engines with two ranks each, or of one engine whose world is that of all hosts."""
        for host in self:
            host.fleet.set_fault("no-trace")
        session = coordinator.start_session(router=self.router, duration_ns=NS_PER_S)["session"]
        wait_for(lambda: coordinator.get(f"/v1/sessions/{session}")["state"] == "recording", 30)
        for host in self:
            directory = host.machine.root / str(host.machine.disk).lstrip("/") / "w0"
            directory.mkdir(exist_ok=True)
            for tp, real in enumerate((RANKS / f"rank{host.number}.pt.trace.json.gz", SHARED)):
                name = f"dp0_pp0_tp{tp}_dcp0_ep0_rank{tp}.{host.number}.pt.trace.json.gz"
                rank = tp + (host.number - 1) * RANKS_PER_HOST * (world > RANKS_PER_HOST)
                (directory / name).write_bytes(stamped(real, host.clock.offset_s if host.clock else 0, rank, world))
        coordinator.wait_session(session)
        return session


def stamped(path, offset_s, rank, world):
    """A trace of that rank, by a clock that is wrong by offset_s."""
    text = re.sub(rb'"rank": \d+, "world_size": \d+', b'"rank": %d, "world_size": %d' % (rank, world), gzip.decompress(path.read_bytes()), count=1)
    base = re.search(rb'"baseTimeNanoseconds": (\d+)', text)
    return gzip.compress(text.replace(base[1], b"%d" % (int(base[1]) + offset_s * NS_PER_S)), 1)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with RealTraces(tmp_path_factory.mktemp("hosts"), 3, 1, options=("--ranks", str(RANKS_PER_HOST)), offsets_s=(0, 0, CLOCK_ERROR_S)) as hosts:
        hosts.session = hosts.record(hosts[1])
        hosts.traces = sorted(hosts[1].get("/v1/traces", session=hosts.session)["traces"], key=lambda t: (t["host"], t["name"]))
        assert [t["host"] for t in hosts.traces] == ["gpu1", "gpu1", "gpu2", "gpu2", "gpu3", "gpu3"]
        yield hosts


def run(host, *words, status=0, cwd=None):
    """(standard output, standard error) of profctl on a host, in a directory; a new cache each time."""
    with host.machine.inside():
        done = subprocess.run([*host.machine.enter, "env", "-C", str(cwd or host.place), PROFCTL, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=300, check=False, env={**os.environ, "PROFD_SOCKET": str(host.socket), "NO_COLOR": "1", "COLUMNS": "100",
                                                             "XDG_CACHE_HOME": str(host.place / f"cache-{time.monotonic_ns()}")})
    assert done.returncode == status, f"profctl {words} ended with {done.returncode}: {done.stderr.decode()}"
    return done.stdout, done.stderr.decode()


def rows(host, *words, cwd=None):
    return json.loads(run(host, *words, "--json", cwd=cwd)[0])


@pytest.fixture(scope="module")
def copy(fleet):
    """The files of the session on the first host, below a directory for each host: {id: path from there}."""
    one = fleet[1]
    place = one.place / "copy"
    run(one, "get", fleet.session, "-d", place)
    files = {}
    for trace in fleet.traces:
        files[trace["trace"]] = f"{trace['host']}/{trace['name']}"
        (place / trace["host"]).mkdir(exist_ok=True)
        (place / trace["name"]).rename(place / files[trace["trace"]])
    return files


def remote(fleet):
    return [trace for trace in fleet.traces if trace["host"] != "gpu1"]


def test_files_arrive_by_id_uuid_and_prefix(fleet, copy):
    one = fleet[1]
    for trace in fleet.traces:
        for word in (trace["trace"], trace["uuid"], trace["uuid"][:13]):
            data = run(one, "get", word, "-o", "-")[0]
            assert hashlib.sha256(data).hexdigest() == trace["sha256"]
        assert (one.place / "copy" / copy[trace["trace"]]).read_bytes() == data


def test_a_trace_is_what_its_file_is(fleet, copy):
    """Reports, SQL, comparisons, flame graphs and exports of traces that other hosts keep equal those of their files."""
    one, cwd = fleet[1], fleet[1].place / "copy"
    [*_, first, last] = [trace["trace"] for trace in remote(fleet)]

    def unnamed(text):
        return text.replace(copy[last].rsplit("/")[-1].encode(), b"").replace(last.encode(), b"")

    for report in ("kernels", "gaps", "temporal", "ops"):
        there, here = (rows(one, "analyze", word, "--report", report, cwd=cwd) for word in (last, copy[last]))
        assert there["rows"] == here["rows"] and here["rows"]
    for sql in ("select category, count(*), sum(dur) from slice group by 1 order by 1", "select * from kernel order by ts limit 20",
                "select key, count(*) from args group by 1 order by 1 limit 9", "select avg(dur) as \"a b\", null, 1e300, 'ä' from slice",
                "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100001) select i, 0.1 * i from n"):
        for form in ("--csv", "--json"):
            there, here = (run(one, "query", word, sql, form, cwd=cwd)[0] for word in (last, copy[last]))
            assert there == here and len(here.splitlines()) > 1, sql
    # It ran where the trace is, and an error is explained as that of a file.
    assert "row, " in (noted := run(one, "query", last, "select 1")[1]) and " on gpu3" in noted, noted
    assert "sends 100000 rows at most" in run(one, "query", last, "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100001) select i from n", "--csv")[1]
    assert all("no such column: nme" in run(one, "query", word, "select nme from slice", status=1, cwd=cwd)[1] for word in (last, copy[last]))
    assert run(one, "query", last, "select count(*) from slice; select 2", "--csv")[0].decode().splitlines()[-1] == "2"
    there, here = (rows(one, "diff", *words, cwd=cwd) for words in ((first, last), (copy[first], copy[last])))
    assert {name: part["rows"] for name, part in there.items()} == {name: part["rows"] for name, part in here.items()}
    for how in ("op", "kernel"):
        there, here = (unnamed(run(one, "flame", word, "--by", how, "-o", "-", cwd=cwd)[0]) for word in (last, copy[last]))
        assert there == here and len(here) > 10_000
    for form in ("collapsed", "csv", "perfetto", "speedscope"):
        there, here = (unnamed(run(one, "export", word, "--format", form, "-o", "-", cwd=cwd)[0]) for word in (last, copy[last]))
        assert there == here, form


def test_a_session_is_its_files(fleet, copy):
    one, cwd = fleet[1], fleet[1].place / "copy"
    found = rows(one, "analyze", fleet.session, "--report", "kernels", cwd=cwd)["rows"]
    assert len({row["instance"] for row in found}) == len(copy)
    its = [row for path in copy.values() for row in rows(one, "analyze", path, "--report", "kernels", cwd=cwd)["rows"]]
    assert sorted(json.dumps({k: v for k, v in row.items() if k != "instance"}) for row in found) == sorted(map(json.dumps, its))
    sql = "select category, count(*), sum(dur) from slice group by 1 order by 1"
    assert run(one, "query", fleet.session, sql, "--csv")[0] == run(one, "query", ".", sql, "--csv", cwd=cwd)[0]
    slices = sum(trace["slices"] for trace in fleet.traces)
    assert f"{slices:,} slices" in run(one, "export", fleet.session, "--format", "parquet", "-o", "s.parquet")[1]
    assert "same" in run(one, "diff", fleet.session, fleet.session)[0].decode()
    # From another host by its UUID it is that host's part, which names the coordinator.
    session = one.get(f"/v1/sessions/{fleet.session}")
    shown = run(fleet[2], "show", session["uuid"])[0].decode()
    assert f"Coordinator:  gpu1; profctl show {session['uuid']} there shows all hosts" in shown and "  regular  " in shown
    # The largest kernels and the paths of a trace, as its own host shows them.
    there = remote(fleet)[0]
    here = run(one, "show", there["trace"])[0].decode()
    assert f"Kept in:  gpu2:{there['path']}" in here and f" gpu2:{there['columns']}" in here and "KERNEL" in here
    assert here.split("KERNEL")[1].splitlines()[1:11] == run(fleet[2], "show", there["uuid"])[0].decode().split("KERNEL")[1].splitlines()[1:11]


def test_sizes_and_times_are_of_one_kind(fleet):
    one = fleet[1]
    counts = one.get(f"/v1/sessions/{fleet.session}")["counts"]
    assert counts["bytes"] == sum(t["size"] for t in fleet.traces)
    assert counts["disk_bytes"] == sum(t["disk_size"] for t in fleet.traces if t["host"] == "gpu1")
    assert counts["remote_bytes"] == sum(t["size"] for t in remote(fleet))
    assert "OTHER HOSTS" in run(one, "du")[0].decode() and "OTHER HOSTS" not in run(fleet[2], "du")[0].decode()
    if why_no_clock():
        return
    # gpu3 is 70 s behind: its times are shown by the clock of the host that was asked.
    theirs = [t["recorded_at"] for t in fleet[3].get("/v1/traces")["traces"]]
    ours = [t for t in fleet.traces if t["host"] == "gpu3"]
    assert all(abs(t["clock_offset_ns"] - CLOCK_ERROR_S * NS_PER_S) < NS_PER_S // 10 and 0 < t["clock_error_ns"] < NS_PER_S // 10 for t in ours)
    assert sorted(t["recorded_at"] + t["clock_offset_ns"] for t in ours) == sorted(theirs)
    begin = one.get(f"/v1/sessions/{fleet.session}")["requested_at"]
    assert len(one.get("/v1/traces", since=begin)["traces"]) == len(fleet.traces)


def clock_notes(errors):
    return [line for line in errors.splitlines() if re.match("gpu.*clock", line)]


def first_kernels(path):
    """When the first kernel of each GPU of a merged trace began, in microseconds."""
    first = {}
    for e in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        if e.get("cat") == "kernel":
            first[e["pid"]] = min(first.get(e["pid"], e["ts"]), e["ts"])
    return list(first.values())


def change_clock(fleet, sql):
    """What the coordinator measured of gpu3."""
    one = fleet[1]
    one.stop()
    with contextlib.closing(sqlite3.connect(one.catalog)) as catalog, catalog:
        catalog.execute(f"update target_row set {sql} where host = 'gpu3'")
    one.start()


@pytest.mark.skipif(why_no_clock() is not None, reason=str(why_no_clock()))
def test_clocks_of_hosts_are_aligned_and_it_is_said_how(fleet, copy):
    one, place = fleet[1], fleet[1].place
    ids = [trace["trace"] for trace in fleet.traces if "_tp1_" in trace["name"]]
    alone = [trace["trace"] for trace in fleet.traces if "_tp0_" in trace["name"]]
    measured, collectives = r"gpu3: clock corrected by its measured difference of -1min 10s, certain to ±", r"gpu3: clock aligned by 21 collectives shared with gpu1, certain to ±"
    for name, words, how, error_us in (("auto", ids, collectives, 1), ("wall", [*ids, "--align", "wall"], measured, 20_000), ("alone", alone, measured, 2e6)):
        noted = clock_notes(run(one, "merge", *words, "-o", place / f"{name}.json.gz")[1])
        first = first_kernels(place / f"{name}.json.gz")
        # They are of the same moment, although gpu3's clock is 70 s behind.
        assert len(first) == len(ids) and max(first) - min(first) < error_us, (noted, first)
        assert [line.split(":")[0] for line in noted] == ["gpu2", "gpu3"] and re.match(how, noted[1]), noted
    assert re.match(collectives, clock_notes(run(one, "merge", "--session", fleet.session, "-o", place / "all.json.gz")[1])[1])
    # A session as a word, by its id and by its UUID, is merged as with --session; formats of one trace name merge.
    for word in (fleet.session, one.session(fleet.session)["uuid"]):
        run(one, "merge", word, "-o", place / "word.json.gz")
        assert len(first_kernels(place / "word.json.gz")) == len(first_kernels(place / "all.json.gz"))
    assert "merge --session" in run(one, "export", fleet.session, "--format", "perfetto", "-o", place / "one", status=2)[1]
    # Where no host differs, no clock is mentioned: of one host, of files, of instances that are compared one by one.
    two = [trace["trace"] for trace in fleet.traces if trace["host"] == "gpu3"]
    assert not clock_notes(run(one, "merge", *two, "-o", place / "two.json.gz")[1])
    assert not clock_notes(run(one, "merge", "copy/gpu3", "-o", place / "files.json.gz")[1])
    assert not clock_notes(run(one, "analyze", fleet.session)[1])
    assert not clock_notes(run(one, "merge", *ids, "--align", "start", "-o", place / "start.json.gz")[1])
    # Servers of three hosts that are one engine are analyzed together, and their clocks matter.
    together = fleet.record(one, 6)
    shown = run(one, "analyze", together)
    assert "6 ranks in 2 engine instances" in shown[0].decode(), shown
    # One note for each host of each engine instance, which it names.
    noted = [line.split(": clock ")[0] for line in clock_notes(shown[1])]
    named = re.compile(r"(gpu\d) \((.+)\)").fullmatch
    assert sorted(named(line)[1] for line in noted) == ["gpu2", "gpu2", "gpu3", "gpu3"] and len(set(noted)) == 4, shown[1]
    assert "gpu3" in [named(line)[1] for line, text in zip(noted, clock_notes(shown[1])) if "aligned by 21 collectives shared with gpu1" in text], shown[1]
    merged = clock_notes(run(one, "merge", "--session", together, "-o", place / "together.json.gz")[1])
    assert [line.split(": clock ")[0] for line in merged] == ["gpu2", "gpu3"], "merge compares all traces with each other"
    counts = [sum(row["count"] for row in rows(one, "analyze", word, "--report", "kernels")["rows"]) for word in (together, fleet.session)]
    assert counts[0] == counts[1] > 0
    # Collectives that contradict what was measured are not believed: the recording may have begun between two of them.
    change_clock(fleet, "clock_offset_ns = clock_offset_ns + 30000000")
    try:
        noted = clock_notes(run(one, "merge", *ids, "-o", place / "wrong.json.gz")[1])
        assert re.search(r"gpu3: .*measured difference of -1min 10s, certain to ±.* shared with gpu1, which end -?\d+ ms apart, are not used", "\n".join(noted)), noted
        change_clock(fleet, "clock_offset_ns = null, clock_error_ns = null")
        noted = clock_notes(run(one, "merge", *ids, "--align", "wall", "-o", place / "unknown.json.gz")[1])
        assert any("gpu3: its clock was not measured" in line for line in noted), noted
        noted = clock_notes(run(one, "merge", *ids, "-o", place / "unknown.json.gz")[1])
        assert any(line.startswith("gpu3: clock aligned by") for line in noted), noted
        first = first_kernels(place / "unknown.json.gz")
        assert max(first) - min(first) < 1
    finally:
        change_clock(fleet, f"clock_offset_ns = {CLOCK_ERROR_S * NS_PER_S}, clock_error_ns = 50000")


def test_what_is_missing_is_left_out_and_named(fleet):
    """A trace that was removed, and hosts that are dead or cut off, cost their traces alone, and each host is asked once."""
    one, _, three = fleet.all
    removed, other = (trace["trace"] for trace in fleet.traces if trace["host"] == "gpu3")
    run(three, "rm", next(t["uuid"] for t in fleet.traces if t["trace"] == removed), "--yes")
    out, errors = run(one, "analyze", fleet.session, status=3)
    assert "5 ranks in 5 engine" in out.decode() and f"{removed} (gpu3) is left out: it was removed" in errors
    assert run(one, "analyze", removed, "--report", "kernels", status=4)[1].count("there is no trace") == 1
    three.kill()
    for words in (["analyze", fleet.session, "--report", "kernels"], ["merge", "--session", fleet.session, "-o", "rest.json.gz"],
                  ["query", fleet.session, "select count(*) from slice"], ["get", fleet.session, "-d", "rest"]):
        errors = run(one, *words, status=3)[1]
        assert errors.count("gpu3 (https") == 1 and "connection refused" in errors and f"{other} (gpu3)" in errors, (words, errors)
    three.start()
