#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An API server of Kubernetes for tests: lists of pods and EndpointSlices over HTTPS, and its refusals.

    with Cluster(certificate, key) as cluster:
        cluster.allow("token-1", "system:serviceaccount:profd:profd", "inference", "endpointslices")
        cluster.add_pod("inference", "vllm-0", "127.0.0.2", {"http": 8000}, labels={"app": "vllm"})
        cluster.add_service("inference", "vllm", {"app": "vllm"}, "http")
        ... cluster.url, cluster.requests ...

Pods are what a test adds; slices follow from them as kubernetes/endpointslice @daa4d010 (reconciler.go, utils.go) makes
them: one list of slices for each family of addresses, one slice for each set of ports, at most `slice_max` endpoints in
one, an empty one for a Service without pods, and the Service's labels on all. Answers follow kubernetes/kubernetes v1.34:
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go (403), pkg/storage/continue.go (410),
pkg/server/filters/priority-and-fairness.go (429).
"""
import base64
import contextlib
import http.server
import json
import re
import ssl
import threading
import urllib.parse
import uuid

RESOURCES = {  # path after the namespace: (group, kind of the list, resource)
    "/api/v1": {"pods": ("", "PodList")},
    "/apis/discovery.k8s.io/v1": {"endpointslices": ("discovery.k8s.io", "EndpointSliceList")},
}
TOO_OLD = ("The provided continue parameter is too old to display a consistent list result. You can start a new list without "
           "the continue parameter.")


def status(code, reason, message, **details):
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason,
            **({"details": details} if details else {}), "code": code}


REQUIREMENT = re.compile(r"(!?)([A-Za-z0-9./_-]+)(?: *(==|=|!=) *([A-Za-z0-9._-]*)| +(in|notin) *\(([^)]*)\))?")


def requirements(selector):
    """The parts of a label selector, as a client writes it: (not, key, operator, value, in or notin, values)."""
    parts = [(part, REQUIREMENT.fullmatch(part.strip())) for part in re.split(r",(?![^(]*\))", selector)]
    for part, match in parts:
        if not match:
            raise ValueError(repr(part))
    return [match.groups() for _, match in parts]


def selects(wanted, labels):
    """Whether requirements select an object with these labels."""
    for negated, key, operator, value, among, values in wanted:
        if operator:
            fits = (labels.get(key) == value) == (operator != "!=")
        elif among:
            fits = (labels.get(key) in [word.strip() for word in values.split(",")]) == (among == "in")
        else:
            fits = (key in labels) != bool(negated)
        if not fits:
            return False
    return True


class Cluster:
    """`slice_max` and `page_max` are small for tests that want several; page_max also bounds what a client asks for."""

    def __init__(self, certificate, key, host="127.0.0.1", slice_max=100, page_max=500):
        self.host, self.slice_max, self.page_max = host, slice_max, page_max
        self.pods, self.services, self.more_slices = [], [], []
        self.users, self.rights = {}, set()
        self.requests = []  # (path with query, token)
        self.expire_continue = 0  # so many continue tokens are too old
        self.too_many = 0  # so many requests are refused with 429
        self.retry_after = 1
        self.answers = {}  # path: (status, content type, bytes), instead of what follows
        self.version = 1000
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server = http.server.ThreadingHTTPServer((host, 0), self._handler())
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"https://{host}:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    # What is in the cluster

    def allow(self, token, user, namespace, resource):
        """The bearer of the token is that user, who may list the resource."""
        self.users[token] = user
        self.rights.add((user, namespace, resource))

    def rotate(self, old, new):
        """As the kubelet does before a token expires."""
        self.users[new] = self.users.pop(old)

    def add_pod(self, namespace, name, ip, ports, labels=None, node="gpu-1", ready=True, terminating=False, phase="Running",
                annotations=None, containers=None, init_containers=None, uid=None, more_ips=()):
        pod = {"metadata": {"name": name, "namespace": namespace, "uid": uid or str(uuid.uuid4()), "labels": labels or {},
                            "annotations": annotations or {}, "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]},
               "spec": {"nodeName": node,
                        "containers": containers or [{"name": "main", "ports": [
                            {"name": key, "containerPort": number, "protocol": "TCP"} for key, number in ports.items()]}]},
               "status": {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "True"},
                                                         {"type": "Ready", "status": "True" if ready else "False"}],
                          "podIP": ip, "podIPs": [{"ip": address} for address in (ip, *more_ips)]}}
        if init_containers:
            pod["spec"]["initContainers"] = init_containers
        if terminating:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if not ip:
            del pod["status"]["podIP"], pod["status"]["podIPs"]
        self.pods.append(pod)
        return pod

    def add_service(self, namespace, name, selector, *target_ports, labels=None, protocols=None, publish_not_ready=False):
        """`target_ports` are names of the pods' ports, and the names of the Service's own."""
        self.services.append({"namespace": namespace, "name": name, "selector": selector, "ports": target_ports,
                              "labels": labels or {}, "protocols": protocols or {}, "publish_not_ready": publish_not_ready})

    def remove_pod(self, pod):
        self.pods.remove(pod)

    # What follows from it

    def _endpoint(self, pod, ip, service):
        conditions = {condition["type"]: condition["status"] == "True" for condition in pod["status"]["conditions"]}
        terminating = "deletionTimestamp" in pod["metadata"]
        serving = conditions["Ready"]
        return {"addresses": [ip], "nodeName": pod["spec"]["nodeName"], "zone": "a",
                "conditions": {"ready": service["publish_not_ready"] or (serving and not terminating), "serving": serving,
                               "terminating": terminating},
                "targetRef": {"kind": "Pod", **{key: pod["metadata"][key] for key in ("namespace", "name", "uid")}}}

    def _slices_of(self, service):
        groups = {}
        for pod in self.pods:
            labels = pod["metadata"]["labels"]
            if pod["metadata"]["namespace"] != service["namespace"] or not service["selector"].items() <= labels.items():
                continue
            numbers = {port["name"]: port["containerPort"] for container in pod["spec"]["containers"]
                       for port in container.get("ports", [])}
            ports = tuple((name, numbers[name]) for name in service["ports"] if name in numbers)
            for address in pod["status"].get("podIPs", []):
                family = "IPv6" if ":" in address["ip"] else "IPv4"
                groups.setdefault((family, ports), []).append(self._endpoint(pod, address["ip"], service))
        for (family, ports), endpoints in (groups or {("IPv4", ()): []}).items():
            for begin in range(0, max(len(endpoints), 1), self.slice_max):
                yield {"metadata": {"name": f"{service['name']}-{family.lower()}-{begin}", "namespace": service["namespace"],
                                    "uid": str(uuid.uuid4()),
                                    "labels": {**service["labels"], "kubernetes.io/service-name": service["name"],
                                               "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
                       "addressType": family,
                       "endpoints": endpoints[begin:begin + self.slice_max] or None,
                       "ports": [{"name": name, "protocol": "TCP", "port": number,
                                  **({"appProtocol": service["protocols"][name]} if name in service["protocols"] else {})}
                                 for name, number in ports] or None}

    def objects(self, resource, namespace, query):
        if resource == "pods":
            found = self.pods
        else:
            found = [one for service in self.services for one in self._slices_of(service)] + self.more_slices
        field = query.get("fieldSelector", "")
        wanted = requirements(query["labelSelector"]) if query.get("labelSelector") else []
        return [one for one in found if one["metadata"]["namespace"] == namespace
                and selects(wanted, one["metadata"]["labels"])
                and (not field or one["spec"]["nodeName"] == field.removeprefix("spec.nodeName="))]

    def page(self, kind, found, query):
        """The (status, object) of a list."""
        offset = 0
        if query.get("continue"):
            token = json.loads(base64.urlsafe_b64decode(query["continue"]))
            if self.expire_continue > 0:
                self.expire_continue -= 1
                return 410, status(410, "Expired", TOO_OLD)
            offset = token["offset"]
        limit = min(int(query.get("limit", 0)) or self.page_max, self.page_max)
        metadata = {"resourceVersion": str(self.version)}
        if offset + limit < len(found):
            token = {"v": "meta.k8s.io/v1", "rv": self.version, "offset": offset + limit}
            metadata |= {"continue": base64.urlsafe_b64encode(json.dumps(token).encode()).decode(),
                         "remainingItemCount": len(found) - offset - limit}
        return 200, {"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": found[offset:offset + limit]}

    def answer(self, path, query, token):
        """(status, body) of a GET: an object, or text."""
        if self.too_many > 0:
            self.too_many -= 1
            return 429, "Too many requests, please try again later.\n"
        if token and token not in self.users:
            return 401, status(401, "Unauthorized", "Unauthorized")
        user = self.users.get(token, "system:anonymous")
        match = re.fullmatch(r"(/api/v1|/apis/[^/]+/[^/]+)/namespaces/([^/]+)/([a-z]+)", path)
        if not match or match[3] not in RESOURCES.get(match[1], {}):
            return 404, "404 page not found\n"
        namespace, resource = urllib.parse.unquote(match[2]), match[3]
        group, kind = RESOURCES[match[1]][resource]
        if (user, namespace, resource) not in self.rights:
            full = f"{resource}.{group}" if group else resource
            return 403, status(403, "Forbidden", f'{full} is forbidden: User "{user}" cannot list resource "{resource}" in API group '
                                                 f'"{group}" in the namespace "{namespace}"', group=group, kind=resource)
        try:
            return self.page(kind, self.objects(resource, namespace, query), query)
        except ValueError as error:
            return 400, status(400, "BadRequest", f"unable to parse requirement: {error}")

    def _handler(self):
        cluster = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                parts = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(parts.query, strict_parsing=bool(parts.query), keep_blank_values=True))
                token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
                cluster.requests.append((self.path, token))
                kind = "application/json"
                if parts.path in cluster.answers:
                    code, kind, data = cluster.answers[parts.path]
                else:
                    code, body = cluster.answer(parts.path, query, token)
                    if isinstance(body, str):
                        kind, body = "text/plain; charset=utf-8", body.encode()
                    data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                if code == 429:
                    self.send_header("Retry-After", str(cluster.retry_after))
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(data)

            def log_message(self, *_):
                pass

        return Handler
