# SPDX-License-Identifier: Apache-2.0
"""What docs/operations.md tells an operator to type does what it says, and docs/security.md names tests that are there."""
import contextlib
import re
import shutil
import sqlite3
import subprocess

import pytest

from certificates import Authority
from daemon import PROFD, ROOT, Daemon, token_line, wait_for, write_tokens

PAGE = (ROOT / "docs/operations.md").read_text()


def commands(heading):
    """The shell block below a heading."""
    return re.search(rf"^## {heading}$.*?^```sh\n(.*?)^```$", PAGE, re.M | re.S)[1]


def shell(script, **paths):
    """Runs it with other directories, as a user without services or a user profd."""
    for path, other in paths.items():
        script = script.replace(path.replace("_", "/"), str(other))
    lines = [line for line in script.splitlines() if not line.startswith(("systemctl", "chown"))]
    subprocess.run(["bash", "-euc", "\n".join(lines)], check=True, timeout=60)


@pytest.mark.skipif(not shutil.which("sqlite3"), reason="sqlite3 is missing")
def test_backup_and_restore(tmp_path):
    source = tmp_path / "x.pt.trace.json"
    backup = tmp_path / "backup"
    backup.mkdir()

    def take(profd, name):
        source.write_text('{"traceEvents":[{"ph":"X","cat":"kernel","name":"%s","pid":0,"tid":7,"ts":1,"dur":2}]}' % name)
        return profd.post("/v1/traces", {"path": str(source)}, 201)["trace"]

    with Daemon(tmp_path / "profd") as profd:
        kept, gone = take(profd, "kept"), take(profd, "gone")
        shell(commands("Backup"), _var_lib_profd=profd.state, _backup=backup)
        lost = take(profd, "lost")
        assert profd.request("DELETE", f"/v1/traces/{gone}").status in (200, 204)
    shutil.rmtree(profd.state / "columns")
    shutil.rmtree(profd.state / "traces")
    (profd.state / "catalog.db").write_text("no database")
    (profd.state / "traces").mkdir()
    shell(commands("Restore"), _var_lib_profd=profd.state, _backup=backup)
    with profd:
        traces = {t["trace"]: t for t in profd.traces()}
        assert set(traces) == {kept, gone} and lost not in traces
        assert {t["state"] for t in traces.values()} == {"complete"}
        assert profd.rows("pragma integrity_check")[0]["integrity_check"] == "ok"
        wait_for(lambda: profd.request("GET", f"/v1/traces/{kept}/columns").status == 200)
        assert b"kept" in profd.request("GET", f"/v1/traces/{kept}/file").body


def test_a_backup_can_be_made_again(tmp_path):
    """A second one beside the first brings in no directory of the first's."""
    (tmp_path / "state/traces/s1").mkdir(parents=True)
    (tmp_path / "state/traces/s1/x.json").write_text("{}")
    (tmp_path / "backup").mkdir()
    for _ in range(2):
        with contextlib.closing(sqlite3.connect(tmp_path / "state/catalog.db")):
            shell(commands("Backup"), _var_lib_profd=tmp_path / "state", _backup=tmp_path / "backup")
        (tmp_path / "backup/catalog.db").unlink()
    assert [p.name for p in (tmp_path / "backup/traces").rglob("*")] == ["s1", "x.json"]


def test_monitoring_is_a_configuration(tmp_path):
    block = re.search(r"^## Monitoring$.*?^```ini\n(.*?)^```$", PAGE, re.M | re.S)[1]
    for path, file in zip(("/etc/profd/tls.pem", "/etc/profd/tls.key"), Authority(tmp_path).issue("server")):
        block = block.replace(path, str(file))
    write_tokens(tmp_path / "tokens", token_line("ci", "read", "t" * 64))
    block = block.replace("/etc/profd/tokens", str(tmp_path / "tokens"))
    (tmp_path / "profd.conf").write_text(block)
    done = subprocess.run([PROFD, "--config", tmp_path / "profd.conf", "--check-config"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    named = re.search(r"targets: \['([^:]+):", PAGE)[1]
    assert f"\nhost={named}\n" in block, "profd refuses whoever calls it by a name that it does not have"


def test_a_restore_is_not_interrupted_by_activation():
    script = commands("Restore").splitlines()
    for line, verb in ((script[0], "disable"), (script[-1], "enable")):
        assert line == f"systemctl {verb} --now profd.socket profd.service"


def test_alerts_are_explained():
    rules = (ROOT / "docs/prometheus/profd.rules.yml").read_text()
    for alert in re.findall(r"alert: (\w+)", rules):
        assert f"| {alert} |" in PAGE, alert


def test_keys_exist():
    """Each key of profd.conf that the page names."""
    keys = (ROOT / "docs/profd.conf.5.scd").read_text()
    for key in re.findall(r"`(?:\[\w+\] )?(\w+)=`", PAGE):
        assert f"{key}" in keys or key[0].isupper(), key


def test_symptoms_are_in_profds_words():
    """What the tables quote without saying whose it is, is what profd or profctl says."""
    sources = [f for module in ("base", "proto", "daemon", "client", "trace", "extras") for f in (ROOT / module).rglob("*.c")]
    said = re.sub(r'"\s*\n?\s*(?:START_PATH\s*)?"', "", "".join(f.read_text() for f in sorted(sources)))
    tables = PAGE.split("## Troubleshooting")[1]
    for cell in re.findall(r"^\| ([^|]*) \|", tables, re.M):
        for text in re.findall(r'"([^"]+)"', re.sub(r"`[^`]*`", "", cell)):
            for part in re.split(r" HOST|, not on|/start_profile", text):
                assert part in said, text
