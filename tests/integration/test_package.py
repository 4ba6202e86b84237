# SPDX-License-Identifier: Apache-2.0
"""What profd is to its host: units, sandbox, bus policy, polkit, message catalog, the installed tree and the package.

The tree is what `meson install` lays below a temporary directory, as the package's is; what systemd's own tools say of it is
what they would say on a host.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bus_daemon import BusDaemon
from daemon import BUILD, PROFD, ROOT, SANITIZED

SECURITY_MAX = 20  # tenths


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The root of an installed tree, in which the units are where systemd looks."""
    root = tmp_path_factory.mktemp("root")
    done = run("meson", "install", "-C", BUILD, "--no-rebuild", env=os.environ | {"DESTDIR": str(root)})
    assert done.returncode == 0, done.stderr
    return root


def find(root, name):
    found = [path for path in root.rglob(name) if path.is_file()]
    assert len(found) == 1, f"{name}: {found}"
    return found[0]


@pytest.fixture(scope="module")
def units(installed, tmp_path_factory):
    """Both units, as installed; their program is the one of the tree."""
    directory = tmp_path_factory.mktemp("units")
    for name in ("profd.service", "profd.socket"):
        text = find(installed, name).read_text()
        (directory / name).write_text(text.replace("ExecStart=/", f"ExecStart={installed}/"))
    return directory


def settings(path):
    """[(key, value)] of a unit or drop-in, in order."""
    lines = [line for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return [tuple(line.split("=", 1)) for line in lines]


# Units and sandbox


def test_units_are_what_systemd_takes(units):
    done = run("systemd-analyze", "verify", "--man=no", units / "profd.service", units / "profd.socket")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def exposure(service):
    done = run("systemd-analyze", "security", "--offline=yes", f"--threshold={SECURITY_MAX}", "--no-pager", service)
    return done.returncode, float(re.search(r"exposure level for .*?: ([0-9.]+)", done.stdout)[1]), done.stdout


def test_sandbox_is_tight(units, capsys):
    status, score, report = exposure(units / "profd.service")
    with capsys.disabled():
        print(f"\nsystemd-analyze security profd.service: {score}")
    assert status == 0 and score * 10 <= SECURITY_MAX, report


def test_what_is_open_is_open_for_a_reason(units):
    """What discovery, peer credentials and children need, each below a comment of its own."""
    text = (units / "profd.service").read_text()
    for line in ("ProtectProc=default", "PrivateTmp=no", "PrivateUsers=no", "RestrictSUIDSGID=no", "PrivateNetwork=no",
                 "ReadWritePaths=", "SystemCallFilter=seccomp "):
        at = text.index("\n" + line)
        before = text[:at].splitlines()
        while not before[-1].startswith("#"):
            assert before.pop(), f"{line} stands without a reason"


@pytest.mark.parametrize("name", ["collect-foreign.conf", "network.conf"])
def test_drop_ins_are_what_systemd_takes(installed, units, tmp_path, name):
    shutil.copytree(units, tmp_path, dirs_exist_ok=True)
    (tmp_path / "profd.service.d").mkdir()
    shutil.copy(find(installed, name), tmp_path / "profd.service.d")
    done = run("systemd-analyze", "verify", "--man=no", tmp_path / "profd.service")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_foreign_workers_take_two_capabilities_and_no_write(installed):
    given = settings(find(installed, "collect-foreign.conf"))
    for key in ("CapabilityBoundingSet", "AmbientCapabilities"):
        assert {value for name, value in given if name == key} == {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}
    assert ("ProtectHome", "read-only") in given and ("SystemCallFilter", "capset") in given
    assert not [name for name, _ in given if name in ("ReadWritePaths", "ProtectSystem", "User")]


def test_socket_is_of_the_group(installed):
    given = dict(settings(find(installed, "profd.socket")))
    assert (given["SocketGroup"], given["SocketMode"], given["FileDescriptorName"]) == ("profd", "0660", "http")
    service = dict(settings(find(installed, "profd.service")))
    assert given["ListenStream"] == f"/run/{service['RuntimeDirectory']}/profd.sock"
    assert service["RuntimeDirectoryPreserve"] == "yes", "the end of the service would take the socket's path with it"


# User, directories


@pytest.mark.skipif(os.geteuid() != 0, reason="systemd-tmpfiles gives directories away only as root")
def test_user_and_directories(installed, tmp_path):
    for directory in ("etc", "run", "var/lib"):
        (tmp_path / directory).mkdir(parents=True)
    for program, folder in (("systemd-sysusers", "sysusers.d"), ("systemd-tmpfiles", "tmpfiles.d")):
        conf = next(installed.rglob(f"{folder}/profd.conf"))
        done = run(program, f"--root={tmp_path}", *(["--create"] if folder == "tmpfiles.d" else []), conf)
        assert done.returncode == 0, done.stderr
    passwd = dict(line.split(":", 1) for line in (tmp_path / "etc/passwd").read_text().splitlines())
    assert passwd["profd"].endswith(":/var/lib/profd:/usr/sbin/nologin")
    assert "profd" in (tmp_path / "etc/group").read_text()
    uid = int(passwd["profd"].split(":")[1])
    for path, mode, owner in (("var/lib/profd", 0o2750, uid), ("run/profd", 0o755, uid), ("etc/profd/credentials", 0o700, 0),
                              ("run/profd/kineto", 0o1770, uid)):
        state = (tmp_path / path).stat()
        assert (state.st_mode & 0o7777, state.st_uid) == (mode, owner)
    groups = dict(line.split(":", 1) for line in (tmp_path / "etc/group").read_text().splitlines())
    assert (tmp_path / "run/profd/kineto").stat().st_gid == int(groups["profd-kineto"].split(":")[1])


# Bus and polkit


def decide(policy, user, groups, **message):
    """Whether the policy lets a message through, by the rules of dbus-daemon(1): the last that fits decides."""
    def applies(section):
        kind, value = next(iter(section.attrib.items()))
        return {"context": value == "default", "user": value == user, "group": value in groups}[kind]

    sections = sorted(filter(applies, policy), key=lambda s: ["context", "group", "user"].index(next(iter(s.attrib))))
    allowed = None
    for rule in (rule for section in sections for rule in section):
        if all(message.get(key) == value for key, value in rule.attrib.items()):
            allowed = rule.tag == "allow"
    return allowed


def test_bus_lets_the_group_read_and_everybody_ask(installed):
    policy = ElementTree.parse(find(installed, "org.profd1.conf")).getroot()

    def call(user, groups, member, interface="org.profd1.Manager"):
        return decide(policy, user, groups, send_destination="org.profd1", send_interface=interface, send_member=member)

    for member in ("ListSessions", "OpenTrace", "StartSession", "Vacuum"):
        assert call("alice", ["profd"], member) and call("root", [], member)
    for member in ("StartSession", "StopSession", "StartRun", "StopRun"):
        assert call("bob", ["users"], member)  # polkit's to refuse
    for member in ("ListSessions", "GetSession", "OpenTrace", "RemoveTrace", "Vacuum"):
        assert call("bob", ["users"], member) is False
    assert call("bob", ["users"], "GetAll", "org.freedesktop.DBus.Properties") is False
    assert decide(policy, "bob", [], receive_sender="org.profd1", receive_type="signal") is False
    assert decide(policy, "alice", ["profd"], receive_sender="org.profd1", receive_type="signal") is True
    assert decide(policy, "profd", ["profd"], own="org.profd1") and not decide(policy, "alice", ["profd"], own="org.profd1")


@pytest.mark.skipif(not shutil.which("dbus-daemon"), reason="dbus-daemon is not installed")
def test_bus_takes_the_policy(installed, tmp_path):
    """Where it could not read it, it would not start."""
    with BusDaemon(tmp_path, more=f"<include>{find(installed, 'org.profd1.conf')}</include>"):
        pass


def test_activation_starts_the_unit_where_it_is_enabled(installed):
    given = dict(settings(next(installed.rglob("system-services/org.profd1.service"))))
    assert given["Name"] == "org.profd1"
    assert ("Alias", given["SystemdService"]) in settings(find(installed, "profd.service"))


def test_polkit_asks_an_administrator_but_for_the_group(installed):
    actions = ElementTree.parse(find(installed, "org.profd1.policy")).getroot().findall("action")
    assert {action.get("id") for action in actions} == {"org.profd1.manage", "org.profd1.administer"}
    for action in actions:
        assert {choice.text.removesuffix("_keep") for choice in action.find("defaults")} == {"auth_admin"}
    rules = find(installed, "org.profd1.rules").read_text()
    for action in actions:
        assert f'"{action.get("id")}"' in rules
    assert 'subject.isInGroup("profd")' in rules


# The journal's message catalog


def catalog_entries(text):
    """{id: {field: value}}; what the entry says is under ''."""
    entries = {}
    for part in re.split(r"^-- ", text, flags=re.M)[1:]:
        name, rest = part.split("\n", 1)
        head, body = rest.split("\n\n", 1)
        entries[name] = dict(line.split(": ", 1) for line in head.splitlines()) | {"": body}
    return entries


def message_ids():
    header = (ROOT / "base/log.h").read_text()
    prefix = re.search(r'MESSAGE_ID\(\w+\)\s+"([0-9a-f]+)"', header)[1]
    return {prefix + event for event in re.findall(r'MESSAGE_ID\("([0-9a-f]+)"\)', header)}


def test_every_message_has_a_text(installed):
    entries = catalog_entries(find(installed, "profd.catalog").read_text())
    if (ROOT / "base/log.h").exists():
        assert set(entries) == message_ids()
    for name, entry in entries.items():
        assert re.fullmatch("[0-9a-f]{32}", name)
        assert entry["Subject"] and entry["Defined-By"] == "profd"
        assert len(entry[""].strip().split("\n\n")) == 2, f"{name}: what it means, and what to do"
        page, section = re.fullmatch(r"man:(.+)\((\d)\)", entry["Documentation"]).groups()
        assert (ROOT / f"docs/{page}.{section}.scd").exists()
        assert {field for field in re.findall("@(\\w+)@", entry["Subject"] + entry[""])} <= {
            "PROFD_SESSION", "PROFD_WORKER", "PROFD_TRACE"}


@pytest.mark.skipif(not shutil.which("journalctl"), reason="journalctl is not installed")
def test_journal_takes_the_catalog(installed, tmp_path):
    folder = tmp_path / "usr/lib/systemd/catalog"
    folder.mkdir(parents=True)
    (tmp_path / "var/lib/systemd/catalog").mkdir(parents=True)
    source = find(installed, "profd.catalog")
    shutil.copy(source, folder)
    done = run("journalctl", "--update-catalog", f"--root={tmp_path}")
    assert done.returncode == 0, done.stderr
    listed = run("journalctl", "--list-catalog", f"--root={tmp_path}").stdout
    for name, entry in catalog_entries(source.read_text()).items():
        assert re.search(rf"^{name} profd: {re.escape(entry['Subject'])}$", listed, re.M), listed


# Elsewhere, and without root

TRACE = {"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1000.0, "dur": 5.0, "args": {"stream": 7}}]}


@pytest.fixture
def unpacked(installed):
    """What the tarball has, somewhere, with a user's home beside it; whose that is where we are root."""
    directory = Path(tempfile.mkdtemp(prefix="profd-"))
    tree = find(installed, "profctl.1").parents[3]
    for name in ("bin", "libexec", "lib"):
        shutil.copytree(tree / name, directory / "moved" / name, symlinks=True)
    (directory / "home").mkdir()
    (directory / "home/trace.json").write_text(json.dumps(TRACE))
    if os.geteuid() == 0:
        directory.chmod(0o755)
        for path in (directory / "home", directory / "home/trace.json"):
            os.chown(path, 65534, 65534)
    yield directory
    shutil.rmtree(directory)


def test_runs_from_any_directory_without_root(unpacked):
    as_user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    environment = {"HOME": str(unpacked / "home"), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    environment |= {key: value for key, value in os.environ.items() if key.endswith("SAN_OPTIONS")}

    def user(*command):
        done = run(*command, cwd=unpacked / "home", env=environment, **as_user)
        assert done.returncode == 0, done.stderr
        return done.stdout

    profctl = unpacked / "moved/bin/profctl"
    user(profctl, "ingest", "trace.json")  # starts the profd beside it, which starts its profd-ingest
    assert "trace.json" in user(profctl, "list-traces")
    assert "gemm" in user(profctl, "query", "t1", "select name from kernel")
    catalog = unpacked / "home/.local/state/profd/catalog.db"
    assert catalog.exists()
    if SANITIZED or not shutil.which("sqlite3"):
        return  # a sanitized extension wants a sanitized sqlite3
    extension = next((unpacked / "moved/lib").rglob("profd_trace.so")).with_suffix("")
    assert user("sqlite3", catalog, f".load {extension}", "select name, dur from kernel").strip() == "gemm|5000"


# The page


@pytest.mark.skipif(not (BUILD / "web/dist").is_dir(), reason="this build has no page")
def test_a_page_that_was_bundled_before_is_only_read(tmp_path):
    """As it is in web/dist, where there is no esbuild: the program has the same page, and nothing is left beside it."""
    source, made = tmp_path / "source", tmp_path / "build"
    shutil.copytree(BUILD / "web/dist", source / "dist")
    made.mkdir()
    before = sorted(source.rglob("*"))
    done = run(sys.executable, ROOT / "web/embed.py", "table", source / "dist", made / "web_assets.c", made / "web_assets.S")
    assert done.returncode == 0, done.stderr
    assert sorted(source.rglob("*")) == before
    assert (made / "web_assets.c").read_bytes() == (BUILD / "web/web_assets.c").read_bytes()


# The package


def test_package_and_program_have_one_version():
    changelog = (ROOT / "debian/changelog").read_text()
    version = json.loads(run("meson", "introspect", "--projectinfo", BUILD).stdout)["version"]
    assert re.match(r"profd \(([^)]+)\)", changelog)[1] == version


def test_package_is_built_of_what_the_build_needs():
    """Whatever `dev` installs for building, but for compilers and what is there on every Debian that builds packages."""
    dev = re.search(r'BUILD_PACKAGES="([^"]+)"', (ROOT / "dev").read_text())[1].split()
    control = (ROOT / "debian/control").read_text()
    depends = set(re.findall(r"[a-z0-9.+-]+", re.search(r"Build-Depends:(.*?)\n\n", control, re.S)[1]))
    assert set(dev) - depends <= {"gcc", "clang", "libclang-rt-14-dev", "ninja-build"}


def built_package():
    return next(iter(sorted((ROOT / "build-package").glob("profd_*.deb"))), None)


@pytest.mark.skipif(built_package() is None, reason="no package was built by ./dev package")
def test_package_has_what_is_installed(installed):
    listed = run("dpkg-deb", "--contents", built_package()).stdout
    packaged = {line.split()[5].removesuffix(".gz") for line in listed.splitlines() if not line.startswith("d")}
    assert {"./etc/profd/profd.conf", "./usr/bin/profd", "./usr/bin/profctl", "./usr/libexec/profd/profd-ingest",
            "./usr/libexec/profd/profd-load"} <= packaged
    names = {Path(path).name for path in packaged}
    assert {path.name for path in installed.rglob("*") if path.is_file()} <= names
