# SPDX-License-Identifier: Apache-2.0
"""A message bus of the test's own, and connections to it.

    with PrivateBus("system") as bus, bus.connect() as peer:
        peer.call("org.profd1.Manager", "GetVersion")

The bus can be killed and started again at the same address. Answers come unpacked: as dictionaries, lists, numbers. What
other users may do on the bus of kind "system" is `policy`; on that of kind "session" only its owner is let in.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from patience import patience  # noqa: E402

from bus_daemon import BusDaemon
from gi.repository import Gio, GLib

NAME, PATH = "org.profd1", "/org/profd1"
MANAGER, SESSION = "org.profd1.Manager", "org.profd1.Session"

# The host's policy lets root in, and so does this one; a test that asks for thousands of answers is not held up by the bus.
MORE = """<limit name="max_replies_per_connection">50000</limit>
  <policy user="root"><allow send_destination="org.profd1"/></policy>"""

# Signals are handed to whoever subscribed by the thread that runs this.
_loop = GLib.MainLoop()


def _run_loop():
    threading.Thread(target=_loop.run, daemon=True).start()


class PrivateBus(BusDaemon):
    def __init__(self, kind, policy=""):
        super().__init__(tempfile.mkdtemp(prefix="profd-bus-", dir="/tmp"), kind, policy, MORE)
        self.directory.chmod(0o755)  # other users connect, too
        self.environment = {f"DBUS_{kind.upper()}_BUS_ADDRESS": self.address}

    def __enter__(self):
        if not _loop.is_running():
            _run_loop()
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        shutil.rmtree(self.directory)

    def connect(self):
        return Peer(self.address)

    def run(self, *command, user=None, timeout=60, **more):
        """A program that finds this bus."""
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, user=user, cwd="/", **more,
                              stdin=subprocess.DEVNULL, env={**os.environ, **self.environment})


class Peer:
    """A connection. Errors are GLib.Error; error_name() gives what D-Bus calls them."""

    def __init__(self, address):
        flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
        self.connection = Gio.DBusConnection.new_for_address_sync(address, flags, None, None)
        self.connection.set_exit_on_close(False)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        with contextlib.suppress(GLib.Error):
            self.connection.close_sync(None)

    @property
    def name(self):
        return self.connection.get_unique_name()

    def call(self, interface, method, signature="()", *arguments, path=PATH, name=NAME, timeout_s=60):
        """The answer's arguments as a tuple, or the one that there is."""
        answer = self.connection.call_sync(name, path, interface, method, GLib.Variant(signature, arguments), None,
                                           Gio.DBusCallFlags.NONE, int(patience(timeout_s) * 1000), None).unpack()
        return answer[0] if len(answer) == 1 else answer

    def send(self, method, signature="()", *arguments, on_answer=None, timeout_s=60):
        """A call of the manager whose answer, or GLib.Error, goes to a function, from the loop's thread."""

        def on_done(connection, result):
            try:
                answer = connection.call_finish(result)
            except GLib.Error as error:
                answer = error
            on_answer(answer)

        self.connection.call(NAME, PATH, MANAGER, method, GLib.Variant(signature, arguments), None,
                             Gio.DBusCallFlags.NONE, int(patience(timeout_s) * 1000), None, on_done if on_answer else None)

    def open(self, method, ref):
        """(descriptor, name, size) of OpenTrace or OpenColumns."""
        answer, files = self.connection.call_with_unix_fd_list_sync(
            NAME, PATH, MANAGER, method, GLib.Variant("(s)", (ref,)), None, Gio.DBusCallFlags.NONE, 60000, None, None)
        index, name, size = answer.unpack()
        return files.get(index), name, size

    def get(self, interface, prop, path=PATH):
        return self.call("org.freedesktop.DBus.Properties", "Get", "(ss)", interface, prop, path=path)

    def owns(self, name):
        return self.call("org.freedesktop.DBus", "NameHasOwner", "(s)", name, name="org.freedesktop.DBus",
                         path="/org/freedesktop/DBus")

    def listen(self):
        """A list that grows by (path, interface, member, arguments) for each signal of profd."""
        heard = []

        def on_signal(connection, sender, path, interface, member, arguments):
            heard.append((path, interface, member, arguments.unpack()))

        self.connection.signal_subscribe(NAME, None, None, None, None, Gio.DBusSignalFlags.NONE, on_signal)
        self.owns(NAME)  # the bus has taken the subscription when it answers this
        return heard


def error_name(error):
    return Gio.dbus_error_get_remote_error(error)


AUTHORITY = """<node><interface name="org.freedesktop.PolicyKit1.Authority"><method name="CheckAuthorization">
  <arg type="(sa{sv})" direction="in"/><arg type="s" direction="in"/><arg type="a{ss}" direction="in"/>
  <arg type="u" direction="in"/><arg type="s" direction="in"/><arg type="(bba{ss})" direction="out"/>
</method></interface></node>"""


class FakePolkit:
    """org.freedesktop.PolicyKit1 on a private bus. `decide` is "yes", "no", "challenge" or "never"; `asked` has the arguments
    of each question, `held` those that were not answered yet."""

    def __init__(self, bus):
        self.decide, self.asked, self.held = "yes", [], []
        self.peer = bus.connect()
        interface = Gio.DBusNodeInfo.new_for_xml(AUTHORITY).interfaces[0]
        self.peer.connection.register_object("/org/freedesktop/PolicyKit1/Authority", interface, self._on_call, None, None)
        self.peer.call("org.freedesktop.DBus", "RequestName", "(su)", "org.freedesktop.PolicyKit1", 4,
                       name="org.freedesktop.DBus", path="/org/freedesktop/DBus")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.peer.close()

    def _on_call(self, connection, sender, path, interface, method, arguments, invocation):
        self.asked.append(arguments.unpack())
        if self.decide == "never":
            self.held.append(invocation)
        else:
            self.answer(invocation, self.decide)

    @staticmethod
    def answer(invocation, decision):
        invocation.return_value(GLib.Variant("((bba{ss}))", ((decision == "yes", decision == "challenge", {}),)))
