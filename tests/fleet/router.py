#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A real router for tests and the demo: knows workers, probes their /health, forwards completions to them.

`--dialect` chooses whose list of workers it shows:

    vllm-router    GET /workers, /workers/{url}, /list_workers, /get_loads
    sglang         the same of SGLang's gateway
    smg            the same of its successor, with its longer entries
    slime          GET /workers, /list_workers; proxies every other path to one worker
    list-workers   GET /list_workers only; proxies every other path to one worker (miles)
    dynamo         GET /health of Dynamo's frontend, which names hosts; it sends requests to its workers' /request-plane
    dynamo-rl      the same, and GET /v1/rl/workers, which names URLs
"""
import argparse
import asyncio
import dataclasses
import signal
import sys
import time
import urllib.parse
import uuid

import aiohttp
from aiohttp import web

from announce import announce

BOOTSTRAP_PORT = 8998
PROBE_TIMEOUT_S = 5
HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "te", "trailer", "upgrade"}


@dataclasses.dataclass
class Worker:
    url: str
    role: str = "regular"
    healthy: bool = False
    load: int = 0
    id: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))

    @classmethod
    def parse(cls, text):
        """`URL[,role=prefill|decode|regular]`"""
        url, *settings = text.split(",")
        worker = cls(url.rstrip("/"))
        for setting in settings:
            key, _, value = setting.partition("=")
            if key != "role" or value not in ("prefill", "decode", "regular"):
                raise argparse.ArgumentTypeError(f"{setting!r} is no role=prefill|decode|regular")
            worker.role = value
        return worker


def vllm_router_entry(worker, url, model):
    return {"url": url, "model_id": model, "worker_type": worker.role, "is_healthy": worker.healthy,
            "load": worker.load, "connection_mode": "Http", "priority": 50, "cost": 1.0,
            "bootstrap_port": BOOTSTRAP_PORT if worker.role == "prefill" else None}


def sglang_entry(worker, url, model):
    entry = {"id": worker.id, "url": url, "model_id": model, "priority": 50, "cost": 1.0, "worker_type": worker.role,
             "is_healthy": worker.healthy, "load": worker.load, "connection_mode": "http"}
    return {**entry, "bootstrap_port": BOOTSTRAP_PORT} if worker.role == "prefill" else entry


def smg_entry(worker, url, model):
    base, _, rank = url.rpartition("@")
    entry = {"id": worker.id, "url": url, "model_id": model, "worker_type": worker.role, "connection_mode": "http",
             "runtime_type": "sglang", "priority": 50, "cost": 1.0, "is_healthy": worker.healthy,
             "status": "ready" if worker.healthy else "not_ready", "load": worker.load, "labels": {}}
    if worker.role == "prefill":
        entry["bootstrap_port"] = BOOTSTRAP_PORT
    if base:
        entry.update(dp_base_url=base, dp_rank=int(rank), dp_size=2)
    return entry


def slime_entry(worker, url, _model):
    return {"url": url, "worker_type": worker.role, "active_requests": worker.load, "is_healthy": worker.healthy}


ENTRIES = {"vllm-router": vllm_router_entry, "sglang": sglang_entry, "smg": smg_entry, "slime": slime_entry}
WITH_STATS = {"vllm-router", "sglang", "smg"}
WITH_URLS = {"vllm-router", "sglang", "slime", "list-workers"}
FRONTENDS = {"dynamo", "dynamo-rl"}
PROXIES_ALL = {"slime", "list-workers"}


class Router:
    def __init__(self, options):
        self.options = options
        self.workers = options.worker
        self.next_worker = 0
        self.client = None
        self.sent = 0
        dialect = options.dialect
        self.plane = "/request-plane" if dialect in FRONTENDS else ""
        self.app = web.Application()
        if dialect in FRONTENDS:
            self.app.add_routes([web.get("/health", self.frontend_health), web.get("/live", self.frontend_live)])
        else:
            self.app.add_routes([web.get("/health", self.health)])
        if dialect == "dynamo-rl":
            self.app.add_routes([web.get("/v1/rl/workers", self.rl_workers)])
        self.app.add_routes([web.route("*", "/v1/{path:.*}", self.forward)])
        if dialect in ENTRIES:
            self.app.add_routes([web.get("/workers", self.show_workers)])
        if dialect in WITH_STATS:
            self.app.add_routes([web.get("/workers/{url:.+}", self.show_worker), web.get("/get_loads", self.loads)])
        if dialect in WITH_URLS:
            self.app.add_routes([web.get("/list_workers", self.list_workers)])
        if dialect in PROXIES_ALL:
            self.app.add_routes([web.route("*", "/{path:.*}", self.forward)])
        self.metrics_app = web.Application()
        self.metrics_app.add_routes([web.get("/metrics", self.show_metrics)])

    def listed(self):
        """(worker, url): each worker once, or as one entry for each of two ranks of a DP-aware router."""
        suffixes = ("@0", "@1") if self.options.at_rank else ("",)
        return [(worker, worker.url + suffix) for worker in self.workers for suffix in suffixes]

    def entry(self, worker, url):
        return ENTRIES[self.options.dialect](worker, url, self.options.model_id)

    async def show_workers(self, _request):
        answer = {"workers": [self.entry(*pair) for pair in self.listed()]}
        if self.options.dialect in WITH_STATS:
            roles = [worker.role for worker, _ in self.listed()]
            answer["total"] = len(roles)
            answer["stats"] = {role + "_count": roles.count(role) for role in ("prefill", "decode", "regular")}
        return web.json_response(answer)

    async def show_worker(self, request):
        wanted = request.match_info["url"]
        for pair in self.listed():
            if wanted in (pair[1], pair[0].id):
                return web.json_response(self.entry(*pair))
        return web.json_response({"error": f"Worker {wanted} not found", "code": "WORKER_NOT_FOUND"}, status=404)

    async def list_workers(self, _request):
        return web.json_response({"urls": [url for _, url in self.listed()]})

    async def loads(self, _request):
        split = {worker.role for worker in self.workers} & {"prefill", "decode"}
        if split and self.options.dialect == "vllm-router":
            return web.json_response({f"{worker.role}_{url}": worker.load for worker, url in self.listed()})
        return web.json_response({"workers": [{"worker": url, "load": worker.load if worker.healthy else -1}
                                              for worker, url in self.listed()]})

    @staticmethod
    def instance(index, worker, endpoint):
        """An endpoint as Dynamo's discovery has it: the address is that of the request plane."""
        component = "prefill" if worker.role == "prefill" else "backend"
        host = urllib.parse.urlsplit(worker.url).hostname
        number = 7587893013432 + index
        return {"component": component, "endpoint": endpoint, "namespace": "dynamo", "instance_id": number,
                "transport": {"tcp": f"{host}:{40000 + index}/{number:x}/{endpoint}"}}

    async def frontend_health(self, _request):
        instances = [self.instance(index, worker, endpoint) for endpoint in ("clear_kv_blocks", "generate")
                     for index, worker in enumerate(self.workers)]
        names = sorted({f"dyn://dynamo.{entry['component']}.{entry['endpoint']}" for entry in instances})
        return web.json_response({"status": "healthy", "endpoints": names, "instances": instances})

    async def frontend_live(self, _request):
        return web.json_response({"status": "live", "message": "Service is live"})

    async def rl_workers(self, _request):
        workers = []
        for index, worker in enumerate(self.workers):
            entry = self.instance(index, worker, "rl")
            entry.update(request_plane_url=f"dyn://dynamo.{entry['component']}.rl", routes=[])
            if worker.healthy:
                entry.update(system_url=worker.url, model=self.options.model_id, routes=["flush_cache", "liveness_probe"])
            else:
                entry["error"] = "worker discovery timed out after 30s"
            workers.append(entry)
        return web.json_response({"protocol_version": 1, "namespace": "dynamo", "workers": workers})

    async def health(self, _request):
        return web.Response(status=200 if any(worker.healthy for worker in self.workers) else 503)

    async def show_metrics(self, _request):
        lines = ["# TYPE router_requests_total counter", f"router_requests_total {self.sent}",
                 "# TYPE router_worker_load gauge"]
        lines += [f'router_worker_load{{worker="{worker.url}"}} {worker.load}' for worker in self.workers]
        return web.Response(text="\n".join(lines) + "\n")

    def choose(self):
        """The least loaded healthy worker; those with equal load in turn. Only prefill and decode workers are passed
        over, where others are there."""
        healthy = [worker for worker in self.workers if worker.healthy]
        usable = [worker for worker in healthy if worker.role == "regular"] or healthy
        if not usable:
            return None
        self.next_worker += 1
        turned = [usable[(self.next_worker + index) % len(usable)] for index in range(len(usable))]
        return min(turned, key=lambda worker: worker.load)

    async def forward(self, request):
        worker = self.choose()
        if worker is None:
            return web.json_response({"error": {"message": "No available workers", "type": "service_unavailable",
                                                "code": 503}}, status=503)
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP_HEADERS}
        worker.load += 1
        self.sent += 1
        response = None
        try:
            async with self.client.request(request.method, worker.url + self.plane + request.path_qs, headers=headers,
                                            data=await request.read()) as answer:
                kept = {key: value for key, value in answer.headers.items() if key.lower() not in HOP_HEADERS}
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
                return response
        except aiohttp.ClientError as error:
            if response is not None:
                raise
            return web.json_response({"error": {"message": str(error), "type": "bad_gateway", "code": 502}}, status=502)
        finally:
            worker.load -= 1

    async def probe(self, worker):
        try:
            async with self.client.get(worker.url + "/health",
                                        timeout=aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)) as answer:
                worker.healthy = answer.status == 200
        except (aiohttp.ClientError, asyncio.TimeoutError):
            worker.healthy = False

    async def probe_always(self):
        while True:
            await asyncio.sleep(self.options.health_interval)
            await asyncio.gather(*map(self.probe, self.workers))

    async def serve(self):
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False,
                                         connector=aiohttp.TCPConnector(limit=0)) as self.client:
            await asyncio.gather(*map(self.probe, self.workers))
            runners = [web.AppRunner(app, access_log=None) for app in (self.app, self.metrics_app)]
            for runner, port in zip(runners, (self.options.port, 0)):
                await runner.setup()
                await web.TCPSite(runner, self.options.host, port, shutdown_timeout=0.2).start()
            self.log(runners[0].addresses[0], runners[1].addresses[0][1])
            announce(runners[0].addresses[0], self.options.port_file)
            stop = asyncio.Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
            probing = asyncio.ensure_future(self.probe_always())
            await stop.wait()
            probing.cancel()
            for runner in runners:
                await runner.cleanup()

    def log(self, address, prometheus_port):
        """The line by which people find the router of a training job."""
        if self.options.log:
            with open(self.options.log, "a", encoding="utf-8") as out:
                stamp = time.strftime("%Y-%m-%d %H:%M:%S")
                out.write(f"[{stamp}] rollout.py:1 - Starting router with {len(self.workers)} workers\n")
                out.write(f"[{stamp}] rollout.py:2 - Router launched at {address[0]}:{address[1]}, "
                          f"Prometheus port: {prometheus_port}\n")


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--dialect", choices=(*ENTRIES, "list-workers", *sorted(FRONTENDS)), default="vllm-router")
    parse.add_argument("--worker", type=Worker.parse, action="append", default=[], metavar="URL[,role=ROLE]")
    parse.add_argument("--host", default="127.0.0.1")
    parse.add_argument("--port", type=int, default=0)
    parse.add_argument("--port-file")
    parse.add_argument("--log", help="where to append the lines of a training log")
    parse.add_argument("--at-rank", action="store_true", help="list each worker twice, as URL@0 and URL@1")
    parse.add_argument("--model-id", default="unknown")
    parse.add_argument("--health-interval", type=float, default=1.0, metavar="SECONDS")
    asyncio.run(Router(parse.parse_args()).serve())


if __name__ == "__main__":
    sys.exit(main())
