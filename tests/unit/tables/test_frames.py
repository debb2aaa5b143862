"""Tables as users pass them, checked against a schema."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import SchemaError, SettingError, TableError
from spinney.tables.columns import MatrixColumns
from spinney.tables.describe import describe
from spinney.tables.frames import columns_of, encode_target
from spinney.tables.names import feature_names
from spinney.tables.schema import Column, Label, Schema

LABEL = Label("ill", "class", ("no", "yes"))
SCHEMA = Schema(
    (
        Column("age", "number"),
        Column("ward", "category", categories=("surgery", "eye")),
        Column("smokes", "boolean"),
    ),
    LABEL,
)
DATA = {
    "smokes": [True, None, False],
    "ward": ["eye", "surgery", None],
    "age": [30.0, None, 60.5],
}
VALUES = [[30, np.nan, 60.5], [1, 0, np.nan], [1, np.nan, 0]]
NUMBERS = Schema((Column("a", "number"), Column("b", "number")), LABEL)


def values(X, schema=SCHEMA, **facts):
    return columns_of(X, schema, **facts).values(slice(None))


def frames():
    return [
        pd.DataFrame(DATA),
        pd.DataFrame(DATA, dtype=object),
        pd.DataFrame(DATA).astype({"ward": "category"}),
        pd.DataFrame(DATA, index=pd.Index(["u", "v", "w"], name="visit")),
        pd.DataFrame(DATA).convert_dtypes(),
        pl.DataFrame(DATA),
        pl.DataFrame(DATA, schema_overrides={"ward": pl.Categorical}),
        pl.DataFrame(DATA, schema_overrides={"ward": pl.Enum(["surgery", "eye", "other"])}),
        pl.concat([pl.DataFrame(DATA)[:1], pl.DataFrame(DATA)[1:]], rechunk=False),
        pa.table(DATA),
        pa.table(DATA).to_batches()[0],
        np.array([[30, "eye", True], [None, "surgery", None], [60.5, None, False]], dtype=object),
        [[30, "eye", True], [None, "surgery", None], [60.5, None, False]],
    ]


@pytest.mark.parametrize("X", frames(), ids=lambda X: type(X).__module__)
def test_every_kind_of_frame_gives_the_same_values(X):
    found = values(X)
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    assert np.array_equal(found, VALUES, equal_nan=True)


def test_names_are_those_of_the_frame():
    data = {"b": [1], "a": [2]}
    for frame in (pd.DataFrame(data), pl.DataFrame(data), pa.table(data)):
        assert feature_names(frame) == ("b", "a")
    for nameless in (np.zeros((1, 2)), [[1, 2]], pd.DataFrame([[1, 2]])):
        assert feature_names(nameless) is None
    assert feature_names(pl.DataFrame({"größe": [1], "年齢": [2]})) == ("größe", "年齢")


def test_names_that_cannot_be_told_apart_are_refused():
    with pytest.raises(TableError, match="Some column names are text and some are not"):
        feature_names(pd.DataFrame([[1, 2]], columns=["a", 0]))
    with pytest.raises(TableError, match="more than one column called a"):
        feature_names(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(TableError, match="holds a NUL character"):
        columns_of(pl.DataFrame({"a\0b": [1]}), NUMBERS)


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1, 2], [3, 4]]),
        np.array([[1.0, 2], [3, 4]], order="F"),
        np.array([[1, 2], [3, 4]], dtype=np.float16),
        np.array([[1, 2], [3, 4]], dtype=np.uint8),
        np.array([[1, 2, 0], [3, 4, 0]])[:, :2],
        np.array([[1, 2], [3, 4]], dtype=object),
        [[1, 2], [3, 4]],
        pd.DataFrame([[1, 2], [3, 4]]),
    ],
)
def test_arrays_are_read_by_position(X):
    assert values(X, NUMBERS).tolist() == [[1, 3], [2, 4]]


def test_a_numeric_array_is_not_copied():
    X = np.zeros((5, 2))
    columns = columns_of(X, NUMBERS)
    assert isinstance(columns, MatrixColumns)
    assert columns.matrix is X


def test_numbers_find_their_category():
    schema = Schema(
        (Column("grade", "category", categories=(3, 1, 2.5)), Column("a", "number")), LABEL
    )
    expected = np.array([[1, 0, 2, np.nan], [0, 1, 2, 3]])
    grades, rest = [1, 3, 2.5, None], [0, 1, 2, 3]
    array = np.array([grades, rest], dtype=float).T
    data = {"grade": grades, "a": rest}
    for X in (array, array.astype(object), pd.DataFrame(data), pl.DataFrame(data, strict=False)):
        assert np.array_equal(values(X, schema), expected, equal_nan=True)


def test_an_unknown_category_is_refused_or_missing():
    schema = Schema((Column("ward", "category", categories=("eye",)),), LABEL)
    numbers = Schema((Column("ward", "category", categories=(1,)),), LABEL)
    for X, known in (
        (pd.DataFrame({"ward": ["eye", "canary"]}), schema),
        (np.array([["eye"], ["canary"]], dtype=object), schema),
        (np.array([[1.0], [777.0]]), numbers),
    ):
        with pytest.raises(SchemaError, match="holds a category that the schema does not name"):
            columns_of(X, known)
        found = values(X, known, unknown_categories="as_missing")
        assert np.array_equal(found, [[0, np.nan]], equal_nan=True)
        with pytest.raises(SettingError, match="must be 'refuse' or 'as_missing'; got 'ignore'"):
            values(X, known, unknown_categories="ignore")


@pytest.mark.parametrize(
    ("change", "wording"),
    [
        ({"age": None}, r"no column 'age'\. It has: smokes, ward\. Rename or add it"),
        ({"ill": ["no"] * 3}, "a column 'ill' that the schema does not name.*Drop the column"),
        ({"age": ["x", "y", "z"]}, "'age' is a number in the schema, but holds text"),
        ({"age": ["x", 1, 2]}, "holds text and numbers together"),
        ({"smokes": ["yes", "no", "no"]}, "'smokes' is a boolean in the schema, but holds text"),
        ({"ward": [1, 2, 1]}, "holds numbers, but its categories are text: surgery, eye"),
        ({"ward": ["eye", "ear", "eye"]}, "does not name. It names: surgery, eye"),
    ],
)
def test_a_frame_that_does_not_fit_the_schema_is_refused(change, wording):
    data = {name: cells for name, cells in (DATA | change).items() if cells is not None}
    with pytest.raises(SchemaError, match=wording):
        columns_of(pd.DataFrame(data), SCHEMA)


def test_text_for_numeric_categories_is_refused():
    schema = Schema((Column("grade", "category", categories=(1, 2)),), LABEL)
    with pytest.raises(SchemaError, match="holds text, but its categories are numbers: 1, 2"):
        columns_of(pa.table({"grade": ["1", "2"]}), schema)


def test_an_array_of_the_wrong_width_is_refused():
    for X in (np.zeros((2, 3)), np.zeros((2, 3), dtype=object)):
        with pytest.raises(SchemaError, match="has 3 columns; the schema has 2: a, b"):
            columns_of(X, NUMBERS)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, 1e39])
@pytest.mark.parametrize("clean", [0.0, np.nan])
def test_numbers_that_no_tree_can_hold_are_refused(bad, clean):
    X = np.full((40_000, 2), clean)
    X[30_000, 1] = bad
    for table in (X, X[::-1, ::-1][:, ::-1], X.astype(object), pd.DataFrame(X, columns=["a", "b"])):
        with pytest.raises(TableError, match="column 'b' holds a number that is infinite"):
            columns_of(table, NUMBERS)


def test_large_but_sound_numbers_are_accepted():
    X = np.array([[3e38, -3e38]] * 3)
    assert np.isfinite(values(X, NUMBERS)).all()
    assert np.isfinite(values(X.astype(np.float32), NUMBERS)).all()


def test_booleans_may_come_as_zero_and_one_and_nothing_else():
    schema = Schema((Column("a", "boolean"),), LABEL)
    expected = [[1, 0, np.nan]]
    for X in (np.array([[1.0], [0.0], [np.nan]]), pa.table({"a": [1, 0, None]})):
        assert np.array_equal(values(X, schema), expected, equal_nan=True)
    assert values(np.array([[True], [False]]), schema).tolist() == [[1, 0]]
    for X in (np.array([[2]]), pa.table({"a": [0.5]})):
        with pytest.raises(TableError, match="numbers other than 0 and 1"):
            columns_of(X, schema)


@pytest.mark.parametrize(
    ("X", "wording"),
    [
        (np.zeros(3), "two dimensions, rows and columns; got 1. Reshape your data"),
        (np.zeros((1, 2, 3)), "got 3"),
        (np.zeros((3, 0)), "has no columns"),
        (pd.DataFrame(), "has no columns"),
        (np.zeros((1, 2), dtype="datetime64[s]"), "'a' holds dates or times"),
        (np.zeros((1, 2), dtype=complex), "'a' holds values of type complex"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"]), "b": [1]}), "dates or times"),
    ],
)
def test_what_is_not_a_table_is_refused(X, wording):
    with pytest.raises(TableError, match=wording):
        columns_of(X, NUMBERS)


def test_a_sparse_table_is_refused():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TableError, match=r"is sparse\. Pass a dense one"):
        columns_of(sparse.eye_array(2), NUMBERS)


def test_undeclared_categories_are_refused():
    schema = Schema((Column("a", "category"),), LABEL)
    for X in (np.zeros((2, 1)), pa.table({"a": ["x"]})):
        with pytest.raises(SchemaError, match=r"column 'a' has no categories\. Declare them"):
            columns_of(X, schema)
    with pytest.raises(SchemaError, match=r"label 'y' has no classes\. Declare them"):
        encode_target([0], Label("y", "class"))


@pytest.mark.parametrize(
    "nothing",
    [
        pd.Series([None, None, None], dtype=object),
        pd.Series([np.nan] * 3),
        pd.Series([pd.NaT] * 3),
        pd.Series([None] * 3, dtype="category"),
        pd.Series([pd.NA] * 3, dtype="Int64"),
    ],
)
def test_a_column_of_nothing_fits_every_kind(nothing):
    X = pd.DataFrame(dict.fromkeys(SCHEMA.names, nothing))
    assert np.isnan(values(X)).all()


def test_an_all_missing_array_fits_every_kind():
    assert np.isnan(values(np.full((3, 3), np.nan))).all()
    assert np.isnan(values(pa.table(dict.fromkeys(SCHEMA.names, pa.nulls(3))))).all()


def test_a_table_without_rows_is_a_table():
    for X in (pd.DataFrame(DATA)[:0], pl.DataFrame(DATA)[:0], pa.table(DATA)[:0], np.zeros((0, 3))):
        assert values(X).shape == (3, 0)


@pytest.mark.parametrize(
    "y",
    [
        ["yes", "no", "yes"],
        np.array(["yes", "no", "yes"]),
        np.array(["yes", "no", "yes"], dtype=object),
        np.array([["yes"], ["no"], ["yes"]]),
        pd.Series(["yes", "no", "yes"], dtype="category"),
        pl.Series(["yes", "no", "yes"]),
        pa.array(["yes", "no", "yes"]),
    ],
)
def test_classes_become_their_numbers(y):
    target = encode_target(y, LABEL)
    assert target.dtype == np.int32
    assert target.tolist() == [1, 0, 1]


def test_classes_may_be_numbers_or_booleans():
    assert encode_target(np.array([2.0, -1.0]), Label("y", "class", (-1, 2))).tolist() == [1, 0]
    assert encode_target([True, False], Label("y", "class", (False, True))).tolist() == [1, 0]


def test_a_number_label_becomes_float64():
    label = Label("cost", "number")
    for y in ([1, 2], np.array([1, 2], dtype=np.float32), pl.Series([1, 2]), [True, 2]):
        target = encode_target(y, label)
        assert target.dtype == np.float64
        assert target.tolist() == [1, 2]
    assert encode_target([], label).shape == (0,)


@pytest.mark.parametrize(
    ("y", "label", "error", "wording"),
    [
        (["no", "maybe"], LABEL, SchemaError, "a class that the schema does not name. It names"),
        (["no", None], LABEL, TableError, r"missing \(NaN\) in some rows. Every row needs"),
        ([None, None], LABEL, TableError, "missing"),
        ([0, 1], LABEL, SchemaError, "a class that the schema does not name"),
        ([1.0, np.nan], Label("y", "class", (0, 1)), TableError, "missing"),
        ([1.0, np.nan], Label("y", "number"), TableError, "missing"),
        ([None], Label("y", "number"), TableError, "missing"),
        ([1.0, np.inf], Label("y", "number"), TableError, "holds an infinite number"),
        (["a"], Label("y", "number"), SchemaError, "is a number in the schema, but holds text"),
        (np.array(["2020-01-01"], "M8[D]"), Label("y", "number"), TableError, "dates or times"),
        (np.zeros((2, 2)), Label("y", "number"), TableError, "one dimension; got 2"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(y, label, error, wording):
    with pytest.raises(error, match=wording):
        encode_target(y, label)


letters = st.characters(codec="utf-8", exclude_characters="\0")
names = st.lists(st.text(letters, min_size=1, max_size=5), min_size=3, max_size=3, unique=True)
rows = st.lists(
    st.tuples(
        st.none() | st.floats(-(2.0**99), 2.0**99, width=32),
        st.none() | st.sampled_from(["", "a", "ß", "大"]),
        st.none() | st.booleans(),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(names, rows)
def test_odd_tables_are_the_same_through_every_frame(columns, cells):
    data = {name: [row[place] for row in cells] for place, name in enumerate(columns)}
    kinds = (
        Column(columns[0], "number"),
        Column(columns[1], "category", categories=("", "a", "ß", "大")),
        Column(columns[2], "boolean"),
    )
    schema = Schema(kinds, Label("".join(columns) + "y", "class", (0, 1)))
    expected = values(pa.table(data), schema)
    for frame in (pd.DataFrame(data, dtype=object), pl.DataFrame(data, strict=False)):
        shuffled = frame[[columns[2], columns[0], columns[1]]]
        assert np.array_equal(values(shuffled, schema), expected, equal_nan=True)


@settings(deadline=None)
@given(names, rows)
def test_what_is_described_can_be_read(columns, cells):
    data = pd.DataFrame(
        {name: [row[place] for row in cells] for place, name in enumerate(columns)}, dtype=object
    )
    y = np.arange(len(cells) + 2) % 2
    schema, facts = describe(data, y, label_kind="class")
    found = values(data, schema)
    assert found.shape == (3, len(cells))
    for column, line in zip(schema.columns, found, strict=True):
        if column.range is not None:
            assert column.range == (np.nanmin(line), np.nanmax(line))
        if column.categories is not None:
            assert f"categories of {column.name!r}" in facts
            assert set(line[~np.isnan(line)]) == set(range(len(column.categories)))
