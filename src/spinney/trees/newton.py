"""Turn summed gradients into decisions: the best cut of every open node of a batch of trees."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import newton_split as kernels
from spinney.trees.counts import Counters
from spinney.trees.dtypes import CATEGORY_WORDS
from spinney.trees.frontier import ColumnCells, Slots
from spinney.trees.losses import Units
from spinney.trees.split import BestSplits
from spinney.trees.threads import equal_ranges, run_ranges
from spinney.typing import Floats, Integers


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
                self.direction, best.total, best.slot, best.cut, best.missing_left, best.gain,
                best.left, best.bin_set,
            )  # fmt: skip

        run_ranges(task, equal_ranges(slots.cells_of_node, self.n_threads), self.n_threads)
        return best


@dataclass(frozen=True)
class NewtonValues:
    """What leaves add to scores, from their rows, gradients and curvatures."""

    units: Units
    l2: float
    scale: float  # the learning rate over the number of trees that are added at once

    def whole(self, moments: Integers) -> Integers:
        """Return steps of 2^-24, one for each node."""
        return self.units.values(moments, self.l2, self.scale)

    def of(self, moments: Integers) -> Floats:
        """Return the same as (n_nodes, 1) numbers."""
        return self.whole(moments).astype(np.float64)[:, None]
