"""Count the rows of each category, for those that nobody declared."""

from collections.abc import Collection, Iterable

import numpy as np

from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.tables.withheld import RowsOfCategory


def rows_of_categories(
    tables: Iterable[Table], schema: Schema, read_facts: Collection[str]
) -> RowsOfCategory:
    """Count the rows of each category that was read from these tables; () if none was."""
    read = {
        place: np.zeros(len(column.categories or ()), np.int64)
        for place, column in enumerate(schema.columns)
        if column.kind == "category" and f"categories of {column.name!r}" in read_facts
    }
    if not read:
        return ()
    for table in tables:
        for batch in table.batches():
            for place, found in read.items():
                codes = batch.values[place]
                known = codes[~np.isnan(codes)].astype(np.int64)
                read[place] = found + np.bincount(known, minlength=found.size)
    return tuple(read.get(place) for place in range(len(schema.columns)))
