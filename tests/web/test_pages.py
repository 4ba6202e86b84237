# SPDX-License-Identifier: Apache-2.0
"""The web page in a real Chromium, served by a real profd that has real traces: each NAME.test.mjs is a program of Node's test
runner (page.mjs has what they share). Types are checked by tsc."""

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/integration"), str(ROOT / "tests/web")]
from analysis_data import fill_analysis  # noqa: E402
from daemon import FINAL, Daemon, FaultFleet, free_port, quick_config, token_line, wait_for, write_tokens  # noqa: E402
from patience import factor, patience  # noqa: E402
from real_traces import CORPUS  # noqa: E402

PACKAGES = ROOT / ".cache/npm"
SCRIPTS = sorted({path.name for path in Path(__file__).parent.glob("*.test.mjs")} - {"screenshots.test.mjs"})  # test_screenshots.py
TOKENS = {role: f"profd_{number:064x}" for number, role in enumerate(("read", "operate", "admin"), 1)}
# A name that would do harm as HTML.
HOSTILE = "<img src=x onerror=alert(1)>.json"


def need(*packages):
    for name in packages:
        if not (PACKAGES / name).is_dir():
            pytest.skip(f"no {name} in .cache/npm; ./dev test unpacks it")
    if not shutil.which("node"):
        pytest.skip("no node")


def test_types():
    need("typescript")
    done = subprocess.run(["node", PACKAGES / "typescript/lib/tsc.js", "--project", ROOT / "web"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def imported(profd, path, **more):
    """The trace of a file, which is there again where it was before."""
    reply = profd.request("POST", "/v1/traces", {"path": str(path), **more})
    assert reply.status in (200, 201), reply
    return reply.json()["trace"]


def fill(profd, fleet, directory):
    """What the catalog has: imported ranks, a recording of the fleet, and names that would do harm."""
    ranks = [imported(profd, CORPUS / f"lightllm_decode_8rank/rank{rank}.pt.trace.json.gz", session="lightllm-decode") for rank in range(8)]
    hostile = directory / HOSTILE
    shutil.copy(CORPUS / "hta/cpu_only_rank34.json.gz", hostile.with_suffix(".json.gz"))
    hostile = imported(profd, hostile.with_suffix(".json.gz"), labels={"origin": "<b>somewhere</b>"})
    steps = imported(profd, CORPUS / "kineto/resnet50_2021_workers0.json.gz")
    late = [imported(profd, CORPUS / f"torchrec_sst4_4rank/rank{rank}.pt.trace.json.gz") for rank in range(4)]
    started = profd.start_session(router=fleet.router, duration_ns=200_000_000, labels={"purpose": "nightly"})
    recorded = profd.wait_session(started["session"])
    def wait(run):
        wait_for(lambda: profd.get(f"/v1/runs/r{run}")["state"] in FINAL, 60)

    return {"ranks": ranks, "imported": profd.get(f"/v1/traces/{ranks[0]}")["session"], "hostile": hostile, "recorded": recorded["session"],
            "steps": steps, "late": late, "analysis": fill_analysis(profd, fleet, directory, wait),
            "router": fleet.router, "workers": fleet.workers}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Environment of the programs."""
    directory = tmp_path_factory.mktemp("web")
    port = free_port()
    tokens = write_tokens(directory / "tokens", "".join(token_line(role, role, token) for role, token in TOKENS.items()))
    with FaultFleet(directory / "fleet", "vllm", 3) as fleet:
        config = f"[profd]\nlisten=127.0.0.1:{port}\n[http]\ntokens_file={tokens}\n[fleet prod]\nrouter={fleet.router}\n" + quick_config()
        with Daemon(directory / "profd", config) as profd:
            data = fill(profd, fleet, directory)
            yield {"WEB_ADDRESS": f"http://127.0.0.1:{port}", "WEB_SOCKET": str(profd.socket), "WEB_TOKENS": json.dumps(TOKENS), "WEB_DATA": json.dumps(data)}


def ask(page, method, path, body=None, token=None):
    """Status and text of the answer."""
    with contextlib.closing(http.client.HTTPConnection(page["WEB_ADDRESS"].removeprefix("http://"), timeout=30)) as connection:
        head = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), head | ({"Authorization": f"Bearer {token}"} if token else {}))
        reply = connection.getresponse()
        return reply.status, reply.read()


@pytest.fixture(scope="module")
def early(page):
    """A code and a ticket that nobody uses, made before the programs run, which takes most of the time that they hold for."""
    trace = json.loads(page["WEB_DATA"])["steps"]
    made = [ask(page, "POST", "/v1/web/codes", {}, TOKENS["operate"]),
            ask(page, "POST", "/v1/tickets", {"path": f"/v1/traces/{trace}/file"}, TOKENS["read"])]
    assert [status for status, _ in made] == [201, 201], made
    return [json.loads(text) for _, text in made]


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("script", SCRIPTS)
def test_page(page, script):
    need("playwright-core", "axe-core")
    if not shutil.which("chromium"):
        pytest.skip("no chromium")
    done = subprocess.run(["node", Path(__file__).with_name(script)], capture_output=True, text=True, timeout=patience(150), check=False,
                          env={**os.environ, **page, "WEB_PACKAGES": str(PACKAGES), "WEB_TIME_FACTOR": str(factor())})
    assert done.returncode == 0, done.stdout + done.stderr


def test_codes_and_tickets_expire(page, early):
    code, ticket = early
    wait_for(lambda: time.time_ns() > max(code["expires_at"], ticket["expires_at"]), 120, 0.2)
    assert ask(page, "POST", "/v1/web/login", {"code": code["code"]})[0] == 401
    assert ask(page, "GET", ticket["url"])[0] == 404
