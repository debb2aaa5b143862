"""Rows with noise: drawn once, paid once, and everything else follows from them."""

from dataclasses import replace
from fractions import Fraction
from math import exp
from typing import Any

import numpy as np
import pytest

from spinney.errors import BudgetError, LedgerError, PolicyError
from spinney.privacy import entropy
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.scopes import Budget
from spinney.protocols import horizontal_forest
from spinney.protocols.accounts.account import JoinAsk, PartyAccount
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.row_forest.perturbed_input import InputPlan, perturb_table
from spinney.protocols.rows.setup import FactsAsk
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.protocols.settings import PrivacySettings, Terms
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport import codec
from spinney.transport.in_process import InProcess

REPLACED = Unit.RECORD_REPLACE
N = 4000
COLUMNS = (
    Column("age", "number", (0, 100)),
    Column("ward", "category", categories=("eye", "heart", "lung")),
    Column("smokes", "boolean"),
)


def table(label: Label | None = None) -> MemoryTable:
    random = np.random.RandomState(0)
    age = random.uniform(0, 100, N)
    ward, smokes = random.randint(0, 3, N), random.randint(0, 2, N)
    score = age / 40 + (ward == 1) + smokes
    label = label or Label("ill", "class", ("no", "yes"))
    is_class = label.kind == "class"
    target: Any = (score > np.median(score)).astype(np.int32) if is_class else score
    vectors = [column.astype(np.float32) for column in (age, ward, smokes)]
    for vector in vectors:
        vector[random.random_sample(N) < 0.1] = np.nan
    return MemoryTable(Schema(COLUMNS, label), VectorColumns(tuple(vectors)), target)


def job(changes: Any = None, **privacy: Any) -> horizontal_forest.Settings:
    facts: dict[str, Any] = {"task": "classification", "n_estimators": 5, "max_depth": 4, "seed": 1}
    if "epsilon_per_count" not in privacy:
        privacy = {"epsilon": "8"} | privacy
    hidden = PrivacySettings(job="q", mechanism="perturbed_input", **privacy)
    return horizontal_forest.Settings(**facts | (changes or {}), privacy=hidden)


def made(whole: MemoryTable, n_parties: int = 2) -> tuple[dict[str, Any], dict[str, Ledger]]:
    ledgers = {str(k): Ledger.in_memory(str(k)) for k in range(n_parties)}
    parties: dict[str, Any] = {
        name: Party(whole.select(np.arange(int(name), N, n_parties)), ledger=ledger)
        for name, ledger in ledgers.items()
    }
    return parties, ledgers


def noised(whole: MemoryTable, **privacy: Any) -> MemoryTable:
    """Return the table as others see it."""
    ledger = Ledger.in_memory("one")
    plan = InputPlan(whole.schema, job(**privacy).privacy or pytest.fail("the job is private"), 1)
    account = PartyAccount(ledger, whole)
    account.join(plan)
    return perturb_table(whole, plan, account)


def columns_of(seen: MemoryTable) -> Any:
    return seen.columns.values(slice(None))


# --- the noise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["1/1000000000", "1", "100"])
def test_every_cell_stays_within_the_public_facts(epsilon):
    seen = columns_of(noised(table(), epsilon=epsilon))
    assert np.all((seen[0] >= 0) & (seen[0] <= 100))  # a gap in a number is not shown
    assert set(np.unique(seen[1][~np.isnan(seen[1])])) <= {0, 1, 2}
    assert set(np.unique(seen[2][~np.isnan(seen[2])])) <= {0, 1}


def test_categories_and_labels_are_kept_as_often_as_randomised_response_says():
    whole, seen = table(), noised(table(), epsilon="4")
    true, shown = columns_of(whole), columns_of(seen)
    for column, k in ((1, 4), (2, 3)):  # a gap is one more category
        same = (true[column] == shown[column]) | (np.isnan(true[column]) & np.isnan(shown[column]))
        keep = exp(1) / (exp(1) + k - 1)
        assert abs(same.mean() - keep) < 5 * (0.25 / N) ** 0.5
    assert abs((whole.target == seen.target).mean() - exp(1) / (exp(1) + 1)) < 0.04


def test_numbers_carry_laplace_noise_of_the_whole_range():
    seen = columns_of(noised(table(), epsilon="16"))[0]
    true = np.nan_to_num(columns_of(table())[0], nan=50.0)
    inside = (seen > 0) & (seen < 100)
    away = np.abs(seen - true)[inside]
    assert inside.mean() > 0.6
    assert 10 < away.mean() < 25  # scale 100 / 4, cut off at the ends


@pytest.mark.parametrize("kind", ["class", "number"])
def test_at_a_very_large_epsilon_the_rows_are_the_true_ones(kind):
    label = Label("days", "number", range=(0, 5)) if kind == "number" else None
    whole = table(label)
    seen = noised(whole, epsilon="1000000")
    true, shown = columns_of(whole), columns_of(seen)
    assert np.allclose(np.nan_to_num(true[0], nan=50.0), shown[0], atol=0.05)
    assert np.array_equal(true[1:], shown[1:], equal_nan=True)
    assert np.allclose(whole.target, seen.target, atol=0.002)
    assert seen.target.dtype == whole.target.dtype


def test_a_constant_column_stays_constant():
    whole = table()
    columns = (replace(COLUMNS[0], range=(7, 7)), *COLUMNS[1:])
    constant = replace(whole, schema=replace(whole.schema, columns=columns))
    assert np.all(columns_of(noised(constant))[0] == 7)


# --- the price -----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["1/10", "8"])
@pytest.mark.parametrize("secure", [False, True])
def test_each_party_pays_exactly_epsilon_once(epsilon, secure):
    parties, ledgers = made(table(), 3)
    channel: Any = InProcess(parties, through_codec=True)
    if secure:
        channel = secure_parties(parties, InProcess, horizontal_forest.SUMMED, job="q")
    training = horizontal_forest.train(channel, job(epsilon=epsilon))
    for ledger in ledgers.values():
        assert ledger.spent("q", REPLACED) == Fraction(epsilon)
        ledger.verify()
    verdicts = {(claim.unit, claim.verdict) for claim in training.claims}
    assert (REPLACED.value, "EPSILON") in verdicts
    assert (Unit.RECORD_ADD_REMOVE.value, "UNPROTECTED") in verdicts  # rows can be counted
    assert {q.rows for q in training.quality.values()} == {"out-of-bag, perturbed"}


def test_the_paper_s_way_costs_every_column_and_the_label():
    parties, ledgers = made(table())
    horizontal_forest.train(InProcess(parties), job(epsilon_per_count="1/2"))
    assert {ledger.spent("q", REPLACED) for ledger in ledgers.values()} == {4 * Fraction(1, 2)}


def test_a_party_that_restarts_shows_the_same_rows_and_pays_nothing_more():
    whole, ledger = table(), Ledger.in_memory("one")
    settings = job()
    terms = Terms(settings.privacy or pytest.fail("the job is private"), 1)
    ask = FactsAsk(whole.schema.digest(), with_leading=True, terms=terms)
    replies = []
    for _ in range(3):
        party = Party(whole, ledger=ledger)
        party.answer(JoinAsk(settings, whole.schema.digest(), 1))
        replies += [codec.encode(party.answer(ask)) for _ in range(2)]
    assert len(set(replies)) == 1
    assert ledger.spent("q", REPLACED) == 8


def test_all_that_follows_is_free():
    """Quantiles, bootstraps, scores and adaptive bins are made from rows that carry noise."""
    for changes in (
        {"binning": "quantiles", "oob_score": True},
        {"binning": "adaptive", "max_bins": 16},
        {"binning": "ranges", "bootstrap": False, "max_depth": None, "class_weight": "balanced"},
    ):
        parties, ledgers = made(table())
        training = horizontal_forest.train(InProcess(parties), job(changes))
        assert training.quality
        assert {ledger.spent("q", REPLACED) for ledger in ledgers.values()} == {8}


# --- the model -----------------------------------------------------------------------------------


def accuracy(epsilon: str, seed: int = 1) -> float:
    whole = table()
    model = horizontal_forest.train(InProcess(made(whole)[0]), job({"seed": seed}, epsilon=epsilon))
    return float((model.model.predict(whole.columns).argmax(axis=1) == whole.target).mean())


def test_at_a_very_large_epsilon_the_forest_is_as_good_as_the_exact_one():
    whole = table()
    channel = InProcess({"all": Party(whole)})
    exact = horizontal_forest.train(channel, replace(job(), privacy=None)).model
    best = (exact.predict(whole.columns).argmax(axis=1) == whole.target).mean()
    assert abs(accuracy("1000000") - best) < 0.03


def test_at_a_very_small_epsilon_the_forest_is_at_chance():
    with entropy.seeded_for_tests(0):  # else one run in some hundreds would miss the mark
        found = [accuracy("1/1000000000", seed) for seed in range(8)]
    assert abs(np.mean(found) - 0.5) < 0.12, found


def test_amounts_are_predicted_within_their_range():
    whole = table(Label("days", "number", range=(0, 5)))
    settings = job({"task": "regression", "criterion": "squared_error"}, epsilon="1000")
    model = horizontal_forest.train(InProcess(made(whole)[0]), settings).model
    found = model.predict(whole.columns)[:, 0]
    assert np.all((found >= 0) & (found <= 5))
    assert np.corrcoef(found, whole.target)[0, 1] > 0.8


# --- what is refused -----------------------------------------------------------------------------


def test_too_small_a_budget_refuses_before_anything_is_drawn(monkeypatch):
    ledger = Ledger.in_memory("one")
    ledger.allow_for_life("wards", [Budget.pure(7, REPLACED)])
    party = Party(table(), ledger=ledger, data="wards")
    for name in ("words", "secret_bytes"):
        monkeypatch.setattr(entropy, name, lambda _: pytest.fail("randomness was drawn"))
    with pytest.raises(BudgetError, match="Nothing was released"):
        horizontal_forest.train(InProcess({"one": party}), job())


def test_questions_about_true_rows_are_refused():
    whole = table()
    party = Party(whole, ledger=Ledger.in_memory("one"))
    settings = job()
    party.answer(JoinAsk(settings, whole.schema.digest(), 1))
    with pytest.raises(PolicyError, match="answers only with noise"):
        party.answer(FactsAsk(whole.schema.digest(), with_leading=False))


def test_rows_with_less_noise_than_was_agreed_are_refused():
    whole = table()
    party = Party(whole, ledger=Ledger.in_memory("one"))
    settings = job()
    party.answer(JoinAsk(settings, whole.schema.digest(), 1))
    privacy = settings.privacy or pytest.fail("the job is private")
    louder = Terms(replace(privacy, epsilon="9"), 1)
    with pytest.raises(PolicyError, match="does not match the terms"):
        party.answer(FactsAsk(whole.schema.digest(), with_leading=False, terms=louder))
    stranger = Terms(replace(privacy, job="another"), 1)
    with pytest.raises(LedgerError, match="has no job"):
        party.answer(FactsAsk(whole.schema.digest(), with_leading=False, terms=stranger))


def test_a_party_without_a_ledger_has_no_such_rows():
    whole = table()
    terms = Terms(job().privacy or pytest.fail("the job is private"), 1)
    with pytest.raises(PolicyError, match="no ledger to pay from"):
        Party(whole).answer(FactsAsk(whole.schema.digest(), with_leading=False, terms=terms))
