# SPDX-License-Identifier: Apache-2.0
"""Lists of traces, sessions and runs: searched, sorted, paged by position and selected by labels, next to the same in Python."""
import json
import os
import sqlite3
import subprocess
import time
from http.client import HTTPConnection
from urllib.parse import urlencode

import pytest

from daemon import BUILD, Daemon, free_port, quick_config, token_line, wait_for, write_tokens

PROFCTL = BUILD / "client" / "profctl"
TRACES, SESSIONS, RUNS = 300, 40, 30
LARGE = 100_000
HOST_UUID = "11111111-2222-4333-8444-555555555555"


def fill(path):
    """Rows without files, some of another host."""
    db = sqlite3.connect(path)
    db.executemany("insert into worker_row values (?, ?, null, 'vllm', '1', 'decode', 'healthy', null, 1, null, null, null, 1)",
                   [(i, f"http://10.0.0.{i}:8000") for i in range(1, 9)])
    db.execute("insert into router_row values (1, 'http://router:30000', 'sglang', 'prod', 1, 1, 1)")
    db.execute("insert into host_row (host_uuid, name, first_seen_at, last_seen_at) values (?, 'gpu2', 1, 1)", (HOST_UUID,))
    for i in range(1, SESSIONS + 1):
        db.execute("insert into session_row (session_id, state, router_id, options, labels, requested_at, requested_by, skew_ns, name, uuid) "
                   "values (?, ?, 1, '{}', ?, ?, ?, ?, ?, ?)",
                   (i, ["complete", "partial", "failed"][i % 3], json.dumps({"job": f"grpo{i % 4}", "50%": "a_b"} if i % 2 else {}),
                    i * 1000, f"uid {i}", None if i % 5 == 0 else i * 7 % 100, f"name {i}" if i % 2 else None,
                    f"00000000-0000-4000-8000-{i:012}"))
        if i % 4 == 0:
            db.execute("insert into target_row (session_id, worker_id, state, worker, profile_id, ranks_expected) "
                       "values (?, 1, 'complete', '{}', 'p', 1)", (i,))
    for i in range(1, TRACES + 1):
        if i % 10:
            db.execute("insert into trace_row (trace_id, session_id, worker_id, kind, state, name, path, origin, stored, size, rank, "
                       "span_ns, device_name, labels, recorded_at, collected_at) "
                       "values (?, ?, ?, 'trace', 'missing', ?, ?, ?, 0, ?, ?, ?, 'NVIDIA H200', ?, ?, 1)",
                       (i, i % SESSIONS + 1 if i % 7 else None, i % 8 + 1, f"Rank{i % 8}.{i}.json.gz", f"/nowhere/{i}", f"/nowhere/{i}",
                        i * 37 % 1000, i % 8, None if i % 3 == 0 else i * 11 % 500, json.dumps({"step": str(i % 5)}), 10**9 * (i // 2)))
        else:
            facts = {"kind": "trace", "state": "complete", "name": f"far{i}.json", "size": i * 37 % 1000, "ranks": {"rank": i % 8},
                     "recorded_at": 10**9 * (i // 2), "collected_at": 1, "labels": {"step": str(i % 5)}}
            db.execute("insert into remote_trace_row values (?, ?, 1, null, ?, ?, ?, ?)",
                       (i, f"99999999-0000-4000-8000-{i:012}", HOST_UUID, i, 10**9 * (i // 2), json.dumps(facts)))
    for i in range(1, RUNS + 1):
        summary = {"metrics": {"ttft_ms": {"p50": i * 13 % 50}}} if i % 3 else None
        db.execute("insert into run_row (run_id, session_id, state, router_id, model, workload, targets, labels, requested_at, requested_by, "
                   "summary, uuid) values (?, ?, 'complete', 1, ?, '{}', '[]', ?, ?, 'anna', ?, ?)",
                   (i, i if i % 2 else None, ["Qwen/Qwen3", "meta/Llama"][i % 2], json.dumps({"isl": str(i % 3)}), i, json.dumps(summary) if summary else None,
                    f"33333333-0000-4000-8000-{i:012}"))
    db.commit()
    db.close()


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    home = tmp_path_factory.mktemp("lists")
    with Daemon(home, quick_config()):
        pass
    fill(home / "state" / "catalog.db")
    with Daemon(home, quick_config()) as profd:
        yield profd


def rows(profd, kind, **query):
    return profd.get(f"/v1/{kind}", **query)[kind]


def all_rows(profd, kind):
    return rows(profd, kind, limit=1000)


def number(text):
    return int(str(text).lstrip("str"))


def ids(kind, listed):
    return [number(row[kind[:-1]]) for row in listed]


KEYS = {
    "traces": {"trace": lambda r: number(r["trace"]), "size": lambda r: r["size"], "name": lambda r: r["name"], "span_ns": lambda r: r.get("span_ns"),
               "rank": lambda r: r["ranks"]["rank"], "recorded_at": lambda r: r["recorded_at"], "worker": lambda r: r.get("worker"),
               "session": lambda r: number(r["session"]) if "session" in r else None, "state": lambda r: r["state"]},
    "sessions": {"session": lambda r: number(r["session"]), "state": lambda r: r["state"], "skew_ns": lambda r: r.get("skew_ns"),
                 "traces": lambda r: r["counts"]["traces"], "bytes": lambda r: r["counts"]["bytes"], "workers": lambda r: r["counts"]["targets"],
                 "requested_at": lambda r: r["requested_at"], "name": lambda r: r.get("name"), "requested_by": lambda r: r["requested_by"]},
    "runs": {"run": lambda r: r["run"], "model": lambda r: r["model"], "requested_at": lambda r: r["requested_at"],
             "ttft_p50_ms": lambda r: r.get("metrics", {}).get("ttft_ms", {}).get("p50")},
}


@pytest.mark.parametrize("kind, column", [(kind, column) for kind in KEYS for column in KEYS[kind]])
def test_sort(profd, kind, column):
    """Rows without a value last, equal ones newest id first."""
    key = KEYS[kind][column]
    everything = sorted(all_rows(profd, kind), key=lambda row: -number(row[kind[:-1]]))
    known = [row for row in everything if key(row) is not None]
    unknown = [row for row in everything if key(row) is None]
    for sign in ("", "-"):
        expected = sorted(known, key=key, reverse=bool(sign))
        if sign:  # reverse keeps equal ones in order, too
            assert [key(row) for row in expected] == sorted(map(key, known), reverse=True)
        assert ids(kind, rows(profd, kind, sort=sign + column, limit=1000)) == ids(kind, expected + unknown), (kind, sign + column)


@pytest.mark.parametrize("kind", KEYS)
def test_pages(profd, kind):
    everything = ids(kind, all_rows(profd, kind))
    for query in ({}, {"sort": "-" + next(iter(KEYS[kind]))}):
        seen, offset = [], 0
        while True:
            page = profd.get(f"/v1/{kind}", limit=7, offset=offset, total="yes", **query)
            assert page["total"] == len(everything)
            seen += ids(kind, page[kind])
            assert page.get("more", False) == (offset + 7 < len(everything))
            if not page.get("more"):
                break
            offset += 7
        assert sorted(seen) == sorted(everything)
        if not query:
            assert seen == everything
    assert rows(profd, kind, offset=10**6) == []


def test_continued_by_next(profd):
    seen, before = [], {}
    while True:
        page = profd.get("/v1/traces", search="rank3", limit=10, **before)
        seen += ids("traces", page["traces"])
        if "next" not in page:
            break
        before = {"before": page["next"]}
    assert seen == [number(row["trace"]) for row in all_rows(profd, "traces") if "Rank3" in row["name"]]


@pytest.mark.parametrize("kind, search, found", [
    ("traces", "rank3.1", lambda r: "Rank3.1" in r["name"]),
    ("traces", "RANK3 10.0.0.4", lambda r: "Rank3" in r["name"] and "10.0.0.4:" in r.get("worker", "")),
    ("traces", "gpu2", lambda r: r["name"].startswith("far")),
    ("traces", "h200 step=3", lambda r: r.get("device_name") == "NVIDIA H200" and r["labels"]["step"] == "3"),
    ("traces", "far1_0", lambda r: False),
    ("traces", "%", lambda r: False),
    ("traces", "\\", lambda r: False),
    ("traces", "'; drop table trace_row; --", lambda r: False),
    ("sessions", "job=grpo1", lambda r: r["labels"].get("job") == "grpo1"),
    ("sessions", "50%=a_b", lambda r: "50%" in r["labels"]),
    ("sessions", "router failed", lambda r: r["state"] == "failed"),
    ("sessions", "name", lambda r: "name" in r),
    ("runs", "qwen", lambda r: "Qwen" in r["model"]),
    ("runs", "llama isl=1", lambda r: "Llama" in r["model"] and r["labels"]["isl"] == "1"),
])
def test_search(profd, kind, search, found):
    expected = [row for row in all_rows(profd, kind) if found(row)]
    answer = profd.get(f"/v1/{kind}", search=search, limit=1000, total="yes")
    assert ids(kind, answer[kind]) == ids(kind, expected) and answer["total"] == len(expected)
    assert [json.dumps(row, sort_keys=True) for row in answer[kind]] == [json.dumps(row, sort_keys=True) for row in expected]


def test_labels_and_filters(profd):
    everything = all_rows(profd, "traces")
    assert ids("traces", rows(profd, "traces", label="step=2", limit=1000)) == [
        number(row["trace"]) for row in everything if row["labels"]["step"] == "2"]
    assert ids("traces", rows(profd, "traces", label="step=2", session="s3", limit=1000)) == [
        number(row["trace"]) for row in everything if row["labels"]["step"] == "2" and row.get("session") == "s3"]
    assert ids("traces", rows(profd, "traces", state="complete", limit=1000)) == [
        number(row["trace"]) for row in everything if row["state"] == "complete"]
    assert ids("traces", rows(profd, "traces", sort="trace", unclaimed="true", limit=1000)) == [
        number(row["trace"]) for row in reversed(everything) if "session" not in row]
    assert rows(profd, "sessions", label="job=grpo1", state="active") == []
    both = f"/v1/sessions?{urlencode([('label', 'job=grpo1'), ('label', '50%=a_b'), ('limit', 1000)])}"
    assert len(profd.get(both)["sessions"]) == sum(row["labels"].get("job") == "grpo1" for row in all_rows(profd, "sessions"))
    assert rows(profd, "runs", state="active") == []
    assert ids("runs", rows(profd, "runs", session="s3", total="yes")) == [3]


@pytest.mark.parametrize("query, detail", [
    ({"sort": "path; drop"}, 'traces cannot be sorted by "path; drop"'),
    ({"sort": "size", "before": "t5"}, "before and sort exclude each other: page a sorted list by offset"),
    ({"offset": -1}, "offset=-1 must be a whole number from 0 to 1000000000"),
    ({"total": "maybe"}, "total=maybe must be yes or no"),
    ({"label": "none"}, "label=none must be KEY=VALUE"),
    ({"search": "a " * 9}, "a search has at most 8 words and 256 bytes"),
    ({"state": "active"}, "unknown state 'active' of traces"),
])
def test_refused(profd, query, detail):
    problem = profd.problem("GET", f"/v1/traces?{urlencode(query)}", status=400)
    assert problem["detail"] == detail


def profctl(profd, *words):
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PROFD_SOCKET": str(profd.socket), "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    return subprocess.run([PROFCTL, *words], capture_output=True, text=True, timeout=60, env=environment, stdin=subprocess.DEVNULL)


def test_profctl(profd):
    def listed(*words):
        done = profctl(profd, *words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    everything = all_rows(profd, "traces")
    by_size = listed("list-traces", "--sort", "-size", "--all")["traces"]
    assert [row["size"] for row in by_size] == sorted((row["size"] for row in everything), reverse=True)
    assert ids("traces", listed("ls", "--search", "rank3", "-n", "5")["traces"]) == [
        number(row["trace"]) for row in everything if "Rank3" in row["name"]][:5]
    shown = profctl(profd, "ls", "--sort", "-size", "-n", "3", "--columns", "trace,size", "--csv").stdout.splitlines()[1:]
    assert [line.split(",")[0] for line in shown] == [row["trace"] for row in by_size[:3]]
    assert len(listed("list-sessions", "--label", "job=grpo1")["sessions"]) == 10
    fastest = min(filter(None, map(KEYS["runs"]["ttft_p50_ms"], all_rows(profd, "runs"))))
    assert listed("list-runs", "--sort", "ttft_p50_ms")["runs"][0]["metrics"]["ttft_ms"]["p50"] == fastest
    nothing = profctl(profd, "list-sessions", "--search", "nothing at all")
    assert nothing.returncode == 0 and "No session matches." in nothing.stderr
    wrong = profctl(profd, "list-runs", "--sort", "speed")
    assert wrong.returncode == 2 and "Sort by one of run, session, state" in wrong.stderr


def test_a_large_catalog_does_not_hold_the_loop(tmp_path):
    """A client that leaves ends its search, others are answered meanwhile, and users take turns."""
    token, port = "0123456789abcdef0123456789abcdef", free_port()
    tokens = write_tokens(tmp_path / "tokens", token_line("other", "read", token))
    with Daemon(tmp_path, quick_config()):
        pass
    db = sqlite3.connect(tmp_path / "state" / "catalog.db")
    db.execute(f"""insert into trace_row (kind, state, name, path, origin, stored, size, recorded_at, collected_at)
                   with recursive n (i) as (select 1 union all select i + 1 from n where i < {LARGE})
                   select 'trace', 'missing', 'rank' || i || '.json.gz', '/x/' || i, '/x/' || i, 0, i * 37 % 1000, i, i from n""")
    db.commit()
    db.close()
    with Daemon(tmp_path, f"[profd]\nlisten=127.0.0.1:{port}\n[http]\ntokens_file={tokens}\n" + quick_config()) as profd:
        for query in ("sort=-size&total=yes", "search=rank99&total=yes", "offset=99000&total=yes", "label=a=b&total=yes"):
            connection = profd.connection()
            connection.request("GET", f"/v1/traces?limit=100&{query}")
            answers = []
            for _ in range(5):
                begin = time.monotonic()
                assert profd.request("GET", "/healthz").status == 200
                answers.append(time.monotonic() - begin)
            answer = json.loads(connection.getresponse().read())
            connection.close()
            assert "total" in answer, answer
            assert sorted(answers)[2] < 0.05, (query, answers)
        for _ in range(30):
            connection = profd.connection()
            connection.request("GET", "/v1/traces?search=nothing")
            connection.close()
        wait_for(lambda: profd.request("GET", "/v1/traces?search=rank99999").status == 200)
        assert len(profd.get("/v1/traces", search="rank99999")["traces"]) == 1

        held, refused = [], 0
        for _ in range(40):
            connection = profd.connection()
            connection.request("GET", "/v1/traces?sort=state&limit=1")
            held.append(connection)
        # Another user waits for the search that is being read at most, not for those of the first.
        begin = time.monotonic()
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/v1/traces?offset=1&limit=1", headers={"Authorization": f"Bearer {token}"})
        assert connection.getresponse().status == 200
        connection.close()
        other = time.monotonic() - begin
        for connection in held:
            answer = connection.getresponse()
            assert answer.status in (200, 429), answer.read()
            if answer.status == 429:
                refused += 1
                problem = json.loads(answer.read())
                assert answer.getheader("Retry-After") == "1" and problem["remedy"] and "of this user" in problem["detail"]
            connection.close()
        everybody = time.monotonic() - begin
        assert 40 - refused >= 16 and refused > 0, refused
        assert other < everybody / 3, (other, everybody)
