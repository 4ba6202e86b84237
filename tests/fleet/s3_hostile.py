# SPDX-License-Identifier: Apache-2.0
"""An S3 service that misbehaves as a test asks for: a small store in memory that checks each signature by an implementation of
its own, and faults that replace the answers to the requests they are for.

    with HostileS3() as s3:
        s3.fault("PUT", retry_later(503, 1))     # the next PUT; times=2: the next two
        ... s3.endpoint, s3.objects, s3.requests ...
"""
import hashlib
import hmac
import http.server
import re
import socket
import threading
import time
import urllib.parse

KEY, SECRET = "AKIAHOSTILE", "hostile/secret+key"
END_S = 10
EMPTY = hashlib.sha256(b"").hexdigest()


def canonical(handler, body_hash):
    """The string of AWS's Signature Version 4 for a request, from what arrived."""
    authorization = handler.headers["Authorization"]
    scope = re.search(r"Credential=[^/]+/([^,]+)", authorization)[1]
    signed = re.search(r"SignedHeaders=([^,]+)", authorization)[1].split(";")
    assert signed == sorted(signed), f"headers are not in order: {signed}"
    path, _, query = handler.path.partition("?")
    assert query == "&".join(sorted(query.split("&"))) and all("=" in word for word in query.split("&") if word), query
    headers = "".join(f"{name}:{' '.join(handler.headers[name].split())}\n" for name in signed)
    request = "\n".join([handler.command, path, query, headers, ";".join(signed), body_hash])
    text = "\n".join(["AWS4-HMAC-SHA256", handler.headers["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()])
    key = b"AWS4" + SECRET.encode()
    for word in scope.split("/"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest(), re.search(r"Signature=(\w+)", authorization)[1]


def error(status, code, message="", more="", headers=()):
    """A fault: an error document."""
    def answer(handler, body):
        document = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>".encode()
        handler.reply(status, document if handler.command != "HEAD" else b"", *headers)
    return answer


def retry_later(status, seconds):
    return error(status, "SlowDown", headers=[("Retry-After", str(seconds))])


def redirect(status, location, *headers):
    def answer(handler, body):
        handler.reply(status, b"", ("Location", location), *headers)
    return answer


def raw(*pieces, then=None):
    """Bytes as they are, then the end of the connection; `then`: called with the handler before it."""
    def answer(handler, body):
        for piece in pieces:
            handler.wfile.write(piece)
            handler.wfile.flush()
        if then:
            then(handler)
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)
    return answer


def endless(head, piece):
    """Never ends by itself."""
    def answer(handler, body):
        handler.wfile.write(head)
        try:
            while not handler.server.over.is_set():
                handler.wfile.write(piece)
        except OSError:
            pass
        handler.close_connection = True
    return answer


def stall(head=b""):
    """Sends the head, then nothing until the client leaves."""
    def answer(handler, body):
        handler.wfile.write(head)
        handler.wfile.flush()
        handler.connection.settimeout(0.1)
        while not handler.server.over.is_set():
            try:
                if not handler.connection.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        handler.close_connection = True
    return answer


def refuse_after_half(handler):
    """403 after half of the content."""
    handler.rfile.read(int(handler.headers["Content-Length"]) // 2)
    error(403, "AccessDenied", "half is enough")(handler, b"")
    handler.close_connection = True


def break_after_half(handler):
    handler.rfile.read(int(handler.headers["Content-Length"]) // 2)
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", *headers, length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def handle_expect_100(self):
        if self.server.early_faults(self):
            return False
        return super().handle_expect_100()

    def handle_any(self):
        store = self.server
        if store.early_faults(self):
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = self.headers.get("x-amz-content-sha256")
        expected, signature = canonical(self, given)
        with store.lock:
            store.requests.append((self.command, self.path, dict(self.headers)))
            store.forged += signature != expected or given != hashlib.sha256(body).hexdigest()
            fault = store.take_fault(self.command)
        if fault:
            fault(self, body)
        else:
            getattr(self, "serve_" + self.command)(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def serve_PUT(self, body):
        if self.headers.get("If-None-Match") == "*" and self.path in self.server.objects:
            error(412, "PreconditionFailed")(self, b"")
            return
        etag = '"' + hashlib.md5(body).hexdigest() + '"'
        self.server.objects[self.path] = (body, etag, self.headers.get("x-amz-meta-sha256"))
        self.reply(200, b"", ("ETag", etag))

    def serve_GET(self, body):
        if self.path not in self.server.objects:
            error(404, "NoSuchKey")(self, b"")
            return
        content, etag, sha256 = self.server.objects[self.path]
        headers = [("ETag", etag)] + ([("x-amz-meta-sha256", sha256)] if sha256 else [])
        if self.headers.get("If-Match") not in (None, etag):
            error(412, "PreconditionFailed")(self, b"")
        elif wanted := self.headers.get("Range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            last = min(int(last or len(content)), len(content) - 1)
            piece = content[int(first):last + 1]
            self.reply(206, piece, ("Content-Range", f"bytes {first}-{last}/{len(content)}"), *headers)
        else:
            self.reply(200, content if self.command == "GET" else b"", *headers, length=len(content))

    serve_HEAD = serve_GET

    def serve_POST(self, body):
        error(400, "NotHere")(self, b"")

    def serve_DELETE(self, body):
        self.server.objects.pop(self.path, None)
        self.send_response(204)
        self.end_headers()


class HostileS3(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address="127.0.0.1"):
        if ":" in address:
            self.address_family = socket.AF_INET6
        super().__init__((address, 0), Handler)
        self.lock, self.over = threading.Lock(), threading.Event()
        self.objects, self.requests, self.faults, self.forged = {}, [], [], 0
        host = f"[{address}]" if ":" in address else address
        self.endpoint = f"http://{host}:{self.server_address[1]}"
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    def handle_error(self, request, client_address):
        """A client that leaves is what tests are about."""

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.shutdown()
        self.thread.join(END_S)
        self.server_close()

    def fault(self, method, answer, times=1):
        with self.lock:
            self.faults += [(method, answer)] * times

    def take_fault(self, method, early=False):
        for i, (wanted, answer) in enumerate(self.faults):
            if wanted == method and (answer in (refuse_after_half, break_after_half)) == early:
                del self.faults[i]
                return answer
        return None

    def early_faults(self, handler):
        """Those that do not read the content."""
        with self.lock:
            fault = self.take_fault(handler.command, early=True)
        if fault:
            with self.lock:
                self.requests.append((handler.command, handler.path, dict(handler.headers)))
            fault(handler)
        return fault is not None

    def write_credentials(self, path, key=KEY, secret=SECRET, token=None):
        new = path.with_suffix(".new")
        new.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"
                       + (f"aws_session_token = {token}\n" if token else ""))
        new.rename(path)


def http_date(seconds_ago):
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() - seconds_ago))


def quoted(key):
    return urllib.parse.quote(key, safe="/~")
