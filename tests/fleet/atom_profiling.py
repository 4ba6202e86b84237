# SPDX-License-Identifier: Apache-2.0
"""ATOM's profiler, one in the model runner of each rank: from a start until a stop, without a count of steps.

Each rank has a directory of its own below --torch-profiler-dir, `rank_{tp}`, or `dp{dp}_tp{tp}` with data parallelism,
and writes `{model}_ts_{date}_{time}_{ms}.pt.trace.json.gz` there: plain JSON first, which is removed when it has been
compressed. A second start changes nothing and succeeds; so do a start without a directory and a stop without a start.
"""
import gzip
import logging
import os
import time

import torch

import kineto

log = logging.getLogger("atom")


class RankProfiler:
    def __init__(self, options):
        self.options = options
        self.profile = None
        self.detailed = os.environ.get("ATOM_PROFILER_MORE", "0") == "1"
        for directory, _ in self._directories():
            os.makedirs(directory, exist_ok=True)

    def start(self, _steps):
        if self.profile is None and self.options.torch_profiler_dir:
            self.profile = torch.profiler.profile(activities=kineto.activities(), record_shapes=self.detailed,
                                                  with_stack=self.detailed, profile_memory=self.detailed)
            self.profile.start()
        return True, True

    def stop(self):
        profile, self.profile = self.profile, None
        if profile is None:
            return True, [{"trace_dir": None, "elapsed": 0.0}]
        began = time.monotonic()
        profile.stop()
        name = f"{os.path.basename(self.options.model.rstrip('/'))}_ts_{time.strftime('%Y%m%d_%H%M%S')}" \
               f"_{int(time.time() % 1 * 1000):03d}.pt.trace.json"
        directories = self._directories()
        plain = [(os.path.join(directory, name), kineto.distributed_info(rank, len(directories)))
                 for directory, rank in directories]
        kineto.export(profile, plain, {})
        for path, _ in plain:
            with open(path, "rb") as source, gzip.open(path + ".gz", "wb") as out:
                time.sleep(self.options.compress_s)
                out.write(source.read())
            os.remove(path)
        return True, [{"trace_dir": directory, "elapsed": round(time.monotonic() - began, 1)}
                      for directory, _ in directories[:self.options.data_parallel_size]]

    def on_step(self, _steps, _batch):
        """Steps are not counted."""

    def after_step(self):
        """Nothing ends behind a step."""

    @staticmethod
    def annotation(batch):
        return f"prefill[bs={len(batch.prefill)} tok={batch.prompt_tokens}]" if batch.prefill \
            else f"decode[bs={len(batch.decode)}]"

    def _directories(self):
        options = self.options
        if not options.torch_profiler_dir:
            return []
        names = [f"dp{dp}_tp{tp}" if options.data_parallel_size > 1 else f"rank_{tp}"
                 for dp in range(options.data_parallel_size) for tp in range(options.tensor_parallel_size)]
        return [(os.path.join(options.torch_profiler_dir, name), rank) for rank, name in enumerate(names)]
