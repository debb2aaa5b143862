"""Labels and tables that cannot be learnt from are refused in words."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from spinney.errors import SettingError, TableError
from spinney.tables.schema import Column, Label, Schema
from unit.estimators.refusing import (  # type: ignore[import-not-found]
    X,
    Y,
    each,
    refused,
)

# --- labels --------------------------------------------------------------------------------------


@each
def test_a_missing_label(kind):
    y = Y.astype(float)
    y[3] = np.nan
    refused(kind, r"label 'y' is missing \(NaN\) in some rows.*leave those rows out", y=y,
            error=TableError)  # fmt: skip


def test_a_missing_label_among_texts():
    y = np.array(["no", "yes"], object)[Y]
    y[3] = None
    words = r"label 'y' is missing \(NaN\) in some rows"
    refused(HorizontalForestClassifier, words, y=y, error=TableError)
    refused(HorizontalForestClassifier, words, y=pd.Series(y, name="y"), error=TableError)


@each
def test_no_label_at_all(kind):
    refused(kind, "missing in every row", y=np.full(40, np.nan), error=TableError)
    refused(kind, "requires y to be passed, but the target y is None", y=None, error=ValueError)


def test_one_class_only():
    words = "label 'y' has one class only. A classifier needs at least 2 classes"
    refused(HorizontalForestClassifier, words, y=np.ones(40), error=TableError)


def classes_up_to(end):
    return Schema((Column("x0", "number"),), Label("y", "class", tuple(range(end))))


def test_amounts_are_not_taken_for_classes():
    y = np.repeat(np.arange(256), 2)
    words = r"too many different values to be classes.*If it is an amount, predict a number"
    X = y[:, None].astype(float)
    refused(HorizontalForestClassifier, words, X=X, y=y, error=TableError)


def test_more_classes_than_a_forest_can_tell_apart():
    words = "label 'y' has 2500 classes; a forest can have at most 2048"
    y = np.repeat(np.arange(2500), 2)
    X = y[:, None].astype(float)
    refused(HorizontalForestClassifier, words, X=X, y=y, schema=classes_up_to(2500))


def test_as_many_classes_as_a_forest_can_tell_apart():
    y = np.repeat(np.arange(2048), 2)
    X = y[:, None].astype(float)
    schema = classes_up_to(2048)
    forest = HorizontalForestClassifier(1, bootstrap=False, max_depth=6, schema=schema).fit(X, y)
    assert forest.predict_proba(X[:9]).shape == (9, 2048)
    assert forest.model_.forest.moments[0].tolist() == [2] * 2048


@pytest.mark.parametrize("classes", [(1, 2**63 + 1), (2**63 + 5, 2**64 - 1)])
def test_labels_beyond_what_is_held_exactly(classes):
    """Such labels were once rounded: a class came back that nobody had given."""
    words = r"whole number must lie between -2\^63 and 2\^63 - 1.* Write larger ones as text"
    y = np.array(classes, np.uint64)[Y]
    refused(HorizontalForestClassifier, words, y=y)
    refused(HorizontalForestClassifier, words, X=y[:, None], categorical_features=[0])
    fits = np.array([1, 2**63 - 1], np.uint64)[Y]
    forest = HorizontalForestClassifier(1, bootstrap=False, max_features=None).fit(X, fits)
    assert np.array_equal(forest.predict(X), fits)


def test_a_label_s_own_name_is_used():
    y = pd.Series(np.ones(40, int), name="churn")
    words = "The label 'churn' has one class only"
    refused(HorizontalForestClassifier, words, y=y, error=TableError)


def test_a_label_of_amounts_for_a_classifier():
    words = "Unknown label type: continuous"
    refused(HorizontalForestClassifier, words, y=X[:, 1], error=ValueError)


def test_a_label_of_text_for_a_regressor():
    words = "label 'y' holds text, but a regressor predicts numbers.*use a classifier"
    refused(HorizontalForestRegressor, words, y=np.array(["a", "b"])[Y], error=TableError)


@each
def test_an_infinite_label(kind):
    y = Y.astype(float)
    y[0] = np.inf
    refused(kind, "label 'y' holds an infinite number", y=y, error=TableError)


def test_a_label_of_too_wide_a_range():
    y = np.where(Y, 1.7e308, -1.7e308)
    refused(HorizontalForestRegressor, "range of the label 'y' is too wide", y=y)


@each
def test_labels_of_another_length(kind):
    refused(kind, "same number of rows; got 40 and 39", y=Y[:-1], error=ValueError)


@each
def test_labels_of_two_columns(kind):
    refused(kind, "y should be a 1d array", y=np.c_[Y, Y], error=ValueError)


# --- tables --------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize(
    ("table", "words"),
    [
        (X[:, 0], "Expected 2D array, got 1D array instead"),
        (X[:0], "Found array with 0 sample"),
        (X[:, :0], "Found array with 0 feature"),
        (np.where(X > 2, np.inf, X), "infinity"),
        (X * 1e300, "infinite or beyond 3.4e"),
        (X.astype(complex), "Complex data not supported"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 40)}), "'a' holds dates or times"),
        (pd.DataFrame({"a": [[1]] * 40}), "'a' holds values of type"),
        (
            pd.DataFrame(X, columns=["a", "a", "b"]),
            "^The table has more than one column called a. Give every column a different name.$",
        ),
        (
            pd.DataFrame(X, columns=["a", "b", 5]),
            "^Some column names are text and some are not. Make all of them text",
        ),
        (pd.DataFrame({"a": X[:, 0] * 1e300}), "column 'a' holds a number that is infinite"),
        (pl.DataFrame({"a": [None] * 39 + [np.inf]}, strict=False), "'a' holds a number that is"),
    ],
)
def test_a_table_that_cannot_be_learnt_from(kind, table, words):
    refused(kind, words, X=table, error=(ValueError, TypeError))


@each
def test_text_among_numbers_of_an_array(kind):
    table = X.astype(object)
    table[0, 0] = "old"
    refused(kind, "could not convert string to float|holds text", X=table, error=ValueError)


@each
def test_text_that_is_said_to_be_no_category(kind):
    table = pd.DataFrame({"a": ["x", "y"] * 20, "b": X[:, 1]})
    words = "column 'a' holds text but is not among categorical_features"
    refused(kind, words, X=table, categorical_features=["b"], error=(SettingError, TableError))
