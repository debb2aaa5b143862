"""The settings of a private forest."""

from dataclasses import dataclass
from typing import Final

from spinney.protocols.accounts.settings import job_privacy
from spinney.protocols.settings import PrivacySettings, Task, require_int, require_real
from spinney.protocols.spec import JobFacts, JobSettings
from spinney.seeds import job_seed

NAME = "private_forest"
_MOST_DEPTH: Final = 20


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a private forest fixes before it starts; every party sees it."""

    privacy: PrivacySettings
    n_estimators: int = 20
    max_depth: int = 5
    shrinkage: float = 1.0
    seed: int = 0
    message_limit: int = 256 << 20  # bytes of counters in one reply
    task: Task = "classification"

    def __post_init__(self) -> None:
        require_int("n_estimators", self.n_estimators, 1)
        require_int("max_depth", self.max_depth, 1, most=_MOST_DEPTH)
        require_real("shrinkage", self.shrinkage)
        require_int("seed", self.seed, 0, most=2**64 - 1)
        require_int("message_limit", self.message_limit, 1 << 16)


class PrivateForestJobSettings(JobSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The [settings] of a job file that counts the leaves of a random forest."""

    n_estimators: int | None = None
    max_depth: int | None = None
    secure_sum: bool | None = None
    honest: int | None = None
    epsilon: int | float | None = None
    shrinkage: int | float | None = None
    message_limit: int | None = None
    random_state: int = 0
    n_jobs: int | None = None


_OWN: Final = ("n_estimators", "max_depth", "shrinkage", "message_limit")


def settings_of(given: PrivateForestJobSettings, facts: JobFacts) -> Settings:
    """Return the settings of a job file, checked."""
    said = {name: getattr(given, name) for name in _OWN if getattr(given, name) is not None}
    seed = job_seed(given.random_state)
    return Settings(privacy=job_privacy(NAME, given, facts), seed=seed, **said)
