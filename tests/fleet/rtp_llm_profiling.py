# SPDX-License-Identifier: Apache-2.0
"""RTP-LLM's profiler: a number of steps, then a thread writes `{name}_wr{rank}_{count}.json`, not compressed.

A start while it records is ignored without a word. Names keep letters, digits, `_` and `-`, 64 of them at most; a trace
without a name is called by the microsecond.
"""
import logging
import os
import re
import threading
import time

import torch

import kineto

log = logging.getLogger("rtp_llm")
NAME_MAX = 64


class StepProfiler:
    def __init__(self, options):
        self.options = options
        self.directory = options.torch_cuda_profiler_dir or os.environ.get("TORCH_CUDA_PROFILER_DIR", os.getcwd())
        self.request = None
        self.profile = None
        self.left = self.waiting = self.count = 0

    def start(self, _steps, **request):
        if self.request is None:
            self.request = request
            self.waiting, self.left = request["start_step"], request["num_steps"]
        return True, "ok"

    def stop(self):
        return False, "there is no stop"

    def on_step(self, _steps, _batch):
        if self.request is None or self.profile is not None:
            return
        if self.waiting > 0:
            self.waiting -= 1
            return
        self.profile = torch.profiler.profile(activities=kineto.activities())
        self.profile.start()

    def after_step(self):
        if self.profile is None:
            return
        self.left -= 1
        if self.left > 0:
            return
        self.profile.stop()
        self.count += 1
        threading.Thread(target=_save, args=(self.profile, self._files())).start()
        self.request = self.profile = None

    @staticmethod
    def annotation(_batch):
        return "engine.normal.step_work"

    def _files(self):
        name = re.sub(r"[^A-Za-z0-9_-]", "", self.request["trace_name"])[:NAME_MAX]
        name = name or f"profiler_ts{time.time_ns() // 1000}"
        world = self.options.tp_size
        return [(os.path.join(self.directory, f"{name}_wr{rank}_{self.count}.json"), kineto.distributed_info(rank, world))
                for rank in range(world if self.request["all_ranks"] else 1)]


def _save(profile, files):
    os.makedirs(os.path.dirname(files[0][0]), exist_ok=True)
    kineto.export(profile, files, {})
    log.info("timeline saved: %s", files[0][0])
