"""Parameters that cannot work are refused in words."""

import numpy as np
import pytest

from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from unit.estimators.refusing import (  # type: ignore[import-not-found]
    X,
    Y,
    each,
    refused,
)


@each
@pytest.mark.parametrize("max_bins", [0, 1, 256, -5, "x", True, 2.0, None])
def test_max_bins_out_of_range(kind, max_bins):
    words = rf"max_bins must be a whole number between 2 and 255; got {max_bins!r}\."
    refused(kind, words, max_bins=max_bins)


@each
@pytest.mark.parametrize("max_bins", [2, 255])
def test_max_bins_at_its_limits(kind, max_bins):
    assert kind(3, max_bins=max_bins).fit(X, Y).score(X, Y) > 0.3


@each
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("n_estimators", 0, "n_estimators must be a whole number between 1 and 100000; got 0"),
        (
            "n_estimators",
            "10",
            "n_estimators must be a whole number between 1 .*; got '10'",
        ),
        ("n_estimators", 2.5, "n_estimators must be a whole number between 1 and 100000; got 2.5"),
        ("max_depth", 0, "max_depth must be a whole number at least 1 or None for no limit; got 0"),
        ("max_depth", True, "max_depth must be a whole number at least 1"),
        ("max_cells", 1, "max_cells must be a whole number between 2 and 255; got 1"),
        ("max_cells", 300, "max_cells must be a whole number between 2 and 255; got 300"),
        ("min_samples_split", 1, "min_samples_split must be a whole number at least 2"),
        ("min_samples_split", 1.0, "min_samples_split as a fraction must lie between 0 and 1"),
        ("min_samples_split", "2", "min_samples_split must be a whole number at least 2"),
        ("min_samples_leaf", 0, "min_samples_leaf must be a whole number at least 1"),
        ("min_samples_leaf", 0.0, "min_samples_leaf as a fraction must lie between 0 and 1"),
        ("min_impurity_decrease", -0.1, "min_impurity_decrease must be a finite number"),
        ("min_impurity_decrease", np.nan, "min_impurity_decrease must be a finite number"),
        ("min_impurity_decrease", "0", "min_impurity_decrease must be a finite number"),
        ("min_weight_fraction_leaf", 0.6, "min_weight_fraction_leaf must be at most 0.5"),
        ("min_weight_fraction_leaf", -1, "min_weight_fraction_leaf must be a finite number"),
        ("max_features", 0, "max_features must be 'sqrt', 'log2', None"),
        ("max_features", 1.5, "max_features must be 'sqrt', 'log2', None"),
        ("max_features", "auto", "max_features must be 'sqrt', 'log2', None.* got 'auto'"),
        ("max_features", True, "max_features must be 'sqrt', 'log2', None"),
        ("binning", "quantile", "binning must be 'quantiles' or 'ranges'.* got 'quantile'"),
        ("binning", None, "binning must be 'quantiles' or 'ranges'"),
        ("bootstrap", "no", "bootstrap must be True or False; got 'no'"),
        ("oob_score", "accuracy", "oob_score must be True or False; got 'accuracy'"),
        ("max_leaf_nodes", 10, "max_leaf_nodes is not supported: .* Use max_depth"),
        ("random_state", "x", "random_state must be a whole number, None, or a numpy generator"),
        ("random_state", 1.5, "random_state must be a whole number"),
        ("n_jobs", 0, "n_jobs must be a whole number other than 0"),
        ("n_jobs", "all", "n_jobs must be a whole number other than 0.* got 'all'"),
        ("schema", ["x0"], "schema must be a spinney Schema, a dict of .*, or None; got a list"),
        ("schema", {"a": (0, 1)}, "The schema declares 'a', .* neither a column nor the label 'y'"),
        ("schema", {"x0": "number"}, "range of column 'x0' must be two numbers.* got 'number'"),
        ("unknown_categories", "ignore", "unknown_categories must be 'refuse' or 'as_missing'"),
        ("categorical_features", "all", "categorical_features must be 'from_dtype', None, or"),
        ("unknown_categories", ["refuse"], "unknown_categories must be 'refuse' or 'as_missing'"),
        ("max_features", np.array([1, 2]), "max_features must be 'sqrt', 'log2', None"),
        (
            "message_limit",
            10,
            "message_limit must be a whole number between 65536 and 2147483648; got 10",
        ),
        ("categorical_features", 5, "categorical_features must be 'from_dtype'.*; got 5"),
        ("categorical_features", [[1]], r"categorical_features must be .*; got \[\[1\]\]"),
        ("categorical_features", {1: 2}, "categorical_features must be 'from_dtype', None, or"),
        ("categorical_features", [7], "categorical_features names 7, which is not a column"),
        ("categorical_features", ["z"], "categorical_features names 'z', which is not a column"),
        ("categorical_features", [True], "has 1 booleans for 3 columns"),
    ],
)
def test_a_parameter_that_cannot_work(kind, name, value, words):
    refused(kind, words, **{name: value})


@each
def test_out_of_bag_needs_a_bootstrap(kind):
    refused(kind, "oob_score=True needs bootstrap=True", oob_score=True, bootstrap=False)


@each
def test_adaptive_histograms_cannot_be_masked(kind):
    refused(kind, "binning='adaptive' cannot be masked", binning="adaptive", secure_sum=True)


def test_a_criterion_of_the_other_task():
    words = "criterion must be 'gini' or 'entropy' or 'log_loss'; got 'squared_error'"
    refused(HorizontalForestClassifier, words, criterion="squared_error")
    words = "criterion must be 'squared_error'; got 'gini'"
    refused(HorizontalForestRegressor, words, criterion="gini")


@pytest.mark.parametrize(
    ("class_weight", "words"),
    [
        ("even", "class_weight must be None, 'balanced' or a dict .* got 'even'"),
        ([1, 2], "class_weight must be None, 'balanced' or a dict"),
        ({5: 1.0}, r"class_weight names classes that y does not have: \[5\]"),
        ({0: -1.0}, "class_weight must give a finite weight of at least 0"),
        ({0: np.inf}, "class_weight must give a finite weight of at least 0"),
        ({0: "heavy"}, "class_weight must give a number for each class"),
    ],
)
def test_class_weights_that_cannot_work(class_weight, words):
    refused(HorizontalForestClassifier, words, class_weight=class_weight)
