# SPDX-License-Identifier: Apache-2.0
"""The program archive-client, and what it prints, for tests of archives."""
import hashlib
import json
import subprocess

from daemon import BUILD

PROGRAM = BUILD / "tests/integration/archive-client"
TIMEOUT_S = 120


class ArchiveClient:
    def __init__(self, url, *options):
        self.url, self.options = url, [str(word) for word in options]

    def command(self, *words):
        return [str(word) for word in (PROGRAM, "--url", self.url, *self.options, *words)]

    def lines(self, *words):
        """The answers of a command, and its exit status."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.stderr == "" and done.returncode in (0, 1), (done.returncode, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def __call__(self, *words):
        (answer,) = self.lines(*words)
        return answer

    def works(self, *words):
        answer = self(*words)
        assert answer["err"] == 0, answer
        return answer

    def fails(self, error, *words):
        answer = self(*words)
        assert answer.get("error") == error, answer
        return answer


def sha256(content):
    return hashlib.sha256(content).hexdigest()
