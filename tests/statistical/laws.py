"""The laws of noise in closed form, and how well draws fit them."""

import math

import numpy as np
from scipy import stats

CERTAIN = 1e-20  # a wrong law must fall below
PLAUSIBLE = 1e-4  # the right law must stay above


def laplace_cdf(k, decay):
    """P[X <= k] of the discrete Laplace law."""
    alpha = math.exp(-decay)
    k = np.asarray(k, dtype=float)
    below = np.exp(decay * np.minimum(k, 0)) / (1 + alpha)
    above = 1 - np.exp(-decay * (np.maximum(k, 0) + 1)) / (1 + alpha)
    return np.where(k < 0, below, above)


def geometric_cdf(k, decay):
    """P[X <= k] of the geometric law."""
    return -np.expm1(-decay * (np.asarray(k, dtype=float) + 1)) * (np.asarray(k) >= 0)


def gaussian_cdf(k, variance):
    """P[X <= k] of the discrete Gaussian law."""
    sd = math.sqrt(variance)
    if sd > 1000:  # Poisson summation: equal to the midpoint rule far beyond double precision
        return stats.norm.cdf((np.asarray(k, dtype=float) + 0.5) / sd)
    support = np.arange(-math.ceil(40 * sd) - 5, math.ceil(40 * sd) + 6)
    weights = np.exp(-(support.astype(float) ** 2) / (2 * variance))
    cumulative = np.concatenate([[0], np.cumsum(weights) / weights.sum()])
    return cumulative[np.searchsorted(support, k, side="right")]


def fit(draws, cdf):
    """Return the chi-square p-value of integer draws against a cumulative law.

    The cells end at quantiles of the draws' own range of values, at most 60, and hold at least 20
    expected draws each.
    """
    edges = np.unique(np.quantile(draws, np.linspace(0, 1, 61)[1:-1], method="nearest"))
    kept, last = [], 0.0
    for edge, p in zip(edges, cdf(edges), strict=True):  # merge cells of too little mass
        if (p - last) * draws.size >= 20 and (1 - p) * draws.size >= 20:
            kept.append(edge)
            last = p
    cells = np.searchsorted(np.array(kept), draws, side="left")
    observed = np.bincount(cells, minlength=len(kept) + 1)
    expected = np.diff(np.concatenate([[0], cdf(np.array(kept)), [1]])) * draws.size
    return stats.chisquare(observed, expected).pvalue


def two_samples(a, b):
    """Return the chi-square p-value that two samples of integers have one law."""
    both = np.concatenate([a, b])
    edges = np.unique(np.quantile(both, np.linspace(0, 1, 41)[1:-1], method="nearest"))
    table = np.array(
        [np.bincount(np.searchsorted(edges, x), minlength=edges.size + 1) for x in (a, b)]
    )
    return stats.chi2_contingency(table[:, table.sum(axis=0) > 20]).pvalue
