"""Zhang and Shasha's edit distance of two ordered trees in post-order, with unit costs."""

import numpy as np

from spinney.trees._kernels.compiling import kernel


@kernel
def tree_distance(label, leftmost, roots, other_label, other_leftmost, other_roots):
    """Return the distance; `roots` are the last nodes of each leftmost leaf, in order."""
    n, m = label.shape[0], other_label.shape[0]
    distance = np.zeros((n, m), np.int32)
    forest = np.zeros((n + 1, m + 1), np.int32)
    for i in roots:
        for j in other_roots:
            low_i, low_j = leftmost[i], other_leftmost[j]
            for x in range(i - low_i + 2):
                forest[x, 0] = x
            for y in range(j - low_j + 2):
                forest[0, y] = y
            for x in range(low_i, i + 1):
                for y in range(low_j, j + 1):
                    at_x, at_y = x - low_i + 1, y - low_j + 1
                    least = min(forest[at_x - 1, at_y], forest[at_x, at_y - 1]) + 1
                    if leftmost[x] == low_i and other_leftmost[y] == low_j:
                        renamed = np.int32(label[x] != other_label[y])
                        least = min(least, forest[at_x - 1, at_y - 1] + renamed)
                        distance[x, y] = least
                    else:
                        whole = forest[leftmost[x] - low_i, other_leftmost[y] - low_j]
                        least = min(least, whole + distance[x, y])
                    forest[at_x, at_y] = least
    return distance[n - 1, m - 1]
