# SPDX-License-Identifier: Apache-2.0
"""Where all tests must run, none is skipped for what the machine lacks."""

import os
import subprocess
import sys

import pytest

from daemon import ROOT

pytestmark = pytest.mark.plain

TESTS = '''
import pytest

@pytest.mark.skipif(True, reason="no /dev/net/tun")
def test_mark(): pass

def test_call(): pytest.skip("needs the Debian package postgresql-15")

def test_excused(): pytest.skip("sanitized builds have no filter")
'''


@pytest.mark.parametrize(("given", "expected"), [
    ({}, "3 skipped"), ({"CI": "true"}, "1 failed, 1 skipped, 1 error"), ({"PROFD_REQUIRE_ALL": "1"}, "1 failed, 1 skipped, 1 error"),
    ({"CI": "true", "PROFD_REQUIRE_ALL": "0"}, "3 skipped")])
def test_what_is_missing_fails(tmp_path, given, expected):
    (tmp_path / "test_skips.py").write_text(TESTS)
    others = {name: value for name, value in os.environ.items() if name not in ("CI", "PROFD_REQUIRE_ALL")}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", tmp_path], cwd=tmp_path, check=False,
                          capture_output=True, text=True, timeout=60, env={**others, **given, "PYTHONPATH": str(ROOT / "tests")})
    assert expected in done.stdout, done.stdout + done.stderr
    if "failed" in expected:
        assert "no /dev/net/tun: this test may not be skipped here" in done.stdout
