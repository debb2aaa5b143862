"""The risks that are left after a run, as its report shows them."""

from spinney.protocols.verified.blind import NOT_SEEN
from spinney.report.facts import ReportFacts
from spinney.report.privacy import PrivacyClaim

_ALWAYS = (
    "Nobody outside the project has reviewed Spinney's protocols or code.",
    "A party that lies about its own counts can spoil the model. No rule here finds that.",
    "The coordinator, and whoever watches the network, see who takes part, when, and for how long.",
)
_SMALL = 3


def residual_risks(report: ReportFacts) -> list[str]:
    """Return the risks, the heaviest first."""
    found = []
    verdicts = {(claim.view, claim.verdict) for claim in report.privacy}
    if ("reader", "UNPROTECTED") in verdicts:
        found.append(
            "No epsilon holds against readers of the model: nothing bounds what they may find out "
            "about one record. Hardening makes that harder and is no guarantee."
        )
    if any(_saw_numbers(claim) for claim in report.privacy):
        found.append(
            "The coordinator saw exact numbers while the model grew. What it saw, hardening does "
            "not take back."
        )
    if not report.privacy:
        found.append("The run ended before anybody could say what it promises.")
    if len(report.parties) - len(report.dropped) < _SMALL and not report.holders:
        found.append(
            "Fewer than three parties: each can subtract its own counts from every sum, and so "
            "learns the other's."
        )
    found += [f"Weaker than the defaults: {way}." for way in report.weaker]
    if report.dropped:
        found.append(
            f"{', '.join(report.dropped)} left before the end: sums with and without them may "
            "differ by their counts."
        )
    if report.label_leakage is not None:
        found.append(f"Labels: {report.label_leakage.in_words()}")
    if report.is_private:
        found.append(
            "An epsilon is for one job. Further jobs on the same rows add to it; only the ledger "
            "keeps the sum."
        )
    return [*found, *_ALWAYS]


def _saw_numbers(claim: PrivacyClaim) -> bool:
    """Return whether a claim is open to a coordinator that was not blind."""
    is_open = (claim.view, claim.verdict) == ("coordinator", "UNPROTECTED")
    return is_open and NOT_SEEN not in claim.text
