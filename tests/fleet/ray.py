# SPDX-License-Identifier: Apache-2.0
"""The part of Ray's dashboard that shows Ray Serve, answering as ray-project/ray does (python/ray/dashboard/modules/serve/
serve_head.py @024282b0, python/ray/serve/schema.py, http_token_authentication.py @39f042f7):

    with RayDashboard(token="secret") as ray:
        ray.add("llm", "LLMServer:qwen", "10.0.0.1", pid=4711)
        ... ray.url ...

`port` gives a replica direct ingress: target_groups then has it by its actor's name. With a token, a request without one is
401, and one with another 403.
"""
import hashlib

from answer_server import AnswerServer

PATH = "/api/serve/applications/"


def actor(name):
    return hashlib.sha256(name.encode()).hexdigest()[:32]


class RayDashboard(AnswerServer):
    def __init__(self, token=None, address="127.0.0.1", port=0):
        super().__init__({PATH: self._answer}, address=address, port=port)
        self.token = token
        self.applications = {}
        # Serve's own proxies: they choose a replica for each request.
        self.targets = [{"ip": "127.0.0.1", "port": 9, "instance_id": "", "name": "SERVE_PROXY_ACTOR-1"}]

    def add(self, application, deployment, ip, pid=1, gpus=1, port=None, state="RUNNING"):
        """A replica, whose deployment reserves its GPUs by a placement group, as Ray Serve LLM's. Gives its actor's id."""
        details = self.applications.setdefault(application, {
            "name": application, "route_prefix": "/", "docs_path": "/docs", "status": "RUNNING", "message": "",
            "last_deployed_time_s": 1.0, "deployed_app_config": None, "source": "imperative", "deployments": {},
            "external_scaler_enabled": False})["deployments"].setdefault(deployment, {
                "name": deployment, "status": "HEALTHY", "status_trigger": "CONFIG_UPDATE_COMPLETED", "message": "",
                "deployment_config": {"name": deployment, "num_replicas": 1, "max_ongoing_requests": 5,
                                      "ray_actor_options": {"num_cpus": 1.0},
                                      "placement_group_bundles": [{"CPU": 1.0}, *[{"GPU": 1.0}] * gpus]},
                "target_num_replicas": 1, "required_resources": {"CPU": 1}, "replicas": []})
        suffix = f"{len(details['replicas'])}"
        name = f"SERVE_REPLICA::{application}#{deployment}#{suffix}"
        details["replicas"].append({
            "node_id": actor(ip), "node_ip": ip, "node_instance_id": "", "actor_id": actor(name), "actor_name": name,
            "worker_id": actor(name + "w"), "log_file_path": "/serve/replica.log", "replica_id": suffix, "state": state,
            "pid": pid, "start_time_s": 1.0})
        if port:
            self.targets.append({"ip": ip, "port": port, "instance_id": "", "name": name})
        return actor(name)

    def _answer(self, _path, headers):
        sent = headers.get("Authorization", "") or headers.get("X-Ray-Authorization", "")
        if self.token and not sent:
            return 401, b"Unauthorized: Missing authentication token"
        if self.token and sent != f"Bearer {self.token}":
            return 403, b"Forbidden: Invalid authentication token"
        if not self.applications:  # get_empty_schema_dict()
            return 200, {"deploy_mode": "MULTI_APP", "controller_info": {}, "proxies": {}, "applications": {},
                         "target_capacity": None}
        return 200, {"controller_info": {"node_ip": "127.0.0.1", "actor_name": "SERVE_CONTROLLER_ACTOR"},
                     "proxy_location": "EveryNode", "http_options": {"host": "0.0.0.0", "port": 8000},
                     "grpc_options": {"port": 9000, "grpc_servicer_functions": []}, "proxies": {}, "deploy_mode": "MULTI_APP",
                     "applications": self.applications, "target_capacity": None,
                     "target_groups": [{"targets": self.targets, "route_prefix": "/", "protocol": "HTTP"},
                                       {"targets": [], "route_prefix": "/", "protocol": "gRPC"}]}
