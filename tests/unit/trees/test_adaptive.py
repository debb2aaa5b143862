"""The histograms of paper S1, against a plain version of Algorithms 2 and 3."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.trees.adaptive import (
    AdaptiveHistograms,
    merge_histograms,
    midpoints,
    stream_histograms,
)
from spinney.trees.binning import BinnedTable
from spinney.trees.frontier import ColumnCells, Slots
from spinney.trees.rows import Standing
from spinney.trees.split import Criterion, LeastLeaf, best_splits


def inserted(bins, mean, moments):
    """Add moments at a mean to a sorted list of [mean, moments]."""
    for place, (here, _) in enumerate(bins):
        if here == mean:
            bins[place][1] += moments
            return
        if here > mean:
            bins.insert(place, [mean, moments.copy()])
            return
    bins.append([mean, moments.copy()])


def cut_back(bins, most, rows_of):
    """Merge the two nearest bins until at most `most` are left (equations 4 and 5)."""
    while len(bins) > most:
        gaps = [after[0] - before[0] for before, after in pairwise(bins)]
        i = int(np.argmin(gaps))
        (a, held), (b, more) = bins[i], bins.pop(i + 1)
        n, m = float(rows_of(held)), float(rows_of(more))
        bins[i] = [(n * a + m * b) / (n + m), held + more]


def one_slot(n_cells, *, is_category=False, has_missing=False):
    slots = Slots.of(
        np.zeros((1, 1), np.int32),
        np.zeros((1, 1), np.int32),
        np.zeros((1, 1), np.uint8),
        np.array([[n_cells + has_missing]], np.int32),
    )
    return slots, ColumnCells(np.array([n_cells]), np.array([is_category]), np.array([has_missing]))


def table_of(values, target):
    values = np.array(values, np.float32)
    starts = np.array([0, values.size // 2, values.size])
    table = BinnedTable(values, starts, 1, target, np.zeros(values.size, np.uint64))
    rows = np.concatenate([np.arange(values.size // 2), np.arange(values.size - values.size // 2)])
    entries = rows.astype(np.uint32) | np.uint32(1 << 27)
    return table, Standing(entries, starts[None, :-1], starts[None, 1:])


def streamed_twin(values, target, most, n_classes):
    width = n_classes or 2
    bins: list[list[Any]] = []
    missing = np.zeros(width, np.int64)
    for value, label in zip(values, target, strict=True):
        one = np.zeros(width, np.int64)
        if n_classes:
            one[label] = 1
        else:
            one[:] = 1, label
        if np.isnan(value):
            missing += one
            continue
        inserted(bins, float(np.float32(value)), one)
        cut_back(bins, most, (lambda held: held.sum()) if n_classes else (lambda held: held[0]))
    return bins, missing


VALUES = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0, np.nan]),
    st.floats(-1000, 1000, width=32),
)


@given(
    values=st.lists(VALUES, min_size=1, max_size=60),
    most=st.integers(2, 12),
    n_classes=st.sampled_from([0, 2, 3]),
)
def test_a_stream_of_rows_becomes_the_histogram_of_algorithm_2(values, most, n_classes):
    random = np.random.RandomState(len(values))
    target = random.randint(0, n_classes or 100, len(values)).astype(
        np.uint8 if n_classes else np.int32
    )
    slots, columns = one_slot(most, has_missing=True)
    table, standing = table_of(values, target)
    found = stream_histograms(
        table, columns, standing, slots, (0, 1), n_classes=n_classes, n_threads=1
    )
    bins, missing = streamed_twin(values, target, most, n_classes)
    assert found.means[: len(bins)].tolist() == [mean for mean, _ in bins]
    assert found.moments[: len(bins)].tolist() == [held.tolist() for _, held in bins]
    assert not found.moments[len(bins) : most].any()
    assert found.moments[most].tolist() == missing.tolist()


@given(
    parties=st.lists(st.lists(st.floats(-100, 100, width=32), max_size=15), min_size=1, max_size=4),
    most=st.integers(2, 8),
)
def test_histograms_of_parties_merge_as_in_algorithm_3(parties, most):
    slots, columns = one_slot(most)
    parts = []
    together: list[list[Any]] = []
    for values in parties:
        target = (np.arange(len(values)) % 2).astype(np.uint8)
        table, standing = table_of(values, target)
        part = stream_histograms(table, columns, standing, slots, (0, 1), n_classes=2, n_threads=1)
        parts.append(part)
        for mean, held in zip(part.means, part.moments, strict=True):
            if held.any():
                inserted(together, float(mean), held)
    cut_back(together, most, lambda held: held.sum())
    found = merge_histograms(parts, columns, slots, is_regression=False)
    n = len(together)
    assert found.means[:n].tolist() == [mean for mean, _ in together]
    assert found.moments[:n].tolist() == [held.tolist() for _, held in together]
    assert found.moments.sum() == sum(map(len, parties))


def test_categories_and_gaps_simply_add_up():
    slots, columns = one_slot(3, is_category=True, has_missing=True)
    parts = []
    for values, labels in (([0, 2, np.nan], [0, 1, 1]), ([2, 2], [1, 0])):
        table, standing = table_of(values, np.array(labels, np.uint8))
        parts.append(
            stream_histograms(table, columns, standing, slots, (0, 1), n_classes=2, n_threads=1)
        )
    found = merge_histograms(parts, columns, slots, is_regression=False)
    assert found.moments.tolist() == [[1, 0], [0, 0], [1, 2], [0, 1]]


def test_with_a_bin_for_every_value_nothing_is_lost():
    values = [3.0, 1.0, 2.0, 2.0, 1.0]
    slots, columns = one_slot(5)
    table, standing = table_of(values, np.array([1, 0, 0, 1, 0], np.uint8))
    found = stream_histograms(table, columns, standing, slots, (0, 1), n_classes=2, n_threads=1)
    assert found.means[:3].tolist() == [1.0, 2.0, 3.0]
    assert found.moments[:3].tolist() == [[2, 0], [1, 1], [0, 1]]


@pytest.mark.parametrize(
    ("moments", "threshold"),
    [
        ([[4, 0], [0, 4], [0, 0]], 1.5),  # halfway from 1 to 2
        ([[4, 0], [3, 0], [0, 5]], np.inf),  # all numbers left, the gaps right
    ],
)
def test_a_threshold_lies_halfway_between_two_bins(moments, threshold):
    slots, columns = one_slot(2, has_missing=True)
    found = AdaptiveHistograms(np.array([1.0, 2.0, 0.0]), np.array(moments, np.int64))
    best = best_splits(
        found.moments,
        slots,
        columns,
        Criterion.of("gini", np.ones(2), 100),
        least=LeastLeaf(1),
        root_weight=np.zeros(1),
        n_threads=1,
    )
    assert midpoints(best, found, columns, slots).tolist() == [threshold]
