# SPDX-License-Identifier: Apache-2.0
"""profd as a service: what it tells its manager and the journal, sockets that it is given, a reload under load."""

import contextlib
import http.client
import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from daemon import BUILD, PROFD, Daemon, FaultFleet, Reply, UnixConnection, quick_config, wait_for

MS = 1_000_000
QUICK = quick_config()
FAKE_STATFS = BUILD / "tests/integration/libfake-statfs.so"
FOREVER = 60_000 * MS


class Mailbox:
    """A datagram socket, and all that came to it."""

    def __init__(self, path):
        self.path, self.all, self.closed = Path(path), [], False
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        os.chmod(path, 0o666)
        self.socket.settimeout(0.2)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while not self.closed:
            with contextlib.suppress(TimeoutError):
                self.all.append(self.socket.recv(65536).decode())

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.closed = True
        self.thread.join()
        self.socket.close()

    def find(self, pattern, begin=0):
        return next((found for text in self.all[begin:] if (found := re.search(pattern, text, re.DOTALL))), None)

    def wait(self, pattern, begin=0):
        return wait_for(lambda: self.find(pattern, begin), why=lambda: f"no {pattern} in {self.all}")

    def statuses(self):
        return [found[1] for text in self.all if (found := re.search("STATUS=(.*)", text))]


@pytest.fixture
def manager(tmp_path):
    """Stands for systemd."""
    with Mailbox(tmp_path / "notify") as box:
        yield box


def told(manager, **more):
    return {"NOTIFY_SOCKET": str(manager.path), **more}


@pytest.fixture
def fleet(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet:
        yield fleet


# What systemd is told


def test_status_line_follows(tmp_path, manager, fleet):
    with Daemon(tmp_path / "d", QUICK, environment=told(manager)) as profd:
        ready = manager.wait("^READY=1\nSTATUS=(.*)$")
        assert re.fullmatch(r"0 fleets, 0 workers, 0 sessions running, 0 B of [\d.]+ .iB", ready[1])
        session = profd.start_session(router=fleet.router, duration_ns=FOREVER)["session"]
        manager.wait("^STATUS=1 fleet, 2 workers, 1 session running, 0 B of")
        profd.post(f"/v1/sessions/{session}/stop")
        assert profd.wait_session(session)["state"] == "complete"
        manager.wait(r"^STATUS=1 fleet, 2 workers, 0 sessions running, [\d.]+ [KM]iB of")
        time.sleep(1.5)
        assert not manager.find("WATCHDOG")
    stopping = manager.wait("^STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=(\\d+)$")
    assert int(stopping[1]) >= 10_000_000  # the time that the workers are given
    statuses = manager.statuses()
    assert all(a != b for a, b in zip(statuses, statuses[1:])), statuses


def test_watchdog_is_fed_while_the_loop_turns(tmp_path, manager):
    def fed():
        return sum("WATCHDOG=1" in text for text in manager.all)

    with Daemon(tmp_path / "d", environment=told(manager, WATCHDOG_USEC="400000")) as profd:
        begin = time.monotonic()
        wait_for(lambda: fed() >= 5)
        assert time.monotonic() - begin > 5 * 0.2 - 0.2  # at half the interval, no faster
        assert profd.request("GET", "/healthz").status == 200
        profd.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: Path(f"/proc/{profd.pid}/stat").read_text().split()[2] == "T")
        time.sleep(0.3)
        stuck = fed()
        time.sleep(1)
        assert fed() == stuck
        profd.process.send_signal(signal.SIGCONT)
        wait_for(lambda: fed() >= stuck + 3)


def test_watchdog_is_not_notified_of_a_loop_that_was_held_up(tmp_path, manager):
    """Six seconds are more than a loop may be late; when it turns again, that is told soon."""
    with Daemon(tmp_path / "d", environment=told(manager, WATCHDOG_USEC="1000000")) as profd:
        manager.wait("WATCHDOG=1")
        profd.process.send_signal(signal.SIGSTOP)
        time.sleep(6.5)
        begin = len(manager.all)
        profd.process.send_signal(signal.SIGCONT)
        wait_for(lambda: "the event loop was held up; the watchdog gets no sign of life" in profd.log(), why=profd.log)
        manager.wait("WATCHDOG=1", begin)


# Sockets from systemd


@contextlib.contextmanager
def activated(tmp_path, *options, name="http", config=QUICK):
    """A profd that systemd-socket-activate starts at the first connection."""
    (tmp_path / "profd.conf").write_text(config)
    log = tmp_path / "profd.log"
    passed = [f"-E{key}" for key in os.environ if key.endswith("_OPTIONS")]
    command = ["systemd-socket-activate", f"--fdname={name}", *passed, *options, PROFD, "--config", tmp_path / "profd.conf",
               "--state-dir", tmp_path / "state", "--socket", tmp_path / "own.sock"]
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        wait_for(lambda: "Listening on" in log.read_text(), why=log.read_text)
        yield process, log
        if process.poll() is None:
            process.terminate()
            assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def ask(connection, path="/healthz"):
    with contextlib.closing(connection):
        connection.request("GET", path)
        return Reply(connection.getresponse())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_socket_of_systemd_is_served_and_stays(tmp_path):
    path = tmp_path / "given.sock"
    with activated(tmp_path, "-l", path) as (process, log):
        for _ in range(3):  # the second accept is the one that a blocking socket hangs in
            assert ask(UnixConnection(path)).status == 200
        version = ask(UnixConnection(path), "/v1/version").json()
        assert version["pid"] == process.pid
        assert not (tmp_path / "own.sock").exists()
    assert "is ready" in log.read_text()
    assert stat.S_ISSOCK(path.stat().st_mode)


def test_tcp_of_systemd_next_to_the_own_socket(tmp_path):
    port = free_port()
    with activated(tmp_path, "-l", f"127.0.0.1:{port}", config=f"{QUICK}[profd]\nlisten=127.0.0.1:{port}\n"):
        assert ask(http.client.HTTPConnection("127.0.0.1", port, timeout=60)).status == 200
        assert ask(UnixConnection(tmp_path / "own.sock")).status == 200


@pytest.mark.parametrize("options, name, address, fault", [
    (["-d"], "http", None, "socket http from systemd: it is not a listening stream socket"),
    ([], "metrics", None, "socket metrics from systemd: FileDescriptorName= must be http"),
    ([], "http", "0.0.0.0", "tokens would be sent without encryption"),
])
def test_sockets_that_are_refused(tmp_path, options, name, address, fault):
    port, path = free_port(), tmp_path / "given.sock"
    with activated(tmp_path, *options, "-l", f"{address}:{port}" if address else path, name=name) as (process, log):
        kind = socket.SOCK_DGRAM if options else socket.SOCK_STREAM
        with socket.socket(socket.AF_INET if address else socket.AF_UNIX, kind) as client:
            client.connect(("127.0.0.1", port) if address else str(path))
            if options:
                client.send(b"x")
            assert process.wait(60) == 1
    assert fault in log.read_text()


# Reload


def reload_with(profd, manager, config):
    """Gives the manager's messages of it."""
    begin, before = len(manager.all), time.clock_gettime(time.CLOCK_MONOTONIC)
    profd.config.write_text(config)
    profd.process.send_signal(signal.SIGHUP)
    manager.wait("^READY=1", begin)
    reloading = manager.wait("^RELOADING=1\nMONOTONIC_USEC=(\\d+)$", begin)
    assert before <= int(reloading[1]) / 1e6 <= time.clock_gettime(time.CLOCK_MONOTONIC)
    return "\n".join(manager.all[begin:])


def test_reload_takes_effect_and_no_session_notices(tmp_path, manager, fleet):
    watched = tmp_path / "watched"
    watched.mkdir()
    with Daemon(tmp_path / "d", QUICK, environment=told(manager)) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=FOREVER, workers=fleet.workers[:1])["session"]
        profd.wait_state(session, "recording")
        assert "not reloaded" not in reload_with(profd, manager, quick_config(more=f"watch={watched}\n[store]\nmax_use=123M\n"
                                            "[limits]\nsessions=1\nconnections=2\n"
                                            f"[fleet east]\nrouter={fleet.router}\n[profd]\nlog_level=debug\n"))
        assert profd.session(session)["state"] == "recording"
        assert profd.get("/v1/usage")["max_use"] == 123 << 20
        assert len(profd.get("/v1/workers", fleet="east")["workers"]) == 2
        assert profd.problem("POST", "/v1/sessions", {"fleet": "east"})["code"] == "too-many"
        with contextlib.ExitStack() as open_connections:
            for _ in range(2):
                connection = open_connections.enter_context(contextlib.closing(profd.connection()))
                connection.request("GET", "/healthz")
                connection.getresponse().read()
            assert profd.request("GET", "/healthz").status == 503
        (watched / "somebody.pt.trace.json").write_text('{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1, "name": "a"}]}')
        wait_for(lambda: any(t["name"] == "somebody.pt.trace.json" for t in profd.traces()), why=profd.log)
        assert "http://" in profd.log()  # debug: each call

        reload_with(profd, manager, QUICK)
        assert profd.problem("GET", "/v1/workers?fleet=east")["code"] == "not-found"
        (watched / "later.pt.trace.json").write_text("{}")
        profd.post(f"/v1/sessions/{session}/stop")
        assert profd.wait_session(session)["state"] == "complete"
        assert not any(t["name"] == "later.pt.trace.json" for t in profd.traces())


def test_stop_leaves_with_the_credentials_of_its_start(tmp_path, manager):
    """Also when profd.conf has forgotten them meanwhile."""
    token = tmp_path / "token"
    token.write_text("sesame\n")
    with FaultFleet(tmp_path / "locked", "vllm", 1, "--fault", "auth=sesame") as locked:
        config = f"[fleet locked]\nrouter={locked.router}\ntoken_file={token}\n"
        with Daemon(tmp_path / "d", quick_config(more=config), environment=told(manager)) as profd:
            session = profd.start_session(duration_ns=FOREVER)["session"]
            profd.wait_state(session, "recording")
            reload_with(profd, manager, QUICK)
            profd.post(f"/v1/sessions/{session}/stop")
            assert profd.wait_session(session)["state"] == "complete"
        assert locked.journal()["profiling"] == 0


@pytest.mark.parametrize("config, fault", [
    ("[limits]\nsesions=3\nwat\n", "profd.conf:4: [limits] sesions: no such key; did you mean sessions?"),
    ("[profd]\ngroup=other\n", "[profd] group= cannot be changed by a reload"),
    ("[profd]\nlisten=127.0.0.1:1\n", "[profd] listen= cannot be changed by a reload"),
])
def test_reload_that_is_refused_changes_nothing(tmp_path, manager, config, fault):
    with Daemon(tmp_path / "d", "[store]\nmax_use=50M\n", environment=told(manager)) as profd:
        messages = reload_with(profd, manager, "[store]\nmax_use=60M\n" + config)
        assert "profd.conf was not reloaded: " in messages and fault in messages
        assert fault in profd.log()
        assert profd.get("/v1/usage")["max_use"] == 50 << 20
        assert "not reloaded" not in reload_with(profd, manager, "[store]\nmax_use=60M\n")
        assert profd.get("/v1/usage")["max_use"] == 60 << 20


def test_reloads_while_much_is_asked(tmp_path, manager, fleet):
    """Discoveries keep the settings that they began with; nothing they use is pulled away."""
    configs = [f"{QUICK}[fleet a]\nrouter={fleet.router}\nmap_path=/x:/y\n",
               f"{QUICK}[fleet a]\nrouter={fleet.router}\ntrace_dir=/z\n[worker {fleet.workers[0]}]\nrole=decode\n"]
    with Daemon(tmp_path / "d", configs[0], environment=told(manager)) as profd:
        stop, errors = threading.Event(), []

        def discover():
            while not stop.is_set():
                reply = profd.request("GET", "/v1/workers?fleet=a")
                if reply.status != 200 or len(reply.json()["workers"]) != 2:
                    errors.append(reply)

        threads = [threading.Thread(target=discover) for _ in range(3)]
        for thread in threads:
            thread.start()
        for i in range(20):
            reload_with(profd, manager, configs[(i + 1) % 2])
        stop.set()
        for thread in threads:
            thread.join()
        assert not errors


# The journal


@pytest.fixture
def journal(tmp_path):
    """A journal at its place, in a mount namespace; gives what a Daemon's command has to begin with."""
    directory = tmp_path / "journal"
    directory.mkdir()
    script = ("mount -t tmpfs none /run && mkdir -p /run/systemd/journal && "
              f'mount --bind {shlex.quote(str(directory))} /run/systemd/journal && exec "$@"')
    for way in (["unshare", "--mount"], ["unshare", "--mount", "--map-root-user"]):
        prefix = [*way, "sh", "-c", script, "sh"]
        if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
            break
    else:
        pytest.skip("no mount namespace can be had on this machine; test-journal checks the entries")
    with Mailbox(directory / "socket") as box:
        box.prefix = prefix
        yield box


class JournalDaemon(Daemon):
    """Its stderr is the journal's, or so it is told."""

    def __init__(self, directory, config, journal):
        super().__init__(directory, config)
        self.journal = journal

    def command(self):
        return [*self.journal.prefix, *super().command()]

    def start(self):
        self.log_file.touch()
        st = self.log_file.stat()
        self.environment["JOURNAL_STREAM"] = f"{st.st_dev}:{st.st_ino}"
        begin = len(self.journal.all)
        self.spawn()
        self.journal.wait(" is ready: ", begin)
        return self


def entries(journal):
    return [dict(line.split("=", 1) for line in text.splitlines()) for text in journal.all]


def message_id(number):
    return "1ba1d1a2c1f04e0f9c1f6f0e1f6d" + number


def test_journal_knows_what_a_line_is_about(tmp_path, journal):
    with FaultFleet(tmp_path / "fleet", "vllm", 2, "--fault", "start-500@1") as fleet, \
            JournalDaemon(tmp_path / "d", QUICK, journal) as profd:
        sessions = []
        for _ in range(2):
            started = profd.start_session(router=fleet.router, duration_ns=50 * MS)
            sessions.append(profd.wait_session(started["session"])["session"])
        first, second = sessions
        of_first = [e for e in entries(journal) if e.get("PROFD_SESSION") == first]
        assert [e["MESSAGE_ID"][-4:] for e in of_first if "MESSAGE_ID" in e] == ["0a05", "0a07"]
        failed, = (e for e in of_first if e.get("PROFD_WORKER"))
        assert failed["PROFD_WORKER"] == fleet.workers[1] and failed["PRIORITY"] == "4"
        assert "/start_profile" in failed["MESSAGE"] and first in failed["MESSAGE"]
        assert all(second not in e["MESSAGE"].split() for e in of_first)
        profd.config.write_text("wat\n")
        profd.process.send_signal(signal.SIGHUP)
        journal.wait("not reloaded")
        profd.config.write_text(QUICK)
        profd.process.send_signal(signal.SIGHUP)
        journal.wait("MESSAGE=reloaded")
    ids = [e.get("MESSAGE_ID") for e in entries(journal)]
    for number in ("0a01", "0a02", "0a03", "0a04"):
        assert message_id(number) in ids
    assert {e["SYSLOG_IDENTIFIER"] for e in entries(journal)} == {"profd"}
    assert profd.log() == ""  # nothing is said twice


def test_journal_hears_of_pending_stops(tmp_path, journal):
    with FaultFleet(tmp_path / "fleet", "vllm", 1, "--fault", "slow-stop=3") as fleet, \
            JournalDaemon(tmp_path / "d", quick_config(stop="30s"), journal) as profd:
        session = profd.start_session(router=fleet.router, duration_ns=FOREVER)["session"]
        profd.wait_state(session, "recording")
        profd.process.send_signal(signal.SIGTERM)
        journal.wait("Terminated: stopping")
        profd.stop()
        owed, = (e for e in entries(journal) if e.get("MESSAGE_ID") == message_id("0a08"))
        assert (owed["PROFD_SESSION"], owed["PROFD_WORKER"]) == (session, fleet.workers[0])
        profd.start()
        profd.wait_session(session)
        sent, = (e for e in entries(journal) if e.get("MESSAGE_ID") == message_id("0a09"))
        assert (sent["PROFD_SESSION"], sent["PROFD_WORKER"]) == (session, fleet.workers[0])


def test_stderr_is_used_where_the_journal_is_not_there(tmp_path):
    profd = Daemon(tmp_path)
    profd.log_file.touch()
    st = profd.log_file.stat()
    profd.environment["JOURNAL_STREAM"] = f"{st.st_dev}:{st.st_ino}"
    if Path("/run/systemd/journal/socket").exists():
        pytest.skip("there is a journal on this machine")
    with profd:
        assert re.search("^<6>.* is ready", profd.log(), re.MULTILINE)


# Where the state may lie


@pytest.mark.parametrize("name, shown", [("nfs", "NFS"), ("lustre", "Lustre")])
def test_state_on_a_network_file_system_is_refused(tmp_path, name, shown):
    remote = tmp_path / name
    remote.mkdir()
    profd = Daemon(tmp_path / "d", environment={"LD_PRELOAD": str(FAKE_STATFS)})
    profd.state = remote / "not" / "there yet"
    status, said = profd.refuses()
    assert status == 1
    assert f"{profd.state} is on {shown}, where SQLite's write-ahead log cannot live" in said
    assert "state_dir=" in said
    assert list(remote.iterdir()) == []
    profd.state = tmp_path / "local"
    with profd:
        assert profd.request("GET", "/healthz").status == 200
