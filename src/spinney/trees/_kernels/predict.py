"""Follow rows down the trees of a finished forest.

Values lie row after row (n_rows, n_columns) in float32, NaN = missing, categories by their bin.
Sixteen rows walk in step, so that sixteen loads from memory are under way at once; a leaf is its
own child, so that nobody has to ask whether to stop.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel

_STEP = 16


@kernel
def has_nan(values):
    """Tell whether any value is missing."""
    found = False
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            found |= np.isnan(values[row, column])
    return found


@inlined
def _walk_plain(values, root, depth, links, thresholds, leaves):
    """Walk where no value is missing and no split is on a category."""
    n_rows = values.shape[0]
    n_columns = np.uint64(values.shape[1])
    flat = values.reshape(-1)
    at = np.empty(_STEP, np.uint32)
    row_start = np.empty(_STEP, np.uint64)
    for begin in range(0, n_rows, _STEP):
        for i in range(_STEP):  # the last rows are walked twice rather than tested for
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
    """Walk with missing values and categories.

    `links[node, 2]` is 0 where missing values go right, 1 where they go left, and else 2 more
    than the number of the node's bin set.
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

    `links[node]` holds left child, feature, and what happens to missing values and categories.
    """
    if plain:
        _walk_plain(values, root, depth, links, thresholds, leaves)
    else:
        _walk_any(values, root, depth, links, thresholds, bin_sets, leaves)


@kernel
def add_predictions(
    values, plain, roots, depths, links, thresholds, bin_sets, leaf_values, skip, out
):
    """Add the leaf values of every tree to `out` (n_rows, n_outputs), tree after tree.

    Where `skip` (n_rows, n_trees) is given it leaves out trees that saw the row.
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
