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
from dns_server import DnsServer  # noqa: E402  # pylint: disable=wrong-import-position

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


def test_a_file_of_many_targets(profd, tmp_path):
    """More than a query of a URL can have."""
    targets = [f"127.0.0.1:{port}" for port in range(20000, 21000)]
    (tmp_path / "t.json").write_text(json.dumps([{"targets": targets, "labels": {"role": "decode"}}]))
    status, out, err = profctl(profd, "list-workers", "--targets", tmp_path / "t.json", "--json")
    assert status == 0, err
    workers = json.loads(out)["workers"]
    assert [worker["url"] for worker in workers] == [f"http://{target}" for target in targets]
    assert workers[0]["role"] == "decode"
    assert "1000 workers" in profctl(profd, "doctor", "--targets", tmp_path / "t.json")[1]
    for body, words in (({"steps": 3}, "not an option of a list of workers"), ({"targets": 3}, "targets must be"),
                        ({"targets": [], "fleet": "a"}, "exclude each other"), ([], "JSON object")):
        assert words in profd.problem("POST", "/v1/workers", body, 400)["detail"]


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


# dns= and srv=


@pytest.fixture(name="names", scope="module")
def make_names():
    with DnsServer() as dns:
        yield dns


@pytest.fixture(name="by_dns")
def make_by_dns(tmp_path, names):
    """`by_dns("dns", "vllm.test:8000")` is the answer for a fleet with that source, or the problem."""

    def ask(key, value, more=""):
        config = quick_config(more=f"[fleet east]\n{key}={value}\nresolver={names.address}\n{more}")
        names.queries.clear()
        with Daemon(tmp_path / "profd", config) as profd:
            return profd.request("GET", "/v1/workers").json()

    return ask


def urls(answer):
    return [worker["url"] for worker in answer["workers"]]


def test_all_addresses_of_a_name(by_dns, names, fleet):
    port = fleet.workers[0].rpartition(":")[2]
    names.records["vllm.test", "A"] = ["127.0.0.1", "127.0.0.2", "127.0.0.1"]
    names.records["vllm.test", "AAAA"] = ["::1"]
    answer = by_dns("dns", f"VLLM.test:{port}")
    assert answer["dialect"] == "dns" and answer["name"] == "east"
    assert urls(answer) == [f"http://127.0.0.1:{port}", f"http://127.0.0.2:{port}", f"http://[::1]:{port}"]
    assert answer["workers"][0]["engine"] == "sglang"
    # An alias is followed, and one family of addresses is enough.
    names.records["alias.test", "CNAME"] = ["only4.test"]
    names.records["only4.test", "A"] = ["127.0.0.3"]
    assert urls(by_dns("dns", "alias.test:1")) == ["http://127.0.0.3:1"]


def test_a_name_server_over_ipv6(tmp_path):
    with DnsServer("::1") as dns:
        dns.records["six.test", "AAAA"] = ["::1"]
        dns.records["six.test", "A"] = [f"127.0.1.{i}" for i in range(1, 101)]  # over TCP
        more = f"[fleet east]\ndns=six.test:9\nresolver={dns.address}\n"
        with Daemon(tmp_path / "profd", quick_config(more=more)) as profd:
            assert len(listed(profd)) == 101
        assert ("tcp", "six.test", "A") in dns.queries


def test_a_truncated_answer_comes_again_over_tcp(by_dns, names):
    addresses = [f"127.0.{i // 250}.{i % 250 + 1}" for i in range(600)]
    names.records["many.test", "A"] = addresses
    answer = by_dns("dns", "many.test:1")
    assert urls(answer) == [f"http://{address}:1" for address in addresses]
    assert ("udp", "many.test", "A") in names.queries and ("tcp", "many.test", "A") in names.queries
    assert "more than 5 workers" in by_dns("dns", "many.test:1", "[limits]\nworkers=5\n")["detail"]


@pytest.mark.parametrize("name, words, remedy", [
    ("absent.test", "no such name (NXDOMAIN)", "clusterIP: None"),
    ("empty.test", "has no workers", "no address now"),
    ("servfail.test", "the name server answered SERVFAIL", "resolv.conf"),
    ("silence.test", "no name server gave an answer", "resolv.conf"),
    ("lie.test", "no name server gave an answer", "resolv.conf"),
    ("garbage.test", "no name server gave an answer", ""),
    ("short.test", "malformed", ""),
])
def test_names_that_give_no_workers(by_dns, names, name, words, remedy):
    fault = name.removesuffix(".test")
    names.records[name, "TXT" if fault == "empty" else "A"] = ["127.0.0.1"]
    if fault not in ("absent", "empty"):
        names.faults[name] = fault
    if fault == "absent":
        del names.records[name, "A"]
    problem = by_dns("dns", f"{name}:8000")
    assert f"dns={name}:8000" in problem["detail"] and words in problem["detail"], problem
    assert remedy in problem["remedy"], problem


def test_services(by_dns, names):
    names.records["_http._tcp.vllm.test", "SRV"] = [(8000, "node1.test"), (8001, "node1.test"), (8000, "node2.test"),
                                                    (8000, "gone.test"), (0, "node3.test"), (8000, "")]
    names.records["node1.test", "A"] = ["127.0.0.1", "127.0.0.9"]
    names.records["node2.test", "AAAA"] = ["::1"]
    answer = by_dns("srv", "_http._tcp.vllm.test")
    assert urls(answer) == ["http://127.0.0.1:8000", "http://127.0.0.1:8001", "http://[::1]:8000"]
    assert [worker["identity"] for worker in answer["workers"]] == ["node1.test:8000", "node1.test:8001", "node2.test:8000"]
    assert any("gone.test:8000" in note and "no address" in note for note in answer["notes"]), answer["notes"]
    names.records["_https._tcp.vllm.test", "SRV"] = [(8443, "node1.test")]
    assert urls(by_dns("srv", "_https._tcp.vllm.test")) == ["https://127.0.0.1:8443"]
    assert "no SRV record" in by_dns("srv", "node1.test")["remedy"]
    assert "NXDOMAIN" in by_dns("srv", "_grpc._tcp.vllm.test")["detail"]


def test_hostile_services(by_dns, names):
    names.records["_http._tcp.bad.test", "SRV"] = [(8000, "a b.test"), (8000, "x/../y.test"), (8000, "-v.test"),
                                                   (8000, "\x00\x1b[31m.test"), (8000, "good.test")]
    names.records["good.test", "A"] = ["127.0.0.1"]
    answer = by_dns("srv", "_http._tcp.bad.test")
    assert urls(answer) == ["http://127.0.0.1:8000"]
    assert "\x1b" not in json.dumps(answer)
    names.records["_http._tcp.loop.test", "SRV"] = [(8000, "a.test")]
    names.faults["_http._tcp.loop.test"] = "loop"
    assert "malformed" in by_dns("srv", "_http._tcp.loop.test")["detail"]


def test_a_request_names_dns_but_no_resolver(profd, names):
    """It is asked by resolv.conf: no packet goes to a server of the requester's choice."""
    names.queries.clear()
    for query, words in (("dns=vllm.test", "must be NAME:PORT"), ("dns=127.0.0.1:80", "use worker="), ("srv=a b", "must be the name"),
                         ("dns=a..b:80", "must be NAME:PORT"), ("dns=a:99999", "must be NAME:PORT")):
        assert words in profd.problem("GET", f"/v1/workers?{query.replace(' ', '%20')}", status=400)["detail"]
    reply = profd.request("GET", f"/v1/workers?dns=vllm.test:80&resolver={names.address}")
    assert reply.status == 400 and not names.queries
    assert profd.request("POST", "/v1/sessions", {"dns": "vllm.test:80", "resolver": names.address}).status == 400


def test_profctl_dns(profd):
    status, _, err = profctl(profd, "list-workers", "--dns", "vllm.test")
    assert status == 2 and "dns=vllm.test must be NAME:PORT" in err, err
