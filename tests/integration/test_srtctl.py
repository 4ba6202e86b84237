# SPDX-License-Identifier: Apache-2.0
"""Recipes as srtctl's own code reads them: $SRT_SLURM names a checkout of github.com/NVIDIA/srt-slurm, whose modules (and what they
import: marshmallow_dataclass, ruamel.yaml) must be importable."""
import collections
import copy
import json
import logging
import os
import pathlib
import random
import subprocess
import sys
import types
import unittest.mock

import pytest

from daemon import BUILD

CHECKOUT = pathlib.Path(os.environ.get("SRT_SLURM", ""))
if not os.environ.get("SRT_SLURM"):
    pytest.skip("$SRT_SLURM names no checkout of srt-slurm", allow_module_level=True)
sys.path.insert(0, str(CHECKOUT / "src"))
try:
    import yaml
    from srtctl.core import config, schema, sweep
    from srtctl.core.topology import allocate_endpoints
except ImportError as error:
    pytest.skip(f"srtctl cannot be imported: {error}", allow_module_level=True)

FILES = sorted(path for folder in ("recipes", "examples") for path in (CHECKOUT / folder).rglob("*.y*ml"))
NODES = [f"n{number}" for number in range(500)]
MODES = {"prefill": "prefill", "decode": "decode", "agg": "aggregated"}


@pytest.fixture(scope="module", autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def refusal(job):
    """Why srtctl refuses a job, or None."""
    job = copy.deepcopy(job)
    job.pop("lock", None)
    try:
        schema.SrtConfig.Schema().load(job)
    except Exception as error:  # pylint: disable=broad-except
        return str(error)
    return None


def variants(path):
    """[(name, job)] of a file, by srtctl."""
    raw = yaml.safe_load(path.read_text())
    if "base" in raw:
        return config.generate_override_configs(raw)
    if "sweep" in raw:
        return [("_".join(f"{key}{value}" for key, value in values.items()), job)
                for job, values in sweep.generate_sweep_configs(raw)]
    return [(None, raw)]


def profctl(*words):
    return subprocess.run([BUILD / "client/profctl", *map(str, words)], text=True, capture_output=True, timeout=300,
                          stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def checked():
    """What check-recipe says of all files: {file: [job]}."""
    done = profctl("check-recipe", "--json", *FILES)
    jobs = collections.defaultdict(list)
    for job in json.loads(done.stdout):
        jobs[job["file"]].append(job)
    return jobs


def test_every_file_is_resolved_as_by_srtctl(checked):
    assert len(FILES) > 500
    n = 0
    for path in FILES:
        theirs, ours = variants(path), checked[str(path)]
        assert [name for name, _ in theirs] == [job.get("variant") for job in ours], path
        for (_, job), our in zip(theirs, ours):
            if "sweep" in yaml.safe_load(path.read_text()):
                assert our["name"] == job["name"]
            else:
                assert our["recipe"] == job, path
            n += 1
    assert n > 600


def test_what_srtctl_accepts_is_accepted(checked):
    """Recipes of January 2026, which srtctl no longer reads, are accepted in addition."""
    for path in FILES:
        if refusal(variants(path)[0][1]) is None:
            assert checked[str(path)], path


def keys_of(job, path=()):
    """Places of keys that the schema knows: not what is handed to engines, nor the names of variables."""
    for key, value in job.items():
        yield path + (key,)
        if isinstance(value, dict) and key in ("model", "resources", "slurm", "backend", "frontend", "dynamo", "benchmark",
                                               "profiling", "prefill", "decode", "infra", "health_check", "identity"):
            if path and path[-1].endswith("_config"):
                continue
            yield from keys_of(value, path + (key,))


def with_change(job, place, change):
    job = copy.deepcopy(job)
    section = job
    for key in place[:-1]:
        section = section[key]
    change(section, place[-1])
    return job


def misspell(section, key):
    section[key + "x"] = section.pop(key)


def retype(section, key):
    section[key] = [{"x": 1}] if not isinstance(section[key], list) else {"x": [1]}


@pytest.mark.parametrize("change", [misspell, retype])
def test_what_srtctl_refuses_of_a_changed_file_is_refused(tmp_path, change):
    """One key of each of 60 files is changed. A key that srtctl requires may be missing for profd, but not be misspelt."""
    choose = random.Random(7)
    changed = {}
    for path in choose.sample(FILES, 60):
        raw = yaml.safe_load(path.read_text())
        if "base" in raw or "sweep" in raw:
            continue
        place = choose.choice(list(keys_of(raw)))
        job = with_change(raw, place, change)
        name = tmp_path / f"{len(changed)}.json"
        name.write_text(json.dumps(job))
        changed[str(name)] = (path, place, refusal(job))
    accepted = {job["file"] for job in json.loads(profctl("check-recipe", "--json", *changed).stdout)}
    for name, (path, place, reason) in changed.items():
        assert (reason is None) == (name in accepted), (path, place, reason)
    assert sum(reason is not None for _, _, reason in changed.values()) > 40


def command_of_srtctl(job, mode, index, rank):
    """As its worker stage builds it for one process."""
    loaded = schema.SrtConfig.Schema().load({key: value for key, value in job.items() if key != "lock"})
    resources, backend = loaded.resources, loaded.backend
    endpoints = allocate_endpoints(
        num_prefill=resources.num_prefill, num_decode=resources.num_decode, num_agg=resources.num_agg,
        gpus_per_prefill=resources.gpus_per_prefill, gpus_per_decode=resources.gpus_per_decode,
        gpus_per_agg=resources.gpus_per_agg, gpus_per_node=resources.gpus_per_node,
        available_nodes=NODES[:max(resources.total_nodes, 1)], spread_workers=resources.spread_workers)
    processes = backend.endpoints_to_processes(endpoints)
    own = [process for process in processes if (process.endpoint_mode, process.endpoint_index) == (mode, index)]
    model = pathlib.Path(loaded.model.path.removeprefix("hf:"))
    runtime = types.SimpleNamespace(model_path=model, is_hf_model=loaded.model.path.startswith("hf:"),
                                    request_plane=loaded.dynamo.request_plane, frontend_port=8000, network_interface=None)
    with unittest.mock.patch("srtctl.core.slurm.get_hostname_ip", lambda *_: "${LEADER_IP}"):
        return own[rank].node, backend.build_worker_command(
            process=own[rank], endpoint_processes=own, runtime=runtime, frontend_type=loaded.frontend.type,
            dump_config_path=pathlib.Path(f"/logs/{own[rank].node}_config.json"), profiling=loaded.profiling)


def test_workers_are_started_as_by_srtctl(tmp_path):
    """Each file of SGLang, made to record for torch: the last worker and its last node of each role."""
    n = 0
    for number, path in enumerate(FILES):
        for name, job in variants(path):
            if job.get("backend", {}).get("type", "sglang") != "sglang" or refusal(job):
                continue
            roles = ["prefill", "decode"] if "prefill_nodes" in job["resources"] or "decode_nodes" in job["resources"] else ["agg"]
            steps = {"start_step": 1, "stop_step": 31}
            job = {**job, "profiling": {"type": "torch", **{MODES[role]: steps for role in roles}}}
            if refusal(job):
                continue
            file = tmp_path / f"{number}-{name}.json"
            file.write_text(json.dumps(job))
            for role in roles:
                index = (job["resources"].get(f"{role}_workers") or 1) - 1
                node, theirs = command_of_srtctl(job, role, index, -1)
                rank = int(theirs[theirs.index("--node-rank") + 1]) if "--node-rank" in theirs else 0
                done = profctl("torch-command", "--json", "--recipe", file, "--mode", MODES[role], "--worker-index", index,
                               "--rank", rank, "--node", node)
                assert done.returncode == 0, (path, done.stderr)
                assert json.loads(done.stdout)["command"] == theirs, (path, name, role)
                n += 1
            if n > int(os.environ.get("SRT_SLURM_WORKERS", 150)):
                return
    assert n > 50
