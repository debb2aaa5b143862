"""Steps of leaves from noisy sums: near the parent's where there is noise, Newton's where not."""

import numpy as np
import pytest

from spinney.trees.posterior import Prior, steps_of

PRIOR = Prior(0.5, 0.1, 3.0)


def test_without_noise_a_step_is_newtons():
    gradient = np.array([[-2e5, 1e5]])
    found = steps_of(gradient, np.full((1, 2), 1e6), 0.0, 1, PRIOR).of_nodes[-1]
    assert found == pytest.approx(-gradient / 1e6, rel=0.01)


def test_the_larger_the_noise_the_shorter_the_steps():
    gradient, rows = np.random.RandomState(0).normal(0, 30, (1, 512)), np.full((1, 512), 20.0)
    found = [
        steps_of(gradient, rows, variance, 9, PRIOR).of_nodes[-1].std()
        for variance in (0.0, 900.0, 9e4)
    ]
    assert found[0] > 2 * found[1] > 20 * found[2]
