"""The fitness of a tree: one number, larger for better trees, also as a fixed-point integer.

F1 and R2 are used directly. The mean squared error, in units of the target's range, and the
relative absolute error are negated. Every score lies between -2 and 1, so fixed-point integers can
hold it, and sums over parties weight it by rows.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.structures import Outcomes
from spinney.typing import Floats, Integers

SCALE: Final = 1 << 32  # fixed-point steps in a score of 1
MAX_ROWS: Final = 1 << 24  # the largest weight of a party; sums of 63 parties then fit 64 bits
_WORST: Final = -2.0
_RANGE: Final = 2.0**TARGET_BITS - 1


@dataclass(frozen=True)
class Spread:
    """The spread of a party's targets without any tree; only for regression."""

    squares: float  # the mean squared distance from the mean, in fixed point
    absolutes: float

    @classmethod
    def of(cls, target: Integers) -> "Spread":
        """Return the spread of targets."""
        if target.size == 0:
            return cls(0.0, 0.0)
        distance = target - target.mean()
        return cls(float(np.mean(distance**2)), float(np.mean(np.abs(distance))))


def f1_scores(confusion: Integers) -> Floats:
    """Return F1 of the second class; with more than two classes, the mean over those that occur."""
    hits = np.einsum("...cc->...c", confusion)
    both = confusion.sum(axis=-1) + confusion.sum(axis=-2)
    f1: Floats = np.divide(2 * hits, both, out=np.zeros(hits.shape), where=both > 0)
    if confusion.shape[-1] == 2:
        return f1[..., 1]
    means: Floats = f1.sum(axis=-1) / np.maximum((both > 0).sum(axis=-1), 1)
    return means


def fitness(metric: str, found: Outcomes, spread: Spread) -> Floats:
    """Return each tree's score; larger is better. There must be rows to score on."""
    if metric == "f1":
        return f1_scores(found.confusion)
    squares, absolutes = (found.errors / max(found.n_rows, 1)).T
    if metric == "mse":
        scores = -squares / _RANGE**2
    elif metric == "r2":
        # R2 is undefined if all targets are equal: only exact predictions score well
        scores = 1.0 - squares / spread.squares if spread.squares else -np.sign(squares)
    else:
        scores = -absolutes / spread.absolutes if spread.absolutes else -np.sign(absolutes)
    bounded: Floats = np.clip(scores, _WORST, 1.0)
    return bounded


def show_score(metric: str, score: float, target_step: float) -> float:
    """Return a score in its usual form: errors are positive and in the target's own units."""
    if metric == "mse":
        return -score * (_RANGE * target_step) ** 2
    return -score if metric == "rae" else score


def weigh_scores(scores: Floats, weight: int) -> Integers:
    """Return scores as fixed-point integers, times the weight of their party."""
    steps: Integers = np.rint(scores * SCALE).astype(np.int64)
    return steps * weight


def mean_scores(sums: Integers, weight: int) -> Floats:
    """Return the mean of weighted scores."""
    means: Floats = sums / (SCALE * float(max(weight, 1)))
    return means
