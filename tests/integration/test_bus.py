# SPDX-License-Identifier: Apache-2.0
"""The D-Bus API: real profd, real dbus-daemon, the programs that people use on a bus."""

import grp
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from daemon import BUILD, ROOT, Daemon, FaultFleet, quick_config, wait_for
from kineto_client import KinetoClient

pytest.importorskip("gi", reason="python3-gi is not installed")
from gi.repository import GLib  # noqa: E402
from private_bus import MANAGER, NAME, PATH, SESSION, FakePolkit, PrivateBus, error_name  # noqa: E402
from patience import patience  # noqa: E402

PROFCTL = BUILD / "client/profctl"
NOBODY = 65534
SOMEBODY = 1  # a number: nothing is looked up

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")


def on_bus(directory, bus, config=None, **more):
    return Daemon(directory, config or quick_config(), ["--bus", bus.kind], {**bus.environment, **more})


def wait_named(peer):
    wait_for(lambda: peer.owns(NAME))


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A profd on a session bus that has recorded one session of two workers, and what was heard meanwhile."""

    class Stage:
        pass

    s = Stage()
    directory = tmp_path_factory.mktemp("bus")
    with (PrivateBus("session") as s.bus, FaultFleet(directory / "fleet", "vllm", 2) as s.fleet,
          on_bus(directory / "profd", s.bus) as s.profd, s.bus.connect() as s.peer):
        wait_named(s.peer)
        s.heard = s.peer.listen()
        s.path, s.started = s.peer.call(MANAGER, "StartSession", "(a{sv})", {
            "router": GLib.Variant("s", s.fleet.router), "duration_ns": GLib.Variant("t", 300_000_000),
            "labels": GLib.Variant("a{ss}", {"run": "7"})})
        s.session = s.profd.wait_session(s.started["session"])
        yield s


def call(stage, method, signature="()", *arguments):
    return stage.peer.call(MANAGER, method, signature, *arguments)


def refused(function, *arguments):
    """(error's word, message) of a call that must fail with one of profd's errors."""
    with pytest.raises(GLib.Error) as caught:
        function(*arguments)
    name = error_name(caught.value)
    assert name and name.startswith("org.profd1.Error."), name
    return name.removeprefix("org.profd1.Error."), caught.value.message.partition(": ")[2]


def run_ok(done):
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


# What it shows


def shape(interface):
    """An interface as a comparable value, without comments."""
    return {(e.tag, e.get("name")): (e.get("type"), e.get("access"),
                                     [tuple(sorted(a.items())) for a in e if a.tag in ("arg", "annotation")])
            for e in interface}


def test_the_document_is_what_it_shows(stage):
    document = {i.get("name"): shape(i) for i in ElementTree.parse(ROOT / "proto/org.profd1.xml").getroot()
                if i.tag == "interface"}
    shown = {}
    for path in (PATH, stage.path):
        text = stage.peer.call("org.freedesktop.DBus.Introspectable", "Introspect", path=path)
        shown |= {i.get("name"): shape(i) for i in ElementTree.fromstring(text).findall("interface")
                  if i.get("name").startswith(NAME)}
    assert document == shown
    assert len(shown[MANAGER]) > 20


@pytest.mark.smoke
def test_every_operation_of_http_is_there(stage):
    """But those that are streams or of HTTP itself, as the web page's and timelines are, and reports: on this host, a program has the columns by OpenColumns.
    A restored catalog is for its administrator, who has profctl."""
    computed = ("/v1/reports", "/v1/compare", "/v1/flame", "/v1/archive/restore",
                *("/v1/traces/{trace}/" + name for name in ("reports/{report}", "query", "flame", "export")))
    timeline = tuple("/v1/traces/{trace}/" + name for name in ("timeline", "names", "tiles", "counters", "slice", "search", "selection"))
    methods = (ROOT / "proto/bus_methods.c").read_text()
    for line in subprocess.run([BUILD / "daemon/profd", "--list-routes"], capture_output=True, text=True).stdout.splitlines():
        method, pattern, right = line.split()[:3]
        if right == "peer":  # other hosts are on no bus of this one
            assert f'"{pattern}"' not in methods, pattern
        elif pattern.startswith("/v1/") and pattern not in ("/v1/events", "/v1/fleet/events", *computed) and not pattern.startswith(("/v1/web/", "/v1/tickets", *timeline)):
            assert f'"{method}",' in methods and f'"{pattern}"' in methods, pattern


def test_a_session_from_start_to_file(stage):
    assert stage.path == "/org/profd1/session/s1" and stage.session["state"] == "complete"
    session = call(stage, "GetSession", "(s)", "s1")
    assert session["labels"] == {"run": "7"} and session["requested_by"] == stage.session["requested_by"]
    assert [t["state"] for t in session["targets"]] == ["complete"] * 2
    assert call(stage, "ListSessions", "(a{sv})", {"limit": GLib.Variant("u", 5)})["sessions"][0]["session"] == "s1"
    traces = call(stage, "ListTraces", "(a{sv})", {"session": GLib.Variant("s", "s1")})["traces"]
    assert len(traces) == 2
    for trace in traces:
        fd, name, size = stage.peer.open("OpenTrace", trace["trace"])
        with open(fd, "rb") as file:
            data = file.read()
        assert (name, size) == (trace["name"], len(data))
        assert hashlib.sha256(data).hexdigest() == trace["sha256"]
    fd, name, size = stage.peer.open("OpenColumns", traces[0]["trace"])
    with open(fd, "rb") as file:
        assert len(file.read()) == size > 0


def test_labels_are_changed(stage):
    for method, ref in (("LabelSession", "s1"), ("LabelTrace", "t1")):
        added = call(stage, method, "(sa{sv})", ref, {"from": GLib.Variant("s", "bus"), "gone": GLib.Variant("s", "x")})
        assert added["labels"]["from"] == "bus" and added["labels"]["gone"] == "x"
        removed = call(stage, method, "(sa{sv})", ref, {"from": GLib.Variant("b", False), "gone": GLib.Variant("b", False)})
        assert not {"from", "gone"} & set(removed.get("labels", {}))


def test_a_run_whose_router_answers_nothing(stage):
    workload = GLib.Variant("a{sv}", {"isl": GLib.Variant("u", 8), "requests": GLib.Variant("t", 3)})
    run = call(stage, "StartRun", "(a{sv})", {"router": GLib.Variant("s", stage.fleet.router), "workload": workload})["run"]
    now = wait_for(lambda: (r := call(stage, "GetRun", "(s)", str(run)))["state"] == "failed" and r)
    assert now["workload"] == {"isl": 8, "requests": 3} and now["reason"]
    assert call(stage, "ListRuns", "(a{sv})", {})["runs"][0]["run"] == run
    requests = call(stage, "ListRequests", "(sa{sv})", f"r{run}", {"limit": GLib.Variant("u", 5)})["requests"]
    assert [request["error"].split(":")[0] for request in requests] == 3 * ["404 Not Found"]
    assert refused(call, stage, "StopRun", "(s)", f"r{run}") == ("Conflict", f"run r{run} is over: it is failed")
    assert call(stage, "RemoveRun", "(s)", f"r{run}") == {"removed": 1}
    assert refused(call, stage, "GetRun", "(s)", f"r{run}")[0] == "NotFound"


def test_answers_are_those_of_http(stage):
    def without_null(value):
        if isinstance(value, dict):
            return {k: without_null(v) for k, v in value.items() if v is not None}
        return [without_null(v) for v in value] if isinstance(value, list) else value

    source = {"router": GLib.Variant("s", stage.fleet.router)}
    assert call(stage, "GetSession", "(s)", "s1") == without_null(stage.profd.session("s1"))
    assert call(stage, "GetTrace", "(s)", "1") == without_null(stage.profd.get("/v1/traces/1"))
    uuid = stage.profd.session("s1")["uuid"]
    assert call(stage, "FindRef", "(a{sv})", {"ref": GLib.Variant("s", uuid)}) == {"ref": "s1", "uuid": uuid}
    assert call(stage, "GetSession", "(s)", uuid)["session"] == "s1"
    assert call(stage, "ListRouters") == without_null(stage.profd.get("/v1/routers"))
    assert call(stage, "GetMirror")["state"] == "off"
    assert call(stage, "GetUsage").keys() == stage.profd.get("/v1/usage").keys()
    workers = call(stage, "ListWorkers", "(a{sv})", source)["workers"]
    assert [w["url"] for w in workers] == stage.fleet.workers
    only = {"worker": GLib.Variant("as", stage.fleet.workers[1:])}
    assert [w["url"] for w in call(stage, "ListWorkers", "(a{sv})", only)["workers"]] == stage.fleet.workers[1:]
    assert call(stage, "Examine", "(a{sv})", source)["checks"]


def test_signals_tell_what_happened(stage):
    def of(path, interface, member):
        return [a for p, i, m, a in list(stage.heard) if (p, i, m) == (path, interface, member)]

    wait_for(lambda: len(of(PATH, MANAGER, "TraceAdded")) == 2)
    changes = of(PATH, MANAGER, "SessionChanged")
    states = [state for session, path, state in changes if (session, path) == ("s1", stage.path)]
    assert states == ["requested", "starting", "recording", "stopping", "collecting", "complete"]
    assert sorted(of(PATH, MANAGER, "TraceAdded")) == [("t1", "s1"), ("t2", "s1")]
    added = of(PATH, "org.freedesktop.DBus.ObjectManager", "InterfacesAdded")
    assert added[0][0] == stage.path and added[0][1][SESSION]["Router"] == stage.fleet.router
    changed = of(stage.path, "org.freedesktop.DBus.Properties", "PropertiesChanged")
    assert changed[-1][0] == SESSION and changed[-1][1]["State"] == "complete"
    wait_for(lambda: [c for c in of(PATH, "org.freedesktop.DBus.Properties", "PropertiesChanged")
                      if c[1].get("StoreTraces") == 2])
    wait_for(lambda: [c for c in of(PATH, "org.freedesktop.DBus.Properties", "PropertiesChanged")
                      if c[1].get("SessionsRunning") == 0])


def test_objects_and_properties(stage):
    assert stage.peer.get(MANAGER, "Version") == stage.profd.get("/v1/version")["version"]
    assert stage.peer.get(MANAGER, "StoreTraces") == 2
    assert stage.peer.get(MANAGER, "StoreBytes") == stage.profd.get("/v1/usage")["bytes"]
    everything = stage.peer.call("org.freedesktop.DBus.Properties", "GetAll", "(s)", SESSION, path=stage.path)
    assert (everything["State"], everything["Workers"], everything["Traces"]) == ("complete", 2, 2)
    assert everything["FinishedAt"] == stage.session["finished_at"]
    objects = stage.peer.call("org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    assert objects[stage.path][SESSION] == everything
    assert stage.peer.call(SESSION, "Get", path=stage.path) == call(stage, "GetSession", "(s)", "s1")
    with pytest.raises(GLib.Error) as caught:
        stage.peer.call(SESSION, "Get", path="/org/profd1/session/s99")
    assert error_name(caught.value) == "org.freedesktop.DBus.Error.UnknownObject"


def test_a_recording_is_stopped_at_its_object(stage):
    path, session = call(stage, "StartSession", "(a{sv})", {"router": GLib.Variant("s", stage.fleet.router),
                                                            "duration_ns": GLib.Variant("x", 60_000_000_000)})
    ref = session["session"]
    stage.profd.wait_state(ref, "recording")
    assert stage.peer.get(MANAGER, "SessionsRunning") == 1
    assert stage.peer.call(SESSION, "Stop", path=path)["session"] == ref
    assert stage.profd.wait_session(ref)["state"] in ("complete", "partial")
    heard = stage.peer.listen()
    assert call(stage, "RemoveSession", "(s)", ref)["removed"] == ref
    wait_for(lambda: (PATH, "org.freedesktop.DBus.ObjectManager", "InterfacesRemoved", (path, [SESSION])) in heard)
    assert refused(call, stage, "GetSession", "(s)", ref)[0] == "NotFound"


def test_errors_have_a_name_and_a_remedy(stage):
    def start(**request):
        return refused(call, stage, "StartSession", "(a{sv})", request)

    assert refused(call, stage, "GetTrace", "(s)", "t77") == (
        "NotFound", "there is no trace t77\nprofctl list-traces lists them.")
    assert refused(call, stage, "GetTrace", "(s)", "s1")[0] == "BadRequest"
    assert refused(call, stage, "GetTrace", "(s)", "../usage")[0] == "BadRequest"
    assert refused(call, stage, "StopSession", "(s)", "s1")[0] == "Conflict"
    assert start(steps=GLib.Variant("s", "many"))[0] == "BadRequest"
    assert start(stops=GLib.Variant("u", 5)) == ("BadRequest", '"stops" is not an option of a session')
    assert start(steps=GLib.Variant("t", 2**63))[0] == "BadRequest"
    assert start(steps=GLib.Variant("d", float("nan")))[0] == "BadRequest"
    assert start(router=GLib.Variant("s", "http://127.0.0.1:1"))[0] == "Upstream"
    assert refused(call, stage, "ListTraces", "(a{sv})", {"limt": GLib.Variant("u", 5)}) == (
        "BadRequest", '/v1/traces takes no parameter "limt"\nIt takes: session worker since until unclaimed before limit state search sort offset total label.')
    assert refused(call, stage, "ListTraces", "(a{sv})", {"limit": GLib.Variant("a{sv}", {})})[0] == "BadRequest"
    assert start(labels=GLib.Variant("s", "x" * (2 << 20)))[0] == "TooLarge"
    nested = GLib.Variant("s", "deep")
    for _ in range(19):
        nested = GLib.Variant("a{sv}", {"in": nested})
    assert start(labels=nested)[0] in ("TooLarge", "BadRequest")
    with pytest.raises(GLib.Error) as caught:
        call(stage, "GetTrace", "(u)", 1)
    assert error_name(caught.value) == "org.freedesktop.DBus.Error.InvalidArgs"


# The programs that people use


def test_busctl_and_gdbus(stage):
    run, flag = stage.bus.run, f"--address={stage.bus.address}"
    assert "StartSession" in run_ok(run("busctl", flag, "introspect", NAME, PATH))
    assert stage.path in run_ok(run("busctl", flag, "tree", NAME))
    answer = json.loads(run_ok(run("busctl", flag, "--json=short", "call", NAME, PATH, MANAGER, "GetSession", "s", "s1")))
    assert answer["data"][0]["session"]["data"] == "s1"
    done = run("busctl", flag, "call", NAME, PATH, MANAGER, "GetTrace", "s", "t77")
    assert done.returncode == 1 and "there is no trace t77" in done.stderr
    gdbus = ["gdbus", "call", "--session", "-d", NAME, "-o", PATH, "-m"]
    assert "'complete'" in run_ok(run(*gdbus, f"{MANAGER}.ListSessions", '{"limit": <1>, "state": <"complete">}'))
    assert "handle 0" in run_ok(run(*gdbus, f"{MANAGER}.OpenTrace", "t1"))


@pytest.mark.parametrize("verb", ["list-sessions", "list-traces", "show t1", "show s1", "status s1", "du",
                                  "list-workers --router ROUTER", "doctor --router ROUTER"])
def test_profctl_prints_the_same_over_http_and_dbus(stage, verb):
    words = verb.replace("ROUTER", stage.fleet.router).split()
    by_bus = stage.bus.run(PROFCTL, "--bus=session", *words)
    by_socket = stage.bus.run(PROFCTL, "--socket", stage.profd.socket, *words)
    assert by_bus.returncode == by_socket.returncode == 0, by_bus.stderr
    if words[0] in ("doctor", "list-workers", "du"):  # times and free space differ
        assert len(by_bus.stdout.splitlines()) == len(by_socket.stdout.splitlines()) > 1
    else:
        assert by_bus.stdout == by_socket.stdout and len(by_bus.stdout) > 50


def test_profctl_records_and_fetches_over_the_bus(stage, tmp_path):
    def profctl(*words):
        return stage.bus.run(PROFCTL, "--bus=session", *words)

    done = profctl("start", "--router", stage.fleet.router, "--duration", "200ms", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    session = json.loads(done.stdout)
    assert session["state"] == "complete"
    assert profctl("get", session["session"], "-d", tmp_path / "got").returncode == 0
    hashes = {hashlib.sha256(f.read_bytes()).hexdigest() for f in (tmp_path / "got").rglob("*.gz")}
    assert hashes == {t["sha256"] for t in stage.profd.traces(session=session["session"])}
    trace = stage.profd.traces(session=session["session"])[0]["trace"]
    assert profctl("pin", trace).returncode == 0 and stage.profd.get(f"/v1/traces/{trace}")["pinned"]
    copy = tmp_path / "copy.pt.trace.json"
    copy.write_text('{"traceEvents": [{"ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "name": "a"}]}')
    first, again = profctl("ingest", copy), profctl("ingest", copy)
    assert (first.returncode, again.returncode) == (0, 0) and "1 already known" in again.stderr
    assert profctl("rm", "--yes", session["session"]).returncode == 0
    missing = profctl("show", "t77")
    assert missing.returncode == 4
    assert missing.stderr == "profctl: there is no trace t77\n  profctl list-traces lists them.\n"
    events = profctl("events")
    assert events.returncode == 1 and "not available over D-Bus" in events.stderr
    assert profctl("--bus", "status").returncode != 0


# Faults


def test_a_bus_that_comes_late_and_is_restarted(tmp_path):
    bus = PrivateBus("session")
    with on_bus(tmp_path, bus) as profd:
        wait_for(lambda: "no org.profd1 on the session bus" in profd.log())
        with bus:
            for _ in range(2):
                with bus.connect() as peer:
                    wait_named(peer)
                    assert peer.call(MANAGER, "GetVersion")["pid"] == profd.pid
                bus.kill()
                assert profd.get("/v1/version")["pid"] == profd.pid
                bus.start()
        # Lost once more with the block's end: it is said each time, once.
        wait_for(lambda: profd.log().count("no org.profd1 on the session bus") >= 2)
        assert profd.get("/v1/version")


def test_a_name_that_another_has(tmp_path):
    with PrivateBus("session") as bus, bus.connect() as peer:
        peer.call("org.freedesktop.DBus", "RequestName", "(su)", NAME, 4, name="org.freedesktop.DBus",
                  path="/org/freedesktop/DBus")
        with on_bus(tmp_path, bus) as profd:
            wait_for(lambda: "another process owns that name" in profd.log())
            assert profd.get("/v1/version")
            peer.close()
            with bus.connect() as other:
                wait_named(other)
                assert other.call(MANAGER, "GetVersion")["pid"] == profd.pid


class SilentRouter:
    """Accepts connections, and says nothing."""

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        return self

    def __exit__(self, *exception):
        self.listener.close()

    def accept(self):
        self.listener.settimeout(60)
        connection, _ = self.listener.accept()
        return connection


def test_who_leaves_starts_nothing(tmp_path):
    with (PrivateBus("session") as bus, on_bus(tmp_path, bus, quick_config(more="[timeouts]\nidentify=10min\n")) as profd,
          SilentRouter() as router):
        with bus.connect() as peer:
            wait_named(peer)
            peer.send("StartSession", "(a{sv})", {"router": GLib.Variant("s", router.url)})
            connection = router.accept()
            assert connection.recv(1000)
        # The caller is gone: profd hangs up, long before its own patience ends.
        connection.settimeout(60)
        assert connection.recv(1000) == b""
        assert profd.get("/v1/sessions")["sessions"] == []


def test_a_flood_of_calls_is_bounded_and_stops_nobody(tmp_path):
    answers = []
    with (PrivateBus("session") as bus, SilentRouter() as router, bus.connect() as peer, bus.connect() as other,
          on_bus(tmp_path, bus, quick_config(more="[timeouts]\nidentify=10min\n")) as profd):
        wait_named(peer)
        for _ in range(200):
            peer.send("ListWorkers", "(a{sv})", {"router": GLib.Variant("s", router.url)}, on_answer=answers.append)
        wait_for(lambda: len(answers) == 200 - 32)
        assert {error_name(a) for a in answers} == {"org.profd1.Error.TooMany"}
        assert other.call(MANAGER, "GetVersion")["pid"] == profd.pid
        quick = []
        for _ in range(5000):
            other.send("ListSessions", "(a{sv})", {}, on_answer=quick.append)
        slowest = 0
        while len(quick) < 5000:
            begin = time.monotonic()
            assert profd.request("GET", "/healthz").status == 200
            slowest = max(slowest, time.monotonic() - begin)
        assert slowest < patience(5)
        assert {str(a) for a in quick} == {"({'sessions': <@av []>},)"}
        # Its end does not wait for them.
        profd.stop()
    wait_for(lambda: len(answers) == 200)


def test_no_bus_unless_asked(tmp_path):
    with PrivateBus("session") as bus, bus.connect() as peer:
        with Daemon(tmp_path / "a", environment=bus.environment) as profd:
            assert profd.get("/v1/version")
            assert not peer.owns(NAME)
        with Daemon(tmp_path / "b", "[profd]\nbus=session\n", environment=bus.environment):
            wait_named(peer)
        wait_for(lambda: not peer.owns(NAME))
    done = subprocess.run([BUILD / "daemon/profd", "--bus", "tram"], capture_output=True, text=True)
    assert done.returncode == 2 and "must be system, session or none" in done.stderr


# The system's bus: who may

CALL = ("busctl", "--system", "--timeout=60", "--allow-interactive-authorization=no", "call", NAME, PATH, MANAGER)


@needs_root
def test_reading_is_the_bus_s_and_the_rest_polkit_s(tmp_path):
    with (PrivateBus("system") as bus, FakePolkit(bus) as polkit, on_bus(tmp_path, bus) as profd,
          bus.connect() as peer):
        wait_named(peer)
        stop = (*CALL, "StopSession", "s", "s77")
        # Nobody reads, without polkit.
        run_ok(bus.run(*CALL, "ListSessions", "a{sv}", "0", user=NOBODY))
        assert not polkit.asked
        # Root needs none for the rest, either.
        assert "there is no session s77" in bus.run(*stop).stderr
        assert not polkit.asked
        # Others: what polkit says, asked with the caller's name on the bus.
        assert "there is no session s77" in bus.run(*stop, user=NOBODY).stderr
        (kind, details), action, more, flags, cancellation = polkit.asked[-1]
        assert (kind, action, more, flags, cancellation) == ("system-bus-name", "org.profd1.manage", {}, 0, "")
        assert details["name"].startswith(":1.")
        for decide, said in (("no", "polkit refused"), ("challenge", "polkit requires a password")):
            polkit.decide = decide
            done = bus.run(*stop, user=NOBODY)
            assert done.returncode == 1 and f"StopSession is not allowed: {said}" in done.stderr
            assert "Join group profd" in done.stderr
        done = bus.run("busctl", "--system", *CALL[4:], "RemoveTrace", "s", "t1", user=NOBODY)
        assert "not allowed" in done.stderr and polkit.asked[-1][3] == 1  # a dialogue is allowed
        # Removing is a right of its own, as with tokens.
        assert polkit.asked[-1][1] == "org.profd1.administer" and "grant org.profd1.administer" in done.stderr
        for removing in (("RemoveSession", "s", "s77"), ("Vacuum", "a{sv}", "1", "keep", "x", "0")):
            assert "not allowed" in bus.run(*CALL, *removing, user=NOBODY).stderr
            assert polkit.asked[-1][1] == "org.profd1.administer"
        # A file is opened with profd's rights, so polkit's yes is not enough.
        polkit.decide = "yes"
        done = bus.run(*CALL, "ImportTrace", "a{sv}", "1", "path", "s", "/etc/shadow", user=NOBODY)
        assert "only root and the user that profd runs as may import files" in done.stderr
        assert profd.get("/v1/version")


@needs_root
def test_the_group_of_the_socket_records_the_processes_of_others(tmp_path):
    """Whom polkit lets start sessions records his own processes; whom the socket admits by his groups, everybody's."""
    directory = Path(tempfile.mkdtemp(prefix="kineto-", dir="/tmp"))
    (directory / "traces").mkdir()
    for path in (directory, directory / "traces"):
        path.chmod(0o1777)
    config = quick_config(more=f"[kineto]\nlisten={directory}\npoll=500ms\nwarmup=0s\n").replace(
        "[timeouts]", "[profd]\ngroup=daemon\n[timeouts]", 1)
    member, other = {"group": NOBODY, "extra_groups": [grp.getgrnam("daemon").gr_gid]}, {"group": NOBODY, "extra_groups": []}
    quick = ("--interval", 200, "--tick", 100)
    begin = (*CALL, "StartSession", "a{sv}", "2", "kineto", "a{sv}", "0", "duration_ns", "x", "100000000")
    with (PrivateBus("system") as bus, FakePolkit(bus), on_bus(tmp_path, bus, config) as profd, bus.connect() as peer,
          KinetoClient(tmp_path, directory, tmp_path, quick), KinetoClient(tmp_path, directory, directory / "traces", quick, prefix=[
              "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]) as own):
        wait_named(peer)
        wait_for(lambda: sum("process" in w for w in profd.get("/v1/workers", kineto="true")["workers"]) == 2, 30)

        def targets(session):
            return {int(re.match(r"kineto://(\d+)\.", t["worker"])[1]) for t in profd.wait_session(session)["targets"]}

        run_ok(bus.run(*begin, user=NOBODY, **other))
        assert targets("s1") == {own.pid}
        run_ok(bus.run(*begin, user=NOBODY, **member))
        assert len(targets("s2")) == 2
    shutil.rmtree(directory)


@needs_root
def test_who_did_it_is_in_the_catalog(tmp_path):
    with (PrivateBus("system") as bus, FakePolkit(bus), FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet,
          on_bus(tmp_path / "profd", bus) as profd, bus.connect() as peer):
        wait_named(peer)
        done = bus.run(*CALL, "StartSession", "a{sv}", "2", "router", "s", fleet.router, "duration_ns", "x", "100000000",
                       user=NOBODY)
        assert done.stdout.startswith('oa{sv} "/org/profd1/session/s1"'), done.stderr
        assert profd.wait_session("s1")["requested_by"].startswith("uid 65534")


@needs_root
def test_a_polkit_that_does_not_answer(tmp_path):
    with PrivateBus("system") as bus, on_bus(tmp_path, bus) as profd, bus.connect() as peer:
        wait_named(peer)
        # There is none at all.
        done = bus.run(*CALL, "StopSession", "s", "s1", user=NOBODY)
        assert "not allowed: polkit failed" in done.stderr
        with FakePolkit(bus) as polkit:
            polkit.decide = "never"
            command = [*CALL, "StopSession", "s", "s1"]
            waiting = subprocess.Popen(command, user=NOBODY, stderr=subprocess.PIPE, text=True, cwd="/",
                                       env={**os.environ, **bus.environment})
            wait_for(lambda: polkit.held)
            # Everybody else is served meanwhile, and a late yes counts.
            for _ in range(20):
                assert peer.call(MANAGER, "GetVersion")["pid"] == profd.pid
            polkit.answer(polkit.held.pop(), "yes")
            assert "there is no session s1" in waiting.communicate(timeout=60)[1]
            # Without one profd's patience ends.
            done = bus.run(*command, user=NOBODY)
            assert "not allowed: polkit failed" in done.stderr
            polkit.answer(polkit.held.pop(), "yes")  # much too late
            assert profd.get("/v1/version")


# Asks for more than profd lets wait, over as many connections as that takes, and says how often it was refused.
CROWD = """
import sys
from gi.repository import GLib
sys.path.insert(0, sys.argv[2])
from private_bus import Peer, error_name
peers = [Peer(sys.argv[1]) for _ in range(8)]
refused = []
loop = GLib.MainLoop()
def on_answer(answer):
    assert error_name(answer) == "org.profd1.Error.TooMany", answer
    refused.append(answer)
    if len(refused) == 8 * 32 - 32:
        print(len(refused), flush=True)
for peer in peers:
    for _ in range(32):
        peer.send("StopSession", "(s)", "s1", on_answer=on_answer)
loop.run()
"""


@needs_root
def test_who_may_do_nothing_takes_nobody_s_slot(tmp_path):
    with PrivateBus("system") as bus, FakePolkit(bus) as polkit, on_bus(tmp_path, bus) as profd, bus.connect() as peer:
        wait_named(peer)
        polkit.decide = "never"
        crowd = subprocess.Popen(["/usr/bin/python3", "-c", CROWD, bus.address, ROOT / "tests/integration"], user=NOBODY, cwd="/",
                                 stdout=subprocess.PIPE, text=True)
        try:
            assert crowd.stdout.readline() == "224\n"
            wait_for(lambda: len(polkit.held) == 32)
            assert peer.call(MANAGER, "GetVersion")["pid"] == profd.pid
            polkit.decide = "yes"
            assert "there is no session s1" in bus.run(*CALL, "StopSession", "s", "s1", user=SOMEBODY).stderr
        finally:
            crowd.kill()
            crowd.communicate()


@needs_root
def test_whom_the_bus_refuses(tmp_path):
    policy = '<deny send_destination="org.profd1"/><deny receive_sender="org.profd1" receive_type="signal"/>'
    with PrivateBus("system", policy) as bus, on_bus(tmp_path, bus) as profd, bus.connect() as peer:
        wait_named(peer)
        assert bus.run(*CALL, "GetVersion").returncode == 0
        refused_read = bus.run(*CALL, "GetVersion", user=NOBODY)
        assert refused_read.returncode == 1 and "Access denied" in refused_read.stderr
        if os.access(PROFCTL, os.X_OK) and bus.run("test", "-x", PROFCTL, user=NOBODY).returncode == 0:
            done = bus.run(PROFCTL, "--bus", "list-sessions", user=NOBODY)
            assert done.returncode == 1 and "Members of group profd may use it" in done.stderr
        assert bus.run(PROFCTL, "--bus", "list-sessions").returncode == 0
        assert profd.get("/v1/version")


@needs_root
def test_a_bus_that_refuses_the_name(tmp_path):
    with PrivateBus("system", '<deny own="org.profd1"/>') as bus, on_bus(tmp_path, bus) as profd:
        wait_for(lambda: "dbus-1/system.d/org.profd1.conf" in profd.log())
        assert profd.get("/v1/version")
