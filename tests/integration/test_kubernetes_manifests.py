# SPDX-License-Identifier: Apache-2.0
"""docs/kubernetes: each manifest is what the API takes, its parts refer to each other, and profd works with exactly the rights,
the configuration and the arguments that they give it."""

import json
import os
import re
import subprocess

import pytest
import yaml

from certificates import Authority
from daemon import ROOT, Daemon, FaultFleet
from test_kubernetes import PROFCTL, Cluster, address

FOLDER = ROOT / "docs/kubernetes"
TYPES = json.loads((ROOT / "tests/data/kubernetes-types.json").read_text())
FILES = sorted(FOLDER.glob("*.yaml"))
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": (str, int)}
NO_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


def objects(*names):
    """Of these files, or of all: [(kind, object)]."""
    files = [FOLDER / name for name in names] or FILES
    return [(one["kind"], one) for file in files for one in yaml.safe_load_all(file.read_text())]


def one_of(kind, *names):
    (found,) = [one for its_kind, one in objects(*names) if its_kind == kind]
    return found


def faults(kind, value, where):
    """What the API would refuse: members that it does not know, that it requires, and values of another type."""
    if match := re.fullmatch(r"list\[(.*)\]", kind):
        if not isinstance(value, list):
            return [f"{where} is no list"]
        return [fault for i, item in enumerate(value) for fault in faults(match[1], item, f"{where}[{i}]")]
    if match := re.fullmatch(r"dict\(str, (.*)\)", kind):
        if not isinstance(value, dict):
            return [f"{where} is no object"]
        return [fault for key, item in value.items() for fault in faults(match[1], item, f"{where}.{key}")]
    if kind in PLAIN:
        fits = isinstance(value, PLAIN[kind]) and (kind == "bool" or not isinstance(value, bool))
        return [] if fits else [f"{where} is {value!r}, not of type {kind}"]
    if kind not in TYPES["types"]:
        return [f"{where} has the type {kind}, which kubernetes-types.json lacks"]
    of = TYPES["types"][kind]
    if not isinstance(value, dict):
        return [f"{where} is no {kind}"]
    missing = [f"{where} lacks {name}" for name in of["required"] if name not in value]
    unknown = [f"{where} has no member {name}" for name in value if name not in of["members"]]
    return missing + unknown + [fault for name, item in value.items() if name in of["members"]
                                for fault in faults(of["members"][name], item, f"{where}.{name}")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_api_takes_it(file):
    for kind, one in objects(file.name):
        assert one["apiVersion"] == TYPES["versions"].get(kind, "v1")
        assert faults(TYPES["kinds"][kind], one, kind) == []
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", one["metadata"]["name"])


@pytest.mark.parametrize("path, value, fault", [
    (("spec", "selektor"), {}, "DaemonSet.spec has no member selektor"),
    (("spec", "template", "spec", "hostPID"), "false", "DaemonSet.spec.template.spec.hostPID is 'false', not of type bool"),
    (("spec", "template", "spec", "containers"), [{"image": "x"}], "DaemonSet.spec.template.spec.containers[0] lacks name"),
    (("spec", "template", "spec", "volumes"), {}, "DaemonSet.spec.template.spec.volumes is no list")])
def test_checker_finds_faults(path, value, fault):
    one = inner = one_of("DaemonSet", "daemonset.yaml")
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    assert fault in faults("V1DaemonSet", one, "DaemonSet")


@pytest.mark.parametrize("file", ["daemonset.yaml", "deployment.yaml", "hosts.yaml", "worker.yaml"])
def test_parts_refer_to_each_other(file):
    known = {(kind, one["metadata"]["name"]) for kind, one in objects()}
    for kind, one in objects(file):
        if kind not in ("DaemonSet", "Deployment"):
            continue
        template, pod = one["spec"]["template"], one["spec"]["template"]["spec"]
        assert one["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert volumes == {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
        for volume in pod["volumes"]:
            assert "configMap" not in volume or ("ConfigMap", volume["configMap"]["name"]) in known
        if one["metadata"]["namespace"] == "profd":
            assert ("ServiceAccount", pod["serviceAccountName"]) in known
    service, deployment = one_of("Service", "worker.yaml"), one_of("Deployment", "worker.yaml")
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    ports = {port["name"] for port in deployment["spec"]["template"]["spec"]["containers"][0]["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_hosts_are_one_fleet(tmp_path):
    """profd takes the configuration with what `profctl peer join` writes for the name of the Service, which has each pod's port."""
    service, daemon, text = (one_of(kind, "hosts.yaml") for kind in ("Service", "DaemonSet", "ConfigMap"))
    name = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.cluster.local"
    pod = daemon["spec"]["template"]
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (port,), (listed,) = pod["spec"]["containers"][0]["ports"], service["spec"]["ports"]
    assert port["containerPort"] == listed["port"] == 9460 and port["name"] == listed["targetPort"]
    folder = tmp_path / "peers"
    subprocess.run([PROFCTL, "peer", "join", name, "--directory", folder], check=True, capture_output=True)
    for new, old in (("tls.pem", f"{name}.pem"), ("tls.key", f"{name}.key")):
        (folder / old).rename(folder / new)
    config = text["data"]["profd.conf"]
    assert f"peers=dns:{name}:9460" in config and f"host={name}" in config
    profd = Daemon(tmp_path / "profd", config.replace("/etc/profd/peers", str(folder)).replace("0.0.0.0:9460", "127.0.0.1:9460"))
    checked = subprocess.run([*profd.command(), "--check-config"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    secret = next(volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume)
    assert secret["defaultMode"] == 0o600


def test_rights_are_one_list():
    role, binding = one_of("Role"), one_of("RoleBinding")
    assert role["rules"] == [{"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]}]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role["metadata"]["name"]}
    assert binding["metadata"]["namespace"] == role["metadata"]["namespace"]
    account = one_of("ServiceAccount")["metadata"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account}]
    assert not [kind for kind, _ in objects() if kind.startswith("Cluster")]


def test_traces_lie_where_both_see_them():
    """The engine's directory, the node's, and profd's view of it."""
    daemon, worker = (one_of(kind, file)["spec"]["template"]["spec"] for kind, file in (("DaemonSet", "daemonset.yaml"),
                                                                                      ("Deployment", "worker.yaml")))

    def mounts(pod):
        paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
        return {mount["mountPath"]: paths[mount["name"]] for mount in pod["containers"][0]["volumeMounts"] if mount["name"] in paths}

    text = one_of("ConfigMap", "daemonset.yaml")["data"]["profd.conf"]
    folder, _, name = re.search(r"^trace_dir=(.*)$", text, re.MULTILINE)[1].rpartition("/")
    assert name == "{name}" and mounts(daemon)[folder] == mounts(worker)[folder]
    (profiler,) = [word for word in worker["containers"][0]["args"] if word.startswith("--profiler-config=")]
    assert json.loads(profiler.split("=", 1)[1])["torch_profiler_dir"] == f"{folder}/$(POD_NAME)"
    assert {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}} in worker["containers"][0]["env"]


class ManifestDaemon(Daemon):
    """profd with the arguments and the environment of a container, in directories of the test, without capabilities."""

    def __init__(self, directory, container, config):
        super().__init__(directory, config, environment={"NODE_NAME": "gpu-1"})
        own = {"/etc/profd/profd.conf": self.config, "/var/lib/profd": self.state, "/run/profd/profd.sock": self.socket}
        assert {path for path in container["args"] if path.startswith("/")} == set(own)
        self.arguments = [own.get(word, word) for word in container["args"]]

    def command(self):
        return [*NO_CAPABILITIES, super().command()[0], *self.arguments]


@pytest.mark.skipif(os.getuid() != 0, reason="capabilities are root's to drop")
@pytest.mark.parametrize("kind, file", [("DaemonSet", "daemonset.yaml"), ("Deployment", "deployment.yaml")])
def test_profd_works_with_what_it_gets(tmp_path, kind, file):
    """Its configuration, but for the address of this API server, and the only right that the Role gives."""
    role, account = one_of("Role"), one_of("ServiceAccount")["metadata"]
    config = one_of("ConfigMap", file)["data"]["profd.conf"]
    container = one_of(kind, file)["spec"]["template"]["spec"]["containers"][0]
    authority, token = Authority(tmp_path), tmp_path / "token"
    token.write_text("t")
    with Cluster(*authority.issue("apiserver")) as cluster, FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet:
        for rule in role["rules"]:
            cluster.allow("t", f"system:serviceaccount:{account['namespace']}:{account['name']}", role["metadata"]["namespace"],
                          rule["resources"][0])
        for i, worker in enumerate(fleet.workers):
            host, port = address(worker)
            cluster.add_pod("inference", f"vllm-{i}", host, {"http": port}, labels={"app": "vllm"}, node=f"gpu-{i}")
        cluster.add_service("inference", "vllm", {"app": "vllm"}, "http")
        more = f"\nkubernetes_url={cluster.url}\nkubernetes_ca_file={authority.file}\nkubernetes_token_file={token}\n"
        config = config.replace("kubernetes=inference/vllm", "kubernetes=inference/vllm" + more).replace("allow=private", "allow=loopback")
        with ManifestDaemon(tmp_path / "profd", container, config) as profd:
            names = [worker["name"] for worker in profd.get("/v1/workers")["workers"]]
            assert names == (["vllm-1"] if kind == "DaemonSet" else ["vllm-0", "vllm-1"])
            program, *words = container["readinessProbe"]["exec"]["command"]
            assert program == PROFCTL.name
            done = subprocess.run([PROFCTL, "--socket", profd.socket, *words], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


def test_image_is_made_of_the_package():
    """The file that ./dev package makes, the programs that the manifests start, and no other source."""
    text = (FOLDER / "Containerfile").read_text()
    assert [line.split()[0] for line in text.splitlines() if re.match(r"[A-Z]+ ", line)] == ["FROM", "COPY", "RUN", "ENTRYPOINT"]
    assert "COPY profd_*.deb /tmp/" in text and "FROM debian:bookworm-slim" in text
    version = re.search(r"version: '([0-9.]+)'", (ROOT / "meson.build").read_text())[1]
    images = {container["image"] for kind, one in objects() if kind in ("DaemonSet", "Deployment")
              for container in one["spec"]["template"]["spec"]["containers"] if container["name"] == "profd"}
    assert images == {f"registry.example/profd:{version}"} and f"profd:{version}" in text
    assert f"profd:{version}" in (FOLDER / "README.md").read_text()
