"""A forest over N parties' columns is the forest of all columns in one place, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from spinney import (
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    VerticalForestClassifier,
    VerticalForestRegressor,
    deal_columns,
)
from spinney.protocols.settings import ForestSettings

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

TASKS = ["two classes", "three classes", "amount"]
SMALL = {"n_estimators": 4, "random_state": 3}


def face(task, **settings):
    kind = VerticalForestRegressor if task == "amount" else VerticalForestClassifier
    return kind(**(SMALL | settings))


def pooled_and_dealt(table, y, task, n_parties, **settings):
    columns = deal_columns(table, n_parties, random_state=n_parties)
    parties = {f"party_{party}": columns.get(f"party_{party}", []) for party in range(n_parties)}
    pooled = face(task, **settings).fit(table, y)
    label_party = f"party_{n_parties - 1}"
    dealt = face(task, column_party=parties, label_party=label_party, **settings).fit(table, y)
    return pooled, dealt


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("n_parties", range(1, 8))
def test_parties_grow_the_forest_of_pooled_columns(task, n_parties, ward_table, ward_labels):
    pooled, dealt = pooled_and_dealt(ward_table, ward_labels[task], task, n_parties)
    assert dealt.model_.to_bytes() == pooled.model_.to_bytes()
    assert len(dealt.partial_models_) == n_parties


@pytest.mark.parametrize("task", TASKS)
def test_eight_parties_of_which_one_holds_labels_only(task, ward_table, ward_labels):
    y = ward_labels[task]
    parties = {name: [name] for name in ward_table.columns} | {"registry": []}
    pooled = face(task).fit(ward_table, y)
    dealt = face(task, column_party=parties, label_party="registry").fit(ward_table, y)
    assert len(dealt.partial_models_) == 8
    assert dealt.model_.to_bytes() == pooled.model_.to_bytes()


SETTINGS = [
    {"max_features": None},
    {"max_features": 1, "max_depth": 5},
    {"bootstrap": False, "min_samples_leaf": 5},
    {"max_bins": 6, "max_cells": 4},
    {"binning": "ranges", "max_bins": 16},
    {"min_impurity_decrease": 0.01},
    {"min_weight_fraction_leaf": 0.1},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("task", TASKS)
def test_it_holds_whatever_the_settings(task, settings, ward_table, ward_labels):
    pooled, dealt = pooled_and_dealt(ward_table, ward_labels[task], task, 3, **settings)
    assert dealt.model_.to_bytes() == pooled.model_.to_bytes()


@pytest.mark.parametrize("settings", [{"criterion": "entropy"}, {"class_weight": "balanced"}])
def test_it_holds_for_every_criterion(settings, ward_table, ward_labels):
    y = ward_labels["three classes"]
    pooled, dealt = pooled_and_dealt(ward_table, y, "three classes", 3, **settings)
    assert dealt.model_.to_bytes() == pooled.model_.to_bytes()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("max_features", [3, None])
def test_without_a_bootstrap_it_is_the_horizontal_forest(
    task, max_features, ward_table, ward_labels, monkeypatch
):
    """Samples have another key there, and nodes draw on; the rest is the same arithmetic."""
    monkeypatch.setattr(ForestSettings, "goes_on", False)
    y = ward_labels[task]
    settings = SMALL | {"bootstrap": False, "max_features": max_features}
    kind = HorizontalForestRegressor if task == "amount" else HorizontalForestClassifier
    rows = kind(**settings).fit(ward_table, y)
    _, columns = pooled_and_dealt(ward_table, y, task, 3, **settings)
    renamed = replace(rows.model_, protocol="vertical_forest")
    assert columns.model_.to_bytes() == renamed.to_bytes()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("intersect_at", ["label_party", "coordinator"])
def test_parties_predict_what_the_joined_forest_predicts(
    task, intersect_at, ward_table, ward_labels
):
    _, dealt = pooled_and_dealt(ward_table, ward_labels[task], task, 4, intersect_at=intersect_at)
    whole = face(task)
    whole.fit(ward_table, ward_labels[task])
    whole._joined = dealt.model_  # a forest in one place, as if it had been loaded
    for found, expected in [(dealt._predicted(ward_table), whole._predicted(ward_table))]:
        assert np.array_equal(found, expected)


# --- encrypted labels ----------------------------------------------------------------------------

ENCRYPTED = {"labels": "encrypted", "n_estimators": 2, "max_depth": 3}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("scheme", ["okamoto-uchiyama", "paillier"])
def test_encrypted_labels_grow_the_same_forest(task, scheme, ward_table, ward_labels):
    table, y = ward_table[:90], ward_labels[task][:90]
    pooled, dealt = pooled_and_dealt(table, y, task, 3, scheme=scheme, **ENCRYPTED)
    assert dealt.model_.to_bytes() == pooled.model_.to_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("n_parties", range(1, 8))
def test_encrypted_labels_over_any_number_of_parties(task, n_parties, ward_table, ward_labels):
    y = ward_labels[task]
    pooled, dealt = pooled_and_dealt(ward_table, y, task, n_parties, **ENCRYPTED)
    assert dealt.model_.to_bytes() == pooled.model_.to_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_encrypted_labels_over_eight_parties_of_which_one_holds_labels_only(
    task, ward_table, ward_labels
):
    y = ward_labels[task]
    parties = {name: [name] for name in ward_table.columns} | {"registry": []}
    pooled = face(task, n_estimators=2, max_depth=3).fit(ward_table, y)
    dealt = face(task, column_party=parties, label_party="registry", **ENCRYPTED)
    assert len(dealt.fit(ward_table, y).partial_models_) == 8
    assert dealt.model_.to_bytes() == pooled.model_.to_bytes()


def test_encrypted_labels_of_many_classes_need_several_ciphertexts_a_row(ward_table):
    """With 90 classes the fields of a row do not fit one number of 680 bits."""
    y = np.arange(len(ward_table)) % 90
    settings = ENCRYPTED | {"max_depth": 2, "n_estimators": 1}
    pooled, dealt = pooled_and_dealt(
        ward_table, y, "three classes", 2, scheme="okamoto-uchiyama", **settings
    )
    assert dealt.model_.to_bytes() == pooled.model_.to_bytes()


def test_a_label_party_without_columns_chooses_among_the_others(ward_table, ward_labels):
    y = ward_labels["three classes"][:90]
    table = ward_table[:90]
    parties = {"ward": list(ward_table.columns), "registry": []}
    pooled = face("three classes", n_estimators=2, max_depth=3).fit(table, y)
    dealt = face("three classes", column_party=parties, label_party="registry", **ENCRYPTED).fit(
        table, y
    )
    assert dealt.model_.to_bytes() == pooled.model_.to_bytes()
