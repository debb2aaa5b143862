"""Turn counts into decisions: the best cut of every open node of a level."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import noisy_split as noisy_kernels
from spinney.trees._kernels import split as kernels
from spinney.trees._kernels.logarithm import fill_log_table
from spinney.trees._kernels.split import ALIKE
from spinney.trees.counts import Counters
from spinney.trees.dtypes import CATEGORY_WORDS, TARGET_BITS
from spinney.trees.frontier import ColumnCells, Slots
from spinney.trees.threads import equal_ranges, run_ranges
from spinney.typing import Bools, Codes, Floats, Integers

_LOG_TABLE = 1 << 20


@dataclass(frozen=True)
class Criterion:
    """The split criterion. `class_weight` is empty for regression."""

    name: str  # "gini", "entropy" or "squared_error"
    class_weight: Floats
    log_table: Floats  # x log2 x for whole x; empty if weights are not whole

    @classmethod
    def of(cls, name: str, class_weight: Floats, n_most: int) -> "Criterion":
        """Return the criterion, with a table of logarithms for nodes of up to `n_most` rows."""
        table = np.zeros(0)
        if name == "entropy" and np.all(class_weight == 1.0):
            table = np.zeros(min(n_most + 1, _LOG_TABLE))
            fill_log_table(table)
        return cls(name, class_weight, table)


@dataclass(frozen=True)
class LeastLeaf:
    """The least that each child of a cut must hold."""

    rows: int
    share: float = 0.0  # of its tree's weight


@dataclass(frozen=True)
class BestSplits:
    """The best cut of each node; slot `ALIKE` or `APART` if there is none."""

    total: Integers  # (n_nodes, width) class counts, or weight and target sum
    slot: NDArray[np.int64]
    cut: Codes
    missing_left: Bools
    gain: Floats  # score minus the parent's score, not divided by a weight
    left: Integers  # (n_nodes, width) what goes left
    bin_set: NDArray[np.uint64]  # (n_nodes, 4)

    @classmethod
    def of_parts(cls, parts: list["BestSplits"]) -> "BestSplits":
        """Join the splits of consecutive batches of a level."""
        if len(parts) == 1:
            return parts[0]
        names = ("total", "slot", "cut", "missing_left", "gain", "left", "bin_set")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def best_splits(
    counters: Counters,
    slots: Slots,
    columns: ColumnCells,
    criterion: Criterion,
    *,
    least: LeastLeaf,
    root_weight: Floats,
    n_threads: int,
    is_noisy: bool = False,
    only_first: Bools | None = None,
) -> BestSplits:
    """Return the best cut of each node; `root_weight` is that of its tree, 0 for roots.

    If `is_noisy`, counters may be negative and a node's slots may have different totals. Nodes that
    take `only_first` cut the first column that can be cut.
    """
    n_nodes, width = len(slots.feature), counters.shape[1]
    only_first = np.zeros(n_nodes, np.bool_) if only_first is None else only_first
    best = BestSplits(
        np.zeros((n_nodes, width), np.int64),
        np.full(n_nodes, ALIKE, np.int64),
        np.zeros(n_nodes, np.uint8),
        np.zeros(n_nodes, np.bool_),
        np.zeros(n_nodes),
        np.zeros((n_nodes, width), np.int64),
        np.zeros((n_nodes, CATEGORY_WORDS), np.uint64),
    )
    shape = (slots.feature, slots.add, slots.shift, slots.cells, slots.offset)
    limits = (least.rows, least.share, root_weight)
    kinds = (columns.is_category, columns.has_missing)
    found = (
        best.total, best.slot, best.cut, best.missing_left, best.gain, best.left, best.bin_set,
    )  # fmt: skip

    def task(first: int, last: int) -> None:
        where = (counters, first, last, *shape, *kinds)
        how = (criterion.class_weight, criterion.name == "gini", criterion.log_table)
        by_class = criterion.name != "squared_error"
        if by_class and is_noisy:
            noisy_kernels.noisy_class_splits(*where, *how, *limits, *found)
        elif by_class:
            kernels.best_class_splits(*where, *how, only_first, *limits, *found)
        elif is_noisy:
            most = float(2**TARGET_BITS - 1)
            noisy_kernels.noisy_mean_splits(*where, most, *limits, *found)
        else:
            kernels.best_mean_splits(*where, only_first, *limits, *found)

    run_ranges(task, equal_ranges(slots.cells_of_node, n_threads), n_threads)
    return best


def cells_of_alike(
    counters: Counters, best: BestSplits, slots: Slots, *, is_regression: bool
) -> NDArray[np.uint8]:
    """Return which cell of each slot holds all rows of a node, for nodes that are `ALIKE`."""
    found = np.zeros(slots.feature.shape, np.uint8)
    alike = np.flatnonzero(best.slot == ALIKE)
    shape = (slots.feature, slots.cells, slots.offset)
    kernels.held_cells(counters, is_regression, alike, *shape, found)
    return found
