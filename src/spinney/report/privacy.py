"""The privacy guarantees of a job in words, from the parties' ledgers or from its rounds."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self

import msgspec

from spinney.privacy.budget import Unit
from spinney.privacy.scopes import PARTY_TOTALS, View
from spinney.protocols.training import PartyClaim, Trained
from spinney.protocols.verified.blind import NOT_SEEN
from spinney.transport.channel import Round

_NO_ROWS: Final = ("Schema", "Terms", "Audit", "Withdraw", "Model", "Derived")
"""Questions that ask for nothing about rows; of the model, the claim against readers tells."""

_UNTOLD: Final = ("Explain",)
"""Questions after training, whose sums are for the coordinator alone."""


class PrivacyClaim(msgspec.Struct, frozen=True):
    """The guarantee for one unit against one view, and the parties at which it holds."""

    parties: tuple[str, ...]
    unit: str
    view: str
    verdict: str  # "EPSILON", "HIDDEN", "UNPROTECTED" or "NOTHING"
    epsilon: str | None  # exact, as a fraction
    delta: str | None
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Seen:
    """The facts of a round that a guarantee depends on."""

    question: str
    reveals: str
    protection: str
    answered: tuple[str, ...]  # the parties whose replies were used
    verb: str = "ask"

    @classmethod
    def of(cls, r: Round) -> Self:
        """Return the facts of a round."""
        return cls(r.question, r.reveals, r.protection, r.answered, r.verb)


def privacy_of(training: Trained) -> tuple[PrivacyClaim, ...]:
    """Return the guarantees; equal claims of several parties are merged."""
    if not training.claims:
        if training.settings.get("privacy") is not None:
            return ()  # stopped before it read the parties' ledgers, and only they know
        claims = _without_noise([Seen.of(r) for r in training.rounds], training.parties)
        return claims if training.shape.n_trees else claims[1:]  # no model, so no reader
    return merged(training.claims)


def merged(claims: Sequence[PartyClaim]) -> tuple[PrivacyClaim, ...]:
    """Return what ledgers promise; equal claims of several parties are one."""
    parties: dict[tuple[str | None, ...], list[str]] = {}
    for claim in claims:
        parties.setdefault(_content(claim), []).append(claim.party)
    return tuple(
        PrivacyClaim(tuple(who), *content)  # type: ignore[arg-type]  # fields in order
        for content, who in parties.items()
    )


def epsilon_in_all(
    training: Sequence[PrivacyClaim], evaluations: Sequence[PrivacyClaim]
) -> dict[str, Fraction]:
    """Return by unit what training and evaluations claim together, as if of the same rows.

    Every evaluation has its own claims, so that equal ones are of several.
    """
    return _in_all(training, evaluations, lambda claim: claim.epsilon)


def delta_in_all(
    training: Sequence[PrivacyClaim], evaluations: Sequence[PrivacyClaim]
) -> dict[str, Fraction]:
    """Return by unit the delta that belongs to the epsilon of `epsilon_in_all`."""
    return _in_all(training, evaluations, lambda claim: claim.delta or "0")


def _in_all(
    training: Sequence[PrivacyClaim],
    evaluations: Sequence[PrivacyClaim],
    amount: Callable[[PrivacyClaim], str | None],
) -> dict[str, Fraction]:
    total: dict[tuple[str, str], Fraction] = {}
    for claims in (training, evaluations):
        of_part: dict[tuple[str, str], dict[tuple[str, ...], Fraction]] = {}
        for claim in claims:
            told = amount(claim)
            if claim.verdict == "EPSILON" and claim.epsilon is not None and told is not None:
                spent = of_part.setdefault((claim.unit, claim.view), {})
                before = spent.get(claim.parties, Fraction(0))
                spent[claim.parties] = before + Fraction(told)
        for key, by_parties in of_part.items():
            total[key] = total.get(key, Fraction(0)) + max(by_parties.values())
    units = dict.fromkeys(unit for unit, _ in total)
    return {name: max(e for (unit, _), e in total.items() if unit == name) for name in units}


def with_exact_rounds(
    claims: Sequence[PrivacyClaim], before: Sequence[Seen], rounds: Sequence[Round]
) -> tuple[PrivacyClaim, ...]:
    """Return a job's guarantees after further questions that were answered without noise.

    Parameters
    ----------
    claims
        The guarantees before.
    before
        The rounds to which they belong.
    rounds
        The further rounds.
    """
    after = [Seen.of(r) for r in rounds if r.question not in _NO_ROWS]
    if not claims or not after:
        return tuple(claims)
    if not any(claim.verdict == "EPSILON" for claim in claims):
        renewed = _without_noise([*before, *after], claims[0].parties)
        views = {claim.view for claim in claims} - {View.PARTY.value}  # parties are told no more
        kept = [claim for claim in claims if claim.view == View.PARTY.value]
        return (*(claim for claim in renewed if claim.view in views), *kept)
    return tuple(_broken(claim, after) for claim in claims)


def _broken(claim: PrivacyClaim, after: Sequence[Seen]) -> PrivacyClaim:
    """Return a claim of a job with noise after the coordinator got exact answers as well."""
    if claim.verdict != "EPSILON" or claim.view not in (View.COORDINATOR, View.COALITION):
        return claim
    subject, _, rest = claim.text.partition(", against ")
    against = rest.partition(": ")[0]
    text = (
        f"{subject}, against {against}: UNPROTECTED, as exact numbers after training: "
        f"{'; '.join(_named(after))}. No epsilon holds."
    )
    return msgspec.structs.replace(
        claim, verdict="UNPROTECTED", epsilon=None, delta=None, text=text
    )


def _content(claim: PartyClaim) -> tuple[str | None, ...]:
    return (claim.unit, claim.view, claim.verdict, claim.epsilon, claim.delta, claim.text)


def in_words(report_parties: tuple[str, ...], claims: Sequence[PrivacyClaim]) -> list[str]:
    """Return the guarantees as texts without repetition, with parties if they are not all."""
    return [
        text
        for parties in dict.fromkeys(claim.parties for claim in claims)
        for text in fold_claims(
            [claim.text for claim in claims if claim.parties == parties],
            "" if parties == report_parties else f" (At {', '.join(parties)}.)",
        )
    ]


def fold_claims(texts: Sequence[str], behind: str = "") -> list[str]:
    """Return claims with equal words as one: first those of several views, then of several units.

    Parameters
    ----------
    texts
        Claims of the form "<unit>, against <view>: <words>".
    behind
        What to put behind each.
    """
    views: dict[tuple[str, str], list[str]] = {}
    for text in texts:
        unit, _, rest = text.partition(", against ")
        view, _, words = rest.partition(": ")
        views.setdefault((unit, words), []).append(view)
    units: dict[tuple[str, str], list[str]] = {}
    for (unit, words), found in views.items():
        units.setdefault(("; ".join(found), words), []).append(unit)
    return [
        f"{join_units(of)}, against {against}: {words}{behind}"
        for (against, words), of in units.items()
    ]


def say_once(texts: Sequence[str]) -> list[str]:
    """Return claims in which a reason that an earlier one lists is not listed again."""
    told: set[str] = set()
    said = []
    for text in texts:
        head, mark, rest = text.partition(": UNPROTECTED")
        how, colon, body = rest.partition(": ")
        listed, stop, after = body.partition(". ")
        if not stop and listed.endswith("."):
            listed, stop = listed[:-1], "."
        listed, more, n_more = listed.partition("; and ")
        reasons = _REASONS.split(listed)
        new = [one for one in reasons if one not in told]
        told.update(reasons)
        if mark and len(new) < len(reasons):
            shown = "; ".join([*new, f"what is listed above{more}{n_more}"])
            text = f"{head}{mark}{how}{colon}{shown}{stop}{after}"  # noqa: PLW2901
        said.append(text)
    return said


_REASONS: Final = re.compile(r"; (?![^(]*\))")  # not within parentheses


def join_units(units: Sequence[str]) -> str:
    """Return units as one text; only the first keeps its capital."""
    first, *others = units
    return "; ".join([first, *(f"{unit[:1].lower()}{unit[1:]}" for unit in others)])


def _without_noise(rounds: Sequence[Seen], parties: tuple[str, ...]) -> tuple[PrivacyClaim, ...]:
    """Return the claims of a job without noise: what it reveals, and what masks hide."""
    record, coordinator, reader = Unit.RECORD_ADD_REMOVE.value, View.COORDINATOR, View.READER
    counted = [r for r in rounds if r.question not in _NO_ROWS]
    shown = _named([r for r in counted if not is_masked(r)])
    masked = _named([r for r in counted if is_masked(r)])
    open_to_all = (
        f"One record, added or removed, against {reader.value}s of the model: UNPROTECTED: no "
        "noise was added, and a forest's leaves count rows, exactly or rounded. No epsilon holds."
    )
    against = f"against the {coordinator.value}: "
    to_coordinator = (
        f"One record, added or removed, {against}UNPROTECTED{_read_by_coordinator(counted)}. No "
        "epsilon holds."
    )
    totals = f"A party's own totals, {against}"
    if shown:
        totals += f"UNPROTECTED, party by party: {'; '.join(shown)}."
    if masked:
        how = min((r.protection for r in counted if is_masked(r)), key=len)  # what holds of all
        totals += f"{' ' if shown else ''}HIDDEN: {'; '.join(masked)} ({how})."
    left = _left(counted)
    if left:
        totals += (
            f" UNPROTECTED: {', '.join(left)} left before the end; the sums before and after "
            "differ by that party's own counts."
        )
    verdict = "UNPROTECTED" if shown or left else "HIDDEN"
    facts = (
        (record, reader, "UNPROTECTED", open_to_all),
        (record, coordinator, "UNPROTECTED", to_coordinator),
        (PARTY_TOTALS, coordinator, verdict, totals),
        *_against_others(counted, len(parties)),
    )
    return tuple(
        PrivacyClaim(parties, unit, view.value, found, None, None, text)
        for unit, view, found, text in facts
    )


def _read_by_coordinator(counted: Sequence[Seen]) -> str:
    """Say what the coordinator read of records: exact numbers, or, if it is blind, the model."""
    read = [r for r in counted if not r.protection.endswith(NOT_SEEN)]
    if counted and not read:
        return f": {NOT_SEEN}, but gets the model, as its readers do"
    both = sorted(read, key=is_masked)
    return f", as exact numbers: {'; '.join(_named(both))}"


def _against_others(rounds: Sequence[Seen], n_parties: int) -> list[tuple[str, View, str, str]]:
    """Return the claims against other parties, which are told every sum of a training over rows."""
    told = _named([r for r in rounds if r.verb == "sum" and r.question not in _UNTOLD])
    if not told or n_parties < 2:
        return []
    against, sums = "against any other party: ", "; ".join(told)
    record = (
        f"One record, added or removed, {against}UNPROTECTED, as exact sums over parties, which "
        f"each party checks: {sums}. No epsilon holds."
    )
    totals, verdict = f"A party's own totals, {against}", "HIDDEN"
    if n_parties == 2:
        verdict = "UNPROTECTED"
        totals += "UNPROTECTED: of two parties each learns the other's, less its own from each sum."
    else:
        totals += f"HIDDEN: only sums over {n_parties} parties are told ({sums})."
    return [
        (Unit.RECORD_ADD_REMOVE.value, View.PARTY, "UNPROTECTED", record),
        (PARTY_TOTALS, View.PARTY, verdict, totals),
    ]


def _left(rounds: Sequence[Seen]) -> list[str]:
    """Return the parties that are in a masked sum but missing from a later one."""
    heard = [r.answered for r in rounds if is_masked(r)]
    return [name for name in (heard[0] if heard else ()) if name not in heard[-1]]


def is_masked(round_: Round | Seen) -> bool:
    """Return whether masks hid each party's reply."""
    return round_.protection.startswith("masked")


def _named(rounds: Sequence[Seen]) -> list[str]:
    return list(dict.fromkeys(r.reveals for r in rounds))
