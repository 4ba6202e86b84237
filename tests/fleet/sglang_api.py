# SPDX-License-Identifier: Apache-2.0
"""SGLang's HTTP server: its routes, its metrics, its error texts.

`/start_profile` and `/stop_profile` answer GET as well as POST, with the same effect, and say nothing of a failure but
"Internal Server Error". `/health` generates a token, so that it waits for an engine that writes a trace. `/server_info`
gives every argument of the server away, keys included. `/metrics` needs `--enable-metrics`.
"""
import asyncio
import os
import time
import uuid

from aiohttp import web

import engine
import http_api
import prometheus
import sglang_profiling

ADMIN_PATHS = {"/start_profile", "/stop_profile"}
OPEN_PREFIXES = ("/health", "/metrics")


class SglangServer(http_api.Server):
    def __init__(self, client, options):
        super().__init__(client, options)
        metrics = self.metrics = prometheus.Metrics(
            "sglang:", model_name=options.model, engine_type="unified", tp_rank="0", pp_rank="0")
        self.running = metrics.gauge("num_running_reqs", "The number of running requests.")
        self.queued = metrics.gauge("num_queue_reqs", "The number of requests in the waiting queue.")
        self.used_tokens = metrics.gauge("num_used_tokens", "The number of used tokens.")
        self.token_usage = metrics.gauge("token_usage", "The token usage.")
        self.throughput = metrics.gauge("gen_throughput", "The generation throughput (token/s).")
        self.finished = metrics.counter("num_requests_total", "Number of requests processed.")
        self.prompt_tokens = metrics.counter("prompt_tokens_total", "Number of prefill tokens processed.")
        self.generation_tokens = metrics.counter("generation_tokens_total", "Number of generation tokens processed.")
        self.first_token = metrics.histogram("time_to_first_token_seconds", "Time to first token in seconds.")
        self.between_tokens = metrics.histogram("inter_token_latency_seconds", "Inter-token latency in seconds.")
        self.latency = metrics.histogram("e2e_request_latency_seconds", "End-to-end request latency in seconds.")
        self.passes = {mode: metrics.counter("cuda_graph_passes_total", CUDA_GRAPH_TEXT, mode=mode)
                       for mode in ("decode_none", "prefill_none")}
        self.last_step = time.monotonic()

        self.app.add_routes([
            web.get("/health", self.health), web.get("/health_generate", self.health),
            web.get("/server_info", self.server_info), web.get("/get_server_info", self.server_info),
            web.get("/model_info", self.model_info), web.get("/get_model_info", self.model_info),
            web.get("/get_load", self.get_load)])
        if options.enable_metrics:
            self.app.add_routes([web.get("/metrics", self.show_metrics)])
        for path, handler in (("/start_profile", self.start_profile), ("/stop_profile", self.stop_profile)):
            self.app.add_routes([web.get(path, handler), web.post(path, handler)])

    def error(self, status, message, kind):
        if status in (404, 405):
            return web.json_response({"detail": message}, status=status)
        if kind == "InternalServerError":
            return web.Response(text="Internal Server Error", status=500)
        return web.json_response({"object": "error", "message": message, "type": kind, "param": None, "code": status},
                                 status=status)

    def denied(self, request):
        if request.path.startswith(OPEN_PREFIXES):
            return False
        key = self.options.api_key
        if request.path in ADMIN_PATHS and self.options.admin_api_key:
            key = self.options.admin_api_key
        return bool(key) and http_api.bearer(request) != key

    def observe(self, stats, outputs):
        super().observe(stats, outputs)
        self.passes["prefill_none" if stats["prompt_tokens"] else "decode_none"].add(1)
        now = time.monotonic()
        self.throughput.value = len(outputs) / max(now - self.last_step, 1e-3)
        self.last_step = now

    async def start_profile(self, request):
        body = {}
        if await request.read():
            try:
                body = await request.json()
            except ValueError as error:
                return self.error(400, str(error), "BadRequestError")
        wrong = sglang_profiling.validation_error(body)
        if wrong:
            return self.error(400, wrong, "BadRequestError")
        known = {key: body[key] for key in sglang_profiling.REQUEST_FIELDS if key in body}
        succeeded, reason = await self.client.call("start_profile", **known)
        return self._profile_answer(succeeded, reason, "Start profiling.\n")

    async def stop_profile(self, _request):
        succeeded, reason = await self.client.call("stop_profile")
        return self._profile_answer(succeeded, reason, "Stop profiling. This will take some time.\n")

    def _profile_answer(self, succeeded, reason, text):
        return web.Response(text=text) if succeeded else self.error(500, reason, "InternalServerError")

    async def health(self, _request):
        probe = engine.Request("HEALTH_CHECK_" + uuid.uuid4().hex, [0], 1, True, 0.0)
        try:
            await asyncio.wait_for(self._one_token(probe), float(os.environ.get("SGLANG_HEALTH_CHECK_TIMEOUT", "20")))
        except asyncio.TimeoutError:
            return web.Response(status=503)
        return web.Response()

    async def _one_token(self, probe):
        async for _ in self.client.generate(probe):
            pass

    async def server_info(self, _request):
        _, stats = await self.client.call("stats")
        arguments = {key: value for key, value in vars(self.options).items() if key in SERVER_ARGUMENTS}
        state = {"last_gen_throughput": self.throughput.value, "num_running_reqs": stats["running"],
                 "num_waiting_reqs": stats["waiting"], "num_used_tokens": stats["used_tokens"]}
        return web.json_response({
            **arguments, "model_path": self.options.model, "tokenizer_path": self.options.model,
            "served_model_name": self.options.model, "nnodes": 1, "node_rank": 0, "ep_size": 1,
            "device": self.options.device, "status": "ready", "max_total_num_tokens": stats["token_capacity"],
            "internal_states": [state], "version": self.options.version})

    async def model_info(self, _request):
        return web.json_response({"model_path": self.options.model, "tokenizer_path": self.options.model,
                                  "is_generation": True})

    async def get_load(self, _request):
        stats = self.client.stats
        return web.json_response([{"dp_rank": 0, "num_reqs": stats["running"] + stats["waiting"],
                                   "num_waiting_reqs": stats["waiting"], "num_tokens": stats["used_tokens"]}])

    def show_state(self, stats):
        self.running.value, self.queued.value = stats["running"], stats["waiting"]
        self.used_tokens.value = stats["used_tokens"]
        self.token_usage.value = stats["used_tokens"] / stats["token_capacity"]


CUDA_GRAPH_TEXT = "Total number of forward passes categorized by CUDA graph."
SERVER_ARGUMENTS = {"host", "port", "tp_size", "dp_size", "pp_size", "api_key", "admin_api_key", "enable_metrics",
                    "disaggregation_mode", "speculative_algorithm", "max_num_seqs"}
