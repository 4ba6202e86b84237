# SPDX-License-Identifier: Apache-2.0
"""Memory after many sessions is what it was after some."""

import pytest

import soak
from testbed import BUILD

SANITIZED = "asan" in BUILD.name
SOAK_SESSIONS = 200


@pytest.mark.skipif(SANITIZED, reason="a sanitizer keeps freed memory")
def test_memory_after_many_sessions(tmp_path):
    soak.soak(tmp_path, SOAK_SESSIONS)
