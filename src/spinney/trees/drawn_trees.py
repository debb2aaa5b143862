"""Complete trees over one or two columns each, drawn at random within public bins, or of all bins.

No row decides their shape. A tree of depth d has 2**d leaves, numbered from left to right; a node
that has nothing left to divide sends all rows left.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.trees.dtypes import CATEGORY_WORDS, MISSING
from spinney.trees.frontier import ColumnCells
from spinney.trees.level import Level
from spinney.trees.public_trees import Splits, level_of
from spinney.typing import Bools, Codes, Integers

_BINS = MISSING + 1


@dataclass(frozen=True)
class DrawnTrees:
    """Trees as arrays by tree and node; the children of node k are 2 k + 1 and 2 k + 2."""

    columns: ColumnCells
    column: NDArray[np.int32]  # (n_trees, n_nodes) the column that a node divides
    cut: Integers  # (n_trees, n_nodes) the last bin that goes left, for numbers
    goes_left: Bools  # (n_trees, n_nodes, 256) by bin

    @property
    def n_trees(self) -> int:
        """How many trees there are."""
        return int(self.column.shape[0])

    @property
    def depth(self) -> int:
        """How many levels a tree has."""
        return int(self.column.shape[1]).bit_length()

    @classmethod
    def draw(
        cls,
        columns: ColumnCells,
        chosen: Integers,
        depth: int,
        generator: np.random.Generator,
    ) -> "DrawnTrees":
        """Draw trees; `chosen` holds the columns of each tree, (n_trees, columns of a tree).

        A column's bins are in their order, or, for a category, in a random one. A node divides the
        bins that reach it at a random place.
        """
        n_trees, width = chosen.shape
        order = np.tile(np.arange(_BINS), (n_trees, width, 1))
        for tree, slot in zip(*np.nonzero(columns.is_category[chosen]), strict=True):
            n_bins = int(columns.n_bins[chosen[tree, slot]])
            order[tree, slot, :n_bins] = generator.permutation(n_bins)
        n_nodes = (1 << depth) - 1
        column = np.zeros((n_trees, n_nodes), np.int32)
        cut = np.zeros((n_trees, n_nodes), np.int64)
        goes_left = np.zeros((n_trees, n_nodes, _BINS), np.bool_)
        low = np.zeros((n_trees, 1, width), np.int64)
        high = np.maximum(columns.n_bins[chosen] - 1, 0)[:, None, :]
        trees = np.arange(n_trees)[:, None]
        for level in range(depth):
            n = 1 << level
            at = np.arange(n)[None, :]
            luck = generator.random((n_trees, n, width)) + (high > low)
            slot = luck.argmax(axis=2)
            first, last = low[trees, at, slot], high[trees, at, slot]
            place = first + (generator.random((n_trees, n)) * (last - first)).astype(np.int64)
            nodes = slice(n - 1, 2 * n - 1)
            column[:, nodes] = chosen[trees, slot]
            cut[:, nodes] = place
            # the bins at the places up to the cut go left; those above the last place reach no one
            sides = np.arange(_BINS) <= place[..., None]
            sides[..., MISSING] = generator.random((n_trees, n)) < 0.5
            here = np.zeros((n_trees, n, _BINS), np.bool_)
            np.put_along_axis(here, order[trees, slot], sides, axis=2)
            goes_left[:, nodes] = here
            low, high = (np.repeat(ends, 2, axis=1) for ends in (low, high))
            is_cut = first < last
            upper = high[trees, 2 * at, slot]
            high[trees, 2 * at, slot] = np.where(is_cut, place, upper)
            lower = low[trees, 2 * at + 1, slot]
            low[trees, 2 * at + 1, slot] = np.where(is_cut, place + 1, lower)
        return cls(columns, column, cut, goes_left)

    @classmethod
    def whole(cls, columns: ColumnCells, chosen: Integers) -> "DrawnTrees":
        """Return a tree for each of some columns that has a leaf for every bin.

        A node divides its bins in the middle; missing values count as the bin after the last.
        """
        last = columns.n_bins[chosen]
        depth = max(1, int(last.max()).bit_length())
        shape = (chosen.size, (1 << depth) - 1)
        cut, goes_left = np.zeros(shape, np.int64), np.zeros((*shape, _BINS), np.bool_)
        low, high = np.zeros((chosen.size, 1), np.int64), last[:, None]
        for level in range(depth):
            nodes = slice((1 << level) - 1, (2 << level) - 1)
            place = np.where(low < high, (low + high) // 2, high)
            cut[:, nodes] = np.minimum(place, last[:, None] - 1)
            goes_left[:, nodes] = np.arange(_BINS) <= place[..., None]
            goes_left[:, nodes, MISSING] = last[:, None] <= place
            low, high = (np.repeat(ends, 2, axis=1) for ends in (low, high))
            high[:, 0::2], low[:, 1::2] = place, np.minimum(place + 1, high[:, 1::2])
        column = np.repeat(chosen.astype(np.int32)[:, None], shape[1], axis=1)
        return cls(columns, column, cut, goes_left)

    def repeated(self, times: int) -> "DrawnTrees":
        """Return every tree several times, one after another."""
        chosen = np.repeat(np.arange(self.n_trees), times)
        return DrawnTrees(
            self.columns, self.column[chosen], self.cut[chosen], self.goes_left[chosen]
        )

    def leaves(self, codes: Codes, tree: int) -> Integers:
        """Return the leaf of each row, given their bins, (n_columns, n_rows)."""
        column, left = self.column[tree], self.goes_left[tree]
        if np.all(column == column[0]):  # of one column, the bin decides
            node, bins = np.zeros(_BINS, np.int64), np.arange(_BINS)
            for _ in range(self.depth):
                node = 2 * node + 2 - left[node, bins]
            found: Integers = (node - column.size)[codes[column[0]]]
            return found
        node, row = np.zeros(codes.shape[1], np.int64), np.arange(codes.shape[1])
        for _ in range(self.depth):
            node = 2 * node + 2 - left[node, codes[column[node], row]]
        places: Integers = node - column.size
        return places

    def levels(self) -> tuple[Level, ...]:
        """Return the same trees as levels, from which a forest is laid out."""
        found = []
        for depth in range(self.depth):
            nodes = slice((1 << depth) - 1, (2 << depth) - 1)
            left = self.goes_left[:, nodes].reshape(-1, _BINS)
            words = np.packbits(left, axis=1, bitorder="little").view("<u8").astype(np.uint64)
            splits = Splits(
                self.column[:, nodes].ravel(),
                self.cut[:, nodes].ravel(),
                words.reshape(-1, CATEGORY_WORDS),
                left[:, MISSING],
            )
            found.append(level_of(self.columns, splits, opens=depth + 1 < self.depth))
        return tuple(found)
