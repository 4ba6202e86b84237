# SPDX-License-Identifier: Apache-2.0
"""TensorRT-LLM's profiler, which its executor loop drives by a count of its iterations.

A start schedules a window: it begins at the next iteration but `start_step`, ends `num_steps` later or with a stop, and
is refused while another one runs or is scheduled. A stop cancels a window that has not begun, which leaves no file; a
stop without any window succeeds. Each rank writes `trtllm-trace-{second}-{8 hex digits}-rank-{rank}.json`, not
compressed, into the request's `output_dir`, else TLLM_TORCH_PROFILER_DIR, else /tmp. Shapes are always recorded.

An iteration in which a window of TLLM_PROFILE_START_STOP would begin during another one is the end of the executor.
"""
import logging
import os
import time
import uuid

import torch

import kineto

log = logging.getLogger("tensorrt_llm")


class WindowProfiler:
    def __init__(self, options):
        self.options = options
        self.profile = None
        self.request = {}
        self.pending = self.start_at = self.stop_at = None
        span = os.environ.get("TLLM_PROFILE_START_STOP", "")
        self.own_starts = {int(part.split("-")[0]) for part in span.split(",") if part}

    def start(self, steps, **request):
        if self.profile is not None or self.pending is not None:
            return False, "Profiling is already in progress (or a pending start has been scheduled); call stop_profile " \
                          "first before starting a new window."
        if self.options.backend != "pytorch":
            log.warning("start_profile is only supported by the PyTorch backend")
            return True, "ignored"
        directory = request.get("output_dir") or os.environ.get("TLLM_TORCH_PROFILER_DIR", "/tmp")
        try:
            os.makedirs(directory, exist_ok=True)
        except OSError as error:
            return False, f"Failed to create profile output_dir {directory}: {error}"
        self.request = {**request, "directory": directory, "id": f"{int(time.time())}-{uuid.uuid4().hex[:8]}"}
        self.pending = self.start_at = steps + 1 + max(0, request.get("start_step") or 0)
        self.stop_at = self.start_at + request["num_steps"] if request.get("num_steps") else None
        return True, "scheduled"

    def stop(self):
        if self.profile is not None:
            self._export()
        self.pending = self.start_at = self.stop_at = None
        return True, "stopped"

    def on_step(self, steps, _batch):
        """`steps` includes the one that is about to begin; the executor compares what is done."""
        done = steps - 1
        if self.profile is not None and self.stop_at is not None and done >= self.stop_at:
            self._export()
        if done in self.own_starts:
            assert self.profile is None, "Inconsistent CUDA profiling state"
        if self.pending is not None and done >= self.start_at:
            self.pending = None
            self._begin()

    def after_step(self):
        """Nothing ends behind a step."""

    @staticmethod
    def annotation(batch):
        return f"[Executor] _forward_step: {len(batch.prefill)} ctx reqs, {len(batch.decode)} gen reqs"

    def _begin(self):
        names = self.request.get("activities") or ["CPU", "GPU"]
        self.profile = torch.profiler.profile(activities=kineto.activities("GPU" in names), record_shapes=True)
        if set(names) != {"CUDA_PROFILER"}:
            self.profile.start()

    def _export(self):
        profile, self.profile = self.profile, None
        if set(self.request.get("activities") or []) == {"CUDA_PROFILER"}:
            return
        profile.stop()
        world = self.options.tp_size * self.options.pp_size
        kineto.export(profile, [(os.path.join(self.request["directory"],
                                              f"trtllm-trace-{self.request['id']}-rank-{rank}.json"),
                                 kineto.distributed_info(rank, world)) for rank in range(world)], {})
