# SPDX-License-Identifier: Apache-2.0
"""The tests' own deadlines and reports: one factor for all deadlines, and a short reason of a failure."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import patience
import pytest

pytestmark = pytest.mark.plain

TESTS = Path(__file__).resolve().parents[1]

LARGE_FAILURE = """
import subprocess, pytest

def test_large(tmp_path):
    answer = {"workers": [{"url": f"http://worker:{i}", "note": "x" * 100} for i in range(2000)]}
    print("\\n".join(f"line {i}" for i in range(5000)))
    print("y" * 300_000)
    assert answer["workers"] == [], answer

def test_nested():
    def inner(answer):
        raise RuntimeError(answer)
    inner("z" * 300_000 + " the end")
"""


def test_factor_is_that_of_the_environment(monkeypatch):
    monkeypatch.setenv(patience.VARIABLE, "3")
    assert patience.patience(2) == 6 and patience.patience(None) is None
    monkeypatch.setenv(patience.VARIABLE, "0.5")
    assert patience.patience(2) == 2
    monkeypatch.delenv(patience.VARIABLE)
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 0, 0))
    assert patience.factor() == patience.FACTOR_MAX
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0, 0))
    assert patience.factor() == 1


def test_long_timeouts_of_children_are_scaled_and_short_ones_are_not(monkeypatch):
    monkeypatch.setenv(patience.VARIABLE, "3")
    monkeypatch.setattr(patience, "LONG_S", 1)
    subprocess.run(["sleep", "1.5"], timeout=1, check=True)
    begin = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["sleep", "20"], timeout=0.5, check=False)
    assert time.monotonic() - begin < 15


def test_a_failure_is_reported_in_brief(tmp_path):
    file = tmp_path / "test_large.py"
    file.write_text(LARGE_FAILURE)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", "--basetemp", tmp_path / "temp",
                           file], capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(TESTS), "CI": "1"},
                          check=False, cwd=tmp_path)
    assert done.returncode == 1 and "2 failed" in done.stdout
    assert len(done.stdout) < 30_000 and max(map(len, done.stdout.splitlines())) < 1000
    assert "http://worker:0" in done.stdout and "line 0\n" in done.stdout and "RuntimeError: zzz" in done.stdout
    complete = [Path(path).read_text() for path in re.findall(r"/\S+/reports/\S+\.txt", done.stdout)]
    assert len(complete) == 2
    assert "http://worker:1999" in complete[0] and "line 4321\n" in complete[0] and "y" * 300_000 in complete[0]
    assert complete[1].count("z" * 300_000 + " the end") >= 1
