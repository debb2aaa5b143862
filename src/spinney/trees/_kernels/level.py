"""The candidate features of each open node of a level, and their cells.

The coordinator and every party compute them from public facts (the job's seed, the splits so far),
so none of this is sent.
"""

import numpy as np

from spinney.trees._kernels.binning import highest_code
from spinney.trees._kernels.compiling import kernel
from spinney.trees._kernels.hashing import mixed


@kernel
def open_children(
    feature, cut, subset, child_open, by_cut, shared_phase, tree, key, phase_key, low, high,
    child_tree, child_key, child_phase_key, child_low, child_high, parent, parent_cut,
):  # fmt: skip
    """Write the facts about the open children that follow from the decisions for their parents.

    A cut of a number narrows the bins that a child's rows can have; real thresholds (not `by_cut`)
    leave the bins unchanged. The left child of a node that stays is that node.
    """
    n_columns = low.shape[1]
    n_children = 0
    at = 0
    highest = np.int64(highest_code(cut))
    for node in range(feature.shape[0]):
        column = feature[node]
        if column < 0:
            continue
        stays = by_cut and np.int64(cut[node]) == highest
        is_number = subset[node] < 0 and not stays
        for side in range(2):
            if child_open[n_children + side]:
                child_tree[at] = tree[node]
                child_key[at] = key[node] if stays else mixed(key[node] ^ np.uint64(side + 1))
                child_phase_key[at] = phase_key[node] if shared_phase or stays else child_key[at]
                parent[at] = node
                parent_cut[at] = column if is_number else -1
                for k in range(n_columns):
                    child_low[at, k] = low[node, k]
                    child_high[at, k] = high[node, k]
                if is_number and by_cut:
                    # A cell may extend past the highest open bin; only missing values are beyond.
                    bound = min(cut[node], high[node, column])
                    if side == 0:
                        child_high[at, column] = bound
                    else:
                        child_low[at, column] = min(np.int64(bound), highest - 2) + 1
                at += 1
        n_children += 2


@kernel
def fits(
    feature, cut, subset, stays, child_open, child_bits, child_derived, n_sets, by_cut, most_bits,
    is_category, low, line,
):  # fmt: skip
    """Return whether decisions for some nodes fit them; what a node that stays may be is not said.

    The first four have an element for each node. Decisions may come from others, and kernels that
    use them do not check them.
    """
    n_split, n_open, sound = 0, 0, True
    for node in range(feature.shape[0]):
        column = feature[node]
        has_set = subset[node] >= 0
        if column < 0:
            sound &= not has_set
            continue
        n_split += 1
        if column >= low.shape[1] or line[node] > 0 or subset[node] >= n_sets:
            return False
        sound &= has_set == (is_category[column] and not stays[node])
        # A cut below the lowest open bin would give a range of negative length.
        sound &= not by_cut or has_set or cut[node] >= low[node, column]
    for child in range(child_open.shape[0]):
        n_open += child_open[child]
    for bits in child_bits:
        sound &= 1 <= bits <= most_bits
    sizes = child_open.shape[0] == 2 * n_split
    return sound and sizes and child_bits.shape[0] == child_derived.shape[0] == n_open


@kernel
def child_keys(parent_keys, out):
    """Write the keys of the two children of each parent."""
    for i in range(parent_keys.shape[0]):
        out[2 * i] = mixed(parent_keys[i] ^ np.uint64(1))
        out[2 * i + 1] = mixed(parent_keys[i] ^ np.uint64(2))


@kernel
def narrow_to_cells(
    lines, child, where, feature, add, shift, cells, is_category, has_missing, low, high
):
    """Narrow the bins of nodes that stay: all rows of line `lines[i]` lie in the cells `where[i]`.

    `low` and `high` are those of the open children; a line's node is `child[i]` of them.
    """
    for i in range(lines.shape[0]):
        line = lines[i]
        at = child[i]
        for slot in range(feature.shape[1]):
            column = feature[line, slot]
            if column < 0 or is_category[column]:
                continue
            cell = np.int64(where[i, slot])
            if has_missing[column] and cell == cells[line, slot] - 1:
                high[at, column] = low[at, column]  # no row has a number
                continue
            first = (cell << shift[line, slot]) - add[line, slot]
            last = ((cell + 1) << shift[line, slot]) - 1 - add[line, slot]
            first = max(first, np.int64(low[at, column]))
            last = min(last, np.int64(high[at, column]))
            if first <= last:
                low[at, column] = first
                high[at, column] = last


@kernel
def draw_slots(
    keys, phase_keys, low, high, n_bins, is_category, has_missing, line, skips, n_slots,
    most_cells, feature, add, shift, cells,
):  # fmt: skip
    """Draw the features of each node and divide the bins that its path leaves open into cells.

    `low` and `high` (n_nodes, n_columns) bound the bins a node's rows can have. A feature whose
    range is one bin is skipped, as it cannot split; if no other is left, one such feature is kept,
    so that a node's totals are always counted. A number's cell is `(bin + add) >> shift`, with a
    phase drawn by hash so that cuts can fall anywhere, and at most `most_cells` cells in a node;
    one more is for missing values. A category keeps one cell for each bin. Unused slots have
    feature -1 and no cell. Line k of a node goes on where line k - 1 ended.

    Where `skips`, a skipped feature does not use up a draw; elsewhere it does, as in scikit-learn,
    unless no other has been drawn.
    """
    n_columns = n_bins.shape[0]
    order = np.empty(n_columns, np.int32)
    for node in range(keys.shape[0]):
        for column in range(n_columns):
            order[column] = column
        state = keys[node]
        taken = 0
        before = np.int64(line[node]) * n_slots  # usable features of the lines before
        for i in range(n_columns):  # Fisher-Yates, until enough usable features are found
            if taken == n_slots or (taken > 0 and i >= n_slots and not skips[node]):
                break
            state = mixed(state)
            other = i + np.int64(state % np.uint64(n_columns - i))
            column = order[other]
            order[other] = order[i]
            order[i] = column
            constant = low[node, column] == high[node, column] and not has_missing[column]
            if constant and not (taken == 0 and line[node] == 0 and i == n_columns - 1):
                continue
            if before > 0:
                before -= 1
                continue
            feature[node, taken] = column
            if is_category[column]:
                add[node, taken] = 0
                shift[node, taken] = 0
                cells[node, taken] = n_bins[column]
            else:
                width = np.int64(high[node, column]) - np.int64(low[node, column]) + 1
                bits = 0
                while ((width - 1 + (1 << bits) - 1) >> bits) + 1 > most_cells[node]:
                    bits += 1
                word = mixed(phase_keys[node] ^ mixed(np.uint64(column)))
                phase = np.int64(word & np.uint64((1 << bits) - 1))
                add[node, taken] = phase - np.int64(low[node, column])
                shift[node, taken] = bits
                cells[node, taken] = ((width - 1 + phase) >> bits) + 1
            if has_missing[column]:
                cells[node, taken] += 1
            taken += 1
        for slot in range(taken, n_slots):
            feature[node, slot] = -1
            add[node, slot] = 0
            shift[node, slot] = 0
            cells[node, slot] = 0
