# SPDX-License-Identifier: Apache-2.0
"""vLLM's profiler: its configuration, and the state machine of a worker with the quirks that users meet.

* A start while active, and a stop while inactive, are ignored and succeed.
* Failures of torch's profiler are logged and succeed: 200 does not say that a trace exists.
* After `max_iterations` the profiler stops by itself but stays "active", so that starts do nothing until a stop.
* One torch profiler serves the life of the process: with a schedule, it records one session and never again.
"""
import json
import logging
import os
import socket
import time
import uuid

import torch

import kineto

log = logging.getLogger("vllm")

DEFAULTS = {
    "profiler": None,
    "torch_profiler_dir": "",
    "proton_profiler_dir": "",
    "proton_context": "shadow",
    "proton_data": "tree",
    "proton_backend": None,
    "proton_mode": None,
    "proton_hook": None,
    "proton_output_format": None,
    "torch_profiler_with_stack": True,
    "torch_profiler_with_flops": False,
    "torch_profiler_use_gzip": True,
    "torch_profiler_dump_cuda_time_total": True,
    "torch_profiler_record_shapes": False,
    "torch_profiler_with_memory": False,
    "capture_torch_profiler": False,
    "detailed_trace_annotation": False,
    "ignore_frontend": False,
    "delay_iterations": 0,
    "max_iterations": 0,
    "warmup_iterations": 0,
    "active_iterations": 5,
    "wait_iterations": 0,
}
FLAG_SINCE = (0, 13)
ENVIRONMENT_UNTIL = (0, 16)
RANK_NAMES_SINCE = (0, 10)
ENVIRONMENT = {
    "VLLM_TORCH_PROFILER_DIR": "torch_profiler_dir",
    "VLLM_TORCH_PROFILER_WITH_STACK": "torch_profiler_with_stack",
    "VLLM_TORCH_PROFILER_RECORD_SHAPES": "torch_profiler_record_shapes",
    "VLLM_TORCH_PROFILER_WITH_PROFILE_MEMORY": "torch_profiler_with_memory",
    "VLLM_TORCH_PROFILER_WITH_FLOPS": "torch_profiler_with_flops",
    "VLLM_TORCH_PROFILER_USE_GZIP": "torch_profiler_use_gzip",
    "VLLM_TORCH_PROFILER_DUMP_CUDA_TIME_TOTAL": "torch_profiler_dump_cuda_time_total",
    "VLLM_PROFILER_DELAY_ITERS": "delay_iterations",
    "VLLM_PROFILER_MAX_ITERS": "max_iterations",
}


def version_tuple(version):
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def configuration(given, version, environment):
    """The profiler configuration of a launch: keys `given` on the command line over the old variables, where this
    version of vLLM has each. Raises ValueError in the engine's words."""
    if given and version_tuple(version) < FLAG_SINCE:
        raise ValueError("unrecognized arguments: --profiler-config")
    config = dict(DEFAULTS)
    if version_tuple(version) < ENVIRONMENT_UNTIL and environment.get("VLLM_TORCH_PROFILER_DIR"):
        config["profiler"] = "torch"
        for variable, key in ENVIRONMENT.items():
            if variable in environment:
                config[key] = _from_text(environment[variable], DEFAULTS[key])
    for key, value in given.items():
        if key not in DEFAULTS:
            raise ValueError(f"Unexpected keyword argument: profiler_config.{key}")
        config[key] = value
    return _checked(config)


def _from_text(text, default):
    if isinstance(default, bool):
        return text == "1"
    return int(text) if isinstance(default, int) else text


def _checked(config):
    directory = config["torch_profiler_dir"]
    if config["profiler"] not in (None, "torch", "cuda", "proton"):
        raise ValueError(f"Input should be 'torch', 'cuda' or 'proton', not {config['profiler']!r}")
    if config["proton_profiler_dir"] and config["profiler"] != "proton":
        raise ValueError("proton_profiler_dir only applicable when profiler is set to 'proton'")
    if config["profiler"] == "proton" and not config["proton_profiler_dir"]:
        raise ValueError("proton_profiler_dir must be set when profiler is 'proton'")
    if directory and config["profiler"] != "torch":
        raise ValueError("torch_profiler_dir is only applicable when profiler is set to 'torch'")
    if config["capture_torch_profiler"] and config["profiler"] != "torch":
        raise ValueError("capture_torch_profiler is only applicable when profiler is set to 'torch'")
    if config["profiler"] == "torch" and not directory:
        raise ValueError("torch_profiler_dir must be set when profiler is 'torch'")
    if directory and "://" not in directory:
        config["torch_profiler_dir"] = os.path.abspath(directory)
    if config["profiler"] == "torch" and not config["ignore_frontend"] and (
            config["delay_iterations"] or config["max_iterations"]):
        log.warning("Using 'torch' profiler with delay_iterations or max_iterations while ignore_frontend is False "
                    "may result in high overhead.")
    return config


def _ranks(options):
    """(dp, pp, tp, rank) of every rank; `rank` counts inside one engine, so it recurs for each dp."""
    return [(dp, pp, tp, pp * options.tensor_parallel_size + tp)
            for dp in range(options.data_parallel_size)
            for pp in range(options.pipeline_parallel_size)
            for tp in range(options.tensor_parallel_size)]


def _metadata(options):
    return {"vllm_version": options.version, "vllm_version_tuple": list(version_tuple(options.version))}


def _save(profile, config, names, options):
    """`names`: (file name before the time, rank) of each file."""
    directory = config["torch_profiler_dir"]
    os.makedirs(directory, exist_ok=True)
    suffix = ".pt.trace.json.gz" if config["torch_profiler_use_gzip"] else ".pt.trace.json"
    world = options.pipeline_parallel_size * options.tensor_parallel_size
    files = [(os.path.join(directory, f"{name}.{time.time_ns()}{suffix}"), kineto.distributed_info(rank, world))
             for name, rank in names]
    kineto.export(profile, files, _metadata(options))


class FrontendProfiler:
    """What AsyncLLM records of the API server: torch's own profiler, whose assertions come through as status 500."""

    def __init__(self, options):
        config = options.profiler_config
        name = f"{socket.gethostname()}_{os.getpid()}.async_llm"
        self.active = False
        self.profile = torch.profiler.profile(
            activities=kineto.activities(gpu_wanted=False), with_stack=config["torch_profiler_with_stack"],
            on_trace_ready=lambda profile: _save(profile, config, [(name, 0)], options))

    def start(self):
        if not self.active:
            self.active = True
            self.profile.start()

    def stop(self):
        self.active = False
        self.profile.stop()


class WorkerProfiler:
    """The profiler of the engine core, for all ranks of it."""

    def __init__(self, options):
        self.options = options
        self.config = options.profiler_config
        self.instance_id = uuid.uuid4().hex[:5]
        self.proton_id = f"pid{os.getpid()}_{uuid.uuid4().hex}"
        self.proton_runs = 0
        self.profile = None
        self.scheduled = bool(self.config["warmup_iterations"] or self.config["wait_iterations"])
        self.active = False
        self.running = False
        self.active_iterations = 0
        self.profiled_iterations = 0

    def start(self, _steps):
        if self.config["profiler"] is None:
            return False, "Profiling is not enabled."
        if not self.active:
            self.active = True
            if self.config["delay_iterations"] == 0:
                self._start()
        return True, None

    def stop(self):
        if not self.active:
            log.warning("Profiler was not started, nothing to stop.")
            return True, None
        self.active = False
        self.active_iterations = 0
        self.profiled_iterations = 0
        if self.running:
            self._stop()
        return True, None

    def on_step(self, _steps, _batch):
        if not self.active:
            return
        self.active_iterations += 1
        if not self.running and self.config["delay_iterations"] == self.active_iterations:
            self._start()
        if self.running and self._profiler_step():
            self.profiled_iterations += 1
        if 0 < self.config["max_iterations"] < self.profiled_iterations and self.running:
            log.info("Max profiling iterations reached. Stopping profiler...")
            self._stop()

    def after_step(self):
        """Nothing ends behind a step."""

    @staticmethod
    def annotation(batch):
        return (f"execute_context_{len(batch.prefill)}({batch.prompt_tokens})"
                f"_generation_{len(batch.decode)}({len(batch.decode)})")

    def _profiler_step(self):
        if not self.scheduled:
            return True
        self.profile.step()
        return self.profile.current_action in (torch.profiler.ProfilerAction.RECORD,
                                               torch.profiler.ProfilerAction.RECORD_AND_SAVE)

    def _start(self):
        try:
            if self.config["profiler"] == "torch":
                self.profile = self.profile or self._new_profile()
                self.profile.start()
            self.running = True
        except Exception as error:  # pylint: disable=broad-except
            log.warning("Failed to start profiler: %s", error)

    def _stop(self):
        try:
            if self.config["profiler"] == "torch":
                self.profile.stop()
                self._dump_table()
            elif self.config["profiler"] == "proton":
                self._write_proton()
        except Exception as error:  # pylint: disable=broad-except
            log.warning("Failed to stop profiler: %s", error)
        self.running = False

    def _write_proton(self):
        """What Proton finalizes: a tree in Hatchet's form, or a Chrome trace, for each rank."""
        is_tree = self.config["proton_data"] == "tree"
        ending = {None: "hatchet" if is_tree else "chrome_trace"}.get(self.config["proton_output_format"],
                                                                       self.config["proton_output_format"])
        content = [{"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": []},
                   {"CUDA": {"0": {"arch": "90", "num_sms": 132}}}] if is_tree else {"traceEvents": []}
        os.makedirs(self.config["proton_profiler_dir"], exist_ok=True)
        for dp, pp, tp, rank in _ranks(self.options):
            name = f"proton_dp{dp}_pp{pp}_tp{tp}_dcp0_ep0_rank{rank}_{self.proton_id}_run{self.proton_runs}.{ending}"
            with open(os.path.join(self.config["proton_profiler_dir"], name), "w", encoding="utf-8") as out:
                json.dump(content, out)
        self.proton_runs += 1

    def _new_profile(self):
        config = self.config
        schedule = torch.profiler.schedule(
            wait=config["wait_iterations"], warmup=config["warmup_iterations"], active=config["active_iterations"],
            repeat=1) if self.scheduled else None
        names = [(self._file_name(*rank), rank[3]) for rank in _ranks(self.options)]
        return torch.profiler.profile(
            activities=kineto.activities(), schedule=schedule, record_shapes=config["torch_profiler_record_shapes"],
            profile_memory=config["torch_profiler_with_memory"], with_stack=config["torch_profiler_with_stack"],
            with_flops=config["torch_profiler_with_flops"],
            on_trace_ready=lambda profile: _save(profile, config, names, self.options))

    def _file_name(self, dp, pp, tp, rank):
        version = version_tuple(self.options.version)
        if version < RANK_NAMES_SINCE:
            return f"{socket.gethostname()}_{os.getpid()}"
        if version < ENVIRONMENT_UNTIL:
            return f"{self.instance_id}-rank-{rank}"
        return f"dp{dp}_pp{pp}_tp{tp}_dcp0_ep0_rank{rank}"

    def _dump_table(self):
        if not self.config["torch_profiler_dump_cuda_time_total"]:
            return
        table = self.profile.key_averages().table(sort_by="self_cuda_time_total")
        for local_rank in range(self.options.tensor_parallel_size * self.options.pipeline_parallel_size):
            path = os.path.join(self.config["torch_profiler_dir"], f"profiler_out_{local_rank}.txt")
            with open(path, "w", encoding="utf-8") as out:
                print(table, file=out)


def merge_flags(arguments):
    """Takes `--profiler-config JSON` and `--profiler-config.key[=]value` out of an argument list: (rest, config)."""
    rest, config, pending = [], {}, iter(arguments)
    for argument in pending:
        name, has_value, value = argument.partition("=")
        if name != "--profiler-config" and not name.startswith("--profiler-config."):
            rest.append(argument)
            continue
        value = value if has_value else next(pending, "")
        key = name[len("--profiler-config."):].replace("-", "_")
        if key:
            config[key] = _json_or_text(value)
        else:
            config.update(json.loads(value))
    return rest, config


def _json_or_text(value):
    try:
        return json.loads(value)
    except ValueError:
        return value
