# SPDX-License-Identifier: Apache-2.0
"""Reports and SQL over HTTP: the results of profctl on the same trace, in a process without rights that ends with its client."""
import contextlib
import hashlib
import http.client
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from daemon import BUILD, SANITIZED, Daemon, FaultFleet, free_port, quick_config, token_line, wait_for, write_tokens
from patience import patience
from real_traces import CORPUS
from report_program import REPORT, HeldReports
from test_results import DIGITS, RESULTS

PROFCTL = BUILD / "client/profctl"
# Of each profiler and engine, with lost events, without GPUs, of a database, of one rank of many.
REAL = ["hta/nccl_data_rank0.json.gz", "hta/cpu_only_rank34.json.gz", "param/linear_kineto.json.gz", "tracelens/mi300_qwen15.json.gz",
        "tracelens/vllm_piecewise_graph.json.gz", "malformed/truncated_gz.json.gz", "nsys/h100_2gpu_1s.sqlite.gz",
        "sglang_decode_8rank/rank3.pt.trace.json.gz"]
SQL = ["select * from slice", "select * from kernel", "select * from args limit 2000", "select * from report_findings",
       "select name, count(*), sum(dur), avg(dur), max(ts) from slice group by name order by name",
       "select null, 1.5, 1e300, 'a\"b', x'00ff', 9223372036854775807, 0.1 + 0.2, -0.0", "select random() is not null as r",
       "select extract_arg(arg_set_id, 'args.stream') as s, count(*) from slice group by 1 order by 1"]


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("profd"), quick_config(more="[limits]\nreports=3\n")) as running:
        yield running


def profctl(profd, *words, status=0):
    done = subprocess.run([PROFCTL, *words], capture_output=True, timeout=patience(120), stdin=subprocess.DEVNULL,
                          env={**os.environ, "PROFD_SOCKET": str(profd.socket), "XDG_CACHE_HOME": str(profd.directory / "cache")})
    assert done.returncode == status, done.stderr.decode()
    return done.stdout


def imported(profd, name):
    return profd.post("/v1/traces", {"path": str(CORPUS / name)}, 201)["trace"]


def as_profctl(report, trace):
    """A report as `profctl analyze --json` prints it."""
    return {"report": report["report"], "trace": trace, "rows": [dict(zip(report["columns"], row)) for row in report["rows"]]}


@pytest.mark.parametrize("name", REAL)
def test_reports_and_rows_are_those_of_profctl(profd, name):
    trace = imported(profd, name)
    known = json.loads(RESULTS.read_text()).get(name, {})
    compared = 0
    for expected in json.loads(profctl(profd, "analyze", trace, "--json")):
        found = as_profctl(profd.get(f"/v1/traces/{trace}/reports/{expected['report']}"), trace)
        assert found == expected
        # These have the name of the trace, or of its file.
        if expected["report"] not in ("summary", "instances") and f"report {expected['report']}" in known:
            digest = hashlib.sha256(json.dumps({**found, "trace": name}).encode()).hexdigest()[:DIGITS]
            assert digest == known[f"report {expected['report']}"], expected["report"]
            compared += 1
    assert compared > 3 or not known
    for sql in SQL:
        expected = json.loads(profctl(profd, "query", trace, sql, "--json"))
        found = profd.post(f"/v1/traces/{trace}/query", {"sql": sql})
        assert not found["more"] and [list(row.values()) for row in expected] == found["rows"], sql
        assert not expected or list(expected[0]) == found["columns"]
    part = profd.post(f"/v1/traces/{trace}/query", {"sql": "select ts from slice", "limit": 2})
    assert part["more"] and len(part["rows"]) == 2


def test_a_part_of_a_trace(profd):
    trace = imported(profd, "sglang_decode_8rank/rank0.pt.trace.json.gz")
    whole = profd.get(f"/v1/traces/{trace}/reports/kernels")
    top = profd.get(f"/v1/traces/{trace}/reports/kernels", top=3)
    assert top["rows"] == whole["rows"][:3]
    words = ("--from", "100us", "--to", "900us")
    expected = json.loads(profctl(profd, "analyze", trace, "--report", "kernels", "--json", *words))
    found = profd.get(f"/v1/traces/{trace}/reports/kernels", **{"from": 100_000, "to": 900_000})
    assert as_profctl(found, trace) == expected and found["rows"] != whole["rows"]


@pytest.mark.parametrize("path, body, status, word", [
    ("/v1/traces/t1/reports/kernel", None, 404, "unknown report"),
    ("/v1/traces/t1/reports/" + "k" * 64, None, 404, "unknown report"),
    ("/v1/traces/t9999/reports/kernels", None, 404, "no trace"),
    ("/v1/traces/t1/reports/memory", None, 404, "contains no events"),
    ("/v1/traces/t1/reports/kernels?from=5&to=5", None, 400, "from must be before to"),
    ("/v1/traces/t1/reports/kernels?from=x", None, 400, "from=x"),
    ("/v1/traces/t1/reports/kernels?from=900000000000000", None, 404, "after the end"),
    ("/v1/traces/t1/reports/kernels?step=900000", None, 404, "no such step"),
    ("/v1/traces/t1/reports/kernels?phase=lunch", None, 400, "prefill"),
    ("/v1/traces/t1/reports/kernels?sql=x", None, 400, "takes no parameter"),
    ("/v1/traces/t1/query", {"sql": "select"}, 422, "incomplete input"),
    ("/v1/traces/t1/query", {"sql": "select 1; select 2"}, 400, "one statement"),
    ("/v1/traces/t1/query", {"sql": "attach 'x' as y"}, 422, "not authorized"),
    ("/v1/traces/t1/query", {"sql": "select load_extension('x')"}, 422, ""),
    ("/v1/traces/t1/query", {"sql": "select readfile('/etc/passwd')"}, 422, "no such function"),
    ("/v1/traces/t1/query", {"sql": "create table x(y)"}, 422, "not authorized"),
    ("/v1/traces/t1/query", {}, 400, "missing"),
    ("/v1/traces/t1/query", {"sql": "select 1", "limit": 100001}, 400, "limit"),
    ("/v1/traces/t1/query", {"sql": "select 1", "trace_dir": "/"}, 400, "trace_dir"),
    ("/v1/reports", {"reports": ["kernels"]}, 400, "must be given"),
    ("/v1/reports", {"traces": ["t1"], "reports": []}, 400, "must be named"),
    ("/v1/reports", {"traces": ["t1"], "reports": ["x"]}, 404, "unknown report"),
    ("/v1/reports", {"traces": ["/etc"], "reports": ["kernels"]}, 400, "ids of traces"),
    ("/v1/reports", {"session": "s99", "reports": ["kernels"]}, 404, "no session"),
])
def test_refusals(profd, path, body, status, word):
    imported(profd, REAL[0]) if not profd.traces() else None
    problem = profd.problem("POST" if body is not None else "GET", path, body, status)
    assert word in problem["detail"], problem


def test_a_session_is_analyzed_at_once(tmp_path):
    with FaultFleet(tmp_path / "fleet", "sglang", 2, "--ranks", "2") as fleet, Daemon(tmp_path / "profd", quick_config()) as profd:
        profd.wait_session(profd.start_session(router=fleet.router, duration_ns=100_000_000)["session"])
        names = ["kernels", "summary", "gaps", "instances", "imbalance"]
        answer = profd.post("/v1/reports", {"session": "s1", "reports": names})
        assert answer["left"] == [] and {t for part in answer["parts"] for t in part["traces"]} == {t["trace"] for t in profd.traces()}
        for expected in json.loads(profctl(profd, "analyze", "s1", "--report", ",".join(names), "--json", status=3 if any(
                part.get("lacking") for part in answer["parts"]) else 0)):
            parts = [part for part in answer["parts"] if part["report"] == expected["report"] and "rows" in part]
            rows = [{"instance": part["instance"], **dict(zip(part["columns"], row))} if parts[0]["instance"] and "instance" in expected["rows"][0]
                    else dict(zip(part["columns"], row)) for part in parts for row in part["rows"]]
            assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, expected["rows"])), expected["report"]


def test_descriptors_of_many_traces_are_closed_once(tmp_path):
    """The child of many traces gets numbers that descriptors of profd have, which are moved."""
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        traces = [imported(profd, f"sglang_decode_8rank/rank{rank}.pt.trace.json.gz") for rank in range(8)]
        wait_idle(profd)
        descriptors = Path(f"/proc/{profd.pid}/fd")
        open_now = set()
        for _ in range(4):
            [part] = profd.post("/v1/reports", {"traces": traces, "reports": ["summary"]})["parts"]
            assert part["rows"]
            wait_idle(profd)
            open_now.add(len(list(descriptors.iterdir())))
        assert max(open_now) - min(open_now) < 4 and "Bad file descriptor" not in profd.log()


# -- The process ------------------------------------------------------------------------------------------------------------------

ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"


def children(profd):
    found = []
    for task in Path(f"/proc/{profd.pid}/task").glob("*/children"):
        for child in task.read_text().split():
            with contextlib.suppress(OSError):
                if "profd-report" in Path(f"/proc/{child}/comm").read_text():
                    found.append(int(child))
    return found


def wait_idle(profd):
    """Sums of traces that were imported are computed, too."""
    wait_for(lambda: not profd.rows("select id from background_row") and not children(profd) and "profd_reports_waiting 0" in profd.request("GET", "/metrics").body.decode())


def test_it_ends_with_its_client(profd):
    trace = imported(profd, REAL[0]) if not profd.traces() else profd.traces()[0]["trace"]
    body = json.dumps({"sql": ENDLESS})
    wait_idle(profd)
    connection = profd.connection()
    connection.request("POST", f"/v1/traces/{trace}/query", body)
    [child] = wait_for(lambda: children(profd))
    if not SANITIZED:
        text = Path(f"/proc/{child}/status")
        wait_for(lambda: "Seccomp:\t2" in text.read_text())
        status = dict(line.split(":\t", 1) for line in text.read_text().splitlines())
        assert status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0
    connection.close()
    wait_for(lambda: not children(profd))
    assert profd.post(f"/v1/traces/{trace}/query", {"sql": "select 1 as one"})["rows"] == [[1]]


def test_no_more_than_the_limit_run_at_a_time(profd):
    trace = imported(profd, REAL[0]) if not profd.traces() else profd.traces()[0]["trace"]
    wait_idle(profd)
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(contextlib.closing(profd.connection())) for _ in range(5)]
        for connection in waiting:
            connection.request("POST", f"/v1/traces/{trace}/query", json.dumps({"sql": ENDLESS}))
        wait_for(lambda: len(children(profd)) == 3 and 'profd_reports_waiting 2' in profd.request("GET", "/metrics").body.decode())
        # profd itself is not kept from its work.
        assert profd.get("/v1/version")
        os.kill(children(profd)[0], signal.SIGKILL)
        answer = waiting[0].getresponse()
        assert answer.status == 413 and "SIGKILL" in json.load(answer)["detail"]
    wait_for(lambda: not children(profd))


ONLY_BACKGROUND = f"""case "$SPEC" in *'"sums"'*) ;; *) exec {REPORT} "$@" ;; esac"""


def test_background_work_delays_nobody(tmp_path):
    with HeldReports(tmp_path / "profd", quick_config(more="[limits]\nreports=1\n"), script=ONLY_BACKGROUND) as profd:
        trace = imported(profd, REAL[0])
        wait_for(profd.specs)
        assert profd.post(f"/v1/traces/{trace}/query", {"sql": "select 1 as one"})["rows"] == [[1]]
        assert profd.get(f"/v1/traces/{trace}/reports/kernels")["rows"]
        profd.go.touch()


def test_users_take_turns(tmp_path):
    tokens, port = write_tokens(tmp_path / "tokens", token_line("other", "read", "t" * 40)), free_port()
    config = quick_config(more=f"[limits]\nreports=1\n[http]\ntokens_file={tokens}\n")
    with HeldReports(tmp_path / "profd", config, ["--listen", f"127.0.0.1:{port}"]) as profd, contextlib.ExitStack() as stack:
        trace = imported(profd, REAL[0])
        wait_for(profd.specs)  # of its sums, beside which the others run
        path = f"/v1/traces/{trace}/query"

        def asked(connection, mark, headers=()):
            connection.request("POST", path, json.dumps({"sql": f"select '{mark}' as mark"}), dict(headers))
            return connection

        # The first one no longer waits when the others come: 32 of one user may.
        mine = [asked(stack.enter_context(contextlib.closing(profd.connection())), "mine0")]
        wait_for(lambda: any('"sql"' in spec for spec in profd.specs()))
        mine += [asked(stack.enter_context(contextlib.closing(profd.connection())), f"mine{i}") for i in range(1, 33)]
        waiting = lambda n: f"profd_reports_waiting {n}" in profd.request("GET", "/metrics").body.decode()
        wait_for(lambda: waiting(32))
        refused = profd.request("POST", path, {"sql": "select 1"})
        assert refused.status == 429 and "of this user" in refused.json()["detail"] and refused.json()["remedy"]
        assert refused.headers["Retry-After"] == "1"
        other = stack.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=patience(60))))
        asked(other, "other", {"Authorization": "Bearer " + "t" * 40}.items())
        wait_for(lambda: waiting(33))
        profd.go.touch()
        assert json.load(other.getresponse())["rows"] == [["other"]]
        assert all(json.load(connection.getresponse())["rows"] == [[f"mine{i}"]] for i, connection in enumerate(mine))
        marks = [json.loads(spec)["sql"].split("'")[1] for spec in profd.specs() if '"sql"' in spec]
        assert sorted(marks[1:3]) == ["mine1", "other"], "not after all of the other's"


def test_names_of_too_many_traces_are_refused_unread(profd):
    trace = imported(profd, REAL[0]) if not profd.traces() else profd.traces()[0]["trace"]
    problem = profd.problem("POST", "/v1/reports", {"traces": [trace] * 256 + ["t9999"], "reports": ["kernels"]}, 413)
    assert "256" in problem["detail"]


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory has no limit")
def test_memory_is_limited(tmp_path):
    with Daemon(tmp_path / "profd", quick_config(more="[limits]\nreport_memory=64M\n")) as profd:
        trace = imported(profd, REAL[0])
        problem = profd.problem("POST", f"/v1/traces/{trace}/query", {"sql": "select printf('%.*c', 100000, 'x') || id as x from slice order by x"}, 413)
        assert "memory" in problem["detail"] + problem["remedy"]
        assert profd.get(f"/v1/traces/{trace}/reports/kernels")["rows"]


def test_a_program_that_is_missing_or_ends_costs_only_its_answer(tmp_path):
    place = tmp_path / "build"
    (place / "ingest").mkdir(parents=True)
    (place / "report").mkdir()
    shutil.copy2(BUILD / "daemon/profd", place / "profd")
    (place / "ingest/profd-ingest").symlink_to(BUILD / "daemon/ingest/profd-ingest")
    program = place / "report/profd-report"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    profd = Daemon(tmp_path / "profd", quick_config())
    profd.command = lambda: [place / "profd", *Daemon.command(profd)[1:]]
    with profd:
        trace = imported(profd, REAL[0])
        for script, word in (("exit 3", "status 3"), ("echo nonsense; exit 0", "without a result"), ("kill -SEGV $$", "SIGSEGV"),
                             ("head -c 100000 /dev/zero", "too much"), ("echo '{\"problem\":\"denied\",\"detail\":\"no\"}'", "no")):
            program.write_text(f"#!/bin/sh\n{script}\n")
            assert word in profd.problem("GET", f"/v1/traces/{trace}/reports/kernels")["detail"]
        program.unlink()
        assert "cannot start" in profd.problem("GET", f"/v1/traces/{trace}/reports/kernels", status=500)["detail"]


def test_columns_that_are_lost_or_damaged(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        trace = imported(profd, REAL[0])
        columns = Path(profd.get(f"/v1/traces/{trace}")["columns"])
        data = bytearray(columns.read_bytes())
        for at in range(65536, len(data) // 2, 65536):
            data[at] ^= 1
        columns.write_bytes(data)
        assert "damaged" in profd.problem("GET", f"/v1/traces/{trace}/reports/kernels")["detail"]
        columns.write_bytes(b"x" * 200)
        assert "cannot be used" in profd.problem("GET", f"/v1/traces/{trace}/reports/kernels", status=507)["detail"]
        columns.unlink()
        assert "cannot be opened" in profd.problem("GET", f"/v1/traces/{trace}/reports/kernels", status=410)["detail"]
