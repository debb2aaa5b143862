"""Nodes with known counts, and the splits found in them, for tests."""

from typing import Any

import numpy as np

from spinney.trees.frontier import ColumnCells, Slots
from spinney.trees.split import LeastLeaf, best_splits

ANY_LEAF = LeastLeaf(1)


def one_node(cells_of_slot, is_category, has_missing):
    """Return the slots of one node whose cells are bins, one column each."""
    n_slots = len(cells_of_slot)
    n_cells = np.array([[len(cells) for cells in cells_of_slot]], np.int32)
    slots = Slots.of(
        np.arange(n_slots, dtype=np.int32)[None, :],
        np.zeros((1, n_slots), np.int32),
        np.zeros((1, n_slots), np.uint8),
        n_cells,
    )
    columns = ColumnCells(
        n_cells[0].astype(np.int64) - np.array(has_missing),
        np.array(is_category),
        np.array(has_missing),
    )
    return slots, columns


def found_in(cells_of_slot, is_category, has_missing, criterion, **limits):
    slots, columns = one_node(cells_of_slot, is_category, has_missing)
    counters: Any = np.concatenate(cells_of_slot)
    return best_splits(
        counters.astype(np.int64 if criterion.name == "squared_error" else np.int32),
        slots,
        columns,
        criterion,
        least=limits.get("least", ANY_LEAF),
        root_weight=np.zeros(1),
        n_threads=1,
    )


def sent_left(best, cells, *, is_category, has_missing):
    """Return which cells of the chosen slot the split sends left."""
    n = len(cells)
    codes = np.arange(n)
    if has_missing:
        codes[-1] = 255
    if is_category:
        words = best.bin_set[0]
        return np.array([(int(words[c >> 6]) >> c % 64) & 1 for c in codes.tolist()], bool)
    left = codes <= best.cut[0]
    if has_missing:
        left[-1] = best.missing_left[0]
    return left
