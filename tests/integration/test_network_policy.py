# SPDX-License-Identifier: Apache-2.0
"""Whom profd calls: [network] allow=. A refused address gets no connection, so nothing is heard of it but from profd."""

import contextlib
import shutil
import socket
import subprocess
import threading

import pytest

from daemon import BUILD, Daemon, FaultFleet, quick_config, wait_for
from test_hostile import profctl, server, vllm

SECRET = "a-token-for-nobody-else"


def config(allow, more=""):
    return quick_config(more=f"[network]\nallow={allow}\n{more}")


@contextlib.contextmanager
def listener(address):
    """Counts who connects; tells what they sent."""
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
        heard = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    client, peer = s.accept()
                    heard.append(peer)
                    client.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield s.getsockname()[1], heard
        finally:
            s.shutdown(socket.SHUT_RDWR)
            thread.join()


def reasons(profd, *workers):
    return {w["url"]: w.get("reason", "") for w in profd.get("/v1/workers", worker=list(workers))["workers"]}


def test_an_address_outside_is_not_connected_to(tmp_path):
    with listener("127.0.0.2") as (port, heard), Daemon(tmp_path / "profd", config("127.0.0.1/32")) as profd:
        url = f"http://127.0.0.2:{port}"
        why = "127.0.0.2 is outside of [network] allow= in profd.conf: not called"
        (worker,) = profd.get("/v1/workers", worker=url)["workers"]
        assert worker["reason"] == why and "allow=" in worker["remedy"] and not worker["profilable"]
        shown = profctl(profd, "list-workers", "--worker", url)
        assert why in shown.stdout
        doctor = profctl(profd, "doctor", "--worker", url)
        assert doctor.returncode == 1 and why in doctor.stdout and "[network] of profd.conf" in doctor.stdout
        problem = profd.problem("GET", f"/v1/workers?router={url}", status=502)
        assert why in problem["detail"] and "allow=" in problem["remedy"]
        assert why in profd.log() and "calls refused so far" in profd.log()
        # An address in another dress.
        for host in ("127.2", "2130706434", "0x7f.0.0.2", "0177.0.0.2", "[::ffff:127.0.0.2]"):
            (reason,) = reasons(profd, f"http://{host}:{port}").values()
            assert reason.endswith("127.0.0.2 is outside of [network] allow= in profd.conf: not called"), (host, reason)
        assert not heard


@pytest.mark.parametrize("url", ["http://169.254.169.254:80", "http://[fd00:ec2::254]:80", "http://100.100.100.200:80",
                                 "http://[::ffff:169.254.169.254]:80", "http://255.255.255.255:80", "http://224.0.0.1:80"])
def test_some_are_never_called(tmp_path, url):
    with Daemon(tmp_path / "profd", config("0.0.0.0/0 ::/0")) as profd:
        (worker,) = profd.get("/v1/workers", worker=url)["workers"]
        assert "never called, even if [network] allow= contains it" in worker["reason"] and "allow=" not in worker["remedy"]


def test_what_a_router_lists_is_classified_alike(tmp_path):
    """The token of a fleet goes to no worker that its router lists outside of the networks."""
    (tmp_path / "token").write_text(SECRET)
    heard = []

    def answer(method, path, headers):
        heard.append((headers["Host"].split(":")[0], headers["Authorization"]))
        if path == "/workers":
            return 200, {"workers": [{"url": f"http://{host}:{port}"} for host in ("127.0.0.1", "127.0.0.2", "169.254.169.254")]}
        return vllm(path)

    with server(answer) as port:
        fleet = f"[fleet east]\nrouter=http://127.0.0.1:{port}\ntoken_file={tmp_path}/token\n"
        with Daemon(tmp_path / "profd", config("127.0.0.1/32", fleet)) as profd:
            workers = {w["url"]: w for w in profd.get("/v1/workers")["workers"]}
            assert workers[f"http://127.0.0.1:{port}"]["engine"] == "vllm"
            assert "outside" in workers[f"http://127.0.0.2:{port}"]["reason"]
            assert "never called" in workers[f"http://169.254.169.254:{port}"]["reason"]
            assert {host for host, _ in heard} == {"127.0.0.1"} and {token for _, token in heard} == {f"Bearer {SECRET}"}


def test_a_session_reports_it_of_the_target(tmp_path):
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, listener("127.0.0.2") as (port, heard):
        with Daemon(tmp_path / "profd", config("127.0.0.1/32")) as profd:
            problem = profd.problem("POST", "/v1/sessions", {"workers": [f"http://127.0.0.2:{port}"], "duration_ns": 10**8})
            assert "127.0.0.2 is outside of [network] allow=" in str(problem)
            session = profd.start_session(workers=fleet.workers, duration_ns=10**8)
            assert profd.wait_session(session["session"])["state"] == "complete"
        assert not heard


def test_a_target_that_is_outside_after_a_start_anew(tmp_path):
    """A stop that is owed is not sent outside either; it is told whose key that is."""
    with FaultFleet(tmp_path / "fleet", "vllm", 1) as fleet, Daemon(tmp_path / "profd", quick_config(stop="1s")) as profd:
        session = profd.start_session(workers=fleet.workers, duration_ns=60 * 10**9)["session"]
        profd.wait_state(session, "recording")
        profd.kill()
        profd.config.write_text(config("10.0.0.0/8").replace("stop=4s", "stop=1s"))
        profd.start()
        profd.post(f"/v1/sessions/{session}/stop")
        target = profd.wait_session(session)["targets"][0]
        assert "127.0.0.1 is outside of [network] allow=" in target["failure"] and "allow=" in target["remedy"]
        assert not fleet.calls(0, "/stop_profile")[1:]


def test_a_literal_outside_is_a_mistake_of_the_file(tmp_path):
    file = tmp_path / "profd.conf"
    file.write_text("[fleet east]\nworker=http://10.0.0.1:1\nworker=http://203.0.113.9:1\n")
    command = [BUILD / "daemon/profd", "--check-config", "--config", str(file), "--state-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"{file}:1: [fleet east] worker=http://203.0.113.9:1: 203.0.113.9 is outside of [network] allow=" in done.stderr
    file.write_text(file.read_text() + "[network]\nallow=loopback private\nallow=203.0.113.0/24\n")
    assert subprocess.run(command, capture_output=True).returncode == 0


def in_own_mounts():
    """Whether an /etc/hosts of its own can be given to a process."""
    return shutil.which("unshare") and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


class HostsDaemon(Daemon):
    """Sees `hosts` as its /etc/hosts."""

    def command(self):
        bind = f'mount --make-rprivate / && mount --bind {self.directory}/hosts /etc/hosts && exec "$@"'
        return ["unshare", "-m", "sh", "-c", bind, "sh", *map(str, super().command())]


@pytest.mark.skipif(not in_own_mounts(), reason="no mount namespace can be made here")
def test_a_name_that_resolves_anew(tmp_path):
    """Names mean another address while profd runs: what counts is the address of the moment."""
    asked = []

    def answer(method, path, headers):
        asked.append(headers["Host"])
        return vllm(path)

    with server(answer) as port, listener("127.0.0.2") as (other, heard):
        directory = tmp_path / "profd"
        directory.mkdir()
        hosts = directory / "hosts"
        hosts.write_text("127.0.0.1 localhost\n127.0.0.1 worker.test\n")
        with HostsDaemon(directory, config("127.0.0.1/32")) as profd:
            assert reasons(profd, f"http://worker.test:{port}") == {f"http://worker.test:{port}": ""}
            hosts.write_text("127.0.0.1 localhost\n127.0.0.2 worker.test\n169.254.169.254 meta.test\n"
                             "127.0.0.2 both.test\n127.0.0.1 both.test\n")
            # libcurl keeps what a name meant for a minute, by name and port: another port asks anew.
            (reason,) = reasons(profd, f"http://worker.test:{other}").values()
            assert reason.startswith("127.0.0.2 is outside of [network] allow=")
            (reason,) = reasons(profd, f"http://meta.test:{other}").values()
            assert reason.startswith("169.254.169.254 is where a cloud hands out credentials")
            # Of several addresses those that may be called are.
            assert reasons(profd, f"http://both.test:{port}") == {f"http://both.test:{port}": ""}
            assert not heard
