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
```
"""

from pathlib import Path
from typing import Any

import msgspec

from spinney.deployment.party.policy import Policy
from spinney.errors import SettingError
from spinney.jobs.file import TableConfig, read_toml
from spinney.jobs.sections import section

_SECTIONS = ("party", "table", "policy", "ledger")


class PartyIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who the party is, and where its start kit and its own records are."""

    name: str
    kit: str = "kit"
    records: str = "records"
    n_jobs: int | None = None


class LedgerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where the ledger is, the name of the data set whose account it keeps, and its labels.

    Labels that were randomised once are kept encrypted in the folder `labels`, under the data
    set's name, and so is the key.
    """

    path: str = "ledger.db"
    data: str = "table"
    labels: str = "labels"


class PartyFile(msgspec.Struct, frozen=True, kw_only=True):
    """A party's file as it was read; paths in it are relative to its folder."""

    folder: Path
    party: PartyIdentity
    table: TableConfig
    policy: Policy
    ledger: LedgerConfig

    @property
    def kit(self) -> Path:
        """The start kit."""
        return self.folder / self.party.kit

    @property
    def records(self) -> Path:
        """Where the party writes down what it accepted and what left it."""
        return self.folder / self.party.records

    @property
    def labels(self) -> Path:
        """Where randomised labels are remembered."""
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
    )
