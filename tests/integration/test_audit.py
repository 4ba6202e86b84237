# SPDX-License-Identifier: Apache-2.0
"""profctl audit, of a model in ONNX: served by the worker that profctl brings, measured through profd, written as a document.

ONNX Runtime and its tokenizers are stood in for by fake_onnx where they are not installed; everything else is real."""
import json
import os
import re
import statistics
import subprocess

import pytest

from daemon import BUILD, ROOT, Daemon, quick_config

PROMPTS = "one two three\nfour five\n"
# Of a model whose next token is the sum of all before it, modulo 97.
STEP_S = 0.004


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("audit") / "profd", quick_config()) as daemon:
        yield daemon


@pytest.fixture
def model(tmp_path):
    (tmp_path / "tiny.onnx").write_text(json.dumps({"cache": True, "slow_s": STEP_S}))
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer/tokenizer.json").write_text("{}")
    (tmp_path / "prompts.txt").write_text(PROMPTS)
    return tmp_path


def audit(profd, directory, *words, runtime=True):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests/integration/fake_onnx") if runtime else "", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([BUILD / "client/profctl", "--socket", profd.socket, "audit", *map(str, words)], cwd=directory, text=True,
                          capture_output=True, timeout=60, stdin=subprocess.DEVNULL, env=environment)


def of_onnx(*words):
    return ["--onnx", "tiny.onnx", "--tokenizer", "tokenizer", "--prompts", "prompts.txt", "--osl", 6, *words]


def test_figures_are_those_of_the_model(profd, model):
    done = audit(profd, model, "--json", *of_onnx("--repeat", 4, "--sweep", "concurrency=1,2,4", "--price-per-hour", 2))
    assert done.returncode == 0, done
    facts = json.loads(done.stdout)
    run = facts["run"]
    assert run["requests"] == {"success": 8, "incomplete": 0, "error": 0} and run["model"] == "tiny"
    assert run["tokens"]["output_source"] == "usage"
    # Between two tokens the model takes at least its step.
    assert STEP_S * 1e3 <= run["metrics"]["tpot_ms"]["p50"] < 10 * STEP_S * 1e3
    first, second = facts["prompts"]
    assert (first["text"], first["input_tokens"], first["output_tokens"]) == ("one two three", 3, 6)
    assert (second["text"], second["input_tokens"]) == ("four five", 2)
    assert first["requests"] + second["requests"] == 7  # the first of all was cold
    assert [point["concurrency"] for point in facts["sweep"]] == [1, 2, 4]
    assert [point["run"]["requests"]["success"] for point in facts["sweep"]] == [4, 8, 16]
    assert facts["model"]["engine"] == "ONNX Runtime"
    assert facts["hardware"]["of_worker"] and facts["hardware"]["processors"] == os.cpu_count()
    # ONNX Runtime's own profile is a trace, and nothing is left behind.
    trace = profd.traces()[0]
    assert trace["state"] == "complete" and trace["labels"] == {"audit": "onnx"} and trace["events"] > 8 * 6
    assert not os.path.exists(os.path.dirname(trace["origin"]))


@pytest.mark.parametrize("name", ["audit.md", "audit.html"])
def test_document(profd, model, name):
    done = audit(profd, model, *of_onnx("--sweep", "none", "--repeat", 2, "-o", name))
    assert done.returncode == 0 and done.stdout == "", done
    text = (model / name).read_text()
    for heading in ("Executive summary", "Key findings", "Hardware", "Test configuration", "Percentiles", "Throughput", "Correlation",
                    "Outliers", "Cold and warm", "Sizing", "Memory", "Limitations"):
        assert re.search(f"(## |<h2>){heading}", text), heading
    assert "tiny answered 4 of 4 requests." in text and "Warm-up requests: 2" in text
    assert "tokens/s of output, " in text and "tokens/s of input, " in text
    assert "http://" not in text.replace("http://127.0.0.1", "")
    assert text.startswith("<!DOCTYPE html>" if name.endswith("html") else "# Performance audit of tiny")


def spread(values):
    return {"n": len(values), "mean": statistics.fmean(values), "std": statistics.pstdev(values), "min": min(values),
            "p50": statistics.median(values), "max": max(values)}


def ranks(values):
    """Mean ranks."""
    return [sum(other < v for other in values) + (sum(other == v for other in values) - 1) / 2 for v in values]


def test_spread_and_correlation_are_those_of_the_requests(profd, model):
    """Against figures that Python's statistics computes of the same requests."""
    done = audit(profd, model, "--json", *of_onnx("--repeat", 8, "--batch-sizes", "1,2"))
    assert done.returncode == 0, done
    facts = json.loads(done.stdout)
    assert [point["concurrency"] for point in facts["sweep"]] == [1, 2]
    requests = [r for r in profd.get(f"/v1/runs/r{facts['run']['run']}/requests", format="json")["requests"]
                if r["outcome"] == "success" and not r["cold"]]
    assert len(requests) == 15
    for key, tokens in (("input_tokens_per_s", lambda r: r["input_tokens"]), ("output_tokens_per_s", lambda r: r["output_tokens"]),
                        ("total_tokens_per_s", lambda r: r["input_tokens"] + r["output_tokens"])):
        assert facts["rates"][key] == pytest.approx(spread([tokens(r) / (r["e2e_ns"] / 1e9) for r in requests]))
    found = facts["run"]["correlation"]
    lengths, first = [r["input_tokens"] for r in requests], [r["ttft_ns"] for r in requests]
    assert found["input_tokens_ttft_n"] == 15
    assert found["input_tokens_ttft"] == pytest.approx(statistics.correlation(lengths, first))
    assert found["input_tokens_ttft_rank"] == pytest.approx(statistics.correlation(ranks(lengths), ranks(first)))
    assert found["output_tokens_e2e"] is None  # all answers had six tokens
    rss = facts["run"]["memory"]["workers"][0]["rss_bytes"]
    assert rss["low"] <= rss["mean"] <= rss["peak"] and rss["n"] > 0 and 0 <= rss["std"] <= rss["peak"] - rss["low"]


def test_a_plan_comes_first(profd, model):
    before = len(profd.rows("select run_id from runs"))
    done = audit(profd, model, "--dry-run", "--json", *of_onnx("--repeat", 4, "--sweep", "concurrency=1,2,8"))
    assert done.returncode == 0 and len(profd.rows("select run_id from runs")) == before, done
    plan = json.loads(done.stdout)
    assert [one["requests"] for one in plan["runs"]] == [8, 4, 8, 32] and plan["requests"] == 52 and plan["estimated_s"] is None
    done = audit(profd, model, *of_onnx("--repeat", 4, "--sweep", "concurrency=1,2"))
    assert "Plan: 3 runs, 20 requests; the first run shows how long the others take" in done.stderr
    assert re.findall(r"^Step (\d) of 3(?:, .*) left$", done.stderr, re.M) == ["2", "3"], done.stderr


@pytest.mark.parametrize("words, says", [
    (["--onnx", "tiny.onnx"], "--onnx needs --tokenizer"),
    (["--tokenizer", "x", "--worker", "http://127.0.0.1:1"], "--tokenizer is for --onnx"),
    (of_onnx("--worker", "http://127.0.0.1:1"), "excludes options that name workers"),
    (of_onnx("--sweep", "isl=1,2"), "varies concurrency"),
    (of_onnx("--sweep", "concurrency=1", "--batch-sizes", "1"), "--batch-sizes and --sweep exclude each other"),
    (of_onnx("--batch-sizes", "0"), "is not a number above 0"),
    (of_onnx("-o", "audit.pdf"), "'audit.pdf' ends neither in .md nor in .html"),
    (["--onnx", "tiny.onnx", "--tokenizer", "nowhere", "--prompts", "prompts.txt"], "nowhere has no tokenizer.json"),
])
def test_refused(profd, model, words, says):
    done = audit(profd, model, *words)
    assert done.returncode not in (0, 3) and says in done.stderr, done


def test_without_the_runtime(profd, model):
    done = audit(profd, model, *of_onnx(), runtime=False)
    assert done.returncode == 1 and "pip install onnxruntime" in done.stderr and "is not served" in done.stderr, done
