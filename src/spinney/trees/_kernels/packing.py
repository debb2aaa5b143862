"""Encode counts as bits: Rice codes, with one parameter per run of counters.

A counter x in a run with parameter k is written as x >> k ones, a zero, then its k low bits. Small
counters, like those of deep nodes, take one or two bits each. The size is known without encoding.

`pack_fields` is a different packing, for counters that are added while masked (secure aggregation):
whole words of fields side by side, wide enough for the sum over all parties, so that no field
overflows into the next.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel

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


@kernel
def packed_bits_of_spread(sums, run_ends, column):
    """Return how many bits `pack` writes for the runs' means of a column, and for its spread.

    The spread is what a sum differs from the weight times its run's mean: twice that if it is
    above, twice that less one if it is below. Only cells with a weight have one.
    """
    n_runs = run_ends.shape[0]
    means = np.zeros(n_runs, np.int64)
    spread_bits = np.int64(0)
    begin = np.int64(0)
    for run in range(n_runs):
        end = run_ends[run]
        weight = np.int64(0)
        total = np.int64(0)
        held = np.int64(0)
        for i in range(begin, end):
            if sums[i, 0] > 0:
                weight += sums[i, 0]
                total += sums[i, column]
                held += 1
        mean = total // weight if held > 0 else np.int64(0)
        means[run] = mean
        spread = np.int64(0)
        for i in range(begin, end):
            if sums[i, 0] > 0:
                apart = sums[i, column] - sums[i, 0] * mean
                spread += (apart << 1) ^ (apart >> 63)
        k = _parameter(spread, held)
        spread_bits += _PARAMETER_BITS + held * (k + 1)
        for i in range(begin, end):
            if sums[i, 0] > 0:
                apart = sums[i, column] - sums[i, 0] * mean
                ones = ((apart << 1) ^ (apart >> 63)) >> k
                spread_bits += ones if ones < _ESCAPE else _ESCAPE + 64 - k - 1
        begin = end
    whole = np.empty(1, np.int64)
    whole[0] = n_runs
    return packed_bits(means, whole), spread_bits


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
            value = np.uint64(counters[i])
            ones = np.int64(value >> np.uint64(k))
            if ones < _ESCAPE:
                at = _write(out, at, np.uint64((1 << ones) - 1), ones + 1)
                at = _write(out, at, value, k)
            else:
                at = _write(out, at, np.uint64((1 << _ESCAPE) - 1), _ESCAPE)
                at = _write(out, at, value, 64)
        begin = end
    return at


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
def unpack(data, run_ends, out):
    """Read the runs; return the number of bits read, or -1 if the data end too soon."""
    n_bits = data.shape[0] * 8
    at = np.int64(0)
    begin = np.int64(0)
    for run in range(run_ends.shape[0]):
        end = run_ends[run]
        if at + _PARAMETER_BITS > n_bits:
            return np.int64(-1)
        k = np.int64(_read(data, at, _PARAMETER_BITS))
        at += _PARAMETER_BITS
        for i in range(begin, end):
            ones = 0
            while ones < _ESCAPE and at < n_bits and data[at >> 3] >> np.uint8(at & 7) & 1:
                ones += 1
                at += 1
            width = 64 if ones == _ESCAPE else k
            at += 0 if ones == _ESCAPE else 1
            if at + width > n_bits:
                return np.int64(-1)
            low = np.int64(_read(data, at, width))
            out[i] = low if ones == _ESCAPE else (np.int64(ones) << k) | low
            at += width
        begin = end
    return at


@kernel
def pack_fields(counters, cell_ends, field_bits, word_ends, first, last, out):
    """Write the counters of nodes as fields, a run for each node and class.

    A field of a run has `field_bits[node, class]` bits, and as many as fit go into a word. A run's
    first counters are the first fields of its words, the next ones the second fields, and so on:
    adjacent counters go to adjacent words, which the compiler vectorises.
    """
    n_classes = field_bits.shape[1]
    for node in range(first, last):
        begin = 0 if node == 0 else cell_ends[node - 1]
        cells = counters[begin * n_classes : cell_ends[node] * n_classes]
        for k in range(n_classes):
            run = node * n_classes + k
            words = out[0 if run == 0 else word_ends[run - 1] : word_ends[run]]
            n, n_words = cell_ends[node] - begin, words.shape[0]
            for j in range(min(n, n_words)):
                words[j] = np.uint64(cells[j * n_classes + k])
            done, place = n_words, np.uint64(0)
            while done < n and n_words:
                place += np.uint64(field_bits[node, k])
                for j in range(min(n_words, n - done)):
                    words[j] |= np.uint64(cells[(done + j) * n_classes + k]) << place
                done += n_words


@kernel
def unpack_fields(words, cell_ends, field_bits, word_ends, first, last, out):
    """Read the words that `pack_fields` wrote, or a sum of several such."""
    n_classes = field_bits.shape[1]
    for node in range(first, last):
        begin = 0 if node == 0 else cell_ends[node - 1]
        cells = out[begin * n_classes : cell_ends[node] * n_classes]
        for k in range(n_classes):
            run = node * n_classes + k
            own = words[0 if run == 0 else word_ends[run - 1] : word_ends[run]]
            n, n_words = cell_ends[node] - begin, own.shape[0]
            if n_words == 0:  # a class of which the node holds no row
                for j in range(n):
                    cells[j * n_classes + k] = 0
            mask = (np.uint64(1) << np.uint64(field_bits[node, k])) - np.uint64(1)
            done, place = 0, np.uint64(0)
            while done < n and n_words:
                for j in range(min(n_words, n - done)):
                    cells[(done + j) * n_classes + k] = (own[j] >> place) & mask
                place += np.uint64(field_bits[node, k])
                done += n_words
