# SPDX-License-Identifier: Apache-2.0
"""The double of a Kineto client does what the client's source does: messages byte for byte, timing, hazards, the
configuration's rules and the names of files."""

import json
import os
import re
import signal
import socket
import struct
import time

import pytest
from kineto_client import KinetoClient, KinetoDaemon, abstract_name

QUICK = ("--interval", 300, "--tick", 100)


@pytest.fixture
def sockets(tmp_path):
    """A directory for sockets whose name is short enough for an address."""
    import tempfile
    with tempfile.TemporaryDirectory(prefix="kineto-") as directory:
        yield directory


def config(path, start_in_s=2.0, **more):
    keys = {"ACTIVITIES_LOG_FILE": path, "PROFILE_START_TIME": int((time.time() + start_in_s) * 1000),
            "ACTIVITIES_DURATION_MSECS": 300, "ACTIVITIES_WARMUP_PERIOD_SECS": 0, "REQUEST_TRACE_ID": "s1-w0", **more}
    return "".join(f"{key}={value}\n" for key, value in keys.items() if value is not None)


def test_a_request_byte_for_byte(tmp_path, sockets):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets, environment={"SLURM_JOB_ID": "4711"}) as client:
        request = daemon.give()
        n = len(request.pids)
        assert 2 <= n <= 11 and request.pids[:2] == [client.pid, os.getpid()]
        expected = struct.pack("<Q", 16 + 4 * n) + b"req" + bytes(29) + struct.pack("<iiq", 2, n, 4711)
        assert request.data == expected + struct.pack(f"<{n}i", *request.pids)
        assert 1 not in request.pids
        assert re.fullmatch(re.escape(sockets) + r"/dynoconfigclient[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", request.sender)
        assert os.stat(request.sender).st_mode & 0o777 == 0o666


def test_the_abstract_name_ends_with_a_nul(tmp_path):
    with abstract_name(), KinetoDaemon() as daemon:
        with open("/proc/net/unix", encoding="ascii") as table:
            assert any(line.rstrip().endswith("@dynolog@") for line in table)
        with KinetoClient(tmp_path, options=["--own-pid", 1]) as client:
            request = daemon.give()
            assert request.sender.startswith(b"\0dynoconfigclient") and request.sender.endswith(b"\0") and len(request.sender) == 54
            assert request.pids == [1] and request.job == 0
            client.wait_line("polled 2")


@pytest.mark.parametrize("release,idle,busy", [("2026-07", 2, 0), ("2026-06", 3, 1), ("2022-12", 3, 1)])
def test_bit_2_is_the_state_of_the_profiler(tmp_path, sockets, release, idle, busy):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets, options=[*QUICK, "--release", release]) as client:
        assert daemon.give().type == idle
        client.start_profiler()
        types = [daemon.give().type for _ in range(2)]
        assert types[-1] == busy
        client.stop_profiler()
        types = [daemon.give().type for _ in range(2)]
        assert types[-1] == idle


def test_the_default_interval_is_five_seconds(tmp_path, sockets):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets):
        daemon.give()
        first = time.monotonic()
        daemon.give()
        assert 4.8 < time.monotonic() - first < 7


@pytest.mark.parametrize("release,looks", [("2026-07", 9), ("2022-12", 5)])
def test_a_late_answer_shifts_all_later_ones(tmp_path, sockets, release, looks):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets, options=[*QUICK, "--release", release]) as client:
        late = daemon.receive()
        client.wait_line("no answer")
        daemon.answer(late, "CUSTOM_CONFIG=first\n")
        daemon.give("CUSTOM_CONFIG=second\n")
        client.wait_line("CUSTOM_CONFIG=first")
        daemon.give()
        client.wait_line("CUSTOM_CONFIG=second")
        # One poll without an answer puts it right.
        daemon.receive()
        daemon.give("CUSTOM_CONFIG=third\n")
        client.wait_line("CUSTOM_CONFIG=third")


@pytest.mark.parametrize("release,line", [("2025-11", "Received config"), ("2022-12", "no answer")])
def test_an_answer_after_65_ms_is_in_time_since_2025_11(tmp_path, sockets, release, line):
    with KinetoDaemon(sockets) as daemon:
        for _ in range(5):  # a busy machine may need more than the 25 ms between the two
            with KinetoClient(tmp_path, sockets, options=["--release", release]) as client:
                request = daemon.receive()
                time.sleep(0.065)
                daemon.answer(request, "CUSTOM_CONFIG=x\n")
                if client.wait_line("Received config|no answer")[0] == line:
                    return
        pytest.fail(f"never {line!r}")


@pytest.mark.parametrize("case", ["another name", "unbound", "abstract"])
def test_a_wrong_sender_ends_the_process(tmp_path, sockets, case):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets) as client:
        request = daemon.receive()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            if case == "another name":
                # The same directory under another spelling.
                other.bind(f"{os.path.dirname(sockets)}/./{os.path.basename(sockets)}/other")
            elif case == "abstract":
                other.bind(b"\0another-daemon")
            daemon.answer(request, source=other)
            client.wait_line("terminate: Unexpected socket name")
            assert client.wait_end() == -signal.SIGABRT  # 134 to a shell


def test_without_a_directory_it_never_tries_again(tmp_path):
    with KinetoClient(tmp_path, tmp_path / "missing", options=QUICK) as client:
        client.wait_line(r"status = failed \(null\)")
        (tmp_path / "missing").mkdir()
        client.wait_line("FabricManager not initialized")
        client.wait_line("FabricManager not initialized")
        assert not list((tmp_path / "missing").iterdir())


def test_a_directory_name_that_is_too_long(tmp_path):
    directory = tmp_path / ("d" * 60)
    directory.mkdir()
    with KinetoClient(tmp_path, directory) as client:
        client.wait_line(r"status = failed \(null\)")


def test_without_the_variable_it_registers_nowhere(tmp_path, sockets):
    with KinetoDaemon(sockets), KinetoClient(tmp_path, sockets, environment={"KINETO_USE_DAEMON": ""}) as client:
        client.wait_line("registers nowhere")
        assert os.listdir(sockets) == ["dynolog"]


def test_a_recording(tmp_path, sockets):
    path = tmp_path / "w0.pt.trace.json"
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets, tmp_path, options=QUICK,
                                                       environment={"RANK": 3, "WORLD_SIZE": 8}) as client:
        daemon.give(config(path))
        client.wait_line("scheduled")
        types, end = [], time.monotonic() + 30
        while types[-2:] != [0, 2] and time.monotonic() < end:
            types.append(daemon.give().type)
        final = tmp_path / f"w0_{client.pid}.pt.trace.json"
        assert types[-2:] == [0, 2] and final.exists() and not list(tmp_path.glob("*.tmp"))
        trace = json.loads(final.read_text())
        assert trace["trace_id"] == "s1-w0" and trace["distributedInfo"]["rank"] == 3
        assert trace["traceEvents"] and "ProfilerStep" not in final.read_text()


def test_a_second_configuration_is_dropped(tmp_path, sockets):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets, tmp_path, options=QUICK) as client:
        daemon.give(config(tmp_path / "a.json", 3))
        assert daemon.give(config(tmp_path / "b.json", 3)).type == 2  # one that waits for its time still shows the bit
        client.wait_line("another profile request is pending")
        client.start_profiler()  # and one that is active does not, and says so
        daemon.give()
        daemon.give(config(tmp_path / "c.json", 3))
        client.wait_line("profiler busy")


@pytest.mark.parametrize("start,warmup,line", [(2, 5, "insufficient time for warmup"), (-3, 0, "start timestamp is in the past")])
def test_too_late_for_its_warm_up(tmp_path, sockets, start, warmup, line):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets, tmp_path, options=QUICK) as client:
        daemon.give(config(tmp_path / "a.json", start, ACTIVITIES_WARMUP_PERIOD_SECS=warmup))
        client.wait_line("scheduled")
        client.wait_line(line)
        assert [daemon.give().type for _ in range(3)] == [2, 2, 2]
        assert not list(tmp_path.glob("a*"))


@pytest.mark.parametrize("text,line,scheduled", [
    ("NO_SUCH_KEY=1\n{}", "Unrecognized config line: NO_SUCH_KEY=1", True),
    ("# only\n\n{}ACTIVITIES_ENABLED=no # for now\n", None, False),
    ("A=B=C\n{}", "Invalid config line: A=B=C", True),
    ("PROFILE_WITH_STACK=maybe\n{}", "Invalid bool argument: maybe", True),
    ("ACTIVITIES_DURATION_MSECS=9999999999\n{}", "Invalid integer", True),
    ("ACTIVITY_TYPES=cpu_op,nonsense\n{}", "Invalid activity type: nonsense", True),
    ("PROFILE_START_TIME=1000\n{}", "more than 10s in the past", True),
])
def test_what_the_parser_does(tmp_path, sockets, text, line, scheduled):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets, tmp_path, options=QUICK) as client:
        daemon.give(text.format(config(tmp_path / "a.json", 1)))
        if line:
            client.wait_line(re.escape(line))
        bad = line and "Unrecognized" not in line
        if scheduled:
            client.wait_line("^scheduled")
            # What does not parse to its end has no start time: it is scheduled, and dropped.
            client.wait_line("in the past" if bad else "wrote .*a_[0-9]+.json")
        else:
            daemon.give(), daemon.give()
            assert "scheduled" not in client.text()


@pytest.mark.parametrize("name,expected", [
    ("x.pt.trace.json", "x_{}.pt.trace.json"), ("x.json", "x_{}.json"), ("x.json.d.json", "x_{}.json.d.json"), ("x.trace", "x.trace"),
    ("x.json.pt.trace.json", "x.json_{}.pt.trace.json")])
def test_where_the_pid_goes(tmp_path, sockets, name, expected):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets, tmp_path, options=[*QUICK, "--own-pid", 7]) as client:
        daemon.give(config(tmp_path / name, 1))
        assert client.wait_line("wrote (.*)")[1] == str(tmp_path / expected.format(7))


@pytest.mark.parametrize("release,path,ignored", [("2026-06", "/var/x.json", True), ("2026-06", "{}/../x.json", True),
                                                  ("2026-06", "{}/x.json", False), ("2025-11", "/var/x.json", False)])
def test_the_allowed_directory(tmp_path, sockets, release, path, ignored):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets, tmp_path, options=[*QUICK, "--release", release]) as client:
        daemon.give(config(path.format(tmp_path), 60))
        client.wait_line("scheduled")
        assert any("outside allowed directory" in line for line in client.text()) == ignored


def test_the_default_file_where_the_path_is_not_allowed(tmp_path, sockets):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets, tmp_path, options=QUICK) as client:
        daemon.give(config("/var/x.json", 1))
        path = client.wait_line("wrote (.*)")[1]
        assert path == f"/tmp/libkineto_activities_{client.pid}.json"
        os.unlink(path)


@pytest.mark.parametrize("when", ["fetched", "warmup", "recording", "writing"])
def test_it_ends_when_it_is_told_to(tmp_path, sockets, when):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets, tmp_path, options=[*QUICK, "--end", when]) as client:
        daemon.give(config(tmp_path / "a.json", 1))
        assert client.wait_end() == -signal.SIGKILL
        assert [path.suffix for path in tmp_path.glob("a*")] == ([] if when == "fetched" else [".tmp"])


def test_a_profiler_inside_cancels_what_is_recorded(tmp_path, sockets):
    with KinetoDaemon(sockets) as daemon, KinetoClient(tmp_path, sockets, tmp_path, options=QUICK) as client:
        daemon.give(config(tmp_path / "a.json", 1, ACTIVITIES_DURATION_MSECS=20000))
        client.wait_line("recording")
        client.signal(signal.SIGUSR1)
        client.wait_line("Cancelling current trace request")
        assert [path.suffix for path in tmp_path.glob("a*")] == [".tmp"]
