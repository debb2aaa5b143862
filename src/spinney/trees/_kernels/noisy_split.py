"""Find the best cut of each open node from histograms that carry noise.

This works as `split` does, with the same result on exact histograms; but counters may be negative,
and the slots of a node have different totals. Signed counts are added without change; only the
formulas clip them at zero, and clip means at the ends of the target's range. Cuts of two slots are
compared by their gains over the totals of their own slots.
"""

import math

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel
from spinney.trees._kernels.split import (
    _cells_by_class,
    _cells_by_mean,
    _f,
    _held_cells,
    _keep_cut,
    _keep_set,
    _variance_gain,
)


@inlined
def _clamped_score(left, total, class_weight, is_gini, table, least):
    """Return the score of a cut; minus infinity if a side weighs nothing or less than `least`."""
    weight_left = 0.0
    weight_right = 0.0
    sum_left = 0.0
    sum_right = 0.0
    for c in range(total.shape[0]):
        a = max(left[c], 0) * class_weight[c]
        b = max(total[c] - left[c], 0) * class_weight[c]
        weight_left += a
        weight_right += b
        if is_gini:
            sum_left += a * a
            sum_right += b * b
        else:
            sum_left += _f(a, table)
            sum_right += _f(b, table)
    if weight_left <= 0.0 or weight_right <= 0.0 or min(weight_left, weight_right) < least:
        return -np.inf
    if is_gini:
        return sum_left / weight_left + sum_right / weight_right
    return sum_left - _f(weight_left, table) + sum_right - _f(weight_right, table)


@inlined
def _clamped_parent(total, class_weight, is_gini, table):
    """Return the score of not splitting the node, and its weight."""
    weight = 0.0
    score = 0.0
    for c in range(total.shape[0]):
        a = max(total[c], 0) * class_weight[c]
        weight += a
        score += a * a if is_gini else _f(a, table)
    if weight <= 0.0:
        return 0.0, 0.0
    return (score / weight if is_gini else score - _f(weight, table)), weight


@kernel
def noisy_class_splits(
    counts, first, last, feature, add, shift, cells, offset, is_category, has_missing,
    class_weight, is_gini, table, min_leaf, least_share, root_weight,
    total, best_slot, best_cut, best_missing_left, best_gain, best_left, best_set,
):  # fmt: skip
    """Find the best cut of nodes `first` to `last`; arguments as in `split.best_class_splits`.

    `total` receives the counts of the chosen slot, or the mean over slots if there is no cut.
    """
    n_classes = counts.shape[1]
    left = np.zeros(n_classes, np.int64)
    whole = np.zeros(n_classes, np.int64)
    mean = np.zeros(n_classes)
    share = np.zeros(256)
    kept = (best_slot, best_cut, best_missing_left, best_set)
    for node in range(first, last):
        best_slot[node] = -1
        best = -np.inf
        best_parent = 0.0
        mean[:] = 0.0
        n_slots = 0
        for slot in range(feature.shape[1]):
            column = feature[node, slot]
            if column < 0:
                break
            n_slots += 1
            at = offset[node, slot]
            n_cells = cells[node, slot]
            missing_cell = n_cells - 1 if has_missing[column] else -1
            whole[:] = 0
            n_all = 0
            for cell in range(n_cells):
                n_here = 0
                for c in range(n_classes):
                    n_here += counts[at + cell, c]
                    mean[c] += counts[at + cell, c]
                if n_here > 0 or not is_category[column]:
                    n_all += n_here
                    for c in range(n_classes):
                        whole[c] += counts[at + cell, c]
            parent, weight = _clamped_parent(whole, class_weight, is_gini, table)
            of_tree = root_weight[node] if root_weight[node] > 0.0 else weight
            least = least_share * of_tree
            if not is_category[column]:
                n_regular = n_cells - 1 if has_missing[column] else n_cells
                n_missing = 0
                if missing_cell >= 0:
                    for c in range(n_classes):
                        n_missing += counts[at + missing_cell, c]
                for side in range(2 if n_missing > 0 else 1):  # missing right, then missing left
                    n_left = n_missing if side == 1 else 0
                    for c in range(n_classes):
                        left[c] = counts[at + missing_cell, c] if side == 1 else 0
                    n_cuts = n_regular if n_missing > 0 and side == 0 else n_regular - 1
                    for cell in range(n_cuts):
                        empty = True
                        for c in range(n_classes):
                            here = counts[at + cell, c]
                            empty &= here == 0
                            n_left += here
                            left[c] += here
                        if empty or n_left < min_leaf or n_all - n_left < min_leaf:
                            continue
                        score = _clamped_score(left, whole, class_weight, is_gini, table, least)
                        if score - best > parent - best_parent:
                            best = score
                            best_parent = parent
                            missing_left = side == 1 if n_missing > 0 else 2 * n_left > n_all
                            _keep_cut(kept, node, slot, cell, missing_left, add, shift)
                            for c in range(n_classes):
                                best_left[node, c] = left[c]
                                total[node, c] = whole[c]
            else:
                order = np.empty(n_cells, np.int64)
                n_used = _held_cells(counts, at, n_cells, order)
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
                        score = _clamped_score(left, whole, class_weight, is_gini, table, least)
                        if score - best > parent - best_parent:
                            best = score
                            best_parent = parent
                            rest_left = 2 * n_left > n_all
                            _keep_set(
                                kept, node, slot, order, i + 1, n_used, missing_cell, rest_left
                            )
                            for c in range(n_classes):
                                best_left[node, c] = left[c]
                                total[node, c] = whole[c]
        best_gain[node] = best - best_parent
        if best_slot[node] < 0:
            for c in range(n_classes):
                total[node, c] = np.int64(np.rint(mean[c] / n_slots))


@inlined
def _clamped_gain(s_left, n_left, s_all, n_all, middle, most):
    """Return the decrease of squared error; means are clipped to 0 and `most`."""
    mean_left = float(s_left) / n_left
    mean_right = float(s_all - s_left) / (n_all - n_left)
    low, high = min(mean_left, mean_right), max(mean_left, mean_right)
    if low >= 0.0 and high <= most:
        return _variance_gain(s_left - n_left * middle, n_left, s_all - n_all * middle, n_all)
    apart = min(high, most) - max(low, 0.0)
    return apart * apart * n_left * (n_all - n_left) / n_all if apart > 0.0 else 0.0


@kernel
def noisy_mean_splits(
    sums, first, last, feature, add, shift, cells, offset, is_category, has_missing,
    most, least_rows, least_share, root_weight,
    total, best_slot, best_cut, best_missing_left, best_gain, best_left, best_set,
):  # fmt: skip
    """Find the best cut of nodes `first` to `last` by variance; as `split.best_mean_splits`.

    Targets lie between 0 and `most`.
    """
    share = np.zeros(256)
    kept = (best_slot, best_cut, best_missing_left, best_set)
    mean = np.zeros(2)
    for node in range(first, last):
        best_slot[node] = -1
        best = 0.0
        mean[:] = 0.0
        n_slots = 0
        for slot in range(feature.shape[1]):
            column = feature[node, slot]
            if column < 0:
                break
            n_slots += 1
            at = offset[node, slot]
            n_cells = cells[node, slot]
            missing_cell = n_cells - 1 if has_missing[column] else -1
            n_all = 0
            s_all = 0
            for cell in range(n_cells):
                mean[0] += sums[at + cell, 0]
                mean[1] += sums[at + cell, 1]
                if sums[at + cell, 0] > 0 or not is_category[column]:
                    n_all += sums[at + cell, 0]
                    s_all += sums[at + cell, 1]
            if n_all <= 0:
                continue
            of_tree = root_weight[node] if root_weight[node] > 0.0 else float(n_all)
            min_leaf = max(least_rows, math.ceil(least_share * of_tree), 1)
            middle = s_all // n_all
            if not is_category[column]:
                n_regular = n_cells - 1 if has_missing[column] else n_cells
                n_missing = sums[at + missing_cell, 0] if missing_cell >= 0 else 0
                for side in range(2 if n_missing > 0 else 1):
                    n_left = n_missing if side == 1 else 0
                    s_left = sums[at + missing_cell, 1] if side == 1 else 0
                    n_cuts = n_regular if n_missing > 0 and side == 0 else n_regular - 1
                    for cell in range(n_cuts):
                        n_left += sums[at + cell, 0]
                        s_left += sums[at + cell, 1]
                        empty = sums[at + cell, 0] == 0 and sums[at + cell, 1] == 0
                        if empty or n_left < min_leaf or n_all - n_left < min_leaf:
                            continue
                        gain = _clamped_gain(s_left, n_left, s_all, n_all, middle, most)
                        if gain > best:
                            best = gain
                            missing_left = side == 1 if n_missing > 0 else 2 * n_left > n_all
                            _keep_cut(kept, node, slot, cell, missing_left, add, shift)
                            best_left[node, 0] = n_left
                            best_left[node, 1] = s_left
                            total[node, 0] = n_all
                            total[node, 1] = s_all
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
                    gain = _clamped_gain(s_left, n_left, s_all, n_all, middle, most)
                    if gain > best:
                        best = gain
                        rest_left = 2 * n_left > n_all
                        _keep_set(kept, node, slot, order, i + 1, n_used, missing_cell, rest_left)
                        best_left[node, 0] = n_left
                        best_left[node, 1] = s_left
                        total[node, 0] = n_all
                        total[node, 1] = s_all
        best_gain[node] = best
        if best_slot[node] < 0:
            total[node, 0] = np.int64(np.rint(mean[0] / n_slots))
            total[node, 1] = np.int64(np.rint(mean[1] / n_slots))
