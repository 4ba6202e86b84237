# SPDX-License-Identifier: Apache-2.0
"""Contexts: the profd of other machines under names, with their tokens, as profctl keeps and uses them."""
import json
import os
import re
import stat
import subprocess

import pytest

from daemon import BUILD, Daemon, free_port, token_line, write_tokens
from fake_profd import FakeProfd, session

PROFCTL = BUILD / "client" / "profctl"
TOKEN = "profd-" + "a1" * 20


class User:
    def __init__(self, home):
        self.home, self.config = home, home / "config" / "profd"

    def __call__(self, *words, status=0, stdin="", **env):
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "ASAN_OPTIONS", "LSAN_OPTIONS")}
        done = subprocess.run([PROFCTL, *map(str, words)], capture_output=True, timeout=60, text=True, input=stdin, cwd=self.home,
                              env={**keep, "HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / "config"), "LC_ALL": "C.UTF-8", **env})
        assert done.returncode == status, done.stderr
        return done

    def secret(self, name="token", token=TOKEN):
        path = self.home / name
        path.write_text(token + "\n")
        path.chmod(0o600)
        return path


@pytest.fixture
def user(tmp_path):
    (tmp_path / "home").mkdir()
    return User(tmp_path / "home")


@pytest.fixture
def remote(tmp_path):
    """A profd that is reached over TCP, with a token."""
    port = free_port()
    tokens = write_tokens(tmp_path / "tokens" / "tokens", token_line("ci", "read", TOKEN))
    with Daemon(tmp_path / "profd", f"[profd]\nlisten=127.0.0.1:{port}\n[http]\ntokens_file={tokens}\n") as daemon:
        daemon.url = f"http://127.0.0.1:{port}"
        yield daemon


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_context_is_added_used_and_deleted(user, remote):
    assert "token" in user("du", "--host", remote.url, status=1).stderr
    added = user("context", "add", "prod", "--host", remote.url, "--token-file", user.secret())
    assert "profctl context use prod" in added.stderr
    assert mode(user.config / "contexts.json") == 0o600 and TOKEN not in (user.config / "contexts.json").read_text()
    assert json.loads(user("--context", "prod", "status", "--json").stdout)
    assert user("du", PROFD_CONTEXT="prod").returncode == 0
    user("context", "use", "prod")
    # What is free on the disk is not profd's alone.
    both = [re.sub(r"Free: .*", "", user("du", *words).stdout) for words in ((), ("--context", "prod"))]
    assert both[0] == both[1] and "Store:" in both[0]
    shown = json.loads(user("context", "show", "--json").stdout)
    assert (shown["name"], shown["host"], shown["token_file"], shown["current"]) == ("prod", remote.url, str(user.home / "token"), True)
    assert TOKEN not in user("context", "show").stdout + user("context", "list").stdout
    rows = [line.split() for line in user("context", "list", "--no-legend").stdout.splitlines()]
    assert rows == [["default", "-", "this", "machine", "-"], ["prod", "yes", remote.url, str(user.home / "token")]]
    assert "the profd of this machine is in use" in user("context", "rm", "prod").stderr
    assert "contexts" in json.loads(user("context", "list", "--json").stdout) and user.secret().exists()
    assert "unknown context 'prod'" in user("du", "--context", "prod", status=4).stderr


def test_a_token_of_standard_input_is_kept_in_a_file_of_its_own(user, remote):
    user("context", "add", "prod", "--host", remote.url, "--token-stdin", "--use", stdin=TOKEN + "\n")
    kept = user.config / "tokens" / "prod"
    assert kept.read_text().strip() == TOKEN and mode(kept) == 0o600 and mode(kept.parent) == 0o700
    assert user("du").returncode == 0
    user("context", "rm", "prod")
    assert not kept.exists()
    assert "no token on standard input" in user("context", "add", "x", "--host", remote.url, "--token-stdin", status=2).stderr
    two = user("context", "add", "x", "--host", remote.url, "--token-stdin", stdin="two words", status=2)
    assert "is not a token file" in two.stderr and not (user.config / "tokens" / "x").exists()


def test_what_is_named_goes_before_contexts(user, tmp_path):
    with FakeProfd(tmp_path / "a.sock") as a, FakeProfd(tmp_path / "b.sock") as b:
        a.answers["GET /v1/sessions"] = {"sessions": [session(session="s1")]}
        b.answers["GET /v1/sessions"] = {"sessions": [session(session="s2")]}

        def asked(*words, **env):
            return user("list-sessions", "--no-legend", *words, **env).stdout.split()[0]

        user("context", "add", "a", "--socket", a.path, "--use")
        user("context", "add", "b", "--socket", b.path)
        assert asked() == "s1"
        assert asked("--context", "b") == "s2" and asked(PROFD_CONTEXT="b") == "s2"
        assert asked("--socket", b.path) == "s2"
        assert asked(PROFD_SOCKET=b.path) == "s2", "whoever sets the socket means it"
        assert asked("--context", "a", PROFD_SOCKET=b.path) == "s1"
        assert asked("--context", "default", PROFD_SOCKET=b.path) == "s2"
        assert "--context excludes" in user("du", "--context", "a", "--socket", b.path, status=2).stderr


def test_errors_name_the_context(user):
    user("context", "add", "gone", "--host", "http://127.0.0.1:1", "--use")
    assert "cannot reach profd at http://127.0.0.1:1 (context gone)" in user("du", status=1).stderr
    near = user("du", "--context", "gnoe", status=4).stderr
    assert "unknown context 'gnoe'" in near and "Did you mean gone?" in near
    (user.home / "other").mkdir()
    assert "profctl context add NAME --host URL" in User(user.home / "other")("du", "--context", "a", status=4).stderr
    # What asks no profd works in any context.
    user("token", "new", "ci")
    user("help")
    user("context", "list")


@pytest.mark.parametrize("words, what", [
    (["add", "prod"], "a context needs --host or --socket"), (["add", "a b", "--host", "http://a"], "a context's name is"),
    (["add", "default", "--host", "http://a"], "a context's name is"), (["add", "../x", "--host", "http://a"], "a context's name is"),
    (["add"], "takes a name"), (["add", "x", "--host", "ftp://a"], "neither http:// nor https://"), (["bogus"], "unknown command: context bogus"),
    (["add", "x", "--host", "http://a", "--cacert", "/nonexistent"], "cannot open /nonexistent"), (["list", "--use"], "are for context add"),
    (["add", "x", "--host", "http://a", "--token-file", "/nonexistent"], "cannot open /nonexistent"),
])
def test_usage_errors(user, words, what):
    assert what in user("context", *words, status=2).stderr
    assert not (user.config / "contexts.json").exists()


def test_a_token_is_not_kept_for_the_open(user):
    refused = user("context", "add", "prod", "--host", "http://192.0.2.1:1", "--token-file", user.secret(), status=1)
    assert "cannot send a token to" in refused.stderr and "--plain-http" in refused.stderr
    loose = user.secret("loose")
    loose.chmod(0o644)
    assert "chmod 600" in user("context", "add", "prod", "--host", "https://192.0.2.1:1", "--token-file", loose, status=1).stderr


def test_a_context_is_replaced_only_by_force(user):
    user("context", "add", "a", "--host", "http://127.0.0.1:1")
    assert "context a exists" in user("context", "add", "a", "--host", "http://127.0.0.1:2", status=2).stderr
    user("context", "add", "a", "--host", "http://127.0.0.1:2", "--force")
    assert json.loads(user("context", "show", "a", "--json").stdout)["host"] == "http://127.0.0.1:2"


def test_a_token_is_never_at_hand_for_another_host(user):
    user("context", "add", "a", "--host", "http://127.0.0.1:1", "--token-stdin", stdin="old-" + TOKEN)
    user("context", "add", "a.part", "--host", "http://127.0.0.1:3", "--token-stdin", stdin="part-" + TOKEN)
    kept = user.config / "tokens" / "a"
    user("context", "add", "a", "--host", "http://127.0.0.1:2", "--cacert", "/none", "--force", "--token-stdin", stdin="new-" + TOKEN, status=2)
    assert json.loads(user("context", "show", "a", "--json").stdout)["host"] == "http://127.0.0.1:1" and kept.read_text() == "old-" + TOKEN
    user("context", "add", "a", "--host", "http://127.0.0.1:2", "--force", "--token-stdin", stdin="new-" + TOKEN)
    assert json.loads(user("context", "show", "a", "--json").stdout)["host"] == "http://127.0.0.1:2" and kept.read_text() == "new-" + TOKEN
    assert (kept.parent / "a.part").read_text() == "part-" + TOKEN
    assert sorted(os.listdir(kept.parent)) == ["a", "a.part"] and mode(kept) == 0o600


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"contexts": {"x": {}}}', '{"contexts": {"../x": {"host": "http://a"}}}',
                                  '{"contexts": {"x": {"host": "http://a", "socket": "/s"}}}', '{"contexts": {}, "current": 7}', '{"contexts": {"x": 7}}'])
def test_a_damaged_file_is_named(user, text):
    user.config.mkdir(parents=True)
    (user.config / "contexts.json").write_text(text)
    (user.config / "contexts.json").chmod(0o600)
    done = user("du", status=2)
    assert f"cannot read the contexts in {user.config}/contexts.json: " in done.stderr and "context add NAME" in done.stderr


def test_a_file_that_others_can_read_is_refused(user):
    user("context", "add", "a", "--host", "http://127.0.0.1:1")
    (user.config / "contexts.json").chmod(0o644)
    assert "chmod 600" in user("context", "list", status=1).stderr


def test_names_complete(user):
    user("context", "add", "prod", "--host", "http://127.0.0.1:1")
    assert [line.split("\t")[0] for line in user("__complete", "--", "--context", "").stdout.splitlines()] == ["default", "prod", ":"]
    assert [line.split("\t")[0] for line in user("__complete", "--", "context", "rm", "p").stdout.splitlines()] == ["prod", ":"]
