# SPDX-License-Identifier: Apache-2.0
"""Workers that profd's user may not look into: root's, in a mount namespace of their own, as in a container."""

import pytest
from fleets import TRACES, FaultFleet
from profd_unit import COLLECT_FOREIGN, DROP_INS, FINAL, profctl, restart, start, traces_of, wait_complete, wait_state

HIDDEN = f"{TRACES}/hidden"


@pytest.fixture(scope="module")
def foreign(host):
    """Nobody outside sees the directory that it writes to, and inside only root may."""
    script = f'mount -t tmpfs -o mode=700 private {HIDDEN} && umask 077 && exec "$@"'
    prefix = ["unshare", "--mount", "/bin/sh", "-c", script, "sh"]
    with FaultFleet(host, "sglang", 2, user="root", name="hidden", prefix=prefix) as found:
        yield found
        assert host("ls", "-A", HIDDEN) == ""


def test_collected_with_the_drop_in(host, foreign):
    name = start(host, foreign)
    wait_complete(host, name)
    traces = traces_of(host, name)
    assert {trace["worker"] for trace in traces} == set(foreign.workers)
    for trace in traces:
        assert host.as_user("alice", "sha256sum", trace["path"]).split()[0] == trace["sha256"]


@pytest.fixture
def as_shipped(host):
    """profd without the drop-in."""
    host("rm", f"{DROP_INS}/{COLLECT_FOREIGN}")
    restart(host)
    yield
    host("install", "-m", "644", "-t", DROP_INS, f"/usr/share/doc/profd/drop-ins/{COLLECT_FOREIGN}")
    restart(host)


def test_doctor_names_the_drop_in(host, foreign, as_shipped):
    said = host.run("profctl", "doctor", "--router", foreign.router, user="alice", check=False).stdout
    assert COLLECT_FOREIGN in said
    refused = host.run("profctl", "start", "--router", foreign.router, "--duration", "300ms", user="alice", check=False)
    assert refused.returncode == 1 and COLLECT_FOREIGN in refused.stderr
    name = start(host, foreign, "--allow-uncollected")
    done = wait_state(host, name, *FINAL)
    assert done["state"] == "partial" and not traces_of(host, name)
    assert COLLECT_FOREIGN in profctl(host, "show", name)
