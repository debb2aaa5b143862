"""Truex's tree and the private search of evolved trees stand their audit; faults do not.

The statistic is the log-likelihood ratio of all that a run has shown, by one who knows both tables
and the law of the noise.
"""

from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest

from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from spinney.protocols import genetic_tree
from spinney.protocols.genetic_tree.coordinator import BREED
from spinney.protocols.genetic_tree.messages import EvolvingJob, NoisyScoresAsk
from spinney.protocols.genetic_tree.noisy import (
    NoisyPlan,
    NoisySearch,
    leaves_of_rows,
)
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from statistical.audit import audit  # type: ignore[import-not-found]
from statistical.private_evidence import Alone  # type: ignore[import-not-found]

truex_tree = import_module("papers.truex")
TruexPlan = import_module("papers.truex.plan").TruexPlan
TruexAsk = import_module("papers.truex.tree").TruexAsk

pytestmark = pytest.mark.usefixtures("seeded")
ILL = Label("ill", "class", ("no", "yes"))


def neighbours(columns, X, y):
    """Return a table without its last row, and with it."""
    schema = Schema(tuple(columns), ILL)
    return [
        MemoryTable(schema, MatrixColumns(X[:n].astype(np.float32)), y[:n].astype(np.int32))
        for n in (len(y) - 1, len(y))
    ]


# --- Truex's tree --------------------------------------------------------------------------------


def of_categories(n_columns):
    """Codes of which the last row's are its own in every column."""
    names = ("a", "b", "c", "d")
    columns = [Column(f"c{i}", "category", categories=names) for i in range(n_columns)]
    X = np.random.RandomState(0).randint(0, 3, (40, n_columns)).astype(float)
    y = X[:, 0] > 1
    X[-1], y[-1] = 3, True
    return neighbours(columns, X, y)


def truex_audit(tables, epsilon, n_trials):
    both = [truex_tree.Party(table, Ledger.in_memory()) for table in tables]

    def statistics(party):
        return lambda n: np.array([truex_evidence(party, both, epsilon, job) for job in range(n)])

    return audit(*map(statistics, both), n_trials)


def truex_evidence(party, both, epsilon, job):
    privacy = PrivacySettings(job=f"job {job}", epsilon=str(epsilon))
    channel = Alone(party)
    truex_tree.train(channel, truex_tree.Settings(privacy=privacy, max_depth=1))
    ratio = 0.0
    for ask, reply in channel.shown:
        if isinstance(ask, TruexAsk):
            noises = party._plan(ask).noises(ask.depth)
            exact = [side._counted(ask) for side in both]
            ends = np.cumsum([vector.size for vector in exact[0]])
            parts = np.split(reply.counters, ends[:-1])
            for noise, shown, less, more in zip(noises, parts, *exact, strict=True):
                off = np.abs(shown - less).sum() - np.abs(shown - more).sum()
                ratio += float(noise.decay) * float(off)
    return round(ratio, 9)


def test_truex_s_tree_keeps_its_claim():
    found = truex_audit(of_categories(2), Fraction(4), 150)
    assert not found.refutes(4.0), found
    assert found.epsilon > 0.4, found  # the audit does see the record


def test_truex_s_tree_that_forgets_its_columns_is_caught(monkeypatch):
    right = TruexPlan.noises

    def forgetful(self, depth):
        return [DiscreteLaplace(noise.epsilon) for noise in right(self, depth)]

    monkeypatch.setattr(TruexPlan, "noises", forgetful)
    assert truex_audit(of_categories(256), Fraction(1), 80).refutes(1.0)


# --- the private search of evolved trees ---------------------------------------------------------

DELTA = Fraction(1, 100)


def of_numbers():
    X = np.random.RandomState(0).uniform(0, 1, (41, 3))
    return neighbours([Column(f"c{i}", "number", (0.0, 1.0)) for i in range(3)], X, X[:, 0] > 0.5)


def searched(party, both, epsilon, number, population):
    """Breed structures from noisy counts; return what the counts say of the last record."""
    privacy = PrivacySettings(job=f"job {number}", epsilon=str(epsilon))
    settings = genetic_tree.Settings(
        task="classification",
        privacy=privacy,
        delta=str(DELTA),
        population_size=population,
        n_generations=2,
        max_depth=2,
        seed=number,
    )
    schema, channel = party.schema, Alone(party)
    job = EvolvingJob(settings, schema.digest(), 1, None)
    search = NoisySearch(channel, job, schema, BREED)
    for generation in range(settings.n_generations):
        search.generation(generation)
    noise = NoisyPlan(settings, 1, 2).noise
    ratio = 0.0
    for ask, reply in channel.shown:
        if isinstance(ask, NoisyScoresAsk):
            off = [((reply.counters - counted(side, ask)) ** 2).sum() for side in both]
            ratio += float(off[0] - off[1]) / (2 * float(noise.share_variance))
    return round(ratio, 9)


def counted(side, ask):
    """Return the exact counts that a question asks for."""
    rows, size = side._noisy._rows, (1 << ask.depth) * 2
    leaves = (leaves_of_rows(rows.codes, rows.n_bins, genes, ask.depth) for genes in ask.genes)
    return np.concatenate([np.bincount(leaf * 2 + rows.target, minlength=size) for leaf in leaves])


def search_audit(epsilon, n_trials, population=8):
    both = [
        genetic_tree.Party(table, "all", n_jobs=1, ledger=Ledger.in_memory(), only_noise=True)
        for table in of_numbers()
    ]
    for side in both:  # so that each knows its rows in bins
        searched(side, (side, side), epsilon, n_trials, population)

    def statistics(party):
        return lambda n: np.array(
            [searched(party, both, epsilon, job, population) for job in range(n)]
        )

    return audit(*map(statistics, both), n_trials, delta=float(DELTA))


@pytest.mark.slow  # thousands of searches: five seconds
def test_a_private_search_keeps_its_claim():
    found = search_audit(Fraction(8), 100)
    assert not found.refutes(8.0), found
    assert found.epsilon > 0.5, found  # the audit does see the record


@pytest.mark.slow  # thousands of searches: five seconds
def test_a_search_that_forgets_how_many_structures_it_asks_about_is_caught(monkeypatch):
    """A record is in a leaf of each of them."""

    def forgetful(self):
        return DiscreteGaussian(self.budget.amount / self.settings.n_generations)

    monkeypatch.setattr(NoisyPlan, "noise", property(forgetful))
    assert search_audit(Fraction(1), 60, population=64).refutes(1.0)
