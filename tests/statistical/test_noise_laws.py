"""Noise has the law it claims, and the tests would notice a scale 20 % off."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from spinney.privacy import samplers
from statistical.laws import (  # type: ignore[import-not-found]
    CERTAIN,
    PLAUSIBLE,
    fit,
    gaussian_cdf,
    geometric_cdf,
    laplace_cdf,
    two_samples,
)

N = 400_000
EPSILONS = ["1/20", "1/10", "1/2", "1", "2"]

pytestmark = pytest.mark.usefixtures("seeded")


def assert_law(draws, cdf, scale):
    """Check the law at its scale, and that it fails at a scale 20 % off, either way."""
    assert fit(draws, lambda k: cdf(k, scale)) > PLAUSIBLE
    assert fit(draws, lambda k: cdf(k, scale * 1.2)) < CERTAIN
    assert fit(draws, lambda k: cdf(k, scale / 1.2)) < CERTAIN


@pytest.mark.parametrize("honest", [1, 2, 3, 5])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_shares_of_the_honest_are_discrete_laplace_together(epsilon, honest):
    decay = Fraction(epsilon)
    draws = sum(samplers.shares(decay, honest, N) for _ in range(honest))
    assert_law(draws, laplace_cdf, float(decay))


@pytest.mark.parametrize("honest", [2, 4])
def test_one_share_too_few_is_not_discrete_laplace(honest):
    decay = Fraction(1, 2)
    draws = sum(samplers.shares(decay, honest, N) for _ in range(honest - 1))
    assert fit(draws, lambda k: laplace_cdf(k, 0.5)) < CERTAIN


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mean_variance_and_symmetry_of_the_discrete_laplace(epsilon):
    decay = Fraction(epsilon)
    draws = samplers.discrete_laplace(decay, N)
    alpha = math.exp(-decay)
    variance = 2 * alpha / (1 - alpha) ** 2
    assert abs(draws.mean()) < 4.5 * math.sqrt(variance / N)
    kurtosis = 6 + 1 / variance + 3  # at least the fourth moment over the variance squared
    assert draws.var() == pytest.approx(variance, rel=4.5 * math.sqrt(kurtosis / N))
    positive, negative = (draws > 0).sum(), (draws < 0).sum()
    assert stats.binomtest(int(positive), int(positive + negative)).pvalue > PLAUSIBLE
    assert two_samples(draws[: N // 2], -draws[N // 2 :]) > PLAUSIBLE


@pytest.mark.parametrize("decay", ["1/5000", "1/1000000", "1/1000000000"])
@pytest.mark.parametrize("honest", [1, 3])
def test_noise_too_wide_for_a_table_has_the_same_law(decay, honest):
    decay = Fraction(decay)
    draws = sum(samplers.shares(decay, honest, 40_000) for _ in range(honest))
    assert_law(draws, laplace_cdf, float(decay))


@pytest.mark.parametrize("honest", [1, 2, 5])
@pytest.mark.parametrize("decay", ["1/2", "1/100", "1/20000"])
def test_one_sided_shares_are_geometric_together(decay, honest):
    decay = Fraction(decay)
    n = N if decay > Fraction(1, 1000) else 40_000
    draws = sum(samplers.one_sided_shares(decay, honest, n) for _ in range(honest))
    assert_law(draws, geometric_cdf, float(decay))


@pytest.mark.parametrize("variance", ["1/4", "2", "100", "57121"])
def test_the_discrete_gaussian(variance):
    variance = Fraction(variance)
    assert_law(samplers.discrete_gaussian(variance, N), gaussian_cdf, float(variance))


def test_a_gaussian_too_wide_for_a_table_has_the_same_law():
    variance = Fraction(10**19)
    assert_law(samplers.discrete_gaussian(variance, 20_000), gaussian_cdf, float(variance))


@pytest.mark.parametrize("x", ["1/1000", "1/3", "1", "5/2"])
def test_the_exponential_coin(x):
    x, n = Fraction(x), 20_000
    heads = sum(samplers.bernoulli_exp(x) for _ in range(n))
    assert stats.binomtest(heads, n, math.exp(-x)).pvalue > PLAUSIBLE
    if x == 1:
        assert stats.binomtest(heads, n, math.exp(-1.2)).pvalue < CERTAIN


@pytest.mark.parametrize(("epsilon", "n_categories"), [("1", 2), ("2", 5), ("1/2", 26)])
def test_randomised_response_keeps_with_its_probability(epsilon, n_categories):
    keep = 1 / (1 + (n_categories - 1) * math.exp(-Fraction(epsilon)))
    kept = int(samplers.draw_kept(Fraction(epsilon), n_categories, N).sum())
    assert stats.binomtest(kept, N, keep).pvalue > PLAUSIBLE
    wrong = 1 / (1 + (n_categories - 1) * math.exp(-1.2 * Fraction(epsilon)))
    assert stats.binomtest(kept, N, wrong).pvalue < CERTAIN


@pytest.mark.parametrize("bound", [3, 10, 1000])
def test_uniform_numbers_are_uniform(bound):
    counts = np.bincount(samplers.uniform_below(bound, N), minlength=bound)
    assert stats.chisquare(counts).pvalue > PLAUSIBLE


def test_draws_are_independent_of_their_neighbours():
    draws = samplers.shares(Fraction(1, 2), 3, N)
    first, second = np.clip(draws[0::2], -2, 2) + 2, np.clip(draws[1::2], -2, 2) + 2
    table = np.bincount(5 * first + second, minlength=25).reshape(5, 5)
    assert stats.chi2_contingency(table).pvalue > PLAUSIBLE


@pytest.mark.slow
@pytest.mark.parametrize("honest", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_millions_of_unseeded_shares(epsilon, honest):
    decay, n = Fraction(epsilon), 4_000_000
    draws = np.zeros(n, dtype=np.int64)
    for _ in range(honest):
        draws += samplers.shares(decay, honest, n)
    assert fit(draws, lambda k: laplace_cdf(k, float(decay))) > 1e-6
    assert fit(draws, lambda k: laplace_cdf(k, float(decay) * 1.02)) < CERTAIN
