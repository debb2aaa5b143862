"""The schema of a job: as declared in its file; what is left open is read off the tables.

Reading public facts off private data is for simulation only, and each fact read is named.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from spinney.errors import SettingError
from spinney.service.config import JobFile, TableConfig
from spinney.service.sections import ColumnConfig
from spinney.tables.agree import agree
from spinney.tables.describe import completed
from spinney.tables.readers import Source, describe_source
from spinney.tables.schema import (
    Category,
    Column,
    Kind,
    Label,
    LabelKind,
    Schema,
    facts_in,
    in_order,
    listed,
)


@dataclass(frozen=True)
class Declared:
    """What a job file says of one table; `names` is None where all columns are to be used."""

    names: tuple[str, ...] | None
    columns: Mapping[str, Column]
    label: Label

    def open_names(self, *, needs_ranges: bool) -> tuple[str, ...] | None:
        """Return the columns of which a fact is missing; None: all that the table has."""
        if self.names is None:
            return None
        return tuple(
            name
            for name in self.names
            if name not in self.columns or _is_open(self.columns[name], needs_ranges=needs_ranges)
        )

    @property
    def label_is_open(self) -> bool:
        """Whether the label's classes, or its range, are missing."""
        facts = self.label.classes if self.label.kind == "class" else self.label.range
        return facts is None

    def filled(self, found: Schema | None) -> Schema:
        """Return the whole schema, what is open taken from one that was read off the data."""
        if found is None:
            return Schema(tuple(self.columns[name] for name in self.names or ()), self.label)
        columns = (
            self.columns.get(name) or found.column(name) for name in self.names or found.names
        )
        known = (column for column in self.columns.values() if column.name not in found.names)
        full, _ = completed(
            Schema(tuple(columns), self.label), Schema((*found.columns, *known), found.label)
        )
        return full


def declared(job: JobFile, table: TableConfig) -> Declared:
    """Return what a job file says of one table."""
    label = table.label or job.schema.label
    if label is None:
        raise SettingError(
            "The job names no label. Say in [schema] or [table] which column is to be predicted: "
            'label = "...".'
        )
    kind: LabelKind = "class" if job.job.task == "classification" else "number"
    ends = cast("tuple[float, float] | None", job.schema.range)
    own, shared = table.columns, job.schema.columns
    facts = next((given for given in (own, shared) if isinstance(given, dict)), {})
    lists = (given for given in (shared, own) if isinstance(given, tuple))
    names = next(lists, tuple(facts) or None)
    unlisted = [name for name in facts if names is not None and name not in names]
    if unlisted:
        raise SettingError(
            f"The job declares {listed(map(repr, unlisted))} but does not list it among its "
            "columns. List it, or drop it."
        )
    columns = {name: _column(name, given) for name, given in facts.items()}
    return Declared(names, columns, Label(label, kind, job.schema.classes, ends))


def open_in_any(given: Iterable[Declared], *, needs_ranges: bool) -> tuple[str, ...] | None:
    """Return the columns of which some table's facts are missing; None: all columns."""
    opens = [said.open_names(needs_ranges=needs_ranges) for said in given]
    if any(names is None for names in opens):
        return None
    return tuple(dict.fromkeys(name for names in opens for name in names or ()))


def found_schema(
    said: Declared, source: Source, names: tuple[str, ...] | None, *, needs_ranges: bool
) -> Schema:
    """Return what a table's data show of its label and of these columns; None: of all."""
    wanted = names or (said.names or ())[:1] or None
    found = describe_source(source, said.label.name, said.label.kind, columns=wanted)
    if needs_ranges:
        return found
    columns = tuple(replace(column, range=None) for column in found.columns)
    return Schema(columns, found.label)


def joined(found: Mapping[str, Schema]) -> Schema:
    """Return what the data of all parties show together; names and kinds must be the same."""
    bare = agree({party: _bare(schema) for party, schema in found.items()})
    columns = tuple(
        Column(
            column.name,
            column.kind,
            _hull(schema.column(column.name).range for schema in found.values()),
            _union(schema.column(column.name).categories for schema in found.values()),
        )
        for column in bare.columns
    )
    labels = [schema.label for schema in found.values()]
    classes = _union(label.classes for label in labels)
    return Schema(
        columns,
        Label(bare.label.name, bare.label.kind, classes, _hull(label.range for label in labels)),
    )


def read_facts(said: Declared, schema: Schema) -> tuple[str, ...]:
    """Name the facts of a schema that its job file does not declare."""
    columns = tuple(said.columns.values()) or (Column("-", "boolean"),)
    stated = facts_in(Schema(columns, said.label))
    return tuple(fact for fact in facts_in(schema) if fact not in stated)


def _column(name: str, given: ColumnConfig) -> Column:
    ends = cast("tuple[float, float] | None", given.range)
    return Column(name, cast("Kind", given.kind), ends, given.values)


def _is_open(column: Column, *, needs_ranges: bool) -> bool:
    if column.kind == "category":
        return column.categories is None
    return needs_ranges and column.kind == "number" and column.range is None


def _bare(schema: Schema) -> Schema:
    """Return the names and kinds alone."""
    columns = tuple(Column(column.name, column.kind) for column in schema.columns)
    return Schema(columns, Label(schema.label.name, schema.label.kind))


def _hull(ranges: Iterable[tuple[float, float] | None]) -> tuple[float, float] | None:
    known = [ends for ends in ranges if ends is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def _union(lists: Iterable[tuple[Category, ...] | None]) -> tuple[Category, ...] | None:
    known = [members for members in lists if members is not None]
    return in_order(member for members in known for member in members) if known else None
