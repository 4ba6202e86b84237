# SPDX-License-Identifier: Apache-2.0
"""The world that chaos happens to: a profd on a small disk, three fleets of fault workers, and what a test can do to them.

The testbed owns every process and mount; leaving its block ends them. profd runs with shim.c loaded, where it can be: that
moves its wall clock and says what of the catalog's log a power cut would leave."""

import contextlib
import mmap
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("integration", "fleet")]

from daemon import BUILD, SANITIZED, Daemon, FaultFleet, wait_for  # noqa: E402
from wall_clock import WallClock, why_not  # noqa: E402

try:
    from private_bus import MANAGER, NAME, PrivateBus
except ImportError:  # python3-gi is not there
    PrivateBus = None

PROFCTL = BUILD / "client/profctl"
DISK = 192 << 20
MS = 1_000_000
SESSION_LIMIT_S, START_S = 5, 1  # the longest that a profiler may run is both
CONFIG = f"""[timeouts]
connect=500ms
identify=2s
start={START_S}s
clean=1s
stop=10min
session={SESSION_LIMIT_S}s
[limits]
connections=64
[collect]
settle=400ms
children=4
[store]
max_use=64M
keep_free=1M
"""


def children_of(pid):
    found = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(word) for word in listing.read_text().split()]
        except OSError:
            pass
    return found


def name_of(pid):
    """What the process is called; None where it has ended."""
    try:
        name, state = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rsplit(")", 1)
    except OSError:
        return None
    return None if state.split()[0] == "Z" else name


def files_below(directory):
    """What is no directory; what goes meanwhile is left out."""
    for place, _, names in os.walk(directory):
        for name in names:
            yield Path(place, name)


class Disk:
    """A tmpfs of its own where the machine lets us mount one, else a plain directory that cannot be filled."""

    def __init__(self, path):
        self.path = path
        path.mkdir(parents=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "chaos", path], capture_output=True, check=False)
        self.mounted = done.returncode == 0
        self.balloon, self.freeing = path / "balloon", threading.Lock()

    def fill(self):
        size, end = DISK, 0
        with open(self.balloon, "wb") as balloon:
            while size >= mmap.PAGESIZE:
                try:
                    os.posix_fallocate(balloon.fileno(), end, size)
                    end += size
                except OSError:
                    size //= 2

    def free(self):
        """The name goes before the space: whoever comes second waits for that."""
        with self.freeing:
            self.balloon.unlink(missing_ok=True)

    def close(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.path], check=False)


class Testbed:
    __test__ = False  # pytest takes its name for a class of tests

    def __init__(self, directory, workers):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.workers = workers  # of each of the two large fleets
        self.bus = PrivateBus("session") if PrivateBus and shutil.which("dbus-daemon") else None
        self.threads, self.clients = [], []
        self.disturbed = set()  # traces whose file was tampered with
        self.being_removed = set()  # sessions; their traces go first, and profd may be killed behind these
        self.outage_s = 0.0  # how long profd could do nothing, of this round
        self.clock_moved = self.power_cut = False
        self.frozen = set()  # profd-ingests

    def __enter__(self):
        self.disk = Disk(self.directory / "disk")
        self.control = WallClock(self.directory / "control")
        self.fleets = [FaultFleet(self.directory / f"fleet{i}", engine, count, *more, life_s=86400)
                       for i, (engine, count, more) in enumerate([
                           ("vllm", self.workers, ()), ("sglang", self.workers, ()),
                           ("vllm", 8, ("--ranks", "2"))])]
        for fleet in self.fleets:
            fleet.__enter__()
        self.shimmed = why_not() is None
        environment = dict(self.control.environment) if self.shimmed else {}
        options = ["--state-dir", self.disk.path / "state"]
        if self.bus:
            self.bus.__enter__()
            options += ["--bus", self.bus.kind]
            environment |= self.bus.environment
        self.profd = Daemon(self.directory / "profd", self.config(), options, environment)
        self.profd.state = self.disk.path / "state"
        self.profd.start()
        return self

    def __exit__(self, *exception):
        for client in self.clients:
            client.kill()
            client.wait()
        if self.profd.process:
            self.profd.process.send_signal(signal.SIGCONT)
            self.profd.kill()
        for fleet in self.fleets:
            fleet.__exit__()
        if self.bus:
            self.bus.__exit__()
        if exception[0] is None:
            self.disk.close()
        else:
            shutil.copytree(self.profd.state, self.directory / "state", dirs_exist_ok=True)
            self.disk.close()

    def config(self):
        """SGLang is told where to write; vLLM tells by itself."""
        return CONFIG + "".join(f"[worker {url}]\noutput_dir={self.fleets[1].directory}/w{i}\n"
                                for i, url in enumerate(self.fleets[1].workers))

    # profd

    def outage(self, seconds):
        self.outage_s += seconds

    def kill(self):
        left = self.children()
        self.profd.kill()
        self.see_gone(left)

    def see_gone(self, left):
        """Those who read for a profd that is no more go with it. One that was frozen before it asked for that has to wake up."""
        self.wake_readers(left)
        wait_for(lambda: not any(map(name_of, left)), interval_s=0.001, why=f"profd-ingest outlives profd: {left}")

    def freeze_reader(self, child):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGSTOP)
        self.frozen.add(child)

    def wake_readers(self, alive):
        for child in self.frozen.intersection(alive):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGCONT)
        self.frozen.clear()

    def freeze(self):
        """Until each of its threads stands still: one may go on for a while on a busy machine."""
        os.kill(self.profd.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.profd.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def spawn(self):
        """It refuses a disk that is full, so that is over first."""
        self.disk.free()
        began = time.monotonic()
        self.profd.start()
        self.outage(time.monotonic() - began)

    def children(self):
        return children_of(self.profd.pid)

    def a_reader(self):
        """A profd-ingest. Until its exec it is profd, which stands still meanwhile and whose sockets it has."""
        return next((child for child in self.children() if name_of(child) == "profd-ingest"), None)

    def descriptors(self):
        """How many of which kind; where each leads tells them apart."""
        kinds = {}
        for link in Path(f"/proc/{self.profd.pid}/fd").iterdir():
            try:
                kind = os.readlink(link).split(":")[0].split("[")[0]
            except OSError:
                continue
            kinds[kind] = kinds.get(kind, 0) + 1
        return kinds

    # The bus

    def mend_bus(self):
        if self.bus.process:
            self.bus.process.send_signal(signal.SIGCONT)
        else:
            self.bus.start()

    def ask_on_bus(self, stays, method, *arguments):
        with self.bus.connect() as peer:
            if stays:
                peer.call(MANAGER, method, *arguments)
            else:
                peer.send(method, *arguments)
                peer.connection.flush_sync(None)

    def answers_on_bus(self):
        """Whether profd has its name, and lives behind it."""
        with self.bus.connect() as peer:
            return peer.owns(NAME) and peer.call(MANAGER, "GetVersion")

    # Clients

    def in_background(self, work):
        """A client's work, whose failure is none of ours: profd may be gone."""

        def run():
            with contextlib.suppress(Exception):
                work()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.threads.append(thread)

    def join(self):
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive(), "a request was not answered within two minutes"
        self.threads.clear()

    def start_session(self, **request):
        self.in_background(lambda: self.profd.request("POST", "/v1/sessions", request))

    # Workers

    def worker(self, url):
        """(fleet, index) of a URL."""
        for fleet in self.fleets:
            if url in fleet.workers:
                return fleet, fleet.workers.index(url)
        return None

    def directory_of(self, url):
        fleet, index = self.worker(url)
        return fleet.directory / f"w{index}"

    def heal(self):
        """Whatever was wrong with anybody is over."""
        for fleet in self.fleets:
            fleet.set_router_fault("none")
            for fault in ("none", "relaunch", "hang-up"):
                fleet.set_fault(fault)
        if self.bus:
            self.mend_bus()
        self.disk.free()
        self.control.offset_s = 0

    def profiling(self):
        """URLs of workers whose profiler runs with its seconds, and how long the longest recording was."""
        running, longest = {}, 0.0
        for fleet in self.fleets:
            told = fleet.profiling()
            running.update(told["workers"])
            longest = max(longest, told["longest"])
        return running, longest
