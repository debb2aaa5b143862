"""The smallest and largest bin of a node's rows, and cuts drawn between them."""

import numpy as np

from spinney.trees._kernels.binning import highest_code
from spinney.trees._kernels.compiling import kernel
from spinney.trees._kernels.cuts import SALT, cut_by_value
from spinney.trees._kernels.hashing import mixed
from spinney.trees._kernels.rows import ROW_MASK


@kernel
def node_ranges(
    codes, block_start, n_columns, entries, starts, ends, first, last, feature, subset, low, high
):
    """Write the smallest and largest bin of numbers, without missing values and categories."""
    missing = highest_code(codes)
    for block in range(block_start.shape[0] - 1):
        base = np.uint64(block_start[block])
        height = np.uint64(block_start[block + 1]) - base
        origin = base * np.uint64(n_columns)
        for node in range(first, last):
            begin = np.uint64(starts[node, block])
            end = np.uint64(ends[node, block])
            for slot in range(feature.shape[1]):
                if feature[node, slot] < 0 or begin == end:
                    break
                if subset[node, slot] >= 0:
                    continue
                column = origin + np.uint64(feature[node, slot]) * height
                lowest = low[node, slot]
                highest = high[node, slot]
                for i in range(begin, end):
                    code = codes[column + np.uint64(entries[i] & ROW_MASK)]
                    if np.uint64(code) != missing:
                        lowest = min(lowest, code)
                        highest = max(highest, code)
                low[node, slot] = lowest
                high[node, slot] = highest


@kernel
def cuts_between(keys, feature, subset, low, high, edges, begins, cut):
    """Draw a cut of every number between its smallest and largest bin, uniformly in values."""
    for node in range(feature.shape[0]):
        for slot in range(feature.shape[1]):
            column = feature[node, slot]
            if column < 0:
                break
            lowest = np.int64(low[node, slot])
            highest = np.int64(high[node, slot])
            if subset[node, slot] >= 0:
                continue
            if highest <= lowest:
                cut[node, slot] = highest
                continue
            word = mixed(keys[node] ^ SALT ^ mixed(np.uint64(column)))
            cut[node, slot] = cut_by_value(edges, begins, column, lowest, highest, mixed(word))
