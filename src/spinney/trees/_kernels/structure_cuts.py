"""Find the best cut of a node on a given column: counts by bin, and the search over cuts.

A number is cut between two bins, with missing values on either side; categories are divided into
two sets. Larger scores are better: Gini's sum c^2 / n, or the decrease of variance.
"""

from typing import Any

import numpy as np

from spinney.trees._kernels.compiling import kernel
from spinney.trees._kernels.split import _sort_by_share

MISSING = 255


@kernel
def _fill_words(order, n_left, n_used, rest_left, words):
    """Write which bins go left: the first in order; unknown bins go with the larger side."""
    for k in range(4):
        words[k] = ~np.uint64(0) if rest_left else np.uint64(0)
    for i in range(n_used):
        bit = np.uint64(1) << np.uint64(order[i] & 63)
        if i < n_left:
            words[order[i] >> 6] |= bit
        else:
            words[order[i] >> 6] &= ~bit


@kernel
def _gini(left, total, n_left, n_all):
    """Return the score of a cut: larger is better; the parent's score is sum c^2 / n."""
    sum_left = 0.0
    sum_right = 0.0
    for c in range(total.shape[0]):
        a = float(left[c])
        b = float(total[c] - left[c])
        sum_left += a * a
        sum_right += b * b
    return sum_left / n_left + sum_right / (n_all - n_left)


@kernel
def _variance(sum_left, n_left, sum_all, n_all):
    """Return the gain of a cut: D^2 / (N n_left n_right)."""
    d = float(sum_left) * n_all - float(sum_all) * n_left
    return d * d / (float(n_all) * n_left * (n_all - n_left))


@kernel
def _cut_score(left, total, n_left, n_all, n_classes, middle):
    if n_classes:
        return _gini(left, total, n_left, n_all)
    return _variance(left[1] - n_left * middle, n_left, total[1] - n_all * middle, n_all)


@kernel
def count(codes, target, rows, start, end, n_classes, hist):
    """Count the rows of a node by bin; return the lowest and highest bin that is not missing."""
    low: Any = 255
    high: Any = -1
    for at in range(start, end):
        row = rows[at]
        code = np.int64(codes[row])
        if n_classes:
            hist[code, target[row]] += 1
        else:
            hist[code, 0] += 1
            hist[code, 1] += target[row]
        if code != MISSING:
            low = min(low, code)
            high = max(high, code)
    return low, high


@kernel
def _rows_in(hist, code, n_classes):
    if not n_classes:
        return hist[code, 0]
    n = np.int64(0)
    for c in range(n_classes):
        n += hist[code, c]
    return n


@kernel
def search_numbers(hist, low, high, total, n_all, n_classes, middle, least, best, left):
    """Return the best cut of a number: score, cut, whether missing values go left."""
    n_missing = _rows_in(hist, MISSING, n_classes)
    found_cut = -1
    found_missing = False
    for side in range(2 if n_missing > 0 else 1):
        n_left = n_missing if side == 1 else np.int64(0)
        for c in range(total.shape[0]):
            left[c] = hist[MISSING, c] if side == 1 else 0
        code = low
        while code <= high:
            for c in range(total.shape[0]):
                left[c] += hist[code, c]
            n_left += _rows_in(hist, code, n_classes)
            following = code + 1
            while following <= high and _rows_in(hist, following, n_classes) == 0:
                following += 1
            n_right = n_all - n_left
            if n_left >= least and n_right >= least:
                score = _cut_score(left, total, n_left, n_all, n_classes, middle)
                if score > best:
                    best = score
                    # in the middle of the gap to the next value; above all values if none follows
                    found_cut = (code + following - 1) // 2 if following <= high else high
                    found_missing = side == 1 if n_missing > 0 else n_left > n_right
            code = following
    return best, found_cut, found_missing


@kernel
def search_categories(
    hist, n_bins, total, n_all, n_classes, middle, least, best, left, order, share, words
):
    """Return the best score of a set of bins, and the number of rows on its left, -1 for none."""
    n_used = 0
    for code in range(256):
        if (code < n_bins or code == MISSING) and _rows_in(hist, code, n_classes) > 0:
            order[n_used] = code
            n_used += 1
    found = np.int64(-1)
    # For two classes the best set is a prefix in order of a class's share (Breiman et al. 1984,
    # 4.2.2); for more, one ordering for each class is tried.
    for of_class in range(n_classes if n_classes > 2 else 1):
        for i in range(n_used):
            code = order[i]
            n_here = _rows_in(hist, code, n_classes)
            share[code] = float(hist[code, of_class if n_classes else 1]) / float(n_here)
        _sort_by_share(order, n_used, share)
        n_left = np.int64(0)
        for c in range(total.shape[0]):
            left[c] = 0
        for i in range(n_used - 1):
            for c in range(total.shape[0]):
                left[c] += hist[order[i], c]
            n_left += _rows_in(hist, order[i], n_classes)
            if n_left < least or n_all - n_left < least:
                continue
            score = _cut_score(left, total, n_left, n_all, n_classes, middle)
            if score > best:
                best = score
                found = n_left
                _fill_words(order, i + 1, n_used, 2 * n_left > n_all, words)
    return best, found


@kernel
def sum_left(hist, low, cut, missing_left, out):
    """Write the counts on the left of a number's cut."""
    for c in range(out.shape[0]):
        out[c] = hist[MISSING, c] if missing_left else 0
        for code in range(low, cut + 1):
            out[c] += hist[code, c]


@kernel
def sum_left_set(hist, low, high, words, out):
    """Write the counts on the left of a set of bins."""
    for c in range(out.shape[0]):
        out[c] = 0
    for code in range(low, high + 2):
        at = code if code <= high else MISSING
        if (words[at >> 6] >> np.uint64(at & 63)) & np.uint64(1):
            for c in range(out.shape[0]):
                out[c] += hist[at, c]
