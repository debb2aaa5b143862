"""What a party holds: rows of features, their targets and their keys, in batches.

A table gives its rows in the same order on every pass, and a row keeps its key however rows are
dealt out, so that nothing drawn by key depends on who holds the row.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spinney.errors import SettingError, TableError
from spinney.seeds import row_hashes, row_keys
from spinney.tables.cells import cells_of
from spinney.tables.columns import Columns, MatrixColumns, Rows, VectorColumns
from spinney.tables.schema import Schema
from spinney.typing import Keys, Values

__all__ = [
    "BATCH_ROWS",
    "Batch",
    "Columns",
    "MatrixColumns",
    "MemoryTable",
    "Rows",
    "Table",
    "VectorColumns",
    "keys_of_ids",
]

BATCH_ROWS = 16384


@dataclass(frozen=True, slots=True)
class Batch:
    """Some consecutive rows of a table."""

    values: Values  # (n_columns, n_rows), C order
    target: NDArray[Any]  # (n_rows,) int32 class index, or float64
    keys: Keys  # (n_rows,)


class Table(Protocol):
    """Rows that can be read again and again, in the same order."""

    @property
    def schema(self) -> Schema:
        """The public facts."""
        ...

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        ...

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Batch]:
        """Give all rows in order, at most `size` at a time."""
        ...


@dataclass(frozen=True)
class MemoryTable:
    """A table over features in memory, all rows or those named by `rows`.

    `target` and `keys` belong to all rows of `columns`. Keys that are not given are made from the
    content of all those rows, so that tables dealt from the same columns agree on them.
    """

    schema: Schema
    columns: Columns
    target: NDArray[Any]
    keys: Keys | None = None
    rows: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        for name, given in (("target", self.target), ("keys", self.keys)):
            if given is not None and given.shape != (self.columns.n_rows,):
                raise TableError(
                    f"The {name} must have one entry per row of the table. Give both the same "
                    "rows.",
                    local=f"The table has {self.columns.n_rows} rows; got shape {given.shape}.",
                )

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.columns.n_rows if self.rows is None else len(self.rows)

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Batch]:
        """Give all rows in order, at most `size` at a time."""
        require_size(size)
        keys = self.all_keys
        for start in range(0, self.n_rows, size):
            rows = self._rows(start, start + size)
            yield Batch(self.columns.values(rows), self.target[rows], keys[rows])

    def select(self, rows: Rows) -> "MemoryTable":
        """Return the table of these rows, which keep their keys; no cell is copied."""
        chosen = np.arange(self.columns.n_rows) if self.rows is None else self.rows
        return MemoryTable(
            self.schema, self.columns, self.target, self.all_keys, chosen[rows].astype(np.intp)
        )

    @cached_property
    def all_keys(self) -> Keys:
        """The keys of all rows of `columns`, chosen or not."""
        if self.keys is not None:
            return self.keys
        hashes = np.empty(self.columns.n_rows, dtype=np.uint64)
        for start in range(0, hashes.size, BATCH_ROWS):
            rows = slice(start, start + BATCH_ROWS)
            hashes[rows] = row_hashes(self.columns.values(rows), self.target[rows])
        return row_keys(hashes)

    def _rows(self, start: int, stop: int) -> Rows:
        return slice(start, stop) if self.rows is None else self.rows[start:stop]


def keys_of_ids(ids: Any, *, name: str = "row_id") -> Keys:
    """Return a key per row from its id's text, distinct also where an id repeats."""
    hashes = hashes_of_ids(ids, name=name)
    return row_keys(hashes)


def hashes_of_ids(ids: Any, *, name: str = "row_id") -> Keys:
    """Return a 64-bit hash of each id's text, the same on every machine."""
    texts = cells_of(ids).texts()
    if None in texts:
        raise TableError(
            f"The row id {name!r} is missing in some rows. Every row needs one; "
            "leave those rows out, or name no row id."
        )
    digests = (hashlib.blake2b(str(text).encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def require_size(size: int) -> None:
    """Raise unless a batch holds at least one row."""
    if size < 1:
        raise SettingError(f"A batch must have at least 1 row; got size={size}.")
