"""Place the counters of histograms side by side in words, each in as many bits as it can need.

Parties add their words modulo 2^64. No field overflows, because all parties know a bound of its
sum, so no carry leaves a field.
"""

import numpy as np

from spinney.trees._kernels.compiling import kernel, spliced

_WORD = 64
_OPEN = 8  # words that are filled at the same time, so that few bits stay empty


@spliced
def _bit_length(value):
    bits = 0
    while value >> bits:
        bits += 1
    return bits


@kernel
def slot_widths(
    feature, add, shift, cells, has_missing, low, high, parent,
    above_feature, above_add, above_shift, above_cells, above_offset, above, most, widths,
):  # fmt: skip
    """Write the bits that each counter of each slot's cells can need, (n_nodes, n_slots, width).

    A cell holds at most what its parent's cells that it touches held together (`above`), and what
    its node holds (`most`). Without the parent's histogram, or its column, the node's counts.
    """
    width = most.shape[1]
    largest = np.zeros(width, np.int64)
    held = np.zeros(width, np.int64)
    for node in range(feature.shape[0]):
        for slot in range(feature.shape[1]):
            column = feature[node, slot]
            if column < 0:
                widths[node, slot, :] = 0
                continue
            over = above_feature.shape[1]
            if above.shape[0] > 0:
                over = 0
                while over < above_feature.shape[1] and above_feature[parent[node], over] != column:
                    over += 1
            if over == above_feature.shape[1]:
                for k in range(width):
                    widths[node, slot, k] = _bit_length(most[node, k])
                continue
            largest[:] = 0
            line = parent[node]
            apart = 1 if has_missing[column] else 0
            begin, last = above_offset[line, over], above_cells[line, over] - apart - 1
            for cell in range(cells[node, slot]):
                held[:] = 0
                if apart and cell == cells[node, slot] - 1:
                    first, final = last + 1, last + 1
                else:
                    bin_low = (np.int64(cell) << shift[node, slot]) - add[node, slot]
                    bin_high = bin_low + (np.int64(1) << shift[node, slot]) - 1
                    bin_low = max(bin_low, np.int64(low[node, column]))
                    bin_high = min(bin_high, np.int64(high[node, column]))
                    first = max((bin_low + above_add[line, over]) >> above_shift[line, over], 0)
                    final = min((bin_high + above_add[line, over]) >> above_shift[line, over], last)
                for at in range(first, final + 1):
                    for k in range(width):
                        held[k] += above[begin + at, k]
                for k in range(width):
                    largest[k] = max(largest[k], held[k])
            for k in range(width):
                widths[node, slot, k] = _bit_length(min(largest[k], most[node, k]))


@kernel
def place(cells, widths, places):
    """Write the bit at which each counter begins, in the order of the cells; return the words.

    A counter goes into the fullest of a few open words that has room for it. One without bits has
    the place -1.
    """
    open_word = np.zeros(_OPEN, np.int64)
    room = np.zeros(_OPEN, np.int64)
    n_words = 0
    at = 0
    for node in range(cells.shape[0]):
        for slot in range(cells.shape[1]):
            for _ in range(cells[node, slot]):
                for k in range(widths.shape[2]):
                    wanted = np.int64(widths[node, slot, k])
                    if wanted == 0:  # after a full word its place would be beyond the words
                        places[at, k] = -1
                        continue
                    best = -1
                    emptiest = 0
                    for i in range(_OPEN):
                        if room[i] >= wanted and (best < 0 or room[i] < room[best]):
                            best = i
                        if room[i] < room[emptiest]:
                            emptiest = i
                    if best < 0:
                        best = emptiest
                        open_word[best] = n_words
                        room[best] = _WORD
                        n_words += 1
                    places[at, k] = _WORD * open_word[best] + _WORD - room[best]
                    room[best] -= wanted
                at += 1
    return n_words


@kernel
def fill(counters, places, words):
    """Add counters to their places in words that are 0."""
    for i in range(counters.shape[0]):
        for k in range(counters.shape[1]):
            if places[i, k] < 0:
                continue
            where = np.uint64(places[i, k])
            words[where >> np.uint64(6)] += np.uint64(counters[i, k]) << (where & np.uint64(63))


@kernel
def read(words, cells, widths, places, counters):
    """Read the counters of all cells from their places."""
    at = 0
    for node in range(cells.shape[0]):
        for slot in range(cells.shape[1]):
            for _ in range(cells[node, slot]):
                for k in range(widths.shape[2]):
                    n_bits = np.uint64(widths[node, slot, k])
                    if n_bits == 0:
                        counters[at, k] = 0
                        continue
                    where = np.uint64(places[at, k])
                    value = words[where >> np.uint64(6)] >> (where & np.uint64(63))
                    if n_bits < 64:
                        value &= (np.uint64(1) << n_bits) - np.uint64(1)
                    counters[at, k] = np.int64(value)
                at += 1
