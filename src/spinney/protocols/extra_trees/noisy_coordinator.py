"""Extra-trees from noisy counts: what S5 calls global privacy, here with a stated price.

The paper adds Laplace noise to class counts but states neither its scale nor its total cost. Here
one record is on one side of every candidate of its node, in every level of every tree that reads
it. `row_forest.budget` divides the job's epsilon over candidates, levels and trees, as for noisy
histograms, and leaves are counted again at the end. Cuts are drawn only in declared ranges, there
are no spare candidates, and integer noise is each party's own, or in shares under secure sums.

**Who learns what.** The coordinator learns noisy counts on both sides of every drawn cut and noisy
counts of every leaf. It sees each party's counts with that party's own whole noise; or, if noise is
in shares under secure sums, only their sum. **Who never learns what.** Exact counts of rows,
classes, missing values or categories never leave a party; neither does a smallest or largest value,
or a score.

**Rounds and bytes.** Joining 1, each level 1, leaves 1, claims 1. A reply holds 8 bytes for each of
nodes x candidates x 3 x classes counters.
"""

from spinney.protocols.extra_trees.messages import NoisyCutsAsk, candidates_of
from spinney.protocols.row_forest.budget import ForestPlan
from spinney.protocols.row_forest.coordinator import finish_noisily, moments_of, noisy_growth
from spinney.protocols.row_forest.messages import UNKNOWN_ROWS, plan_of
from spinney.protocols.rows.drawing import drawing_of
from spinney.protocols.rows.facts import given_weights
from spinney.protocols.rows.levels import GrowingJob
from spinney.tables.schema import Schema
from spinney.transport.channel import Channel
from spinney.trees.cuts import CutSearch, grow_by
from spinney.trees.forest import Forest
from spinney.trees.growth import Growth
from spinney.trees.leaf_counts import NodeNoise
from spinney.trees.split import Criterion, LeastLeaf
from spinney.typing import Progress

_SIDES = 3  # cells of a cut: left, right, missing


def grow_by_noisy_cuts(
    channel: Channel, schema: Schema, job: GrowingJob, *, n_threads: int, progress: Progress
) -> tuple[Forest, NodeNoise]:
    """Grow all trees, one level per round, and count their leaves at the end."""
    settings, plan = job.settings, plan_of(job)
    weights = given_weights(settings, job.n_classes)
    growth = noisy_growth(job, weights, _SIDES)
    search = CutSearch(
        drawing_of(settings, job.binning.columns.n_columns),
        Criterion.of(settings.criterion, weights, UNKNOWN_ROWS),
        LeastLeaf(growth.rules.min_samples_leaf, settings.min_weight_fraction_leaf),
        n_threads,
        is_noisy=True,
    )
    while growth.frontier.n_open:
        progress("growing", growth.depth, plan.n_levels)
        _grow_level(channel, job, plan, growth, search)
    return finish_noisily(channel, schema, job, growth, most_cells=_SIDES, progress=progress)


def _grow_level(
    channel: Channel, job: GrowingJob, plan: ForestPlan, growth: Growth, search: CutSearch
) -> None:
    frontier, parts = growth.frontier, []
    candidates = candidates_of(frontier)
    for first, last in job.batches_of_trees(frontier, candidates.slots):
        ask = NoisyCutsAsk(job, growth.levels, first, last)
        counters = moments_of(plan, channel.sum(ask), ask.slots.n_cells)
        of_tree = growth.root_weight[first:last]
        parts.append(search.best(counters, ask.candidates, frontier.columns, of_tree))
    grow_by(growth, parts)
