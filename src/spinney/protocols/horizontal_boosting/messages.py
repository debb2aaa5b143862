"""The questions of boosted trees over rows: sums of targets, sums of gradients, the final errors.

**Who learns what.** See `spinney.protocols.horizontal_boosting`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.horizontal_boosting.settings import Settings
from spinney.protocols.rows.levels import open_nodes
from spinney.protocols.rows.quality import QualityReply
from spinney.protocols.rows.setup import EdgesAsk, FactsAsk, SchemaAsk
from spinney.transport.channel import Ask, Vector
from spinney.transport.messages import kept_beside, message
from spinney.trees.batch import BatchFrontier, ColumnRules, GrownBatch, require_leaves
from spinney.trees.binning import Binning
from spinney.trees.counts import Counts
from spinney.trees.dtypes import MAX_ROWS
from spinney.trees.frontier import Draws, Frontier, Slots, tree_keys
from spinney.trees.level import Level, splits_only
from spinney.trees.losses import LOSSES, Loss, Units
from spinney.typing import Floats, Integers, Keys, Packs

_WEIGHT_ONE = 1 << 16
_WORD = 64
_LEAST_CELLS = 4


@message
class BoostingJob:
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

    @property
    def loss(self) -> Loss:
        """What is minimised."""
        return LOSSES[self.settings.loss]

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return self.loss.n_outputs(self.n_classes)

    @property
    def units(self) -> Units:
        """How rounded gradients are counted."""
        return self.loss.units(self.weights, self.target[1])

    @property
    def weights(self) -> Floats:
        """The weight of each class; 1 for regression."""
        return np.array(self.class_weight or (1.0,))

    @property
    def facts(self) -> Integers:
        """The weight of each class in steps of 2^-16 of the largest; or where the range begins."""
        if not self.n_classes:
            low, high = self.target
            return np.array([round(low / high * 2**30) if 0.0 <= low < high else 0], np.int64)
        shares: Integers = np.rint(self.weights / self.weights.max() * _WEIGHT_ONE).astype(np.int64)
        return shares

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
class BatchOfJob:
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
    def n_trees(self) -> int:
        """How many trees the batch has."""
        return len(self.job.settings.batch(self.number)) * self.job.n_outputs

    @property
    def output_of_tree(self) -> Integers:
        """The output that each tree adds to."""
        return np.arange(self.n_trees) % self.job.n_outputs

    @property
    def keys(self) -> Keys:
        """The key of each tree."""
        first = self.job.settings.batch(self.number).start * self.job.n_outputs
        return tree_keys(self.job.settings.seed, first + self.n_trees)[first:]

    @property
    def scale(self) -> float:
        """What a leaf's step is multiplied with: the learning rate over the trees of a batch."""
        return self.job.settings.learning_rate / len(self.job.settings.batch(self.number))

    def roots(self) -> Frontier:
        """Return the roots of the batch."""
        settings = self.job.settings
        draws = Draws(
            self.binning.columns.n_columns,
            settings.max_cells,
            _LEAST_CELLS,
            shared_phase=settings.max_features >= 1.0,
            # A leaf has so many rows at least; finer cells would tell of rows more than of cuts.
            cell_bits=settings.min_samples_leaf.bit_length() - 1,
        )
        return BatchFrontier.of_batch(
            self.binning.columns,
            ColumnRules(settings.colsample_bytree, settings.max_features, self.job.together),
            self.keys,
            draws=draws,
            bits=max(self.job.n_rows, 1).bit_length(),
        )


@message
class TargetsReply:
    """The sum of some targets."""

    sums: Integers  # (2,) rows, and their targets in steps of 2^-24 of the range

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.sums,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "TargetsReply":
        """Return the reply with these integers."""
        return cls(vectors[0])


@message
class TargetsAsk(Ask[TargetsReply]):
    """What do your targets sum to? (Regression only.)"""

    schema_digest: str
    reveals: ClassVar[str] = "the number of rows and the sum of their targets"
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
    def covers(self) -> tuple[int, int]:
        """The nodes asked about."""
        return (self.first, self.last)

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

    @property
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

    def _bits(self) -> list[int]:
        """Return how many bits rows, gradients and curvatures may have, summed over parties."""
        rows = int(self.frontier.bits[self.first : self.last].max(initial=1))
        units = self.job.units
        steps = [2 * units.g_steps, units.h_steps][: units.width - 1]
        return [rows, *(rows + step.bit_length() for step in steps)]

    def _words(self) -> list[list[int]]:
        """Return which counters of a cell share a word when masked, in order."""
        bits = self._bits()
        if sum(bits) <= _WORD:
            return [list(range(len(bits)))]
        if sum(bits[1:]) <= _WORD:
            return [[0], list(range(1, len(bits)))]
        return [[k] for k in range(len(bits))]

    def to_ring(self, reply: GradientsReply) -> tuple[Vector, ...]:
        """Return the counters of each cell side by side in as few words as hold their sums."""
        counters, bits = reply.counts.counters.astype(np.uint64), self._bits()
        out = []
        for group in self._words():
            word, at = np.zeros(len(counters), np.uint64), 0
            for k in group:
                word |= counters[:, k] << np.uint64(at)
                at += bits[k]
            out.append(word)
        return (*out, reply.losses.astype(np.uint64))

    def from_ring(self, sums: tuple[Vector, ...]) -> GradientsReply:
        """Return the sums as histograms."""
        *packed, losses = sums
        bits = self._bits()
        counters = np.zeros((len(packed[0]), len(bits)), np.int64)
        for group, held in zip(self._words(), packed, strict=True):
            words, at = held.view(np.uint64), 0
            for k in group:
                mask = np.uint64((1 << bits[k]) - 1) if bits[k] < _WORD else ~np.uint64(0)
                counters[:, k] = ((words >> np.uint64(at)) & mask).astype(np.int64)
                at += bits[k]
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


SUMMED: tuple[type[Ask[Any]], ...] = (FactsAsk, EdgesAsk, TargetsAsk, GradientsAsk, ErrorsAsk)
"""The questions whose replies are summed; under `secure_sum` they are masked."""


ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, *SUMMED)
"""Every question that a party answers."""
