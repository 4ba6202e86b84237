# SPDX-License-Identifier: Apache-2.0
"""Archives in a bucket of Ceph's radosgw: every request, uploads in parts that go on after a crash, faults of the service."""
import concurrent.futures
import json
import random
import re
import subprocess
import sys

import pytest

from archive_client import ArchiveClient, sha256
from daemon import ROOT, wait_for

sys.path.insert(0, str(ROOT / "tests/fleet"))
import radosgw  # noqa: E402

MIB = 1 << 20
ODD_KEYS = ["a", "date=2026-11-22/x:y.gz", "b c/ü~(1)*'!&=+;:@$,%.json", "traces/sha256/ab/" + 64 * "c" + ".pt.trace.json.gz"]


@pytest.fixture(name="ceph", scope="module")
def make_ceph(tmp_path_factory):
    """`./dev` installs Ceph: without it these tests fail."""
    assert not radosgw.missing(), f"apt-get install radosgw ceph-mon ceph-osd ceph-common ({radosgw.missing()})"
    with radosgw.Radosgw(tmp_path_factory.mktemp("ceph") / "cluster") as ceph:
        ceph.create_bucket("traces")
        ceph.create_user("other", "OTHERKEY", "other-secret")
        yield ceph


@pytest.fixture(name="client", params=["blocking", "loop"])
def make_client(ceph, tmp_path, request):
    """Each with a prefix of its own."""
    return ArchiveClient(f"s3://traces/{tmp_path.name}", "--endpoint", ceph.endpoint, "--credentials", ceph.credentials,
                         *(["--loop"] if request.param == "loop" else []))


def write(path, size, seed=1):
    path.write_bytes(random.Random(seed).randbytes(size))
    return path


@pytest.mark.smoke
def test_objects(client, tmp_path):
    """Written, never replaced where that was asked for, found, read, listed and deleted, with odd names."""
    file = write(tmp_path / "file", 100_000)
    hashed = sha256(file.read_bytes())
    for key in ODD_KEYS:
        assert client.works("--exclusive", "put", key, file)["object"]["sha256"] == hashed
        assert "exists" in client.fails("EEXIST", "--exclusive", "put", key, file)["what"]
        client.works("put", key, file)
        found = client.works("head", key)["object"]
        assert (found["size"], found["sha256"]) == (100_000, hashed) and found["modified"] > 0
        client.works("get", key, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == file.read_bytes()
        assert client.works("--offset", 10, "--size", 20, "get", key, tmp_path / "copy")["object"]["size"] == 20
        assert (tmp_path / "copy").read_bytes() == file.read_bytes()[10:30]
        assert client.works("--offset", 99_990, "get", key, tmp_path / "copy")["object"]["size"] == 10
        client.fails("ERANGE", "--offset", "1M", "--size", 1, "get", key, tmp_path / "copy")
    assert [found["key"] for found in client.works("list")["objects"]] == sorted(ODD_KEYS)
    assert [found["key"] for found in client.works("list", "b c/")["objects"]] == [ODD_KEYS[2]]
    for key in ODD_KEYS:
        client.works("delete", key)
        client.works("delete", key)
        client.fails("ENOENT", "head", key)
    client.fails("ENOENT", "get", "a", tmp_path / "copy")


def test_empty_object(client, tmp_path):
    file = write(tmp_path / "empty", 0)
    client.works("put", "empty", file)
    assert client.works("get", "empty", tmp_path / "copy")["object"]["size"] == 0
    assert client.works("upload", "empty", file)["existed"]


def test_pages(client, tmp_path):
    file = write(tmp_path / "file", 10)
    keys = [f"k/{number:02}" for number in range(7)]
    for key in keys:
        client.works("put", key, file)
    found, after = [], []
    while True:
        page = client.works("--max", 3, *after, "list", "k/")
        found += [entry["key"] for entry in page["objects"]]
        if "next" not in page:
            break
        after = ["--after", page["next"]]
    assert found == keys


def test_one_of_many_writers(client, tmp_path):
    """Of those that write one name at once, one does."""
    files = [write(tmp_path / f"file{number}", 50_000, seed=number) for number in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda file: client("--exclusive", "put", "one", file), files))
    assert sorted(answer.get("error", "") for answer in answers) == [""] + 7 * ["EEXIST"]
    winner = next(answer for answer in answers if answer["err"] == 0)
    assert client.works("head", "one")["object"]["sha256"] == winner["object"]["sha256"]


def test_parts(client, tmp_path):
    """Requests of an upload in parts, one by one."""
    file = write(tmp_path / "file", 6 * MIB)
    upload = client.works("--sha256", sha256(file.read_bytes()), "create", "big")["upload_id"]
    first = client.works("--upload", upload, "--part", 1, "--size", "5M", "part", "big", file)["object"]["etag"]
    second = client.works("--upload", upload, "--part", 2, "--offset", "5M", "--size", "1M", "part", "big", file)["object"]["etag"]
    assert [(part["number"], part["size"], part["etag"]) for part in client.works("--upload", upload, "parts", "big")["parts"]] == [
        (1, 5 * MIB, first), (2, MIB, second)]
    client.fails("ESTALE", "--upload", upload, "complete", "big", first, first)
    client.works("--upload", upload, "complete", "big", first, second)
    client.works("get", "big", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()
    client.fails("ENOENT", "--upload", upload, "parts", "big")
    other = client.works("create", "other")["upload_id"]
    client.works("--upload", other, "abort", "other")
    client.fails("ENOENT", "--upload", other, "--part", 1, "--size", "5M", "part", "other", file)


def test_upload(client, tmp_path):
    """Small in one request, large in parts; equal content is stored once, other content is never replaced."""
    files = {"small": write(tmp_path / "small", MIB), "large": write(tmp_path / "large", 70 * MIB)}
    words = [word for pair in files.items() for word in pair]
    assert [answer["existed"] for answer in client.lines("upload", *words)] == [False, False]
    assert [answer["existed"] for answer in client.lines("upload", *words)] == [True, True]
    for key, file in files.items():
        client.works("get", key, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == file.read_bytes()
        assert client.works("head", key)["object"]["sha256"] == sha256(file.read_bytes())
        other = write(tmp_path / "other", file.stat().st_size, seed=9)
        assert "another content" in client.fails("EEXIST", "upload", key, other)["what"]


def test_upload_goes_on_after_a_crash(ceph, client, tmp_path):
    """The process is killed after some parts; the next one sends only what is missing, and what it no longer trusts."""
    file, state = write(tmp_path / "file", 100 * MIB), tmp_path / "state"
    child = subprocess.Popen(client.command("--rate", "40M", "--state", state, "upload", "big", file))
    wait_for(lambda: state.exists() and sum(map(bool, json.loads(state.read_text())["etags"])) >= 2, 60)
    child.kill()
    child.wait()
    kept = json.loads(state.read_text())
    parts = client.works("--upload", kept["upload_id"], "parts", "big")["parts"]
    assert 2 <= len(parts) < 7
    # The caller does not know the tag of the first one any more: it is sent again.
    kept["etags"][0] = "0" * 32
    state.write_text(json.dumps(kept))
    log = ceph.directory / "run/client.rgw.log"
    before = log.stat().st_size
    client.works("--state", state, "upload", "big", file)
    with open(log, encoding="utf-8", errors="replace") as lines:
        lines.seek(before)
        sent = sorted({int(number) for number in re.findall(r"PUT [^\"]*partNumber=(\d+)", lines.read())})
    known = {part["number"] for part in parts if part["etag"] == kept["etags"][part["number"] - 1]}
    assert sent == [number for number in range(1, 8) if number not in known]
    client.works("get", "big", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()


def test_upload_that_the_service_lost(client, tmp_path):
    file, state = write(tmp_path / "file", 66 * MIB), tmp_path / "state"
    state.write_text(json.dumps({"upload_id": "2~gone", "etags": 5 * ["0" * 32]}))
    client.works("--state", state, "upload", "big", file)
    client.works("get", "big", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()


def test_gateway_is_killed(ceph, client, tmp_path):
    """An upload waits for the service, and completes."""
    file = write(tmp_path / "file", 80 * MIB)
    child = subprocess.Popen(client.command("--rate", "40M", "--state", tmp_path / "state", "upload", "big", file),
                             stdout=subprocess.PIPE, text=True)
    wait_for((tmp_path / "state").exists, 60)
    ceph.kill_gateway()
    ceph.start_gateway()
    out, _ = child.communicate(timeout=120)
    assert json.loads(out)["err"] == 0, out
    client.works("get", "big", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()


def test_refusals(ceph, client, tmp_path):
    """In the words of a real service."""
    file = write(tmp_path / "file", 1000)
    credentials = tmp_path / "credentials"
    ceph.write_credentials(credentials, "nobody", "secret")
    assert "access key is unknown" in client.fails("EACCES", "--credentials", credentials, "put", "a", file)["what"]
    ceph.write_credentials(credentials, ceph.access_key, "wrong")
    assert "aws_secret_access_key" in client.fails("EACCES", "--credentials", credentials, "put", "a", file)["remedy"]
    ceph.write_credentials(credentials, "OTHERKEY", "other-secret")
    answer = client.fails("EACCES", "--credentials", credentials, "put", "a", file)
    assert "access denied" in answer["what"] and "Allow s3:PutObject on bucket traces to the key OTHERKEY" in answer["remedy"]
    answer = client.fails("ENODEV", "--url", "s3://nowhere", "put", "a", file)
    assert "Create bucket nowhere" in answer["remedy"]
