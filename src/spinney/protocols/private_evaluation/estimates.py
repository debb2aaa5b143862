"""Estimates from noisy counts, each with a 95 % interval.

A measure is a smooth function of the counts that does not change if all counts are multiplied by
the same number. To first order it errs by its slopes times the errors of the counts. The rows are
a sample: a count's sampling variance is then the count itself (as for Poisson counts; the measures
do not depend on the total). Noise adds its own known variance, and has heavier tails than the
normal law, which the quantile allows for by the fourth cumulant (Cornish and Fisher 1938). Shares
of rows have Wilson's interval, widened by the noise; the AUC is bounded on the scale of logits
where the sample errs more than the noise.
"""

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Final

import msgspec
import numpy as np

from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.typing import Floats, Integers

_Z: Final = 1.959964  # the normal law's 97.5 % quantile
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

    def is_enough(self, cells: Floats) -> bool:
        """Return whether some cells certainly hold rows, so that one can divide by their sum."""
        total = float(cells.sum())
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


def quotient(top: Floats, bottom: Floats, noisy: Noisy) -> Measured | None:
    """Return a positive quotient; its interval allows for a noisy number of rows (Fieller 1954)."""
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


def area(scores: Floats, width: Floats, noisy: Noisy) -> tuple[float, Error] | None:
    """Return the area under the ROC curve: (2, n_bins) rows of other classes, rows of this one.

    Two rows in one bin count as tied, except that the higher score is a little more often of this
    class: if the log-odds grow by g over a bin, by g / 12 more than half the time. They are taken
    as linear in the score, as for two normal laws of the same variance. Half of what this adds is
    allowed for as an error.
    """
    others, own = scores
    if not (noisy.is_enough(others) and noisy.is_enough(own)):
        return None
    n_others, n_own = float(others.sum()), float(own.sum())
    below = np.cumsum(others) - others / 2
    above = n_own - np.cumsum(own) + own / 2
    value = float((own * below).sum()) / (n_others * n_own)
    slopes = np.stack([above / n_own - value, below / n_others - value])
    slopes /= np.array([[n_others], [n_own]])
    error = Error.along(slopes, noisy.part(scores))
    middle = np.cumsum(width) - width / 2
    means = [float((middle * rows).sum() / rows.sum()) for rows in scores]
    squares = float((middle**2 * scores).sum()) - sum(
        m * m * float(rows.sum()) for m, rows in zip(means, scores, strict=True)
    )
    growth = (means[1] - means[0]) * (n_others + n_own) / squares if squares > 0 else 0.0
    ties = np.maximum(own * others, 0.0) * np.clip(growth * width, 0.0, 3.0) / 12
    more = float(ties.sum()) / (n_others * n_own)
    return value + more, Error(error.sampling + (more / 2) ** 2, error.noise, error.cumulant)
