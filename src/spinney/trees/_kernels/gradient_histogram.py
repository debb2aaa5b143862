"""Sum gradients: the histogram of every open node over its slots' cells.

While rows are added, a cell is one word: the sum of gradients in its low bits, that of curvatures
from bit 24, the number of rows from bit 48. One addition per row and column updates all three. The
words are added to 64-bit counters before their 16 bits of rows overflow.

Many rows are added to the cells of two slots at once: to one word for each pair of cells, from
which the cells of both follow.
"""

import numpy as np

from spinney.trees._kernels.binning import MISSING
from spinney.trees._kernels.compiling import inlined, kernel
from spinney.trees._kernels.rows import ROW_MASK

_ROWS_SHIFT = np.uint64(48)
_H_SHIFT = np.uint64(24)
_H_MASK = np.uint64((1 << 24) - 1)
_G_MASK = np.uint64((1 << 48) - 1)
_MOST = 65535  # rows that a word can count
_PAIRS = 2048  # pairs of cells whose words stay in the core's nearest cache
_MANY = 8  # rows for each pair of cells; fewer are sooner added to both cells
_CODES = 256


@inlined
def _load(entry, g_mask, h_mask):
    """Return what a row adds to its cell."""
    g = np.uint64((entry >> np.uint32(16)) & g_mask)
    h = np.uint64((entry >> np.uint32(24)) & h_mask)
    return g | (h << _H_SHIFT) | (np.uint64(1) << _ROWS_SHIFT)


@inlined
def _flush(words, base, begin, end, has_h, is_first, out):
    """Add words to the counters (rows, gradients and, if they differ, curvatures); clear them.

    The first words of a node are written over what the counters hold. Word 0 is of cell `base`.
    """
    for i in range(np.uint64(begin), np.uint64(end)):
        at = i - np.uint64(base)
        word = words[at]
        rows = np.int64(word >> _ROWS_SHIFT)
        words[at] = np.uint64(0)
        if has_h:
            g, h = np.int64(word & _H_MASK), np.int64((word >> _H_SHIFT) & _H_MASK)
            out[i, 0] = rows if is_first else out[i, 0] + rows
            out[i, 1] = g if is_first else out[i, 1] + g
            out[i, 2] = h if is_first else out[i, 2] + h
        else:
            g = np.int64(word & _G_MASK)
            out[i, 0] = rows if is_first else out[i, 0] + rows
            out[i, 1] = g if is_first else out[i, 1] + g


@inlined
def _fill_places(place, node, slot, has_missing, add, shift, cells, times):
    """Write the cell of every code in a slot, times a number."""
    for code in range(_CODES):
        place[code] = ((code + add[node, slot]) >> np.int64(shift[node, slot])) * times
    if has_missing:
        place[MISSING] = (cells[node, slot] - 1) * times


@inlined
def _add_pairs(
    codes, columns, entries, begin, end, node, slot, is_missing, g_mask, h_mask,
    add, shift, cells, offset, words, base, places, pairs,
):  # fmt: skip
    """Add entries to the cells of a node's slot and of the next one, by their pairs."""
    n_a, n_b = np.uint64(cells[node, slot]), np.uint64(cells[node, slot + 1])
    place_a, place_b = places[0], places[1]
    _fill_places(place_a, node, slot, is_missing[0], add, shift, cells, np.int64(n_b))
    _fill_places(place_b, node, slot + 1, is_missing[1], add, shift, cells, 1)
    for i in range(n_a * n_b):
        pairs[i] = np.uint64(0)
    column_a, column_b = columns
    for i in range(begin, end):
        entry = entries[i]
        row = np.uint64(entry & ROW_MASK)
        pair = np.uint64(place_a[codes[column_a + row]]) + np.uint64(place_b[codes[column_b + row]])
        pairs[pair] += _load(entry, g_mask, h_mask)
    at_a, at_b = np.uint64(offset[node, slot] - base), np.uint64(offset[node, slot + 1] - base)
    for a in range(n_a):
        total = np.uint64(0)
        for b in range(n_b):
            word = pairs[a * n_b + b]
            total += word
            words[at_b + b] += word
        words[at_a + a] += total


@inlined
def _add_segment(
    codes, origin, height, entries, begin, end, node, slots, has_missing, g_mask, h_mask,
    feature, add, shift, cells, offset, words, base, places, pairs,
):  # fmt: skip
    """Add the entries `begin` to `end` of a block to the cells of a node's slots."""
    slot, last = slots
    while slot < last and feature[node, slot] >= 0:
        f = feature[node, slot]
        column_a = origin + np.uint64(f) * height
        at_a = np.uint64(offset[node, slot] - base)
        add_a = np.uint64(add[node, slot])
        shift_a = np.uint64(shift[node, slot])
        g = feature[node, slot + 1] if slot + 1 < last else -1
        if g >= 0:
            column_b = origin + np.uint64(g) * height
            n_pairs = np.int64(cells[node, slot]) * np.int64(cells[node, slot + 1])
            if n_pairs <= _PAIRS and np.int64(end - begin) >= _MANY * n_pairs:
                _add_pairs(
                    codes, (column_a, column_b), entries, begin, end, node, slot,
                    (has_missing[f], has_missing[g]), g_mask, h_mask, add, shift, cells, offset,
                    words, base, places, pairs,
                )  # fmt: skip
                slot += 2
                continue
        if g >= 0 and not has_missing[f] and not has_missing[g]:
            at_b = np.uint64(offset[node, slot + 1] - base)
            add_b = np.uint64(add[node, slot + 1])
            shift_b = np.uint64(shift[node, slot + 1])
            for i in range(begin, end):
                entry = entries[i]
                row = np.uint64(entry & ROW_MASK)
                load = _load(entry, g_mask, h_mask)
                words[at_a + ((np.uint64(codes[column_a + row]) + add_a) >> shift_a)] += load
                words[at_b + ((np.uint64(codes[column_b + row]) + add_b) >> shift_b)] += load
            slot += 2
            continue
        # Without missing values, no code is 255 and this cell is never touched.
        missing_cell = np.uint64(cells[node, slot] - 1)
        for i in range(begin, end):
            entry = entries[i]
            code = codes[column_a + np.uint64(entry & ROW_MASK)]
            cell = (np.uint64(code) + add_a) >> shift_a
            cell = missing_cell if code == MISSING else cell
            words[at_a + cell] += _load(entry, g_mask, h_mask)
        slot += 1


@inlined
def _sum_part(
    codes, block_start, n_columns, entries, starts, ends, blocks, nodes, slots,
    feature, add, shift, cells, offset, has_missing, has_h, out,
):  # fmt: skip
    """Sum the rows that a range of nodes has in a range of blocks, in a range of slots."""
    first, last = nodes
    final = min(slots[1], feature.shape[1]) - 1
    g_mask = np.uint32(0xFF) if has_h else np.uint32(0xFFFF)
    h_mask = np.uint32(0xFF) if has_h else np.uint32(0)
    pending = np.zeros(last - first, np.int64)
    is_first = np.ones(last - first, np.bool_)
    places = np.empty((2, _CODES), np.uint16)
    pairs = np.empty(_PAIRS, np.uint64)
    cell = offset[first, slots[0]]
    words = np.zeros(offset[last - 1, final] + cells[last - 1, final] - cell, np.uint64)
    for block in range(blocks[0], blocks[1]):
        base = np.uint64(block_start[block])
        height = np.uint64(block_start[block + 1]) - base
        origin = base * np.uint64(n_columns)
        for node in range(first, last):
            begin, end = starts[node, block], ends[node, block]
            low, high = offset[node, slots[0]], offset[node, final] + cells[node, final]
            while begin < end:
                stop = min(end, begin + _MOST - pending[node - first])
                _add_segment(
                    codes, origin, height, entries, np.uint64(begin), np.uint64(stop), node, slots,
                    has_missing, g_mask, h_mask, feature, add, shift, cells, offset, words,
                    cell, places, pairs,
                )  # fmt: skip
                pending[node - first] += stop - begin
                begin = stop
                if pending[node - first] == _MOST:
                    _flush(words, cell, low, high, has_h, is_first[node - first], out)
                    pending[node - first], is_first[node - first] = 0, False
    for node in range(first, last):
        low, high = offset[node, slots[0]], offset[node, final] + cells[node, final]
        _flush(words, cell, low, high, has_h, is_first[node - first], out)


@kernel
def sum_gradients(
    codes, block_start, n_columns, entries, starts, ends, part_start, items, slots,
    feature, add, shift, cells, offset, has_missing, has_h, out,
):  # fmt: skip
    """Sum the rows of a range of items in a range of slots; what `out` held there is lost.

    A part of the table has the blocks `part_start[part]` to `part_start[part + 1]`, and sums of its
    own, `out[part]`. An item is a node in a part: first all nodes in the first part, and so on.
    """
    n_nodes = feature.shape[0]
    item = items[0]
    while item < items[1]:
        part = item // n_nodes
        first = item - part * n_nodes
        last = min(n_nodes, first + items[1] - item)
        _sum_part(
            codes, block_start, n_columns, entries, starts, ends,
            (part_start[part], part_start[part + 1]), (first, last), slots, feature, add, shift,
            cells, offset, has_missing, has_h, out[part],
        )  # fmt: skip
        item += last - first
