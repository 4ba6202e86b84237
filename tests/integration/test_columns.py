# SPDX-License-Identifier: Apache-2.0
"""What becomes of a trace that profd collects: columns beside the store, their summary in the catalog, both as long as the
trace is there; whatever happens to the files, to profd-ingest or to profd meanwhile."""

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from daemon import BUILD, ROOT, Daemon, FaultFleet, wait_for
from real_traces import ORACLE, TRACES
from test_collect import INGEST, MIB, NAME, config, dense_trace, made_trace, record, unclaimed
from test_store import check_agreement, column_files, room_of, vacuum
from patience import patience

SHORT = 100_000_000
MAGIC = b"PROFD COLUMNS\n"


def columns_of(profd, name="t1"):
    """The trace, once it has columns."""
    return wait_for(lambda: "columns" in (trace := profd.get(f"/v1/traces/{name}")) and trace, why=profd.log)


def query_on(home, trace, **environment):
    return subprocess.run([BUILD / "client/profctl", "query", trace, "select count(*), sum(dur), max(name) from slice", "--json"],
                          env={"PATH": os.environ["PATH"], "HOME": str(home), **environment}, capture_output=True, text=True,
                          timeout=patience(20))


def set_row(profd, sql):
    """As an older profd, or somebody's hands, left the catalog; profd is not running."""
    with sqlite3.connect(profd.catalog) as catalog:
        catalog.execute("pragma foreign_keys = on")
        catalog.execute(sql)


@pytest.fixture
def fleet(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--ranks", "2") as running:
        yield running


# Collected

def real_trace(name):
    return TRACES / name, json.loads((ORACLE / f"trace_processor/{name.replace('/', '__')}.json").read_text())


@pytest.mark.parametrize("name", ["sglang_decode_8rank/rank0.pt.trace.json.gz", "tracelens/h100_qwen15.json.gz",
                                  "hta/nccl_data_rank0.json.gz"])
def test_a_recording_is_read_by_itself(tmp_path, name):
    """A session whose worker writes a real trace: seconds after the stop its summary is in the catalog, with another
    program's figures."""
    file, oracle = real_trace(name)
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "no-trace") as fleet, \
            Daemon(tmp_path / "profd", config(settle="10s")) as profd:
        profd.start_session(router=fleet.router, duration_ns=SHORT)
        profd.wait_state("s1", "collecting", timeout_s=20)
        (tmp_path / "fleet/w0").mkdir(exist_ok=True)
        shutil.copyfile(file, tmp_path / "fleet/w0" / NAME)
        stopped = time.monotonic()
        session = profd.wait_session("s1", timeout_s=20)
        (row,) = profd.rows("select * from traces")
        assert session["state"] == "complete" and time.monotonic() - stopped < patience(10)
        (slices, sum_ns, *_), = oracle["totals"]["rows"]
        ((threads,),), ((flows,),) = oracle["threads"]["rows"], oracle["flows"]["rows"]
        assert (row["slices"], row["threads"], row["flows"]) == (int(slices), int(threads), int(flows))
        assert row["worker"] == fleet.workers[0] and row["columns"] == str(profd.state / "columns/t1.columns")
        assert Path(row["columns"]).stat().st_size == row["columns_size"]
        categories = {(c["category"] or "[NULL]", c["count"], c["sum_ns"]) for c in
                      profd.rows("select * from trace_categories where trace_id = 1")}
        assert categories == {(c, int(n), int(total)) for c, n, total in oracle["by_category"]["rows"]}
        kernels = [c for c, *_ in oracle["kernel_latencies"]["rows"][:5]]
        assert len(kernels) == 5
        for *_, percent, count, kernel in oracle["kernel_latencies"]["rows"][:5]:
            (found,) = profd.rows("select sum(count) as count from trace_names where name = ? and category in "
                                  "('kernel', 'gpu_memcpy')", kernel)
            assert found["count"] == int(count)
        shown = profd.get("/v1/traces/t1")
        assert shown["gpu_slices"] == row["gpu_slices"] > 0 and shown["last_event_at"] > shown["first_event_at"]
        assert shown["names"][0]["sum_ns"] == max(n["sum_ns"] for n in shown["names"])
        assert "names" not in profd.traces()[0]
        check_agreement(profd)


def test_columns_can_be_downloaded(tmp_path, fleet):
    with Daemon(tmp_path / "profd", config()) as profd:
        record(profd, fleet)
        trace = profd.get("/v1/traces/t1")
        whole = profd.request("GET", "/v1/traces/t1/columns")
        assert whole.status == 200 and whole.body == Path(trace["columns"]).read_bytes() and whole.body.startswith(MAGIC)
        assert "t1.columns" in whole.headers["Content-Disposition"]
        part = profd.request("GET", "/v1/traces/t1/columns", headers={"Range": "bytes=2-6"})
        assert part.status == 206 and part.body == MAGIC[2:7]
        assert profd.problem("GET", "/v1/traces/t9/columns", status=404)


def test_what_was_wrong_is_reported(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "truncated") as fleet, \
            Daemon(tmp_path / "profd", config()) as profd:
        record(profd, fleet)
        trace = profd.get("/v1/traces/t1")
        assert trace["state"] == "truncated" and re.match(r"truncated after \d+ events: gzip ends after", trace["reason"])
        assert trace["columns"] and "truncated" in {defect["kind"] for defect in trace["defects"]}
        assert profd.rows("select kind, text from trace_defects where kind = 'truncated'")


def test_what_is_no_trace_has_no_columns(tmp_path):
    watched = tmp_path / "watched"
    watched.mkdir()
    (watched / NAME).write_bytes(b"\x80\x04\x95" + bytes(100))
    with Daemon(tmp_path / "profd", config(collect=f"watch={watched}")) as profd:
        trace = wait_for(lambda: unclaimed(profd))[0]
        assert "columns" not in trace and "pickle" in trace["columns_reason"] and trace["columns_version"]
        problem = profd.problem("GET", "/v1/traces/t1/columns", status=404)
        assert "pickle" in problem["detail"]
        assert not column_files(profd)


def test_columns_are_not_wanted(tmp_path, fleet):
    profd = Daemon(tmp_path / "profd", config(collect="columns=no")).start()
    try:
        assert record(profd, fleet)["state"] == "complete"
        trace = profd.get("/v1/traces/t1")
        assert trace["state"] == "complete" and not {"columns", "columns_version", "columns_reason"} & trace.keys()
        assert trace["events"] > 0 and trace["names"] == []
        assert not column_files(profd)
        # And once they are, they come by themselves.
        profd.stop()
        profd.config.write_text(config())
        profd.start()
        for name in ("t1", "t2"):
            assert columns_of(profd, name)["names"]
        check_agreement(profd)
    finally:
        profd.stop()


def test_memory_is_bounded(tmp_path):
    """What does not fit into columns_memory= stays without columns, and is collected all the same."""
    watched = tmp_path / "watched"
    watched.mkdir()
    event = ('{"ph": "X", "cat": "cpu_op", "name": "%s %d", "pid": 1, "tid": 1, "ts": %d, "dur": 1}')
    text = ",\n".join(event % ("n" * 300, i, i) for i in range(400_000))
    (watched / NAME.removesuffix(".gz")).write_text('{"traceEvents": [' + text + "]}")
    with Daemon(tmp_path / "profd", config(collect=f"watch={watched}\ncolumns_memory=64M")) as profd:
        trace = wait_for(lambda: unclaimed(profd), timeout_s=60)[0]
        assert trace["state"] == "complete" and trace["stored"] and trace["events"] == 400_000
        assert "columns" not in trace and trace["columns_reason"]
        assert not column_files(profd)


# As long as the trace

def test_they_go_with_their_trace(tmp_path, fleet):
    with Daemon(tmp_path / "profd", config()) as profd:
        for _ in range(2):
            record(profd, fleet)
        assert len(column_files(profd)) == 4
        profd.request("DELETE", "/v1/traces/t1")
        check_agreement(profd)
        profd.request("DELETE", "/v1/sessions/s1")
        assert len(column_files(profd)) == 2
        check_agreement(profd)
        assert vacuum(profd, 0)["removed"] == 2 and not column_files(profd)
        assert profd.get("/v1/usage")["bytes"] == 0
        assert profd.rows("select count(*) as n from trace_names")[0]["n"] == 0


def test_they_count_in_the_budget(tmp_path, fleet):
    with Daemon(tmp_path / "profd", config()) as profd:
        for _ in range(3):
            record(profd, fleet)
        traces = profd.traces()
        freed = vacuum(profd, sum(map(room_of, traces[:2])))
        assert freed["removed"] == 4 and freed["freed"] == sum(map(room_of, traces[2:]))
        check_agreement(profd)


def test_of_what_was_left_in_place_only_they_go(tmp_path, fleet):
    with Daemon(tmp_path / "profd", config(collect="mode=reference")) as profd:
        record(profd, fleet)
        before = profd.get("/v1/traces/t1")
        done = vacuum(profd, 0)
        assert done["removed"] == 0 and done["freed"] >= before["columns_size"]
        trace = profd.get("/v1/traces/t1")
        assert trace["path"] == before["path"] and "budget" in trace["columns_reason"] and "columns" not in trace
        # What was read out of it is still known.
        assert trace["names"] == before["names"] and trace["slices"] == before["slices"]
        assert not column_files(profd) and profd.get("/v1/usage")["bytes"] == 0
        # They are not made again only to go again.
        profd.restart()
        time.sleep(0.5)
        assert not column_files(profd)


def test_no_room_for_them(tmp_path):
    watched = tmp_path / "watched"
    watched.mkdir()
    (watched / NAME).write_bytes(dense_trace(MIB - 3000))  # the trace alone fills the budget
    with Daemon(tmp_path / "profd", config(collect=f"watch={watched}", more="[store]\nmax_use=1M\nkeep_free=1M")) as profd:
        trace = wait_for(lambda: unclaimed(profd))[0]
        assert trace["stored"] and trace["columns_reason"] == "no room in the store (see profctl du)"
        assert profd.get("/v1/traces/t1")["names"]  # what was read is known all the same
        assert not column_files(profd) and profd.get("/v1/usage")["bytes"] <= MIB


def test_the_disk_stays_as_free_as_it_should(tmp_path):
    """Writing ends where the room does, not after it."""
    file = tmp_path / "a.json.gz"
    file.write_bytes(made_trace())
    with Daemon(tmp_path / "profd", config(more="[store]\nkeep_free=1000T")) as profd:
        trace = profd.post("/v1/traces", {"path": str(file), "reference": True}, 201)
        assert trace["state"] == "complete" and "File too large" in trace["columns_reason"]
        assert not column_files(profd)


# Compared at the start

def test_what_is_lost_is_made_again(tmp_path, fleet):
    profd = Daemon(tmp_path / "profd", config()).start()
    try:
        record(profd, fleet)
        first, second = profd.get("/v1/traces/t1"), profd.get("/v1/traces/t2")
        profd.stop()
        Path(first["columns"]).unlink()
        orphans = [profd.state / "columns" / name for name in ("t77.columns", ".incoming-1-0")]
        for orphan in orphans:
            orphan.write_bytes(b"half")
        strange = profd.state / "columns/notes.txt"
        strange.write_text("not profd's")
        profd.start()
        wait_for(Path(first["columns"]).exists)  # until profd has looked, the row names them
        assert columns_of(profd) == first
        assert profd.get("/v1/traces/t2") == second
        wait_for(lambda: not any(orphan.exists() for orphan in orphans))
        assert strange.exists()
        strange.unlink()
        check_agreement(profd)
    finally:
        profd.stop()


@pytest.mark.parametrize("older, version", [(b"of another time", 0), ((ROOT / "tests/data/columns-v2").read_bytes(), 2)])
def test_an_older_version_is_read_again(tmp_path, fleet, older, version):
    """What an older profd left is refused by queries, imported again by profd at its start, and then answers them."""
    profd = Daemon(tmp_path / "profd", config()).start()
    try:
        record(profd, fleet)
        before = profd.get("/v1/traces/t1")
        answer = query_on(tmp_path, before["columns"])
        assert answer.returncode == 0 and json.loads(answer.stdout)
        profd.stop()
        Path(before["columns"]).write_bytes(older)
        refused = query_on(tmp_path, before["columns"])
        assert refused.returncode != 0 and ("another version" in refused.stderr) == (version > 0)
        set_row(profd, f"update trace_row set columns_version = {version}, columns_size = {len(older)}, slices = null"
                       " where trace_id = 1")
        set_row(profd, "delete from trace_name_row where trace_id = 1")
        profd.start()
        wait_for(lambda: profd.get("/v1/traces/t1") == before, why=lambda: str(profd.get("/v1/traces/t1")))
        assert Path(before["columns"]).read_bytes().startswith(MAGIC + b"\3\0")
        assert query_on(tmp_path, before["columns"]).stdout == query_on(tmp_path, "t1", PROFD_SOCKET=str(profd.socket)).stdout == answer.stdout
        check_agreement(profd)
    finally:
        profd.stop()


def test_a_file_that_has_changed_is_not_read_as_what_it_was(tmp_path, fleet):
    profd = Daemon(tmp_path / "profd", config(collect="mode=reference")).start()
    try:
        record(profd, fleet)
        trace = profd.get("/v1/traces/t1")
        profd.stop()
        Path(trace["columns"]).unlink()
        Path(trace["path"]).write_bytes(made_trace(other=True))
        profd.start()
        changed = wait_for(lambda: (t := profd.get("/v1/traces/t1")).get("columns_reason") == "its file has changed" and t)
        assert changed["sha256"] == trace["sha256"] and "columns" not in changed
    finally:
        profd.stop()


def test_an_upgrade_reads_what_is_there(tmp_path, fleet):
    """A catalog of version 1, as a profd before columns left it."""
    profd = Daemon(tmp_path / "profd", config()).start()
    try:
        record(profd, fleet)
        trace = profd.get("/v1/traces/t1")
        profd.stop()
        with sqlite3.connect(profd.catalog) as catalog:
            known = catalog.execute("select name, path, origin, size, sha256, recorded_at from trace_row").fetchall()
        for file in profd.state.glob("catalog.db*"):
            file.unlink()
        shutil.rmtree(profd.state / "columns")
        with sqlite3.connect(profd.catalog) as catalog:
            catalog.executescript((ROOT / "tests/data/catalog-v1.sql").read_text() +
                                  "pragma application_id = 0x50524f46; pragma user_version = 1;")
            catalog.executemany("insert into trace_row (kind, state, stored, collected_at, name, path, origin, size, sha256,"
                                " recorded_at) values ('trace', 'complete', 1, 1, ?, ?, ?, ?, ?, ?)", known)
        profd.start()
        again = [columns_of(profd, name) for name in ("t1", "t2")]
        assert trace["sha256"] in {t["sha256"] for t in again} and all(t["slices"] == trace["slices"] for t in again)
        assert (profd.state / "catalog.db.v1.bak").exists()
        check_agreement(profd)
    finally:
        profd.stop()


def with_child(tmp_path, script):
    """A profd whose profd-ingest is that script."""
    place = tmp_path / "bin"
    (place / "ingest").mkdir(parents=True)
    shutil.copy2(INGEST.parents[1] / "profd", place / "profd")
    child = place / "ingest/profd-ingest"
    child.write_text(f"#!/bin/sh\n{script}\n")
    child.chmod(0o755)

    class Own(Daemon):
        def command(self):
            return [place / "profd", *super().command()[1:]]

    return Own(tmp_path / "profd", config())


def changed(expression):
    """The true profd-ingest, and its answer through sed."""
    return f'{INGEST} "$@" | sed -E {shlex.quote(expression)}'


@pytest.mark.parametrize("size", [-5, 1, 2**63 - 1])
def test_a_size_of_columns_is_not_believed(tmp_path, fleet, size):
    with with_child(tmp_path, changed(rf's/"columns":\{{"size":[0-9]+/"columns":{{"size":{size}/')) as profd:
        assert record(profd, fleet)["state"] == "complete"
        for trace in profd.traces():
            assert trace["state"] == "complete" and trace["stored"]
            assert "columns" not in trace and "another size" in trace["columns_reason"]
        assert not column_files(profd) and len(profd.traces()) == 2
        assert profd.get("/v1/usage")["bytes"] == sum(trace["disk_size"] for trace in profd.traces())


@pytest.mark.parametrize("size", [-5, 1, 2**63 - 1])
def test_a_size_of_a_copy_is_not_believed(tmp_path, size):
    file = tmp_path / "a.json.gz"
    file.write_bytes(made_trace())
    with with_child(tmp_path, changed(rf's/"size":[0-9]+,"sha256"/"size":{size},"sha256"/')) as profd:
        problem = profd.problem("POST", "/v1/traces", {"path": str(file)}, 422)
        assert "another size" in problem["detail"]
        assert not profd.traces() and not column_files(profd) and profd.get("/v1/usage")["bytes"] == 0


def test_a_hash_alone_makes_no_trace_the_same(tmp_path):
    child = changed(r's/"sha256":"[0-9a-f]+"/"sha256":"' + 64 * "7" + '"/')
    with with_child(tmp_path, child) as profd:
        for i, padding in enumerate(("", "some more bytes")):
            file = tmp_path / f"{i}.json.gz"
            file.write_bytes(made_trace(padding=padding))
            assert profd.post("/v1/traces", {"path": str(file)}, 201)["trace"] == f"t{i + 1}"


@pytest.mark.parametrize("name, reason, tried", [("SEGV", "was killed by SIGSEGV", False),
                                                 ("XCPU", "used up its processor time", True),
                                                 ("KILL", "was killed by SIGKILL", True)])
def test_a_child_that_dies_leaves_no_columns(tmp_path, fleet, name, reason, tried):
    """A profd-ingest that cannot read into columns: it dies of each attempt, and does its other work."""
    child = f'[ -e /proc/self/fd/5 ] && kill -{name} $$\nexec {INGEST} "$@"'
    with with_child(tmp_path, child) as profd:
        assert record(profd, fleet)["state"] == "complete"
        for trace in profd.traces():
            assert trace["state"] == "complete" and trace["stored"] and trace["events"] > 0
            assert trace["columns_reason"] == f"profd-ingest {reason}" and "columns" not in trace
            # What takes all the time or memory there is would do so at each start.
            assert ("columns_version" in trace) == tried
        assert not column_files(profd)
        # What is tried again at the next start keeps no session waiting.
        profd.restart()
        assert record(profd, fleet)["state"] == "complete"
        assert os.listdir(profd.state / "columns") == []
