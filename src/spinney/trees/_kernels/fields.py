"""Write histograms as digits in words that are added while masked; see `spinney.trees.fields`.

A run is one class of one node. Words come in groups of `n_lanes`; a row is one digit's width of all
words of a group. The digits of runs fill row after row, so adjacent cells go to adjacent words,
which the compiler vectorises.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel, spliced

_WORD_BITS = 64
_PLACE_BITS = 9
_NOT_NAMED = 0xFF
_MOST_WRAPS = 3


@spliced
def _bit_length(value):
    n = 0
    while value >> n:
        n += 1
    return n


@spliced
def _n_digits(n_cells, wraps):
    """Return how many cells of a slot have a digit: the first ones follow from sums."""
    return max(n_cells - (2 if wraps else 1), 0)


@spliced
def _has_sum(n_cells, wraps):
    """Return whether a slot has a weighted sum."""
    return wraps > 0 and n_cells > 1


@spliced
def _cost(cells, bits, wraps, index_bits):
    """Return how many bits the slots of a run take; -1: their cells cannot be named."""
    cost = np.int64(0)
    for n in cells:
        cost += _n_digits(n, wraps) * bits
        if _has_sum(n, wraps):
            if n >= index_bits.shape[1] or index_bits[wraps, n] == _NOT_NAMED:
                return np.int64(-1)
            cost += bits + np.int64(index_bits[wraps, n])
    return cost


@kernel
def choose_bits(cells, held, index_bits, bits):
    """Choose the width of each run's digits so that its slots take the fewest bits."""
    for node in range(cells.shape[0]):
        for k in range(held.shape[1]):
            most = _bit_length(held[node, k])
            least, bits[node, k] = _cost(cells[node], most, 0, index_bits), most
            for m in range(most - 1, max(most - 3, -1), -1):
                cost = _cost(cells[node], m, held[node, k] >> m, index_bits)
                if 0 <= cost < least:
                    least, bits[node, k] = cost, m


@spliced
def _room(group, bits, most, used, filled):
    """Return the first group, from one on, with room for a row of numbers up to `most`; fill it.

    `used` are the bits of each group's words, `filled` what a word holds at most: under 2^64.
    """
    while used[group] + bits > _WORD_BITS or np.uint64(most) > (~filled[group]) >> np.uint64(
        used[group]
    ):
        group += 1
    filled[group] += np.uint64(most) << np.uint64(used[group])
    used[group] += bits
    return group


@kernel
def place_wholes(cells, held, bits, index_bits, n_lanes, used, filled, whole):
    """Place the whole numbers of runs, from the widest on: the first bit of each, among all words.

    They carry nothing, so a row may hold numbers of different width.
    """
    n_classes = held.shape[1]
    count = np.zeros(_WORD_BITS + 1, np.int64)
    for run in range(whole.shape[0]):
        node, k = run // n_classes, run % n_classes
        n_bits, wraps = _bit_length(held[node, k]), held[node, k] >> bits[node, k]
        whole[run, 0] = n_bits
        count[n_bits] += 1
        for s in range(cells.shape[1]):
            n = cells[node, s]
            width = n_bits + np.int64(index_bits[wraps, n]) if _has_sum(n, wraps) else 0
            whole[run, s + 1] = width
            count[width] += 1
    at = np.zeros(_WORD_BITS + 1, np.int64)  # the next number of each width, in order of width
    for width in range(_WORD_BITS, 1, -1):
        at[width - 1] = at[width] + count[width]
    row_at = np.empty((at[1] + count[1] + n_lanes - 1) // n_lanes, np.int64)
    width, group = _WORD_BITS, np.int64(0)
    for row in range(row_at.shape[0]):
        while at[width] + count[width] <= row * n_lanes:
            width, group = width - 1, np.int64(0)
        group = _room(group, width, (np.int64(1) << width) - 1, used, filled)
        row_at[row] = group * n_lanes * _WORD_BITS + used[group] - width
    for run in range(whole.shape[0]):
        for s in range(whole.shape[1]):
            width = whole[run, s]
            if width:
                whole[run, s] = row_at[at[width] // n_lanes] + at[width] % n_lanes * _WORD_BITS
                at[width] += 1


@kernel
def place_digits(cells, held, bits, n_lanes, used, filled, order, row, lane, row_word, row_shift):
    """Place the digits of runs above all whole numbers, from the widest on.

    For each run: its place in this order, and the row and lane in which its digits begin. For each
    row: its first word, and its shift there.
    """
    n_classes, widths = held.shape[1], range(_WORD_BITS, -1, -1)
    n_digits, n_runs = np.zeros(_WORD_BITS + 1, np.int64), np.zeros(_WORD_BITS + 1, np.int64)
    most = np.zeros(_WORD_BITS + 1, np.int64)
    for run in range(order.shape[0]):
        node, k = run // n_classes, run % n_classes
        m = bits[node, k]
        lane[run] = 0
        for n in cells[node]:
            lane[run] += _n_digits(n, held[node, k] >> m)
        n_runs[m] += 1
        n_digits[m] += lane[run]
        most[m] = max(most[m], held[node, k])
    next_run, next_row = np.int64(0), np.int64(0)
    for m in widths:
        n_rows, group = (n_digits[m] + n_lanes - 1) // n_lanes if m else 0, np.int64(0)
        n_runs[m], next_run = next_run, next_run + n_runs[m]
        n_digits[m] = next_row * n_lanes
        for _ in range(n_rows):
            group = _room(group, m, most[m], used, filled)
            row_word[next_row], row_shift[next_row] = group * n_lanes, used[group] - m
            next_row += 1
    for run in range(order.shape[0]):
        m = bits[run // n_classes, run % n_classes]
        order[n_runs[m]] = run
        n_runs[m] += 1
        size = lane[run]
        row[run], lane[run] = n_digits[m] // n_lanes, n_digits[m] % n_lanes
        n_digits[m] += size


@inlined
def _total_of(counters, n, step):
    """Return the sum of every `step`-th counter, and a bit that is set if one is negative."""
    total, signs = np.int64(0), np.int64(0)
    if step == 2:  # two classes are vectorised
        for c in range(n):
            total += counters[2 * c]
            signs |= counters[2 * c]
    else:
        for c in range(n):
            total += counters[c * step]
            signs |= counters[c * step]
    return total, signs


@kernel
def are_histograms(counters, cells, held):
    """Return whether all slots of a node have the same totals, which are not above those held."""
    n_classes = held.shape[1]
    begin = np.int64(0)
    for node in range(cells.shape[0]):
        for k in range(n_classes):
            at, total = begin + k, np.int64(-1)
            for n in cells[node]:
                found, signs = _total_of(counters[at:], n, n_classes)
                at += n * n_classes
                total = found if total < 0 and n else total
                if n and (found != total or found > held[node, k] or signs < 0):
                    return False
        begin = at - n_classes + 1
    return True


@kernel
def pack(
    counters, cells, held, bits, n_lanes, order, row, lane, whole, row_word, row_shift, cell_ends,
    first_weight, weights, words,
):  # fmt: skip
    """Write runs into words that are 0."""
    n_classes = held.shape[1]
    slot = np.empty(n_lanes + 2, np.uint32)  # cells side by side, which the compiler vectorises
    for run in order:
        node, k = run // n_classes, run % n_classes
        if held[node, k] == 0:
            continue
        m = np.int64(bits[node, k])
        wraps = held[node, k] >> m
        at = (0 if node == 0 else cell_ends[node - 1]) * n_classes + k
        here, to = row[run], lane[run]
        has_total = False
        for s in range(cells.shape[1]):
            n = np.int64(cells[node, s])
            _gather(counters[at:], n, n_classes, slot)
            at += n * n_classes
            if n and not has_total:
                _add_whole(words, whole[run, 0], _sum(slot, n))
                has_total = True
            if _has_sum(n, wraps):
                heavy = weights[first_weight[wraps, n] :]
                _add_whole(words, whole[run, s + 1], _weighed(slot, heavy, n))
            c = n - _n_digits(n, wraps)
            while m and c < n:
                many = min(n - c, n_lanes - to)
                _add_digits(slot[c:], words[row_word[here] + to :], many, row_shift[here])
                c += many
                to += many
                if to == n_lanes:
                    here, to = here + 1, 0


@spliced
def _gather(counters, n, step, slot):
    """Write every `step`-th counter side by side; two classes are vectorised."""
    if step == 2:
        for c in range(n):
            slot[c] = counters[2 * c]
    else:
        for c in range(n):
            slot[c] = counters[c * step]


@spliced
def _scatter(slot, n, step, counters):
    """Write numbers to every `step`-th counter."""
    if step == 2:
        for c in range(n):
            counters[2 * c] = slot[c]
    else:
        for c in range(n):
            counters[c * step] = slot[c]


@spliced
def _sum(slot, n):
    total = np.uint64(0)
    for c in range(n):
        total += np.uint64(slot[c])
    return total


@spliced
def _weighed(slot, weights, n):
    total = np.uint64(0)
    for c in range(n):
        total += np.uint64(slot[c]) * np.uint64(weights[c])
    return total


@spliced
def _add_digits(digits, lanes, n, shift):
    place = np.uint64(shift)
    for j in range(n):
        lanes[j] += np.uint64(digits[j]) << place


@spliced
def _take_digits(words, row_word, row_shift, n_lanes, row, lane, slot, c, n, bits):
    """Read the digits of a slot from cell `c` on."""
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    if bits == 0:
        slot[:n] = 0
        return
    while c < n:
        many = min(n - c, n_lanes - lane)
        lanes, place = words[row_word[row] + lane :], np.uint64(row_shift[row])
        digits = slot[c:]
        for j in range(many):
            digits[j] = (lanes[j] >> place) & mask
        c += many
        row, lane = row + 1, 0


@spliced
def _add_whole(words, at, value):
    words[at >> 6] += value << np.uint64(at & 63)


@spliced
def _take_whole(words, at, bits):
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    return np.int64((words[at >> 6] >> np.uint64(at & 63)) & mask)


@spliced
def _unwrap(slot, n, total, weighed, bits, wraps, weights, places, wrapped):
    """Find the first two cells of a slot and its wrapped cells; return how many wrapped.

    -1: no cells have this total and this weighted sum.
    """
    mask = (np.int64(1) << bits) - 1
    weighed -= np.int64(_weighed(slot[2:], weights[2:], n - 2))
    slot[1] = weighed & mask
    total -= np.int64(_sum(slot[2:], n - 2)) + (weighed & mask)
    slot[0] = total & mask
    n_wrapped = total >> bits
    index = (weighed >> bits) & (places.shape[0] - 1)
    if n_wrapped == 0 and index == 0:  # as mostly
        return np.int64(0)
    named = np.int64(places[index])
    if n_wrapped < 0 or n_wrapped > wraps or named >> (_PLACE_BITS * n_wrapped):
        return np.int64(-1)
    for w in range(n_wrapped):
        c = (named >> (_PLACE_BITS * w)) & ((1 << _PLACE_BITS) - 1)
        if c >= n:
            return np.int64(-1)
        wrapped[w] = c
        slot[c] += np.uint32(np.int64(1) << bits)
    return n_wrapped


@spliced
def _take_off(words, row_word, row_shift, n_lanes, row, digit, bits):
    """Take off the one that a digit carried into the digit above it."""
    row += digit // n_lanes
    above = np.int64(row_shift[row]) + bits
    if above < _WORD_BITS:
        words[row_word[row] + digit % n_lanes] -= np.uint64(1) << np.uint64(above)


@kernel
def unpack(
    words, cells, held, bits, n_lanes, order, row, lane, whole, row_word, row_shift, cell_ends,
    first_weight, weights, index_bits, first_sum, places, out,
):  # fmt: skip
    """Read runs from words, or from a sum of words; return whether they are histograms.

    `words` is written into: once a digit is known, what it carried into the digit above is taken
    off. Runs and slots come in the order of their digits, so no digit is read before that.
    """
    n_classes = held.shape[1]
    slot = np.zeros(n_lanes + 2, np.uint32)
    wrapped = np.empty(_MOST_WRAPS, np.int64)
    for run in order:
        node, k = run // n_classes, run % n_classes
        at = (0 if node == 0 else cell_ends[node - 1]) * n_classes + k
        m = np.int64(bits[node, k])
        wraps = held[node, k] >> m
        n_bits = _bit_length(held[node, k])
        total = _take_whole(words, whole[run, 0], n_bits) if n_bits else np.int64(0)
        if total > held[node, k]:
            return False
        here, to = row[run], lane[run]
        for s in range(cells.shape[1]):
            n = np.int64(cells[node, s])
            if n == 0:
                continue
            skipped = n - _n_digits(n, wraps)
            _take_digits(words, row_word, row_shift, n_lanes, here, to, slot, skipped, n, m)
            n_wrapped = np.int64(0)
            if _has_sum(n, wraps):
                index = np.int64(index_bits[wraps, n])
                weighed = _take_whole(words, whole[run, s + 1], n_bits + index)
                heavy = weights[first_weight[wraps, n] :]
                sums = places[first_sum[wraps, n] :][: 1 << index]
                n_wrapped = _unwrap(slot, n, total, weighed, m, wraps, heavy, sums, wrapped)
            else:
                left = total - np.int64(_sum(slot[1:], n - 1))
                slot[0] = left
                n_wrapped = min(left, np.int64(0))
            if n_wrapped < 0:
                return False
            for c in wrapped[:n_wrapped]:
                if m and c >= skipped:
                    _take_off(words, row_word, row_shift, n_lanes, here, to + c - skipped, m)
            _scatter(slot, n, n_classes, out[at:])
            at += n * n_classes
            to += n - skipped
            if to >= n_lanes:
                here, to = here + 1, to - n_lanes
    return True
