"""Cuts from noisy histograms: the same as exact cuts without noise, and sound with noise."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spinney.trees.frontier import ColumnCells, Slots
from spinney.trees.split import Criterion, LeastLeaf, best_splits


def found_in(cells_of_slot, is_category, has_missing, criterion, **how):
    n_slots = len(cells_of_slot)
    n_cells = np.array([[len(cells) for cells in cells_of_slot]], np.int32)
    zeros = np.zeros((1, n_slots), np.int32)
    features = np.arange(n_slots, dtype=np.int32)[None, :]
    slots = Slots.of(features, zeros, zeros.astype(np.uint8), n_cells)
    columns = ColumnCells(
        n_cells[0].astype(np.int64) - np.array(has_missing),
        np.array(is_category),
        np.array(has_missing),
    )
    counters: Any = np.concatenate(cells_of_slot).astype(np.int64)
    return best_splits(
        counters,
        slots,
        columns,
        criterion,
        least=how.get("least", LeastLeaf(1)),
        root_weight=np.zeros(1),
        n_threads=1,
        is_noisy=how["is_noisy"],
    )


@st.composite
def nodes(draw, *, signed):
    """Draw a node's slots over the same rows; with `signed`, noise changes the counters."""
    n_classes = draw(st.sampled_from([0, 2, 3]))
    n_slots = draw(st.integers(1, 3))
    is_category = draw(st.lists(st.booleans(), min_size=n_slots, max_size=n_slots))
    has_missing = draw(st.lists(st.booleans(), min_size=n_slots, max_size=n_slots))
    rows = draw(st.lists(st.integers(0, (n_classes or 100) - 1), max_size=25))
    cells_of_slot = []
    for gaps in has_missing:
        n_cells = draw(st.integers(1, 6)) + gaps
        cells = np.zeros((n_cells, n_classes or 2), np.int64)
        for target in rows:
            cell = draw(st.integers(0, n_cells - 1))
            if n_classes:
                cells[cell, target] += 1
            else:
                cells[cell] += 1, target
        if signed:
            noise = draw(st.lists(st.integers(-4, 4), min_size=cells.size, max_size=cells.size))
            cells += np.array(noise, np.int64).reshape(cells.shape)
        cells_of_slot.append(cells)
    name = draw(st.sampled_from(["gini", "entropy"])) if n_classes else "squared_error"
    criterion = Criterion.of(name, np.ones(n_classes), 200)
    return cells_of_slot, is_category, has_missing, criterion


@settings(max_examples=200)
@given(nodes(signed=False), st.integers(1, 3))
@example(
    (
        [np.array([[6, 2]]), np.array([[4, 2], [2, 0]]), np.array([[2, 0], [4, 2]])],
        [False, False, True],
        [False, False, False],
        Criterion.of("gini", np.ones(2), 200),
    ),
    1,
)
def test_without_noise_the_cut_is_the_same(node, least):
    exact, noisy = (found_in(*node, least=LeastLeaf(least), is_noisy=n) for n in (False, True))
    assert noisy.total.tolist() == exact.total.tolist()
    assert (noisy.slot[0] >= 0) == (exact.slot[0] >= 0)
    if noisy.slot.tolist() != exact.slot.tolist():  # only if rounding decides between equals
        assert noisy.gain[0] == pytest.approx(exact.gain[0], rel=1e-9, abs=1e-9)
    elif exact.slot[0] >= 0:
        for name in ("missing_left", "left"):  # the exact cut is in the middle of empty cells
            assert getattr(noisy, name).tolist() == getattr(exact, name).tolist()
        assert noisy.gain[0] == pytest.approx(exact.gain[0], rel=1e-9, abs=1e-9)
        if node[1][exact.slot[0]]:
            assert noisy.bin_set.tolist() == exact.bin_set.tolist()


@settings(max_examples=200)
@given(nodes(signed=True), st.integers(1, 3))
def test_with_noise_a_cut_says_what_it_does(node, least):
    """The left side is the sum of the cells that go left, and both sides hold enough."""
    cells_of_slot, is_category, has_missing, criterion = node
    best = found_in(*node, least=LeastLeaf(least), is_noisy=True)
    slot = best.slot[0]
    if slot < 0:
        means = np.mean([cells.sum(axis=0) for cells in cells_of_slot], axis=0)
        assert best.total[0].tolist() == np.rint(means).tolist()
        return
    assert np.isfinite(best.gain[0])
    cells = cells_of_slot[slot]
    codes = np.arange(len(cells))
    if has_missing[slot]:
        codes[-1] = 255
    rows = cells[:, 0] if criterion.name == "squared_error" else cells.sum(axis=1)
    if is_category[slot]:
        words = best.bin_set[0]
        left = np.array([(int(words[c >> 6]) >> c % 64) & 1 for c in codes.tolist()], bool)
        used = rows > 0  # categories that noise has emptied are excluded
    else:
        left = codes <= best.cut[0]
        if has_missing[slot]:
            left[-1] = best.missing_left[0]
        used = np.ones(len(cells), bool)
        if has_missing[slot] and rows[-1] <= 0:
            used[-1] = False  # so are gaps, except in the total
    assert cells[left & used].sum(axis=0).tolist() == best.left[0].tolist()
    n_left = rows[left & used].sum()
    total = best.total[0]
    n_all = total[0] if criterion.name == "squared_error" else total.sum()
    assert n_left >= least
    assert n_all - n_left >= least
