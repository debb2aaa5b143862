"""The party's side that private trees and forests share: rows in public bins, and an account.

**Who learns what.** Only what `accounts.account` says about joining and claims is sent from here.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from spinney.errors import PolicyError, SettingError
from spinney.privacy.ledger import Ledger
from spinney.protocols.accounts.account import JoinReply, PartyAccount, Plan
from spinney.protocols.rows.facts import bin_table, fixed_point
from spinney.protocols.rows.quality import row_values
from spinney.protocols.rows.setup import require_schema
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Ask
from spinney.trees.binning import BinnedTable, Binning
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.forest import RowValues
from spinney.trees.threads import thread_count
from spinney.typing import Integers, Values

_CHUNK = 65536  # rows that are held as numbers at one time
_COUNTER_BYTES = 8


class PrivateRows:
    """A party's table in public bins, and the account that pays for answers."""

    def __init__(
        self, table: Table, *, n_jobs: int | None, ledger: Ledger | None, data: str | None
    ) -> None:
        self.schema = table.schema
        self.n_threads = thread_count(n_jobs)
        self._table = table
        self._account = None if ledger is None else PartyAccount(ledger, table, data)
        self._binned: tuple[bytes, BinnedTable] | None = None
        self._last: list[tuple[RowValues, Integers]] = []

    def account(self, ask: Ask[Any]) -> PartyAccount:
        """Return the account that pays for the answer to a question."""
        if self._account is None:
            raise PolicyError(
                f"{type(ask).__name__} belongs to a private job, and this party has no ledger to "
                "pay from. Give it one."
            )
        return self._account

    def require_schema(self, digest: str) -> None:
        """Raise unless a question is about this party's schema."""
        require_schema(self._table, digest)

    def join(self, ask: Ask[Any], plan: Plan, schema_digest: str) -> JoinReply:
        """Take part in a job if its whole cost can be paid."""
        self.require_schema(schema_digest)
        return self.account(ask).join(plan)

    def table(self, binning: Binning) -> BinnedTable:
        """Return the rows in bins."""
        digest = binning.digest()
        if self._binned is None or self._binned[0] != digest:
            how = {"n_threads": self.n_threads, "target_bits": TARGET_BITS}
            self._binned = (digest, bin_table(self._table, binning, **how))
            self._last = []
        return self._binned[1]

    def numbers(self) -> Iterator[tuple[Values, Integers]]:
        """Yield the rows as they are, column by column, and their classes or fixed-point targets.

        For what bins are laid from; once they are, `table` holds the rows.
        """
        label = self.schema.label
        for batch in self._table.batches():
            is_class = label.kind == "class"
            target = batch.target if is_class else fixed_point(batch.target, label, TARGET_BITS)
            yield batch.values, target.astype(np.int64)

    def batches(self, binning: Binning) -> Iterator[tuple[RowValues, Integers]]:
        """Yield the rows, as numbers that trees can compare, and their classes."""
        table = self.table(binning)
        if self._last:
            yield from self._last  # a small table is one batch, which many questions use
            return
        for first in range(0, table.n_rows, _CHUNK):
            part = np.arange(first, min(table.n_rows, first + _CHUNK))
            rows = row_values(table, binning, part), table.target[part].astype(np.int64)
            if table.n_rows <= _CHUNK:
                self._last = [rows]
            yield rows


def require_classes(schema: Schema) -> int:
    """Return how many classes are declared; raise if the label has none."""
    if schema.label.kind != "class" or not schema.label.classes:
        raise SettingError(
            f"The label {schema.label.name!r} declares no classes, and a private tree or forest "
            "needs them. Declare them in the schema."
        )
    return len(schema.label.classes)


def require_ranges(schema: Schema) -> None:
    """Raise unless every number has a public range."""
    for column in schema.columns:
        if column.kind == "number" and column.range is None:
            raise SettingError(
                f"Column {column.name!r} has no declared range, and a private job may not read it "
                "from the data. Declare its range in the schema, from public knowledge."
            )


def require_small(what: str, n_counters: int, limit: int, advice: str) -> None:
    """Raise if a reply of `n_counters` counters would exceed the message limit."""
    if n_counters * _COUNTER_BYTES > limit:
        raise SettingError(
            f"{what} would take {n_counters:,} counters of {_COUNTER_BYTES} bytes in one reply; "
            f"the message limit allows {limit // _COUNTER_BYTES:,}. {advice}"
        )
