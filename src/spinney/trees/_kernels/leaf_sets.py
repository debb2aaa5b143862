"""The leaves that a row may reach by one party's cuts, and the leaf that all parties agree on.

A party sends its rows down a tree from the root, node by node. At its own cut each row goes to one
side, which is one bit; at another party's cut, all rows go to both sides. The bits of its own cuts,
in the order of the walk, say which rows may be in each leaf, and take far less space than one bit
for each row and leaf. Whoever has all parties' bits repeats the walk for each party and intersects
the sets of rows leaf by leaf.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel


@inlined
def _goes_left(value, threshold, how, bin_sets):
    """Return whether a value goes left; `how` is as in `predict`: 0, 1, or a bin set plus 2."""
    if how == 0:
        return value <= threshold
    if how == 1:
        return not (value > threshold)
    code = np.uint64(255) if np.isnan(value) else np.uint64(value)
    word = bin_sets[how - 2, code >> np.uint64(6)]
    return (word >> (code & np.uint64(63))) & np.uint64(1) == np.uint64(1)


@kernel
def most_visits(root, end, left, feature, visits):
    """Return the most own cuts that one row can meet in a tree; children follow parents."""
    for node in range(end - 1, root - 1, -1):
        if feature[node] == -1:
            visits[node] = 0
            continue
        child = np.int64(left[node])
        if feature[node] == -2:
            visits[node] = visits[child] + visits[child + 1]
        else:
            visits[node] = 1 + max(visits[child], visits[child + 1])
    return visits[root]


@kernel
def write_leaf_sets(values, root, left, feature, threshold, how, bin_sets, deepest, out):
    """Write a party's bits for one tree and the rows in `values` (n_columns, n_rows).

    Returns the number of bits. `feature` is -1 at leaves and -2 at another party's cut.
    """
    n_rows = values.shape[1]
    # One set per step of the path: the left child's rows are stored separately from the right's.
    rows = np.empty((2 * deepest + 2, n_rows), np.uint32)
    node_at = np.empty(deepest + 2, np.int64)
    row_set = np.empty(deepest + 2, np.int64)
    size_at = np.empty(deepest + 2, np.int64)
    level_at = np.empty(deepest + 2, np.int64)
    for i in range(n_rows):
        rows[0, i] = i
    node_at[0], row_set[0], size_at[0], level_at[0] = root, 0, n_rows, 0
    top = 1
    bit = np.int64(0)
    while top > 0:
        top -= 1
        node, held, size, level = node_at[top], row_set[top], size_at[top], level_at[top]
        if feature[node] == -1 or size == 0:
            continue
        child = np.int64(left[node])
        if feature[node] == -2:
            node_at[top], row_set[top], size_at[top], level_at[top] = child + 1, held, size, level
            top += 1
            node_at[top], row_set[top], size_at[top], level_at[top] = child, held, size, level
            top += 1
            continue
        column = values[feature[node]]
        to_left, to_right = 2 * level + 1, 2 * level + 2
        n_left = np.int64(0)
        n_right = np.int64(0)
        for i in range(size):
            row = rows[held, i]
            goes = _goes_left(column[row], threshold[node], how[node], bin_sets)
            if goes:
                out[bit >> 3] |= np.uint8(1 << (bit & 7))
            bit += 1
            rows[to_left, n_left] = row
            rows[to_right, n_right] = row
            n_left += np.int64(goes)
            n_right += np.int64(1) - np.int64(goes)
        node_at[top], row_set[top], size_at[top], level_at[top] = (
            child + 1, to_right, n_right, level + 1,
        )  # fmt: skip
        top += 1
        node_at[top], row_set[top], size_at[top], level_at[top] = (
            child, to_left, n_left, level + 1,
        )  # fmt: skip
        top += 1
    return bit


@kernel
def intersect_leaf_sets(bits, begin, end, n_rows, root, left, owner, deepest, leaves):
    """Walk a tree by all parties' bits; write the leaf that they agree on for every row.

    Party `p` has the bytes `begin[p]` to `end[p]`; `owner` of a node is the party whose cut it is,
    -1 for leaves. Returns whether every party sent exactly as many bits as its walk takes.
    """
    n_parties = begin.shape[0]
    n_sets = 2 * deepest + 2
    rows = np.empty((n_parties, n_sets, n_rows), np.uint32)
    node_at = np.empty(deepest + 2, np.int64)
    held = np.zeros((deepest + 2, n_parties), np.int64)
    size = np.zeros((deepest + 2, n_parties), np.int64)
    level = np.zeros((deepest + 2, n_parties), np.int64)
    bit = begin * 8
    times = np.zeros(n_rows, np.int32)
    for p in range(n_parties):
        size[0, p] = n_rows
        for i in range(n_rows):
            rows[p, 0, i] = i
    node_at[0] = root
    top = 1
    while top > 0:
        top -= 1
        node = node_at[top]
        p = owner[node]
        if p < 0:
            n_judges = 0
            base = -1
            for q in range(n_parties):
                if level[top, q] > 0:  # a party with no cut on the path allows every row
                    n_judges += 1
                    if base < 0 or size[top, q] < size[top, base]:
                        base = q
            if base < 0:
                for row in range(n_rows):
                    leaves[row] = node
                continue
            for q in range(n_parties):
                if level[top, q] > 0:
                    for i in range(size[top, q]):
                        times[rows[q, held[top, q], i]] += 1
            for i in range(size[top, base]):
                row = rows[base, held[top, base], i]
                if times[row] == n_judges:
                    leaves[row] = node
            for q in range(n_parties):
                if level[top, q] > 0:
                    for i in range(size[top, q]):
                        times[rows[q, held[top, q], i]] = 0
            continue
        own, n, depth = held[top, p], size[top, p], level[top, p]
        if bit[p] + n > end[p] * 8:
            return False
        to_left, to_right = 2 * depth + 1, 2 * depth + 2
        n_left = np.int64(0)
        n_right = np.int64(0)
        for i in range(n):
            row = rows[p, own, i]
            goes = np.int64((bits[bit[p] >> 3] >> np.uint8(bit[p] & 7)) & np.uint8(1))
            bit[p] += 1
            rows[p, to_left, n_left] = row
            rows[p, to_right, n_right] = row
            n_left += goes
            n_right += np.int64(1) - goes
        child = np.int64(left[node])
        for q in range(n_parties):  # the right child is below the left one on the stack
            held[top + 1, q], size[top + 1, q], level[top + 1, q] = (
                held[top, q], size[top, q], level[top, q],
            )  # fmt: skip
        node_at[top], node_at[top + 1] = child + 1, child
        held[top, p], size[top, p], level[top, p] = to_right, n_right, depth + 1
        held[top + 1, p], size[top + 1, p], level[top + 1, p] = to_left, n_left, depth + 1
        top += 2
    is_whole = True
    for p in range(n_parties):
        is_whole &= (bit[p] + 7) >> 3 == end[p]
    return is_whole


@inlined
def _share_of(player, n_players, ratio, allows, counts):
    """Return a player's Shapley value of a leaf that is worth 1.

    A coalition is worth the product of what its players allow (0 or 1) and of the others' ratios.
    `counts` becomes the value of all coalitions of the others, by their size.
    """
    counts[0] = 1.0
    n = 0
    for other in range(n_players):
        if other == player:
            continue
        counts[n + 1] = counts[n] * allows[other]
        for k in range(n, 0, -1):
            counts[k] = counts[k] * ratio[other] + counts[k - 1] * allows[other]
        counts[0] *= ratio[other]
        n += 1
    total, orders = 0.0, 1.0 / n_players  # the chance of a coalition of k others, before it
    for k in range(n + 1):
        total += orders * counts[k]
        orders *= (k + 1.0) / (n - k) if k < n else 0.0
    return (allows[player] - ratio[player]) * total


@kernel
def share_out_leaves(
    bits, begin, end, n_rows, root, left, owner, cover, value, deepest, out
):  # fmt: skip
    """Add to `out` (n_parties, n_rows, n_outputs) what each party's cuts add to the rows' scores.

    It is the Shapley value with parties as players. Cuts of parties outside a coalition send a row
    to both sides, in proportion to the rows of training (`cover`). Bits are as in
    `intersect_leaf_sets`; returns whether every party sent exactly as many as its walk takes.
    """
    n_parties = begin.shape[0]
    rows = np.empty((n_parties, 2 * deepest + 2, n_rows), np.uint32)
    node_at = np.empty(deepest + 2, np.int64)
    held = np.zeros((deepest + 2, n_parties), np.int64)
    size = np.zeros((deepest + 2, n_parties), np.int64)
    level = np.zeros((deepest + 2, n_parties), np.int64)
    part = np.ones((deepest + 2, n_parties))
    bit = begin * 8
    is_there = np.zeros((n_parties, n_rows), np.bool_)
    ratio, allows, counts = np.empty(n_parties), np.empty(n_parties), np.empty(n_parties + 1)
    party = np.empty(n_parties, np.int64)
    for p in range(n_parties):
        size[0, p] = n_rows
        for i in range(n_rows):
            rows[p, 0, i] = i
    node_at[0] = root
    top = 1
    while top > 0:
        top -= 1
        node = node_at[top]
        p = owner[node]
        if p < 0:
            n_players = 0
            for q in range(n_parties):
                if level[top, q] > 0:  # a party with no cut on the path adds nothing
                    party[n_players], ratio[n_players] = q, part[top, q]
                    n_players += 1
                    for i in range(size[top, q]):
                        is_there[q, rows[q, held[top, q], i]] = True
            for row in range(n_rows):
                for player in range(n_players):
                    allows[player] = 1.0 if is_there[party[player], row] else 0.0
                for player in range(n_players):
                    share = _share_of(player, n_players, ratio, allows, counts)
                    for k in range(value.shape[1]):
                        out[party[player], row, k] += share * value[node, k]
            is_there[:] = False
            continue
        own, n, depth = held[top, p], size[top, p], level[top, p]
        if bit[p] + n > end[p] * 8:
            return False
        to_left, to_right = 2 * depth + 1, 2 * depth + 2
        n_left = np.int64(0)
        n_right = np.int64(0)
        for i in range(n):
            row = rows[p, own, i]
            goes = np.int64((bits[bit[p] >> 3] >> np.uint8(bit[p] & 7)) & np.uint8(1))
            bit[p] += 1
            rows[p, to_left, n_left] = row
            rows[p, to_right, n_right] = row
            n_left += goes
            n_right += np.int64(1) - goes
        child = np.int64(left[node])
        whole = max(cover[child] + cover[child + 1], 1)
        for q in range(n_parties):
            held[top + 1, q], size[top + 1, q], level[top + 1, q], part[top + 1, q] = (
                held[top, q], size[top, q], level[top, q], part[top, q],
            )  # fmt: skip
        node_at[top], node_at[top + 1] = child + 1, child
        held[top, p], size[top, p], level[top, p] = to_right, n_right, depth + 1
        held[top + 1, p], size[top + 1, p], level[top + 1, p] = to_left, n_left, depth + 1
        part[top + 1, p] = part[top, p] * cover[child] / whole
        part[top, p] *= cover[child + 1] / whole
        top += 2
    is_whole = True
    for p in range(n_parties):
        is_whole &= (bit[p] + 7) >> 3 == end[p]
    return is_whole
