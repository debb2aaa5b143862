"""S1's adaptive histograms: streaming insertion and nearest-bin merging (Algorithms 2 and 3).

A histogram is a sorted run of means with the moments collected at each; unused cells come last and
are empty. Kalloori and Klingler (2022), equations 1 to 5.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel
from spinney.trees._kernels.rows import ROW_MASK, WEIGHT_SHIFT


@inlined
def _rows_at(moments, cell, is_regression):
    """Return how many rows a cell holds."""
    if is_regression:
        return moments[cell, 0]
    n = np.int64(0)
    for k in range(moments.shape[1]):
        n += moments[cell, k]
    return n


@inlined
def _merge_nearest(means, moments, used, is_regression):
    """Replace the two nearest bins by one at their weighted mean (equations 4 and 5)."""
    nearest = 0
    gap = np.inf
    for cell in range(used - 1):
        if means[cell + 1] - means[cell] < gap:
            gap = means[cell + 1] - means[cell]
            nearest = cell
    n = np.float64(_rows_at(moments, nearest, is_regression))
    m = np.float64(_rows_at(moments, nearest + 1, is_regression))
    means[nearest] = (n * means[nearest] + m * means[nearest + 1]) / (n + m)
    for k in range(moments.shape[1]):
        moments[nearest, k] += moments[nearest + 1, k]
    for cell in range(nearest + 1, used - 1):
        means[cell] = means[cell + 1]
        for k in range(moments.shape[1]):
            moments[cell, k] = moments[cell + 1, k]
    for k in range(moments.shape[1]):
        moments[used - 1, k] = 0
    return used - 1


@inlined
def _make_room(means, moments, used, value):
    """Return the cell of `value`; insert one if there is none (lines 5 to 9)."""
    low = 0
    high = used
    while low < high:
        middle = (low + high) >> 1
        if means[middle] < value:
            low = middle + 1
        else:
            high = middle
    if low < used and means[low] == value:
        return low, used
    for cell in range(used, low, -1):
        means[cell] = means[cell - 1]
        for k in range(moments.shape[1]):
            moments[cell, k] = moments[cell - 1, k]
    means[low] = value
    for k in range(moments.shape[1]):
        moments[low, k] = 0
    return low, used + 1


@kernel
def stream_level(
    values, targets, block_start, n_columns, entries, starts, ends, first, last,
    feature, cells, offset, is_category, has_missing, is_regression, out_means, out_moments,
):  # fmt: skip
    """Build the histograms of nodes `first` to `last`, row by row (Algorithm 2)."""
    width = out_moments.shape[1]
    most = 0
    for node in range(first, last):
        for slot in range(feature.shape[1]):
            most = max(most, cells[node, slot])
    means = np.empty(most + 1)
    moments = np.empty((most + 1, width), np.int64)
    for node in range(first, last):
        for slot in range(feature.shape[1]):
            column = feature[node, slot]
            if column < 0:
                break
            at = offset[node, slot]
            n_regular = cells[node, slot] - (1 if has_missing[column] else 0)
            used = 0
            moments[:] = 0
            for block in range(block_start.shape[0] - 1):
                base = block_start[block]
                n_rows = block_start[block + 1] - base
                begin = base * n_columns + np.int64(column) * n_rows
                for i in range(starts[node, block], ends[node, block]):
                    row = np.int64(entries[i] & ROW_MASK)
                    weight = np.int64(entries[i] >> WEIGHT_SHIFT)
                    target = np.int64(targets[base + row])
                    value = values[begin + row]
                    if np.isnan(value) or is_category[column]:
                        cell = n_regular if np.isnan(value) else np.int64(value)
                        if is_regression:
                            out_moments[at + cell, 0] += weight
                            out_moments[at + cell, 1] += weight * target
                        else:
                            out_moments[at + cell, target] += weight
                        continue
                    cell, used = _make_room(means, moments, used, np.float64(value))
                    if is_regression:
                        moments[cell, 0] += weight
                        moments[cell, 1] += weight * target
                    else:
                        moments[cell, target] += weight
                    if used > n_regular:  # line 10
                        used = _merge_nearest(means, moments, used, is_regression)
            for cell in range(used):
                out_means[at + cell] = means[cell]
                for k in range(width):
                    out_moments[at + cell, k] = moments[cell, k]


@kernel
def merge_level(
    party_means, party_moments, feature, cells, offset, is_category, has_missing, is_regression,
    out_means, out_moments,
):  # fmt: skip
    """Merge the parties' histograms slot by slot (Algorithm 3)."""
    n_parties = party_means.shape[0]
    width = out_moments.shape[1]
    most = 1
    for node in range(feature.shape[0]):
        for slot in range(feature.shape[1]):
            most = max(most, cells[node, slot])
    means = np.empty(most * n_parties + 1)
    moments = np.empty((most * n_parties + 1, width), np.int64)
    for node in range(feature.shape[0]):
        for slot in range(feature.shape[1]):
            column = feature[node, slot]
            if column < 0:
                break
            at = offset[node, slot]
            n_regular = cells[node, slot] - (1 if has_missing[column] else 0)
            plain = 0 if not is_category[column] else n_regular
            for party in range(n_parties):  # categories and missing values are simply added
                for cell in range(cells[node, slot]):
                    if cell < plain or cell >= n_regular:
                        for k in range(width):
                            out_moments[at + cell, k] += party_moments[party, at + cell, k]
            if is_category[column]:
                continue
            used = 0
            for party in range(n_parties):  # line 2: add all bins, equal ones together
                for cell in range(n_regular):
                    if _rows_at(party_moments[party], at + cell, is_regression) == 0:
                        break
                    place, used = _make_room(means, moments, used, party_means[party, at + cell])
                    for k in range(width):
                        moments[place, k] += party_moments[party, at + cell, k]
            while used > n_regular:  # line 4
                used = _merge_nearest(means, moments, used, is_regression)
            for cell in range(used):
                out_means[at + cell] = means[cell]
                for k in range(width):
                    out_moments[at + cell, k] = moments[cell, k]
