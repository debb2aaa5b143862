"""The last round: how well does the finished forest do at each party?

The same for every protocol that grows trees over rows. Whoever asks says so in its own "who learns
what"; under masks only the sum over parties is opened.

**Who learns what.** The coordinator learns a confusion matrix, or error sums, of each party's own
rows. **Who never learns what.** Nobody learns which rows were judged, or how one of them was.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.growing import Job, PartyRows, frontier_after
from spinney.protocols.judging import QualityReply, judged, quality_of
from spinney.protocols.training import Quality
from spinney.transport.channel import Ask, Channel
from spinney.trees.counts import Counts
from spinney.trees.forest import Forest
from spinney.trees.frontier import tree_keys
from spinney.trees.growth import Growth
from spinney.trees.layout import LeafValues, forest_of_leaves
from spinney.trees.level import Level
from spinney.typing import Floats

_QUALITY_ROWS = 2048  # rows a party judges the forest by, where it need not judge by all


@dataclass(frozen=True)
class QualityAsk(Ask[QualityReply]):
    """How well does the finished forest do on your rows?"""

    job: Job
    levels: tuple[Level, ...]
    leaf_moments: Counts
    class_weight: Floats  # empty for regression: the forest then predicts fixed-point targets
    reveals: ClassVar[str] = "a confusion matrix, or error sums, over own rows"
    reply_type: ClassVar[type[Any]] = QualityReply

    @cached_property
    def forest(self) -> Forest:
        """The finished forest."""
        n_trees = self.job.settings.n_estimators
        n_leaves = n_trees + sum(int((level.feature >= 0).sum()) for level in self.levels)
        shape = (n_leaves, self.job.n_classes or 2)
        frontier_after(self.job, self.levels)  # refuses what does not fit
        if self.leaf_moments.counters.shape != shape or self.class_weight.shape != (
            self.job.n_classes,
        ):
            raise ProtocolError("The question's leaves do not fit its forest.")
        return forest_of_leaves(
            self.job.settings.n_estimators,
            self.levels,
            self.leaf_moments.counters,
            self.job.binning,
            LeafValues(self.class_weight, bits=self.job.target_bits),
        )


def _dropped_bits(job: Job) -> int:
    """Return how many bits amounts must lose so that the squares over all rows can be summed."""
    return max(0, job.target_bits - (62 - job.n_rows.bit_length()) // 2)


def answer_quality(ask: QualityAsk, rows: PartyRows, n_threads: int) -> QualityReply:
    """Judge the forest by a party's rows."""
    settings = ask.job.settings
    rows.forget_standing()
    return judged(
        rows.binned(ask.job),
        ask.job.binning,
        ask.forest,
        tree_keys(settings.seed, settings.n_estimators),
        most_rows=None if settings.oob_score else _QUALITY_ROWS,
        bootstrap=settings.bootstrap,
        drop_bits=_dropped_bits(ask.job),
        n_classes=ask.job.n_classes,
        n_threads=n_threads,
    )


def quality_over_parties(
    channel: Channel, job: Job, growth: Growth, values: LeafValues, forest: Forest
) -> tuple[dict[str, Quality], float | None]:
    """Return the forest's quality at each party, and its first score over all of them."""
    ask = QualityAsk(job, growth.levels, growth.leaf_moments, values.class_weight)
    if values.class_weight.size:
        ask.__dict__["forest"] = forest  # known here; others compute it
    if channel.is_masked:  # a party's own counts would show what masks hide
        counts = {"all parties": channel.sum(ask).counts}
    else:
        counts = {name: reply.counts for name, reply in channel.ask(ask).items()}
    step = values.step * 2.0 ** _dropped_bits(job)
    how: dict[str, Any] = {"bootstrap": job.settings.bootstrap, "step": step}
    pooled = quality_of(np.sum(list(counts.values()), axis=0), **how)
    quality = {name: quality_of(held, **how) for name, held in counts.items()}
    if job.terms:  # by the rows that the party shows to others: its own would cost budget
        quality = {name: replace(q, rows=f"{q.rows}, perturbed") for name, q in quality.items()}
    return quality, next(iter(pooled.scores.values()), None)
