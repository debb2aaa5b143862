"""How far one party's columns are from those of all others, by histograms within each class.

The distance of a column is the total variation between its bins here and elsewhere, within each
class, averaged by this party's classes: parties with other shares of classes are no fault. Rows
that are drawn from one table differ too, by chance; `expected` is about how much.
"""

import numpy as np

from spinney.typing import Floats, Integers


def distances(own: Integers, rest: Integers, noise: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return each column's distance, and the largest that chance alone would plausibly give.

    `own` and `rest` are (n_columns, n_bins, n_classes) counts; the last bin is "missing"; `noise`
    are the variances that rounding adds to both. The largest is the mean of the sum of absolute
    normal deviations, and five of its deviations.
    """
    n_own, n_rest = own.sum(axis=1), rest.sum(axis=1)  # (n_columns, n_classes)
    here = _shares(own, n_own)
    there = _shares(rest, n_rest)
    both = _shares(own + rest, n_own + n_rest)
    known = (n_own > 0) & (n_rest > 0)
    apart = 0.5 * np.abs(here - there).sum(axis=1)
    rate = 1.0 / np.maximum(n_own, 1) + 1.0 / np.maximum(n_rest, 1)
    added = sum(
        one / np.maximum(n, 1).astype(np.float64)[:, None, :] ** 2
        for one, n in zip(noise, (n_own, n_rest), strict=True)
    )
    variance = both * (1 - both) * rate[:, None, :] + added
    chance = 0.5 * np.sqrt(2 / np.pi * variance).sum(axis=1)
    spread = 0.25 * (1 - 2 / np.pi) * variance.sum(axis=1)
    weight = np.where(known, n_own, 0).astype(np.float64)
    total = weight.sum(axis=1, keepdims=True)
    weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    far = (weight * chance).sum(axis=1) + 5 * np.sqrt((weight**2 * spread).sum(axis=1))
    return (weight * apart).sum(axis=1), np.minimum(far, 1.0)


def places_apart(
    own: Integers, rest: Integers, noise: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Return how far each column's mean rank is from that elsewhere, and its standard error.

    Ranks run from 0 to 1 over the bins, within each class; rows without a value have none. `noise`
    is as in `distances`.
    """
    own, rest = own[:, :-1].astype(np.float64), rest[:, :-1].astype(np.float64)
    both = own + rest
    n_both = both.sum(axis=1, keepdims=True)
    rank = (np.cumsum(both, axis=1) - both / 2) / np.maximum(n_both, 1)
    n_own, n_rest = own.sum(axis=1), rest.sum(axis=1)
    known = (n_own > 0) & (n_rest > 0)
    here = (own * rank).sum(axis=1) / np.maximum(n_own, 1)
    there = (rest * rank).sum(axis=1) / np.maximum(n_rest, 1)
    rate = 1 / np.maximum(n_own, 1) + 1 / np.maximum(n_rest, 1)
    added = sum(
        one[:, :-1].sum(axis=1) / np.maximum(n, 1) ** 2
        for one, n in zip(noise, (n_own, n_rest), strict=True)
    )
    variance = (1 / 12) * (rate + added)
    weight = np.where(known, n_own, 0.0)
    total = weight.sum(axis=1, keepdims=True)
    weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    gap: Floats = (weight * (here - there)).sum(axis=1)
    return gap, np.sqrt((weight**2 * variance).sum(axis=1))


def _shares(counts: Integers, totals: Integers) -> Floats:
    shares: Floats = counts / np.maximum(totals, 1)[:, None, :]
    return shares
