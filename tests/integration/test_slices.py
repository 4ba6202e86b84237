# SPDX-License-Identifier: Apache-2.0
"""[archive] slices=parquet: one file of each session in the archive, with the rows of `profctl export --format parquet`."""
import os
import subprocess
import sys

import pytest

from daemon import BUILD, ROOT, Daemon, FaultFleet, quick_config, wait_for
from duckdb_reader import LIBRARY, DuckDB
from report_program import REPORT, HeldReports
from test_parquet import documented_fields, fields_of

sys.path.insert(0, str(ROOT / "tests/fleet"))
from fleet import Fleet  # noqa: E402

PROFCTL = BUILD / "client/profctl"


def test_slices_of_a_session_are_in_the_archive(tmp_path):
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is missing; ./dev test unpacks it")
    shared = tmp_path / "shared"
    shared.mkdir()
    config = quick_config() + f"[archive]\nurl=file://{shared}\nslices=parquet\n"
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--ranks", "2") as fleet, Daemon(tmp_path / "profd", config) as profd:
        profd.wait_session(profd.start_session(router=fleet.router, duration_ns=100_000_000)["session"])
        wait_for(lambda: len(list(shared.glob("v1/*/date=*/*.parquet"))) == 3)
        [path] = shared.glob("v1/slice/date=*/*.parquet")
        [[uuid, catalog]] = [list(row.values()) for row in profd.rows("select s.uuid, c.uuid as c from session_row s, catalog_row c")]
        assert path.name == f"{uuid}-{catalog}.parquet"
        subprocess.run([PROFCTL, "export", "s1", "--format", "parquet", "-o", tmp_path / "s1.parquet"], check=True, stdin=subprocess.DEVNULL,
                       env={**os.environ, "PROFD_SOCKET": str(profd.socket), "XDG_CACHE_HOME": str(tmp_path / "cache")})
        duckdb = DuckDB(tmp_path)
        rows = "SELECT * EXCLUDE (catalog, host, instance) FROM read_parquet('{}', hive_partitioning = false) ORDER BY trace_id, id"
        found, expected = duckdb.rows(rows.format(path)), duckdb.rows(rows.format(tmp_path / "s1.parquet"))
        assert found and len(found) == len(expected)
        assert not {name for one, other in zip(found, expected) for name in one if one[name] != other[name]}
        assert duckdb.rows(f"SELECT DISTINCT catalog, count(DISTINCT trace) AS n FROM '{path}' GROUP BY 1") == [{"catalog": catalog, "n": len(profd.traces())}]
        # Of the catalog, which has the names with the largest sums, and of the reports of each trace.
        [names] = shared.glob("v1/name/date=*/*.parquet")
        found = {tuple(row.values()) for row in duckdb.rows(f"SELECT trace_id, category, name, count, sum_ns, min_ns, max_ns FROM '{names}'")}
        expected = {tuple(row.values()) for row in profd.rows("select trace_id, category, name, count, sum_ns, min_ns, max_ns from trace_names")}
        assert expected and expected <= found
        [kernels] = shared.glob("v1/kernel/date=*/*.parquet")
        found = duckdb.rows(f"SELECT trace, catalog, host, name, count, p99_ns FROM '{kernels}' ORDER BY trace_id")
        expected = []
        for trace in sorted(profd.traces(), key=lambda t: int(t["trace"][1:])):
            report = profd.get(f"/v1/traces/{trace['trace']}/reports/kernels")
            rows = [dict(zip(report["columns"], row)) for row in report["rows"]]
            host = profd.rows("select host from catalog_row")[0]["host"]
            expected += [{"trace": trace["trace"], "catalog": catalog, "host": host, "name": r["name"], "count": r["count"], "p99_ns": r["p99_ns"]} for r in rows]
        assert found == expected and found
        duckdb.close()
        # The archive has it: nothing is left here.
        wait_for(lambda: not list((profd.state / "slices").glob("*")))


def test_requests_of_a_run_are_in_the_archive(tmp_path):
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is missing; ./dev test unpacks it")
    shared = tmp_path / "shared"
    shared.mkdir()
    config = quick_config() + f"[archive]\nurl=file://{shared}\nslices=parquet\n"
    with Fleet(tmp_path / "fleet") as fleet, Daemon(tmp_path / "profd", config) as profd:
        worker = fleet.add_vllm()
        worker.wait_ready()
        run = profd.post("/v1/runs", {"workers": [worker.url], "workload": {"isl": 8, "osl": 3, "requests": 12, "concurrency": 6, "warmup": 0}}, 202)["run"]
        [path] = wait_for(lambda: list(shared.glob("v1/request/date=*/*.parquet")))
        [[uuid, catalog]] = [list(row.values()) for row in profd.rows("select r.uuid, c.uuid as c from run_row r, catalog_row c")]
        assert path.name == f"{uuid}-{catalog}.parquet"
        duckdb = DuckDB(tmp_path)
        expected = profd.rows("select * from requests order by number")
        assert len(expected) == 12
        for row in expected:
            row["intended_at"] //= 1000
        columns = ", ".join("epoch_us(intended_at) AS intended_at" if name == "intended_at" else name for name in expected[0])
        assert duckdb.rows(f"SELECT {columns} FROM '{path}' ORDER BY number") == expected
        origin = duckdb.rows(f"SELECT DISTINCT catalog, run, session, model, outcome FROM '{path}'")
        assert origin == [{"catalog": catalog, "run": f"r{run}", "session": None, "model": profd.get(f"/v1/runs/r{run}")["model"], "outcome": "success"}]
        assert fields_of(duckdb, path) == documented_fields("request")
        duckdb.close()
        wait_for(lambda: not profd.rows("select id from background_row") and not list((profd.state / "slices").glob("*")))


@pytest.mark.parametrize("crash", [True, False])
def test_what_waits_at_a_restart_is_written_afterwards(tmp_path, crash):
    shared = tmp_path / "shared"
    shared.mkdir()
    config = quick_config() + f"[archive]\nurl=file://{shared}\nslices=parquet\n"
    script = f"""case "$SPEC" in *'"slices"'*) echo "$5" >> {tmp_path}/sizes ;; *) exec {REPORT} "$@" ;; esac"""
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, HeldReports(tmp_path / "profd", config, script=script) as profd:
        for number in range(2):
            profd.wait_session(profd.start_session(router=fleet.router, duration_ns=100_000_000)["session"])
        wait_for(lambda: any('"slices"' in spec for spec in profd.specs()))
        assert not list(shared.glob("v1/slice/**/*.parquet"))
        profd.kill() if crash else profd.stop()
        profd.go.touch()
        profd.start()
        wait_for(lambda: len(list(shared.glob("v1/slice/date=*/*.parquet"))) == 2)
        wait_for(lambda: not profd.rows("select id from background_row") and not list((profd.state / "slices").glob("*")))
    # A trace that takes over the child that reads it fills no disk.
    assert max(int(size) for size in (tmp_path / "sizes").read_text().split()) <= 256 << 20


def test_without_the_key_there_are_none(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, Daemon(tmp_path / "profd", quick_config() + f"[archive]\nurl=file://{shared}\n") as profd:
        profd.wait_session(profd.start_session(router=fleet.router, duration_ns=100_000_000)["session"])
        wait_for(lambda: list(shared.glob("traces/sha256/*/*")))
        assert not list(shared.glob("v1/slice/**")) and not (profd.state / "slices").exists()
