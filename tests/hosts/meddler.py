# SPDX-License-Identifier: Apache-2.0
"""A host that lies: a server between a coordinator and the profd of another host, which passes requests on and changes answers.

    with Meddler(hosts, liar=2, coordinator=1) as meddler:
        meddler.lie = lambda method, path, answer: {**answer, "armed": False}

The coordinator is restarted with the liar's address instead of its peer's, and restarted without it at the end.
"""
import contextlib
import http.client
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hosts import PORT as PEER_PORT
from network import address

PORT = 9461


class Meddler:
    def __init__(self, hosts, liar, coordinator):
        self.hosts, self.liar, self.coordinator = hosts, hosts[liar], hosts[coordinator]
        self.lie = lambda method, path, answer: answer
        self.asked = []  # (method, path) in their order
        self.hurry = False  # changes are answered without waiting for them

    def _pass_on(self, handler, method):
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0))) or None
        path = handler.path.replace("&wait=25", "&wait=0") if self.hurry else handler.path
        self.asked.append((method, handler.path))
        context = ssl.create_default_context(cafile=self.hosts.authority.file)
        with self.hosts.network.inside(self.liar.number):
            connection = http.client.HTTPSConnection(address(self.liar.number), PEER_PORT, timeout=60, context=context)
            connection.connect()
        with contextlib.closing(connection):
            kept = {name: handler.headers[name] for name in ("Authorization", "Content-Type", "Range", "If-Range", "If-Match") if handler.headers[name]}
            connection.request(method, path, body, kept)
            reply = connection.getresponse()
            data, status, kind = reply.read(), reply.status, reply.headers.get("Content-Type", "")
            more = [(name, reply.headers[name]) for name in ("Content-Range", "ETag", "Accept-Ranges") if reply.headers[name]]
        if kind.startswith("application/json"):
            data = json.dumps(self.lie(method, handler.path, json.loads(data))).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in more:
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    def polls(self):
        return sum(method == "GET" and "&after=" in path for method, path in self.asked)

    def _restart_coordinator(self, before, after):
        text = self.coordinator.config.read_text()
        assert before in text
        self.coordinator.config.write_text(text.replace(before, after))
        self.coordinator.stop()
        self.coordinator.start()

    def __enter__(self):
        meddler = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                meddler._pass_on(self, "GET")

            def do_POST(self):
                meddler._pass_on(self, "POST")

            def log_message(self, *_):
                pass

        certificate, key = self.hosts.authority.issue("meddler", f"IP:{address(self.liar.number)}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        with self.hosts.network.inside(self.liar.number):
            self.server = ThreadingHTTPServer((address(self.liar.number), PORT), Handler)
        self.server.daemon_threads = True
        # Each connection shakes hands in its own thread.
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self._restart_coordinator(f"https://{address(self.liar.number)}:{PEER_PORT}", f"https://{address(self.liar.number)}:{PORT}")
        return self

    def __exit__(self, *_):
        self.lie, self.hurry = (lambda method, path, answer: answer), False
        self._restart_coordinator(f"https://{address(self.liar.number)}:{PORT}", f"https://{address(self.liar.number)}:{PEER_PORT}")
        self.server.shutdown()
        self.server.server_close()
