"""Read a schema from the data, and name every public fact that was read.

Used only for simulation and for drafting a party's file: a deployed job declares public facts.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from spinney.errors import SettingError, TableError
from spinney.tables.cells import INFINITIES, Cells, Nature, cells_of, refuse_unusable
from spinney.tables.names import default_names, feature_names
from spinney.tables.opening import MAX_NUMBER, Frame, limits, open_frame, refuse_infinite
from spinney.tables.schema import (
    Category,
    Column,
    Kind,
    Label,
    LabelKind,
    Schema,
    facts_in,
    in_order,
    join_words,
    plain,
)

Categorical = Literal["from_dtype"] | Sequence[Any] | NDArray[Any] | None

MAX_UNDECLARED: Final = 255
"""Longer lists of categories or classes are never read from rows; they must be declared."""
FEW_VALUES: Final = 20  # so many values are not yet taken for free text

_CATEGORICAL = (
    "categorical_features must be 'from_dtype', None, or a list of names, positions or booleans; "
    "got {!r}."
)


@dataclass(frozen=True, slots=True)
class Findings:
    """Facts found in some cells of a column; `|` joins the findings of two parts of a column."""

    natures: frozenset[str] = frozenset()
    low: float = np.nan
    high: float = np.nan
    seen: frozenset[Category] = frozenset()
    n_known: int = 0  # how many cells of a category are not missing
    is_category: bool = False  # some cells were taken as categories
    is_plain: bool = False  # some were not

    def __or__(self, other: "Findings") -> "Findings":
        return Findings(
            self.natures | other.natures,
            float(np.fmin(self.low, other.low)),
            float(np.fmax(self.high, other.high)),
            self.seen | other.seen,
            self.n_known + other.n_known,
            self.is_category or other.is_category,
            self.is_plain or other.is_plain,
        )

    @property
    def is_text_of_rows(self) -> bool:
        """Whether the values tell rows apart, as free text and identifiers do."""
        return len(self.seen) > max(FEW_VALUES, self.n_known / 2)

    @property
    def has_too_many(self) -> bool:
        """Whether there are more values than a list of public categories has."""
        return len(self.seen) > MAX_UNDECLARED

    @property
    def range(self) -> tuple[float, float] | None:
        """The lowest and the highest number, or None if there are no numbers."""
        return None if np.isnan(self.low) else (self.low, self.high)


def describe(
    X: Any,
    y: Any,
    *,
    categorical_features: Categorical = "from_dtype",
    label_kind: LabelKind,
    column_names: Sequence[str] | None = None,
    label_name: str | None = None,
    declared: Collection[str] = (),
    with_ranges: bool = True,
) -> tuple[Schema, tuple[str, ...]]:
    """Return the schema of a table in memory, and a description of each fact read from its cells.

    Parameters
    ----------
    X
        A numeric array, a list of rows, or a data frame (pandas, polars, pyarrow).
    y
        The label of each row.
    categorical_features
        "from_dtype": columns of text or of a categorical type are categories. None: no column is.
        Otherwise the names, the positions, or a boolean mask of the categorical columns.
    label_kind
        "class" or "number".
    column_names
        Names for the columns of an X that has none; x0, x1 ... if not given.
    label_name
        Default: the name of `y` if it has one, else "y".
    declared
        The columns whose categories somebody declared; they may be as many as they are.
    with_ranges
        Whether the columns' ranges are stated; the label's always is.
    """
    table = open_frame(X)
    names = _names(X, table, column_names)
    wanted = wants_categories(categorical_features, names)
    if isinstance(table, Frame):
        columns = []
        for name, cells, wants in zip(names, table.cells, wanted, strict=True):
            found = findings_of(name, cells, wants=wants)
            how = {"is_declared": name in declared, "with_range": with_ranges}
            columns.append(column_of(name, found, **how))
    else:
        columns = _columns_of_matrix(names, table, wanted, declared, with_ranges=with_ranges)
    called = label_name or _label_name(y, names)
    label = label_of(called, label_kind, findings_of_label(called, label_kind, y))
    schema = Schema(tuple(columns), label)
    return schema, facts_in(schema)


def declare(
    X: Any,
    label: str,
    label_kind: LabelKind,
    facts: Mapping[str, Any],
    *,
    categorical_features: Categorical = "from_dtype",
) -> Schema:
    """Return a schema with the columns and kinds of X, and with these facts only.

    A fact is a pair of numbers, the range of a column of numbers or of the label, or a list of
    categories or classes. No value is read from the rows; a categorical type's own list counts as
    declared.
    """
    table = open_frame(X)
    names = _names(X, table, None)
    wanted = wants_categories(categorical_features, names)
    kinds: dict[str, Kind] = {}
    given = dict(facts)
    for place, name in enumerate(names):
        cells = table.cells[place] if isinstance(table, Frame) else cells_of(table[:, place])
        refuse_unusable(f"column {name!r}", cells)
        is_coded = cells.is_coded and wanted[place] is None
        if cells.nature in {"text", "mixed"} or wanted[place] or is_coded:
            kinds[name] = "category"
            if is_coded:
                given.setdefault(name, in_order(cells.distinct()))
        else:
            kinds[name] = "boolean" if cells.nature == "boolean" else "number"
    return Schema.declared(kinds, Label(label, label_kind), given)


def complete_schema(declared: Schema, found: Schema) -> tuple[Schema, tuple[str, ...]]:
    """Fill the facts that a declared schema leaves open from a schema read from the data.

    Returns the full schema, and a description of each filled fact.
    """
    columns = tuple(
        _filled_column(column, found.column(column.name)) for column in declared.columns
    )
    label = declared.label
    if label.kind == found.label.kind:
        classes = found.label.classes if label.classes is None else label.classes
        ends = found.label.range if label.range is None else label.range
        label = Label(label.name, label.kind, classes, ends)
    full = Schema(columns, label)
    stated = set(facts_in(declared))
    return full, tuple(fact for fact in facts_in(full) if fact not in stated)


def wants_categories(chosen: Categorical, names: Sequence[str]) -> list[bool | None]:
    """Return for each column whether it is a category; None where its type decides."""
    if chosen is None:
        return [False] * len(names)
    if isinstance(chosen, str):
        if chosen == "from_dtype":
            return [None] * len(names)
        raise SettingError(_CATEGORICAL.format(chosen))
    given = list(chosen) if isinstance(chosen, Iterable) and not isinstance(chosen, dict) else None
    if given is None or not all(isinstance(item, str | Real | np.bool_) for item in given):
        raise SettingError(_CATEGORICAL.format(chosen))
    given = [plain(item) for item in given]
    if given and all(isinstance(item, bool) for item in given):
        if len(given) != len(names):
            raise SettingError(
                f"categorical_features has {len(given)} booleans for {len(names)} columns. "
                "Give one per column."
            )
        return [bool(item) for item in given]
    places = {_place(item, names) for item in given}
    return [place in places for place in range(len(names))]


def findings_of(name: str, cells: Cells, *, wants: bool | None) -> Findings:
    """Return the findings of a column's cells."""
    where = f"column {name!r}"
    refuse_unusable(where, cells)
    nature = cells.nature
    is_text = nature in {"text", "mixed"}
    if is_text and wants is False:
        raise SettingError(
            f"The {where} holds text but is not among categorical_features. "
            "Add it there, or pass categorical_features='from_dtype'."
        )
    if is_text or wants or (cells.is_coded and wants is None):
        return _category_findings(where, nature, cells)
    if nature == "missing":
        return Findings(frozenset({nature}))
    numbers = cells.numbers()
    low, high = float(np.fmin.reduce(numbers)), float(np.fmax.reduce(numbers))
    refuse_infinite(where, low, high)
    return _plain_findings(nature, low, high)


def column_of(
    name: str, found: Findings, *, is_declared: bool = False, with_range: bool = True
) -> Column:
    """Return the column that the findings of all its cells describe.

    Categories that nobody declared must be few.
    """
    if found.is_category and found.is_plain:
        raise TableError(
            f"The column {name!r} holds text in some rows and numbers in others. "
            "Make it one of the two, or name it in categorical_features."
        )
    if found.seen:
        if not is_declared:
            _refuse_private_values(name, found)
        return Column(name, "category", categories=in_order(found.seen))
    if found.natures - {"missing"} == {"boolean"}:
        return Column(name, "boolean")
    return Column(name, "number", range=found.range if with_range else None)


def findings_of_label(name: str, kind: LabelKind, y: Any) -> Findings:
    """Return the findings of the labels."""
    where = f"label {name!r}"
    cells = cells_of(y)
    refuse_unusable(where, cells)
    if kind == "class":
        return _category_findings(where, cells.nature, cells)
    if cells.nature in {"text", "mixed"}:
        raise TableError(
            f"The label {name!r} holds text, but a regressor predicts numbers. "
            "Convert it to numbers, or use a classifier."
        )
    if cells.nature == "missing":
        return Findings(frozenset({"missing"}))
    numbers = cells.numbers()
    return Findings(
        frozenset({"number"}), float(np.fmin.reduce(numbers)), float(np.fmax.reduce(numbers))
    )


def label_of(name: str, kind: LabelKind, found: Findings) -> Label:
    """Return the label that the findings of all its cells describe."""
    if found.natures <= {"missing"}:
        raise TableError(f"The label {name!r} is missing in every row. Every row needs a label.")
    if kind == "number":
        ends = found.range
        is_finite = ends is not None and np.isfinite(ends).all()
        return Label(name, kind, range=ends if is_finite else None)
    if len(found.seen) < 2:
        raise TableError(
            f"The label {name!r} has one class only. A classifier needs at least 2 classes; "
            "check the label, or declare all classes in a schema."
        )
    if found.has_too_many or found.is_text_of_rows:
        refuse_amounts(name)
    return Label(name, kind, classes=in_order(found.seen))


def _names(
    X: Any, table: Frame | NDArray[Any], column_names: Sequence[str] | None
) -> tuple[str, ...]:
    own = feature_names(X)
    n_columns = len(table.cells) if isinstance(table, Frame) else table.shape[1]
    if column_names is None:
        return own or default_names(n_columns)
    given = tuple(column_names)
    if own is not None and own != given:
        raise SettingError(
            f"The table already has column names: {join_words(own)}. "
            "Leave column_names out, or rename the columns."
        )
    if len(given) != n_columns:
        raise SettingError(
            f"column_names has {len(given)} names for {n_columns} columns. Give one per column."
        )
    return given


def _place(item: Category, names: Sequence[str]) -> int:
    if isinstance(item, str) and item in names:
        return names.index(item)
    if isinstance(item, int) and not isinstance(item, bool) and -len(names) <= item < len(names):
        return item % len(names)
    raise SettingError(
        f"categorical_features names {item!r}, which is not a column. "
        f"The table has {len(names)} columns: {join_words(names)}."
    )


def _columns_of_matrix(
    names: Sequence[str],
    matrix: NDArray[Any],
    wanted: Sequence[bool | None],
    declared: Collection[str],
    *,
    with_ranges: bool,
) -> list[Column]:
    low, high = limits(matrix)
    for place in np.flatnonzero((low < -MAX_NUMBER) | (high > MAX_NUMBER)).tolist():
        refuse_infinite(f"column {names[place]!r}", low[place], high[place])
    kind: Kind = "boolean" if matrix.dtype.kind == "b" else "number"
    columns = []
    # Ends are rounded as the cells will be, so that every cell is inside the range.
    ends = zip(low.astype(np.float32).tolist(), high.astype(np.float32).tolist(), strict=True)
    for place, (least, most) in enumerate(ends):
        name = names[place]
        if wanted[place]:
            found = findings_of(name, cells_of(matrix[:, place]), wants=True)
            columns.append(column_of(name, found, is_declared=name in declared))
        elif math.isnan(least) or (kind == "number" and not with_ranges):
            columns.append(Column(name, "number"))
        else:
            columns.append(Column(name, kind, (least, most) if kind == "number" else None))
    return columns


def _category_findings(where: str, nature: Nature, cells: Cells) -> Findings:
    seen = cells.distinct()
    if seen & INFINITIES:
        raise TableError(
            f"The {where} holds an infinite number, which cannot be a category. "
            "Replace it by a finite one, or leave it out."
        )
    return Findings(
        frozenset({nature}), seen=frozenset(seen), n_known=cells.n_known, is_category=True
    )


def _refuse_private_values(name: str, found: Findings) -> None:
    """Raise if a column's values must not become public categories."""
    if not (found.has_too_many or found.is_text_of_rows):
        return
    why = (
        "is different in almost every row, like free text or an identifier"
        if found.is_text_of_rows
        else f"holds more than {MAX_UNDECLARED} different values"
    )
    raise TableError(
        f"The column {name!r} {why}. Such values are never read from rows into a model: leave the "
        "column out, group its values, or declare its categories in a schema."
    )


def refuse_amounts(name: str) -> NoReturn:
    """Raise because a class label has as many classes as an amount has values."""
    raise TableError(
        f"The label {name!r} has too many different values to be classes: more than "
        f"{MAX_UNDECLARED}, or a new one in almost every row. If it is an amount, predict a "
        'number (--task regression, task = "regression" in a job file, or a regressor). If '
        "these are classes, declare them in a schema."
    )


def _plain_findings(nature: Nature, low: float, high: float) -> Findings:
    """Round the ends as the cells will be rounded, so that every cell is inside the range."""
    if np.isnan(low):
        return Findings(frozenset({"missing"}))
    ends = float(np.float32(low)), float(np.float32(high))
    return Findings(frozenset({nature}), *ends, is_plain=True)


def _filled_column(declared: Column, found: Column) -> Column:
    if declared.kind != found.kind:
        return declared
    return Column(
        declared.name,
        declared.kind,
        found.range if declared.range is None else declared.range,
        found.categories if declared.categories is None else declared.categories,
    )


def _label_name(y: Any, names: Sequence[str]) -> str:
    own = getattr(y, "name", None)
    name = own if isinstance(own, str) and own else "y"
    while name in names:
        name += "_"
    return name
