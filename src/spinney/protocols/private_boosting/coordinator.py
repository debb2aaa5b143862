"""The coordinator's side of private boosting: it turns noisy sums into leaf values."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.accounts.account import claims_of
from spinney.protocols.accounts.budget import summed_variance
from spinney.protocols.model import Boosted, ForestModel
from spinney.protocols.private_boosting.messages import (
    BoostedSoFar,
    BoostingJoinAsk,
    FirstFactsAsk,
    LeafSumsAsk,
    PublicBoosting,
)
from spinney.protocols.private_boosting.settings import NAME, Settings
from spinney.protocols.rows.facts import target_range
from spinney.protocols.rows.setup import agree_on_schema
from spinney.protocols.training import Phases, Training
from spinney.transport.channel import Channel
from spinney.trees.binning import Binning
from spinney.trees.bounded_gradients import VALUE_BITS
from spinney.trees.drawn_trees import DrawnTrees
from spinney.trees.forest import Forest
from spinney.trees.layout import LeafValues, forest_of_leaves, join_forests
from spinney.trees.leaf_counts import NodeNoise
from spinney.trees.posterior import Steps, steps_of
from spinney.typing import Floats, Integers, Progress, silent


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
    with phases.phase("binning"):
        progress("binning", 0, 0)
        facts = channel.sum(FirstFactsAsk(settings, schema.digest(), n_parties)).counters
        if facts.size != public.plan.n_base + public.plan.n_edge_cells:
            raise ProtocolError("A party's first facts do not have the numbers asked for.")
        binning = public.binning(facts)
    so_far = BoostedSoFar(settings, schema.digest(), n_parties, facts, ())
    finished = []
    with phases.phase("growing"):
        for number in range(public.choice.n_batches):
            progress("growing", number, public.choice.n_batches)
            reply = channel.sum(LeafSumsAsk(so_far))
            grown = _grown(public, facts, reply.counters, number)
            so_far = replace(so_far, values=(*so_far.values, grown.value))
            finished.append(_laid_out(public, public.trees(binning, number), binning, grown))
    return Training(
        _model(public, facts, binning, finished),
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        {},
        None,
        public.plan.settings.described() | {"why": public.choice.why},
        claims_of(channel, settings.privacy),
    )


@dataclass(frozen=True)
class _Grown:
    """A batch of trees after its sums are known."""

    steps: Steps
    curvature: Floats  # (n_outputs, n_leaves) with noise
    value: Integers  # (n_outputs, n_leaves) what parties add to scores


def _grown(public: PublicBoosting, facts: Integers, counters: Integers, number: int) -> _Grown:
    """Return what follows from the noisy sums of a batch's leaves."""
    plan, n_trees = public.plan, len(public.choice.in_batch(number))
    if counters.size != plan.n_values(n_trees):
        raise ProtocolError("A party's noisy sums do not match the leaves asked about.")
    variance = summed_variance(plan.tree_noise(n_trees), plan.n_parties)
    sums = counters.reshape(plan.loss.n_sums, -1).astype(np.float64)
    gradient, curvature, spread = plan.loss.read(sums, variance, facts[: plan.n_base])
    steps = steps_of(gradient, curvature, spread, public.choice.depth, plan.loss.prior)
    steps = steps.with_one_root()
    value = np.rint(steps.of_nodes[-1] * public.choice.rate * 2.0**VALUE_BITS).astype(np.int64)
    return _Grown(steps, curvature, value)


def _laid_out(
    public: PublicBoosting, trees: DrawnTrees, binning: Binning, grown: _Grown
) -> tuple[Forest, NodeNoise]:
    """Return a batch's trees with their nodes' values, and how far noise may have moved them.

    Of several classes, each has a tree of its own, as boosted models have it: of the same shape.
    """
    rate, steps, n_outputs = public.choice.rate, grown.steps, len(grown.value)
    inner = [step * rate for step in steps.of_nodes[:-1]]
    values = _by_tree([*inner, grown.value.astype(np.float64) * 2.0**-VALUE_BITS], trees)
    noise = _by_tree([deviation * rate for deviation in steps.deviation], trees)
    weights = [np.maximum(grown.curvature, 0.0)]
    for _ in range(trees.depth):
        weights.insert(0, weights[0][:, 0::2] + weights[0][:, 1::2])
    weight = _by_tree(weights, trees)
    copies = trees.repeated(n_outputs)
    leaves = np.zeros((copies.n_trees << copies.depth, 1), np.int64)
    forest = forest_of_leaves(
        copies.n_trees, copies.levels(), leaves, binning, LeafValues(np.ones(1))
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


def _model(
    public: PublicBoosting,
    facts: Integers,
    binning: Binning,
    finished: list[tuple[Forest, NodeNoise]],
) -> ForestModel:
    """Return the finished model, whose leaf values are in units of scores, or of the target."""
    loss, schema = public.plan.loss, public.schema
    forest = join_forests([forest for forest, _ in finished])
    noise = NodeNoise(
        np.concatenate([held.counts for _, held in finished]),
        np.concatenate([held.gain for _, held in finished]),
    )
    base, unit = public.base(facts), 1.0
    if not public.plan.n_classes:
        low, high = target_range(schema.label)
        unit = (high - low) / 2.0
        base = low + (base + 1.0) * unit
        forest = replace(forest, value=forest.value * unit)
        noise = replace(noise, counts=noise.counts * unit)
    boosted = Boosted(loss.link, base, public.choice.batch)
    return ForestModel(NAME, schema, forest, binning.bin_of_category, noise=noise, boosted=boosted)
