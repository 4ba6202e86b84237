# SPDX-License-Identifier: Apache-2.0
"""The daemon's side of Kineto's on-demand protocol: where profd listens, whom it answers, and when it does not.

The client is the double of tests/fleet/kineto-client.c, which ends as Kineto does where an answer is wrong, or a socket of the
test that looks at each byte.
"""
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import pytest
from daemon import PROFD, Daemon, quick_config, wait_for
from kineto_client import METADATA, KinetoClient, KinetoDaemon
from patience import patience

QUICK = ["--interval", "200"]


@pytest.fixture
def short():
    """A directory whose name Kineto can use: pytest's have more than 54 bytes."""
    path = Path(tempfile.mkdtemp(prefix="kineto-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


def listening(directory, where):
    return Daemon(directory, quick_config(more=f"[kineto]\nlisten={where}\n"))


def counts(profd):
    lines = profd.request("GET", "/metrics").body.decode().splitlines()
    return {line.split()[0].removeprefix("profd_kineto_"): int(float(line.split()[1])) for line in lines
            if line.startswith("profd_kineto_")}


class RawClient:
    """A socket that polls by the byte, as the double does not."""

    def __init__(self, directory=None, name=None):
        self.directory = directory
        self.name = name or f"dynoconfigclient{uuid.uuid4()}"
        self.daemon = f"{directory}/dynolog" if directory else b"\0dynolog\0"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"{directory}/{self.name}" if directory else b"\0" + self.name.encode() + b"\0")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendto(data, self.daemon)

    def poll(self, bits=2, pids=(1,), job=0):
        payload = struct.pack(f"=iiq{len(pids)}i", bits, len(pids), job, *pids)
        self.send(METADATA.pack(len(payload), b"req") + payload)

    def answer(self, timeout_s=30):
        """The answer and its sender; None where none comes within a time that is not scaled."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recvfrom(65536)
        except TimeoutError:
            return None


EMPTY = METADATA.pack(0, b"req")


@pytest.mark.parametrize("mode", ["abstract", "directory"])
def test_answers_come_from_the_name_that_was_asked(tmp_path, short, mode):
    """Kineto ends its process where the sender of an answer is another one."""
    directory = short / "k" if mode == "directory" else None
    with listening(tmp_path, directory or mode) as profd, RawClient(directory) as raw:
        raw.poll()
        assert raw.answer(0.3) is None, "the first poll of a name is not answered"
        raw.poll()
        assert raw.answer() == (EMPTY, f"{directory}/dynolog" if directory else b"\0dynolog\0")
        with KinetoClient(tmp_path, socket_dir=directory, options=QUICK) as client:
            for _ in range(4):
                client.wait_line("^poll")
            assert client.process.poll() is None
        assert counts(profd)["polls_total"] >= 6


def test_socket_of_a_directory(tmp_path, short):
    directory = short / "k"
    with listening(tmp_path, directory) as profd:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((directory / "dynolog").stat().st_mode) == 0o666
        profd.kill()
        assert (directory / "dynolog").exists()
        profd.start()  # takes over what nobody listens on
        with RawClient(directory) as raw:
            raw.poll()
            raw.poll()
            assert raw.answer()[0] == EMPTY
    assert not (directory / "dynolog").exists()
