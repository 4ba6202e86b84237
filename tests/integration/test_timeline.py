# SPDX-License-Identifier: Apache-2.0
"""The timeline of real traces over HTTP, held against a computation in Python over the rows of SQL: what each pixel shows, counts and
sums of searches and selections, slices and what belongs to them."""
import gzip
import json
import random
import struct
from collections import Counter, defaultdict

import pytest

from daemon import Daemon, quick_config
from real_traces import TRACES

PIXELS = 1024
NONE = 0xffffffff
ROWS = 100000
GPU = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}
# Of several profilers: with overlapping kernels, Python frames, instants, without GPUs, of a database, cut.
REAL = ["sglang_decode_8rank/rank3.pt.trace.json.gz", "hta/cpu_only_rank34.json.gz", "malformed/truncated_gz.json.gz", "nsys/h100_2gpu_1s.sqlite.gz",
        "tracelens/vllm_piecewise_graph.json.gz", "hta/trace_diff_control.json.gz"]
WITHOUT_KERNELS = ["hta/cpu_only_rank34.json.gz", "malformed/truncated_gz.json.gz"]


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("profd"), quick_config()) as running:
        yield running


def rows(profd, trace, sql):
    return profd.post(f"/v1/traces/{trace}/query", {"sql": sql})["rows"]


class Slices:
    """All slices of a trace as SQL has them, with times after the first one; each is [id, ts, dur, name, category, track, depth, parent, self]."""

    def __init__(self, profd, trace):
        self.all = []
        while not self.all or len(self.all) % ROWS == 0:
            found = rows(profd, trace, "select id, ts, dur, coalesce(name, ''), coalesce(category, ''), track_id, depth, parent_id, self_dur from slice "
                                       f"where id >= {len(self.all)} order by id limit {ROWS}")
            self.all += found
            if not found:
                break
        first = min(s[1] for s in self.all)
        last = max(s[1] + max(s[2], 0) for s in self.all)
        self.length = last - first
        for s in self.all:
            s[1] -= first
        lanes = sorted({(s[5], s[6]) for s in self.all})
        self.number = {lane: i for i, lane in enumerate(lanes)}
        self.lanes = defaultdict(list)
        for s in self.all:
            self.lanes[self.number[s[5], s[6]]].append(s)

    def dur(self, s):
        return s[2] if s[2] >= 0 else max(self.length - s[1], 0)

    def overlapping(self):
        """Lanes of defective traces, in which slices lie across each other."""
        found = set()
        for lane, slices in self.lanes.items():
            end = None
            for s in slices:
                if end is not None and s[1] < end:
                    found.add(lane)
                end = max(end or 0, s[1] + self.dur(s))
        return found


class Known:
    def __init__(self, profd, path):
        self.profd, self.trace = profd, profd.post("/v1/traces", {"path": str(path)}, 201)["trace"]
        self.timeline = profd.get(f"/v1/traces/{self.trace}/timeline")
        self.slices = Slices(profd, self.trace)
        self.names = []
        for block in range(-(-self.timeline["names"] // self.timeline["name_block"])):
            self.names += self.get(f"names/{block}", v=self.timeline["sum"])["names"]

    def get(self, what, **query):
        return self.profd.get(f"/v1/traces/{self.trace}/{what}", **query)

    def tile(self, level, index, lanes=None):
        reply = self.profd.request("GET", f"/v1/traces/{self.trace}/tiles/{level}/{index}?v={self.timeline['sum']}" + (f"&lanes={lanes}" if lanes else ""),
                                   headers={"Accept-Encoding": "gzip"})
        assert reply.status == 200, reply
        assert reply.headers["Cache-Control"] == "private, max-age=31536000, immutable" and "Authorization" in reply.headers["Vary"]
        return parse_tile(gzip.decompress(reply.body) if reply.headers.get("Content-Encoding") == "gzip" else reply.body)


def parse_tile(data):
    """[(x, width, name, fill)] of each lane."""
    lanes, runs = struct.unpack_from("<II", data)
    assert len(data) == 8 + 4 * (lanes + 1) + 9 * runs
    start = struct.unpack_from(f"<{lanes + 1}I", data, 8)
    at = 8 + 4 * (lanes + 1)
    names = struct.unpack_from(f"<{runs}I", data, at)
    xs = struct.unpack_from(f"<{runs}H", data, at + 4 * runs)
    widths = struct.unpack_from(f"<{runs}H", data, at + 6 * runs)
    fills = data[at + 8 * runs:]
    assert start[0] == 0 and start[-1] == runs and list(start) == sorted(start)
    return [list(zip(xs[a:b], widths[a:b], names[a:b], fills[a:b])) for a, b in zip(start, start[1:])]


@pytest.fixture(scope="module")
def known(profd):
    cache = {}

    def known_of(name):
        if name not in cache:
            cache[name] = Known(profd, TRACES / name)
        return cache[name]
    return known_of


def of_traces(names):
    return pytest.mark.parametrize("name", names, ids=lambda name: name.rsplit("/", 1)[1].split(".")[0])


each_trace = of_traces(REAL)


def pixels_of(slices, lane, begin, step):
    """What a scan of a lane finds for each pixel: the longest slice that touches it, and what those that begin in it last."""
    shown, begun = [None] * PIXELS, [0] * PIXELS
    for s in slices.lanes[lane]:
        ts, dur = s[1] - begin, slices.dur(s)
        first = ts // step
        last = first if dur < step else (ts + dur - 1) // step
        if 0 <= first < PIXELS:
            begun[first] += dur
        for x in range(max(first, 0), min(last, PIXELS - 1) + 1):
            if shown[x] is None or dur > slices.dur(shown[x]):
                shown[x] = s
    return shown, begun


@each_trace
def test_each_pixel_shows_the_longest_slice_that_touches_it(known, name):
    k = known(name)
    slices, rng, overlapping = k.slices, random.Random(3), k.slices.overlapping()
    whole = max(slices.length // PIXELS, 1).bit_length()
    compared = 0
    for level in sorted({whole, max(whole - 4, 0), max(whole - 9, 0), 3}):
        step = 1 << level
        tiles = slices.length // (PIXELS * step) + 1
        at = rng.choice(slices.all)[1]
        for index in {0, tiles - 1, at // (PIXELS * step), rng.randrange(tiles)}:
            lanes = k.tile(level, index)
            assert len(lanes) == len(slices.lanes) == k.timeline["lanes"]
            for lane, runs in enumerate(lanes):
                if lane in overlapping:
                    continue
                shown, begun = pixels_of(slices, lane, index * PIXELS * step, step)
                covered = set()
                for x, width, name, fill in runs:
                    assert width > 0 and x + width <= PIXELS and not covered & set(range(x, x + width))
                    covered |= set(range(x, x + width))
                    for s in shown[x:x + width]:
                        assert s is not None and (k.names[name][0] if name != NONE else "") == s[3]
                    is_short = slices.dur(shown[x]) < step
                    busy = sum(min(begun[i], step) for i in range(x, x + width)) if is_short else width * step
                    assert abs(fill - min(busy / (width * step), 1) * 255) <= 1, (level, index, lane, x)
                    compared += 1
                assert covered == {x for x, s in enumerate(shown) if s}
    assert compared > 20


@of_traces([name for name in REAL if name not in WITHOUT_KERNELS])
def test_no_kernel_vanishes(known, name):
    """Of the kernels of a busy millisecond each one is found at a fine level, also where several run at once."""
    k = known(name)
    kernels = [s for s in k.slices.all if s[4] in GPU and s[2] > 0]
    assert kernels
    overlapping, level = k.slices.overlapping(), 5
    for begin in {kernels[len(kernels) // 2][1], kernels[0][1]}:
        index = begin // (PIXELS << level)
        from_ns, to_ns = index * (PIXELS << level), (index + 1) * (PIXELS << level)
        lanes = k.tile(level, index)
        inside = [s for s in kernels if s[1] < to_ns and s[1] + s[2] > from_ns and s[2] >= 1 << level]
        assert inside
        for s in inside:
            lane = k.slices.number[s[5], s[6]]
            x = max(s[1] - from_ns, 0) >> level
            found = [run for run in lanes[lane] if run[0] <= x < run[0] + run[1] or run[0] == x + 1]
            assert lane in overlapping or any(k.names[run[2]][0] == s[3] for run in found), s


@pytest.mark.plain
@each_trace
def test_tracks_are_in_the_order_of_the_picture(known, name):
    k = known(name)
    tracks, slices = k.timeline["tracks"], k.slices
    kinds = [track["kind"] for track in tracks]
    order = ["gpu", "thread", "python", "async", "instant"]
    assert kinds == sorted(kinds, key=order.index)
    assert sum(track["slices"] for track in tracks) == k.timeline["slices"] == len(slices.all)
    assert sum(track["lanes"] for track in tracks) == k.timeline["lanes"]
    assert k.timeline["length_ns"] == slices.length
    types = dict(rows(k.profd, k.trace, "select id, type from track"))
    threads = dict(rows(k.profd, k.trace, "select id, utid from thread_track"))
    by_track = defaultdict(list)
    for s in slices.all:
        by_track[s[5]].append(s)
    for i, track in enumerate(tracks):
        own = by_track[track["track"]]
        assert len(own) == track["slices"] and {slices.number[s[5], s[6]] for s in own} == set(range(track["lane"], track["lane"] + track["lanes"]))
        outermost = [s for s in own if s[6] == min(s[6] for s in own)]
        if not {slices.number[s[5], s[6]] for s in outermost} & slices.overlapping():
            assert track["busy_ns"] == sum(slices.dur(s) for s in outermost)
        if any(s[4] in GPU for s in own):
            assert track["kind"] == "gpu" and track["title"].startswith(f"GPU {track['device']} stream {track['stream']}")
        if types.get(track["track"]) == "thread_overlapping_slice":
            before = [t["track"] for t in tracks[:i]]
            owner = [t for t in before if threads.get(t) == threads[track["track"]]]
            assert owner and before[before.index(owner[0]):] == owner, "directly below its track"
    for kind in ("thread", "python"):
        # The span of the recording is busy all the time, and comes last.
        spans = [all(s[4] == "Trace" for s in by_track[t["track"]]) for t in tracks if t["kind"] == kind]
        assert spans == sorted(spans)
        busy = [t["busy_ns"] for t, is_span in zip([t for t in tracks if t["kind"] == kind], spans)
                if not is_span and types.get(t["track"]) == "thread_execution"]
        assert busy == sorted(busy, reverse=True)


@each_trace
def test_names_have_the_class_of_their_kernels(known, name):
    k = known(name)
    classes = {name: kind for name, kind in rows(k.profd, k.trace, "select name, category from report_kernels")} \
        if any(s[4] in ("kernel", "Kernel") for s in k.slices.all) else {}
    of_gpu = {s[3] for s in k.slices.all if s[4] in GPU}
    for text, kind in k.names:
        assert bool(kind) == (text in of_gpu) or text == "", (text, kind)
        if text in classes:
            assert kind == classes[text]


def search_of(slices, text, begin=0, end=None):
    found = [s for s in slices.all if text.lower() in s[3].lower() and s[1] >= begin and (end is None or s[1] < end)]
    return found, Counter(s[3] for s in found)


@each_trace
def test_search_counts_as_sql_does(known, name):
    k = known(name)
    slices, length = k.slices, k.slices.length
    names = sorted({s[3] for s in slices.all if s[3]})
    for text, part in ((names[len(names) // 2][1:5] or names[0], {}), ("E", {}), ("e", {"from": length // 4, "to": length // 2}), (names[0].swapcase(), {})):
        if not text.isascii():
            continue
        expected, counts = search_of(slices, text, part.get("from", 0), part.get("to"))
        found = k.get("search", name=text, limit=7, **part)
        assert found["count"] == len(expected) and found["sum"] == sum(slices.dur(s) for s in expected)
        sums = Counter()
        for s in expected:
            sums[s[3]] += slices.dur(s)
        assert [n["sum"] for n in found["names"]] == sorted(sums.values(), reverse=True)[:100]
        assert all(n["count"] == counts[n["name"]] and n["sum"] == sums[n["name"]] for n in found["names"])
        matches = found["matches"]
        while found["more"] and len(matches) < 50:
            found = k.get("search", name=text, limit=7, after=matches[-1]["slice"], **part)
            matches += found["matches"]
        assert [m["slice"] for m in matches] == [s[0] for s in expected[:len(matches)]]
        assert len(matches) == len(expected) or len(matches) >= 50
    assert k.get("search", name="no slice has this name") == {"count": 0, "sum": 0, "names": [], "matches": [], "more": False}


def cut_to(slices, s, begin, end):
    """What of the slice lies in the part; None: it does not overlap it."""
    dur = slices.dur(s)
    overlaps = s[1] < end and s[1] + dur > begin if dur else begin <= s[1] < end
    return max(min(s[1] + dur, end) - max(s[1], begin), 0) if overlaps else None


@each_trace
def test_a_selection_sums_as_sql_does(known, name):
    k = known(name)
    slices, length, overlapping = k.slices, k.slices.length, k.slices.overlapping()
    lanes = len(slices.lanes)
    children = defaultdict(list)
    for s in slices.all:
        if s[7] is not None:
            children[s[7]].append(s)
    for begin, end, first, last in ((0, length + 1, 0, lanes - 1), (length // 4, length // 2, 0, lanes - 1), (length // 3, length // 3 + 100000, lanes // 2, lanes - 1),
                                    (length // 5, length // 2, lanes - 1, lanes - 1), (0, length // 2, 0, lanes // 3)):
        if overlapping & set(range(first, last + 1)):
            continue
        expected, intervals = {}, []
        for s in slices.all:
            cut = cut_to(slices, s, begin, end) if first <= slices.number[s[5], s[6]] <= last else None
            if cut is None:
                continue
            below = sum(cut_to(slices, child, begin, end) or 0 for child in children[s[0]])
            expected.setdefault((s[3], s[4]), []).append((cut, cut - below))
            intervals.append((max(s[1], begin), max(s[1], begin) + cut))
        found = k.get("selection", **{"from": begin, "to": end, "lanes": f"{first}-{last}", "top": 10000})
        assert found["from"] == begin and found["to"] == end and found["more"] == (len(expected) > 10000)
        assert found["count"] == sum(len(cuts) for cuts in expected.values())
        busy, reached = 0, begin
        for a, b in sorted(intervals):
            busy, reached = busy + max(b - max(a, reached), 0), max(reached, b)
        assert found["busy"] == busy
        assert {(row["name"], row["category"]) for row in found["rows"]} <= set(expected) and len(found["rows"]) == min(len(expected), 10000)
        for row in found["rows"]:
            cuts = [cut for cut, _ in expected[row["name"], row["category"]]]
            assert (row["count"], row["sum"], row["min"], row["max"], row["mean"]) == (len(cuts), sum(cuts), min(cuts), max(cuts), sum(cuts) // len(cuts))
            assert row["self"] == sum(own for _, own in expected[row["name"], row["category"]]), row
        assert [row["sum"] for row in found["rows"]] == sorted((row["sum"] for row in found["rows"]), reverse=True)
    assert k.get("selection", top=1)["more"] == (len({(s[3], s[4]) for s in slices.all}) > 1)


def flat(value, key):
    """As SQL's args have it."""
    if isinstance(value, dict):
        return {k: v for name, member in value.items() for k, v in flat(member, f"{key}.{name}").items()}
    if isinstance(value, list):
        return {k: v for i, member in enumerate(value) for k, v in flat(member, f"{key}[{i}]").items()}
    return {} if value is None else {key: value}


@each_trace
def test_a_slice_is_that_of_sql(known, name):
    k = known(name)
    slices, rng = k.slices, random.Random(11)
    chosen = rng.sample(slices.all, 12) + rng.sample([s for s in slices.all if s[4] in GPU] or slices.all, 5) + \
        rng.sample([s for s in slices.all if s[4] in ("cuda_runtime", "Runtime")] or slices.all, 5)
    for s in chosen:
        found, lane = k.get("slice", slice=s[0]), slices.number[s[5], s[6]]
        assert (found["slice"], found["begin"], found["dur"], found["name"], found["category"], found["track"], found["depth"], found["lane"]) == \
            (s[0], s[1], s[2], s[3], s[4], s[5], s[6], lane)
        assert s[2] < 0 or found["self"] == s[8]
        parents, at = [], s[7]
        while at is not None:
            parents, at = [*parents, at], slices.all[at][7]
        assert [p["slice"] for p in found["parents"]] == parents
        own = slices.lanes[lane]
        i = own.index(s)
        assert found.get("before", {}).get("slice") == (own[i - 1][0] if i else None)
        assert found.get("after", {}).get("slice") == (own[i + 1][0] if i + 1 < len(own) else None)
        if i and lane not in slices.overlapping():
            assert found["gap_before_ns"] == s[1] - own[i - 1][1] - slices.dur(own[i - 1])
        same = [o for o in slices.all if o[3:5] == s[3:5]]
        durs = [slices.dur(o) for o in same]
        expected = {"count": len(same), "rank": sum(d < slices.dur(s) for d in durs), "sum": sum(durs), "min": min(durs), "max": max(durs)}
        assert {name: found["same"][name] for name in expected} == expected
        at = same.index(s)
        assert found["same"].get("previous", {}).get("slice") == (same[at - 1][0] if at else None)
        assert found["same"].get("next", {}).get("slice") == (same[at + 1][0] if at + 1 < len(same) else None)
        launched = [row[0] for row in rows(k.profd, k.trace, f"select gpu_id from launch where launch_id = {s[0]} order by 1")]
        by = rows(k.profd, k.trace, f"select launch_id, delay from launch where gpu_id = {s[0]}")
        assert sorted(r["slice"] for r in found["launched"]) == launched[:100]
        assert [found.get("launch", {}).get(name) for name in ("slice", "delay_ns")] == (by[0] if by else [None] * 2)
        if by:
            # The operators and functions that launched it.
            assert found["launch"]["parents"] == k.get("slice", slice=by[0][0])["parents"]
        for way, sql in (("out", f"select slice_in from flow where slice_out = {s[0]}"), ("in", f"select slice_out from flow where slice_in = {s[0]}")):
            assert sorted(r["slice"] for r in found["flows"][way]) == sorted(r[0] for r in rows(k.profd, k.trace, sql))[:100]
        args = {key: value for key, value in rows(k.profd, k.trace, "select key, coalesce(int_value, real_value, string_value) from args join slice using (arg_set_id) "
                                                                   f"where slice.id = {s[0]}")}
        if not name.endswith(("truncated_gz.json.gz", ".sqlite.gz")):
            assert flat(found["args"], "args") == args


@each_trace
def test_a_slice_is_found_by_its_place(known, name):
    k = known(name)
    slices, rng, overlapping = k.slices, random.Random(13), k.slices.overlapping()
    for s in rng.sample(slices.all, 20):
        lane = slices.number[s[5], s[6]]
        if lane in overlapping:
            continue
        at = s[1] + slices.dur(s) // 2
        found = slices.all[k.get("slice", lane=lane, at=at)["slice"]]
        assert found[5:7] == s[5:7] and found[1] <= at < found[1] + max(slices.dur(found), 1)
        assert found == s or slices.dur(s) == 0
    lane = max(slices.lanes, key=lambda lane: len(slices.lanes[lane]))
    gaps = [(a, b) for a, b in zip(slices.lanes[lane], slices.lanes[lane][1:]) if b[1] - a[1] - slices.dur(a) > 10]
    if gaps and lane not in overlapping:
        before, after = gaps[len(gaps) // 2]
        end = before[1] + slices.dur(before)
        path = f"/v1/traces/{k.trace}/slice?lane={lane}&at="
        assert k.profd.problem("GET", f"{path}{end + 4}", status=404)["remedy"]
        assert k.get("slice", lane=lane, at=end + 2, within=4)["slice"] == before[0]
        assert k.get("slice", lane=lane, at=after[1] - 2, within=4)["slice"] == after[0]


@each_trace
def test_steps_are_those_of_the_report(known, name):
    """An answer of their own, which is kept like tiles: the timeline does not wait until they are found."""
    k = known(name)
    v = k.timeline["sum"]
    expected = [[start, start + dur, title, phase or None]
                for start, dur, title, phase in rows(k.profd, k.trace, "select start_ns, dur_ns, name, phase from report_steps order by start_ns")]
    reply = k.profd.request("GET", f"/v1/traces/{k.trace}/timeline/steps?v={v}")
    assert reply.status == 200 and reply.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    answer = reply.json()
    assert answer["sum"] == v and "steps" not in k.timeline
    assert [[s["begin"], s["end"], s["label"], s.get("phase")] for s in answer["steps"]] == expected
    assert expected or name in (*WITHOUT_KERNELS, "nsys/h100_2gpu_1s.sqlite.gz")
    assert k.get("timeline/steps") == answer
    assert k.profd.problem("GET", f"/v1/traces/{k.trace}/timeline/steps?v=0", status=409)["remedy"]


def test_counters(profd, tmp_path):
    events = [{"ph": "X", "name": "run", "pid": 1, "tid": 1, "ts": 0, "dur": 1000}]
    events += [{"ph": "C", "name": "queue", "pid": 1, "ts": i, "args": {"depth": i % 7}} for i in range(1000)]
    events += [{"ph": "C", "name": "other", "pid": 1, "ts": 500, "args": {"value": 2.5}}, {"ph": "C", "name": "late", "pid": 1, "ts": 2000, "args": {"value": 1}}]
    (tmp_path / "counters.json").write_text(json.dumps({"traceEvents": events}))
    trace = profd.post("/v1/traces", {"path": str(tmp_path / "counters.json")}, 201)["trace"]
    counters = {c["title"]: c for c in profd.get(f"/v1/traces/{trace}/timeline")["counters"]}
    assert len(counters) == 3
    late = next(c for title, c in counters.items() if "late" in title)
    assert profd.get(f"/v1/traces/{trace}/counters/{late['track']}")["points"] == [[2000000, 1, 1, 1]], "after the last slice"
    queue, other = (next(c for title, c in counters.items() if word in title) for word in ("queue", "other"))
    assert (queue["min"], queue["max"], queue["samples"]) == (0, 6, 1000) and (other["min"], other["max"], other["samples"]) == (2.5, 2.5, 1)
    points = profd.get(f"/v1/traces/{trace}/counters/{queue['track']}", points=10, to=1000000)["points"]
    assert len(points) == 10 and [p[1:3] for p in points] == [[0, 6]] * 10 and points[-1][3] == 999 % 7
    fine = profd.get(f"/v1/traces/{trace}/counters/{queue['track']}", **{"from": 500000, "to": 510000})["points"]
    assert fine == [[ns * 1000, ns % 7, ns % 7, ns % 7] for ns in range(499, 510)], "the last one before the part comes first"
    assert profd.get(f"/v1/traces/{trace}/counters/{other['track']}")["points"] == [[500000, 2.5, 2.5, 2.5]]
    profd.problem("GET", f"/v1/traces/{trace}/counters/99", status=404)
