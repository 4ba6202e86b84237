# SPDX-License-Identifier: Apache-2.0
"""docs/catalog.md says what the public views are: all of them, every column, no other; and its queries run."""

import pathlib
import re
import sqlite3

import pytest

pytestmark = pytest.mark.plain

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = (ROOT / "docs/catalog.md").read_text()


@pytest.fixture
def catalog():
    db = sqlite3.connect(":memory:")
    db.executescript((ROOT / "proto/catalog.sql").read_text())
    yield db
    db.close()


def documented():
    """{view: [column]} of the sections with a table of columns."""
    sections = re.split(r"^### ", DOCS.split("## Views")[1].split("## Examples")[0], flags=re.M)[1:]
    return {s.split("\n", 1)[0]: re.findall(r"^\| `(\w+)` \| (?=\S)", s, flags=re.M) for s in sections}


def test_every_column_of_every_view(catalog):
    views = [name for (name,) in catalog.execute("select name from sqlite_schema where type = 'view'")]
    columns = {v: [row[1] for row in catalog.execute(f"pragma table_info({v})")] for v in views}
    assert documented() == columns


def test_views_are_named_first(catalog):
    for (name,) in catalog.execute("select name from sqlite_schema where type = 'view'"):
        assert f"`{name}`" in DOCS.split("## Views")[0]


@pytest.mark.parametrize("query", re.findall(r"```sql\n(.*?)```", DOCS, flags=re.S))
def test_examples_run(catalog, query):
    assert "_row" not in query
    catalog.execute(query)


def test_states_are_those_of_the_schema(catalog):
    for table, view in (("session_row", "sessions"), ("trace_row", "traces"), ("run_row", "runs")):
        (sql,) = catalog.execute("select sql from sqlite_schema where name = ?", (table,)).fetchone()
        states = re.findall(r"'([\w-]+)'", re.search(r"state in \((.*?)\)", sql, flags=re.S)[1])
        line = re.search(r"^\| `state` \|.*$", DOCS.split(f"### {view}")[1], flags=re.M)[0]
        assert re.findall(r"`([\w-]+)`", line)[1:] == states
