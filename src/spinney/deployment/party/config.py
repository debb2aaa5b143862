"""A party's file: who am I, what do I hold, what do I allow?

```toml
[party]
name = "north"
kit = "kit"                     # the start kit that `party join` made
[table]
source = "csv"
path = "visits.csv"
[table.columns]
age = { kind = "number", range = [0, 110] }
[policy]
protocols = ["horizontal_forest"]
[ledger]
path = "ledger.db"
labels = "labels"               # the folder of randomised labels and their key
[metrics]                       # without it, the party opens no port
port = 9464
```
"""

from pathlib import Path
from typing import Any

import msgspec

from spinney.deployment.party.policy import Policy
from spinney.deployment.standing import MetricsConfig
from spinney.errors import SettingError
from spinney.jobs.file import TableConfig, read_toml
from spinney.jobs.sections import section

_SECTIONS = ("party", "table", "policy", "ledger", "metrics")


class PartyIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The party's name, and the folders of its start kit and records."""

    name: str
    kit: str = "kit"
    records: str = "records"
    n_jobs: int | None = None


class LedgerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The path of the ledger, the name of its data set, and the folder of randomised labels.

    The folder `labels` keeps labels that were randomised once, encrypted, under the data set's
    name, and their key.
    """

    path: str = "ledger.db"
    data: str = "table"
    labels: str = "labels"


class PartyFile(msgspec.Struct, frozen=True, kw_only=True):
    """A party's file as read; its paths are relative to its folder."""

    folder: Path
    party: PartyIdentity
    table: TableConfig
    policy: Policy
    ledger: LedgerConfig
    metrics: MetricsConfig | None = None

    @property
    def kit(self) -> Path:
        """The start kit."""
        return self.folder / self.party.kit

    @property
    def records(self) -> Path:
        """The folder in which the party records what it accepted and what left it."""
        return self.folder / self.party.records

    @property
    def ledger_file(self) -> Path:
        """The ledger."""
        return self.folder / self.ledger.path

    @property
    def labels(self) -> Path:
        """The folder of randomised labels."""
        return self.folder / self.ledger.labels


def load_party(path: Path) -> PartyFile:
    """Read and check a party's file."""
    given: dict[str, Any] = read_toml(path, "party file")
    where = f"{path.name!r}"
    for name in given:
        if name not in _SECTIONS:
            raise SettingError(
                f"Unknown section [{name}] in {where}. Known sections: "
                f"{', '.join(f'[{one}]' for one in _SECTIONS)}."
            )
    for name in ("party", "table"):
        if name not in given:
            raise SettingError(f"{where} has no [{name}] section. Add it; docs/deploy.md has one.")
    return PartyFile(
        folder=path.resolve().parent,
        party=section(given, "party", PartyIdentity, where),
        table=section(given, "table", TableConfig, where),
        policy=section(given, "policy", Policy, where),
        ledger=section(given, "ledger", LedgerConfig, where),
        metrics=section(given, "metrics", MetricsConfig, where) if "metrics" in given else None,
    )
