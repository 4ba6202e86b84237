# SPDX-License-Identifier: Apache-2.0
"""Big traces made of two real ones by repeating them (grow.c): A of training, B of inference with Python stacks."""
import json
import pathlib
import shutil
import subprocess

from common import BUILD, ROOT

PROGRAMS = BUILD / "bench"
TRACES = ROOT.parent / "shared/traces"
SOURCES = {"A": TRACES / "hta/trace_diff_control.json.gz", "B": TRACES / "tracelens/xdit_flux_aiter_sage_rank0.json.gz"}
# Bytes of B with that many slices.
SLICES = {"2M": 500_000_000, "10M": 2_856_000_000, "100M": 29_000_000_000}
# The smallest a trace may be compressed to, for what it needs on the disk.
PACKED = 10


def fits(directory, size):
    """A tenth of the disk is left free."""
    usage = shutil.disk_usage(directory)
    return usage.free - usage.total // 10 > size


def grow(name, size, target, distinct=0):
    """A trace of at least so many bytes, of A, B or a file; compressed where the target's name says so, as torch does it (level 6)."""
    arguments = [PROGRAMS / "grow", "--distinct", str(distinct), SOURCES.get(name, name), str(size)]
    if target.suffix != ".gz":
        subprocess.run([*arguments, target], check=True)
        return target
    with open(target, "wb") as sink, subprocess.Popen([*arguments, "-"], stdout=subprocess.PIPE) as maker:
        subprocess.run(["pigz", "-6", "-c"], stdin=maker.stdout, stdout=sink, check=True)
        if maker.wait() != 0:
            raise RuntimeError("grow failed")
    return target


def of_slices(slices, directory, options):
    """B with "10M" slices or so, or None where the disk is too full: with --keep it stays there, and is made once."""
    size, place = SLICES[slices], pathlib.Path(options.keep or directory)
    path = place / f"B-{slices}.json"
    if not path.exists():
        # profd makes columns of it, and keeps no copy.
        if not fits(place, size + size // PACKED):
            return None
        grow("B", size, path.with_suffix(".part")).rename(path)
    return path


def read(path, columns):
    """What read-trace prints for a trace, and its columns."""
    done = subprocess.run([PROGRAMS / "read-trace", path, columns], check=True, capture_output=True)
    return json.loads(done.stdout)
