"""Columns that matter have scores and are drawn; those of which noise alone speaks have none."""

import numpy as np
import pytest

from spinney.trees.column_scores import ColumnScores, most_together
from spinney.trees.drawn_trees import DrawnTrees
from spinney.trees.frontier import ColumnCells
from spinney.trees.posterior import Prior, steps_of

N_COLUMNS = 5
COLUMNS = ColumnCells(np.full(N_COLUMNS, 200), np.zeros(N_COLUMNS, bool), np.zeros(N_COLUMNS, bool))
PRIOR = Prior(0.2, 0.8, 4.0)


def scored(residual, deviation, n_batches=20, seed=0):
    """Return the scores after batches of five trees each, of rows with these residuals."""
    random, scores = np.random.default_rng(seed), ColumnScores.none(N_COLUMNS)
    codes = random.integers(0, 200, (N_COLUMNS, 2000)).astype(np.uint8)
    for _ in range(n_batches):
        first = random.permutation(N_COLUMNS)
        trees = DrawnTrees.draw(COLUMNS, np.stack([first, np.roll(first, 1)], 1), 4, random)
        leaf = np.stack([tree * 16 + trees.leaves(codes, tree) for tree in range(N_COLUMNS)])
        pull = np.broadcast_to(-residual(codes), leaf.shape)
        gradient = np.bincount(leaf.ravel(), pull.ravel(), 80) + random.normal(0, deviation, 80)
        rows = np.bincount(leaf.ravel(), minlength=80) + random.normal(0, deviation, 80)
        steps = steps_of(gradient[None], rows[None], deviation**2, 4, PRIOR).with_one_root()
        scores = scores.after(trees, steps, rows[None])
    return scores.of_columns


def test_the_columns_that_residuals_depend_on_have_the_scores():
    found = scored(lambda codes: 0.5 * (codes[1] > 99) - 0.5 * (codes[3] > 150), 20.0)
    assert min(found[1], found[3]) > 10 * max(np.delete(found, [1, 3]))


def test_noise_alone_makes_no_scores():
    """What noise makes of a cut is taken off: far less than a real column is left."""
    noise = np.stack([scored(lambda _: np.zeros(2000), 20.0, seed=n) for n in range(10)])
    real = scored(lambda codes: 0.3 * (codes[1] > 99), 20.0)[1]
    assert np.abs(noise.mean(axis=0)).max() < 0.1 * real


def test_scores_fade_as_what_was_explained_is_gone():
    trees = DrawnTrees.draw(COLUMNS, np.array([[0, 1]]), 4, np.random.default_rng(0))
    steps = steps_of(np.zeros((1, 16)), np.full((1, 16), 100.0), 0.0, 4, PRIOR)
    scores = ColumnScores(np.ones(N_COLUMNS))
    for _ in range(N_COLUMNS):
        scores = scores.after(trees, steps, np.full((1, 16), 100.0))
    assert scores.of_columns == pytest.approx(0.7)


def test_columns_are_drawn_by_their_scores_and_each_sometimes():
    drawn = ColumnScores(np.array([0.0, 60.0, -5.0, 40.0, 0.0])).draw(
        4000, np.random.default_rng(0)
    )
    assert np.all(drawn[:, 0] != drawn[:, 1])
    first = np.bincount(drawn[:, 0], minlength=N_COLUMNS) / 4000
    assert first == pytest.approx([0.04, 0.52, 0.04, 0.36, 0.04], abs=0.03)


def test_without_scores_all_columns_are_drawn_alike():
    drawn = ColumnScores.none(3).draw(3000, np.random.default_rng(0))
    assert np.bincount(drawn.ravel()) / 6000 == pytest.approx(1 / 3, abs=0.03)


def test_trees_of_the_same_columns_are_counted_together():
    assert most_together(np.array([[0, 1], [2, 3]]), 5) == 1.0
    assert most_together(np.array([[0, 1], [1, 2]]), 5) == 1.5
    assert most_together(np.array([[0, 1], [1, 0], [0, 1]]), 5) == 3.0
