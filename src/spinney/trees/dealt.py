"""Trees that read rows of their own, given one by one instead of drawn by hash."""

from collections.abc import Sequence

import numpy as np

from spinney.trees._kernels.rows import CLASS_SHIFT, WEIGHT_SHIFT
from spinney.trees.binning import BinnedTable
from spinney.trees.rows import Standing
from spinney.typing import Integers


def standing_of_rows(table: BinnedTable, rows_of_tree: Sequence[Integers]) -> Standing:
    """Put each tree's own rows, given in rising order, at its root, as often as they are given."""
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
