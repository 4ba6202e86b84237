# SPDX-License-Identifier: Apache-2.0
"""Writes a text file as a C string: embed.py TEXT NAME HEADER"""

import sys

source, name, header = sys.argv[1:]
with open(source, encoding="utf-8") as f:
    lines = f.read().splitlines()
quoted = ['    "' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"' for line in lines]
with open(header, "w", encoding="utf-8") as f:
    f.write("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made from %s by embed.py. */\n#pragma once\n\n" % source.split("/")[-1])
    f.write("static const char %s[] =\n%s;\n" % (name, "\n".join(quoted)))
