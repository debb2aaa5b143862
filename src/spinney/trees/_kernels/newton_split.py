"""Find the best cut of each open node from its summed gradients.

The score of a child is `-(2 G v + (H + l2) v^2)`, which is `G^2 / (H + l2)` at its best value
v = -G / (H + l2). A node's bounds and the direction of a column, if given, limit the values.

Ties go to the first slot, then to the lowest cut. The same sums give the same cut everywhere: sums
are whole numbers, and each operation on floats is one that every processor rounds alike.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel
from spinney.trees._kernels.split import _keep_cut, _keep_set, _sort_by_share

_SUPPORT = 10.0  # curvature that draws a category's place towards the middle, as in scikit-learn


@inlined
def _value(g, h, l2, low, high):
    """Return the best value of a child within the node's bounds."""
    return min(max(-g / (h + l2), low), high)


@inlined
def _whole_score(g, h, l2, low, high):
    """Return the score of a node that is not cut."""
    own = _value(g, h, l2, low, high)
    return -2.0 * g * own - (h + l2) * own * own


@inlined
def _score(g_left, h_left, g, h, l2, low, high, direction):
    """Return the score of a cut; minus infinity if it runs against the column's direction."""
    g_right, h_right = g - g_left, h - h_left
    left = _value(g_left, h_left, l2, low, high)
    right = _value(g_right, h_right, l2, low, high)
    if (right - left) * direction < 0.0:
        return -np.inf
    on_left = 2.0 * g_left * left + (h_left + l2) * left * left
    on_right = 2.0 * g_right * right + (h_right + l2) * right * right
    return -on_left - on_right


@inlined
def _scan(sums, at, n_cuts, left, total, units, least, bounds, best, lefts, scores):
    """Scan the cuts of a number: return the best score above `best`, and its cell (-1: none).

    Sums, scores and the search have separate loops, so that the middle one, with the divisions,
    has no branches and is vectorised.
    """
    zero, unit_g, unit_h, l2 = units
    least_rows, least_h = least
    low, high, direction = bounds
    has_h = sums.shape[1] == 3
    n, g, h = left[0], left[1], left[2]
    for cell in range(n_cuts):
        rows = sums[at + cell, 0]
        n += rows
        g += sums[at + cell, 1] - zero * rows
        h += sums[at + cell, 2] if has_h else rows
        lefts[0, cell] = n
        lefts[1, cell] = g
        lefts[2, cell] = h
    n_all, h_whole = float(total[0]), float(total[2])
    g_all, h_all = total[1] * unit_g, total[2] * unit_h
    is_free = direction == 0 and low == -np.inf and high == np.inf
    if is_free:
        for cell in range(np.uint64(n_cuts)):
            n_left, h_left = lefts[0, cell], lefts[2, cell]
            g_here, h_here = lefts[1, cell] * unit_g, h_left * unit_h
            a = g_here * g_here / (h_here + l2)
            rest = g_all - g_here
            b = rest * rest / (h_all - h_here + l2)
            enough = (n_left >= least_rows) & (n_all - n_left >= least_rows)
            enough &= (h_left >= least_h) & (h_whole - h_left >= least_h)
            scores[cell] = a + b if enough else -np.inf
    else:
        for cell in range(n_cuts):
            n_left, h_left = lefts[0, cell], lefts[2, cell]
            scores[cell] = -np.inf
            if min(n_left, n_all - n_left) >= least_rows and (
                min(h_left, h_whole - h_left) >= least_h
            ):
                scores[cell] = _score(
                    lefts[1, cell] * unit_g, h_left * unit_h, g_all, h_all, l2, low, high, direction
                )
    found = np.int64(-1)
    for cell in range(n_cuts):
        if scores[cell] > best:
            best = scores[cell]
            found = np.int64(cell)
    return best, found


@inlined
def _cells_by_slope(sums, at, n_cells, units, order, share):
    """Write the cells that hold rows into `order`, by G / (H + l2); return how many there are."""
    zero, unit_g, unit_h, l2 = units
    n_used = 0
    for cell in range(n_cells):
        rows = sums[at + cell, 0]
        if rows > 0:
            h = sums[at + cell, 2] if sums.shape[1] == 3 else rows
            g = (sums[at + cell, 1] - zero * rows) * unit_g
            share[cell] = g / (h * unit_h + l2 + _SUPPORT)
            order[n_used] = cell
            n_used += 1
    _sort_by_share(order, n_used, share)
    return n_used


@inlined
def _take(sums, cell, zero, into):
    """Add a cell's rows, gradients and curvatures to a triple."""
    rows = sums[cell, 0]
    into[0] += rows
    into[1] += sums[cell, 1] - zero * rows
    into[2] += sums[cell, 2] if sums.shape[1] == 3 else rows


@inlined
def _best_set(
    sums, at, n_cells, missing_cell, total, units, least, bounds, best, node, slot,
    order, share, left, kept, best_left,
):  # fmt: skip
    """Scan the sets of a category's cells, in order of their slopes; return the best score."""
    zero, unit_g, unit_h, l2 = units
    least_rows, least_h = least
    n_used = _cells_by_slope(sums, at, n_cells, units, order, share)
    left[:] = 0
    for i in range(n_used - 1):
        _take(sums, at + order[i], zero, left)
        if min(left[0], total[0] - left[0]) < least_rows:
            continue
        if min(left[2], total[2] - left[2]) < least_h:
            continue
        score = _score(
            left[1] * unit_g, left[2] * unit_h, total[1] * unit_g, total[2] * unit_h, l2,
            bounds[0], bounds[1], 0,
        )  # fmt: skip
        if score > best:
            best = score
            rest_left = 2 * left[0] > total[0]
            _keep_set(kept, node, slot, order, i + 1, n_used, missing_cell, rest_left)
            best_left[node, 0] = left[0]
            best_left[node, 1] = left[1]
            best_left[node, 2] = left[2]
    return best


@kernel
def best_newton_splits(
    sums, first, last, feature, add, shift, cells, offset, is_category, has_missing,
    units, least, low, high, direction, is_bare,
    total, best_slot, best_cut, best_missing_left, best_gain, best_left, best_set,
):  # fmt: skip
    """Find the best cut of nodes `first` to `last`; `best_slot` is -1 if there is none.

    `sums` is (cells, 2 or 3): rows, gradients with `zero` added for each row, and curvatures unless
    they are all the same. `total` receives each node's rows, gradients and curvatures. `units` are
    that zero, what a gradient and a curvature are worth, and the regularisation; `least` the fewest
    rows and curvature of a child; `low` and `high` bound the values of a node's children, and
    `direction` (-1, 0 or 1) says how a column's values may change the prediction. A gain is the
    score of a cut minus that of the node or, if `is_bare`, the score of the cut alone.
    """
    zero, unit_g, unit_h, l2 = units
    lefts = np.zeros((3, 256))
    scores = np.zeros(256)
    share = np.zeros(256)
    order = np.empty(256, np.int64)
    left = np.zeros(3, np.int64)
    kept = (best_slot, best_cut, best_missing_left, best_set)
    for node in range(first, last):
        whole = total[node]
        whole[:] = 0
        for cell in range(cells[node, 0]):
            _take(sums, offset[node, 0] + cell, zero, whole)
        best_slot[node] = -1
        best_gain[node] = 0.0
        if whole[0] == 0 or whole[2] < least[1]:
            continue
        g_all, h_all = whole[1] * unit_g, whole[2] * unit_h
        parent = _whole_score(g_all, h_all, l2, low[node], high[node])
        best = parent
        for slot in range(feature.shape[1]):
            column = feature[node, slot]
            if column < 0:
                break
            at = offset[node, slot]
            n_cells = cells[node, slot]
            missing_cell = n_cells - 1 if has_missing[column] else -1
            bounds = (low[node], high[node], direction[column])
            if is_category[column]:
                best = _best_set(
                    sums, at, n_cells, missing_cell, whole, units, least, bounds, best, node, slot,
                    order, share, left, kept, best_left,
                )  # fmt: skip
                continue
            n_regular = n_cells - 1 if has_missing[column] else n_cells
            n_missing = sums[at + missing_cell, 0] if missing_cell >= 0 else 0
            for side in range(2 if n_missing > 0 else 1):  # missing right, then missing left
                left[:] = 0
                if side == 1:
                    _take(sums, at + missing_cell, zero, left)
                n_cuts = n_regular if n_missing > 0 and side == 0 else n_regular - 1
                score, cell = _scan(
                    sums, at, max(n_cuts, 0), left, whole, units, least, bounds, best, lefts, scores
                )
                if cell >= 0:
                    best = score
                    for k in range(3):
                        best_left[node, k] = np.int64(lefts[k, cell])
                    missing_left = side == 1 if n_missing > 0 else 2 * best_left[node, 0] > whole[0]
                    _keep_cut(kept, node, slot, cell, missing_left, add, shift)
        best_gain[node] = best if is_bare else best - parent


@kernel
def gains_of_scores(total, slot, score, units, low, high, gain):
    """Write the scores of cuts minus those of their nodes, where there is a cut."""
    unit_g, unit_h, l2 = units
    for node in range(slot.shape[0]):
        if slot[node] >= 0:
            g, h = total[node, 1] * unit_g, total[node, 2] * unit_h
            gain[node] = score[node] - _whole_score(g, h, l2, low[node], high[node])
