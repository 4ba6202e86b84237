# SPDX-License-Identifier: Apache-2.0
"""A server with settable answers that remembers each request, and the body of each POST: for what lists workers, for workers
that must not get the credentials of that, and for hosts that lie.

    with AnswerServer() as server:
        server.answers["/targets"] = (200, [{"targets": ["127.0.0.1:8000"]}])
        ... server.url, server.requests: [(path, headers)]

Standard modules only; it listens on loopback and ends with the block.
"""
import http.server
import json
import ssl
import threading


class AnswerServer:
    """`answers` maps a path, without its query, to (status, body) or to a function of (path with query, headers) that gives
    these, with a dict of further headers or without; a body that is no bytes is sent as JSON. Everything else is 404.
    `certificate`: (certificate file, key file)."""

    def __init__(self, answers=None, certificate=None, address="127.0.0.1", port=0):
        self.answers = dict(answers or {})
        self.requests, self.bodies = [], []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):  # pylint: disable=invalid-name
                owner.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                answer = owner.answers.get(self.path.split("?")[0], (404, {"error": "not found"}))
                status, body, *more = answer(self.path, self.headers) if callable(answer) else answer
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                for name, value in more[0].items() if more else ():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):  # pylint: disable=invalid-name
                owner.bodies.append((self.path, self.rfile.read(int(self.headers.get("Content-Length", 0)))))
                self.do_GET()

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer((address, port), Handler)
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.host = f"{address}:{self.port}"
        self.url = f"http{'s' if certificate else ''}://{self.host}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def headers(self, name):
        """The values of that header in all requests; None where one had none."""
        return {headers.get(name) for _, headers in self.requests}
