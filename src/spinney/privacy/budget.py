"""The privacy cost of a release, in exact numbers.

Costs are fractions, never floats, so a thousand small charges add up to the same total in any
order and at every party. A formula without a rational value (exp, ln, square root) is bounded by
integer interval arithmetic and rounded **up**: a cost here is never too small.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from math import isfinite, isqrt
from numbers import Integral, Rational, Real
from typing import Any, Self

from spinney.errors import InternalError, SettingError

_BITS = 192  # working precision of every bound in this file
_COARSE = 96  # a rounded cost is a multiple of 2**-96


class Unit(StrEnum):
    """The unit of privacy: two tables are neighbours if they differ in one such unit.

    The first two units are record-level differential privacy.
    """

    RECORD_ADD_REMOVE = "record, add or remove"
    RECORD_REPLACE = "record, replace"
    LABEL = "label"

    @property
    def in_words(self) -> str:
        """What may change in a table, in words."""
        return {
            Unit.RECORD_ADD_REMOVE: "a record added or removed",
            Unit.RECORD_REPLACE: "a record replaced by another",
            Unit.LABEL: "a record's label",
        }[self]


class Measure(StrEnum):
    """How a cost is counted.

    Pure epsilon; rho of zero-concentrated DP (zCDP); or half of mu**2 of Gaussian DP, which only
    Gaussian noise has, and which is the smallest there is for it.
    """

    PURE = "pure"
    ZCDP = "zcdp"
    GAUSSIAN = "gaussian"

    def takes(self, other: "Measure") -> bool:
        """Return whether a cost in `other` has an equivalent in this measure."""
        return other is self or self is Measure.ZCDP


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one or more releases.

    Parameters
    ----------
    measure
        The measure of `amount`.
    amount
        epsilon if the measure is pure, rho if it is zCDP, mu**2 / 2 if it is Gaussian.
    unit
        The unit of privacy whose change the amount bounds.
    delta
        The probability mass by which the sampler may miss its law (0 for an exact sampler);
        not the delta at which zCDP is read, which is chosen later (`epsilon_of`).
    """

    measure: Measure
    amount: Fraction
    unit: Unit
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        for name in ("amount", "delta"):
            value = getattr(self, name)
            if not isinstance(value, Fraction) or value < 0:
                raise InternalError(f"A cost's {name} must be a Fraction of at least 0.")

    @classmethod
    def zero(cls, measure: Measure, unit: Unit) -> Self:
        """Return the cost of releasing nothing."""
        return cls(measure, Fraction(0), unit)

    def __add__(self, other: "Cost") -> "Cost":
        """Return the cost of both releases on the same records."""
        if not isinstance(other, Cost):
            return NotImplemented
        if (self.measure, self.unit) != (other.measure, other.unit):
            raise InternalError(
                f"Only costs of the same measure and unit can be added; got {self.measure} per "
                f"{self.unit} and {other.measure} per {other.unit}."
            )
        return Cost(self.measure, self.amount + other.amount, self.unit, self.delta + other.delta)

    def __mul__(self, times: int) -> "Cost":
        """Return the cost of `times` such releases on the same records."""
        if not isinstance(times, int) or isinstance(times, bool):
            return NotImplemented
        return Cost(self.measure, self.amount * times, self.unit, self.delta * times)

    __rmul__ = __mul__

    def covers(self, other: "Cost") -> bool:
        """Return whether this cost pays for `other`, which may be pure in a zCDP account."""
        if self.measure is Measure.ZCDP:
            other = other.as_zcdp()
        same = (self.measure, self.unit) == (other.measure, other.unit)
        return same and self.amount >= other.amount and self.delta >= other.delta

    def as_zcdp(self) -> "Cost":
        """Return the same guarantee in zCDP.

        epsilon becomes rho = epsilon**2 / 2, and mu of Gaussian noise becomes rho = mu**2 / 2 (Bun
        and Steinke 2016, propositions 1.4 and 1.6).
        """
        if self.measure is Measure.ZCDP:
            return self
        if self.measure is Measure.GAUSSIAN:
            return Cost(Measure.ZCDP, self.amount, self.unit, self.delta)
        return Cost(Measure.ZCDP, self.amount**2 / 2, self.unit, self.delta)


def total(costs: Iterable[Cost], measure: Measure, unit: Unit) -> Cost:
    """Return the total cost; the cost of no releases is zero."""
    spent = Cost.zero(measure, unit)
    for cost in costs:
        spent += cost
    return spent


def positive_epsilon(value: Any, name: str = "epsilon") -> Fraction:
    """Return a user's epsilon as an exact fraction; 0.1 means one tenth.

    A binary float means the shortest decimal that prints the same, which is what the user wrote.
    """
    exact = _fraction(value)
    if exact is None or exact <= 0:
        raise SettingError(f"{name} must be a positive finite number; got {value!r}.")
    return exact


def probability(value: Any, name: str = "delta") -> Fraction:
    """Return a user's probability, strictly between 0 and 1, as an exact fraction."""
    exact = _fraction(value)
    if exact is None or not 0 < exact < 1:
        raise SettingError(
            f"{name} must be a number between 0 and 1, both excluded; got {value!r}."
        )
    return exact


def epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    """Return epsilon = rho + 2 sqrt(rho ln(1/delta)), rounded up.

    rho-zCDP is (epsilon, delta)-private for every delta (Bun and Steinke 2016, prop. 1.3).

    Parameters
    ----------
    rho
        The total cost in zCDP.
    delta
        The probability with which the claim may fail, strictly between 0 and 1.
    """
    if rho < 0:
        raise InternalError(f"rho must be at least 0; got {rho}.")
    if rho == 0:
        return Fraction(0)
    _, log_high = log_bounds(1 / probability(delta), _BITS)
    radicand = rho * Fraction(log_high, 1 << _BITS)
    root = Fraction(isqrt(_ceiling(radicand, 2 * _BITS)) + 1, 1 << _BITS)
    return _rounded_up(rho + 2 * root)


def subsampled_cost(cost: Cost, rate: Fraction) -> Cost:
    """Return the cost of a release on a secret sample: ln(1 + q (e**epsilon - 1)), rounded up.

    Balle, Barthe and Gaboardi 2018, theorem 8. It holds for one unit only: rows drawn by separate
    coins hide a record that is added or removed. The sample must be secret: a known sample gives no
    amplification.

    Parameters
    ----------
    cost
        The pure cost per record of the release on the sample: epsilon.
    rate
        The probability that a row is in the sample: q, at most 1.
    """
    if not 0 < rate <= 1:
        raise SettingError(f"The sampling rate must be above 0 and at most 1; got {rate}.")
    if cost.measure is not Measure.PURE or cost.delta:
        raise InternalError("A sample can be accounted only for pure costs of exact samplers.")
    if cost.unit is not Unit.RECORD_ADD_REMOVE:
        raise InternalError(
            f"A sample is accounted only per {Unit.RECORD_ADD_REMOVE}; got {cost.unit}."
        )
    epsilon = cost.amount
    # epsilon + ln(q + (1 - q) e**-epsilon) is the same number and does not need e**epsilon
    _, exp_high = exp_bounds(epsilon, _BITS)
    inner = rate + (1 - rate) * Fraction(exp_high, 1 << _BITS)
    _, log_high = log_bounds(inner, _BITS)
    amplified = min(epsilon, _rounded_up(epsilon + Fraction(log_high, 1 << _BITS)))
    return Cost(cost.measure, amplified, cost.unit)


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integers low <= e**-x * 2**bits <= high, usually one apart.

    Parameters
    ----------
    x
        The negated exponent, at least 0.
    bits
        The precision.
    """
    if x == 0:
        return 1 << bits, 1 << bits
    halvings = (x.numerator // x.denominator).bit_length() + 1
    work = bits + halvings + 32
    one = 1 << work
    small = x / (1 << halvings)  # at most 1/2, so the alternating series decreases from the start
    term, series, n = one, one, 0
    while term:
        n += 1
        term = term * small.numerator // (small.denominator * n)
        series += term if n % 2 == 0 else -term
    # each floored term is less than one unit too small, plus the error of earlier floors (at most
    # one more, as each factor is at most 1/2); the omitted terms sum to less than one unit
    low, high = max(series - 2 * n - 2, 0), min(series + 2 * n + 2, one)
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)
    return low >> (work - bits), -(-high >> (work - bits))


def log_bounds(y: Fraction, bits: int) -> tuple[int, int]:
    """Return integers low <= ln(y) * 2**bits <= high, a few units apart, for y > 0."""
    exponent = y.numerator.bit_length() - y.denominator.bit_length()
    mantissa = y / Fraction(2) ** exponent  # between 1/2 and 2
    work = bits + abs(exponent).bit_length() + 32
    two_low, two_high = _atanh_bounds(Fraction(1, 3), work)  # ln 2 = 2 atanh(1/3)
    low, high = _atanh_bounds((mantissa - 1) / (mantissa + 1), work)
    if exponent < 0:
        two_low, two_high = two_high, two_low
    low, high = 2 * (low + exponent * two_low), 2 * (high + exponent * two_high)
    return low >> (work - bits), -(-high >> (work - bits))


def _atanh_bounds(z: Fraction, work: int) -> tuple[int, int]:
    """Return integers around atanh(z) * 2**work for |z| <= 1/3, by z + z**3/3 + z**5/5 + ..."""
    if z < 0:
        low, high = _atanh_bounds(-z, work)
        return -high, -low
    power, series, n = (z.numerator << work) // z.denominator, 0, 0
    square = z * z
    while power:
        series += power // (2 * n + 1)
        power = power * square.numerator // square.denominator
        n += 1
    return series, series + 3 * n + 3  # two floors per term, and a tail below one unit


def _fraction(value: Any) -> Fraction | None:
    """Return a finite real number as an exact fraction, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    if isinstance(value, Rational | Integral):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(str(value)) if isfinite(value) else None


def _ceiling(value: Fraction, bits: int) -> int:
    return -(-(value.numerator << bits) // value.denominator)


def _rounded_up(value: Fraction) -> Fraction:
    """Return the next multiple of 2**-96, so that costs keep short denominators."""
    return Fraction(_ceiling(value, _COARSE), 1 << _COARSE)
