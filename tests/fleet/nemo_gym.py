#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A real server of NeMo Gym for tests and the demo: a resource server, or with `--head` the head server.

A resource server verifies answers, with code that has something to be found in it, and takes rollouts at /run, as its
own agent. Where its configuration in $NEMO_GYM_CONFIG_DICT enables profiling, it counts its functions with Debian's yappi.
`--generation` says what its /stats does: `table` answers with the rows of its own program, `files` answers with nothing
and writes a .callgrind and a .log that ends after the heading, `log` writes only a .log, with rows. Each writes the same
when it ends, the first into the place of its time. It prints http://HOST:PORT when it is ready, and writes it into
--port-file.
"""
import argparse
import asyncio
import os
import signal
import sys
import time

import yaml
from aiohttp import web

from announce import announce
from nemo_gym_profiling import Profiler

def score(answer):
    """Own code that takes time: a list is searched for each digit."""
    seen, repeats = [], 0
    for number in range(400):
        digest = (number * 7919 + answer) % 1009
        if digest in seen:
            repeats += 1
        seen.append(digest)
    return repeats


def verify_all(answers):
    """Passes on."""
    return [score(answer) for answer in answers]


def application(routes):
    app = web.Application()

    async def openapi(_request):
        paths = {route.path: {route.method.lower(): {}} for route in routes}
        return web.json_response({"openapi": "3.1.0", "info": {"title": "FastAPI", "version": "0.1.0"}, "paths": paths})

    async def live(_request):
        return web.json_response({"status": "ok"})

    app.add_routes([*routes, web.get("/openapi.json", openapi), web.get("/", live)])
    return app


def resource_routes(profiler):
    async def seed_session(_request):
        return web.json_response({})

    async def verify(request):
        rewards = verify_all((await request.json())["answers"])
        return web.json_response({"reward": sum(rewards)})

    async def run(request):
        row = await request.json()
        if "answers" not in row:
            raise web.HTTPUnprocessableEntity(text="no answers")
        return web.json_response({"reward": sum(verify_all(row["answers"])), "echo": row["answers"]})

    routes = [web.post("/run", run), web.post("/seed_session", seed_session), web.post("/verify", verify),
              web.post("/aggregate_metrics", seed_session)]
    return [*routes, web.get("/stats", profiler.stats)] if profiler else routes


def head_routes(options):
    start_time = time.time()

    def instance(text):
        name, url = text.split("=", 1)
        host, _, port = url.rpartition("//")[2].rpartition(":")
        return {"config_path": name, "dir_path": os.getcwd(), "entrypoint": "app.py", "host": host, "name": "math",
                "pid": os.getpid(), "port": int(port) if port else None, "process_name": name,
                "server_type": "resources_servers", "start_time": start_time, "status": None, "uptime_seconds": None,
                "url": url or None}

    async def server_instances(_request):
        return web.json_response([instance(text) for text in options.server])

    return [web.get("/server_instances", server_instances)]


async def serve(app, options):
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, options.host, options.port, shutdown_timeout=0.2).start()
    announce(runner.addresses[0], options.port_file)
    await stop.wait()
    await runner.cleanup()


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--host", default="127.0.0.1")
    parse.add_argument("--port", type=int, default=0)
    parse.add_argument("--port-file")
    parse.add_argument("--generation", choices=("table", "files", "log"), default="files")
    parse.add_argument("--head", action="store_true", help="be the head server")
    parse.add_argument("--server", action="append", default=[], metavar="NAME=URL", help="that the head server knows")
    options = parse.parse_args()

    config = yaml.safe_load(os.environ.get("NEMO_GYM_CONFIG_DICT", "")) or {}
    profiler = None
    if config.get("profiling_enabled") and not options.head:
        profiler = Profiler(os.environ["NEMO_GYM_CONFIG_PATH"], options.generation, config["profiling_results_dirpath"])
        profiler.start()
    asyncio.run(serve(application(head_routes(options) if options.head else resource_routes(profiler)), options))
    if profiler:
        profiler.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
