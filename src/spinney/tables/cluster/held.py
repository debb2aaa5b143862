"""What a worker keeps of its part of a table. The rows themselves stay where they are stored."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError, SettingError, SpinneyError
from spinney.seeds import row_keys
from spinney.tables.cluster.parts import Part
from spinney.tables.cluster.repeats import Earlier, order_digest, within
from spinney.tables.schema import Schema
from spinney.tables.table import (
    BATCH_ROWS,
    Batch,
    SourceTable,
    Table,
    read_words,
    require_size,
    table_changed,
)
from spinney.typing import Bools, Keys

T = TypeVar("T")
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # options of mallopt


@dataclass(frozen=True)
class Settled:
    """What a part must know of the whole table before its rows are counted.

    Attributes
    ----------
    digest
        The digest of the part's rows, by which it is known again.
    earlier
        Its rows that also stand in earlier parts.
    chosen
        Which of its rows are used; None: all.
    place
        The place of its first used row among all used rows, and how many these are.
    """

    digest: int
    earlier: Earlier
    chosen: Bools | None
    place: tuple[int, int]


@dataclass(frozen=True, eq=False)
class PartTable:
    """The used rows of one part, and their place among the used rows of the whole table."""

    rows: Table
    chosen: Bools | None
    place: tuple[int, int]  # of the first row, and how many rows the whole table has

    @property
    def schema(self) -> Schema:
        """The public facts."""
        return self.rows.schema

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.rows.n_rows if self.chosen is None else int(np.count_nonzero(self.chosen))

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Batch]:
        """Give all rows in order, at most `size` at a time."""
        require_size(size)
        start = 0
        for batch in self.rows.batches(size):
            used = None if self.chosen is None else self.chosen[start : start + batch.keys.size]
            start += batch.keys.size
            yield batch if used is None else _some_rows(batch, used)


def _some_rows(batch: Batch, used: Bools) -> Batch:
    ids = None if batch.ids is None else batch.ids[used]
    values = np.ascontiguousarray(batch.values[:, used])
    return Batch(values, batch.target[used], batch.keys[used], ids)


class UnsettledError(Exception):
    """A worker was restarted, and does not know the whole table any more."""


class HeldPart:
    """A worker's part. All it keeps can be made again from its description."""

    def __init__(
        self,
        part: Part,
        schema: Schema,
        row_id: str | None,
        settled: Settled | None,
        n_threads: int,
    ) -> None:
        self._made_of = (part, schema, row_id)
        self._settled = settled
        self.n_threads = n_threads
        self._name = uuid4().hex
        _PACKED.clear()
        _keep_freed_memory()
        self._kept: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as a description.

        If Dask moves the part to another worker, it is read again there. If Dask writes it to disk
        because memory is short, it is what it was when it comes back.
        """
        _PACKED[self._name] = self
        return _unpacked, (self._name, *self._made_of, self._settled, self.n_threads)

    @cached_property
    def _words(self) -> tuple[Keys, int]:
        """What identifies each row, and the digest of the rows by their places in this part."""
        part, schema, row_id = self._made_of
        return read_words(schema, part.stream(schema), row_id)

    @cached_property
    def _digest(self) -> int:
        return order_digest(self._words[0], self._made_of[0].first)

    @cached_property
    def _ordered(self) -> Keys:
        return np.sort(self._words[0])

    def digest(self) -> int:
        """Read all rows, checking every cell, and return their digest."""
        return self._digest

    def hashes_within(self, low: int, high: int) -> Keys:
        """Return the hashes of a range, ascending."""
        return within(self._ordered, low, high)

    def targets(self) -> NDArray[Any]:
        """Return the label of every row, used or not."""
        return np.concatenate([batch.target for batch in self.table.rows.batches()])

    def settle(self, settled: Settled) -> None:
        """Take what the part must know of the whole table."""
        known = self.__dict__.get("table")
        self._settled = settled
        self._kept = None
        if known is not None:  # only the choice of rows is new
            self.table = PartTable(known.rows, settled.chosen, settled.place)
        _ = self.table

    @cached_property
    def table(self) -> PartTable:
        """The rows to count."""
        settled = self._settled
        if settled is None:
            raise UnsettledError
        part, schema, row_id = self._made_of
        words, fingerprint = self._words
        if self._digest != settled.digest:
            raise table_changed()
        keys = row_keys(words, settled.earlier.times_of(words))
        for done in ("_words", "_ordered"):
            self.__dict__.pop(done, None)
        rows = SourceTable(schema, part.stream(schema), row_id, "refuse", keys, fingerprint)
        return PartTable(rows, settled.chosen, settled.place)

    def kept(self, make: Callable[[], T]) -> T:
        """Return what was made of this part before; make it if it is the first time."""
        if self._kept is None:
            self._kept = make()
        kept: T = self._kept
        return kept


_PACKED: dict[str, HeldPart] = {}
"""The parts of this process that Dask has packed, and may want back."""


def _unpacked(name: str, *facts: Any) -> HeldPart:
    return _PACKED.pop(name, None) or HeldPart(*facts)


def _keep_freed_memory() -> None:
    """Let this process keep memory that it frees, up to a limit.

    Dask has the C library give back every freed 64 kB. Reading a table in batches then takes the
    same pages from the system again and again, which costs a third of the time.
    """
    with suppress(OSError, AttributeError):  # only the GNU library has this function
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, 1 << 28)
        library.mallopt(_MMAP_THRESHOLD, 1 << 25)


@dataclass(frozen=True)
class Refused:
    """An error of ours at a worker; its two parts travel separately."""

    kind: type[SpinneyError]
    public: str
    local: str

    def error(self) -> SpinneyError:
        """Return the error, to be raised at the party."""
        try:
            return self.kind(self.public, local=self.local)
        except TypeError:  # an error with a text of its own
            return SettingError(self.public, local=self.local)


@dataclass(frozen=True)
class Unsettled:
    """The answer of a worker that was restarted."""


def run_task(held: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a function on what a worker holds; called on the worker."""
    try:
        return function(held, *arguments)
    except UnsettledError:
        return Unsettled()
    except SpinneyError as error:
        return Refused(type(error), error.public, error.local)
    except MemoryError:
        return Refused(
            ProtocolError,
            "A worker of this party's cluster does not have enough memory for its rows.",
            "Give every worker more memory, or add workers.",
        )
