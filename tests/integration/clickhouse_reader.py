# SPDX-License-Identifier: Apache-2.0
"""ClickHouse through the C API of chdb, without a module of Python: its shared library comes from its package for Node (`./dev`
unpacks it)."""
import ctypes
import json
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("PROFD_CHDB") or ROOT / ".cache/npm/chdb/libchdb.so")


class ClickHouse:
    """A database in memory, of which a process has one. A statement that fails is a ValueError."""

    def __init__(self):
        # With the symbols of this process first, its C++ library would be mixed with that of another library.
        self.library = ctypes.CDLL(str(LIBRARY), mode=os.RTLD_LOCAL | os.RTLD_DEEPBIND)
        self.library.chdb_connect.restype = ctypes.POINTER(ctypes.c_void_p)
        self.library.chdb_query.restype = ctypes.c_void_p
        self.library.chdb_query.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
        self.library.chdb_result_buffer.restype = ctypes.c_void_p
        self.library.chdb_result_length.restype = ctypes.c_size_t
        self.library.chdb_result_error.restype = ctypes.c_char_p
        for name in ("buffer", "length", "error"):
            getattr(self.library, f"chdb_result_{name}").argtypes = [ctypes.c_void_p]
        self.library.chdb_destroy_query_result.argtypes = [ctypes.c_void_p]
        self.connection = self.library.chdb_connect(1, (ctypes.c_char_p * 1)(b"clickhouse"))
        assert self.connection

    def rows(self, sql):
        """Rows as objects, in the order of the file."""
        sql += (" SETTINGS output_format_json_quote_64bit_integers = 0, session_timezone = 'UTC', max_threads = 1, "
                "input_format_parquet_preserve_order = 1")
        result = self.library.chdb_query(self.connection[0], sql.encode(), b"JSONEachRow")
        error = self.library.chdb_result_error(result)
        text = b"" if error else ctypes.string_at(self.library.chdb_result_buffer(result), self.library.chdb_result_length(result))
        if error:
            error = error.decode()
        self.library.chdb_destroy_query_result(result)
        if error:
            raise ValueError(error)
        return [json.loads(line) for line in text.splitlines()]
