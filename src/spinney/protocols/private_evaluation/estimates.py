"""Estimates from noisy counts, each with a 95 % interval.

A measure is a smooth function of the counts that does not change if all counts are multiplied by
the same number. To first order it errs by its slopes times the errors of the counts. The rows are
a sample: a count's sampling variance is then the count itself (as for Poisson counts; the measures
do not depend on the total). Noise adds its own known variance, and has heavier tails than the
normal law, which the quantile allows for by the fourth cumulant (Cornish and Fisher 1938). Shares
of rows have Wilson's interval, widened by the noise; quotients and the AUC have Fieller's. What
bins hide of the scores is allowed for as an error of its own.
"""

from dataclasses import dataclass
from math import exp, inf, log, sqrt
from typing import Final

import msgspec
import numpy as np

from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.typing import Floats, Integers

_Z: Final = 2.0  # the normal law's 97.7 % quantile: the variance is itself an estimate
_TAIL: Final = (_Z**3 - 3 * _Z) / 24
_SURE: Final = 5.0  # standard deviations of noise that a number of rows must exceed to divide by it
_FEWEST: Final = 5.0  # rows


class Measured(msgspec.Struct, frozen=True):
    """An estimate and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Noisy:
    """A histogram with noise: the variance and the fourth cumulant of the noise in a cell."""

    what: str
    counts: Floats
    variance: float
    cumulant: float

    @classmethod
    def of(cls, what: str, counts: Integers, noise: DiscreteLaplace, n_noises: int) -> "Noisy":
        """Return a histogram to which this noise was added `n_noises` times."""
        a = exp(-noise.decay)
        excess = noise.shares.parties / noise.shares.honest if noise.shares else 1.0
        fourth = excess * 2 * a * (1 + 4 * a + a * a) / (1 - a) ** 4
        return cls(what, counts.astype(np.float64), n_noises * noise.variance, n_noises * fourth)

    def part(self, counts: Floats) -> "Noisy":
        """Return some of its cells."""
        return Noisy(self.what, counts, self.variance, self.cumulant)

    def is_enough(self, cells: Floats, known: float = inf) -> bool:
        """Return whether some cells certainly hold rows, so that one can divide by their sum.

        `known` is their number by other noise. Where it decides, what is told is no choice of the
        noise that it is told with.
        """
        total = min(float(cells.sum()), known)
        return total > max(_FEWEST, _SURE * sqrt(self.variance * cells.size))


@dataclass(frozen=True)
class Error:
    """The error of an estimate: sampling variance, noise variance, fourth cumulant."""

    sampling: float
    noise: float
    cumulant: float

    @classmethod
    def along(cls, slopes: Floats, noisy: Noisy) -> "Error":
        """Return the error of an estimate with these slopes in the counts."""
        squares = slopes**2
        return cls(
            max(0.0, float((squares * noisy.counts).sum())),
            noisy.variance * float(squares.sum()),
            noisy.cumulant * float((squares**2).sum()),
        )

    def times(self, factor: float) -> "Error":
        """Return the error of a multiple of the estimate."""
        return Error(self.sampling * factor**2, self.noise * factor**2, self.cumulant * factor**4)

    @classmethod
    def added(cls, errors: list["Error"]) -> "Error":
        """Return the error of a sum of estimates from the same rows, with separate noise."""
        return cls(
            sum(sqrt(one.sampling) for one in errors) ** 2,  # as if all rows erred alike
            sum(one.noise for one in errors),
            sum(one.cumulant for one in errors),
        )

    @property
    def quantile(self) -> float:
        """How many standard deviations a 95 % interval reaches."""
        variance = self.sampling + self.noise
        return _Z + _TAIL * self.cumulant / variance**2 if variance > 0 else _Z

    @property
    def reach(self) -> float:
        """Half the width of a 95 % interval."""
        return self.quantile * sqrt(self.sampling + self.noise)


def ratio(top: Floats, bottom: Floats, noisy: Noisy) -> tuple[float, Error] | None:
    """Return a quotient of two weighted sums of the counts; None if there may be no rows."""
    used = noisy.counts[bottom != 0]
    if not noisy.is_enough(used):
        return None
    total = float((bottom * noisy.counts).sum())
    value = float((top * noisy.counts).sum()) / total
    return value, Error.along((top - value * bottom) / total, noisy)


def quotient(top: Floats, bottom: Floats, noisy: Noisy, hidden: float = 0.0) -> Measured | None:
    """Return a positive quotient; its interval allows for a noisy number of rows (Fieller 1954).

    `hidden` is a standard deviation of its own, for what the counts cannot tell.
    """
    found = ratio(top, bottom, noisy)
    if found is None:
        return None
    value, error = found
    z = error.quantile
    variance = np.maximum(noisy.counts, 0.0) + noisy.variance
    t, b = float((top * noisy.counts).sum()), float((bottom * noisy.counts).sum())
    tt, tb, bb = (
        float((x * y * variance).sum()) for x, y in ((top, top), (top, bottom), (bottom, bottom))
    )
    tt += (hidden * b) ** 2
    # |t - q b| <= z sd(t - q b), which is a quadratic inequality in q
    square, middle, rest = b * b - z * z * bb, t * b - z * z * tb, t * t - z * z * tt
    spread = sqrt(max(0.0, middle * middle - square * rest))
    bounds = ((middle + sign * spread) / square for sign in (-1, 1))
    return Measured(*(round(max(0.0, x), 6) for x in (value, *bounds)))


def share(top: Floats, bottom: Floats, noisy: Noisy) -> Measured | None:
    """Return a share of rows: `top` and `bottom` are 0 or 1 for each cell."""
    found = ratio(top, bottom, noisy)
    if found is None:
        return None
    value, error = found
    z2, rows = error.quantile**2, float((bottom * noisy.counts).sum())
    chosen = float((top * noisy.counts).sum())
    noise, noise_of_top = (noisy.variance * float(cells.sum()) for cells in (bottom, top))
    # (chosen - q rows)^2 <= z^2 Var(chosen - q rows) for a share q: Wilson's interval, with noise
    square = rows * rows - z2 * (noise - rows)
    middle = chosen * rows + z2 * (rows / 2 - noise_of_top)
    rest = chosen * chosen - z2 * noise_of_top
    spread = sqrt(max(0.0, middle * middle - square * rest))
    bounds = ((middle + sign * spread) / square for sign in (-1, 1))
    return Measured(*(round(min(1.0, max(0.0, x)), 6) for x in (value, *bounds)))


def in_unit(value: float, error: Error) -> Measured:
    """Return an estimate between 0 and 1."""
    reach = error.reach
    is_skewed = error.sampling > error.noise  # noise is symmetric
    if is_skewed and value - reach > 0 and value + reach < 1:
        centre, width = log(value / (1 - value)), reach / (value * (1 - value))
        low, high = (1 / (1 + exp(-(centre + sign * width))) for sign in (-1, 1))
    else:
        low, high = value - reach, value + reach
    return Measured(*(round(min(1.0, max(0.0, x)), 6) for x in (value, low, high)))


def above_zero(value: float, error: Error) -> Measured:
    """Return an estimate of a positive number."""
    reach = error.reach
    if value > reach:
        low, high = (value * exp(sign * reach / value) for sign in (-1, 1))
    else:
        low, high = value - reach, value + reach
    return Measured(*(round(max(0.0, x), 6) for x in (value, low, high)))


def rows_in(cells: Floats, noisy: Noisy) -> Measured:
    """Return how many rows some cells hold; only noise hides it."""
    error = Error(0.0, noisy.variance * cells.size, noisy.cumulant * cells.size)
    value = float(cells.sum())
    return Measured(value, *(round(max(0.0, value + s * error.reach), 1) for s in (-1, 1)))


@dataclass(frozen=True)
class Area:
    """The area under a ROC curve, what it errs by, and the bounds that it leaves alone."""

    value: float
    error: Error
    low: float
    high: float

    @property
    def measured(self) -> Measured:
        """The area with its interval."""
        return Measured(
            *(round(min(1.0, max(0.0, x)), 6) for x in (self.value, self.low, self.high))
        )


def area(scores: Floats, width: Floats, noisy: Noisy) -> Area | None:
    """Return the area under the ROC curve: (2, n_bins) rows of other classes, rows of this one.

    Two rows in one bin count as tied, but for what `_within_bins` adds, half of which is allowed
    for as an error. The bounds solve (P - A N)^2 = z^2 Var(P - A N) for the area A, where P is how
    many pairs are in order and N how many there are (Fieller 1954): the variance is that at the
    bound, which near 0 and 1 is not that at the estimate.
    """
    others, own = scores
    if not (noisy.is_enough(others) and noisy.is_enough(own)):
        return None
    n_others, n_own = float(others.sum()), float(own.sum())
    pairs = n_others * n_own
    more = _within_bins(scores, width)
    value = _in_order(scores) / pairs + more
    below, above = np.cumsum(others) - others / 2, n_own - np.cumsum(own) + own / 2
    # With a row of the others P - A N changes by above - A n_own, with one of this by the rest.
    ordered = np.stack([above, below]) + pairs * _slopes_within(scores, width)
    counted = np.stack([np.full(own.size, n_own), np.full(own.size, n_others)])
    error = Error.along((ordered - value * counted) / pairs, noisy.part(scores))
    error = Error(error.sampling + (more / 2) ** 2, error.noise, error.cumulant)
    z2, variance = error.quantile**2, np.maximum(scores, 0.0) + noisy.variance
    v0, v1, v2 = (
        float((x * y * variance).sum())
        for x, y in ((ordered, ordered), (ordered, counted), (counted, counted))
    )
    square, middle = pairs**2 - z2 * v2, value * pairs**2 - z2 * v1
    rest = (value * pairs) ** 2 - z2 * (v0 + (more / 2 * pairs) ** 2)
    spread = sqrt(max(0.0, middle**2 - square * rest))
    if square <= 0:
        return Area(value, error, 0.0, 1.0)
    return Area(value, error, (middle - spread) / square, (middle + spread) / square)


def _in_order(scores: Floats) -> float:
    """Return how many pairs of rows are in order; tied ones count one half."""
    others, own = scores
    return float((own * (np.cumsum(others) - others / 2)).sum())


def _within_bins(scores: Floats, width: Floats) -> float:
    """Return what ties hide: within a bin, the higher score is a little more often of this class.

    If the log-odds grow by g over a bin, by g / 12 more than half the time. They are taken as
    linear in the score, as for two normal laws of the same variance.
    """
    others, own = scores
    middle = np.cumsum(width) - width / 2
    means = [float((middle * rows).sum() / rows.sum()) for rows in scores]
    squares = float((middle**2 * scores).sum()) - sum(
        m * m * float(rows.sum()) for m, rows in zip(means, scores, strict=True)
    )
    growth = (means[1] - means[0]) * float(scores.sum()) / squares if squares > 0 else 0.0
    ties = own * others * np.clip(growth * width, 0.0, 3.0) / 12
    return float(ties.sum() / (others.sum() * own.sum()))


def _slopes_within(scores: Floats, width: Floats) -> Floats:
    """Return how that changes with each count, by differences of half a row."""
    slopes = np.empty(scores.shape)
    for place in np.ndindex(scores.shape):
        step = np.zeros(scores.shape)
        step[place] = 0.5
        slopes[place] = _within_bins(scores + step, width) - _within_bins(scores - step, width)
    return slopes
