"""One tree that imitates others: its rows have the shares given, its cuts are the best."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from spinney.trees.binning import Binning
from spinney.trees.distilled import draw_rows, grow_levels
from spinney.trees.dtypes import MISSING
from spinney.trees.frontier import ColumnCells
from spinney.trees.leaf_counts import NumberedLeaves

N = 2000


def cells(n_bins, is_category):
    found = np.array(is_category)
    return ColumnCells(np.array(n_bins, np.int64), found, np.ones(found.size, np.bool_))


def binning(n_bins, is_category):
    """Return bins whose codes are the values themselves."""
    edges = [np.arange(n - 1, dtype=np.float32) if not c else np.zeros(0, np.float32)
             for n, c in zip(n_bins, is_category, strict=True)]  # fmt: skip
    bins = [np.arange(n if c else 0, dtype=np.uint8)
            for n, c in zip(n_bins, is_category, strict=True)]  # fmt: skip
    return Binning(tuple(edges), tuple(bins), np.ones(len(n_bins), np.bool_))


def leaves_of(levels, codes, n_bins, is_category):
    held = np.where(codes == MISSING, np.nan, codes).astype(np.float32)
    return NumberedLeaves(1, levels, binning(n_bins, is_category)).of_rows(held.T.copy(), 0)


def left_over(guesses, leaf):
    """Return the variance that is left within leaves."""
    return sum(((guesses[leaf == k] - guesses[leaf == k].mean(axis=0)) ** 2).sum()
               for k in np.unique(leaf))  # fmt: skip


def test_drawn_rows_have_the_shares_that_are_given():
    shares = np.zeros((2, 256))
    shares[0, [3, 7, MISSING]] = 2.0, 1.0, 1.0
    shares[1, :10] = 1.0
    codes = draw_rows(shares, 1000, np.random.default_rng(0))
    assert [int((codes[0] == b).sum()) for b in (3, 7, MISSING)] == [500, 250, 250]
    assert np.all(np.bincount(codes[1], minlength=10) == 100)
    assert 0.05 < np.mean(codes[1][codes[0] == 3] == 0) < 0.15  # columns are independent


@pytest.mark.parametrize("depth", [1, 4])
def test_numbers_are_cut_as_scikit_learn_cuts_them(depth):
    random = np.random.RandomState(0)
    codes = random.randint(0, 40, (3, N)).astype(np.uint8)
    guesses = np.rint(1000.0 * np.stack([np.sin(codes[0] / 9.0), codes[1] * codes[2] / 400.0], 1))
    levels = grow_levels(codes, guesses, cells([40] * 3, [False] * 3), depth, 20)
    found = leaves_of(levels, codes, [40] * 3, [False] * 3)
    theirs = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=20).fit(codes.T, guesses)
    assert left_over(guesses, found) == pytest.approx(left_over(guesses, theirs.apply(codes.T)))
    assert np.bincount(found).min() >= 20


def test_a_category_is_cut_at_its_best_subset():
    random = np.random.RandomState(1)
    codes = random.randint(0, 6, (1, N)).astype(np.uint8)
    means = np.array([5.0, 1.0, 4.0, 0.0, 9.0, 2.0])
    guesses = np.stack([-means[codes[0]], means[codes[0]]], axis=1)
    levels = grow_levels(codes, guesses, cells([6], [True]), 1, 1)
    found = leaves_of(levels, codes, [6], [True])
    every = [[(mask >> code) & 1 for code in range(6)] for mask in range(1, 63)]
    best = min(left_over(guesses, np.array(sides)[codes[0]]) for sides in every)
    assert left_over(guesses, found) == pytest.approx(best)


def test_missing_values_have_a_side_of_their_own():
    codes = np.where(np.arange(N) % 3 == 0, MISSING, 5).astype(np.uint8)[None]
    guesses = np.where(codes[0] == MISSING, 1.0, 0.0)[:, None]
    levels = grow_levels(codes, guesses, cells([9], [False]), 2, 1)
    assert np.array_equal(leaves_of(levels, codes, [9], [False]) == 1, codes[0] == MISSING)


def test_where_nothing_differs_there_is_one_leaf():
    codes = np.random.RandomState(0).randint(0, 9, (2, N)).astype(np.uint8)
    levels = grow_levels(codes, np.ones((N, 2)), cells([9, 9], [False, True]), 3, 1)
    assert NumberedLeaves(1, levels, binning([9, 9], [False, True])).n_leaves == 1
