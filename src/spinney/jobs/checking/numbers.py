"""How a column of numbers is read where its cells do not all spell them plainly."""

from typing import Final

from spinney.jobs.checking.notes import Note, share, some, some_cells
from spinney.tables.cells import number_in
from spinney.tables.files import name_in_sql
from spinney.tables.profile import CELL, COMMA, GROUPED, IS_PLAIN, ColumnProfile

NEAR: Final = 0.9  # so many cells alike make a column near-numeric, or dates


def expression_of(profile: ColumnProfile, decimal: str | None) -> str | None:
    """Return SQL that reads a column's cells as numbers; None if they need none."""
    text = f"CAST({name_in_sql(profile.name)} AS VARCHAR)"
    cases = ""
    if profile.n_comma or profile.n_grouped:
        pattern, number = GROUPED, f"replace({text}, ',', '')"
        if _is_decimal(profile, decimal):
            pattern, number = COMMA, f"replace(replace({text}, '.', ''), ',', '.')"
        cases = f"WHEN regexp_matches({text}, '{pattern}') THEN TRY_CAST({number} AS DOUBLE) "
    if not (cases or profile.odd or profile.n_padded or profile.n_plus):
        return None
    rest = f"TRY_CAST({text} AS DOUBLE)"
    if any(number_in(cell) is not None for cell, _ in profile.odd):
        # DuckDB would read "inf" as a number too, and "1_000".
        return f"CASE {cases}WHEN {IS_PLAIN.replace(CELL, text)} THEN {rest} END"
    return f"CASE {cases}ELSE {rest} END" if cases else rest


def _is_decimal(profile: ColumnProfile, decimal: str | None) -> bool:
    return profile.n_comma > 0 or decimal == ","


def number_notes(profile: ColumnProfile, decimal: str | None) -> list[Note]:
    """Tell what is read otherwise in a column of numbers."""
    name, notes = profile.name, []
    if profile.n_comma or profile.n_grouped:
        is_decimal = _is_decimal(profile, decimal)
        what, other = ("decimals", ".") if is_decimal else ("thousands", ",")
        notes.append(
            Note(
                "changed",
                name,
                f"Column {name!r} holds numbers with a comma before the {what}; they are read so.",
                f"If that is wrong: --decimal {other!r}.",
            )
        )
    if profile.odd:
        n_odd = profile.n_known - profile.n_numbers
        words = " ".join(f"--na {text!r}" for text, _ in profile.odd)
        notes.append(
            Note(
                "changed",
                name,
                f"Column {name!r} holds numbers, but for {some(n_odd, 'cell', 'cells')} "
                f"({share(n_odd, profile.n_known)}): {some_cells(profile.odd, len(profile.odd))}; "
                "they are read as missing.",
                f"Correct them, or confirm that they mean missing: {words}.",
            )
        )
    if profile.n_padded:
        notes.append(
            Note(
                "look",
                name,
                f"Column {name!r} holds numbers that begin with zeros, as codes do; they are read "
                "as numbers.",
                "If they are codes, declare the column as a category in a job file, or leave it "
                f"out: --drop {name!r}.",
            )
        )
    if _is_nearly_unique(profile):
        notes.append(
            Note(
                "look",
                name,
                f"Column {name!r} holds whole numbers that differ in nearly every row, as record "
                "numbers do.",
                f"If it is an identifier, leave it out: --drop {name!r}.",
            )
        )
    return notes


def _is_nearly_unique(profile: ColumnProfile) -> bool:
    few = profile.n_known - profile.n_distinct
    return profile.n_whole == profile.n_known and 0 < few <= profile.n_known / 100


def is_marked(profile: ColumnProfile) -> bool:
    """Return whether texts spell numbers with signs or units around them."""
    return profile.n_numbers < profile.n_marked and profile.n_marked >= NEAR * profile.n_known


def marked_note(profile: ColumnProfile, *, is_left_out: bool) -> Note:
    """Tell of numbers with signs or units around them."""
    used = "it was left out" if is_left_out else "it is read as a category"
    cells = some_cells(profile.odd, 3)
    return Note(
        "left out" if is_left_out else "look",
        profile.name,
        f"Column {profile.name!r} holds numbers with signs or units around them ({cells}); {used}.",
        "Write plain numbers, or convert them by a job file's query.",
    )
