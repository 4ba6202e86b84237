# SPDX-License-Identifier: Apache-2.0
"""Two profds that know each other over TLS: hellos, clocks, what a wrong or a stolen token can do, client certificates."""

import contextlib
import hashlib
import http.client
import json
import os
import re
import socket
import ssl
import subprocess

import pytest
from certificates import Authority
from daemon import BUILD, Daemon, FaultFleet, Reply, free_port, quick_config, token_line, wait_for, write_tokens
from wall_clock import WallClock
from wall_clock import why_not as why_no_clock

TOKEN = "profd_" + 64 * "a"
WRONG = "profd_" + 64 * "b"


def profctl(profd, *words, status=0):
    """Its output, and its messages where it has to fail."""
    done = subprocess.run([BUILD / "client/profctl", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PROFD_SOCKET": str(profd.socket) if profd else "/nonexistent", "COLUMNS": "200"})
    assert done.returncode == status, done
    return done.stdout if status == 0 else done.stderr


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


class Peer(Daemon):
    """A profd at an address of loopback. `peers` are those that it calls; each lets in TOKEN with role peer."""

    def __init__(self, directory, authority, address, peers=(), token=TOKEN, http="", client=False, more="", host="IP"):
        directory.mkdir(parents=True, exist_ok=True)
        self.address, self.port, self.authority = address, free_port(), authority
        certificate, key = authority.issue(f"server-{address}", f"{host}:{address}")
        tokens = write_tokens(directory / "tokens", token_line("other", "peer", TOKEN) + token_line("anna", "read", WRONG[:-1] + "c"))
        shown = write_tokens(directory / "token", token + "\n")
        text = (f"[profd]\nlisten={socket.gethostbyname(address)}:{self.port}\n[http]\ncert_file={certificate}\nkey_file={key}\n"
                f"tokens_file={tokens}\n{http}[hosts]\nname=host-{address}\n")
        for peer in peers:
            text += f"[peer at-{peer.address}]\nurl={peer.url}\ntoken_file={shown}\nca_file={authority.file}\n"
            if client:
                certificate, key = authority.issue("client")
                text += f"cert_file={certificate}\nkey_file={key}\n"
        super().__init__(directory, text + more + quick_config())

    @property
    def url(self):
        return f"https://{self.address}:{self.port}"

    def as_peer(self, method, path, body=None, token=TOKEN):
        """A request of another host, over TCP."""
        context = ssl.create_default_context(cafile=self.authority.file)
        connection = http.client.HTTPSConnection(self.address, self.port, timeout=60, context=context)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body) if body is not None else None, {"Authorization": f"Bearer {token}"} if token else {})
            return Reply(connection.getresponse())

    def host(self, peer):
        """What it lists of the peer."""
        [one] = [host for host in self.get("/v1/hosts")["hosts"] if host.get("peer") == f"at-{peer.address}"]
        return one


@pytest.fixture(scope="module")
def pair(tmp_path_factory, authority):
    with Peer(tmp_path_factory.mktemp("two"), authority, "127.0.0.2") as two, \
            Peer(tmp_path_factory.mktemp("one"), authority, "127.0.0.3", [two]) as one:
        yield one, two


def test_hosts_are_listed_with_their_clocks(pair):
    one, two = pair
    own, other = one.get("/v1/hosts")["hosts"]
    assert own["state"] == "self" and own["host"] and "url" not in own
    assert other["state"] == "ok" and other["url"] == two.url and other["version"] == own["version"]
    assert other["catalog"] != own["catalog"] and other["catalog"] == two.get("/v1/host")["catalog"]
    # One machine has one clock: the offset is at most the error, which is at most the round trip.
    assert abs(other["clock_offset_ns"]) <= other["clock_error_ns"] + 1_000_000
    assert 0 < other["clock_error_ns"] <= other["clock_rtt_ns"] < 2_000_000_000
    assert other["store"]["max_use"] > 0 and other["sessions"] == 0


def test_who_asks_itself_is_not_listed(tmp_path, authority, pair):
    """A name of all hosts includes the own one."""
    _, two = pair
    with Peer(tmp_path, authority, "127.0.0.4") as profd:
        profd.config.write_text(profd.config.read_text() + f"[peer me]\nurl={profd.url}\ntoken_file={tmp_path / 'token'}\nca_file={authority.file}\n")
        profd.restart()
        assert [host["state"] for host in profd.get("/v1/hosts")["hosts"]] == ["self"]


@pytest.mark.parametrize("change, state, problem, remedy", [
    ({"token": WRONG}, "refused", "unknown token", "profctl peer join"),
    ({"more": "[peer gone]\nurl=https://127.0.0.9:1\ntoken_file={token}\n"}, "unreachable", "connection refused", "systemctl status profd"),
])
def test_what_is_wrong_is_named(tmp_path, authority, pair, change, state, problem, remedy):
    _, two = pair
    more = change.get("more", "").format(token=tmp_path / "token")
    with Peer(tmp_path, authority, "127.0.0.5", [two], token=change.get("token", TOKEN), more=more) as profd:
        host = profd.get("/v1/hosts")["hosts"][-1]
        assert host["state"] == state and problem in host["problem"] and remedy in host["remedy"], host
        assert TOKEN not in json.dumps(host) and WRONG not in json.dumps(host)


def test_another_authority_is_not_trusted(tmp_path, tmp_path_factory, pair):
    _, two = pair
    other = Authority(tmp_path_factory.mktemp("other"), "other")
    with Peer(tmp_path, other, "127.0.0.6", [two]) as profd:
        host = profd.host(two)
        assert host["state"] == "unreachable" and "certificate" in host["problem"] and "ca_file" in host["remedy"], host


def test_client_certificates_are_asked_for_in_addition(tmp_path, authority):
    with Peer(tmp_path / "strict", authority, "127.0.0.2", http=f"client_ca_file={authority.file}\n") as strict:
        with Peer(tmp_path / "without", authority, "127.0.0.3", [strict]) as profd:
            assert profd.host(strict)["state"] == "unreachable"
        with Peer(tmp_path / "with", authority, "127.0.0.3", [strict], client=True) as profd:
            assert profd.host(strict)["state"] == "ok"
        with Peer(tmp_path / "alone", authority, "127.0.0.3", [strict], client=True, token=WRONG) as profd:
            assert profd.host(strict)["state"] == "refused"  # a certificate is no token


def test_a_name_that_the_host_does_not_know(tmp_path, authority):
    with Peer(tmp_path / "two", authority, socket.gethostname(), host="DNS") as two, \
            Peer(tmp_path / "one", authority, "127.0.0.3", [two]) as one:
        host = one.host(two)
        assert host["state"] == "refused" and "unknown host name" in host["problem"] and "[http] host=" in host["remedy"], host


STOLEN = [
    ("DELETE", "/v1/sessions/s1", None, 403), ("DELETE", "/v1/traces/t1", None, 403), ("POST", "/v1/vacuum", {"keep": 0}, 403),
    ("POST", "/v1/sessions", {"workers": ["http://127.0.0.1:1"]}, 403), ("POST", "/v1/sessions/s1/stop", None, 403),
    ("POST", "/v1/traces", {"path": "/etc/passwd"}, 403), ("PUT", "/v1/traces/t1/pin", None, 403),
    ("GET", "/v1/workers?router=http://127.0.0.1:1", None, 403), ("GET", "/v1/doctor?trace_dir=/etc", None, 403),
    ("POST", "/v1/host/workers", {"workers": [], "trace_dir": "/etc"}, 400),
    ("POST", "/v1/host/workers", {"workers": [], "router": "http://10.0.0.1"}, 400),
    ("POST", "/v1/host/workers", {"workers": ["http://127.0.0.1:22"]}, 400),
    ("POST", "/v1/host/workers", {"workers": ["file:///etc/passwd"]}, 400),
    ("POST", "/v1/host/workers", {"workers": "http://10.0.0.1"}, 400),
    ("POST", "/v1/host/workers", [], 400),
]


@pytest.mark.parametrize("method, path, body, status", STOLEN)
def test_a_stolen_token_deletes_configures_and_names_nothing(pair, method, path, body, status):
    _, two = pair
    assert two.as_peer(method, path, body).status == status


def test_a_peer_reads_and_nobody_else_is_one(pair):
    _, two = pair
    assert two.as_peer("GET", "/v1/traces").status == 200
    assert two.as_peer("GET", "/v1/host").status == 200
    assert two.as_peer("GET", "/v1/host", token=WRONG[:-1] + "c").status == 403
    assert two.as_peer("GET", "/v1/host", token=None).status == 401


def test_nothing_is_sent_to_workers_of_other_hosts(pair):
    """Else a peer could have profd call any server of its network."""
    _, two = pair
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        answer = two.as_peer("POST", "/v1/host/workers", {"workers": ["http://192.0.2.7:8000", "http://10.255.255.1:80"]})
        assert answer.status == 200 and answer.json()["workers"] == []
        assert answer.json()["catalog"] == two.get("/v1/host")["catalog"]


def test_list_hosts_for_people(pair):
    one, two = pair
    shown = profctl(one, "list-hosts")
    assert re.search(r"^HOST +STATE +VERSION +WORKERS +SESSIONS +STORE +CLOCK +URL", shown), shown
    assert re.search(rf"^host-127.0.0.3 +self .*\nhost-127.0.0.2 +ok .* [+-]\S+ ?\S* ±\S+ ?\S* +{two.url} ", shown, re.M), shown
    assert json.loads(profctl(one, "hosts", "--json"))["hosts"][1]["url"] == two.url
    assert profctl(one, "list-hosts", "--csv", "--columns", "host,state") == "host,state\nhost-127.0.0.3,self\nhost-127.0.0.2,ok\n"


def test_join_by_a_directory(tmp_path):
    """As nodes of a job do that share one: everything is in it, and nobody else can read it."""
    hosts, directory = ["127.0.0.21", "127.0.0.22", "127.0.0.23"], tmp_path / "peers"
    port = str(free_port())
    profctl(None, "peer", "join", *hosts, "--port", port, "--directory", directory)
    assert directory.stat().st_mode & 0o777 == 0o700 and all(file.stat().st_mode & 0o777 == 0o600 for file in directory.iterdir())
    with contextlib.ExitStack() as stack:
        profds = []
        for host in hosts:
            profd = Daemon(tmp_path / host)
            profd.config = directory / f"{host}.conf"
            profds.append(stack.enter_context(profd))
        for profd in profds:
            listed = profd.get("/v1/hosts")["hosts"]
            assert sorted(host["host"] for host in listed) == hosts and [host["state"] for host in listed] == ["self", "ok", "ok"], listed
    again = profctl(None, "peer", "join", *hosts, "--directory", directory, status=2)
    assert "File exists" in again


def test_join_of_two(tmp_path, authority):
    """Both sides are printed: what one shows is what the other accepts."""
    answer = json.loads(profctl(None, "peer", "join", "gpu2", "--this", "gpu1", "--json"))
    one, two = ({file["path"]: file["text"] for file in host["files"]} for host in answer["hosts"])
    assert hashlib.sha256(one["/etc/profd/peers/gpu2.token"].strip().encode()).hexdigest() in two["/etc/profd/tokens"]
    assert two["/etc/profd/tokens"].startswith("gpu1 peer ")
    assert "[peer gpu2]\nurl=https://gpu2:9460\n" in one["/etc/profd/profd.conf"] and "host=gpu1\n" in one["/etc/profd/profd.conf"]
    shown = profctl(None, "peer", "join", "10.0.0.7", "--this", "10.0.0.1")
    assert "# On 10.0.0.1\n" in shown and "# On 10.0.0.7\n" in shown and "\nhost=" not in shown
    for words in (["join", "a b"], ["join", "gpu1", "gpu1", "--directory", "x"], ["join", "gpu1", "gpu2"], ["leave", "gpu1"]):
        profctl(None, "peer", *words, status=2)


def test_configuration(tmp_path, authority):
    for text, error in {"[peer x]\n": "[peer x]: must have url=", "[peer x]\nurl=http://10.0.0.1:9460\n": "must begin with https://",
                        "[hosts]\npeers=consul:x\n": "must be dns:NAME:PORT", "[hosts]\npeers=workers:0\n": "must be dns:NAME:PORT",
                        "[hosts]\npeers=workers:9460\n": "needs ca_file=",
                        "[peer x]\nurl=https://10.0.0.1\naddresses=gpu2\n": "an address such as"}.items():
        profd = Daemon(tmp_path, text)
        status, output = profd.refuses()
        assert status != 0 and error in output, output


def test_the_doctor_looks_at_peers(tmp_path, authority, pair):
    _, two = pair
    more = f"[peer gone]\nurl=https://127.0.0.9:1\ntoken_file={tmp_path / 'token'}\n"
    with Peer(tmp_path, authority, "127.0.0.7", [two], more=more) as profd, FaultFleet(tmp_path / "fleet") as fleet:
        checks = profd.get("/v1/doctor", router=fleet.router)["checks"]
        [gone] = [check for check in checks if "127.0.0.9" in check["text"]]
        assert gone["result"] == "fail" and "connection refused" in gone["text"] and gone["remedy"]
        assert any(check["result"] == "ok" and check["text"] == "1 of 2 other hosts answer" for check in checks), checks


def test_the_doctor_checks_all_but_workers_where_no_router_is_known(tmp_path, authority, pair):
    """On a login node before its first session: hosts, clocks, the archive, the mirror, the store and leases."""
    _, two = pair
    more = (f"[peer gone]\nurl=https://127.0.0.9:1\ntoken_file={tmp_path / 'profd/token'}\n"
            f"[archive]\nurl=file://{tmp_path / 'bucket'}\n[mirror]\nurl=postgresql://127.0.0.1:1/fleet\n")
    (tmp_path / "bucket").mkdir()
    with Peer(tmp_path / "profd", authority, "127.0.0.7", [two], more=more) as profd:
        wait_for(lambda: any("the mirror: " in check["text"] for check in profd.get("/v1/doctor")["checks"]))
        [left_out, *checks] = profd.get("/v1/doctor")["checks"]
        assert left_out["result"] == "unknown" and left_out["text"].startswith("workers, their profilers"), left_out
        assert "no router named" in left_out["text"] and "--router" in left_out["remedy"]
        for result, text in ("ok", "1 of 2 other hosts answer"), ("fail", "127.0.0.9"), ("ok", "the store "), ("ok", "the archive "), ("warn", "the mirror: "):
            assert any(check["result"] == result and text in check["text"] for check in checks), (result, text, checks)
        done = subprocess.run([BUILD / "client/profctl", "doctor"], env={**os.environ, "PROFD_SOCKET": str(profd.socket)}, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and done.stdout.startswith("unknown  workers, their profilers"), done
        assert "no router named" in profd.problem("GET", "/v1/workers", status=400)["detail"]
    with Daemon(tmp_path / "alone") as profd:
        done = subprocess.run([BUILD / "client/profctl", "doctor"], env={**os.environ, "PROFD_SOCKET": str(profd.socket)}, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "no router named" in done.stdout and "0 problems" in done.stdout, done


def test_the_doctor_fails_where_no_host_answers(tmp_path, authority, pair):
    """That none of them answers is no success."""
    _, two = pair
    with Peer(tmp_path, authority, "127.0.0.7", [two], token=WRONG) as profd, FaultFleet(tmp_path / "fleet") as fleet:
        checks = profd.get("/v1/doctor", router=fleet.router)["checks"]
        [count] = [check for check in checks if "other hosts answer" in check["text"]]
        assert count["result"] == "fail" and count["text"] == "0 of 1 other hosts answer" and count["remedy"], count


def test_the_doctor_names_a_clock_that_is_wrong(tmp_path, authority, pair):
    if why_no_clock():
        pytest.skip(why_no_clock())
    clock = WallClock(tmp_path / "clock")
    clock.offset_s = 90
    _, two = pair
    with Peer(tmp_path / "profd", authority, "127.0.0.8", [two]) as profd, FaultFleet(tmp_path / "fleet") as fleet:
        profd.environment.update(clock.environment)
        profd.restart()
        assert -91e9 < profd.host(two)["clock_offset_ns"] < -89e9
        checks = profd.get("/v1/doctor", router=fleet.router)["checks"]
        assert any(check["result"] == "warn" and "behind ours (measured between both profds, ±" in check["text"] and "time server" in check["remedy"] for check in checks), checks


def test_a_certificate_of_the_future_names_the_clock(tmp_path, authority):
    """The host whose clock is wrong is this one: the certificates of the others look as if they were not valid yet."""
    if why_no_clock():
        pytest.skip(why_no_clock())
    clock = WallClock(tmp_path / "clock")
    clock.offset_s = -3 * 86400
    with Peer(tmp_path / "two", authority, "127.0.0.2") as two, Peer(tmp_path / "one", authority, "127.0.0.8", [two]) as one:
        one.environment.update(clock.environment)
        one.restart()
        host = one.host(two)
        assert host["state"] == "unreachable" and "not yet valid" in host["problem"], host
        assert "By the clock of this host it is 20" in host["remedy"] and "timedatectl" in host["remedy"], host
