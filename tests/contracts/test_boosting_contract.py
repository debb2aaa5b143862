"""Boosting estimators: scikit-learn's own checks, and parameters that are documented."""

import inspect

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from spinney import HorizontalBoostingClassifier, HorizontalBoostingRegressor

KINDS = [HorizontalBoostingClassifier, HorizontalBoostingRegressor]
SMALL = {"max_iter": 10, "batch_trees": 2, "max_depth": 4, "min_samples_leaf": 1, "random_state": 0}


@parametrize_with_checks([kind(**SMALL) for kind in KINDS])
def test_scikit_learn_s_own_checks(estimator, check):
    """No check is expected to fail, and none is skipped by us."""
    check(estimator)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_documented_and_kept(kind):
    names = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    assert sorted(kind().get_params()) == sorted(names)
    for name in names:
        assert name in (HorizontalBoostingClassifier.__doc__ or "")
    assert clone(kind(max_iter=7)).max_iter == 7
