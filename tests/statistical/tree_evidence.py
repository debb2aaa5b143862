"""A whole private tree stands its audit, and the same audit catches planted faults.

The real release path runs: a party with a ledger, a channel, the coordinator's loop. Trees on all
rows are independent runs of the same mechanism, so that one job of N trees is N runs, each with the
claim of one tree. The neighbours are a small table and the same table with one record more, which
stands alone in its bins. The statistic knows everything but the noise: the log-likelihood ratio of
all that was released about a tree.

What an audit can see depends on how often a run shows the worst. A tree of two levels and two slots
has its epsilon spread over five draws, of which all must fall the same way; with a thousand trees
that is seen from epsilon 2 on. A tree of one level and one slot has two draws: there the claim is
tight, and the audit comes near it from epsilon 1/5 on, with more trees (`shallow`).
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from spinney.privacy.ledger import Ledger
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.row_forest.messages import (
    LeafAsk,
    NoisyLevelAsk,
    plan_of,
)
from spinney.protocols.row_forest.noisy_rows import NoisyRows
from spinney.protocols.rows.levels import BinnedRows
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from spinney.trees.histogram import level_counts
from statistical.audit import audit  # type: ignore[import-not-found]

N = 1200  # trees
SCHEMA = Schema(
    (Column("age", "number", (0, 100)), Column("ward", "category", categories=("eye", "heart"))),
    Label("ill", "class", ("no", "yes")),
)


def table(*, canary: bool, n: int = 12) -> MemoryTable:
    """Return a few rows; the canary is old, in a ward of its own, and ill."""
    age = np.r_[np.linspace(1, 40, n), [99.0] * canary].astype(np.float32)
    ward = np.r_[np.zeros(n), [1.0] * canary].astype(np.float32)
    ill = np.r_[np.arange(n) % 2, [1] * canary].astype(np.int32)
    return MemoryTable(SCHEMA, VectorColumns((age, ward)), ill)


def job(epsilon_of_tree: Fraction, n_trees: int = N, **privacy: Any) -> horizontal_forest.Settings:
    total = epsilon_of_tree * (1 if privacy.get("tree_rows") == "disjoint" else n_trees)
    return horizontal_forest.Settings(
        task="classification",
        n_estimators=n_trees,
        max_depth=2,
        max_features=2,
        max_bins=8,
        binning="ranges",
        bootstrap=False,
        seed=1,
        privacy=PrivacySettings(
            job="q", epsilon=str(total), **{"tree_rows": "all", "leaf_share": "1/3"} | privacy
        ),
    )


class Noting:
    """A party of which everything it releases is noted."""

    def __init__(self, party: Any) -> None:
        self.party, self.released = party, []  # type: ignore[var-annotated]

    def answer(self, ask: Any) -> Any:
        reply = self.party.answer(ask)
        if isinstance(ask, NoisyLevelAsk | LeafAsk):
            values = reply.counters.values if hasattr(reply.counters, "values") else reply.counters
            self.released.append((ask, np.array(values)))
        return reply


def released(settings: Any, rows: MemoryTable, party_type: type[Party] = Party) -> Any:
    """Grow the forest and return all that left the party."""
    party = Noting(party_type(rows, ledger=Ledger.in_memory("one")))
    horizontal_forest.train(InProcess({"one": party}), settings)
    return party.released


def laplace(decay: Any) -> Any:
    """Return the log-law of the noise as it is claimed, but for a constant."""
    return lambda noise: -decay * np.abs(noise)


def exact_counts(ask: Any, rows: MemoryTable) -> Any:
    """Return what the release would be without noise if every tree read all rows."""
    settings = ask.job.settings
    everything = replace(settings, privacy=replace(settings.privacy, tree_rows="all"))
    ask = replace(ask, job=replace(ask.job, settings=everything))
    if isinstance(ask, LeafAsk):
        return NoisyRows(rows, None, 1)._leaf_counts(ask).ravel()  # type: ignore[arg-type]
    own = BinnedRows(rows, 1)
    counted = (own.binned(ask.job), ask.frontier.columns, own.standing(ask), ask.slots)
    counts = level_counts(*counted, (ask.first, ask.last), n_classes=2, n_threads=1)
    return counts.counters.ravel().astype(np.int64)


def evidence(transcript: Any, rate: float = 1.0, law: Any = laplace) -> Any:
    """Return each tree's log-likelihood ratio for the canary, of all that was released.

    `rate` is how many of the other rows a tree reads; at 1 nothing but the noise is unknown. `law`
    is the noise's, by its decay, as the curious know it.
    """
    others = table(canary=False)
    canary = table(canary=True).select(np.array([others.n_rows]))
    ratio: Any = 0.0
    exact: dict[int, Any] = {}  # a question may have been asked more than once
    for ask, values in transcript:
        plan = plan_of(ask.job)
        if id(ask) not in exact:
            exact[id(ask)] = rate * exact_counts(ask, others), exact_counts(ask, canary)
        if isinstance(ask, LeafAsk):
            tree = np.repeat(ask.tree_of_leaf, 2)
            noises = [plan.mechanisms(plan.leaf_epsilon(n), 1)[0] for n in ask.levels_of_tree]
            decay: Any = np.array([float(noise.decay) for noise in noises])[tree]
        else:
            here = ask.frontier.tree[ask.first : ask.last]
            tree = np.repeat(here, 2 * ask.slots.cells.sum(axis=1))
            decay = float(plan.mechanisms(plan.level_epsilon, plan.n_slots)[0].decay)
        without, more = exact[id(ask)]
        log_law = law(decay)
        away = log_law(values - without - more) - log_law(values - without)
        ratio = ratio + np.bincount(tree, away, ask.job.settings.n_estimators)
    return np.round(ratio, 9)  # equal ratios are one event


def audited(
    settings: Any,
    run: Any = released,
    rate: float = 1.0,
    law: Any = laplace,
    confidence: float = 0.95,
) -> Any:
    """Audit trees: run on both neighbours, gather evidence, bound epsilon from below."""

    def statistics(rows: MemoryTable) -> Any:
        return lambda _: evidence(run(settings, rows), rate, law)

    neighbours = (table(canary=canary) for canary in (False, True))
    return audit(*map(statistics, neighbours), settings.n_estimators, confidence=confidence)


def shallow(epsilon: Fraction, n_trees: int, **privacy: Any) -> horizontal_forest.Settings:
    """Return trees whose epsilon is in two draws."""
    return replace(job(epsilon, n_trees, **privacy), max_depth=1, max_features=1)
