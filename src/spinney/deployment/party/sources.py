"""The name of a data set belongs to a table: the same rows get no second budget.

`data` in `[ledger]` names the account that pays for a table. A private job binds the name to the
table's source, and keeps marks of some rows: of their ids, or without ids of the cells that the job
reads. The marks and their key stay at the party.
"""

from hashlib import sha256
from pathlib import Path

import msgspec

from spinney.deployment.party.config import PartyFile
from spinney.errors import LedgerError, PolicyError
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Bound
from spinney.privacy.signatures import ledger_secret
from spinney.privacy.sketches import check_value, have_same_rows, sketch
from spinney.tables.holding import Holding
from spinney.tables.records import records_of
from spinney.tables.table import Table, hashes_of_ids


def bind_data(party: PartyFile, ledger: Ledger, table: Table | Holding) -> None:
    """Bind the name of a party's data set to its table; refuse a table that has another name."""
    bound = check_data(party, ledger, table)
    ledger.bind(bound)


def check_data(party: PartyFile, ledger: Ledger, table: Table | Holding) -> Bound:
    """Return what binds a data set's name to a table; raise if the table has another name."""
    secret = ledger_secret(party.ledger_file)
    found = Bound(
        party.ledger.data,
        _digest(party),
        _words(party),
        check_value(secret),
        _marks(secret, table),
    )
    known = ledger.bindings()
    for bound in (one for several in known.values() for one in several):
        if bound.key != found.key:
            raise LedgerError(
                "The key beside the ledger is not the one that made its marks of rows. Restore it "
                "from a backup. Nothing was released.",
                local=f"File: {party.ledger_file}.key.",
            )
    for name, several in known.items():
        if name != found.data and any(_is_same(found, one) for one in several):
            raise PolicyError(
                f"Rows of the data set {found.data!r} of {party.party.name!r} are in its ledger "
                f"under the name {name!r}, and rows have one budget (rule 'data'). Nothing was "
                "released.",
                local=f"Say data = {name!r} in [ledger]. If these are other records that bear the "
                "same ids, tell their ids apart in the query of [table]; if it has no row_id, name "
                "one.",
            )
    own = known.get(found.data, [])
    if own and not any(_is_same(found, one) for one in own):
        raise PolicyError(
            f"The data set {found.data!r} of {party.party.name!r} is bound to another table (rule "
            "'data'). Nothing was released.",
            local=f"It was {own[-1].words}, and is now {found.words}, with other rows. Give the "
            "new table another name: data = ... in [ledger].",
        )
    return found


def _is_same(one: Bound, other: Bound) -> bool:
    return one.source == other.source or have_same_rows(one.marks, other.marks)


def _marks(secret: bytes, table: Table | Holding) -> tuple[str, ...]:
    if not isinstance(table, Holding):
        return sketch(secret, records_of(table).ids)
    return () if table.ids is None else sketch(secret, hashes_of_ids(table.ids))


def _digest(party: PartyFile) -> str:
    table = party.table
    path = None if table.path is None else str((party.folder / table.path).resolve())
    given = (table.source, path, table.url_env, table.query, table.cluster)
    return sha256(msgspec.json.encode(given)).hexdigest()


def _words(party: PartyFile) -> str:
    table = party.table
    where = table.url_env if table.path is None else Path(table.path).name
    return f"{table.source} {where}"
