"""N parties grow the forest of one table, byte for byte, however the rows are dealt."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    deal_rows,
    load_model,
)
from spinney.estimators.inputs import dealt_tables, fit_input
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest import LevelAsk, Party
from spinney.tables.columns import VectorColumns
from spinney.transport import codec
from spinney.transport.in_process import InProcess

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

SMALL = {"n_estimators": 5, "random_state": 3}

# --- ways to deal --------------------------------------------------------------------------------


def alone(chosen):
    """Deal the chosen rows to party 0 and all others to party 1."""
    return np.where(chosen, 0, 1)


def one_row(X, y):
    return alone(np.arange(len(y)) == 17)


def lacking_a_class(X, y):
    first = np.unique(y)[0]
    return alone((y != first) & (np.arange(len(y)) % 2 == 0))


def lacking_a_category(X, y):
    return alone((X["ward"] != "heart").to_numpy() & (np.arange(len(y)) % 3 == 0))


def column_all_missing(X, y):
    return alone(X["age"].isna().to_numpy())


def sorted_by_label(X, y):
    return np.argsort(np.argsort(y, kind="stable"), kind="stable") * 4 // len(y)


def dealt(n_parties, **how):
    """Return a way to deal rows that does not look at X."""

    def deal(X, y):
        return deal_rows(y, n_parties, **how)

    return deal


def a_row_each_for_nine(X, y):
    return np.minimum(np.arange(len(y)), 9)


DEALS = {
    "two alike": dealt(2, random_state=1),
    "three alike": dealt(3, random_state=2),
    "five alike": dealt(5, random_state=3),
    "ten alike": dealt(10, random_state=4),
    "three skewed": dealt(3, skew=10.0, random_state=5),
    "ten skewed": dealt(10, skew=3.0, random_state=6),
    "by size": dealt(5, sizes=[100, 10, 5, 2, 1], random_state=7),
    "one row": one_row,
    "lacking a class": lacking_a_class,
    "lacking a category": lacking_a_category,
    "column all missing": column_all_missing,
    "sorted by label": sorted_by_label,
    "a row each for nine": a_row_each_for_nine,
}

JOBS: dict[str, tuple[Any, dict[str, Any]]] = {
    "two classes": (HorizontalForestClassifier, {}),
    "two classes by entropy": (HorizontalForestClassifier, {"criterion": "entropy"}),
    "two classes, balanced": (HorizontalForestClassifier, {"class_weight": "balanced"}),
    "two classes, weighted": (
        HorizontalForestClassifier,
        {"class_weight": {"ill": 2.5}, "criterion": "entropy", "min_weight_fraction_leaf": 0.02},
    ),
    "three classes": (HorizontalForestClassifier, {"min_samples_leaf": 2}),
    "three classes by entropy": (HorizontalForestClassifier, {"criterion": "entropy"}),
    "amount": (HorizontalForestRegressor, {}),
    "amount, some features": (HorizontalForestRegressor, {"max_features": 2, "max_depth": 6}),
    "amount, all rows": (HorizontalForestRegressor, {"bootstrap": False, "min_samples_leaf": 3}),
    "two classes, extra": (ExtraTreesClassifier, {}),
    "two classes by entropy, extra": (
        ExtraTreesClassifier,
        {"criterion": "entropy", "class_weight": "balanced", "bootstrap": True},
    ),
    "three classes, extra": (ExtraTreesClassifier, {"min_samples_leaf": 2}),
    "amount, extra": (ExtraTreesRegressor, {"max_features": 3}),
    "amount, extra by quantiles": (ExtraTreesRegressor, {"binning": "quantiles"}),
}


def label_of(job, ward_labels):
    return ward_labels[job.split(",", maxsplit=1)[0].split(" by ", maxsplit=1)[0]]


def model_bytes(kind, X, y, party=None, **parameters):
    return kind(**(SMALL | parameters)).fit(X, y, party=party).model_.to_bytes()


# --- the deal does not matter --------------------------------------------------------------------


@pytest.mark.parametrize("deal", DEALS)
@pytest.mark.parametrize("job", JOBS)
def test_parties_grow_the_forest_of_one_table(job, deal, ward_table, ward_labels):
    kind, parameters = JOBS[job]
    y = label_of(job, ward_labels)
    party = DEALS[deal](ward_table, y)
    assert model_bytes(kind, ward_table, y, party, **parameters) == model_bytes(
        kind, ward_table, y, **parameters
    )


@pytest.mark.parametrize("deal", ["three skewed", "one row", "column all missing", "ten alike"])
@pytest.mark.parametrize(
    "job", ["two classes", "three classes by entropy", "amount", "amount, some features"]
)
def test_parties_grow_the_forest_of_one_table_over_declared_ranges(
    job, deal, ward_table, ward_labels
):
    kind, parameters = JOBS[job]
    parameters = parameters | {"binning": "ranges", "max_bins": 32}
    y = label_of(job, ward_labels)
    party = DEALS[deal](ward_table, y)
    assert model_bytes(kind, ward_table, y, party, **parameters) == model_bytes(
        kind, ward_table, y, **parameters
    )


@pytest.mark.parametrize("deal", ["two alike", "ten skewed", "one row", "lacking a category"])
@pytest.mark.parametrize("job", ["two classes", "three classes by entropy", "amount"])
def test_masks_change_nothing(job, deal, ward_table, ward_labels):
    kind, parameters = JOBS[job]
    y = label_of(job, ward_labels)
    party = DEALS[deal](ward_table, y)
    assert model_bytes(kind, ward_table, y, party, secure_sum=True, **parameters) == model_bytes(
        kind, ward_table, y, **parameters
    )


@pytest.mark.parametrize("max_bins", [2, 3, 16, 255])
@pytest.mark.parametrize("max_cells", [2, 5, 255])
def test_the_number_of_bins_and_cells_changes_nothing_of_that(
    max_bins, max_cells, ward_table, ward_labels
):
    y = ward_labels["three classes"]
    party = deal_rows(y, 3, random_state=0)
    parameters = {"max_bins": max_bins, "max_cells": max_cells, "n_estimators": 3}
    assert model_bytes(
        HorizontalForestClassifier, ward_table, y, party, **parameters
    ) == model_bytes(HorizontalForestClassifier, ward_table, y, **parameters)


@pytest.mark.parametrize("label", ["two classes", "amount"])
def test_the_order_of_the_rows_does_not_matter(label, ward_table, ward_labels):
    kind = HorizontalForestRegressor if label == "amount" else HorizontalForestClassifier
    y = ward_labels[label]
    party = deal_rows(y, 5, random_state=0)
    expected = model_bytes(kind, ward_table, y, party)
    orders = {
        "by party": np.argsort(party, kind="stable"),
        "by label": np.argsort(y, kind="stable"),
        "backwards": np.arange(len(y))[::-1],
        "shuffled": np.random.RandomState(0).permutation(len(y)),
    }
    for order in orders.values():
        X_there = ward_table.iloc[order].reset_index(drop=True)
        assert model_bytes(kind, X_there, y[order]) == expected
        assert model_bytes(kind, X_there, y[order], party[order]) == expected


def test_the_names_of_the_parties_do_not_matter(ward_table, ward_labels):
    y = ward_labels["two classes"]
    party = deal_rows(y, 3, random_state=0)
    named = np.array(["st-mary", "north", "élan"])[party]
    expected = model_bytes(HorizontalForestClassifier, ward_table, y, party)
    assert model_bytes(HorizontalForestClassifier, ward_table, y, named) == expected
    assert model_bytes(HorizontalForestClassifier, ward_table, y, list(named)) == expected
    assert model_bytes(HorizontalForestClassifier, ward_table, y, pd.Series(named)) == expected


@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
def test_the_number_of_threads_does_not_matter(n_jobs, ward_table, ward_labels):
    for label, kind in (
        ("three classes", HorizontalForestClassifier),
        ("amount", HorizontalForestRegressor),
        ("two classes", ExtraTreesClassifier),
        ("amount", ExtraTreesRegressor),
    ):
        y = ward_labels[label]
        party = deal_rows(y, 3, random_state=0)
        assert model_bytes(kind, ward_table, y, party, n_jobs=n_jobs) == model_bytes(
            kind, ward_table, y, n_jobs=1
        )


def test_a_seed_fixes_the_forest_and_another_seed_changes_it(ward_table, ward_labels):
    y = ward_labels["two classes"]
    first = model_bytes(HorizontalForestClassifier, ward_table, y, random_state=0)
    assert model_bytes(HorizontalForestClassifier, ward_table, y, random_state=0) == first
    assert model_bytes(HorizontalForestClassifier, ward_table, y, random_state=1) != first


def test_the_oracle_can_fail(ward_table, ward_labels):
    y = ward_labels["two classes"]
    other = y.copy()
    other[0] = "well" if y[0] == "ill" else "ill"
    party = deal_rows(y, 3, random_state=0)
    assert model_bytes(HorizontalForestClassifier, ward_table, other, party) != model_bytes(
        HorizontalForestClassifier, ward_table, y, party
    )


def test_the_saved_file_holds_those_bytes(ward_table, ward_labels, tmp_path):
    y = ward_labels["two classes"]
    party = deal_rows(y, 5, random_state=0)
    forest = HorizontalForestClassifier(**SMALL).fit(ward_table, y, party=party)
    forest.save(tmp_path / "by-parties")
    pooled = HorizontalForestClassifier(**SMALL).fit(ward_table, y)
    pooled.save(tmp_path / "pooled")
    assert (tmp_path / "by-parties").read_bytes() == (tmp_path / "pooled").read_bytes()
    assert (tmp_path / "pooled").read_bytes() == pooled.model_.to_bytes()
    assert load_model(tmp_path / "pooled").model_.to_bytes() == pooled.model_.to_bytes()


def test_the_out_of_bag_score_is_that_of_one_table(ward_table, ward_labels):
    for label, kind in (
        ("three classes", HorizontalForestClassifier),
        ("amount", HorizontalForestRegressor),
    ):
        y = ward_labels[label]
        by_parties, pooled = (
            kind(n_estimators=12, oob_score=True, random_state=0).fit(ward_table, y, party=party)
            for party in (deal_rows(y, 5, random_state=0), None)
        )
        assert by_parties.oob_score_ == pooled.oob_score_


# --- the kind of table does not matter -----------------------------------------------------------


def test_pandas_polars_and_arrow_give_the_same_forest(ward_table, ward_labels):
    y = ward_labels["two classes"]
    party = deal_rows(y, 3, random_state=0)
    plain = ward_table.astype({"ward": object, "grade": np.int64})
    plain["ward"] = plain["ward"].where(ward_table["ward"].notna(), None)
    expected = model_bytes(
        HorizontalForestClassifier, plain, y, categorical_features=["ward", "grade"]
    )
    for X in (plain, pl.from_pandas(plain), pa.Table.from_pandas(plain, preserve_index=False)):
        found = model_bytes(
            HorizontalForestClassifier, X, y, party, categorical_features=["ward", "grade"]
        )
        assert found == expected
    assert model_bytes(HorizontalForestClassifier, ward_table, y, party) == expected


def test_an_array_gives_the_forest_of_its_data_frame(ward_table, ward_labels):
    y = ward_labels["amount"]
    party = deal_rows(y, 3, random_state=0)
    X = ward_table[["age", "income", "visits", "grade"]].astype(np.float64).to_numpy()
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"])
    expected = model_bytes(HorizontalForestRegressor, frame, y, categorical_features=["x3"])
    for table in (X, np.asfortranarray(X), X.astype(np.float32).astype(np.float64), X.tolist()):
        found = model_bytes(HorizontalForestRegressor, table, y, party, categorical_features=[3])
        assert found == expected


# --- the way messages travel does not matter -----------------------------------------------------


def trained(X, y, party, *, task, through_codec=False, wrap=None, **changes):
    """Train by the protocol itself, with each party's object passed through `wrap`."""
    is_classifier = task == "classification"
    estimator = HorizontalForestClassifier() if is_classifier else HorizontalForestRegressor()
    given_input = fit_input(
        estimator,
        X,
        y,
        is_classifier=is_classifier,
        needs_ranges=False,
        schema=None,
        categorical_features="from_dtype",
    )
    tables = dealt_tables(given_input.table, party)
    wrap = wrap or (lambda make: make())
    parties = {name: wrap(lambda table=table: Party(table)) for name, table in tables.items()}
    channel = InProcess(parties, through_codec=through_codec)
    criterion = "gini" if is_classifier else "squared_error"
    wanted: dict[str, Any] = {"n_estimators": 5, "criterion": criterion, "seed": 3} | changes
    return horizontal_forest.train(
        channel, horizontal_forest.Settings(task=task, **wanted)
    ), channel


TASKS = {"two classes": "classification", "three classes": "classification", "amount": "regression"}


@pytest.mark.parametrize("max_features", ["sqrt", None])
@pytest.mark.parametrize("label", TASKS)
def test_the_codec_changes_nothing(label, max_features, ward_table, ward_labels):
    y = ward_labels[label]
    party = deal_rows(y, 3, random_state=0)
    facts = {"task": TASKS[label], "max_features": max_features}
    plain, plain_channel = trained(ward_table, y, party, **facts)
    coded, coded_channel = trained(ward_table, y, party, through_codec=True, **facts)
    pooled, _ = trained(ward_table, y, None, **facts)
    assert plain.model.to_bytes() == coded.model.to_bytes() == pooled.model.to_bytes()
    assert plain.quality == coded.quality
    for here, there in zip(plain_channel.rounds, coded_channel.rounds, strict=True):
        assert here.bytes_up == there.bytes_up
        assert here.bytes_down == there.bytes_down


@pytest.mark.parametrize("max_features", ["sqrt", None])
@pytest.mark.parametrize("label", TASKS)
def test_a_message_limit_cuts_levels_into_batches_and_changes_nothing(
    label, max_features, ward_table, ward_labels
):
    y = ward_labels[label]
    party = deal_rows(y, 3, random_state=0)
    facts = {"task": TASKS[label], "n_estimators": 150, "max_features": max_features}
    whole, channel = trained(ward_table, y, party, **facts)
    batched, more_rounds = trained(ward_table, y, party, message_limit=1 << 16, **facts)
    assert len(more_rounds.rounds) > len(channel.rounds)
    assert batched.model.to_bytes() == whole.model.to_bytes()


class Forgetful:
    """A party that starts afresh before some questions."""

    def __init__(self, make, times):
        self._make, self._times = make, times
        self._n_asked = 0
        self._party = make()

    def answer(self, ask):
        if self._n_asked in self._times:
            self._party = self._make()
        self._n_asked += 1
        return self._party.answer(ask)


class Repeating:
    """A party that is asked every question again, and now and then an older one."""

    def __init__(self, make):
        self._party = make()
        self._asked = []

    def answer(self, ask):
        once = codec.encode(self._party.answer(ask))
        twice = codec.encode(self._party.answer(ask))
        assert once == twice
        if self._asked:
            older = self._asked[len(self._asked) // 2]
            self._party.answer(older)
            assert codec.encode(self._party.answer(ask)) == once
        self._asked.append(ask)
        return self._party.answer(ask)


@pytest.mark.parametrize("label", TASKS)
def test_a_party_that_restarts_changes_nothing(label, ward_table, ward_labels):
    y = ward_labels[label]
    party = deal_rows(y, 3, random_state=0)
    facts = {"task": TASKS[label], "max_features": None}
    expected, channel = trained(ward_table, y, party, **facts)
    every_question = range(len(channel.rounds))
    for times in (every_question, {3}, {6, 7}, {len(channel.rounds) - 1}):
        found, _ = trained(
            ward_table, y, party, wrap=lambda make, times=times: Forgetful(make, times), **facts
        )
        assert found.model.to_bytes() == expected.model.to_bytes()
        assert found.quality == expected.quality


@pytest.mark.parametrize("label", TASKS)
def test_the_same_question_gets_the_same_reply(label, ward_table, ward_labels):
    y = ward_labels[label]
    party = deal_rows(y, 2, random_state=0)
    facts = {"task": TASKS[label], "max_features": None, "max_depth": 5}
    expected, _ = trained(ward_table, y, party, **facts)
    found, _ = trained(ward_table, y, party, wrap=Repeating, **facts)
    assert found.model.to_bytes() == expected.model.to_bytes()


def test_a_party_answers_two_jobs_in_turn(ward_table, ward_labels):
    """A question says which job it belongs to; a cache of another job is not used for it."""
    y = ward_labels["two classes"]
    asked: dict[int, list[LevelAsk]] = {}
    replies: dict[int, list[bytes]] = {}

    class Noting:
        def __init__(self, make, seed):
            self._party, self._seed = make(), seed
            asked[seed], replies[seed] = [], []

        def answer(self, ask):
            reply = self._party.answer(ask)
            if isinstance(ask, LevelAsk):
                asked[self._seed].append(ask)
                replies[self._seed].append(codec.encode(reply))
            return reply

    makes = []
    for seed in (1, 2):

        def noting(make, seed=seed):
            makes.append(make)
            return Noting(make, seed)

        trained(ward_table, y, None, task="classification", seed=seed, max_depth=4, wrap=noting)
    party = makes[0]()
    for step in range(3):
        for seed in (1, 2):
            assert codec.encode(party.answer(asked[seed][step])) == replies[seed][step]


# --- odd tables ----------------------------------------------------------------------------------

NUMBERS = st.sampled_from(
    [np.nan, 0.0, -0.0, 1.0, -1.0, 2.0, 0.1, 1e-45, -1e-45, 3e38, -3e38, 16777217.0, 1e-30]
)


@st.composite
def odd_tables(draw):
    """Draw a few rows of every kind of column, their labels and their parties."""
    n = draw(st.integers(2, 24))
    n_parties = draw(st.sampled_from([1, 2, 3, 5, 10]))

    def cells(strategy):
        return draw(st.lists(strategy, min_size=n, max_size=n))

    X = pd.DataFrame(
        {
            "number": cells(NUMBERS),
            "float": cells(st.floats(width=32, allow_nan=True, allow_infinity=False)),
            "flag": cells(st.booleans()),
            "kind": cells(st.sampled_from(["a", "b", "c", "", None])),
            "constant": cells(st.just(5)),
            "gap": cells(st.just(np.nan)),
        }
    )
    repeats = draw(st.integers(0, 3))
    X = pd.concat([X] * (repeats + 1), ignore_index=True)
    party = draw(st.lists(st.integers(0, n_parties - 1), min_size=len(X), max_size=len(X)))
    return X, np.array(party), n


@settings(max_examples=60)
@given(
    table=odd_tables(),
    n_classes=st.integers(2, 4),
    data=st.data(),
    binning=st.sampled_from(["quantiles", "ranges"]),
    max_features=st.sampled_from([None, "sqrt", 3]),
)
def test_parties_grow_the_forest_of_one_odd_table(table, n_classes, data, binning, max_features):
    X, party, n = table
    labels = data.draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))
    y = np.array(labels * (len(X) // n))
    y[:2] = 0, 1
    parameters = {"n_estimators": 3, "binning": binning, "max_features": max_features}
    if (X["kind"].isna() | (X["kind"] == "")).all():
        X = X.drop(columns="kind")
    pooled = HorizontalForestClassifier(**(SMALL | parameters)).fit(X, y)
    found = HorizontalForestClassifier(**(SMALL | parameters)).fit(X, y, party=party)
    assert found.model_.to_bytes() == pooled.model_.to_bytes()
    assert np.array_equal(found.predict_proba(X), pooled.predict_proba(X))


@settings(max_examples=40)
@given(
    table=odd_tables(),
    data=st.data(),
    binning=st.sampled_from(["quantiles", "ranges"]),
    bootstrap=st.booleans(),
)
def test_parties_grow_the_forest_of_one_odd_table_of_amounts(table, data, binning, bootstrap):
    X, party, n = table
    amounts = st.sampled_from([0.0, -1.0, 1e-300, 1e9, 1e9 + 1, -1e300, 3.25])
    y = np.array(data.draw(st.lists(amounts, min_size=n, max_size=n)) * (len(X) // n))
    parameters = {"n_estimators": 3, "binning": binning, "bootstrap": bootstrap}
    pooled = HorizontalForestRegressor(**(SMALL | parameters)).fit(X, y)
    found = HorizontalForestRegressor(**(SMALL | parameters)).fit(X, y, party=party)
    assert found.model_.to_bytes() == pooled.model_.to_bytes()
    assert np.isfinite(found.predict(X)).all()


# --- large, wide and many ------------------------------------------------------------------------


def test_more_rows_than_a_block_holds():
    """65,536 rows lie together; these parties have several blocks, part of one, and one row."""
    random = np.random.RandomState(0)
    n = 70_000
    X = random.standard_normal((n, 3)).astype(np.float32)
    X[random.random_sample(X.shape) < 0.05] = np.nan
    y = (np.nan_to_num(X[:, 0]) + random.standard_normal(n) > 0).astype(int)
    parameters = {"n_estimators": 2, "max_depth": 5}
    pooled = model_bytes(HorizontalForestClassifier, X, y, **parameters)
    for sizes in ([69_000, 999, 1], [1, 1, 1]):
        party = deal_rows(y, 3, sizes=sizes, random_state=0)
        assert model_bytes(HorizontalForestClassifier, X, y, party, **parameters) == pooled


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n", [65_535, 65_536])
def test_counts_at_the_limit_of_16_bits(n, n_classes, monkeypatch):
    """Nearly all rows are of one class in one cell, at a root that just fits or just does not."""
    random = np.random.RandomState(0)
    X = np.zeros((n, 3), np.float32)
    X[:9, 0], X[5:200, 1] = 1.0, random.standard_normal(195)
    y = np.zeros(n, int)
    y[:300] = random.randint(0, n_classes, 300)
    party = deal_rows(y, 3, sizes=[n - 2, 1, 1], random_state=0)
    how = {"n_estimators": 2, "max_depth": 4, "bootstrap": False, "max_features": None}
    found = {
        model_bytes(HorizontalForestClassifier, X, y, dealt_to, secure_sum=masked, **how)
        for dealt_to, masked in ((None, False), (party, False), (party, True))
    }
    monkeypatch.setattr(horizontal_forest, "_NARROW_BITS", 0)
    wide = model_bytes(HorizontalForestClassifier, X, y, **how)
    assert found == {wide}


@pytest.mark.parametrize("secure_sum", [False, True])
def test_more_columns_than_a_byte_can_name(secure_sum):
    random = np.random.RandomState(0)
    X = random.randint(0, 4, (150, 300)).astype(float)
    y = (X[:, 290] > 1) ^ (random.random_sample(150) < 0.1)
    party = deal_rows(y, 3, random_state=0)
    pooled = model_bytes(HorizontalForestClassifier, X, y)
    found = model_bytes(HorizontalForestClassifier, X, y, party, secure_sum=secure_sum)
    assert found == pooled


@pytest.mark.parametrize("secure_sum", [False, True])
def test_more_classes_than_a_byte_can_name(secure_sum):
    random = np.random.RandomState(0)
    y = np.arange(900) % 300
    X = np.c_[y + 0.3 * random.standard_normal(900), random.standard_normal(900)]
    party = deal_rows(y, 3, skew=5.0, random_state=0)
    parameters = {"n_estimators": 2, "max_features": None, "max_depth": 9}
    pooled = HorizontalForestClassifier(**(SMALL | parameters)).fit(X, y)
    parameters["secure_sum"] = secure_sum
    found = model_bytes(HorizontalForestClassifier, X, y, party, **parameters)
    assert found == pooled.model_.to_bytes()
    assert pooled.predict_proba(X).shape == (900, 300)
    assert pooled.score(X, y) > 0.2


def test_more_categories_than_bins():
    random = np.random.RandomState(0)
    codes = random.zipf(1.2, 800) % 400
    X = pd.DataFrame({"code": pd.Categorical([f"c{code}" for code in codes])})
    y = codes % 3
    for max_bins in (5, 255):
        party = deal_rows(y, 3, random_state=0)
        assert model_bytes(
            HorizontalForestClassifier, X, y, party, max_bins=max_bins
        ) == model_bytes(HorizontalForestClassifier, X, y, max_bins=max_bins)


def test_columns_that_cannot_split_beside_one_that_can():
    """All features in every node, so that siblings are derived; their only slot may be constant."""
    random = np.random.RandomState(0)
    X = np.ones((400, 6))
    X[:, 3] = random.randint(0, 2, 400)
    y = random.randint(0, 2, 400)
    party = deal_rows(y, 3, random_state=0)
    for kind in (HorizontalForestClassifier, HorizontalForestRegressor):
        for seed in range(5):
            parameters = {"max_features": None, "random_state": seed, "n_estimators": 20}
            assert model_bytes(kind, X, y, party, **parameters) == model_bytes(
                kind, X, y, **parameters
            )


def test_two_files_of_the_same_rows_give_the_forest_of_one(ward_table, ward_labels):
    """Keys made by each party from its own rows: the rows differ, so the keys do too."""
    y = ward_labels["two classes"]
    X = ward_table.drop_duplicates()
    y = y[X.index]
    X = X.reset_index(drop=True)
    half = np.arange(len(y)) < 90
    whole = fit_input(
        HorizontalForestClassifier(),
        X,
        y,
        is_classifier=True,
        needs_ranges=False,
        schema=None,
        categorical_features="from_dtype",
    ).table

    def own_table(rows):
        assert isinstance(whole.columns, VectorColumns)
        columns = VectorColumns(tuple(vector[rows] for vector in whole.columns.vectors))
        return replace(whole, columns=columns, target=whole.target[rows])

    settings_ = horizontal_forest.Settings(task="classification", n_estimators=5, seed=1)
    apart = InProcess({"a": Party(own_table(half)), "b": Party(own_table(~half))})
    together = InProcess({"all": Party(whole)})
    assert (
        horizontal_forest.train(apart, settings_).model.to_bytes()
        == horizontal_forest.train(together, settings_).model.to_bytes()
    )
