"""Curves of columns: what one record can move, and that they find what rows say."""

from fractions import Fraction

import numpy as np
import pytest

from spinney.trees import curves
from spinney.trees.curve_fit import CurveFit
from spinney.trees.curves import SCALE, CurveTerms, moments, moments_moved, pulls_moved
from spinney.trees.dtypes import MISSING
from spinney.trees.frontier import ColumnCells

COLUMNS = ColumnCells(
    np.array([255, 40, 2, 5, 1]), np.array([0, 0, 1, 1, 0], bool), np.zeros(5, bool)
)
N_BINS = COLUMNS.n_bins


@pytest.fixture(params=[1, 3])
def terms(request):
    return CurveTerms.draw(COLUMNS, request.param, np.random.default_rng(0))


def rows(n, *, ends=False):
    """Return bins of rows, some of them missing; at the ends all terms are at their largest."""
    random = np.random.RandomState(0)
    codes = np.stack([random.randint(0, k, n) for k in N_BINS])
    if ends:
        codes = np.where(random.rand(*codes.shape) < 0.5, 0, N_BINS[:, None] - 1)
    codes[random.rand(*codes.shape) < 0.05] = MISSING
    return codes.astype(np.uint8)


@pytest.mark.parametrize("ends", [False, True])
def test_a_record_moves_moments_and_pulls_by_at_most_what_is_charged(terms, ends):
    codes, random = rows(400, ends=ends), np.random.RandomState(1)
    gradient = random.choice([-1.0, -0.3, 0.0, 1.0], 400)
    whole = moments(terms.of_rows(codes)), terms.pulls(terms.of_rows(codes), gradient)
    moved = moments_moved(terms.n), pulls_moved(terms.n)
    largest = [Fraction(0), Fraction(0)]
    for row in range(0, 400, 7):
        kept = np.arange(400) != row
        less = (
            moments(terms.of_rows(codes[:, kept])),
            terms.pulls(terms.of_rows(codes[:, kept]), gradient[kept]),
        )
        for place in range(2):
            change = (whole[place] - less[place]).astype(object)  # squares may pass 2**63
            assert np.abs(change).sum() <= moved[place].absolute
            assert (change**2).sum() <= moved[place].squared
            largest[place] = max(largest[place], Fraction(int((change**2).sum())))
    if ends:  # what is charged is not far from what a record can do
        assert largest[0] > moved[0].squared * Fraction(97, 100)
        assert largest[1] > moved[1].squared * Fraction(9, 10)


def test_squares_that_are_added_whole_are_not_covered(monkeypatch):
    """The planted fault: with whole squares a row moves moments by up to S**4."""
    monkeypatch.setattr(curves, "SQUARES", (1, 1))
    terms = CurveTerms.draw(COLUMNS, 3, np.random.default_rng(0))
    alone = np.full((5, 1), MISSING, np.uint8)
    alone[0] = 0
    assert (moments(terms.of_rows(alone)).astype(object) ** 2).sum() > 0
    wide = CurveTerms(terms.of_bin, 1.0)  # so that the first term alone can be the whole length
    nothing = np.full((5, 1), MISSING, np.uint8)
    assert (moments(wide.of_rows(nothing)).astype(object) ** 2).sum() > moments_moved(
        wide.n
    ).squared


def test_rows_far_out_are_shortened_and_others_are_not(terms):
    squares = (terms.of_rows(rows(2000, ends=True)).astype(int) ** 2).sum(axis=0)
    assert squares.max() <= SCALE**2
    middle = np.array([[127], [20], [0], [0], [0]], np.uint8)
    assert (terms.of_rows(middle).astype(int) ** 2).sum() < SCALE**2 * 0.99


def test_a_row_adds_the_same_wherever_it_stands(terms):
    codes = rows(503)
    whole = terms.of_rows(codes)
    for first in (1, 3, 250, 502):
        assert np.array_equal(whole[:, first:], terms.of_rows(codes[:, first:]))


def test_rows_that_are_read_in_parts_add_the_same(terms, monkeypatch):
    codes, gradient = rows(500), np.random.RandomState(0).uniform(-1, 1, 500)
    whole = moments(terms.of_rows(codes)), terms.pulls(terms.of_rows(codes), gradient)
    monkeypatch.setattr(curves, "_CHUNK", 64)
    assert np.array_equal(whole[0], moments(terms.of_rows(codes)))
    assert np.array_equal(whole[1], terms.pulls(terms.of_rows(codes), gradient))


def fitted(terms, codes, target, n_steps, *, moment=0.0, pull=0.0):
    """Return scores after some steps from sums with noise, and the fit."""
    random, scores = np.random.RandomState(5), np.zeros(target.size)
    sums = moments(terms.of_rows(codes))
    noisy = sums + np.rint(random.standard_normal(sums.size) * moment).astype(np.int64)
    fit, total = CurveFit.of(terms, noisy, max(moment, 1.0) ** 2), np.zeros(terms.n, np.int64)
    for _ in range(n_steps):
        pulls = terms.pulls(terms.of_rows(codes), np.clip(scores - target, -1, 1))
        pulls += np.rint(random.standard_normal(pulls.size) * pull).astype(np.int64)
        fit, moved = fit.step(pulls, 1.0, pull**2, alone=True)
        total += moved
        values = terms.values(total)
        scores = (total[0] + sum(v[c] for v, c in zip(values, codes, strict=True))) * 2.0**-24
    return scores, fit


def test_curves_find_what_columns_add_up_to():
    codes = np.stack([np.random.RandomState(k).randint(0, k, 4000) for k in N_BINS])
    codes = codes.astype(np.uint8)
    target = 0.4 * (codes[0] / 255.0) ** 2 - 0.3 * codes[2] + 0.1
    terms = CurveTerms.draw(COLUMNS, 3, np.random.default_rng(0))
    exact, _ = fitted(terms, codes, target, 6)
    noisy, _ = fitted(terms, codes, target, 12, moment=10.0 * SCALE**2, pull=3.0 * SCALE)
    assert np.abs(exact - target).mean() < 0.01 * target.std()
    assert np.sqrt(np.mean((noisy - target) ** 2)) < 0.25 * target.std()


def test_how_far_noise_moves_a_curve_is_told():
    codes, terms = rows(4000), CurveTerms.draw(COLUMNS, 2, np.random.default_rng(0))
    target = codes[0] / 255.0 - 0.5
    quiet, _ = fitted(terms, codes, target, 4)
    moved, fit = fitted(terms, codes, target, 4, pull=30.0 * SCALE)
    told = np.sqrt(sum(d[c] ** 2 for d, c in zip(fit.deviations, codes, strict=True)).mean())
    assert 0.3 < np.std(moved - quiet) / told < 3.0


def test_moments_that_noise_has_spoilt_still_give_short_steps():
    """Two columns that say the same leave a matrix that noise makes worse than singular."""
    alike = ColumnCells(np.array([200, 200]), np.zeros(2, bool), np.zeros(2, bool))
    terms = CurveTerms.draw(alike, 3, np.random.default_rng(0))
    codes = np.repeat(np.random.RandomState(0).randint(0, 200, (1, 3000)), 2, axis=0)
    target = codes[0] / 200.0 - 0.5
    scores, _ = fitted(
        terms, codes.astype(np.uint8), target, 20, moment=40.0 * SCALE**2, pull=20.0 * SCALE
    )
    assert np.sqrt(np.mean((scores - target) ** 2)) < 0.5 * target.std()
