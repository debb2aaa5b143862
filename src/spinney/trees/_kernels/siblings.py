"""Derive a node's histogram: its parent's minus its sibling's."""

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
    feature, cells, offset, asked_feature, asked_offset, asked, derived, sibling,
    parent, parent_feature_of_slot, parent_offset, parent_counters, out,
):  # fmt: skip
    """Fill `out` with all cells of all nodes; counted cells are copied, the rest is derived.

    The sibling of a derived node is itself never derived.
    """
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
        other = sibling[node]
        above = parent[node]
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
def keep_asked(derived, parent_cut, feature, add, shift, cells):
    """Leave in the slots of derived nodes only the column that split the parent, or none.

    A node's only slot stays: it may hold a column that its parent skipped because it cannot split.
    """
    n_slots = feature.shape[1]
    for node in range(feature.shape[0]):
        if not derived[node]:
            continue
        n_used, kept = 0, -1
        for slot in range(n_slots):
            n_used += feature[node, slot] >= 0
            if kept < 0 <= parent_cut[node] and feature[node, slot] == parent_cut[node]:
                kept = slot
        if n_used == 1:
            kept = 0
        if kept >= 0:
            feature[node, 0] = feature[node, kept]
            add[node, 0] = add[node, kept]
            shift[node, 0] = shift[node, kept]
            cells[node, 0] = cells[node, kept]
        for slot in range(1 if kept >= 0 else 0, n_slots):
            feature[node, slot] = -1
            add[node, slot] = 0
            shift[node, slot] = 0
            cells[node, slot] = 0
