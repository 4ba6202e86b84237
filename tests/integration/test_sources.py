# SPDX-License-Identifier: Apache-2.0
"""Workers found without a router: files and URLs of Prometheus targets, what excludes what, and whose credentials go
where."""

import json
import subprocess
import sys

import pytest

from certificates import Authority
from daemon import BUILD, ROOT, Daemon, FaultFleet, quick_config

sys.path.insert(0, str(ROOT / "tests/fleet"))
from answer_server import AnswerServer  # noqa: E402  # pylint: disable=wrong-import-position

PROFCTL = BUILD / "client/profctl"
MS = 1_000_000


def profctl(profd, *words, cwd=None):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *words], capture_output=True, text=True, check=False, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


def host(url):
    return url.removeprefix("http://")


def listed(profd, **source):
    return [worker["url"] for worker in profd.get("/v1/workers", **source)["workers"]]


@pytest.fixture(name="fleet", scope="module")
def make_fleet(tmp_path_factory):
    with FaultFleet(tmp_path_factory.mktemp("fleet"), "sglang", 3, "--shared-dir") as fleet:
        yield fleet


@pytest.fixture(name="profd")
def make_profd(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        yield profd


# targets=


@pytest.mark.smoke
def test_profctl_reads_a_file_of_targets(profd, fleet, tmp_path):
    """YAML, with a path of profctl's own directory; the session is of these workers only."""
    one, two = (host(worker) for worker in fleet.workers[:2])
    (tmp_path / "t.yml").write_text(f"- targets: ['{one}']\n  labels: {{role: prefill}}\n- targets: ['{two}']\n")
    status, out, err = profctl(profd, "list-workers", "--targets", "t.yml", "--json", cwd=tmp_path)
    assert status == 0, err
    answer = json.loads(out)
    assert answer["dialect"] == "targets" and "router" not in answer
    assert [(worker["url"], worker["engine"], worker["role"]) for worker in answer["workers"]] == [
        (fleet.workers[0], "sglang", "prefill"), (fleet.workers[1], "sglang", "regular")]
    status, out, err = profctl(profd, "start", "--targets", "t.yml", "--duration", "200ms", "--trace-dir", fleet.directory,
                               "--wait", cwd=tmp_path)
    assert status == 0, err
    (session,) = profd.get("/v1/sessions")["sessions"]
    assert session["counts"]["complete"] == 2 and session["dialect"] == "targets"


def test_all_verbs_take_targets(profd, fleet, tmp_path):
    (tmp_path / "t.json").write_text(json.dumps([{"targets": [host(worker) for worker in fleet.workers]}]))
    status, out, err = profctl(profd, "doctor", "--targets", tmp_path / "t.json", "--trace-dir", fleet.directory)
    assert "3 workers" in out, out + err
    for verb in ("start", "bench", "list-workers", "doctor"):
        assert "--targets FILE|URL" in profctl(profd, "help", verb)[1]


def test_a_pattern_is_all_its_files(profd, fleet, tmp_path):
    for i, worker in enumerate(fleet.workers):
        (tmp_path / f"{i}.json").write_text(json.dumps([{"targets": [host(worker)]}]))
    assert json.loads(profctl(profd, "list-workers", "--targets", f"{tmp_path}/[01].json", "--json")[1])["workers"][1][
        "url"] == fleet.workers[1]


def test_profctl_names_what_is_wrong_with_a_file(profd, tmp_path):
    (tmp_path / "broken.json").write_text("[{")
    (tmp_path / "object.json").write_text("{}")
    (tmp_path / "words.json").write_text('["a:1"]')
    for name, words in {"broken.json": "it is not valid JSON", "object.json": "it is not a list of targets",
                        "absent.json": "No such file or directory", "*.toml": "no file matches",
                        "words.json": "entry 1 is not"}.items():
        status, _, err = profctl(profd, "list-workers", "--targets", tmp_path / name)
        assert status != 0 and words in err and "\n  " in err, err


def test_one_way_only(profd, tmp_path):
    (tmp_path / "t.json").write_text("[]")
    for words, both in ((["--router", "http://a:1"], "--router and --targets exclude each other"),
                        (["--fleet", "a"], "--fleet and --targets exclude each other"),
                        (["--router-log", "a"], "--router-log and --targets exclude each other")):
        status, _, err = profctl(profd, "list-workers", "--targets", tmp_path / "t.json", *words)
        assert status == 2 and both in err, err
    assert profd.problem("POST", "/v1/sessions", {"targets": [], "router": "http://a:1"}, 400)["detail"].startswith(
        "router and targets exclude each other")
    assert "exclude" in profd.problem("GET", "/v1/workers?targets=[]&fleet=a", status=400)["detail"]
    assert "for a source" in profd.problem("POST", "/v1/sessions", {"port": "1"}, 400)["detail"]
    status, _, err = profctl(profd, "list-workers", "--port", "8000")
    assert status == 2 and "--port is for a source" in err


def test_only_selects_from_targets(profd, fleet, tmp_path):
    (tmp_path / "t.json").write_text(json.dumps([{"targets": [host(worker) for worker in fleet.workers]}]))
    asked = profd.start_session(targets=json.loads((tmp_path / "t.json").read_text()), workers=[fleet.workers[2]],
                                duration_ns=100 * MS, trace_dir=str(fleet.directory))
    session = profd.wait_session(asked["session"])
    assert [target["worker"] for target in session["targets"]] == [fleet.workers[2]]


def test_no_file_is_opened_for_a_client(profd, tmp_path):
    """Not even to learn whether it exists."""
    (tmp_path / "t.json").write_text("[]")
    answers = [profd.problem("POST", "/v1/sessions", {"targets": str(path)}, 400)["detail"].replace(str(path), "")
               for path in (tmp_path / "t.json", tmp_path / "absent.json")]
    assert answers[0] == answers[1] and "profd opens no file that a client names" in answers[0]


def test_http_sd(profd, fleet):
    with AnswerServer({"/t": (200, [{"targets": [host(worker) for worker in fleet.workers[:2]]},
                                    {"targets": [host(fleet.workers[0])], "labels": {"role": "decode"}}])}) as server:
        answer = profd.get("/v1/workers", targets=f"{server.url}/t?env=prod")
        assert [worker["url"] for worker in answer["workers"]] == fleet.workers[:2]
        assert answer["workers"][0]["role"] == "decode"
        assert server.requests[0][0] == "/t?env=prod"
        server.answers["/t"] = (200, [])
        problem = profd.problem("GET", f"/v1/workers?targets={server.url}/t", status=422)
        assert problem["detail"].startswith(f"targets={server.url}/t has no workers")
        for answer, words in {(500, b"sorry"): "500 Internal Server Error: sorry", (302, b""): "redirects are not followed",
                              (200, b"<html>"): "HTML instead of JSON"}.items():
            server.answers["/t"] = answer
            assert words in profd.problem("GET", f"/v1/workers?targets={server.url}/t", status=502)["detail"]
        server.answers["/t"] = (200, b"[" + b" " * (17 << 20) + b"]")
        assert "more than 16" in profd.problem("GET", f"/v1/workers?targets={server.url}/t", status=502)["detail"]


def test_the_policy_of_the_network_holds_for_sources(tmp_path):
    with AnswerServer({"/": (200, [])}) as server, Daemon(tmp_path / "profd", "[network]\nallow=10.0.0.0/8\n") as profd:
        problem = profd.problem("GET", f"/v1/workers?targets={server.url}/", status=502)
        assert "127.0.0.1" in problem["detail"] and "allow" in problem["remedy"], problem
        assert not server.requests


def test_the_last_list_stays(tmp_path, fleet):
    """A configured fleet outlives a file that is being written and a server that is down, and says so; it does not outlive
    the removal of its file, nor an empty list."""
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"targets": [host(fleet.workers[0])], "labels": {"role": "decode"}}]))
    with Daemon(tmp_path / "profd", quick_config(more=f"[fleet east]\ntargets={path}\n")) as profd:
        assert listed(profd) == [fleet.workers[0]]
        path.write_text('[{"targ')
        answer = profd.get("/v1/workers")
        assert [(worker["url"], worker["role"]) for worker in answer["workers"]] == [(fleet.workers[0], "decode")]
        assert any(" old: cannot find workers by targets=" in note for note in answer["notes"])
        path.write_text(json.dumps([{"targets": [host(fleet.workers[1])]}]))
        answer = profd.get("/v1/workers")
        assert [worker["url"] for worker in answer["workers"]] == [fleet.workers[1]] and not answer["notes"]
        path.write_text("[]")
        assert "has no workers" in profd.problem("GET", "/v1/workers", status=422)["detail"]
        path.unlink()
        assert "No such file" in profd.problem("GET", "/v1/workers", status=422)["detail"]


# Credentials

WORKER = {"/version": (200, {"version": "0.19.1"}), "/openapi.json": (200, {"paths": {"/start_profile": {}}})}


def test_credentials_of_source_and_workers_are_apart(tmp_path):
    """In both directions, and the source's token is read anew for each call."""
    for name in ("source", "worker", "admin"):
        (tmp_path / name).write_text(f"{name}-1\n")
    with AnswerServer() as source, AnswerServer(WORKER) as worker:
        source.answers["/t"] = (200, [{"targets": [worker.host]}])
        more = (f"[fleet east]\ntargets={source.url}/t\ntargets_token_file={tmp_path}/source\n"
                f"token_file={tmp_path}/worker\nadmin_token_file={tmp_path}/admin\n")
        with Daemon(tmp_path / "profd", quick_config(more=more)) as profd:
            assert listed(profd) == [worker.url]
            assert source.headers("authorization") == {"Bearer source-1"}
            assert worker.headers("authorization") == {"Bearer worker-1"}
            (tmp_path / "source").write_text("source-2")
            source.requests.clear()
            listed(profd)
            assert source.headers("authorization") == {"Bearer source-2"}
            (tmp_path / "source").unlink()
            source.requests.clear()
            answer = profd.get("/v1/workers")
            assert "targets_token_file" in answer["notes"][0] and not source.requests


def test_a_requester_sends_credentials_nowhere(tmp_path):
    """Who may start recordings chooses URLs; what profd.conf has for another URL does not go there."""
    (tmp_path / "source").write_text("secret-of-source")
    (tmp_path / "worker").write_text("secret-of-worker")
    with AnswerServer() as source, AnswerServer(WORKER) as thief, AnswerServer(WORKER) as worker:
        source.answers["/t"] = (200, [{"targets": [worker.host]}])
        thief.answers["/t"] = (200, [{"targets": [thief.host]}])
        more = (f"[fleet east]\ntargets={source.url}/t\ntargets_token_file={tmp_path}/source\n"
                f"token_file={tmp_path}/worker\n")
        with Daemon(tmp_path / "profd", quick_config(more=more)) as profd:
            for query in ({"targets": f"{thief.url}/t"}, {"targets": json.dumps([{"targets": [thief.host]}])},
                          {"targets": f"{source.url}/t", "role_label": "x"}):
                profd.get("/v1/workers", **query)
            assert thief.requests and thief.headers("authorization") == {None}
            assert source.headers("authorization") == {None} and worker.headers("authorization") == {None}
            # The very source of profd.conf is its fleet.
            assert profd.get("/v1/workers", targets=f"{source.url}/t")["name"] == "east"
            assert "Bearer secret-of-source" in source.headers("authorization")
            assert "secret-of-source" not in str(worker.requests) and "secret-of-worker" not in str(source.requests)


def test_a_ca_of_its_own(tmp_path, fleet):
    authority = Authority(tmp_path)
    with AnswerServer({"/t": (200, [{"targets": [host(fleet.workers[0])]}])}, authority.issue("server")) as server:
        url = f"https://127.0.0.1:{server.port}/t"
        more = f"[fleet with]\ntargets={url}\ntargets_ca_file={authority.file}\n[fleet without]\ntargets={url}\n"
        more += f"ca_file={authority.file}\n"
        with Daemon(tmp_path / "profd", quick_config(more=more)) as profd:
            assert listed(profd, fleet="with") == [fleet.workers[0]]
            assert "certificate" in profd.problem("GET", "/v1/workers?fleet=without", status=502)["detail"]
