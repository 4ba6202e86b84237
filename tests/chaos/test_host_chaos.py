# SPDX-License-Identifier: Apache-2.0
"""The short run of chaos over three hosts, with PostgreSQL and a bucket. ./dev chaos --hosts 8 is the long one."""

import host_chaos
import pytest
from network import why_not

FAULTS = 16
SEED = 3  # the same for everybody


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_what_must_hold_over_hosts(tmp_path):
    host_chaos.run(tmp_path, SEED, 3, FAULTS)
