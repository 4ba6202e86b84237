# SPDX-License-Identifier: Apache-2.0
"""The report `findings` on real traces: what an engineer who knows them would say, and silence where they would."""
import json
import os
import pathlib
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TRACES = SOURCE / "../shared/traces"
PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"
MS = 1000 * 1000

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="no real traces at ../shared/traces")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")

    def run(trace, *words):
        r = subprocess.run([PROFCTL, "analyze", TRACES / trace, *words], capture_output=True, timeout=120,
                           stdin=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": str(cache), "LC_ALL": "C.UTF-8"})
        assert r.returncode == 0, r.stderr.decode()
        return r.stdout.decode()

    return run


@pytest.fixture
def findings(run):
    def findings(trace, *words):
        return json.loads(run(trace, "--report", "findings", "--json", *words))["rows"]

    return findings


# Rule and share of the time, by hand from other reports or from the trace: what dominates is named, and first.
SICK = [
    ("sglang_decode_8rank", "exposed_expert_parallel", 0.56),
    ("lightllm_decode_8rank", "exposed_expert_parallel", 0.53),
    ("torchrec_sst4_4rank", "straggler", 0.14),
    ("torchrec_sst4_4rank", "allocation_in_step", 0.17),
    ("torchrec_sst5_4rank", "straggler", 0.16),
    ("torchrec_resnet18_2rank", "host_bound", 0.80),  # aten::split_with_sizes takes 21 ms of 43
    ("hta/df_index_resolver.json.gz", "launch_bound", 0.38),
    ("hta/df_index_resolver.json.gz", "exposed_all_reduce", 0.206),
    ("hta/nccl_data_rank0.json.gz", "launch_bound", 0.53),
    ("hta/trace_diff_control.json.gz", "exposed_communication", 0.18),
    ("kineto/resnet50_2021_workers0.json.gz", "starved_by_data", 0.29),  # num_workers=0
    ("kineto/resnet50_2021_workers0.json.gz", "pageable_copy", 0.012),
    ("param/linear_kineto.json.gz", "launch_bound", 0.585),
    ("tracelens/b200_eager_rank0.json.gz", "launch_bound", 0.75),
    ("tracelens/b200_eager_rank0.json.gz", "profiler_overhead", 0.08),
    ("tracelens/h100_qwen15.json.gz", "unfused_elementwise", 0.25),
    ("tracelens/sglang_qwen3_8b_decode.json.gz", "sync_in_step", 0.98),
]
# Nothing to say: graphs keep the GPU at work, or it is one kernel.
HEALTHY = ["tracelens/vllm_decode_full_graph.json.gz", "tracelens/vllm_piecewise_graph.json.gz",
           "tracelens/torch_compile_triton.json.gz", "hta/ns_resolution_rank0.json.gz", "hta/triton_example.json.gz"]


@pytest.mark.parametrize("trace, rule, share", SICK, ids=[f"{t}-{r}" for t, r, _ in SICK])
def test_sick_trace(findings, trace, rule, share):
    rows = findings(trace)
    [row] = [row for row in rows if row["rule"] == rule]
    assert row["share"] == pytest.approx(share, abs=0.015)
    assert [row["cost_ns"] for row in rows] == sorted((row["cost_ns"] for row in rows), reverse=True)
    for row in rows:
        assert row["severity"] in ("high", "medium", "low", "info") and row["confidence"] in ("high", "medium", "low")
        assert all(row[text] for text in ("what", "where", "evidence", "advice", "report"))


@pytest.mark.parametrize("trace", HEALTHY)
def test_healthy_trace(findings, trace):
    assert findings(trace) == []


def test_dispatch_and_combine_are_exposed(findings):
    """As overlap says: no nanosecond of them is hidden on any rank."""
    row = findings("sglang_decode_8rank")[0]
    assert row["rule"] == "exposed_expert_parallel" and row["severity"] == "high" and row["confidence"] == "high"
    assert 57 * MS < row["cost_ns"] < 58.6 * MS
    assert "on every rank, overlapping no computation" in row["what"]
    assert "combine" in row["where"] and "dispatch" in row["where"] and "58 calls a rank" in row["where"]
    assert "--enable-two-batch-overlap" in row["advice"] and "--enable-dbo" in row["advice"]


def test_advice_is_for_the_engine_that_wrote_the_trace(findings):
    [advice] = [row["advice"] for row in findings("tracelens/b200_eager_rank0.json.gz") if row["rule"] == "launch_bound"]
    assert "vLLM" in advice and "SGLang" not in advice
    [advice] = [row["advice"] for row in findings("tracelens/sglang_qwen3_8b_decode.json.gz") if row["rule"] == "sync_in_step"]
    assert "SGLang" in advice and "vLLM" not in advice


def test_place_can_be_looked_at(findings):
    """What `where` names is what --from and --to take; the wait is in it."""
    [row] = findings("tracelens/sglang_qwen3_8b_decode.json.gz")
    begin, end = row["where"].split(" at ")[1].split(",")[0].split(" to ")
    assert begin.endswith("ms") and end.endswith("ms")
    later = f"{float(end.removesuffix('ms')) + 1}ms"
    [again] = findings("tracelens/sglang_qwen3_8b_decode.json.gz", "--from", "0s", "--to", later)
    assert again["rule"] == row["rule"]
    assert findings("tracelens/sglang_qwen3_8b_decode.json.gz", "--from", end) == []


def test_overview_shows_findings_first(run):
    text = run("sglang_decode_8rank")
    assert text.index("Expert-parallel dispatch/combine is exposed") < text.index("kernels")
