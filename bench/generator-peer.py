#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of profd-load: asyncio and aiohttp, one task for each request behind a semaphore, as `vllm bench serve` has it.

    generator-peer.py URL REQUESTS CONCURRENCY OSL

Prints one line of JSON: duration_s, processor time, and for each request its number, TTFT and gaps in ns."""
import asyncio
import json
import resource
import sys
import time

import aiohttp


async def send(session, url, number, osl):
    payload = {"model": "nothing", "prompt": f"request {number}", "temperature": 0.0, "max_tokens": osl, "stream": True,
               "stream_options": {"include_usage": True}, "ignore_eos": True}
    text, gaps, ttft, tokens = "", [], 0.0, 0
    start = latest = time.perf_counter()
    async with session.post(url=url + "/v1/completions", json=payload) as response:
        assert response.status == 200
        async for line in response.content:
            line = line.strip()
            if not line:
                continue
            event = line.decode("utf-8").removeprefix("data: ")
            if event == "[DONE]":
                continue
            data = json.loads(event)
            if choices := data.get("choices"):
                now = time.perf_counter()
                if ttft == 0.0:
                    ttft = now - start
                else:
                    gaps.append(now - latest)
                latest = now
                text += choices[0].get("text") or ""
            elif usage := data.get("usage"):
                tokens = usage.get("completion_tokens")
    return number, ttft, gaps, tokens


async def run(url, requests, concurrency, osl):
    semaphore = asyncio.Semaphore(concurrency)
    connector = aiohttp.TCPConnector(limit=concurrency, limit_per_host=concurrency, keepalive_timeout=60)
    timeout = aiohttp.ClientTimeout(total=6 * 3600)

    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        async def limited(number):
            async with semaphore:
                return await send(session, url, number, osl)
        begin = time.perf_counter()
        found = await asyncio.gather(*(asyncio.create_task(limited(i)) for i in range(requests)))
        return time.perf_counter() - begin, found


def main():
    url, requests, concurrency, osl = sys.argv[1], *map(int, sys.argv[2:])
    before = resource.getrusage(resource.RUSAGE_SELF)
    duration, found = asyncio.run(run(url, requests, concurrency, osl))
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"duration_s": duration, "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                      "requests": [{"id": number, "ttft_ns": ttft * 1e9, "gaps_ns": [gap * 1e9 for gap in gaps], "tokens": tokens}
                                   for number, ttft, gaps, tokens in found]}))


if __name__ == "__main__":
    main()
