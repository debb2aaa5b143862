"""Gradients in fixed point, drawn into row entries, and leaf values added to scores.

A score is an integer in steps of 2^-24. A gradient is an integer in steps of 2^-30 of its public
bound. A row entry is `row in block | gradient << 16 | curvature << 24`, or, if every curvature is
the same, `row in block | gradient << 16`: a tree's rows carry all that its histograms sum.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel
from spinney.trees._kernels.hashing import mixed
from spinney.trees._kernels.rows import ROW_MASK

ONE = 1 << 30  # a gradient at its bound
SCORE_ONE = 1 << 24
SIGMOID_LIMIT = 16  # scores beyond it are treated alike: the probability is within 2e-7 of 0 or 1
SIGMOID_SHIFT = 15  # 2^14 intervals over twice the limit
EXP_LIMIT = 32  # exp(-32) is 0 in steps of 2^-30
EXP_SHIFT = 15  # 2^14 intervals
LOG_SHIFT = 20  # 2^10 intervals between 1 and 2


@inlined
def _between(table, place, shift):
    """Return a table's value at a place between two of its points, by linear interpolation."""
    at = place >> shift
    low = table[at]
    return low + (((table[at + 1] - low) * (place & ((1 << shift) - 1))) >> shift)


@inlined
def _sigmoid(score, table):
    """Return the probability of a score, in steps of 2^-30."""
    limit = SIGMOID_LIMIT * SCORE_ONE
    place = min(max(score, -limit), limit - 1) + limit
    return _between(table, place, SIGMOID_SHIFT)


@kernel
def logistic_gradients(scores, classes, weight, table, first, last, gradient, curvature):
    """Write the gradients of the log loss of two classes; a curvature is bounded by 1/4.

    `weight` holds the weight of each class in steps of 2^-16 of the largest.
    """
    for i in range(first, last):
        chance = _sigmoid(scores[i], table)
        label = np.int64(classes[i])
        bend = (chance * (ONE - chance)) >> 28
        gradient[i] = ((chance - label * ONE) * weight[label]) >> 16
        curvature[i] = (bend * weight[label]) >> 16


@kernel
def softmax_gradients(scores, classes, weight, table, first, last, gradient, curvature):
    """Write the gradients of the log loss of several classes, (n_classes, n_rows)."""
    n_classes = scores.shape[0]
    shares = np.empty(n_classes, np.int64)
    limit = EXP_LIMIT * SCORE_ONE
    for i in range(first, last):
        top = scores[0, i]
        for k in range(1, n_classes):
            top = max(top, scores[k, i])
        total = np.int64(0)
        for k in range(n_classes):
            place = min(top - scores[k, i], limit - 1)
            shares[k] = _between(table, place, EXP_SHIFT)
            total += shares[k]
        label = np.int64(classes[i])
        for k in range(n_classes):
            chance = (shares[k] << 30) // total
            bend = (chance * (ONE - chance)) >> 28
            wrong = chance - ONE if k == label else chance
            gradient[k, i] = (wrong * weight[label]) >> 16
            curvature[k, i] = (bend * weight[label]) >> 16


@kernel
def square_gradients(scores, target, first, last, gradient):
    """Write score minus target, both in steps of 2^-24 of the target's range."""
    for i in range(first, last):
        gradient[i] = min(max((scores[i] - target[i]) << 6, -ONE), ONE)


@inlined
def _count(target, floor):
    """Return a target in steps of 2^-30 of its largest value; its range begins at `floor`."""
    return floor + target * (ONE - floor) // (SCORE_ONE - 1)


@inlined
def _mean(score, table):
    """Return exp(score) in steps of 2^-30; scores are logarithms of shares of the largest mean."""
    return _between(table, min(max(-score, 0), EXP_LIMIT * SCORE_ONE - 1), EXP_SHIFT)


@kernel
def poisson_gradients(scores, target, floor, table, first, last, gradient, curvature):
    """Write the gradients of the Poisson loss, in units of the target's largest value."""
    for i in range(first, last):
        mean = _mean(scores[i], table)
        gradient[i] = mean - _count(target[i], floor)
        curvature[i] = mean


@kernel
def weigh(share, first, last, gradient, curvature):
    """Multiply the gradients of rows with their weights, in steps of 2^-16 of the largest."""
    for k in range(gradient.shape[0]):
        for i in range(first, last):
            gradient[k, i] = (np.int64(gradient[k, i]) * np.int64(share[i])) >> 16
            curvature[k, i] = (np.int64(curvature[k, i]) * np.int64(share[i])) >> 16


@inlined
def _weighed(loss, share, row):
    """Return a row's loss times its weight."""
    return (loss * np.int64(share[row])) >> 16 if share.shape[0] > 0 else loss


@kernel
def poisson_loss(scores, target, floor, table, chosen, share):
    """Return mean minus target times score over the chosen rows, in steps of 2^-24."""
    total = np.int64(0)
    limit = EXP_LIMIT * SCORE_ONE
    for i in range(scores.shape[0]):
        if chosen[i]:
            score = min(max(scores[i], -limit), limit)  # times a count it must fit 64 bits
            loss = _mean(score, table) - ((_count(target[i], floor) * score) >> 24)
            total += _weighed(loss >> 6, share, i)
    return total


@kernel
def logistic_loss(scores, classes, weight, table, chosen, share):
    """Return the log loss of two classes over the chosen rows, in steps of 2^-24."""
    limit = SIGMOID_LIMIT * SCORE_ONE
    total = np.int64(0)
    for i in range(scores.shape[0]):
        if chosen[i]:
            label = np.int64(classes[i])
            wrong = scores[i] if label == 0 else -scores[i]  # the loss is ln(1 + exp(wrong))
            place = min(max(wrong, -limit), limit - 1)
            beyond = max(wrong - place, 0)
            loss = beyond + _between(table, place + limit, SIGMOID_SHIFT)
            total += _weighed((loss * weight[label]) >> 16, share, i)
    return total


@kernel
def softmax_loss(scores, classes, weight, table, logs, ln2, chosen, share):
    """Return the log loss of several classes over the chosen rows, in steps of 2^-24."""
    limit = EXP_LIMIT * SCORE_ONE
    total = np.int64(0)
    for i in range(scores.shape[1]):
        if chosen[i]:
            label = np.int64(classes[i])
            top = scores[0, i]
            for k in range(1, scores.shape[0]):
                top = max(top, scores[k, i])
            shares = np.int64(0)
            for k in range(scores.shape[0]):
                shares += _between(table, min(top - scores[k, i], limit - 1), EXP_SHIFT)
            twice = 0
            while shares >> (31 + twice):
                twice += 1
            place = (shares >> twice) - ONE  # the sum is (1 + place / 2^30) * 2^twice
            loss = top - scores[label, i] + twice * ln2 + _between(logs, max(place, 0), LOG_SHIFT)
            total += _weighed((loss * weight[label]) >> 16, share, i)
    return total


@kernel
def square_loss(scores, target, chosen, share):
    """Return the sum of squared errors of the chosen rows, in steps of 2^-16 of the range."""
    total = np.int64(0)
    for i in range(scores.shape[0]):
        if chosen[i]:
            wrong = min(abs(scores[i] - target[i]), SCORE_ONE) >> 8
            total += _weighed(wrong * wrong, share, i)
    return total


@inlined
def _rounded(value, steps, coin):
    """Return `value / ONE * steps`, rounded up or down by a coin of 30 bits; its mean is exact."""
    return (np.int64(value) * steps + np.int64(coin)) >> 30


@kernel
def draw_entries(
    tree_key, row_keys, block_start, first, last, is_apart, keep, gradient, curvature,
    g_steps, h_steps, counted, counted_ends, apart, apart_ends,
):  # fmt: skip
    """Fill the entries of one tree: the rows that it counts, and those that it only moves.

    Those of a block begin where its rows begin. Only blocks `first` to `last` are filled.

    A row is counted if a hash of the tree's and its own key is below `keep` (of 2^32), unless it is
    set apart for all trees. Gradients are rounded by coins from the same hash.
    """
    coin_mask = np.uint64((1 << 30) - 1)
    for block in range(first, last):
        base = block_start[block]
        at = base
        beside = base
        for row in range(base, block_start[block + 1]):
            word = mixed(tree_key ^ row_keys[row])
            out_of_bag = (word >> np.uint64(32)) >= keep
            if is_apart.shape[0] > 0:
                out_of_bag |= is_apart[row]
            if out_of_bag:
                apart[beside] = np.uint32(row - base)
                beside += 1
                continue
            coins = mixed(word)
            g = _rounded(gradient[row], g_steps, coins & coin_mask) + g_steps
            entry = np.uint32(row - base) | (np.uint32(g) << np.uint32(16))
            if h_steps > 0:
                h = _rounded(curvature[row], h_steps, (coins >> np.uint64(32)) & coin_mask)
                entry |= np.uint32(h) << np.uint32(24)
            counted[at] = entry
            at += 1
        counted_ends[block] = at
        apart_ends[block] = beside


@kernel
def add_leaf_values(entries, starts, ends, block_start, first, last, output, value, scores):
    """Add each leaf's value to the scores of its rows, in blocks `first` to `last`."""
    for block in range(first, last):
        base = block_start[block]
        for leaf in range(starts.shape[0]):
            line = scores[output[leaf]]
            step = value[leaf]
            for i in range(starts[leaf, block], ends[leaf, block]):
                line[base + np.int64(entries[i] & ROW_MASK)] += step


@kernel
def segment_gradients(entries, starts, ends, g_mask, out):
    """Add up rows, gradients and curvatures of each node's entries that are counted.

    An entry whose gradient is all ones is not counted.
    """
    for node in range(starts.shape[0]):
        rows, g, h = np.int64(0), np.int64(0), np.int64(0)
        for block in range(starts.shape[1]):
            for i in range(starts[node, block], ends[node, block]):
                gradient = (entries[i] >> np.uint32(16)) & g_mask
                is_counted = np.int64(gradient != g_mask)
                rows += is_counted
                g += is_counted * np.int64(gradient)
                h += is_counted * np.int64(entries[i] >> np.uint32(24))
        out[node, 0], out[node, 1], out[node, 2] = rows, g, h


@kernel
def child_gradients(entries, starts, ends, g_mask, g_steps, has_h, above, out):
    """Add up rows, gradients and curvatures of left children; right ones have what is left.

    Children come left and right in turn, `above` has the sums of the parents.
    """
    for node in range(above.shape[0]):
        rows, g, h = np.int64(0), np.int64(0), np.int64(0)
        for block in range(starts.shape[1]):
            for i in range(starts[2 * node, block], ends[2 * node, block]):
                gradient = (entries[i] >> np.uint32(16)) & g_mask
                is_counted = np.int64(gradient != g_mask)
                rows += is_counted
                g += is_counted * np.int64(gradient)
                h += is_counted * np.int64(entries[i] >> np.uint32(24))
        left = (rows, g - g_steps * rows, h if has_h else rows)
        for k in range(3):
            out[2 * node, k], out[2 * node + 1, k] = left[k], above[node, k] - left[k]


@kernel
def find_leaves(entries, starts, ends, block_start, tree, place, found):
    """Write the number of the leaf of some rows in each tree; `place` is -1 for all other rows."""
    for block in range(starts.shape[1]):
        base = block_start[block]
        for leaf in range(starts.shape[0]):
            for i in range(starts[leaf, block], ends[leaf, block]):
                at = place[base + np.int64(entries[i] & ROW_MASK)]
                if at >= 0:
                    found[tree[leaf], at] = leaf


@kernel
def take_counted(entries, starts, ends, g_mask, taken, taken_ends):
    """Write the counted entries of each node's segments, from the segments' starts on."""
    for node in range(starts.shape[0]):
        for block in range(starts.shape[1]):
            at = np.uint64(starts[node, block])
            for i in range(np.uint64(starts[node, block]), np.uint64(ends[node, block])):
                taken[at] = entries[i]
                gradient = (entries[i] >> np.uint32(16)) & g_mask
                at += np.uint64(gradient != g_mask)
            taken_ends[node, block] = np.int64(at)
