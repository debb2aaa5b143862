"""The nodes in which a party lets its rows be counted: those in which it has enough of them.

A histogram by class is about a single row if a class has one row. Whoever subtracts the histograms
of two children from their parent's learns of the rows that were left out. So a party counts itself
out of both children of a split if it has some rows, but too few, of any class in either of them,
and it stays out below. Then every histogram of a tree, and every difference of histograms of the
same tree, is about none of its rows of a class, or about enough. This says nothing about
differences between trees.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import rows as kernels
from spinney.trees.counts import Counters
from spinney.trees.frontier import Slots
from spinney.trees.level import Level
from spinney.trees.rows import Standing
from spinney.typing import Bools, Integers


@dataclass(frozen=True)
class OwnRows:
    """How many rows of each class a party has in every open node, and where it is counted.

    Attributes
    ----------
    least
        The fewest rows of a class that may be counted in a node. A bootstrap may draw a row several
        times; it is one row.
    rows
        (n_open, n_classes) The party's rows; regression has one class.
    is_in
        (n_open,) Whether the party is counted.
    """

    least: int
    rows: Integers
    is_in: Bools

    @classmethod
    def at_roots(cls, standing: Standing, n_classes: int, least: int) -> "OwnRows":
        """Return the rows at the roots of all trees."""
        rows = _rows(standing, max(n_classes, 1))
        return cls(least, rows, _enough(rows, least))

    def after(self, level: Level, standing: Standing) -> "OwnRows":
        """Return the rows of the open children that `level` made."""
        parent = np.repeat(np.flatnonzero(level.feature >= 0), 2)[level.child_open]
        parent = np.repeat(parent, level.child_lines)
        rows = _rows(standing, self.rows.shape[1])
        sibling = self.rows[parent] - rows  # it need not be open
        is_in = self.is_in[parent] & _enough(rows, self.least) & _enough(sibling, self.least)
        return OwnRows(self.least, rows, is_in)


def cells_out(slots: Slots, is_in: Bools) -> Bools:
    """Return which cells of these nodes a party is not counted in."""
    return np.repeat(~is_in, slots.cells_of_node)


def rows_told(slots: Slots, counters: Counters) -> tuple[Bools, Integers]:
    """Return which nodes have cells, and the sum of the first slot's cells of each of these."""
    told: Bools = slots.cells[:, 0] > 0
    rows = np.zeros((len(told), counters.shape[1]), np.int64)
    kernels.first_slot_sums(slots.cells, slots.offset, counters, rows)
    return told, rows[told]


def _rows(standing: Standing, n_classes: int) -> Integers:
    rows: NDArray[np.int64] = np.zeros((len(standing.starts), n_classes), np.int64)
    kernels.count_rows(standing.entries, standing.starts, standing.ends, rows)
    return rows


def _enough(rows: Integers, least: int) -> Bools:
    """Return where no class has some rows, but too few."""
    enough: Bools = ((rows == 0) | (rows >= least)).all(axis=1)
    return enough
