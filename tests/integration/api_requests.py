# SPDX-License-Identifier: Apache-2.0
"""Seeded sequences of requests over the HTTP API, drawn from proto/openapi.yaml: every operation, its parameters and body as
documented, with values at the edges, of wrong types, repeated, left out, or junk. Later requests name what earlier ones made.

Each answer must be one that the document has for the operation: its status, its content type, its JSON by its schema. profd must
keep answering /healthz, and its memory must stay bounded. It never judges whether an answer is the right one.
"""

import json
import random
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote, urlencode

import jsonschema
import yaml

from daemon import SANITIZED

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("get", "put", "post", "delete")
HEALTH_EVERY = 50  # requests
BODY_SHOWN = 500  # bytes of an answer that is not as documented
# Bytes of memory, above what the first requests took; a sanitizer keeps 256 MiB of what was freed.
GROWTH_MAX = (512 if SANITIZED else 64) << 20
JUNK = 0.04  # of all values
READ_MAX = 1 << 20  # of a download or a stream
JUNK_TEXTS = ("", "0", "-1", "s0", "t1", "r99999999999999999999", "\0", "\x1b[31m", "\u202e", "%", "%2e%2e%2f", "../../etc/passwd", "/",
              "a" * 5000, "'; drop table sessions; --", "\ud7ff", "nan", "1e999", "true", "http://", "http://[::", "*", "unix:/x")
JUNK_VALUES = (None, True, False, -1, 0, 1, 2**31, 2**63 - 1, -(2**63), 2**63, 10**40, 0.5, 1e308, [], {}, [[]], {"": ""}, [None])


class Violation(Exception):
    """An answer that the document does not have."""


class Document:
    """openapi.yaml, with what is needed of it to draw requests and to check answers."""

    def __init__(self, path=ROOT / "proto/openapi.yaml"):
        self.root = json.loads(json.dumps(yaml.safe_load(path.read_text())))  # YAML's shared nodes become separate ones
        self.workload = json.loads((path.parent / "workload.schema.json").read_text())
        self.root["$defs"] = self.workload["$defs"]
        self._allow_null(self.root)
        self.resolver = jsonschema.RefResolver.from_schema(self.root)
        self.operations = [(method.upper(), path, item[method], item.get("parameters", []) + item[method].get("parameters", []))
                           for path, item in self.root["paths"].items() for method in METHODS if method in item]

    def _allow_null(self, node):
        """OpenAPI 3.0 writes nullable where JSON Schema has another type."""
        if isinstance(node, dict) and node.get("nullable") and isinstance(node.get("type"), str):
            node["type"] = [node["type"], "null"]
        for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            self._allow_null(below)

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node:
            _, node = self.resolver.resolve(node["$ref"])
        return node

    def check(self, operation, reply):
        responses = operation["responses"]
        if str(reply.status) not in responses and not (reply.status >= 400 and "default" in responses):
            raise Violation(f"status {reply.status} is not documented")
        response = self.resolve(responses.get(str(reply.status), responses.get("default")))
        contents, kind = response.get("content", {}), reply.headers.get("Content-Type", "").partition(";")[0]
        if contents and kind not in contents:
            raise Violation(f"content type {kind!r} is not documented")
        if kind.endswith("json") and "schema" in contents.get(kind, {}):
            try:
                jsonschema.validate(json.loads(reply.body), contents[kind]["schema"], resolver=self.resolver)
            except (ValueError, jsonschema.ValidationError) as error:
                raise Violation(str(error).partition("\n")[0]) from None


class Drawer:
    """Draws requests. known: words of the fleet and of earlier answers, by the member that they were in."""

    def __init__(self, document, seed, known):
        self.document, self.random, self.known = document, random.Random(seed), known

    def text(self, name):
        if self.known.get(name) and self.random.random() < 0.75:
            return str(self.random.choice(self.known[name]))
        return self.random.choice(JUNK_TEXTS)

    def integer(self, schema):
        low, high = int(schema.get("minimum", 0)), schema.get("maximum", 2**40)
        near = self.random.randint(low, min(high, low + 10))
        return near if self.random.random() < 0.8 else self.random.choice([low, high, low - 1, high + 1])

    def value(self, name, schema, depth=0):
        schema = self.document.resolve(schema)
        if self.random.random() < JUNK:
            return self.random.choice([*JUNK_VALUES, *JUNK_TEXTS])
        if "examples" in schema and self.random.random() < 0.7:
            return self.random.choice(schema["examples"])
        if "oneOf" in schema:
            return self.value(name, self.random.choice(schema["oneOf"]), depth)
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if name in self.known.get("durations", ()):
            return self.random.choice([10**7, 5 * 10**7, 10**8])
        kind = schema.get("type", "object")
        if kind == "object":
            return self.object(schema, depth + 1)
        if kind == "array":
            return [self.value(name, schema["items"], depth + 1) for _ in range(self.random.choice([0, 1, 1, 2, 5]))]
        return {"integer": self.integer, "number": self.integer, "boolean": lambda _: self.random.random() < 0.5,
                "string": lambda _: self.text(name)}[kind](schema)

    def object(self, schema, depth):
        members, required = schema.get("properties", {}), schema.get("required", ())
        optional = min(0.15, 2 / (len(members) or 1)) / depth
        drawn = {name: self.value(name, below, depth) for name, below in members.items()
                 if (name in required and self.random.random() < 0.95) or self.random.random() < optional}
        if self.random.random() < 0.03 or (not members and self.random.random() < 0.5):
            drawn[self.random.choice(["", "x", "__proto__", "a" * 200])] = self.random.choice(JUNK_VALUES)
        if "workload" in members and ("workload" in required or self.random.random() < 0.1):
            drawn["workload"] = {"prompts": ["a"], "requests": 3} | self.object(self.document.workload, depth)
        return drawn

    def body(self, operation):
        """Bytes and a content type; None where the operation has no body, mostly."""
        contents = operation.get("requestBody", {}).get("content")
        if not contents or self.random.random() < 0.03:
            return self.random.choice([None] * 20 + [b"", b"{}", b"\xff" * 100])
        body = self.value("", contents["application/json"]["schema"])
        if isinstance(body, dict) and "router" not in body and self.random.random() < 0.7 and "StartRequest" in str(contents):
            body |= {"router": self.text("router"), "duration_ns": 5 * 10**7}
        text = json.dumps(body).encode()
        damage = self.random.random()
        if damage < 0.03:
            return text[:self.random.randrange(len(text))]
        return b"[" * 5000 if damage < 0.04 else text

    def request(self):
        method, path, operation, parameters = self.random.choice(self.document.operations)
        query = []
        for parameter in parameters:
            name = parameter["name"]
            if parameter["in"] == "path":
                path = path.replace("{" + name + "}", quote(self.text(name), safe="", errors="replace"))
            elif self.random.random() < 0.25:
                value = self.value(name, parameter["schema"])
                query += [(name, one) for one in (value if isinstance(value, list) else [value])]
        if self.random.random() < 0.03:
            query.append((self.random.choice(["", "x", "limit", "session"]), self.text("session")))
        return method, path + ("?" + urlencode(query, errors="replace") if query else ""), operation, self.body(operation)


def learn(node, known, most=50):
    """Keeps ids and words of an answer for later requests."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name in ("session", "trace", "run", "worker", "router", "next") and isinstance(value, (str, int)):
                words = known.setdefault({"next": "before"}.get(name, name), [])
                if value not in words:
                    words.append(value)
                    del words[:-most]
            learn(value, known)
    elif isinstance(node, list):
        for value in node[:most]:
            learn(value, known)


def send(profd, method, path, body):
    connection = profd.connection(60)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        streams = reply.headers.get("Content-Type", "").startswith("text/event-stream")
        reply.body = b"" if streams else reply.read(READ_MAX)
        return reply
    finally:
        connection.close()


def run(profd, fleet, seed, seconds=None, requests=None):
    """Sends requests until the time is over or their number is reached, and gives how often each status was the answer."""
    document, began, counts, first = Document(), time.monotonic(), Counter(), None
    known = {"router": [fleet.router], "worker": list(fleet.workers), "workers": list(fleet.workers), "path": [],
             "duration_ns": [], "durations": ["duration_ns", "when_timeout_ns"], "state": ["active", "complete"]}
    drawer = Drawer(document, seed, known)
    while (seconds is None or time.monotonic() < began + seconds) and (requests is None or counts.total() < requests):
        method, path, operation, body = drawer.request()
        reply = send(profd, method, path, body)
        counts[reply.status] += 1
        try:
            document.check(operation, reply)
        except Violation as violation:
            raise AssertionError(f"seed {seed}, request {counts.total()}: {method} {path} {(body or b'')[:BODY_SHOWN]!r}: {violation}: "
                                 f"{reply.status} {reply.body[:BODY_SHOWN]!r}") from None
        if reply.status < 300 and reply.headers.get("Content-Type") == "application/json":
            learn(json.loads(reply.body), known)
        if counts.total() % HEALTH_EVERY == 0:
            assert send(profd, "GET", "/healthz", None).status == 200
            first = first or profd.memory("Rss")
            assert profd.memory("Rss") < first + GROWTH_MAX, f"{profd.memory('Rss') >> 20} MiB"
    return counts
