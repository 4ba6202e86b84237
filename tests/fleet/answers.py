#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A server that gives the answers of one folder of tests/fleet/answers (see the README.md there) and nothing else.

As a module: serve(folder) for tests, which read from `requests` what the server was asked. As a program:
answers.py FOLDER [--port N] [--port-file FILE], which prints http://HOST:PORT when it is ready, and each request."""
import argparse
import contextlib
import http.server
import json
import pathlib
import threading

from announce import announce

HERE = pathlib.Path(__file__).resolve().parent / "answers"
TYPES = {".json": "application/json", ".txt": "text/plain; version=0.0.4; charset=utf-8", ".html": "text/html"}


def folders():
    return sorted(path.parent.name for path in HERE.glob("*/manifest.json"))


def manifest(folder):
    return json.loads((HERE / folder / "manifest.json").read_text(encoding="utf-8"))


class Answers:
    """What the server of one folder answers, as (status, type, body)."""

    def __init__(self, folder):
        self.folder = HERE / folder
        self.manifest = manifest(folder)

    def answer(self, method, target):
        path = target.partition("?")[0]
        known = self.manifest["answers"].get(f"{method} {path}", self.manifest["otherwise"])
        if isinstance(known, int):
            return (known, *self._body(self.manifest["otherwise"]))
        if isinstance(known, str):
            known = {"file": known}
        return (known.get("status", 200), *self._body(known))

    def _body(self, known):
        if "file" in known:
            path = self.folder / known["file"]
            return TYPES[path.suffix], path.read_bytes()
        if "json" in known:
            return "application/json", json.dumps(known["json"]).encode()
        return "text/plain; charset=utf-8", known.get("text", "").encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append(f"{self.command} {self.path.partition('?')[0]}")
        if self.server.prints:
            print(self.command, self.path, flush=True)
        status, kind, body = self.server.answers.answer(self.command, self.path)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_OPTIONS = answer

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class AnswerServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder, port=0, prints=False):
        super().__init__(("127.0.0.1", port), Handler)
        self.answers, self.requests, self.prints = Answers(folder), [], prints
        self.url = f"http://127.0.0.1:{self.server_port}"


@contextlib.contextmanager
def serve(folder):
    with AnswerServer(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("folder", choices=folders())
    parse.add_argument("--port", type=int, default=0)
    parse.add_argument("--port-file")
    options = parse.parse_args()
    with AnswerServer(options.folder, options.port, prints=True) as server:
        announce(server.server_address, options.port_file)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
