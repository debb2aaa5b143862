"""One column's raw cells, before any schema is applied.

Cells are stored as Arrow where Arrow can represent them, without a copy if possible. A column of
mixed types (a data frame's "object") stays an array of Python objects.
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spinney.errors import SettingError, TableError
from spinney.tables.categories import CategoryCodes, CategoryIndex
from spinney.tables.schema import Category, plain

Nature = Literal["missing", "number", "boolean", "text", "mixed", "moment", "other"]

WORD_OF_NATURE: dict[str, str] = {
    "missing": "nothing",
    "number": "numbers",
    "boolean": "booleans",
    "text": "text",
    "mixed": "text and numbers together",
}

INFINITIES = {np.inf, -np.inf}
TRUTHS = dict.fromkeys(("true", "t", "yes", "y"), True) | dict.fromkeys(
    ("false", "f", "no", "n"), False
)  # what DuckDB reads as a boolean in a CSV file
_MOMENTS = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64)


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of one column: a `pyarrow.ChunkedArray`, or objects where their types mix."""

    data: Any

    def __len__(self) -> int:
        return len(self.data)

    @property
    def is_coded(self) -> bool:
        """Whether the column came as a categorical (Arrow: dictionary) column."""
        return self._is_arrow and pa.types.is_dictionary(self.data.type)

    @property
    def nature(self) -> Nature:
        """What kind of values the cells hold; "missing" if there is none."""
        if not self._is_arrow:
            return _nature_of_objects(self.data)
        if self.data.null_count == len(self.data):
            return "missing"
        kind = self.data.type.value_type if self.is_coded else self.data.type
        nature = _nature_of_type(kind)
        return "missing" if nature == "number" and self._is_all_nan() else nature

    @property
    def n_known(self) -> int:
        """How many cells are not missing."""
        if not self._is_arrow:
            return sum(value is not None for value in self.data)
        return len(self.data) - int(self.data.null_count)

    @property
    def type_name(self) -> str:
        """The name of the cells' type, for a message."""
        if self._is_arrow:
            return re.split(r"[<\[(]", str(self.data.type))[0]  # a struct's fields are cell content
        names = {type(value).__name__ for value in self.data if value is not None}
        return " and ".join(sorted(names))

    def numbers(self) -> NDArray[Any]:
        """Return numbers or booleans as numbers, NaN where missing.

        The array is the column itself if possible, otherwise a float64 copy.
        """
        if not self._is_arrow:
            return np.array([_number(value) for value in self.data], dtype=np.float64)
        data = _decoded(self.data)
        if pa.types.is_boolean(data.type):
            data = data.cast(pa.uint8())
        elif not pa.types.is_integer(data.type) and data.type not in (pa.float32(), pa.float64()):
            data = data.cast(pa.float64())
        if data.num_chunks == 1 and not data.null_count:
            return cast("NDArray[Any]", data.chunk(0).to_numpy())
        numbers = np.empty(len(data), dtype=np.float64)
        start = 0
        for chunk in data.chunks:
            numbers[start : start + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
            start += len(chunk)
        return numbers

    def loose_numbers(self, words: Mapping[str, bool]) -> tuple[NDArray[Any], int]:
        """Return each cell as a number, and how many cells are not one; those are NaN.

        A cell is read the same whatever the others hold: text as the number it spells, or as one
        of the `words`.
        """
        if self._holds(("number", "boolean", "missing")):
            return self.numbers(), 0
        if self._holds(("text",)):
            with suppress(pa.ArrowException):  # some text is not a number, or is spelt unusually
                return Cells(_decoded(self.data).cast(pa.float64())).numbers(), 0
        read = [_loose_number(value, words) for value in self.objects()]
        numbers = np.array([np.nan if one is None else one for one in read], dtype=np.float64)
        return numbers, read.count(None)

    def loose_codes(self, index: CategoryIndex) -> CategoryCodes:
        """Return each cell's category as its code, whatever the cells are."""
        if self._is_arrow and not self._holds(("number", "boolean", "text", "missing")):
            return index.codes_of(None if one is None else () for one in self.objects())
        return self.codes(index)

    def codes(self, index: CategoryIndex) -> CategoryCodes:
        """Return each cell's category as its code."""
        if not self._is_arrow:
            return index.codes_of(self.data)
        if not len(self.data) or pa.types.is_null(self.data.type):
            return index.codes_of([None] * len(self.data))
        if not (self.is_coded or _nature_of_type(self.data.type) == "text"):
            return index.codes_of_numbers(self.numbers())
        return np.concatenate([_codes_of_coded(chunk, index) for chunk in self._coded_chunks()])

    def distinct(self) -> set[Category]:
        """Return the distinct categories; for a categorical column, all that its type declares."""
        if not self._is_arrow:
            values = set(self.data)
        elif self.is_coded or _nature_of_type(self.data.type) == "text":
            # Read text from its dictionary: Arrow's `unique` turns gaps in polars' text into ''.
            values = {v for chunk in self._coded_chunks() for v in _members(chunk.dictionary)}
        else:
            values = set(_members(pc.unique(self.data)))
        known = (value for value in values if not _is_missing(value))
        return {value if value in INFINITIES else plain(value) for value in known}

    def texts(self) -> list[str | None]:
        """Return each cell as text: whole numbers without a point."""
        return [None if value is None else _text(value) for value in self.objects()]

    def objects(self) -> list[Any]:
        """Return each cell unchanged; None where it is missing."""
        values = self.data.to_pylist() if self._is_arrow else self.data.tolist()
        return [None if _is_missing(value) else value for value in values]

    def _holds(self, natures: Sequence[str]) -> bool:
        """Return whether the type of all cells, not what they happen to hold, is one of these."""
        if not self._is_arrow:
            return False
        kind = self.data.type.value_type if self.is_coded else self.data.type
        return ("missing" if pa.types.is_null(kind) else _nature_of_type(kind)) in natures

    @property
    def _is_arrow(self) -> bool:
        return isinstance(self.data, pa.ChunkedArray)

    def _is_all_nan(self) -> bool:
        numbers = self.numbers()
        return bool(np.isnan(numbers[0]) and np.isnan(numbers).all())

    def _coded_chunks(self) -> list[Any]:
        coded = self.data if self.is_coded else pc.dictionary_encode(self.data)
        return cast("list[Any]", coded.chunks)


def cells_of(values: Any) -> Cells:
    """Return a column given as Arrow, numpy, a pandas or polars series, or a list."""
    if isinstance(values, Cells):
        return values
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise TableError(f"A column must have one dimension; got {values.ndim}.")
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return Cells(pa.chunked_array(values))
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return Cells(_objects(values))
    return Cells(array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array]))


def refuse_unusable(where: str, cells: Cells) -> None:
    """Raise if the cells are neither numbers, booleans nor text."""
    nature = cells.nature
    if nature == "moment":
        raise TableError(
            f"The {where} holds dates or times. Spinney reads numbers, categories and booleans; "
            "convert it, for example to days since a fixed date."
        )
    if nature == "other":
        raise TableError(
            f"The {where} holds values of type {cells.type_name}. Spinney reads numbers, "
            "categories and booleans; convert it or drop it."
        )


def _nature_of_type(kind: Any) -> Nature:
    types = pa.types
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    return "moment" if types.is_temporal(kind) else "other"


def _nature_of_objects(values: Iterable[Any]) -> Nature:
    natures = {_nature_of_value(value) for value in values if value is not None}
    if not natures:
        return "missing"
    for unusable in ("moment", "other"):
        if unusable in natures:
            return cast("Nature", unusable)
    if "text" in natures:
        return "text" if len(natures) == 1 else "mixed"
    return "boolean" if natures == {"boolean"} else "number"


def _nature_of_value(value: Any) -> Nature:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, _MOMENTS):
        return "moment"
    return "number" if isinstance(value, Real | Decimal) else "other"


def _objects(values: Any) -> NDArray[np.object_]:
    if not isinstance(values, Sized):
        raise SettingError(f"A column must be a list or an array; got {type(values).__name__}.")
    objects = np.empty(len(values), dtype=object)
    for row, value in enumerate(cast("Iterable[Any]", values)):
        objects[row] = None if _is_missing(value) else value
    return objects


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124  NaN and NaT differ from themselves
    except TypeError:  # pandas' NA has no truth value
        return True
    except ValueError:  # an array in a cell
        return False


def number_in(text: str) -> float | None:
    """Return the number that a text spells; None if it spells none."""
    try:
        return float(text)
    except ValueError:
        return None


def _loose_number(value: Any, words: Mapping[str, bool]) -> float | None:
    """Return a value as a number, NaN if it is missing; None if it is not a number."""
    if isinstance(value, str):
        return words.get(value.lower(), number_in(value))
    if value is None or _nature_of_value(value) in ("number", "boolean"):
        return _number(value)
    return None


def _number(value: Any) -> float:
    try:
        return np.nan if value is None else float(value)
    except OverflowError:  # a whole number beyond every float
        return np.inf


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _decoded(data: Any) -> Any:
    return data.cast(data.type.value_type) if pa.types.is_dictionary(data.type) else data


def _members(values: Any) -> Iterable[Any]:
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    return cast("Iterable[Any]", values.to_pylist())


def _codes_of_coded(chunk: Any, index: CategoryIndex) -> CategoryCodes:
    """Look up each distinct value once, then spread the codes over the rows."""
    members = [None if _is_missing(value) else value for value in _members(chunk.dictionary)]
    code_of_member = index.codes_of([*members, None])
    places = chunk.indices.cast(pa.int32()).fill_null(len(members)).to_numpy(zero_copy_only=False)
    return cast("CategoryCodes", code_of_member[places])
