"""A node closes only if nothing can be cut: until then it draws on."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import ExtraTreesClassifier as SklearnExtraTrees
from sklearn.ensemble import RandomForestClassifier

from spinney import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    VerticalForestRegressor,
    deal_rows,
)

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

CORNERS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5, float)
ODD = CORNERS.sum(axis=1) % 2
ROUNDS_BESIDES = 10


def few_values(n=300, n_columns=16):
    """Return rows of repeated values that all columns together tell apart."""
    random = np.random.default_rng(0)
    X = random.integers(0, 3, (n, n_columns)).astype(float)
    X = np.unique(X, axis=0)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + random.normal(0, 1, len(X)) > 2).astype(int)
    return X, y


@pytest.mark.parametrize(
    ("estimator", "settings"),
    [
        (HorizontalForestRegressor, {"bootstrap": False, "max_features": None}),
        (ExtraTreesRegressor, {"max_features": None}),
        (HorizontalForestRegressor, {"bootstrap": False, "max_features": 1}),
    ],
)
def test_four_corners_are_told_apart_although_no_cut_gains(estimator, settings):
    forest = estimator(3, random_state=0, **settings).fit(CORNERS, ODD)
    assert np.array_equal(forest.predict(CORNERS), ODD)


def test_corners_are_told_apart_by_columns_of_two_parties():
    columns = {"bank": [0], "shop": [1]}
    forest = VerticalForestRegressor(
        3, bootstrap=False, max_features=None, column_party=columns, label_party="bank",
        random_state=0,
    ).fit(CORNERS, ODD)  # fmt: skip
    assert np.array_equal(forest.predict(CORNERS), ODD)


def test_equal_amounts_are_not_cut():
    forest = HorizontalForestRegressor(2, bootstrap=False, random_state=0).fit(CORNERS, ODD * 0 + 7)
    assert forest.model_.forest.n_nodes == 2


@pytest.mark.parametrize(
    ("estimator", "settings", "other"),
    [
        (HorizontalForestClassifier, {"bootstrap": False}, RandomForestClassifier),
        (ExtraTreesClassifier, {}, SklearnExtraTrees),
    ],
)
@pytest.mark.parametrize("table", ["few values", "iris"])
def test_every_training_row_is_told_apart_as_in_scikit_learn(estimator, settings, other, table):
    X, y = few_values() if table == "few values" else load_iris(return_X_y=True)
    forest = estimator(20, random_state=0, **settings).fit(X, y)
    theirs = other(20, random_state=0, bootstrap=False).fit(X, y)
    assert np.array_equal(forest.predict_proba(X).max(axis=1), theirs.predict_proba(X).max(axis=1))


@pytest.mark.parametrize("estimator", [HorizontalForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("depth", [None, 5])
def test_parties_draw_on_as_one_table_does(estimator, depth):
    X, y = few_values()
    site = deal_rows(y, n_parties=3, random_state=0)
    forests = [
        estimator(8, max_depth=depth, random_state=0).fit(X, y, party=party)
        for party in (None, site)
    ]
    assert forests[0].model_.forest.feature.tobytes() == forests[1].model_.forest.feature.tobytes()
    assert np.array_equal(forests[0].predict_proba(X), forests[1].predict_proba(X))
    deepest = max(forests[1].model_.forest.depths)
    assert forests[1].report_.rounds <= deepest + ROUNDS_BESIDES
    assert depth is None or deepest <= depth
