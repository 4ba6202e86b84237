# SPDX-License-Identifier: Apache-2.0
"""What the HTTP servers of both engines share: completions, the list of models, openapi.json, one way to serve."""
import asyncio
import json
import signal
import time
import uuid

from aiohttp import web

import engine
import model
from announce import announce
from engine_client import EngineDead


# As each engine's class ModelCard has it.
OWNERS = {"vllm": "vllm", "sglang": "sglang", "rtp-llm": "owner"}


class Server:
    """An engine's HTTP server. Subclasses add routes, the form of errors and the `metrics`: `prompt_tokens`,
    `generation_tokens`, `finished`, `first_token`, `between_tokens`, `latency` under the engine's own names."""

    def __init__(self, client, options):
        self.client = client
        self.options = options
        self.in_flight = 0
        client.observe = self.observe
        self.app = web.Application(middlewares=[self._answer])
        self.app.add_routes([
            web.get("/v1/models", self.models), web.post("/v1/completions", self.completions),
            web.post("/v1/chat/completions", self.completions),
            web.post("/tokenize", self.count_tokens), web.get("/openapi.json", self.openapi)])

    # For subclasses.

    def error(self, status, message, kind):
        raise NotImplementedError

    def denied(self, request):
        """Whether the credentials of `request` do not suffice."""
        raise NotImplementedError

    def show_state(self, stats):
        """Sets the gauges to the engine's last `stats`."""
        raise NotImplementedError

    def tokenize(self, text):
        return model.encode(text)

    # Metrics.

    def observe(self, stats, outputs):
        self.prompt_tokens.add(stats["prompt_tokens"])
        self.generation_tokens.add(len(outputs))

    def observe_request(self, arrival, times):
        """A finished request: when each of its tokens came, on the clock of `arrival`."""
        self.finished.add(1)
        self.first_token.observe(times[0] - arrival)
        self.latency.observe(times[-1] - arrival)
        for earlier, later in zip(times, times[1:]):
            self.between_tokens.observe(later - earlier)

    async def show_metrics(self, _request):
        self.show_state(self.client.stats)
        return web.Response(text=self.metrics.render(),
                            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    # Routes.

    async def models(self, _request):
        return web.json_response({"object": "list", "data": [{
            "id": self.options.model, "object": "model", "created": int(time.time()), "owned_by": OWNERS[self.options.engine],
            "root": self.options.model, "max_model_len": self.options.max_model_len}]})

    async def openapi(self, _request):
        if self.options.disable_fastapi_docs:
            raise web.HTTPNotFound
        paths = {}
        for route in self.app.router.routes():
            if route.method not in ("HEAD", "*"):
                paths.setdefault(route.resource.canonical, {})[route.method.lower()] = {
                    "summary": route.handler.__name__.replace("_", " ").title(),
                    "responses": {"200": {"description": "Successful Response"}}}
        info = {"title": "FastAPI", "version": "0.1.0"}
        return web.json_response({"openapi": "3.1.0", "info": info, "paths": paths})

    async def count_tokens(self, request):
        body = await request.json()
        tokens = self.tokenize(_chat_text(body["messages"]) if "messages" in body else body.get("prompt") or "")
        return web.json_response({"count": len(tokens), "max_model_len": self.options.max_model_len, "tokens": tokens})

    async def completions(self, request):
        try:
            body = await request.json()
            work = self._parse(body)
        except (ValueError, TypeError, AttributeError) as error:
            return self.error(400, str(error), "BadRequestError")
        wanted, most = len(work.tokens) + work.max_tokens, self.options.max_model_len
        if wanted > most:
            return self.error(400, f"This model's maximum context length is {most} tokens. However, you requested "
                              f"{wanted} tokens.", "BadRequestError")
        self.in_flight += 1
        try:
            return await (self._stream if body.get("stream") else self._whole)(request, body, work)
        finally:
            self.in_flight -= 1

    def _parse(self, body):
        is_chat = "messages" in body
        prompt = _chat_text(body["messages"]) if is_chat else body["prompt"] if "prompt" in body else ""
        tokens = prompt if isinstance(prompt, list) else self.tokenize(prompt)
        if not all(isinstance(token, int) and 0 <= token < model.VOCABULARY for token in tokens):
            raise ValueError("prompt must be one text or one list of token ids")
        temperature = body.get("temperature")
        return engine.Request(("chatcmpl-" if is_chat else "cmpl-") + uuid.uuid4().hex, tokens, max(1, int(body.get("max_tokens") or 16)),
                              bool(body.get("ignore_eos")), 1.0 if temperature is None else float(temperature))

    async def _tokens(self, work):
        arrival, times = time.monotonic(), []
        async for token, reason in self.client.generate(work):
            times.append(time.monotonic())
            if reason:
                self.observe_request(arrival, times)
            yield token, reason

    async def _whole(self, _request, _body, work):
        text, reason, count, prompt_tokens = [], None, 0, len(work.tokens)
        async for token, reason in self._tokens(work):
            text.append(model.decode(token))
            count += 1
        return web.json_response(self._chunk(work, "".join(text), reason, _usage(prompt_tokens, count)))

    async def _stream(self, request, body, work):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        prompt_tokens, count, tokens = len(work.tokens), 0, self._tokens(work)
        try:
            async for token, reason in tokens:
                count += 1
                await _send_event(response, json.dumps(self._chunk(work, model.decode(token), reason, None)))
            if (body.get("stream_options") or {}).get("include_usage"):
                await _send_event(response, json.dumps({**self._chunk(work, "", None, _usage(prompt_tokens, count)),
                                                        "choices": []}))
            await _send_event(response, "[DONE]")
        except ConnectionResetError:
            pass
        finally:
            await tokens.aclose()
        return response

    def _chunk(self, work, text, reason, usage):
        is_chat, is_whole = work.id.startswith("chat"), usage is not None
        said = {"message" if is_whole else "delta": {"role": "assistant", "content": text}} if is_chat else {"text": text}
        kind = "text_completion" if not is_chat else "chat.completion" if is_whole else "chat.completion.chunk"
        chunk = {"id": work.id, "object": kind, "created": int(time.time()), "model": self.options.model,
                 "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": reason}]}
        return {**chunk, "usage": usage} if usage else chunk

    @web.middleware
    async def _answer(self, request, handler):
        if self.denied(request):
            return web.json_response({"error": "Unauthorized"}, status=401)
        try:
            return await handler(request)
        except web.HTTPException as error:
            return self.error(error.status, error.reason, error.reason)
        except EngineDead:
            return self.error(500, "EngineCore encountered an issue. See stack trace (above) for the root cause.",
                              "InternalServerError")

    async def serve(self):
        """Until a signal (0) or the end of the engine core (1)."""
        await self.client.connect()
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        runner = web.AppRunner(self.app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, self.options.host, self.options.port, shutdown_timeout=0.2)
        await site.start()
        self.options.port = runner.addresses[0][1]
        announce(runner.addresses[0], self.options.port_file)
        waits = [asyncio.ensure_future(event.wait()) for event in (stop, self.client.died)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if self.client.died.is_set():
            await asyncio.sleep(0.2)  # what waits for the engine gets its error
        status = int(self.client.died.is_set())
        self.client.close()
        await asyncio.wait_for(runner.cleanup(), 3)
        return status


def bearer(request):
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" else None


def _chat_text(messages):
    """What a chat's template makes of messages: a line each, with the role before it."""
    lines = []
    for message in messages:
        content = message.get("content") or ""
        text = content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
        lines.append(f"{message['role']}: {text}\n")
    return "".join(lines)


async def _send_event(response, data):
    await response.write(f"data: {data}\n\n".encode())


def _usage(prompt_tokens, count):
    return {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens + count, "completion_tokens": count}
