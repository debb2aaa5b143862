"""Tables as users pass them to `fit` and `predict`, checked against a schema.

Data frames are matched by column name, arrays by position. Here a frame's columns may be in any
order; an estimator, by scikit-learn's contract, refuses an order that differs from `fit`.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from spinney.errors import SchemaError, SettingError, TableError
from spinney.tables.categories import MISSING, UNKNOWN, CategoryCodes, CategoryIndex, values_of
from spinney.tables.cells import WORD_OF_NATURE, Cells, cells_of, refuse_unusable
from spinney.tables.columns import Columns, MatrixColumns, VectorColumns
from spinney.tables.describe import describe
from spinney.tables.names import feature_names
from spinney.tables.opening import Frame, is_plainly_finite, limits, open_frame, refuse_infinite
from spinney.tables.schema import Category, Column, Label, Schema, in_order, join_words
from spinney.tables.withheld import has_withheld

__all__ = ["columns_of", "describe", "encode_target", "feature_names"]

UnknownCategories = Literal["refuse", "as_missing"]


def columns_of(
    X: Any, schema: Schema, *, unknown_categories: UnknownCategories = "refuse"
) -> Columns:
    """Return the features of X in the schema's order, checked and coded by the schema.

    Parameters
    ----------
    X
        A numeric array, a list of rows, or a data frame (pandas, polars, pyarrow).
    schema
        What the columns must be.
    unknown_categories
        What to do with a category that the schema does not name: "refuse" it, or treat it
        "as_missing".
    """
    table = open_frame(X)
    _require_choice(unknown_categories)
    if isinstance(table, Frame):
        return columns_of_frame(table, schema, unknown_categories)
    _require_width(table.shape[1], schema)
    _check_matrix(table, schema, unknown_categories)
    return MatrixColumns(
        table,
        {
            place: _index_of(column)
            for place, column in enumerate(schema.columns)
            if column.kind == "category"
        },
    )


def cells_of_columns(X: Any, schema: Schema) -> tuple[Cells, ...]:
    """Return the cells of X, unchecked, one column after another in the schema's order."""
    table = open_frame(X)
    if isinstance(table, Frame):
        return _in_schema_order(table, schema)
    _require_width(table.shape[1], schema)
    return tuple(cells_of(table[:, place]) for place in range(table.shape[1]))


def columns_of_frame(
    frame: Frame, schema: Schema, unknown_categories: UnknownCategories = "refuse"
) -> Columns:
    """Return the features of an opened frame, as `columns_of` does."""
    _require_choice(unknown_categories)
    cells = _in_schema_order(frame, schema)
    vectors = (
        _vector(column, found, unknown_categories)
        for column, found in zip(schema.columns, cells, strict=True)
    )
    return VectorColumns(tuple(vectors))


def encode_target(y: Any, label: Label) -> NDArray[Any]:
    """Return the labels as a table holds them: int32 class numbers, or float64."""
    where = f"label {label.name!r}"
    cells = cells_of(y)
    refuse_unusable(where, cells)
    return _classes(where, cells, label) if label.kind == "class" else _numbers(where, cells)


def _classes(where: str, cells: Cells, label: Label) -> NDArray[np.int32]:
    if label.classes is None:
        raise SchemaError(f"The {where} has no classes. Declare them in the schema.")
    codes = cells.codes(CategoryIndex(label.classes))
    if (codes == MISSING).any():
        raise _missing_label(where)
    _refuse_unknown(where, "class", cells, codes, label.classes)
    return codes


def _numbers(where: str, cells: Cells) -> NDArray[np.float64]:
    if cells.nature in {"text", "mixed"}:
        raise SchemaError(
            f"The {where} is a number in the schema, but holds {WORD_OF_NATURE[cells.nature]}. "
            "Convert it to numbers, or declare it as a class."
        )
    if cells.nature == "missing":
        if len(cells):
            raise _missing_label(where)
        return np.empty(0)
    numbers = cells.numbers().astype(np.float64)
    if np.isnan(numbers).any():
        raise _missing_label(where)
    if np.isinf(numbers).any():
        raise TableError(f"The {where} holds an infinite number. Replace it by a finite one.")
    return numbers


def _missing_label(where: str) -> TableError:
    return TableError(
        f"The {where} is missing (NaN) in some rows. Every row needs a label; leave those rows out."
    )


def _require_choice(unknown_categories: str) -> None:
    if unknown_categories not in get_args(UnknownCategories):
        raise SettingError(
            f"unknown_categories must be 'refuse' or 'as_missing'; got {unknown_categories!r}."
        )


def _in_schema_order(frame: Frame, schema: Schema) -> tuple[Cells, ...]:
    if frame.names is None:
        _require_width(len(frame.cells), schema)
        return frame.cells
    missing = [name for name in schema.names if name not in frame.names]
    if missing:
        raise SchemaError(
            f"The table has no column {join_words(map(repr, missing))}. It has: "
            f"{join_words(frame.names)}. Rename or add it, or drop it from the schema."
        )
    extra = [name for name in frame.names if name not in schema.names]
    if extra:
        raise SchemaError(
            f"The table has a column {join_words(map(repr, extra))} that the schema does not name. "
            f"The schema has: {join_words(schema.names)}. Drop the column, or add it to the schema."
        )
    cells_of_name = dict(zip(frame.names, frame.cells, strict=True))
    return tuple(cells_of_name[name] for name in schema.names)


def _require_width(n_columns: int, schema: Schema) -> None:
    if n_columns != len(schema.columns):
        raise SchemaError(
            f"The table has {n_columns} columns; the schema has {len(schema.columns)}: "
            f"{join_words(schema.names)}. Pass exactly these, in this order."
        )


def _vector(column: Column, cells: Cells, unknown: UnknownCategories) -> NDArray[Any]:
    where = f"column {column.name!r}"
    refuse_unusable(where, cells)
    nature = cells.nature
    if nature == "missing":
        return np.broadcast_to(np.float32(np.nan), len(cells))
    if column.kind == "category":
        return values_of(_checked_codes(column, cells, unknown))
    if nature not in {"number", "boolean"}:
        raise SchemaError(
            f"The {where} is a {column.kind} in the schema, but holds {WORD_OF_NATURE[nature]}. "
            f"Convert it to {column.kind}s, or declare it as a category."
        )
    numbers = cells.numbers()
    low, high = np.fmin.reduce(numbers), np.fmax.reduce(numbers)
    refuse_infinite(where, low, high)
    if column.kind == "boolean" and nature == "number":
        _refuse_other_than_booleans(where, numbers)
    return numbers.astype(np.float32) if numbers.flags.owndata else numbers


def _checked_codes(column: Column, cells: Cells, unknown: UnknownCategories) -> CategoryCodes:
    where = f"column {column.name!r}"
    index = _index_of(column)
    if has_withheld(index.categories):  # the model knew values whose text it no longer holds
        return cells.codes(index)
    nature = cells.nature
    if nature == "text" and not index.has_text:
        raise SchemaError(
            f"The {where} holds text, but its categories are numbers: "
            f"{join_words(index.categories)}. Convert it, or declare its categories as text."
        )
    if nature in {"number", "boolean"} and not index.has_numbers:
        raise SchemaError(
            f"The {where} holds {WORD_OF_NATURE[nature]}, but its categories are text: "
            f"{join_words(index.categories)}. Convert it, or declare its categories as numbers."
        )
    codes = cells.codes(index)
    if unknown == "refuse":
        _refuse_unknown(where, "category", cells, codes, index.categories)
    return codes


def _refuse_unknown(
    where: str, what: str, cells: Cells, codes: CategoryCodes, known: Sequence[Category]
) -> None:
    if not (codes == UNKNOWN).any():
        return
    met = {value for value in cells.distinct() if value not in set(known)}
    raise SchemaError(
        f"The {where} holds a {what} that the schema does not name. It names: {join_words(known)}. "
        f"Add the {what} to the schema, or leave those rows out{_or_as_missing(what)}.",
        local=f"Not named: {join_words(map(repr, in_order(met)))}.",
    )


def _or_as_missing(what: str) -> str:
    """Name the setting that takes unknown categories; a label has none."""
    return "; to treat it as missing, set unknown_categories='as_missing'" * (what == "category")


def _refuse_other_than_booleans(where: str, numbers: NDArray[Any]) -> None:
    if not ((numbers == 0) | (numbers == 1) | np.isnan(numbers)).all():
        raise TableError(
            f"The {where} is a boolean in the schema, but holds numbers other than 0 and 1. "
            "Convert it to booleans, or declare it as a number."
        )


def _check_matrix(matrix: NDArray[Any], schema: Schema, unknown: UnknownCategories) -> None:
    if not is_plainly_finite(matrix):
        for name, low, high in zip(schema.names, *limits(matrix), strict=True):
            refuse_infinite(f"column {name!r}", low, high)
    for place, column in enumerate(schema.columns):
        if column.kind == "boolean" and matrix.dtype.kind != "b":
            _refuse_other_than_booleans(f"column {column.name!r}", matrix[:, place])
        elif column.kind == "category":
            cells = cells_of(matrix[:, place])
            if cells.nature != "missing":
                _checked_codes(column, cells, unknown)


def _index_of(column: Column) -> CategoryIndex:
    if column.categories is None:
        raise SchemaError(
            f"The column {column.name!r} has no categories. Declare them in the schema."
        )
    return CategoryIndex(column.categories)
