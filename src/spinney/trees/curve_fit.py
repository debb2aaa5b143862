"""Fit curves to noisy sums: one solution for all columns, from moments counted once.

Each round a step is taken: the pulls that residuals exert on the terms, times the inverse of the
moments. A ridge of more than noise can shift the moments keeps steps short where the rows say
little. The steps repeat, with fresh residuals, so that what the ridge, the clip and the noise of
the moments have bent is straightened. All of it follows from released numbers and costs nothing.

Parties check what follows, so it is the same on every machine: there are no sums whose order a
library chooses.
"""

from dataclasses import dataclass, replace

import numpy as np

from spinney.trees.curves import COEFFICIENT_BITS, SCALE, SQUARES, CurveTerms
from spinney.typing import Floats, Integers

_RIDGE = 2.5  # times the noise of a moment and the root of the number of terms
_BESIDE = 0.4  # of a full step, in rounds in which trees take the same residuals


@dataclass(frozen=True)
class CurveFit:
    """What is known of the curves of all columns so far."""

    terms: CurveTerms
    inverse: Floats  # of the moments and the ridge
    kept: Floats  # the part of a deviation that a full step leaves
    covariance: Floats  # of coefficients, as far as the noise of pulls has moved them

    @classmethod
    def of(cls, terms: CurveTerms, moments: Integers, variance: float) -> "CurveFit":
        """Return the fit before the first step, given noisy moments and the variance of one."""
        held = _read(moments, terms.n)
        ridge = _RIDGE * variance**0.5 / SCALE**2 * terms.n**0.5
        found = _inverse(held, ridge)
        return cls(terms, found, _times(found, held), np.zeros_like(held))

    def step(
        self, pulls: Integers, clip: float, variance: float, *, alone: bool
    ) -> tuple["CurveFit", Integers]:
        """Return the fit after a step, and by how much it moves each coefficient.

        Given are noisy pulls, to what residuals were clipped, the variance of the noise of a pull,
        and whether no trees take the same residuals.
        """
        unit, far = clip / SCALE, 1.0 if alone else _BESIDE
        moved = -far * unit * _times(self.inverse, pulls[:, None].astype(np.float64))[:, 0]
        left = np.eye(self.terms.n) - far * self.kept
        spread = _times(_times(left, self.covariance), left.T)
        spread += (far * unit) ** 2 * variance * _times(self.inverse, self.inverse.T)
        whole = np.rint(moved / self.terms.length * 2.0**COEFFICIENT_BITS).astype(np.int64)
        return replace(self, covariance=spread), whole

    @property
    def deviations(self) -> Floats:
        """How far noise may have moved what each bin adds, (n_columns, 256)."""
        return self.terms.deviations(self.covariance / self.terms.length**2)


def _read(sums: Integers, n: int) -> Floats:
    """Return noisy moments as a matrix, in units of a row whose terms have the full length."""
    found = np.zeros((n, n))
    found[np.triu_indices(n)] = sums / float(SCALE**2)
    found += np.triu(found, 1).T
    part, whole = SQUARES
    found[np.diag_indices(n)] *= whole / part
    return found


def _inverse(matrix: Floats, ridge: float) -> Floats:
    """Return the inverse of a noisy matrix of moments plus a ridge.

    Noise may leave it without an inverse: pivots below half the ridge count as that.
    """
    held, n = matrix.copy(), len(matrix)
    held[np.diag_indices(n)] += ridge
    found: Floats = np.eye(n)
    pivots = np.empty(n)
    for k in range(n):
        pivots[k] = max(float(held[k, k]), ridge / 2.0)
        factor = held[k + 1 :, k] / pivots[k]
        held[k + 1 :, k + 1 :] -= factor[:, None] * held[k, k + 1 :]
        held[k + 1 :, k] = factor
        found[k + 1 :] -= factor[:, None] * found[k]
    found /= pivots[:, None]
    for k in reversed(range(n)):
        found[:k] -= held[k, :k, None] * found[k]
    return found


def _times(first: Floats, second: Floats) -> Floats:
    """Return a product of matrices that is the same on every machine."""
    found = np.zeros((first.shape[0], second.shape[1]))
    for k in range(first.shape[1]):
        found += first[:, k, None] * second[k]
    return found
