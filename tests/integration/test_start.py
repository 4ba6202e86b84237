# SPDX-License-Identifier: Apache-2.0
"""Libraries that are loaded at their first call (base/on_demand.h): which programs start without them, when they are loaded, and
what happens where one cannot be."""
import os
import re
import subprocess

import pytest

from daemon import BUILD, PROFD, ROOT, SANITIZED, Daemon, FaultFleet
from fake_profd import USAGE, FakeProfd
from terminal import PROFCTL, environment

PROFD_LOAD = BUILD / "daemon/load/profd-load"
PROFD_INGEST = BUILD / "daemon/ingest/profd-ingest"
CURL, EDIT, PQ = "libcurl.so.4", "libedit.so.2", "libpq.so.5"
ON_DEMAND = {name for file in (ROOT / "base").glob("on_demand_*.S") for name in re.findall(r'ON_DEMAND\("(.*?)"', file.read_text())}
NOT_AT_START = ON_DEMAND - ({"libm.so.6"} if SANITIZED else set())  # which the sanitizers' runtime needs


def needed(program):
    dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))


def loaded(trace):
    """Names of the libraries that the dynamic linker initialized, by its own record."""
    lines = "".join(file.read_text() for file in trace.parent.glob(f"{trace.name}.*"))
    return {os.path.basename(path) for path in re.findall(r"calling init: (\S+)", lines)}


def traced(trace):
    return {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(trace)}


@pytest.mark.parametrize("program, libraries", [(PROFCTL, NOT_AT_START), (PROFD, {CURL, PQ})])
def test_programs_start_without(program, libraries):
    assert not libraries & needed(program)


def test_the_package_depends_on_them():
    """dpkg-shlibdeps does not see what is loaded on demand: another program of the package must need it, or debian/control
    names it."""
    assert len(ON_DEMAND) == len(list((ROOT / "base").glob("on_demand_*.S")))
    assert ON_DEMAND - {EDIT, PQ} <= needed(PROFD) | needed(PROFD_LOAD) | needed(PROFD_INGEST)
    control = (ROOT / "debian/control").read_text()
    assert re.search(r"^Depends:.*\blibedit2\b", control, re.MULTILINE)
    assert re.search(r"^Recommends:.*\blibpq5\b", control, re.MULTILINE)  # without a mirror it is not needed


def profctl(*words, **variables):
    return subprocess.run([PROFCTL, *words], capture_output=True, text=True, env={**environment(), **variables}, check=False)


def test_lists_over_a_socket_load_none(tmp_path):
    with FakeProfd(tmp_path / "fake.sock") as fake:
        fake.answers["GET /v1/traces"] = (200, {"traces": [], "usage": USAGE})
        done = profctl("list-traces", "--socket", fake.path, **traced(tmp_path / "ld"))
    assert done.returncode == 0, done.stderr
    assert "libjansson.so.4" in loaded(tmp_path / "ld")
    assert not NOT_AT_START & loaded(tmp_path / "ld")


def test_a_url_loads_libcurl(tmp_path):
    done = profctl("list-traces", "--host", "http://127.0.0.1:1", **traced(tmp_path / "ld"))
    assert done.returncode == 1 and "Connection refused" in done.stderr
    assert CURL in loaded(tmp_path / "ld")


def test_profd_loads_libcurl_for_its_first_call_over_tls(tmp_path):
    trace = tmp_path / "ld"
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, Daemon(tmp_path / "profd", environment=traced(trace)) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=100_000_000)
        assert profd.wait_session(session["session"])["state"] == "complete"
        assert "libevhtp.so.0" in loaded(trace) and CURL not in loaded(trace)
        profd.get(f"/v1/workers?worker={fleet.workers[0].replace('http:', 'https:')}")
        assert CURL in loaded(trace)


def test_a_library_that_cannot_be_loaded(tmp_path):
    (tmp_path / CURL).write_text("not a library")
    done = profctl("list-traces", "--host", "http://127.0.0.1:1", LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 1
    assert re.fullmatch(rf"profctl: cannot load a shared library: {tmp_path}/{CURL}: .*\n", done.stderr)
