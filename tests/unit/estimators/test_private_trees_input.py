"""Private estimators: what they take, refuse, compare, save and show."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from spinney import (
    PrivateBoostingClassifier,
    PrivateForestClassifier,
    PrivateTreeClassifier,
    deal_rows,
    load_model,
)
from spinney.errors import PrivacyLeakWarning, SettingError, SpinneyWarning
from spinney.privacy.budget import Unit
from spinney.tables.schema import Column, Label, Schema

quiet = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
BOTH = [PrivateTreeClassifier, PrivateForestClassifier]
both = pytest.mark.parametrize("kind", BOTH, ids=[kind.__name__ for kind in BOTH])
SCHEMA = Schema(
    (Column("age", "number", (0.0, 100.0)), Column("ward", "category", categories=("a", "b"))),
    Label("ill", "class", ("no", "yes")),
)


def table(n=240):
    random = np.random.RandomState(0)
    X = pd.DataFrame(
        {"age": random.uniform(0, 100, n), "ward": pd.Categorical(random.choice(["a", "b"], n))}
    )
    return X, np.where(X["age"] > 60, "yes", "no")


def declared(kind, epsilon=20.0, **more):
    more = {"n_rows": 240} | more if kind is PrivateTreeClassifier else more
    return kind(epsilon, schema=SCHEMA, **more)


@both
@pytest.mark.parametrize("n_parties", [None, 2, 5])
def test_a_fit_costs_its_epsilon_at_every_party_and_reads_no_fact(kind, n_parties):
    X, y = table()
    party = None if n_parties is None else deal_rows(y, n_parties, random_state=0)
    model = declared(kind).fit(X, y, party=party)  # a warning would be an error
    assert len(model.ledger_) == (n_parties or 1)
    job = model.report_.settings["privacy"]["job"]
    for ledger in model.ledger_.values():
        assert ledger.spent(job, Unit.RECORD_ADD_REMOVE) == 20
    assert model.score(X, y) > 0.8
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", [*BOTH, PrivateBoostingClassifier])
def test_a_delta_above_one_over_the_number_of_rows_is_warned_of(kind):
    X, y = table(1200)
    model = declared(kind, delta=1e-3, n_rows=1200)
    with pytest.warns(SpinneyWarning, match="delta=0.001 is above one over the number of rows"):
        model.fit(X, y)


@both
def test_facts_that_were_read_are_named(kind):
    X, y = table()
    with pytest.warns(PrivacyLeakWarning, match="range of 'age'") as caught:
        kind(5.0).fit(X, y)
    assert "number of rows" in str(caught[0].message)


def test_the_number_of_rows_is_read_only_where_it_decides_something():
    X, y = table()
    with pytest.warns(PrivacyLeakWarning, match="number of rows"):
        PrivateTreeClassifier(5.0, schema=SCHEMA).fit(X, y)
    tree = PrivateTreeClassifier(5.0, schema=SCHEMA, method="histograms").fit(X, y)
    assert tree.report_.settings["n_rows"] is None  # it would be an exact count in the report


def test_auto_says_what_it_chose_and_why(tmp_path):
    X, y = table()
    tree = declared(PrivateTreeClassifier, 2.0).fit(X, y, party=deal_rows(y, 3, random_state=0))
    assert tree.method_ == "distilled"
    assert tree.choice_.startswith("240 rows, 2 columns, 3 parties, epsilon=2:")
    assert "trusts nobody" in tree.choice_
    assert tree.report_.settings["method"] == "distilled"
    assert tree.get_params()["method"] == "auto"
    tree.report_.to_html(tmp_path / "page.html", tree.model_)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for told in (str(tree.report_), page):
        assert "The tree was distilled: many small trees were boosted" in " ".join(told.split())
    named = declared(PrivateTreeClassifier, 2.0, method="histograms").fit(X, y)
    assert "distilled" not in str(named.report_)


# --- bad input -----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), float("inf"), "much", None])
def test_an_epsilon_that_is_none_is_refused(kind, epsilon):
    X, y = table()
    with pytest.raises(SettingError, match="epsilon must be a positive finite number"):
        declared(kind, epsilon).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"method": "magic"}, "method must be 'auto' or 'distilled' or 'histograms'"),
        ({"max_depth": 99}, "max_depth must be a whole number between 1 and 24"),
        ({"leaf_share": 1.0}, "leaf_share must be above 0 and below 1"),
        ({"bounds_share": 0}, "bounds_share must be a positive finite number"),
        ({"n_rows": -5}, "n_rows must be a whole number at least 1 or None"),
        ({"n_bins": 500}, "n_bins must be a whole number between 2 and 255"),
        ({"secure_sum": "yes"}, "secure_sum must be True or False"),
        ({"honest": 2, "secure_sum": False}, "honest is the number of parties that must be honest"),
        ({"honest": 9}, "honest must be between 1 and the number of parties"),
        ({"epsilon": 1e-7, "max_depth": 5}, "leaves too little budget for each level"),
    ],
)
def test_a_tree_s_parameters_that_cannot_work_are_refused(parameters, words):
    X, y = table()
    given = {"epsilon": 1.0} | parameters
    with pytest.raises(SettingError, match=words):
        declared(PrivateTreeClassifier, **given).fit(X, y, party=deal_rows(y, 3, random_state=0))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_estimators": 0}, "n_estimators must be a whole number at least 1"),
        ({"max_depth": 21}, "max_depth must be a whole number between 1 and 20"),
        ({"shrinkage": "no"}, "shrinkage must be a finite number"),
        ({"n_estimators": 100_000, "max_depth": 20}, "the message limit allows"),
    ],
)
def test_a_forest_s_parameters_that_cannot_work_are_refused(parameters, words):
    X, y = table()
    with pytest.raises(SettingError, match=words):
        declared(PrivateForestClassifier, **parameters).fit(X, y)


@both
@pytest.mark.parametrize("n_parties", [None, 2])
def test_what_lies_outside_the_schema_is_changed_with_a_warning(kind, n_parties):
    X, y = table()
    X["ward"] = X["ward"].astype(object)
    y = y.astype(object)
    X.loc[0, "age"], X.loc[1, "ward"], y[3], y[4] = np.inf, "nowhere", "perhaps", None
    party = None if n_parties is None else deal_rows(table()[1], n_parties, random_state=0)
    small = {"n_estimators": 20, "max_depth": 5} if kind is PrivateForestClassifier else {}
    with pytest.warns(SpinneyWarning, match="Values outside the schema were changed") as caught:
        model = declared(kind, 1000.0, **small).fit(X, y, party=party)
    told = str(caught[0].message)
    assert "Column 'age': 1 cell is infinite and counts as the ends of the declared" in told
    assert "Column 'ward': 1 cell is not declared and counts as missing." in told
    assert "Label 'ill': 2 rows have no label and are left out." in told
    assert model.model_.forest.moments[0].sum() == 238  # with almost no noise
    assert model.classes_.tolist() == ["no", "yes"]


@both
def test_an_infinite_array_is_taken_if_its_schema_is_declared(kind):
    X = np.random.RandomState(0).uniform(0, 100, (240, 1))
    y = np.where(X[:, 0] > 60, "yes", "no")
    X[0] = np.inf
    schema = Schema(SCHEMA.columns[:1], SCHEMA.label)
    more = {"n_rows": 240} if kind is PrivateTreeClassifier else {}
    with pytest.warns(SpinneyWarning, match="1 cell is infinite and counts as the ends"):
        kind(20.0, schema=schema, **more).fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        kind(20.0, **more).fit(X, y)  # nothing is declared


@both
def test_a_feature_without_a_range_is_refused(kind):
    X, y = table()
    bare = Schema((Column("age", "number"), SCHEMA.columns[1]), SCHEMA.label)
    with pytest.raises(SettingError, match="does not declare the range of 'age'"):
        kind(1.0, schema=bare).fit(X, y)


@both
def test_a_failed_fit_leaves_nothing_behind(kind):
    X, y = table()
    model = declared(kind).fit(X, y)
    with pytest.raises(SettingError):
        model.set_params(epsilon=-1).fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert not hasattr(model, "ledger_")


# --- baselines, files, pictures ------------------------------------------------------------------


@both
def test_baselines_come_with_the_same_call(kind):
    X, y = table()
    site = np.array(["north", "south"])[deal_rows(y, 2, random_state=0)]
    model = declared(kind, baselines=True).fit(X, y, party=site)
    found = model.compare(X, y)
    assert set(found) == {"federated", "pooled", "local"}
    assert set(found["local"]) == {"north", "south"}
    assert found["pooled"] > 0.95
    assert found["federated"] == pytest.approx(model.score(X, y))
    assert min(found["local"].values()) > 0.8


@both
def test_without_them_there_is_nothing_to_compare_with(kind):
    X, y = table()
    model = declared(kind).fit(X, y)
    with pytest.raises(SettingError, match="baselines=True"):
        model.compare(X, y)


def test_a_party_of_one_class_has_no_baseline():
    X, y = table()
    site = (y == "yes").astype(int)
    tree = declared(PrivateTreeClassifier, baselines=True).fit(X, y, party=site)
    assert tree.compare(X, y)["local"] == {"0": None, "1": None}


@both
def test_a_saved_model_predicts_and_shows_the_same(kind, tmp_path):
    X, y = table()
    model = declared(kind).fit(X, y, party=deal_rows(y, 3, random_state=0))
    model.save(tmp_path / "model.spinney", exact=True)
    loaded = load_model(tmp_path / "model.spinney")
    assert type(loaded) is kind
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.export_text() == model.export_text()
    assert loaded.model_.to_bytes() == model.model_.to_bytes()
    twin = model.to_sklearn(exact=True)
    assert np.allclose(twin.predict_proba(X), model.predict_proba(X))


def test_a_tree_is_shown_with_what_noise_leaves_open():
    X, y = table()
    tree = declared(PrivateTreeClassifier, 50.0, max_depth=2).fit(X, y)
    text = tree.export_text()
    assert "age <= 60" in text
    assert "gain " in text
    assert "standard error " in text
    assert "ill = yes (0.9" in text or "ill = yes (1.0" in text
    assert " to 1.00)" in text
    assert "about " in text
    picture = tree.export_svg()
    assert picture.startswith("<svg")
    assert "age &lt;= 60" in picture
    assert picture.count("<rect") == tree.model_.forest.n_nodes
    assert tree.feature_importances_.argmax() == 0
    with pytest.raises(SettingError, match="tree must be between 0 and 0; got 3"):
        tree.export_text(3)


@both
def test_an_unfitted_one_shows_nothing(kind):
    for show in (kind().export_text, kind().export_svg):
        with pytest.raises(NotFittedError):
            show()
