#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The main job, for real: three workers that compute behind a router, requests while profd records all of them, what
profd then knows, and a load that it measures. Nothing here is mocked; `./dev demo` runs it.

It ends with the address of the web page, and on a terminal serves the page until Ctrl-C, for an hour at most.

With --stay it only starts workers, router, requests and profd, prints what to set in another terminal (docs/tutorial.md), and
waits for Ctrl-C, for an hour at most.

Everything it makes lies in DIR (build/demo by default), which it empties first. It ends only what it started.
"""
import argparse
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

from fleet import Fleet
from patience import patience

ROOT = pathlib.Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 10
STAY_S = 3600


def heading(text):
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


class Demo:
    def __init__(self, build, directory):
        self.bin = {name: str(build / place) for name, place in
                    {"profd": "daemon/profd", "profctl": "client/profctl"}.items()}
        self.state = directory / "state"
        self.socket = directory / "profd.sock"
        self.env = {**os.environ, "PROFD_SOCKET": str(self.socket)}
        self.failed = False

    def start_profd(self, directory):
        # stderr, where profd logs, goes to a file: the screen belongs to what a user types.
        with open(directory / "profd.log", "wb") as log:
            child = subprocess.Popen([self.bin["profd"], "--state-dir", str(self.state), "--socket", str(self.socket)],
                                     stdin=subprocess.DEVNULL, stderr=log)
        deadline = time.monotonic() + patience(READY_TIMEOUT_S)
        while not self.socket.exists():
            if child.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"profd did not start:\n{(directory / 'profd.log').read_text()}")
            time.sleep(0.02)
        return child

    def type(self, *command):
        """Shows a command as a user would type it, and runs it."""
        print(f"\n$ {shlex.join(command)}", flush=True)
        status = subprocess.run([self.bin.get(command[0], command[0]), *command[1:]], env=self.env, check=False).returncode
        if status != 0:
            print(f"(exit status {status})", flush=True)
            self.failed = True
        return status

    def newest(self, column, view, condition="true"):
        query = f"select max({column}) from {view} where {condition}"
        result = subprocess.run(["sqlite3", "-readonly", str(self.state / "catalog.db"), query],
                                capture_output=True, text=True, check=True)
        return result.stdout.strip()


def run(demo, directory, fleet, router, seconds):
    heading("List the workers and check everything")
    demo.type("profctl", "list-workers", "--router", router.url)
    demo.type("profctl", "doctor", "--router", router.url)

    heading("Record all of them together, while requests run")
    load = fleet.start_load(router.url, seconds + 12, 4)
    time.sleep(1)
    demo.type("profctl", "start", "--router", router.url, "--duration", f"{seconds}s", "--label", "purpose=demo", "--wait")
    load.end()

    heading("The traces")
    demo.type("profctl", "list-traces")
    trace = demo.newest("trace_id", "traces", "kind = 'trace'")  # not the tables that vLLM writes beside them
    session = demo.newest("session_id", "sessions")
    if trace:
        demo.type("profctl", "show", f"t{trace}")
        demo.type("profctl", "get", f"s{session}", "-d", str(directory / "traces-of-the-session"))
        demo.type("profctl", "analyze", f"t{trace}")
    demo.type("profctl", "list-sessions")

    heading("Measure user-visible latency")
    demo.type("profctl", "bench", "--router", router.url, "--isl", "32", "--osl", "8", "--concurrency", "6", "--requests", "24")

    heading("Query the catalog")
    demo.type("sqlite3", "-readonly", "-box", str(demo.state / "catalog.db"),
              "select trace_id, worker, state, size, events, span_ns / 1000000 as span_ms from traces "
              "order by events desc limit 5")
    return trace


def show_page(demo):
    """The address of the page, and the page until Ctrl-C if somebody looks; else proof that it is there."""
    heading("See all of it in a browser")
    print("\n$ profctl web", flush=True)
    with subprocess.Popen([demo.bin["profctl"], "web", "--no-browser"], env=demo.env, stdout=subprocess.PIPE, text=True) as page:
        url = page.stdout.readline().strip()
        print(url, flush=True)
        try:
            if not url:
                demo.failed = True
            elif sys.stdin.isatty() and sys.stdout.isatty():
                page.wait(STAY_S)
            else:
                with urllib.request.urlopen(url, timeout=patience(READY_TIMEOUT_S)) as answer:
                    demo.failed |= b"<title>profd" not in answer.read()
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            pass
        page.terminate()


def stay(demo, fleet, router):
    """For whoever types the commands: until Ctrl-C, or for STAY_S."""
    load = fleet.start_load(router.url, STAY_S, 4)
    heading("Running. In another terminal:")
    print(f"  export PATH={pathlib.Path(demo.bin['profctl']).parent}:$PATH")
    print(f"  export PROFD_SOCKET={demo.socket} PROFD_ROUTER={router.url}")
    print("  profctl list-workers")
    print("  profctl web")
    print("Ctrl-C here ends everything.", flush=True)
    try:
        time.sleep(STAY_S)
    except KeyboardInterrupt:
        pass
    load.end()


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    build = ROOT / os.environ.get("PROFD_BUILD", "build")
    parse.add_argument("--dir", type=pathlib.Path, default=build / "demo")
    parse.add_argument("--duration", type=int, default=3, metavar="SECONDS")
    parse.add_argument("--stay", action="store_true", help="start the fleet and wait, for commands from another terminal")
    options = parse.parse_args()
    directory = options.dir.resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started this in the background
    demo = Demo(build, directory)
    with Fleet(directory / "fleet") as fleet:
        heading("Starting two vLLM workers, one SGLang worker and a router (real models, small ones) ...")
        fleet.add_vllm("--tensor-parallel-size", "2", profiler_config={"torch_profiler_with_stack": False})
        fleet.add_vllm(profiler_config={"torch_profiler_with_stack": False})
        fleet.add_sglang()
        router = fleet.add_router("vllm-router")
        profd = demo.start_profd(directory)
        try:
            if options.stay:
                stay(demo, fleet, router)
                return 0
            trace = run(demo, directory, fleet, router, options.duration)
            show_page(demo)
        finally:
            profd.terminate()
            profd.wait(20)

    heading("To continue with this state")
    print(f"  {demo.bin['profd']} --state-dir {demo.state} --socket {demo.socket} &")
    print(f"  export PROFD_SOCKET={demo.socket}")
    print(f"  {demo.bin['profctl']} web                  # the page; profctl open t{trace} shows the trace in Perfetto")
    print(f"  {demo.bin['profctl']} du; {demo.bin['profctl']} --help")
    return 1 if demo.failed or not trace else 0


if __name__ == "__main__":
    sys.exit(main())
