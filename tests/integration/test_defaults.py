# SPDX-License-Identifier: Apache-2.0
"""What people try first: verbs without a subject, names of other programs, misspelt words, a router in the environment."""
import json
import os
import re
import socket
import sqlite3
import subprocess
import urllib.request

import pytest

from daemon import BUILD, Daemon, FaultFleet, quick_config
from fake_profd import FakeProfd, session
from real_traces import TRACES

PROFCTL = BUILD / "client" / "profctl"
PERFETTO = "https://ui.perfetto.dev"
RANKS, WORKERS, STEPS = 2, 2, 4  # of a worker, of the fleet, of a trace
SHORT_NS = 100_000_000


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    """Two sessions with traces, and a newer one without."""
    home = tmp_path_factory.mktemp("defaults")
    with FaultFleet(home / "fleet", "vllm", WORKERS, "--ranks", str(RANKS)) as fleet, Daemon(home / "profd", quick_config()) as profd:
        for fault in (None, None, "start-500"):
            if fault:
                fleet.set_fault(fault)
            profd.wait_session(profd.start_session(router=fleet.router, duration_ns=SHORT_NS)["session"])
        yield profd


@pytest.fixture
def fake(tmp_path):
    with FakeProfd(tmp_path / "fake.sock") as d:
        yield d


@pytest.fixture
def profctl(profd, tmp_path):
    def run(*words, status=0, **env):
        done = subprocess.run([PROFCTL, *map(str, words)], capture_output=True, timeout=60, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL,
                              env=environment(tmp_path, profd.socket, **env))
        assert done.returncode == status, done.stderr
        return done

    return run


def environment(home, fake, **more):
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "ASAN_OPTIONS", "LSAN_OPTIONS")}
    return {**keep, "HOME": str(home), "PROFD_SOCKET": str(fake), "LC_ALL": "C.UTF-8", "TZ": "UTC", **more}


def usage(*words, **env):
    return subprocess.run([PROFCTL, *words], capture_output=True, timeout=30, text=True, stdin=subprocess.DEVNULL,
                          env=environment("/nonexistent", "/nonexistent/socket", **env))


# The newest session


def test_analyze_takes_the_newest_session_with_traces(profctl):
    named, newest = profctl("analyze", "s2", "--report", "kernels", "--json"), profctl("analyze", "--report", "kernels", "--json")
    assert json.loads(newest.stdout) == json.loads(named.stdout) and json.loads(newest.stdout)["trace"] == "s2"
    assert "Using s2, the newest session with traces (complete, 4 traces, " in newest.stderr
    assert profctl("analyze", "--report", "kernels", "--json", "--quiet").stderr == ""
    assert profctl("analyze").stdout.startswith(f"s2 · {WORKERS * RANKS} ranks")


def test_a_page_is_titled_with_the_model(profctl, profd, tmp_path):
    [model] = {target["model"] for target in profd.session("s2")["targets"]}
    profctl("analyze", "--html", tmp_path / "page.html")
    title = re.search("<title>(.*?)</title>", (tmp_path / "page.html").read_text())[1]
    assert title.startswith(f"{model} · ") and title.endswith(f" · {WORKERS * RANKS} ranks · s2"), title


def test_show_takes_the_newest_session(profctl):
    shown = profctl("show")
    assert "Using s3, the newest session (failed, 0 traces, " in shown.stderr
    assert shown.stdout.startswith("Session s3 on http://")
    assert json.loads(profctl("show", "--json").stdout)["session"] == "s3"
    assert "Name one: profctl show r3" in profctl("show", "--requests", status=2).stderr


def test_get_takes_the_newest_session_into_a_directory(profctl, tmp_path):
    got = profctl("get")
    assert "Using s2, " in got.stderr and "in s2" in got.stderr
    assert len(list((tmp_path / "s2").iterdir())) == WORKERS * RANKS
    profctl("get", "s1")
    assert len(list((tmp_path / "s1").iterdir())) == WORKERS * RANKS
    assert "several files need --directory" in profctl("get", "s1", "-o", "file", status=2).stderr


def test_there_is_no_session(fake, tmp_path):
    fake.answers["GET /v1/sessions"] = {"sessions": []}
    for verb, what in (("analyze", "no session has traces"), ("get", "no session has traces"), ("show", "there is no session")):
        done = subprocess.run([PROFCTL, verb], capture_output=True, timeout=30, text=True, stdin=subprocess.DEVNULL,
                              env=environment(tmp_path, fake.path))
        assert done.returncode == 4 and done.stderr.startswith(f"profctl: {what}\n  profctl start --router URL")


# In the browser


@pytest.fixture
def port_9001():
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", 9001))
        except OSError:
            pytest.skip("another program of this machine has port 9001")


@pytest.fixture
def page(profd, tmp_path, port_9001):
    """What the page in the browser gets of `profctl open WORD...`."""
    def fetch(*words):
        process = subprocess.Popen([PROFCTL, "open", "--no-browser", "--timeout", "30s", *map(str, words)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment(tmp_path, profd.socket))
        link = process.stdout.readline().strip()
        assert link, process.communicate()[1]
        request = urllib.request.Request(link.split("?url=")[1], headers={"Origin": PERFETTO})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            body = answer.read()
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return link.rsplit("/", 1)[1], body, err

    return fetch


def gpu_processes(body):
    return {e["pid"] for e in json.loads(body)["traceEvents"] if e.get("cat") == "kernel"}


def test_open_shows_all_ranks_of_a_session(page):
    name, body, err = page("s1")
    assert name == "s1.json" and len(gpu_processes(body)) == WORKERS * RANKS and f"Merging {WORKERS * RANKS} traces" in err


def test_open_takes_the_newest_session(page):
    name, body, err = page()
    assert name == "s2.json" and len(gpu_processes(body)) == WORKERS * RANKS and "Using s2, the newest session with traces" in err


def test_open_shows_several_traces_as_one(page):
    name, body, _ = page("t1", "t2")
    assert name == "merged.json" and len(gpu_processes(body)) == 2


def test_open_serves_a_file_as_it_is(page, tmp_path, profd):
    stored = profd.get("/v1/traces/t1")["path"]
    assert page(stored)[1] == open(stored, "rb").read()
    # What the page cannot read is converted: zstd.
    plain = tmp_path / "plain.json"
    plain.write_text('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 5}]}')
    subprocess.run(["zstd", "-q", str(plain)], check=True)
    assert len(gpu_processes(page(f"{plain}.zst")[1])) == 1


def test_open_refuses_what_is_neither_file_nor_id(profctl):
    for name in ("nothing.json", "/nothing/trace.json"):
        error = profctl("open", name, status=4).stderr
        assert f"profctl: cannot open {name}: No such file or directory\n  A trace is named by" in error
    assert "'r3' is not a session or a trace" in profctl("open", "r3", status=2).stderr


# Names


@pytest.mark.parametrize("alias, verb", [("ls", "list-traces"), ("traces", "list-traces"), ("sessions", "list-sessions"),
                                         ("workers", "list-workers"), ("runs", "list-runs")])
def test_aliases(alias, verb):
    help_page = usage(alias, "--help")
    assert help_page.returncode == 0 and help_page.stdout == usage(verb, "--help").stdout
    assert help_page.stdout.startswith(f"profctl {verb} ") and alias in help_page.stdout.split("Aliases: ")[1].splitlines()[0].split(", ")


@pytest.mark.parametrize("word, verb", [("analyse", "analyze"), ("lst-traces", "list-traces"), ("sesions", "list-sessions"), ("delete", "rm"),
                                        ("download", "get"), ("record", "start"), ("quary", "query"), ("bnech", "bench")])
def test_a_misspelt_verb(word, verb):
    done = usage(word)
    assert done.returncode == 2 and done.stderr.startswith(f"profctl: unknown verb '{word}'\n")
    assert f"Did you mean {verb} (" in done.stderr


def test_a_verb_like_no_other():
    done = usage("xyzzyqq")
    assert done.returncode == 2 and "Did you mean" not in done.stderr and "profctl help lists all verbs" in done.stderr


def test_misspelt_options():
    done = usage("start", "--routr", "http://127.0.0.1:1")
    assert done.returncode == 2 and done.stderr.startswith("profctl: unknown option --routr\n  Did you mean --router?")
    done = usage("start", "--st", "5")
    assert done.returncode == 2 and done.stderr.startswith("profctl: ambiguous option --st\n")
    assert all(option in done.stderr for option in ("--steps", "--start-at", "--start-step", "--stagger"))
    assert "Did you mean --json?" in usage("--jsn", "du").stderr


def test_no_hint_of_a_name_that_is_not_similar():
    done = usage("analyze", "--bogus")
    assert done.returncode == 2 and done.stderr == "profctl: unknown option --bogus\n  profctl analyze --help\n"


@pytest.mark.parametrize("words, message", [
    (["diff", "t1"], "missing argument: diff BEFORE AFTER"), (["stop", "s1", "s2"], "too many arguments: stop takes [SESSION|RUN]: unexpected 's2'"),
    (["reports", "kernels"], "reports takes no arguments: unexpected 'kernels'"),
])
def test_number_of_arguments(words, message):
    done = usage(*words)
    assert done.returncode == 2 and done.stderr == f"profctl: {message}\n  profctl {words[0]} --help\n"


@pytest.mark.parametrize("host, message, remedy", [
    ("name.invalid", "cannot reach profd at http://name.invalid: ", "Check the host name in the URL"),
    ("http://127.0.0.1:1", "cannot reach profd at http://127.0.0.1:1: Connection refused", "Check the port; profd listens on TCP only if"),
    ("127.0.0.1:99999", "--host: '127.0.0.1:99999' is not a URL: ", "Pass the URL of profd: --host https://HOST:PORT."),
    ("http://", "--host: 'http://' is not a URL: ", "Pass the URL of profd"),
])
def test_remedy_fits_the_failure_of_a_connection(host, message, remedy):
    done = usage("--host", host, "list-sessions")
    assert done.returncode in (1, 2) and done.stderr.startswith(f"profctl: {message}"), done.stderr
    assert done.stderr.splitlines()[1].startswith(f"  {remedy}")


def test_where_requests_are_sent():
    pages = [usage(verb, "--help").stdout for verb in ("start", "bench")]
    texts = [re.search(r"--through WHERE .*?(?=\n +-)", page, re.S).group() for page in pages]
    assert texts[0] == texts[1]
    for words in (["bench", "--isl", "8"], ["start", "--workload", "/dev/null"]):
        done = usage(*words, "--worker", "http://127.0.0.1:1", "--through", "nowhere")
        assert done.returncode == 2 and "--through must be router or workers, not nowhere" in done.stderr


def test_help_has_groups_and_examples():
    overview = usage("help").stdout
    for group in ("Fleet", "Record", "Measure load", "Traces", "Analyze", "Storage", "Administration"):
        assert f"\n{group}:\n" in overview
    assert max(map(len, overview.splitlines())) <= 80
    verbs = [line.split()[0] for line in overview.splitlines() if line.startswith("  ") and not line.startswith("   ")]
    assert len(verbs) >= 34
    for verb in verbs:
        page = usage(verb, "--help").stdout
        example = page.split("\nExamples:\n")[1].split("\n\n")[0]
        assert f"profctl {verb}" in example, verb
    assert "--token-file" in usage("help", "options").stdout


# The router


def test_the_router_of_the_environment(fake, tmp_path):
    def asked(*words, **env):
        fake.requests.clear()
        fake.answers["POST /v1/sessions"] = lambda query, body: (201, session("starting"))
        subprocess.run([PROFCTL, "start", *words], capture_output=True, timeout=30, check=True, stdin=subprocess.DEVNULL,
                       env=environment(tmp_path, fake.path, **env))
        return next(body.get("router") for method, path, body, _ in fake.requests if method == "POST")

    env = {"PROFD_ROUTER": "http://10.0.0.9:3521"}
    assert asked(**env) == "http://10.0.0.9:3521"
    assert asked() is None and asked(PROFD_ROUTER="") is None
    assert asked("--router", "http://10.0.0.2:1", **env) == "http://10.0.0.2:1"
    assert asked("--fleet", "big", **env) is None
    assert asked("--worker", "http://10.0.0.3:1", **env) is None


def test_load_is_sent_by_bench():
    """`profctl launch` starts a worker under nsys; no text may advise it for sending load."""
    sources = [p for folder in ("client", "daemon", "trace", "base", "proto") for p in (BUILD.parent / folder).rglob("*.[ch]")]
    assert len(sources) > 100
    for path in sources:
        for line in path.read_text().splitlines():
            if "profctl launch" in line:
                assert not any(word in line for word in ("load", "requests", "sends")), f"{path}: {line}"


# Workers that were left out


def test_workers_that_were_left_out_stay_visible(tmp_path):
    def ask(*words):
        return subprocess.run([PROFCTL, *words], capture_output=True, timeout=60, text=True, stdin=subprocess.DEVNULL,
                              env=environment(tmp_path, profd.socket)).stdout

    with FaultFleet(tmp_path / "fleet", "vllm", 5) as fleet, Daemon(tmp_path / "profd", quick_config()) as profd:
        fleet.set_fault("no-profiler", workers="1,3")
        asked = profd.start_session(router=fleet.router, duration_ns=SHORT_NS)
        assert asked["counts"]["skipped"] == 2
        end = profd.wait_session(asked["session"])
        left_out = {fleet.workers[1], fleet.workers[3]}
        assert {w["worker"] for w in end["skipped"]} == left_out and all(w["reason"] and w["remedy"] for w in end["skipped"])
        assert (end["counts"]["targets"], end["counts"]["complete"], end["counts"]["skipped"]) == (3, 3, 2)
        shown = ask("show", "s1")
        assert "3 of 5 workers" in shown.splitlines()[0] and "Session s1 is complete: 3 of 5 workers, " in shown
        assert "left out: " in shown and all(worker.split("://")[1] in shown for worker in left_out)
        assert " 3 of 5 " in ask("list-sessions")
        assert "skipped" not in profd.get("/v1/sessions")["sessions"][0]
        (text,) = sqlite3.connect(profd.catalog).execute("select skipped from sessions").fetchone()
        assert {w["worker"] for w in json.loads(text)} == left_out
        # They are still there after a restart, and a session that left out nobody says nothing.
        profd.stop()
        profd.start()
        assert {w["worker"] for w in profd.session("s1")["skipped"]} == left_out
        fleet.set_fault("none")
        assert "skipped" not in profd.wait_session(profd.start_session(router=fleet.router, duration_ns=SHORT_NS)["session"])
        assert " 5 of 5 " in ask("list-sessions")


# A session of files


def write_rank(path, rank, world=2):
    kernel = {"ph": "X", "cat": "kernel", "name": f"gemm{rank}", "pid": 0, "tid": 7, "ts": 1000, "dur": 50 + rank, "args": {"stream": 7}}
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": world}, "traceEvents": [kernel]}))
    return path


@pytest.fixture
def own(tmp_path):
    with Daemon(tmp_path / "profd") as daemon:
        def run(*words, status=0):
            done = subprocess.run([PROFCTL, *map(str, words)], capture_output=True, timeout=60, text=True, stdin=subprocess.DEVNULL,
                                  env=environment(tmp_path, daemon.socket))
            assert done.returncode == status, done.stderr
            return done

        run.profd = daemon
        yield run


def test_ingest_makes_a_session_of_files(own, tmp_path):
    ranks = [write_rank(tmp_path / f"rank{i}.json", i) for i in range(2)]
    done = own("ingest", *ranks, "--session", "baseline", "--label", "gpu=h200")
    assert "Next: profctl analyze s1, profctl open s1" in done.stderr
    session = own.profd.session("s1")
    assert (session["name"], session["state"], session["labels"], session["counts"]["traces"]) == ("baseline", "complete", {"gpu": "h200"}, 2)
    assert {t["session"] for t in own.profd.traces()} == {"s1"}
    assert len(json.loads(own("analyze", "--report", "temporal", "--json").stdout)["rows"]) == 2
    shown = own("show").stdout
    assert shown.startswith('Session s1 "baseline", ingested (2 traces)\n') and "Session s1 is complete: 2 traces, " in shown
    assert "baseline" in own("list-sessions").stdout
    # More files, by name or by id; the same bytes are no second trace.
    own("ingest", write_rank(tmp_path / "rank2.json", 2), "--session", "baseline")
    own("ingest", write_rank(tmp_path / "rank3.json", 3), ranks[0], "--session", "s1")
    assert own.profd.session("s1")["counts"]["traces"] == 4
    assert [s["session"] for s in own.profd.get("/v1/sessions")["sessions"]] == ["s1"]
    own("rm", "s1")
    assert own.profd.traces() == []


def test_a_trace_without_a_session_joins_one_and_stays_in_it(own, tmp_path):
    path = write_rank(tmp_path / "rank0.json", 0)
    own("ingest", path)
    assert "session" not in own.profd.traces()[0]
    own("ingest", path, "--session", "first")
    assert own.profd.traces()[0]["session"] == "s1"
    done = own("ingest", path, write_rank(tmp_path / "rank1.json", 1), "--session", "second", status=3)
    assert "t1 is part of s1 and stays there" in done.stderr and own.profd.session("s2")["counts"]["traces"] == 1


@pytest.mark.parametrize("name, what", [("s99", "there is no session s99"), ("t1", "must be an id (s7) or a name"), ("", "must be an id (s7) or a name"), ("x" * 129, "must be an id (s7) or a name")])
def test_names_that_no_session_can_have(own, tmp_path, name, what):
    done = own("ingest", write_rank(tmp_path / "rank0.json", 0), "--session", name, status=4 if name == "s99" else 2)
    assert what in done.stderr and own.profd.traces() == [] and own.profd.get("/v1/sessions")["sessions"] == []


def test_what_is_no_trace_makes_no_session(own, tmp_path):
    (tmp_path / "notes.txt").write_text("no trace")
    own("ingest", tmp_path / "notes.txt", "--session", "empty", status=1)
    assert own.profd.get("/v1/sessions")["sessions"] == []


# Recording and analysis in one


def test_start_analyzes_what_it_recorded(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet, Daemon(tmp_path / "profd", quick_config()) as profd:
        def start(*words):
            return subprocess.run([PROFCTL, "start", "--router", fleet.router, "--duration", "100ms", "--analyze", *words], capture_output=True,
                                  timeout=60, text=True, stdin=subprocess.DEVNULL, env=environment(tmp_path, profd.socket))

        done = start()
        assert done.returncode == 0, done.stderr
        outcome, analysis = done.stdout.split("\n\n", 1)
        assert outcome.startswith("Session s1 is complete: 2 of 2 workers") and analysis.startswith("s1 · 2 ranks")
        assert "Next: profctl analyze" not in done.stderr
        # Two documents: the session, then its reports.
        session, at = json.JSONDecoder().raw_decode((text := start("--json").stdout))
        assert session["session"] == "s2" and {"kernels", "gaps"} <= {r["report"] for r in json.loads(text[at:])}
        # Of a part of the fleet the exit status is still that of the session, and what there is is analyzed.
        fleet.set_fault("start-500", workers="1")
        done = start()
        assert done.returncode == 3 and "is partial: 1 of 2 workers" in done.stdout and "\ns3 · 1 rank" in done.stdout.replace("s3 · Fault", "s3 · 1 rank")
        # Where nothing was recorded there is nothing to analyze.
        fleet.set_fault("start-500")
        done = start()
        assert done.returncode == 1 and " · " not in done.stdout
        assert start("--detach").returncode == 2


# SQL over all ranks


TABLES = ("slice", "thread", "process", "thread_track", "kernel", "launch", "op", "gap", "args", "name_stat", "report_kernels")
JOINS = ("SELECT count(*) FROM slice JOIN thread_track ON track_id = thread_track.id JOIN thread USING (utid) JOIN process USING (upid)",
         "SELECT count(*) FROM slice s JOIN slice p ON s.parent_id = p.id", "SELECT count(*) FROM slice WHERE parent_id IS NULL",
         "SELECT count(*) FROM kernel JOIN args USING (arg_set_id)", "SELECT sum(dur) FROM kernel",
         "SELECT count(*) FROM slice p JOIN descendant_slice d ON d.start_id = p.id",
         "SELECT count(*) FROM slice a JOIN slice b ON a.id = b.id AND a.track_id = b.track_id WHERE b.id >= a.id")


def answers(done):
    return [tuple(row.values()) for row in json.loads(done.stdout)]


def test_sql_over_all_ranks_is_the_sum_of_them(profctl, profd):
    traces = [t["trace"] for t in profd.traces(session="s1")]
    for sql in [*(f"SELECT count(*) FROM {table}" for table in TABLES), *JOINS]:
        each = [answers(profctl("query", trace, sql, "--json"))[0][0] for trace in traces]
        ((total,),) = answers(profctl("query", "s1", sql, "--json"))
        assert total == sum(each) and (total > 0 or "JOIN" in sql), (sql, each, total)


def test_joins_over_real_ranks_are_the_sum_of_them(profctl):
    folder = TRACES / "sglang_decode_8rank"
    for sql in JOINS:
        each = [answers(profctl("query", file, sql, "--json"))[0][0] for file in sorted(folder.glob("*.json.gz"))]
        assert len(each) == 8 and answers(profctl("query", folder, sql, "--json")) == [(sum(each),)] and min(each) > 0, sql


def test_rows_of_all_ranks_say_whose_they_are(profctl, profd):
    known = {(int(t["trace"][1:]), t["ranks"]["rank"], t["worker"]) for t in profd.traces(session="s1")}
    assert len(known) == WORKERS * RANKS
    assert set(answers(profctl("query", "s1", "SELECT DISTINCT trace_id, rank, worker FROM kernel", "--json"))) == known
    one = min(known)
    assert answers(profctl("query", "s1", f"SELECT DISTINCT trace_id, rank, worker FROM slice WHERE trace_id = {one[0]}", "--json")) == [one]
    # A row that is looked for by its number is found, in its own trace.
    for trace, identity, name in answers(profctl("query", "s1", "SELECT trace_id, max(id), name FROM kernel GROUP BY trace_id", "--json")):
        assert answers(profctl("query", "s1", f"SELECT trace_id, name FROM slice WHERE id = {identity}", "--json")) == [(trace, name)]
    instances = answers(profctl("query", "s1", "SELECT DISTINCT instance, worker FROM kernel", "--json"))
    assert len(instances) == WORKERS == len(set(instances)) and all(instance for instance, _ in instances)
    assert {"trace_id", "rank", "instance", "worker"} <= json.loads(profctl("query", "s1", "SELECT * FROM kernel LIMIT 1", "--json").stdout)[0].keys()


def test_query_takes_the_newest_session_and_directories(profctl, tmp_path):
    done = profctl("query", "SELECT count(DISTINCT trace_id) FROM kernel", "--json")
    assert answers(done) == [(WORKERS * RANKS,)] and "Using s2, the newest session with traces" in done.stderr
    (tmp_path / "ranks").mkdir()
    for i in range(3):
        write_rank(tmp_path / "ranks" / f"rank{i}.pt.trace.json", i, 3)
    assert answers(profctl("query", tmp_path / "ranks", "SELECT trace_id, rank, name FROM kernel ORDER BY 1", "--json")) == \
        [(1, 0, "gemm0"), (2, 1, "gemm1"), (3, 2, "gemm2")]


def test_misspelt_tables_and_reports(profctl):
    assert "Did you mean kernel?" in profctl("query", "s1", "SELECT * FROM kernle", status=1).stderr
    assert "did you mean rank?" in profctl("query", "s1", "SELECT rnak FROM kernel", status=1).stderr
    assert "Did you mean kernels?" in profctl("analyze", "s1", "--report", "kernls", status=2).stderr
