"""The coordinator's file: the federation's name and address, and how long it waits.

```toml
[coordinator]
name = "clinics"
host = "trees.example.org"
port = 8002

[limits]
silence_seconds = 60

[metrics]                       # without it, no port for metrics is opened
port = 9464
```
"""

from pathlib import Path
from typing import Any

import msgspec

from spinney.deployment.standing import MetricsConfig
from spinney.errors import SettingError
from spinney.jobs.file import read_toml
from spinney.jobs.sections import section
from spinney.transport.remote.kits import Address

_SECTIONS = ("coordinator", "limits", "metrics")
_LEAST_REPLY = 5.0


class CoordinatorIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The federation's name and address, and the folders of its authority, kit and runs."""

    name: str
    host: str
    port: int = 8002
    admin_port: int | None = None
    organisation: str = "coordinator"
    ca: str = "ca"
    kit: str = "kit"
    runs: str = "runs"
    n_jobs: int | None = None


class LimitsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Time and size limits.

    Attributes
    ----------
    silence_seconds
        A party that is silent for this long is lost to the present attempt.
    patience_seconds
        A party that is away for this long is dropped if the quorum allows; otherwise the job
        pauses.
    reply_seconds
        The longest time for a message; a party that works longer reports in between.
    answer_seconds
        The longest time for an answer; a party that works longer is lost to the present attempt.
    message_bytes
        The longest message.
    attempts
        How often a job that makes no progress is tried again.
    """

    silence_seconds: float = 60.0
    patience_seconds: float = 600.0
    reply_seconds: float = 15.0
    answer_seconds: float = 3600.0
    message_bytes: int = 1 << 31
    attempts: int = 5

    def __post_init__(self) -> None:
        least = ("silence_seconds", "reply_seconds", "answer_seconds", "message_bytes", "attempts")
        for name in least:
            if not getattr(self, name) > 0:
                raise SettingError(f"{name} must be greater than 0; got {getattr(self, name)}.")
        if self.reply_seconds < _LEAST_REPLY:
            raise SettingError(
                f"reply_seconds must be at least {_LEAST_REPLY:g}, because a working party reports "
                f"every two seconds; got {self.reply_seconds:g}."
            )
        if self.silence_seconds < self.reply_seconds:
            raise SettingError(
                "silence_seconds must be at least reply_seconds; otherwise one late message ends "
                f"an attempt. Got {self.silence_seconds:g} and {self.reply_seconds:g}."
            )


class CoordinatorFile(msgspec.Struct, frozen=True, kw_only=True):
    """A coordinator's file as read; its paths are relative to its folder."""

    folder: Path
    coordinator: CoordinatorIdentity
    limits: LimitsConfig
    metrics: MetricsConfig | None = None

    def __post_init__(self) -> None:
        taken = (self.address.port, self.address.admin_port)
        if self.metrics is not None and self.metrics.port in taken:
            raise SettingError(
                f"port in [metrics] must differ from the coordinator's ports {taken[0]} and "
                f"{taken[1]}; got {self.metrics.port}."
            )

    @property
    def ca(self) -> Path:
        """The authority that signs certificates."""
        return self.folder / self.coordinator.ca

    @property
    def address(self) -> Address:
        """Where everybody reaches the coordinator."""
        own = self.coordinator
        return Address(
            name=own.name, host=own.host, port=own.port, admin_port=own.admin_port or own.port + 1
        )

    @property
    def kit(self) -> Path:
        """The start kit."""
        return self.folder / self.coordinator.kit

    @property
    def runs(self) -> Path:
        """The folder of the runs."""
        return self.folder / self.coordinator.runs


def load_coordinator(path: Path) -> CoordinatorFile:
    """Read and check a coordinator's file."""
    given: dict[str, Any] = read_toml(path, "coordinator file")
    where = f"{path.name!r}"
    for name in given:
        if name not in _SECTIONS:
            raise SettingError(
                f"Unknown section [{name}] in {where}. Known sections: "
                f"{', '.join(f'[{one}]' for one in _SECTIONS)}."
            )
    if "coordinator" not in given:
        raise SettingError(f"{where} has no [coordinator] section. Add it; docs/deploy.md has one.")
    return CoordinatorFile(
        folder=path.resolve().parent,
        coordinator=section(given, "coordinator", CoordinatorIdentity, where),
        limits=section(given, "limits", LimitsConfig, where),
        metrics=section(given, "metrics", MetricsConfig, where) if "metrics" in given else None,
    )
