# SPDX-License-Identifier: Apache-2.0
"""All reports of a trace: from the compressed file, and from columns that are there already; next to the engine's own reading, and
next to the same analyses of others. And by the number of ranks."""
import gzip
import re
import shutil
import statistics

from common import BUILD, ROOT, slope
from contest import Contestant, in_turns, ratio, row, run as run_once
from grown import PROGRAMS, fits, grow

SIZE = 500_000_000
RANK_SIZE = 100_000_000
# By the number of ranks, which all lie in memory at once.
SCALE = (1, 8, 64)
SCALE_SIZE = 20_000_000
PYTHON = "/usr/bin/python3"
REAL = {name: ROOT.parent / "shared/traces" / path for name, path in {
    "xdit, 64 MB": "tracelens/xdit_flux_aiter_sage_rank0.json.gz",
    "mtia, 87 MB": "hta/mtia_rank_0.json.gz",
    "control, 35 MB": "hta/trace_diff_control.json.gz",
}.items()}
RANKS = ROOT.parent / "shared/traces/lightllm_decode_8rank"
# The same questions that the first reports answer.
HTA = """import sys
from hta.trace_analysis import TraceAnalysis
t = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir='')
t.get_temporal_breakdown(visualize=False)
t.get_gpu_kernel_breakdown(visualize=False)
t.get_idle_time_breakdown(visualize=False)
t.get_comm_comp_overlap(visualize=False)
t.get_cuda_kernel_launch_stats(visualize=False)"""
# What any script in Python has to do first, and the sums by name.
PYTHON_SUMS = """import collections, gzip, json, sys
with (gzip.open if sys.argv[1].endswith('.gz') else open)(sys.argv[1]) as f:
    events = json.load(f)['traceEvents']
sums = collections.Counter()
for e in events:
    if e.get('cat', '').lower() in ('kernel', 'gpu_memcpy', 'gpu_memset', 'memcpy', 'memset'):
        sums[e['name']] += e['dur']
print(sums.most_common(10))"""


def analyze(cache, *words, name):
    return Contestant(name, [["env", f"XDG_CACHE_HOME={cache}", "LC_ALL=C.UTF-8", BUILD / "client/profctl", "analyze", "--json", *words]])


def screen(cache, *words, name):
    """What a person sees: only what is shown is made."""
    return Contestant(name, [["env", f"XDG_CACHE_HOME={cache}", "LC_ALL=C.UTF-8", BUILD / "client/profctl", "analyze", *words]])


def afresh(cache, path, name):
    """With a cache that is emptied first."""
    return Contestant(name, [["sh", "-c", 'rm -rf "$1"; shift; exec "$@"', "sh", cache, "env", f"XDG_CACHE_HOME={cache}",
                              BUILD / "client/profctl", "analyze", "--json", path]])


def slime(script, path, directory):
    """It takes a directory, and of that what is named as SGLang names it."""
    folder = directory / "slime"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "1-TP-0.trace.json.gz").symlink_to(path)
    return Contestant("slime's script", [[PYTHON, script, "--profile-dir", folder]])


def peers(path, options, directory):
    yield Contestant("python: json, sums", [[PYTHON, "-c", PYTHON_SUMS, path]])
    if options.slime:
        yield slime(options.slime, path, directory)
    if options.hta:
        yield Contestant("HTA", [[options.hta, "-c", HTA, path]])


def works(contestant, directory):
    """slime's script divides by the kernels of a trace, which not every trace has."""
    try:
        run_once(contestant, directory)
    except RuntimeError:
        return False
    return True


def compare(what, path, directory, others):
    cold, warm = directory / "cold", directory / "warm"
    others = list(others)
    failing = [other for other in others if not works(other, directory)]
    for other in failing:
        yield {"what": what, "who": other.name, "skipped": "it ends with an error"}
        others.remove(other)
    contestants = [afresh(cold, path, "from the file"), analyze(warm, path, name="from columns"),
                   screen(warm, path, name="from columns, the screen"),
                   Contestant("read-trace", [[PROGRAMS / "read-trace", path, directory / "columns"]]),
                   Contestant("limit: columns unpacked once", [[PROGRAMS / "columns-speed", "--unpack", directory / "columns"]]),
                   *others]
    costs = in_turns(contestants, directory)
    for name, runs in costs.items():
        yield {"what": what, "who": name, **row(runs), "times from the file": ratio(runs, costs["from the file"]),
               "times from columns": ratio(runs, costs["from columns"]), "times read-trace": ratio(runs, costs["read-trace"])}
    for used in (cold, warm):
        shutil.rmtree(used, ignore_errors=True)


def one_by_one(paths, directory):
    """The engine's own reading of all, one after the other."""
    script = 'out=$1; shift; for path; do rm -f "$out"; "$0" "$path" "$out" || exit; done'
    return Contestant("read-trace, one by one", [["sh", "-c", script, PROGRAMS / "read-trace", directory / "columns", *paths]])


def ranks(what, traces, directory):
    cold, warm = directory / "cold", directory / "warm"
    contestants = [afresh(cold, traces, "from files"), analyze(warm, traces, name="from columns"),
                   screen(warm, traces, name="from columns, the screen"), one_by_one(sorted(traces.iterdir()), directory)]
    for name, runs in in_turns(contestants, directory).items():
        yield {"what": what, "who": name, **row(runs)}
    for used in (cold, warm):
        shutil.rmtree(used, ignore_errors=True)


def grown_ranks(directory):
    folder = directory / "ranks"
    folder.mkdir()
    for path in sorted(RANKS.iterdir()):
        grow(path, RANK_SIZE, folder / path.name)
    return folder


def numbered(path, number, world, target):
    """The trace as rank `number` of a job of `world` ranks."""
    text = gzip.decompress(path.read_bytes())
    text = re.sub(rb'("distributedInfo": \{[^}]*?"rank": )\d+(, "world_size": )\d+', rb"\g<1>%d\g<2>%d" % (number, world), text)
    target.write_bytes(gzip.compress(text, 1))


def scale(directory):
    """The cost by the number of ranks. Slope: from the row before."""
    sources, before = sorted(RANKS.iterdir()), None
    grown = [grow(path, SCALE_SIZE, directory / f"source{i}.json.gz") for i, path in enumerate(sources)]
    for n in SCALE:
        traces, warm = directory / "numbered", directory / "warm"
        traces.mkdir()
        for i in range(n):
            numbered(grown[i % len(grown)], i, n, traces / f"rank{i}.pt.trace.json.gz")
        runs = in_turns([analyze(warm, traces, name="from columns")], directory)["from columns"]
        now = statistics.median(cost.wall_s for cost in runs)
        yield {"what": f"{n} rank{'s' if n > 1 else ''}, 20 MB each", "who": "from columns", **row(runs), "s a rank": round(now / n, 4),
               "slope": slope(n, now, *before) if before else None}
        before = n, now
        shutil.rmtree(traces)
        shutil.rmtree(warm)


def run(directory, options):
    if not REAL["xdit, 64 MB"].exists():
        yield {"skipped": "no real traces at ../shared/traces"}
        return
    for what, path in REAL.items():
        yield from compare(what, path, directory, peers(path, options, directory))
    for name in ("A", "B"):
        if fits(directory, 2 * SIZE):
            path = grow(name, SIZE, directory / "trace.json.gz")
            yield from compare(f"{name}, 500 MB", path, directory, peers(path, options, directory) if options.long else ())
    yield from ranks("8 ranks, 29 MB", RANKS, directory)
    if fits(directory, RANK_SIZE):
        yield from ranks("8 ranks, 100 MB each", grown_ranks(directory), directory)
    if fits(directory, 2 * SCALE[-1] * SCALE_SIZE):
        yield from scale(directory)
