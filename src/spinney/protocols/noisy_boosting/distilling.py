"""Distil boosted trees into one that people can read, and count its leaves.

Rows are drawn from what the boosted trees' leaves tell about each column, columns independently.
One tree is grown on them that imitates the boosted trees' predictions. All of that follows from
opened sums that carry noise, and from the job's seed: it costs nothing more, and every party
derives the same tree. Only then are the parties asked once more, for the class counts of its leaves
with noise, so that a leaf says what the parties' own rows say.
"""

import numpy as np

from spinney import seeds
from spinney.errors import ProtocolError
from spinney.protocols.accounts.budget import summed_variance
from spinney.protocols.noisy_boosting.coordinator import Boosting
from spinney.protocols.noisy_boosting.messages import DistilledLeavesAsk
from spinney.protocols.noisy_boosting.settings import TreeShape
from spinney.transport.channel import Channel
from spinney.trees.bounded_gradients import VALUE_BITS
from spinney.trees.distilled import draw_rows, grow_levels
from spinney.trees.dtypes import MISSING
from spinney.trees.forest import Forest
from spinney.trees.leaf_counts import NodeNoise, NumberedLeaves, finish_trees, prune
from spinney.trees.level import Level
from spinney.typing import Codes, Floats

_DRAWN_ROWS = 20_000
_GUESS_BITS = 20  # predictions are whole numbers of 2**-20, so that their sums are exact
_BINS = MISSING + 1


def distil(channel: Channel, boosting: Boosting, shape: TreeShape) -> tuple[Forest, NodeNoise]:
    """Return one tree that imitates the boosted ones, with noisy counts in its leaves."""
    plan, levels = boosting.public.plan, imitate(boosting, shape)
    leaves = NumberedLeaves(1, levels, boosting.binning)
    reply = channel.sum(DistilledLeavesAsk(boosting.so_far, levels))
    if reply.counters.size != leaves.n_leaves * plan.n_classes:
        raise ProtocolError("A party's noisy counts do not match the leaves asked about.")
    counts = reply.counters.reshape(-1, plan.n_classes)
    variance = np.full(leaves.n_leaves, summed_variance(plan.leaf_noise, plan.n_parties))
    forest, noise = finish_trees(leaves, counts, variance, shape.shrinkage)
    return prune(forest, noise, shape.min_samples_leaf)


def imitate(boosting: Boosting, shape: TreeShape) -> tuple[Level, ...]:
    """Return the levels of one tree that imitates the boosted ones."""
    settings = boosting.public.plan.settings
    generator = seeds.generator(seeds.derive_seed(settings.seed, 0))
    codes = draw_rows(_bin_shares(boosting), _DRAWN_ROWS, generator)
    fewest = shape.min_samples_leaf * _DRAWN_ROWS // settings.rows_about
    columns = boosting.binning.columns
    return grow_levels(codes, _guesses(boosting, codes), columns, shape.max_depth, max(1, fewest))


def _bin_shares(boosting: Boosting) -> Floats:
    """Return about which share of rows each bin of each column holds, (n_columns, 256).

    Class counts tell it best. Without them the curvatures do, which are about rows times p (1 - p).
    A leaf's rows are spread evenly over its bins.
    """
    columns, public = boosting.binning.columns, boosting.public
    counts_classes = public.batches[0].counts_classes
    shares = np.zeros((columns.n_columns, _BINS))
    for grown in boosting.batches[: 1 if counts_classes else None]:
        trees, n_leaves = grown.trees, 1 << grown.trees.depth
        held = np.maximum(grown.curvature.sum(axis=0), 0.0).reshape(-1, n_leaves)
        for tree in range(trees.n_trees):
            column = int(trees.column[tree, 0])
            bins = np.append(np.arange(columns.n_bins[column]), MISSING)
            leaf = trees.leaves(np.tile(bins.astype(np.uint8), (columns.n_columns, 1)), tree)
            width = np.bincount(leaf, minlength=n_leaves)
            share = (held[tree] / np.maximum(width, 1))[leaf]
            total = share.sum()
            shares[column, bins] += share / total if total > 0 else 1.0 / bins.size
    return shares


def _guesses(boosting: Boosting, codes: Codes) -> Floats:
    """Return the boosted trees' class probabilities for rows, as whole numbers."""
    base = boosting.public.base(boosting.so_far.facts)
    scores = np.repeat(base[:, None], codes.shape[1], axis=1)
    for grown in boosting.batches:
        n_leaves = 1 << grown.trees.depth
        for tree in range(grown.trees.n_trees):
            value = grown.value[:, tree * n_leaves : (tree + 1) * n_leaves]
            scores += value[:, grown.trees.leaves(codes, tree)] * 2.0**-VALUE_BITS
    if len(scores) == 1:
        scores = np.concatenate([np.zeros_like(scores), scores])
    shares = np.exp(scores - scores.max(axis=0))
    whole: Floats = np.rint(shares / shares.sum(axis=0) * 2.0**_GUESS_BITS).T
    return whole
