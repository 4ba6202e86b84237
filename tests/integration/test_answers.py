# SPDX-License-Identifier: Apache-2.0
"""The answers of each engine and version (tests/fleet/answers), listed through profd and profctl."""

import contextlib
import json
import subprocess
import sys

import pytest

from api_requests import Document
from daemon import BUILD, ROOT, Daemon, quick_config

sys.path.insert(0, str(ROOT / "tests/fleet"))
import answers  # noqa: E402  # pylint: disable=wrong-import-position
import fleet as fleet_of_workers  # noqa: E402  # pylint: disable=wrong-import-position

PROFCTL = BUILD / "client/profctl"
FOLDERS = answers.folders()
FIRST = {"GET /server_info", "GET /version", "GET /openapi.json", "GET /v1/models"}
FOLDERS_MIN = 20
MEMBERS = Document().root["components"]["schemas"]["Worker"]["properties"]


@pytest.fixture(scope="module", name="listed")
def list_all(tmp_path_factory):
    """Each folder's server and the worker that profctl lists for it: all of them in one fleet."""
    tmp_path = tmp_path_factory.mktemp("answers")
    with contextlib.ExitStack() as stack:
        servers = {folder: stack.enter_context(answers.serve(folder)) for folder in FOLDERS}
        with Daemon(tmp_path / "profd", quick_config()) as profd:
            options = [word for server in servers.values() for word in ("--worker", server.url)]
            done = subprocess.run([PROFCTL, "--socket", profd.socket, "list-workers", "--json", *options],
                                  capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            shown = subprocess.run([PROFCTL, "--socket", profd.socket, "list-workers", *options],
                                   capture_output=True, text=True, check=True).stdout
        workers = {worker["url"]: worker for worker in json.loads(done.stdout)["workers"]}
        yield {folder: (server, workers[server.url], shown) for folder, server in servers.items()}


def has(have, want):
    if isinstance(want, dict):
        return isinstance(have, dict) and all(has(have.get(key), value) for key, value in want.items())
    return have == want


def test_there_are_folders():
    assert len(FOLDERS) >= FOLDERS_MIN
    assert set(FOLDERS) == {path.name for path in answers.HERE.iterdir() if path.is_dir()}


@pytest.mark.parametrize("folder", FOLDERS)
def test_folder(listed, folder):
    server, worker, shown = listed[folder]
    expect = answers.manifest(folder)["expect"]
    assert has(worker, expect["worker"]), worker
    for key, value in worker.items():
        assert value in MEMBERS[key].get("enum", [value]), f"{key} {value} is not in openapi.yaml"
    for key in ("reason", "remedy", "note"):
        if key not in expect:
            continue
        if expect[key] is None:
            # What profd adds about processes and directories of this host is not a matter of the answers.
            assert key == "note" or not worker.get(key), worker
        else:
            assert expect[key] in worker[key]
    assert server.url.rpartition(":")[2] in shown


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_that_starts_a_profiler_is_asked(listed, folder):
    """SGLang starts its profiler on GET; only a proven vLLM is asked HEAD, which it answers 405 or 404."""
    server, worker, _ = listed[folder]
    asked = set(server.requests)
    assert asked, "the server was not asked at all"
    assert FIRST <= asked
    profile = {request for request in asked if "profile" in request}
    assert profile <= ({"HEAD /start_profile"} if worker["engine"] == "vllm" else set())
    assert all(request.startswith(("GET ", "HEAD /start_profile")) for request in asked)
    expect = answers.manifest(folder)["expect"]
    if "asked" in expect:
        assert asked - FIRST == set(expect["asked"])
    assert all(server.requests.count(request) <= 2 for request in asked), "asked more than once for each list"


@pytest.mark.parametrize("data, ending", [("tree", "hatchet"), ("trace", "chrome_trace")])
def test_proton_is_collected(tmp_path, data, ending):
    """A vLLM with the profiler "proton": its files are the traces that the session waits for, one for each rank."""
    proton = {"profiler": "proton", "torch_profiler_dir": "", "proton_profiler_dir": str(tmp_path / "proton"), "proton_data": data}
    with fleet_of_workers.Fleet(tmp_path / "fleet") as fleet, Daemon(tmp_path / "profd", quick_config()) as profd:
        fleet.add_vllm("--vllm-version", "0.28.0", "-tp", "2", profiler_config=proton)
        fleet.wait_ready()
        url = fleet.workers[0].url
        (worker,) = profd.get(f"/v1/workers?worker={url}")["workers"]
        assert worker["setup"]["kind"] == "proton" and worker["traces"]["dir"] == str(tmp_path / "proton")
        asked = profd.start_session(workers=[url], duration_ns=200_000_000)
        assert any('its profiler is "proton"' in remark["text"] for remark in asked["remarks"])
        assert not any("stacks" in remark["text"] for remark in asked["remarks"])
        session = profd.wait_session(asked["session"])
        assert session["state"] == "complete", session
        names = sorted(trace["name"] for trace in profd.get(f"/v1/traces?session={asked['session']}")["traces"])
        assert [name.partition("_pid")[0] for name in names] == [f"proton_dp0_pp0_tp{n}_dcp0_ep0_rank{n}" for n in (0, 1)]
        assert all(name.endswith(f"_run0.{ending}") for name in names), names
