"""Features in memory, a few rows at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import InternalError
from spinney.tables.categories import CategoryIndex
from spinney.tables.columns import MatrixColumns, VectorColumns


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, bool])
def test_a_matrix_is_turned_for_the_rows_asked_for(order, dtype):
    matrix = (np.arange(15_000) % 7).reshape(5000, 3).astype(dtype, order=order)
    columns = MatrixColumns(matrix)
    assert columns.n_rows == 5000
    for rows in (slice(None), slice(10, 4500), np.array([4999, 0, 0, 17])):
        values = columns.values(rows)
        assert values.dtype == np.float32
        assert values.flags.c_contiguous
        assert np.array_equal(values, matrix[rows].T.astype(np.float32))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, bool])
def test_lines_are_the_values_of_each_row(order, dtype):
    matrix = (np.arange(90) % 7).reshape(30, 3).astype(dtype, order=order)
    matrix.flags.writeable = False
    for columns in (
        MatrixColumns(matrix),
        VectorColumns(tuple(matrix.T)),
        MatrixColumns(matrix, {1: CategoryIndex((0, 3, 5))}),
    ):
        lines = columns.lines(slice(5, 20))
        assert lines.dtype == np.float32
        assert lines.flags.c_contiguous
        assert lines.flags.writeable
        assert np.array_equal(lines, columns.values(slice(5, 20)).T, equal_nan=True)


def test_values_are_the_callers_own():
    for columns in (
        MatrixColumns(np.zeros((3, 2), dtype=np.float32, order="F")),
        VectorColumns((np.zeros(3, dtype=np.float32),)),
    ):
        columns.values(slice(None))[:] = 1
        assert not columns.values(slice(None)).any()


def test_categories_of_a_matrix_are_coded_as_they_are_read():
    matrix = np.array([[30.0, 5], [10, 6], [np.nan, 7], [99, 8]])
    columns = MatrixColumns(matrix, {0: CategoryIndex((10, 30))})
    expected = np.array([[1, 0, np.nan, np.nan], [5, 6, 7, 8]])
    assert np.array_equal(columns.values(slice(None)), expected, equal_nan=True)


def test_vectors_keep_their_types_until_read():
    columns = VectorColumns((np.array([1, 2, 3], dtype=np.int8), np.array([0.5, np.nan, 2])))
    assert columns.n_rows == 3
    found = columns.values(np.array([2, 1]))
    assert np.array_equal(found, np.array([[3, 2], [2, np.nan]]), equal_nan=True)


def test_vectors_of_unequal_length_are_a_bug():
    with pytest.raises(InternalError, match="of one length"):
        VectorColumns((np.zeros(2), np.zeros(3)))


@settings(deadline=None)
@given(st.integers(0, 5000), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_both_kinds_of_columns_agree(n_rows, n_columns, seed):
    random = np.random.RandomState(seed)
    matrix = random.normal(size=(n_rows, n_columns))
    rows = np.flatnonzero(random.randint(0, 2, n_rows))
    vectors = VectorColumns(tuple(matrix.T))
    assert np.array_equal(MatrixColumns(matrix).values(rows), vectors.values(rows))
