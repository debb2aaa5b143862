"""Map values to bins, and count them to find pooled quantiles.

Values are float32 (n_columns, n_rows), NaN = missing. A float32 is also read as an *ordered word*:
its bits, changed so that words sort as the numbers do.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel

MISSING = np.uint8(255)
_SIGN = np.uint32(0x80000000)


@inlined
def highest_code(codes):
    """Return the code of missing values: the highest of its type, which has one byte or two."""
    return (np.uint64(1) << np.uint64(8 * codes.itemsize)) - np.uint64(1)


@kernel
def ordered_words(values, out):
    """Write the ordered word of each value; +0 and -0 share one. The word of NaN is undefined."""
    bits = (values + np.float32(0.0)).view(np.uint32)
    for i in range(values.shape[0]):
        word = bits[i]
        out[i] = ~word if word & _SIGN else word | _SIGN


@kernel
def count_digits(words, missing, step, lead_table, second_table, third_table, shift, mask, counts):
    """Add words to the counts by (cell, next digit).

    One look-up for each known digit finds the cell of a word: by its leading 12 bits, then by the
    next 7, then by the next 7. Requested cells begin at 1; 0 means "not a requested cell".
    """
    low = np.uint32(shift)
    for i in range(words.shape[0]):
        word = words[i]
        cell = lead_table[word >> np.uint32(20)]
        if step > 0:
            cell = second_table[cell, (word >> np.uint32(13)) & np.uint32(127)]
        if step > 1:
            cell = third_table[cell, (word >> np.uint32(6)) & np.uint32(127)]
        if cell > 0 and not missing[i]:
            counts[cell - np.uint16(1), (word >> low) & np.uint32(mask)] += 1


@kernel
def refine_ranks(counts, row, within, digit, here, upto, following):
    """Find each rank in a row of counts: it is the `within`-th of the values counted there.

    Writes the digit that has it, the values of that digit, those up to it, and the next digit that
    has values (-1: none). Return whether every row holds that many.
    """
    n_digits = counts.shape[1]
    for i in range(row.shape[0]):
        held = counts[row[i]]
        total, at = np.int64(0), 0
        while at < n_digits and total + held[at] < within[i]:
            total += held[at]
            at += 1
        if at == n_digits:
            return False
        digit[i], here[i], upto[i] = at, held[at], total + held[at]
        at += 1
        while at < n_digits and held[at] <= 0:
            at += 1
        following[i] = at if at < n_digits else -1
    return True


@kernel
def count_leading(words, missing, counts):
    """Count words by their leading 12 bits."""
    for i in range(words.shape[0]):
        if not missing[i]:
            counts[words[i] >> np.uint32(20)] += 1


@kernel
def bin_numbers(values, edges, out):
    """Write for each value how many of the 255 `edges` (padded with infinity) lie below it."""
    for i in range(values.shape[0]):
        value = values[i]
        at = np.uint32(0)
        step = np.uint32(128)
        while step > 0:  # branch-free binary search over 255 sorted edges
            at += step if edges[at + step - np.uint32(1)] < value else np.uint32(0)
            step >>= np.uint32(1)
        out[i] = MISSING if np.isnan(value) else np.uint8(at)


@kernel
def bin_categories(values, bin_of_category, out):
    """Write the bin of each category; that of a missing one is the highest code there is."""
    missing = highest_code(out)
    for i in range(values.shape[0]):
        value = values[i]
        out[i] = missing if np.isnan(value) else bin_of_category[np.int64(value)]
