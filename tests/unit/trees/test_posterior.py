"""Steps of leaves from noisy sums: near the parent's where there is noise, Newton's where not."""

import numpy as np
import pytest

from spinney.trees.posterior import Prior, steps_of

FIXED, LEARNT = Prior(0.5, 0.1, 3.0), Prior(0.5, 0.1, 3.0, is_learnt=True)
ROWS = np.full((1, 512), 20.0)


def test_without_noise_a_step_is_newtons():
    gradient = np.array([[-2e5, 1e5]])
    found = steps_of(gradient, np.full((1, 2), 1e6), 0.0, 1, LEARNT).of_nodes[-1]
    assert found == pytest.approx(-gradient / 1e6, rel=0.01)


def test_steps_that_noise_explains_are_hardly_taken_if_their_spread_is_learnt():
    gradient = np.random.RandomState(0).normal(0, 30, (1, 512))
    fixed, learnt = (
        steps_of(gradient, ROWS, 900.0, 9, prior).of_nodes[-1] for prior in (FIXED, LEARNT)
    )
    assert fixed.std() > 0.1
    assert learnt.std() < fixed.std() / 5


def test_a_learnt_spread_leaves_steps_alone_that_the_sums_show():
    random = np.random.RandomState(0)
    gradient = ROWS * random.choice([-0.5, 0.5], (1, 512)) + random.normal(0, 3, (1, 512))
    fixed, learnt = (steps_of(gradient, ROWS, 9.0, 9, prior) for prior in (FIXED, LEARNT))
    assert np.array_equal(fixed.of_nodes[-1], learnt.of_nodes[-1])
    assert np.array_equal(fixed.deviation[-1], learnt.deviation[-1])
