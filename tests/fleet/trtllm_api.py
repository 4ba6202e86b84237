# SPDX-License-Identifier: Apache-2.0
"""TensorRT-LLM's HTTP server, trtllm-serve: its routes, its metrics, its error objects.

`/version` is as vLLM's, `/server_info` says nothing of sizes, and `/metrics` is a JSON list of iterations. Prometheus'
text is at `/prometheus/metrics`, and there only with `return_perf_metrics`. The models of its API refuse members that
they do not know. `--no-profile-routes` is a version before the profile endpoints.
"""
from aiohttp import web

import http_api
import prometheus

PROFILE_FIELDS = {"output_dir": str, "num_steps": int, "start_step": int, "activities": list}
COMPLETION_FIELDS = {"model", "prompt", "messages", "temperature", "max_tokens", "min_tokens", "ignore_eos", "stream",
                     "stream_options"}


class TrtllmServer(http_api.Server):
    def __init__(self, client, options):
        super().__init__(client, options)
        metrics = self.metrics = prometheus.Metrics("trtllm_", model_name=options.model, engine_type=options.backend)
        self.finished = metrics.counter("request_success_total", "Count of successfully processed requests.")
        self.latency = metrics.histogram("e2e_request_latency_seconds", "End to end request latency in seconds.")
        self.first_token = metrics.histogram("time_to_first_token_seconds", "Time to first token in seconds.")
        self.per_token = metrics.histogram("time_per_output_token_seconds", "Time per output token in seconds.")
        self.between_tokens = prometheus.Histogram("unseen", "", [])
        self.prompt_tokens = metrics.counter("prompt_tokens_total", "Cumulative number of prompt tokens processed.")
        self.generation_tokens = metrics.counter("generation_tokens_total", "Cumulative number of generation tokens.")
        self.running = metrics.gauge("num_requests_running", "Number of active requests")
        self.waiting = metrics.gauge("num_requests_waiting", "Number of queued requests")
        self.cache_usage = metrics.gauge("kv_cache_utilization", "KV cache utilization")
        self.app.add_routes([
            web.get("/health", self.health), web.get("/version", self.version),
            web.get("/server_info", self.server_info), web.get("/metrics", self.iterations)])
        if options.return_perf_metrics:
            self.app.add_routes([web.get("/prometheus/metrics", self.show_metrics)])
        if not options.no_profile_routes:
            self.app.add_routes([web.post("/start_profile", self.start_profile),
                                 web.post("/stop_profile", self.stop_profile)])

    def error(self, status, message, kind):
        if status in (404, 405):
            return web.json_response({"detail": message}, status=status)
        return web.json_response({"object": "error", "message": message, "type": kind, "param": None, "code": status},
                                 status=status)

    def denied(self, request):
        return False

    def show_state(self, stats):
        self.running.value, self.waiting.value = stats["running"], stats["waiting"]
        self.cache_usage.value = stats["used_tokens"] / stats["token_capacity"]

    def observe_request(self, arrival, times):
        super().observe_request(arrival, times)
        if len(times) > 1:
            self.per_token.observe((times[-1] - times[0]) / (len(times) - 1))

    def _parse(self, body):
        unknown = set(body) - COMPLETION_FIELDS
        if unknown:
            raise ValueError(f"Extra inputs are not permitted: {', '.join(sorted(unknown))}")
        return super()._parse(body)

    async def models(self, _request):
        return web.json_response({"object": "list", "data": [
            {"id": self.options.model, "object": "model", "created": 0, "owned_by": "tensorrt_llm"}]})

    async def health(self, _request):
        return web.Response(status=503 if self.client.died.is_set() else 200)

    async def version(self, _request):
        return web.json_response({"version": self.options.version})

    async def server_info(self, _request):
        return web.json_response({"disaggregated_params": None})

    async def iterations(self, _request):
        stats = self.client.stats
        return web.json_response([{"iter": stats["steps"], "iterLatencyMS": 1.0, "numActiveRequests": stats["running"]}])

    async def start_profile(self, request):
        body = await request.json() if await request.read() else {}
        wrong = self._validation_error(body)
        if wrong:
            return web.json_response({"error": wrong}, status=400)
        succeeded, reason = await self.client.call("start_profile", **body)
        if succeeded:
            return web.json_response({"message": "Profiling started"})
        busy = "already in progress" in reason or "pending" in reason
        return web.json_response({"message": reason}, status=409 if busy else 500)

    async def stop_profile(self, _request):
        succeeded, reason = await self.client.call("stop_profile")
        if succeeded:
            return web.json_response({"message": "Profiling stopped"})
        return web.json_response({"error": reason}, status=500)

    @staticmethod
    def _validation_error(body):
        unknown = set(body) - set(PROFILE_FIELDS)
        if unknown:
            return f"Extra inputs are not permitted: {', '.join(sorted(unknown))}"
        for key, kind in PROFILE_FIELDS.items():
            value = body.get(key)
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                return f"Input should be a valid {kind.__name__}: {key}"
        if body.get("num_steps") is not None and body["num_steps"] <= 0:
            return "Input should be greater than 0: num_steps"
        return None

