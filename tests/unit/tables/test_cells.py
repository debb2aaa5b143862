"""One column's cells, before any schema."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import SettingError, TableError
from spinney.tables.categories import MISSING, UNKNOWN, CategoryIndex
from spinney.tables.cells import cells_of, refuse_unusable


def objects(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    ("values", "nature"),
    [
        ([1, 2.5, None], "number"),
        (np.array([1, 2], dtype=np.uint8), "number"),
        (np.array([1.5], dtype=np.float16), "number"),
        ([Decimal("1.5"), None], "number"),
        ([Decimal("1.5"), 2.5], "number"),
        ([2**70, 1], "number"),
        ([True, None], "boolean"),
        ([True, 2], "number"),
        (["a", None], "text"),
        (np.array(["a", "b"]), "text"),
        (objects("a", 1, np.nan), "mixed"),
        (objects("a", pd.NA, True), "mixed"),
        ([], "missing"),
        ([None, None], "missing"),
        ([np.nan, np.nan], "missing"),
        (np.array([np.nan, np.nan]), "missing"),
        (pa.array([float("nan"), None]), "missing"),
        (objects(None, np.nan, pd.NA, pd.NaT), "missing"),
        ([dt.date(2020, 1, 1)], "moment"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "moment"),
        (np.array([1], dtype="timedelta64[s]"), "moment"),
        (objects(1, dt.time(1)), "moment"),
        (pd.Series(pd.to_datetime(["2020-01-01"])), "moment"),
        ([{"a": 1}], "other"),
        ([[1, 2]], "other"),
        ([b"a"], "other"),
        (objects("a", np.zeros(2)), "other"),
        (np.array([1j]), "other"),
        (pd.Series(["a", "b"], dtype="category"), "text"),
        (pd.Series([1, 2], dtype="category"), "number"),
        (pd.Series([1, None], dtype="Int64"), "number"),
        (pd.Series(["a", None], dtype="string"), "text"),
        (pl.Series(["a", None]), "text"),
        (pl.Series(["a", "b"], dtype=pl.Categorical), "text"),
        (pl.Series([None, None]), "missing"),
        (pa.chunked_array([[1, 2], [None]]), "number"),
    ],
)
def test_the_nature_of_cells_is_seen(values, nature):
    assert cells_of(values).nature == nature


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, None, 3], [1, np.nan, 3]),
        ([True, None, False], [1, np.nan, 0]),
        ([Decimal("1.5"), None], [1.5, np.nan]),
        ([Decimal("1.5"), 2.5], [1.5, 2.5]),
        ([10**400, None], [np.inf, np.nan]),
        (pa.chunked_array([[1, 2], [None], []]), [1, 2, np.nan]),
        (pd.Series([3, 1, None], dtype="category"), [3, 1, np.nan]),
        (np.array([1.5], dtype=np.float16), [1.5]),
    ],
)
def test_numbers_come_out_with_nan_for_missing(values, expected):
    assert np.array_equal(cells_of(values).numbers(), expected, equal_nan=True)


def test_a_plain_numeric_column_is_not_copied():
    column = np.arange(5.0)
    assert np.shares_memory(cells_of(column).numbers(), column)
    assert np.shares_memory(cells_of(pl.Series(column)).numbers(), column)


@pytest.mark.parametrize(
    "column",
    [
        ["b", "x", None, "a"],
        pd.Series(["b", "x", None, "a"]),
        pd.Series(["b", "x", None, "a"], dtype="category"),
        pl.Series(["b", "x", None, "a"]),
        pl.Series(["b", "x", None, "a"], dtype=pl.Categorical),
        pl.Series(["b", "x", None, "a"], dtype=pl.Enum(["x", "b", "a"])),
        pa.chunked_array([["b", "x"], [None], ["a"]]),
        pa.chunked_array(
            [pa.array(["b", "x"]).dictionary_encode(), pa.array([None, "a"]).dictionary_encode()]
        ),
        objects("b", "x", np.nan, "a"),
    ],
)
def test_text_is_coded_alike_however_it_comes(column):
    codes = cells_of(column).codes(CategoryIndex(("a", "b")))
    assert codes.tolist() == [1, UNKNOWN, MISSING, 0]
    assert codes.dtype == np.int32


def test_many_categories_in_a_narrow_categorical_are_coded():
    names = [f"{place:03}" for place in range(128)]
    column = pd.Series(pd.Categorical([*names, None]))
    codes = cells_of(column).codes(CategoryIndex(tuple(names)))
    assert codes.tolist() == [*range(128), MISSING]


def test_no_cells_and_no_types_are_coded():
    index = CategoryIndex(("a",))
    assert cells_of([]).codes(index).tolist() == []
    assert cells_of([None, None]).codes(index).tolist() == [MISSING, MISSING]
    assert cells_of(pa.chunked_array([], pa.string())).codes(index).tolist() == []


def test_distinct_categories_are_plain_and_without_missing():
    assert cells_of([1.0, 2.5, np.nan, 1]).distinct() == {1, 2.5}
    assert cells_of(objects("a", 1, None)).distinct() == {"a", 1}
    assert cells_of([Decimal("1.0"), None]).distinct() == {1}
    assert cells_of(["a", None]).distinct() == {"a"}


def test_a_categorical_column_declares_categories_it_does_not_hold():
    assert cells_of(pd.Series(pd.Categorical(["a"], ["b", "a"]))).distinct() == {"a", "b"}
    assert cells_of(pl.Series(["a"], dtype=pl.Enum(["b", "a"]))).distinct() == {"a", "b"}


def test_ids_are_texts_alike_however_they_come():
    for ids in ([7, None], [7.0, np.nan], ["7", None], objects("7", None), pl.Series([7, None])):
        assert cells_of(ids).texts() == ["7", None]


def test_a_table_is_not_a_column():
    with pytest.raises(TableError, match="one dimension; got 2"):
        cells_of(np.zeros((2, 2)))
    assert len(cells_of(np.zeros((3, 1)))) == 3
    with pytest.raises(SettingError, match="list or an array; got int"):
        cells_of(3)


@pytest.mark.parametrize(
    ("values", "wording"),
    [
        ([dt.date(2020, 1, 1)], "The column 'a' holds dates or times.*convert it"),
        ([b"x"], "values of type binary"),
        (objects(1, {}), "values of type dict and int"),
    ],
)
def test_cells_that_no_tree_can_use_are_refused(values, wording):
    with pytest.raises(TableError, match=wording):
        refuse_unusable("column 'a'", cells_of(values))


cell = st.one_of(st.none(), st.text(max_size=3), st.integers(-9, 9), st.booleans(), st.floats())


@settings(deadline=None)
@given(st.lists(cell, max_size=12))
def test_odd_columns_are_seen_coded_and_counted(values):
    cells = cells_of(values)
    assert len(cells) == len(values)
    known = tuple(dict.fromkeys(value for value in cells.distinct() if abs_is_finite(value)))
    codes = cells.codes(CategoryIndex(known))
    missing = [value is None or value != value for value in values]  # noqa: PLR0124
    assert (codes == MISSING).tolist() == missing
    if all(abs_is_finite(value) for value in values):
        assert not (codes == UNKNOWN).any()


def abs_is_finite(value):
    return not isinstance(value, float) or np.isfinite(value)
