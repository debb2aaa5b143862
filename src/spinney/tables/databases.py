"""Tables in SQLite, DuckDB and PostgreSQL, read in batches by one query."""

import importlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb

from spinney.errors import MissingExtraError, SettingError, TableError
from spinney.tables.cells import cells_of
from spinney.tables.opening import Frame
from spinney.tables.queries import first_line, query_failed, require_select
from spinney.tables.table import Stream


def stream_of_url(url: str, query: str) -> Stream:
    """Return the rows of a query over the database at a URL."""
    require_select(query)
    query = query.strip().rstrip(";")
    scheme = url.split(":", maxsplit=1)[0].lower()
    if scheme == "sqlite" and url.startswith("sqlite:///"):
        return SqliteStream(url.removeprefix("sqlite:///"), query)
    if scheme == "duckdb" and url.startswith("duckdb:///"):
        return DuckDbStream(url.removeprefix("duckdb:///"), query)
    if scheme in {"postgresql", "postgres"}:
        return PostgresStream(url, query)
    raise SettingError(
        f"A database url must start with sqlite:///, duckdb:/// or postgresql://; got {scheme!r}."
    )


class _CursorStream(ABC):
    """A query whose rows come as Python tuples from a cursor."""

    def names(self) -> tuple[str, ...]:
        """Return the names of all columns, in order."""
        with self._cursor() as cursor:
            return _names(cursor)

    def frames(self, wanted: Sequence[str], size: int) -> Iterator[Frame]:
        """Give the wanted columns of all rows in order, at most `size` rows at a time."""
        with self._cursor() as cursor:
            places = [_names(cursor).index(name) for name in wanted]
            while rows := cursor.fetchmany(size):
                columns = list(zip(*rows, strict=True))
                yield Frame(tuple(wanted), tuple(cells_of(columns[place]) for place in places))

    @abstractmethod
    def _cursor(self) -> AbstractContextManager[Any]:
        """Run the query, and close everything when the caller is done."""


@dataclass(frozen=True)
class SqliteStream(_CursorStream):
    """A query over an SQLite file, which is opened for reading only."""

    path: str
    query: str

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        _require_file(self.path)
        address = f"file:{quote(self.path)}?mode=ro"
        try:
            # Another thread than the one that opened the database may read batches.
            with closing(sqlite3.connect(address, uri=True, check_same_thread=False)) as database:
                yield database.execute(self.query)
        except sqlite3.Error as failure:
            if "not a database" in str(failure):
                raise TableError(
                    "The database file of the table is not an SQLite database. Check its path, or "
                    "its url.",
                    local=f"Path: {self.path}",
                ) from None
            raise query_failed(str(failure)) from None


@dataclass(frozen=True)
class DuckDbStream(_CursorStream):
    """A query over a DuckDB file, which is opened for reading only."""

    path: str
    query: str

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        _require_file(self.path)
        try:
            with closing(duckdb.connect(self.path, read_only=True)) as database:
                # Keep the order, and allow only this file: a query cannot read or write elsewhere.
                database.execute("SET preserve_insertion_order = true")
                database.execute("SET enable_external_access = false")
                database.execute("SET lock_configuration = true")
                yield database.execute(self.query)
        except duckdb.Error as failure:
            raise query_failed(str(failure)) from None


@dataclass(frozen=True)
class PostgresStream(_CursorStream):
    """A query over PostgreSQL, run in a read-only transaction with a server-side cursor."""

    url: str
    query: str

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        psycopg = _psycopg()
        try:
            connection = psycopg.connect(self.url)
        except psycopg.Error as failure:
            raise TableError(
                "The database does not answer. Check its url, and that it allows this machine.",
                local=f"The database says: {first_line(str(failure))}",
            ) from None
        with closing(connection):
            try:
                with closing(self._prepared(psycopg, connection)) as cursor:
                    cursor.execute(self.query)
                    yield cursor
            except psycopg.Error as failure:
                raise query_failed(str(failure)) from None

    def _prepared(self, psycopg: Any, connection: Any) -> Any:
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        # Otherwise a scan of a large table may join another reader's scan in the middle, or use
        # two workers: both change the order.
        connection.execute("SET LOCAL synchronize_seqscans = off")
        connection.execute("SET LOCAL max_parallel_workers_per_gather = 0")
        numeric = importlib.import_module("psycopg.types.numeric")
        connection.adapters.register_loader("numeric", numeric.FloatLoader)
        return connection.cursor(name="spinney")


def _psycopg() -> Any:
    try:
        return importlib.import_module("psycopg")
    except ImportError:
        raise MissingExtraError("psycopg", "postgres", "A PostgreSQL table") from None


def _names(cursor: Any) -> tuple[str, ...]:
    return tuple(column[0] for column in cursor.description)


def _require_file(path: str) -> None:
    if not Path(path).is_file():
        raise TableError(
            "The database file of the table does not exist. Check its path, or its url.",
            local=f"Path: {path}",
        )
