"""Cut a table into parts of consecutive rows, each of which can be read on its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from spinney.errors import SettingError, TableError
from spinney.tables.files import ParquetStream
from spinney.tables.readers import Source
from spinney.tables.schema import Schema
from spinney.tables.table import Stream


class Part(Protocol):
    """Consecutive rows of a table; a description that travels to the worker that reads them."""

    @property
    def first(self) -> int:
        """The place of the first row in the whole table."""
        ...

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        ...

    def stream(self, schema: Schema) -> Stream:
        """Return the rows."""
        ...


class Cuttable(Protocol):
    """Something that can be cut into parts; it travels to a worker, which cuts it."""

    def cut(self, n_parts: int) -> Sequence[Part]:
        """Return at most `n_parts` parts, in the order of the rows; none if there are no rows."""
        ...


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file that all workers can read."""

    path: str

    @classmethod
    def of(cls, source: Source) -> "ParquetTable":
        """Return the file of a source; raise if the source cannot be cut."""
        if source.format != "parquet":
            raise SettingError(
                f"A table on a cluster must be a Parquet file, which every worker can read from "
                f"any row on; the source is {source.format!r}. Write the table as Parquet, or "
                "drop cluster."
            )
        if source.query is not None:
            raise SettingError(
                "A table on a cluster cannot have a query, because only the whole result of a "
                "query has an order. Write the result as a Parquet file, or drop cluster."
            )
        return cls(str(Path(str(source.path)).absolute()))

    def names(self) -> tuple[str, ...]:
        """Return the names of all columns, in order."""
        return ParquetStream(self.path).names()

    def cut(self, n_parts: int) -> Sequence["ParquetPart"]:
        """Return parts of about equal length."""
        if not Path(self.path).is_file():
            raise TableError(
                "A worker of the cluster does not find the file of the table. Keep it where every "
                "worker sees it under the same path.",
                local=f"Path: {self.path}",
            )
        try:
            n_rows = pq.read_metadata(self.path).num_rows
        except (pa.ArrowException, OSError) as error:
            raise TableError(
                "The Parquet file cannot be read. Check that it is Parquet; if it is, write it "
                "again.",
                local=str(error),
            ) from None
        return [ParquetPart(self.path, first, n) for first, n in even_parts(n_rows, n_parts)]


@dataclass(frozen=True)
class ParquetPart:
    """Consecutive rows of a Parquet file."""

    path: str
    first: int
    n_rows: int

    def stream(self, schema: Schema) -> Stream:
        """Return the rows; Parquet itself says what its cells are."""
        del schema
        return _RowsOfParquet(self.path, None, self.first, self.n_rows)


@dataclass(frozen=True)
class _RowsOfParquet(ParquetStream):
    """Some rows of a Parquet file, read as the whole file is."""

    first: int = 0
    n_rows: int = 0

    def names(self) -> tuple[str, ...]:
        """Return the names of all columns, in order."""
        return super().names()[:-1]

    def _scan(self) -> str:
        # DuckDB skips the row groups outside the range.
        scan = super()._scan().removesuffix(")")
        return (
            f"{scan}, file_row_number = true) WHERE file_row_number >= {self.first} "
            f"AND file_row_number < {self.first + self.n_rows}"
        )


def even_parts(n_rows: int, n_parts: int) -> list[tuple[int, int]]:
    """Return the first row and the number of rows of each part; no part is empty."""
    ends = [n_rows * part // n_parts for part in range(n_parts + 1)]
    return [(first, last - first) for first, last in pairwise(ends) if last > first]
