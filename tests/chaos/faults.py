# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: a table, one line a fault. apply(testbed, round) does it and says what it did, None where it found nobody to
do it to: one that waits is then tried again. undo(testbed) is for what would not end by itself; workers, routers, bus, disk
and clock are healed after every round anyway.

Everything is drawn from round.random, which is the fault's own, so that a seed gives the same faults again."""

import contextlib
import errno
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import time
from collections import namedtuple

from testbed import PROFCTL

Fault = namedtuple("Fault", "name weight apply undo needs waits")

WAL_HEADER, FRAME_HEADER = 32, 24


# Workers and routers: what fault-worker --list-faults has

def workers(name, most=3, arg=None):
    def apply(testbed, round_):
        chosen = round_.some_workers(most)
        value = arg(round_.random) if arg else None
        for fleet, index in chosen:
            fleet.set_fault(name, value, str(index))
        return f"{name}{'' if value is None else f'={value:g}'} @ {' '.join(fleet.workers[i][7:] for fleet, i in chosen)}"

    return apply


def one_of(*values):
    return lambda random: random.choice(values)


def between(least, most):
    return lambda random: round(random.uniform(least, most), 2)


def router(name):
    def apply(testbed, round_):
        testbed.fleets[2].set_router_fault(name)
        return name

    return apply


# profd and profd-ingest

def kill_profd(testbed, round_):
    testbed.kill()
    rest = round_.random.uniform(0, 0.2)
    time.sleep(rest)
    testbed.outage(rest)
    testbed.spawn()
    return f"away for {rest:.2f} s"


def end_profd(testbed, round_):
    """A service manager that asks, and is not patient."""
    patience = round_.random.choice((0, 0.02, 0.3))
    left = testbed.children()
    process, testbed.profd.process = testbed.profd.process, None
    process.send_signal(signal.SIGTERM)
    time.sleep(patience)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    status = process.wait(60)
    assert status == 0, f"profd ended with {status}:\n{testbed.profd.log()[-4000:]}"
    testbed.see_gone(left)
    testbed.outage(patience)
    testbed.spawn()
    return f"twice within {patience} s"


def freeze_profd(testbed, round_):
    rest = round_.random.uniform(0.02, 0.6)
    testbed.freeze()
    time.sleep(rest)
    os.kill(testbed.profd.pid, signal.SIGCONT)
    testbed.outage(rest)
    return f"for {rest:.2f} s"


def signal_ingest(number):
    def apply(testbed, round_):
        child = testbed.a_reader()
        if child is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)
        return f"process {child}"

    return apply


def freeze_ingest(testbed, _round):
    child = testbed.a_reader()
    if child is None:
        return None
    testbed.freeze_reader(child)
    return f"process {child}"


def wake_ingest(testbed):
    testbed.wake_readers(testbed.children())


# Files, on their way

def open_own(path):
    """The worker's own file: whatever it may have put in its place, a link to a file of this machine above all, is left alone."""
    file = open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "r+b")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is no file")
    return file


def size_of(file):
    return max(1, os.fstat(file.fileno()).st_size)


def truncate(path, random):
    with open_own(path) as file:
        file.truncate(random.randrange(size_of(file)))


def corrupt(path, random):
    with open_own(path) as file:
        file.seek(random.randrange(size_of(file)))
        file.write(random.randbytes(16))


def become_link(path, random):
    path.unlink()
    path.symlink_to(random.choice(("/etc/os-release", "/dev/zero", "/proc/self/mem", path.name, "..")))


def become_pipe(path, random):
    path.unlink()
    os.mkfifo(path)


def become_directory(path, random):
    path.unlink()
    path.mkdir()


def grow(path, random):
    with open_own(path) as file:
        file.seek(0, os.SEEK_END)
        file.write(random.randbytes(500))


def trace_file(change):
    def apply(testbed, round_):
        path = round_.take_fresh_file(testbed)
        if path is None:
            return None
        try:
            change(path, round_.random)
        except OSError:
            return None
        return str(path)

    return apply


def stored_file_removed(testbed, round_):
    """By somebody who was not to; profd looks when it starts."""
    files = sorted(path for path in (testbed.profd.state / "traces").rglob("*") if path.is_file())
    testbed.kill()
    victim = round_.random.choice(files) if files else None
    if victim:
        victim.unlink(missing_ok=True)
    testbed.spawn()
    return f"{victim}, and profd killed"


# Disk, clock, power

def for_a_while(testbed, round_, end):
    """Calls end() soon, or leaves it to the end of the round."""
    rest = round_.random.uniform(0.05, 0.5)
    if round_.random.random() > 0.7:
        return "until the end of the round"

    def work():
        time.sleep(rest)
        end()

    testbed.in_background(work)
    return f"for {rest:.2f} s"


def fill_disk(testbed, round_):
    testbed.disk.fill()
    return for_a_while(testbed, round_, testbed.disk.free)


def move_clock(testbed, round_):
    seconds = round_.random.choice((-86400 * 400, -3600, -5, -0.5, 0.5, 5, 3600, 86400 * 400))
    testbed.control.offset_s = seconds
    testbed.clock_moved = True
    return f"{seconds:+g} s"


def frames_of(log):
    """(salt, number of frames with it, size of one) of a write-ahead log."""
    if len(log) < WAL_HEADER:
        return b"", 0, 1
    size = FRAME_HEADER + struct.unpack_from(">I", log, 8)[0]
    n = 0
    while len(log) >= WAL_HEADER + (n + 1) * size and log[WAL_HEADER + n * size + 8:][:8] == log[16:24]:
        n += 1
    return log[16:24], n, size


def cut_log(path, synced, random):
    """What was not synced may be there or not, or half."""
    log = path.read_bytes()
    salt, n, size = frames_of(log)
    safe = min(n, synced[1]) if synced[0] == salt else 0
    kept = random.randint(safe, n)
    end = WAL_HEADER + kept * size
    torn = log[end:end + random.randrange(size)] if kept < n else b""
    torn += random.randbytes(min(len(torn), 64)) if random.random() < 0.5 else b""
    path.write_bytes(log[:end] + torn if n else log)
    return f"{kept} of {n} frames of the log are left ({safe} were safe)"


def cut_power(testbed, round_):
    """The disk as it may be found again: profd goes on with that, and another process."""
    testbed.disk.free()
    state, found = testbed.profd.state, testbed.directory / "found"
    testbed.freeze()
    for child in testbed.children():
        testbed.freeze_reader(child)
    shutil.copytree(state, found, symlinks=True)
    synced = testbed.control.synced()
    testbed.kill()
    shutil.rmtree(state)
    shutil.copytree(found, state, symlinks=True)
    shutil.rmtree(found)
    (state / "catalog.db-shm").unlink(missing_ok=True)
    log = state / "catalog.db-wal"
    told = cut_log(log, synced, round_.random) if log.exists() else "there was no log"
    testbed.power_cut = True
    testbed.spawn()
    return told


# The bus

def restart_bus(testbed, round_):
    rest = round_.random.uniform(0, 0.2)
    testbed.bus.kill()
    time.sleep(rest)
    testbed.bus.start()
    return f"away for {rest:.2f} s"


def kill_bus(testbed, _round):
    testbed.bus.kill()
    return "until the end of the round"


def hang_bus(testbed, round_):
    process = testbed.bus.process
    if process is None:
        return None
    process.send_signal(signal.SIGSTOP)
    return for_a_while(testbed, round_, lambda: process.send_signal(signal.SIGCONT))


def ask_on_bus(testbed, round_):
    """Waits for the answer, or leaves."""
    session = f"s{round_.random.randint(1, round_.sessions_before + 6)}"
    method, *arguments = round_.random.choice((
        ("GetVersion",), ("ListSessions", "(a{sv})", {}), ("GetSession", "(s)", session), ("StopSession", "(s)", session)))
    stays = round_.random.random() < 0.5
    testbed.in_background(lambda: testbed.ask_on_bus(stays, method, *arguments))
    return f"{method}, and {'waits' if stays else 'leaves'}"


# Clients

def speak(data, then=None):
    """Sends that over the socket; keeps the connection where then is None."""

    def apply(testbed, round_):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(1)
        try:
            connection.connect(str(testbed.profd.socket))
            connection.sendall(data(round_.random) if callable(data) else data)
            if then:
                then(connection)
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error))
        if then is None:
            round_.connections.append(connection)
        else:
            connection.close()
        return ""

    return apply


def slam(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def interrupted_profctl(testbed, round_):
    fleet, index = round_.some_workers(1)[0]
    client = subprocess.Popen([PROFCTL, "--socket", testbed.profd.socket, "start", "--worker", fleet.workers[index], "--queue",
                               "--duration", "300ms", "--wait"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    rest, number = round_.random.uniform(0.01, 0.3), round_.random.choice((signal.SIGINT, signal.SIGKILL, signal.SIGPIPE))
    testbed.clients.append(client)

    def work():
        time.sleep(rest)
        client.send_signal(number)

    testbed.in_background(work)
    return f"{number.name} after {rest:.2f} s"


def another_session(testbed, round_):
    request = round_.request(testbed, round_.random.randint(1, 4))
    testbed.start_session(**request)
    return str({key: value for key, value in request.items() if key != "workers"})


def a_crowd(testbed, round_):
    """Many at once: most are refused, as their workers are busy."""
    for _ in range(12):
        testbed.start_session(**round_.request(testbed, 2))
    return "12 starts"


REMOVAL = ("DELETE", "/v1/sessions/{session}")


def on_any_session(method, path):
    def apply(testbed, round_):
        known = [int(row["session_id"]) for row in rows(testbed, "select session_id from sessions order by 1 desc limit 6")]
        if not known:
            return None
        session = round_.random.choice(known)
        if (method, path) == REMOVAL:
            testbed.being_removed.add(session)
        testbed.in_background(lambda: testbed.profd.request(method, path.format(session=f"s{session}")))
        return f"s{session}"

    return apply


def remove_a_trace(testbed, round_):
    known = [int(row["trace_id"]) for row in rows(testbed, "select trace_id from traces order by 1 desc limit 10")]
    if not known:
        return None
    trace = round_.random.choice(known)
    testbed.in_background(lambda: testbed.profd.request("DELETE", f"/v1/traces/t{trace}"))
    return f"t{trace}"


def vacuum(testbed, round_):
    keep = round_.random.choice((0, 1 << 20, 16 << 20))
    testbed.in_background(lambda: testbed.profd.request("POST", "/v1/vacuum", {"keep": keep}))
    return f"keep {keep >> 20} MiB"


def rows(testbed, sql):
    try:
        return testbed.profd.rows(sql)
    except Exception:  # the catalog may be on its way to somewhere else
        return []


def fault(name, weight, apply, undo=None, needs=None, waits=False):
    return Fault(name, weight, apply, undo, needs, waits)


GARBAGE = (b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/9.9\r\n\r\n", b"POST /v1/sessions HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
           b"GET /v1/traces?limit=99999999999999999999 HTTP/1.1\r\nhost: x\r\n\r\n")
HALF = b"POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-length: 400\r\n\r\n{\"wor"

FAULTS = (
    fault("worker dies", 6, workers("die")),
    fault("worker is relaunched", 2, workers("relaunch")),
    fault("worker hangs up", 6, workers("hang-up", 6)),
    fault("worker hides behind a proxy", 8, workers("status", 3, one_of(302, 401, 403, 408, 425, 429, 502, 503, 504))),
    fault("worker answers garbage", 4, workers("garbage")),
    fault("worker cuts answers", 4, workers("cut-answer")),
    fault("worker redirects", 2, workers("redirect")),
    fault("worker answers HTML", 2, workers("html")),
    fault("worker answers other JSON", 2, workers("wrong-json")),
    fault("worker answers without end", 2, workers("endless-body", 1)),
    fault("worker is slow to answer", 2, workers("slow-body", 1)),
    fault("worker is slow to start", 4, workers("slow-start", 3, between(0.05, 1.5))),
    fault("start hangs", 4, workers("hang-start", 2)),
    fault("start is reset", 4, workers("reset-start")),
    fault("start is refused", 3, workers("start-refused", 2)),
    fault("start is 404", 2, workers("start-404")),
    fault("start is 500", 3, workers("start-500")),
    fault("worker is slow to stop", 6, workers("slow-stop", 3, between(0.05, 1.2))),
    fault("stop hangs", 3, workers("hang-stop", 2)),
    fault("stop is reset", 5, workers("reset-stop")),
    fault("stop is 500", 4, workers("stop-500")),
    fault("stop is 500, without a trace", 2, workers("stop-500-no-trace")),
    fault("worker dies while it writes", 4, workers("crash-flush", 2)),
    fault("trace is empty", 3, workers("zero-byte")),
    fault("trace is cut", 3, workers("truncated")),
    fault("trace is half a JSON", 2, workers("truncated-json")),
    fault("trace has a wrong CRC", 3, workers("corrupt-crc")),
    fault("trace is large", 2, workers("huge", 1, one_of(1, 4))),
    fault("trace is late", 3, workers("late", 2, between(0.05, 0.3))),
    fault("trace grows", 3, workers("growing", 2, between(0.05, 0.3))),
    fault("trace is there twice", 2, workers("duplicate")),
    fault("no trace", 2, workers("no-trace")),
    fault("trace is a link", 2, workers("symlink-trace")),
    fault("trace is a pipe", 2, workers("fifo-trace")),
    fault("many traces", 1, workers("many-files", 1, one_of(5, 40))),
    fault("clock of a worker", 1, workers("clock", 3, one_of(-86400, 3600))),
    fault("router is gone", 2, router("refused")),
    fault("router hangs", 1, router("hang")),
    fault("router lists half", 2, router("half")),
    fault("router lists what is no worker", 2, router("hostile")),
    fault("router lists 10,000", 1, router("ten-thousand")),
    fault("router answers HTML", 1, router("html")),
    fault("router lists without end", 1, router("endless-body")),
    fault("profd is killed", 3, kill_profd),
    fault("profd is ended", 2, end_profd),
    fault("profd is frozen", 3, freeze_profd),
    fault("profd-ingest is killed", 5, signal_ingest(signal.SIGKILL), waits=True),
    fault("profd-ingest crashes", 2, signal_ingest(signal.SIGSEGV), waits=True),
    fault("profd-ingest is frozen", 3, freeze_ingest, wake_ingest, waits=True),
    fault("trace file truncated", 4, trace_file(truncate), waits=True),
    fault("trace file overwritten", 3, trace_file(corrupt), waits=True),
    fault("trace file goes on", 2, trace_file(grow), waits=True),
    fault("trace file removed", 3, trace_file(lambda path, random: path.unlink()), waits=True),
    fault("trace file becomes a link", 3, trace_file(become_link), waits=True),
    fault("trace file becomes a pipe", 2, trace_file(become_pipe), waits=True),
    fault("trace file becomes a directory", 1, trace_file(become_directory), waits=True),
    fault("stored file removed", 1, stored_file_removed),
    fault("disk is full", 2, fill_disk, needs="disk"),
    fault("clock moves", 2, move_clock, needs="shim"),
    fault("power is cut", 2, cut_power, needs="shim"),
    fault("bus is restarted", 2, restart_bus, needs="bus"),
    fault("bus is gone", 1, kill_bus, needs="bus"),
    fault("bus hangs", 2, hang_bus, needs="bus"),
    fault("somebody asks on the bus", 2, ask_on_bus, needs="bus"),
    fault("client drops", 5, speak(b"GET /v1/sessions HTTP/1.1\r\nhost: x\r\n\r\n", slam)),
    fault("client drops within a request", 4, speak(HALF, slam)),
    fault("client never finishes", 3, speak(HALF)),
    fault("client says nothing", 3, speak(b"")),
    fault("client follows and does not read", 2, speak(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n")),
    fault("client speaks garbage", 4, speak(lambda random: random.choice(GARBAGE), slam)),
    fault("profctl is interrupted", 2, interrupted_profctl),
    fault("another session", 12, another_session),
    fault("a crowd of sessions", 1, a_crowd),
    fault("session is stopped", 5, on_any_session("POST", "/v1/sessions/{session}/stop")),
    fault("session is removed", 3, on_any_session(*REMOVAL)),
    fault("session is pinned", 1, on_any_session("PUT", "/v1/sessions/{session}/pin")),
    fault("session is unpinned", 2, on_any_session("DELETE", "/v1/sessions/{session}/pin")),
    fault("trace is removed", 3, remove_a_trace),
    fault("vacuum", 2, vacuum),
)
