"""Gaussian differential privacy: its epsilon and delta, and what may be added up with it."""

from fractions import Fraction
from math import exp, pi, sqrt

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_distribution import from_discrete_gaussian_mechanism
from scipy.stats import norm

from spinney.errors import SettingError
from spinney.privacy.accounting import Account, Line
from spinney.privacy.budget import Cost, Measure, Unit, epsilon_of
from spinney.privacy.gaussian import (
    gaussian_amount,
    gaussian_delta,
    gaussian_epsilon,
    normal_bounds,
)
from spinney.privacy.mechanisms import DiscreteLaplace, Shares, SmoothGaussian
from spinney.privacy.scopes import ALL_ROWS, Budget

RECORD = Unit.RECORD_ADD_REMOVE
MILLIONTH = Fraction(1, 10**6)


@pytest.mark.parametrize("x", [-12.5, -3, -0.25, 0, 0.1, 2, 7.75])
def test_the_normal_law_is_bounded_from_both_sides(x):
    low, high = normal_bounds(Fraction(x))
    assert low <= high <= low + 4
    assert low / 2**192 == pytest.approx(norm.cdf(x), rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "mu"), [("1/2", 0.12410614903), (1, 0.23670438066), (5, 1.02035714509)]
)
def test_a_budget_is_the_largest_mu_that_its_epsilon_and_delta_allow(epsilon, mu):
    limit = Fraction(epsilon)
    amount = gaussian_amount(limit, MILLIONTH)
    assert sqrt(2 * amount) == pytest.approx(mu, rel=1e-9)
    assert gaussian_delta(amount, limit) <= MILLIONTH
    assert gaussian_delta(amount * Fraction(1000001, 1000000), limit) > MILLIONTH
    assert limit - Fraction(1, 10**9) < gaussian_epsilon(amount, MILLIONTH) <= limit


@pytest.mark.parametrize(
    ("epsilon", "delta"), [("1/2", "1e-6"), (1, "1e-6"), (1, "1e-4"), (2, "1e-9"), (5, "1e-6")]
)
def test_an_accountant_of_others_agrees(epsilon, delta):
    amount = gaussian_amount(Fraction(epsilon), Fraction(delta))
    found = PLDAccountant().compose(dp_accounting.GaussianDpEvent(1 / sqrt(2 * amount)))
    assert found.get_epsilon(float(delta)) == pytest.approx(float(Fraction(epsilon)), abs=2e-4)


@pytest.mark.parametrize("n_releases", [1, 12])
def test_an_accountant_of_others_finds_no_more_in_discrete_noise_than_is_charged(n_releases):
    """Their own loss distribution of a discrete Gaussian, not ours of a smooth one."""
    moved = 3
    noise = SmoothGaussian(gaussian_amount(Fraction(1), MILLIONTH) / n_releases, Fraction(moved**2))
    law = from_discrete_gaussian_mechanism(sqrt(noise.share_variance), moved)
    found = law.self_compose(n_releases).get_epsilon_for_delta(float(MILLIONTH))
    assert 0.98 < found <= 1 + 2e-3  # theirs is rounded up, and the noise has 4 more of variance
    law = from_discrete_gaussian_mechanism(sqrt(noise.share_variance), 2 * moved)
    assert law.self_compose(n_releases).get_epsilon_for_delta(float(MILLIONTH)) > 2


def test_gaussian_noise_read_as_such_costs_less_than_read_as_zcdp():
    amount = gaussian_amount(Fraction(1), MILLIONTH)
    assert epsilon_of(amount, MILLIONTH) > Fraction(5, 4)
    assert Budget.gaussian(1, 1e-6).amount > Budget.zcdp(1, 1e-6).amount * Fraction(3, 2)


def pmf(variance, at):
    weights = np.exp(-(np.arange(-400, 401) ** 2) / (2 * variance))
    return np.exp(-((at) ** 2) / (2 * variance)) / weights.sum()


def test_real_noise_rounded_at_random_has_the_law_of_discrete_noise():
    """The proof's lemma, by numbers: with a variance of 1 in place of 4, so that it shows."""
    inner, rounding = 9.0, 1.0
    y = np.linspace(-40, 40, 160001)
    density = np.exp(-(y**2) / (2 * inner)) / sqrt(2 * pi * inner)
    grid = np.arange(-60, 61)[:, None]
    norms = np.exp(-((grid - y) ** 2) / (2 * rounding)).sum(axis=0)
    bound = 5 * exp(-2 * pi**2 * rounding)
    for z in (0, 1, 5, 9):
        kernel = np.exp(-((z - y) ** 2) / (2 * rounding)) / norms
        found = np.trapezoid(density * kernel, y)
        assert found == pytest.approx(pmf(inner + rounding, z), rel=bound + 1e-7)


def test_smooth_noise_is_a_little_wider_and_states_what_it_misses():
    noise = SmoothGaussian(Fraction(1, 200), Fraction(9), shares=Shares(5, 3))
    assert noise.share_variance * 3 == Fraction(900) + 4
    assert noise.variance == pytest.approx((900 + 4) * 5 / 3)
    cost = noise.cost(1000)
    assert (cost.measure, cost.amount) == (Measure.GAUSSIAN, Fraction(1, 200))
    assert 0 < cost.delta < Fraction(1, 10**29)


def test_shares_of_almost_no_noise_miss_so_much_that_nothing_is_claimed():
    noise = SmoothGaussian(Fraction(1000), Fraction(1), shares=Shares(30, 16))
    assert noise.cost(100).delta == 1


def test_what_has_no_mu_is_not_added_to_gaussian_noise():
    account = Account(Measure.GAUSSIAN, (Budget.gaussian(1, 1e-6),))
    pure = Line(ALL_ROWS, DiscreteLaplace(Fraction(1, 10)).cost())
    with pytest.raises(SettingError, match="holds only Gaussian charges"):
        account.add([pure])
    gaussian = Line(ALL_ROWS, Cost(Measure.GAUSSIAN, Fraction(1, 100), RECORD))
    with pytest.raises(SettingError, match="a pure epsilon account cannot hold it"):
        Account(Measure.PURE, (Budget.pure(1),)).add([gaussian])
    account.add([gaussian])
    assert account.spent(RECORD) == Fraction(1, 100)
    assert account.spent(Unit.RECORD_REPLACE) == Fraction(4, 100)


def test_a_budget_in_zcdp_holds_all_three():
    account = Account(Measure.ZCDP, (Budget.zcdp(5, 1e-6),))
    account.add([Line(ALL_ROWS, Cost(Measure.GAUSSIAN, Fraction(1, 100), RECORD))])
    account.add([Line(ALL_ROWS, Cost(Measure.PURE, Fraction(1, 10), RECORD))])
    assert account.spent(RECORD) == Fraction(1, 100) + Fraction(1, 200)
