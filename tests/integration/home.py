# SPDX-License-Identifier: Apache-2.0
"""A user without a profd, who has the programs: nobody where the test is root's."""

import os
import shutil
import subprocess
from pathlib import Path

from daemon import BUILD

NOBODY = 65534
SYSTEM_SOCKET = Path("/run/profd/profd.sock")


def clean_environment(**more):
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS")}
    return {**keep, "TZ": "UTC", "TERM": "xterm", **more}


def program_of(process):
    """Of one in /proc. Where only root may see that, its command line, which names the socket."""
    try:
        return os.readlink(process / "exe")
    except PermissionError:
        return (process / "cmdline").read_bytes().decode(errors="replace")


class Home:
    def __init__(self, path):
        self.path = path
        path.chmod(0o755)
        self.user = NOBODY if os.geteuid() == 0 else None
        for name in ("client/profctl", "daemon/profd", "daemon/ingest/profd-ingest"):
            (path / "build" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(BUILD / name, path / "build" / name)
        self.profctl = path / "build/client/profctl"
        self.home = self.directory("home")
        self.counts = self.directory("counts")  # where counted programs may say what they reached

    def directory(self, name):
        """One of the user's own."""
        made = self.path / name
        made.mkdir()
        if self.user:
            shutil.chown(made, self.user)
        return made

    def environment(self, **more):
        return clean_environment(**{"HOME": str(self.home), "GCOV_PREFIX": str(self.counts), **more})

    def run(self, *args, env=None):
        return subprocess.run([self.profctl, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120, env=self.environment(**(env or {})), user=self.user, cwd="/")

    def spawn(self, *args, env=None):
        return subprocess.Popen([self.profctl, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment(**(env or {})), user=self.user, cwd="/")

    def daemons(self):
        """The process ids of what runs of these programs."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and str(self.path) in program_of(entry):
                    found.append(int(entry.name))
            except OSError:
                pass
        return found
