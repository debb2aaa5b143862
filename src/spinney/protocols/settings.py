"""The settings that all forest protocols share, checked once.

Legal values are data: one table, one wording.
"""

import math
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Literal

import numpy as np

from spinney.errors import SettingError
from spinney.protocols.private_settings import PrivacySettings
from spinney.trees.dtypes import MAX_BINS, MAX_ROWS, MAX_WEIGHT

MaxFeatures = Literal["sqrt", "log2"] | float | int | None
Task = Literal["classification", "regression"]
CRITERIA: dict[Task, tuple[str, ...]] = {
    "classification": ("gini", "entropy"),
    "regression": ("squared_error",),
}
MAX_TREES = 100_000  # that a question may make a party grow at once
MAX_MESSAGE = 1 << 31  # what the codec lets through
BINNINGS = ("quantiles", "ranges", "adaptive", "magnitudes")
THRESHOLDS = ("public", "exchanged")


@dataclass(frozen=True, kw_only=True)
class ForestSettings:
    """What a forest job fixes before it starts; every party sees it."""

    task: Task
    n_estimators: int = 100
    criterion: str = "gini"
    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    min_weight_fraction_leaf: float = 0.0
    min_impurity_decrease: float = 0.0
    max_features: MaxFeatures = "sqrt"
    max_bins: int = MAX_BINS
    max_cells: int = 33
    binning: str = "quantiles"
    bootstrap: bool = True
    class_weight: str | tuple[float, ...] | None = None  # by class, in the schema's order
    oob_score: bool = False
    seed: int = 0
    message_limit: int = 256 << 20  # bytes of counters in one reply before it is packed
    privacy: PrivacySettings | None = None  # None: nothing is noised
    thresholds: str | None = None  # of extra-trees, whose cuts are drawn; None: they are sought

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if isinstance(value, np.generic):  # messages and reports carry Python's own types
                object.__setattr__(self, name, value.item())
        require_int("n_estimators", self.n_estimators, 1, most=MAX_TREES)
        if self.max_depth is not None:
            require_int("max_depth", self.max_depth, 1, "or None for no limit")
        require_int("max_bins", self.max_bins, 2, most=MAX_BINS)
        require_int("max_cells", self.max_cells, 2, most=MAX_BINS)
        require_int("message_limit", self.message_limit, 1 << 16, most=MAX_MESSAGE)
        require_int("seed", self.seed, 0, most=2**64 - 1)
        _require_samples("min_samples_split", self.min_samples_split, 2)
        _require_samples("min_samples_leaf", self.min_samples_leaf, 1)
        require_real("min_impurity_decrease", self.min_impurity_decrease)
        require_real("min_weight_fraction_leaf", self.min_weight_fraction_leaf)
        if self.min_weight_fraction_leaf > 0.5:
            raise SettingError(
                "min_weight_fraction_leaf must be at most 0.5, or no node could be split; "
                f"got {self.min_weight_fraction_leaf!r}."
            )
        require_choice("criterion", self.criterion, CRITERIA[self.task])
        require_choice("binning", self.binning, BINNINGS)
        _require_features(self.max_features)
        if self.thresholds is not None:
            require_choice("thresholds", self.thresholds, THRESHOLDS)
            if self.thresholds == "exchanged" and self.privacy is not None:
                raise SettingError(
                    "thresholds='exchanged' tells the smallest and largest value of every node, "
                    "which belong to real records; no noise hides them. Use thresholds='public' "
                    "in a private job."
                )
        require_choice("bootstrap", self.bootstrap, (True, False))
        require_choice("oob_score", self.oob_score, (True, False))
        if self.oob_score and not self.bootstrap:
            raise SettingError("oob_score=True needs bootstrap=True: else no row is out of bag.")

    def n_slots(self, n_columns: int) -> int:
        """Return how many features are drawn for a node."""
        wanted = self.max_features
        if wanted is None:
            return n_columns
        if wanted == "sqrt":
            return max(1, math.isqrt(n_columns))
        if wanted == "log2":
            return max(1, int(math.log2(n_columns)))
        if isinstance(wanted, int):
            return min(wanted, n_columns)
        assert isinstance(wanted, float)
        return max(1, int(wanted * n_columns))

    def least_rows(self, wanted: float, n_rows: int) -> int:
        """Return a number of rows, of which a fraction may have been given."""
        least = math.ceil(wanted * n_rows) if isinstance(wanted, float) else int(wanted)
        return min(least, MAX_ROWS * MAX_WEIGHT)  # nobody has more


def refuse_max_leaf_nodes(value: object) -> None:
    """Raise unless scikit-learn's `max_leaf_nodes` is left open: it needs best-first growth."""
    if value is not None:
        raise SettingError(
            "max_leaf_nodes cannot be kept when all trees grow a level at a time. "
            "Use max_depth, min_samples_leaf or min_impurity_decrease."
        )


def require_int(
    name: str, value: object, least: int, hint: str = "", *, most: int | None = None
) -> None:
    """Raise unless a setting is a whole number within its bounds."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if number >= least and (most is None or number <= most):
            return
    bounds = f"at least {least}" if most is None else f"between {least} and {most}"
    raise SettingError(
        f"{name} must be a whole number {bounds}{' ' + hint if hint else ''}; got {value!r}."
    )


def require_real(name: str, value: object) -> None:
    """Raise unless a setting is a finite number of at least 0."""
    good = isinstance(value, Real) and not isinstance(value, bool)
    if not (good and math.isfinite(float(value)) and float(value) >= 0):  # type: ignore[arg-type]
        raise SettingError(f"{name} must be a finite number of at least 0; got {value!r}.")


def _require_samples(name: str, value: object, least: int) -> None:
    if isinstance(value, float):
        if 0.0 < value < 1.0:
            return
        raise SettingError(f"{name} as a fraction must lie between 0 and 1; got {value!r}.")
    require_int(name, value, least, "or a fraction between 0 and 1")


def require_choice(name: str, value: object, choices: tuple[str | bool, ...]) -> None:
    """Raise unless a setting is one of the choices."""
    if not isinstance(value, str | bool) or value not in choices:
        known = " or ".join(repr(choice) for choice in choices)
        raise SettingError(f"{name} must be {known}; got {value!r}.")


def _require_features(value: object) -> None:
    if value is None or (isinstance(value, str) and value in ("sqrt", "log2")):
        return
    if isinstance(value, float) and 0.0 < value <= 1.0:
        return
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1:
        return
    raise SettingError(
        "max_features must be 'sqrt', 'log2', None, a whole number of at least 1, or a fraction "
        f"above 0 and up to 1; got {value!r}."
    )
