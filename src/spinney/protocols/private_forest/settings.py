"""The settings of a private forest, checked once."""

from dataclasses import dataclass
from typing import Final

from spinney.protocols.settings import (
    PrivacySettings,
    Task,
    require_int,
    require_real,
)

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
