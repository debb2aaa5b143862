"""Encode counts as bits: Rice codes, with one parameter per run of counters.

A counter x in a run with parameter k is written as x >> k ones, a zero, then its k low bits. Small
counters, like those of deep nodes, take one or two bits each. The size is known without encoding.

Histograms whose totals are known need no parameters: they follow from the rows and cells of a slot.
The last cell, and cells after the last row, are not written.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel, spliced

_ESCAPE = 40  # this many ones announce a counter written in 64 bits
_PARAMETER_BITS = 6


@inlined
def _parameter(total, n):
    """Return a good parameter for `n` counters that sum to `total`: about log2 of the mean."""
    k = 0
    while n > 0 and (n << (k + 1)) <= total + (n >> 2) and k < 62:
        k += 1
    return k


@kernel
def packed_bits(counters, run_ends):
    """Return how many bits `pack` writes for non-negative counters."""
    bits = np.int64(0)
    begin = np.uint64(0)
    for run in range(run_ends.shape[0]):
        end = np.uint64(run_ends[run])
        n = np.int64(end - begin)
        total = np.int64(0)
        largest = np.int32(0)
        for i in range(begin, end):
            total += counters[i]
            largest = max(largest, counters[i])
        k = _parameter(total, n)
        bits += _PARAMETER_BITS + n * (k + 1)
        if largest >> k >= _ESCAPE:
            for i in range(begin, end):
                ones = np.int64(counters[i]) >> k
                bits += ones if ones < _ESCAPE else _ESCAPE + 64 - k - 1
        elif k == 0:  # as in most small nodes: a counter x is x ones
            bits += total
        else:
            for i in range(begin, end):
                bits += counters[i] >> k
        begin = end
    return bits


@kernel
def packed_bits_of_sums(sums, run_ends):
    """Return how many bits `pack` writes for weights, and for the sums of cells with a weight."""
    weight_bits = np.int64(0)
    sum_bits = np.int64(0)
    begin = np.int64(0)
    for run in range(run_ends.shape[0]):
        end = run_ends[run]
        weights = np.int64(0)
        total = np.int64(0)
        held = np.int64(0)
        for i in range(begin, end):
            weights += sums[i, 0]
            total += sums[i, 1]
            held += sums[i, 0] > 0
        k = _parameter(weights, end - begin)
        j = _parameter(total, held)
        weight_bits += _PARAMETER_BITS + (end - begin) * (k + 1)
        sum_bits += _PARAMETER_BITS + held * (j + 1)
        for i in range(begin, end):
            if sums[i, 0] > 0:
                ones = np.int64(sums[i, 0]) >> k
                weight_bits += ones if ones < _ESCAPE else _ESCAPE + 64 - k - 1
                ones = np.int64(sums[i, 1]) >> j
                sum_bits += ones if ones < _ESCAPE else _ESCAPE + 64 - j - 1
        begin = end
    return weight_bits, sum_bits


@inlined
def _ones(value, k):
    """Return how many bits a number takes besides its parameter's low bits and a zero."""
    ones = value >> k
    return ones if ones < _ESCAPE else _ESCAPE + 64 - k - 1


@inlined
def _parameter_near(total, n, near):
    """Return what `_parameter` does; `near` is a guess, which costs nothing if it is right."""
    if n <= 0:
        return np.int64(0)
    goal, k = total + (n >> 2), near
    while k < 62 and n <= (goal >> (k + 1)):
        k += 1
    while k > 0 and n > (goal >> k):
        k -= 1
    return k


@spliced
def _spread(weight, g, h, n, g_mean, h_mean):
    """Write spreads in place of sums; return their totals."""
    g_total, h_total = np.int64(0), np.int64(0)
    for i in range(np.uint64(n)):
        apart = g[i] - weight[i] * g_mean
        g[i] = (apart << 1) ^ (apart >> 63)
        g_total += g[i]
        apart = h[i] - weight[i] * h_mean
        h[i] = (apart << 1) ^ (apart >> 63)
        h_total += h[i]
    return g_total, h_total


@spliced
def _ones_of_three(weight, g, h, n, k, g_k, h_k):
    """Return the ones of three streams, and all bits of the cells' ones."""
    ones, g_ones, h_ones, any_bits = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for i in range(np.uint64(n)):
        x, y, z = weight[i] >> k, g[i] >> g_k, h[i] >> h_k
        ones += x
        g_ones += y
        h_ones += z
        any_bits |= x | y | z
    return ones, g_ones, h_ones, any_bits


@inlined
def _measure_runs(sums, run_ends, first, last, means, found, held_here):
    """Do what `measure_spreads` does for the runs `first` to `last` of one part."""
    weight, g, h = held_here[0], held_here[1], held_here[2]
    k, g_k, h_k = np.int64(0), np.int64(0), np.int64(0)
    begin = np.int64(0) if first == 0 else run_ends[first - 1]
    for run in range(first, last):
        n = run_ends[run] - begin
        rows, g_total, h_total, held = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for i in range(np.uint64(n)):
            weight[i], g[i], h[i] = sums[begin + i, 0], sums[begin + i, 1], sums[begin + i, 2]
            rows += weight[i]
            g_total += g[i]
            h_total += h[i]
            held += weight[i] > 0
        begin = run_ends[run]
        if held == 0:  # sums are 0 where the weight is
            means[0, run], means[1, run] = 0, 0
            found[0] += _PARAMETER_BITS + n
            found[1] += _PARAMETER_BITS
            found[2] += _PARAMETER_BITS
            continue
        means[0, run], means[1, run] = g_total // rows, h_total // rows
        g_total, h_total = _spread(weight, g, h, n, means[0, run], means[1, run])
        k = _parameter_near(rows, n, k)
        g_k, h_k = _parameter_near(g_total, held, g_k), _parameter_near(h_total, held, h_k)
        ones, g_ones, h_ones, any_bits = _ones_of_three(weight, g, h, n, k, g_k, h_k)
        if any_bits >= _ESCAPE:  # some cell may have that many ones
            ones, g_ones, h_ones = np.int64(0), np.int64(0), np.int64(0)
            for i in range(n):
                ones += _ones(weight[i], k)
                g_ones += _ones(g[i], g_k)
                h_ones += _ones(h[i], h_k)
        found[0] += _PARAMETER_BITS + n * (k + 1) + ones
        found[1] += _PARAMETER_BITS + held * (g_k + 1) + g_ones
        found[2] += _PARAMETER_BITS + held * (h_k + 1) + h_ones


@kernel
def measure_spreads(sums, run_ends, n_nodes, items, slots, longest, means, found):
    """Add the bits that `pack` writes for weights and spreads; write the means of all runs.

    A spread is what a sum differs from the weight times its run's mean: twice that if it is above,
    twice that less one if it is below. Only cells with a weight have one. Items are nodes in parts,
    as `sum_gradients` takes them; each node has as many runs as every other, and `slots` says which
    of them are measured. `longest` is the most cells of a run. `means` are (parts, 2, runs), and
    `found` (parts, 3).
    """
    n_slots = run_ends.shape[0] // n_nodes
    held_here = np.empty((3, longest), np.int64)
    for item in range(items[0], items[1]):
        part = item // n_nodes
        at = (item - part * n_nodes) * n_slots
        first, last = at + slots[0], at + min(slots[1], n_slots)
        _measure_runs(
            sums[part], run_ends, first, last, means[part], found[part], held_here
        )  # fmt: skip


@inlined
def _write(out, at, value, n_bits):
    """Write the low `n_bits` of `value` at bit `at` of zeroed bytes, low bit first."""
    done = 0
    while done < n_bits:
        byte = (at + done) >> 3
        place = (at + done) & 7
        n = min(8 - place, n_bits - done)
        piece = (value >> np.uint64(done)) & np.uint64((1 << n) - 1)
        out[byte] |= np.uint8(piece << np.uint64(place))
        done += n
    return at + n_bits


@kernel
def pack(counters, run_ends, out):
    """Write the runs into zeroed bytes; return the number of bits."""
    at = np.int64(0)
    begin = np.int64(0)
    for run in range(run_ends.shape[0]):
        end = run_ends[run]
        total = np.int64(0)
        for i in range(begin, end):
            total += counters[i]
        k = _parameter(total, end - begin)
        at = _write(out, at, np.uint64(k), _PARAMETER_BITS)
        for i in range(begin, end):
            at = _write_number(out, at, np.uint64(counters[i]), k)
        begin = end
    return at


@inlined
def _write_number(out, at, value, k):
    """Write a number with parameter `k`; return where it ends."""
    ones = np.int64(value >> np.uint64(k))
    if ones < _ESCAPE:
        at = _write(out, at, np.uint64((1 << ones) - 1), ones + 1)
        return _write(out, at, value, k)
    at = _write(out, at, np.uint64((1 << _ESCAPE) - 1), _ESCAPE)
    return _write(out, at, value, 64)


@inlined
def _read(data, at, n_bits):
    """Return `n_bits` from bit `at`."""
    value = np.uint64(0)
    done = 0
    while done < n_bits:
        byte = (at + done) >> 3
        place = (at + done) & 7
        n = min(8 - place, n_bits - done)
        piece = (np.uint64(data[byte]) >> np.uint64(place)) & np.uint64((1 << n) - 1)
        value |= piece << np.uint64(done)
        done += n
    return value


@kernel
def unpack(data, at, run_ends, out):
    """Read the runs from bit `at`; return the bit after them, or -1 if the data end too soon."""
    n_bits = data.shape[0] * 8
    begin = np.int64(0)
    for run in range(run_ends.shape[0]):
        end = run_ends[run]
        if at + _PARAMETER_BITS > n_bits:
            return np.int64(-1)
        k = np.int64(_read(data, at, _PARAMETER_BITS))
        at += _PARAMETER_BITS
        for i in range(begin, end):
            at, out[i] = _read_number(data, at, n_bits, k)
            if at < 0:
                return at
        begin = end
    return at


@inlined
def _read_number(data, at, n_bits, k):
    """Return where a number with parameter `k` ends, -1 if the data end before, and the number."""
    ones = 0
    while ones < _ESCAPE and at < n_bits and data[at >> 3] >> np.uint8(at & 7) & 1:
        ones += 1
        at += 1
    width = 64 if ones == _ESCAPE else k
    at += 0 if ones == _ESCAPE else 1
    if at + width > n_bits:
        return np.int64(-1), np.int64(0)
    low = np.int64(_read(data, at, width))
    return at + width, low if ones == _ESCAPE else (np.int64(ones) << k) | low


@inlined
def _parameter_of_slot(rows, n, near):
    """Return a good parameter for a slot of `n` cells that hold some rows: log2 of the mean.

    `near` is a guess, which costs nothing if it is right.
    """
    k = near
    while (n << (k + 1)) <= rows:
        k += 1
    while k > 0 and (n << k) > rows:
        k -= 1
    return k


@spliced
def _sum_two(slot, n, k, j):
    """Return what `_sum_one` does, of two classes in one pass, which is vectorised."""
    total, ones, bits = np.int64(0), np.int64(0), np.int64(0)
    total_2, ones_2, bits_2 = np.int64(0), np.int64(0), np.int64(0)
    for c in range(n):
        x, y = np.int64(slot[2 * c]), np.int64(slot[2 * c + 1])
        total += x
        total_2 += y
        ones += x >> k
        ones_2 += y >> j
        bits |= x
        bits_2 |= y
    return (total, ones, bits), (total_2, ones_2, bits_2)


@spliced
def _sum_one(slot, n, step, k):
    """Return every `step`-th counter's sum, their sum shifted right by `k`, and all their bits."""
    total, ones, bits = np.int64(0), np.int64(0), np.int64(0)
    for c in range(n):
        x = np.int64(slot[c * step])
        total += x
        ones += x >> k
        bits |= x
    return total, ones, bits


@inlined
def _ones_of_slot(slot, n, step, k):
    """Return the bits of a slot's counters besides their zeros and low bits, one by one."""
    bits = np.int64(0)
    for c in range(n):
        bits += _ones(np.int64(slot[c * step]), k)
    return bits


@spliced
def _slot_bits(slot, n, step, k, ones, any_bits):
    """Return how many bits one class of a slot takes; `ones` is the sum of its counters >> k."""
    last = n - 1
    while slot[last * step] == 0:
        last -= 1
    written = min(last + 1, n - 1)
    if any_bits >> k >= _ESCAPE:  # some counter may be that large
        return written * (k + 1) + _ones_of_slot(slot, written, step, k)
    return written * (k + 1) + ones - (np.int64(slot[last * step]) >> k if last == n - 1 else 0)


@inlined
def _measure_two_classes(counters, cells, totals):
    """Do what `measure_histograms` does, if there are two classes: half the time for each."""
    k, j = 0, 0
    bits, begin = np.int64(0), np.int64(0)
    for node in range(cells.shape[0]):
        rows, rows_2 = np.int64(-1), np.int64(-1)
        for n in cells[node]:
            if n == 0:
                continue
            slot = counters[begin : begin + 2 * n]
            begin += 2 * n
            if rows < 0:
                one, two = _sum_two(slot, n, 0, 0)
                rows, rows_2 = one[0], two[0]
            n_cells = np.int64(n)
            k = _parameter_of_slot(rows, n_cells, k)
            j = _parameter_of_slot(rows_2, n_cells, j)
            one, two = _sum_two(slot, n, k, j)
            if one[0] != rows or two[0] != rows_2 or (one[2] | two[2]) < 0:
                return np.int64(-1)
            if rows:
                bits += _slot_bits(slot, n_cells, 2, k, one[1], one[2])
            if rows_2:
                bits += _slot_bits(slot[1:], n_cells, 2, j, two[1], two[2])
        totals[node, 0], totals[node, 1] = max(rows, np.int64(0)), max(rows_2, np.int64(0))
    return bits


@kernel
def measure_histograms(counters, cells, totals):
    """Write each node's totals by class; return how many bits `pack_histograms` writes.

    -1: the slots of a node differ in their totals, or a counter is negative.
    """
    n_classes = totals.shape[1]
    if n_classes == 2:
        return _measure_two_classes(counters, cells, totals)
    shifts = np.zeros(n_classes, np.int64)
    bits, begin = np.int64(0), np.int64(0)
    totals[:] = -1
    for node in range(cells.shape[0]):
        for n in cells[node]:
            for k in range(n_classes):
                if n == 0:
                    continue
                slot = counters[begin + k :]
                if totals[node, k] < 0:
                    totals[node, k] = _sum_one(slot, n, n_classes, 0)[0]
                rows, n_cells = totals[node, k], np.int64(n)
                shift = shifts[k] = _parameter_of_slot(rows, n_cells, shifts[k])
                found, ones, any_bits = _sum_one(slot, n, n_classes, shift)
                if found != rows or any_bits < 0:
                    return np.int64(-1)
                if found:
                    bits += _slot_bits(slot, n_cells, n_classes, shift, ones, any_bits)
            begin += n * n_classes
        for k in range(n_classes):
            totals[node, k] = max(totals[node, k], np.int64(0))
    return bits


@kernel
def pack_histograms(counters, cells, totals, at, out):
    """Write histograms with known totals into zeroed bytes from bit `at`; return the bit after."""
    n_classes = totals.shape[1]
    begin = np.int64(0)
    for node in range(cells.shape[0]):
        for n in cells[node]:
            for k in range(n_classes):
                rows = totals[node, k]
                p = _parameter_of_slot(rows, n, 0) if n else 0
                for c in range(n - 1):
                    if rows == 0:
                        break
                    x = np.int64(counters[begin + c * n_classes + k])
                    at = _write_number(out, at, np.uint64(x), p)
                    rows -= x
            begin += n * n_classes
    return at


@kernel
def unpack_histograms(data, cells, totals, out):
    """Read histograms with known totals; return the number of bits read.

    -1: the data end too soon, or a slot has more rows than its node.
    """
    n_classes, n_bits = totals.shape[1], data.shape[0] * 8
    at, begin = np.int64(0), np.int64(0)
    for node in range(cells.shape[0]):
        for n in cells[node]:
            for k in range(n_classes):
                rows = totals[node, k]
                p = _parameter_of_slot(rows, n, 0) if n else 0
                for c in range(n):
                    x = rows
                    if rows and c < n - 1:
                        at, x = _read_number(data, at, n_bits, p)
                        if at < 0 or x < 0 or x > rows:
                            return np.int64(-1)
                    out[begin + c * n_classes + k] = x
                    rows -= x
            begin += n * n_classes
    return at
