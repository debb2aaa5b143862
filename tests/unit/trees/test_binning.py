"""Map values to bins: one byte per cell, a separate bin for gaps, one bin per category."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import SettingError
from spinney.trees import binning as binning_module
from spinney.trees._kernels import binning as kernels
from spinney.trees.binning import (
    BinnedTable,
    Binning,
    category_bins,
    column_ranges,
    equal_width,
)
from spinney.trees.dtypes import MAX_BINS, MISSING

FLOATS = st.floats(width=32, allow_infinity=False)


def padded(edges):
    row = np.full(MAX_BINS, np.inf, np.float32)
    row[: len(edges)] = edges
    return row


@given(
    values=st.lists(FLOATS, min_size=1, max_size=60),
    edges=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=254),
)
def test_a_number_s_bin_is_how_many_edges_lie_below_it(values, edges):
    column = np.array(values, np.float32)
    sorted_edges = np.unique(np.array(edges, np.float32))
    out = np.empty(column.size, np.uint8)
    kernels.bin_numbers(column, padded(sorted_edges), out)
    expected = np.searchsorted(sorted_edges, column, side="left")
    expected[np.isnan(column)] = MISSING
    assert out.tolist() == expected.tolist()


def test_254_edges_make_255_bins_and_gaps_have_their_own():
    edges = np.arange(254, dtype=np.float32)
    values = np.array([-1.0, 0.0, 0.5, 253.0, 253.5, 3e38, np.nan], np.float32)
    out = np.empty(values.size, np.uint8)
    kernels.bin_numbers(values, padded(edges), out)
    assert out.tolist() == [0, 0, 1, 253, 254, 254, 255]


def test_the_cut_of_a_bin_is_the_comparison_with_its_edge():
    """`value <= edges[cut]` is equivalent to `bin <= cut` on both sides of every edge."""
    edges = np.array([-1.5, 0.0, 1e-40, 7.0], np.float32)
    around = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
    values = around.astype(np.float32)
    out = np.empty(values.size, np.uint8)
    kernels.bin_numbers(values, padded(edges), out)
    for cut, edge in enumerate(edges):
        assert (out <= cut).tolist() == (values <= edge).tolist()


def test_categories_have_their_bins():
    out = np.empty(4, np.uint8)
    bins = np.array([2, 0, 1], np.uint8)
    kernels.bin_categories(np.array([0.0, 1.0, np.nan, 2.0], np.float32), bins, out)
    assert out.tolist() == [2, 0, MISSING, 1]


def test_ordered_words_sort_as_their_numbers_do():
    numbers = np.array([-3e38, -1.0, -1e-45, -0.0, 0.0, 1e-45, 1.0, 3e38], np.float32)
    words = np.empty(numbers.size, np.uint32)
    kernels.ordered_words(numbers, words)
    assert words[3] == words[4]
    assert np.all(np.diff(np.delete(words, 3).astype(np.int64)) > 0)


# --- categories ----------------------------------------------------------------------------------


def test_few_categories_keep_a_bin_each():
    assert category_bins([5, 0, 9], 3).tolist() == [0, 1, 2]


def test_past_the_limit_the_rarest_share_the_last_bin():
    assert category_bins([5, 1, 9, 2, 7], 3).tolist() == [2, 2, 0, 2, 1]


def test_of_equally_frequent_categories_the_first_are_kept():
    assert category_bins([4, 4, 4, 4], 3).tolist() == [0, 1, 2, 2]


@given(counts=st.lists(st.integers(0, 5), min_size=1, max_size=300), max_bins=st.integers(2, 255))
def test_no_more_bins_than_the_limit_and_none_left_out(counts, max_bins):
    bins = category_bins(counts, max_bins)
    assert bins.size == len(counts)
    assert set(bins.tolist()) == set(range(min(len(counts), max_bins)))
    if len(counts) > max_bins:
        alone = [i for i, b in enumerate(bins) if b != max_bins - 1]
        shared = [i for i, b in enumerate(bins) if b == max_bins - 1]
        assert min(counts[i] for i in alone) >= max(counts[i] for i in shared)


# --- declared ranges -----------------------------------------------------------------------------


def test_a_range_is_cut_into_equal_parts():
    assert equal_width("age", (0.0, 100.0), 4).tolist() == [25.0, 50.0, 75.0]


def test_a_range_of_one_number_has_one_edge():
    assert equal_width("age", (3.0, 3.0), 200).tolist() == [3.0]


def test_a_range_narrower_than_float32_can_tell_apart_has_few_edges():
    edges = equal_width("id", (16777216.0, 16777220.0), 100)
    assert edges.tolist() == sorted(set(edges.tolist()))
    assert edges.size <= 4


def test_a_range_that_is_not_declared_is_asked_for():
    with pytest.raises(SettingError, match=r"'age' has no declared range.*binning='quantiles'"):
        equal_width("age", None, 4)


# --- a whole table -------------------------------------------------------------------------------


def three_columns():
    return Binning(
        (np.array([0.0, 1.0], np.float32), np.zeros(0, np.float32), np.zeros(1, np.float32)),
        (np.zeros(0, np.uint8), np.array([1, 0, 1], np.uint8), np.zeros(0, np.uint8)),
        np.array([True, False, False]),
    )


def test_a_binning_tells_what_trees_need_to_know():
    columns = three_columns().columns
    assert columns.n_bins.tolist() == [3, 2, 2]
    assert columns.is_category.tolist() == [False, True, False]
    assert columns.has_missing.tolist() == [True, False, False]


def test_a_digest_tells_binnings_apart():
    one, same = three_columns(), three_columns()
    assert one.digest() == same.digest()
    moved = Binning(
        (np.array([0.0], np.float32), np.array([1.0], np.float32), one.edges[2]),
        one.bin_of_category,
        one.has_missing,
    )
    without = Binning(one.edges, one.bin_of_category, np.zeros(3, bool))
    assert len({one.digest(), moved.digest(), without.digest()}) == 3


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_batches_and_blocks_do_not_show_in_a_binned_table(batch, n_threads, monkeypatch):
    monkeypatch.setattr(binning_module, "BLOCK_ROWS", 64)
    random = np.random.RandomState(0)
    n = 300
    values = np.stack(
        [random.standard_normal(n), random.randint(0, 3, n), random.randint(0, 2, n)]
    ).astype(np.float32)
    values[0, ::9] = np.nan
    target, keys = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.uint64)
    batches = [
        (values[:, a : a + batch], target[a : a + batch], keys[a : a + batch])
        for a in range(0, n, batch)
    ]
    table = BinnedTable.of_batches(batches, three_columns(), n, n_threads=n_threads)
    expected = np.empty((3, n), np.uint8)
    three_columns().codes(values, expected)
    assert table.block_start.tolist() == [0, 64, 128, 192, 256, 300]
    assert table.n_rows == n
    assert np.array_equal(table.rows(np.arange(n)), expected.T)
    chosen = np.array([299, 0, 63, 64, 65, 64])
    assert np.array_equal(table.rows(chosen), expected.T[chosen])
    assert table.target.tolist() == target.tolist()
    assert table.keys.tolist() == keys.tolist()


def test_a_table_may_have_no_rows():
    none = (np.zeros((3, 0), np.float32), np.zeros(0, np.int32), np.zeros(0, np.uint64))
    table = BinnedTable.of_batches([none], three_columns(), 0, n_threads=1)
    assert table.n_rows == 0
    assert table.codes.size == 0


@given(n_columns=st.integers(0, 40), n_threads=st.integers(1, 9))
def test_every_column_falls_to_one_thread(n_columns, n_threads):
    ranges = column_ranges(n_columns, n_threads)
    assert [i for a, b in ranges for i in range(a, b)] == list(range(n_columns))
    assert len(ranges) <= n_threads


def test_tables_side_by_side_keep_their_blocks():
    random = np.random.default_rng(3)

    def table(heights):
        rows = sum(heights)
        return BinnedTable(
            random.integers(0, 255, rows * 2).astype(np.uint8),
            np.cumsum([0, *heights]),
            2,
            random.integers(0, 2, rows).astype(np.uint8),
            random.integers(0, 2**63, rows).astype(np.uint64),
        )

    apart = [table(heights) for heights in ([3, 2], [0], [4])]
    given = [*apart]
    joined = BinnedTable.side_by_side(given)
    assert not given  # so that no table is held twice
    assert joined.block_start.tolist() == [0, 3, 5, 5, 9]
    assert np.array_equal(joined.by_column(), np.hstack([one.by_column() for one in apart]))
    for name in ("target", "keys"):
        assert np.array_equal(
            getattr(joined, name), np.concatenate([getattr(one, name) for one in apart])
        )
