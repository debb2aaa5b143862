"""Truex's private tree: what it costs, that noise is shared under masks, what it refuses."""

from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spinney import GeneticTreeClassifier, deal_rows
from spinney.errors import PolicyError, ProtocolError, SettingError
from spinney.estimators.inputs import deal_tables, fit_input
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.scopes import PARTY_TOTALS
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.protocols.settings import PrivacySettings
from spinney.tables.frames import columns_of
from spinney.transport.in_process import InProcess

truex_tree = import_module("papers.truex")
Nodes, best_cut = (getattr(import_module("papers.truex.growing"), n) for n in ("Nodes", "best_cut"))
TruexPlan = import_module("papers.truex.plan").TruexPlan
TruexAsk, TruexJoinAsk = (
    getattr(import_module("papers.truex.tree"), n) for n in ("TruexAsk", "TruexJoinAsk")
)


def table(n=3000):
    random = np.random.default_rng(0)
    codes = random.integers(0, 4, (n, 3))
    frame = pd.DataFrame({f"c{i}": pd.Categorical(codes[:, i]) for i in range(3)})
    frame.loc[::50, "c2"] = None
    return frame, ((codes[:, 0] > 1) & (codes[:, 1] > 1)).astype(int)


def tables_of(X, y, n_parties=4):
    given = fit_input(
        GeneticTreeClassifier(), X, y, is_classifier=True, needs_ranges=False, schema=None,
        categorical_features="from_dtype",
    )  # fmt: skip
    return deal_tables(given.table, deal_rows(y, n_parties, random_state=0))


def settings(epsilon="4", **how):
    privacy = PrivacySettings(job="truex", epsilon=epsilon, **how)
    return truex_tree.Settings(privacy=privacy, max_depth=3)


def sides(tables):
    ledgers = {name: Ledger.in_memory(name) for name in tables}
    parties: dict[str, Any] = {
        name: truex_tree.Party(table, ledgers[name]) for name, table in tables.items()
    }
    return parties, ledgers


def test_the_tree_learns_and_stays_within_its_epsilon():
    X, y = table()
    parties, ledgers = sides(tables_of(X, y))
    training = truex_tree.train(InProcess(parties, through_codec=True), settings("40"))
    model = training.model
    guess = model.predict(columns_of(X, model.schema)).argmax(axis=1)
    assert np.mean(guess == y) > 0.95
    for ledger in ledgers.values():
        assert 0 < ledger.spent("truex", Unit.RECORD_ADD_REMOVE) <= 40
    claimed = [Fraction(c.epsilon or 0) for c in training.claims if c.verdict == "EPSILON"]
    assert claimed
    assert all(0 < epsilon <= 40 for epsilon in claimed)
    totals = {c.verdict for c in training.claims if c.unit == PARTY_TOTALS}
    assert totals == {"UNPROTECTED"}  # each party's own noise hides a record, not how many
    assert {r.question for r in training.rounds} == {"Schema", "TruexJoin", "Truex", "Claims"}


def test_noise_in_shares_leaves_under_masks_only():
    X, y = table()
    how = {"in_shares": True, "honest": 3}
    parties, _ = sides(tables_of(X, y))
    with pytest.raises(ProtocolError, match="its counts may leave only under a mask"):
        truex_tree.train(InProcess(parties, through_codec=True), settings(**how))
    parties, _ = sides(tables_of(X, y))
    channel = secure_parties(
        parties, InProcess, truex_tree.SUMMED, job="truex", honest=3, min_survivors=4
    )
    training = truex_tree.train(channel, settings("40", **how))
    guess = training.model.predict(columns_of(X, training.model.schema)).argmax(axis=1)
    assert np.mean(guess == y) > 0.95


def test_the_budget_is_divided_as_published():
    plan = TruexPlan(settings("1"), n_columns=5, n_parties=4)
    assert plan.node_epsilon == Fraction(1, 8)
    rows, cells, classes = plan.noises(0)
    assert (rows.decay, cells.decay, classes.decay) == (
        Fraction(1, 8), Fraction(1, 80), Fraction(1, 80),
    )  # fmt: skip
    assert plan.noises(4) == [rows]
    spent = sum((spend.mechanism.cost().amount for spend in plan.planned()), Fraction(0))
    assert spent == Fraction(7, 8) <= 1


def test_a_node_that_noise_would_drown_stays_a_leaf():
    X, y = table(200)
    parties, _ = sides(tables_of(X, y))
    training = truex_tree.train(InProcess(parties), settings("1/10"))
    assert training.model.forest.n_nodes == 1


def test_counts_that_noise_has_made_larger_than_their_rows_win_nothing():
    signal = (np.array([100.0, 100.0]), np.array([[90.0, 10.0], [10.0, 90.0]]))
    noise = (np.array([5.0, 195.0]), np.array([[400.0, 400.0], [100.0, 100.0]]))
    assert best_cut([noise, signal]) == (1, 0)
    assert best_cut([noise]) == (0, 0)
    nothing = (np.array([0.0, 7.0]), np.zeros((2, 2)))
    assert best_cut([nothing]) is None


def test_missing_values_go_with_the_last_category():
    X, y = table()
    parties, _ = sides(tables_of(X, y))
    model = truex_tree.train(InProcess(parties), settings("4000")).model
    asked = X.assign(c0=X["c0"].cat.remove_categories(3))  # a category of its own no more
    last = model.predict(columns_of(X, model.schema))
    missing = model.predict(columns_of(asked.astype(X.dtypes), model.schema))
    assert np.array_equal(missing, last)


def test_numbers_are_refused():
    y = np.arange(40) % 2
    parties, _ = sides(tables_of(pd.DataFrame({"age": np.arange(40.0)}), y))
    with pytest.raises(SettingError, match="support only categories, but column 'age' is a number"):
        truex_tree.train(InProcess(parties), settings())


@pytest.mark.parametrize("max_depth", [0, 16, 2.5])
def test_a_depth_out_of_range_is_refused(max_depth):
    with pytest.raises(SettingError, match="max_depth must be a whole number between 1 and 15"):
        truex_tree.Settings(privacy=settings().privacy, max_depth=max_depth)


def test_a_party_answers_questions_about_trees_of_its_job_only():
    X, y = table(400)
    tables = tables_of(X, y, 2)
    party, _ = (found["0"] for found in sides(tables))
    digest, job = tables["0"].schema.digest(), settings()
    party.answer(TruexJoinAsk(job, digest, 2))
    endless = Nodes(*(np.array(part, np.int32) for part in ([0, 0, 0], [0, 0, 0], [0, 0, 0])))
    root = Nodes(*(np.array([part], np.int32) for part in (-2, 0, 0)))
    for ask in (TruexAsk(job, digest, 2, endless, 0), TruexAsk(job, digest, 2, root, 9)):
        with pytest.raises(PolicyError, match="not about this job's tree"):
            party.answer(ask)
    good = TruexAsk(job, digest, 2, root, 0)
    assert np.array_equal(party.answer(good).counters, party.answer(good).counters)
