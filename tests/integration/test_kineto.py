# SPDX-License-Identifier: Apache-2.0
"""The daemon's side of Kineto's on-demand protocol: where profd listens, whom it answers, and when it does not.

The client is the double of tests/fleet/kineto-client.c, which ends as Kineto does where an answer is wrong, or a socket of the
test that looks at each byte.
"""
import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest
from daemon import PROFD, Daemon, quick_config, wait_for
from kineto_client import METADATA, KinetoClient, KinetoDaemon, abstract_name

QUICK = ["--interval", "200"]


@pytest.fixture
def abstract():
    """Kineto's abstract name, which only one test at a time can use."""
    with abstract_name():
        yield


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

    def ask(self, profd):
        """Polls until profd was in time, on a machine that may be too busy for 40 ms; the answer and its sender."""
        for _ in range(50):
            self.poll()
            if reply := self.answer(0.5):
                return reply
        raise AssertionError(f"no answer: {counts(profd)}")

    def answer(self, timeout_s=30):
        """The answer and its sender; None where none comes within a time that is not scaled."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recvfrom(65536)
        except TimeoutError:
            return None


EMPTY = METADATA.pack(0, b"req")


@pytest.mark.parametrize("mode", ["abstract", "directory"])
def test_answers_come_from_the_name_that_was_asked(tmp_path, abstract, short, mode):
    """Kineto ends its process where the sender of an answer is another one."""
    directory = short / "k" if mode == "directory" else None
    with listening(tmp_path, directory or mode) as profd, RawClient(directory) as raw:
        raw.poll()
        assert raw.answer(0.3) is None, "the first poll of a name is not answered"
        assert raw.ask(profd) == (EMPTY, f"{directory}/dynolog" if directory else b"\0dynolog\0")
        with KinetoClient(tmp_path, socket_dir=directory, options=QUICK) as client:
            for _ in range(4):
                client.wait_line("^poll")
            assert client.process.poll() is None
        assert counts(profd)["polls_total"] >= 6


def test_both_at_once(tmp_path, abstract, short):
    """Each poll is answered by the socket that it came to."""
    with listening(tmp_path, f"abstract {short}/a {short}/b") as profd:
        for directory in (None, short / "a", short / "b"):
            with RawClient(directory) as raw:
                assert raw.ask(profd)[1] == (f"{directory}/dynolog" if directory else b"\0dynolog\0")


def test_socket_of_a_directory(tmp_path, short):
    directory = short / "k"
    with listening(tmp_path, directory) as profd:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((directory / "dynolog").stat().st_mode) == 0o666
        profd.kill()
        assert (directory / "dynolog").exists()
        profd.start()  # takes over what nobody listens on
        with RawClient(directory) as raw:
            assert raw.ask(profd)[0] == EMPTY
    assert not (directory / "dynolog").exists()


def test_off_by_default(tmp_path, abstract):
    with Daemon(tmp_path, quick_config()) as profd:
        assert counts(profd)["processes"] == 0
        assert "@dynolog@" not in Path("/proc/net/unix").read_text()


def test_nothing_old_is_answered(tmp_path, short):
    """A late answer would be taken for that to the next poll, and so on."""
    with listening(tmp_path, short) as profd, RawClient(short) as raw:
        raw.ask(profd)
        while raw.answer(0.2):
            pass
        before = counts(profd)["late_total"]
        os.kill(profd.pid, signal.SIGSTOP)
        raw.poll()
        time.sleep(0.1)
        os.kill(profd.pid, signal.SIGCONT)
        wait_for(lambda: counts(profd)["late_total"] > before)
        assert raw.answer(0.2) is None
        assert raw.ask(profd)[0] == EMPTY


def test_what_is_queued_while_profd_starts_is_not_answered(tmp_path, short):
    """Here: what came to its socket before it ran again, more than a queue of the kernel holds."""
    with listening(tmp_path, short) as profd:
        clients = [RawClient(short) for _ in range(20)]
        for client in clients:
            client.socket.settimeout(0.05)
        os.kill(profd.pid, signal.SIGSTOP)
        full = 0
        for client in clients:
            try:
                client.poll()
            except TimeoutError:
                full += 1
        time.sleep(0.1)
        os.kill(profd.pid, signal.SIGCONT)
        limit = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
        wait_for(lambda: counts(profd)["polls_total"] == len(clients) - full)
        assert full == max(0, len(clients) - limit - 1)
        assert counts(profd)["late_total"] == len(clients) - full
        assert counts(profd)["processes"] == 0
        for client in clients:
            client.socket.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.socket.recvfrom(100)
            client.socket.close()


def test_a_crowd(tmp_path, short):
    """More processes than the kernel queues polls poll at once; each registers, none gets an answer late."""
    with listening(tmp_path, short) as profd:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(KinetoClient(tmp_path, socket_dir=short, options=QUICK)) for _ in range(24)]
            wait_for(lambda: counts(profd)["processes"] == len(clients))
            assert all(client.process.poll() is None for client in clients)
        wait_for(lambda: counts(profd)["processes"] == 0, why="their ends are seen without a timeout")


def test_a_shifted_client_is_put_right(tmp_path, short):
    """It has an unread answer of another daemon; after its first poll to profd it has none."""
    with RawClient(short) as raw:
        with KinetoDaemon(short) as other:
            other.socket.sendto(METADATA.pack(4, b"req") + b"old\n", f"{short}/{raw.name}")
        with listening(tmp_path, short) as profd:
            raw.poll()
            assert raw.answer()[0].endswith(b"old\n")
            assert raw.answer(0.3) is None
            assert raw.ask(profd)[0] == EMPTY


@pytest.mark.parametrize("mode", ["abstract", "directory"])
def test_a_name_that_is_in_use(tmp_path, abstract, short, mode):
    """profd serves all the same, and the log says who has the name. It listens when the name is free."""
    directory = short if mode == "directory" else None
    with KinetoDaemon(directory), listening(tmp_path, directory or mode) as profd:
        log = profd.log()
        assert f"is in use by pytest (pid {os.getpid()}, " in log or re.search(rf"in use by \S+ \(pid {os.getpid()}, ", log)
        assert "KINETO_IPC_SOCKET_DIR=DIR" in log
        assert profd.get("/v1/version")
        with RawClient(directory) as raw:
            raw.poll()  # goes to the other daemon
        assert counts(profd)["polls_total"] == 0


@pytest.mark.parametrize("where, text", [
    ("/" + 54 * "x", "must have at most 54 bytes"),
    ("/run//k", 'must not contain "//"'),
    ("/run/k/", 'must not end in "/"'),
    ("relative", 'must be "abstract" or an absolute directory'),
    ("abstract\nwarmup=1500ms", "must be a duration in whole seconds"),
])
def test_refused_by_the_configuration(tmp_path, where, text):
    path = tmp_path / "profd.conf"
    path.write_text(f"[kineto]\nlisten={where}\n")
    done = subprocess.run([PROFD, "--config", path, "--state-dir", tmp_path, "--check-config"], capture_output=True, text=True)
    assert done.returncode == 2 and text in done.stderr


def test_directories_that_are_refused_at_the_start(tmp_path, short):
    """profd serves all the same; the log has the reason and the remedy."""
    (short / "real").mkdir()
    (short / "link").symlink_to(short / "real")
    (short / "open").mkdir()
    (short / "open").chmod(0o777)
    with listening(tmp_path, f"{short}/link {short}/open {short}/none/below") as profd:
        log = profd.log()
        assert f"{short}/link leads through a symbolic link. Write [kineto] listen={short}/real" in log
        assert f"has no sticky bit (mode 0777). Run chmod +t {short}/open" in log
        assert f"cannot create {short}/none/below: No such file or directory" in log
    assert not (short / "real/dynolog").exists() and not (short / "open/dynolog").exists()


def test_by_the_command_line(tmp_path, short):
    with Daemon(tmp_path, quick_config(), options=["--kineto-listen", str(short)]) as profd, RawClient(short) as raw:
        assert raw.ask(profd)[0] == EMPTY


def test_a_reload_keeps_where_it_listens(tmp_path, short):
    with listening(tmp_path, short / "a") as profd:
        profd.config.write_text(profd.config.read_text().replace("/a", "/b"))
        os.kill(profd.pid, signal.SIGHUP)
        wait_for(lambda: "[kineto] listen= cannot be changed by a reload" in profd.log())
        with RawClient(short / "a") as raw:
            assert raw.ask(profd)[0] == EMPTY


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others and make namespaces")
def test_another_user_and_another_pid_namespace(tmp_path, short):
    """Credentials decide who a process is: in its own pid namespace it calls itself 1."""
    short.chmod(0o755)
    directory = short / "k"
    directory.mkdir()
    directory.chmod(0o1777)
    (short / "work").mkdir()
    (short / "work").chmod(0o777)
    with listening(tmp_path, directory) as profd:
        user = KinetoClient(short / "work", socket_dir=directory, options=QUICK, prefix=["setpriv", "--reuid=65534", "--clear-groups"])
        inner = KinetoClient(short / "work", socket_dir=directory, options=QUICK, prefix=["unshare", "--pid", "--fork", "--kill-child"])
        with user, inner:
            wait_for(lambda: counts(profd)["processes"] == 2)
            log = profd.log()
            assert f"Kineto: process {user.pid} of user 65534 registered ({directory})" in log
            child = int(Path(f"/proc/{inner.pid}/task/{inner.pid}/children").read_text())
            assert f"Kineto: process {child} of user 0 registered ({directory})" in log


LIKE_PYTORCH = """
import mmap, sys
with open(sys.argv[1] + "/torch/lib/libtorch_cpu.so", "rb") as library:
    memory = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)
print("mapped", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def like_pytorch(package, version="2.10.0", **environment):
    """A Python process that has mapped a library of PyTorch's name."""
    (package / "torch/lib").mkdir(parents=True, exist_ok=True)
    (package / "torch/lib/libtorch_cpu.so").write_bytes(b"x" * 4096)
    (package / "torch/version.py").write_text(f"__version__ = '{version}'\n")
    process = subprocess.Popen([sys.executable, "-c", LIKE_PYTORCH, package], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env=os.environ | environment)
    try:
        assert process.stdout.readline() == b"mapped\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def doctor(profd):
    """The lines about PyTorch."""
    return {check["text"]: check for check in profd.get("/v1/doctor", worker="http://127.0.0.1:9")["checks"]
            if "PyTorch" in check["text"]}


def about(lines, pid):
    return [f"{check['result']}: {text}" for text, check in lines.items() if f" {pid} " in text]


def test_doctor(tmp_path, abstract, short):
    """Each line where it must appear, and none for what is right."""
    other = short / "other"
    with KinetoDaemon(), listening(tmp_path, f"abstract {short}") as profd, \
            like_pytorch(short / "a") as unset, \
            like_pytorch(short / "b", KINETO_USE_DAEMON="1", KINETO_IPC_SOCKET_DIR=str(other)) as elsewhere, \
            like_pytorch(short / "c", KINETO_USE_DAEMON="1", KINETO_IPC_SOCKET_DIR=str(short)) as right:
        lines = doctor(profd)
        (line,) = [text for text in lines if text.endswith("was started without KINETO_USE_DAEMON: it cannot register")]
        assert line.startswith(f"PyTorch process {unset.pid} (python3)") or "other" in line  # of this host
        assert f"KINETO_IPC_SOCKET_DIR={short}" in lines[line]["remedy"]
        assert about(lines, elsewhere.pid) == [f"warn: PyTorch process {elsewhere.pid} (python3) has KINETO_IPC_SOCKET_DIR={other}, "
                                               "where profd does not listen"]
        assert about(lines, right.pid) == []  # it is new
        assert lines[f"PyTorch processes can register on {short}: 0 registered"]["result"] == "ok"
        taken = next(check for text, check in lines.items() if "cannot register on abstract" in text)
        assert taken["result"] == "fail" and f"(pid {os.getpid()}, " in taken["text"] and "dynolog" in taken["remedy"]


def test_doctor_where_profd_does_not_listen(tmp_path, short):
    with Daemon(tmp_path, quick_config()) as profd:
        with like_pytorch(short / "a") as process:
            assert not about(doctor(profd), process.pid)
        with like_pytorch(short / "b", KINETO_USE_DAEMON="1") as process:
            assert [check["result"] for text, check in doctor(profd).items()
                    if f"such as {process.pid} (python3), but profd does not listen for them" in text] == ["warn"]
