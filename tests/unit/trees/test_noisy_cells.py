"""What noisy counts of equal cells of a range tell: where rows are, and the scale of a target."""

import numpy as np
import pytest

from spinney.trees.bounded_gradients import TARGET_CELLS, ClippedSquares
from spinney.trees.noisy_edges import heard_shares

FULL = 2**24 - 1  # the top of a range, in fixed point


def test_exact_counts_are_the_shares():
    counts = np.array([0, 4, 0, 0, 1, 1, 0, 2])
    assert heard_shares(counts, 0.0).tolist() == (counts / 8).tolist()


def test_an_even_spread_that_no_cell_stands_out_of_stays_even():
    """Each cell drowns in noise, but their sums do not."""
    noise = np.random.RandomState(0).normal(0, 30, 256)
    shares = heard_shares(np.rint(20 + noise).astype(np.int64), 30.0)
    assert shares.sum() == pytest.approx(1)
    assert np.abs(shares.reshape(4, -1).sum(axis=1) - 0.25).max() < 0.12
    assert shares.max() < 0.03


def test_rows_in_one_corner_of_a_wide_range_are_found_there():
    counts = np.rint(np.random.RandomState(1).normal(0, 20, 256)).astype(np.int64)
    counts[:3] += [2000, 3000, 1000]
    shares = heard_shares(counts, 20.0)
    assert shares[:3].tolist() == pytest.approx([1 / 3, 1 / 2, 1 / 6], abs=0.02)
    assert shares[3:].sum() < 0.01


def test_noise_alone_says_nothing():
    noise = np.rint(np.random.RandomState(2).normal(0, 20, 256)).astype(np.int64)
    assert heard_shares(noise, 20.0).max() < 0.1


def targets(wide):
    drawn = np.random.RandomState(0).normal(0.5, 0.1, 5000).clip(0, 1)
    return np.rint(drawn / wide * FULL).astype(np.int64)


@pytest.mark.parametrize("wide", [1, 100])
def test_first_score_and_clip_follow_the_rows_however_wide_the_range_is(wide):
    """In units of half the range, targets have a mean of 1 / wide - 1 and a deviation of 0.2."""
    sums = ClippedSquares().base_sums(targets(wide))
    cell = 2 / TARGET_CELLS
    assert ClippedSquares().base(sums, 10.0)[0] == pytest.approx(1 / wide - 1, abs=cell)
    clip = ClippedSquares().scaled(sums, 10.0).clip
    assert 0.8 * 0.2 / wide < clip < max(2.0 * 0.2 / wide, 2.0 * cell)


def test_without_a_word_from_the_rows_residuals_are_clipped_to_the_range():
    sums = np.zeros(TARGET_CELLS, np.int64)
    assert ClippedSquares().base(sums, 10.0)[0] == pytest.approx(0, abs=1e-9)
    assert 0.3 < ClippedSquares().scaled(sums, 10.0).clip < 1.5


def test_clip_and_step_grow_together():
    """The same rows in a range ten times as wide make the same steps, in the target's units."""
    narrow, wide = ClippedSquares(0.4).prior, ClippedSquares(0.04).prior
    assert narrow.spread == pytest.approx(10 * wide.spread)
    assert narrow.chance == pytest.approx(100 * wide.chance)
    assert narrow.most == pytest.approx(10 * wide.most)
