# SPDX-License-Identifier: Apache-2.0
"""Traces that a fault worker wrote, as they lie on its disk."""

import contextlib
import gzip
import json
import stat
import zlib

GONE = (FileNotFoundError, NotADirectoryError)


def is_whole(path):
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError, zlib.error):
        return False
    return True


def written_while(directory, begin_ns, end_ns):
    with contextlib.suppress(*GONE):
        for path in directory.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if begin_ns <= path.lstat().st_mtime_ns <= end_ns:
                    yield path
