"""Fit trees to one party's rows, with given structures or with CART's choice, and score them.

A structure says only which column every node tests; its nodes are in pre-order in a full tree of
some depth, -1 if absent. Fitting finds the cuts (Gini impurity or variance) and the contents of the
leaves. Rows to be scored descend the tree at the same time.

Bins are stored column by column, (n_columns, n_rows). Nodes of a fitted tree are numbered so that
children come in pairs after their parent. Ties go to the lowest column, then to the lowest cut.
"""

import numpy as np

from spinney.trees._kernels.compiling import kernel
from spinney.trees._kernels.structure_cuts import (
    MISSING,
    count,
    search_categories,
    search_numbers,
    sum_left,
    sum_left_set,
)


@kernel
def _partition(rows, spare, start, end, column, is_category, cut, missing_left, words):
    """Move the rows that go left before those that go right; return where the right ones begin.

    There is no branch on where a row goes, because it could not be predicted.
    """
    n_left, n_right = np.int64(start), np.int64(0)
    also = MISSING if missing_left else MISSING + 1
    for at in range(start, end):
        row = rows[at]
        code = np.int64(column[row])
        if is_category:
            is_left = np.int64((words[code >> 6] >> np.uint64(code & 63)) & np.uint64(1))
        else:
            is_left = np.int64((code <= cut) | (code == also))
        rows[n_left] = row
        spare[n_right] = row
        n_left += is_left
        n_right += 1 - is_left
    for at in range(n_right):
        rows[n_left + at] = spare[at]
    return n_left


@kernel
def _sum_up(target, rows, n_classes, total):
    """Write the totals over all rows."""
    for c in range(total.shape[0]):
        total[c] = 0
    for at in range(rows.shape[0]):
        value = np.int64(target[rows[at]])
        if n_classes:
            total[value] += 1
        else:
            total[0] += 1
            total[1] += value


@kernel
def _is_pure(target, rows, start, end, n_classes, total):
    """Return whether all rows have the same target."""
    for c in range(n_classes):
        if total[c]:
            return total[c] == end - start
    at = start + 1
    while at < end and target[rows[at]] == target[rows[start]]:
        at += 1
    return at >= end


@kernel
def _score_rows(target, rows, start, end, n_classes, total, confusion, errors):
    """Add the score of a node's prediction on the rows in it."""
    if end == start:
        return
    if n_classes:
        guess = 0
        for c in range(1, n_classes):
            if total[c] > total[guess]:
                guess = c
        for at in range(start, end):
            confusion[np.int64(target[rows[at]]), guess] += 1
        return
    mean = float(total[1]) / float(total[0])
    for at in range(start, end):
        error = abs(float(target[rows[at]]) - mean)
        errors[0] += error * error
        errors[1] += error


@kernel
def fit_structure(
    codes, n_bins, is_category, target, n_classes, genome, depth, is_free, least,
    fit_rows, score_rows, by_depth, confusion, errors,
    feature, cut, missing_left, bin_sets, left_child, moments, gain,
):  # fmt: skip
    """Fit one tree and score it; return how many nodes it has.

    `is_free`: columns are chosen as CART does, and written to `genome`. `by_depth`: scores are kept
    for the tree cut off at every depth, 0 to `depth`; otherwise for the whole tree, at index 0. The
    rows are reordered. A node is a leaf if `feature` is -1.
    """
    width = n_classes or 2
    hist = np.zeros((256, width), np.int64)
    left = np.zeros(width, np.int64)
    best_left = np.zeros(width, np.int64)
    spare = np.empty(max(fit_rows.shape[0], score_rows.shape[0]), fit_rows.dtype)
    order = np.empty(256, np.int64)
    share = np.empty(256)
    words = np.zeros(4, np.uint64)
    best_words = np.zeros(4, np.uint64)
    stack = np.empty((2 * depth + 4, 7), np.int64)
    stack[0, 0] = stack[0, 1] = stack[0, 2] = stack[0, 3] = stack[0, 5] = 0
    stack[0, 4] = fit_rows.shape[0]
    stack[0, 6] = score_rows.shape[0]
    n_stack, n_nodes = 1, 1
    _sum_up(target, fit_rows, n_classes, moments[0])
    while n_stack:
        n_stack -= 1
        node, gene, level = stack[n_stack, 0], stack[n_stack, 1], stack[n_stack, 2]
        start, end = stack[n_stack, 3], stack[n_stack, 4]
        s_start, s_end = stack[n_stack, 5], stack[n_stack, 6]
        total = moments[node]
        n_all = np.int64(end - start)
        if by_depth:
            _score_rows(
                target, score_rows, s_start, s_end, n_classes, total, confusion[level],
                errors[level],
            )  # fmt: skip
        found = -1
        if (
            level < depth
            and n_all >= 2 * least
            and not _is_pure(target, fit_rows, start, end, n_classes, total)
        ):
            middle = np.int64(0) if n_classes else total[1] // total[0]
            best = 0.0
            if n_classes:
                for c in range(n_classes):
                    best += float(total[c]) * float(total[c])
                best /= float(n_all)
            parent = best if n_classes else 0.0
            best -= 1e-9 * abs(best)  # a cut without gain may make a later cut with gain possible
            if not n_classes:
                best = -1.0
            first = 0 if is_free else np.int64(genome[gene])
            last = codes.shape[0] if is_free else first + 1
            for column in range(max(first, 0), last):
                low, high = count(codes[column], target, fit_rows, start, end, n_classes, hist)
                if is_category[column]:
                    score, n_left = search_categories(
                        hist, n_bins[column], total, n_all, n_classes, middle, least, best, left,
                        order, share, words,
                    )  # fmt: skip
                    if n_left >= 0:
                        best = score
                        found = column
                        cut[node] = 0
                        missing_left[node] = 2 * n_left > n_all
                        for k in range(4):
                            best_words[k] = words[k]
                        sum_left_set(hist, low, high, words, best_left)
                else:
                    score, at, goes = search_numbers(
                        hist, low, high, total, n_all, n_classes, middle, least, best, left
                    )
                    if at >= 0:
                        best = score
                        found = column
                        cut[node] = at
                        missing_left[node] = goes
                        sum_left(hist, low, at, goes, best_left)
                for code in range(low, high + 1):
                    for c in range(width):
                        hist[code, c] = 0
                for c in range(width):
                    hist[MISSING, c] = 0
        feature[node] = found
        if is_free and level < depth:
            genome[gene] = found
        if found < 0:
            left_child[node] = node
            cut[node] = 0
            missing_left[node] = False
            gain[node] = 0.0
            if by_depth:
                for deeper in range(level + 1, depth + 1):
                    _score_rows(
                        target, score_rows, s_start, s_end, n_classes, total, confusion[deeper],
                        errors[deeper],
                    )  # fmt: skip
            else:
                _score_rows(
                    target, score_rows, s_start, s_end, n_classes, total, confusion[0], errors[0]
                )
            continue
        gain[node] = max(best - parent, 0.0)
        for k in range(4):
            bin_sets[node, k] = best_words[k] if is_category[found] else np.uint64(0)
        middle_row = _partition(
            fit_rows, spare, start, end, codes[found], is_category[found], np.int64(cut[node]),
            missing_left[node], best_words,
        )  # fmt: skip
        s_middle = _partition(
            score_rows, spare, s_start, s_end, codes[found], is_category[found],
            np.int64(cut[node]), missing_left[node], best_words,
        )  # fmt: skip
        left_child[node] = n_nodes
        for c in range(width):
            moments[n_nodes, c] = best_left[c]
            moments[n_nodes + 1, c] = total[c] - best_left[c]
        below = np.int64(1) << (depth - level - 1)  # genes of a child's subtree, plus one
        stack[n_stack, 0] = n_nodes + 1
        stack[n_stack, 1] = gene + below
        stack[n_stack, 2] = level + 1
        stack[n_stack, 3], stack[n_stack, 4] = middle_row, end
        stack[n_stack, 5], stack[n_stack, 6] = s_middle, s_end
        n_stack += 1
        stack[n_stack, 0] = n_nodes
        stack[n_stack, 1] = gene + 1
        stack[n_stack, 2] = level + 1
        stack[n_stack, 3], stack[n_stack, 4] = start, middle_row
        stack[n_stack, 5], stack[n_stack, 6] = s_start, s_middle
        n_stack += 1
        n_nodes += 2
    return n_nodes


@kernel
def score_structures(
    codes, n_bins, is_category, target, n_classes, genomes, depth, least,
    fit_rows, score_rows, first, last, confusion, errors,
):  # fmt: skip
    """Fit structures `first` to `last` and write their scores on the rows to be scored."""
    n = min((np.int64(2) << depth) - 1, 2 * max(fit_rows.shape[0], 1) + 1)
    width = n_classes or 2
    feature = np.empty(n, np.int32)
    cut = np.empty(n, np.uint8)
    missing_left = np.empty(n, np.bool_)
    bin_sets = np.empty((n, 4), np.uint64)
    left_child = np.empty(n, np.int64)
    moments = np.empty((n, width), np.int64)
    gain = np.empty(n)
    own_fit = fit_rows.copy()
    own_score = score_rows.copy()
    for number in range(first, last):
        own_fit[:] = fit_rows
        own_score[:] = score_rows
        fit_structure(
            codes, n_bins, is_category, target, n_classes, genomes[number], depth, False, least,
            own_fit, own_score, False, confusion[number : number + 1], errors[number : number + 1],
            feature, cut, missing_left, bin_sets, left_child, moments, gain,
        )  # fmt: skip
