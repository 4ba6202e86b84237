# SPDX-License-Identifier: Apache-2.0
"""Viewers under requests that are wrong, clients that leave, crowds, columns that are damaged or made again, and their own end."""
import concurrent.futures
import contextlib
import gzip
import json
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from daemon import SANITIZED, Daemon, quick_config, wait_for
from patience import patience
from real_traces import CORPUS
from test_timeline import parse_tile
from wall_clock import WallClock, why_not

TRACE = CORPUS / "sglang_decode_8rank/rank3.pt.trace.json.gz"


@pytest.fixture
def profd(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as running:
        yield running


def imported(profd, path=TRACE):
    return profd.post("/v1/traces", {"path": str(path)}, 201)["trace"]


def viewers(profd):
    """Pids of the children that answer on a socket."""
    found = []
    for task in Path(f"/proc/{profd.process.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            for child in (task / "children").read_text().split():
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{child}/fd/4").startswith("socket:"):
                        found.append(int(child))
    return found


def metrics(profd):
    text = profd.request("GET", "/metrics").body.decode()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line and line[0] != "#"}


def test_wrong_requests_are_explained(profd):
    trace = imported(profd)
    timeline = profd.get(f"/v1/traces/{trace}/timeline")
    lanes, tile = timeline["lanes"], f"/v1/traces/{trace}/tiles"
    for path, status in ((f"{tile}/63/0", 400), (f"{tile}/-1/0", 400), (f"{tile}/x/0", 400), (f"{tile}/5/9223372036854775807", 400), (f"{tile}/62/1", 400),
                         (f"{tile}/0/9223372036854775807", 400), (f"{tile}/5/99999999999999999999", 400), (f"{tile}/5/0?lanes=0-{lanes}", 404), (f"{tile}/5/0?lanes=3-2", 400),
                         (f"{tile}/5/0?lanes=-", 400), (f"{tile}/5/0?lanes=0-1-2", 400), (f"{tile}/5/0?lanes=0-99999999999999999999", 400), (f"{tile}/5/0?v=0", 409),
                         (f"{tile}/5/0?x=1", 400), (f"/v1/traces/{trace}/names/99999", 404), (f"/v1/traces/{trace}/names/-1", 400), (f"/v1/traces/{trace}/names/0?v=%00", 400),
                         (f"/v1/traces/{trace}/slice", 400), (f"/v1/traces/{trace}/slice?slice=99999999", 404), (f"/v1/traces/{trace}/slice?lane=99&at=0", 404),
                         (f"/v1/traces/{trace}/slice?lane=0&at=-5", 400), (f"/v1/traces/{trace}/search", 400), (f"/v1/traces/{trace}/search?name=", 400),
                         (f"/v1/traces/{trace}/search?name=" + "x" * 5000, 400), (f"/v1/traces/{trace}/search?name=a&limit=1001", 400), (f"/v1/traces/{trace}/search?name=a&limit=0", 400),
                         (f"/v1/traces/{trace}/selection?from=5&to=5", 400), (f"/v1/traces/{trace}/selection?lanes=0-5000", 404), (f"/v1/traces/{trace}/counters/0?points=0", 400),
                         ("/v1/traces/t99/timeline", 404), ("/v1/traces/t99/timeline/steps", 404), ("/v1/traces/t99/tiles/1/2", 404), (f"{tile}/5", 404),
                         (f"/v1/traces/{trace}/timeline/steps?v=0", 409), (f"/v1/traces/{trace}/timeline/steps?x=1", 400), (f"/v1/traces/{trace}/timeline/x", 404)):
        assert profd.request("GET", path).status == status, path
    assert profd.problem("GET", f"{tile}/5/0?v=0", status=409)["remedy"]
    assert profd.problem("GET", f"{tile}/5/0?lanes=0-1-2", status=400)["detail"] == "lanes=0-1-2 must be FIRST-LAST, such as 0-93"
    # The edges of what is allowed.
    for level, index in ((62, 0), (0, 0), (0, 10 ** 9), (40, 0), (30, 2 ** 22)):
        assert len(parse_tile(profd.request("GET", f"{tile}/{level}/{index}").body)) == lanes
    assert not any(parse_tile(profd.request("GET", f"{tile}/20/4000").body)), "a tile after the end is empty"
    assert profd.get(f"/v1/traces/{trace}/selection", **{"from": 0, "to": 2 ** 63 - 1})["count"] == timeline["slices"]
    assert profd.get(f"/v1/traces/{trace}/slice", lane=0, at=2 ** 63 - 1, within=2 ** 63 - 2)
    assert len(viewers(profd)) == 1, "one process answered all of it"


def test_answers_are_compressed_for_those_who_accept_it(profd):
    trace = imported(profd)
    timeline = profd.get(f"/v1/traces/{trace}/timeline")
    for path in (f"/v1/traces/{trace}/timeline", f"/v1/traces/{trace}/names/0?v={timeline['sum']}", f"/v1/traces/{trace}/tiles/18/0?v={timeline['sum']}"):
        plain, packed, refused = (profd.request("GET", path, headers=h) for h in ({}, {"Accept-Encoding": "br, gzip"}, {"Accept-Encoding": "gzip;q=0"}))
        assert "Content-Encoding" not in plain.headers and "Content-Encoding" not in refused.headers
        assert packed.headers["Content-Encoding"] == "gzip" and gzip.decompress(packed.body) == plain.body == refused.body
        assert "Accept-Encoding" in packed.headers["Vary"] and "Accept-Encoding" in plain.headers["Vary"]


def test_a_crowd_does_not_slow_profd(profd):
    trace = imported(profd)
    timeline = profd.get(f"/v1/traces/{trace}/timeline")
    stop, slow = threading.Event(), []

    def watch():
        while not stop.is_set():
            begun = time.monotonic()
            assert profd.request("GET", "/healthz").status == 200
            slow.append(time.monotonic() - begun)

    def ask(seed):
        rng, tiles = random.Random(seed), 0
        for _ in range(30):
            level = rng.randrange(8, 22)
            count = timeline["length_ns"] // (1024 << level) + 1
            reply = profd.request("GET", f"/v1/traces/{trace}/tiles/{level}/{rng.randrange(count)}?v={timeline['sum']}")
            assert reply.status == 200 and len(parse_tile(reply.body)) == timeline["lanes"]
            tiles += 1
        return tiles

    watcher = threading.Thread(target=watch)
    watcher.start()
    with concurrent.futures.ThreadPoolExecutor(10) as crowd:
        assert sum(crowd.map(ask, range(10))) == 300
    stop.set()
    watcher.join()
    assert len(viewers(profd)) == 1
    assert sorted(slow)[len(slow) // 2] < patience(0.1)


def test_a_viewer_that_is_killed_is_replaced(profd):
    trace = imported(profd)
    timeline = profd.get(f"/v1/traces/{trace}/timeline")
    [first] = viewers(profd)
    os.kill(first, signal.SIGKILL)
    assert profd.get(f"/v1/traces/{trace}/timeline") == timeline
    [second] = wait_for(lambda: viewers(profd))
    assert second != first
    # In the midst of a request: it is asked again, of another one.
    os.kill(second, signal.SIGSTOP)
    with contextlib.closing(profd.connection()) as connection:
        connection.request("GET", f"/v1/traces/{trace}/selection")
        wait_for(lambda: metrics(profd)["profd_viewer_requests_waiting"] == 0)
        os.kill(second, signal.SIGKILL)
        reply = connection.getresponse()
        assert reply.status == 200 and json.load(reply)["count"] == timeline["slices"]


def test_a_client_that_leaves_ends_its_work(profd):
    trace = imported(profd)
    timeline = profd.get(f"/v1/traces/{trace}/timeline")
    [viewer] = viewers(profd)
    os.kill(viewer, signal.SIGSTOP)
    left = profd.connection()
    left.request("GET", f"/v1/traces/{trace}/selection")
    wait_for(lambda: metrics(profd)["profd_viewer_requests_waiting"] == 0)
    behind = profd.connection()
    behind.request("GET", f"/v1/traces/{trace}/names/0")
    wait_for(lambda: metrics(profd)["profd_viewer_requests_waiting"] == 1)
    left.close()
    # The viewer does not go on, and is ended after a moment; the next one answers who waits.
    reply = behind.getresponse()
    assert reply.status == 200 and len(json.load(reply)["names"]) == min(timeline["names"], 1024)
    behind.close()
    assert viewers(profd) != [viewer]
    assert metrics(profd)['profd_viewer_requests_total{result="cancelled"}'] == 1


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_a_viewer_ends_by_its_deadlines(tmp_path):
    """Half a minute after a request that it does not answer, a minute after its last one."""
    clock = WallClock(tmp_path / "clock")
    with Daemon(tmp_path / "profd", quick_config(), environment=clock.environment) as profd:
        trace = imported(profd)
        profd.get(f"/v1/traces/{trace}/timeline")
        [viewer] = viewers(profd)
        os.kill(viewer, signal.SIGSTOP)
        with contextlib.closing(profd.connection()) as stuck:
            stuck.request("GET", f"/v1/traces/{trace}/selection")
            wait_for(lambda: metrics(profd)["profd_viewer_requests_waiting"] == 0)
            clock.let_pass(15)
            assert metrics(profd)["profd_viewers"] == 1
            clock.let_pass(16)
            wait_for(lambda: metrics(profd)["profd_viewers"] == 0)
            reply = stuck.getresponse()
            problem = json.load(reply)
            assert reply.status == 413 and "30 s" in problem["detail"] and problem["remedy"]
        profd.get(f"/v1/traces/{trace}/timeline")
        assert viewers(profd) not in ([], [viewer])
        clock.let_pass(40)
        assert metrics(profd)["profd_viewers"] == 1
        clock.let_pass(21)
        wait_for(lambda: metrics(profd)["profd_viewers"] == 0)
        assert not viewers(profd)


def test_no_more_than_eight_stay(profd, tmp_path):
    traces = []
    for i in range(10):
        path = tmp_path / f"small{i}.json"
        path.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": f"run {i}", "pid": 1, "tid": 1, "ts": 0, "dur": i + 1}]}))
        traces.append(imported(profd, path))
    for _ in range(2):
        for i, trace in enumerate(traces):
            assert profd.get(f"/v1/traces/{trace}/timeline")["length_ns"] == (i + 1) * 1000
    wait_for(lambda: len(viewers(profd)) == 8)
    assert metrics(profd)["profd_viewers"] == 8 and metrics(profd)["profd_viewers_started_total"] == 20
    with concurrent.futures.ThreadPoolExecutor(20) as crowd:
        assert list(crowd.map(lambda i: profd.get(f"/v1/traces/{traces[i % 10]}/timeline")["slices"], range(40))) == [1] * 40
    profd.process.send_signal(signal.SIGHUP)
    wait_for(lambda: not viewers(profd))


def test_columns_that_were_made_again(profd):
    trace = imported(profd)
    timeline = profd.get(f"/v1/traces/{trace}/timeline")
    [viewer] = viewers(profd)
    assert profd.post("/v1/traces", {"path": str(TRACE), "again": True}, 200)["trace"] == trace
    assert profd.get(f"/v1/traces/{trace}/timeline")["slices"] == timeline["slices"]
    wait_for(lambda: viewers(profd) and viewer not in viewers(profd))


def test_damaged_columns_are_refused(profd):
    """Whatever byte is flipped: an answer, or a problem that names the columns; and the next trace is not concerned."""
    trace, rng = imported(profd), random.Random(17)
    [path] = [p for p in (profd.directory / "state").rglob(f"{trace}.columns")]
    sound = path.read_bytes()
    for _ in range(25):
        data = bytearray(sound)
        for at in rng.sample(range(len(data)), rng.choice((1, 1, 30))):
            data[at] ^= 1 << rng.randrange(8)
        other = path.with_suffix(".new")
        other.write_bytes(data)
        other.rename(path)
        for what in ("timeline", "timeline/steps", "tiles/18/0", "names/0", "search?name=e", "selection", "slice?slice=100"):
            reply = profd.request("GET", f"/v1/traces/{trace}/{what}")
            assert reply.status in (200, 507), reply
            if reply.status == 507:
                assert "columns" in reply.json()["detail"] and reply.json()["remedy"]
    path.write_bytes(sound)
    assert profd.get("/v1/version")


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's runtime needs what the filter refuses")
def test_a_viewer_has_no_rights(profd):
    trace = imported(profd)
    profd.get(f"/v1/traces/{trace}/timeline")
    [viewer] = viewers(profd)
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{viewer}/status").read_text().splitlines() if ":\t" in line)
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0
    profd.stop()
    wait_for(lambda: not Path(f"/proc/{viewer}").exists())
