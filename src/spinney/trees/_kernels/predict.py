"""Send rows down the trees of a finished forest.

Values are stored row by row (n_rows, n_columns) in float32, NaN = missing, categories by their bin.
Sixteen rows descend in step, so that sixteen memory loads are in flight at once; a leaf is its own
child, so no test for the end is needed.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel

_STEP = 16


@kernel
def has_nan(values):
    """Return whether any value is missing."""
    found = False
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            found |= np.isnan(values[row, column])
    return found


@inlined
def _walk_plain(values, root, depth, links, thresholds, leaves):
    """Find leaves if no value is missing and no split is on a category."""
    n_rows = values.shape[0]
    n_columns = np.uint64(values.shape[1])
    flat = values.reshape(-1)
    at = np.empty(_STEP, np.uint32)
    row_start = np.empty(_STEP, np.uint64)
    for begin in range(0, n_rows, _STEP):
        for i in range(_STEP):  # walking some last rows twice avoids a test
            at[i] = root
            row_start[i] = np.uint64(min(begin + i, n_rows - 1)) * n_columns
        for _ in range(depth):
            for i in range(_STEP):
                node = at[i]
                value = flat[row_start[i] + np.uint64(links[node, np.uint32(1)])]
                right = np.uint32(value > thresholds[node])
                at[i] = links[node, np.uint32(0)] + right
        for i in range(min(_STEP, n_rows - begin)):
            leaves[begin + i] = at[i]


@inlined
def _walk_any(values, root, depth, links, thresholds, bin_sets, leaves):
    """Find leaves with missing values and categories.

    `links[node, 2]` is 0 if missing values go right, 1 if they go left, and otherwise 2 plus the
    number of the node's bin set.
    """
    for row in range(values.shape[0]):
        node = np.uint32(root)
        for _ in range(depth):
            value = values[row, links[node, np.uint32(1)]]
            how = links[node, np.uint32(2)]
            if how == 0:
                right = not (value <= thresholds[node])
            elif how == 1:
                right = value > thresholds[node]
            else:
                code = np.uint64(255) if np.isnan(value) else np.uint64(value)
                word = bin_sets[how - np.uint32(2), code >> np.uint64(6)]
                right = (word >> (code & np.uint64(63))) & np.uint64(1) == 0
            node = np.uint32(links[node, np.uint32(0)] + np.uint32(right))
        leaves[row] = node


@kernel
def leaves_of_tree(values, plain, root, depth, links, thresholds, bin_sets, leaves):
    """Write the leaf of every row in the tree at `root`; nodes are numbered over the forest.

    `links[node]` holds the left child, the feature, and how to treat missing values and categories.
    """
    if plain:
        _walk_plain(values, root, depth, links, thresholds, leaves)
    else:
        _walk_any(values, root, depth, links, thresholds, bin_sets, leaves)


@kernel
def add_predictions(
    values, plain, roots, depths, links, thresholds, bin_sets, leaf_values, skip, out
):
    """Add the leaf values of every tree to `out` (n_rows, n_outputs), tree by tree.

    If `skip` (n_rows, n_trees) is given, trees that saw the row are left out.
    """
    n_rows = values.shape[0]
    n_outputs = leaf_values.shape[1]
    leaves = np.empty(n_rows, np.uint32)
    for tree in range(roots.shape[0]):
        leaves_of_tree(
            values, plain, roots[tree], depths[tree], links, thresholds, bin_sets, leaves
        )
        for row in range(n_rows):
            if skip.shape[0] == 0 or not skip[row, tree]:
                for k in range(n_outputs):
                    out[row, k] += leaf_values[leaves[row], k]
