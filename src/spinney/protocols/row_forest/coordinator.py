"""The coordinator's side that all horizontal forests share.

Trees grow from noisy sums, and their leaves are counted last; a training ends with the claims.
"""

import warnings
from dataclasses import asdict
from typing import Final

import numpy as np

from spinney.errors import ProtocolError, SpinneyWarning
from spinney.protocols.accounts.account import claims_of
from spinney.protocols.accounts.replies import NoisyReply
from spinney.protocols.model import ForestModel
from spinney.protocols.row_forest.budget import ForestPlan
from spinney.protocols.row_forest.messages import UNKNOWN_ROWS, LeafAsk, NoisyLevelAsk, plan_of
from spinney.protocols.rows.facts import given_weights, leaf_values
from spinney.protocols.rows.levels import GrowingJob, SplitSearch, open_nodes
from spinney.protocols.settings import ForestSettings
from spinney.protocols.training import Phases, Quality, Training
from spinney.tables.schema import Schema
from spinney.transport.channel import Channel
from spinney.trees.counts import Counters
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.forest import Forest
from spinney.trees.growth import Growth
from spinney.trees.split import BestSplits, Criterion, LeastLeaf
from spinney.typing import Floats, Progress

_NUMBERS_OF_OPEN_NODES: Final = 1 << 21  # class counts and ranges of columns, over all open nodes


def grow_noisily(
    channel: Channel, schema: Schema, job: GrowingJob, *, n_threads: int, progress: Progress
) -> Forest:
    """Grow all trees, one level per round, and count their leaves at the end."""
    settings, plan = job.settings, plan_of(job)
    weights = given_weights(settings, job.n_classes)
    growth = noisy_growth(job, weights)
    search = SplitSearch(
        Criterion.of(settings.criterion, weights, UNKNOWN_ROWS),
        LeastLeaf(growth.rules.min_samples_leaf, settings.min_weight_fraction_leaf),
        n_threads,
        is_noisy=True,
    )
    while growth.frontier.n_open:
        progress("growing", growth.depth, plan.n_levels)
        parts = []
        for first, last in job.batches_of_trees(growth.frontier):
            ask = NoisyLevelAsk(job, growth.levels, first, last)
            counters = moments_of(plan, channel.sum(ask), ask.slots.n_cells)
            parts.append(search.best(counters, growth, first, last))
        growth.grow(BestSplits.of_parts(parts))
    tell_of_closed_nodes(growth)
    leaf_moments = None
    if plan.counts_leaves:
        progress("counting leaves", 0, 0)
        leaves = LeafAsk(job, growth.levels)
        leaf_moments = moments_of(plan, channel.sum(leaves), leaves.tree_of_leaf.size)
    return growth.forest(job.binning, leaf_values(schema, weights, TARGET_BITS), leaf_moments)


def noisy_growth(job: GrowingJob, weights: Floats) -> Growth:
    """Return a forest of roots that grows from noisy counts.

    Noise makes empty nodes look as if they held rows of several classes, so without a limit every
    tree would grow all its nodes: letter's 26 classes to depth 20 took 9 GB.
    """
    roots = open_nodes(job, ())
    most = max(roots.n_open, _NUMBERS_OF_OPEN_NODES // (job.n_classes + roots.columns.n_columns))
    return Growth(roots, job.rules(), weights, most_open=most)


def tell_of_closed_nodes(growth: Growth) -> None:
    """Warn if nodes were closed to bound the memory."""
    if growth.n_closed:
        warnings.warn(
            f"Noise kept so many nodes open that {growth.n_closed:,} of them were made leaves, to "
            "bound the memory: those with the fewest rows by noisy counts. Lower max_depth, or "
            "raise min_samples_split above the noise.",
            SpinneyWarning,
            stacklevel=2,
        )


def moments_of(plan: ForestPlan, reply: NoisyReply, n_cells: int) -> Counters:
    """Return class counts by cell, or weights and target sums in the trees' units."""
    if reply.counters.size != n_cells * (plan.n_classes or 2):
        raise ProtocolError("A party's noisy counts do not have the cells asked for.")
    if plan.n_classes:
        return reply.counters.reshape(-1, plan.n_classes)
    rows, sums = reply.counters.reshape(2, -1)
    step = 1 << (TARGET_BITS - plan.target_bits)
    middle = rows * ((1 << (plan.target_bits - 1)) * step + step // 2)
    return np.stack([rows, sums * step + middle], axis=1)


def finished(
    channel: Channel,
    phases: Phases,
    model: ForestModel,
    settings: ForestSettings,
    judged: tuple[dict[str, Quality], float | None],
    *,
    adds_up: bool,
) -> Training:
    """Ask what the ledgers promise, if the job is private; return the training."""
    quality, score = judged
    claims = claims_of(channel, settings.privacy) if settings.privacy else ()
    return Training(
        model,
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        quality,
        score if settings.oob_score else None,
        asdict(settings),
        claims,
        adds_up=adds_up,
    )
