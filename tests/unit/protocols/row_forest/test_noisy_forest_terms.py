"""A forest with noise on its histograms: budgets and terms that a party holds to."""

import logging
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from spinney.errors import (
    BudgetError,
    LedgerError,
    PolicyError,
    SettingError,
)
from spinney.privacy.ledger import Ledger
from spinney.privacy.scopes import Budget
from spinney.protocols import horizontal_forest
from spinney.protocols.accounts.account import JoinAsk
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.row_forest.messages import (
    LeafAsk,
    NoisyLevelAsk,
    noisy_job,
    plan_of,
)
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from unit.protocols.row_forest.noisy_forests import (  # type: ignore[import-not-found]
    RECORD,
    asked_of_one,
    job,
    no_randomness,
    renamed,
    table,
    trained,
)


def test_a_budget_smaller_than_the_job_refuses_before_anything_is_drawn(monkeypatch):
    whole = table()
    ledger = Ledger.in_memory("one")
    ledger.allow_for_life("wards", [Budget.pure(Fraction(99, 100))])
    party = Party(whole, ledger=ledger, data="wards")
    with (
        no_randomness(monkeypatch),
        pytest.raises(BudgetError, match="Nothing was released") as caught,
    ):
        horizontal_forest.train(InProcess({"one": party}), job())
    assert caught.value.party == "one"
    assert ledger.left_for_life("wards", RECORD) == Fraction(99, 100)
    assert "99" not in caught.value.public  # what is left is nobody else's business


def test_a_budget_for_life_is_shared_by_all_jobs_on_a_data_set():
    ledger = Ledger.in_memory("one")
    ledger.allow_for_life("wards", [Budget.pure(2)])
    party = Party(table(), ledger=ledger, data="wards")
    for name in ("a", "b"):
        horizontal_forest.train(InProcess({"one": party}), renamed(job(), name))
    with pytest.raises(BudgetError):
        horizontal_forest.train(InProcess({"one": party}), renamed(job(), "c"))
    assert ledger.left_for_life("wards", RECORD) == 0


def test_a_question_beyond_the_budget_is_refused_before_anything_is_drawn(monkeypatch):
    asked, ledger, whole = asked_of_one(job(tree_rows="all"))
    party = Party(whole, ledger=ledger)
    level = next(ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk))
    other = replace(level, last=level.last - 1)  # not asked before, so it would have to be paid
    before = ledger.entries()
    with no_randomness(monkeypatch), pytest.raises(BudgetError, match="left epsilon=0"):
        party.answer(other)
    assert ledger.entries() == before


def changed_ask(ask, **privacy):
    settings = ask.job.settings
    changed = replace(settings, privacy=replace(settings.privacy, **privacy))
    return replace(ask, job=replace(ask.job, settings=changed))


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": "2"},
        {"in_shares": True, "honest": 1},
        {"epsilon": None, "epsilon_per_count": "1"},
    ],
    ids=["more", "in shares", "the paper's way"],
)
def test_a_question_on_other_terms_than_the_party_joined_on(monkeypatch, changes):
    asked, ledger, whole = asked_of_one(job())
    before = ledger.entries()
    for ask, _ in asked:
        if isinstance(ask, NoisyLevelAsk):
            with no_randomness(monkeypatch), pytest.raises((PolicyError, SettingError)):
                Party(whole, ledger=ledger).answer(
                    replace(
                        changed_ask(ask, **changes),
                        job=replace(changed_ask(ask, **changes).job, n_parties=3),
                    )
                )
    assert ledger.entries() == before


@pytest.mark.parametrize(
    ("settings", "privacy"),
    [({"n_estimators": 2}, {}), ({}, {"tree_rows": "sampled"}), ({}, {"tree_rows": "all"})],
    ids=str,
)
def test_trees_of_another_deal_are_other_terms(monkeypatch, settings, privacy):
    """Tree 1 of two shares rows with tree 2 of three; one name would hide that they add up."""
    asked, ledger, whole = asked_of_one(job())
    level = next(ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk))
    other = job(changes=settings, **privacy)
    channel, theirs = InProcess({"one": Party(whole, ledger=ledger)}), level.job.settings
    assert other != theirs
    with no_randomness(monkeypatch), pytest.raises(PolicyError, match="does not match the terms"):
        horizontal_forest.train(channel, other)
    n_trees = other.n_estimators
    question = replace(
        level, job=replace(level.job, settings=other), first=0, last=min(level.last, n_trees)
    )
    with no_randomness(monkeypatch), pytest.raises(PolicyError, match="does not match the terms"):
        Party(whole, ledger=ledger).answer(question)


def test_a_deal_is_named_by_its_number_of_trees():
    scopes = [
        plan_of(noisy_job(table().schema, s, 1)).scope(0)
        for s in (job(), job(changes={"n_estimators": 2}))
    ]
    assert scopes[0].path[0].group != scopes[1].path[0].group


def test_labels_outside_their_range_are_told_to_the_party_too(caplog):
    whole = table(0)
    far = MemoryTable(whole.schema, whole.columns, np.where(whole.target > 40, 99.0, whole.target))
    with caplog.at_level(logging.WARNING, "spinney.party"):
        trained(job(0), far)
    assert "Column 'days'" in caplog.text
    assert "outside the declared range (0.0, 50.0)" in caplog.text


def test_a_job_cannot_be_joined_again_on_other_terms():
    whole, ledger = table(), Ledger.in_memory("one")
    party = Party(whole, ledger=ledger)
    digest = whole.schema.digest()
    party.answer(JoinAsk(job(), digest, 1))
    assert party.answer(JoinAsk(job(), digest, 1)).party == "one"
    with pytest.raises(LedgerError, match="opened on other terms"):
        party.answer(JoinAsk(job(epsilon="2"), digest, 1))
    with pytest.raises(LedgerError, match="opened on other terms"):
        party.answer(JoinAsk(job(), digest, 4))


def test_a_question_of_a_job_that_was_never_joined(monkeypatch):
    asked, _, whole = asked_of_one(job())
    stranger = Party(whole, ledger=Ledger.in_memory("other"))
    for ask, _ in asked:
        if isinstance(ask, NoisyLevelAsk | LeafAsk):
            with no_randomness(monkeypatch), pytest.raises(LedgerError, match="has no job"):
                stranger.answer(ask)
