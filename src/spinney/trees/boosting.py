"""Boosted trees over one party's rows: scores, the rows of a batch of trees, and their histograms.

A batch of trees grows at once from the same scores. What is kept between levels is which node each
row is in; when the batch is finished, its leaf values are added to the scores.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import gradient_histogram as histogram_kernels
from spinney.trees._kernels import gradients as kernels
from spinney.trees._kernels import rows as row_kernels
from spinney.trees.binning import BinnedTable
from spinney.trees.counts import Counts
from spinney.trees.frontier import ColumnCells, Slots, line_sums
from spinney.trees.level import Level
from spinney.trees.losses import Gradients, Units
from spinney.trees.threads import TASKS_PER_THREAD, equal_ranges, run_ranges
from spinney.typing import Bools, Integers, Keys


@dataclass(frozen=True)
class Segments:
    """The rows of some nodes, as segments of one array of row entries."""

    entries: NDArray[np.uint32]
    starts: Integers  # (n_nodes, n_blocks)
    ends: Integers

    def part(self, chosen: Bools) -> "Segments":
        """Return the segments of some nodes."""
        return Segments(self.entries, self.starts[chosen], self.ends[chosen])

    def children(self, level: Level, table: BinnedTable, n_threads: int) -> "Segments":
        """Move the rows of open nodes into all children that `level` made, open or not."""
        split = level.feature >= 0
        n_children = 2 * int(np.count_nonzero(split))
        child = np.full((level.feature.size, 2), -1, np.int64)
        child[split] = np.arange(n_children).reshape(-1, 2)
        starts = np.zeros((n_children, self.starts.shape[1]), np.int64)
        ends = np.zeros_like(starts)
        work = line_sums(self.ends - self.starts)
        if not work.any():
            return Segments(self.entries, starts, ends)

        def task(first: int, last: int) -> None:
            row_kernels.partition(
                table.codes, table.block_start, table.n_columns, self.entries,
                self.starts, self.ends, first, last, level.feature, level.cut, level.missing_left,
                level.subset, level.bin_sets, child, starts, ends,
            )  # fmt: skip

        run_ranges(task, equal_ranges(work, TASKS_PER_THREAD * n_threads), n_threads)
        return Segments(self.entries, starts, ends)


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
        split = level.feature >= 0
        leaf = ~self._is_open
        leaf[self._is_open] = ~split
        self._keep(leaf)
        moved = [
            part.part(self._is_open).children(level, self._table, n_threads) for part in self._nodes
        ]
        self._nodes = (moved[0], moved[1])
        self._tree = np.repeat(self._tree[self._is_open][split], 2)
        self._is_open = level.child_open
        self.counted = moved[0].part(level.child_open)

    def add_values(self, value: Integers, output_of_tree: Integers, scores: Integers) -> None:
        """Add the leaves' values, level by level, to the scores of their rows."""
        self._keep(np.ones(self._tree.size, np.bool_))
        output = output_of_tree[np.concatenate([tree for *_, tree in self._leaves])]
        blocks = self._table.block_start
        counted, others, _ = zip(*self._leaves, strict=True)
        for parts in (counted, others):
            starts = np.concatenate([part.starts for part in parts])
            ends = np.concatenate([part.ends for part in parts])
            kernels.add_leaf_values(
                parts[0].entries, starts, ends, blocks, 0, blocks.size - 1, output, value, scores
            )

    def _keep(self, leaf: Bools) -> None:
        counted, others = self._nodes
        self._leaves.append((counted.part(leaf), others.part(leaf), self._tree[leaf]))


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
    n_trees, n_rows, n_blocks = sampling.keys.size, table.n_rows, table.block_start.size - 1
    entries = np.empty((2, n_trees, n_rows), np.uint32)
    ends = np.empty((2, n_trees, n_blocks), np.int64)

    def task(first: int, last: int) -> None:
        for tree in range(first, last):
            output = sampling.output[tree]
            kernels.draw_entries(
                sampling.keys[tree], table.keys, table.block_start, sampling.is_apart,
                sampling.keep, gradients.gradient[output], gradients.curvature[output],
                units.g_steps, units.h_steps,
                entries[0, tree], ends[0, tree], entries[1, tree], ends[1, tree],
            )  # fmt: skip

    run_ranges(task, equal_ranges(np.full(n_trees, n_rows), n_threads), n_threads)
    origin = (np.arange(n_trees) * n_rows)[:, None]
    parts = [
        Segments(
            entries[which].reshape(-1),
            origin + np.hstack([np.zeros((n_trees, 1), np.int64), ends[which][:, :-1]]),
            origin + ends[which],
        )
        for which in range(2)
    ]
    return Walk(parts[0], parts[1], table)


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
    sums = np.empty((slots.n_cells, 3 if has_h else 2), np.int64)
    words = np.empty(slots.n_cells, np.uint64)
    n_nodes, n_slots = slots.feature.shape
    work = line_sums(counted.ends - counted.starts) * np.maximum((slots.feature >= 0).sum(1), 1)
    parts = equal_ranges(work + 64, TASKS_PER_THREAD * n_threads)
    few = n_nodes < TASKS_PER_THREAD * n_threads
    step = max(2, -(-n_slots // (TASKS_PER_THREAD * n_threads)) + 1) & ~1 if few else n_slots
    tasks = [
        (nodes, (a, min(a + step, n_slots))) for nodes in parts for a in range(0, n_slots, step)
    ]

    def task(first: int, last: int) -> None:
        for nodes, across in tasks[first:last]:
            histogram_kernels.sum_gradients(
                table.codes, table.block_start, table.n_columns, counted.entries, counted.starts,
                counted.ends, nodes, across, slots.feature, slots.add, slots.shift, slots.cells,
                slots.offset, columns.has_missing, has_h, words, sums,
            )  # fmt: skip

    run_ranges(task, [(i, i + 1) for i in range(len(tasks))], n_threads)
    return Counts(sums, slots.ends.ravel())
