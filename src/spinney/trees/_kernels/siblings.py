"""Derive a node's histogram: its parent's minus its sibling's."""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel


@inlined
def _slot_of(feature, node, column, slot):
    """Return the slot of a node's column, -1 if it has none; most are at the place given first."""
    n_slots = feature.shape[1]
    if slot < n_slots and feature[node, slot] == column:
        return slot
    for other in range(n_slots):
        if feature[node, other] == column:
            return other
    return -1


@kernel
def derive(
    feature, cells, offset, asked_feature, asked_offset, asked, derived,
    parent, parent_feature_of_slot, parent_offset, parent_counters, out,
):  # fmt: skip
    """Fill `out` with all cells of all nodes; counted cells are copied, the rest is derived.

    The sibling of a derived node is beside it, and itself never derived.
    """
    n_nodes = feature.shape[0]
    n_slots = feature.shape[1]
    width = out.shape[1]
    for node in range(feature.shape[0]):  # copy the counted cells
        for slot in range(n_slots):
            if asked_feature[node, slot] < 0:
                continue
            to = _slot_of(feature, node, asked_feature[node, slot], slot)
            if to < 0:
                continue
            for cell in range(cells[node, to]):
                for k in range(width):
                    out[offset[node, to] + cell, k] = asked[asked_offset[node, slot] + cell, k]
    for node in range(feature.shape[0]):
        if not derived[node]:
            continue
        above = parent[node]
        other = node + 1 if node + 1 < n_nodes and parent[node + 1] == above else node - 1
        for slot in range(n_slots):
            column = feature[node, slot]
            if column < 0:
                break
            if column == asked_feature[node, 0]:
                continue
            beside = _slot_of(feature, other, column, slot)
            over = _slot_of(parent_feature_of_slot, above, column, slot)
            for cell in range(cells[node, slot]):
                for k in range(width):
                    out[offset[node, slot] + cell, k] = (
                        parent_counters[parent_offset[above, over] + cell, k]
                        - out[offset[other, beside] + cell, k]
                    )


@kernel
def lay_asked(
    derived, parent_cut, feature, add, shift, cells,
    new_feature, new_add, new_shift, new_cells, offset,
):  # fmt: skip
    """Lay the slots to count: of derived nodes only the column that split the parent, or none.

    A node's only slot stays: it may hold a column that its parent skipped because it cannot split.
    Return how many cells there are.
    """
    n_slots = feature.shape[1]
    n_cells = np.int64(0)
    for node in range(feature.shape[0]):
        first, last = 0, n_slots  # the slots that stay
        if derived[node]:
            n_used, kept = 0, -1
            for slot in range(n_slots):
                n_used += feature[node, slot] >= 0
                if kept < 0 <= parent_cut[node] and feature[node, slot] == parent_cut[node]:
                    kept = slot
            if n_used == 1:
                kept = 0
            first, last = max(kept, 0), kept + 1
        for slot in range(n_slots):
            old = first + slot
            offset[node, slot] = n_cells
            if old < last:
                new_feature[node, slot], new_add[node, slot] = feature[node, old], add[node, old]
                new_shift[node, slot], new_cells[node, slot] = shift[node, old], cells[node, old]
                n_cells += cells[node, old]
            else:
                new_feature[node, slot], new_add[node, slot] = -1, 0
                new_shift[node, slot], new_cells[node, slot] = 0, 0
    return n_cells


@kernel
def mark_heavier(parent, cells, parent_cells, weight, derived):
    """Mark the heavier of two siblings whose cells are like their parent's."""
    for node in range(parent.shape[0]):
        derived[node] = False
    for node in range(parent.shape[0] - 1):
        if parent[node + 1] == parent[node] and (
            cells[node] == parent_cells[node] and cells[node + 1] == parent_cells[node + 1]
        ):
            derived[node + np.int64(weight[node + 1] >= weight[node])] = True
