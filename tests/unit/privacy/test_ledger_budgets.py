"""A ledger's budgets: of jobs, of a data set's lifetime, and of the published Algorithm 6."""

from fractions import Fraction

import pytest

from spinney.errors import BudgetError, LedgerError, SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Unit
from spinney.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from spinney.privacy.scopes import (
    ALL_ROWS,
    Budget,
    Question,
    Spend,
)
from unit.privacy.ledger_jobs import (  # type: ignore[import-not-found]
    RECORD,
    ask,
    level,
)

# ------------------------------------------------------------------------- jobs and budgets


def test_an_unknown_job_is_refused(ledger):
    with pytest.raises(LedgerError, match=r"The ledger has no job 'q4'. Open the job first"):
        ledger.reserve(Question.of("q4", 0, b""), [level(0)])
    with pytest.raises(LedgerError, match="The ledger has no job 'q4'"):
        ledger.job("q4")


def test_a_job_is_resumed_on_its_terms_only(ledger):
    terms = ledger.job("q3")
    entries = len(ledger.entries())
    ledger.open_job(terms)
    assert len(ledger.entries()) == entries

    with pytest.raises(
        LedgerError, match="Job 'q3' was opened on other terms, which cannot change"
    ):
        ledger.open_job(JobTerms.agreed("q3", "data", 5, [Budget.pure(2)]))


def test_all_jobs_debit_the_life_of_the_data_set(ledger):
    ledger.allow_for_life("data", [Budget.pure(Fraction(3, 2))])
    ledger.reserve(ask(0), [level(0, n_releases=4)])
    ledger.open_job(JobTerms.agreed("q4", "data", 5, [Budget.pure(1)]))
    ledger.reserve(Question.of("q4", 0, b""), [level(0, n_releases=2)])

    assert ledger.left_for_life("data", RECORD) == 0
    with pytest.raises(
        BudgetError, match="more than is left for the life of the data set"
    ) as caught:
        ledger.reserve(Question.of("q4", 1, b""), [level(1)])
    assert caught.value.local == "Left epsilon=0."
    assert ledger.left("q4", RECORD) == Fraction(1, 2)


def test_another_data_set_has_a_life_of_its_own(ledger):
    ledger.allow_for_life("data", [Budget.pure(Fraction(1, 4))])
    ledger.open_job(JobTerms.agreed("q4", "other data", 5, [Budget.pure(1)]))
    ledger.reserve(Question.of("q4", 0, b""), [level(0, n_releases=4)])

    assert ledger.left_for_life("data", RECORD) == Fraction(1, 4)
    assert ledger.left_for_life("other data", RECORD) is None


def test_a_new_budget_for_life_counts_what_was_spent_before(ledger):
    ledger.reserve(ask(0), [level(0, n_releases=2)])
    ledger.allow_for_life("data", [Budget.pure(1)])
    assert ledger.left_for_life("data", RECORD) == Fraction(1, 2)
    entries = len(ledger.entries())
    ledger.allow_for_life("data", [Budget.pure(1)])
    assert len(ledger.entries()) == entries

    ledger.allow_for_life("data", [Budget.pure(Fraction(1, 4))])
    with pytest.raises(BudgetError, match="life of the data set") as caught:
        ledger.reserve(ask(1), [level(1)])
    assert caught.value.local == "Left epsilon=0."


def test_a_life_in_zcdp_holds_pure_and_zcdp_jobs(ledger):
    ledger.allow_for_life("data", [Budget.zcdp(4, 1e-6)])
    ledger.reserve(ask(0), [level(0)])
    ledger.open_job(JobTerms.agreed("z", "data", 5, [Budget.zcdp(2, 1e-6)]))
    gaussian = DiscreteGaussian(Fraction(1, 100))
    ledger.reserve(Question.of("z", 0, b""), [Spend("counts", gaussian)])

    spent = Budget.zcdp(4, 1e-6).amount - ledger.left_for_life("data", RECORD)
    assert spent == Fraction(1, 32) + Fraction(1, 100)
    with pytest.raises(SettingError, match="A zCDP or Gaussian charge has no pure epsilon"):
        ledger.allow_for_life("data", [Budget.pure(9)])


def test_a_zcdp_job_does_not_fit_a_pure_life(ledger):
    ledger.allow_for_life("data", [Budget.pure(9)])

    with pytest.raises(
        SettingError, match="Job 'z' counts in zCDP, which has no cost in pure epsilon"
    ):
        ledger.open_job(JobTerms.agreed("z", "data", 5, [Budget.zcdp(2, 1e-6)]))


def test_a_life_needs_a_budget(ledger):
    with pytest.raises(SettingError, match="A data set's lifetime needs at least one budget"):
        ledger.allow_for_life("data", [])


def test_a_job_without_a_budget_is_counted_and_never_refused(ledger):
    ledger.open_job(JobTerms.agreed("faithful", "data", 5))
    ledger.reserve(Question.of("faithful", 0, b""), [level(0, n_releases=900)])

    assert ledger.spent("faithful", RECORD) == 225
    assert ledger.left("faithful", RECORD) is None


def test_a_label_budget_stands_beside_a_record_budget(ledger):
    budgets = [Budget.pure(1), Budget.pure(3, Unit.LABEL)]
    ledger.open_job(JobTerms.agreed("both", "data", 5, budgets))
    ledger.reserve(Question.of("both", 0, b""), [level(0, n_releases=4)])

    assert ledger.left("both", RECORD) == 0
    assert ledger.left("both", Unit.LABEL) == 1


# ---------------------------------------------------------------------- published Algorithm 6


def published_algorithm_6(ledger, job, p, *, corrected):
    """Charge S3's Algorithm 6 at a claimed epsilon of 1: 4 levels, leaf .5, bounds .25."""
    n_levels, per_level = 4, Fraction(1, 2) / 4
    bounds = DiscreteLaplace(per_level / 4 / (p if corrected else 1))
    histograms = DiscreteLaplace(per_level * 3 / 4 / p)
    nodes = [ALL_ROWS.again("tree 0")]
    for depth in range(n_levels):
        spends = [
            Spend(f"bounds of level {depth}", bounds, tuple(nodes), p),
            Spend(f"histograms of level {depth}", histograms, tuple(nodes), p),
        ]
        ledger.reserve(Question.of(job, depth, b""), spends)
        nodes = [node.part(f"x{depth}<1", side) for node in nodes for side in ("left", "right")]
    leaves = Spend("leaves", DiscreteLaplace(Fraction(1, 2)), tuple(nodes))
    ledger.reserve(Question.of(job, n_levels, b""), [leaves])


@pytest.mark.parametrize(("p", "true_epsilon"), [(10, "2.125"), (25, "4"), (50, "7.125")])
def test_published_algorithm_6_costs_more_than_it_claims_and_is_refused(ledger, p, true_epsilon):
    ledger.open_job(JobTerms.agreed("counted", "data", 5))
    published_algorithm_6(ledger, "counted", p, corrected=False)
    assert ledger.spent("counted", RECORD) == Fraction(true_epsilon)

    with pytest.raises(BudgetError, match=r"Charge refused for .* Nothing was released"):
        published_algorithm_6(ledger, "q3", p, corrected=False)
    assert ledger.spent("q3", RECORD) <= 1


@pytest.mark.parametrize("p", [10, 25, 50])
def test_corrected_algorithm_6_costs_one_exactly(ledger, p):
    published_algorithm_6(ledger, "q3", p, corrected=True)

    assert ledger.spent("q3", RECORD) == 1
    assert ledger.left("q3", RECORD) == 0
