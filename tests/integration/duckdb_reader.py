# SPDX-License-Identifier: Apache-2.0
"""DuckDB through its C API, without a module of Python: its shared library comes from its package for Node (`./dev` unpacks it)."""
import ctypes
import json
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("PROFD_DUCKDB") or ROOT / ".cache/npm/duckdb/libduckdb.so")


class Result(ctypes.Structure):
    """duckdb_result of duckdb.h, whose members are private; room for more."""
    _fields_ = [("private", ctypes.c_uint64 * 16)]


class DuckDB:
    """A database in memory. A statement that fails is a ValueError."""

    def __init__(self, folder):
        self.answer = folder / "answer.json"
        self.library = ctypes.CDLL(str(LIBRARY))
        self.library.duckdb_result_error.restype = ctypes.c_char_p
        self.library.duckdb_value_varchar.restype = ctypes.c_void_p
        self.database, self.connection = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.library.duckdb_open(None, ctypes.byref(self.database)) == 0
        assert self.library.duckdb_connect(self.database, ctypes.byref(self.connection)) == 0
        self.run("SET threads = 2")
        self.run("SET TimeZone = 'UTC'")

    def run(self, sql):
        """The text of the second column of the first row, NULL as None: what EXPLAIN prints."""
        result = Result()
        failed = self.library.duckdb_query(self.connection, sql.encode(), ctypes.byref(result))
        error = self.library.duckdb_result_error(ctypes.byref(result)).decode() if failed else None
        value = None if failed else self.library.duckdb_value_varchar(ctypes.byref(result), ctypes.c_uint64(1), ctypes.c_uint64(0))
        text = ctypes.string_at(value).decode() if value else None
        self.library.duckdb_free(ctypes.c_void_p(value))
        self.library.duckdb_destroy_result(ctypes.byref(result))
        if failed:
            raise ValueError(error)
        return text

    def rows(self, sql):
        """Rows as objects; integers and texts exactly, doubles in the digits that name them."""
        self.run(f"COPY ({sql}) TO '{self.answer}' (FORMAT json)")
        with open(self.answer, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def close(self):
        self.library.duckdb_disconnect(ctypes.byref(self.connection))
        self.library.duckdb_close(ctypes.byref(self.database))
