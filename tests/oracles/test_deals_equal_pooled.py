"""N parties grow the forest of one table, bit for bit, however its rows are dealt and read."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from oracles.pooled_forests import (  # type: ignore[import-not-found]
    SMALL,
    model_bytes,
)
from spinney import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    deal_rows,
    load_model,
)

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

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
    forest.save(tmp_path / "by-parties", exact=True)
    pooled = HorizontalForestClassifier(**SMALL).fit(ward_table, y)
    pooled.save(tmp_path / "pooled")
    assert (tmp_path / "by-parties").read_bytes() == (tmp_path / "pooled").read_bytes()
    assert (tmp_path / "pooled").read_bytes() == pooled.model_.to_bytes()
    assert load_model(tmp_path / "pooled").model_.to_bytes() == pooled.model_.to_bytes()


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
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
