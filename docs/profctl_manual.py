#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints profctl.1.scd: the template with the options of each verb, which profctl's own help provides.

Usage: profctl_manual.py PROFCTL TEMPLATE

Lines of the template that begin with "@":
  @verb NAME                 begins the description of a verb: text, and @option blocks
  @option NAME               further text about an option of that verb, after its help
  @omit NAME...              options that are described elsewhere
  @end                       ends the description: the options of the verb follow
  @options                   the global options
"""
import pathlib
import re
import subprocess
import sys

# Described once, under "WHICH WORKERS" and "OUTPUT".
WORKERS = {"router", "router-log", "fleet", "dialect", "system-port", "worker", "unit", "user-unit", "trace-dir"}
SOURCES = pathlib.Path(__file__).resolve().parent.parent / "proto/sources.h"
WORKERS |= {key.replace("_", "-") for key in re.findall(r"^    X\((\w+),", SOURCES.read_text(encoding="utf-8"), re.MULTILINE)}
LISTING = {"format", "columns", "csv", "tsv"}


def escape(text):
    return re.sub(r"([\\*_#<>~`])", r"\\\1", text)


def options_of(profctl, verb):
    """[(name, usage, help)] in the order of `profctl help VERB`. None if this build does not have the verb."""
    help_ = subprocess.run([profctl, "help", verb], capture_output=True, text=True)
    if help_.returncode != 0 and "was built without" in help_.stderr:
        return None
    help_.check_returncode()
    text = help_.stdout
    options = []
    for line in text.split("\nExamples:\n")[0].splitlines():
        begin = re.match(r" {2,6}((?:-\w, )?--([a-z0-9-]+)\S*(?: [^ ]+)?)(?: {2,}(.*))?$", line)
        if begin:
            options.append([begin[2], begin[1], begin[3] or ""])
        elif options and re.match(r" {20,}\S", line):
            options[-1][2] += " " + line.strip()
        elif line and not line.endswith(":") and options:
            raise ValueError(f"help of {verb}: {line!r}")
    return [(name, usage, text.strip()) for name, usage, text in options]


def usage_text(usage):
    """"-n, --limit N" as "*-n*, *--limit* _N_"."""
    words = []
    for word in re.split(r"(, | )", usage):
        if word in ("", ", ", " "):
            words.append(word)
        elif word.startswith("-"):
            words.append(re.sub(r"^([^\[]*)(?:\[=(.*)\])?$", lambda m: f"*{m[1]}*" + (f"[=_{m[2]}_]" if m[2] else ""), word))
        else:
            words.append("_" + escape(word) + "_")
    return "".join(words)


def write_option(option, further, indent):
    name, usage, text = option
    print(f"{indent}{usage_text(usage)}\n{indent}\t{escape(text)}.")
    for line in "\n".join(further.get(name, [])).strip("\n").splitlines():
        print(indent + "\t" + line if line else "")
    print()


def write_verb(profctl, verb, lines):
    further, omitted, text, option = {}, LISTING | (WORKERS if verb != "timeline" else set()), [], None
    for line in lines:
        if line.startswith("@option "):
            option = line.split()[1]
            further[option] = []
        elif line.startswith("@omit "):
            omitted = omitted | set(line.split()[1:])
        elif option:
            further[option].append(line)
        else:
            text.append(line)
    print("\n".join(text).strip("\n") + "\n")
    options = options_of(profctl, verb)
    if options is None:
        print("\tThis build of profctl does not have it.\n")
        return
    unknown = set(further) - {name for name, _, _ in options}
    if unknown:
        raise ValueError(f"{verb} has no option {', '.join(sorted(unknown))}")
    for one in options:
        if one[0] not in omitted:
            write_option(one, further, "\t")


def main(profctl, template):
    verb, lines = None, []
    with open(template) as file:
        for line in file.read().splitlines():
            if line.startswith("@verb "):
                verb, lines = line.split()[1], []
            elif line == "@end":
                write_verb(profctl, verb, lines)
                verb = None
            elif verb:
                lines.append(line)
            elif line.startswith("@options"):
                for one in options_of(profctl, "options"):
                    write_option(one, {}, "")
            else:
                print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
