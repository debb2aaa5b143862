"""Check a whole table: every column, the label, what leaks it, and what a job will take."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spinney.errors import SettingError, TableError
from spinney.jobs.checking.columns import Use, use_of
from spinney.jobs.checking.label import LabelUse, label_use
from spinney.jobs.checking.leaks import leaks_in
from spinney.jobs.checking.notes import Choices, Note
from spinney.jobs.checking.stand_ins import stand_ins
from spinney.tables.files import name_in_sql, text_in_sql
from spinney.tables.profile import OpenTable, Profile, opened_as_text, profile_of
from spinney.tables.readers import Source, require_columns
from spinney.tables.schema import join_words

_SUFFIXES: Final = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".csv.gz": "csv", ".tsv.gz": "csv",
    ".csv.zst": "csv", ".tsv.zst": "csv",
    ".parquet": "parquet", ".pq": "parquet",
    ".sqlite": "sql", ".db": "sql", ".duckdb": "sql", ".ddb": "sql",
}  # fmt: skip


@dataclass(frozen=True)
class Checked:
    """What a check found in a table, and how a job would read it."""

    path: Path
    source: str
    profile: Profile
    columns: tuple[Use, ...]
    label: LabelUse | None
    notes: tuple[Note, ...]
    query: str | None  # the user's own, for a database
    row_id: str | None

    @property
    def used(self) -> tuple[Use, ...]:
        """The columns that a job would use."""
        return tuple(use for use in self.columns if use.kind is not None)

    @property
    def megabytes(self) -> float:
        """About how much memory a simulation with five parties takes, in MB.

        Rows are in every tree's lists; DuckDB and the parties' histograms grow with the columns.
        """
        return 400.0 + 0.006 * self.profile.n_rows + 20.0 * math.sqrt(len(self.used))

    @property
    def seconds(self) -> float:
        """About how long a simulation with five parties takes on two cores."""
        return 6.0 + self.profile.n_rows * max(len(self.used), 1) * 1.2e-6


def source_called(path: Path) -> str:
    """Return the kind of source that a file's name tells."""
    name = path.name.lower()
    if name.endswith((".xlsx", ".xls", ".ods")):
        raise SettingError(
            f"{path.name!r} is a spreadsheet, which Spinney does not read. Save the sheet as CSV "
            "(UTF-8), and name that file."
        )
    found = next((kind for end, kind in _SUFFIXES.items() if name.endswith(end)), None)
    if found is None:
        known = ", ".join(_SUFFIXES)
        raise SettingError(f"{path.name!r} does not end as a table does. Known are: {known}.")
    return found


def is_table(path: Path) -> bool:
    """Return whether a file's name says that it is a table."""
    return path.name.lower().endswith((*_SUFFIXES, ".xlsx", ".xls", ".ods"))


def source_at(path: Path, query: str | None = None) -> Source:
    """Return the source of a table file; a database needs a query."""
    kind = source_called(path)
    if kind != "sql":
        if query is not None:
            raise SettingError("--query is for databases. Leave it out for a file.")
        return Source("csv" if kind == "csv" else "parquet", str(path))
    if query is None:
        raise SettingError(
            f"{path.name!r} is a database. Say which rows, with a query: --query 'select ...'."
        )
    if not path.is_file():
        raise TableError("The file of the table does not exist. Check its path.")
    engine = "duckdb" if path.suffix in (".duckdb", ".ddb") else "sqlite"
    return Source("sql", url=f"{engine}:///{path}", query=query)


def check_table(
    path: Path,
    label: str | None,
    task: str | None = None,
    choices: Choices | None = None,
    query: str | None = None,
) -> Checked:
    """Check a table file; without a label, only its columns."""
    said = choices or Choices()
    if task not in (None, "classification", "regression"):
        raise SettingError(f"--task must be classification or regression; got {task!r}.")
    source = source_at(path, query)
    with opened_as_text(source, said.na) as table:
        names = tuple(table.types)
        require_columns(names, said.drop, label or names[0], None)
        profile = profile_of(table)
        uses = [
            _with_ends(table, use_of(one, said)) for one in profile.columns if one.name != label
        ]
        predicted = None if label is None else label_use(profile.column(label), task, said)
        if predicted is not None:
            predicted = replace(predicted, use=_with_ends(table, predicted.use))
        uses = [replace(use, notes=(*use.notes, *stand_ins(table, use))) for use in uses]
        leaks = [] if predicted is None else leaks_in(table, predicted, uses)
    uses = [_without_na(use, table.with_na, said) for use in _some_column(uses, said)]
    if predicted is not None:
        use = _without_na(predicted.use, table.with_na, said)
        predicted = replace(predicted, use=use)
    notes = tuple(note for use in uses for note in use.notes)
    if predicted is not None:
        notes = (*predicted.use.notes, *leaks, *notes)
    ids = [use.name for use in uses if use.is_id]
    return Checked(
        path, source.format, profile, tuple(uses), predicted, notes, query, ids[0] if ids else None
    )


def _with_ends(table: OpenTable, use: Use) -> Use:
    """Return a column that is read otherwise with the range that it has then."""
    if use.kind != "number" or use.expression is None:
        return use
    ((low, high),) = table.ask(
        f"SELECT min({use.expression}), max({use.expression}) FROM cells"  # noqa: S608
    )
    return replace(use, ends=None if low is None else (float(low), float(high)))


def _without_na(use: Use, with_na: frozenset[str], choices: Choices) -> Use:
    """Return a column that reads the user's texts for "missing" as missing."""
    if use.kind is None or use.name not in with_na:
        return use
    own = f"CAST({name_in_sql(use.name)} AS VARCHAR)"
    rest = use.expression or (f"TRY_CAST({own} AS DOUBLE)" if use.kind == "number" else own)
    texts = ", ".join(map(text_in_sql, choices.na))
    expression = f"CASE WHEN trim({own}) IN ({texts}) THEN NULL ELSE {rest} END"
    return replace(use, expression=expression)


def _some_column(uses: list[Use], choices: Choices) -> list[Use]:
    """Return the columns; if only ids are left, they are used."""
    if any(use.kind is not None for use in uses):
        return uses
    ids = [use for use in uses if use.is_id and use.name not in choices.drop]
    if not ids:
        names = join_words(repr(use.name) for use in uses)
        raise TableError(
            f"No column is left to predict from: {names} were all left out. "
            "'spinney check' says why, and what to do."
        )
    return [Use(use.name, "number") if use in ids else use for use in uses]
