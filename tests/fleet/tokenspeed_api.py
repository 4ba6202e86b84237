# SPDX-License-Identifier: Apache-2.0
"""TokenSpeed's control server, at the port after its gateway's.

It passes generation and profiling on to the gateway, SMG, which knows its engine by gRPC: what the engine refuses comes
back as a 206 with "partial_success" and the reason, and of a start's members those that the gateway does not know are
dropped. `/get_server_info` is the engine's own, all numbers as doubles. There are no metrics.
"""
from aiohttp import web

import http_api
import prometheus

GATEWAY_FIELDS = ("output_dir", "start_step", "num_steps", "activities", "with_stack", "record_shapes",
                  "profile_by_stage")


class TokenspeedServer(http_api.Server):
    def __init__(self, client, options):
        super().__init__(client, options)
        self.prompt_tokens = self.generation_tokens = self.finished = prometheus.Value("counter", "unseen", "")
        self.first_token = self.between_tokens = self.latency = prometheus.Histogram("unseen", "", [])
        self.app.add_routes([
            web.get("/health", self.health), web.get("/health_check", self.health_check),
            web.get("/get_server_info", self.server_info), web.get("/get_model_info", self.model_info),
            web.post("/generate", self.completions), web.post("/flush_cache", self.health),
            web.post("/abort", self.health)])
        for path, handler in (("/start_profile", self.start_profile), ("/stop_profile", self.stop_profile)):
            self.app.add_routes([web.get(path, handler), web.post(path, handler)])

    def error(self, status, message, kind):
        return web.json_response({"detail": message}, status=status)

    def denied(self, request):
        return bool(self.options.api_key) and http_api.bearer(request) != self.options.api_key

    def show_state(self, stats):
        pass

    async def models(self, _request):
        return web.json_response({"object": "list", "data": [
            {"id": self.options.model, "object": "model", "created": 0, "owned_by": "self_hosted"}]})

    async def health(self, _request):
        return web.Response()

    async def health_check(self, _request):
        return web.json_response({"healthy": True, "message": "Health check passed"})

    async def model_info(self, _request):
        return web.json_response({"model_path": self.options.model, "served_model_name": self.options.model})

    async def server_info(self, _request):
        options = self.options
        arguments = {"model": options.model, "served_model_name": options.model, "attn_tp_size": float(options.tp_size),
                     "data_parallel_size": float(options.dp_size) if options.dp_size > 1 else None,
                     "world_size": None, "nnodes": None, "disaggregation_mode": options.disaggregation_mode}
        return web.json_response({
            "server_args": arguments, "scheduler_info": {"max_total_num_tokens": 1024.0}, "uptime_seconds": 1.5,
            "max_total_num_tokens": 1024, "tokenspeed_version": options.version, "start_time": "2026-08-22T10:00:00Z"})

    async def start_profile(self, request):
        body = await request.json() if await request.read() else {}
        known = {key: body[key] for key in GATEWAY_FIELDS if body.get(key) is not None}
        return self._result("Start", "start_profile", *await self.client.call("start_profile", **known))

    async def stop_profile(self, _request):
        return self._result("Stop", "stop_profile", *await self.client.call("stop_profile"))

    def _result(self, verb, operation, succeeded, reason):
        started = "started" if verb == "Start" else "stopped"
        body = {"status": "success", "message": f"Successfully {started} profiling on all 1 workers",
                "workers_profiled": 1, "total_workers": 1}
        if succeeded:
            return web.json_response(body)
        url = f"grpc://127.0.0.1:{self.options.port + 1}"
        error = f"Operation '{operation}' failed for worker {url}: code: 'Internal error', message: " \
                f"\"{verb} profiling failed: {reason}\""
        return web.json_response({
            "status": "partial_success", "message": f"Profile {verb.lower()}: 0 succeeded, 1 failed",
            "workers_profiled": 0, "total_workers": 1, "successful": [], "failed": [{"worker": url, "error": error}]},
            status=206)

