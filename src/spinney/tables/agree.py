"""Compare the schemas of all parties and say exactly where they differ."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from spinney.errors import SchemaError, SettingError
from spinney.tables.schema import Column, Label, Schema, join_words

_LISTS = {"categories", "classes"}


def agree(schemas: Mapping[str, Schema]) -> Schema:
    """Return the schema that all parties share, or raise naming every difference.

    The order of columns, categories and classes matters: bins and trees use it to number them.

    Parameters
    ----------
    schemas
        Each party's schema, by party name.

    Raises
    ------
    SchemaError
        If any party's columns, kinds, ranges, categories, classes or label differ from those of
        the first party, or their order does. The message has one sentence per difference.
    """
    if not schemas:
        raise SettingError("There are no schemas to compare. Give at least one party's schema.")
    (first, reference), *others = schemas.items()
    differences = [
        difference
        for party, schema in others
        for difference in _differences(first, reference, party, schema)
    ]
    if differences:
        raise SchemaError("The parties' schemas differ. " + " ".join(differences))
    return reference


def _differences(first: str, reference: Schema, party: str, schema: Schema) -> Iterator[str]:
    known = set(schema.names)
    for column in reference.columns:
        if column.name not in known:
            yield (
                f"Party {party!r} has no column {column.name!r}, which party {first!r} has. "
                f"It has: {join_words(schema.names)}. Rename it, or drop it from the job."
            )
            continue
        yield from _unequal(
            first, party, f"column {column.name!r}", column, schema.column(column.name)
        )
    expected = set(reference.names)
    for name in schema.names:
        if name not in expected:
            yield (
                f"Party {party!r} has a column {name!r}, which party {first!r} does not have. "
                f"Drop it at {party!r}, or add it at {first!r}."
            )
    if schema.names != reference.names and set(schema.names) == set(reference.names):
        yield (
            f"Party {party!r} orders its columns differently from party {first!r}: "
            f"{join_words(schema.names)}. Declare them at both in the order "
            f"{join_words(reference.names)}."
        )
    yield from _unequal(first, party, "the label", reference.label, schema.label)


def _unequal(
    first: str, party: str, where: str, here: Column | Label, there: Column | Label
) -> Iterator[str]:
    for fact in [field.name for field in fields(here)]:
        mine, theirs = getattr(here, fact), getattr(there, fact)
        if mine == theirs:
            continue
        yield (
            f"Party {party!r} declares {fact} {_worded(theirs)} for {where}; "
            f"party {first!r} declares {_worded(mine)}. "
            f"Declare the same {fact} at both.{_only_one_names(fact, mine, theirs)}"
        )
        if fact == "kind":
            return  # the other facts differ only because the kinds do


def _worded(value: Any) -> str:
    if value is None:
        return "nothing"
    return f"[{join_words(map(repr, value))}]" if isinstance(value, tuple) else repr(value)


def _only_one_names(fact: str, mine: Any, theirs: Any) -> str:
    """Name the items that only one side lists; two long lists are hard to compare by eye."""
    if fact not in _LISTS or mine is None or theirs is None:
        return ""
    if set(mine) == set(theirs):
        return " Only their order differs, and the order matters."
    only = [repr(member) for member in (*mine, *theirs) if (member in mine) != (member in theirs)]
    return f" Only one of them names {join_words(only)}."
