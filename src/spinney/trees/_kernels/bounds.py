"""Narrow what is known of nodes' rows until classes and children add up."""

from spinney.trees._kernels.compiling import inlined, kernel


@inlined
def _raise_to(bounds, node, column, value):
    """Raise a lower bound; return whether it was below."""
    if bounds[node, column] < value:
        bounds[node, column] = value
        return True
    return False


@inlined
def _lower_to(bounds, node, column, value):
    """Lower an upper bound; return whether it was above."""
    if bounds[node, column] > value:
        bounds[node, column] = value
        return True
    return False


@inlined
def _add_up_classes(least, most, node):
    """Let a node's classes add up to its rows, the last column; return whether that told more."""
    n_classes = least.shape[1] - 1
    if n_classes == 0:
        return False
    fewest, largest = 0, 0
    for k in range(n_classes):
        fewest += least[node, k]
        largest += most[node, k]
    changed = _raise_to(least, node, n_classes, fewest)
    changed |= _lower_to(most, node, n_classes, largest)
    for k in range(n_classes):
        own_least, own_most = least[node, k], most[node, k]
        others_most, others_least = largest - own_most, fewest - own_least
        changed |= _raise_to(least, node, k, least[node, n_classes] - others_most)
        changed |= _lower_to(most, node, k, most[node, n_classes] - others_least)
    return changed


@kernel
def narrow_once(feature, left, least, most):
    """Narrow all nodes' bounds, from the leaves up and down again; return whether some changed.

    `least` and `most` have a column for each class and one for all rows. Children come after their
    parents.
    """
    changed = False
    for node in range(feature.shape[0] - 1, -1, -1):
        changed |= _add_up_classes(least, most, node)
        if feature[node] >= 0:
            one = left[node]
            for k in range(least.shape[1]):
                changed |= _raise_to(least, node, k, least[one, k] + least[one + 1, k])
                changed |= _lower_to(most, node, k, most[one, k] + most[one + 1, k])
    for node in range(feature.shape[0]):
        changed |= _add_up_classes(least, most, node)
        if feature[node] >= 0:
            for one in range(left[node], left[node] + 2):
                other = 2 * left[node] + 1 - one
                for k in range(least.shape[1]):
                    changed |= _raise_to(least, one, k, least[node, k] - most[other, k])
                    changed |= _lower_to(most, one, k, most[node, k] - least[other, k])
    return changed
