"""A finished forest: rows descend it by the plain rules."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spinney.trees import forest as module
from spinney.trees.forest import Forest


def forest_of(trees):
    """Return a forest from nested (feature, threshold or set, missing_left, left, right) | leaf."""
    names = ("feature", "threshold", "left", "missing_left", "subset")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    sets, values, starts, total = [], [], [0], 0
    for tree in trees:
        queue, at = [tree], 0
        while at < len(queue):
            node = queue[at]
            here = total + at
            is_leaf = not isinstance(node, tuple)
            values.append(np.atleast_1d(node if is_leaf else 0.0).astype(float))
            rule: Any = None if is_leaf else node[1]
            has_set = isinstance(rule, set)
            if has_set:
                bits = sum(1 << code for code in rule)
                sets.append([(bits >> (64 * i)) & (2**64 - 1) for i in range(4)])
            columns["feature"].append(-1 if is_leaf else node[0])
            columns["threshold"].append(0.0 if is_leaf or has_set else rule)
            columns["left"].append(here if is_leaf else total + len(queue))
            columns["missing_left"].append(False if is_leaf else node[2])
            columns["subset"].append(len(sets) - 1 if has_set else -1)
            if not is_leaf:
                queue += [node[3], node[4]]
            at += 1
        total += len(queue)
        starts.append(total)
    width = max(len(value) for value in values)
    value = np.array([np.resize(value, width) for value in values])
    return Forest(
        np.array(starts),
        np.array(columns["feature"], np.int32),
        np.array(columns["threshold"], np.float32),
        np.array(columns["left"], np.uint32),
        np.array(columns["missing_left"]),
        np.array(columns["subset"], np.int32),
        np.array(sets, np.uint64).reshape(-1, 4),
        np.ones((total, 2), np.int64),
        np.where(np.array(columns["feature"]) >= 0, 1.0, 0.0),
        value,
    )


def walked(forest, row, tree):
    """Return the leaf of one row, by the rules of the docstring."""
    node = int(forest.tree_start[tree])
    while forest.feature[node] >= 0:
        value = row[forest.feature[node]]
        if forest.subset[node] >= 0:
            code = 255 if np.isnan(value) else int(value)
            word = int(forest.bin_sets[forest.subset[node], code >> 6])
            left = bool((word >> code % 64) & 1)
        elif np.isnan(value):
            left = bool(forest.missing_left[node])
        else:
            left = value <= forest.threshold[node]
        node = int(forest.left[node]) + (not left)
    return node


TREES = [
    (0, 0.5, True, (1, 2.0, False, 1.0, 2.0), 3.0),
    4.0,
    (1, np.inf, False, 5.0, (0, -1.0, True, 6.0, 7.0)),
]


def rows_of(seed, n, gaps):
    random = np.random.RandomState(seed)
    rows = np.round(random.standard_normal((n, 2)) * 3, 1).astype(np.float32)
    rows[random.random_sample(rows.shape) < gaps] = np.nan
    return rows


@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 100])
def test_rows_walk_as_the_plain_rules_say(n, gaps):
    forest = forest_of(TREES)
    rows = rows_of(n, n, gaps)
    for tree in range(3):
        leaves = forest.leaves(rows, tree).tolist() if n else []
        assert leaves == [walked(forest, row, tree) for row in rows]


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_categories_walk_by_their_sets(gaps):
    forest = forest_of([(0, {0, 63, 64, 200, 255}, False, (1, 0.0, False, 1.0, 2.0), 3.0)])
    codes = np.array([0, 1, 63, 64, 65, 199, 200, 254, np.nan], np.float32)
    rows = np.stack([codes, np.linspace(-1, 1, 9).astype(np.float32)], axis=1)
    if not gaps:
        rows = rows[:-1]
    assert forest.leaves(rows, 0).tolist() == [walked(forest, row, 0) for row in rows]


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("n", [3, 5000])
def test_predictions_are_sums_of_leaves(n, n_threads):
    forest = forest_of(TREES)
    rows = rows_of(1, n, 0.2)
    out = np.zeros((n, 1))
    forest.add_predictions(rows, out, n_threads=n_threads)
    leaves = np.stack([forest.leaves(rows, tree) for tree in range(3)])
    assert np.array_equal(out[:, 0], forest.value[leaves, 0].sum(axis=0))


@pytest.mark.parametrize(("bits", "n_words"), [(32, 22), (3, 0)])
def test_predictions_are_the_same_where_nodes_do_not_fit_two_words(bits, n_words, monkeypatch):
    monkeypatch.setattr(module, "_WORD_BITS", bits)
    forest = forest_of(TREES)
    rows = rows_of(4, 100, 0.0)
    out = np.zeros((100, 1))
    forest.add_predictions(rows, out)
    leaves = [[walked(forest, row, tree) for row in rows] for tree in range(3)]
    assert forest._words[0].size == n_words
    assert np.array_equal(out[:, 0], forest.value[leaves, 0].sum(axis=0))


@pytest.mark.parametrize("n_outputs", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 16, 37, 5000])
def test_predictions_have_every_output(n, n_outputs):
    forest = forest_of(TREES)
    factors = np.arange(1.0, n_outputs + 1)
    forest = replace(forest, value=forest.value * factors)
    rows = rows_of(5, n, 0.0)
    out = np.zeros((n, n_outputs))
    forest.add_predictions(rows, out)
    leaves = np.stack([forest.leaves(rows, tree) for tree in range(3)])
    assert np.array_equal(out, forest.value[leaves].sum(axis=0))


@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 2), (1, 3), (2, 3)])
def test_some_trees_of_a_forest_predict_without_the_others(first, last):
    forest = forest_of(TREES)
    some = replace(forest, tree_start=forest.tree_start[first : last + 1])
    rows = rows_of(6, 40, 0.0)
    out = np.zeros((40, 1))
    some.add_predictions(rows, out)
    leaves = [[walked(forest, row, tree) for row in rows] for tree in range(first, last)]
    assert np.array_equal(out[:, 0], forest.value[leaves, 0].sum(axis=0))


def test_trees_that_saw_a_row_do_not_judge_it():
    forest = forest_of(TREES)
    rows = rows_of(2, 50, 0.0)
    seen = np.random.RandomState(0).random_sample((50, 3)) < 0.5
    out = np.zeros((50, 1))
    forest.add_predictions(rows, out, seen=seen)
    leaves = np.stack([forest.leaves(rows, tree) for tree in range(3)])
    expected = np.where(seen.T, 0.0, forest.value[leaves, 0]).sum(axis=0)
    assert np.array_equal(out[:, 0], expected)


def test_depths_are_those_of_the_deepest_leaves():
    assert forest_of(TREES).depths.tolist() == [2, 0, 2]
    chain: Any = 0.0
    for _ in range(300):
        chain = (0, 0.0, False, 1.0, chain)
    assert forest_of([chain]).depths.tolist() == [300]


def test_importances_are_shares_of_the_gains():
    forest = forest_of(TREES)
    assert forest.importances(2).tolist() == [0.5, 0.5]
    assert forest.importances(3).tolist() == [0.5, 0.5, 0.0]


def test_a_forest_of_leaves_has_no_important_column():
    assert forest_of([1.0, 2.0]).importances(3).tolist() == [0.0, 0.0, 0.0]


def test_a_leaf_alone_predicts_for_every_row():
    out = np.zeros((4, 2))
    forest_of([np.array([0.25, 0.75])]).add_predictions(rows_of(0, 4, 0.5), out)
    assert out.tolist() == [[0.25, 0.75]] * 4
