"""Extra-trees from counts that carry noise: what S5 calls its global privacy, with a price.

The paper adds Laplace noise to class counts and states neither its scale nor what it adds up to.
Here one record stands on one side of every candidate of its node, in every level of every tree that
reads it; `row_forest.budget` divides the job's epsilon over candidates, levels and trees, as for noisy
histograms, and leaves are counted once more at the end. Cuts are drawn in declared ranges only,
nothing is in reserve, and integer noise is each party's own, or in shares under secure sums.

**Who learns what.** The coordinator learns noisy counts on both sides of every drawn cut and noisy
counts of every leaf: each party's, each with that party's own whole noise; or, in shares under
secure sums, only their sum. **Who never learns what.** Exact counts of rows, classes, gaps or
categories leave no party; nor does a smallest or largest value, or a score.

**Rounds and bytes.** Joining 1, a level 1 each, leaves 1, claims 1. A reply holds 8 bytes for each
of nodes x candidates x 3 x classes counters.
"""

from spinney.protocols.extra_trees.messages import NoisyCutsAsk, candidates_of, drawing_of
from spinney.protocols.row_forest.budget import ForestPlan
from spinney.protocols.row_forest.coordinator import moments_of
from spinney.protocols.row_forest.messages import (
    UNKNOWN_ROWS,
    LeafAsk,
    plan_of,
)
from spinney.protocols.rows.facts import given_weights, leaf_values
from spinney.protocols.rows.levels import Job, open_nodes
from spinney.tables.schema import Schema
from spinney.transport.channel import Channel
from spinney.trees.cuts import CutSearch, grow_by
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.forest import Forest
from spinney.trees.growth import Growth
from spinney.trees.split import Criterion, LeastLeaf
from spinney.typing import Progress


def grow_by_noisy_cuts(
    channel: Channel, schema: Schema, job: Job, *, n_threads: int, progress: Progress
) -> Forest:
    """Grow all trees, a level a round, and count their leaves at the end."""
    settings, plan = job.settings, plan_of(job)
    weights = given_weights(settings, job.n_classes)
    growth = Growth(open_nodes(job, ()), job.rules(), weights)
    search = CutSearch(
        drawing_of(job),
        Criterion.of(settings.criterion, weights, UNKNOWN_ROWS),
        LeastLeaf(growth.rules.min_samples_leaf, settings.min_weight_fraction_leaf),
        n_threads,
        is_noisy=True,
    )
    while growth.frontier.n_open:
        progress("growing", growth.depth, plan.n_levels)
        _grow_level(channel, job, plan, growth, search)
    leaf_moments = None
    if plan.counts_leaves:
        progress("counting leaves", 0, 0)
        leaves = LeafAsk(job, growth.levels)
        leaf_moments = moments_of(plan, channel.sum(leaves), leaves.tree_of_leaf.size)
    return growth.forest(job.binning, leaf_values(schema, weights, TARGET_BITS), leaf_moments)


def _grow_level(
    channel: Channel, job: Job, plan: ForestPlan, growth: Growth, search: CutSearch
) -> None:
    frontier, parts = growth.frontier, []
    candidates = candidates_of(job, frontier)
    for first, last in job.batches_of_trees(frontier, candidates.slots):
        ask = NoisyCutsAsk(job, growth.levels, first, last)
        counters = moments_of(plan, channel.sum(ask), ask.slots.n_cells)
        of_tree = growth.root_weight[first:last]
        parts.append(search.best(counters, ask.candidates, frontier.columns, of_tree))
    grow_by(growth, parts)
