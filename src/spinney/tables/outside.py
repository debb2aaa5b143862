"""What a private job does with values that its schema does not allow: it refuses none of them.

A refusal would tell the other organisations that such a value exists, and no budget pays for that.
So every cell becomes a value of the schema, by a rule that looks at its own record alone. One
record then changes one record, and what a mechanism promises for a record holds for the value that
the party wrote.

| in the table | in the job |
|---|---|
| an undeclared category | missing, or "other" if the schema declares that category |
| an infinite number | the end of the declared range; missing if there is none |
| text in place of a number, a boolean or a category | missing |
| an undeclared class | "other" if the schema declares that class; otherwise as a missing label |
| an infinite label | the end of the declared range |
| a missing label | its row is left out; or, if others may count the rows, one that is drawn |
| a missing row id | the row's own cells |

A finite number outside its range is not changed here: trees put it into the first or last bin.
`Changes` counts what was changed, for the party's own log.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from spinney.errors import SpinneyWarning
from spinney.seeds import row_hashes
from spinney.tables.categories import UNKNOWN, CategoryCodes, CategoryIndex, values_of
from spinney.tables.cells import TRUTHS, Cells, number_in
from spinney.tables.columns import VectorColumns
from spinney.tables.opening import MAX_NUMBER
from spinney.tables.schema import Category, Column, Label, Schema
from spinney.typing import Bools, Keys, Values

Outside = Literal["refuse", "leave_out", "keep"]
"""What happens to values that the schema does not allow.

"refuse" raises, as jobs without noise do. The other two change the values; they differ in rows
without a label: "leave_out" drops them, "keep" draws a label, because others may count the rows.
"""

Changes = Counter[tuple[str, str]]  # (where, what happened) -> the number of cells or rows

OTHER: Final = "other"
_OF_ONE: Final = {
    "cells": "cell", "classes": "class", "labels": "label", "numbers": "number", "rows": "row",
    "are": "is", "count": "counts", "have": "has",
}  # fmt: skip


def sentences(changes: Changes) -> list[str]:
    """Say what was changed; the numbers depend on the rows, so this is for their owner only."""
    return [
        f"{where}: {count} {what if count > 1 else _of_one(what)}."
        for (where, what), count in changes.items()
    ]


def _of_one(what: str) -> str:
    """Say of one cell, label or row what is said of several."""
    return " ".join(_OF_ONE.get(word, word) for word in what.split())


def warn_of_changes(changes: Changes) -> None:
    """Tell the user of a simulation, who holds all tables, what was changed."""
    if changes:
        warnings.warn(
            f"Values outside the schema were changed, as in every private job: "
            f"{' '.join(sentences(changes))} A real party reads this in its own log only.",
            SpinneyWarning,
            stacklevel=2,
        )


@dataclass(frozen=True)
class _LooseIndex(CategoryIndex):
    """Looks up any value; text that reads as a declared number or truth value is that one."""

    def codes_of(self, values: Iterable[Any]) -> CategoryCodes:
        """Return the code of each Python value; None is missing."""
        words: Mapping[str, bool] = TRUTHS
        if not any(isinstance(category, bool) for category in self.categories):
            words = {}

        def code(value: Any) -> int:
            try:
                known = super(_LooseIndex, self).code_of(value)
            except TypeError:  # a value that cannot be a category, such as a list
                return UNKNOWN
            if known != UNKNOWN or not isinstance(value, str):
                return known
            meant = words.get(value.lower(), number_in(value))
            return UNKNOWN if meant is None else super(_LooseIndex, self).code_of(meant)

        return np.fromiter(map(code, values), dtype=np.int32)


def changed_columns(cells: Sequence[Cells], schema: Schema, changes: Changes) -> VectorColumns:
    """Return the features in the schema's order; what the schema does not allow is changed."""
    vectors = (
        _changed_vector(column, found, changes)
        for column, found in zip(schema.columns, cells, strict=True)
    )
    return VectorColumns(tuple(vectors))


def changed_target(
    cells: Cells, label: Label, draws: Keys, outside: Outside, changes: Changes
) -> tuple[NDArray[Any], Bools]:
    """Return the labels, and which rows have one; with "keep" all rows do.

    `draws` has a number for each row that does not depend on its label.
    """
    where = f"Label {label.name!r}"
    target, kept = (_classes if label.kind == "class" else _amounts)(where, cells, label, changes)
    lost = ~kept
    if outside != "keep":
        what = "left out"
    elif label.kind == "class":
        what = "given a class at random"
        n_classes = np.uint64(len(label.classes or (0,)))
        target[lost] = (draws[lost] % n_classes).astype(np.int32)
    else:
        what = "given the middle of its range"
        low, high = label.range or (0.0, 0.0)
        target[lost] = low / 2 + high / 2
    count_change(changes, where, f"rows have no label and are {what}", int(lost.sum()))
    return target, kept | (outside == "keep")


def draws_of(values: Values, ids: Keys | None) -> Keys:
    """Return a number for each row, from its cells and its id."""
    return row_hashes(values, np.zeros(values.shape[1])) ^ (np.uint64(0) if ids is None else ids)


def _changed_vector(column: Column, cells: Cells, changes: Changes) -> NDArray[Any]:
    where = f"Column {column.name!r}"
    if column.kind == "category":
        return values_of(_codes(where, cells, column.categories or (), changes))
    is_boolean = column.kind == "boolean"
    numbers, n_unread = cells.loose_numbers(TRUTHS if is_boolean else {})
    if not is_boolean:
        count_change(changes, where, "cells are no numbers and count as missing", n_unread)
        return _finite(where, numbers, column.range, changes)
    wrong = ~((numbers == 0) | (numbers == 1) | np.isnan(numbers))
    n_wrong = n_unread + int(wrong.sum())
    count_change(changes, where, "cells are not true or false and count as missing", n_wrong)
    return np.where(wrong, np.nan, numbers).astype(np.float32)


def _codes(
    where: str, cells: Cells, categories: Sequence[Category], changes: Changes, kind: str = "cells"
) -> CategoryCodes:
    """Return each cell's category; one that is not declared is "other", or missing."""
    codes = cells.loose_codes(_LooseIndex(tuple(categories)))
    unknown = codes == UNKNOWN
    n_unknown = int(unknown.sum())
    if OTHER in categories:
        codes = np.where(unknown, np.int32(categories.index(OTHER)), codes)
        count_change(changes, where, f"{kind} are not declared and count as {OTHER!r}", n_unknown)
    else:
        count_change(changes, where, f"{kind} are not declared and count as missing", n_unknown)
    return codes


def _finite(
    where: str, numbers: NDArray[Any], ends: tuple[float, float] | None, changes: Changes
) -> NDArray[Any]:
    """Return numbers that float32 holds."""
    low, high = numbers < -MAX_NUMBER, numbers > MAX_NUMBER
    n_infinite = int(low.sum() + high.sum())
    if not n_infinite:
        return numbers.astype(np.float32) if numbers.flags.owndata else numbers
    as_what = "missing" if ends is None else "the ends of the declared range"
    count_change(changes, where, f"cells are infinite and count as {as_what}", n_infinite)
    first, last = (np.nan, np.nan) if ends is None else _ends_inside(ends)
    return np.select([low, high], [first, last], numbers).astype(np.float32)


def _ends_inside(ends: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of a range as float32 numbers that do not lie outside it."""
    first, last = np.float32(ends[0]), np.float32(ends[1])
    if float(first) < ends[0]:
        first = np.nextafter(first, np.float32(np.inf))
    if float(last) > ends[1]:
        last = np.nextafter(last, np.float32(-np.inf))
    return float(first), float(last)


def _classes(
    where: str, cells: Cells, label: Label, changes: Changes
) -> tuple[NDArray[Any], Bools]:
    codes = _codes(where, cells, label.classes or (), changes, "classes")
    return np.maximum(codes, 0), codes >= 0


def _amounts(
    where: str, cells: Cells, label: Label, changes: Changes
) -> tuple[NDArray[Any], Bools]:
    found, n_unread = cells.loose_numbers({})
    numbers = np.array(found, np.float64)
    count_change(changes, where, "labels are no numbers and count as missing", n_unread)
    infinite = np.isinf(numbers)
    if label.range is not None and infinite.any():
        count_change(changes, where, "labels are infinite and count as ends", int(infinite.sum()))
        numbers[infinite] = numbers[infinite].clip(*label.range)
    kept = np.isfinite(numbers)
    numbers[~kept] = 0.0
    return numbers, kept


def count_change(changes: Changes, where: str, what: str, count: int) -> None:
    """Count cells or rows that were changed."""
    if count:
        changes[where, what] += count
