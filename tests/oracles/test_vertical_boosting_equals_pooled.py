"""Boosting over N parties' columns gives the trees of all columns in one place, bit for bit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spinney import (
    HorizontalBoostingClassifier,
    HorizontalBoostingRegressor,
    VerticalBoostingClassifier,
    VerticalBoostingRegressor,
    deal_columns,
    load_model,
)

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

SMALL: dict[str, Any] = {
    "max_iter": 4,
    "batch_trees": 2,
    "max_depth": 3,
    "min_samples_leaf": 3,
    "random_state": 3,
}
SEQUENTIAL = {"batch_trees": 1, "learning_rate": 0.1, "subsample": 1.0, "colsample_bytree": 1.0}
JOBS: dict[str, dict[str, Any]] = {
    "two classes": {},
    "two classes, balanced": {"class_weight": "balanced"},
    "two classes, in sequence": SEQUENTIAL,
    "two classes, constrained": {"monotonic_cst": {"age": 1}},
    "two classes, few bins": {"max_bins": 6, "max_cells": 4},
    "three classes": {"max_features": 0.5},
    "three classes, stopping": {
        "early_stopping": True, "validation_fraction": 0.3, "n_iter_no_change": 1, "tol": 0.05,
    },
    "amount": {},
    "amount, in sequence": SEQUENTIAL | {"l2_regularization": 1.0, "binning": "ranges"},
    "amount, as counts": {"loss": "poisson"},
}  # fmt: skip
POOLED: dict[str, Any] = {}  # each job's model over rows at one party, trained once


def label_of(job, ward_labels):
    y = ward_labels[job.split(",", maxsplit=1)[0]]
    return np.abs(y) if job.endswith("counts") else y


def pooled(job, table, ward_labels):
    if job not in POOLED:
        kind = HorizontalBoostingClassifier
        if job.startswith("amount"):
            kind = HorizontalBoostingRegressor
        POOLED[job] = kind(**(SMALL | JOBS[job])).fit(table, label_of(job, ward_labels))
    return POOLED[job]


def dealt(job, table, ward_labels, n_parties, **more):
    columns = deal_columns(table, n_parties, random_state=n_parties)
    parties = {f"party_{party}": columns.get(f"party_{party}", []) for party in range(n_parties)}
    kind = VerticalBoostingRegressor if job.startswith("amount") else VerticalBoostingClassifier
    settings = SMALL | JOBS[job] | more
    label_party = f"party_{n_parties - 1}"
    model = kind(column_party=parties, label_party=label_party, **settings)
    return model.fit(table, label_of(job, ward_labels))


def as_over_rows(model):
    return replace(model.model_, protocol="horizontal_boosting").to_bytes()


@pytest.mark.parametrize("job", JOBS)
def test_parties_boost_the_trees_of_one_party_with_all_columns(job, ward_table, ward_labels):
    over_rows = pooled(job, ward_table, ward_labels)
    n_parties = 1 if job == "amount" else 3
    found = dealt(job, ward_table, ward_labels, n_parties)
    assert as_over_rows(found) == over_rows.model_.to_bytes()
    assert np.array_equal(found.train_score_, over_rows.train_score_)
    assert np.array_equal(found.validation_score_, over_rows.validation_score_)
    assert found.n_iter_ == over_rows.n_iter_


ENCRYPTED = ["two classes, constrained", "three classes, stopping", "amount"]


@pytest.mark.parametrize("job", ENCRYPTED)
def test_encrypted_labels_give_the_same_trees(job, ward_table, ward_labels):
    over_rows = pooled(job, ward_table, ward_labels)
    found = dealt(job, ward_table, ward_labels, 2, labels="encrypted")
    assert as_over_rows(found) == over_rows.model_.to_bytes()
    assert found.report_.label_leakage is not None


@pytest.mark.slow  # a minute of encryption: every job, more parties, and the other scheme
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("n_parties", [1, 2, 5, 7])
def test_encrypted_labels_over_any_number_of_parties(job, n_parties, ward_table, ward_labels):
    over_rows = pooled(job, ward_table, ward_labels)
    scheme = "paillier" if n_parties == 5 else "auto"
    found = dealt(job, ward_table, ward_labels, n_parties, labels="encrypted", scheme=scheme)
    assert as_over_rows(found) == over_rows.model_.to_bytes()


def test_a_party_may_hold_labels_only(ward_table, ward_labels):
    job, y = "two classes", ward_labels["two classes"]
    parties = {name: [name] for name in ward_table.columns} | {"registry": []}
    model = VerticalBoostingClassifier(column_party=parties, label_party="registry", **SMALL)
    expected = pooled(job, ward_table, ward_labels).model_.to_bytes()
    assert as_over_rows(model.fit(ward_table, y)) == expected


@pytest.mark.parametrize("job", ["two classes", "three classes", "amount, as counts"])
@pytest.mark.parametrize("intersect_at", ["label_party", "coordinator"])
def test_parties_predict_in_one_round_what_the_joined_model_predicts(
    job, intersect_at, ward_table, ward_labels, tmp_path
):
    over_rows = pooled(job, ward_table, ward_labels)
    found = dealt(job, ward_table, ward_labels, 3, intersect_at=intersect_at)
    expected = over_rows._predicted(ward_table)
    assert np.array_equal(found._predicted(ward_table), expected)
    found.save(tmp_path / "model.spinney", exact=True)
    loaded = load_model(tmp_path / "model.spinney")
    assert type(loaded) is type(found)
    assert np.array_equal(loaded._predicted(ward_table), expected)
