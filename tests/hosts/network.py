# SPDX-License-Identifier: Apache-2.0
"""Hosts on one machine: network namespaces without names, connected by wire.py. They end with the process that made them, however
it ends, and no packet leaves them.

    with Network(3) as network:
        with network.inside(2):                     # of this thread: sockets and children are made in host 2
            child = subprocess.Popen(...)
        network.cut(2)                              # from everybody, until network.join(2)
"""
import contextlib
import ctypes
import fcntl
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

WIRE = Path(__file__).resolve().parent / "wire.py"
PREFIX = "10.77.0."  # of all hosts
DEVICE = "wire0"
MTU = 9000
CLONE_NEWNET, CLONE_NEWPID = 0x40000000, 0x20000000
PR_SET_PDEATHSIG = 1
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what)


def why_not():
    """Why this machine lends no hosts; None where it does."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "no /dev/net/tun"
    done = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return f"no network namespaces: {done.stderr.strip()}" if done.returncode else None


def address(number):
    return f"{PREFIX}{number}"


@contextlib.contextmanager
def enter_namespace(namespace, kind, name):
    """This thread is in the namespace (CLONE_NEW..., its name in /proc/self/ns) until the block ends."""
    before = os.open(f"/proc/thread-self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_LIBC.setns(namespace, kind), "setns")
        yield
    finally:
        _check(_LIBC.setns(before, kind), "setns")
        os.close(before)


class Network:
    """Hosts 1 to `count`."""

    def __init__(self, count):
        self.count, self.namespaces, self.wire = count, {}, None
        self.own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self):
        devices = {number: self._host(number) for number in range(1, self.count + 1)}
        self.wire = subprocess.Popen([sys.executable, WIRE, *(f"{number}:{device}" for number, device in devices.items())],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, pass_fds=devices.values(),
                                     preexec_fn=lambda: _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        for device in devices.values():
            os.close(device)
        return self

    def __exit__(self, *_):
        self.wire.stdin.close()
        self.wire.wait()
        self.wire.stdout.close()
        for namespace in self.namespaces.values():
            os.close(namespace)

    def _host(self, number):
        """Makes it, and gives the descriptor of its end of the wire."""
        try:
            _check(_LIBC.unshare(CLONE_NEWNET), "unshare")
            self.namespaces[number] = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
            fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
            for words in (["link", "set", "lo", "up"], ["addr", "add", f"{address(number)}/24", "dev", DEVICE],
                          ["link", "set", DEVICE, "mtu", str(MTU), "up"]):
                subprocess.run(["ip", *words], check=True)
            return device
        finally:
            _check(_LIBC.setns(self.own, CLONE_NEWNET), "setns")

    @contextlib.contextmanager
    def inside(self, number):
        """Makes sockets and children of this thread in that host. A socket stays there."""
        with enter_namespace(self.namespaces[number], CLONE_NEWNET, "net"):
            yield

    def _command(self, *words):
        print(*words, file=self.wire.stdin, flush=True)
        answer = self.wire.stdout.readline()
        assert answer == "done\n", f"the wire ended at {words}"

    def delay(self, number, ms):
        """Added to each round trip of the host."""
        self._command("delay", number, ms)

    def loss(self, number, share):
        """Of the packets to and from the host."""
        self._command("loss", number, share)

    def cut(self, number, *others):
        self._command("cut", number, *others)

    def join(self, number, *others):
        self._command("join", number, *others)
