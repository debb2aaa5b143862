"""Count the rows of each open node by (slot, cell, class), or sum their targets.

Data are stored block by block, and column by column within a block, so that a block's column stays
in the second-level cache while nodes are counted. Two slots are counted at once: their chains of
additions overlap.

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


@kernel
def count_two_classes(
    codes, block_start, n_columns, entries, starts, ends, first, last,
    feature, add, shift, cells, offset, has_missing, out,
):  # fmt: skip
    """Count two classes: one addition updates both counts of a cell, half a word each."""
    n_slots = feature.shape[1]
    half_shift = 5 if out.itemsize == 8 else 4  # halves of 32 bits, or of 16
    _clear(out, offset, cells, first, last, 1)
    for block in range(block_start.shape[0] - 1):
        base = np.uint64(block_start[block])
        height = np.uint64(block_start[block + 1]) - base
        origin = base * np.uint64(n_columns)
        for node in range(first, last):
            begin = np.uint64(starts[node, block])
            end = np.uint64(ends[node, block])
            slot = 0
            while slot < n_slots and feature[node, slot] >= 0 and begin < end:
                f = feature[node, slot]
                column_a = _column(origin, height, f)
                at_a = np.uint64(offset[node, slot])
                add_a = np.uint64(add[node, slot])
                shift_a = np.uint64(shift[node, slot])
                g = feature[node, slot + 1] if slot + 1 < n_slots else -1
                if g >= 0 and not has_missing[f] and not has_missing[g]:
                    column_b = _column(origin, height, g)
                    at_b = np.uint64(offset[node, slot + 1])
                    add_b = np.uint64(add[node, slot + 1])
                    shift_b = np.uint64(shift[node, slot + 1])
                    for i in range(begin, end):
                        entry = entries[i]
                        row = np.uint64(entry & ROW_MASK)
                        load = _load(entry, half_shift)
                        out[at_a + ((np.uint64(codes[column_a + row]) + add_a) >> shift_a)] += load
                        out[at_b + ((np.uint64(codes[column_b + row]) + add_b) >> shift_b)] += load
                    slot += 2
                    continue
                # Without missing values, no code is 255 and this cell is never touched.
                missing_cell = np.uint64(cells[node, slot] - 1)
                for i in range(begin, end):
                    entry = entries[i]
                    code = codes[column_a + np.uint64(entry & ROW_MASK)]
                    cell = (np.uint64(code) + add_a) >> shift_a
                    cell = missing_cell if code == MISSING else cell
                    out[at_a + cell] += _load(entry, half_shift)
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
