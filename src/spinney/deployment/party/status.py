"""`spinney party check` and `party status`: find problems before a job does."""

from pathlib import Path
from typing import Any

from spinney.deployment.condition import (
    certificate_facts,
    disk_facts,
    process_facts,
    warnings_of,
)
from spinney.deployment.costs import cost_of
from spinney.deployment.expiry import party_warning
from spinney.deployment.identity import KitIdentity
from spinney.deployment.job import agreement_of
from spinney.deployment.party.budget import check_budget, left_per_unit
from spinney.deployment.party.config import PartyFile, load_party
from spinney.deployment.party.policy import check_policy
from spinney.deployment.party.sources import check_data
from spinney.deployment.party.tables import (
    choose_rows,
    fingerprint,
    left_behind,
    read_whole_table,
)
from spinney.deployment.process import is_running
from spinney.deployment.text import releases_in
from spinney.errors import LedgerError, SettingError
from spinney.jobs.checking.columns import use_of
from spinney.jobs.checking.notes import Choices, some
from spinney.jobs.checking.stand_ins import stand_ins
from spinney.jobs.file import load_job
from spinney.jobs.tables import cluster_of, source_of
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_copies import opened
from spinney.tables.cluster.parts import ParquetTable
from spinney.tables.cluster.spread import names_on
from spinney.tables.holding import Holding
from spinney.tables.outside import sentences
from spinney.tables.profile import opened_as_text, profile_of
from spinney.tables.table import SourceTable
from spinney.transport.remote import kits


def check(path: Path, job: Path | None) -> dict[str, Any]:
    """Open a party's table and check it, against a job if one is given; nothing leaves."""
    party = load_party(path)
    found: dict[str, Any] = {"party": party.party.name}
    if job is None:
        found["columns"] = _columns(party)
        if notes := _notes(party):
            found["notes"] = " ".join(notes)
        return found
    agreed = agreement_of(load_job(job, deployed=True))
    check_policy(
        party.party.name,
        party.policy,
        agreed,
        None if not party.policy.askers else party.policy.askers[0],
    )
    whole = read_whole_table(party, agreed)
    with left_behind(choose_rows(whole, party, agreed)) as table:
        check_budget(party, agreed, table)
        if party.ledger_file.exists() and not agreed.is_exact:
            with opened(party.ledger_file) as ledger:
                check_data(party, ledger, table)
        columns = table.columns if isinstance(table, Holding) else table.schema.columns
        rows, digest = table.n_rows, fingerprint(table)
        if not isinstance(whole, Holding) and rows < whole.n_rows:
            held = f"{some(whole.n_rows - rows, 'row is', 'rows are')} held back to score the model"
            found["held_out"] = f"{held}, as the job's held_out says; the others train it"
    if isinstance(whole, SourceTable) and whole.changes:
        found["outside"] = " ".join(sentences(whole.changes))
    cost = cost_of(agreed)
    return found | {
        "job": agreed.name,
        "policy": "allows the job",
        "rows": rows,
        "columns": ", ".join(column.name for column in columns),
        "fingerprint": digest[:16],
        "epsilon": cost.epsilon,
        "rounds": cost.rounds,
    }


def status(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a party's status: whether it runs, what left it, and its remaining budget."""
    party = load_party(path)
    facts: dict[str, Any] = {"party": party.party.name}
    facts |= process_facts(party.kit, running=is_running(party.kit))
    facts["disk"] = disk_facts(party.records)
    facts["kit"] = "none" if not (party.kit / "startup").exists() else str(party.kit)
    expiring = []
    if (party.kit / "startup" / "client.crt").exists():
        own = kits.certificate_in(party.kit, "client", "spinney party join")
        facts["certificate"] = certificate_facts(own)
        expiring = [party_warning(party.kit)()]
    facts["warnings"] = warnings_of(facts, expiring)
    facts |= _account(party)
    return facts, releases_in(party.records)


def _account(party: PartyFile) -> dict[str, Any]:
    """Return the ledger's last entry and what is left of the budget."""
    facts: dict[str, Any] = {}
    try:
        left = left_per_unit(party)
        if party.ledger_file.exists():
            facts["ledger"] = _last_entry(party.ledger_file)
    except LedgerError as error:
        return {"ledger": {"problem": str(error)}}
    if left or party.ledger_file.exists():
        own = left.get(Unit.RECORD_ADD_REMOVE)
        facts["budget"] = "no limit" if own is None else f"epsilon {float(own):g} left"
        facts["left"] = {
            unit.in_words: f"epsilon {float(amount):g}" for unit, amount in left.items()
        }
    return facts


def _last_entry(path: Path) -> dict[str, Any]:
    ledger = Ledger.open(path)
    try:
        last = ledger.anchor()
    finally:
        ledger.close()
    return {"entries": last.seq, "hash": last.hash.hex()[:16]}


def _notes(party: PartyFile) -> list[str]:
    """Return what stands out in the columns that the party offers; this shows cells, to it alone.

    A table on a cluster is not read here.
    """
    if cluster_of(party.table, party.folder) is not None:
        return []
    offered = party.table.columns or ()
    with opened_as_text(source_of(party.table, party.folder)) as table:
        columns = profile_of(table).columns
        uses = [use_of(one, Choices()) for one in columns if one.name in offered]
        notes = [note for use in uses for note in (*use.notes, *stand_ins(table, use))]
    return [str(note) for note in notes]


def _columns(party: PartyFile) -> str:
    """Return the table's columns; raise if it lacks a declared column."""
    source, cluster = source_of(party.table, party.folder), cluster_of(party.table, party.folder)
    if cluster is None:
        names = source.stream().names()
    else:
        names = names_on(cluster, ParquetTable.of(source))
    wanted = [*(party.table.columns or ()), party.table.label, party.table.row_id]
    missing = [name for name in wanted if name is not None and name not in names]
    if missing:
        raise SettingError(
            f"The table has no column {missing[0]!r}. It has: {', '.join(names)}. Rename it in the "
            "query, or drop it from [table]."
        )
    if (party.kit / "startup").exists():
        _ = KitIdentity(party.kit).certificate
    return ", ".join(names)
