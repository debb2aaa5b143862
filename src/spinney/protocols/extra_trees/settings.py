"""The settings of extra-trees: those of a job, and those that users give."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import msgspec

from spinney.errors import SettingError
from spinney.protocols.settings import (
    ForestSettings,
    LabelScheme,
    PrivacySettings,
    TreeRows,
    as_text,
    forest_settings,
)
from spinney.protocols.spec import JobFacts, JobSettings

NAME: Final = "extra_trees"
Settings = ForestSettings
_EPSILON: Final = 2  # the default for a label
_DEFAULTS: Final[dict[str, Any]] = {
    "bootstrap": False,
    "binning": "magnitudes",  # careful: it shows less than quantiles, the estimators' default
    "thresholds": "public",
}


class ExtraJobSettings(JobSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The [settings] of a job file that grows extra-trees."""

    n_estimators: int | None = None
    criterion: str | None = None
    max_depth: int | None = None
    min_samples_split: int | float | None = None
    min_samples_leaf: int | float | None = None
    min_weight_fraction_leaf: float | None = None
    min_impurity_decrease: float | None = None
    max_features: int | float | str | None = None
    max_bins: int | None = None
    binning: str | None = None
    bootstrap: bool | None = None
    class_weight: str | dict[str, float] | None = None
    oob_score: bool | None = None
    secure_sum: bool | None = None
    honest: int | None = None
    epsilon: int | float | None = None
    tree_rows: str | None = None
    sample_rate: int | float | None = None
    leaf_share: int | float | None = None
    thresholds: str | None = None
    label_privacy: str | None = None
    label_scheme: str | None = None
    message_limit: int | None = None
    max_leaf_nodes: int | None = None  # accepted only to raise an error with the reason
    random_state: int = 0
    n_jobs: int | None = None


@dataclass(frozen=True, kw_only=True)
class LabelNoise:
    """The user's parameters for label privacy; see `ExtraTreesClassifier`."""

    label_privacy: str | None = None
    label_scheme: LabelScheme = "randomised_response"
    label_memory: Any = None
    epsilon: Any = None
    secure_sum: bool = False
    honest: int | None = None
    tree_rows: TreeRows = "disjoint"
    sample_rate: Any = 0.5
    leaf_share: Any = 0.25

    def privacy(self, *, is_regression: bool, job: str | None = None) -> PrivacySettings | None:
        """Return the privacy of a job; None without any. A simulated job gets a fresh name."""
        name = job or f"simulation {uuid4()}"
        match self.label_privacy:
            case None:
                _refuse("epsilon", self.epsilon, "label_privacy='local' or 'laplace'")
                _refuse("label_memory", self.label_memory, "label_privacy='local'")
                return None
            case "local":
                return self._local(name, is_regression=is_regression)
            case "laplace":
                _refuse("label_memory", self.label_memory, "label_privacy='local'")
                return self._laplace(name)
        raise SettingError(
            f"label_privacy must be None or 'local' or 'laplace'; got {self.label_privacy!r}."
        )

    def _local(self, name: str, *, is_regression: bool) -> PrivacySettings:
        if is_regression:
            raise SettingError(
                "label_privacy='local' randomises classes, but a regressor has none. Use "
                "label_privacy='laplace'."
            )
        epsilon = self.epsilon
        if epsilon is None and self.label_scheme != "bloom":
            epsilon = _EPSILON
        return PrivacySettings(
            job=name,
            mechanism="randomised_labels",
            label_scheme=self.label_scheme,
            epsilon=None if epsilon is None else as_text(epsilon, "epsilon"),
        )

    def _laplace(self, name: str) -> PrivacySettings:
        if self.epsilon is None:
            raise SettingError(
                "label_privacy='laplace' needs epsilon, the budget of the whole forest, for "
                "example 1.0."
            )
        return PrivacySettings(
            job=name,
            epsilon=as_text(self.epsilon, "epsilon"),
            tree_rows=self.tree_rows,
            sample_rate=as_text(self.sample_rate, "sample_rate"),
            leaf_share=as_text(self.leaf_share, "leaf_share"),
            in_shares=bool(self.secure_sum),
            honest=self.honest,
        )

    def binning(self, wanted: Any) -> Any:
        """Return the scale of cuts; with noise on counts, the one that needs no counting."""
        is_counted = self.label_privacy == "laplace" and wanted in {"magnitudes", "quantiles"}
        return "ranges" if is_counted else wanted


_NOISE: Final = tuple(LabelNoise.__dataclass_fields__)


def settings_of(given: ExtraJobSettings, facts: JobFacts) -> ForestSettings:
    """Return the checked settings of a job file; without classes, check what is possible."""
    said = {k: v for k, v in msgspec.structs.asdict(given).items() if v is not None}
    noise = LabelNoise(**{key: said.pop(key) for key in _NOISE if key in said})
    said = _DEFAULTS | said
    if noise.secure_sum and said["thresholds"] == "exchanged":
        raise SettingError(
            "thresholds = 'exchanged' cannot be masked: the coordinator compares each party's "
            "smallest and largest values. Use 'public' with secure_sum = true."
        )
    said["binning"] = noise.binning(said["binning"])
    is_regression = facts.task == "regression"
    privacy = noise.privacy(is_regression=is_regression, job=facts.name)
    return forest_settings(said, facts.task, facts.classes, privacy=privacy)


def _refuse(name: str, value: object, needed: str) -> None:
    if value is not None:
        raise SettingError(f"{name}={value!r} needs {needed}.")
