# SPDX-License-Identifier: Apache-2.0
"""profctl ingest: files into the catalog, of a profd that runs, or of one that runs for the time of the call."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from daemon import BUILD, Daemon, wait_for
from fake_profd import FakeProfd, problem, steps, trace
from home import SYSTEM_SOCKET, Home, clean_environment as environment

PROFCTL = BUILD / "client" / "profctl"


def write_trace(path, n=3, **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    kernels = [{"ph": "X", "cat": "kernel", "name": f"k{i}", "pid": 0, "tid": 7, "ts": 1000 + 10 * i, "dur": 5 + i, "args": {"stream": 7}}
               for i in range(n)]
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 3, "world_size": 8}, **more, "traceEvents": kernels}))
    return path


@pytest.fixture
def profd(tmp_path):
    with Daemon(tmp_path / "profd") as daemon:
        yield daemon


def run(profd, *args, **more):
    return subprocess.run([PROFCTL, "--socket", profd.socket, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, env=environment(HOME=str(profd.directory)), **more)


# Into a profd that runs


@pytest.mark.smoke
def test_a_file(profd, tmp_path):
    path = write_trace(tmp_path / "a.pt.trace.json")
    r = run(profd, "ingest", path)
    assert r.returncode == 0, r.stderr
    heading, line = r.stdout.splitlines()
    assert heading.split() == ["TRACE", "STATE", "RANK", "EVENTS", "SIZE", "SPEED", "FILE"]
    assert re.fullmatch(rf"t1 +complete +rank 3 +3 +\d+ B +\S+ \S+/s +{re.escape(str(path))}", line), line
    assert re.fullmatch(r"1 trace; \S+ \S+ in .*/s\n", r.stderr)
    # The same bytes again are the same trace.
    again = run(profd, "ingest", path, "--no-legend")
    assert again.returncode == 0 and again.stdout.split()[:2] == ["t1", "known"]
    assert again.stderr.startswith("0 traces, 1 already known; ")


def test_show_reports_what_was_read(profd, tmp_path):
    whole = write_trace(tmp_path / "whole.json", n=12).read_text()
    (tmp_path / "cut.json").write_text(whole[: whole.index('"k9"')])
    assert run(profd, "ingest", tmp_path / "whole.json", tmp_path / "cut.json", "--label", "job=grpo").returncode == 0
    text = run(profd, "show", "t1").stdout
    assert re.search(r"Slices: +12, 12 of them on the GPU\n", text)
    assert re.search(r"Columns: +[\d.]+ \S*B\s+\S+\.columns\n", text) and re.search(r'Labels: +{"job":"grpo"}\n', text)
    lines = text[text.index("COUNT"):].splitlines()
    assert lines[0].split("  ")[-1] == "KERNEL" and len(lines) == 12
    assert re.fullmatch(r" *1 +0\.016 +12\.7 % +16\.0 +16\.0 +k11", lines[1])
    assert lines[-1] == "... profctl query t1 --named kernels has them all"
    cut = run(profd, "show", "t2").stdout
    assert re.search(r"State: +truncated", cut) and re.search(r"Defects: +the text ends before its JSON closes \(at byte \d", cut)
    r = run(profd, "query", "t1", "select name from slice where dur > 15000", "--no-legend")
    assert (r.returncode, r.stdout) == (0, "k11\n")


def test_a_directory(profd, tmp_path):
    for name in ("d/b.json", "d/a.pt.trace.json", "d/sub/c.json", "d/.hidden.json", "d/.git/x.json", "d/notes.txt", "d/half.json.tmp"):
        write_trace(tmp_path / name, trace_id=name)
    (tmp_path / "d/link.json").symlink_to("b.json")
    r = run(profd, "ingest", "d", "--no-legend", cwd=tmp_path)
    assert r.returncode == 0, r.stderr
    assert [line.split()[-1] for line in r.stdout.splitlines()] == ["d/a.pt.trace.json", "d/b.json", "d/sub/c.json"]
    # A file that is named itself is taken whatever its name is, and through a link.
    r = run(profd, "ingest", "d/notes.txt", "d/link.json", "--json", cwd=tmp_path)
    assert [json.loads(line)["trace"] for line in r.stdout.splitlines()] == ["t4", "t2"]


def test_ranks_without_a_session_are_named(profd, tmp_path):
    """Ranks of one directory are most likely a run: a line names what groups them. Files that are none, or a run that has a session,
    get no line."""
    for rank in range(3):
        write_trace(tmp_path / f"run/{rank}.json", trace_id=f"run {rank}", distributedInfo={"rank": rank, "world_size": 3})
        write_trace(tmp_path / f"named/rank_{rank}.json", trace_id=f"named {rank}", distributedInfo={})
        write_trace(tmp_path / f"same/{rank}/rank0.pt.trace.json", trace_id=f"same {rank}")
        write_trace(tmp_path / f"files/{rank}.json", trace_id=f"file {rank}")
    hint = "3 traces of run look like ranks of one run\n  profctl ingest --session NAME run groups them."
    r = run(profd, "ingest", "same", "files", "run", cwd=tmp_path)
    assert r.returncode == 0 and r.stderr.count("look like") == 1 and hint in r.stderr, r.stderr
    assert hint.replace("run ", "named ").replace("ranks of one named", "ranks of one run") in run(profd, "ingest", "named", cwd=tmp_path).stderr
    # The command works, and then there is nothing to say.
    r = run(profd, "ingest", "--session", "NAME", "run", cwd=tmp_path)
    assert r.returncode == 0 and "look like" not in r.stderr and "Next: profctl analyze s1" in r.stderr
    assert len(profd.get("/v1/traces?session=s1")["traces"]) == 3
    assert "look like" not in run(profd, "ingest", "run", cwd=tmp_path).stderr


def test_what_cannot_be_read_does_not_stop_the_others(profd, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/bad.json").write_text("this is no trace")
    (tmp_path / "d/memory.json").write_text(json.dumps([[[0, 1], [2, 3]], [[1], [2]]]))
    write_trace(tmp_path / "d/z.json")
    r = run(profd, "ingest", tmp_path / "d", "--no-legend")
    assert r.returncode == 3
    assert r.stdout.split()[1] == "complete" and len(r.stdout.splitlines()) == 1
    assert r.stderr.count("profctl: ") == 2 and "bad.json" in r.stderr and "memory.json" in r.stderr
    assert "1 trace, 2 failed; " in r.stderr
    r = run(profd, "ingest", tmp_path / "d/bad.json", "--no-legend")
    assert r.returncode == 1 and r.stdout == ""


def test_lost_events_and_file_names_are_listed(profd, tmp_path):
    text = write_trace(tmp_path / "named-like-this.json").read_text().replace('"ts": 1010', '"ts": "never"')
    (tmp_path / "named-like-this.json").write_text(text)
    r = run(profd, "ingest", tmp_path / "named-like-this.json")
    assert re.search(r"^\S*/\S+\.json: 1 event lost\n  profctl show t1 lists them\.$", r.stderr, re.M), r.stderr
    line = run(profd, "list-traces", "--no-legend").stdout.splitlines()[0]
    assert "named-like-this.json" in line.split() and "complete, 1 event lost" in line
    assert re.search(r"State: +complete, 1 event lost", run(profd, "show", "t1").stdout)


def test_every_error_names_its_file(profd, tmp_path):
    """Standard error alone tells which file each line is of: truncated ones, ones that are no trace, ones that profd refuses for a
    reason that is not the file's."""
    text = write_trace(tmp_path / "cut.json", n=12).read_text()
    (tmp_path / "cut.json").write_text(text[: text.index('"k9"')])
    (tmp_path / "words.json").write_text("no trace")
    r = run(profd, "ingest", tmp_path / "cut.json", tmp_path / "words.json", "--no-legend")
    for name, reason in (("cut.json", "truncated after"), ("words.json", "not a trace")):
        lines = [line for line in r.stderr.splitlines() if reason in line]
        assert lines and all(name in line for line in lines), r.stderr
    with FakeProfd(tmp_path / "fake.sock", {"POST /v1/traces": problem(507, "storage", "no space left on device")}) as fake:
        r = subprocess.run([PROFCTL, "--socket", fake.path, "ingest", tmp_path / "cut.json"], capture_output=True, text=True, timeout=60,
                           env=environment(HOME=str(tmp_path)))
        assert f"profctl: {tmp_path}/cut.json: no space left on device\n" in r.stderr, r.stderr


def test_a_remedy_of_many_is_reported_once(profd, tmp_path):
    for n in range(3):
        (tmp_path / f"{n}.json").write_text(json.dumps([[[n, 1], [2, 3]], [[1], [2]]]))
    r = run(profd, "ingest", *(tmp_path / f"{n}.json" for n in range(3)))
    assert r.returncode != 0 and r.stderr.count("profctl: ") == 3
    remedies = [line for line in r.stderr.splitlines() if line.startswith("  ")]
    assert len(remedies) == len(set(remedies))


def test_a_reference_stays_where_it_is(profd, tmp_path):
    path = write_trace(tmp_path / "a.json")
    r = run(profd, "ingest", path, "--reference", "--json")
    t = json.loads(r.stdout)
    assert t["stored"] is False and t["path"] == str(path) and t["columns"] != str(path)
    assert run(profd, "query", "t1", "select count(*) from slice", "--no-legend").stdout == "3\n"
    assert run(profd, "rm", "t1").returncode == 0
    assert path.exists() and not Path(t["columns"]).exists()


@pytest.mark.parametrize("args,status,said", [
    ([], 2, "no path is given"), (["none.json"], 4, "cannot open none.json: No such file"), (["empty"], 4, "no trace files in empty"),
    (["a.json", "--label", "x"], 2, "is not KEY=VALUE"), (["fifo"], 2, "fifo is not a regular file"),
])
def test_words_that_name_nothing(profd, tmp_path, args, status, said):
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "fifo")
    write_trace(tmp_path / "a.json")
    r = run(profd, "ingest", *args, cwd=tmp_path)
    assert r.returncode == status and r.stdout in ("", r.stdout if "--label" in args else "") and said in r.stderr, r.stderr


def test_another_machine_has_other_files(tmp_path):
    r = subprocess.run([PROFCTL, "ingest", write_trace(tmp_path / "a.json"), "--host", "http://127.0.0.1:1"], capture_output=True, text=True,
                       timeout=30, env=environment())
    assert r.returncode == 2 and "cannot read files of this machine" in r.stderr


def test_interrupting_reports_what_was_done(tmp_path):
    with FakeProfd(tmp_path / "fake.sock") as fake:
        answers = iter([(201, trace(41)), None])

        def slow(query, body):
            answer = next(answers)
            if answer is None:
                time.sleep(3)
            return answer or (201, trace(42))

        fake.answers["POST /v1/traces"] = slow
        paths = [write_trace(tmp_path / f"{n}.json") for n in range(3)]
        process = subprocess.Popen([PROFCTL, "--socket", fake.path, "ingest", *paths], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment())
        wait_for(lambda: len(fake.asked("POST", "/v1/traces")) == 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 3 and out.splitlines()[1].startswith("t41")
        assert "interrupted" in err and "1 trace, 1 failed" in err
        assert len(fake.asked("POST", "/v1/traces")) == 2


# Without a profd


@pytest.fixture
def home():
    if SYSTEM_SOCKET.exists():
        pytest.skip("a system profd has its socket here")
    # pytest's directories may be closed to other users.
    with tempfile.TemporaryDirectory(prefix="home-") as path:
        yield Home(Path(path))


def test_no_profd_is_needed(home):
    write_trace(home.path / "a.json").chmod(0o644)
    r = home.run("ingest", home.path / "a.json", "--label", "k=v")
    assert r.returncode == 0, r.stderr
    assert r.stdout.splitlines()[1].split()[:2] == ["t1", "complete"]
    assert home.run("list-traces", "--no-legend").stdout.split()[0] == "t1"
    assert "k0" in home.run("show", "t1").stdout
    assert home.run("query", "t1", "select count(*) from slice", "--no-legend").stdout == "3\n"
    assert home.run("get", "t1", "-o", home.home / "copy.json").returncode == 0
    assert (home.home / "copy.json").read_bytes() == (home.path / "a.json").read_bytes()
    for words in (["pin", "t1"], ["unpin", "t1"], ["du"], ["list-sessions"], ["rm", "t1"]):
        assert home.run(*words).returncode == 0, words
    assert home.run("show", "t1").returncode == 4
    # Nothing of it is left, and nobody else may look.
    state = home.home / ".local/state/profd"
    assert list(state.glob("*.sock")) == [] and home.daemons() == []
    assert state.stat().st_mode & 0o027 == 0


def test_calls_at_a_time_take_turns(home):
    for n in range(4):
        write_trace(home.path / f"{n}.json", trace_id=n).chmod(0o644)
    calls = [subprocess.Popen([home.path / "build/client/profctl", "ingest", "--no-legend", home.path / f"{n}.json"], cwd="/",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=home.environment(),
                              user=home.user) for n in range(4)]
    answers = [call.communicate(timeout=60) for call in calls]
    assert [call.returncode for call in calls] == [0, 0, 0, 0], answers
    assert sorted(out.split()[0] for out, _ in answers) == ["t1", "t2", "t3", "t4"]


def test_queries_at_a_time_take_turns(home):
    for n in range(6):
        write_trace(home.path / "d" / f"{n}.json", trace_id=n).chmod(0o644)
    assert home.run("ingest", home.path / "d").returncode == 0
    calls = [subprocess.Popen([home.path / "build/client/profctl", "query", f"t{n + 1}", "select count(*) from slice", "--no-legend"],
                              cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=home.environment(), user=home.user) for n in range(6)]
    answers = [call.communicate(timeout=60) for call in calls]
    assert [(call.returncode, out) for call, (out, _) in zip(calls, answers)] == [(0, "3\n")] * 6, answers


def test_without_a_home_there_is_no_catalog(home):
    r = subprocess.run([home.path / "build/client/profctl", "list-traces"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=60, env=environment(), user=home.user, cwd="/")
    if home.user:
        assert r.returncode == 1 and "$HOME is not set" in r.stderr and "XDG_STATE_HOME" in r.stderr


def test_what_happens_is_reported_by_a_profd_that_runs(home):
    r = home.run("events")
    assert r.returncode == 1 and "cannot reach profd" in r.stderr
    assert not (home.home / ".local/state/profd").exists()


def test_a_query_of_a_file_starts_none(home):
    write_trace(home.path / "a.json").chmod(0o644)
    assert home.run("query", home.path / "a.json", "select count(*) from slice", "--no-legend").stdout == "3\n"
    assert not (home.home / ".local/state").exists()


def test_where_a_profd_was_named_none_is_started(home):
    write_trace(home.path / "a.json").chmod(0o644)
    r = home.run("ingest", home.path / "a.json", "--socket", home.path / "none.sock")
    assert r.returncode == 1 and "cannot reach profd at" in r.stderr


def test_it_ends_with_profctl_however_that_ends(home):
    # A file that takes its time.
    (home.path / "big.json").write_text('{"traceEvents":[' + ",".join(
        '{"ph":"X","cat":"kernel","name":"k%d","pid":0,"tid":7,"ts":%d,"dur":1}' % (i, i) for i in range(400000)) + "]}")
    (home.path / "big.json").chmod(0o644)
    process = subprocess.Popen([home.path / "build/client/profctl", "ingest", home.path / "big.json"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=home.environment(), user=home.user, cwd="/")
    wait_for(lambda: len(home.daemons()) >= 2)
    process.kill()
    process.wait()
    wait_for(lambda: home.daemons() == [], timeout_s=20)
    assert list((home.home / ".local/state/profd").glob("*.sock")) == []


def test_a_profd_that_does_not_start_reports_why(home):
    (home.path / "build/daemon/profd").write_text("#!/bin/sh\necho 'the disk is on fire' >&2\nexit 1\n")
    (home.path / "build/daemon/profd").chmod(0o755)
    r = home.run("list-traces")
    assert r.returncode == 1 and r.stdout == ""
    assert "no profd is running, and one for this call ended immediately" in r.stderr and "the disk is on fire" in r.stderr


def test_without_the_program_the_usual_error_is_reported(home):
    if shutil.which("profd"):
        pytest.skip("profd is installed here")
    (home.path / "build/daemon/profd").unlink()
    r = home.run("list-traces")
    assert r.returncode == 1 and "cannot reach profd at" in r.stderr
