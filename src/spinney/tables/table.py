"""A party's table: rows of features, their targets and their keys, in batches.

A table returns its rows in the same order on every pass. A row keeps its key however rows are
dealt to parties, so nothing drawn by key depends on who holds the row.

A key is made from the row's content, and from its id if it has one. Equal rows in one table get
different keys, because the table counts them. Two parties with separate tables cannot do that: to
learn how often the other party holds a row would reveal the other's rows. So if two parties hold
the same row, with the same id or none, both give it the same key, while their pooled table would
give it two keys. If no two parties share a row id, all keys equal those of the pooled table.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from spinney.errors import SettingError, TableError
from spinney.seeds import mix, row_hashes, row_keys
from spinney.tables.cells import Cells, cells_of
from spinney.tables.columns import Columns, MatrixColumns, Rows, VectorColumns
from spinney.tables.digits import OneNumber
from spinney.tables.frames import columns_of_frame, encode_target
from spinney.tables.opening import Frame
from spinney.tables.outside import (
    Changes,
    Outside,
    changed_columns,
    changed_target,
    count_change,
    draws_of,
)
from spinney.tables.schema import Schema
from spinney.typing import Floats, Keys, Values

__all__ = [
    "BATCH_ROWS",
    "Batch",
    "Columns",
    "MatrixColumns",
    "MemoryTable",
    "Rows",
    "SourceTable",
    "Stream",
    "Table",
    "VectorColumns",
]

BATCH_ROWS = 16384

T = TypeVar("T")
_KEPT_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some consecutive rows of a table."""

    values: Values  # (n_columns, n_rows), C order
    target: NDArray[Any]  # (n_rows,) int32 class index, or float64
    keys: Keys  # (n_rows,)
    ids: Keys | None = None  # (n_rows,) hashes of the rows' ids alone, where they have any
    weight: Floats | None = None  # (n_rows,) how much each row counts, where rows have weights


class Table(Protocol):
    """Rows that can be read again and again, in the same order."""

    @property
    def schema(self) -> Schema:
        """The public facts."""
        ...

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        ...

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Batch]:
        """Give all rows in order, at most `size` at a time."""
        ...


@runtime_checkable
class PlacedTable(Table, Protocol):
    """A table that is a part of another."""

    @property
    def place(self) -> tuple[int, int]:
        """The place of the first row in the whole table, and how many rows that has."""
        ...


@dataclass(frozen=True, eq=False)
class MemoryTable:
    """A table over features in arrays, all rows or those named by `rows`.

    `target`, `keys`, `ids` and `weight` belong to all rows of `columns`. If `keys` is not given,
    keys are made from the content of all those rows, so tables dealt from the same columns have
    equal keys.
    """

    schema: Schema
    columns: Columns
    target: NDArray[Any]
    keys: Keys | None = None
    rows: NDArray[np.intp] | None = None
    n_threads: int | None = None  # to hash the rows if keys are not given; None: all cores
    ids: Keys | None = None  # hashes of the rows' ids, where they have any
    weight: Floats | None = None  # how much each row counts; None: all alike

    def __post_init__(self) -> None:
        for name in ("target", "keys", "ids", "weight"):
            given = getattr(self, name)
            if given is not None and given.shape != (self.columns.n_rows,):
                raise TableError(
                    f"The {name} must have one entry per row of the table. Give both the same "
                    "rows.",
                    local=f"The table has {self.columns.n_rows} rows; got shape {given.shape}.",
                )

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.columns.n_rows if self.rows is None else len(self.rows)

    @property
    def targets(self) -> NDArray[Any]:
        """The target of each of its rows."""
        return self.target if self.rows is None else self.target[self.rows]

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Batch]:
        """Give all rows in order, at most `size` at a time."""
        require_size(size)
        found = self._batches(size)
        return found if self.n_rows <= size else ahead(found)  # to start a thread takes a while

    def _batches(self, size: int) -> Iterator[Batch]:
        keys = self.all_keys
        for start in range(0, self.n_rows, size):
            rows = self._rows(start, start + size)
            ids = None if self.ids is None else self.ids[rows]
            weight = None if self.weight is None else self.weight[rows]
            yield Batch(self.columns.values(rows), self.target[rows], keys[rows], ids, weight)

    def select(self, rows: Rows) -> "MemoryTable":
        """Return the table of these rows, which keep their keys; no cell is copied."""
        chosen = np.arange(self.columns.n_rows) if self.rows is None else self.rows
        facts = (self.schema, self.columns, self.target, self.all_keys)
        return MemoryTable(*facts, chosen[rows].astype(np.intp), ids=self.ids, weight=self.weight)

    @cached_property
    def all_keys(self) -> Keys:
        """The keys of all rows of `columns`, chosen or not."""
        if self.keys is not None:
            return self.keys
        hashes = np.empty(self.columns.n_rows, dtype=np.uint64)

        def fill(start: int) -> None:
            rows = slice(start, start + BATCH_ROWS)
            hashes[rows] = row_hashes(self.columns.values(rows), self.target[rows])
            hashes[rows] ^= _marks_of(None if self.weight is None else self.weight[rows])

        starts = range(0, hashes.size, BATCH_ROWS)
        if len(starts) < 2:
            fill(0)
            return row_keys(hashes)
        n_threads = self.n_threads or os.cpu_count()
        with ThreadPoolExecutor(n_threads, thread_name_prefix="spinney-keys") as pool:
            list(pool.map(fill, starts))
        return row_keys(hashes)

    def _rows(self, start: int, stop: int) -> Rows:
        return slice(start, stop) if self.rows is None else self.rows[start:stop]


class Remembered:
    """A table that caches the rows it has read, if they are few, until `forget` is called."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._kept: tuple[Batch, ...] = ()

    @property
    def schema(self) -> Schema:
        """The public facts."""
        return self._table.schema

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self._table.n_rows

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Batch]:
        """Give all rows in order, at most `size` at a time."""
        n_bytes = 4 * self.n_rows * len(self.schema.columns)
        if size != BATCH_ROWS or n_bytes > _KEPT_BYTES:
            return self._table.batches(size)
        self._kept = self._kept or tuple(self._table.batches())
        return iter(self._kept)

    @property
    def place(self) -> tuple[int, int]:
        """The place of the first row in the whole table, and how many rows that has."""
        table = self._table
        return table.place if isinstance(table, PlacedTable) else (0, self.n_rows)

    def forget(self) -> None:
        """Drop the cached rows."""
        self._kept = ()


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items in order; a thread makes each while the one before is in use."""
    with ThreadPoolExecutor(1, thread_name_prefix="spinney-batches") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


class Stream(Protocol):
    """A query or a file that can be read again and again."""

    def names(self) -> tuple[str, ...]:
        """Return the names of all columns, in order."""
        ...

    def frames(self, wanted: Sequence[str], size: int) -> Iterator[Frame]:
        """Give the wanted columns of all rows in order, at most `size` rows at a time."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SourceTable:
    """A table that stays in its file or database and is read again on every pass.

    Only a key per row is kept. Every pass must return the rows of the first pass, in its order.
    `changes` counts the values that were outside the schema, unless those are refused.
    """

    schema: Schema
    stream: Stream
    row_id: str | None
    outside: Outside
    keys: Keys
    fingerprint: int
    changes: Changes = field(default_factory=Counter)
    row_weight: str | None = None  # the column that says how much each row counts
    alike: tuple[str, ...] = ()  # number columns that hold one number, at the precision of trees

    @classmethod
    def checked(
        cls,
        schema: Schema,
        stream: Stream,
        row_id: str | None = None,
        outside: Outside = "refuse",
        row_weight: str | None = None,
    ) -> "SourceTable":
        """Read all rows once, checking every cell, and return the table."""
        changes: Changes = Counter()
        reading = _Reading(schema, stream, row_id, outside, row_weight)
        one_number = OneNumber(schema)
        words, fingerprint = _words_of(reading, changes, one_number.see)
        keys = row_keys(words)
        if not keys.size and outside == "refuse":
            raise TableError("The table has no rows. Check the file, or the query's conditions.")
        facts = (keys, fingerprint, changes, row_weight, one_number.columns)
        return cls(schema, stream, row_id, outside, *facts)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.keys)

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Batch]:
        """Give all rows in order, at most `size` at a time."""
        require_size(size)
        start = fingerprint = 0
        reading = _Reading(self.schema, self.stream, self.row_id, self.outside, self.row_weight)
        for part in reading.parts(size, Counter()):  # what is changed was counted before
            fingerprint = part.added_to(fingerprint, start)
            stop = start + len(part.hashes)
            if stop > self.n_rows:
                raise table_changed()
            yield Batch(part.values, part.target, self.keys[start:stop], part.ids, part.weight)
            start = stop
        if start != self.n_rows or fingerprint != self.fingerprint:
            raise table_changed()


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some rows, as read from the source."""

    values: Values
    target: NDArray[Any]
    hashes: Keys  # of the rows' content
    ids: Keys | None  # of the rows' ids
    weight: Floats | None = None

    @property
    def words(self) -> Keys:
        """What identifies a row: its content and its id. (Parties may reuse the same ids.)"""
        return self.hashes if self.ids is None else mix(self.hashes ^ mix(self.ids))

    def added_to(self, fingerprint: int, start: int) -> int:
        """Return the fingerprint of the rows before `start` and these; it depends on the order."""
        places = np.arange(start, start + len(self.hashes), dtype=np.uint64)
        return (fingerprint + int(mix(self.words ^ mix(places)).sum())) % 2**64


def read_words(
    schema: Schema,
    stream: Stream,
    row_id: str | None,
    outside: Outside = "refuse",
    changes: Changes | None = None,
) -> tuple[Keys, int]:
    """Read all rows once, checking every cell; return what identifies each, and their digest."""
    counted: Changes = Counter() if changes is None else changes
    return _words_of(_Reading(schema, stream, row_id, outside), counted)


def _words_of(
    reading: "_Reading", changes: Changes, see: Callable[[Values], None] = lambda _: None
) -> tuple[Keys, int]:
    words = [np.empty(0, dtype=np.uint64)]
    start = fingerprint = 0
    for part in reading.parts(BATCH_ROWS, changes):
        fingerprint = part.added_to(fingerprint, start)
        words.append(part.words)
        see(part.values)
        start += len(part.hashes)
    return np.concatenate(words), fingerprint


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a source's rows become a table's."""

    schema: Schema
    stream: Stream
    row_id: str | None
    outside: Outside
    row_weight: str | None = None

    def parts(self, size: int, changes: Changes) -> Iterator[_Part]:
        """Yield all rows in order, at most `size` at a time; count what is changed in them."""
        schema, row_id = self.schema, self.row_id
        wanted = [*schema.names, schema.label.name]
        for name in (row_id, self.row_weight):
            if name is not None and name not in wanted:
                wanted.append(name)
        for frame in self.stream.frames(wanted, size):
            cells_of_name = dict(zip(wanted, frame.cells, strict=True))
            features = Frame(schema.names, frame.cells[: len(schema.names)])
            label = cells_of_name[schema.label.name]
            ids = None if row_id is None else cells_of_name[row_id]
            if self.outside == "refuse":
                weight = self.row_weight and cells_of_name[self.row_weight]
                yield self._checked(features, label, ids, weight or None)
            else:
                yield self._changed(features, label, ids, changes)

    def _checked(
        self, features: Frame, label: Cells, ids: Cells | None, weights: Cells | None
    ) -> _Part:
        values = columns_of_frame(features, self.schema).values(slice(None))
        target = encode_target(label, self.schema.label)
        hashes = None if ids is None else hashes_of_ids(ids, name=str(self.row_id))
        weight = None if weights is None else _weights_in(weights, str(self.row_weight))
        content = row_hashes(values, target) ^ _marks_of(weight)
        return _Part(values, target, content, hashes, weight)

    def _changed(self, features: Frame, label: Cells, ids: Cells | None, changes: Changes) -> _Part:
        """Return rows that all fit the schema, without those that have no label to count."""
        values = changed_columns(features.cells, self.schema, changes).values(slice(None))
        hashes = None if ids is None else _hashes_or_draws(ids, values, changes)
        draws = draws_of(values, hashes)
        target, kept = changed_target(label, self.schema.label, draws, self.outside, changes)
        values, target = np.ascontiguousarray(values[:, kept]), target[kept]
        own = None if hashes is None else hashes[kept]
        return _Part(values, target, row_hashes(values, target), own)


def _marks_of(weight: Floats | None) -> Keys:
    """Return what tells apart equal rows that count differently: they are not exchangeable."""
    if weight is None:
        return np.zeros(1, np.uint64)
    return np.where(weight == 1.0, np.uint64(0), mix(weight.view(np.uint64)))


def _weights_in(cells: Cells, name: str) -> Floats:
    """Return how much each row counts; raise unless it is a number, and not negative."""
    try:
        weight = np.array(
            [np.nan if one is None else float(one) for one in cells.objects()], np.float64
        )
    except (TypeError, ValueError):
        weight = np.full(1, np.nan)
    if not np.all(np.isfinite(weight) & (weight >= 0.0)):
        raise TableError(
            f"The row weight {name!r} must be a number in every row, finite and not negative. "
            "Leave rows without one out, or name no row weight."
        )
    return weight


def _hashes_or_draws(ids: Cells, values: Values, changes: Changes) -> Keys:
    """Return a hash of each row's id; of its cells, where it has none."""
    texts = ids.texts()
    missing = np.array([text is None for text in texts], np.bool_)
    what = "rows have none: content stands for it"
    count_change(changes, "Row ids", what, int(missing.sum()))
    hashes = hashes_of_ids(cells_of(["" if text is None else text for text in texts]))
    return np.where(missing, draws_of(values, None), hashes)


def table_changed() -> TableError:
    """Return the error that a table is not what it was."""
    return TableError(
        "The table changed during the job, or its query does not return its rows in the same "
        "order each time. Train on a table that does not change; end the query with ORDER BY a "
        "unique column."
    )


def hashes_of_ids(ids: Any, *, name: str = "row_id") -> Keys:
    """Return a 64-bit hash of each id's text, the same on every machine."""
    texts = cells_of(ids).texts()
    if None in texts:
        raise TableError(
            f"The row id {name!r} is missing in some rows. Every row needs one; "
            "leave those rows out, or name no row id."
        )
    digests = (hashlib.blake2b(str(text).encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def require_size(size: int) -> None:
    """Raise unless a batch holds at least one row."""
    if size < 1:
        raise SettingError(f"A batch must have at least 1 row; got size={size}.")
