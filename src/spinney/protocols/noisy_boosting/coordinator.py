"""The coordinator's side of boosting from noisy sums: it turns them into leaf values."""

from dataclasses import dataclass, replace

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.accounts.budget import summed_variance
from spinney.protocols.noisy_boosting.messages import (
    CLIP_BITS,
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
from spinney.trees.column_scores import ColumnScores, most_together
from spinney.trees.curve_fit import CurveFit
from spinney.trees.drawn_trees import DrawnTrees
from spinney.trees.posterior import Steps, steps_of
from spinney.trees.residuals import clip_of
from spinney.typing import Floats, Integers, Progress

_TOGETHER = 1.2  # how far trees of a round that say the same go together
_ALL_TOGETHER = 2.0  # and all trees of chosen columns, which may be copies of each other


@dataclass(frozen=True)
class GrownBatch:
    """A batch of trees after its sums are known."""

    trees: DrawnTrees
    steps: Steps  # as far as they go
    curvature: Floats  # (n_outputs, n_leaves) with noise
    value: Integers  # (n_outputs, n_leaves) what parties add to scores


@dataclass(frozen=True)
class Boosting:
    """Everything that was opened, and what follows from it."""

    public: PublicBoosting
    so_far: BoostedSoFar
    binning: Binning
    scores: ColumnScores
    batches: tuple[GrownBatch, ...] = ()  # that have trees
    curves: CurveFit | None = None

    def after(self, number: int, counters: Integers) -> "Boosting":
        """Return what follows from the noisy sums of a batch too."""
        plan, batch = self.public.plan, self.public.batches[number]
        if counters.size != plan.n_values(batch):
            raise ProtocolError("A party's noisy sums do not match the leaves asked about.")
        parts, so_far = iter(plan.parts(number, counters)), self.so_far
        batches, scores = self.batches, self.scores
        value = np.zeros((plan.loss.n_outputs, 0), np.int64)
        if batch.trees:
            trees = self.public.trees(self.binning, number, so_far.columns)
            grown, scores = _grown(self.public, so_far, trees, next(parts), scores)
            batches, value = (*batches, grown), grown.value
        told = replace(so_far, values=(*so_far.values, value))
        if self.public.choice.first_scored <= number + 1 < len(self.public.batches):
            columns = self.public.scored_columns(number + 1, scores)
            told = replace(told, columns=(*told.columns, columns))
        pulls = next(parts) if batch.bends else None
        if batch.counts_residuals:
            deviation = summed_variance(plan.residual_noise, plan.n_parties) ** 0.5
            told = replace(told, clip=_fallen(so_far.clip, clip_of(next(parts), deviation)))
        if pulls is None:
            return replace(self, so_far=told, batches=batches, scores=scores)
        curves = self.curves
        if curves is None:
            variance = summed_variance(plan.moment_noise, plan.n_parties)
            curves = CurveFit.of(self.public.terms(self.binning), next(parts), variance)
        variance = summed_variance(plan.pull_noise, plan.n_parties)
        clip = self.public.pulling(so_far).clip
        curves, moved = curves.step(pulls, clip, variance, alone=not batch.trees)
        told = replace(told, curves=(*so_far.curves, moved))
        return replace(self, so_far=told, batches=batches, curves=curves, scores=scores)


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
    scores = ColumnScores.none(public.plan.n_columns)
    so_far = BoostedSoFar(settings, digest, n_parties, facts, ())
    boosting = Boosting(public, so_far, binning, scores)
    with phases.phase("growing"):
        for number in range(len(public.batches)):
            progress("growing", number, len(public.batches))
            reply = channel.sum(LeafSumsAsk(boosting.so_far))
            boosting = boosting.after(number, reply.counters)
    return boosting


def _fallen(clip: int, told: float | None) -> int:
    """Return the clip after residuals were counted: it only falls."""
    if told is None:
        return clip
    found = int(np.rint(told * 2.0**CLIP_BITS))
    return min(clip, found) if clip else found


def _grown(
    public: PublicBoosting,
    so_far: BoostedSoFar,
    trees: DrawnTrees,
    counters: Integers,
    scores: ColumnScores,
) -> tuple[GrownBatch, ColumnScores]:
    """Return what follows from the noisy sums of a batch's leaves."""
    number = len(so_far.values)
    plan, batch, rate = public.plan, public.batches[number], public.choice.rate
    variance = summed_variance(plan.batch_noise(batch), plan.n_parties)
    loss = public.loss_of(batch, so_far)
    sums = counters.reshape(loss.n_sums, -1).astype(np.float64)
    gradient, curvature, spread = loss.read(sums, variance, so_far.facts[: plan.n_base])
    steps = steps_of(gradient, curvature, spread, batch.depth, loss.prior).with_one_root()
    if public.choice.scores_columns:
        scores = scores.after(trees, steps, curvature)
        columns = public.columns(number, so_far.columns)
        rate = min(rate, _TOGETHER / most_together(columns, plan.n_columns))
        if number >= public.choice.first_scored:
            rate = min(rate, _ALL_TOGETHER / len(columns))
    steps = steps.shortened(rate)
    value = np.rint(steps.of_nodes[-1] * 2.0**VALUE_BITS).astype(np.int64)
    return GrownBatch(trees, steps, curvature, value), scores
