# SPDX-License-Identifier: Apache-2.0
"""The list of a hundred thousand traces: until its first rows are visible in a real Chromium, and the response alone."""
import json
import statistics
import subprocess
import sys
from pathlib import Path

import catalog
from common import Daemon, ROOT, summary
from daemon import free_port, quick_config, token_line, write_tokens

TRACES = 100_000
ROUNDS = 5
RESPONSES = 50
PACKAGES = ROOT / ".cache/npm"
TOKEN = "profd_" + "1" * 64
QUERIES = ("limit=100&total=yes", "limit=100&total=yes&search=rank0.77", "limit=100&total=yes&sort=-size", "limit=100&offset=50000&total=yes")


def visit(port):
    script = Path(__file__).with_name("web_list.mjs")
    done = subprocess.run(["node", script, PACKAGES, f"http://127.0.0.1:{port}", TOKEN, f"t{TRACES}"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def run(directory, _options):
    port = free_port()
    tokens = write_tokens(directory / "tokens", token_line("admin", "admin", TOKEN))
    profd = Daemon(directory / "profd", f"[profd]\nlisten=127.0.0.1:{port}\n[http]\ntokens_file={tokens}\n" + quick_config())
    profd.start().stop()  # makes the catalog
    catalog.fill(profd.catalog, TRACES)
    with profd:
        catalog.wait_at_rest(profd)
        for query in QUERIES:
            responses = [catalog.response_ms(profd, f"/v1/traces?{query}") for _ in range(RESPONSES)]
            yield {"traces": TRACES, "what": f"GET /v1/traces?{query}", "ms": {**summary(responses), "runs": RESPONSES}, "median ms": round(statistics.median(responses), 2)}
        if not (PACKAGES / "playwright-core").is_dir():
            print("web_list: no playwright-core in .cache/npm; ./dev test unpacks it", file=sys.stderr)
            return
        rounds = [visit(port) for _ in range(ROUNDS)]
        for name in rounds[0]:
            yield {"traces": TRACES, "what": f"first rows visible, {name.removesuffix(' ms')}", "ms": summary([each[name] for each in rounds])}
