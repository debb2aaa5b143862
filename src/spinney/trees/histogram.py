"""Rows to counts: the histogram of every open node over its slots' cells."""

import numpy as np

from spinney.trees._kernels import histogram as kernels
from spinney.trees.binning import BinnedTable
from spinney.trees.buffers import SHARED, Buffers
from spinney.trees.counts import Counters, Counts, packed_bits
from spinney.trees.frontier import Columns, Slots, line_sums
from spinney.trees.rows import Standing
from spinney.trees.threads import TASKS_PER_THREAD, equal_ranges, run_ranges

_TASK_BYTES = 2 << 20  # histograms a task fills: few enough to be in the cache when measured


def level_counts(
    table: BinnedTable,
    columns: Columns,
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
    """Count the rows of a range of open nodes; `n_classes` 0 sums targets instead.

    `slots` are those of the range. Classes are counted in 16 bits if `narrow`: half the memory to
    fill, measure and add up, where no node holds more rows than that over all parties. How long
    they will be when packed is found out at once if `sized`, while they are at hand.
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
    work = line_sums(ends - starts) + 16  # a node has a cost of its own beside its rows
    n_tasks = max(TASKS_PER_THREAD * n_threads, out.nbytes // _TASK_BYTES)
    run_ranges(task, equal_ranges(work, n_tasks), n_threads)
    total = tuple(sum(stream) for stream in zip(*bits, strict=True))
    return Counts(out.reshape(-1, width), slots.ends.ravel(), total or None)
