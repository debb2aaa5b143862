"""Turn summed gradients into decisions: the best cut of every open node of a batch of trees."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import newton_split as kernels
from spinney.trees.counts import Counters
from spinney.trees.dtypes import CATEGORY_WORDS
from spinney.trees.frontier import ColumnCells, Slots, line_sums
from spinney.trees.losses import Units
from spinney.trees.split import BestSplits
from spinney.trees.threads import run_ranges, shared_out
from spinney.typing import Bools, Floats, Integers


@dataclass(frozen=True)
class NewtonSearch:
    """The search for the best cuts."""

    units: Units
    l2: float
    least_rows: int
    direction: NDArray[np.int8]  # (n_columns,) how values may change the prediction: -1, 0 or 1
    n_threads: int

    def best(
        self, sums: Counters, slots: Slots, columns: ColumnCells, low: Floats, high: Floats
    ) -> BestSplits:
        """Return the best cut of each node, whose children's values are within low and high."""
        return self._best(sums, slots, columns, low, high, is_bare=False)

    def best_by_score(
        self, sums: Counters, slots: Slots, columns: ColumnCells, low: Floats, high: Floats
    ) -> BestSplits:
        """Return the best cut of each node, as `best` does; its gain is the score of the cut.

        Scores of different parties' columns are compared as they are; in gains, two different
        scores might become equal.
        """
        found = self._best(sums, slots, columns, low, high, is_bare=True)
        found.gain[found.slot < 0] = -np.inf
        return found

    def best_of_slots(
        self, sums: Counters, slots: Slots, columns: ColumnCells, low: Floats, high: Floats
    ) -> BestSplits:
        """Return the best cut of every used slot, separately and in order; its gain is its score.

        Each slot's score is computed separately, so the best over all columns is the same however
        the columns are dealt to parties.
        """
        used = slots.feature >= 0
        n_used = line_sums(used)
        limits = np.repeat(low, n_used), np.repeat(high, n_used)
        return self._best(sums, slots.single(), columns, *limits, is_bare=True)

    def _best(
        self,
        sums: Counters,
        slots: Slots,
        columns: ColumnCells,
        low: Floats,
        high: Floats,
        *,
        is_bare: bool,
    ) -> BestSplits:
        n_nodes, units = len(slots.feature), self.units
        best = BestSplits(
            np.zeros((n_nodes, 3), np.int64),
            np.full(n_nodes, -1, np.int64),
            np.zeros(n_nodes, np.uint8),
            np.zeros(n_nodes, np.bool_),
            np.zeros(n_nodes),
            np.zeros((n_nodes, 3), np.int64),
            np.zeros((n_nodes, CATEGORY_WORDS), np.uint64),
        )

        def task(first: int, last: int) -> None:
            kernels.best_newton_splits(
                sums, first, last, slots.feature, slots.add, slots.shift, slots.cells, slots.offset,
                columns.is_category, columns.has_missing,
                (units.g_steps, units.g, units.h, self.l2), (self.least_rows, 1), low, high,
                self.direction, is_bare, best.total, best.slot, best.cut, best.missing_left,
                best.gain, best.left, best.bin_set,
            )  # fmt: skip

        parts = shared_out(lambda: slots.cells_of_node, n_nodes, self.n_threads)
        run_ranges(task, parts, self.n_threads)
        return best

    def gains(self, best: BestSplits, low: Floats, high: Floats) -> Floats:
        """Return by how much cuts, given with their scores, improve those of the nodes; 0: none."""
        gain = np.zeros(best.slot.size)
        units = (self.units.g, self.units.h, self.l2)
        kernels.gains_of_scores(best.total, best.slot, best.gain, units, low, high, gain)
        return gain

    def steps(self, moments: Integers, low: Floats, high: Floats) -> Floats:
        """Return the best values of nodes within bounds, given rows, gradients, curvatures."""
        return self.units.steps(moments, self.l2).clip(low, high)


class ValueBounds:
    """What the values of a batch's nodes must lie between, so that columns keep their directions.

    Below a cut of a constrained column, the left side's values and the right side's are on
    different sides of the middle between the two.
    """

    def __init__(self, search: NewtonSearch, n_trees: int) -> None:
        self._search = search
        self._low = np.full(n_trees, -np.inf)  # of all nodes of the newest depth
        self._high = np.full(n_trees, np.inf)
        self._is_open = np.ones(n_trees, np.bool_)
        self._leaves: list[tuple[Floats, Floats]] = []

    @property
    def of_open(self) -> tuple[Floats, Floats]:
        """The bounds of the open nodes."""
        return self._low[self._is_open], self._high[self._is_open]

    def go(
        self, split: Bools, child_open: Bools, direction: NDArray[np.int8], moments: Integers
    ) -> None:
        """Go on to the children of split nodes, whose moments are given left and right in turn.

        `direction` says how the column of each split may change the prediction.
        """
        leaf = ~self._is_open
        leaf[self._is_open] = ~split
        self._leaves.append((self._low[leaf], self._high[leaf]))
        low, high = (bound[split] for bound in self.of_open)
        left = self._search.steps(moments[0::2], low, high)
        right = self._search.steps(moments[1::2], low, high)
        middle = (left + right) / 2.0
        lows, highs = np.repeat(low, 2), np.repeat(high, 2)
        highs[0::2] = np.where(direction > 0, middle, high)
        lows[1::2] = np.where(direction > 0, middle, low)
        lows[0::2] = np.where(direction < 0, middle, low)
        highs[1::2] = np.where(direction < 0, middle, high)
        self._low, self._high, self._is_open = lows, highs, child_open

    @property
    def of_leaves(self) -> tuple[Floats, Floats]:
        """The bounds of all leaves, level by level, once no node is open."""
        lows, highs = zip(*self._leaves, (self._low, self._high), strict=True)
        return np.concatenate(lows), np.concatenate(highs)


@dataclass(frozen=True)
class NewtonValues:
    """What leaves add to scores, from their rows, gradients and curvatures."""

    units: Units
    l2: float
    scale: float  # the learning rate over the number of trees that are added at once

    def whole(self, moments: Integers, bounds: tuple[Floats, Floats] | None = None) -> Integers:
        """Return steps of 2^-24, one for each node, whose values may be bounded."""
        steps = self.units.steps(moments, self.l2)
        return self.units.whole(steps if bounds is None else steps.clip(*bounds), self.scale)

    def of(self, moments: Integers) -> Floats:
        """Return the same as (n_nodes, 1) numbers."""
        return self.whole(moments).astype(np.float64)[:, None]
