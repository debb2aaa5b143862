"""The questions of boosted trees over rows: sums of targets, sums of gradients, the final errors.

**Who learns what.** See `spinney.protocols.horizontal_boosting`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.boosted.objective import BatchTrees, Objective
from spinney.protocols.boosted.settings import Settings
from spinney.protocols.rows.levels import open_nodes
from spinney.protocols.rows.quality import QualityReply
from spinney.protocols.rows.setup import EdgesAsk, FactsAsk, OwnEdgesAsk, SchemaAsk
from spinney.transport.channel import Ask, Vector
from spinney.transport.messages import kept_beside, message
from spinney.trees.batch import BatchFrontier, ColumnRules, GrownBatch, require_leaves
from spinney.trees.binning import Binning
from spinney.trees.counts import Counts
from spinney.trees.dtypes import MAX_ROWS
from spinney.trees.frontier import Frontier, Slots
from spinney.trees.gradient_fields import GradientFields, Widths
from spinney.trees.level import Level, splits_only
from spinney.typing import Integers, Packs

WEIGHT_DROPPED = 10  # low bits of a target times its weight, so that sums do not overflow


@message
class BoostingJob(Objective):
    """What every question about boosted trees repeats, so that it can be answered on its own."""

    settings: Settings
    schema_digest: str
    binning: Binning
    n_classes: int  # 0 for regression
    n_rows: int  # over all parties
    n_parties: int
    base: tuple[int, ...]  # the score of each output before the first tree
    class_weight: tuple[float, ...]  # empty for regression
    target: tuple[float, float] = (0.0, 1.0)  # the range of a number
    directions: tuple[int, ...] = ()  # of each column, as `monotonic_cst` says; empty: any
    together: tuple[tuple[int, ...], ...] = ()  # columns that may be on one path; empty: any

    def __post_init__(self) -> None:
        if not 0 <= self.n_rows < MAX_ROWS:
            raise ProtocolError(f"A job must have fewer than {MAX_ROWS} rows.")
        if len(self.base) != self.n_outputs or len(self.class_weight) != self.n_classes:
            raise ProtocolError("The question's first scores do not fit its classes.")
        n_columns = len(self.binning.edges)
        if any(not 0 <= column < n_columns for held in self.together for column in held):
            raise ProtocolError("The question's sets of columns do not fit its columns.")

    @kept_beside
    def digest(self) -> bytes:
        """A digest of the whole job."""
        words = f"{self.schema_digest} {self.settings!r} {self.n_rows} {self.base}"
        return (
            f"{words} {self.class_weight} {self.together} {self.target}".encode()
            + self.binning.digest()
        )

    def batch(self, number: int) -> "BatchOfJob":
        """Return a batch of the job, for which open nodes can be derived."""
        return BatchOfJob(self, number)


@dataclass(frozen=True)
class BatchOfJob(BatchTrees):
    """One batch of a job's trees, as its open nodes depend on it: `n_outputs` trees a round."""

    job: BoostingJob
    number: int

    @property
    def digest(self) -> bytes:
        """A digest of everything that decides the open nodes."""
        return self.job.digest + self.number.to_bytes(4, "little")

    @property
    def binning(self) -> Binning:
        """The bins of every column."""
        return self.job.binning

    @property
    def settings(self) -> Settings:  # type: ignore[override]
        """The settings of the job."""
        return self.job.settings

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        """How many scores a row has."""
        return self.job.n_outputs

    def roots(self) -> Frontier:
        """Return the roots of the batch."""
        settings = self.settings
        draws = self.draws(self.binning.columns.n_columns)
        return BatchFrontier.of_batch(
            self.binning.columns,
            ColumnRules(settings.colsample_bytree, settings.max_features, self.job.together),
            self.keys,
            draws=draws,
            bits=max(self.job.n_rows, 1).bit_length(),
        )


@message
class TargetsReply:
    """The sum of some targets, or of the weights of rows by class."""

    sums: Integers  # (2,) rows, and their targets in steps of 2^-24 of the range; or by class

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.sums,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "TargetsReply":
        """Return the reply with these integers."""
        return cls(vectors[0])


@message
class TargetsAsk(Ask[TargetsReply]):
    """What do your targets sum to? Of classes, if rows have weights: how much do they weigh?"""

    schema_digest: str
    largest_weight: float | None = None
    reveals: ClassVar[str] = "the number of rows and the sum of their targets; or their weights"
    reply_type: ClassVar[type[Any]] = TargetsReply


@message
class GradientsReply:
    """Sums of gradients; with the first question of a batch also sums of the loss so far."""

    counts: Counts
    losses: Integers  # rows and loss of training rows, then of validation rows; or nothing

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.counts.counters, self.losses)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "GradientsReply":
        """Return the reply with these integers."""
        counters, losses = vectors
        return cls(Counts(counters, np.array([len(counters)])), losses)


@message
class GradientsAsk(Ask[GradientsReply]):
    """What do the gradients of these open nodes' rows sum to, in the cells of their features?"""

    job: BoostingJob
    grown: tuple[GrownBatch, ...]  # all finished batches
    levels: tuple[Level, ...]  # of the batch that grows
    first: int  # open nodes first to last, in the order of the frontier
    last: int
    widths: Widths  # bits of the sums over all parties, if they are masked; else nothing
    reveals: ClassVar[str] = (
        "histograms of tree nodes: rows, gradients and curvatures of the loss, over bins that all "
        "parties know; with a batch's first question the loss of all rows"
    )
    reply_type: ClassVar[type[Any]] = GradientsReply
    ring_is_fresh: ClassVar[bool] = True

    @property
    def step(self) -> int:
        """How many levels of all batches are finished, if each batch has all of its levels."""
        return len(self.grown) * self.job.settings.max_depth + len(self.levels)

    @property
    def story(self) -> tuple[Packs, ...]:
        """The levels of all batches, each followed by its leaves' values, and the levels so far."""
        return (*story_of(self.grown), *splits_only(self.levels))

    @property
    def batch(self) -> BatchOfJob:
        """The batch that grows."""
        if len(self.grown) >= self.job.settings.n_batches:
            raise ProtocolError("The question is about more trees than the job has.")
        return self.job.batch(len(self.grown))

    @kept_beside
    def frontier(self) -> Frontier:
        """All open nodes, derived from the levels."""
        return open_nodes(self.batch, self.levels)

    @kept_beside
    def slots(self) -> Slots:
        """The cells that are asked about in these nodes."""
        return self.frontier.asked.part(self.first, self.last)

    @property
    def reply_bytes(self) -> int:
        """The counters of each cell, and the end of each slot's run."""
        return self.slots.n_cells * 8 * self.job.units.width + 8 * self.slots.cells.size

    @property
    def n_losses(self) -> int:
        """How many sums of the loss a reply has."""
        return 0 if self.levels or self.first else 4

    def laid_out(self, total: GradientsReply) -> GradientsReply:
        """Return histograms in runs of their slots, whose counts are of similar size."""
        runs = Counts(total.counts.counters, self.slots.ends.reshape(-1))
        return GradientsReply(runs, total.losses)

    @kept_beside
    def fields(self) -> GradientFields:
        """The counters of the cells asked about, as they are masked."""
        return GradientFields(self.slots, self.widths)

    def to_ring(self, reply: GradientsReply) -> tuple[Vector, ...]:
        """Return the counters side by side in as few words as hold their sums."""
        return (self.fields.words(reply.counts.counters), reply.losses.astype(np.uint64))

    def from_ring(self, sums: tuple[Vector, ...]) -> GradientsReply:
        """Return the sums as histograms."""
        words, losses = sums
        counters = self.fields.counters(words.view(np.uint64))
        return GradientsReply.of_vectors((counters, losses.view(np.int64)))


@message
class ErrorsAsk(Ask[QualityReply]):
    """How well do the finished trees predict your rows?"""

    job: BoostingJob
    grown: tuple[GrownBatch, ...]
    reveals: ClassVar[str] = "a confusion matrix, or error sums, over own rows"
    reply_type: ClassVar[type[Any]] = QualityReply

    @property
    def story(self) -> tuple[Packs, ...]:
        """The levels of all batches, each followed by its leaves' values."""
        return story_of(self.grown)


@message
class CurveReply:
    """The loss of own training rows before the first batch, and after each."""

    losses: Integers  # (n_batches + 1, 2) rows, or their weight, and their loss


@message
class CurveAsk(Ask[CurveReply]):
    """How did the loss of your training rows fall, batch by batch?"""

    job: BoostingJob
    grown: tuple[GrownBatch, ...]
    reveals: ClassVar[str] = "the loss of own training rows after each batch of trees"
    reply_type: ClassVar[type[Any]] = CurveReply
    refused_under_masks: ClassVar[bool] = True

    @property
    def story(self) -> tuple[Packs, ...]:
        """The levels of all batches, each followed by its leaves' values."""
        return story_of(self.grown)


def story_of(grown: tuple[GrownBatch, ...]) -> tuple[Packs, ...]:
    """Return the steps of finished batches, in order."""
    return tuple(step for batch in grown for step in batch.story)


def require_grown(job: BoostingJob, number: int, batch: GrownBatch) -> None:
    """Raise unless a finished batch fits its job: kernels do not check what others sent."""
    if number >= job.settings.n_batches or len(batch.levels) > job.settings.max_depth:
        raise ProtocolError("The question is about more trees than the job has.")
    of_job = job.batch(number)
    require_leaves(batch, of_job.n_trees)
    if open_nodes(of_job, batch.levels).n_open:
        raise ProtocolError("A finished batch has open nodes.")


SUMMED: tuple[type[Ask[Any]], ...] = (
    FactsAsk,
    EdgesAsk,
    OwnEdgesAsk,
    TargetsAsk,
    GradientsAsk,
    ErrorsAsk,
)
"""The questions whose replies are summed; under `secure_sum` they are masked."""


ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, *SUMMED, CurveAsk)
"""Every question that a party answers."""
