"""Categories, classes and ranges that were read from rows and do not leave with a model.

A declared value is a public fact. One that was read from the rows may be a name, a note or a
mistyped cell that only a few rows hold. Such a value keeps its number in a model that leaves, so
that trees and exports stay as they are, but its text is replaced. The ends of a range that was
read are cells of single rows, so they are rounded outward.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from spinney.tables.schema import Category, Column, Label
from spinney.typing import Bools, Integers

FEW_ROWS: Final = 5
"""A value that fewer rows hold is not written for others to read, unless it was declared."""

PARTS: Final = 20  # a range is rounded to so many parts, or to coarser ones
_WITHHELD: Final = re.compile(r"\(withheld \d+\)")


@dataclass(frozen=True)
class UndeclaredRows:
    """How many rows hold each value that was read from them."""

    of_category: tuple[Integers | None, ...] = ()  # by column; None where they were declared
    of_class: Integers | None = None  # None where they were declared
    ranges: frozenset[str] = frozenset()  # columns and labels whose ends are cells of rows


def is_withheld(category: Category) -> bool:
    """Return whether a value's own text was replaced before its model left."""
    return isinstance(category, str) and _WITHHELD.fullmatch(category) is not None


def without_categories(column: Column, hidden: Bools) -> Column:
    """Return a column in which the hidden categories have no text."""
    return replace(column, categories=_renamed(column.categories or (), hidden))


def without_classes(label: Label, hidden: Bools) -> Label:
    """Return a label in which the hidden classes have no text."""
    return replace(label, classes=_renamed(label.classes or (), hidden))


def rounded_outward(low: float, high: float) -> tuple[float, float]:
    """Return a range with round ends around another, a tenth wider or so."""
    unit = round_number((high - low) / PARTS)
    return math.floor(low / unit) * unit, math.ceil(high / unit) * unit


def round_number(least: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least so much."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return power * next(step for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))


def has_withheld(categories: Sequence[Category]) -> bool:
    """Return whether some category's text was replaced."""
    return any(map(is_withheld, categories))


def _renamed(values: Sequence[Category], hidden: Bools) -> tuple[Category, ...]:
    return tuple(
        f"(withheld {place + 1})" if hides else value
        for place, (value, hides) in enumerate(zip(values, hidden, strict=True))
    )
