"""The public facts of a table."""

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import SchemaError, SettingError
from spinney.tables.schema import Column, Label, Schema, facts_in, in_order, join_words, plain

LABEL = Label("ill", "class", ("no", "yes"))


def test_a_schema_names_its_columns_in_order():
    schema = Schema((Column("größe", "number"), Column("年齢", "boolean")), LABEL)
    assert schema.names == ("größe", "年齢")
    assert schema.column("年齢").kind == "boolean"


def test_an_unknown_column_is_refused_with_the_known_ones():
    schema = Schema((Column("age", "number"), Column("ward", "category")), LABEL)
    with pytest.raises(SchemaError, match=r"no column 'agee'\. It has: age, ward\."):
        schema.column("agee")


@pytest.mark.parametrize(
    ("facts", "wording"),
    [
        ({"kind": "text"}, r"kind of column 'a' must be number or category or boolean; got 'text'"),
        ({"kind": "number", "range": (2, 1)}, r"lowest number first; got \[2\.0, 1\.0\]"),
        ({"kind": "number", "range": (0, math.inf)}, r"must be finite; got \[0\.0, inf\]"),
        ({"kind": "number", "range": (math.nan, 1)}, "must be finite"),
        ({"kind": "number", "range": (1,)}, "must be two numbers"),
        ({"kind": "number", "range": ("x", "y")}, "must be two numbers"),
        ({"kind": "number", "categories": ("x",)}, "kind 'number', which has no categories"),
        ({"kind": "boolean", "categories": ("x",)}, "kind 'boolean', which has no categories"),
        ({"kind": "category", "range": (0, 1)}, "kind 'category', which has no range"),
        ({"kind": "category", "categories": ()}, "are an empty list"),
        ({"kind": "category", "categories": "abc"}, "must be a list"),
        ({"kind": "category", "categories": ("x", "y", "x")}, "name x more than once"),
        ({"kind": "category", "categories": (1, 1.0)}, "name 1 more than once"),
        ({"kind": "category", "categories": (1, math.nan)}, "got a value of type float"),
        ({"kind": "category", "categories": (b"x",)}, "got a value of type bytes"),
    ],
)
def test_a_column_that_cannot_be_is_refused(facts, wording):
    with pytest.raises(SettingError, match=wording):
        Column("a", **facts)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_column_needs_a_name(name):
    with pytest.raises(SettingError, match="needs a name"):
        Column(name, "number")


@pytest.mark.parametrize(
    ("facts", "wording"),
    [
        ({"kind": "category"}, "must be class or number"),
        ({"kind": "class", "classes": ("only",)}, "fewer than 2 classes"),
        ({"kind": "class", "range": (0, 1)}, "which has no range"),
        ({"kind": "number", "classes": ("a", "b")}, "which has no classes"),
        ({"kind": "class", "classes": ("a", "a")}, "name a more than once"),
    ],
)
def test_a_label_that_cannot_be_is_refused(facts, wording):
    with pytest.raises(SettingError, match=wording):
        Label("y", **facts)


def test_a_schema_without_columns_is_refused():
    with pytest.raises(SchemaError, match="has no columns"):
        Schema((), LABEL)


def test_columns_of_the_same_name_are_refused():
    with pytest.raises(SchemaError, match="declares a more than once"):
        Schema((Column("a", "number"), Column("a", "boolean")), LABEL)


def test_a_label_that_is_also_a_column_is_refused():
    with pytest.raises(SchemaError, match="'ill' both as a column and as the label"):
        Schema((Column("ill", "number"),), LABEL)


def test_too_many_categories_are_refused(monkeypatch):
    monkeypatch.setattr("spinney.tables.schema.MAX_CATEGORIES", 3)
    with pytest.raises(SettingError, match="more than 3 categories"):
        Column("a", "category", categories=(1, 2, 3, 4))


def test_a_constant_range_is_allowed():
    assert Column("a", "number", range=(5, 5)).range == (5.0, 5.0)


def test_numbers_are_one_category_however_they_are_written():
    written: tuple[Any, ...] = (np.float32(2), np.int64(1), 0.5)
    assert Column("a", "category", categories=written).categories == (2, 1, 0.5)
    assert [type(plain(value)) for value in (np.True_, np.str_("a"), 1.0)] == [bool, str, int]


def test_the_digest_tells_schemas_apart_and_does_not_depend_on_how_numbers_are_written():
    def digest(range_, categories):
        first = Column("a", "number", range=range_)
        return Schema((first, Column("b", "category", categories=categories)), LABEL).digest()

    assert digest((0, 1), (1, 2)) == digest((-0.0, 1.0), (1.0, np.int32(2)))
    assert digest((0, 1), (1, 2)) != digest((0, 2), (1, 2))
    assert digest((0, 1), (1, 2)) != digest((0, 1), (2, 1))
    assert digest((0, 1), (1, 2)) != digest((0, 1), ("1", "2"))


def test_the_digest_never_changes_between_releases():
    schema = Schema((Column("é", "number", range=(0, 1)),), LABEL)
    assert schema.digest()[:16] == "a01e854545b5c2af"


def test_facts_are_named_in_words():
    schema = Schema(
        (
            Column("age", "number", range=(0, 110)),
            Column("ward", "category", categories=("a", "b")),
            Column("open", "number"),
        ),
        LABEL,
    )
    assert facts_in(schema) == ("range of 'age'", "categories of 'ward'", "classes of 'ill'")
    regression = Schema((Column("open", "number"),), Label("cost", "number", range=(0, 9)))
    assert facts_in(regression) == ("range of 'cost'",)


def test_long_lists_are_shortened_in_messages():
    assert join_words("abc") == "a, b, c"
    assert join_words(range(15), at_most=2) == "0, 1 and 13 more"


categories = st.one_of(
    st.text(),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
)


@settings(deadline=None)
@given(st.lists(categories, min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_categories_does_not_depend_on_how_they_came(values, random):
    plain_values = [plain(value) for value in values]
    shuffled = plain_values.copy()
    random.shuffle(shuffled)
    assert in_order(plain_values) == in_order(shuffled)
    assert set(in_order(plain_values)) == set(plain_values)


@settings(deadline=None)
@given(
    st.lists(categories, min_size=2, max_size=8),
    st.text(min_size=1),
    st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)),
)
def test_a_schema_survives_json(values, name, ends):
    kept = in_order(map(plain, values))
    columns = (
        Column(name, "number", range=(min(ends), max(ends))),
        Column(name + "!", "category", categories=kept),
    )
    label = Label(name + "?", "class", (*kept, "one more", "another"))
    schema = Schema(columns, label)
    loaded = msgspec.json.decode(msgspec.json.encode(schema), type=Schema)
    assert loaded == schema
    assert loaded.digest() == schema.digest()
