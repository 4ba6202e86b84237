# SPDX-License-Identifier: Apache-2.0
"""A profd that nobody looks after: --background, which lets go of its starter, and --exit-when-idle."""

import os
import socket
import subprocess
import time

import pytest

from daemon import END_S, PROFD, Daemon, FaultFleet, quick_config

QUICK = quick_config()


class Background(Daemon):
    """profd --background: it says on stdout when it serves, and logs beside its catalog."""

    def command(self):
        return [*super().command(), "--background"]

    def start(self):
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, **self.environment})
        self.said = self.process.stdout.read(), self.process.stderr.read()  # both are at their end when it lets go of them
        return self

    @property
    def log_path(self):
        return self.state / "profd.log"


def test_it_lets_go_of_its_starter(tmp_path):
    with Background(tmp_path) as profd:
        out, err = profd.said
        assert out == b"ready\n" and b" is ready: " in err
        assert profd.request("GET", "/healthz").status == 200
        assert " is ready: " in profd.log_path.read_text()
    assert "stopping" in profd.log_path.read_text()


def test_its_log_is_bounded(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state/profd.log").write_bytes(b"x" * (4 << 20))
    with Background(tmp_path) as profd:
        assert profd.log_path.with_name("profd.log.old").stat().st_size == 4 << 20
        assert profd.log_path.stat().st_size < 4096 and " is ready: " in profd.log_path.read_text()
        if os.geteuid() == 0:
            assert os.readlink(f"/proc/{profd.pid}/fd/2") == str(profd.log_path)


def test_it_ends_when_nothing_goes_on(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "slow-stop=3") as fleet:
        profd = Daemon(tmp_path / "profd", QUICK, ["--exit-when-idle", "1s"]).start()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(profd.socket))
            profd.start_session(router=fleet.router, duration_ns=2_000_000_000)
            # Whoever is connected holds it; so does the session, longer than it may be idle.
            profd.wait_session("s1")
        assert profd.process.wait(END_S) == 0
        profd.process = None
        assert "idle for 1.0s: stopping" in profd.log() and not profd.socket.exists()
        assert fleet.journal()["profiling"] == 0
    assert profd.rows("select state from sessions") == [{"state": "complete"}]


def test_a_session_holds_it_with_nobody_connected(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "slow-stop=2") as fleet:
        profd = Daemon(tmp_path / "profd", QUICK, ["--exit-when-idle", "200ms"]).start()
        profd.start_session(router=fleet.router, duration_ns=1_000_000_000)
        assert profd.process.wait(END_S) == 0
        profd.process = None
    assert profd.rows("select state from sessions") == [{"state": "complete"}]
    assert profd.rows("select count(*) as n from targets where stop_pending") == [{"n": 0}]


def test_a_pending_stop_holds_it(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "slow-stop=2") as fleet:
        profd = Daemon(tmp_path / "profd", QUICK).start()
        profd.start_session(router=fleet.router, duration_ns=60_000_000_000)
        profd.wait_state("s1", "recording")
        profd.kill()
        profd.options = ["--exit-when-idle", "200ms"]
        profd.start()
        profd.post("/v1/sessions/s1/stop")
        assert profd.process.wait(END_S) == 0
        profd.process = None
        assert fleet.journal()["profiling"] == 0
    assert profd.rows("select count(*) as n from targets where stop_pending") == [{"n": 0}]
    over, idle = (profd.log().index(said) for said in ("s1 is complete", "idle for 200"))
    assert over < idle


def test_one_with_nothing_to_show_ends_sooner(tmp_path):
    profd = Daemon(tmp_path / "profd", QUICK, ["--exit-when-idle", "10min"]).start()
    began = time.monotonic()
    assert profd.problem("POST", "/v1/sessions", {"router": "http://127.0.0.1:1"}, status=502)
    assert profd.process.wait(END_S) == 0
    profd.process = None
    assert "idle for 10.0s: stopping" in profd.log() and time.monotonic() - began >= 10

    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet:
        profd.options = ["--exit-when-idle", "2s"]
        profd.start()
        profd.start_session(router=fleet.router, duration_ns=100_000_000)
        assert profd.process.wait(END_S) == 0
        profd.process = None
    assert "idle for 2.0s: stopping" in profd.log()


@pytest.mark.parametrize("arguments, words", [(["--exit-when-idle", "soon"], "--exit-when-idle soon: must be a duration"),
                                              (["--exit-when-idle", "0"], "must be a duration"),
                                              (["--transient", "--socket", "s", "--background"], "--transient ends with its stdin")])
def test_what_is_not_taken(tmp_path, arguments, words):
    done = subprocess.run([PROFD, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=END_S, cwd=tmp_path,
                          check=False)
    assert done.returncode == 2 and words in done.stderr and done.stdout == ""
