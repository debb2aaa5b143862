"""Count the rows of each category and class that nobody declared, and name such ranges."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import SchemaError
from spinney.tables.schema import Column, Label, Schema, join_words
from spinney.tables.table import MemoryTable, Table
from spinney.tables.withheld import UndeclaredRows


def undeclared_rows(
    tables: Iterable[Table], schema: Schema, read_facts: Collection[str]
) -> UndeclaredRows:
    """Count the rows of each category and class that was read from these tables.

    Ranges that were read are named only: whoever holds an end, few others do.
    """
    read = {
        place: np.zeros(len(column.categories or ()), np.int64)
        for place, column in enumerate(schema.columns)
        if column.kind == "category" and f"categories of {column.name!r}" in read_facts
    }
    classes = None
    if are_classes_read(schema.label, read_facts):
        classes = np.zeros(len(schema.label.classes or ()), np.int64)
    ranges = ranges_read(schema, read_facts)
    if not read and classes is None:
        return UndeclaredRows(ranges=ranges)
    for table in tables:
        if classes is not None and not read and isinstance(table, MemoryTable):
            classes += np.bincount(table.targets, minlength=classes.size)  # no cell need be read
            continue
        for batch in table.batches():
            for place, found in read.items():
                codes = batch.values[place]
                known = codes[~np.isnan(codes)].astype(np.int64)
                read[place] = found + np.bincount(known, minlength=found.size)
            if classes is not None:
                classes += np.bincount(batch.target, minlength=classes.size)
    by_column = tuple(read.get(place) for place in range(len(schema.columns))) if read else ()
    return UndeclaredRows(by_column, classes, ranges)


def ranges_read(schema: Schema, read_facts: Collection[str]) -> frozenset[str]:
    """Return which columns and labels have a range that was read from rows."""
    places: tuple[Column | Label, ...] = (*schema.columns, schema.label)
    return frozenset(one.name for one in places if f"range of {one.name!r}" in read_facts)


def require_common_classes(
    label: Label, targets: Iterable[NDArray[Any]], read_facts: Collection[str], fewest: int
) -> None:
    """Raise if a private job has a class that nobody declared and that fewer rows hold.

    The list of classes is public, so such a class would tell of a single row.
    """
    classes = label.classes or ()
    if not are_classes_read(label, read_facts):
        return
    rows = np.bincount(np.concatenate(list(targets)), minlength=len(classes))
    rare = [name for name, n in zip(classes, rows, strict=True) if n < fewest]
    if rare:
        n_rare = "a class" if len(rare) == 1 else f"{len(rare)} classes"
        raise SchemaError(
            f"The label {label.name!r} has {n_rare} that fewer than {fewest} rows hold and that "
            "nobody declared. A private job does not read such a class from the rows. Mend its "
            "spelling, leave its rows out, or declare all classes in [schema]: classes = [...].",
            local=f"Rare: {join_words(map(repr, rare))}.",
        )


def are_classes_read(label: Label, read_facts: Collection[str]) -> bool:
    """Return whether a label's classes were read from rows."""
    return label.kind == "class" and f"classes of {label.name!r}" in read_facts
