"""Count rows: the histogram of every open node over its slots' cells."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from spinney.trees._kernels import histogram as kernels
from spinney.trees._kernels import siblings
from spinney.trees.binning import BinnedTable
from spinney.trees.buffers import SHARED, Buffers
from spinney.trees.counts import Counters, Counts, packed_bits
from spinney.trees.frontier import ColumnCells, Slots, line_sums
from spinney.trees.rows import Standing
from spinney.trees.threads import TASKS_PER_THREAD, equal_ranges, run_ranges
from spinney.typing import Bools, Integers

_TASK_BYTES = 2 << 20  # histograms per task: small enough to be in the cache when measured


def level_counts(
    table: BinnedTable,
    columns: ColumnCells,
    standing: Standing,
    slots: Slots,
    nodes: tuple[int, int],
    *,
    n_classes: int,
    n_threads: int,
    narrow: bool = False,
    sized: bool = True,
    buffers: Buffers = SHARED,
) -> Counts:
    """Count the rows of a range of open nodes; if `n_classes` is 0, sum targets instead.

    `slots` are those of the range. If `narrow`, classes are counted in 16 bits, which halves the
    memory to fill, measure and add; no node may then hold more rows than that over all parties. If
    `sized`, the packed size is computed at once, while the counts are in the cache.
    """
    starts = standing.starts[nodes[0] : nodes[1]]
    ends = standing.ends[nodes[0] : nodes[1]]
    width = n_classes or 2
    n = slots.n_cells * width
    dtype = np.int64 if n_classes == 0 else np.uint16 if narrow else np.int32
    out: Counters = buffers.array(n, dtype)

    def task(first: int, last: int) -> None:
        common = (
            table.block_start, table.n_columns, standing.entries, starts, ends, first, last,
            slots.feature, slots.add, slots.shift, slots.cells, slots.offset,
        )  # fmt: skip
        if n_classes == 0:
            kernels.sum_targets(table.codes, table.target, *common, out)
        elif n_classes == 2:
            words = out.view(np.int32 if narrow else np.int64)
            kernels.count_two_classes(table.codes, *common, columns.has_missing, words)
        else:
            kernels.count_classes(table.codes, *common, n_classes, out)
        if not sized:
            return
        run_ends = slots.ends[first:last].ravel()
        begin = slots.offset[first, 0]
        part = out[begin * width : run_ends[-1] * width].reshape(-1, width)
        bits.append(packed_bits(part, run_ends - begin))

    bits: list[tuple[int, ...]] = []  # appending is atomic
    work = line_sums(ends - starts) + 16  # each node has a fixed cost besides its rows
    n_tasks = max(TASKS_PER_THREAD * n_threads, out.nbytes // _TASK_BYTES)
    run_ranges(task, equal_ranges(work, n_tasks), n_threads)
    total = tuple(sum(stream) for stream in zip(*bits, strict=True))
    return Counts(out.reshape(-1, width), slots.ends.ravel(), total or None)


@dataclass(frozen=True)
class Above:
    """The histograms of the previous level."""

    slots: Slots
    counters: Counters
    parties: tuple[str, ...]  # whose rows they count


class Kin(Protocol):
    """Open nodes of which some are derived from their parents and siblings."""

    @property
    def slots(self) -> Slots:
        """The features and cells of every open node."""
        ...

    @property
    def asked(self) -> Slots:
        """The slots that are counted."""
        ...

    @property
    def derived(self) -> Bools:
        """Which nodes are derived."""
        ...

    @property
    def parent(self) -> Integers:
        """The parent's index among the nodes of the previous level."""
        ...


def add_derived(frontier: Kin, above: Above, asked: Counters) -> Counters:
    """Return the histograms of all open nodes, given the counted ones.

    A derived node's histogram is its parent's minus its sibling's. This works if every node counts
    all features, so that the parent holds what the child needs, and saves about half the counters
    that are sent.
    """
    slots = frontier.slots
    out = np.empty((slots.n_cells, asked.shape[1]), asked.dtype)
    # Both nodes of a pair are open, and they are adjacent.
    siblings.derive(
        slots.feature, slots.cells, slots.offset, frontier.asked.feature, frontier.asked.offset,
        asked, frontier.derived, frontier.parent, above.slots.feature,
        above.slots.offset, above.counters, out,
    )  # fmt: skip
    return out
