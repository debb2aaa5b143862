"""The name of a data set belongs to a table: the same rows get no second budget.

`data` in `[ledger]` names the account that pays for a table. A private job binds the name to the
table's source, and keeps marks of some rows: of their ids, however they are written, and of the
cells that the job reads. The marks and their key stay at the party.

**Not noticed:** rows whose ids were replaced and of which the job reads other columns or changed
cells; less of a table than `privacy.sketches` says.
"""

import re
from hashlib import sha256
from pathlib import Path
from typing import Final
from unicodedata import normalize

import msgspec
import numpy as np

from spinney.deployment.party.config import PartyFile
from spinney.errors import LedgerError, PolicyError
from spinney.jobs.tables import source_of
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Bound
from spinney.privacy.signatures import ledger_secret
from spinney.privacy.sketches import OF_CELLS, check_value, have_same_rows, sketch
from spinney.seeds import row_hashes
from spinney.tables.holding import Holding
from spinney.tables.readers import read_ids
from spinney.tables.records import cells_of_batch
from spinney.tables.table import Table, hashes_of_ids

_LEADING_ZEROS: Final = re.compile(r"(?<![0-9])0+(?=[0-9])")
_DISTINCT: Final = 0.9  # of rows with ids: below it, cells are alike by chance


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
        _marks_of_ids(secret, party, table),
        _marks_of_cells(secret, table),
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
    return (
        one.source == other.source
        or have_same_rows(one.marks, other.marks)
        or have_same_rows(one.cells, other.cells, OF_CELLS)
    )


def _marks_of_ids(secret: bytes, party: PartyFile, table: Table | Holding) -> tuple[str, ...]:
    if isinstance(table, Holding):
        ids = table.ids
    else:
        source = source_of(party.table, party.folder)
        ids = None if source.row_id is None else read_ids(source, table.schema)
    if ids is None:
        return ()
    plain = [plain_id(str(one)) for one in ids if one is not None]
    return sketch(secret, hashes_of_ids(plain))


def plain_id(text: str) -> str:
    """Return an id as it is compared: without case, marks, blanks and leading zeros.

    7, "007", "7.0" and " 7 " are one id, and so are "P-007" and "p7".
    """
    text = text.strip()
    whole, _, rest = text.partition(".")
    if not rest.strip("0"):
        text = whole
    if not text.isdecimal():
        text = "".join(filter(str.isalnum, normalize("NFKC", text).casefold()))
    return _LEADING_ZEROS.sub("", text) or "0"


def _marks_of_cells(secret: bytes, table: Table | Holding) -> tuple[str, ...]:
    """Return marks of rows' cells; none if rows have ids and many are alike."""
    if isinstance(table, Holding):
        if table.features is None:
            return ()
        values = np.asarray(table.features.values(slice(None)))
        cells, has_ids = row_hashes(values, np.zeros(values.shape[1])), table.ids is not None
    else:
        parts = [(cells_of_batch(batch), batch.ids is not None) for batch in table.batches()]
        cells = np.concatenate([*(part for part, _ in parts), np.empty(0, np.uint64)])
        has_ids = any(has for _, has in parts)
    if has_ids and np.unique(cells).size < _DISTINCT * cells.size:
        return ()
    return sketch(secret, cells)


def _digest(party: PartyFile) -> str:
    table = party.table
    path = None if table.path is None else str((party.folder / table.path).resolve())
    given = (table.source, path, table.url_env, table.query, table.cluster)
    return sha256(msgspec.json.encode(given)).hexdigest()


def _words(party: PartyFile) -> str:
    table = party.table
    where = table.url_env if table.path is None else Path(table.path).name
    return f"{table.source} {where}"
