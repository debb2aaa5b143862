"""The smallest and largest bins of nodes, which the paper exchanges, and cuts between them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import ranges as kernels
from spinney.trees.binning import BinnedTable, Binning
from spinney.trees.cuts import Candidates
from spinney.trees.rows import Standing
from spinney.trees.threads import TASKS_PER_THREAD, equal_ranges, run_ranges
from spinney.typing import Bools, Keys


@dataclass(frozen=True)
class Ranges:
    """Bins of numbers, slot by slot; a slot without numbers has 255 and 0."""

    low: NDArray[np.uint8]
    high: NDArray[np.uint8]

    def only(self, kept: Bools) -> "Ranges":
        """Return the ranges of some nodes only; the others have no numbers."""
        n_slots = self.low.size // max(kept.size, 1)
        is_kept = np.repeat(kept, n_slots)
        return Ranges(
            np.where(is_kept, self.low, 255).astype(np.uint8),
            np.where(is_kept, self.high, 0).astype(np.uint8),
        )


def node_ranges(
    table: BinnedTable,
    standing: Standing,
    candidates: Candidates,
    nodes: tuple[int, int],
    *,
    n_threads: int,
) -> Ranges:
    """Return the smallest and largest bin of every numeric candidate feature."""
    starts = standing.starts[nodes[0] : nodes[1]]
    ends = standing.ends[nodes[0] : nodes[1]]
    shape = candidates.slots.feature.shape
    low, high = np.full(shape, 255, np.uint8), np.zeros(shape, np.uint8)

    def task(first: int, last: int) -> None:
        kernels.node_ranges(
            table.codes, table.block_start, table.n_columns, standing.entries, starts, ends,
            first, last, candidates.slots.feature, candidates.subset, low, high,
        )  # fmt: skip

    work = (ends - starts).sum(axis=1) + 16
    run_ranges(task, equal_ranges(work, TASKS_PER_THREAD * n_threads), n_threads)
    return Ranges(low.ravel(), high.ravel())


def join_ranges(parts: list[Ranges]) -> Ranges:
    """Return the smallest and largest bins over all parties."""
    return Ranges(
        np.minimum.reduce([part.low for part in parts]),
        np.maximum.reduce([part.high for part in parts]),
    )


def cuts_between(
    ranges: Ranges, candidates: Candidates, keys: Keys, binning: Binning
) -> NDArray[np.uint8]:
    """Draw a cut uniformly between the smallest and the largest value of every slot."""
    shape = candidates.slots.feature.shape
    cut = np.zeros(shape, np.uint8)
    kernels.cuts_between(
        keys, candidates.slots.feature, candidates.subset, ranges.low.reshape(shape),
        ranges.high.reshape(shape), binning.padded_edges, binning.begins, cut,
    )  # fmt: skip
    return cut
