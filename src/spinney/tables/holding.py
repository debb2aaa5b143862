"""A party's part of rows that several parties share: some of the columns, the label, or both.

All parties of a vertical job hold the same rows in the same order; `privacy.matching` finds the
common rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import TableError
from spinney.seeds import mix
from spinney.tables.columns import Columns, Rows, VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.typing import Keys

_NO_LABEL = Label("(nothing)", "number", range=(0.0, 0.0))  # tables must name one


@dataclass(frozen=True, eq=False)
class Holding:
    """A party's columns and, at one party, the label, in the common row order.

    Before matching, rows are in the party's own order and each has its id.
    """

    n_rows: int
    columns: tuple[Column, ...] = ()
    features: Columns | None = None
    label: Label | None = None
    target: NDArray[Any] | None = None
    ids: Sequence[Any] | None = None
    own_keys: Keys | None = None  # of a simulation's rows; None: by their position

    def __post_init__(self) -> None:
        lengths = {self.n_rows}
        if self.features is not None:
            lengths.add(self.features.n_rows)
        if self.target is not None:
            lengths.add(len(self.target))
        if self.ids is not None:
            lengths.add(len(self.ids))
        if len(lengths) > 1 or (self.features is None) != (not self.columns):
            raise TableError("A party's columns and labels must have the same rows. Check both.")
        if (self.label is None) != (self.target is None):
            raise TableError("A party must name a label if, and only if, it holds the labels.")

    @property
    def table(self) -> MemoryTable:
        """The columns as a table, without the label."""
        features = self.features
        if features is None:
            raise TableError("This party holds no columns.")
        nothing = np.zeros(self.n_rows)
        return MemoryTable(Schema(self.columns, _NO_LABEL), features, nothing, self.keys)

    @property
    def keys(self) -> Keys:
        """A key for every row, made from its position in the common order."""
        if self.own_keys is not None:
            return self.own_keys
        return mix(np.arange(self.n_rows, dtype=np.uint64))

    def select(self, rows: Rows) -> "Holding":
        """Return the same columns and label for some rows, without ids."""
        features, target = self.features, self.target
        chosen = np.arange(self.n_rows)[rows]
        if features is not None:
            features = VectorColumns(tuple(features.values(chosen)))
        if target is not None:
            target = target[chosen]
        keys = None if self.own_keys is None else self.own_keys[chosen]
        return Holding(int(chosen.size), self.columns, features, self.label, target, own_keys=keys)
