# SPDX-License-Identifier: Apache-2.0
"""Workers in pods: Services and selectors of an API server, its refusals, whose token goes where, and pods that take the
address of others."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from certificates import Authority
from daemon import BUILD, ROOT, Daemon, FaultFleet, quick_config, wait_for

sys.path.insert(0, str(ROOT / "tests/fleet"))
from fleet import Fleet  # noqa: E402  # pylint: disable=wrong-import-position
from kubernetes import Cluster  # noqa: E402  # pylint: disable=wrong-import-position

PROFCTL = BUILD / "client/profctl"
MS = 1_000_000
NAMESPACE, ACCOUNT = "inference", "system:serviceaccount:profd:profd"
LLM_D, DYNAMO = "llm-d.ai/role", "nvidia.com/dynamo-component-type"


def profctl(profd, *words, env=None):
    done = subprocess.run([PROFCTL, "--socket", profd.socket, *map(str, words)], capture_output=True, text=True, check=False,
                          env={**os.environ, **(env or {})})
    return done.returncode, done.stdout, done.stderr


def address(url):
    host, port = url.removeprefix("http://").rsplit(":", 1)
    return host, int(port)


@pytest.fixture(name="authority", scope="module")
def make_authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"), "cluster")


@pytest.fixture(name="fleet", scope="module")
def make_fleet(tmp_path_factory):
    with FaultFleet(tmp_path_factory.mktemp("fleet"), "sglang", 4, "--shared-dir") as fleet:
        yield fleet


@pytest.fixture(name="cluster")
def make_cluster(authority, tmp_path):
    """With the right to list both resources for the bearer of the token in the file."""
    with Cluster(*authority.issue("apiserver", "DNS:kubernetes.default.svc,IP:127.0.0.1")) as cluster:
        cluster.token_file = tmp_path / "token"
        cluster.token_file.write_text("first\n")
        cluster.allow("first", ACCOUNT, NAMESPACE, "endpointslices")
        cluster.allow("first", ACCOUNT, NAMESPACE, "pods")
        yield cluster


def fleet_section(cluster, authority, source="kubernetes=inference/vllm", more=""):
    return (f"[fleet k]\n{source}\nkubernetes_url={cluster.url}\nkubernetes_token_file={cluster.token_file}\n"
            f"kubernetes_ca_file={authority.file}\n{more}")


@pytest.fixture(name="profd")
def make_profd(cluster, authority, tmp_path):
    (tmp_path / "workers.token").write_text("of-the-workers\n")
    more = fleet_section(cluster, authority, more=f"token_file={tmp_path}/workers.token\n")
    with Daemon(tmp_path / "profd", quick_config(more=more)) as profd:
        yield profd


def add_pods(cluster, fleet, labels=({},), service="vllm", ports=("http",)):
    """One pod for each of the labels, in each a worker of the fleet, and a Service over all."""
    pods = []
    for i, own in enumerate(labels):
        host, port = address(fleet.workers[i])
        pods.append(cluster.add_pod(NAMESPACE, f"vllm-{i}", host, {ports[0]: port}, labels={"app": service, **own}, node=f"gpu-{i}"))
    cluster.add_service(NAMESPACE, service, {"app": service}, *ports)
    return pods


def uid(pod):
    return pod["metadata"]["uid"]


def listed(profd, **source):
    return profd.get("/v1/workers", **source)["workers"]


def refusal(profd, **source):
    reply = profd.request("GET", "/v1/workers?" + "&".join(f"{key}={value}" for key, value in source.items()))
    assert reply.status >= 400, reply
    return reply.json()


# What a Service and a selector find


@pytest.mark.smoke
def test_a_service_is_its_pods(profd, cluster, fleet):
    pods = add_pods(cluster, fleet, [{}] * 3)
    status, out, err = profctl(profd, "list-workers", "--kubernetes", "inference/vllm", "--json")
    assert status == 0, err
    answer = json.loads(out)
    assert answer["dialect"] == "kubernetes"
    assert [(worker["url"], worker["identity"], worker["name"], worker["node"], worker["engine"], worker["health"])
            for worker in answer["workers"]] == [
        (fleet.workers[i], uid(pods[i]), f"vllm-{i}", f"gpu-{i}", "sglang", "healthy") for i in range(3)]
    (asked,) = {path for path, _ in cluster.requests}
    assert urlsplit(asked).path == "/apis/discovery.k8s.io/v1/namespaces/inference/endpointslices"
    assert parse_qs(urlsplit(asked).query)["labelSelector"] == ["kubernetes.io/service-name=vllm"]
    status, out, err = profctl(profd, "list-workers")
    assert status == 0 and "vllm-0" in out and fleet.workers[0] in out


def test_a_selector_is_pods_with_roles(profd, cluster, fleet):
    add_pods(cluster, fleet, [{LLM_D: "prefill"}, {LLM_D: "decode"}, {LLM_D: "prefill-decode"}, {LLM_D: "encode"}])
    cluster.add_pod("other", "elsewhere", "127.0.0.1", {"http": 1}, labels={"app": "vllm"})
    cluster.add_pod(NAMESPACE, "gateway", "127.0.0.1", {"http": 1}, labels={"app": "gateway"})
    workers = listed(profd, pods="inference/app=vllm")
    assert [worker["role"] for worker in workers] == ["prefill", "decode", "regular", "encode"]
    workers = listed(profd, pods=f"inference/app=vllm,{LLM_D} in (prefill, decode),!absent")
    assert [worker["name"] for worker in workers] == ["vllm-0", "vllm-1"]
    (worker,) = listed(profd, pods="inference/app=vllm", node="gpu-2")
    assert worker["name"] == "vllm-2"
    assert parse_qs(urlsplit(cluster.requests[-1][0]).query)["fieldSelector"] == ["spec.nodeName=gpu-2"]
    (worker,) = listed(profd, kubernetes="inference/vllm", node="gpu-3")
    assert worker["name"] == "vllm-3"
    assert [worker["role"] for worker in listed(profd, pods="inference/app=vllm", role_label="app")] == ["regular"] * 4  # of SGLang itself


def test_not_ready_terminating_and_twice(profd, cluster, fleet):
    """The slices overlap, as they do while an endpoint moves from one to another."""
    host, port = address(fleet.workers[0])
    cluster.slice_max = 2
    add_pods(cluster, fleet, [{}] * 3)
    cluster.pods[1]["status"]["conditions"][1]["status"] = "False"
    ending = cluster.add_pod(NAMESPACE, "ending", host, {"http": port}, labels={"app": "vllm"}, terminating=True)
    cluster.more_slices = [dict(one, metadata={**one["metadata"], "name": one["metadata"]["name"] + "-copy"})
                           for one in cluster.objects("endpointslices", NAMESPACE, {})[:1]]
    answer = profd.get("/v1/workers", kubernetes="inference/vllm")
    assert [(worker["name"], worker["health"]) for worker in answer["workers"]] == [
        ("vllm-0", "healthy"), ("vllm-1", "unhealthy"), ("vllm-2", "healthy")]
    assert uid(ending) not in json.dumps(answer)
    assert "pods left out because they are terminating: 1" in answer["notes"]
    answer = profd.get("/v1/workers", pods="inference/app=vllm")
    assert [worker["health"] for worker in answer["workers"]] == ["healthy", "unhealthy", "healthy"]
    # A recording leaves the pod out that is not ready, unless it is asked for.
    status, out, err = profctl(profd, "start", "--fleet", "k", "--duration", "100ms", "--trace-dir", fleet.directory, "--wait")
    assert status == 0, out + err
    assert profd.get("/v1/sessions")["sessions"][0]["counts"]["complete"] == 2
    status, out, err = profctl(profd, "start", "--fleet", "k", "--include-unhealthy", "--duration", "100ms", "--trace-dir",
                               fleet.directory, "--wait")
    assert status == 0, out + err
    assert profd.get("/v1/sessions")["sessions"][0]["counts"]["complete"] == 3


def test_pages_are_followed(profd, cluster, fleet):
    cluster.page_max = 1
    add_pods(cluster, fleet, [{}] * 4)
    assert len(listed(profd, pods="inference/app=vllm")) == 4
    assert len(cluster.requests) == 4 and all("limit=100" in path for path, _ in cluster.requests)
    # The list is begun anew where it changed meanwhile, and not for ever.
    cluster.requests.clear()
    cluster.expire_continue = 1
    assert len(listed(profd, pods="inference/app=vllm")) == 4
    assert len(cluster.requests) == 2 + 4
    cluster.expire_continue = 1000
    problem = refusal(profd, pods="inference/app=vllm")
    assert "the list changed while its pages were read" in problem["detail"] and "Try again" in problem["remedy"]


def test_too_many_requests(profd, cluster, fleet):
    add_pods(cluster, fleet)
    cluster.too_many = 1
    assert len(listed(profd, kubernetes="inference/vllm")) == 1
    assert len(cluster.requests) == 2
    cluster.too_many, cluster.retry_after = 1000, 3600
    problem = refusal(profd, kubernetes="inference/vllm")
    assert "overloaded (429)" in problem["detail"] and len(cluster.requests) == 3


# Ports


def test_one_of_several_ports_is_not_guessed(profd, cluster, fleet):
    host, port = address(fleet.workers[0])
    cluster.add_pod(NAMESPACE, "a", host, {"metrics": 1, "api": port}, labels={"app": "a"})
    problem = refusal(profd, pods="inference/app=a")
    assert problem["code"] == "no-workers"
    assert "a is left out: it has several ports (metrics 1, api %d); name one by port=" % port in problem["detail"]
    assert "port= names a port" in problem["remedy"]
    for name in ("api", str(port)):
        assert [worker["url"] for worker in listed(profd, pods="inference/app=a", port=name)] == [fleet.workers[0]]
    assert "it has no port grpc, only metrics 1, api" in refusal(profd, pods="inference/app=a", port="grpc")["detail"]
    status, out, err = profctl(profd, "list-workers", "--pods", "inference/app=a", "--port", "api")
    assert status == 0 and fleet.workers[0] in out, err


def test_ports_and_roles_of_known_projects(profd, cluster, fleet):
    """As their controllers and charts write them (kubernetes_labels.c names the sources)."""
    numbers = [address(worker)[1] for worker in fleet.workers]
    proxies = [{"name": "llm-d-routing-sidecar", "restartPolicy": "Always", "ports": [{"containerPort": 2}]}]

    def pod(name, labels, ports, **more):
        cluster.add_pod(NAMESPACE, name, "127.0.0.1", ports, labels={"app": "all", **labels}, **more)

    pod("dynamo", {DYNAMO: "prefill"}, {"nixl": 19090, "system": numbers[0]})
    pod("dynamo-frontend", {DYNAMO: "frontend"}, {"http": 8000})
    pod("kserve", {"serving.kserve.io/inferenceservice": "m", LLM_D: "decode"}, {"": numbers[1]}, init_containers=proxies)
    pod("aibrix", {"model.aibrix.ai/name": "qwen", "model.aibrix.ai/port": str(numbers[2]), "model.aibrix.ai/engine": "vllm"}, {"a": 3, "b": 4})
    pod("kubeai", {"app.kubernetes.io/managed-by": "kubeai", "model": "llama", "app.kubernetes.io/name": "vllm"}, {"a": 3, "b": 4},
        annotations={"model-pod-port": str(numbers[3])})
    pod("stack", {"app.kubernetes.io/component": "serving-engine", "model": "opt"}, {"container-port": numbers[0], "zmq-port": 55555})
    answer = profd.get("/v1/workers", pods="inference/app=all")
    found = {worker["name"]: (worker["url"], worker["role"]) for worker in answer["workers"]}
    # The pods of Dynamo and of the stack have one address here: one of them is listed.
    assert found == {"dynamo": (fleet.workers[0], "prefill"), "kserve": (fleet.workers[1], "decode"),
                     "aibrix": (fleet.workers[2], "regular"), "kubeai": (fleet.workers[3], "regular")}
    assert any("name a component without an engine: 1" in note for note in answer["notes"])
    # What the label says of the engine is no proof: the worker is asked.
    assert {worker["engine"] for worker in answer["workers"]} == {"sglang"}
    assert [worker["hint"] for worker in answer["workers"] if "hint" in worker] == ["model.aibrix.ai/engine=vllm", "app.kubernetes.io/name=vllm"]
    assert not [worker for worker in answer["workers"] if "names an engine" in worker.get("note", "")]
    pod("gone", {"model.aibrix.ai/name": "qwen", "model.aibrix.ai/engine": "vllm", "app": "gone"}, {"http": 1})
    (worker,) = listed(profd, pods="inference/app=gone")
    assert worker["engine"] == "unknown" and "its label model.aibrix.ai/engine=vllm names an engine" in worker["note"]


# Refusals


def test_remedies(profd, cluster, authority, fleet, tmp_path):
    add_pods(cluster, fleet)
    cluster.add_service(NAMESPACE, "empty", {"app": "nothing"}, "http")
    cluster.rights.clear()
    problem = refusal(profd, kubernetes="inference/vllm")
    assert f'User "{ACCOUNT}" cannot list resource "endpointslices"' in problem["detail"]
    assert problem["remedy"].split("\n")[1:] == [
        "kubectl -n inference create role profd --verb=list --resource=endpointslices.discovery.k8s.io",
        "kubectl -n inference create rolebinding profd --role=profd --serviceaccount=profd:profd"]
    assert "--resource=pods\n" in refusal(profd, pods="inference/app=vllm")["remedy"]
    cluster.users.clear()
    problem = refusal(profd, kubernetes="inference/vllm")
    assert "refuses the token (401)" in problem["detail"] and "kubectl create token" in problem["remedy"]
    assert str(cluster.token_file) in problem["remedy"]
    cluster.allow("first", ACCOUNT, NAMESPACE, "endpointslices")
    cluster.allow("first", ACCOUNT, NAMESPACE, "pods")
    assert "has no endpoints" in refusal(profd, kubernetes="inference/empty")["detail"]
    problem = refusal(profd, kubernetes="inference/absent")
    assert problem["code"] == "no-workers" and "it does not exist" in problem["detail"]
    assert "no pod has these labels" in refusal(profd, pods="inference/app=absent")["detail"]
    assert "unable to parse requirement" in refusal(profd, pods="inference/app=a%2C%2Cb")["detail"]
    cluster.answers["/apis/discovery.k8s.io/v1/namespaces/inference/endpointslices"] = (404, "text/plain", b"404 page not found\n")
    assert "Kubernetes 1.21" in refusal(profd, kubernetes="inference/vllm")["remedy"]
    cluster.answers["/apis/discovery.k8s.io/v1/namespaces/inference/endpointslices"] = (200, "text/html", b"<html>")
    assert "is that a Kubernetes API?" in refusal(profd, kubernetes="inference/vllm")["detail"]
    cluster.token_file.unlink()
    assert "kubernetes_token_file" in refusal(profd, kubernetes="inference/vllm")["detail"]


@pytest.mark.parametrize("source", ["kubernetes=vllm", "kubernetes=Inference/vllm", "kubernetes=inference/vllm/x", "kubernetes=inference/-a",
                                    "kubernetes=../pods", "pods=inference", "pods=inference/", "pods=inference/a%26limit=1",
                                    "pods=inference/a%23", "pods=in%20ference/a", "kubernetes=inference/vllm&node=a%26b",
                                    "kubernetes=inference/vllm&node=here"])
def test_what_is_no_name_is_not_asked(profd, cluster, source):
    reply = profd.request("GET", f"/v1/workers?{source}")
    assert reply.status == 400, reply
    assert cluster.requests == []


def test_without_a_cluster(tmp_path):
    with Daemon(tmp_path / "profd", quick_config()) as profd:
        problem = refusal(profd, kubernetes="inference/vllm")
        assert "does not run in a pod" in problem["detail"] and "kubectl proxy" in problem["remedy"]
        status, _, err = profctl(profd, "start", "--kubernetes", "inference/vllm", "--pods", "inference/a=b")
        assert status == 2 and "--kubernetes and --pods exclude each other" in err


@pytest.mark.parametrize("more, error", [
    ("kubernetes_url=http://10.0.0.1:8001\nkubernetes_token_file=/t\n", "sends kubernetes_token_file= only to an https:// URL"),
    ("kubernetes_url=ftp://x\n", "kubernetes_url"), ("node=Gpu_1\n", "the name of a node"), ("worker=http://127.0.0.1:1\n", "worker=")])
def test_configuration_is_checked(tmp_path, more, error):
    status, text = Daemon(tmp_path / "profd", f"[fleet k]\nkubernetes=inference/vllm\n{more}").refuses()
    assert status == 2 and error in text


# Credentials


def test_token_is_read_for_each_call(profd, cluster, fleet):
    add_pods(cluster, fleet)
    assert listed(profd, fleet="k")
    cluster.rotate("first", "second")
    cluster.token_file.write_text("second\n")
    assert listed(profd, fleet="k")
    assert [token for _, token in cluster.requests] == ["first", "second"]


def test_whose_token_goes_where(profd, cluster, fleet, tmp_path):
    """The cluster's to the API server only; the workers' to workers only."""
    add_pods(cluster, fleet)
    status, _, err = profctl(profd, "start", "--fleet", "k", "--duration", "100ms", "--trace-dir", fleet.directory, "--wait")
    assert status == 0, err
    assert {token for _, token in cluster.requests} == {"first"}
    assert "first" not in profd.log() and "of-the-workers" not in profd.log()
    assert '"first"' not in json.dumps(fleet.journal(0)) and "Bearer first" not in json.dumps(fleet.journal(0))


def test_only_the_cluster_authority_is_trusted(cluster, authority, fleet, tmp_path):
    add_pods(cluster, fleet)
    other = Authority(tmp_path, "other")
    # An authority of the system, by libcurl's own variables, does not take the place of the cluster's.
    for config, answers in ((fleet_section(cluster, other), False), (fleet_section(cluster, authority), True)):
        with Daemon(tmp_path / f"profd-{answers}", quick_config(more=config)) as profd:
            reply = profd.request("GET", "/v1/workers?fleet=k")
            assert (reply.status == 200) == answers, reply
            if not answers:
                assert "certificate" in reply.json()["detail"] and cluster.requests == []
                assert "kubernetes_ca_file=" in reply.json()["remedy"]


class PodDaemon(Daemon):
    """profd as in a pod: with the kubelet's variables, and the files of a service account, in mounts of its own."""

    def __init__(self, directory, cluster, authority, **options):
        self.account = directory / "account"
        self.account.mkdir(parents=True)
        (self.account / "token").write_text(cluster.token_file.read_text())
        (self.account / "ca.crt").write_bytes(Path(authority.file).read_bytes())
        super().__init__(directory / "profd", environment={"KUBERNETES_SERVICE_HOST": cluster.host, "NODE_NAME": "gpu-1",
                                                           "KUBERNETES_SERVICE_PORT": str(cluster.port)}, **options)

    def command(self):
        script = ('mount -t tmpfs run /run && mkdir -p /run/secrets/kubernetes.io && ln -s "$1" /run/secrets/kubernetes.io/serviceaccount '
                  '&& shift && exec "$@"')
        return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", self.account, *super().command()]


def can_unshare():
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "run", "/run"],
                          capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="no mount namespaces of users here")
def test_in_a_pod(cluster, authority, fleet, tmp_path):
    """Nothing but the name is configured; another node's pods are left out by node=here."""
    add_pods(cluster, fleet, [{}] * 2)
    more = "[fleet k]\nkubernetes=inference/vllm\nnode=here\n"
    with PodDaemon(tmp_path / "pod", cluster, authority, config=quick_config(more=more)) as profd:
        assert [worker["name"] for worker in listed(profd, fleet="k")] == ["vllm-1"]
        assert len(listed(profd, kubernetes="inference/vllm")) == 2
        cluster.rotate("first", "second")
        (profd.account / "token").write_text("second")
        assert len(listed(profd, pods="inference/app=vllm")) == 2


# Recordings of pods


@pytest.mark.smoke
def test_real_workers_in_pods(cluster, authority, tmp_path):
    """On addresses of their own and the same port, with a directory that profd knows by another name."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        port = probe.getsockname()[1]
    with Fleet(tmp_path / "fleet") as fleet:
        for i in range(2):
            fleet.add_vllm("--host", f"127.0.0.{i + 2}", "--port", port)
            cluster.add_pod(NAMESPACE, f"vllm-{i}", f"127.0.0.{i + 2}", {"http": port}, labels={"app": "vllm", LLM_D: ("prefill", "decode")[i]})
        fleet.wait_ready()
        more = fleet_section(cluster, authority, "pods=inference/app=vllm")
        with Daemon(tmp_path / "profd", quick_config(more=more)) as profd:
            load = fleet.start_load(fleet.workers[0].url, 20, 2)
            status, out, err = profctl(profd, "start", "--duration", "1s", "--wait")
            load.end()
            assert status == 0, out + err
            session = profd.get("/v1/sessions/" + profd.get("/v1/sessions")["sessions"][0]["session"])
            assert session["state"] == "complete" and session["dialect"] == "pods" and session["fleet"] == "k"
            assert [(target["worker"], target["role"]) for target in session["targets"]] == [
                (f"http://127.0.0.2:{port}", "prefill"), (f"http://127.0.0.3:{port}", "decode")]
            assert all(target["traces"] for target in session["targets"])
            status, out, _ = profctl(profd, "list-workers")
            assert status == 0 and "vllm-0" in out and "prefill" in out


def test_each_pod_has_a_directory_of_its_own(cluster, authority, tmp_path):
    """By its name: two pods whose traces lie in one directory cannot be told apart."""
    with FaultFleet(tmp_path / "traces", "vllm", 2) as fleet:
        for i, worker in enumerate(fleet.workers):
            host, port = address(worker)
            cluster.add_pod(NAMESPACE, f"w{i}", host, {"http": port}, labels={"app": "vllm"})
        cluster.add_service(NAMESPACE, "vllm", {"app": "vllm"}, "http")
        more = fleet_section(cluster, authority, more=f"trace_dir={tmp_path}/traces/{{name}}\n")
        with Daemon(tmp_path / "profd", quick_config(more=more)) as profd:
            workers = listed(profd, fleet="k")
            assert [(worker["traces"]["local_dir"], worker["traces"]["found_by"]) for worker in workers] == [
                (f"{tmp_path}/traces/w{i}", "trace_dir in profd.conf") for i in range(2)]
            session = profd.wait_session(profd.start_session(fleet="k", duration_ns=100 * MS)["session"])
            assert session["state"] == "complete" and [len(target["traces"]) for target in session["targets"]] == [1, 1]


def replace_pod(cluster, pod, **more):
    """Another pod gets its address, as the scheduler and the network plug-in may decide at once."""
    cluster.remove_pod(pod)
    (port,) = pod["spec"]["containers"][0]["ports"]
    return cluster.add_pod(NAMESPACE, pod["metadata"]["name"] + "-new", pod["status"]["podIP"], {port["name"]: port["containerPort"]},
                           labels=pod["metadata"]["labels"], **more)


@pytest.fixture(name="own_fleet")
def make_own_fleet(tmp_path):
    """Of vLLM: a stop that arrives from elsewhere ends a recording."""
    with FaultFleet(tmp_path / "own", "vllm", 2, "--shared-dir") as fleet:
        yield fleet


def test_stop_of_a_replaced_pod_is_not_repeated(profd, cluster, own_fleet):
    """Its stop did not get through, and would end the recording of the pod that has its address now."""
    (pod,) = add_pods(cluster, own_fleet)
    own_fleet.set_fault("reset-stop")
    first = profd.start_session(fleet="k", duration_ns=100 * MS, trace_dir=str(own_fleet.directory))["session"]
    wait_for(lambda: own_fleet.calls(0, "/stop_profile")[1:])  # one that cleans up, one that was reset
    own_fleet.set_fault("none")
    new = replace_pod(cluster, pod)
    second = profd.start_session(fleet="k", duration_ns=3000 * MS, trace_dir=str(own_fleet.directory))["session"]
    session = profd.wait_session(second)
    assert session["state"] in ("complete", "partial"), session
    calls = [call["path"] for call in own_fleet.calls(0)]
    last_start = len(calls) - 1 - calls[::-1].index("/start_profile")
    assert calls[last_start:] == ["/start_profile", "/stop_profile"]
    (target,) = profd.wait_session(first)["targets"]
    assert not target["stop_pending"]
    assert "another worker has its address" in (target.get("failure") or "") + json.dumps(profd.session(first).get("remarks", []))
    # What was recorded knows which pod it was.
    targets = [target for session in (first, second) for target in profd.session(session)["targets"]]
    assert [(target["identity"], target["name"]) for target in targets] == [(uid(pod), "vllm-0"), (uid(new), "vllm-0-new")]
    assert len({target["worker"] for target in targets}) == 1
    assert "vllm-0-new" in profctl(profd, "show", second)[1]


def test_pod_that_is_replaced_while_it_records(profd, cluster, own_fleet):
    """The others go on, the new pod can be recorded at once, and the session ends as partial."""
    pods = add_pods(cluster, own_fleet, [{}] * 2)
    first = profd.start_session(fleet="k", duration_ns=60_000 * MS, trace_dir=str(own_fleet.directory))["session"]
    profd.wait_state(first, "recording")
    reply = profd.request("POST", "/v1/sessions", {"fleet": "k", "workers": own_fleet.workers[:1]})
    assert reply.status == 409 and "is held by" in reply.json()["detail"]
    replace_pod(cluster, pods[0])
    second = profd.start_session(fleet="k", workers=own_fleet.workers[:1], duration_ns=100 * MS, trace_dir=str(own_fleet.directory))
    assert profd.wait_session(second["session"])["state"] in ("complete", "partial")
    assert profd.session(first)["state"] == "recording"
    profd.post(f"/v1/sessions/{first}/stop")
    targets = profd.wait_session(first)["targets"]
    # With both in one directory, whose trace is whose cannot always be told.
    assert targets[1]["state"] in ("complete", "partial") and "another worker has its address" in targets[0]["failure"]
    # The fault worker is one process: the new pod's start found the profiler of the old one running.
    assert [call["path"] for call in own_fleet.calls(1)][-2:] == ["/start_profile", "/stop_profile"]
