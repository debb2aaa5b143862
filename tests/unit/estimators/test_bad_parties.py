"""Parties and schemas that do not fit the rows are refused in words."""

import numpy as np
import pandas as pd
import pytest

from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from spinney.errors import PrivacyLeakWarning, SchemaError
from spinney.tables.schema import Column, Label, Schema
from unit.estimators.refusing import (  # type: ignore[import-not-found]
    X,
    Y,
    each,
    refused,
    wards,
)

# --- parties -------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize(
    ("party", "words"),
    [
        (np.zeros(39, int), "party must name a party for each of the 40 rows; got 39 labels"),
        (np.zeros(41, int), "party must name a party for each of the 40 rows; got 41 labels"),
        (np.r_[np.nan, np.zeros(39)], "party must name a party for every row; some labels are"),
        (np.array([None] + ["a"] * 39, object), "party must name a party for every row"),
        (pd.Series([None] + ["a"] * 39, dtype="string"), "party must name a party for every row"),
        (np.zeros((40, 2), int), r"party must be one list .* got an array of shape \(40, 2\)"),
        ("north", r"party must be one list that names a party for each row; got .* shape \(\)"),
        (5, r"party must be one list that names a party for each row"),
    ],
)
@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
def test_parties_that_do_not_fit_the_rows(kind, party, words):
    refused(kind, words, party=party, error=ValueError)


def test_a_simulation_names_the_public_facts_it_read():
    with pytest.warns(PrivacyLeakWarning, match="classes of 'y'.*Pass schema=Schema"):
        HorizontalForestClassifier(2).fit(X, Y, party=np.arange(40) % 2)
    with pytest.warns(PrivacyLeakWarning, match="range of 'y'"):
        HorizontalForestRegressor(2).fit(X, X[:, 0], party=np.arange(40) % 2)
    with pytest.warns(PrivacyLeakWarning, match="range of 'x0', range of 'x1', range of 'x2'"):
        HorizontalForestClassifier(2, binning="ranges").fit(X, Y, party=np.arange(40) % 2)
    with pytest.warns(PrivacyLeakWarning, match="categories of 'ward'"):
        HorizontalForestClassifier(2).fit(wards(), Y, party=np.arange(40) % 2)


def test_a_full_schema_leaks_nothing():
    """And warnings are errors here."""
    schema = Schema(
        (
            Column("age", "number", range=(0, 99)),
            Column("ward", "category", categories=("eye", "knee", "skin")),
        ),
        Label("ill", "class", (0, 1)),
    )
    for binning in ("quantiles", "ranges"):
        forest = HorizontalForestClassifier(2, schema=schema, binning=binning)
        assert forest.fit(wards(), Y, party=np.arange(40) % 2).model_.schema == schema


def test_one_organisation_alone_is_not_warned():
    HorizontalForestClassifier(2).fit(wards(), Y)


# --- schemas -------------------------------------------------------------------------------------


def schema_of(label, *columns):
    return Schema(columns or (Column("age", "number"), Column("ward", "category")), label)


def test_a_schema_of_another_kind_of_label():
    words = "schema's label 'ill' is a number; HorizontalForestClassifier needs a class"
    label = Label("ill", "number", range=(0, 1))
    refused(HorizontalForestClassifier, words, X=wards(), schema=schema_of(label))
    words = "schema's label 'ill' is a class; HorizontalForestRegressor needs a number"
    label = Label("ill", "class", (0, 1))
    refused(HorizontalForestRegressor, words, X=wards(), schema=schema_of(label))


def test_a_class_that_the_schema_does_not_name():
    label = Label("ill", "class", ("no", "yes"))
    words = "The label 'ill' holds a class that the schema does not name. It names: no, yes"
    y = np.array(["no", "maybe"])[Y]
    refused(
        HorizontalForestClassifier, words, X=wards(), y=y, schema=schema_of(label),
        error=SchemaError,
    )  # fmt: skip


def test_a_schema_with_other_columns():
    schema = schema_of(Label("ill", "class", (0, 1)), Column("height", "number"))
    with pytest.raises(SchemaError, match="no column 'height'"):
        HorizontalForestClassifier(2, schema=schema).fit(wards()[["age"]], Y)


def test_a_schema_in_another_order_is_refused_since_models_count_by_place():
    frame = pd.DataFrame({"age": X[:, 0], "height": X[:, 1]})
    schema = Schema(
        (Column("height", "number"), Column("age", "number")), Label("ill", "class", (0, 1))
    )
    words = r"columns in another order. The schema has: height, age.*X\[list\(schema.names\)\]"
    refused(HorizontalForestClassifier, words, X=frame, schema=schema, error=SchemaError)
    forest = HorizontalForestClassifier(3, schema=schema, random_state=0)
    forest.fit(frame[list(schema.names)], Y)
    assert forest.feature_names_in_.tolist() == ["height", "age"]
    assert forest.feature_importances_.argmax() == 1


def test_classes_of_the_schema_that_no_row_has_are_kept():
    """Also where the labels' own type is too narrow for their names."""
    schema = Schema((Column("age", "number"),), Label("ill", "class", ("maybe", "no", "yes")))
    forest = HorizontalForestClassifier(3, schema=schema, random_state=0)
    forest.fit(wards()[["age"]], np.array(["no", "yes"])[Y])
    assert forest.classes_.tolist() == ["maybe", "no", "yes"]
    shares = forest.predict_proba(wards()[["age"]])
    assert shares.shape == (40, 3)
    assert not shares[:, 0].any()
