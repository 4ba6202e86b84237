# SPDX-License-Identifier: Apache-2.0
"""The loadable extension over a catalog, in the stock sqlite3 program and in Python; and that docs/sql.md tells the truth.

PROFD_BUILD names the build directory (build/ where it is not set)."""

import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD", ROOT / "build")).resolve()
MAKER = BUILD / "tests/integration/columns-maker"
EXTENSION = BUILD / "trace/sql/profd_trace.so"

needs_sqlite3 = pytest.mark.skipif(not shutil.which("sqlite3"), reason="the sqlite3 program is not installed")
needs_extensions = pytest.mark.skipif(not hasattr(sqlite3.Connection, "enable_load_extension"),
                                      reason="this Python loads no SQLite extensions")
# What it does is run with sanitizers by the unit test of SQL; these programs cannot load their runtime.
pytestmark = pytest.mark.skipif(b"__asan_init" in EXTENSION.read_bytes(),
                                reason="an extension with sanitizers cannot be loaded into programs without them")


def trace_of(number):
    def slice_(category, name, tid, ts, dur, **args):
        return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}

    return {"traceEvents": [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "ts": 0, "args": {"name": "main"}},
        slice_("cpu_op", "aten::mm", 1, 10, 100, **{"External id": 7, "Input Dims": [[2, 3], [3, 4]]}),
        slice_("cuda_runtime", "cudaLaunchKernel", 1, 25, 5, correlation=11),
        slice_("kernel", f"gemm{number}", 7, 40, 10, correlation=11, stream=7, device=0, grid=[1, 2, 3]),
        slice_("gpu_memcpy", "Memcpy HtoD", 7, 60, 2, stream=7, bytes=number),
        {"ph": "s", "id": 11, "pid": 1, "tid": 1, "ts": 25, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "bp": "e", "id": 11, "pid": 1, "tid": 7, "ts": 40, "cat": "ac2g", "name": "ac2g"},
        {"ph": "C", "name": "load", "pid": 1, "tid": 1, "ts": 33, "args": {"v": 2.5}},
    ]}


@pytest.fixture
def catalog(tmp_path):
    """Traces 1 to 3, of which 2 has no columns and 3 has lost its original."""
    path = tmp_path / "catalog.db"
    db = sqlite3.connect(path)
    db.execute("create table trace_row(trace_id integer primary key, path text, columns text)")
    db.execute("create view traces as select * from trace_row")
    for number in (1, 2, 3):
        trace, columns = tmp_path / f"{number}.json", tmp_path / f"{number}.columns"
        trace.write_text(json.dumps(trace_of(number)))
        if number != 2:
            subprocess.run([MAKER, trace, columns], check=True)
        db.execute("insert into trace_row values (?, ?, ?)", (number, str(trace), str(columns) if number != 2 else None))
    (tmp_path / "3.json").unlink()
    db.commit()
    db.close()
    return path


def load(path):
    db = sqlite3.connect(path)
    db.enable_load_extension(True)
    db.load_extension(str(EXTENSION))
    return db


def rows(db, sql):
    return db.execute(sql).fetchall()


@needs_sqlite3
def test_sqlite3_finds_the_extension_by_its_name(catalog):
    answer = subprocess.run(["sqlite3", catalog, "-cmd", ".load profd_trace",
                             "select name, dur from slice where trace_id = 1 and category = 'kernel'"],
                            env={**os.environ, "LD_LIBRARY_PATH": str(EXTENSION.parent)}, capture_output=True, text=True)
    assert (answer.stdout, answer.stderr) == ("gemm1|10000\n", "")


@needs_extensions
@pytest.mark.smoke
def test_traces_with_columns(catalog):
    db = load(catalog)
    assert rows(db, "select trace_id, name from kernel order by 1") == [(1, "gemm1"), (3, "gemm3")]
    assert rows(db, "select name from kernel where trace_id = 't3'") == [("gemm3",)]
    assert rows(db, "select name from kernel where trace_id in ('t1', 't3') order by 1") == [("gemm1",), ("gemm3",)]
    assert rows(db, "select count(*) from args where trace_id = 't1'") == rows(db, "select count(*) from args where trace_id = 1")
    assert rows(db, "select name from kernel where trace_id = 't3x'") == []
    assert rows(db, "select t.trace_id, sum(k.dur) from traces t join kernel k using (trace_id) "
                    "where t.columns is not null group by 1") == [(1, 10000), (3, 10000)]
    with pytest.raises(sqlite3.OperationalError, match="trace 2 has no columns; create them with profctl ingest"):
        rows(db, "select * from slice where trace_id = 2")
    with pytest.raises(sqlite3.OperationalError, match="trace 9 is not in the catalog"):
        rows(db, "select * from slice where trace_id = 9")


@needs_extensions
def test_reports_over_a_catalog(catalog):
    db = load(catalog)
    assert rows(db, "select trace_id, name, sum_ns from report_kernels where trace_id in (1, 't3') and category = 'gemm' order by 1") == [
        (1, "gemm1", 10000), (3, "gemm3", 10000)]
    assert rows(db, "select name from report_kernels where trace_id = 't3x'") == []
    with pytest.raises(sqlite3.OperationalError, match="trace 9 is not in the catalog"):
        rows(db, "select * from report_kernels where trace_id = 9")


@needs_extensions
def test_arguments_with_and_without_the_original(catalog):
    db = load(catalog)
    assert rows(db, "select trace_id, key, display_value from args where flat_key = 'args.Input Dims'") == [
        (1, "args.Input Dims[0][0]", "2"), (1, "args.Input Dims[0][1]", "3"),
        (1, "args.Input Dims[1][0]", "3"), (1, "args.Input Dims[1][1]", "4"),
        (3, "args.Input Dims", "[[2, 3], [3, 4]]")]
    assert rows(db, "select trace_id, extract_arg(arg_set_id, 'args.bytes') from slice where category = 'gpu_memcpy'") == [
        (1, 1), (3, 3)]


@needs_extensions
def test_files_are_opened_only_as_the_catalog_records(catalog, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "1.columns")
    (tmp_path / "junk").write_bytes(b"no columns" * 100)
    db = load(catalog)
    for name, message in (("fifo", "cannot be opened"), ("link", "cannot be opened"), ("none", "cannot be opened"),
                          ("junk", "does not begin like a columnar file; recreate them with profctl ingest --again PATH")):
        db.execute("update trace_row set columns = ? where trace_id = 3", (str(tmp_path / name),))
        with pytest.raises(sqlite3.DatabaseError, match=message):
            rows(db, "select * from slice where trace_id = 3")
    assert rows(db, "select count(*) from slice where trace_id = 1") == [(4,)]


@needs_extensions
def test_a_view_cannot_use_the_tables(catalog):
    db = sqlite3.connect(catalog)
    db.execute("create view trap as select extract_arg(1, 'x')")
    db.execute("create view trap2 as select * from slice")
    db.commit()
    db.close()
    db = load(catalog)
    for view in ("trap", "trap2"):
        with pytest.raises(sqlite3.OperationalError, match="unsafe use"):
            rows(db, f"select * from {view}")


@needs_extensions
def test_a_database_without_traces(tmp_path):
    db = load(tmp_path / "other.db")
    with pytest.raises(sqlite3.OperationalError, match="the database is not a catalog of profd: no such table: traces"):
        rows(db, "select * from slice")


@needs_extensions
def test_documented_queries_run(catalog):
    queries = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/sql.md").read_text(), re.S)
    assert len(queries) > 5
    db = load(catalog)
    for query in queries:
        db.execute(query).fetchall()


@needs_extensions
def test_every_table_and_column_is_documented(catalog):
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", (ROOT / "docs/sql.md").read_text()))))
    headings = set(re.findall(r"\w+", " ".join(re.findall(r"^### (.*)$", (ROOT / "docs/sql.md").read_text(), re.M))))
    db = load(catalog)
    before = {name for name, in rows(sqlite3.connect(":memory:"), "select name from pragma_module_list")}
    tables = {name for name, in rows(db, "select name from pragma_module_list")} - before
    assert len(tables) > 20
    reports = {table for table in tables if table.startswith("report_")}
    assert {"report_kernels", "report_temporal"} <= reports  # profctl reports --json says what their columns mean
    for table in tables - reports:
        assert table in words | headings
        for column, in rows(db, f"select name from pragma_table_xinfo('{table}')"):
            assert column in words, f"{table}.{column}"
