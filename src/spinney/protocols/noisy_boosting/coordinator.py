"""The coordinator's side of boosting from noisy sums: it turns them into leaf values."""

from dataclasses import dataclass, replace

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.accounts.budget import summed_variance
from spinney.protocols.noisy_boosting.messages import (
    BoostedSoFar,
    FirstFactsAsk,
    LeafSumsAsk,
    PublicBoosting,
)
from spinney.protocols.noisy_boosting.settings import Settings
from spinney.protocols.training import Phases
from spinney.transport.channel import Channel
from spinney.trees.binning import Binning
from spinney.trees.bounded_gradients import VALUE_BITS
from spinney.trees.drawn_trees import DrawnTrees
from spinney.trees.posterior import Steps, steps_of
from spinney.typing import Floats, Integers, Progress


@dataclass(frozen=True)
class GrownBatch:
    """A batch of trees after its sums are known."""

    trees: DrawnTrees
    steps: Steps
    curvature: Floats  # (n_outputs, n_leaves) with noise
    value: Integers  # (n_outputs, n_leaves) what parties add to scores


@dataclass(frozen=True)
class Boosting:
    """Everything that was opened, and what follows from it."""

    public: PublicBoosting
    so_far: BoostedSoFar
    binning: Binning
    batches: tuple[GrownBatch, ...]


def boost(
    channel: Channel,
    public: PublicBoosting,
    settings: Settings,
    phases: Phases,
    progress: Progress,
) -> Boosting:
    """Boost with the parties on the channel, which have joined."""
    digest, n_parties = public.schema.digest(), public.plan.n_parties
    with phases.phase("binning"):
        progress("binning", 0, 0)
        facts = channel.sum(FirstFactsAsk(settings, digest, n_parties)).counters
        if facts.size != public.plan.n_base + public.plan.n_edge_cells:
            raise ProtocolError("A party's first facts do not have the numbers asked for.")
        binning = public.binning(facts)
    so_far = BoostedSoFar(settings, digest, n_parties, facts, ())
    grown: list[GrownBatch] = []
    with phases.phase("growing"):
        for number in range(len(public.batches)):
            progress("growing", number, len(public.batches))
            reply = channel.sum(LeafSumsAsk(so_far))
            grown.append(_grown(public, so_far, public.trees(binning, number), reply.counters))
            so_far = replace(so_far, values=(*so_far.values, grown[-1].value))
    return Boosting(public, so_far, binning, tuple(grown))


def _grown(
    public: PublicBoosting, so_far: BoostedSoFar, trees: DrawnTrees, counters: Integers
) -> GrownBatch:
    """Return what follows from the noisy sums of a batch's leaves."""
    plan, batch = public.plan, public.batches[len(so_far.values)]
    if counters.size != plan.n_values(batch):
        raise ProtocolError("A party's noisy sums do not match the leaves asked about.")
    variance = summed_variance(plan.batch_noise(batch), plan.n_parties)
    loss = public.loss_of(batch, so_far.facts)
    sums = counters.reshape(loss.n_sums, -1).astype(np.float64)
    gradient, curvature, spread = loss.read(sums, variance, so_far.facts[: plan.n_base])
    steps = steps_of(gradient, curvature, spread, batch.depth, loss.prior).with_one_root()
    value = np.rint(steps.of_nodes[-1] * public.choice.rate * 2.0**VALUE_BITS).astype(np.int64)
    return GrownBatch(trees, steps, curvature, value)
