# SPDX-License-Identifier: Apache-2.0
"""DuckDB's writer of Parquet: parquet-peer.py LIBDUCKDB SOURCE TARGET TIMES VERSION

The rows of SOURCE are read into a table in memory first; then one thread writes them to TARGET, compressed with zstd,
in encodings of VERSION (V1, DuckDB's default, or V2, which has differences). The seconds that this took are appended to TIMES: neither
the start of a process nor the reading is held against DuckDB.
"""
import ctypes
import importlib.util
import pathlib
import sys
import time

PEER = pathlib.Path(__file__).with_name("duckdb-peer.py")


def main():
    spec = importlib.util.spec_from_file_location("duckdb_peer", PEER)
    peer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peer)
    path, source, target, times, version = sys.argv[1:]
    library = ctypes.CDLL(path)
    library.duckdb_result_error.restype = ctypes.c_char_p
    database, connection = ctypes.c_void_p(), ctypes.c_void_p()
    if library.duckdb_open(None, ctypes.byref(database)) or library.duckdb_connect(database, ctypes.byref(connection)):
        sys.exit("DuckDB does not open a database")
    for statement in ("SET threads = 1", f"CREATE TABLE slice AS FROM '{source}'"):
        peer.run(library, connection, statement)
    began = time.monotonic()
    peer.run(library, connection, f"COPY slice TO '{target}' (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION {version})")
    with open(times, "a", encoding="utf-8") as file:
        print(time.monotonic() - began, file=file)


if __name__ == "__main__":
    main()
