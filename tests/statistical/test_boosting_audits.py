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
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace, Shares
from spinney.protocols import private_boosting
from spinney.protocols.noisy_boosting.messages import FirstFactsAsk, LeafSumsAsk, PublicBoosting
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.trees.bounded_gradients import SCALE, TwoClasses
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


def settings(trial, epsilon, delta, **changes):
    given: dict[str, Any] = {"job": f"job {trial}", "epsilon": str(epsilon), "tree_rows": "all"}
    if delta:
        given["delta"] = delta
    size: dict[str, Any] = {"n_passes": 2, "max_depth": 1, "batch_trees": 1, "seed": 3}
    return private_boosting.Settings(
        privacy=PrivacySettings(**given), task="classification", **size | changes
    )


def log_odds(noise, noisy, first, second):
    """Return how much likelier a noisy vector is with the second table than with the first."""
    if isinstance(noise, DiscreteLaplace):
        return float(noise.decay) * (np.abs(noisy - first) - np.abs(noisy - second)).sum()
    squares = (noisy - first) ** 2 - (noisy - second) ** 2
    return squares.sum() / (2 * float(noise.share_variance))


class Watched:
    """A party whose transcripts are weighed."""

    def __init__(self, table):
        self.party = private_boosting.Party(table, n_jobs=1, ledger=Ledger.in_memory())
        self.others = [private_boosting.Party(t, n_jobs=1, ledger=None) for t in BOTH]

    def evidence(self, asked):
        channel = Alone(self.party)
        private_boosting.train(channel, asked)
        public = PublicBoosting.of(SCHEMA, asked, 1)
        plan, total = public.plan, 0.0
        for ask, reply in channel.shown:
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
                scored = [
                    other._boosted._scored(public, ask.so_far).sums().ravel()
                    for other in self.others
                ]
                noise = plan.batch_noise(public.batches[len(ask.so_far.values)])
                total += log_odds(noise, reply.counters, *scored)
        return total


def audited(epsilon, delta, n_trials, **changes):
    def run(table, n):
        watched = Watched(table)
        return np.array(
            [watched.evidence(settings(trial, epsilon, delta, **changes)) for trial in range(n)]
        )

    claimed = float(Fraction(delta)) if delta else 0.0
    return audit(*(partial(run, table) for table in BOTH), n_trials, delta=claimed)


@pytest.mark.parametrize("delta", [NO_DELTA, MILLIONTH])
def test_a_whole_model_keeps_its_promise(delta):
    assert not audited(1, delta, 50).refutes(1.0)


@pytest.mark.slow  # thousands of whole models: half a minute each
@pytest.mark.parametrize("delta", [NO_DELTA, MILLIONTH])
@pytest.mark.parametrize("epsilon", [1, 3])
def test_a_whole_model_keeps_its_promise_over_many_runs(epsilon, delta):
    found = audited(epsilon, delta, 4000)
    assert not found.refutes(epsilon)
    assert found.epsilon > 0.1 * epsilon  # the audit sees the record


# --- faults that an audit must catch -------------------------------------------------------------


def test_a_sensitivity_of_one_where_it_is_two_is_caught():
    """Of several classes, a record moves the gradients of two by up to S each."""
    noise = DiscreteLaplace(Fraction(3), Fraction(SCALE))
    moved = np.array([SCALE, -SCALE])  # p of another class, minus 1 of its own
    found = one_release(noise, moved, 20_000)
    assert found.refutes(3.0)
    assert not one_release(replace(noise, sensitivity=Fraction(2 * SCALE)), moved, 20_000).refutes(
        3
    )


def one_release(noise, moved, n_trials):
    """Audit one release of a record's numbers, by its log odds."""

    def run(exact, n):
        zeros = np.zeros((n, moved.size), np.int64)
        noisy = exact + noise._randomised(zeros)
        odds = [np.abs(noisy - value).sum(axis=1) for value in (np.zeros_like(moved), moved)]
        return float(noise.decay) * (odds[0] - odds[1])

    return audit(partial(run, np.zeros_like(moved)), partial(run, moved), n_trials)


def test_a_curvature_that_is_counted_free_where_it_is_not_is_caught():
    """With c = 3 it is free of squares, not of absolute values: 4/3 of S at p = 2/3."""
    noise = DiscreteLaplace(Fraction(3), Fraction(SCALE))
    score = np.array([[np.log(2.0)]])
    wrong = TwoClasses(3).added(score, np.zeros(1, np.int64))[:, 0]
    assert one_release(noise, wrong, 20_000).refutes(3.0)
    right = TwoClasses(1).added(score, np.zeros(1, np.int64))[:, 0]
    assert not one_release(noise, right, 20_000).refutes(3.0)


def test_a_missing_share_is_caught():
    """Three honest shares are the whole noise; one alone is not."""
    noise = DiscreteLaplace(Fraction(1), Fraction(1), shares=Shares(5, 3))

    def run(n_shares, exact, n):
        return exact + sum(noise._randomised(np.zeros(n, np.int64)) for _ in range(n_shares))

    whole, missing = (audit(partial(run, k, 0), partial(run, k, 1), 20_000) for k in (3, 1))
    assert missing.refutes(1.0)
    assert not whole.refutes(1.0)


def test_noise_that_is_used_twice_is_caught(monkeypatch):
    """The difference of two batches with the same noise is exact.

    It tells the tables apart in 7 of 10 models; 120 of them leave chance no room.
    """
    kept, fresh = {}, samplers.shares

    def reused(decay, honest, count):
        if (decay, count) not in kept:
            kept[decay, count] = fresh(decay, honest, count)
        return kept[decay, count]

    def run(table, n):
        watched, found = Watched(table), np.empty(n)
        for trial in range(n):
            kept.clear()
            asked, channel = settings(trial, 1, NO_DELTA, n_passes=6), Alone(watched.party)
            private_boosting.train(channel, asked)
            public = PublicBoosting.of(SCHEMA, asked, 1)
            shown = [pair for pair in channel.shown if isinstance(pair[0], LeafSumsAsk)][1:]
            told = np.diff([reply.counters for _, reply in shown], axis=0)
            fits = []
            for other in watched.others:
                exact = [
                    other._boosted._scored(public, ask.so_far).sums().ravel() for ask, _ in shown
                ]
                fits.append(np.array_equal(told, np.diff(exact, axis=0)))
            found[trial] = float(fits[1]) - float(fits[0])
        return found

    monkeypatch.setattr(samplers, "shares", reused)
    assert audit(partial(run, BOTH[0]), partial(run, BOTH[1]), 120).refutes(1.0)
