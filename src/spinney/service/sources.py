"""From a job file to the tables it names, read by one schema in batches."""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from spinney.errors import PrivacyLeakWarning, SettingError, SpinneyError
from spinney.service.config import JobFile, PartyConfig, TableConfig
from spinney.service.schemas import declared, found_in, joined, open_in_any, read_facts
from spinney.tables.agree import agree
from spinney.tables.readers import NOTHING, Format, Source, read_table
from spinney.tables.schema import Schema
from spinney.tables.spool import spooled
from spinney.tables.table import MemoryTable


def tables_of(job: JobFile) -> tuple[dict[str, MemoryTable], tuple[str, ...]]:
    """Read all tables of a job: each party's by its name, or the one table as "table".

    Beside them stand the public facts that had to be read off the tables. Every cell is checked.
    No table is held in memory: the cells go to a temporary file, from which each simulated party
    reads its own rows and keeps them as one byte a cell.
    """
    configs: Mapping[str, TableConfig] = {party.name: party for party in job.parties}
    if job.table is not None:
        configs = {"table": job.table}
    sources = {}
    for name, config in configs.items():
        with told_at(config):
            sources[name] = source_of(config, job.folder)
    schema, facts = _schema(job, configs, sources)
    tables = {}
    for name, config in configs.items():
        with told_at(config):
            tables[name] = spooled(read_table(sources[name], schema))
    return tables, facts


def source_of(config: TableConfig, folder: Path) -> Source:
    """Return where a table is; paths are relative to the job file's folder."""
    path = None if config.path is None else str(folder / config.path)
    url = None if config.url_env is None else _environment(config.url_env)
    if config.source == "sql" and path is not None and url is None:
        kind = "duckdb" if path.endswith((".duckdb", ".ddb")) else "sqlite"
        path, url = None, f"{kind}:///{path}"
    if config.source == "sql" and url is None:
        raise SettingError(
            "An sql table needs url_env, the name of the environment variable that holds the "
            "database's url, or path, the file of an SQLite database."
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
    )


def _environment(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise SettingError(
            f"url_env names the environment variable {name!r}, which is not set. Set it to the "
            "database's url: sqlite:///path, duckdb:///path or postgresql://..."
        )
    return value


def _schema(
    job: JobFile, configs: Mapping[str, TableConfig], sources: Mapping[str, Source]
) -> tuple[Schema, tuple[str, ...]]:
    """Return the schema that all tables share, and what had to be read off them, naming it."""
    binning = job.settings.binning
    drawn = job.job.protocol == "extra_trees" and binning != "quantiles"  # cuts between the bounds
    needs_ranges = drawn or binning == "ranges" or job.settings.is_private
    given = {name: declared(job, config) for name, config in configs.items()}
    names = open_in_any(given.values(), needs_ranges=needs_ranges)
    found = {}
    if names != () or any(said.label_is_open for said in given.values()):
        for name, config in configs.items():
            with told_at(config):
                found[name] = found_in(given[name], sources[name], names)
    labels = {name: said.label for name, said in given.items()}
    together = joined(found, labels, needs_ranges=needs_ranges) if found else None
    schemas = {name: said.filled(together) for name, said in given.items()}
    facts = {fact: None for name in given for fact in read_facts(given[name], schemas[name])}
    if facts:
        warnings.warn(
            f"Public facts were read from the tables: {', '.join(facts)}. That is fine in a "
            "simulation; real parties declare them. Declare them in the job file's [schema].",
            PrivacyLeakWarning,
            stacklevel=2,
        )
    return agree(schemas), tuple(facts)


@contextmanager
def told_at(config: TableConfig) -> Iterator[None]:
    """Name the party at whose table an error arose."""
    try:
        yield
    except SpinneyError as error:
        if isinstance(config, PartyConfig):
            error.party = error.party or config.name
        raise
