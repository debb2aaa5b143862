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

    This makes the same draw as `level.draw_slots`, and returns the low byte of the same phase.
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
def lay_cells(
    feature, phase, low, high, n_bins, is_category, has_missing, most_cells, add, shift, cells
):
    """Divide the bins that a node's path leaves open into cells, as `level.draw_slots` does."""
    for node in range(feature.shape[0]):
        for slot in range(feature.shape[1]):
            column = feature[node, slot]
            add[node, slot] = 0
            shift[node, slot] = 0
            cells[node, slot] = 0
            if column < 0:
                continue
            if is_category[column]:
                cells[node, slot] = n_bins[column]
            else:
                width = np.int64(high[node, column]) - np.int64(low[node, column]) + 1
                bits = 0
                while ((width - 1 + (1 << bits) - 1) >> bits) + 1 > most_cells[node]:
                    bits += 1
                begin = np.int64(phase[node, slot]) & np.int64((1 << bits) - 1)
                add[node, slot] = begin - np.int64(low[node, column])
                shift[node, slot] = bits
                cells[node, slot] = ((width - 1 + begin) >> bits) + 1
            if has_missing[column]:
                cells[node, slot] += 1


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
    entries, starts, ends, first, last, node, is_wanted, byte_start, bits, longest,
    left_ends, left_weight,
):  # fmt: skip
    """Split the segments of nodes in place by their bits: left rows first, in stable order."""
    aside = np.empty(longest, np.uint32)
    one = np.uint64(1)
    for k in range(first, last):
        weight = np.int64(0)
        bit = np.uint64(byte_start[k]) << np.uint64(3)
        for block in range(starts.shape[1]):
            begin = np.uint64(starts[node[k], block])
            end = np.uint64(ends[node[k], block])
            left_ends[k, block] = np.int64(begin)
            if not is_wanted[k]:
                continue
            at = begin
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
                weight += np.int64(entry >> WEIGHT_SHIFT) * np.int64(goes_left)
            for i in range(n_aside):
                entries[at + i] = aside[i]
            left_ends[k, block] = np.int64(at)
        left_weight[k] = weight


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
def are_runs_equal(bits, from_start, n_bytes, others):
    """Return whether runs of bytes are, one after another, the other bytes."""
    at = np.int64(0)
    for k in range(from_start.shape[0]):
        one = bits[from_start[k] : from_start[k] + n_bytes[k]]
        other = others[at : at + n_bytes[k]]
        differing = np.uint8(0)
        for i in range(one.shape[0]):
            differing = np.uint8(differing | np.uint8(one[i] ^ other[i]))
        if differing:
            return False
        at += n_bytes[k]
    return True


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
