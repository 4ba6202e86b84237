# SPDX-License-Identifier: Apache-2.0
"""dbus-daemon as a test starts it: a bus of its own, on which everybody may do everything unless the test says otherwise.

    with BusDaemon(tmp_path) as bus:
        subprocess.run([...], env={**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": bus.address})

It needs no bindings for D-Bus: who speaks on the bus brings his own.
"""

import subprocess
from pathlib import Path

CONFIG = """<busconfig>
  <type>{kind}</type>
  <listen>{address}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_type="*"/>
    <allow receive_type="*"/>
    {policy}
  </policy>
  {more}
</busconfig>
"""


class BusDaemon:
    """The bus can be killed and started again at the same address. policy: further rules for everybody; more: whatever else
    its configuration is to have."""

    def __init__(self, directory, kind="system", policy="", more=""):
        self.directory = Path(directory)
        self.kind, self.policy, self.more, self.process = kind, policy, more, None
        self.address = f"unix:path={self.directory}/bus"

    def __enter__(self):
        return self.start()

    def __exit__(self, *exception):
        self.kill()

    def start(self):
        """Whoever knows the address can connect when this returns."""
        config, said = self.directory / "bus.conf", self.directory / "bus.log"
        config.write_text(CONFIG.format(kind=self.kind, address=self.address, policy=self.policy, more=self.more))
        (self.directory / "bus").unlink(missing_ok=True)
        with open(said, "w") as log:
            self.process = subprocess.Popen(["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile", "--nosyslog",
                                             "--print-address"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout.readline().startswith(b"unix:"), said.read_text()
        return self

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        self.process = None
