"""Columns that alone predict the label nearly without error: they may be known only after it."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from spinney.jobs.checking.columns import Use
from spinney.jobs.checking.label import LabelUse
from spinney.jobs.checking.notes import Note
from spinney.tables.files import name_in_sql
from spinney.tables.profile import OpenTable
from spinney.typing import Integers

_TELLS_ALL: Final = 0.99  # a column that predicts the label so well alone is suspicious
_COMMON: Final = 0.95  # ... unless nearly all rows have the same class
_PARTS: Final = 50
_STRAIGHT: Final = 0.999  # a correlation with an amount


def leaks_in(table: OpenTable, label: LabelUse, uses: Sequence[Use]) -> list[Note]:
    """Tell of columns that alone predict the label nearly without error."""
    known = [use for use in uses if use.kind is not None]
    if label.task == "regression":
        found = set(_straight(table, label, [use for use in known if use.kind == "number"]))
    else:
        has_many = {use.name: use.kind == "number" and use.n_values > _PARTS for use in known}
        found = set(_tell_in_parts(table, label, [use for use in known if has_many[use.name]]))
        rest = (use for use in known if not has_many[use.name])
        found |= {use.name for use in rest if _tells(table, label, use)}
    return [
        Note(
            "look",
            use.name,
            f"Column {use.name!r} alone tells the label {label.use.name!r} in nearly every row.",
            f"If it is known only after the label, leave it out: --drop {use.name!r}.",
        )
        for use in known
        if use.name in found
    ]


def _read(use: Use) -> str:
    """Return SQL for a column as a job reads it."""
    return use.expression or name_in_sql(use.name)


def _straight(table: OpenTable, label: LabelUse, uses: Sequence[Use]) -> Iterator[str]:
    """Yield the numbers that an amount follows in a straight line."""
    target = f"TRY_CAST({_read(label.use)} AS DOUBLE)"
    for part in table.in_parts(uses):
        each = (f"corr(TRY_CAST({_read(use)} AS DOUBLE), {target})" for use in part)
        (found,) = table.ask(f"SELECT {', '.join(each)} FROM cells")  # noqa: S608
        for use, r in zip(part, found, strict=True):
            if r is not None and abs(r) > _STRAIGHT:
                yield use.name


def _tell_in_parts(table: OpenTable, label: LabelUse, uses: Sequence[Use]) -> Iterator[str]:
    """Yield the numbers that tell the class if rows are divided into parts by their order."""
    target = _read(label.use)
    for part in table.in_parts(uses):
        each = (f"TRY_CAST({_read(use)} AS DOUBLE) AS x{place}" for place, use in enumerate(part))
        rows = table.connection.execute(
            f"SELECT CAST({target} AS VARCHAR) AS c, {', '.join(each)} FROM cells "  # noqa: S608
            f"WHERE {target} IS NOT NULL"
        ).fetchnumpy()
        names, code = np.unique(np.asarray(rows["c"], dtype=str), return_inverse=True)
        part_of = np.concatenate(
            [np.full(len(held), i) for i, held in enumerate(np.array_split(code, _PARTS))]
        )
        for place, use in enumerate(part):
            order = np.argsort(np.ma.filled(rows[f"x{place}"], np.nan), kind="stable")
            cells = np.bincount(part_of * len(names) + code[order], minlength=_PARTS * len(names))
            if _tells_all(cells.reshape(_PARTS, len(names))):
                yield use.name


def _tells_all(counts: Integers) -> bool:
    """Return whether parts tell classes, (n_parts, n_classes), and one class is not nearly all."""
    n, most = counts.sum(), counts.sum(axis=0).max()
    return bool(counts.max(axis=1).sum() >= _TELLS_ALL * n and most <= _COMMON * n)


def _tells(table: OpenTable, label: LabelUse, use: Use) -> bool:
    """Return whether a column of few values tells the class."""
    target = _read(label.use)
    rows = table.ask(
        f"SELECT CAST({_read(use)} AS VARCHAR) AS g, CAST({target} AS VARCHAR) AS c, count(*) "  # noqa: S608
        f"FROM cells WHERE {target} IS NOT NULL GROUP BY g, c"
    )
    values, classes = ({row[i]: None for row in rows} for i in range(2))
    counts = np.zeros((len(values), len(classes)), np.int64)
    place = [{name: at for at, name in enumerate(names)} for names in (values, classes)]
    for value, name, n in rows:
        counts[place[0][value], place[1][name]] = n
    return _tells_all(counts)
