"""A report as text."""

from collections.abc import Iterable
from io import StringIO
from textwrap import wrap

from rich.console import Console
from rich.table import Table

from spinney.report.privacy import in_words
from spinney.report.report import Report

_WIDTH = 100


def as_text(report: Report) -> str:
    """Return the report as people read it in a terminal."""
    out = StringIO()
    console = Console(file=out, width=_WIDTH, color_system=None, highlight=False, markup=False)
    total = sum(report.seconds.values())
    console.print(
        f"{report.protocol}   {_some(len(report.parties), 'party', 'parties')}   "
        f"{_some(report.n_trees, 'tree', 'trees')}, depth {report.depth}   "
        f"finished in {total:.2f} s"
    )
    console.print(_quality(report))
    console.print(_disclosed(report))
    console.print(_traffic(report))
    phases = "   ".join(f"{phase} {seconds:.2f} s" for phase, seconds in report.seconds.items())
    console.print(f"time         {phases}")
    _print_privacy(report, console)
    if report.label_leakage is not None:
        for number, line in enumerate(wrap(report.label_leakage.in_words(), _WIDTH - 13)):
            console.print(f"{'labels' if number == 0 else '':<13}{line}")
    return out.getvalue().rstrip()


def _print_privacy(report: Report, console: Console) -> None:
    """Print what is promised to whom."""
    if not report.is_private:
        console.print("privacy      not differentially private: no noise was added")
    else:
        console.print("privacy      noise was added, and paid for by each party's ledger")
    for text in in_words(report.parties, report.privacy):
        for number, line in enumerate(wrap(text, _WIDTH - 4)):
            console.print(f"  {'  ' if number else ''}{line}", markup=False)


def _some(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def _grid(headings: Iterable[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), title_justify="left")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i == 0 else "right")
    return table


def _quality(report: Report) -> Table:
    names = list(dict.fromkeys(n for found in report.quality for n in found.scores))
    if not report.quality and report.is_private:
        return _grid(["quality      not measured: exact scores of own rows would cost budget"])
    rows = report.quality[0].rows if report.quality else "own"
    table = _grid([f"quality ({rows} rows)", *names, "rows"])
    for found in report.quality:
        scores = [f"{found.scores[n]:.4f}" if n in found.scores else "-" for n in names]
        table.add_row(f"  {found.party}", *scores, str(found.n_rows))
    return table


def _disclosed(report: Report) -> Table:
    table = _grid(["what left each party", "times", "bytes each", "seen by"])
    for entry in report.disclosures:
        most = max(entry.bytes_up.values(), default=0)
        table.add_row(f"  {entry.statistic}", str(entry.times), size(most), entry.seen_by)
    return table


def _traffic(report: Report) -> str:
    up = max(report.bytes_up.values(), default=0)
    down = max(report.bytes_down.values(), default=0)
    return (
        f"traffic      {report.rounds} rounds   {size(up)} up and {size(down)} down at the "
        "busiest party"
    )


def size(n_bytes: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"
