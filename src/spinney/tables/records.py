"""Identify records by an id that does not depend on the label.

A row's key (`tables.table`) depends on everything in the row, including its label. Where labels
are protected, whatever is stored or drawn for a record must not depend on the label: such a key
would reveal it.
"""

from dataclasses import dataclass

import numpy as np

from spinney.errors import TableError
from spinney.seeds import row_hashes, row_keys
from spinney.tables.table import Batch, Table
from spinney.typing import Integers, Keys


@dataclass(frozen=True, eq=False)
class Records:
    """The rows of a table, identified by their row ids or, without ids, by their cells."""

    ids: Keys  # distinct
    labels: Integers
    repeats_ids: bool  # whether the table's own ids repeated and had to be made distinct

    def require_own_ids(self) -> None:
        """Raise if two rows have the same id."""
        if self.repeats_ids:
            raise TableError(
                "The row id repeats, and labels are randomised once for each id. Give every "
                "record a different id, or name another column as row_id."
            )


def plain_ids(table: Table) -> Keys:
    """Return the hash of each row's id or, without ids, of its cells; equal rows have the same."""
    return np.concatenate([*map(plain_ids_of, table.batches()), np.empty(0, np.uint64)])


def plain_ids_of(batch: Batch) -> Keys:
    """Return the same for some rows.

    What is drawn by it depends on the row alone: no other row, and no label, can change it.
    """
    return cells_of_batch(batch) if batch.ids is None else batch.ids


def cells_of_batch(batch: Batch) -> Keys:
    """Return the hash of each row's cells, without its label and its id."""
    return row_hashes(batch.values, np.zeros(batch.keys.size))


def records_of(table: Table) -> Records:
    """Read the id and the label of every record."""
    ids = np.empty(table.n_rows, np.uint64)
    labels = np.empty(table.n_rows, np.int64)
    row, is_named = 0, False
    for batch in table.batches():
        part = slice(row, row + batch.keys.size)
        ids[part] = plain_ids_of(batch)
        labels[part] = batch.target
        row, is_named = part.stop, batch.ids is not None
    distinct = row_keys(ids)
    return Records(distinct, labels, is_named and not np.array_equal(distinct, ids))
