# SPDX-License-Identifier: Apache-2.0
"""Rows of the catalog's public views, in SQLite and in the mirror, in one form: equal lists are equal views."""

import contextlib
import datetime
import json
import sqlite3

# Views whose rows are mirrored. Discoveries renew last_seen_at without changing a row otherwise.
MIRRORED = ["routers", "workers", "sessions", "targets", "traces", "trace_categories", "trace_defects", "runs", "functions", "events",
            "kernel_sums", "category_sums", "step_sums", "finding"]
NOT_COMPARED = {"routers": {"last_seen_at"}, "workers": {"last_seen_at"}}
JSON_COLUMNS = {"options", "labels", "remarks", "skipped", "candidates", "workload", "targets", "notes", "warmed", "summary"}


def microseconds(ns):
    return ns // 1000


def from_postgres(view, row):
    """A row as SQLite has it, with times in microseconds."""
    result = {}
    for name, value in row.items():
        if value is not None and (name == "at" or name.endswith("_at")):
            value = datetime.datetime.fromisoformat(value)
            value = (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(microseconds=1)
        result[name] = value
    return result


def from_sqlite(view, row):
    result = {}
    for name, value in row.items():
        if value is not None and (name == "at" or name.endswith("_at")):
            value = microseconds(value)
        elif value is not None and name in JSON_COLUMNS:
            value = json.loads(value)
        result[name] = value
    return result


def comparable(value):
    """A real that is an integer is printed without a fraction by PostgreSQL, and with one by SQLite."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def ordered(view, rows):
    rows = [{name: comparable(value) for name, value in row.items() if name not in NOT_COMPARED.get(view, ())} for row in rows]
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def in_sqlite(catalog, view):
    with contextlib.closing(sqlite3.connect(f"file:{catalog}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        (identity,) = db.execute("select uuid as catalog, host from catalog_row")
        return ordered(view, [{**dict(identity), **from_sqlite(view, dict(row))} for row in db.execute(f"select * from {view}")])


def in_postgres(mirror, view, uuid):
    rows = mirror.sql(f"select row_to_json(v) from fleet.{view} v where catalog = '{uuid}'")
    return ordered(view, [from_postgres(view, json.loads(cell)) for (cell,) in rows])
