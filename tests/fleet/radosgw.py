# SPDX-License-Identifier: Apache-2.0
"""An S3 service on one machine: Ceph's radosgw of Debian's packages with a monitor and an object store in memory, no root.

    with Radosgw(directory) as s3:
        ... s3.endpoint, s3.credentials (a file), s3.access_key, s3.secret_key ...
        s3.create_bucket("traces")
        s3.kill_gateway(); s3.start_gateway()   # what is stored stays

It listens on one address only, loopback by default, and ends only what it started."""
import contextlib
import ctypes
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from patience import patience  # noqa: E402

READY_S = 120
COMMAND_S = 120
END_S = 20
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)

# Without "crc", radosgw asks for secure connections, which do not exist without authentication: it hangs.
CONFIG = """\
[global]
fsid = {fsid}
mon host = v2:{address}:{mon_port}
auth cluster required = none
auth service required = none
auth client required = none
public addr = {address}
run dir = {directory}/run
pid file = {directory}/run/$name.pid
log file = {directory}/run/$name.log
mon data = {directory}/mon
mon data avail warn = 1
mon data avail crit = 1
mon cluster log file = {directory}/run/cluster.log
mon allow pool size one = true
paxos propose interval = 0.05
osd data = {directory}/osd
osd objectstore = memstore
memstore device bytes = 4294967296
osd crush chooseleaf type = 0
osd pool default size = 1
osd pool default pg num = 1
osd pool default pg autoscale mode = off
admin socket =
[client.rgw]
rgw frontends = beast endpoint={address}:{port}
rgw rados pool pg num min = 1
ms mon client mode = crc
[client.admin]
ms mon client mode = crc
"""


def missing():
    """The programs of Ceph that are not installed."""
    return [name for name in ("radosgw", "radosgw-admin", "ceph-mon", "ceph-osd", "ceph", "monmaptool") if not shutil.which(name)]


def free_ports(count, address):
    """Neighbours, below those that the kernel gives to connections."""
    while True:
        first = random.randrange(20000, 32000)
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind((address, port))
                return first
            except OSError:
                continue


class Radosgw:
    access_key, secret_key = "AKIAPROFDTEST", "se:cret/+key=="

    def __init__(self, directory, address="127.0.0.1"):
        self.address, self.directory = address, pathlib.Path(directory).resolve()
        for name in ("mon", "osd", "run"):
            (self.directory / name).mkdir(parents=True)
        self.mon_port = free_ports(2, address)
        self.port = self.mon_port + 1
        self.endpoint = f"http://{address}:{self.port}"
        self.credentials = self.directory / "credentials"
        self.environment = {**os.environ, "CEPH_CONF": str(self.directory / "ceph.conf")}
        self.children, self.gateway = [], None

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    def _start(self):
        fsid = str(uuid.uuid4())
        (self.directory / "ceph.conf").write_text(CONFIG.format(fsid=fsid, address=self.address, mon_port=self.mon_port, port=self.port,
                                                                directory=self.directory))
        self.run("monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a", f"[v2:{self.address}:{self.mon_port}]",
                 self.directory / "monmap")
        self.run("ceph-mon", "-i", "a", "--mkfs", "--monmap", self.directory / "monmap")
        self._spawn("ceph-mon", "-f", "-i", "a")
        self.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", str(uuid.uuid4()))
        self.run("ceph", "osd", "new", (self.directory / "osd/fsid").read_text().strip(), "0")
        self.run("ceph", "osd", "crush", "add", "osd.0", "1.0", "root=default", "host=h")
        self._spawn("ceph-osd", "-f", "-i", "0")
        self.create_user("profd", self.access_key, self.secret_key)
        self.write_credentials(self.credentials, self.access_key, self.secret_key)
        self.start_gateway()

    def create_user(self, name, access_key, secret_key):
        return json.loads(self.run("radosgw-admin", "user", "create", f"--uid={name}", f"--display-name={name}",
                                   f"--access-key={access_key}", f"--secret-key={secret_key}"))

    @staticmethod
    def write_credentials(path, access_key, secret_key, token=None):
        text = f"[default]\naws_access_key_id = {access_key}\naws_secret_access_key = {secret_key}\n"
        new = path.with_suffix(".new")
        new.write_text(text + (f"aws_session_token = {token}\n" if token else ""))
        new.chmod(0o600)
        new.rename(path)

    def start_gateway(self):
        self.gateway = self._spawn("radosgw", "-f", "-n", "client.rgw")
        deadline = time.monotonic() + patience(READY_S)
        while True:
            try:
                urllib.request.urlopen(self.endpoint, timeout=5).close()
                return
            except urllib.error.HTTPError:
                return
            except OSError:
                if time.monotonic() > deadline or any(child.poll() is not None for child in self.children):
                    raise RuntimeError(f"radosgw is not ready{self._logs()}") from None
                time.sleep(0.05)

    def kill_gateway(self):
        self.gateway.kill()
        self.gateway.wait()
        self.children.remove(self.gateway)

    def create_bucket(self, name):
        """By curl, which signs."""
        self.curl("PUT", name)

    def curl(self, method, path, *words, data=""):
        done = subprocess.run(
            ["curl", "-sS", "-f", "-X", method, "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{self.access_key}:{self.secret_key}",
             "--data-binary", data, "-H", "Content-Type:", *words, f"{self.endpoint}/{path}"] if data else
            ["curl", "-sS", "-f", "-X", method, "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{self.access_key}:{self.secret_key}",
             "-H", "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", *words,
             f"{self.endpoint}/{path}"], capture_output=True, text=True, timeout=COMMAND_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"curl {method} {path}: {done.stderr}{self._logs()}")
        return done.stdout

    def run(self, *command):
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=COMMAND_S, env=self.environment, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr}{self._logs()}")
        return done.stdout

    def _spawn(self, *command):
        with open(self.directory / f"{command[0]}.out", "ab") as log:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment, cwd="/",
                                     preexec_fn=lambda: _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM))
        self.children.append(child)
        return child

    def _logs(self):
        return "".join(f"\n== {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in sorted(self.directory.glob("*.out")))

    def _end(self):
        """What it stored is in memory: nothing is lost by a kill, and an orderly end takes seconds."""
        for child in reversed(self.children):
            child.kill()
            child.wait(END_S)
