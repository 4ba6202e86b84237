# SPDX-License-Identifier: Apache-2.0
"""Completion in bash, zsh and fish as they are: each is started, reads profctl's script, and is asked what fits."""
import os
import pty
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from fake_profd import USAGE, FakeProfd, session, trace
from home import Home
from terminal import PROFCTL, environment, run

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def fake(tmp_path):
    with FakeProfd(tmp_path / "fake.sock") as d:
        d.answers["GET /v1/traces"] = {"traces": [trace(41), trace(42)], "usage": USAGE}
        d.answers["GET /v1/sessions"] = {"sessions": [session()]}
        d.answers["GET /v1/runs"] = {"runs": [{"run": 3, "state": "complete"}]}
        yield d


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path, fake):
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    return Shell(request.param, tmp_path, fake)


class Shell:
    def __init__(self, name, tmp_path, fake):
        self.name, self.home = name, tmp_path
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "profctl").symlink_to(PROFCTL)
        self.script = tmp_path / f"script.{name}"
        self.script.write_text(run("completion", name).stdout)
        self.env = environment(PROFD_SOCKET=fake.path, HOME=str(tmp_path), LC_ALL="C.UTF-8")
        self.env["PATH"] = f"{tmp_path}/bin:{self.env['PATH']}"

    def complete(self, line):
        """The words that the shell's function finds for a line."""
        words = line.split(" ")
        quoted = " ".join(f"'{w}'" for w in words)
        text = {
            "bash": f"source {self.script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _profctl; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            # Outside of a widget compadd has nothing to add to; what the function hands to it is what is looked for.
            "zsh": f"compdef() {{ }}; source {self.script}; compadd() {{ print -rl -- $found }}; _files() {{ print FILES }}; compset() {{ }};"
                   f"_command_names() {{ print -r -- COMMANDS }}; words=({quoted}); CURRENT={len(words)}; _profctl",
            "fish": f"source {self.script}; complete -C {self.quote(line)}",
        }[self.name]
        done = subprocess.run([self.name, *{"zsh": ["-f"], "fish": ["--no-config"]}.get(self.name, []), "-c", text], capture_output=True, text=True,
                              timeout=60, env=self.env, cwd=self.home, stdin=subprocess.DEVNULL)
        assert done.stderr == "", done.stderr[:500]
        return {found.split("\t")[0] for found in done.stdout.splitlines() if found}

    def quote(self, text):
        return "'" + text.replace("'", "\\'") + "'"


@pytest.mark.smoke
def test_verbs_and_options(shell):
    assert shell.complete("profctl list-") == {"list-workers", "list-hosts", "list-sessions", "list-traces", "list-runs"}
    assert {"--router", "--router-log", "--role", "--role-label"} == shell.complete("profctl start --ro")
    assert "--token-file" in shell.complete("profctl du --tok")
    assert shell.complete("profctl completion ") == set(SHELLS)


def test_values_of_options(shell):
    assert shell.complete("profctl start --role pre") == {"prefill"}
    assert shell.complete("profctl token new x --role ") == {"read", "operate", "admin", "peer"}
    assert shell.complete("profctl analyze --report kernels,gap") == {"kernels,gaps", "kernels,gap_list"}
    assert shell.complete("profctl start --count ") == set()


def test_ids(shell):
    assert shell.complete("profctl show ") == {"t41", "t42", "s7", "r3"}
    assert shell.complete("profctl get t") == {"t41", "t42"}
    assert shell.complete("profctl merge --session ") == {"s7"}


def test_an_answer_that_is_a_command_is_not_put_into_the_line(shell, fake):
    for hostile in ("s1$(touch pwned)", "s1;id", "$(id)", "s1 s2", "S1", ""):
        fake.answers["GET /v1/sessions"] = {"sessions": [{**session(), "session": hostile}, {**session(), "session": "s5"}]}
        assert shell.complete("profctl stop ") == {"s5", "r3"}, hostile


def test_files(shell, tmp_path):
    (tmp_path / "trace.json").write_text("{}")
    assert shell.complete("profctl ingest tra") == ({"FILES"} if shell.name == "zsh" else {"trace.json"})


def test_a_profd_that_is_named_is_asked(shell, tmp_path):
    with FakeProfd(tmp_path / "other.sock") as other:
        other.answers["GET /v1/sessions"] = {"sessions": [session(session="s99")]}
        assert shell.complete(f"profctl --socket {other.path} status ") == {"s99"}
    assert shell.complete("profctl --socket /nonexistent status ") == set()


def test_the_key_itself(shell):
    """On a terminal, with the Tab key."""
    start = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"], "fish": ["fish", "--no-config", "-i"]}[shell.name]
    load = "autoload -U compinit; compinit -u -D; " if shell.name == "zsh" else ""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(shell.home)
        os.execvpe(start[0], start, {**shell.env, "TERM": "dumb" if shell.name != "fish" else "xterm"})
    seen = b""

    def until(text, timeout_s=60):
        nonlocal seen
        deadline = time.monotonic() + timeout_s
        while text not in seen:
            assert time.monotonic() < deadline, seen[-500:]
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 1 << 16)

    try:
        os.write(terminal, f"{load}source {shell.script}; echo rea''dy\n".encode())
        until(b"ready")
        seen = b""
        os.write(terminal, b"profctl list-wor\t")
        until(b"list-workers")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def test_the_key_starts_no_profd():
    with tempfile.TemporaryDirectory(prefix="home-") as path:
        home = Home(Path(path))
        done = home.run("__complete", "--", "show", "")
        assert (done.stdout, done.stderr) == (":\n", "") and list(home.home.rglob("*")) == [] and home.daemons() == []


def test_a_shell_that_is_unknown():
    r = run("completion", "tcsh")
    assert r.returncode == 2 and "Shells: bash, zsh, fish." in r.stderr


def test_every_verb_reports_what_completes_it(fake):
    overview = run("help").stdout
    verbs = [line.split()[0] for line in overview.splitlines() if line.startswith("  ") and not line.startswith("   ")]
    offered = run("__complete", "--", "").stdout.splitlines()
    assert [line.split("\t")[0] for line in offered[:-1]] == verbs and offered[-1] == ":"
    for verb in verbs:
        done = run("__complete", "--", verb, "--no-l")
        assert done.returncode == 0 and done.stderr == "" and "--no-legend\t" in done.stdout, verb
