"""Audits of whole private trees and forests, and what an attacker learns of membership.

Two tables differ by one record, the canary; the real protocol runs many times on both. The whole
transcript is reduced to the number that tells them apart best. Faults that an audit must catch are
audited too. The long runs are marked slow.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.protocols import private_forest, private_tree
from spinney.protocols.noisy_boosting import distilling
from spinney.protocols.private_forest.budget import ForestPlan as PrivateForestPlan
from spinney.protocols.private_tree.settings import Method
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from statistical.audit import audit  # type: ignore[import-not-found]
from statistical.private_evidence import Alone  # type: ignore[import-not-found]

EPSILON = 1.0
SCHEMA = Schema(
    (Column("a", "number", (0.0, 1.0)), Column("b", "number", (0.0, 1.0))),
    Label("ill", "class", ("no", "yes")),
)
CANARY = (0.999, 0.999)  # alone in its corner, and the only one that is ill there
METHODS: tuple[Method, ...] = ("distilled", "histograms", "save_budget", "propose", "noisy_max")


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Distil from few drawn rows; how many there are tells nothing of anybody's."""
    monkeypatch.setattr(distilling, "_DRAWN_ROWS", 500)


def rows(*, with_canary):
    random = np.random.RandomState(0)
    X = random.uniform(0, 0.7, (30, 2)).astype(np.float32)
    y = (X[:, 0] > 0.35).astype(np.int32)
    if with_canary:
        X, y = np.r_[X, [CANARY]].astype(np.float32), np.r_[y, 1].astype(np.int32)
    return MemoryTable(SCHEMA, MatrixColumns(X), y)


def privacy(job):
    return PrivacySettings(
        job=f"job {job}", epsilon=str(Fraction(EPSILON)), tree_rows="all", leaf_share="1/2"
    )


def forests(table, n_trials):
    """Return, for every run, the counts of ill rows in the canary's leaves, over all trees."""
    party = private_forest.Party(table, n_jobs=1, ledger=Ledger.in_memory())
    found = np.empty(n_trials)
    canary = np.array([CANARY], np.float32)
    for trial in range(n_trials):
        settings = private_forest.Settings(
            privacy=privacy(trial), n_estimators=4, max_depth=2, seed=3
        )
        forest = private_forest.train(Alone(party), settings).model.forest
        leaves = [int(forest.leaves(canary, tree)[0]) for tree in range(4)]
        found[trial] = forest.moments[leaves, 1].sum()
    return found


def trees(method, table, n_trials, *, in_all=False):
    """Return, for every run, what a reader of the tree can hold against the canary.

    The ill rows in its leaf, or in all leaves, and a bonus where the tree has cut its corner off.
    """
    party = private_tree.Party(table, n_jobs=1, ledger=Ledger.in_memory())
    found = np.empty(n_trials)
    canary = np.array([CANARY], np.float32)
    for trial in range(n_trials):
        settings = private_tree.Settings(
            privacy=privacy(trial), method=method, max_depth=2, n_bins=4, min_samples_leaf=1
        )
        forest = private_tree.train(Alone(party), settings).model.forest
        leaf = int(forest.leaves(canary, 0)[0])
        corner = np.any(forest.threshold[forest.feature >= 0] > 0.7) and not in_all
        found[trial] = forest.moments[0 if in_all else leaf, 1] + 1000 * corner
    return found


def audited(run, n_trials):
    return audit(
        partial(run, rows(with_canary=False)), partial(run, rows(with_canary=True)), n_trials
    )


def test_a_whole_forest_keeps_its_promise():
    assert not audited(forests, 120).refutes(EPSILON)


@pytest.mark.parametrize("method", METHODS)
def test_a_whole_tree_keeps_its_promise(method):
    assert not audited(partial(trees, method), 50).refutes(EPSILON)


@pytest.mark.slow
def test_a_whole_forest_keeps_its_promise_over_many_runs():
    found = audited(forests, 20_000)
    assert not found.refutes(EPSILON)
    assert found.epsilon > 0.15  # the audit sees the canary


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_whole_tree_keeps_its_promise_over_many_runs(method):
    assert not audited(partial(trees, method), 6_000).refutes(EPSILON)


# --- faults that an audit must catch -------------------------------------------------------------


def test_a_forest_whose_trees_forget_each_other_is_caught(monkeypatch):
    """Noise for one tree, though a record is in a leaf of every tree."""

    def forgetful(self):
        return DiscreteLaplace(Fraction(8), shares=None)  # T times too little, and more

    monkeypatch.setattr(PrivateForestPlan, "noise", property(forgetful))
    monkeypatch.setattr(PrivateForestPlan, "terms", generous)
    assert audited(forests, 120).refutes(EPSILON)


def generous(self, data):
    """Open the job with a budget that lets the fault pass the ledger, which would catch it too."""
    from spinney.privacy.accounting import JobTerms  # noqa: PLC0415
    from spinney.privacy.scopes import Budget  # noqa: PLC0415

    return JobTerms(self.privacy.job, data, 1, 1, (Budget.pure(1000),))


def test_a_tree_that_counts_its_leaves_without_noise_is_caught(monkeypatch):
    def exact(self, spends, n_moved):
        return DiscreteLaplace(Fraction(60), Fraction(n_moved))

    monkeypatch.setattr("spinney.protocols.private_tree.budget.TreePlan._noise", exact)
    monkeypatch.setattr("spinney.protocols.private_tree.budget.TreePlan.terms", generous)
    assert audited(partial(trees, "noisy_max", in_all=True), 60).refutes(EPSILON)


# --- membership inference ------------------------------------------------------------------------


def forest_of(table, epsilon, seed):
    party = private_forest.Party(table, n_jobs=1, ledger=Ledger.in_memory())
    settings = private_forest.Settings(
        privacy=PrivacySettings(job="job", epsilon=epsilon, tree_rows="all"),
        n_estimators=10,
        max_depth=9,
        seed=seed,
        shrinkage=0.0,
    )
    return private_forest.train(Alone(party), settings).model


def tree_of(method):
    """Return what grows a tree by this method, as deep as rows can be told apart."""

    def grown(table, epsilon, seed):
        party = private_tree.Party(table, n_jobs=1, ledger=Ledger.in_memory())
        settings = private_tree.Settings(
            privacy=PrivacySettings(
                job=f"job {seed}", epsilon=epsilon, tree_rows="all", leaf_share="1/2"
            ),
            method=method,
            max_depth=9,
            min_samples_leaf=1,
            shrinkage=0.0,
        )
        return private_tree.train(Alone(party), settings).model

    return grown


def advantage(epsilon, n_models, n_rows=40, seed=0, model_of=forest_of):
    """Return how much better than guessing an attacker does who thresholds a row's loss.

    Half of the rows are in each training set. The largest difference of rates over all thresholds.
    """
    random = np.random.RandomState(seed)
    inside, outside = [], []
    for model in range(n_models):
        X = random.random_sample((2 * n_rows, 2)).astype(np.float32)
        y = random.randint(0, 2, 2 * n_rows).astype(np.int32)  # noise to be learnt by heart
        table = MemoryTable(SCHEMA, MatrixColumns(X[:n_rows]), y[:n_rows])
        shares = model_of(table, epsilon, model).predict(MatrixColumns(X))[np.arange(2 * n_rows), y]
        inside.append(shares[:n_rows])
        outside.append(shares[n_rows:])
    seen, unseen = np.sort(np.concatenate(inside)), np.sort(np.concatenate(outside))
    bars = np.concatenate([seen, unseen])
    rates = [1 - np.searchsorted(held, bars) / held.size for held in (seen, unseen)]
    return float(np.max(rates[0] - rates[1])), seen.size


def bound(epsilon):
    """Return the largest advantage that epsilon allows: (e^epsilon - 1) / (e^epsilon + 1)."""
    return math.tanh(epsilon / 2)


MODELS = {"forest": forest_of} | {method: tree_of(method) for method in METHODS}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("epsilon", ["1/2", "1"])
def test_a_membership_attack_stays_under_its_bound(epsilon, name):
    found, n = advantage(epsilon, 10, model_of=MODELS[name])
    slack = 1.36 * math.sqrt(2 / n)  # of the largest difference by chance (Kolmogorov, 5 %)
    assert found <= bound(float(Fraction(epsilon))) + slack


@pytest.mark.parametrize("name", MODELS)
def test_the_attack_works_where_there_is_nothing_to_stop_it(name):
    found, n = advantage("10000", 10, model_of=MODELS[name])
    assert found > bound(0.5) + 1.36 * math.sqrt(2 / n)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_membership_attack_stays_under_its_bound_on_many_models(name):
    found, n = advantage("1", 300, model_of=MODELS[name])
    assert found <= bound(1.0) + 1.36 * math.sqrt(2 / n)
