"""How good is a private model? What an evaluation with noise measured, with its intervals."""

from spinney.protocols.private_evaluation.measures import Measured, PartQuality, PrivateQuality
from spinney.report.facts import ReportFacts
from spinney.report.page.charts import Dot, dots
from spinney.report.page.markup import Content, Html, join_html, table, tag
from spinney.report.verdicts import measured_in_words, word_of
from spinney.report.words import capital

_DRAWN = ("auc", "accuracy")


def measured(report: ReportFacts) -> Html:
    """Return the part about an evaluation with noise; empty if there was none."""
    found = report.evaluation
    if found is None:
        return join_html()
    parts: list[Content] = [
        tag("h3", "Measured with noise"),
        tag("p", measured_in_words(report)),
        *(_chart(found, name) for name in _DRAWN),
        numbers(found),
    ]
    first = found.parts[0]
    if first.confusion:
        parts.append(_confusion(first, found.classes))
    if first.calibration:
        parts.append(_calibration(first, found.classes))
    return join_html(*parts)


def _chart(found: PrivateQuality, name: str) -> Html:
    known = [(part.of, part.measures[name]) for part in found.parts if name in part.measures]
    if len(known) < 2:
        return join_html()
    lines = [(of, [Dot("together", m.value, (m.low, m.high))]) for of, m in known]
    return dots(f"{capital(word_of(name))}, with 95 % intervals", lines)


def numbers(found: PrivateQuality) -> Html:
    """Return all measures with their intervals as a table."""
    names = list(dict.fromkeys(name for part in found.parts for name in part.measures))
    lines: list[list[Content]] = [
        [part.of, *(_cell(name, part) for name in names)] for part in found.parts
    ]
    return table("Measures with 95 % intervals", ["of", *map(word_of, names)], lines)


def _cell(name: str, part: PartQuality) -> str:
    if name in part.measures:
        return told(name, part.measures[name])
    return "too few rows for this noise" if name in part.unknown else "-"


def told(name: str, one: Measured) -> str:
    """Return a measure with its interval."""
    if name == "rows":
        return f"{one.value:,.0f} ({one.low:,.0f} to {one.high:,.0f})"
    return f"{one.value:.3f} ({one.low:.3f} to {one.high:.3f})"


def _confusion(part: PartQuality, classes: tuple[str, ...]) -> Html:
    lines: list[list[Content]] = [
        [name, *(f"{count:,.0f}" for count in line)]
        for name, line in zip(classes, part.confusion, strict=True)
    ]
    headings = ["true class", *(f"predicted {name}" for name in classes)]
    return table("Confusion matrix, with noise", headings, lines)


def _calibration(part: PartQuality, classes: tuple[str, ...]) -> Html:
    what = classes[1] if len(classes) == 2 else "the scored class"
    lines: list[list[Content]] = [
        [f"{point.score:.3f}", told("share", point.share), f"{point.rows:,.0f}"]
        for point in part.calibration
    ]
    return table("Calibration", ["mean score", f"share of {what}", "rows"], lines)
