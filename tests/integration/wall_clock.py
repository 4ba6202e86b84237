# SPDX-License-Identifier: Apache-2.0
"""A profd whose wall clock a test sets, while it runs, as when an administrator sets the clock: tests/chaos/shim.c in front
of it. Times of files stay the kernel's, but with files=True, as on a host whose clock was always wrong.

    clock = WallClock(tmp_path / "clock")
    with Daemon(tmp_path / "profd", environment=clock.environment) as profd:
        clock.offset_s = -3600
"""

import mmap
import os
import struct
import subprocess

from daemon import BUILD, PROFD

SHIM = BUILD / "tests/chaos/chaos-shim.so"


def why_not():
    """Why profd cannot be started with the shim; None where it can: not below every sanitizer's runtime."""
    if not SHIM.exists():
        return f"{SHIM} is not built"
    environment = {**os.environ, "LD_PRELOAD": str(SHIM)}
    for command in (["/bin/true"], [PROFD, "--version"]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.stderr or done.returncode:
            return f"{command[0]} does not start with {SHIM.name} loaded: {done.stderr.partition(chr(10))[0] or done.returncode}"
    return None


class WallClock:
    """The file that shim.c maps; see struct control there."""

    def __init__(self, path, files=False):
        path.write_bytes(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        struct.pack_into("q", self.map, 24, int(files))
        self.environment = {"LD_PRELOAD": str(SHIM), "CHAOS_CONTROL": str(path)}

    @property
    def offset_s(self):
        return struct.unpack_from("q", self.map, 0)[0] / 1e9

    @offset_s.setter
    def offset_s(self, seconds):
        struct.pack_into("q", self.map, 0, int(seconds * 1e9))

    def let_pass(self, seconds):
        """As if so much more time had passed, by the clocks of deadlines: profd notices when it wakes up next."""
        passed = struct.unpack_from("q", self.map, 32)[0]
        struct.pack_into("q", self.map, 32, passed + int(seconds * 1e9))

    def synced(self):
        """Salt of the catalog's log, and how many of its frames are safe."""
        return self.map[8:16], struct.unpack_from("q", self.map, 16)[0]
