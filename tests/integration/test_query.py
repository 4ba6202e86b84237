# SPDX-License-Identifier: Apache-2.0
"""profctl query as its users see it: on files, on columns, on traces of profd, and typed at a terminal."""
import csv
import fcntl
import gzip
import hashlib
import io
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

from daemon import BUILD, wait_for
from fake_profd import FakeProfd, trace
from patience import patience
from real_traces import ORACLE, TRACES

PROFCTL = BUILD / "client" / "profctl"

IS_SANITIZED = b"__asan_init" in PROFCTL.read_bytes()


class Workspace:
    """A home of its own, and a small trace in it."""

    def __init__(self, path):
        self.path = path
        self.trace = path / "trace.json"
        self.trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events()}))

    def environment(self, **more):
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS")}
        return {**keep, "HOME": str(self.path), "TZ": "UTC", "TERM": "xterm", "PAGER": "cat", "PROFD_SOCKET": str(self.path / "none.sock"), **more}

    def run(self, *args, stdin=None, program=PROFCTL, env=None, **more):
        given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run([program, *map(str, args)], capture_output=True, timeout=60, cwd=self.path,
                              env=self.environment(**(env or {})), **{"text": True, **given, **more})

    def rows(self, *args, **more):
        r = self.run("query", *args, "--json", **more)
        assert r.returncode == 0, r.stderr
        return json.loads(r.stdout)

    def cached(self):
        return sorted((self.path / ".cache/profd/columns").glob("*"))


def events():
    names = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}]
    ops = [{"ph": "X", "cat": "cpu_op", "name": f"aten::mm{i % 2}", "pid": 1, "tid": 1, "ts": 1000 + 10 * i, "dur": 8,
            "args": {"External id": i, "Input Dims": [[i, 2]], "note": f"ä {i}"}} for i in range(4)]
    kernels = [{"ph": "X", "cat": "kernel", "name": "gemm" if i % 2 else 'say "hi", there\tnow', "pid": 0, "tid": 7,
                "ts": 1005 + 10 * i, "dur": 5 + i, "args": {"stream": 7, "correlation": i}} for i in range(4)]
    return names + ops + kernels


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


# Answers


def test_table_is_aligned_and_messages_go_elsewhere(workspace):
    r = workspace.run("query", workspace.trace, "select name, count(*) as n, sum(dur) as ns from slice where category = 'cpu_op' group by name")
    assert r.returncode == 0, r.stderr
    assert r.stdout == "name       n     ns\naten::mm0  2  16000\naten::mm1  2  16000\n"
    assert re.fullmatch(r"2 rows, \d.*\n", r.stderr)
    bare = workspace.run("query", workspace.trace, "select 1 as x", "--no-legend")
    assert (bare.stdout, bare.stderr) == ("1\n", "")


@pytest.mark.smoke
def test_null_and_empty_text_differ(workspace):
    sql = "select null as a, '' as b, 'x' as c, -1.5 as d"
    assert workspace.run("query", workspace.trace, sql).stdout.split("\n")[1].split() == ["NULL", "x", "-1.5"]
    assert workspace.rows(workspace.trace, sql) == [{"a": None, "b": "", "c": "x", "d": -1.5}]
    assert workspace.run("query", workspace.trace, sql, "--csv", text=False).stdout == b'a,b,c,d\r\n,"",x,-1.5\r\n'
    assert workspace.run("query", workspace.trace, sql, "--tsv").stdout == "a\tb\tc\td\n\\N\t\tx\t-1.5\n"


def test_csv_is_what_its_readers_expect(workspace):
    r = workspace.run("query", workspace.trace, "select name, category from slice order by id", "--csv", text=False)
    rows = list(csv.reader(io.StringIO(r.stdout.decode(), newline="")))
    assert rows[0] == ["name", "category"] and len(rows) == 9
    assert ['say "hi", there\tnow', "kernel"] in rows
    tsv = workspace.run("query", workspace.trace, "select name, category from slice order by id", "--tsv").stdout
    assert 'say "hi", there\\tnow\tkernel' in tsv.splitlines()


def test_json_has_exact_numbers_and_no_key_twice(workspace):
    rows = workspace.rows(workspace.trace, "select 0.1 + 0.2 as a, 9223372036854775807 as b, 1e300 * 1e10 as c, 1 as n, 2 as n, x'00ff' as e")
    assert rows == [{"a": 0.1 + 0.2, "b": 2**63 - 1, "c": float("inf"), "n": 1, "n:1": 2, "e": "00ff"}]
    assert workspace.rows(workspace.trace, "select 1 where 0") == []


def test_several_statements_and_where_they_come_from(workspace):
    sql = "select 1 as a; -- a remark; with a semicolon\nselect ';' as b;\n"
    (workspace.path / "q.sql").write_text(sql)
    for args, stdin in [([sql], None), (["-f", "q.sql"], None), ([], sql), (["-f", "-"], sql)]:
        r = workspace.run("query", workspace.trace, *args, "--json", stdin=stdin)
        assert (r.returncode, r.stderr) == (0, "")
        first, second = r.stdout.split("]\n")[:2]
        assert json.loads(first + "]") == [{"a": 1}] and json.loads(second + "]") == [{"b": ";"}]


def test_commands_stand_where_statements_do(workspace):
    for args, stdin in [([".schema gap"], None), ([], "-- what there is\n.schema gap\n")]:
        r = workspace.run("query", workspace.trace, *args, stdin=stdin)
        assert r.returncode == 0 and re.search(r"prev_name +TEXT", r.stdout), r.stderr
    r = workspace.run("query", workspace.trace, "--no-legend", stdin=".tables\nselect 6 * 7;\n.named gaps-total\n.quit\nselect 8")
    assert r.returncode == 0 and "slice" in r.stdout.split() and r.stdout.split()[-2] == "42"
    r = workspace.run("query", workspace.trace, ".tabels")
    assert (r.returncode, r.stdout, r.stderr) == (2, "", "profctl: there is no command .tabels\n  Did you mean .tables? .help lists the commands.\n")


def test_limit(workspace):
    r = workspace.run("query", workspace.trace, "select id from slice order by id", "-n", "3")
    assert r.stdout.split() == ["id", "0", "1", "2"]
    assert r.stderr == "the first 3 rows; --limit leaves the others out\n"
    exact = workspace.run("query", workspace.trace, "select id from slice", "-n", "8")
    assert exact.stderr.startswith("8 rows, ")


def test_arguments_come_from_columns_and_from_the_original(workspace):
    rows = workspace.rows(workspace.trace, "select extract_arg(arg_set_id, 'args.note') as note, extract_arg(arg_set_id, 'args.External id') as id "
                                   "from slice where category = 'cpu_op' order by ts")
    assert rows == [{"note": f"ä {i}", "id": i} for i in range(4)]


def test_named_queries(workspace):
    listed = workspace.run("query", "--named", "list")
    assert listed.returncode == 0
    names = [line.split()[0] for line in listed.stdout.splitlines()[1:]]
    assert names == ["kernels", "gaps", "gaps-total", "threads", "defects"]
    assert [q["name"] for q in json.loads(workspace.run("query", "--named", "list", "--json").stdout)] == names
    for name in names:
        r = workspace.run("query", workspace.trace, "--named", name)
        assert r.returncode == 0, (name, r.stderr)
    kernels = workspace.rows(workspace.trace, "--named", "kernels")
    assert [(k["name"], k["count"], k["max_us"]) for k in kernels] == [("gemm", 2, 8), ('say "hi", there\tnow', 2, 7)]
    r = workspace.run("query", workspace.trace, "--named", "kernel")
    assert r.returncode == 2 and "Did you mean kernels?" in r.stderr


# What goes wrong


@pytest.mark.parametrize("sql,message,marked", [
    ("select nam from slice", "no such column: nam", "select nam from slice\n           ^ did you mean name?"),
    ("select s.catgory from slice s", "no such column: s.catgory", "did you mean category?"),
    ("select 1 from slise", "no such table: slise", "Did you mean slice?"),
    ("selct 1", 'near "selct": syntax error', "    selct 1\n    ^ did you mean SELECT?"),
    ("select id,\n\tnme\nfrom slice", "no such column: nme", "     nme\n     ^ did you mean name?"),
    ("select zzzzzzzz from slice", "no such column: zzzzzzzz", "           ^\n"),
    ("select 1 foo foo", 'near "foo": syntax error', "^\n  The SQL is that of SQLite; .schema lists tables"),
    ("select 1 from foo", "no such table: foo", "\n  .tables lists the tables: profctl query "),
    ("attach 'x.db' as x", "not authorized", "can only be read"),
    ("create table x (y)", "not authorized", "can only be read"),
    ("select load_extension('x')", "not authorized", ""),
])
def test_errors_name_the_location(workspace, sql, message, marked):
    r = workspace.run("query", workspace.trace, sql)
    assert r.returncode == 1 and r.stdout == ""
    assert r.stderr.splitlines()[0].startswith(f"profctl: {message}"), r.stderr
    assert marked in r.stderr


def test_unreadable_files_have_a_remedy(workspace):
    (workspace.path / "notes.txt").write_text("no trace")
    for words, remedy in ((["query", "notes.txt", "select 1"], "profd reads traces in JSON"),
                          (["query", workspace.trace, "-f", "/none.sql"], "-f takes a file that contains SQL"),
                          (["analyze", workspace.trace, "--classes", "/none"], "Name a file with lines of a class and a pattern"),
                          (["analyze", workspace.trace, "--phase", "foo"], "profctl analyze TRACE --report steps")):
        r = workspace.run(*words)
        assert r.returncode in (1, 2) and r.stderr.splitlines()[1].startswith(f"  {remedy}"), r.stderr


def test_errors_of_a_file_name_the_line(workspace):
    (workspace.path / "q.sql").write_text("select 1;\n\nselect bogus;\n")
    r = workspace.run("query", workspace.trace, "-f", "q.sql")
    assert r.returncode == 1 and r.stdout == "1\n1\n"
    assert "profctl: q.sql:3: no such column: bogus\n" in r.stderr
    (workspace.path / "q.sql").write_text("select 1;\n\nselect id,\n  abs(-9223372036854775807 - id - 1) from slice")
    assert "profctl: q.sql:3: integer overflow\n" in workspace.run("query", workspace.trace, "-f", "q.sql").stderr


def test_a_long_line_is_cut_around_the_error(workspace):
    sql = "select " + ", ".join(f"{n} as column_{n}" for n in range(200)) + ", nam from slice where dur > 0 and " + "ts > 0 and " * 50 + "1"
    lines = workspace.run("query", workspace.trace, sql).stderr.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[1].strip().startswith("...") and lines[1].endswith("...")
    assert lines[1][lines[2].index("^"):].startswith("nam ")


# One call of a function each, in which SQLite looks at no clock; minutes to hours without a limit.
ZEROS, NEEDLE = "hex(zeroblob(8000000))", "hex(zeroblob(2000000)) || '1'"
PATTERN = "substr(hex(zeroblob(2000)), 1, 4000)"
ENDLESS = {
    "instr": f"select instr({ZEROS}, {NEEDLE})",
    "replace": f"select length(replace({ZEROS}, {NEEDLE}, 'x'))",
    "trim": f"select length(ltrim({ZEROS}, replace(hex(zeroblob(500000)), '0', '1') || '0'))",
    "like": f"select {ZEROS} like '%' || {PATTERN} || '1%'",
    "glob": f"select {ZEROS} glob '*' || {PATTERN} || '1*'",
    "json": "with recursive c(n) as (select 1 union all select n + 1 from c limit 300000), o(a) as materialized "
            "(select json_group_object('k' || n, n) from c) select length(json_patch(a, a)) from o",
    "aggregate": f"select sum(instr({ZEROS} || id, {NEEDLE})) from slice",
}
LIMIT_S = 0.5


def count_to(n):
    return f"with recursive c(n) as (select 1 union all select n + 1 from c limit {n}) "


def test_time_limit(workspace):
    begin = time.monotonic()
    r = workspace.run("query", workspace.trace, "with recursive c(n) as (select 1 union all select n + 1 from c) select max(n) from c",
                  "--time-limit", "200ms")
    assert r.returncode == 1 and time.monotonic() - begin < patience(20)
    assert r.stderr == "profctl: the statement reached its time limit of 200 ms: 0 rows printed\n  Pass a larger --time-limit.\n"


@pytest.mark.parametrize("function", ENDLESS)
def test_time_limit_holds_within_a_function(workspace, function):
    workspace.rows(workspace.trace, "select 1")
    begin = time.monotonic()
    r = workspace.run("query", workspace.trace, ENDLESS[function], "--time-limit", f"{LIMIT_S}s")
    took = time.monotonic() - begin
    assert (r.returncode, r.stdout) == (1, "") and took < patience(LIMIT_S + 1), took
    assert r.stderr == "profctl: the statement reached its time limit of 500 ms: 0 rows printed\n  Pass a larger --time-limit.\n"


@pytest.mark.parametrize("arguments,expected", [
    (["--csv"], "n,x\r\n1,1\r\n2,2\r\n3,3\r\n"), (["--json"], '[\n{"n":1,"x":1},\n{"n":2,"x":2},\n{"n":3,"x":3}'),
    # Rows of a table are aligned with each other, and so printed together.
    ([], ""),
])
def test_rows_before_the_time_limit_are_printed_and_counted(workspace, arguments, expected):
    sql = "select 1 as a;\n" + count_to(5) + f"select n, iif(n < 4, n, ({ENDLESS['instr']})) as x from c"
    (workspace.path / "q.sql").write_text(sql)
    r = workspace.run("query", workspace.trace, "-f", "q.sql", "--no-legend" if not arguments else "-q", "--time-limit", "500ms", *arguments, text=False)
    first = {0: "1\n", 1: "a\r\n1\r\n" if "--csv" in arguments else '[\n{"a":1}\n]\n'}[len(arguments)]
    assert (r.returncode, r.stdout.decode()) == (1, first + expected)
    assert r.stderr.decode() == (f"profctl: q.sql:2: the statement reached its time limit of 500 ms: {3 if expected else 0} rows printed\n"
                                 "  Pass a larger --time-limit.\n")


def test_a_slow_function_for_each_row_keeps_the_rows(workspace):
    """Between two rows the time is looked at: the statement ends by itself, with its table."""
    slow = "instr(hex(zeroblob(20000)), hex(zeroblob(6000)) || '1' || n)"
    r = workspace.run("query", workspace.trace, count_to(10**6) + f"select n, {slow} as x from c", "--time-limit", "500ms")
    rows = r.stdout.splitlines()
    assert r.returncode == 1 and rows[0].split() == ["n", "x"] and rows[-1].split() == [str(len(rows) - 1), "0"]
    count = re.search(r"its time limit of 500 ms: ([\d,]+) rows? printed", r.stderr).group(1)
    assert int(count.replace(",", "")) == len(rows) - 1


def test_each_statement_has_its_own_time(workspace):
    sql = "; ".join([count_to(600000) + "select max(n) from c"] * 6)
    one = workspace.run("query", workspace.trace, count_to(600000) + "select max(n) from c")
    took = re.search(r"1 row, (\d+) ms", one.stderr)
    assert took, one.stderr
    r = workspace.run("query", workspace.trace, sql, "--no-legend", "--time-limit", f"{3 * int(took.group(1)) + 200}ms")
    assert (r.returncode, r.stdout) == (0, "600000\n" * 6), r.stderr


def test_values_are_bounded(workspace):
    """Before memory is taken for them."""
    for sql in ("select zeroblob(100000000000)", "select zeroblob(17000000)", "select hex(zeroblob(9000000))", count_to(100) + "select length(group_concat(hex(zeroblob(500000)))) from c"):
        r = workspace.run("query", workspace.trace, sql)
        assert (r.returncode, r.stdout) == (1, ""), sql
        assert r.stderr == "profctl: string or blob too big\n  A value holds at most 16.0 MiB.\n", sql
    assert workspace.rows(workspace.trace, "select printf('%*d', 2000000000, 1) as x, printf('%.*c', 99999999, 'x') as y") == [{"x": None, "y": None}]
    r = workspace.run("query", workspace.trace, "select 'x' like '" + 5000 * "%" + "'")
    assert r.returncode == 1 and "LIKE or GLOB pattern too complex\n  A pattern has at most 4096 bytes." in r.stderr
    r = workspace.run("query", workspace.trace, "select 1" + "+1" * 1000)
    assert r.returncode == 1 and "Expression tree is too large" in r.stderr


def test_held_rows_are_bounded(workspace):
    """A table is held in memory until its widths are known, but never more of it than a few large rows."""
    limit = resource.RLIM_INFINITY if IS_SANITIZED else 96 << 20  # it maps terabytes
    workspace.rows(workspace.trace, "select 1")
    r = subprocess.run([PROFCTL, "query", workspace.trace, count_to(24) + "select hex(zeroblob(1000000)) as x, n from c", "--format", "wide",
                        "--time-limit", "infinity"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60, env=workspace.environment(),
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
    assert r.returncode == 0, r.stderr


def test_memory_limit_of_a_statement(workspace):
    r = workspace.run("query", workspace.trace, "with recursive c(n) as (select 1 union all select n + 1 from c limit 300) "
                  "select count(*) from (select n, zeroblob(15000000) || n as b from c order by b)")
    assert r.returncode == 1
    assert r.stderr.startswith("profctl: a statement needs more than 2.0 GiB of memory\n")


@pytest.mark.parametrize("args", [
    [], ["trace.json", "select 1", "more"], ["trace.json", "--json", "--csv", "select 1"], ["trace.json", "--csv", "--tsv", "select 1"],
    ["trace.json", "select 1", "--named", "gaps"], ["trace.json", "-f", "q.sql", "select 1"], ["trace.json"], ["trace.json", " ; "],
    ["trace.json", "select 1", "--limit", "0"],
])
def test_usage_errors(workspace, args):
    r = workspace.run("query", *args)
    assert (r.returncode, r.stdout) == (2, ""), r.stderr
    assert r.stderr.startswith("profctl: ")


def test_files_that_are_none(workspace):
    r = workspace.run("query", "none.json", "select 1")
    assert r.returncode == 4 and "cannot open none.json: No such file or directory" in r.stderr and "list-traces" in r.stderr
    os.mkfifo(workspace.path / "fifo")
    assert "is not a regular file" in workspace.run("query", "fifo", "select 1").stderr
    (workspace.path / "text.json").write_text("no trace at all")
    r = workspace.run("query", "text.json", "select 1")
    assert r.returncode == 1 and r.stdout == "" and r.stderr.startswith("profctl: cannot read text.json: ")
    assert workspace.cached() == []


def test_what_is_missing_is_reported_each_time(workspace):
    whole = workspace.trace.read_text()
    (workspace.path / "cut.json").write_text(whole[: whole.index('"gemm"')])
    for _ in range(2):
        r = workspace.run("query", "cut.json", "select count(*) from slice")
        assert r.returncode == 0
        assert r.stderr.startswith("cut.json: the text ends before its JSON closes, after ")


def test_an_output_that_ends_early(workspace):
    r = subprocess.run(f"{PROFCTL} query {workspace.trace} 'with recursive c(n) as (select 1 union all select n + 1 from c limit 200000) "
                       "select n from c' --csv | head -1", shell=True, capture_output=True, text=True, timeout=60, env=workspace.environment())
    assert r.stdout == "n\n"


def test_a_reader_that_has_enough_is_no_error(workspace):
    r = subprocess.run(["bash", "-c", f"{PROFCTL} query {workspace.trace} 'with recursive c(n) as (select 1 union all select n + 1 from c "
                        "limit 200000) select n from c' | head -3; echo ${PIPESTATUS[0]}"], capture_output=True, text=True, timeout=60,
                       env=workspace.environment())
    assert r.stdout.split() == ["n", "1", "2", "0"] and r.stderr == ""
    full = subprocess.run([PROFCTL, "query", workspace.trace, "select 1"], stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, text=True,
                          timeout=60, env=workspace.environment())
    assert full.returncode == 1 and "profctl: cannot write to stdout: " in full.stderr and "No such file" not in full.stderr


# Columns and their cache


def test_a_file_is_read_once(workspace):
    assert workspace.rows(workspace.trace, "select count(*) as n from slice") == [{"n": 8}]
    (cached,) = workspace.cached()
    assert cached.stat().st_mode & 0o777 == 0o600 and cached.parent.stat().st_mode & 0o777 == 0o700
    inode = cached.stat().st_ino
    assert workspace.rows(workspace.trace, "select count(*) as n from slice") == [{"n": 8}]
    assert [c.stat().st_ino for c in workspace.cached()] == [inode]


def test_a_file_that_changed_is_read_again(workspace):
    workspace.rows(workspace.trace, "select 1")
    workspace.trace.write_text(json.dumps({"traceEvents": events()[:3]}))
    assert workspace.rows(workspace.trace, "select count(*) as n from slice") == [{"n": 2}]


def test_a_file_rewritten_in_place_is_read_again(workspace):
    count = (workspace.trace, "select count(*) as n from slice where name = 'aten::mm0'")
    assert workspace.rows(*count) == [{"n": 2}]
    before = workspace.trace.stat()
    workspace.trace.write_text(workspace.trace.read_text().replace("aten::mm0", "aten::mmX"))
    os.utime(workspace.trace, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = workspace.trace.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
    assert workspace.rows(*count) == [{"n": 0}]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign"])
def test_a_damaged_copy_is_made_anew(workspace, damage):
    workspace.rows(workspace.trace, "select 1")
    (cached,) = workspace.cached()
    data = bytearray(cached.read_bytes())
    if damage == "flip":
        data[-20] ^= 1
    cached.write_bytes({"cut": data[:-100], "flip": data, "empty": b"", "foreign": b"x" * len(data)}[damage])
    assert workspace.rows(workspace.trace, "select count(*) as n from slice") == [{"n": 8}]


def test_a_page_damaged_is_no_answer_and_heals(workspace):
    many = [{"ph": "X", "cat": "kernel", "name": f"k{i % 97}", "pid": 0, "tid": 7, "ts": i * 10 + i % 7, "dur": 5 + i % 3} for i in range(60000)]
    workspace.trace.write_text(json.dumps({"traceEvents": many}))
    expected = workspace.rows(workspace.trace, "select sum(ts) as s, sum(dur) as d, count(name) as n from slice")
    (cached,) = workspace.cached()
    data = bytearray(cached.read_bytes())
    for at in range(20000, len(data) // 2, 30000):
        data[at] ^= 0x40
    cached.write_bytes(data)
    r = workspace.run("query", workspace.trace, "select sum(ts) as s, sum(dur) as d, count(name) as n from slice", "--json")
    assert r.returncode == 1 or json.loads(r.stdout) == expected
    if r.returncode:
        assert "run the query again" in r.stderr
    assert workspace.rows(workspace.trace, "select sum(ts) as s, sum(dur) as d, count(name) as n from slice") == expected


def test_columns_that_others_may_write_are_not_used(workspace):
    workspace.rows(workspace.trace, "select 1")
    (cached,) = workspace.cached()
    inode = cached.stat().st_ino
    cached.chmod(0o666)
    workspace.rows(workspace.trace, "select 1")
    assert [c.stat().st_ino for c in workspace.cached()] != [inode]


def test_a_columnar_file_is_a_trace(workspace):
    workspace.rows(workspace.trace, "select 1")
    shutil.copy(workspace.cached()[0], workspace.path / "my.columns")
    assert workspace.rows("my.columns", "select count(*) as n from slice") == [{"n": 8}]
    # Without the original, what has a column is still there.
    assert workspace.rows("my.columns", "select extract_arg(arg_set_id, 'args.External id') as id from slice where category = 'cpu_op' limit 1") == [{"id": 0}]
    (workspace.path / "my.columns").write_bytes((workspace.path / "my.columns").read_bytes()[:-1])
    r = workspace.run("query", "my.columns", "select 1")
    assert r.returncode == 1 and "my.columns has damaged columns" in r.stderr


def test_a_home_that_cannot_be_written_to(workspace):
    (workspace.path / ".cache").write_text("no directory")
    assert workspace.rows(workspace.trace, "select count(*) as n from slice", env={"TMPDIR": str(workspace.path)}) == [{"n": 8}]
    assert sorted(p.name for p in workspace.path.iterdir()) == [".cache", "trace.json"]


def test_compressed_files(workspace):
    (workspace.path / "a.gz").write_bytes(gzip.compress(workspace.trace.read_bytes()))
    subprocess.run(["zstd", "-q", workspace.trace, "-o", workspace.path / "b"], check=True)
    for name in ("a.gz", "b"):
        assert workspace.rows(name, "select count(*) as n from slice") == [{"n": 8}]
        assert workspace.rows(name, "select extract_arg(arg_set_id, 'args.note') as n from slice where id = 0") == [{"n": "ä 0"}]


def installed(workspace, ingest):
    """profctl beside a profd-ingest of the test's own."""
    (workspace.path / "client").mkdir()
    (workspace.path / "daemon/ingest").mkdir(parents=True)
    program = workspace.path / "daemon/ingest/profd-ingest"
    program.write_text(f"#!/bin/sh\n{ingest}\n")
    program.chmod(0o755)
    return shutil.copy(PROFCTL, workspace.path / "client")


def test_interrupting_a_reading_leaves_nothing(workspace):
    program = installed(workspace, f"echo $$ > {workspace.path}/pid; exec sleep 60")
    process = subprocess.Popen([program, "query", workspace.trace, "select 1"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env=workspace.environment())
    pid = int(wait_for(lambda: (workspace.path / "pid").exists() and (workspace.path / "pid").read_text()))
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 1
    assert process.stderr.read() == f"profctl: interrupted while reading {workspace.trace}\n"
    process.stderr.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert workspace.cached() == []


@pytest.mark.parametrize("ingest,said", [
    ("exit 3", "profd-ingest ended with status 3"), ("kill -SEGV $$", "profd-ingest was killed by SIGSEGV"),
    ("kill -KILL $$", "--memory-limit"), ("kill -XCPU $$", "profd-ingest used up its processor time"),
    ("echo '{\"state\":\"complete\",\"columns_reason\":\"holds none\"}'", "cannot read trace.json: holds none"),
    ("echo '{\"state\":\"complete\"}'", "cannot read trace.json: profd-ingest made no columns"), ("echo nonsense", "answered no JSON object"), ("echo '[]'", "answered no JSON object"),
    ("echo '{\"state\":\"corrupt\",\"reason\":\"is bad\",\"remedy\":\"mend it\"}'", "cannot read trace.json: is bad\n  mend it"),
    ("echo '{\"error\":28}'", "cannot write the columns of trace.json: No space left on device"),
    ("echo '{\"state\":\"complete\",\"columns\":{}}'", "has damaged columns"), ("exec yes", "killed"),
])
def test_a_reading_that_fails_reports_how(workspace, ingest, said):
    r = workspace.run("query", "trace.json", "select 1", program=installed(workspace, ingest))
    assert r.returncode == 1 and r.stdout == ""
    assert said in r.stderr
    assert workspace.cached() == []


# Traces of profd


@pytest.fixture
def fake(tmp_path):
    with FakeProfd(tmp_path / "fake.sock") as d:
        yield d


def columns_of(workspace):
    workspace.rows(workspace.trace, "select 1")
    data = workspace.cached()[0].read_bytes()
    shutil.rmtree(workspace.path / ".cache")
    (workspace.path / "t12.columns").write_bytes(data)
    return data


def known_trace(workspace, data, **more):
    return trace(12, **{"path": str(workspace.trace), "sha256": hashlib.sha256(workspace.trace.read_bytes()).hexdigest(),
                        "columns": str(workspace.path / "t12.columns"), "columns_size": len(data), **more})


def test_an_id_is_opened_where_it_lies(workspace, fake):
    data = columns_of(workspace)
    fake.answers["GET /v1/traces/t12"] = known_trace(workspace, data)
    for word in ("t12", "12"):
        assert workspace.rows("--socket", fake.path, word, "select count(*) as n from slice") == [{"n": 8}]
    assert workspace.rows("--socket", fake.path, "t12", "select extract_arg(arg_set_id, 'args.note') as n from slice where id = 0") == [{"n": "ä 0"}]
    assert not fake.asked("GET", "/v1/traces/t12/columns") and workspace.cached() == []


def test_an_id_out_of_reach_is_fetched_once(workspace, fake):
    data = columns_of(workspace)
    (workspace.path / "t12.columns").unlink()
    fake.answers |= {"GET /v1/traces/t12": known_trace(workspace, data), "GET /v1/traces/t12/columns": data}
    for _ in range(2):
        assert workspace.rows("--socket", fake.path, "t12", "select count(*) as n from slice") == [{"n": 8}]
    assert len(fake.asked("GET", "/v1/traces/t12/columns")) == 1 and len(workspace.cached()) == 1


def test_columns_that_arrive_incomplete(workspace, fake):
    data = columns_of(workspace)
    (workspace.path / "t12.columns").unlink()
    fake.answers |= {"GET /v1/traces/t12": known_trace(workspace, data, path=str(workspace.path / "gone")), "GET /v1/traces/t12/columns": data[:-10]}
    r = workspace.run("query", "--socket", fake.path, "t12", "select 1")
    assert r.returncode == 1 and "its size differs" in r.stderr and workspace.cached() == []


@pytest.mark.parametrize("served", [None, b"no columns"])
def test_columns_that_are_lost_are_made_again_of_the_original(workspace, fake, served):
    data = columns_of(workspace)
    (workspace.path / "t12.columns").unlink()
    fake.answers["GET /v1/traces/t12"] = known_trace(workspace, data)
    if served:
        fake.answers["GET /v1/traces/t12/columns"] = served.ljust(len(data))
    r = workspace.run("query", "--socket", fake.path, "t12", "select count(*) as n from slice", "--no-legend")
    assert (r.returncode, r.stdout) == (0, "8\n")
    assert r.stderr == f"the columns of t12 are {'damaged' if served else 'lost'}; reading {workspace.trace}\n"


def test_an_original_that_is_gone_is_reported(workspace, fake):
    data = columns_of(workspace)
    fake.answers["GET /v1/traces/t12"] = known_trace(workspace, data)
    workspace.trace.unlink()
    r = workspace.run("query", "--socket", fake.path, "t12", "select count(*) as n from slice", "--no-legend")
    assert (r.returncode, r.stdout) == (0, "8\n")
    assert r.stderr == "the original of t12 is gone: only arguments with columns are available\n"


def test_an_id_without_columns(workspace, fake):
    fake.answers["GET /v1/traces/t12"] = known_trace(workspace, b"", columns=None, columns_reason="this is no trace", path=str(workspace.path / "gone"))
    r = workspace.run("query", "--socket", fake.path, "t12", "select 1")
    assert r.returncode == 1 and "profd has no columns of t12: this is no trace" in r.stderr and "profctl get t12" in r.stderr
    # Where its file can be read, that is done.
    fake.answers["GET /v1/traces/t12"] = known_trace(workspace, b"", columns=None)
    r = workspace.run("query", "--socket", fake.path, "t12", "select count(*) as n from slice", "--no-legend")
    assert (r.returncode, r.stdout) == (0, "8\n") and "reading" in r.stderr
    r = workspace.run("query", "--socket", fake.path, "t13", "select 1")
    assert r.returncode == 4


# At a terminal


class Terminal:
    def __init__(self, workspace, *args, columns=80, **env):
        self.workspace = workspace
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(workspace.path)
            os.execve(PROFCTL, [str(PROFCTL), *map(str, args)], workspace.environment(**env))
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        """Ends it, if a test did not get to its end."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def expect(self, pattern, timeout_s=20):
        """Reads until it is there; gives what came before and forgets it."""
        deadline = time.monotonic() + patience(timeout_s)
        while not (m := re.search(pattern, self.text)):
            ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {pattern!r} in {self.text!r}"
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            assert data, f"ended without {pattern!r}: {self.text!r}"
            self.text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode(errors="replace"))
        before, self.text = self.text[:m.end()], self.text[m.end():]
        return before

    def answer(self, pattern, text):
        """Types once the terminal asks for it; libedit takes single characters a moment after its prompt."""
        self.expect(pattern)
        time.sleep(0.1)
        self.send(text)

    def send(self, text):
        os.write(self.fd, text.encode())

    def wait(self):
        """Its exit status, once it has ended."""
        try:
            while select.select([self.fd], [], [], 20)[0] and os.read(self.fd, 65536):
                pass
        except OSError:
            pass
        os.close(self.fd)
        pid, self.pid = self.pid, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


PROMPT = r"trace\.json> $"


def test_statements_are_typed(workspace):
    with Terminal(workspace, "query", "trace.json") as t:
        t.answer(PROMPT, "select count(*) as n\n")
        t.answer(r"-> $", "from slice;\n")
        assert re.search(r"n\s+8\s", t.expect(r"1 row, .*\n"))
        t.answer(PROMPT, "select nam from slice;\n")
        t.expect(r"did you mean name\?")
        t.answer(PROMPT, ".schema gap\n")
        t.expect(r"prev_name\s+TEXT")
        t.answer(PROMPT, ".tables\n")
        t.expect(r"thread_track")
        t.answer(PROMPT, ".named kernels\n")
        t.expect(r"percent")
        t.answer(PROMPT, ".quti\n")
        t.expect(r"there is no command \.quti\r?\n +Did you mean \.quit\?")
        t.answer(PROMPT, ".quit\n")
        assert t.wait() == 0
    # What was typed is there again.
    with Terminal(workspace, "query", "trace.json") as t:
        t.answer(PROMPT, "\x10\x10\x10\n")
        t.expect(r"percent")
        t.answer(PROMPT, ".quit\n")
        assert t.wait() == 0
    assert (workspace.path / ".local/state/profd/query_history").stat().st_mode & 0o077 == 0


def test_a_statement_of_several_lines_is_one_of_the_history(workspace):
    with Terminal(workspace, "query", "trace.json") as t:
        t.answer(PROMPT, "-- a remark is no statement\n")
        t.answer(PROMPT, ".help\n")
        t.expect(r"leave, as Ctrl-D does")
        t.answer(PROMPT, "select 6 *\n")
        t.answer(r"-> $", "7 as answer;\n")
        t.expect(r"answer\s+42")
        t.answer(PROMPT, "exit\n")
        assert t.wait() == 0
    with Terminal(workspace, "query", "trace.json") as t:
        t.answer(PROMPT, "\x10\n")
        t.expect(r"answer\s+42")
        t.answer(PROMPT, "quit\n")
        assert t.wait() == 0


def test_names_are_completed(workspace):
    with Terminal(workspace, "query", "trace.json") as t:
        t.answer(PROMPT, "selec\tprev_n\t fro\tgap limi\t1;\n")
        t.expect(r"1 row, ")
        t.answer(PROMPT, ".sche\tgap\n")
        t.expect(r"prev_name\s+TEXT")
        t.answer(PROMPT, "slic\t\t")
        t.expect(r"slice\s+slice_id\s+slice_in")
        t.answer(r"slice$", "\x15\x04")
        assert t.wait() == 0


def test_ctrl_c_ends_a_statement_and_not_profctl(workspace):
    with Terminal(workspace, "query", "trace.json") as t:
        t.answer(PROMPT, "select 'abandoned\x03")
        t.answer(PROMPT, "with recursive c(n) as (select 1 union all select n + 1 from c) select max(n) from c;\n")
        t.expect(r"from c;")
        time.sleep(0.3)
        t.send("\x03")
        t.expect(r"profctl: interrupted")
        t.answer(PROMPT, "select 6 * 7 as answer;\n")
        t.expect(r"answer\s+42")
        t.answer(PROMPT, "\x04")
        assert t.wait() == 0


@pytest.mark.parametrize("function", ["instr", "like"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_a_function(workspace, function, number):
    p = subprocess.Popen([PROFCTL, "query", workspace.trace, "select 'begun' as x; " + ENDLESS[function], "--csv", "--time-limit", "infinity"],
                         cwd=workspace.path, env=workspace.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert [p.stdout.readline() for _ in range(2)] == ["x\n", "begun\n"]
        begin = time.monotonic()
        p.send_signal(number)
        assert p.wait(20) == 1
        assert time.monotonic() - begin < patience(1)
        assert p.stdout.read() == "" and p.stderr.read() == "profctl: interrupted: 0 rows printed\n"
    finally:
        p.kill()
        p.communicate()


def test_ctrl_c_ends_a_function_and_not_the_prompt(workspace):
    with Terminal(workspace, "query", "trace.json", "--time-limit", "1h") as t:
        t.answer(PROMPT, f"select 'be' || 'gun'; {ENDLESS['instr']};\n")
        t.expect(r"begun")
        t.send("\x03")
        t.expect(r"profctl: interrupted: 0 rows printed", 2)
        t.answer(PROMPT, "select 6 * 7 as answer;\n")
        t.expect(r"answer\s+42")
        t.answer(PROMPT, "\x04")
        assert t.wait() == 0


def test_time_limit_at_the_prompt(workspace):
    with Terminal(workspace, "query", "trace.json", "--time-limit", "300ms") as t:
        t.answer(PROMPT, ENDLESS["instr"] + ";\n")
        t.expect(r"reached its time limit of 300 ms: 0 rows printed", 5)
        t.answer(PROMPT, "select 6 * 7 as answer;\n")
        t.expect(r"answer\s+42")
        t.answer(PROMPT, ".quit\n")
        assert t.wait() == 0


def test_a_killed_profctl_leaves_no_statement_running(workspace):
    p = subprocess.Popen([PROFCTL, "query", workspace.trace, "select 'begun' as x; " + ENDLESS["instr"], "--csv", "--time-limit", "infinity"],
                         cwd=workspace.path, env=workspace.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert [p.stdout.readline() for _ in range(2)] == ["x\n", "begun\n"]
    finally:
        p.kill()
    # The end of the pipe comes when nobody holds it any more.
    assert select.select([p.stdout], [], [], patience(5))[0] and p.stdout.read() == ""
    p.communicate()


def test_rows_too_wide_for_a_terminal_are_shown_value_by_value(workspace):
    with Terminal(workspace, "query", "trace.json", "select * from slice limit 1") as t:
        text = t.expect(r"1 row, ")
        assert "row 1" in text and re.search(r"track_id  0\s", text)
        assert t.wait() == 0


# Real traces


@pytest.mark.parametrize("name", ["tracelens/h100_qwen15.json.gz", "hta/critical_path_alexnet.json.gz",
                                  "sglang_decode_8rank/rank0.pt.trace.json.gz", "lightllm_decode_8rank/rank3.pt.trace.json.gz"])
def test_named_queries_give_what_trace_processor_does(workspace, name):
    oracle = json.loads((ORACLE / f"trace_processor/{name.replace('/', '__')}.json").read_text())
    kernels = workspace.rows(TRACES / name, "--named", "kernels")
    expected = [(float(r[0]), int(r[1]), int(r[2]), float(r[3]), float(r[4]), int(r[5]), r[6]) for r in oracle["kernel_latencies"]["rows"]]
    assert sorted(tuple(k.values()) for k in kernels) == sorted(expected)
    total = workspace.rows(TRACES / name, "--named", "gaps-total")[0]["SUM(diff)"]
    assert str(total if total is not None else "[NULL]") == oracle["empty_slots_sum"]["rows"][0][0]
    gaps = workspace.rows(TRACES / name, "--named", "gaps", "-n", "20")
    by_category = "SELECT category, sum(count) AS count FROM name_stat GROUP BY category"
    assert sorted(str(g["diff"]) for g in gaps) == sorted(r[3].replace("[NULL]", "None") for r in oracle["empty_slots_top20"]["rows"])
    categories = {(c["category"] or "[NULL]", str(c["count"])) for c in workspace.rows(TRACES / name, by_category)}
    assert categories == {tuple(r[:2]) for r in oracle["by_category"]["rows"]}


def test_named_queries_know_the_categories_of_old_traces(workspace):
    """torch 1.9 wrote Kernel and Memcpy, which trace_processor's statements do not ask for."""
    trace = TRACES / "kineto/resnet50_2021_workers0.json.gz"
    kernels = workspace.rows(trace, "--named", "kernels")
    asked = workspace.rows(trace, "select count(*) as n from slice where category in ('Kernel', 'Memcpy')")
    assert sum(k["count"] for k in kernels) == asked[0]["n"] > 0
    assert len(workspace.rows(trace, "--named", "gaps", "-n", "20")) == 20


def test_files_that_are_recognised_and_refused(workspace):
    for name in ("ao/memory_timeline.json.gz", "tracelens/rocprofv3_908_results.json.gz"):
        r = workspace.run("query", TRACES / name, "select 1")
        assert r.returncode == 1 and r.stdout == "" and re.match(r"profctl: cannot read \S+: .+\n  .+", r.stderr), r.stderr
