"""A ledger's round: reserve, draw, commit; a question has one reply for ever."""

from contextlib import closing
from fractions import Fraction

import pytest

from spinney.errors import BudgetError, InternalError, LedgerError, SettingError
from spinney.privacy import entropy
from spinney.privacy.accounting import JobTerms
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Charged, Disclosed
from spinney.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from spinney.privacy.release import Shares
from spinney.privacy.scopes import (
    Budget,
    Disclosure,
    Protection,
    Question,
    Spend,
    View,
)
from unit.privacy.ledger_jobs import (  # type: ignore[import-not-found]
    COUNTS,
    NOISE,
    RECORD,
    ask,
    level,
    noised,
)


@pytest.fixture
def draws(monkeypatch):
    """Count every call for secret randomness."""
    calls: list[int] = []

    def spied(drawn):
        def spy(count):
            calls.append(count)
            return drawn(count)

        return spy

    for name in ("words", "secret_bytes"):
        monkeypatch.setattr(entropy, name, spied(getattr(entropy, name)))
    return calls


def test_one_noisy_round(ledger):
    reply = ledger.answer(ask(0), [level(0)], noised)

    assert len(reply) == 64
    assert ledger.spent("q3", RECORD) == Fraction(1, 4)
    assert ledger.left("q3", RECORD) == Fraction(3, 4)


def test_a_question_asked_again_gets_the_same_bytes_and_costs_nothing(ledger, draws):
    first = ledger.answer(ask(0), [level(0)], noised)
    drawn = len(draws)
    assert drawn > 0

    assert ledger.answer(ask(0), [level(0)], noised) == first
    assert len(draws) == drawn
    assert ledger.spent("q3", RECORD) == Fraction(1, 4)


def test_a_refused_charge_draws_nothing_and_writes_nothing(ledger, draws):
    for n in range(4):
        ledger.answer(ask(n), [level(n)], noised)
    drawn, entries = len(draws), len(ledger.entries())

    with pytest.raises(
        BudgetError, match=r"^Charge refused for level 4: asked epsilon=0.25 for a record"
    ):
        ledger.answer(ask(4), [level(4)], noised)

    assert len(draws) == drawn
    assert len(ledger.entries()) == entries


def test_a_budget_smaller_than_one_release_refuses_the_first(draws):
    with closing(Ledger.in_memory()) as ledger:
        ledger.open_job(JobTerms.agreed("q3", "data", 5, [Budget.pure(0.1)]))
        message = (
            "Charge refused for level 4: asked epsilon=0.25 for a record added or removed, "
            "left epsilon=0.1. Nothing was released."
        )
        with pytest.raises(BudgetError) as caught:
            ledger.answer(ask(0), [level(4)], noised)
    assert str(caught.value) == message
    assert draws == []


def test_a_reserved_question_stays_charged_and_is_not_charged_again(ledger):
    ledger.reserve(ask(0), [level(0)])
    assert ledger.spent("q3", RECORD) == Fraction(1, 4)

    (charge,) = ledger.reserve(ask(0), [level(0)])

    assert ledger.spent("q3", RECORD) == Fraction(1, 4)
    assert ledger.commit(ask(0), noised((charge,))) == ledger.stored_reply(ask(0))


def test_a_reserved_question_that_is_answered_otherwise_is_charged_again(ledger):
    ledger.reserve(ask(0), [level(0)])
    ledger.reserve(ask(0), [level(0, DiscreteLaplace(Fraction(1, 2)))])

    assert ledger.spent("q3", RECORD) == Fraction(3, 4)


def test_the_first_reply_to_be_stored_is_the_only_one(ledger):
    first, second = ledger.reserve(ask(0), [level(0)]), ledger.reserve(ask(0), [level(0)])

    assert ledger.commit(ask(0), noised(first)) == ledger.commit(ask(0), noised(second))


def test_an_answered_question_cannot_be_reserved(ledger):
    ledger.answer(ask(0), [level(0)], noised)

    assert ledger.reserve(ask(0), [level(0)]) is None
    assert ledger.spent("q3", RECORD) == Fraction(1, 4)


def test_an_unpaid_reply_cannot_be_stored(ledger):
    with pytest.raises(LedgerError, match="round 0 was not reserved, so its reply cannot be"):
        ledger.commit(ask(0), b"exact counts")


def test_a_charge_pays_for_one_release(ledger):
    charges = ledger.reserve(ask(0), [level(0)])
    noised(charges)

    with pytest.raises(InternalError, match="has already paid for a release"):
        noised(charges)


def test_every_release_has_a_charge_in_the_order_of_the_spends(ledger):
    spends = [level(0, n_releases=2), level(1, DiscreteLaplace(Fraction(1, 8)))]

    charges = ledger.reserve(ask(0), spends)

    assert [charge.reason for charge in charges] == ["level 0", "level 0", "level 1"]
    assert [charge.cost.amount for charge in charges] == [Fraction(1, 4)] * 2 + [Fraction(1, 8)]
    assert [charge.entry for charge in charges] == ["3", "3", "4"]
    assert ledger.spent("q3", RECORD) == Fraction(5, 8)


def test_a_batch_is_paid_for_together_or_not_at_all(ledger):
    with pytest.raises(BudgetError, match=r"refused for level 0 and level 1: asked epsilon=1.25"):
        ledger.reserve(ask(0), [level(0, n_releases=4), level(1)])

    assert ledger.spent("q3", RECORD) == 0


def test_the_cost_is_computed_from_the_parameters(ledger):
    """A Gaussian in shares costs more per number; the entry holds the mechanism's cost."""
    ledger.open_job(JobTerms.agreed("z", "data", 5, [Budget.zcdp(4, 1e-6)]))
    gaussian = DiscreteGaussian(Fraction(1, 8), shares=Shares(5))
    question = Question.of("z", 0, b"")

    (charge,) = ledger.reserve(question, [Spend("counts", gaussian, n_values=8)])

    assert charge.cost == gaussian.cost(8) != gaussian.cost(1)
    assert gaussian.release(COUNTS, charge).shape == (8,)
    entry = next(e.body for e in ledger.entries() if isinstance(e.body, Charged))
    assert entry.parameters == gaussian.parameters()
    assert (entry.t_honest, entry.n_parties, entry.data) == (3, 5, "data")
    assert entry.cost == charge.cost


def test_pure_noise_in_a_zcdp_job_costs_half_its_square(ledger):
    ledger.open_job(JobTerms.agreed("z", "data", 5, [Budget.zcdp(4, 1e-6)]))
    (charge,) = ledger.reserve(Question.of("z", 0, b""), [level(0)])

    assert ledger.spent("z", RECORD) == Fraction(1, 32)
    assert NOISE.release(COUNTS, charge).shape == (8,)


def test_checking_first_charges_nothing(ledger):
    ledger.check("q3", [level(0, n_releases=4)])
    with pytest.raises(BudgetError, match=r"job 'q3': asked epsilon=1.25 for .*, left epsilon=1"):
        ledger.check("q3", [level(0, n_releases=5)])

    assert ledger.spent("q3", RECORD) == 0


def test_an_exact_release_is_on_the_record_before_it_leaves(ledger):
    exact = Disclosure("bin means", Protection.UNPROTECTED, "exact", (RECORD,), (View.PARTY,))

    assert ledger.answer(ask(0), [], lambda charges: repr(charges).encode(), [exact]) == b"()"
    assert ledger.answer(ask(0), [], lambda _: b"fresh", [exact]) == b"()"
    (entry,) = (e.body for e in ledger.entries() if isinstance(e.body, Disclosed))
    assert entry == Disclosed(ask(0), "data", exact, 3, 5)


def test_seeded_noise_is_on_the_record(ledger):
    with entropy.seeded_for_tests(0):
        ledger.answer(ask(0), [level(0)], noised)
    ledger.answer(ask(1), [level(1)], noised)

    seeded = [e.body.is_seeded for e in ledger.entries() if isinstance(e.body, Charged)]
    assert seeded == [True, False]


def test_noise_that_needs_more_honest_parties_than_promised_is_refused(ledger):
    shares = DiscreteLaplace(Fraction(1, 4), shares=Shares(5, 4))

    with pytest.raises(
        SettingError, match="of which 4 must be honest; job 'q3' has 5 and promises"
    ):
        ledger.reserve(ask(0), [level(0, shares)])
