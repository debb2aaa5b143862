"""Why? Which columns matter, and how the prediction depends on each."""

from spinney.report.explained import Dependence, Explanation, Importance
from spinney.report.facts import ReportFacts
from spinney.report.page.charts import COLOURS, bar
from spinney.report.page.curves import curve, marks
from spinney.report.page.markup import Content, Html, join_html, table, tag
from spinney.report.words import date_of

_SHOWN = 20


def why(report: ReportFacts, classes: tuple[object, ...] | None) -> Html:
    """Return the section."""
    found, explained = _ranked(report.importances), report.explanation
    if not found:
        return tag("p", "There is no model to explain.")
    parts: list[Content] = [tag("p", _words(found, explained)), _importances(found[:_SHOWN])]
    if len(found) > _SHOWN:
        more = _importances(found[_SHOWN:])
        parts.append(tag("details", tag("summary", f"{len(found) - _SHOWN} more columns"), more))
    if explained is not None and explained.dependence:
        parts.append(tag("h3", "How the prediction changes with one column"))
        said = _what_is_said(explained.dependence[0], classes)
        n = f"{explained.n_rows:,} {explained.rows} rows of all parties"
        parts.append(tag("p", f"{said} over {n}, with one column set to each value in turn."))
        drawn = _drawn(len(explained.dependence[0].outputs[0]))
        values = [row[o] for one in explained.dependence for row in one.outputs for o in drawn]
        ends = min(values), max(values)
        dates = () if report.subject is None else report.subject.dates
        charts = (
            _dependence(one, classes, ends, is_date=one.column in dates)
            for one in explained.dependence
        )
        parts.append(tag("div", *charts, class_="small"))
    parts.append(
        tag(
            "p",
            "For one row: enter its values under “Follow one row” below. The page then shows what "
            "each column adds to the prediction (SHAP values). Nothing you enter leaves the page.",
            class_="on-screen",
        )
    )
    return join_html(*parts)


def _ranked(found: tuple[Importance, ...]) -> tuple[Importance, ...]:
    """Return the columns by permutation importance, where it was measured, else by impurity."""
    return tuple(sorted(found, key=lambda one: (-(one.permutation or 0.0), -one.impurity)))


def _words(found: tuple[Importance, ...], explained: Explanation | None) -> str:
    by = "the decrease in impurity" if explained is None else "permutation importance"
    text = f"{found[0].column} matters most by {by}."
    if explained is not None and not (found[0].permutation or 0.0) > 0.0:
        text = f"No column matters by {by}: without it the model's {explained.score} is no worse."
    if explained is None:
        return f"{text} The job did not measure permutation importance at the parties."
    return (
        f"{text} Permutation importance is what the model's {explained.score} "
        f"({explained.baseline:.3f} on {explained.n_rows:,} {explained.rows} rows) loses when a "
        "party shuffles the column among its own rows. It is counted at the parties and summed."
    )


def _importances(found: tuple[Importance, ...]) -> Html:
    most = max((one.impurity for one in found), default=0.0) or 1.0
    loss = max((one.permutation or 0.0 for one in found), default=0.0) or 1.0
    lines: list[list[Content]] = [
        [one.column, f"{one.impurity:.3f}", bar(one.impurity / most)] for one in found
    ]
    headings = ["column", "impurity", "share of the largest"]
    if any(one.permutation is not None for one in found):
        headings += ["permutation", "share of the largest"]
        lines = [[*line, *_loss(one, loss)] for line, one in zip(lines, found, strict=True)]
    return table("Feature importances", headings, lines, class_="with-bars")


def _loss(one: Importance, most: float) -> list[Content]:
    if one.permutation is None:
        return ["-", ""]
    return [f"{one.permutation:.4f} ± {one.spread or 0:.4f}", bar(one.permutation / most)]


def _dependence(
    found: Dependence,
    classes: tuple[object, ...] | None,
    ends: tuple[float, float],
    *,
    is_date: bool,
) -> Html:
    """Return a chart; all charts have the same scale, so that they can be compared."""
    series = [
        (str(classes[o]) if classes else "prediction", [values[o] for values in found.outputs])
        for o in _drawn(len(found.outputs[0]))
    ]
    numbers = [value for value in found.at if not isinstance(value, str)]
    if len(numbers) == len(found.at):
        return curve(found.column, numbers, series, ends, named=date_of if is_date else None)
    return marks(found.column, [str(value) for value in found.at], series, ends)


def _drawn(n_outputs: int) -> range:
    """Return which outputs to draw; of two classes, the second is enough."""
    return range(1, 2) if n_outputs == 2 else range(min(n_outputs, len(COLOURS)))


def _what_is_said(found: Dependence, classes: tuple[object, ...] | None) -> str:
    """Return what the charts' numbers mean."""
    if not classes:
        return "The mean prediction"
    drawn = [str(classes[o]) for o in _drawn(len(found.outputs[0]))]
    if len(drawn) == 1:
        return f"The mean predicted share of “{drawn[0]}”"
    return "The mean predicted share of each class" + (
        f" (the first {len(drawn)} of {len(classes)})" if len(drawn) < len(classes) else ""
    )
