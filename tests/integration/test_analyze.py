# SPDX-License-Identifier: Apache-2.0
"""`profctl analyze`, `reports` and `flame`: what people and programs see of reports. What each report computes has tests of
its own."""
import csv
import html
import html.parser
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import unicodedata
import xml.etree.ElementTree as ElementTree

import pytest
from real_traces import TRACES
from terminal import on_terminal, plain

PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"
US = 1000
LINE = 100
SVG = "{http://www.w3.org/2000/svg}"
XHTML = "{http://www.w3.org/1999/xhtml}"
HOSTILE = '<script>alert("1")</script>&\x1b[31m;\u202e'


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
        path.parent.mkdir(exist_ok=True)
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


def test_json_names_which_report_of_what(profctl, three_steps):
    answer = json.loads(profctl("analyze", three_steps, "--report", "temporal", "--json"))
    assert answer["report"] == "temporal" and answer["trace"] == str(three_steps)
    [row] = answer["rows"]
    assert (row["span_ns"], row["busy_ns"], row["idle_ns"]) == (240 * US, 80 * US, 160 * US)
    several = json.loads(profctl("analyze", three_steps, "--report", "temporal,kernels", "--json"))
    assert [one["report"] for one in several] == ["temporal", "kernels"]
    # Without a choice: all that the trace has something of.
    assert {"temporal", "kernels"} <= {one["report"] for one in json.loads(profctl("analyze", three_steps, "--json"))}


@pytest.mark.smoke
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
    for words in (("--from", "2s", "--to", "1s"), ("--to", "0s")):
        assert "  Both count from the first slice" in profctl("analyze", three_steps, *words, status=2)
    for words in (("--from", "100s"), ("--from", "100s", "--html", "-"), ("--from", "100s", "--json")):
        error = profctl("analyze", three_steps, *words, status=4)
        assert "--from 1min 40s is after the end of the trace, which is " in error and "\n  --from and --to count from" in error
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
    assert f"{classes}, line 1: class 'attention' has no pattern" in profctl("analyze", three_steps, "--classes", classes, status=2)
    classes.write_text("# ours\nfoo bar\n")
    error = profctl("analyze", three_steps, "--classes", classes, status=2)
    assert f"{classes}, line 2: unknown class 'foo'; classes: gemm, attention, " in " ".join(error.split()), error


def test_what_is_misspelt(profctl, three_steps):
    assert "Did you mean kernels?" in profctl("analyze", three_steps, "--report", "kernel", status=2)
    unwritable = profctl("flame", three_steps, "-o", "/nothing/flame.svg", status=1)
    assert unwritable == "profctl: cannot write /nothing/flame.svg: No such file or directory\n  Create the directory first, or write to another one.\n"
    assert "--by is op, stack or kernel" in profctl("flame", three_steps, "--by", "magic", status=2)


def test_a_trace_without_a_gpu(profctl, trace):
    path = trace("cpu.json", [slice_of("aten::mm", "cpu_op", 0, 10)])
    assert "cpu.json" in profctl("analyze", path)
    error = profctl("analyze", path, "--report", "temporal", status=4)
    assert "contains no events for this report" in error and "GPU activity" in error
    # What can be said is said.
    r = profctl.run("analyze", path, "--report", "temporal,ops", "--json")
    assert r.returncode == 3 and [one["report"] for one in json.loads(r.stdout)] == ["ops"]


def test_findings_that_no_gpu_activity_can_give(profctl, trace):
    """Findings are of GPU time: without any, their absence must not read as a clean bill of health."""
    path = trace("cpu.json", [slice_of("aten::mm", "cpu_op", 0, 10)])
    for text in (profctl("analyze", path), profctl("analyze", path, "--report", "findings")):
        assert "no GPU activity is recorded" in text and "--report ops,stacks,steps" in text and "nothing stands out" not in text
    profctl("analyze", path, "--html", "cpu.html")
    page = (path.parent / "cpu.html").read_text()
    assert "no GPU activity is recorded" in page and "Nothing stands out" not in page


@pytest.mark.parametrize("name, evaluated", [
    ("tracelens/sglang_qwen3_8b_decode.json.gz", "10 ms of it: busy 93.5 %, idle 6.5 %"),
    ("torchrec_sst5_4rank", "313 ms of it (mean of all ranks): busy 94.6 %, idle 5.4 %"),
    ("tracelens/mi300_qwen15.json.gz", None)])
def test_the_bar_and_the_findings_are_of_the_same_time_or_say_so(profctl, name, evaluated):
    """A GPU that is idle for 98 % of the trace and GPU-bound in the rest: both are printed beside each other."""
    text = profctl("analyze", TRACES / name)
    assert (f"findings are of {evaluated}" in text) if evaluated else ("findings are of" not in text)


@pytest.mark.parametrize("name", ["torchrec_sst4_4rank", "torchrec_sst4_4rank/rank0.pt.trace.json.gz", "hta/sampled_2rank"])
def test_categories_of_the_screen_are_shares_of_the_busy_time(profctl, name):
    """Categories overlap in these traces: their shares of the sum of durations are smaller ones."""
    rows = json.loads(profctl("analyze", TRACES / name, "--report", "categories", "--json"))["rows"]
    busiest = sorted(rows, key=lambda row: -row["busy_share"])[:5]
    expected = " · ".join(f"{row['category']} {100 * row['busy_share']:.0f} %" for row in busiest)
    assert f"\nof it  {expected}\n" in profctl("analyze", TRACES / name)
    assert any(round(100 * row["busy_share"]) != round(100 * row["share"]) for row in busiest)


def test_a_part_without_work_is_not_a_trace_without_a_gpu(profctl, three_steps):
    text = profctl("analyze", three_steps, "--from", "299us")
    assert "no GPU activity begins in the selected part" in text and "no findings" not in text


def test_texts_about_a_part_are_only_for_those_who_asked_for_one(profctl, trace):
    """A range of the GPU is a row of it and no activity."""
    path = trace("ranges.json", [slice_of("step", "gpu_user_annotation", 0, 10, stream=7, device=0),
                                 slice_of("aten::mm", "cpu_op", 0, 10)])
    text = profctl("analyze", path)
    assert "this part" not in text and "selected part" not in text and "no kernels, copies or memsets" in text and "aten::mm" in text


def test_percentiles_of_one_time_have_one_unit(profctl, trace):
    """A median of 2,000.0 in one unit beside a p99 of 20.0 in another reads as a p99 below the median."""
    kernels = [slice_of("gemm_kernel", "kernel", 30000 * i, dur, tid=7, stream=7, device=0) for i, dur in enumerate([2000] * 9 + [20000])]
    [heading] = [line for line in profctl("analyze", trace("spread.json", kernels), "--report", "kernels").splitlines() if line.startswith("NAME")]
    assert re.search(r"P50 us +P99 us", heading), heading


def test_the_head_names_a_span_as_a_span(profctl, three_steps):
    """Most of it is idle, so that it is no time of a GPU."""
    head = " ".join(profctl("analyze", three_steps).splitlines()[:2])
    assert "span 240 us" in head and "GPU time" not in head, head


def test_what_is_not_there_is_no_empty_answer(profctl, three_steps, trace):
    """Whoever asks for it is told what there is."""
    for words in ((), ("--report", "temporal", "--json"), ("--html", "page.html")):
        error = profctl("analyze", three_steps, "--step", "17", *words, status=4)
        assert "has no step 17" in error and "Available steps: 0 to 2." in error
    error = profctl("analyze", three_steps, "--step", "1", "--phase", "prefill", "--json", status=4)
    assert "the selected part has no step 1 of phase prefill" in error and "Available steps: 0 to 2." in error
    for words in ((), ("--report", "kernels", "--json")):
        error = profctl("analyze", three_steps, "--phase", "decode", *words, status=4)
        assert "no steps of phase decode\n" in error and "No step of the trace has a phase." in error, error
    trained = pathlib.Path(__file__).parents[1] / "traces/torchrec_sst5_4rank/rank0.pt.trace.json.gz"
    error = profctl("analyze", trained, "--phase", "decode", status=4)
    assert "no steps of phase decode\n" in error and "Available phases: training." in error, error
    assert "has no step 17" in profctl("flame", three_steps, "--step", "17", status=4)
    assert "has no step 17" in profctl("diff", three_steps, three_steps, "--step", "17", status=4)
    none = trace("none.json", [slice_of("aten::mm", "cpu_op", 0, 10)])
    assert "The trace has no steps" in profctl("analyze", none, "--step", "1", status=4)
    error = profctl("analyze", three_steps, "--rank", "3", status=4)
    assert "there is no rank 3" in error and "Available rank: 0." in error


def test_one_kind_of_output(profctl, three_steps):
    assert "--csv needs one report" in profctl("analyze", three_steps, "--csv", status=2)
    assert "--csv needs one report" in profctl("analyze", three_steps, "--csv", "--report", "kernels,gaps", status=2)
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
    text, status = on_terminal(None, "analyze", directory, "--report", "cuda_gpu_kern_sum", columns=LINE,
                               env={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    shown = plain(text).splitlines()
    assert status == 0 and any("RANK" in line for line in shown) and all(columns_of(line) <= LINE for line in shown), shown


def test_findings_are_sentences_where_they_are_asked_for(profctl):
    directory = TRACES / "sglang_decode_8rank"
    text = " ".join(profctl("analyze", directory, "--report", "findings").split())
    found = rows(profctl("analyze", directory, "--report", "findings", "--json"))
    found = [row for row in found if row["cost_ns"] is not None]  # the others are statements, in short
    assert found and all("Try: " + " ".join(row["advice"].split()) in text for row in found)


def test_advice_is_complete_on_a_page(profctl, tmp_path):
    directory = TRACES / "sglang_decode_8rank"
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
    assert all(link.startswith("#") for link in page.links) and page.tags.count("script") == 1
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/)", text) and "prefers-color-scheme:dark" in text
    assert "alert(" not in re.sub(r"<script>.*?</script>", "", text, flags=re.S).replace('alert(&quot;1&quot;)', "")
    assert "\x1b" not in text and "\u202e" not in text
    assert {"svg", "table", "h2"} <= set(page.tags) and "gemm_kernel" in "".join(page.text)


def idle_steps():
    """Four steps of which the GPU does a fifth: findings enough."""
    return [event for n in range(4) for event in step(n, 100 * n)]


def test_a_page_begins_with_what_is_wrong(profctl, trace, tmp_path):
    trace("work/idle.json", idle_steps())
    profctl("analyze", tmp_path / "work/idle.json", "--html", "page.html")
    text = (tmp_path / "page.html").read_text()
    found = rows(profctl("analyze", tmp_path / "work/idle.json", "--report", "findings", "--json"))
    heads = re.findall('<h2 id="([a-z_]+)"', text)
    assert heads[:2] == ["findings", "use"] and heads[-1] == "flame" and heads.count("findings") == 1 and len(heads) > 5
    cards = re.findall(r'<section class="card (\w+)">(.*?)</section>', text, re.S)
    assert len(cards) == len(found) > 0
    for (severity, card), finding in zip(cards, found):
        shown = "".join(Page(card).text)
        assert severity == finding["severity"] and finding["what"] in shown and finding["advice"] in shown
        if finding["cost_ns"] is None:  # a statement
            assert "<i style" not in card
            continue
        assert f"{finding['confidence'].capitalize()}: {finding['ground']}" in shown
        if finding["cost_ns"] is not None:
            assert f'<i style="width:{100 * finding["share"]:.1f}%">' in card
    flags = re.findall(r"(?<![\w-])--[a-z][a-z-]+", " ".join(finding["advice"] for finding in found))
    assert flags and all(f"<code>{flag}</code>" in text for flag in flags)
    # What a GPU did adds up, and every place that is linked exists.
    use = [float(n) for n in re.search(r"busy ([\d.]+) %, communication alone ([\d.]+) %, idle ([\d.]+) %", text).groups()]
    assert sum(use) == pytest.approx(100, abs=0.2)
    assert {link[1:] for link in Page(text).links} <= set(heads)


def test_a_title_reports_what_it_is_of(profctl, trace, tmp_path):
    device = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 1, "numSms": 132}]}
    (tmp_path / "job").mkdir()
    for rank in range(2):
        (tmp_path / f"job/rank{rank}.json").write_text(json.dumps(
            {"schemaVersion": 1, **device, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": idle_steps()}))
    profctl("analyze", tmp_path / "job/", "--html", "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "<title>NVIDIA H200 · 2 ranks · job</title>" in text and str(tmp_path) not in text
    profctl("flame", tmp_path / "job", "-o", "f.svg")
    assert str(tmp_path) not in (tmp_path / "f.svg").read_text()


def labels_of(path):
    """{name: what is written on its frames}"""
    labels = {}
    for g in ElementTree.fromstring(path.read_bytes()).iter(SVG + "g"):
        if g.get("class") == "f":
            labels.setdefault(g.get("data-n"), []).append(g.find(SVG + "text").text or "")
    return labels


def test_names_that_begin_alike_are_distinguished(profctl, trace, tmp_path):
    common = "void at::native::vectorized_elementwise_kernel<4, at::native::"
    functors = ["AddFunctor<float>", "MulFunctor<float>", "SigmoidFunctor<float>", "GeluFunctor<float>"]
    path = trace("alike.json", [slice_of(f"{common}{functor} >(int, float*)", "kernel", 100 * n, 90, tid=7, stream=7, device=0)
                                for n, functor in enumerate(functors)])
    profctl("flame", path, "--by", "kernel", "-o", "f.svg")
    labels = labels_of(tmp_path / "f.svg")
    for functor in functors:
        [label] = labels[f"{common}{functor} >(int, float*)"]
        assert functor.split("<")[0] in label and "…" in label and not label.startswith("void"), label


def test_self_times_add_up(profctl, three_steps, tmp_path):
    profctl("flame", three_steps, "-o", tmp_path / "f.svg")
    root = ElementTree.fromstring((tmp_path / "f.svg").read_bytes())
    times = {g.get("data-n"): g.find(SVG + "title").text for g in root.iter(SVG + "g") if g.get("class") == "s"}
    assert "gemm_kernel" in times and "aten::mm" not in times  # an operator has no GPU time of its own
    assert sum(float(re.search(r"([\d.]+) %", text)[1]) for text in times.values()) == pytest.approx(100, abs=0.1)
    assert root.find(f".//{XHTML}input") is not None


BROWSER = shutil.which("chromium")
in_browser = pytest.mark.skipif(not BROWSER, reason="no chromium")


def browse(tmp_path, path, width, script):
    """What a script leaves in an attribute of the root of a page, after it was loaded."""
    text = path.read_text()
    probe = f"<script>addEventListener('load',()=>document.documentElement.setAttribute('data-probe',JSON.stringify({script})))</script>"
    end = text.rindex("</svg>" if path.suffix == ".svg" else "</body>")
    copy = tmp_path / f"probe{path.suffix}"
    copy.write_text(text[:end] + probe.replace("=>", "=&gt;" if path.suffix == ".svg" else "=>") + text[end:])
    r = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}",
                        f"--window-size={width},800", "--virtual-time-budget=2000", "--dump-dom", copy.as_uri()],
                       capture_output=True, timeout=120, text=True)
    found = re.search('data-probe="([^"]*)"', r.stdout)
    assert found, r.stderr[-500:]
    return json.loads(html.unescape(found[1]))


@in_browser
def test_nothing_scrolls_sideways(profctl, tmp_path):
    profctl("analyze", TRACES / "torchrec_sst4_4rank", "--html", "page.html")
    wide, width, boxes = browse(tmp_path, tmp_path / "page.html", 1280, """[document.documentElement.scrollWidth,
        document.documentElement.clientWidth, [...document.querySelectorAll('.wide,.scroll')].filter(
        e=>e.scrollWidth>e.clientWidth+1).length]""")
    assert wide <= width and boxes == 0, (wide, width, boxes)
    # In a narrow window only tables scroll, each in its own box.
    wide, width = browse(tmp_path, tmp_path / "page.html", 600, "[document.documentElement.scrollWidth,document.documentElement.clientWidth]")
    assert wide <= width


@in_browser
def test_a_flame_graph_can_be_searched_and_zoomed(profctl, three_steps, tmp_path):
    profctl("flame", three_steps, "-o", tmp_path / "f.svg")
    clicked = browse(tmp_path, tmp_path / "f.svg", 1000, """(()=>{
        const click=e=>e.dispatchEvent(new MouseEvent('click',{bubbles:true})),$=s=>document.querySelector(s);
        const of=n=>[...document.querySelectorAll('g.f')].find(g=>g.dataset.n==n);
        const before=+of('gemm_kernel').querySelector('rect').getAttribute('width');click(of('gemm_kernel'));
        const zoomed=+of('gemm_kernel').querySelector('rect').getAttribute('width'),all=+of('all').querySelector('rect').getAttribute('width');
        const i=$('input');i.value='gemm_k';i.dispatchEvent(new Event('input'));const matched=$('.c').textContent;
        click($('.toggle'));const self=$('.self').style.display;click($('.reset'));
        return {before,zoomed,all,matched,self,reset:+of('gemm_kernel').querySelector('rect').getAttribute('width')};})()""")
    assert clicked["zoomed"] == clicked["all"] == pytest.approx(2 * clicked["before"]) and clicked["reset"] == clicked["before"]
    assert clicked["matched"] == "matched 50.0 %" and clicked["self"] == ""


def test_a_flame_graph_is_well_formed(profctl, three_steps, tmp_path):
    profctl("flame", three_steps, "-o", tmp_path / "f.svg")
    root = ElementTree.fromstring((tmp_path / "f.svg").read_bytes())
    frames = {g.get("data-n"): float(g.get("data-w")) for g in root.iter(SVG + "g") if g.get("class") == "f"}
    assert frames["all"] == 1200
    # Steps are one frame, whatever their number; the operator lies in it, the kernels in that.
    assert {"ProfilerStep", "aten::mm", "gemm_kernel"} <= set(frames)
    assert frames["gemm_kernel"] == pytest.approx(600) and frames["aten::mm"] == pytest.approx(1200)


def test_a_difference_knows_both_sides(profctl, three_steps, trace, tmp_path):
    before = trace("before.json", [*step(0, 0), *step(1, 100)])
    profctl("flame", three_steps, "--diff", before, "-o", tmp_path / "d.svg")
    text = (tmp_path / "d.svg").read_text()
    assert "(40 us before)" in text or "(40.0 us before)" in text, re.findall(r"\(.*? before\)", text)


@pytest.mark.parametrize("name", ["sglang_decode_8rank", "tracelens/xdit_flux_aiter_sage_rank0.json.gz", "hta/trace_diff_test.json.gz"])
@pytest.mark.parametrize("columns", [80, LINE, 140])
def test_lines_are_short_enough(name, columns, tmp_path):
    def lines(*words):
        text, _ = on_terminal(None, "analyze", TRACES / name, *words, columns=columns, env={"XDG_CACHE_HOME": str(tmp_path)})
        return plain(text).splitlines()[1:]

    shown = lines()
    if (TRACES / name).is_file():
        for report in ("op_shapes", "roofline", "syncs", "gap_list"):
            shown += lines("--report", report, "--top", "10")
    assert [line for line in shown if columns_of(line) > columns] == []


@pytest.mark.parametrize("by", ["op", "stack", "kernel"])
def test_real_flames(profctl, by, tmp_path):
    profctl("flame", TRACES / "hta/trace_diff_test.json.gz", "--by", by, "-o", tmp_path / "f.svg")
    root = ElementTree.fromstring((tmp_path / "f.svg").read_bytes())
    assert sum(1 for _ in root.iter("{http://www.w3.org/2000/svg}g")) > 20
