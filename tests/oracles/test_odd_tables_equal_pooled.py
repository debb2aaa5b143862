"""N parties grow the forest of one table, also of odd, large and wide tables."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.pooled_forests import (  # type: ignore[import-not-found]
    SMALL,
    model_bytes,
)
from spinney import HorizontalForestClassifier, HorizontalForestRegressor, deal_rows
from spinney.estimators.inputs import fit_input
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.party import Party
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.transport.in_process import InProcess

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


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
    monkeypatch.setattr("spinney.protocols.horizontal_forest.messages._NARROW_BITS", 0)
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
    """They are declared: a label's values are not read as classes if there are so many."""
    random = np.random.RandomState(0)
    y = np.arange(900) % 300
    X = np.c_[y + 0.3 * random.standard_normal(900), random.standard_normal(900)]
    party = deal_rows(y, 3, skew=5.0, random_state=0)
    columns = (Column("x0", "number"), Column("x1", "number"))
    schema = Schema(columns, Label("y", "class", classes=tuple(range(300))))
    parameters = {"n_estimators": 2, "max_features": None, "max_depth": 9, "schema": schema}
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
