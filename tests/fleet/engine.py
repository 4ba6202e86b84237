# SPDX-License-Identifier: Apache-2.0
"""The engine core: a child process in which one loop schedules requests and computes their next tokens.

As in vLLM and SGLang it is a process of its own below the HTTP server, and everything it is asked for happens in its
one loop. While it writes a trace it computes nothing, and the server in front of it still answers.

The two ends of the pipe speak tuples. To the engine: ("add", Request), ("abort", id), ("call", number, method, args).
From the engine: ("ready",), ("step", stats, [(id, token, finish reason or None)]),
("result", number, succeeded, value).
"""
import collections
import ctypes
import dataclasses
import os
import signal
import sys
import time
import traceback

import torch

import model

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15


@dataclasses.dataclass
class Request:
    id: str
    tokens: list
    max_tokens: int
    ignore_eos: bool
    temperature: float
    slot: int = -1
    computed: int = 0
    generated: int = 0


@dataclasses.dataclass
class Batch:
    """What one step computes: whole prompts, and one token of each running sequence."""
    prefill: list
    decode: list

    @property
    def prompt_tokens(self):
        return sum(len(request.tokens) for request in self.prefill)


class Engine:
    """`profiling` is the engine's own profiler: on_step(batch) before and after_step() behind each step,
    annotation(batch), start(), stop()."""

    def __init__(self, pipe, options, profiling):
        self.pipe = pipe
        self.options = options
        self.profiling = profiling
        self.model = model.Transformer(options.max_num_seqs, options.max_model_len, options.device)
        self.waiting = collections.deque()
        self.running = []
        self.free_slots = list(range(options.max_num_seqs))
        self.asleep = False
        self.steps = 0

    def run(self):
        self.pipe.send(("ready",))
        next_step = 0.0
        while True:
            idle = self.asleep or not (self.waiting or self.running)
            pause = None if idle else max(0.0, next_step - time.monotonic())
            if self.pipe.poll(pause):
                self.handle(self.pipe.recv())
            elif not idle:
                next_step = time.monotonic() + self.options.step_ms / 1000
                self.step(self.schedule())

    def handle(self, message):
        kind, *rest = message
        if kind == "add":
            self.waiting.append(rest[0])
        elif kind == "abort":
            self.waiting = collections.deque(request for request in self.waiting if request.id != rest[0])
            for request in [request for request in self.running if request.id == rest[0]]:
                self.finish(request)
        else:
            number, method, args = rest
            self.pipe.send(("result", number, *self.call(method, args)))

    def call(self, method, args):
        if method == "start_profile":
            return self.profiling.start(self.steps, **args)
        if method == "stop_profile":
            return self.profiling.stop()
        if method == "sleep":
            self.asleep = args["asleep"]
        return True, self.stats(Batch([], []))

    def schedule(self):
        prefill = []
        while self.waiting and self.free_slots:
            request = self.waiting.popleft()
            request.slot = self.free_slots.pop()
            prefill.append(request)
        if prefill and not self.options.mixed_batches:
            return Batch(prefill, [])
        return Batch(prefill, list(self.running))

    def step(self, batch):
        self.steps += 1
        self.profiling.on_step(self.steps, batch)
        with torch.profiler.record_function(self.profiling.annotation(batch)):
            new = [self.model([request.slot], [0], [request.tokens], [request.temperature])[0]
                   for request in batch.prefill]
            if batch.decode:
                new += self.model([request.slot for request in batch.decode],
                                  [request.computed for request in batch.decode],
                                  [request.tokens[-1:] for request in batch.decode],
                                  [request.temperature for request in batch.decode])
        self.profiling.after_step()
        outputs = []
        self.running.extend(batch.prefill)
        for request, token in zip(batch.prefill + batch.decode, new):
            request.computed = len(request.tokens)
            request.tokens.append(token)
            request.generated += 1
            reason = self.finish_reason(request, token)
            if reason:
                self.finish(request)
            outputs.append((request.id, token, reason))
        self.pipe.send(("step", self.stats(batch), outputs))

    def finish_reason(self, request, token):
        if token == model.END_OF_TEXT and not request.ignore_eos:
            return "stop"
        if request.generated >= request.max_tokens or len(request.tokens) >= self.options.max_model_len:
            return "length"
        return None

    def finish(self, request):
        self.running.remove(request)
        self.free_slots.append(request.slot)

    def stats(self, batch):
        used = sum(len(request.tokens) for request in self.running)
        return {"running": len(self.running), "waiting": len(self.waiting), "steps": self.steps, "used_tokens": used,
                "token_capacity": self.options.max_num_seqs * self.options.max_model_len, "asleep": self.asleep,
                "prompt_tokens": batch.prompt_tokens, "step_tokens": batch.prompt_tokens + len(batch.decode)}


def main(pipe, parent_end, options, make_profiling):
    """Runs in the child. It dies with its parent, and a failure of its loop is the end of it, as in real engines."""
    parent_end.close()
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(PR_SET_NAME, options.engine_process_name.encode())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    try:
        Engine(pipe, options, make_profiling(options)).run()
    except (EOFError, BrokenPipeError):
        status = 0
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
