"""Scores a person can check."""

import numpy as np
import pytest

from spinney.simulation.scores import (
    _class_scores,
    _number_scores,
    home_scores,
    score_names,
)


def test_two_classes_are_judged_by_the_second():
    truth = np.array([0, 0, 1, 1])
    shares = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    # Guesses 0 1 0 1: one hit, one miss, one false alarm. Of four pairs three are in order.
    assert _class_scores(truth, shares) == {"f1": 0.5, "auc": 0.75, "accuracy": 0.5}


def test_more_classes_are_averaged():
    truth = np.array([0, 1, 2, 2])
    shares = np.eye(3)[[0, 1, 2, 1]]
    scores = _class_scores(truth, shares)
    assert scores["f1"] == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)
    # Of the pairs of a class and the rest: all, 2 and a half of 3, 3 of 4 are in order.
    assert scores["auc"] == pytest.approx((1 + 2.5 / 3 + 3 / 4) / 3)


def test_a_class_that_only_a_forest_names_does_not_count():
    """Else two forests would be averaged over different classes of the same rows."""
    truth = np.array([0, 0, 1, 1])
    right, wrong = np.eye(3)[[0, 0, 1, 1]], np.eye(3)[[0, 2, 1, 1]]
    assert _class_scores(truth, right)["f1"] == 1.0
    assert _class_scores(truth, wrong)["f1"] == pytest.approx((2 / 3 + 1) / 2)


def test_what_rows_cannot_tell_is_left_out():
    shares = np.array([[0.9, 0.1], [0.8, 0.2]])
    assert _class_scores(np.array([0, 0]), shares) == {}  # nobody to find: F1 would be 0 for all
    assert _class_scores(np.array([1, 1]), shares) == {"f1": 0.0, "accuracy": 0.0}
    assert _number_scores(np.array([3.0, 3.0]), np.array([3.0, 5.0])) == {
        "rmse": pytest.approx(np.sqrt(2))
    }


def test_numbers_are_judged_by_their_errors():
    scores = _number_scores(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0]))
    assert scores == {"rmse": pytest.approx(np.sqrt(1 / 3)), "r2": pytest.approx(0.5)}
    assert score_names("regression") == ("rmse", "r2")


def test_what_a_party_fits_at_home_is_scored_on_rows_that_it_was_not_fitted_to():
    random = np.random.default_rng(0)
    truth = (random.random(400) < 0.06).astype(int)
    yes = (0.5 + 0.1 * random.normal(size=400) + 0.1 * truth).clip(0.01, 0.99)
    joint = np.stack([1 - yes, yes], axis=1)
    found, before = home_scores(truth, joint), _class_scores(truth, joint)
    assert set(found) == {"f1", "accuracy"}  # a fit ranks rows as before
    assert before["accuracy"] < 0.6
    assert found["accuracy"] > 0.9
    noise = home_scores((random.random(400) < 0.5).astype(int), joint)
    assert noise["accuracy"] < 0.6
    assert home_scores(np.zeros(0, np.int64), np.zeros((0, 2))) == {}
    assert home_scores(np.zeros(9, np.int64), joint[:9]) == {}
