# SPDX-License-Identifier: Apache-2.0
"""Real traces, and what independent programs computed from them: the complete set where there is one, else those of
tests/traces (tests/traces/README.md). A running test that names a file which only the complete set has is skipped."""

import os
from pathlib import Path

import pytest

CORPUS = Path(__file__).parent / "traces"


def directories():
    named = os.environ.get("PROFD_TRACES")
    traces = Path(named) if named else CORPUS.parents[1] / "../shared/traces"
    if named and not traces.is_dir():
        raise SystemExit(f"PROFD_TRACES: no directory {traces}")
    traces = traces.resolve() if traces.is_dir() else CORPUS
    return traces, traces / "oracle" if (traces / "oracle").is_dir() else traces.parent / "oracle"


class Directory:
    """`directory / name` is a path. While no test runs (in lists of parameters), the file need not exist."""

    def __init__(self, path):
        self.path = path

    def __truediv__(self, name):
        path = self.path / name
        if "PYTEST_CURRENT_TEST" in os.environ and not path.exists():
            pytest.skip(f"{name} is in the complete set of traces only")
        return path

    def __fspath__(self):
        return str(self.path)

    __str__ = __fspath__


TRACES, ORACLE = map(Directory, directories())
