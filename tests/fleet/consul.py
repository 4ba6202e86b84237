# SPDX-License-Identifier: Apache-2.0
"""Consul's health API, answering as hashicorp/consul does (agent/health_endpoint.go @00827ca5, agent/http.go):

    with Consul(token="secret") as consul:
        consul.add("vllm", "127.0.0.1:8000", role="prefill")
        ... f"{consul.url}/v1/health/service/vllm?passing" ...

With a token the ACLs are on and deny by default: without one the list is empty, since what may not be read is left out; one
that Consul does not know is 403 "ACL not found".
"""
import urllib.parse
import uuid

from answer_server import AnswerServer

PATH = "/v1/health/service/"
HEADERS = {"X-Consul-Index": "41", "X-Consul-KnownLeader": "true", "X-Consul-LastContact": "0",
           "X-Consul-Effective-Consistency": "leader", "Vary": "Accept-Encoding"}


def check(name, status, service="", service_id=""):
    return {"Node": "node-1", "CheckID": name, "Name": name, "Status": status, "Notes": "", "Output": "", "ServiceID": service_id,
            "ServiceName": service, "ServiceTags": [], "Type": "", "ExposedPort": 0, "CreateIndex": 15, "ModifyIndex": 15}


class Consul(AnswerServer):
    def __init__(self, token=None, address="127.0.0.1", port=0):
        super().__init__(address=address, port=port)
        self.token = token
        self.services = {}

    def add(self, name, address, on_node=False, status="passing", tags=(), **meta):
        """An instance, as structs.CheckServiceNode is written. `on_node`: the address is only its node's."""
        host, _, port = address.rpartition(":")
        service_id = f"{name}-{port}"
        self._known(name).append({
            "Node": {"ID": str(uuid.uuid5(uuid.NAMESPACE_DNS, host)), "Node": f"node-{host}",
                     "Address": host if on_node else "192.0.2.1", "Datacenter": "dc1",
                     "TaggedAddresses": {"lan": host, "wan": host}, "Meta": {"consul-network-segment": ""},
                     "CreateIndex": 12, "ModifyIndex": 14},
            "Service": {"ID": service_id, "Service": name, "Tags": list(tags), "Address": "" if on_node else host, "Meta": meta,
                        "Port": int(port or 0), "Weights": {"Passing": 1, "Warning": 1}, "EnableTagOverride": False,
                        "Proxy": {"Mode": "", "MeshGateway": {}, "Expose": {}}, "Connect": {}, "PeerName": "",
                        "CreateIndex": 15, "ModifyIndex": 15},
            "Checks": [check("serfHealth", "passing"), check(f"service:{service_id}", status, name, service_id)]})
        return self

    def service_url(self, name, query="?passing"):
        self._known(name)
        return f"{self.url}{PATH}{name}{query}"

    def _known(self, name):
        self.answers[PATH + name] = self._answer
        return self.services.setdefault(name, [])

    def _answer(self, path, headers):
        url = urllib.parse.urlsplit(path)
        query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
        # parseTokenInternal(): ?token=, X-Consul-Token, then a bearer token.
        token = query.get("token", [""])[0] or headers.get("X-Consul-Token") or \
            headers.get("Authorization", "").removeprefix("Bearer ")
        if self.token and token and token != self.token:
            return 403, b"ACL not found", HEADERS
        found = self.services[url.path.removeprefix(PATH)] if token == (self.token or token) else []
        passing = query.get("passing", ["false"])[0]
        if passing not in ("", "1", "true", "0", "false"):
            return 400, b"Invalid value for ?passing", HEADERS
        if passing in ("", "1", "true"):
            found = [entry for entry in found if all(one["Status"] == "passing" for one in entry["Checks"])]
        return 200, found, HEADERS
