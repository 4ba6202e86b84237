#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Serves a bundled page and relays its requests to the Unix socket of a profd, for work on the page:

    ninja -C build && tests/web/relay.py build/web/dist /path/to/profd.sock [PORT]

Everybody who reaches the port has the rights of the socket: on loopback, on a machine of your own, only.
"""
import http.client
import json
import mimetypes
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CSP = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; worker-src 'self'; "
       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
ME = {"user": "you", "role": "admin", "perfetto": "https://ui.perfetto.dev", "version": "relay", "host": socket.gethostname()}


class UnixConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(SOCKET)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body, kind="application/json", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def relay(self):
        path = self.path.partition("?")[0]
        if path == "/" or path.startswith("/web/"):
            asset = DIST / ("index.html" if path == "/" else Path(path).name)
            if not asset.exists():
                return self.answer(404, b"{}")
            return self.answer(200, asset.read_bytes(), mimetypes.guess_type(asset)[0], [("Content-Security-Policy", CSP), ("Cache-Control", "no-cache")])
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
        if path == "/v1/web/login":
            return self.answer(200, json.dumps({"token": "none", **ME}).encode())
        if path == "/v1/web/me":
            return self.answer(200, json.dumps(ME).encode())
        if path == "/v1/tickets":
            return self.answer(200, json.dumps({"url": json.loads(body)["path"]}).encode())
        connection = UnixConnection("localhost")
        try:
            connection.request(self.command, self.path, body, {"Content-Type": self.headers["Content-Type"]} if body else {})
            response = connection.getresponse()
            self.send_response(response.status)
            for name in "Content-Type", "Content-Encoding", "Cache-Control", "Content-Disposition":
                if name in response.headers:
                    self.send_header(name, response.headers[name])
            self.send_header("Connection", "close")
            self.end_headers()
            while data := response.read1(65536):
                self.wfile.write(data)
                self.wfile.flush()
        except (ConnectionError, FileNotFoundError) as error:
            print(error, file=sys.stderr)
        finally:
            self.close_connection = True
            connection.close()

    do_GET = do_POST = do_PUT = do_DELETE = relay

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    DIST, SOCKET = Path(sys.argv[1]), sys.argv[2]
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3]) if len(sys.argv) > 3 else 8765), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
