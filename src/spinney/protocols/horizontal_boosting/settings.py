"""The settings of boosted trees over rows."""

from typing import Final

from spinney.protocols.boosted.settings import (
    BoostingJobSettings,
    Settings,
    boosting_settings,
    said_in,
)
from spinney.protocols.spec import JobFacts

NAME: Final = "horizontal_boosting"


def settings_of(given: BoostingJobSettings, facts: JobFacts) -> Settings:
    """Return the checked settings of a job file; without classes, check what is possible."""
    return boosting_settings(said_in(given), facts)
