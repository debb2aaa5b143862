"""Pooled quantiles found by counting are the order statistics of the pooled table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import ProtocolError
from spinney.trees._kernels import binning as kernels
from spinney.trees.binning import Binning
from spinney.trees.quantiles import (
    DIGITS,
    LEAD_BITS,
    QuantileSearch,
    Refinement,
    count_refined,
    leading_counts,
)

TINY = np.finfo(np.float32).tiny


def edges_by_counting(parties, max_bins, n_threads=1):
    """Find edges as a coordinator does: sums of the parties' counts, four rounds."""
    leading = np.zeros((len(parties[0]), 2**LEAD_BITS), np.int32)
    for values in parties:
        leading_counts(values, leading, n_threads)
    search = QuantileSearch(leading.astype(np.int64), max_bins)
    rounds = 0
    while (question := search.question()) is not None:
        rounds += 1
        counts = np.zeros(question.n_counters, np.int32)
        for values in parties:
            count_refined(values, question, counts, n_threads)
        in_cells = counts.reshape(question.n_cells, -1).sum(axis=1)
        assert question.fits(len(parties[0]))
        assert np.array_equal(in_cells, question.held)
        search.answer(counts.astype(np.int64))
    assert rounds <= len(DIGITS)
    return search.edges()


def edges_by_sorting(column, max_bins):
    """Return the values after which a sorted, pooled column is cut."""
    column = column[~np.isnan(column)]
    distinct = np.unique(column)
    if distinct.size <= max_bins:
        return [float(value) for value in distinct[:-1]]
    near_zero = np.abs(column) < TINY  # too small to matter: these count as zero
    n_zero = int(near_zero.sum())
    rest = np.sort(column[~near_zero])
    forced = []
    if n_zero and (rest < 0).any():
        forced.append(np.float32(-TINY))
    if n_zero and (rest > 0).any():
        forced.append(np.float32(0.0))
    forced = forced[: max_bins - 1]
    n_edges = max(0, max_bins - 1 - len(forced))
    ranks = {i * rest.size // (n_edges + 1) for i in range(1, n_edges + 1)}
    found = {rest[r - 1] for r in ranks if 0 < r < rest.size}
    found -= {rest[-1]} if rest.size else set()
    return sorted({float(edge) for edge in (*found, *forced)})


def assert_cuts_after(column, edges, values):
    """Check that edges divide the column's rows as these values would, and are round."""
    column = column[~np.isnan(column)]
    assert len(edges) == len(values)
    assert np.all(np.diff(edges) > 0)
    assert np.array_equal(
        np.searchsorted(edges, column), np.searchsorted(np.array(values, np.float32), column)
    )


NUMBERS = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False),
    st.sampled_from([0.0, 0.0, -0.0, 1.0, 1.0, -1.0, 2.0, np.nan]),
    st.integers(-5, 5).map(float),
)


@settings(max_examples=150)
@given(
    column=st.lists(NUMBERS, min_size=1, max_size=80),
    n_parties=st.integers(1, 4),
    max_bins=st.sampled_from([2, 3, 4, 8, 255]),
)
def test_edges_are_the_order_statistics(column, n_parties, max_bins):
    values = np.array([column], np.float32)
    parties = [values[:, party::n_parties] for party in range(n_parties)]
    (edges,) = edges_by_counting(parties, max_bins)
    assert_cuts_after(values[0], edges, edges_by_sorting(values[0], max_bins))
    assert edges.dtype == np.float32
    assert len(edges) < max_bins


@pytest.mark.parametrize("n_threads", [1, 3])
def test_many_columns_are_searched_at_once(n_threads):
    random = np.random.RandomState(0)
    values = np.stack(
        [
            random.standard_normal(5000),
            random.standard_cauchy(5000),
            random.randint(0, 3, 5000),
            np.exp(10 * random.standard_normal(5000)),
            np.full(5000, np.nan),
            np.where(random.random_sample(5000) < 0.9, 0.0, random.standard_normal(5000)),
            np.full(5000, -7.25),
        ]
    ).astype(np.float32)
    parties = [values[:, :11], values[:, 11:3000], values[:, 3000:]]
    found = edges_by_counting(parties, 255, n_threads)
    for column, edges in zip(values, found, strict=True):
        assert_cuts_after(column, edges, edges_by_sorting(column, 255))
    assert found[4].size == found[6].size == 0


def test_bins_of_many_numbers_hold_about_as_many_each():
    random = np.random.RandomState(0)
    values = np.exp(random.standard_normal((1, 20_000))).astype(np.float32)
    (edges,) = edges_by_counting([values], 255)
    sizes = np.bincount(np.searchsorted(edges, values[0], side="left"))
    assert edges.size == 254
    assert sizes.max() - sizes.min() <= 2


def test_zero_gets_a_bin_of_its_own():
    values = np.array([[-2.0, -1.0, 0.0, 0.0, -0.0, 0.0, 1.0, 2.0]], np.float32)
    (edges,) = edges_by_counting([values], 8)
    codes = np.empty((1, 8), np.uint8)
    Binning((edges,), (np.zeros(0, np.uint8),), np.zeros(1, bool)).codes(values, codes)
    assert len(set(codes[0, 2:6].tolist())) == 1
    assert codes[0, 2] not in codes[0, [0, 1, 6, 7]]


def test_few_distinct_values_get_a_bin_each():
    values = np.array([[3.0, 1.0, 2.0, 5.0, 3.0, 1.0]], np.float32)
    (edges,) = edges_by_counting([values], 255)
    assert edges.tolist() == [1.0, 2.0, 4.0]


@settings(max_examples=100)
@given(
    distinct=st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False), unique=True, min_size=1
    ),
    n_parties=st.integers(1, 4),
    spare=st.integers(0, 3),
    data=st.data(),
)
def test_every_value_gets_its_own_bin_where_they_are_few(distinct, n_parties, spare, data):
    """However rare it is, and however small; -0.0 is 0.0."""
    values = np.unique(np.array(distinct, np.float32) + np.float32(0.0))
    max_bins = max(2, values.size + spare)
    often = data.draw(st.sampled_from(values.tolist()))
    column = np.concatenate([values, np.full(500, often, np.float32)])[None]
    parties = [column[:, party::n_parties] for party in range(n_parties)]
    (edges,) = edges_by_counting(parties, max_bins)
    codes = np.empty((1, values.size), np.uint8)
    Binning((edges,), (np.zeros(0, np.uint8),), np.zeros(1, bool)).codes(values[None], codes)
    assert codes[0].tolist() == list(range(values.size))


def test_one_value_too_many_goes_by_ranks_again():
    values = np.arange(1, 10, dtype=np.float32)[None]
    assert edges_by_counting([values], 9)[0].size == 8
    assert edges_by_counting([values], 8)[0].size == 7


def test_edges_are_round_numbers_between_values_and_not_values():
    """A salary to the penny is nobody's business; the bins are those it would have made."""
    random = np.random.RandomState(0)
    for n in (200, 5000):
        salaries = np.round(random.lognormal(10, 1, (1, n)), 2).astype(np.float32)
        salaries = np.concatenate([salaries, -salaries])
        for column, edges in zip(salaries, edges_by_counting([salaries], 255), strict=True):
            assert edges.size >= 199
            # Neighbours may be so close that there is no round number between them.
            assert np.isin(edges, column).mean() < 0.02


@pytest.mark.parametrize(
    ("low", "high", "edge"),
    [
        (50_432.17, 50_433.9, 50_433.0),
        (1.0, 2.0, 1.0),
        (3.0, 5.0, 4.0),
        (-5.0, -3.0, -4.0),
        (-1.5, 0.0, -(2.0**-63)),
        (0.0, 7.0, 0.0),
        (-2.0, 2.0, -2.0),
        (0.1, 0.3, 0.125),
    ],
)
def test_the_roundest_number_between_two(low, high, edge):
    (edges,) = edges_by_counting([np.array([[low, high]], np.float32)], 2)
    assert low <= edges[0] < high
    assert edges.tolist() == [edge]


def test_neighbouring_floats_are_told_apart():
    low = np.float32(1.0)
    values = np.array([[low, np.nextafter(low, np.float32(2.0))]], np.float32)
    (edges,) = edges_by_counting([values], 255)
    assert edges.tolist() == [1.0]


def test_a_column_without_numbers_has_no_edges_and_asks_nothing():
    search = QuantileSearch(np.zeros((2, 2**LEAD_BITS), np.int64), 16)
    assert search.question() is None
    assert [edges.size for edges in search.edges()] == [0, 0]


def test_leading_counts_leave_out_gaps():
    values = np.array([[1.0, np.nan, 1.0, -1.0]], np.float32)
    counts = np.zeros((1, 2**LEAD_BITS), np.int32)
    leading_counts(values, counts, 1)
    words = np.empty(1, np.uint32)
    kernels.ordered_words(np.array([1.0], np.float32), words)
    assert counts.sum() == 3
    assert counts[0, words[0] >> np.uint32(20)] == 2


def test_counts_that_do_not_add_up_are_refused():
    """Parties that miscount, or one that left between two rounds."""
    leading = np.zeros((1, 2**LEAD_BITS), np.int64)
    leading[0, 0xBF8] = 10
    search = QuantileSearch(leading, 16)
    question = search.question()
    assert question is not None
    with pytest.raises(ProtocolError, match="do not add up to their earlier counts"):
        search.answer(np.zeros(question.n_counters, np.int64))


@pytest.mark.parametrize("held", [[9], [9, 9, 9], [0, 9], [9, 1 << 40]])
def test_held_values_that_do_not_fit_the_cells_are_refused(held):
    prefixes = (np.array([1, 2], np.uint32),)
    assert Refinement(0, prefixes, np.array([9, 9])).fits(1)
    assert not Refinement(0, prefixes, np.array(held)).fits(1)
