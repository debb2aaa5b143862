"""A report as text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from textwrap import wrap

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from spinney.report.budgets import amount, word_of_measure
from spinney.report.explained import Explanation, Importance
from spinney.report.facts import Holder, ReportFacts
from spinney.report.privacy import in_words, say_once
from spinney.report.verdicts import (
    NOT_COMPARED,
    below_majority,
    distilled,
    lost_parties,
    measured_in_words,
    noise_in_words,
    not_pooled,
    retries,
    scored_class,
    verdicts,
    why_not_judged,
    word_of,
)
from spinney.report.words import some

_WIDTH = 100
_INDENT = 13
_COLUMNS = 5  # the most important ones
_COMMON = ("majority", "joint_majority")  # sentences tell them
_MODELS = {"": "", "local_": ", alone", "home_": ", fitted at home", "pooled_": ", pooled"}


def as_text(report: ReportFacts) -> str:
    """Return the report as text for a terminal."""
    out = StringIO()
    console = Console(file=out, width=_WIDTH, color_system=None, highlight=False, markup=False)
    total = sum(report.seconds.values()) or sum(r.seconds for r in report.traffic)
    console.print(
        f"{report.protocol}   {some(len(report.parties), 'party', 'parties')}   "
        f"{_trees(report)}   {'stopped early' if report.ended else 'finished'} in {total:.2f} s"
    )
    if report.ended:
        _print_under(console, "ended", f"{report.ended} This report covers the completed rounds.")
    if report.quality or report.evaluation is None:
        console.print(_quality(report))
    if scored := scored_class(report):
        console.print(f"  {scored}")
    _print_evaluation(report, console)
    _print_verdicts(report, console)
    size_told = report.settings.get("size")
    for name, told in (
        *(("below", told) for told in below_majority(report.quality)),
        ("size", f"{size_told}." if size_told else ""),
        ("distilled", distilled(report)),
        ("not pooled", not_pooled(report)),
    ):
        if told:
            _print_under(console, name, told)
    console.print(_disclosed(report))
    _print_course(report, console)
    _print_privacy(report, console)
    _print_budgets(report, console)
    _print_leaving(report, console)
    if report.label_leakage is not None:
        _print_under(console, "labels", report.label_leakage.in_words())
    if report.holders:
        _print_under(console, "splits", "; ".join(map(_held, report.holders)))
    if report.importances:
        _print_under(console, "why", "; ".join(map(_importance, report.importances[:_COLUMNS])))
    return out.getvalue().rstrip()


def _print_verdicts(report: ReportFacts, console: Console) -> None:
    found = verdicts(report)
    if found == [NOT_COMPARED] and report.ended:
        return
    for place, told in enumerate(found):
        _print_under(console, "" if place else "worth it?", told)


def _print_leaving(report: ReportFacts, console: Console) -> None:
    """Print by what the job was weaker than others, and how its model was hardened."""
    if report.of_simulation:
        _print_under(console, "simulated", report.of_simulation)
    for way in report.weaker:
        _print_under(console, "weaker", f"{way} (weaker than a job file's defaults)")
    for step in report.hardened:
        _print_under(console, "hardened", step)


def _trees(report: ReportFacts) -> str:
    if not report.n_trees:
        return "no tree finished"
    return f"{some(report.n_trees, 'tree', 'trees')}, depth {report.depth}"


def _print_under(console: Console, heading: str, text: str) -> None:
    """Print a text, with its heading before the first line."""
    for number, line in enumerate(wrap(text, _WIDTH - _INDENT)):
        console.print(f"{heading if number == 0 else '':<{_INDENT}}{line}")


def _print_course(report: ReportFacts, console: Console) -> None:
    """Print traffic, time and lost parties."""
    console.print(_traffic(report))
    phases = "   ".join(f"{phase} {seconds:.2f} s" for phase, seconds in report.seconds.items())
    console.print(f"time         {phases}")
    if report.explanation is not None and report.explanation.score_by_trees:
        _print_under(console, "by trees", _by_trees(report.explanation))
    if report.history:
        _print_under(console, "generations", _by_generation(report.history))
    if report.curves:
        _print_under(console, "mean loss", _by_batch(report.curves))
    if lost := lost_parties(report):
        _print_under(console, "lost", ", ".join(lost))
    if report.attempts > 1:
        _print_under(console, "retries", retries(report))


def _by_trees(told: Explanation) -> str:
    scores = ", ".join(f"{score:.3f} with {n}" for n, score in told.score_by_trees)
    return f"{word_of(told.score)} on {told.rows} rows: {scores}"


def _by_generation(history: Sequence[float]) -> str:
    shown = sorted({0, len(history) // 2, len(history) - 1})
    return "best score " + ", ".join(f"{history[i]:.3f} in generation {i + 1}" for i in shown)


def _by_batch(curves: Mapping[str, Sequence[float]]) -> str:
    return "; ".join(
        f"{name} rows {line[0]:.4f} before the first batch, {line[-1]:.4f} after "
        f"{some(len(line) - 1, 'batch', 'batches')}"
        for name, line in curves.items()
    )


def _print_budgets(report: ReportFacts, console: Console) -> None:
    """Print each party's privacy budget: before, spent and left."""
    parties: dict[str, list[str]] = {}
    for found in report.budgets:
        text = (
            f"{word_of_measure(found.measure)} {amount(found.before)} before, "
            f"{amount(found.spent)} spent, {amount(found.left)} left ({found.unit}; "
            f"{some(len(found.charges), 'kind', 'kinds')} of charge)"
        )
        parties.setdefault(text, []).append(found.party)
    for text, names in parties.items():
        _print_under(console, "budget", f"{', '.join(names)}: {text}")


def _held(holder: Holder) -> str:
    consent = "" if holder.consents else ", does not consent to joining its part"
    columns = some(len(holder.columns), "column", "columns")
    by = f"by {columns}" if holder.columns else "by columns it keeps secret"
    return f"{holder.party} owns {holder.n_splits}, {by}{consent}"


def _importance(one: Importance) -> str:
    lost = "" if one.permutation is None else f" (permutation {one.permutation:.3f})"
    return f"{one.column} {one.impurity:.3f}{lost}"


def _print_privacy(report: ReportFacts, console: Console) -> None:
    """Print the privacy guarantees."""
    _print_under(console, "privacy", noise_in_words(report))
    for text in say_once(in_words(report.parties, report.privacy)):
        for number, line in enumerate(wrap(_without_lists(text, report), _WIDTH - 4)):
            console.print(f"  {'  ' if number else ''}{line}", markup=False)


def _without_lists(text: str, report: ReportFacts) -> str:
    """Return a guarantee that points to the list of what left, instead of repeating it."""
    listed = [re.escape(entry.statistic) for entry in report.disclosures]
    if len(listed) < 2:
        return text
    one = f"(?:{'|'.join(sorted(listed, key=len, reverse=True))})"

    def shortened(found: re.Match[str]) -> str:
        n = len(re.findall(one, found[0]))
        return "all that is listed above" if n == len(listed) else f"{n} kinds of what left, above"

    return re.sub(f"{one}(?:; {one})+", shortened, text)


def _grid(headings: Iterable[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), title_justify="left")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i == 0 else "right")
    return table


def _quality(report: ReportFacts) -> Table:
    if not report.quality:
        return _grid([f"quality      not measured: {why_not_judged(report)}"])
    names = [n for n in _plain(report) if n not in _COMMON]
    table = _grid([f"quality ({report.quality[0].rows} rows)", *names, "rows"])
    for found in report.quality:
        for prefix, word in _MODELS.items():
            keys = [f"{prefix}{n}" for n in names]
            if not prefix or any(key in found.scores for key in keys):
                scores = [f"{found.scores[k]:.4f}" if k in found.scores else "-" for k in keys]
                rows = "" if prefix else str(found.n_rows)
                table.add_row(f"  {found.party}{word}", *scores, rows)
    return table


def _plain(report: ReportFacts) -> list[str]:
    """Return the names of the joint model's scores."""
    names = dict.fromkeys(n for found in report.quality for n in found.scores)
    return [n for n in names if not any(p and n.startswith(p) for p in _MODELS)]


def _print_evaluation(report: ReportFacts, console: Console) -> None:
    """Print what an evaluation with noise measured: every part, its measures and intervals."""
    found = report.evaluation
    if found is None:
        return
    _print_under(console, "measured", measured_in_words(report))
    table = _grid(["  of", "measure", "value", "95 % interval"])
    for part in found.parts:
        for place, (name, one) in enumerate(part.measures.items()):
            digits = 0 if name == "rows" else 4
            value, low, high = (f"{x:,.{digits}f}" for x in (one.value, one.low, one.high))
            of = f"  {part.of}" if place == 0 else ""
            table.add_row(of, word_of(name), value, f"{low} to {high}")
        for name in part.unknown:
            table.add_row("", word_of(name), "-", "too few rows for this noise")
    console.print(table)
    for text in in_words(report.parties, report.evaluation_privacy):
        _print_under(console, "its price", text)


def _disclosed(report: ReportFacts) -> Table:
    table = _grid(["what left each party", "times", "bytes each", "seen by"])
    for entry in report.disclosures:
        most = max(entry.bytes_up.values(), default=0)
        statistic = Padding(entry.statistic, (0, 0, 0, 2))
        table.add_row(statistic, str(entry.times), size(most), entry.seen_by)
    return table


def _traffic(report: ReportFacts) -> str:
    up = max(report.bytes_up.values(), default=0)
    down = max(report.bytes_down.values(), default=0)
    return (
        f"traffic      {some(report.rounds, 'round', 'rounds')}   {size(up)} up and {size(down)} "
        "down at the busiest party"
    )


def size(n_bytes: float) -> str:
    """Return a number of bytes in a readable unit."""
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"
