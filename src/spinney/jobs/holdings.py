"""Each party's columns and labels in a vertical job, read from the tables in the job file.

A table may lack the label, or hold only the label. Undeclared facts are read from each table by
itself, because no two tables share a column.
"""

from collections.abc import Mapping

import msgspec
import numpy as np

from spinney.errors import SchemaError, SettingError
from spinney.jobs.file import JobFile, PartyConfig, SchemaConfig, TableConfig
from spinney.jobs.tables import naming_party, source_of, tables_of
from spinney.tables.columns import VectorColumns
from spinney.tables.deal import deal_columns
from spinney.tables.holding import Holding
from spinney.tables.outside import Outside
from spinney.tables.readers import NOTHING, Source, read_ids
from spinney.tables.table import MemoryTable


def holdings_of(
    job: JobFile, label_party: str, *, needs_ranges: bool, outside: Outside = "refuse"
) -> tuple[dict[str, Holding], tuple[str, ...]]:
    """Read all tables of a job; also return the public facts that were read from them."""
    if job.table is not None:
        tables, facts = tables_of(job, needs_ranges=needs_ranges, outside=outside)
        return _dealt_out(tables["table"], job, label_party), facts
    if job.schema.columns is not None:
        raise SettingError(
            "The parties of a vertical job have different columns, and [schema] would reveal "
            "their names to all. Declare columns with each [[party]]."
        )
    holdings, facts = {}, ()
    for party in job.parties:
        own = for_columns(job, party, has_label=party.name == label_party)
        with naming_party(party):
            tables, found = tables_of(own, needs_ranges=needs_ranges, outside=outside)
            assert own.table is not None
            holdings[party.name] = holding_of(
                tables["table"], own.table, source_of(own.table, own.folder)
            )
        facts = (*facts, *found)
    _require_own_columns(holdings)
    return holdings, facts


def for_columns(job: JobFile, table: TableConfig, *, has_label: bool) -> JobFile:
    """Return the job as one party reads it: with its own columns, and with or without the label."""
    where = f"Party {table.name!r}" if isinstance(table, PartyConfig) else "This party"
    if not has_label and table.label is not None:
        raise SchemaError(
            f"{where} names a label but is not label_party. Exactly one party holds the "
            "labels; leave the label out at the others."
        )
    label = (table.label or job.schema.label) if has_label else NOTHING
    if label is None:
        raise SchemaError(
            f"{where} is label_party but names no label. Say which of its columns is the "
            'label: label = "...".'
        )
    columns = table.columns
    if columns is not None and not columns:
        if not has_label:
            raise SchemaError(f"{where} lists no columns. Only the label party may do that.")
        columns = (NOTHING,)
    schema = msgspec.structs.replace(job.schema, columns=None, label=label)
    task = job.job
    if not has_label:
        schema = SchemaConfig(label=label, range=(0.0, 0.0))
        task = msgspec.structs.replace(task, task="regression")
    own = TableConfig(
        source=table.source,
        path=table.path,
        url_env=table.url_env,
        query=table.query,
        label=label,
        row_id=table.row_id,
        columns=columns,
    )
    return msgspec.structs.replace(job, job=task, schema=schema, table=own, parties=())


def holding_of(table: MemoryTable, config: TableConfig, source: Source) -> Holding:
    """Return a party's holding, with its row ids, from a table that `for_columns` prepared."""
    schema = table.schema
    has_columns = schema.names != (NOTHING,)
    has_label = config.label != NOTHING
    return Holding(
        table.n_rows,
        schema.columns if has_columns else (),
        table.columns if has_columns else None,
        schema.label if has_label else None,
        table.target if has_label else None,
        read_ids(source, schema),
    )


def _dealt_out(table: MemoryTable, job: JobFile, label_party: str) -> dict[str, Holding]:
    """Deal the columns of one table to parties."""
    simulation = job.simulation
    for key in ("skew", "sizes", "stratified"):
        if getattr(simulation, key) is not None:
            raise SettingError(f"{key} deals out rows; a vertical job deals out columns. Drop it.")
    dealt = deal_columns(table.schema.names, job.n_parties, random_state=simulation.random_state)
    values = table.columns.values(slice(None))
    schema, holdings = table.schema, {}
    for name, own in dealt.items():
        places = [schema.names.index(column) for column in own]
        has_label = name == label_party
        holdings[name] = Holding(
            table.n_rows,
            tuple(schema.columns[place] for place in places),
            VectorColumns(tuple(values[places])),
            schema.label if has_label else None,
            table.target if has_label else None,
        )
    return holdings


def _require_own_columns(holdings: Mapping[str, Holding]) -> None:
    owner: dict[str, str] = {}
    for name, holding in holdings.items():
        for column in holding.columns:
            if column.name in owner:
                raise SchemaError(
                    f"Parties {owner[column.name]!r} and {name!r} both have a column "
                    f"{column.name!r}. Every column belongs to one party: leave it out at one of "
                    "them, or rename it in its query."
                )
            owner[column.name] = name


def pool_holdings(holdings: Mapping[str, Holding]) -> Holding:
    """Return all parties' columns and the label in one holding, party by party."""
    parts = [held.features.values(slice(None)) for held in holdings.values() if held.features]
    (holder,) = (held for held in holdings.values() if held.label is not None)
    columns = tuple(column for held in holdings.values() for column in held.columns)
    vectors = VectorColumns(tuple(np.concatenate(parts)))
    keys = holder.own_keys
    return Holding(holder.n_rows, columns, vectors, holder.label, holder.target, own_keys=keys)
