"""Copy the nodes of one level to their places in the finished forest.

`place` maps an index in the level to an index in the forest; -1: there is no such node.
"""

from spinney.trees._kernels.compiling import inlined, kernel


@inlined
def _place_leaf(i, at, moments, left, out_moments):
    """Write the fields that every node has; a leaf is its own left child."""
    left[at] = at
    for k in range(moments.shape[1]):
        out_moments[at, k] = moments[i, k]


@kernel
def lay_out_level(
    moments, is_open, place, child_place, level_feature, stays, level_threshold,
    level_missing_left, level_subset, level_gain, n_sets,
    feature, threshold, left, missing_left, subset, gain, out_moments,
):  # fmt: skip
    """Write the nodes of a level whose open nodes are decided; sets are numbered from `n_sets`."""
    n_open = 0
    n_split = 0
    for i in range(place.shape[0]):
        at = place[i]
        if at < 0:
            continue
        _place_leaf(i, at, moments, left, out_moments)
        if not is_open[i]:
            continue
        node = n_open
        n_open += 1
        column = level_feature[node]
        if column < 0:
            continue
        if stays[node]:
            n_split += 1
            continue
        feature[at] = column
        left[at] = child_place[2 * n_split]
        missing_left[at] = level_missing_left[node]
        gain[at] = level_gain[n_split]
        if level_subset[node] >= 0:
            subset[at] = n_sets
            n_sets += 1
        else:
            threshold[at] = level_threshold[node]
        n_split += 1


@kernel
def lay_out_leaves(moments, place, left, out_moments):
    """Write the nodes of the deepest level."""
    for i in range(place.shape[0]):
        if place[i] >= 0:
            _place_leaf(i, place[i], moments, left, out_moments)


@kernel
def class_shares(moments, class_weight, out):
    """Write each class's share of a node's weight; equal shares if the weight is zero."""
    n_classes = moments.shape[1]
    for i in range(moments.shape[0]):
        total = 0.0
        for c in range(n_classes):
            out[i, c] = max(moments[i, c], 0) * class_weight[c]
            total += out[i, c]
        for c in range(n_classes):
            out[i, c] = out[i, c] / total if total > 0.0 else 1.0 / n_classes
