"""Look up the index of a category, given as text or as a number."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.tables.schema import Category
from spinney.typing import Integers, Values

CategoryCodes = NDArray[np.int32]  # (n_rows,) index of a category, or one of the two below

MISSING = -1
UNKNOWN = -2


@dataclass(frozen=True)
class CategoryIndex:
    """The numbers of a column's categories, in the schema's order.

    Numbers are compared by value (1, 1.0 and True are one category), text by its characters. Text
    never equals a number.
    """

    categories: tuple[Category, ...]

    @property
    def has_text(self) -> bool:
        """Whether some category is text."""
        return any(isinstance(category, str) for category in self.categories)

    @property
    def has_numbers(self) -> bool:
        """Whether some category is a number or a boolean."""
        return any(not isinstance(category, str) for category in self.categories)

    def codes_of(self, values: Iterable[Any]) -> CategoryCodes:
        """Return the code of each Python value; None is missing."""
        return np.fromiter(map(self.code_of, values), dtype=np.int32)

    def code_of(self, value: Any) -> int:
        """Return the code of a Python value; None is missing."""
        return MISSING if value is None else self._code_of.get(value, UNKNOWN)

    def codes_of_numbers(self, numbers: NDArray[Any]) -> CategoryCodes:
        """Return the code of each number; NaN is missing."""
        sorted_numbers, code_of_sorted = self._sorted
        unfound = np.where(np.isnan(numbers), np.int32(MISSING), np.int32(UNKNOWN))
        if not sorted_numbers.size:
            return unfound
        place = np.minimum(np.searchsorted(sorted_numbers, numbers), sorted_numbers.size - 1)
        return np.where(sorted_numbers[place] == numbers, code_of_sorted[place], unfound)

    @cached_property
    def _code_of(self) -> dict[Category, int]:
        return {category: code for code, category in enumerate(self.categories)}

    @cached_property
    def _sorted(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        numbers = {
            category: code
            for code, category in enumerate(self.categories)
            if not isinstance(category, str)
        }
        codes: Integers = np.fromiter(numbers.values(), dtype=np.int64)
        whole = all(isinstance(number, int) and abs(number) < 2**63 for number in numbers)
        keys = np.array(list(numbers), dtype=np.int64 if whole else np.float64)
        order = np.argsort(keys)
        return keys[order], codes[order].astype(np.int32)


def values_of(codes: CategoryCodes) -> Values:
    """Return codes as a table holds them: both missing and unknown become NaN."""
    return np.where(codes < 0, np.float32(np.nan), codes.astype(np.float32))
