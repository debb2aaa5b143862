"""An estimator's model is evaluated with noise: what is told, what it costs, what is refused."""

from copy import copy
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import confusion_matrix, mean_absolute_error, roc_auc_score

from spinney import (
    GeneticTreeClassifier,
    HorizontalBoostingClassifier,
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    PrivateBoostingClassifier,
    PrivateForestClassifier,
    PrivateTreeClassifier,
    load_model,
    load_report,
)
from spinney.errors import SettingError
from spinney.privacy.budget import Unit
from spinney.protocols.private_evaluation.cells import Cells, Subgroups
from spinney.protocols.private_evaluation.settings import digest_of, evaluation_settings
from spinney.report.privacy import epsilon_in_all
from spinney.tables.schema import Column, Label, Schema

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
SCHEMA = Schema(
    (
        Column("a", "number", range=(0, 1)),
        Column("b", "number", range=(0, 1)),
        Column("kind", "category", categories=("x", "y")),
        Column("member", "boolean"),
    ),
    Label("bought", "class", classes=("no", "yes")),
)


@pytest.fixture(scope="module")
def rows():
    random = np.random.RandomState(0)
    n = 3000
    X = pd.DataFrame({"a": random.uniform(size=n), "b": random.uniform(size=n)})
    X["kind"] = pd.Categorical(random.choice(["x", "y"], n), categories=["x", "y"])
    X["member"] = random.uniform(size=n) < 0.5
    y = np.where(X["a"] + X["b"] + random.normal(0, 0.3, n) > 1, "yes", "no")
    return X, y, random.randint(0, 3, n)


@pytest.fixture(scope="module")
def forest(rows):
    X, y, party = rows
    made = PrivateForestClassifier(2.0, n_estimators=10, max_depth=5, schema=SCHEMA, random_state=0)
    return made.fit(X[:2000], y[:2000], party[:2000])


def held_out(rows):
    X, y, party = rows
    return X[2000:], y[2000:], party[2000:]


def test_asked_twice_it_is_answered_once_and_other_questions_add_up(rows, forest):
    record, own = Unit.RECORD_ADD_REMOVE.value, copy(forest)

    def total():
        return epsilon_in_all(own.report_.privacy, own.report_.evaluation_privacy)[record]

    before, given = total(), held_out(rows)
    first = own.evaluate(*given, epsilon=0.5)
    assert total() - before == Fraction(1, 2)
    assert own.evaluate(*given, epsilon=0.5) == first
    assert total() - before == Fraction(1, 2)
    assert own.evaluate(*given, epsilon=0.25) != first
    assert total() - before == Fraction(3, 4)
    together = f"Training and all evaluations together: epsilon {float(total()):.6g} for a record"
    assert together in " ".join(str(own.report_).split())


def test_with_a_large_epsilon_the_measures_are_scikit_learn_s(forest, rows):
    X, y, party = held_out(rows)
    found = forest.evaluate(X, y, party, epsilon=10_000).parts[0]
    score = forest.predict_proba(X)[:, 1]
    assert found.measures["rows"].value == 1000
    assert found.measures["accuracy"].value == pytest.approx(np.mean(forest.predict(X) == y))
    assert found.measures["auc"].value == pytest.approx(roc_auc_score(y, score), abs=0.005)
    np.testing.assert_array_equal(found.confusion, confusion_matrix(y, forest.predict(X)))
    assert len(found.calibration) > 3
    assert sum(point.rows for point in found.calibration) == 1000


@pytest.mark.parametrize(
    "model",
    [
        PrivateBoostingClassifier(4.0, n_rows=2000, schema=SCHEMA),
        PrivateBoostingClassifier(4.0, n_rows=2000, schema=SCHEMA, delta=None, method="pairs"),
        PrivateTreeClassifier(4.0, n_rows=2000, schema=SCHEMA, method="distilled"),
        PrivateTreeClassifier(4.0, n_rows=2000, schema=SCHEMA, delta=1e-6, method="distilled"),
        HorizontalBoostingClassifier(max_iter=30, schema=SCHEMA),
    ],
    ids=["boosting", "pairs, pure", "distilled, pure", "distilled", "not private"],
)
def test_boosted_and_distilled_models_are_measured_as_scikit_learn_does(model, rows):
    X, y, party = rows
    own = clone(model).fit(X[:2000], y[:2000], party[:2000])
    X, y, party = held_out(rows)
    found = own.evaluate(X, y, party, epsilon=10_000).parts[0]
    score = own.predict_proba(X)[:, 1]
    assert found.measures["accuracy"].value == pytest.approx(np.mean(own.predict(X) == y))
    assert found.measures["auc"].value == pytest.approx(roc_auc_score(y, score), abs=0.005)


def test_three_classes_of_boosted_trees_are_measured_too(rows):
    X, _, party = rows
    y = np.where(X["a"] > 2 / 3, "high", np.where(X["b"] > 1 / 2, "low", "some"))
    schema = replace(SCHEMA, label=Label("y", "class", classes=("high", "low", "some")))
    own = PrivateBoostingClassifier(8.0, n_rows=2000, schema=schema)
    own.fit(X[:2000], y[:2000], party[:2000])
    found = own.evaluate(X[2000:], y[2000:], party[2000:], epsilon=10_000).parts[0]
    score = own.predict_proba(X[2000:])
    expected = roc_auc_score(y[2000:], score, multi_class="ovr")
    assert found.measures["auc"].value == pytest.approx(expected, abs=0.005)


def test_cross_validation_is_for_pure_epsilons_and_says_what_to_do_otherwise(rows):
    model = PrivateBoostingClassifier(2.0, n_rows=2000, schema=SCHEMA, n_passes=1)
    with pytest.raises(SettingError, match=r"Set delta=None, or hold rows out and measure them by"):
        model.cross_validate(*rows, epsilon=4, n_folds=2)
    found = model.set_params(delta=None).cross_validate(*rows, epsilon=40, n_folds=2)
    assert found.quality.measured("accuracy").value > 0.6


def test_a_delta_is_told_with_what_training_and_evaluation_cost_together(rows):
    X, y, party = rows
    own = PrivateBoostingClassifier(2.0, n_rows=2000, schema=SCHEMA, n_passes=1)
    own.fit(X[:2000], y[:2000], party[:2000])
    own.evaluate(*held_out(rows), epsilon=0.5)
    text = " ".join(str(own.report_).split())
    assert "together: epsilon 2.5, delta 1e-06 for a record, as if all counted it." in text


def test_what_is_told_is_charged_to_every_party_s_ledger_and_shown(forest, rows, tmp_path):
    quality = forest.evaluate(*held_out(rows), epsilon=0.75, by="kind")
    assert [part.of for part in quality.parts] == [
        "all parties", "kind = x", "kind = y", "kind = missing",
    ]  # fmt: skip
    for ledger in forest.ledger_.values():
        ledger.verify()
        last = [e.body.question.job for e in ledger.entries() if hasattr(e.body, "question")][-1]
        assert ledger.spent(last, Unit.RECORD_ADD_REMOVE) == 3 / 4
    text = " ".join(str(forest.report_).split())
    assert "with noise: epsilon 3/4, in addition to what the training cost" in text
    assert "kind = missing" in text
    assert "too few rows for this noise" in text
    forest.report_.save(tmp_path / "report.json")
    assert load_report(tmp_path / "report.json").evaluation == quality
    forest.report_.to_html(tmp_path / "page.html", forest.model_)
    page = (tmp_path / "page.html").read_text()
    assert "Measured with noise" in page
    assert "Confusion matrix, with noise" in page
    assert "Calibration" in page


def test_each_party_can_be_measured(forest, rows):
    quality = forest.evaluate(*held_out(rows), epsilon=5, per_party=True)
    assert [part.of for part in quality.parts] == ["all parties", "0", "1", "2"]
    assert quality.measured("auc", "1").high <= 1


def test_a_loaded_model_is_evaluated_too(forest, rows, tmp_path):
    forest.save(tmp_path / "model.spinney")
    loaded = load_model(tmp_path / "model.spinney")
    assert loaded.evaluate(*held_out(rows), epsilon=5).measured("accuracy").value > 0.5


def test_several_classes_and_numbers(rows):
    X, _, party = rows
    third = np.digitize(X["a"] + X["b"], [0.7, 1.2])
    many = HorizontalForestClassifier(10, max_depth=6, random_state=0).fit(X, third, party)
    found = many.evaluate(X, third, party, epsilon=10_000).parts[0]
    assert found.measures["accuracy"].value == pytest.approx(many.score(X, third))
    shares = many.predict_proba(X)
    brier = ((shares - np.eye(3)[third]) ** 2).sum(axis=1).mean()
    assert found.measures["brier"].value == pytest.approx(brier, abs=0.01)
    amount = (X["a"] * 10).to_numpy()
    number = HorizontalForestRegressor(10, max_depth=3, random_state=0).fit(X, amount, party)
    found = number.evaluate(X, amount, party, epsilon=10_000, by="member").parts[0]
    error = mean_absolute_error(amount, number.predict(X))
    assert found.measures["mae"].value == pytest.approx(error, rel=0.05)
    assert found.measures["rmse"].low > 0


def test_folds_share_one_budget_and_ledgers_hold_to_it(rows):
    X, y, party = rows
    forest = PrivateForestClassifier(n_estimators=10, max_depth=5, schema=SCHEMA, random_state=0)
    found = forest.cross_validate(X, y, party, epsilon=5, n_folds=4)
    assert found.epsilon_of_training == 1
    assert found.epsilon_of_evaluation == 1
    assert len({model.to_bytes() for model in found.models}) == 4
    assert found.quality.n_folds == 4
    assert found.quality.measured("auc").low > 0.6
    assert "4 trainings of epsilon 1, and an evaluation of epsilon 1" in str(found)
    for ledger in found.ledgers.values():
        assert ledger.left_for_life("cross-validated rows", Unit.RECORD_ADD_REMOVE) == 0
        ledger.verify()
    assert not hasattr(forest, "model_")


def test_a_fold_s_rows_are_scored_by_the_model_that_did_not_see_them(rows):
    """With a large budget, out-of-fold scores: not better than those of unseen rows."""
    X, y, _ = rows
    random_y = np.random.RandomState(1).permutation(y)
    forest = PrivateForestClassifier(n_estimators=5, max_depth=8, schema=SCHEMA, random_state=0)
    honest = forest.cross_validate(X, random_y, epsilon=10_000, n_folds=3).quality
    seen = forest.set_params(epsilon=3000).fit(X, random_y).evaluate(X, random_y, epsilon=3000)
    assert honest.measured("auc").high < 0.56
    assert seen.measured("auc").low > 0.56


def refused(call, words):
    with pytest.raises(SettingError, match=words):
        call()


def test_what_cannot_be_evaluated_is_refused_in_words(forest, rows):
    given = held_out(rows)
    refused(lambda: forest.evaluate(*given, epsilon=0), "epsilon must be a positive finite number")
    words = "epsilon=1e-07 is too small to evaluate with: the rows by class and score would carry"
    refused(lambda: forest.evaluate(*given, epsilon=1e-7), words)
    words = "by = 'a' is a number, and subgroups are the declared categories of a column. Name"
    refused(lambda: forest.evaluate(*given, epsilon=1, by="a"), words)
    words = "by = 'sex' names no column of the model. Its columns are: a, b, kind, member"
    refused(lambda: forest.evaluate(*given, epsilon=1, by="sex"), words)
    refused(
        lambda: forest.cross_validate(*given, epsilon=1, n_folds=1),
        "n_folds must be a whole number between 2 and 100; got 1",
    )
    words = "GeneticTreeClassifier does not train one model with an epsilon"
    refused(lambda: GeneticTreeClassifier().cross_validate(*given, epsilon=1), words)
    refused(lambda: Subgroups.of(SCHEMA, "b"), "subgroups are the declared categories")


def test_trees_of_single_parties_have_no_common_prediction(rows):
    X, y, party = rows
    small = GeneticTreeClassifier(population_size=4, n_generations=2, max_depth=3, random_state=0)
    evolved = small.fit(X[:300], y[:300], party[:300])
    words = "every party has its own tree, so there is no common prediction to evaluate"
    refused(lambda: evolved.evaluate(X[:300], y[:300], party[:300], epsilon=1), words)


def test_a_number_without_a_range_and_folds_of_other_tables_are_refused(forest):
    model = forest.model_
    settings = evaluation_settings("e", (digest_of(b""),), "regression", 1)
    open_label = replace(model, schema=Schema(SCHEMA.columns, Label("bought", "number")))
    words = "The label 'bought' declares no range, so one record could change an error without"
    refused(lambda: Cells.of((open_label,), settings), words)
    two = evaluation_settings("e", ("1", "2"), "classification", 1)
    other = replace(model, schema=Schema(SCHEMA.columns, Label("sold", "class", ("no", "yes"))))
    refused(lambda: Cells.of((model, other), two), "The folds' models have different schemas")


def test_shares_of_noise_and_single_parties_exclude_each_other(forest):
    digest = digest_of(forest.model_.to_bytes())
    settings = evaluation_settings("e", (digest,), "classification", 1)
    words = "per_party shows each party's own histograms, so parties cannot share the noise"
    refused(
        lambda: type(settings)(privacy=settings.privacy, models=(digest,), per_party=True), words
    )
    refused(
        lambda: evaluation_settings("e", (), "classification", 1), "needs one model, or one for"
    )
    number = evaluation_settings("e", (digest,), "regression", 1)
    refused(lambda: Cells.of((forest.model_,), number), "does not predict for task = 'regression'")
