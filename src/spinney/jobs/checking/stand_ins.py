"""Numbers that may stand for "missing": an age of 999, a count of -1 where all others are above."""

from typing import Final

from spinney.jobs.checking.columns import Use
from spinney.jobs.checking.notes import Note, some
from spinney.tables.files import name_in_sql
from spinney.tables.profile import OpenTable

_CODES: Final = frozenset(code for n in range(1, 8) for code in (10**n - 1, 10**n - 2))


def stand_ins(table: OpenTable, use: Use) -> list[Note]:
    """Tell of a column's smallest or largest number, if it is a code and far from all others."""
    if use.kind != "number" or use.ends is None:
        return []
    column = use.expression or f"TRY_CAST({name_in_sql(use.name)} AS DOUBLE)"
    return [
        note
        for end, is_high in zip(use.ends, (False, True), strict=True)
        if (end == -1 or abs(end) in _CODES)
        for note in _judged(table, use.name, column, end, is_high=is_high)
    ]


def _judged(table: OpenTable, name: str, column: str, end: float, *, is_high: bool) -> list[Note]:
    side = "<" if is_high else ">"
    ((low, high, n_rows),) = table.ask(
        f"SELECT min(x), max(x), (SELECT count(*) FROM cells WHERE {column} = {end!r}) "  # noqa: S608
        f"FROM (SELECT {column} AS x FROM cells) WHERE x {side} {end!r}"
    )
    if low is None:
        return []
    gap = end - high if is_high else low - end
    is_below_zero = end < 0 < low  # a count, an age: none is negative
    if gap <= high - low and not is_below_zero:
        return []
    text = f"{end:g}" if abs(end) < 1e6 else f"{end:.0f}"
    return [
        Note(
            "look",
            name,
            f"Column {name!r} holds {text} in {some(n_rows, 'row', 'rows')}, far from all other "
            f"numbers ({low:g} to {high:g}).",
            f"If it stands for a missing value: --na {text}.",
        )
    ]
