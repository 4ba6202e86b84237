# SPDX-License-Identifier: Apache-2.0
"""A throw-away Debian 12 with systemd as its process 1, to use profd in as an administrator and as users do.

    with Machine(base_root(), directory) as machine:
        machine.put(package, "/root")
        machine("apt-get", "install", "./profd.deb")
        machine.as_user("alice", "profctl", "list-sessions")

Every machine is systemd-nspawn over an overlay of one cached root, in a mount namespace of its own: whatever becomes of
the test, nothing stays mounted and no process stays. Its network is a private loopback.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PROFD_BUILD", ROOT / "build")).resolve()
CACHE = ROOT / ".cache/boot"

SUITE = "bookworm"
# What profd.deb depends on is among them, so that it installs without a network.
PACKAGES = """systemd systemd-sysv dbus polkitd sqlite3 curl adduser util-linux
  libcurl4 libedit2 libevent-2.1-7 libevent-openssl-2.1-7 libevent-pthreads-2.1-7 libevhtp0 libinih1 libisal2
  libjansson4 libonig5 libseccomp2 libsqlite3-0 libssl3 libsystemd0 libyaml-0-2 libzstd1 zlib1g""".split()
# alice will be a member of group profd, mallory of no group; the workers run as worker.
USERS = ("alice", "mallory", "worker")

BOOT_S = 60
END_S = 60
COMMAND_S = 120
OVERLAY_SIZE = "2G"  # at most; of memory
HALT = "SIGRTMIN+3"  # what systemd takes for an order to shut down
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def wait_for(what, timeout_s=60, interval_s=0.05, why=None):
    """Calls what() until it gives something true, which is returned."""
    deadline = time.monotonic() + timeout_s
    while not (found := what()):
        assert time.monotonic() < deadline, why() if callable(why) else why or f"not within {timeout_s} s"
        time.sleep(interval_s)
    return found


def base_root():
    """The directory of a Debian with the packages and users, made once for each list of them."""
    hooks = [f"useradd --create-home --shell /bin/bash {user}" for user in USERS]
    # Not a first boot, which would enable every unit there is.
    customize = [f'chroot "$1" {hook}' for hook in hooks] + [': > "$1/etc/machine-id"', 'rm -f "$1/usr/sbin/policy-rc.d"']
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=apt", "--dpkgopt=force-unsafe-io",
               "--include=" + ",".join(PACKAGES), *(f"--customize-hook={hook}" for hook in customize), SUITE]
    CACHE.mkdir(parents=True, exist_ok=True)
    root = CACHE / f"root-{hashlib.sha256(repr(command).encode()).hexdigest()[:12]}"
    with open(CACHE / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            for old in CACHE.glob("root-*"):
                shutil.rmtree(old)
            new = CACHE / "new"
            shutil.rmtree(new, ignore_errors=True)
            subprocess.run([*command, new], check=True, stdin=subprocess.DEVNULL)
            new.rename(root)
    return root


def make_groups(name):
    """A cgroup of its own for each machine, below this process's: systemd takes those that it finds there for its own."""
    groups = []
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        mount = {"name=systemd": "systemd", "": "unified" if Path("/sys/fs/cgroup/unified").is_dir() else "."}.get(controllers)
        if mount:
            groups.append(Path("/sys/fs/cgroup", mount, path.lstrip("/"), name))
            groups[-1].mkdir()
    return groups


def remove_groups(groups):
    for group in groups:
        for directory, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):  # a machine that was killed is still going
                os.rmdir(directory)


class Failed(AssertionError):
    def __init__(self, done):
        super().__init__(f"{done.args[0]}: exit status {done.returncode}\n{done.stdout}{done.stderr}")


class Machine:
    """`binds` maps directories of the machine to those of the host that are seen there, read-only."""

    running = set()

    def __init__(self, root, directory, binds=None):
        self.base, self.directory, self.binds = Path(root), Path(directory), binds or {}
        self.directory.mkdir(parents=True, exist_ok=True)
        self.holder = self.nspawn = self.leader = None
        self.groups = []

    def __enter__(self):
        try:
            self._mount()
            self.boot()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exception):
        self._end()

    # Its disk and its power

    def _mount(self):
        """The mounts live as long as the holder, which ends with its standard input, hence with this process."""
        try:
            self.groups = make_groups(f"profd-boot-{os.getpid()}-{id(self):x}")
        except OSError as error:
            raise Impossible(f"no cgroup can be made here: {error}") from error
        script = (f'mount -t tmpfs -o size={OVERLAY_SIZE},mode=755 boot "$1" && mkdir "$1/upper" "$1/work" "$1/root" && '
                  # Where nspawn keeps things by a machine's name.
                  'mkdir -p /run/systemd && mount -t tmpfs -o mode=755 run /run/systemd && '
                  'mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" boot "$1/root" && '
                  'echo mounted && read -r _')
        self.holder = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "/bin/bash", "-c", script, "bash",
                                        self.directory, self.base], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "mounted\n":
            raise Impossible("no overlay can be mounted here: " + self.holder.communicate()[1].strip())

    def _nspawn(self, *arguments):
        binds = [f"--bind-ro={source}:{target}" for target, source in self.binds.items()]
        enter = 'for group in $0; do echo $$ >"$group/cgroup.procs" || exit; done; exec "$@"'
        return ["setpriv", "--pdeathsig", "TERM", "/bin/sh", "-c", enter, " ".join(map(str, self.groups)),
                "nsenter", "-t", str(self.holder.pid), "-m", "--", "systemd-nspawn",
                "--quiet", "--keep-unit", "--register=no", "--private-network", "--machine=profd-boot",
                f"--kill-signal={HALT}", "--console=pipe", *binds, "-D", str(self.directory / "root"), *arguments]

    def probe(self):
        """Whether there can be a container at all, whatever it is for."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._end)
            self._mount()
            done = subprocess.run(self._nspawn("/bin/true"), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=BOOT_S, check=False)
            if done.returncode != 0:
                raise Impossible("systemd-nspawn cannot run here: " + done.stderr.strip())

    def boot(self):
        """Returns when everything that is enabled has been started."""
        address = self.directory.with_suffix(".notify")
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, open(self.console, "ab") as console:
            notify.bind(str(address))
            notify.settimeout(BOOT_S)
            self.nspawn = subprocess.Popen(self._nspawn("--notify-ready=yes", "--boot"), stdin=subprocess.DEVNULL,
                                           stdout=console, stderr=console, start_new_session=True,
                                           env={**os.environ, "NOTIFY_SOCKET": str(address)})
            self._await_ready(notify)
        self.running.add(self)

    def _await_ready(self, notify):
        while True:
            try:
                words = dict(line.split("=", 1) for line in notify.recv(4096).decode().splitlines() if "=" in line)
            except TimeoutError:
                raise AssertionError(f"did not boot within {BOOT_S} s:\n{self.console_text()}") from None
            self.leader = words.get("X_NSPAWN_LEADER_PID", self.leader)
            if words.get("READY") == "1" and self.leader:
                return

    @property
    def console(self):
        return self.directory.with_suffix(".console")

    def console_text(self):
        return self.console.read_text(errors="replace")

    def power_off(self):
        """An orderly shutdown. Its disk can be looked at afterwards, and it can boot again."""
        self.running.discard(self)
        self.nspawn.send_signal(signal.SIGTERM)  # nspawn sends HALT to its process 1
        self.nspawn.wait(END_S)
        self.nspawn = self.leader = None

    def disk(self, path):
        """A file of the machine, as the host sees it."""
        return Path(f"/proc/{self.holder.pid}/root{self.directory}/root") / str(path).lstrip("/")

    def _end(self):
        self.running.discard(self)
        if self.leader:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(self.leader), signal.SIGKILL)  # its process 1, and with it every process of the machine
        if self.nspawn:
            self.nspawn.terminate()
            self.nspawn.wait(END_S)
        if self.holder:
            self.holder.stdin.close()
            self.holder.wait(END_S)
            self.holder.stdout.close()
            self.holder.stderr.close()
        remove_groups(self.groups)
        self.nspawn = self.leader = self.holder = None

    # What is done in it

    def run(self, *command, user="root", check=True, timeout_s=COMMAND_S, stdin=None, cwd="/"):
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user != "root" else []
        home = "/root" if user == "root" else f"/home/{user}"
        done = subprocess.run(["nsenter", "-t", self.leader, "-m", "-u", "-i", "-n", "-p", "-C", f"--wd={cwd}", "--", *become,
                               "env", "-i", f"PATH={PATH}", f"HOME={home}", f"USER={user}", "LANG=C.UTF-8",
                               *map(str, command)],
                              input=stdin, stdin=subprocess.DEVNULL if stdin is None else None, capture_output=True, text=True,
                              timeout=timeout_s, check=False)
        done.args = [" ".join(map(str, command))]
        if check and done.returncode != 0:
            raise Failed(done)
        return done

    def __call__(self, *command, **how):
        """What a command that must succeed prints."""
        return self.run(*command, **how).stdout

    def as_user(self, user, *command, **how):
        return self.run(*command, user=user, **how).stdout

    def refused(self, user, *command, **how):
        """What a command says that must fail."""
        done = self.run(*command, user=user, check=False, **how)
        assert done.returncode != 0, f"{user} may: {done.args[0]}\n{done.stdout}"
        return done.stdout + done.stderr

    def put(self, source, directory):
        """Copies a file of the host into a directory of the machine, and gives its path there."""
        self.write(f"{directory}/{Path(source).name}", Path(source).read_bytes())
        return f"{directory}/{Path(source).name}"

    def write(self, path, content, mode=0o644):
        # Through process 1: what it has mounted over the disk is in the way else.
        there = Path(f"/proc/{self.leader}/root{path}")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(content if isinstance(content, bytes) else content.encode())
        there.chmod(mode)

    def show(self, unit, *properties):
        """Properties of a unit, as a dict."""
        text = self("systemctl", "show", unit, *(f"-p{name}" for name in properties))
        return dict(line.split("=", 1) for line in text.splitlines())

    def journal(self, *arguments, check=True):
        return self.run("journalctl", "--no-pager", "--quiet", "-o", "cat", *arguments, check=check).stdout


class Impossible(Exception):
    """This host cannot run containers."""
