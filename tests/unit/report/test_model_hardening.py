"""A model before it leaves: small leaves closed, numbers rounded, no exact counts."""

import numpy as np
import pytest

from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from spinney.errors import SettingError
from spinney.report.hardening import Hardening, hardened
from spinney.tables.frames import columns_of

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


@pytest.fixture(params=["two classes", "amount"])
def model(request, ward_table, ward_labels):
    face = HorizontalForestRegressor if request.param == "amount" else HorizontalForestClassifier
    return face(4, random_state=0).fit(ward_table, ward_labels[request.param]).model_


def rows_of(model):
    moments = model.forest.moments
    return moments[:, 0] if model.schema.label.kind == "number" else moments.sum(axis=1)


def test_nothing_asked_is_nothing_done(model):
    same, done = hardened(model, Hardening())
    assert same is model
    assert done == ()


def test_no_leaf_is_smaller_than_allowed(model, ward_table):
    changed, (told,) = hardened(model, Hardening(smallest_leaf=20))
    leaves = changed.forest.feature < 0
    assert rows_of(model)[model.forest.feature < 0].min() < 20
    assert rows_of(changed)[leaves].min() >= 20
    assert told.endswith("splits with fewer than 20 rows on a side closed")
    columns = columns_of(ward_table, model.schema)
    found = changed.predict(columns)
    assert found.shape == model.predict(columns).shape
    assert np.corrcoef(found[:, -1], model.predict(columns)[:, -1])[0, 1] > 0.6


def test_thresholds_and_predictions_are_rounded(model):
    changed, done = hardened(model, Hardening(threshold_digits=2, value_digits=2))
    for threshold in changed.forest.threshold[changed.forest.feature >= 0]:
        assert float(f"{threshold:.1e}") == pytest.approx(float(threshold), rel=1e-6)
    assert done == (
        "thresholds rounded to 2 significant digits",
        "predictions of leaves rounded to 2 digits",
    )
    if model.schema.label.kind == "class":
        assert np.allclose(changed.forest.value.sum(axis=1), 1)


def test_no_exact_count_is_left(model):
    changed, (told,) = hardened(model, Hardening(exact_counts=False))
    assert told == "counts of nodes rounded to powers of two; no exact count is left"
    before, after = rows_of(model), rows_of(changed)
    assert not np.array_equal(before, after)
    assert np.all(after <= 1.5 * before + 2)
    assert np.array_equal(changed.forest.value, model.forest.value)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"smallest_leaf": 0}, "smallest_leaf must be at least 1; got 0"),
        ({"threshold_digits": 0}, "threshold_digits must be between 1 and 15; got 0"),
        ({"value_digits": 16}, "value_digits must be between 1 and 15; got 16"),
    ],
)
def test_what_cannot_be_is_refused(wrong, words):
    with pytest.raises(SettingError, match=words):
        Hardening(**wrong)
