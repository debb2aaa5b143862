"""`spinney job check`: do the parties' tables fit? Asked of simulated parties, under masks."""

from pathlib import Path

import msgspec
import numpy as np

from spinney.errors import SettingError
from spinney.jobs.file import load_job
from spinney.jobs.own_table import BY_DRAFT, require_no_table
from spinney.jobs.rows import deal_out
from spinney.jobs.tables import tables_of
from spinney.privacy import entropy
from spinney.protocols import table_fit
from spinney.protocols.table_fit import ask_sums, who_stands_out
from spinney.protocols.verified.simulated import connect_parties
from spinney.report.table_fit import TableFit
from spinney.tables.table import MemoryTable
from spinney.transport.channel import Answering


def check_fit(path: Path) -> TableFit:
    """Read a job's tables and let simulated parties compare theirs with the others'."""
    require_no_table(path, BY_DRAFT)
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
    sides = {
        party: table_fit.Party(table, entropy.secret_bytes(32)) for party, table in tables.items()
    }
    is_masked = len(sides) > 2
    answering: dict[str, Answering] = dict(sides)
    channel = connect_parties(answering, is_masked=is_masked, unverified=table_fit.SUMMED)
    told = ask_sums(channel)
    found = {party: side.compare(told, len(sides)) for party, side in sides.items()}
    ids = {party: side.count_ids_elsewhere(told, len(sides)) for party, side in sides.items()}
    columns = next(iter(tables.values())).schema.names
    return msgspec.structs.replace(
        TableFit.of(name, columns, who_stands_out(found), ids, is_masked=is_masked),
        rows={party: table.n_rows for party, table in tables.items()},
        n_shared=_shared(tables),
    )


def _shared(tables: dict[str, MemoryTable]) -> int:
    """Count rows, ids and cells alike, at two simulated parties; real ones tell about their ids."""
    keys = [
        np.unique(t.all_keys if t.rows is None else t.all_keys[t.rows]) for t in tables.values()
    ]
    _, found = np.unique(np.concatenate(keys), return_counts=True)
    return int((found > 1).sum())
