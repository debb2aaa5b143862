"""Count the rows of each open node by (slot, cell, class), or sum their targets.

Columns lie block after block, and in a block column after column, so that a block's column stays
in the second-level cache while nodes are counted. Rows are gathered 1024 at a time into small
buffers, then spent on two slots at once: the buffers stay in the first-level cache and the two
chains of additions overlap.
"""

import numpy as np

from spinney.trees._kernels.binning import MISSING
from spinney.trees._kernels.compiling import inlined, kernel
from spinney.trees._kernels.rows import ROW_MASK, WEIGHT_SHIFT

_CHUNK = 1024


@inlined
def _clear(out, offset, cells, first, last, width):
    """Set the cells of nodes `first` to `last` to zero: the memory may have been used before."""
    final = cells.shape[1] - 1
    begin = offset[first, 0] * width
    end = (offset[last - 1, final] + cells[last - 1, final]) * width
    for i in range(np.uint64(begin), np.uint64(end)):
        out[i] = 0


@inlined
def _add_slot(codes, column, rows, loads, n, add, shift, missing_cell, out, at):
    """Add the loads of `n` rows to the cells of one slot."""
    for i in range(n):
        code = codes[column + np.uint64(rows[i])]
        cell = (np.uint64(code) + add) >> shift
        out[at + (missing_cell if code == MISSING else cell)] += loads[i]


@inlined
def _add_two_slots(codes, column_a, column_b, rows, loads, n, adds, shifts, out, at_a, at_b):
    """Add the loads of `n` rows to the cells of two slots without missing values."""
    add_a, add_b = adds
    shift_a, shift_b = shifts
    for i in range(n):
        row = np.uint64(rows[i])
        load = loads[i]
        out[at_a + ((np.uint64(codes[column_a + row]) + add_a) >> shift_a)] += load
        out[at_b + ((np.uint64(codes[column_b + row]) + add_b) >> shift_b)] += load


@kernel
def count_two_classes(
    codes, labels, block_start, n_columns, entries, starts, ends, first, last,
    feature, add, shift, cells, offset, has_missing, out,
):  # fmt: skip
    """Count two classes: one 64-bit addition updates both 32-bit counts of a cell.

    Indices are unsigned and modulo 2^64 throughout: a signed one costs a test for negative
    values, and a slice costs a reference count. (`add` may be negative, `code + add` never is.)
    """
    rows = np.empty(_CHUNK, np.uint32)
    loads = np.empty(_CHUNK, np.int64)
    n_slots = feature.shape[1]
    _clear(out, offset, cells, first, last, 1)
    for block in range(block_start.shape[0] - 1):
        base = np.uint64(block_start[block])
        height = np.uint64(block_start[block + 1]) - base
        origin = base * np.uint64(n_columns)
        for node in range(first, last):
            end = ends[node, block]
            for begin in range(starts[node, block], end, _CHUNK):
                n = min(_CHUNK, end - begin)
                for i in range(n):
                    entry = entries[np.uint64(begin + i)]
                    row = entry & ROW_MASK
                    rows[i] = row
                    label = np.int64(labels[base + np.uint64(row)])
                    loads[i] = np.int64(entry >> WEIGHT_SHIFT) << (label << 5)
                slot = 0
                while slot < n_slots and feature[node, slot] >= 0:
                    f = feature[node, slot]
                    column = origin + np.uint64(f) * height
                    at = np.uint64(offset[node, slot])
                    add_a = np.uint64(add[node, slot])
                    shift_a = np.uint64(shift[node, slot])
                    if slot + 1 < n_slots and feature[node, slot + 1] >= 0:
                        g = feature[node, slot + 1]
                        if not has_missing[f] and not has_missing[g]:
                            _add_two_slots(
                                codes, column, origin + np.uint64(g) * height, rows, loads, n,
                                (add_a, np.uint64(add[node, slot + 1])),
                                (shift_a, np.uint64(shift[node, slot + 1])),
                                out, at, np.uint64(offset[node, slot + 1]),
                            )  # fmt: skip
                            slot += 2
                            continue
                    # Without missing values no code is 255, and this cell is never touched.
                    missing_cell = np.uint64(cells[node, slot] - 1)
                    _add_slot(codes, column, rows, loads, n, add_a, shift_a, missing_cell, out, at)
                    slot += 1


@kernel
def count_classes(
    codes, labels, block_start, n_columns, entries, starts, ends, first, last,
    feature, add, shift, cells, offset, n_classes, out,
):  # fmt: skip
    """Count any number of classes into 32-bit cells, class by class in a cell."""
    rows = np.empty(_CHUNK, np.uint32)
    weights = np.empty(_CHUNK, np.int32)
    classes = np.empty(_CHUNK, np.uint64)
    _clear(out, offset, cells, first, last, n_classes)
    for block in range(block_start.shape[0] - 1):
        base = block_start[block]
        n_rows = block_start[block + 1] - base
        label = labels[base : base + n_rows]
        for node in range(first, last):
            end = ends[node, block]
            for begin in range(starts[node, block], end, _CHUNK):
                n = min(_CHUNK, end - begin)
                for i in range(n):
                    entry = entries[begin + i]
                    row = entry & ROW_MASK
                    rows[i] = row
                    weights[i] = np.int32(entry >> WEIGHT_SHIFT)
                    classes[i] = np.uint64(label[row])
                for slot in range(feature.shape[1]):
                    f = feature[node, slot]
                    if f < 0:
                        break
                    at = base * n_columns + np.int64(f) * n_rows
                    column = codes[at : at + n_rows]
                    begin_cell = offset[node, slot] * n_classes
                    to = out[begin_cell : begin_cell + cells[node, slot] * n_classes]
                    a = np.uint64(add[node, slot])
                    s = np.uint64(shift[node, slot])
                    missing_cell = np.uint64(cells[node, slot] - 1)
                    for i in range(n):
                        code = column[rows[i]]
                        cell = (np.uint64(code) + a) >> s
                        cell = missing_cell if code == MISSING else cell
                        to[cell * np.uint64(n_classes) + classes[i]] += weights[i]


@kernel
def sum_targets(
    codes, targets, block_start, n_columns, entries, starts, ends, first, last,
    feature, add, shift, cells, offset, out,
):  # fmt: skip
    """Sum weights and weighted fixed-point targets: two 64-bit integers a cell."""
    rows = np.empty(_CHUNK, np.uint32)
    weights = np.empty(_CHUNK, np.int64)
    sums = np.empty(_CHUNK, np.int64)
    _clear(out, offset, cells, first, last, 2)
    for block in range(block_start.shape[0] - 1):
        base = block_start[block]
        n_rows = block_start[block + 1] - base
        target = targets[base : base + n_rows]
        for node in range(first, last):
            end = ends[node, block]
            for begin in range(starts[node, block], end, _CHUNK):
                n = min(_CHUNK, end - begin)
                for i in range(n):
                    entry = entries[begin + i]
                    row = entry & ROW_MASK
                    rows[i] = row
                    weights[i] = np.int64(entry >> WEIGHT_SHIFT)
                    sums[i] = weights[i] * np.int64(target[row])
                for slot in range(feature.shape[1]):
                    f = feature[node, slot]
                    if f < 0:
                        break
                    at = base * n_columns + np.int64(f) * n_rows
                    column = codes[at : at + n_rows]
                    begin_cell = 2 * offset[node, slot]
                    to = out[begin_cell : begin_cell + 2 * cells[node, slot]]
                    a = np.uint64(add[node, slot])
                    s = np.uint64(shift[node, slot])
                    missing_cell = np.uint64(cells[node, slot] - 1)
                    for i in range(n):
                        code = column[rows[i]]
                        cell = (np.uint64(code) + a) >> s
                        cell = missing_cell if code == MISSING else cell
                        to[cell << np.uint64(1)] += weights[i]
                        to[(cell << np.uint64(1)) | np.uint64(1)] += sums[i]
