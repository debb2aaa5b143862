"""How large residuals are, from a noisy histogram: the clip falls as they do.

Cells are a quarter of an octave wide, so that few of them reach from the smallest residual that
matters to the largest. A record is in one cell.
"""

import numpy as np

from spinney.typing import Floats, Integers

RESIDUAL_CELLS = 64
_PER_OCTAVE = 4
_LEAST = 2.0**-15  # in units of half the target's range
_EDGES = _LEAST * 2.0 ** (np.arange(1, RESIDUAL_CELLS) / _PER_OCTAVE)
_HEARD = 2.0  # standard deviations of the noise, below which a cell counts as empty
_INSIDE = 0.9  # the share of residuals below the size of which the clip is a multiple
_TIMES = 1.5


def residual_cells(residuals: Floats) -> Integers:
    """Return how many residuals there are of every size."""
    cells = np.searchsorted(_EDGES, np.abs(residuals), side="right")
    return np.bincount(cells, minlength=RESIDUAL_CELLS).astype(np.int64)


def clip_of(counts: Integers, deviation: float) -> float | None:
    """Return half as much again as nine tenths of residuals reach; None if all is noise."""
    heard = np.where(counts > _HEARD * deviation, counts, 0).astype(np.float64)
    below = np.cumsum(heard)
    if below[-1] <= 0:
        return None
    wanted = _INSIDE * below[-1]
    cell = int(np.searchsorted(below, wanted))
    within = (wanted - (below[cell] - heard[cell])) / heard[cell]
    return float(_TIMES * _LEAST * 2.0 ** ((cell + within) / _PER_OCTAVE))
