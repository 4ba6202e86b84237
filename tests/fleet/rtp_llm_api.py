# SPDX-License-Identifier: Apache-2.0
"""RTP-LLM's HTTP server: its own request at `/`, its status, its profile endpoint.

`/start_profile` answers 200 whatever comes of it; what failed stands in the body. Nothing stops a recording. A request
whose `generate_config` has `gen_timeline` is recorded, with `--gen_timeline_sync` each is.
"""
import uuid

from aiohttp import web

import engine
import http_api
import model
import prometheus

PROFILE_STEPS = 3


class RtpLlmServer(http_api.Server):
    def __init__(self, client, options):
        super().__init__(client, options)
        metrics = self.metrics = prometheus.Metrics("rtp_llm_", model=options.model)
        self.finished = metrics.counter("requests_total", "Requests that were answered.")
        self.prompt_tokens = metrics.counter("input_tokens_total", "Tokens read.")
        self.generation_tokens = metrics.counter("output_tokens_total", "Tokens written.")
        self.first_token = metrics.histogram("first_token_seconds", "Time to the first token.")
        self.between_tokens = metrics.histogram("token_seconds", "Time from token to token.")
        self.latency = metrics.histogram("request_seconds", "Time of a request.")
        self.app.add_routes([web.post("/", self.generate)])
        for prefix in ("", "/rtp_llm"):
            self.app.add_routes([
                web.get(prefix + "/health", self.health), web.get(prefix + "/status", self.health),
                web.get(prefix + "/worker_status", self.worker_status),
                web.post(prefix + "/worker_status", self.worker_status),
                web.post(prefix + "/start_profile", self.start_profile)])

    def error(self, status, message, kind):
        return web.json_response({"error": message}, status=status)

    def denied(self, request):
        return False

    def show_state(self, stats):
        pass

    async def health(self, _request):
        return web.json_response("ok")

    async def worker_status(self, _request):
        free = self.options.max_num_seqs - self.in_flight
        return web.json_response({
            "frontend_available_concurrency": free, "frontend_concurrency_limit": self.options.max_num_seqs,
            "tp_size": self.options.tp_size, "dp_size": self.options.dp_size, "alive": True})

    async def start_profile(self, request):
        body = await request.json() if await request.read() else {}
        steps = body.get("num_steps", 0)
        if not isinstance(steps, int) or steps > 1000:
            return web.json_response({"error": f"Failed to start profile: num_steps {steps}"})
        await self.client.call("start_profile", trace_name=body.get("trace_name", "normal_profiler"),
                               start_step=body.get("start_step", 0), num_steps=steps or PROFILE_STEPS,
                               all_ranks=bool(body.get("enable_all_rank", body.get("all_tp"))))
        return web.json_response({"status": "ok"})

    async def generate(self, request):
        body = await request.json()
        config = body.get("generate_config") or {}
        tokens = self.tokenize(body["prompt"])
        most = int(config.get("max_new_tokens", 16))
        work = engine.Request("rtp-" + uuid.uuid4().hex, tokens, most, config.get("min_new_tokens", 0) >= most, 1.0)
        if config.get("gen_timeline") or self.options.gen_timeline_sync:
            await self.client.call("start_profile", trace_name=config.get("profile_trace_name", "profiler"),
                                   start_step=0, num_steps=int(config.get("profile_step", PROFILE_STEPS)),
                                   all_ranks=False)
        text = [model.decode(token) async for token, _ in self._tokens(work)]
        return web.json_response({"response": ["".join(text)], "finished": True,
                                  "aux_info": [{"input_len": len(tokens), "output_len": len(text)}]})
