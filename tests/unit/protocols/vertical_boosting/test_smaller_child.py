"""With encrypted labels, only the lighter of two siblings is added up from rows."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification

from spinney import HorizontalBoostingClassifier, VerticalBoostingClassifier
from spinney.privacy.residues import Residues

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

N, DEPTH = 400, 3
TREES = {
    "max_iter": 2, "batch_trees": 1, "max_depth": DEPTH, "subsample": 1.0, "colsample_bytree": 1.0,
    "min_samples_leaf": 5, "max_cells": 4, "random_state": 0,
}  # fmt: skip


@pytest.fixture
def added(monkeypatch):
    """How many ciphertexts went into each list of sums."""
    found, honest = [], Residues.sums

    def counted(self, ciphertexts, groups):
        groups = list(groups)
        found.append(sum(map(len, groups)))
        return honest(self, ciphertexts, groups)

    monkeypatch.setattr(Residues, "sums", counted)
    return found


def test_at_most_half_of_the_rows_are_added_up_below_the_roots(added):
    X, y = make_classification(N, 6, random_state=0)
    X[::9, 1] = np.nan
    columns = {"bank": [0, 1, 2], "shop": [3, 4, 5]}
    model = VerticalBoostingClassifier(
        column_party=columns, label_party="bank", labels="encrypted", **TREES
    ).fit(X, y)
    over_rows = HorizontalBoostingClassifier(**TREES).fit(X, y)
    found = replace(model.model_, protocol="horizontal_boosting").to_bytes()
    assert found == over_rows.model_.to_bytes()
    assert len(added) == 2 * DEPTH
    for level, n in enumerate(added):
        if level % DEPTH == 0:
            assert n == 3 * N  # every row in each of the shop's columns
        else:  # the column that split a node has finer cells below it, and is added up again
            assert n <= 3 * N // 2 + N // 2
