"""What the transcript of a private tree says of one record: its log-likelihood ratio, exactly.

The curious know everything but the noise: both neighbouring tables, every question, every answer
that was shown, and the law of the noise as the code draws it. Noisy counts are held against the
exact counts of both tables; choices against their exact odds. Of a noisy maximum only the choice
is evidence: the coordinator that sees the scores is trusted with them.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from spinney.privacy.ledger import Ledger
from spinney.protocols import private_tree
from spinney.protocols.accounts.account import ClaimsAsk, ClaimsReply
from spinney.protocols.private_tree.coordinator import decide_level
from spinney.protocols.private_tree.messages import (
    BoundsAsk,
    CellsAsk,
    Grown,
    ProposalsAsk,
    SidesAsk,
    TreeLeavesAsk,
)
from spinney.protocols.private_tree.party import _NOT_A_CUT
from spinney.protocols.settings import PrivacySettings
from spinney.tables.table import MemoryTable
from spinney.transport.channel import Ask, Channel
from spinney.trees.public_cells import fixed_costs
from spinney.typing import Floats, Integers
from statistical.audit import Audit, audit  # type: ignore[import-not-found]


class Alone(Channel):
    """A channel to one party that adds up nothing and accounts for nothing: fast."""

    parties = ("all",)
    is_masked = False

    def __init__(self, party: Any) -> None:
        self._party, self.rounds = party, []
        self.shown: list[tuple[Ask[Any], Any]] = []

    def ask(self, ask: Any, **_: Any) -> Any:
        if isinstance(ask, ClaimsAsk):
            return {"all": ClaimsReply(())}
        return {"all": self.sum(ask)}

    def sum(self, ask: Any, **_: Any) -> Any:
        reply = self._party.answer(ask)
        self.shown.append((ask, reply))
        return reply


@dataclass
class Watched:
    """A table's party, whose trees are grown again and again, and all that they show."""

    table: MemoryTable
    party: private_tree.Party = field(init=False)

    def __post_init__(self) -> None:
        self.party = private_tree.Party(self.table, n_jobs=1, ledger=Ledger.in_memory())

    def grown(self, settings: private_tree.Settings) -> tuple[Alone, list[Any]]:
        """Grow a tree; return the channel, and what was chosen at every level."""
        channel, chosen = Alone(self.party), []

        def noting(to: Channel, grown: Grown) -> Any:
            choice = decide_level(to, grown)
            chosen.append((grown, choice.cut))
            return choice

        with mock.patch("spinney.protocols.private_tree.coordinator.decide_level", noting):
            private_tree.train(channel, settings)
        return channel, chosen

    def exact(self, ask: Any) -> Integers:
        """Return what a question's answer would be without noise."""
        return self.party._release(ask).exact().ravel()

    def scores(self, grown: Grown) -> Integers:
        """Return the scores of all cuts of the open nodes, as a noisy maximum sees them."""
        cells, counts = grown.public.cells, self.party._counts
        if grown.looks_ahead:
            return -cells.costs_ahead(counts.pairs(grown))[None]
        return -fixed_costs(*cells.cuts.sides(counts.cells(grown), cells.start))

    def own_scores(self, grown: Grown) -> Integers:
        """Return the scores by which a party proposes."""
        able = grown.public.cells.can_cut(grown.frontier)
        return np.where(able, -self.party._counts.costs(grown), _NOT_A_CUT)


def evidence(run: tuple[Alone, list[Any]], without: Watched, within: Watched) -> float:
    """Return the log-likelihood ratio of all that a tree has shown, for the record."""
    channel, chosen = run
    ratio = 0.0
    for ask, reply in channel.shown:
        if isinstance(ask, ProposalsAsk):
            grown = without.party._grown(ask.tree, "propose")
            (group,) = grown.public.plan.proposal_groups(grown.node_budgets, grown.n_open)
            odds = [flip_odds(w.own_scores(grown), group.noise) for w in (without, within)]
            ratio += _of_choice(odds, reply.cuts)
        elif isinstance(ask, CellsAsk | BoundsAsk | SidesAsk | TreeLeavesAsk):
            release = without.party._release(ask)
            exact = [watched.exact(ask) for watched in (without, within)]
            for group, at in zip(release.groups, release.places, strict=True):
                off = [np.abs(reply.counters[at] - counts[at]).sum() for counts in exact]
                ratio += float(group.noise.decay) * float(off[0] - off[1])  # type: ignore[attr-defined]
    for grown, cut in chosen:
        plan = grown.public.plan
        if plan.settings.method == "noisy_max":
            (group,) = plan.choice_groups(grown.node_budgets, grown.n_open)
            able = grown.public.cells.can_cut(grown.frontier)
            odds = [max_odds(w.scores(grown), able, group.noise) for w in (without, within)]
            ratio += _of_choice(odds, cut)
    return round(ratio, 9)


def _of_choice(odds: list[Floats], chosen: Integers) -> float:
    node = np.arange(chosen.size)
    return float(np.log(odds[1][node, chosen] / odds[0][node, chosen]).sum())


def flip_odds(scores: Integers, noise: Any) -> Floats:
    """Return the odds of every candidate by permute-and-flip: any success, each alike."""
    coins = np.exp(-float(noise.decay) * (scores.max(axis=-1, keepdims=True) - scores))
    odds = np.zeros(coins.shape)
    for node, heads in enumerate(coins):
        for one in range(heads.size):
            n_others = np.ones(1)  # the law of how many others succeed
            for other in np.delete(heads, one):
                n_others = np.append(n_others * (1 - other), 0) + np.append(0, n_others * other)
            odds[node, one] = heads[one] * (n_others / np.arange(1, n_others.size + 1)).sum()
    return odds


def max_odds(scores: Integers, able: Any, noise: Any) -> Floats:
    """Return the odds of every candidate to have the largest noisy score; ties go to the first."""
    decay = float(noise.decay)
    k = np.arange(int(60 / decay) + 1)
    chance = np.exp(-decay * k) * -np.expm1(-decay)
    odds = np.zeros(scores.shape)
    for node, (values, can) in enumerate(zip(scores, able, strict=True)):
        for one in np.flatnonzero(can):
            wins = chance.copy()
            for other in np.flatnonzero(can):
                if other != one:  # it must stay below, or reach no further if it comes later
                    reach = values[one] + k - values[other] + (other > one)
                    wins *= -np.expm1(-decay * np.maximum(reach, 0))
            odds[node, one] = wins.sum()
    return odds


def audited(tables: tuple[MemoryTable, MemoryTable], settings: Any, n_trials: int) -> Audit:
    """Audit trees: grow them on both neighbours, gather evidence, bound epsilon from below."""
    both = tuple(map(Watched, tables))

    def statistics(watched: Watched, n: int) -> Any:
        runs = (watched.grown(settings(job)) for job in range(n))
        return np.array([evidence(run, *both) for run in runs])

    return audit(*(partial(statistics, watched) for watched in both), n_trials)


def tree_settings(job: int, epsilon: Fraction, **changes: Any) -> private_tree.Settings:
    """Return a small tree's settings; every job has a name of its own."""
    leaf_share = changes.pop("leaf_share", "1/2")
    privacy = PrivacySettings(
        job=f"job {job}", epsilon=str(epsilon), tree_rows="all", leaf_share=leaf_share
    )
    how = {"max_depth": 2, "n_bins": 4, "min_samples_leaf": 1} | changes
    return private_tree.Settings(privacy=privacy, **how)
