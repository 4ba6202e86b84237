# SPDX-License-Identifier: Apache-2.0
"""Hosts with an archive and a mirror: PostgreSQL and Ceph's radosgw, each on a host of its own in the network, and what goes wrong there.

    with ServiceHosts(directory, 3) as hosts:
        with hosts.fault("mirror", "stop"):
            ...

A fault is undone when its block ends. Nobody but this network reaches the services."""

import contextlib
import os
import signal
import subprocess
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

from hosts import PROFCTL, Hosts, quick_config
from network import address

import postgres  # isort: skip  (hosts.py made them importable)
import radosgw  # isort: skip

BUCKET = "traces"
WRITER = "fleet_writer"
# Raised by a trigger: a server whose disk is full answers every batch with that.
DISK_FULL = """create function fleet.raise_disk_full() returns trigger language plpgsql as $$
begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$;
create trigger disk_full before insert or update on fleet.catalog execute function fleet.raise_disk_full()"""


def missing():
    """Why there can be no services here, None where there can."""
    return postgres.missing() or (f"needs {', '.join(radosgw.missing())} of Ceph" if radosgw.missing() else None)


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def descendants(pid):
    with contextlib.suppress(FileNotFoundError):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = [int(word) for word in file.read().split()]
        return [pid, *(found for child in children for found in descendants(child))]
    return []


class Mirror:
    """PostgreSQL with the schema of the mirror."""

    def __init__(self, hosts, number):
        self.hosts, self.number, self.is_full = hosts, number, False
        with hosts.network.inside(number):
            self.pg = hosts.stack.enter_context(postgres.Postgres(address=address(number)))
        subprocess.run([PROFCTL, "mirror", "init", self.pg.local_url()], check=True, stdout=subprocess.DEVNULL)
        self.pg.set_passwords(WRITER, "fleet_reader")
        self.config = f"[mirror]\nurl={self.pg.url(WRITER)}\nreader={self.pg.url('fleet_reader', password=False)}\ntimeout=3s\n"

    def sql(self, text):
        return self.pg.sql(text)

    def start(self):
        with self.hosts.network.inside(self.number):
            self.pg.start()

    def hang_up(self):
        self.sql(f"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{WRITER}'")

    @contextlib.contextmanager
    def stop(self):
        self.pg.stop()
        yield
        self.start()

    @contextlib.contextmanager
    def restart(self):
        """As after a crash."""
        self.pg.kill()
        self.start()
        yield

    @contextlib.contextmanager
    def freeze(self):
        pids = descendants(self.pg.pid)
        send(pids, signal.SIGSTOP)
        yield
        send(pids, signal.SIGCONT)

    @contextlib.contextmanager
    def full(self):
        self.sql(DISK_FULL)
        yield
        self.sql("drop function fleet.raise_disk_full() cascade")

    @contextlib.contextmanager
    def refuse(self):
        self.sql(f"alter role {WRITER} nologin")
        self.hang_up()
        yield
        self.sql(f"alter role {WRITER} login")


class Bucket:
    """A bucket of radosgw. `verified`: keys whose content was compared."""

    def __init__(self, hosts, number):
        self.hosts, self.number, self.verified = hosts, number, set()
        self.starter = hosts.stack.enter_context(ThreadPoolExecutor(1))
        with hosts.network.inside(number):
            self.s3 = hosts.stack.enter_context(radosgw.Radosgw(hosts.directory / "s3", address(number)))
            self.s3.create_bucket(BUCKET)
        self.config = f"[archive]\nurl=s3://{BUCKET}\nendpoint={self.s3.endpoint}\ncredentials_file={self.s3.credentials}\n"

    def admin(self, *words):
        with self.hosts.network.inside(self.number):
            self.s3.run("radosgw-admin", *words)

    def objects(self):
        """{key: size}"""
        found, after = {}, ""
        while after is not None:
            with self.hosts.network.inside(self.number):
                text = self.s3.curl("GET", f"{BUCKET}?list-type=2&start-after={urllib.parse.quote(after, safe='')}")
            for part in text.split("<Contents>")[1:]:
                key = part.split("<Key>")[1].split("</Key>")[0]
                found[key] = int(part.split("<Size>")[1].split("</Size>")[0])
            after = key if "<IsTruncated>true" in text else None
        return found

    def read(self, key):
        copy = self.hosts.directory / "object"
        with self.hosts.network.inside(self.number):
            self.s3.curl("GET", f"{BUCKET}/{urllib.parse.quote(key)}", "-o", copy)
        return copy.read_bytes()

    def start(self):
        """By a thread that stays: the gateway ends with the thread that started it."""

        def run():
            with self.hosts.network.inside(self.number):
                self.s3.start_gateway()

        self.starter.submit(run).result()

    @contextlib.contextmanager
    def stop(self):
        self.s3.kill_gateway()
        yield
        self.start()

    @contextlib.contextmanager
    def restart(self):
        self.s3.kill_gateway()
        self.start()
        yield

    @contextlib.contextmanager
    def freeze(self):
        pid = self.s3.gateway.pid
        send([pid], signal.SIGSTOP)
        yield
        send([pid], signal.SIGCONT)

    @contextlib.contextmanager
    def full(self):
        """A quota that nothing fits in any more."""
        self.admin("quota", "set", "--quota-scope=user", "--uid=profd", "--max-objects=0")
        self.admin("quota", "enable", "--quota-scope=user", "--uid=profd")
        yield
        self.admin("quota", "disable", "--quota-scope=user", "--uid=profd")

    @contextlib.contextmanager
    def refuse(self):
        """Its credentials have expired."""
        self.s3.write_credentials(self.s3.credentials, "EXPIRED", self.s3.secret_key)
        yield
        self.s3.write_credentials(self.s3.credentials, self.s3.access_key, self.s3.secret_key)


FAULTS = ("stop", "restart", "freeze", "cut", "slow", "full", "refuse")
SLOW_MS = 700  # of each round trip


class ServiceHosts(Hosts):
    def __init__(self, directory, count=3, config="", **more):
        super().__init__(directory, count, config=config or quick_config(settle="300ms", more="[hosts]\nlease=10s\n"), services=2, **more)

    def start_services(self):
        self.mirror, self.bucket = Mirror(self, self.service_number(0)), Bucket(self, self.service_number(1))
        self.config += self.bucket.config + self.mirror.config

    @contextlib.contextmanager
    def cut(self, service):
        self.network.cut(service.number)
        yield
        self.network.join(service.number)

    @contextlib.contextmanager
    def slow(self, service):
        self.network.delay(service.number, SLOW_MS)
        yield
        self.network.delay(service.number, 0)

    def fault(self, name, kind):
        """name: "mirror" or "bucket"; kind: one of FAULTS."""
        service = getattr(self, name)
        return getattr(self, kind)(service) if kind in ("cut", "slow") else getattr(service, kind)()
