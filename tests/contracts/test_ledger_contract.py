"""Every kind of ledger keeps the same promises, whatever program spends from it.

A kind of ledger is a function from a folder to an open ledger; `handles` opens the file anew for
each use, as processes that come and go would.
"""

from contextlib import closing
from fractions import Fraction
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import BudgetError, InternalError
from spinney.privacy import entropy
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Measure, Unit
from spinney.privacy.claims import Verdict, claims
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Charged
from spinney.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, PermuteAndFlip
from spinney.privacy.release import Exact
from spinney.privacy.scopes import ALL_ROWS, Budget, Question, Scope, Spend, Step
from spinney.privacy.signatures import LocalKey

RECORD = Unit.RECORD_ADD_REMOVE
COUNTS = Exact(np.arange(4))
KEY = LocalKey(Ed25519PrivateKey.generate())
KINDS = {
    "in memory": lambda _: Ledger.in_memory("north"),
    "on disk": lambda folder: Ledger.open(f"{folder}/ledger.db", "north"),
    "signed": lambda folder: Ledger.open(f"{folder}/ledger.db", "north", key=KEY),
}


@pytest.fixture(params=KINDS)
def ledger(request, tmp_path):
    with closing(KINDS[request.param](tmp_path)) as made:
        yield made


def drawn_by(noise):
    """Return what a party does between reserve and commit."""
    return lambda charges: noise.release(COUNTS, charges[0]).values.tobytes()


def worst_record(charges):
    """Return what the unluckiest record pays, by trying all of them, in exact fractions."""

    def best(prefix):
        own = sum((amount for path, amount in charges if path == prefix), Fraction(0))
        depth = len(prefix)
        below = {p[depth] for p, _ in charges if len(p) > depth and p[:depth] == prefix}
        groups: dict[object, list[Fraction]] = {}
        for step in below:
            groups.setdefault(step.group, []).append(best((*prefix, step)))
        return own + sum((max(costs) for costs in groups.values()), Fraction(0))

    return best(())


trees = st.sampled_from([ALL_ROWS, ALL_ROWS.again("tree 0"), ALL_ROWS.again("tree 1")])
nodes = st.recursive(
    trees,
    lambda above: st.builds(
        Scope.part, above, st.sampled_from(["a<1", "a<2", "b<1"]), st.sampled_from("LR")
    ),
    max_leaves=4,
)
amounts = st.sampled_from(  # few, since each needs a table of its noise
    [Fraction(a, b) for a, b in ((1, 500), (1, 97), (1, 13), (1, 10), (1, 3), (3, 7), (2, 3))]
)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_adaptive_program_exceeds_its_budget_and_none_is_refused_too_early(data):
    """The next charge depends on what the last one released and on whether it was refused."""
    measure = data.draw(st.sampled_from(list(Measure)))
    budget = Budget.pure(1) if measure is Measure.PURE else Budget.zcdp(3, Fraction(1, 10**6))
    with closing(Ledger.in_memory()) as ledger:
        ledger.open_job(JobTerms.agreed("q", "data", 5, [budget]))
        charges: list[tuple[tuple[Step, ...], Fraction]] = []
        last = 0
        for round_ in range(data.draw(st.integers(1, 15))):
            scopes = tuple(data.draw(st.lists(nodes, min_size=1, max_size=3, unique=True)))
            amount = data.draw(amounts) / (1 + last % 3)  # what was released steers what is asked
            is_pure = last % 2 or measure is Measure.PURE
            noise = DiscreteLaplace(amount) if is_pure else DiscreteGaussian(amount)
            price = noise.cost() if measure is Measure.PURE else noise.cost().as_zcdp()
            new = [(scope.path, price.amount) for scope in scopes]
            try:
                reply = ledger.answer(
                    Question.of("q", round_, b""), [Spend("counts", noise, scopes)], drawn_by(noise)
                )
            except BudgetError:
                assert worst_record(charges + new) > budget.amount
                last += 1
            else:
                charges += new
                last = abs(int(np.frombuffer(reply, dtype=np.int64).sum()))
            assert ledger.spent("q", RECORD) == worst_record(charges) <= budget.amount
        ledger.verify()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(nodes, amounts), max_size=6))
def test_a_ledger_read_back_by_another_process_has_spent_the_same(charges):
    with TemporaryDirectory() as folder:
        path = f"{folder}/ledger.db"
        for round_, (scope, amount) in enumerate(charges):
            with closing(Ledger.open(path, "north")) as ledger:  # comes and goes
                ledger.open_job(JobTerms.agreed("q", "data", 5))
                spend = Spend("counts", DiscreteLaplace(amount), (scope,))
                ledger.reserve(Question.of("q", round_, b""), [spend])
        with closing(Ledger.open(path, "north")) as ledger:
            ledger.open_job(JobTerms.agreed("q", "data", 5))
            paid = [(scope.path, amount) for scope, amount in charges]
            assert ledger.spent("q", RECORD) == worst_record(paid)


def test_a_refusal_touches_no_randomness(ledger, monkeypatch):
    ledger.open_job(JobTerms.agreed("q", "data", 5, [Budget.pure(Fraction(1, 2))]))
    calls: list[int] = []

    def spied(drawn):
        def spy(count):
            calls.append(count)
            return drawn(count)

        return spy

    for name in ("words", "secret_bytes"):
        monkeypatch.setattr(entropy, name, spied(getattr(entropy, name)))
    for n, noise in enumerate((DiscreteLaplace(Fraction(1)), PermuteAndFlip(Fraction(1)))):
        with pytest.raises(BudgetError, match="Nothing was released"):
            ledger.answer(Question.of("q", n, b""), [Spend("counts", noise)], drawn_by(noise))
        assert calls == []
    half = DiscreteLaplace(Fraction(1, 2))
    ledger.answer(Question.of("q", 9, b""), [Spend("counts", half)], drawn_by(half))
    assert calls  # the spy sees a draw when there is one


def test_a_retry_resends_the_stored_bytes(ledger):
    ledger.open_job(JobTerms.agreed("q", "data", 5, [Budget.pure(1)]))
    noise = DiscreteLaplace(Fraction(1, 2))
    replies = {
        ledger.answer(Question.of("q", 0, b"ask"), [Spend("counts", noise)], drawn_by(noise))
        for _ in range(20)
    }

    assert len(replies) == 1
    assert ledger.spent("q", RECORD) == Fraction(1, 2)


def test_a_draw_that_fails_stays_charged(ledger):
    def fails(_):
        raise ValueError

    ledger.open_job(JobTerms.agreed("q", "data", 5, [Budget.pure(1)]))
    question, spend = Question.of("q", 0, b""), Spend("counts", DiscreteLaplace(Fraction(1)))
    with pytest.raises(ValueError, match=r"^$"):
        ledger.answer(question, [spend], fails)

    assert ledger.left("q", RECORD) == 0
    with pytest.raises(BudgetError, match="left epsilon=0"):
        ledger.reserve(Question.of("q", 1, b""), [spend])


def test_a_charge_covers_no_more_than_it_paid_for(ledger):
    ledger.open_job(JobTerms.agreed("q", "data", 5, [Budget.pure(1)]))
    spend = Spend("counts", DiscreteLaplace(Fraction(1, 10)))
    (charge,) = ledger.reserve(Question.of("q", 0, b""), [spend])

    with pytest.raises(InternalError, match="does not cover the release"):
        DiscreteLaplace(Fraction(1, 5)).release(COUNTS, charge)


def test_every_entry_names_what_an_auditor_asks_for(ledger):
    ledger.open_job(JobTerms.agreed("q", "data", 5, [Budget.pure(1)]))
    question = Question.of("q", 7, b"")
    node = ALL_ROWS.again("tree 0").part("a<1", "L")
    ledger.reserve(question, [Spend("level 7", DiscreteLaplace(Fraction(1, 3)), (node,), 2)])
    charged = ledger.entries()[-1].body

    assert isinstance(charged, Charged)
    assert charged.question == question
    assert charged.parameters["mechanism"] == "DiscreteLaplace"
    assert charged.parameters["norm"] == "L1"
    assert charged.parameters["epsilon"] == "1/3"
    assert charged.parameters["sensitivity"] == "1"
    assert [line.scope for line in charged.lines] == [node]
    assert (charged.n_releases, charged.n_parties, charged.t_honest) == (2, 5, 1)
    assert charged.data == "data"


def test_claims_are_never_better_than_what_was_spent(ledger):
    ledger.open_job(JobTerms.agreed("q", "data", 5, [Budget.pure(1)]))
    for round_ in range(3):
        spend = Spend("counts", DiscreteLaplace(Fraction(1, 3)))
        ledger.reserve(Question.of("q", round_, b""), [spend])

    for claim in claims(ledger, "q"):
        assert claim.verdict is Verdict.EPSILON
        assert claim.epsilon == ledger.spent("q", RECORD) == 1
    ledger.verify(ledger.anchor())
