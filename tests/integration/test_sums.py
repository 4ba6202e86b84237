# SPDX-License-Identifier: Apache-2.0
"""Sums of traces in the catalog: steps by phase and findings, computed after the import, equal to the reports of the trace."""
import json
import math
import time

import pytest

from daemon import BUILD, PROFD, Daemon, quick_config, wait_for
from real_traces import CORPUS
from report_program import HeldReports

TRACES = ["sglang_decode_8rank/rank3.pt.trace.json.gz", "hta/nccl_data_rank0.json.gz", "tracelens/vllm_piecewise_graph.json.gz"]


def report(profd, trace, name):
    reply = profd.request("GET", f"/v1/traces/{trace}/reports/{name}")
    if reply.status == 404:
        return []
    answer = reply.json()
    return [dict(zip(answer["columns"], row)) for row in answer["rows"]]


def expected_steps(rows):
    phases = {}
    for row in rows:
        phases.setdefault(row["phase"] or None, []).append(row["dur_ns"])
    rank = lambda values, percent: sorted(values)[math.ceil(len(values) * percent / 100) - 1]
    return sorted(((phase, len(v), sum(v), rank(v, 50), rank(v, 99), max(v)) for phase, v in phases.items()), key=str)


def test_sums_are_those_of_the_reports(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        names = [profd.post("/v1/traces", {"path": str(CORPUS / name)}, 201)["trace"] for name in TRACES]
        any_steps = any_findings = False
        for name in names:
            trace_id = int(name[1:])
            steps, findings = expected_steps(report(profd, name, "steps")), report(profd, name, "findings")
            wait_for(lambda: len(profd.rows("select phase from step_sums where trace_id = ?", trace_id)) == len(steps)
                     and len(profd.rows("select rule from finding where trace_id = ?", trace_id)) == len(findings))
            found = profd.rows("select phase, steps, sum_ns, p50_ns, p99_ns, max_ns from step_sums where trace_id = ?", trace_id)
            assert sorted((tuple(row.values()) for row in found), key=str) == steps
            rows = profd.rows("select rule, what, cost_ns, share, label, trace_uuid from finding where trace_id = ? order by number", trace_id)
            rows = [list(row.values()) for row in rows]
            assert [(row[0], row[1], row[2]) for row in rows] == [(f["rule"], f["what"], f["cost_ns"]) for f in findings]
            assert all((row[3] is None) == (f["share"] is None) and (f["share"] is None or abs(row[3] - f["share"]) < 1e-12) for row, f in zip(rows, findings))
            assert all(row[4] and row[1].startswith(row[4]) for row in rows if ":" in row[1][:40]) and all(row[5] for row in rows)
            any_steps, any_findings = any_steps or steps, any_findings or findings
        assert any_steps and any_findings
        assert profd.request("DELETE", f"/v1/traces/{names[0]}").status == 200
        assert not profd.rows("select * from step_sums where trace_id = ?", int(names[0][1:]))


def summed(profd):
    """Traces with sums."""
    return {row["trace_id"] for row in profd.rows("select trace_id from step_sums union select trace_id from finding")}


@pytest.mark.parametrize("crash", [True, False])
def test_what_waits_at_a_restart_is_computed_afterwards(tmp_path, crash):
    with HeldReports(tmp_path / "profd", quick_config()) as profd:
        ids = {int(profd.post("/v1/traces", {"path": str(CORPUS / name)}, 201)["trace"][1:]) for name in TRACES}
        wait_for(profd.specs)
        assert not summed(profd) and len(profd.rows("select id from background_row where kind = 'sums'")) == len(ids)
        profd.kill() if crash else profd.stop()
        profd.go.touch()
        profd.start()
        wait_for(lambda: summed(profd) == ids)
        wait_for(lambda: not profd.rows("select id from background_row"))


def test_a_trace_that_is_read_again_gets_its_sums_again(tmp_path):
    with HeldReports(tmp_path / "profd", quick_config()) as profd:
        profd.go.touch()
        path = str(CORPUS / TRACES[0])
        trace = int(profd.post("/v1/traces", {"path": path}, 201)["trace"][1:])
        wait_for(lambda: summed(profd) == {trace} and not profd.rows("select id from background_row"))
        profd.go.unlink()
        assert int(profd.post("/v1/traces", {"path": path, "again": True})["trace"][1:]) == trace
        wait_for(lambda: len(profd.specs()) == 2)
        # Once more while they are computed: the end of that does not stand for this.
        profd.post("/v1/traces", {"path": path, "again": True})
        profd.go.touch()
        wait_for(lambda: len(profd.specs()) == 3 and not profd.rows("select id from background_row"))
        assert summed(profd) == {trace}


def test_an_idle_profd_ends_after_its_sums(tmp_path):
    profd = HeldReports(tmp_path / "profd", quick_config(), ["--exit-when-idle", "300ms"])
    with profd:
        trace = int(profd.post("/v1/traces", {"path": str(CORPUS / TRACES[0])}, 201)["trace"][1:])
        wait_for(profd.specs)
        time.sleep(1.5)
        assert profd.process.poll() is None
        profd.go.touch()
        wait_for(lambda: profd.process.poll() is not None)
        assert profd.process.returncode == 0 and summed(profd) == {trace}
        profd.process = None


def test_a_child_that_is_killed_is_tried_again(tmp_path):
    """By the administrator, or for want of memory; a trace that ends its child each time does not cost more than a few tries."""
    with HeldReports(tmp_path / "profd", quick_config(), script="kill -KILL $$") as profd:
        profd.post("/v1/traces", {"path": str(CORPUS / TRACES[0])}, 201)
        [row] = wait_for(lambda: profd.rows("select tries, next_at from background_row where tries = 1"))
        assert time.time() < row["next_at"] / 1e9 < time.time() + 60 and len(profd.specs()) == 1
        assert "tried again" in profd.log()


def test_no_more_findings_than_reports_make(tmp_path):
    many = tmp_path / "many.json"
    many.write_text(json.dumps({"steps": [], "findings": [{"rule": "x"}] * 9000}))
    with HeldReports(tmp_path / "profd", quick_config(), script=f"cat {many} >&4; echo '{{}}'; exit 0") as profd:
        profd.post("/v1/traces", {"path": str(CORPUS / TRACES[0])}, 201)
        wait_for(lambda: profd.specs() and not profd.rows("select id from background_row"))
        assert profd.rows("select count(*) as n from finding") == [{"n": 100}]


@pytest.mark.parametrize("answer", ["'{\"steps\":[{\"phase\":7,\"steps\":\"x\"}],\"findings\":[3,{\"rule\":9}]}'", "'[1]'", "nonsense", "''"])
def test_an_answer_of_any_kind_costs_only_its_sums(tmp_path, answer):
    place = tmp_path / "build"
    (place / "ingest").mkdir(parents=True)
    (place / "report").mkdir()
    (place / "profd").write_bytes(PROFD.read_bytes())
    (place / "profd").chmod(0o755)
    (place / "ingest/profd-ingest").symlink_to(BUILD / "daemon/ingest/profd-ingest")
    program = place / "report/profd-report"
    program.write_text(f"#!/bin/sh\necho {answer} >&4\necho '{{}}'\n")
    program.chmod(0o755)
    profd = Daemon(tmp_path / "profd", quick_config())
    profd.command = lambda: [place / "profd", *Daemon.command(profd)[1:]]
    with profd:
        name = profd.post("/v1/traces", {"path": str(CORPUS / TRACES[0])}, 201)["trace"]
        wait_for(lambda: 'profd_reports_total{result="answered"} 1' in profd.request("GET", "/metrics").body.decode())
        assert profd.get(f"/v1/traces/{name}")["state"] == "complete"
        assert not profd.rows("select * from finding")
