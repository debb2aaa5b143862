"""Losses of boosted trees in fixed point: the same bits at every party and on any processor.

Tables replace the exponential function, whose last bit differs between mathematical libraries. They
are built with additions, multiplications and divisions alone, which every processor rounds alike.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import gradients as kernels
from spinney.trees.threads import run_ranges
from spinney.typing import Bools, Floats, Integers

Shares = NDArray[np.uint32]  # a row's weight in steps of 2^-16 of the largest; empty: all alike
ALIKE: Final[Shares] = np.zeros(0, np.uint32)
WEIGHT_ONE: Final = 1 << 16  # the largest weight
SCORE_BITS: Final = 24
_ONE: Final = kernels.ONE
_POINTS: Final = (1 << 14) + 2  # the ends of all intervals, and one more to interpolate at the end
_G_STEPS: Final = 127  # a gradient has 8 bits, if its curvature has as many
_H_STEPS: Final = 255
_WIDE_STEPS: Final = 32767  # a gradient has 16 bits, if all curvatures are the same
_MOST_LOG: Final = 16.0  # the largest step of a leaf on the scale of log odds
_PER_ROW: Final = 65536  # rows to a task


def exponential(x: Floats) -> Floats:
    """Return exp(x) for -40 <= x <= 40 to 13 digits, without a mathematical library."""
    small = x / 64.0
    term, total = np.ones_like(x), np.ones_like(x)
    for k in range(1, 18):
        term = term * small / k
        total = total + term
    for _ in range(6):
        total = total * total
    return total


@cache
def sigmoid_table() -> Integers:
    """Return 1 / (1 + exp(-x)) in steps of 2^-30, at even points from -16 on."""
    x = np.arange(_POINTS, dtype=np.float64) * (2.0 * kernels.SIGMOID_LIMIT / (1 << 14))
    x -= kernels.SIGMOID_LIMIT
    return np.rint(_ONE / (1.0 + exponential(-x))).astype(np.int64)


@cache
def decay_table() -> Integers:
    """Return exp(-x) in steps of 2^-30, at even points from 0 on."""
    x = np.arange(_POINTS, dtype=np.float64) * (kernels.EXP_LIMIT / (1 << 14))
    return np.rint(_ONE * exponential(-x)).astype(np.int64)


@cache
def softplus_table() -> Integers:
    """Return ln(1 + exp(x)) in steps of 2^-24, at even points from -16 on.

    It is the integral of the sigmoid, by the trapezoid rule: whole numbers alone.
    """
    sigmoid = sigmoid_table()
    halves = np.concatenate([[2 * sigmoid[0]], sigmoid[1:] + sigmoid[:-1]])
    # A point lies 2^-9 from the next. At -16 the value is that of the sigmoid, to 8 digits.
    sums = np.cumsum(np.concatenate([[halves[0] << 9], halves[1:]]))
    found: Integers = sums >> 16  # from steps of 2^-40 to steps of 2^-24
    return found


@cache
def log_table() -> Integers:
    """Return ln(x) in steps of 2^-24, at even points from 1 to 2."""
    return np.array([log_ratio((1 << 10) + i, 1 << 10) for i in range((1 << 10) + 2)], np.int64)


def log_ratio(a: int, b: int) -> int:
    """Return ln(a / b) in steps of 2^-24, by whole numbers alone."""
    bits = 80
    shift = a.bit_length() - b.bit_length()
    top, low = (a, b << shift) if shift >= 0 else (a << -shift, b)
    # ln(x) = 2 atanh((x - 1) / (x + 1)), for a ratio between 1/2 and 2
    return (_atanh(top - low, top + low, bits) * 2 + shift * _ln2(bits)) >> (bits - SCORE_BITS)


def _atanh(a: int, b: int, bits: int) -> int:
    ratio = (a << bits) // b
    square, term, total, k = (ratio * ratio) >> bits, ratio, 0, 1
    while term not in (0, -1):
        total += term // k
        term = (term * square) >> bits
        k += 2
    return total


@cache
def _ln2(bits: int) -> int:
    return 2 * _atanh(1, 3, bits)


@dataclass(frozen=True)
class Gradients:
    """A gradient and a curvature for each output and row, in steps of 2^-30 of their bounds."""

    gradient: NDArray[np.int32]  # (n_outputs, n_rows)
    curvature: NDArray[np.int32]  # (n_outputs, n_rows), or (n_outputs, 0): all the same


@dataclass(frozen=True)
class Units:
    """How sums of rounded gradients become numbers."""

    g_steps: int  # a gradient at its bound, rounded; also what is added so that none is negative
    h_steps: int  # a curvature at its bound, rounded; 0: a row's curvature is `h`
    g: float  # what one step of a gradient is worth
    h: float  # what one step of a curvature is worth
    most: float  # the largest step of a leaf

    @property
    def width(self) -> int:
        """How many sums a cell has: rows, gradients and, if they differ, curvatures."""
        return 3 if self.h_steps else 2

    def steps(self, moments: Integers, l2: float) -> Floats:
        """Return the best values of leaves, given rows, gradients, curvatures."""
        g, h = moments[:, 1] * self.g, moments[:, 2] * self.h + l2
        steps: Floats = np.divide(-g, h, out=np.zeros(len(moments)), where=h > 0.0)
        return steps

    def whole(self, steps: Floats, scale: float) -> Integers:
        """Return what leaves add to scores, in steps of 2^-24.

        `scale` is the learning rate over the number of trees that are added at once.
        """
        fixed: Integers = np.rint(steps.clip(-self.most, self.most) * scale * 2.0**SCORE_BITS)
        return fixed.astype(np.int64)


class Loss(ABC):
    """What a job minimises. Targets are class indices, or in steps of 2^-24 of their range."""

    name: ClassVar[str]

    @abstractmethod
    def n_outputs(self, n_classes: int) -> int:
        """Return how many scores a row has."""

    def units(
        self, weights: Floats, top: float = 1.0, largest_weight: float | None = None
    ) -> Units:
        """Return how rounded gradients are counted.

        Given are the weight of each class, the target's largest value, and the largest weight of a
        row, if rows have weights.
        """
        units = self._units(weights, top, is_weighed=largest_weight is not None)
        if largest_weight is None:
            return units
        return replace(units, g=units.g * largest_weight, h=units.h * largest_weight)

    @abstractmethod
    def _units(self, weights: Floats, top: float, *, is_weighed: bool) -> Units:
        """Return how rounded gradients of rows of weight 1 are counted."""

    @abstractmethod
    def base(self, counts: Integers) -> Integers:
        """Return the score of each output before the first tree.

        `counts` are the rows of each class; or the number of rows and the sum of their targets.
        """

    @abstractmethod
    def _write(self, scores: Integers, target: Any, facts: Integers, part: Any, out: Any) -> None:
        """Write the gradients of a range of rows."""

    @abstractmethod
    def total(
        self,
        scores: Integers,
        target: NDArray[Any],
        facts: Integers,
        chosen: Bools,
        share: Shares = ALIKE,
    ) -> int:
        """Return the loss summed over the chosen rows, as a whole number of `loss_step`."""

    @property
    @abstractmethod
    def loss_step(self) -> float:
        """What one step of `total` is worth."""

    def gradients(
        self,
        scores: Integers,
        target: NDArray[Any],
        facts: Integers,
        n_threads: int,
        share: Shares = ALIKE,
    ) -> Gradients:
        """Return the gradients of all rows.

        `facts` are the classes' weights in steps of 2^-16 of the largest; or where the target's
        range begins, in steps of 2^-30 of its end. `share` are the rows' weights, if they differ.
        """
        n_rows = scores.shape[1]
        has_h = bool(self._units(np.ones(1), 1.0, is_weighed=share.size > 0).h_steps)
        shape = (scores.shape[0], n_rows if has_h else 0)
        found = Gradients(np.empty(scores.shape, np.int32), np.full(shape, _ONE, np.int32))
        starts = range(0, n_rows, _PER_ROW)
        ranges = [(first, min(n_rows, first + _PER_ROW)) for first in starts]

        def task(*part: int) -> None:
            self._write(scores, target, facts, part, found)
            if share.size:
                kernels.weigh(share, *part, found.gradient, found.curvature)

        run_ranges(task, ranges, n_threads)
        return found


class LogLoss(Loss):
    """The log loss of two or more classes."""

    name = "log_loss"

    def n_outputs(self, n_classes: int) -> int:
        """Return one score for two classes, and one for each of several."""
        return 1 if n_classes == 2 else n_classes

    def _units(self, weights: Floats, top: float, *, is_weighed: bool) -> Units:
        """Return the bounds 1 and 1/4, times the largest weight."""
        del top, is_weighed
        most = float(weights.max())
        return Units(_G_STEPS, _H_STEPS, most / _G_STEPS, most / (4 * _H_STEPS), _MOST_LOG)

    def base(self, counts: Integers) -> Integers:
        """Return the log odds of the second class, or each class's log share of the mean one."""
        held = [max(int(count), 1) for count in counts]
        if len(held) == 2:
            return np.array([log_ratio(held[1], held[0])], np.int64)
        total = sum(held)
        return np.array([log_ratio(n * len(held), total) for n in held], np.int64)

    @property
    def loss_step(self) -> float:
        """What one step of `total` is worth."""
        return 2.0**-SCORE_BITS

    def total(
        self,
        scores: Integers,
        target: NDArray[Any],
        facts: Integers,
        chosen: Bools,
        share: Shares = ALIKE,
    ) -> int:
        """Return the log loss summed over the chosen rows."""
        which = (chosen, share)
        if len(scores) == 1:
            found = kernels.logistic_loss(scores[0], target, facts, softplus_table(), *which)
        else:
            logs, ln2 = log_table(), log_ratio(2, 1)
            found = kernels.softmax_loss(scores, target, facts, decay_table(), logs, ln2, *which)
        return int(found)

    def _write(self, scores: Integers, target: Any, facts: Integers, part: Any, out: Any) -> None:
        if len(scores) == 1:
            lines = (scores[0], target, facts, sigmoid_table(), *part)
            kernels.logistic_gradients(*lines, out.gradient[0], out.curvature[0])
        else:
            lines = (scores, target, facts, decay_table(), *part)
            kernels.softmax_gradients(*lines, out.gradient, out.curvature)


class SquaredError(Loss):
    """Half the squared error."""

    name = "squared_error"

    def n_outputs(self, n_classes: int) -> int:
        """Return one score."""
        del n_classes
        return 1

    def _units(self, weights: Floats, top: float, *, is_weighed: bool) -> Units:
        """Return the target's range as the bound; a row's curvature is its weight, or 1."""
        del weights, top
        if is_weighed:
            return Units(_G_STEPS, _H_STEPS, 1.0 / _G_STEPS, 1.0 / _H_STEPS, 1.0)
        return Units(_WIDE_STEPS, 0, 1.0 / _WIDE_STEPS, 1.0, 1.0)

    def base(self, counts: Integers) -> Integers:
        """Return the mean target."""
        n, total = (int(count) for count in counts)
        return np.array([(2 * total + n) // (2 * n)], np.int64)

    @property
    def loss_step(self) -> float:
        """What one step of `total` is worth, in squares of the target's range."""
        return 2.0**-32

    def total(
        self,
        scores: Integers,
        target: NDArray[Any],
        facts: Integers,
        chosen: Bools,
        share: Shares = ALIKE,
    ) -> int:
        """Return the squared error summed over the chosen rows."""
        del facts
        return int(kernels.square_loss(scores[0], target, chosen, share))

    def _write(self, scores: Integers, target: Any, facts: Integers, part: Any, out: Any) -> None:
        del facts
        kernels.square_gradients(scores[0], target, *part, out.gradient[0])


class Poisson(Loss):
    """The Poisson loss of counts; a score is the logarithm of the mean's share of the largest."""

    name = "poisson"

    def n_outputs(self, n_classes: int) -> int:
        """Return one score."""
        del n_classes
        return 1

    def _units(self, weights: Floats, top: float, *, is_weighed: bool) -> Units:
        """Return the largest target as the bound of gradients and curvatures."""
        del weights, is_weighed
        return Units(_G_STEPS, _H_STEPS, top / _G_STEPS, top / _H_STEPS, _MOST_LOG)

    def base(self, counts: Integers) -> Integers:
        """Return the logarithm of the mean's share of the largest target.

        `counts` are the number of rows, and the sum of their targets in steps of 2^-24 of it.
        """
        n, total = (int(count) for count in counts)
        return np.array([log_ratio(max(total, 1), n << SCORE_BITS)], np.int64)

    @property
    def loss_step(self) -> float:
        """What one step of `total` is worth, in units of the largest target."""
        return 2.0**-SCORE_BITS

    def total(
        self,
        scores: Integers,
        target: NDArray[Any],
        facts: Integers,
        chosen: Bools,
        share: Shares = ALIKE,
    ) -> int:
        """Return the loss summed over the chosen rows: the mean minus the target times score."""
        return int(kernels.poisson_loss(scores[0], target, facts[0], decay_table(), chosen, share))

    def _write(self, scores: Integers, target: Any, facts: Integers, part: Any, out: Any) -> None:
        lines = (scores[0], target, facts[0], decay_table(), *part)
        kernels.poisson_gradients(*lines, out.gradient[0], out.curvature[0])


LOSSES: Final[dict[str, Loss]] = {
    loss.name: loss for loss in (LogLoss(), SquaredError(), Poisson())
}
