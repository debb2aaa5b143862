"""`spinney job check`: do the parties' tables fit? Asked of simulated parties, under masks."""

from pathlib import Path

import msgspec
import numpy as np

from spinney.errors import SettingError
from spinney.jobs.file import load_job
from spinney.jobs.rows import deal_out
from spinney.jobs.tables import tables_of
from spinney.protocols import table_fit
from spinney.protocols.table_fit import Standout, ask_sums, compare_all
from spinney.protocols.verified.simulated import connect_parties
from spinney.report.words import as_json, some
from spinney.tables.table import MemoryTable
from spinney.transport.channel import Answering


class FitLine(msgspec.Struct, frozen=True):
    """One column that stands out at one party."""

    party: str
    column: str
    distance: float
    what: str


class TableFit(msgspec.Struct, frozen=True):
    """What every party finds when it compares its table with those of the others."""

    name: str
    rows: dict[str, int]
    columns: tuple[str, ...]
    lines: tuple[FitLine, ...]
    n_shared: int  # rows that stand at two parties, by their ids or cells
    is_masked: bool

    def to_json(self) -> str:
        """Return it as one JSON document."""
        return as_json(self)

    def __str__(self) -> str:
        rows = ", ".join(f"{name} {n:,}" for name, n in self.rows.items())
        told = [f"{self.name}: {some(len(self.columns), 'column', 'columns')}; rows: {rows}."]
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
        how = "Sums were masked" if self.is_masked else "Sums were not masked: too few parties"
        told.append(f"{how}; counts below {table_fit.FEWEST} were told as 0.")
        return "\n".join(told)


def check_fit(path: Path) -> TableFit:
    """Read a job's tables and let simulated parties compare theirs with the others'."""
    job = load_job(path)
    if job.spec.divides == "columns":
        raise SettingError(
            "The parties of this job hold different columns, so there is nothing to compare. "
            "'spinney job check' is for jobs over rows."
        )
    tables, _ = tables_of(job, needs_ranges=False, outside="leave_out")
    if job.table is not None:
        first = next(iter(tables.values()))
        tables = deal_out(first, job.simulation, job.facts().parties, is_private=False).training
    return fit_of(job.job.name, tables)


def fit_of(name: str, tables: dict[str, MemoryTable]) -> TableFit:
    """Let parties with these tables compare theirs with the others'."""
    if len(tables) < 2:
        raise SettingError("There is one table, and nothing to compare it with.")
    sides = {party: table_fit.Party(table) for party, table in tables.items()}
    is_masked = len(sides) > 2
    answering: dict[str, Answering] = dict(sides)
    channel = connect_parties(answering, is_masked=is_masked, unverified=table_fit.SUMMED)
    schema = next(iter(tables.values())).schema
    ask, told = ask_sums(channel, schema)
    found = compare_all(sides, ask, told)
    return TableFit(
        name,
        {party: table.n_rows for party, table in tables.items()},
        schema.names,
        tuple(_line(party, one) for party, stands in found.items() for one in stands),
        _shared(tables),
        is_masked,
    )


def _line(party: str, one: Standout) -> FitLine:
    return FitLine(party, one.column, one.distance, one.what)


def _shared(tables: dict[str, MemoryTable]) -> int:
    """Count rows that stand at two simulated parties; real parties would match ids for that."""
    keys = [
        np.unique(t.all_keys if t.rows is None else t.all_keys[t.rows]) for t in tables.values()
    ]
    _, found = np.unique(np.concatenate(keys), return_counts=True)
    return int((found > 1).sum())
