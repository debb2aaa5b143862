"""Boosted trees over one party's rows: scores, the rows of a batch of trees, and their histograms.

A batch of trees grows at once from the same scores. What is kept between levels is which node each
row is in; when the batch is finished, its leaf values are added to the scores.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import gradient_histogram as histogram_kernels
from spinney.trees._kernels import gradients as kernels
from spinney.trees._kernels import rows as row_kernels
from spinney.trees.binning import BinnedTable
from spinney.trees.buffers import Buffers
from spinney.trees.counts import Counts, Spreads, packed_bits
from spinney.trees.frontier import ColumnCells, Slots, line_sums
from spinney.trees.level import Level
from spinney.trees.losses import Gradients, Units
from spinney.trees.threads import (
    LITTLE_WORK,
    TASKS_PER_THREAD,
    Range,
    equal_ranges,
    run_ranges,
)
from spinney.typing import Bools, Integers, Keys

_NO_ENTRIES = np.empty(0, np.uint32)
_ROWS_OF_TASK = 1 << 15  # rows that a task moves, at least
_SUMS_OF_TASK = 1 << 19  # rows, times columns, that a task sums, at least
_LARGE = 1 << 17  # sums whose memory is worth keeping


@dataclass(frozen=True)
class Segments:
    """The rows of some nodes, as segments of one array of row entries."""

    entries: NDArray[np.uint32]
    starts: Integers  # (n_nodes, n_blocks)
    ends: Integers

    def part(self, chosen: Bools) -> "Segments":
        """Return the segments of some nodes."""
        if chosen.all():
            return self
        return Segments(self.entries, self.starts[chosen], self.ends[chosen])

    def between(self, first: int, last: int) -> "Segments":
        """Return the segments of a range of nodes."""
        if (first, last) == (0, len(self.starts)):
            return self
        return Segments(self.entries, self.starts[first:last], self.ends[first:last])

    def children(self, level: Level, table: BinnedTable, n_threads: int) -> "Segments":
        """Move the rows of open nodes into all children that `level` made, open or not."""
        n_nodes, n_blocks = self.starts.shape
        starts = np.zeros((level.child_open.size, n_blocks), np.int64)
        ends = np.zeros_like(starts)
        tasks = self._tasks(n_nodes, n_blocks, n_threads)

        def task(first: int, last: int) -> None:
            for nodes, blocks in tasks[first:last]:
                row_kernels.partition(
                    table.codes, table.block_start, table.n_columns, self.entries,
                    self.starts, self.ends, blocks, *nodes, level.feature, level.cut,
                    level.missing_left, level.subset, level.bin_sets, level.all_children,
                    starts, ends,
                )  # fmt: skip

        run_ranges(task, [(i, i + 1) for i in range(len(tasks))], n_threads)
        return Segments(self.entries, starts, ends)

    def _tasks(self, n_nodes: int, n_blocks: int, n_threads: int) -> list[tuple[Range, Range]]:
        """Return ranges of nodes and of blocks, for tasks that move rows."""
        every = ((0, n_nodes), (0, n_blocks))
        if n_threads == 1 or not n_nodes:
            return [every]
        work = line_sums(self.ends - self.starts)
        total = int(work.sum())
        if total <= LITTLE_WORK:
            return [every]
        n_tasks = _task_count(total, _ROWS_OF_TASK, n_threads)
        parts = equal_ranges(work, n_tasks)
        if len(parts) == n_tasks:
            return [(part, every[1]) for part in parts]
        parts = [every[0]] if n_blocks >= n_threads else parts
        return [(part, (block, block + 1)) for part in parts for block in range(n_blocks)]


def _task_count(total: int, a_task: int, n_threads: int) -> int:
    """Return into how many tasks to divide some work, given how much is worth a task.

    At the end of each, a thread may have to wait for Python's lock.
    """
    return min(max(total // a_task, n_threads), TASKS_PER_THREAD * n_threads)


def _blocks(table: BinnedTable, n_others: int, n_threads: int) -> list[Range]:
    """Return ranges of blocks: each alone, if few other tasks can use the threads."""
    n_blocks = table.block_start.size - 1
    if n_threads == 1 or n_others >= 2 * n_threads:
        return [(0, n_blocks)]
    return [(block, block + 1) for block in range(n_blocks)]


class Walk:
    """Where the rows of a batch of trees are, from the roots to the leaves.

    Each tree has rows that it counts, and others that only move along: those that it did not draw,
    and those that are set apart. Entries are rearranged in place, and those of a finished leaf stay
    where they are.
    """

    def __init__(self, counted: Segments, others: Segments, table: BinnedTable) -> None:
        n_trees = len(counted.starts)
        self.counted = counted  # of the open nodes
        self._table = table
        self._nodes = (counted, others)  # of all nodes of the newest depth
        self._tree = np.arange(n_trees)
        self._is_open = np.ones(n_trees, np.bool_)
        self._leaves: list[tuple[Segments, Segments, Integers]] = []

    def go(self, level: Level, n_threads: int) -> None:
        """Move all rows one level down."""
        leaf = ~self._is_open
        leaf[self._is_open] = ~level.splits
        self._keep(leaf)
        counted = self.counted.children(level, self._table, n_threads)
        others = self._nodes[1]
        if others.entries.size:
            others = others.part(self._is_open).children(level, self._table, n_threads)
        self._nodes = (counted, others)
        self._tree = np.repeat(self._tree[self._is_open][level.splits], 2)
        self._is_open = level.child_open
        self.counted = counted.part(level.child_open)

    def add_values(
        self, value: Integers, output_of_tree: Integers, scores: Integers, n_threads: int
    ) -> None:
        """Add the leaves' values, level by level, to the scores of their rows."""
        self._keep(np.ones(self._tree.size, np.bool_))
        output = output_of_tree[np.concatenate([tree for *_, tree in self._leaves])]
        counted, others, _ = zip(*self._leaves, strict=True)
        for parts in (counted, others):
            if not parts[0].entries.size:  # no row is left out
                continue
            starts = np.concatenate([part.starts for part in parts])
            ends = np.concatenate([part.ends for part in parts])
            leaves = Segments(parts[0].entries, starts, ends)
            add_leaf_values(self._table, leaves, output, value, scores, n_threads=n_threads)

    def _keep(self, leaf: Bools) -> None:
        counted, others = self._nodes
        if others.entries.size:
            others = others.part(leaf)
        self._leaves.append((counted.part(leaf), others, self._tree[leaf]))


def add_leaf_values(
    table: BinnedTable,
    leaves: Segments,
    output: Integers,
    value: Integers,
    scores: Integers,
    *,
    n_threads: int,
) -> None:
    """Add each leaf's value to its rows' scores of the output that its tree adds to."""
    if not leaves.entries.size:
        return

    def task(first: int, last: int) -> None:
        kernels.add_leaf_values(
            leaves.entries, leaves.starts, leaves.ends, table.block_start, first, last, output,
            value, scores,
        )  # fmt: skip

    run_ranges(task, _blocks(table, 1, n_threads), n_threads)


@dataclass(frozen=True)
class Sampling:
    """Which rows each tree of a batch counts, and for which output."""

    keys: Keys  # of the trees
    output: Integers  # that each tree adds to
    keep: int  # a row is counted if a hash of 32 bits is below
    is_apart: Bools  # rows that no tree counts; empty: none


def walk_from_roots(
    table: BinnedTable,
    sampling: Sampling,
    gradients: Gradients,
    units: Units,
    n_threads: int,
) -> Walk:
    """Draw every tree's rows, with their rounded gradients, and put them at its root."""
    counted, others = draw_segments(table, sampling, gradients, units, n_threads)
    return Walk(counted, others, table)


def draw_segments(
    table: BinnedTable, sampling: Sampling, gradients: Gradients, units: Units, n_threads: int
) -> tuple[Segments, Segments]:
    """Draw every tree's rows: those that it counts, with their rounded gradients, and others."""
    n_trees, n_rows, n_blocks = sampling.keys.size, table.n_rows, table.block_start.size - 1
    entries = np.empty((2, n_trees, n_rows), np.uint32)
    ends = np.empty((2, n_trees, n_blocks), np.int64)

    tasks = [(tree, part) for tree in range(n_trees) for part in _blocks(table, n_trees, n_threads)]

    def task(first: int, last: int) -> None:
        for tree, blocks in tasks[first:last]:
            output = sampling.output[tree]
            kernels.draw_entries(
                sampling.keys[tree], table.keys, table.block_start, *blocks, sampling.is_apart,
                sampling.keep, gradients.gradient[output], gradients.curvature[output],
                units.g_steps, units.h_steps,
                entries[0, tree], ends[0, tree], entries[1, tree], ends[1, tree],
            )  # fmt: skip

    run_ranges(task, [(i, i + 1) for i in range(len(tasks))], n_threads)
    origin = (np.arange(n_trees) * n_rows)[:, None]
    starts = table.block_start[:-1] + origin
    counted, others = (
        Segments(
            held.reshape(-1) if (to > table.block_start[:-1]).any() else _NO_ENTRIES,
            starts,
            to + origin,
        )
        for held, to in zip(entries, ends, strict=True)
    )
    return counted, others


def _histogram_tasks(
    counted: Segments, part_start: Integers, slots: Slots, n_threads: int
) -> list[tuple[Range, Range]]:
    """Return ranges of items, which are nodes in parts of a table, and of slots, for tasks."""
    n_nodes, n_slots = slots.feature.shape
    n_items = n_nodes * (part_start.size - 1)
    every = ((0, n_items), (0, n_slots))
    if n_threads == 1 or not n_items:
        return [every] if n_items else []
    n_used = np.maximum((slots.feature >= 0).sum(1), 1)
    held = (counted.ends - counted.starts)[:, : part_start[-1]]
    rows = np.add.reduceat(held, part_start[:-1], axis=1)
    work = (rows.T * n_used + 64).reshape(-1)
    total = int(work.sum())
    if total <= LITTLE_WORK:
        return [every]
    n_tasks = _task_count(total, _SUMS_OF_TASK, n_threads)
    parts = equal_ranges(work, n_tasks)
    if len(parts) == n_tasks:
        return [(part, every[1]) for part in parts]
    step = max(2, -(-n_slots // n_tasks) + 1) & ~1  # two slots are summed at once
    return [(every[0], (a, min(a + step, n_slots))) for a in range(0, n_slots, step)]


def gradient_sums(
    table: BinnedTable,
    columns: ColumnCells,
    counted: Segments,
    slots: Slots,
    *,
    has_h: bool,
    n_threads: int,
) -> Counts:
    """Sum the gradients of nodes over the cells of their slots: (cells, 2 or 3) counters."""
    whole = np.array([0, table.block_start.size - 1])
    (found,) = sums_of_parts(
        table, whole, columns, counted, slots, has_h=has_h, n_threads=n_threads
    )
    return found


def sums_of_parts(
    table: BinnedTable,
    part_start: Integers,
    columns: ColumnCells,
    counted: Segments,
    slots: Slots,
    *,
    has_h: bool,
    n_threads: int,
    sized: bool = False,
    buffers: Buffers | None = None,
) -> list[Counts]:
    """Sum the gradients of nodes for each part of a table; a part is a range of its blocks.

    If `sized`, the packed sizes are found at once, on all threads. Large sums take their memory
    from `buffers`, if given.
    """
    shape = (part_start.size - 1, slots.n_cells, 3 if has_h else 2)
    if buffers is None or math.prod(shape) < _LARGE:
        sums = np.empty(shape, np.int64)
    else:
        sums = buffers.array(math.prod(shape), np.int64).reshape(shape)
    tasks = _histogram_tasks(counted, part_start, slots, n_threads)
    run_ends, n_nodes = slots.ends.reshape(-1), len(slots.feature)
    spreads = Spreads(len(sums), run_ends) if sized and has_h else None

    def task(first: int, last: int) -> None:
        for items, across in tasks[first:last]:
            histogram_kernels.sum_gradients(
                table.codes, table.block_start, table.n_columns, counted.entries, counted.starts,
                counted.ends, part_start, items, across, slots.feature, slots.add, slots.shift,
                slots.cells, slots.offset, columns.has_missing, has_h, sums,
            )  # fmt: skip
            if spreads is not None:
                spreads.measure(sums, n_nodes, items, across)

    run_ranges(task, [(i, i + 1) for i in range(len(tasks))], n_threads)
    if not sized:
        return [Counts(part, run_ends) for part in sums]
    if spreads is None:
        return [Counts(part, run_ends, packed_bits(part, run_ends)) for part in sums]
    sizes = zip(sums, spreads.bits(), strict=True)
    return [Counts(part, run_ends, bits) for part, bits in sizes]
