# SPDX-License-Identifier: Apache-2.0
"""ATOM's entry point: the command line of its server names it, and little else tells what that process is."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import worker  # noqa: E402

if __name__ == "__main__":
    sys.exit(worker.main())
