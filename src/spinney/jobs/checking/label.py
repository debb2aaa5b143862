"""Judge the label: classes or an amount, how balanced, and how to read it."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from spinney.errors import TableError
from spinney.jobs.checking.columns import Use, mapped, merged_spellings, spelling_note, use_of
from spinney.jobs.checking.notes import Choices, Note, share, some
from spinney.tables.describe import FEW_VALUES, MAX_UNDECLARED, refuse_amounts
from spinney.tables.profile import ColumnProfile
from spinney.tables.schema import join_words
from spinney.tables.withheld import FEW_ROWS

Task = Literal["classification", "regression"]
_ENOUGH = 10  # rows of a class: with fewer, scores say little


@dataclass(frozen=True)
class LabelUse:
    """How the label is read, and what is predicted."""

    use: Use
    task: Task


def looks_like_amount(profile: ColumnProfile) -> bool:
    """Return whether the label's values are too many to be classes, or have decimals."""
    many = profile.n_distinct > MAX_UNDECLARED
    unlike = profile.n_distinct > max(FEW_VALUES, profile.n_known / 2)
    measured = (
        profile.n_numbers == profile.n_known
        and profile.n_whole < profile.n_known
        and profile.n_distinct > FEW_VALUES
    )
    return many or unlike or measured


def label_use(profile: ColumnProfile, task: str | None, choices: Choices) -> LabelUse:
    """Return how to read the label; with `task` None, what it predicts is guessed."""
    if not profile.n_known:
        raise TableError(
            f"The label {profile.name!r} is missing in every row. Every row needs a label."
        )
    is_amount = looks_like_amount(profile)
    is_number = profile.n_numbers > profile.n_known / 2
    if task == "regression" or (task is None and is_amount and is_number):
        return _amount(profile, task, choices)
    if is_amount:
        refuse_amounts(profile.name)
    return _classes(profile)


def _amount(profile: ColumnProfile, task: str | None, choices: Choices) -> LabelUse:
    found = use_of(profile, choices)
    if found.is_id:  # a label may differ in every row
        found = Use(profile.name, "number")
    if found.kind != "number":
        raise TableError(
            f"The label {profile.name!r} holds text, but a regression predicts numbers. Convert "
            "it, name the texts that mean missing with --na, or use --task classification."
        )
    notes = [note for note in found.notes if note.weight == "changed"]  # a label may be unique
    if task is None:
        notes.append(
            Note(
                "look",
                profile.name,
                f"The label {profile.name!r} is an amount, so a number is predicted.",
                "With simulate, say so: --task regression.",
            )
        )
    use = Use(found.name, "number", found.expression, found.ends, notes=tuple(notes))
    return LabelUse(_with_gaps(use, profile), "regression")


def _classes(profile: ColumnProfile) -> LabelUse:
    name = profile.name
    values, mapping = merged_spellings(profile.values)
    if len(values) < 2:
        raise TableError(
            f"The label {name!r} has one class only. A classifier needs at least 2 classes; check "
            "the label, or declare all classes in a schema."
        )
    rare = [(value, n) for value, n in values if n < FEW_ROWS]
    unnamed = {value for value, _ in rare}  # in a job file, which shows the mapping
    mapping = {old: new for old, new in mapping.items() if new not in unnamed}
    notes = [spelling_note("The label", name, mapping)] if mapping else []
    rarest, n_rarest = min(values, key=lambda pair: pair[1])
    if rare:
        notes.append(_rare_note(name, rare))
    elif n_rarest < _ENOUGH:
        notes.append(
            Note(
                "look",
                name,
                f"The label {name!r} has the class {rarest!r} in "
                f"{some(n_rarest, 'row', 'rows')} only.",
                "Scores of so few rows say little, and a model names every class: merge it with "
                "another, or leave its rows out.",
            )
        )
    elif n_rarest < 0.05 * profile.n_known:
        notes.append(
            Note(
                "look",
                name,
                f"The label {name!r} is unbalanced: {share(n_rarest, profile.n_known)} of the rows "
                f"are {rarest!r}.",
                'Judge by AUC or F1, not by accuracy; consider class_weight = "balanced".',
            )
        )
    notes += _near_names(name, [str(value) for value, _ in values])
    expression = mapped(name, mapping) if mapping else None
    use = Use(name, "category", expression, values=values, notes=tuple(notes))
    return LabelUse(_with_gaps(use, profile), "classification")


def _rare_note(name: str, rare: list[tuple[object, int]]) -> Note:
    """Tell of classes that a mistyped cell may have made."""
    (first, n_rows), n_rare = rare[0], len(rare)
    held = f"the class {first!r} in {some(n_rows, 'row', 'rows')} only"
    if n_rare > 1:
        names = join_words(repr(value) for value, _ in rare)
        held = f"{n_rare} classes that fewer than {FEW_ROWS} rows hold: {names}"
    return Note(
        "look",
        name,
        f"The label {name!r} has {held}.",
        "Correct its spelling, merge it with another class, or leave its rows out, as --write "
        "does. A model that leaves names it only if a job file declares it: classes = [...] in "
        "[schema].",
    )


def _near_names(label: str, names: list[str]) -> list[Note]:
    """Tell of classes that differ by a letter or two."""
    for place, name in enumerate(names):
        near = get_close_matches(name, names[:place], n=1, cutoff=0.85)
        if near and len(name) > 4 and not any(letter.isdigit() for letter in name):
            return [
                Note(
                    "look",
                    label,
                    f"The label {label!r} has classes with nearly the same name: {near[0]!r} and "
                    f"{name!r}.",
                    "If they are one class, correct the spelling.",
                )
            ]
    return []


def _with_gaps(use: Use, profile: ColumnProfile) -> Use:
    """Tell of rows without a label, which are left out."""
    if not profile.n_missing:
        return use
    note = Note(
        "changed",
        profile.name,
        f"The label {profile.name!r} is missing in {some(profile.n_missing, 'row', 'rows')} "
        f"({share(profile.n_missing, profile.n_rows)}); what has no label was left out.",
        "Every row that trains needs a label.",
    )
    return Use(use.name, use.kind, use.expression, use.ends, use.values, (*use.notes, note))
