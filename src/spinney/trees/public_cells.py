"""Cells over public boxes, the cuts between them, and the cost of a cut.

Every open node divides the part of a column's range that its path leaves open into equal cells:
finer as the tree grows, and without looking at a row. A cut is a run of cells that go left: the
first few of a number (missing values, in the last cell, go right), or one category against the
rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spinney.trees._kernels import public_cells as kernels
from spinney.trees.binning import BinnedTable
from spinney.trees.dtypes import MISSING
from spinney.trees.frontier import ColumnCells, Frontier
from spinney.trees.public_trees import Splits, set_of_bin
from spinney.typing import Bools, Codes, Floats, Integers, Values

COST_BITS = 4  # a cost is counted in sixteenths of a row


@dataclass(frozen=True)
class PublicCells:
    """The cells of all columns, one after another; the same number in every node."""

    columns: ColumnCells
    n_parts: int  # of a number's range

    @cached_property
    def parts(self) -> Integers:
        """How many cells each column has, besides the one for missing values."""
        numbers = np.minimum(self.columns.n_bins, self.n_parts)
        return np.where(self.columns.is_category, self.columns.n_bins, numbers)

    @cached_property
    def start(self) -> Integers:
        """Where each column's cells begin, and where the last ones end."""
        return np.concatenate([[0], np.cumsum(self.parts + 1)])

    @property
    def n_cells(self) -> int:
        """How many cells a node has, over all columns."""
        return int(self.start[-1])

    @cached_property
    def cuts(self) -> "Cuts":
        """Every way to cut a node."""
        n_columns = self.columns.n_columns
        per_column = np.where(self.columns.is_category, self.parts + 1, self.parts)
        column = np.repeat(np.arange(n_columns), per_column)
        first = np.cumsum(per_column) - per_column
        cell = np.arange(column.size) - first[column]
        begin = self.start[column] + np.where(self.columns.is_category[column], cell, 0)
        return Cuts(column, cell, begin, self.start[column] + cell + 1)

    def counts(
        self, table: BinnedTable, node: Integers, frontier: Frontier, n_classes: int
    ) -> Integers:
        """Count a party's rows by node, cell and class; rows at node -1 are not counted."""
        out = np.zeros((frontier.n_open, self.n_cells, n_classes), np.int64)
        for rows, codes in _blocks(table):
            kernels.count_cells(
                codes, node[rows], table.target[rows], frontier.low, frontier.high, self.parts,
                self.columns.is_category, self.start, out,
            )  # fmt: skip
        return out

    def pairs(self, table: BinnedTable, root: Frontier, n_classes: int) -> Integers:
        """Count a party's rows by two cells and class, in the root that holds them all."""
        out = np.zeros((self.n_cells, self.n_cells, n_classes), np.int64)
        for rows, codes in _blocks(table):
            kernels.count_pairs(
                codes, table.target[rows], root.low[0], root.high[0], self.parts,
                self.columns.is_category, self.start, out,
            )  # fmt: skip
        return out

    def costs_ahead(self, pairs: Integers) -> Integers:
        """Return the impurity after each cut if both its sides were then cut once more, optimally.

        An additional record is on one side: it raises that side's cost under every further cut,
        and so under the best one, by at least zero and at most one row.
        """
        cuts = self.cuts
        whole = pairs[: self.start[1]].sum(axis=0)  # every row has a cell of column 0
        running = np.concatenate([np.zeros_like(pairs[:1]), np.cumsum(pairs, axis=0)])
        costs = []
        for column in range(self.columns.n_columns):  # one at a time, to save memory
            own = cuts.column == column
            left = running[cuts.end[own]] - running[cuts.begin[own]]
            best = [
                fixed_costs(*cuts.sides(side, self.start)).min(axis=1)
                for side in (left, whole - left)
            ]
            costs.append(best[0] + best[1])
        return np.concatenate(costs)

    def _width(self, frontier: Frontier) -> Integers:
        """Return how many bins of every column a node's path leaves open."""
        width: Integers = frontier.high.astype(np.int64) - frontier.low + 1
        return np.maximum(width, 1)

    def can_cut(self, frontier: Frontier) -> Bools:
        """Return which cuts of which nodes divide the bins that the node's path leaves open."""
        cuts = self.cuts
        width = self._width(frontier)[:, cuts.column]
        parts = self.parts[cuts.column]
        apart = (cuts.cell < np.minimum(width, parts) - 1) | (cuts.cell == parts - 1)
        able: Bools = apart | self.columns.is_category[cuts.column]
        return able

    def splits(self, frontier: Frontier, chosen: Integers, accepted: Bools) -> Splits:
        """Return the chosen cuts as decisions; nodes that are not accepted stay leaves."""
        column, cell = self.cuts.column[chosen], self.cuts.cell[chosen]
        node = np.arange(chosen.size)
        low = frontier.low[node, column].astype(np.int64)
        high = np.maximum(frontier.high[node, column].astype(np.int64), low)
        width, parts = high - low + 1, self.parts[column]
        last = np.where(width > parts, -((cell + 1) * width // -parts) - 1, cell)
        cut = np.where(cell == parts - 1, high, np.minimum(low + last, high))
        is_missing = self.columns.is_category[column] & (cell == parts)
        category = np.where(
            is_missing, MISSING, np.where(self.columns.is_category[column], cell, 0)
        )
        feature = np.where(accepted, column, -1).astype(np.int32)
        return Splits(feature, cut, set_of_bin(category), np.zeros(chosen.size, np.bool_))


@dataclass(frozen=True)
class Cuts:
    """Cuts of a node: the cells `begin` to `end` of the column go left."""

    column: Integers
    cell: Integers  # the last of its column that goes left
    begin: Integers
    end: Integers

    @property
    def n(self) -> int:
        """How many there are."""
        return int(self.column.size)

    def sides(self, counts: Integers, start: Integers) -> tuple[Integers, Integers]:
        """Return the counts left and right of every cut: (n_nodes, n_cuts, n_classes) each."""
        nothing = np.zeros_like(counts[:, :1])
        running = np.concatenate([nothing, np.cumsum(counts, axis=1)], axis=1)
        left: Integers = running[:, self.end] - running[:, self.begin]
        whole = running[:, start[1:]] - running[:, start[:-1]]
        return left, whole[:, self.column] - left


def _blocks(table: BinnedTable) -> Iterator[tuple[slice, Codes | Values]]:
    """Yield the rows of a table block by block: their slice, and their (n_columns, n) bins."""
    for block in range(table.block_start.size - 1):
        first, last = table.block_start[block : block + 2].tolist()
        codes = table.codes[first * table.n_columns : last * table.n_columns]
        yield slice(first, last), codes.reshape(table.n_columns, last - first)


def fixed_costs(left: Integers, right: Integers) -> Integers:
    """Return half the weighted Gini impurity of exact sides, in whole fractions of a row.

    For two classes this is n p (1 - p), S3's impurity times rows. An additional record raises it
    by at least zero and at most one row, also after rounding: each side is rounded down separately.
    """
    return _fixed_cost(left) + _fixed_cost(right)


def _fixed_cost(counts: Integers) -> Integers:
    total = counts.sum(axis=-1)
    rows = np.maximum(total, 1)
    mixed = total * total - (counts * counts).sum(axis=-1)  # twice the pairs of unlike rows
    whole, rest = np.divmod(mixed, rows)
    cost: Integers = (whole << (COST_BITS - 1)) + (rest << (COST_BITS - 1)) // rows
    return cost


def noisy_impurity(left: Integers, right: Integers) -> Floats:
    """Return S3's G (Algorithm 4) of noisy sides, clipped at zero; infinity if a side is empty.

    This is half the Gini impurity, weighted by rows; for two classes, the paper's p (1 - p).
    """
    sides = [np.maximum(side, 0).astype(np.float64) for side in (left, right)]
    rows = [side.sum(axis=-1) for side in sides]
    mixed = (_half_gini(sides[0]) + _half_gini(sides[1])) / np.maximum(rows[0] + rows[1], 1.0)
    impurity: Floats = np.where((rows[0] > 0) & (rows[1] > 0), mixed, np.inf)
    return impurity


def noisy_gain(left: Integers, right: Integers) -> Floats:
    """Return the impurity decrease of noisy sides, in rows; -infinity if a side is empty.

    Each cut is compared with the sum of its own two sides, so both contain the same noise.
    """
    sides = [np.maximum(side, 0).astype(np.float64) for side in (left, right)]
    whole = sides[0] + sides[1]
    gain = _half_gini(whole) - _half_gini(sides[0]) - _half_gini(sides[1])
    both = (sides[0].sum(axis=-1) > 0) & (sides[1].sum(axis=-1) > 0)
    found: Floats = np.where(both, gain, -np.inf)
    return found


def _half_gini(counts: Floats) -> Floats:
    total = counts.sum(axis=-1)
    cost: Floats = (total - (counts**2).sum(axis=-1) / np.maximum(total, 1.0)) / 2.0
    return cost
