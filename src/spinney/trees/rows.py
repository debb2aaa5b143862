"""The position of a party's rows: which node of which tree, with which bootstrap weight."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import hashing
from spinney.trees._kernels import rows as kernels
from spinney.trees._kernels.rows import CLASS_SHIFT, ROW_MASK, WEIGHT_SHIFT
from spinney.trees.binning import BinnedTable
from spinney.trees.frontier import Frontier, line_sums
from spinney.trees.level import Level
from spinney.trees.threads import TASKS_PER_THREAD, equal_ranges, run_ranges
from spinney.typing import Integers, Keys


@dataclass(frozen=True)
class Standing:
    """The rows of every open node, as segments of one array of row entries.

    `after` rearranges `entries` in place, so a standing can be used only once.
    """

    entries: NDArray[np.uint32]
    starts: Integers  # (n_open, n_blocks)
    ends: Integers

    @cached_property
    def rows_of_node(self) -> Integers:
        """How many entries each open node has."""
        return line_sums(self.ends - self.starts)

    def within(self, frontier: Frontier, table: BinnedTable, nodes: tuple[int, int]) -> "Standing":
        """Return the segments of a range of nodes, empty where a row lies outside its node's box.

        Paths cannot lead a row out of a box. But nodes that drew on got narrower ones by counts,
        which may not have been true, or without this party's rows.
        """
        part = slice(*nodes)
        starts, ends = self.starts[part], self.ends[part]
        drew_on = np.flatnonzero(frontier.lost[part])
        if drew_on.size:
            ends, slots = ends.copy(), frontier.slots.feature[part]
            kernels.leave_out(
                table.codes, table.block_start, table.n_columns, self.entries, starts, drew_on,
                slots, frontier.columns.is_category, frontier.low[part], frontier.high[part], ends,
            )  # fmt: skip
        return Standing(self.entries, starts, ends)

    def after(self, level: Level, table: BinnedTable, n_threads: int) -> "Standing":
        """Move the rows into the children that `level` made; return the open ones' segments."""
        lines = level.child_lines.astype(np.int64)
        n_open, n_blocks = int(lines.sum()), self.starts.shape[1]
        starts = np.empty((n_open, n_blocks), np.int64)
        ends = np.empty_like(starts)
        adaptive = table.codes.dtype == np.float32  # unbinned values, cut at real thresholds
        split_rows = kernels.partition_values if adaptive else kernels.partition

        def task(first: int, last: int) -> None:
            split_rows(
                table.codes, table.block_start, table.n_columns, self.entries,
                self.starts, self.ends, (0, n_blocks), first, last,
                level.feature, level.threshold if adaptive else level.cut, level.missing_left,
                level.subset, level.bin_sets, level.children, starts, ends,
            )  # fmt: skip

        run_ranges(task, equal_ranges(self.rows_of_node, TASKS_PER_THREAD * n_threads), n_threads)
        if level.has_lines:  # every line of a node holds the node's rows
            first = np.repeat(np.cumsum(lines) - lines, lines)
            starts, ends = starts[first], ends[first]
        return Standing(self.entries, starts, ends)


def standing_at_roots(
    table: BinnedTable, tree_keys: Keys, *, bootstrap: bool, n_threads: int
) -> Standing:
    """Draw every tree's rows and put them at its root."""
    n_trees, n_rows = tree_keys.size, table.n_rows
    # A Poisson bootstrap (rate 1) leaves out exp(-1) of the rows; allow eight standard deviations.
    capacity = int(0.6322 * n_rows + 4 * n_rows**0.5) + 64 if bootstrap else n_rows
    capacity = min(capacity, n_rows)
    while True:
        entries = np.empty(n_trees * capacity, np.uint32)
        ends = np.empty((n_trees, table.block_start.size - 1), np.int64)

        def task(
            first: int,
            last: int,
            entries: NDArray[np.uint32] = entries,
            ends: Integers = ends,
            capacity: int = capacity,
        ) -> None:
            part = slice(first, last)
            kernels.draw_rows(
                tree_keys[part], table.keys, table.classes, table.block_start, bootstrap, capacity,
                entries[first * capacity :], ends[part],
            )  # fmt: skip
            ends[part] += first * capacity

        run_ranges(task, equal_ranges(np.full(n_trees, n_rows), n_threads), n_threads)
        origin = (np.arange(n_trees) * capacity)[:, None]
        needed = int((ends - origin).max(initial=0))
        if needed <= capacity:
            return Standing(entries, np.hstack([origin, ends[:, :-1]]), ends)
        capacity = needed


def standing_of_rows(table: BinnedTable, rows_of_tree: Sequence[Integers]) -> Standing:
    """Put each tree's rows, given in ascending order and as often as drawn, at its root."""
    one = np.uint32(1) << WEIGHT_SHIFT
    ends = np.empty((len(rows_of_tree), table.block_start.size - 1), np.int64)
    parts, done = [np.empty(0, np.uint32)], 0
    for tree, rows in enumerate(rows_of_tree):
        ends[tree] = done + np.searchsorted(rows, table.block_start[1:])
        block = np.searchsorted(table.block_start, rows, side="right") - 1
        entries = (rows - table.block_start[block]).astype(np.uint32) | one
        if table.classes.size:
            entries |= table.classes[rows].astype(np.uint32) << CLASS_SHIFT
        parts.append(entries)
        done += rows.size
    starts = np.concatenate([[0], ends.ravel()[:-1]]).astype(np.int64).reshape(ends.shape)
    return Standing(np.concatenate(parts), starts, ends)


def rows_of_entries(entries: NDArray[np.uint32]) -> tuple[Integers, Integers]:
    """Return each entry's row within its block, and how often its tree has drawn the row."""
    return (entries & ROW_MASK).astype(np.int64), (entries >> WEIGHT_SHIFT).astype(np.int64)


def bootstrap_weights(tree_key: np.uint64, row_keys: Keys) -> NDArray[np.uint8]:
    """Return how often a tree draws each row: a Poisson bootstrap from a hash of the two keys."""
    weights = np.empty(row_keys.size, np.uint8)
    hashing.bootstrap_weights(tree_key, row_keys, weights)
    return weights
