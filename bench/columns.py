# SPDX-License-Identifier: Apache-2.0
"""The columnar file: its size by parts, of grown and of the largest real traces, and how fast columns are read from memory,
next to a copy of as many numbers."""
import json
import subprocess

from common import summary
from grown import PROGRAMS, SOURCES, TRACES, grow, read

SIZE = 500_000_000
ROUNDS = 5
REAL = ["hta/trace_diff_control.json.gz", "hta/mtia_rank_0.json.gz", "hta/df_index_resolver.json.gz",
        "tracelens/xdit_flux_aiter_sage_rank0.json.gz"]


def measure(columns):
    done = subprocess.run([PROGRAMS / "columns-speed", columns], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def size_of(what, columns):
    found = measure(columns)
    parts = {part: size / found["slices"] for part, size in found["bytes"].items()}
    every = sum(parts.values())
    return {"what": f"{what}: bytes a slice", "slices": found["slices"], **{part: round(size, 1) for part, size in parts.items()},
            "without lanes": round(every - parts["lanes"], 1), "all": round(every, 1)}


def speed_of(what, columns):
    runs = [measure(columns) for _ in range(ROUNDS)]
    yield {"what": f"{what}: opening", "us": summary([run["open_us"] for run in runs])}
    for column in (key for key, value in runs[0].items() if isinstance(value, dict) and "scan" in value):
        yield {"what": f"{what}: {column}", "scan GB/s": summary([run[column]["scan"] for run in runs]),
               "copy GB/s": summary([run[column]["copy"] for run in runs]),
               "ns an access": summary([run[column]["access"] for run in runs])}


def run(directory, _options):
    if not all(source.exists() for source in SOURCES.values()):
        yield {"skipped": "the real traces are not next to the checkout"}
        return
    columns = directory / "columns"
    for name in REAL:
        read(TRACES / name, columns)
        yield {"part": "size", **size_of(name.split("/")[1].split(".")[0], columns)}
    speeds = []
    for name in SOURCES:
        path = grow(name, SIZE, directory / f"{name}.json")
        read(path, columns)
        yield {"part": "size", **size_of(f"{name}, {SIZE / 1e9:g} GB", columns)}
        speeds += speed_of(f"{name}, {SIZE / 1e9:g} GB", columns)
        path.unlink()
    for row in speeds:
        yield {"part": "speed", **row}
