# SPDX-License-Identifier: Apache-2.0
"""profctl as a user runs it: in a pipe, and on a terminal of a size."""
import errno
import fcntl
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import termios
import time
from patience import patience

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROFCTL = pathlib.Path(os.environ["PROFD_BUILD"]).resolve() / "client" / "profctl"


def environment(**more):
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "ASAN_OPTIONS", "LSAN_OPTIONS")}
    return {**keep, "TZ": "UTC", "TERM": "xterm", "PAGER": "cat", **more}


def run(*args, fake=None, env=None, **more):
    at = ["--socket", fake.path] if fake else []
    return subprocess.run([PROFCTL, *at, *args], capture_output=True, text=True, timeout=30, env=environment(**(env or {})),
                          stdin=subprocess.DEVNULL, **more)


def on_terminal(fake, *args, columns=100, rows=24, keys=b"", env=None, cwd=None):
    """Runs profctl on a terminal; returns what it wrote and its exit status."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    at = ["--socket", fake.path] if fake else []
    process = subprocess.Popen([PROFCTL, *at, *args], stdin=slave, stdout=slave, stderr=slave, cwd=cwd,
                               env=environment(**(env or {})))
    os.close(slave)
    os.write(master, keys)
    out = b""
    deadline = time.monotonic() + patience(20)
    while time.monotonic() < deadline:
        if not select.select([master], [], [], 0.1)[0]:
            continue
        try:
            data = os.read(master, 1 << 16)
        except OSError as e:
            assert e.errno == errno.EIO
            break
        if not data:
            break
        out += data
    os.close(master)
    return out.decode(), process.wait(timeout=60)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "")
