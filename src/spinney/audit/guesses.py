"""How close guesses come to cells, and how close whoever knows only the columns comes.

Everybody is taken to know what the columns look like: rows that were held back, which are no
member's.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.audit.rehearsal import Rehearsal
from spinney.audit.shares import share_of
from spinney.protocols.model import ForestModel
from spinney.report.audited import Share
from spinney.typing import Bools, Floats

WITHIN = 0.02  # of the column's range
_MOST_KNOWN = 200  # known values of a column


@dataclass(frozen=True)
class Judged:
    """How many cells were met, and the mean distance from them."""

    cells: Share
    error: float


@dataclass(frozen=True)
class Truth:
    """The cells that are guessed; categories are their bins, missing cells are not counted."""

    cells: Floats  # (n_rows, n_columns)
    is_category: Bools
    low: Floats  # (n_columns,) the ends of each column
    high: Floats
    known: tuple[Floats, ...]  # values that each column is known to have, in order
    typical: Floats  # the median of those, or the commonest category

    @classmethod
    def of(cls, model: ForestModel, rehearsal: Rehearsal) -> "Truth":
        """Return the facts of the training rows, and what is known of their columns."""
        cells = model.rows(rehearsal.rows.values).astype(np.float64)
        others = rehearsal.others
        shown = model.rows(others.values).astype(np.float64) if others.n else cells
        is_category = np.array([len(bins) > 0 for bins in model.bin_of_category])
        known = tuple(map(_known, shown.T))
        low = np.array([_finite(column).min() for column in cells.T])
        high = np.array([_finite(column).max() for column in cells.T])
        pairs = zip(known, is_category, strict=True)
        typical = np.array([_typical(values, is_one=bool(is_one)) for values, is_one in pairs])
        return cls(cells, is_category, low, high, known, typical)

    def judged(self, rows: NDArray[np.intp], guess: Floats) -> Judged:
        """Compare guesses for some rows with their cells."""
        cells = self.cells[rows]
        known = np.isfinite(cells)
        span = np.where(self.high > self.low, self.high - self.low, 1.0)
        apart = np.where(self.is_category, guess != cells, np.abs(guess - cells) / span)
        apart = np.minimum(np.where(known, apart, 0.0), 1.0)
        hits = int(((apart <= WITHIN) & known).sum())
        n_known = int(known.sum())
        return Judged(share_of(hits, n_known), float(apart.sum() / max(n_known, 1)))


def _finite(column: Floats) -> Floats:
    found: Floats = column[np.isfinite(column)]
    return found if found.size else np.zeros(1)


def _known(column: Floats) -> Floats:
    """Return some values of a column, as common as they are in it."""
    values = np.sort(_finite(column))
    places = np.linspace(0, values.size - 1, min(values.size, _MOST_KNOWN)).round().astype(int)
    found: Floats = values[places]
    return found


def _typical(values: Floats, *, is_one: bool) -> float:
    """Return the commonest of some categories, or the middle of some numbers."""
    if is_one:
        return float(np.bincount(values.astype(np.int64)).argmax())
    return float(values[(values.size - 1) // 2])
