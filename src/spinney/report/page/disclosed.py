"""What left the parties? Statistics, privacy guarantees, and the cost of the noise."""

from fractions import Fraction

from spinney.report.budgets import ChargeLine, PartyBudget, amount, word_of_measure
from spinney.report.facts import DisclosureRow, ReportFacts
from spinney.report.page.charts import bar
from spinney.report.page.markup import Content, Html, join_html, table, tag
from spinney.report.privacy import in_words
from spinney.report.render import size
from spinney.report.verdicts import noise_in_words, not_pooled

_LABELS = {  # by the setting `labels` of a vertical job
    "shared": "The label of every row left its party",
    "encrypted": "Labels left only encrypted",
}


def what_left(report: ReportFacts) -> Html:
    """Return the section."""
    parts: list[Content] = [tag("p", _lead(report), class_="lead")]
    if report.of_simulation:
        parts.append(tag("p", report.of_simulation))
    if apart := not_pooled(report):
        parts.append(tag("p", apart))
    parts.append(_statistics(report.disclosures))
    if report.privacy:
        parts.append(tag("h3", "Privacy guarantees, and against whom they hold"))
        claims = (tag("li", text) for text in in_words(report.parties, report.privacy))
        parts.append(tag("ul", *claims))
        parts.append(_claims(report))
    if report.budgets:
        parts += [tag("h3", "Budget"), _budgets(report.budgets), _charges(report.budgets)]
    if report.weaker:
        parts.append(tag("h3", "Weaker than a job file's defaults"))
        parts.append(tag("ul", *(tag("li", way) for way in report.weaker)))
    if report.hardened:
        parts.append(tag("h3", "Before the model left"))
        parts.append(tag("ul", *(tag("li", step) for step in report.hardened)))
    return join_html(*parts)


def _lead(report: ReportFacts) -> str:
    """Summarise the section in a sentence or two."""
    labels = _LABELS.get(str(report.settings.get("labels"))) if report.holders else None
    if labels is not None:
        words = f"{labels}, and so did which rows share a node. No other cell did."
        if report.is_private:
            return f"{words} Every label was randomised once before it left, and charged."
        return f"Not differentially private: no noise was added. {words}"
    rows = "" if report.holders or report.is_private else " No row left its party."
    return f"{noise_in_words(report)}{rows}"


def _statistics(disclosures: tuple[DisclosureRow, ...]) -> Html:
    lines: list[list[Content]] = [
        [
            entry.statistic,
            str(entry.times),
            size(max(entry.bytes_up.values(), default=0)),
            entry.seen_by,
            entry.protection,
        ]
        for entry in disclosures
    ]
    headings = ["statistic", "times", "bytes, most from one party", "seen by", "protection"]
    return table("Every kind of statistic that left a party", headings, lines)


def _claims(report: ReportFacts) -> Html:
    lines: list[list[Content]] = [
        [
            claim.unit,
            claim.view,
            claim.verdict.lower(),
            "-" if claim.epsilon is None else amount(claim.epsilon),
            "-" if claim.delta is None else amount(claim.delta),
            ", ".join(claim.parties),
        ]
        for claim in report.privacy
    ]
    headings = ["protects", "against", "verdict", "epsilon", "delta", "at"]
    return table("Claims by unit and view", headings, lines)


def _budgets(budgets: tuple[PartyBudget, ...]) -> Html:
    lines: list[list[Content]] = []
    for found in budgets:
        whole = found.before and float(Fraction(found.before))
        part = float(Fraction(found.spent)) / whole if whole else 0.0
        lines.append(
            [
                found.party,
                found.unit,
                word_of_measure(found.measure),
                amount(found.before),
                amount(found.spent),
                amount(found.left),
                bar(part),
            ]
        )
    headings = ["party", "protects", "counted in", "before", "spent", "left", "share spent"]
    return table("Each party's budget for this job", headings, lines)


def _charges(budgets: tuple[PartyBudget, ...]) -> Html:
    """Return every charge; parties with the same charges share a table."""
    parties: dict[tuple[ChargeLine, ...], list[str]] = {}
    for found in budgets:
        parties.setdefault(found.charges, []).append(found.party)
    parts = []
    for charges, names in parties.items():
        lines: list[list[Content]] = [[c.what, str(c.times), c.cost, c.noise] for c in charges]
        shown = table("Charges", ["what", "times", "cost of one", "noise"], lines)
        who = ", ".join(dict.fromkeys(names))
        parts.append(tag("details", tag("summary", f"Every charge at {who}"), shown))
    return join_html(*parts)
