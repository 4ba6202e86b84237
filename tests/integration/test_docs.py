# SPDX-License-Identifier: Apache-2.0
"""What the documentation names exists: the tests of docs/security.md, the files of docs/architecture.md, its links."""
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.plain

ROOT = Path(__file__).resolve().parents[2]
PATTERNS = {"u": "tests/unit/test-{}.c", "i": "tests/integration/test_{}.py",
            "b": "tests/boot/test_{}.py", "h": "tests/hosts/test_{}.py", "f": "tests/fuzz/fuzz-{}.c"}


def named_tests():
    """(kind, name) of each test in brackets; names after "f" are fuzz targets."""
    text = (ROOT / "docs/security.md").read_text()
    for bracket in re.findall(r"\[([uibhf]\s[^\]]*)\]", text):
        kind = None
        for word in re.split(r"[,;]\s*", " ".join(bracket.split())):
            kind, name = word.split(" ", 1) if re.match(r"[uibhf] ", word) else (kind, word)
            yield kind, name.strip()


def test_each_promise_names_tests_that_exist():
    names = list(named_tests())
    assert len(names) > 100
    missing = [f"{kind} {name}" for kind, name in names if not (ROOT / PATTERNS[kind].format(name)).exists()]
    assert missing == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_named_files_exist(page):
    files = {path.name for folder in ("base", "proto", "trace", "daemon", "client", "extras", "tests") for path in (ROOT / folder).rglob("*")}
    names = set(re.findall(r"`((?:[\w-]+/)*[a-z][\w-]*\.(?:c|h|py))`", (ROOT / page).read_text()))
    assert len(names) > 5
    assert [name for name in sorted(names) if "NAME" not in name and not ((ROOT / name).exists() if "/" in name else name in files)] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/README.md", "docs/tutorial.md"])
def test_links_lead_to_files(page):
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text()) if "://" not in target]
    assert [target for target in targets if not ((ROOT / page).parent / target).exists()] == []
