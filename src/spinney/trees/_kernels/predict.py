"""Send rows down the trees of a finished forest.

Values are stored row by row (n_rows, n_columns) in float32, NaN = missing, categories by their bin.
Sixteen rows descend in step, so that sixteen memory loads are in flight at once; a leaf is its own
child, so no test for the end is needed. Where every value is a number, a node is two words, so that
a tree stays in a core's cache, and the sixteen nodes are variables, which stay in registers: in an
array, each step would wait for the one before to be written.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel

STEP = 16
_WORDS = np.uint64(2)  # of a node


@kernel
def has_nan(values):
    """Return whether any value is missing."""
    found = False
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            found |= np.isnan(values[row, column])
    return found


@inlined
def _child(at, start, values, nodes, cuts, mask, bits):
    """Return the node below `at`, for the row whose values begin at `start`."""
    place = _WORDS * np.uint64(at)
    word = nodes[place]
    right = np.uint32(values[start + np.uint64(word & mask)] > cuts[place + np.uint64(1)])
    return (word >> bits) + right


@inlined
def _four_children(at, start, width, values, nodes, cuts, mask, bits):
    """Return the nodes below those that four rows have reached."""
    a, b, c, d = at
    second, third = start + width, start + np.uint64(2) * width
    return (
        _child(a, start, values, nodes, cuts, mask, bits),
        _child(b, second, values, nodes, cuts, mask, bits),
        _child(c, third, values, nodes, cuts, mask, bits),
        _child(d, third + width, values, nodes, cuts, mask, bits),
    )


@inlined
def _write_four(at, root, leaves, row):
    """Write what four rows have reached."""
    first, place = np.uint32(root), np.uint64(row)
    leaves[place] = first + at[0]
    leaves[place + np.uint64(1)] = first + at[1]
    leaves[place + np.uint64(2)] = first + at[2]
    leaves[place + np.uint64(3)] = first + at[3]


@inlined
def _walk_plain(values, root, depth, words, bits, leaves):
    """Find leaves of at least `STEP` rows, if no value is missing and no split on a category.

    A node's first word is its left child, numbered within the tree, above `bits` of its feature;
    the second is its threshold.
    """
    n_rows = values.shape[0]
    width = np.uint64(values.shape[1])
    flat = values.reshape(-1)
    nodes = words[_WORDS * np.uint64(root) :]
    cuts = nodes.view(np.float32)
    bits = np.uint32(bits)
    mask = (np.uint32(1) << bits) - np.uint32(1)
    four = np.uint64(4) * width
    top = (np.uint32(0), np.uint32(0), np.uint32(0), np.uint32(0))
    for begin in range(0, n_rows, STEP):
        row = min(begin, n_rows - STEP)  # walking some rows twice avoids a test
        first = np.uint64(row) * width
        second, third = first + four, first + np.uint64(2) * four
        p, q, r, s = top, top, top, top
        for _ in range(depth):
            p = _four_children(p, first, width, flat, nodes, cuts, mask, bits)
            q = _four_children(q, second, width, flat, nodes, cuts, mask, bits)
            r = _four_children(r, third, width, flat, nodes, cuts, mask, bits)
            s = _four_children(s, third + four, width, flat, nodes, cuts, mask, bits)
        _write_four(p, root, leaves, row)
        _write_four(q, root, leaves, row + 4)
        _write_four(r, root, leaves, row + 8)
        _write_four(s, root, leaves, row + 12)


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
def leaves_of_tree(values, plain, root, depth, words, bits, links, thresholds, bin_sets, leaves):
    """Write the leaf of every row in the tree at `root`; nodes are numbered over the forest.

    `links[node]` holds the left child, the feature, and how to treat missing values and categories.
    """
    if plain and values.shape[0] >= STEP:
        _walk_plain(values, root, depth, words, bits, leaves)
    else:
        _walk_any(values, root, depth, links, thresholds, bin_sets, leaves)


@kernel
def add_predictions(
    values, plain, roots, depths, words, bits, links, thresholds, bin_sets, leaf_values, skip, out
):
    """Add the leaf values of every tree to `out` (n_rows, n_outputs), tree by tree.

    If `skip` (n_rows, n_trees) is given, trees that saw the row are left out.
    """
    n_rows = values.shape[0]
    n_outputs = leaf_values.shape[1]
    leaves = np.empty(n_rows, np.uint32)
    for tree in range(roots.shape[0]):
        leaves_of_tree(
            values, plain, roots[tree], depths[tree], words, bits, links, thresholds, bin_sets,
            leaves,
        )  # fmt: skip
        if n_outputs == 2 and skip.shape[0] == 0:  # of two classes; no loop for two steps
            for row in range(n_rows):
                leaf = leaves[row]
                out[row, 0] += leaf_values[leaf, 0]
                out[row, 1] += leaf_values[leaf, 1]
            continue
        for row in range(n_rows):
            if skip.shape[0] == 0 or not skip[row, tree]:
                for k in range(n_outputs):
                    out[row, k] += leaf_values[leaves[row], k]
