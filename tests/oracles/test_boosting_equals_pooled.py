"""N parties boost the trees of one table, bit for bit, however its rows are dealt."""

from typing import Any

import numpy as np
import pytest

from oracles.test_deals_equal_pooled import DEALS  # type: ignore[import-not-found]
from spinney import (
    HorizontalBoostingClassifier,
    HorizontalBoostingRegressor,
    deal_rows,
    load_model,
)

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

SMALL: dict[str, Any] = {
    "max_iter": 6,
    "batch_trees": 3,
    "max_depth": 4,
    "min_samples_leaf": 3,
    "random_state": 3,
}
SEQUENTIAL = {"batch_trees": 1, "learning_rate": 0.1, "subsample": 1.0, "colsample_bytree": 1.0}
JOBS: dict[str, tuple[Any, dict[str, Any]]] = {
    "two classes": (HorizontalBoostingClassifier, {}),
    "two classes, balanced": (HorizontalBoostingClassifier, {"class_weight": "balanced"}),
    "two classes, in sequence": (HorizontalBoostingClassifier, SEQUENTIAL),
    "two classes, constrained": (
        HorizontalBoostingClassifier,
        {"monotonic_cst": {"age": 1}, "interaction_cst": [["age", "ward"]], "max_iter": 3},
    ),
    "three classes, stopping": (
        HorizontalBoostingClassifier,
        {"early_stopping": True, "validation_fraction": 0.3, "n_iter_no_change": 1},
    ),
    "three classes": (HorizontalBoostingClassifier, {"max_features": 0.5}),
    "amount": (HorizontalBoostingRegressor, {}),
    "amount, in sequence": (HorizontalBoostingRegressor, SEQUENTIAL | {"l2_regularization": 1.0}),
}


def model_bytes(kind, X, y, party=None, sample_weight=None, **parameters):
    model = kind(**(SMALL | parameters)).fit(X, y, party=party, sample_weight=sample_weight)
    return model.model_.to_bytes()


POOLED: dict[str, bytes] = {}  # each job's model of one table, trained once


def pooled(job, ward_table, ward_labels):
    if job not in POOLED:
        kind, parameters = JOBS[job]
        POOLED[job] = model_bytes(kind, ward_table, label_of(job, ward_labels), **parameters)
    return POOLED[job]


def label_of(job, ward_labels):
    return ward_labels[job.split(",", maxsplit=1)[0]]


@pytest.mark.parametrize("deal", DEALS)
@pytest.mark.parametrize("job", JOBS)
def test_parties_boost_the_trees_of_one_table(job, deal, ward_table, ward_labels):
    kind, parameters = JOBS[job]
    y = label_of(job, ward_labels)
    party = DEALS[deal](ward_table, y)
    found = model_bytes(kind, ward_table, y, party, **parameters)
    assert found == pooled(job, ward_table, ward_labels)


@pytest.mark.parametrize("deal", ["two alike", "ten skewed", "one row", "lacking a category"])
@pytest.mark.parametrize("job", ["two classes", "three classes", "amount"])
def test_masks_change_nothing(job, deal, ward_table, ward_labels):
    kind, parameters = JOBS[job]
    y = label_of(job, ward_labels)
    party = DEALS[deal](ward_table, y)
    found = model_bytes(kind, ward_table, y, party, secure_sum=True, **parameters)
    assert found == pooled(job, ward_table, ward_labels)


@pytest.mark.parametrize("label", ["two classes", "three classes", "amount"])
def test_rows_with_weights_may_be_dealt_in_any_way(label, ward_table, ward_labels):
    kind, y = JOBS[label][0], ward_labels[label]
    weight = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], len(y))
    expected = model_bytes(kind, ward_table, y, sample_weight=weight)
    assert expected != model_bytes(kind, ward_table, y)
    order = np.argsort(weight, kind="stable")
    for masked, deal in ((False, "ten skewed"), (True, "three alike")):
        party = np.asarray(DEALS[deal](ward_table, y))
        found = model_bytes(
            kind,
            ward_table.iloc[order].reset_index(drop=True),
            y[order],
            party[order],
            weight[order],
            secure_sum=masked,
        )
        assert found == expected


@pytest.mark.parametrize("label", ["two classes", "amount"])
def test_the_order_of_the_rows_does_not_matter(label, ward_table, ward_labels):
    kind = JOBS[label][0]
    y = ward_labels[label]
    expected = pooled(label, ward_table, ward_labels)
    for order in (np.argsort(y, kind="stable"), np.arange(len(y))[::-1]):
        X_there = ward_table.iloc[order].reset_index(drop=True)
        assert model_bytes(kind, X_there, y[order]) == expected
        party = deal_rows(y[order], 5, random_state=0)
        assert model_bytes(kind, X_there, y[order], party) == expected


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("limit", [1 << 16, 256 << 20])
def test_threads_and_message_sizes_do_not_matter(n_jobs, limit, ward_table, ward_labels):
    kind, parameters = JOBS["three classes"]
    y = ward_labels["three classes"]
    found = model_bytes(kind, ward_table, y, n_jobs=n_jobs, message_limit=limit, **parameters)
    assert found == pooled("three classes", ward_table, ward_labels)


@pytest.mark.parametrize("job", JOBS)
def test_a_saved_model_predicts_the_same(job, tmp_path, ward_table, ward_labels):
    kind, parameters = JOBS[job]
    model = kind(**SMALL | parameters).fit(ward_table, label_of(job, ward_labels))
    model.save(tmp_path / "model.spinney")
    again = load_model(tmp_path / "model.spinney")
    assert np.array_equal(again.predict(ward_table), model.predict(ward_table))
