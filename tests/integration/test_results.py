# SPDX-License-Identifier: Apache-2.0
"""What profctl prints for every real trace, all reports in JSON and all rows of all tables, compared with
tests/data/results.json: faster reading, packing or analysing must not change any of it. The other tests check what is
right; this one shows what changed. After a change that is wanted, ./dev results writes the file anew; name the reports
that changed in the commit."""
import hashlib
import json
import os
import re
import subprocess

import pytest

from patience import patience
from real_traces import TRACES
from terminal import PROFCTL, SOURCE

pytestmark = pytest.mark.plain

RESULTS = SOURCE / "tests/data/results.json"
UPDATE = os.environ.get("PROFD_UPDATE_RESULTS") == "1"
TABLES = ("slice", "track", "thread_track", "process_track", "counter_track", "process_counter_track", "thread", "process", "flow", "counter",
          "args", "kernel", "launch", "op", "annotation", "collective", "memory", "gap", "name_stat", "metadata", "stats")
# Of traces and of directories of ranks; files of nsys have tables of their own.
KINDS = (".json", ".json.gz")
MARK = "rows of statement"
ROWS_MAX = 10**9
DIGITS = 8


def digest(data):
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def profctl(home, *args):
    """Paths are relative to the traces, so that the output does not depend on where they are. The error of a refused
    trace is a result, too."""
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS")}
    done = subprocess.run([PROFCTL, *args], cwd=TRACES, stdin=subprocess.DEVNULL, capture_output=True, timeout=patience(300),
                          env={**keep, "HOME": str(home), "TZ": "UTC", "TERM": "dumb", "PROFD_SOCKET": str(home / "none.sock")})
    assert done.returncode >= 0, done.stderr.decode()
    return done.stdout, done.stderr if done.returncode else b""


def reports(home, name):
    output, refused = profctl(home, "analyze", "--json", name)
    if refused:
        return {"refused": digest(refused)}
    return {f"report {one['report']}": digest(json.dumps(one).encode()) for one in json.loads(output)}


def tables(home, name):
    """Every row of every table in the table's own order, and the same sums as a user would ask for."""
    statements = [(f"table {table}", f"select * from {table}") for table in TABLES]
    statements += [("sums by name", "select name, count(*), sum(dur), min(dur), max(dur) from slice group by name order by name"),
                   ("longest", "select name, dur from slice order by dur desc, id limit 50"),
                   ("nesting", "select depth, count(*), sum(self_dur) from slice group by depth")]
    output, refused = profctl(home, "query", "--csv", "--limit", str(ROWS_MAX), name,
                              ";".join(f"select '{what}' as \"{MARK}\"; {sql}" for what, sql in statements))
    if refused:
        return {"refused by query": digest(refused)}
    parts = re.split(rb'(?m)^%s\r\n(.*)\r\n' % MARK.encode(), output)
    assert len(parts) == 1 + 2 * len(statements)
    return {what.decode(): digest(rows) for what, rows in zip(parts[1::2], parts[2::2])}


def names():
    root = TRACES.path
    files = [path for path in root.rglob("*") if path.name.endswith(KINDS) and "oracle" not in path.parts and path.is_file()]
    folders = {path.parent for path in files if re.search(r"\d?ranks?$", path.parent.name)}
    return sorted(str(path.relative_to(root)) for path in [*files, *folders])


@pytest.mark.parametrize("name", names())
def test_results(tmp_path, name):
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found = {**reports(tmp_path, name), **(tables(tmp_path, name) if (TRACES / name).is_file() else {})}
    if UPDATE:
        RESULTS.write_text("{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted({**known, name: found}.items())) + "\n}\n")
        return
    changed = sorted(key for key in {**known[name], **found} if known[name].get(key) != found.get(key))
    assert not changed, f"{name}: {', '.join(changed)}"
