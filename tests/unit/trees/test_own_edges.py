"""Edges found by sorting one table are those that counting digit by digit finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.trees.own_edges import edges_of_values
from spinney.trees.quantiles import LEAD_BITS, QuantileSearch, count_refined, leading_counts

TINY = float(np.finfo(np.float32).tiny)
VALUES = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, np.nan, TINY, -TINY, TINY / 4, -TINY / 4]),
    st.floats(width=32, allow_infinity=False),
    st.integers(-3, 3).map(float),
    st.floats(0, 1, width=32),
)


def edges_by_counting(values, max_bins):
    leading = np.zeros((len(values), 2**LEAD_BITS), np.int32)
    leading_counts(values, leading, 1)
    search = QuantileSearch(leading.astype(np.int64), max_bins)
    while (question := search.question()) is not None:
        counts = np.zeros(question.n_counters, np.int32)
        count_refined(values, question, counts, 1)
        search.answer(counts.astype(np.int64))
    return search.edges()


def assert_same(values, max_bins, n_threads=1):
    is_number = np.ones(len(values), np.bool_)
    found = edges_of_values(values, is_number, max_bins, n_threads)
    expected = edges_by_counting(values, max_bins)
    assert [edges.tobytes() for edges in found] == [edges.tobytes() for edges in expected]


@given(st.lists(VALUES, min_size=1, max_size=60), st.sampled_from([2, 3, 5, 16, 255]))
def test_any_values_have_the_edges_that_counting_finds(values, max_bins):
    assert_same(np.array([values], np.float32), max_bins)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_many_columns_have_the_edges_that_counting_finds(n_threads):
    random = np.random.default_rng(0)
    values = random.standard_normal((9, 700)).astype(np.float32)
    values[1] = np.round(values[1], 1)
    values[2] *= random.random(700) < 0.2  # mostly zero
    values[3] = np.exp(8 * values[3])
    values[4, :30] = np.nan
    values[5] = np.nan
    values[6] = -np.abs(values[6]) * (random.random(700) < 0.9)
    values[7] = 1000 + values[7] / 1000
    values[8] = random.integers(0, 3, 700)
    for max_bins in (2, 3, 33, 255):
        assert_same(values, max_bins, n_threads)


def test_columns_that_are_no_numbers_have_no_edges():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    edges = edges_of_values(values, np.array([False, True]), 255, 1)
    assert [one.size for one in edges] == [0, 2]
