# SPDX-License-Identifier: Apache-2.0
"""[archive] slices=parquet: one file of each session in the archive, with the rows of `profctl export --format parquet`."""
import os
import subprocess

import pytest

from daemon import BUILD, Daemon, FaultFleet, quick_config, wait_for
from duckdb_reader import LIBRARY, DuckDB
from report_program import HeldReports

PROFCTL = BUILD / "client/profctl"


def test_slices_of_a_session_are_in_the_archive(tmp_path):
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is missing; ./dev test unpacks it")
    shared = tmp_path / "shared"
    shared.mkdir()
    config = quick_config() + f"[archive]\nurl=file://{shared}\nslices=parquet\n"
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--ranks", "2") as fleet, Daemon(tmp_path / "profd", config) as profd:
        profd.wait_session(profd.start_session(router=fleet.router, duration_ns=100_000_000)["session"])
        [path] = wait_for(lambda: list(shared.glob("v1/slice/date=*/*.parquet")))
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
        duckdb.close()
        # The archive has it: nothing is left here.
        wait_for(lambda: not list((profd.state / "slices").glob("*")))


@pytest.mark.parametrize("crash", [True, False])
def test_what_waits_at_a_restart_is_written_afterwards(tmp_path, crash):
    shared = tmp_path / "shared"
    shared.mkdir()
    config = quick_config() + f"[archive]\nurl=file://{shared}\nslices=parquet\n"
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, HeldReports(tmp_path / "profd", config) as profd:
        for number in range(2):
            profd.wait_session(profd.start_session(router=fleet.router, duration_ns=100_000_000)["session"])
        wait_for(lambda: any('"slices"' in spec for spec in profd.specs()))
        assert not list(shared.glob("v1/slice/**/*.parquet"))
        profd.kill() if crash else profd.stop()
        profd.go.touch()
        profd.start()
        wait_for(lambda: len(list(shared.glob("v1/slice/date=*/*.parquet"))) == 2)
        wait_for(lambda: not profd.rows("select id from background_row") and not list((profd.state / "slices").glob("*")))


def test_without_the_key_there_are_none(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, Daemon(tmp_path / "profd", quick_config() + f"[archive]\nurl=file://{shared}\n") as profd:
        profd.wait_session(profd.start_session(router=fleet.router, duration_ns=100_000_000)["session"])
        wait_for(lambda: list(shared.glob("traces/sha256/*/*")))
        assert not list(shared.glob("v1/slice/**")) and not (profd.state / "slices").exists()
