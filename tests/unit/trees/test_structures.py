"""Fit structures: compared with a plain version, with scikit-learn's CART and with scored trees."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from spinney.trees import genome
from spinney.trees.binning import Binning
from spinney.trees.layout import LeafValues
from spinney.trees.structures import FitTable, forest_of, skeletons


def table(n=300, n_columns=5, n_bins=12, n_classes=2, *, missing=0.0, categories=(), seed=0):
    random = np.random.default_rng(seed)
    codes = random.integers(0, n_bins, (n_columns, n)).astype(np.uint8)
    codes[random.random(codes.shape) < missing] = 255
    signal = codes[0] * 1.0 + np.where(codes[1] > 5, codes[2], 0) + random.standard_normal(n) * 3
    is_category = np.isin(np.arange(n_columns), categories)
    if n_classes:
        target = np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))
    else:
        target = np.rint((signal - signal.min()) * 1000)
    bins = np.full(n_columns, n_bins)
    return FitTable(codes, bins, is_category, target.astype(np.int32), n_classes)


def plain(data, genes, depth, rows, *, gene=0, level=0):
    """Return the rows and the prediction of every leaf, fitted with numpy alone."""
    target = data.target[rows].astype(np.int64)

    def leaf():
        if data.n_classes:
            return int(np.bincount(target, minlength=data.n_classes).argmax())
        return target.sum() / target.size

    def cost(part):
        if data.n_classes:
            return part.size - (np.bincount(part).astype(float) ** 2).sum() / part.size
        return ((part - part.mean()) ** 2).sum()

    column = genes[gene] if level < depth else -1
    if column < 0 or np.unique(target).size < 2:
        return [(rows, leaf())]
    code = data.codes[column, rows].astype(int)
    found = None
    values = np.unique(code)
    for low, high in pairwise(values):
        left = code <= low
        loss = cost(target[left]) + cost(target[~left])
        if found is None or loss < found[0] - 1e-9:
            found = (loss, (low + high - 1) // 2)
    if found is None:
        return [(rows, leaf())]
    left = code <= found[1]
    below = 1 << (depth - level - 1)
    return [
        *plain(data, genes, depth, rows[left], gene=gene + 1, level=level + 1),
        *plain(data, genes, depth, rows[~left], gene=gene + below, level=level + 1),
    ]


@pytest.mark.parametrize("n_classes", [2, 3, 0])
def test_a_structure_is_fitted_as_its_plain_twin_does(n_classes):
    data = table(n_classes=n_classes)
    for genes in genome.initial(np.random.default_rng(1), 10, 3, 5, 0.1):
        found = data.scored(genes, 3, data.all_rows, data.all_rows)
        leaves = plain(data, genes, 3, data.all_rows)
        if n_classes:
            hits = sum(int((data.target[rows] == guess).sum()) for rows, guess in leaves)
            assert int(np.trace(found.confusion[0])) == hits
        else:
            squares = sum(((data.target[rows] - guess) ** 2).sum() for rows, guess in leaves)
            assert found.errors[0, 0] == pytest.approx(squares)


@pytest.mark.parametrize("n_classes", [2, 0])
@pytest.mark.parametrize("depth", [1, 4])
def test_cart_is_scikit_learn_s(n_classes, depth):
    data = table(n=400, n_classes=n_classes, seed=3)
    face = DecisionTreeClassifier if n_classes else DecisionTreeRegressor
    theirs = face(max_depth=depth, random_state=0).fit(data.codes.T, data.target)
    tree, genes = data.cart(depth, data.all_rows)
    found = data.scored(genes, depth, data.all_rows, data.all_rows)
    guess = theirs.predict(data.codes.T)
    if n_classes:
        assert int(np.trace(found.confusion[0])) == int((guess == data.target).sum())
    else:
        assert found.errors[0, 0] == pytest.approx(((guess - data.target) ** 2).sum())
    assert tree.feature[0] == theirs.tree_.feature[0]
    assert tree.n_decisions == int((theirs.tree_.feature >= 0).sum())


@pytest.mark.parametrize("n_classes", [3, 0])
def test_a_tree_cut_off_is_the_tree_of_that_depth(n_classes):
    data = table(n_classes=n_classes, missing=0.1, categories=(1,))
    fit, judged = data.all_rows[:200], data.all_rows[200:]
    by_depth = data.cart_scores(5, fit, judged)
    for depth in range(1, 6):
        _, genes = data.cart(depth, fit)
        alone = data.scored(genes, depth, fit, judged)
        assert np.array_equal(by_depth.confusion[depth], alone.confusion[0])
        assert np.allclose(by_depth.errors[depth], alone.errors[0])


@pytest.mark.parametrize("n_classes", [2, 3, 0])
def test_scores_are_those_of_the_fitted_tree(n_classes):
    """With missing values and categories: what is scored in bins is what predicts from values."""
    data = table(n_classes=n_classes, missing=0.15, categories=(1, 3))
    edges = tuple(
        np.zeros(0, np.float32) if category else np.arange(11, dtype=np.float32)
        for category in data.is_category
    )
    numbers = np.arange(12, dtype=np.uint8)
    bins = tuple(numbers if category else numbers[:0] for category in data.is_category)
    binning = Binning(edges, bins, np.ones(5, np.bool_))
    fit, judged = data.all_rows[:150], data.all_rows[150:]
    genes = genome.initial(np.random.default_rng(2), 8, 4, 5, 0.1)
    found = data.score(genes, 4, fit, judged, n_threads=2)
    trees = [data.fitted(one, 4, fit) for one in genes]
    values = LeafValues(np.ones(n_classes)) if n_classes else LeafValues(np.ones(0))
    forest = forest_of(trees, [binning] * 8, values)
    rows = data.codes[:, judged].T.astype(np.float32)
    rows[data.codes[:, judged].T == 255] = np.nan
    for number in range(8):
        out = np.zeros((judged.size, n_classes or 1))
        forest.tree(number).add_predictions(rows, out)
        if n_classes:
            hits = int((out.argmax(axis=1) == data.target[judged]).sum())
            assert int(np.trace(found.confusion[number])) == hits
        else:
            squares = ((out[:, 0] - data.target[judged]) ** 2).sum()
            assert found.errors[number, 0] == pytest.approx(squares)


def test_threads_change_nothing():
    data = table(n=2000)
    genes = genome.initial(np.random.default_rng(0), 9, 5, 5, 0.05)
    half = data.all_rows[::2]
    one, two = (data.score(genes, 5, half, half, n_threads=n) for n in (1, 2))
    assert np.array_equal(one.confusion, two.confusion)


def test_a_node_whose_column_cannot_be_cut_is_a_leaf():
    data = table()
    data.codes[4] = 7
    tree = data.fitted(np.array([4, 0, 1], np.int16), 2, data.all_rows)
    assert tree.feature.tolist() == [-1]


def test_categories_are_cut_into_the_best_sets():
    codes = np.repeat(np.arange(6, dtype=np.uint8), 50)[None]
    target = np.isin(codes[0], (0, 3, 5)).astype(np.int32)
    data = FitTable(codes, np.array([6]), np.array([True]), target, 2)
    tree = data.fitted(np.array([0], np.int16), 1, data.all_rows)
    sides = (
        {bool((int(tree.bin_sets[0, 0]) >> code) & 1) for code in (0, 3, 5)},
        {bool((int(tree.bin_sets[0, 0]) >> code) & 1) for code in (1, 2, 4)},
    )
    assert len(sides[0]) == len(sides[1]) == 1
    assert sides[0] != sides[1]


def test_a_skeleton_has_the_structure_s_columns():
    genes = np.array([[1, 0, -1, -1, 2, 3, -1]], np.int16)
    (tree,) = skeletons(genes, 3, 2)
    assert tree.n_decisions == 4
    assert sorted(tree.feature[tree.feature >= 0].tolist()) == [0, 1, 2, 3]
    assert tree.feature[0] == 1
