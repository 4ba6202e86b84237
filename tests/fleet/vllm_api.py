# SPDX-License-Identifier: Apache-2.0
"""vLLM's HTTP server: its routes, its metrics, its error objects.

The profile routes exist only where a profiler is configured. `/server_info` and the sleep routes exist only with
VLLM_SERVER_DEV_MODE=1. `--api-key` guards /v1 alone.
"""
import asyncio
import json
import os

import torch
from aiohttp import web

import http_api
import prometheus
import vllm_profiling

TOKEN_BUCKETS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]


class VllmServer(http_api.Server):
    def __init__(self, client, options):
        super().__init__(client, options)
        metrics = self.metrics = prometheus.Metrics("vllm:", engine="0", model_name=options.model)
        self.running = metrics.gauge("num_requests_running", "Number of requests in model execution batches.")
        self.waiting = metrics.gauge("num_requests_waiting", "Number of requests waiting to be processed.")
        self.cache_usage = metrics.gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")
        metrics.counter("num_preemptions_total", "Cumulative number of preemption from the engine.")
        self.prompt_tokens = metrics.counter("prompt_tokens_total", "Number of prefill tokens processed.")
        self.generation_tokens = metrics.counter("generation_tokens_total", "Number of generation tokens processed.")
        self.finished = metrics.counter("request_success_total", "Count of successfully processed requests.")
        self.iteration_tokens = metrics.histogram(
            "iteration_tokens_total", "Histogram of number of tokens per engine_step.", TOKEN_BUCKETS)
        self.first_token = metrics.histogram("time_to_first_token_seconds", "Time to first token in seconds.")
        self.between_tokens = metrics.histogram("inter_token_latency_seconds", "Inter-token latency in seconds.")
        self.latency = metrics.histogram("e2e_request_latency_seconds", "E2e request latency in seconds.")

        self.app.add_routes([
            web.get("/health", self.health), web.get("/ping", self.health), web.get("/version", self.version),
            web.get("/load", self.load), web.get("/metrics", self.show_metrics)])
        if options.profiler_config["profiler"]:
            self.app.add_routes([web.post("/start_profile", self.start_profile),
                                 web.post("/stop_profile", self.stop_profile)])
        if os.environ.get("VLLM_SERVER_DEV_MODE") == "1":
            self.app.add_routes([
                web.get("/server_info", self.server_info), web.get("/is_sleeping", self.is_sleeping),
                web.post("/sleep", self.sleep), web.post("/wake_up", self.wake_up)])
        config = options.profiler_config
        with_frontend = config["profiler"] == "torch" and not config["ignore_frontend"]
        self.frontend = vllm_profiling.FrontendProfiler(options) if with_frontend else None

    def error(self, status, message, kind):
        body = {"error": {"message": message, "type": kind, "param": None, "code": status}}
        return web.json_response(body, status=status)

    def denied(self, request):
        key = self.options.api_key
        return bool(key) and request.path.startswith("/v1") and http_api.bearer(request) != key

    def tokenize(self, text):
        """Through torch, under an annotation, so that the frontend's trace shows it."""
        with torch.profiler.record_function("tokenize"):
            return torch.frombuffer(bytearray(text.encode() or b" "), dtype=torch.uint8).tolist()

    def observe(self, stats, outputs):
        super().observe(stats, outputs)
        self.iteration_tokens.observe(stats["step_tokens"])

    async def start_profile(self, _request):
        return await self._profile("start_profile", "start")

    async def stop_profile(self, _request):
        return await self._profile("stop_profile", "stop")

    async def _profile(self, method, verb):
        """The body of the request is never read; the answer has none."""
        answer = asyncio.ensure_future(self.client.call(method))
        await asyncio.sleep(0)
        try:
            if self.frontend:
                getattr(self.frontend, verb)()
        except Exception as error:  # pylint: disable=broad-except
            await answer
            return self.error(500, str(error), "InternalServerError")
        succeeded, reason = await answer
        if not succeeded:
            return self.error(500, f"Call to profile method failed: {reason}", "InternalServerError")
        return web.Response()

    async def health(self, _request):
        return web.Response(status=503 if self.client.died.is_set() else 200)

    async def version(self, _request):
        return web.json_response({"version": self.options.version})

    async def load(self, _request):
        return web.json_response({"server_load": self.in_flight})

    def show_state(self, stats):
        self.running.value, self.waiting.value = stats["running"], stats["waiting"]
        self.cache_usage.value = stats["used_tokens"] / stats["token_capacity"]

    async def server_info(self, request):
        options = self.options
        config = {
            "model_config": {"model": options.model, "max_model_len": options.max_model_len, "dtype": "float32"},
            "parallel_config": {"pipeline_parallel_size": options.pipeline_parallel_size,
                                "tensor_parallel_size": options.tensor_parallel_size,
                                "data_parallel_size": options.data_parallel_size},
            "scheduler_config": {"max_num_seqs": options.max_num_seqs}, "profiler_config": options.profiler_config}
        as_json = request.query.get("config_format") == "json"
        return web.json_response({"vllm_config": config if as_json else json.dumps(config)})

    async def is_sleeping(self, _request):
        _, stats = await self.client.call("stats")
        return web.json_response({"is_sleeping": stats["asleep"]})

    async def sleep(self, _request):
        await self.client.call("sleep", asleep=True)
        return web.Response()

    async def wake_up(self, _request):
        await self.client.call("sleep", asleep=False)
        return web.Response()
