"""What came of the question whether the parties' tables fit: as text and as JSON."""

from collections.abc import Mapping

import msgspec

from spinney.protocols.table_fit import ROUNDED_TO, Standout
from spinney.report.words import as_json, some


class FitLine(msgspec.Struct, frozen=True):
    """One column that stands out at one party."""

    party: str
    column: str
    distance: float
    what: str


class TableFit(msgspec.Struct, frozen=True):
    """What every party finds when it compares its table with those of the others."""

    name: str
    parties: tuple[str, ...]
    columns: tuple[str, ...]
    lines: tuple[FitLine, ...]
    is_masked: bool
    rows: dict[str, int] = {}  # of simulated parties; real ones do not tell
    n_shared: int | None = None  # rows that stand at two parties; None: nobody looked

    @classmethod
    def of(
        cls,
        name: str,
        columns: tuple[str, ...],
        found: Mapping[str, tuple[Standout, ...]],
        *,
        is_masked: bool,
    ) -> "TableFit":
        """Return what the parties found."""
        lines = tuple(
            FitLine(party, one.column, one.distance, one.what)
            for party, stands in found.items()
            for one in stands
        )
        return cls(name, tuple(found), columns, lines, is_masked)

    def to_json(self) -> str:
        """Return it as one JSON document."""
        return as_json(self)

    def __str__(self) -> str:
        who = ", ".join(
            f"{name} {self.rows[name]:,}" if self.rows else name for name in self.parties
        )
        rows = "rows" if self.rows else "parties"
        told = [f"{self.name}: {some(len(self.columns), 'column', 'columns')}; {rows}: {who}."]
        told += [
            f"- {line.party}, {line.column}: {line.what} (distance {line.distance:.2f})"
            for line in self.lines
        ]
        if not self.lines:
            told.append("The tables fit: no column of any party stands out against the others.")
        if self.n_shared:
            told.append(
                f"- {some(self.n_shared, 'row stands', 'rows stand')} at more than one party: name "
                "a row_id that is unique over all parties, or leave repeated rows out."
            )
        if self.n_shared is None:
            told.append("Whether a row stands at two parties was not asked.")
        how = "Sums were masked" if self.is_masked else "Sums were not masked: too few parties"
        told.append(f"{how}; every count was rounded to a multiple of {ROUNDED_TO} first.")
        return "\n".join(told)
