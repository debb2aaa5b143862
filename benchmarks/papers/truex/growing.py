"""The coordinator's state of Truex's tree: what `train` does with noisy counts."""

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from papers.truex.plan import MOST_DEPTH
from spinney.errors import ProtocolError
from spinney.trees.structures import FittedTree
from spinney.typing import Floats, Integers

OPEN: Final = -2


LEAF: Final = -1


@dataclass(frozen=True)
class Nodes:
    """The tree so far: children come in pairs after their parent; -2 is open, -1 a leaf."""

    feature: NDArray[np.int32]
    cut: NDArray[np.int32]  # cells up to it go left
    left: NDArray[np.int32]

    def standing(self, cells: NDArray[np.uint8]) -> Integers:
        """Return the node that each row has reached."""
        at = np.zeros(cells.shape[1], np.int64)
        rows = np.arange(cells.shape[1])
        for _ in range(MOST_DEPTH + 1):
            splits = self.feature[at] >= 0
            if not splits.any():
                break
            code = cells[np.maximum(self.feature[at], 0), rows]
            at = np.where(splits, self.left[at] + (code > self.cut[at]), at)
        return at

    def is_sound(self, n_columns: int) -> bool:
        """Return whether every path ends."""
        n = self.feature.size
        node = np.arange(n)
        split = self.feature >= 0
        fits = self.cut.shape == self.left.shape == (n,) and n > 0
        fits = fits and bool(np.all(self.feature >= OPEN) and np.all(self.feature < n_columns))
        return fits and bool(np.all((self.left > node)[split] & (self.left + 1 < n)[split]))


class Growing:
    """The coordinator's state: the tree so far."""

    def __init__(self, node_epsilon: Fraction, n_cells: Integers, n_classes: int) -> None:
        self._node_epsilon = node_epsilon
        self._n_cells = n_cells
        self._n_classes = n_classes
        self._feature, self._cut, self._left = [OPEN], [0], [0]

    @property
    def n_open(self) -> int:
        """How many nodes may still be split."""
        return self._feature.count(OPEN)

    @property
    def nodes(self) -> Nodes:
        """The tree so far."""
        parts = (np.array(part, np.int32) for part in (self._feature, self._cut, self._left))
        return Nodes(*parts)

    def grow(self, counters: Integers) -> None:
        """Make the best cut of each open node; nodes that noise would drown become leaves."""
        n_open, n_classes = self.n_open, self._n_classes
        ends = np.cumsum(self._n_cells * n_open)
        if counters.size != n_open + int(ends[-1]) * (1 + n_classes):
            raise ProtocolError("A party's noisy counts do not have the cells asked for.")
        cells = np.maximum(counters[n_open:], 0).astype(np.float64)
        totals = np.split(cells[: ends[-1]], ends[:-1])
        classes = np.split(cells[ends[-1] :].reshape(-1, n_classes), ends[:-1])
        tables = [
            (total.reshape(n_open, -1), by_class.reshape(n_open, -1, n_classes))
            for total, by_class in zip(totals, classes, strict=True)
        ]
        least = sqrt(2) / float(self._node_epsilon) * int(self._n_cells.max()) * n_classes
        for number, node in enumerate([i for i, f in enumerate(self._feature) if f == OPEN]):
            best = None
            if counters[number] >= least:
                best = best_cut([(total[number], one[number]) for total, one in tables])
            if best is None:
                self._feature[node] = LEAF
                continue
            self._feature[node], self._cut[node] = best
            self._left[node] = len(self._feature)
            self._feature += [OPEN, OPEN]
            self._cut += [0, 0]
            self._left += [0, 0]

    def close(self) -> None:
        """Turn all open nodes into leaves."""
        self._feature = [LEAF if f == OPEN else f for f in self._feature]

    def tree(self, leaves: Integers) -> FittedTree:
        """Return the tree with its leaves' counts; inner nodes hold those of their children."""
        n = len(self._feature)
        moments = np.maximum(leaves.reshape(n, self._n_classes), 0)
        for node in range(n - 1, -1, -1):
            if self._feature[node] >= 0:
                moments[node] = moments[self._left[node]] + moments[self._left[node] + 1]
        bin_sets = np.zeros((n, 4), np.uint64)
        for node in range(n):
            for cell in range(self._cut[node] + 1 if self._feature[node] >= 0 else 0):
                bin_sets[node, cell >> 6] |= np.uint64(1) << np.uint64(cell & 63)
        links = enumerate(zip(self._feature, self._left, strict=True))
        left = [to if feature >= 0 else node for node, (feature, to) in links]
        return FittedTree(
            np.array(self._feature, np.int32),
            np.zeros(n, np.uint8),
            np.zeros(n, np.bool_),
            bin_sets,
            np.array(left, np.int64),
            moments,
            np.zeros(n),
        )


def best_cut(tables: list[tuple[Floats, Floats]]) -> tuple[int, int] | None:
    """Return the column and cell of the cut with the lowest Gini impurity; None if there is none.

    Sides are weighted by their cells' rows. Class shares are relative to the sum of the class
    counts, not to those rows: noise would make them larger than one, and columns with many empty
    cells would always win.
    """
    best, found = np.inf, None
    for column, (rows, by_class) in enumerate(tables):
        n_left = np.cumsum(rows)[:-1]
        n_right = rows.sum() - n_left
        left = np.cumsum(by_class, axis=0)[:-1]
        right = by_class.sum(axis=0) - left
        impurity = n_left * _impurity(left) + n_right * _impurity(right)
        impurity = np.where((n_left > 0) & (n_right > 0), impurity / max(rows.sum(), 1.0), np.inf)
        at = int(np.argmin(impurity)) if impurity.size else 0
        if impurity.size and impurity[at] < best:
            best, found = float(impurity[at]), (column, at)
    return found


def _impurity(by_class: Floats) -> Floats:
    """Return Gini impurities."""
    shares = by_class / np.maximum(by_class.sum(axis=1), 1.0)[:, None]
    found: Floats = 1.0 - (shares**2).sum(axis=1)
    return found
