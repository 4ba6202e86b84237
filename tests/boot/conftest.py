# SPDX-License-Identifier: Apache-2.0
"""What every file here needs: the package under test ($PROFD_DEB, which `./dev boot` builds) and machines to install it on."""

import os
import shutil
from pathlib import Path

import pytest
from fleets import BINDS, FaultFleet
from machine import Impossible, Machine, base_root
from profd_unit import enable, install


@pytest.fixture(scope="session")
def package():
    path = os.environ.get("PROFD_DEB")
    assert path, "PROFD_DEB names no package; run these tests by ./dev boot, which builds it"
    return Path(path).resolve(strict=True)


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """The disk that machines begin with. Where there cannot be machines, what needs one is skipped."""
    if os.geteuid() != 0:
        pytest.skip("booting a container needs root")
    for tool in ("systemd-nspawn", "mmdebstrap"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed; ./dev boot does that")
    base = base_root()
    try:
        Machine(base, tmp_path_factory.mktemp("probe") / "machine").probe()
    except Impossible as why:
        pytest.skip(str(why))
    return base


@pytest.fixture(scope="module")
def bare(root, tmp_path_factory):
    """A machine without profd, for the tests of one file."""
    with Machine(root, tmp_path_factory.mktemp("bare") / "machine", BINDS) as machine:
        yield machine


@pytest.fixture(scope="session")
def host(root, package, tmp_path_factory):
    """A machine on which profd was installed and enabled as profd(8) says. Each test leaves it running, as it found it."""
    with Machine(root, tmp_path_factory.mktemp("host") / "machine", BINDS) as machine:
        install(machine, package)
        enable(machine)
        yield machine


@pytest.fixture(scope="session")
def fleet(host):
    with FaultFleet(host, "vllm", 3) as found:
        yield found


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows what the journals say."""
    report = (yield).get_result()
    for machine in Machine.running if report.failed else ():
        report.sections.append((f"journal of {machine.directory}", machine.journal("-n", "60", "-o", "short-precise")))
