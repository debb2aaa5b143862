"""Extra-trees: the candidates of a node are single random cuts; there is no search over cuts.

A candidate sends a row into one of two cells: 0 left, 1 right; a third is for missing values. A
number is cut at a bin, a category by a random set of its bins. Each candidate is counted in one
pass over the node's rows, without a histogram.
"""

import numpy as np

from spinney.trees._kernels.binning import highest_code
from spinney.trees._kernels.compiling import inlined, kernel
from spinney.trees._kernels.hashing import mixed
from spinney.trees._kernels.histogram import _clear, _column, _load
from spinney.trees._kernels.parts import code_of, edge_above
from spinney.trees._kernels.rows import CLASS_MASK, CLASS_SHIFT, ROW_MASK, WEIGHT_SHIFT, in_set

_ONE = np.uint64(1)
_HALF = 5  # half of a word that counts two classes: a shift of 1 << 5 bits
_UNIT = 2.0**-53
_FEW_CODES = 16  # that rows may have in a column that no cut splits; then it is constant
SALT = np.uint64(0x5851F42D4C957F2D)  # features and cuts are drawn from the same key


@inlined
def cut_by_value(edges, begins, column, lowest, highest, word):
    """Return the last cut in [lowest, highest) at or below a value drawn uniformly in the box.

    Bin b holds values up to edge b. The last bin of a column has no edge; it is taken to be as wide
    as the bin before, so that of few values, evenly spaced, every cut is as likely.
    """
    last = highest - 1
    below = np.float64(edge_above(edges, begins, column, lowest))
    above = np.inf
    if begins.shape[1] > 0 or highest < edges.shape[1]:
        above = np.float64(edge_above(edges, begins, column, highest))
    if not np.isfinite(above):
        above = np.float64(edge_above(edges, begins, column, last))
        if last > lowest:
            above += above - np.float64(edge_above(edges, begins, column, last - 1))
    value = below + (above - below) * (np.float64(word >> np.uint64(11)) * _UNIT)
    if begins.shape[1] > 0:
        return max(lowest, min(last, code_of(edges, begins, column, value) - 1))
    a = lowest
    b = last
    while a < b:
        middle = (a + b + 1) >> 1
        if edges[column, middle] <= value:
            a = middle
        else:
            b = middle - 1
    return a


@inlined
def _cut_by_bin(lowest, highest, share, n_shares, word):
    """Return a cut in [lowest, highest), drawn uniformly among the bins of a share of it."""
    span = highest - lowest
    begin = lowest + span * share // n_shares
    end = lowest + span * (share + 1) // n_shares
    begin = min(begin, highest - 1)
    return begin + np.int64(word % np.uint64(max(end - begin, 1)))


@kernel
def draw_cuts(
    keys, low, high, n_bins, is_category, has_missing, edges, begins, line, stage, n_compared,
    n_features, draws, feature, cut, cells, first,
):  # fmt: skip
    """Draw the features of each node in random order, and `draws` cuts of each.

    A feature's cuts are uniform in its values, as in the paper. A node that draws on (`stage`)
    draws other cuts, half of them uniform in its bins, for columns whose rows are concentrated in a
    small part of their range; line k of it goes on where line k - 1 ended.

    `low` and `high` (n_nodes, n_columns) bound the bins a node's rows can have: its public box. A
    feature with only one bin in the box is skipped; if no other feature is left, one is kept, so
    that a node is always counted. Node i has `n_features[i]` features; unused slots have feature
    -1 and no cell. `first[i]` of them were among the first `n_compared` that were drawn.
    """
    n_columns = n_bins.shape[0]
    order = np.empty(n_columns, np.int32)
    for node in range(keys.shape[0]):
        for column in range(n_columns):
            order[column] = column
        state = keys[node]
        taken = 0
        first[node] = 0
        n_draws = draws[node]
        by_value = n_draws if stage[node] == 0 else n_draws // 2
        before = np.int64(line[node]) * n_features[node]  # usable features of the lines before
        for i in range(n_columns):
            if taken == n_features[node]:
                break
            state = mixed(state)
            other = i + np.int64(state % np.uint64(n_columns - i))
            column = order[other]
            order[other] = order[i]
            order[i] = column
            lowest = np.int64(low[node, column])  # for a category, no path narrows the box
            highest = np.int64(high[node, column])
            is_constant = lowest == highest and not has_missing[column]
            if is_constant and not (taken == 0 and line[node] == 0 and i == n_columns - 1):
                continue
            if before > 0:
                before -= 1
                continue
            first[node] += i < n_compared
            word = mixed(keys[node] ^ SALT ^ mixed(np.uint64(column)))
            if stage[node] > 0:
                word = mixed(word ^ np.uint64(stage[node]))
            for draw in range(n_draws):
                slot = taken * n_draws + draw
                feature[node, slot] = column
                cells[node, slot] = 3 if has_missing[column] else 2
                cut[node, slot] = lowest
                if highest > lowest and not is_category[column]:
                    word = mixed(word)
                    if draw < by_value:
                        cut[node, slot] = cut_by_value(edges, begins, column, lowest, highest, word)
                    else:
                        share, n_shares = draw - by_value, n_draws - by_value
                        cut[node, slot] = _cut_by_bin(lowest, highest, share, n_shares, word)
            taken += 1
        for slot in range(taken * n_draws, feature.shape[1]):
            feature[node, slot] = -1
            cells[node, slot] = 0
            cut[node, slot] = 0


@kernel
def draw_sets(keys, feature, subset, sets):
    """Fill the random sets of the categories' slots; each bin goes left by a separate coin toss."""
    for node in range(feature.shape[0]):
        for slot in range(feature.shape[1]):
            if subset[node, slot] >= 0:
                word = mixed(keys[node] ^ SALT ^ mixed(np.uint64(feature[node, slot])))
                word = mixed(word ^ np.uint64(slot))
                for i in range(4):
                    word = mixed(word)
                    sets[subset[node, slot], i] = word


@inlined
def _cell(code, bound, is_set, sets, place, missing):
    """Return the cell of a code: 0 left, 1 right, 2 missing."""
    cell = _ONE - in_set(sets[place], code) if is_set else np.uint64(code > bound)
    return np.uint64(2) if np.uint64(code) == missing else cell


@kernel
def count_two_classes(
    codes, block_start, n_columns, entries, starts, ends, first, last,
    feature, cut, subset, sets, cells, offset, out,
):  # fmt: skip
    """Count two classes: one 64-bit addition updates both 32-bit counts of a cell.

    Plain numbers are counted two at a time in registers; rows that are not left are right.
    """
    n_slots = feature.shape[1]
    missing = highest_code(codes)
    _clear(out, offset, cells, first, last, 1)
    for block in range(block_start.shape[0] - 1):
        base = np.uint64(block_start[block])
        height = np.uint64(block_start[block + 1]) - base
        origin = base * np.uint64(n_columns)
        for node in range(first, last):
            begin = np.uint64(starts[node, block])
            end = np.uint64(ends[node, block])
            if begin == end:
                continue
            total = np.int64(0)
            for i in range(begin, end):
                total += _load(entries[i], _HALF)
            slot = 0
            while slot < n_slots and feature[node, slot] >= 0:
                column_a = _column(origin, height, feature[node, slot])
                cut_a = cut[node, slot]
                at = offset[node, slot]
                plain = subset[node, slot] < 0 and cells[node, slot] == 2
                pair = plain and slot + 1 < n_slots and feature[node, slot + 1] >= 0
                if pair and subset[node, slot + 1] < 0 and cells[node, slot + 1] == 2:
                    column_b = _column(origin, height, feature[node, slot + 1])
                    cut_b = cut[node, slot + 1]
                    left_a = np.int64(0)
                    left_b = np.int64(0)
                    for i in range(begin, end):
                        entry = entries[i]
                        row = np.uint64(entry & ROW_MASK)
                        load = _load(entry, _HALF)
                        left_a += load & -np.int64(codes[column_a + row] <= cut_a)
                        left_b += load & -np.int64(codes[column_b + row] <= cut_b)
                    out[at] += left_a
                    out[at + 1] += total - left_a
                    out[at + 2] += left_b  # the next slot's cells follow a plain slot's two
                    out[at + 3] += total - left_b
                    slot += 2
                    continue
                if plain:
                    left_a = np.int64(0)
                    for i in range(begin, end):
                        entry = entries[i]
                        code = codes[column_a + np.uint64(entry & ROW_MASK)]
                        left_a += _load(entry, _HALF) & -np.int64(code <= cut_a)
                    out[at] += left_a
                    out[at + 1] += total - left_a
                else:
                    is_set = subset[node, slot] >= 0
                    for i in range(begin, end):
                        entry = entries[i]
                        code = codes[column_a + np.uint64(entry & ROW_MASK)]
                        cell = _cell(code, cut_a, is_set, sets, subset[node, slot], missing)
                        out[np.uint64(at) + cell] += _load(entry, _HALF)
                slot += 1


@kernel
def count_classes(
    codes, block_start, n_columns, entries, starts, ends, first, last,
    feature, cut, subset, sets, cells, offset, n_classes, out,
):  # fmt: skip
    """Count any number of classes into 32-bit cells, class by class in a cell."""
    missing = highest_code(codes)
    _clear(out, offset, cells, first, last, n_classes)
    width = np.uint64(n_classes)
    for block in range(block_start.shape[0] - 1):
        base = np.uint64(block_start[block])
        height = np.uint64(block_start[block + 1]) - base
        origin = base * np.uint64(n_columns)
        for node in range(first, last):
            begin = np.uint64(starts[node, block])
            end = np.uint64(ends[node, block])
            for slot in range(feature.shape[1]):
                if feature[node, slot] < 0 or begin == end:
                    break
                column = _column(origin, height, feature[node, slot])
                bound = cut[node, slot]
                is_set = subset[node, slot] >= 0
                at = np.uint64(offset[node, slot]) * width
                for i in range(begin, end):
                    entry = entries[i]
                    code = codes[column + np.uint64(entry & ROW_MASK)]
                    cell = _cell(code, bound, is_set, sets, subset[node, slot], missing)
                    label = np.uint64((entry >> CLASS_SHIFT) & CLASS_MASK)
                    out[at + cell * width + label] += np.int32(entry >> WEIGHT_SHIFT)


@kernel
def sum_targets(
    codes, targets, block_start, n_columns, entries, starts, ends, first, last,
    feature, cut, subset, sets, cells, offset, out,
):  # fmt: skip
    """Sum weights and weighted fixed-point targets: two 64-bit integers per cell."""
    missing = highest_code(codes)
    _clear(out, offset, cells, first, last, 2)
    for block in range(block_start.shape[0] - 1):
        base = np.uint64(block_start[block])
        height = np.uint64(block_start[block + 1]) - base
        origin = base * np.uint64(n_columns)
        for node in range(first, last):
            begin = np.uint64(starts[node, block])
            end = np.uint64(ends[node, block])
            for slot in range(feature.shape[1]):
                if feature[node, slot] < 0 or begin == end:
                    break
                column = _column(origin, height, feature[node, slot])
                bound = cut[node, slot]
                is_set = subset[node, slot] >= 0
                at = np.uint64(offset[node, slot]) << _ONE
                for i in range(begin, end):
                    entry = entries[i]
                    row = np.uint64(entry & ROW_MASK)
                    code = codes[column + row]
                    cell = _cell(code, bound, is_set, sets, subset[node, slot], missing)
                    weight = np.int64(entry >> WEIGHT_SHIFT)
                    to = at + (cell << _ONE)
                    out[to] += weight
                    out[to + _ONE] += weight * np.int64(targets[base + row])


@inlined
def _is_held(counts, width, cell):
    """Return whether a cell holds rows."""
    found = False
    for k in range(width):
        found |= counts[cell, k] != 0
    return found


@kernel
def choose(
    counts, weight_only, feature, cut, subset, cells, offset, low, high, first, chosen
):  # fmt: skip
    """Choose the candidates to compare: those that split, among the first `first` features.

    As in scikit-learn, a column that is constant among a node's rows uses up a draw, unless there
    would be nothing to compare: then the first later one that splits is chosen. Nobody knows
    whether a column that no cut splits is constant. It counts as constant if its cuts leave the
    rows at most `_FEW_CODES` codes, or are sets; otherwise they have probably missed, and another
    feature is taken instead. `low` and `high` bound the codes of a node's rows.

    For each feature the first draw that splits is taken: given that it splits, it is uniform
    between the node's smallest and largest bin, though no party has revealed those. Unused places
    are -1; a node where nothing splits keeps its first slot. `weight_only`: the first counter of a
    cell is its number of rows; otherwise the sum of all its counters is.
    """
    width = 1 if weight_only else counts.shape[1]
    for node in range(feature.shape[0]):
        for place in range(chosen.shape[1]):
            chosen[node, place] = -1
        taken = 0
        n_seen = 0
        most = first[node]
        slot = 0
        while slot < feature.shape[1] and feature[node, slot] >= 0:
            if taken == chosen.shape[1] or (taken > 0 and n_seen >= most):
                break
            column = feature[node, slot]
            n_seen += 1
            lowest, highest = np.int64(low[node, column]), np.int64(high[node, column])
            is_number = subset[node, slot] < 0
            found = -1
            while slot < feature.shape[1] and feature[node, slot] == column:
                at = offset[node, slot]
                left = _is_held(counts, width, at)
                right = _is_held(counts, width, at + 1)
                missing = cells[node, slot] == 3 and _is_held(counts, width, at + 2)
                if found < 0 and np.int64(left) + np.int64(right) + np.int64(missing) > 1:
                    found = slot
                if left:
                    highest = min(highest, np.int64(cut[node, slot]))
                else:
                    lowest = max(lowest, np.int64(cut[node, slot]) + 1)
                slot += 1
            if found >= 0:
                chosen[node, taken] = found
                taken += 1
            elif is_number and highest - lowest >= _FEW_CODES:
                most += 1
        if taken == 0:
            chosen[node, 0] = 0


@kernel
def empty_sides(counts, weight_only, feature, offset, sides):
    """Write which side of each cut holds no row of its node: 1 left, 2 right, 0 neither or both."""
    width = 1 if weight_only else counts.shape[1]
    for node in range(feature.shape[0]):
        for slot in range(feature.shape[1]):
            sides[node, slot] = 0
            if feature[node, slot] < 0:
                continue
            left = False
            right = False
            for k in range(width):
                left |= counts[offset[node, slot], k] != 0
                right |= counts[offset[node, slot] + 1, k] != 0
            if left != right:
                sides[node, slot] = 2 if left else 1


@kernel
def narrow_to_sides(split, child_open, sides, feature, cut, subset, low, high):
    """Narrow the boxes of open children to where cuts of their parents have found rows.

    `split` are the nodes that have children; `low` and `high` are those of the open children.
    """
    at = 0
    for i in range(split.shape[0]):
        node = split[i]
        for child in range(2 * i, 2 * i + 2):
            if not child_open[child]:
                continue
            for slot in range(feature.shape[1]):
                column = feature[node, slot]
                if column < 0 or subset[node, slot] >= 0:
                    continue
                bound = cut[node, slot]
                if sides[i, slot] == 1 and low[at, column] <= bound < high[at, column]:
                    low[at, column] = bound + 1
                elif sides[i, slot] == 2 and low[at, column] <= bound < high[at, column]:
                    high[at, column] = bound
            at += 1


@kernel
def add_up(counts, feature, cells, offset):
    """Return whether no count is negative and every slot's cells add up to those of the first."""
    for node in range(feature.shape[0]):
        for slot in range(feature.shape[1]):
            if feature[node, slot] < 0:
                break
            for k in range(counts.shape[1]):
                total = np.int64(0)
                for cell in range(cells[node, slot]):
                    count = counts[offset[node, slot] + cell, k]
                    if count < 0:
                        return False
                    total += count
                if slot > 0:
                    for cell in range(cells[node, 0]):
                        total -= counts[offset[node, 0] + cell, k]
                    if total != 0:
                        return False
    return True


@kernel
def sum_bits(
    codes, words, block_start, n_columns, entries, starts, ends, first, last,
    feature, cut, subset, sets, cells, offset, n_bits, out,
):  # fmt: skip
    """Count rows, and how often each bit of their words is set: 1 + n_bits counters per cell."""
    width = np.uint64(n_bits + 1)
    missing = highest_code(codes)
    _clear(out, offset, cells, first, last, n_bits + 1)
    for block in range(block_start.shape[0] - 1):
        base = np.uint64(block_start[block])
        height = np.uint64(block_start[block + 1]) - base
        origin = base * np.uint64(n_columns)
        for node in range(first, last):
            begin = np.uint64(starts[node, block])
            end = np.uint64(ends[node, block])
            for slot in range(feature.shape[1]):
                if feature[node, slot] < 0 or begin == end:
                    break
                column = _column(origin, height, feature[node, slot])
                bound = cut[node, slot]
                is_set = subset[node, slot] >= 0
                at = np.uint64(offset[node, slot]) * width
                for i in range(begin, end):
                    entry = entries[i]
                    row = np.uint64(entry & ROW_MASK)
                    cell = _cell(
                        codes[column + row], bound, is_set, sets, subset[node, slot], missing
                    )
                    to = at + cell * width
                    weight = np.int32(entry >> WEIGHT_SHIFT)
                    out[to] += weight
                    for word in range(words.shape[1]):
                        bits = words[base + row, word]
                        most = min(32, n_bits - 32 * word)
                        place = to + np.uint64(1 + 32 * word)
                        for bit in range(np.uint64(most)):
                            out[place + bit] += weight * np.int32((bits >> np.uint32(bit)) & 1)
