"""The report of a run as one party knows it: from what it derived itself, and from its records.

The coordinator's report goes to the lead. Whoever signs for a party need not take that word: the
party derived the same model from sums that it checked, and noted everything that left it.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from spinney.deployment.job import Agreed
from spinney.jobs.careful import weaker_than_default
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import EXACT
from spinney.protocols.secure_sums.channel import masked_in_words
from spinney.protocols.training import Quality, Training
from spinney.protocols.verified.blind import NOT_SEEN
from spinney.report.facts import DisclosureRow, Subject
from spinney.report.report import Report, seen_by
from spinney.transport.channel import Round


def own_report(
    party: str,
    agreed: Agreed,
    training: Training,
    *,
    present: tuple[str, ...],
    released: ForestModel,
    disclosed: Path,
    rules: dict[str, str],
) -> Report:
    """Return the report of a run that a party took part in.

    Parameters
    ----------
    party, agreed
        The party, and the job that it accepted.
    training
        The training that the party derived.
    present
        Who was in the attempt that finished the run.
    released
        The model as it left.
    disclosed
        The party's record of what left it.
    rules
        The rules of its policy, in words.
    """
    settings, terms = agreed.protocol_settings(), released.released or EXACT
    # Its own reply to a question about each party stands for all: it never saw the others'.
    known = replace(
        training,
        rounds=tuple(_protected(training.rounds, agreed, len(present))),
        claims=tuple(dict.fromkeys(one for one in training.claims if one.party == party)),
        quality={
            name: _of_one(found) if name == party else found
            for name, found in training.quality.items()
            if name == party or name not in agreed.parties
        },
    )
    report = Report.of(known, release=terms)
    return msgspec.structs.replace(
        report.of_leaving(released),
        disclosures=_disclosed(party, disclosed, is_blind=agreed.is_blind),
        dropped=tuple(name for name in agreed.parties if name not in present),
        weaker=weaker_than_default(agreed.spec, agreed.given, settings, len(present), terms),
        told_by=party,
        rules=rules,
        subject=Subject.of(agreed.name, training.model.schema, dates=agreed.schema.date_columns),
    )


def _of_one(found: Quality) -> Quality:
    """Return a party's quality without what would need the other parties' classes."""
    scores = {name: score for name, score in found.scores.items() if name != "joint_majority"}
    return replace(found, scores=scores)


def _protected(rounds: tuple[Round, ...], agreed: Agreed, n_present: int) -> Iterator[Round]:
    """Yield the rounds that left the party, with how they were protected."""
    masked = masked_in_words(agreed.honest_among(n_present), n_present)
    if agreed.is_blind:
        masked = f"{masked}; {NOT_SEEN}"
    for one in rounds:
        if one.verb == "sum":
            how = masked if agreed.is_masked else "summed by the coordinator; not masked"
            yield replace(one, protection=how)
        elif not agreed.is_blind:  # else the party answered itself
            yield replace(one, protection="none: the coordinator sees each party's reply")


def _disclosed(party: str, path: Path, *, is_blind: bool) -> tuple[DisclosureRow, ...]:
    """Return one entry for each kind of question, as the party's own record has it."""
    found: dict[str, DisclosureRow] = {}
    for line in path.read_text().splitlines():
        one: dict[str, Any] = json.loads(line)
        if one["protection"].startswith("refused"):
            continue
        before = found.get(one["question"])
        times, n_bytes = (before.times, before.bytes_up[party]) if before else (0, 0)
        who = seen_by(one["question"], one["protection"], "sum" if _is_sum(one) else "ask")
        if is_blind and _is_sum(one):
            who = f"the parties, as a sum; {NOT_SEEN}"
        found[one["question"]] = DisclosureRow(
            one["question"],
            one["reveals"],
            times + 1,
            {party: n_bytes + int(one["bytes"])},
            who,
            one["protection"],
        )
    return tuple(found.values())


def _is_sum(one: dict[str, Any]) -> bool:
    return str(one["protection"]).startswith("masked")
