"""Read a party's table from a file or a database, in batches of rows.

`read_table` is for a table with a schema; `findings_of_source` is for one without.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal, get_args

import numpy as np

from spinney.errors import SchemaError, SettingError, SpinneyError, TableError
from spinney.tables.cells import cells_of
from spinney.tables.databases import stream_of_url
from spinney.tables.describe import Findings, findings_of, findings_of_label
from spinney.tables.digits import columns_that_differ, lost_digits
from spinney.tables.files import CsvStream, ParquetStream
from spinney.tables.opening import Frame
from spinney.tables.outside import Outside
from spinney.tables.schema import LabelKind, Schema, join_words
from spinney.tables.table import BATCH_ROWS, SourceTable, Stream

Format = Literal["csv", "parquet", "sql"]
NOTHING: Final = "(nothing)"  # a column of zeros, in place of a column or label the table lacks


@dataclass(frozen=True, slots=True)
class Source:
    """Where a party's table is, and the query that maps its own columns to the schema's.

    A query over a file calls it `source`: `select alter as age, ... from source`. A database is
    named by its URL, `sqlite:///path`, `duckdb:///path` or `postgresql://...`, and requires a
    query. A padded source has one more column, `NOTHING`.
    """

    format: Format
    path: str | None = None
    url: str | None = field(default=None, repr=False)  # may hold a password
    query: str | None = None
    row_id: str | None = None
    padded: bool = False
    row_weight: str | None = None

    def __post_init__(self) -> None:
        if self.format not in get_args(Format):
            raise SettingError(
                f"The format of a source must be {' or '.join(get_args(Format))}; "
                f"got {self.format!r}."
            )
        if self.format != "sql" and (not self.path or self.url):
            raise SettingError(f"A {self.format} source needs a path. Give path, not url.")
        if self.format == "sql" and (not self.url or self.path):
            raise SettingError("An sql source needs a url. Give url, not path.")
        if self.format == "sql" and not self.query:
            raise SettingError(
                "An sql source needs a query. Write a SELECT that returns the schema's columns."
            )

    def stream(self, schema: Schema | None = None, *, as_text: bool = False) -> Stream:
        """Return a stream of the rows; the schema says how to read a CSV file's text.

        With `as_text` no cell of a CSV file decides how others are read, or whether they are.
        """
        stream = self._stream(schema, as_text=as_text)
        return _Padded(stream) if self.padded else stream

    def _stream(self, schema: Schema | None, *, as_text: bool) -> Stream:
        if self.format == "csv":
            return CsvStream(str(self.path), self.query, schema, as_text)
        if self.format == "parquet":
            return ParquetStream(str(self.path), self.query)
        return stream_of_url(str(self.url), str(self.query))


@dataclass(frozen=True)
class _Padded:
    """A stream with an additional column of zeros."""

    stream: Stream

    def names(self) -> tuple[str, ...]:
        """Return the names of all columns, in order."""
        return (*self.stream.names(), NOTHING)

    def frames(self, wanted: Sequence[str], size: int) -> Iterator[Frame]:
        """Give the wanted columns of all rows in order, at most `size` rows at a time."""
        own = [name for name in wanted if name != NOTHING] or [self.stream.names()[0]]
        for frame in self.stream.frames(own, size):
            cells = dict(zip(own, frame.cells, strict=True))
            cells[NOTHING] = cells_of(np.zeros(len(frame.cells[0])))
            yield Frame(tuple(wanted), tuple(cells[name] for name in wanted))


def read_ids(source: Source, schema: Schema) -> list[Any]:
    """Return the row ids of a table unchanged, in row order; None where missing."""
    if source.row_id is None:
        raise SettingError(
            "Rows are matched by an id, and the table names none. Set row_id to the id column that "
            "all parties have."
        )
    stream = source.stream(schema)  # the schema makes a CSV file's ids keep their text
    frames = stream.frames([source.row_id], BATCH_ROWS)
    return [one for frame in frames for one in frame.cells[0].objects()]


def read_table(source: Source, schema: Schema, *, outside: Outside = "refuse") -> SourceTable:
    """Return a source as a table, after one pass that checks every row against the schema.

    Columns that the schema does not name are not read. `outside` says what happens to values that
    the schema does not allow; unless they are refused, every other fault of the rows is described
    in the same words, because a private job's refusals must not describe rows.
    """
    hides_faults = outside != "refuse"
    stream = source.stream(schema, as_text=hides_faults)
    with _one_wording(hides_faults):
        names = stream.names()
    require_columns(names, schema.names, schema.label.name, source.row_id, source.row_weight)
    with _one_wording(hides_faults):
        return SourceTable.checked(schema, stream, source.row_id, outside, source.row_weight)


def lost_digits_of(source: Source, table: SourceTable) -> tuple[str, ...]:
    """Return what to tell the owner of columns that only seem to hold one number."""
    if not table.alike or table.outside != "refuse":
        return ()
    lost: tuple[str, ...] = ()
    with suppress(SpinneyError):  # without its schema a table may not be readable
        lost = columns_that_differ(table.alike, source.stream().frames(table.alike, BATCH_ROWS))
    return (lost_digits([repr(name) for name in lost]),) if lost else ()


@contextmanager
def _one_wording(applies: bool) -> Iterator[None]:  # noqa: FBT001
    """Describe every fault of the rows in the same words; what differs is for their owner."""
    try:
        yield
    except SpinneyError as error:
        if not applies:
            raise
        raise TableError(
            "The table cannot be read. Its party finds the reason in its own log, or with "
            "spinney party check.",
            local=str(error),
        ) from None


@dataclass(frozen=True, slots=True)
class SourceFindings:
    """The findings of a source's rows: of its columns, by name, and of its label."""

    columns: dict[str, Findings]
    label: Findings
    n_rows: int


def findings_of_source(
    source: Source,
    label: str,
    label_kind: LabelKind,
    *,
    columns: Sequence[str] | None = None,
) -> SourceFindings:
    """Return the findings of all rows of a source; other parties' rows may add more.

    Parameters
    ----------
    source
        The file or query.
    label
        The column to predict.
    label_kind
        "class" or "number".
    columns
        The columns to use. Default: all but the label, the row id and the row weight.
    """
    stream = source.stream()
    found = stream.names()
    roles = {label, source.row_id, source.row_weight}
    names = tuple(columns or (name for name in found if name not in roles))
    require_columns(found, names, label, source.row_id, source.row_weight)
    findings = [Findings()] * len(names)
    label_findings = Findings()
    n_rows = 0
    for frame in stream.frames([*names, label], BATCH_ROWS):
        n_rows += len(frame.cells[0])
        label_findings |= findings_of_label(label, label_kind, frame.cells[-1])
        findings = [
            so_far | findings_of(name, cells, wants=None)
            for so_far, name, cells in zip(findings, names, frame.cells[:-1], strict=True)
        ]
    if not n_rows:
        raise TableError("The table has no rows. Check the file, or the query's conditions.")
    return SourceFindings(dict(zip(names, findings, strict=True)), label_findings, n_rows)


def require_columns(
    names: Sequence[str], columns: Sequence[str], label: str, *others: str | None
) -> None:
    """Raise unless a table has these columns, once each; suggest similar names to its owner."""
    wanted = (*columns, label, *others)
    missing = [name for name in wanted if name is not None and name not in names]
    if missing and missing != [label]:
        raise SchemaError(
            f"The table has no column {join_words(map(repr, missing))}. Rename it in the query, or "
            "drop it from the schema.",
            local=_instead(missing, names),
        )
    if missing:
        raise SchemaError(
            f"The table has no column {label!r}, the label. Name the column to predict: --label, "
            "or the key label in [schema] or [table].",
            local=_instead([label], names),
        )
    repeated = [name for name in dict.fromkeys((*columns, label)) if names.count(name) > 1]
    if repeated:
        raise TableError(
            f"The table has more than one column called {join_words(map(repr, repeated))}. "
            "Give every column of the query a different name."
        )


def _instead(missing: Sequence[str], names: Sequence[str]) -> str:
    """Return the names that a table has, the most similar one first."""
    alike = {name.strip().casefold(): name for name in names}
    near = [
        alike[match]
        for name in missing
        for match in get_close_matches(name.strip().casefold(), alike, n=1)
    ]
    hint = f"Did you mean {join_words(map(repr, dict.fromkeys(near)))}? " if near else ""
    return f"{hint}It has: {join_words(names)}."
