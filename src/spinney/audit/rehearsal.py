"""A job and rows to run it on, here, as often as an attack needs."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from spinney.errors import SettingError
from spinney.jobs.file import JobFile, TableConfig, load_job
from spinney.privacy.ledger import Ledger
from spinney.protocols.model import ForestModel
from spinney.protocols.training import Training
from spinney.protocols.verified.simulated import connect_parties
from spinney.simulation.comparison import Running
from spinney.simulation.run import prepare
from spinney.tables.table import MemoryTable
from spinney.tables.undeclared import undeclared_rows
from spinney.transport.channel import Answering
from spinney.trees.frontier import tree_keys
from spinney.trees.rows import bootstrap_weights
from spinney.typing import Bools, Integers, Values, silent

Sides = dict[str, Answering]


@dataclass(frozen=True)
class Rows:
    """The training rows of all parties, one party after another."""

    values: Values  # (n_columns, n_rows)
    target: NDArray[Any]
    keys: NDArray[np.uint64]

    @property
    def n(self) -> int:
        """How many rows there are."""
        return int(self.target.size)

    def part(self, chosen: Any) -> "Rows":
        """Return some of the rows."""
        return Rows(self.values[:, chosen], self.target[chosen], self.keys[chosen])


def rows_of(tables: Mapping[str, MemoryTable]) -> Rows:
    """Return the rows of some tables, one table after another."""
    batches = [batch for table in tables.values() for batch in table.batches()]
    if not batches:
        return Rows(np.zeros((0, 0), np.float32), np.zeros(0), np.zeros(0, np.uint64))
    return Rows(
        np.concatenate([batch.values for batch in batches], axis=1),
        np.concatenate([batch.target for batch in batches]),
        np.concatenate([batch.keys for batch in batches]),
    )


@dataclass(frozen=True)
class Rehearsal:
    """Everything that a training needs."""

    tables: Mapping[str, MemoryTable]
    held_out: Mapping[str, MemoryTable]
    settings: Any
    running: Running
    read_facts: tuple[str, ...] = ()  # what nobody declared

    @cached_property
    def rows(self) -> Rows:
        """The rows that are trained on."""
        return rows_of(self.tables)

    @cached_property
    def others(self) -> Rows:
        """The rows that were held back."""
        return rows_of(self.held_out)

    @property
    def is_private(self) -> bool:
        """Whether the job adds noise."""
        return self.settings.privacy is not None

    @property
    def noises_counts(self) -> bool:
        """Whether every count carries noise; noise in rows or labels leaves counts exact."""
        return self.is_private and bool(self.settings.privacy.noises_counts)

    def part(self, kept: Bools) -> "Rehearsal":
        """Return the same job with some of its rows, in the order of `rows`."""
        start, tables = 0, {}
        for name, table in self.tables.items():
            own = kept[start : start + table.n_rows]
            tables[name] = table.select(np.flatnonzero(own))
            start += table.n_rows
        return Rehearsal(tables, self.held_out, self.settings, self.running, self.read_facts)

    def train(self, watch: Callable[[Sides], Sides] = lambda sides: sides) -> Training:
        """Train once, as the deployed job does; `watch` may listen to the parties' questions."""
        # Masks change no exact sum, but shared noise needs them.
        running = self.running if self.is_private else self.running.alone()
        protocol, settings = running.protocol, self.settings
        ledgers = {
            name: Ledger.in_memory(name) if self.is_private else None for name in self.tables
        }
        sides: Sides = {
            name: protocol.party(table, settings, running.site(name, ledgers[name]))
            for name, table in self.tables.items()
        }
        channel = connect_parties(
            watch(sides),
            is_masked=running.secure_sum,
            privacy=settings.privacy,
            honest=running.honest,
            is_blind=running.is_blind,
            unverified=() if protocol.is_verified(settings) else protocol.summed,
        )
        log = logging.getLogger("spinney.party")
        was_disabled, log.disabled = log.disabled, True  # it would say the same in every run
        try:
            found = protocol.train(channel, settings, n_jobs=running.n_jobs, progress=silent)
        finally:
            log.disabled = was_disabled
        assert isinstance(found, Training)
        return found

    def model(self) -> ForestModel:
        """Train once, and return the model."""
        return self.train().model

    def as_run(self, model: ForestModel) -> ForestModel:
        """Return a model that knows, as that of a run does, which values were read from rows."""
        counted = undeclared_rows(self.tables.values(), model.schema, self.read_facts)
        return replace(model, undeclared=counted)

    def drawn(self, tree: int) -> Integers:
        """Return how often a tree drew each row.

        Boosted trees read a sample; a row that stands alone among all rows does so in the sample.
        """
        if not getattr(self.settings, "bootstrap", False):
            return np.ones(self.rows.n, np.int64)
        key = tree_keys(self.settings.seed, tree + 1)[tree]
        return bootstrap_weights(key, self.rows.keys).astype(np.int64)


@dataclass(frozen=True)
class LocalTable:
    """A table beside the job file: where it is, and its folder."""

    folder: Path
    config: TableConfig

    @classmethod
    def of_file(cls, path: Path) -> "LocalTable":
        """Return a CSV or Parquet file."""
        if not path.is_file():
            raise SettingError(f"There is no table {str(path)!r}. Check --table.")
        source = "parquet" if path.suffix == ".parquet" else "csv"
        return cls(path.resolve().parent, TableConfig(source=source, path=path.name))


def rehearsal_of(
    path: Path, table: LocalTable | None, *, keep_all: bool = False
) -> tuple[Rehearsal, JobFile]:
    """Read a job file and the rows to audit it with: its own tables, or a local `table`.

    With `keep_all` no row is held back.
    """
    job = load_job(path, deployed=True)
    if job.spec.divides == "columns" or job.spec.leaves != "one model":
        raise SettingError(
            f"{path.name!r} is a job of {job.job.protocol!r}, which leaves no single model over "
            "rows. The audit trains only those; give it the model that leaves instead."
        )
    if table is not None:
        job = _with_table(job, table)
    elif job.table is not None:
        job = load_job(path)  # the parties that it deals to count for its careful settings
    if job.table is None and not job.parties:
        raise _without_rows(path)
    if keep_all:
        kept = msgspec.structs.replace(job.simulation, held_out=0.0)
        job = msgspec.structs.replace(job, simulation=kept)
    parties, settings, running = prepare(job)
    held_out = {name: rows.held_out for name, rows in parties.rows.items()}
    facts = tuple(parties.read_facts)
    return Rehearsal(parties.training, held_out, settings, running, facts), job


def names_tables(path: Path) -> bool:
    """Return whether a job file says where its rows are."""
    job = load_job(path, deployed=True)
    return job.table is not None or bool(job.parties)


def _with_table(job: JobFile, table: LocalTable) -> JobFile:
    """Return the job over one local table, dealt out to as many parties as it names."""
    own = job.table.label if job.table is not None else None
    dealing = job.simulation
    if job.table is None:
        n_parties = len(job.job.parties or job.parties) or None
        dealing = msgspec.structs.replace(dealing, n_parties=n_parties)
    return msgspec.structs.replace(
        job,
        folder=table.folder,
        table=msgspec.structs.replace(table.config, label=table.config.label or own),
        parties=(),
        simulation=dealing,
        job=msgspec.structs.replace(job.job, parties=()),
    )


def _without_rows(path: Path) -> SettingError:
    return SettingError(
        f"{path.name!r} names no table, so there are no rows to audit it with. Give a local table "
        "with the same columns: --table FILE, or --party with a party's file."
    )
