"""A party's side of growing a vertical forest: its columns' cells, its best cuts, its rows.

Every party keeps all rows in the same order and moves them by the sides it receives. It knows only
its own cuts on the path of a node.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import columns as kernels
from spinney.trees._kernels import histogram as counting
from spinney.trees.binning import BinnedTable
from spinney.trees.frontier import ColumnCells, Draws, Slots
from spinney.trees.partition import Bytes, Partition, side_bytes
from spinney.trees.rows import Standing, standing_at_roots
from spinney.trees.split import BestSplits, Criterion, LeastLeaf, best_splits
from spinney.trees.threads import TASKS_PER_THREAD, equal_ranges, run_ranges, shared_out
from spinney.typing import Bools, Codes, Floats, Integers, Keys

_TASK_BYTES = 1 << 20  # histograms per task: searched while they are in the cache
_MOST_BITS = 40


@dataclass(frozen=True)
class OwnSplits:
    """The cuts of one level that use this party's columns, in the order of the nodes."""

    node: Integers  # indices among the open nodes
    feature: NDArray[np.int32]  # own columns, counted from 0
    cut: NDArray[np.uint8]
    missing_left: Bools
    bin_set: NDArray[np.uint64]  # (n, 4) the bins that go left, for categories
    gain: Floats

    @classmethod
    def none(cls) -> "OwnSplits":
        """Return no cuts."""
        none = np.zeros(0, np.int64)
        return cls(
            none, none.astype(np.int32), none.astype(np.uint8), none.astype(np.bool_),
            np.zeros((0, 4), np.uint64), np.zeros(0),
        )  # fmt: skip

    def subset(self, columns: ColumnCells) -> NDArray[np.int32]:
        """Return each cut's row of `bin_set`, -1 for numbers."""
        found: NDArray[np.int32] = np.where(
            columns.is_category[self.feature], np.arange(self.node.size), -1
        ).astype(np.int32)
        return found


@dataclass(frozen=True)
class OwnNodes:
    """The open nodes as a party knows them."""

    columns: ColumnCells
    draws: Draws
    standing: Standing  # can be used only once
    tree: NDArray[np.int32]
    weight: Integers  # total bootstrap weight of the rows in each node
    bits: NDArray[np.uint8]
    low: Codes  # (n_open, own columns) lowest bin that own cuts leave open
    high: Codes
    parent: Integers  # among the nodes of the level before; none for roots
    parent_cut: NDArray[np.int32]  # own column of a number that split the parent, or -1
    parent_bits: NDArray[np.uint8]

    @classmethod
    def of_roots(
        cls,
        table: BinnedTable,
        columns: ColumnCells,
        draws: Draws,
        keys: Keys,
        *,
        bits: int,
        bootstrap: bool,
        n_threads: int,
    ) -> "OwnNodes":
        """Draw every tree's rows and put them at its root."""
        standing = standing_at_roots(table, keys, bootstrap=bootstrap, n_threads=n_threads)
        weights = moments_of(table, standing, 0, n_threads)
        return cls.at_roots(columns, draws, standing, weights[:, 0], bits)

    @classmethod
    def at_roots(
        cls, columns: ColumnCells, draws: Draws, standing: Standing, weight: Integers, bits: int
    ) -> "OwnNodes":
        """Return the roots of trees whose rows are drawn; each holds fewer than 2^bits rows."""
        n_trees = weight.size
        high = np.tile((columns.n_bins - 1).clip(0).astype(np.uint8), (n_trees, 1))
        return cls(
            columns,
            draws,
            standing,
            np.arange(n_trees, dtype=np.int32),
            weight,
            np.full(n_trees, bits, np.uint8),
            np.zeros_like(high),
            high,
            np.zeros(0, np.int64),
            np.zeros(0, np.int32),
            np.zeros(0, np.uint8),
        )

    @property
    def sizes(self) -> Integers:
        """How many row entries each open node has."""
        return self.standing.rows_of_node

    def slots(
        self, n_slots: NDArray[np.uint16], column: NDArray[np.uint16], phase: NDArray[np.uint8]
    ) -> Slots | None:
        """Return the cells of the columns offered of each node, `n_slots` of them, in order.

        None: some columns do not exist, or they are more or fewer than the nodes have.
        """
        most = kernels.most_offered(n_slots, column, self.columns.n_columns)
        if most < 0:
            return None
        shape = (n_slots.size, most)
        feature, add, cells = (np.empty(shape, np.int32) for _ in range(3))
        shift, offset = np.empty(shape, np.uint8), np.empty(shape, np.int64)
        n_cells = kernels.lay_offered(
            n_slots, column, phase, self.low, self.high, self.columns.n_bins,
            self.columns.is_category, self.columns.has_missing, self.draws.cells(self.bits),
            feature, add, shift, cells, offset,
        )  # fmt: skip
        return Slots(feature, add, shift, cells, offset, n_cells)

    def sides(self, table: BinnedTable, own: OwnSplits, n_threads: int) -> Bytes:
        """Return which row entries go left by this party's cuts, one bit each."""
        sizes = self.sizes[own.node]
        n_bytes = side_bytes(sizes)
        ends = n_bytes.cumsum()
        begin = ends - n_bytes
        out = np.zeros(int(ends[-1]) if ends.size else 0, np.uint8)
        subset = own.subset(self.columns)
        standing = self.standing

        def task(first: int, last: int) -> None:
            kernels.side_bits(
                table.codes, table.block_start, table.n_columns, standing.entries,
                standing.starts, standing.ends, first, last, own.node, own.feature, own.cut,
                own.missing_left, subset, own.bin_set, begin, out,
            )  # fmt: skip

        run_ranges(task, shared_out(lambda: sizes, sizes.size, n_threads), n_threads)
        return out

    def exhausted(self, own: OwnSplits) -> Bools:
        """Return for both children of own cuts whether the column is exhausted there: (2 n,)."""
        found = np.empty(2 * own.node.size, np.bool_)
        kernels.exhaust(
            own.node, own.feature, own.cut, self.low, self.high, self.columns.is_category,
            self.columns.has_missing, found,
        )  # fmt: skip
        return found

    def moved(
        self, table: BinnedTable, partition: Partition, n_threads: int, *, all_nodes: bool
    ) -> "MovedRows":
        """Move the rows of split nodes to their sides.

        The rows of a node without open children are moved only if `all_nodes`. The partition must
        fit (`Partition.check`): kernels do not check what others sent.
        """
        split, begin = partition.laid(self.sizes)
        wanted: Bools = np.ones(split.size, np.bool_)
        if not all_nodes:
            np.any(partition.child_open.reshape(-1, 2), axis=1, out=wanted)
        standing = self.standing
        starts = np.empty((2 * split.size, standing.starts.shape[1]), np.int64)
        ends, weight = np.empty_like(starts), np.empty(2 * split.size, np.int64)
        longest = table.longest_block

        def task(first: int, last: int) -> None:
            kernels.move_rows(
                standing.entries, standing.starts, standing.ends, first, last, split, wanted,
                begin, partition.sides, longest, self.weight, starts, ends, weight,
            )  # fmt: skip

        run_ranges(task, shared_out(lambda: self.sizes[split], split.size, n_threads), n_threads)
        return MovedRows(Standing(standing.entries, starts, ends), weight)

    def after(self, partition: Partition, moved: "MovedRows", own: OwnSplits) -> "OwnNodes":
        """Return the open children."""
        n = np.count_nonzero(partition.child_open)
        held = moved.standing
        tree, cut, bits = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.uint8)
        parent, weight = np.empty(n, np.int64), np.empty(n, np.int64)
        starts = np.empty((n, held.starts.shape[1]), np.int64)
        ends, low = np.empty_like(starts), np.empty((n, self.low.shape[1]), np.uint8)
        high = np.empty_like(low)
        kernels.open_children(
            partition.split, partition.child_open, held.starts, held.ends, moved.weight, own.node,
            own.feature, own.cut, self.columns.is_category, self.tree, self.low, self.high,
            _MOST_BITS, parent, cut, tree, starts, ends, weight, bits, low, high,
        )  # fmt: skip
        standing = Standing(held.entries, starts, ends)
        above = self.bits[parent]
        return OwnNodes(
            self.columns, self.draws, standing, tree, weight, bits, low, high, parent, cut, above
        )


@dataclass(frozen=True)
class MovedRows:
    """The segments of the rows of all children, open or not: (2 * n_split,)."""

    standing: Standing
    weight: Integers

    def left_moments(self, table: BinnedTable, n_classes: int, n_threads: int) -> Integers:
        """Return the moments of each left child."""
        held = self.standing
        left = Standing(held.entries, held.starts[0::2], held.ends[0::2])
        return moments_of(table, left, n_classes, n_threads)


def moments_of(table: BinnedTable, held: Standing, n_classes: int, n_threads: int) -> Integers:
    """Return class counts of segments, or weights and target sums if `n_classes` is 0."""
    entries, starts, ends = held.entries, held.starts, held.ends
    out = np.zeros((len(starts), n_classes or 2), np.int64)

    def task(first: int, last: int) -> None:
        kernels.segment_moments(
            entries, starts, ends, first, last, table.block_start, table.target, n_classes, out
        )

    sizes = (ends - starts).sum(axis=1)
    run_ranges(task, equal_ranges(sizes, TASKS_PER_THREAD * n_threads), n_threads)
    return out


@dataclass(frozen=True)
class OwnSearch:
    """The search for the best cuts at a party that knows the labels."""

    criterion: Criterion
    least: LeastLeaf
    n_classes: int
    n_threads: int


def can_be_cut(nodes: Integers, is_good: Bools) -> bool:
    """Return whether numbers are places of nodes worth cutting, each once and in order."""
    return nodes.ndim == 1 and bool(kernels.are_offered(nodes, is_good))


@dataclass(frozen=True)
class OwnBest:
    """The party's best cut of each node; `slot` is -1 if there is none."""

    slot: Integers
    splits: BestSplits  # of every node; slot as above

    def chosen(self, nodes: Integers, slots: Slots, gain: Floats) -> OwnSplits:
        """Return the cuts of some nodes."""
        return OwnSplits(
            nodes,
            slots.feature[nodes, self.slot[nodes]],
            self.splits.cut[nodes].astype(np.uint8),
            self.splits.missing_left[nodes],
            self.splits.bin_set[nodes],
            gain[nodes],
        )


def own_best(
    table: BinnedTable, nodes: OwnNodes, slots: Slots, search: OwnSearch, root_weight: Floats
) -> OwnBest:
    """Count the cells of the party's columns and return each node's best cut."""
    width = search.n_classes or 2
    parts: dict[int, BestSplits] = {}

    def task(first: int, last: int) -> None:
        part = slots.part(first, last)
        counters = count_cells(table, nodes, part, (first, last), search.n_classes)
        weight = root_weight[first:last]
        parts[first] = best_of_slots(
            counters.reshape(-1, width), part, nodes.columns, search, weight
        )

    work = nodes.sizes * np.maximum((slots.feature >= 0).sum(axis=1), 1) + 16
    n_bytes = slots.n_cells * width * (4 if search.n_classes else 8)
    n_tasks = max(TASKS_PER_THREAD * search.n_threads, n_bytes // _TASK_BYTES)
    run_ranges(task, equal_ranges(work, n_tasks), search.n_threads)
    return join_best(slots, BestSplits.of_parts([parts[first] for first in sorted(parts)]))


def count_cells(
    table: BinnedTable, nodes: OwnNodes, slots: Slots, part: tuple[int, int], n_classes: int
) -> NDArray[Any]:
    """Return the histograms of a range of nodes, given their slots."""
    standing = nodes.standing
    out: NDArray[Any] = np.empty(
        slots.n_cells * (n_classes or 2), np.int32 if n_classes else np.int64
    )
    common = (
        table.block_start, table.n_columns, standing.entries, standing.starts[part[0] : part[1]],
        standing.ends[part[0] : part[1]], 0, part[1] - part[0], slots.feature, slots.add,
        slots.shift, slots.cells, slots.offset,
    )  # fmt: skip
    if n_classes == 0:
        counting.sum_targets(table.codes, table.target, *common, out)
    elif n_classes == 2:
        has_missing = nodes.columns.has_missing
        counting.count_two_classes(table.codes, *common, has_missing, out.view(np.int64))
    else:
        counting.count_classes(table.codes, *common, n_classes, out)
    return out


def best_of_slots(
    counters: NDArray[Any],
    slots: Slots,
    columns: ColumnCells,
    search: OwnSearch,
    root_weight: Floats,
) -> BestSplits:
    """Return the best cut of every used slot, separately and in order.

    Each slot's gain is computed separately, so the best over all columns is the same however the
    columns are dealt to parties.
    """
    used = slots.feature >= 0
    weight = np.repeat(root_weight, used.sum(axis=1))
    return best_splits(
        counters, slots.single(), columns, search.criterion,
        least=search.least, root_weight=weight, n_threads=1,
    )  # fmt: skip


def join_best(slots: Slots, single: BestSplits) -> OwnBest:
    """Return the best slot of each node; ties go to the first."""
    used = slots.feature >= 0
    gain = np.full(slots.feature.shape, -np.inf)
    gain[used] = np.where(single.slot >= 0, single.gain, -np.inf)
    slot = gain.argmax(axis=1)
    found = np.isfinite(gain[np.arange(len(gain)), slot])
    place = np.cumsum(used.sum(axis=1)) - used.sum(axis=1) + slot
    slot, at = np.where(found, slot, -1), np.where(found, place, 0)
    best = BestSplits(
        single.total[at], slot, single.cut[at], single.missing_left[at],
        np.where(found, single.gain[at], -np.inf), single.left[at], single.bin_set[at],
    )  # fmt: skip
    return OwnBest(slot, best)
