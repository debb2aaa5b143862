"""Audits of private boosting, and of faults that an audit must catch.

Two tables differ by one record. The whole transcript, the first facts and the sums of every batch,
is held against the exact numbers of both tables, as a curious coordinator would who knows
everything but the noise. The long runs are marked slow.
"""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from spinney.privacy import samplers
from spinney.privacy.accounting import JobTerms
from spinney.privacy.gaussian import gaussian_amount
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace, Shares, SmoothGaussian
from spinney.privacy.scopes import Budget
from spinney.protocols import private_boosting, private_tree
from spinney.protocols.accounts.budget import noise_of
from spinney.protocols.noisy_boosting import distilling
from spinney.protocols.noisy_boosting import party as boosted_rows
from spinney.protocols.noisy_boosting.budget import BoostingPlan
from spinney.protocols.noisy_boosting.messages import (
    DistilledLeavesAsk,
    FirstFactsAsk,
    LeafSumsAsk,
    PublicBoosting,
)
from spinney.protocols.noisy_boosting.party import _Scores
from spinney.protocols.private_tree.settings import boosting_of
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.trees.bounded_gradients import SCALE, ClippedSquares, TwoClasses
from spinney.trees.curves import CurveTerms, moments, moments_moved, pulls_moved
from spinney.trees.frontier import ColumnCells
from spinney.trees.leaf_counts import NumberedLeaves
from statistical.audit import audit  # type: ignore[import-not-found]
from statistical.private_evidence import Alone  # type: ignore[import-not-found]

SCHEMA = Schema((Column("a", "number", (0.0, 1.0)),), Label("ill", "class", ("no", "yes")))
NO_DELTA = ""
MILLIONTH = "1/1000000"


def rows(*, with_canary):
    random = np.random.RandomState(0)
    X = random.uniform(0, 0.7, (12, 1)).astype(np.float32)
    y = (X[:, 0] > 0.35).astype(np.int32)
    if with_canary:  # alone in its corner, and the only one that is ill there
        X, y = np.r_[X, [[0.999]]].astype(np.float32), np.r_[y, 0].astype(np.int32)
    return MemoryTable(SCHEMA, MatrixColumns(X), y)


BOTH = (rows(with_canary=False), rows(with_canary=True))
COSTS = replace(SCHEMA, label=Label("cost", "number", range=(0.0, 1000.0)))


def costs(*, with_canary, at=0.999):
    """The same rows with a number each; the canary's is far from all others."""
    held = rows(with_canary=with_canary)
    X, target = held.columns.values(slice(0, held.n_rows)).T.copy(), np.asarray(held.target, float)
    if with_canary:
        X[-1], target[-1] = at, 1000.0
    return MemoryTable(COSTS, MatrixColumns(X), target)


def settings(trial, epsilon, delta, **changes):
    given: dict[str, Any] = {"job": f"job {trial}", "epsilon": str(epsilon), "tree_rows": "all"}
    if delta:
        given["delta"] = delta
    size: dict[str, Any] = {"n_passes": 2, "max_depth": 1, "batch_trees": 1, "seed": 3}
    return private_boosting.Settings(
        privacy=PrivacySettings(**given), **{"task": "classification"} | size | changes
    )


def log_odds(noise, noisy, first, second):
    """Return how much likelier a noisy vector is with the second table than with the first."""
    if isinstance(noise, DiscreteLaplace):
        return float(noise.decay) * (np.abs(noisy - first) - np.abs(noisy - second)).sum()
    squares = (noisy - first) ** 2 - (noisy - second) ** 2
    return squares.sum() / (2 * float(noise.share_variance))


def summed(party, public, so_far):
    """Return what a party's rows come to in the next batch, without noise."""
    return party._boosted._scored(public, so_far).sums(so_far)


class Watched:
    """A party whose transcripts are weighed."""

    both = BOTH

    def __init__(self, table):
        self.party: Any = private_boosting.Party(table, n_jobs=1, ledger=Ledger.in_memory())
        self.others = [private_boosting.Party(t, n_jobs=1, ledger=None) for t in self.both]

    def evidence(self, asked):
        channel = Alone(self.party)
        private_boosting.train(channel, asked)
        schema = self.both[0].schema
        return self.weighed(channel.shown, PublicBoosting.of(schema, asked, 1))

    def weighed(self, shown, public):
        plan, total = public.plan, 0.0
        for ask, reply in shown:
            if isinstance(ask, FirstFactsAsk):
                exact = [np.concatenate(other._boosted._counted(public)) for other in self.others]
                cut = plan.n_base
                for part, noise in (
                    (slice(0, cut), plan.base_noise),
                    (slice(cut, None), plan.edge_noise),
                ):
                    held = (reply.counters[part], exact[0][part], exact[1][part])
                    total += log_odds(noise, *held)
            elif isinstance(ask, LeafSumsAsk):
                number = len(ask.so_far.values)
                scored = [summed(other, public, ask.so_far) for other in self.others]
                told = [plan.parts(number, numbers) for numbers in (reply.counters, *scored)]
                for spend, noisy, *exact in zip(plan.batch_spends(number), *told, strict=True):
                    total += log_odds(spend.mechanism, noisy, *exact)
        return total


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Distil from few drawn rows; how many there are tells nothing of anybody's."""
    monkeypatch.setattr(distilling, "_DRAWN_ROWS", 200)


class WatchedCosts(Watched):
    """A party whose transcripts of boosted numbers are weighed."""

    both = (costs(with_canary=False), costs(with_canary=True))


class WatchedMiddle(WatchedCosts):
    """The same, of a canary among other rows, whose leaf depends on where a tree cuts."""

    both = (costs(with_canary=False), costs(with_canary=True, at=0.35))


def many_columns(held):
    """The same rows with two more columns, so that later trees choose theirs."""
    random = np.random.RandomState(1)
    X = np.c_[held.columns.matrix, random.uniform(0, 1, (held.target.size, 2))].astype(np.float32)
    X[12:] = 0.999  # the canary's corner
    columns = tuple(Column(name, "number", (0.0, 1.0)) for name in "abc")
    return MemoryTable(replace(COSTS, columns=columns), MatrixColumns(X), held.target)


class WatchedChoices(Watched):
    """The same with three columns and four passes, of which two take what has mattered."""

    both = tuple(many_columns(held) for held in WatchedCosts.both)


class WatchedTree(Watched):
    """A party whose transcripts of distilled trees are weighed, to the counts of their leaves."""

    def __init__(self, table):
        super().__init__(table)
        self.party = private_tree.Party(table, n_jobs=1, ledger=Ledger.in_memory())

    def evidence(self, asked):
        tree = private_tree.Settings(
            privacy=asked.privacy,
            method="distilled",
            max_depth=2,
            min_samples_leaf=1,
            n_rows=100,  # so few that classes are counted once, and nothing more
        )
        channel = Alone(self.party)
        private_tree.train(channel, tree)
        public = PublicBoosting.of(SCHEMA, boosting_of(tree), 1)
        total = self.weighed(channel.shown, public)
        for ask, reply in channel.shown:
            if isinstance(ask, DistilledLeavesAsk):
                leaves = NumberedLeaves(1, ask.levels, public.binning(ask.so_far.facts))
                exact = [
                    leaves.counts(other._rows.batches(leaves.binning), 2).ravel()
                    for other in self.others
                ]
                total += log_odds(public.plan.leaf_noise, reply.counters, *exact)
        return total


def audited(epsilon, delta, n_trials, watching=Watched, **changes):
    def run(table, n):
        watched = watching(table)
        return np.array(
            [watched.evidence(settings(trial, epsilon, delta, **changes)) for trial in range(n)]
        )

    claimed = float(Fraction(delta)) if delta else 0.0
    return audit(*(partial(run, table) for table in watching.both), n_trials, delta=claimed)


@pytest.mark.parametrize("delta", [NO_DELTA, MILLIONTH])
def test_a_whole_model_keeps_its_promise(delta):
    assert not audited(1, delta, 50).refutes(1.0)


@pytest.mark.parametrize("delta", [NO_DELTA, MILLIONTH])
def test_a_whole_model_of_numbers_keeps_its_promise(delta):
    assert not audited(1, delta, 50, WatchedCosts, task="regression").refutes(1.0)


CHOOSING: dict[str, Any] = {"task": "regression", "n_passes": 4}


def test_a_model_that_chooses_its_columns_keeps_its_promise():
    assert not audited(1, MILLIONTH, 50, WatchedChoices, **CHOOSING).refutes(1.0)


def test_leaves_of_chosen_columns_that_reach_beyond_what_is_charged_are_caught(monkeypatch):
    """Only trees that take what has mattered add too much: the audit sees those too."""
    honest = _Scores._leaf_sums

    def added(self, batch, so_far):
        return honest(self, batch, so_far) * (200 if so_far.columns else 1)

    monkeypatch.setattr(_Scores, "_leaf_sums", added)
    assert audited(1, MILLIONTH, 50, WatchedChoices, **CHOOSING).refutes(1.0)


@pytest.mark.slow  # thousands of whole models: minutes
def test_a_model_that_chooses_its_columns_keeps_its_promise_over_many_runs():
    found = audited(3, MILLIONTH, 2000, WatchedChoices, **CHOOSING)
    assert not found.refutes(3)
    assert found.epsilon > 0.3  # the audit sees the record


@pytest.mark.slow  # thousands of whole models: half a minute each
@pytest.mark.parametrize("delta", [NO_DELTA, MILLIONTH])
def test_a_whole_model_of_numbers_keeps_its_promise_over_many_runs(delta):
    found = audited(3, delta, 4000, WatchedCosts, task="regression")
    assert not found.refutes(3)
    assert found.epsilon > 0.3  # the audit sees the record


@pytest.mark.parametrize("delta", [NO_DELTA, MILLIONTH])
def test_residuals_that_are_not_clipped_are_caught(delta, monkeypatch):
    """What is divided by a small clip must be clipped to it; if it is, any clip will do.

    The clip stays small: with delta it falls, and never rises.
    """
    monkeypatch.setattr(ClippedSquares, "scaled", lambda *_: ClippedSquares(0.001))
    assert not audited(1, delta, 50, WatchedCosts, task="regression").refutes(1.0)

    def gradient(self, scores, target):
        return self.residual(scores, target) / self.clip

    monkeypatch.setattr(ClippedSquares, "gradient", gradient)
    assert audited(1, delta, 50, WatchedCosts, task="regression").refutes(1.0)


@pytest.mark.parametrize(
    ("where", "name"),
    [(CurveTerms, "pulls"), (boosted_rows, "moments"), (boosted_rows, "residual_cells")],
)
def test_sums_for_curves_that_reach_beyond_what_is_charged_are_caught(where, name, monkeypatch):
    honest = getattr(where, name)
    monkeypatch.setattr(where, name, lambda *given: 200 * honest(*given))
    assert audited(1, MILLIONTH, 50, WatchedCosts, task="regression").refutes(1.0)


def test_a_whole_distilled_tree_keeps_its_promise():
    assert not audited(1, NO_DELTA, 50, WatchedTree).refutes(1.0)


@pytest.mark.slow  # thousands of whole trees: minutes each
@pytest.mark.parametrize("delta", [NO_DELTA, MILLIONTH])
def test_a_whole_distilled_tree_keeps_its_promise_over_many_runs(delta):
    found = audited(3, delta, 2000, WatchedTree)
    assert not found.refutes(3)
    assert found.epsilon > 0.3  # the audit sees the record


@pytest.mark.slow  # thousands of whole models: half a minute each
@pytest.mark.parametrize("delta", [NO_DELTA, MILLIONTH])
@pytest.mark.parametrize("epsilon", [1, 3])
def test_a_whole_model_keeps_its_promise_over_many_runs(epsilon, delta):
    found = audited(epsilon, delta, 4000)
    assert not found.refutes(epsilon)
    assert found.epsilon > 0.1 * epsilon  # the audit sees the record


# --- faults that an audit must catch -------------------------------------------------------------

LOOSE = {"epsilon": Fraction(1), "delta": Fraction(1, 1000)}  # so loose that runs can tell


def gaussian(squared, *, shares=None):
    """Return the noise of a job that may spend `LOOSE` on one release."""
    return SmoothGaussian(gaussian_amount(*LOOSE.values()), Fraction(squared), shares=shares)


def one_release(noise, moved, n_trials, *, n_shares=1):
    """Audit one release of a record's numbers, by its log odds."""
    variance = getattr(noise, "share_variance", None)

    def run(exact, n):
        zeros = np.zeros((n, moved.size), np.int64)
        noisy = exact + sum(noise._randomised(zeros) for _ in range(n_shares))
        if variance is not None:
            odds = [((noisy - value) ** 2).sum(axis=1) for value in (np.zeros_like(moved), moved)]
            return (odds[0] - odds[1]) / (2 * float(variance))
        odds = [np.abs(noisy - value).sum(axis=1) for value in (np.zeros_like(moved), moved)]
        return float(noise.decay) * (odds[0] - odds[1])

    delta = 0.0 if variance is None else float(LOOSE["delta"])
    runs = (partial(run, np.zeros_like(moved)), partial(run, moved))
    return audit(*runs, n_trials, delta=delta)


def test_a_sensitivity_of_one_where_it_is_two_is_caught():
    """Of several classes, a record moves the gradients of two by up to S each."""
    noise = DiscreteLaplace(Fraction(3), Fraction(SCALE))
    moved = np.array([SCALE, -SCALE])  # p of another class, minus 1 of its own
    assert one_release(noise, moved, 20_000).refutes(3.0)
    noise = replace(noise, sensitivity=Fraction(2 * SCALE))
    assert not one_release(noise, moved, 20_000).refutes(3.0)


COLUMN = ColumnCells(np.array([255]), np.zeros(1, bool), np.zeros(1, bool))


def most_of(what):
    """Return what a record far out adds to a release of numbers, and what is charged for it."""
    terms = CurveTerms.draw(COLUMN, 2, np.random.default_rng(0))
    row = terms.of_rows(np.array([[230]], np.uint8))  # as far out as rows may be unshortened
    far = ClippedSquares(0.01).gradient(np.array([[5.0]]), np.zeros(1, np.int64))
    if what == "pulls":
        return terms.pulls(row, far), pulls_moved(terms.n)
    if what == "moments":
        return moments(row), moments_moved(terms.n)
    added = ClippedSquares(0.01).added(np.array([[5.0]]), np.zeros(1, np.int64))
    return added[:, 0], ClippedSquares.moved


@pytest.mark.parametrize("what", ["pulls", "moments", "leaves"])
def test_a_sensitivity_of_one_where_it_is_two_is_caught_of_numbers(what):
    moved, charged = most_of(what)
    right = one_release(gaussian(charged.squared), moved, 8000)
    assert not right.refutes(float(LOOSE["epsilon"]))
    wrong = one_release(gaussian(charged.squared / 4), moved, 8000)
    assert wrong.refutes(float(LOOSE["epsilon"]))


@pytest.mark.parametrize("loss", ["two classes", "numbers"])
def test_a_curvature_that_is_counted_free_where_it_is_not_is_caught(loss):
    """With c = 3 it is free of squares, not of absolute values: 4/3 of S at p = 2/3.

    A number's rows are never free: a residual beyond the clip adds S, and its row S / 3.
    """
    noise = DiscreteLaplace(Fraction(3), Fraction(SCALE))
    score, target = np.array([[np.log(2.0)]]), np.zeros(1, np.int64)
    if loss == "numbers":
        wrong, charged = most_of("leaves")
        noise_of_both = replace(noise, sensitivity=charged.absolute)
        assert not one_release(noise_of_both, wrong, 20_000).refutes(3.0)
    else:
        wrong = TwoClasses(3).added(score, target)[:, 0]
        right = TwoClasses(1).added(score, target)[:, 0]
        assert not one_release(noise, right, 20_000).refutes(3.0)
    assert one_release(noise, wrong, 20_000).refutes(3.0)


def generous(self, data):
    """Open the job with a budget that lets the fault pass the ledger, which would catch it too."""
    return JobTerms(self.privacy.job, data, 1, 1, (Budget.pure(1000),))


def test_leaves_that_are_counted_as_if_boosting_were_free_are_caught(monkeypatch):
    """Boosting and leaves each spend what only both together may."""

    def whole(self, part, moved, times=1):
        return noise_of(self.privacy, 1, Fraction(1), moved.absolute * times, moved.squared * times)

    monkeypatch.setattr(BoostingPlan, "_noise", whole)
    monkeypatch.setattr(BoostingPlan, "terms", generous)
    assert audited(1, NO_DELTA, 200, WatchedTree).refutes(1.0)


@pytest.mark.parametrize("kind", ["Laplace", "Gaussian"])
def test_a_missing_share_is_caught(kind):
    """Three honest shares are the whole noise; one alone is not."""
    moved, shares = np.ones(1, np.int64), Shares(5, 3)
    if kind == "Laplace":
        claimed, noise = 1.0, DiscreteLaplace(Fraction(1), Fraction(1), shares=shares)
    else:
        claimed, noise = float(LOOSE["epsilon"]), gaussian(1, shares=shares)
    n_trials = 300_000  # of which few show what a delta leaves to be seen
    assert one_release(noise, moved, n_trials, n_shares=1).refutes(claimed)
    assert not one_release(noise, moved, n_trials, n_shares=3).refutes(claimed)


@pytest.mark.parametrize(
    ("watching", "delta", "sampler", "task"),
    [
        (Watched, NO_DELTA, "shares", "classification"),
        (WatchedMiddle, MILLIONTH, "discrete_gaussian", "regression"),
    ],
    ids=["classes", "curves"],
)
def test_noise_that_is_used_twice_is_caught(monkeypatch, watching, delta, sampler, task):
    """The difference of two batches with the same noise is exact.

    It tells the tables apart in 7 of 10 models or more; 120 of them leave chance no room.
    """
    kept, fresh = {}, getattr(samplers, sampler)

    def reused(*law):
        if law not in kept:
            kept[law] = fresh(*law)
        return kept[law]

    def run(table, n):
        watched, found = watching(table), np.empty(n)
        for trial in range(n):
            kept.clear()
            asked = settings(trial, 1, delta, n_passes=6, task=task)
            channel = Alone(watched.party)
            private_boosting.train(channel, asked)
            public = PublicBoosting.of(watched.both[0].schema, asked, 1)
            shown = [pair for pair in channel.shown if isinstance(pair[0], LeafSumsAsk)]
            alike = shown[-5:]  # rounds whose trees add up gradients, and their pulls

            def sums(ask, numbers, plan=public.plan):
                return np.concatenate(plan.parts(len(ask.so_far.values), numbers)[:2])

            told = np.diff([sums(ask, reply.counters) for ask, reply in alike], axis=0)
            fits = []
            for other in watched.others:
                exact = [sums(ask, summed(other, public, ask.so_far)) for ask, _ in alike]
                fits.append(np.array_equal(told, np.diff(exact, axis=0)))
            found[trial] = float(fits[1]) - float(fits[0])
        return found

    monkeypatch.setattr(samplers, sampler, reused)
    both = watching.both
    assert audit(partial(run, both[0]), partial(run, both[1]), 120).refutes(1.0)
