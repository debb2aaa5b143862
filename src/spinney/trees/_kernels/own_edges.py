"""Find the bin edges of columns whose words are sorted: those that counting digit by digit finds.

`spinney.trees.quantiles` says what the edges are, and finds them by counting over parties.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel

_SIGN = np.uint32(0x80000000)
_ALL = np.uint32(0xFFFFFFFF)
_LEAD = np.uint32(20)  # bits below the leading 12
_ZERO_LEAD = np.uint32(0x800)


@inlined
def _next_start(word, following):
    """Return the first word of the cell that is known to follow: the next digit that differs."""
    differ = word ^ following
    if differ >> np.uint32(20):
        return following >> np.uint32(20) << np.uint32(20)
    if differ >> np.uint32(13):
        return following >> np.uint32(13) << np.uint32(13)
    if differ >> np.uint32(6):
        return following >> np.uint32(6) << np.uint32(6)
    return following


@inlined
def _roundest(word, following):
    """Return the word from `word` to before `following` whose number has the fewest bits set."""
    if word < _SIGN:
        # A negative word is the complement of its magnitude; no value has the word below zero's.
        low = _ALL - (min(following, _SIGN - np.uint32(1)) - np.uint32(1))
        high = _ALL - word
    else:
        low = word
        high = following - np.uint32(1)
    differ = (low - np.uint32(1)) ^ high
    top = np.uint32(0)
    step = np.uint32(16)
    while step > 0:  # the highest bit that differs
        top += step if differ >> (top + step) else np.uint32(0)
        step >>= np.uint32(1)
    rounded = high >> top << top
    return _ALL - rounded if word < _SIGN else rounded


@inlined
def _edges_of_few(words, out):
    """Write an edge after each distinct word but the last; return how many there are."""
    n_found = 0
    for i in range(1, words.shape[0]):
        if words[i] != words[i - 1]:
            out[n_found] = _roundest(words[i - 1], words[i])
            n_found += 1
    return n_found


@inlined
def _edges_at_ranks(words, zero_from, zero_to, max_bins, below_zero, out):
    """Write the edges at equal ranks of the words that are not zero, and those around zero."""
    n_zero = zero_to - zero_from
    n = words.shape[0] - n_zero
    n_found = 0
    if n_zero and zero_from and max_bins > 1:
        out[0] = below_zero
        n_found = 1
    if n_zero and n > zero_from and max_bins > 1 + n_found:
        out[n_found] = _SIGN
        n_found += 1
    n_ranks = max_bins - n_found
    place = 0  # the first word after the last edge
    for i in range(1, n_ranks):
        rank = i * n // n_ranks
        at = rank - 1 if rank <= zero_from else rank - 1 + n_zero
        if rank == 0 or at < place:  # the same word again
            continue
        place = at + 1
        while place < words.shape[0] and words[place] == words[at]:
            place += 1
        if (place - n_zero if place > zero_from else place) < n:  # others that are not zero follow
            out[n_found] = _roundest(words[at], _next_start(words[at], words[place]))
            n_found += 1
    return n_found


@inlined
def _sort_distinct(words, n):
    """Sort the first `n` words, which are nearly sorted; return how many of them differ."""
    for i in range(1, n):
        word = words[i]
        at = i
        while at > 0 and words[at - 1] > word:
            words[at] = words[at - 1]
            at -= 1
        words[at] = word
    n_distinct = min(n, 1)
    for i in range(1, n):
        if words[i] != words[i - 1]:
            words[n_distinct] = words[i]
            n_distinct += 1
    return n_distinct


@kernel
def words_of_columns(values, columns, words, n_held):
    """Write the ordered words of some columns, of missing values the last; count the others."""
    for line in range(columns.shape[0]):
        column = values[columns[line]]
        bits = column.view(np.uint32)
        n = 0
        for i in range(column.shape[0]):
            if np.isnan(column[i]):
                words[line, i] = _ALL
            else:
                word = bits[i] if column[i] != 0 else np.uint32(0)  # the two zeros are one
                words[line, i] = ~word if word & _SIGN else word | _SIGN
                n += 1
        n_held[line] = n


@kernel
def edges_of_sorted(words, n_held, max_bins, below_zero, out, n_edges):
    """Write the ordered words of each column's edges, and how many they are.

    `words` are ordered words, (n_columns, n_rows), each line sorted; of a line only the first
    `n_held` are values. `below_zero` is the word of the edge that divides zero from what is less.
    """
    for column in range(words.shape[0]):
        line = words[column, : n_held[column]]
        n_distinct = min(line.shape[0], 1)
        zero_from = 0
        zero_to = 0
        for i in range(line.shape[0]):
            n_distinct += i > 0 and line[i] != line[i - 1]
            zero_from += line[i] >> _LEAD < _ZERO_LEAD
            zero_to += line[i] >> _LEAD <= _ZERO_LEAD
        if n_distinct <= max_bins:
            found = _edges_of_few(line, out[column])
        else:
            found = _edges_at_ranks(line, zero_from, zero_to, max_bins, below_zero, out[column])
        n_edges[column] = _sort_distinct(out[column], found)
