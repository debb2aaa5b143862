"""The audit of whole trees catches planted faults."""

from dataclasses import replace
from fractions import Fraction
from math import log
from typing import Any

import numpy as np
import pytest

from spinney.errors import BudgetError
from spinney.privacy import samplers
from spinney.privacy.ledger import Ledger
from spinney.privacy.release import _LEDGER_TOKEN, Charge
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.party import Party
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from statistical.tree_evidence import (  # type: ignore[import-not-found]
    Noting,
    audited,
    job,
    table,
)

pytestmark = pytest.mark.usefixtures("seeded")


def test_equation_6_of_s1_is_caught(monkeypatch):
    """S1 takes epsilon for alpha, so that the smaller it is, the less noise there is."""
    right = samplers.shares

    def published(decay: Fraction, honest: int, n: int) -> Any:
        return right(Fraction(-log(decay)).limit_denominator(10**6), honest, n)

    monkeypatch.setattr(samplers, "shares", published)
    found = audited(job(Fraction(1, 2)))
    assert found.refutes(0.5), found
    assert found.epsilon > 2, found


def ask_again(transcript: Any, party: Any, times: int, changed: Any = None) -> Any:
    """Return the transcript with the first question asked again and again."""
    ask = transcript[0][0]
    question = changed(ask) if changed else ask
    return transcript + [
        (question, np.array(party.answer(question).counters)) for _ in range(times)
    ]


class FreshOnRetry(Party):
    """A party whose ledger forgets its replies: it draws again, and does not pay again."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        ledger: Any = named["ledger"]
        paid: dict[Any, Any] = {}

        def answer(question: Any, spends: Any, draw: Any, disclosures: Any = ()) -> bytes:
            if question not in paid:
                paid[question] = ledger.reserve(question, spends, disclosures)
            unspent = [_unspent(charge) for charge in paid[question]]
            reply: bytes = draw(tuple(unspent))
            return reply

        ledger.answer = answer


def _unspent(charge: Charge) -> Charge:
    facts = {"cost": charge.cost, "entry": charge.entry, "reason": charge.reason}
    return Charge._issued_by(_LEDGER_TOKEN, **facts)  # type: ignore[arg-type]


def asked_often(party_type: type[Party]) -> Any:
    def run(settings: Any, rows: MemoryTable) -> Any:
        party = Noting(party_type(rows, ledger=Ledger.in_memory("one")))
        horizontal_forest.train(InProcess({"one": party}), settings)
        return ask_again(party.released, party.party, 60)

    return run


@pytest.mark.slow  # thousands of trainings: eight seconds
def test_a_fresh_draw_on_retry_is_caught():
    found = audited(job(Fraction(1, 2)), asked_often(FreshOnRetry))
    assert found.refutes(0.5), found
    assert found.epsilon > 0.8, found


def test_the_stored_reply_to_a_repeated_question_gives_nothing_more_away():
    transcript = asked_often(Party)(job(Fraction(1, 2), 50), table(canary=True))
    first = transcript[0][1]
    assert len(transcript) > 60
    assert all(np.array_equal(values, first) for _, values in transcript[-60:])


class SkipsTheCharge(Party):
    """A party that draws for any question, whether its ledger would pay for it or not."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        ledger: Any = named["ledger"]

        def answer(question: Any, spends: Any, draw: Any, disclosures: Any = ()) -> bytes:
            charges = [
                Charge._issued_by(_LEDGER_TOKEN, cost=s.mechanism.cost(), entry="", reason=s.what)
                for s in spends
            ]
            reply: bytes = draw(tuple(charges))
            return reply

        ledger.answer = answer


def one_tree_less(ask: Any) -> Any:
    """Return a question like the first that was never asked before, and so must be paid for."""
    return replace(ask, last=ask.last - 1)


@pytest.mark.slow  # thousands of trainings: eight seconds
def test_a_skipped_charge_is_caught():
    def run(settings: Any, rows: MemoryTable) -> Any:
        party = Noting(SkipsTheCharge(rows, ledger=Ledger.in_memory("one")))
        horizontal_forest.train(InProcess({"one": party}), settings)
        return ask_again(party.released, party.party, 60, one_tree_less)

    found = audited(job(Fraction(1, 2)), run)
    assert found.refutes(0.5), found


def test_a_charge_cannot_be_skipped_on_the_real_path():
    party = Noting(Party(table(canary=True), ledger=Ledger.in_memory("one")))
    horizontal_forest.train(InProcess({"one": party}), job(Fraction(1, 2), 50))
    with pytest.raises(BudgetError, match="Nothing was released"):
        ask_again(party.released, party.party, 1, one_tree_less)


def test_half_the_slots_forgotten_in_the_sensitivity_is_caught(monkeypatch):
    """The noise of one count in place of the noise of all that a record is in."""
    right = samplers.shares
    monkeypatch.setattr(samplers, "shares", lambda decay, t, n: right(4 * decay, t, n))
    found = audited(job(Fraction(2)))
    assert found.refutes(2.0), found
