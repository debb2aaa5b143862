"""What came of the question whether the parties' tables fit: as text and as JSON."""

from collections.abc import Mapping
from typing import Final

import msgspec

from spinney.protocols.table_fit import ROUNDED_TO, IdsElsewhere, Standout
from spinney.report.words import as_json, some

_SURE: Final = 2  # deviations, for all parties together
_SURE_OF_ONE: Final = 3  # deviations, for one of them
_DRAWN_ANEW: Final = (
    "Simulated parties draw rounding and noise anew in every check, so what is close to chance may "
    "be told in one check and not in the next. Real parties give the same tables the same answer."
)


class FitLine(msgspec.Struct, frozen=True):
    """One column that stands out at one party."""

    party: str
    column: str
    distance: float
    what: str


class IdsLine(msgspec.Struct, frozen=True):
    """About how many ids of one party stand at others, or why that cannot be told."""

    party: str
    about: int  # an id once for each other party that has it
    error: int  # the standard deviation of that
    why: str = ""  # empty if it can be told

    def in_words(self) -> str:
        """Return about how many, with an interval; a party whose interval holds 0 is not blamed."""
        least, most = self.about - _SURE * self.error, max(self.about + _SURE * self.error, 0)
        if least <= 0:
            return f"{self.party} perhaps none (0 to {most:,})"
        return f"{self.party} about {self.about:,} ({least:,} to {most:,})"


class SharedIds(msgspec.Struct, frozen=True):
    """About how many ids stand at two parties; an id at three of them counts three times."""

    about: int
    least: int
    most: int
    is_found: bool  # whether this is more than chance

    @classmethod
    def of(cls, lines: tuple[IdsLine, ...]) -> "SharedIds | None":
        """Return what the parties tell together; None if fewer than two have ids."""
        told = [line for line in lines if not line.why]
        if len(told) < 2:
            return None
        about = sum(line.about for line in told) / 2  # every pair is told from both sides
        error = _SURE * sum(line.error**2 for line in told) ** 0.5 / 2
        is_found = about > error or any(one.about > _SURE_OF_ONE * one.error for one in told)
        least, most = max(round(about - error), 0), max(round(about + error), 0)
        return cls(max(round(about), 0), least, most, is_found)


class TableFit(msgspec.Struct, frozen=True):
    """What every party finds when it compares its table with those of the others."""

    name: str
    parties: tuple[str, ...]
    columns: tuple[str, ...]
    lines: tuple[FitLine, ...]
    is_masked: bool
    rows: dict[str, int] = {}  # of simulated parties; real ones do not tell
    n_shared: int | None = None  # equal rows at two simulated parties; real ones do not look
    ids: tuple[IdsLine, ...] = ()
    shared: SharedIds | None = None  # ids at two parties; None: nobody can tell

    @classmethod
    def of(
        cls,
        name: str,
        columns: tuple[str, ...],
        found: Mapping[str, tuple[Standout, ...]],
        elsewhere: Mapping[str, IdsElsewhere],
        *,
        is_masked: bool,
    ) -> "TableFit":
        """Return what the parties found."""
        ids = tuple(
            IdsLine(party, one.about, one.error, one.why) for party, one in elsewhere.items()
        )
        lines = tuple(
            FitLine(party, one.column, one.distance, one.what)
            for party, stands in found.items()
            for one in stands
        )
        shared = SharedIds.of(ids)
        return cls(name, tuple(found), columns, lines, is_masked, ids=ids, shared=shared)

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
        told += self._ids_in_words()
        how = "Sums were masked" if self.is_masked else "Sums were not masked: too few parties"
        told.append(f"{how}; every count was rounded to a multiple of {ROUNDED_TO} first.")
        if self.rows:
            told.append(_DRAWN_ANEW)
        return "\n".join(told)

    def _ids_in_words(self) -> list[str]:
        """Say whether ids stand at two parties, as far as sketches with noise tell."""
        said = [] if self.shared is None else [self._shared_in_words(self.shared)]
        return said + [
            f"Whether ids of {line.party} stand elsewhere cannot be told: {line.why}."
            for line in self.ids
            if line.why
        ]

    def _shared_in_words(self, shared: SharedIds) -> str:
        if not shared.is_found:
            most = f"up to {shared.most:,} would not be noticed"
            return f"No ids were found at more than one party; {most}."
        each = ", ".join(line.in_words() for line in self.ids if not line.why)
        return (
            f"- about {some(shared.about, 'id stands', 'ids stand')} at more than one party "
            f"({shared.least:,} to {shared.most:,}; shared with others: {each}; every interval "
            "holds in 95 of 100 cases): leave repeated rows out at one of them, or, if these are "
            "other rows, name a row_id that is unique over all parties."
        )
