"""Derive a node's histogram: its parent's minus its sibling's."""

from spinney.trees._kernels.compiling import kernel


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
            for to in range(n_slots):
                if (
                    asked_feature[node, slot] >= 0
                    and feature[node, to] == asked_feature[node, slot]
                ):
                    for cell in range(cells[node, to]):
                        for k in range(width):
                            out[offset[node, to] + cell, k] = asked[
                                asked_offset[node, slot] + cell, k
                            ]
                    break
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
            beside = 0
            while feature[other, beside] != column:
                beside += 1
            over = 0
            while parent_feature_of_slot[above, over] != column:
                over += 1
            for cell in range(cells[node, slot]):
                for k in range(width):
                    out[offset[node, slot] + cell, k] = (
                        parent_counters[parent_offset[above, over] + cell, k]
                        - out[offset[other, beside] + cell, k]
                    )
