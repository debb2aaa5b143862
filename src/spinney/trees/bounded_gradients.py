"""What a row adds to its leaf in private boosting: whole numbers with a public bound.

A record is in one leaf of a tree, so it moves that leaf's sums by what it adds. With S = 2**12:

=============  ====================================  ===============  ================
loss           a row adds                            absolute, sum    squares, sum
=============  ====================================  ===============  ================
two classes    S g, S c h                            S                S**2
more classes   S g of each class, S / 2              5/2 S            9/4 S**2
squared error  S g / b, S / 3                        4/3 S            10/9 S**2
first scores   1 to its class, or its target's cell  1                1
class counts   1 to its class                        1                1
=============  ====================================  ===============  ================

Two classes: g = p - y and h = p (1 - p), so |g| + h <= 1 - (1 - |g|)**2 <= 1: with c = 1 the
curvature is free in the sum of absolute values. With c = 3, g**2 + 9 h**2 <= 1, so it is free in
the sum of squares. More classes: the |g| add up to 2 (1 - p_y) <= 2, their squares to at most 2.
Squared error: g is clipped to b, which follows from noisy sums; whatever b is, |g| / b <= 1. Class
counts: before the first tree all rows have the same scores,
so that gradients follow from counts, which a record moves less. Every number is rounded towards
zero, which only lowers the sums.
`tests/unit/trees/test_bounded_gradients.py` tries all of this on neighbouring tables.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spinney.trees.noisy_edges import heard_shares
from spinney.trees.posterior import Prior
from spinney.typing import Bools, Floats, Integers

SCALE = 1 << 12
VALUE_BITS = 24  # leaf values are whole numbers of 2**-24
TARGET_CELLS = 256  # equal cells of a target's range
_MIDDLES = (np.arange(TARGET_CELLS) + 0.5) / TARGET_CELLS * 2.0 - 1.0
_OUTER = 0.02  # the share of targets on each side that do not count for the first score
_RANGE_STEPS = 2**24 - 1  # of a target that is given in fixed point


@dataclass(frozen=True)
class Moved:
    """How much a record moves numbers: the sum of absolute changes, and of their squares."""

    absolute: Fraction
    squared: Fraction


class BoundedLoss(ABC):
    """What is minimised, by sums to which one record adds little."""

    link: ClassVar[str]
    scale: ClassVar[int] = SCALE  # what a whole row adds, at most

    @property
    @abstractmethod
    def prior(self) -> Prior:
        """What is assumed about steps."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """How many scores a row has."""

    @property
    @abstractmethod
    def n_sums(self) -> int:
        """How many numbers a leaf has."""

    @property
    @abstractmethod
    def moved(self) -> Moved:
        """How much a record moves the sums of one tree."""

    @property
    @abstractmethod
    def base_moved(self) -> Moved:
        """How much a record moves the sums behind the first scores."""

    @property
    @abstractmethod
    def n_base(self) -> int:
        """How many numbers the first scores follow from."""

    @abstractmethod
    def base_sums(self, target: NDArray[Any]) -> Integers:
        """Return the sums behind the first scores, (n_base,)."""

    @abstractmethod
    def base(self, sums: Integers, deviation: float) -> Floats:
        """Return the first scores, (n_outputs,), from noisy sums."""

    def scaled(self, sums: Integers, deviation: float) -> "BoundedLoss":
        """Return the loss in units that follow from the noisy sums behind the first scores."""
        del sums, deviation
        return self

    @abstractmethod
    def added(self, scores: Floats, target: NDArray[Any]) -> Integers:
        """Return what each row adds to its leaf, (n_sums, n_rows)."""

    @abstractmethod
    def read(
        self, sums: Floats, variance: float, base_sums: Integers
    ) -> tuple[Floats, Floats, Floats | float]:
        """Return gradients, curvatures (n_outputs, n_leaves) and the variance of a gradient.

        Given are noisy sums, (n_sums, n_leaves), the variance of each, and the noisy sums behind
        the first scores.
        """


def leaf_sums(added: Integers, leaf: Integers, n_leaves: int) -> Integers:
    """Return the sums of every leaf, (n_sums, n_leaves)."""
    found = [np.bincount(leaf, line, n_leaves) for line in added]
    return np.rint(np.stack(found)).astype(np.int64)  # exact: they stay far below 2**53


def _towards_zero(values: Floats) -> Integers:
    return np.trunc(values).astype(np.int64)


@dataclass(frozen=True)
class TwoClasses(BoundedLoss):
    """The log loss of two classes; `weight` is c."""

    weight: int
    link = "logistic"
    prior = Prior(0.5, 1.0, 3.0)
    n_outputs = 1
    n_sums = 2
    n_base = 2
    moved = Moved(Fraction(SCALE), Fraction(SCALE**2))
    base_moved = Moved(Fraction(1), Fraction(1))

    def base_sums(self, target: NDArray[Any]) -> Integers:
        """Return the rows of each class."""
        return np.bincount(target, minlength=2).astype(np.int64)

    def base(self, sums: Integers, deviation: float) -> Floats:
        """Return the log odds of the second class."""
        held = np.maximum(sums, 1.0 + deviation)
        return np.log(held[1:] / held[:1])

    def added(self, scores: Floats, target: NDArray[Any]) -> Integers:
        """Return S g and S c h of each row."""
        odds = np.exp(-np.abs(scores[0]))
        less, more = odds / (1.0 + odds), 1.0 / (1.0 + odds)
        is_first = scores[0] < 0
        share, other = np.where(is_first, less, more), np.where(is_first, more, less)
        gradient = np.where(target == 1, -other, share)
        return _towards_zero(SCALE * np.stack([gradient, self.weight * share * other]))

    def read(
        self, sums: Floats, variance: float, base_sums: Integers
    ) -> tuple[Floats, Floats, Floats | float]:
        """Return gradients and curvatures."""
        del base_sums
        return sums[:1] / SCALE, sums[1:] / (SCALE * self.weight), variance / SCALE**2


@dataclass(frozen=True)
class ManyClasses(BoundedLoss):
    """The log loss of several classes; half a count takes the place of curvatures."""

    n_classes: int
    link = "softmax"
    prior = Prior(0.5, 1.0, 3.0)
    moved = Moved(Fraction(5 * SCALE, 2), Fraction(9 * SCALE**2, 4))
    base_moved = Moved(Fraction(1), Fraction(1))

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return self.n_classes

    @property
    def n_sums(self) -> int:
        """How many numbers a leaf has."""
        return self.n_classes + 1

    @property
    def n_base(self) -> int:
        """How many numbers the first scores follow from."""
        return self.n_classes

    def base_sums(self, target: NDArray[Any]) -> Integers:
        """Return the rows of each class."""
        return np.bincount(target, minlength=self.n_classes).astype(np.int64)

    def base(self, sums: Integers, deviation: float) -> Floats:
        """Return the logarithm of each class's share."""
        held = np.maximum(sums, 1.0 + deviation)
        logs: Floats = np.log(held / held.sum())
        return logs

    def added(self, scores: Floats, target: NDArray[Any]) -> Integers:
        """Return S g of each class, and S / 2."""
        shares = np.exp(scores - scores.max(axis=0))
        shares /= shares.sum(axis=0)
        found = np.empty((self.n_classes + 1, target.size), np.int64)
        found[:-1] = _towards_zero(
            SCALE * (shares - (np.arange(self.n_classes)[:, None] == target))
        )
        found[-1] = SCALE // 2
        return found

    def read(
        self, sums: Floats, variance: float, base_sums: Integers
    ) -> tuple[Floats, Floats, Floats | float]:
        """Return gradients, and curvatures as if every row had the classes' shares of all rows."""
        rows = sums[-1:] / (SCALE // 2)
        deviation = np.sqrt(variance) / SCALE
        held = np.maximum(base_sums, 1.0 + deviation)
        share = (held / held.sum())[:, None]
        return sums[:-1] / SCALE, rows * share * (1.0 - share), variance / SCALE**2


class ClassCounts(ManyClasses):
    """The log loss before the first tree, from class counts: all rows have the first scores."""

    scale = 1
    moved = Moved(Fraction(1), Fraction(1))

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def n_sums(self) -> int:
        """How many numbers a leaf has."""
        return self.n_classes

    def added(self, scores: Floats, target: NDArray[Any]) -> Integers:
        """Return 1 for a row's class."""
        del scores
        is_class: Bools = np.arange(self.n_classes)[:, None] == target
        return is_class.astype(np.int64)

    def read(
        self, sums: Floats, variance: float, base_sums: Integers
    ) -> tuple[Floats, Floats, Floats | float]:
        """Return gradients and curvatures at the classes' shares of all rows.

        A gradient is the share of its class times all rows, minus the rows of its class.
        """
        held = np.maximum(base_sums, 1.0 + np.sqrt(variance))
        share = (held / held.sum())[:, None]
        rows = sums.sum(axis=0, keepdims=True)
        spread = variance * (self.n_classes * share**2 + 1.0 - 2.0 * share)
        first = 1 if self.n_classes == 2 else 0  # of two classes, the second has the score
        return (share * rows - sums)[first:], (rows * share * (1.0 - share))[first:], spread[first:]


@dataclass(frozen=True)
class ClippedSquares(BoundedLoss):
    """Half the squared error of a number, in units of half its range, from -1 to 1."""

    clip: float = 1.0  # b; below the standard deviation of targets once residuals are known
    link = "identity"
    n_outputs = 1
    n_sums = 2
    n_base = TARGET_CELLS
    moved = Moved(Fraction(SCALE + SCALE // 3), Fraction(SCALE**2 + (SCALE // 3) ** 2))
    base_moved = Moved(Fraction(1), Fraction(1))

    @property
    def prior(self) -> Prior:
        """What is assumed about steps, by how far a row can pull."""
        return Prior(0.2 * self.clip, 0.8 * self.clip**2, 4.0 * self.clip)

    def base_sums(self, target: NDArray[Any]) -> Integers:
        """Return the rows in equal cells of the range."""
        cell = target.astype(np.int64) * TARGET_CELLS // (_RANGE_STEPS + 1)
        return np.bincount(cell, minlength=TARGET_CELLS).astype(np.int64)

    def base(self, sums: Integers, deviation: float) -> Floats:
        """Return about the mean target, without the outermost."""
        share = heard_shares(sums, deviation)
        above = np.cumsum(share)
        inner = share * (above >= _OUTER) * (above - share <= 1.0 - _OUTER)
        mean: Floats = np.array([float(inner @ _MIDDLES) / float(inner.sum())])
        return mean

    def scaled(self, sums: Integers, deviation: float) -> "ClippedSquares":
        """Return the loss with residuals clipped to the targets' standard deviation."""
        away = _MIDDLES - self.base(sums, deviation)[0]
        spread = float(np.sqrt(heard_shares(sums, deviation) @ away**2))
        return ClippedSquares(max(spread, 1.0 / TARGET_CELLS))

    def added(self, scores: Floats, target: NDArray[Any]) -> Integers:
        """Return S g / b and S / 3 of each row."""
        rows = np.full(target.size, SCALE // 3)
        return np.stack([_towards_zero(SCALE * self.gradient(scores, target)), rows])

    def gradient(self, scores: Floats, target: NDArray[Any]) -> Floats:
        """Return g / b of each row, from -1 to 1."""
        away = self.residual(scores, target)
        clipped: Floats = np.clip(away, -self.clip, self.clip) / self.clip
        return clipped

    def residual(self, scores: Floats, target: NDArray[Any]) -> Floats:
        """Return how far each row's score is above its target, in half the target's range."""
        away: Floats = scores[0] - _of_range(target)
        return away

    def read(
        self, sums: Floats, variance: float, base_sums: Integers
    ) -> tuple[Floats, Floats, Floats | float]:
        """Return gradients and numbers of rows."""
        del base_sums
        unit = self.clip / SCALE
        return sums[:1] * unit, sums[1:] / (SCALE // 3), variance * unit**2


def _of_range(target: NDArray[Any]) -> Floats:
    """Return fixed-point targets as numbers from -1 to 1."""
    share: Floats = target / _RANGE_STEPS * 2.0 - 1.0
    return share


def loss_of(n_classes: int, *, is_pure: bool) -> BoundedLoss:
    """Return the loss of a label: 0 classes for a number."""
    if n_classes == 0:
        return ClippedSquares()
    return TwoClasses(1 if is_pure else 3) if n_classes == 2 else ManyClasses(n_classes)
