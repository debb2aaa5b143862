"""Costs are exact; bounds enclose the value; costs without a theorem are refused."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import InternalError, SettingError
from spinney.privacy.budget import (
    Cost,
    Measure,
    Unit,
    epsilon_of,
    exp_bounds,
    log_bounds,
    positive_epsilon,
    probability,
    subsampled_cost,
    total,
)

RECORD = Unit.RECORD_ADD_REMOVE
fractions = st.fractions(min_value=0, max_value=60, max_denominator=10**12)


def pure(amount, unit=RECORD, delta=0):
    return Cost(Measure.PURE, Fraction(amount), unit, Fraction(delta))


def decimal_of(x):
    return Decimal(x.numerator) / Decimal(x.denominator)


@given(fractions, st.integers(16, 200))
def test_exp_bounds_enclose_the_exponential(x, bits):
    low, high = exp_bounds(x, bits)
    with localcontext() as context:
        context.prec = 120
        truth = (-decimal_of(x)).exp() * 2**bits
        assert low <= truth <= high
    assert high - low <= 2


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9), st.integers(16, 200))
def test_log_bounds_enclose_the_logarithm(y, bits):
    low, high = log_bounds(y, bits)
    with localcontext() as context:
        context.prec = 120
        truth = decimal_of(y).ln() * 2**bits
        assert low <= truth <= high
    assert high - low <= 2


def test_the_exponential_of_zero_is_one_exactly():
    assert exp_bounds(Fraction(0), 64) == (2**64, 2**64)


def test_a_vanishing_exponential_is_between_zero_and_one_unit():
    assert exp_bounds(Fraction(10**6), 64) == (0, 1)


def test_a_thousand_tenths_are_a_hundred_exactly():
    cost = pure(positive_epsilon(0.1))
    assert total([cost] * 1000, Measure.PURE, RECORD) == pure(100)
    assert cost * 1000 == 1000 * cost == pure(100)


def test_nothing_costs_zero():
    assert total([], Measure.ZCDP, Unit.LABEL) == Cost.zero(Measure.ZCDP, Unit.LABEL)


def test_deltas_add_up_too():
    assert (pure(1, delta="1/8") + pure(2, delta="1/8")) == pure(3, delta="1/4")


@pytest.mark.parametrize(
    "other", [pure(1, Unit.LABEL), Cost(Measure.ZCDP, Fraction(1), RECORD)], ids=["unit", "measure"]
)
def test_costs_of_different_kinds_do_not_add(other):
    with pytest.raises(
        InternalError,
        match="Only costs of the same measure and unit can be added; got pure per record",
    ):
        pure(1) + other


def test_a_cost_adds_to_costs_and_multiplies_by_whole_numbers_only():
    with pytest.raises(TypeError):
        pure(1) + 1
    with pytest.raises(TypeError):
        pure(1) * 0.5
    with pytest.raises(TypeError):
        pure(1) * True


@pytest.mark.parametrize("number", [0.5, 1, Fraction(-1)])
def test_amount_and_delta_are_fractions_of_at_least_zero(number):
    with pytest.raises(InternalError, match="amount must be a Fraction of at least 0"):
        Cost(Measure.PURE, number, RECORD)
    with pytest.raises(InternalError, match="delta must be a Fraction of at least 0"):
        Cost(Measure.PURE, Fraction(1), RECORD, number)


def test_pure_epsilon_is_half_its_square_in_zcdp():
    assert pure(3).as_zcdp() == Cost(Measure.ZCDP, Fraction(9, 2), RECORD)
    assert pure(3).as_zcdp().as_zcdp() == pure(3).as_zcdp()


def test_a_payment_covers_equal_and_smaller_costs_of_its_unit():
    assert pure(1).covers(pure(1))
    assert pure(1).covers(pure("1/2"))
    assert not pure(1).covers(pure("3/2"))
    assert not pure(1).covers(pure(1, Unit.LABEL))
    assert not pure(1).covers(pure("1/2", delta="1/1000"))
    assert not pure(1).covers(Cost(Measure.ZCDP, Fraction(1, 2), RECORD))


def test_a_zcdp_payment_covers_a_pure_release_by_its_rho():
    rho = Cost(Measure.ZCDP, Fraction(1, 2), RECORD)
    assert rho.covers(pure(1))
    assert not rho.covers(pure("11/10"))


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (0.1, "1/10"),
        (1, "1"),
        (1e-9, "1/1000000000"),
        (Fraction(1, 3), "1/3"),
        (Decimal("0.25"), "1/4"),
        (np.float32(0.1), "1/10"),
        (np.float64(2.5), "5/2"),
        (np.int64(3), "3"),
    ],
)
def test_an_epsilon_is_what_the_user_wrote(value, exact):
    epsilon = positive_epsilon(value)
    assert epsilon == Fraction(exact)
    assert type(epsilon.numerator) is int


@pytest.mark.parametrize(
    "value",
    [
        *(-1, 0, 0.0, -0.5, math.nan, math.inf, -math.inf, "1", "one", None, True, [1], 1 + 0j),
        *(np.nan, np.float64(0), np.bool_(True), Decimal("nan")),
    ],
)
def test_an_epsilon_that_is_not_positive_and_finite_is_refused(value):
    with pytest.raises(SettingError, match="epsilon must be a positive finite number; got "):
        positive_epsilon(value)


def test_a_refusal_names_the_setting():
    with pytest.raises(
        SettingError, match="label_epsilon must be a positive finite number; got -2"
    ):
        positive_epsilon(-2, "label_epsilon")


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, "0.1", math.nan, None, True])
def test_a_probability_lies_strictly_between_zero_and_one(value):
    with pytest.raises(SettingError, match="delta must be a number between 0 and 1, both excluded"):
        probability(value)


def test_a_probability_is_exact():
    assert probability(1e-6) == Fraction(1, 10**6)


def test_zcdp_reads_as_epsilon_rounded_up():
    epsilon = epsilon_of(Fraction(1, 2), Fraction(1, 10**6))
    assert float(epsilon) == pytest.approx(0.5 + 2 * math.sqrt(0.5 * math.log(1e6)), rel=1e-15)
    with localcontext() as context:
        context.prec = 80
        half = Decimal("0.5")
        truth = half + 2 * (half * Decimal(10**6).ln()).sqrt()
        assert truth <= decimal_of(epsilon) <= truth + Decimal(2) ** -90


def test_no_rho_is_no_epsilon():
    assert epsilon_of(Fraction(0), Fraction(1, 2)) == 0


def test_a_negative_rho_is_a_bug_and_a_bad_delta_a_setting():
    with pytest.raises(InternalError, match="rho must be at least 0; got -1"):
        epsilon_of(Fraction(-1), Fraction(1, 2))
    with pytest.raises(SettingError, match="delta must be a number between 0 and 1"):
        epsilon_of(Fraction(1), Fraction(2))


def test_a_subsample_costs_less():
    amount = subsampled_cost(pure(1), Fraction(632, 1000)).amount
    with localcontext() as context:
        context.prec = 80
        truth = (1 + Decimal("0.632") * (Decimal(1).exp() - 1)).ln()
        assert truth <= decimal_of(amount) <= truth + Decimal(2) ** -90
    assert round(float(amount), 3) == 0.735


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=200), st.floats(0.001, 1))
def test_a_subsample_never_costs_more_than_all_rows(epsilon, rate):
    amount = subsampled_cost(pure(epsilon), Fraction(str(rate))).amount
    assert 0 < amount <= epsilon


def test_the_whole_table_costs_the_whole_epsilon():
    assert subsampled_cost(pure(1), Fraction(1)).amount == 1


@pytest.mark.parametrize("unit", [Unit.RECORD_REPLACE, Unit.LABEL])
def test_amplification_without_a_theorem_is_refused(unit):
    with pytest.raises(InternalError, match=r"is accounted only per record, .*; got "):
        subsampled_cost(pure(1, unit), Fraction(1, 2))


@pytest.mark.parametrize("cost", [pure(1).as_zcdp(), pure(1, delta="1/9")])
def test_amplification_is_for_pure_costs_of_exact_samplers(cost):
    with pytest.raises(InternalError, match="A sample can be accounted only for pure costs of"):
        subsampled_cost(cost, Fraction(1, 2))


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(-1, 2), Fraction(3, 2)])
def test_a_sampling_rate_is_above_zero_and_at_most_one(rate):
    with pytest.raises(SettingError, match="sampling rate must be above 0 and at most 1; got"):
        subsampled_cost(pure(1), rate)
