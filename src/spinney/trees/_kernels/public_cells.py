"""Count rows by node, cell and class, over cells that are equal parts of what a path leaves open.

A number's parts are laid over the bins `low` to `high` of its node; missing values have the last
cell of their column. A category has a cell for each bin.
"""

import numpy as np

from spinney.trees._kernels.compiling import kernel

_MISSING = 255


@kernel
def count_cells(codes, node, target, low, high, parts, is_category, start, counts):
    """Add the rows of a block to `counts` (n_nodes, n_cells, n_classes).

    `codes` (n_columns, n_rows); `node` (n_rows,) is -1 for rows that are not asked about; `low` and
    `high` (n_nodes, n_columns); the cells of column j begin at `start[j]`, its `parts[j]` first.
    """
    for column in range(codes.shape[0]):
        n_parts = parts[column]
        begin = start[column]
        for row in range(codes.shape[1]):
            at = node[row]
            if at < 0:
                continue
            code = np.int64(codes[column, row])
            if code == _MISSING:
                cell = n_parts
            elif is_category[column]:
                cell = min(code, n_parts - 1)
            else:
                first = np.int64(low[at, column])
                width = np.int64(high[at, column]) - first + 1
                cell = code - first
                if width > n_parts:
                    cell = cell * n_parts // width
                cell = max(0, min(cell, n_parts - 1))
            counts[at, begin + cell, target[row]] += 1
