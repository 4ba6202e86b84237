# SPDX-License-Identifier: Apache-2.0
"""`./dev demo --hosts 2 --stay`: its hosts can be entered and record together, and nothing of them remains after Ctrl-C."""
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent)]

import services  # noqa: E402
from hosts import BUILD, TESTS  # noqa: E402
from network import why_not  # noqa: E402

from daemon import wait_for  # noqa: E402
from patience import patience  # noqa: E402

READY_S = 120
COMMAND_S = 60
END_S = 30

pytestmark = [pytest.mark.plain, pytest.mark.skipif(bool(why_not() or services.missing()), reason=str(why_not() or services.missing()))]


@pytest.fixture
def entrances(tmp_path):
    paths = ":".join(str(TESTS / name) for name in ("fleet", "integration", "hosts", "."))
    with open(tmp_path / "demo.log", "wb") as log:
        demo = subprocess.Popen([sys.executable, TESTS / "hosts/demo_hosts.py", "--stay", "--hosts", "2", "--dir", tmp_path / "demo"],
                                stdout=log, stderr=log, env={**os.environ, "PROFD_BUILD": str(BUILD), "PYTHONPATH": paths})
    try:
        text = wait_for(lambda: demo.poll() is not None or "Ctrl-C" in (tmp_path / "demo.log").read_text(), READY_S) and \
            (tmp_path / "demo.log").read_text()
        assert demo.poll() is None, text
        yield re.findall(r"^  (/\S+/enter)$", text, re.M)
    finally:
        demo.send_signal(signal.SIGINT)
        try:
            assert demo.wait(patience(END_S)) == 0
        except subprocess.TimeoutExpired:
            demo.terminate()
            raise


def test_the_hosts_of_a_demo_that_stays(entrances):
    def profctl(entrance, *words):
        done = subprocess.run([entrance, "profctl", *words], capture_output=True, text=True, timeout=patience(COMMAND_S), check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    one, two = entrances
    assert "2 of 2 workers" in profctl(one, "start", "--duration", "1s", "--wait")
    assert set(re.findall(r"\bgpu\d\b", profctl(one, "list-traces", "--session", "s1"))) == {"gpu1", "gpu2"}
    assert {"gpu1", "gpu2"} <= set(profctl(two, "query", "--mirror", "select distinct host from targets").split())
