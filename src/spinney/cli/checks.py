"""`spinney check`: show what is in a table, what would go wrong and what to do; write a job."""

from pathlib import Path
from shlex import quote

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spinney.errors import SettingError
from spinney.files import write_whole
from spinney.jobs.checking.columns import Use
from spinney.jobs.checking.draft import job_text
from spinney.jobs.checking.notes import share
from spinney.jobs.checking.table import Checked
from spinney.report.words import as_json, date_of, some

_HEADINGS = ("changed", "left out", "look")
_WORDS = {"changed": "Read otherwise", "left out": "Left out", "look": "Look at this yourself"}


class ColumnFound(msgspec.Struct, frozen=True):
    """One column, for machines."""

    name: str
    kind: str | None  # None: left out
    missing: int
    values: int
    range: tuple[float, float] | None = None


class CheckFound(msgspec.Struct, frozen=True):
    """What a check found, for machines."""

    path: str
    n_rows: int
    label: str | None
    task: str | None
    classes: dict[str, int]
    columns: tuple[ColumnFound, ...]
    notes: tuple[dict[str, str], ...]
    megabytes: float
    seconds: float


def found_in(checked: Checked) -> CheckFound:
    """Return what a check found as one value."""
    label = checked.label
    columns = tuple(
        ColumnFound(
            use.name,
            use.kind,
            checked.profile.column(use.name).n_missing,
            checked.profile.column(use.name).n_distinct,
            use.ends,
        )
        for use in checked.columns
    )
    is_class = label is not None and label.task == "classification"
    return CheckFound(
        str(checked.path),
        checked.profile.n_rows,
        None if label is None else label.use.name,
        None if label is None else label.task,
        {str(value): n for value, n in label.use.values} if label and is_class else {},
        columns,
        tuple(
            {"what": note.weight, "column": note.column, "seen": note.seen, "remedy": note.remedy}
            for note in checked.notes
        ),
        round(checked.megabytes, 1),
        round(checked.seconds, 1),
    )


def show(checked: Checked, written: Path | None, *, as_json_text: bool) -> None:
    """Print what a check found."""
    if as_json_text:
        print(as_json(found_in(checked)))  # noqa: T201
        return
    console = Console(highlight=False, soft_wrap=True)
    n_used, n_all = len(checked.used), len(checked.columns)
    console.print(
        f"{checked.path.name}: {some(checked.profile.n_rows, 'row', 'rows')}, {n_used} of "
        f"{some(n_all, 'column', 'columns')} would be used."
    )
    if checked.label is not None:
        console.print(Text(_label_line(checked)))
    console.print()
    console.print(_columns(checked))
    for weight in _HEADINGS:
        notes = [note for note in checked.notes if note.weight == weight]
        if notes:
            console.print(f"\n{_WORDS[weight]}:")
        for note in notes:
            console.print(Text(f"- {note}"))
    if not checked.notes:
        console.print("\nNothing stands out.")
    console.print(
        f"\nA simulation takes about {_time(checked.seconds)} and {_memory(checked.megabytes)} of "
        "memory."
    )
    console.print(Text(_next(checked, written)))


def _label_line(checked: Checked) -> str:
    assert checked.label is not None
    label = checked.label
    if label.task == "regression":
        ends = label.use.ends
        told_ends = f" from {ends[0]:.6g} to {ends[1]:.6g}" if ends else ""
        return f"Predicts {label.use.name!r}, a number{told_ends}."
    n = sum(count for _, count in label.use.values)
    shares = ", ".join(f"{value} {share(count, n)}" for value, count in label.use.values[:8])
    n_more = len(label.use.values) - 8
    more = f" and {some(n_more, 'class', 'classes')} more" if n_more > 0 else ""
    return f"Predicts {label.use.name!r}: {shares}{more}."


def _columns(checked: Checked) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("column", "kind", "missing", "values"):
        table.add_column(heading, justify="right" if heading == "missing" else "left")
    for use in checked.columns:
        profile = checked.profile.column(use.name)
        missing = share(profile.n_missing, profile.n_rows) if profile.n_missing else "-"
        kind = "date" if use.is_date else use.kind or "left out"
        table.add_row(Text(use.name), kind, missing, Text(_values(use)))
    return table


def _values(use: Use) -> str:
    if use.kind == "category":
        names = [str(value) for value, _ in use.values]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return ", ".join(names[:5]) + more
    if use.ends is not None and use.is_date:
        return f"{date_of(use.ends[0])} to {date_of(use.ends[1])}"
    if use.ends is not None:
        return f"{use.ends[0]:.6g} to {use.ends[1]:.6g}"
    return ""


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"


def _memory(megabytes: float) -> str:
    return f"{round(megabytes, -2):.0f} MB" if megabytes < 950 else f"{megabytes / 1000:.1f} GB"


def _next(checked: Checked, written: Path | None) -> str:
    if written is not None:
        return f"Job     {written}\nRun it: spinney simulate {quote(str(written))}"
    if checked.label is None:
        return f"Next: spinney check {quote(str(checked.path))} --label NAME"
    task = " --task regression" if checked.label.task == "regression" else ""
    return (
        f"Next: spinney simulate {quote(str(checked.path))} --label "
        f"{quote(checked.label.use.name)}{task}, or "
        "write a job file with --write job.toml"
    )


def write_job(checked: Checked, target: Path) -> None:
    """Write a job file; nothing is overwritten."""
    if checked.label is None:
        raise SettingError("A job file needs a label. Say which column to predict: --label NAME.")
    if target.exists():
        raise SettingError(
            f"{str(target)!r} exists, and Spinney overwrites nothing. Name another file with "
            "--write."
        )
    if target.resolve().parent != checked.path.resolve().parent:
        raise SettingError(
            "A job file names its table relative to itself. Write it into the table's folder: "
            f"--write {checked.path.parent / target.name}."
        )
    write_whole(target, job_text(checked).encode())
