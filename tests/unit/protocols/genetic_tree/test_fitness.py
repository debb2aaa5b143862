"""Scores of trees: scikit-learn's metrics, larger for better trees, exact as whole numbers."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, mean_absolute_error, mean_squared_error, r2_score

from spinney.protocols.genetic_tree.fitness import (
    MAX_ROWS,
    SCALE,
    Spread,
    f1_scores,
    fitness,
    mean_scores,
    show_score,
    weigh_scores,
)
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.structures import Outcomes

RANGE = 2**TARGET_BITS - 1


def confusion(truth, guess, n_classes):
    flat = np.bincount(truth * n_classes + guess, minlength=n_classes**2)
    return flat.reshape(1, n_classes, n_classes)


def errors(truth, guess):
    miss = truth - guess
    sums = np.array([[(miss**2).sum(), np.abs(miss).sum()]])
    return Outcomes(n_rows=truth.size, confusion=np.zeros((1, 0, 0), np.int64), errors=sums)


@pytest.mark.parametrize(("n_classes", "average"), [(2, "binary"), (4, "macro")])
def test_f1_is_scikit_learn_s(n_classes, average):
    random = np.random.default_rng(0)
    truth, guess = random.integers(0, n_classes, (2, 200))
    expected = f1_score(truth, guess, average=average)
    assert f1_scores(confusion(truth, guess, n_classes))[0] == pytest.approx(expected)


def test_a_class_that_nobody_has_or_guesses_does_not_count():
    truth, guess = np.array([0, 0, 2, 2]), np.array([0, 2, 2, 2])
    expected = f1_score(truth, guess, average="macro")
    assert f1_scores(confusion(truth, guess, 4))[0] == pytest.approx(expected)
    assert f1_scores(np.zeros((1, 2, 2), np.int64)).tolist() == [0.0]


def test_scores_of_numbers_are_scikit_learn_s():
    random = np.random.default_rng(1)
    truth = random.integers(0, RANGE, 300).astype(float)
    guess = np.clip(truth + random.normal(0, RANGE / 10, 300), 0, RANGE)
    found, spread = errors(truth, guess), Spread.of(truth)
    mse, mae = mean_squared_error(truth, guess), mean_absolute_error(truth, guess)
    assert show_score("mse", fitness("mse", found, spread)[0], 1.0) == pytest.approx(mse)
    assert fitness("r2", found, spread)[0] == pytest.approx(r2_score(truth, guess))
    relative = mae / np.mean(np.abs(truth - truth.mean()))
    assert show_score("rae", fitness("rae", found, spread)[0], 1.0) == pytest.approx(relative)


@pytest.mark.parametrize("metric", ["mse", "r2", "rae"])
def test_a_smaller_error_scores_higher_and_scores_are_bounded(metric):
    truth = np.array([0.0, 0.0, RANGE, RANGE])
    spread = Spread.of(truth)
    right, near, wrong = (
        fitness(metric, errors(truth, guess), spread)[0]
        for guess in (truth, truth * 0.9, RANGE - truth)
    )
    assert 1.0 >= right > near > wrong >= -2.0


@pytest.mark.parametrize("metric", ["r2", "rae"])
def test_where_all_targets_are_alike_only_being_right_is_good(metric):
    truth = np.full(5, 7.0)
    right, wrong = (
        fitness(metric, errors(truth, guess), Spread.of(truth))[0] for guess in (truth, truth + 1)
    )
    assert right > wrong


def test_means_of_weighed_scores_are_exact_enough():
    scores, weights = np.array([[0.25, -2.0], [0.75, 1.0]]), [3, 5]
    sums = [weigh_scores(line, weight) for line, weight in zip(scores, weights, strict=True)]
    assert mean_scores(np.sum(sums, axis=0), 8) == pytest.approx(
        [(3 * 0.25 + 5 * 0.75) / 8, (5 - 6) / 8]
    )
    assert 63 * 2 * SCALE * MAX_ROWS < 2**63  # the sums of as many parties fit
