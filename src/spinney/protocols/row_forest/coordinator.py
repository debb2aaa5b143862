"""The coordinator's side that all horizontal forests share.

Trees grow from noisy sums, and their leaves are counted last; a training ends with the claims.
"""

import warnings
from dataclasses import asdict
from typing import Final

import numpy as np

from spinney.errors import ProtocolError, SpinneyWarning
from spinney.protocols.accounts.account import claims_of
from spinney.protocols.accounts.budget import summed_variance
from spinney.protocols.accounts.replies import NoisyReply
from spinney.protocols.model import ForestModel
from spinney.protocols.row_forest.budget import ForestPlan, trees_by_levels
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
from spinney.trees.leaf_counts import NodeNoise, noise_of_sums
from spinney.trees.split import BestSplits, Criterion, LeastLeaf
from spinney.typing import Floats, Progress

_NUMBERS_OF_OPEN_NODES: Final = 1 << 21  # class counts and ranges of columns, over all open nodes
_COUNTERS_OF_LEVEL: Final = 1 << 24  # over all open nodes; ledgers keep every reply


def grow_noisily(
    channel: Channel, schema: Schema, job: GrowingJob, *, n_threads: int, progress: Progress
) -> tuple[Forest, NodeNoise]:
    """Grow all trees, one level per round, and count their leaves at the end."""
    settings, plan = job.settings, plan_of(job)
    weights = given_weights(settings, job.n_classes)
    most_cells = int(job.binning.columns.cells(settings.max_cells).max())
    growth = noisy_growth(job, weights, most_cells)
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
    return finish_noisily(channel, schema, job, growth, most_cells=most_cells, progress=progress)


def finish_noisily(
    channel: Channel,
    schema: Schema,
    job: GrowingJob,
    growth: Growth,
    *,
    most_cells: int,
    progress: Progress,
) -> tuple[Forest, NodeNoise]:
    """Count the leaves of grown trees, if that is paid for; return the forest and its noise.

    If leaves are not counted again, a node's counts are those of the cells on its side of a cut:
    `most_cells` at most, so that the noise is told as no less than it is.
    """
    tell_of_closed_nodes(growth)
    plan = plan_of(job)
    values = leaf_values(schema, given_weights(job.settings, job.n_classes), TARGET_BITS)
    if not plan.counts_leaves:
        forest = growth.forest(job.binning, values)
        cell, *_ = plan.mechanisms(plan.level_epsilon, plan.n_slots)
        spread = most_cells * summed_variance(cell, plan.n_parties)
        counts = np.full(forest.n_nodes, np.sqrt(spread))
        return forest, NodeNoise(counts, np.zeros(forest.n_nodes))
    progress("counting leaves", 0, 0)
    leaves = LeafAsk(job, growth.levels)
    moments = moments_of(plan, channel.sum(leaves), leaves.tree_of_leaf.size)
    forest = growth.forest(job.binning, values, moments)
    by_tree = np.empty(forest.n_trees)
    for n_levels, trees in trees_by_levels(leaves.levels_of_tree).items():
        noise, *_ = plan.mechanisms(plan.leaf_epsilon(n_levels), 1)
        by_tree[trees] = summed_variance(noise, plan.n_parties)
    return forest, noise_of_sums(forest, np.repeat(by_tree, np.diff(forest.tree_start)))


def noisy_growth(job: GrowingJob, weights: Floats, most_cells: int) -> Growth:
    """Return a forest of roots that grows from noisy counts, `most_cells` in a slot at most.

    Noise makes empty nodes look as if they held rows of several classes, so without a limit every
    tree would grow all its nodes: letter's 26 classes to depth 20 took 9 GB.
    """
    roots = open_nodes(job, ())
    n_columns = roots.columns.n_columns
    counters = job.settings.n_slots(n_columns) * most_cells * max(job.n_classes, 2)
    most = min(
        _NUMBERS_OF_OPEN_NODES // (job.n_classes + n_columns), _COUNTERS_OF_LEVEL // counters
    )
    return Growth(roots, job.rules(), weights, most_open=max(roots.n_open, most))


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
