# SPDX-License-Identifier: Apache-2.0
"""The profiler of a server of NeMo Gym: yappi over all of its life, and what each generation makes of it."""
import io
import pathlib

from aiohttp import web

CLASS = "MathResourcesServer"
COLUMNS = {0: ("name", 200), 1: ("ncall", 10), 2: ("tsub", 8), 3: ("ttot", 8), 4: ("tavg", 8)}


class Profiler:
    def __init__(self, name, generation, directory):
        import yappi
        self.yappi, self.name, self.generation, self.directory = yappi, name, generation, pathlib.Path(directory)

    def start(self):
        self.yappi.set_clock_type("CPU")
        self.yappi.start()

    def stop(self):
        self.yappi.stop()
        if self.generation == "table":
            self.directory.mkdir(parents=True, exist_ok=True)
            (self.directory / f"{CLASS}___{self.name}.log").write_text(self.table("nemo_gym.py"))
        else:
            self.dump()

    def table(self, required):
        """As NeMo Gym filters it: of the rows those that contain `required`; none where that is None."""
        out = io.StringIO()
        self.yappi.get_func_stats().print_all(out=out, columns=COLUMNS)
        text, past_heading = "", False
        for line in out.getvalue().splitlines(keepends=True):
            if not past_heading or (required and required in line):
                text += line
            past_heading = past_heading or line.startswith("name")
        return text

    def dump(self):
        own = self.directory / f"{CLASS}___{self.name}"
        own.mkdir(parents=True, exist_ok=True)
        if self.generation == "files":
            self.yappi.get_func_stats().save(str(own / f"{self.name}.callgrind"), type="CALLGRIND")
        (own / f"{self.name}.log").write_text(self.table("nemo_gym.py" if self.generation == "log" else None))

    async def stats(self, _request):
        if self.generation == "table":
            return web.Response(text=self.table("nemo_gym.py"))
        self.dump()
        return web.Response()
