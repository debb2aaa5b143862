"""Decisions become a forest level by level; the stopping rules say where it ends."""

from dataclasses import fields, replace

import numpy as np
import pytest

from spinney.trees.binning import Binning
from spinney.trees.forest import Forest
from spinney.trees.frontier import ColumnCells, Draws, Frontier
from spinney.trees.growth import Growth, StoppingRules
from spinney.trees.histogram import Above, add_derived, level_counts
from spinney.trees.layout import LeafValues, forest_of_leaves
from spinney.trees.rows import standing_at_roots
from spinney.trees.split import BestSplits, Criterion, LeastLeaf, best_splits

ANY = StoppingRules(None, 2, 1, 0.0, is_regression=False)
AMOUNTS = replace(ANY, is_regression=True)


def best_of(total, left, gain, slot=None):
    """Return the best cuts of nodes, all at bin 0 of slot 0."""
    total = np.array(total, np.int64)
    n = len(total)
    return BestSplits(
        total,
        np.zeros(n, np.int64) if slot is None else np.array(slot),
        np.zeros(n, np.uint8),
        np.zeros(n, bool),
        np.array(gain, float),
        np.array(left, np.int64),
        np.zeros((n, 4), np.uint64),
    )


def roots(n_trees=1, n_bins=4):
    columns = ColumnCells(np.array([n_bins]), np.array([False]), np.array([False]))
    draws = Draws(1, 33, least_cells=4, shared_phase=False)
    return Frontier.of_roots(columns, draws, seed=0, n_trees=n_trees, bits=20)


def binning_of(edges):
    return Binning((np.array(edges, np.float32),), (np.zeros(0, np.uint8),), np.array([False]))


# --- stopping rules ------------------------------------------------------------------------------


def test_a_node_opens_if_it_holds_rows_of_two_classes():
    moments = np.array([[1, 1], [2, 0], [0, 9], [0, 0], [1, 0]])
    opened = ANY.opens(moments, depth=1, class_weight=np.ones(2))
    assert opened.tolist() == [True, False, False, False, False]


def test_a_class_without_weight_keeps_no_node_open():
    """As in scikit-learn, which looks at the weighted impurity."""
    moments = np.array([[5, 5, 0], [5, 0, 5], [0, 5, 5], [5, 5, 5]])
    opened = ANY.opens(moments, depth=1, class_weight=np.array([1.0, 2.0, 0.0]))
    assert opened.tolist() == [True, False, False, True]


def test_a_node_of_amounts_opens_if_it_holds_two_rows():
    moments = np.array([[2, 0], [1, 99], [0, 0]])
    assert AMOUNTS.opens(moments, 1, np.zeros(0)).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("rules", "opened"),
    [
        (replace(ANY, min_samples_split=5), [False, True, True]),
        (replace(ANY, min_samples_leaf=3), [False, False, True]),
        (replace(ANY, min_samples_split=6, min_samples_leaf=2), [False, False, True]),
        (replace(ANY, max_depth=3), [True, True, True]),
        (replace(ANY, max_depth=2), [False, False, False]),
    ],
)
def test_small_and_deep_nodes_stay_closed(rules, opened):
    moments = np.array([[2, 2], [3, 2], [3, 3]])
    assert rules.opens(moments, 2, np.ones(2)).tolist() == opened


def test_a_cut_of_classes_is_made_even_without_gain():
    """As in scikit-learn: the next level may gain, as with exclusive or."""
    best = best_of([[4, 4], [4, 4]], [[2, 2], [2, 2]], [0.0, 0.0], slot=[0, -1])
    assert ANY.accepts(best, np.array([8.0, 8.0])).tolist() == [True, False]


def test_a_cut_of_amounts_need_not_gain():
    best = best_of([[4, 4], [4, 4]], [[2, 2], [2, 2]], [0.0, 1e-9])
    assert AMOUNTS.accepts(best, np.array([8.0, 8.0])).tolist() == [True, True]


def test_a_cut_must_gain_its_share_of_the_tree_s_weight():
    rules = replace(ANY, min_impurity_decrease=0.1)
    best = best_of([[4, 4]] * 3, [[2, 2]] * 3, [0.79, 0.8, 0.81])
    assert rules.accepts(best, np.full(3, 8.0)).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("rules", "total"),
    [
        (ANY, [8, 0]),
        (ANY, [0, 0]),
        (replace(ANY, min_samples_split=9), [4, 4]),
        (replace(ANY, min_samples_leaf=5), [4, 4]),
    ],
)
def test_a_root_keeps_to_the_rules_as_other_nodes_do(rules, total):
    growth = Growth(roots(), rules, np.ones(2))
    growth.grow(best_of([total], [[total[0] // 2, total[1] // 2]], [0.5]))
    assert growth.frontier.n_open == 0
    assert growth.forest(binning_of([1, 2, 3]), LeafValues(np.ones(2))).n_nodes == 1


# --- growing by hand -----------------------------------------------------------------------------


def test_two_trees_grow_side_by_side():
    """Tree 0 splits twice, tree 1 not at all; each tree's nodes end up adjacent."""
    growth = Growth(roots(n_trees=2), ANY, np.ones(2))
    assert growth.depth == 0
    assert growth.root_weight.tolist() == [0.0, 0.0]
    growth.grow(best_of([[6, 4], [5, 5]], [[6, 0], [0, 0]], [4.8, 0.0], slot=[0, -1]))
    assert growth.frontier.n_open == 0  # both children of tree 0 are pure
    forest = growth.forest(binning_of([1.5, 2.5, 3.5]), LeafValues(np.ones(2)))
    assert forest.tree_start.tolist() == [0, 3, 4]
    assert forest.feature.tolist() == [0, -1, -1, -1]
    assert forest.threshold[0] == 1.5
    assert forest.left.tolist() == [1, 1, 2, 3]
    assert forest.moments.tolist() == [[6, 4], [6, 0], [0, 4], [5, 5]]
    assert forest.gain.tolist() == [4.8, 0.0, 0.0, 0.0]
    assert forest.value.tolist() == [[0.6, 0.4], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]


def test_depth_ends_growth():
    growth = Growth(roots(), replace(ANY, max_depth=1), np.ones(2))
    growth.grow(best_of([[6, 6]], [[4, 2]], [1.0]))
    assert growth.frontier.n_open == 0
    assert growth.levels[0].child_open.tolist() == [False, False]


def test_a_weight_is_that_of_its_tree_s_root():
    growth = Growth(roots(n_trees=2), ANY, np.array([1.0, 3.0]))
    growth.grow(best_of([[6, 6], [2, 2]], [[4, 2], [0, 0]], [1.0, 0.0], slot=[0, -1]))
    assert growth.root_weight.tolist() == [24.0, 24.0]  # two open children of tree 0


def test_values_of_leaves():
    classes = LeafValues(np.array([1.0, 3.0]))
    assert classes.of(np.array([[3, 1], [0, 0]])).tolist() == [[0.5, 0.5], [0.5, 0.5]]
    amounts = LeafValues(np.zeros(0), low=10.0, step=0.5)
    assert amounts.of(np.array([[4, 8], [0, 0]])).tolist() == [[11.0], [10.0]]


# --- growing from rows ---------------------------------------------------------------------------


def grown(table, columns, *, n_classes, derive, n_trees=4, seed=1, rules=None):
    """Grow a forest from one table, asking as a coordinator does; return it and its cells."""
    n_slots = columns.n_columns
    draws = Draws(n_slots, 33, least_cells=4, shared_phase=True)
    frontier = Frontier.of_roots(columns, draws, seed=seed, n_trees=n_trees, bits=20)
    standing = standing_at_roots(table, frontier.phase_key, bootstrap=True, n_threads=1)
    weights = np.ones(n_classes)
    growth = Growth(frontier, rules or replace(ANY, is_regression=n_classes == 0), weights)
    criterion = Criterion.of("gini" if n_classes else "squared_error", weights, 12 * table.n_rows)
    above, n_asked, n_derived = None, 0, 0
    while growth.frontier.n_open:
        frontier = growth.frontier
        n_open = frontier.n_open
        counters = level_counts(
            table,
            columns,
            standing,
            frontier.asked,
            (0, n_open),
            n_classes=n_classes,
            n_threads=1,
        ).counters
        n_asked += frontier.asked.n_cells
        if frontier.derived.any():
            assert above is not None
            n_derived += int(frontier.derived.sum())
            counters = add_derived(frontier, above, counters)
            counted = level_counts(
                table,
                columns,
                standing,
                frontier.slots,
                (0, n_open),
                n_classes=n_classes,
                n_threads=1,
            ).counters
            assert np.array_equal(counters, counted)
        best = best_splits(
            counters,
            frontier.slots,
            columns,
            criterion,
            least=LeastLeaf(growth.rules.min_samples_leaf),
            root_weight=growth.root_weight,
            n_threads=1,
        )
        above = Above(frontier.slots, counters, ("all",))
        growth.grow(best, derive_within=10**9 if derive else 0)
        standing = standing.after(growth.levels[-1], table, 1)
    return growth, n_asked, n_derived


def ward(in_blocks, n_classes, n_bins=(200, 40, 2, 1, 6, 1), n=700):
    """Return a binned table: numbers with and without gaps, constants, a category."""
    random = np.random.RandomState(0)
    codes = np.stack([random.randint(0, bins, n) for bins in n_bins], axis=1).astype(np.uint8)
    codes[random.random_sample(n) < 0.2, 1] = 255
    columns = ColumnCells(
        np.array(n_bins),
        np.array([False, False, False, False, True, False]),
        np.array([False, True, False, False, False, False]),
    )
    signal = codes[:, 0] > 90
    if n_classes:
        target = np.where(random.random_sample(n) < 0.3, random.randint(0, n_classes, n), signal)
        return in_blocks(codes, target.astype(np.uint8), [500, n - 500]), columns
    target = (signal * 10**6 + random.randint(0, 10**6, n)).astype(np.int32)
    return in_blocks(codes, target, [500, n - 500]), columns


def binning_for(columns):
    edges, bins = [], []
    for n_bins, is_category in zip(columns.n_bins, columns.is_category, strict=True):
        edges.append(np.arange(0 if is_category else n_bins - 1, dtype=np.float32))
        bins.append(np.arange(n_bins if is_category else 0, dtype=np.uint8))
    return Binning(tuple(edges), tuple(bins), columns.has_missing)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_what_is_derived_is_what_would_have_been_counted(n_classes, in_blocks):
    table, columns = ward(in_blocks, n_classes)
    derived, fewer, n_derived = grown(table, columns, n_classes=n_classes, derive=True)
    counted, more, none = grown(table, columns, n_classes=n_classes, derive=False)
    assert n_derived > 0
    assert none == 0
    assert fewer < more
    values = LeafValues(np.ones(n_classes))
    binning = binning_for(columns)
    one, other = derived.forest(binning, values), counted.forest(binning, values)
    for field in fields(Forest):
        assert np.array_equal(getattr(one, field.name), getattr(other, field.name))


def test_a_node_with_nothing_left_to_split_is_derived_too(in_blocks):
    """One column of two values and constants: the children's only slot is a constant column."""
    random = np.random.RandomState(0)
    codes = np.zeros((400, 5), np.uint8)
    codes[:, 2] = random.randint(0, 2, 400)
    table = in_blocks(codes, random.randint(0, 2, 400).astype(np.uint8))
    columns = ColumnCells(np.array([1, 1, 2, 1, 1]), np.zeros(5, bool), np.zeros(5, bool))
    for seed in range(10):
        growth, _, n_derived = grown(table, columns, n_classes=2, derive=True, seed=seed, n_trees=8)
        assert n_derived > 0
        assert growth.depth == 2


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_levels_and_leaves_make_the_forest_that_grew(n_classes, in_blocks):
    """A party gets the levels and the leaf moments: everything except the gains."""
    table, columns = ward(in_blocks, n_classes)
    growth, _, _ = grown(table, columns, n_classes=n_classes, derive=True)
    values = LeafValues(np.ones(n_classes))
    binning = binning_for(columns)
    grown_forest = growth.forest(binning, values)
    told = forest_of_leaves(4, growth.levels, growth.leaf_moments.counters, binning, values)
    for field in fields(Forest):
        expected = getattr(grown_forest, field.name)
        if field.name == "gain":
            expected = np.zeros_like(expected)
        assert np.array_equal(getattr(told, field.name), expected), field.name


@pytest.mark.parametrize("n_classes", [0, 3])
def test_a_node_holds_what_its_children_hold(n_classes, in_blocks):
    table, columns = ward(in_blocks, n_classes)
    growth, _, _ = grown(table, columns, n_classes=n_classes, derive=True)
    forest = growth.forest(binning_for(columns), LeafValues(np.ones(n_classes)))
    split = np.flatnonzero(forest.feature >= 0)
    left = forest.left[split].astype(int)
    assert np.array_equal(forest.moments[split], forest.moments[left] + forest.moments[left + 1])
    assert (forest.moments.sum(axis=1) > 0).all()


def test_trees_that_stay_leaves_make_a_forest():
    growth = Growth(roots(n_trees=3), ANY, np.ones(2))
    growth.grow(best_of([[5, 0], [0, 0], [3, 3]], np.zeros((3, 2)), np.zeros(3), slot=[-1] * 3))
    values = LeafValues(np.ones(2))
    forest = growth.forest(binning_of([1, 2, 3]), values)
    assert forest.n_nodes == 3
    told = forest_of_leaves(
        3, growth.levels, growth.leaf_moments.counters, binning_of([1, 2, 3]), values
    )
    assert told.moments.tolist() == forest.moments.tolist() == [[5, 0], [0, 0], [3, 3]]


def test_taking_back_what_was_to_be_derived(in_blocks):
    """After a party leaves, parents and children do not have the same rows: ask about all."""
    table, columns = ward(in_blocks, 2)
    growth, _, _ = grown(table, columns, n_classes=2, derive=True, rules=replace(ANY, max_depth=1))
    assert growth.depth == 1
    frontier = Frontier.of_roots(
        columns, Draws(6, 33, least_cells=4, shared_phase=True), seed=1, n_trees=4, bits=20
    )
    again = Growth(frontier, ANY, np.ones(2))
    standing = standing_at_roots(table, frontier.phase_key, bootstrap=True, n_threads=1)
    counters = level_counts(
        table, columns, standing, frontier.slots, (0, 4), n_classes=2, n_threads=1
    ).counters
    best = best_splits(
        counters,
        frontier.slots,
        columns,
        Criterion.of("gini", np.ones(2), 9000),
        least=LeastLeaf(1),
        root_weight=np.zeros(4),
        n_threads=1,
    )
    again.grow(best, derive_within=10**9)
    assert again.frontier.derived.any()
    before = again.frontier.slots
    again.ask_about_all()
    assert not again.frontier.derived.any()
    assert not again.levels[-1].child_derived.any()
    assert again.frontier.asked.cells.tolist() == before.cells.tolist()
