"""The box of every node: which values its path leaves open, column by column."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.protocols.model import ForestModel
from spinney.trees.forest import Forest
from spinney.typing import Floats

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True)
class Boxes:
    """Boxes of nodes. Numbers lie above `low` and at or below `high`; categories by their bins."""

    low: Floats  # (n_nodes, n_columns)
    high: Floats
    bins: NDArray[np.uint64]  # (n_nodes, n_categories, 4)
    categories: NDArray[np.intp]  # the columns of `bins`

    def part(self, nodes: NDArray[np.intp]) -> "Boxes":
        """Return the boxes of some nodes."""
        return Boxes(self.low[nodes], self.high[nodes], self.bins[nodes], self.categories)

    def meets(self, box: "Boxes") -> NDArray[np.bool_]:
        """Return which boxes share a point with `box`, which is a single one."""
        numbers = np.all((self.low < box.high[0]) & (self.high > box.low[0]), axis=1)
        shared = np.any(self.bins & box.bins[0], axis=2)
        found: NDArray[np.bool_] = numbers & np.all(shared, axis=1)
        return found

    def cut_by(self, box: "Boxes") -> "Boxes":
        """Return what these boxes share with `box`, which is a single one."""
        return Boxes(
            np.maximum(self.low, box.low[0]),
            np.minimum(self.high, box.high[0]),
            self.bins & box.bins[0],
            self.categories,
        )


def boxes_of(model: ForestModel) -> Boxes:
    """Return the box of every node, from the roots down."""
    forest = model.forest
    n_columns = len(model.schema.columns)
    categories = np.flatnonzero([len(bins) > 0 for bins in model.bin_of_category])
    place = np.full(n_columns, -1)
    place[categories] = np.arange(categories.size)
    low = np.full((forest.n_nodes, n_columns), -np.inf)
    high = np.full((forest.n_nodes, n_columns), np.inf)
    bins = np.full((forest.n_nodes, categories.size, 4), _ALL)
    level = forest.tree_start[:-1]
    while level.size:
        level = level[forest.feature[level] >= 0]
        left = forest.left[level].astype(np.int64)
        for child in (left, left + 1):
            low[child], high[child], bins[child] = low[level], high[level], bins[level]
        _cut_numbers(forest, level, left, low, high)
        _cut_categories(forest, level, left, place, bins)
        level = np.concatenate([left, left + 1])
    return Boxes(low, high, bins, categories)


def _cut_numbers(
    forest: Forest, level: NDArray[np.int64], left: NDArray[np.int64], low: Floats, high: Floats
) -> None:
    is_number = forest.subset[level] < 0
    column = forest.feature[level][is_number]
    cut = forest.threshold[level][is_number].astype(np.float64)
    down = left[is_number]
    high[down, column] = np.minimum(high[down, column], cut)
    low[down + 1, column] = np.maximum(low[down + 1, column], cut)


def _cut_categories(
    forest: Forest,
    level: NDArray[np.int64],
    left: NDArray[np.int64],
    place: NDArray[np.int64],
    bins: NDArray[np.uint64],
) -> None:
    is_category = forest.subset[level] >= 0
    sets = forest.bin_sets[forest.subset[level][is_category]]
    column = place[forest.feature[level][is_category]]
    down = left[is_category]
    bins[down, column] &= sets
    bins[down + 1, column] &= ~sets
