# SPDX-License-Identifier: Apache-2.0
"""Job files of srtctl carried out: each phase is recorded under its own load, and its traces are found where srtctl puts them."""
import os
import re
import subprocess
import sys

import pytest

from daemon import BUILD, ROOT, Daemon, quick_config

sys.path.insert(0, str(ROOT / "tests" / "fleet"))
from fleet import Fleet  # noqa: E402

# Of December 2025: the load stands in the phases. As many at a time as there are requests: a few steps serve them all.
RECIPE = """name: profiling
resources: {prefill_nodes: 1, decode_nodes: 1, prefill_workers: 1, decode_workers: 1}
profiling:
  type: torch
  prefill: {isl: 8, osl: 3, concurrency: 128, start_step: 0, stop_step: 2}
  decode: {isl: 8, osl: 3, concurrency: 128, start_step: 0, stop_step: 3}
"""


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    directory = tmp_path_factory.mktemp("recipe")
    with Fleet(directory / "fleet") as fleet:
        for name in ("p", "d"):
            fleet.add_sglang(name=name)
        router = fleet.add_router("sglang", roles={"p": "prefill", "d": "decode"})
        with Daemon(directory / "profd", quick_config()) as profd:
            fleet.wait_ready()
            yield profd, router, directory


def start(scene, text, *words):
    profd, router, directory = scene
    (directory / "job.yaml").write_text(text)
    return subprocess.run([BUILD / "client/profctl", "--socket", profd.socket, "start", "--router", router.url, "--recipe",
                           directory / "job.yaml", *words], text=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
                          env={**os.environ, "SLURM_JOB_ID": "17"})


def test_phases_are_recorded_one_after_another(scene):
    profd, _, _ = scene
    done = start(scene, RECIPE, "--label", "a=b")
    assert done.returncode in (0, 3), done
    assert "prefill: 2 steps; 30 to 100 are usual" in done.stderr
    folder = re.search(r"^(17_1P_1D_\d{8}_\d{6})/profiles/prefill$", done.stderr, re.M)[1]
    prefill, decode = (profd.session(number) for number in ("s1", "s2"))
    for session, role, steps in ((prefill, "prefill", 2), (decode, "decode", 3)):
        assert [target["role"] for target in session["targets"]] == [role]
        assert session["options"]["steps"] == steps and session["labels"] == {"a": "b"}
        run = profd.get(f"/v1/runs/{session['run']}")
        assert run["workload"]["isl"] == 8 and run["workload"]["concurrency"] == 128
        assert run["requests"]["success"] == 128
    store = profd.state / "traces" / folder
    for session, phase in ((prefill, "prefill"), (decode, "decode")):
        names = sorted(path.name for path in (store / "profiles" / phase).iterdir())
        assert names == sorted(trace["name"] for trace in profd.traces(session=session["session"])) and names
        text = (store / f"profile_{phase}.out").read_text()
        assert f"{phase}: session {session['session']} is complete" in text and "(200)" in text

    profd.request("DELETE", "/v1/sessions/s1")
    assert not (store / "profiles/prefill").is_symlink() and not (store / "profile_prefill.out").exists()
    assert (store / "profiles/decode").is_dir()
    profd.request("DELETE", "/v1/sessions/s2")
    assert not store.exists()


@pytest.mark.parametrize("text, words, says", [
    (RECIPE.replace("decode_workers: 1", "decode_workers: 2"), [],
     "job.yaml:2: Profiling mode requires single worker only. Got decode_workers=2"),
    (RECIPE + "benchmark:\n  type: sa-bench\n", [], "job.yaml:8: Cannot enable profiling with benchmark type 'sa-bench'."),
    (RECIPE, ["--steps", "3"], "--recipe says itself what is recorded"),
])
def test_refused_before_anything_starts(scene, text, words, says):
    done = start(scene, text, *words)
    assert done.returncode == 2 and says in done.stderr, done
