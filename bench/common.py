# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: a profd of their own, and how figures are told (median, least, most)."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / os.environ.get("PROFD_BUILD", "build-bench")
sys.path.insert(0, str(ROOT / "tests/integration"))

from daemon import Daemon  # noqa: E402
