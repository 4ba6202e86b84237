# SPDX-License-Identifier: Apache-2.0
"""Figures of traces computed from their JSON alone, for tests that hold reports against them."""
import functools
import gzip
import json
import re

KINDS = ("compute", "communication", "copy", "idle")
KERNEL, COPY = ("kernel", "Kernel"), ("gpu_memcpy", "gpu_memset", "Memcpy", "Memset")
COMMUNICATES = re.compile(r"nccl|deep_ep|nvshmem|cross_device_reduce|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|multimem",
                          re.IGNORECASE)
# By hand: traces with work of a GPU in the form that torch writes. What is left out has none, or is another format.
GPU_TRACES = [
    "lightllm_decode_8rank", "sglang_decode_8rank", "torchrec_resnet18_2rank", "torchrec_sst4_4rank", "torchrec_sst5_4rank",
    "hta/sampled_2rank", "hta/amd_mi250_minitoy.json.gz", "hta/critical_path_alexnet.json.gz", "hta/df_index_resolver.json.gz",
    "hta/event_sync_multi_stream.json.gz", "hta/nccl_data_rank0.json.gz", "hta/ns_resolution_rank0.json.gz",
    "hta/trace_diff_control.json.gz", "hta/trace_diff_test.json.gz", "hta/triton_example.json.gz",
    "kineto/resnet50_2021_workers0.json.gz", "param/linear_kineto.json.gz", "tracelens/b200_eager_rank0.json.gz",
    "tracelens/h100_qwen15.json.gz", "tracelens/mi210_gpu_only.json.gz", "tracelens/mi300_qwen15.json.gz",
    "tracelens/sglang_qwen3_8b_decode.json.gz", "tracelens/torch_compile_triton.json.gz",
    "tracelens/vllm_decode_full_graph.json.gz", "tracelens/vllm_piecewise_graph.json.gz",
    "tracelens/xdit_flux_aiter_sage_rank0.json.gz",
]


@functools.lru_cache(maxsize=4)
def events(path):
    """Complete events of a trace, times in microseconds since its first."""
    with (gzip.open if path.suffix == ".gz" else open)(path) as file:
        trace = json.load(file)
    rows = trace["traceEvents"] if isinstance(trace, dict) else trace
    rows = [e for e in rows if e.get("ph") == "X" and "ts" in e and "dur" in e]
    first = min(float(e["ts"]) for e in rows)
    return [{**e, "ts": float(e["ts"]) - first, "dur": float(e["dur"])} for e in rows]


def ranks(path):
    return sorted(path.glob("rank*")) if path.is_dir() else [path]


def union(intervals):
    ret = []
    for begin, end in sorted(intervals):
        if ret and begin <= ret[-1][1]:
            ret[-1][1] = max(ret[-1][1], end)
        elif end > begin:
            ret.append([begin, end])
    return ret


def length(intervals):
    return sum(end - begin for begin, end in intervals)


def gpu_work(rows):
    return [e for e in rows if e.get("cat") in KERNEL + COPY]


def longest_gap(rows):
    """The longest time with nothing on the GPU, and the thread that launched what ends it."""
    work = gpu_work(rows)
    busy = union((e["ts"], e["ts"] + e["dur"]) for e in work)
    begin, end = max(((a[1], b[0]) for a, b in zip(busy, busy[1:])), key=lambda gap: gap[1] - gap[0])
    after = next(e for e in work if e["ts"] == end)
    [call] = [e for e in rows if e.get("cat") in ("cuda_runtime", "cuda_driver") and
              e["args"].get("correlation") == after["args"]["correlation"]]
    return (begin, end), call["tid"]


def steps(path):
    """Durations of torch's steps by their name, on all ranks."""
    ret = {}
    for rank in ranks(path):
        for e in events(rank):
            if e["name"].startswith("ProfilerStep#") and e.get("cat") == "user_annotation":
                ret.setdefault(e["name"], []).append(e["dur"])
    return ret


def times(rows, begin=None, end=None):
    """How long the GPU computes, only communicates, only copies and is idle, in ns, of a part or of the span of its work."""
    work = gpu_work(rows)
    begin = min(e["ts"] for e in work) if begin is None else begin
    end = max(e["ts"] + e["dur"] for e in work) if end is None else end
    kinds = {"compute": [], "communication": [], "copy": []}
    for e in work:
        kind = "copy" if e["cat"] in COPY else "communication" if COMMUNICATES.search(e["name"]) else "compute"
        kinds[kind].append((max(e["ts"], begin), min(e["ts"] + e["dur"], end)))
    compute, kernels = union(kinds["compute"]), union(kinds["compute"] + kinds["communication"])
    busy = union(sum(kinds.values(), []))
    return {"compute": 1e3 * length(compute), "communication": 1e3 * (length(kernels) - length(compute)),
            "copy": 1e3 * (length(busy) - length(kernels)), "idle": 1e3 * (end - begin - length(busy))}
