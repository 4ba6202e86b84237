# SPDX-License-Identifier: Apache-2.0
"""The HTTP server's end of the engine core: starts it, sends it requests, and hands its answers to who waits."""
import asyncio
import itertools
import multiprocessing
import threading

import engine


class EngineDead(Exception):
    """The engine core ended; the server ends too."""


class EngineClient:
    """`observe(stats, outputs)` sees every step. `died` is set when the engine core is gone."""

    def __init__(self, options, make_profiling):
        context = multiprocessing.get_context("fork")
        self.pipe, child_end = context.Pipe()
        arguments = (child_end, self.pipe, options, make_profiling)
        self.process = context.Process(target=engine.main, args=arguments, daemon=True)
        self.process.start()
        child_end.close()
        self.numbers = itertools.count()
        self.calls = {}
        self.queues = {}
        self.stats = {}
        self.observe = lambda stats, outputs: None
        self.died = None

    async def connect(self):
        """Waits until the engine computes. To be called once, on the loop that will serve."""
        loop = asyncio.get_running_loop()
        self.died = asyncio.Event()
        ready = loop.create_future()
        self.calls[None] = ready
        threading.Thread(target=self._receive, args=(loop,), daemon=True).start()
        await ready
        _, self.stats = await self.call("stats")

    async def call(self, method, **args):
        """What the engine answers: (succeeded, value)."""
        if self.died.is_set():
            raise EngineDead
        number = next(self.numbers)
        self.calls[number] = asyncio.get_running_loop().create_future()
        self._send(("call", number, method, args))
        return await self.calls[number]

    async def generate(self, request):
        """Yields (token, finish reason or None). Leaving it early aborts the request."""
        queue = self.queues[request.id] = asyncio.Queue()
        reason = None
        try:
            self._send(("add", request))
            while reason is None:
                item = await queue.get()
                if item is None:
                    raise EngineDead
                token, reason = item
                yield token, reason
        finally:
            del self.queues[request.id]
            if reason is None and not self.died.is_set():
                self._send(("abort", request.id))

    def close(self):
        self.pipe.close()
        self.process.terminate()
        self.process.join()

    def _send(self, message):
        try:
            self.pipe.send(message)
        except OSError as error:
            raise EngineDead from error

    def _receive(self, loop):
        try:
            while True:
                message = self.pipe.recv()
                loop.call_soon_threadsafe(self._dispatch, *message)
        except (EOFError, OSError, RuntimeError):
            pass
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._fail)

    def _dispatch(self, kind, *rest):
        if kind == "ready":
            self.calls.pop(None).set_result(None)
        elif kind == "result":
            number, succeeded, value = rest
            future = self.calls.pop(number)
            if not future.done():
                future.set_result((succeeded, value))
        else:
            self.stats, outputs = rest
            self.observe(self.stats, outputs)
            for request_id, token, reason in outputs:
                if request_id in self.queues:
                    self.queues[request_id].put_nowait((token, reason))

    def _fail(self):
        self.died.set()
        for future in self.calls.values():
            if not future.done():
                future.set_exception(EngineDead())
        for queue in self.queues.values():
            queue.put_nowait(None)
