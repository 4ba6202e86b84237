# SPDX-License-Identifier: Apache-2.0
"""Who may do what at the API of profd: tokens and roles over TCP, TLS, the Unix socket's mode, and what is read again."""

import contextlib
import grp
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from certificates import Authority
from daemon import BUILD, PROFD, ROOT, SANITIZED, Daemon, FaultFleet, Reply, free_port, quick_config, token_line, wait_for, write_tokens

PROFCTL = BUILD / "client/profctl"
ROLES = ["read", "operate", "admin", "peer"]
RANK = {"none": 0, "read": 1, "operate": 2, "admin": 3}
TOKENS = {role: "profd_" + hashlib.sha256(role.encode()).hexdigest() for role in ROLES}
WRONG = "profd_" + 64 * "0"
# What needs no token: see test_web.py.
OPEN = {("GET", "/healthz"), ("GET", "/"), ("GET", "/web/{asset}"), ("POST", "/v1/web/login"), ("GET", "/v1/tickets/{ticket}")}


def role_tokens(tokens):
    return "# of a test\n" + "".join(token_line(f"{role}er", role, token) for role, token in tokens.items())


class TcpDaemon(Daemon):
    """Listens on a port of 127.0.0.1, and knows one token for each role."""

    def __init__(self, directory, http="", addresses="127.0.0.1:{port}", more=""):
        self.port = free_port()
        self.tokens = write_tokens(directory / "tokens", role_tokens(TOKENS))
        super().__init__(directory, f"[profd]\nlisten={addresses.format(port=self.port)}\n[http]\ntokens_file={self.tokens}\n{http}" +
                         quick_config(more=more))

    def call(self, method, path, token=None, headers=None, body=None, source=None, context=None, head_only=False):
        kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
        more = {"context": context} if context else {}
        connection = kind("localhost" if context else "127.0.0.1", self.port, timeout=60, source_address=(source, 0) if source else None, **more)
        with contextlib.closing(connection):
            authorization = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request(method, path, body, {**authorization, **(headers or {})})
            response = connection.getresponse()
            if head_only:
                response.read = lambda *_: b""
            return Reply(response)

    def reload(self, expected):
        """Sends SIGHUP, and waits for the line of the log that must follow."""
        begin = len(self.log())
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: expected in self.log()[begin:], why=self.log)


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    with TcpDaemon(tmp_path_factory.mktemp("profd")) as running:
        yield running
        assert not any(token in running.log() for token in TOKENS.values())


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def token_file(tmp_path):
    def write(role):
        path = tmp_path / f"token-{role}"
        path.write_text(TOKENS[role] + "\n")
        path.chmod(0o600)
        return path

    return write


def profctl(*args, env=None):
    return subprocess.run([PROFCTL, *map(str, args)], capture_output=True, text=True, timeout=60,
                          env={k: v for k, v in os.environ.items() if not k.startswith(("PROFD_", "XDG_"))} | {"HOME": "/nonexistent"} | (env or {}))


# Tokens and roles


def routes():
    listed = subprocess.run([PROFD, "--list-routes"], capture_output=True, text=True, check=True).stdout
    for method, path, right, *_ in map(str.split, listed.splitlines()):
        yield method, path.replace("{session}", "s999").replace("{trace}", "t999").replace("{run}", "r999").replace("{lease}", "999"), right


def may(role, right):
    """A peer may read besides what only peers may, and nobody else is a peer."""
    if "peer" in (role, right):
        return right in ("none", role) or (role, right) == ("peer", "read")
    return RANK[role] >= RANK[right]


@pytest.mark.parametrize("method, path, right", routes())
def test_every_route_wants_its_role(profd, method, path, right):
    def ask(token):
        return profd.call(method, path, token, head_only=path == "/v1/events")

    if (method, path) in OPEN:
        assert ask(None).headers.get("WWW-Authenticate", "").count("invalid_token") == 0
        return
    nobody = ask(None)
    assert nobody.status == 401 and nobody.headers["WWW-Authenticate"] == 'Bearer realm="profd"'
    for role in ROLES:
        reply = ask(TOKENS[role])
        if not may(role, right):
            assert reply.status == 403 and f'error="insufficient_scope", scope="{right}"' in reply.headers["WWW-Authenticate"]
            assert reply.json()["detail"] == f"the request requires role {right}; token {role}er has role {role}"
        else:
            assert reply.status not in (401, 429) and b"needs the role" not in reply.body
    assert profd.request(method, path).status not in (401, 403) if path != "/v1/events" else True


@pytest.mark.smoke
def test_some_routes_want_each_role():
    assert {right for *_, right in routes()} == {*RANK, "peer"}


@pytest.mark.parametrize("token, status", [(None, 401), (WRONG, 401), (TOKENS["read"], 403)])
def test_who_may_not_is_refused_before_the_body(profd, token, status):
    """By the head alone: whoever has no right must not make profd keep a megabyte for him."""
    head = ("POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1048576\r\n" +
            (f"Authorization: Bearer {token}\r\n" if token else ""))
    with socket.create_connection(("127.0.0.1", profd.port), timeout=60) as client:
        client.sendall(head.encode() + b"\r\n")
        reply = http.client.HTTPResponse(client)
        reply.begin()
        assert (reply.status, reply.headers["Connection"], json.loads(reply.read())["status"]) == (status, "close", status)
        assert client.recv(1) == b""


def test_bodies_without_a_right_cost_no_memory(tmp_path):
    head = b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n"
    with TcpDaemon(tmp_path) as profd, contextlib.ExitStack() as stack:
        profd.call("POST", "/v1/sessions", body="{}")
        before = profd.memory("Private_Dirty")
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", profd.port), timeout=60)) for _ in range(150)]
        for client in clients:
            with contextlib.suppress(ConnectionError):
                client.sendall(head + b"x" * 1_000_000)
        # Sent as a whole and read by profd, or turned away; either way all of them are looked at by now.
        assert profd.call("GET", "/healthz").status == 200
        assert SANITIZED or profd.memory("Private_Dirty") - before < 16 << 20
        assert {client.recv(12) for client in clients} == {b"HTTP/1.1 401"}


def test_what_is_not_there_is_reported_only_to_readers(profd):
    for path in ("/nothing", "/v1/sessions/x", "/v1/usage?nonsense=1"):
        assert profd.call("GET", path).status == 401
        assert profd.call("GET", path, TOKENS["read"]).status in (400, 404)
    assert profd.call("PATCH", "/v1/usage").status == 405  # by the gate, before anything is looked at
    assert profd.call("PUT", "/v1/usage").status == 401


@pytest.mark.parametrize("path", ["/v1/workers", "/v1/doctor"])
@pytest.mark.parametrize("query", ["router=http://127.0.0.1:1", "worker=http://127.0.0.1:1", "fleet=x&worker=http://127.0.0.1:1",
                                   "targets=http://127.0.0.1:1", "targets=[]", "fleet=x&port=1", "fleet=x&role_label=a"])
def test_who_only_reads_lets_profd_call_nobody(profd, path, query):
    assert profd.call("GET", f"{path}?{query}", TOKENS["read"]).json()["detail"].startswith("the request requires role operate")
    assert profd.call("GET", f"{path}?{query}", TOKENS["operate"]).status != 403
    assert profd.request("GET", f"{path}?{query}").status != 403
    assert profd.call("GET", f"{path}?fleet=x", TOKENS["read"]).status == 404


@pytest.mark.parametrize("path", ["/v1/workers", "/v1/doctor", "/v1/functions"])
def test_who_only_reads_learns_of_no_path(tmp_path, path):
    with FaultFleet(tmp_path / "fleet") as fleet, TcpDaemon(tmp_path / "profd", more=f"[fleet x]\nrouter={fleet.router}\n") as profd:
        answers = []
        for directory in (tmp_path, tmp_path / "missing"):
            answers.append(profd.call("GET", f"{path}?fleet=x&trace_dir={directory}", TOKENS["read"]).json())
            assert answers[-1]["detail"].startswith("the request requires role operate")
            assert profd.call("GET", f"{path}?fleet=x&trace_dir={directory}", TOKENS["operate"]).status != 403
        assert answers[0] == answers[1]
        assert profd.call("GET", f"{path}?fleet=x", TOKENS["read"]).status != 403


@pytest.mark.parametrize("value", ["Basic cHJvZmQ6cHJvZmQ=", "Bearer", TOKENS["admin"], "Bearer " + TOKENS["admin"] + "x", "Bearer " + TOKENS["admin"][:-1],
                                   "Bearer " + hashlib.sha256(TOKENS["admin"].encode()).hexdigest()])
def test_what_is_no_token(tmp_path, profd, value):
    reply = profd.call("GET", "/v1/usage", headers={"Authorization": value}, source="127.0.0.9")
    assert (reply.status, reply.json()["code"]) == (401, "no-token")
    assert 'error="invalid_token"' in reply.headers["WWW-Authenticate"]


def test_audit_names_the_token(tmp_path):
    with FaultFleet(tmp_path / "fleet") as fleet, TcpDaemon(tmp_path / "profd") as profd:
        body = json.dumps({"router": fleet.router, "duration_ns": 50_000_000})
        reply = profd.call("POST", "/v1/sessions", TOKENS["operate"], body=body)
        assert reply.status == 201, reply
        done = profd.wait_session(reply.json()["session"])
        assert done["requested_by"] == "operateer"


def test_wrong_tokens_are_slowed_down_by_address(profd):
    def ask(token, source):
        return profd.call("GET", "/v1/usage", token, source=source)

    begin = time.monotonic()
    answers = []
    while not answers or answers[-1].status == 401:
        answers.append(ask(WRONG, "127.0.0.2"))
        assert len(answers) < 1000
    assert answers[-1].status == 429 and answers[-1].json()["code"] == "too-many"
    assert 10 < len(answers) <= 11 + (time.monotonic() - begin) / 6
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 6
    assert ask(WRONG, "127.0.0.3").status == 401
    # Others behind that address are not shut out.
    assert ask(TOKENS["read"], "127.0.0.2").status == 200
    assert ask(None, "127.0.0.2").status == 401
    assert profd.call("GET", "/healthz", source="127.0.0.2").status == 200
    wait_for(lambda: ask(WRONG, "127.0.0.2").status == 401)


def test_refusals_do_not_fill_the_log(tmp_path):
    with TcpDaemon(tmp_path) as profd:
        for _ in range(100):
            assert profd.call("GET", "/v1/usage").status == 401
        assert 1 <= profd.log().count("refused 127.0.0.1:") <= 20


def test_several_addresses(tmp_path):
    with TcpDaemon(tmp_path, addresses="127.0.0.1:{port} 127.0.0.2:{port}, 127.0.0.3:{port}") as profd:
        for address in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            with contextlib.closing(http.client.HTTPConnection(address, profd.port, timeout=60)) as connection:
                connection.request("GET", "/v1/usage", headers={"Authorization": f"Bearer {TOKENS['read']}"})
                assert connection.getresponse().status == 200


def test_opened_routes(tmp_path):
    opened = [path for method, path, right in routes() if right == "none" and (method, path) not in OPEN]
    assert "/metrics" in opened
    with TcpDaemon(tmp_path, "open_to=127.0.0.8/30\nopen_to=10.0.0.0/8\n") as profd:
        for path in opened:
            assert profd.call("GET", path, source="127.0.0.9").status != 401
            assert profd.call("GET", path, source="127.0.0.12").status == 401
        assert profd.call("GET", "/v1/usage", source="127.0.0.9").status == 401


# The browser


@pytest.mark.parametrize("headers", [{"Origin": "https://ui.perfetto.dev"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1"}, {"Sec-Fetch-Site": "same-site"},
                                     {"Host": "evil.example"}, {"Host": "[::1]evil"}, {"Host": "localhost.evil.example"}, {"Host": "profd.example.evil"}])
def test_web_pages_are_refused_even_with_a_token(tmp_path, profd, headers):
    for path in ("/v1/usage", "/v1/traces/t1/file", "/healthz"):
        reply = profd.call("GET", path, TOKENS["admin"], headers)
        assert (reply.status, reply.json()["code"]) == (403, "denied")
        assert not any(name.lower().startswith("access-control") for name in reply.headers)


def test_configured_names(tmp_path):
    with TcpDaemon(tmp_path, "host=node7.example\nhost=profd\n") as profd:
        for host, status in {"node7.example": 200, f"NODE7.example:{profd.port}": 200, "profd": 200, "node8.example": 403, "127.0.0.1": 200}.items():
            assert profd.call("GET", "/healthz", headers={"Host": host}).status == status, host


# TLS


def tls_config(certificate, key, client_ca=None):
    return f"cert_file={certificate}\nkey_file={key}\n" + (f"client_ca_file={client_ca}\n" if client_ca else "")


def test_profctl_over_tls(tmp_path, authority, token_file):
    with TcpDaemon(tmp_path / "profd", tls_config(*authority.issue("server"))) as profd:
        url = f"https://localhost:{profd.port}"
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": "k", "pid": 1, "tid": 1, "ts": i, "dur": 1} for i in range(100_000)]}))
        trace = profd.post("/v1/traces", {"path": str(path)}, 201)["trace"]
        known = ["--host", url, "--cacert", authority.file]
        reader = [*known, "--token-file", token_file("read")]
        assert "1 trace" in profctl("du", *reader).stdout
        got = profctl("get", trace, "-o", tmp_path / "got", *reader)
        assert got.returncode == 0 and (tmp_path / "got").read_bytes() == path.read_bytes(), got.stderr
        removed = profctl("rm", trace, *reader)
        assert removed.returncode == 1 and "the request requires role admin; token reader has role read" in removed.stderr
        assert profctl("rm", trace, *known, env={"PROFD_TOKEN_FILE": str(token_file("admin"))}).returncode == 0

        nobody = profctl("du", *known)
        assert nobody.returncode == 1 and "a token is required" in nobody.stderr and "--token-file FILE" in nobody.stderr
        stranger = profctl("du", "--host", url, "--token-file", token_file("read"))
        assert stranger.returncode == 1 and "--cacert FILE" in stranger.stderr
        plain = profctl("du", "--host", f"http://localhost:{profd.port}", "--token-file", token_file("read"))
        assert plain.returncode == 1 and "--host https://" in plain.stderr


def test_client_certificates(tmp_path, authority, token_file):
    with TcpDaemon(tmp_path / "profd", tls_config(*authority.issue("server"), authority.file)) as profd:
        known = ["--host", f"https://localhost:{profd.port}", "--cacert", authority.file, "--token-file", token_file("read")]
        certificate, key = authority.issue("client")
        assert profctl("du", *known, "--cert", certificate, "--key", key).returncode == 0
        certificate, key = Authority(tmp_path, "other").issue("client")
        for more in ([], ["--cert", certificate, "--key", key]):
            assert profctl("du", *known, *more).returncode == 1
        context = ssl.create_default_context(cafile=authority.file)
        context.load_cert_chain(*authority.issue("client"))
        assert profd.call("GET", "/v1/usage", context=context).status == 401  # a certificate is no token


def test_reload_swaps_certificates_and_keeps_good_ones(tmp_path, authority):
    later = Authority(tmp_path, "later")
    certificate, key = tmp_path / "used.pem", tmp_path / "used.key"

    def install(issued):
        for source, target in zip(issued, (certificate, key)):
            shutil.copy(source, target)

    def is_served_by(who):
        try:
            return profd.call("GET", "/healthz", context=ssl.create_default_context(cafile=who.file)).status == 200
        except ssl.SSLCertVerificationError:
            return False

    install(authority.issue("server"))
    with TcpDaemon(tmp_path / "profd", tls_config(certificate, key)) as profd:
        assert is_served_by(authority)
        kept = http.client.HTTPSConnection("localhost", profd.port, timeout=60, context=ssl.create_default_context(cafile=authority.file))
        with contextlib.closing(kept):
            kept.request("GET", "/healthz")
            kept.getresponse().read()
            install(later.issue("server"))
            profd.reload("reloaded: ")
            assert is_served_by(later) and not is_served_by(authority)
            kept.request("GET", "/healthz")
            assert kept.getresponse().status == 200
        shutil.copy(authority.issue("another")[0], certificate)  # which the key does not fit
        profd.reload("the previous configuration stays in use")
        assert f"cannot use {key} as the private key" in profd.log()
        assert is_served_by(later)


def test_streams_end_with_their_token(tmp_path):
    """At the reload that follows: whose token went, was exchanged, or may no longer what it must. Others go on."""
    gone, renewed, kept = (f"profd_{c * 64}" for c in "abc")

    def write(names):
        write_tokens(profd.tokens, "".join(token_line(name, "read", token) for name, token in names.items()))

    with TcpDaemon(tmp_path) as profd, contextlib.ExitStack() as stack:
        write({"gone": gone, "renewed": renewed, "kept": kept})
        profd.reload("reloaded: ")
        streams = {}
        for token in (gone, renewed, kept):
            connection = stack.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", profd.port, timeout=60)))
            connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {token}"})
            streams[token] = connection.getresponse()
            assert streams[token].status == 200
        local = stack.enter_context(profd.events())

        write({"renewed": WRONG, "kept": kept})
        profd.reload("reloaded: ")
        assert streams[gone].read() == b"" and streams[renewed].read() == b""
        trace = tmp_path / "trace.json"
        trace.write_text('{"traceEvents": []}')
        profd.post("/v1/traces", {"path": str(trace)}, 201)
        assert streams[kept].readline().startswith(b"id: ")
        assert next(iter(local))["data"]

        write({"renewed": WRONG})
        profd.reload("reloaded: ")
        streams[kept].read()
        assert profd.call("GET", "/v1/events", kept).status == 401


def test_reload_of_tokens(tmp_path):
    with TcpDaemon(tmp_path) as profd:
        def status(token):
            return profd.call("GET", "/v1/usage", token).status

        write_tokens(profd.tokens, role_tokens({"read": WRONG}))
        assert (status(TOKENS["admin"]), status(WRONG)) == (200, 401)
        profd.reload("reloaded: ")
        assert (status(TOKENS["admin"]), status(WRONG)) == (401, 200)
        profd.tokens.write_text("nonsense\n")
        profd.reload(f"{profd.tokens}:1: must be NAME ROLE HASH")
        assert status(WRONG) == 200


# What profd does not start with


@pytest.mark.parametrize("listen, http, mode, text", [
    ("0.0.0.0:{port}", "", 0o600, "tokens would be sent without encryption"),
    ("127.0.0.1:{port} [::]:{port}", "", 0o600, "tokens would be sent without encryption"),
    ("0.0.0.0:{port}", "plain_http=yes\ntokens_file={empty}\n", 0o600, "no token is configured"),
    ("127.0.0.1:{port}", "", 0o644, "is open to every user of this host|may be read by every user of this host"),
    ("127.0.0.1:{port}", "", 0o620, "may be written by its group"),
    ("127.0.0.1:{port}", "tokens_file=/nonexistent/tokens\n", 0o600, "cannot read the tokens file /nonexistent/tokens: No such file"),
    ("127.0.0.1:{port}", "cert_file={certificate}\n", 0o600, "cert_file= is set, but not key_file="),
    ("127.0.0.1:{port}", "client_ca_file={certificate}\n", 0o600, "client_ca_file= is set, but not cert_file="),
    ("127.0.0.1:{port}", "cert_file={certificate}\nkey_file={other_key}\n", 0o600, "as the private key: key values mismatch"),
    ("127.0.0.1:{port}", "cert_file={empty}\nkey_file={other_key}\n", 0o600, "as the certificate: no start line"),
    ("127.0.0.1:{port}", "cert_file={certificate}\nkey_file={open_key}\n", 0o600, "is open to every user of this host"),
])
def test_unsafe_configurations(tmp_path, authority, listen, http, mode, text):
    certificate, key = authority.issue("server")
    open_key, empty = tmp_path / "open.key", tmp_path / "empty"
    shutil.copy(key, open_key)
    open_key.chmod(0o644)
    empty.touch(0o600)
    names = {"certificate": certificate, "other_key": authority.issue("other")[1], "open_key": open_key, "empty": empty}
    daemon = TcpDaemon(tmp_path / "profd", http.format(**names), listen)
    daemon.tokens.chmod(mode)
    status, said = daemon.refuses()
    assert status == 2 and re.search(text, said), said
    assert len(said.splitlines()) >= 1 and TOKENS["admin"] not in said
    checked = subprocess.run([*daemon.command(), "--check-config"], capture_output=True, text=True)
    assert checked.returncode == 2 and re.search(text, checked.stderr), checked.stderr


def test_plain_http_where_it_is_asked_for(tmp_path):
    with TcpDaemon(tmp_path, "plain_http=yes\n", "0.0.0.0:{port}") as profd:
        assert profd.call("GET", "/v1/usage", TOKENS["read"]).status == 200


def unit_credential(name):
    """What the shipped unit hands profd of /etc/profd/credentials/NAME: systemd joins the id and the file's name."""
    loaded, path = re.search(r"^LoadCredential=([^:]+):(.+)$", (ROOT / "systemd/profd.service.in").read_text(), re.M).groups()
    assert path == "/etc/profd/credentials"
    return f"{loaded}_{name}"


@pytest.mark.parametrize("name", ["profd.tokens", unit_credential("tokens")])
def test_credential_of_the_service_manager(tmp_path, name):
    write_tokens(tmp_path / "credentials" / name, role_tokens(TOKENS))
    port = free_port()
    with Daemon(tmp_path / "profd", f"[profd]\nlisten=127.0.0.1:{port}\n", environment={"CREDENTIALS_DIRECTORY": str(tmp_path / "credentials")}) as profd:
        profd.port = port
        assert TcpDaemon.call(profd, "GET", "/v1/usage", TOKENS["read"]).status == 200


def test_without_tokens_only_health_is_reported(tmp_path):
    port = free_port()
    with Daemon(tmp_path, options=["--listen", f"127.0.0.1:{port}"]) as profd:
        profd.port = port
        assert TcpDaemon.call(profd, "GET", "/healthz").status == 200
        assert TcpDaemon.call(profd, "GET", "/v1/usage").status == 401
        assert "no token is configured, so no client has access" in profd.log() and "profctl token new" in profd.log()


# profctl's side


def test_token_new_makes_what_profd_takes(tmp_path):
    made = profctl("token", "new", "ci", "--role", "operate")
    token, entry = made.stdout.splitlines()
    assert re.fullmatch(r"profd_[0-9a-f]{64}", token) and entry == token_line("ci", "operate", token).strip()
    again = json.loads(profctl("token", "new", "ci", "--json").stdout)
    assert again["role"] == "read" and again["token"] != token and again["line"].split()[1] == "read"
    for words in (["new", "a b"], ["new", "x", "--role", "root"], ["old", "x"], ["new"]):
        wrong = profctl("token", *words)
        assert wrong.returncode == 2 and wrong.stdout == ""


def test_token_files_of_profctl(tmp_path, profd, token_file):
    url = f"http://127.0.0.1:{profd.port}"
    home = tmp_path / "home"
    (home / ".config/profd").mkdir(parents=True)
    shutil.copy(token_file("read"), home / ".config/profd/token")
    assert profctl("du", "--host", url, env={"HOME": str(home)}).returncode == 0
    (home / ".config/profd/token").chmod(0o640)
    loose = profctl("du", "--host", url, env={"HOME": str(home)})
    assert loose.returncode == 1 and "is accessible by other users (mode 0640)" in loose.stderr and "chmod 600" in loose.stderr
    assert profctl("du", "--host", url, "--token-file", tmp_path / "none").returncode == 2
    two = token_file("read")
    two.write_text("two words\n")
    assert "is not a token file" in profctl("du", "--host", url, "--token-file", two).stderr


def test_token_is_not_sent_in_the_open(token_file):
    for host in ("http://192.0.2.1:1", "192.0.2.1", "http://127.0.0.1.evil.example", "http://127.0.0.1@192.0.2.1/", "http://localhost.evil.example"):
        refused = profctl("du", "--host", host, "--token-file", token_file("read"))
        assert refused.returncode == 1 and "cannot send a token to" in refused.stderr and "--plain-http" in refused.stderr, host
    # To a port of this host that nobody listens on it would be.
    assert "cannot reach profd" in profctl("du", "--host", "http://127.0.0.1:1", "--token-file", token_file("read")).stderr


# The Unix socket


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes other users")
def test_socket_is_for_its_group(request):
    """As root's profd: its group is the configured one, and everybody in it may do everything."""
    directory = Path(tempfile.mkdtemp(prefix="profd-test-", dir="/tmp"))
    request.addfinalizer(lambda: shutil.rmtree(directory))
    directory.chmod(0o755)
    program = shutil.copy(PROFCTL, directory)
    group = grp.getgrnam("mail").gr_gid

    def du(uid, groups):
        return subprocess.run([program, "--socket", profd.socket, "vacuum", "--keep", "1G", "--yes"], capture_output=True, text=True, timeout=60, user=uid, group=65534,
                              extra_groups=groups)

    with Daemon(directory / "profd", "[profd]\ngroup=mail\n") as profd:
        profd.directory.chmod(0o755)
        info = profd.socket.stat()
        assert (info.st_uid, info.st_gid, info.st_mode & 0o777) == (0, group, 0o660)
        assert du(65534, [group]).returncode == 0
        refused = du(65534, [])
        assert refused.returncode == 1 and "Permission denied" in refused.stderr and "group profd" in refused.stderr
        for name in ("state", "state/catalog.db"):
            assert (profd.directory / name).stat().st_mode & 0o007 == 0
