# SPDX-License-Identifier: Apache-2.0
"""The web page over two hosts: hosts_page.mjs in the namespace of one of them."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/hosts"), str(ROOT / "tests/web")]

from network import why_not  # noqa: E402
from test_hosts_analysis import RANKS, RealTraces  # noqa: E402
from test_pages import PACKAGES, need  # noqa: E402

from daemon import wait_for  # noqa: E402
from patience import factor, patience  # noqa: E402

pytestmark = pytest.mark.skipif(why_not() is not None or not RANKS.exists(), reason=str(why_not() or "no real traces"))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    need("playwright-core", "axe-core")
    if not shutil.which("chromium"):
        pytest.skip("no chromium")
    with RealTraces(tmp_path_factory.mktemp("hosts"), 2, 1, options=("--ranks", "2")) as hosts:
        hosts[1].stop()
        hosts[1].config.write_text(f"{hosts[1].config.read_text()}[fleet all]\nrouter={hosts.router}\n")
        hosts[1].start()
        hosts.split, hosts.own = hosts.record(hosts[1], 4), hosts.record(hosts[1])
        yield hosts


def show(host, **data):
    with host.machine.inside():
        done = subprocess.run(["node", Path(__file__).with_name("hosts_page.mjs")], capture_output=True, text=True, timeout=patience(150), check=False,
                              env={**os.environ, "WEB_ADDRESS": host.url, "WEB_SOCKET": str(host.socket), "WEB_TOKENS": "{}", "WEB_PACKAGES": str(PACKAGES),
                                   "WEB_DATA": json.dumps(data), "WEB_TIME_FACTOR": str(factor())})
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_at_the_coordinator(fleet):
    show(fleet[1], split=fleet.split, own=fleet.own)


def test_the_page_without_a_host(fleet):
    """At a host with a part of the session, while the coordinator is away."""
    one, two = fleet[1], fleet[2]
    uuid = one.get(f"/v1/sessions/{fleet.own}")["uuid"]
    wait_for(lambda: not any(host.get("/v1/sessions", state="active")["sessions"] for host in fleet), 30)
    one.kill()
    try:
        show(two, own=two.get(f"/v1/refs?ref={uuid}")["ref"], away=one.name)
    finally:
        one.start()
