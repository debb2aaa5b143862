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
from spinney.trees._kernels import siblings
from spinney.trees.dtypes import MAX_BINS
from spinney.trees.level import Level
from spinney.trees.threads import equal_ranges, run_ranges, thread_count
from spinney.typing import Bools, Codes, Floats, Integers, Keys

_DRAW_WORK = 64  # rows that cost as much as drawing a node's features
_FEW_LINES = 32  # for each of their columns; then numpy's own sum of lines is faster
_MOST_BITS = 40  # bits of a node's row count
_WIDER = 8  # how many times as many columns a node draws that no drawn one could cut
_FINER = 9  # and into how many cells it divides what is left of each, at least
_LAST_STAGE = 2  # all columns, in all their bins
_EAGER_AFTER = 2  # rounds that a path has lost before its nodes begin with more columns
ROUNDS_LOST = 3  # rounds that a path may lose; then its nodes begin with all columns


def lines_of_stages(n_slots: int, n_columns: int) -> tuple[int, int, int]:
    """Return how many lines of `n_slots` columns a node is asked about at each stage."""
    every = -(-n_columns // max(n_slots, 1))
    return 1, min(every, _WIDER), every


@dataclass(frozen=True)
class ColumnCells:
    """The public facts about a table's columns that trees use; the same for every party."""

    n_bins: NDArray[np.int64]  # (n_columns,) without the bin for missing values
    is_category: Bools
    has_missing: Bools
    code_type: type[np.unsignedinteger[Any]] = np.uint8

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

    def single(self) -> "Slots":
        """Return every used slot as a node's only one, in order; cells stay where they are."""
        used = self.feature >= 0
        return Slots(
            self.feature[used][:, None],
            self.add[used][:, None],
            self.shift[used][:, None],
            self.cells[used][:, None],
            self.offset[used][:, None],
            self.n_cells,
        )

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
    goes_on: bool = False  # a node that no drawn column can cut draws on, in stages

    def cells(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return how many cells nodes get: about one per row or some rows, within limits."""
        return self._cells_of_bits[bits]

    @cached_property
    def _cells_of_bits(self) -> NDArray[np.uint8]:
        rows = 1 << (np.arange(256) - self.cell_bits).clip(0, 8)
        return rows.clip(min(self.least_cells, self.max_cells), self.max_cells).astype(np.uint8)

    def cells_at(self, bits: NDArray[np.uint8], stage: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return how many cells nodes get at their stage."""
        cells = self.cells(bits)
        if stage.any():
            cells[stage == 1] = np.maximum(cells[stage == 1], _FINER)
            cells[stage >= _LAST_STAGE] = MAX_BINS
        return cells

    def first_stage(self, lost: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the stage at which nodes begin whose paths have lost some rounds."""
        stage = np.where(lost >= ROUNDS_LOST, _LAST_STAGE, lost >= _EAGER_AFTER)
        return stage.astype(np.uint8)

    def lines(self, stage: NDArray[np.uint8], n_columns: int) -> NDArray[np.uint16]:
        """Return how many lines of columns nodes are asked about at their stage."""
        return np.array(lines_of_stages(self.n_slots, n_columns), np.uint16)[stage]


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
    stage: NDArray[np.uint8]  # (n_open,) how widely and finely a node draws
    lost: NDArray[np.uint8]  # (n_open,) rounds that its path has lost because nodes drew on
    line: NDArray[np.uint16]  # (n_open,) a node of several lines is open once for each

    @classmethod
    def of_roots(
        cls, columns: ColumnCells, draws: Draws, *, seed: int, n_trees: int, bits: int
    ) -> "Frontier":
        """Return the roots of all trees; each holds fewer than 2^bits rows."""
        keys = tree_keys(seed, n_trees)
        high = np.tile((columns.n_bins - 1).clip(0).astype(columns.code_type), (n_trees, 1))
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
            np.zeros(n_trees, np.uint8),
            np.zeros(n_trees, np.uint8),
            np.zeros(n_trees, np.uint16),
        )

    @property
    def n_open(self) -> int:
        """How many nodes are open."""
        return int(self.tree.size)

    @cached_property
    def has_lines(self) -> bool:
        """Whether some node is open once for each of several lines."""
        return bool(self.line.any())

    @cached_property
    def _has_lost(self) -> bool:
        """Whether some path has lost a round, or begins at a later stage."""
        return bool(self.lost.any() or self.stage.any())

    def has_more(self, nodes: Integers, *, by_cells: bool) -> Bools:
        """Return which nodes, given by their first lines, can still be asked for more.

        These are other columns or, `by_cells`, finer cells.
        """
        early: Bools = self.stage[nodes] < _LAST_STAGE
        if not by_cells or not nodes.size:
            return early
        columns = self.columns
        usable = line_sums((self.low[nodes] < self.high[nodes]) | columns.has_missing)
        lines = self.draws.lines(self.stage[nodes], columns.n_columns).astype(np.int64)
        begin = np.cumsum(lines) - lines
        entries = np.repeat(nodes - begin, lines) + np.arange(int(lines.sum()))
        is_coarse = np.logical_or.reduceat(self.slots.shift[entries].any(axis=1), begin)
        n_drawn = np.add.reduceat(line_sums(self.slots.feature[entries] >= 0), begin)
        more: Bools = (n_drawn < usable) | is_coarse
        return early & more

    def stages_after(self, split: Integers, stays: Bools) -> tuple[Any, Any, Any]:
        """Return the stage, the rounds lost and the lines of both children of split nodes."""
        if not self._has_lost and not stays.any():  # as in nearly all levels
            n = 2 * split.size
            return np.zeros(n, np.uint8), np.zeros(n, np.uint8), np.ones(n, np.uint16)
        lost = self.lost[split] + stays.astype(np.uint8)
        stage = np.where(stays, self.stage[split] + 1, self.draws.first_stage(lost))
        stage = np.repeat(stage.astype(np.uint8).clip(0, _LAST_STAGE), 2)
        return stage, np.repeat(lost, 2), self.draws.lines(stage, self.columns.n_columns)

    def told_of(self, split: Integers, stays: Bools) -> Integers:
        """Return the lines that levels tell where rows are of: all lines of nodes that stay.

        There each column has all its rows in one cell.
        """
        if not stays.any():
            return np.zeros(0, np.intp)
        first = np.flatnonzero(self.line == 0)
        chosen = np.zeros(self.n_open, np.bool_)
        chosen[split[stays]] = True
        told: Integers = np.flatnonzero(
            np.repeat(chosen[first], np.diff(first, append=self.n_open))
        )
        return told

    def check(self, level: Level) -> None:
        """Raise unless decisions fit these nodes: kernels do not check what others sent."""
        by_cut, n_open = level.threshold.size == 0, self.n_open
        nodes = (level.feature, level.cut, level.subset)
        sound = (
            all(decision.size == n_open for decision in (*nodes, level.missing_left))
            and level.cut.dtype == self.low.dtype
            and level.threshold.size in {0, n_open}
            and kernels.fits(
                *nodes, level.stays, level.child_open, level.child_bits, level.child_derived,
                len(level.bin_sets), by_cut, _MOST_BITS, self.columns.is_category, self.low,
                self.line,
            )
            and self._stay_soundly(level)
        )  # fmt: skip
        if sound and level.where.size:
            split = np.flatnonzero(level.splits)
            told = self.told_of(split, level.stays[split])
            sound = level.where.shape == (told.size, self.n_where)
        if not sound:
            raise ProtocolError("A level of the forest does not fit its open nodes.")

    def _stay_soundly(self, level: Level) -> bool:
        """Return whether nodes stay only where they may, and children have the lines they must."""
        split = np.flatnonzero(level.splits)
        stays = level.stays[split]
        if level.child_lines.shape != level.child_bits.shape:
            return False
        if not self._has_lost and not stays.any():  # as in nearly all levels
            return not level.has_lines
        _, _, lines = self.stages_after(split, stays)
        may = self.draws.goes_on and bool(np.all(self.stage[split[stays]] < _LAST_STAGE))
        opened = level.child_open.reshape(-1, 2)[stays]
        return (
            np.array_equal(level.child_lines, lines[level.child_open])
            and (may or not stays.any())
            and bool(opened[:, 0].all() and not opened[:, 1].any())
        )

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
        return replace(self, **self._of_children(level))

    def _of_children(self, level: Level) -> dict[str, Any]:
        """Return what open children have that their parents have not."""
        n = level.child_bits.size
        tree, parent, parent_cut = (
            np.empty(n, np.int32),
            np.empty(n, np.int64),
            np.empty(n, np.int32),
        )
        key, phase_key = np.empty(n, np.uint64), np.empty(n, np.uint64)
        low = np.empty((n, self.columns.n_columns), self.low.dtype)
        high = np.empty_like(low)
        kernels.open_children(
            level.feature, level.cut, level.subset, level.child_open, level.threshold.size == 0,
            self.draws.shared_phase, self.tree, self.key, self.phase_key, self.low, self.high,
            tree, key, phase_key, low, high, parent, parent_cut,
        )  # fmt: skip
        split = np.flatnonzero(level.splits)
        stays = level.stays[split]
        stage, lost, _ = self.stages_after(split, stays)
        if level.where.size:
            self._narrow(level, low, high)
        found = {
            "tree": tree, "key": key, "phase_key": phase_key, "bits": level.child_bits, "low": low,
            "high": high, "derived": level.child_derived, "parent": parent,
            "parent_cut": parent_cut, "stage": stage[level.child_open],
            "lost": lost[level.child_open], "line": np.zeros(n, np.uint16),
        }  # fmt: skip
        if level.has_lines:
            lines = level.child_lines.astype(np.int64)
            found = {name: np.repeat(value, lines, axis=0) for name, value in found.items()}
            begin = np.repeat(np.cumsum(lines) - lines, lines)
            found["line"] = (np.arange(begin.size) - begin).astype(np.uint16)
        return found

    @property
    def n_where(self) -> int:
        """How many numbers a level tells about where the rows of a line are."""
        return self.draws.n_slots

    def _narrow(self, level: Level, low: Codes, high: Codes) -> None:
        """Narrow the boxes of nodes that stay to the cells that hold their rows."""
        split = np.flatnonzero(level.splits)
        told = self.told_of(split, level.stays[split])
        child = (np.cumsum(level.child_open) - 1)[0::2]
        of_node = np.zeros(self.n_open, np.int64)
        of_node[split] = child
        first = np.maximum.accumulate(np.where(self.line == 0, np.arange(self.n_open), 0))
        slots, columns = self.slots, self.columns
        kernels.narrow_to_cells(
            told, of_node[first[told]], level.where, slots.feature, slots.add, slots.shift,
            slots.cells, columns.is_category, columns.has_missing, low, high,
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
        most_cells = self.draws.cells_at(self.bits, self.stage)
        skips = (self.stage > 0) | (not self.draws.goes_on)

        def task(first: int, last: int) -> None:
            part = slice(first, last)
            kernels.draw_slots(
                self.key[part], self.phase_key[part], self.low[part], self.high[part],
                columns.n_bins, columns.is_category, columns.has_missing, self.line[part],
                skips[part], self.draws.n_slots, most_cells[part], feature[part], add[part],
                shift[part], cells[part],
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
        return asked_slots(self.slots, self.derived, self.parent_cut)


def asked_slots(slots: Slots, derived: Bools, parent_cut: NDArray[np.int32]) -> Slots:
    """Return the slots to count if some nodes are derived from their parents and siblings.

    Of a derived node, only the numeric column that split its parent is counted.
    """
    if not derived.any():
        return slots
    feature, add = np.empty_like(slots.feature), np.empty_like(slots.add)
    shift, cells = np.empty_like(slots.shift), np.empty_like(slots.cells)
    offset = np.empty_like(slots.offset)
    n_cells = siblings.lay_asked(
        derived, parent_cut, slots.feature, slots.add, slots.shift, slots.cells,
        feature, add, shift, cells, offset,
    )  # fmt: skip
    return Slots(feature, add, shift, cells, offset, n_cells)


def line_sums(table: NDArray[Any]) -> Integers:
    """Return the sum of each line; numpy's own sum is slow for many short lines."""
    if table.shape[1] == 1:
        return table[:, 0].astype(np.int64)
    if len(table) < _FEW_LINES * table.shape[1]:
        found: Integers = np.add.reduce(table, axis=1, dtype=np.int64)
        return found
    sums = np.zeros(len(table), np.int64)
    for column in table.T:
        sums += column
    return sums


def weighted_sums(table: NDArray[Any], weights: Floats) -> Floats:
    """Return the weighted sum of each line, added up in the order of the columns.

    A matrix product adds in the order that suits the processor, so its last bits depend on it.
    """
    sums = np.zeros(len(table))
    for column, weight in zip(table.T, weights, strict=True):
        sums += column * weight
    return sums


def bit_lengths(rows: Integers) -> NDArray[np.uint8]:
    """Return how many bits each row count needs; 1 for no rows."""
    return np.frexp(np.maximum(rows, 1).astype(np.float64))[1].astype(np.uint8)


def tree_keys(seed: int, n_trees: int) -> Keys:
    """Return the key of every tree; its bootstrap and all its draws are derived from the key."""
    return seeds.mix(seeds.mix(np.arange(n_trees, dtype=np.uint64)) ^ np.uint64(seed))
