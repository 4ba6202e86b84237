# SPDX-License-Identifier: Apache-2.0
"""A system bus of its own with something on it that answers as systemd's manager, for profctl's units.

    with FakeSystemd(tmp_path, {"vllm@0.service": {"pids": [4711]}}) as systemd:
        subprocess.run([PROFCTL, ...], env={**os.environ, **systemd.environment})

The manager is a process of its own (this file, run as a program): it knows the units that the test names, runs transient
units as its children, and writes down each call.
"""
import fnmatch
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from bus_daemon import BusDaemon


def usual_signals():
    """As systemd starts a unit: a job of a shell's background would ignore an interrupt for ever."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


JOB_WAITS_MS = 200  # until a start has its turn
PYTHON = "/usr/bin/python3"
MANAGER = "org.freedesktop.systemd1"


class FakeSystemd:
    """units: name -> {"load", "active", "pids"}, of which the latter two may be left out. Without a manager: the bus only."""

    def __init__(self, directory, units=None, manager=True):
        self.directory = Path(directory)
        self.units, self.manager = units or {}, manager
        self.calls_file = self.directory / "systemd-calls"
        self.bus, self.process = BusDaemon(self.directory), None

    @property
    def environment(self):
        return {"DBUS_SYSTEM_BUS_ADDRESS": self.bus.address, "DBUS_SESSION_BUS_ADDRESS": self.bus.address}

    def __enter__(self):
        self.bus.start()
        if self.manager:
            self.process = subprocess.Popen([PYTHON, __file__, json.dumps(self.units), self.calls_file],
                                            env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE)
            assert self.process.stdout.readline(), f"the manager ended with {self.process.wait()}"
        return self

    def __exit__(self, *exception):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.process.stdout.close()
        self.bus.kill()

    def calls(self, member=None):
        """[member, argument...] of each call so far."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        calls = [json.loads(line) for line in lines]
        return [c for c in calls if member in (None, c[0])]


def path_of(unit):
    quoted = "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):02x}" for c in unit)
    return f"/org/freedesktop/systemd1/unit/{quoted}"


def main(units, calls_file):
    import dbus
    import dbus.mainloop.glib
    import dbus.service
    from gi.repository import GLib

    dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
    bus = dbus.SystemBus()

    def note(*call):
        with open(calls_file, "a") as f:
            f.write(json.dumps(call, default=str) + "\n")

    class Unit(dbus.service.Object):
        def __init__(self, name, load="loaded", active="active", pids=()):
            super().__init__(bus, path_of(name))
            self.name, self.pids = name, list(pids)
            self.state = {"LoadState": load, "ActiveState": active, "Job": self.job(0), "ExecMainCode": dbus.Int32(0),
                          "ExecMainStatus": dbus.Int32(0)}

        @staticmethod
        def job(number):
            return dbus.Struct((dbus.UInt32(number), dbus.ObjectPath("/")), signature="uo")

        @dbus.service.method("org.freedesktop.DBus.Properties", in_signature="ss", out_signature="v")
        def Get(self, interface, name):
            return self.state[name]

        @dbus.service.signal("org.freedesktop.DBus.Properties", signature="sa{sv}as")
        def PropertiesChanged(self, interface, changed, invalidated):
            pass

        def run(self, properties):
            (path, argv, flags), = properties["ExecStartEx"]
            if "no-env-expand" not in flags:
                argv = [a.replace("$$", "$") for a in argv]
            out, err = (properties[f"Standard{kind}FileDescriptor"].take() for kind in ("Output", "Error"))
            environment = dict(item.split("=", 1) for item in properties["Environment"])
            self.kill_signal = int(properties["KillSignal"])
            self.process = subprocess.Popen([str(a) for a in argv], executable=str(path), stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err, cwd=str(properties["WorkingDirectory"]),
                                            env=environment, start_new_session=True, preexec_fn=usual_signals)
            os.close(out)
            os.close(err)
            self.pids = [self.process.pid]
            self.state |= {"ActiveState": "active", "Job": self.job(0)}
            GLib.child_watch_add(GLib.PRIORITY_DEFAULT, self.process.pid, self.ended)

        def ended(self, pid, status):
            killed = os.WIFSIGNALED(status)
            self.state["ExecMainCode"] = dbus.Int32(2 if killed else 1)
            self.state["ExecMainStatus"] = dbus.Int32(os.WTERMSIG(status) if killed else os.WEXITSTATUS(status))
            self.state["ActiveState"] = "failed" if status else "inactive"
            self.PropertiesChanged("org.freedesktop.systemd1.Unit", {"ActiveState": self.state["ActiveState"]}, [])

    known = {name: Unit(name, **facts) for name, facts in units.items()}

    class Manager(dbus.service.Object):
        @dbus.service.method(f"{MANAGER}.Manager", in_signature="asas", out_signature="a(ssssssouso)")
        def ListUnitsByPatterns(self, states, patterns):
            note("ListUnitsByPatterns", *patterns)
            return [(u.name, u.name, u.state["LoadState"], u.state["ActiveState"], "running", "", u.__dbus_object_path__,
                     dbus.UInt32(0), "", "/") for u in known.values() if any(fnmatch.fnmatch(u.name, p) for p in patterns)]

        @dbus.service.method(f"{MANAGER}.Manager", in_signature="s", out_signature="o")
        def LoadUnit(self, name):
            note("LoadUnit", name)
            return known.setdefault(name, known.get(name) or Unit(name, "not-found", "inactive")).__dbus_object_path__

        @dbus.service.method(f"{MANAGER}.Manager", in_signature="s", out_signature="a(sus)")
        def GetUnitProcesses(self, name):
            note("GetUnitProcesses", name)
            return dbus.Array([(f"/system.slice/{name}", dbus.UInt32(pid), "") for pid in known[name].pids],
                              signature="(sus)")

        @dbus.service.method(f"{MANAGER}.Manager")
        def Subscribe(self):
            note("Subscribe")

        @dbus.service.method(f"{MANAGER}.Manager", in_signature="ssa(sv)a(sa(sv))", out_signature="o")
        def StartTransientUnit(self, name, mode, properties, auxiliary):
            properties = dict(properties)
            note("StartTransientUnit", name, mode, {k: v for k, v in properties.items() if not k.endswith("Descriptor")})
            if name in known:
                raise dbus.DBusException(f"Unit {name} was already loaded or has a fragment file.",
                                         name="org.freedesktop.systemd1.UnitExists")
            unit = known[name] = Unit(name, active="inactive")
            unit.state["Job"] = unit.job(1)
            GLib.timeout_add(JOB_WAITS_MS, unit.run, properties)
            return "/org/freedesktop/systemd1/job/1"

        @dbus.service.method(f"{MANAGER}.Manager", in_signature="ss", out_signature="o")
        def StopUnit(self, name, mode):
            note("StopUnit", name, mode)
            known[name].process.send_signal(known[name].kill_signal)
            return "/org/freedesktop/systemd1/job/2"

        @dbus.service.method(f"{MANAGER}.Manager", in_signature="ssi")
        def KillUnit(self, name, whom, number):
            note("KillUnit", name, whom, int(number))
            os.killpg(known[name].process.pid, number)

    manager = Manager(bus, "/org/freedesktop/systemd1")
    name = dbus.service.BusName(MANAGER, bus)
    print("ready", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    GLib.MainLoop().run()
    del manager, name


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
