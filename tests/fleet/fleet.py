#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Starts real workers and a router, waits until they serve, and ends them again: for tests, the demo, and by hand.

As a library (standard modules only):

    with Fleet(directory) as fleet:
        fleet.add_vllm(); fleet.add_sglang()
        router = fleet.add_router("vllm-router")
        ... router.url, fleet.workers[0].trace_dir, fleet.load(router.url, duration=5) ...

As a program, `fleet.py --vllm 2 --sglang 1 --dir DIR` prints one line of JSON when everything serves, and runs until
SIGTERM or SIGINT. Everything a fleet writes (logs, traces) lies below its directory. It ends only what it started; and
what it started ends with it, however it ends.
"""
import argparse
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from patience import patience  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's torch
READY_TIMEOUT_S = 60
END_TIMEOUT_S = 5
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class Process:
    """A child with a log file, and, where it serves HTTP, a URL. `enter` is put in front of its command."""

    def __init__(self, name, arguments, directory, env=None, serves=True, cwd=None, enter=()):
        self.name = name
        self.log = directory / f"{name}.log"
        self.port_file = directory / f"{name}.url"
        self.port_file.unlink(missing_ok=True)
        self.url = None
        self.trace_dir = None
        self.engine = None
        if serves:
            arguments = [*arguments, "--port-file", str(self.port_file)]
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                [*enter, PYTHON, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd,
                env={**os.environ, **(env or {})}, preexec_fn=lambda: _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM))

    @property
    def pid(self):
        return self.child.pid

    def wait_ready(self, timeout_s=READY_TIMEOUT_S):
        deadline = time.monotonic() + patience(timeout_s)
        while not self.port_file.exists():
            if self.child.poll() is not None:
                raise RuntimeError(f"{self.name} ended with status {self.child.returncode}: {self.log_text()[-2000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} is not ready after {timeout_s} s: {self.log_text()[-2000:]}")
            time.sleep(0.02)
        self.url = self.port_file.read_text(encoding="ascii").strip()
        return self

    def log_text(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def traces(self):
        return sorted(self.trace_dir.glob("**/*.trace.json*")) if self.trace_dir.exists() else []

    def end(self):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.child.kill()
        self.child.wait()


class Fleet:
    """Workers start side by side: add them all, then `wait_ready()` or `add_router()`, which waits. `enter` is put in front of each
    worker's command: one that goes to another host, for example."""

    def __init__(self, directory=None, enter=()):
        self.enter = enter
        self._temporary = tempfile.TemporaryDirectory(prefix="fleet-") if directory is None else None
        self.directory = pathlib.Path(directory or self._temporary.name).resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.workers = []
        self.routers = []
        self._others = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def add_vllm(self, *arguments, profiler_config=None, trace_dir=None, env=None, cwd=None, name=None):
        """A vLLM worker. It records into `trace_dir`, else a directory of its own; `profiler_config` are further keys
        of the configuration, or False for a worker that is launched without any."""
        name, traces = self._name("vllm", name, trace_dir)
        if profiler_config is not False:
            config = {"profiler": "torch", "torch_profiler_dir": str(traces), **(profiler_config or {})}
            arguments = [*arguments, "--profiler-config", json.dumps(config)]
        return self._add_worker("vllm", name, traces, arguments, env, cwd)

    def add_sglang(self, *arguments, trace_dir=None, env=None, cwd=None, name=None):
        """An SGLang worker. `trace_dir` is its SGLANG_TORCH_PROFILER_DIR."""
        name, traces = self._name("sglang", name, trace_dir)
        return self._add_worker("sglang", name, traces, ["--enable-metrics", *arguments],
                                {"SGLANG_TORCH_PROFILER_DIR": str(traces), **(env or {})}, cwd)

    def add_rtp_llm(self, *arguments, trace_dir=None, env=None, cwd=None, name=None):
        """An RTP-LLM worker. `trace_dir` is its TORCH_CUDA_PROFILER_DIR."""
        name, traces = self._name("rtp-llm", name, trace_dir)
        return self._add_worker("rtp-llm", name, traces, arguments,
                                {"TORCH_CUDA_PROFILER_DIR": str(traces), **(env or {})}, cwd)

    def add_trtllm(self, *arguments, trace_dir=None, env=None, cwd=None, name=None):
        """A TensorRT-LLM worker. `trace_dir` is its TLLM_TORCH_PROFILER_DIR."""
        name, traces = self._name("tensorrt-llm", name, trace_dir)
        return self._add_worker("tensorrt-llm", name, traces, ["--return-perf-metrics", *arguments],
                                {"TLLM_TORCH_PROFILER_DIR": str(traces), **(env or {})}, cwd)

    def add_atom(self, *arguments, trace_dir=None, env=None, cwd=None, name=None):
        """An ATOM worker. `trace_dir` is its --torch-profiler-dir; False for one that is launched without it."""
        name, traces = self._name("atom", name, trace_dir or None)
        if trace_dir is not False:
            arguments = [*arguments, "--torch-profiler-dir", str(traces)]
        return self._add_worker("atom", name, traces, arguments, env, cwd,
                                "atom/entrypoints/openai_server.py")

    def add_tokenspeed(self, *arguments, trace_dir=None, env=None, cwd=None, name=None):
        """A TokenSpeed worker. `trace_dir` is its TOKENSPEED_PROFILER_DIR."""
        name, traces = self._name("tokenspeed", name, trace_dir)
        return self._add_worker("tokenspeed", name, traces, arguments,
                                {"TOKENSPEED_PROFILER_DIR": str(traces), **(env or {})}, cwd)

    def add_nemo_gym(self, *arguments, profiling=True, results=None, name=None):
        """A resource server of NeMo Gym, whose profiles go below `results`; see nemo_gym.py for its --generation."""
        name, results = self._name("nemo-gym", name, results)
        config = {"profiling_enabled": profiling, "profiling_results_dirpath": str(results)}
        process = Process(name, [HERE / "nemo_gym.py", *arguments], self.directory,
                          {"NEMO_GYM_CONFIG_DICT": json.dumps(config), "NEMO_GYM_CONFIG_PATH": name})
        process.engine, process.trace_dir = "nemo-gym", results
        self.workers.append(process)
        return process

    def add_head_server(self):
        """NeMo Gym's, which knows all of its servers so far, and one that has no port yet."""
        self.wait_ready()
        known = [f"{worker.name}={worker.url}" for worker in self.workers if worker.engine == "nemo-gym"]
        arguments = [word for server in [*known, "late="] for word in ("--server", server)]
        process = Process("head", [HERE / "nemo_gym.py", "--head", *arguments], self.directory)
        self.routers.append(process)
        return process.wait_ready()

    def add_router(self, dialect="vllm-router", *arguments, workers=None, roles=None, name=None):
        """A router over `workers` (all by default). `roles` maps a worker's name to prefill or decode. Its training
        log is DIRECTORY/NAME.training.log."""
        self.wait_ready()
        name = name or f"router-{len(self.routers)}"
        known = []
        for worker in self.workers if workers is None else workers:
            known += ["--worker", f"{worker.url},role={(roles or {}).get(worker.name, 'regular')}"]
        process = Process(name, [HERE / "router.py", "--dialect", dialect, "--log", self.training_log(name), *known,
                                 *arguments], self.directory)
        self.routers.append(process)
        return process.wait_ready()

    def training_log(self, router_name="router-0"):
        return self.directory / f"{router_name}.training.log"

    def start_load(self, url, duration=10, concurrency=4, *arguments):
        """Sends completions until `duration` is over; the process's log then has what came of them, as JSON."""
        process = Process(f"load-{len(self._others)}", [HERE / "load.py", "--url", url, "--duration", duration,
                                                        "--concurrency", concurrency, *arguments],
                          self.directory, serves=False)
        self._others.append(process)
        return process

    def wait_ready(self):
        for worker in self.workers:
            if worker.url is None:
                worker.wait_ready()

    def end(self):
        started = [*self._others, *self.routers, *self.workers]
        for process in started:
            if process.child.poll() is None:
                process.child.terminate()
        for process in started:
            process.end()
        if self._temporary:
            self._temporary.cleanup()

    def describe(self):
        router = self.routers[0] if self.routers else None
        return {"router": router.url if router else None,
                "router_log": str(self.training_log(router.name)) if router else None,
                "workers": [{"name": worker.name, "engine": worker.engine, "url": worker.url, "pid": worker.pid,
                             "trace_dir": str(worker.trace_dir), "log": str(worker.log)} for worker in self.workers]}

    def _name(self, engine, name, trace_dir):
        name = name or f"{engine}-{sum(worker.engine == engine for worker in self.workers)}"
        return name, pathlib.Path(trace_dir or self.directory / "traces" / name)

    def _add_worker(self, engine, name, traces, arguments, env, cwd, program="worker.py"):
        process = Process(name, [HERE / program, "--engine", engine, *arguments], self.directory, env, cwd=cwd, enter=self.enter)
        process.engine, process.trace_dir = engine, traces
        self.workers.append(process)
        return process


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--vllm", type=int, default=2, metavar="N")
    parse.add_argument("--sglang", type=int, default=0, metavar="N")
    parse.add_argument("--rtp-llm", type=int, default=0, metavar="N")
    parse.add_argument("--nemo-gym", type=int, default=0, metavar="N", help="servers, with a head server as the router")
    parse.add_argument("--dialect", default="vllm-router")
    parse.add_argument("--dir", help="for logs and traces; a temporary one by default")
    parse.add_argument("--tensor-parallel-size", type=int, default=1, metavar="N", help="of each vLLM worker")
    parse.add_argument("--shared-traces", action="store_true", help="all vLLM workers write into one directory")
    parse.add_argument("--with-stack", action="store_true", help="vLLM workers record Python frames")
    parse.add_argument("--at-rank", action="store_true")
    options = parse.parse_args()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    with Fleet(options.dir) as fleet:
        for _ in range(options.vllm):
            fleet.add_vllm("--tensor-parallel-size", options.tensor_parallel_size,
                           profiler_config={"torch_profiler_with_stack": options.with_stack},
                           trace_dir=fleet.directory / "traces" / "shared" if options.shared_traces else None)
        for _ in range(options.sglang):
            fleet.add_sglang()
        for _ in range(options.rtp_llm):
            fleet.add_rtp_llm()
        for number in range(options.nemo_gym):
            fleet.add_nemo_gym("--generation", ("files", "table")[number % 2])
        if options.nemo_gym:
            fleet.add_head_server()
        else:
            fleet.add_router(options.dialect, *(["--at-rank"] if options.at_rank else []))
        print(json.dumps(fleet.describe()), flush=True)
        while True:
            signal.pause()


if __name__ == "__main__":
    main()
