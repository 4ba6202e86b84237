# SPDX-License-Identifier: Apache-2.0
"""ATOM's HTTP server: its routes, its metrics, its answers.

`/server_info` and `/kv_transfer_info` have the sizes under SGLang's names. A start takes no body and succeeds whatever
comes of it; only a stop names where traces are, null where there is no directory. Metrics are counters and gauges.
A stream ends with the usage, asked for or not.
"""
import json

from aiohttp import web

import http_api
import prometheus


class AtomServer(http_api.Server):
    def __init__(self, client, options):
        super().__init__(client, options)
        metrics = self.metrics = prometheus.Metrics("atom:")
        self.running = metrics.gauge("requests_running", "Number of requests currently running.")
        self.waiting = metrics.gauge("requests_waiting", "Number of requests waiting.")
        self.cache_usage = metrics.gauge("kv_cache_usage_ratio", "Fraction of KV-cache blocks currently allocated.")
        self.finished = metrics.counter("requests_finished_total", "Number of requests completed by the scheduler.")
        self.prompt_tokens = metrics.counter("prompt_tokens_total", "Number of prompt tokens in completed requests.")
        self.generation_tokens = metrics.counter("generation_tokens_total", "Number of generated tokens.")
        metrics.counter("preemptions_total", "Number of scheduler preemptions.")
        self.first_token = self.between_tokens = self.latency = prometheus.Histogram("unseen", "", [])
        self.app.add_routes([
            web.get("/health", self.health), web.get("/metrics", self.show_metrics),
            web.get("/server_info", self.server_info), web.get("/kv_transfer_info", self.kv_transfer_info),
            web.post("/start_profile", self.start_profile), web.post("/stop_profile", self.stop_profile)])

    def error(self, status, message, kind):
        return web.json_response({"detail": message}, status=status)

    def denied(self, request):
        return False

    def show_state(self, stats):
        self.running.value, self.waiting.value = stats["running"], stats["waiting"]
        self.cache_usage.value = stats["used_tokens"] / stats["token_capacity"]

    async def models(self, _request):
        return web.json_response({"object": "list", "data": [
            {"id": self.options.model, "object": "model", "created": 0, "owned_by": "atom"}]})

    async def completions(self, request):
        body = json.loads(await request.read() or b"{}")
        if body.get("stream"):
            body["stream_options"] = {"include_usage": True}
        request._read_bytes = json.dumps(body).encode()  # pylint: disable=protected-access
        return await super().completions(request)

    async def health(self, _request):
        return web.json_response({"status": "ok"})

    def _sizes(self):
        return {"tp_size": self.options.tensor_parallel_size, "dp_size": self.options.data_parallel_size}

    async def server_info(self, _request):
        return web.json_response({"model_id": self.options.model, "served_model_name": self.options.model,
                                  **self._sizes()})

    async def kv_transfer_info(self, _request):
        return web.json_response({**self._sizes(), "kv_role": self.options.kv_role, "handshake_port": 6301})

    async def start_profile(self, _request):
        await self.client.call("start_profile")
        return web.json_response({"status": "success", "message": "Profiling started"})

    async def stop_profile(self, _request):
        _, traces = await self.client.call("stop_profile")
        return web.json_response({"status": "success", "message": "Profiling stopped. Trace files generated.",
                                  "traces": traces})

