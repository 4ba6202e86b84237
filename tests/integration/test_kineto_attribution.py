# SPDX-License-Identifier: Apache-2.0
"""Which session a file of Kineto belongs to: by the id in it, its name, its owner and its directory."""

import os
from pathlib import Path

import pytest
from daemon import Daemon
from kineto_profd import AS_NOBODY, kineto_config, needs_root, only_target, process, profctl, registered, start
from kineto_profd import make_place, start_profd  # noqa: F401 (fixtures)


def take_over(client, write):
    """write(path, id) makes the files, since the process makes none."""
    path = next(line for line in iter(lambda: client.wait_line("ACTIVITIES_LOG_FILE=(.*)")[1], None))
    identity = client.wait_line("REQUEST_TRACE_ID=(.*)")[1]
    client.wait_line("Tracing complete")
    path = Path(path.replace(".pt.trace.json", f"_{client.pid}.pt.trace.json"))
    write(path, identity)


def trace_text(identity=None):
    member = f'"trace_id": "{identity}",' if identity else ""
    return ('{"schemaVersion": 1,%s "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, '
            '"dur": 2}]}' % member)


@pytest.mark.parametrize("columns", [True, False], ids=["columns", "no-columns"])
def test_the_id_in_a_trace_counts_whatever_its_name(place, columns):
    with Daemon(place / "profd", kineto_config(place, more="" if columns else "[collect]\ncolumns=no\n")) as profd, process(place, "--no-file") as client:
        registered(profd)
        started = start(profd)
        take_over(client, lambda path, identity: (path.parent / "renamed.pt.trace.json").write_text(trace_text(identity)))
        session = profd.wait_session(started["session"])
        assert session["state"] == "complete", session
        assert [t["name"] for t in profd.traces(session=session["session"])] == ["renamed.pt.trace.json"]


def test_a_trace_without_an_id_is_taken_by_its_name(place, profd):
    """As older releases of Kineto write it."""
    with process(place, "--no-file") as client:
        registered(profd)
        started = start(profd)
        take_over(client, lambda path, identity: path.write_text(trace_text()))
        session = profd.wait_session(started["session"])
        assert session["state"] == "complete", session


@pytest.mark.parametrize("other", ["s9-w9-17-0123456789abcdef", "{}x", "{}{}"], ids=["another", "longer", "twice"])
def test_another_recordings_id_outweighs_the_name(place, profd, other):
    with process(place, "--no-file") as client:
        registered(profd)
        started = start(profd)
        take_over(client, lambda path, identity: path.write_text(trace_text(other.format(identity, identity))))
        session = profd.wait_session(started["session"])
        target = only_target(session)
        assert session["state"] == "failed" and not profd.traces(session=session["session"]), session
        assert "is another recording's, by its trace_id" in target["failure"], target


@needs_root
def test_the_id_in_a_file_of_another_user_counts_nothing(place, profd):
    """The directory is anybody's, and the id of another user's recording is in the names of its files."""

    def forge(path, identity):
        for name in (path.name, "other.pt.trace.json", f"libkineto_activities_{client.pid}.json"):
            forged = path.parent / name
            forged.write_text(trace_text(identity))
            os.chown(forged, 65533, 65533)

    with process(place, "--no-file", prefix=AS_NOBODY) as client:
        registered(profd)
        started = start(profd)
        take_over(client, forge)
        session = profd.wait_session(started["session"])
        assert session["state"] == "failed" and not profd.traces(session=session["session"])


@needs_root
def test_the_id_in_a_file_of_another_user_counts_nothing_for_root(place, profd):
    def forge(path, identity):
        path.write_text(trace_text(identity))
        os.chown(path, 65533, 65533)

    with process(place, "--no-file") as client:
        registered(profd)
        started = start(profd)
        take_over(client, forge)
        session = profd.wait_session(started["session"])
        assert session["state"] == "failed" and not profd.traces(session=session["session"])


@pytest.fixture
def default_file():
    """Kineto's default, which is in /tmp whatever the environment says."""
    files = []
    yield lambda client: files.append(Path(f"/tmp/libkineto_activities_{client.pid}.json")) or files[-1]
    for file in files:
        file.unlink(missing_ok=True)


def test_kinetos_default_file_is_found_in_a_watched_directory(place, profd, default_file):
    with process(place, "--allow", "/nowhere", traces="/tmp") as client:
        file = default_file(client)
        registered(profd)
        session = profd.wait_session(start(profd)["session"])
        assert session["state"] == "complete", session
        assert [t["origin"] for t in profd.traces(session=session["session"])] == [str(file)]


def test_kinetos_default_files_of_several_processes_are_told_apart(place, profd, default_file):
    with process(place, "--allow", "/nowhere", traces="/tmp") as one, process(place, "--allow", "/nowhere", traces="/tmp") as two:
        for client in (one, two):
            default_file(client)
        registered(profd, 2)
        session = profd.wait_session(start(profd)["session"])
        assert session["state"] == "complete", session
        found = {t["worker"]: t["origin"] for t in profd.traces(session=session["session"])}
        assert {url.split("//")[1].split(".")[0]: path for url, path in found.items()} == {
            str(client.pid): str(default_file(client)) for client in (one, two)}


def test_kinetos_default_file_elsewhere_is_named(place, profd, default_file):
    with process(place, "--allow", "/nowhere") as client:
        file = default_file(client)
        registered(profd)
        session = profd.wait_session(start(profd)["session"])
        target = only_target(session)
        assert target["failure"].startswith("recorded nothing") and str(file) in target["remedy"], target
        assert f"{place}/traces" in target["remedy"] and file.exists()
        profctl(profd, "ingest", file)
        assert [t["origin"] for t in profd.traces()] == [str(file)]
