# SPDX-License-Identifier: Apache-2.0
"""Statements in DuckDB through its C API: duckdb-peer.py LIBDUCKDB TIMES STATEMENT...

The last statement runs twice, and the second run prints its rows with tabs between them. The seconds that it took are appended to
TIMES: neither the start of a process nor a first look at the file is held against DuckDB.
"""
import ctypes
import sys
import time


class Result(ctypes.Structure):
    """duckdb_result of duckdb.h, whose members are private; room for more."""
    _fields_ = [("private", ctypes.c_uint64 * 16)]


def run(library, connection, sql):
    result = Result()
    if library.duckdb_query(connection, sql.encode(), ctypes.byref(result)):
        sys.exit(library.duckdb_result_error(ctypes.byref(result)).decode())
    library.duckdb_destroy_result(ctypes.byref(result))


def main():
    path, times, *before, sql = sys.argv[1:]
    library = ctypes.CDLL(path)
    library.duckdb_result_error.restype = ctypes.c_char_p
    database, connection = ctypes.c_void_p(), ctypes.c_void_p()
    if library.duckdb_open(None, ctypes.byref(database)) or library.duckdb_connect(database, ctypes.byref(connection)):
        sys.exit("DuckDB does not open a database")
    for statement in before:
        run(library, connection, statement)
    for target in "/dev/null", "/dev/stdout":
        began = time.monotonic()
        run(library, connection, f"COPY ({sql}) TO '{target}' (FORMAT csv, DELIMITER '\t', QUOTE '', ESCAPE '', HEADER)")
    with open(times, "a", encoding="utf-8") as file:
        print(time.monotonic() - began, file=file)


if __name__ == "__main__":
    main()
