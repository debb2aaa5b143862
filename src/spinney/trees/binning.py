"""Map values to bins: one byte per cell, a separate bin for missing values, one bin per category.

Edges come from declared ranges (`equal_width`), from pooled quantiles found by counting
(`spinney.trees.quantiles`), or not at all (`spinney.trees.adaptive`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from spinney.errors import SettingError
from spinney.trees._kernels import binning as kernels
from spinney.trees._kernels import parts
from spinney.trees.dtypes import BLOCK_ROWS, MAX_BINS
from spinney.trees.frontier import ColumnCells
from spinney.trees.threads import run_ranges
from spinney.typing import Bools, Codes, Integers, Keys, Values

Edges = NDArray[np.float32]
_NO_CODE = 1 << 30
_MANY_EDGES = 128  # of a column whose bins are divided: with fewer, each value may have its bin


@dataclass(frozen=True)
class Binning:
    """How each column's values become bins; the same for every party.

    A number's bin is the number of edges below it, so `value <= edges[cut]` is equivalent to
    `bin <= cut`. `bin_of_category` is empty for numbers.
    """

    edges: tuple[Edges, ...]
    bin_of_category: tuple[NDArray[np.uint8], ...]
    has_missing: Bools
    adaptive_bins: int = 0  # bins per number in an adaptive histogram, which has no edges
    divided: int | UnsetType = UNSET  # into how many parts each bin of a column with many values

    @property
    def parts(self) -> int:
        """How many parts a bin has; where there are more than one, codes number the parts."""
        return 1 if self.divided is UNSET else self.divided

    @cached_property
    def columns(self) -> ColumnCells:
        """The facts about the columns that the trees need."""
        is_category = np.array([len(bins) > 0 for bins in self.bin_of_category])
        n_bins = [
            int(bins.max()) + 1 if len(bins) else self.adaptive_bins or len(edges) + 1
            for edges, bins in zip(self.edges, self.bin_of_category, strict=True)
        ]
        if self.parts > 1:
            ends = self.begins[np.arange(len(n_bins)), n_bins]
            n_bins = np.where(is_category, n_bins, ends).tolist()
        n_codes = np.array(n_bins, np.int64)
        return ColumnCells(n_codes, is_category, self.has_missing, self.code_type)

    @cached_property
    def begins(self) -> NDArray[np.int32]:
        """Where the codes of each bin begin, and `_NO_CODE` behind the last; see the kernels."""
        if self.parts == 1:
            return np.zeros((len(self.edges), 0), np.int32)
        begins = np.full((len(self.edges), MAX_BINS + 2), _NO_CODE, np.int32)
        for column, edges in enumerate(self.edges):
            n_parts = np.ones(len(edges) + 1, np.int64)
            if len(edges) >= _MANY_EDGES:
                n_parts[:] = self.parts
                n_parts[:-1][edges == 0.0] = 1  # zero has a bin of its own
            begins[column, : len(edges) + 2] = np.cumsum([0, *n_parts])
        return begins

    @property
    def code_type(self) -> type[np.unsignedinteger[Any]]:
        """The type of a code: one byte, or two if bins are divided."""
        return np.uint8 if self.parts == 1 else np.uint16

    @cached_property
    def padded_edges(self) -> Edges:
        """All columns' edges, (n_columns, MAX_BINS), padded with infinity."""
        padded = np.full((len(self.edges), MAX_BINS), np.inf, np.float32)
        for column, edges in enumerate(self.edges):
            padded[column, : len(edges)] = edges
        return padded

    def thresholds(self, feature: NDArray[np.int32], cut: Codes) -> Edges:
        """Return each cut's edge: infinity if only missing values go right, 0 for categories."""
        if self.parts == 1:
            found: Edges = self.padded_edges[feature, np.minimum(cut, MAX_BINS - 1)]
        else:
            found = np.empty(feature.size, np.float32)
            parts.edges_above(
                self.padded_edges, self.begins, self.columns.n_bins, feature, cut, found
            )
        found[self.columns.is_category[feature]] = 0.0
        return found

    def digest(self) -> bytes:
        """Return a digest of all edges and categories."""
        state = blake2b(self.has_missing.tobytes(), digest_size=16)
        state.update(self.adaptive_bins.to_bytes(2, "little"))
        if self.parts > 1:
            state.update(self.parts.to_bytes(2, "little"))
        written: list[bytes] = []
        for edges, bins in zip(self.edges, self.bin_of_category, strict=True):
            sizes = len(edges).to_bytes(4, "little") + len(bins).to_bytes(4, "little")
            written += (sizes, edges.tobytes(), bins.tobytes())
        state.update(b"".join(written))
        return state.digest()

    def codes(self, values: Values, out: Codes | Values, n_threads: int = 1) -> None:
        """Write the bins of a batch, (n_columns, n_rows); adaptive: the values themselves."""
        if self.adaptive_bins:
            for column, bins in enumerate(self.bin_of_category):
                out[column] = bin_categories(values[column], bins) if len(bins) else values[column]
            return
        padded, begins = self.padded_edges, self.begins

        def task(first: int, last: int) -> None:
            for column in range(first, last):
                bins = self.bin_of_category[column]
                if len(bins):
                    kernels.bin_categories(values[column], bins, out[column])
                elif self.parts > 1:
                    parts.bin_into_parts(values[column], padded, begins, column, out[column])
                else:
                    kernels.bin_numbers(values[column], padded[column], out[column])

        run_ranges(task, column_ranges(len(values), n_threads), n_threads)


@dataclass(frozen=True)
class BinnedTable:
    """A party's table as bins, stored block by block, and column by column within a block."""

    codes: Codes | Values  # flat; the unbinned values if histograms are adaptive
    block_start: Integers  # (n_blocks + 1,) in rows
    n_columns: int
    target: NDArray[Any]  # class indices (uint8 or uint16) or fixed-point targets (int64)
    keys: Keys

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.block_start[-1])

    @cached_property
    def longest_block(self) -> int:
        """How many rows the longest block has."""
        return int(np.diff(self.block_start).max(initial=0))

    @property
    def classes(self) -> NDArray[Any]:
        """The class of each row; empty for regression, whose targets are signed."""
        return self.target if self.target.dtype.kind == "u" else self.target[:0].astype(np.uint16)

    @classmethod
    def of_batches(
        cls,
        batches: Iterable[tuple[Values, NDArray[Any], Keys]],
        binning: Binning,
        n_rows: int,
        *,
        n_threads: int,
    ) -> "BinnedTable":
        """Bin a table batch by batch; at most one batch is held as numbers at a time."""
        n_columns = len(binning.edges)
        adaptive = binning.adaptive_bins > 0
        starts = np.append(np.arange(0, n_rows, BLOCK_ROWS), n_rows).astype(np.int64)
        if n_rows == 0:
            starts = np.array([0, 0], np.int64)
        size = n_rows * n_columns
        codes: Codes | Values = np.empty(size, np.float32 if adaptive else binning.code_type)
        targets: list[NDArray[Any]] = []
        keys: list[Keys] = []
        row = 0
        for values, target, row_keys in batches:
            for first in _cuts(row, row + target.size):
                last = min(row + target.size, (first // BLOCK_ROWS + 1) * BLOCK_ROWS)
                block = first // BLOCK_ROWS
                height = int(starts[block + 1] - starts[block])
                part: Any = codes[starts[block] * n_columns : starts[block + 1] * n_columns]
                at = slice(first - int(starts[block]), last - int(starts[block]))
                binning.codes(
                    values[:, first - row : last - row],
                    part.reshape(n_columns, height)[:, at],
                    n_threads,
                )
            targets.append(target)
            keys.append(row_keys)
            row += target.size
        return cls(codes, starts, n_columns, np.concatenate(targets), np.concatenate(keys))

    @classmethod
    def side_by_side(cls, tables: list["BinnedTable"]) -> "BinnedTable":
        """Return tables of the same columns as one; the list is emptied, so that each goes."""
        n_columns, codes = tables[0].n_columns, tables[0].codes
        starts = [table.block_start[1:] for table in tables]
        firsts = np.cumsum([0, *(table.n_rows for table in tables)])
        blocks = [start + first for start, first in zip(starts, firsts, strict=False)]
        target = np.concatenate([table.target for table in tables])
        keys = np.concatenate([table.keys for table in tables])
        codes = np.empty(int(firsts[-1]) * n_columns, codes.dtype)
        for first in firsts[:-1].tolist():
            part = tables.pop(0).codes
            codes[first * n_columns : first * n_columns + part.size] = part
        return cls(codes, np.concatenate([[0], *blocks]), n_columns, target, keys)

    def by_column(self) -> NDArray[Any]:
        """Return the bins of all rows, (n_columns, n_rows)."""
        starts = self.block_start.tolist()
        parts = [
            self.codes[first * self.n_columns : last * self.n_columns].reshape(self.n_columns, -1)
            for first, last in pairwise(starts)
            if last > first
        ]
        nothing = self.codes[:0].reshape(self.n_columns, 0)
        return np.concatenate([nothing, *parts], axis=1)

    def rows(self, chosen: Integers, columns: Integers | None = None) -> NDArray[Any]:
        """Return the bins of some rows, in some columns or all, (n_rows, n_columns)."""
        columns = np.arange(self.n_columns) if columns is None else columns
        block = np.searchsorted(self.block_start, chosen, side="right") - 1
        start = self.block_start[block]
        height = self.block_start[block + 1] - start
        at = start * self.n_columns + (chosen - start)
        flat = at[:, None] + height[:, None] * columns
        picked: NDArray[Any] = self.codes[flat]
        return picked


def bin_categories(column: Values, bins: NDArray[np.uint8]) -> Values:
    """Return the bin of each category, NaN where it is missing."""
    missing = np.isnan(column)
    index = np.where(missing, 0, column).astype(np.intp)
    return np.where(missing, np.float32(np.nan), bins[index]).astype(np.float32)


def _cuts(first: int, last: int) -> list[int]:
    """Return where the rows `first` to `last` begin in each block they touch."""
    inner = range((first // BLOCK_ROWS + 1) * BLOCK_ROWS, last, BLOCK_ROWS)
    return [first, *inner] if last > first else []


def column_ranges(n_columns: int, n_threads: int) -> list[tuple[int, int]]:
    """Divide the columns into ranges, one for each task of the threads."""
    cuts = [n_columns * i // n_threads for i in range(n_threads + 1)]
    return [(a, b) for a, b in pairwise(cuts) if b > a]


def declared_range(name: str, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Return a column's declared range; raise if there is none."""
    if bounds is None:
        raise SettingError(
            f"Column {name!r} has no declared range, and its bins need one. "
            "Declare its range in the schema, or use binning='quantiles'."
        )
    return bounds


def equal_width(name: str, bounds: tuple[float, float] | None, max_bins: int) -> Edges:
    """Return edges that divide a declared range into equal parts."""
    low, high = declared_range(name, bounds)
    return np.unique(np.linspace(low, high, max_bins + 1)[1:-1].astype(np.float32))


def category_bins(counts: Sequence[int] | Integers, max_bins: int) -> NDArray[np.uint8]:
    """Return the bin of each category: one each; past the limit, the rarest share the last."""
    counted = np.asarray(counts, np.int64)
    if counted.size <= max_bins:
        return np.arange(counted.size, dtype=np.uint8)
    order = np.argsort(-counted, kind="stable")
    bins = np.full(counted.size, max_bins - 1, np.uint8)
    kept = np.sort(order[: max_bins - 1])
    bins[kept] = np.arange(kept.size, dtype=np.uint8)
    return bins
