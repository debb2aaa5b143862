"""The private mode of evolved trees: what is counted, what it costs, what is refused."""

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spinney import GeneticTreeClassifier, deal_rows
from spinney.errors import BudgetError, PolicyError, SettingError
from spinney.privacy.budget import Unit, epsilon_of
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteGaussian
from spinney.privacy.release import Shares
from spinney.privacy.scopes import PARTY_TOTALS
from spinney.protocols import genetic_tree
from spinney.protocols.genetic_tree.messages import (
    ChoiceAsk,
    DepthAsk,
    EvolvingJob,
    NoisyJoinAsk,
    NoisyScoresAsk,
    StructureAsk,
)
from spinney.protocols.genetic_tree.noisy import (
    NoisyPlan,
    leaves_of_rows,
    noisy_f1,
)
from spinney.protocols.rows.setup import FactsAsk
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable

SCHEMA = Schema(
    (Column("x", "number", (0.0, 64.0)), Column("z", "number", (0.0, 64.0))),
    Label("y", "class", ("no", "yes")),
)
PRIVATE: dict[str, Any] = {"max_depth": 3, "population_size": 6, "n_generations": 4}


def rows(n=3000, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(0, 64, (n, 2)).astype(np.float32)
    return X, (X[:, 0] > 32).astype(int)


def private_settings(epsilon="2", **changes):
    privacy = PrivacySettings(job="evolved", epsilon=epsilon)
    return genetic_tree.Settings(task="classification", privacy=privacy, **(PRIVATE | changes))


def party_and_job(settings, n=200):
    X, y = rows(n)
    table = MemoryTable(SCHEMA, MatrixColumns(X), y.astype(np.int32))
    ledger = Ledger.in_memory("a")
    party = genetic_tree.Party(table, "a", ledger=ledger, only_noise=True)
    return party, ledger, EvolvingJob(settings, SCHEMA.digest(), 1, None)


def test_every_node_halves_what_its_path_has_left():
    codes = np.arange(64, dtype=np.uint8)[None]
    leaf = leaves_of_rows(codes, np.array([64]), np.zeros(7, np.int16), 3)
    assert np.array_equal(leaf, np.arange(64) // 8)
    absent = leaves_of_rows(codes, np.array([64]), np.array([0, -1, 0, 0, 0, -1, -1], np.int16), 3)
    assert np.array_equal(np.unique(absent), [0, 4, 6])
    missing = leaves_of_rows(
        np.full((1, 2), 255, np.uint8), np.array([64]), np.zeros(7, np.int16), 3
    )
    assert missing.tolist() == [7, 7]


def test_scores_are_f1_of_leaves_labelled_by_their_counts():
    counts = np.array([[[30, 10], [5, 55]], [[50, 50], [0, 0]]])
    assert noisy_f1(counts)[0] == pytest.approx(2 * 55 / (2 * 55 + 10 + 5))
    assert noisy_f1(counts - 1000)[0] == 0.0  # noise may make everything negative


def test_all_generations_together_cost_the_epsilon():
    plan = NoisyPlan(private_settings("1", n_generations=20, population_size=10), 5, 2)
    costs = (spend.mechanism.cost(plan.n_values).amount for spend in plan.planned())
    spent = sum(costs, Fraction(0))
    assert epsilon_of(spent, Fraction(1, 10**6)) <= 1
    assert epsilon_of(spent, Fraction(1, 10**6)) > Fraction(99, 100)
    assert plan.noise.variance**0.5 == pytest.approx(75, rel=0.05)  # PRIVACY.md: about 60, by RDP


@pytest.mark.parametrize("epsilon", ["1/100", "1", "2", "3", "4", "20", "100"])
def test_noise_in_shares_costs_no_more_than_its_part_and_little_less(epsilon):
    """A share's surcharge is far below any rounding, or more than the budget itself."""
    privacy = PrivacySettings(job="evolved", epsilon=epsilon, in_shares=True)
    how = PRIVATE | {"n_generations": 2, "population_size": 4}
    settings = genetic_tree.Settings(task="classification", privacy=privacy, **how)
    plan = NoisyPlan(settings, 3, 2)
    each = plan.budget.amount / 2
    assert plan.noise.cost(plan.n_values).amount <= each
    more = DiscreteGaussian(plan.noise.rho * Fraction(1001, 1000), Fraction(4), shares=Shares(3))
    assert more.cost(plan.n_values).amount > each


def test_a_question_is_paid_for_once_and_the_budget_holds():
    settings = private_settings()
    party, ledger, job = party_and_job(settings)
    party.answer(NoisyJoinAsk(job))
    genes = np.zeros((6, 7), np.int16)
    ask = NoisyScoresAsk(job, 3, 0, genes)
    first, again = party.answer(ask), party.answer(ask)
    assert np.array_equal(first.counters, again.counters)
    one = ledger.spent("evolved", Unit.RECORD_ADD_REMOVE)
    assert one > 0
    for generation in range(1, 4):
        party.answer(NoisyScoresAsk(job, 3, generation, genes))
    assert ledger.spent("evolved", Unit.RECORD_ADD_REMOVE) == 4 * one
    with pytest.raises(BudgetError):
        party.answer(NoisyScoresAsk(job, 3, 4, genes))


def test_a_party_of_a_private_job_answers_nothing_exactly():
    party, _, job = party_and_job(private_settings())
    exact = genetic_tree.Settings(task="classification", **PRIVATE)
    plain = EvolvingJob(exact, SCHEMA.digest(), 1, None)
    for ask in (
        FactsAsk(SCHEMA.digest(), with_leading=True),
        DepthAsk(plain, ("a",)),
        StructureAsk(plain, 3),
        StructureAsk(job, 3),
        ChoiceAsk(plain, 3, False, np.zeros((1, 7), np.int16)),
        ChoiceAsk(job, 3, False, np.zeros((1, 7), np.int16)),
    ):
        with pytest.raises(PolicyError, match="may ask only for noisy counts"):
            party.answer(ask)
    with pytest.raises(PolicyError, match="more than the job pays for"):
        party.answer(NoisyScoresAsk(job, 3, 0, np.zeros((7, 7), np.int16)))


def test_without_a_ledger_there_is_no_noise():
    X, y = rows(50)
    party = genetic_tree.Party(MemoryTable(SCHEMA, MatrixColumns(X), y.astype(np.int32)), "a")
    job = EvolvingJob(private_settings(), SCHEMA.digest(), 1, None)
    with pytest.raises(PolicyError, match="has no ledger to pay from"):
        party.answer(NoisyScoresAsk(job, 3, 0, np.zeros((1, 7), np.int16)))


@pytest.mark.parametrize("secure_sum", [False, True])
def test_a_private_search_finds_the_column_that_matters(secure_sum):
    X, y = rows(6000)
    frame = pd.DataFrame(X, columns=["x", "z"])
    site = deal_rows(y, 3, random_state=0)
    model = GeneticTreeClassifier(
        6, n_generations=4, max_depth=3, epsilon=20, schema=SCHEMA, secure_sum=secure_sum,
        random_state=0,
    )  # fmt: skip
    labels = np.array(["no", "yes"])[y]
    model.fit(frame, labels, party=site)
    assert np.mean(model.predict(frame, party=site) == labels) > 0.95
    assert model.report_.is_private
    assert not model.report_.quality
    asked = {d.question for d in model.report_.disclosures}
    assert not asked & {"Depth", "Structure", "Votes", "Scores", "Facts", "Choice"}
    claims = [claim for claim in model.report_.privacy if claim.verdict == "EPSILON"]
    assert claims
    for claim in claims:
        assert Fraction(claim.epsilon) <= 20
    assert sorted(model.ledger_) == ["0", "1", "2"]


def private_claims(*, secure_sum):
    X, y = rows(300)
    model = GeneticTreeClassifier(
        4, n_generations=2, max_depth=3, epsilon=2, schema=SCHEMA, secure_sum=secure_sum
    )
    frame = pd.DataFrame(X, columns=["x", "z"])
    model.fit(frame, np.array(["no", "yes"])[y], party=deal_rows(y, 3, random_state=0))
    return {(claim.unit, claim.view): claim for claim in model.report_.privacy}


def test_a_private_claim_rests_on_own_trees_that_stay_where_they_are():
    claims = private_claims(secure_sum=True)
    record = Unit.RECORD_ADD_REMOVE.value
    for view in ("coordinator", "party", "coalition"):
        claim = claims[record, view]
        assert claim.verdict == "EPSILON"
        assert "Rests on the party's own tree, which holds exact counts of its rows" in claim.text
    reader = claims[record, "reader"]  # of a simulation's model: all those trees
    assert (reader.verdict, reader.epsilon) == ("UNPROTECTED", None)
    assert "this model holds the parties' own trees" in reader.text


@pytest.mark.parametrize(("secure_sum", "verdict"), [(True, "HIDDEN"), (False, "UNPROTECTED")])
def test_a_private_claim_says_what_becomes_of_a_party_s_own_totals(secure_sum, verdict):
    assert private_claims(secure_sum=secure_sum)[PARTY_TOTALS, "coordinator"].verdict == verdict


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"max_depth": 15}, "max_depth=15 cannot be used with epsilon"),
        ({"participation": 0.5}, "all parties take part in every generation"),
        ({"size_epsilon": 1}, "all parties take part in every generation"),
        ({"binning": "pooled"}, "needs exact counts, which epsilon does not allow"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 2}, "delta"),
    ],
)
def test_what_noise_cannot_give_is_refused(wrong, sentence):
    X, y = rows(100)
    how = {"max_depth": 3, "epsilon": 1.0} | wrong
    with pytest.raises(SettingError, match=sentence):
        GeneticTreeClassifier(4, n_generations=2, **how).fit(X, y)
