# SPDX-License-Identifier: Apache-2.0
"""A file server that is down: whoever opens a file of it waits. profd answers, records others, collects other files, and
ends when it is asked to."""

import os
import tempfile
from pathlib import Path

import pytest

from daemon import BUILD, FINAL, Daemon, FaultFleet, wait_for
from test_collect import config, made_trace, record

FAKE_HANG = BUILD / "tests/integration/libfake-hang.so"
WORD = "hanging"
HANGING = f"rank0.{WORD}.1700000000000000000.pt.trace.json.gz"
OTHER = "rank1.1700000000000000000.pt.trace.json.gz"


class Server:
    """A directory on a file system of its own. While its server is down, opening what has WORD in its path waits."""

    def __init__(self, place, gate):
        self.place, self.gate = Path(place), Path(gate)
        self.environment = {"LD_PRELOAD": str(FAKE_HANG), "HANGING_WORD": WORD, "HANGING_GATE": str(gate)}

    def goes_down(self):
        self.gate.touch()

    def comes_back(self):
        self.gate.unlink(missing_ok=True)

    def waiting(self):
        return self.gate.stat().st_size

    def wait_for_waiting(self, why):
        return wait_for(self.waiting, 60, why=why)


@pytest.fixture
def server(tmp_path):
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK) or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs /dev/shm, a file system beside that of the test's directory")
    with tempfile.TemporaryDirectory(dir=shm) as place:
        down = Server(place, tmp_path / "gate")
        yield down
        down.comes_back()


def daemon(tmp_path, server, collect):
    return Daemon(tmp_path / "profd", config(settle="300ms", collect=collect), environment=server.environment)


def check_alive(profd, tmp_path):
    """It answers, and records another fleet from the start to the trace."""
    assert profd.request("GET", "/healthz", timeout=30).status == 200
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet:
        session = record(profd, fleet)
        assert session["state"] == "complete", (session, profd.log())


def test_a_file_that_cannot_be_opened(tmp_path, server):
    with daemon(tmp_path, server, f"watch={server.place}") as profd:
        server.goes_down()
        (server.place / HANGING).write_bytes(made_trace())
        server.wait_for_waiting(profd.log)
        check_alive(profd, tmp_path)
        assert not profd.traces(unclaimed="true")
        server.comes_back()
        (trace,) = wait_for(lambda: profd.traces(unclaimed="true"), why=profd.log)
        assert (trace["name"], trace["state"]) == (HANGING, "complete")


def test_a_directory_that_cannot_be_listed(tmp_path, server):
    place = server.place / WORD
    place.mkdir()
    server.goes_down()
    with daemon(tmp_path, server, f"watch={place}\nwatch={server.place}") as profd:
        server.wait_for_waiting(profd.log)
        check_alive(profd, tmp_path)
        (server.place / OTHER).write_bytes(made_trace())
        wait_for(lambda: profd.traces(unclaimed="true"), why=profd.log)
        (place / HANGING).write_bytes(made_trace(another=1))
        server.comes_back()
        wait_for(lambda: len(profd.traces(unclaimed="true")) == 2, why=profd.log)


def test_a_server_that_goes_down_while_it_is_written_to(tmp_path, server):
    with daemon(tmp_path, server, "") as profd, FaultFleet(server.place / WORD, "vllm", 1) as fleet:
        held = profd.start_session(router=fleet.router, duration_ns=60_000_000_000)["session"]
        profd.wait_state(held, "recording")
        server.goes_down()
        profd.post(f"/v1/sessions/{held}/stop")
        server.wait_for_waiting(profd.log)
        check_alive(profd, tmp_path)
        assert profd.session(held)["state"] not in FINAL
        server.comes_back()
        assert profd.wait_session(held)["state"] == "complete", profd.log()


def test_a_client_that_names_such_a_file(tmp_path, server):
    (server.place / HANGING).write_bytes(made_trace())
    server.goes_down()
    with daemon(tmp_path, server, "") as profd:
        connection = profd.connection()
        connection.request("POST", "/v1/traces", f'{{"path": "{server.place / HANGING}"}}')
        server.wait_for_waiting(profd.log)
        check_alive(profd, tmp_path)
        server.comes_back()
        reply = connection.getresponse()
        assert reply.status in (200, 201), reply.read()
        connection.close()


def reference_without_columns(tmp_path, server):
    """A trace that was left where it is, and is still to be read into columns."""
    with daemon(tmp_path, server, f"mode=reference\ncolumns=no\nwatch={server.place}") as profd:
        (server.place / HANGING).write_bytes(made_trace())
        wait_for(profd.traces, why=profd.log)


def test_a_trace_that_is_to_be_read_again(tmp_path, server):
    reference_without_columns(tmp_path, server)
    server.goes_down()
    with daemon(tmp_path, server, "mode=reference") as profd:
        server.wait_for_waiting(profd.log)
        check_alive(profd, tmp_path)
        server.comes_back()
        wait_for(lambda: any("columns" in t for t in profd.traces() if t["name"] == HANGING), why=profd.log)


def test_a_trace_that_is_there_again(tmp_path, server):
    reference_without_columns(tmp_path, server)
    path, aside = server.place / HANGING, server.place / "aside"
    path.rename(aside)
    with daemon(tmp_path, server, "mode=reference\ncolumns=no") as profd:
        wait_for(lambda: profd.traces()[0]["state"] == "missing", why=profd.log)
    aside.rename(path)
    server.goes_down()
    with daemon(tmp_path, server, "mode=reference\ncolumns=no") as profd:
        server.wait_for_waiting(profd.log)
        check_alive(profd, tmp_path)
        server.comes_back()
        wait_for(lambda: all(t["state"] == "complete" for t in profd.traces()), why=profd.log)


def test_profd_ends_without_what_hangs(tmp_path, server):
    with daemon(tmp_path, server, f"watch={server.place}") as profd:
        server.goes_down()
        (server.place / HANGING).write_bytes(made_trace())
        server.wait_for_waiting(profd.log)
        profd.stop()  # with status 0
        assert "a file system does not answer: ending without waiting for it" in profd.log()
        server.comes_back()
        profd.start()
        wait_for(profd.traces, why=profd.log)
