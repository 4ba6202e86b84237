# SPDX-License-Identifier: Apache-2.0
"""The page's timeline of a big trace in a real Chromium: the first picture, frames while somebody zooms, memory."""
import json
import subprocess
import sys
from pathlib import Path

from common import Daemon, ROOT, summary
from grown import of_slices
from daemon import free_port, quick_config, token_line, write_tokens

ROUNDS = 5
PACKAGES = ROOT / ".cache/npm"
TOKEN = "profd_" + "1" * 64


def look(port, trace):
    """One visit: figures of web.mjs."""
    script = Path(__file__).with_name("web.mjs")
    done = subprocess.run(["node", script, PACKAGES, f"http://127.0.0.1:{port}", TOKEN, trace], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def run(directory, options):
    if not (PACKAGES / "playwright-core").is_dir():
        print("web: no playwright-core in .cache/npm; ./dev test unpacks it", file=sys.stderr)
        return
    path = of_slices(options.slices or "10M", directory, options)
    if not path:
        yield {"skipped": "the disk is too full"}
        return
    port = free_port()
    tokens = write_tokens(directory / "tokens", token_line("admin", "admin", TOKEN))
    with Daemon(directory / "profd", f"[profd]\nlisten=127.0.0.1:{port}\n[http]\ntokens_file={tokens}\n" + quick_config()) as profd:
        trace = profd.request("POST", "/v1/traces", {"path": str(path)}, timeout=3600).json()["trace"]
        rounds = []
        for _ in range(ROUNDS):
            # The first picture is that of a new viewer.
            profd.restart()
            rounds.append(look(port, trace))
        head = profd.get(f"/v1/traces/{trace}/timeline")
        yield {"JSON GB": round(path.stat().st_size / 1e9, 2), "slices": head["slices"], "lanes": head["lanes"], "length s": round(head["length_ns"] / 1e9, 1),
               **{name: summary([each[name] for each in rounds]) for name in rounds[0]}}
