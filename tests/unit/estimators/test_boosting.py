"""Boosted trees as an estimator: what they predict, export and refuse."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from spinney import (
    HorizontalBoostingClassifier,
    HorizontalBoostingRegressor,
    HorizontalForestClassifier,
    deal_rows,
)
from spinney.errors import SettingError, TableError

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


@pytest.mark.parametrize("label", LABELS)
def test_lightgbm_and_scikit_learn_predict_the_same(label, ward_table, ward_labels):
    lightgbm = pytest.importorskip("lightgbm")
    model = boosted(label, ward_table, ward_labels)
    rows, expected = model.encoded(ward_table), predictions(model, ward_table)
    found = lightgbm.Booster(model_str=model.to_lightgbm()).predict(rows).reshape(len(rows), -1)
    wanted = expected[:, 1:] if label == "two classes" else expected
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    theirs = predictions(model.to_sklearn(), ward_table)
    np.testing.assert_allclose(theirs, expected, rtol=1e-9, atol=1e-12)


def test_scikit_learn_rounds_numbers_as_we_do():
    random = np.random.default_rng(0)
    X = 1.0 + random.integers(0, 40, (400, 2)) * 2.0**-25  # a quarter of a step of 32 bits
    model = HorizontalBoostingRegressor(**SMALL).fit(X, X[:, 0] - 1.0 + X[:, 1])
    np.testing.assert_allclose(model.to_sklearn().predict(X), model.predict(X), rtol=1e-9)


def test_a_forest_is_no_lightgbm_model(ward_table, ward_labels):
    forest = HorizontalForestClassifier(n_estimators=2, random_state=0)
    forest.fit(ward_table, ward_labels["two classes"])
    with pytest.raises(SettingError, match="holds boosted trees, and this model is a forest"):
        forest.to_lightgbm()


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


def noisy_table(n=600):
    random = np.random.RandomState(0)
    X = random.standard_normal((n, 3))
    return X, X[:, 0] + np.sin(4 * X[:, 1]) + X[:, 0] * X[:, 2] + random.standard_normal(n)


@pytest.mark.parametrize("direction", [-1, 1])
@pytest.mark.parametrize("kind", [HorizontalBoostingClassifier, HorizontalBoostingRegressor])
def test_a_constrained_column_moves_predictions_one_way_only(kind, direction):
    X, signal = noisy_table()
    y = (signal > 0).astype(int) if kind is HorizontalBoostingClassifier else signal
    free = kind(**SMALL).fit(X, y)
    model = kind(monotonic_cst=[0, direction, 0], **SMALL).fit(X, y)
    grid = np.linspace(-3, 3, 50)

    steps = [
        np.diff(predictions(m, np.insert(np.zeros((50, 2)), 1, grid, 1))[:, -1])
        for m in (free, model)
    ]
    assert (direction * steps[0]).min() < 0
    assert (direction * steps[1]).min() >= 0
    rows = np.repeat(X[:40], grid.size, axis=0)
    rows[:, 1] = np.tile(grid, 40)
    found = predictions(model, rows)[:, -1].reshape(40, -1)
    assert (direction * np.diff(found, axis=1)).min() >= 0


def test_columns_that_may_not_meet_are_never_on_one_path():
    X, y = noisy_table()
    model = HorizontalBoostingRegressor(interaction_cst=[[0], [1, 2]], **SMALL).fit(X, y)
    forest = model.model_.forest
    on_path = np.zeros((forest.n_nodes, 3), bool)
    for node in np.flatnonzero(forest.feature >= 0):
        for child in (forest.left[node], forest.left[node] + 1):
            on_path[child] = on_path[node]
            on_path[child, forest.feature[node]] = True
    assert on_path[:, 0].any()
    assert on_path[:, 1].any()
    assert not (on_path[:, 0] & on_path[:, 1:].any(axis=1)).any()
    alone = HorizontalBoostingRegressor(interaction_cst="no_interactions", **SMALL).fit(X, y)
    forest = alone.model_.forest
    for node in np.flatnonzero(forest.feature >= 0):
        for child in (forest.left[node], forest.left[node] + 1):
            assert forest.feature[child] in {-1, forest.feature[node]}


def test_boosting_stops_when_the_loss_on_validation_rows_no_longer_falls():
    X, signal = noisy_table()
    y = (signal > 0).astype(int)
    how = SMALL | {"max_iter": 400, "min_samples_leaf": 1}
    model = HorizontalBoostingClassifier(
        early_stopping=True, n_iter_no_change=3, validation_fraction=0.2, **how
    ).fit(X, y)
    scores = model.validation_score_
    assert model.n_iter_ == 4 * (scores.size - 1) < 400
    assert scores[-4] >= scores[-3:].max() - 1e-7
    assert model.train_score_[-1] > scores[-1]
    questions = [row.question for row in model.report_.traffic]
    assert questions.count("Gradients") <= 4 * (scores.size - 1) + 1  # no round but the last root


def test_a_fixed_point_loss_is_that_of_the_probabilities():
    X, signal = noisy_table()
    for y in ((signal > 0).astype(int), np.digitize(signal, [-1, 1])):
        model = HorizontalBoostingClassifier(**SMALL).fit(X, y)
        stages = list(model.staged_predict_proba(X))
        assert np.array_equal(stages[-1], model.predict_proba(X))
        truth = stages[0][np.arange(len(y)), y]
        assert abs(model.train_score_[1] - np.log(truth).mean()) < 1e-5
    model = HorizontalBoostingRegressor(**SMALL).fit(X, signal)
    (first, *_, last) = model.staged_predict(X)
    assert np.array_equal(last, model.predict(X))
    errors = ((first - signal) / np.ptp(signal)) ** 2
    assert abs(-model.train_score_[1] - errors.mean()) < 1e-5


def test_counts_are_boosted_on_the_scale_of_logarithms():
    random = np.random.RandomState(0)
    X = random.standard_normal((3000, 3))
    mean = np.exp(0.6 * X[:, 0] + 0.5 * (X[:, 1] > 0))
    y = random.poisson(mean).astype(float)
    for shift in (0.0, 1.0):  # a range that begins at 0, and one that begins at 1
        how: dict[str, Any] = {"loss": "poisson", "random_state": 0, "max_depth": 3}
        model = HorizontalBoostingRegressor(**how).fit(X, y + shift)
        found = model.predict(X)
        assert found.min() > 0
        assert np.corrcoef(found, mean)[0, 1] > 0.95
        assert abs(found.mean() / (y + shift).mean() - 1) < 0.02
        assert model.train_score_[-1] > model.train_score_[0]
        twin = deal_rows(np.zeros(3000, int), 3, random_state=0)
        again = HorizontalBoostingRegressor(secure_sum=True, **how)
        assert again.fit(X, y + shift, twin).model_.to_bytes() == model.model_.to_bytes()


def test_counts_below_zero_are_refused():
    X, y = noisy_table()
    with pytest.raises(SettingError, match="is for counts; the range of the label"):
        HorizontalBoostingRegressor(loss="poisson").fit(X, y)


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
    "validation": ({"validation_fraction": 1.0}, "validation_fraction must be below 1"),
    "patience": ({"n_iter_no_change": 0}, "n_iter_no_change must be a whole number"),
    "direction": ({"monotonic_cst": {"age": 2}}, "must give -1, 0 or 1 for each column"),
    "directions": ({"monotonic_cst": [1]}, "monotonic_cst must be a dict by column"),
    "no column": ({"monotonic_cst": {"height": 1}}, "names 'height', which is not a column"),
    "category": ({"monotonic_cst": {"ward": 1}}, "'ward', whose categories have no order"),
    "together": ({"interaction_cst": [["height"]]}, "names 'height', which is not a column"),
    "place": ({"interaction_cst": [[99]]}, "interaction_cst names column 99"),
    "words": ({"interaction_cst": "none"}, "interaction_cst must be 'pairwise'"),
    "masks": ({"secure_sum": "yes"}, "secure_sum must be True or False"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_refused_in_words(case, ward_table, ward_labels):
    parameters, words = REFUSED[case]
    model = HorizontalBoostingClassifier(**SMALL | parameters)
    with pytest.raises(SettingError, match=words):
        model.fit(ward_table, ward_labels["two classes"])


@pytest.mark.parametrize("loss", ["absolute_error", "quantile"])
def test_a_loss_whose_leaves_are_quantiles_is_refused(loss):
    X, y = noisy_table()
    with pytest.raises(SettingError, match="a quantile of its rows, which sums do not tell"):
        HorizontalBoostingRegressor(loss=loss).fit(X, y)


def test_a_direction_for_more_than_two_classes_is_refused(ward_table, ward_labels):
    model = HorizontalBoostingClassifier(monotonic_cst={"age": 1})
    with pytest.raises(SettingError, match="monotonic_cst needs a label with two classes"):
        model.fit(ward_table, ward_labels["three classes"])


def test_too_few_rows_to_stop_early_are_refused():
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    model = HorizontalBoostingClassifier(
        early_stopping=True, validation_fraction=1e-9, random_state=0
    )
    with pytest.raises(TableError, match="too few rows for validation_fraction=1e-09"):
        model.fit(X, y)


def test_scores_that_could_overflow_are_refused_before_a_tree_grows():
    X, y = np.arange(350_000) % 9, np.arange(350_000) % 2
    model = HorizontalBoostingClassifier(max_iter=100_000, batch_trees=1, learning_rate=1.0)
    with pytest.raises(SettingError, match="100000 batches of trees at learning_rate=1 could move"):
        model.fit(X[:, None], y)


def test_a_loss_that_does_not_fit_a_number_is_refused(ward_table, ward_labels):
    model = HorizontalBoostingRegressor(loss="log_loss")
    with pytest.raises(SettingError, match="loss must be 'squared_error' or 'poisson' for"):
        model.fit(ward_table, ward_labels["amount"])


def test_weights_of_one_change_nothing(ward_table, ward_labels):
    model = boosted("two classes", ward_table, ward_labels)
    again = HorizontalBoostingClassifier(**SMALL).fit(
        ward_table, ward_labels["two classes"], sample_weight=np.ones(len(ward_table))
    )
    assert again.model_.to_bytes() == model.model_.to_bytes()


@pytest.mark.parametrize("label", LABELS)
def test_rows_of_weight_zero_teach_nothing(label, ward_table, ward_labels):
    """A wrong label on half of the rows is harmless if those rows weigh nothing."""
    y = ward_labels[label]
    weight = (np.arange(len(y)) % 2).astype(float)
    wrong = np.where(weight > 0, y, y[0])
    kind = HorizontalBoostingRegressor if label == "amount" else HorizontalBoostingClassifier
    one = kind(**SMALL | {"subsample": 1.0}).fit(ward_table, wrong, sample_weight=weight)
    plain = kind(**SMALL | {"subsample": 1.0}).fit(ward_table, wrong)
    kept = weight > 0
    assert one.score(ward_table[kept], y[kept]) > plain.score(ward_table[kept], y[kept])


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ([1.0], "one number for each of the"),
        (-1.0, "finite and not negative"),
        (np.nan, "finite and not negative"),
        (0.0, "zero for every row"),
        ("heavy", "must be a number for each row"),
    ],
)
def test_weights_that_cannot_be_are_refused(weight, words, ward_table, ward_labels):
    with pytest.raises(SettingError, match=words):
        HorizontalBoostingClassifier(**SMALL).fit(
            ward_table, ward_labels["two classes"], sample_weight=weight
        )


@pytest.mark.parametrize("label", LABELS)
def test_a_warm_start_adds_the_trees_that_one_fit_grows(label, ward_table, ward_labels):
    whole = boosted(label, ward_table, ward_labels)
    model = boosted(label, ward_table, ward_labels, max_iter=4, warm_start=True)
    model.set_params(max_iter=8).fit(ward_table, ward_labels[label])
    assert model.model_.to_bytes() == whole.model_.to_bytes()
    assert np.array_equal(model.train_score_, whole.train_score_)
    party = deal_rows(ward_labels[label], 3, random_state=0)
    dealt = clone(whole).set_params(max_iter=4, warm_start=True)
    dealt.fit(ward_table, ward_labels[label], party=party)
    dealt.set_params(max_iter=8, secure_sum=True).fit(ward_table, ward_labels[label], party=party)
    assert dealt.model_.to_bytes() == whole.model_.to_bytes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_iter": 2}, "less than the 4 trees so far"),
        ({"max_iter": 8, "max_depth": 3}, "max_depth has changed"),
        ({"max_iter": 8, "columns": 3}, "columns and classes of the trees so far"),
        ({"max_iter": 8, "rows": 200}, "rows of the trees so far; these are others"),
    ],
)
def test_a_warm_start_that_cannot_go_on_is_refused(change, words, ward_table, ward_labels):
    y = ward_labels["two classes"]
    model = boosted("two classes", ward_table, ward_labels, max_iter=4, warm_start=True)
    before = model.model_.to_bytes()
    n_rows, n_columns = change.pop("rows", len(y)), change.pop("columns", ward_table.shape[1])
    model.set_params(**change)
    with pytest.raises(SettingError, match=words):
        model.fit(ward_table.iloc[:n_rows, :n_columns], y[:n_rows])
    assert model.model_.to_bytes() == before
    model.predict(ward_table)


def test_a_warm_start_needs_whole_batches(ward_table, ward_labels):
    model = boosted("two classes", ward_table, ward_labels, max_iter=5, warm_start=True)
    with pytest.raises(SettingError, match="5 trees so far are no multiple of batch_trees=4"):
        model.set_params(max_iter=8).fit(ward_table, ward_labels["two classes"])


def test_the_report_tells_how_the_loss_fell_at_each_party_unless_masked(ward_table, ward_labels):
    y = ward_labels["two classes"]
    party = deal_rows(y, 3, random_state=0)
    model = HorizontalBoostingClassifier(**SMALL)
    report = model.fit(ward_table, y, party=party).report_
    sizes = {str(name): int((party == name).sum()) for name in np.unique(party)}
    assert list(report.own_curves) == list(sizes)
    assert all(len(curve) == 3 and curve[-1] < curve[0] for curve in report.own_curves.values())
    for batch, loss in enumerate(report.curves["training"]):
        held = sum(sizes[name] * report.own_curves[name][batch] for name in sizes)
        assert held / len(y) == pytest.approx(loss)
    masked = model.set_params(secure_sum=True).fit(ward_table, y, party=party).report_
    assert masked.own_curves == {}
    assert masked.curves == report.curves
