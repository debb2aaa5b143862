"""Find columns whose numbers differ, but only beyond the precision that trees read (float32)."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import TableError
from spinney.tables.cells import Cells
from spinney.tables.opening import Frame
from spinney.tables.schema import Schema, join_words
from spinney.typing import Values

_NAMED = 20  # columns that a warning names


class OneNumber:
    """The number columns that hold one number, at the precision of trees, in all rows so far."""

    def __init__(self, schema: Schema) -> None:
        self._names = schema.names
        numbers = [place for place, one in enumerate(schema.columns) if one.kind == "number"]
        self._held = dict.fromkeys(numbers, np.float32(np.nan))

    def see(self, values: Values) -> None:
        """Take some more rows, one line per column."""
        for place, number in tuple(self._held.items()):
            low, high = np.fmin.reduce(values[place]), np.fmax.reduce(values[place])
            if low < high or low < number or number < high:
                del self._held[place]
            else:
                self._held[place] = np.fmin(low, number)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of these columns."""
        return tuple(self._names[place] for place in self._held)


def columns_that_differ(names: Sequence[str], frames: Iterable[Frame]) -> tuple[str, ...]:
    """Return which of these columns hold different numbers; whole ones are compared exactly."""
    met: dict[str, set[int | float]] = {name: set() for name in names}
    for frame in frames:
        for name, cells in zip(names, frame.cells, strict=True):
            if cells.nature == "number" and len(met[name]) < 2:
                numbers = cells.numbers()
                ends = {np.fmin.reduce(numbers).item(), np.fmax.reduce(numbers).item()}
                met[name] |= {end for end in ends if end == end}  # noqa: PLR0124  not NaN
    return tuple(name for name in names if len(met[name]) > 1)


def loses_digits(cells: Cells) -> bool:
    """Return whether a column's numbers differ, but are one number at the precision of trees."""
    if cells.nature != "number":
        return False
    numbers = cells.numbers()
    low, high = np.fmin.reduce(numbers), np.fmax.reduce(numbers)
    is_one = bool(np.float32(low) == np.float32(high))
    return is_one and len(set(cells.objects()) - {None}) > 1


def require_digits(labels: NDArray[Any]) -> None:
    """Raise if whole numbers to predict differ, but are one number at the precision of sums."""
    if float(labels.min()) == float(labels.max()):
        raise TableError(
            "The labels differ, but not in the first fifteen digits that sums keep of them "
            "(float64), so that all would be one number. Subtract their mean first."
        )


def lost_digits(columns: Sequence[str]) -> str:
    """Return the warning about such columns."""
    return (
        f"The numbers of {join_words(columns[:_NAMED])} differ, but not in the first seven "
        "digits, at most, that trees read (float32), so that they count as constant. Subtract "
        "their mean, or multiply them, first."
    )
