# SPDX-License-Identifier: Apache-2.0
"""TokenSpeed's profiler, in the request handler of its scheduler: SGLang's request under other names of files.

A second start is refused and the first one goes on. With `start_step` a start only notes what it was asked for: a stop
before that step fails, and the recording begins all the same. `profile_by_stage` without `num_steps` is the end of the
scheduler at its next batch; so is a first prompt while tokens are recorded, which starts torch's profiler twice. Files are `{date-time}-[DP{dp}-]TP{tp}[-{stage}].trace.json.gz`; the gateway passes no id.
"""
import os
import time

import torch

import kineto


class SchedulerProfiler:
    def __init__(self, options):
        self.options = options
        self.request = {}
        self.profile = None
        self.in_progress = False
        self.forward = 0
        self.start_forward = self.target_forward = self.stage_target = None
        self.stage_counts = {"EXTEND": None, "DECODE": None}

    def start(self, steps, **request):
        if self.in_progress:
            return False, "Profiling is already in progress. Call /stop_profile first."
        self.request = {**request, "profile_id": time.strftime("%Y%m%d-%H%M%S")}
        self.start_forward = max(request["start_step"], steps + 1) if request.get("start_step") else None
        self.target_forward = None
        if request.get("num_steps"):
            if request.get("profile_by_stage"):
                self.stage_target = request["num_steps"]
                self.stage_counts = {"EXTEND": 0, "DECODE": 0}
            else:
                self.target_forward = (self.start_forward or steps) + request["num_steps"]
        if request.get("profile_by_stage") or request.get("start_step"):
            return True, "Succeeded"
        return self._start()

    def stop(self):
        if not self.in_progress:
            return False, "Profiling is not in progress. Call /start_profile first."
        return self._stop("")

    def on_step(self, steps, batch):
        if self.request.get("profile_by_stage"):
            stage = "EXTEND" if batch.prefill else "DECODE"
            if self.stage_counts[stage] == 0:
                if self.in_progress and stage == "DECODE":
                    self._stop("-EXTEND")
                self._start()
            self.stage_counts[stage] += 1
            if self.stage_counts[stage] > self.stage_target and self.in_progress:
                self._stop("-" + stage)
            return
        if self.target_forward and self.target_forward < steps and self.in_progress:
            self._stop("")
        if self.start_forward and self.start_forward == steps:
            self._start()

    def after_step(self):
        """Nothing ends behind a step."""

    @staticmethod
    def annotation(batch):
        return f"forward[{'EXTEND' if batch.prefill else 'DECODE'} bs={len(batch.prefill) or len(batch.decode)}]"

    def _start(self):
        names = self.request.get("activities") or ["CPU", "GPU"]
        with_stack = self.request.get("with_stack")
        self.profile = torch.profiler.profile(activities=kineto.activities("GPU" in names),
                                              with_stack=True if with_stack is None else with_stack,
                                              record_shapes=bool(self.request.get("record_shapes")))
        self.profile.start()
        self.in_progress = True
        return True, "Succeeded"

    def _stop(self, stage):
        options = self.options
        directory = self.request.get("output_dir") or os.environ.get("TOKENSPEED_PROFILER_DIR", "/tmp")
        os.makedirs(directory, exist_ok=True)
        self.profile.stop()
        files = []
        for dp in range(options.dp_size):
            for tp in range(options.tp_size):
                tag = (f"DP{dp}-" if options.dp_size > 1 else "") + f"TP{tp}"
                files.append((os.path.join(directory, f"{self.request['profile_id']}-{tag}{stage}.trace.json.gz"),
                              kineto.distributed_info(dp * options.tp_size + tp, options.dp_size * options.tp_size)))
        kineto.export(self.profile, files, {})
        self.profile, self.in_progress, self.start_forward = None, False, None
        return True, "Succeeded."
