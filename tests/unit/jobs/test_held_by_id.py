"""Which rows a private job holds back: drawn by each row alone, so that no other row moves."""

import numpy as np
import pytest

from spinney import HorizontalForestClassifier
from spinney.estimators.inputs import fit_input
from spinney.jobs.file import SimulationConfig
from spinney.jobs.rows import held_by_id, hold_back
from spinney.tables.records import plain_ids


def table_of(X, y):
    given = fit_input(
        HorizontalForestClassifier(), X, y, is_classifier=True, needs_ranges=False, schema=None,
        categorical_features="from_dtype",
    )  # fmt: skip
    return given.table


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
@pytest.mark.parametrize("seed", range(20))
def test_a_record_that_is_removed_moves_no_other_row(seed):
    """Rows that are alike were numbered, so the last of them took the place of the first."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 3, (200, 2)).astype(float)  # most rows are alike
    y = np.arange(200) % 2
    drawn = SimulationConfig(held_out=0.2, random_state=seed)
    whole = held_by_id(table_of(X, y), drawn, 0)
    left = np.delete(np.arange(200), seed)
    without = held_by_id(table_of(X[left], y[left]), drawn, 0)
    assert np.array_equal(whole[left], without)
    assert np.unique(plain_ids(table_of(X, y))).size == 9


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
def test_about_the_share_is_held_back_and_a_label_changes_nothing():
    X = np.arange(5000.0)[:, None]
    y = np.arange(5000) % 2
    drawn = SimulationConfig(held_out=0.2, random_state=3)
    held = held_by_id(table_of(X, y), drawn, 1)
    assert 900 < held.sum() < 1100
    assert np.array_equal(held, held_by_id(table_of(X, 1 - y), drawn, 1))
    rows = hold_back(table_of(X, y), drawn, 1, is_private=True)  # as a simulation does
    assert np.array_equal(np.asarray(rows.held_out.rows), np.flatnonzero(held))
