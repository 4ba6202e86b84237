# SPDX-License-Identifier: Apache-2.0
"""The system status server of a worker of NVIDIA Dynamo, in front of a real engine and in place of its HTTP server, which
a worker of Dynamo does not have (ai-dynamo/dynamo lib/runtime/src/system_status_server.rs,
components/src/dynamo/{sglang/request_handlers/handler_base.py,vllm/handlers.py}).

The path /request-plane/v1/... stands for Dynamo's request plane, which is not HTTP: the frontend of router.py sends
requests there.
"""
import json
import time

from aiohttp import web

import sglang_profiling

TEXT = "text/plain; charset=utf-8"


def answer(body, status=200):
    """JSON as axum answers a text."""
    return web.Response(status=status, body=json.dumps(body, sort_keys=True).encode(), headers={"Content-Type": TEXT})


class HandlerError(Exception):
    """What a handler raises. Its text is the type and the message of the Python error."""


class SystemStatusServer:
    def __init__(self, server, older=False):
        self.server = server
        self.began = time.monotonic()
        handlers = {"vllm": (self.start_vllm, self.stop_vllm), "sglang": (self.start_sglang, self.stop_sglang)}
        prefix = "" if older else "control/"
        self.older = older
        self.routes = {}
        if server.options.engine in handlers:
            self.routes = {prefix + verb + "_profile": handler
                           for verb, handler in zip(("start", "stop"), handlers[server.options.engine])}
        self.app = web.Application(middlewares=[self.answer_all])
        self.app.add_routes([
            web.get("/health", self.health), web.get("/live", self.health), web.get("/metrics", self.metrics),
            web.get("/metadata", self.metadata), web.route("*", "/engine/{path:.*}", self.engine_route)])
        plane = web.Application()
        plane.add_routes([web.post("/v1/completions", server.completions),
                          web.post("/v1/chat/completions", server.completions), web.get("/v1/models", server.models)])
        self.app.add_subapp("/request-plane", plane)

    @web.middleware
    async def answer_all(self, request, handler):
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return web.Response(status=404, text="Route not found")

    async def health(self, _request):
        return answer({"status": "ready", "uptime": {"secs": int(time.monotonic() - self.began), "nanos": 0},
                       "endpoints": {"generate": "ready"}})

    async def metrics(self, _request):
        self.server.show_state(self.server.client.stats)
        return web.Response(text="# TYPE dynamo_component_uptime_seconds gauge\n"
                            f"dynamo_component_uptime_seconds {time.monotonic() - self.began}\n" + self.server.metrics.render())

    async def metadata(self, _request):
        return web.Response(status=404, text="Discovery metadata not available")

    async def engine_route(self, request):
        path = request.match_info["path"]
        text = await request.read()
        try:
            body = json.loads(text) if text else {}
        except ValueError as error:
            return answer({"error": "Invalid JSON", "message": str(error)}, 400)
        if path not in self.routes:
            return answer({"error": "Route not found", "message": f"Route /engine/{path} not found"}, 404)
        try:
            return answer(await self.routes[path](body))
        except HandlerError as error:
            return answer({"error": "Handler error", "message": f"Python callback failed: {error}"}, 500)

    # Handlers. SGLang's let errors through, vLLM's give them as their answer.

    async def start_sglang(self, body):
        known = set(sglang_profiling.REQUEST_FIELDS) - ({"profile_id"} if self.older else set())
        function = "TokenizerCommunicatorMixin.start_profile" if self.older else "ProfileReq.__init__"
        for key in body:
            if key not in known:
                raise HandlerError(f"TypeError: {function}() got an unexpected keyword argument '{key}'")
        return await self.call_sglang("start_profile", "Profiling started", **body)

    async def stop_sglang(self, _body):
        return await self.call_sglang("stop_profile", "Profiling stopped")

    async def call_sglang(self, method, message, **arguments):
        succeeded, reason = await self.server.client.call(method, **arguments)
        if not succeeded:
            raise HandlerError(f"RuntimeError: {reason}")
        return {"status": "ok", "message": message}

    async def start_vllm(self, _body):
        return await self.call_vllm("start_profile", "Profiling started")

    async def stop_vllm(self, _body):
        return await self.call_vllm("stop_profile", "Profiling stopped")

    async def call_vllm(self, method, message):
        succeeded, reason = await self.server.client.call(method)
        if not succeeded:
            return {"status": "error", "message": f"Call to profile method failed: {reason}"}
        return {"status": "ok", "message": message}
