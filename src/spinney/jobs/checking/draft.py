"""A checked table as a job: for a simulation, and as text to begin a job file with."""

import json
import math
import re

from spinney.errors import TableError
from spinney.jobs.checking.columns import Use
from spinney.jobs.checking.label import LabelUse
from spinney.jobs.checking.table import Checked
from spinney.tables.files import name_in_sql, text_in_sql
from spinney.tables.outside import OTHER
from spinney.tables.profile import ColumnProfile
from spinney.tables.withheld import FEW_ROWS, PARTS, round_number


def job_name(checked: Checked) -> str:
    """Return a job's name, made from that of the file."""
    stem = checked.path.name.split(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip(".-") or "table"


def dates_of(checked: Checked) -> tuple[str, ...]:
    """Return the columns that are read as days."""
    return tuple(use.name for use in checked.used if use.is_date)


def query_of(checked: Checked, *, groups_rare: bool = False) -> str | None:
    """Return the query that reads the table as the check found it; None if it reads as it is.

    With `groups_rare`, categories that few rows hold become "other", and rows of a class that few
    hold are left out, because a job file must not name them.
    """
    assert checked.label is not None
    label = checked.label.use
    uses = [*checked.used, label]
    read = {use.name: _expression(use, groups_rare=groups_rare and use != label) for use in uses}
    leaves_out = checked.profile.column(label.name).n_missing > 0
    if groups_rare and len(_held(label)) < len(label.values):
        read[label.name], leaves_out = _only_held(label), True
    if not any(read.values()) and not leaves_out:
        return checked.query
    if checked.row_id is not None and checked.row_id not in read:
        read[checked.row_id] = None
    source = "source" if checked.query is None else f"({checked.query})"
    columns = ",\n  ".join(
        f"{expression} AS {name_in_sql(name)}" if expression else name_in_sql(name)
        for name, expression in read.items()
    )
    own = read[label.name] or name_in_sql(label.name)
    where = f"\nWHERE {own} IS NOT NULL" if leaves_out else ""
    return f"SELECT\n  {columns}\nFROM {source}{where}"


def _held(use: Use) -> tuple[object, ...]:
    """Return the values that a job file may name."""
    return tuple(value for value, n in use.values if n >= FEW_ROWS)


def _only_held(label: Use) -> str:
    """Return SQL that reads the classes that a job file may name, and others as missing."""
    own = label.expression or name_in_sql(label.name)
    kept = ", ".join(text_in_sql(str(value)) for value in _held(label))
    return f"CASE WHEN CAST({own} AS VARCHAR) IN ({kept}) THEN {own} END"


def _expression(use: Use, *, groups_rare: bool) -> str | None:
    rare = [value for value, n in use.values if n < FEW_ROWS]
    if not (groups_rare and rare):
        return use.expression
    own = use.expression or name_in_sql(use.name)
    kept = ", ".join(text_in_sql(str(value)) for value in _held(use))
    grouped = f"ELSE {text_in_sql(OTHER)} END"
    if not kept:
        return f"CASE WHEN {own} IS NULL THEN NULL {grouped}"
    return f"CASE WHEN {own} IS NULL THEN NULL WHEN {own} IN ({kept}) THEN {own} {grouped}"


def job_text(checked: Checked) -> str:
    """Return a job file for a simulation, with every public fact declared."""
    assert checked.label is not None
    _require_classes(checked.label)
    label, query = checked.label, query_of(checked, groups_rare=True)
    lines = [
        f"# 'spinney check' wrote this from {checked.path.name}. To run it: spinney simulate FILE",
        "# Ranges and lists of values were read from the table and rounded or shortened. They are",
        "# public: replace them by what your parties agree on.",
        "",
        "[job]",
        f"name = {_text(job_name(checked))}",
        'protocol = "horizontal_forest"',
        f"task = {_text(label.task)}",
        "",
        "[table]",
        f"source = {_text(checked.source)}",
        f"path = {_text(checked.path.name)}  # relative to this file",
        f"label = {_text(label.use.name)}",
    ]
    if checked.row_id is not None:
        lines.append(f"row_id = {_text(checked.row_id)}")
    if query is not None:
        lines.append(
            f"query = '''\n{query}'''" if "'''" not in query else f"query = {_text(query)}"
        )
    lines += ["", "[table.columns]"]
    profile = checked.profile
    lines += [
        f"{_text(use.name)} = {_facts(profile.column(use.name), use)}" for use in checked.used
    ]
    lines += ["", "[schema]"]
    if label.task == "classification":
        lines.append(f"classes = {_list(tuple(sorted(_held(label.use), key=str)))}")
    elif label.use.ends is not None:
        lines.append(f"range = {_range(checked.profile.column(label.use.name), label.use)}")
    if dates := dates_of(checked):
        lines.append(f"dates = {_list(dates)}  # days since 1970-01-01, shown as dates in reports")
    lines += [
        "", "[settings]", "n_estimators = 100", "random_state = 0",
        "", "[simulation]", "n_parties = 5",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _require_classes(label: LabelUse) -> None:
    if label.task == "classification" and len(_held(label.use)) < 2:
        raise TableError(
            f"No two classes of the label {label.use.name!r} are held by {FEW_ROWS} rows each, and "
            "a job file does not name rarer ones: they would tell of single rows. Check the "
            "label, or write the job file yourself and declare its classes."
        )


def _facts(profile: ColumnProfile, use: Use) -> str:
    if use.kind == "number" and use.ends is not None:
        return f'{{ kind = "number", range = {_range(profile, use)} }}'
    if use.kind != "category":
        return f'{{ kind = "{use.kind}" }}'
    values = list(_held(use))
    if len(values) < len(use.values) and OTHER not in values:
        values.append(OTHER)
    return f'{{ kind = "category", values = {_list(tuple(sorted(values, key=str)))} }}'


def _range(profile: ColumnProfile, use: Use) -> str:
    """Return a range that shows no cell that few rows hold: its ends are rounded outward."""
    assert use.ends is not None
    low, high = use.ends
    distinct = profile.n_distinct
    unit = round_number(max((high - low) / PARTS, 2 * (high - low) / max(distinct - 1, 1)))
    held = _rows_of(profile) if use.expression is None else {}
    if held.get(low, 0) < FEW_ROWS:
        low = math.floor(low / unit) * unit
    if held.get(high, 0) < FEW_ROWS:
        high = math.ceil(high / unit) * unit
    return f"[{low:.15g}, {high:.15g}]"


def _rows_of(profile: ColumnProfile) -> dict[float, int]:
    """Return how many rows hold each number, if the numbers are few."""
    rows: dict[float, int] = {}
    for value, n in profile.values if profile.n_numbers == profile.n_plain else ():
        try:
            number = float(value)
        except ValueError:  # a cell that is no number, and is read as missing
            continue
        rows[number] = rows.get(number, 0) + n
    return rows


def _list(values: tuple[object, ...]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
