"""A run's claims in plain words, and what their epsilon means for a record."""

from fractions import Fraction

from spinney.privacy.budget import Unit
from spinney.privacy.scopes import PARTY_TOTALS
from spinney.report.facts import ReportFacts
from spinney.report.officer.odds import odds_table
from spinney.report.officer.sources import Source, said
from spinney.report.page.markup import Content, Html, join_html, table, tag
from spinney.report.privacy import epsilon_in_all

_UNITS = {
    Unit.RECORD_ADD_REMOVE.value: "whether a record was among the rows at all",
    Unit.RECORD_REPLACE.value: "what a record says, if it is known to be there",
    Unit.LABEL.value: "a record's label alone, such as a diagnosis, if all else is known",
    PARTY_TOTALS: "what one organisation holds in total, as opposed to one record",
}
_VIEWS = {
    "reader": "whoever gets the model",
    "coordinator": "the coordinator",
    "party": "any other party",
    "coalition": "the coordinator with as many parties as the job allows to collude",
    "label holder": "the party with the labels",
    "feature party": "a party without labels",
}
_VERDICTS = {
    "EPSILON": "bounded by noise",
    "HIDDEN": "hidden, while as many parties are honest as the words below say",
    "UNPROTECTED": "not protected",
    "NOTHING": "nothing is released",
}


def claims_section(report: ReportFacts, source: Source) -> Html:
    """Return one line for each claim; then the words of the report itself."""
    if not report.privacy:
        return said("The report holds no claims: the run ended before they were made.", source)
    claims = (*report.privacy, *report.evaluation_privacy)
    lines: list[list[Content]] = [
        [
            _UNITS.get(claim.unit, claim.unit),
            _VIEWS.get(claim.view, claim.view),
            _VERDICTS.get(claim.verdict, claim.verdict),
            _amount(claim.epsilon, claim.delta),
            "all" if claim.parties == report.parties else ", ".join(claim.parties),
            "training" if number < len(report.privacy) else "evaluation",
        ]
        for number, claim in enumerate(claims)
    ]
    headings = ["what is protected", "against whom", "verdict", "epsilon", "at", "of"]
    exact = tag(
        "details",
        tag("summary", "The claims in the words of the ledgers"),
        tag("ul", *(tag("li", claim.text) for claim in claims)),
        open=True,  # it is printed
    )
    return join_html(
        said("Each line is a promise, or says that there is none.", source),
        table("Claims", headings, lines),
        exact,
    )


def odds_section(report: ReportFacts, source: Source) -> Html:
    """Return what the run's epsilons mean for a record; if there are none, say so."""
    found: dict[Fraction, list[str]] = {}
    for claim in report.privacy:
        if claim.verdict == "EPSILON" and claim.epsilon is not None:
            unit = _UNITS.get(claim.unit, claim.unit)
            found.setdefault(Fraction(claim.epsilon), []).append(unit)
    record = Unit.RECORD_ADD_REMOVE.value
    said_of = {claim.unit for claim in report.privacy if claim.verdict == "EPSILON"}
    if report.evaluation_privacy:  # the rows may be the same
        in_all = epsilon_in_all(report.privacy, report.evaluation_privacy)
        for unit, together in in_all.items():
            said_so = f"{_UNITS.get(unit, unit)}, all evaluations included"
            found.setdefault(together, []).append(said_so)
    for epsilon in [e for e, units in found.items() if _UNITS[record] in units]:
        for unit in (Unit.RECORD_REPLACE.value, Unit.LABEL.value):
            if unit not in said_of:  # to replace a record is to remove one and to add one
                found.setdefault(2 * epsilon, []).append(_UNITS[unit])
    if not found:
        words = (
            "No epsilon holds in this run, so there is no limit to what somebody may come to "
            "believe about a record, or about whose it is: a suspicion can become a certainty."
        )
        return tag("p", words, " ", source.mark, class_="warn")
    told = {epsilon: "; ".join(dict.fromkeys(units)) for epsilon, units in found.items()}
    words = (
        "Suppose that somebody suspects something of one record, such as that it is a certain "
        "patient's or what it says, and then sees all that the claim is about. Whatever else they "
        "know, the odds of their suspicion move by no more than the factor in the table; this "
        "record is the reason for no more than that. A record is one row. Of a person who has "
        "several rows, the epsilons add up: two rows, twice the epsilon."
    )
    delta = any(claim.delta not in (None, "0") for claim in report.privacy)
    rest = "With a delta, this fails with a probability of about delta." if delta else None
    return join_html(said(words, source), odds_table(told), rest and tag("p", rest))


def _amount(epsilon: str | None, delta: str | None) -> str:
    if epsilon is None:
        return "none"
    told = f"{float(Fraction(epsilon)):.4g}"
    return told if delta in (None, "0") else f"{told} (delta {float(Fraction(str(delta))):.2g})"
