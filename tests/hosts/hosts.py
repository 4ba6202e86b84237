# SPDX-License-Identifier: Apache-2.0
"""A fleet of hosts under test: each has a profd, fault workers, a directory and a wall clock of its own; one more host has the router
of all workers and no profd, as a machine of the control plane.

    with Hosts(tmp_path, 3) as hosts:
        one, two, three = hosts
        one.start_session(router=hosts.router, duration_ns=NS_PER_S)
        hosts.network.cut(two.number)

Every profd knows all others as [peer gpuN], over TLS, with a token for each direction.
"""
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "integration"), str(TESTS / "fleet"), str(TESTS / "hosts")]

from certificates import Authority  # noqa: E402
from daemon import BUILD, Daemon, FaultFleet, Reply, quick_config, token_line, wait_for, write_tokens  # noqa: E402
from network import CLONE_NEWPID, PREFIX, Network, address, enter_namespace  # noqa: E402
from wall_clock import WallClock, why_not as why_no_clock  # noqa: E402

PORT = 9460
PROFCTL = BUILD / "client/profctl"
ROUTER = TESTS / "fleet/router.py"
READY_S = 60


class Machine:
    """What a host has besides its network: process ids, mounts, its name, and a disk (a tmpfs below the same path on each host, which
    only its own processes see). `inside()` makes children of this thread in it; what is put after `enter` sees its disk."""

    def __init__(self, network, number, name, disk):
        disk.mkdir(exist_ok=True)
        self.network, self.number, self.disk = network, number, disk
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c",
             'hostname "$0" && mount -t tmpfs disk "$1" && echo ready && exec cat', name, disk],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "ready\n", f"no namespaces for {name}"
        first = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text().split()[0]
        self.process_ids = os.open(f"/proc/{first}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.root = Path(f"/proc/{first}/root")
        self.enter = ["nsenter", f"--mount=/proc/{first}/ns/mnt", f"--uts=/proc/{first}/ns/uts", "--"]

    def files(self):
        """What lies on its disk, as paths that this process can open."""
        return sorted(path for path in self.root.joinpath(self.disk.relative_to("/")).rglob("*") if path.is_file())

    @contextlib.contextmanager
    def inside(self):
        with self.network.inside(self.number), enter_namespace(self.process_ids, CLONE_NEWPID, "pid_for_children"):
            yield

    def close(self):
        """Ends what still runs on it."""
        os.close(self.process_ids)
        self.holder.stdin.close()
        self.holder.wait()
        self.holder.stdout.close()


class HostFleet(FaultFleet):
    """Fault workers on one host, with its clock and disk."""

    def __init__(self, machine, engine, count, *options, environment=None):
        super().__init__(machine.disk, engine, count, "--address", address(machine.number), *options)
        self.command = [*machine.enter, *self.command]
        self.machine, self.environment = machine, environment or {}

    def __enter__(self):
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            with self.machine.inside():
                return super().__enter__()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def _request(self, method, path, body=None):
        with self.machine.inside():
            return super()._request(method, path, body)

    def start_elsewhere(self, worker):
        with self.machine.inside():
            super().start_elsewhere(worker)


class Host(Daemon):
    """profd on a host of the network. `clock.offset_s` moves its wall clock and its workers', where `clock` is not None."""

    def __init__(self, hosts, number):
        self.hosts, self.number, self.name, self.address = hosts, number, f"gpu{number}", address(number)
        self.place = hosts.directory / self.name
        self.place.mkdir(parents=True)
        self.clock = WallClock(self.place / "clock", files=not hosts.clocks_move) if why_no_clock() is None else None
        environment = dict(self.clock.environment) if self.clock else {}
        # What a test did, for host_invariants.py.
        self.away_s, self.frozen_s, self.clock_moved = 0.0, 0.0, False
        self.sessions_before = self.leases_before = 0  # of these, nothing is known that compares times
        self.machine = Machine(hosts.network, number, self.name, hosts.directory / "disk")
        self.fleet = hosts.make_fleet(self.machine, environment)
        super().__init__(self.place / "profd", environment=environment)

    @property
    def url(self):
        return f"https://{self.address}:{PORT}"

    def token(self, peer):
        """The token that this host shows to the peer."""
        return f"{self.name}-at-{peer.name}"

    def write_config(self):
        """When all hosts are known."""
        certificate, key = self.hosts.authority.issue(self.name, f"IP:{self.address}")
        others = [host for host in self.hosts if host is not self]
        tokens = write_tokens(self.place / "tokens", "".join(token_line(peer.name, "peer", peer.token(self)) for peer in others))
        text = (f"[profd]\nlisten={self.address}:{PORT}\n"
                f"[http]\ncert_file={certificate}\nkey_file={key}\ntokens_file={tokens}\n[hosts]\nname={self.name}\n")
        for peer in others:
            token = write_tokens(self.place / f"token-{peer.name}", self.token(peer) + "\n")
            text += f"[peer {peer.name}]\nurl={peer.url}\ntoken_file={token}\nca_file={self.hosts.authority.file}\n"
        self.config.write_text(text + self.hosts.config)

    def command(self):
        return [*self.machine.enter, *super().command()]

    def spawn(self):
        with self.machine.inside():
            return super().spawn()

    def profctl(self, *arguments, status=0, errors=False):
        """Its standard output, or what it printed about errors; a dict where --json is asked for."""
        with self.machine.inside():
            done = subprocess.run([*self.machine.enter, PROFCTL, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                                  env={**os.environ, "PROFD_SOCKET": str(self.socket), "NO_COLOR": "1"}, check=False)
        assert status is None or done.returncode == status, f"profctl ended with {done.returncode}: {done.stderr}{done.stdout}"
        if errors:
            return done.stderr
        return json.loads(done.stdout) if "--json" in arguments and done.returncode == 0 else done.stdout


class Hosts:
    """`count` hosts with `workers` fault workers each. `offsets_s` are their wall clocks' errors, `config` replaces the end of each
    profd.conf. Files have times as wrong as the clock, unless `clocks_move` meanwhile. `profd_on` leaves out the profd (and its peers'
    sections) of hosts that it does not name."""

    def __init__(self, directory, count=3, workers=2, engine="vllm", options=(), config="", offsets_s=(), profd_on=None, services=0,
                 clocks_move=False):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.network = Network(count + 1 + services)
        self.router_number = count + 1
        self.workers, self.config = (engine, workers, *options), config or quick_config()
        self.clocks_move = clocks_move
        self.mirror = self.bucket = None  # of services.py
        self.numbers, self.offsets_s = range(1, count + 1), offsets_s
        self.profd_on = set(profd_on or self.numbers)
        self.all, self.started, self.stack = [], [], contextlib.ExitStack()

    def __iter__(self):
        """The hosts that have a profd."""
        return (host for host in self.all if host.number in self.profd_on)

    def __getitem__(self, number):
        return self.all[number - 1]

    def service_number(self, index=0):
        """Of a host without profd and workers, for PostgreSQL or a bucket."""
        return self.router_number + 1 + index

    def start_services(self):
        """What the profds need, on the hosts from service_number(0) on. May extend `config`; `stack` ends it last."""

    def make_fleet(self, machine, environment):
        """The workers of one host: something with `workers` (URLs) that is entered and left."""
        return HostFleet(machine, *self.workers, environment=environment)

    def __enter__(self):
        try:
            return self._start()
        except BaseException:
            self._end(crash=True)
            raise

    def _start(self):
        self.network.__enter__()
        self.authority = Authority(self.directory)
        self.start_services()
        self.all = [Host(self, number) for number in self.numbers]
        for host, offset_s in zip(self.all, self.offsets_s):
            if host.clock:
                host.clock.offset_s = offset_s
        for host in self.all:
            host.fleet.__enter__()
            self.started.append(host.fleet)
        self.router = self.start_router([url for host in self.all for url in host.fleet.workers])
        for host in self:
            host.write_config()
            host.start()
        return self

    def start_router(self, urls):
        port_file = self.directory / "router.url"
        words = [word for url in urls for word in ("--worker", f"{url},role=regular")]
        with open(self.directory / "router.log", "ab") as log, self.network.inside(self.router_number):
            self.router_process = subprocess.Popen(["/usr/bin/python3", ROUTER, "--host", address(self.router_number), "--port-file", port_file,
                                                    *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(port_file.exists, READY_S, why=lambda: (self.directory / "router.log").read_text())
        return port_file.read_text().strip()

    def __exit__(self, kind, *_):
        self._end(crash=kind is not None)

    def _end(self, crash):
        failures = []
        for host in self.all:
            if crash and host.log_file.exists():
                print(f"--- {host.name}\n{host.log()[-4000:]}")
            if host.process:
                try:
                    host.kill() if crash else host.stop()
                except AssertionError as failure:
                    failures.append(failure)
        if router := self.__dict__.get("router_process"):
            router.terminate()
            router.wait(10)
        for fleet in self.started:
            fleet.__exit__()
        for host in self.all:
            host.machine.close()
        self.stack.close()
        if self.network.wire:
            self.network.__exit__()
        if failures:
            raise failures[0]


__all__ = ["Host", "Hosts", "PORT", "PREFIX", "Reply"]
