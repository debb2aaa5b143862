"""Cuts from noisy histograms: on exact ones the same as ever, on noisy ones never nonsense."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.trees.frontier import ColumnCells, Slots
from spinney.trees.split import BestSplits, Criterion, LeastLeaf, best_splits


def level(random, n_nodes, n_kinds, *, n_rows=40, amounts=False):
    """Return the histograms of nodes with slots of every kind, and the slots themselves."""
    is_category = np.array([False, True, False, True])
    has_missing = np.array([True, True, False, False])
    n_bins = np.array([7, 5, 3, 9])
    cells = n_bins + has_missing
    slots = Slots.of(
        np.tile(np.arange(4, dtype=np.int32), (n_nodes, 1)),
        np.zeros((n_nodes, 4), np.int32),
        np.zeros((n_nodes, 4), np.uint8),
        np.tile(cells.astype(np.int32), (n_nodes, 1)),
    )
    counters = np.zeros((slots.n_cells, n_kinds), np.int64)
    for node in range(n_nodes):
        n = random.randint(0, n_rows)
        kinds = random.randint(0, n_kinds, n)
        for slot in range(4):
            at = slots.offset[node, slot] + random.randint(0, cells[slot], n)
            if amounts:
                np.add.at(counters[:, 0], at, 1)
                np.add.at(counters[:, 1], at, kinds * 4_000_000 + slot)
            else:
                np.add.at(counters, (at, kinds), 1)
    return counters, slots, ColumnCells(n_bins.astype(np.int64), is_category, has_missing)


def found(counters, slots, columns, criterion, *, is_noisy, least=1, share=0.0):
    return best_splits(
        counters,
        slots,
        columns,
        criterion,
        least=LeastLeaf(least, share),
        root_weight=np.zeros(len(slots.feature)),
        n_threads=1,
        is_noisy=is_noisy,
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.integers(2, 4),
    name=st.sampled_from(["gini", "entropy"]),
    weight=st.sampled_from([1.0, 2.5]),
    limits=st.sampled_from([(1, 0.0), (3, 0.0), (1, 0.2)]),
)
def test_without_noise_the_cuts_are_the_exact_ones(seed, n_classes, name, weight, limits):
    counters, slots, columns = level(np.random.RandomState(seed), 12, n_classes)
    weights = np.ones(n_classes)
    weights[0] = weight
    criterion = Criterion.of(name, weights, 1000)
    how = {"least": limits[0], "share": limits[1]}
    exact = found(counters.astype(np.int32), slots, columns, criterion, is_noisy=False, **how)
    noisy = found(counters, slots, columns, criterion, is_noisy=True, **how)
    require_the_same(exact, noisy)


def require_the_same(exact, noisy, *, among=True):
    """Cuts are equal but where two are equally good: the exact search may round differently."""
    cut = (exact.slot >= 0) & among
    assert np.array_equal(cut, noisy.slot >= 0)
    assert np.array_equal(exact.total, noisy.total)
    assert np.allclose(exact.gain[cut], noisy.gain[cut], rtol=1e-9, atol=1e-9)
    same = cut & (exact.slot == noisy.slot) & (exact.cut == noisy.cut)
    same &= (exact.bin_set == noisy.bin_set).all(axis=1)
    for field in ("missing_left", "left"):
        assert np.array_equal(getattr(exact, field)[same], getattr(noisy, field)[same]), field
    assert same.sum() >= 0.6 * cut.sum()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), least=st.sampled_from([1, 3]))
def test_without_noise_the_cuts_of_amounts_are_the_exact_ones(seed, least):
    counters, slots, columns = level(np.random.RandomState(seed), 12, 4, amounts=True)
    counters = np.ascontiguousarray(counters[:, :2])
    for cell in range(slots.n_cells):  # every slot of a node must hold the same sums
        counters[cell, 1] -= counters[cell, 1] % 4_000_000
    criterion = Criterion.of("squared_error", np.zeros(0), 1000)
    exact = found(counters, slots, columns, criterion, is_noisy=False, least=least)
    noisy = found(counters, slots, columns, criterion, is_noisy=True, least=least)
    # Only the exact search cuts amounts where that gains nothing.
    require_the_same(exact, noisy, among=exact.gain > 0)


def sides(best: BestSplits, counters, slots, node):
    """Return what the chosen cut sends left and right, by the slot's own cells."""
    first = slots.offset[node, best.slot[node]]
    cells = counters[first : first + slots.cells[node, best.slot[node]]]
    return best.left[node], cells.sum(axis=0) - best.left[node]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1, 30, 10**6, 2**45]))
def test_noise_of_any_size_gives_cuts_that_keep_the_rules(seed, scale):
    random = np.random.RandomState(seed)
    counters, slots, columns = level(random, 12, 3)
    counters += np.rint(random.laplace(0, scale, counters.shape)).astype(np.int64)
    criterion = Criterion.of("gini", np.ones(3), 0)
    best = found(counters, slots, columns, criterion, is_noisy=True, least=5)
    for node in np.flatnonzero(best.slot >= 0):
        assert np.isfinite(best.gain[node])
        left = best.left[node]
        assert left.sum() >= 5
        assert (best.total[node] - left).sum() >= 5
        if not columns.is_category[best.slot[node]]:
            there, rest = sides(best, counters, slots, node)
            assert np.array_equal(best.total[node], there + rest)
            assert best.cut[node] <= 254


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1, 30, 10**6]))
def test_noise_on_amounts_never_promises_more_than_the_range(seed, scale):
    random = np.random.RandomState(seed)
    counters, slots, columns = level(random, 12, 4, amounts=True)
    counters = np.ascontiguousarray(counters[:, :2])
    counters[:, 0] += np.rint(random.laplace(0, scale, len(counters))).astype(np.int64)
    counters[:, 1] += np.rint(random.laplace(0, scale * 2**23, len(counters))).astype(np.int64)
    criterion = Criterion.of("squared_error", np.zeros(0), 0)
    best = found(counters, slots, columns, criterion, is_noisy=True)
    for node in np.flatnonzero(best.slot >= 0):
        n_left, n_all = best.left[node, 0], best.total[node, 0]
        assert 1 <= n_left < n_all
        most = float(2**24 - 1) ** 2 * n_left * (n_all - n_left) / n_all
        assert 0 < best.gain[node] <= most * (1 + 1e-9)


def test_a_node_without_a_cut_holds_the_mean_of_its_slots():
    slots = Slots.of(
        np.array([[0, 1]], np.int32),
        np.zeros((1, 2), np.int32),
        np.zeros((1, 2), np.uint8),
        np.array([[2, 2]], np.int32),
    )
    columns = ColumnCells(np.array([2, 2]), np.zeros(2, bool), np.zeros(2, bool))
    counters = np.array([[-4, 3], [2, 1], [-1, 2], [-5, 0]], np.int64)
    criterion = Criterion.of("gini", np.ones(2), 0)
    best = found(counters, slots, columns, criterion, is_noisy=True, least=100)
    assert best.slot[0] == -1
    assert best.total[0].tolist() == [-4, 3]  # of (-2, 4) and (-6, 2)


@pytest.mark.parametrize("name", ["gini", "entropy"])
def test_negative_counts_count_as_none_inside_the_formula(name):
    slots = Slots.of(
        np.array([[0]], np.int32),
        np.zeros((1, 1), np.int32),
        np.zeros((1, 1), np.uint8),
        np.array([[2]], np.int32),
    )
    columns = ColumnCells(np.array([2]), np.zeros(1, bool), np.zeros(1, bool))
    criterion = Criterion.of(name, np.ones(2), 0)
    signed = np.array([[10, -3], [-2, 10]], np.int64)
    pure = np.array([[10, 0], [0, 10]], np.int64)
    noisy = found(signed, slots, columns, criterion, is_noisy=True)
    clean = found(pure, slots, columns, criterion, is_noisy=True)
    assert noisy.slot[0] == clean.slot[0] == 0
    assert noisy.left[0].tolist() == [10, -3]  # kept signed
    assert noisy.total[0].tolist() == [8, 7]
    assert noisy.gain[0] > 0.7 * clean.gain[0]
