# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL for tests: servers of their own, with their data in a directory below /tmp, as an unprivileged user.

    with Postgres() as pg:
        pg.sql("create table t (a int)")
        pg.url("fleet_writer")

Names of users have the password "secret" over TCP, and none is asked for on the socket. Without the programs of PostgreSQL 15,
missing() gives the reason to skip.
"""

import csv
import io
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from patience import patience

BIN = Path("/usr/lib/postgresql/15/bin")
USER = "postgres"
PASSWORD = "secret"
OWNER = "fleet_owner"


def missing():
    """Why there can be no server here, None where there can."""
    if not (BIN / "postgres").exists():
        return "needs the Debian package postgresql-15"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(USER)
        except KeyError:
            return f"needs the user {USER}: PostgreSQL does not run as root"
    return None


def free_port(address):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def unprivileged(command):
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *command] if os.geteuid() == 0 else list(command)


def run(command, **more):
    return subprocess.run([str(word) for word in unprivileged(command)], check=True, capture_output=True, text=True, cwd="/", **more)


class Postgres:
    """A server; `standby_of` makes it a streaming copy of another one."""

    def __init__(self, settings=(), standby_of=None, address="127.0.0.1"):
        self.settings, self.standby_of, self.address, self.port = list(settings), standby_of, address, free_port(address)

    def __enter__(self):
        # Another user cannot enter what pytest makes, and the path of a Unix socket is short.
        self.sockets = Path(tempfile.mkdtemp(prefix="profd-pg-"))
        self.data, self.log_file = self.sockets / "data", self.sockets / "log"
        if os.geteuid() == 0:
            shutil.chown(self.sockets, USER)
        if self.standby_of:
            run([BIN / "pg_basebackup", "-D", self.data, "-R", "-h", self.standby_of.sockets, "-p", self.standby_of.port, "-U", OWNER,
                 "-c", "fast", "--no-sync"])
        elif not self.data.exists():
            run([BIN / "initdb", "-D", self.data, "-U", OWNER, "--auth-local=trust", "--auth-host=scram-sha-256", "-E", "UTF8",
                 "--no-locale", "--no-sync"])
            with open(self.data / "pg_hba.conf", "a", encoding="ascii") as rules:
                rules.write("host all all samenet scram-sha-256\n")
        return self.start()

    def __exit__(self, *error):
        if error[0] and self.log_file.exists():
            print(self.log_file.read_text()[-4000:])
        self.kill()
        shutil.rmtree(self.sockets, ignore_errors=True)

    def start(self):
        options = [f"listen_addresses={self.address}", "fsync=off", "max_wal_senders=4", "shared_buffers=32MB", *self.settings]
        words = " ".join(f"-c {option}" for option in options)
        command = [BIN / "pg_ctl", "-D", self.data, "-w", "-t", str(int(patience(60))), "-l", self.log_file,
                   "-o", f"-k {self.sockets} -p {self.port} {words}", "start"]
        # Processes of a killed server may need a moment to notice.
        deadline = time.monotonic() + patience(30)
        while True:
            try:
                run(command)
                return self
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def stop(self):
        run([BIN / "pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop"])

    @property
    def pid(self):
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def kill(self):
        """As a crash of all its processes."""
        if (self.data / "postmaster.pid").exists():
            subprocess.run([str(w) for w in unprivileged([BIN / "pg_ctl", "-D", self.data, "-m", "immediate", "stop"])], check=False,
                           capture_output=True, cwd="/")

    def kill_9(self):
        os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + patience(30)
        while subprocess.run([BIN / "pg_isready", "-h", self.sockets, "-p", str(self.port)], capture_output=True).returncode == 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def promote(self):
        run([BIN / "pg_ctl", "-D", self.data, "-w", "promote"])

    def url(self, user, database="postgres", password=True, more=""):
        """Over TCP."""
        word = f":{PASSWORD}" if password else ""
        return f"postgresql://{user}{word}@{self.address}:{self.port}/{database}{more}"

    def local_url(self, user=OWNER, database="postgres"):
        """On the socket, where everybody is trusted."""
        return f"postgresql://{user}@/{database}?host={self.sockets}&port={self.port}"

    def psql(self, *words, user=OWNER, database="postgres", stdin=None, check=True):
        return subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", str(self.sockets), "-p", str(self.port), "-U", user, "-d",
                               database, *words], input=stdin, capture_output=True, text=True, check=check, cwd="/")

    def sql(self, text, user=OWNER, database="postgres"):
        """Rows as lists of texts, None for null."""
        # In CSV an empty text is "", and null is nothing: psql prints null as a word that nothing else is.
        done = self.psql("--csv", "-t", "-P", "null=\x01", "-c", text, user=user, database=database, check=False)
        assert done.returncode == 0, done.stderr
        return [[None if cell == "\x01" else cell for cell in row] for row in csv.reader(io.StringIO(done.stdout))]

    def set_passwords(self, *roles):
        for role in roles:
            self.sql(f"alter role {role} password '{PASSWORD}'")
