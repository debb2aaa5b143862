"""What the cells of a table look like, column by column, before anybody declares what they are.

DuckDB counts; nothing here decides what a column is used for. A CSV file's cells are read as text,
so that "1,430" or one "unknown" among numbers can be told.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

import duckdb

from spinney.errors import TableError
from spinney.tables.files import (
    CsvStream,
    ParquetStream,
    connection_to_files,
    name_in_sql,
    text_in_sql,
)
from spinney.tables.readers import Source

CellType = Literal["text", "number", "boolean", "moment", "other"]
_SHOWN: Final = 8
PLAIN: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
GROUPED: Final = r"^\s*[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?\s*$"
COMMA: Final = r"^\s*[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+),\d+\s*$"
MOMENT_FORMATS: Final = (
    "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ",
    "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d %b %Y", "%d.%m.%Y %H:%M",
    "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%Y%m%d",
)  # fmt: skip


@dataclass(frozen=True)
class ColumnProfile:
    """Counts of one column's cells; for the table's owner only, because it shows cells."""

    name: str
    type: CellType
    n_rows: int
    n_known: int
    n_distinct: int
    n_plain: int = 0  # cells that spell a number
    n_grouped: int = 0  # ... with commas between thousands
    n_comma: int = 0  # ... with a comma before the decimals
    n_whole: int = 0  # plain numbers without decimals
    low: float | None = None  # of plain numbers
    high: float | None = None
    formats: tuple[tuple[str, int], ...] = ()  # how many cells each way of writing dates reads
    odd: tuple[tuple[str, int], ...] = ()  # the most frequent cells that spell no number
    n_odd_texts: int = 0
    values: tuple[tuple[Any, int], ...] = ()  # each value and its rows, if they are few

    @property
    def n_missing(self) -> int:
        """How many cells are missing."""
        return self.n_rows - self.n_known

    @property
    def n_numbers(self) -> int:
        """How many cells spell a number, one way or another."""
        return self.n_plain + self.n_grouped + self.n_comma


@dataclass(frozen=True)
class Profile:
    """The profile of a table."""

    n_rows: int
    columns: tuple[ColumnProfile, ...]

    def column(self, name: str) -> ColumnProfile:
        """Return the profile of the column called `name`."""
        return next(column for column in self.columns if column.name == name)


@dataclass(frozen=True)
class OpenTable:
    """A table that DuckDB holds as `cells`, for questions in SQL."""

    connection: Any
    types: dict[str, str]
    with_na: frozenset[str] = frozenset()  # columns in which texts were read as missing

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query over `cells`."""
        found: list[tuple[Any, ...]] = self.connection.execute(query).fetchall()
        return found


@contextmanager
def opened_as_text(source: Source, na: tuple[str, ...] = ()) -> Iterator[OpenTable]:
    """Open a table for questions; `na` are further texts that mean "missing"."""
    with connection_to_files() as connection:
        try:
            _load(connection, source)
            types = _types(connection)
            texts = [name for name, type_ in types.items() if type_ == "VARCHAR"]
            changed = frozenset(name for name in texts if na and _without(connection, name, na))
            yield OpenTable(connection, types, changed)
        except (duckdb.Error, OSError) as failure:
            raise TableError(
                "The table cannot be read. Check that it has the format of its name.",
                local=str(failure).splitlines()[0],
            ) from None


def _load(connection: Any, source: Source) -> None:
    """Copy the table's cells into DuckDB, which moves to disk what does not fit into memory."""
    stream = source.stream()
    if isinstance(stream, CsvStream | ParquetStream):
        try:
            connection.execute(f"CREATE TEMP VIEW source AS {stream.as_select()}")
            connection.execute(f"CREATE TEMP TABLE cells AS {stream.query or 'FROM source'}")
        except (duckdb.Error, OSError) as failure:
            raise stream.error_of(failure) from None
        return
    import pyarrow as pa  # noqa: PLC0415  only for databases

    names = list(stream.names())
    frames = [
        pa.table([cells.data for cells in frame.cells], names=names)
        for frame in stream.frames(names, 65536)
    ]
    connection.register("arrow_cells", pa.concat_tables(frames))
    connection.execute("CREATE TEMP TABLE cells AS FROM arrow_cells")


def _without(connection: Any, name: str, na: tuple[str, ...]) -> bool:
    """Take texts that mean missing out of a column; return whether there were any."""
    condition = f"trim({name_in_sql(name)}) IN ({', '.join(map(text_in_sql, na))})"
    ((n,),) = connection.execute(f"SELECT count(*) FROM cells WHERE {condition}").fetchall()  # noqa: S608
    if n:
        connection.execute(f"UPDATE cells SET {name_in_sql(name)} = NULL WHERE {condition}")  # noqa: S608
    return bool(n)


def _types(connection: Any) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in connection.execute("DESCRIBE cells").fetchall()}


def profile_of(table: OpenTable, *, at_most: int = 1000) -> Profile:
    """Count the cells of every column; `values` holds at most so many values."""
    ((n_rows,),) = table.ask("SELECT count(*) FROM cells")
    if not n_rows:
        raise TableError("The table has no rows. Check the file, or the query's conditions.")
    columns = tuple(
        _profiled(table, name, _type_of(type_), n_rows, at_most)
        for name, type_ in table.types.items()
    )
    return Profile(n_rows, columns)


def _type_of(type_: str) -> CellType:
    if type_.startswith(("DATE", "TIME", "INTERVAL")):
        return "moment"
    if type_ == "BOOLEAN":
        return "boolean"
    numeric = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT")
    if type_.startswith(
        (*numeric, "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
    ):
        return "number"
    return "text" if type_.startswith(("VARCHAR", "ENUM", "UUID")) else "other"


def _profiled(
    table: OpenTable, name: str, type_: CellType, n_rows: int, at_most: int
) -> ColumnProfile:
    column = name_in_sql(name)
    if type_ in ("moment", "other"):
        ((n_known,),) = table.ask(f"SELECT count({column}) FROM cells")  # noqa: S608
        return ColumnProfile(name, type_, n_rows, n_known, 0)
    ((n_known, n_distinct),) = table.ask(
        f"SELECT count({column}), count(DISTINCT {column}) FROM cells"  # noqa: S608
    )
    values: tuple[tuple[Any, int], ...] = ()
    if n_distinct <= at_most:
        found = table.ask(
            f"SELECT {column}, count(*) AS n FROM cells WHERE {column} IS NOT NULL "  # noqa: S608
            "GROUP BY 1 ORDER BY n DESC, 1"
        )
        values = tuple((value, int(n)) for value, n in found)
    head = name, type_, n_rows, int(n_known), int(n_distinct)
    if type_ == "boolean":
        return ColumnProfile(*head, values=values)
    as_number = column if type_ == "number" else f"TRY_CAST({column} AS DOUBLE)"
    if type_ == "number":
        ((low, high, whole),) = table.ask(
            f"SELECT min({as_number}), max({as_number}), "  # noqa: S608
            f"count(*) FILTER ({as_number} = floor({as_number})) FROM cells"
        )
        ends = (None if low is None else float(low), None if high is None else float(high))
        return ColumnProfile(
            *head, n_plain=int(n_known), n_whole=int(whole), low=ends[0], high=ends[1],
            values=values,
        )  # fmt: skip
    return _profiled_text(table, head, values)


def _profiled_text(
    table: OpenTable, head: tuple[str, CellType, int, int, int], values: tuple[tuple[Any, int], ...]
) -> ColumnProfile:
    column = name_in_sql(head[0])
    matches = [f"regexp_matches({column}, {text_in_sql(one)})" for one in (PLAIN, GROUPED, COMMA)]
    plain, grouped, comma = matches
    number = f"TRY_CAST({column} AS DOUBLE)"
    ((n_plain, n_grouped, n_comma, n_whole, low, high, n_odd_texts),) = table.ask(
        f"SELECT count(*) FILTER ({plain}), count(*) FILTER ({grouped} AND NOT {plain}), "  # noqa: S608
        f"count(*) FILTER ({comma} AND NOT {grouped}), "
        f"count(*) FILTER ({plain} AND {number} = floor({number})), min({number}), "
        f"max({number}), "
        f"count(DISTINCT {column}) FILTER (NOT ({' OR '.join(matches)})) FROM cells"
    )
    odd: list[tuple[Any, ...]] = []
    if n_plain + n_grouped + n_comma and n_odd_texts:
        odd = table.ask(
            f"SELECT {column}, count(*) AS n FROM cells WHERE {column} IS NOT NULL AND NOT "  # noqa: S608
            f"({' OR '.join(matches)}) GROUP BY 1 ORDER BY n DESC, 1 LIMIT {_SHOWN}"
        )
    formats: tuple[tuple[str, int], ...] = ()
    if n_plain + n_grouped + n_comma < head[3]:
        read = ", ".join(
            f"count(try_strptime({column}, {text_in_sql(one)}))" for one in MOMENT_FORMATS
        )
        (counts,) = table.ask(f"SELECT {read} FROM cells")  # noqa: S608
        pairs = zip(MOMENT_FORMATS, map(int, counts), strict=True)
        formats = tuple(pair for pair in pairs if pair[1])
    return ColumnProfile(
        *head,
        n_plain=int(n_plain),
        n_grouped=int(n_grouped),
        n_comma=int(n_comma),
        n_whole=int(n_whole),
        low=low,
        high=high,
        formats=formats,
        odd=tuple((str(text), int(n)) for text, n in odd),
        n_odd_texts=int(n_odd_texts),
        values=values,
    )
