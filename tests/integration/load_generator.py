# SPDX-License-Identifier: Apache-2.0
"""profd-load under test, as profd starts it (proto/load.h), and a server that answers as a test says, byte for byte."""
import contextlib
import json
import os
import resource
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PROFD_BUILD", ROOT / "build")).resolve()
LOAD = BUILD / "daemon/load/profd-load"
SANITIZED = b"__asan_init" in LOAD.read_bytes()
END_S = 60
COMMANDS_FD = 3


class Generator:
    """A profd-load with its job. Lines are read as they come; go() and stop() are commands."""

    def __init__(self, order, files_max=None):
        def prepare():
            os.dup2(commands, COMMANDS_FD)
            if files_max:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
        commands, self.tell = os.pipe()
        self.process = subprocess.Popen([LOAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        pass_fds=[COMMANDS_FD], preexec_fn=prepare)
        os.close(commands)
        text = order if isinstance(order, bytes) else json.dumps(order).encode()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(text)
            self.process.stdin.close()
        self.lines = []

    def say(self, command):
        os.write(self.tell, command.encode() + b"\n")

    def hang_up(self):
        os.close(self.tell)
        self.tell = -1

    def read_until(self, kind):
        """The first line of that kind, or the last line."""
        for text in self.process.stdout:
            self.lines.append(json.loads(text))
            if self.lines[-1]["t"] == kind:
                break
        return self.lines[-1]

    def end(self):
        """Its status, once it has said all."""
        for text in self.process.stdout:
            self.lines.append(json.loads(text))
        if self.tell >= 0:
            os.close(self.tell)
        status = self.process.wait(END_S)
        self.process.stdout.close()
        # A counted build would say what it reached, and may write no file.
        said = [line for line in self.process.stderr.read().decode().splitlines() if not line.startswith("profiling:")]
        assert not said, said
        self.process.stderr.close()
        return status

    def of(self, kind):
        return [line for line in self.lines if line["t"] == kind]

    @property
    def requests(self):
        return sorted(self.of("request"), key=lambda line: line["index"])

    @property
    def summary(self):
        assert self.lines[-1]["t"] == "end", self.lines[-1]
        return self.lines[-1]["summary"]


def order_of(url, engine="vllm", **workload):
    workload = {"warmup": 0, "model": "m", **workload}
    if "prompts" not in workload:
        workload.setdefault("isl", 8)
    return {"workload": workload, "targets": [{"url": url, "engine": engine}]}


def run(order, **options):
    generator = Generator(order, **options)
    if generator.read_until("ready")["t"] == "ready":
        generator.say("go")
    status = generator.end()
    assert (status == 0) == (generator.lines[-1]["t"] == "end"), generator.lines[-1]
    return generator


def event(text, finish=None):
    return b"data: " + json.dumps({"choices": [{"index": 0, "text": text, "finish_reason": finish}]}).encode() + b"\n\n"


USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(body):
    return b"%x\r\n%s\r\n" % (len(body), body)


class ByteServer:
    """Answers each request with what answer(connection, number, request) sends; bytes that it returns are sent. None, or an
    answer without an end, closes the connection. A model is what /v1/models names."""

    def __init__(self, answer, tls=None, model=None, host="127.0.0.1"):
        self.answer = answer
        self.model = model
        self.tls = tls
        self.received = []
        self.connections = set()  # that requests came by
        self.accepted = 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listening = socket.create_server((host, 0), family=family, backlog=4096)
        in_url = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{in_url}:{self.listening.getsockname()[1]}"
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listening.accept()
                self.accepted += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        if self.tls:
            try:
                connection = self.tls.wrap_socket(connection, server_side=True)
            except OSError:
                return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, contextlib.suppress(OSError):
            stream = connection.makefile("rb")
            while line := stream.readline():
                method, path, _ = line.split()
                headers = {}
                while (field := stream.readline().strip()):
                    name, _, value = field.partition(b":")
                    headers[name.lower()] = value.strip()
                body = stream.read(int(headers.get(b"content-length", 0)))
                if path == b"/v1/models" and self.model:
                    models = json.dumps({"data": [{"id": self.model}]}).encode()
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(models), models))
                    continue
                if path not in (b"/v1/completions", b"/v1/chat/completions"):
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    continue
                with self.lock:
                    number = len(self.received)
                    self.connections.add(connection)
                    self.received.append((time.monotonic_ns(), headers, json.loads(body)))
                answer = self.answer(connection, number)
                if answer is None:
                    return
                connection.sendall(answer)
                if not answer.endswith(END) and b"Content-Length: " not in answer:
                    return


def reset(connection):
    """The next close says RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
