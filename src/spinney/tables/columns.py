"""Features in memory, returned a few rows at a time in the layout that trees read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InternalError
from spinney.tables.categories import CategoryIndex, values_of
from spinney.typing import Values

Rows = slice | NDArray[np.intp]

_BLOCK = 2048  # rows transposed at once: a block of a wide table still fits a core's cache


class Columns(Protocol):
    """The features of all rows."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        ...

    def values(self, rows: Rows) -> Values:
        """Return these rows, one line per column; the array is the caller's own."""
        ...

    def lines(self, rows: Rows) -> Values:
        """Return these rows, one line per row; to read only, since it may be the table itself."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MatrixColumns:
    """A numeric matrix, one line per row, not copied; only requested rows are transposed."""

    matrix: NDArray[Any]
    index_of_column: Mapping[int, CategoryIndex] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.matrix.shape[0])

    def values(self, rows: Rows) -> Values:
        """Return these rows, one line per column; the array is the caller's own."""
        chunk = self.matrix[rows]
        values = np.empty(chunk.shape[::-1], dtype=np.float32)
        for start in range(0, chunk.shape[0], _BLOCK):
            block = chunk[start : start + _BLOCK]
            values[:, start : start + _BLOCK] = block.astype(np.float32, copy=False).T
        for column, index in self.index_of_column.items():
            values[column] = values_of(index.codes_of_numbers(chunk[:, column]))
        return values

    def lines(self, rows: Rows) -> Values:
        """Return these rows, one line per row; to read only, since it may be the table itself."""
        if self.index_of_column:
            return np.ascontiguousarray(self.values(rows).T)
        # Writable, since compiled code would be compiled anew for an array that is not.
        return np.require(self.matrix[rows], np.float32, ["C", "A", "W"])


@dataclass(frozen=True, slots=True, eq=False)
class VectorColumns:
    """One array per column, each in its original type; categories are already codes."""

    vectors: tuple[NDArray[Any], ...]

    def __post_init__(self) -> None:
        if len({vector.shape for vector in self.vectors}) != 1:
            raise InternalError("Columns must be of one length.")

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.vectors[0])

    def values(self, rows: Rows) -> Values:
        """Return these rows, one line per column; the array is the caller's own."""
        first = self.vectors[0][rows]
        values = np.empty((len(self.vectors), len(first)), dtype=np.float32)
        for line, vector in zip(values, self.vectors, strict=True):
            line[:] = vector[rows]
        return values

    def lines(self, rows: Rows) -> Values:
        """Return these rows, one line per row; to read only, since it may be the table itself."""
        return np.ascontiguousarray(self.values(rows).T)
