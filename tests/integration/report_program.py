# SPDX-License-Identifier: Apache-2.0
"""A profd whose profd-report waits, or is another program: for tests of what happens while reports are computed."""
import shutil

from daemon import BUILD, Daemon

REPORT = BUILD / "daemon/report/profd-report"


class HeldReports(Daemon):
    """Each profd-report begins its work when `go` is there. `script` is run first, with the text of the specification in $SPEC."""

    def __init__(self, directory, config="", options=(), script=""):
        super().__init__(directory, config, options)
        self.go, place = self.directory / "go", self.directory / "build"
        for folder in ("ingest", "report", "load"):
            (place / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy2(BUILD / "daemon/profd", place / "profd")
        (place / "ingest/profd-ingest").symlink_to(BUILD / "daemon/ingest/profd-ingest")
        (place / "load/profd-load").symlink_to(BUILD / "daemon/load/profd-load")
        self.program, self.calls = place / "report/profd-report", self.directory / "calls"
        self.program.write_text(f"""#!/bin/sh
SPEC=$(cat /proc/self/fd/3)
echo "$SPEC" >> {self.calls}
{script}
while [ ! -e {self.go} ]; do sleep 0.05; done
exec {REPORT} "$@"
""")
        self.program.chmod(0o755)

    def command(self):
        return [self.directory / "build/profd", *super().command()[1:]]

    def specs(self):
        """The specifications that children were given so far."""
        return self.calls.read_text().splitlines() if self.calls.exists() else []
