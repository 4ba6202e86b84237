# SPDX-License-Identifier: Apache-2.0
"""A process that registers as one with PyTorch and KINETO_USE_DAEMON does (tests/fleet/kineto-client.c), and a daemon's
side of the protocol that is just enough to test it.

    with KinetoClient(tmp_path, socket_dir=directory) as client:
        client.wait_line("polled 2")
"""
import contextlib
import fcntl
import os
import queue
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from daemon import BUILD
from patience import patience

CLIENT = BUILD / "tests/fleet/kineto-client"
LINE_S = 30


class KinetoClient:
    """Its lines are read as they come. `environment` is added to the variables that it registers with."""

    def __init__(self, directory, socket_dir=None, trace_dir=None, options=(), environment=None, command=(), prefix=()):
        self.directory, self.lines, self.process = directory, [], None
        self.arguments = [*map(str, prefix), str(CLIENT), *map(str, options), *(["--", *map(str, command)] if command else [])]
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("KINETO_", "SLURM_"))}
        self.environment["KINETO_USE_DAEMON"] = "1"
        if socket_dir:
            self.environment["KINETO_IPC_SOCKET_DIR"] = str(socket_dir)
        if trace_dir:
            self.environment["KINETO_ONDEMAND_TRACE_DIR"] = str(trace_dir)
        self.environment.update({name: str(value) for name, value in (environment or {}).items()})
        self._queue = queue.Queue()

    def __enter__(self):
        self.process = subprocess.Popen(self.arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env={name: value for name, value in self.environment.items() if value != ""},
                                        cwd=self.directory)
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, kind, *rest):
        self.kill()
        if kind:
            print("\n".join(self.text()))

    def _read(self):
        for line in self.process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    @property
    def pid(self):
        return self.process.pid

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def signal(self, number):
        os.kill(self.pid, number)

    def start_profiler(self):
        self.signal(signal.SIGUSR1)
        self.wait_line("local profiler started")

    def stop_profiler(self):
        self.signal(signal.SIGUSR2)
        self.wait_line("local profiler stopped")

    def text(self):
        """All of its lines so far."""
        while not self._queue.empty():
            line = self._queue.get()
            if line is not None:
                self.lines.append(line)
        return self.lines

    def wait_line(self, pattern, timeout_s=LINE_S):
        """The next line that matches, after those that were waited for before."""
        end = time.monotonic() + patience(timeout_s)
        while True:
            left = end - time.monotonic()
            try:
                line = self._queue.get(timeout=max(left, 0.01))
            except queue.Empty:
                line = None
            assert line is not None, f"no line {pattern!r} in " + "\n".join(self.lines)
            self.lines.append(line)
            if found := re.search(pattern, line):
                return found

    def wait_end(self, timeout_s=LINE_S):
        return self.process.wait(timeout=patience(timeout_s))


@contextlib.contextmanager
def abstract_name():
    """Kineto's abstract name is one for the host: only one test at a time can use it."""
    with open(Path(tempfile.gettempdir()) / "profd-tests-dynolog.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        end = time.monotonic() + patience(LINE_S)
        while "@dynolog@" in Path("/proc/net/unix").read_text():
            if time.monotonic() > end:
                reason = "another process of this machine has the abstract name dynolog"
                pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
            time.sleep(0.1)
        yield


METADATA = struct.Struct("=Q32s")


class Request:
    """One "req" as it came."""

    def __init__(self, data, sender):
        self.data, self.sender = data, sender
        self.size, kind = METADATA.unpack_from(data)
        self.kind = kind
        self.type, self.count, self.job = struct.unpack_from("=iiq", data, METADATA.size)
        self.pids = list(struct.unpack_from(f"={self.count}i", data, METADATA.size + 16))


class KinetoDaemon:
    """The daemon's socket: in a directory, or the abstract name."""

    def __init__(self, directory=None):
        self.address = f"{directory}/dynolog" if directory else b"\0dynolog\0"

    def __enter__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.address)
        if isinstance(self.address, str):
            os.chmod(self.address, 0o666)
        self.socket.settimeout(patience(LINE_S))
        return self

    def __exit__(self, *_):
        self.socket.close()

    def receive(self):
        return Request(*self.socket.recvfrom(65536))

    def answer(self, request, text=b"", size=None, source=None):
        if isinstance(text, str):
            text = text.encode()
        head = METADATA.pack(len(text) if size is None else size, b"req")
        (source or self.socket).sendto(head + text, request.sender)

    def give(self, text=b""):
        """Answers the next poll, which is returned."""
        request = self.receive()
        self.answer(request, text)
        return request
