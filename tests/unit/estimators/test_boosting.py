"""Boosted trees as an estimator: what they predict, export and refuse."""

from typing import Any

import numpy as np
import pytest

from spinney import HorizontalBoostingClassifier, HorizontalBoostingRegressor
from spinney.errors import SettingError

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
SMALL: dict[str, Any] = {
    "max_iter": 8,
    "batch_trees": 4,
    "max_depth": 4,
    "min_samples_leaf": 3,
    "random_state": 0,
}
LABELS = ["two classes", "three classes", "amount"]


def boosted(label, ward_table, ward_labels, **parameters):
    kind = HorizontalBoostingRegressor if label == "amount" else HorizontalBoostingClassifier
    return kind(**SMALL | parameters).fit(ward_table, ward_labels[label])


def predictions(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)[:, None]


@pytest.mark.parametrize("label", LABELS)
def test_other_runtimes_predict_the_same(label, ward_table, ward_labels):
    runtime = pytest.importorskip("onnxruntime")
    treelite = pytest.importorskip("treelite")
    model = boosted(label, ward_table, ward_labels)
    rows, expected = model.encoded(ward_table), predictions(model, ward_table)
    session = runtime.InferenceSession(model.to_onnx().SerializeToString())
    close: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(session.run(None, {"X": rows})[-1], expected, **close)
    found = treelite.gtil.predict(model.to_treelite(), rows).reshape(len(rows), -1)
    wanted = expected[:, 1:] if label == "two classes" else expected
    np.testing.assert_allclose(found, wanted, **close)


def test_a_scikit_learn_forest_cannot_hold_boosted_trees(ward_table, ward_labels):
    model = boosted("two classes", ward_table, ward_labels)
    with pytest.raises(SettingError, match=r"which averages its trees\. Use to_onnx"):
        model.to_sklearn()


@pytest.mark.parametrize("label", LABELS)
def test_importances_are_shares_of_all_gain(label, ward_table, ward_labels):
    model = boosted(label, ward_table, ward_labels)
    forest = model.model_.forest
    split = forest.feature >= 0
    total = np.bincount(forest.feature[split], forest.gain[split], model.n_features_in_)
    np.testing.assert_allclose(model.feature_importances_, total / total.sum())


@pytest.mark.parametrize("label", LABELS)
def test_the_model_holds_no_sums_of_gradients(label, ward_table, ward_labels):
    forest = boosted(label, ward_table, ward_labels).model_.forest
    assert forest.moments.shape == (forest.n_nodes, 1)  # rows alone


@pytest.mark.parametrize("label", LABELS)
def test_a_page_and_a_drawing_show_boosted_trees(label, tmp_path, ward_table, ward_labels):
    model = boosted(label, ward_table, ward_labels)
    model.report_.to_html(tmp_path / "page.html", model.model_)
    assert "boost" in (tmp_path / "page.html").read_text()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "rate 0": ({"learning_rate": 0}, "learning_rate must be above 0 and at most 1"),
    "rate above 1": ({"learning_rate": 1.5}, "above 1 each batch of trees overshoots"),
    "rate of words": ({"learning_rate": "fast"}, "learning_rate must be above 0"),
    "no depth": ({"max_depth": None}, "max_depth must be given: a tree takes a round"),
    "deep": ({"max_depth": 17}, "max_depth must be a whole number between 1 and 16"),
    "leaf nodes": ({"max_leaf_nodes": 31}, "max_leaf_nodes is not supported"),
    "no trees": ({"max_iter": 0}, "max_iter must be a whole number between 1 and 100000"),
    "no batch": ({"batch_trees": 0}, "batch_trees must be a whole number between 1"),
    "no rows": ({"subsample": 0.0}, "subsample must be a share above 0 and up to 1"),
    "columns": ({"colsample_bytree": 2}, "colsample_bytree must be a share above 0 and up to 1"),
    "features": ({"max_features": -0.1}, "max_features must be a share above 0 and up to 1"),
    "l2": ({"l2_regularization": -1.0}, "l2_regularization must be a finite number"),
    "binning": ({"binning": "adaptive"}, "binning must be 'quantiles' or 'ranges'"),
    "loss": ({"loss": "squared_error"}, "loss must be 'log_loss' for classification"),
    "masks": ({"secure_sum": "yes"}, "secure_sum must be True or False"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_refused_in_words(case, ward_table, ward_labels):
    parameters, words = REFUSED[case]
    model = HorizontalBoostingClassifier(**SMALL | parameters)
    with pytest.raises(SettingError, match=words):
        model.fit(ward_table, ward_labels["two classes"])


def test_a_loss_that_does_not_fit_a_number_is_refused(ward_table, ward_labels):
    model = HorizontalBoostingRegressor(loss="log_loss")
    with pytest.raises(SettingError, match="loss must be 'squared_error' for regression"):
        model.fit(ward_table, ward_labels["amount"])
