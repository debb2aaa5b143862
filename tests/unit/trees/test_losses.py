"""Losses in fixed point, beside twins in floating point; each bound is the one we state."""

import math

import numpy as np
import pytest

from spinney.protocols.settings import MAX_TREES
from spinney.trees.binning import BinnedTable
from spinney.trees.boosting import Sampling, walk_from_roots
from spinney.trees.losses import LOSSES, Gradients, exponential, log_ratio

SCORE, BOUND = 2.0**24, 2.0**30
EQUAL = np.full(3, 1 << 16)


def test_the_exponential_needs_no_library():
    x = np.linspace(-40, 40, 1001)
    np.testing.assert_allclose(exponential(x), np.exp(x), rtol=1e-13)


@pytest.mark.parametrize("pair", [(1, 1), (2, 1), (1, 3), (10**12, 7), (3, 10**15), (999, 1000)])
def test_logarithms_are_whole_numbers_of_steps(pair):
    assert abs(log_ratio(*pair) / SCORE - math.log(pair[0] / pair[1])) < 2 / SCORE


def test_gradients_of_two_classes_are_within_a_millionth_of_the_float_twin():
    score = np.linspace(-15.9, 15.9, 2001)
    target = (np.arange(2001) % 2).astype(np.uint8)
    scores = np.rint(score * SCORE).astype(np.int64)[None]
    found = LOSSES["log_loss"].gradients(scores, target, EQUAL, 2)
    chance = 1 / (1 + np.exp(-score))
    assert np.abs(found.gradient[0] / BOUND - (chance - target)).max() < 1e-6
    assert np.abs(found.curvature[0] / BOUND / 4 - chance * (1 - chance)).max() < 1e-6
    loss = np.log1p(np.exp(np.where(target == 1, -score, score)))
    chosen = np.ones(2001, np.bool_)
    total = LOSSES["log_loss"].total(scores, target, EQUAL, chosen) / SCORE
    assert abs(total - loss.sum()) / 2001 < 1e-5


def test_gradients_of_three_classes_are_within_a_millionth_of_the_float_twin():
    score = np.random.RandomState(0).uniform(-8, 8, (3, 500))
    target = (np.arange(500) % 3).astype(np.uint8)
    scores = np.rint(score * SCORE).astype(np.int64)
    found = LOSSES["log_loss"].gradients(scores, target, EQUAL, 1)
    shares = np.exp(score) / np.exp(score).sum(axis=0)
    wrong = shares - (target == np.arange(3)[:, None])
    assert np.abs(found.gradient / BOUND - wrong).max() < 2e-6
    assert np.abs(found.curvature / BOUND / 4 - shares * (1 - shares)).max() < 2e-6
    total = LOSSES["log_loss"].total(scores, target, EQUAL, np.ones(500, np.bool_)) / SCORE
    assert abs(total + np.log(shares[target, np.arange(500)]).sum()) / 500 < 1e-5


def test_gradients_of_counts_are_within_a_millionth_of_the_float_twin():
    score, share = np.linspace(-12, -0.01, 300), np.linspace(0, 1, 300)
    target = np.rint(share * (2**24 - 1)).astype(np.int64)
    scores = np.rint(score * SCORE).astype(np.int64)[None]
    found = LOSSES["poisson"].gradients(scores, target, np.zeros(1, np.int64), 1)
    assert np.abs(found.gradient[0] / BOUND - (np.exp(score) - share)).max() < 1e-6
    assert np.abs(found.curvature[0] / BOUND - np.exp(score)).max() < 1e-6


def test_scores_beyond_the_table_are_treated_like_its_ends():
    scores = np.array([[-(2**50), -(2**28), 2**28, 2**50]])
    found = LOSSES["log_loss"].gradients(scores, np.zeros(4, np.uint8), EQUAL, 1)
    assert found.gradient[0, 0] == found.gradient[0, 1] < 300
    assert found.gradient[0, 2:].min() > BOUND - 300


def test_rounding_by_hash_keeps_the_mean():
    n = 60_000
    keys = np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    table = BinnedTable(np.zeros(n, np.uint8), np.array([0, n]), 1, np.zeros(n, np.uint8), keys)
    for value in (0.3, -0.011, 0.999, 0.0):
        g = np.full((1, n), round(value * BOUND), np.int32)
        h = np.full((1, n), round(abs(value) * BOUND), np.int32)
        units = LOSSES["log_loss"].units(np.ones(2))
        sampling = Sampling(np.array([7], np.uint64), np.zeros(1, np.int64), 1 << 32, keys[:0] > 0)
        walk = walk_from_roots(table, sampling, Gradients(g, h), units, 1)
        entries = walk.counted.entries
        steps = ((entries >> 16) & 255).astype(np.int64) - units.g_steps
        assert set(np.unique(steps)) <= {math.floor(value * 127), math.ceil(value * 127)}
        assert abs(steps.mean() / 127 - value) < 4 * 0.5 / 127 / n**0.5
        assert abs((entries >> 24).mean() / 255 - abs(value)) < 4 * 0.5 / 255 / n**0.5


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_the_most_trees_of_the_largest_steps_do_not_overflow_a_score(loss):
    """What a leaf may add, and how many trees a job may have, are bounded before it starts."""
    units = loss.units(np.ones(2), 1e9)
    largest = int(units.whole(np.array([1e300]), 1.0)[0])
    assert largest < 2**31  # as it is told
    assert largest * MAX_TREES < 2**62
    assert int(loss.base(np.array([2**31 - 2, 2**31 - 2])).max()) + largest * MAX_TREES < 2**63
