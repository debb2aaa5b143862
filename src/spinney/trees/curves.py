"""Curves of columns, fitted together from sums: what many small trees would find one by one.

A column's terms are Legendre polynomials of its bin, from -1 at the first bin to 1 at the last; of
a category, of the bin's place in a random order. A curve adds up its column's terms, each times a
coefficient. There is one more term, 1, for all rows. Missing values have no terms.

With S = 2**12, a row's terms are whole numbers whose squares add up to at most S**2: those of a row
that is far out in many columns are shortened. Everything a row adds follows from them:

==========  =======================================================  ================
sums        a row adds                                               squares, sum
==========  =======================================================  ================
pulls       each term times its residual, clipped to b, over b       S**2
moments     the products of its terms two by two, 7/10 of squares    S**4 / 2
==========  =======================================================  ================

Of the moments of terms t, the squares of the products add up to (|t|**4 - sum of t**4) / 2, and
those of 7/10 of the squares to less than half the sum of t**4. Every number is rounded towards
zero. `tests/unit/trees/test_curves.py` tries all of this on neighbouring tables.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import fsum

import numpy as np
from numpy.typing import NDArray

from spinney.trees.bounded_gradients import Moved
from spinney.trees.dtypes import MISSING
from spinney.trees.frontier import ColumnCells
from spinney.typing import Codes, Floats, Integers

SCALE = 1 << 12
COEFFICIENT_BITS = 24
_BINS = MISSING + 1
_LONG = 1.2  # times the mean squares of all terms together, beyond which a row's are shortened
_CHUNK = 65536  # rows that are read at one time
SQUARES = (7, 10)  # the part of a term's square that is added up
RowTerms = NDArray[np.int16]  # (terms, rows)


def n_terms(n_columns: int, degree: int) -> int:
    """Return how many terms there are; some are zero if a column has few bins."""
    return 1 + n_columns * degree


def n_moments(terms: int) -> int:
    """Return how many products of two terms there are."""
    return terms * (terms + 1) // 2


def moments_moved(terms: int) -> Moved:
    """Return how much a record moves the moments."""
    return Moved(Fraction(n_moments(terms) * SCALE**2), Fraction(SCALE**4, 2))


def pulls_moved(terms: int) -> Moved:
    """Return how much a record moves the pulls."""
    return Moved(Fraction(terms * SCALE), Fraction(SCALE**2))


@dataclass(frozen=True)
class CurveTerms:
    """The terms of all columns."""

    of_bin: Floats  # (n_columns, degree, 256)
    length: float  # to which a row's terms are shortened

    @classmethod
    def draw(
        cls, columns: ColumnCells, degree: int, generator: np.random.Generator
    ) -> "CurveTerms":
        """Return the terms of columns; only the order of categories is drawn."""
        of_bin = np.zeros((columns.n_columns, degree, _BINS))
        squares = 1.0
        for column in range(columns.n_columns):
            n_bins = int(columns.n_bins[column])
            place = np.arange(n_bins)
            if columns.is_category[column]:
                place = generator.permutation(n_bins)
            if n_bins > 1:
                held = _legendre(2.0 * place / (n_bins - 1) - 1.0, min(degree, n_bins - 1))
                of_bin[column, : len(held), :n_bins] = held
                squares += fsum((held**2).ravel()) / n_bins
        return cls(of_bin, (_LONG * squares) ** 0.5)

    @property
    def n(self) -> int:
        """How many terms there are."""
        return n_terms(self.of_bin.shape[0], self.of_bin.shape[1])

    def of_rows(self, codes: Codes) -> RowTerms:
        """Return the terms of rows as whole numbers, (n, n_rows), given bins (n_columns, n_rows).

        A row's own bins decide them, wherever it stands: terms are looked up and added in order.
        """
        found = np.empty((self.n, codes.shape[1]), np.int16)
        for part in _parts(codes.shape[1]):
            found[:, part] = self._of_few(codes[:, part])
        return found

    def _of_few(self, codes: Codes) -> Floats:
        found, squares = np.empty((self.n, codes.shape[1])), np.ones(codes.shape[1])
        found[0], at = 1.0, 1
        for column, bins in enumerate(codes):
            own = (self.of_bin[column] ** 2).sum(axis=0)
            squares += own[bins]
            for term in self.of_bin[column]:
                found[at] = term[bins]
                at += 1
        # a hair less than S, so that no rounding on the way can make the squares too large
        short = SCALE * (1.0 - 2.0**-40) / np.maximum(self.length, np.sqrt(squares))
        whole: Floats = np.trunc(found * short)
        return whole

    def pulls(self, rows: RowTerms, gradient: Floats) -> Integers:
        """Return the sums of rows' terms times their gradients, from -1 to 1."""
        total = np.zeros(self.n, np.int64)
        for part in _parts(rows.shape[1]):
            # a row whose terms are shortened counts for as much less
            weight = np.minimum(rows[0, part] * (self.length / SCALE), 1.0)
            for term, terms in enumerate(rows[:, part]):
                own = terms * (gradient[part] * weight)
                total[term] += int(np.trunc(own, out=own).sum())  # exact: below 2**53
        return total

    def values(self, coefficients: Integers) -> Integers:
        """Return what each bin adds to scores, (n_columns, 256), but for the first term."""
        found = np.zeros((len(self.of_bin), _BINS))
        held = coefficients[1:].reshape(self.of_bin.shape[:2]).astype(np.float64)
        for term in range(self.of_bin.shape[1]):
            found += self.of_bin[:, term] * held[:, term, None]
        return np.rint(found).astype(np.int64)

    def deviations(self, covariance: Floats) -> Floats:
        """Return the standard deviations of what bins add, (n_columns, 256)."""
        degree = self.of_bin.shape[1]
        found = np.zeros((len(self.of_bin), _BINS))
        for column, terms in enumerate(self.of_bin):
            at = 1 + column * degree
            for first in range(degree):
                for second in range(degree):
                    held = covariance[at + first, at + second]
                    found[column] += held * terms[first] * terms[second]
        deviations: Floats = np.sqrt(np.maximum(found, 0.0))
        return deviations


def moments(rows: RowTerms) -> Integers:
    """Return the sums of products of two terms: the upper triangle, line after line."""
    n = len(rows)
    total, (few, whole) = np.zeros((n, n), np.int64), SQUARES
    for part in _parts(rows.shape[1]):
        terms = rows[:, part].astype(np.float64)
        found = (terms @ terms.T).astype(np.int64)  # exact: sums stay below 2**53
        squares = [(line.astype(np.int64) ** 2 * few // whole).sum() for line in rows[:, part]]
        np.fill_diagonal(found, squares)
        total += found
    return total[np.triu_indices(n)]


def _parts(n_rows: int) -> list[slice]:
    return [slice(first, first + _CHUNK) for first in range(0, n_rows, _CHUNK)]


def _legendre(at: Floats, degree: int) -> Floats:
    """Return the Legendre polynomials from the first to one of a degree, (degree, places)."""
    found = [np.ones_like(at), at]
    for k in range(1, degree):
        found.append(((2 * k + 1) * at * found[k] - k * found[k - 1]) / (k + 1))
    return np.stack(found[1 : degree + 1])
