# SPDX-License-Identifier: Apache-2.0
"""Sequences of requests drawn from proto/openapi.yaml: profd answers each as documented, whatever came before."""

import types

import pytest

import api_requests
from daemon import Daemon, FaultFleet, quick_config

SEED = 5  # the same for everybody; ./dev chaos --requests draws another each time
REQUESTS = 3000


def test_answers_are_those_of_the_document(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 3) as fleet, Daemon(tmp_path / "profd", quick_config()) as profd:
        counts = api_requests.run(profd, fleet, SEED, requests=REQUESTS)
    assert counts[200] > REQUESTS / 20 and counts[201] and counts[400] > REQUESTS / 20, counts


def test_no_description_is_cut():
    """An unquoted comma in braces ends a text of YAML, and makes the rest a key without a value."""
    def keys(node):
        below = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        cut = [key for key, value in node.items() if value is None] if isinstance(node, dict) else []
        return cut + [key for one in below for key in keys(one)]

    assert keys(api_requests.Document().root) == []


@pytest.mark.parametrize("status, kind, body, complaint", [
    (204, "application/json", b"", "status 204 is not documented"),
    (200, "text/html", b"", "content type 'text/html' is not documented"),
    (200, "application/json", b'{"sessions": 1}', "1 is not of type 'array'"),
    (500, "application/problem+json", b"{}", "'type' is a required property"),
    (200, "application/json", b"{", "Expecting property name"),
])
def test_an_undocumented_answer_is_noticed(status, kind, body, complaint):
    document = api_requests.Document()
    operation = next(operation for method, path, operation, _ in document.operations if (method, path) == ("GET", "/v1/sessions"))
    reply = types.SimpleNamespace(status=status, headers={"Content-Type": kind}, body=body)
    with pytest.raises(api_requests.Violation, match=complaint):
        document.check(operation, reply)
