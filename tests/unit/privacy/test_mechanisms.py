"""Mechanisms cost what they state, pay before they draw, and refuse what they cannot promise."""

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from spinney.errors import InternalError, SettingError
from spinney.privacy import entropy, samplers
from spinney.privacy.budget import Cost, Measure, Unit
from spinney.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    PermuteAndFlip,
    RandomisedResponse,
)
from spinney.privacy.release import (
    _LEDGER_TOKEN,
    Charge,
    Exact,
    Noised,
    Shares,
)
from spinney.protocols.extra_trees.estimates import Estimates

RECORD = Unit.RECORD_ADD_REMOVE
ONE = Fraction(1)
MECHANISMS = [
    (DiscreteLaplace(ONE), np.arange(6).reshape(2, 3)),
    (DiscreteLaplace(ONE, shares=Shares(5)), np.arange(6)),
    (DiscreteGaussian(Fraction(1, 8)), np.arange(6)),
    (DiscreteGaussian(Fraction(1, 200), shares=Shares(5)), np.arange(6)),
    (RandomisedResponse(ONE, 3), np.arange(6) % 3),
    (PermuteAndFlip(ONE), np.arange(6)),
]
every_mechanism = pytest.mark.parametrize(
    ("mechanism", "values"), MECHANISMS, ids=[type(m).__name__ for m, _ in MECHANISMS]
)


def paid(cost):
    return Charge._issued_by(_LEDGER_TOKEN, cost=cost, entry="1", reason="a test")


def released(mechanism, values):
    values = np.asarray(values)
    return mechanism.release(Exact(values), paid(mechanism.cost(values.size))).values


# Every mechanism


@every_mechanism
def test_a_release_is_noised_and_leaves_the_exact_values_alone(mechanism, values):
    before = values.copy()
    noised = mechanism.release(Exact(values), paid(mechanism.cost(values.size)))
    assert isinstance(noised, Noised)
    assert noised.shares == getattr(mechanism, "shares", None)
    assert np.array_equal(values, before)


@every_mechanism
def test_nothing_is_drawn_unless_a_charge_covers_it(mechanism, values, monkeypatch):
    drawn: list[int] = []
    monkeypatch.setattr(entropy, "words", drawn.append)
    cost = mechanism.cost(values.size)
    less = Cost(cost.measure, cost.amount * Fraction(999, 1000), cost.unit)
    with pytest.raises(InternalError, match="does not cover the release"):
        mechanism.release(Exact(values), paid(less))
    forgeries: list[Any] = [None, cost, object()]
    for forged in forgeries:
        with pytest.raises(InternalError, match="takes Exact values and the ledger's Charge"):
            mechanism.release(Exact(values), forged)
    with pytest.raises(InternalError, match="takes Exact values and the ledger's Charge"):
        mechanism.release(values, paid(cost))
    assert not drawn


@every_mechanism
def test_a_charge_pays_for_one_release(mechanism, values):
    charge = paid(mechanism.cost(values.size))
    mechanism.release(Exact(values), charge)
    with pytest.raises(InternalError, match="has already paid for a release"):
        mechanism.release(Exact(values), charge)


@every_mechanism
def test_a_zcdp_account_pays_for_every_mechanism(mechanism, values):
    mechanism.release(Exact(values), paid(mechanism.cost(values.size).as_zcdp()))


@every_mechanism
def test_a_mechanism_keeps_its_unit_and_exact_parameters(mechanism, values):
    parameters = mechanism.parameters()
    assert parameters["mechanism"] == type(mechanism).__name__
    assert parameters["unit"] == mechanism.unit.value
    assert {"epsilon", "rho"} & set(parameters)
    assert all(isinstance(value, str) for value in parameters.values())


@every_mechanism
def test_an_exact_sampler_has_no_delta(mechanism, values):
    assert mechanism.cost(values.size).delta == 0


@pytest.mark.parametrize("bad", [-1, 0, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (DiscreteLaplace, "epsilon"),
        (lambda value: DiscreteLaplace(ONE, sensitivity=value), "sensitivity"),
        (DiscreteGaussian, "rho"),
        (lambda value: DiscreteGaussian(ONE, squared_sensitivity=value), "squared_sensitivity"),
        (lambda value: RandomisedResponse(value, 2), "epsilon"),
        (PermuteAndFlip, "epsilon"),
        (lambda value: PermuteAndFlip(ONE, sensitivity=value), "sensitivity"),
    ],
)
def test_parameters_are_positive_finite_numbers(make, name, bad):
    with pytest.raises(SettingError, match=f"^{name} must be a positive finite number; got "):
        make(bad)


def test_decimal_parameters_mean_what_was_written():
    made: Any = DiscreteLaplace
    assert made(0.1).cost() == Cost(Measure.PURE, Fraction(1, 10), RECORD)


# Discrete Laplace


def test_known_answers_of_the_discrete_laplace():
    words = [0, *samplers._share_table(ONE, 1).thresholds.tolist()]
    geometric = [Fraction(b - a, 2**64) for a, b in pairwise(words)]
    at_zero = sum(p * p for p in geometric)  # two geometrics are equal
    assert round(float(at_zero), 6) == 0.462117
    assert float(at_zero) == pytest.approx(math.tanh(0.5), abs=1e-15)
    assert DiscreteLaplace(ONE).variance == pytest.approx(1.84134719, abs=1e-8)


@pytest.mark.parametrize(
    ("parties", "honest", "factor"),
    [(5, 4, 1.12), (5, 3, 1.29), (5, 1, 2.24), (10, 9, 1.05), (10, 5, 1.41), (2, 1, 1.41)],
)
def test_shares_widen_the_noise_as_promised(parties, honest, factor):
    whole = DiscreteLaplace(ONE)
    shared = DiscreteLaplace(ONE, shares=Shares(parties, honest))
    assert math.sqrt(shared.variance / whole.variance) == pytest.approx(factor, abs=0.005)
    assert shared.cost() == whole.cost()
    assert shared.parameters()["honest"] == str(honest)


def test_sensitivity_scales_the_noise_and_not_the_cost():
    replaced = DiscreteLaplace(ONE, sensitivity=Fraction(2), unit=Unit.RECORD_REPLACE)
    assert replaced.decay == Fraction(1, 2)
    assert replaced.cost() == Cost(Measure.PURE, ONE, Unit.RECORD_REPLACE)


def test_a_decay_beyond_64_bit_sums_is_refused():
    for make in (DiscreteLaplace, PermuteAndFlip):
        with pytest.raises(SettingError, match="at least 2\\*\\*-50, or the noise would not fit"):
            make(Fraction(1, 10**9), sensitivity=Fraction(10**9))


def test_at_a_huge_epsilon_the_release_is_exact():
    counts = np.arange(-5, 2000)
    for mechanism in (
        DiscreteLaplace(Fraction(10**6)),
        DiscreteLaplace(Fraction(10**6), shares=Shares(5)),
        DiscreteGaussian(Fraction(10**6)),
    ):
        assert np.array_equal(released(mechanism, counts), counts)
    labels = np.arange(2000) % 7
    assert np.array_equal(released(RandomisedResponse(Fraction(10**6), 7), labels), labels)
    assert released(PermuteAndFlip(Fraction(10**6)), counts) == counts.size - 1


def test_at_a_tiny_epsilon_the_release_is_chance():
    tiny = Fraction(1, 10**9)
    counts = np.arange(1000)
    assert np.median(np.abs(released(DiscreteLaplace(tiny), counts))) > 10**7
    labels = np.zeros(7000, dtype=int)
    reported = np.bincount(released(RandomisedResponse(tiny, 7), labels), minlength=7)
    assert np.abs(reported - 1000).max() < 200
    scores = np.tile([0, 1000], (400, 1))
    assert 120 < released(PermuteAndFlip(tiny), scores).sum() < 280


def test_noise_differs_between_numbers_and_releases():
    counts = np.zeros(1000, dtype=np.int64)
    first, second = (released(DiscreteLaplace(Fraction(1, 10)), counts) for _ in range(2))
    assert np.unique(first).size > 20
    assert not np.array_equal(first, second)


def test_sums_beyond_64_bits_wrap_as_masks_do():
    top = np.full(64, np.iinfo(np.int64).max)
    assert released(DiscreteLaplace(Fraction(1, 1000)), top).min() < 0


# Discrete Gaussian


def test_the_gaussian_is_calibrated_by_squared_sensitivity():
    mechanism = DiscreteGaussian(Fraction(1, 8), squared_sensitivity=Fraction(3))
    assert mechanism.variance == 12
    assert mechanism.cost(10**6) == Cost(Measure.ZCDP, Fraction(1, 8), RECORD)


def test_gaussian_shares_cost_a_little_more_per_number():
    shared = DiscreteGaussian(Fraction(1, 8), shares=Shares(4))  # t = 2, share variance 2
    tau = 10 * math.exp(-(math.pi**2) * 2)
    for n_values in (1, 1000):
        excess = float(shared.cost(n_values).amount - Fraction(1, 8))
        assert excess == pytest.approx(n_values * tau, rel=1e-3)
        assert excess > n_values * tau
    assert shared.variance == 8  # four shares of 2, of which two are promised
    alone = DiscreteGaussian(Fraction(1, 8), shares=Shares(4, 1))
    assert alone.cost(1000).amount == Fraction(1, 8)


def test_gaussian_parameters_that_cannot_be_drawn_are_refused():
    with pytest.raises(
        SettingError, match="rho is too small: the noise would not fit in 64-bit sums"
    ):
        DiscreteGaussian(Fraction(1, 2**110))
    with pytest.raises(SettingError, match=r"needs a variance of at least 1/4; got 0.125"):
        DiscreteGaussian(Fraction(2), shares=Shares(4))


def test_a_charge_for_one_number_does_not_pay_for_many_gaussian_shares():
    shared = DiscreteGaussian(Fraction(1, 8), shares=Shares(4))
    with pytest.raises(InternalError, match="does not cover"):
        shared.release(Exact(np.zeros(100, dtype=int)), paid(shared.cost(1)))


# Randomised response


def test_known_answer_of_randomised_response():
    response = RandomisedResponse(ONE, 2)
    assert round(response.keep_probability, 6) == 0.731059
    threshold = int(samplers._keep_table(ONE, 2).thresholds[0])
    assert round(threshold / 2**64, 6) == 0.731059


def test_a_category_that_is_not_kept_becomes_another_one():
    values = np.full(20_000, 2)
    with entropy.seeded_for_tests(1):
        reported = np.bincount(released(RandomisedResponse(ONE, 4), values), minlength=4)
    keep = math.e / (math.e + 3)
    expected = 20_000 * np.array([1 - keep, 1 - keep, 3 * keep, 1 - keep]) / 3
    assert np.abs(reported - expected).max() < 4 * math.sqrt(20_000 / 4)


@pytest.mark.parametrize("values", [[0, 3], [-1, 0]])
def test_unknown_categories_are_refused_before_anything_is_paid(values):
    response = RandomisedResponse(ONE, 3)
    charge = paid(response.cost())
    with pytest.raises(InternalError, match="Categories must be 0 to 2"):
        response.release(Exact(np.array(values)), charge)
    charge.spend(response.cost())


def test_no_rows_make_an_empty_report():
    assert released(RandomisedResponse(ONE, 3), np.empty(0, dtype=int)).size == 0


def test_randomised_response_cannot_hide_that_a_row_exists():
    with pytest.raises(SettingError, match="cannot hide that a record was added or removed"):
        RandomisedResponse(ONE, 3, Unit.RECORD_ADD_REMOVE)


@pytest.mark.parametrize("bad", [2.0, "2", True])
def test_the_number_of_categories_is_whole(bad):
    with pytest.raises(SettingError, match="n_categories must be a whole number; got "):
        RandomisedResponse(ONE, bad)


@pytest.mark.parametrize("bad", [1, 0, -3])
def test_there_are_at_least_two_categories(bad):
    with pytest.raises(SettingError, match="n_categories must be at least 2; got "):
        RandomisedResponse(ONE, bad)


def test_expected_reports_give_back_the_true_counts():
    response = RandomisedResponse(Fraction(2), 3)
    truth = np.array([[600, 300, 100]]) * 10**9
    keep = response.keep_probability
    reports = np.rint(keep * truth + (1 - keep) / 2 * (truth.sum() - truth))
    estimate = Estimates(response).counts(reports.astype(np.int64))
    assert estimate == pytest.approx(truth)


def test_estimates_are_never_negative_and_keep_the_sum():
    response = RandomisedResponse(Fraction(1, 2), 4)
    reports = np.array([[90, 5, 5, 0], [25, 25, 25, 25], [0, 0, 0, 0], [0, 100, 0, 0]])
    estimate = Estimates(response).counts(reports)
    assert estimate.min() >= 0
    assert estimate.sum(axis=-1) == pytest.approx(reports.sum(axis=-1))
    assert estimate[1] == pytest.approx([25, 25, 25, 25])


def test_the_projection_is_the_nearest_point():
    response = RandomisedResponse(Fraction(1), 3)
    rng = np.random.default_rng(0)
    reports = rng.multinomial(60, [0.8, 0.1, 0.1], size=1)
    keep, other = response.keep_probability, (1 - response.keep_probability) / 2
    raw = (reports - 60 * other) / (keep - other)
    ours = np.linalg.norm(Estimates(response).counts(reports) - raw)
    others = rng.dirichlet([0.3, 0.3, 0.3], 20_000) * 60
    assert ours <= np.linalg.norm(others - raw, axis=1).min() + 1e-9


# Permute and flip


def test_only_the_choice_is_released():
    scores = np.array([[0, 500, 0], [500, 0, 0]])
    assert released(PermuteAndFlip(ONE, monotone=True), scores).tolist() == [1, 0]
    assert released(PermuteAndFlip(ONE), np.array([3])).tolist() == 0


def test_monotone_scores_halve_the_noise():
    assert PermuteAndFlip(ONE).decay == Fraction(1, 2)
    assert PermuteAndFlip(ONE, monotone=True).decay == 1
    assert PermuteAndFlip(ONE, sensitivity=Fraction(4), monotone=True).decay == Fraction(1, 4)


@pytest.mark.parametrize("unit", [Unit.RECORD_REPLACE, Unit.LABEL])
def test_monotone_scores_are_a_promise_for_added_records_only(unit):
    with pytest.raises(
        SettingError, match="monotone=True requires the unit 'record, add or remove'"
    ):
        PermuteAndFlip(ONE, unit=unit, monotone=True)


def test_a_choice_needs_a_candidate():
    for values in (np.array(3), np.empty((2, 0), dtype=int)):
        with pytest.raises(InternalError, match="A choice needs at least one candidate"):
            released(PermuteAndFlip(ONE), values)


def test_no_rows_are_no_choices():
    assert released(PermuteAndFlip(ONE), np.empty((0, 4), dtype=int)).shape == (0,)


def test_scores_whose_difference_would_overflow_are_refused():
    with pytest.raises(InternalError, match=r"Scores must lie between -2\*\*61 and 2\*\*61"):
        released(PermuteAndFlip(ONE), np.array([-(2**62), 0]))


def test_two_candidates_are_chosen_with_the_laws_of_the_paper():
    # a score lower by k is taken with x = exp(-decay k); it wins if it is visited first and taken
    scores = np.tile([0, 2], (40_000, 1))
    with entropy.seeded_for_tests(2):
        worse = (released(PermuteAndFlip(ONE), scores) == 0).mean()
    assert worse == pytest.approx(math.exp(-1) / 2, abs=0.01)
