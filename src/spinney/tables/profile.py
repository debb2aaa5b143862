"""What the cells of a table look like, column by column, before anybody declares what they are.

DuckDB counts; nothing here decides what a column is used for. A CSV file's cells are read as text,
so that "1,430" or one "unknown" among numbers can be told.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, TypeVar

import duckdb

from spinney.errors import TableError
from spinney.tables.describe import MAX_UNDECLARED
from spinney.tables.files import (
    CsvStream,
    ParquetStream,
    connection_to_files,
    name_in_sql,
    text_in_sql,
)
from spinney.tables.readers import Source

T = TypeVar("T")
CellType = Literal["text", "number", "boolean", "moment", "other"]
CELL: Final = "\0"  # in SQL, where a column's name belongs
_SHOWN: Final = 8
_AT_ONCE: Final = 64
_MANY: Final = 16  # columns of a type
_CELLS: Final = 4_000_000
PLAIN: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
GROUPED: Final = r"^\s*[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?\s*$"
COMMA: Final = r"^\s*[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+),\d+\s*$"
# A number with a sign, a currency or a unit around it: "$1,234.50", "12 %", "<0.5", "7'800".
MARKED: Final = (
    r"^\s*([<>≤≥~≈$€£¥]|[A-Z]{3}\s)?\s*[+\-\x{2212}]?"
    r"\d+([\s\x{A0}\x{202F},.'\x{2019}]\d{3})*([.,]\d+)?\s*(%|[€$£¥]|[A-Za-z\x{B5}\x{3BC}°²³/]{1,8})?\s*$"
)
_IS_FINITE: Final = f"isfinite(TRY_CAST({CELL} AS DOUBLE))"
IS_PLAIN: Final = f"(regexp_matches({CELL}, {text_in_sql(PLAIN)}) AND {_IS_FINITE})"
_SPELLINGS: Final = (
    IS_PLAIN,
    *(f"regexp_matches({CELL}, {text_in_sql(one)})" for one in (GROUPED, COMMA)),
)
# DuckDB reads "007" and "+5" as text, where Python, pandas and R read numbers.
_IS_PADDED: Final = f"substr(ltrim({CELL}, ' +-'), 1, 2) BETWEEN '00' AND '09'"
_HAS_PLUS: Final = f"starts_with(ltrim({CELL}), '+')"
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
    n_padded: int = 0  # cells that begin with zeros, as codes do: "007"
    n_plus: int = 0  # cells that begin with a plus
    n_marked: int = 0  # texts that spell a number with a sign or a unit around it, or without
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

    @cached_property
    def n_rows(self) -> int:
        """How many rows there are."""
        ((n_rows,),) = self.ask("SELECT count(*) FROM cells")
        return int(n_rows)

    def aggregates(self, columns: Sequence[str], wanted: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the values of the same aggregates of each column; `CELL` stands for its name.

        They may not depend on the order of the rows. Of many columns of a type, cells are listed
        below each other, and an aggregate is planned once for all.
        """
        of_type: dict[str, list[str]] = {}
        for name in columns:
            of_type.setdefault(self.types[name], []).append(name)
        found: dict[str, tuple[Any, ...]] = {}
        for alike in of_type.values():
            size = max(1, _CELLS // max(self.n_rows, 1))
            for first in range(0, len(alike), size):
                part = alike[first : first + size]
                found |= (self._one_by_one if len(part) < _MANY else self._listed)(part, wanted)
        return [found[name] for name in columns]

    def _one_by_one(
        self, columns: Sequence[str], wanted: Sequence[str]
    ) -> dict[str, tuple[Any, ...]]:
        """Return aggregates of columns as columns of one row."""
        found = []
        for part in self.in_parts(columns, len(wanted)):
            each = [one.replace(CELL, name_in_sql(name)) for name in part for one in wanted]
            (row,) = self.ask(f"SELECT {', '.join(each)} FROM cells")  # noqa: S608  names are quoted
            found += [row[i : i + len(wanted)] for i in range(0, len(row), len(wanted))]
        return dict(zip(columns, found, strict=True))

    def _listed(self, columns: Sequence[str], wanted: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        """Return aggregates of columns of one type, whose cells are listed below each other."""
        names = ", ".join(map(name_in_sql, columns))
        each = ", ".join(one.replace(CELL, "cell") for one in wanted)
        rows = self.ask(
            f"SELECT of_column, {each} FROM (SELECT {names} FROM cells) "  # noqa: S608  names are quoted
            f"UNPIVOT INCLUDE NULLS (cell FOR of_column IN ({names})) GROUP BY of_column"
        )
        return {row[0]: row[1:] for row in rows}

    def in_parts(self, columns: Sequence[T], n_asked: int = 1) -> Iterator[Sequence[T]]:
        """Yield columns that one query should read: many of a short table, few of a long one.

        To plan a query over thousands of columns takes longer than to run it, however few it reads;
        to plan hundreds of expressions takes longer still.
        """
        size = max(1, min(_AT_ONCE // n_asked, _CELLS // max(self.n_rows, 1)))
        for first in range(0, len(columns), size):
            yield columns[first : first + size]


@contextmanager
def opened_as_text(source: Source, na: tuple[str, ...] = ()) -> Iterator[OpenTable]:
    """Open a table for questions; `na` are further texts that mean "missing"."""
    with connection_to_files() as connection:
        try:
            _load(connection, source)
            types = _types(connection)
            changed = _without(OpenTable(connection, types), na) if na else frozenset()
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


def _without(table: OpenTable, na: tuple[str, ...]) -> frozenset[str]:
    """Take texts that mean missing out of the columns; return those that had any."""
    texts = [name for name, type_ in table.types.items() if type_ == "VARCHAR"]
    is_na = f"trim({CELL}) IN ({', '.join(map(text_in_sql, na))})"
    counts = table.aggregates(texts, [f"count(*) FILTER ({is_na})"])
    found = frozenset(name for name, (n,) in zip(texts, counts, strict=True) if n)
    for name in found:
        column = name_in_sql(name)
        where = is_na.replace(CELL, column)
        table.connection.execute(f"UPDATE cells SET {column} = NULL WHERE {where}")  # noqa: S608
    return found


def _types(connection: Any) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in connection.execute("DESCRIBE cells").fetchall()}


def profile_of(table: OpenTable) -> Profile:
    """Count the cells of every column; `values` holds as many as categories may be."""
    if not table.n_rows:
        raise TableError("The table has no rows. Check the file, or the query's conditions.")
    found = _counted(table)
    _add_values(table, found)
    _add_ends(table, found)
    _add_spellings(table, found, _add_plain(table, found))
    return Profile(table.n_rows, tuple(found.values()))


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


def _counted(table: OpenTable) -> dict[str, ColumnProfile]:
    """Return the columns with how many cells are known, and how many values differ."""
    types = {name: _type_of(type_) for name, type_ in table.types.items()}
    counts = table.aggregates(list(types), [f"count({CELL})"])
    compared = [name for name, type_ in types.items() if type_ not in ("moment", "other")]
    differ = dict(
        zip(compared, table.aggregates(compared, [f"count(DISTINCT {CELL})"]), strict=True)
    )
    return {
        name: ColumnProfile(name, type_, table.n_rows, int(n), int(differ.get(name, (0,))[0]))
        for (name, type_), (n,) in zip(types.items(), counts, strict=True)
    }


def _add_values(table: OpenTable, found: dict[str, ColumnProfile]) -> None:
    few = [name for name, one in found.items() if 0 < one.n_distinct <= MAX_UNDECLARED]
    for name, (counts,) in zip(few, table.aggregates(few, [f"histogram({CELL})"]), strict=True):
        found[name] = replace(found[name], values=_most_first(counts))


def _most_first(counts: Mapping[Any, int]) -> tuple[tuple[Any, int], ...]:
    return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _add_ends(table: OpenTable, found: dict[str, ColumnProfile]) -> None:
    numbers = [name for name, one in found.items() if one.type == "number"]
    is_finite = f"isfinite(CAST({CELL} AS DOUBLE))"
    wanted = [
        f"min({CELL}) FILTER ({is_finite})",
        f"max({CELL}) FILTER ({is_finite})",
        f"count(*) FILTER ({CELL} = floor({CELL}))",
        f"count(*) FILTER (NOT isinf(CAST({CELL} AS DOUBLE)))",
    ]
    asked = zip(numbers, table.aggregates(numbers, wanted), strict=True)
    for name, (low, high, n_whole, n_plain) in asked:
        n_odd = found[name].n_known - int(n_plain)
        found[name] = replace(
            found[name],
            n_plain=int(n_plain),
            n_whole=int(n_whole),
            low=None if low is None else float(low),
            high=None if high is None else float(high),
            odd=(("inf", n_odd),) if n_odd else (),
            n_odd_texts=min(n_odd, 1),
        )


def _add_plain(table: OpenTable, found: dict[str, ColumnProfile]) -> list[str]:
    """Take texts that are all plain numbers; return the other columns of text.

    To compile a pattern for each of thousands of columns takes longer than to match it.
    """
    texts = [name for name, one in found.items() if one.type == "text"]
    number = f"TRY_CAST({CELL} AS DOUBLE)"
    wanted = [
        f"count(*) FILTER (isfinite({number}) AND NOT contains({CELL}, '_'))",
        f"count(*) FILTER ({number} = floor({number}))",
        f"min({number})",
        f"max({number})",
        f"count(*) FILTER ({_IS_PADDED})",
        f"count(*) FILTER ({_HAS_PLUS})",
    ]
    left = []
    asked = zip(texts, table.aggregates(texts, wanted), strict=True)
    for name, (n_plain, n_whole, low, high, n_padded, n_plus) in asked:
        if n_plain < found[name].n_known:
            left.append(name)
        else:
            found[name] = replace(
                found[name],
                n_plain=int(n_plain),
                n_whole=int(n_whole),
                low=low,
                high=high,
                n_padded=int(n_padded),
                n_plus=int(n_plus),
            )
    return left


def _add_spellings(table: OpenTable, found: dict[str, ColumnProfile], texts: list[str]) -> None:
    """Tell how texts spell numbers and dates."""
    plain, grouped, comma = _SPELLINGS
    number = f"TRY_CAST({CELL} AS DOUBLE)"
    wanted = [
        f"count(*) FILTER ({plain})",
        f"count(*) FILTER ({grouped} AND NOT {plain})",
        f"count(*) FILTER ({comma} AND NOT {grouped})",
        f"count(*) FILTER ({plain} AND {number} = floor({number}))",
        f"min({number}) FILTER ({plain})",
        f"max({number}) FILTER ({plain})",
        f"count(DISTINCT {CELL}) FILTER (NOT ({' OR '.join(_SPELLINGS)}))",
        f"count(*) FILTER ({plain} AND {_IS_PADDED})",
        f"count(*) FILTER (regexp_matches({CELL}, {text_in_sql(MARKED)}) OR {plain})",
    ]
    asked = zip(texts, table.aggregates(texts, wanted), strict=True)
    for name, answer in asked:
        n_plain, n_grouped, n_comma, n_whole, low, high, n_odd_texts, n_padded, n_marked = answer
        one = replace(
            found[name],
            n_plain=int(n_plain),
            n_grouped=int(n_grouped),
            n_comma=int(n_comma),
            n_whole=int(n_whole),
            low=low,
            high=high,
            n_odd_texts=int(n_odd_texts),
            n_padded=int(n_padded),
            n_marked=int(n_marked),
        )
        if (one.n_numbers or n_marked) and n_odd_texts:
            one = replace(one, odd=_odd(table, name))
        if one.n_numbers < one.n_known:
            one = replace(one, formats=_formats(table, name))
        found[name] = one


def _odd(table: OpenTable, name: str) -> tuple[tuple[str, int], ...]:
    """Return the most frequent texts that spell no number."""
    column = name_in_sql(name)
    is_number = " OR ".join(_SPELLINGS).replace(CELL, column)
    found = table.ask(
        f"SELECT {column}, count(*) AS n FROM cells WHERE {column} IS NOT NULL AND NOT "  # noqa: S608
        f"({is_number}) GROUP BY 1 ORDER BY n DESC, 1 LIMIT {_SHOWN}"
    )
    return tuple((str(text), int(n)) for text, n in found)


def _formats(table: OpenTable, name: str) -> tuple[tuple[str, int], ...]:
    """Return how many cells each way of writing dates reads."""
    read = [f"count(try_strptime({CELL}, {text_in_sql(one)}))" for one in MOMENT_FORMATS]
    (counts,) = table.aggregates([name], read)
    pairs = zip(MOMENT_FORMATS, map(int, counts), strict=True)
    return tuple(pair for pair in pairs if pair[1])
