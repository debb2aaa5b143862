"""The settings of boosting over columns: the trees, and how labels are protected."""

from dataclasses import dataclass
from typing import Final

from spinney.errors import SettingError
from spinney.protocols.boosted.settings import (
    BoostingJobSettings,
    Settings,
    boosting_settings,
    said_in,
)
from spinney.protocols.columns.settings import (
    OF_COLUMNS,
    LabelSettings,
    MatchedRows,
    labels_given,
    refuse_sums,
    rows_given,
)
from spinney.protocols.spec import JobFacts

NAME: Final = "vertical_boosting"


@dataclass(frozen=True, kw_only=True)
class VerticalSettings(LabelSettings):
    """The settings of boosting over columns.

    Parameters
    ----------
    boosting
        The trees.
    """

    boosting: Settings

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.boosting.interaction_cst:
            raise SettingError(
                "interaction_cst is not supported over columns: every party would be told which "
                "of the others' columns are on a path. Leave it out."
            )
        if self.boosting.largest_weight is not None:
            raise SettingError(
                "Rows have no weights in boosting over columns. Leave sample weights out."
            )


@dataclass(frozen=True, kw_only=True)
class MatchedSettings(MatchedRows):
    """The settings of boosting over columns that begins with matching."""

    vertical: VerticalSettings

    @property
    def task(self) -> str:
        """What the trees predict."""
        return self.vertical.boosting.task

    @property
    def binning(self) -> str:
        """How bins are laid."""
        return self.vertical.boosting.binning


class VerticalBoostingJobSettings(
    BoostingJobSettings, frozen=True, kw_only=True, omit_defaults=True
):
    """The [settings] of a job file that boosts trees over columns."""

    refused = (
        "secure_sum", "honest", "interaction_cst", "largest_weight", *BoostingJobSettings.refused,
    )  # fmt: skip

    label_party: str | None = None
    matching: str | None = None
    labels: str | None = None
    label_epsilon: int | float | None = None
    scheme: str | None = None
    key_bits: int | None = None
    intersect_at: str | None = None
    join_parts: bool | None = None


def settings_of(given: VerticalBoostingJobSettings, facts: JobFacts) -> MatchedSettings:
    """Return the checked settings of a job file; without classes, check what is possible."""
    refuse_sums(given, NAME)
    boosting = boosting_settings(said_in(given, *OF_COLUMNS), facts)
    vertical = VerticalSettings(boosting=boosting, **labels_given(given, facts))
    return MatchedSettings(vertical=vertical, **rows_given(given, facts))
