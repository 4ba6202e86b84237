# SPDX-License-Identifier: Apache-2.0
"""`profctl export --format parquet`: other programs read every value as it was written, and as `profctl query` prints it."""
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess

import pytest

import clickhouse_reader
from daemon import BUILD, Daemon, FaultFleet, quick_config
from duckdb_reader import LIBRARY, ROOT, DuckDB
from real_traces import CORPUS

PROFCTL = BUILD / "client/profctl"
MAKER = BUILD / "tests/integration/parquet-maker"
PACKAGES = ROOT / ".cache/npm"
INT64_MAX = 2**63 - 1
GROUP_ROWS = 122_880
# Of each profiler and engine, with lost events, without GPUs, of a database.
REAL = ["hta/nccl_data_rank0.json.gz", "hta/cpu_only_rank34.json.gz", "hta/ns_resolution_rank0.json.gz", "param/linear_kineto.json.gz",
        "tracelens/mi300_qwen15.json.gz", "tracelens/vllm_piecewise_graph.json.gz", "malformed/truncated_gz.json.gz",
        "nsys/h100_2gpu_1s.sqlite.gz", "sglang_decode_8rank/rank3.pt.trace.json.gz", "kineto/resnet50_2021_workers0.json.gz"]


@pytest.fixture
def duckdb(tmp_path):
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is missing; ./dev test unpacks it")
    database = DuckDB(tmp_path)
    yield database
    database.close()


@pytest.fixture(scope="module")
def clickhouse():
    if not clickhouse_reader.LIBRARY.exists():
        pytest.skip(f"{clickhouse_reader.LIBRARY} is missing; ./dev test unpacks it")
    return clickhouse_reader.ClickHouse()


@pytest.fixture
def profctl(tmp_path):
    def run(*words, status=0):
        r = subprocess.run([PROFCTL, *words], capture_output=True, timeout=120, stdin=subprocess.DEVNULL, cwd=tmp_path,
                           env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
        assert r.returncode == status, r.stderr.decode()
        return r

    return run


def queried(profctl, traces, sql):
    return json.loads(profctl("query", traces, sql, "--json").stdout)


def events_file(path, n, rank=0, base=1767189312000000000):
    """A trace with n slices, a microsecond apart, of any duration."""
    durations = random.Random(rank)
    events = [{"ph": "X", "cat": "cpu_op" if i % 3 else "kernel", "name": f"op {i % 7}", "pid": 1, "tid": 2 + i % 2, "ts": 1000 + i,
               "dur": durations.randrange(500) / 1000, "args": {"External id": i}} for i in range(n)]
    path.write_text(json.dumps({"baseTimeNanoseconds": base, "distributedInfo": {"rank": rank}, "traceEvents": events}))
    return path


# -- The writer ---------------------------------------------------------------------------------------------------------------------

ROWS = [0, 1, 7, 8, 9, 127, 128, 129, 130, 20_000, 20_001, 50_000]


def made(tmp_path, rows, group_rows=20_000):
    """A file with every type and encoding, and its values: doubles as their bits, texts as hexadecimal digits."""
    r = subprocess.run([MAKER, str(rows), str(group_rows), tmp_path / "made.parquet"], capture_output=True, text=True, check=True)
    return tmp_path / "made.parquet", [json.loads(line) for line in r.stdout.splitlines()]


def normal(kind, value):
    """A value of DuckDB as parquet-maker prints it; times that DuckDB takes for infinite are left out."""
    if value is None:
        return None
    if kind == "DOUBLE":
        return struct.unpack("<q", struct.pack("<d", value))[0]
    return value


@pytest.mark.parametrize("rows", ROWS)
def test_duckdb_reads_what_was_written(duckdb, tmp_path, rows):
    path, expected = made(tmp_path, rows)
    columns = [(c["column_name"], c["column_type"]) for c in duckdb.rows(f"SELECT * FROM (DESCRIBE SELECT * FROM '{path}')")]
    assert {kind for _, kind in columns} == {"BIGINT", "TIMESTAMP WITH TIME ZONE", "DOUBLE", "VARCHAR"}
    read = {"TIMESTAMP WITH TIME ZONE": "CASE WHEN isfinite({0}) THEN epoch_us({0}) END", "VARCHAR": "lower(hex({0}))"}
    cells = ", ".join(read.get(kind, "{0}").format(name) + f" AS {name}" for name, kind in columns)
    got = duckdb.rows(f"SELECT {cells} FROM '{path}'")
    assert len(got) == rows == duckdb.rows(f"SELECT count(*) AS n FROM '{path}'")[0]["n"]
    for row, values in zip(got, expected):
        for (name, kind), value in zip(columns, values):
            if kind.startswith("TIMESTAMP") and value in (INT64_MAX, -INT64_MAX):
                value = None
            assert normal(kind, row[name]) == value, (name, kind)


@pytest.mark.parametrize("rows", ROWS)
def test_a_second_reader_reads_the_same(tmp_path, rows):
    if not shutil.which("node") or not (PACKAGES / "hyparquet").is_dir():
        pytest.skip("node, or hyparquet in .cache/npm, is missing; ./dev test unpacks it where there is node")
    path, expected = made(tmp_path, rows)
    r = subprocess.run(["node", pathlib.Path(__file__).with_name("hyparquet_reader.mjs"), PACKAGES, path], capture_output=True, text=True,
                       check=True)
    assert [json.loads(line) for line in r.stdout.splitlines()] == expected


@pytest.mark.parametrize("rows", ROWS)
def test_clickhouse_reads_what_was_written(clickhouse, tmp_path, rows):
    path, expected = made(tmp_path, rows)
    columns = [(c["name"], c["type"]) for c in clickhouse.rows(f"DESCRIBE TABLE file('{path}', Parquet)")]
    assert len({kind.removeprefix("Nullable(").rstrip(")") for _, kind in columns}) == 4
    read = {"DateTime64": "toUnixTimestamp64Micro({0})", "Float64": "reinterpretAsInt64({0})", "String": "lower(hex({0}))"}
    cells = [next((text for word, text in read.items() if word in kind), "{0}").format(name) + f" AS c{i}" for i, (name, kind) in enumerate(columns)]
    got = clickhouse.rows(f"SELECT {', '.join(cells)} FROM file('{path}', Parquet)")
    assert [list(row.values()) for row in got] == expected


# -- Slices -------------------------------------------------------------------------------------------------------------------------

SLICES = """
SELECT slice.id, slice.ts, slice.dur, slice.category, slice.name, process.name AS process, thread.name AS thread, track_id, depth,
       slice.parent_id, self_dur,
       CASE WHEN typeof(pid) = 'integer' THEN pid END AS pid, CASE WHEN typeof(tid) = 'integer' THEN tid END AS tid
FROM slice JOIN track ON track_id = track.id LEFT JOIN thread USING (utid)
LEFT JOIN process ON track.upid = process.id ORDER BY slice.id
"""
KERNELS = """
SELECT id, stream, device, context, correlation, external_id, launch_id, grid_x, grid_y, grid_z, block_x, block_y, block_z, registers,
       shared_memory, blocks_per_sm, warps_per_sm, occupancy, graph_id, graph_node_id FROM kernel ORDER BY id
"""


def exported(profctl, tmp_path, *words):
    profctl("export", *words, "--format", "parquet", "-o", "slices.parquet")
    return tmp_path / "slices.parquet"


@pytest.mark.parametrize("name", REAL)
def test_every_value_is_that_of_a_query(duckdb, profctl, tmp_path, name):
    trace = CORPUS / name
    path = exported(profctl, tmp_path, trace)
    expected = queried(profctl, trace, SLICES)
    assert len(expected) > 100
    columns = ", ".join(expected[0])
    assert duckdb.rows(f"SELECT {columns} FROM '{path}' ORDER BY id") == expected
    kernels = queried(profctl, trace, KERNELS)
    if kernels:
        got = duckdb.rows(f"SELECT {', '.join(kernels[0])} FROM '{path}' WHERE category IN ('kernel', 'Kernel') ORDER BY id")
        assert got == kernels
    launches = queried(profctl, trace, "SELECT gpu_id AS id, launch_id, correlation, stream, device FROM launch ORDER BY 1")
    assert duckdb.rows(f"SELECT id, launch_id, correlation, stream, device FROM '{path}' WHERE launch_id IS NOT NULL "
                       "ORDER BY id") == launches
    ops = queried(profctl, trace, "SELECT id, external_id FROM op WHERE external_id IS NOT NULL ORDER BY id")
    assert duckdb.rows(f"SELECT id, external_id FROM '{path}' WHERE category IN ('cpu_op', 'Operator') AND external_id IS NOT NULL "
                       "ORDER BY id") == ops


@pytest.mark.parametrize("name", REAL)
def test_tables_of_figures_are_those_of_reports_and_queries(duckdb, profctl, tmp_path, name):
    trace = CORPUS / name
    for table in ("kernel", "name"):
        profctl("export", trace, "--format", "parquet", "--table", table, "-o", f"{table}.parquet")
    names = queried(profctl, trace, "SELECT category, name, count(*) AS count, sum(iif(dur >= 0, dur, 0)) AS sum_ns FROM slice GROUP BY 1, 2 ORDER BY 1, 2")
    assert duckdb.rows(f"SELECT category, name, count, sum_ns FROM '{tmp_path}/name.parquet' ORDER BY category NULLS FIRST, name") == names
    columns = "name, category, count, sum_ns, min_ns, max_ns, p50_ns, p99_ns, mean_ns, std_ns, share"
    got = duckdb.rows(f"SELECT {columns} FROM '{tmp_path}/kernel.parquet'")
    answer = profctl("analyze", trace, "--report", "kernels", "--json", status=0 if got else 4)
    assert got == [{name: row[name] for name in columns.split(", ")} for row in (json.loads(answer.stdout)["rows"] if got else [])]
    assert duckdb.rows(f"SELECT DISTINCT trace, rank FROM '{tmp_path}/name.parquet'") == \
        (duckdb.rows(f"SELECT DISTINCT trace, rank FROM '{exported(profctl, tmp_path, trace)}'") if names else [])


def test_clickhouse_reads_the_same_figures(duckdb, clickhouse, profctl, tmp_path):
    for table in ("kernel", "name"):
        profctl("export", CORPUS / "sglang_decode_8rank", "--format", "parquet", "--table", table, "-o", "t.parquet")
        names = [c["column_name"] for c in duckdb.rows(f"SELECT column_name FROM (DESCRIBE SELECT * EXCLUDE (started_at) FROM '{tmp_path}/t.parquet')")]
        sql = f"SELECT {', '.join(names)}, {{0}} AS us FROM {{1}} ORDER BY trace_id, sum_ns, name, category"
        got = clickhouse.rows(sql.format("toUnixTimestamp64Micro(started_at)", f"file('{tmp_path}/t.parquet', Parquet)"))
        assert got and got == duckdb.rows(sql.format("epoch_us(started_at)", f"'{tmp_path}/t.parquet'"))


def test_clickhouse_reads_the_same_slices(duckdb, clickhouse, profctl, tmp_path):
    path = exported(profctl, tmp_path, CORPUS / "sglang_decode_8rank")
    names = [c["column_name"] for c in duckdb.rows(f"SELECT column_name FROM (DESCRIBE SELECT * EXCLUDE (started_at, occupancy) FROM '{path}')")]
    sql = f"SELECT {', '.join(names)}, {{0}} AS us FROM {{1}} ORDER BY trace_id, id"
    got = clickhouse.rows(sql.format("toUnixTimestamp64Micro(started_at)", f"file('{path}', Parquet)"))
    assert got and got == duckdb.rows(sql.format("epoch_us(started_at)", f"'{path}'"))


@pytest.mark.smoke
def test_the_same_statements_run_on_both(duckdb, profctl, tmp_path):
    ranks = CORPUS / "sglang_decode_8rank"
    path = exported(profctl, tmp_path, ranks)
    duckdb.run(f"CREATE VIEW slice AS FROM '{path}'")
    duckdb.run("CREATE VIEW kernel AS FROM slice WHERE category IN ('kernel', 'Kernel')")
    for sql in ("SELECT trace_id, rank, instance, worker, count(*) AS n, sum(dur) AS ns FROM slice GROUP BY 1, 2, 3, 4 ORDER BY 1",
                "SELECT name, count(*) AS n, max(dur) AS longest FROM kernel GROUP BY name ORDER BY n DESC, name LIMIT 20",
                "SELECT rank, stream, count(*) AS n FROM kernel WHERE grid_x > 1 GROUP BY rank, stream ORDER BY rank, stream"):
        assert duckdb.rows(sql) == [{k: v for k, v in row.items()} for row in queried(profctl, ranks, sql)]
    assert duckdb.rows("SELECT count(DISTINCT trace) AS n FROM slice") == [{"n": 8}]


def test_times_are_also_those_of_the_wall_clock(duckdb, profctl, tmp_path):
    path = exported(profctl, tmp_path, events_file(tmp_path / "t.json", 3))
    assert duckdb.rows(f"SELECT ts, epoch_us(started_at) AS us FROM '{path}' ORDER BY id") == \
        [{"ts": 1_000_000 + 1000 * i, "us": 1767189312000000 + 1000 + i} for i in range(3)]
    path = exported(profctl, tmp_path, events_file(tmp_path / "t.json", 3, base=0))
    assert duckdb.rows(f"SELECT DISTINCT started_at FROM '{path}'") == [{"started_at": None}]


def documented_fields(table):
    """Of docs/parquet.md: [(field id, name, type)]."""
    part = (ROOT / "docs/parquet.md").read_text().split(f"### Table `{table}`")[1].split("\n##")[0]
    rows = [line.split("|") for line in part.splitlines() if line.startswith("| ") and line.split("|")[1].strip().isdigit()]
    return [(int(row[1]), row[2].strip(" `"), row[3].strip(" `")) for row in rows]


def fields_of(duckdb, path):
    fields = duckdb.rows(f"SELECT name, type, field_id, logical_type FROM parquet_schema('{path}') WHERE name <> 'schema'")
    kinds = {"DOUBLE": "double", "BYTE_ARRAY": "string"}
    return [(f["field_id"], f["name"], kinds.get(f["type"]) or ("timestamp" if f["logical_type"] else "int64")) for f in fields]


@pytest.mark.parametrize("table", ["kernel", "name"])
def test_fields_of_figures_have_ids_that_stay(duckdb, profctl, tmp_path, table):
    profctl("export", events_file(tmp_path / "t.json", 3), "--format", "parquet", "--table", table, "-o", "t.parquet")
    assert fields_of(duckdb, tmp_path / "t.parquet") == documented_fields(table)
    facts = duckdb.rows(f"SELECT decode(key) AS k, decode(value) AS v FROM parquet_kv_metadata('{tmp_path}/t.parquet')")
    assert {(f["k"], f["v"]) for f in facts} == {("profd.table", table), ("profd.schema", "1")}


def test_fields_have_ids_that_stay(duckdb, profctl, tmp_path):
    """Readers find columns by them: a column keeps its id, and its type, forever. New ones are added at the end."""
    path = exported(profctl, tmp_path, events_file(tmp_path / "t.json", 3))
    fields = duckdb.rows(f"SELECT name, type, field_id, repetition_type, logical_type FROM parquet_schema('{path}') WHERE name <> 'schema'")
    assert fields_of(duckdb, path) == documented_fields("slice")
    assert [f["name"] for f in fields][:12] == ["catalog", "session", "trace", "host", "worker", "instance", "rank", "trace_id", "id", "ts",
                                               "dur", "started_at"]
    facts = duckdb.rows(f"SELECT decode(key) AS k, decode(value) AS v FROM parquet_kv_metadata('{path}')")
    assert {(f["k"], f["v"]) for f in facts} == {("profd.table", "slice"), ("profd.schema", "1")}


def test_statistics_leave_out_row_groups(duckdb, profctl, tmp_path):
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for rank in range(2):
        events_file(ranks / f"rank{rank}.json", GROUP_ROWS + 10, rank)
    path = exported(profctl, tmp_path, ranks)
    groups = duckdb.rows(f"SELECT DISTINCT row_group_id AS g, row_group_num_rows AS n FROM parquet_metadata('{path}') ORDER BY g")
    assert [g["n"] for g in groups] == [GROUP_ROWS, 10] * 2
    # One rank in each, by ts.
    bounds = duckdb.rows(f"SELECT stats_min_value AS least, stats_max_value AS most FROM parquet_metadata('{path}') "
                         "WHERE path_in_schema = 'rank' ORDER BY row_group_id")
    assert bounds == [{"least": str(rank), "most": str(rank)} for rank in (0, 0, 1, 1)]
    chunks = duckdb.rows("SELECT row_group_id AS g, least(dictionary_page_offset, data_page_offset) AS at, total_compressed_size AS n "
                         f"FROM parquet_metadata('{path}')")
    data, last = path.read_bytes(), 1_000_000 + 1000 * GROUP_ROWS
    for condition, needed, rows in ((f"ts >= {last}", {1, 3}, 20), ("rank = 1", {2, 3}, GROUP_ROWS + 10), ("name = 'zz'", set(), 0),
                                    (f"ts < {last} AND rank = 0", {0}, GROUP_ROWS), ("ts < 0", set(), 0)):
        # Whoever reads another row group than those that are needed fails.
        damaged = bytearray(data)
        for chunk in chunks:
            if chunk["g"] not in needed:
                damaged[chunk["at"]:chunk["at"] + chunk["n"]] = b"\xff" * chunk["n"]
        (tmp_path / f"{rows}.parquet").write_bytes(damaged)
        sql = f"SELECT count(dur) AS n, min(name) AS first FROM '{tmp_path}/{rows}.parquet' WHERE "
        assert duckdb.rows(sql + condition) == [{"n": rows, "first": "op 0" if rows else None}], condition
        with pytest.raises(ValueError):
            duckdb.rows(sql + "ts >= 0")


def test_a_part_of_a_trace(duckdb, profctl, tmp_path):
    trace = CORPUS / "hta/nccl_data_rank0.json.gz"
    path = exported(profctl, tmp_path, trace, "--from", "200ms", "--to", "300ms", "--only", "kernel")
    first = queried(profctl, trace, "SELECT min(ts) AS t FROM slice")[0]["t"]
    start, end = first + 200_000_000, first + 300_000_000
    expected = queried(profctl, trace, f"SELECT id, correlation FROM kernel WHERE ts < {end} AND ts + dur > {start} ORDER BY id")
    assert len(expected) > 50
    assert duckdb.rows(f"SELECT id, correlation FROM '{path}' ORDER BY id") == expected


def test_a_trace_without_slices_is_a_table_without_rows(duckdb, profctl, tmp_path):
    (tmp_path / "t.json").write_text('{"traceEvents": []}')
    path = exported(profctl, tmp_path, "t.json")
    assert duckdb.rows(f"SELECT count(*) AS n, count(name) AS m FROM '{path}'") == [{"n": 0, "m": 0}]


def test_refusals(profctl, tmp_path):
    one, other = events_file(tmp_path / "a.json", 3), events_file(tmp_path / "b.json", 3, 1)
    assert b"the format csv holds one trace" in profctl("export", one, other, "--format", "csv", status=2).stderr
    profctl("export", one, "-o", "read.json")
    assert b"named twice" in profctl("export", one, one, "--format", "parquet", status=2).stderr
    assert b"no slices" in profctl("export", one, other, "--format", "parquet", "--only", "nothing", "-o", "n.parquet", status=4).stderr
    assert b"No such file or directory" in profctl("export", "nothere.json", "--format", "parquet", status=4).stderr
    assert b"unknown table" in profctl("export", one, "--format", "parquet", "--table", "x", status=2).stderr
    assert b"Add --format parquet" in profctl("export", one, "--table", "name", status=2).stderr
    assert b"complete traces" in profctl("export", one, "--format", "parquet", "--table", "name", "--only", "kernel", status=2).stderr
    assert b"Create the directory first" in profctl("export", one, "--format", "parquet", "-o", "no/t.parquet", status=1).stderr
    assert not list(tmp_path.glob("*.parquet")) and not [p for p in tmp_path.iterdir() if "profctl-" in p.name]


def test_standard_output_may_be_a_pipe(profctl, tmp_path):
    path = exported(profctl, tmp_path, events_file(tmp_path / "t.json", 100))
    assert profctl("export", "t.json", "--format", "parquet").stdout == path.read_bytes()


# -- Of a session -------------------------------------------------------------------------------------------------------------------

def test_a_session_is_one_file(duckdb, tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--ranks", "2") as fleet, Daemon(tmp_path / "profd", quick_config()) as profd:
        profd.wait_session(profd.start_session(router=fleet.router, duration_ns=100_000_000)["session"])

        def run(*words):
            done = subprocess.run([PROFCTL, *words], capture_output=True, timeout=60, cwd=tmp_path, stdin=subprocess.DEVNULL, check=True,
                                  env={**os.environ, "PROFD_SOCKET": str(profd.socket), "XDG_CACHE_HOME": str(tmp_path / "cache")})
            return done.stdout

        run("export", "s1", "--format", "parquet", "-o", "s1.parquet")
        complete = duckdb.rows(f"SELECT trace, trace_id, session, worker, instance, rank, count(*) AS n FROM '{tmp_path}/s1.parquet' "
                            "GROUP BY ALL ORDER BY trace_id")
        assert complete == [{"trace": t["trace"], "trace_id": int(t["trace"][1:]), "session": "s1", "worker": t["worker"],
                          "instance": t["instance"], "rank": t["ranks"]["rank"], "n": t["slices"]}
                         for t in sorted(profd.traces(session="s1"), key=lambda t: int(t["trace"][1:]))]
        # Together with the number it is the key, also where several hosts fill one directory.
        catalog = profd.rows("select uuid from catalog_row")[0]["uuid"]
        assert duckdb.rows(f"SELECT DISTINCT catalog FROM '{tmp_path}/s1.parquet'") == [{"catalog": catalog}]
        sql = "SELECT trace_id, rank, instance, worker, name, count(*) AS n, min(ts) AS t FROM slice "
        sql += "GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, name"
        duckdb.run(f"CREATE VIEW slice AS FROM '{tmp_path}/s1.parquet'")
        assert duckdb.rows(sql) == json.loads(run("query", "s1", sql, "--json"))
        # One of them alone has the same values, and so have two.
        run("export", "t2", "--format", "parquet", "-o", "t2.parquet")
        run("export", "1", "t2", "--format", "parquet", "-o", "two.parquet")
        for file, ids in (("t2", "2"), ("two", "1, 2")):
            both = duckdb.rows(f"SELECT * FROM '{tmp_path}/{file}.parquet' ORDER BY trace_id, id")
            assert both and both == duckdb.rows(f"SELECT * FROM '{tmp_path}/s1.parquet' WHERE trace_id IN ({ids}) ORDER BY trace_id, id")


def test_a_directory_is_filled_by_date(duckdb, profctl, tmp_path):
    ranks, single = CORPUS / "sglang_decode_8rank", CORPUS / "hta/nccl_data_rank0.json.gz"
    events_file(tmp_path / "t.json", 3, base=0)
    (tmp_path / "lake").mkdir()
    for trace, output in ((ranks, "lake"), (single, "lake"), ("t.json", "lake/"), (single, "lake/")):
        profctl("export", trace, "--format", "parquet", "-o", output)
    # Of another recording with the same name.
    events_file(tmp_path / "t.json", 4, base=0)
    profctl("export", "t.json", "--format", "parquet", "-o", "lake//")
    profctl("export", single, "--format", "parquet", "--table", "kernel", "-o", "lake")
    [kernels] = (tmp_path / "lake/v1/kernel/date=2024-05-23").glob("nccl_data_rank0-*.parquet")
    kernels.unlink()
    names = sorted(re.sub(r"-[0-9a-f]{12}\.", "-HASH.", str(path.relative_to(tmp_path / "lake/v1/slice")))
                   for path in (tmp_path / "lake").rglob("*.parquet"))
    assert names == ["date=2024-05-23/nccl_data_rank0-HASH.parquet", "date=2025-03-31/sglang_decode_8rank-HASH.parquet",
                     *["date=__HIVE_DEFAULT_PARTITION__/t-HASH.parquet"] * 2]
    found = duckdb.rows(f"SELECT CAST(date AS text) AS day, count(DISTINCT trace) AS n "
                        f"FROM read_parquet('{tmp_path}/lake/v1/slice/*/*.parquet', hive_partitioning = true) GROUP BY date ORDER BY date NULLS LAST")
    assert found == [{"day": "2024-05-23", "n": 1}, {"day": "2025-03-31", "n": 8}, {"day": None, "n": 1}]
    (tmp_path / "file").write_text("")
    assert b"Write to a file in a directory" in profctl("export", "t.json", "--format", "csv", "-o", "file/x", status=1).stderr
    assert b"Write to another directory" in profctl("export", "t.json", "--format", "parquet", "-o", "file/", status=1).stderr


def test_documented_statements_run(duckdb, profctl, tmp_path, monkeypatch):
    day = tmp_path / "v1/slice/date=2026-11-22"
    day.mkdir(parents=True)
    path = exported(profctl, tmp_path, CORPUS / "hta/nccl_data_rank0.json.gz")
    shutil.copy(path, day / "s7-gpu3.parquet")
    shutil.copy(path, tmp_path / "s7.parquet")
    profctl("export", CORPUS / "hta/nccl_data_rank0.json.gz", "--format", "parquet", "--table", "kernel", "-o", "kernel.parquet")
    for table, source in (("kernel", f"FROM '{tmp_path}/kernel.parquet'"),
                          ("request", "SELECT 'c' AS catalog, 'm' AS model, 'r1' AS run, range AS number, range * 1000 AS ttft_ns, 'success' AS outcome FROM range(50)")):
        (tmp_path / f"v1/{table}/date=2026-11-22").mkdir(parents=True)
        duckdb.run(f"COPY ({source}) TO '{tmp_path}/v1/{table}/date=2026-11-22/s7-gpu3.parquet' (FORMAT parquet)")
    text = (ROOT / "docs/parquet.md").read_text().split("## ClickHouse")[0]
    blocks = re.findall(r"```sql\n(.*?)```", text, re.S)
    assert len(blocks) == 3
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v1-compact").mkdir()
    for statement in ";".join(re.sub(r"--.*", "", block) for block in blocks).split(";"):
        if statement.strip().startswith("SELECT"):
            assert duckdb.rows(statement), statement
        elif statement.strip():
            duckdb.run(statement)
    assert list((tmp_path / "v1-compact/slice/date=2026-11-22").glob("*.parquet"))


def test_the_documented_statements_of_clickhouse_run(clickhouse, profctl, tmp_path):
    for table in ("slice", "kernel"):
        day = tmp_path / f"v1/{table}/date=2026-11-22"
        day.mkdir(parents=True)
        profctl("export", CORPUS / "hta/nccl_data_rank0.json.gz", "--format", "parquet", "--table", table, "-o", day / "s7-gpu3.parquet")
    text = (ROOT / "docs/parquet.md").read_text().split("## ClickHouse")[1].split("## Trino")[0]
    statements = [sql for sql in re.findall(r"```sql\n(.*?);\n```", text, re.S) if "s3(" in sql]
    assert len(statements) == 2
    for sql in statements:
        local = re.sub(r"s3\('https://bucket.example/(\S+)', 'KEY', 'SECRET', 'Parquet'\)", lambda m: f"file('{tmp_path}/{m[1]}', Parquet)", sql)
        found = clickhouse.rows(local)
        assert len(found) > 1 and found[0]["s"] >= found[1]["s"] > 0
