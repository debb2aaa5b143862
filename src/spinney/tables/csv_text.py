"""The header of a CSV file, and the errors for a file that is not well formed."""

import csv
import gzip
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from spinney.errors import SchemaError, SpinneyError, TableError
from spinney.tables.schema import join_words

_DELIMITERS = (",", ";", "\t", "|")
_WORD_OF_TYPE = {"DOUBLE": "numbers", "BIGINT": "whole numbers", "BOOLEAN": "booleans"}


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """The delimiter of the first line, and the names in it."""

    delimiter: str
    names: tuple[str, ...]


def csv_header(path: str) -> CsvHeader:
    """Read the first line; the delimiter is the one that gives the most names."""
    try:
        with _opened(path) as file:
            line = file.readline()
    except UnicodeDecodeError:
        raise _not_utf8() from None
    except (EOFError, gzip.BadGzipFile):
        raise TableError(
            "The compressed CSV file is not whole gzip. Check it, or compress it again."
        ) from None
    if not line:
        raise TableError(
            "The CSV file is empty. Write the columns' names into its first line, and the rows "
            "below it."
        )
    names_by = {mark: next(csv.reader([line], delimiter=mark), []) for mark in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda mark: len(names_by[mark]))
    names = tuple(
        name or f"unnamed_{place}" for place, name in enumerate(names_by[delimiter], start=1)
    )  # pandas' to_csv() writes its index under a blank name
    if not any(names_by[delimiter]):
        raise TableError(
            "The CSV file has no header with a name for every column. "
            "Write the columns' names into its first line."
        )
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise TableError(
            f"The CSV file has more than one column called {join_words(map(repr, repeated))}. "
            "Give every column a different name."
        )
    return CsvHeader(delimiter, names)


def _opened(path: str) -> TextIO:
    if path.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return Path(path).open(encoding="utf-8-sig", newline="")


def csv_error(message: str) -> SpinneyError | None:
    """Translate DuckDB's message about a CSV file into our error; None for other messages."""
    line = re.search(r"CSV Error on Line: (\d+)", message)
    where = f"Line {line[1]}." if line else ""
    cells = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if cells:
        return TableError(
            "The CSV file has a row with more or fewer cells than its header. Give every row "
            "the same number of cells, and quote cells that hold the delimiter.",
            local=f"{where} Expected {cells[1]} cells, found {cells[2]}.",
        )
    cell = re.search(r"converting column \"(.*)\"\. Could not convert (.*) to '(\w+)'", message)
    if cell:
        return SchemaError(
            f"The column {cell[1]!r} of the CSV file holds text that cannot be read as "
            f"{_WORD_OF_TYPE.get(cell[3], cell[3])}. Correct it, or declare the column as a "
            "category.",
            local=f"{where} Cannot convert {cell[2]}.",
        )
    if "not utf-8" in message:
        return _not_utf8(where)
    if "unterminated quote" in message:
        return TableError(
            "The CSV file has a quote that is never closed. Close it, or double it.", local=where
        )
    if not line:
        return None
    return TableError(
        "The CSV file is not well formed. Write it again with every cell that holds a delimiter, "
        "a quote or a line break in quotes.",
        local=where,
    )


def _not_utf8(where: str = "") -> TableError:
    return TableError("The CSV file is not UTF-8 text. Save it as UTF-8.", local=where)
