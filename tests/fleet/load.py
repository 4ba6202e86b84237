#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sends completions to a worker or router, a bounded number at a time, and says on stdout as JSON what came of them.

It ends after --duration seconds or --requests requests, whichever comes first, and waits for those under way. The exit
status is 0 if every request was answered with 200.
"""
import argparse
import asyncio
import itertools
import json
import sys
import time

import aiohttp

PROMPTS = ("Why is this slow?", "Write a short story about a kernel that never returned.", "Count to ten.",
           "Explain attention to somebody who has none left.")


class Load:
    def __init__(self, options):
        self.options = options
        self.deadline = time.monotonic() + options.duration
        self.numbers = itertools.count()
        self.answered = {}
        self.tokens = 0

    async def run(self):
        timeout = aiohttp.ClientTimeout(total=self.options.timeout)
        headers = {"Authorization": f"Bearer {self.options.api_key}"} if self.options.api_key else {}
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as client:
            await asyncio.gather(*(self.send_in_turn(client) for _ in range(self.options.concurrency)))
        return {"requests": sum(self.answered.values()), "answers": self.answered, "completion_tokens": self.tokens}

    async def send_in_turn(self, client):
        while time.monotonic() < self.deadline:
            number = next(self.numbers)
            if self.options.requests and number >= self.options.requests:
                return
            outcome = await self.send(client, PROMPTS[number % len(PROMPTS)])
            self.answered[outcome] = self.answered.get(outcome, 0) + 1
            if outcome != "200":
                await asyncio.sleep(0.1)

    async def send(self, client, prompt):
        """The status, or the kind of error."""
        body = {"model": self.options.model, "prompt": prompt, "max_tokens": self.options.max_tokens,
                "ignore_eos": True, "stream": self.options.stream}
        try:
            async with client.post(self.options.url.rstrip("/") + "/v1/completions", json=body) as answer:
                if self.options.stream:
                    async for line in answer.content:
                        self.tokens += line.startswith(b"data: {")
                else:
                    usage = (await answer.json(content_type=None) or {}).get("usage", {})
                    self.tokens += usage.get("completion_tokens", 0)
                return str(answer.status)
        except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as error:
            return type(error).__name__


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--url", required=True)
    parse.add_argument("--concurrency", type=int, default=4)
    parse.add_argument("--duration", type=float, default=10, metavar="SECONDS")
    parse.add_argument("--requests", type=int, default=0, help="0: as many as fit into the duration")
    parse.add_argument("--max-tokens", type=int, default=16)
    parse.add_argument("--timeout", type=float, default=60, metavar="SECONDS")
    parse.add_argument("--model", default="tiny-random")
    parse.add_argument("--api-key")
    parse.add_argument("--stream", action="store_true")
    result = asyncio.run(Load(parse.parse_args()).run())
    print(json.dumps(result))
    return 0 if set(result["answers"]) <= {"200"} else 1


if __name__ == "__main__":
    sys.exit(main())
