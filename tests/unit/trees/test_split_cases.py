"""Splits that a person can check, and rows that follow them."""

import numpy as np
import pytest

from spinney.trees.frontier import ColumnCells, Draws, Frontier
from spinney.trees.histogram import level_counts
from spinney.trees.rows import standing_at_roots
from spinney.trees.split import BestSplits, Criterion, LeastLeaf, best_splits
from unit.trees.split_cases import (  # type: ignore[import-not-found]
    ANY_LEAF,
    found_in,
    one_node,
    sent_left,
)

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


@pytest.mark.parametrize(("n_empty", "cut"), [(0, 0), (1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("criterion", ["gini", "entropy", "squared_error"])
def test_a_cut_beside_empty_cells_goes_to_their_middle(criterion, n_empty, cut):
    """Of whole numbers, 0 and 2 are parted at 1, 0 and 3 at 1.5, as in scikit-learn."""
    cells = np.array([[4, 0], *[[0, 0]] * n_empty, [1, 4], [0, 9]])
    weights = np.zeros(0) if criterion == "squared_error" else np.ones(2)
    best = found_in([cells], [False], [False], Criterion.of(criterion, weights, 18))
    assert best.cut[0] == cut
    assert best.left[0].tolist() == [4, 0]


def test_rows_to_come_beyond_the_last_cell_with_rows_stay_with_it():
    cells = np.array([[0, 4], [4, 0], [0, 0], [0, 0], [0, 5]])  # the last is of missing values
    best = found_in([cells], [False], [True], Criterion.of("gini", np.ones(2), 13))
    assert best.cut[0] == 0
    cells = np.array([[2, 2], [0, 0], [0, 0], [0, 5]])
    best = found_in([cells], [False], [True], Criterion.of("gini", np.ones(2), 13))
    assert (best.cut[0], best.left[0].tolist()) == (0, [2, 2])


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
    columns = ColumnCells(np.array([30, 5, 9]), np.array([False, True, False]), np.zeros(3, bool))
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
    columns = ColumnCells(n_bins, np.array([False, False, True, False]), gaps)
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
