"""The coordinator's side of private boosting: it lays out the boosted trees as a model."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spinney.protocols.accounts.account import claims_of
from spinney.protocols.model import Boosted, ForestModel
from spinney.protocols.noisy_boosting.coordinator import Boosting, GrownBatch, boost
from spinney.protocols.noisy_boosting.messages import PublicBoosting
from spinney.protocols.noisy_boosting.settings import Settings
from spinney.protocols.private_boosting.curve_trees import curve_trees
from spinney.protocols.private_boosting.messages import BoostingJoinAsk
from spinney.protocols.private_boosting.settings import NAME
from spinney.protocols.rows.facts import target_range
from spinney.protocols.rows.setup import agree_on_schema
from spinney.protocols.training import Phases, Training
from spinney.transport.channel import Channel
from spinney.trees.bounded_gradients import VALUE_BITS
from spinney.trees.drawn_trees import DrawnTrees
from spinney.trees.forest import Forest
from spinney.trees.layout import LeafValues, forest_of_leaves, join_forests
from spinney.trees.leaf_counts import NodeNoise
from spinney.typing import Floats, Progress, silent


def train(
    channel: Channel,
    settings: Settings,
    *,
    n_jobs: int | None = None,  # noqa: ARG001  all protocols take it; little is done here
    progress: Progress = silent,
) -> Training:
    """Boost with the parties on the channel."""
    phases, n_parties = Phases(), len(channel.parties)
    with phases.phase("agreeing"):
        schema = agree_on_schema(channel)
        public = PublicBoosting.of(schema, settings, n_parties)  # raises before a party is asked
        channel.ask(BoostingJoinAsk(settings, schema.digest(), n_parties))
    boosting = boost(channel, public, settings, phases, progress)
    return Training(
        _model(boosting),
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        {},
        None,
        public.plan.settings.described() | {"why": public.choice.why},
        claims_of(channel, settings.privacy),
    )


def _laid_out(boosting: Boosting, grown: GrownBatch) -> tuple[Forest, NodeNoise]:
    """Return a batch's trees with their nodes' values, and how far noise may have moved them.

    Of several classes, each has a tree of its own, as boosted models have it: of the same shape.
    """
    trees, steps, n_outputs = grown.trees, grown.steps, len(grown.value)
    leaves_say = grown.value.astype(np.float64) * 2.0**-VALUE_BITS
    values = _by_tree([*steps.of_nodes[:-1], leaves_say], trees)
    noise = _by_tree(steps.deviation, trees)
    weights = [np.maximum(grown.curvature, 0.0)]
    for _ in range(trees.depth):
        weights.insert(0, weights[0][:, 0::2] + weights[0][:, 1::2])
    weight = _by_tree(weights, trees)
    copies = trees.repeated(n_outputs)
    leaves = np.zeros((copies.n_trees << copies.depth, 1), np.int64)
    forest = forest_of_leaves(
        copies.n_trees, copies.levels(), leaves, boosting.binning, LeafValues(np.ones(1))
    )
    alone = np.moveaxis(values, 0, 1)[..., None] * np.eye(n_outputs)[None, :, None, :]
    return replace(
        forest,
        value=np.ascontiguousarray(alone.reshape(-1, n_outputs)),
        moments=np.rint(np.moveaxis(weight, 0, 1)).astype(np.int64).reshape(-1, 1),
        gain=np.moveaxis(_gains(values, weight), 0, 1).ravel(),
    ), NodeNoise(np.moveaxis(noise, 0, 1).ravel(), np.zeros(forest.n_nodes))


def _by_tree(levels: Sequence[Floats], trees: DrawnTrees) -> Floats:
    """Return numbers of levels by output, tree and node: a tree's nodes follow level by level."""
    parts = [level.reshape(len(level), trees.n_trees, -1) for level in levels]
    return np.concatenate(parts, axis=2)


def _gains(values: Floats, weight: Floats) -> Floats:
    """Return how far each split moves its children's values, squared and weighted."""
    gain = np.zeros(weight.shape)
    inner = np.arange(weight.shape[2] // 2)
    for child in (2 * inner + 1, 2 * inner + 2):
        gain[:, :, inner] += weight[:, :, child] * (values[:, :, child] - values[:, :, inner]) ** 2
    return gain


def _model(boosting: Boosting) -> ForestModel:
    """Return the finished model, whose leaf values are in units of scores, or of the target."""
    public = boosting.public
    loss, schema = public.plan.loss, public.schema
    grown = boosting.batches
    base, unit = public.base(boosting.so_far.facts), 1.0
    if boosting.curves is not None:
        total = np.sum(boosting.so_far.curves, axis=0)
        base = base + float(total[0]) * 2.0**-VALUE_BITS
        grown = (*grown, *curve_trees(boosting, boosting.curves, total))
    finished = [_laid_out(boosting, batch) for batch in grown]
    forest = join_forests([forest for forest, _ in finished])
    noise = NodeNoise(
        np.concatenate([held.counts for _, held in finished]),
        np.concatenate([held.gain for _, held in finished]),
    )
    if not public.plan.n_classes:
        low, high = target_range(schema.label)
        unit = (high - low) / 2.0
        base = low + (base + 1.0) * unit
        forest = replace(forest, value=forest.value * unit)
        noise = replace(noise, counts=noise.counts * unit)
    boosted = Boosted(loss.link, base, public.choice.settings.batch_trees or 1)
    bins = boosting.binning.bin_of_category
    return ForestModel(NAME, schema, forest, bins, noise=noise, boosted=boosted)
