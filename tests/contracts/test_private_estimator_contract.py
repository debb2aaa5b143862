"""Private estimators: scikit-learn's own checks, and its tools with `party` routed as metadata."""

import inspect

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from spinney import (
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateForestClassifier,
    PrivateTreeClassifier,
    deal_rows,
)

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
ESTIMATORS = [PrivateTreeClassifier, PrivateForestClassifier, PrivateBoostingClassifier]
each = pytest.mark.parametrize("kind", ESTIMATORS, ids=[kind.__name__ for kind in ESTIMATORS])


@parametrize_with_checks(
    [
        PrivateTreeClassifier(1e6, delta=None),
        PrivateForestClassifier(1e6, delta=None, n_estimators=20, max_depth=6),  # not of full size
        PrivateBoostingClassifier(1e6, delta=None),
        PrivateBoostingRegressor(1e8, delta=None),  # its sums have many steps
    ]
)
def test_scikit_learn_s_own_checks(estimator, check):
    """No check is expected to fail, and none is skipped by us.

    Several fit twice and compare, and noise cannot be seeded: so at an epsilon that leaves none.
    """
    check(estimator)


def table(n=120):
    random = np.random.RandomState(0)
    X = random.standard_normal((n, 4))
    return X, (X[:, 0] > 0).astype(int)


@each
def test_every_parameter_is_documented_and_kept(kind):
    names = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    assert sorted(kind().get_params()) == sorted(names)
    for name in names:
        assert name in (kind.__doc__ or "")


@each
def test_a_constructor_only_stores(kind):
    wrong = {"epsilon": "much", "max_depth": -1, "schema": "none"}
    model = kind(**wrong)
    for name, value in wrong.items():
        assert getattr(model, name) == value


@each
def test_a_fitted_one_has_what_scikit_learn_s_have_and_a_clone_has_not(kind):
    X, y = table()
    model = kind(20.0).fit(X, y)
    assert is_classifier(model)
    assert model.n_features_in_ == 4
    assert model.feature_importances_.shape == (4,)
    assert model.report_.is_private
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


@each
def test_noise_differs_from_fit_to_fit_whatever_the_random_state(kind):
    X, y = table()
    model = kind(1.0)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    first, second = (model.fit(X, y).model_.to_bytes() for _ in range(2))
    assert first != second


def test_a_forest_s_shape_follows_from_its_random_state():
    X, y = table()
    first, second = (PrivateForestClassifier(1.0, random_state=3).fit(X, y) for _ in range(2))
    assert np.array_equal(first.model_.forest.threshold, second.model_.forest.threshold)


@each
def test_a_fitted_one_survives_joblib_without_its_ledger(kind, tmp_path):
    X, y = table()
    model = kind(5.0).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    twin = joblib.load(tmp_path / "model.joblib")
    assert np.array_equal(twin.predict_proba(X), model.predict_proba(X))
    assert not hasattr(twin, "ledger_")


@each
def test_party_is_passed_on(kind):
    X, y = table()
    site = np.array(["north", "south"])[deal_rows(y, 2, random_state=0)]
    search = GridSearchCV(kind(50.0), {"max_depth": [1, 2]}, cv=2).fit(X, y, party=site)
    assert search.best_estimator_.report_.parties == ("north", "south")
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            make_pipeline(StandardScaler(), kind(50.0)),
            X,
            y,
            cv=2,
            params={"party": site},
            return_estimator=True,
        )
    for pipe in found["estimator"]:
        assert pipe[-1].report_.parties == ("north", "south")
