# SPDX-License-Identifier: Apache-2.0
"""Includes follow the one-way order of modules: module_order.py SOURCE

A module may include the modules in its line of ALLOWED, `base`, `proto` and itself. An include that is not allowed is an error; a
new module needs a line here, and a line needs its module.

`extras` may include everything. Only the tests in EXTRAS_TESTS, which meson builds with it, may include it: the core declares tables
(extra_...), and extras register there. The core does not name what is in extras either, except for formats of files (FORMATS).
"""

import pathlib
import re
import sys

# Modules without a folder of their own: settings that the configuration fills, and generated headers.
FILES = {"daemon/api/settings.c": "daemon/api/settings", "daemon/api/settings.h": "daemon/api/settings",
         "client/completion_bash.h": "client/completion", "client/completion_fish.h": "client/completion",
         "client/completion_zsh.h": "client/completion"}

TRACE = "trace/columns trace/read trace/reports trace/sql trace/parquet trace/export trace/ranks trace/view"
CLIENT = "client/cli client/transport client/local client/traces client/views client/query client/runs"
ALLOWED = {
    "base": "",
    "proto": "",
    "archive": "",
    "trace/columns": "",
    "trace/read": "trace/columns",
    "trace/reports": "trace/columns trace/read",
    "trace/sql": "trace/columns trace/read trace/reports",
    "trace/parquet": "",
    "trace/export": "trace/columns trace/read trace/parquet",
    "trace/ranks": "trace/columns trace/read trace/reports trace/parquet trace/export",
    "trace/view": "trace/columns trace/read trace/reports trace/sql",
    "daemon/sandbox": "",
    "daemon/kineto": "",
    "daemon/fleet": "daemon/kineto",
    "daemon/catalog": "daemon/fleet",
    "daemon/peers": "daemon/fleet daemon/catalog",
    "daemon/jobs": "daemon/fleet daemon/catalog",
    "daemon/session": "daemon/fleet daemon/kineto daemon/catalog daemon/jobs",
    "daemon/hosts": "daemon/fleet daemon/catalog daemon/peers daemon/jobs daemon/session",
    "daemon/load": "daemon/fleet daemon/sandbox",
    "daemon/runs": "daemon/fleet daemon/catalog daemon/jobs daemon/session daemon/load daemon/sandbox",
    "daemon/ingest": "trace/columns trace/read trace/sql daemon/sandbox",
    "daemon/collect": "trace/columns trace/read daemon/fleet daemon/catalog daemon/session daemon/ingest",
    "daemon/report": "trace/columns trace/parquet trace/reports trace/sql trace/export trace/ranks trace/view daemon/fleet daemon/catalog daemon/sandbox",
    "daemon/archive": "archive daemon/fleet daemon/catalog daemon/session daemon/ingest daemon/collect",
    "daemon/mirror": "daemon/fleet daemon/catalog",
    "daemon/api/settings": "",
    "daemon/api": "daemon/api/settings daemon/fleet daemon/kineto daemon/catalog daemon/peers daemon/session daemon/hosts daemon/runs daemon/ingest daemon/collect daemon/report archive daemon/archive daemon/mirror web",
    "daemon": "daemon/api daemon/api/settings daemon/fleet daemon/kineto daemon/catalog daemon/peers daemon/session daemon/hosts daemon/runs daemon/ingest daemon/collect daemon/report archive daemon/archive daemon/mirror",
    "client/cli": "",
    "client/transport": "client/cli",
    "client/local": "client/cli client/transport",
    "client/traces": f"{TRACE} client/cli client/transport client/local",
    "client/views": f"{TRACE} client/cli client/transport client/local client/traces",
    "client/query": f"{TRACE} client/cli client/transport client/local client/traces client/views",
    "client/runs": f"{TRACE} client/cli client/transport client/local client/views",
    "client/completion": f"{TRACE} {CLIENT}",
    "client/verbs": f"{TRACE} {CLIENT} client/completion",
    "client": f"{TRACE} {CLIENT} client/completion client/verbs",
}

EXTRAS_TESTS = {
    "tests/fuzz/fuzz-recipe.c", "tests/fuzz/fuzz-yappi-text.c", "tests/unit/test-audit.c", "tests/unit/test-function-rows.c",
    "tests/unit/test-functions.c", "tests/unit/test-nemo-gym.c", "tests/unit/test-recipe.c",
}
EXTRAS_WORDS = re.compile(r"nemo.?gym|srtctl|profd-onnx", re.IGNORECASE)
FORMATS = {"daemon/collect/import_row.c", "trace/read/callgrind.h", "trace/read/tracename.c", "trace/read/tracename.h"}


def module_of(path):
    parts = path.split("/")
    if path in FILES:
        return FILES[path]
    if parts[0] in ("daemon", "trace", "client"):
        return "/".join(parts[:2]) if len(parts) > 2 else parts[0]
    return parts[0]


INCLUDE = re.compile(r'^#include "([^"]+/[^"]+)"', flags=re.M)


def main():
    source = pathlib.Path(sys.argv[1])
    errors, seen = [], set()
    for path in sorted(p for folder in ("base", "proto", "archive", "trace", "daemon", "client") for p in (source / folder).rglob("*.[ch]")):
        name = path.relative_to(source).as_posix()
        module = module_of(name)
        if module not in ALLOWED:
            errors.append(f"{name}: module {module} has no line in ALLOWED")
            continue
        seen.add(module)
        text = path.read_text()
        if name not in FORMATS and (word := EXTRAS_WORDS.search(text)):
            errors.append(f"{name}: the core names {word[0]}, which is in extras")
        for included in INCLUDE.findall(text):
            target = module_of(included)
            if target == module or target in ("base", "proto") and module != "base" or target in ALLOWED[module].split():
                continue
            errors.append(f'{name}: {module} may not include "{included}"')
    users = {path.relative_to(source).as_posix() for folder in ("tests", "bench") for path in (source / folder).rglob("*.[ch]")
             if any(module_of(included) == "extras" for included in INCLUDE.findall(path.read_text()))}
    errors += [f"{name}: only EXTRAS_TESTS may include extras" for name in sorted(users - EXTRAS_TESTS)]
    errors += [f"{name}: in EXTRAS_TESTS without need" for name in sorted(EXTRAS_TESTS - users)]
    errors += [f"module {module} does not exist" for module in sorted(set(ALLOWED) - seen - set(FILES.values()))]
    print("\n".join(errors) or f"{len(ALLOWED)} modules in order")
    return 1 if errors else 0


sys.exit(main())
