"""The settings of a private forest."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from msgspec import UNSET, UnsetType

from spinney.errors import SettingError
from spinney.protocols.accounts.settings import job_privacy
from spinney.protocols.private_forest.sizing import choose_size, strength_of
from spinney.protocols.settings import PrivacySettings, Task, require_int, require_real
from spinney.protocols.spec import JobFacts, JobSettings
from spinney.seeds import job_seed

NAME = "private_forest"
_MOST_DEPTH: Final = 20
_MOST_SHARPNESS: Final = 10


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
    # How much leaves are sharpened; left out: not at all. It changes no question, so neither the
    # ledger's agreement nor the questions of earlier versions mention it.
    sharpness: float | UnsetType = field(default=UNSET, repr=False)

    def __post_init__(self) -> None:
        require_int("n_estimators", self.n_estimators, 1)
        require_int("max_depth", self.max_depth, 1, most=_MOST_DEPTH)
        require_real("shrinkage", self.shrinkage)
        require_int("seed", self.seed, 0, most=2**64 - 1)
        require_int("message_limit", self.message_limit, 1 << 16)
        if self.sharpness is not UNSET:
            require_real("sharpness", self.sharpness)
            if not 0 < self.sharpness <= _MOST_SHARPNESS:
                raise SettingError(
                    f"sharpness must be above 0 and at most {_MOST_SHARPNESS}; got "
                    f"{self.sharpness!r}."
                )

    def described(self) -> dict[str, Any]:
        """Return the settings as reports show them."""
        return {name: value for name, value in asdict(self).items() if value is not UNSET}


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
    n_rows: int | None = None
    sharpness: int | float | None = None
    delta: int | float | None = None


_OWN: Final = ("n_estimators", "max_depth", "shrinkage", "message_limit", "sharpness")


def settings_of(given: PrivateForestJobSettings, facts: JobFacts) -> Settings:
    """Return the settings of a job file, checked."""
    said = {name: getattr(given, name) for name in _OWN if getattr(given, name) is not None}
    seed, privacy = job_seed(given.random_state), job_privacy(NAME, given, facts)
    if given.n_rows is not None:
        said = _sized(given, facts, strength_of(privacy)) | said
    return Settings(privacy=privacy, seed=seed, **said)


def _sized(
    given: PrivateForestJobSettings, facts: JobFacts, epsilon: float
) -> dict[str, int | float]:
    """Return the size that follows from the job's public facts, for what it does not give."""
    require_int("n_rows", given.n_rows, 1)
    assert given.n_rows is not None
    size = choose_size(
        n_rows=given.n_rows,
        epsilon=epsilon,
        n_columns=facts.n_columns,
        n_classes=len(facts.classes or (0, 1)),
        message_limit=given.message_limit or Settings.message_limit,
        n_estimators=given.n_estimators,
        max_depth=given.max_depth,
    )
    sized: dict[str, int | float] = {
        "n_estimators": size.n_estimators,
        "max_depth": size.max_depth,
    }
    is_given = given.n_estimators is not None and given.max_depth is not None
    return sized if is_given else sized | {"sharpness": size.sharpness}
