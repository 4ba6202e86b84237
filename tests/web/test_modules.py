# SPDX-License-Identifier: Apache-2.0
"""Modules of the page that need no browser: bundled by esbuild, tested by node (tests/web/modules/NAME.test.ts)."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MODULES = sorted((HERE / "modules").glob("*.test.ts"))


@pytest.mark.skipif(not (shutil.which("esbuild") and shutil.which("node")), reason="needs esbuild and node")
@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name.removesuffix(".test.ts"))
def test_modules(module, tmp_path):
    bundle = tmp_path / "test.mjs"
    subprocess.run(["esbuild", module, "--bundle", "--platform=node", "--format=esm", "--target=node18",
                    f"--tsconfig={HERE.parents[1]}/web/tsconfig.json", f"--outfile={bundle}", "--log-level=warning"], check=True)
    result = subprocess.run(["node", "--test", bundle], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
