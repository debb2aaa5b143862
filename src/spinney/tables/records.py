"""What tells a record from others whatever its label is: an id that no label has a part in.

A row's key (`tables.table`) depends on all that the row holds, its label too. What is remembered
of a record, or drawn for it, where labels are protected, must not: then a key would tell a label.
"""

from dataclasses import dataclass

import numpy as np

from spinney.errors import TableError
from spinney.seeds import row_hashes, row_keys
from spinney.tables.table import Table
from spinney.typing import Integers, Keys


@dataclass(frozen=True, eq=False)
class Records:
    """The rows of a table, by ids that the table names; else told apart by their cells."""

    ids: Keys  # distinct
    labels: Integers
    repeats_ids: bool  # whether ids that the table names had to be made distinct

    def require_own_ids(self) -> None:
        """Raise if two rows have the same id."""
        if self.repeats_ids:
            raise TableError(
                "The row id repeats, and labels are randomised once for each id. Give every "
                "record an id of its own, or name another column as row_id."
            )


def records_of(table: Table) -> Records:
    """Read every record's id and its label."""
    ids = np.empty(table.n_rows, np.uint64)
    labels = np.empty(table.n_rows, np.int64)
    row, is_named = 0, False
    for batch in table.batches():
        part = slice(row, row + batch.keys.size)
        no_labels = np.zeros(batch.keys.size)
        ids[part] = row_hashes(batch.values, no_labels) if batch.ids is None else batch.ids
        labels[part] = batch.target
        row, is_named = part.stop, batch.ids is not None
    distinct = row_keys(ids)
    return Records(distinct, labels, is_named and not np.array_equal(distinct, ids))
