"""How close guesses come to cells, and how close whoever knows only the columns comes."""

from dataclasses import dataclass

import numpy as np

from spinney.audit.shares import share_of
from spinney.protocols.model import ForestModel
from spinney.report.audited import Share
from spinney.typing import Bools, Floats

WITHIN = 0.02  # of the column's range


@dataclass(frozen=True)
class Truth:
    """The cells that are guessed; categories are their bins, missing cells are not counted."""

    cells: Floats  # (n_rows, n_columns)
    is_category: Bools
    low: Floats  # (n_columns,) the ends of each column
    high: Floats
    typical: Floats  # the median, or the commonest category

    @classmethod
    def of(cls, model: ForestModel, cells: Floats) -> "Truth":
        """Return the facts of some rows, as `model.rows` gives them."""
        is_category = np.array([len(bins) > 0 for bins in model.bin_of_category])
        low, high = np.zeros(cells.shape[1]), np.zeros(cells.shape[1])
        typical = np.zeros(cells.shape[1])
        for column in range(cells.shape[1]):
            known = cells[:, column][np.isfinite(cells[:, column])]
            if not known.size:
                continue
            low[column], high[column] = known.min(), known.max()
            if is_category[column]:
                typical[column] = np.bincount(known.astype(np.int64)).argmax()
            else:
                typical[column] = np.median(known)
        return cls(cells, is_category, low, high, typical)

    def judged(self, rows: np.ndarray[tuple[int], np.dtype[np.intp]], guess: Floats) -> "Judged":
        """Compare guesses for some rows with their cells."""
        cells = self.cells[rows]
        known = np.isfinite(cells)
        span = np.where(self.high > self.low, self.high - self.low, 1.0)
        apart = np.where(self.is_category, guess != cells, np.abs(guess - cells) / span)
        apart = np.minimum(np.where(known, apart, 0.0), 1.0)
        hits = int(((apart <= WITHIN) & known).sum())
        n_known = int(known.sum())
        return Judged(share_of(hits, n_known), float(apart.sum() / max(n_known, 1)))


@dataclass(frozen=True)
class Judged:
    """How many cells were met, and the mean distance from them."""

    cells: Share
    error: float
