"""Categories that were read from rows and do not leave with a model.

A declared category is a public fact. One that was read from the rows may be a name, a note or a
mistyped cell that only a few rows hold. Such a category keeps its number in a model that leaves,
so that trees and exports stay as they are, but its text is replaced.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from spinney.tables.schema import Category, Column
from spinney.typing import Bools, Integers

RowsOfCategory = tuple[Integers | None, ...]
"""For each column the rows that hold each category, in order; None where they were declared."""

_WITHHELD: Final = re.compile(r"\(withheld \d+\)")


def is_withheld(category: Category) -> bool:
    """Return whether a category's own text was replaced before its model left."""
    return isinstance(category, str) and _WITHHELD.fullmatch(category) is not None


def without_categories(column: Column, hidden: Bools) -> Column:
    """Return a column in which the hidden categories have no text."""
    named = tuple(
        f"(withheld {place + 1})" if hides else category
        for place, (category, hides) in enumerate(zip(column.categories or (), hidden, strict=True))
    )
    return replace(column, categories=named)


def has_withheld(categories: Sequence[Category]) -> bool:
    """Return whether some category's text was replaced."""
    return any(map(is_withheld, categories))
