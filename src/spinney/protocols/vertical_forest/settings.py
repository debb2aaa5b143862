"""The settings of a vertical forest: its trees, and how labels are protected."""

from dataclasses import dataclass
from typing import Final

import msgspec

from spinney.errors import SettingError
from spinney.protocols.columns.settings import (
    OF_COLUMNS,
    LabelSettings,
    MatchedRows,
    labels_given,
    refuse_sums,
    rows_given,
)
from spinney.protocols.settings import ForestSettings, forest_settings
from spinney.protocols.spec import JobFacts, JobSettings

NAME: Final = "vertical_forest"


@dataclass(frozen=True, kw_only=True)
class VerticalSettings(LabelSettings):
    """The settings of a vertical forest: the trees, and how labels are protected.

    Parameters
    ----------
    forest
        The forest. Its seed stays at the coordinator.
    """

    forest: ForestSettings

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.forest.binning == "adaptive":
            raise SettingError(
                "binning='adaptive' merges histograms over rows; a vertical forest does not "
                "support it. Use binning='quantiles' or 'ranges'."
            )
        if self.forest.privacy is not None:
            raise SettingError(
                "A vertical forest adds noise to labels only. Use label_epsilon, not epsilon."
            )


Settings = VerticalSettings


@dataclass(frozen=True, kw_only=True)
class MatchedSettings(MatchedRows):
    """The settings of a vertical forest that begins with matching."""

    vertical: VerticalSettings

    @property
    def task(self) -> str:
        """What the forest predicts."""
        return self.vertical.forest.task

    @property
    def binning(self) -> str:
        """How bins are laid."""
        return self.vertical.forest.binning

    @property
    def n_estimators(self) -> int:
        """How many trees there are."""
        return self.vertical.forest.n_estimators

    @property
    def max_depth(self) -> int | None:
        """How deep they may grow."""
        return self.vertical.forest.max_depth

    @property
    def min_samples_leaf(self) -> float:
        """The minimum number of rows in a leaf, or their share."""
        return self.vertical.forest.min_samples_leaf


_REFUSED: Final = ("secure_sum", "honest", "epsilon", "epsilon_per_count")


class VerticalJobSettings(JobSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The [settings] of a job file that grows a vertical forest."""

    refused = (*_REFUSED, *JobSettings.refused)

    n_estimators: int | None = None
    criterion: str | None = None
    max_depth: int | None = None
    min_samples_split: int | float | None = None
    min_samples_leaf: int | float | None = None
    min_weight_fraction_leaf: float | None = None
    min_impurity_decrease: float | None = None
    max_features: int | float | str | None = None
    max_bins: int | None = None
    max_cells: int | None = None
    binning: str | None = None
    bootstrap: bool | None = None
    class_weight: str | dict[str, float] | None = None
    oob_score: bool | None = None
    secure_sum: bool | None = None
    honest: int | None = None
    epsilon: int | float | None = None
    epsilon_per_count: int | float | None = None
    message_limit: int | None = None
    max_leaf_nodes: int | None = None
    label_party: str | None = None
    matching: str | None = None
    labels: str | None = None
    label_epsilon: int | float | None = None
    scheme: str | None = None
    key_bits: int | None = None
    intersect_at: str | None = None
    join_parts: bool | None = None
    random_state: int = 0
    n_jobs: int | None = None


def settings_of(given: VerticalJobSettings, facts: JobFacts) -> MatchedSettings:
    """Return the checked settings of a job file; without classes, check what is possible."""
    refuse_sums(given, NAME)
    if given.epsilon is not None or given.epsilon_per_count is not None:
        raise SettingError(
            "protocol = 'vertical_forest' adds noise to labels only. Use label_epsilon instead of "
            "epsilon."
        )
    others = (*OF_COLUMNS, *_REFUSED)
    said = msgspec.structs.asdict(given).items()
    plain = {key: value for key, value in said if value is not None and key not in others}
    forest = forest_settings(plain, facts.task, facts.classes)
    vertical = VerticalSettings(forest=forest, **labels_given(given, facts))
    return MatchedSettings(vertical=vertical, **rows_given(given, facts))
