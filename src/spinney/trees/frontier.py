"""The open nodes of a level: their keys, ranges, candidate features and cells."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from spinney import seeds
from spinney.errors import ProtocolError
from spinney.trees._kernels import level as kernels
from spinney.trees.level import Level
from spinney.trees.threads import equal_ranges, run_ranges, thread_count
from spinney.typing import Bools, Codes, Integers, Keys

_DRAW_WORK = 64  # rows that cost as much as drawing a node's features
_MOST_BITS = 40  # bits of a node's row count


@dataclass(frozen=True)
class ColumnCells:
    """The public facts about a table's columns that trees use; the same for every party."""

    n_bins: NDArray[np.int64]  # (n_columns,) without the bin for missing values
    is_category: Bools
    has_missing: Bools

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        return int(self.n_bins.size)

    def cells(self, most: int) -> Integers:
        """Return the largest number of cells that each column can have in a node."""
        numbers = np.minimum(self.n_bins, most)
        return np.where(self.is_category, self.n_bins, numbers) + self.has_missing


@dataclass(frozen=True)
class Slots:
    """The candidate features of each node, and the cells that group their bins."""

    feature: NDArray[np.int32]  # (n_nodes, n_slots) -1: unused
    add: NDArray[np.int32]
    shift: NDArray[np.uint8]
    cells: NDArray[np.int32]
    offset: NDArray[np.int64]  # first cell of the slot among all cells of these nodes
    n_cells: int

    @classmethod
    def of(
        cls,
        feature: NDArray[np.int32],
        add: NDArray[np.int32],
        shift: NDArray[np.uint8],
        cells: NDArray[np.int32],
    ) -> "Slots":
        """Place the cells of all slots one after another."""
        ends = np.cumsum(cells, dtype=np.int64).reshape(cells.shape)
        n_cells = int(ends[-1, -1]) if ends.size else 0
        return cls(feature, add, shift, cells, ends - cells, n_cells)

    def part(self, first: int, last: int) -> "Slots":
        """Return the slots of a range of nodes, with their cells counted from zero."""
        if (first, last) == (0, len(self.feature)):
            return self
        nodes = slice(first, last)
        return Slots.of(self.feature[nodes], self.add[nodes], self.shift[nodes], self.cells[nodes])

    @cached_property
    def cells_of_node(self) -> Integers:
        """The total number of cells of each node, (n_nodes,)."""
        return line_sums(self.cells)

    @cached_property
    def ends(self) -> Integers:
        """The end of each slot's cells, (n_nodes, n_slots)."""
        ends: Integers = self.offset + self.cells
        return ends


@dataclass(frozen=True)
class Draws:
    """How features and cells are drawn for a node."""

    n_slots: int
    max_cells: int
    least_cells: int
    shared_phase: bool  # whether all nodes of a tree share a phase, so that siblings' cells align
    cell_bits: int = 0  # a node has about 2^cell_bits rows for each cell of a column

    def cells(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return how many cells nodes get: about one per row or some rows, within limits."""
        rows = 1 << (bits.astype(np.int64) - self.cell_bits).clip(0, 8)
        return rows.clip(min(self.least_cells, self.max_cells), self.max_cells).astype(np.uint8)


@dataclass(frozen=True)
class Frontier:
    """The open nodes of the newest level."""

    columns: ColumnCells
    draws: Draws
    tree: NDArray[np.int32]  # (n_open,)
    key: Keys  # (n_open,)
    phase_key: Keys  # (n_open,)
    bits: NDArray[np.uint8]  # (n_open,) a node holds fewer than 2^bits rows
    low: Codes  # (n_open, n_columns) lowest bin that the path leaves open
    high: Codes
    derived: Bools  # (n_open,) nodes whose histograms follow from their parent's and sibling's
    parent: Integers  # (n_open,) the parent's index in the previous frontier
    parent_cut: NDArray[np.int32]  # (n_open,) numeric column that split the parent, -1: a category

    @classmethod
    def of_roots(
        cls, columns: ColumnCells, draws: Draws, *, seed: int, n_trees: int, bits: int
    ) -> "Frontier":
        """Return the roots of all trees; each holds fewer than 2^bits rows."""
        keys = tree_keys(seed, n_trees)
        high = np.tile((columns.n_bins - 1).clip(0).astype(np.uint8), (n_trees, 1))
        return cls(
            columns,
            draws,
            np.arange(n_trees, dtype=np.int32),
            seeds.mix(keys ^ np.uint64(1)),
            keys,
            np.full(n_trees, bits, np.uint8),
            np.zeros_like(high),
            high,
            np.zeros(n_trees, np.bool_),
            np.zeros(n_trees, np.int64),
            np.full(n_trees, -1, np.int32),
        )

    @property
    def n_open(self) -> int:
        """How many nodes are open."""
        return int(self.tree.size)

    def check(self, level: Level) -> None:
        """Raise unless decisions fit these nodes: kernels do not check what others sent."""
        split = level.feature >= 0
        n_split = int(np.count_nonzero(split))
        with_set = level.subset >= 0
        sound = (
            level.feature.size == level.cut.size == level.subset.size == self.n_open
            and level.missing_left.size == self.n_open
            and level.threshold.size in {0, self.n_open}
            and level.child_open.size == 2 * n_split
            and level.child_bits.size == level.child_derived.size == int(level.child_open.sum())
            and bool(np.all((level.child_bits >= 1) & (level.child_bits <= _MOST_BITS)))
            and int(level.feature.max(initial=-1)) < self.columns.n_columns
            and int(level.subset.max(initial=-1)) < len(level.bin_sets)
            and bool(np.all(with_set[split] == self.columns.is_category[level.feature[split]]))
            and not bool(np.any(with_set[~split]))
        )
        if sound and level.threshold.size == 0:
            number = np.flatnonzero(split & ~with_set)
            # A cut below the lowest open bin would give a range of negative length.
            lowest = self.low[number, level.feature[number]]
            sound = bool(np.all(level.cut[number] >= lowest))
        if not sound:
            raise ProtocolError("A level of the forest does not fit its open nodes.")

    def after(self, level: Level) -> "Frontier":
        """Return the open children, given the decisions for these nodes; derived once for all."""
        known = self.__dict__.get("_known_children")
        if known is not None:
            same, children = known[0](), known[1]()
            if same is not None and children is not None and same == level:
                return cast("Frontier", children)
        children = self._open_children(level)
        self.__dict__["_known_children"] = (ref(level), ref(children))
        return children

    def _open_children(self, level: Level) -> "Frontier":
        self.check(level)
        n = level.child_bits.size
        tree, parent, parent_cut = (
            np.empty(n, np.int32),
            np.empty(n, np.int64),
            np.empty(n, np.int32),
        )
        key, phase_key = np.empty(n, np.uint64), np.empty(n, np.uint64)
        low = np.empty((n, self.columns.n_columns), np.uint8)
        high = np.empty_like(low)
        kernels.open_children(
            level.feature, level.cut, level.subset, level.child_open, level.threshold.size == 0,
            self.draws.shared_phase, self.tree, self.key, self.phase_key, self.low, self.high,
            tree, key, phase_key, low, high, parent, parent_cut,
        )  # fmt: skip
        derived = level.child_derived
        return replace(
            self, tree=tree, key=key, phase_key=phase_key, bits=level.child_bits, low=low,
            high=high, derived=derived, parent=parent, parent_cut=parent_cut,
        )  # fmt: skip

    @cached_property
    def slots(self) -> Slots:
        """The features and cells of every open node."""
        return self._slots()

    def _slots(self) -> Slots:
        shape = (self.n_open, self.draws.n_slots)
        feature = np.empty(shape, np.int32)
        add = np.empty(shape, np.int32)
        shift = np.empty(shape, np.uint8)
        cells = np.empty(shape, np.int32)
        columns = self.columns
        most_cells = self.draws.cells(self.bits)

        def task(first: int, last: int) -> None:
            part = slice(first, last)
            kernels.draw_slots(
                self.key[part], self.phase_key[part], self.low[part], self.high[part],
                columns.n_bins, columns.is_category, columns.has_missing, self.draws.n_slots,
                most_cells[part], feature[part], add[part], shift[part], cells[part],
            )  # fmt: skip

        n_threads = thread_count(None)
        run_ranges(task, equal_ranges(np.full(self.n_open, _DRAW_WORK), n_threads), n_threads)
        return Slots.of(feature, add, shift, cells)

    @cached_property
    def asked(self) -> Slots:
        """The slots that parties count: all, except that a derived node has at most one.

        For a derived node, only the numeric column that split its parent is counted: its cells
        have become finer.
        """
        slots = self.slots
        if not self.derived.any():
            return slots
        nodes = np.flatnonzero(self.derived)
        cut = self.parent_cut[nodes, None]
        match = (slots.feature[nodes] == cut) & (cut >= 0)
        # A node's only slot may hold a column that its parent skipped because it cannot split.
        match[:, 0] |= line_sums(slots.feature[nodes] >= 0) == 1
        has_one, place = match.any(axis=1), match.argmax(axis=1)

        def kept(array: NDArray[Any], unused: int) -> NDArray[Any]:
            copy = array.copy()
            copy[nodes] = unused
            copy[nodes, 0] = np.where(has_one, array[nodes, place], unused)
            return copy

        return Slots.of(
            kept(slots.feature, -1), kept(slots.add, 0), kept(slots.shift, 0), kept(slots.cells, 0)
        )


def line_sums(table: NDArray[Any]) -> Integers:
    """Return the sum of each line; numpy's own sum is slow for many short lines."""
    sums = np.zeros(len(table), np.int64)
    for column in table.T:
        sums += column
    return sums


def bit_lengths(rows: Integers) -> NDArray[np.uint8]:
    """Return how many bits each row count needs; 1 for no rows."""
    return np.frexp(np.maximum(rows, 1).astype(np.float64))[1].astype(np.uint8)


def tree_keys(seed: int, n_trees: int) -> Keys:
    """Return the key of every tree; its bootstrap and all its draws are derived from the key."""
    return seeds.mix(seeds.mix(np.arange(n_trees, dtype=np.uint64)) ^ np.uint64(seed))
