# SPDX-License-Identifier: Apache-2.0
"""Includes follow the one-way order of modules: module_order.py SOURCE

A module may include the modules in its line of ALLOWED, `base`, `proto` and itself. An include that is not allowed is an error; a
new module needs a line here, and a line needs its module.
"""

import pathlib
import re
import sys

# Modules without a folder of their own: settings that the configuration fills, and generated headers.
FILES = {"daemon/api/settings.c": "daemon/api/settings", "daemon/api/settings.h": "daemon/api/settings",
         "client/completion_bash.h": "client/completion", "client/completion_fish.h": "client/completion",
         "client/completion_zsh.h": "client/completion"}

TRACE = "trace/columns trace/read trace/reports trace/sql trace/export"
CLIENT = "client/cli client/transport client/local client/traces client/views client/query client/runs"
ALLOWED = {
    "base": "",
    "proto": "",
    "trace/columns": "",
    "trace/read": "trace/columns",
    "trace/reports": "trace/columns trace/read",
    "trace/sql": "trace/columns trace/read trace/reports",
    "trace/export": "trace/columns trace/read",
    "daemon/sandbox": "",
    "daemon/fleet": "",
    "daemon/catalog": "daemon/fleet",
    "daemon/jobs": "daemon/fleet daemon/catalog",
    "daemon/session": "daemon/fleet daemon/catalog daemon/jobs",
    "daemon/load": "daemon/fleet daemon/sandbox",
    "daemon/runs": "daemon/fleet daemon/catalog daemon/jobs daemon/session daemon/load daemon/sandbox",
    "daemon/ingest": "trace/columns trace/read trace/sql daemon/sandbox",
    "daemon/collect": "trace/columns trace/read daemon/fleet daemon/catalog daemon/session daemon/ingest",
    "daemon/api/settings": "",
    "daemon/api": "daemon/api/settings daemon/fleet daemon/catalog daemon/session daemon/runs daemon/ingest daemon/collect",
    "daemon": "daemon/api daemon/api/settings daemon/fleet daemon/catalog daemon/session daemon/runs daemon/ingest daemon/collect",
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


def module_of(path):
    parts = path.split("/")
    if path in FILES:
        return FILES[path]
    if parts[0] in ("daemon", "trace", "client"):
        return "/".join(parts[:2]) if len(parts) > 2 else parts[0]
    return parts[0]


def main():
    source = pathlib.Path(sys.argv[1])
    errors, seen = [], set()
    for path in sorted(p for folder in ("base", "proto", "trace", "daemon", "client") for p in (source / folder).rglob("*.[ch]")):
        name = path.relative_to(source).as_posix()
        module = module_of(name)
        if module not in ALLOWED:
            errors.append(f"{name}: module {module} has no line in ALLOWED")
            continue
        seen.add(module)
        for included in re.findall(r'^#include "([^"]+/[^"]+)"', path.read_text(), flags=re.M):
            target = module_of(included)
            if target == module or target in ("base", "proto") and module != "base" or target in ALLOWED[module].split():
                continue
            errors.append(f'{name}: {module} may not include "{included}"')
    errors += [f"module {module} does not exist" for module in sorted(set(ALLOWED) - seen - set(FILES.values()))]
    print("\n".join(errors) or f"{len(ALLOWED)} modules in order")
    return 1 if errors else 0


sys.exit(main())
