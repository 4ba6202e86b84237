# SPDX-License-Identifier: Apache-2.0
"""Pictures of the page's views are those of docs/web, which documentation shows; `./dev screens` updates them. A profd of its
own has the traces, always in the same order, so that their ids are the same each time. A picture that differs is left in
the folder `screenshots` of the build, with one that has the difference in red."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/integration"), str(ROOT / "tests/web")]
from daemon import BUILD, Daemon, free_port, quick_config, token_line, write_tokens  # noqa: E402
from patience import factor, patience  # noqa: E402
from real_traces import CORPUS  # noqa: E402
from test_pages import PACKAGES, TOKENS, imported, need  # noqa: E402

HERE = Path(__file__).parent
UPDATE = os.environ.get("PROFD_UPDATE_SCREENS") == "1"
FONTS = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
# A kernel with a launch, in the middle of the trace that the timeline shows.
KERNEL = """select kernel.id from slice kernel where category = 'kernel' and ts - (select min(ts) from slice) between 41300000 and 41700000
            order by dur desc limit 1"""


def fill(profd):
    """What the pictures are of: two traces of the same model to compare, one with much to find, the ranks of a session, and ranks of
    which one is late."""
    before, after, prefill = (imported(profd, CORPUS / f"tracelens/{name}.json.gz") for name in ("mi300_qwen15", "h100_qwen15", "b200_eager_rank0"))
    ranks = [imported(profd, CORPUS / f"sglang_decode_8rank/rank{rank}.pt.trace.json.gz", session="sglang-decode") for rank in range(8)]
    late = [imported(profd, CORPUS / f"torchrec_sst4_4rank/rank{rank}.pt.trace.json.gz") for rank in range(4)]
    kernel = profd.post(f"/v1/traces/{prefill}/query", {"sql": KERNEL})["rows"][0][0]
    return {"before": before, "after": after, "prefill": prefill, "ranks": ranks, "late": late, "kernel": kernel,
            "session": profd.get(f"/v1/traces/{ranks[0]}")["session"]}


def test_screenshots(tmp_path):
    need("playwright-core", "axe-core")
    if not shutil.which("chromium"):
        pytest.skip("no chromium")
    if not FONTS.is_file():
        pytest.skip(f"no {FONTS}; ./dev test installs fonts-dejavu-core")
    port = free_port()
    tokens = write_tokens(tmp_path / "tokens", "".join(token_line(role, role, token) for role, token in TOKENS.items()))
    with Daemon(tmp_path / "profd", f"[profd]\nlisten=127.0.0.1:{port}\n[http]\ntokens_file={tokens}\n" + quick_config()) as profd:
        environment = {
            "WEB_ADDRESS": f"http://127.0.0.1:{port}", "WEB_SOCKET": str(profd.socket), "WEB_TOKENS": json.dumps(TOKENS),
            "WEB_PACKAGES": str(PACKAGES), "WEB_TIME_FACTOR": str(factor()), "WEB_DATA": json.dumps(fill(profd)),
            "WEB_PICTURES": str(ROOT / "docs/web"), "WEB_FAILED": str(Path(BUILD) / "screenshots"), "WEB_UPDATE": str(int(UPDATE)),
            # One family of fonts, in grey, whatever the machine has.
            "FONTCONFIG_FILE": str(HERE / "fonts.conf"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "WEB_CHROMIUM_OPTIONS": "--disable-lcd-text",
        }
        done = subprocess.run(["node", HERE / "screenshots.test.mjs"], capture_output=True, text=True, timeout=patience(150), check=False,
                              env={**os.environ, **environment})
    differ = re.findall(r"^ +error: ['\"](.*if this is wanted.*)['\"]$", done.stdout, re.M)
    assert done.returncode == 0, "\n".join(differ) or done.stdout + done.stderr
