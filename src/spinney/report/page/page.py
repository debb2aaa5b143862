"""A report as one self-contained page: it opens from disk, needs no network and runs one script.

The page's security policy forbids every connection, and every script except ours (by its digest).
`markup` escapes all texts that come from tables and parties.
"""

import base64
import hashlib
from importlib.resources import files

import msgspec

from spinney.privacy.scopes import PARTY_TOTALS, View
from spinney.protocols.model import ForestModel
from spinney.report.audited import Audit
from spinney.report.explained import impurity_importances
from spinney.report.facts import ReportFacts
from spinney.report.page.audited import what_attacks_get
from spinney.report.page.course import how_it_went
from spinney.report.page.disclosed import what_left
from spinney.report.page.markup import Content, Html, join_html, tag, void
from spinney.report.page.packed_trees import PackedTrees, pack_trees
from spinney.report.page.quality import worth_it
from spinney.report.page.shapes import curves_of
from spinney.report.page.special import special_of
from spinney.report.page.why import why
from spinney.report.render import size
from spinney.report.verdicts import distilled, joinings, noise_in_words, word_of
from spinney.report.words import capital, some

_IN_NOTEBOOK = (  # nothing outside the report changes
    ".spinney-report{max-width:60rem;font:14px/1.5 system-ui,sans-serif}"
    ".spinney-report table{border-collapse:collapse;margin:.5rem 0}"
    ".spinney-report th,.spinney-report td{text-align:left;padding:.2rem .8rem .2rem 0;"
    "border-bottom:1px solid #8c959f;vertical-align:top}"
    ".spinney-report .bar{display:inline-block;height:.6rem;background:#0072b2}"
    ".spinney-report .lead{font-size:1.1em}"
)
_SCRIPTS = ("forest.js", "looks.js", "drawing.js", "controls.js")


def page_of(
    report: ReportFacts, model: ForestModel | None = None, audit: Audit | None = None
) -> str:
    """Return the page; it draws no trees without a model, as after a job that stopped early."""
    classes = None if model is None else model.schema.label.classes
    if model is not None and not report.importances:  # the parties hold its forest in parts
        report = msgspec.structs.replace(report, importances=impurity_importances(model))
    sections: list[tuple[str, str, Html]] = [
        ("worth", "Was it worth it?", worth_it(report)),
        ("left", "What left the parties?", what_left(report)),
        ("why", "Why?", join_html(why(report, classes), curves_of(model))),
        ("trees", "The trees", _trees(report, model)),
        ("course", "How it went", how_it_went(report)),
    ]
    if audit is not None:
        sections.insert(2, ("audit", "What do attacks get?", what_attacks_get(audit)))
    script = _read(*_SCRIPTS)
    body = tag(
        "body",
        tag("a", "Skip to the report", href="#main", class_="skip"),
        _header(report),
        tag(
            "nav",
            tag(
                "ul", *(tag("li", tag("a", title, href=f"#{name}")) for name, title, _ in sections)
            ),
            aria_label="Sections",
        ),
        tag(
            "main",
            _early_end(report),
            special_of(report, model),
            *(
                tag("section", tag("h2", title), content, id=name, aria_label=title)
                for name, title, content in sections
            ),
            id="main",
        ),
        tag("footer", f"Written by Spinney {report.version}. This file needs no network."),
        tag("script", Html(script)),
    )
    return f"<!doctype html>\n{tag('html', _head(report, script), body, lang='en')}\n"


def summary_of(report: ReportFacts) -> str:
    """Return the first two sections, for a notebook."""
    parts = [tag("h3", "Was it worth it?"), worth_it(report)]
    style = tag("style", Html(_IN_NOTEBOOK))
    shown = (_header(report), _early_end(report), *parts, what_left(report))
    return tag("div", style, *shown, class_="spinney-report")


def _head(report: ReportFacts, script: str) -> Html:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=policy),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag(
            "title", f"Spinney: {report.protocol}, {some(len(report.parties), 'party', 'parties')}"
        ),
        tag("style", Html(_read("page.css"))),
    )


def _header(report: ReportFacts) -> Html:
    parties = some(len(report.parties), "party", "parties")
    words = f"{parties}: {', '.join(report.parties)}. " + (
        f"{some(report.n_trees, 'tree', 'trees')}, depth {report.depth}, "
        f"{some(report.n_nodes, 'node', 'nodes')}."
        if report.n_trees
        else "No tree was finished."
    )
    title = capital(report.protocol.replace("_", " "))
    about = report.subject
    if about is None:
        return tag("header", tag("h1", title), tag("p", words, class_="soft"))
    rows = f"{some(about.n_rows, 'row', 'rows')} of " if about.n_rows else ""
    told = f"{title}, {about.day}: {rows}{some(about.n_columns, 'column', 'columns')}. "
    return tag(
        "header",
        tag("h1", f"{about.job}: predicts {about.label}"),
        tag("p", told, words, class_="soft"),
        _first_answers(report),
    )


def _first_answers(report: ReportFacts) -> Html:
    """Answer, before anything else, what a reader asks first."""
    told = joinings(report.quality) if len(report.parties) > 1 else ()
    worth = "; ".join(f"{one.overall} by {word_of(one.score)}" for one in told)
    answers = {
        "Was it worth it?": capital(worth or "not measured") + ".",
        "What left?": f"{_share_that_left(report)} {noise_in_words(report)}",
        "Who is trusted?": _trusted(report),
    }
    lines = (tag("p", tag("strong", asked), f" {said}") for asked, said in answers.items())
    return tag("div", *lines, class_="answers")


def _share_that_left(report: ReportFacts) -> str:
    """Say how much left, beside how large a table is; no cell has to be among it."""
    assert report.subject is not None
    most = max(report.bytes_up.values(), default=0)
    cells = report.subject.n_rows * report.subject.n_columns / max(len(report.parties), 1)
    share = most / max(4 * cells, 1)
    times = f"{100 * share:.0f} % of" if share < 1 else f"{share:.1f} times"
    beside = f", {times} the size of its table" if cells else ""
    return (
        f"At most {size(most)} from a party{beside}: "
        f"{some(len(report.disclosures), 'kind', 'kinds')} of statistics, listed below."
    )


def _trusted(report: ReportFacts) -> str:
    """Say whom the parties trusted, by what each saw."""
    totals = {
        claim.verdict
        for claim in report.privacy
        if (claim.unit, claim.view) == (PARTY_TOTALS, View.COORDINATOR.value)
    }
    seen = " ".join(entry.seen_by for entry in report.disclosures)
    is_open = "not masked" in seen or "party by party" in seen
    if "UNPROTECTED" in totals or (is_open and not totals):
        return "The coordinator: it could read single parties' answers. All parties see the sums."
    return "No one with a single party's counts: sums were masked. All parties see the sums."


def _early_end(report: ReportFacts) -> Html:
    if not report.ended:
        return join_html()
    words = f"Training stopped early: {report.ended} This report covers the completed rounds."
    return tag("p", words, class_="warn", role="alert")


def _trees(report: ReportFacts, model: ForestModel | None) -> Html:
    if model is None:
        return tag("p", "There is no model, so there are no trees to show.")
    holder = {column: one.party for one in report.holders for column in one.columns}
    dates = () if report.subject is None else report.subject.dates
    trees = pack_trees(model, holder, dates)
    imitating = distilled(report)
    return tag(
        "div",
        *([tag("p", imitating)] if imitating else []),
        _what_is_drawn(trees, model.forest.n_trees),
        _controls(trees.n_drawn),
        tag("p", id="tree-legend"),
        tag("p", id="trees-status", role="status", aria_live="polite", class_="soft"),
        tag("div", id="tree-canvas"),
        tag(
            "details",
            tag("summary", "This tree as text"),
            tag("pre", id="tree-text", tabindex=0),
            id="tree-as-text",
        ),
        tag(
            "div",
            tag("h3", "Follow one row"),
            tag(
                "p",
                "Enter a row to mark its path in the tree above and to explain its prediction. "
                "An empty field is a missing value. Columns that no split uses are left out.",
                class_="soft",
            ),
            tag("form", id="row-form"),
            class_="on-screen",
        ),
        tag("noscript", tag("p", "The drawing needs JavaScript.", class_="warn")),
        tag(
            "script",
            Html(trees.head.replace("<", "\\u003c")),
            type="application/json",
            id="trees-head",
        ),
        tag("script", Html(trees.data), type="text/plain", id="trees-data"),
        id="trees-here",
    )


def _what_is_drawn(trees: PackedTrees, n_trees: int) -> Html:
    keys = "Click a node, or press Enter, to open or close it. Arrow keys move, + and - zoom. "
    words = (
        "“Yes” goes to the upper child; “missing” marks where a missing value goes. The bar shows "
        "the mean prediction of the training rows in a node."
    )
    if trees.n_drawn < n_trees:
        words += f" The page shows the first {trees.n_drawn} of {n_trees} trees, to stay small."
    return tag("p", tag("span", keys, class_="on-screen"), words, class_="soft")


def _controls(n_trees: int) -> Html:
    number = void(
        "input", type="number", id="tree-number", min=1, max=n_trees, value=1, aria_label="Tree"
    )
    buttons: list[Content] = [
        tag("label", "Tree ", number, f" of {n_trees}"),
        _button("tree-before", "Previous"),
        _button("tree-after", "Next"),
        _button("tree-open", "Open one level"),
        _button("tree-close", "Close all"),
        _button("tree-in", "Zoom in"),
        _button("tree-out", "Zoom out"),
        _button("tree-fit", "Fit width"),
        tag("label", "Find a column ", void("input", type="search", id="tree-seek")),
    ]
    return tag("div", *buttons, class_="controls", role="group", aria_label="The drawing")


def _button(name: str, words: str) -> Html:
    return tag("button", words, type="button", id=name)


def _read(*names: str) -> str:
    here = files("spinney.report.page")
    return "\n".join((here / name).read_text(encoding="utf-8") for name in names)
