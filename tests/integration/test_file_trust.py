# SPDX-License-Identifier: Apache-2.0
"""What profd opens: nothing that lies in the place of a trace leads it elsewhere, holds it up, or becomes more than text."""

import os
import socket
import tempfile
import time
from pathlib import Path

import pytest

from daemon import BUILD, Daemon, FaultFleet, wait_for
from test_collect import NAME, config, made_trace, record
from patience import patience

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
WORKER, VICTIM = 54321, 54322
KERNELS = pytest.mark.parametrize("environment", [{}, {"LD_PRELOAD": str(BUILD / "tests/integration/libfake-no-openat2.so")}],
                                  ids=["openat2", "no-openat2"])


def rank(n):
    return f"rank{n}.1700000000000000000.pt.trace.json.gz"


def watching(tmp_path, place, **more):
    return Daemon(tmp_path / "profd", config(settle="300ms", collect=f"watch={place}"), **more)


def make_link(path, tmp_path):
    secret = tmp_path / "secret.json.gz"
    secret.write_bytes(made_trace(secret=1))
    path.symlink_to(secret)


def make_socket(path, tmp_path):
    with socket.socket(socket.AF_UNIX) as s:
        os.chdir(path.parent)  # its whole name is longer than a socket's address
        s.bind(path.name)
        os.chdir("/")


def make_device(path, tmp_path):
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero


KINDS = {
    "a symbolic link": make_link,
    "a named pipe": lambda path, tmp_path: os.mkfifo(path),
    "a socket": make_socket,
    "a directory": lambda path, tmp_path: path.mkdir(),
    "a device": make_device,
}


@KERNELS
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file(tmp_path, kind, environment):
    if kind == "a device" and os.getuid() != 0:
        pytest.skip("needs root: makes a device")
    place = tmp_path / "place"
    place.mkdir()
    with watching(tmp_path, place, environment=environment) as profd:
        try:
            KINDS[kind](place / rank(1), tmp_path)
        except PermissionError:
            pytest.skip("devices cannot be made here")
        (place / rank(2)).write_bytes(made_trace())
        wait_for(lambda: f"{place / rank(1)} is {kind}: not collected" in profd.log(), why=profd.log)
        wait_for(lambda: profd.traces())
        (trace,) = profd.traces()
        assert trace["name"] == rank(2) and trace["owner_uid"] == os.getuid()
        events = profd.rows("select text from events where kind = 'trace-refused'")
        assert [e["text"] for e in events] == [f"{place / rank(1)} is {kind}: not collected"]


@KERNELS
def test_a_directory_that_is_swapped_again_and_again(tmp_path, environment):
    """Between listing it and opening what it lists, a link to another directory with the same names takes its place."""
    place, aside, victims = tmp_path / "place", tmp_path / "aside", tmp_path / "victims"
    place.mkdir()
    victims.mkdir()
    secrets = set()
    with watching(tmp_path, place, environment=environment) as profd:
        wait_for(lambda: profd.get("/v1/usage"))
        time.sleep(0.5)  # of the first look
        end = time.monotonic() + 4
        n = 0
        while time.monotonic() < end:
            if n < 20:
                (place / rank(n)).write_bytes(made_trace(mine=n))
                (victims / rank(n)).write_bytes(made_trace(secret=n))
                secrets.add((victims / rank(n)).stat().st_ino)
                n += 1
            place.rename(aside)
            place.symlink_to(victims)
            time.sleep(0.01)
            place.unlink()
            aside.rename(place)
            time.sleep(0.02)
        place.rename(aside)
        place.symlink_to(victims)
        wait_for(lambda: f"{place} was swapped: by a symbolic link it leads to {victims} instead of" in profd.log(), why=profd.log)
        place.unlink()
        aside.rename(place)
        (place / rank(200)).write_bytes(made_trace(mine=200))
        wait_for(lambda: any(t["name"] == rank(200) for t in profd.traces(limit=1000)), 120, why=profd.log)
        for trace in profd.traces(limit=1000):
            content = profd.request("GET", f"/v1/traces/{trace['trace']}/file").body
            assert content == (aside if aside.exists() else place).joinpath(trace["name"]).read_bytes(), trace


@KERNELS
def test_a_recording(tmp_path, environment):
    with FaultFleet(tmp_path / "fleet", "vllm", 2) as fleet, \
            Daemon(tmp_path / "profd", config(), environment=environment) as profd:
        session = record(profd, fleet)
        assert session["state"] == "complete", (session, profd.log())


@needs_root
def test_links_of_others_on_the_way(tmp_path):
    """A link leads to what its own user has; one of root to everything."""
    own, victims = tmp_path / "own", tmp_path / "victims"
    for place, uid in ((own, WORKER), (victims, VICTIM)):
        place.mkdir()
        os.chown(place, uid, uid)
        (place / rank(uid)).write_bytes(made_trace(uid=uid))
        os.chown(place / rank(uid), uid, uid)
    for name, to in (("to-own", own), ("to-victims", victims)):
        (tmp_path / name).symlink_to(to)
        os.lchown(tmp_path / name, WORKER, WORKER)
    (tmp_path / "of-root").symlink_to(victims)
    watches = "\n".join(f"watch={tmp_path / name}" for name in ("to-own", "to-victims", "of-root"))
    with Daemon(tmp_path / "profd", config(settle="300ms", collect=watches)) as profd:
        wait_for(lambda: len(profd.traces()) == 2, why=profd.log)
        why = f"{tmp_path}/to-victims is reached by a symbolic link of uid {WORKER}, and belongs to uid {VICTIM}: nothing in it is"
        wait_for(lambda: why in profd.log(), why=profd.log)
        origins = {trace["origin"]: trace["owner_uid"] for trace in profd.traces()}
        assert origins == {f"{tmp_path}/to-own/{rank(WORKER)}": WORKER, f"{tmp_path}/of-root/{rank(VICTIM)}": VICTIM}


API_STALL_S = 0.5


def test_names_without_end(tmp_path):
    """Each is looked at, a few are named, and profd answers others meanwhile."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as place:
        for n in range(60_000):
            os.symlink("nowhere", f"{place}/{rank(n)}")
        slowest = 0
        with watching(tmp_path, place) as profd:
            deadline = time.monotonic() + patience(60)
            while f"more files in {place} are not collected" not in profd.log() and time.monotonic() < deadline:
                begin = time.monotonic()
                profd.get("/v1/version")
                slowest = max(slowest, time.monotonic() - begin)
            Path(place, rank("-of-all")).write_bytes(made_trace())
            wait_for(profd.traces, why=profd.log)
            assert profd.rows("select count(*) as n from events where kind = 'trace-refused'") == [{"n": 16}]
            assert profd.log().count(": not collected") == 16
            assert slowest < patience(API_STALL_S), f"the API did not answer for {slowest} s"


def removing(tmp_path, place, first="", second=""):
    """Removes originals; first and second are exchanged when it is about to."""
    preloaded = [str(BUILD / "tests/integration/libfake-swap.so")]
    return Daemon(tmp_path / "profd", config(settle="300ms", collect=f"watch={place}\nremove_original=yes"),
                  environment={"LD_PRELOAD": " ".join(preloaded), "SWAP_FIRST": str(first), "SWAP_SECOND": str(second)})


def appear(path, content, uid):
    beside = path.parent.parent / "unfinished"
    beside.write_bytes(content)
    os.chown(beside, uid, uid)
    beside.rename(path)


@pytest.fixture
def workers_place(tmp_path):
    """Of the worker, where this may be."""
    place = tmp_path / "place"
    place.mkdir()
    if os.getuid() == 0:
        os.chown(place, WORKER, WORKER)
    return place, WORKER if os.getuid() == 0 else os.getuid()


def test_an_original_is_removed(tmp_path, workers_place):
    place, uid = workers_place
    with removing(tmp_path, place) as profd:
        appear(place / rank(1), made_trace(), uid)
        wait_for(profd.traces, why=profd.log)
        wait_for(lambda: not list(place.iterdir()), why=profd.log)


def test_an_original_whose_directory_is_swapped(tmp_path, workers_place):
    """Between comparing it and removing it, a link to another directory takes the place of its own."""
    place, uid = workers_place
    victims, link = tmp_path / "victims", tmp_path / "link"
    victims.mkdir()
    (victims / rank(1)).write_bytes(b"precious")
    link.symlink_to(victims)
    with removing(tmp_path, place, place, link) as profd:
        appear(place / rank(1), made_trace(), uid)
        wait_for(profd.traces, why=profd.log)
        wait_for(lambda: link.is_dir() and not link.is_symlink() and not list(link.iterdir()), why=profd.log)
        assert (victims / rank(1)).read_bytes() == b"precious"


def test_an_original_that_is_swapped(tmp_path, workers_place):
    """Between comparing it and removing it, another file takes its name: that one stays, under its name."""
    place, uid = workers_place
    other = tmp_path / "other"
    other.write_bytes(b"precious")
    with removing(tmp_path, place, place / rank(1), other) as profd:
        appear(place / rank(1), made_trace(), uid)
        wait_for(profd.traces, why=profd.log)
        wait_for(lambda: other.exists() and other.read_bytes() != b"precious", why=profd.log)
        appear(place / rank(2), made_trace(next=1), uid)
        wait_for(lambda: len(profd.traces()) >= 2 and not (place / rank(2)).exists(), why=profd.log)
        assert [(path.name, path.read_bytes()) for path in place.iterdir()] == [(rank(1), b"precious")]


@needs_root
def test_an_original_is_removed_by_its_owners_rights(tmp_path):
    """In a directory that its owner cannot change it stays, though profd is root."""
    place = tmp_path / "place"
    place.mkdir(mode=0o755)
    with removing(tmp_path, place) as profd:
        appear(place / rank(1), made_trace(), WORKER)
        wait_for(lambda: f"cannot remove {place / rank(1)}, which was copied: Permission denied" in profd.log(), why=profd.log)
        assert (place / rank(1)).exists()
        # The thread that did this has its own rights again.
        for n in range(2, 6):
            appear(place / rank(n), made_trace(n=n), 0)
        wait_for(lambda: [path.name for path in place.iterdir()] == [rank(1)], why=profd.log)


NAMES = [b"rank1\nERROR fake line.pt.trace.json.gz", b"rank2\x1b[31m.pt.trace.json.gz", b"rank3\xff\xfe.pt.trace.json.gz",
         b"rank4" + b"a" * (255 - 5 - len(b".pt.trace.json.gz")) + b".pt.trace.json.gz", b"rank5.%n%s.pt.trace.json.gz",
         "rank6\u202e\u2066.pt.trace.json.gz".encode(), b"-rank7.pt.trace.json.gz", b"rank8' OR 1=1;--.pt.trace.json.gz"]


def test_names_that_are_more_than_text(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    with watching(tmp_path, place) as profd:
        for i, name in enumerate(NAMES):
            Path(os.fsdecode(bytes(place) + b"/" + name)).write_bytes(made_trace(i=i))
        wait_for(lambda: len(profd.traces(limit=100)) == len(NAMES), why=profd.log)
        for trace in profd.traces(limit=100):
            plain = not any(ord(c) < 32 for c in trace["name"])
            assert trace["state"] == "complete" and trace["stored"] == plain, trace
            assert plain or trace["reason"] == "left in place: its name contains control characters"
            assert profd.request("GET", f"/v1/traces/{trace['trace']}").status == 200
            reply = profd.request("GET", f"/v1/traces/{trace['trace']}/file")
            assert reply.status == 200 and not any(ord(c) < 32 for value in reply.headers.values() for c in value)
        assert "ERROR fake line" not in [line.strip() for line in profd.log().splitlines()]
        assert not any(line.startswith("ERROR") for line in profd.log().splitlines()) and "\x1b" not in profd.log()
        assert profd.rows("select count(*) as n from traces")[0]["n"] == len(NAMES)


@needs_root
def test_a_reference_that_changed_hands(tmp_path):
    """What was left in place is not given out, nor read again, once it is another user's."""
    place, victims = tmp_path / "place", tmp_path / "victims"
    victims.mkdir()
    place.mkdir()
    content = made_trace()
    (place / NAME).write_bytes(content)
    os.chown(place / NAME, WORKER, WORKER)
    (victims / NAME).write_bytes(made_trace(secret=1))
    os.chown(victims / NAME, VICTIM, VICTIM)
    with Daemon(tmp_path / "profd", config(settle="300ms", collect=f"mode=reference\nwatch={place}")) as profd:
        wait_for(profd.traces)
        assert profd.request("GET", "/v1/traces/t1/file").body == content
        place.rename(tmp_path / "aside")
        place.symlink_to(victims)
        problem = profd.problem("GET", "/v1/traces/t1/file", status=403)
        assert "belongs to another user" in problem["detail"]
