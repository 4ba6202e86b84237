# SPDX-License-Identifier: Apache-2.0
"""docs/security.md names a test for each promise: the tests that it names exist."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATTERNS = {"u": "tests/unit/test-{}.c", "i": "tests/integration/test_{}.py", "b": "tests/boot/test_{}.py", "f": "tests/fuzz/fuzz-{}.c"}


def named_tests():
    """(kind, name) of each test in brackets; names after "f" are fuzz targets."""
    text = (ROOT / "docs/security.md").read_text()
    for bracket in re.findall(r"\[((?:[uib] |f )[^\]]*)\]", text):
        kind = None
        for word in re.split(r"[,;]\s*", bracket.replace("\n", " ")):
            kind, name = word.split(" ", 1) if re.match(r"[uibf] ", word) else (kind, word)
            yield kind, name.strip()


def test_each_promise_names_tests_that_exist():
    names = list(named_tests())
    assert len(names) > 100
    missing = [f"{kind} {name}" for kind, name in names if not (ROOT / PATTERNS[kind].format(name)).exists()]
    assert missing == []
