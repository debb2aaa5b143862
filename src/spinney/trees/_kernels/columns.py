"""Grow trees over some of the columns: draws, cells, sides of a cut as bits, rows moved by bits.

If parties hold different columns of the same rows, all keep the row entries in the same order. The
party that owns the column of a cut writes one bit for each entry of the node, 1 for left, block by
block; the others move their entries by these bits. Each node's bits begin at a new byte.
"""

import numpy as np

from spinney.trees._kernels.binning import MISSING
from spinney.trees._kernels.compiling import kernel
from spinney.trees._kernels.hashing import mixed
from spinney.trees._kernels.rows import CLASS_MASK, CLASS_SHIFT, ROW_MASK, WEIGHT_SHIFT, in_set


@kernel
def draw_columns(keys, phase_keys, exhausted, n_slots, column, phase):
    """Draw the columns of each node, skipping exhausted ones; -1 if none is left.

    This makes the draw of `level.draw_slots` where it `skips`, and returns the low byte of the same
    phase.
    """
    n_columns = exhausted.shape[1]
    order = np.empty(n_columns, np.int32)
    for node in range(keys.shape[0]):
        for i in range(n_columns):
            order[i] = i
        state = keys[node]
        taken = 0
        for i in range(n_columns):
            if taken == n_slots:
                break
            state = mixed(state)
            other = i + np.int64(state % np.uint64(n_columns - i))
            found = order[other]
            order[other] = order[i]
            order[i] = found
            if exhausted[node, found]:
                continue
            column[node, taken] = found
            word = mixed(phase_keys[node] ^ mixed(np.uint64(found)))
            phase[node, taken] = np.uint8(word & np.uint64(255))
            taken += 1
        for slot in range(taken, n_slots):
            column[node, slot] = -1
            phase[node, slot] = 0


@kernel
def most_offered(n_slots, column, n_columns):
    """Return the most columns that a node is offered; -1 if they do not add up or do not exist.

    A node is offered a column once, so never more of them than there are.
    """
    most, total = np.int64(0), np.int64(0)
    for node in range(n_slots.shape[0]):
        most = np.maximum(most, np.int64(n_slots[node]))
        total += np.int64(n_slots[node])
    if total != column.shape[0] or most > n_columns:
        return np.int64(-1)
    for i in range(column.shape[0]):
        if column[i] >= n_columns:
            return np.int64(-1)
    return most


@kernel
def lay_offered(
    n_slots, column, phase, low, high, n_bins, is_category, has_missing, most_cells,
    feature, add, shift, cells, offset,
):  # fmt: skip
    """Divide the bins that a node's path leaves open into cells, as `level.draw_slots` does.

    Columns are given node after node. Return how many cells there are.
    """
    at = 0
    n_cells = np.int64(0)
    for node in range(feature.shape[0]):
        for slot in range(feature.shape[1]):
            add[node, slot] = 0
            shift[node, slot] = 0
            cells[node, slot] = 0
            offset[node, slot] = n_cells
            if slot >= n_slots[node]:
                feature[node, slot] = -1
                continue
            taken = np.int64(column[at])
            feature[node, slot] = taken
            if is_category[taken]:
                cells[node, slot] = n_bins[taken]
            else:
                width = np.int64(high[node, taken]) - np.int64(low[node, taken]) + 1
                bits = 0
                while ((width - 1 + (1 << bits) - 1) >> bits) + 1 > most_cells[node]:
                    bits += 1
                begin = np.int64(phase[at]) & np.int64((1 << bits) - 1)
                add[node, slot] = begin - np.int64(low[node, taken])
                shift[node, slot] = bits
                cells[node, slot] = ((width - 1 + begin) >> bits) + 1
            if has_missing[taken]:
                cells[node, slot] += 1
            n_cells += cells[node, slot]
            at += 1
    return n_cells


@kernel
def side_bits(
    codes, block_start, n_columns, entries, starts, ends, first, last,
    node, feature, cut, missing_left, subset, bin_sets, byte_start, out,
):  # fmt: skip
    """Write the sides of cuts `first` to `last`: 1 for every entry that goes left."""
    for k in range(first, last):
        byte = np.uint64(byte_start[k])
        word = np.uint8(0)
        n_bits = np.uint8(0)
        bound = cut[k]
        # The missing bin (255) is above every cut; `top` nevertheless lets it go left.
        top = np.uint8(254) if missing_left[k] else MISSING
        for block in range(block_start.shape[0] - 1):
            n_rows = block_start[block + 1] - block_start[block]
            column = np.uint64(block_start[block] * n_columns + np.int64(feature[k]) * n_rows)
            begin = np.uint64(starts[node[k], block])
            end = np.uint64(ends[node[k], block])
            for i in range(begin, end):
                code = codes[column + np.uint64(entries[i] & ROW_MASK)]
                if subset[k] < 0:
                    left = np.uint8((code <= bound) | (code > top))
                else:
                    left = np.uint8(in_set(bin_sets[subset[k]], code))
                word |= left << n_bits
                n_bits += np.uint8(1)
                if n_bits == np.uint8(8):
                    out[byte] = word
                    byte += np.uint64(1)
                    word = np.uint8(0)
                    n_bits = np.uint8(0)
        if n_bits > np.uint8(0):
            out[byte] = word


@kernel
def move_rows(
    entries, starts, ends, first, last, node, is_wanted, byte_start, bits, longest, weight,
    child_starts, child_ends, child_weight,
):  # fmt: skip
    """Split the segments of nodes in place by their bits: left rows first, in stable order."""
    aside = np.empty(longest, np.uint32)
    one = np.uint64(1)
    for k in range(first, last):
        on_left = np.int64(0)
        bit = np.uint64(byte_start[k]) << np.uint64(3)
        for block in range(starts.shape[1]):
            begin = np.uint64(starts[node[k], block])
            end = np.uint64(ends[node[k], block])
            at = begin
            if is_wanted[k]:
                n_aside = np.uint64(0)
                for i in range(begin, end):
                    entry = entries[i]
                    word = bits[bit >> np.uint64(3)]
                    goes_left = np.uint64(word >> np.uint8(bit & np.uint64(7))) & one
                    bit += one
                    entries[at] = entry
                    aside[n_aside] = entry
                    at += goes_left
                    n_aside += one - goes_left
                    on_left += np.int64(entry >> WEIGHT_SHIFT) * np.int64(goes_left)
                for i in range(n_aside):
                    entries[at + i] = aside[i]
            child_starts[2 * k, block], child_ends[2 * k, block] = np.int64(begin), np.int64(at)
            child_starts[2 * k + 1, block], child_ends[2 * k + 1, block] = (
                np.int64(at),
                np.int64(end),
            )
        child_weight[2 * k], child_weight[2 * k + 1] = on_left, weight[node[k]] - on_left


@kernel
def open_children(
    split, child_open, child_starts, child_ends, child_weight, own_node, own_feature, own_cut,
    is_category, tree, low, high, most_bits,
    parent, parent_cut, new_tree, starts, ends, weight, bits, new_low, new_high,
):  # fmt: skip
    """Write what a party knows of the open children; own cuts narrow the ranges of its columns.

    `parent_cut` is the own column of a number that split the parent, -1 for any other cut.
    """
    cut_of_node = np.full(split.shape[0], -1)
    for i in range(own_node.shape[0]):
        cut_of_node[own_node[i]] = i
    child, found = -1, -1
    for node in range(split.shape[0]):
        if not split[node]:
            continue
        own = cut_of_node[node]
        is_number = own >= 0 and not is_category[own_feature[own]]
        for side in range(2):
            child += 1
            if not child_open[child]:
                continue
            found += 1
            parent[found], parent_cut[found], new_tree[found] = node, -1, tree[node]
            for block in range(starts.shape[1]):
                starts[found, block] = child_starts[child, block]
                ends[found, block] = child_ends[child, block]
            weight[found] = child_weight[child]
            n_bits = 1
            while child_weight[child] >> n_bits:
                n_bits += 1
            bits[found] = min(n_bits, most_bits)
            for column in range(low.shape[1]):
                new_low[found, column] = low[node, column]
                new_high[found, column] = high[node, column]
            if is_number:
                column = own_feature[own]
                parent_cut[found] = column
                # A cell may extend past the highest open bin; only missing values are beyond that.
                at = np.minimum(own_cut[own], high[node, column])
                if side == 0:
                    new_high[found, column] = at
                else:
                    new_low[found, column] = np.minimum(at, np.uint8(253)) + np.uint8(1)


@kernel
def segment_moments(entries, starts, ends, first, last, block_start, target, n_classes, out):
    """Add up classes, or weights and targets (`n_classes` 0), of the entries of segments."""
    for k in range(first, last):
        for block in range(starts.shape[1]):
            base = np.uint64(block_start[block])
            for i in range(np.uint64(starts[k, block]), np.uint64(ends[k, block])):
                entry = entries[i]
                weight = np.int64(entry >> WEIGHT_SHIFT)
                if n_classes > 0:
                    out[k, (entry >> CLASS_SHIFT) & CLASS_MASK] += weight
                else:
                    row = np.uint64(entry & ROW_MASK)
                    out[k, 0] += weight
                    out[k, 1] += weight * np.int64(target[base + row])


@kernel
def count_sides(split, sizes):
    """Return how many nodes are split, and how many bytes their sides take."""
    n_split, n_bytes = np.int64(0), np.int64(0)
    for node in range(split.shape[0]):
        if split[node]:
            n_split += 1
            n_bytes += (sizes[node] + 7) >> 3
    return n_split, n_bytes


@kernel
def lay_sides(split, sizes, node, byte_start):
    """Write which nodes are split, and where the sides of each begin."""
    at, found = np.int64(0), 0
    for i in range(split.shape[0]):
        if split[i]:
            node[found], byte_start[found] = i, at
            found += 1
            at += (sizes[i] + 7) >> 3


@kernel
def has_sides(split, sizes, bits, node, others):
    """Return whether the sides of some nodes, which come in order, are the given ones."""
    at, other, found = np.int64(0), np.int64(0), 0
    for i in range(split.shape[0]):
        n_bytes = (sizes[i] + 7) >> 3
        if found < node.shape[0] and node[found] == i:
            found += 1
            if not split[i] or other + n_bytes > others.shape[0]:
                return False
            differing = np.uint8(0)
            for k in range(n_bytes):
                differing = np.uint8(differing | np.uint8(bits[at + k] ^ others[other + k]))
            if differing:
                return False
            other += n_bytes
        if split[i]:
            at += n_bytes
    return found == node.shape[0] and other == others.shape[0]


@kernel
def breaks_rules(child_open, rows, least_rows, least_open, ends):
    """Return whether a level opens nodes that are too small or too deep, or moves too few rows.

    Of the rows of a node without open children nothing is asked.
    """
    for child in range(child_open.shape[0]):
        if child_open[child] and (ends or rows[child] < least_open):
            return True
        if (child_open[child] or child_open[child ^ 1]) and rows[child] < least_rows:
            return True
    return False


@kernel
def are_offered(nodes, is_good):
    """Return whether numbers are places of good open nodes, each once and in order."""
    before = np.int64(-1)
    for i in range(nodes.shape[0]):
        if nodes[i] <= before or nodes[i] >= is_good.shape[0] or not is_good[nodes[i]]:
            return False
        before = nodes[i]
    return True


@kernel
def exhaust(node, feature, cut, low, high, is_category, has_missing, exhausted):
    """Write for both children of own cuts whether the column is exhausted there."""
    for i in range(node.shape[0]):
        column = feature[i]
        can_end = not is_category[column] and not has_missing[column]
        top = high[node[i], column]
        # A cell may extend past the highest open bin; only missing values are beyond that.
        at = np.minimum(cut[i], top)
        above = np.minimum(at, np.uint8(253)) + np.uint8(1)
        exhausted[2 * i] = can_end and low[node[i], column] == at
        exhausted[2 * i + 1] = can_end and above == top


@kernel
def offer(column, phase, owner, own_number, party, n_slots, own_column, own_phase, place):
    """Write a party's part of the drawn columns, and the place of each in the draw.

    Return how many there are.
    """
    n = 0
    for node in range(column.shape[0]):
        begin = n
        for slot in range(column.shape[1]):
            if column[node, slot] >= 0 and owner[column[node, slot]] == party:
                own_column[n] = own_number[column[node, slot]]
                own_phase[n], place[n] = phase[node, slot], slot
                n += 1
        n_slots[node] = n - begin
    return n


@kernel
def compare(party, gain, slot, n_slots, places, best, winner, place):
    """Let a party win the open nodes where its gain is the highest so far.

    If gains are equal, the column that was drawn first wins. Return whether the party has answered
    for columns that it was offered.
    """
    begin = np.int64(0)
    for node in range(gain.shape[0]):
        n = np.int64(n_slots[node])
        if np.isnan(gain[node]):
            return False
        if np.isfinite(gain[node]):
            if slot[node] < 0 or slot[node] >= n:
                return False
            at = np.int64(places[begin + slot[node]])
            if gain[node] > best[node] or (gain[node] == best[node] and at < place[node]):
                best[node], winner[node], place[node] = gain[node], party, at
        begin += n
    return True


@kernel
def lay_nodes(split, child_open, tree, opened, cut, place, tree_start, left):
    """Lay nodes that are numbered level by level tree by tree; roots come first, one for each tree.

    `split` says of each open node whether it is split, `child_open` of each child whether it is
    open. `opened` and `cut` receive the numbers of all open and split nodes, `left` the left
    child of each node by its place: a leaf's is itself.
    """
    n_trees = tree_start.shape[0] - 1
    child = np.empty(tree.shape[0], np.int64)
    tree_start[:] = 0
    n_opened, n_cut = 0, 0
    for node in range(tree.shape[0]):
        child[node] = node
        if node < n_trees:
            tree[node] = node
        tree_start[tree[node] + 1] += 1
        if node >= n_trees and not child_open[node - n_trees]:
            continue
        opened[n_opened] = node
        if split[n_opened]:
            child[node] = n_trees + 2 * n_cut
            tree[child[node]] = tree[child[node] + 1] = tree[node]
            cut[n_cut] = node
            n_cut += 1
        n_opened += 1
    for one in range(n_trees):
        tree_start[one + 1] += tree_start[one]
    free = tree_start[:-1].copy()
    for node in range(tree.shape[0]):
        place[node] = free[tree[node]]
        free[tree[node]] += 1
    for node in range(tree.shape[0]):
        left[place[node]] = place[child[node]]


@kernel
def place_bytes(bits, from_start, to_start, n_bytes, out, left_sizes):
    """Copy runs of bytes to their places and count the set bits of each."""
    for k in range(from_start.shape[0]):
        count = np.int64(0)
        for i in range(n_bytes[k]):
            word = bits[from_start[k] + i]
            out[to_start[k] + i] = word
            word = word - ((word >> np.uint8(1)) & np.uint8(0x55))
            word = (word & np.uint8(0x33)) + ((word >> np.uint8(2)) & np.uint8(0x33))
            count += np.int64((word + (word >> np.uint8(4))) & np.uint8(0x0F))
        left_sizes[k] = count
