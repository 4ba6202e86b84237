# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime as far as profd-onnx-worker calls it, where the real one is not installed: a model whose next token is the sum
of all tokens before it. With a cache it sees only what its caller gives it, so that a cache that is used wrongly shows."""

import json
import os
import time

import numpy

WORDS = 97


class _Tensor:
    def __init__(self, name, kind, shape):
        self.name, self.type, self.shape = name, kind, shape


class SessionOptions:
    enable_profiling = False
    profile_file_prefix = "onnxruntime_profile_"


def get_available_providers():
    return ["CPUExecutionProvider"]


class InferenceSession:
    """The file of the model is JSON: {"cache": bool, "slow_s": S}."""

    def __init__(self, path, sess_options, providers):
        assert providers
        with open(path, encoding="utf-8") as file:
            self.model = json.load(file)
        self.options, self.events = sess_options, []

    def get_inputs(self):
        inputs = [_Tensor("input_ids", "tensor(int64)", ["batch", "sequence"]),
                  _Tensor("attention_mask", "tensor(int64)", ["batch", "total"])]
        if self.model["cache"]:
            inputs.append(_Tensor("past_key_values.0.key", "tensor(float)", ["batch", 1, "past", 1]))
        return inputs

    def get_outputs(self):
        outputs = [_Tensor("logits", "tensor(float)", ["batch", "sequence", WORDS])]
        if self.model["cache"]:
            outputs.append(_Tensor("present.0.key", "tensor(float)", ["batch", 1, "total", 1]))
        return outputs

    def run(self, _, feed):
        begin = time.monotonic_ns()
        ids = feed["input_ids"][0]
        past = feed["past_key_values.0.key"][0, 0, :, 0] if self.model["cache"] else numpy.zeros(0)
        assert feed["attention_mask"].shape[1] == len(ids) + len(past)
        known = numpy.concatenate([past, ids])
        time.sleep(self.model["slow_s"])
        logits = numpy.zeros((1, len(ids), WORDS), "float32")
        logits[0, -1, int(known.sum()) % WORDS] = 1
        self.events.append({"cat": "Node", "pid": os.getpid(), "tid": 1, "ts": begin // 1000, "ph": "X",
                            "dur": (time.monotonic_ns() - begin) // 1000, "name": "sum_kernel_time",
                            "args": {"op_name": "ReduceSum", "provider": "CPUExecutionProvider"}})
        return [logits, known.reshape(1, 1, -1, 1).astype("float32")] if self.model["cache"] else [logits]

    def end_profiling(self):
        path = f"{self.options.profile_file_prefix}_{int(time.time())}.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.events, file)
        return path
