"""CSV and Parquet files, read by DuckDB in batches.

The rows of a file keep the order of the file. The row order of a query may depend on how DuckDB
divides the work, so queries run on one thread.
"""

import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from spinney.errors import SpinneyError, TableError
from spinney.tables.cells import cells_of
from spinney.tables.csv_text import CsvHeader, csv_error, csv_header
from spinney.tables.opening import Frame
from spinney.tables.queries import first_line, not_a_select, query_failed, require_select
from spinney.tables.schema import Category, Schema
from spinney.tables.withheld import is_withheld

_MISSING_TEXTS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
_TEXT_ROWS = 16384
_FAILURES = (duckdb.Error, pa.ArrowException, OSError)


@dataclass(frozen=True)
class _FileStream(ABC):
    """A file, or a query that calls it `source`."""

    path: str
    query: str | None = None

    def names(self) -> tuple[str, ...]:
        """Return the names of all columns, in order."""
        with self._relation() as relation:
            return tuple(relation.columns)

    def frames(self, wanted: Sequence[str], size: int) -> Iterator[Frame]:
        """Give the wanted columns of all rows in order, at most `size` rows at a time."""
        with self._relation() as relation:
            try:
                # Run a query unchanged: a query around it may lose its order.
                chosen = relation if self.query else relation.project(_names_in_sql(wanted))
                for batch in _gathered(chosen.to_arrow_reader(size), size):
                    cells = tuple(cells_of(batch.column(name)) for name in wanted)
                    yield Frame(tuple(wanted), cells)
            except _FAILURES as failure:
                raise self.error_of(failure) from None

    @contextmanager
    def _relation(self) -> Iterator[Any]:
        self._require_file()
        with connection_to_files(threads=1 if self.query else None) as connection:
            try:
                connection.execute(f"CREATE TEMP VIEW source AS FROM {self._scan()}")
                if self.query:
                    _require_one_select(connection, self.query)
                relation = connection.sql(self.query or "FROM source")
            except _FAILURES as failure:
                raise self.error_of(failure) from None
            yield relation

    def as_select(self) -> str:
        """Return a query for the file's cells; without a query of its own, a CSV file's as text."""
        self._require_file()
        return f"SELECT * FROM {self._scan() if self.query else self._raw_scan()}"  # noqa: S608  the path is quoted

    def _require_file(self) -> None:
        if not Path(self.path).is_file():
            raise TableError(
                "The file of the table does not exist. Check its path.", local=f"Path: {self.path}"
            )

    def _raw_scan(self) -> str:
        return self._scan()

    def error_of(self, failure: Exception) -> SpinneyError:
        """Return the error that tells why the file cannot be read."""
        told = self._error_of_file(failure)
        if told is not None:
            return told
        if self.query and not isinstance(failure, duckdb.IOException):
            return query_failed(str(failure))
        return TableError(
            "The file of the table cannot be read. Check that it has the declared format; if it "
            "has, write it again.",
            local=first_line(str(failure)),
        )

    @abstractmethod
    def _scan(self) -> str:
        """Return the table function that reads the file."""

    @abstractmethod
    def _error_of_file(self, failure: Exception) -> SpinneyError | None:
        """Return the error if the file itself is at fault."""


class ParquetStream(_FileStream):
    """A Parquet file, or a query over it."""

    def _scan(self) -> str:
        return f"read_parquet({text_in_sql(self.path)})"

    def _error_of_file(self, failure: Exception) -> SpinneyError | None:
        is_query = isinstance(failure, duckdb.ProgrammingError) and not isinstance(
            failure, duckdb.InvalidInputException
        )
        if is_query or not re.search("parquet", str(failure), re.IGNORECASE):
            return None
        return TableError(
            "The Parquet file cannot be read. Check that it is Parquet; if it is, write it again.",
            local=first_line(str(failure)),
        )


@dataclass(frozen=True)
class CsvStream(_FileStream):
    """A CSV file with a header, or a query over it.

    With a schema and without a query, columns get the types that the schema declares; otherwise
    each gets the type that all its cells allow. With `as_text` no cell that the schema does not
    allow is an error: cells stay text, and a query sees those that have no declared type as NULL.
    """

    schema: Schema | None = None
    as_text: bool = False

    def _scan(self) -> str:
        scan = f"read_csv({self._options}, {self._typing})"
        if not (self.as_text and self.query and self._declared):
            return scan
        # DuckDB moves TRY_CAST of a bare column into its CSV reader, which then fails where the
        # cast would not; NULLIF keeps the two apart.
        casts = (
            f"TRY_CAST(NULLIF({name}, CHR(0)) AS {type_}) AS {name}"
            for name, type_ in ((name_in_sql(n), t) for n, t in self._declared.items())
        )
        return f"(SELECT * REPLACE ({', '.join(casts)}) FROM {scan})"  # noqa: S608  names are quoted

    def _raw_scan(self) -> str:
        as_text = _columns_option(dict.fromkeys(self._header.names, "VARCHAR"))
        return f"read_csv({self._options}, {as_text})"

    def _error_of_file(self, failure: Exception) -> SpinneyError | None:
        return csv_error(str(failure))

    @property
    def _options(self) -> str:
        nulls = ", ".join(map(text_in_sql, _missing_texts(self.schema)))
        return (
            f"{text_in_sql(self.path)}, delim = {text_in_sql(self._header.delimiter)}, "
            "quote = '\"', escape = '\"', header = true, skip = 0, strict_mode = true, "
            f"null_padding = false, ignore_errors = false, nullstr = [{nulls}]"
        )

    @cached_property
    def _header(self) -> CsvHeader:
        return csv_header(self.path)

    @property
    def _declared(self) -> Mapping[str, str]:
        """The types of the file's columns that the schema declares."""
        declared = _declared_types(self.schema) if self.schema else {}
        return {name: declared[name] for name in self._header.names if name in declared}

    @cached_property
    def _typing(self) -> str:
        """The options that fix each column's type, found once so that all passes read the same."""
        declared = self._declared
        if self.schema and not self.query:
            known = {} if self.as_text else declared
            return _columns_option(
                {name: known.get(name, "VARCHAR") for name in self._header.names}
            )
        types, formats = self._sniffed()
        # Text categories keep their text ("007"), even if it could be read as something else.
        texts = {name for name, type_ in declared.items() if self.as_text or type_ == "VARCHAR"}
        chosen = {name: "VARCHAR" if name in texts else types[name] for name in types}
        return ", ".join([_columns_option(chosen), *formats])

    def _sniffed(self) -> tuple[dict[str, str], list[str]]:
        """Return the types that all cells allow, and the options for how dates are written."""
        names = self._header.names
        sniff = f"FROM sniff_csv({self._options}, sample_size = -1)"
        with connection_to_files() as connection:
            try:
                query = f"SELECT Columns, DateFormat, TimestampFormat {sniff}"
                ((columns, date, timestamp),) = connection.execute(query).fetchall()
            except _FAILURES as failure:
                # The sniffer reports only that it failed; the reader reports where.
                self._texts_of(connection, names)
                raise self.error_of(failure) from None
            types = dict(zip(names, (str(column["type"]) for column in columns), strict=True))
            claimed = [name for name in names if types[name] == "BOOLEAN"]
            for name, texts in self._texts_of(connection, claimed).items():
                if not texts <= {"true", "false"}:  # "yes" and "no" stay text
                    types[name] = "VARCHAR"
        formats = {"dateformat": date, "timestampformat": timestamp}
        return types, [f"{name} = {text_in_sql(form)}" for name, form in formats.items() if form]

    def _texts_of(self, connection: Any, chosen: Sequence[str]) -> dict[str, set[str]]:
        """Read all cells as text, and return the distinct ones of the chosen columns."""
        as_text = _columns_option(dict.fromkeys(self._header.names, "VARCHAR"))
        texts: dict[str, set[str]] = {name: set() for name in chosen}
        if not chosen:
            return texts
        try:
            scan = connection.sql(f"FROM read_csv({self._options}, {as_text})")
            for batch in scan.project(_names_in_sql(chosen)).to_arrow_reader(_TEXT_ROWS):
                for name in chosen:
                    found = batch.column(name).unique().drop_null().to_pylist()
                    texts[name].update(text.lower() for text in found)
        except _FAILURES as failure:
            raise self.error_of(failure) from None
        return texts


def _gathered(batches: Iterable[Any], size: int) -> Iterator[Any]:
    """Yield batches of about `size` rows, whatever DuckDB's are: of a wide file they have few."""
    held: list[Any] = []
    n_rows = 0
    for batch in batches:
        if held and n_rows + batch.num_rows > size:
            yield _joined(held)
            held, n_rows = [], 0
        held.append(batch)
        n_rows += batch.num_rows
    if held:
        yield _joined(held)


def _joined(batches: list[Any]) -> Any:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _columns_option(type_of_name: Mapping[str, str]) -> str:
    pairs = (f"{text_in_sql(name)}: {text_in_sql(type_of_name[name])}" for name in type_of_name)
    return f"auto_detect = false, columns = {{{', '.join(pairs)}}}"


def _declared_types(schema: Schema) -> Mapping[str, str]:
    types = {}
    for column in schema.columns:
        if column.kind == "category":
            types[column.name] = _type_of_categories(column.categories or ())
        else:
            types[column.name] = "DOUBLE" if column.kind == "number" else "BOOLEAN"
    label = schema.label
    is_class = label.kind == "class"
    types[label.name] = _type_of_categories(label.classes or ()) if is_class else "DOUBLE"
    return types


def _type_of_categories(given: Sequence[Category]) -> str:
    categories = [category for category in given if not is_withheld(category)]
    if not categories or any(isinstance(category, str) for category in categories):
        return "VARCHAR"
    if all(isinstance(category, bool) for category in categories):
        return "BOOLEAN"
    is_exact = all(
        abs(category) <= 2**53 for category in categories if not isinstance(category, str)
    )
    return "DOUBLE" if is_exact else "BIGINT"


def _missing_texts(schema: Schema | None) -> list[str]:
    """Return the texts that mean "missing", except those that the schema names as categories."""
    named: set[Category] = set()
    if schema:
        for column in schema.columns:
            named.update(column.categories or ())
        named.update(schema.label.classes or ())
    return [text for text in _MISSING_TEXTS if text not in named]


@contextmanager
def connection_to_files(threads: int | None = None) -> Iterator[Any]:
    """Open a DuckDB in memory that downloads nothing and sees no Python variable."""
    settings: dict[str, Any] = {
        "autoinstall_known_extensions": False,  # a party's machine downloads nothing by itself
        "python_enable_replacements": False,  # a name in a query is never a Python variable
        "temp_directory": tempfile.gettempdir(),
    }
    if threads is not None:
        settings["threads"] = threads
    connection = duckdb.connect(":memory:", config=settings)
    try:
        # DuckDB's progress bar would go to stdout and corrupt the output of --json.
        connection.execute("SET enable_progress_bar = false")
        yield connection
    finally:
        connection.close()


def _require_one_select(connection: Any, query: str) -> None:
    require_select(query)
    statements = connection.extract_statements(query)
    if len(statements) != 1 or statements[0].type.name != "SELECT":
        raise not_a_select()


def _names_in_sql(names: Sequence[str]) -> str:
    return ", ".join(map(name_in_sql, names))


def name_in_sql(name: str) -> str:
    """Return a column's name, quoted for a query."""
    return '"' + name.replace('"', '""') + '"'


def text_in_sql(text: str) -> str:
    """Return a text, quoted for a query."""
    return "'" + text.replace("'", "''") + "'"
