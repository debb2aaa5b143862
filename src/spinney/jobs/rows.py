"""Each party's training rows and held-out rows."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import SettingError, SpinneyWarning
from spinney.jobs.file import SimulationConfig
from spinney.report.words import some
from spinney.seeds import derive_seed, job_seed, mix
from spinney.tables.deal import deal_rows
from spinney.tables.records import plain_ids
from spinney.tables.schema import join_words
from spinney.tables.table import MemoryTable
from spinney.typing import Bools

_DEAL, _HOLD_BACK = 0, 1  # the purposes of a seed


@dataclass(frozen=True)
class PartyRows:
    """One party's table, split into training and held-out rows."""

    training: MemoryTable
    held_out: MemoryTable


@dataclass(frozen=True)
class Parties:
    """All parties' rows, and all training rows in one table if they may be pooled."""

    rows: Mapping[str, PartyRows]
    pooled: MemoryTable | None
    read_facts: tuple[str, ...] = ()  # public facts that were read from the tables

    @property
    def training(self) -> dict[str, MemoryTable]:
        """Each party's training rows."""
        return {name: party.training for name, party in self.rows.items()}


def own_tables(
    tables: Mapping[str, MemoryTable], simulation: SimulationConfig, *, is_private: bool = False
) -> Parties:
    """Return parties that each hold their own table; nothing is pooled."""
    return Parties(
        {
            name: hold_back(table, simulation, number, is_private=is_private)
            for number, (name, table) in enumerate(tables.items())
        },
        None,
    )


def warn_of_shared_rows(tables: Mapping[str, MemoryTable]) -> None:
    """Warn if two parties hold the same row; real parties would not find out."""
    keys, found = np.unique(
        np.concatenate([np.unique(table.all_keys) for table in tables.values()]), return_counts=True
    )
    shared = keys[found > 1]
    if not shared.size:
        return
    holders = [name for name, table in tables.items() if np.isin(shared, table.all_keys).any()]
    warnings.warn(
        f"Several parties hold the same rows: {join_words(repr(name) for name in holders)}. They "
        "draw these rows into the same trees, so the forest differs a little from the forest of "
        "the pooled tables. If the rows are different, name a row_id that is unique over all "
        "parties.",
        SpinneyWarning,
        stacklevel=2,
    )


def deal_out(
    table: MemoryTable,
    simulation: SimulationConfig,
    names: tuple[str, ...],
    *,
    is_private: bool = False,
) -> Parties:
    """Deal out one table to parties; the pooled rows are the parties' rows, in party order."""
    n_parties = len(names)
    site = deal_rows(
        table.target,
        n_parties,
        skew=simulation.skew or 0.0,
        sizes=simulation.sizes,
        stratified=bool(simulation.stratified),
        by=None if simulation.by is None else _values_of(table, simulation.by, n_parties),
        random_state=derive_seed(job_seed(simulation.random_state), _DEAL),
    )
    rows = {
        name: hold_back(
            table.select(np.flatnonzero(site == party)), simulation, party, is_private=is_private
        )
        for party, name in enumerate(names)
    }
    parts = [party.training.rows for party in rows.values() if party.training.rows is not None]
    return Parties(rows, table.select(np.concatenate(parts)))


def _values_of(table: MemoryTable, name: str, n_parties: int) -> NDArray[Any]:
    """Return a column's values, by which rows are dealt out."""
    names = table.schema.names
    if name not in names:
        raise SettingError(
            f"The rows cannot be dealt out by {name!r}, which is not among the job's columns: "
            f"{join_words(names)}. List it, or name another."
        )
    place = names.index(name)
    values = np.concatenate([batch.values[place] for batch in table.batches()])
    n_values = np.unique(values).size
    if n_values < n_parties:
        raise SettingError(
            f"The rows cannot be dealt out by {name!r}: the column has "
            f"{some(n_values, 'value', 'different values')}, fewer than the {n_parties} parties. "
            "Simulate fewer parties ([simulation] n_parties), or name another column."
        )
    return values


def hold_back(
    table: MemoryTable, simulation: SimulationConfig, number: int, *, is_private: bool
) -> PartyRows:
    """Hold back a share of a party's rows: the same share of every class, or by each row alone."""
    if is_private and simulation.held_out:
        held_out = held_by_id(table, simulation, number)
    else:
        target = table.targets
        held_out = held_back(target, simulation, number)
    if not held_out.any():
        return PartyRows(table, table.select(np.flatnonzero(held_out)))
    return PartyRows(
        table.select(np.flatnonzero(~held_out)), table.select(np.flatnonzero(held_out))
    )


def held_back(target: NDArray[Any], simulation: SimulationConfig, number: int) -> Bools:
    """Return which rows a party holds back, given their labels."""
    n_held_out = round(simulation.held_out * target.size)
    if not 0 < n_held_out < target.size:
        return np.zeros(target.size, np.bool_)
    side = deal_rows(
        target,
        2,
        sizes=(target.size - n_held_out, n_held_out),
        stratified=True,
        random_state=derive_seed(job_seed(simulation.random_state), _HOLD_BACK, number),
    )
    is_held_back: Bools = side == 1
    return is_held_back


def held_by_id(table: MemoryTable, simulation: SimulationConfig, number: int) -> Bools:
    """Return which rows are held back, about a share of them, drawn by their own ids or cells.

    In a private job, one more record or another label must not move any other row. So rows that
    are alike go the same way.
    """
    seed = derive_seed(derive_seed(job_seed(simulation.random_state), number), _HOLD_BACK)
    draws = mix(plain_ids(table) ^ np.uint64(seed))
    is_held: Bools = draws < np.uint64(simulation.held_out * 2.0**64)
    return is_held
