# SPDX-License-Identifier: Apache-2.0
"""Archives in a shared directory: the same requests as to a bucket, files that appear complete or not at all."""
import concurrent.futures
import json
import os
import random
import subprocess
import time

import pytest

from archive_client import ArchiveClient, sha256
from daemon import wait_for

MIB = 1 << 20


@pytest.fixture(name="root")
def make_root(tmp_path):
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


@pytest.fixture(name="client", params=["blocking", "loop"])
def make_client(root, request):
    return ArchiveClient(f"file://{root}", *(["--loop"] if request.param == "loop" else []))


def write(path, size, seed=1):
    path.write_bytes(random.Random(seed).randbytes(size))
    return path


def visible(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and ".profd-" not in str(path))


@pytest.mark.smoke
def test_objects(root, client, tmp_path):
    file = write(tmp_path / "file", 100_000)
    keys = ["a", "a-b", "a/b", "date=2026-11-22/x:y.gz", "b c/ü.json"]
    keys.remove("a/b")  # "a" is a file
    for key in keys:
        assert client.works("--exclusive", "put", key, file)["object"]["sha256"] == sha256(file.read_bytes())
        client.fails("EEXIST", "--exclusive", "put", key, file)
        client.works("put", key, file)
        assert client.works("head", key)["object"]["size"] == 100_000
        client.works("get", key, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == file.read_bytes()
        client.works("--offset", 10, "--size", 20, "get", key, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == file.read_bytes()[10:30]
        client.fails("ERANGE", "--offset", "1M", "--size", 1, "get", key, tmp_path / "copy")
    assert visible(root) == sorted(keys)
    assert [entry["key"] for entry in client.works("list")["objects"]] == sorted(keys)
    assert [entry["key"] for entry in client.works("list", "b")["objects"]] == ["b c/ü.json"]
    for key in keys:
        client.works("delete", key)
        client.works("delete", key)
        client.fails("ENOENT", "get", key, tmp_path / "copy")


def test_pages(root, client):
    """In the order of a bucket: by the bytes of the entire key."""
    keys = ["a-1", "a.x/1", "a/1", "a/2/3", "a0", "b/c/d", "b/d"]
    for key in keys:
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_text(key)
    (root / "link").symlink_to("/etc/passwd")
    (root / "up").symlink_to("/etc")
    found, after, skipped = [], [], 0
    while True:
        page = client.works("--max", 2, *after, "list")
        found += [entry["key"] for entry in page["objects"]]
        if "next" not in page:
            break
        after = ["--after", page["next"]]
    assert found == sorted(keys)


def test_links_lead_nowhere(root, client, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_text("x")
    (root / "link").symlink_to(tmp_path / "secret/file")
    (root / "up").symlink_to(tmp_path / "secret")
    for key in ("link", "up/file"):
        client.fails("ENOENT", "get", key, tmp_path / "copy")
    assert client("put", "up/new", write(tmp_path / "file", 10))["err"] < 0
    assert os.listdir(tmp_path / "secret") == ["file"]
    for key in ("../secret/file", "/etc/passwd", "a/../b", ".profd-tmp/x", "a//b", ""):
        client.fails("EINVAL", "get", key, tmp_path / "copy")


def test_one_of_many_writers(client, tmp_path):
    files = [write(tmp_path / f"file{number}", 500_000, seed=number) for number in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda file: client("--exclusive", "put", "one", file), files))
    assert sorted(answer.get("error", "") for answer in answers) == [""] + 7 * ["EEXIST"]


def test_upload(root, client, tmp_path):
    files = {"small": write(tmp_path / "small", MIB), "large": write(tmp_path / "large", 70 * MIB)}
    words = [word for pair in files.items() for word in pair]
    assert [answer["existed"] for answer in client.lines("upload", *words)] == [False, False]
    assert [answer["existed"] for answer in client.lines("upload", *words)] == [True, True]
    for key, file in files.items():
        assert (root / key).read_bytes() == file.read_bytes()
        other = write(tmp_path / "other", file.stat().st_size, seed=9)
        if client.works("head", key)["object"]["sha256"]:
            client.fails("EEXIST", "upload", key, other)
        other = write(tmp_path / "longer", file.stat().st_size + 1, seed=9)
        client.fails("EEXIST", "upload", key, other)
    assert os.listdir(root / ".profd-tmp") == []


def test_upload_goes_on_after_a_crash(root, client, tmp_path):
    """Nothing is visible before it is complete."""
    file, state = write(tmp_path / "file", 100 * MIB), tmp_path / "state"
    child = subprocess.Popen(client.command("--rate", "40M", "--state", state, "upload", "big", file))
    wait_for(lambda: state.exists() and sum(map(bool, json.loads(state.read_text())["etags"])) >= 2, 60)
    child.kill()
    child.wait()
    assert visible(root) == []
    upload = json.loads(state.read_text())["upload_id"]
    parts = root / f".profd-tmp/parts-{upload}"
    before = len(parts.read_text().splitlines())
    with open(parts, "a", encoding="ascii") as notes:
        notes.write("9 5")  # what a crash cut
    temporary = (root / f".profd-tmp/upload-{upload}").stat().st_ino
    client.works("--state", state, "upload", "big", file)
    assert before >= 2 and (root / "big").read_bytes() == file.read_bytes()
    assert (root / "big").stat().st_ino == temporary and os.listdir(root / ".profd-tmp") == []


def test_damaged_file(root, client, tmp_path):
    """The hash that was stored with it, or the caller's."""
    file = write(tmp_path / "file", 100_000)
    client.works("put", "a", file)
    with open(root / "a", "r+b") as damaged:
        damaged.write(b"oops")
    answer = client.fails("EBADMSG", "--sha256", sha256(file.read_bytes()), "get", "a", tmp_path / "copy")
    assert "SHA-256" in answer["what"]


def test_old_temporary_files_are_removed(root, client, tmp_path):
    (root / ".profd-tmp").mkdir()
    old, new = root / ".profd-tmp/put-0000000000000000", root / ".profd-tmp/put-1111111111111111"
    for path in (old, new):
        path.write_text("x")
    os.utime(old, (time.time() - 8 * 86400,) * 2)
    client.works("put", "a", write(tmp_path / "file", 10))
    assert not old.exists() and new.exists()


def test_refusals(root, client, tmp_path):
    file = write(tmp_path / "file", 1000)
    answer = client.fails("ENODEV", "--url", f"file://{tmp_path}/absent", "put", "a", file)
    assert "Mount or create" in answer["remedy"]
    client.fails("ESTALE", "--sha256", sha256(b"x"), "put", "a", file)
    assert visible(root) == [] and os.listdir(root / ".profd-tmp") == []
    client.works("put", "a", file)
    client.fails("EFBIG", "--size-max", 10, "get", "a", tmp_path / "copy")
    client.fails("ENOENT", "--upload", "../../etc", "abort", "a")


def test_full(root, client, tmp_path):
    """A full file system of its own, in a mount namespace: an error, and nothing left."""
    file = write(tmp_path / "file", 2 * MIB)
    script = f"mount -t tmpfs -o size=1M none {root} && \"$@\"; find {root} -type f | wc -l"
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", *client.command("put", "a", file)], capture_output=True,
                          text=True, timeout=60, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount namespace: {done.stderr.strip()}")
    answer, files = done.stdout.splitlines()
    assert '"ENOSPC"' in answer and files == "0"
