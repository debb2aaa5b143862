"""Counting the rows of what nobody declared."""

from typing import Any

import numpy as np

from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.tables.undeclared import undeclared_rows


class Unread:
    """Columns that must not be read."""

    n_rows = 5

    def values(self, rows):
        raise AssertionError(rows)


def schema_of(kind):
    categories = ("a", "b") if kind == "category" else None
    label = Label("y", "class", ("no", "yes", "perhaps"))
    return Schema((Column("x", kind, categories=categories),), label)


def test_classes_are_counted_without_reading_the_rows():
    target, keys = np.array([0, 2, 2, 1, 2]), np.arange(5, dtype=np.uint64)
    unread: Any = Unread()
    whole = MemoryTable(schema_of("number"), unread, target, keys)
    tables = [whole.select(np.array([0, 1])), whole.select(np.array([2, 3, 4]))]
    counted: Any = undeclared_rows(tables, whole.schema, ("classes of 'y'",))
    assert counted.of_class.tolist() == [1, 1, 3]


def test_classes_are_counted_beside_categories():
    target, keys = np.array([0, 2, 2, 1, 2]), np.arange(5, dtype=np.uint64)
    columns = VectorColumns((np.array([0.0, 1, 1, np.nan, 1], np.float32),))
    table = MemoryTable(schema_of("category"), columns, target, keys)
    counted: Any = undeclared_rows([table], table.schema, ("classes of 'y'", "categories of 'x'"))
    assert counted.of_class.tolist() == [1, 1, 3]
    assert [one.tolist() for one in counted.of_category] == [[1, 3]]
