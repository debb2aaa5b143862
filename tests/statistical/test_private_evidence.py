"""Private trees stand an audit that knows all but the noise; planted faults do not.

The statistic is the log-likelihood ratio of a tree's whole transcript (`private_evidence`). Every
method has a table on which one record matters most to it, and a fault that makes it matter more
than it was paid for: the ledger sees none of these, since each charges what the right one would.
"""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from spinney.privacy.mechanisms import DiscreteLaplace, PermuteAndFlip
from spinney.privacy.noisy_max import NoisyMax
from spinney.protocols.private_tree import coordinator as tree_deciding
from spinney.protocols.private_tree.budget import TreePlan, _grouped
from spinney.protocols.private_tree.messages import PublicTree, TreeSoFar
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.trees.public_cells import PublicCells
from statistical.audit import audit  # type: ignore[import-not-found]
from statistical.private_evidence import (  # type: ignore[import-not-found]
    Watched,
    audited,
    evidence,
    flip_odds,
    max_odds,
    tree_settings,
)

pytestmark = pytest.mark.usefixtures("seeded")
METHODS = ("histograms", "save_budget", "propose", "noisy_max")

# Rows by bits, two halves to a column, and the class: found by a search for tables on which one
# record more moves the odds of a choice most.
_AHEAD = (
    "1100 0111 1110 0001 1100 1000 0010 1110 1111 0001 0111 0010 1001 1001 0111 0111 1011 0010 "
    "1101 1001 1100 0111 0111 0010 0010 0010 1001"
)
FOR_AHEAD = (_AHEAD, "0100")
FOR_PROPOSALS = ("001 011 010 001 001 110", "100")
# And on which one record more changes what the best choice is.
TURNED_AHEAD = ("0000 0011 0000 0010 0101 1100", "1111")
TURNED_PROPOSALS = ("111 110 011 011 011 011", "000")


def neighbours(X, y, canary, label):
    """Return a table and the same with one record more."""
    schema = Schema(
        tuple(Column(f"c{i}", "number", (0.0, 1.0)) for i in range(X.shape[1])),
        Label("ill", "class", ("no", "yes")),
    )
    more = np.r_[X, [canary]].astype(np.float32), np.r_[y, label].astype(np.int32)
    less = X.astype(np.float32), y.astype(np.int32)
    return tuple(MemoryTable(schema, MatrixColumns(a), b) for a, b in (less, more))


def of_bits(rows, canary):
    table = np.array([[int(bit) for bit in row] for row in [*rows.split(), canary]])
    X, y = table[:, :-1] / 2 + 0.25, table[:, -1]
    return neighbours(X[:-1], y[:-1], X[-1], y[-1])


def in_a_corner(n_columns):
    """One record alone in the last cell of every column."""
    random = np.random.RandomState(0)
    X = random.uniform(0, 0.7, (30, n_columns))
    return neighbours(X, X[:, 0] > 0.35, np.full(n_columns, 0.999), 1)


def all_alike(n_columns):
    """Rows that no cut parts: one ill record more raises every column's bound by a row."""
    X, y = np.full((200, n_columns), 0.1), np.zeros(200)
    y[:2] = 1
    return neighbours(X, y, X[0], 1)


# --- the laws of choices, as the evidence knows them ----------------------------------------------


@pytest.mark.parametrize("decay", [Fraction(1, 20), Fraction(1, 3)])
def test_the_odds_of_choices_are_those_that_are_drawn(decay):
    scores = np.array([0, -3, -3, -9, -1, -30])
    n = 20_000
    many = np.tile(scores, (n, 1))
    flip, most = PermuteAndFlip(decay, monotone=True), NoisyMax(decay)
    flipped, highest = flip._randomised(many), most._randomised(many).argmax(axis=1)
    able = np.ones((1, 6), np.bool_)
    for drawn, odds in (
        (flipped, flip_odds(scores[None], flip)),
        (highest, max_odds(scores[None], able, most)),
    ):
        assert odds.sum() == pytest.approx(1)
        found = np.bincount(drawn, minlength=6) / n
        assert np.all(np.abs(found - odds[0]) < 5 * np.sqrt(odds[0] / n) + 1e-3)


# --- the right code ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_whole_tree_keeps_its_claim(method):
    found = audited(in_a_corner(2), partial(tree_settings, epsilon=Fraction(4), method=method), 40)
    assert not found.refutes(4.0), found


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_whole_tree_keeps_its_claim_over_many_runs(method):
    job = partial(tree_settings, epsilon=Fraction(4), method=method)
    found = audited(in_a_corner(2), job, 4000)
    assert not found.refutes(4.0), found
    assert found.epsilon > 0.8, found  # and the audit does see the record


def choices(tables, settings, n_trials):
    """Audit the first choice alone, against what it alone was paid."""
    both = tuple(map(Watched, tables))

    def statistics(watched, n):
        runs = (watched.grown(settings(job)) for job in range(n))
        firsts = ((only_choices(channel), chosen[:1]) for channel, chosen in runs)
        return np.array([evidence(first, *both) for first in firsts])

    return audit(*(partial(statistics, watched) for watched in both), n_trials)


def only_choices(channel):
    channel.shown = [(ask, reply) for ask, reply in channel.shown if hasattr(reply, "cuts")][:1]
    return channel


AHEAD = partial(tree_settings, epsilon=Fraction(4), method="noisy_max", n_bins=2, leaf_share="1/5")
PROPOSALS = partial(
    tree_settings,
    epsilon=Fraction(4),
    method="propose",
    n_bins=2,
    max_depth=1,
    leaf_share="1/100",
)


def most_evidence(tables, job):
    """Return the most that a root's choice can say of a record, by its exact odds."""
    both = tuple(map(Watched, tables))
    settings, schema = job(0), tables[0].schema
    public = PublicTree.of(schema, settings, 1)
    grown = TreeSoFar(settings, schema.digest(), 1, (), ()).grown(public)
    able = public.cells.can_cut(grown.frontier)
    if settings.method == "propose":
        (group,) = public.plan.proposal_groups(grown.node_budgets, 1)
        odds = [flip_odds(watched.own_scores(grown), group.noise) for watched in both]
    else:
        (group,) = public.plan.choice_groups(grown.node_budgets, 1)
        odds = [max_odds(watched.scores(grown), able, group.noise) for watched in both]
    ratio = np.abs(np.log(odds[1][able] / odds[0][able]))
    return float(ratio.max()), float(group.noise.cost().amount)


@pytest.mark.parametrize(("rows", "job"), [(FOR_AHEAD, AHEAD), (FOR_PROPOSALS, PROPOSALS)])
def test_the_exact_odds_of_a_choice_keep_to_its_price_and_come_near_it(rows, job):
    said, price = most_evidence(of_bits(*rows), job)
    assert 0.6 * price < said <= price + 1e-9
    random = np.random.RandomState(0)
    width = len(rows[1])
    for _ in range(40):
        bits = random.randint(0, 2, (random.randint(2, 20), width))
        *held, canary = ("".join(map(str, row)) for row in bits)
        said, price = most_evidence(of_bits(" ".join(held), canary), job)
        assert said <= price + 1e-9


@pytest.mark.parametrize(("rows", "job"), [(TURNED_AHEAD, AHEAD), (TURNED_PROPOSALS, PROPOSALS)])
def test_the_exact_odds_can_fail(rows, job, monkeypatch):
    monkeypatch.setattr("spinney.protocols.private_tree.budget._ROW", Fraction(1))
    said, price = most_evidence(of_bits(*rows), job)
    assert said > 2 * price


# --- faults that an audit must catch -------------------------------------------------------------

ONE = partial(tree_settings, epsilon=Fraction(1))


def test_histograms_that_forget_their_columns_are_caught(monkeypatch):
    """One column's noise, though a record is in a cell of each."""

    def forgetful(self, spends, n_moved):
        del self, n_moved
        return DiscreteLaplace(spends)

    monkeypatch.setattr(TreePlan, "_noise", forgetful)
    found = audited(in_a_corner(64), partial(ONE, method="histograms", leaf_share="1/5"), 80)
    assert found.refutes(1.0), found


def test_published_algorithm_6_is_caught(monkeypatch):
    """A bound for every column, and the budget of one."""

    def published(self, node_budgets):
        nothing = np.zeros(len(node_budgets.has), np.int64)
        return _grouped(
            node_budgets, nothing, lambda has, _: self._noise(has * self._bounds_share, 1)
        )

    monkeypatch.setattr(TreePlan, "bounds_groups", published)
    job = partial(ONE, method="save_budget", bounds_share="9/10", leaf_share="1/10", max_depth=1)
    found = audited(all_alike(24), job, 80)
    assert found.refutes(1.0), found


@pytest.mark.parametrize(("rows", "job"), [(TURNED_AHEAD, AHEAD), (TURNED_PROPOSALS, PROPOSALS)])
def test_a_choice_whose_scores_are_counted_in_rows_is_caught(rows, job, monkeypatch):
    """Scores are sixteenths of a row, so that one record moves them by sixteen."""
    monkeypatch.setattr("spinney.protocols.private_tree.budget._ROW", Fraction(1))
    found = choices(of_bits(*rows), partial(job, epsilon=Fraction(2)), 60)
    assert found.refutes(1.0), found


def test_looking_ahead_by_more_than_a_row_is_caught(monkeypatch):
    """A score that adds up what every pair of further cuts would leave, not the best of them."""
    right = PublicCells.costs_ahead
    monkeypatch.setattr(PublicCells, "costs_ahead", lambda self, pairs: 12 * right(self, pairs))
    found = choices(of_bits(*TURNED_AHEAD), partial(AHEAD, epsilon=Fraction(2)), 60)
    assert found.refutes(1.0), found


def test_stopping_by_exact_counts_is_caught(monkeypatch):
    """The trusted coordinator sees exact counts; a tree that stops by them tells of them."""
    right = tree_deciding._METHODS["noisy_max"]
    tables = in_a_corner(2)

    def stops(channel, grown):
        choice = right(channel, grown)
        (_, reply) = channel.shown[-1]
        cells = grown.public.cells.start[1]
        n_rows = reply.counters[: cells * grown.public.plan.n_classes].sum()
        return replace(choice, accepted=choice.accepted & (n_rows > tables[0].n_rows))

    monkeypatch.setitem(tree_deciding._METHODS, "noisy_max", stops)

    def sizes(table, n):
        watched, job = Watched(table), partial(ONE, method="noisy_max", max_depth=1)
        runs = (watched.grown(job(number)) for number in range(n))
        return np.array([len(channel.shown[-1][1].counters) for channel, _ in runs])

    found = audit(*(partial(sizes, table) for table in tables), 60)
    assert found.refutes(1.0), found
