"""Our noise and OpenDP's are the same: two-sample tests against another implementation."""

import math
from fractions import Fraction

import numpy as np
import pytest

from spinney.privacy import entropy, samplers
from spinney.privacy.budget import Unit
from spinney.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, PermuteAndFlip
from statistical.laws import CERTAIN, two_samples  # type: ignore[import-not-found]

dp = pytest.importorskip("opendp.prelude")

N = 20_000
PLAUSIBLE = 1e-6  # OpenDP's noise cannot be seeded: leave one run in a million to chance


@pytest.fixture(autouse=True)
def contributed():
    dp.enable_features("contrib")


def theirs(make, scale, metric):
    space = dp.vector_domain(dp.atom_domain(T="i64")), metric(T="i64")
    return np.array(make(*space, scale=scale)([0] * N))


@pytest.mark.parametrize("epsilon", ["1/10", "1"])
@pytest.mark.parametrize("honest", [1, 3])
def test_discrete_laplace(epsilon, honest):
    decay = Fraction(epsilon)
    reference = theirs(dp.m.make_laplace, float(1 / decay), dp.l1_distance)
    with entropy.seeded_for_tests(1):
        ours = sum(samplers.shares(decay, honest, 10 * N) for _ in range(honest))
        wrong = samplers.discrete_laplace(decay * Fraction(6, 5), 10 * N)
    assert two_samples(ours, reference) > PLAUSIBLE
    assert two_samples(wrong, reference) < CERTAIN


@pytest.mark.parametrize("sigma", [1, 20])
def test_discrete_gaussian(sigma):
    reference = theirs(dp.m.make_gaussian, float(sigma), dp.l2_distance)
    with entropy.seeded_for_tests(1):
        ours = samplers.discrete_gaussian(Fraction(sigma**2), 10 * N)
        wrong = samplers.discrete_gaussian(Fraction(sigma**2) * Fraction(36, 25), 10 * N)
    assert two_samples(ours, reference) > PLAUSIBLE
    assert two_samples(wrong, reference) < CERTAIN


def test_costs_agree():
    space = dp.vector_domain(dp.atom_domain(T="i64"))
    laplace = dp.m.make_laplace(space, dp.l1_distance(T="i64"), scale=2.0)
    assert laplace.map(1) == float(DiscreteLaplace(Fraction(1, 2)).cost().amount)
    gaussian = dp.m.make_gaussian(space, dp.l2_distance(T="i64"), scale=2.0)
    ours = DiscreteGaussian(Fraction(1, 8))
    assert ours.share_variance == 4
    assert gaussian.map(1) == float(ours.cost().amount)


def test_the_factor_two_of_choices_that_are_not_monotone_agrees():
    for monotone in (False, True):
        metric = dp.linf_distance(T="i64", monotonic=monotone)
        space = dp.vector_domain(dp.atom_domain(T="i64"))
        choice = PermuteAndFlip(Fraction(1), unit=Unit.RECORD_ADD_REMOVE, monotone=monotone)
        scale = float(1 / choice.decay)
        noisy_max = dp.m.make_noisy_max(space, metric, dp.max_divergence(), scale)
        assert math.isclose(noisy_max.map(1), 1.0, rel_tol=1e-9)
