# SPDX-License-Identifier: Apache-2.0
"""The mirror of the catalog in PostgreSQL: every row of the public views is there once and equal, whatever happens to the server, the
connection or the catalog; and what profctl does with it."""

import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from daemon import BUILD, ROOT, Daemon, FaultFleet, free_port, quick_config, wait_for
from patience import patience
from terminal import PROFCTL, environment

sys.path.insert(0, str(ROOT / "tests/fleet"))
from mirror_rows import MIRRORED, in_postgres, in_sqlite  # noqa: E402
from postgres import PASSWORD, Postgres, missing, unprivileged  # noqa: E402

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")


@pytest.fixture(scope="module")
def server():
    with Postgres() as pg:
        yield pg


class Mirror:
    """A database of a server with the schema, and the configuration of a profd that sends to it."""

    number = 0

    def __init__(self, pg, init=True):
        Mirror.number += 1
        self.pg, self.database = pg, f"fleet{Mirror.number}"
        pg.sql(f"create database {self.database}")
        if init:
            profctl("mirror", "init", self.owner)
            pg.set_passwords("fleet_writer", "fleet_reader")

    @property
    def owner(self):
        return self.pg.local_url(database=self.database)

    @property
    def reader(self):
        return self.pg.url("fleet_reader", self.database)

    def sql(self, text, user="fleet_owner"):
        return self.pg.sql(text, user=user, database=self.database)

    def config(self, url=None, more=""):
        url = url or self.pg.url("fleet_writer", self.database)
        return quick_config(more=f"[mirror]\nurl={url}\nreader={self.pg.url('fleet_reader', self.database, password=False)}\n{more}")


@pytest.fixture
def mirror(server):
    return Mirror(server)


def profctl(*words, check=True, **variables):
    done = subprocess.run([PROFCTL, *words], capture_output=True, text=True, env={**environment(), **variables}, timeout=60)
    assert not check or done.returncode == 0, done.stderr
    return done


# -- Equality --


def catalog_uuid(catalog):
    with contextlib.closing(sqlite3.connect(f"file:{catalog}?mode=ro", uri=True)) as db:
        return db.execute("select uuid from catalog_row").fetchone()[0]


def wait_current(profd, timeout_s=60):
    """Until the mirror has all that the catalog has."""

    def look():
        state = profd.get("/v1/mirror")
        return state["state"] == "current" and state.get("lag") == 0 and state

    return wait_for(look, timeout_s, why=lambda: f"{profd.get('/v1/mirror')}\n{profd.log()}")


def assert_equal(profd, mirror):
    """Sums that are computed in the background may change rows between two looks: then both sides are read again."""
    while True:
        last = wait_current(profd)["applied"]
        uuid = catalog_uuid(profd.catalog)
        differ = [view for view in MIRRORED if in_postgres(mirror, view, uuid) != in_sqlite(profd.catalog, view)]
        if wait_current(profd)["applied"] == last:
            assert not differ, differ
            return


# -- Rows --


@contextlib.contextmanager
def writing(profd):
    """The catalog, as another program that writes: profd waits for it."""
    with contextlib.closing(sqlite3.connect(profd.catalog, timeout=30)) as db:
        db.execute("pragma foreign_keys = on")
        with db:
            yield db


def add_events(profd, n, text="more"):
    now = time.time_ns()
    with writing(profd) as db:
        db.executemany("insert into event_row (at, kind, actor, text) values (?, 'test', 'test', ?)", [(now + i, f"{text} {i}") for i in range(n)])


TRACE = ("insert into trace_row (uuid, kind, state, name, path, origin, stored, size, disk_size, recorded_at, collected_at, rank, defects, labels) "
         "values (lower(hex(randomblob(4))) || '-0000-4000-8000-' || lower(hex(randomblob(6))), 'trace', 'complete', ?, ?, ?, 0, 7, 0, ?, ?, ?, ?, ?)")


def add_traces(profd, n, at=None, tag="t"):
    """Traces with sums, of which the ids are returned. Their files stay where they are, which is nowhere."""
    at = time.time_ns() if at is None else at
    ids = []
    with writing(profd) as db:
        db.executemany("insert or ignore into name_row (name) values (?)", [(f"kernel <{tag}, {i}> ä",) for i in range(30)])
        for i in range(n):
            path = f"/nowhere/{tag}/{at}-{i}.json"
            defects = json.dumps([{"kind": "truncated", "count": 2, "offset": 17, "text": "cut \u0001"}]) if i % 3 == 0 else None
            trace = db.execute(TRACE, (f"{tag}{i}.json", path, path, at + 1000 * i, at + 1000 * i, i % 8, defects, '{"team":"r\\"l"}')).lastrowid
            db.executemany("insert into trace_name_row select ?, 'kernel', name_id, 3, ?, 1, null from name_row where name = ?",
                           [(trace, 1000 + k % 7, f"kernel <{tag}, {k}> ä") for k in range(25)])
            db.executemany("insert into trace_category_row values (?, ?, 3, 17)", [(trace, "kernel"), (trace, "")])
            db.execute("insert into trace_step_row values (?, 'decode', 3, 100, 30, 40, 41)", (trace,))
            db.execute("insert into trace_finding_row values (?, 1, 'launch-bound', 'Launch', 'GPU idle', 42, 0.25)", (trace,))
            db.execute("update trace_row set state = state where trace_id = ?", (trace,))
            ids.append(trace)
    return ids


# -- Setting up --


def test_init_makes_schema_and_roles(server):
    mirror = Mirror(server, init=False)
    refused = profctl("mirror", "migrate", mirror.owner, check=False)
    assert refused.returncode != 0 and "has no schema fleet" in refused.stderr
    assert json.loads(profctl("mirror", "init", mirror.owner, "--json").stdout) == {"schema": "fleet", "version": 2}
    assert "version 2" in profctl("mirror", "init", mirror.owner).stdout
    assert json.loads(profctl("mirror", "migrate", mirror.owner, "--json").stdout)["migrated_from"] == 2
    apply = "select fleet.apply('00000000-0000-4000-8000-000000000001', 'h', 0, 0, null)"
    for role, statement, allowed in (("fleet_writer", apply, True), ("fleet_reader", apply, False), ("fleet_writer", "select 1 from fleet.traces", False),
                                     ("fleet_writer", "select 1 from fleet.trace", False), ("fleet_reader", "select 1 from fleet.trace", False),
                                     ("fleet_writer", "select fleet.expire('2000-01-01')", False), ("fleet_reader", "select 1 from traces", True),
                                     ("fleet_reader", "create table fleet.mine ()", False)):
        done = server.psql("-c", statement, user=role, database=mirror.database, check=False)
        assert (done.returncode == 0) == allowed, (role, statement, done.stderr)
        assert allowed or "permission denied" in done.stderr
    mirror.sql("update fleet.version set version = 99")
    newer = profctl("mirror", "migrate", mirror.owner, check=False)
    assert newer.returncode != 0 and "version 99" in newer.stderr and "newer profctl" in newer.stderr


def test_a_view_that_is_lost_is_made_again(mirror):
    mirror.sql("drop view fleet.traces")
    profctl("mirror", "migrate", mirror.owner)
    assert mirror.sql("select count(*) from fleet.traces") == [["0"]]


def test_views_have_the_columns_of_the_catalog(mirror):
    db = sqlite3.connect(":memory:")
    db.executescript((ROOT / "proto/catalog.sql").read_text())
    for view in MIRRORED:
        mine = {row[1] for row in db.execute(f"pragma table_info({view})")}
        theirs = {row[0] for row in mirror.sql(f"select column_name from information_schema.columns where table_schema = 'fleet' and table_name = '{view}'")}
        assert theirs == mine | {"catalog", "host"}, view


# -- Sending --


def test_a_session_is_mirrored(mirror, tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 3) as fleet, Daemon(tmp_path / "profd", mirror.config()) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=100_000_000, labels={"team": "rl"})
        assert profd.wait_session(session["session"])["state"] == "complete"
        add_traces(profd, 5)
        assert_equal(profd, mirror)
        assert mirror.sql("select count(*) from fleet.traces where session_id is not null") == [["3"]]
        with writing(profd) as db:  # deletions, and rows that change again
            db.execute("delete from trace_row where session_id is null and rank > 2")
            db.execute("update session_row set labels = '{\"team\":\"other\"}'")
        add_events(profd, 1)
        assert_equal(profd, mirror)

        state = profd.get("/v1/mirror")
        assert state["url"] == f"postgresql://fleet_writer@127.0.0.1:{mirror.pg.port}/{mirror.database}" and PASSWORD not in json.dumps(state)
        metrics = profd.request("GET", "/metrics").body.decode()
        assert re.search(r"^profd_mirror_lag_changes 0$", metrics, re.M) and re.search(r"^profd_mirror_lag_seconds 0$", metrics, re.M)
        assert re.search(r"^profd_mirror_rows_total [1-9]", metrics, re.M)
        assert any("the mirror is current" in check["text"] for check in profd.get("/v1/doctor", router=fleet.router)["checks"])

        assert profd.get("/v1/host")["mirror"] == {"state": "current", "rows": 0, "lag_ns": 0}
        at = {"PROFD_SOCKET": str(profd.socket)}
        assert ": current" in profctl("mirror", **at).stdout
        (row,) = json.loads(profctl("query", "--mirror", "select state, labels ->> 'team' as team, host from sessions", "--json",
                                    PGPASSWORD=PASSWORD, **at).stdout)
        assert row == {"state": "complete", "team": "other", "host": state["host"]}
        (host,) = json.loads(profctl("mirror", "status", mirror.reader, "--json").stdout)
        assert host["host"] == state["host"] and host["lag"] == 0 and host["catalog"] == catalog_uuid(profd.catalog)
        denied = profctl("query", "--mirror", "select 1", check=False, PGPASSWORD="wrong", **at)
        assert denied.returncode != 0 and "password authentication failed" in denied.stderr


def test_many_rows_come_once_whatever_breaks(mirror, tmp_path):
    """Backends are terminated, one is stopped, the server is killed and is away for a while."""
    pg = mirror.pg
    with Daemon(tmp_path / "profd", mirror.config(more="timeout=3s\nbatch=200\n")) as profd:
        wait_current(profd)
        add_events(profd, 15000)
        add_traces(profd, 1500)
        applied = f"select applied from fleet.catalog where uuid = '{catalog_uuid(profd.catalog)}'"

        def wait_applied(n):
            wait_for(lambda: int(mirror.sql(applied)[0][0]) >= n, 60, why=profd.log)

        wait_applied(1000)
        mirror.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'fleet_writer'")
        wait_applied(4000)
        pids = [int(row[0]) for row in mirror.sql("select pid from pg_stat_activity where usename = 'fleet_writer'")]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: not pids or profd.get("/v1/mirror").get("error") or "mirror: " in profd.log(), 30, why=profd.log)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        wait_applied(8000)
        pg.kill_9()
        add_events(profd, 500, "while it is away")
        error = wait_for(lambda: profd.get("/v1/mirror").get("error"), 60)
        assert error
        assert profd.get("/v1/mirror")["lag"] > 0
        pg.start()
        assert_equal(profd, mirror)
        state = profd.get("/v1/mirror")
        assert "error" not in state and state["refused_rows"] == 0
    with Daemon(tmp_path / "profd", mirror.config()) as profd:  # goes on where it was
        add_events(profd, 1)
        assert_equal(profd, mirror)
        assert profd.get("/v1/mirror")["rows"] < 5000  # traces that are missing, and an event for each


def test_a_failover_to_a_standby(tmp_path):
    with Postgres() as first:
        mirror = Mirror(first)
        with Postgres(standby_of=first) as second:
            url = (f"postgresql://fleet_writer:{PASSWORD}@127.0.0.1:{first.port},127.0.0.1:{second.port}/{mirror.database}")
            with Daemon(tmp_path / "profd", mirror.config(url)) as profd:
                add_events(profd, 3000)
                wait_for(lambda: (profd.get("/v1/mirror").get("applied") or 0) > 500, 60)
                first.kill()
                second.promote()
                add_traces(profd, 20)
                mirror.pg = second
                assert_equal(profd, mirror)


def test_an_emptied_mirror_is_filled_again(mirror, tmp_path):
    with Daemon(tmp_path / "profd", mirror.config()) as profd:
        add_traces(profd, 30)
        assert_equal(profd, mirror)
        mirror.sql("truncate fleet.catalog, fleet.trace, fleet.trace_sum, fleet.event, fleet.session, fleet.name restart identity")
        add_events(profd, 1)
        assert_equal(profd, mirror)
        mirror.sql("drop schema fleet cascade")
        add_events(profd, 1)
        wait_for(lambda: "profctl mirror init" in (profd.get("/v1/mirror").get("remedy") or ""), 60)
        profctl("mirror", "init", mirror.owner)
        assert_equal(profd, mirror)


def test_a_restored_catalog_becomes_a_new_one(mirror, tmp_path):
    with Daemon(tmp_path / "profd", mirror.config()) as profd:
        add_traces(profd, 5, tag="kept")
        assert_equal(profd, mirror)
        old = catalog_uuid(profd.catalog)
        copy = tmp_path / "copy.db"
        with contextlib.closing(sqlite3.connect(profd.catalog)) as db:
            db.execute(f"vacuum into '{copy}'")
        add_traces(profd, 200, tag="lost")
        wait_current(profd)
        profd.stop()
        for suffix in ("-wal", "-shm"):
            Path(f"{profd.catalog}{suffix}").unlink()
        shutil.copy(copy, profd.catalog)
        profd.start()
        wait_for(lambda: catalog_uuid(profd.catalog) != old, 60, why=profd.log)
        assert_equal(profd, mirror)
        assert mirror.sql("select count(*) from fleet.traces where name like 'lost%'") == [["0"]]
        rows = {host["catalog"]: host.get("replaced_by") for host in json.loads(profctl("mirror", "status", mirror.owner, "--json").stdout)}
        assert rows == {old: catalog_uuid(profd.catalog), catalog_uuid(profd.catalog): None}
        profctl("mirror", "expire", mirror.owner, "--older-than", "3650d", "--yes")
        assert mirror.sql("select count(*) from fleet.catalog") == [["1"]]
        assert_equal(profd, mirror)


@pytest.mark.skipif(not PGBOUNCER, reason="needs the Debian package pgbouncer")
def test_through_pgbouncer(mirror, tmp_path):
    pg, port = mirror.pg, free_port()
    users, config = pg.sockets / "users.txt", pg.sockets / "pgbouncer.ini"
    users.write_text(f'"fleet_writer" "{PASSWORD}"\n"fleet_reader" "{PASSWORD}"\n')
    config.write_text(f"[databases]\n* = host={pg.sockets} port={pg.port}\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\n"
                      f"auth_type=plain\nauth_file={users}\npool_mode=transaction\ndefault_pool_size=2\nunix_socket_dir=\n")
    bouncer = subprocess.Popen(unprivileged([PGBOUNCER, "-q", str(config)]), stderr=subprocess.DEVNULL, cwd="/")
    try:
        url = f"postgresql://fleet_writer:{PASSWORD}@127.0.0.1:{port}/{mirror.database}"
        with Daemon(tmp_path / "profd", mirror.config(url)) as profd:
            add_events(profd, 1000)
            add_traces(profd, 50)
            assert_equal(profd, mirror)
        rows = json.loads(profctl("query", f"--mirror={url.replace('fleet_writer', 'fleet_reader')}", "select count(*) as n from traces", "--json").stdout)
        assert rows == [{"n": 50}]
    finally:
        bouncer.terminate()
        bouncer.wait()


def test_a_wrong_password_is_reported_and_corrected(mirror, tmp_path):
    passfile = tmp_path / "passfile"
    passfile.write_text(f"*:*:*:*:wrong\n")
    passfile.chmod(0o600)
    config = mirror.config(mirror.pg.url("fleet_writer", mirror.database, password=False), more=f"passfile={passfile}\n")
    with FaultFleet(tmp_path / "fleet") as fleet, Daemon(tmp_path / "profd", config) as profd:
        state = wait_for(lambda: (lambda s: s.get("error") and s)(profd.get("/v1/mirror")), 60)
        assert "password authentication failed" in state["error"] and "passfile=" in state["remedy"] and state["state"] == "waiting"
        checks = profd.get("/v1/doctor", router=fleet.router)["checks"]
        assert any("password authentication failed" in check["text"] for check in checks), checks
        passfile.write_text(f"*:*:*:*:{PASSWORD}\n")
        add_events(profd, 3)
        assert_equal(profd, mirror)


def test_a_row_that_is_refused_holds_up_no_other(mirror, tmp_path):
    with Daemon(tmp_path / "profd", mirror.config()) as profd:
        bad, good = add_traces(profd, 40)[10], 39
        with writing(profd) as db:
            db.execute("update trace_row set uuid = 'not one' where trace_id = ?", (bad,))
        add_events(profd, 5)
        wait_current(profd)
        assert profd.get("/v1/mirror")["refused_rows"] >= 1
        assert mirror.sql("select count(*) from fleet.traces") in ([[str(good)]], [[str(good + 1)]])  # the row before, or none
        assert "was refused and left out" in profd.log()
        with writing(profd) as db:
            db.execute("update trace_row set uuid = '00000000-0000-4000-8000-0000000000ff' where trace_id = ?", (bad,))
        assert_equal(profd, mirror)


def test_lists_that_views_cannot_read_are_not_stored(mirror):
    """One host that sends nonsense does not make a view unreadable for all."""
    trace = {"trace_id": 1, "collected_at": "2026-01-01T00:00:00Z", "recorded_at": "2026-01-01T00:00:00Z"}
    parts = ("category_sums", "step_sums", "findings", "defects")

    def apply(number, **more):
        rows = json.dumps({"traces": [{**trace, **more}], "rows": 1})
        return mirror.pg.psql("-c", f"select fleet.apply('00000000-0000-4000-8000-000000000001', 'h', {number - 1}, {number}, $${rows}$$)",
                              user="fleet_writer", database=mirror.database, check=False)

    for number, value in enumerate((7, "text", {"a": 1}, None, []), 1):
        assert apply(number, **dict.fromkeys(parts, value)).returncode == 0
    for part, member in zip(parts, ("sum_ns", "p50_ns", "cost_ns", "offset")):
        for value in ([{member: "many"}], [{member: 1.5}], [7]):
            assert apply(6, **{part: value}).returncode != 0, (part, value)
    assert apply(6, category_sums=[{"category": "kernel", "count": 1, "sum_ns": 2}]).returncode == 0
    for view in MIRRORED:
        mirror.sql(f"select * from fleet.{view}", user="fleet_reader")
    assert mirror.sql("select category, sum_ns from fleet.category_sums") == [["kernel", "2"]]


def test_a_server_that_is_slow_full_or_refuses(mirror, tmp_path):
    """A statement beyond [mirror] timeout=, errors of the disk, no connection left."""
    with Daemon(tmp_path / "profd", mirror.config(more="timeout=1s\nbatch=100\n")) as profd:
        add_events(profd, 10)
        wait_current(profd)
        for body, more, text, remedy in (
                ("perform pg_sleep(600)", "", "no answer in time", ""),
                ("raise exception 'could not extend file: No space left on device' using errcode = '53100'", "", "could not extend file", "disk"),
                ("perform 1", "alter role fleet_writer connection limit 0; select pg_terminate_backend(pid) from pg_stat_activity where usename = 'fleet_writer'",
                 "too many connections", "connection")):
            mirror.sql(f"create or replace function fleet.fault() returns trigger language plpgsql as $$ begin {body}; return new; end $$; "
                       "create or replace trigger fault before insert on fleet.event for each row execute function fleet.fault()")
            if more:
                mirror.sql(more)
            add_events(profd, 150, text)
            state = wait_for(lambda: (lambda s: text in s.get("error", "") and s)(profd.get("/v1/mirror")), 60, why=lambda: profd.get("/v1/mirror"))
            assert state["lag"] >= 150 and remedy in state.get("remedy", ""), state
            mirror.sql("drop trigger fault on fleet.event; alter role fleet_writer connection limit -1")
            assert_equal(profd, mirror)
            assert "error" not in profd.get("/v1/mirror")
        assert profd.get("/v1/mirror")["refused_rows"] == 0


class Flood:
    """A server that answers as PostgreSQL, and sends notices while nothing is asked."""

    def __init__(self, notices=b"x" * 20000):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.sent, self.ended = self.listener.getsockname()[1], 0, 0
        self.notice = self.message(b"N", b"SNOTICE\0VNOTICE\0C00000\0M" + notices + b"\0\0")
        threading.Thread(target=self.serve, daemon=True).start()

    @staticmethod
    def message(kind, body):
        return kind + struct.pack("!I", len(body) + 4) + body

    def answer(self, connection):
        """To each call "0", which is also that of a batch: until nothing is asked."""
        ready = self.message(b"Z", b"I")
        (size,) = struct.unpack("!I", connection.recv(4, socket.MSG_WAITALL))
        connection.recv(size - 4, socket.MSG_WAITALL)
        settings = {b"server_version": b"15.0", b"in_hot_standby": b"off", b"default_transaction_read_only": b"off", b"client_encoding": b"UTF8"}
        connection.sendall(self.message(b"R", struct.pack("!I", 0)) +
                           b"".join(self.message(b"S", name + b"\0" + value + b"\0") for name, value in settings.items()) + ready)
        for _ in range(2):  # the version, and what is applied
            while (kind := connection.recv(1)) != b"S":
                (size,) = struct.unpack("!I", connection.recv(4, socket.MSG_WAITALL))
                connection.recv(size - 4, socket.MSG_WAITALL)
            connection.recv(4, socket.MSG_WAITALL)
            connection.sendall(self.message(b"1", b"") + self.message(b"2", b"") +
                               self.message(b"T", struct.pack("!H", 1) + b"v\0" + struct.pack("!IHIhih", 0, 0, 20, 8, -1, 0)) +
                               self.message(b"D", struct.pack("!HI", 1, 1) + b"0") + self.message(b"C", b"SELECT 1\0") + ready)

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            with contextlib.suppress(OSError), connection:
                self.answer(connection)
                while True:
                    connection.sendall(self.notice)
                    self.sent += len(self.notice)
            self.ended += 1


def test_a_server_that_floods_an_idle_connection_is_left(tmp_path):
    flood = Flood()
    with Daemon(tmp_path / "profd", quick_config(more=f"[mirror]\nurl=postgresql://u:p@127.0.0.1:{flood.port}/d?sslmode=disable\n")) as profd:
        wait_for(lambda: flood.ended > 0, 30, why=lambda: f"{flood.sent} bytes\n{profd.log()}")
        state = wait_for(lambda: (lambda s: s.get("error") and s)(profd.get("/v1/mirror")), 30)
        assert "sent more than 1 MiB" in state["error"]
        assert flood.sent < 32 << 20  # what buffers of the kernel hold besides
        add_events(profd, 1)


class EndlessLogin:
    """A server that asks for 2^31 - 1 iterations of SCRAM-SHA-256 (RFC 5802, 5.1), for which libpq computes 20 minutes."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.asked, self.connections = self.listener.getsockname()[1], threading.Event(), 0
        threading.Thread(target=self.serve, daemon=True).start()

    @staticmethod
    def take(connection):
        (size,) = struct.unpack("!I", connection.recv(4, socket.MSG_WAITALL))
        return connection.recv(size - 4, socket.MSG_WAITALL)

    def serve(self):
        held = []  # open, so that libpq does not notice an end
        while True:
            connection, _ = self.listener.accept()
            held.append(connection)
            self.connections += 1
            self.take(connection)
            connection.sendall(Flood.message(b"R", struct.pack("!I", 10) + b"SCRAM-SHA-256\0\0"))
            connection.recv(1)
            nonce = self.take(connection).split(b"r=")[-1]
            connection.sendall(Flood.message(b"R", struct.pack("!I", 11) + b"r=" + nonce + b"x,s=c2FsdHNhbHRzYWx0c2FsdA==,i=2147483647"))
            self.asked.set()


def test_a_server_whose_log_in_does_not_end_holds_up_nothing(tmp_path):
    server = EndlessLogin()
    with Daemon(tmp_path / "profd", quick_config(more=f"[mirror]\nurl=postgresql://u:p@127.0.0.1:{server.port}/d?sslmode=disable\n")) as profd:
        assert server.asked.wait(patience(30)), profd.log()
        state = {}
        while "error" not in state:  # each answer within its deadline, while libpq computes
            began = time.monotonic()
            assert profd.request("GET", "/healthz").status == 200
            state = profd.get("/v1/mirror")
            assert time.monotonic() - began < patience(5)
            time.sleep(0.05)
        assert "127.0.0.1 keeps the log-in busy (SCRAM" in state["error"] and "restart profd" in state["remedy"], state
        # The next tries neither reach the server nor take a second thread.
        failures = wait_for(lambda: (lambda s: "next_at" in s and s)(profd.get("/v1/mirror")), 30)["next_at"]
        state = wait_for(lambda: (lambda s: s.get("next_at", 0) > failures and s)(profd.get("/v1/mirror")), 30)
        assert "keeps the log-in busy" in state["error"] and server.connections == 1
        began = time.monotonic()
        profd.stop()
        assert time.monotonic() - began < patience(5)


def test_schemas_of_other_versions(server, tmp_path):
    """The schema of version 1 takes rows of this profd, says so, and is migrated with its rows; a newer one is only reported."""
    mirror = Mirror(server, init=False)
    profctl("mirror", "init", Mirror(server).owner)  # roles belong to the server
    server.set_passwords("fleet_writer", "fleet_reader")
    old = (ROOT / "tests/data/mirror-v1.sql").read_text()
    mirror.sql(f"create schema fleet authorization fleet_owner; set role fleet_owner; {old}; insert into fleet.version (version) values (1)")

    with FaultFleet(tmp_path / "fleet") as fleet, Daemon(tmp_path / "profd", mirror.config()) as profd:
        at = {"PROFD_SOCKET": str(profd.socket)}

        def reported():
            checks = [check["text"] for check in profd.get("/v1/doctor", router=fleet.router)["checks"] if "schema of the mirror" in check["text"]]
            return profctl("mirror", **at).stdout, checks

        add_traces(profd, 5)
        assert_equal(profd, mirror)
        status, checks = reported()
        assert "has version 1" in status and "profctl mirror migrate URL" in status and "older" in checks[0]
        mirror.sql("update fleet.trace_sum set categories = '7' where trace_id = 2")  # as it could be stored
        listing = profctl("mirror", "status", mirror.reader)
        assert "has version 1" in listing.stderr and "profctl mirror migrate URL" in listing.stderr
        assert json.loads(profctl("mirror", "migrate", mirror.owner, "--json").stdout) == {"schema": "fleet", "version": 2, "migrated_from": 1}
        assert mirror.sql("select count(distinct trace_id) from fleet.category_sums") == [["4"]]
        with writing(profd) as db:
            db.execute("update trace_row set size = 8")
        assert_equal(profd, mirror)

        for version, word in ((2, None), (99, "newer")):
            mirror.sql(f"update fleet.version set version = {version}; "
                       "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'fleet_writer'")
            wait_for(lambda: not profd.get("/v1/mirror").get("error"), 30)
            add_events(profd, 1)
            wait_for(lambda: profd.get("/v1/mirror").get("schema_version") == version, 30)
            status, checks = reported()
            assert ("has version" in status) == bool(word) and len(checks) == (1 if word else 0) and all(word in text for text in checks)
        assert "Upgrade profctl" in profctl("mirror", "status", mirror.reader).stderr


def test_status_lists_every_host_with_its_lag(mirror):
    mirror.sql("insert into fleet.catalog (uuid, host, applied, last, changed_at, seen_at) values "
               "(gen_random_uuid(), 'gpu1', 10, 10, now(), now()), (gen_random_uuid(), 'gpu2', 10, 4010, now() - interval '2 hours', now()), "
               "(gen_random_uuid(), 'gpu3', 10, 10, now() - interval '3 days', now() - interval '3 days')")
    shown = profctl("mirror", "status", mirror.reader)
    rows = {line.split()[0]: line for line in shown.stdout.splitlines()}
    assert "current" in rows["gpu1"] and "behind" in rows["gpu2"] and "4,000" in rows["gpu2"] and "2h" in rows["gpu2"] and "silent" in rows["gpu3"]
    assert re.search("^gpu3: sent nothing for more than 24 hours.*profctl mirror status", shown.stderr, re.M), shown.stderr
    assert re.search("^gpu2: still sending", shown.stderr, re.M)
    states = {host["host"]: host["state"] for host in json.loads(profctl("mirror", "status", mirror.reader, "--json").stdout)}
    assert states == {"gpu1": "current", "gpu2": "behind", "gpu3": "silent"}


def test_partitions_and_expiry(mirror, tmp_path):
    second = 10**9
    with Daemon(tmp_path / "profd", mirror.config()) as profd:
        now = time.time_ns()
        old, far = now - 200 * 86400 * second, int(datetime.datetime(2116, 5, 1).timestamp()) * second
        add_traces(profd, 3, old, "old")
        add_traces(profd, 4, far, "far")
        add_traces(profd, 5, 17, "first")  # a clock at the epoch
        add_traces(profd, 6, now, "new")
        with writing(profd) as db:
            db.executemany("insert into session_row (uuid, state, options, requested_at, requested_by) values (?, 'failed', '{}', ?, 'test')",
                           [("00000000-0000-4000-8000-000000000001", old), ("00000000-0000-4000-8000-000000000002", now)])
        assert_equal(profd, mirror)
        partition = datetime.datetime.fromtimestamp(old / second, datetime.timezone.utc).strftime("trace_%Y_%m")
        assert mirror.sql(f"select count(*) from fleet.{partition}") == [["3"]]
        assert mirror.sql("select count(*) from fleet.trace_default") == [["9"]]
        assert mirror.sql("select count(*) from pg_inherits where inhparent = 'fleet.trace'::regclass") == [["3"]]
        done = json.loads(profctl("mirror", "expire", mirror.owner, "--older-than", "90d", "--yes", "--json").stdout)
        assert done == {"rows": 9, "partitions": 2}
        assert mirror.sql("select count(*) from fleet.traces") == [["10"]]
        assert mirror.sql("select count(distinct trace_id) from fleet.kernel_sums") == [["10"]]
        mirror.sql("update fleet.catalog set applied = 0")  # what was expired does not come back
        add_events(profd, 1)
        wait_for(lambda: mirror.sql("select applied > 0 from fleet.catalog") == [["t"]], 60)
        wait_current(profd)
        assert mirror.sql("select count(*) from fleet.traces") == [["10"]]
        assert mirror.sql("select count(*) from fleet.sessions") == [["1"]]


class Session:
    """A connection of its own, in which statements wait for others."""

    def __init__(self, mirror):
        self.psql = subprocess.Popen(["psql", "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", mirror.owner], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.send("select 'ready';")
        assert self.psql.stdout.readline() == "ready\n"

    def send(self, text):
        self.psql.stdin.write(text + "\n")
        self.psql.stdin.flush()

    def end(self):
        _, errors = self.psql.communicate(timeout=patience(60))
        return errors or self.psql.returncode


def test_hosts_that_begin_a_month_at_once(mirror):
    """All of them find that a partition is missing, while nobody may make it yet: none is sent back by a deadlock."""
    at = datetime.datetime.now(datetime.timezone.utc).isoformat()
    rows = json.dumps({"events": [{"event_id": 1, "at": at, "kind": "test"}], "rows": 1})
    hosts, holder = [Session(mirror) for _ in range(3)], Session(mirror)
    holder.send("begin; select 'held' from pg_advisory_xact_lock(hashtext('fleet.make_partitions'));")
    assert holder.psql.stdout.readline() == "held\n"
    # By the server, as no host waits for longer than a second.
    holder.send("do $$ begin while (select count(*) from pg_locks where locktype = 'advisory' and not granted) < 3 loop perform pg_sleep(0.001); "
                "end loop; end $$; commit;")
    for n, host in enumerate(hosts):
        host.send(f"select fleet.apply('00000000-0000-4000-8000-00000000000{n}', 'h{n}', 0, 1, $${rows}$$);")
    assert [host.end() for host in hosts] == [0, 0, 0] and holder.end() == 0
    assert mirror.sql("select host from fleet.events order by host") == [["h0"], ["h1"], ["h2"]]
    assert mirror.sql("select count(*) from fleet.event_default") == [["0"]]


# -- Queries --


def query(mirror, sql, *more, check=True):
    return profctl("query", f"--mirror={mirror.reader}", sql, *more, check=check)


def test_rows_are_printed_as_those_of_a_trace(mirror):
    sql = "select 1 as n, 2.5::numeric as x, null as none, 'a\"b,c' as text, true as yes, '{\"a\":1}'::jsonb as j union all select 2, 'NaN', null, '', false, null order by 1"
    assert json.loads(query(mirror, sql, "--json").stdout) == [{"n": 1, "x": 2.5, "none": None, "text": 'a"b,c', "yes": True, "j": '{"a": 1}'},
                                                               {"n": 2, "x": "NaN", "none": None, "text": "", "yes": False, "j": None}]
    assert query(mirror, sql, "--csv").stdout == 'n,x,none,text,yes,j\n1,2.5,,"a""b,c",true,"{""a"": 1}"\n2,NaN,,"",false,\n'
    table = query(mirror, "select 'gpu1' as host, 42 as applied union all select null, 7")
    assert [line.split() for line in table.stdout.splitlines()] == [["host", "applied"], ["gpu1", "42"], ["NULL", "7"]]
    assert "2 rows" in table.stderr
    first = query(mirror, "select generate_series(1, 100000) as n", "--limit", "3", "--csv")
    assert first.stdout == "n\n1\n2\n3\n" and "the first 3 rows" in first.stderr
    assert "kernel_sums" in query(mirror, ".tables").stdout and "timestamp with time zone" in query(mirror, ".schema").stdout
    columns = query(mirror, ".schema kernel_sums").stdout
    assert "sum_ns" in columns and all(line.startswith("kernel_sums") for line in columns.splitlines()[1:]), columns


@pytest.mark.parametrize("sql, options, expected", [
    ("select nme from traces", (), ['column "nme" does not exist', "LINE 1: select nme from traces", "^"]),
    ("select * from session", (), ["permission denied", "fleet_reader"]),
    ("delete from session", (), ["read-only transaction"]),
    ("create temp table t ()", (), ["read-only transaction", "use SELECT"]),
    ("select 1; select 2", (), ["multiple commands", "one statement at a time"]),
    ("select pg_sleep(20)", ("--time-limit", "200ms"), ["reached its time limit of 200 ms", "--time-limit"]),
    ("select * from nothing", (), ['relation "nothing" does not exist', ".tables"]),
    ("t12", (), ["syntax error"]),
])
def test_statements_that_fail(mirror, sql, options, expected):
    done = query(mirror, sql, *options, check=False)
    assert done.returncode == 1, done
    assert done.stdout == "" and all(part in done.stderr for part in expected), done.stderr


def test_ctrl_c_cancels_a_statement_at_the_server(mirror):
    process = subprocess.Popen([PROFCTL, "query", f"--mirror={mirror.reader}", "select pg_sleep(600)"], stderr=subprocess.PIPE, text=True, env=environment())
    running = "select count(*) from pg_stat_activity where usename = 'fleet_reader' and state = 'active'"
    wait_for(lambda: mirror.sql(running) == [["1"]])
    process.send_signal(signal.SIGINT)
    assert "interrupted: 0 rows printed" in process.communicate(timeout=60)[1] and process.returncode != 0
    wait_for(lambda: mirror.sql(running) == [["0"]])


@contextlib.contextmanager
def hanging(pg, mirror):
    """All processes of the server that would answer a reader, stopped: connections are made, and nothing more happens."""
    pids = [pg.pid] + [int(row[0]) for row in mirror.sql("select pid from pg_stat_activity where usename = 'fleet_reader'")]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_server_that_hangs_holds_no_user(mirror):
    """Neither Ctrl-C, which asks the server to cancel, nor a time limit waits for it."""
    running = "select count(*) from pg_stat_activity where usename = 'fleet_reader' and state = 'active'"
    command = [PROFCTL, "query", f"--mirror={mirror.reader}", "select pg_sleep(600)"]
    interrupted = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
    limited = subprocess.Popen([*command, "--time-limit=3s"], stderr=subprocess.PIPE, text=True, env=environment())
    wait_for(lambda: mirror.sql(running) == [["2"]])
    with hanging(mirror.pg, mirror):
        interrupted.send_signal(signal.SIGINT)
        assert "interrupted" in interrupted.communicate(timeout=60)[1] and interrupted.returncode != 0
        assert "has not answered within the time limit" in limited.communicate(timeout=60)[1] and limited.returncode != 0


def test_hosts_that_do_not_answer_or_refuse():
    refused = profctl("query", f"--mirror=postgresql://u@127.0.0.1:{free_port()}/d", "select 1", check=False)
    assert refused.returncode != 0 and "Connection refused" in refused.stderr and "PostgreSQL runs there" in refused.stderr
    wrong = profctl("mirror", "init", "http://127.0.0.1/", check=False)
    assert wrong.returncode != 0 and "not valid" in wrong.stderr
    missing_url = profctl("mirror", "init", check=False)
    assert missing_url.returncode != 0 and "needs the address" in missing_url.stderr


# -- The documentation --

QUERY = re.compile(r"^([^\n`]+):\n\n```sql\n(.*?)```", re.M | re.S)
NOT_MIRRORED = {"The slowest requests of a run, and how late they left"}


def documented(page):
    return {title: sql for title, sql in QUERY.findall((ROOT / "docs" / page).read_text())}


def comparable(rows):
    """Numbers as numbers, whatever their type."""

    def value(cell):
        try:
            return round(float(cell), 3)
        except (TypeError, ValueError):
            return cell

    return [[value(cell) for cell in row] for row in rows]


def add_rows_of_the_examples(profd):
    now = time.time_ns()
    add_traces(profd, 3)
    add_events(profd, 2)
    with writing(profd) as db:
        db.execute("insert into worker_row (worker_id, url, engine, role, health, profilable, last_seen_at) values (1, 'http://w', 'vllm', "
                   "'unknown', 'healthy', 1, ?)", (now,))
        db.execute("insert into session_row (session_id, uuid, state, options, labels, requested_at, requested_by) values "
                   "(7, '00000000-0000-4000-8000-000000000007', 'complete', '{}', '{\"team\":\"rl\"}', ?, 'test')", (now,))
        db.execute("insert into target_row (session_id, worker_id, state, worker, profile_id, ranks_expected, stop_sent_at, stop_answered_at) "
                   "values (7, 1, 'complete', '{}', 'x', 1, ?, ?)", (now, now + 61_500_000_000))
        db.execute("update trace_row set session_id = 7, worker_id = 1, span_ns = 12345, columns_size = trace_id * 10")
        name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        db.execute("insert into name_row (name) values (?)", (name,))
        db.execute("insert into trace_name_row select trace_id, 'kernel', name_id, 3, 100000 + trace_id, 1, 2 from trace_row, name_row n where n.name = ?",
                   (name,))
        db.execute("update trace_name_row set sum_ns = sum_ns + 1000 * name_id")  # so that no two are equal
        db.execute("update trace_row set state = state")
        db.execute("insert into run_row (uuid, state, model, workload, targets, requested_at, requested_by, started_at, success, summary) values "
                   "('00000000-0000-4000-8000-000000000003', 'complete', 'm', '{}', '[]', ?, 'test', ?, 3, "
                   "'{\"metrics\":{\"ttft_ms\":{\"p50\":1.25}}}')", (now, now))


def test_the_queries_of_the_catalog_give_the_same_here(server, tmp_path):
    catalog, mirror_page = documented("catalog.md"), documented("mirror.md")
    assert set(catalog) - NOT_MIRRORED <= set(mirror_page), set(catalog) - set(mirror_page)
    mirror = Mirror(server)
    config = mirror.config(more="[hosts]\nname=gpu1\n")
    with Daemon(tmp_path / "profd", config, environment={"TZ": "UTC"}) as profd:
        add_rows_of_the_examples(profd)
        assert_equal(profd, mirror)
        with contextlib.closing(sqlite3.connect(f"file:{profd.catalog}?mode=ro", uri=True)) as db:
            for title in set(catalog) - NOT_MIRRORED:
                sql = catalog[title].replace("'localtime'", "'utc'").replace("'unixepoch', 'utc'", "'unixepoch'")
                mine = comparable([list(row) for row in db.execute(sql)])
                statement = f"set timezone = 'UTC'; set search_path = fleet; {mirror_page[title]}"
                theirs = comparable(mirror.sql(statement, user="fleet_reader"))
                if "order by" not in catalog[title]:
                    mine, theirs = sorted(mine, key=str), sorted(theirs, key=str)
                assert mine == theirs, title
                assert mine, title
        for sql in re.findall(r"```sql\n(.*?)```", (ROOT / "docs/mirror.md").read_text(), re.S):
            assert mirror.sql(f"set search_path = fleet; {sql}", user="fleet_reader"), sql


# -- The configuration --


def test_addresses_that_are_refused(server, tmp_path):
    for key, value, text in (("url", "http://127.0.0.1/x", "[mirror] url=: not an address of PostgreSQL"),
                             ("url", "host=a,b hostaddr=127.0.0.1 dbname=x", "different numbers of hosts"),
                             ("reader", "postgresql://u:secret@h/x", "[mirror] reader= has a password")):
        status, error = Daemon(tmp_path / "profd", quick_config(more=f"[mirror]\n{key}={value}\n")).refuses()
        assert status != 0 and text in error and "secret" not in error
    with Daemon(tmp_path / "profd", quick_config(more="[mirror]\nurl=postgresql://u@169.254.169.254/x\n")) as profd:
        error = wait_for(lambda: profd.get("/v1/mirror").get("error"), 30)
        assert error.startswith("169.254.169.254 ")


def test_a_profd_without_a_mirror(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        assert profd.get("/v1/mirror")["state"] == "off"
        refused = profctl("query", "--mirror", "select 1", check=False, PROFD_SOCKET=str(profd.socket))
        assert refused.returncode != 0 and "names no address" in refused.stderr
