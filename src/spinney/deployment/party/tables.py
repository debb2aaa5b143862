"""Open a party's table, ledger and label memory for a job."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from spinney.deployment.job import CHECK, EVALUATE, PREDICT, Agreed
from spinney.deployment.party.budget import life_budgets
from spinney.deployment.party.config import PartyFile
from spinney.deployment.party.heads import own_key, require_whole, signer_of
from spinney.errors import PolicyError, SettingError
from spinney.jobs.file import JobFile, SimulationConfig, TableConfig
from spinney.jobs.holdings import for_columns, holding_of
from spinney.jobs.rows import held_back, hold_back
from spinney.jobs.tables import cluster_of, declaration_of, source_of
from spinney.privacy.label_memory import LabelMemory
from spinney.privacy.ledger import Ledger
from spinney.protocols.extra_trees.labels import open_memory
from spinney.protocols.private_evaluation.settings import fold_of
from spinney.protocols.settings import outside_of
from spinney.protocols.spec import ColumnsSpec
from spinney.tables.cluster.parts import ParquetTable
from spinney.tables.cluster.spread import SpreadTable
from spinney.tables.cluster.workers import ClusterAddress
from spinney.tables.holding import Holding
from spinney.tables.outside import sentences
from spinney.tables.readers import Source, lost_digits_of, read_table
from spinney.tables.schema import Schema, join_words
from spinney.tables.spool import spool
from spinney.tables.table import SourceTable, Table

_LOG: Final = logging.getLogger("spinney.party")  # stays at the party


def open_ledger(party: PartyFile) -> Ledger:
    """Open a party's ledger, with the lifetime budget that its policy sets for the data.

    A ledger that is not the one that the party had, or has lost entries, is refused.
    """
    require_whole(party)
    signer = signer_of(party)
    own = own_key(party)
    ledger = Ledger.open(party.ledger_file, party.party.name, key=signer, vouching=own)
    ledger.adopt(signer.public_key, own)
    if budgets := life_budgets(party):
        ledger.allow_for_life(party.ledger.data, budgets)
    return ledger


def open_label_memory(
    party: PartyFile, settings: Any, whole: Table | Holding
) -> LabelMemory | None:
    """Open the party's memory of randomised labels, if a job over rows randomises labels."""
    if isinstance(whole, Holding) or not randomises_labels(settings):
        return None
    # All rows: a held-out row has not left the table.
    return open_memory(party.labels, quote(party.ledger.data, safe=""), whole)


def randomises_labels(settings: Any) -> bool:
    """Return whether a job's labels are randomised, and therefore remembered."""
    return settings.privacy is not None and bool(settings.privacy.randomises_labels)


def open_table(party: PartyFile, agreed: Agreed) -> Table | Holding:
    """Open the party's table for a job: the rows for training or for evaluation."""
    with ExitStack() as failing:
        whole = failing.enter_context(left_behind(read_whole_table(party, agreed)))
        table = choose_rows(whole, party, agreed)
        failing.pop_all()
    return table


@contextmanager
def left_behind(table: Table | Holding) -> Iterator[Table | Holding]:
    """Use a table, and then let the workers of its cluster forget it, if it has one."""
    try:
        yield table
    finally:
        if isinstance(table, SpreadTable):
            table.close()


def read_whole_table(party: PartyFile, agreed: Agreed) -> Table | Holding:
    """Open the party's whole table; for a job over columns, all its columns."""
    cluster = cluster_of(party.table, party.folder)
    if cluster is not None:
        return _on_cluster(cluster, party, agreed)
    if agreed.spec.divides == "columns":
        return _own_columns(party, agreed)
    source = source_of(party.table, party.folder)
    return _read(source, schema_for(party, agreed), agreed)


def _read(source: Source, schema: Schema, agreed: Agreed) -> SourceTable:
    """Read a table; what a private job changes in it is told to this party alone."""
    outside = outside_of(agreed.protocol_settings().privacy)
    if agreed.kind == EVALUATE and (outside == "keep" or agreed.evaluation is not None):
        outside = "leave_out"  # a label that was drawn says nothing about a model
    if agreed.kind == CHECK:
        outside = "leave_out"  # another list of codes is to be found, and ends nothing
    table = read_table(source, schema, outside=outside)
    for sentence in (*sentences(table.changes), *lost_digits_of(source, table)):
        _LOG.warning("Job %r: %s", agreed.name, sentence)
    return table


def _on_cluster(cluster: ClusterAddress, party: PartyFile, agreed: Agreed) -> SpreadTable:
    """Let the workers of the party's cluster open its table."""
    reason = agreed.spec.in_one_process(agreed.protocol_settings())
    if agreed.kind in (EVALUATE, PREDICT, CHECK):
        reason = "is not a training"
    if reason:
        raise PolicyError(
            f"The rows of {party.party.name!r} lie on a cluster, which counts rows but cannot take "
            f"part in a job that {reason}. Ask this party for a forest without noise."
        )
    source = source_of(party.table, party.folder)
    table, schema = ParquetTable.of(source), schema_for(party, agreed)
    return SpreadTable.open(cluster, table, schema, source.row_id)


def choose_rows(whole: Table | Holding, party: PartyFile, agreed: Agreed) -> Table | Holding:
    """Return the rows on which a job trains or evaluates."""
    if agreed.fold is not None:
        return _of_fold(whole, agreed)
    if isinstance(whole, Holding) or not agreed.held_out or agreed.kind == CHECK:
        return whole
    number = agreed.parties.index(party.party.name)
    simulation = SimulationConfig(held_out=agreed.held_out, random_state=agreed.held_out_seed)
    if isinstance(whole, SpreadTable):
        whole.use_only(~held_back(whole.targets(), simulation, number))
        return whole
    is_private = agreed.protocol_settings().privacy is not None
    rows = hold_back(spool(whole), simulation, number, is_private=is_private)
    return rows.held_out if agreed.kind == EVALUATE else rows.training


def _of_fold(whole: Table | Holding, agreed: Agreed) -> Table:
    """Return the rows of a fold for an evaluation, and all others for a training."""
    assert agreed.fold is not None
    if isinstance(whole, Holding | SpreadTable):
        raise PolicyError(
            "The rows of this party lie on a cluster, which cannot divide them into folds. Tune "
            "without this party."
        )
    fold, n_folds = agreed.fold
    table = spool(whole)
    batches = [fold_of(batch, n_folds, agreed.held_out_seed) for batch in table.batches()]
    is_in = np.concatenate([np.zeros(0, np.int64), *batches]) == fold
    return table.select(np.flatnonzero(is_in if agreed.kind == EVALUATE else ~is_in))


def require_enough_rows(party: PartyFile, n_chosen: int, n_rows: int) -> None:
    """Raise if a job without noise leaves so few rows that they are not even one leaf.

    A lead chooses by a share and a seed which rows are held back. Of two jobs, or of one over a
    single row, the sums would read rows one by one, whatever leaves and masks the policy asks for.
    """
    least = min(party.policy.min_samples_leaf, n_rows)
    if 0 < n_chosen < least:
        raise PolicyError(
            f"By its held_out, the job is about fewer than {least} rows of {party.party.name!r}, "
            "whose policy allows no leaf of so few (rule 'min_samples_leaf'). Nothing was "
            "released. Choose another held_out, or add noise."
        )


def _own_columns(party: PartyFile, agreed: Agreed) -> Holding:
    """Open the party's columns for a job over columns; one party has the label."""
    settings, spec = agreed.protocol_settings(), agreed.spec
    assert isinstance(spec, ColumnsSpec)
    barred = [name for name in party.policy.never if name in (party.table.columns or ())]
    if barred:
        raise PolicyError(
            f"The party's file lists the column {barred[0]!r}, which its policy never allows "
            "(rule 'never'). Drop it from [table.columns]."
        )
    has_label = spec.label_party(settings) == party.party.name
    own = for_columns(agreed.job_file(party.folder), party.table, has_label=has_label)
    assert own.table is not None
    source = source_of(own.table, party.folder)
    schema = _declared_schema(own, own.table, needs_ranges=spec.needs_ranges(settings))
    return holding_of(spool(_read(source, schema, agreed)), own.table, source)


def schema_for(party: PartyFile, agreed: Agreed) -> Schema:
    """Return the schema for reading the table; raise if a fact is not declared."""
    settings = agreed.protocol_settings()
    if randomises_labels(settings) and party.table.row_id is None:
        raise SettingError(
            "label_privacy = 'local' randomises every label once and remembers the answer by the "
            "record's id, but the party's [table] names no row_id. Name one there."
        )
    needs_ranges = agreed.spec.needs_ranges(settings)
    job = agreed.job_file(party.folder)
    return _declared_schema(job, party.table, needs_ranges=needs_ranges)


def _declared_schema(job: JobFile, table: TableConfig, *, needs_ranges: bool) -> Schema:
    said = declaration_of(job, table)
    missing = said.open_names(needs_ranges=needs_ranges)
    if missing is None:
        raise SettingError(
            "Neither the job nor the party's file lists the columns to use. Declare them in "
            "[table.columns]."
        )
    if missing or said.label_is_open:
        lacking = [*missing, *([said.label.name] if said.label_is_open else [])]
        raise SettingError(
            f"Public facts are not declared for: {join_words(map(repr, lacking))}. A deployed job "
            "never reads them from the data. Declare them in [table.columns] or in the job."
        )
    return said.filled(None)


def fingerprint(table: Table | Holding, *, with_keys: bool = False) -> str:
    """Return a digest of a table's schema and rows; it stays at the party.

    With keys, also of those by which trees draw rows.
    """
    if isinstance(table, Holding):
        return _fingerprint_of_columns(table)
    if isinstance(table, SpreadTable):
        return sha256(f"{table.schema.digest()} {table.digest}".encode()).hexdigest()
    state = sha256(table.schema.digest().encode())
    for batch in table.batches():
        state.update(np.ascontiguousarray(batch.values).tobytes())
        state.update(np.ascontiguousarray(batch.target).tobytes())
        if with_keys:
            state.update(np.ascontiguousarray(batch.keys).tobytes())
    return state.hexdigest()


def _fingerprint_of_columns(held: Holding) -> str:
    state = sha256(repr((held.columns, held.label)).encode())
    if held.features is not None:
        state.update(np.ascontiguousarray(held.features.values(slice(None))).tobytes())
    if held.target is not None:
        state.update(np.ascontiguousarray(held.target).tobytes())
    for identity in held.ids or ():
        state.update(repr(identity).encode())
    return state.hexdigest()
