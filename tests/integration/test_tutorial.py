# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md: its commands work on the demo fleet, in its order, and print the tables that it shows."""
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import BUILD, wait_for
from patience import patience

pytestmark = pytest.mark.plain

ROOT = Path(__file__).resolve().parents[2]
IS_SANITIZED = "asan" in BUILD.name
READY_S = 120
COMMAND_S = 120
END_S = 30


def shown():
    """(command, lines that follow it) of each command in the tutorial but the first, which starts the fleet."""
    text = (ROOT / "docs/tutorial.md").read_text()
    for command, output in re.findall(r"^    \$ (.+)\n((?:    (?!\$).*\n|(?=\n    )\n)*)", text, re.M):
        if not command.startswith("./dev"):
            yield command, [line.strip() for line in output.split("\n")]


def headers(lines):
    """Names of columns, of lines that consist of them."""
    return [line.split() for line in lines if re.fullmatch(r"[A-Z][A-Z ]{5,}[A-Z]", re.sub(r"\b(ms|us)\b", "", line).strip())]


@pytest.fixture
def environment(tmp_path):
    with open(tmp_path / "demo.log", "wb") as log:
        demo = subprocess.Popen([sys.executable, ROOT / "tests/fleet/demo.py", "--stay", "--dir", tmp_path / "demo"], stdout=log,
                                stderr=log, env={**os.environ, "PROFD_BUILD": str(BUILD)}, cwd=ROOT)
    try:
        text = wait_for(lambda: "Ctrl-C" in (text := (tmp_path / "demo.log").read_text()) and text, patience(READY_S))
        exported = dict(re.findall(r"(PROFD_\w+)=(\S+)", text))
        yield {**os.environ, **exported, "PATH": f"{BUILD / 'client'}:{os.environ['PATH']}", "COLUMNS": "100", "XDG_CACHE_HOME": str(tmp_path)}
    finally:
        demo.send_signal(signal.SIGINT)
        try:
            demo.wait(patience(END_S))
        except subprocess.TimeoutExpired:
            demo.terminate()
            raise


@pytest.mark.skipif(IS_SANITIZED, reason="profctl's texts are the same there")
def test_commands_of_the_tutorial(environment):
    commands = list(shown())
    assert len(commands) >= 11
    for command, lines in commands:
        done = subprocess.run(command, shell=True, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=patience(COMMAND_S))
        assert done.returncode == 0, (command, done.stderr)
        printed = headers(line.strip() for line in (done.stdout + done.stderr).split("\n"))
        for header in headers(lines):
            assert header in printed, (command, header)
