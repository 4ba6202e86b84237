# SPDX-License-Identifier: Apache-2.0
"""`profctl analyze`, `reports` and `flame`: what people and programs see of reports. What each report computes has tests of
its own."""
import csv
import html.parser
import io
import json
import os
import pathlib
import re
import subprocess
import unicodedata
import xml.etree.ElementTree as ElementTree

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TRACES = SOURCE / "../shared/traces"
PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"
US = 1000
LINE = 100
HOSTILE = '<script>alert("1")</script>&\x1b[31m;\u202e'

real = pytest.mark.skipif(not TRACES.is_dir(), reason="no real traces at ../shared/traces")


@pytest.fixture
def profctl(tmp_path):
    def run(*words, status=0):
        r = outcome(*words)
        assert r.returncode == status, r.stderr.decode()
        return r.stdout.decode() if status == 0 else r.stderr.decode()

    def outcome(*words):
        return subprocess.run([PROFCTL, *words], capture_output=True, timeout=120, stdin=subprocess.DEVNULL, cwd=tmp_path,
                              env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "LC_ALL": "C.UTF-8"})

    run.run = outcome
    return run


def slice_of(name, category, ts, dur, tid=1, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def step(number, ts, kernel="gemm_kernel", kernel_us=20):
    """100 us: an operator that launches one kernel."""
    correlation = 100 + number
    return [slice_of(f"ProfilerStep#{number}", "user_annotation", ts, 100),
            slice_of("aten::mm", "cpu_op", ts + 5, 30, **{"External id": correlation}),
            slice_of("cudaLaunchKernel", "cuda_runtime", ts + 10, 5, correlation=correlation),
            slice_of(kernel, "kernel", ts + 20, kernel_us, tid=7, stream=7, device=0, correlation=correlation)]


@pytest.fixture
def trace(tmp_path):
    def write(name, events):
        path = tmp_path / name
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
        return path

    return write


@pytest.fixture
def three_steps(trace):
    return trace("three.json", [*step(0, 0), *step(1, 100), *step(2, 200, HOSTILE, 40)])


def rows(text):
    return json.loads(text)["rows"]


def columns_of(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def test_json_says_which_report_of_what(profctl, three_steps):
    answer = json.loads(profctl("analyze", three_steps, "--report", "temporal", "--json"))
    assert answer["report"] == "temporal" and answer["trace"] == str(three_steps)
    [row] = answer["rows"]
    assert (row["span_ns"], row["busy_ns"], row["idle_ns"]) == (240 * US, 80 * US, 160 * US)
    several = json.loads(profctl("analyze", three_steps, "--report", "temporal,kernels", "--json"))
    assert [one["report"] for one in several] == ["temporal", "kernels"]
    # Without a choice: all that the trace has something of.
    assert {"temporal", "kernels"} <= {one["report"] for one in json.loads(profctl("analyze", three_steps, "--json"))}


def test_kernels_of_a_known_trace(profctl, three_steps):
    first, second = rows(profctl("analyze", three_steps, "--report", "kernels", "--json"))
    assert {first["name"], second["name"]} == {"gemm_kernel", HOSTILE}
    gemm = first if first["name"] == "gemm_kernel" else second
    assert (gemm["count"], gemm["sum_ns"], gemm["mean_ns"], gemm["category"]) == (2, 40 * US, 20 * US, "gemm")
    assert (gemm["std_ns"], gemm["p50_ns"], gemm["p99_ns"], gemm["share"]) == (0, 20 * US, 20 * US, 0.5)


def test_a_part_of_a_trace(profctl, three_steps):
    def busy(*words):
        return rows(profctl("analyze", three_steps, "--report", "temporal", "--json", *words))[0]["busy_ns"]

    assert busy("--step", "1") == 20 * US
    assert busy("--from", "0.0001s", "--to", "0.0003s") == 60 * US
    assert "--from must be before --to" in profctl("analyze", three_steps, "--from", "2s", "--to", "1s", status=2)
    assert "--phase is prefill" in profctl("analyze", three_steps, "--phase", "sleep", status=2)


def test_csv_is_what_json_is_but_for_control_characters(profctl, three_steps):
    read = list(csv.DictReader(io.StringIO(profctl("analyze", three_steps, "--report", "kernels", "--csv"), newline="")))
    same = rows(profctl("analyze", three_steps, "--report", "kernels", "--json"))
    cleaned = str.maketrans("\x1b\u202e", "??")
    assert [(r["name"], int(r["sum_ns"]), float(r["share"])) for r in read] == \
        [(r["name"].translate(cleaned), r["sum_ns"], r["share"]) for r in same]


def test_classes_of_a_file_come_first(profctl, three_steps, tmp_path):
    classes = tmp_path / "classes"
    classes.write_text("# ours\nattention gemm_*\n")
    found = rows(profctl("analyze", three_steps, "--report", "kernels", "--json", "--classes", classes))
    assert {r["category"] for r in found if r["name"] == "gemm_kernel"} == {"attention"}
    classes.write_text("attention\n")
    assert f"{classes}, line 1" in profctl("analyze", three_steps, "--classes", classes, status=2)


def test_what_is_misspelt(profctl, three_steps):
    assert "Is it kernels?" in profctl("analyze", three_steps, "--report", "kernel", status=2)
    assert "--by is op, stack or kernel" in profctl("flame", three_steps, "--by", "magic", status=2)


def test_a_trace_without_a_gpu(profctl, trace):
    path = trace("cpu.json", [slice_of("aten::mm", "cpu_op", 0, 10)])
    assert "cpu.json" in profctl("analyze", path)
    error = profctl("analyze", path, "--report", "temporal", status=4)
    assert "has nothing of it" in error and "work of a GPU" in error
    # What can be said is said.
    r = profctl.run("analyze", path, "--report", "temporal,ops", "--json")
    assert r.returncode == 3 and [one["report"] for one in json.loads(r.stdout)] == ["ops"]


def test_a_part_without_work_is_not_a_trace_without_a_gpu(profctl, three_steps):
    for part in (("--from", "5s"), ("--phase", "prefill")):
        text = profctl("analyze", three_steps, *part)
        assert "no work of the GPU begins in this part" in text and "no findings" not in text, part


def test_what_is_not_there_is_no_empty_answer(profctl, three_steps, trace):
    """Whoever asks for it is told what there is."""
    for words in ((), ("--report", "temporal", "--json"), ("--html", "page.html")):
        error = profctl("analyze", three_steps, "--step", "17", *words, status=4)
        assert "there is no step 17" in error and "Steps 0 to 2 are there" in error
    error = profctl("analyze", three_steps, "--step", "1", "--phase", "prefill", "--json", status=4)
    assert "there is no step 1 of phase prefill" in error and "Steps 0 to 2 are there" in error
    assert "there is no step 17" in profctl("flame", three_steps, "--step", "17", status=4)
    assert "there is no step 17" in profctl("diff", three_steps, three_steps, "--step", "17", status=4)
    none = trace("none.json", [slice_of("aten::mm", "cpu_op", 0, 10)])
    assert "No steps were found" in profctl("analyze", none, "--step", "1", status=4)
    error = profctl("analyze", three_steps, "--rank", "3", status=4)
    assert "there is no rank 3" in error and "Rank 0 is there" in error


def test_one_kind_of_output(profctl, three_steps):
    assert "--csv is of one report" in profctl("analyze", three_steps, "--csv", status=2)
    assert "--csv is of one report" in profctl("analyze", three_steps, "--csv", "--report", "kernels,gaps", status=2)
    for words in (("--csv", "--json"), ("--html", "page.html", "--json")):
        assert "exclude each other" in profctl("analyze", three_steps, "--report", "kernels", *words, status=2)


def test_shapes_over_many_lines(profctl, trace):
    call = slice_of("aten::mm", "cpu_op", 0, 10, **{"Input Dims": [[2, 3], [3, 4]], "Input type": ["c10::BFloat16", "a b"]})
    path = trace("lines.json", [])
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [call]}, indent=1))
    [row] = rows(profctl("analyze", path, "--report", "op_shapes", "--json"))
    assert (row["dims"], row["types"]) == ("[[2, 3], [3, 4]]", '["c10::BFloat16", "a b"]')


def test_a_python_frame_keeps_its_line_and_function(profctl, trace):
    path = f"{'a_long_directory/' * 6}modeling_attn_mask_utils.py"
    work = step(0, 0) + step(1, 1000)
    frame = slice_of(f"{path}(503): forward", "python_function", 120, 880)
    shown = profctl("analyze", trace("frames.json", [*work, frame]), "--report", "stacks")
    assert "utils.py(503): forward" in shown, shown


def test_rows_of_ranks_name_their_rank(profctl, tmp_path):
    directory = tmp_path / "ranks"
    directory.mkdir()
    for rank in range(2):
        name = "at::native::" + "k" * 80
        (directory / f"rank{rank}.json").write_text(json.dumps(
            {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": step(0, 0, name)}))
    shown = profctl("analyze", directory, "--report", "cuda_gpu_kern_sum").splitlines()
    assert "RANK" in shown[1] and all(columns_of(line) <= LINE for line in shown), shown


@real
def test_findings_are_sentences_where_they_are_asked_for(profctl):
    directory = TRACES / "sglang_decode_8rank"
    text = " ".join(profctl("analyze", directory, "--report", "findings").split())
    found = rows(profctl("analyze", directory, "--report", "findings", "--json"))
    assert found and all("Try: " + " ".join(row["advice"].split()) in text for row in found)


def test_advice_is_whole_on_a_page(profctl, tmp_path):
    directory = TRACES / "sglang_decode_8rank"
    if not directory.is_dir():
        pytest.skip("no real traces at ../shared/traces")
    profctl("analyze", directory, "--report", "findings", "--html", tmp_path / "page.html")
    text = "".join(Page((tmp_path / "page.html").read_text()).text)
    found = rows(profctl("analyze", directory, "--report", "findings", "--json"))
    assert found and all(row["advice"] in text and row["evidence"] in text for row in found)


def test_every_report_is_described(profctl):
    listed = json.loads(profctl("reports", "--json"))
    lines = profctl("reports").splitlines()[1:]
    assert [line.split()[0] for line in lines] == [one["report"] for one in listed]
    for one in listed:
        assert one["how"].endswith(".") and one["shows"], one["report"]
        assert one["columns"] and all(re.fullmatch("[a-z0-9_]+", column["name"]) and column["meaning"] for column in one["columns"])


@real
def test_reports_are_tables(profctl):
    path = next((TRACES / "sglang_decode_8rank").glob("*rank3*"))
    for report in ("temporal", "kernels"):
        asked = json.loads(profctl("query", path, f"select * from report_{report}", "--json"))
        assert asked == rows(profctl("analyze", path, "--report", report, "--json"))
    assert "report_kernels" in profctl("query", path, ".tables")


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.open, self.text = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "action")]

    def handle_data(self, data):
        self.text.append(data)


def test_a_page_needs_nothing_else(profctl, three_steps, tmp_path):
    profctl("analyze", three_steps, "--html", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    page = Page(text)
    # One script, ours; none of the trace's.
    assert page.links == [] and page.tags.count("script") == 1
    assert "alert(" not in re.sub(r"<script>.*?</script>", "", text, flags=re.S).replace('alert(&quot;1&quot;)', "")
    assert "\x1b" not in text and "\u202e" not in text
    assert {"svg", "table", "h2"} <= set(page.tags) and "gemm_kernel" in "".join(page.text)


def test_a_flame_graph_is_well_formed(profctl, three_steps, tmp_path):
    profctl("flame", three_steps, "-o", tmp_path / "f.svg")
    root = ElementTree.fromstring((tmp_path / "f.svg").read_bytes())
    frames = {g.get("data-n"): float(g.get("data-w")) for g in root.iter("{http://www.w3.org/2000/svg}g")}
    assert frames["all"] == 1200
    # Steps are one frame, whatever their number; the operator lies in it, the kernels in that.
    assert {"ProfilerStep", "aten::mm", "gemm_kernel"} <= set(frames)
    assert frames["gemm_kernel"] == pytest.approx(600) and frames["aten::mm"] == pytest.approx(1200)


def test_a_difference_knows_both_sides(profctl, three_steps, trace, tmp_path):
    before = trace("before.json", [*step(0, 0), *step(1, 100)])
    profctl("flame", three_steps, "--diff", before, "-o", tmp_path / "d.svg")
    text = (tmp_path / "d.svg").read_text()
    assert "(40 us before)" in text or "(40.0 us before)" in text, re.findall(r"\(.*? before\)", text)


@real
@pytest.mark.parametrize("name", ["sglang_decode_8rank", "tracelens/xdit_flux_aiter_sage_rank0.json.gz", "hta/trace_diff_test.json.gz"])
def test_lines_are_short_enough(profctl, name):
    lines = profctl("analyze", TRACES / name).splitlines()[1:]
    if (TRACES / name).is_file():
        for report in ("op_shapes", "roofline", "syncs", "gap_list"):
            lines += profctl.run("analyze", TRACES / name, "--report", report, "--top", "10").stdout.decode().splitlines()
    for line in lines:
        assert columns_of(line) <= LINE, line


@real
@pytest.mark.parametrize("by", ["op", "stack", "kernel"])
def test_real_flames(profctl, by, tmp_path):
    profctl("flame", TRACES / "hta/trace_diff_test.json.gz", "--by", by, "-o", tmp_path / "f.svg")
    root = ElementTree.fromstring((tmp_path / "f.svg").read_bytes())
    assert sum(1 for _ in root.iter("{http://www.w3.org/2000/svg}g")) > 20
