"""Bin edges from noisy histograms of equal cells of a public range: fine where rows are.

A declared range may be a hundred times as wide as what most rows hold. Equal bins would then put
them all into one. Counting the cells costs a small part of the budget; the edges follow from the
noisy counts and cost nothing.
"""

import numpy as np
from numpy.typing import NDArray

from spinney.typing import Floats, Integers

_HEARD = 1.5  # standard deviations of the noise, below which a cell counts as empty
_CLEARLY = 2.0  # the same, by which halves of a range differ, and stand out
_EVEN = 0.1  # the share of edges that are spread evenly, whatever was counted


def noisy_edges(
    counts: Integers, deviation: float, bounds: tuple[float, float], max_bins: int
) -> NDArray[np.float32]:
    """Return edges at about equal numbers of rows, given the noisy counts of equal cells."""
    heard = np.where(counts > _HEARD * deviation, counts, 0).astype(np.float64)
    total = heard.sum()
    even = np.full(counts.size, 1.0 / counts.size)
    share = even if total <= 0 else (1.0 - _EVEN) * heard / total + _EVEN * even
    below = np.concatenate([[0.0], np.cumsum(share)])
    cells = np.linspace(*bounds, counts.size + 1)
    wanted = np.arange(1, max_bins) * (below[-1] / max_bins)
    edges = np.interp(wanted, below, cells).astype(np.float32)
    inside = (edges > np.float32(bounds[0])) & (edges < np.float32(bounds[1]))
    return np.unique(edges[inside])


def heard_shares(counts: Integers, deviation: float) -> Floats:
    """Return the shares of rows in equal cells, two to the power of something, from noisy counts.

    Halves of the range are compared, then halves of the halves. Two halves whose counts differ by
    no more than noise explains hold the same; otherwise one that does not stand out from its noise
    holds nothing.
    """
    shares, width = np.ones(1), counts.size
    while shares.size < counts.size:
        width //= 2
        noise = deviation * np.sqrt(width)
        sums = counts.reshape(-1, width).sum(axis=1).astype(np.float64).reshape(-1, 2)
        differ = np.abs(sums[:, :1] - sums[:, 1:]) > _CLEARLY * np.sqrt(2.0) * noise
        heard = np.where(sums > _CLEARLY * noise, sums, 0.0)
        total = heard.sum(axis=1, keepdims=True)
        told = differ & (total > 0)
        shares = (shares[:, None] * np.where(told, heard / np.maximum(total, 1.0), 0.5)).ravel()
    return shares


def cell_counts(values: NDArray[np.floating], bounds: tuple[float, float], n: int) -> Integers:
    """Count values by equal cells of a range; values outside count as its ends, missing not."""
    low, high = bounds
    held = values[~np.isnan(values)].astype(np.float64)
    width = high - low if high > low else 1.0
    cell = np.floor((np.clip(held, low, high) - low) / width * n).astype(np.int64)
    return np.bincount(np.minimum(cell, n - 1), minlength=n).astype(np.int64)
