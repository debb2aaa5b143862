"""Checks of SQL queries, and the errors of queries that fail."""

import re

from spinney.errors import TableError

_COMMENT = re.compile(r"\s+|--[^\n]*(\n|$)|/\*.*?\*/|\(", re.DOTALL)
_READING = {"select", "with", "values", "from", "table"}


def require_select(query: str) -> None:
    """Raise unless the query's first word begins a read-only statement."""
    start = 0
    while skipped := _COMMENT.match(query, start):
        start = skipped.end()
    word = re.match(r"\w*", query[start:])
    if word is None or word[0].lower() not in _READING:
        raise not_a_select()


def not_a_select() -> TableError:
    """Return the error for a query that is not exactly one SELECT."""
    return TableError(
        "The query is not a single SELECT. Spinney only reads tables; write one SELECT that "
        "returns the schema's columns."
    )


def query_failed(message: str) -> TableError:
    """Return the error for a query that the database refuses."""
    return TableError(
        "The query failed. Correct it, and try it in the database's own command line.",
        local=f"The database says: {first_line(message)}",
    )


def first_line(message: str) -> str:
    """Return the line of a message that says what is wrong."""
    return message.strip().split("\n", maxsplit=1)[0]
