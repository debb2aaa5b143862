"""The open nodes of a level and what is asked of them.

A `Level` is what the coordinator decided for the open nodes of one depth, over all trees. The
forest so far is a tuple of levels; from it and the job's public facts anyone computes the
`Frontier`: the open nodes with their keys, ranges and slots.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from spinney import seeds
from spinney.trees._kernels import level as kernels
from spinney.trees.dtypes import CATEGORY_WORDS
from spinney.typing import Bools, Codes, Integers, Keys


@dataclass(frozen=True)
class Level:
    """The decisions for the open nodes of one depth, in order.

    Rows whose bin of `feature` is at most `cut` go left; for a category, those in its bin set.
    """

    feature: NDArray[np.int32]  # (n_open,) -1: stays a leaf
    cut: NDArray[np.uint8]  # (n_open,)
    missing_left: Bools  # (n_open,)
    subset: NDArray[np.int32]  # (n_open,) row of bin_sets, -1 for numbers
    bin_sets: NDArray[np.uint64]  # (n_sets, 4)
    child_open: Bools  # (2 * n_split,) left and right child of each split node
    threshold: NDArray[np.float32]  # (n_open,) in place of cuts; empty unless adaptive

    def digest(self, before: bytes) -> bytes:
        """Return a digest of the forest so far, given the digest before this level."""
        state = blake2b(before, digest_size=16)
        arrays = (self.feature, self.cut, self.missing_left, self.subset, self.bin_sets)
        for array in (*arrays, self.child_open, self.threshold):
            state.update(array.tobytes())
        return state.digest()


@dataclass(frozen=True)
class Columns:
    """What the trees know of a table's columns: public facts, the same for everyone."""

    n_bins: NDArray[np.int64]  # (n_columns,) without the bin for missing values
    is_category: Bools
    has_missing: Bools

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        return int(self.n_bins.size)


@dataclass(frozen=True)
class Slots:
    """The features asked of each node and the cells laid over their bins."""

    feature: NDArray[np.int32]  # (n_nodes, n_slots) -1: unused
    add: NDArray[np.int32]
    shift: NDArray[np.uint8]
    cells: NDArray[np.int32]
    offset: NDArray[np.int64]  # first cell of the slot among all cells of these nodes
    n_cells: int

    def part(self, first: int, last: int) -> "Slots":
        """Return the slots of a range of nodes, with their cells counted from zero."""
        cells = self.cells[first:last]
        offset = self.offset[first:last]
        if first < last:
            offset = offset - offset[0, 0]
        return Slots(
            self.feature[first:last],
            self.add[first:last],
            self.shift[first:last],
            cells,
            offset,
            int(cells.sum(dtype=np.int64)),
        )

    @property
    def run_ends(self) -> Integers:
        """The end of each slot's cells."""
        ends: Integers = (self.offset + self.cells).ravel()
        return ends


@dataclass(frozen=True)
class Draws:
    """How features and cells are drawn for a node."""

    n_slots: int
    max_cells: int
    shared_phase: bool  # the same phase in every node of a tree, so that siblings' cells align


@dataclass(frozen=True)
class Frontier:
    """The open nodes of the newest level."""

    columns: Columns
    draws: Draws
    tree: NDArray[np.int32]  # (n_open,)
    key: Keys  # (n_open,)
    phase_key: Keys  # (n_open,)
    low: Codes  # (n_open, n_columns) lowest bin the path leaves open
    high: Codes

    @classmethod
    def of_roots(cls, columns: Columns, draws: Draws, seed: int, n_trees: int) -> "Frontier":
        """Return the roots of all trees."""
        keys = tree_keys(seed, n_trees)
        high = np.tile((columns.n_bins - 1).clip(0).astype(np.uint8), (n_trees, 1))
        return cls(
            columns,
            draws,
            np.arange(n_trees, dtype=np.int32),
            seeds.mixed(keys ^ np.uint64(1)),
            keys,
            np.zeros_like(high),
            high,
        )

    @property
    def n_open(self) -> int:
        """How many nodes are open."""
        return int(self.tree.size)

    def after(self, level: Level) -> "Frontier":
        """Return the open children, given the decisions for these nodes."""
        parents = np.flatnonzero(level.feature >= 0)
        keys = np.empty(2 * parents.size, np.uint64)
        kernels.child_keys(self.key[parents], keys)
        child = np.flatnonzero(level.child_open)
        parent = parents[child >> 1]
        low = self.low[parent]
        high = self.high[parent]
        number = np.flatnonzero(level.subset[parent] < 0)
        feature = level.feature[parent][number]
        # A cell may reach past the highest open bin; only missing values are beyond that.
        cut = np.minimum(level.cut[parent][number], high[number, feature])
        is_right = (child[number] & 1).astype(bool)
        left, right = number[~is_right], number[is_right]
        high[left, feature[~is_right]] = cut[~is_right]
        low[right, feature[is_right]] = np.minimum(cut[is_right], 253) + 1
        phase_key = self.phase_key[parent] if self.draws.shared_phase else keys[child]
        return Frontier(
            self.columns, self.draws, self.tree[parent], keys[child], phase_key, low, high
        )

    @cached_property
    def slots(self) -> Slots:
        """The features and cells of every open node."""
        shape = (self.n_open, self.draws.n_slots)
        feature = np.empty(shape, np.int32)
        add = np.empty(shape, np.int32)
        shift = np.empty(shape, np.uint8)
        cells = np.empty(shape, np.int32)
        columns = self.columns
        kernels.draw_slots(
            self.key, self.phase_key, self.low, self.high, columns.n_bins, columns.is_category,
            columns.has_missing, self.draws.n_slots, self.draws.max_cells,
            feature, add, shift, cells,
        )  # fmt: skip
        ends = np.cumsum(cells, dtype=np.int64).reshape(shape)
        return Slots(
            feature, add, shift, cells, ends - cells, int(ends[-1, -1]) if ends.size else 0
        )


def tree_keys(seed: int, n_trees: int) -> Keys:
    """Return the key of every tree, from which its bootstrap and all its draws follow."""
    return seeds.mixed(seeds.mixed(np.arange(n_trees, dtype=np.uint64)) ^ np.uint64(seed))


def empty_bin_sets(n: int) -> NDArray[np.uint64]:
    """Return room for `n` bin sets."""
    return np.zeros((n, CATEGORY_WORDS), np.uint64)
