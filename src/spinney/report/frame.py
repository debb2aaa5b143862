"""What a report tells of each party, as a pandas data frame."""

from fractions import Fraction
from typing import Any

from spinney.errors import MissingExtraError
from spinney.report.budgets import word_of_measure
from spinney.report.facts import ReportFacts
from spinney.report.verdicts import joinings


def frame_of(report: ReportFacts) -> Any:
    """Return one line for each party, and one for each part of an evaluation with noise."""
    try:
        import pandas as pd  # noqa: PLC0415  only here
    except ImportError:
        raise MissingExtraError("pandas", "frames", "A data frame") from None
    lines: dict[str, dict[str, Any]] = {party: {} for party in report.parties}
    _add_scores(report, lines)
    for party in lines:
        lines[party] |= {
            "bytes up": sum(r.bytes_up.get(party, 0) for r in report.traffic),
            "bytes down": sum(r.bytes_down.get(party, 0) for r in report.traffic),
        }
    for one in report.budgets:
        word = word_of_measure(one.measure)
        left = None if one.left is None else float(Fraction(one.left))
        lines.setdefault(one.party, {})[f"{word} spent, {one.unit}"] = float(Fraction(one.spent))
        lines[one.party][f"{word} left, {one.unit}"] = left
    for part in () if report.evaluation is None else report.evaluation.parts:
        line = lines.setdefault(part.of, {})
        for name, found in part.measures.items():
            line |= {name: found.value, f"{name}, low": found.low, f"{name}, high": found.high}
    found = pd.DataFrame(list(lines.values()), index=pd.Index(list(lines), name="party"))
    return found.dropna(axis="columns", how="all")


def _add_scores(report: ReportFacts, lines: dict[str, dict[str, Any]]) -> None:
    """Add the scores that were counted without noise, and what joining did by each."""
    told = joinings(report.quality) if len(report.parties) > 1 else ()
    for q in report.quality:
        lines.setdefault(q.party, {}).update(
            {"rows": q.n_rows, **q.scores}
            | {f"joining by {one.score}": one.parties.get(q.party) for one in told}
        )
