"""A joint forest fitted at home: what one party's own rows say about its scores.

Parties differ in how common each class is. A joint forest knows the mean of all parties, which may
be wrong for every one of them. Each party can mend that alone, from its own rows and what the joint
forest says of them, and tells nobody.

**Who learns what.** Nobody learns anything: the fit is made from the party's own rows, and stays
with it.
"""

from dataclasses import dataclass, field, fields
from typing import Final, Literal

import numpy as np
from scipy.optimize import minimize

from spinney.errors import SettingError
from spinney.protocols.model import ForestModel
from spinney.typing import Floats, Integers

Metric = Literal["accuracy", "f1"]
_LEAST_SHARE: Final = 1e-4  # a forest of 100 trees that all say no
_PRIOR: Final = 2.0  # rows that the joint forest's own scores count for, for each class
_SLOPES: Final = (0.1, 10.0)


@dataclass(frozen=True)
class HomeFit:
    """A party's class prior and the scale of its scores, and which class it decides for."""

    slope: float
    offset: Floats  # (n_classes,) added to the logarithms of scores
    weight: Floats  # (n_classes,) of a class in a decision

    def shares(self, joint: Floats) -> Floats:
        """Return the party's probabilities from the joint forest's."""
        scores = self.slope * np.log(joint.clip(_LEAST_SHARE)) + self.offset
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        found: Floats = shares / shares.sum(axis=1, keepdims=True)
        return found


def fit_at_home(joint: Floats, truth: Integers, metric: Metric = "accuracy") -> HomeFit:
    """Fit a party's scores to its own rows, which the forest must not have been trained on.

    Parameters
    ----------
    joint
        (n_rows, n_classes) What the joint forest says of the rows; rows with NaN are left out.
    truth
        (n_rows,) The class of each, by its number.
    metric
        What decisions are for: "accuracy", or the "f1" of the second of two classes.
    """
    if metric not in ("accuracy", "f1"):
        raise SettingError(f"metric must be 'accuracy' or 'f1'; got {metric!r}.")
    known = ~np.isnan(joint).any(axis=1)
    joint, truth = joint[known], truth[known]
    n_classes = joint.shape[1]
    if metric == "f1" and n_classes != 2:
        raise SettingError("metric='f1' needs two classes, of which the second is looked for.")
    even = np.ones(n_classes)
    if not len(truth):
        return HomeFit(1.0, np.zeros(n_classes), even)
    logs = np.log(joint.clip(_LEAST_SHARE))
    is_class = truth[:, None] == np.arange(n_classes)

    def loss(given: Floats) -> tuple[float, Floats]:
        scores = given[0] * logs + given[1:]
        top = scores.max(axis=1, keepdims=True)
        exps = np.exp(scores - top)
        total = exps.sum(axis=1, keepdims=True)
        away = np.r_[given[0] - 1.0, given[1:]]
        own = (scores - top - np.log(total))[is_class].sum()
        rest = exps / total - is_class
        slope = np.r_[(rest * logs).sum(), rest.sum(axis=0)]
        return float(_PRIOR / 2 * away @ away - own), slope + _PRIOR * away

    bounds = [_SLOPES, *[(None, None)] * n_classes]
    start = np.r_[1.0, np.zeros(n_classes)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    fit = HomeFit(float(found[0]), found[1:], even)
    return fit if metric == "accuracy" else _decided_for_f1(fit, joint, truth)


def _decided_for_f1(fit: HomeFit, joint: Floats, truth: Integers) -> HomeFit:
    """Return the fit with the threshold at which the rows' F1 is largest."""
    share = fit.shares(joint)[:, 1]
    order = np.argsort(-share, kind="stable")
    hits = np.cumsum(truth[order] == 1)
    f1 = 2 * hits / (np.arange(1, truth.size + 1) + max(int((truth == 1).sum()), 1))
    last = np.append(np.diff(share[order]) != 0, True)
    best = int(np.argmax(np.where(last, f1, -1.0)))
    below = share[order[best + 1]] if best + 1 < truth.size else 0.0
    threshold = float(np.clip((share[order[best]] + below) / 2, 1e-6, 1 - 1e-6))
    return HomeFit(fit.slope, fit.offset, np.array([threshold, 1 - threshold]))


@dataclass(frozen=True)
class HomeModel(ForestModel):
    """A joint forest whose scores one party has fitted at home."""

    home: HomeFit = field(kw_only=True)

    @classmethod
    def of(cls, model: ForestModel, home: HomeFit) -> "HomeModel":
        """Return the model with a party's fit."""
        return cls(**{f.name: getattr(model, f.name) for f in fields(ForestModel)}, home=home)

    def of_sums(self, sums: Floats, n_trees: int | None = None) -> Floats:
        """Return the party's probabilities from sums over trees."""
        return self.home.shares(super().of_sums(sums, n_trees))

    def decided(self, shares: Floats) -> Integers:
        """Return the class that the party decides for, by its number."""
        best: Integers = (shares * self.home.weight).argmax(axis=1)
        return best
