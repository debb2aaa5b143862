"""Forests do what scikit-learn's do: weights, warm starts, out-of-bag rows, sparse tables."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.metrics import accuracy_score, balanced_accuracy_score, mean_absolute_error

from spinney import (
    ExtraTreesClassifier,
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    deal_rows,
)
from spinney.errors import SettingError, SpinneyWarning, TableError

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
X, Y = load_iris(return_X_y=True)


def forest(**settings):
    return HorizontalForestClassifier(**{"n_estimators": 5, "random_state": 0} | settings)


def test_a_weight_is_how_often_a_row_counts():
    weight = np.arange(len(Y)) % 3
    weighed = forest(bootstrap=False).fit(X, Y, sample_weight=weight)
    repeated = forest(bootstrap=False).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
    assert np.array_equal(weighed.predict_proba(X), repeated.predict_proba(X))


def test_weights_hold_over_parties_and_their_scale_does_not_matter():
    weight = 1.0 + np.arange(len(Y)) % 2
    site = deal_rows(Y, 3, random_state=0)
    found = forest(max_depth=3).fit(X, Y, party=site, sample_weight=0.5 * weight)
    same = forest(max_depth=3).fit(X, Y, sample_weight=weight)
    assert np.array_equal(found.predict_proba(X), same.predict_proba(X))
    plain = forest(max_depth=3).fit(X, Y)
    even = forest(max_depth=3).fit(X, Y, sample_weight=np.full(len(Y), 0.3))
    assert np.array_equal(plain.predict_proba(X), even.predict_proba(X))


@pytest.mark.parametrize(
    ("weight", "says"),
    [
        (np.r_[-1.0, np.ones(149)], "must not be negative"),
        (np.r_[np.nan, np.ones(149)], "must be finite"),
        (np.zeros(150), "zero for every row"),
        (np.ones(149), "one number for each of the 150 rows"),
        (np.r_[1.0, 1.5, np.ones(148)], "whole multiples of its smallest weight"),
        (np.r_[1.0, 5000.0, np.ones(148)], "at most 1000 times as large"),
        (["heavy"] * 150, "one number for each row"),
    ],
)
def test_other_weights_are_refused(weight, says):
    with pytest.raises(SettingError, match=says):
        forest().fit(X, Y, sample_weight=weight)


def test_a_private_job_takes_no_weights():
    with pytest.raises(SettingError, match="refused in a private job"):
        forest(epsilon=1.0, max_depth=2).fit(X, Y, sample_weight=np.ones(len(Y)))


def test_a_warm_start_adds_trees_to_those_there_are():
    grown = forest(n_estimators=3, warm_start=True, random_state=None).fit(X, Y)
    first = grown.model_.forest
    grown.set_params(n_estimators=5).fit(X, Y)
    for number in range(3):
        again, before = grown.model_.forest.tree(number), first.tree(number)
        assert np.array_equal(again.threshold, before.threshold)
    with pytest.warns(SpinneyWarning, match="without increasing n_estimators"):
        grown.fit(X, Y)
    with pytest.raises(SettingError, match="must be larger or equal to the 5 trees"):
        grown.set_params(n_estimators=4).fit(X, Y)
    with pytest.raises(SettingError, match="warm_start must be True or False"):
        forest(warm_start="yes").fit(X, Y)


def test_rows_out_of_the_bag_are_judged_by_the_trees_that_did_not_draw_them():
    found = forest(n_estimators=30, oob_score=True).fit(X, Y)
    judged = found.oob_decision_function_
    assert judged.shape == (150, 3)
    assert np.allclose(judged.sum(axis=1), 1)
    assert found.oob_score_ == pytest.approx(np.mean(judged.argmax(axis=1) == Y))
    amounts = HorizontalForestRegressor(30, oob_score=True, random_state=0).fit(X, Y.astype(float))
    assert np.abs(amounts.oob_prediction_ - Y).mean() < 0.2
    weight = np.arange(len(Y)) % 3
    weighed = forest(n_estimators=30, oob_score=True).fit(X, Y, sample_weight=weight)
    assert np.array_equal(np.isnan(weighed.oob_decision_function_[:, 0]), weight == 0)


def test_trees_can_be_looked_at_one_by_one():
    found = forest(max_depth=3).fit(X, Y)
    shares = np.mean([tree.predict_proba(X.astype(np.float32)) for tree in found], axis=0)
    assert np.allclose(shares, found.predict_proba(X))
    assert len(found) == len(found.estimators_) == 5
    theirs = found.to_sklearn(exact=True)
    assert np.array_equal(found.apply(X), theirs.apply(X))
    (path, starts), (their_path, their_starts) = found.decision_path(X), theirs.decision_path(X)
    assert np.array_equal(path.toarray(), their_path.toarray())
    assert np.array_equal(starts, their_starts)
    assert found[0].tree_.max_depth <= 3


def test_logarithms_of_shares_are_given_and_log_loss_is_entropy():
    found = forest(criterion="log_loss", max_depth=2).fit(X, Y)
    same = forest(criterion="entropy", max_depth=2).fit(X, Y)
    assert found.model_.to_bytes() == same.model_.to_bytes()
    assert np.array_equal(np.exp(found.predict_log_proba(X)) > 0.5, found.predict_proba(X) > 0.5)


def test_a_sparse_table_is_its_array_with_stored_zeros_or_without():
    cells = np.where(X > 3, X, 0.0)
    stored = sparse.csr_array(cells)
    stored.data[:5] = 0.0
    dense = forest(max_depth=3).fit(stored.toarray(), Y)
    found = ExtraTreesClassifier(2, random_state=0).fit(sparse.csc_array(stored), Y)
    assert found.predict(stored).shape == (150,)
    assert np.array_equal(
        forest(max_depth=3).fit(stored, Y).predict_proba(stored), dense.predict_proba(stored)
    )


def test_what_is_too_large_to_be_made_dense_or_has_two_outputs_is_refused():
    with pytest.raises(TableError, match="X is sparse and has more than"):
        forest().fit(sparse.csr_array((1 << 16, 1 << 13)), np.zeros(1 << 16))
    with pytest.raises(TableError, match="it has 2 outputs, and a forest predicts one"):
        forest().fit(X, np.stack([Y, Y], axis=1))
    with pytest.raises(SettingError, match="max_samples must be None"):
        forest(max_samples=0.5).fit(X, Y)


def test_rows_out_of_the_bag_are_scored_by_any_function_of_labels_and_predictions():
    names = np.array(["a", "b", "c"])[Y]
    found = forest(n_estimators=30, oob_score=balanced_accuracy_score).fit(X, names)
    said = found.classes_.take(found.oob_decision_function_.argmax(axis=1))
    assert found.oob_score_ == balanced_accuracy_score(names, said)
    amounts = HorizontalForestRegressor(30, oob_score=mean_absolute_error, random_state=0)
    amounts.fit(X, Y.astype(float), party=deal_rows(Y, 3, random_state=0))
    assert amounts.oob_score_ == mean_absolute_error(Y, amounts.oob_prediction_)
    with pytest.raises(SettingError, match="oob_score must be True or False; got 'f1'"):
        forest(oob_score="f1").fit(X, Y)


def test_rows_that_every_tree_drew_are_told_and_left_out_of_the_score():
    grown = forest(n_estimators=2, oob_score=accuracy_score)
    with pytest.warns(SpinneyWarning, match="Some inputs do not have OOB scores"):
        grown.fit(X, Y)
    judged = ~np.isnan(grown.oob_decision_function_[:, 0])
    assert 0 < judged.sum() < len(Y)
    said = grown.oob_decision_function_[judged].argmax(axis=1)
    assert grown.oob_score_ == accuracy_score(Y[judged], said)


@pytest.mark.parametrize("kind", ["array", "pandas", "objects", "pyarrow", "polars"])
@pytest.mark.parametrize(
    "column", [2**60 + np.arange(150), np.where(Y == 1, 1e-300, 2e-300)], ids=["large", "tiny"]
)
def test_numbers_that_differ_beyond_the_precision_of_trees_are_told(column, kind):
    table = np.stack([column, np.zeros(150, column.dtype)], axis=1)
    frame = pd.DataFrame(table, columns=["id", "none"])
    given = {
        "array": lambda: table,
        "pandas": lambda: frame,
        "objects": lambda: frame.astype(object),
        "pyarrow": lambda: pa.table(frame),
        "polars": lambda: pytest.importorskip("polars").from_pandas(frame),
    }[kind]()
    with pytest.warns(SpinneyWarning, match="differ, but not in the first seven digits") as told:
        forest(n_estimators=1).fit(given, Y)
    assert ("column 0" if kind == "array" else "'id'") in str(told[0].message)
    assert "none" not in str(told[0].message)


def test_labels_that_differ_beyond_the_precision_of_sums_are_refused():
    grown = HorizontalForestRegressor(1, random_state=0)
    grown.fit(X, 2**60 + 2**20 * np.arange(150))
    with pytest.raises(TableError, match="The labels differ, but not in the first fifteen digits"):
        grown.fit(X, 2**60 + np.arange(150) % 100)
    grown.fit(X, np.where(Y == 1, 1e-300, 2e-300))
    assert grown.predict(X).max() > grown.predict(X).min()
