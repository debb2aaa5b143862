"""A private model fitted at home: calibrated by a party's own rows, at no cost, and kept there."""

import numpy as np
import pytest

from spinney import PrivateBoostingRegressor, PrivateForestClassifier, deal_rows
from spinney.errors import SettingError
from spinney.tables.schema import Column, Label, Schema

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
PUBLIC = Schema(
    tuple(Column(name, "number", (0, 1)) for name in ("a", "b", "c")),
    Label("y", "class", (0, 1)),
)


@pytest.fixture(scope="module")
def rows():
    random = np.random.RandomState(0)
    X = random.uniform(size=(4000, 3))
    return X, (X[:, 0] + 0.5 * X[:, 1] + random.normal(0, 0.15, 4000) > 1).astype(int)


@pytest.fixture(scope="module")
def joint(rows):
    X, y = rows
    site = deal_rows(y[:2000], n_parties=2, random_state=0)
    forest = PrivateForestClassifier(4.0, n_rows=2000, schema=PUBLIC, random_state=0)
    return forest.fit(X[:2000], y[:2000], party=site)


def calibration(shares, y):
    """Return the mean distance between score and share of the class, over ten groups of rows."""
    parts = np.array_split(np.argsort(shares, kind="stable"), 10)
    return np.mean([abs(shares[part].mean() - y[part].mean()) for part in parts])


def test_a_party_calibrates_a_private_forest_at_no_cost(rows, joint):
    X, y = rows
    spent = [ledger.anchor() for ledger in joint.ledger_.values()]
    own = joint.for_party("0", X[2000:2500], y[2000:2500])
    before, after = joint.predict_proba(X[2500:])[:, 1], own.predict_proba(X[2500:])[:, 1]
    assert calibration(after, y[2500:]) < 0.6 * calibration(before, y[2500:])
    assert own.score(X[2500:], y[2500:]) >= joint.score(X[2500:], y[2500:]) - 0.01
    assert [ledger.anchor() for ledger in joint.ledger_.values()] == spent
    with pytest.raises(SettingError, match="A model that a party fitted at home stays there"):
        own.save("nowhere")


def test_a_private_model_needs_rows_that_were_held_back(joint):
    with pytest.raises(SettingError, match=r"with noise, .* give them: for_party\(name, X, y\)"):
        joint.for_party("0")


def test_numbers_have_nothing_to_calibrate(rows):
    X, _ = rows
    model = PrivateBoostingRegressor(1.0, n_passes=1).fit(X[:200], X[:200, 0])
    with pytest.raises(SettingError, match="a regressor has none"):
        model.for_party("all", X, X[:, 0])
