"""95 % bootstrap intervals of scores over a party's held-out rows.

All models are scored on the same draws, so the interval of a gain is that of the difference, not
of two separate scores. Percentiles are widened for few rows, of the rarest class (Hesterberg 2015,
"What teachers should know about the bootstrap": expanded percentiles); with fewer than ten there
is no interval, because none would hold.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from spinney.report.verdicts import FEWEST
from spinney.seeds import generator
from spinney.simulation.scores import LESS_IS_BETTER
from spinney.typing import Floats

_DRAWS = 500
_FEWEST_DRAWS = 100
_CELLS = 4_000_000  # rows times draws: large tables need fewer draws
Interval = tuple[float, float]
Weighted = Callable[[Floats], float | None]  # maps how often each row was drawn to a score


def intervals(
    truth: NDArray[Any], predicted: Mapping[str, Floats], *, is_class: bool, seed: int
) -> dict[str, Interval]:
    """Return intervals by name: "f1" of the joint model, "local_f1", "gain_f1" and so on.

    Parameters
    ----------
    truth
        The held-out rows' class numbers, or targets.
    predicted
        Predictions by model ("federated", "local", "pooled"), one line per row.
    is_class
        Whether the label is a class.
    seed
        Fixes the draws.
    """
    n = truth.size
    fewest = _fewest(truth, predicted, is_class=is_class)
    if fewest < FEWEST:
        return {}
    make = _class_scores if is_class else _number_scores
    scores = {model: make(truth, means) for model, means in predicted.items()}
    random = generator(seed)
    found: dict[str, list[float]] = {}
    for _ in range(max(_FEWEST_DRAWS, min(_DRAWS, _CELLS // n))):
        weights = np.bincount(random.integers(n, size=n), minlength=n).astype(np.float64)
        drawn = {
            (model, score): value
            for model, named in scores.items()
            for score, of in named.items()
            if (value := of(weights)) is not None
        }
        for (model, score), value in drawn.items():
            name = score if model == "federated" else f"{model}_{score}"
            found.setdefault(name, []).append(value)
            if model == "federated" and ("local", score) in drawn:
                gain = value - drawn["local", score]
                sign = -1.0 if score in LESS_IS_BETTER else 1.0
                found.setdefault(f"gain_{score}", []).append(sign * gain)
    tail = 100 * float(norm.cdf(-np.sqrt(fewest / (fewest - 1)) * t.ppf(0.975, fewest - 1)))
    return {name: _interval(values, tail) for name, values in found.items()}


def _fewest(truth: NDArray[Any], predicted: Mapping[str, Floats], *, is_class: bool) -> int:
    """Return how many rows the rarest class has of those that are scored; else all rows."""
    if not is_class or not truth.size:
        return int(truth.size)
    n_classes = next(iter(predicted.values())).shape[1]
    counts = np.bincount(truth.astype(np.int64), minlength=n_classes)
    return int(counts.min() if n_classes == 2 else counts[counts > 0].min())


def _interval(values: list[float], tail: float) -> Interval:
    low, high = np.percentile(values, [tail, 100 - tail])
    return round(float(low), 6), round(float(high), 6)


def _number_scores(truth: NDArray[Any], means: Floats) -> dict[str, Weighted]:
    errors = (truth - means[:, 0]) ** 2

    def rmse(weights: Floats) -> float:
        return float(np.sqrt(weights @ errors / weights.sum()))

    def r2(weights: Floats) -> float | None:
        centre = weights @ truth / weights.sum()
        spread = weights @ (truth - centre) ** 2
        return float(1 - weights @ errors / spread) if spread > 0 else None

    return {"rmse": rmse, "r2": r2}


def _class_scores(truth: NDArray[Any], shares: Floats) -> dict[str, Weighted]:
    k = shares.shape[1]
    cells = truth * k + shares.argmax(axis=1)
    classes = [1] if k == 2 else sorted(set(truth.tolist()))
    areas = [_Area(truth == one, shares[:, one]) for one in classes]

    def f1(weights: Floats) -> float | None:
        confusion = np.bincount(cells, weights, minlength=k * k).reshape(k, k)
        hits, sizes = np.diag(confusion), confusion.sum(axis=0) + confusion.sum(axis=1)
        if k == 2 and not confusion[1].sum():
            return None
        return float(np.mean([2 * hits[c] / sizes[c] if sizes[c] else 0.0 for c in classes]))

    def auc(weights: Floats) -> float | None:
        known = [area for one in areas if (area := one.of(weights)) is not None]
        return float(np.mean(known)) if known else None

    is_right = shares.argmax(axis=1) == truth

    def accuracy(weights: Floats) -> float:
        return float(weights @ is_right / weights.sum())

    return {"f1": f1, "auc": auc, "accuracy": accuracy}


class _Area:
    """ROC AUC of rows with weights, from scores sorted once."""

    def __init__(self, is_one: NDArray[np.bool_], scores: Floats) -> None:
        self._is_one = is_one
        _, self._place = np.unique(scores, return_inverse=True)

    def of(self, weights: Floats) -> float | None:
        """Return the area, ties counting half; None if only one side was drawn."""
        n = int(self._place.max()) + 1
        ones = np.bincount(self._place, weights * self._is_one, minlength=n)
        others = np.bincount(self._place, weights * ~self._is_one, minlength=n)
        total = ones.sum() * others.sum()
        if not total:
            return None
        below = np.cumsum(others) - others
        return float((ones * (below + others / 2)).sum() / total)
