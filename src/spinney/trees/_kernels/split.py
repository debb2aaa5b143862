"""Find the best cut of each open node from its summed histogram.

Scores are written so that larger is better and a gain is `score - score of the parent`:

- gini:     sum over children of (sum_c w_c^2) / W          (W - score is W times the impurity)
- entropy:  sum over children of (sum_c f(w_c)) - f(W),     f(x) = x log2 x
- variance: D^2 / (N n_left n_right), D = s_left N - S n_left, already a gain

Ties go to the first slot, then to the lowest cut; a cut beside empty cells goes to their middle.
The same sums give the same cut everywhere.

A node without a cut says why: no column tells its rows apart (`ALIKE`), so that another column may;
or one does, but no cut of it is allowed (`APART`).
"""

import math

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel
from spinney.trees._kernels.logarithm import log2

ALIKE = -1
APART = -2
_WORD = np.uint64(1)


@inlined
def _f(weight, table):
    """Return x log2 x, from the table if it is long enough; it is empty unless x is whole."""
    if 0.0 <= weight < table.shape[0]:  # a party may lie: never index outside the table
        return table[np.int64(weight)]
    return weight * log2(weight) if weight > 0.0 else 0.0


@inlined
def _score(left, total, class_weight, is_gini, table, least):
    """Return the score of the cut that sends the counts `left` out of `total` left.

    The score is minus infinity if a side weighs less than `least`.
    """
    weight_left = 0.0
    weight_right = 0.0
    sum_left = 0.0
    sum_right = 0.0
    for c in range(total.shape[0]):
        a = left[c] * class_weight[c]
        b = (total[c] - left[c]) * class_weight[c]
        weight_left += a
        weight_right += b
        if is_gini:
            sum_left += a * a
            sum_right += b * b
        else:
            sum_left += _f(a, table)
            sum_right += _f(b, table)
    if weight_left < least or weight_right < least:
        return -np.inf
    if is_gini:
        return sum_left / weight_left + sum_right / weight_right
    return sum_left - _f(weight_left, table) + sum_right - _f(weight_right, table)


@inlined
def _parent_score(total, class_weight, is_gini, table):
    """Return the score of not splitting the node."""
    weight = 0.0
    score = 0.0
    for c in range(total.shape[0]):
        a = total[c] * class_weight[c]
        weight += a
        score += a * a if is_gini else _f(a, table)
    return score / weight if is_gini else score - _f(weight, table)


@inlined
def _best_of_two_classes(
    flat, at, n_cuts, left, total, weight, min_leaf, least, best, lefts, scores
):
    """Scan the cuts of a number for two classes and gini.

    Sums, scores and the search have separate loops, so that the middle one, with the divisions,
    has no branches and is vectorised. Returns the best score above `best`, its cell (-1: none) and
    the rows on its left.
    """
    total_0, total_1 = float(total[0]), float(total[1])
    n_all = total_0 + total_1
    weight_0, weight_1 = weight[0], weight[1]
    left_0, left_1 = left[0], left[1]
    place = np.uint64(2 * at)  # unsigned: a signed index costs a test for negative values
    for cell in range(np.uint64(n_cuts)):
        left_0 += flat[place]
        left_1 += flat[place + _WORD]
        place += _WORD + _WORD
        lefts[0, cell] = left_0
        lefts[1, cell] = left_1
    for cell in range(np.uint64(n_cuts)):
        n_0 = lefts[0, cell]
        n_1 = lefts[1, cell]
        a = n_0 * weight_0
        b = n_1 * weight_1
        c = (total_0 - n_0) * weight_0
        d = (total_1 - n_1) * weight_1
        on_left = a + b
        on_right = c + d
        score = ((a * a + b * b) * on_right + (c * c + d * d) * on_left) / (on_left * on_right)
        n_left = n_0 + n_1
        enough = (n_left >= min_leaf) & (n_all - n_left >= min_leaf)
        scores[cell] = score if enough & (on_left >= least) & (on_right >= least) else -np.inf
    found = np.int64(-1)
    for cell in range(np.uint64(n_cuts)):
        if scores[cell] > best:  # false for an empty side, which has no valid score
            best = scores[cell]
            found = np.int64(cell)
    n_left = np.int64(0)
    if found >= 0:
        n_left = np.int64(lefts[0, found] + lefts[1, found])
    return best, found, n_left


@inlined
def _best_of_classes(
    counts, at, n_cuts, left, total, class_weight, is_gini, table, min_leaf, least, best,
    n_left, n_all,
):  # fmt: skip
    """Scan the cuts of a number; as `_best_of_two_classes`, for any classes and criterion."""
    found = np.int64(-1)
    found_left = np.int64(0)
    for cell in range(n_cuts):
        n_here = 0
        for c in range(total.shape[0]):
            n_here += counts[at + cell, c]
            left[c] += counts[at + cell, c]
        n_left += n_here
        if n_here == 0 or n_left < min_leaf:
            continue
        if n_all - n_left < min_leaf:
            break
        score = _score(left, total, class_weight, is_gini, table, least)
        if score > best:
            best = score
            found = np.int64(cell)
            found_left = n_left
    return best, found, found_left


@inlined
def _sort_by_share(order, n_used, share):
    """Sort the cells in `order` by share with insertion sort; ties by cell."""
    for i in range(1, n_used):
        cell = order[i]
        j = i - 1
        while j >= 0 and (
            share[order[j]] > share[cell] or (share[order[j]] == share[cell] and order[j] > cell)
        ):
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = cell


@inlined
def _held_cells(counts, at, n_cells, order):
    """Write the cells that hold rows into `order`; return how many there are."""
    n_used = 0
    for cell in range(n_cells):
        n_here = 0
        for c in range(counts.shape[1]):
            n_here += counts[at + cell, c]
        if n_here > 0:
            order[n_used] = cell
            n_used += 1
    return n_used


@inlined
def _cells_by_class(counts, at, order, n_used, target, class_weight, share):
    """Sort the cells in `order` by the share of a class; noisy counts below zero count as zero."""
    for i in range(n_used):
        weight = 0.0
        for c in range(counts.shape[1]):
            weight += max(counts[at + order[i], c], 0) * class_weight[c]
        share[order[i]] = max(counts[at + order[i], target], 0) * class_weight[target] / weight
    _sort_by_share(order, n_used, share)


@inlined
def _cells_by_mean(sums, at, n_cells, order, share):
    """Write the cells that hold rows into `order`, by their means; return how many there are."""
    n_used = 0
    for cell in range(n_cells):
        if sums[at + cell, 0] > 0:
            share[cell] = float(sums[at + cell, 1]) / sums[at + cell, 0]
            order[n_used] = cell
            n_used += 1
    _sort_by_share(order, n_used, share)
    return n_used


@inlined
def _keep_cut(kept, node, slot, cell, missing_left, add, shift):
    """Keep the cut above a number's cell as the node's best."""
    best_slot, best_cut, best_missing_left, _ = kept
    best_slot[node] = slot
    cut = ((cell + 1) << shift[node, slot]) - 1 - add[node, slot]
    best_cut[node] = min(cut, 254)
    best_missing_left[node] = missing_left


@inlined
def _middle_of_gap(counts, width, at, cell, n_regular):
    """Return the middle one of the cuts that part a node's rows as the cut above `cell` does.

    Cells above it may be empty, and rows to come can lie there. As scikit-learn does, the cut goes
    half way to the next row; if none follows, it stays. `width` counters of a cell are rows.
    """
    for above in range(cell + 1, n_regular):
        for k in range(width):
            if counts[at + above, k] != 0:
                return cell + ((above - cell) >> 1)
    return cell


@inlined
def _keep_set(kept, node, slot, order, n_left, n_used, missing_cell, rest_left):
    """Keep the first cells of `order` as the node's best set; unseen bins too if `rest_left`.

    The cell of missing values represents bin 255.
    """
    best_slot, best_cut, best_missing_left, best_set = kept
    best_slot[node] = slot
    best_cut[node] = 0
    best_missing_left[node] = rest_left
    for i in range(4):
        best_set[node, i] = ~np.uint64(0) if rest_left else np.uint64(0)
    for i in range(n_used):
        code = 255 if order[i] == missing_cell else order[i]
        bit = _WORD << np.uint64(code & 63)
        if i < n_left:
            best_set[node, code >> 6] |= bit
        else:
            best_set[node, code >> 6] &= ~bit


@inlined
def _why_none(counts, width, node, feature, cells, offset):
    """Return whether a column tells a node's rows apart; `width` counters of a cell are rows."""
    for slot in range(feature.shape[1]):
        if feature[node, slot] < 0:
            break
        n_held = 0
        for cell in range(cells[node, slot]):
            for k in range(width):
                if counts[offset[node, slot] + cell, k] != 0:
                    n_held += 1
                    break
        if n_held > 1:
            return APART
    return ALIKE


@kernel
def best_class_splits(
    counts, first, last, feature, add, shift, cells, offset, is_category, has_missing,
    class_weight, is_gini, table, only_first, min_leaf, least_share, root_weight,
    total, best_slot, best_cut, best_missing_left, best_gain, best_left, best_set,
):  # fmt: skip
    """Find the best cut of nodes `first` to `last`; `best_slot` is below 0 if there is none.

    `counts` is (cells, classes); the other inputs describe the level's slots. `total` receives
    each node's class counts. Each side must have `min_leaf` rows and `least_share` of its tree's
    `root_weight` (0 at the roots, whose weight is computed here). Where `only_first`, the first
    slot that has a cut is taken.
    """
    n_classes = counts.shape[1]
    flat = counts.reshape(-1)
    left = np.zeros(n_classes, np.int64)
    lefts = np.zeros((2, 256))
    scores = np.zeros(256)
    share = np.zeros(256)
    kept = (best_slot, best_cut, best_missing_left, best_set)
    for node in range(first, last):
        whole = total[node]
        whole[:] = 0
        at = offset[node, 0]
        for cell in range(cells[node, 0]):
            for c in range(n_classes):
                whole[c] += counts[at + cell, c]
        n_all = 0
        for c in range(n_classes):
            n_all += whole[c]
        best_slot[node] = -1
        best = -np.inf
        if n_all == 0:
            continue
        parent = _parent_score(whole, class_weight, is_gini, table)
        of_tree = root_weight[node]
        if of_tree == 0.0:  # a root: its own weight
            for c in range(n_classes):
                of_tree += whole[c] * class_weight[c]
        least = least_share * of_tree
        for slot in range(feature.shape[1]):
            column = feature[node, slot]
            if column < 0 or (only_first[node] and best_slot[node] >= 0):
                break
            at = offset[node, slot]
            n_cells = cells[node, slot]
            missing_cell = n_cells - 1 if has_missing[column] else -1
            if not is_category[column]:
                n_regular = n_cells - 1 if has_missing[column] else n_cells
                n_missing = 0
                if missing_cell >= 0:
                    for c in range(n_classes):
                        n_missing += counts[at + missing_cell, c]
                for side in range(2 if n_missing > 0 else 1):  # missing right, then missing left
                    n_left = 0
                    for c in range(n_classes):
                        left[c] = counts[at + missing_cell, c] if side == 1 else 0
                        n_left += left[c]
                    n_cuts = n_regular if n_missing > 0 and side == 0 else n_regular - 1
                    n_cuts = max(n_cuts, 0)  # no cells if the number is missing in all rows
                    if n_classes == 2 and is_gini:
                        score, cell, n_left = _best_of_two_classes(
                            flat, at, n_cuts, left, whole, class_weight, min_leaf, least, best,
                            lefts, scores,
                        )  # fmt: skip
                    else:
                        score, cell, n_left = _best_of_classes(
                            counts, at, n_cuts, left, whole, class_weight, is_gini, table,
                            min_leaf, least, best, n_left, n_all,
                        )  # fmt: skip
                    if cell >= 0:
                        best = score
                        missing_left = side == 1 if n_missing > 0 else 2 * n_left > n_all
                        middle = _middle_of_gap(counts, n_classes, at, cell, n_regular)
                        _keep_cut(kept, node, slot, middle, missing_left, add, shift)
                        for c in range(n_classes):
                            best_left[node, c] = counts[at + missing_cell, c] if side == 1 else 0
                            for before in range(cell + 1):
                                best_left[node, c] += counts[at + before, c]
            else:
                order = np.empty(n_cells, np.int64)
                n_used = _held_cells(counts, at, n_cells, order)
                # For two classes the best subset is a prefix in order of a class's share
                # (Breiman et al. 1984, 4.2.2); for more, one ordering for each class is tried.
                for target in range(1 if n_classes == 2 else n_classes):
                    _cells_by_class(counts, at, order, n_used, target, class_weight, share)
                    n_left = 0
                    for c in range(n_classes):
                        left[c] = 0
                    for i in range(n_used - 1):
                        for c in range(n_classes):
                            left[c] += counts[at + order[i], c]
                            n_left += counts[at + order[i], c]
                        if n_left < min_leaf or n_all - n_left < min_leaf:
                            continue
                        score = _score(left, whole, class_weight, is_gini, table, least)
                        if score > best:
                            best = score
                            rest_left = 2 * n_left > n_all
                            _keep_set(
                                kept, node, slot, order, i + 1, n_used, missing_cell, rest_left
                            )
                            for c in range(n_classes):
                                best_left[node, c] = left[c]
        best_gain[node] = best - parent
        if best_slot[node] < 0:
            best_slot[node] = _why_none(counts, n_classes, node, feature, cells, offset)


@inlined
def _variance_gain(sum_left, n_left, sum_all, n_all):
    """Return D^2 / (N n_left n_right) of centred sums."""
    d = float(sum_left) * n_all - float(sum_all) * n_left
    return d * d / (float(n_all) * n_left * (n_all - n_left))


@kernel
def best_mean_splits(
    sums, first, last, feature, add, shift, cells, offset, is_category, has_missing,
    only_first, least_rows, least_share, root_weight,
    total, best_slot, best_cut, best_missing_left, best_gain, best_left, best_set,
):  # fmt: skip
    """Find the best cut of nodes `first` to `last` by variance.

    `sums` is (cells, 2): weights and fixed-point target sums. Sums are first centred on the node's
    mean in whole numbers, so that no precision is lost if the mean is large and the spread small.
    A cut without gain counts only if the targets surely differ: equal ones have a whole mean.
    """
    share = np.zeros(256)
    kept = (best_slot, best_cut, best_missing_left, best_set)
    for node in range(first, last):
        at = offset[node, 0]
        n_all = 0
        s_all = 0
        for cell in range(cells[node, 0]):
            n_all += sums[at + cell, 0]
            s_all += sums[at + cell, 1]
        total[node, 0] = n_all
        total[node, 1] = s_all
        best_slot[node] = -1
        best_gain[node] = 0.0
        if n_all == 0:
            continue
        of_tree = root_weight[node] if root_weight[node] > 0.0 else float(n_all)
        min_leaf = max(least_rows, math.ceil(least_share * of_tree))
        middle = s_all // n_all
        s_rest = s_all - n_all * middle
        best = 0.0 if s_rest == 0 else -1.0
        for slot in range(feature.shape[1]):
            column = feature[node, slot]
            if column < 0 or (only_first[node] and best_slot[node] >= 0):
                break
            at = offset[node, slot]
            n_cells = cells[node, slot]
            missing_cell = n_cells - 1 if has_missing[column] else -1
            if not is_category[column]:
                n_regular = n_cells - 1 if has_missing[column] else n_cells
                n_missing = sums[at + missing_cell, 0] if missing_cell >= 0 else 0
                for side in range(2 if n_missing > 0 else 1):
                    n_left = n_missing if side == 1 else 0
                    s_left = sums[at + missing_cell, 1] if side == 1 else 0
                    n_cuts = n_regular if n_missing > 0 and side == 0 else n_regular - 1
                    for cell in range(n_cuts):
                        n_here = sums[at + cell, 0]
                        n_left += n_here
                        s_left += sums[at + cell, 1]
                        if n_here == 0 or n_left < min_leaf:
                            continue
                        if n_all - n_left < min_leaf:
                            break
                        gain = _variance_gain(s_left - n_left * middle, n_left, s_rest, n_all)
                        if gain > best:
                            best = gain
                            missing_left = side == 1 if n_missing > 0 else 2 * n_left > n_all
                            of_gap = _middle_of_gap(sums, 1, at, cell, n_regular)
                            _keep_cut(kept, node, slot, of_gap, missing_left, add, shift)
                            best_left[node, 0] = n_left
                            best_left[node, 1] = s_left
            else:
                order = np.empty(n_cells, np.int64)
                n_used = _cells_by_mean(sums, at, n_cells, order, share)
                n_left = 0
                s_left = 0
                for i in range(n_used - 1):
                    n_left += sums[at + order[i], 0]
                    s_left += sums[at + order[i], 1]
                    if n_left < min_leaf or n_all - n_left < min_leaf:
                        continue
                    gain = _variance_gain(s_left - n_left * middle, n_left, s_rest, n_all)
                    if gain > best:
                        best = gain
                        rest_left = 2 * n_left > n_all
                        _keep_set(kept, node, slot, order, i + 1, n_used, missing_cell, rest_left)
                        best_left[node, 0] = n_left
                        best_left[node, 1] = s_left
        best_gain[node] = max(best, 0.0)
        if best_slot[node] < 0:
            best_slot[node] = _why_none(sums, 1, node, feature, cells, offset)


@kernel
def held_cells(counts, weight_only, nodes, feature, cells, offset, out):
    """Write the first cell of each slot that holds rows, for some nodes."""
    width = 1 if weight_only else counts.shape[1]
    for i in range(nodes.shape[0]):
        node = nodes[i]
        for slot in range(feature.shape[1]):
            if feature[node, slot] < 0:
                break
            for cell in range(cells[node, slot]):
                n_held = 0
                for k in range(width):
                    n_held += counts[offset[node, slot] + cell, k] != 0
                if n_held > 0:
                    out[node, slot] = cell
                    break
