"""Assign rows to nodes: bootstrap, and partition by the splits of a level.

A row entry is `row in block | class << 16 | weight << 27`, so counting classes needs no look-up of
the label; regression has no class. The entries of one tree are stored block by block, and node by
node within a block, so that a node's rows in a block are one segment.
"""

import numpy as np

from spinney.trees._kernels.binning import MISSING, highest_code
from spinney.trees._kernels.compiling import inlined, kernel
from spinney.trees._kernels.hashing import mixed, poisson

WEIGHT_SHIFT = np.uint32(27)
CLASS_SHIFT = np.uint32(16)
CLASS_MASK = np.uint32((1 << 11) - 1)
ROW_MASK = np.uint32((1 << 16) - 1)
_CHUNK = 1024


@kernel
def draw_rows(tree_keys, row_keys, classes, block_start, bootstrap, capacity, entries, ends):
    """Fill the entries of some trees; `ends[tree, block]` is where each block's entries end.

    Tree `t` owns `entries[t * capacity:]`. If the capacity is too small, the end is still counted,
    so that the caller can make room and call again. `classes` is empty for regression.
    """
    words = np.empty(_CHUNK, np.uint64)
    for tree in range(tree_keys.shape[0]):
        key = tree_keys[tree]
        room = np.uint64(capacity)
        to = entries[tree * capacity : (tree + 1) * capacity]
        at = np.uint64(0)
        for block in range(block_start.shape[0] - 1):
            base = block_start[block]
            n_rows = block_start[block + 1] - base
            for begin in range(0, n_rows, _CHUNK):
                n = min(_CHUNK, n_rows - begin)
                for i in range(n):  # a separate loop for hashes: the compiler vectorises it
                    words[i] = mixed(key ^ row_keys[base + begin + i])
                for i in range(n):
                    weight = poisson(words[i]) if bootstrap else np.uint32(1)
                    entry = np.uint32(begin + i) | (weight << WEIGHT_SHIFT)
                    if classes.shape[0] > 0:
                        entry |= np.uint32(classes[base + begin + i]) << CLASS_SHIFT
                    if at < room:
                        to[at] = entry
                    at += np.uint64(weight > 0)
            ends[tree, block] = tree * capacity + np.int64(at)


@kernel
def count_rows(entries, starts, ends, out):
    """Count each node's rows by class, every row once; regression has one class."""
    for node in range(starts.shape[0]):
        for block in range(starts.shape[1]):
            for i in range(starts[node, block], ends[node, block]):
                out[node, (entries[i] >> CLASS_SHIFT) & CLASS_MASK] += 1


@kernel
def first_slot_sums(cells, offset, counters, out):
    """Add up the cells of each node's first slot; every slot holds all rows of its node."""
    for node in range(cells.shape[0]):
        for i in range(offset[node, 0], offset[node, 0] + cells[node, 0]):
            for k in range(counters.shape[1]):
                out[node, k] += counters[i, k]


@inlined
def in_set(bins, code):
    """Return whether a bin is in a set of 256 bits, held as four words; missing values are last."""
    word = bins[min(np.uint64(code) >> np.uint64(6), np.uint64(3))]
    return (word >> (np.uint64(code) & np.uint64(63))) & np.uint64(1)


@inlined
def _longest(block_start):
    """Return the number of rows in the longest block."""
    longest = 0
    for block in range(block_start.shape[0] - 1):
        longest = max(longest, block_start[block + 1] - block_start[block])
    return longest


@inlined
def _place(child, node, block, begin, middle, end, child_starts, child_ends):
    """Write the segments of a node's open children in a block."""
    left, right = child[node, 0], child[node, 1]
    if left >= 0:
        child_starts[left, block] = begin
        child_ends[left, block] = middle
    if right >= 0:
        child_starts[right, block] = middle
        child_ends[right, block] = end


@kernel
def partition(
    codes, block_start, n_columns, entries, starts, ends, blocks, first, last,
    feature, cut, missing_left, subset, bin_sets, child, child_starts, child_ends,
):  # fmt: skip
    """Split the segments of nodes `first` to `last` in place: left rows first, in stable order.

    Only those in a range of blocks are split.

    `child` gives a node's left and right child among the open nodes, -1 if it is not open. The rows
    of a node without open children are not needed any more.
    """
    aside = np.empty(_longest(block_start), np.uint32)
    highest = highest_code(codes)
    for block in range(blocks[0], blocks[1]):
        n_rows = block_start[block + 1] - block_start[block]
        for node in range(first, last):
            if child[node, 0] < 0 and child[node, 1] < 0:
                continue
            begin = starts[node, block]
            end = ends[node, block]
            # Indices are unsigned: a signed one costs a test for negative values.
            column = np.uint64(block_start[block] * n_columns + np.int64(feature[node]) * n_rows)
            at = np.uint64(begin)
            n_aside = np.uint64(0)
            if subset[node] < 0:
                bound = cut[node]
                # The missing bin is above every cut; `top` nevertheless lets it go left.
                top = highest - np.uint64(1) if missing_left[node] else highest
                for i in range(np.uint64(begin), np.uint64(end)):
                    entry = entries[i]
                    code = codes[column + np.uint64(entry & ROW_MASK)]
                    goes_left = np.uint64((code <= bound) | (np.uint64(code) > top))
                    entries[at] = entry
                    aside[n_aside] = entry
                    at += goes_left
                    n_aside += np.uint64(1) - goes_left
            else:
                bins = bin_sets[subset[node]]
                for i in range(np.uint64(begin), np.uint64(end)):
                    entry = entries[i]
                    goes_left = in_set(bins, codes[column + np.uint64(entry & ROW_MASK)])
                    entries[at] = entry
                    aside[n_aside] = entry
                    at += goes_left
                    n_aside += np.uint64(1) - goes_left
            for i in range(n_aside):
                entries[at + i] = aside[i]
            _place(child, node, block, begin, np.int64(at), end, child_starts, child_ends)


@kernel
def partition_values(
    values, block_start, n_columns, entries, starts, ends, blocks, first, last,
    feature, threshold, missing_left, subset, bin_sets, child, child_starts, child_ends,
):  # fmt: skip
    """Split segments as `partition` does, by real thresholds instead of bins."""
    aside = np.empty(_longest(block_start), np.uint32)
    for block in range(blocks[0], blocks[1]):
        n_rows = block_start[block + 1] - block_start[block]
        for node in range(first, last):
            if child[node, 0] < 0 and child[node, 1] < 0:
                continue
            begin = starts[node, block]
            end = ends[node, block]
            at = begin
            n_aside = 0
            column = block_start[block] * n_columns + np.int64(feature[node]) * n_rows
            for i in range(begin, end):
                entry = entries[i]
                value = values[column + np.int64(entry & ROW_MASK)]
                if subset[node] >= 0:
                    code = MISSING if np.isnan(value) else np.uint8(value)
                    goes_left = in_set(bin_sets[subset[node]], code) == 1
                elif np.isnan(value):
                    goes_left = missing_left[node]
                else:
                    goes_left = value <= threshold[node]
                if goes_left:
                    entries[at] = entry
                    at += 1
                else:
                    aside[n_aside] = entry
                    n_aside += 1
            for i in range(n_aside):
                entries[at + i] = aside[i]
            _place(child, node, block, begin, at, end, child_starts, child_ends)


@kernel
def leave_out(
    codes, block_start, n_columns, entries, starts, nodes, feature, is_category, low, high, ends
):
    """End a node's segments where they begin if a row of it lies outside its box."""
    missing = highest_code(codes)
    for node in nodes:
        is_out = False
        for block in range(block_start.shape[0] - 1):
            n_rows = block_start[block + 1] - block_start[block]
            for slot in range(feature.shape[1]):
                of_slot = feature[node, slot]
                if of_slot < 0 or is_category[of_slot]:
                    continue
                column = block_start[block] * n_columns + np.int64(of_slot) * n_rows
                for i in range(starts[node, block], ends[node, block]):
                    code = codes[column + np.int64(entries[i] & ROW_MASK)]
                    is_out |= np.uint64(code) != missing and not (
                        low[node, of_slot] <= code <= high[node, of_slot]
                    )
        if is_out:
            for block in range(block_start.shape[0] - 1):
                ends[node, block] = starts[node, block]
