"""Differential privacy mechanisms: each class holds its noise and its cost side by side.

==================  =========================================================  ==============
DiscreteLaplace     adds two-sided geometric noise to integers                 pure epsilon
DiscreteGaussian    adds discrete Gaussian noise to integers                   rho of zCDP
SmoothGaussian      the same, a little wider                                   mu of GDP
RandomisedResponse  keeps a category or replaces it by another one             pure epsilon
PermuteAndFlip      chooses one of the best of several candidates              pure epsilon
==================  =========================================================  ==============

`cost` depends only on the parameters, so a party computes it itself. `release` spends a charge that
covers the cost, *then* draws, once. The samplers are exact; only `SmoothGaussian` has a delta. A
sensitivity is stated for the mechanism's `unit`: a histogram changes by 1 (in L1) when a record is
added or removed and by 2 when one is replaced.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import exp
from typing import Any, ClassVar

import numpy as np

from spinney.errors import InternalError, SettingError
from spinney.privacy import samplers
from spinney.privacy.budget import Cost, Measure, Unit, exp_bounds, positive_epsilon
from spinney.privacy.release import Mechanism, Shares
from spinney.typing import Floats, Integers

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "PermuteAndFlip",
    "RandomisedResponse",
    "Shares",
    "SmoothGaussian",
]

_PI_SQUARED = Fraction(98696, 10000)  # rounded down: pi**2 = 9.8696044
_TAU_BITS = 192
_SMOOTHING = 4  # variance of the rounding that turns real into discrete Gaussian noise
_LARGEST_SCORE = 1 << 61  # so that the difference of two scores fits in 64 bits


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Mechanism):
    """Two-sided geometric noise on integers, whole or in shares.

    Adds Z with P[Z = k] = (1 - alpha) / (1 + alpha) * alpha**abs(k), alpha = exp(-epsilon /
    sensitivity), to every number (Ghosh, Roughgarden and Sundararajan 2009). In shares, each of K
    parties adds NB(1/t, alpha) - NB(1/t, alpha); any t of these sum to Z.

    Parameters
    ----------
    epsilon
        The pure cost of a release.
    sensitivity
        How much one `unit` can change all released numbers together, in the L1 norm.
    unit
        The unit of privacy.
    shares
        None if this party's noise alone is enough; otherwise how many parties share it.
    """

    norm: ClassVar[str] = "L1"
    epsilon: Fraction
    sensitivity: Fraction = Fraction(1)
    unit: Unit = Unit.RECORD_ADD_REMOVE
    shares: Shares | None = None

    def __post_init__(self) -> None:
        make_exact(self, "epsilon", "sensitivity")
        check_decay(self.decay)

    @property
    def decay(self) -> Fraction:
        """The decay rate of the noise: epsilon / sensitivity."""
        return self.epsilon / self.sensitivity

    @property
    def variance(self) -> float:
        """The variance of the noise in the released sum, all parties' shares together."""
        alpha = exp(-self.decay)
        excess = self.shares.parties / self.shares.honest if self.shares else 1
        return excess * 2 * alpha / (1 - alpha) ** 2

    def cost(self, n_values: int = 1) -> Cost:  # noqa: ARG002
        """Return epsilon; the sensitivity covers all `n_values` numbers together."""
        return Cost(Measure.PURE, self.epsilon, self.unit)

    def _randomised(self, values: Integers) -> Integers:
        honest = self.shares.honest if self.shares else 1
        return values + samplers.shares(self.decay, honest, values.size).reshape(values.shape)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Mechanism):
    """Discrete Gaussian noise on integers, whole or in shares, for many releases.

    Adds Z with P[Z = k] proportional to exp(-k**2 / (2 sigma**2)), sigma**2 = squared_sensitivity /
    (2 rho) (Canonne, Kamath and Steinke 2020). In shares, each party adds a discrete Gaussian of
    variance sigma**2 / t; their sum is not exactly one, which costs at most tau more per number:
    tau = 10 (t - 1) exp(-pi**2 sigma**2 / t) (Kairouz, Liu and Steinke 2021, proposition 14).

    Parameters
    ----------
    rho
        The zCDP cost of a release, before tau.
    squared_sensitivity
        How much one `unit` can change all released numbers together, in the squared L2 norm.
    unit, shares
        As in `DiscreteLaplace`.
    """

    norm: ClassVar[str] = "L2"
    rho: Fraction
    squared_sensitivity: Fraction = Fraction(1)
    unit: Unit = Unit.RECORD_ADD_REMOVE
    shares: Shares | None = None

    def __post_init__(self) -> None:
        make_exact(self, "rho", "squared_sensitivity")
        if self.share_variance > samplers.LARGEST_VARIANCE:
            raise SettingError(
                f"rho is too small: the noise would not fit in 64-bit sums; got rho="
                f"{float(self.rho):.3g} for a squared sensitivity of "
                f"{float(self.squared_sensitivity):g}."
            )
        if self._honest > 1 and self.share_variance < Fraction(1, 4):
            raise SettingError(
                f"A Gaussian share needs a variance of at least 1/4; got "
                f"{float(self.share_variance):.3g} at rho={float(self.rho):.3g}. "
                f"Lower rho, or use DiscreteLaplace."
            )

    @property
    def _honest(self) -> int:
        return self.shares.honest if self.shares else 1

    @property
    def share_variance(self) -> Fraction:
        """The variance parameter of this party's noise: sigma**2 / t."""
        return self.squared_sensitivity / (2 * self.rho * self._honest)

    @property
    def variance(self) -> float:
        """An upper bound on the variance of the noise in the released sum, all shares together."""
        return float(self.share_variance) * (self.shares.parties if self.shares else 1)

    def cost(self, n_values: int = 1) -> Cost:
        """Return rho + tau * n_values, rounded up; tau is 0 for noise that is not shared."""
        return Cost(Measure.ZCDP, self.rho + n_values * self._tau, self.unit)

    @property
    def _tau(self) -> Fraction:
        """How far the sum of shares is from a discrete Gaussian: of the logarithms, per number."""
        _, high = exp_bounds(_PI_SQUARED * self.share_variance, _TAU_BITS)
        return Fraction(10 * (self._honest - 1) * high, 1 << _TAU_BITS)

    def _randomised(self, values: Integers) -> Integers:
        noise = samplers.discrete_gaussian(self.share_variance, values.size)
        return values + noise.reshape(values.shape)


@dataclass(frozen=True, slots=True)
class SmoothGaussian(DiscreteGaussian):
    """Discrete Gaussian noise that is counted as Gaussian DP: the same noise costs less.

    The variance is larger by 4 than squared_sensitivity / (2 rho). So its law is that of real
    Gaussian noise of that smaller variance after rounding at random, which costs nothing, but for a
    chance of less than 1e-33 per number, which the cost's delta states
    (`docs/gaussian-budgets.md`). `rho` is half of mu**2.
    """

    @property
    def share_variance(self) -> Fraction:
        """The variance parameter of this party's noise."""
        return (self.squared_sensitivity / (2 * self.rho) + _SMOOTHING) / self._honest

    def cost(self, n_values: int = 1) -> Cost:
        """Return half of mu**2, and the chance that one of the numbers misses its law."""
        _, rounding = exp_bounds(2 * _PI_SQUARED * _SMOOTHING, _TAU_BITS)
        missed = 2 * self._tau + Fraction(5 * rounding, 1 << _TAU_BITS)
        return Cost(Measure.GAUSSIAN, self.rho, self.unit, min(Fraction(1), n_values * missed))


@dataclass(frozen=True, slots=True)
class RandomisedResponse(Mechanism):
    """Keep a category with probability p, else report one of the others uniformly at random.

    p = e**epsilon / (e**epsilon + k - 1) for k categories (Kairouz, Oh and Viswanath 2016). Draw
    once per row for the lifetime of the data and store the result: every new draw costs epsilon
    again.

    Parameters
    ----------
    epsilon
        The pure cost of reporting one column.
    n_categories
        The number of categories: k. Values are 0 .. k - 1.
    unit
        LABEL, or RECORD_REPLACE for one of a record's columns. Never add-or-remove: a report for
        every row reveals the number of rows.
    """

    norm: ClassVar[str] = "none"
    epsilon: Fraction
    n_categories: int
    unit: Unit = Unit.LABEL

    def __post_init__(self) -> None:
        make_exact(self, "epsilon")
        if isinstance(self.n_categories, bool) or not isinstance(self.n_categories, int):
            raise SettingError(f"n_categories must be a whole number; got {self.n_categories!r}.")
        if self.n_categories < 2:
            raise SettingError(f"n_categories must be at least 2; got {self.n_categories}.")
        if self.unit is Unit.RECORD_ADD_REMOVE:
            raise SettingError(
                "Randomised response cannot hide that a record was added or removed: it reports "
                "every row. Name the unit 'label' or 'record, replace'."
            )

    @property
    def keep_probability(self) -> float:
        """The probability that a category is reported unchanged: p."""
        return 1 / (1 + (self.n_categories - 1) * exp(-self.epsilon))

    def cost(self, n_values: int = 1) -> Cost:  # noqa: ARG002
        """Return epsilon: a label is in one row, however many rows are reported."""
        return Cost(Measure.PURE, self.epsilon, self.unit)

    def _check(self, values: Integers) -> None:
        if values.size and not 0 <= values.min() <= values.max() < self.n_categories:
            raise InternalError(f"Categories must be 0 to {self.n_categories - 1}.")

    def _randomised(self, values: Integers) -> Integers:
        shift = 1 + samplers.uniform_below(self.n_categories - 1, values.size)
        shift[samplers.draw_kept(self.epsilon, self.n_categories, values.size)] = 0
        moved: Integers = (values + shift.reshape(values.shape)) % self.n_categories
        return moved


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(Mechanism):
    """Choose a candidate with a high score.

    Visits the candidates in random order and takes candidate i with probability
    exp(-epsilon (best - score_i) / (c sensitivity)); c = 2, or 1 if scores are monotone (McKenna
    and Sheldon 2020; equal to report-noisy-max with exponential noise, and never worse than the
    exponential mechanism). Scores are along the last axis; several rows are several choices, which
    cost epsilon once if no record is in two of them.

    Parameters
    ----------
    epsilon
        The pure cost of a choice.
    sensitivity
        How much one `unit` can change any single score.
    unit
        The unit of privacy.
    monotone
        Whether adding a record never lowers a score. This requires the unit RECORD_ADD_REMOVE,
        since replacing a record may raise one score and lower another.
    """

    norm: ClassVar[str] = "Linf"
    epsilon: Fraction
    sensitivity: Fraction = Fraction(1)
    unit: Unit = Unit.RECORD_ADD_REMOVE
    monotone: bool = False

    def __post_init__(self) -> None:
        make_exact(self, "epsilon", "sensitivity")
        if self.monotone and self.unit is not Unit.RECORD_ADD_REMOVE:
            raise SettingError(
                f"monotone=True requires the unit {Unit.RECORD_ADD_REMOVE.value!r}; replacing a "
                f"record or a label may raise one score and lower another. Got {self.unit.value!r}."
            )
        check_decay(self.decay)

    @property
    def decay(self) -> Fraction:
        """The decay rate with the distance from the best score: epsilon / (c sensitivity)."""
        return self.epsilon / (self.sensitivity * (1 if self.monotone else 2))

    def cost(self, n_values: int = 1) -> Cost:  # noqa: ARG002
        """Return epsilon, however many candidates there are."""
        return Cost(Measure.PURE, self.epsilon, self.unit)

    def _check(self, values: Integers) -> None:
        if values.ndim == 0 or values.shape[-1] == 0:
            raise InternalError("A choice needs at least one candidate.")
        if values.size and max(-int(values.min()), int(values.max())) > _LARGEST_SCORE:
            raise InternalError("Scores must lie between -2**61 and 2**61.")

    def _randomised(self, values: Integers) -> Integers:
        behind = values.max(axis=-1, keepdims=True) - values
        # P[G >= k] = exp(-decay k) for a geometric G: all coins are flipped at once, and the first
        # success in a random order is a uniformly random success
        luck = samplers.geometric(self.decay, values.size).reshape(values.shape)
        taken = map(np.flatnonzero, (luck >= behind).reshape(-1, values.shape[-1]))
        chosen = [places[samplers.uniform_below(places.size, 1)[0]] for places in taken]
        return np.array(chosen, dtype=np.int64).reshape(values.shape[:-1])


def check_decay(decay: Fraction) -> None:
    """Raise if noise of this decay would not fit in 64-bit sums."""
    if decay < samplers.SMALLEST_DECAY:
        raise SettingError(
            f"epsilon / sensitivity must be at least 2**-50, or the noise would not fit in 64-bit "
            f"sums; got {float(decay):.3g}."
        )


def make_exact(mechanism: Any, *names: str) -> None:
    """Replace positive numbers by exact fractions; raise for others."""
    for name in names:
        value = positive_epsilon(getattr(mechanism, name), name)
        object.__setattr__(mechanism, name, value)


def project_to_simplex(counts: Floats, total: Floats) -> Floats:
    """Return the nearest nonnegative points with the given sums, along the last axis.

    Subtracts from each entry the number that makes the positive parts add up to the sum (Held,
    Wolfe and Crowder 1974).
    """
    ordered = -np.sort(-counts, axis=-1)
    excess = (np.cumsum(ordered, axis=-1) - total) / np.arange(1, counts.shape[-1] + 1)
    n_positive = np.count_nonzero(ordered > excess, axis=-1, keepdims=True)
    # with a total of zero no entry is positive; any number above the largest can be subtracted
    level = np.take_along_axis(excess, np.maximum(n_positive - 1, 0), axis=-1)
    return np.maximum(counts - level, 0.0)
