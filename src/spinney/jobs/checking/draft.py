"""A checked table as a job: for a simulation, and as text to begin a job file with."""

import json
import re

from spinney.jobs.checking.columns import FEW_ROWS, Use, outward
from spinney.jobs.checking.table import Checked
from spinney.tables.files import name_in_sql, text_in_sql
from spinney.tables.outside import OTHER


def job_name(checked: Checked) -> str:
    """Return a job's name, made from that of the file."""
    stem = checked.path.name.split(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip(".-") or "table"


def query_of(checked: Checked, *, groups_rare: bool = False) -> str | None:
    """Return the query that reads the table as the check found it; None if it reads as it is.

    With `groups_rare`, categories that few rows hold become "other", because a job file must not
    name them.
    """
    assert checked.label is not None
    label = checked.label.use
    uses = [*checked.used, label]
    read = {use.name: _expression(use, groups_rare=groups_rare and use != label) for use in uses}
    n_missing = checked.profile.column(label.name).n_missing
    if not any(read.values()) and not n_missing:
        return checked.query
    if checked.row_id is not None and checked.row_id not in read:
        read[checked.row_id] = None
    source = "source" if checked.query is None else f"({checked.query})"
    columns = ",\n  ".join(
        f"{expression} AS {name_in_sql(name)}" if expression else name_in_sql(name)
        for name, expression in read.items()
    )
    own = label.expression or name_in_sql(label.name)
    where = f"\nWHERE {own} IS NOT NULL" if n_missing else ""
    return f"SELECT\n  {columns}\nFROM {source}{where}"


def _expression(use: Use, *, groups_rare: bool) -> str | None:
    rare = [value for value, n in use.values if n < FEW_ROWS]
    if not (groups_rare and rare):
        return use.expression
    own = use.expression or name_in_sql(use.name)
    kept = ", ".join(text_in_sql(str(value)) for value, n in use.values if n >= FEW_ROWS)
    grouped = f"ELSE {text_in_sql(OTHER)} END"
    if not kept:
        return f"CASE WHEN {own} IS NULL THEN NULL {grouped}"
    return f"CASE WHEN {own} IS NULL THEN NULL WHEN {own} IN ({kept}) THEN {own} {grouped}"


def job_text(checked: Checked) -> str:
    """Return a job file for a simulation, with every public fact declared."""
    assert checked.label is not None
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
    lines += [f"{_text(use.name)} = {_facts(use)}" for use in checked.used]
    lines += ["", "[schema]"]
    if label.task == "classification":
        lines.append(f"classes = {_list(label.classes)}")
    elif label.use.ends is not None:
        low, high = outward(label.use.ends)
        lines.append(f"range = [{low:.15g}, {high:.15g}]")
    lines += [
        "", "[settings]", "n_estimators = 100", "random_state = 0",
        "", "[simulation]", "n_parties = 5",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _facts(use: Use) -> str:
    if use.kind == "number" and use.ends is not None:
        low, high = outward(use.ends)
        return f'{{ kind = "number", range = [{low:.15g}, {high:.15g}] }}'
    if use.kind != "category":
        return f'{{ kind = "{use.kind}" }}'
    values = [value for value, n in use.values if n >= FEW_ROWS]
    if len(values) < len(use.values) and OTHER not in values:
        values.append(OTHER)
    return f'{{ kind = "category", values = {_list(tuple(sorted(values, key=str)))} }}'


def _list(values: tuple[object, ...]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
