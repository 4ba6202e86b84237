# SPDX-License-Identifier: Apache-2.0
"""A session over three hosts, asked for at a host that does not coordinate it: the same traces and figures as at the coordinator,
traces of a third host by id, UUID and prefix, and hosts that do not answer are named."""
import hashlib
import json
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent)]

from network import why_not  # noqa: E402
from test_hosts_analysis import NS_PER_S, RANKS, RealTraces, rows, run  # noqa: E402

from daemon import wait_for  # noqa: E402

pytestmark = pytest.mark.skipif(why_not() is not None or not RANKS.exists(), reason=str(why_not() or "no real traces"))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with RealTraces(tmp_path_factory.mktemp("hosts"), 3, 1, options=("--ranks", "2"), offsets_s=(0, 0, 0)) as hosts:
        session = hosts.record(hosts[1])
        hosts.session = hosts[1].get(f"/v1/sessions/{session}")["uuid"]
        hosts.traces = traces(hosts[1], hosts.session)
        assert [trace["host"] for trace in hosts.traces] == ["gpu1", "gpu1", "gpu2", "gpu2", "gpu3", "gpu3"]
        yield hosts


def traces(host, session):
    return sorted(rows(host, "list-traces", "--session", session)["traces"], key=lambda trace: (trace["host"], trace["name"]))


def figures(host, *words):
    """Rows of a report, without the names of traces, which are those of each host."""
    found = rows(host, "analyze", *words, "--report", "kernels")["rows"]
    return sorted(json.dumps({key: value for key, value in row.items() if key != "instance"}) for row in found)


def test_a_trace_of_a_third_host_is_found_by_its_uuid(fleet):
    """Before anybody asked for its session here; it joins the session when somebody does."""
    one, two = fleet[1], fleet[2]
    for trace in fleet.traces[-2:]:
        for word in (trace["uuid"][:13], trace["uuid"]):
            assert hashlib.sha256(run(two, "get", word, "-o", "-")[0]).hexdigest() == trace["sha256"]
    last = fleet.traces[-1]["uuid"]
    shown = two.get(f"/v1/traces/{last}")
    assert shown["host"] == "gpu3" and shown["sha256"] == fleet.traces[-1]["sha256"]
    sql = "select category, count(*), sum(dur) from slice group by 1 order by 1"
    assert run(two, "query", last, sql, "--csv")[0] == run(one, "query", last, sql, "--csv")[0]
    assert run(two, "query", shown["trace"], sql, "--csv")[0] == run(one, "query", last, sql, "--csv")[0]
    assert figures(two, last) == figures(one, last)
    assert "unclaimed" not in run(two, "list-traces")[0].decode()
    assert "on the hosts that answered" in " ".join(run(two, "get", "ffffffff-ffff-4fff-8fff-ffffffffffff", status=4)[1].split())


def test_the_session_is_the_same_everywhere(fleet):
    one, two = fleet[1], fleet[2]
    for host in fleet:
        there = traces(host, fleet.session)
        assert [(t["uuid"], t["host"], t["sha256"], t["slices"]) for t in there] == [(t["uuid"], t["host"], t["sha256"], t["slices"]) for t in fleet.traces]
        assert len({trace["session"] for trace in there}) == 1 and "session" in there[-1]
    shown, noted = run(two, "list-traces", "--session", fleet.session)
    assert "4 of those shown are on other hosts" in shown.decode() and "part of a session" not in noted, (shown, noted)
    assert figures(two, fleet.session) == figures(one, fleet.session) == figures(fleet[3], fleet.session)
    for sql in ("select category, count(*), sum(dur) from slice group by 1 order by 1",):
        assert run(two, "query", fleet.session, sql, "--csv")[0] == run(one, "query", fleet.session, sql, "--csv")[0]
    run(two, "get", fleet.session, "-d", "all")
    assert sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in (two.place / "all").iterdir()) == sorted(t["sha256"] for t in fleet.traces)
    run(two, "merge", "--session", fleet.session, "-o", "all.json.gz")
    # A question by the API, without the list before it.
    assert sorted(two.post("/v1/reports", {"session": two.get(f"/v1/refs?ref={fleet.session}")["ref"], "reports": ["kernels"]}))


def test_a_session_without_a_part_here_is_named_with_its_host(fleet):
    one, two = fleet[1], fleet[2]
    session = one.start_session(workers=[next(t["worker"] for t in fleet.traces if t["host"] == "gpu1")], duration_ns=NS_PER_S // 5)["session"]
    one.wait_session(session)
    uuid = one.get(f"/v1/sessions/{session}")["uuid"]
    errors = run(two, "analyze", uuid, status=4)[1]
    assert f"session {uuid} is on gpu1, and this host has no part of it" in errors and "Use profctl on gpu1" in errors, errors


def ours(host, trace):
    """The number that a host gives to a trace."""
    return host.get(f"/v1/traces/{trace['uuid']}")["trace"]


def answer(host, path):
    """Of a GET: JSON without the number of the trace, or bytes."""
    reply = host.request("GET", path)
    assert reply.status == 200, (path, reply)
    if "json" not in reply.headers["content-type"]:
        return reply.body
    return {key: value for key, value in reply.json().items() if key != "trace"}


def test_views_of_a_remote_trace_are_those_of_its_host(fleet):
    """Timeline, its steps, names, tiles, counters, slices, search, selection, flame graph and export, asked for at another host."""
    two, three = fleet[2], fleet[3]
    trace = fleet.traces[-2]
    here, there = (f"/v1/traces/{ours(host, trace)}" for host in (two, three))
    assert two.get(here)["host"] == "gpu3" and here != there
    timeline = answer(two, f"{here}/timeline")
    assert timeline == answer(three, f"{there}/timeline") and timeline["slices"] > 1000
    v, last = timeline["sum"], timeline["lanes"] - 1
    level = max(0, timeline["length_ns"].bit_length() - 10)
    middle = timeline["length_ns"] // 2
    busiest = max(timeline["tracks"], key=lambda track: track["slices"])
    paths = ["/timeline/steps", f"/timeline/steps?v={v}", f"/names/0?v={v}", f"/tiles/{level}/0?lanes=0-{last}&v={v}", f"/slice?lane={busiest['lane']}&at={middle}&within={middle}", "/slice?slice=7",
             "/search?name=nccl&limit=20", f"/selection?from=0&to={middle}&top=10", "/flame?by=gpu", "/flame?by=host", f"/flame?by=kernel&from=0&to={middle}",
             "/export?format=chrome", f"/export?format=perfetto&from=0&to={middle}"]
    paths += [f"/counters/{counter['track']}?points=50" for counter in timeline["counters"]]
    for path in paths:
        assert answer(two, here + path) == answer(three, there + path), path
    assert two.request("GET", f"{here}/tiles/{level}/0?v=0000").status == 409
    # A file for a browser: with a ticket, under our name, and an error where its host finds nothing.
    ticket = two.post("/v1/tickets", {"path": f"{here}/export?format=perfetto"}, status=201)["url"]
    reply = two.request("GET", ticket)
    assert reply.body == answer(three, f"{there}/export?format=perfetto") and reply.headers["content-disposition"].startswith(f'attachment; filename="{here.split("/")[-1]}.pftrace"')
    assert two.request("GET", f"{here}/export?from={10 * timeline['length_ns']}").status == 404


def test_comparisons_have_the_traces_of_all_hosts(fleet):
    """Columns of other hosts are copied: the same figures as where the traces are, and as profctl diff."""
    one, two, three = fleet.all
    a, b = (next(trace for trace in fleet.traces if trace["host"] == host) for host in ("gpu2", "gpu3"))
    compared = one.post("/v1/compare", {"a": {"traces": [ours(one, a)]}, "b": {"traces": [ours(one, b)]}})
    assert compared["left"] == compared["missing"] == [] and compared["kernels"]["rows"]
    assert compared["kernels"]["rows"] == rows(one, "diff", a["uuid"], b["uuid"], "--json")["kernels"]["rows"]
    for host in (two, three):
        same = host.post("/v1/compare", {"a": {"traces": [ours(host, a)]}, "b": {"traces": [ours(host, b)]}})
        assert same["kernels"] == compared["kernels"] and same["step"] == compared["step"]
    # A session with itself, at a host that does not coordinate it.
    session = two.get(f"/v1/refs?ref={fleet.session}")["ref"]
    itself = two.post("/v1/compare", {"a": {"session": session}, "b": {"session": session}})
    assert itself["missing"] == itself["left"] == itself["missing_hosts"] == []
    assert {row["result"] for row in itself["kernels"]["rows"]} <= {"same", "unclear", "unchanged"}, {row["result"] for row in itself["kernels"]["rows"]}


def test_a_flame_graph_of_a_session_is_the_sum_of_its_hosts(fleet):
    one = fleet[1]
    session = one.get(f"/v1/refs?ref={fleet.session}")["ref"]
    asked, seen, total = {"session": session}, [], 0
    while asked:
        part = one.post("/v1/flame", {**asked, "by": "kernel"})
        seen += part["traces"]
        total += sum(node[2] for node in part["nodes"] if node[0] < 0)
        asked = {"traces": part["left"]} if part["left"] else None
    assert sorted(seen) == sorted(ours(one, trace) for trace in fleet.traces)
    each = [one.get(f"/v1/traces/{name}/flame", by="kernel") for name in seen]
    assert total == sum(node[2] for answer in each for node in answer["nodes"] if node[0] < 0) > 0
    # All at once, computed here.
    together = one.post("/v1/reports", {"session": session, "together": True, "reports": ["ranks"]})
    assert together["left"] == [] and sorted(name for part in together["parts"] for name in part["traces"]) == sorted(seen)


def test_hosts_that_do_not_answer_are_named(fleet):
    one, two, three = fleet.all
    uuid = one.get(f"/v1/sessions/{fleet.record(one)}")["uuid"]
    wait_for(lambda: not any(host.get("/v1/sessions", state="active")["sessions"] for host in fleet), 30)
    three.kill()
    try:
        for words in (["list-traces"], ["analyze", "--report", "kernels"], ["get", "-d", "rest"], ["query"], ["merge", "-o", "rest.json.gz"]):
            verb, *more = words
            named = ["--session", uuid] if verb in ("list-traces", "merge") else [uuid]
            sql = ["select count(*) from slice"] if verb == "query" else []
            out, errors = run(two, verb, *named, *sql, *more, status=3)
            assert errors.count("traces of gpu3 may be missing: ") == 1 and "connection refused" in errors, (words, errors)
            assert "gpu1" in out.decode() or verb != "list-traces"
        assert len(list((two.place / "rest").iterdir())) == 4
        # The API names them too, with what it computes of the others.
        session = two.get(f"/v1/refs?ref={uuid}")["ref"]
        for path, body in (("/v1/reports", {"session": session, "reports": ["kernels"]}), ("/v1/flame", {"session": session}),
                           ("/v1/compare", {"a": {"session": session}, "b": {"session": session}})):
            answered = two.post(path, body)
            assert {missing["host"] for missing in answered["missing_hosts"]} == {"gpu3"}, (path, answered)
        session = one.get(f"/v1/refs?ref={fleet.session}")["ref"]
        away, near = (next(trace for trace in fleet.traces if trace["host"] == host) for host in ("gpu3", "gpu2"))
        compared = one.post("/v1/compare", {"a": {"session": session}, "b": {"traces": [ours(one, near)]}})
        assert len(compared["missing"]) == 2 and all("gpu3" in missing["reason"] and "connection refused" in missing["reason"] for missing in compared["missing"])
        problem = one.problem("POST", "/v1/compare", {"a": {"traces": [ours(one, away)]}, "b": {"traces": [ours(one, near)]}})
        assert problem["code"] == "unreachable" and ours(one, away) in problem["detail"] and "list-hosts" in problem["remedy"], problem
        assert one.problem("GET", f"/v1/traces/{ours(one, away)}/export")["remote"] == {"host": "gpu3"}
        # What is known of a host that is away is listed, as at the coordinator.
        assert [t["host"] for t in two.get("/v1/traces", session=fleet.session)["traces"]].count("gpu3") == 2
        # A host that has no part is not missed.
        few = one.start_session(workers=[t["worker"] for t in fleet.traces if t["host"] in ("gpu1", "gpu2")][::2], duration_ns=NS_PER_S // 5)["session"]
        one.wait_session(few)
        run(two, "list-traces", "--session", one.get(f"/v1/sessions/{few}")["uuid"])
    finally:
        three.start()
    # gpu3's traces come when it answers.
    assert wait_for(lambda: [t["host"] for t in two.get("/v1/traces", session=uuid)["traces"]].count("gpu3") == 2)
