"""A table whose rows lie on the workers of a cluster, one part at each."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InternalError, TableError
from spinney.tables.cluster.asking import HeldParts
from spinney.tables.cluster.held import HeldPart, Refused, Settled, run_task
from spinney.tables.cluster.parts import Cuttable, ParquetTable, Part
from spinney.tables.cluster.repeats import Earlier, earlier_of, hash_ranges
from spinney.tables.cluster.workers import ClusterAddress, Workers
from spinney.tables.schema import Schema
from spinney.tables.table import BATCH_ROWS, Batch
from spinney.typing import Bools, Keys

_MOST_ROWS: Final = 1 << 31  # a counter has 32 bits


class SpreadTable:
    """A table on a cluster: its rows are counted where they are, and only counts come back."""

    def __init__(self, schema: Schema, workers: Workers, held: HeldParts, digest: int) -> None:
        self.schema = schema
        self.digest = digest
        self._workers = workers
        self._held = held

    @classmethod
    def open(
        cls, where: ClusterAddress, table: Cuttable, schema: Schema, row_id: str | None = None
    ) -> "SpreadTable":
        """Let the workers read the table once, checking every cell.

        Parameters
        ----------
        where
            The party's own cluster, which runs already.
        table
            What the workers read; every worker must be able to.
        schema
            The public facts.
        row_id
            The column that identifies rows, if there is one.
        """
        workers = Workers(where)
        try:
            parts = _cut(workers, table)
            held = HeldParts(workers, parts, schema, row_id)
            digests = held.ask(HeldPart.digest, [()] * len(parts))
            spread = cls(schema, workers, held, sum(digests) % 2**64)
            spread._settle(digests, _find_repeats(held), [None] * len(parts))
        except BaseException:
            workers.close()
            raise
        return spread

    def close(self) -> None:
        """Let the workers forget the rows, and leave the cluster."""
        self._held.forget()
        self._workers.close()

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        settled = self._held.settled[0]
        assert settled is not None
        return settled.place[1]

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Batch]:
        """Refuse: nobody but the workers reads the rows."""
        raise InternalError(f"A table on a cluster gives no batches; asked for {size} rows each.")

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call `function(held, *arguments)` at the worker of every part."""
        return self._held.ask(function, [arguments] * len(self._held.parts))

    def targets(self) -> NDArray[Any]:
        """Return the label of every row, used or not."""
        return np.concatenate(self.each(HeldPart.targets))

    def use_only(self, chosen: Bools) -> None:
        """Use only some rows, which keep their keys."""
        own = np.split(chosen, [part.first for part in self._held.parts[1:]])
        known = [settled for settled in self._held.settled if settled is not None]
        self._settle([one.digest for one in known], [one.earlier for one in known], own)

    def _settle(
        self, digests: Sequence[int], earlier: Sequence[Earlier], chosen: Sequence[Bools | None]
    ) -> None:
        """Tell every part what it must know of the whole table; a lost part is told again."""
        lengths = [
            part.n_rows if used is None else int(np.count_nonzero(used))
            for part, used in zip(self._held.parts, chosen, strict=True)
        ]
        ends = np.cumsum([0, *lengths]).tolist()
        self._held.settled = [
            Settled(digest, before, used, (first, ends[-1]))
            for digest, before, used, first in zip(digests, earlier, chosen, ends[:-1], strict=True)
        ]
        self._held.ask(HeldPart.settle, [(settled,) for settled in self._held.settled])


def _cut(workers: Workers, table: Cuttable) -> Sequence[Part]:
    """Return a part for each worker."""
    workers.wait_for_one()
    workers.require_same_versions()
    how = (type(table).cut, (len(workers.look().threads),))
    parts: Sequence[Part] | Refused = workers.call(
        run_task, table, *how
    )  # the party may not see it
    if isinstance(parts, Refused):
        raise parts.error()
    _require_some(sum(part.n_rows for part in parts))
    return parts


def names_on(where: ClusterAddress, table: ParquetTable) -> tuple[str, ...]:
    """Return the names of a table's columns, which a worker reads."""
    workers = Workers(where)
    try:
        workers.wait_for_one()
        workers.require_same_versions()
        names: tuple[str, ...] | Refused = workers.call(run_task, table, ParquetTable.names, ())
    finally:
        workers.close()
    if isinstance(names, Refused):
        raise names.error()
    return names


def _require_some(n_rows: int) -> None:
    if not n_rows:
        raise TableError("The table has no rows. Check the file, or the query's conditions.")
    if n_rows >= _MOST_ROWS:
        raise TableError(
            f"A party must have fewer than {_MOST_ROWS} rows, because counters have "
            "32 bits. Leave out rows."
        )


def _find_repeats(held: HeldParts) -> list[Earlier]:
    """Return, for each part, its rows that also stand in earlier parts."""
    parts = held.parts
    if len(parts) == 1:
        return [Earlier.nothing()]
    found: list[list[Earlier]] = [[] for _ in parts]
    for low, high in hash_ranges(sum(part.n_rows for part in parts)):
        hashes: list[Keys] = held.ask(HeldPart.hashes_within, [(low, high)] * len(parts))
        for own, earlier in zip(found, earlier_of(hashes), strict=True):
            own.append(earlier)
    return [Earlier.of_ranges(own) for own in found]
