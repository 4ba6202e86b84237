# SPDX-License-Identifier: Apache-2.0
"""The web page's side of access: which requests of browsers profd answers, its log-in, tickets for downloads, and its files."""

import contextlib
import gzip
import http.client
import json
import re
import socket
import time

import pytest
from daemon import Daemon, quick_config, token_line, write_tokens
from test_access import TOKENS, WRONG, TcpDaemon

ROLES = ["read", "operate", "admin"]
FAR = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture(scope="module")
def profd(tmp_path_factory):
    with TcpDaemon(tmp_path_factory.mktemp("profd"), "host=node7.example\n") as running:
        yield running


@pytest.fixture(scope="module")
def trace(profd):
    path = profd.directory / "trace.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": "k", "pid": 1, "tid": 1, "ts": i, "dur": 1} for i in range(1000)]}))
    return profd.post("/v1/traces", {"path": str(path)}, 201)["trace"]


def post(profd, path, body, token=None, headers=None, source=None, method="POST"):
    return profd.call(method, path, token, {"Content-Type": "application/json", **(headers or {})}, json.dumps(body), source)


def new_code(profd, role=None, token=TOKENS["operate"]):
    reply = post(profd, "/v1/web/codes", {"role": role} if role else {}, token)
    assert reply.status == 201, reply
    return reply.json()


def log_in(profd, role=None, token=TOKENS["operate"]):
    reply = post(profd, "/v1/web/login", {"code": new_code(profd, role, token)["code"]})
    assert reply.status == 201, reply
    return reply.json()["token"]


def check_headers(reply):
    """What no reply may have, whatever it is."""
    names = {name.lower() for name in reply.headers}
    assert not any(name.startswith("access-control") for name in names) and "set-cookie" not in names


# Which pages may send requests


def own(profd, name="127.0.0.1"):
    return {"Host": f"{name}:{profd.port}", "Origin": f"http://{name}:{profd.port}"}


@pytest.mark.parametrize("headers, status", [
    ({}, 200),
    ({"Sec-Fetch-Site": "same-origin"}, 200),
    ({"Sec-Fetch-Site": "none"}, 200),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": ""}, 403),
    (FAR, 403),
    ({"Host": "127.0.0.1:{port}", "Origin": "http://127.0.0.1:{port}"}, 200),
    ({"Host": "localhost:{port}", "Origin": "http://localhost:{port}", "Sec-Fetch-Site": "same-origin"}, 200),
    ({"Host": "Node7.example", "Origin": "https://node7.example"}, 200),
    ({"Host": "127.0.0.1:{port}", "Origin": "http://localhost:{port}"}, 403),
    ({"Host": "127.0.0.1:{port}", "Origin": "http://127.0.0.1:1"}, 403),  # a page of another port
    ({"Host": "127.0.0.1:{port}", "Origin": "http://127.0.0.1"}, 403),
    ({"Host": "127.0.0.1:{port}", "Origin": "http://127.0.0.1:{port}.evil.example"}, 403),
    ({"Host": "127.0.0.1:{port}", "Origin": "ftp://127.0.0.1:{port}"}, 403),
    ({"Host": "127.0.0.1:{port}", "Origin": "null"}, 403),
    ({"Host": "127.0.0.1:{port}", "Origin": ""}, 403),
    ({"Host": "127.0.0.1:{port}", "Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-site"}, 403),
    ({"Host": "evil.example:{port}", "Origin": "http://evil.example:{port}", "Sec-Fetch-Site": "same-origin"}, 403),  # rebinding
    ({"Host": "evil.example:{port}"}, 403),
])
def test_only_its_own_page_may_send_requests(profd, headers, status):
    headers = {name: value.format(port=profd.port) for name, value in headers.items()}
    for path in ("/v1/usage", "/healthz", "/web/app.js"):
        reply = profd.call("GET", path, TOKENS["admin"], headers)
        assert reply.status == status if path != "/web/app.js" or status == 403 else reply.status == 404
        check_headers(reply)


@pytest.mark.parametrize("method, path, headers, admitted", [
    ("GET", "/", FAR, True),
    ("GET", "/?x=1", FAR, True),
    ("GET", "/", FAR | {"Sec-Fetch-Site": "same-site"}, True),
    ("GET", "/", FAR | {"Sec-Fetch-Dest": "iframe"}, False),
    ("GET", "/", FAR | {"Sec-Fetch-Mode": "no-cors"}, False),
    ("GET", "/", {"Sec-Fetch-Site": "cross-site"}, False),
    ("HEAD", "/", FAR, False),
    ("POST", "/", FAR, False),
    ("GET", "/web/app.js", FAR, False),
    ("GET", "/v1/usage", FAR, False),
    ("GET", "/", FAR | {"Host": "evil.example"}, False),
])
def test_a_link_elsewhere_opens_the_page_only(profd, method, path, headers, admitted):
    assert (profd.call(method, path, headers=headers).status != 403) == admitted


@pytest.mark.parametrize("kind, status", [("application/json", 201), ("Application/JSON; charset=utf-8", 201), ("text/plain", 403),
                                          ("application/x-www-form-urlencoded", 403), ("application/jsonp", 403), ("", 403)])
def test_a_page_sends_json(profd, kind, status):
    reply = profd.call("POST", "/v1/web/codes", TOKENS["read"], own(profd) | {"Content-Type": kind}, "{}")
    assert reply.status == status
    assert profd.call("POST", "/v1/web/codes", TOKENS["read"], {"Content-Type": kind}, "{}").status == 201  # no browser


def test_no_preflight_succeeds(profd):
    reply = profd.call("OPTIONS", "/v1/usage", headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"})
    assert reply.status == 405
    check_headers(reply)


# Log-in


def test_a_page_logs_in_works_and_signs_out(profd):
    code = new_code(profd)
    assert re.fullmatch("[0-9a-f]{64}", code["code"]) and 0 < code["expires_at"] / 1e9 - time.time() < 61
    assert (code["role"], code["url"]) == ("operate", f"http://127.0.0.1:{profd.port}")
    reply = post(profd, "/v1/web/login", {"code": code["code"]}, headers=own(profd) | {"Sec-Fetch-Site": "same-origin"})
    check_headers(reply)
    login = reply.json()
    assert reply.status == 201 and reply.headers["Cache-Control"] == "no-store"
    assert (login["role"], login["user"]) == ("operate", "operateer") and 43100 < login["expires_at"] / 1e9 - time.time() < 43201

    me = profd.call("GET", "/v1/web/me", login["token"]).json()
    assert (me["user"], me["role"], me["perfetto"], me["host"]) == ("operateer", "operate", "https://ui.perfetto.dev", socket.gethostname())
    assert abs(me["expires_at"] - login["expires_at"]) < 5e9
    refused = profd.call("POST", "/v1/vacuum", login["token"])
    assert refused.status == 403 and "profctl web --role admin" in refused.json()["remedy"]
    assert post(profd, "/v1/web/codes", {}, login["token"]).status == 403  # it would never end
    assert profd.call("GET", "/v1/web/me", TOKENS["read"]).json().keys() & {"expires_at"} == set()
    assert profd.request("GET", "/v1/web/me").json()["role"] == "admin"

    with contextlib.ExitStack() as stack:
        streams = []
        for path in ("/v1/events", "/v1/fleet/events?router=http://127.0.0.1:1"):
            connection = stack.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", profd.port, timeout=60)))
            connection.request("GET", path, headers={"Authorization": f"Bearer {login['token']}"})
            streams.append(connection.getresponse())
            assert streams[-1].status == 200
        ticket = post(profd, "/v1/tickets", {"path": "/v1/runs/r9/requests"}, login["token"]).json()["url"]
        assert profd.call("DELETE", "/v1/web/login", login["token"]).status == 204
        for stream in streams:
            stream.read()
    assert profd.call("GET", ticket).status == 404
    assert profd.call("GET", "/v1/web/me", login["token"]).status == 401
    assert profd.call("DELETE", "/v1/web/login", TOKENS["read"]).status == 409
    assert "web:operateer logged in with role operate" in profd.log()
    assert login["token"] not in profd.log() and code["code"] not in profd.log()


def test_a_code_works_once(profd):
    code = new_code(profd)["code"]
    assert post(profd, "/v1/web/login", {"code": code}, source="127.0.0.20").status == 201
    again = post(profd, "/v1/web/login", {"code": code}, source="127.0.0.20")
    assert (again.status, again.json()["code"]) == (401, "no-token") and "profctl web" in again.json()["remedy"]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("wanted", [None, *ROLES])
def test_a_page_has_no_more_rights_than_its_user(profd, role, wanted):
    reply = post(profd, "/v1/web/codes", {"role": wanted} if wanted else {}, TOKENS[role])
    if wanted and ROLES.index(wanted) > ROLES.index(role):
        assert reply.status == 403 and f"has role {role}" in reply.json()["detail"]
    else:
        assert reply.json()["role"] == (wanted or ROLES[min(1, ROLES.index(role))])


@pytest.mark.parametrize("body", [{"role": "peer"}, {"role": "root"}, {"role": 1}, {"role": None}, [], "x"])
def test_wrong_code_requests(profd, body):
    assert post(profd, "/v1/web/codes", body, TOKENS["admin"]).status == 400


@pytest.mark.parametrize("body", [{}, {"code": 1}, {"code": None}, []])
def test_wrong_logins(profd, body):
    assert post(profd, "/v1/web/login", body).status == 400


@pytest.mark.parametrize("what", ["codes", "tickets"])
def test_wrong_codes_and_tickets_are_throttled(profd, what):
    source = {"codes": "127.0.0.22", "tickets": "127.0.0.23"}[what]

    def guess():
        if what == "tickets":
            return profd.call("GET", "/v1/tickets/" + "0" * 64, source=source)
        return post(profd, "/v1/web/login", {"code": "0" * 64}, source=source)

    answers = []
    while not answers or answers[-1].status != 429:
        answers.append(guess())
        assert len(answers) < 100
    assert {reply.status for reply in answers[:-1]} == {401 if what == "codes" else 404} and "Retry-After" in answers[-1].headers
    assert profd.call("GET", "/v1/usage", WRONG, source=source).status == 429  # by the same guard
    assert post(profd, "/v1/web/login", {"code": new_code(profd)["code"]}, source=source).status == 201  # a good one is not delayed


def test_codes_are_bounded(profd):
    codes = [new_code(profd, token=TOKENS["read"])["code"] for _ in range(9)]
    assert post(profd, "/v1/web/login", {"code": codes[0]}, source="127.0.0.24").status == 401
    assert post(profd, "/v1/web/login", {"code": codes[1]}, source="127.0.0.24").status == 201


def test_requests_of_a_page_name_its_user(tmp_path):
    from daemon import FaultFleet
    with FaultFleet(tmp_path / "fleet") as fleet, TcpDaemon(tmp_path / "profd") as profd:
        reply = post(profd, "/v1/sessions", {"router": fleet.router, "duration_ns": 50_000_000}, log_in(profd))
        assert reply.status == 201, reply
        assert profd.wait_session(reply.json()["session"])["requested_by"] == "web:operateer"


def test_a_page_ends_with_the_token_of_its_user(tmp_path):
    """Where the reload finds it gone, with another hash, or with a lower role; a page of a lower role goes on."""
    names = {name: f"profd_{digit * 64}" for name, digit in zip(("gone", "renewed", "lowered", "kept"), "abcd")}

    def write(tokens):
        write_tokens(profd.tokens, "".join(token_line(name, role, token) for name, (role, token) in tokens.items()))

    with TcpDaemon(tmp_path) as profd, contextlib.ExitStack() as stack:
        before = {name: ("operate", token) for name, token in names.items()}
        write(before)
        profd.reload("reloaded: ")
        pages = {(name, role): log_in(profd, role, token) for name, token in names.items() for role in ("read", "operate")}
        codes = {name: new_code(profd, "operate", token)["code"] for name, token in names.items()}
        tickets = {name: post(profd, "/v1/tickets", {"path": "/v1/runs/r1/requests"}, token).json()["url"] for name, token in names.items()}
        local = json.loads(profd.request("POST", "/v1/web/codes", {}).body)["code"]
        streams = {}
        for key, token in pages.items():
            connection = stack.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", profd.port, timeout=60)))
            connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {token}"})
            streams[key] = connection.getresponse()
        write({"renewed": ("operate", WRONG), "lowered": ("read", names["lowered"]), "kept": before["kept"]})
        profd.reload("reloaded: ")
        holds = {key for key, token in pages.items() if profd.call("GET", "/v1/usage", token, source="127.0.0.30").status == 200}
        assert holds == {("lowered", "read"), ("kept", "read"), ("kept", "operate")}
        for key in pages.keys() - holds:
            assert streams[key].read() == b""
        assert {name for name, code in codes.items() if post(profd, "/v1/web/login", {"code": code}, source="127.0.0.31").status == 201} == {"kept"}
        missing = {name: profd.call("GET", url, source="127.0.0.32").json()["detail"] for name, url in tickets.items()}
        assert "r1" in missing["kept"] and all("expired" in missing[name] for name in ("gone", "renewed"))
        assert post(profd, "/v1/web/login", {"code": local}).status == 201


# Tickets


def test_a_ticket_opens_one_file_once(profd, trace):
    page = log_in(profd, "read")
    path = f"/v1/traces/{trace}/file"
    reply = post(profd, "/v1/tickets", {"path": path}, page)
    assert reply.status == 201 and reply.json()["url"].startswith("/v1/tickets/")
    url = reply.json()["url"]
    assert profd.call("HEAD", url).status == 405
    assert profd.call("GET", url, headers={"Sec-Fetch-Site": "cross-site"}).status == 403
    got = profd.call("GET", url, headers={"Sec-Fetch-Site": "same-origin"})
    assert got.status == 200 and got.body == (profd.directory / "trace.json").read_bytes()
    assert got.headers["Content-Disposition"].startswith("attachment") and got.headers["Content-Type"] == "application/octet-stream"
    assert got.headers["Content-Security-Policy"] == "sandbox" and got.headers["X-Content-Type-Options"] == "nosniff"
    check_headers(got)
    assert profd.call("GET", url, source="127.0.0.40").status == 404
    assert url.rsplit("/", 1)[1] not in profd.log()


@pytest.mark.parametrize("path, status", [
    ("/v1/usage", 403), ("/v1/traces/t1", 403), ("/v1/events", 403), ("/v1/vacuum", 400), ("/v1/traces/t1/file/../../usage", 400),
    ("/v1/traces/%2e%2e/file", 400), ("/nothing", 404), ("", 400), ("file", 400), ("http://127.0.0.1/v1/traces/t1/file", 400),
    ("/v1/traces/t1/file?%", 400), ("/v1/tickets/" + "0" * 64, 403), ("/v1/traces/t1/file?" + "x" * 2000, 400), (None, 400), (7, 400),
])
def test_tickets_are_for_files_only(profd, path, status):
    assert post(profd, "/v1/tickets", {"path": path}, TOKENS["admin"]).status == status


def test_a_ticket_takes_a_query(profd):
    url = post(profd, "/v1/tickets", {"path": "/v1/runs/r99/requests?format=csv"}, TOKENS["read"]).json()["url"]
    assert profd.call("GET", url).json()["detail"] == "there is no run r99"
    url = post(profd, "/v1/tickets", {"path": "/v1/runs/r99/requests?nonsense=1"}, TOKENS["read"]).json()["url"]
    assert profd.call("GET", url).status == 400


# A relay: a client of the Unix socket that passes on what others sent


def test_relayed_requests_have_no_rights_of_the_socket(profd):
    relayed = {"Profd-Relay": "1"}
    assert profd.request("GET", "/v1/usage").status == 200
    assert profd.request("GET", "/v1/usage", headers=relayed).status == 401
    assert profd.request("GET", "/v1/usage", headers=relayed | {"Authorization": f"Bearer {TOKENS['read']}"}).status == 200
    assert profd.request("GET", "/healthz", headers=relayed | {"Host": "evil.example"}).status == 403
    admin = relayed | {"Authorization": f"Bearer {log_in(profd, 'admin', TOKENS['admin'])}"}
    assert profd.request("GET", "/v1/usage", headers=admin).status == 200
    refused = profd.request("POST", "/v1/traces", {"path": "/etc/passwd"}, headers=admin)
    assert refused.status == 403 and "only root" in refused.json()["detail"]


# Files


@pytest.fixture(scope="module")
def page(profd):
    reply = profd.call("GET", "/")
    if reply.status == 404:
        assert reply.json()["remedy"] == "Build profd with -Dweb=enabled."
        pytest.skip("this build has no web page")
    return reply


def test_the_page_is_protected(profd, page):
    check_headers(page)
    policy = page.headers["Content-Security-Policy"]
    for rule in ("default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "form-action 'none'",
                 "base-uri 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"):
        assert rule in policy.split("; ")
    assert "unsafe" not in policy and "http" not in policy
    assert page.headers["Referrer-Policy"] == "no-referrer" and page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert page.headers["Cross-Origin-Opener-Policy"] == "same-origin-allow-popups"
    assert page.headers["Cache-Control"] == "no-cache" and page.headers["Content-Type"] == "text/html; charset=utf-8"


def test_files_of_the_page(profd, page):
    assets = re.findall(r'"(/web/[^"]+)"', page.body.decode())
    assert assets
    for path in ["/", *assets]:
        plain = profd.call("GET", path)
        assert plain.status == 200 and "Content-Encoding" not in plain.headers and plain.headers["Vary"] == "Accept-Encoding"
        zipped = profd.call("GET", path, headers={"Accept-Encoding": "deflate, gzip;q=0.5"})
        assert zipped.headers["Content-Encoding"] == "gzip" and gzip.decompress(zipped.body) == plain.body
        assert profd.call("GET", path, headers={"Accept-Encoding": "gzip;q=0, identity"}).body == plain.body
        small = profd.call("GET", path, headers={"Accept-Encoding": "gzip, deflate, br"})
        assert small.headers["Content-Encoding"] in ("br", "gzip") and len(small.body) <= len(zipped.body)
        head = profd.call("HEAD", path)
        assert head.status == 200 and head.body == b"" and int(head.headers["Content-Length"]) == len(plain.body)
        known = profd.call("GET", path, headers={"If-None-Match": f'"x", {plain.headers["ETag"]}'})
        assert known.status == 304 and known.body == b"" and known.headers["ETag"] == plain.headers["ETag"]
        assert profd.call("GET", path, headers={"If-None-Match": '"x"'}).status == 200
        assert "Content-Security-Policy" in plain.headers
        if path != "/":
            assert plain.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    missing = profd.call("GET", "/web/app-00000000.js")
    assert missing.status == 404 and "Reload the page" in missing.json()["remedy"]
    for name in ("%2e%2e/x", "../index.html", "..%2f..%2fetc/passwd", "....//", "", ".", "%00", "INDEX.HTML", "a" * 8000, "/etc/passwd"):
        assert profd.call("GET", "/web/" + name).status in (400, 404, 414), name
    assert profd.call("GET", "/index.html").status == 401 and profd.call("POST", "/").status == 401


# Configuration


@pytest.mark.parametrize("value, is_valid", [
    ("https://perfetto.example.com", True), ("https://perfetto.example.com/ui/", True), ("http://localhost:10000", True), ("http://[::1]:10000", True),
    ("http://perfetto.example.com", False), ("perfetto.example.com", False), ("javascript:alert(1)", False), ("https://user@perfetto.example.com", False),
    ("https://perfetto.example.com/?x=1", False), ("https://perfetto.example.com/#!", False), ("https://", False), ("", False),
])
def test_perfetto_of_ones_own(tmp_path, value, is_valid):
    daemon = Daemon(tmp_path, f"[web]\nperfetto={value}\n" + quick_config())
    if not is_valid:
        status, text = daemon.refuses()
        assert status == 2 and "perfetto" in text
        return
    with daemon as profd:
        assert profd.get("/v1/web/me")["perfetto"] == value.rstrip("/")
