"""The schema of a job: declared in its file, and completed from the tables.

Only a simulation may read public facts from private data, and each fact read is named.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import cast

from spinney.errors import PrivacyLeakWarning, SettingError, SpinneyError, SpinneyWarning
from spinney.jobs.file import JobFile, PartyConfig, TableConfig
from spinney.jobs.secrets import secret_called
from spinney.jobs.sections import ColumnConfig
from spinney.tables.agree import agree
from spinney.tables.cluster.workers import ClusterAddress
from spinney.tables.describe import Findings, column_of, complete_schema, label_of
from spinney.tables.outside import Outside, warn_of_changes
from spinney.tables.readers import (
    NOTHING,
    Format,
    Source,
    SourceFindings,
    findings_of_source,
    lost_digits_of,
    read_table,
)
from spinney.tables.schema import Column, Kind, Label, LabelKind, Schema, facts_in, join_words
from spinney.tables.spool import spool
from spinney.tables.table import MemoryTable


@dataclass(frozen=True)
class Declared:
    """What a job file declares about one table; `names` is None if all columns are used."""

    names: tuple[str, ...] | None
    columns: Mapping[str, Column]
    label: Label

    def open_names(self, *, needs_ranges: bool) -> tuple[str, ...] | None:
        """Return the columns that lack a fact; None: all columns of the table."""
        if self.names is None:
            return None
        return tuple(
            name
            for name in self.names
            if name not in self.columns or _is_open(self.columns[name], needs_ranges=needs_ranges)
        )

    @property
    def label_is_open(self) -> bool:
        """Whether the label lacks its classes or its range."""
        facts = self.label.classes if self.label.kind == "class" else self.label.range
        return facts is None

    def filled(self, found: Schema | None) -> Schema:
        """Return the whole schema, completed from a schema that was read from the data."""
        if found is None:
            return Schema(tuple(self.columns[name] for name in self.names or ()), self.label)
        columns = (
            self.columns.get(name) or found.column(name) for name in self.names or found.names
        )
        known = (column for column in self.columns.values() if column.name not in found.names)
        full, _ = complete_schema(
            Schema(tuple(columns), self.label), Schema((*found.columns, *known), found.label)
        )
        return full


def declaration_of(job: JobFile, table: TableConfig) -> Declared:
    """Return what a job file declares about one table."""
    label = table.label or job.schema.label
    if label is None:
        raise SettingError(
            "The job names no label. Say in [schema] or [table] which column to predict: "
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
            f"The job declares {join_words(map(repr, unlisted))} but does not list it among its "
            "columns. List it, or drop it."
        )
    columns = {name: _column(name, given) for name, given in facts.items()}
    return Declared(names, columns, Label(label, kind, job.schema.classes, ends))


def open_in_any(given: Iterable[Declared], *, needs_ranges: bool) -> tuple[str, ...] | None:
    """Return the columns that lack a fact in any table; None: all columns."""
    opens = [said.open_names(needs_ranges=needs_ranges) for said in given]
    if any(names is None for names in opens):
        return None
    return tuple(dict.fromkeys(name for names in opens for name in names or ()))


def find_facts(said: Declared, source: Source, names: tuple[str, ...] | None) -> SourceFindings:
    """Return what a table's rows show about its label and these columns; None: all columns."""
    wanted = names or (said.names or ())[:1] or None
    found = findings_of_source(source, said.label.name, said.label.kind, columns=wanted)
    for name, findings in found.columns.items():
        column_of(name, findings)  # refuses an unusable column, at this party
    return found


def join_findings(
    found: Mapping[str, SourceFindings], labels: Mapping[str, Label], *, needs_ranges: bool
) -> Schema:
    """Return what the rows of all parties show together; names and kinds must be equal.

    A party with only missing values in a column, or with only one class, shows less than the
    others. That does not count as a difference.
    """
    bare = agree(_bare(found, labels))
    findings = {
        name: reduce(or_, (each.columns[name] for each in found.values())) for name in bare.names
    }
    columns = tuple(column_of(name, each) for name, each in findings.items())
    if not needs_ranges:
        columns = tuple(replace(column, range=None) for column in columns)
    label = reduce(or_, (each.label for each in found.values()))
    return Schema(columns, label_of(bare.label.name, bare.label.kind, label))


def list_read_facts(said: Declared, schema: Schema) -> tuple[str, ...]:
    """Return the facts of a schema that its job file does not declare."""
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


def _bare(found: Mapping[str, SourceFindings], labels: Mapping[str, Label]) -> dict[str, Schema]:
    """Return only each party's names and kinds; if all is missing, the kind at other parties."""
    kinds = {
        party: {name: _kind(findings) for name, findings in each.columns.items()}
        for party, each in found.items()
    }
    shown: dict[str, Kind] = {}
    for own in kinds.values():
        for name, kind in own.items():
            if kind is not None:
                shown.setdefault(name, kind)
    order = list(next(iter(kinds.values())))  # a table's columns are read by name
    return {
        party: Schema(
            tuple(
                Column(name, own[name] or shown.get(name, "number"))
                for name in (order if set(order) == set(own) else own)
            ),
            Label(labels[party].name, labels[party].kind),
        )
        for party, own in kinds.items()
    }


def _kind(found: Findings) -> Kind | None:
    """Return the kind of the cells; None if all are missing."""
    if found.seen:
        return "category"
    known = found.natures - {"missing"}
    if not known:
        return None
    return "boolean" if known == {"boolean"} else "number"


def tables_of(
    job: JobFile, *, needs_ranges: bool, outside: Outside = "refuse"
) -> tuple[dict[str, MemoryTable], tuple[str, ...]]:
    """Read all tables of a job: each party's table by its name, or one table as "table".

    Also return the public facts that had to be read from the tables. Every cell is checked. No
    table is held in memory: the cells go to a temporary file, from which each simulated party
    reads its own rows and keeps them with one byte per cell.
    """
    configs: Mapping[str, TableConfig] = {party.name: party for party in job.parties}
    if job.table is not None:
        configs = {"table": job.table}
    sources = {}
    for name, config in configs.items():
        with naming_party(config):
            _require_no_cluster(config)
            sources[name] = source_of(config, job.folder)
    schema, facts = _schema(job, configs, sources, needs_ranges=needs_ranges)
    tables = {}
    for name, config in configs.items():
        with naming_party(config):
            table = read_table(sources[name], schema, outside=outside)
            warn_of_changes(table.changes)
            for sentence in lost_digits_of(sources[name], table):
                warnings.warn(sentence, SpinneyWarning, stacklevel=2)
            tables[name] = spool(table)
    return tables, facts


def cluster_of(config: TableConfig, folder: Path) -> ClusterAddress | None:
    """Return where a table's cluster is; None if the table is read in one process."""
    if config.cluster is None:
        return None
    tls = None if config.cluster_tls is None else folder / config.cluster_tls
    return ClusterAddress(config.cluster, tls)


def source_of(config: TableConfig, folder: Path) -> Source:
    """Return the source of a table; paths are relative to the job file's folder."""
    path = None if config.path is None else str(folder / config.path)
    url = None if config.url_env is None else _environment(config.url_env)
    if config.source == "sql" and path is not None and url is None:
        kind = "duckdb" if path.endswith((".duckdb", ".ddb")) else "sqlite"
        path, url = None, f"{kind}:///{path}"
    if config.source == "sql" and url is None:
        raise SettingError(
            "An sql table needs url_env, the environment variable that holds the database's url, "
            "or path, the file of an SQLite database."
        )
    if config.source != "sql" and (path is None or url is not None):
        raise SettingError(f"A {config.source} table needs path and no url_env.")
    named = (config.label, *(config.columns or ()))
    return Source(
        cast("Format", config.source),
        path,
        url,
        config.query,
        config.row_id,
        padded=NOTHING in named,
        row_weight=config.row_weight,
    )


def _require_no_cluster(config: TableConfig) -> None:
    if config.cluster is not None:
        raise SettingError(
            "A simulation deals out and compares tables in one process, so its tables cannot lie "
            "on a cluster. Drop cluster here; it belongs into the [table] of a party's own file."
        )


def _environment(name: str) -> str:
    value = secret_called(name)
    if not value:
        raise SettingError(
            f"url_env names the environment variable {name!r}, which is not set. Set it to the "
            "database's url: sqlite:///path, duckdb:///path or postgresql://..."
        )
    return value


def _schema(
    job: JobFile,
    configs: Mapping[str, TableConfig],
    sources: Mapping[str, Source],
    *,
    needs_ranges: bool,
) -> tuple[Schema, tuple[str, ...]]:
    """Return the schema of all tables, and the facts read from them; warn of those facts."""
    given = {name: declaration_of(job, config) for name, config in configs.items()}
    names = open_in_any(given.values(), needs_ranges=needs_ranges)
    found = {}
    if names != () or any(said.label_is_open for said in given.values()):
        for name, config in configs.items():
            with naming_party(config):
                found[name] = find_facts(given[name], sources[name], names)
    labels = {name: said.label for name, said in given.items()}
    together = join_findings(found, labels, needs_ranges=needs_ranges) if found else None
    schemas = {name: said.filled(together) for name, said in given.items()}
    facts = {fact: None for name in given for fact in list_read_facts(given[name], schemas[name])}
    if facts:
        warnings.warn(
            f"Public facts were read from the tables: {', '.join(facts)}. That is fine in a "
            "simulation; real parties declare them. Declare them in the job file's [schema].",
            PrivacyLeakWarning,
            stacklevel=2,
        )
    return agree(schemas), tuple(facts)


@contextmanager
def naming_party(config: TableConfig) -> Iterator[None]:
    """Add the party's name to errors about its table."""
    try:
        yield
    except SpinneyError as error:
        if isinstance(config, PartyConfig):
            error.party = error.party or config.name
        raise
