"""Trees whose shape does not depend on exact counts: drawn at random, or decided from noisy counts.

The private protocols share this code: roots without draws, a level of plain decisions, and levels
drawn at random within the public ranges.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.trees.dtypes import CATEGORY_WORDS, MISSING
from spinney.trees.frontier import ColumnCells, Draws, Frontier
from spinney.trees.level import Level, empty_bin_sets
from spinney.typing import Bools, Integers

_NO_DRAWS = Draws(1, 2, 2, shared_phase=False)  # features and cells are not drawn by hash here
_NO_THRESHOLDS = np.zeros(0, np.float32)


@dataclass(frozen=True)
class Splits:
    """The decision for every open node; feature -1: it stays a leaf."""

    feature: NDArray[np.int32]  # (n_open,)
    cut: Integers  # (n_open,) the last bin that goes left, for numbers
    bin_set: NDArray[np.uint64]  # (n_open, 4) the bins that go left, for categories
    missing_left: Bools  # (n_open,)


def roots(columns: ColumnCells, n_trees: int) -> Frontier:
    """Return the roots of trees, each with all bins open."""
    return Frontier.of_roots(columns, _NO_DRAWS, seed=0, n_trees=n_trees, bits=1)


def frontiers(columns: ColumnCells, n_trees: int, levels: tuple[Level, ...]) -> list[Frontier]:
    """Return the open nodes of every depth; raise if a level does not fit its open nodes."""
    found = [roots(columns, n_trees)]
    for level in levels:
        found.append(found[-1].after(level))
    return found


def level_of(columns: ColumnCells, splits: Splits, *, opens: bool) -> Level:
    """Return decisions as a level; either all children are open or none."""
    is_split = splits.feature >= 0
    is_category = is_split & columns.is_category[splits.feature]
    n_children = 2 * int(is_split.sum())
    subset = np.full(splits.feature.size, -1, np.int32)
    subset[is_category] = np.arange(int(is_category.sum()))
    return Level(
        feature=splits.feature,
        cut=np.where(is_split & ~is_category, splits.cut, 0).astype(np.uint8),
        missing_left=is_split & splits.missing_left,
        subset=subset,
        bin_sets=splits.bin_set[is_category],
        child_open=np.full(n_children, opens),
        child_bits=np.ones(n_children if opens else 0, np.uint8),
        child_derived=np.zeros(n_children if opens else 0, np.bool_),
        threshold=_NO_THRESHOLDS,
    )


def set_of_bin(bins: Integers) -> NDArray[np.uint64]:
    """Return sets of one bin each; `MISSING` is the bin of missing values."""
    sets = empty_bin_sets(bins.size)
    sets[np.arange(bins.size), bins >> 6] = np.uint64(1) << (bins & 63).astype(np.uint64)
    return sets


def random_levels(
    columns: ColumnCells, n_trees: int, depth: int, generator: np.random.Generator
) -> tuple[Level, ...]:
    """Draw full trees of a depth: random columns, cuts and sides within the open ranges."""
    frontier, levels = roots(columns, n_trees), []
    for step in range(depth):
        splits = _random_splits(frontier, columns, generator)
        levels.append(level_of(columns, splits, opens=step + 1 < depth))
        frontier = frontier.after(levels[-1])
    return tuple(levels)


def _random_splits(
    frontier: Frontier, columns: ColumnCells, generator: np.random.Generator
) -> Splits:
    n = frontier.n_open
    low, high = frontier.low.astype(np.int64), frontier.high.astype(np.int64)
    usable = np.where(columns.is_category, columns.n_bins > 1, high > low)
    luck = generator.random(usable.shape) + usable  # columns that cannot split come last
    feature = luck.argmax(axis=1).astype(np.int32)
    node = np.arange(n)
    first, width = low[node, feature], (high - low)[node, feature]
    cut = first + (generator.random(n) * np.maximum(width, 1)).astype(np.int64)
    words = generator.integers(0, 2**64, (n, CATEGORY_WORDS), np.uint64)
    missing_left = generator.random(n) < 0.5
    missing_bit = np.uint64(1) << np.uint64(MISSING & 63)
    words[:, -1] = np.where(missing_left, words[:, -1] | missing_bit, words[:, -1] & ~missing_bit)
    return Splits(feature, cut, words, missing_left)
