"""The settings of private boosting that a job file may say."""

from typing import Final

from spinney.protocols.accounts.settings import job_privacy
from spinney.protocols.noisy_boosting.settings import Settings
from spinney.protocols.spec import JobFacts, JobSettings
from spinney.seeds import job_seed

NAME: Final = "private_boosting"


class PrivateBoostingJobSettings(JobSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The [settings] of a job file that boosts within a privacy budget."""

    method: str | None = None
    n_passes: int | None = None
    max_depth: int | None = None
    learning_rate: int | float | None = None
    batch_trees: int | None = None
    edges: str | None = None
    epsilon: int | float | None = None
    delta: int | float | None = None
    n_rows: int | None = None
    secure_sum: bool | None = None
    honest: int | None = None
    message_limit: int | None = None
    random_state: int = 0
    n_jobs: int | None = None


_OWN: Final = (
    "method",
    "n_passes",
    "max_depth",
    "learning_rate",
    "batch_trees",
    "edges",
    "n_rows",
    "message_limit",
)


def settings_of(given: PrivateBoostingJobSettings, facts: JobFacts) -> Settings:
    """Return the settings of a job file, checked."""
    said = {name: getattr(given, name) for name in _OWN if getattr(given, name) is not None}
    privacy = job_privacy(NAME, given, facts, tasks=("classification", "regression"))
    return Settings(privacy=privacy, task=facts.task, seed=job_seed(given.random_state), **said)
