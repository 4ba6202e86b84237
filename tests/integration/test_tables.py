# SPDX-License-Identifier: Apache-2.0
"""Every list and the main reports as people see them on terminals of 80, 100 and 140 columns, held against the screens in
tests/data/screens. After a change that is wanted, ./dev screens writes them anew; read the difference before you commit it."""
import csv
import io
import json
import os
import re
import subprocess
import unicodedata

import pytest

from fake_profd import MIB, SECOND, T0, USAGE, FakeProfd, session, target, trace
from terminal import PROFCTL, SOURCE, environment, on_terminal, plain, run
from test_runs_verbs import a_run

SCREENS = SOURCE / "tests/data/screens"
WIDTHS = (80, 100, 140)
UPDATE = os.environ.get("PROFD_UPDATE_SCREENS") == "1"

# Long and alike, so that whatever is cut is cut where it matters.
ROUTERS = ["http://127.0.0.1:33301", "http://127.0.0.1:33302", "http://[2001:db8:85a3::8a2e:370:7334]:31000", "https://router.llm-prod.example.com:8443"]
WORKERS = [f"http://10.107.24.{n}:15000" for n in range(101, 105)]
MODEL = "/mnt/models/checkpoints/Qwen3-235B-A22B-Instruct-2507-FP8"


def worker(url, **more):
    return {"url": url, "engine": "sglang", "version": "0.5.6.post2", "role": "decode", "health": "healthy", "model": MODEL, "load": 3,
            "profilable": True, "local": True, "traces": {"dir": "/var/tmp/traces", "local_dir": "/var/tmp/sglang/traces/decode"}} | more


def a_session(n, state="complete", **more):
    targets = [target(i + 1, state="complete", worker=url, traces=[f"t{1000123 + i}"]) for i, url in enumerate(WORKERS)]
    return session(state, targets) | {"session": f"s{n}", "router": ROUTERS[n % len(ROUTERS)]} | more


def request(index, **more):
    return {"index": index, "intended_ns": index * 125_000_000, "lateness_ns": 20_000, "ttft_ns": 31_200_000 + index, "tpot_ns": 9_500_000,
            "e2e_ns": 1_214_000_000, "input_tokens": 1024, "output_tokens": 128, "outcome": "success", "target": WORKERS[0]} | more


def requests(query, body):
    rows = [*(request(i, error=None) for i in range(3)), request(3, outcome="error", ttft_ns=None, tpot_ns=None,
                                                     error="HTTP 503 Service Unavailable: the queue of the router is full")]
    if query["format"] == ["json"]:
        return {"requests": rows}
    text = io.StringIO(newline="")
    csv.writer(text).writerows([rows[0], *(row.values() for row in rows)])
    return text.getvalue().encode()


def hosts():
    """One that answers, with lags; one that was there and is away; one that refuses the token."""
    def host(name, number, **more):
        return {"host": name, "peer": name, "catalog": f"6b1f0000-0000-4000-8000-00000000000{number}", "url": f"https://{name}.cluster.example.com:9460",
                "state": "ok", "version": "0.2.0", "workers": 8, "sessions": 1, "store": {"bytes": 31 << 30, "max_use": 200 << 30}, "seen_at": T0} | more

    own = host("gpu1", 1, state="self", clock_offset_ns=0, clock_error_ns=0, upload={"files": 0, "bytes": 0, "lag_ns": 0}, mirror={"rows": 0, "lag_ns": 0})
    del own["url"], own["peer"]
    clock = {"clock_offset_ns": 1_234_000, "clock_error_ns": 412_000}
    return [own, host("gpu2", 2, **clock, upload={"files": 12, "bytes": 3 << 30, "lag_ns": 180 * SECOND}, mirror={"rows": 412, "lag_ns": 9 * SECOND}),
            host("gpu3", 3, **clock, state="unreachable", problem="the profd of gpu3 (https://gpu3.cluster.example.com:9460) does not answer: connection refused",
                 remedy="Check on gpu3 that profd runs (systemctl status profd) and that [profd] listen= has the address and port of the URL."),
            {"host": "gpu4", "peer": "gpu4", "url": "https://gpu4.cluster.example.com:9460", "state": "refused", "problem": "gpu4: unknown token",
             "remedy": "Its tokens file must have the token that this profd sends: profctl peer join prints both sides."}]


def answers():
    return {
        "GET /v1/workers": {"router": ROUTERS[0], "dialect": "sglang", "workers": [worker(url) for url in WORKERS] + [
            worker("http://10.107.24.105:15000", role="prefill", health="unhealthy", profilable=False, reason="connection refused")]},
        "GET /v1/hosts": {"hosts": hosts()},
        "GET /v1/sessions": {"sessions": [a_session(12345 + n, state=state, labels={"job": "nightly-regression", "commit": "4f2a9c1e"})
                                          for n, state in enumerate(("complete", "partial", "failed", "complete"))]},
        "GET /v1/sessions/s12345": a_session(12345),
        "GET /v1/traces": {"usage": USAGE, "traces": [
            *(trace(1000123 + n, session="s12345", worker=url, ranks={"dp": 1, "tp": 3, "rank": 7}) for n, url in enumerate(WORKERS)),
            trace(1000119, session=None, worker=None, state="truncated", reason="the gzip stream ends early at byte 4194304",
                  name="worker-decode-0-of-4-1763647331.123456-TP-0-DP-3-EP-0.trace.json.gz")]},
        "GET /v1/traces/t1000123": trace(1000123, worker=WORKERS[0]),
        "GET /v1/usage": USAGE,
        "GET /v1/runs": {"runs": [a_run(8 - n, concurrency=2 ** (7 - n), model=MODEL, throughput=20700.0 / (n + 1),
                                        labels={"sweep": "nightly", "commit": "4f2a9c1e"}) for n in range(4)]},
        "GET /v1/runs/r8": a_run(8, model=MODEL),
        "GET /v1/runs/r8/requests": requests,
        "GET /v1/runs/r7": a_run(7, model=MODEL, throughput=1999.0),
        "GET /v1/runs/r7/requests": requests,
        "GET /v1/functions": {"servers": [{"worker": WORKERS[0], "clock": "cpu"}], "functions": [
            {"worker": WORKERS[n % 2], "name": f"verify_{what}", "file": f"/srv/nemo-gym/resources_servers/math/{what}/verify.py", "line": 120 + n,
             "calls": 20480 >> n, "tsub_ns": 4_000_000_000 >> n, "ttot_ns": 9_000_000_000 >> n, "tavg_ns": 439_453}
            for n, what in enumerate(("answer", "answer_with_sympy", "format"))]},
    }


def kernel(name, ts, dur, correlation):
    at = {"ph": "X", "pid": 1, "ts": ts}
    return [{**at, "cat": "cpu_op", "name": "aten::mm", "tid": 1, "dur": 8, "args": {
                "External id": correlation, "Input Dims": [[4096, 7168], [7168, 2048]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}},
            {**at, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "ts": ts + 1, "dur": 5, "args": {
                "correlation": correlation, "External id": correlation}},
            {**at, "cat": "kernel", "name": name, "tid": 7, "ts": ts + 10, "dur": dur, "args": {
                "stream": 7, "device": 0, "correlation": correlation, "External id": correlation}}]


# Alike in their first 60 characters.
KERNELS = [f"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{shape}_tn_align8>(cutlass_80_tensorop::Params)"
           for shape in ("128x128_64x4", "256x64_32x4", "64x256_32x4")] + ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"]


def write_trace(directory):
    events = []
    for n in range(6):
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 1, "tid": 1, "ts": 1000 * n, "dur": 1000})
        for k, name in enumerate(KERNELS):
            events += kernel(name, 1000 * n + 200 * k, 90 + 10 * k, 100 * n + k + 1)
    (directory / "decode.json").write_text(json.dumps({
        "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}], "traceEvents": events}))


# Each screen: the words of profctl, run where decode.json is.
SHOWN = {
    "list-workers": ["list-workers", "--router", ROUTERS[0]],
    "list-hosts": ["list-hosts"],
    "list-sessions": ["list-sessions"],
    "list-traces": ["list-traces"],
    "list-runs": ["list-runs"],
    "du": ["du"],
    "status": ["status", "s12345"],
    "show-session": ["show", "s12345"],
    "show-run": ["show", "r8"],
    "requests": ["show", "r8", "--requests"],
    "functions": ["functions", "--router", ROUTERS[0]],
    "reports": ["reports"],
    "queries": ["query", "--named", "list"],
    **{f"report-{name}": ["analyze", "decode.json", "--report", name]
       for name in ("kernels", "roofline", "steps", "gaps", "ops", "op_shapes", "temporal", "launches")},
}
# Lists that are one table, which is what separated values are of.
TABLES = [name for name in SHOWN if name not in ("show-run", "show-session")]


@pytest.fixture
def workspace(tmp_path):
    write_trace(tmp_path)
    with FakeProfd(tmp_path / "fake.sock", answers()) as fake:
        yield fake, tmp_path


def screen(workspace, *words, columns, **more):
    fake, path = workspace
    # Without the progress that only a slow machine shows.
    text, status = on_terminal(fake, "--no-color", "--quiet", *words, columns=columns, cwd=path, env={"XDG_CACHE_HOME": str(path / "cache"), **more})
    assert status == 0, text
    return plain(text)


def piped(workspace, *words, **more):
    fake, path = workspace
    r = run(*words, fake=fake, cwd=path, env={"XDG_CACHE_HOME": str(path / "cache"), **more})
    assert r.returncode == 0, r.stderr
    return r


def width_of(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


@pytest.mark.parametrize("name", SHOWN)
def test_screens(workspace, name):
    shown = "".join(f"=== {columns} columns\n{screen(workspace, *SHOWN[name], columns=columns)}" for columns in WIDTHS)
    path = SCREENS / f"{name}.txt"
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shown)
    assert shown == path.read_text(), "if this is wanted: ./dev screens"


# What names something: ids, addresses, and figures in the lists above.
IDENTIFIERS = [re.sub(r"^http://", "", url) for url in (*ROUTERS, *WORKERS)] + [
    "s12345", "t1000123", "t1000119", "12,800", "20,480", "2026-11-20", "14:02:11"]


def is_cut(word):
    """A part of an identifier that is not all of it, and does not say that it is a part."""
    bare = re.sub(r"^https?://", "", word).rstrip(",:;)")
    return len(bare) >= 4 and re.search(r"\d", bare) and not any(i in word for i in IDENTIFIERS) and any(
        i.startswith(bare) or re.sub(r"^https?://", "", i).startswith(bare) or (i.endswith(bare) and len(bare) >= 6) for i in IDENTIFIERS)


@pytest.mark.parametrize("name", ["list-workers", "list-hosts", "list-sessions", "list-traces", "list-runs", "du", "status", "show-session", "requests", "functions"])
def test_what_identifies_is_never_cut(workspace, name):
    for columns in (24, 33, 40, 50, 57, 64, 71, 80, 90, 100, 115, 140):
        text = screen(workspace, *SHOWN[name], columns=columns)
        assert [word for word in re.split(r"[\s…]+", text) if is_cut(word)] == [], f"{columns} columns:\n{text}"
        if "row 1" not in text and name in ("list-sessions", "list-runs", "requests"):
            assert [line for line in text.splitlines() if width_of(line) > columns] == [], f"{columns} columns"


def test_what_a_report_is_made_for_is_shown_at_80_columns(workspace):
    roofline = screen(workspace, *SHOWN["report-roofline"], columns=80)
    assert {"OPERATOR", "BOUND", "ROOF", "TFLOPS"} <= set(roofline.split())
    runs = screen(workspace, "list-runs", columns=80)
    compared = screen(workspace, "compare", "r7", "r8", columns=80)
    assert {"r7", "r8", "CHANGE", "RESULT"} <= set(compared.split())
    assert [line for line in compared.splitlines() if width_of(line) > 80] == []
    assert {"RUN", "CONC", "ISL", "OSL"} <= set(runs.split()) and re.search(r"^r8 .* 128 ", runs, re.M)


@pytest.mark.parametrize("name", TABLES)
def test_a_pipe_has_all_that_wide_has(workspace, name):
    whole = piped(workspace, *SHOWN[name], "--quiet").stdout
    assert whole == screen(workspace, *SHOWN[name], "--format", "wide", "--quiet", columns=100)
    assert whole == piped(workspace, *SHOWN[name], "--quiet", COLUMNS="40").stdout
    assert "…" not in whole and "Hidden columns" not in whole


@pytest.mark.parametrize("name", TABLES)
def test_separated_values_are_complete(workspace, name):
    rows = list(csv.reader(io.StringIO(piped(workspace, *SHOWN[name], "--csv").stdout, newline="")))
    assert len(rows) > 1 and {len(row) for row in rows} == {len(rows[0])} and len(set(rows[0])) == len(rows[0])
    tabbed = [line.split("\t") for line in piped(workspace, *SHOWN[name], "--format", "tsv").stdout.splitlines()]
    assert len(tabbed) == len(rows)
    if name != "requests":  # its CSV is profd's own
        assert tabbed[0] == rows[0]
    last = tabbed[0][-1]
    one = list(csv.reader(io.StringIO(piped(workspace, *SHOWN[name], "--csv", "--columns", f"{last},{tabbed[0][0]}").stdout)))
    assert one[0] == [last, tabbed[0][0]]


def test_values_are_plain_numbers(workspace):
    row = next(csv.DictReader(io.StringIO(piped(workspace, "list-traces", "--csv").stdout)))
    assert (row["size"], row["span_ns"], row["recorded_at"]) == (str(61 * MIB), "5020000000", str(T0))


def test_columns_width_counts_on_a_terminal(workspace):
    assert screen(workspace, "list-sessions", columns=140, COLUMNS="80") == screen(workspace, "list-sessions", columns=80)
    assert screen(workspace, "list-sessions", columns=80, COLUMNS="nonsense") == screen(workspace, "list-sessions", columns=80)


@pytest.mark.parametrize("words, expected", [
    (["list-traces", "--columns", "trace,wrker"], ["unknown column 'wrker'", "Did you mean worker? Columns: trace, session, recorded_at, "]),
    (["list-traces", "--columns", ""], ["unknown column ''", "Columns: trace, session"]),
    (["list-traces", "--columns", "trace", "--json"], ["--columns does not apply to JSON"]),
    (["list-traces", "--format", "cvs"], ["unknown format 'cvs'", "Did you mean csv?"]),
    (["list-traces", "--csv", "--json"], ["exclude each other"]),
    (["list-traces", "--format", "wide", "--tsv"], ["exclude each other"]),
    (["analyze", "decode.json", "--columns", "name"], ["--columns needs one report"]),
    (["analyze", "decode.json", "--report", "kernels", "--columns", "nam"], ["unknown column 'nam'", "Did you mean name?"]),
    (["show", "t1000123", "--csv"], ["--csv needs a session or --requests"]),
    (["diff", "decode.json", "decode.json", "--csv"], ["--csv needs one table", "--report kernels"]),
])
def test_what_is_refused(workspace, words, expected):
    fake, path = workspace
    r = run(*words, fake=fake, cwd=path)
    assert r.returncode == 2 and r.stdout == ""
    assert all(text in r.stderr for text in expected), r.stderr


def test_columns_may_be_named_without_their_unit(workspace):
    short = piped(workspace, "analyze", "decode.json", "--report", "kernels", "--csv", "--columns", "Name,sum,p99")
    assert short.stdout.splitlines()[0] == "name,sum_ns,p99_ns"


def test_differences_as_values(workspace):
    out = piped(workspace, "diff", "decode.json", "decode.json", "--report", "measures", "--csv").stdout
    assert "step.p50" in [row["measure"] for row in csv.DictReader(io.StringIO(out))]


def test_pager(workspace):
    marks = {"PROFCTL_PAGER": "sed 's/^/paged: /'"}
    paged = screen(workspace, "list-sessions", columns=80, **marks).splitlines()
    assert len(paged) > 4 and all(line.startswith("paged: ") for line in paged)
    assert [line.removeprefix("paged: ") for line in paged] == screen(workspace, "list-sessions", columns=80).splitlines()
    assert "paged: " in screen(workspace, "list-sessions", columns=80, PAGER=marks["PROFCTL_PAGER"])
    assert "paged: " not in piped(workspace, "list-sessions", **marks).stdout
    assert "paged: " not in screen(workspace, "list-sessions", "--no-pager", columns=80, **marks)
    for none in ("", "cat"):
        assert "paged: " not in screen(workspace, "list-sessions", columns=80, PROFCTL_PAGER=none, PAGER=marks["PROFCTL_PAGER"])
    text, status = on_terminal(workspace[0], "list-sessions", env={"PROFCTL_PAGER": "no-such-pager --really"})
    assert status != 0 and "cannot run the pager" in text
    assert "SESSION" in screen(workspace, "list-sessions", columns=80, PROFCTL_PAGER="no-such-pager")


def test_a_pager_that_is_left_is_no_failure(workspace):
    text, status = on_terminal(workspace[0], "list-sessions", env={"PROFCTL_PAGER": "head -1"})
    assert status == 0 and len(plain(text).splitlines()) == 1


def test_what_follows_has_no_pager(workspace):
    fake, path = workspace
    fake.events = [b'id: 1\nevent: session-state\ndata: {"at": %d, "session": "s7", "text": "a, b"}\n\n' % T0]
    for words, expected in (([], "2026-11-20 14:02:11  session-state      s7    -     a, b\n"),
                            (["--csv", "--no-legend"], f'{T0},session-state,s7,,"a, b"\n'), (["--columns", "session,text"], "s7    a, b\n")):
        process = subprocess.Popen([PROFCTL, "--socket", fake.path, "events", *words], stdout=subprocess.PIPE, text=True,
                                   env=environment(PROFCTL_PAGER="sed 's/^/paged: /'"))
        line = process.stdout.readline()
        process.terminate()
        process.wait(timeout=60)
        assert line == expected
