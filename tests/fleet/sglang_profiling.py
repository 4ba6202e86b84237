# SPDX-License-Identifier: Apache-2.0
"""SGLang's profiler manager, which lives in the scheduler, with the quirks that users meet.

* A second immediate start loses the first trace: it fails, and the later stop succeeds without a file.
* A stop when nothing records fails, also after `num_steps` has stopped the recording.
* The output directory is made at stop; where it cannot be made, the scheduler dies, and the server with it.
* `profile_by_stage` without `num_steps`, or on a decode worker, kills the scheduler at its next batch; with speculative
  decoding every batch counts as prefill, so that the decode part never comes.
"""
import glob
import gzip
import json
import logging
import os
import time

import torch

import kineto

log = logging.getLogger("sglang")

REQUEST_FIELDS = {
    "output_dir": str, "start_step": int, "num_steps": int, "activities": list, "profile_by_stage": bool,
    "with_stack": bool, "record_shapes": bool, "profile_id": str, "merge_profiles": bool, "profile_prefix": str,
    "profile_stages": list,
}
TORCH_ACTIVITIES = {"CPU", "GPU", "XPU"}


def validation_error(body):
    """Why `body` is no ProfileReq, or None."""
    if not isinstance(body, dict):
        return "Input should be a valid dictionary"
    for key, kind in REQUEST_FIELDS.items():
        value = body.get(key)
        if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            return f"Input should be a valid {kind.__name__}: {key}"
    return None


class ProfilerManager:
    def __init__(self, options):
        self.options = options
        self.request = {}
        self.profile = None
        self.in_progress = False
        self.start_forward = None
        self.target_forward = None
        self.stage_target = None
        self.stage_counts = {}

    def start(self, steps, **request):
        if request.get("profile_by_stage") or request.get("start_step"):
            if self.in_progress:
                return self._refuse("Profiling is already in progress. Call /stop_profile first.")
            self._prepare(steps, request)
            return True, "Succeeded"
        if self.in_progress:
            # torch has one recording at a time: the new one cannot start and the old one is out of reach.
            if self.profile is not None:
                self.profile.stop()
            self.profile = None
            return self._refuse("Profiler is already enabled on this thread.")
        self._prepare(steps, request)
        return self._start()

    def stop(self):
        if not self.in_progress:
            return self._refuse("Profiling is not in progress. Call /start_profile first.")
        return self._stop("")

    def on_step(self, steps, batch):
        if self.request.get("profile_by_stage"):
            self._on_staged_step(batch)
            return
        if self.in_progress and self.target_forward and steps >= self.target_forward:
            log.info("Profiling ends before forward %d", steps)
            self._stop("")
        if self.start_forward and steps == self.start_forward:
            log.info("Profiling starts at forward %d", steps)
            self._start()

    def after_step(self):
        """Nothing ends behind a step."""

    @staticmethod
    def annotation(batch):
        if batch.prefill:
            return f"step[EXTEND bs={len(batch.prefill)} toks={batch.prompt_tokens}]"
        return f"step[DECODE bs={len(batch.decode)}]"

    @staticmethod
    def _refuse(reason):
        log.error("%s", reason)
        return False, reason

    def _prepare(self, steps, request):
        """`steps` is the number of the last forward; counts hold the forwards that are recorded."""
        self.request = {**request, "profile_id": request.get("profile_id") or str(time.time())}
        first = max(request.get("start_step") or 0, steps + 1)
        self.start_forward = first if request.get("start_step") else None
        self.target_forward = first + request["num_steps"] if request.get("num_steps") else None
        self.stage_target = request.get("num_steps")
        self.stage_counts = {"EXTEND": 0, "DECODE": 0}

    def _start(self):
        wanted = set(self._option("activities", ["CPU", "GPU"]))
        if wanted & TORCH_ACTIVITIES:
            self.profile = torch.profiler.profile(
                activities=kineto.activities("GPU" in wanted),
                with_stack=self._flag("with_stack", "SGLANG_PROFILE_WITH_STACK"),
                record_shapes=self._flag("record_shapes", "SGLANG_PROFILE_RECORD_SHAPES"))
            self.profile.start()
        self.in_progress = True
        return True, "Succeeded"

    def _stop(self, stage):
        directory = self._option("output_dir", os.environ.get("SGLANG_TORCH_PROFILER_DIR", "/tmp"))
        os.makedirs(directory, exist_ok=True)
        if self.profile is not None:
            self.profile.stop()
            world = self.options.tp_size * self.options.pp_size
            files = [(os.path.join(directory, name), kineto.distributed_info(rank, world))
                     for name, rank in self._file_names(stage)]
            kineto.export(self.profile, files, {})
            if self.request.get("merge_profiles"):
                self._merge(directory)
        self.profile = None
        self.in_progress = False
        self.start_forward = None
        log.info("Profiling done. Traces are saved to: %s", directory)
        return True, "Succeeded."

    def _on_staged_step(self, batch):
        if self.options.disaggregation_mode == "decode":
            raise RuntimeError("unsupported profile stage: ForwardMode.PREBUILT")
        stage = "EXTEND" if batch.prefill or self.options.speculative_algorithm else "DECODE"
        if self.stage_counts[stage] == 0:
            if self.in_progress:
                self._stop("-EXTEND")
            self._start()
        self.stage_counts[stage] += 1
        if self.stage_counts[stage] > self.stage_target and self.in_progress:
            self._stop("-" + stage)

    def _merge(self, directory):
        """All ranks in one file. Files are sought without the prefix, so that with one there is nothing to merge."""
        profile_id = self.request["profile_id"]
        paths = sorted(glob.glob(os.path.join(glob.escape(directory), glob.escape(profile_id) + "*.trace.json.gz")))
        merged = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": []}
        for path in paths:
            with gzip.open(path, "rt", encoding="utf-8") as source:
                trace = json.load(source)
            label = os.path.basename(path)[len(profile_id) + 1:].split(".")[0]
            merged["baseTimeNanoseconds"] = trace["baseTimeNanoseconds"]
            for event in trace["traceEvents"]:
                merged["traceEvents"].append({**event, "pid": f"[{label}] {event['pid']}"})
        if paths:
            with gzip.open(os.path.join(directory, f"merged-{profile_id}.trace.json.gz"), "wt") as out:
                json.dump(merged, out)

    def _option(self, key, default):
        value = self.request.get(key)
        return default if value is None else value

    def _flag(self, key, variable):
        return self._option(key, os.environ.get(variable, "true").lower() != "false")

    def _file_names(self, stage):
        options = self.options
        prefix = f"{self.request['profile_prefix']}-" if self.request.get("profile_prefix") else ""
        for dp in range(options.dp_size):
            for pp in range(options.pp_size):
                for tp in range(options.tp_size):
                    rank = f"-TP-{tp}"
                    rank += f"-DP-{dp}" if options.dp_size > 1 else ""
                    rank += f"-PP-{pp}" if options.pp_size > 1 else ""
                    yield f"{prefix}{self.request['profile_id']}{rank}{stage}.trace.json.gz", pp * options.tp_size + tp
