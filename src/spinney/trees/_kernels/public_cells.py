"""Count rows by node, cell and class; cells are equal parts of the range that a path leaves open.

A number's parts divide the bins `low` to `high` of its node; missing values have the last cell of
their column. A category has a cell for each bin.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel

_MISSING = 255


@inlined
def _cell(code, low, high, n_parts, is_category):
    """Return the cell of a bin in a column that is open from `low` to `high` in the node."""
    if code == _MISSING:
        return n_parts
    if is_category:
        return min(np.int64(code), n_parts - 1)
    first = np.int64(low)
    width = np.int64(high) - first + 1
    cell = np.int64(code) - first
    if width > n_parts:
        cell = cell * n_parts // width
    return max(0, min(cell, n_parts - 1))


@kernel
def count_cells(codes, node, target, low, high, parts, is_category, start, counts):
    """Add the rows of a block to `counts` (n_nodes, n_cells, n_classes).

    `codes` (n_columns, n_rows); `node` (n_rows,) is -1 for rows that are not counted; `low` and
    `high` (n_nodes, n_columns); the cells of column j begin at `start[j]`, its `parts[j]` first.
    """
    for column in range(codes.shape[0]):
        n_parts = parts[column]
        begin = start[column]
        for row in range(codes.shape[1]):
            at = node[row]
            if at < 0:
                continue
            ends = low[at, column], high[at, column]
            cell = _cell(codes[column, row], ends[0], ends[1], n_parts, is_category[column])
            counts[at, begin + cell, target[row]] += 1


@kernel
def count_pairs(codes, target, low, high, parts, is_category, start, counts):
    """Add the rows of a block, all of one node, to `counts` (n_cells, n_cells, n_classes).

    `low` and `high` (n_columns,); a row counts in every pair of its cells, in both orders.
    """
    n_columns = codes.shape[0]
    cells = np.empty(n_columns, np.int64)
    for row in range(codes.shape[1]):
        for column in range(n_columns):
            ends = low[column], high[column]
            cell = _cell(codes[column, row], ends[0], ends[1], parts[column], is_category[column])
            cells[column] = start[column] + cell
        for one in range(n_columns):
            for other in range(n_columns):
                counts[cells[one], cells[other], target[row]] += 1
