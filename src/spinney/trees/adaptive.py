"""The histograms of paper S1: bins adapt to each node's rows, party by party (Algorithms 2 and 3).

They are kept for comparison with the paper; the default is shared bins. They are not exact over
parties, and their means are averages of real values, so they reveal more than counts do.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import adaptive as kernels
from spinney.trees.binning import BinnedTable
from spinney.trees.frontier import ColumnCells, Slots, line_sums
from spinney.trees.rows import Standing
from spinney.trees.split import BestSplits
from spinney.trees.threads import equal_ranges, run_ranges
from spinney.typing import Floats, Integers


@dataclass(frozen=True)
class AdaptiveHistograms:
    """The histograms of some open nodes: a mean and its moments for each cell."""

    means: Floats  # (n_cells,) sorted within a slot; unused cells have no moments
    moments: Integers  # (n_cells, width) class counts, or weight and target sum


def stream_histograms(
    table: BinnedTable,
    columns: ColumnCells,
    standing: Standing,
    slots: Slots,
    nodes: tuple[int, int],
    *,
    n_classes: int,
    n_threads: int,
) -> AdaptiveHistograms:
    """Build the histograms of a range of open nodes in one pass over their rows (Algorithm 2)."""
    starts = standing.starts[nodes[0] : nodes[1]]
    ends = standing.ends[nodes[0] : nodes[1]]
    found = AdaptiveHistograms(
        np.zeros(slots.n_cells), np.zeros((slots.n_cells, n_classes or 2), np.int64)
    )

    def task(first: int, last: int) -> None:
        kernels.stream_level(
            table.codes, table.target, table.block_start, table.n_columns, standing.entries,
            starts, ends, first, last, slots.feature, slots.cells, slots.offset,
            columns.is_category, columns.has_missing, n_classes == 0, found.means, found.moments,
        )  # fmt: skip

    work = line_sums(ends - starts) + 16
    run_ranges(task, equal_ranges(work, n_threads), n_threads)
    return found


def merge_histograms(
    parts: list[AdaptiveHistograms], columns: ColumnCells, slots: Slots, *, is_regression: bool
) -> AdaptiveHistograms:
    """Merge the parties' histograms and reduce them to the number of bins (Algorithm 3)."""
    found = AdaptiveHistograms(
        np.zeros(slots.n_cells), np.zeros((slots.n_cells, parts[0].moments.shape[1]), np.int64)
    )
    kernels.merge_level(
        np.stack([part.means for part in parts]), np.stack([part.moments for part in parts]),
        slots.feature, slots.cells, slots.offset, columns.is_category, columns.has_missing,
        is_regression, found.means, found.moments,
    )  # fmt: skip
    return found


def midpoints(
    best: BestSplits, histograms: AdaptiveHistograms, columns: ColumnCells, slots: Slots
) -> NDArray[np.float32]:
    """Return each node's threshold: halfway between the bin of its cut and the next bin."""
    thresholds = np.zeros(best.slot.size, np.float32)
    for node in np.flatnonzero(best.slot >= 0):
        slot = best.slot[node]
        column = slots.feature[node, slot]
        if columns.is_category[column]:
            continue
        n_regular = int(slots.cells[node, slot]) - int(columns.has_missing[column])
        at = int(slots.offset[node, slot]) + int(best.cut[node])
        is_last = int(best.cut[node]) + 1 >= n_regular or not histograms.moments[at + 1].any()
        after = np.inf if is_last else histograms.means[at + 1]
        middle = np.float32(np.inf if is_last else (histograms.means[at] + after) / 2)
        # A threshold rounded up to the next mean would send that bin's rows to the wrong side.
        below = np.nextafter(np.float32(after), np.float32(-np.inf))
        thresholds[node] = middle if is_last else min(middle, below)
    return thresholds
