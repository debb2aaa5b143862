"""Bin edges from counts of magnitudes: finer where there are more rows, from a single count.

Numbers are counted by the leading 12 bits of their float32: sign, power of two, and eighths of it.
Every such part that holds rows gets an edge at its end. The other edges divide the parts evenly;
parts with more rows get more edges. No edge is a value of a row.
"""

import numpy as np

from spinney.trees.binning import Edges
from spinney.trees.quantiles import LEAD_BITS
from spinney.typing import Floats, Integers

_ZERO = 1 << (LEAD_BITS - 1)  # the part that begins at zero
_REST = 32 - LEAD_BITS
_SIGN = np.uint32(0x80000000)
_LARGEST = float(np.finfo(np.float32).max)


def magnitude_edges(counts: Integers, bounds: tuple[float, float], max_bins: int) -> Edges:
    """Return at most `max_bins` - 1 edges inside a declared range.

    Parameters
    ----------
    counts
        How many numbers have each of the 4,096 leading parts.
    bounds
        The declared range; values beyond it are clipped to its ends.
    max_bins
        The largest number of bins.
    """
    low, high = bounds
    parts = np.flatnonzero(counts)
    begin = _beginnings(parts).clip(low, high)
    end = _ends(parts).clip(low, high)
    n_edges = max_bins - 1
    if parts.size > n_edges:  # some parts must share a bin, by their rows
        rank = np.cumsum(counts[parts])
        last = np.searchsorted(rank, rank[-1] * np.arange(1, n_edges + 1) / max_bins)
        edges = end[last]
    else:
        spread = np.where(parts == _ZERO, 0, counts[parts]).astype(np.float64)
        share = spread / max(spread.sum(), 1.0)
        n_inner = np.floor(share * (n_edges - parts.size)).astype(np.int64)
        within = [
            a + (b - a) * np.arange(1, n + 1) / (n + 1)
            for a, b, n in zip(begin, end, n_inner, strict=True)
        ]
        edges = np.concatenate([end, *within])
    found: Edges = np.unique(edges.astype(np.float32))
    return found[(found >= np.float32(low)) & (found < np.float32(high))]


def _beginnings(parts: Integers) -> Floats:
    return _values(parts << _REST)


def _ends(parts: Integers) -> Floats:
    """Return the largest number of each part; the part of zero ends at zero itself."""
    return np.where(parts == _ZERO, 0.0, _values(((parts + 1) << _REST) - 1))


def _values(words: Integers) -> Floats:
    """Return the numbers of ordered words; infinities become the largest finite numbers."""
    ordered = words.astype(np.uint32)
    bits = np.where(ordered & _SIGN, ordered ^ _SIGN, ~ordered)
    numbers = bits.view(np.float32).astype(np.float64)
    return np.nan_to_num(numbers, nan=_LARGEST, posinf=_LARGEST, neginf=-_LARGEST)
