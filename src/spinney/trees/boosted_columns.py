"""The rows of boosted trees over columns: each tree has all rows, of which it counts some.

Row entries are those of boosted trees over rows, `row in block | gradient << 16 | curvature << 24`.
Nobody but the owner of a column can send a row down its cut, so that all rows move with the trees,
also those that a tree does not count: these have a gradient that no row has.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import gradients as kernels
from spinney.trees._kernels import siblings
from spinney.trees._kernels.rows import ROW_MASK
from spinney.trees.binning import BinnedTable
from spinney.trees.boosting import Sampling, Segments, draw_segments
from spinney.trees.frontier import Slots, asked_slots, line_sums
from spinney.trees.losses import Gradients, Units
from spinney.trees.own_columns import OwnNodes
from spinney.trees.rows import Standing
from spinney.typing import Bools, Integers

_G_SHIFT = np.uint32(16)
_H_SHIFT = np.uint32(24)


@dataclass(frozen=True)
class RowsOfTrees:
    """The rows of a batch of trees at their roots, and how row entries are read."""

    table: BinnedTable
    units: Units
    standing: Standing
    n_counted: Integers  # of each tree
    counts_all: bool  # whether every tree counts every row

    @property
    def _g_mask(self) -> np.uint32:
        return np.uint32(0xFF if self.units.h_steps else 0xFFFF)

    def counted(self, held: Standing) -> Segments:
        """Return the counted rows of some nodes."""
        if self.counts_all:
            return Segments(held.entries, held.starts, held.ends)
        taken, ends = np.empty_like(held.entries), np.empty_like(held.ends)
        kernels.take_counted(held.entries, held.starts, held.ends, self._g_mask, taken, ends)
        return Segments(taken, held.starts, ends)

    def count(self, held: Standing) -> Integers:
        """Return how many rows of some nodes are counted."""
        return held.rows_of_node if self.counts_all else self.sums(held)[:, 0]

    def sums(self, held: Standing) -> Integers:
        """Return rows, gradients and curvatures of some nodes, (n_nodes, 3)."""
        sums = np.empty((len(held.starts), 3), np.int64)
        kernels.segment_gradients(held.entries, held.starts, held.ends, self._g_mask, sums)
        sums[:, 1] -= self.units.g_steps * sums[:, 0]
        if not self.units.h_steps:
            sums[:, 2] = sums[:, 0]
        return sums

    def fields(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the gradients and curvatures of all trees' counted rows, tree after tree.

        They are in the rows' order until rows are moved.
        """
        entries = self.standing.entries
        gradient, curvature = (entries >> _G_SHIFT) & self._g_mask, entries >> _H_SHIFT
        is_counted = gradient != self._g_mask
        return gradient[is_counted], curvature[is_counted]

    def places(self) -> NDArray[np.int32]:
        """Return the place of each tree's rows among all counted rows; -1: not counted.

        It must be called before any row is moved.
        """
        mask = self._g_mask
        is_counted = ((self.standing.entries >> _G_SHIFT) & mask != mask).reshape(
            self.n_counted.size, -1
        )
        place = np.cumsum(is_counted.ravel(), dtype=np.int32).reshape(is_counted.shape) - 1
        return np.where(is_counted, place, -1).astype(np.int32)

    def child_sums(self, held: Standing, above: Integers) -> Integers:
        """Return the sums of both children of nodes; the right ones have what the left ones leave.

        `above` are the sums of the nodes.
        """
        both = np.empty((len(held.starts), 3), np.int64)
        kernels.child_gradients(
            held.entries, held.starts, held.ends, self._g_mask, self.units.g_steps,
            self.units.h_steps > 0, above, both,
        )  # fmt: skip
        return both

    def leaves_of(
        self, leaves: Segments, tree: Integers, rows: Integers
    ) -> list[NDArray[np.uint32]]:
        """Return the leaf, by its number, of some rows in each tree."""
        place = np.full(self.table.n_rows, -1, np.int32)
        place[rows] = np.arange(rows.size, dtype=np.int32)
        found = np.zeros((self.n_counted.size, rows.size), np.uint32)
        kernels.find_leaves(
            leaves.entries, leaves.starts, leaves.ends, self.table.block_start, tree, place, found
        )
        return list(found)


@dataclass(frozen=True)
class OwnKin:
    """Open nodes of which some are derived from their parents and siblings."""

    slots: Slots
    derived: Bools
    parent: Integers
    parent_cut: NDArray[np.int32]  # own numeric column that split the parent, -1: another

    @cached_property
    def asked(self) -> Slots:
        """The slots that are counted."""
        return asked_slots(self.slots, self.derived, self.parent_cut)


def kin_of(nodes: OwnNodes, slots: Slots) -> OwnKin:
    """Return which open nodes need not be counted: the heavier of two siblings with like cells."""
    derived, draws = np.zeros(nodes.tree.size, np.bool_), nodes.draws
    if draws.shared_phase:
        cells, above = draws.cells(nodes.bits), draws.cells(nodes.parent_bits)
        siblings.mark_heavier(nodes.parent, cells, above, nodes.weight, derived)
    return OwnKin(slots, derived, nodes.parent, nodes.parent_cut)


def draw_rows_of_trees(
    table: BinnedTable, sampling: Sampling, gradients: Gradients, units: Units, n_threads: int
) -> RowsOfTrees:
    """Put all rows at the root of every tree, those that it counts with their gradients."""
    parts = draw_segments(table, sampling, gradients, units, n_threads)
    n_trees, n_rows = sampling.keys.size, table.n_rows
    origin = (np.arange(n_trees) * n_rows)[:, None]
    starts, ends = origin + table.block_start[:-1], origin + table.block_start[1:]
    counted = line_sums(parts[0].ends - parts[0].starts)
    if np.all(counted == n_rows):
        held = Standing(parts[0].entries, starts, ends)
        return RowsOfTrees(table, units, held, counted, counts_all=True)
    none = np.uint32(0xFF if units.h_steps else 0xFFFF) << _G_SHIFT
    entries = np.empty(n_trees * n_rows, np.uint32)
    for part, mark in zip(parts, (np.uint32(0), none), strict=True):
        for tree in range(n_trees):
            for block, first in enumerate(starts[tree]):
                own = part.entries[part.starts[tree, block] : part.ends[tree, block]]
                entries[first + (own & ROW_MASK).astype(np.int64)] = own | mark
    return RowsOfTrees(table, units, Standing(entries, starts, ends), counted, counts_all=False)
