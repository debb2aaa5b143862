"""Our trees split as scikit-learn's do, and an exported forest predicts as ours does."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from spinney.errors import SchemaError

# One tree over all rows and columns, no zoom: every distinct value has a cell of its own.
WHOLE = {"n_estimators": 1, "bootstrap": False, "max_features": None, "max_cells": 255}
N_VALUES = 8


def few_values(seed, n_rows=300, n_columns=4):
    return np.random.RandomState(seed).randint(0, N_VALUES, (n_rows, n_columns)).astype(float)


def noisy_classes(X, seed, n_classes):
    random = np.random.RandomState(seed)
    score = X[:, 0] + 0.7 * X[:, 1] + 2.0 * random.standard_normal(len(X))
    cuts = np.quantile(score, np.arange(1, n_classes) / n_classes)
    return np.digitize(score, cuts)


def noisy_amounts(X, seed):
    random = np.random.RandomState(seed)
    return X[:, 0] + 0.5 * X[:, 1] * (X[:, 2] > 3) + random.standard_normal(len(X))


# --- a plain tree, to know where there are ties --------------------------------------------------


def spread(y, criterion):
    """Return a node's rows times their impurity."""
    if criterion == "squared_error":
        return float(((y - y.mean()) ** 2).sum())
    shares = np.unique(y, return_counts=True)[1] / y.size
    if criterion == "gini":
        return float(y.size * (1 - (shares**2).sum()))
    return float(-y.size * (shares * np.log2(shares)).sum())


def gains_of_all_cuts(X, y, criterion):
    """Return the distinct ways to part the rows, by the drop of impurity that each brings."""
    whole = spread(y, criterion)
    found = {}
    for column, cut in product(range(X.shape[1]), range(N_VALUES - 1)):
        left = X[:, column] <= cut
        if left.any() and not left.all():
            gain = whole - spread(y[left], criterion) - spread(y[~left], criterion)
            found[left.tobytes() if left[0] else (~left).tobytes()] = gain
    return found


def has_ties(X, y, criterion, depth, least):
    """Tell whether some node has two best cuts that part its rows differently."""
    if depth == 0 or len(y) < least or spread(y, criterion) <= 1e-9:
        return False
    found = gains_of_all_cuts(X, y, criterion)
    if not found:
        return False
    best = max(found.values())
    ways = [way for way, gain in found.items() if gain > best - 1e-9 * max(1.0, best)]
    if len(ways) > 1:
        return True
    left = np.frombuffer(ways[0], np.bool_)
    return any(has_ties(X[p], y[p], criterion, depth - 1, least) for p in (left, ~left))


def same_partition(leaves_a, leaves_b):
    """Tell whether two labellings of rows are the same up to the names of the labels."""
    pairs = set(zip(leaves_a.tolist(), leaves_b.tolist(), strict=True))
    return len(pairs) == len(set(leaves_a.tolist())) == len(set(leaves_b.tolist()))


def leaves_of(forest, X):
    rows = np.ascontiguousarray(X, dtype=np.float32)
    return forest.model_.forest.leaves(rows, 0)


# --- splits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_rows_are_parted_as_by_scikit_learn(criterion, n_classes, depth):
    compared = 0
    for seed in range(12):
        X = few_values(seed)
        y = noisy_classes(X, seed, n_classes)
        limits = {"criterion": criterion, "max_depth": depth, "min_samples_split": 20}
        if has_ties(X, y, criterion, depth, 20):
            continue
        compared += 1
        ours = HorizontalForestClassifier(**WHOLE, **limits).fit(X, y)
        theirs = DecisionTreeClassifier(**limits).fit(X, y)
        assert same_partition(leaves_of(ours, X), theirs.apply(X))
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
        np.testing.assert_allclose(
            ours.feature_importances_, theirs.feature_importances_, atol=1e-9
        )
    assert compared >= 6


@pytest.mark.parametrize("depth", [1, 5, None])
def test_rows_are_parted_as_by_scikit_learn_for_amounts(depth):
    for seed in range(12):
        X = few_values(seed)
        y = noisy_amounts(X, seed)
        limits = {"max_depth": depth, "min_samples_split": 20}
        assert not has_ties(X, y, "squared_error", 99, 20)
        ours = HorizontalForestRegressor(**WHOLE, **limits).fit(X, y)
        theirs = DecisionTreeRegressor(**limits).fit(X, y)
        assert same_partition(leaves_of(ours, X), theirs.apply(X))
        # Targets travel in steps of 2^-40 of their range.
        step = (y.max() - y.min()) / 2**40
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=step)


def test_an_outlier_does_not_blur_the_other_amounts():
    """One amount a million times the others'. (Beyond that scikit-learn loses them, not we.)"""
    for seed in range(6):
        X = few_values(seed)
        y = noisy_amounts(X, seed)
        y[0] = 1e6 * np.abs(y).max()
        limits = {"max_depth": 6, "min_samples_split": 20}
        ours = HorizontalForestRegressor(**WHOLE, **limits).fit(X, y)
        theirs = DecisionTreeRegressor(**limits).fit(X, y)
        assert same_partition(leaves_of(ours, X), theirs.apply(X))
        usual = theirs.predict(X) < 1e3 * np.abs(y[1:]).max()
        assert usual.mean() > 0.9
        np.testing.assert_allclose(
            ours.predict(X)[usual], theirs.predict(X)[usual], atol=1e-6 * np.abs(y[1:]).max()
        )


@pytest.mark.parametrize("min_samples_leaf", [1, 15, 60])
def test_small_leaves_are_refused_as_by_scikit_learn(min_samples_leaf):
    for seed in range(6):
        X = few_values(seed)
        y = noisy_amounts(X, seed)
        limits = {"min_samples_leaf": min_samples_leaf, "min_samples_split": 20}
        ours = HorizontalForestRegressor(**WHOLE, **limits).fit(X, y)
        theirs = DecisionTreeRegressor(**limits).fit(X, y)
        assert same_partition(leaves_of(ours, X), theirs.apply(X))


@pytest.mark.parametrize("least", [0.0, 0.01, 0.05, 10.0])
def test_small_gains_are_refused_as_by_scikit_learn(least):
    compared = 0
    for seed in range(12):
        X = few_values(seed)
        y = noisy_classes(X, seed, 2)
        limits = {"min_impurity_decrease": least, "max_depth": 3, "min_samples_split": 20}
        if has_ties(X, y, "gini", 3, 20):
            continue
        compared += 1
        ours = HorizontalForestClassifier(**WHOLE, **limits).fit(X, y)
        theirs = DecisionTreeClassifier(**limits).fit(X, y)
        assert same_partition(leaves_of(ours, X), theirs.apply(X))
    assert compared >= 6


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5])
@pytest.mark.parametrize("least", [0.001, 0.01, 0.1, 10.0])
def test_small_gains_of_amounts_are_refused_as_by_scikit_learn(least, scale):
    """A decrease is in the square of the target's unit, whatever steps targets travel in."""
    sizes = set()
    for seed in range(6):
        X = few_values(seed)
        y = noisy_amounts(X, seed)
        limits = {"min_impurity_decrease": least * y.var() * scale**2, "min_samples_split": 20}
        ours = HorizontalForestRegressor(**WHOLE, **limits).fit(X, y * scale)
        theirs = DecisionTreeRegressor(**limits).fit(X, y * scale)
        assert same_partition(leaves_of(ours, X), theirs.apply(X))
        sizes.add(theirs.get_n_leaves())
    assert (max(sizes) > 1) == (least < 1)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0}, {0: 0.25, 1: 4.0}])
def test_class_weights_part_rows_as_in_scikit_learn(class_weight):
    for seed in range(6):
        X = few_values(seed)
        y = noisy_classes(X, seed, 2)
        limits = {"class_weight": class_weight, "max_depth": 2}
        if has_ties(X, y, "gini", 2, 2):
            continue
        ours = HorizontalForestClassifier(**WHOLE, **limits).fit(X, y)
        theirs = DecisionTreeClassifier(**limits).fit(X, y)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)


def test_a_least_drop_of_impurity_means_what_it_means_to_scikit_learn():
    X = few_values(1)
    y = noisy_amounts(X, 1) / 1000
    for least in (0.0, 0.001, 0.01, 0.1):
        how = {"min_impurity_decrease": least * y.var()}
        ours = HorizontalForestRegressor(**WHOLE, **how).fit(X, y)
        theirs = DecisionTreeRegressor(**how).fit(X, y)
        assert ours.model_.forest.n_nodes == pytest.approx(theirs.tree_.node_count, rel=0.1)


@pytest.mark.parametrize("criterion", ["gini", "entropy", "squared_error"])
def test_the_gain_of_a_root_is_scikit_learn_s_drop_of_impurity(criterion):
    for seed in range(8):
        X = few_values(seed)
        is_amount = criterion == "squared_error"
        y = noisy_amounts(X, seed) if is_amount else noisy_classes(X, seed, 3)
        kind = HorizontalForestRegressor if is_amount else HorizontalForestClassifier
        twin = DecisionTreeRegressor if is_amount else DecisionTreeClassifier
        ours = kind(**WHOLE, criterion=criterion, max_depth=1).fit(X, y)
        tree = twin(criterion=criterion, max_depth=1).fit(X, y).tree_
        drop = len(y) * tree.impurity[0] - tree.n_node_samples[1:3] @ tree.impurity[1:3]
        gain = ours.model_.forest.gain[0]
        assert gain == pytest.approx(drop, rel=1e-5)
        assert gain == pytest.approx(max(gains_of_all_cuts(X, y, criterion).values()), rel=1e-5)


def test_a_table_a_person_can_check():
    """Five plants by height and smoothness: two cuts tell them apart."""
    X = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0], [5.0, 1.0]])
    y = ["bush", "bush", "tree", "tree", "pole"]
    forest = HorizontalForestClassifier(**WHOLE, random_state=0).fit(X, y)
    assert forest.predict(X).tolist() == y
    assert forest.classes_.tolist() == ["bush", "pole", "tree"]
    tree = forest.model_.forest
    assert tree.n_nodes == 5
    assert tree.moments[0].tolist() == [2, 1, 2]
    assert forest.predict([[2.4, 0.0]]).tolist() == ["tree"]  # above the largest bush seen
    assert forest.predict([[2.0, 0.0]]).tolist() == ["bush"]


# --- exported forests ----------------------------------------------------------------------------


def require_equal_forests(forest, X):
    """Raise unless scikit-learn's version of a forest predicts what it does, to the last bit."""
    twin = forest.to_sklearn()
    if hasattr(forest, "predict_proba"):
        assert np.array_equal(twin.predict_proba(X), forest.predict_proba(X))
        assert twin.classes_.tolist() == forest.classes_.tolist()
    assert np.array_equal(twin.predict(X), forest.predict(X))
    return twin


@pytest.mark.parametrize("label", ["two classes", "three classes", "amount"])
def test_an_exported_forest_of_numbers_predicts_the_same(label, ward_table, ward_labels):
    kind = HorizontalForestRegressor if label == "amount" else HorizontalForestClassifier
    X = ward_table[["age", "income", "visits", "nothing"]]
    forest = kind(n_estimators=7, random_state=0).fit(X, ward_labels[label])
    twin = require_equal_forests(forest, X)
    expected = RandomForestRegressor if label == "amount" else RandomForestClassifier
    assert isinstance(twin, expected)
    assert twin.feature_names_in_.tolist() == X.columns.tolist()
    np.testing.assert_allclose(twin.feature_importances_, forest.feature_importances_, atol=1e-9)


@pytest.mark.parametrize("label", ["two classes", "three classes", "amount"])
def test_an_exported_forest_with_categories_is_a_pipeline(label, ward_table, ward_labels):
    kind = HorizontalForestRegressor if label == "amount" else HorizontalForestClassifier
    forest = kind(n_estimators=7, random_state=0).fit(ward_table, ward_labels[label])
    twin = require_equal_forests(forest, ward_table)
    assert isinstance(twin, Pipeline)
    unseen = ward_table.assign(ward=pd.Categorical(["never seen"] * len(ward_table)))
    with pytest.raises(SchemaError, match="holds a category that the schema does not name"):
        twin.predict(unseen)
    forest.set_params(unknown_categories="as_missing")
    require_equal_forests(forest, unseen)
    gaps = ward_table.copy()
    gaps["ward"] = pd.Categorical([None] * len(gaps), categories=["eye"])
    gaps["age"] = np.nan
    require_equal_forests(forest, gaps)


def test_an_exported_stump_predicts_the_same():
    X = few_values(0, n_rows=50)
    y = noisy_classes(X, 0, 2)
    require_equal_forests(HorizontalForestClassifier(5, max_depth=1).fit(X, y), X)


def test_an_exported_leaf_predicts_the_same():
    X = np.ones((20, 3))
    y = np.arange(20) % 3
    forest = HorizontalForestClassifier(5, random_state=0).fit(X, y)
    assert forest.model_.forest.n_nodes == 5
    require_equal_forests(forest, X)
    require_equal_forests(HorizontalForestRegressor(5).fit(X, y), X)


def test_numbers_between_two_float32_predict_the_same():
    """Both round a float64 to float32 before comparing; neighbours of a threshold show it."""
    random = np.random.RandomState(0)
    X = random.standard_normal((400, 3)) * 1e3 + 1 / 3
    y = (X[:, 0] + random.standard_normal(400) * 500 > 0).astype(int)
    forest = HorizontalForestClassifier(5, random_state=0).fit(X, y)
    edges = forest.model_.forest.threshold.astype(np.float64)
    at = np.repeat(edges[:, None], 3, axis=1)
    near = [at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf), at * (1 + 3e-8), X]
    require_equal_forests(forest, np.concatenate(near))


CELLS = st.sampled_from([np.nan, 0.0, -0.0, 1.0, 2.5, -3.0, 1e-45, 1e30, -1e30, 0.1])


@settings(max_examples=40)
@given(
    numbers=st.lists(st.tuples(CELLS, CELLS), min_size=3, max_size=30),
    kinds=st.lists(st.sampled_from(["a", "b", "c", "d", "e", None]), min_size=30, max_size=30),
    n_classes=st.integers(0, 4),
    other=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=10),
)
def test_an_exported_forest_of_an_odd_table_predicts_the_same(numbers, kinds, n_classes, other):
    """With any gaps, also where the table it was grown on had none."""
    n = len(numbers)
    X = pd.DataFrame(numbers, columns=["a", "b"], dtype=np.float64)
    X["kind"] = pd.Categorical(kinds[:n], categories=list("abcde"))
    y = np.arange(n) % n_classes if n_classes > 1 else np.arange(n) * 0.5
    kind = HorizontalForestClassifier if n_classes > 1 else HorizontalForestRegressor
    forest = kind(3, random_state=0, max_features=None).fit(X, y)
    require_equal_forests(forest, X)
    unseen = pd.DataFrame(other, columns=["a", "b"], dtype=np.float64)
    unseen["kind"] = pd.Categorical(kinds[-len(other) :], categories=list("abcde"))
    require_equal_forests(forest, unseen)


def test_many_categories_share_bins_and_predict_the_same():
    """Past the limit the rarest categories share a bin, and go the same way."""
    random = np.random.RandomState(0)
    codes = random.zipf(1.3, 1500) % 300
    X = pd.DataFrame({"code": pd.Categorical(codes), "x": random.standard_normal(1500)})
    y = (codes % 7 < 3) ^ (random.random_sample(1500) < 0.1)
    forest = HorizontalForestClassifier(3, max_bins=64, random_state=0).fit(X, y)
    assert forest.score(X, y) > 0.8
    require_equal_forests(forest, X)


def test_a_small_leaf_counts_a_row_as_often_as_it_was_drawn():
    """Unlike scikit-learn's, whose leaves hold so many different rows; the docstring says so."""
    X = np.random.RandomState(0).standard_normal((600, 3))
    y = X[:, 0] + np.random.RandomState(1).standard_normal(600)
    limits = {"n_estimators": 10, "min_samples_leaf": 5, "random_state": 0}
    forest = HorizontalForestRegressor(**limits).fit(X, y).model_.forest
    drawn = forest.moments[forest.feature < 0, 0]
    assert drawn.min() == 5
    theirs = RandomForestRegressor(**limits).fit(X, y)
    sizes = [tree.tree_.n_node_samples[tree.tree_.children_left < 0].min() for tree in theirs]
    assert min(sizes) == 5
    assert "count a row as often as the bootstrap" in (HorizontalForestClassifier.__doc__ or "")
