"""Private forests as users meet them: parameters, warnings, ledgers, reports."""

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from spinney import (
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    deal_rows,
    load_model,
    load_report,
)
from spinney.errors import PrivacyLeakWarning, SettingError
from spinney.privacy.budget import Unit
from spinney.privacy.ledger_store import Disclosed
from spinney.tables.schema import Column, Label, Schema

RECORD = Unit.RECORD_ADD_REMOVE
quiet = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
SMALL = {"n_estimators": 3, "max_depth": 3, "random_state": 0}


@pytest.fixture
def rows():
    random = np.random.RandomState(0)
    X = pd.DataFrame({"age": random.uniform(0, 100, 400), "ward": random.choice(["a", "b"], 400)})
    y = (X["age"] > 50).to_numpy().astype(int)
    return X, y, deal_rows(y, 3, random_state=0)


def declared(**changes):
    columns = {
        "age": Column("age", "number", (0, 100)),
        "ward": Column("ward", "category", categories=("a", "b")),
    }
    return Schema(tuple({**columns, **changes}.values()), Label("y", "class", (0, 1)))


def spent(forest, unit=RECORD):
    name = forest.report_.settings["privacy"]["job"]
    return {party: ledger.spent(name, unit) for party, ledger in forest.ledger_.items()}


# --- parameters ----------------------------------------------------------------------------------


@quiet
@pytest.mark.parametrize(
    ("changes", "unit"),
    [
        ({"tree_rows": "disjoint"}, RECORD),
        ({"tree_rows": "all"}, RECORD),
        ({"secure_sum": True}, RECORD),
        ({"secure_sum": True, "honest": 1}, RECORD),
        ({"mechanism": "perturbed_input"}, Unit.RECORD_REPLACE),
        ({"mechanism": "perturbed_input", "secure_sum": True}, Unit.RECORD_REPLACE),
    ],
)
def test_every_party_s_ledger_shows_the_epsilon_that_was_given(rows, changes, unit):
    X, y, party = rows
    forest = HorizontalForestClassifier(epsilon=0.1, **SMALL, **changes).fit(X, y, party=party)
    assert spent(forest, unit) == dict.fromkeys(["0", "1", "2"], Fraction(1, 10))
    assert set(forest.predict(X)) <= {0, 1}


@quiet
def test_amounts_too(rows):
    X, _, party = rows
    forest = HorizontalForestRegressor(epsilon=2, **SMALL).fit(X, X["age"].to_numpy(), party=party)
    assert set(spent(forest).values()) == {2}
    assert np.all((forest.predict(X) >= 0) & (forest.predict(X) <= 100))


@pytest.mark.parametrize("bad", [-1, 0, float("nan"), float("inf"), "1", True])
def test_an_epsilon_that_is_none(rows, bad):
    X, y, _ = rows
    for name in ("epsilon", "epsilon_per_count"):
        forest = HorizontalForestClassifier(**{name: bad}, **SMALL, schema=declared())
        with pytest.raises(SettingError, match=f"{name} must be a positive finite number"):
            forest.fit(X, y)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"max_depth": None}, "max_depth=None cannot be used with noise"),
        ({"binning": "adaptive"}, "binning='adaptive' cannot be used with noise"),
        ({"class_weight": "balanced"}, "exact class counts"),
        ({"oob_score": True, "tree_rows": "bootstrap"}, "cannot keep to an epsilon"),
        ({"min_samples_leaf": 0.1}, "exact number of rows"),
        ({"tree_rows": "bootstrap"}, "cannot keep to an epsilon"),
        ({"tree_rows": "some"}, "tree_rows must be"),
        ({"mechanism": "magic"}, "mechanism must be"),
        ({"sample_rate": 2}, "sample_rate must be above 0 and at most 1"),
        ({"leaf_share": 1}, "leaf_share must be above 0 and below 1"),
        ({"epsilon_per_count": 1}, "either epsilon"),
        ({"honest": 2}, "It needs secure_sum=True"),
        ({"honest": 9, "secure_sum": True}, "honest must be between 1 and"),
        ({"epsilon": 1e-30}, "would not fit in 64-bit sums"),
    ],
)
def test_settings_that_cannot_be_kept(rows, changes, match):
    X, y, party = rows
    facts = SMALL | {"epsilon": 1.0, "schema": declared()} | changes
    with pytest.raises(SettingError, match=match):
        HorizontalForestClassifier(**facts).fit(X, y, party=party)


def test_two_parties_that_must_both_be_honest(rows):
    X, y, _ = rows
    forest = HorizontalForestClassifier(
        epsilon=1, secure_sum=True, honest=2, schema=declared(), **SMALL
    )
    with pytest.raises(SettingError, match="For two parties, honest must be 1"):
        forest.fit(X, y, party=np.arange(400) % 2)
    forest.set_params(honest=None).fit(X, y, party=np.arange(400) % 2)
    assert set(spent(forest).values()) == {1}


# --- public facts --------------------------------------------------------------------------------


def test_ranges_read_from_the_data_are_named_also_for_one_party(rows):
    X, y, party = rows
    for who in (None, party):
        with pytest.warns(PrivacyLeakWarning, match="range of 'age'"):
            HorizontalForestClassifier(epsilon=1, **SMALL).fit(X, y, party=who)


@pytest.mark.parametrize("mechanism", ["noisy_histograms", "perturbed_input"])
def test_where_ranges_were_read_from_the_data_no_epsilon_is_printed(rows, mechanism):
    """All noise is paid for, but the edges it is added between tell of the rows by themselves."""
    X, y, party = rows
    forest = HorizontalForestClassifier(epsilon=1, mechanism=mechanism, **SMALL)
    with pytest.warns(PrivacyLeakWarning, match=r"range of 'age'.*categories of 'ward'.*classes"):
        forest.fit(X, y, party=party)
    records = [claim for claim in forest.report_.privacy if claim.unit.startswith("record")]
    assert records
    assert {(claim.verdict, claim.epsilon) for claim in records} == {("UNPROTECTED", None)}
    for claim in records:
        assert "epsilon=" not in claim.text
    told = " ".join(claim.text for claim in records)
    assert "the range of 'age' (read from the data in a simulation; declare it in a schema)" in told
    assert "the categories of 'ward'" in told
    assert "the classes of" in told
    ledger = next(iter(forest.ledger_.values()))
    disclosed = [e.body for e in ledger.entries() if isinstance(e.body, Disclosed)]
    assert sum("read from the data" in d.disclosure.why for d in disclosed) == 3


def test_a_full_schema_leaves_nothing_to_be_read(rows):
    X, y, party = rows
    forest = HorizontalForestClassifier(epsilon=1, schema=declared(), **SMALL)
    forest.fit(X, y, party=party)
    assert "read from the data" not in str(forest.report_)


@pytest.mark.parametrize("mechanism", ["noisy_histograms", "perturbed_input"])
@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"age": Column("age", "number")}, "does not declare the range of 'age'"),
        ({"ward": Column("ward", "category")}, "does not declare the categories of 'ward'"),
    ],
)
def test_a_schema_that_leaves_a_fact_open_is_refused(rows, mechanism, changes, match):
    X, y, party = rows
    forest = HorizontalForestClassifier(
        epsilon=1, mechanism=mechanism, schema=declared(**changes), **SMALL
    )
    with pytest.raises(SettingError, match=match):
        forest.fit(X, y, party=party)


def test_a_label_without_public_facts_is_refused(rows):
    X, y, _ = rows
    schema = Schema(declared().columns, Label("y", "class"))
    with pytest.raises(SettingError, match="does not declare the classes of 'y'"):
        HorizontalForestClassifier(epsilon=1, schema=schema, **SMALL).fit(X, y)
    schema = Schema(declared().columns, Label("y", "number"))
    with pytest.raises(SettingError, match="does not declare the range of 'y'"):
        HorizontalForestRegressor(epsilon=1, schema=schema, **SMALL).fit(X, y)


# --- as any other estimator ----------------------------------------------------------------------


def test_noise_is_fresh_in_every_fit_whatever_the_random_state(rows):
    X, y, party = rows
    forest = HorizontalForestClassifier(epsilon=1, schema=declared(), **SMALL)
    first = forest.fit(X, y, party=party).model_.to_bytes()
    assert forest.fit(X, y, party=party).model_.to_bytes() != first


def test_a_ledger_stays_where_its_party_is(rows, tmp_path):
    X, y, party = rows
    forest = HorizontalForestClassifier(epsilon=1, schema=declared(), **SMALL)
    forest.fit(X, y, party=party)
    copy = pickle.loads(pickle.dumps(forest))
    assert not hasattr(copy, "ledger_")
    assert np.array_equal(copy.predict_proba(X), forest.predict_proba(X))
    assert clone(forest).epsilon == 1
    forest.save(tmp_path / "model.spinney", exact=True)
    assert np.array_equal(load_model(tmp_path / "model.spinney").predict(X), forest.predict(X))
    assert forest.to_sklearn() is not None


def test_without_noise_there_is_nothing_in_the_ledgers(rows):
    X, y, _ = rows
    assert HorizontalForestClassifier(**SMALL).fit(X, y).ledger_ == {}


def test_it_works_in_scikit_learn_s_tools(rows):
    X, y, _ = rows
    forest = HorizontalForestClassifier(epsilon=50, schema=declared(), **SMALL)
    assert cross_val_score(forest, X, y, cv=3).mean() > 0.7


# --- the report ----------------------------------------------------------------------------------


def test_a_private_report_says_what_is_promised_to_whom(rows, tmp_path):
    X, y, party = rows
    forest = HorizontalForestClassifier(
        epsilon=0.5, secure_sum=True, schema=declared(), **SMALL
    ).fit(X, y, party=party)
    report = forest.report_
    assert report.is_private
    assert all(claim.parties == ("0", "1", "2") for claim in report.privacy)  # equal, so one each
    records = [claim for claim in report.privacy if claim.unit == RECORD.value]
    assert [claim.view for claim in records] == ["reader", "coordinator", "party", "coalition"]
    assert {(claim.verdict, claim.epsilon) for claim in records} == {("EPSILON", "1/2")}
    text = " ".join(str(report).split())
    assert (
        "quality not measured: exact scores of a party's own rows would cost privacy budget" in text
    )
    assert "Noise was added to what left the parties, and charged to each party's ledger." in text
    assert "epsilon=0.5 (delta_impl=0: the samplers are exact)" in text
    assert "t=2 of K=3 must be honest" in text
    assert "not differentially private" not in text.lower()
    report.save(tmp_path / "report.json")
    assert load_report(tmp_path / "report.json").privacy == report.privacy


@pytest.mark.parametrize("tree_rows", ["disjoint", "all", "sampled"])
def test_a_claim_rests_on_secret_rows_only_where_a_sample_made_it_cheaper(rows, tree_rows):
    X, y, party = rows
    forest = HorizontalForestClassifier(
        epsilon=1, tree_rows=tree_rows, schema=declared(), **SMALL
    ).fit(X, y, party=party)
    text = " ".join(claim.text for claim in forest.report_.privacy)
    assert ("Rests on which rows each tree reads" in text) is (tree_rows == "sampled")


@quiet
@pytest.mark.parametrize("secure", [False, True])
def test_a_report_without_noise_names_what_is_open_and_what_is_hidden(rows, secure):
    X, y, party = rows
    report = HorizontalForestClassifier(secure_sum=secure, **SMALL).fit(X, y, party=party).report_
    assert not report.is_private
    text = " ".join(str(report).split())
    assert "Not differentially private: no noise was added." in text
    assert "against readers of the model: UNPROTECTED" in text
    for release in ("counts of rows, classes", "histograms of tree nodes", "a confusion matrix"):
        assert release in text
    against = {(claim.unit, claim.view): claim for claim in report.privacy}
    totals = against["a party's own totals", "coordinator"].text
    assert ("HIDDEN: counts of rows" in totals) is secure
    assert ("UNPROTECTED, party by party: counts of rows" in totals) is not secure
    others = against["record, add or remove", "party"]
    assert (others.verdict, "as exact sums over parties" in others.text) == ("UNPROTECTED", True)
    assert all(claim.epsilon is None for claim in report.privacy)
    assert str(report.privacy[0]) == report.privacy[0].text


def test_a_report_of_perturbed_rows_says_that_rows_can_be_counted(rows):
    X, y, party = rows
    forest = HorizontalForestClassifier(
        epsilon=4, mechanism="perturbed_input", schema=declared(), **SMALL
    )
    text = " ".join(str(forest.fit(X, y, party=party).report_).split())
    assert "One record, replaced by another, against readers of the model" in text
    assert "epsilon=4" in text
    assert "UNPROTECTED: the number of rows" in text
    assert "quality (out-of-bag, perturbed rows)" in text
