"""A schema read from the data, and the facts that were read."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from spinney.errors import SchemaError, SettingError, TableError
from spinney.tables.describe import complete_schema, describe
from spinney.tables.frames import columns_of
from spinney.tables.schema import Column, Label, Schema

DATA = {
    "age": [30.0, None, 60.5],
    "ward": ["eye", "surgery", "eye"],
    "smokes": [True, False, None],
    "empty": [None, None, None],
}
Y = ["yes", "no", "yes"]


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame(DATA),
        pd.DataFrame(DATA, dtype=object),
        pl.DataFrame(DATA),
        pa.table(DATA),
        pd.DataFrame(DATA).astype({"ward": "category"}),
    ],
    ids=lambda X: type(X).__module__,
)
def test_a_frame_is_described_by_its_types(X):
    schema, facts = describe(X, Y, label_kind="class")
    assert schema == Schema(
        (
            Column("age", "number", range=(30, 60.5)),
            Column("ward", "category", categories=("eye", "surgery")),
            Column("smokes", "boolean"),
            Column("empty", "number"),
        ),
        Label("y", "class", ("no", "yes")),
    )
    assert facts == ("range of 'age'", "categories of 'ward'", "classes of 'y'")


def test_an_array_is_described_by_position():
    X = np.array([[1.5, 2, np.nan], [-3, 2, np.nan]])
    schema, facts = describe(X, np.array([0.5, 2]), label_kind="number")
    assert schema.columns == (
        Column("x0", "number", range=(-3, 1.5)),
        Column("x1", "number", range=(2, 2)),
        Column("x2", "number"),
    )
    assert schema.label == Label("y", "number", range=(0.5, 2))
    assert facts == ("range of 'x0'", "range of 'x1'", "range of 'y'")


def test_arrays_can_be_given_names():
    schema, _ = describe(
        [[1, 2]] * 2, [0, 1], label_kind="class", column_names=["a", "b"], label_name="c"
    )
    assert schema.names == ("a", "b")
    assert schema.label.name == "c"


def test_ranges_hold_the_cells_as_trees_see_them():
    X = np.array([[0.1], [0.3]])
    schema, _ = describe(X, [0, 1], label_kind="class")
    low, high = columns_of(X, schema).values(slice(None))[0]
    assert schema.columns[0].range == (low, high)


def test_an_array_of_booleans_is_boolean():
    schema, facts = describe(np.array([[True], [False]]), [0, 1], label_kind="class")
    assert schema.columns == (Column("x0", "boolean"),)
    assert facts == ("classes of 'y'",)


@pytest.mark.parametrize("chosen", [[0], [-2], ["x0"], [True, False], np.array([True, False])])
def test_columns_are_categories_when_told(chosen):
    X = np.array([[3.0, 1], [1, 2], [np.nan, 3]])
    schema, facts = describe(X, [0, 1, 0], label_kind="class", categorical_features=chosen)
    assert schema.columns == (
        Column("x0", "category", categories=(1, 3)),
        Column("x1", "number", range=(1, 3)),
    )
    assert facts[0] == "categories of 'x0'"
    found = columns_of(X, schema).values(slice(None))
    assert np.array_equal(found[0], [1, 0, np.nan], equal_nan=True)


def test_a_categorical_column_of_numbers_is_a_category_unless_others_are_named():
    X = pd.DataFrame({"a": pd.Categorical([2, 1]), "b": ["x", "y"]})
    schema, _ = describe(X, [0, 1], label_kind="class")
    assert schema.columns[0] == Column("a", "category", categories=(1, 2))
    schema, _ = describe(X, [0, 1], label_kind="class", categorical_features=["b"])
    assert schema.columns[0] == Column("a", "number", range=(1, 2))


def test_a_column_that_mixes_text_and_numbers_is_a_category():
    X = np.array([["b", 1], [2, 2], ["a", 3]], dtype=object)
    schema, _ = describe(X, [0, 1, 0], label_kind="class")
    assert schema.columns[0].categories == (2, "a", "b")
    assert schema.columns[1].kind == "number"


def test_the_order_of_rows_does_not_change_the_schema():
    X = pd.DataFrame({"a": pd.Categorical(["z", "b", "a"], ["z", "b", "a"]), "b": [3, 1, 2]})
    first, _ = describe(X, ["q", "p", "r"], label_kind="class")
    second, _ = describe(X[::-1], ["r", "p", "q"], label_kind="class")
    assert first == second
    assert first.columns[0].categories == ("a", "b", "z")


def test_the_label_is_named_after_y_and_apart_from_the_columns():
    X = pd.DataFrame({"y": [1, 2], "cost": [1, 2]})
    assert describe(X, pd.Series([0, 1], name="ill"), label_kind="class")[0].label.name == "ill"
    assert describe(X, [0, 1], label_kind="class")[0].label.name == "y_"
    assert describe(X, pd.Series([0, 1], name="cost"), label_kind="class")[0].label.name == "cost_"


@pytest.mark.parametrize(
    ("facts", "wording"),
    [
        ({"categorical_features": "auto"}, "must be 'from_dtype', None, or a list"),
        ({"categorical_features": ["c"]}, "names 'c', which is not a column.*2 columns: a, b"),
        ({"categorical_features": [2]}, "names 2, which is not a column"),
        ({"categorical_features": [True]}, "has 1 booleans for 2 columns"),
        ({"categorical_features": None}, "'b' holds text but is not among categorical_features"),
        ({"categorical_features": ["a"]}, "'b' holds text but is not among"),
        ({"column_names": ["c", "d"]}, "already has column names: a, b"),
    ],
)
def test_settings_that_cannot_be_are_refused(facts, wording):
    X = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    with pytest.raises(SettingError, match=wording):
        describe(X, [0, 1], label_kind="class", **facts)


def test_a_wrong_number_of_names_is_refused():
    with pytest.raises(SettingError, match="has 1 names for 2 columns"):
        describe([[1, 2]], [0], label_kind="number", column_names=["a"])


@pytest.mark.parametrize(
    ("X", "y", "kind", "wording"),
    [
        ([[1.0], [np.inf]], [0, 1], "class", "'x0' holds a number that is infinite"),
        ([[1], [2]], [1, 1], "class", "has one class only. A classifier needs at least 2 classes"),
        ([[1], [2]], [None, None], "class", "missing in every row"),
        ([[1], [2]], [None, None], "number", "missing in every row"),
        ([[1], [2]], ["a", "b"], "number", "holds text, but a regressor predicts numbers"),
        ([[1], [2]], [np.inf, 1.0], "class", "infinite number, which cannot be a category"),
        ([[b"x"], [b"y"]], [0, 1], "class", "values of type binary"),
    ],
)
def test_data_that_cannot_be_described_is_refused(X, y, kind, wording):
    with pytest.raises(TableError, match=wording):
        describe(X, y, label_kind=kind)


def test_declared_facts_are_kept_and_open_ones_filled():
    declared = Schema(
        (Column("age", "number", range=(0, 110)), Column("ward", "category")),
        Label("y", "class"),
    )
    X = pd.DataFrame({"age": [20, 30], "ward": ["b", "a"]})
    found, _ = describe(X, ["no", "yes"], label_kind="class")
    full, facts = complete_schema(declared, found)
    assert full.columns[0].range == (0, 110)
    assert full.columns[1].categories == ("a", "b")
    assert full.label.classes == ("no", "yes")
    assert facts == ("categories of 'ward'", "classes of 'y'")
    assert complete_schema(full, found) == (full, ())


def test_what_has_another_kind_or_is_not_there_is_not_filled():
    found, _ = describe([[1.0], [2.0]], [0, 1], label_kind="class")
    other = Schema((Column("x0", "category", categories=(1, 2)),), Label("y", "number"))
    assert complete_schema(other, found) == (other, ())
    with pytest.raises(SchemaError, match="no column 'z'"):
        complete_schema(Schema((Column("z", "number"),), Label("y", "class")), found)
