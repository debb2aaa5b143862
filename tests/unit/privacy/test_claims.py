"""Claims state in words what is promised to whom, and promise only what holds."""

from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from spinney.privacy import entropy
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Cost, Measure, Unit, epsilon_of
from spinney.privacy.claims import Verdict, claims
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, RandomisedResponse
from spinney.privacy.release import Mechanism, Shares
from spinney.privacy.scopes import (
    ALL_ROWS,
    EVERYONE,
    PARTY_TOTALS,
    Budget,
    Disclosure,
    Protection,
    Question,
    Spend,
    View,
)

RECORD = Unit.RECORD_ADD_REMOVE
ONE = (Budget.pure(1),)
SHARED = DiscreteLaplace(Fraction(1, 4), shares=Shares(5))
SUMS = Disclosure(
    "each party's class counts",
    Protection.HIDDEN,
    "secure sums hide them unless 3 parties work together",
    (PARTY_TOTALS,),
    (View.COORDINATOR, View.PARTY),
)
MEANS = Disclosure("bin means", Protection.UNPROTECTED, "exact values of the data", (RECORD,))


@pytest.fixture
def ledger():
    with closing(Ledger.in_memory()) as made:
        yield made


def released(ledger, spends=(), disclosures=(), *, budgets=ONE, n_parties=5, t=3):
    """Return a job's claims by unit and view."""
    measure = budgets[0].measure if budgets else Measure.PURE
    ledger.open_job(JobTerms("q3", "data", n_parties, t, tuple(budgets), measure))
    ledger.answer(Question.of("q3", 0, b""), spends, lambda _: b"", disclosures)
    return {(claim.unit, claim.view): claim for claim in claims(ledger, "q3")}


def test_noise_in_shares_reads_as_the_template(ledger):
    made = released(ledger, [Spend(f"level {n}", SHARED) for n in range(4)])

    assert list(made) == [(RECORD, view) for view in EVERYONE]
    claim = made[RECORD, View.COALITION]
    assert (claim.verdict, claim.epsilon, claim.delta) == (Verdict.EPSILON, 1, 0)
    assert (claim.t_honest, claim.n_parties) == (3, 5)
    assert str(claim) == (
        "One record, added or removed, against the coordinator and any 2 other parties together: "
        "epsilon=1 (delta_impl=0: the samplers are exact). Not protected: who takes part, when and "
        "how often, the names and public ranges of columns. Honest-but-curious parties; t=3 of K=5 "
        "must be honest."
    )
    texts = {view: str(made[RECORD, view]) for view in EVERYONE}
    assert "against readers of the model: epsilon=1 " in texts[View.READER]
    assert "against the coordinator: epsilon=1 " in texts[View.COORDINATOR]
    assert "against any other party: epsilon=1 " in texts[View.PARTY]


def test_a_partys_own_noise_holds_against_all_others_together(ledger):
    made = released(ledger, [Spend("level 0", DiscreteLaplace(Fraction(1, 4)))])

    assert "the coordinator and any 4 other parties" in str(made[RECORD, View.COALITION])
    assert "t=1 of K=5 must be honest" in str(made[RECORD, View.COALITION])


def test_one_other_party_and_none_read_well(ledger):
    two = released(ledger, [Spend("level 0", DiscreteLaplace(Fraction(1, 4)))], n_parties=2, t=1)
    text = str(two[RECORD, View.COALITION])
    assert "against the coordinator and any one other party together: epsilon=0.25" in text


def test_a_party_by_itself_is_protected_from_the_coordinator_alone(ledger):
    one = released(ledger, [Spend("level 0", DiscreteLaplace(Fraction(1, 4)))], n_parties=1, t=1)
    assert "against the coordinator alone: epsilon=0.25" in str(one[RECORD, View.COALITION])


def test_only_what_is_seen_is_counted(ledger):
    inner = Spend("level 0", SHARED, views=(View.COORDINATOR,))
    made = released(ledger, [inner, Spend("leaves", SHARED)])

    epsilons = [made[RECORD, view].epsilon for view in EVERYONE]
    assert epsilons == [Fraction(1, 4), Fraction(1, 2), Fraction(1, 4), Fraction(1, 2)]


def test_disjoint_parts_cost_their_maximum(ledger):
    parts = tuple(ALL_ROWS.part("a<1", side) for side in ("left", "right"))

    assert released(ledger, [Spend("level 1", SHARED, parts)])[
        RECORD, View.READER
    ].epsilon == Fraction(1, 4)


def test_one_unprotected_release_takes_the_epsilon_away(ledger):
    made = released(ledger, [Spend("level 0", SHARED)], [MEANS])

    claim = made[RECORD, View.COORDINATOR]
    assert (claim.verdict, claim.epsilon, claim.delta) == (Verdict.UNPROTECTED, None, None)
    assert (
        "against the coordinator: UNPROTECTED: bin means (exact values of the data). No epsilon "
        "holds."
    ) in str(claim)
    assert "epsilon=" not in str(claim)


def test_an_unprotected_release_harms_only_those_who_see_it(ledger):
    seen = Disclosure(
        "exact sums", Protection.UNPROTECTED, "trusted", (RECORD,), (View.COORDINATOR,)
    )
    made = released(ledger, [Spend("choice", SHARED)], [seen])

    verdicts = [made[RECORD, view].verdict for view in EVERYONE]
    assert verdicts == [
        Verdict.EPSILON,
        Verdict.UNPROTECTED,
        Verdict.EPSILON,
        Verdict.UNPROTECTED,
    ]


def test_hidden_totals_have_an_assumption_and_no_epsilon(ledger):
    made = released(ledger, [Spend("level 0", SHARED)], [SUMS])

    claim = made[PARTY_TOTALS, View.COORDINATOR]
    assert (claim.verdict, claim.epsilon) == (Verdict.HIDDEN, None)
    assert (
        "A party's own totals, against the coordinator: HIDDEN, without an epsilon. Rests on each "
        "party's class counts: secure sums hide them unless 3 parties work together."
    ) in str(claim)
    assert made[PARTY_TOTALS, View.READER].verdict is Verdict.NOTHING
    assert "nothing of this job is shown there" in str(made[PARTY_TOTALS, View.READER])
    assert made[RECORD, View.COORDINATOR].verdict is Verdict.EPSILON


def test_an_epsilon_that_rests_on_hiding_says_so(ledger):
    masks = Disclosure("masked shares", Protection.HIDDEN, "masks hold", (RECORD,))
    claim = released(ledger, [Spend("level 0", SHARED)], [masks])[RECORD, View.COORDINATOR]

    assert claim.epsilon == Fraction(1, 4)
    assert "Rests on masked shares: masks hold. Not protected:" in str(claim)


def test_exact_sums_hidden_per_party_protect_no_record(ledger):
    made = released(ledger, [], [SUMS, MEANS], budgets=())

    assert made[PARTY_TOTALS, View.COORDINATOR].verdict is Verdict.HIDDEN
    assert made[RECORD, View.COORDINATOR].verdict is Verdict.UNPROTECTED


def test_a_protected_label_protects_no_record(ledger):
    labels = Spend("labels", RandomisedResponse(Fraction(1, 2), 2))
    made = released(ledger, [labels], budgets=[Budget.pure(1), Budget.pure(1, Unit.LABEL)])

    assert made[Unit.LABEL, View.PARTY].epsilon == Fraction(1, 2)
    assert made[RECORD, View.PARTY].verdict is Verdict.UNPROTECTED
    assert "labels (protected per label only)" in str(made[RECORD, View.PARTY])


def test_a_disclosed_label_takes_the_records_protection_with_it(ledger):
    labels = Disclosure("labels", Protection.UNPROTECTED, "sent as they are", (Unit.LABEL,))
    made = released(ledger, [Spend("level 0", SHARED)], [labels])

    assert made[RECORD, View.PARTY].verdict is Verdict.UNPROTECTED
    assert made[Unit.LABEL, View.PARTY].verdict is Verdict.UNPROTECTED


def test_disclosed_membership_leaves_the_label_its_epsilon(ledger):
    matched = Disclosure(
        "shared ids", Protection.UNPROTECTED, "the intersection is shown", (RECORD,)
    )
    labels = Spend("labels", RandomisedResponse(Fraction(1, 2), 2))
    made = released(ledger, [labels], [matched], budgets=[Budget.pure(1, Unit.LABEL)])

    assert made[Unit.LABEL, View.PARTY].epsilon == Fraction(1, 2)
    assert made[RECORD, View.PARTY].verdict is Verdict.UNPROTECTED


def test_disclosed_totals_say_nothing_about_a_record(ledger):
    totals = Disclosure("row counts", Protection.UNPROTECTED, "sent as they are", (PARTY_TOTALS,))
    made = released(ledger, [Spend("level 0", SHARED)], [totals])

    assert made[PARTY_TOTALS, View.COORDINATOR].verdict is Verdict.UNPROTECTED
    assert made[RECORD, View.COORDINATOR].verdict is Verdict.EPSILON


def test_replaced_records_and_labels_cost_twice(ledger):
    budgets = [Budget.pure(1), Budget.pure(2, Unit.RECORD_REPLACE), Budget.pure(2, Unit.LABEL)]
    made = released(ledger, [Spend("level 0", SHARED)], budgets=budgets)

    assert made[Unit.RECORD_REPLACE, View.READER].epsilon == Fraction(1, 2)
    assert made[Unit.LABEL, View.READER].epsilon == Fraction(1, 2)
    assert str(made[Unit.RECORD_REPLACE, View.READER]).startswith("One record, replaced by another")
    assert str(made[Unit.LABEL, View.READER]).startswith("One record's label, against")


def test_zcdp_is_read_at_its_delta_and_rounded_up(ledger):
    gaussian = DiscreteGaussian(Fraction(1, 100))
    claim = released(ledger, [Spend("counts", gaussian)], budgets=[Budget.zcdp(2, 1e-6)])[
        RECORD, View.READER
    ]

    assert claim.epsilon == epsilon_of(Fraction(1, 100), Fraction(1, 10**6))
    assert claim.delta == Fraction(1, 10**6)
    assert "epsilon=0.753385, delta=1e-06 (rho=0.01; delta_impl=0" in str(claim)
    assert claim.epsilon <= Fraction("0.753385") < claim.epsilon + Fraction(1, 10**6)


def test_zcdp_without_a_delta_states_rho(ledger):
    ledger.open_job(JobTerms("z", "data", 5, 3, measure=Measure.ZCDP))
    spend = Spend("counts", DiscreteGaussian(Fraction(1, 100)))
    ledger.reserve(Question.of("z", 0, b""), [spend])
    claim = claims(ledger, "z")[0]

    assert (claim.verdict, claim.epsilon, claim.delta) == (Verdict.EPSILON, None, None)
    assert "rho=0.01 of zCDP; the job names no delta to read it at." in str(claim)


def test_noise_that_needs_everyone_protects_from_no_party(ledger):
    everyone = DiscreteLaplace(Fraction(1, 4), shares=Shares(3, 3))
    made = released(ledger, [Spend("level 0", everyone)], n_parties=3, t=3)

    verdicts = [made[RECORD, view].verdict for view in EVERYONE]
    assert verdicts == [
        Verdict.EPSILON,
        Verdict.EPSILON,
        Verdict.UNPROTECTED,
        Verdict.UNPROTECTED,
    ]
    assert "one can subtract its own share" in str(made[RECORD, View.PARTY])


def test_seeded_noise_is_no_protection(ledger):
    with entropy.seeded_for_tests(0):
        made = released(ledger, [Spend("level 0", SHARED)])

    assert made[RECORD, View.READER].verdict is Verdict.UNPROTECTED
    assert "level 0 (its noise was seeded for a test)" in str(made[RECORD, View.READER])


def test_many_reasons_are_cut_short(ledger):
    exact = [
        Disclosure(f"minimum of column {n}", Protection.UNPROTECTED, "exact", (RECORD,))
        for n in range(5)
    ]
    claim = released(ledger, [], exact + exact[:1])[RECORD, View.READER]

    assert "minimum of column 2 (exact); and 2 more. No epsilon" in str(claim)


def test_views_of_a_vertical_job_appear_when_named(ledger):
    bins = Spend("bin sums", SHARED, views=(View.LABEL_HOLDER,))
    made = released(ledger, [bins])

    assert made[RECORD, View.LABEL_HOLDER].verdict is Verdict.EPSILON
    assert "against the label holder" in str(made[RECORD, View.LABEL_HOLDER])
    assert made[RECORD, View.COORDINATOR].verdict is Verdict.NOTHING


def test_a_job_that_released_nothing_promises_nothing(ledger):
    ledger.open_job(JobTerms.agreed("idle", "data", 5, [Budget.pure(1)]))

    assert {claim.verdict for claim in claims(ledger, "idle")} == {Verdict.NOTHING}


def test_claims_of_one_job_leave_out_the_others(ledger):
    ledger.open_job(JobTerms.agreed("other", "data", 5))
    ledger.reserve(Question.of("other", 0, b""), [Spend("level 0", SHARED)], [MEANS])

    assert released(ledger, [Spend("level 0", SHARED)])[RECORD, View.READER].epsilon == Fraction(
        1, 4
    )


@dataclass(frozen=True, slots=True)
class Rounded(Mechanism):
    """A mechanism whose sampler misses its law a little."""

    norm: ClassVar[str] = "L1"
    epsilon: Fraction
    missed: Fraction

    def cost(self, n_values=1):
        return Cost(Measure.PURE, self.epsilon, RECORD, n_values * self.missed)

    def describe(self):
        return "noise"

    def _randomised(self, values):
        return np.asarray(values)


def test_a_sampler_that_misses_its_law_is_in_the_claim(ledger):
    """Each of two tables may be off by 3e-12, and one of them counts e times: 3e-12 * (1 + e)."""
    noise = Rounded(Fraction(1), Fraction(1, 10**12))
    claim = released(ledger, [Spend("level 0", noise, n_values=3)])[RECORD, View.READER]

    assert float(claim.delta) == pytest.approx(3e-12 * (1 + np.e))
    assert "epsilon=1 (delta_impl<=1.11549e-11 from sampler rounding)" in str(claim)


def test_a_hopeless_epsilon_leaves_a_delta_of_one(ledger):
    noise = Rounded(Fraction(1000), Fraction(1, 10**12))

    assert released(ledger, [Spend("level 0", noise)], budgets=())[RECORD, View.READER].delta == 1


def test_an_exact_sampler_has_no_delta_however_large_the_epsilon(ledger):
    claim = released(ledger, [Spend("level 0", SHARED, n_releases=3600)], budgets=())[
        RECORD, View.READER
    ]

    assert (claim.epsilon, claim.delta) == (900, 0)
