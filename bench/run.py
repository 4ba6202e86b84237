#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks that are named, or all of them; one line of JSON a row. bench/README.md says what came out."""
import argparse
import importlib
import json
import pathlib
import tempfile

BENCHMARKS = ("fanout", "idle", "catalog")


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("benchmark", nargs="*", choices=[*BENCHMARKS, []], default=[])
    for name in parse.parse_args().benchmark or BENCHMARKS:
        with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as directory:
            for row in importlib.import_module(name).run(pathlib.Path(directory)):
                print(json.dumps({"benchmark": name, **row}), flush=True)


if __name__ == "__main__":
    main()
