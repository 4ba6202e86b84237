# SPDX-License-Identifier: Apache-2.0
"""Whether a test may be skipped. On a developer's machine a test whose precondition is missing (root, namespaces, PostgreSQL, Ceph, ...) is
skipped with its reason. Where all must run, which is where $CI is "true" or $PROFD_REQUIRE_ALL is "1", it fails with that reason instead;
PROFD_REQUIRE_ALL=0 takes that back. EXCUSED are reasons that no installed package and no permission would change."""

import os
import re

VARIABLE = "PROFD_REQUIRE_ALL"
EXCUSED = re.compile("|".join((
    "sanitize", "__asan", "profctl's texts are the same there",  # of a sanitized build
    "complete set of traces", "among the sets of traces", "there is no report",  # what a checkout has
    "SRT_SLURM", "srtctl", "no package was built",  # what a developer names or builds
    "profd is installed here", "a system profd has its socket here", "there is a journal on this machine", "port 9001",  # would disturb
    "no cgroup v2", "RLIMIT_NOFILE ends at",  # of the kernel
    "TraceLens failed",
)), re.IGNORECASE)


def all_required():
    given = os.environ.get(VARIABLE)
    return given == "1" if given in ("0", "1") else os.environ.get("CI") == "true"


def refusal(reason):
    """Why a test may not be skipped for that reason; None where it may."""
    if not all_required() or EXCUSED.search(reason):
        return None
    return f"{reason}: this test may not be skipped here (CI=true or {VARIABLE}=1)"
