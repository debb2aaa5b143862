"""The public facts of a table: its columns' kinds, ranges and categories, and its label.

The parties agree on a schema before any row is read; nothing in it is secret. The order of
`categories` and `classes` gives each its number: the first is 0.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from spinney.errors import SchemaError, SettingError

Category = str | int | float | bool
Kind = Literal["number", "category", "boolean"]
LabelKind = Literal["class", "number"]

_WHOLE = 2**63  # arrays and messages hold smaller whole numbers exactly
_KINDS: tuple[Kind, ...] = get_args(Kind)
_LABEL_KINDS: tuple[LabelKind, ...] = get_args(LabelKind)
MAX_CATEGORIES = 2**24  # every index up to here is exact as float32


@dataclass(frozen=True, slots=True)
class Column:
    """One feature: its name, its kind, and the public facts about its values."""

    name: str
    kind: Kind
    range: tuple[float, float] | None = None
    categories: tuple[Category, ...] | None = None

    def __post_init__(self) -> None:
        where = _named("column", self.name)
        _require_kind(where, self.kind, _KINDS)
        if self.range is not None:
            _require(self.kind == "number", where, self.kind, "range", "number")
            object.__setattr__(self, "range", _checked_range(where, self.range))
        if self.categories is not None:
            _require(self.kind == "category", where, self.kind, "categories", "category")
            kept = _checked_categories(where, "categories", self.categories)
            object.__setattr__(self, "categories", kept)


@dataclass(frozen=True, slots=True)
class Label:
    """The target to predict: one of a list of classes, or a number."""

    name: str
    kind: LabelKind
    classes: tuple[Category, ...] | None = None
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        where = _named("label", self.name)
        _require_kind(where, self.kind, _LABEL_KINDS)
        if self.range is not None:
            _require(self.kind == "number", where, self.kind, "range", "number")
            object.__setattr__(self, "range", _checked_range(where, self.range))
        if self.classes is not None:
            _require(self.kind == "class", where, self.kind, "classes", "class")
            kept = _checked_categories(where, "classes", self.classes)
            if len(kept) < 2:
                raise SettingError(
                    f"The {where} has fewer than 2 classes. A class label needs at least 2; "
                    "name every class that any party may hold."
                )
            object.__setattr__(self, "classes", kept)


@dataclass(frozen=True)
class Schema:
    """The label, and the columns in the order that every party and every model uses."""

    columns: tuple[Column, ...]
    label: Label

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if not self.columns:
            raise SchemaError("The schema has no columns. Declare at least one.")
        repeated = _repeated(self.names)
        if repeated:
            raise SchemaError(
                f"The schema declares {join_words(repeated)} more than once. "
                "Give every column a different name."
            )
        if self.label.name in self.names:
            raise SchemaError(
                f"The schema declares {self.label.name!r} both as a column and as the label. "
                "A label cannot be used to predict itself; drop the column or rename it."
            )

    @classmethod
    def from_frame(
        cls, frame: Any, *, label: str = "y", ranges: Mapping[str, Any] | None = None
    ) -> "Schema":
        """Return the schema of a data frame: its columns and kinds, and the facts in `ranges`.

        Parameters
        ----------
        frame
            A data frame; `label` may be one of its columns, and is none of the schema's then.
        label
            The name of the label, as `fit` calls a label without a name. It is a class, unless
            `ranges` gives it two numbers.
        ranges
            Public facts by column: (lowest, highest) for numbers, a list of values for categories,
            and the label's classes or range. Nothing is read from the rows.
        """
        facts = dict(ranges or {})
        given = facts.get(label)
        is_range = isinstance(given, tuple) and len(given) == 2
        is_range &= not any(isinstance(end, str) for end in given or ())
        kind: LabelKind = "number" if is_range else "class"
        table = pa.table(frame) if hasattr(frame, "__arrow_c_stream__") else pa.table(dict(frame))
        kinds: dict[str, Kind] = {}
        for field in table.schema:
            if field.name == label or str(field.name).startswith("__index_level_"):
                continue
            kinds[field.name] = _kind_of_type(field.name, field.type)
            if pa.types.is_dictionary(field.type) and field.name not in facts:
                facts[field.name] = in_order(
                    table[field.name].combine_chunks().dictionary.to_pylist()
                )
        return cls.declared(kinds, Label(label, kind), facts)

    @classmethod
    def declared(
        cls, kinds: Mapping[str, Kind], label: Label, facts: Mapping[str, Any]
    ) -> "Schema":
        """Return a schema of these kinds with these facts: ranges, or lists of values."""
        unknown = [name for name in facts if name not in (*kinds, label.name)]
        if unknown:
            raise SettingError(
                f"The schema declares {join_words(map(repr, unknown))}, which is neither a column "
                f"nor the label {label.name!r}. The columns are: {join_words(kinds)}."
            )
        columns = tuple(
            Column(name, kind, categories=facts.get(name))
            if kind == "category"
            else Column(name, "number" if name in facts else kind, range=facts.get(name))
            for name, kind in kinds.items()
        )
        given = facts.get(label.name)
        if label.kind == "class":
            return cls(columns, Label(label.name, "class", classes=given))
        return cls(columns, Label(label.name, "number", range=given))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Return the column called `name`."""
        place = self._places.get(name)
        if place is None:
            raise SchemaError(
                f"The schema has no column {name!r}. It has: {join_words(self.names)}."
            )
        return self.columns[place]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in reversed(list(enumerate(self.names)))}

    def digest(self) -> str:
        """Return the SHA-256 of the schema as canonical JSON; equal schemas have equal digests."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        facts = {
            "columns": [_facts_of(column) for column in self.columns],
            "label": _facts_of(self.label),
        }
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _facts_of(part: Column | Label) -> dict[str, Any]:
    """Return what a column or label states, by name; `asdict` copies every value."""
    return {name: getattr(part, name) for name in part.__slots__}


def _kind_of_type(name: str, kind: Any) -> Kind:
    types = pa.types
    if types.is_boolean(kind):
        return "boolean"
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind):
        return "category"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_null(kind):
        return "number"
    raise SettingError(
        f"The column {name!r} holds values of type {kind}. A schema has numbers, categories and "
        "booleans; convert it or drop it."
    )


def facts_in(schema: Schema) -> tuple[str, ...]:
    """Name every range, list of categories and list of classes that a schema states."""
    facts = []
    for column in schema.columns:
        if column.range is not None:
            facts.append(f"range of {column.name!r}")
        if column.categories is not None:
            facts.append(f"categories of {column.name!r}")
    if schema.label.classes is not None:
        facts.append(f"classes of {schema.label.name!r}")
    if schema.label.range is not None:
        facts.append(f"range of {schema.label.name!r}")
    return tuple(facts)


def plain(value: Any) -> Category:
    """Return a category as a built-in Python type; a whole number is always an int."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return _held(int(value))
    if isinstance(value, Real) and math.isfinite(value):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < _WHOLE else number
    raise SettingError(
        f"A category must be text, a finite number, or true or false; got a value of type "
        f"{type(value).__name__}."
    )


def _held(number: int) -> int:
    """Return a whole number; raise if arrays and messages cannot hold it exactly."""
    if not -_WHOLE <= number < _WHOLE:
        raise SettingError(
            "A class or category that is a whole number must lie between -2^63 and 2^63 - 1, so "
            "that it is held exactly. Write larger ones as text."
        )
    return number


def in_order(categories: Iterable[Category]) -> tuple[Category, ...]:
    """Return the distinct categories in an order that does not depend on the input order.

    Numbers come first, by value; then text, by its characters.
    """
    distinct = set(categories)
    numbers = [category for category in distinct if not isinstance(category, str)]
    texts = [category for category in distinct if isinstance(category, str)]
    return (*sorted(numbers), *sorted(texts))


def join_words(names: Iterable[Any], at_most: int = 12) -> str:
    """Return names as a message shows them: the first few, then how many more."""
    texts = [str(name) for name in names]
    shown = ", ".join(texts[:at_most])
    return shown if len(texts) <= at_most else f"{shown} and {len(texts) - at_most} more"


def _named(role: str, name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise SettingError(
            f"A {role} needs a name that is non-empty text; got {name!r}. Give it one."
        )
    return f"{role} {name!r}"


def _require_kind(where: str, kind: Any, kinds: tuple[str, ...]) -> None:
    if kind not in kinds:
        raise SettingError(f"The kind of {where} must be {' or '.join(kinds)}; got {kind!r}.")


def _require(fits: bool, where: str, kind: str, fact: str, right: str) -> None:  # noqa: FBT001
    if not fits:
        raise SettingError(
            f"The {where} has kind {kind!r}, which has no {fact}. "
            f"Drop its {fact}, or declare its kind as {right!r}."
        )


def _checked_range(where: str, given: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) + 0.0 for end in given)  # + 0.0: the two zeros are one
    except (TypeError, ValueError):
        raise SettingError(
            f"The range of {where} must be two numbers, lowest first; got {given!r}."
        ) from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise SettingError(f"The range of {where} must be finite; got [{low}, {high}].")
    if low > high:
        raise SettingError(
            f"The range of {where} must have its lowest number first; got [{low}, {high}]."
        )
    return low, high


def _checked_categories(where: str, fact: str, given: Any) -> tuple[Category, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise SettingError(f"The {fact} of {where} must be a list; got {given!r}.")
    kept = tuple(plain(value) for value in given)
    if not kept:
        raise SettingError(f"The {fact} of {where} are an empty list. Name at least one.")
    if len(kept) > MAX_CATEGORIES:
        raise SettingError(
            f"The {where} has more than {MAX_CATEGORIES} {fact}. Group them, or drop the column."
        )
    repeated = _repeated(kept)
    if repeated:
        raise SettingError(
            f"The {fact} of {where} name {join_words(repeated)} more than once. Name each one once."
        )
    return kept


def _repeated(names: Iterable[Category]) -> list[Category]:
    return [name for name, times in Counter(names).items() if times > 1]
