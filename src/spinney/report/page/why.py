"""Why? Which columns matter, and how the model answers to each."""

from spinney.report.explained import Dependence, Explanation, Importance
from spinney.report.page.charts import bar, line_chart
from spinney.report.page.markup import Content, Html, joined, table, tag
from spinney.report.report import Report

_SHOWN = 20


def why(report: Report, classes: tuple[object, ...] | None) -> Html:
    """Return the section."""
    found, explained = report.importances, report.explanation
    if not found:
        return tag("p", "There is no model to explain.")
    parts: list[Content] = [tag("p", _words(found, explained)), _importances(found[:_SHOWN])]
    if len(found) > _SHOWN:
        more = _importances(found[_SHOWN:])
        parts.append(tag("details", tag("summary", f"{len(found) - _SHOWN} more columns"), more))
    if explained is not None and explained.dependence:
        parts.append(tag("h3", "What the model says as one column changes"))
        n = f"{explained.n_rows:,} {explained.rows} rows of all parties"
        parts.append(
            tag("p", f"The mean prediction over {n}, with one column set to each value in turn.")
        )
        charts = (_dependence(one, classes) for one in explained.dependence)
        parts.append(tag("div", *charts, class_="small"))
    parts.append(
        tag(
            "p",
            "For one row: enter its values under “Follow one row” below. The page then shows what "
            "each column adds to the prediction (SHAP values). Nothing you enter leaves the page.",
            class_="on-screen",
        )
    )
    return joined(*parts)


def _words(found: tuple[Importance, ...], explained: Explanation | None) -> str:
    text = f"{found[0].column} matters most by the drop of impurity."
    if explained is None:
        return f"{text} Permutation importances were not asked of the parties."
    return (
        f"{text} Permutation importance is what the model's {explained.score} "
        f"({explained.baseline:.3f} on {explained.n_rows:,} {explained.rows} rows) loses when a "
        "party shuffles the column among its own rows; counted at the parties and summed."
    )


def _importances(found: tuple[Importance, ...]) -> Html:
    most = max((one.impurity for one in found), default=0.0) or 1.0
    loss = max((one.permutation or 0.0 for one in found), default=0.0) or 1.0
    lines: list[list[Content]] = [
        [
            one.column,
            f"{one.impurity:.3f}",
            bar(one.impurity / most),
            "-" if one.permutation is None else f"{one.permutation:.4f} ± {one.spread or 0:.4f}",
            bar((one.permutation or 0.0) / loss) if one.permutation else "",
        ]
        for one in found
    ]
    headings = ["column", "impurity", "share of the largest", "permutation", "share of the largest"]
    return table("Feature importances", headings, lines, class_="with-bars")


def _dependence(found: Dependence, classes: tuple[object, ...] | None) -> Html:
    n_outputs = len(found.outputs[0])
    wanted = [1] if n_outputs == 2 else list(range(min(n_outputs, 8)))
    series = [
        (str(classes[o]) if classes else "prediction", [values[o] for values in found.outputs])
        for o in wanted
    ]
    return line_chart(found.column, found.at, series)
