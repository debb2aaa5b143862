"""A joint model fitted at home: what one party's own rows say about its scores.

Parties differ in how common each class is. A joint model knows the mean of all parties, which may
be wrong for every one of them. Each party can mend that alone, from its own rows and what the joint
model says of them, and tells nobody.

**Who learns what.** Nobody learns anything: the fit is made from the party's own rows, and stays
with it.
"""

from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec
import numpy as np
from scipy.optimize import minimize

from spinney.errors import SettingError, StorageError
from spinney.protocols.model import ForestModel
from spinney.typing import Floats, Integers

Metric = Literal["accuracy", "balanced_accuracy", "f1"]
METRICS: Final = get_args(Metric)
_LEAST_SHARE: Final = 1e-4  # a forest of 100 trees that all say no
_PRIOR: Final = 2.0  # rows that the joint forest's own scores count for, for each class
_SLOPES: Final = (0.1, 10.0)
_FOLDS: Final = 5
_FORMAT: Final = 1


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
        What decisions are for: "accuracy", "balanced_accuracy" (each class weighs the same), or the
        "f1" of the second of two classes.
    """
    if metric not in METRICS:
        raise SettingError(
            f"metric must be 'accuracy', 'balanced_accuracy' or 'f1'; got {metric!r}."
        )
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
    if metric == "f1":
        return _decided_for_f1(fit, joint, truth)
    if metric == "balanced_accuracy":  # a class that no row has decides nothing
        return replace(fit, weight=is_class.any(axis=0) / is_class.sum(axis=0).clip(1))
    return fit


def shares_elsewhere(joint: Floats, truth: Integers, metric: Metric = "accuracy") -> Floats:
    """Return how much a party would give each class, by fits to its other rows, a fifth at a time.

    The largest of a row is what the party would decide for.
    """
    found = np.empty_like(joint)
    fold = np.arange(len(truth)) % _FOLDS
    for number in range(_FOLDS):
        here = fold == number
        fit = fit_at_home(joint[~here], truth[~here], metric)
        found[here] = fit.shares(joint[here]) * fit.weight
    return found


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
    """A joint model whose scores one party has fitted at home."""

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


class StoredFit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A party's fit, as it lies in a file at the party."""

    format: int = _FORMAT
    party: str
    model: str  # the SHA-256 of the joint model's file
    metric: str
    rows: str  # which rows it was fitted to
    n_rows: int
    slope: float
    offset: tuple[float, ...]
    weight: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = np.array([self.slope, *self.offset, *self.weight])
        if self.format != _FORMAT or not np.all(np.isfinite(numbers)) or min(self.weight) < 0:
            raise ValueError

    @classmethod
    def load(cls, path: Path) -> "StoredFit":
        """Read the file of a fit."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except OSError as error:
            raise StorageError(
                f"Cannot read {str(path)!r}: {error.strerror or error}. Check the path."
            ) from None
        except (msgspec.MsgspecError, ValueError):
            raise StorageError(
                f"{str(path)!r} is no fit that this Spinney can read. Fit the model again: "
                "spinney party fit."
            ) from None

    def of_model(self, path: Path) -> HomeModel:
        """Return the joint model in a file with this fit; it must be the one that was fitted."""
        model = ForestModel.load(path)
        n_classes = len(model.schema.label.classes or ())
        if self.model != sha256(path.read_bytes()).hexdigest() or not (
            len(self.offset) == len(self.weight) == n_classes
        ):
            raise SettingError(
                f"{self.party!r} fitted another model than {str(path)!r}. Give the model of that "
                "run, or fit this one: spinney party fit."
            )
        return HomeModel.of(
            model, HomeFit(self.slope, np.array(self.offset), np.array(self.weight))
        )
