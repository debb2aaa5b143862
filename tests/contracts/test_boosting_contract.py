"""Boosting estimators: scikit-learn's own checks, and parameters that are documented."""

import inspect

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from spinney import (
    HorizontalBoostingClassifier,
    HorizontalBoostingRegressor,
    VerticalBoostingClassifier,
    VerticalBoostingRegressor,
)

KINDS = [HorizontalBoostingClassifier, HorizontalBoostingRegressor]
OVER_COLUMNS = [VerticalBoostingClassifier, VerticalBoostingRegressor]
SMALL = {"max_iter": 10, "batch_trees": 2, "max_depth": 4, "min_samples_leaf": 1, "random_state": 0}


NOT_MET = {
    f"check_sample_weight_equivalence_on_{kind}_data": (
        "a row's gradients are rounded by its key, and repeated rows have keys of their own"
    )
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [kind(**SMALL) for kind in KINDS], expected_failed_checks=lambda _: NOT_MET
)
def test_scikit_learn_s_own_checks(estimator, check):
    """One check, of arrays and of sparse tables, cannot hold, and none is skipped by us."""
    check(estimator)


@pytest.mark.slow  # 106 checks; input is checked as for forests over columns
@parametrize_with_checks([kind(**(SMALL | {"max_iter": 3})) for kind in OVER_COLUMNS])
def test_scikit_learn_s_own_checks_over_columns(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", OVER_COLUMNS)
def test_every_parameter_over_columns_is_documented_and_kept(kind):
    names = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    assert sorted(kind().get_params()) == sorted(names)
    for name in names:
        assert name in (VerticalBoostingClassifier.__doc__ or "")
    assert clone(kind(labels="encrypted")).labels == "encrypted"


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_documented_and_kept(kind):
    names = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    assert sorted(kind().get_params()) == sorted(names)
    for name in names:
        assert name in (HorizontalBoostingClassifier.__doc__ or "")
    assert clone(kind(max_iter=7)).max_iter == 7
