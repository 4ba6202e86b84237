# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: a profd and a fault fleet of their own, and how figures are printed (median, least, most)."""
import math
import os
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ.setdefault("PROFD_BUILD", str(ROOT / "build-bench"))
BUILD = pathlib.Path(os.environ["PROFD_BUILD"]).resolve()
sys.path.insert(0, str(ROOT / "tests/integration"))

from daemon import Daemon, FaultFleet  # noqa: E402, F401


def percentile(sorted_values, percent):
    """The nearest rank."""
    return sorted_values[min(len(sorted_values) - 1, max(0, -(-len(sorted_values) * percent // 100) - 1))]


def figure(value):
    return float(f"{value:.3g}")


def summary(values):
    return {"median": figure(statistics.median(values)), "least": figure(min(values)), "most": figure(max(values)),
            "runs": len(values)}


def slope(size, cost, size_before, cost_before):
    """Of a line through both in a plot of logarithms: cost grows as this power of size; 1 is linear, 0 is none."""
    return round(math.log(cost / cost_before) / math.log(size / size_before), 2)
