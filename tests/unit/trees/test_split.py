"""Counts to decisions: the best cut found is the best there is, by trying all of them."""

from fractions import Fraction
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.trees.frontier import Columns, Draws, Frontier, Slots
from spinney.trees.histogram import level_counts
from spinney.trees.rows import standing_at_roots
from spinney.trees.split import BestSplits, Criterion, LeastLeaf, best_splits

ANY_LEAF = LeastLeaf(1)


def spread(counts, criterion):
    """Return a side's weight times its impurity, from its (weighted) class counts."""
    weight = counts.sum()
    if weight <= 0:
        return 0.0
    shares = counts[counts > 0] / weight
    if criterion == "gini":
        return float(weight * (1 - (shares**2).sum()))
    return float(-weight * (shares * np.log2(shares)).sum())


def gain_of(left, total, criterion, class_weight):
    if criterion == "squared_error":
        (n, s), (n_all, s_all) = map(Fraction, left), map(Fraction, total)  # nothing cancels
        both = s**2 / n + (s_all - s) ** 2 / (n_all - n)
        return float(both - s_all**2 / n_all)
    left, total = left * class_weight, total * class_weight
    return spread(total, criterion) - spread(left, criterion) - spread(total - left, criterion)


def rows_of(counts, criterion):
    return counts[0] if criterion == "squared_error" else counts.sum()


def number_sides(cells, *, has_missing):
    """Give every set of cells that a cut of a number sends left."""
    n = len(cells) - has_missing
    for cut in range(n):
        yield tuple(range(cut + 1))  # gaps right
        if has_missing:
            yield (*range(cut + 1), n)


def category_sides(cells):
    """Give every set of cells but none and all."""
    used = range(len(cells))
    return chain.from_iterable(combinations(used, size) for size in range(1, len(cells)))


def best_gain(cells, sides, criterion, class_weight, least=1):
    """Return the best gain over all sides that leave enough rows on both, or None."""
    total = cells.sum(axis=0)
    best = None
    for side in sides:
        left = cells[list(side)].sum(axis=0)
        n_left = rows_of(left, criterion)
        if n_left < max(least, 1) or rows_of(total, criterion) - n_left < max(least, 1):
            continue
        gain = gain_of(left.astype(float), total.astype(float), criterion, class_weight)
        best = gain if best is None else max(best, gain)
    return best


def one_node(cells_of_slot, is_category, has_missing):
    """Return the slots of one node whose cells are bins, one column each."""
    n_slots = len(cells_of_slot)
    n_cells = np.array([[len(cells) for cells in cells_of_slot]], np.int32)
    slots = Slots.of(
        np.arange(n_slots, dtype=np.int32)[None, :],
        np.zeros((1, n_slots), np.int32),
        np.zeros((1, n_slots), np.uint8),
        n_cells,
    )
    columns = Columns(
        n_cells[0].astype(np.int64) - np.array(has_missing),
        np.array(is_category),
        np.array(has_missing),
    )
    return slots, columns


def found_in(cells_of_slot, is_category, has_missing, criterion, **limits):
    slots, columns = one_node(cells_of_slot, is_category, has_missing)
    counters: Any = np.concatenate(cells_of_slot)
    return best_splits(
        counters.astype(np.int64 if criterion.name == "squared_error" else np.int32),
        slots,
        columns,
        criterion,
        least=limits.get("least", ANY_LEAF),
        root_weight=np.zeros(1),
        n_threads=1,
    )


def sent_left(best, cells, *, is_category, has_missing):
    """Return which cells of the chosen slot go left by what the split says."""
    n = len(cells)
    codes = np.arange(n)
    if has_missing:
        codes[-1] = 255
    if is_category:
        words = best.bin_set[0]
        return np.array([(int(words[c >> 6]) >> c % 64) & 1 for c in codes.tolist()], bool)
    left = codes <= best.cut[0]
    if has_missing:
        left[-1] = best.missing_left[0]
    return left


def require_sound(best, cells_of_slot, is_category, has_missing, criterion):
    """Raise unless the split's own facts agree: what goes left, how much, for what gain."""
    slot = best.slot[0]
    cells = cells_of_slot[slot]
    left = sent_left(best, cells, is_category=is_category[slot], has_missing=has_missing[slot])
    assert cells[left].sum(axis=0).tolist() == best.left[0].tolist()
    assert cells.sum(axis=0).tolist() == best.total[0].tolist()
    weights = criterion.class_weight
    gain = gain_of(best.left[0].astype(float), best.total[0].astype(float), criterion.name, weights)
    assert best.gain[0] == pytest.approx(gain, rel=1e-9, abs=1e-6)


def slot_of(data, total, n_cells, n_kinds):
    """Draw cells whose sums are `total`: every slot of a node holds the same rows."""
    cells = np.zeros((n_cells, n_kinds), np.int64)
    for kind, n in enumerate(total):
        places = data.draw(st.lists(st.integers(0, n_cells - 1), min_size=n, max_size=n))
        np.add.at(cells[:, kind], places, 1)
    return cells


@settings(max_examples=150)
@given(
    data=st.data(),
    n_classes=st.integers(2, 4),
    name=st.sampled_from(["gini", "entropy"]),
    least=st.integers(1, 4),
    weighted=st.booleans(),
)
def test_a_number_is_cut_where_it_gains_most(data, n_classes, name, least, weighted):
    total = data.draw(st.lists(st.integers(0, 6), min_size=n_classes, max_size=n_classes))
    has_missing = data.draw(st.lists(st.booleans(), min_size=1, max_size=3))
    cells_of_slot = [
        slot_of(data, total, data.draw(st.integers(0 if gap else 1, 6)) + gap, n_classes)
        for gap in has_missing
    ]
    weights = np.arange(1, n_classes + 1) / 2 if weighted else np.ones(n_classes)
    criterion = Criterion.of(name, weights, sum(total) + 1)
    is_category = [False] * len(cells_of_slot)
    best = found_in(cells_of_slot, is_category, has_missing, criterion, least=LeastLeaf(least))
    gains = [
        best_gain(cells, number_sides(cells, has_missing=gap), name, weights, least)
        for cells, gap in zip(cells_of_slot, has_missing, strict=True)
    ]
    known = [gain for gain in gains if gain is not None]
    if not known:
        assert best.slot[0] == -1
        return
    assert best.gain[0] == pytest.approx(max(known), rel=1e-9, abs=1e-9)
    require_sound(best, cells_of_slot, is_category, has_missing, criterion)
    assert min(best.left[0].sum(), (best.total[0] - best.left[0]).sum()) >= least


@settings(max_examples=150)
@given(
    data=st.data(),
    name=st.sampled_from(["gini", "entropy"]),
    has_missing=st.booleans(),
    weighted=st.booleans(),
)
def test_of_two_classes_the_best_subset_of_categories_is_found(data, name, has_missing, weighted):
    total = data.draw(st.lists(st.integers(0, 8), min_size=2, max_size=2))
    cells = slot_of(data, total, data.draw(st.integers(1, 6)) + has_missing, 2)
    weights = np.array([2.5, 0.5]) if weighted else np.ones(2)
    criterion = Criterion.of(name, weights, sum(total) + 1)
    best = found_in([cells], [True], [has_missing], criterion)
    expected = best_gain(cells, category_sides(cells), name, weights)
    if expected is None:
        assert best.slot[0] == -1
    else:
        assert best.gain[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
        require_sound(best, [cells], [True], [has_missing], criterion)


@settings(max_examples=150)
@given(data=st.data(), n_classes=st.integers(3, 4), has_missing=st.booleans())
def test_of_more_classes_a_subset_at_least_as_good_as_any_one_against_the_rest_is_found(
    data, n_classes, has_missing
):
    total = data.draw(st.lists(st.integers(0, 5), min_size=n_classes, max_size=n_classes))
    cells = slot_of(data, total, data.draw(st.integers(2, 5)) + has_missing, n_classes)
    weights = np.ones(n_classes)
    criterion = Criterion.of("gini", weights, sum(total) + 1)
    best = found_in([cells], [True], [has_missing], criterion)
    optimum = best_gain(cells, category_sides(cells), "gini", weights)
    if optimum is None:
        assert best.slot[0] == -1
        return
    require_sound(best, [cells], [True], [has_missing], criterion)
    used = np.flatnonzero(cells.sum(axis=1))
    prefixes = set()
    for kind in range(n_classes):
        share = cells[used, kind] / cells[used].sum(axis=1)
        order = used[np.argsort(share, kind="stable")]
        prefixes |= {tuple(order[: i + 1]) for i in range(len(order) - 1)}
    tried = best_gain(cells, prefixes, "gini", weights)
    assert tried is not None
    assert best.gain[0] >= tried - 1e-9
    assert best.gain[0] <= optimum + 1e-9


@settings(max_examples=200)
@given(
    data=st.data(), is_category=st.booleans(), has_missing=st.booleans(), least=st.integers(1, 4)
)
def test_amounts_are_parted_where_their_means_differ_most(data, is_category, has_missing, least):
    if is_category:
        least = 1  # else the best subset need not be one of those in order of their means
    n_cells = data.draw(st.integers(1, 6)) + has_missing
    top = data.draw(st.sampled_from([3, 1000, 2**24 - 1, 2**40 - 1]))
    base = data.draw(st.sampled_from([0, 2**40]))  # sums of many rows with a far-off mean
    weights = data.draw(st.lists(st.integers(0, 5), min_size=n_cells, max_size=n_cells))
    sums = [n * base + sum(data.draw(st.integers(0, top)) for _ in range(n)) for n in weights]
    cells = np.array([weights, sums], np.int64).T
    criterion = Criterion.of("squared_error", np.zeros(0), 0)
    best = found_in([cells], [is_category], [has_missing], criterion, least=LeastLeaf(least))
    sides = category_sides(cells) if is_category else number_sides(cells, has_missing=has_missing)
    centred = cells.copy()  # the gain does not depend on where zero is
    centred[:, 1] -= cells[:, 0] * base
    expected = best_gain(centred, sides, "squared_error", np.zeros(0), least)
    if expected is None or expected <= 1e-3:
        assert best.slot[0] == -1 or best.gain[0] <= 1e-3 + 1e-9 * top**2
        return
    assert best.gain[0] == pytest.approx(expected, rel=1e-9)
    left = sent_left(best, cells, is_category=is_category, has_missing=has_missing)
    assert cells[left].sum(axis=0).tolist() == best.left[0].tolist()
    assert best.left[0, 0] >= least
    assert best.total[0, 0] - best.left[0, 0] >= least


# --- cases a person can check --------------------------------------------------------------------


def test_three_cells_and_two_classes():
    """Bins 0 and 1 hold class 0, bin 2 class 1: the cut is after bin 1."""
    cells = np.array([[3, 0], [2, 0], [0, 5]])
    best = found_in([cells], [False], [False], Criterion.of("gini", np.ones(2), 11))
    assert (best.slot[0], best.cut[0]) == (0, 1)
    assert best.left[0].tolist() == [5, 0]
    assert best.total[0].tolist() == [5, 5]
    assert best.gain[0] == pytest.approx(5.0)  # 10 rows of impurity 1/2, down to none


def test_ties_go_to_the_first_slot_then_to_the_lowest_cut():
    flat = np.array([[1, 1], [1, 1], [1, 1], [1, 1]])
    best = found_in([flat, flat], [False] * 2, [False] * 2, Criterion.of("gini", np.ones(2), 9))
    assert (best.slot[0], best.cut[0]) == (0, 0)
    assert best.gain[0] == pytest.approx(0.0, abs=1e-12)


def test_an_empty_cell_is_no_place_to_cut():
    """Between bins 0 and 3 lie two empty ones: the lowest cut parts the same rows."""
    cells = np.array([[4, 0], [0, 0], [0, 0], [0, 4]])
    best = found_in([cells], [False], [False], Criterion.of("gini", np.ones(2), 9))
    assert best.cut[0] == 0


@pytest.mark.parametrize(("gap", "goes_left"), [((5, 0), True), ((0, 5), False)])
def test_gaps_go_where_their_labels_are(gap, goes_left):
    cells = np.array([[6, 0], [0, 6], gap])
    best = found_in([cells], [False], [True], Criterion.of("gini", np.ones(2), 18))
    assert best.cut[0] == 0
    assert bool(best.missing_left[0]) is goes_left


def test_gaps_alone_can_be_parted_from_all_numbers():
    cells = np.array([[3, 0], [3, 0], [0, 6]])
    best = found_in([cells], [False], [True], Criterion.of("gini", np.ones(2), 13))
    assert best.cut[0] >= 1
    assert not best.missing_left[0]
    assert best.left[0].tolist() == [6, 0]


@pytest.mark.parametrize("is_category", [False, True])
def test_where_no_gap_was_seen_gaps_go_to_the_larger_side(is_category):
    for cells, larger_is_left in (
        (np.array([[6, 0], [0, 2], [0, 0]]), True),
        (np.array([[2, 0], [0, 6], [0, 0]]), False),
    ):
        best = found_in([cells], [is_category], [True], Criterion.of("gini", np.ones(2), 9))
        left = sent_left(best, cells, is_category=is_category, has_missing=True)
        side_of_larger = left[0] if larger_is_left else left[1]
        assert left[2] == side_of_larger


def test_unseen_categories_go_to_the_larger_side():
    cells = np.array([[0, 0], [2, 0], [0, 7], [0, 0]])
    best = found_in([cells], [True], [False], Criterion.of("gini", np.ones(2), 10))
    left = sent_left(best, cells, is_category=True, has_missing=False)
    assert left[0] == left[3] == left[2]
    assert left[1] != left[2]


def test_a_node_without_rows_has_no_split():
    nothing = np.zeros((3, 2), np.int64)
    assert found_in([nothing], [False], [False], Criterion.of("gini", np.ones(2), 1)).slot[0] == -1
    amounts = Criterion.of("squared_error", np.zeros(0), 0)
    assert found_in([nothing], [False], [False], amounts).slot[0] == -1


@pytest.mark.parametrize("name", ["gini", "entropy"])
def test_a_node_whose_rows_all_miss_a_number_has_no_split_there(name):
    gaps, other = np.array([[3, 4]]), np.array([[3, 1], [0, 3]])
    criterion = Criterion.of(name, np.ones(2), 8)
    assert found_in([gaps], [False], [True], criterion).slot[0] == -1
    assert found_in([gaps, other], [False] * 2, [True, False], criterion).slot[0] == 1


def test_a_column_of_one_value_has_no_split():
    cells = np.array([[5, 5]])
    assert found_in([cells], [False], [False], Criterion.of("gini", np.ones(2), 11)).slot[0] == -1


def test_a_leaf_must_hold_its_share_of_the_tree_s_weight():
    cells = np.array([[1, 0], [4, 0], [0, 5]])
    criterion = Criterion.of("entropy", np.array([1.0, 3.0]), 0)
    slots, columns = one_node([cells], [False], [False])
    for share, root_weight, expected in (
        (0.0, 0.0, 1),
        (0.25, 0.0, 1),
        (0.3, 0.0, -1),
        (0.05, 200.0, -1),
    ):
        best = best_splits(
            cells.astype(np.int32),
            slots,
            columns,
            criterion,
            least=LeastLeaf(1, share),
            root_weight=np.array([root_weight]),
            n_threads=1,
        )
        # 5 of 20 weights are left of the best cut; a heavier root asks for more.
        assert (best.cut[0] if best.slot[0] >= 0 else -1) == expected


def test_the_table_of_logarithms_changes_nothing():
    random = np.random.RandomState(0)
    cells = random.randint(0, 50, (20, 3))
    by_table = found_in([cells], [False], [False], Criterion.of("entropy", np.ones(3), 5000))
    plain = Criterion("entropy", np.ones(3), np.zeros(0))
    assert found_in([cells], [False], [False], plain).gain[0] == pytest.approx(by_table.gain[0])
    assert Criterion.of("entropy", np.array([1.0, 0.5, 1.0]), 50).log_table.size == 0


def test_parts_of_a_level_join_to_the_whole():
    random = np.random.RandomState(0)
    columns = Columns(np.array([30, 5, 9]), np.array([False, True, False]), np.zeros(3, bool))
    frontier = Frontier.of_roots(
        columns, Draws(2, 33, least_cells=4, shared_phase=False), seed=1, n_trees=7, bits=9
    )
    slots = frontier.slots
    counters = random.randint(0, 20, (slots.n_cells, 2)).astype(np.int32)
    criterion = Criterion.of("gini", np.ones(2), 5000)

    def part(first, last, n_threads=1):
        begin = slots.offset[first, 0]
        cells = slots.part(first, last)
        return best_splits(
            counters[begin : begin + cells.n_cells],
            cells,
            columns,
            criterion,
            least=ANY_LEAF,
            root_weight=np.zeros(last - first),
            n_threads=n_threads,
        )

    whole = part(0, 7)
    joined = BestSplits.of_parts([part(0, 3), part(3, 4), part(4, 7)])
    threaded = part(0, 7, n_threads=3)
    for name, array in vars(whole).items():
        assert np.array_equal(array, getattr(joined, name))
        assert np.array_equal(array, getattr(threaded, name))


# --- from rows to sides --------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("max_cells", [4, 33, 255])
def test_what_a_split_says_goes_left_does_go_left(max_cells, n_classes, in_blocks):
    """Zoomed cells, phases, gaps and categories: count, cut, move the rows, count again."""
    random = np.random.RandomState(max_cells + n_classes)
    n_bins = np.array([255, 200, 7, 40])
    gaps = np.array([True, False, True, True])
    codes = np.stack([random.randint(0, bins, 900) for bins in n_bins], axis=1).astype(np.uint8)
    codes[:, gaps] = np.where(random.random_sample((900, 3)) < 0.3, 255, codes[:, gaps])
    target = random.randint(0, n_classes or 1000, 900).astype(np.uint8 if n_classes else np.int32)
    table = in_blocks(codes, target, [500, 400])
    columns = Columns(n_bins, np.array([False, False, True, False]), gaps)
    draws = Draws(1, max_cells, least_cells=4, shared_phase=False)
    frontier = Frontier.of_roots(columns, draws, seed=3, n_trees=12, bits=20)
    standing = standing_at_roots(table, frontier.phase_key, bootstrap=True, n_threads=1)
    counts = level_counts(
        table, columns, standing, frontier.slots, (0, 12), n_classes=n_classes, n_threads=1
    )
    weights = np.ones(n_classes)
    name = "gini" if n_classes else "squared_error"
    best = best_splits(
        counts.counters,
        frontier.slots,
        columns,
        Criterion.of(name, weights, 12 * 900),
        least=ANY_LEAF,
        root_weight=np.zeros(12),
        n_threads=1,
    )
    assert (best.slot >= 0).all()
    for tree in range(12):
        column = frontier.slots.feature[tree, best.slot[tree]]
        entries = np.concatenate(
            [standing.entries[standing.starts[tree, b] : standing.ends[tree, b]] for b in (0, 1)]
        )
        sizes = standing.ends[tree] - standing.starts[tree]
        rows = (entries & 0xFFFF) + np.repeat([0, 500], sizes)
        weight = (entries >> 27).astype(np.int64)
        code = codes[rows, column].astype(np.int64)
        if columns.is_category[column]:
            words = best.bin_set[tree]
            left = (words[code >> 6] >> (code & 63).astype(np.uint64)) & np.uint64(1) == 1
        else:
            left = np.where(code == 255, best.missing_left[tree], code <= best.cut[tree])
        if n_classes:
            expected = np.bincount(target[rows[left]], weight[left], minlength=n_classes)
        else:
            expected = np.array([weight[left].sum(), (weight[left] * target[rows[left]]).sum()])
        assert best.left[tree].tolist() == expected.tolist()
