"""The settings of boosted trees: those of a job, and those of a job file."""

import math
from collections.abc import Collection
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, Final

import msgspec
import numpy as np

from spinney.errors import SettingError
from spinney.protocols.settings import (
    MAX_MESSAGE,
    MAX_TREES,
    PrivacySettings,
    Task,
    refuse_max_leaf_nodes,
    require_choice,
    require_int,
    require_real,
    weights_of,
)
from spinney.protocols.spec import JobFacts, JobSettings
from spinney.seeds import job_seed
from spinney.tables.schema import Column, Schema
from spinney.trees.dtypes import MAX_BINS

LOSSES_OF: Final[dict[Task, tuple[str, ...]]] = {
    "classification": ("log_loss",),
    "regression": ("squared_error", "poisson"),
}
_RENEWED: Final = ("absolute_error", "quantile")  # their leaves are renewed from the rows
_MOST_DEPTH: Final = 16
_REGRESSION_COLUMNS: Final = 0.8  # a share; of fewer, squared error suffers more than log loss
_BINNINGS: Final = ("quantiles", "ranges")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a boosting job fixes before it starts; every party sees it."""

    task: Task
    loss: str
    learning_rate: float = 0.6
    max_iter: int = 100
    batch_trees: int = 10
    max_depth: int = 8
    min_samples_leaf: int = 20
    l2_regularization: float = 0.0
    subsample: float = 0.8
    colsample_bytree: float = 0.6
    max_features: float = 1.0
    max_bins: int = MAX_BINS
    max_cells: int = 17
    binning: str = "quantiles"
    class_weight: str | tuple[float, ...] | None = None  # by class, in the schema's order
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-7
    monotonic_cst: tuple[tuple[str, int], ...] = ()  # columns and their directions
    interaction_cst: tuple[tuple[str, ...], ...] = ()  # columns that may be on one path
    largest_weight: float | None = None  # of a row; None: rows have no weights
    seed: int = 0
    message_limit: int = 256 << 20  # bytes of counters in one reply before it is packed
    privacy: PrivacySettings | None = None  # no noise is added

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if isinstance(value, np.generic):  # messages and reports carry Python's own types
                object.__setattr__(self, name, value.item())
        _require_loss(self.task, self.loss)
        _require_rate(self.learning_rate)
        require_int("max_iter", self.max_iter, 1, most=MAX_TREES)
        require_int("batch_trees", self.batch_trees, 1, most=MAX_TREES)
        _require_depth(self.max_depth)
        require_int("min_samples_leaf", self.min_samples_leaf, 1)
        require_real("l2_regularization", self.l2_regularization)
        for name in ("subsample", "colsample_bytree", "max_features"):
            _require_share(name, getattr(self, name))
        require_int("max_bins", self.max_bins, 2, most=MAX_BINS)
        require_int("max_cells", self.max_cells, 2, most=MAX_BINS)
        require_choice("binning", self.binning, _BINNINGS)
        require_choice("early_stopping", self.early_stopping, (True, False))
        _require_share("validation_fraction", self.validation_fraction)
        if self.validation_fraction >= 1.0:
            raise SettingError(
                "validation_fraction must be below 1, or no row would be trained on."
            )
        require_int("n_iter_no_change", self.n_iter_no_change, 1)
        require_real("tol", self.tol)
        for name, direction in self.monotonic_cst:
            if direction not in (-1, 0, 1):
                raise SettingError(
                    f"monotonic_cst must give -1, 0 or 1 for each column; got {direction!r} for "
                    f"{name!r}."
                )
        if self.largest_weight is not None and not 0.0 < self.largest_weight < math.inf:
            raise SettingError(
                f"largest_weight must be a number above 0; got {self.largest_weight!r}."
            )
        require_int("message_limit", self.message_limit, 1 << 16, most=MAX_MESSAGE)
        require_int("seed", self.seed, 0, most=2**64 - 1)
        if self.privacy is not None:
            raise SettingError("Boosting adds no noise. Use private_forest or private_tree.")

    @property
    def n_batches(self) -> int:
        """How many batches of trees are grown, one after another."""
        return -(-self.max_iter // self.batch_trees)

    def batch(self, number: int) -> range:
        """Return the numbers of a batch's trees, for one output."""
        first = number * self.batch_trees
        return range(first, min(self.max_iter, first + self.batch_trees))


def _require_loss(task: Task, loss: object) -> None:
    if loss in _RENEWED and task == "regression":
        raise SettingError(
            f"loss={loss!r} is not supported: the value of each leaf would be a quantile of its "
            "rows, which sums do not tell. Use loss='squared_error'."
        )
    if loss not in LOSSES_OF[task]:
        known = " or ".join(map(repr, LOSSES_OF[task]))
        raise SettingError(f"loss must be {known} for {task}; got {loss!r}.")


def _require_rate(value: object) -> None:
    good = isinstance(value, Real) and not isinstance(value, bool)
    if not (good and 0.0 < float(value) <= 1.0):  # type: ignore[arg-type]
        raise SettingError(
            "learning_rate must be above 0 and at most 1: at 0 nothing is learnt, and above 1 each "
            f"batch of trees overshoots what it corrects; got {value!r}."
        )


def _require_depth(value: object) -> None:
    if value is None:
        raise SettingError(
            "max_depth must be given: a tree takes a round for each level, and boosted trees are "
            f"shallow. Use a whole number between 1 and {_MOST_DEPTH}."
        )
    require_int("max_depth", value, 1, most=_MOST_DEPTH)


def _require_share(name: str, value: object) -> None:
    good = isinstance(value, Real) and not isinstance(value, bool)
    if not (good and math.isfinite(float(value)) and 0.0 < float(value) <= 1.0):  # type: ignore[arg-type]
        raise SettingError(f"{name} must be a share above 0 and up to 1; got {value!r}.")


_HOW_IT_RUNS: Final = ("secure_sum", "honest", "n_jobs", "coordinator")


class BoostingJobSettings(JobSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The [settings] of a job file that boosts trees."""

    loss: str | None = None
    learning_rate: int | float | None = None
    max_iter: int | None = None
    batch_trees: int | None = None
    max_depth: int | None = None
    min_samples_leaf: int | None = None
    l2_regularization: int | float | None = None
    subsample: int | float | None = None
    colsample_bytree: int | float | None = None
    max_features: int | float | None = None
    max_bins: int | None = None
    max_cells: int | None = None
    binning: str | None = None
    class_weight: str | dict[str, float] | None = None
    early_stopping: bool | None = None
    validation_fraction: int | float | None = None
    n_iter_no_change: int | None = None
    tol: int | float | None = None
    monotonic_cst: dict[str, int] | None = None
    interaction_cst: list[list[str]] | None = None
    largest_weight: int | float | None = None
    secure_sum: bool | None = None
    honest: int | None = None
    message_limit: int | None = None
    max_leaf_nodes: int | None = None  # accepted only to raise an error with the reason
    random_state: int = 0
    n_jobs: int | None = None


def boosting_settings(said: dict[str, Any], facts: JobFacts) -> Settings:
    """Return the checked settings of what a job file says about its trees."""
    refuse_max_leaf_nodes(said.pop("max_leaf_nodes", None))
    said["seed"] = job_seed(said.pop("random_state", 0))
    said.setdefault("loss", LOSSES_OF[facts.task][0])
    if facts.task == "regression":  # as in the estimator
        said.setdefault("colsample_bytree", _REGRESSION_COLUMNS)
    if "largest_weight" in said:
        said["largest_weight"] = float(said["largest_weight"])
    said["monotonic_cst"] = tuple(sorted(said.pop("monotonic_cst", {}).items()))
    said["interaction_cst"] = tuple(map(tuple, said.pop("interaction_cst", ())))
    weights = said.pop("class_weight", None)
    if weights is not None:
        unknown = facts.classes is None and isinstance(weights, dict)
        names = tuple(weights) if unknown else facts.classes or ()
        said["class_weight"] = weights_of(weights, facts.task, names)
    return Settings(task=facts.task, **said)


def said_in(given: BoostingJobSettings, *besides: str) -> dict[str, Any]:
    """Return the keys that a job file gives about its trees; some others are besides."""
    apart = (*_HOW_IT_RUNS, *besides)
    said = msgspec.structs.asdict(given).items()
    return {key: value for key, value in said if value is not None and key not in apart}


def directions_of(
    settings: Settings, columns: tuple[Column, ...], n_classes: int
) -> tuple[int, ...]:
    """Return how each column's values may change the prediction; empty: in any way."""
    if not any(direction for _, direction in settings.monotonic_cst):
        return ()
    if n_classes > 2:
        raise SettingError(
            "monotonic_cst needs a label with two classes, or a number: with more classes, one "
            "score going up does not say that its class becomes more probable."
        )
    given = dict(settings.monotonic_cst)
    for column in columns:
        if column.kind == "category" and column.name in given:
            raise SettingError(
                f"monotonic_cst names {column.name!r}, whose categories have no order. Only "
                "numbers and booleans can be constrained."
            )
    return tuple(given.get(column.name, 0) for column in columns)


def require_columns(settings: Settings, names: Collection[str]) -> None:
    """Raise unless `monotonic_cst` is about columns that there are."""
    for name, _ in settings.monotonic_cst:
        if name not in names:
            raise SettingError(f"monotonic_cst names {name!r}, which is not a column.")


def together_of(settings: Settings, schema: Schema) -> tuple[tuple[int, ...], ...]:
    """Return the sets of columns that may be on one path; columns in no set form one of theirs."""
    if not settings.interaction_cst:
        return ()
    place = {column.name: number for number, column in enumerate(schema.columns)}
    unknown = [name for names in settings.interaction_cst for name in names if name not in place]
    if unknown:
        raise SettingError(f"interaction_cst names {unknown[0]!r}, which is not a column.")
    sets = [tuple(sorted({place[name] for name in names})) for names in settings.interaction_cst]
    rest = tuple(sorted(set(place.values()) - {column for held in sets for column in held}))
    return tuple(held for held in (*sets, rest) if held)
