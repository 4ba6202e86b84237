# SPDX-License-Identifier: Apache-2.0
"""What holds whatever happened, once everybody is well again and no session is under way. Each check gives a list of
complaints; an empty one is what is hoped for.

A check is repeated for a while where profd may still be at it (adopting, reading again, closing connections); what has
to be true at once is in AT_ONCE."""

import contextlib
import hashlib
import sqlite3
import stat
import time
from pathlib import Path

from testbed import SANITIZED, SESSION_LIMIT_S, START_S
from patience import patience
from written_traces import GONE, is_whole, written_while

MIB = 1 << 20
MEMORY_GROWTH = 8 * MIB  # over that of a profd that met everything once
SLACK_S = 30  # a busy machine's
EVENTUALLY_S = 60
SQLITE_KEEPS = 2  # descriptors of the catalog


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def no_profiler_runs(testbed, round_):
    """Sessions are over: nobody records, and nobody did for longer than a session may last, or a stop could not get through."""
    running, longest = testbed.profiling()
    limit = SESSION_LIMIT_S + START_S + testbed.outage_s + round_.faults_s + SLACK_S
    return ([f"{url} profiles for {seconds:.1f} s and no session is under way" for url, seconds in running.items()] +
            ([f"a profiler ran for {longest:.1f} s, more than {limit:.1f} s"] if longest > limit else []))


def no_stop_is_owed(testbed, _round):
    return [f"target {row['target_id']} of s{row['session_id']} is {row['state']} and owes a stop" for row in
            testbed.profd.rows("select target_id, session_id, state from targets where stop_pending")]


def catalog_is_sound(testbed, _round):
    with contextlib.closing(sqlite3.connect(f"file:{testbed.profd.catalog}?mode=ro", uri=True)) as db:
        found = [row[0] for row in db.execute("pragma integrity_check") if row[0] != "ok"]
        found += [f"foreign key: {tuple(row)}" for row in db.execute("pragma foreign_key_check")]
        found += [f"s{row[0]} is {row[1]}, its target {row[2]} is {row[3]}" for row in db.execute(
            "select s.session_id, s.state, t.target_id, t.state from session_row s join target_row t using (session_id) "
            "where (s.finished_at is not null and t.state in "
            "('requested', 'starting', 'recording', 'stopping', 'collecting')) or (s.state = 'complete' and "
            "t.state != 'complete')")]
    return found


def what_is_cataloged_is_there(testbed, round_):
    complaints = []
    with contextlib.closing(sqlite3.connect(f"file:{testbed.profd.catalog}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        rows = db.execute("select * from trace_row where state != 'missing'").fetchall()
    for row in rows:
        path, name = Path(row["path"]), f"t{row['trace_id']} ({row['path']})"
        try:
            status = path.lstat()
        except GONE:
            if row["stored"] or row["origin"] not in testbed.disturbed:
                complaints.append(f"{name} is not there")
            continue
        if not stat.S_ISREG(status.st_mode):
            complaints.append(f"{name} is not a regular file") if row["stored"] else None
            continue
        if row["columns"] and not Path(row["columns"]).exists():
            complaints.append(f"{name}: its columns are not there")
        if not row["stored"] and row["origin"] in testbed.disturbed:
            continue
        if row["trace_id"] in round_.verified and not round_.thorough:
            continue
        if status.st_size != row["size"]:
            complaints.append(f"{name} has {status.st_size} bytes and not {row['size']}")
        elif row["state"] == "complete" and sha256(path) != row["sha256"]:
            complaints.append(f"{name} is not what was hashed")
        else:
            round_.verified.add(row["trace_id"])
    return complaints


def what_is_stored_is_cataloged(testbed, _round):
    state = testbed.profd.state
    with contextlib.closing(sqlite3.connect(f"file:{testbed.profd.catalog}?mode=ro", uri=True)) as db:
        paths = {row[0] for row in db.execute("select path from trace_row where stored")}
        columns = {row[0] for row in db.execute("select columns from trace_row where columns is not null")}
    files = {str(path) for path in (state / "traces").rglob("*") if path.is_file()}
    ours = {str(path) for path in (state / "columns").iterdir()}
    return ([f"{path} is in the store and in no row" for path in sorted(files - paths)] +
            [f"{path} are columns of no row" for path in sorted(ours - columns)])


def what_was_written_is_cataloged(testbed, round_):
    """Every whole trace that a worker wrote between the answers to its start and to its stop."""
    if testbed.clock_moved:
        return []
    complaints = []
    with contextlib.closing(sqlite3.connect(f"file:{testbed.profd.catalog}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        targets = db.execute(
            "select t.*, s.state as session_state from targets t join sessions s using (session_id) where t.session_id > ? and "
            "t.start_status = 200 and t.stop_status = 200 and t.state in ('complete', 'partial', 'failed') and "
            "t.trace_dir is not null and t.stop_answered_at is not null and not exists (select 1 from events e where e.session_id = t.session_id and "
            "e.kind in ('trace-removed', 'session-removed', 'trace-refused'))", (round_.sessions_before,)).fetchall()
        for target in targets:
            if target["session_id"] in testbed.being_removed:
                continue
            for path in written_while(Path(target["trace_dir"]), target["start_answered_at"], target["stop_answered_at"]):
                if str(path) in testbed.disturbed or not is_whole(path):
                    continue
                row = db.execute("select * from trace_row where origin = ? order by trace_id desc", (str(path),)).fetchone()
                if row is None:
                    complaints.append(f"{path} of target {target['target_id']} of s{target['session_id']} "
                                      f"({target['state']}: {target['failure']}) is not in the catalog")
                elif row["state"] in ("truncated", "corrupt", "empty", "unreadable") and \
                        "profd-ingest" not in (row["reason"] or ""):
                    complaints.append(f"{path} is whole and t{row['trace_id']} is {row['state']}: {row['reason']}")
                elif row["state"] == "complete" and row["sha256"] != sha256(path):
                    complaints.append(f"t{row['trace_id']} has another hash than {path}")
    return complaints


def traces_have_their_worker(testbed, round_):
    """A directory is of one worker, and so is what comes from there."""
    complaints = []
    for row in testbed.profd.rows("select trace_id, worker, origin from traces where worker is not null and session_id > ?",
                                round_.sessions_before):
        if testbed.worker(row["worker"]) and testbed.directory_of(row["worker"]) not in Path(row["origin"]).parents:
            complaints.append(f"t{row['trace_id']} is of {row['worker']} and comes from {row['origin']}")
    return complaints


def complete_is_complete(testbed, round_):
    """What was left in its place may have been tampered with after it was read, and is read again for its columns."""
    found = testbed.profd.rows(
        "select t.target_id, t.session_id, t.ranks_expected from targets t where t.state = 'complete' and t.session_id > ? and "
        "not exists (select 1 from events e where e.session_id = t.session_id and e.kind = 'trace-removed')",
        round_.sessions_before)
    complaints = []
    for target in found:
        if target["session_id"] in testbed.being_removed:
            continue
        traces = testbed.profd.rows("select state, stored, origin from traces where target_id = ?", target["target_id"])
        whole = [trace for trace in traces if trace["state"] in ("complete", "missing") or
                 not trace["stored"] and trace["origin"] in testbed.disturbed]
        if len(whole) < target["ranks_expected"]:
            complaints.append(f"target {target['target_id']} of s{target['session_id']} is complete with {len(whole)} of "
                              f"{target['ranks_expected']} traces")
    return complaints


def nobody_is_left(testbed, _round):
    return [f"profd has a child: {child}" for child in testbed.children()]


def descriptors_are_back(testbed, round_):
    """Connections to workers are kept for some seconds, so only the last look is at them, too."""
    found, usual = testbed.descriptors(), dict(testbed.usual_descriptors)
    if not round_.thorough:
        found.pop("socket", None)
        usual.pop("socket", None)
    # SQLite closes a file only when nobody of the process holds a lock on it.
    kept = str(testbed.profd.catalog)
    left = {kind: n for kind, n in found.items() if n > usual.get(kind, 0) + SQLITE_KEEPS * (kind == kept)}
    return [f"descriptors: {left} are more than {usual}"] if left else []


def memory_is_back(testbed, _round):
    if SANITIZED:  # it keeps what was freed
        return []
    dirty, limit = testbed.profd.memory("Private_Dirty"), testbed.usual_memory + MEMORY_GROWTH
    return [f"{dirty / MIB:.1f} MiB are private and dirty, more than {limit / MIB:.1f}"] if dirty > limit else []


def it_is_on_the_bus(testbed, _round):
    """It tries again for ever, half a minute apart at most."""
    try:
        return [] if not testbed.bus or testbed.answers_on_bus() else ["profd has no name on the bus"]
    except Exception as error:  # GLib's, which is not always there
        return [f"profd does not answer on the bus: {error}"]


AT_ONCE = (no_profiler_runs, no_stop_is_owed, catalog_is_sound)
IN_THE_END = (nobody_is_left, what_is_stored_is_cataloged, what_is_cataloged_is_there, what_was_written_is_cataloged,
              traces_have_their_worker, complete_is_complete, it_is_on_the_bus, descriptors_are_back, memory_is_back)


def complaints(testbed, round_, patience_s=EVENTUALLY_S):
    found = [f"{check.__name__}: {text}" for check in AT_ONCE for text in check(testbed, round_)]
    deadline = time.monotonic() + patience(patience_s)
    for check in IN_THE_END:
        while (told := check(testbed, round_)) and time.monotonic() < deadline:
            time.sleep(0.05)
        found += [f"{check.__name__}: {text}" for text in told]
    return found
