"""Count the rows of each open node by (slot, cell, class), or sum their targets.

Data are stored block by block, and column by column within a block, so that a block's column stays
in the second-level cache while nodes are counted. Three slots are counted at once, or two: their
chains of additions overlap, and a row's entry is read once for all. Where a slot's cells begin is
added to its codes before they are divided, so that a slot needs three registers.

Indices are unsigned and modulo 2^64 throughout: a signed one costs a test for negative values, and
a slice costs a reference count. (`add` may be negative, `code + add` never is.)
"""

import numpy as np

from spinney.trees._kernels.binning import MISSING
from spinney.trees._kernels.compiling import inlined, kernel
from spinney.trees._kernels.rows import CLASS_MASK, CLASS_SHIFT, ROW_MASK, WEIGHT_SHIFT


@inlined
def _clear(out, offset, cells, first, last, width):
    """Set the cells of nodes `first` to `last` to zero: the memory may have been used before."""
    final = cells.shape[1] - 1
    begin = offset[first, 0] * width
    end = (offset[last - 1, final] + cells[last - 1, final]) * width
    for i in range(np.uint64(begin), np.uint64(end)):
        out[i] = 0


@inlined
def _load(entry, half_shift):
    """Return a row's weight, in the low half of a word for class 0, in the high for class 1."""
    half = np.int64((entry >> CLASS_SHIFT) & CLASS_MASK) << half_shift
    return np.int64(entry >> WEIGHT_SHIFT) << half


@inlined
def _column(origin, height, column):
    """Return where a column begins in its block."""
    return origin + np.uint64(column) * height


@inlined
def _plain_slots(feature, node, has_missing):
    """Return how many slots a node has, and whether no column of theirs has missing values."""
    n = 0
    is_plain = True
    while n < feature.shape[1] and feature[node, n] >= 0:
        is_plain &= not has_missing[feature[node, n]]
        n += 1
    return n, is_plain


@inlined
def _is_plain_pair(feature, node, slot, has_missing):
    """Return whether neither of two slots' columns has missing values."""
    return not has_missing[feature[node, slot]] and not has_missing[feature[node, slot + 1]]


@inlined
def _look_up(slot_of, node, slot, origin, height):
    """Return how a slot's cell follows from a row: its column, what is added, and the shift."""
    feature, add, shift, offset = slot_of
    by = np.uint64(shift[node, slot])
    plus = np.uint64(add[node, slot]) + (np.uint64(offset[node, slot]) << by)
    return _column(origin, height, feature[node, slot]), plus, by


@inlined
def _count_one(codes, entries, begin, end, slot, missing_cell, half_shift, out):
    """Count a range of rows in a slot, where codes may be missing."""
    column, plus, by = slot
    for i in range(begin, end):
        entry = entries[i]
        code = codes[column + np.uint64(entry & ROW_MASK)]
        cell = (np.uint64(code) + plus) >> by
        out[missing_cell if code == MISSING else cell] += _load(entry, half_shift)


@inlined
def _count_pair(codes, entries, begin, end, slots, half_shift, out):
    """Count a range of rows in two slots without missing values: no code is 255."""
    (column_a, plus_a, by_a), (column_b, plus_b, by_b) = slots
    for i in range(begin, end):
        entry = entries[i]
        row = np.uint64(entry & ROW_MASK)
        load = _load(entry, half_shift)
        out[(np.uint64(codes[column_a + row]) + plus_a) >> by_a] += load
        out[(np.uint64(codes[column_b + row]) + plus_b) >> by_b] += load


@inlined
def _count_triple(codes, entries, begin, end, slots, half_shift, out):
    """Count a range of rows in three slots without missing values."""
    (column_a, plus_a, by_a), (column_b, plus_b, by_b), (column_c, plus_c, by_c) = slots
    for i in range(begin, end):
        entry = entries[i]
        row = np.uint64(entry & ROW_MASK)
        load = _load(entry, half_shift)
        out[(np.uint64(codes[column_a + row]) + plus_a) >> by_a] += load
        out[(np.uint64(codes[column_b + row]) + plus_b) >> by_b] += load
        out[(np.uint64(codes[column_c + row]) + plus_c) >> by_c] += load


@kernel
def count_two_classes(
    codes, block_start, n_columns, entries, starts, ends, first, last,
    feature, add, shift, cells, offset, has_missing, out,
):  # fmt: skip
    """Count two classes: one addition updates both counts of a cell, half a word each."""
    half_shift = 5 if out.itemsize == 8 else 4  # halves of 32 bits, or of 16
    slot_of = (feature, add, shift, offset)
    _clear(out, offset, cells, first, last, 1)
    for block in range(block_start.shape[0] - 1):
        base = np.uint64(block_start[block])
        height = np.uint64(block_start[block + 1]) - base
        origin = base * np.uint64(n_columns)
        for node in range(first, last):
            begin, end = np.uint64(starts[node, block]), np.uint64(ends[node, block])
            if begin >= end:
                continue
            slot = 0
            n, is_plain = _plain_slots(feature, node, has_missing)
            while slot < n:
                one = _look_up(slot_of, node, slot, origin, height)
                left = n - slot
                if left > 1 and (is_plain or _is_plain_pair(feature, node, slot, has_missing)):
                    two = _look_up(slot_of, node, slot + 1, origin, height)
                    if is_plain and (left == 3 or left > 4):  # four are two pairs
                        three = _look_up(slot_of, node, slot + 2, origin, height)
                        slots = (one, two, three)
                        _count_triple(codes, entries, begin, end, slots, half_shift, out)
                        slot += 3
                        continue
                    _count_pair(codes, entries, begin, end, (one, two), half_shift, out)
                    slot += 2
                    continue
                lost = np.uint64(offset[node, slot] + cells[node, slot] - 1)
                _count_one(codes, entries, begin, end, one, lost, half_shift, out)
                slot += 1


@kernel
def count_classes(
    codes, block_start, n_columns, entries, starts, ends, first, last,
    feature, add, shift, cells, offset, n_classes, out,
):  # fmt: skip
    """Count any number of classes, class by class in a cell."""
    _clear(out, offset, cells, first, last, n_classes)
    width = np.uint64(n_classes)
    for block in range(block_start.shape[0] - 1):
        base = np.uint64(block_start[block])
        height = np.uint64(block_start[block + 1]) - base
        origin = base * np.uint64(n_columns)
        for node in range(first, last):
            begin = np.uint64(starts[node, block])
            end = np.uint64(ends[node, block])
            for slot in range(feature.shape[1]):
                if feature[node, slot] < 0 or begin == end:
                    break
                column = _column(origin, height, feature[node, slot])
                at = np.uint64(offset[node, slot]) * width
                a = np.uint64(add[node, slot])
                s = np.uint64(shift[node, slot])
                missing_cell = np.uint64(cells[node, slot] - 1)
                for i in range(begin, end):
                    entry = entries[i]
                    code = codes[column + np.uint64(entry & ROW_MASK)]
                    cell = (np.uint64(code) + a) >> s
                    cell = missing_cell if code == MISSING else cell
                    label = np.uint64((entry >> CLASS_SHIFT) & CLASS_MASK)
                    out[at + cell * width + label] += np.int32(entry >> WEIGHT_SHIFT)


@kernel
def sum_targets(
    codes, targets, block_start, n_columns, entries, starts, ends, first, last,
    feature, add, shift, cells, offset, out,
):  # fmt: skip
    """Sum weights and weighted fixed-point targets: two 64-bit integers per cell."""
    _clear(out, offset, cells, first, last, 2)
    one = np.uint64(1)
    for block in range(block_start.shape[0] - 1):
        base = np.uint64(block_start[block])
        height = np.uint64(block_start[block + 1]) - base
        origin = base * np.uint64(n_columns)
        for node in range(first, last):
            begin = np.uint64(starts[node, block])
            end = np.uint64(ends[node, block])
            for slot in range(feature.shape[1]):
                if feature[node, slot] < 0 or begin == end:
                    break
                column = _column(origin, height, feature[node, slot])
                at = np.uint64(offset[node, slot]) << one
                a = np.uint64(add[node, slot])
                s = np.uint64(shift[node, slot])
                missing_cell = np.uint64(cells[node, slot] - 1)
                for i in range(begin, end):
                    entry = entries[i]
                    row = np.uint64(entry & ROW_MASK)
                    code = codes[column + row]
                    cell = (np.uint64(code) + a) >> s
                    cell = missing_cell if code == MISSING else cell
                    weight = np.int64(entry >> WEIGHT_SHIFT)
                    to = at + (cell << one)
                    out[to] += weight
                    out[to + one] += weight * np.int64(targets[base + row])
