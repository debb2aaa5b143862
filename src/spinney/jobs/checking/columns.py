"""Judge a column by its profile: what it is, how to read it, or why it is left out."""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Final

from spinney.jobs.checking.notes import Choices, Note, some, some_cells
from spinney.jobs.checking.numbers import (
    NEAR,
    expression_of,
    is_marked,
    marked_note,
    number_notes,
)
from spinney.tables.describe import FEW_VALUES, MAX_UNDECLARED
from spinney.tables.files import name_in_sql, text_in_sql
from spinney.tables.profile import ColumnProfile
from spinney.tables.schema import Kind
from spinney.tables.withheld import FEW_ROWS

_ODD_TEXTS: Final = 5  # so many different words mean "missing"; more are codes


@dataclass(frozen=True)
class Use:
    """How a column is read; `kind` is None if it is left out."""

    name: str
    kind: Kind | None
    expression: str | None = None  # SQL in place of the column itself
    ends: tuple[float, float] | None = None
    values: tuple[tuple[object, int], ...] = ()  # categories and their rows
    notes: tuple[Note, ...] = ()
    is_id: bool = False
    n_values: int = 0  # different values, before any is joined
    is_date: bool = False  # read as days since 1970-01-01


def use_of(profile: ColumnProfile, choices: Choices) -> Use:
    """Return how to read a column, with a note on everything that is not plain."""
    return replace(_judged(profile, choices), n_values=profile.n_distinct)


def _judged(profile: ColumnProfile, choices: Choices) -> Use:
    name = profile.name
    if name in choices.drop:
        return Use(name, None)
    if profile.type == "other" or not profile.n_known:
        what = "holds no value" if not profile.n_known else "holds lists, structures or bytes"
        return _left_out(profile, f"{what}; it was left out.", "Drop it or convert it.")
    dates = _as_dates(profile, choices)
    if dates is not None:
        return dates
    if profile.n_distinct == 1 and not profile.n_missing:
        return _left_out(
            profile, "has one value in all rows; it was left out.", "It can tell nothing apart."
        )
    if profile.type == "boolean" or _says_true_or_false(profile):
        return Use(name, "boolean")
    number = _as_number(profile, choices)
    return number if number is not None else _as_category(profile)


def _left_out(profile: ColumnProfile, seen: str, remedy: str, *, is_id: bool = False) -> Use:
    note = Note("left out", profile.name, f"Column {profile.name!r} {seen}", remedy)
    return Use(profile.name, None, notes=(note,), is_id=is_id)


def _says_true_or_false(profile: ColumnProfile) -> bool:
    texts = {str(value).lower() for value, _ in profile.values}
    return profile.n_distinct <= 4 and bool(texts) and texts <= {"true", "false"}


def _as_dates(profile: ColumnProfile, choices: Choices) -> Use | None:
    column = name_in_sql(profile.name)
    if profile.type == "moment":
        expression, written = f"epoch(TRY_CAST({column} AS TIMESTAMP)) / 86400", "dates or times"
    else:
        best = max(profile.formats, key=lambda pair: pair[1], default=("", 0))
        if profile.type != "text" or best[1] < NEAR * profile.n_known:
            return None
        forms = dict.fromkeys((best[0], "%Y-%m-%d", "%Y-%m-%d %H:%M:%S"))
        read = ", ".join(
            f"try_strptime(CAST({column} AS VARCHAR), {text_in_sql(form)})" for form in forms
        )
        expression, written = f"epoch(coalesce({read})) / 86400", f"dates written as {best[0]}"
        if ("%d/%m/%Y", best[1]) in profile.formats and ("%m/%d/%Y", best[1]) in profile.formats:
            written += " (or with the month first: every cell reads both ways)"
        if n_other := profile.n_known - best[1]:
            none = some(n_other, "cell is none and is", "cells are none and are")
            written += f" ({none} read as missing)"
    if choices.dates == "drop":
        return _left_out(profile, f"holds {written}; it was left out.", "As --dates drop asks.")
    note = Note(
        "changed",
        profile.name,
        f"Column {profile.name!r} holds {written}; they are read as days since 1970-01-01.",
        f"To leave it out: --dates drop, or --drop {profile.name!r}.",
    )
    return Use(profile.name, "number", expression, None, notes=(note,), is_date=True)


def _as_number(profile: ColumnProfile, choices: Choices) -> Use | None:
    if profile.n_numbers < NEAR * profile.n_known or profile.n_odd_texts > _ODD_TEXTS:
        return None
    if _tells_rows_apart(profile):
        is_id = profile.n_known == profile.n_rows
        seen = "is unique in every row" if is_id else "differs in every row that has it"
        return _left_out(
            profile,
            f"{seen}; it was left out as an identifier.",
            "To use it, list it among the columns of a job file.",
            is_id=is_id,
        )
    return Use(
        profile.name,
        "number",
        expression_of(profile, choices.decimal),
        _ends(profile),
        notes=tuple(number_notes(profile, choices.decimal)),
    )


def _ends(profile: ColumnProfile) -> tuple[float, float] | None:
    if profile.low is None or profile.high is None:
        return None
    return (float(profile.low), float(profile.high))


def _tells_rows_apart(profile: ColumnProfile) -> bool:
    """Return whether whole numbers differ in every row, so that a split may single out a row."""
    n, low, high = profile.n_known, profile.low, profile.high
    if not (profile.n_distinct == profile.n_whole == n > 1) or low is None or high is None:
        return False
    return n > FEW_VALUES or high - low == n - 1


def _as_category(profile: ColumnProfile) -> Use:
    use = _judged_category(profile)
    if not is_marked(profile):
        return use
    note = marked_note(profile, is_left_out=use.kind is None)
    rest = use.notes if use.kind is not None else ()
    return replace(use, notes=(note, *rest), is_id=False)


def _judged_category(profile: ColumnProfile) -> Use:
    name = profile.name
    if profile.n_distinct == profile.n_rows > 1:
        return _left_out(
            profile,
            "is unique in every row; it was left out as an identifier.",
            "To use it, list it among the columns of a job file.",
            is_id=True,
        )
    if profile.n_distinct > max(FEW_VALUES, profile.n_known / 2):
        return _left_out(
            profile,
            "is different in almost every row, like free text; it was left out.",
            "To use it, group its values first.",
        )
    if profile.n_distinct > MAX_UNDECLARED:
        return _left_out(
            profile,
            f"has {profile.n_distinct} different values, more than {MAX_UNDECLARED}; it was left "
            "out.",
            "Group its values, or declare them as categories in a job file.",
        )
    values, mapping = merged_spellings(profile.values)
    held = {value for value, n in values if n >= FEW_ROWS}
    if not held and profile.n_distinct > FEW_VALUES:
        return _left_out(
            profile,
            f"has no value that {FEW_ROWS} rows hold, like free text; it was left out.",
            "To use it, group its values first.",
        )
    notes = []
    if mapping:
        notes.append(spelling_note("Column", name, mapping))
        # What few rows hold becomes "other" in a job file, which must not name it.
        mapping = {old: new for old, new in mapping.items() if new in held}
    mixes = profile.n_numbers >= profile.n_known / 2 and profile.type == "text"
    if mixes and not is_marked(profile):
        notes.append(
            Note(
                "look",
                name,
                f"Column {name!r} mixes numbers and text ({some_cells(profile.odd)}) and is read "
                "as a category.",
                "If it is a number, name the texts that mean missing with --na.",
            )
        )
    expression = mapped(name, mapping) if mapping else None
    return Use(name, "category", expression, values=values, notes=tuple(notes))


def merged_spellings(
    values: tuple[tuple[object, int], ...],
) -> tuple[tuple[tuple[object, int], ...], dict[str, str]]:
    """Join values that differ only in case or spaces; return them and what becomes what."""
    groups: dict[object, list[tuple[object, int]]] = defaultdict(list)
    for value, n in values:
        key = " ".join(value.split()).casefold() if isinstance(value, str) else value
        groups[key].append((value, n))
    joined, mapping = [], {}
    for group in groups.values():
        best = max(group, key=lambda pair: pair[1])[0]
        if isinstance(best, str):
            best = best.strip() or best
            mapping.update({str(value): best for value, _ in group if value != best})
        joined.append((best, sum(n for _, n in group)))
    return tuple(joined), mapping


def mapped(name: str, mapping: dict[str, str]) -> str:
    """Return SQL that writes some of a column's values another way."""
    column = name_in_sql(name)
    cases = " ".join(
        f"WHEN {text_in_sql(old)} THEN {text_in_sql(new)}" for old, new in mapping.items()
    )
    return f"CASE {column} {cases} ELSE {column} END"


def spelling_note(what: str, name: str, mapping: dict[str, str]) -> Note:
    """Tell which values were joined."""
    shown = ", ".join(f"{old!r} as {new!r}" for old, new in list(mapping.items())[:4])
    more = ", ..." if len(mapping) > 4 else ""
    return Note(
        "changed",
        name,
        f"{what} {name!r} spells values in several ways; read {shown}{more}.",
        "If they are different, rename them in the table.",
    )
