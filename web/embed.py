# SPDX-License-Identifier: Apache-2.0
"""Bundles the web page with esbuild, and makes it a table in C (web_assets.h).

    embed.py bundle ESBUILD SOURCE DIST                # SOURCE/src -> DIST/index.html, app-HASH.js, app-HASH.css
    embed.py table DIST OUTPUT.c OUTPUT.S                   # DIST -> the table, and its bytes by .incbin
    embed.py both ESBUILD SOURCE DIST OUTPUT.c OUTPUT.S DEPFILE

The same sources give the same bytes: no times, no paths. Compressed files are kept in DIST.compressed, from where the
assembler reads them.
"""

import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

try:
    import brotli
except ImportError:  # profd sends gzip then
    brotli = None

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
# What the licences of vendored libraries ask of copies.
LICENCES = ("/*! profd: Apache-2.0. Preact: MIT, copyright 2015-present Jason Miller. uPlot: MIT, copyright 2022-2025 Leon Sorokin. "
            "MIT: https://opensource.org/license/mit */")
# All of the page, compressed with gzip: a limit so that nobody passes it by accident.
PAGE_MAX = 150 * 1024


def bundle(esbuild, source, dist):
    """Returns the files that the bundle was made of."""
    source, dist = Path(source).resolve(), Path(dist).resolve()
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    metafile = dist / "meta.json"
    subprocess.run([esbuild, "src/main.tsx", "--bundle", "--minify", "--format=esm", "--target=es2022",
                    f"--banner:js={LICENCES}", "--charset=utf8", "--log-level=warning", "--entry-names=app-[hash]",
                    f"--outdir={dist}", f"--metafile={metafile}"], cwd=source, check=True)
    inputs = [source / name for name in json.loads(metafile.read_text())["inputs"]]
    metafile.unlink()
    page = (source / "index.html").read_text()
    for kind in "js", "css":
        [asset] = dist.glob(f"app-*.{kind}")
        page = page.replace(f"app.{kind}", asset.name)
    (dist / "index.html").write_text(page)
    return [*inputs, source / "index.html", source / "tsconfig.json"]


def compressed(dist):
    """Name, content, gzip and brotli of each file."""
    for path in sorted(Path(dist).iterdir()):
        content = path.read_bytes()
        yield path.name, content, gzip.compress(content, 9, mtime=0), brotli.compress(content) if brotli else b""


def table(dist, table_file, bytes_file):
    dist = Path(dist).resolve()
    folder = Path(bytes_file).resolve().with_suffix(".compressed")  # a dist of the source directory is only read
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rows, declarations, total = [], [], 0
    assembly = ["# SPDX-License-Identifier: Apache-2.0", ".section .rodata"]
    for number, (name, content, *packed) in enumerate(compressed(dist)):
        total += len(packed[0])
        hash_ = hashlib.sha256(content).hexdigest()[:32]
        for kind, data in zip(("gzip", "brotli"), packed):
            symbol = f"web_asset_{number}_{kind}"
            (folder / f"{name}.{kind}").write_bytes(data)
            declarations.append(f"extern const unsigned char {symbol}[];")
            assembly += [f".global {symbol}", f".hidden {symbol}", ".balign 16", f"{symbol}:", f'.incbin "{folder / name}.{kind}"']
        rows.append(f'    {{"{name}", "{TYPES[Path(name).suffix]}", "\\"{hash_}\\"", web_asset_{number}_gzip, web_asset_{number}_brotli,\n'
                    f"     {len(packed[0])}, {len(packed[1])}, {len(content)}, {'false' if name == 'index.html' else 'true'}}},")
    # Without this section the program's stack would be executable.
    assembly.append('.section .note.GNU-stack,"",%progbits')
    if total > PAGE_MAX:
        sys.exit(f"embed.py: the page has {total} bytes compressed, more than {PAGE_MAX}")
    Path(table_file).write_text("\n".join(["/* Made by web/embed.py. */", '#include "web/web_assets.h"', *declarations,
                                           "const struct web_asset web_assets[] = {", *rows, "};",
                                           f"const size_t web_assets_count = {len(rows)};", ""]))
    Path(bytes_file).write_text("\n".join([*assembly, ""]))


def both(esbuild, source, dist, table_file, bytes_file, depfile):
    inputs = bundle(esbuild, source, dist)
    table(dist, table_file, bytes_file)
    escaped = (str(path).replace(" ", "\\ ") for path in inputs)
    Path(depfile).write_text(f"{table_file}: {' '.join(escaped)}\n")


if __name__ == "__main__":
    {"bundle": bundle, "table": table, "both": both}[sys.argv[1]](*sys.argv[2:])
